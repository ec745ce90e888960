// The full signature of one kernel request: everything a kernel family may accept or refuse, and
// nothing about a model. Admission (Admission.h) tests it against the families; passes/ fills it
// from the IR. Free of MLIR.
#ifndef NINFER_CODEGEN_COMMON_SIGNATURE_H
#define NINFER_CODEGEN_COMMON_SIGNATURE_H

#include "artifact/formats/Format.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// What a kernel computes. Linear and RopeAppend also name fused groups (KernelSignature::fused).
enum class OpKind : uint8_t {
  Embedding,
  RmsNorm,
  HeadNorm,
  Linear,
  Rope,
  KvAppend,
  Attention,
  Swiglu,
  Add,
  LastRow,
  RopeAppend,
  SigmoidGate,
  CausalConv,
  GatedDelta,
  GatedHeadNorm,
  MoeRoute,
  MoeUp,
  MoeDown,
  StoreRows,
  LoadRows,
  Concat,
  LayerNorm,
  Bias,
  Gelu,
  AxialRope,
  FullAttention,
  Interpolate,
  PlaceAngles,
  ReplaceRows,
};
inline constexpr int kNumOpKinds = 29;

/// Phases of a plan that run kernels of the compiler; what each is for: schema/plan.fbs.
enum class KernelPhase : uint8_t { Decode, Prefill, Verify, Draft, DraftNext, Commit, Encode, Place };
inline constexpr int kNumKernelPhases = 8;

/// Observable arithmetic of a kernel: type of the activations inside a dot product.
/// f32: float32; a16: int16 per weight group; a8: int8 per weight group; bf16: bfloat16, sums in
/// float32.
enum class KernelProfile : uint8_t { F32, A16, A8, BF16 };

/// What happens to the activation rows before a linear kernel's dot products.
enum class KernelPrologue : uint8_t { None, RmsNorm, LastRow, LastRowRmsNorm };

/// What happens to the results of a linear kernel before they are stored.
enum class KernelEpilogue : uint8_t { Store, Residual, Swiglu };

/// Words of a KV cache.
enum class StateCodec : uint8_t { BF16, F32, Int8 };
inline constexpr int kNumStateCodecs = 3;

std::string_view opKindName(OpKind op);              ///< "linear", "rope_append", ...
std::string_view kernelPhaseName(KernelPhase phase); ///< "decode", "prefill", "draft_next", ...
std::optional<KernelPhase> parseKernelPhase(std::string_view name);
std::string_view profileName(KernelProfile profile); ///< "f32", "a16", "a8", "bf16"
std::string_view
prologueName(KernelPrologue prologue); ///< "none", "rms_norm", "last_row", "last_row+rms_norm"
std::string_view epilogueName(KernelEpilogue epilogue); ///< "store", "residual", "swiglu"
std::string_view stateCodecName(StateCodec codec);      ///< "bf16", "f32", "int8"

/// One weight operand that takes part in the dot products (or the gather): [n, k], k contiguous.
struct WeightSignature {
  Format format = Format::BF16;
  Layout layout = Layout::ContiguousLeV1;
  int64_t n = 0; ///< output rows
  int64_t k = 0; ///< inputs per row
  bool operator==(const WeightSignature &) const = default;
};

/// Activation rows of one call. A kernel must be right for every value in [min, max].
struct RowRange {
  int64_t min = 1;
  int64_t max = 1;
  bool isStatic() const { return min == max; }
  bool operator==(const RowRange &) const = default;
};

struct KernelSignature {
  OpKind op = OpKind::Linear;
  bool fused = false; ///< a fused group; executors of single operators refuse it

  /// Embedding, Interpolate: the table; Linear: one per segment, in operand order; MoeUp, MoeDown: the bank;
  /// otherwise empty.
  std::vector<WeightSignature> weights;
  KernelPrologue prologue = KernelPrologue::None;
  KernelEpilogue epilogue = KernelEpilogue::Store;
  /// Linear: the strictest policy of the segments; MoeUp, MoeDown: that of the bank.
  ActivationPolicy policy = ActivationPolicy::A16Only;
  /// Formats of the small weights the kernel reads element by element: norms (RmsNorm, HeadNorm,
  /// GatedHeadNorm, norm prologue, RopeAppend), taps (CausalConv), a_log and dt_bias (GatedDelta),
  /// weight and bias (LayerNorm), Bias.
  std::vector<Format> normFormats;

  KernelPhase phase = KernelPhase::Decode;
  RowRange rows; ///< rows of the kernel's results
  /// LastRow, or a LastRow prologue: rows of the input; otherwise equal to `rows`.
  RowRange inputRows;
  /// Linear, Bias: rows of the call that make one row of the weight's length. `rows` of a linear count
  /// such groups.
  int64_t rowGroup = 1;

  int64_t width =
      0; ///< elements per activation row of the input (RmsNorm, Swiglu, Add, LastRow, ...), channels; of a table row (PlaceAngles)
  int64_t heads = 0; ///< query heads (HeadNorm, Rope, Attention, RopeAppend), value heads (GatedDelta)
  int64_t kvHeads = 0; ///< KvAppend, Attention, RopeAppend; key heads (GatedDelta)
  int64_t headDim = 0; ///< GatedDelta: value dimension
  int64_t keyDim = 0;  ///< GatedDelta
  int64_t rotaryDim = 0; ///< leading elements of a head that turn (Rope, RopeAppend)
  int64_t taps = 0;      ///< CausalConv; Interpolate: table rows per row
  bool tanh = false;     ///< Gelu: the approximation
  int64_t experts = 0;   ///< MoeRoute, MoeUp, MoeDown
  int64_t topK = 0;      ///< experts of one row
  std::vector<int64_t> segmentWidths; ///< CausalConv: channels of query, key, value
  int64_t column = 0; ///< StoreRows, LoadRows: first column of the buffer
  bool peek = false; ///< CausalConv, GatedDelta: the state is left as it was
  int64_t capacity = 0; ///< positions a KV cache or rope table holds
  std::optional<StateCodec> codec;
  /// The result is stored in float32 also where activations are stored in bfloat16 (KernelTarget::storesBf16; false
  /// elsewhere): the caller or a moe_route reads it.
  bool wide = false;
};

/// "W8G32_F16S linear 34816x5120, rows 1..8": the request as diagnostics and traces print it.
std::string describe(const KernelSignature &signature);

/// "q6g64", "w8g32", "bf16", "fp8row", "nvfp4", ...: format in kernel names.
std::string_view formatShortName(Format format);

} // namespace ninfer

#endif // NINFER_CODEGEN_COMMON_SIGNATURE_H
