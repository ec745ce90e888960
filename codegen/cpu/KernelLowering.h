// One `ninfer.kernel` -> one module with one `llvm.func` that calls micro-kernels with constant
// sizes.
//
// What a tile is: codegen/common/Tiling.h. A kernel must be right for every split of its tiles, so
// a tile range always maps to a range of independent results; each Lower*.cpp says which.
#ifndef NINFER_CODEGEN_CPU_KERNELLOWERING_H
#define NINFER_CODEGEN_CPU_KERNELLOWERING_H

#include "codegen/cpu/KernelBuilder.h"
#include "codegen/cpu/Tuning.h"
#include "codegen/cpu/kernels/MicroKernels.h"
#include "dialects/ninfer/NinferDialect.h"

#include <optional>
#include <string>

namespace ninfer::cpu {

struct LoweredKernel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  uint64_t scratchBytes = 0;
  KernelBuilder::Outlined outlined; ///< micro-kernels it calls that are compiled beside it
};

/// ELF symbol of a kernel: its name with everything outside [A-Za-z0-9_.] replaced by '_'.
std::string kernelSymbol(KernelOp kernel);

/// Lowers by family and profile. What is not implemented is an error diagnostic on the kernel.
mlir::FailureOr<LoweredKernel> lowerKernel(KernelOp kernel, const CpuTuning &tuning = {});

/// State of one lowering, shared by the families.
class KernelLowering {
public:
  KernelLowering(KernelOp kernel, const CpuTuning &tuning);

  KernelOp kernel;
  CpuTuning tuning;
  KernelBuilder b;
  /// The operations of the kernel, be they in the kernel's own region or in one ninfer.fused.
  mlir::Block *body = nullptr;
  /// Values of `body` that the results are, in result order.
  llvm::SmallVector<mlir::Value> results;

  /// Error on the kernel, naming family and profile.
  mlir::LogicalResult refuse(const llvm::Twine &why);
  /// Fills `body` and `results`; refuses a region of another form.
  mlir::LogicalResult open();

  /// True for an argument of the kernel (seen through a fused region).
  bool isArgument(mlir::Value value) { return static_cast<bool>(argumentOf(value)); }
  /// Plane or buffer pointers of an argument, null-padded to three.
  llvm::SmallVector<mlir::Value, 3> pointers(mlir::Value value);
  mlir::Value pointer(mlir::Value value) { return pointers(value).front(); }
  /// Buffer of result `index`.
  mlir::Value resultPointer(unsigned index);

  /// Rows of an activation or of tokens: a constant, or the rows of the call.
  mlir::Value rowsOf(mlir::Value value);
  /// The largest number of rows of it.
  int64_t maxRowsOf(mlir::Value value);
  bool hasStaticRows(mlir::Value value);
  mlir::Value position() { return b.scalar(/*NINFER_SCALAR_POSITION=*/1); }
  static int64_t widthOf(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType()).getDimSize(1);
  }

  /// The only operation of the body, if it is an Op.
  template <typename Op>
  Op single() {
    return body->getOperations().size() == 2 ? llvm::dyn_cast<Op>(body->front()) : Op();
  }

  /// Cuts `units` independent units per row of `rowsLike` by the kernel's tiles (one tile per row,
  /// one per unit, or one for everything) and gives the range [begin, end) of unit indices,
  /// row-major, of this call.
  mlir::LogicalResult unitRange(mlir::Value rowsLike, int64_t units, mlir::Value &begin,
                                mlir::Value &end);
  /// As unitRange with one unit per row, as a loop over rows.
  mlir::LogicalResult forEachRow(mlir::Value rowsLike, llvm::function_ref<void(mlir::Value)> row);

private:
  mlir::BlockArgument argumentOf(mlir::Value value);
  static int64_t pointerCount(mlir::Type type);
};

/// How a profile packs the activations for a weight format, and the micro-kernel that does it.
MicroPack microPackOf(Format format, llvm::StringRef profile);
llvm::StringRef microPackFunction(MicroPack pack);
llvm::StringRef microPackPartFunction(MicroPack pack);

/// "q4", "bf16", ...: format in the names of micro-kernels; nothing for a format without one.
std::optional<llvm::StringRef> microFormatName(Format format);
/// Codec of a cache in the names of micro-kernels, and the places inside one plane of it.
llvm::StringRef microCodecName(KvCacheType cache);
struct CachePlane {
  int64_t headBytes = 0;       ///< codes or words of one head
  int64_t scalesOffset = 0;    ///< int8: first scale, from the start of the plane
  int64_t headScaleBytes = 0;  ///< int8: scales of one head
  bool hasScales() const { return headScaleBytes != 0; }
};
CachePlane cachePlane(KvCacheType cache);

/// bf16 words of a vector, as the norm micro-kernels want them.
bool isBf16Vector(mlir::Value weight);

// Families. `profile` is the kernel's.
mlir::LogicalResult lowerLinear(KernelLowering &l, llvm::StringRef profile);
mlir::LogicalResult lowerEmbedding(KernelLowering &l);
mlir::LogicalResult lowerRmsNorm(KernelLowering &l);
mlir::LogicalResult lowerHeadNorm(KernelLowering &l);
mlir::LogicalResult lowerRope(KernelLowering &l);
mlir::LogicalResult lowerKvAppend(KernelLowering &l);
mlir::LogicalResult lowerSwiglu(KernelLowering &l);
mlir::LogicalResult lowerAdd(KernelLowering &l);
mlir::LogicalResult lowerLastRow(KernelLowering &l);
mlir::LogicalResult lowerStoreRows(KernelLowering &l);
mlir::LogicalResult lowerLoadRows(KernelLowering &l);
mlir::LogicalResult lowerConcat(KernelLowering &l);
mlir::LogicalResult lowerReplaceRows(KernelLowering &l);
mlir::LogicalResult lowerPlaceAngles(KernelLowering &l);
mlir::LogicalResult lowerAttention(KernelLowering &l);
mlir::LogicalResult lowerRopeAppend(KernelLowering &l);
mlir::LogicalResult lowerSigmoidGate(KernelLowering &l);
mlir::LogicalResult lowerGatedHeadNorm(KernelLowering &l);
mlir::LogicalResult lowerCausalConv(KernelLowering &l);
mlir::LogicalResult lowerGatedDelta(KernelLowering &l);
mlir::LogicalResult lowerMoeRoute(KernelLowering &l);
mlir::LogicalResult lowerLayerNorm(KernelLowering &l);
mlir::LogicalResult lowerBias(KernelLowering &l);
mlir::LogicalResult lowerGelu(KernelLowering &l);
mlir::LogicalResult lowerAxialRope(KernelLowering &l);
mlir::LogicalResult lowerFullAttention(KernelLowering &l);
mlir::LogicalResult lowerInterpolate(KernelLowering &l);
mlir::LogicalResult lowerMoeUp(KernelLowering &l, llvm::StringRef profile);
mlir::LogicalResult lowerMoeDown(KernelLowering &l, llvm::StringRef profile);

} // namespace ninfer::cpu

#endif // NINFER_CODEGEN_CPU_KERNELLOWERING_H
