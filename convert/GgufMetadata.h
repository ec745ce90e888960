// What the readers of GGUF configs share: metadata of one architecture, the vocabulary, parts.
#ifndef NINFER_CONVERT_GGUFMETADATA_H
#define NINFER_CONVERT_GGUFMETADATA_H

#include "convert/Gguf.h"

#include <limits>
#include <optional>
#include <string>

namespace ninfer {

inline constexpr const char *kGgufConfigCode = "NB0314";
inline constexpr int64_t kMaxGgufDimension = std::numeric_limits<int32_t>::max();

/// Unsupported (NB0315) with the file's name before `text`.
Error unsupportedGguf(const GgufFile &gguf, const std::string &text);

/// Keys below "<architecture>.". Errors: BadFile (NB0314) for a missing key without fallback or a value out of
/// range, NB0313 for a wrong type.
class MetadataReader {
public:
  MetadataReader(const GgufFile &gguf, std::string architecture)
      : gguf_(gguf), prefix_(std::move(architecture) + ".") {}

  std::string key(const char *name) const { return prefix_ + name; }
  /// 1 .. kMaxGgufDimension.
  Status integer(const std::string &key, int64_t &out,
                 std::optional<int64_t> fallback = std::nullopt) const;
  Status number(const std::string &key, double &out,
                std::optional<double> fallback = std::nullopt) const;

private:
  const GgufFile &gguf_;
  std::string prefix_;
};

/// NB0315 for one part of several.
Status refuseParts(const GgufFile &gguf);

/// vocab_size, else the rows of token_embd.weight, which must be there; `tied` unless there is output.weight.
Status readVocabulary(const GgufFile &gguf, const MetadataReader &in, int64_t &vocabSize,
                      bool &tied);

} // namespace ninfer

#endif // NINFER_CONVERT_GGUFMETADATA_H
