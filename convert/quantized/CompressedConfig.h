// quantization_config of compressed-tensors checkpoints: schemes with their targets, and the list
// of ignored modules. Source: the config classes of the compressed-tensors library.
#ifndef NINFER_CONVERT_QUANTIZED_COMPRESSEDCONFIG_H
#define NINFER_CONVERT_QUANTIZED_COMPRESSEDCONFIG_H

#include "convert/quantized/Targets.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ninfer {

/// How the weights of a scheme are quantized, defaults filled in as the library does.
struct WeightArgs {
  uint32_t bits = 8;
  bool isFloat = false;
  bool symmetric = true;
  std::string strategy;   ///< tensor, channel, group, block, tensor_group
  uint64_t groupSize = 0; ///< of group and tensor_group
  bool groupOrder = false; ///< actorder "group": columns belong to groups by weight_g_idx
  bool dynamic = false;
};

struct QuantScheme {
  std::string group; ///< key in config_groups
  TargetList targets;
  std::optional<WeightArgs> weights; ///< nothing: weights stay as they are
  std::string format;                ///< "pack-quantized", ...
  bool quantizesActivations = false;
};

struct CompressedConfig {
  std::vector<QuantScheme> schemes; ///< file order
  TargetList ignore;
  bool kvCache = false; ///< a kv_cache_scheme is present
  std::string unused;   ///< members that were not understood, comma separated
};

/// Reads config_groups (also preset names such as "W4A16" with a list of targets), ignore, format.
/// BadFile (NB0323, NB0328) for members of the wrong type or contradictions; Unsupported (NB0324)
/// for transforms, sparsity and storage formats that are not read.
Result<CompressedConfig> parseCompressedConfig(const QuantConfig &config);

/// Name and shape of a scheme for messages: "int4 group 128", "float8 channel".
std::string schemeText(const WeightArgs &args);

} // namespace ninfer

#endif // NINFER_CONVERT_QUANTIZED_COMPRESSEDCONFIG_H
