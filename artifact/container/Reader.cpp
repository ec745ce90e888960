#include "artifact/container/Reader.h"

#include "support/Bytes.h"
#include "support/Checked.h"

#include <algorithm>
#include <cstring>

namespace ninfer {

namespace {

constexpr uint64_t kHeaderBytes = 32;
constexpr uint64_t kPage = 4096;
constexpr std::string_view kEntryMagic("NINFER\0\x03", 8);
constexpr std::string_view kPartMagic("NINPRT\0\x03", 8);

/// Framing of the file by its first eight bytes.
Status checkMagic(std::string_view magic, const std::string &file) {
  if (magic == kEntryMagic)
    return {};
  if (magic == kPartMagic) {
    Status status = makeError(ErrorKind::BadFile, "NB0101",
                              file + ": a part of a .ninfer artifact, not its entry file");
    return std::move(status.help("name the entry file; it lies beside the part"));
  }
  if (magic.substr(0, 7) == std::string_view("NINFER\0", 7)) {
    const int framing = static_cast<unsigned char>(magic[7]);
    Status status = makeError(ErrorKind::Unsupported, "NB0102",
                              file + ": .ninfer framing " + std::to_string(framing) +
                                  " is not supported, expected framing 3");
    if (framing == 1 || framing == 2)
      status.note("the file is recognised by its magic, but its directory has another schema")
          .help("convert the source checkpoint again with ninfer-convert, which writes framing 3");
    else
      status.help("the file was written for a newer version of the format");
    return status;
  }
  return makeError(ErrorKind::BadFile, "NB0101", file + ": not a .ninfer file (wrong magic)");
}

} // namespace

Result<Artifact> Artifact::open(const std::filesystem::path &path,
                                const std::filesystem::path &shownPath) {
  Artifact artifact;
  artifact.path_ = shownPath.empty() ? path : shownPath;
  const std::string file = artifact.path_.string();
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped.ok())
    return mapped.takeStatus();
  artifact.file_ = mapped.take();
  const std::string_view content = asText(artifact.file_.bytes());

  if (content.size() >= 8)
    NINFER_RETURN_IF_ERROR(checkMagic(content.substr(0, 8), file));
  const auto fail = [&](const std::string &why) {
    return makeError(ErrorKind::BadFile, "NB0103", file + ": " + why);
  };
  if (content.size() < kHeaderBytes)
    return content.size() < 8
               ? makeError(ErrorKind::BadFile, "NB0101",
                           file + ": not a .ninfer file (" + std::to_string(content.size()) +
                               " bytes)")
               : fail("file ends inside the header, expected at least 32 bytes, got " +
                      std::to_string(content.size()));
  const uint64_t jsonBytes = loadLe64(content.data() + 8);
  if (jsonBytes == 0 || jsonBytes > content.size() - kHeaderBytes)
    return fail("directory length " + std::to_string(jsonBytes) + " is outside 1.." +
                std::to_string(content.size() - kHeaderBytes) + ", what the file can hold");
  std::string_view text = content.substr(kHeaderBytes, jsonBytes);
  NINFER_ASSIGN_OR_RETURN(artifact.directory_,
                          parseDirectory(text, artifact.path_.filename().string()));
  text.remove_suffix(text.size() - 1 - std::min(text.find_last_not_of(" \t\r\n"), text.size() - 1));
  artifact.directoryText_ = text;
  std::memcpy(artifact.directory_.artifactId.data(), content.data() + 16, 16);

  if (artifact.directory_.files.size() > 1) {
    Status status =
        makeError(ErrorKind::Unsupported, "NB0102",
                  file + ": the artifact has " + std::to_string(artifact.directory_.files.size()) +
                      " files; only one-file artifacts are supported");
    return std::move(status.help("write it again as one file (ninfer-convert does)"));
  }
  const auto payloadOffset = checkedAlignUp(kHeaderBytes + jsonBytes, kPage);
  const auto end = payloadOffset
                       ? checkedAdd(*payloadOffset, artifact.directory_.files[0].payloadBytes)
                       : std::nullopt;
  if (!end || *end != content.size())
    return fail("file has " + std::to_string(content.size()) + " bytes, expected " +
                (end ? std::to_string(*end) : "more than 2^64-1") + " (payload offset " +
                (payloadOffset ? std::to_string(*payloadOffset) : "overflow") +
                " + payload_bytes " + std::to_string(artifact.directory_.files[0].payloadBytes) +
                ")");
  artifact.payloadOffset_ = *payloadOffset;
  artifact.payload_ = artifact.file_.bytes().subspan(*payloadOffset);
  return artifact;
}

Result<std::span<const std::byte>> Artifact::object(size_t index) const {
  NINFER_RETURN_IF_ERROR(checkObject(directory_, index, path_.string()));
  return payload_.subspan(directory_.objects[index].offset, directory_.objects[index].bytes);
}

Result<EncodedGeometry> Artifact::geometry(size_t index) const {
  NINFER_RETURN_IF_ERROR(checkObject(directory_, index, path_.string()));
  const ObjectEntry &object = directory_.objects[index];
  if (!object.isTensor)
    return makeError(ErrorKind::Failed, "NB0106",
                     path_.string() + ": object '" + object.id + "': a resource has no geometry");
  return encodedGeometry(*object.format, *object.layout, object.shape);
}

Status checkObject(const Directory &directory, size_t index, const std::string &fileName) {
  constexpr const char *kCode = "NB0106";
  if (index >= directory.objects.size())
    return makeError(ErrorKind::Failed, kCode, fileName + ": no object " + std::to_string(index));
  const ObjectEntry &object = directory.objects[index];
  const std::string what = fileName + ": object '" + object.id + "': ";
  if (!object.isTensor) {
    if (object.encoding == "raw_bytes_v1")
      return {};
    return makeError(ErrorKind::Unsupported, kCode,
                     what + "unknown encoding '" + object.encoding + "', expected 'raw_bytes_v1'");
  }
  if (!object.format) {
    Status status = makeError(ErrorKind::Unsupported, kCode,
                              what + "unknown format '" + object.formatName + "'");
    std::string names;
    for (const FormatInfo &info : allFormats())
      names.append(names.empty() ? "" : ", ").append(info.v3);
    return std::move(status.help("registered formats: " + names));
  }
  if (!object.layout) {
    Status status = makeError(ErrorKind::Unsupported, kCode,
                              what + "unknown layout '" + object.layoutName + "'");
    std::string names;
    for (const LayoutInfo &info : allLayouts())
      names.append(names.empty() ? "" : ", ").append(info.v3);
    return std::move(status.help("registered layouts: " + names));
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
