#include "runtime/executor/Context.h"

#include "support/File.h"
#include "test/unit/runtime/AllocationCount.h"
#include "test/unit/runtime/DraftModel.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <thread>

using namespace ninfer;
using namespace ninfer::test;

namespace {

std::unique_ptr<Context> makeContext(const std::filesystem::path &plan, const ContextOptions &options = {.threads = 1}) {
  auto engine = Engine::open({.plan = plan});
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().render());
  if (!engine.ok())
    return nullptr;
  auto context = Context::create(*engine, options);
  EXPECT_TRUE(context.ok()) << (context.ok() ? "" : context.error().render());
  return context.ok() ? context.take() : nullptr;
}

std::vector<int32_t> someTokens(size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back(int32_t((i * 37 + 11) % TinyModel::kVocab));
  return tokens;
}

std::vector<float> logitsOf(const Context &context) {
  const auto logits = context.logits();
  return {logits.begin(), logits.end()};
}

class ExecutorTest : public testing::Test {
protected:
  void SetUp() override { plan_ = writeTiny(folder_, model_); }
  TemporaryFolder folder_;
  TinyModel model_;
  std::filesystem::path plan_;
};

} // namespace

TEST(AllocationCount, CountsEveryKind) {
  for (int kind = 0; kind < 5; ++kind) {
    const uint64_t before = allocationCount();
    void *volatile memory = kind == 0   ? std::malloc(100)
                            : kind == 1 ? std::calloc(10, 10)
                            : kind == 2 ? std::realloc(nullptr, 100)
                            : kind == 3 ? std::aligned_alloc(64, 128)
                                        : static_cast<void *>(new char[100]);
    EXPECT_EQ(allocationCount() - before, 1u) << kind;
    if (kind == 4)
      delete[] static_cast<char *>(memory);
    else
      std::free(memory);
  }
  const uint64_t before = privateMappedBytes();
  ASSERT_GT(before, 0u);
  void *memory = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_GE(privateMappedBytes() - before, 1u << 20);
  munmap(memory, 1 << 20);
}

// Rounding of activations to float32 between operators, K <= 96: relative error of a few 1e-6 of the largest logit.
TEST_F(ExecutorTest, LogitsAgreeWithTheOracle) {
  auto context = makeContext(plan_);
  ASSERT_TRUE(context);
  for (size_t length : {1, 2, 7, 8, 9, 16, 25, 32}) {
    const std::vector<int32_t> tokens = someTokens(length);
    ASSERT_TRUE(context->truncate(0).ok());
    Status status = context->submit(tokens);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(context->position(), length);
    const std::vector<double> expected = model_.logits(tokens);
    double largest = 0, error = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      error = std::max(error, std::abs(expected[i] - double(context->logits()[i])));
    }
    EXPECT_GT(largest, 0.1);
    EXPECT_LT(error, 2e-5 * largest) << length << " tokens";
  }
}

// Prefill in chunks, prefill then decode, and decode alone end in the same bits, for every length and tail.
TEST_F(ExecutorTest, ChunksDoNotChangeTheResult) {
  auto whole = makeContext(plan_), steps = makeContext(plan_), split = makeContext(plan_);
  ASSERT_TRUE(whole && steps && split);
  for (size_t length = 1; length <= 32; ++length) {
    const std::vector<int32_t> tokens = someTokens(length);
    ASSERT_TRUE(whole->truncate(0).ok());
    ASSERT_TRUE(whole->submit(tokens).ok());
    ASSERT_TRUE(steps->submit(std::span(tokens).last(1)).ok()); // keeps going from the length before
    const size_t cut = length / 3;
    ASSERT_TRUE(split->truncate(0).ok());
    if (cut) {
      ASSERT_TRUE(split->submit(std::span(tokens).first(cut)).ok());
    }
    ASSERT_TRUE(split->submit(std::span(tokens).subspan(cut)).ok());
    EXPECT_EQ(logitsOf(*whole), logitsOf(*steps)) << length;
    EXPECT_EQ(logitsOf(*whole), logitsOf(*split)) << length;
  }
  EXPECT_EQ(steps->stats().prefillTokens, 0u);
  EXPECT_EQ(steps->stats().decodeTokens, 32u);
}

