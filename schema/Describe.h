// Pages of text about a verified plan: what ninfer-inspect and ninfer-build --explain print, and
// the memory ledger as numbers. Free of IO.
#ifndef NINFER_SCHEMA_DESCRIBE_H
#define NINFER_SCHEMA_DESCRIBE_H

#include "schema/PackedFile.h"
#include "schema/View.h"

#include <cstdint>
#include <string>

namespace ninfer {

/// Memory one context of one target needs, bytes. Weights and plan are mapped from their files; the
/// rest is allocated. The runtime adds its own tables and thread stacks (ninfer_ledger in
/// ninfer.h).
struct PlanLedger {
  uint64_t weights = 0; ///< logical payload of the artifact
  uint64_t plan = 0;    ///< the plan file, machine code included
  uint64_t states = 0;
  uint64_t arena = 0;
  uint64_t scratchPerThread = 0;
  bool onDevice = false; ///< states and arena are memory of a device, and so are:
  uint64_t packed = 0;   ///< weights in the order its kernels read
  uint64_t staging = 0;  ///< while they are loaded
  uint64_t total(uint64_t threads) const {
    return weights + plan + packed + states + arena + scratchPerThread * threads;
  }
};
PlanLedger planLedger(const PlanView &view, const plan::Target &target);

/// Bytes all launches of a phase read for `rows` rows, states at full capacity (cost model).
uint64_t phaseBytesRead(const plan::Phase &phase, uint64_t rows);
uint64_t phaseFlops(const plan::Phase &phase, uint64_t rows);

/// Model, artifact, targets, sizes, provenance. `fileName` heads the page.
std::string describePlan(const PlanView &view, const std::string &fileName);
/// A file of packed weights: what it was made from, and its sections. `fileName` heads the page.
std::string describePacked(const PackedHeader &header, const std::string &fileName);
/// One line per kernel: launches per phase, family, profile, scratch, arguments.
std::string describeKernels(const PlanView &view);
/// Operation -> kernel -> why -> every other candidate with its reason, grouped by kernel and
/// phase.
std::string describeTrace(const PlanView &view);
/// Memory of one context, per target: one line per state kind, arena, scratch for `threads`
/// threads, total.
std::string describeLedger(const PlanView &view, uint64_t threads);

} // namespace ninfer

#endif // NINFER_SCHEMA_DESCRIBE_H
