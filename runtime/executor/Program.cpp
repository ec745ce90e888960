#include "runtime/executor/Program.h"

namespace ninfer {

namespace {

void countTables(const plan::Target &target, size_t &launches, size_t &args) {
  for (const plan::Phase *phase : *target.phases())
    for (const plan::Launch *launch : *phase->launches()) {
      ++launches;
      args += launch->args()->size();
    }
}

/// Payload and constants are mapped read-only; the kernel ABI passes one kind of pointer for all spaces.
std::byte *resolve(const Engine &engine, const ContextMemory &memory, const plan::Ref &ref) {
  switch (ref.space()) {
  case plan::Space::Payload:
    return const_cast<std::byte *>(engine.payload().data()) + ref.offset();
  case plan::Space::Arena:
    return memory.arena + ref.offset();
  case plan::Space::State:
    return memory.states + memory.stateOffsets[ref.index()] + ref.offset();
  case plan::Space::Constant:
    return const_cast<std::byte *>(engine.blob(ref.index()).data()) + ref.offset();
  case plan::Space::None:
    break;
  }
  return nullptr; // the verifier refuses every other space
}

} // namespace

uint64_t Program::bytes(const plan::Target &target) {
  size_t launches = 0, args = 0;
  countTables(target, launches, args);
  return target.phases()->size() * sizeof(ProgramPhase) + launches * sizeof(ProgramLaunch) + args * sizeof(void *);
}

Program::Program(const Engine &engine, const ContextMemory &memory) {
  const plan::Target &target = engine.target();
  size_t launches = 0, args = 0;
  countTables(target, launches, args);
  phases_.reserve(target.phases()->size());
  launches_.reserve(launches);
  args_.reserve(args);
  for (const plan::Phase *source : *target.phases()) {
    ProgramPhase phase;
    phase.source = source;
    phase.minRows = source->min_rows();
    phase.maxRows = source->max_rows();
    if (source->tokens())
      phase.tokens = reinterpret_cast<int32_t *>(resolve(engine, memory, *source->tokens()));
    if (source->logits())
      phase.logits = reinterpret_cast<const float *>(resolve(engine, memory, *source->logits()));
    const size_t first = launches_.size();
    for (const plan::Launch *from : *source->launches()) {
      const EngineKernel &kernel = engine.kernels()[from->kernel()];
      ProgramLaunch launch;
      launch.code = kernel.code;
      launch.builtin = kernel.builtin.get();
      launch.args = args_.data() + args_.size();
      launch.tilesConst = int64_t(from->tiles_const());
      launch.tilesPerRow = int64_t(from->tiles_per_row());
      launch.source = from;
      for (const plan::Ref *ref : *from->args())
        args_.push_back(resolve(engine, memory, *ref));
      launches_.push_back(launch);
    }
    phase.launches = {launches_.data() + first, launches_.size() - first};
    phases_.push_back(phase);
  }
}

ProgramPhase *Program::phase(plan::PhaseKind kind) {
  for (ProgramPhase &phase : phases_)
    if (phase.source->kind() == kind)
      return &phase;
  return nullptr;
}

} // namespace ninfer
