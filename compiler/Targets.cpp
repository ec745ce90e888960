#include "compiler/Targets.h"

#include "codegen/common/KernelTarget.h"

#include <algorithm>
#include <iterator>

namespace ninfer {
namespace {

Status unknown(const std::string &name, const std::string &why) {
  Status status = makeError(ErrorKind::Usage, "NB0402", "unknown target '" + name + "'");
  if (!why.empty())
    status.note(why);
  std::string cuda;
  for (const cuda::Device &device : cuda::devices()) // cards of other architectures have no kernels
    if (std::ranges::find(kCudaArchitectures, device.sm) != std::end(kCudaArchitectures))
      cuda += std::string(", cuda:") + std::string(device.alias);
  for (uint32_t sm : kCudaArchitectures)
    cuda += ", cuda:sm_" + std::to_string(sm);
  status.help("targets: reference, cpu:native, cpu:x86-64-v3, cpu:x86-64-v4, cpu:znver4, cpu:aarch64" + cuda);
  return status;
}

} // namespace

Result<std::vector<BuildTarget>> resolveTargets(const std::vector<std::string> &names) {
  if (names.empty())
    return makeError(ErrorKind::Usage, "NB0402", "no target given");
  std::vector<BuildTarget> targets;
  for (const std::string &name : names) {
    BuildTarget target;
    if (name == "reference") {
      target.name = target.executor = "reference";
    } else if (name.rfind("cpu:", 0) == 0) {
      auto cpu = resolveCpuTarget(name.substr(4));
      if (!cpu.ok())
        return cpu.error().code == "NB0480" ? unknown(name, "") : cpu.takeStatus();
      target.name = "cpu:" + cpu->name;
      target.executor = "cpu";
      target.cpu = cpu.take();
    } else if (name.rfind("cuda:", 0) == 0) {
      auto device = cuda::findDevice(name.substr(5));
      if (!device.ok() || !parseKernelTarget("cuda:sm_" + std::to_string(device->sm)).ok())
        return unknown(name, device.ok() ? "no kernels are written for sm_" + std::to_string(device->sm) : "");
      target.name = name;
      target.executor = "cuda";
      target.device = *device;
    } else {
      return unknown(name, name == "cpu"    ? "the target 'cpu' needs a level, as in cpu:native"
                           : name == "cuda" ? "the target 'cuda' needs an architecture, as in cuda:sm_89"
                                            : "");
    }
    const auto same = std::find_if(targets.begin(), targets.end(),
                                   [&](auto &t) { return t.name == target.name; });
    if (same != targets.end()) {
      const std::string &first = names[static_cast<size_t>(same - targets.begin())];
      std::string text = "target '" + target.name + "' is given twice";
      if (first != name)
        text += " (once as '" + first + "', once as '" + name + "')";
      return makeError(ErrorKind::Usage, "NB0402", std::move(text));
    }
    targets.push_back(std::move(target));
  }
  return targets;
}

} // namespace ninfer