TEST_F(ExecutorTest, ThreadsDoNotChangeTheResult) {
  const std::vector<int32_t> tokens = someTokens(21);
  std::vector<float> expected;
  for (unsigned threads : {1u, 2u, 3u, 5u}) {
    for (bool pin : {true, false}) {
      auto context = makeContext(plan_, {.threads = threads, .pin = pin});
      ASSERT_TRUE(context);
      ASSERT_TRUE(context->submit(tokens).ok());
      ASSERT_TRUE(context->submit(std::span(tokens).first(1)).ok());
      if (expected.empty())
        expected = logitsOf(*context);
      EXPECT_EQ(logitsOf(*context), expected) << threads << " threads";
    }
  }
}

TEST_F(ExecutorTest, Bf16CacheStaysClose) {
  TinyModel model({.codec = "bf16"});
  model.writeArtifact(folder_ / "bf16.ninfer");
  writeBytes(folder_ / "bf16.plan", buildBytes(model.plan("bf16.ninfer")));
  auto context = makeContext(folder_ / "bf16.plan");
  ASSERT_TRUE(context);
  const std::vector<int32_t> tokens = someTokens(20);
  ASSERT_TRUE(context->submit(tokens).ok());
  const std::vector<double> expected = model.logits(tokens);
  double largest = 0, error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(expected[i] - double(context->logits()[i])));
  }
  EXPECT_LT(error, 2e-2 * largest); // 8 bits of mantissa in keys and values
  EXPECT_GT(error, 1e-6 * largest); // and not the float32 cache by mistake
}

TEST_F(ExecutorTest, OverflowIsRefusedBeforeAnyWork) {
  auto context = makeContext(plan_);
  ASSERT_TRUE(context);
  Status status = context->submit(someTokens(33));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::Usage);
  EXPECT_EQ(status.error().code, "NB0652");
  EXPECT_EQ(context->position(), 0u);
  ASSERT_TRUE(context->submit(someTokens(32)).ok());
  const auto before = logitsOf(*context);
  status = context->submit(someTokens(1));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("32 positions"), std::string::npos) << status.error().message;
  EXPECT_EQ(context->position(), 32u);
  EXPECT_EQ(logitsOf(*context), before);
}

TEST_F(ExecutorTest, BadTokensAreRefused) {
  auto context = makeContext(plan_);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->submit({}).takeError().code, "NB0650");
  for (int32_t token : {-1, int32_t(TinyModel::kVocab), INT32_MAX, INT32_MIN}) {
    const std::vector<int32_t> tokens = {1, 2, token};
    const Error error = context->submit(tokens).takeError();
    EXPECT_EQ(error.code, "NB0651");
    EXPECT_NE(error.message.find("token 2 is " + std::to_string(token)), std::string::npos) << error.message;
  }
  EXPECT_EQ(context->position(), 0u);
  EXPECT_TRUE(context->logits().empty());
}

TEST_F(ExecutorTest, TruncateForgets) {
  auto context = makeContext(plan_);
  ASSERT_TRUE(context);
  const std::vector<int32_t> tokens = someTokens(12);
  ASSERT_TRUE(context->submit(tokens).ok());
  const auto expected = logitsOf(*context);
  EXPECT_EQ(context->truncate(13).takeError().code, "NB0655");
  ASSERT_TRUE(context->submit(someTokens(9)).ok());
  ASSERT_TRUE(context->truncate(5).ok());
  EXPECT_TRUE(context->logits().empty());
  ASSERT_TRUE(context->submit(std::span(tokens).subspan(5)).ok());
  EXPECT_EQ(logitsOf(*context), expected);
}

