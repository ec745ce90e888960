// What the fuzz targets share: the entry point libFuzzer calls, files in memory for readers that take a path, and
// what every error must look like. A broken expectation aborts, so that the fuzzer keeps the input.
#ifndef NINFER_TEST_FUZZ_FUZZ_H
#define NINFER_TEST_FUZZ_FUZZ_H

#include "support/Status.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace ninfer::fuzz {

inline void require(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "broken expectation: %s\n", what);
  std::abort();
}

/// A refusal names a rule and is of a kind that a bad input may have.
inline void checkError(const Error &error) {
  require(!error.message.empty() && error.code.size() == 6, "an error has an id and a text");
  require(error.kind == ErrorKind::BadFile || error.kind == ErrorKind::Unsupported || error.kind == ErrorKind::Failed ||
              error.kind == ErrorKind::TargetMismatch || error.kind == ErrorKind::Usage,
          "the kind of the error is one of an input's");
  require(!error.render().empty(), "an error can be shown");
}

/// Checks the error of a failed result and tells whether there is a value.
template <typename T>
bool accepted(const Result<T> &result) {
  if (!result.ok())
    checkError(result.error());
  return result.ok();
}
inline bool accepted(const Status &status) {
  if (!status.ok())
    checkError(status.error());
  return status.ok();
}

/// A file without a name that holds `bytes`; its path works for readers in this process.
class MemoryFile {
public:
  explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(fd_ >= 0, "memfd_create works");
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
      require(n > 0, "the file in memory can be written");
      done += static_cast<size_t>(n);
    }
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_); }

private:
  int fd_;
};

inline std::string_view textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

} // namespace ninfer::fuzz

#endif // NINFER_TEST_FUZZ_FUZZ_H
