// Every wrapper with a meaning of its own against an independent definition. The fragment layouts are written as the
// index functions of CUTLASS (SM80_16x8x16), the emulator's as the tables of the PTX ISA.
#include "codegen/cuda/kernels/ni.cuh"
#include "test/emulator/Emulator.h"

#include "artifact/formats/Words.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

namespace {

using namespace ninfer;

std::function<void()> body; // what the threads of the next launch do

void runBody(void **) { body(); }

emulator::Outcome run(uint32_t threads, std::function<void()> f, uint32_t sharedBytes = 0,
                      std::vector<emulator::Buffer> buffers = {}, emulator::Options options = {}, uint32_t blocks = 1) {
  body = std::move(f);
  emulator::Launch launch;
  launch.kernel = runBody;
  launch.grid = {blocks};
  launch.threads = threads;
  launch.sharedBytes = sharedBytes;
  launch.buffers = std::move(buffers);
  return emulator::run(launch, options);
}

TEST(Collectives, ShuffleReadsTheNamedLane) {
  uint32_t got[64], summed[64];
  float top[64];
  const auto outcome = run(64, [&] {
    const uint32_t t = ni::threadIndex();
    got[t] = ni::shuffle(t * 10, 5u);
    summed[t] = ni::shuffleXor(t, 12u);
    top[t] = ni::warpMaximum(t == 40 ? 100.0f : float(t % 7));
  });
  ASSERT_EQ(outcome.message, "");
  EXPECT_EQ(outcome.collectives, 2u * (1 + 1 + 5));
  for (uint32_t t = 0; t < 64; ++t) {
    EXPECT_EQ(got[t], (t / 32 * 32 + 5) * 10);
    EXPECT_EQ(summed[t], t ^ 12u);
    EXPECT_EQ(top[t], t < 32 ? 6.0f : 100.0f);
  }
}

TEST(Collectives, UniformIsCheckedAndNeedsAllLanes) {
  EXPECT_EQ(run(64, [] { ni::uniform(ni::warpIndex()); }).message, "");
  EXPECT_NE(run(64, [] { ni::uniform(ni::threadIndex()); }).message.find("lanes of a warp differ in a uniform value"),
            std::string::npos);
  const auto one = run(32, [] {
    if (ni::laneIndex() == 0)
      ni::uniform(ni::warpIndex());
  });
  EXPECT_NE(one.message.find("warp collective never completes"), std::string::npos) << one.message;
}

TEST(Collectives, MmaFragmentsAreThoseOfCutlass) {
  std::mt19937 random(1);
  float a[16 * 16], b[8 * 16], c[16 * 8], d[16 * 8];
  for (float &v : a)
    v = float(int(random() % 17) - 8);
  for (float &v : b)
    v = float(int(random() % 17) - 8);
  for (float &v : c)
    v = float(int(random() % 17) - 8);
  const auto word = [](float f) { return uint32_t(roundToBf16(f)); };
  const auto outcome = run(32, [&] {
    const uint32_t lane = ni::laneIndex(), t = lane % 4, g = lane / 4;
    // A: m + 16 k = 32 t + g + 16 v0 + 8 v1 + 128 v2; B: n + 8 k = 16 t + g + 8 v0 + 64 v1; C: m + 16 n = 32 t + g + 16 v0 + 8 v1.
    uint32_t fa[4] = {}, fb[2] = {};
    float fd[4];
    for (uint32_t v0 = 0; v0 < 2; ++v0)
      for (uint32_t v1 = 0; v1 < 2; ++v1) {
        for (uint32_t v2 = 0; v2 < 2; ++v2) {
          const uint32_t i = 32 * t + g + 16 * v0 + 8 * v1 + 128 * v2;
          fa[2 * v2 + v1] |= word(a[i % 16 * 16 + i / 16]) << 16 * v0;
        }
        const uint32_t j = 16 * t + g + 8 * v0 + 64 * v1;
        fb[v1] |= word(b[j % 8 * 16 + j / 8]) << 16 * v0;
        const uint32_t i = 32 * t + g + 16 * v0 + 8 * v1;
        fd[2 * v1 + v0] = c[i % 16 * 8 + i / 16];
      }
    ni::mmaBf16(fd, fa, fb[0], fb[1]);
    for (uint32_t v0 = 0; v0 < 2; ++v0)
      for (uint32_t v1 = 0; v1 < 2; ++v1) {
        const uint32_t i = 32 * t + g + 16 * v0 + 8 * v1;
        d[i % 16 * 8 + i / 16] = fd[2 * v1 + v0];
      }
  });
  ASSERT_EQ(outcome.message, "");
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) {
      float sum = c[m * 8 + n];
      for (int k = 0; k < 16; ++k)
        sum += a[m * 16 + k] * b[n * 16 + k];
      EXPECT_EQ(d[m * 8 + n], sum) << m << " " << n; // small integers: exact
    }
}

