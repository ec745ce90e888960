#include "runtime/loader/Engine.h"

#include "support/File.h"
#include "test/unit/runtime/TinyModel.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace ninfer;
using namespace ninfer::test;

namespace {

class EngineTest : public testing::Test {
protected:
  void SetUp() override { plan_ = writeTiny(folder_, model_); }

  /// Error of opening `options`; the test fails when it opens.
  Error refused(const EngineOptions &options) {
    auto engine = Engine::open(options);
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? Error{} : engine.takeStatus().takeError();
  }
  Error refusedPlan(const plan::PlanT &plan) {
    writeBytes(folder_ / "other.plan", buildBytes(plan));
    return refused({.plan = folder_ / "other.plan"});
  }

  TemporaryFolder folder_;
  TinyModel model_;
  std::filesystem::path plan_;
};

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_F(EngineTest, OpensBesideThePlan) {
  auto engine = Engine::open({.plan = plan_});
  ASSERT_TRUE(engine.ok()) << engine.error().render();
  EXPECT_EQ((*engine)->weightsPath(), folder_ / "tiny.ninfer");
  EXPECT_STREQ((*engine)->codeMapped(), "none");
  auto tokenizer = (*engine)->resource("tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_FALSE(tokenizer->empty());
  auto none = (*engine)->resource("no-such-role");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

// Framings 1 and 2 have no components: text resources are found by their fixed names.
TEST_F(EngineTest, ResourcesOfFraming2) {
  TinyModel model({.framing = 2});
  model.writeArtifact(folder_ / "old.ninfer");
  ASSERT_EQ(Artifact::open(folder_ / "old.ninfer")->directory().framing, 2);
  writeBytes(folder_ / "old.plan", buildBytes(model.plan("old.ninfer")));
  auto engine = Engine::open({.plan = folder_ / "old.plan"});
  ASSERT_TRUE(engine.ok()) << engine.error().render();
  auto tokenizer = (*engine)->resource("tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().render();
  EXPECT_FALSE(tokenizer->empty());
  EXPECT_TRUE((*engine)->resource("no-such-role")->empty());
}

// A plan that knows the bytes before the payload opens that artifact without parsing them, as its table of resources shows, whose
// names here are not those of the directory; and any other artifact of equal storage by its directory.
TEST_F(EngineTest, KnownHead) {
  TinyModel model;
  model.writeArtifact(folder_ / "tiny.ninfer");
  auto artifact = Artifact::open(folder_ / "tiny.ninfer");
  ASSERT_TRUE(artifact.ok());
  plan::PlanT plan = model.plan("tiny.ninfer");
  plan.artifact->head = std::make_unique<plan::ArtifactHeadT>();
  plan::ArtifactHeadT &head = *plan.artifact->head;
  head.bytes = artifact->payloadOffset();
  const auto digest = headDigest(artifact->head());
  head.sha256.assign(digest.begin(), digest.end());
  const auto roles = artifact->directory().resourcesByRole();
  for (const auto &[role, object] : roles) {
    head.resources.push_back(std::make_unique<plan::ResourceT>());
    head.resources.back()->role = "known " + role;
    head.resources.back()->offset = artifact->directory().objects[object].offset;
    head.resources.back()->bytes = artifact->directory().objects[object].bytes;
  }
  writeBytes(plan_, buildBytes(plan));

  const auto check = [&](const std::filesystem::path &weights, bool known) {
    auto engine = Engine::open({.plan = plan_, .weights = weights});
    ASSERT_TRUE(engine.ok()) << engine.error().render();
    EXPECT_EQ((*engine)->payload().size(), artifact->payloadBytes());
    ASSERT_FALSE(roles.empty());
    for (const auto &[role, object] : roles) {
      EXPECT_EQ((*engine)->resource("known " + role)->empty(), !known) << role;
      EXPECT_EQ((*engine)->resource(role)->empty(), known) << role;
      const auto bytes = *(*engine)->resource(known ? "known " + role : role), expected = *artifact->object(object);
      EXPECT_TRUE(std::ranges::equal(bytes, expected)) << role;
    }
  };
  check(folder_ / "tiny.ninfer", true);
  TinyModel refit({.publicName = "refit", .seed = 2});
  refit.writeArtifact(folder_ / "refit.ninfer");
  check(folder_ / "refit.ninfer", false);

  // As long, but with other bytes before the payload; and the right ones before a payload that is too long.
  auto bytes = *readFile(folder_ / "tiny.ninfer");
  const auto written = [&](std::string text) { writeBytes(folder_ / "other.ninfer", std::as_bytes(std::span(text))); };
  std::string damaged = bytes;
  damaged[40] ^= 1;
  written(damaged);
  EXPECT_EQ(refused({.plan = plan_, .weights = folder_ / "other.ninfer"}).code.substr(0, 4), "NB01");
  written(bytes + "x");
  EXPECT_EQ(refused({.plan = plan_, .weights = folder_ / "other.ninfer"}).code, "NB0103");
}

TEST_F(EngineTest, WeightsElsewhere) {
  std::filesystem::create_directory(folder_ / "sub");
  std::filesystem::rename(folder_ / "tiny.ninfer", folder_ / "sub/renamed.ninfer");
  const Error missing = refused({.plan = plan_});
  EXPECT_EQ(missing.kind, ErrorKind::BadFile);
  EXPECT_TRUE(contains(missing.message, "tiny.ninfer")) << missing.message;
  ASSERT_FALSE(missing.notes.empty());
  EXPECT_TRUE(contains(missing.help.front(), "--weights"));
  EXPECT_TRUE(Engine::open({.plan = plan_, .weights = folder_ / "sub/renamed.ninfer"}).ok());
}

TEST_F(EngineTest, OtherWeightsAreRefusedWithBothNames) {
  TinyModel other({.layers = 3, .publicName = "bigger"});
  other.writeArtifact(folder_ / "other.ninfer");
  const Error error = refused({.plan = plan_, .weights = folder_ / "other.ninfer"});
  EXPECT_EQ(error.kind, ErrorKind::TargetMismatch);
  EXPECT_EQ(error.code, "NB0602");
  for (const char *part : {"tiny.ninfer", "'tiny'", "other.ninfer", "'bigger'"})
    EXPECT_TRUE(contains(error.message, part)) << part << " in " << error.message;
}

// Equal storage, other numbers: the same plan serves both.
TEST_F(EngineTest, RefitWithEqualStorage) {
  TinyModel other({.seed = 99});
  other.writeArtifact(folder_ / "refit.ninfer");
  EXPECT_TRUE(Engine::open({.plan = plan_, .weights = folder_ / "refit.ninfer"}).ok());
}

TEST_F(EngineTest, NotAnArtifact) {
  writeBytes(folder_ / "junk.ninfer", std::vector<std::byte>(100, std::byte{7}));
  EXPECT_EQ(refused({.plan = plan_, .weights = folder_ / "junk.ninfer"}).kind, ErrorKind::BadFile);
}

TEST_F(EngineTest, DamagedPlans) {
  const auto whole = readFile(plan_).take();
  const auto bytes = std::as_bytes(std::span(whole.data(), whole.size()));
  for (size_t size : {size_t(0), size_t(1), size_t(8), size_t(4095), size_t(4096), size_t(5000), bytes.size() - 1}) {
    writeBytes(folder_ / "cut.plan", bytes.first(size));
    const Error error = refused({.plan = folder_ / "cut.plan"});
    EXPECT_EQ(error.kind, ErrorKind::BadFile) << size;
    EXPECT_TRUE(contains(error.message, "cut.plan")) << error.message;
  }
  std::vector<std::byte> flipped(bytes.begin(), bytes.end());
  flipped[flipped.size() - 10] ^= std::byte{1};
  writeBytes(folder_ / "flipped.plan", flipped);
  EXPECT_EQ(refused({.plan = folder_ / "flipped.plan"}).code, "NB0503");
  EXPECT_EQ(refused({.plan = folder_ / "absent.plan"}).code, "NB0901");
  EXPECT_EQ(refused({.plan = folder_.path()}).kind, ErrorKind::BadFile);
}

TEST_F(EngineTest, OtherVersionsAreRefusedByNumber) {
  for (uint32_t version : {0u, 2u, 0xffffffffu})
    for (auto field : {plan::Plan::VT_SCHEMA_VERSION, plan::Plan::VT_KERNEL_ABI_VERSION}) {
      auto bytes = buildBytes(model_.plan("tiny.ninfer"));
      // Patched in place: the builder would not write such a plan.
      auto *table = const_cast<flatbuffers::Table *>(
          flatbuffers::GetRoot<flatbuffers::Table>(bytes.data() + kPlanHeaderBytes));
      ASSERT_TRUE(table->SetField<uint32_t>(field, version, 12345));
      sealPlan(bytes);
      writeBytes(folder_ / "version.plan", bytes);
      const Error error = refused({.plan = folder_ / "version.plan"});
      EXPECT_EQ(error.kind, ErrorKind::TargetMismatch);
      EXPECT_TRUE(contains(error.message, "plan: " + std::to_string(version))) << error.message;
      EXPECT_TRUE(contains(error.message, "this build: 1")) << error.message;
    }
}

TEST_F(EngineTest, MissingCpuFeatureIsNamed) {
  plan::PlanT plan = model_.plan("tiny.ninfer");
  plan.targets[0]->name = "cpu:x86-64-v4";
  plan.targets[0]->executor = "cpu";
  plan.targets[0]->cpu_features = {"avx2", "avx512f"};
  writeBytes(folder_ / "v4.plan", buildBytes(plan));
  Machine machine;
  machine.brand = "Test CPU 3000";
  machine.features = {"avx2"};
  const Error error = refused({.plan = folder_ / "v4.plan", .machine = machine});
  EXPECT_EQ(error.kind, ErrorKind::TargetMismatch);
  EXPECT_TRUE(contains(error.message, "plan: cpu:x86-64-v4 needs avx512f, this machine: Test CPU 3000 lacks it"))
      << error.message;
  machine.features.insert("avx512f");
  EXPECT_TRUE(Engine::open({.plan = folder_ / "v4.plan", .machine = machine}).ok());
}

TEST_F(EngineTest, FirstSupportedTarget) {
  plan::PlanT plan = model_.plan("tiny.ninfer");
  plan::PlanT twin = model_.plan("tiny.ninfer");
  plan.targets[0]->name = "cpu:x86-64-v4";
  plan.targets[0]->executor = "cpu";
  plan.targets[0]->cpu_features = {"avx512f"};
  plan.targets.push_back(std::move(twin.targets[0]));
  writeBytes(folder_ / "two.plan", buildBytes(plan));
  Machine machine;
  machine.brand = "Test CPU";
  std::vector<std::string> log;
  const LogSink sink = [&](LogLevel, const std::string &text) { log.push_back(text); };
  auto engine = Engine::open({.plan = folder_ / "two.plan", .log = sink, .machine = machine});
  ASSERT_TRUE(engine.ok()) << engine.error().render();
  EXPECT_EQ((*engine)->target().name()->str(), "reference");
  ASSERT_EQ(log.size(), 1u); // never silently
  EXPECT_TRUE(contains(log[0], "needs avx512f")) << log[0];

  machine.features = {"avx512f"};
  engine = Engine::open({.plan = folder_ / "two.plan", .machine = machine});
  ASSERT_TRUE(engine.ok());
  EXPECT_EQ((*engine)->target().name()->str(), "cpu:x86-64-v4");
  engine = Engine::open({.plan = folder_ / "two.plan", .target = "reference", .machine = machine});
  ASSERT_TRUE(engine.ok());
  EXPECT_EQ((*engine)->target().name()->str(), "reference");
  const Error error = refused({.plan = folder_ / "two.plan", .target = "cuda:sm_90", .machine = machine});
  EXPECT_EQ(error.kind, ErrorKind::TargetMismatch);
  EXPECT_TRUE(contains(error.message, "cpu:x86-64-v4, reference")) << error.message;
}

TEST_F(EngineTest, UnknownExecutor) {
  plan::PlanT plan = model_.plan("tiny.ninfer");
  plan.targets[0]->name = "npu:one";
  plan.targets[0]->executor = "npu";
  const Error error = refusedPlan(plan);
  EXPECT_EQ(error.kind, ErrorKind::TargetMismatch);
  EXPECT_TRUE(contains(error.message, "plan: npu:one needs the executor 'npu', this build: cpu, cuda, reference"))
      << error.message;
}

TEST_F(EngineTest, BuiltinsOfANewerRuntime) {
  plan::PlanT plan = model_.plan("tiny.ninfer");
  plan.targets[0]->kernels[0]->symbol = "ref.teleport";
  const Error error = refusedPlan(plan);
  EXPECT_EQ(error.kind, ErrorKind::TargetMismatch);
  EXPECT_TRUE(contains(error.message, "ref.teleport")) << error.message;
}

// A launch whose memory is smaller than what its built-in touches would be a stray write.
TEST_F(EngineTest, LaunchesThatDoNotFitTheirBuiltin) {
  plan::PlanT wide = model_.plan("tiny.ninfer");
  for (auto &kernel : wide.targets[0]->kernels)
    if (kernel->symbol == "ref.swiglu")
      kernel->attributes[0]->i = 1000;
  EXPECT_EQ(refusedPlan(wide).code, "NB0604");

  plan::PlanT shallow = model_.plan("tiny.ninfer");
  for (auto &kernel : shallow.targets[0]->kernels)
    if (kernel->symbol == "ref.rope")
      for (auto &attribute : kernel->attributes)
        if (attribute->name == "capacity")
          attribute->i = 16;
  const Error error = refusedPlan(shallow);
  EXPECT_EQ(error.code, "NB0604");
  EXPECT_TRUE(contains(error.message, "16 positions")) << error.message;

  // The last argument of every launch but the first is its result; the payload is mapped read-only.
  plan::PlanT readOnly = model_.plan("tiny.ninfer");
  for (auto &phase : readOnly.targets[0]->phases)
    for (auto &launch : phase->launches)
      if (phase->kind != plan::PhaseKind::Setup) {
        const plan::Ref &out = launch->args.back();
        launch->args.back() = plan::Ref(plan::Space::Payload, 0, 0, out.bytes());
      }
  const Error written = refusedPlan(readOnly);
  EXPECT_EQ(written.code, "NB0604");
  EXPECT_TRUE(contains(written.message, "is written and must lie in the arena")) << written.message;

  plan::PlanT arguments = model_.plan("tiny.ninfer");
  for (auto &kernel : arguments.targets[0]->kernels)
    if (kernel->symbol == "ref.add")
      kernel->symbol = "ref.last_row";
  EXPECT_EQ(refusedPlan(arguments).kind, ErrorKind::BadFile);
}

TEST_F(EngineTest, MachineCodeWithoutTheFunction) {
  plan::PlanT plan = model_.plan("tiny.ninfer");
  auto &kernel = plan.targets[0]->kernels[1];
  kernel->kind = plan::KernelKind::Elf;
  kernel->attributes.clear();
  kernel->symbol = "absent";
  const auto code = readFile(std::string(NINFER_IMAGE_DIR) + "/kernels_good.so").take();
  const auto bytes = std::as_bytes(std::span(code.data(), code.size()));
  writeBytes(folder_ / "code.plan", buildBytes(plan, {{"code", {bytes.begin(), bytes.end()}}}));
  const Error error = refused({.plan = folder_ / "code.plan"});
  EXPECT_EQ(error.code, "NB0605");
  EXPECT_TRUE(contains(error.message, "'absent'")) << error.message;

  writeBytes(folder_ / "noelf.plan", buildBytes(plan, {{"code", std::vector<std::byte>(300, std::byte{1})}}));
  EXPECT_EQ(refused({.plan = folder_ / "noelf.plan"}).code, "NB0610");
}
