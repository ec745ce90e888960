#include "convert/GgufMetadata.h"

namespace ninfer {

Error unsupportedGguf(const GgufFile &gguf, const std::string &text) {
  return makeError(ErrorKind::Unsupported, "NB0315", gguf.fileName + ": " + text);
}

Status MetadataReader::integer(const std::string &key, int64_t &out,
                               std::optional<int64_t> fallback) const {
  NINFER_ASSIGN_OR_RETURN(std::optional<uint64_t> value, gguf_.unsignedAt(key));
  if (!value && !fallback)
    return makeError(ErrorKind::BadFile, kGgufConfigCode,
                     gguf_.fileName + ": metadata '" + key + "' is missing");
  if (value && (*value == 0 || *value > static_cast<uint64_t>(kMaxGgufDimension)))
    return makeError(ErrorKind::BadFile, kGgufConfigCode,
                     gguf_.fileName + ": metadata '" + key + "' must be in 1.." +
                         std::to_string(kMaxGgufDimension) + ", got " + std::to_string(*value));
  out = value ? static_cast<int64_t>(*value) : *fallback;
  return Status();
}

Status MetadataReader::number(const std::string &key, double &out,
                              std::optional<double> fallback) const {
  NINFER_ASSIGN_OR_RETURN(std::optional<double> value, gguf_.numberAt(key));
  if (!value && !fallback)
    return makeError(ErrorKind::BadFile, kGgufConfigCode,
                     gguf_.fileName + ": metadata '" + key + "' is missing");
  out = value ? *value : *fallback;
  return Status();
}

Status refuseParts(const GgufFile &gguf) {
  NINFER_ASSIGN_OR_RETURN(std::optional<uint64_t> shards, gguf.unsignedAt("split.count"));
  if (!shards || *shards <= 1)
    return Status();
  Status status(unsupportedGguf(gguf, "this is one of " + std::to_string(*shards) +
                                          " parts of a split GGUF"));
  status.help("merge the parts into one file first (llama-gguf-split --merge)");
  return status;
}

Status readVocabulary(const GgufFile &gguf, const MetadataReader &in, int64_t &vocabSize,
                      bool &tied) {
  const SourceTensor *embedding = nullptr;
  tied = true;
  for (const SourceTensor &t : gguf.tensors) {
    if (t.name == "token_embd.weight")
      embedding = &t;
    if (t.name == "output.weight")
      tied = false;
  }
  if (!embedding || embedding->shape.size() != 2 ||
      embedding->shape[0] > static_cast<uint64_t>(kMaxGgufDimension))
    return makeError(ErrorKind::BadFile, kGgufConfigCode,
                     gguf.fileName + ": tensor 'token_embd.weight' of rank 2 is missing");
  return in.integer(in.key("vocab_size"), vocabSize, static_cast<int64_t>(embedding->shape[0]));
}

} // namespace ninfer
