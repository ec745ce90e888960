// ggml blocks: decoding against values of the reference package (test/oracle/ggml_blocks.py), and
// the proof, code by code and scale by scale, that four types move exactly into W8G32_F16S.
#include "convert/GgmlBlocks.h"

#include "SourceBuilders.h"

#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

namespace ninfer {
namespace {

using nlohmann::json;

const json &vectors() {
  static const json data =
      json::parse(test::readBytes(NINFER_SOURCE_DIR "/test/vectors/ggml/blocks.json"));
  return data;
}

std::vector<std::byte> fromHex(const std::string &hex) {
  std::vector<std::byte> out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return out;
}

const SourceType kBlockTypes[] = {SourceType::Q8_0,   SourceType::Q4_0, SourceType::Q5_0,
                                  SourceType::IQ4_NL, SourceType::Q4_1, SourceType::Q5_1,
                                  SourceType::Q2_K,   SourceType::Q3_K, SourceType::Q4_K,
                                  SourceType::Q5_K,   SourceType::Q6_K, SourceType::IQ4_XS};

TEST(GgmlBlocks, DecodeLikeTheReferenceBitForBit) {
  for (SourceType type : kBlockTypes) {
    const json &entry = vectors()["types"].at(sourceTypeInfo(type).name);
    std::vector<std::byte> row = fromHex(entry["blocks"]);
    std::vector<float> values(entry["columns"].get<size_t>());
    ASSERT_EQ(row.size(),
              values.size() / sourceTypeInfo(type).blockElements * sourceTypeInfo(type).blockBytes);
    decodeSourceRow(type, row, values);
    std::string expected = entry["values"];
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t word;
      std::memcpy(&word, &values[i], 4);
      ASSERT_EQ(word, std::stoul(expected.substr(8 * i, 8), nullptr, 16))
          << sourceTypeInfo(type).name << " element " << i << " is " << values[i];
    }
  }
}

TEST(GgmlBlocks, DecodePlainWords) {
  // binary16 0x0001 is 2^-24: a flush to zero or a halving of subnormals shows here.
  std::vector<std::byte> f16 = fromHex("0100ff030004003cffc7ff7b");
  std::vector<float> values(6);
  decodeSourceRow(SourceType::F16, f16, values);
  EXPECT_EQ(values, (std::vector<float>{5.960464477539063e-08f, 6.097555160522461e-05f,
                                        6.103515625e-05f, 1.0f, -7.99609375f, 65504.0f}));
  std::vector<float> two(2);
  decodeSourceRow(SourceType::BF16, fromHex("803f0100"), two);
  EXPECT_EQ(two, (std::vector<float>{1.0f, std::ldexp(1.0f, -133)}));
  decodeSourceRow(SourceType::F32, fromHex("0000803f01000000"), two);
  EXPECT_EQ(two, (std::vector<float>{1.0f, std::ldexp(1.0f, -149)}));
}

// --- the proof
// -------------------------------------------------------------------------------------------------------

/// Value of a binary16 word from the definition of the encoding.
double halfValue(uint16_t word) {
  int exponent = (word >> 10) & 31, fraction = word & 1023;
  double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return word & 0x8000 ? -magnitude : magnitude;
}

struct ExactType {
  SourceType type;
  int codes;                     ///< stored code words 0 .. codes-1
  std::function<int(int)> value; ///< signed code a stored word stands for
  /// Writes the stored words of 32 elements behind the scale.
  std::function<void(uint8_t *block, const int *words)> pack;
};

void packNibbles(uint8_t *q, const int *words) {
  for (int j = 0; j < 16; ++j)
    q[j] = static_cast<uint8_t>((words[j] & 15) | (words[j + 16] & 15) << 4);
}

std::vector<ExactType> exactTypes() {
  static const std::vector<int> table = vectors()["iq4_nl_values"];
  return {
      {SourceType::Q8_0, 256, [](int w) { return w - 128; },
       [](uint8_t *b, const int *w) {
         for (int j = 0; j < 32; ++j)
           b[2 + j] = static_cast<uint8_t>(w[j] - 128);
       }},
      {SourceType::Q4_0, 16, [](int w) { return w - 8; },
       [](uint8_t *b, const int *w) { packNibbles(b + 2, w); }},
      {SourceType::Q5_0, 32, [](int w) { return w - 16; },
       [](uint8_t *b, const int *w) {
         uint32_t high = 0;
         for (int j = 0; j < 32; ++j)
           high |= static_cast<uint32_t>(w[j] >> 4) << j;
         std::memcpy(b + 2, &high, 4);
         packNibbles(b + 6, w);
       }},
      {SourceType::IQ4_NL, 16, [](int w) { return table[static_cast<size_t>(w)]; },
       [](uint8_t *b, const int *w) { packNibbles(b + 2, w); }},
  };
}

/// All 65536 scale words times all codes in all lanes: the moved words have exactly the source's
/// value, or the block is refused for a stated reason and no other.
TEST(GgmlBlocks, EveryScaleAndCodeMovesExactlyOrIsRefused) {
  for (const ExactType &t : exactTypes()) {
    const SourceTypeInfo &info = sourceTypeInfo(t.type);
    size_t moved = 0, refused = 0;
    for (uint32_t scale = 0; scale < 65536; ++scale) {
      // A rotation per scale word puts every code into every lane over the scales; all codes occur
      // for each scale.
      for (int base = 0; base < t.codes; base += 32) {
        int words[32];
        bool has128 = false;
        for (int j = 0; j < 32; ++j) {
          words[j] = (base + j + static_cast<int>(scale)) % t.codes;
          has128 |= t.value(words[j]) == -128;
        }
        std::vector<std::byte> block(info.blockBytes);
        auto *b = reinterpret_cast<uint8_t *>(block.data());
        b[0] = static_cast<uint8_t>(scale);
        b[1] = static_cast<uint8_t>(scale >> 8);
        t.pack(b, words);
        std::vector<int8_t> codes(32);
        std::vector<uint16_t> scales(1);
        MoveKind kind = MoveKind::SameWords;
        auto fault = moveRowIntoW8(t.type, block, codes, scales, kind);
        bool finite = (scale & 0x7c00) != 0x7c00;
        bool legal = finite && scale != 0x8000 && (!has128 || scale == 0);
        ASSERT_EQ(!fault, legal) << info.name << " scale " << scale
                                 << (fault ? ": " + fault->rule : "");
        if (fault) {
          ++refused;
          continue;
        }
        ++moved;
        ASSERT_LT(scales[0], 0x7c00); // the format's rule: finite, sign bit clear
        bool same = t.type == SourceType::Q8_0 && !(scale & 0x8000);
        for (int j = 0; j < 32; ++j) {
          int code = codes[static_cast<size_t>(j)];
          ASSERT_NE(code, -128);
          double expected = halfValue(static_cast<uint16_t>(scale)) * t.value(words[j]);
          ASSERT_EQ(halfValue(scales[0]) * code, expected)
              << info.name << " scale " << scale << " word " << words[j];
          if (scales[0] == 0) {
            ASSERT_EQ(code, 0); // the format's rule: zero scale, zero codes
          }
          same &= code == t.value(words[j]);
        }
        ASSERT_EQ(kind == MoveKind::SameWords, same) << info.name << " scale " << scale;
      }
    }
    EXPECT_GT(moved, 60000u) << info.name;
    EXPECT_GT(refused, 2000u) << info.name; // infinities, NaNs, negative zero
  }
}

TEST(GgmlBlocks, TheSmallestScaleKeepsItsValue) {
  std::vector<std::byte> block(34);
  block[0] = std::byte{1}; // d = 0x0001
  block[2] = std::byte{1}; // code 1
  std::vector<int8_t> codes(32);
  std::vector<uint16_t> scales(1);
  MoveKind kind = MoveKind::SameWords;
  ASSERT_FALSE(moveRowIntoW8(SourceType::Q8_0, block, codes, scales, kind));
  EXPECT_EQ(kind, MoveKind::SameWords);
  EXPECT_EQ(scales[0], 1);
  EXPECT_EQ(halfValue(scales[0]) * codes[0], 5.960464477539063e-08);
}

TEST(GgmlBlocks, FaultsNameTheBlockAndTheRule) {
  std::vector<std::byte> row(2 * 34);
  row[34 + 1] = std::byte{0x3c};     // second block, d = 1
  row[34 + 2 + 5] = std::byte{0x80}; // code -128 in lane 5
  std::vector<int8_t> codes(64);
  std::vector<uint16_t> scales(2);
  MoveKind kind = MoveKind::SameWords;
  auto fault = moveRowIntoW8(SourceType::Q8_0, row, codes, scales, kind);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->block, 1u);
  EXPECT_EQ(fault->rule, "code -128 of element 5 is outside -127..127");
}

} // namespace
} // namespace ninfer
