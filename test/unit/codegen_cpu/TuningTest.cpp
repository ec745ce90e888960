// Choices of linear kernels: what each may change, the requests they belong to, the file that keeps them, and timing.
#include "test/unit/codegen_cpu/Harness.h"

#include "codegen/cpu/Measure.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <cstring>

namespace ninfer::test {
namespace {

constexpr int64_t kN = 200, kK = 192, kMost = 200; ///< 7 panels, the last one short

/// Gate and up rows of one swiglu, or one linear map; `rows` 1, or up to that many.
std::string kernelText(const Weight &gate, const Weight *up, int64_t rows) {
  const std::string r = rows == 1 ? "1" : "?", x = "tensor<" + r + "x" + std::to_string(kK) + "xf32>",
                    y = "tensor<" + r + "x" + std::to_string(kN) + "xf32>";
  const int64_t granule = rows == 1 ? 8 : 16; // few outputs: Tiling.h
  const std::string types = x + ", " + gate.type() + " -> " + y;
  std::string text = "ninfer.kernel @k(%x: " + x + ", %g: " + gate.type() + (up ? ", %u: " + up->type() : "") +
                     ") attributes {family = \"linear_a16\", profile = \"a16\", rows = " + std::to_string(rows) +
                     (rows == 1 ? "" : ", dynamic_rows") + ", tiles_const = " + std::to_string((kN + granule - 1) / granule) +
                     ", tiles_per_row = 0} {\n  %a = ninfer.linear %x, %g policy<A16Only> : " + types + "\n";
  if (!up)
    return text + "  ninfer.yield %a : " + y + "\n}\n";
  return text + "  %b = ninfer.linear %x, %u policy<A16Only> : " + types + "\n  %s = ninfer.swiglu %a, %b : " + y +
         "\n  ninfer.yield %s : " + y + "\n}\n";
}

/// Swiglu kernels of one module, one per choice: compiled once, run for several numbers of rows.
struct Variants {
  Variants(const std::string &target, const std::vector<CpuTuning> &tunings, int64_t most)
      : gate(Format::Q4G64_F16S, {kN, kK}, 1), up(Format::Q4G64_F16S, {kN, kK}, 2), most(most) {
    std::string text;
    std::map<std::string, CpuTuning> table;
    for (size_t i = 0; i < tunings.size(); ++i) {
      std::string one = kernelText(gate, &up, most);
      one.replace(one.find("@k("), 2, "@k" + std::to_string(i));
      text += one;
      table["k" + std::to_string(i)] = tunings[i];
    }
    compiled = Compiled::fromText(text, target, table);
  }
  std::vector<float> run(size_t variant, int64_t rows) {
    auto x = bufferOf(randomFloats(size_t(rows * kK), 3));
    auto y = floatBuffer(size_t(rows * kN));
    std::vector<void *> args = {x->as<void>()};
    gate.addPointers(args);
    up.addPointers(args);
    args.push_back(y->as<void>());
    const int64_t granule = most == 1 ? 8 : 16;
    compiled->run("k" + std::to_string(variant), args, {y.get()}, rows, 0, (kN + granule - 1) / granule, 3);
    return {y->as<float>(), y->as<float>() + rows * kN};
  }

