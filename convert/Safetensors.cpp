#include "convert/Safetensors.h"

#include "support/Bytes.h"
#include "support/Checked.h"
#include "support/Json.h"

#include <algorithm>
#include <limits>
#include <map>

namespace ninfer {

namespace {

const char *const kCode = "NB0311";
constexpr size_t kMaxRank = 16;

struct Dtype {
  SourceType type;
  uint64_t bytes;
};

const std::map<std::string, Dtype> &dtypes() {
  static const std::map<std::string, Dtype> table = {
      {"F32", {SourceType::F32, 4}},       {"F16", {SourceType::F16, 2}},
      {"BF16", {SourceType::BF16, 2}},     {"BOOL", {SourceType::Other, 1}},
      {"U8", {SourceType::Other, 1}},      {"I8", {SourceType::Other, 1}},
      {"F8_E4M3", {SourceType::Other, 1}}, {"F8_E5M2", {SourceType::Other, 1}},
      {"F8_E8M0", {SourceType::Other, 1}}, {"I16", {SourceType::Other, 2}},
      {"U16", {SourceType::Other, 2}},     {"I32", {SourceType::Other, 4}},
      {"U32", {SourceType::Other, 4}},     {"I64", {SourceType::Other, 8}},
      {"U64", {SourceType::Other, 8}},     {"F64", {SourceType::Other, 8}},
  };
  return table;
}

Error bad(const std::string &fileName, const std::string &text) {
  return makeError(ErrorKind::BadFile, kCode, fileName + ": " + text);
}

Result<SourceTensor> parseEntry(const std::string &name, const Json &entry, uint64_t dataBytes,
                                const std::string &fileName) {
  std::string where = fileName + ": tensor '" + name + "'";
  NINFER_RETURN_IF_ERROR(jsonMembers(entry, {"dtype", "shape", "data_offsets"}, {}, where, kCode));
  SourceTensor tensor;
  tensor.name = name;

  const Json &dtype = entry["dtype"];
  auto known = dtype.is_string() ? dtypes().find(dtype.get<std::string>()) : dtypes().end();
  if (known == dtypes().end())
    return bad(fileName, "tensor '" + name + "': unknown dtype " + jsonExcerpt(dtype));
  tensor.type = known->second.type;
  tensor.typeName = known->first;

  const Json &shape = entry["shape"];
  if (!shape.is_array() || shape.size() > kMaxRank)
    return bad(fileName, "tensor '" + name + "': shape must be an array of at most " +
                             std::to_string(kMaxRank) + " integers");
  for (const Json &dim : shape) {
    NINFER_ASSIGN_OR_RETURN(
        uint64_t value,
        jsonUnsigned(dim, 1, std::numeric_limits<uint64_t>::max(), where + " dimension", kCode));
    tensor.shape.push_back(value);
  }
  std::optional<uint64_t> count = checkedProduct(tensor.shape);
  std::optional<uint64_t> bytes = count ? checkedMul(*count, known->second.bytes) : std::nullopt;
  if (!bytes)
    return bad(fileName,
               "tensor '" + name + "': shape " + shapeText(tensor.shape) + " exceeds 2^64-1 bytes");

  const Json &offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2)
    return bad(fileName, "tensor '" + name + "': data_offsets must be [begin, end]");
  NINFER_ASSIGN_OR_RETURN(
      uint64_t begin, jsonUnsigned(offsets[0], 0, dataBytes, where + " data_offsets begin", kCode));
  NINFER_ASSIGN_OR_RETURN(
      uint64_t end, jsonUnsigned(offsets[1], begin, dataBytes, where + " data_offsets end", kCode));
  if (end - begin != *bytes)
    return bad(fileName, "tensor '" + name + "': data_offsets [" + std::to_string(begin) + "," +
                             std::to_string(end) + ") hold " + std::to_string(end - begin) +
                             " bytes, " + tensor.typeName + " " + shapeText(tensor.shape) +
                             " needs " + std::to_string(*bytes));
  tensor.offset = begin;
  tensor.bytes = *bytes;
  return tensor;
}

Status checkMetadata(const Json &metadata, const std::string &fileName) {
  if (!metadata.is_object())
    return bad(fileName, "__metadata__ must be an object of strings");
  for (const auto &item : metadata.items())
    if (!item.value().is_string())
      return bad(fileName, "__metadata__ member '" + item.key() + "' must be a string, got " +
                               jsonExcerpt(item.value()));
  return Status();
}

} // namespace

Result<std::vector<SourceTensor>> parseSafetensorsHeader(std::string_view text, uint64_t dataOffset,
                                                         uint64_t dataBytes,
                                                         const std::string &fileName) {
  if (text.empty() || text.front() != '{')
    return bad(fileName, "the header does not start with '{'");
  NINFER_ASSIGN_OR_RETURN(Json header, parseStrictJson(text, fileName + ": header", kCode));
  if (!header.is_object())
    return bad(fileName, "the header is not a JSON object");
  std::vector<SourceTensor> tensors;
  for (const auto &item : header.items()) {
    if (item.key() == "__metadata__") {
      NINFER_RETURN_IF_ERROR(checkMetadata(item.value(), fileName));
      continue;
    }
    NINFER_ASSIGN_OR_RETURN(SourceTensor tensor,
                            parseEntry(item.key(), item.value(), dataBytes, fileName));
    tensors.push_back(std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const SourceTensor &a, const SourceTensor &b) { return a.offset < b.offset; });
  uint64_t cursor = 0;
  for (SourceTensor &tensor : tensors) {
    if (tensor.offset != cursor)
      return bad(fileName, "tensor '" + tensor.name + "' starts at data byte " +
                               std::to_string(tensor.offset) + ", expected " +
                               std::to_string(cursor) + " (holes and overlap are illegal)");
    cursor += tensor.bytes;
    tensor.offset += dataOffset;
  }
  if (cursor != dataBytes)
    return bad(fileName, "the tensors end at data byte " + std::to_string(cursor) +
                             ", the file at " + std::to_string(dataBytes));
  return tensors;
}

Result<std::vector<SourceTensor>> readSafetensors(const SourceFile &file) {
  std::byte lengthBytes[8];
  if (file.size() < sizeof lengthBytes)
    return bad(file.name(), "not a safetensors file: " + std::to_string(file.size()) +
                                " bytes, the header length alone needs 8");
  NINFER_RETURN_IF_ERROR(file.read(0, lengthBytes));
  uint64_t length = loadLe64(lengthBytes);
  uint64_t limit = std::min(kMaxSafetensorsHeader, file.size() - 8);
  if (length > limit)
    return bad(file.name(), "not a safetensors file: header of " + std::to_string(length) +
                                " bytes, at most " + std::to_string(limit) + " are possible");
  std::string text(length, '\0');
  NINFER_RETURN_IF_ERROR(file.read(8, std::as_writable_bytes(std::span(text))));
  return parseSafetensorsHeader(text, 8 + length, file.size() - 8 - length, file.name());
}

} // namespace ninfer
