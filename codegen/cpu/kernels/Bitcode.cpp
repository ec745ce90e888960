// The bitcode files of the build folder, copied into read-only data by the assembler.
#include "codegen/cpu/kernels/Bitcode.h"

#define NINFER_EMBED(symbol, level)                                                                                    \
  __asm__(".section .rodata." #symbol ",\"a\",@progbits\n.balign 16\n"                                                 \
          ".hidden ninfer_" #symbol "\n.hidden ninfer_" #symbol "_end\n"                                               \
          ".globl ninfer_" #symbol "\n.globl ninfer_" #symbol "_end\n"                                                 \
          "ninfer_" #symbol ":\n.incbin \"" NINFER_BITCODE_PREFIX level ".bc\"\n"                                      \
          "ninfer_" #symbol "_end:\n.byte 0\n.previous\n");                                                            \
  extern "C" const char ninfer_##symbol[], ninfer_##symbol##_end[]

NINFER_EMBED(micro_v3, "v3");
NINFER_EMBED(micro_v4, "v4");
NINFER_EMBED(micro_v4vnni, "v4vnni");
NINFER_EMBED(micro_aarch64, "aarch64");

namespace ninfer {

std::string_view microKernelBitcode(CpuLevel level) {
  const auto view = [](const char *begin, const char *end) { return std::string_view(begin, size_t(end - begin)); };
  switch (uint8_t(level)) {
  case 0: return view(ninfer_micro_v3, ninfer_micro_v3_end);
  case 1: return view(ninfer_micro_v4, ninfer_micro_v4_end);
  case 2: return view(ninfer_micro_v4vnni, ninfer_micro_v4vnni_end);
  default: return view(ninfer_micro_aarch64, ninfer_micro_aarch64_end);
  }
}

} // namespace ninfer
