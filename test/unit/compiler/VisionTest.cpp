// The vision tower as built and run: targets against each other with quantized words, grids, threads, and what the
// runtime refuses. Accuracy against transformers: test/e2e, vision-transformers-*.
#include "Workspace.h"
#include "runtime/executor/Tower.h"
#include "runtime/include/ninfer/ninfer.h"
#include "runtime/loader/Machine.h"

#include <cmath>

using namespace ninfer;
using namespace ninfer::test;

namespace {

std::vector<std::string> allTargets() {
  const Machine machine = Machine::detect();
  std::vector<std::string> names = {"reference"};
  if (machine.lacks({"avx2", "fma", "f16c"}).empty())
    names.push_back("cpu:x86-64-v3");
  if (machine.lacks({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}).empty())
    names.push_back("cpu:x86-64-v4");
  return names;
}

class VisionTest : public Workspace {
protected:
  /// A random artifact with a tiny tower (merge 2, patches of 96 elements) and its plan of at most 48 patches.
  void makePlan(const std::string &recipe, std::vector<std::string> targets, bool vision = true) {
    const ChildResult made = run({NINFER_MAKE_QWEN_ARTIFACT, file("m.ninfer").string(), "--preset", "tiny", "--layers", "1",
                                  "--layer-types", "f", "--no-mtp", "--vision", "tiny", "--recipe", recipe, "--random", "3"});
    ASSERT_EQ(made.exitCode, 0) << made.err;
    BuildOptions wanted = options(file("m.ninfer"), std::move(targets));
    wanted.cache.directory = file("kernels").string();
    wanted.maxContext = 64;
    wanted.prefillChunk = 8;
    wanted.vision = vision;
    if (vision)
      wanted.visionMaxPatches = 48;
    auto report = build(wanted);
    ASSERT_TRUE(report.ok()) << report.error().render();
  }

  std::shared_ptr<const Engine> open(const std::string &target) {
    auto engine = Engine::open({.plan = file("plan.bin"), .target = target});
    EXPECT_TRUE(engine.ok()) << engine.error().render();
    return engine.ok() ? engine.take() : nullptr;
  }

  static std::vector<float> patchesOf(const vision::Grid &grid) {
    std::vector<float> patches(size_t(grid.patches()) * 96);
    uint32_t seed = uint32_t(grid.height * 100 + grid.width);
    for (float &value : patches) {
      seed = seed * 1664525u + 1013904223u;
      value = float(seed >> 8) * 0x1p-23f - 1;
    }
    return patches;
  }

