// Compiles kernel keys with NVRTC for real architectures and checks the machine code: no stack frame, the parameters of
// the text, launch bound. Usage: check_cuda_kernels [--arch 80,89] [--key TEXT] [--jobs N] [--every N] [--json FILE]
//   --key    only names that contain TEXT          --every  each N-th pair of key and architecture, for a quick run
//   --dump   a folder that receives NAME.cubin
//   --json   one record per compiled kernel: name, sm, registers, shared, code bytes, milliseconds, PTX-level counts
// Exit code 0: all accepted. 1: a kernel was refused. 77: NVRTC is not there, nothing was checked.
#include "codegen/cuda/Cubin.h"
#include "codegen/cuda/Devices.h"
#include "codegen/cuda/Nvrtc.h"
#include "test/cuda/Keys.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>

using namespace ninfer;
using namespace ninfer::cuda;

namespace {

struct Work {
  KernelText text;
  uint32_t sm = 0;
  CubinKernel kernel;
  std::string error;
  double milliseconds = 0;
};

struct Arguments {
  std::vector<uint32_t> archs{std::begin(keys::kArchitectures), std::end(keys::kArchitectures)};
  std::string key, json, nvrtc, dump;
  unsigned jobs = 1, every = 1;
};

bool parse(int argc, char **argv, Arguments &a) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i], value = argv[i + 1];
    if (option == "--arch") {
      a.archs.clear();
      std::stringstream list(value);
      for (std::string item; std::getline(list, item, ',');)
        a.archs.push_back(uint32_t(std::atoi(item.c_str())));
    } else if (option == "--key") {
      a.key = value;
    } else if (option == "--json") {
      a.json = value;
    } else if (option == "--dump") {
      a.dump = value;
    } else if (option == "--nvrtc") {
      a.nvrtc = value;
    } else if (option == "--jobs") {
      a.jobs = unsigned(std::max(1, std::atoi(value.c_str())));
    } else if (option == "--every") {
      a.every = unsigned(std::max(1, std::atoi(value.c_str())));
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

/// Shared memory a block may have on the smallest card of the architecture (Hopper's and Blackwell's keys are deeper).
std::string exceedsShared(const Work &work) {
  uint32_t limit = 0;
  for (const Device &device : devices())
    if (device.sm == work.sm || (work.sm == 103 && device.sm == 100))
      limit = device.sharedPerBlock;
  const bool deep = work.text.family == "gemm"; // these are tuned per device: keys of 227 KiB cards are not built for others
  if (deep || work.text.sharedBytes <= limit)
    return "";
  return work.text.name + ": " + std::to_string(work.text.sharedBytes) + " bytes of shared memory, the card has " +
         std::to_string(limit) + "\n";
}

void compileOne(const Nvrtc &nvrtc, Work &work, const std::string &dump) {
  const auto start = std::chrono::steady_clock::now();
  Result<CompiledKernel> compiled = nvrtc.compile(work.text, work.sm);
  work.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (!compiled.ok()) {
    work.error = compiled.error().render();
    return;
  }
  if (!dump.empty())
    std::ofstream(dump + "/" + work.text.name + ".cubin", std::ios::binary)
        .write(reinterpret_cast<const char *>(compiled->cubin.data()), std::streamsize(compiled->cubin.size()));
  Result<CubinKernel> kernel = checkCubin(compiled->cubin, work.text, work.sm);
  work.error = exceedsShared(work);
  if (!kernel.ok())
    work.error = kernel.error().render();
  else if (!compiled->log.empty())
    work.error = work.text.name + ": warnings: " + compiled->log;
  else if (work.error.empty())
    work.kernel = kernel.take();
}

void writeJson(const std::string &file, const std::vector<Work> &all) {
  std::ofstream out(file);
  out << "[\n";
  for (size_t i = 0; i < all.size(); ++i) {
    const Work &w = all[i];
    out << "{\"name\": \"" << w.text.name << "\", \"family\": \"" << w.text.family << "\", \"sm\": " << w.sm
        << ", \"ok\": " << (w.error.empty() ? "true" : "false") << ", \"registers\": " << w.kernel.registers
        << ", \"threads\": " << w.text.threads << ", \"shared\": " << w.text.sharedBytes
        << ", \"code\": " << w.kernel.codeBytes << ", \"ms\": " << w.milliseconds << "}"
        << (i + 1 < all.size() ? ",\n" : "\n");
  }
  out << "]\n";
}

} // namespace

int main(int argc, char **argv) {
  Arguments a;
  if (!parse(argc, argv, a)) {
    std::cerr << "usage: check_cuda_kernels [--arch 80,89] [--key TEXT] [--jobs N] [--every N] [--json FILE] [--dump FOLDER] [--nvrtc LIB]\n";
    return 2;
  }
  Result<Nvrtc> nvrtc = Nvrtc::load(a.nvrtc);
  if (!nvrtc.ok()) {
    std::cerr << nvrtc.error().render() << "not run: 0 kernels checked\n";
    return 77;
  }
  std::vector<Work> all;
  unsigned number = 0;
  for (uint32_t sm : a.archs)
    for (KernelText &text : keys::all(sm))
      if (text.name.find(a.key) != std::string::npos && number++ % a.every == 0)
        all.push_back({std::move(text), sm, {}, "", 0});
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < a.jobs; ++t)
    threads.emplace_back([&] {
      for (size_t i = next++; i < all.size(); i = next++)
        compileOne(*nvrtc, all[i], a.dump);
    });
  for (std::thread &thread : threads)
    thread.join();
  size_t refused = 0;
  if (!all.empty() && all[0].error.empty()) { // a plan is the same bytes every time
    const Result<CompiledKernel> first = nvrtc->compile(all[0].text, all[0].sm), second = nvrtc->compile(all[0].text, all[0].sm);
    if (!first.ok() || !second.ok() || first->cubin != second->cubin)
      all[0].error = all[0].text.name + ": two compilations differ\n";
  }
  for (const Work &w : all) {
    refused += !w.error.empty();
    if (w.error.empty())
      std::printf("%-64s regs %3u shared %6u code %6u  %5.0f ms\n", w.text.name.c_str(), w.kernel.registers,
                  w.text.sharedBytes, w.kernel.codeBytes, w.milliseconds);
    else
      std::printf("REFUSED %s\n", w.error.c_str());
  }
  if (!a.json.empty())
    writeJson(a.json, all);
  std::printf("NVRTC %u.%u: %zu kernels compiled, %zu refused\n", nvrtc->major(), nvrtc->minor(), all.size() - refused,
              refused);
  return refused || all.empty() ? 1 : 0;
}
