// Making and calling a built-in in a test.
#ifndef NINFER_TEST_UNIT_REFERENCE_HELPERS_H
#define NINFER_TEST_UNIT_REFERENCE_HELPERS_H

#include "runtime/reference/Builtin.h"

#include <gtest/gtest.h>

namespace ninfer::test {

inline std::unique_ptr<reference::Builtin> make(const std::string &symbol, const reference::AttributeMap &attributes) {
  auto builtin = reference::makeBuiltin(symbol, attributes, "test");
  EXPECT_TRUE(builtin.ok()) << (builtin.ok() ? "" : builtin.error().render());
  return builtin.ok() ? builtin.take() : nullptr;
}

/// Calls it in `pieces` pieces, last piece first: units are independent.
inline void call(const reference::Builtin &builtin, std::vector<void *> args, int64_t rows, int64_t position = 0,
                 int64_t pieces = 3) {
  ASSERT_EQ(args.size(), builtin.args(rows).size());
  std::vector<double> scratch(builtin.scratchBytes() / 8 + 1);
  const int64_t units = builtin.units(rows);
  for (int64_t piece = pieces - 1; piece >= 0; --piece) {
    const int64_t begin = units * piece / pieces, end = units * (piece + 1) / pieces;
    if (begin < end)
      builtin.run({args.data(), rows, position, scratch.data()}, begin, end);
  }
}

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_REFERENCE_HELPERS_H
