/* The ABI between a plan's machine code and the runtime that calls it. Nothing but C standard headers.
 *
 * A kernel runs tiles [tile_begin, tile_end) of one launch. Calls of one launch on disjoint tile ranges may
 * run at the same time on different threads; the runtime places a barrier between launches.
 *
 * args: one pointer per launch argument, in this order: for each operand of the launch, in order,
 *   - a weight: one pointer per plane. row-split-k128-v1: base, high (5 and 6 bit only), scales.
 *     contiguous-le-v1: words. row-scale-v1: codes, scales. blockscale-k16-m128x4-v1: codes, scales, divisor.
 *     A plane pointer addresses the first row of the parameter, also when the parameter is a row range of a
 *     larger object;
 *   - an activation: float32, row-major, rows densely packed; token ids and indices: int32;
 *   - a KV cache: keys, then values, each [kv_heads][capacity][head_dim] of bf16 or float32 words, or (int8) of signed
 *     bytes, padded to 64 bytes, then binary16 scales [kv_heads][capacity][ceil(head_dim / 64)] in the same buffer;
 *   - a convolution state: float32 [taps - 1][channels], oldest row first;
 *   - a delta-rule state: float32 [value_heads][value_dim][key_dim];
 *   - a rope table: float32 [capacity][pairs][2] of cos, sin;
 *   then one pointer per result. Position operands are not passed here: they are scalars.
 * scalars: [NINFER_SCALAR_ROWS] rows of this call, [NINFER_SCALAR_POSITION] position of row 0 in the sequence.
 * scratch: 64-byte aligned, at least Kernel.scratch_bytes, private to the calling thread, contents undefined.
 * Activation pointers are 64-byte aligned. Weight planes are 256-byte aligned at row 0 of their object.
 * A kernel neither allocates, nor calls out, nor fails: every limit is checked when the plan is built. */
#ifndef NINFER_RUNTIME_ABI_KERNEL_ABI_H
#define NINFER_RUNTIME_ABI_KERNEL_ABI_H

#include <stdint.h>

#define NINFER_KERNEL_ABI_VERSION 1u

enum { NINFER_SCALAR_ROWS = 0, NINFER_SCALAR_POSITION = 1, NINFER_SCALAR_COUNT = 4 };

typedef void (*ninfer_kernel_fn)(void *const *args, const int64_t *scalars, int64_t tile_begin,
                                 int64_t tile_end, void *scratch);

#endif /* NINFER_RUNTIME_ABI_KERNEL_ABI_H */
