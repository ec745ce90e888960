// The micro-kernels that generated CPU kernels call, and the sizes of the buffers they want.
//
// They are C++ (this folder), compiled by clang to LLVM bitcode once per CPU level and embedded in the compiler
// (Bitcode.h). The declarations below are the contract: the code generator emits calls to these symbols with
// constant sizes, links the bitcode of the level, and lets LLVM inline (every ni_* is always_inline) and fold.
//
// Rules for all of them
// * No function allocates, calls out, keeps state, or fails. Sizes are int64_t, in elements unless said.
// * Inputs are finite, outputs and scratch do not overlap inputs (`y == x` is allowed where said so).
// * No alignment is needed for activations and outputs; `packed` and `scratch` are 64-byte aligned.
// * Nothing is read outside the given rows and planes; outputs are written completely, with nothing around them.
// * Weights: p0, p1, p2 are the plane pointers of runtime/abi/kernel_abi.h in that order, null where the format has
//   fewer: q4, w8, fp8row (codes, scales, null); q5, q6 (base, high, scales); nvfp4 (codes, scales, divisor);
//   bf16, fp32 (words, null, null). They address the first row of the parameter.
// * `rows` is the number of activation rows (tokens) of the call.
#ifndef NINFER_CODEGEN_CPU_KERNELS_MICROKERNELS_H
#define NINFER_CODEGEN_CPU_KERNELS_MICROKERNELS_H

#include <stdint.h>

