// UTF-8: validation, decoding, encoding. Overlong forms, surrogates and values above U+10FFFF are
// invalid.
#ifndef NINFER_SUPPORT_UTF8_H
#define NINFER_SUPPORT_UTF8_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ninfer {

/// Decodes the code point at `text[position]` and moves `position` behind it. Nothing (position
/// unchanged) when the bytes there are not a complete valid sequence.
std::optional<char32_t> decodeUtf8(std::string_view text, size_t &position);

/// Offset of the first byte that is not part of a valid sequence, or nothing when all of `text` is
/// valid.
std::optional<size_t> findInvalidUtf8(std::string_view text);
inline bool isValidUtf8(std::string_view text) { return !findInvalidUtf8(text); }

/// Appends the UTF-8 form of `codePoint` (a Unicode scalar value).
void appendUtf8(std::string &out, char32_t codePoint);

/// Length of the longest prefix that does not end inside a sequence which more bytes could
/// complete. A streaming printer emits this many bytes and keeps the rest.
size_t completeUtf8Prefix(std::string_view text);

/// Copy of `text` in which every maximal invalid part is replaced by U+FFFD.
std::string replaceInvalidUtf8(std::string_view text);

} // namespace ninfer

#endif // NINFER_SUPPORT_UTF8_H
