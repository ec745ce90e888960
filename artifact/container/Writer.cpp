#include "artifact/container/Writer.h"

#include "artifact/container/Names.h"
#include "artifact/container/PartFiles.h"
#include "artifact/container/Reader.h"
#include "artifact/container/Segments.h"
#include "artifact/container/Signature.h"
#include "support/Bytes.h"
#include "support/Checked.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace ninfer {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kPartPayloadOffset = 4096;
/// In part names until the content is known.
constexpr std::string_view kNoToken = "0000000000000000";

/// 16 bytes in the form of a version 8 UUID (RFC 9562: free content).
ArtifactId contentId(std::string_view directoryText, const Sha256Digest &payload) {
  Sha256 hash;
  hash.update(directoryText).update(std::as_bytes(std::span(payload)));
  const Sha256Digest digest = hash.finish();
  ArtifactId id;
  std::copy_n(digest.begin(), id.size(), id.begin());
  id[6] = uint8_t((id[6] & 0x0f) | 0x80);
  id[8] = uint8_t((id[8] & 0x3f) | 0x80);
  return id;
}

Status planError(const std::filesystem::path &target, const std::string &why) {
  return makeError(ErrorKind::Failed, "NB0107", target.string() + ": " + why);
}

/// Spells the registry's names as framing 2 does; refuses what that framing has no place for.
Status toFraming2(Directory &directory, const std::filesystem::path &target) {
  directory.framing = 2;
  if (!directory.identity)
    return planError(target, "framing 2 needs a model id and a weights id");
  if (!directory.components.empty() || !directory.bindings.empty() || !directory.uses.empty())
    return planError(target, "framing 2 holds objects only, no components, bindings or uses");
  for (ObjectEntry &object : directory.objects) {
    if (object.format)
      object.formatName = *nameInFraming(2, *object.format);
    if (object.layout)
      object.layoutName = *nameInFraming(2, *object.layout);
    if (!object.isTensor)
      object.encoding = rawEncodingName(2);
  }
  return {};
}

} // namespace

struct ArtifactWriter::Impl {
  /// One file and the payload segment in it.
  ///
  /// The payload is written in whole aligned blocks of the size of a huge page. A file system with large folios then keeps each in
  /// the page cache as one, and a mapping of the file shows it as one: linear maps that read it are 8 to 15 % faster, on the
  /// machine that wrote it, until the file leaves the cache. (What is read from the device comes in large folios anyway.)
  struct Output {
    static constexpr uint64_t kBlock = uint64_t(2) << 20;

    AtomicFile file;
    uint64_t begin = 0, end = 0; ///< in the logical payload
    uint64_t fileOffset = 0;     ///< of `begin`
    std::vector<std::byte> block; ///< not yet written
    uint64_t blockOffset = 0;     ///< of it, in the file

    /// Bytes of the payload at a rising file offset; what lies between is zero.
    Status put(uint64_t offset, std::span<const std::byte> bytes);
    /// Writes what is left in `block`.
    Status flush();
  };

  std::filesystem::path target;
  std::vector<Output> outputs; ///< the entry first
  Directory directory;         ///< with `files`
  std::string text;            ///< of the directory, without padding
  WriterOptions options;
  uint64_t headerBytes = 0, payloadOffset = 0, payloadBytes = 0;
  uint32_t current = 0; ///< object being written
  uint64_t written = 0; ///< bytes of it
  uint64_t hashed = 0;  ///< payload bytes in `hash`, gaps included
  Sha256 hash;

  Status planFiles();
  Status checkPlan() const;
  Status createFiles();
  Status writeHeads(const ArtifactId &id);
  Status writePayload(uint64_t offset, std::span<const std::byte> bytes);
  Status nameParts(const ArtifactId &id);
  Status readBack(const WriteReport &report);
  Status publish(const ArtifactId &id);
  /// Drops the unpublished files, and published parts that no entry refers to.
  void abandon(const ArtifactId &id);
  std::vector<PartCandidate> parts(const ArtifactId &id) const;
  std::string entryName() const { return target.filename().string(); }

  void hashGap(uint64_t end) {
    static constexpr std::byte kZeros[4096] = {};
    while (hashed < end) {
      const uint64_t count = std::min<uint64_t>(end - hashed, sizeof kZeros);
      hash.update(std::span(kZeros, count));
      hashed += count;
    }
  }
};

ArtifactWriter::ArtifactWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ArtifactWriter::ArtifactWriter(ArtifactWriter &&) noexcept = default;
ArtifactWriter &ArtifactWriter::operator=(ArtifactWriter &&) noexcept = default;
ArtifactWriter::~ArtifactWriter() = default;

