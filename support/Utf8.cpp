#include "support/Utf8.h"

namespace ninfer {

namespace {

struct Sequence {
  size_t length = 0;      ///< bytes of the valid sequence; 0 when invalid
  size_t wrongPart = 1;   ///< when invalid: length of the maximal subpart that one U+FFFD replaces
  bool truncated = false; ///< invalid only because the text ends
  char32_t value = 0;
};

// The table of well-formed byte sequences (Unicode, table 3-7): the second byte's range depends on
// the first.
Sequence readSequence(std::string_view text, size_t position) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const unsigned first = at(0);
  if (first < 0x80)
    return {1, 0, false, char32_t(first)};
  size_t length = 0;
  unsigned low = 0x80, high = 0xbf;
  if (first >= 0xc2 && first <= 0xdf)
    length = 2;
  else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    if (first == 0xe0)
      low = 0xa0;
    if (first == 0xed)
      high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    if (first == 0xf0)
      low = 0x90;
    if (first == 0xf4)
      high = 0x8f;
  } else {
    return {};
  }
  char32_t value = first & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (position + i >= text.size())
      return {0, i, true, 0};
    const unsigned byte = at(i);
    if (byte < low || byte > high)
      return {0, i, false, 0};
    value = value << 6 | (byte & 0x3f);
    low = 0x80;
    high = 0xbf;
  }
  return {length, 0, false, value};
}

} // namespace

std::optional<char32_t> decodeUtf8(std::string_view text, size_t &position) {
  if (position >= text.size())
    return std::nullopt;
  const Sequence sequence = readSequence(text, position);
  if (sequence.length == 0)
    return std::nullopt;
  position += sequence.length;
  return sequence.value;
}

std::optional<size_t> findInvalidUtf8(std::string_view text) {
  size_t position = 0;
  while (position < text.size())
    if (!decodeUtf8(text, position))
      return position;
  return std::nullopt;
}

void appendUtf8(std::string &out, char32_t codePoint) {
  const auto tail = [&](int shift) {
    out += static_cast<char>(0x80 | ((codePoint >> shift) & 0x3f));
  };
  if (codePoint < 0x80) {
    out += static_cast<char>(codePoint);
  } else if (codePoint < 0x800) {
    out += static_cast<char>(0xc0 | codePoint >> 6);
    tail(0);
  } else if (codePoint < 0x10000) {
    out += static_cast<char>(0xe0 | codePoint >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | codePoint >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

size_t completeUtf8Prefix(std::string_view text) {
  // An unfinished sequence has at most three bytes, so only the last three positions can start one.
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const size_t position = text.size() - back;
    const Sequence sequence = readSequence(text, position);
    if (sequence.length == 0 && sequence.truncated)
      return position;
    if ((static_cast<unsigned char>(text[position]) & 0xc0) != 0x80)
      break;
  }
  return text.size();
}

std::string replaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Sequence sequence = readSequence(text, position);
    if (sequence.length != 0)
      out.append(text, position, sequence.length);
    else
      appendUtf8(out, 0xfffd);
    position += sequence.length != 0 ? sequence.length : sequence.wrongPart;
  }
  return out;
}

} // namespace ninfer
