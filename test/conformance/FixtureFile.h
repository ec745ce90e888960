// Golden files of the container and format tests: the file's bytes and what they must decode to.
// The oracle is the JSON text (test/conformance/fixtures/README.md); nothing here uses code under
// test except the registry's names.
#ifndef NINFER_TEST_CONFORMANCE_FIXTUREFILE_H
#define NINFER_TEST_CONFORMANCE_FIXTUREFILE_H

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ninfer::test {

inline std::string fixturePath(const std::string &name) {
  return std::string(NINFER_SOURCE_DIR) + "/test/conformance/fixtures/" + name;
}

inline std::string readBytes(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw std::runtime_error("cannot read " + path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline nlohmann::json readJson(const std::string &name) {
  return nlohmann::json::parse(readBytes(fixturePath(name)));
}

/// "3f80bf80" with 4 digits per word -> {0x3f80, 0xbf80}.
inline std::vector<uint32_t> hexWords(const std::string &text, size_t digits) {
  std::vector<uint32_t> words;
  for (size_t i = 0; i + digits <= text.size(); i += digits)
    words.push_back(uint32_t(std::stoul(text.substr(i, digits), nullptr, 16)));
  return words;
}

/// Little-endian bytes of words.
inline std::string leBytes(const std::vector<uint32_t> &words, size_t bytes) {
  std::string out;
  for (uint32_t word : words)
    for (size_t i = 0; i < bytes; ++i)
      out += char(word >> 8 * i);
  return out;
}

inline std::vector<uint32_t> floatBits(const std::vector<float> &values) {
  std::vector<uint32_t> words;
  for (float value : values)
    words.push_back(std::bit_cast<uint32_t>(value));
  return words;
}

/// CRC-32 as in zlib.
inline uint32_t crc32(const std::string &bytes) {
  uint32_t crc = 0xffffffff;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i)
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

/// What the encoder was given, or empty when the fixture holds chosen words.
inline std::vector<float> sourceValues(const nlohmann::json &object, size_t count) {
  std::vector<float> values;
  if (object.contains("source_f32")) {
    for (uint32_t word : hexWords(object["source_f32"], 8))
      values.push_back(std::bit_cast<float>(word));
  } else if (object.contains("source_bf16")) {
    for (uint32_t word : hexWords(object["source_bf16"], 4))
      values.push_back(std::bit_cast<float>(word << 16));
  } else if (object.contains("source") &&
             object["source"].get<std::string>().rfind("lcg_bf16(seed=", 0) == 0) {
    const std::string text = object["source"];
    uint32_t state = uint32_t(std::stoul(text.substr(14)));
    const size_t power = text.find("* 2^");
    const int exponent = power == std::string::npos ? 0 : std::stoi(text.substr(power + 4));
    for (size_t i = 0; i < count; ++i) {
      state = 1664525u * state + 1013904223u;
      const uint32_t u = state >> 8;
      const uint32_t word = (u & 1) << 15 | (0x70 + ((u >> 8) & 15)) << 7 | ((u >> 1) & 127);
      values.push_back(std::ldexp(std::bit_cast<float>(word << 16), exponent));
    }
  }
  return values;
}

} // namespace ninfer::test

#endif // NINFER_TEST_CONFORMANCE_FIXTUREFILE_H
