// What a build makes: sections, phases, states, launches, sizes; and that it is a pure function of
// its inputs.
#include "Workspace.h"
#include "schema/View.h"

#include <map>

using namespace ninfer;
using namespace ninfer::test;

namespace {

class BuildTest : public Workspace {
protected:
  BuildReport buildOk(const BuildOptions &options) {
    auto report = build(options);
    EXPECT_TRUE(report.ok()) << report.error().render();
    return report.ok() ? report.take() : BuildReport();
  }

  /// Opens a plan from 8-byte aligned memory.
  PlanView open(const std::filesystem::path &path) {
    bytes_ = read(path);
    buffer_.assign(bytes_.size() / 8 + 1, 0);
    std::memcpy(buffer_.data(), bytes_.data(), bytes_.size());
    auto view = PlanView::open(std::as_bytes(std::span(buffer_)).first(bytes_.size()), "plan.bin");
    EXPECT_TRUE(view.ok()) << view.error().render();
    return view.take();
  }

  std::string bytes_;
  std::vector<uint64_t> buffer_;
};

std::map<std::string, uint32_t> symbolCounts(const plan::Target &target, const plan::Phase &phase) {
  std::map<std::string, uint32_t> counts;
  for (const plan::Launch *launch : *phase.launches())
    ++counts[target.kernels()->Get(launch->kernel())->symbol()->str()];
  return counts;
}

TEST_F(BuildTest, ReferencePlanOfATinyLlama) {
  const auto model = artifact("tiny.ninfer", {"--layers", "3"});
  const BuildReport report = buildOk(options(model));
  const PlanView view = open(file("plan.bin"));

  EXPECT_EQ(view->artifact()->file_name()->str(), "tiny.ninfer");
  EXPECT_EQ(view->artifact()->framing(), 3u);
  EXPECT_EQ(view->model()->architecture()->str(), "LlamaForCausalLM");
  EXPECT_EQ(view->model()->layers(), 3u);
  EXPECT_EQ(view->model()->vocab_size(), 256u);
  EXPECT_EQ(view->model()->max_context(), 512u); // the model's, being below the default
  EXPECT_EQ(view->model()->prefill_chunk(), 64u);
  EXPECT_EQ(view->parameters()->size(), 3u * 9 + 3);
  EXPECT_EQ(view->blobs()->size(), 0u);

  const plan::Target *target = view.findTarget("reference");
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->states()->size(), 4u); // a cache per layer and the rope table
  uint64_t kv = 0, rope = 0;
  for (const plan::State *state : *target->states())
    (state->kind()->str() == "kv_cache" ? kv : rope) += state->bytes();
  EXPECT_EQ(kv, 3u * 2 * 2 * 512 * 16 *
                    2); // layers, keys and values, kv heads, positions, head dim, bf16
  EXPECT_EQ(rope, 512u * 8 * 2 * 4);

  const plan::Phase *setup = PlanView::findPhase(*target, plan::PhaseKind::Setup);
  ASSERT_NE(setup, nullptr);
  EXPECT_EQ(setup->launches()->size(), 1u);
  for (auto kind : {plan::PhaseKind::Decode, plan::PhaseKind::Prefill}) {
    const plan::Phase *phase = PlanView::findPhase(*target, kind);
    ASSERT_NE(phase, nullptr);
    EXPECT_EQ(phase->max_rows(), kind == plan::PhaseKind::Decode ? 1u : 64u);
    auto counts = symbolCounts(*target, *phase);
    EXPECT_EQ(counts["ref.embedding"], 1u);
    EXPECT_EQ(counts["ref.linear"], 3u * 7 + 1);
    EXPECT_EQ(counts["ref.attention"], 3u);
    EXPECT_EQ(counts["ref.kv_append"], 3u);
    EXPECT_EQ(counts["ref.rope"], 6u);
    EXPECT_EQ(counts["ref.rms_norm"], 7u);
    EXPECT_EQ(counts["ref.add"], 6u);
    EXPECT_EQ(counts["ref.swiglu"], 3u);
    EXPECT_EQ(counts.count("ref.head_norm"), 0u);
  }
  EXPECT_EQ(report.targets.at(0).stateBytes, kv + rope);
  EXPECT_EQ(report.planBytes, bytes_.size());
  EXPECT_GT(report.peakRssBytes, 1u << 20);
}

