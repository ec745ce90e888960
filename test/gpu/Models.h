// Random weights in place of an artifact's: for measurements with the shapes of a large model.
#ifndef NINFER_TEST_GPU_MODELS_H
#define NINFER_TEST_GPU_MODELS_H

#include "runtime/cuda/DeviceWeights.h"
#include "test/gpu/Gpu.h"

namespace ninfer::gpucheck {

/// Fills every weight of a plan's Load phase on the device, by its format.
class RandomWeights final : public gpu::PackedSource {
public:
  RandomWeights(const Pack &pack, Gpu &gpu) : pack_(pack), gpu_(gpu) {}
  uint64_t stagingBytes() const override { return 0; }
  Status fill(const gpu::DevicePtr &device, const plan::Target &target, gpu::DevicePointer packed,
              const gpu::UploadProgress &progress) override;

private:
  const Pack &pack_;
  Gpu &gpu_;
};

} // namespace ninfer::gpucheck

#endif // NINFER_TEST_GPU_MODELS_H
