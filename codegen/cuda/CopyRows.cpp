#include "codegen/cuda/CopyRows.h"

namespace ninfer::cuda {

KernelText copyRowsKernel(const ni::CopyRowsSpec &s, uint32_t sm) {
  const std::string bytes = std::to_string(s.bytes);
  KernelText t;
  t.family = "rows";
  t.header = "copy_rows.cuh";
  t.name = "ni_copy_rows_b" + bytes + (sm ? "_sm" + std::to_string(sm) : std::string());
  t.line = "NI_COPY_ROWS(" + t.name + ", {.bytes = " + bytes + "})";
  t.params = {{"a", 8},      {"b", 8},       {"out", 8},     {"aWidth", 4},
              {"bWidth", 4}, {"aStride", 4}, {"bStride", 4}, {"outStride", 4}};
  t.threads = ni::kCopyRowsThreads;
  return t;
}

} // namespace ninfer::cuda
