#include "runtime/loader/SystemFile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <unistd.h>

namespace ninfer {

std::string readSystemFile(const std::string &path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return text;
  char piece[4096];
  for (;;) {
    const ssize_t got = read(fd, piece, sizeof(piece));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    text.append(piece, size_t(got));
  }
  close(fd);
  return text;
}

std::string_view takeUntil(std::string_view &rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

std::string_view lineAfter(std::string_view text, std::string_view name) {
  while (!text.empty())
    if (std::string_view line = takeUntil(text, '\n'); line.starts_with(name))
      return line.substr(name.size());
  return {};
}

uint64_t leadingNumber(std::string_view text, uint64_t otherwise) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? number : otherwise;
}

} // namespace ninfer
