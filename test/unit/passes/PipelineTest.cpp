// Properties of the whole pipeline: kernels per layer, determinism, memory.
#include "DecoderText.h"
#include "Program.h"

#include <gtest/gtest.h>

#include <set>

using namespace mlir;

namespace ninfer {
namespace {

using test::DecoderShape;
using test::decoderText;
using test::Program;

TEST(Pipeline, DistinctKernelsDoNotGrowWithLayers) {
  for (const char *target : {"cpu:x86-64-v3", "reference"})
    for (bool headNorms : {false, true}) {
      std::vector<std::string> one;
      for (int layers : {1, 2, 9}) {
        Program program(decoderText({.layers = layers, .headNorms = headNorms}));
        ASSERT_TRUE(program.plan(target));
        if (layers == 1)
          one = program.kernelNames();
        EXPECT_EQ(program.kernelNames(), one) << target << ", " << layers << " layers";
      }
      EXPECT_FALSE(one.empty());
    }
}

TEST(Pipeline, LaunchesPerLayer) {
  auto launches = [](int layers, const char *target) {
    Program program(decoderText({.layers = layers, .headNorms = true}));
    EXPECT_TRUE(program.plan(target));
    auto launched = program.module->lookupSymbol<func::FuncOp>("text.decode").getOps<LaunchOp>();
    return std::distance(launched.begin(), launched.end());
  };
  // qkv, rope_append, attention, output, gate_up, down; embedding and head.
  EXPECT_EQ(launches(1, "cpu:x86-64-v3"), 6 + 2);
  EXPECT_EQ(launches(3, "cpu:x86-64-v3"), 3 * 6 + 2);
  // 2 norms, 7 linears, 2 head norms, 2 ropes, append, attention, swiglu, 2 sums; embedding, norm,
  // head.
  EXPECT_EQ(launches(1, "reference"), 18 + 3);
}

TEST(Pipeline, SameInputSameText) {
  const std::string text = decoderText({.layers = 3, .headNorms = true, .mixedFormats = true});
  for (const char *target : {"cpu:x86-64-v3", "reference"}) {
    std::set<std::string> outputs;
    std::vector<std::unique_ptr<Program>> alive; // other addresses in every round
    for (int round = 0; round < 4; ++round) {
      alive.push_back(std::make_unique<Program>(text));
      ASSERT_TRUE(alive.back()->plan(target));
      outputs.insert(alive.back()->text());
    }
    EXPECT_EQ(outputs.size(), 1u) << target;
  }
}

TEST(Pipeline, AnUnfusedGraphHasCpuKernelsToo) {
  Program program(decoderText({.layers = 1, .headNorms = true, .mixedFormats = true}));
  ASSERT_TRUE(program.run([](OpPassManager &pm) {
    pm.addPass(createSplitPhasesPass());
    pm.addPass(createSpecializeShapesPass());
    pm.addPass(createAdmitKernelsPass());
    pm.addPass(createOutlineKernelsPass());
    pm.addPass(createPlanMemoryPass());
  }));
  for (const std::string &name : program.kernelNames())
    EXPECT_NE(name.substr(0, 4), "ref_");
}

TEST(Pipeline, ALongPrefillChunkOfOneRowIsDecode) {
  Program program(decoderText({.layers = 1, .chunk = 1}));
  ASSERT_TRUE(program.plan("cpu:x86-64-v3"));
  for (const std::string &name : program.kernelNames())
    EXPECT_EQ(name.find("to"), std::string::npos) << name << " has dynamic rows";
}

/// Owner of every arena byte, checked launch by launch: what a launch reads still belongs to the
/// value that wrote it. Knows nothing of lifetimes; a planner that frees too early lets another
/// value overwrite the bytes.
void expectReadsSeeTheirWriters(func::FuncOp function, int &overwritten) {
  const int64_t maxRows = function->getAttrOfType<IntegerAttr>(NinferDialect::kMaxRows).getInt();
  const int64_t arena = function->getAttrOfType<IntegerAttr>(NinferDialect::kArenaBytes).getInt();
  llvm::DenseMap<Value, std::pair<int64_t, int64_t>> place;
  std::vector<Value> owner(static_cast<size_t>(arena));
  auto write = [&](Value value, int64_t offset) {
    auto type = cast<RankedTensorType>(value.getType());
    int64_t bytes = 4 * (type.isDynamicDim(0) ? maxRows : type.getDimSize(0)) *
                    (type.getRank() == 2 ? type.getDimSize(1) : 1);
    EXPECT_EQ(offset % 64, 0);
    ASSERT_LE(offset + bytes, arena);
    place[value] = {offset, bytes};
    std::fill_n(owner.begin() + offset, bytes, value);
  };
  auto read = [&](Value value) {
    auto found = place.find(value);
    if (found == place.end())
      return; // a weight, a state or the position
    for (int64_t byte = 0; byte < found->second.second; ++byte)
      ASSERT_EQ(owner[static_cast<size_t>(found->second.first + byte)], value);
  };
  write(function.getArgument(0),
        function->getAttrOfType<IntegerAttr>(NinferDialect::kTokensOffset).getInt());
  for (Operation &op : function.getBody().front()) {
    Value over; // the queries of a CPU kernel that rotates them: the result may lie exactly there
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      ASSERT_TRUE(launch.getOffsets().has_value());
      if (launch.getKernel().starts_with("rope_append_") && place.lookup(launch.getInputs()[0]).first == (*launch.getOffsets())[0]) {
        over = launch.getInputs()[0];
        EXPECT_EQ(over.getType(), launch.getResult(0).getType());
        EXPECT_TRUE(over.hasOneUse());
        read(over);
        ++overwritten;
      }
      for (auto [result, offset] : llvm::zip_equal(launch.getOutputs(), *launch.getOffsets()))
        write(result, offset);
    }
    // After the writes: a result over an operand would show.
    for (Value operand : op.getOperands())
      if (operand != over)
        read(operand);
  }
}

TEST(Pipeline, ArenaKeepsWhatIsRead) {
  for (const char *target : {"cpu:x86-64-v3", "reference"})
    for (bool mixed : {false, true}) {
      Program program(decoderText({.layers = 3, .headNorms = true, .mixedFormats = mixed}));
      ASSERT_TRUE(program.plan(target));
      int overwritten = 0;
      for (const char *phase : {"text.decode", "text.prefill"})
        expectReadsSeeTheirWriters(program.module->lookupSymbol<func::FuncOp>(phase), overwritten);
      EXPECT_EQ(overwritten, std::string_view(target) == "reference" ? 0 : 6); // every layer of both
    }
}

TEST(Pipeline, ArenaDoesNotGrowWithLayers) {
  auto arena = [](int layers) {
    Program program(decoderText({.layers = layers}));
    EXPECT_TRUE(program.plan("cpu:x86-64-v3"));
    return program.module->lookupSymbol<func::FuncOp>("text.prefill")
        ->getAttrOfType<IntegerAttr>(NinferDialect::kArenaBytes)
        .getInt();
  };
  EXPECT_EQ(arena(12), arena(2));
}

} // namespace
} // namespace ninfer
