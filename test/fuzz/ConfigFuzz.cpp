// Model and quantization configs, with the tensors of a checkpoint. Input: a JSON object with "config" (config.json),
// "side" (name -> parsed side file) and "header" (a safetensors header; its data are zeros).
#include "convert/Safetensors.h"
#include "convert/SourceConfig.h"
#include "convert/quantized/Import.h"
#include "test/fuzz/Fuzz.h"

using namespace ninfer;
using namespace ninfer::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<Json> input = parseStrictJson(textOf(data, size), "fuzz");
  if (!accepted(input) || !input->is_object() || !input->contains("config"))
    return 0;
  std::vector<std::string> notes;
  const Json &config = (*input)["config"];
  Result<DecoderConfig> decoder = configFromHuggingFace(config, "config.json", notes);
  QuantSideFiles side;
  if (input->contains("side") && (*input)["side"].is_object())
    for (const auto &item : (*input)["side"].items())
      if (item.value().is_object())
        side.emplace(item.key(), item.value());
  if (!config.is_object())
    return 0;
  Result<std::optional<QuantConfig>> found = findQuantization(config, side);
  if (!accepted(decoder) || !accepted(found) || !*found || !input->contains("header") || decoder->numLayers > 4)
    return 0;
  constexpr uint64_t kData = 1u << 16;
  SourceTensors tensors;
  MemoryFile memory(std::string(kData, '\0'));
  Result<SourceFile> file = SourceFile::open(memory.path(), "m.safetensors");
  require(file.ok(), "the file opens");
  const std::string header = (*input)["header"].dump();
  uint64_t end = 0;
  if ((*input)["header"].is_object())
    for (const auto &item : (*input)["header"].items())
      if (item.value().is_object() && item.value().contains("data_offsets"))
        for (const Json &offset : item.value()["data_offsets"])
          if (offset.is_number_unsigned() && offset.get<uint64_t>() <= kData)
            end = std::max(end, offset.get<uint64_t>());
  Result<std::vector<SourceTensor>> parsed = parseSafetensorsHeader(header, 0, end, "m.safetensors");
  if (!accepted(parsed))
    return 0;
  tensors.files.push_back(file.take());
  tensors.tensors = parsed.take();
  (void)accepted(importQuantized(**found, *decoder, {}, tensors, notes));
  return 0;
}