  static std::vector<float> encode(Context &context, const vision::Grid &grid) {
    const auto tower = Tower::of(context.engine());
    EXPECT_TRUE(tower.ok());
    const std::vector<float> patches = patchesOf(grid);
    const auto values = tower->encode(context, patches, grid);
    EXPECT_TRUE(values.ok());
    return values.ok() ? std::vector<float>(values->begin(), values->end()) : std::vector<float>();
  }
};

/// Largest difference over the root mean square of the expected values.
double distance(const std::vector<float> &got, const std::vector<float> &expected) {
  EXPECT_EQ(got.size(), expected.size());
  double worst = 0, squares = 0;
  for (size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    worst = std::max(worst, std::isfinite(got[i]) ? std::abs(double(got[i]) - expected[i]) : HUGE_VAL);
    squares += double(expected[i]) * expected[i];
  }
  return worst / std::sqrt(squares / double(expected.size()));
}

const vision::Grid kGrids[] = {{2, 2}, {2, 24}, {24, 2}, {6, 8}, {4, 6}, {2, 4}};

// Against the built-ins, for any number of threads to the bit. bf16: float32 sums of at most 192 terms through about 30
// operators, 1e-5. mixed: a 16-bit activation is off by 2^-12 rms over sqrt(12) = 7e-5 in each of 11 maps in a row (patches,
// two layers of four, the merger's two), and the largest of some hundred values lies 4 deviations off:
// sqrt(11) * 4 * 7e-5 = 9.3e-4.
TEST_F(VisionTest, EveryTargetAgrees) {
  for (const auto &[recipe, criterion] : {std::pair("bf16", 1e-5), std::pair("mixed", 9.3e-4)}) {
    makePlan(recipe, allTargets());
    std::vector<std::vector<float>> reference;
    for (const std::string &target : allTargets()) {
      const auto engine = open(target);
      ASSERT_TRUE(engine);
      std::vector<std::vector<float>> one;
      for (unsigned threads : {1u, 2u, 3u}) {
        auto context = Context::create(engine, {.threads = threads});
        ASSERT_TRUE(context.ok());
        for (size_t i = 0; i < std::size(kGrids); ++i) {
          const std::vector<float> got = encode(**context, kGrids[i]);
          ASSERT_EQ(got.size(), size_t(kGrids[i].patches() / 4 * 128));
          if (threads == 1)
            one.push_back(got);
          else
            EXPECT_EQ(got, one[i]) << target << ", " << threads << " threads";
        }
      }
      if (reference.empty())
        reference = one;
      for (size_t i = 0; i < one.size(); ++i)
        EXPECT_LE(distance(one[i], reference[i]), criterion) << recipe << " " << target << " grid " << i;
    }
  }
}

// The order of the squares is no input of the tower but their positions are: an image and the one with its halves changed
// differ, and so does a grid of the same patches with other sides.
TEST_F(VisionTest, PositionsCount) {
  makePlan("bf16", {"reference"});
  auto context = Context::create(open("reference"), {.threads = 1});
  ASSERT_TRUE(context.ok());
  const auto tower = Tower::of((*context)->engine());
  ASSERT_TRUE(tower.ok());
  const std::vector<float> patches = patchesOf({4, 6});
  auto run = [&](const std::vector<float> &rows, const vision::Grid &grid) {
    const auto values = tower->encode(**context, rows, grid);
    EXPECT_TRUE(values.ok());
    return std::vector<float>(values->begin(), values->end());
  };
  const std::vector<float> first = run(patches, {4, 6});
  EXPECT_EQ(run(patches, {4, 6}), first); // and nothing is left over from another call
  EXPECT_GT(distance(run(patches, {6, 4}), first), 0.01);
  std::vector<float> swapped(patches.begin() + 12 * 96, patches.end());
  swapped.insert(swapped.end(), patches.begin(), patches.begin() + 12 * 96);
  std::vector<float> moved = run(swapped, {4, 6});
  std::rotate(moved.begin(), moved.begin() + 3 * 128, moved.end());
  EXPECT_GT(distance(moved, first), 0.01);
}

// Text before and after an image: the sequence stays, the logits of before are gone.
TEST_F(VisionTest, TheSequenceStays) {
  makePlan("bf16", {"reference"});
  const auto engine = open("reference");
  auto with = Context::create(engine, {.threads = 1}), without = Context::create(engine, {.threads = 1});
  ASSERT_TRUE(with.ok() && without.ok());
  const std::vector<int32_t> tokens = {5, 9, 11}, more = {7};
  for (Context *context : {with->get(), without->get()})
    ASSERT_TRUE(context->submit(tokens).ok());
  EXPECT_FALSE((*with)->logits().empty());
  (void)encode(**with, {4, 4});
  EXPECT_TRUE((*with)->logits().empty());
  EXPECT_EQ((*with)->position(), 3u);
  for (Context *context : {with->get(), without->get()})
    ASSERT_TRUE(context->submit(more).ok());
  EXPECT_TRUE(std::equal((*with)->logits().begin(), (*with)->logits().end(), (*without)->logits().begin()));
  EXPECT_EQ((*with)->stats().encodeCalls, 1u);
  EXPECT_EQ((*with)->stats().encodeRows, 16u);
}

TEST_F(VisionTest, RefusesWhatDoesNotFit) {
  makePlan("bf16", {"reference"});
  auto context = Context::create(open("reference"), {.threads = 1});
  ASSERT_TRUE(context.ok());
  const auto tower = Tower::of((*context)->engine());
  ASSERT_TRUE(tower.ok());
  EXPECT_EQ(tower->maxPatches(), 48);
  EXPECT_EQ(tower->merge(), 2);
  EXPECT_EQ(tower->patchWidth(), 96);
  EXPECT_EQ(tower->embeddingWidth(), 128);
  const std::vector<float> patches = patchesOf({8, 8});
  for (const auto &[grid, count] : {std::pair(vision::Grid{8, 8}, 64), std::pair(vision::Grid{3, 4}, 12),
                                    std::pair(vision::Grid{0, 4}, 0), std::pair(vision::Grid{4, 4}, 15)}) {
    const auto refused = tower->encode(**context, std::span(patches).first(size_t(count * 96)), grid);
    ASSERT_FALSE(refused.ok()) << grid.height << " x " << grid.width;
    EXPECT_EQ(refused.error().code, "NB0676");
  }
  (*context)->cancel();
  const auto cancelled = tower->encode(**context, std::span(patches).first(16 * 96), {4, 4});
  ASSERT_FALSE(cancelled.ok());
  EXPECT_EQ(cancelled.error().code, "NB0653");
  EXPECT_TRUE(tower->encode(**context, std::span(patches).first(16 * 96), {4, 4}).ok());
}

TEST_F(VisionTest, APlanWithoutTowerSaysSo) {
  makePlan("bf16", {"reference"}, /*vision=*/false);
  const auto tower = Tower::of(*open("reference"));
  ASSERT_FALSE(tower.ok());
  EXPECT_EQ(tower.error().code, "NB0675");
  EXPECT_EQ(tower.error().kind, ErrorKind::Unsupported);
}

TEST_F(VisionTest, CInterface) {
  makePlan("bf16", {"reference"});
  ninfer_open_options open = {};
  open.struct_size = sizeof(open);
  const std::string plan = file("plan.bin").string();
  open.plan_path = plan.c_str();
  ninfer_engine *engine = nullptr;
  ninfer_error *error = nullptr;
  ASSERT_EQ(ninfer_engine_open(&open, &engine, &error), NINFER_OK);
  ninfer_vision_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(ninfer_engine_get_vision(engine, &info, &error), NINFER_OK);
  EXPECT_EQ(info.max_patches, 48u);
  EXPECT_EQ(info.merge, 2u);
  EXPECT_EQ(info.patch_width, 96u);
  EXPECT_EQ(info.embedding_width, 128u);
  ninfer_context *context = nullptr;
  ASSERT_EQ(ninfer_context_create(engine, nullptr, &context, &error), NINFER_OK);
  const std::vector<float> patches = patchesOf({4, 6});
  const float *values = nullptr;
  size_t count = 0;
  ASSERT_EQ(ninfer_context_encode_image(context, patches.data(), 4, 6, &values, &count, &error), NINFER_OK);
  EXPECT_EQ(count, 6u * 128);
  auto twin = Context::create(this->open("reference"), {.threads = 1});
  ASSERT_TRUE(twin.ok());
  EXPECT_EQ(std::vector<float>(values, values + count), encode(**twin, {4, 6}));
  EXPECT_EQ(ninfer_context_encode_image(context, patches.data(), 5, 6, &values, &count, &error), NINFER_USAGE);
  EXPECT_STREQ(ninfer_error_code(error), "NB0676");
  ninfer_error_release(error);
  ninfer_context_release(context);
  ninfer_engine_release(engine);
}

// Rows of the plan's record: whole squares at least and at most; the output is that of merged squares.
TEST_F(VisionTest, ThePlanRecordsItsPorts) {
  makePlan("bf16", {"reference"});
  const auto engine = open("reference");
  const plan::Phase *phase = engine->phase(plan::PhaseKind::Encode);
  ASSERT_NE(phase, nullptr);
  EXPECT_EQ(phase->min_rows(), 4u);
  EXPECT_EQ(phase->max_rows(), 48u);
  ASSERT_EQ(phase->inputs()->size(), 4u);
  ASSERT_EQ(phase->outputs()->size(), 1u);
  EXPECT_EQ(phase->outputs()->Get(0)->width(), 32u); // 128 / 4
  EXPECT_EQ(phase->outputs()->Get(0)->ref()->bytes(), 48u * 32 * 4);
}

TEST_F(VisionTest, OptionsAreChecked) {
  makePlan("bf16", {"reference"});
  BuildOptions wanted = options(file("m.ninfer"));
  wanted.output.clear();
  wanted.visionMaxPatches = 8;
  EXPECT_EQ(build(wanted).error().code, "NB0403");
  wanted.vision = true;
  for (int64_t patches : {0, 2, 6, -4}) {
    wanted.visionMaxPatches = patches;
    EXPECT_EQ(build(wanted).error().code, "NB0403") << patches;
  }
  wanted.visionMaxPatches = 4100; // beyond the catalog's rows
  const auto tooMany = build(wanted);
  ASSERT_FALSE(tooMany.ok());
  EXPECT_EQ(tooMany.error().code, "NB0412");
  EXPECT_NE(tooMany.error().render().find("rows: expected at most 4096, got 4100"), std::string::npos)
      << tooMany.error().render();
}

} // namespace
