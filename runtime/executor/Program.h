// The launches of one target with every argument resolved to an address of one context. Built once; running
// it looks nothing up and checks nothing.
#ifndef NINFER_RUNTIME_EXECUTOR_PROGRAM_H
#define NINFER_RUNTIME_EXECUTOR_PROGRAM_H

#include "runtime/loader/Engine.h"

#include <span>
#include <vector>

namespace ninfer {

/// Addresses of a context's memory; null when it is on a device.
struct ContextMemory {
  std::byte *arena = nullptr;
  std::byte *states = nullptr;
  std::span<const uint64_t> stateOffsets;
};

struct ProgramLaunch {
  ninfer_kernel_fn code = nullptr;
  const reference::Builtin *builtin = nullptr; ///< set when code is null, except in launches of a device
  void *const *args = nullptr;
  int64_t tilesConst = 0, tilesPerRow = 0; ///< machine code only
  const plan::Launch *source = nullptr;
  uint64_t ns = 0, calls = 0, rows = 0; ///< written by thread 0

  /// Independent pieces of work of a call.
  int64_t tiles(int64_t callRows) const {
    return code ? tilesConst + tilesPerRow * callRows : builtin->units(callRows);
  }
  void run(const int64_t *scalars, int64_t begin, int64_t end, void *scratch) const {
    if (code)
      code(args, scalars, begin, end, scratch);
    else
      builtin->run({args, scalars[NINFER_SCALAR_ROWS], scalars[NINFER_SCALAR_POSITION], scratch}, begin, end);
  }
};

/// An output port of a phase.
struct ProgramOutput {
  const plan::Port *source = nullptr;
  const void *data = nullptr; ///< float32 or int32; an executor of a device sets it
  bool lastRowOnly = false; ///< one row, of the last row of the call
};

struct ProgramPhase {
  const plan::Phase *source = nullptr;
  int64_t minRows = 1, maxRows = 1;
  int32_t *tokens = nullptr;
  const float *logits = nullptr;
  int64_t logitCount = 0;             ///< per row
  const std::byte *tokenIds = nullptr; ///< int32 little-endian per logit, not aligned; null: the index
  std::span<ProgramLaunch> launches;
  std::span<ProgramOutput> outputs;
};

class Program {
public:
  Program(const Engine &engine, const ContextMemory &memory);
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// Memory that the launch tables of `target` take.
  static uint64_t bytes(const plan::Target &target);

  std::span<ProgramPhase> phases() { return phases_; }
  /// Phase of that kind, or null.
  ProgramPhase *phase(plan::PhaseKind kind);
  std::span<const ProgramPhase> phases() const { return phases_; }

private:
  std::vector<ProgramPhase> phases_; ///< plan order
  std::vector<ProgramLaunch> launches_;
  std::vector<ProgramOutput> outputs_;
  std::vector<void *> args_;
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_PROGRAM_H
