#include "runtime/executor/CudaPorts.h"

#include "artifact/formats/Words.h"

#include <algorithm>
#include <cstring>

namespace ninfer {

namespace {

constexpr uint64_t kHostElement = 4; ///< float32 or int32

template <typename Visit>
void eachPort(const plan::Phase &phase, Visit visit) {
  for (const auto *ports : {phase.inputs(), phase.outputs()})
    if (ports)
      for (const plan::Port *port : *ports)
        visit(*port);
}

bool isBf16(const plan::Port &port) { return port.element() == plan::ElementType::BF16; }

uint64_t hostSize(const plan::Port &port) { return port.ref()->bytes() / elementBytes(port.element()) * kHostElement; }

/// Elements of a call; a port of a single row has no more.
uint64_t elements(const plan::Port &port, int64_t rows) {
  return std::min(uint64_t(rows) * port.width(), port.ref()->bytes() / elementBytes(port.element()));
}

} // namespace

uint64_t CudaPorts::hostBytes(const plan::Target &target) {
  uint64_t bytes = 0, staging = 0;
  for (const plan::Phase *phase : *target.phases())
    eachPort(*phase, [&](const plan::Port &port) {
      bytes += hostSize(port);
      staging = std::max(staging, port.ref()->bytes());
    });
  return bytes + staging;
}

Status CudaPorts::create(const gpu::DevicePtr &device, const plan::Target &target,
                         const std::function<gpu::DevicePointer(const plan::Ref &)> &address) {
  device_ = device;
  uint64_t staging = 0;
  for (const plan::Phase *phase : *target.phases())
    eachPort(*phase, [&](const plan::Port &port) {
      values_[&port] = {std::vector<std::byte>(hostSize(port)), address(*port.ref())};
      staging = std::max(staging, port.ref()->bytes());
    });
  NINFER_ASSIGN_OR_RETURN(staging_, gpu::allocateHost(device, staging, "ports"));
  return {};
}

Status CudaPorts::send(gpu::StreamHandle stream, const plan::Phase &phase, int64_t rows) {
  if (!phase.inputs())
    return {};
  const gpu::Driver &d = device_->driver();
  for (const plan::Port *port : *phase.inputs()) {
    const Values &values = values_.at(port);
    const uint64_t count = elements(*port, rows);
    if (isBf16(*port)) {
      const auto *from = reinterpret_cast<const float *>(values.host.data());
      auto *to = static_cast<uint16_t *>(staging_.get());
      for (uint64_t i = 0; i < count; ++i)
        to[i] = roundToBf16(from[i]);
    } else {
      std::memcpy(staging_.get(), values.host.data(), count * kHostElement);
    }
    NINFER_RETURN_IF_ERROR(
        d.check(d.copyToDevice(values.device, staging_.get(), count * elementBytes(port->element()), stream), "cuMemcpyHtoDAsync"));
    NINFER_RETURN_IF_ERROR(d.check(d.streamSynchronize(stream), "cuStreamSynchronize"));
  }
  return {};
}

Status CudaPorts::fetch(gpu::StreamHandle stream, const plan::Phase &phase, int64_t rows) {
  if (!phase.outputs())
    return {};
  const gpu::Driver &d = device_->driver();
  for (const plan::Port *port : *phase.outputs()) {
    Values &values = values_.at(port);
    const uint64_t count = elements(*port, rows);
    NINFER_RETURN_IF_ERROR(
        d.check(d.copyToHost(staging_.get(), values.device, count * elementBytes(port->element()), stream), "cuMemcpyDtoHAsync"));
    NINFER_RETURN_IF_ERROR(d.check(d.streamSynchronize(stream), "cuStreamSynchronize"));
    if (isBf16(*port)) {
      const auto *from = static_cast<const uint16_t *>(staging_.get());
      auto *to = reinterpret_cast<float *>(values.host.data());
      for (uint64_t i = 0; i < count; ++i)
        to[i] = decodeBf16(from[i]);
    } else {
      std::memcpy(values.host.data(), staging_.get(), count * kHostElement);
    }
  }
  return {};
}

} // namespace ninfer
