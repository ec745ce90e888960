#include "codegen/common/ArenaPlan.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <string>

namespace ninfer {
namespace {

constexpr uint64_t kMaxArena = uint64_t{1} << 62; ///< keeps every sum below 2^64

bool meet(const ArenaValue &a, const ArenaValue &b) { return a.begin <= b.end && b.begin <= a.end; }

Error tooLarge(size_t index, uint64_t bytes) {
  return makeError(ErrorKind::Unsupported, "NB0420",
                   "arena value " + std::to_string(index) + " of " + std::to_string(bytes) +
                       " bytes: expected an arena below 2^62 bytes");
}

/// Every value at the first offset that is free during its lifetime, in the order given.
Result<ArenaPlan> firstFit(std::span<const ArenaValue> values, std::span<const uint64_t> sizes, std::span<const size_t> order) {
  ArenaPlan plan;
  plan.offsets.assign(values.size(), 0);
  std::vector<size_t> placed; // by offset
  for (size_t value : order) {
    uint64_t offset = 0;
    for (size_t other : placed) {
      if (!meet(values[value], values[other]))
        continue;
      if (offset + sizes[value] <= plan.offsets[other])
        break; // fits in the gap below `other`
      offset = std::max(offset, plan.offsets[other] + sizes[other]);
    }
    if (sizes[value] > kMaxArena - offset)
      return tooLarge(value, values[value].bytes);
    plan.offsets[value] = offset;
    plan.bytes = std::max(plan.bytes, offset + sizes[value]);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), value,
                         [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
        value);
  }
  return plan;
}

} // namespace

Result<ArenaPlan> planArena(std::span<const ArenaValue> values, uint64_t alignment) {
  if (!std::has_single_bit(alignment))
    return makeError(ErrorKind::Failed, "NB0420",
                     "arena alignment: expected a power of two, got " + std::to_string(alignment));
  std::vector<uint64_t> sizes;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].begin > values[i].end)
      return makeError(ErrorKind::Failed, "NB0420",
                       "arena value " + std::to_string(i) + ": expected a lifetime, got steps " +
                           std::to_string(values[i].begin) + " to " +
                           std::to_string(values[i].end));
    if (values[i].bytes > kMaxArena - alignment)
      return tooLarge(i, values[i].bytes);
    uint64_t bytes = std::max<uint64_t>(values[i].bytes, 1);
    sizes.push_back((bytes + alignment - 1) / alignment * alignment);
  }

  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto steps = [&](size_t i) { return values[i].end - values[i].begin; };
  std::optional<ArenaPlan> best;
  for (const bool longest : {false, true}) {
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (longest && steps(a) != steps(b))
        return steps(a) > steps(b);
      return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
    });
    NINFER_ASSIGN_OR_RETURN(ArenaPlan plan, firstFit(values, sizes, order));
    if (!best || plan.bytes < best->bytes)
      best = std::move(plan);
  }
  return std::move(*best);
}

Status checkArena(std::span<const ArenaValue> values, const ArenaPlan &plan, uint64_t alignment) {
  auto broken = [](std::string text) {
    return makeError(ErrorKind::Failed, "NB0421", "arena plan: " + text);
  };
  if (plan.offsets.size() != values.size())
    return broken("expected " + std::to_string(values.size()) + " offsets, got " +
                  std::to_string(plan.offsets.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (plan.offsets[i] % alignment != 0)
      return broken("offset of value " + std::to_string(i) + ": expected a multiple of " +
                    std::to_string(alignment) + ", got " + std::to_string(plan.offsets[i]));
    if (values[i].bytes > plan.bytes || plan.offsets[i] > plan.bytes - values[i].bytes)
      return broken("value " + std::to_string(i) + ": expected to end at or before byte " +
                    std::to_string(plan.bytes) + ", got bytes " + std::to_string(values[i].bytes) +
                    " at " + std::to_string(plan.offsets[i]));
    for (size_t j = 0; j < i; ++j)
      if (meet(values[i], values[j]) && plan.offsets[i] < plan.offsets[j] + values[j].bytes &&
          plan.offsets[j] < plan.offsets[i] + values[i].bytes)
        return broken("values " + std::to_string(j) + " and " + std::to_string(i) +
                      " live at the same step and share bytes");
  }
  return {};
}

} // namespace ninfer
