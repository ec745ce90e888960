// What an unexpected file is, in words for a message. A look at the first bytes; nothing is
// verified.
#ifndef NINFER_SUPPORT_FILEKIND_H
#define NINFER_SUPPORT_FILEKIND_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ninfer {

/// "a plan of ninfer-build", "a .ninfer artifact", "a GGUF model", ..., "a file of another kind".
/// Never fails: a path that cannot be read is "a file that cannot be read".
inline std::string describeFileKind(const std::filesystem::path &path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return "a folder";
  if (!std::filesystem::is_regular_file(path, ignored))
    return std::filesystem::exists(path, ignored) ? "not a regular file"
                                                  : "a file that does not exist";
  std::array<char, 16> head{};
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return "a file that cannot be read";
  in.read(head.data(), head.size());
  const std::string_view start(head.data(), static_cast<size_t>(in.gcount()));
  const auto begins = [&](std::string_view magic) {
    return start.substr(0, magic.size()) == magic;
  };
  if (start.empty())
    return "an empty file";
  if (begins(std::string_view("NINPLAN\0", 8)))
    return "a plan of ninfer-build";
  if (begins(std::string_view("NINPACK\0", 8)))
    return "packed weights of ninfer-build --prepack";
  if (begins(std::string_view("NINFER\0", 7)) || begins(std::string_view("NINPRT\0", 7)))
    return "a .ninfer artifact";
  if (begins("GGUF"))
    return "a GGUF model";
  if (start.size() > 8 && start[8] == '{' && start.substr(5, 3) == std::string_view("\0\0\0", 3))
    return "a safetensors file";
  if (begins("\x7f"
             "ELF"))
    return "an ELF binary";
  if (begins("PK\x03\x04"))
    return "a ZIP archive";
  const bool text = std::all_of(start.begin(), start.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u >= 0x20 ? u != 0x7f : u == '\n' || u == '\r' || u == '\t';
  });
  return text ? "a text file" : "a file of another kind";
}

} // namespace ninfer

#endif // NINFER_SUPPORT_FILEKIND_H
