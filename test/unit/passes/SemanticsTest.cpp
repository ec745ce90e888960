// The passes do not change what a model computes: logits and tapped values of prefill and decode steps before and
// after them, in double precision, are equal to the last bit, since no pass reorders arithmetic.
#include "DecoderText.h"
#include "Interpreter.h"
#include "Program.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace ninfer {
namespace {

using test::DecoderShape;
using test::Interpreter;
using test::Program;

/// Prefill of 5 and of 3 rows, then two decode steps.
std::vector<std::vector<double>> conversation(ModuleOp module, llvm::StringRef prefill,
                                              llvm::StringRef decode) {
  Interpreter interpreter(module);
  return {interpreter.call(prefill, {1, 7, 3, 39, 0}, 0), interpreter.call(prefill, {2, 2, 5}, 5),
          interpreter.call(decode, {11}, 8), interpreter.call(decode, {4}, 9)};
}

class Semantics : public testing::TestWithParam<DecoderShape> {};

TEST_P(Semantics, PassesKeepTheLogits) {
  const std::string text = test::decoderText(GetParam());
  Program original(text);
  auto expected = conversation(*original.module, "text", "text");
  ASSERT_NE(expected[0], expected[1]) << "the oracle does not see its input";

  using Build = void (*)(OpPassManager &);
  const std::pair<const char *, Build> stages[] = {
      {"unfused",
       [](OpPassManager &pm) {
         pm.addPass(createSplitPhasesPass());
         pm.addPass(createSpecializeShapesPass());
       }},
      {"fused",
       [](OpPassManager &pm) {
         pm.addPass(createSplitPhasesPass());
         pm.addPass(createSpecializeShapesPass());
         pm.addPass(createFusePass());
       }},
      {"cpu plan", [](OpPassManager &pm) { buildPlanPipeline(pm, {.target = "cpu:x86-64-v3"}); }},
      {"reference plan", [](OpPassManager &pm) { buildPlanPipeline(pm, {.target = "reference"}); }},
  };
  for (auto [name, build] : stages) {
    Program program(text);
    ASSERT_TRUE(program.run(build)) << name;
    EXPECT_EQ(conversation(*program.module, "text.prefill", "text.decode"), expected) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Semantics,
    testing::Values(DecoderShape{}, DecoderShape{.layers = 2, .headNorms = true},
                    DecoderShape{.layers = 2, .mixedFormats = true},
                    DecoderShape{.layers = 2, .headNorms = true, .taps = DecoderShape::LayerTaps},
                    DecoderShape{.layers = 2, .headNorms = true, .taps = DecoderShape::AllTaps},
                    DecoderShape{.mixedFormats = true, .normFirst = true, .taps = DecoderShape::AllTaps},
                    DecoderShape{
                        .layers = 2, .headNorms = true, .mixedFormats = true, .normFirst = true}));

} // namespace
} // namespace ninfer
