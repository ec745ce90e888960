// What the section of a CUDA target has beside the general tables: kernels with their launch descriptors, weights packed
// for the device, and the Load phase that packs them. Internal.
#ifndef NINFER_CODEGEN_PLAN_PLANCUDA_H
#define NINFER_CODEGEN_PLAN_PLANCUDA_H

#include "codegen/cuda/ir/CudaCodegen.h"

#include <map>
#include <tuple>

namespace ninfer {

/// What cuMemAlloc aligns to; also between packed weights and between states.
inline constexpr uint64_t kCudaAlign = 256;
/// Payload that one launch of Load may read, when a weight is larger: whole blocks of 128 rows at a time.
inline constexpr uint64_t kStagingTarget = uint64_t{32} << 20;

class CudaSection {
public:
  /// `blob` is the index of the first cubin in the plan.
  CudaSection(const cuda::CudaObject &object, uint32_t blob, std::string target)
      : object_(object), blob_(blob), target_(std::move(target)) {}

  Result<std::unique_ptr<plan::KernelT>> kernel(KernelOp op);
  void setBlocks(KernelOp op, plan::LaunchT &launch);
  /// States that kernels share as scratch and as counters, behind the others; a stream runs one launch at a time.
  void addStates(plan::TargetT &target);
  /// The references to them that a launch of the kernel has as last arguments.
  void addOwn(KernelOp op, std::vector<plan::Ref> &args) const;
  /// The packed place of a weight that argument `index` of the kernel reads; equal weights share one.
  Result<plan::Ref> weight(ParameterOp parameter, KernelOp kernel, size_t index);
  /// Adds the Load phase in front, its kernels behind the others, and the target's descriptor.
  void finish(plan::TargetT &target);

private:
  std::unique_ptr<plan::KernelT> entry(const std::string &name, const std::string &text,
                                       const std::vector<plan::CudaParam> &params, std::array<uint32_t, 3> grid) const;
  void copy(ParameterOp parameter, uint64_t to);
  Status pack(ParameterOp parameter, uint64_t to);
  /// Index, among the kernels of Load, of the one of that name.
  uint32_t loadKernel(std::unique_ptr<plan::KernelT> kernel);
  void addLaunch(uint32_t kernel, std::vector<plan::Ref> args, uint64_t blocks, const std::string &label);

  using WeightKey = std::tuple<std::vector<int64_t>, int64_t, int64_t, int, bool>;

  const cuda::CudaObject &object_;
  uint32_t blob_;
  std::string target_;
  std::map<std::string, const cuda::SpecializedKernel *> kernels_;
  std::map<WeightKey, plan::Ref> weights_;
  std::vector<std::unique_ptr<plan::KernelT>> loadKernels_;
  std::vector<std::unique_ptr<plan::LaunchT>> loads_;
  uint32_t firstOwn_ = 0; ///< index of the state with scratch
  uint64_t packedBytes_ = 0, stagingBytes_ = 0;
};

} // namespace ninfer

#endif // NINFER_CODEGEN_PLAN_PLANCUDA_H
