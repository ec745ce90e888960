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