// A state that is not indexed by position cannot be cut; starting afresh clears it.
TEST_F(ExecutorTest, OtherStatesStartAfreshOnly) {
  plan::PlanT plan = model_.plan("tiny.ninfer");
  for (auto &state : plan.targets[0]->states)
    if (state->kind == "kv_cache")
      state->kind = "recurrent";
  writeBytes(folder_ / "other.plan", buildBytes(plan));
  auto context = makeContext(folder_ / "other.plan");
  ASSERT_TRUE(context);
  const std::vector<int32_t> tokens = someTokens(6);
  ASSERT_TRUE(context->submit(tokens).ok());
  const auto expected = logitsOf(*context);
  EXPECT_EQ(context->truncate(3).takeError().code, "NB0656");
  ASSERT_TRUE(context->truncate(0).ok());
  ASSERT_TRUE(context->submit(tokens).ok());
  EXPECT_EQ(logitsOf(*context), expected);
}

TEST_F(ExecutorTest, CancelStopsAndTheContextGoesOn) {
  for (unsigned threads : {1u, 3u}) {
    auto context = makeContext(plan_, {.threads = threads});
    ASSERT_TRUE(context);
    const std::vector<int32_t> tokens = someTokens(10);
    ASSERT_TRUE(context->submit(tokens).ok());
    const auto expected = logitsOf(*context);
    ASSERT_TRUE(context->truncate(0).ok());
    context->cancel();
    const Error error = context->submit(tokens).takeError();
    EXPECT_EQ(error.kind, ErrorKind::Interrupted);
    EXPECT_EQ(context->position(), 0u);
    // In the middle of work: wherever it lands, the sequence ends at a whole call and can be continued.
    for (int round = 0; round < 20; ++round) {
      ASSERT_TRUE(context->truncate(0).ok());
      std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(round * 50));
        context->cancel();
      });
      Status status = context->submit(tokens);
      other.join();
      if (!status.ok()) {
        EXPECT_EQ(status.error().kind, ErrorKind::Interrupted);
        EXPECT_EQ(context->position() % 8, 0u);
        EXPECT_LT(context->position(), 10u);
      } else {
        // It came too late: the next submit takes it.
        ASSERT_TRUE(context->truncate(9).ok());
        EXPECT_EQ(context->submit(std::span(tokens).last(1)).takeError().kind, ErrorKind::Interrupted);
      }
      ASSERT_TRUE(context->submit(std::span(tokens).subspan(context->position())).ok());
      EXPECT_EQ(logitsOf(*context), expected);
    }
  }
}

TEST_F(ExecutorTest, NoAllocationAfterCreation) {
  for (unsigned threads : {1u, 2u}) {
    auto context = makeContext(plan_, {.threads = threads});
    ASSERT_TRUE(context);
    const std::vector<int32_t> tokens = someTokens(20);
    const uint64_t before = allocationCount(), mapped = privateMappedBytes();
    for (int round = 0; round < 3; ++round) {
      Status first = context->submit(tokens);
      Status second = context->submit(std::span(tokens).first(1));
      Status third = context->truncate(0);
      ASSERT_TRUE(first.ok() && second.ok() && third.ok());
    }
    EXPECT_EQ(allocationCount() - before, 0u);
    EXPECT_EQ(privateMappedBytes(), mapped);
  }
}

TEST_F(ExecutorTest, NoAllocationWhileSpeculating) {
  DraftModel model({.recurrent = true});
  auto context = makeContext(model.write(folder_), {.threads = 2, .draft = true});
  ASSERT_TRUE(context);
  const std::vector<int32_t> tokens = someTokens(20);
  std::vector<int32_t> drafts(3);
  const uint64_t before = allocationCount(), mapped = privateMappedBytes();
  for (int round = 0; round < 3; ++round) {
    Status submitted = context->submit(tokens);
    auto drafted = context->draft(5, drafts);
    Status verified = context->verify(drafts);
    Status accepted = context->accept(2);
    Status truncated = context->truncate(0);
    ASSERT_TRUE(submitted.ok() && drafted.ok() && verified.ok() && accepted.ok() && truncated.ok());
  }
  EXPECT_EQ(allocationCount() - before, 0u);
  EXPECT_EQ(privateMappedBytes(), mapped);
}

