#include "runtime/vision/Positions.h"

#include <algorithm>

namespace ninfer::vision {

void Positions::append(int64_t first, int64_t rows, int64_t columns) {
  media_.push_back({first, rows, columns, of(first)[0]});
}

std::array<int32_t, 3> Positions::of(int64_t token) const {
  const auto behind = std::partition_point(media_.begin(), media_.end(), [&](const Media &m) { return m.first <= token; });
  if (behind == media_.begin())
    return {int32_t(token), int32_t(token), int32_t(token)};
  const Media &m = *(behind - 1);
  if (token >= m.end()) {
    const auto at = int32_t(m.next() + token - m.end());
    return {at, at, at};
  }
  const int64_t inside = token - m.first;
  return {int32_t(m.start), int32_t(m.start + inside / m.columns), int32_t(m.start + inside % m.columns)};
}

int64_t Positions::delta() const { return media_.empty() ? 0 : media_.back().next() - media_.back().end(); }

Positions::Range Positions::splitBy(int64_t token) const {
  for (const Media &m : media_)
    if (m.first < token && token < m.end())
      return {m.first, m.end()};
  return {};
}

void Positions::truncate(int64_t token) {
  while (!media_.empty() && media_.back().first >= token)
    media_.pop_back();
}

} // namespace ninfer::vision
