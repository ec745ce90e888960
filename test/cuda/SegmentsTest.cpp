// Several linear maps of the same rows in one launch: each against the oracle of a single one.
#include "test/cuda/Keys.h"
#include "test/cuda/LinearOracle.h"

#include <gtest/gtest.h>

namespace ninfer::cuda {
namespace {

class Segments : public testing::TestWithParam<ni::LinearSegmentsSpec> {};

/// Different output counts, whole panels and ragged ones, one with fewer panels than a block takes.
uint32_t outputsOf(ni::Format format, uint32_t segment) {
  constexpr uint32_t kCounts[] = {40, 16, 1, 100, 33, 24, 15, 64};
  return format == ni::Format::Nvfp4 ? 128 : kCounts[segment]; // NVFP4 stores rows in tiles of 128
}

TEST_P(Segments, EachAgreesWithDoubleProduct) {
  const ni::LinearSegmentsSpec s = GetParam();
  const KernelText text = segmentsKernel(s, 0);
  const std::vector<emulator::Options> orders = threadOrders();
  for (uint32_t rows : s.kind[0].rows > 1 ? std::vector<uint32_t>{1, s.kind[0].rows} : std::vector<uint32_t>{1}) {
    std::vector<LinearProblem> problems;
    std::vector<uint32_t> n;
    for (uint32_t i = 0; i < s.segments; ++i) {
      const ni::LinearSpec &kind = s.kind[s.kindOf[i]];
      n.push_back(outputsOf(kind.format, i));
      problems.emplace_back(kind.format, n[i], kind.k, rows, kind.prologue, kind.epilogue, kind.operands);
      problems[i].x = problems[0].x;
      problems[i].norm = problems[0].norm;
    }
    std::vector<Array> weights, outs;
    std::vector<std::vector<Expected>> expected;
    for (uint32_t i = 0; i < s.segments; ++i) {
      weights.emplace_back(packedByDefinition(problems[i].weight), "weight");
      outs.emplace_back(size_t(rows) * n[i] * 2, true, "out");
      expected.push_back(problems[i].expected(s.kind[s.kindOf[i]].warpsK));
    }
    Array x(problems[0].x, "x"), norm(problems[0].norm, "norm");
    for (const emulator::Options &mode : orders) {
      Arguments args;
      for (uint32_t i = 0; i < ni::kMaxSegments; ++i)
        i < s.segments ? args.pointer(weights[i]) : args.null();
      for (uint32_t i = 0; i < ni::kMaxSegments; ++i) {
        if (i < s.segments)
          outs[i].poison();
        i < s.segments ? args.pointer(outs[i]) : args.null();
      }
      for (uint32_t i = 0; i < ni::kMaxSegments; ++i)
        args.u32(i < s.segments ? n[i] : 0);
      args.pointer(x);
      s.kind[0].prologue != ni::Prologue::None ? args.pointer(norm) : args.null();
      args.u32(rows).f32(kLinearEps);
      ASSERT_EQ(launch(text, {ni::segmentsBlocks(s, n.data())}, args, mode), "") << describe(mode);
      for (uint32_t i = 0; i < s.segments; ++i)
        ASSERT_EQ(compareBf16(expected[i], outs[i].as<uint16_t>()), "") << "segment " << i << ", " << describe(mode);
    }
  }
}

std::string name(const testing::TestParamInfo<ni::LinearSegmentsSpec> &info) { return segmentsKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, Segments, testing::ValuesIn(keys::segments()), name);

} // namespace
} // namespace ninfer::cuda
