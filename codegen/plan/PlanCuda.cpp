#include "codegen/plan/PlanCuda.h"

#include "artifact/layouts/Layout.h"
#include "codegen/cuda/kernels/panel.cuh"
#include "codegen/plan/PlanTarget.h"

#include <algorithm>

using namespace mlir;

namespace ninfer {
namespace {

constexpr uint64_t kSliceRows = 128; ///< tile height of block scales: slices of a weight begin on it

uint64_t alignUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

WeightType typeOf(ParameterOp parameter) { return cast<WeightType>(parameter.getType()); }
ni::Format formatOf(WeightType type) { return static_cast<ni::Format>(type.getFormat()); }

plan::CudaParam word(uint64_t value) { return {plan::CudaParamKind::Word, 0, static_cast<uint32_t>(value), 0}; }

} // namespace

std::unique_ptr<plan::KernelT> CudaSection::entry(const std::string &name, const std::string &text,
                                                  const std::vector<plan::CudaParam> &params,
                                                  std::array<uint32_t, 3> grid) const {
  const size_t index = object_.cubinOf(text);
  const cuda::Cubin &cubin = object_.cubins[index];
  auto kernel = std::make_unique<plan::KernelT>();
  kernel->name = name;
  kernel->kind = plan::KernelKind::Cuda;
  kernel->symbol = text;
  kernel->blob = blob_ + static_cast<uint32_t>(index);
  kernel->cuda = std::make_unique<plan::CudaCodeT>();
  kernel->cuda->threads = cubin.text.threads;
  kernel->cuda->shared_bytes = cubin.text.sharedBytes;
  kernel->cuda->registers = cubin.registers;
  kernel->cuda->params = params;
  kernel->cuda->grid_x = grid[0];
  kernel->cuda->grid_y = grid[1];
  kernel->cuda->grid_z = grid[2];
  kernel->cuda->source_sha256.assign(cubin.sourceDigest.begin(), cubin.sourceDigest.end());
  return kernel;
}

Result<std::unique_ptr<plan::KernelT>> CudaSection::kernel(KernelOp op) {
  if (kernels_.empty())
    for (const cuda::SpecializedKernel &special : object_.kernels)
      kernels_[special.name] = &special;
  const auto found = kernels_.find(op.getSymName().str());
  if (found == kernels_.end())
    return planError(target_, "no machine code for kernel '" + op.getSymName().str() + "'");
  const cuda::SpecializedKernel &special = *found->second;
  auto kernel = entry(special.name, special.text.name, special.params, special.grid);
  kernel->cuda->rows_per_tile = special.rowsPerTile;
  kernel->family = op.getFamily();
  kernel->profile = op.getProfile();
  return kernel;
}

void CudaSection::setBlocks(KernelOp op, plan::LaunchT &launch) {
  const cuda::SpecializedKernel &special = *kernels_.at(op.getSymName().str());
  launch.tiles_const = special.tilesConst;
  launch.tiles_per_row = special.tilesPerRow;
}

void CudaSection::addStates(plan::TargetT &target) {
  uint64_t scratch = 0, counters = 0;
  for (const cuda::SpecializedKernel &special : object_.kernels) {
    scratch = std::max(scratch, special.scratchBytes);
    counters = std::max(counters, special.counterBytes);
  }
  firstOwn_ = static_cast<uint32_t>(target.states.size());
  if (scratch == 0)
    return;
  for (auto [name, bytes] : {std::pair("cuda/scratch", scratch), std::pair("cuda/counters", counters)}) {
    auto state = std::make_unique<plan::StateT>();
    state->name = name;
    state->kind = "scratch";
    state->bytes = bytes;
    state->align = kCudaAlign;
    target.states.push_back(std::move(state));
  }
}

void CudaSection::addOwn(KernelOp op, std::vector<plan::Ref> &args) const {
  const cuda::SpecializedKernel &special = *kernels_.at(op.getSymName().str());
  if (special.scratchBytes == 0)
    return;
  args.emplace_back(plan::Space::State, firstOwn_, 0, special.scratchBytes);
  args.emplace_back(plan::Space::State, firstOwn_ + 1, 0, special.counterBytes);
}

Result<plan::Ref> CudaSection::weight(ParameterOp parameter, KernelOp kernel, size_t index) {
  if (!parameter || !parameter.getPlanes())
    return planError(target_, "a weight has no planes (ninfer-bind-parameters)");
  WeightType type = typeOf(parameter);
  const bool panels = kernels_.at(kernel.getSymName().str())->panels[index];
  std::vector<int64_t> places;
  for (auto plane : parameter.getPlanes()->getAsRange<PlaneAttr>())
    places.push_back(plane.getOffset());
  const WeightKey key(places, type.getN(), type.getK(), static_cast<int>(type.getFormat()), panels);
  if (const auto known = weights_.find(key); known != weights_.end())
    return known->second;
  if (!panels && places.size() != 1)
    return planError(target_, "parameter '" + parameter.getSymName().str() + "' is read as words, but has " +
                                  std::to_string(places.size()) + " planes");
  const uint64_t bytes = panels ? ni::packedBytes(formatOf(type), type.getN(), type.getK())
                                : cast<PlaneAttr>((*parameter.getPlanes())[0]).getBytes();
  const plan::Ref ref(plan::Space::Packed, 0, alignUp(packedBytes_, kCudaAlign), bytes);
  packedBytes_ = ref.offset() + bytes;
  if (panels)
    NINFER_RETURN_IF_ERROR(pack(parameter, ref.offset()));
  else
    copy(parameter, ref.offset());
  return weights_.emplace(key, ref).first->second;
}

void CudaSection::copy(ParameterOp parameter, uint64_t to) {
  auto plane = cast<PlaneAttr>((*parameter.getPlanes())[0]);
  auto kernel = std::make_unique<plan::KernelT>();
  kernel->name = kernel->symbol = "copy";
  kernel->kind = plan::KernelKind::Builtin;
  kernel->num_args = 2;
  const uint64_t bytes = plane.getBytes();
  addLaunch(loadKernel(std::move(kernel)),
            {{plan::Space::Payload, 0, static_cast<uint64_t>(plane.getOffset()), bytes}, {plan::Space::Packed, 0, to, bytes}},
            1, parameter.getSymName().str());
}

/// One launch, or several of whole blocks of rows when the weight is large.
Status CudaSection::pack(ParameterOp parameter, uint64_t to) {
  WeightType type = typeOf(parameter);
  const uint64_t n = type.getN(), k = type.getK();
  const uint64_t shape[] = {n, k};
  NINFER_ASSIGN_OR_RETURN(const EncodedGeometry geometry, encodedGeometry(type.getFormat(), type.getLayout(), shape));
  const ni::Format format = formatOf(type);
  uint64_t rowBytes = 0;
  for (const PlaneInfo &plane : geometry.planes)
    rowBytes += plane.rowBytes;
  const uint64_t slice = std::max(kStagingTarget / std::max<uint64_t>(rowBytes, 1) / kSliceRows, uint64_t{1}) * kSliceRows;
  for (uint64_t first = 0; first < n; first += slice) {
    const uint64_t rows = std::min(slice, n - first);
    std::vector<plan::Ref> args;
    std::vector<plan::CudaParam> params(4, plan::CudaParam(plan::CudaParamKind::Null, 0, 0, 0)); // codes, high, scales, divisor
    for (const auto &[plane, place] : llvm::zip_equal(geometry.planes, parameter.getPlanes()->getAsRange<PlaneAttr>())) {
      const std::string_view name = plane.name;
      const size_t slot = name == "high" ? 1 : name == "scales" ? 2 : name == "divisor" ? 3 : 0;
      params[slot] = {plan::CudaParamKind::Pointer, static_cast<uint16_t>(args.size()), 0, 0};
      // Words of block scales lie anywhere in their tile.
      const bool tiled = geometry.layout == Layout::BlockScaleK16M128x4V1 && slot == 2;
      const uint64_t stored = tiled ? alignUp(rows, kSliceRows) : rows;
      args.emplace_back(plan::Space::Payload, 0, place.getOffset() + first * plane.rowBytes,
                        plane.rowBytes ? stored * plane.rowBytes : plane.bytes);
    }
    params.emplace_back(plan::CudaParamKind::Pointer, static_cast<uint16_t>(args.size()), 0, 0);
    params.push_back(word(rows));
    params.push_back(word(k));
    args.emplace_back(plan::Space::Packed, 0, to + first / ni::kPanelRows * ni::panelBytes(format, k),
                      ni::packedBytes(format, rows, k));
    const std::string &text = object_.pack.at(format);
    auto kernel = entry("pack_" + std::string(cuda::shortName(format)) + "_n" + std::to_string(rows) + "_k" + std::to_string(k),
                        text, params, {0, 1, 1});
    kernel->num_args = static_cast<uint32_t>(args.size());
    addLaunch(loadKernel(std::move(kernel)), args, ni::divideUp(rows, ni::kPanelRows), parameter.getSymName().str());
  }
  return {};
}

uint32_t CudaSection::loadKernel(std::unique_ptr<plan::KernelT> kernel) {
  for (uint32_t i = 0; i < loadKernels_.size(); ++i)
    if (loadKernels_[i]->name == kernel->name)
      return i;
  loadKernels_.push_back(std::move(kernel));
  return static_cast<uint32_t>(loadKernels_.size() - 1);
}

void CudaSection::addLaunch(uint32_t kernel, std::vector<plan::Ref> args, uint64_t blocks, const std::string &label) {
  auto launch = std::make_unique<plan::LaunchT>();
  launch->kernel = kernel;
  launch->label = label;
  launch->tiles_const = blocks;
  uint64_t staged = 0;
  for (const plan::Ref &ref : args)
    if (ref.space() == plan::Space::Payload) {
      launch->bytes_read_const += ref.bytes();
      staged += alignUp(ref.bytes(), kCudaAlign);
    }
  stagingBytes_ = std::max(stagingBytes_, staged);
  launch->args = std::move(args);
  loads_.push_back(std::move(launch));
}

void CudaSection::finish(plan::TargetT &target) {
  target.cuda = std::make_unique<plan::CudaTargetT>();
  target.cuda->sm = object_.device.sm;
  target.cuda->device = object_.device.name;
  target.cuda->multiprocessors = object_.device.multiprocessors;
  target.cuda->min_driver = object_.minDriver;
  target.cuda->packed_bytes = packedBytes_;
  target.cuda->staging_bytes = stagingBytes_;
  auto phase = std::make_unique<plan::PhaseT>();
  phase->kind = plan::PhaseKind::Load;
  phase->name = "load";
  phase->min_rows = phase->max_rows = 1;
  for (auto &launch : loads_) {
    launch->kernel += static_cast<uint32_t>(target.kernels.size());
    phase->launches.push_back(std::move(launch));
  }
  for (auto &kernel : loadKernels_)
    target.kernels.push_back(std::move(kernel));
  target.phases.insert(target.phases.begin(), std::move(phase));
}

} // namespace ninfer