Result<ArtifactWriter> ArtifactWriter::create(const std::filesystem::path &target,
                                              const ArtifactPlan &plan, WriterOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->target = target;
  impl->options = std::move(options);
  impl->directory = plan.directory();
  impl->directory.artifactId = {};
  impl->payloadBytes = plan.payloadBytes();
  if (impl->options.framing == 2)
    NINFER_RETURN_IF_ERROR(toFraming2(impl->directory, target));
  else
    impl->directory.framing = 3;
  NINFER_RETURN_IF_ERROR(impl->planFiles());
  NINFER_RETURN_IF_ERROR(impl->checkPlan());
  NINFER_RETURN_IF_ERROR(impl->createFiles());
  return ArtifactWriter(std::move(impl));
}

/// Sets text, files, and where the payload starts.
Status ArtifactWriter::Impl::planFiles() {
  const auto named = [&](Status status) {
    if (status.ok())
      return status;
    Error error = status.takeError();
    error.message = target.string() + ": " + error.message;
    return Status(std::move(error));
  };
  headerBytes = directory.framing == 3 ? 32 : 16;
  if (directory.framing == 3) {
    auto segments = segmentPayload(
        payloadBytes, options.maxFileBytes,
        [&](size_t index) { return partFileName(entryName(), std::string(kNoToken), index); },
        [&](const std::vector<FileEntry> &files) {
          directory.files = files;
          return encodeDirectory(directory);
        });
    if (!segments.ok())
      return named(segments.takeStatus());
    text = std::move(segments->text);
    payloadOffset = headerBytes + segments->jsonBytes;
  } else {
    directory.files = {FileEntry{std::nullopt, payloadBytes}};
    auto encoded = encodeDirectory(directory);
    if (!encoded.ok())
      return named(encoded.takeStatus());
    text = encoded.take();
    payloadOffset = *checkedAlignUp(headerBytes + text.size(), kPage);
    const auto end = checkedAdd(payloadOffset, payloadBytes);
    if (options.maxFileBytes && (!end || *end > *options.maxFileBytes))
      return makeError(ErrorKind::Usage, "NB0111",
                       target.string() + ": a file size of at most " +
                           std::to_string(*options.maxFileBytes) +
                           " bytes: framing 2 has one file, and it would take " +
                           (end ? std::to_string(*end) : "more than 2^64-1"));
  }
  if (!checkedAdd(payloadOffset, payloadBytes))
    return planError(target, "file size exceeds 2^64-1 bytes");
  return {};
}

/// What the reader would refuse is refused before a byte is written.
Status ArtifactWriter::Impl::checkPlan() const {
  const std::string name = entryName();
  NINFER_RETURN_IF_ERROR(checkDirectoryBytes(
      directory.framing == 3 ? payloadOffset - headerBytes : text.size(), name));
  NINFER_ASSIGN_OR_RETURN(
      const Directory parsed,
      directory.framing == 3 ? parseDirectory(text, name)
                             : parseIdentityDirectory(text, directory.framing, payloadBytes, name));
  NINFER_RETURN_IF_ERROR(checkAllObjects(parsed, name));
  if (storageSignatureText(parsed) != storageSignatureText(directory))
    return planError(target, "the directory does not survive its JSON form (a whole binding with a "
                             "partial range, or names that disagree)");
  return {};
}

Status ArtifactWriter::Impl::createFiles() {
  uint64_t begin = 0;
  for (size_t i = 0; i < directory.files.size(); ++i) {
    Output output;
    output.begin = begin;
    output.end = begin += directory.files[i].payloadBytes;
    output.fileOffset = i == 0 ? payloadOffset : kPartPayloadOffset;
    // A part takes its name when the content is known; until then it is a file of the entry's. A
    // part of equal content may be there already.
    NINFER_ASSIGN_OR_RETURN(
        output.file,
        AtomicFile::create(target, i == 0 ? options.existing : AtomicFile::Existing::Replace));
    NINFER_RETURN_IF_ERROR(
        output.file.resize(output.fileOffset + (output.end - output.begin), options.reserve));
    outputs.push_back(std::move(output));
  }
  if (const auto stray = strayParts(target); !stray.empty()) {
    NINFER_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::take(folderOf(target)));
    removeUnreferencedParts(folderOf(target), stray);
  }
  return {};
}