TEST(Collectives, MmaOfBinary16IsThatOfCutlass) {
  std::mt19937 random(4);
  float a[16 * 8], b[8 * 8], c[16 * 8], d[16 * 8];
  // Numbers of 11 bits, among them subnormal ones of binary16.
  for (float &v : a)
    v = std::ldexp(float(int(random() % 2047) - 1023), -24 + int(random() % 3));
  for (float &v : b)
    v = float(int(random() % 17) - 8);
  for (float &v : c)
    v = std::ldexp(float(int(random() % 17) - 8), -20);
  const auto word = [](float f) { return uint32_t(roundToF16(f)); };
  for (bool set : {false, true}) {
    const auto outcome = run(32, [&] {
      const uint32_t lane = ni::laneIndex(), t = lane % 4, g = lane / 4;
      // SM75_16x8x8: A: m + 16 k = 32 t + g + 16 v0 + 8 v1; B: n + 8 k = 16 t + g + 8 v0; C as SM80_16x8x16.
      uint32_t fa[2] = {}, fb = 0;
      float fd[4];
      for (uint32_t v0 = 0; v0 < 2; ++v0) {
        const uint32_t j = 16 * t + g + 8 * v0;
        fb |= word(b[j % 8 * 8 + j / 8]) << 16 * v0;
        for (uint32_t v1 = 0; v1 < 2; ++v1) {
          const uint32_t i = 32 * t + g + 16 * v0 + 8 * v1;
          fa[v1] |= word(a[i % 16 * 8 + i / 16]) << 16 * v0;
          fd[2 * v1 + v0] = c[i % 16 * 8 + i / 16];
        }
      }
      if (set)
        ni::mmaF16Set(fd, fa[0], fa[1], fb);
      else
        ni::mmaF16(fd, fa[0], fa[1], fb);
      for (uint32_t v0 = 0; v0 < 2; ++v0)
        for (uint32_t v1 = 0; v1 < 2; ++v1) {
          const uint32_t i = 32 * t + g + 16 * v0 + 8 * v1;
          d[i % 16 * 8 + i / 16] = fd[2 * v1 + v0];
        }
    });
    ASSERT_EQ(outcome.message, "");
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 8; ++n) {
        float sum = set ? 0 : c[m * 8 + n];
        for (int k = 0; k < 8; ++k)
          sum += a[m * 8 + k] * b[n * 8 + k];
        EXPECT_EQ(d[m * 8 + n], sum) << m << " " << n; // multiples of 2^-24 below 1/4: exact
      }
  }
}

TEST(Collectives, LoadMatrixTakesRowsAndTransposes) {
  uint16_t words[4 * 8 * 8];
  for (int i = 0; i < 256; ++i)
    words[i] = uint16_t(i * 257);
  uint32_t straight[32][4], transposed[32][4];
  const auto outcome = run(
      32,
      [&] {
        auto *shared = reinterpret_cast<uint16_t *>(ni::host::sharedMemory(512));
        const uint32_t lane = ni::laneIndex();
        for (uint32_t i = 0; i < 8; ++i)
          ni::sharedStore(shared + lane * 8 + i, words[lane * 8 + i]);
        ni::warpSync();
        ni::loadMatrix(straight[lane], shared + lane * 8);
        ni::loadMatrixTransposed(transposed[lane], shared + lane * 8);
      },
      512);
  ASSERT_EQ(outcome.message, "");
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t m = 0; m < 4; ++m)
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t row = lane / 4, column = lane % 4 * 2 + half;
        EXPECT_EQ(straight[lane][m] >> 16 * half & 0xffff, words[m * 64 + row * 8 + column]);
        EXPECT_EQ(transposed[lane][m] >> 16 * half & 0xffff, words[m * 64 + column * 8 + row]);
      }
}

TEST(Numbers, BitwiseIsTheTruthTable) {
  // lop3 of PTX: the table is the function applied to 0xf0, 0xcc, 0xaa.
  const uint32_t a = 0x12345678, b = 0x9abcdef0, c = 0x0f1e2d3c;
  EXPECT_EQ((ni::bitwise<(0xf0 & 0xcc) ^ 0xaa>(a, b, c)), (a & b) ^ c);
  EXPECT_EQ((ni::bitwise<(0xf0 & 0xcc) | 0xaa>(a, b, c)), (a & b) | c);
  EXPECT_EQ((ni::bitwise<(0xff & ~0xf0) & (0xcc | 0xaa)>(a, b, c)), ~a & (b | c));
}

TEST(Numbers, WordsRoundAsTheFormatsDo) {
  for (uint32_t w = 0; w < 65536; ++w) {
    const float f = decodeF16(uint16_t(w));
    if (f == f) {
      EXPECT_EQ(ni::asBits(ni::f16ToFloat(w)), ni::asBits(f)) << w;
    }
  }
  std::mt19937 random(2);
  for (int i = 0; i < 200000; ++i) {
    const float f = ni::asFloat(uint32_t(random()));
    if (f != f)
      continue;
    EXPECT_EQ(ni::packBf16(f, -f), roundToBf16(f) | uint32_t(roundToBf16(-f)) << 16) << f;
    EXPECT_EQ(ni::floatToF16(f), roundToF16(f)) << f;
  }
}

