#include "schema/VerifyCuda.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ninfer {
namespace {

using Finding = std::optional<CudaFinding>;

constexpr uint64_t kMaxBytes = 1ull << 48;
constexpr uint64_t kStagingAlign = 256;
// Limits of every device the schema can name (CUDA C++ Programming Guide, "Compute Capabilities").
constexpr uint32_t kMaxThreads = 1024, kMaxShared = 227 * 1024, kMaxRegisters = 255, kRegistersPerBlock = 65536;
constexpr uint64_t kMaxGrid[] = {(1ull << 31) - 1, 65535, 65535};

std::string number(uint64_t value) { return std::to_string(value); }
std::string at(const char *list, uint32_t index) { return std::string(list) + "[" + std::to_string(index) + "]"; }

class CudaVerifier {
public:
  CudaVerifier(const plan::Target &target, uint32_t blobs) : target_(target), blobs_(blobs) {}

  Finding run() {
    if (Finding f = descriptor())
      return f;
    for (uint32_t i = 0; i < target_.kernels()->size(); ++i)
      if (Finding f = kernel(at("kernels", i), *target_.kernels()->Get(i)))
        return f;
    // The Load phase first: the others may only name what it wrote.
    for (bool load : {true, false})
      for (uint32_t i = 0; i < target_.phases()->size(); ++i) {
        const plan::Phase &phase = *target_.phases()->Get(i);
        if ((phase.kind() == plan::PhaseKind::Load) != load)
          continue;
        for (const auto *ports : {phase.inputs(), phase.outputs()})
          for (uint32_t k = 0; !isCuda() && ports && k < ports->size(); ++k)
            if (ports->Get(k)->element() == plan::ElementType::BF16)
              return broken(at("phases", i) + "." + at(ports == phase.inputs() ? "inputs" : "outputs", k) + ".element",
                            "is BF16, but the executor is not cuda");
        for (uint32_t k = 0; k < phase.launches()->size(); ++k)
          if (Finding f = launch(at("phases", i) + "." + at("launches", k), phase, *phase.launches()->Get(k)))
            return f;
      }
    return std::nullopt;
  }

private:
  bool isCuda() const { return target_.cuda() != nullptr; }

  static Finding broken(std::string path, std::string rule) { return CudaFinding{std::move(path), std::move(rule)}; }
  static Finding inRange(const std::string &path, uint64_t value, uint64_t low, uint64_t high) {
    if (value >= low && value <= high)
      return std::nullopt;
    return broken(path, "is " + number(value) + ", expected " + number(low) + " to " + number(high));
  }

  Finding descriptor() const {
    const bool named = target_.executor()->string_view() == "cuda";
    if (named != isCuda())
      return broken("cuda", named ? "is absent, but the executor is cuda" : "is set, but the executor is not cuda");
    if (!isCuda()) {
      for (const plan::Phase *phase : *target_.phases())
        if (phase->kind() == plan::PhaseKind::Load)
          return broken("phases", "has a Load phase, but the executor is not cuda");
      return std::nullopt;
    }
    const plan::CudaTarget &cuda = *target_.cuda();
    if (Finding f = inRange("cuda.sm", cuda.sm(), 50, 999))
      return f;
    if (Finding f = inRange("cuda.min_driver", cuda.min_driver(), 1000, 1000000))
      return f;
    if (Finding f = inRange("cuda.packed_bytes", cuda.packed_bytes(), 0, kMaxBytes))
      return f;
    return inRange("cuda.staging_bytes", cuda.staging_bytes(), 0, kMaxBytes);
  }

