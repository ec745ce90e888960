#include "runtime/executor/Ledger.h"

#include "runtime/cuda/DeviceWeights.h"
#include "runtime/executor/CudaExecutor.h"
#include "runtime/executor/Program.h"
#include "runtime/executor/Team.h"

#include <algorithm>
#include <cstdio>

namespace ninfer {

namespace {

constexpr uint64_t kPage = 4096;

uint64_t alignUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

std::string mebibytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MiB", double(bytes) / 1048576.0);
  return text;
}

} // namespace

Ledger makeLedger(const Engine &engine, const ContextOptions &options, size_t usable) {
  const plan::Target &target = engine.target();
  Ledger ledger;
  ledger.weightsBytes = engine.payload().size();
  ledger.planBytes = engine.planBytes();
  ledger.codeBytes = engine.codeBytes();
  ledger.engineBytes = engine.heapBytes();
  // Tokens of the rows that wait for the draft layer, and of its proposals.
  const plan::Phase *draft = options.draft ? engine.phase(plan::PhaseKind::Draft) : nullptr;
  uint64_t draftBytes = draft ? uint64_t(draft->max_rows()) * 2 * sizeof(int32_t) : 0;
  if (draft && draft->inputs()) // and the embeddings among them
    for (const plan::Port *port : *draft->inputs())
      draftBytes += uint64_t(draft->max_rows()) * (port->width() * sizeof(float) + sizeof(void *));
  if (const plan::Phase *prefill = engine.phase(plan::PhaseKind::Prefill); prefill->inputs())
    draftBytes += uint64_t(prefill->max_rows()) * sizeof(void *);
  if (target.cuda()) { // the host has launch tables and what goes to and from the device
    const gpu::DeviceLedger device = gpu::deviceLedger(target);
    ledger.deviceBytes = device.weightBytes() + device.contextBytes();
    ledger.hostBytes = alignUp(Program::bytes(target) + draftBytes, kPage) + CudaExecutor::hostBytes(target);
    return ledger;
  }
  ledger.threads = options.threads ? options.threads : unsigned(usable);
  ledger.arenaBytes = alignUp(target.arena_bytes(), kPage);
  for (const plan::State *state : *target.states()) {
    ledger.stateBytes = alignUp(ledger.stateBytes, std::max<uint64_t>(state->align(), 64));
    ledger.stateOffsets.push_back(ledger.stateBytes);
    ledger.stateBytes += state->bytes();
  }
  ledger.stateBytes = alignUp(ledger.stateBytes, kPage);
  // Whole pages, so that no two threads share a cache line.
  ledger.scratchPerThread = alignUp(engine.scratchBytes(), kPage);
  ledger.scratchBytes = ledger.scratchPerThread * ledger.threads;
  ledger.hostBytes = alignUp(Program::bytes(target) + draftBytes, kPage) + Team::kStackBytes * (ledger.threads - 1);
  return ledger;
}

Status checkLedger(const Engine &engine, const Ledger &ledger, uint64_t limit) {
  if (ledger.anonymousBytes() <= limit)
    return {};
  Status status = makeError(
      ErrorKind::OutOfMemory, "NB0640",
      engine.planPath().string() + ": a context needs " + mebibytes(ledger.anonymousBytes()) + ", available: " +
          mebibytes(limit));
  status
      .note("states " + mebibytes(ledger.stateBytes) + ", activations " + mebibytes(ledger.arenaBytes) +
            ", scratch of " + std::to_string(ledger.threads) + " threads " + mebibytes(ledger.scratchBytes) +
            ", other " + mebibytes(ledger.hostBytes) + "; beside " + mebibytes(ledger.weightsBytes) +
            " of mapped weights")
      .help("build the plan with a smaller --max-context or --prefill-chunk");
  return status;
}

} // namespace ninfer
