// test/vectors/vision: what transformers and Pillow make of grids and images (test/oracle/vision_vectors.py).
#ifndef NINFER_TEST_UNIT_VISION_VECTORS_H
#define NINFER_TEST_UNIT_VISION_VECTORS_H

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ninfer::test {

inline std::string visionFile(const std::string &name) {
  std::ifstream in(std::string(NINFER_SOURCE_DIR) + "/test/vectors/vision/" + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

inline const nlohmann::json &visionVectors() {
  static const nlohmann::json json = nlohmann::json::parse(visionFile("vectors.json"));
  return json;
}

inline std::vector<uint8_t> fromBase64(const std::string &text) {
  std::vector<uint8_t> out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0)
      break;
    bits = bits << 6 | uint32_t(value);
    if ((count += 6) >= 8)
      out.push_back(uint8_t(bits >> (count -= 8)));
  }
  return out;
}

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_VISION_VECTORS_H
