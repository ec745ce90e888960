// Standard input, output and error that a caller closed.
#ifndef NINFER_SUPPORT_STANDARDSTREAMS_H
#define NINFER_SUPPORT_STANDARDSTREAMS_H

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace ninfer {

/// For main: whatever of standard input, output and error is closed gets a descriptor on which reading or writing fails as it
/// would without one. Else a file opened later takes the number, and messages go into it or a prompt comes out of it.
inline void reserveStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) // the lowest free number is this one
      (void)!open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

} // namespace ninfer

#endif // NINFER_SUPPORT_STANDARDSTREAMS_H
