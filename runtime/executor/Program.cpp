#include "runtime/executor/Program.h"

namespace ninfer {

namespace {

struct TableSizes {
  size_t launches = 0, args = 0, outputs = 0;
  explicit TableSizes(const plan::Target &target) {
    for (const plan::Phase *phase : *target.phases()) {
      outputs += phase->outputs() ? phase->outputs()->size() : 0;
      for (const plan::Launch *launch : *phase->launches()) {
        ++launches;
        args += launch->args()->size();
      }
    }
  }
};

/// Payload and constants are mapped read-only; the kernel ABI passes one kind of pointer for all spaces. Null for what
/// is not in memory of the host.
std::byte *resolve(const Engine &engine, const ContextMemory &memory, const plan::Ref &ref) {
  switch (ref.space()) {
  case plan::Space::Payload:
    return const_cast<std::byte *>(engine.payload().data()) + ref.offset();
  case plan::Space::Arena:
    return memory.arena ? memory.arena + ref.offset() : nullptr;
  case plan::Space::State:
    return !memory.states ? nullptr : memory.states + memory.stateOffsets[ref.index()] + ref.offset();
  case plan::Space::Constant:
    return const_cast<std::byte *>(engine.blob(ref.index()).data()) + ref.offset();
  case plan::Space::Packed:
  case plan::Space::None:
    break;
  }
  return nullptr; // the verifier refuses every other space
}

} // namespace

uint64_t Program::bytes(const plan::Target &target) {
  const TableSizes sizes(target);
  return target.phases()->size() * sizeof(ProgramPhase) + sizes.launches * sizeof(ProgramLaunch) +
         sizes.args * sizeof(void *) + sizes.outputs * sizeof(ProgramOutput);
}

Program::Program(const Engine &engine, const ContextMemory &memory) {
  const plan::Target &target = engine.target();
  const TableSizes sizes(target);
  phases_.reserve(target.phases()->size());
  launches_.reserve(sizes.launches);
  args_.reserve(sizes.args);
  outputs_.reserve(sizes.outputs);
  for (const plan::Phase *source : *target.phases()) {
    ProgramPhase phase;
    phase.source = source;
    phase.minRows = source->min_rows();
    phase.maxRows = source->max_rows();
    if (source->tokens())
      phase.tokens = reinterpret_cast<int32_t *>(resolve(engine, memory, *source->tokens()));
    if (source->logits()) {
      phase.logits = reinterpret_cast<const float *>(resolve(engine, memory, *source->logits()));
      phase.logitCount = source->token_ids() ? int64_t(source->token_ids()->bytes() / 4)
                                             : int64_t(engine.plan().model()->vocab_size());
    }
    if (source->token_ids())
      phase.tokenIds = resolve(engine, memory, *source->token_ids());
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
    const size_t firstOutput = outputs_.size();
    if (source->outputs())
      for (const plan::Port *port : *source->outputs())
        outputs_.push_back({port, resolve(engine, memory, *port->ref()),
                            source->max_rows() > 1 && port->ref()->bytes() == port->width() * elementBytes(port->element())});
    phase.outputs = {outputs_.data() + firstOutput, outputs_.size() - firstOutput};
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