Status ArtifactWriter::append(uint32_t object, std::span<const std::byte> chunk) {
  Impl &impl = *impl_;
  const std::vector<ObjectEntry> &objects = impl.directory.objects;
  const auto fail = [&](const std::string &why) {
    return makeError(ErrorKind::Failed, "NB0108", impl.target.string() + ": " + why);
  };
  if (object >= objects.size())
    return fail("no object " + std::to_string(object) + " in the plan");
  if (object != impl.current) {
    if (object != impl.current + 1 || impl.written != objects[impl.current].bytes)
      return fail("object '" + objects[object].id + "' is out of order: '" +
                  objects[impl.current].id + "' has " + std::to_string(impl.written) + " of " +
                  std::to_string(objects[impl.current].bytes) + " bytes");
    impl.current = object;
    impl.written = 0;
  }
  const ObjectEntry &entry = objects[object];
  if (chunk.size() > entry.bytes - impl.written)
    return fail("object '" + entry.id + "' gets more than its planned " +
                std::to_string(entry.bytes) + " bytes");
  impl.hashGap(entry.offset);
  impl.hash.update(chunk);
  impl.hashed += chunk.size();
  NINFER_RETURN_IF_ERROR(impl.writePayload(entry.offset + impl.written, chunk));
  impl.written += chunk.size();
  return {};
}

Status ArtifactWriter::Impl::writePayload(uint64_t offset, std::span<const std::byte> bytes) {
  auto at = std::upper_bound(outputs.begin(), outputs.end(), offset,
                             [](uint64_t value, const Output &o) { return value < o.end; });
  for (; !bytes.empty(); ++at) {
    const auto piece = bytes.first(std::min<uint64_t>(bytes.size(), at->end - offset));
    NINFER_RETURN_IF_ERROR(at->put(at->fileOffset + (offset - at->begin), piece));
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
    if (offset == at->end)
      NINFER_RETURN_IF_ERROR(at->flush());
  }
  return {};
}

Status ArtifactWriter::Impl::Output::put(uint64_t offset, std::span<const std::byte> bytes) {
  if (!block.empty()) {
    const uint64_t blockEnd = blockOffset / kBlock * kBlock + kBlock;
    if (offset < blockEnd)
      block.resize(offset - blockOffset);
    else
      NINFER_RETURN_IF_ERROR(flush());
  }
  while (!bytes.empty()) {
    const uint64_t inBlock = offset % kBlock;
    uint64_t count = std::min<uint64_t>(bytes.size(), kBlock - inBlock);
    if (count == kBlock) { // whole blocks need no copy
      count = bytes.size() / kBlock * kBlock;
      NINFER_RETURN_IF_ERROR(file.writeAt(offset, bytes.first(count)));
    } else {
      if (block.empty())
        blockOffset = offset;
      block.insert(block.end(), bytes.begin(), bytes.begin() + ptrdiff_t(count));
      if (inBlock + count == kBlock)
        NINFER_RETURN_IF_ERROR(flush());
    }
    offset += count;
    bytes = bytes.subspan(count);
  }
  return {};
}

Status ArtifactWriter::Impl::Output::flush() {
  const std::vector<std::byte> bytes = std::exchange(block, {});
  return bytes.empty() ? Status() : file.writeAt(blockOffset, bytes);
}

Result<WriteReport> ArtifactWriter::finish() {
  Impl &impl = *impl_;
  const std::string target = impl.target.string();
  const std::vector<ObjectEntry> &objects = impl.directory.objects;
  if (impl.current + 1 != objects.size() || impl.written != objects.back().bytes)
    return makeError(ErrorKind::Failed, "NB0108",
                     target + ": incomplete, object '" + objects[impl.current].id + "' (" +
                         std::to_string(impl.current + 1) + " of " +
                         std::to_string(objects.size()) + ") has " + std::to_string(impl.written) +
                         " of " + std::to_string(objects[impl.current].bytes) + " bytes");
  impl.hashGap(impl.payloadBytes);
  WriteReport report;
  report.payloadOffset = impl.payloadOffset;
  report.payloadSha256 = impl.hash.finish();
  report.storageSignature = storageSignature(impl.directory);
  if (impl.directory.framing == 3)
    report.artifactId = contentId(impl.text, report.payloadSha256);
  NINFER_RETURN_IF_ERROR(impl.nameParts(report.artifactId));
  for (const Impl::Output &output : impl.outputs) {
    const uint64_t bytes = output.fileOffset + (output.end - output.begin);
    report.files.emplace_back(output.file.target().filename().string(), bytes);
    report.fileBytes += bytes;
  }
  for (Impl::Output &output : impl.outputs)
    NINFER_RETURN_IF_ERROR(output.flush());
  NINFER_RETURN_IF_ERROR(impl.writeHeads(report.artifactId));
  for (Impl::Output &output : impl.outputs)
    NINFER_RETURN_IF_ERROR(output.file.sync());
  NINFER_RETURN_IF_ERROR(impl.readBack(report));
  if (Status status = impl.publish(report.artifactId); !status.ok()) {
    impl.abandon(report.artifactId);
    return status;
  }
  return report;
}