  Finding kernel(const std::string &path, const plan::Kernel &kernel) const {
    const bool isKernel = kernel.kind() == plan::KernelKind::Cuda;
    if (isKernel != (kernel.cuda() != nullptr))
      return broken(path + ".cuda", isKernel ? "is absent in a CUDA kernel" : "is set, but the kernel is no CUDA kernel");
    if (isCuda() && kernel.kind() == plan::KernelKind::Elf)
      return broken(path + ".kind", "is Elf in a CUDA target");
    if (!isKernel)
      return std::nullopt;
    if (!isCuda())
      return broken(path + ".kind", "is Cuda, but the executor is not cuda");
    if (kernel.blob() >= blobs_)
      return broken(path + ".blob", "is " + number(kernel.blob()) + ", the plan has " + number(blobs_) + " blobs");
    const plan::CudaCode &code = *kernel.cuda();
    if (code.threads() == 0 || code.threads() > kMaxThreads || code.threads() % 32 != 0)
      return broken(path + ".cuda.threads", "is " + number(code.threads()) + ", expected a multiple of 32 up to 1024");
    if (Finding f = inRange(path + ".cuda.shared_bytes", code.shared_bytes(), 0, kMaxShared))
      return f;
    if (Finding f = inRange(path + ".cuda.registers", code.registers(), 1, kMaxRegisters))
      return f;
    if (uint64_t{code.registers()} * code.threads() > kRegistersPerBlock)
      return broken(path + ".cuda.registers", "is " + number(code.registers()) + ", too many for blocks of " +
                                                  number(code.threads()) + " threads");
    if (Finding f = inRange(path + ".cuda.rows_per_tile", code.rows_per_tile(), 1, 4096))
      return f;
    if (code.source_sha256()->size() != 32)
      return broken(path + ".cuda.source_sha256", "has " + number(code.source_sha256()->size()) + " bytes, expected 32");
    const uint32_t grid[] = {code.grid_x(), code.grid_y(), code.grid_z()};
    if (std::count(std::begin(grid), std::end(grid), 0u) != 1)
      return broken(path + ".cuda.grid", "is " + number(grid[0]) + "x" + number(grid[1]) + "x" + number(grid[2]) +
                                             ", expected one 0 (the axis that takes the tiles)");
    for (int axis = 0; axis < 3; ++axis)
      if (grid[axis] > kMaxGrid[axis])
        return broken(path + ".cuda.grid", "has " + number(grid[axis]) + " blocks on axis " + number(axis) +
                                               ", expected at most " + number(kMaxGrid[axis]));
    return params(path + ".cuda.params", kernel);
  }

  static Finding params(const std::string &parent, const plan::Kernel &kernel) {
    const auto &params = *kernel.cuda()->params();
    if (params.size() == 0 || params.size() > 64)
      return broken(parent, "has " + number(params.size()) + " entries, expected 1 to 64");
    std::vector<bool> used(kernel.num_args());
    for (uint32_t i = 0; i < params.size(); ++i) {
      const plan::CudaParam &param = *params.Get(i);
      const std::string path = parent + "[" + number(i) + "]";
      const bool pointer = param.kind() == plan::CudaParamKind::Pointer, word = param.kind() == plan::CudaParamKind::Word;
      if (param.kind() < plan::CudaParamKind::Null || param.kind() > plan::CudaParamKind::Word)
        return broken(path + ".kind", "is " + number(static_cast<unsigned>(param.kind())) + ", not a known kind");
      if (pointer && param.arg() >= kernel.num_args())
        return broken(path + ".arg", "is " + number(param.arg()) + ", the kernel has " + number(kernel.num_args()) +
                                         " arguments");
      if ((!pointer && param.arg() != 0) || (!word && !pointer && param.value() != 0) || (!pointer && !word && param.per_row() != 0))
        return broken(path, std::string("has a field that ") + plan::EnumNameCudaParamKind(param.kind()) +
                                " does not use and that is not 0");
      if (pointer)
        used[param.arg()] = true;
    }
    for (uint32_t i = 0; i < used.size(); ++i)
      if (!used[i])
        return broken(parent, "pass no pointer to argument " + number(i));
    return std::nullopt;
  }

  Finding launch(const std::string &path, const plan::Phase &phase, const plan::Launch &launch) {
    for (uint32_t i = 0; i < launch.args()->size(); ++i)
      if (!isCuda() && launch.args()->Get(i)->space() == plan::Space::Packed)
        return broken(path + "." + at("args", i) + ".space", "is Packed, but the executor is not cuda");
    if (!isCuda())
      return std::nullopt;
    const plan::Kernel &kernel = *target_.kernels()->Get(launch.kernel());
    if (kernel.kind() == plan::KernelKind::Cuda)
      if (Finding f = grid(path, kernel, phase, launch))
        return f;
    if (phase.kind() == plan::PhaseKind::Load)
      return load(path, kernel, launch);
    const bool builtin = kernel.kind() == plan::KernelKind::Builtin;
    if (builtin != (phase.kind() == plan::PhaseKind::Setup))
      return broken(path + ".kernel", builtin ? "is a built-in, which a CUDA target runs in Setup and Load only"
                                              : "is no built-in, which Setup of a CUDA target wants");
    if (builtin && kernel.symbol()->string_view() == "copy")
      return broken(path + ".kernel", "is 'copy', which only Load runs");
    for (uint32_t i = 0; i < launch.args()->size(); ++i) {
      const plan::Ref &ref = *launch.args()->Get(i);
      const std::string name = path + "." + at("args", i);
      if (builtin && ref.space() != plan::Space::State)
        return broken(name + ".space", std::string("is ") + plan::EnumNameSpace(ref.space()) +
                                           ", expected State in Setup of a CUDA target");
      if (ref.space() == plan::Space::Payload || ref.space() == plan::Space::Constant)
        return broken(name + ".space", std::string("is ") + plan::EnumNameSpace(ref.space()) +
                                           ", which is not in the memory of the device");
      if (ref.space() == plan::Space::Packed && !written(ref))
        return broken(name, "covers [" + number(ref.offset()) + ", +" + number(ref.bytes()) +
                                ") of Packed, which the Load phase does not write as one");
    }
    return std::nullopt;
  }

