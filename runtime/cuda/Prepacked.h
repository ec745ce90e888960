// Packed weights from a file of ninfer-build --prepack: mapped, and copied to the device as they are.
#ifndef NINFER_RUNTIME_CUDA_PREPACKED_H
#define NINFER_RUNTIME_CUDA_PREPACKED_H

#include "runtime/cuda/DeviceWeights.h"
#include "schema/PackedFile.h"
#include "support/File.h"

namespace ninfer::gpu {

class PrepackedFile final : public PackedSource {
public:
  /// NB0647 and NB0648 of schema/PackedFile.h; NB0901, NB0902.
  static Result<std::shared_ptr<PrepackedFile>> open(const std::filesystem::path &path, const plan::Target &target,
                                                     const Sha256Digest &storageSignature, std::span<const std::byte> payload);
  uint64_t stagingBytes() const override { return 0; }
  Status fill(const DevicePtr &device, const plan::Target &target, DevicePointer packed, const UploadProgress &progress) override;

private:
  MappedFile file_;
  PackedSection section_;
};

} // namespace ninfer::gpu

#endif // NINFER_RUNTIME_CUDA_PREPACKED_H