TEST_F(BuildTest, Qwen3HasHeadNormsAndPackedWeightsBind) {
  const auto model = artifact(
      "qwen.ninfer", {"--arch", "Qwen3ForCausalLM", "--packed-qkv", "--tied", "--layers", "1"});
  buildOk(options(model));
  const PlanView view = open(file("plan.bin"));
  const plan::Target *target = view.findTarget("reference");
  auto counts = symbolCounts(*target, *PlanView::findPhase(*target, plan::PhaseKind::Decode));
  EXPECT_EQ(counts["ref.head_norm"], 2u);

  // Key rows follow query rows in each plane of the shared object: 64 rows of 64 bytes, 64 of 2
  // scale words.
  std::vector<const plan::Launch *> linears;
  for (const plan::Launch *launch :
       *PlanView::findPhase(*target, plan::PhaseKind::Decode)->launches())
    if (target->kernels()->Get(launch->kernel())->symbol()->str() == "ref.linear")
      linears.push_back(launch);
  ASSERT_GE(linears.size(), 3u);
  const auto *query = linears[0]->args(), *key = linears[1]->args();
  EXPECT_EQ(key->Get(1)->offset(), query->Get(1)->offset() + 64 * 64);
  EXPECT_EQ(key->Get(2)->offset(), query->Get(2)->offset() + 64 * 4);
}

TEST_F(BuildTest, SameInputsSameBytes) {
  const auto model = artifact("m.ninfer");
  for (std::vector<std::string> targets :
       {std::vector<std::string>{"reference"}, {"cpu:x86-64-v3"}, {"cpu:x86-64-v3", "reference"}}) {
    BuildOptions first = options(model, targets), second = first;
    second.output = file("second.bin");
    second.threads = 3;
    const BuildReport a = buildOk(first), b = buildOk(second);
    EXPECT_EQ(a.planSha256, b.planSha256);
    EXPECT_EQ(read(first.output), read(second.output));
  }
}

TEST_F(BuildTest, OtherWeightsOfEqualStorageGiveTheSamePlan) {
  const auto a = artifact("m.ninfer", {"--seed", "1"});
  std::filesystem::create_directory(file("sub"));
  const auto b = artifact("sub/m.ninfer", {"--seed", "2"});
  ASSERT_NE(read(a), read(b));
  BuildOptions second = options(b);
  second.output = file("second.bin");
  buildOk(options(a));
  buildOk(second);
  EXPECT_EQ(read(file("plan.bin")), read(file("second.bin")));
}

TEST_F(BuildTest, KernelsDoNotGrowWithLayers) {
  for (const char *target : {"reference", "cpu:x86-64-v3"}) {
    const BuildReport two = buildOk(options(artifact("two.ninfer", {"--layers", "2"}), {target}));
    const BuildReport six = buildOk(options(artifact("six.ninfer", {"--layers", "6"}), {target}));
    EXPECT_EQ(two.targets[0].kernels.size(), six.targets[0].kernels.size()) << target;
    for (size_t i = 0; i < two.targets[0].kernels.size(); ++i)
      EXPECT_EQ(two.targets[0].kernels[i].name, six.targets[0].kernels[i].name);
    EXPECT_LT(two.targets[0].launches[1].second, six.targets[0].launches[1].second);
  }
}

TEST_F(BuildTest, SeveralTargetsInOnePlan) {
  const auto model = artifact("m.ninfer");
  const BuildReport report =
      buildOk(options(model, {"reference", "cpu:x86-64-v3", "cpu:x86-64-v4"}));
  ASSERT_EQ(report.targets.size(), 3u);
  const PlanView view = open(file("plan.bin"));
  ASSERT_EQ(view->blobs()->size(), 2u);
  EXPECT_EQ(view->blobs()->Get(0)->name()->str(), "cpu:x86-64-v3.so");
  const plan::Target *v4 = view.findTarget("cpu:x86-64-v4");
  ASSERT_NE(v4, nullptr);
  EXPECT_EQ(v4->kernels()->Get(0)->blob(), 1u);
  std::vector<std::string> features;
  for (const auto *feature : *v4->cpu_features())
    features.push_back(feature->str());
  EXPECT_NE(std::find(features.begin(), features.end(), "avx512f"), features.end());
  EXPECT_LT(report.targets[1].launches[1].second, report.targets[0].launches[1].second); // fused
}

