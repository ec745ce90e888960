// Writes the instantiations of all keys as host C++: the very lines NVRTC compiles, one file per family, and a table that
// finds a kernel by name. Usage: emit_host_kernels FOLDER [sweep]; with `sweep` the records of SweepKeys.h, in host_sweep.cpp
// and host_sweep_table.cpp.
#include "test/cuda/Keys.h"
#include "test/cuda/SweepKeys.h"

#include <fstream>
#include <iostream>
#include <map>
#include <set>

using namespace ninfer::cuda;

int main(int argc, char **argv) {
  const bool sweep = argc == 3 && std::string(argv[2]) == "sweep";
  if (argc != 2 && !sweep) {
    std::cerr << "usage: emit_host_kernels FOLDER [sweep]\n";
    return 2;
  }
  const std::string folder = argv[1];
  std::map<std::string, std::string> files;
  std::string table = "#include \"test/cuda/HostKernels.h\"\n";
  std::string rows;
  std::set<std::string> names;
  for (const KernelText &text : sweep ? keys::sweepTexts() : keys::all(0)) {
    if (!names.insert(text.name).second)
      continue;
    std::string &file = files[sweep ? "sweep" : text.family];
    if (file.empty())
      file = "#include \"" + text.header + "\"\n";
    else if (file.find("\"" + text.header + "\"") == std::string::npos)
      file = "#include \"" + text.header + "\"\n" + file;
    file += text.line + "\n";
    table += "extern \"C\" { extern const unsigned " + text.name + "_threads; void " + text.name + "_thunk(void **); }\n";
    rows += "    {\"" + text.name + "\", " + text.name + "_thunk, &" + text.name + "_threads},\n";
  }
  table += "namespace ninfer::cuda {\nstd::span<const HostKernel> hostKernels() {\n  static const HostKernel all[] = {\n" +
           rows + "  };\n  return all;\n}\n} // namespace ninfer::cuda\n";
  files[sweep ? "sweep_table" : "table"] = table;
  for (const auto &[name, text] : files) {
    std::ofstream out(folder + "/host_" + name + ".cpp", std::ios::binary);
    out << text;
    if (!out.flush()) {
      std::cerr << "emit_host_kernels: cannot write " << folder << "/host_" << name << ".cpp\n";
      return 1;
    }
  }
  return 0;
}
