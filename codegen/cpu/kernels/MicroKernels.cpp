// The exported micro-kernels. Compiled once per CPU level to bitcode by CMakeLists.txt; never linked as C++.
#include "codegen/cpu/kernels/MicroKernels.h"

#include "codegen/cpu/kernels/Attention.h"
#include "codegen/cpu/kernels/Elementwise.h"
#include "codegen/cpu/kernels/FloatLinear.h"
#include "codegen/cpu/kernels/Experts.h"
#include "codegen/cpu/kernels/Hybrid.h"
#include "codegen/cpu/kernels/IntLinear.h"
#include "codegen/cpu/kernels/ManyAttention.h"
#include "codegen/cpu/kernels/Vision.h"

using namespace ninfer;

#define NI_EXPORT extern "C" __attribute__((always_inline)) void

NI_EXPORT ni_rms_norm(const float *x, const uint16_t *w, float unit_offset, float eps, int64_t k, float *y) {
  micro::rmsNorm(x, w, unit_offset, eps, k, y);
}
NI_EXPORT ni_head_norm(const float *x, const uint16_t *w, float unit_offset, float eps, int64_t heads, int64_t dim,
                       float *y) {
  for (int64_t h = 0; h < heads; ++h)
    micro::rmsNorm(x + h * dim, w, unit_offset, eps, dim, y + h * dim);
}

NI_EXPORT ni_pack_f32(const float *x, int64_t rows, int64_t k, void *packed) { micro::packFloat(x, rows, k, packed); }
NI_EXPORT ni_pack_a16g64(const float *x, int64_t rows, int64_t k, void *packed) {
  micro::packInt<64, 2>(x, rows, k, packed);
}
NI_EXPORT ni_pack_a16g32(const float *x, int64_t rows, int64_t k, void *packed) {
  micro::packInt<32, 2>(x, rows, k, packed);
}
NI_EXPORT ni_pack_a8g64(const float *x, int64_t rows, int64_t k, void *packed) {
  micro::packInt<64, 1>(x, rows, k, packed);
}
NI_EXPORT ni_pack_a8g32(const float *x, int64_t rows, int64_t k, void *packed) {
  micro::packInt<32, micro::kA8BytesForW8>(x, rows, k, packed);
}

#define NI_PACK_PART(name, ...)                                                                                        \
  NI_EXPORT name(const float *x, int64_t first, int64_t rows, int64_t k, void *packed) {                               \
    micro::__VA_ARGS__(x, first, rows, k, packed);                                                                     \
  }
NI_PACK_PART(ni_pack_part_f32, packFloatPart)
NI_PACK_PART(ni_pack_part_a16g64, packIntPart<64, 2>)
NI_PACK_PART(ni_pack_part_a16g32, packIntPart<32, 2>)
NI_PACK_PART(ni_pack_part_a8g64, packIntPart<64, 1>)
NI_PACK_PART(ni_pack_part_a8g32, packIntPart<32, micro::kA8BytesForW8>)

#define NI_LINEAR(name, ...)                                                                                           \
  NI_EXPORT name(const void *p0, const void *p1, const void *p2, const void *packed, int64_t rows, int64_t k,          \
                 int64_t n_begin, int64_t n_end, float *out, int64_t ld_out, void *scratch) {                          \
    micro::__VA_ARGS__(p0, p1, p2, packed, rows, k, n_begin, n_end, out, ld_out, scratch);                             \
  }
NI_LINEAR(ni_linear_bf16_f32, linearFloat<micro::Bf16Words>)
NI_LINEAR(ni_linear_fp32_f32, linearFloat<micro::Fp32Words>)
NI_LINEAR(ni_linear_fp8row_f32, linearFloat<micro::Fp8Row>)
NI_LINEAR(ni_linear_nvfp4_f32, linearFloat<micro::Nvfp4>)
NI_LINEAR(ni_linear_q4_f32, linearFloat<micro::IntCodes<4>>)
NI_LINEAR(ni_linear_q5_f32, linearFloat<micro::IntCodes<5>>)
NI_LINEAR(ni_linear_q6_f32, linearFloat<micro::IntCodes<6>>)
NI_LINEAR(ni_linear_w8_f32, linearFloat<micro::IntCodes<8>>)
NI_LINEAR(ni_linear_q4_a16, linearInt<4, 2>)
NI_LINEAR(ni_linear_q5_a16, linearInt<5, 2>)
NI_LINEAR(ni_linear_q6_a16, linearInt<6, 2>)
NI_LINEAR(ni_linear_w8_a16, linearInt<8, 2>)
NI_LINEAR(ni_linear_q4_a8, linearInt<4, 1>)
NI_LINEAR(ni_linear_q5_a8, linearInt<5, 1>)
NI_LINEAR(ni_linear_q6_a8, linearInt<6, 1>)
NI_LINEAR(ni_linear_w8_a8, linearInt<8, micro::kA8BytesForW8>)