TEST(Numbers, FmaOfBf16RoundsOnce) {
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) {
    // Exponents close together, so that the sum is exact in long double.
    const auto word = [&] { return uint32_t(random() & 0x80ff) | (120 + random() % 12) << 7; };
    const uint32_t a = word(), b = word(), c = word();
    const long double exact = static_cast<long double>(decodeBf16(uint16_t(a))) * decodeBf16(uint16_t(b)) + decodeBf16(uint16_t(c));
    const uint32_t got = ni::fmaBf16x2(a | a << 16, b | b << 16, c | c << 16);
    ASSERT_EQ(got & 0xffff, got >> 16);
    const long double y = decodeBf16(uint16_t(got));
    int exponent;
    std::frexp(exact, &exponent);
    EXPECT_LE(std::fabs(y - exact), std::ldexp(0.5L, exponent - 8)) << a << " " << b << " " << c;
  }
}

TEST(Numbers, FmaOfBinary16RoundsOnce) {
  std::mt19937 random(5);
  for (int i = 0; i < 200000; ++i) {
    const auto word = [&] { return uint32_t(random() & 0xffff); };
    const uint32_t a = word(), b = word(), c = word();
    const float x = decodeF16(uint16_t(a)), y = decodeF16(uint16_t(b)), z = decodeF16(uint16_t(c));
    const uint32_t got = ni::fmaF16x2(a | a << 16, b | b << 16, c | c << 16);
    ASSERT_EQ(got & 0xffff, got >> 16);
    if (!std::isfinite(x) || !std::isfinite(y) || !std::isfinite(z))
      continue;
    // In units of 2^-48 every operand is an integer of at most 80 bits.
    const __int128 exact = static_cast<__int128>(std::ldexp(double(x) * double(y), 48)) + static_cast<__int128>(std::ldexp(double(z), 48));
    const float r = decodeF16(uint16_t(got));
    const __int128 size = exact < 0 ? -exact : exact;
    if (size >= static_cast<__int128>(65520) << 48) {
      EXPECT_TRUE(std::isinf(r)) << a << " " << b << " " << c;
      continue;
    }
    const auto distance = [&](uint32_t w) {
      const __int128 e = static_cast<__int128>(std::ldexp(double(decodeF16(uint16_t(w))), 48)) - exact;
      return e < 0 ? -e : e;
    };
    const __int128 here = distance(got & 0xffff);
    for (uint32_t next : {(got & 0xffff) + 1, (got & 0xffff) - 1}) {
      if ((next & 0x7fff) >= 0x7c00 || (next ^ got) & 0x8000)
        continue;
      EXPECT_TRUE(here < distance(next) || (here == distance(next) && got % 2 == 0)) << a << " " << b << " " << c;
    }
  }
  EXPECT_EQ(ni::packF16(1.0f, 65504.0f), 0x7bff3c00u);
}

TEST(Blocks, AllBlocksRunAndSeeTheirIndex) {
  uint32_t seen[7] = {};
  for (auto order : {emulator::Order::Forward, emulator::Order::Reverse, emulator::Order::Random}) {
    std::memset(seen, 0, sizeof seen);
    emulator::Options options;
    options.order = order;
    const auto outcome = run(64, [&] { seen[ni::blockX()] += ni::gridX(); }, 0, {}, options, 7);
    ASSERT_EQ(outcome.message, "");
    for (uint32_t s : seen)
      EXPECT_EQ(s, 64u * 7);
  }
}

TEST(Copies, ArriveAtTheirWait) {
  alignas(16) uint32_t source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  uint32_t early = 0, first = 0, second = 0, zero = 1;
  const auto outcome = run(
      32,
      [&] {
        auto *shared = reinterpret_cast<uint32_t *>(ni::host::sharedMemory(64));
        if (ni::threadIndex() != 0)
          return;
        ni::copyAsync(shared, source);
        ni::copyAsyncCommit();
        ni::copyAsync(shared + 4, source + 4);
        ni::copyAsync(shared + 8, nullptr, false);
        ni::copyAsyncCommit();
        early = shared[0]; // a plain read, unchecked: what a racing reader would see
        ni::copyAsyncWait<1>();
        first = ni::sharedLoad(shared + 3);
        second = shared[4];
        ni::copyAsyncWait<0>();
        zero = ni::sharedLoad(shared + 8);
      },
      64, {{source, sizeof source, false, "source"}});
  ASSERT_EQ(outcome.message, "");
  EXPECT_EQ(early, 0xffffffffu);
  EXPECT_EQ(first, 4u);
  EXPECT_EQ(second, 0xffffffffu);
  EXPECT_EQ(zero, 0u);
}

} // namespace