  static Finding grid(const std::string &path, const plan::Kernel &kernel, const plan::Phase &phase,
                      const plan::Launch &launch) {
    const plan::CudaCode &code = *kernel.cuda();
    const uint64_t grid[] = {code.grid_x(), code.grid_y(), code.grid_z()};
    uint64_t fixed = 1;
    uint64_t limit = 0;
    for (int axis = 0; axis < 3; ++axis) {
      fixed *= std::max<uint64_t>(grid[axis], 1);
      limit = grid[axis] ? limit : kMaxGrid[axis];
    }
    if (launch.tiles_const() % fixed != 0 || launch.tiles_per_row() % fixed != 0)
      return broken(path, "has tiles that are no multiple of the " + number(fixed) + " blocks of the fixed axes");
    const uint64_t groups = (phase.max_rows() + code.rows_per_tile() - 1) / code.rows_per_tile();
    const uint64_t most = (launch.tiles_const() + launch.tiles_per_row() * groups) / fixed;
    if (most > limit)
      return broken(path, "has " + number(most) + " blocks on one axis, expected at most " + number(limit));
    for (const plan::CudaParam *param : *code.params())
      if (param->kind() == plan::CudaParamKind::Pointer &&
          param->value() + uint64_t{param->per_row()} * (phase.max_rows() - 1) >= launch.args()->Get(param->arg())->bytes())
        return broken(path + "." + at("args", param->arg()), "is passed with an offset beyond its end");
    return std::nullopt;
  }

  /// Sources in the payload, then one destination; destinations ascend without overlap.
  Finding load(const std::string &path, const plan::Kernel &kernel, const plan::Launch &launch) {
    const uint32_t last = launch.args()->size() - 1;
    uint64_t staged = 0;
    for (uint32_t i = 0; i <= last; ++i) {
      const plan::Ref &ref = *launch.args()->Get(i);
      const plan::Space expected = i == last ? plan::Space::Packed : plan::Space::Payload;
      if (ref.space() != expected)
        return broken(path + "." + at("args", i) + ".space", std::string("is ") + plan::EnumNameSpace(ref.space()) +
                                                                 ", expected " + plan::EnumNameSpace(expected));
      if (i != last)
        staged += (ref.bytes() + kStagingAlign - 1) / kStagingAlign * kStagingAlign;
    }
    const plan::Ref &to = *launch.args()->Get(last);
    if (kernel.kind() == plan::KernelKind::Builtin &&
        (kernel.symbol()->string_view() != "copy" || last != 1 || launch.args()->Get(0)->bytes() != to.bytes()))
      return broken(path, "is a built-in of Load, expected 'copy' of one range to one of its size");
    if (staged > target_.cuda()->staging_bytes())
      return broken(path, "reads " + number(staged) + " bytes, staging_bytes are " + number(target_.cuda()->staging_bytes()));
    if (!written_.empty() && to.offset() < written_.back().second)
      return broken(path + "." + at("args", last), "begins at " + number(to.offset()) + ", before the end " +
                                                       number(written_.back().second) + " of the launch before");
    if (!written_.empty() && to.offset() == written_.back().second)
      written_.back().second += to.bytes();
    else
      written_.emplace_back(to.offset(), to.offset() + to.bytes());
    return std::nullopt;
  }

  bool written(const plan::Ref &ref) const {
    return std::any_of(written_.begin(), written_.end(), [&](const auto &range) {
      return ref.offset() >= range.first && ref.offset() + ref.bytes() <= range.second;
    });
  }

  const plan::Target &target_;
  uint32_t blobs_;
  std::vector<std::pair<uint64_t, uint64_t>> written_; ///< of Packed, ascending
};

} // namespace

std::optional<CudaFinding> verifyCuda(const plan::Target &target, uint32_t blobs) {
  return CudaVerifier(target, blobs).run();
}

} // namespace ninfer