  Weight gate, up;
  int64_t most;
  std::unique_ptr<Compiled> compiled;
};

TEST(Tuning, ChoicesKeepTheBits) {
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    Variants one(target, {{}, {.streamBlock = 16}, {.streamBlock = 64}, {.streamBlock = 1024}}, 1);
    ASSERT_TRUE(one.compiled);
    for (size_t variant : {1, 2, 3})
      EXPECT_EQ(one.run(variant, 1), one.run(0, 1)) << variant;
    Variants many(target, {{}, {.outputBlock = 32}, {.outputBlock = 128}, {.rowBlock = 128}, {.rowBlock = 48}}, kMost);
    ASSERT_TRUE(many.compiled);
    for (int64_t rows : {5, 40, 100, 200}) {
      const auto standard = many.run(0, rows);
      for (size_t variant : {1, 2, 3})
        if (variant != 3 || rows <= 128) // in one block either way
          EXPECT_EQ(many.run(variant, rows), standard) << variant << " " << rows;
      // Shorter blocks may end in one of few rows, whose sums have another order: K rounded additions of each output.
      const auto blocks = many.run(4, rows);
      ASSERT_EQ(blocks.size(), standard.size());
      double largest = 0;
      for (float value : standard)
        largest = std::max(largest, std::fabs(double(value)));
      for (size_t i = 0; i < blocks.size(); ++i)
        ASSERT_NEAR(blocks[i], standard[i], largest * kK * std::ldexp(1.0, -23)) << i;
    }
  }
}

TEST(Tuning, ChoicesReachTheCode) {
  // Each choice makes other code of the kernel it is for.
  Weight gate(Format::W8G32_F16S, {kN, kK}, 1);
  auto elf = [&](int64_t rows, const CpuTuning &tuning) {
    CpuCodegenOptions options;
    options.tuning["k"] = tuning;
    auto object = compileText(kernelText(gate, nullptr, rows), *resolveCpuTarget("x86-64-v3"), options);
    EXPECT_TRUE(object.ok());
    return object.ok() ? object->elf : std::vector<char>();
  };
  EXPECT_NE(elf(1, {.streamBlock = 64}), elf(1, {}));
  EXPECT_NE(elf(kMost, {.outputBlock = 128}), elf(kMost, {}));
  EXPECT_NE(elf(kMost, {.rowBlock = 64}), elf(kMost, {}));
  EXPECT_EQ(elf(1, {.rowBlock = 64, .outputBlock = 128}), elf(1, {}));
  EXPECT_EQ(elf(kMost, {.streamBlock = 64}), elf(kMost, {}));
}

/// The request of the only kernel of `text`.
std::optional<cpu::TuningRequest> requestOf(const std::string &text, const std::string &target) {
  mlir::DialectRegistry registry;
  registry.insert<NinferDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return std::nullopt;
  return cpu::tuningRequest(*module->getOps<KernelOp>().begin(), *resolveCpuTarget(target));
}

TEST(Tuning, RequestsAreKeyedByEverythingThatDecides) {
  Weight q4(Format::Q4G64_F16S, {kN, kK}, 1), q5(Format::Q5G64_F16S, {kN, kK}, 1), wide(Format::Q4G64_F16S, {kN, 2 * kK}, 1);
  const auto base = requestOf(kernelText(q4, nullptr, 1), "x86-64-v3");
  ASSERT_TRUE(base);
  EXPECT_EQ(base->digest.size(), 32u);
  EXPECT_EQ(base->variants.front(), CpuTuning());
  EXPECT_EQ(requestOf(kernelText(q4, nullptr, 1), "x86-64-v3")->digest, base->digest);
  EXPECT_NE(requestOf(kernelText(q4, nullptr, 1), "x86-64-v4")->digest, base->digest);
  EXPECT_NE(requestOf(kernelText(q4, &q4, 1), "x86-64-v3")->digest, base->digest);
  EXPECT_NE(requestOf(kernelText(q4, nullptr, 2), "x86-64-v3")->digest, base->digest);
  EXPECT_NE(requestOf(kernelText(q5, nullptr, 1), "x86-64-v3")->digest, base->digest);
  for (const CpuTuning &tuning : base->variants)
    EXPECT_EQ(tuning.rowBlock, CpuTuning().rowBlock); // one row has nothing to block
  const auto many = requestOf(kernelText(q4, nullptr, 64), "x86-64-v3");
  for (size_t i = 0; i < many->variants.size(); ++i) {
    EXPECT_EQ(many->variants[i].streamBlock, 0);
    EXPECT_EQ(many->variants[i].rowBlock, CpuTuning().rowBlock); // 64 rows are one block whatever it is
    for (size_t j = 0; j < i; ++j)
      EXPECT_FALSE(many->variants[i] == many->variants[j]) << i << " " << j;
  }
  EXPECT_FALSE(requestOf("ninfer.kernel @k(%a: tensor<1x64xf32>, %b: tensor<1x64xf32>) attributes {family = \"add\", profile = "
                         "\"f32\", rows = 1, tiles_const = 1, tiles_per_row = 0} {\n  %0 = ninfer.add %a, %b : "
                         "tensor<1x64xf32>\n  ninfer.yield %0 : tensor<1x64xf32>\n}\n",
                         "x86-64-v3"));
}

TEST(Tuning, KernelsCanBeTimed) {
  Weight gate(Format::Q4G64_F16S, {kN, kK}, 1), up(Format::Q4G64_F16S, {kN, kK}, 2);
  mlir::DialectRegistry registry;
  registry.insert<NinferDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  const CpuTarget native = *resolveCpuTarget("native");
  cpu::MeasureOptions quick, endless;
  quick.seconds = 0.01;
  quick.threads = 2;
  endless.seconds = 1000;
  endless.cancelled = [] { return true; };
  for (int64_t rows : {int64_t(1), int64_t(40)}) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(kernelText(gate, &up, rows), &context);
    ASSERT_TRUE(module);
    KernelOp kernel = *module->getOps<KernelOp>().begin();
    cpu::TuningRequest request = *cpu::tuningRequest(kernel, native);
    request.variants.resize(2);
    auto measured = cpu::measureKernel(kernel, native, request, quick);
    ASSERT_TRUE(measured.ok()) << measured.error().render();
    EXPECT_GT(measured->bestNs, 0);
    EXPECT_LE(measured->bestNs, measured->defaultNs);
    EXPECT_GE(measured->rounds, 5u);
    EXPECT_TRUE(measured->best == request.variants[0] || measured->best == request.variants[1]);
    EXPECT_EQ(kernel.getSymName(), "k"); // unchanged
    auto stopped = cpu::measureKernel(kernel, native, request, endless);
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().code, "NB0540");
  }
}