namespace ninfer {

/// How activations are packed for a linear kernel. The group is that of the weight format:
/// 64 for q4, q5, q6 and 32 for w8.
enum class MicroPack : uint8_t { F32, A16G64, A16G32, A8G64, A8G32 };

constexpr int64_t microRoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Up to this many rows the integer kernels take dot products along a weight row; above it they unpack a panel
/// of weight rows and run a register-tiled product. Packed layouts differ, so pack and linear must get the same rows.
inline constexpr int64_t kMicroDotRows = 16;
/// Weight rows per panel on the widest level. Cut [n_begin, n_end) at multiples of it where you can.
inline constexpr int64_t kMicroPanelRows = 32;
/// Elements of K unpacked at a time into scratch.
inline constexpr int64_t kMicroPanelK = 512;

/// Bytes of one packed activation row, without the 64 bytes that keep rows from sharing cache sets.
constexpr int64_t microPackedRowBytes(MicroPack pack, int64_t k) {
  const int64_t kp = microRoundUp(k, 128);
  switch (pack) {
  case MicroPack::F32: return kp * 4;
  case MicroPack::A16G64: return kp * 2 + kp / 2 + microRoundUp(kp / 16, 64);
  case MicroPack::A8G64: return kp + kp / 2 + microRoundUp(kp / 16, 64);
  case MicroPack::A16G32:
  case MicroPack::A8G32: return kp * 2 + microRoundUp(kp / 8, 64);
  }
  return 0;
}

/// Rows that ni_pack_part_* packs.
inline constexpr int64_t kMicroPackRows = 16;

/// Size of the buffer `packed` of ni_pack_* and ni_linear_* for up to `rows` rows (grows with rows).
constexpr int64_t microPackedBytes(MicroPack pack, int64_t rows, int64_t k) {
  const int64_t kp = microRoundUp(k, 128), few = rows < kMicroDotRows ? rows : kMicroDotRows;
  const int64_t bytes = microPackedRowBytes(pack, k) + 64;
  int64_t block = 0; // per row above kMicroDotRows: codes, steps and sums (BlockLayout of Pack.h)
  switch (pack) {
  case MicroPack::F32: block = bytes; break;
  case MicroPack::A16G64: block = kp * 2 + kp / 8; break;
  case MicroPack::A8G64: block = kp + kp / 8; break;
  case MicroPack::A16G32:
  case MicroPack::A8G32: block = kp * 2 + kp / 4; break;
  }
  const int64_t a = microRoundUp(few, 4) * bytes, b = microRoundUp(rows, 4) * block;
  return rows <= kMicroDotRows || a > b ? a : b;
}

/// Size of `scratch` of ni_linear_* for up to `rows` rows (grows with rows; may be 0).
constexpr int64_t microLinearScratchBytes(MicroPack pack, int64_t rows) {
  if (rows == 1 || (pack != MicroPack::F32 && rows <= kMicroDotRows))
    return 0;
  return kMicroPanelRows * (kMicroPanelK * 4 + kMicroPanelK / 16 * 4 + microRoundUp(rows, 16) * 4);
}

/// Keys that ni_full_attention packs at a time, queries that share them, and queries of one group at most.
inline constexpr int64_t kMicroFullKeys = 64, kMicroFullQueries = 256, kMicroFullGroup = 4;
/// A multiple of the elements of a head that every level takes at a time.
inline constexpr int64_t kMicroFullPad = 160;
/// Size of `scratch` of ni_full_attention, for every number of rows.
constexpr int64_t microFullAttentionScratchBytes(int64_t dim) {
  return (kMicroFullKeys * (dim + microRoundUp(dim, kMicroFullPad) + kMicroFullGroup) + 2 * kMicroFullQueries) * 4;
}

/// Channels of a group that share one scale in the int8 KV codec; the last group of a head may be shorter.
inline constexpr int64_t kMicroKvGroup = 64;

/// Positions that ni_attention_* takes at a time, queries that share one pass over the cache, a multiple of the channels
/// that every level takes at a time.
inline constexpr int64_t kMicroAttentionBlock = 512, kMicroAttentionQueries = 32, kMicroAttentionPad = 32;
/// Size of `scratch` of ni_attention_*, for every number of rows and every length: scores of four queries, of every query
/// its largest score, total, channels and sums; scales of a block of keys and values.
constexpr int64_t microAttentionScratchBytes(int64_t dim) {
  return (4 * kMicroAttentionBlock + kMicroAttentionQueries * 2 * (1 + microRoundUp(dim, kMicroAttentionPad)) +
          kMicroAttentionBlock * 2 * (microRoundUp(dim, kMicroKvGroup) / kMicroKvGroup)) * 4;
}

/// Positions that ni_attention_many_* decodes at a time, queries that share them, queries of one tile at most, and a
/// multiple of the channels that every level takes at a time.
inline constexpr int64_t kMicroManyKeys = 128, kMicroManyQueries = 1024, kMicroManyTile = 12, kMicroManyPad = 32;
/// More rows than this go to ni_attention_many_*.
inline constexpr int64_t kMicroFewRows = 16;
/// Size of `scratch` of ni_attention_many_*, for every number of rows and every length.
constexpr int64_t microManyAttentionScratchBytes(int64_t dim) {
  return ((2 * kMicroManyKeys + kMicroManyTile) * microRoundUp(dim, kMicroManyPad) + kMicroManyTile * kMicroManyKeys +
          2 * kMicroManyQueries) * 4;
}

/// Tokens that ni_gated_delta prepares at a time.
inline constexpr int64_t kMicroDeltaTokens = 16;
/// State rows that ni_gated_delta takes through a block of tokens together.
inline constexpr int64_t kMicroDeltaRows = 16;
/// Size of `scratch` of ni_gated_delta, for every number of rows.
constexpr int64_t microGatedDeltaScratchBytes(int64_t dk, bool peek) {
  return kMicroDeltaTokens * (microRoundUp(dk, 16) * 8 + 32) + (peek ? kMicroDeltaRows * dk * 4 : 0);
}

/// A plane (keys or values) of an int8 KV cache: codes [kv_heads][capacity][dim] int8, padded to 64 bytes, then
/// scales [kv_heads][capacity][ceil(dim / 64)] binary16. Byte offset of the scales, and bytes of the plane.
constexpr int64_t microKvInt8ScalesOffset(int64_t kv_heads, int64_t capacity, int64_t dim) {
  return microRoundUp(kv_heads * capacity * dim, 64);
}
constexpr int64_t microKvInt8PlaneBytes(int64_t kv_heads, int64_t capacity, int64_t dim) {
  return microKvInt8ScalesOffset(kv_heads, capacity, dim) +
         kv_heads * capacity * (microRoundUp(dim, kMicroKvGroup) / kMicroKvGroup) * 2;
}

} // namespace ninfer