TEST_F(ExecutorTest, ProfileCountsEveryPhase) {
  DraftModel model({.recurrent = true});
  auto context = makeContext(model.write(folder_), {.threads = 1, .profile = true, .draft = true});
  ASSERT_TRUE(context);
  std::vector<int32_t> drafts(3);
  ASSERT_TRUE(context->submit(someTokens(11)).ok());
  ASSERT_TRUE(context->draft(5, drafts).ok());
  ASSERT_TRUE(context->verify(drafts).ok());
  ASSERT_TRUE(context->accept(2).ok());
  const std::map<std::string, std::pair<uint64_t, uint64_t>> expected = { // calls, rows
      {"setup", {1, 1}},      {"decode", {0, 0}}, {"prefill", {2, 11}}, {"verify", {1, 3}},
      {"draft", {3, 8 + 3 + 3}}, {"draft_next", {2, 2}}, {"commit", {1, 2}}};
  for (const ProgramPhase &phase : context->program().phases()) {
    const ProgramLaunch &launch = phase.launches.front();
    const auto [calls, rows] = expected.at(phase.source->name()->str());
    EXPECT_EQ(launch.calls, calls) << phase.source->name()->str();
    EXPECT_EQ(launch.rows, rows) << phase.source->name()->str();
    EXPECT_EQ(launch.ns > 0, calls > 0) << phase.source->name()->str();
  }
}