TEST_F(BuildTest, AnotherArchitectureBesideThisOne) {
  const auto model = artifact("m.ninfer", {"--layers", "1"});
  const BuildReport report = buildOk(options(model, {"cpu:x86-64-v3", "cpu:aarch64"}));
  ASSERT_EQ(report.targets.size(), 2u);
  ASSERT_EQ(report.targets[0].kernels.size(), report.targets[1].kernels.size()); // the same choices
  for (size_t i = 0; i < report.targets[0].kernels.size(); ++i)
    EXPECT_EQ(report.targets[0].kernels[i].name, report.targets[1].kernels[i].name);
  EXPECT_EQ(report.targets[1].cpuFeatures, (std::vector<std::string>{"fp-armv8", "neon", "crc", "lse", "rdm", "dotprod"}));
  BuildOptions timed = options(model, {"cpu:aarch64"});
  timed.tune = BuildOptions::Tune::Measure;
  timed.tuneSeconds = 1;
  const auto refused = build(timed);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "NB0544");
}

TEST_F(BuildTest, SizesAndKvDtype) {
  const auto model = artifact("m.ninfer");
  BuildOptions chosen = options(model);
  chosen.maxContext = 32;
  chosen.prefillChunk = 8;
  chosen.kvDtype = "f32";
  buildOk(chosen);
  const PlanView view = open(file("plan.bin"));
  EXPECT_EQ(view->model()->max_context(), 32u);
  EXPECT_EQ(view->model()->prefill_chunk(), 8u);
  const plan::Target *target = view.findTarget("reference");
  for (const plan::State *state : *target->states())
    if (state->kind()->str() == "kv_cache")
      EXPECT_EQ(state->bytes(), 2u * 2 * 32 * 16 * 4);
  EXPECT_EQ(PlanView::findPhase(*target, plan::PhaseKind::Prefill)->max_rows(), 8u);

  BuildOptions shortContext = options(model);
  shortContext.maxContext = 16; // below the default chunk
  EXPECT_EQ(buildOk(shortContext).prefillChunk, 16);
}

TEST_F(BuildTest, DryRunWritesNothing) {
  BuildOptions dry = options(artifact("m.ninfer"));
  dry.output.clear();
  const BuildReport report = buildOk(dry);
  EXPECT_GT(report.planBytes, 4096u);
  EXPECT_EQ(listing(), std::vector<std::string>{"m.ninfer"});
  EXPECT_NE(reportText(report).find("dry run"), std::string::npos);
}

TEST_F(BuildTest, PolicyOptionFillsMissingPolicies) {
  const auto model = artifact("m.ninfer", {"--policy", "none", "--format", "W8G32_F16S"});
  BuildOptions without = options(model, {"cpu:x86-64-v3"});
  auto refused = build(without);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "NB0305");
  BuildOptions with = without;
  with.activationPolicy = ActivationPolicy::AllowA8;
  const BuildReport report = buildOk(with);
  EXPECT_NE(report.explain.find("accepted"), std::string::npos);
}

TEST_F(BuildTest, EmitsTheIrOfEveryStage) {
  const auto model = artifact("m.ninfer", {"--layers", "1"});
  for (const std::string &stage : emitStages()) {
    BuildOptions emitting = options(model, {"cpu:x86-64-v3"});
    emitting.output.clear();
    emitting.emitStage = stage;
    std::string ir;
    emitting.emit = [&](const std::string &, const std::string &text) { ir += text; };
    buildOk(emitting);
    EXPECT_NE(ir.find("func.func"), std::string::npos) << stage;
    EXPECT_EQ(ir.find("ninfer.launch") != std::string::npos,
              stage == "outline-kernels" || stage == "plan-memory");
  }
}

TEST_F(BuildTest, ExplainNamesEveryKernelAndItsRejectedCandidates) {
  const BuildReport report = buildOk(options(artifact("m.ninfer"), {"cpu:x86-64-v3"}));
  for (const KernelReport &kernel : report.targets[0].kernels)
    if (kernel.code == "elf")
      EXPECT_NE(report.explain.find("-> " + kernel.name), std::string::npos) << kernel.name;
  EXPECT_NE(report.explain.find("forbidden by policy"), std::string::npos);
}

} // namespace
