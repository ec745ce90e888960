#include "codegen/cuda/GatedDeltaRows.h"

namespace ninfer::cuda {

KernelText gatedDeltaRowsKernel(const ni::GatedDeltaSpec &s, uint32_t sm) {
  const std::string keyHeads = std::to_string(s.keyHeads), valueHeads = std::to_string(s.valueHeads),
                    keyDim = std::to_string(s.keyDim), valueDim = std::to_string(s.valueDim);
  KernelText t;
  t.family = "delta";
  t.header = "gated_delta_rows.cuh";
  t.name = "ni_gated_delta_rows_v" + valueHeads + "x" + valueDim + "_k" + keyHeads + "x" + keyDim + (s.peek ? "_peek" : "");
  t.name += sm ? "_sm" + std::to_string(sm) : std::string();
  t.line = "NI_GATED_DELTA_ROWS(" + t.name + ", {.keyHeads = " + keyHeads + ", .valueHeads = " + valueHeads +
           ", .keyDim = " + keyDim + ", .valueDim = " + valueDim + ", .peek = " + (s.peek ? "true" : "false") + "})";
  t.params = gatedDeltaKernel(s, sm).params;
  t.threads = ni::kDeltaRowsThreads;
  return t;
}

} // namespace ninfer::cuda
