// How the helpers of tests end on an error: its text on stderr, exit code 1.
#ifndef NINFER_TEST_TOOLS_UNWRAP_H
#define NINFER_TEST_TOOLS_UNWRAP_H

#include "support/Status.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ninfer::test {

[[noreturn]] inline void die(const std::string &text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::exit(1);
}

template <typename T>
T unwrap(Result<T> result) {
  if (!result.ok())
    die(result.error().render());
  return result.take();
}
inline void unwrap(Status status) {
  if (!status.ok())
    die(status.error().render());
}

} // namespace ninfer::test

#endif // NINFER_TEST_TOOLS_UNWRAP_H
