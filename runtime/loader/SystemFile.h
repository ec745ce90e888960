// Small text files of /proc, /sys and control groups, whose sizes the system does not tell.
#ifndef NINFER_RUNTIME_LOADER_SYSTEMFILE_H
#define NINFER_RUNTIME_LOADER_SYSTEMFILE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace ninfer {

/// The whole text, or "" when it cannot be read.
std::string readSystemFile(const std::string &path);

/// Cuts the text up to the next `separator`, which is dropped, off the front of `rest`.
std::string_view takeUntil(std::string_view &rest, char separator);

/// What follows `name` in the first line that begins with it, or "".
std::string_view lineAfter(std::string_view text, std::string_view name);

/// The decimal number at the start of `text`, after blanks, or `otherwise` when there is none ("max", "-1", "") or it does not fit.
uint64_t leadingNumber(std::string_view text, uint64_t otherwise);

} // namespace ninfer

#endif // NINFER_RUNTIME_LOADER_SYSTEMFILE_H