#define NI_EMBED(name, ...)                                                                                            \
  NI_EXPORT name(const void *p0, const void *p1, const void *p2, int32_t token, int64_t k, float *out) {               \
    micro::embedRow<micro::__VA_ARGS__>(p0, p1, p2, token, k, out);                                                    \
  }
NI_EMBED(ni_embed_bf16, Bf16Words)
NI_EMBED(ni_embed_fp32, Fp32Words)
NI_EMBED(ni_embed_fp8row, Fp8Row)
NI_EMBED(ni_embed_nvfp4, Nvfp4)
NI_EMBED(ni_embed_q4, IntCodes<4>)
NI_EMBED(ni_embed_q5, IntCodes<5>)
NI_EMBED(ni_embed_q6, IntCodes<6>)
NI_EMBED(ni_embed_w8, IntCodes<8>)

NI_EXPORT ni_rope(const float *x, const float *table, int64_t heads, int64_t dim, int64_t pairs, float *y) {
  micro::rope(x, table, heads, dim, pairs, y);
}

NI_EXPORT ni_kv_store_bf16(const float *x, int64_t kv_heads, int64_t dim, int64_t capacity, int64_t position,
                           void *cache) {
  micro::kvStore<uint16_t>(x, kv_heads, dim, capacity, position, cache);
}
NI_EXPORT ni_kv_store_f32(const float *x, int64_t kv_heads, int64_t dim, int64_t capacity, int64_t position,
                          void *cache) {
  micro::kvStore<float>(x, kv_heads, dim, capacity, position, cache);
}

NI_EXPORT ni_kv_store_int8(const float *x, int64_t kv_heads, int64_t dim, int64_t capacity, int64_t position,
                           void *codes, void *scales) {
  micro::kvStoreInt8(x, kv_heads, dim, capacity, position, static_cast<int8_t *>(codes),
                     static_cast<uint16_t *>(scales));
}

NI_EXPORT ni_attention_bf16(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k,
                            const void *v, int64_t length, int64_t dim, float scale, float *out, int64_t out_stride,
                            void *scratch) {
  const micro::Bf16Cache keys{static_cast<const uint16_t *>(k)}, values{static_cast<const uint16_t *>(v)};
  micro::attention(q, q_stride, rows, heads, keys, values, length, dim, scale, out, out_stride, scratch);
}
NI_EXPORT ni_attention_f32(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k, const void *v,
                           int64_t length, int64_t dim, float scale, float *out, int64_t out_stride, void *scratch) {
  const micro::F32Cache keys{static_cast<const float *>(k)}, values{static_cast<const float *>(v)};
  micro::attention(q, q_stride, rows, heads, keys, values, length, dim, scale, out, out_stride, scratch);
}
NI_EXPORT ni_attention_int8(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k,
                            const void *k_scales, const void *v, const void *v_scales, int64_t length, int64_t dim,
                            float scale, float *out, int64_t out_stride, void *scratch) {
  const micro::Int8Cache keys{static_cast<const int8_t *>(k), static_cast<const uint16_t *>(k_scales), nullptr};
  const micro::Int8Cache values{static_cast<const int8_t *>(v), static_cast<const uint16_t *>(v_scales), nullptr};
  micro::attention(q, q_stride, rows, heads, keys, values, length, dim, scale, out, out_stride, scratch);
}

NI_EXPORT ni_attention_many_bf16(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k,
                                 const void *v, int64_t length, int64_t dim, float scale, float *out,
                                 int64_t out_stride, void *scratch) {
  const micro::Bf16Rows keys{static_cast<const uint16_t *>(k)}, values{static_cast<const uint16_t *>(v)};
  micro::manyAttention(q, q_stride, rows, heads, keys, values, length, dim, scale, out, out_stride, scratch);
}
NI_EXPORT ni_attention_many_f32(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k,
                                const void *v, int64_t length, int64_t dim, float scale, float *out,
                                int64_t out_stride, void *scratch) {
  const micro::F32Rows keys{static_cast<const float *>(k)}, values{static_cast<const float *>(v)};
  micro::manyAttention(q, q_stride, rows, heads, keys, values, length, dim, scale, out, out_stride, scratch);
}
NI_EXPORT ni_attention_many_int8(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k,
                                 const void *k_scales, const void *v, const void *v_scales, int64_t length,
                                 int64_t dim, float scale, float *out, int64_t out_stride, void *scratch) {
  const micro::Int8Rows keys{static_cast<const int8_t *>(k), static_cast<const uint16_t *>(k_scales)};
  const micro::Int8Rows values{static_cast<const int8_t *>(v), static_cast<const uint16_t *>(v_scales)};
  micro::manyAttention(q, q_stride, rows, heads, keys, values, length, dim, scale, out, out_stride, scratch);
}

