// Objects -> one ELF shared object, with LLD inside this process, and the rules such an object must
// keep.
#ifndef NINFER_CODEGEN_CPU_ELFLINK_H
#define NINFER_CODEGEN_CPU_ELFLINK_H

#include "codegen/cpu/CpuCodegen.h"
#include "support/Status.h"

#include <span>
#include <string>
#include <vector>

namespace ninfer::cpu {

/// Links position-independent objects of one architecture in the given order. Everything must be defined by
/// them. Errors: NB0484 with LLD's messages; NB0906 when a file descriptor cannot be made. LLD
/// keeps global state, so calls take turns.
Result<std::vector<char>> linkSharedObject(const std::vector<std::vector<char>> &objects,
                                           CpuArchitecture architecture = CpuArchitecture::X86_64);

/// Checks what the runtime's loader relies on: ELF64 shared object of the architecture, no relocations, no
/// needed library, no undefined symbol, no thread-local storage, no constructor, no segment both
/// writable and executable, every name of `symbols` a defined function. Errors: NB0484 naming the
/// rule.
Status checkSharedObject(std::span<const char> elf, const std::vector<std::string> &symbols,
                         CpuArchitecture architecture = CpuArchitecture::X86_64);

} // namespace ninfer::cpu

#endif // NINFER_CODEGEN_CPU_ELFLINK_H
