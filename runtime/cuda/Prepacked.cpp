#include "runtime/cuda/Prepacked.h"

#include "runtime/cuda/Upload.h"

#include <algorithm>
#include <cstring>

namespace ninfer::gpu {

Result<std::shared_ptr<PrepackedFile>> PrepackedFile::open(const std::filesystem::path &path, const plan::Target &target,
                                                           const Sha256Digest &storageSignature,
                                                           std::span<const std::byte> payload) {
  auto packed = std::make_shared<PrepackedFile>();
  NINFER_ASSIGN_OR_RETURN(packed->file_, MappedFile::open(path));
  NINFER_ASSIGN_OR_RETURN(const PackedHeader header, readPackedHeader(packed->file_.bytes(), path.string()));
  NINFER_ASSIGN_OR_RETURN(packed->section_, findPackedSection(header, path.string(), target, storageSignature, payload));
  packed->file_.advise(MappedFile::Access::WillNeed);
  return packed;
}

Status PrepackedFile::fill(const DevicePtr &device, const plan::Target &, DevicePointer packed, const UploadProgress &progress) {
  constexpr uint64_t kChunk = uint64_t(32) << 20;
  const std::span<const std::byte> bytes = file_.bytes().subspan(section_.offset, section_.bytes);
  // Freed in reverse order: the stream first, so that nothing runs on freed memory.
  NINFER_ASSIGN_OR_RETURN(Upload upload, Upload::create(device, std::min(kChunk, section_.bytes)));
  NINFER_ASSIGN_OR_RETURN(const Stream stream, createStream(device));
  const Driver &d = device->driver();
  for (uint64_t at = 0; at < bytes.size(); at += kChunk) {
    const uint64_t count = std::min(kChunk, bytes.size() - at);
    NINFER_ASSIGN_OR_RETURN(std::byte *host, upload.buffer());
    std::memcpy(host, bytes.data() + at, count);
    NINFER_RETURN_IF_ERROR(d.check(d.copyToDevice(packed + at, host, count, stream.get()), "cuMemcpyHtoDAsync"));
    NINFER_RETURN_IF_ERROR(upload.sent(stream.get()));
    if (progress)
      progress(at + count, bytes.size());
  }
  return d.check(d.streamSynchronize(stream.get()), "cuStreamSynchronize");
}

} // namespace ninfer::gpu