extern "C" {

/// y = x * (w + unit_offset) / sqrt(mean(x^2) + eps) for one row of k elements; w bf16. y == x allowed.
void ni_rms_norm(const float *x, const uint16_t *w, float unit_offset, float eps, int64_t k, float *y);
/// The same for each of `heads` consecutive vectors of `dim` elements, all with the same w[dim].
void ni_head_norm(const float *x, const uint16_t *w, float unit_offset, float eps, int64_t heads, int64_t dim,
                  float *y);

/// Packs x[rows][k] (rows densely packed) for ni_linear_*. f32 keeps the values; a16 and a8 quantise each group of
/// each row to 16 or 8 bits, symmetric: step = max|x| / 32767 or / 127, round to nearest.
void ni_pack_f32(const float *x, int64_t rows, int64_t k, void *packed);
void ni_pack_a16g64(const float *x, int64_t rows, int64_t k, void *packed);
void ni_pack_a16g32(const float *x, int64_t rows, int64_t k, void *packed);
void ni_pack_a8g64(const float *x, int64_t rows, int64_t k, void *packed);
void ni_pack_a8g32(const float *x, int64_t rows, int64_t k, void *packed);
/// Rows [first, min(first + kMicroPackRows, rows)) of the same `packed` of `rows` rows; x is row `first`, a multiple of
/// kMicroPackRows.
void ni_pack_part_f32(const float *x, int64_t first, int64_t rows, int64_t k, void *packed);
void ni_pack_part_a16g64(const float *x, int64_t first, int64_t rows, int64_t k, void *packed);
void ni_pack_part_a16g32(const float *x, int64_t first, int64_t rows, int64_t k, void *packed);
void ni_pack_part_a8g64(const float *x, int64_t first, int64_t rows, int64_t k, void *packed);
void ni_pack_part_a8g32(const float *x, int64_t first, int64_t rows, int64_t k, void *packed);

/// out[t * ld_out + (n - n_begin)] = sum_k W[n][k] * x[t][k] for t < rows and n_begin <= n < n_end.
/// Packing: f32 kernels ni_pack_f32; q4, q5, q6 the g64 packs; w8 the g32 packs.
/// With rows == 1 the range is read as four far streams, so give a thread's whole range in one call.
/// nvfp4 wants k % 64 == 0 (the format does).
#define NINFER_MICRO_LINEAR(name)                                                                                      \
  void name(const void *p0, const void *p1, const void *p2, const void *packed, int64_t rows, int64_t k,               \
            int64_t n_begin, int64_t n_end, float *out, int64_t ld_out, void *scratch)
NINFER_MICRO_LINEAR(ni_linear_bf16_f32);
NINFER_MICRO_LINEAR(ni_linear_fp32_f32);
NINFER_MICRO_LINEAR(ni_linear_fp8row_f32);
NINFER_MICRO_LINEAR(ni_linear_nvfp4_f32);
NINFER_MICRO_LINEAR(ni_linear_q4_f32);
NINFER_MICRO_LINEAR(ni_linear_q5_f32);
NINFER_MICRO_LINEAR(ni_linear_q6_f32);
NINFER_MICRO_LINEAR(ni_linear_w8_f32);
NINFER_MICRO_LINEAR(ni_linear_q4_a16);
NINFER_MICRO_LINEAR(ni_linear_q5_a16);
NINFER_MICRO_LINEAR(ni_linear_q6_a16);
NINFER_MICRO_LINEAR(ni_linear_w8_a16);
NINFER_MICRO_LINEAR(ni_linear_q4_a8);
NINFER_MICRO_LINEAR(ni_linear_q5_a8);
NINFER_MICRO_LINEAR(ni_linear_q6_a8);
NINFER_MICRO_LINEAR(ni_linear_w8_a8);
#undef NINFER_MICRO_LINEAR

/// out[k] = row `token` of the weight, exactly decoded to float32 (nvfp4: one rounding, of the division).
#define NINFER_MICRO_EMBED(name)                                                                                       \
  void name(const void *p0, const void *p1, const void *p2, int32_t token, int64_t k, float *out)
NINFER_MICRO_EMBED(ni_embed_bf16);
NINFER_MICRO_EMBED(ni_embed_fp32);
NINFER_MICRO_EMBED(ni_embed_fp8row);
NINFER_MICRO_EMBED(ni_embed_nvfp4);
NINFER_MICRO_EMBED(ni_embed_q4);
NINFER_MICRO_EMBED(ni_embed_q5);
NINFER_MICRO_EMBED(ni_embed_q6);
NINFER_MICRO_EMBED(ni_embed_w8);
#undef NINFER_MICRO_EMBED

/// Rotates the pairs (i, i + pairs), i < pairs, of each of `heads` consecutive vectors of `dim` elements
/// (1 <= pairs <= dim / 2); elements from 2 * pairs on are copied.
/// table: the row of the rope table for the position, [pairs][2] of cos, sin. y == x allowed.
void ni_rope(const float *x, const float *table, int64_t heads, int64_t dim, int64_t pairs, float *y);

/// Stores x[kv_heads][dim] at `position` of a cache plane [kv_heads][capacity][dim]; bf16 rounds to nearest even.
/// int8: codes [kv_heads][capacity][dim] and scales [kv_heads][capacity][ceil(dim / 64)]. Per group of 64: scale =
/// binary16 nearest to max|x| / 127 (65504 at most), code = clamp(round to nearest even(x * (scale ? 1 / scale : 0)),
/// -127, 127), all in float32.
void ni_kv_store_bf16(const float *x, int64_t kv_heads, int64_t dim, int64_t capacity, int64_t position, void *cache);
void ni_kv_store_f32(const float *x, int64_t kv_heads, int64_t dim, int64_t capacity, int64_t position, void *cache);
void ni_kv_store_int8(const float *x, int64_t kv_heads, int64_t dim, int64_t capacity, int64_t position, void *codes,
                      void *scales);

/// Softmax attention of all query heads that share one kv head, for `rows` consecutive positions.
/// Query (r, h) is q + r * q_stride + h * dim, r < rows, h < heads; its result goes to out + r * out_stride + h * dim.
/// k and v: that kv head's [capacity][dim]. Row r attends the first `length + r` positions (length >= 1).
/// A single query head at one position is rows = heads = 1. Scores are scaled by `scale`; sums in float32.
/// More rows and heads in one call read the cache fewer times: up to kMicroAttentionQueries share one pass. A query has the
/// same bits whatever queries are beside it. scratch: microAttentionScratchBytes(dim).
void ni_attention_bf16(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k, const void *v,
                       int64_t length, int64_t dim, float scale, float *out, int64_t out_stride, void *scratch);
void ni_attention_f32(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k, const void *v,
                      int64_t length, int64_t dim, float scale, float *out, int64_t out_stride, void *scratch);
/// The same over int8 planes. k and v: that kv head's codes [capacity][dim]; k_scales and v_scales: that kv head's
/// scales [capacity][ceil(dim / 64)], which lie behind the codes in the same plane.
void ni_attention_int8(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k,
                       const void *k_scales, const void *v, const void *v_scales, int64_t length, int64_t dim,
                       float scale, float *out, int64_t out_stride, void *scratch);

/// The same functions of the same caches for many rows, at most kMicroManyQueries heads; give it all rows of a kv head.
/// scratch: microManyAttentionScratchBytes(dim).
void ni_attention_many_bf16(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k, const void *v,
                            int64_t length, int64_t dim, float scale, float *out, int64_t out_stride, void *scratch);
void ni_attention_many_f32(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k, const void *v,
                           int64_t length, int64_t dim, float scale, float *out, int64_t out_stride, void *scratch);
void ni_attention_many_int8(const float *q, int64_t q_stride, int64_t rows, int64_t heads, const void *k,
                            const void *k_scales, const void *v, const void *v_scales, int64_t length, int64_t dim,
                            float scale, float *out, int64_t out_stride, void *scratch);

/// Causal depthwise convolution, then SiLU, over `rows` consecutive positions of `channels` consecutive channels:
/// out[t][c] = silu(sum_j w[j][c] * u[t - (taps - 1) + j][c]), 1 <= taps <= 8. u before row 0 is `tail`
/// [taps - 1][w_stride] (oldest first), which is then replaced by the last taps - 1 rows of u; after a call of fewer rows
/// older ones move up. w bf16 [taps][w_stride]; w and tail point at the first of the channels. Row strides of x and out
/// are x_stride and out_stride. peek: the tail is not replaced.
void ni_causal_conv(const float *x, int64_t x_stride, int64_t rows, const uint16_t *w, int64_t taps, int64_t channels,
                    int64_t w_stride, float *tail, float *out, int64_t out_stride, int64_t peek);

/// The gated delta rule for `dv` consecutive rows of the state of one value head, `rows` consecutive positions:
///   q, k = q / sqrt(sum q^2 + 1e-6), likewise k;  decay = exp(-exp(a_log) * softplus(a + dt_bias)), beta = 1 / (1 + exp(-b))
///   S = decay * S;  S = S + beta * (v - S k) k^T;  out = S q / sqrt(dk)
/// q and k point at the key head (row stride qk_stride), v and out at the first of the dv elements, a and b at the
/// scalar of the value head, a_log and dt_bias at its parameters. state: [dv][dk] float32, read and written.
/// A row of the state does not depend on the others: any cut of the rows gives the same bits. scratch:
/// microGatedDeltaScratchBytes(dk, peek). peek: the state is read only, and rows is at most kMicroDeltaTokens. Fastest with dk a multiple of 16 and dv a multiple of 4; every call normalises q and
/// k anew, so give it many rows of the state (all 128 of a head when there are enough heads for the threads).
void ni_gated_delta(const float *q, const float *k, int64_t qk_stride, const float *v, int64_t v_stride, const float *a,
                    const float *b, int64_t ab_stride, const float *a_log, const float *dt_bias, float *state,
                    int64_t rows, int64_t dk, int64_t dv, float *out, int64_t out_stride, void *scratch, int64_t peek);

/// y = x / sqrt(mean(x^2) + eps) * w * silu(gate) for each of `heads` consecutive vectors of `dim` elements, all with the
/// same w[dim] bf16. y == x or y == gate allowed.
void ni_gated_head_norm(const float *x, const uint16_t *w, const float *gate, float eps, int64_t heads, int64_t dim,
                        float *y);

/// y = (x - mean) / sqrt(variance + eps) * w + b for one row of k elements; w and b bf16. y == x allowed.
void ni_layer_norm(const float *x, const uint16_t *w, const uint16_t *b, float eps, int64_t k, float *y);
/// out = x + b; b bf16. out == x allowed.
void ni_bias(const float *x, const uint16_t *b, int64_t n, float *out);
/// out = x / 2 * (1 + erf(x / sqrt(2))), and out = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))). out == x allowed.
void ni_gelu(const float *x, int64_t n, float *out);
void ni_gelu_tanh(const float *x, int64_t n, float *out);
/// Rotates the pairs (i, i + 2 pairs), i < 2 pairs, of each of `heads` consecutive vectors of 4 * pairs elements by entry
/// i mod pairs of the row positions[i / pairs] of the rope table [capacity][pairs][2]. A position outside of the table
/// reads its nearest row. y == x allowed.
void ni_axial_rope(const float *x, const float *table, int64_t capacity, const int32_t *positions, int64_t heads,
                   int64_t pairs, float *y);
/// out[k] = sum over t < taps of weights[t] * table[indices[t]], table bf16 [rows][k]. An index outside of the table
/// reads its nearest row.
void ni_gather_bf16(const uint16_t *table, int64_t rows, const int32_t *indices, const float *weights, int64_t taps,
                    int64_t k, float *out);
/// Softmax attention of `rows` queries of one head to all `length` keys of it. Query r is q + r * stride, key j is
/// k + j * stride, value j v + j * stride, result r out + r * stride, `dim` elements each. Keys and
/// values are packed once per 256 queries, so give it many rows. scratch: microFullAttentionScratchBytes(dim).
void ni_full_attention(const float *q, const float *k, const float *v, int64_t stride, int64_t rows, int64_t length,
                       int64_t dim, float scale, float *out, void *scratch);

/// out = x / (1 + exp(-gate)). out == x or out == gate allowed.
void ni_sigmoid_mul(const float *x, const float *gate, int64_t n, float *out);
/// out = x / (1 + exp(-*gate)): one gate for n elements. out == x allowed.
void ni_sigmoid_scale(const float *x, const float *gate, int64_t n, float *out);
/// out += factor * x.
void ni_scale_add(const float *x, float factor, int64_t n, float *out);
/// Routes of one row: out[0, top_k) = numbers of the top_k largest logits in falling order, equal ones by rising number,
/// as float32; out[top_k, 2 top_k) = softmax of these logits. 1 <= top_k <= experts. Numbers are below `experts` whatever
/// the logits, NaN included: a kernel that reads the bank stays inside it.
void ni_moe_route(const float *logits, int64_t experts, int64_t top_k, float *out);
/// Sorts the routes of `rows` rows (as ni_moe_route writes them) by expert: the entries of expert e are
/// entries[first[e], first[e + 1]), each row * top_k + slot, rising. first[experts + 1], entries[rows * top_k]. A number
/// that names no expert counts as 0.
void ni_expert_groups(const float *routes, int64_t rows, int64_t top_k, int64_t experts, int64_t *first,
                      int64_t *entries);
/// out[i][k] = x[entries[i] / divisor][k] for i < count; rows densely packed.
void ni_gather_rows(const float *x, const int64_t *entries, int64_t divisor, int64_t count, int64_t k, float *out);
/// out = gate / (1 + exp(-gate)) * up. out == gate or out == up allowed.
void ni_silu_mul(const float *gate, const float *up, int64_t n, float *out);
/// out = a + b. out == a or out == b allowed.
void ni_add(const float *a, const float *b, int64_t n, float *out);

} // extern "C"

#endif // NINFER_CODEGEN_CPU_KERNELS_MICROKERNELS_H
