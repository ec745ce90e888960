// The decoder graph of a hand-made two-layer model: counts, wiring, attributes, refusals.
#include "models/graph/GraphBuilder.h"

#include "dialects/ninfer/NinferDialect.h"
#include "test/unit/graph/TinyModel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace ninfer;
using ninfer::testing::TinyModel;
using ninfer::testing::tinyModel;

namespace {

GraphOptions options() {
  GraphOptions options;
  options.maxContext = 128;
  options.prefillChunk = 16;
  return options;
}

template <typename OpT>
int count(mlir::ModuleOp module) {
  int found = 0;
  module->walk([&](OpT) { ++found; });
  return found;
}

std::string text(mlir::Operation *op) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  op->print(stream);
  return out;
}

/// Collects diagnostics instead of printing them.
struct Messages {
  explicit Messages(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          all += diagnostic.str() + "\n";
          return mlir::success();
        }) {}
  std::string all;
  mlir::ScopedDiagnosticHandler handler;
};

TEST(GraphBuilder, EveryOperationOfEveryLayer) {
  for (bool qkNorm : {false, true}) {
    TinyModel model = tinyModel(qkNorm);
    mlir::MLIRContext context;
    auto module = buildGraph(context, model.spec, model.directory, options());
    ASSERT_TRUE(module);
    EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
    const int layers = 2;
    EXPECT_EQ(count<EmbeddingOp>(*module), 1);
    EXPECT_EQ(count<RmsNormOp>(*module), 2 * layers + 1);
    EXPECT_EQ(count<HeadNormOp>(*module), qkNorm ? 2 * layers : 0);
    EXPECT_EQ(count<LinearOp>(*module), 7 * layers + 1);
    EXPECT_EQ(count<RopeOp>(*module), 2 * layers);
    EXPECT_EQ(count<KvAppendOp>(*module), layers);
    EXPECT_EQ(count<AttentionOp>(*module), layers);
    EXPECT_EQ(count<SwigluOp>(*module), layers);
    EXPECT_EQ(count<AddOp>(*module), 2 * layers);
    EXPECT_EQ(count<LastRowOp>(*module), 1);
    EXPECT_EQ(count<StateOp>(*module), layers + 1);
    EXPECT_EQ(count<ParameterOp>(*module), static_cast<int>(model.spec.parameters.size()));
    EXPECT_EQ(count<ParamOp>(*module), static_cast<int>(model.spec.parameters.size()));
    EXPECT_EQ(count<ObjectOp>(*module), static_cast<int>(model.directory.objects.size()));
  }
}

TEST(GraphBuilder, ObjectsWithoutAParameterStayOut) {
  TinyModel model = tinyModel(false);
  model.store("unused", {4, 128}, Format::BF16);
  ObjectEntry resource;
  resource.id = "tokenizer.json";
  resource.isTensor = false;
  model.directory.objects.push_back(resource);
  mlir::MLIRContext context;
  auto module = buildGraph(context, model.spec, model.directory, options());
  ASSERT_TRUE(module);
  EXPECT_EQ(count<ObjectOp>(*module), static_cast<int>(model.directory.objects.size()) - 2);
}

TEST(GraphBuilder, ModuleAttributesAndStates) {
  TinyModel model = tinyModel(true);
  mlir::MLIRContext context;
  GraphOptions wide = options();
  wide.kvCodec = KvCodec::F32;
  auto module = buildGraph(context, model.spec, model.directory, wide);
  ASSERT_TRUE(module);
  auto integer = [&](llvm::StringRef name) {
    return (*module)->getAttrOfType<mlir::IntegerAttr>(name).getInt();
  };
  EXPECT_EQ((*module)->getAttrOfType<mlir::StringAttr>("ninfer.architecture").getValue(),
            "Qwen3ForCausalLM");
  EXPECT_EQ(integer("ninfer.max_context"), 128);
  EXPECT_EQ(integer("ninfer.prefill_chunk"), 16);
  EXPECT_EQ(integer("ninfer.vocab_size"), 64);
  EXPECT_EQ(integer("ninfer.layers"), 2);

  auto kv = module->lookupSymbol<StateOp>("text/layers/1/attention/kv");
  ASSERT_TRUE(kv);
  EXPECT_EQ(text(kv),
            "ninfer.state @\"text/layers/1/attention/kv\" : !ninfer.kv_cache<2x128x32, f32>");
  EXPECT_EQ(mlir::cast<KvCacheType>(kv.getType()).getBytes(), 2 * 2 * 128 * 32 * 4);

  auto rope = module->lookupSymbol<StateOp>("text/rope");
  ASSERT_TRUE(rope && rope.getInvFreq());
  ASSERT_EQ(rope.getInvFreq()->size(), 16u);
  EXPECT_DOUBLE_EQ((*rope.getInvFreq())[0], 1.0);
  EXPECT_DOUBLE_EQ((*rope.getInvFreq())[8], std::pow(10000.0, -0.5));
}

