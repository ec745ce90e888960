#include "artifact/container/Reader.h"

#include "artifact/container/Limits.h"
#include "artifact/container/Names.h"
#include "artifact/container/PayloadMap.h"
#include "support/Bytes.h"
#include "support/Checked.h"

#include <algorithm>
#include <cstring>

namespace ninfer {

namespace {

constexpr uint64_t kPage = 4096;
constexpr std::string_view kEntryMagic("NINFER\0", 7); ///< the framing follows
constexpr std::string_view kPartMagic("NINPRT\0\x03", 8);

/// Framing of the file by its first eight bytes.
Result<int> framingOf(std::string_view magic, const std::string &file) {
  if (magic == kPartMagic) {
    Status status = makeError(ErrorKind::BadFile, "NB0101",
                              file + ": a part of a .ninfer artifact, not its entry file");
    return std::move(status.help("name the entry file; it lies beside the part"));
  }
  if (magic.substr(0, 7) != kEntryMagic)
    return makeError(ErrorKind::BadFile, "NB0101", file + ": not a .ninfer file (wrong magic)");
  const int framing = static_cast<unsigned char>(magic[7]);
  if (framing < 1 || framing > 3) {
    Status status = makeError(ErrorKind::Unsupported, "NB0102",
                              file + ": .ninfer framing " + std::to_string(framing) +
                                  " is not supported, expected framing 1, 2 or 3");
    if (framing > 3)
      status.help("the file was written for a newer version of the format");
    return status;
  }
  return framing;
}

} // namespace

Artifact::Artifact() = default;
Artifact::Artifact(Artifact &&) noexcept = default;
Artifact &Artifact::operator=(Artifact &&) noexcept = default;
Artifact::~Artifact() = default;

Result<Artifact> Artifact::open(const std::filesystem::path &path,
                                const std::filesystem::path &shownPath,
                                std::vector<std::filesystem::path> partPaths) {
  Artifact artifact;
  artifact.path_ = shownPath.empty() ? path : shownPath;
  const std::string file = artifact.path_.string();
  NINFER_ASSIGN_OR_RETURN(artifact.map_, PayloadMap::open(path, artifact.path_));
  const std::string_view content = asText(artifact.map_->entry());

  if (content.size() < 8)
    return makeError(ErrorKind::BadFile, "NB0101",
                     file + ": not a .ninfer file (" + std::to_string(content.size()) + " bytes)");
  NINFER_ASSIGN_OR_RETURN(const int framing, framingOf(content.substr(0, 8), file));
  const auto fail = [&](const std::string &why) {
    return makeError(ErrorKind::BadFile, "NB0103", file + ": " + why);
  };
  const uint64_t headerBytes = framing == 3 ? 32 : 16;
  if (content.size() < headerBytes)
    return fail("file ends inside the header, expected at least " + std::to_string(headerBytes) +
                " bytes, got " + std::to_string(content.size()));
  const uint64_t jsonBytes = loadLe64(content.data() + 8);
  if (jsonBytes == 0 || jsonBytes > content.size() - headerBytes)
    return fail("directory length " + std::to_string(jsonBytes) + " is outside 1.." +
                std::to_string(content.size() - headerBytes) + ", what the file can hold");
  NINFER_RETURN_IF_ERROR(checkDirectoryBytes(jsonBytes, file));
  const uint64_t payloadOffset = *checkedAlignUp(headerBytes + jsonBytes, kPage);
  if (content.size() < payloadOffset)
    return fail("file has " + std::to_string(content.size()) +
                " bytes and ends before its payload, which starts at " +
                std::to_string(payloadOffset));
  artifact.payloadOffset_ = payloadOffset;
  const std::string name = artifact.path_.filename().string();
  std::string_view text = content.substr(headerBytes, jsonBytes);
  if (framing == 3) {
    NINFER_ASSIGN_OR_RETURN(artifact.directory_, parseDirectory(text, name));
    std::memcpy(artifact.directory_.artifactId.data(), content.data() + 16, 16);
  } else {
    NINFER_ASSIGN_OR_RETURN(
        artifact.directory_,
        parseIdentityDirectory(text, framing, content.size() - payloadOffset, name));
  }
  text.remove_suffix(text.size() - 1 - std::min(text.find_last_not_of(" \t\r\n"), text.size() - 1));
  artifact.directoryText_ = text;

  const std::vector<FileEntry> &files = artifact.directory_.files;
  const auto end = checkedAdd(payloadOffset, files[0].payloadBytes);
  if (!end || *end != content.size())
    return fail("file has " + std::to_string(content.size()) + " bytes, expected " +
                (end ? std::to_string(*end) : "more than 2^64-1") + " (payload offset " +
                std::to_string(payloadOffset) + " + payload_bytes " +
                std::to_string(files[0].payloadBytes) + ")");
  for (const FileEntry &entry : files) // the total was checked by the directory gates
    artifact.payloadBytes_ += entry.payloadBytes;
  NINFER_RETURN_IF_ERROR(
      artifact.map_->setPayload(artifact.directory_, payloadOffset, std::move(partPaths)));
  return artifact;
}

std::span<const std::byte> Artifact::head() const { return map_->entry().first(payloadOffset_); }

Result<std::span<const std::byte>> Artifact::object(size_t index) const {
  NINFER_RETURN_IF_ERROR(checkObject(directory_, index, path_.string()));
  return map_->range(directory_.objects[index].offset, directory_.objects[index].bytes);
}

Result<std::span<const std::byte>> Artifact::range(uint64_t offset, uint64_t bytes) const {
  if (offset > payloadBytes_ || bytes > payloadBytes_ - offset)
    return makeError(ErrorKind::BadFile, "NB0105",
                     path_.string() + ": " + std::to_string(bytes) + " bytes at payload offset " +
                         std::to_string(offset) + " lie outside the payload of " +
                         std::to_string(payloadBytes_) + " bytes");
  return map_->range(offset, bytes);
}

Result<std::span<const std::byte>> Artifact::payload() const {
  return map_->range(0, payloadBytes_);
}

uint64_t Artifact::copiedBytes() const { return map_->copiedBytes(); }
void Artifact::advise(MappedFile::Access access) const { map_->advise(access); }
void Artifact::release() const { map_->release(); }

Result<EncodedGeometry> Artifact::geometry(size_t index) const {
  NINFER_RETURN_IF_ERROR(checkObject(directory_, index, path_.string()));
  const ObjectEntry &object = directory_.objects[index];
  if (!object.isTensor)
    return makeError(ErrorKind::Failed, "NB0106",
                     path_.string() + ": object '" + object.id + "': a resource has no geometry");
  return encodedGeometry(*object.format, *object.layout, object.shape);
}

Sha256Digest headDigest(std::span<const std::byte> head) {
  constexpr size_t kId = 16, kIdEnd = 32; // framing 3 only
  if (head.size() < kIdEnd || asText(head.first(8)) != std::string_view("NINFER\0\x03", 8))
    return sha256(head);
  return Sha256().update(head.first(kId)).update(head.subspan(kIdEnd)).finish();
}

Status checkDirectoryBytes(uint64_t jsonBytes, const std::string &fileName) {
  if (jsonBytes > kMaxDirectoryBytes)
    return makeError(ErrorKind::BadFile, "NB0103",
                     fileName + ": directory length " + std::to_string(jsonBytes) +
                         " exceeds the limit of " + std::to_string(kMaxDirectoryBytes) + " bytes");
  return {};
}

Status checkObject(const Directory &directory, size_t index, const std::string &fileName) {
  constexpr const char *kCode = "NB0106";
  if (index >= directory.objects.size())
    return makeError(ErrorKind::Failed, kCode, fileName + ": no object " + std::to_string(index));
  const ObjectEntry &object = directory.objects[index];
  const std::string what = fileName + ": object '" + object.id + "': ";
  if (!object.isTensor) {
    const std::string raw(rawEncodingName(directory.framing));
    if (object.encoding == raw)
      return {};
    return makeError(ErrorKind::Unsupported, kCode,
                     what + "unknown encoding '" + object.encoding + "', expected '" + raw + "'");
  }
  if (!object.format) {
    Status status = makeError(ErrorKind::Unsupported, kCode,
                              what + "unknown format '" + object.formatName + "'");
    return std::move(status.help("formats of framing " + std::to_string(directory.framing) + ": " +
                                 listFormatNames(directory.framing)));
  }
  if (!object.layout) {
    Status status = makeError(ErrorKind::Unsupported, kCode,
                              what + "unknown layout '" + object.layoutName + "'");
    return std::move(status.help("layouts of framing " + std::to_string(directory.framing) + ": " +
                                 listLayoutNames(directory.framing)));
  }
  Result<EncodedGeometry> geometry = encodedGeometry(*object.format, *object.layout, object.shape);
  if (!geometry.ok()) {
    const Error &inner = geometry.error();
    Status status = makeError(inner.kind, kCode, what + inner.message);
    for (const std::string &line : inner.help)
      status.help(line);
    return status;
  }
  if (object.bytes != geometry->totalBytes)
    return makeError(ErrorKind::BadFile, kCode,
                     what + "expected " + std::to_string(geometry->totalBytes) +
                         " encoded bytes, got " + std::to_string(object.bytes));
  if (object.offset % geometry->alignment != 0)
    return makeError(ErrorKind::BadFile, kCode,
                     what + "offset " + std::to_string(object.offset) + " is not a multiple of " +
                         std::to_string(geometry->alignment));
  return {};
}

Status checkAllObjects(const Directory &directory, const std::string &fileName) {
  for (size_t i = 0; i < directory.objects.size(); ++i)
    NINFER_RETURN_IF_ERROR(checkObject(directory, i, fileName));
  return {};
}

} // namespace ninfer