TEST_F(ExecutorTest, LedgerIsExactAndBinding) {
  auto engine = Engine::open({.plan = plan_});
  ASSERT_TRUE(engine.ok());
  const Ledger ledger = makeLedger(**engine, {.threads = 3}, 8);
  EXPECT_EQ(ledger.threads, 3u);
  EXPECT_EQ(makeLedger(**engine, {}, 8).threads, 8u);
  // KV: 2 layers x 2 x (2 heads x 32 positions x 16) float32, 32 x 8 pairs of the table; whole pages.
  EXPECT_EQ(ledger.stateBytes, (2u * 2 * 2 * 32 * 16 * 4 + 32 * 8 * 8 + 4095) / 4096 * 4096);
  EXPECT_EQ(ledger.scratchBytes, 3u * 4096);
  EXPECT_EQ(ledger.weightsBytes, (*engine)->payload().size());

  auto refused = Context::create(*engine, {.threads = 3, .memoryLimit = ledger.anonymousBytes() - 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::OutOfMemory);
  EXPECT_NE(refused.error().message.find("needs"), std::string::npos);
  EXPECT_NE(refused.error().message.find("available"), std::string::npos);
  auto accepted = Context::create(*engine, {.threads = 3, .memoryLimit = ledger.anonymousBytes()});
  ASSERT_TRUE(accepted.ok());
  EXPECT_EQ((*accepted)->ledger().anonymousBytes(), ledger.anonymousBytes());
  EXPECT_EQ(Context::create(*engine, {.threads = 5000}).error().kind, ErrorKind::Usage);
}

TEST_F(ExecutorTest, ProfileCountsEveryLaunch) {
  auto context = makeContext(plan_, {.threads = 2, .profile = true});
  ASSERT_TRUE(context);
  ASSERT_TRUE(context->submit(someTokens(17)).ok()); // 8 + 8 + 1
  for (const ProgramPhase &phase : context->program().phases()) {
    const bool setup = phase.source->kind() == plan::PhaseKind::Setup;
    const bool prefill = phase.source->kind() == plan::PhaseKind::Prefill;
    for (const ProgramLaunch &launch : phase.launches) {
      EXPECT_EQ(launch.calls, prefill ? 2u : 1u);
      EXPECT_EQ(launch.rows, prefill ? 16u : 1u);
      if (!setup) {
        EXPECT_GT(launch.ns, 0u);
      }
    }
  }
}

// --- machine code ------------------------------------------------------------------------------------------

namespace {

/// Replaces the launches of both phases by two kernels of the ELF fixture: `mark` writes its tiles, `spread`
/// reads the first of them into the logits.
plan::PlanT codePlan(const TinyModel &model, uint64_t tilesConst, uint64_t tilesPerRow) {
  plan::PlanT plan = model.plan("tiny.ninfer");
  plan::TargetT &target = *plan.targets[0];
  target.name = "cpu:test";
  target.executor = "cpu";
  target.scratch_bytes_per_thread = 64;
  for (const char *symbol : {"mark", "spread"}) {
    auto kernel = std::make_unique<plan::KernelT>();
    kernel->name = symbol;
    kernel->kind = plan::KernelKind::Elf;
    kernel->symbol = symbol;
    kernel->scratch_bytes = 64;
    kernel->num_args = std::string(symbol) == "mark" ? 1 : 2;
    target.kernels.push_back(std::move(kernel));
  }
  const uint32_t mark = uint32_t(target.kernels.size()) - 2;
  for (auto &phase : target.phases) {
    if (phase->kind == plan::PhaseKind::Setup)
      continue;
    phase->launches.clear();
    const uint64_t tiles = tilesConst + tilesPerRow * phase->max_rows;
    const plan::Ref marks(plan::Space::Arena, 0, target.arena_bytes, tiles * 4);
    target.arena_bytes += (tiles * 4 + 63) / 64 * 64;
    auto first = std::make_unique<plan::LaunchT>();
    first->kernel = mark;
    first->tiles_const = tilesConst;
    first->tiles_per_row = tilesPerRow;
    first->args = {marks};
    auto second = std::make_unique<plan::LaunchT>();
    second->kernel = mark + 1;
    second->tiles_const = TinyModel::kVocab;
    second->args = {marks, *phase->logits};
    phase->launches.push_back(std::move(first));
    phase->launches.push_back(std::move(second));
  }
  return plan;
}

} // namespace

TEST_F(ExecutorTest, MachineCodeSeesTilesScalarsAndTheBarrier) {
  const auto code = readFile(std::string(NINFER_IMAGE_DIR) + "/kernels_good.so").take();
  const auto bytes = std::as_bytes(std::span(code.data(), code.size()));
  for (const auto &[tilesConst, tilesPerRow] : {std::pair<uint64_t, uint64_t>{1, 0}, {5, 0}, {0, 3}, {2, 1}}) {
    writeBytes(folder_ / "code.plan",
               buildBytes(codePlan(model_, tilesConst, tilesPerRow), {{"code", {bytes.begin(), bytes.end()}}}));
    for (CodeMapping mapping : {CodeMapping::Auto, CodeMapping::Direct, CodeMapping::Memory}) {
      auto engine = Engine::open({.plan = folder_ / "code.plan", .codeMapping = mapping});
      ASSERT_TRUE(engine.ok()) << engine.error().render();
      EXPECT_STREQ((*engine)->codeMapped(), mapping == CodeMapping::Memory ? "memory" : "direct");
      for (unsigned threads : {1u, 2u, 3u, 7u}) {
        auto context = Context::create(*engine, {.threads = threads});
        ASSERT_TRUE(context.ok()) << context.error().render();
        ASSERT_TRUE((*context)->submit(someTokens(5)).ok()); // one call of 5 rows at position 0
        ASSERT_TRUE((*context)->submit(someTokens(1)).ok()); // one row at position 5
        const ProgramPhase *phases = (*context)->program().phases().data();
        for (size_t p = 0; p < (*context)->program().phases().size(); ++p) {
          if (phases[p].source->kind() == plan::PhaseKind::Setup)
            continue;
          const bool prefill = phases[p].source->kind() == plan::PhaseKind::Prefill;
          const int64_t rows = prefill ? 5 : 1, position = prefill ? 0 : 5;
          const auto *marks = static_cast<const int32_t *>(phases[p].launches[0].args[0]);
          for (int64_t tile = 0; tile < int64_t(tilesConst + tilesPerRow * uint64_t(rows)); ++tile)
            EXPECT_EQ(marks[tile], tile + 100 * rows + 10000 * position);
        }
        for (size_t i = 0; i < TinyModel::kVocab; ++i)
          ASSERT_EQ((*context)->logits()[i], float(100 + 50000 + int(i)));
      }
    }
  }
}
