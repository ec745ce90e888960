// From IR with planned memory to plan tables. Expected numbers are written by hand from the text of
// the module.
#include "codegen/plan/PlanBuilder.h"
#include "dialects/ninfer/NinferDialect.h"
#include "schema/View.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace ninfer;

namespace {

// One embedding, one cache append of the embedding as key and as value, last row, head. Weights of
// W8 keep K padded to 128: 32 rows of 128 code bytes, then 32 rows of 4 scale words.
const char kModule[] = R"mlir(
module attributes {ninfer.architecture = "LlamaForCausalLM", ninfer.max_context = 16 : i64,
                   ninfer.prefill_chunk = 4 : i64, ninfer.vocab_size = 32 : i64, ninfer.layers = 1 : i64} {
  ninfer.object @object : <32x64, W8G32_F16S, "row-split-k128-v1"> at 256 size 4352
  ninfer.parameter @embedding : !ninfer.weight<32x64, W8G32_F16S, "row-split-k128-v1">
    parts [#ninfer.part<@object, 0, 2048>] policy<A16Only>
    planes [#ninfer.plane<256, 4096>, #ninfer.plane<4352, 256>]
  ninfer.state @kv : !ninfer.kv_cache<1x9x64, f32>
  ninfer.state @rope : !ninfer.rope_table<16x2> {inv_freq = array<f64: 1.0, 0.5>}
  ninfer.kernel @embed_r1(%t: tensor<1xi32>, %w: !ninfer.weight<32x64, W8G32_F16S, "row-split-k128-v1">)
      attributes {family = "ref.embedding", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
    %0 = ninfer.embedding %t, %w
      : tensor<1xi32>, <32x64, W8G32_F16S, "row-split-k128-v1"> -> tensor<1x64xf32>
    ninfer.yield %0 : tensor<1x64xf32>
  }
  ninfer.kernel @append_r1(%k: tensor<1x64xf32>, %v: tensor<1x64xf32>, %c: !ninfer.kv_cache<1x9x64, f32>, %p: index)
      attributes {family = "ref.kv_append", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
    ninfer.kv_append %k, %v, %c, %p : tensor<1x64xf32>, <1x9x64, f32>
    ninfer.yield
  }
  ninfer.kernel @head_r1(%x: tensor<1x64xf32>, %w: !ninfer.weight<32x64, W8G32_F16S, "row-split-k128-v1">)
      attributes {family = "ref.linear", profile = "f32", rows = 1, tiles_const = 2, tiles_per_row = 0} {
    %0 = ninfer.linear %x, %w policy<A16Only>
      : tensor<1x64xf32>, <32x64, W8G32_F16S, "row-split-k128-v1"> -> tensor<1x32xf32>
    ninfer.yield %0 : tensor<1x32xf32>
  }
  ninfer.kernel @embed_r4(%t: tensor<?xi32>, %w: !ninfer.weight<32x64, W8G32_F16S, "row-split-k128-v1">)
      attributes {family = "ref.embedding", profile = "f32", rows = 4, dynamic_rows, tiles_const = 0, tiles_per_row = 1} {
    %0 = ninfer.embedding %t, %w
      : tensor<?xi32>, <32x64, W8G32_F16S, "row-split-k128-v1"> -> tensor<?x64xf32>
    ninfer.yield %0 : tensor<?x64xf32>
  }
  ninfer.kernel @last_r4(%x: tensor<?x64xf32>)
      attributes {family = "ref.last_row", profile = "f32", rows = 4, dynamic_rows, tiles_const = 1, tiles_per_row = 0} {
    %0 = ninfer.last_row %x : tensor<?x64xf32> -> tensor<1x64xf32>
    ninfer.yield %0 : tensor<1x64xf32>
  }
  func.func @text.decode(%tokens: tensor<1xi32>, %position: index) -> tensor<1x32xf32>
      attributes {ninfer.component = "text", ninfer.phase = "decode", ninfer.max_rows = 1 : i64,
                  ninfer.arena_bytes = 576 : i64, ninfer.tokens_offset = 512 : i64} {
    %w = ninfer.param @embedding : !ninfer.weight<32x64, W8G32_F16S, "row-split-k128-v1">
    %c = ninfer.state_ref @kv : !ninfer.kv_cache<1x9x64, f32>
    %x = ninfer.launch @embed_r1(%tokens, %w) {label = "text/token_embedding", offsets = array<i64: 0>,
        trace = [{candidate = "ref.embedding", verdict = "accepted", reason = ""},
                 {candidate = "other", verdict = "rejected", reason = "rows: expected 2..4, got 1"}],
        ninfer.signature = "the request"}
      : (tensor<1xi32>, !ninfer.weight<32x64, W8G32_F16S, "row-split-k128-v1">) -> tensor<1x64xf32>
    ninfer.launch @append_r1(%x, %x, %c, %position) {label = "text/layers/0", offsets = array<i64>}
      : (tensor<1x64xf32>, tensor<1x64xf32>, !ninfer.kv_cache<1x9x64, f32>, index) -> ()
    %y = ninfer.launch @head_r1(%x, %w) {label = "text/output_head", offsets = array<i64: 256>}
      : (tensor<1x64xf32>, !ninfer.weight<32x64, W8G32_F16S, "row-split-k128-v1">) -> tensor<1x32xf32>
    return %y : tensor<1x32xf32>
  }
  func.func @text.prefill(%tokens: tensor<?xi32>, %position: index) -> tensor<1x32xf32>
      attributes {ninfer.component = "text", ninfer.phase = "prefill", ninfer.max_rows = 4 : i64,
                  ninfer.arena_bytes = 1536 : i64, ninfer.tokens_offset = 1024 : i64} {
    %w = ninfer.param @embedding : !ninfer.weight<32x64, W8G32_F16S, "row-split-k128-v1">
    %x = ninfer.launch @embed_r4(%tokens, %w) {label = "text/token_embedding", offsets = array<i64: 0>}
      : (tensor<?xi32>, !ninfer.weight<32x64, W8G32_F16S, "row-split-k128-v1">) -> tensor<?x64xf32>
    %l = ninfer.launch @last_r4(%x) {label = "text/final_norm", offsets = array<i64: 1088>}
      : (tensor<?x64xf32>) -> tensor<1x64xf32>
    %y = ninfer.launch @head_r1(%l, %w) {label = "text/output_head", offsets = array<i64: 1344>}
      : (tensor<1x64xf32>, !ninfer.weight<32x64, W8G32_F16S, "row-split-k128-v1">) -> tensor<1x32xf32>
    return %y : tensor<1x32xf32>
  }
}
)mlir";

class PlanBuilderTest : public ::testing::Test {
protected:
  void SetUp() override {
    context_.loadDialect<NinferDialect, mlir::func::FuncDialect>();
    parse(kModule);
  }

  void parse(const std::string &text) {
    module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    ASSERT_TRUE(module_);
    input_.artifact.framing = 3;
    input_.artifact.fileName = "m.ninfer";
    input_.artifact.payloadBytes = 8192;
    input_.targets = {PlanTargetInput{*module_, "reference", "reference", {}, {}, {}, {}}};
  }

  void parseWithout(std::string text, const std::string &cut, const std::string &paste = "") {
    const size_t at = text.find(cut);
    ASSERT_NE(at, std::string::npos);
    parse(text.replace(at, cut.size(), paste));
  }

  /// The plan as objects.
  plan::PlanT unpacked() {
    auto bytes = buildPlanBytes(input_);
    EXPECT_TRUE(bytes.ok()) << bytes.error().render();
    plan::PlanT plan;
    if (bytes.ok())
      plan::GetPlan(bytes->data() + kPlanHeaderBytes)->UnPackTo(&plan);
    return plan;
  }

  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  PlanInput input_;
};

void expectRef(const plan::Ref &ref, plan::Space space, uint32_t index, uint64_t offset,
               uint64_t bytes) {
  EXPECT_EQ(ref.space(), space);
  EXPECT_EQ(ref.index(), index);
  EXPECT_EQ(ref.offset(), offset);
  EXPECT_EQ(ref.bytes(), bytes);
}

const plan::AttributeT *find(const plan::KernelT &kernel, const std::string &name) {
  for (const auto &attribute : kernel.attributes)
    if (attribute->name == name)
      return attribute.get();
  return nullptr;
}

TEST_F(PlanBuilderTest, StatesAndArena) {
  const plan::PlanT plan = unpacked();
  const plan::TargetT &target = *plan.targets.at(0);
  EXPECT_EQ(target.arena_bytes, 1536u);
  ASSERT_EQ(target.states.size(), 2u);
  EXPECT_EQ(target.states[0]->kind, "kv_cache");
  EXPECT_EQ(target.states[0]->bytes, 2u * 9 * 64 * 4);
  EXPECT_EQ(target.states[1]->kind, "rope_table");
  EXPECT_EQ(target.states[1]->bytes, 16u * 2 * 2 * 4);
  ASSERT_EQ(plan.parameters.size(), 1u);
  EXPECT_EQ(plan.parameters[0]->bytes, 4352u);
  EXPECT_EQ(plan.parameters[0]->format, "W8G32_F16S");
  EXPECT_EQ(plan.model->prefill_chunk, 4u);
}

TEST_F(PlanBuilderTest, SetupFillsTheRopeTable) {
  const plan::PlanT plan = unpacked();
  const plan::TargetT &target = *plan.targets.at(0);
  const plan::PhaseT &setup = *target.phases.at(0);
  EXPECT_EQ(setup.kind, plan::PhaseKind::Setup);
  ASSERT_EQ(setup.launches.size(), 1u);
  const plan::KernelT &kernel = *target.kernels.at(setup.launches[0]->kernel);
  EXPECT_EQ(kernel.symbol, "rope_table");
  EXPECT_EQ(find(kernel, "capacity")->i, 16);
  EXPECT_EQ(find(kernel, "pairs")->i, 2);
  EXPECT_EQ(find(kernel, "inv_freq")->floats, (std::vector<double>{1.0, 0.5}));
  expectRef(setup.launches[0]->args.at(0), plan::Space::State, 1, 0, 256);
}

TEST_F(PlanBuilderTest, ArgumentsFollowTheAbi) {
  const plan::PlanT plan = unpacked();
  const plan::TargetT &target = *plan.targets.at(0);
  const plan::PhaseT &decode = *target.phases.at(1);
  EXPECT_EQ(decode.max_rows, 1u);
  expectRef(*decode.tokens, plan::Space::Arena, 0, 512, 4);
  expectRef(*decode.logits, plan::Space::Arena, 0, 256, 128);
  ASSERT_EQ(decode.launches.size(), 3u);
  const auto &embed = decode.launches[0]->args;
  ASSERT_EQ(embed.size(), 4u);
  expectRef(embed[0], plan::Space::Arena, 0, 512, 4);
  expectRef(embed[1], plan::Space::Payload, 0, 256, 4096);
  expectRef(embed[2], plan::Space::Payload, 0, 4352, 256);
  expectRef(embed[3], plan::Space::Arena, 0, 0, 256);
  const auto &append =
      decode.launches[1]->args; // key, value, keys, values; the position is a scalar
  ASSERT_EQ(append.size(), 4u);
  expectRef(append[0], plan::Space::Arena, 0, 0, 256);
  expectRef(append[1], plan::Space::Arena, 0, 0, 256);
  expectRef(append[2], plan::Space::State, 0, 0, 9 * 64 * 4);
  expectRef(append[3], plan::Space::State, 0, 9 * 64 * 4, 9 * 64 * 4);
  EXPECT_EQ(decode.launches[2]->tiles_const, 2u);
  EXPECT_EQ(decode.launches[2]->label, "text/output_head");

  const plan::PhaseT &prefill = *target.phases.at(2);
  EXPECT_EQ(prefill.kind, plan::PhaseKind::Prefill);
  EXPECT_EQ(prefill.max_rows, 4u);
  expectRef(*prefill.tokens, plan::Space::Arena, 0, 1024, 16);
  expectRef(prefill.launches.at(0)->args.at(3), plan::Space::Arena, 0, 0, 4 * 256);
  expectRef(prefill.launches.at(1)->args.at(1), plan::Space::Arena, 0, 1088, 256);
  // The head kernel is shared by both phases.
  EXPECT_EQ(prefill.launches.at(2)->kernel, decode.launches.at(2)->kernel);
}

TEST_F(PlanBuilderTest, ValuesOfAnOddCacheStartAtAnArgumentBoundary) {
  parseWithout(kModule, "ninfer.state @kv",
               "ninfer.state @odd : !ninfer.kv_cache<1x3x2, bf16>\n  ninfer.state @kv");
  const plan::PlanT plan = unpacked();
  const plan::StateT &odd = *plan.targets[0]->states[0];
  EXPECT_EQ(odd.name, "odd");
  EXPECT_EQ(odd.bytes, 64u + 12u); // 3 positions of 2 words: 12 bytes of keys, values at 64
}

TEST_F(PlanBuilderTest, CostOfALaunch) {
  const plan::PlanT plan = unpacked();
  const plan::PhaseT &decode = *plan.targets[0]->phases[1], &prefill = *plan.targets[0]->phases[2];
  // The head reads its weight and one row of 64 floats and multiplies 32 x 64, whatever the rows of
  // the call.
  for (const plan::LaunchT *head : {decode.launches[2].get(), prefill.launches[2].get()}) {
    EXPECT_EQ(head->bytes_read_const, 4352u + 256u);
    EXPECT_EQ(head->bytes_read_per_row, 0u);
    EXPECT_EQ(head->flops_const, 2u * 32 * 64);
    EXPECT_EQ(head->flops_per_row, 0u);
  }
  // Embedding of a dynamic number of rows: an id and an encoded row each.
  EXPECT_EQ(prefill.launches[0]->bytes_read_const, 0u);
  EXPECT_EQ(prefill.launches[0]->bytes_read_per_row, 4u + 4352u / 32);
}

TEST_F(PlanBuilderTest, TracesAreSharedAndKeepTheRequest) {
  const plan::PlanT plan = unpacked();
  ASSERT_EQ(plan.targets[0]->traces.size(), 1u);
  const plan::TraceT &trace = *plan.targets[0]->traces[0];
  EXPECT_EQ(trace.op, "text/token_embedding");
  EXPECT_EQ(trace.phase, "decode");
  EXPECT_EQ(trace.signature, "the request");
  EXPECT_EQ(trace.launches, 1u);
  ASSERT_EQ(trace.verdicts.size(), 2u);
  EXPECT_EQ(trace.verdicts[1]->reason, "rows: expected 2..4, got 1");
}

TEST_F(PlanBuilderTest, CompiledKernelsNeedTheirCode) {
  input_.targets[0].name = "cpu:x86-64-v3";
  input_.targets[0].executor = "cpu";
  input_.targets[0].elf.assign(100, 'x');
  auto missing = buildPlanBytes(input_);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, "NB0530");
  EXPECT_NE(missing.error().message.find("embed_r1"), std::string::npos);
  for (const char *name : {"embed_r1", "append_r1", "head_r1", "embed_r4", "last_r4"})
    input_.targets[0].code.push_back({name, std::string("k_") + name, 64});
  const plan::PlanT plan = unpacked();
  const plan::TargetT &target = *plan.targets.at(0);
  EXPECT_EQ(target.kernels[2]->symbol, "k_head_r1");
  EXPECT_EQ(target.kernels[2]->kind, plan::KernelKind::Elf);
  EXPECT_EQ(target.kernels[2]->num_args, 4u);
  EXPECT_TRUE(target.kernels[2]->attributes.empty());
  EXPECT_EQ(target.scratch_bytes_per_thread, 64u);
  EXPECT_EQ(plan.blobs.at(0)->bytes, 100u);
}

TEST_F(PlanBuilderTest, UnreadyModulesNameThePass) {
  struct Case {
    const char *cut, *paste, *pass;
  };
  const Case cases[] = {
      {"planes [#ninfer.plane<256, 4096>, #ninfer.plane<4352, 256>]", "", "ninfer-bind-parameters"},
      {", offsets = array<i64: 256>", "", "ninfer-plan-memory"},
      {"ninfer.arena_bytes = 576 : i64, ", "", "ninfer-plan-memory"},
      {"ninfer.phase = \"decode\", ", "", "ninfer-split-phases"},
  };
  for (const Case &c : cases) {
    parseWithout(kModule, c.cut, c.paste);
    auto refused = buildPlanBytes(input_);
    ASSERT_FALSE(refused.ok()) << c.pass;
    EXPECT_EQ(refused.error().code, "NB0530");
    EXPECT_NE(refused.error().message.find(c.pass), std::string::npos) << refused.error().message;
  }
}

} // namespace