const std::string kDigest = "0123456789abcdef0123456789abcdef", kOther = "ff23456789abcdef0123456789abcdef";

TEST(TuningFile, RendersInOneOrderAndReadsBack) {
  TuningTable table;
  table.add({"cpu:znver4", "b", kDigest, {.streamBlock = 64}, "3.0 us"});
  table.add({"cpu:x86-64-v3", "c", kDigest, {.rowBlock = 64, .outputBlock = 256}, ""});
  table.add({"cpu:znver4", "a", kOther, {}, ""});
  const std::string expected = "cpu:x86-64-v3 c " + kDigest + " row_block=64 output_block=256 stream_block=0\ncpu:znver4 a " + kOther +
                               " row_block=512 output_block=64 stream_block=0\ncpu:znver4 b " + kDigest +
                               " row_block=512 output_block=64 stream_block=64";
  EXPECT_EQ(table.renderChoices(), expected + "\n");
  EXPECT_EQ(table.render(), "ninfer-tuning 1\n# target, kernel, digest of its request, choices (docs/tuning.md)\n" + expected + " # 3.0 us\n");
  auto back = TuningTable::parse(table.render(), "t");
  ASSERT_TRUE(back.ok()) << back.error().render();
  EXPECT_EQ(back->renderChoices(), expected + "\n");
  EXPECT_EQ(back->render(), table.render());
  EXPECT_EQ(back->find("cpu:znver4", kDigest)->tuning.streamBlock, 64);
  EXPECT_EQ(back->find("cpu:x86-64-v4", kDigest), nullptr);
  EXPECT_EQ(back->find("cpu:x86-64-v3", kOther), nullptr);
}

TEST(TuningFile, BrokenFilesAreRefusedByLineAndRule) {
  const std::string head = "ninfer-tuning 1\n", good = "cpu:znver4 k " + kDigest + " row_block=64 output_block=64 stream_block=0\n";
  ASSERT_TRUE(TuningTable::parse(head + "\n# note\n" + good, "t").ok());
  struct Case {
    std::string text, message;
  };
  for (const Case &c : {Case{"", "line 1: expected 'ninfer-tuning 1'"}, Case{"ninfer-tuning 2\n" + good, "line 1"},
                        Case{head + good + good, "line 3: a second entry for k on cpu:znver4"},
                        Case{head + "cpu:znver4 k 0123 row_block=64 output_block=64 stream_block=0\n", "'0123' is no digest of 32"},
                        Case{head + "cpu:znver4 k " + kDigest + " row_block=64 output_block=64\n", "3 choices, got 5 words"},
                        Case{head + "cpu:znver4 k " + kDigest + " row_block=64 output_block=64 stream=0\n", "unknown choice 'stream'"},
                        Case{head + "cpu:znver4 k " + kDigest + " row_block=64 row_block=64 stream_block=0\n", "'row_block' is given twice"},
                        Case{head + "cpu:znver4 k " + kDigest + " row_block=63 output_block=64 stream_block=0\n",
                             "row_block: expected a multiple of 16 from 16 to 4096, got '63'"},
                        Case{head + "cpu:znver4 k " + kDigest + " row_block=64 output_block=48 stream_block=0\n", "multiple of 32 from 32 to 4096, got '48'"},
                        Case{head + "cpu:znver4 k " + kDigest + " row_block= output_block=64 stream_block=0\n", "got ''"},
                        Case{head + "cpu:znver4 k " + kDigest + " row_block=64 output_block=64 stream_block=-16\n", "got '-16'"}}) {
    auto table = TuningTable::parse(c.text, "file.tuning");
    ASSERT_FALSE(table.ok()) << c.text;
    EXPECT_EQ(table.error().code, "NB0541");
    EXPECT_EQ(table.error().kind, ErrorKind::BadFile);
    EXPECT_NE(table.error().message.find("file.tuning: line "), std::string::npos);
    EXPECT_NE(table.error().message.find(c.message), std::string::npos) << table.error().message;
  }
}

} // namespace
} // namespace ninfer::test
