// Where a parameter of the hybrid family comes from.
#ifndef NINFER_CONVERT_HYBRIDORIGIN_H
#define NINFER_CONVERT_HYBRIDORIGIN_H

#include "convert/Checkpoint.h"
#include "models/HybridConfig.h"

#include <string>
#include <vector>

namespace ninfer {

struct HybridOrigin {
  std::string tensor;
  std::vector<uint64_t> shape; ///< of the tensor
  RowSelection rows = {};
  bool transposed = false;
  RowSelection columns = {};
  ValueMap map = ValueMap::Plain;
};

/// In a GGUF of architecture qwen35 (component text only). What that conversion changes is taken back:
/// norms but gdn/norm hold 1 + w, ssm_a holds -exp(a_log), and value heads lie in the order
/// [value head of its key head][key head] instead of the other way round.
HybridOrigin ggufHybridOrigin(const HybridConfig &config, const ParameterSpec &parameter);

} // namespace ninfer

#endif // NINFER_CONVERT_HYBRIDORIGIN_H
