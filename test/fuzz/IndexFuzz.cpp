// Shard indexes: every accepted name is one plain base name, each tensor has one file.
#include "convert/HuggingFaceFolder.h"
#include "test/fuzz/Fuzz.h"

using namespace ninfer;
using namespace ninfer::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto map = parseShardIndex(textOf(data, size), "model.safetensors.index.json");
  if (!accepted(map))
    return 0;
  require(!map->empty(), "an index names tensors");
  const std::filesystem::path folder = "/models/m";
  for (const auto &[tensor, name] : *map) {
    require(name.find('\0') == std::string::npos, "no name has a NUL");
    require((folder / name).lexically_normal().parent_path() == folder, "a name stays in the folder");
  }
  return 0;
}
