// Places values with known lifetimes in one arena. Free of MLIR.
#ifndef NINFER_CODEGEN_COMMON_ARENAPLAN_H
#define NINFER_CODEGEN_COMMON_ARENAPLAN_H

#include "support/Status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ninfer {

/// A value that needs `bytes` from step `begin` to step `end`, both included. Two values whose
/// steps meet must not share a byte: a launch may not write over an operand, since its tiles run at
/// the same time.
struct ArenaValue {
  uint64_t bytes = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct ArenaPlan {
  std::vector<uint64_t> offsets; ///< per value, bytes, multiples of the alignment
  uint64_t bytes = 0;            ///< size of the arena, a multiple of the alignment
};

inline constexpr uint64_t kArenaAlignment = 64; ///< of every activation (runtime/abi/kernel_abi.h)

/// First fit, largest value first (ties: input order), or, if that takes less, longest lifetime first (ties: largest). The
/// result depends on the input alone. A value of no bytes gets one alignment unit. NB0420 when sizes overflow, a lifetime is empty, or
/// the alignment is no power of two.
Result<ArenaPlan> planArena(std::span<const ArenaValue> values,
                            uint64_t alignment = kArenaAlignment);

/// Checks a plan against its values by comparing all pairs: alignment, bounds, no shared byte
/// between values that live at the same step. NB0421 names the two values.
Status checkArena(std::span<const ArenaValue> values, const ArenaPlan &plan,
                  uint64_t alignment = kArenaAlignment);

} // namespace ninfer

#endif // NINFER_CODEGEN_COMMON_ARENAPLAN_H