/// The part names with the token of the id; the text keeps its length.
Status ArtifactWriter::Impl::nameParts(const ArtifactId &id) {
  if (outputs.size() == 1)
    return {};
  const size_t before = text.size();
  for (size_t i = 1; i < outputs.size(); ++i) {
    directory.files[i].path = partFileName(entryName(), partToken(id), i);
    outputs[i].file.setName(*directory.files[i].path);
  }
  NINFER_ASSIGN_OR_RETURN(text, encodeDirectory(directory));
  return text.size() == before ? Status()
                               : planError(target, "the names of the parts changed their length");
}

Status ArtifactWriter::Impl::writeHeads(const ArtifactId &id) {
  std::string head("NINFER\0\0", 8);
  head[7] = char(directory.framing);
  head.resize(headerBytes, '\0');
  if (directory.framing == 3) {
    storeLe64(head.data() + 8, payloadOffset - headerBytes);
    std::memcpy(head.data() + 16, id.data(), id.size());
    head += text;
    head.resize(payloadOffset, ' ');
  } else {
    storeLe64(head.data() + 8, text.size());
    head += text;
    head.resize(payloadOffset, '\0');
  }
  NINFER_RETURN_IF_ERROR(outputs[0].file.writeAt(0, asByteSpan(head)));
  for (size_t i = 1; i < outputs.size(); ++i) {
    std::string part("NINPRT\0\x03", 8);
    part.resize(32);
    storeLe64(part.data() + 8, i);
    std::memcpy(part.data() + 16, id.data(), id.size());
    NINFER_RETURN_IF_ERROR(outputs[i].file.writeAt(0, asByteSpan(part)));
  }
  return {};
}

/// What is on the device, through the reader, is what was meant.
Status ArtifactWriter::Impl::readBack(const WriteReport &report) {
  std::vector<std::filesystem::path> partPaths;
  for (size_t i = 1; i < outputs.size(); ++i)
    partPaths.push_back(outputs[i].file.reopenPath());
  NINFER_ASSIGN_OR_RETURN(const Artifact artifact, Artifact::open(outputs[0].file.reopenPath(),
                                                                  target, std::move(partPaths)));
  artifact.advise(MappedFile::Access::Sequential);
  if (artifact.directoryText() != text || artifact.directory().artifactId != report.artifactId)
    return makeError(ErrorKind::Failed, "NB0108",
                     target.string() + ": reading the file back gives another directory");
  if (options.verifyContent) {
    VerifyOptions verify;
    verify.onBytes = options.onVerified;
    NINFER_ASSIGN_OR_RETURN(const VerifyReport content, verifyArtifact(artifact, verify));
    NINFER_RETURN_IF_ERROR(verifyReportStatus(content, target.string()));
  }
  constexpr uint64_t kWindow = uint64_t(32) << 20;
  Sha256 again;
  for (uint64_t at = 0; at < payloadBytes;) {
    const uint64_t count = std::min(kWindow, payloadBytes - at);
    NINFER_ASSIGN_OR_RETURN(const auto window, artifact.range(at, count));
    again.update(window);
    at += count;
    artifact.release();
  }
  if (again.finish() != report.payloadSha256)
    return makeError(ErrorKind::Failed, "NB0108",
                     target.string() + ": reading the file back gives another payload digest");
  return options.check ? options.check(artifact) : Status();
}

std::vector<PartCandidate> ArtifactWriter::Impl::parts(const ArtifactId &id) const {
  std::vector<PartCandidate> out;
  for (size_t i = 1; i < directory.files.size(); ++i)
    out.push_back({folderOf(target) / *directory.files[i].path, id, i});
  return out;
}

/// Parts, their names on the device, entry, its name on the device, then what it replaced. The lock
/// keeps other writers from taking the parts for stray ones in between.
Status ArtifactWriter::Impl::publish(const ArtifactId &id) {
  const std::filesystem::path folder = folderOf(target);
  if (outputs.size() == 1 && partsOf(target).empty())
    return outputs[0].file.publish();
  NINFER_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::take(folder));
  for (const PartCandidate &part : parts(id))
    NINFER_RETURN_IF_ERROR(checkPartReplaceable(part));
  for (size_t i = 1; i < outputs.size(); ++i)
    NINFER_RETURN_IF_ERROR(outputs[i].file.giveName());
  if (outputs.size() > 1)
    NINFER_RETURN_IF_ERROR(syncFolder(folder));
  const std::vector<PartCandidate> replaced = partsOf(target);
  NINFER_RETURN_IF_ERROR(outputs[0].file.publish());
  outputs.clear();
  removeUnreferencedParts(folder, replaced);
  return {};
}

void ArtifactWriter::Impl::abandon(const ArtifactId &id) {
  outputs.clear();
  if (directory.files.size() == 1)
    return;
  if (const auto lock = FolderLock::take(folderOf(target)); lock.ok())
    removeUnreferencedParts(folderOf(target), parts(id));
}

} // namespace ninfer
