// What a context needs, exact before anything is allocated. The allocation uses these same figures.
#ifndef NINFER_RUNTIME_EXECUTOR_LEDGER_H
#define NINFER_RUNTIME_EXECUTOR_LEDGER_H

#include "runtime/loader/Engine.h"

#include <vector>

namespace ninfer {

struct ContextOptions {
  unsigned threads = 0;      ///< 0: every usable CPU
  bool pin = true;
  uint64_t memoryLimit = 0;  ///< 0: availableMemory()
  bool profile = false;
  uint64_t spinNs = 0;       ///< 0: default
  bool draft = false;        ///< speculative decoding with the plan's draft layer
};

struct Ledger {
  // File-backed mappings of the engine.
  uint64_t weightsBytes = 0, planBytes = 0, codeBytes = 0;
  uint64_t engineBytes = 0; ///< heap of the opened plan: there already when a context is made
  uint64_t deviceBytes = 0; ///< memory of the device: packed weights and one context
  // Anonymous memory of the context.
  uint64_t arenaBytes = 0, stateBytes = 0, scratchBytes = 0, hostBytes = 0;
  unsigned threads = 1;
  uint64_t scratchPerThread = 0;
  std::vector<uint64_t> stateOffsets; ///< of every state of the target, in the state region

  uint64_t anonymousBytes() const { return arenaBytes + stateBytes + scratchBytes + hostBytes; }
  uint64_t totalBytes() const { return weightsBytes + planBytes + codeBytes + engineBytes + anonymousBytes(); }
};

/// `usable` is the number of usable CPUs, for options.threads 0.
Ledger makeLedger(const Engine &engine, const ContextOptions &options, size_t usable);

/// NB0640 (OutOfMemory) when the anonymous bytes exceed the limit; the message has every figure.
Status checkLedger(const Engine &engine, const Ledger &ledger, uint64_t limit);

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_LEDGER_H
