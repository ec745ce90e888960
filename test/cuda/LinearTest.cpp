// F1 and F2: every key against a double product over the represented values of artifact/layouts.
#include "test/cuda/Keys.h"
#include "test/cuda/LinearOracle.h"

#include <gtest/gtest.h>

namespace ninfer::cuda {
namespace {

struct Memory {
  Array packed, up, x, norm, residual, out;
  std::vector<Expected> expected;
  bool floats;

  Memory(const LinearProblem &p, ni::OutputType output, uint32_t sums)
      : packed(packedByDefinition(p.weight), "weight"), x(p.x, "x"), norm(p.norm, "norm"), residual(p.residual, "residual"),
        out(p.residual.size() * (output == ni::OutputType::Float ? 4 : 2), true, "out"), expected(p.expected(sums)),
        floats(output == ni::OutputType::Float) {
    if (p.epilogue == ni::Epilogue::Swiglu)
      up = Array(packedByDefinition(p.up), "up");
  }
  std::string compare() {
    return floats ? compareFloat(expected, out.as<float>()) : compareBf16(expected, out.as<uint16_t>());
  }
};

void checkLinear(const ni::LinearSpec &s, uint32_t n, uint32_t rows, uint32_t blocks,
                 const std::vector<emulator::Options> &modes) {
  const LinearProblem problem(s.format, n, s.k, rows, s.prologue, s.epilogue, s.operands);
  Memory m(problem, s.output, s.warpsK);
  const KernelText text = linearKernel(s, 0);
  for (const emulator::Options &mode : modes) {
    m.out.poison();
    Arguments args;
    args.pointer(m.packed);
    s.epilogue == ni::Epilogue::Swiglu ? args.pointer(m.up) : args.null();
    args.pointer(m.x);
    s.prologue != ni::Prologue::None ? args.pointer(m.norm) : args.null();
    s.epilogue == ni::Epilogue::Residual ? args.pointer(m.residual) : args.null();
    args.pointer(m.out).u32(n).u32(rows).f32(kLinearEps);
    const std::string where = text.name + ", n " + std::to_string(n) + ", rows " + std::to_string(rows) + ", " +
                              std::to_string(blocks) + " blocks, " + describe(mode);
    ASSERT_EQ(launch(text, {blocks}, args, mode), "") << where;
    ASSERT_EQ(m.compare(), "") << where;
  }
}

/// Row r of kind r % 7: 1e30; 1e-30; both, in one block and in different ones; subnormal; zero; the rest as they were.
void fillWithExtremes(std::vector<uint16_t> &x, uint32_t rows, uint32_t k) {
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t i = 0; i < k; ++i) {
      uint16_t &word = x[size_t(r) * k + i];
      const double v = bf16(word);
      const double factors[] = {1e30, 1e-30, i % 3 ? 1e-30 : 1e30, i / 128 % 2 ? 1e30 : 1e-30, 0x1p-128, 0, 1};
      word = toBf16(v * factors[r % 7]);
    }
}

class Linear : public testing::TestWithParam<ni::LinearSpec> {};

TEST_P(Linear, AgreesWithDoubleProduct) {
  const ni::LinearSpec s = GetParam();
  // NVFP4 stores rows in tiles of 128.
  const std::vector<uint32_t> counts =
      s.format == ni::Format::Nvfp4 ? std::vector<uint32_t>{128} : std::vector<uint32_t>{1, 15, 16, 17, 48 * s.warpsN + 5};
  const std::vector<emulator::Options> orders = threadOrders();
  for (uint32_t n : counts)
    checkLinear(s, n, s.rows, ni::linearBlocks(s, n), {orders[n % orders.size()]});
  checkLinear(s, counts.back(), 1, ni::linearBlocks(s, counts.back()), {orders[0]});
  checkLinear(s, counts.back(), s.rows, 2, orders); // a block works on several panels
}

/// No output count is built in: around powers of two and at model sizes every row is right, and NaN remains nowhere.
TEST(LinearCounts, NoOutputCountIsBuiltIn) {
  for (ni::Format f : {ni::Format::W8, ni::Format::Q4})
    for (uint32_t n : {255u, 2047u, 2048u, 2049u, 5120u})
      for (const ni::LinearSpec &s : keys::linear())
        if (s.format == f && s.k == 72)
          checkLinear(s, n, 1, n % 2 ? 7 : ni::linearBlocks(s, n), {threadOrders()[n % 3]});
}

/// The residual may be the output: what a decoder's residual stream does.
TEST(LinearCounts, ResidualInPlace) {
  for (const ni::LinearSpec &s : keys::linear()) {
    if (s.format != ni::Format::Q4 || s.epilogue != ni::Epilogue::Residual || s.output != ni::OutputType::Bf16)
      continue;
    const LinearProblem problem(s.format, 40, s.k, s.rows, s.prologue, s.epilogue);
    Memory m(problem, s.output, s.warpsK);
    Array stream(problem.residual, "stream", true);
    Arguments args;
    args.pointer(m.packed).null().pointer(m.x).null().pointer(stream).pointer(stream).u32(40).u32(s.rows).f32(kLinearEps);
    ASSERT_EQ(launch(linearKernel(s, 0), {ni::linearBlocks(s, 40)}, args), "");
    ASSERT_EQ(compareBf16(m.expected, stream.as<uint16_t>()), "") << linearKernel(s, 0).name;
  }
}

class Gemm : public testing::TestWithParam<ni::GemmSpec> {};

/// With a group the kernel is told `group` times the rows.
void checkGemm(const ni::GemmSpec &s, uint32_t n, uint32_t rows, const std::vector<emulator::Options> &modes, uint32_t group = 1) {
  const LinearProblem problem(s.format, n, s.k, rows, ni::Prologue::None, s.epilogue, s.operands);
  Memory m(problem, s.output, 1);
  const KernelText text = group == 1 ? gemmKernel(s, 0) : groupedGemmKernel(s, group, 0);
  for (const emulator::Options &mode : modes) {
    m.out.poison();
    Arguments args;
    args.pointer(m.packed);
    s.epilogue == ni::Epilogue::Swiglu ? args.pointer(m.up) : args.null();
    args.pointer(m.x);
    s.epilogue == ni::Epilogue::Residual ? args.pointer(m.residual) : args.null();
    args.pointer(m.out).u32(n).u32(rows * group);
    const std::string where = text.name + ", n " + std::to_string(n) + ", rows " + std::to_string(rows) + ", " + describe(mode);
    ASSERT_EQ(launch(text, {ni::gemmBlocksX(s, n), ni::gemmBlocksY(s, rows)}, args, mode), "") << where;
    ASSERT_EQ(m.compare(), "") << where;
  }
}

TEST_P(Gemm, AgreesWithDoubleProduct) {
  const ni::GemmSpec s = GetParam();
  const std::vector<emulator::Options> modes = allModes();
  const uint32_t tile = ni::gemmRows(s);
  if (s.format == ni::Format::Nvfp4) {
    checkGemm(s, 128, tile + 1, modes);
    checkGemm(s, 256, 17, {modes[2]});
    return;
  }
  checkGemm(s, 1, 1, {modes[0]});
  checkGemm(s, ni::gemmOutputs(s), tile, {modes[1]});
  checkGemm(s, 35, 17, modes);
  checkGemm(s, ni::gemmOutputs(s) + 18, tile + 1, {modes[5]}); // two by two blocks
}

class GroupedGemm : public testing::TestWithParam<keys::GroupedGemm> {};

TEST_P(GroupedGemm, RowsOfTheCallSideBySide) {
  const keys::GroupedGemm key = GetParam();
  checkGemm(key.spec, 35, 17, threadOrders(), key.group);
  checkGemm(key.spec, 16, ni::gemmRows(key.spec) + 1, {allModes()[5]}, key.group);
}
INSTANTIATE_TEST_SUITE_P(Keys, GroupedGemm, testing::ValuesIn(keys::groupedGemm()), [](const auto &info) {
  return groupedGemmKernel(info.param.spec, info.param.group, 0).name;
});

// binary16 operands: rows of very large, very small, mixed and subnormal numbers, each with the bound that the scaling per 128
// of a row gives. Without it every one of them would be infinity, zero or both.
class HalfLinear : public testing::TestWithParam<ni::LinearSpec> {};
class HalfGemm : public testing::TestWithParam<ni::GemmSpec> {};

TEST_P(HalfLinear, RowsOfAnyMagnitude) {
  const ni::LinearSpec s = GetParam();
  const uint32_t n = s.format == ni::Format::Nvfp4 ? 128 : 37;
  LinearProblem problem(s.format, n, s.k, s.rows, s.prologue, s.epilogue, s.operands);
  fillWithExtremes(problem.x, s.rows, s.k);
  std::fill(problem.residual.begin(), problem.residual.end(), uint16_t(0)); // else it hides small results
  Memory m(problem, s.output, s.warpsK);
  Arguments args;
  args.pointer(m.packed).null().pointer(m.x).null();
  s.epilogue == ni::Epilogue::Residual ? args.pointer(m.residual) : args.null();
  args.pointer(m.out).u32(n).u32(s.rows).f32(kLinearEps);
  ASSERT_EQ(launch(linearKernel(s, 0), {2}, args), "");
  ASSERT_EQ(m.compare(), "");
}
TEST_P(HalfGemm, RowsOfAnyMagnitude) {
  const ni::GemmSpec s = GetParam();
  const uint32_t n = s.format == ni::Format::Nvfp4 ? 128 : 37, rows = 21;
  LinearProblem problem(s.format, n, s.k, rows, ni::Prologue::None, s.epilogue, s.operands);
  fillWithExtremes(problem.x, rows, s.k);
  Memory m(problem, s.output, 1);
  Arguments args;
  args.pointer(m.packed).null().pointer(m.x).null().pointer(m.out).u32(n).u32(rows);
  ASSERT_EQ(launch(gemmKernel(s, 0), {ni::gemmBlocksX(s, n), ni::gemmBlocksY(s, rows)}, args), "");
  ASSERT_EQ(m.compare(), "");
}

/// Of the keys: binary16 operands, and results in which a magnitude shows.
template <typename Spec>
std::vector<Spec> halfKeys(std::vector<Spec> keys) {
  std::erase_if(keys, [](const Spec &s) {
    if constexpr (requires { s.prologue; })
      if (s.prologue != ni::Prologue::None)
        return true;
    return s.operands != ni::Operands::F16 || s.epilogue == ni::Epilogue::Swiglu;
  });
  return keys;
}

std::string linearName(const testing::TestParamInfo<ni::LinearSpec> &info) { return linearKernel(info.param, 0).name; }
std::string gemmName(const testing::TestParamInfo<ni::GemmSpec> &info) { return gemmKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, Linear, testing::ValuesIn(keys::linear()), linearName);
INSTANTIATE_TEST_SUITE_P(Keys, Gemm, testing::ValuesIn(keys::gemm()), gemmName);

INSTANTIATE_TEST_SUITE_P(Keys, HalfLinear, testing::ValuesIn(halfKeys(keys::linear())), linearName);
INSTANTIATE_TEST_SUITE_P(Keys, HalfGemm, testing::ValuesIn(halfKeys(keys::gemm())), gemmName);

} // namespace
} // namespace ninfer::cuda