NI_EXPORT ni_causal_conv(const float *x, int64_t x_stride, int64_t rows, const uint16_t *w, int64_t taps,
                         int64_t channels, int64_t w_stride, float *tail, float *out, int64_t out_stride,
                         int64_t peek) {
  micro::causalConv(x, x_stride, rows, w, taps, channels, w_stride, tail, out, out_stride, peek != 0);
}
NI_EXPORT ni_gated_delta(const float *q, const float *k, int64_t qk_stride, const float *v, int64_t v_stride,
                         const float *a, const float *b, int64_t ab_stride, const float *a_log, const float *dt_bias,
                         float *state, int64_t rows, int64_t dk, int64_t dv, float *out, int64_t out_stride,
                         void *scratch, int64_t peek) {
  micro::gatedDelta(q, k, qk_stride, v, v_stride, a, b, ab_stride, *a_log, *dt_bias, state, rows, dk, dv, out,
                    out_stride, scratch, peek != 0);
}
NI_EXPORT ni_gated_head_norm(const float *x, const uint16_t *w, const float *gate, float eps, int64_t heads,
                             int64_t dim, float *y) {
  for (int64_t h = 0; h < heads; ++h)
    micro::gatedHeadNorm(x + h * dim, w, gate + h * dim, eps, dim, y + h * dim);
}

NI_EXPORT ni_layer_norm(const float *x, const uint16_t *w, const uint16_t *b, float eps, int64_t k, float *y) {
  micro::layerNorm(x, w, b, eps, k, y);
}
NI_EXPORT ni_bias(const float *x, const uint16_t *b, int64_t n, float *out) { micro::addBias(x, b, n, out); }
NI_EXPORT ni_gelu(const float *x, int64_t n, float *out) { micro::gelu<false>(x, n, out); }
NI_EXPORT ni_gelu_tanh(const float *x, int64_t n, float *out) { micro::gelu<true>(x, n, out); }
NI_EXPORT ni_axial_rope(const float *x, const float *table, int64_t capacity, const int32_t *positions, int64_t heads,
                        int64_t pairs, float *y) {
  micro::axialRope(x, table, capacity, positions, heads, pairs, y);
}
NI_EXPORT ni_gather_bf16(const uint16_t *table, int64_t rows, const int32_t *indices, const float *weights, int64_t taps,
                         int64_t k, float *out) {
  micro::gatherBf16(table, rows, indices, weights, taps, k, out);
}
NI_EXPORT ni_full_attention(const float *q, const float *k, const float *v, int64_t stride, int64_t rows, int64_t length,
                            int64_t dim, float scale, float *out, void *scratch) {
  micro::fullAttention(q, k, v, stride, rows, length, dim, scale, out, scratch);
}

NI_EXPORT ni_sigmoid_scale(const float *x, const float *gate, int64_t n, float *out) {
  micro::sigmoidScale(x, gate, n, out);
}
NI_EXPORT ni_scale_add(const float *x, float factor, int64_t n, float *out) { micro::scaleAdd(x, factor, n, out); }
NI_EXPORT ni_expert_groups(const float *routes, int64_t rows, int64_t top_k, int64_t experts, int64_t *first,
                           int64_t *entries) {
  micro::expertGroups(routes, rows, top_k, experts, first, entries);
}
NI_EXPORT ni_gather_rows(const float *x, const int64_t *entries, int64_t divisor, int64_t count, int64_t k, float *out) {
  micro::gatherRows(x, entries, divisor, count, k, out);
}
NI_EXPORT ni_moe_route(const float *logits, int64_t experts, int64_t top_k, float *out) {
  micro::moeRoute(logits, experts, top_k, out);
}
NI_EXPORT ni_sigmoid_mul(const float *x, const float *gate, int64_t n, float *out) {
  micro::sigmoidMul(x, gate, n, out);
}
NI_EXPORT ni_silu_mul(const float *gate, const float *up, int64_t n, float *out) { micro::siluMul(gate, up, n, out); }
NI_EXPORT ni_add(const float *a, const float *b, int64_t n, float *out) { micro::addRows(a, b, n, out); }
