// Operators on activations alone, element by element, in binary32 with one rounding to bfloat16:
//   Add: a + b.  Swiglu: silu(a) * b.  SigmoidGate: a * sigmoid(b).  SigmoidRowGate: a * sigmoid(b[row]), row = i / width
// Launch: grid divideUp(count, kElementwiseThreads * kElementwisePerThread), kElementwiseThreads, no shared memory.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_ELEMENTWISE_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_ELEMENTWISE_CUH

#include "ni.cuh"
#include "rows_spec.cuh"

namespace ni {

struct ElementwiseArgs {
  const u16 *a; ///< bfloat16 [count], 16-byte aligned
  const u16 *b; ///< like a; SigmoidRowGate: [count / width]
  u16 *out;     ///< like a; may be a or b
  u32 count;
  u32 width; ///< SigmoidRowGate: elements of a row
};

template <ElementwiseSpec S>
struct Elementwise {
  static constexpr bool kRowGate = S.op == ElementwiseOp::SigmoidRowGate;

  NI_FN void run(const ElementwiseArgs &args) {
    const u32 first = (blockX() * kElementwiseThreads + threadIndex()) * kElementwisePerThread;
    if (first + kElementwisePerThread <= args.count) {
      const Words4 va = load(reinterpret_cast<const Words4 *>(args.a + first));
      const u32 a[4] = {va.x, va.y, va.z, va.w};
      u32 b[4] = {0, 0, 0, 0}, y[4];
      if constexpr (!kRowGate) {
        const Words4 vb = load(reinterpret_cast<const Words4 *>(args.b + first));
        b[0] = vb.x;
        b[1] = vb.y;
        b[2] = vb.z;
        b[3] = vb.w;
      }
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i) {
        if constexpr (kRowGate)
          b[i] = gateOf(args, first + 2 * i) | gateOf(args, first + 2 * i + 1) << 16;
        y[i] = packBf16(apply(bf16Low(a[i]), bf16Low(b[i])), apply(bf16High(a[i]), bf16High(b[i])));
      }
      store(reinterpret_cast<Words4 *>(args.out + first), Words4{y[0], y[1], y[2], y[3]});
    } else {
      for (u32 i = first; i < args.count; ++i) {
        const u32 b = kRowGate ? gateOf(args, i) : load(args.b + i);
        store(args.out + i, floatToBf16(apply(bf16ToFloat(load(args.a + i)), bf16Low(b))));
      }
    }
  }

private:
  NI_FN u32 gateOf(const ElementwiseArgs &args, u32 i) { return load(args.b + i / args.width); }
  NI_FN float apply(float a, float b) {
    if constexpr (S.op == ElementwiseOp::Add)
      return a + b;
    else if constexpr (S.op == ElementwiseOp::Swiglu)
      return silu(a) * b;
    else
      return a * sigmoid(b);
  }
};

} // namespace ni

#define NI_ELEMENTWISE(name, ...)                                                                                      \
  namespace ni {                                                                                                       \
  constexpr ElementwiseSpec name##_spec = __VA_ARGS__;                                                                 \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kElementwiseThreads, 4)                                                                          \
  (const ni::u16 *a, const ni::u16 *b, ni::u16 *out, ni::u32 count, ni::u32 width) {                                   \
    ni::Elementwise<ni::name##_spec>::run({a, b, out, count, width});                                                  \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_ELEMENTWISE_CUH
