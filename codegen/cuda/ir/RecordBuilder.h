// The half of a specialisation that is the same for every operator: which argument of the launch a value is, what each
// parameter of the text gets, how many thread blocks there are. The other half chooses the text (Specialize.cpp and the
// files it calls).
#ifndef NINFER_CODEGEN_CUDA_IR_RECORDBUILDER_H
#define NINFER_CODEGEN_CUDA_IR_RECORDBUILDER_H

#include "codegen/cuda/ir/Specialize.h"

#include <bit>

namespace ninfer::cuda {

inline constexpr uint32_t kActivationBytes = 2;

inline int64_t widthOf(mlir::Value activation) {
  return mlir::cast<mlir::RankedTensorType>(activation.getType()).getDimSize(1);
}

class RecordBuilder {
public:
  RecordBuilder(KernelOp kernel, const Device &device) : kernel_(kernel), device_(device), sm_(device.sm) {
    out_.name = kernel.getSymName().str();
    out_.panels.assign(kernel.getBlock()->getNumArguments(), false);
  }

  uint32_t sm() const { return sm_; }
  SpecializedKernel &record() { return out_; }
  Error fail(const std::string &rule) const {
    return makeError(ErrorKind::Unsupported, "NB0491", "CUDA kernel " + out_.name + ": " + rule);
  }

  /// A value inside the kernel as an argument of it: through a fused region.
  mlir::BlockArgument argumentOf(mlir::Value value) const {
    auto argument = mlir::cast<mlir::BlockArgument>(value);
    if (auto fused = mlir::dyn_cast<FusedOp>(argument.getOwner()->getParentOp()))
      return argumentOf(fused.getInputs()[argument.getArgNumber()]);
    return argument;
  }
  static unsigned launchArguments(mlir::Type type) { return type.isIndex() ? 0 : mlir::isa<KvCacheType>(type) ? 2 : 1; }
  uint16_t indexOf(mlir::BlockArgument argument) const {
    unsigned index = 0;
    for (mlir::BlockArgument other : kernel_.getBlock()->getArguments().take_front(argument.getArgNumber()))
      index += launchArguments(other.getType());
    return static_cast<uint16_t>(index);
  }
  uint16_t resultIndex() const {
    unsigned index = 0;
    for (mlir::BlockArgument argument : kernel_.getBlock()->getArguments())
      index += launchArguments(argument.getType());
    return static_cast<uint16_t>(index); // the first result, or what joined ones share
  }

  RecordBuilder &parameter(plan::CudaParamKind kind, uint16_t arg = 0, uint32_t value = 0, uint32_t perRow = 0) {
    out_.params.emplace_back(kind, arg, value, perRow);
    return *this;
  }
  RecordBuilder &null() { return parameter(plan::CudaParamKind::Null); }
  RecordBuilder &pointer(mlir::Value value, uint16_t plane = 0, uint32_t perRow = 0, uint64_t offset = 0) {
    return parameter(plan::CudaParamKind::Pointer, static_cast<uint16_t>(indexOf(argumentOf(value)) + plane),
                     static_cast<uint32_t>(offset), perRow);
  }
  RecordBuilder &panels(mlir::Value weight) {
    out_.panels[argumentOf(weight).getArgNumber()] = true;
    return pointer(weight);
  }
  /// The launch's own memory: 0 scratch, 1 counters.
  RecordBuilder &own(uint16_t which) {
    return parameter(plan::CudaParamKind::Pointer, static_cast<uint16_t>(resultIndex() + 1 + which));
  }
  RecordBuilder &result(size_t index = 0) {
    return parameter(plan::CudaParamKind::Pointer, static_cast<uint16_t>(resultIndex() + index));
  }
  RecordBuilder &position() { return parameter(plan::CudaParamKind::Position); }
  RecordBuilder &word(uint64_t value) { return parameter(plan::CudaParamKind::Word, 0, static_cast<uint32_t>(value)); }
  RecordBuilder &number(double value) { return word(std::bit_cast<uint32_t>(static_cast<float>(value))); }
  /// `each` per row of the activation.
  RecordBuilder &perRow(mlir::Value activation, uint64_t each) {
    auto type = mlir::cast<mlir::RankedTensorType>(activation.getType());
    if (!type.isDynamicDim(0))
      return word(each * type.getDimSize(0));
    return parameter(plan::CudaParamKind::Word, 0, 0, static_cast<uint32_t>(each));
  }

  void blocks(uint64_t count) { out_.tilesConst = count; }
  /// `each` for every `rows` rows that were begun.
  void blocksPerRow(mlir::Value activation, uint64_t each, uint32_t rows = 1) {
    auto type = mlir::cast<mlir::RankedTensorType>(activation.getType());
    if (type.isDynamicDim(0)) {
      out_.tilesPerRow = each;
      out_.rowsPerTile = rows;
    } else {
      out_.tilesConst = each * ni::divideUp(static_cast<uint32_t>(type.getDimSize(0)), rows);
    }
  }
  /// Most rows of an activation in one call.
  uint32_t rowsOf(mlir::Value activation) const {
    auto type = mlir::cast<mlir::RankedTensorType>(activation.getType());
    return static_cast<uint32_t>(type.isDynamicDim(0) ? kernel_.getRows() : type.getDimSize(0));
  }

  Result<SpecializedKernel> checked() {
    if (out_.params.size() != out_.text.params.size())
      return fail("has " + std::to_string(out_.params.size()) + " parameters, its text " +
                  std::to_string(out_.text.params.size()));
    for (size_t i = 0; i < out_.params.size(); ++i)
      if ((out_.params[i].kind() == plan::CudaParamKind::Word ? 4u : 8u) != out_.text.params[i].bytes)
        return fail("parameter " + std::string(out_.text.params[i].name) + " is of another size in its text");
    if (out_.text.sharedBytes > device_.sharedPerBlock)
      return fail(out_.text.name + " needs " + std::to_string(out_.text.sharedBytes) + " bytes of shared memory, a block of " +
                  std::string(device_.name) + " has " + std::to_string(device_.sharedPerBlock));
    return std::move(out_);
  }

protected:
  mutable KernelOp kernel_; // a handle, without const accessors
  const Device &device_;
  uint32_t sm_;
  SpecializedKernel out_;
};

/// store_rows, load_rows, concat and last_row: rows from one place to another. (SpecializeCopies.cpp)
Status copyRows(mlir::Operation *op, RecordBuilder &builder);
/// Operators of a vision tower. (SpecializeVision.cpp)
Status vision(mlir::Operation *op, RecordBuilder &builder);

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_IR_RECORDBUILDER_H
