#include "codegen/cuda/AttentionRows.h"

namespace ninfer::cuda {

KernelText attentionRowsKernel(const ni::AttentionRowsSpec &s, uint32_t sm) {
  const std::string heads = std::to_string(s.heads), kvHeads = std::to_string(s.kvHeads), dim = std::to_string(s.dim);
  const bool int8 = s.codec == ni::CacheCodec::Int8;
  KernelText t;
  t.family = "attention_rows";
  t.header = "attention_rows.cuh";
  t.name = "ni_attention_rows_h" + heads + "_kv" + kvHeads + "_d" + dim + (int8 ? "_int8" : "_bf16");
  t.name += sm ? "_sm" + std::to_string(sm) : std::string();
  t.line = "NI_ATTENTION_ROWS(" + t.name + ", {.heads = " + heads + ", .kvHeads = " + kvHeads + ", .dim = " + dim +
           ", .codec = ni::CacheCodec::" + (int8 ? "Int8" : "Bf16") + "})";
  t.params = {{"query", 8}, {"keys", 8}, {"values", 8}, {"out", 8}, {"position", 8}, {"capacity", 4}, {"scale", 4}};
  t.threads = ni::kAttentionRowsThreads;
  t.sharedBytes = ni::attentionRowsShared(s);
  return t;
}

} // namespace ninfer::cuda