TEST(GraphBuilder, RangesPoliciesAndTiedHead) {
  TinyModel model = tinyModel(false);
  mlir::MLIRContext context;
  auto module = buildGraph(context, model.spec, model.directory, options());
  ASSERT_TRUE(module);
  EXPECT_EQ(text(module->lookupSymbol("text/layers/0/attention/value")),
            "ninfer.parameter @\"text/layers/0/attention/value\" : "
            "!ninfer.weight<64x128, Q4G64_F16S, \"row-split-k128-v1\"> parts "
            "[#ninfer.part<@\"object/text/layers/0/qkv\", 24576, 32768>] policy<A16Only>");
  auto head = module->lookupSymbol<ParameterOp>("text/output_head");
  EXPECT_EQ(mlir::cast<PartAttr>(head.getParts()[0]).getObject().getValue(),
            "object/text/token_embedding");
  module->walk([](LinearOp linear) {
    auto param = linear.getWeight().getDefiningOp<ParamOp>();
    bool wide =
        param.getParameter().ends_with("mlp/gate") || param.getParameter().ends_with("mlp/up");
    EXPECT_EQ(linear.getPolicy(), wide ? ActivationPolicy::AllowA8 : ActivationPolicy::A16Only);
  });
}

TEST(GraphBuilder, AttentionIsWiredAfterTheAppend) {
  TinyModel model = tinyModel(true);
  mlir::MLIRContext context;
  auto module = buildGraph(context, model.spec, model.directory, options());
  ASSERT_TRUE(module);
  module->walk([](AttentionOp attention) {
    auto append = attention->getPrevNode();
    ASSERT_TRUE(mlir::isa<KvAppendOp>(append));
    EXPECT_EQ(mlir::cast<KvAppendOp>(append).getCache(), attention.getCache());
    EXPECT_DOUBLE_EQ(attention.getScale(), 1.0 / std::sqrt(32.0));
    auto rope = attention.getQuery().getDefiningOp<RopeOp>();
    ASSERT_TRUE(rope);
    EXPECT_EQ(rope.getHeads(), 4);
    auto norm = rope.getX().getDefiningOp<HeadNormOp>();
    ASSERT_TRUE(norm);
    EXPECT_DOUBLE_EQ(norm.getEps(), 1e-5);
    auto label = mlir::dyn_cast<mlir::NameLoc>(attention.getLoc());
    ASSERT_TRUE(label);
    EXPECT_TRUE(label.getName().getValue().ends_with("/attention"));
  });
  auto function = module->lookupSymbol<mlir::func::FuncOp>("text");
  ASSERT_TRUE(function);
  mlir::Value logits = function.getBody().front().getTerminator()->getOperand(0);
  auto norm = logits.getDefiningOp<LinearOp>().getX().getDefiningOp<RmsNormOp>();
  EXPECT_TRUE(norm.getX().getDefiningOp<LastRowOp>());
}

TEST(GraphBuilder, TextParsesBackToTheSameText) {
  TinyModel model = tinyModel(true);
  mlir::MLIRContext context;
  auto module = buildGraph(context, model.spec, model.directory, options());
  ASSERT_TRUE(module);
  std::string first = text(*module);
  auto again = mlir::parseSourceString<mlir::ModuleOp>(first, &context);
  ASSERT_TRUE(again);
  EXPECT_EQ(text(*again), first);
}

TEST(GraphBuilder, RefusesMixedFormats) {
  TinyModel model = tinyModel(false);
  uint32_t other = model.store("tail", {64, 128}, Format::W8G32_F16S);
  auto &parts = model.parameter("text/layers/1/mlp/gate").binding.parts;
  parts[0].end = 192 * 128;
  parts.push_back({other, 0, 64 * 128});
  mlir::MLIRContext context;
  Messages messages(context);
  EXPECT_FALSE(buildGraph(context, model.spec, model.directory, options()));
  EXPECT_NE(
      messages.all.find("parameter is stored in ranges of different formats, q4_g64_fp16 in object "
                        "'text/layers/1/mlp/gate' and q8_g32_fp16 in object 'tail'"),
      std::string::npos)
      << messages.all;
}

TEST(GraphBuilder, RefusesAContextTheModelDoesNotHave) {
  TinyModel model = tinyModel(false);
  mlir::MLIRContext context;
  Messages messages(context);
  GraphOptions tooLong = options();
  tooLong.maxContext = 513;
  EXPECT_FALSE(buildGraph(context, model.spec, model.directory, tooLong));
  GraphOptions huge = options();
  TinyModel endless = tinyModel(false);
  endless.spec.decoderConfig().maxPositions = int64_t(1) << 60;
  huge.maxContext = endless.spec.decoderConfig().maxPositions;
  EXPECT_FALSE(buildGraph(context, endless.spec, endless.directory, huge));
  GraphOptions noChunk = options();
  noChunk.prefillChunk = 0;
  EXPECT_FALSE(buildGraph(context, model.spec, model.directory, noChunk));
  EXPECT_EQ(messages.all,
            "max context must be in 1..512 (max_position_embeddings of the model), got 513\n"
            "state of the context: takes more than 4611686018427387904 bytes\n"
            "prefill chunk must be at least 1, got 0\n");
}

} // namespace
