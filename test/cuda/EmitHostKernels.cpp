// Writes the instantiations of all keys as host C++: the very lines NVRTC compiles, one file per family, and a table that
// finds a kernel by name. Usage: emit_host_kernels FOLDER
#include "test/cuda/Keys.h"

#include <fstream>
#include <iostream>
#include <map>

using namespace ninfer::cuda;

int main(int argc, char **argv) {
  if (argc != 2) {
    std::cerr << "usage: emit_host_kernels FOLDER\n";
    return 2;
  }
  const std::string folder = argv[1];
  std::map<std::string, std::string> files;
  std::string table = "#include \"test/cuda/HostKernels.h\"\n";
  std::string rows;
  for (const KernelText &text : keys::all(0)) {
    std::string &file = files[text.family];
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
  files["table"] = table;
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
