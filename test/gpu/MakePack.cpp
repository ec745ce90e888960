// Machine code for gpu-check: every key of the kernel tests and the kernels of this folder, compiled by NVRTC.
// usage: make_gpu_pack SOURCE_DIR FOLDER SM JOBS DUMP [KEY...]
//   FOLDER/sm_<SM>/NAME.cubin is written, also of a key that a plan would refuse (register spills): its numbers can be checked. Such
//   keys are listed on standard output, "refused: MESSAGE". KEY: only keys whose name contains one of them; DUMP: a folder for the .cu texts, or
//   "-". Exit code 77: no NVRTC.
#include "codegen/cuda/Cubin.h"
#include "codegen/cuda/Nvrtc.h"
#include "support/File.h"
#include "test/cuda/Keys.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <thread>

using namespace ninfer;
using namespace ninfer::cuda;

namespace {

struct Unit {
  std::string name, source;
  std::optional<KernelText> key; ///< checked like the kernels of a plan
  std::string refused;           ///< what the check said
};

Status compile(const Nvrtc &nvrtc, uint32_t sm, Unit &unit, const std::string &folder, const std::string &dump) {
  NINFER_ASSIGN_OR_RETURN(const CompiledKernel code, nvrtc.compileText(unit.name, unit.source, sm, "/tmp"));
  if (unit.key) {
    if (const Result<CubinKernel> checked = checkCubin(code.cubin, *unit.key, sm); !checked.ok())
      unit.refused = checked.error().message;
  }
  if (dump != "-")
    NINFER_RETURN_IF_ERROR(writeFileAtomically(dump + "/" + unit.name + ".cu", std::as_bytes(std::span(unit.source))));
  return writeFileAtomically(folder + "/" + unit.name + ".cubin", std::as_bytes(std::span(code.cubin)));
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 6) {
    std::cerr << "usage: make_gpu_pack SOURCE_DIR FOLDER SM JOBS DUMP [KEY...]\n";
    return 2;
  }
  const std::string source = argv[1], folder = std::string(argv[2]) + "/sm_" + argv[3], dump = argv[5];
  const uint32_t sm = uint32_t(std::atoi(argv[3]));
  Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc.ok()) {
    std::cerr << nvrtc.error().render();
    return 77;
  }
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  std::vector<Unit> units;
  for (const auto &[name, file] : {std::pair("check_wrappers", "Wrappers.cuh"), std::pair("check_fill", "FillWeights.cuh")}) {
    Result<std::string> text = readFile(source + "/test/gpu/" + file);
    if (!text.ok()) {
      std::cerr << text.error().render();
      return 1;
    }
    units.push_back({name, text.take(), std::nullopt, ""});
  }
  for (const KernelText &text : keys::all(sm))
    if (argc == 6 || std::any_of(argv + 6, argv + argc, [&](const char *key) { return text.name.find(key) != std::string::npos; }))
      units.push_back({text.name, text.source(), text, ""});
  std::atomic<size_t> next = 0;
  std::atomic<bool> refused = false;
  std::mutex output;
  std::vector<std::thread> team;
  for (int job = 0; job < std::max(1, std::atoi(argv[4])); ++job)
    team.emplace_back([&] {
      for (size_t i = next++; i < units.size(); i = next++)
        if (Status status = compile(*nvrtc, sm, units[i], folder, dump); !status.ok()) {
          std::lock_guard<std::mutex> lock(output);
          std::cerr << status.error().render();
          refused = true;
        }
    });
  for (std::thread &thread : team)
    thread.join();
  for (const Unit &unit : units)
    if (!unit.refused.empty())
      std::cout << "refused: " << unit.refused << "\n";
  std::cout << "NVRTC " << nvrtc->major() << "." << nvrtc->minor() << ": " << units.size() << " units for sm_" << sm << "\n";
  return refused ? 1 : 0;
}
