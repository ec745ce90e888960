// The C API: structs of other sizes, error objects, ownership, use from C.
#include "runtime/include/ninfer/ninfer.h"

#include "test/unit/runtime/DraftModel.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace ninfer;
using namespace ninfer::test;

extern "C" ninfer_status run_from_c(const char *plan, const int32_t *tokens, size_t count, float *logit);

namespace {

class ApiTest : public testing::Test {
protected:
  void SetUp() override { plan_ = writeTiny(folder_, model_).string(); }
  ninfer_open_options options() const {
    ninfer_open_options options = {};
    options.struct_size = sizeof(options);
    options.plan_path = plan_.c_str();
    return options;
  }
  ninfer_engine *open() {
    const ninfer_open_options given = options();
    ninfer_engine *engine = nullptr;
    EXPECT_EQ(ninfer_engine_open(&given, &engine, nullptr), NINFER_OK);
    return engine;
  }

  TemporaryFolder folder_;
  TinyModel model_;
  std::string plan_;
};

} // namespace

TEST_F(ApiTest, WorksFromC) {
  const std::vector<int32_t> tokens = {5, 6, 7, 8};
  float logit = 0;
  ASSERT_EQ(run_from_c(plan_.c_str(), tokens.data(), tokens.size(), &logit), NINFER_OK);
  const double expected = model_.logits(tokens)[0];
  EXPECT_NEAR(logit, expected, 1e-4);
  EXPECT_EQ(run_from_c("/no/such/plan", tokens.data(), tokens.size(), &logit), NINFER_BAD_FILE);
  EXPECT_EQ(run_from_c(plan_.c_str(), tokens.data(), 0, &logit), NINFER_USAGE);
}

TEST_F(ApiTest, ErrorObjectHasEverything) {
  ninfer_open_options given = options();
  given.weights_path = "/no/such/weights";
  ninfer_engine *engine = nullptr;
  ninfer_error *error = nullptr;
  ASSERT_EQ(ninfer_engine_open(&given, &engine, &error), NINFER_BAD_FILE);
  EXPECT_EQ(engine, nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(ninfer_error_status(error), NINFER_BAD_FILE);
  EXPECT_STREQ(ninfer_error_code(error), "NB0901");
  EXPECT_NE(std::string(ninfer_error_message(error)).find("/no/such/weights"), std::string::npos);
  EXPECT_EQ(std::string(ninfer_error_text(error)).rfind("error[NB0901]: ", 0), 0u);
  ninfer_error_release(error);
  ninfer_error_release(nullptr);
}

TEST_F(ApiTest, OptionStructsOfOtherVersions) {
  // An older caller: the struct ends after `target`.
  ninfer_open_options given = options();
  given.struct_size = offsetof(ninfer_open_options, log);
  given.log = reinterpret_cast<ninfer_log_fn>(uintptr_t(0xdead)); // beyond its end
  ninfer_engine *engine = nullptr;
  ASSERT_EQ(ninfer_engine_open(&given, &engine, nullptr), NINFER_OK);
  ninfer_engine_release(engine);

  // A newer caller: unknown fields are fine while they are zero.
  struct Newer {
    ninfer_open_options known;
    uint64_t unknown;
  } newer = {options(), 0};
  newer.known.struct_size = sizeof(newer);
  ASSERT_EQ(ninfer_engine_open(&newer.known, &engine, nullptr), NINFER_OK);
  ninfer_engine_release(engine);
  newer.unknown = 1;
  EXPECT_EQ(ninfer_engine_open(&newer.known, &engine, nullptr), NINFER_USAGE);

  given = options();
  given.struct_size = 0;
  EXPECT_EQ(ninfer_engine_open(&given, &engine, nullptr), NINFER_USAGE);
  given = options();
  given.plan_path = nullptr;
  EXPECT_EQ(ninfer_engine_open(&given, &engine, nullptr), NINFER_USAGE);
  EXPECT_EQ(ninfer_engine_open(nullptr, &engine, nullptr), NINFER_USAGE);
  given = options();
  given.code_mapping = ninfer_code_mapping(77);
  EXPECT_EQ(ninfer_engine_open(&given, &engine, nullptr), NINFER_USAGE);
}

TEST_F(ApiTest, ResultStructsOfOtherVersions) {
  ninfer_engine *engine = open();
  // An older caller gets the fields it knows and nothing is written behind them.
  struct {
    ninfer_engine_info info;
    char behind[8];
  } older;
  std::memset(&older, 0x55, sizeof(older));
  older.info.struct_size = offsetof(ninfer_engine_info, vocab_size);
  ASSERT_EQ(ninfer_engine_get_info(engine, &older.info, nullptr), NINFER_OK);
  EXPECT_STREQ(older.info.target, "reference");
  EXPECT_EQ(older.info.vocab_size, 0x55555555u);

  ninfer_engine_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(ninfer_engine_get_info(engine, &info, nullptr), NINFER_OK);
  EXPECT_EQ(info.vocab_size, uint32_t(TinyModel::kVocab));
  EXPECT_EQ(info.max_context, 32u);
  EXPECT_EQ(info.prefill_chunk, 8u);
  EXPECT_STREQ(info.public_name, "tiny");
  info.struct_size = 0;
  EXPECT_EQ(ninfer_engine_get_info(engine, &info, nullptr), NINFER_USAGE);
  ninfer_engine_release(engine);
}

TEST_F(ApiTest, LedgerBeforeTheContext) {
  ninfer_engine *engine = open();
  ninfer_context_options options = {};
  options.struct_size = sizeof(options);
  options.threads = 2;
  ninfer_ledger ledger = {};
  ledger.struct_size = sizeof(ledger);
  ASSERT_EQ(ninfer_engine_get_ledger(engine, &options, &ledger, nullptr), NINFER_OK);
  EXPECT_EQ(ledger.threads, 2u);
  EXPECT_EQ(ledger.anonymous_bytes,
            ledger.arena_bytes + ledger.state_bytes + ledger.scratch_bytes + ledger.host_bytes);
  EXPECT_EQ(ledger.total_bytes, ledger.anonymous_bytes + ledger.weights_bytes + ledger.plan_bytes + ledger.code_bytes + ledger.engine_bytes);
  options.memory_limit = ledger.anonymous_bytes - 1;
  ninfer_context *context = nullptr;
  ninfer_error *error = nullptr;
  EXPECT_EQ(ninfer_context_create(engine, &options, &context, &error), NINFER_OUT_OF_MEMORY);
  EXPECT_NE(std::string(ninfer_error_text(error)).find("--max-context"), std::string::npos);
  ninfer_error_release(error);
  ninfer_engine_release(engine);
}

TEST_F(ApiTest, StatsProfileAndLogits) {
  ninfer_engine *engine = open();
  ninfer_context *context = nullptr;
  ASSERT_EQ(ninfer_context_create(engine, nullptr, &context, nullptr), NINFER_OK);
  const float *logits = nullptr;
  size_t count = 0;
  EXPECT_EQ(ninfer_context_get_logits(context, &logits, &count, nullptr), NINFER_USAGE);
  const int32_t tokens[] = {1, 2, 3};
  ASSERT_EQ(ninfer_context_submit(context, tokens, 3, nullptr), NINFER_OK);
  ASSERT_EQ(ninfer_context_submit(context, tokens, 1, nullptr), NINFER_OK);
  EXPECT_EQ(ninfer_context_position(context), 4u);
  ASSERT_EQ(ninfer_context_get_logits(context, &logits, &count, nullptr), NINFER_OK);
  EXPECT_EQ(count, size_t(TinyModel::kVocab));
  ninfer_stats stats = {};
  stats.struct_size = sizeof(stats);
  ASSERT_EQ(ninfer_context_get_stats(context, &stats, nullptr), NINFER_OK);
  EXPECT_EQ(stats.prefill_tokens, 3u);
  EXPECT_EQ(stats.prefill_calls, 1u);
  EXPECT_EQ(stats.decode_tokens, 1u);
  const size_t entries = ninfer_context_profile_size(context);
  ninfer_profile_entry entry = {};
  entry.struct_size = sizeof(entry);
  ASSERT_EQ(ninfer_context_get_profile(context, entries - 1, &entry, nullptr), NINFER_OK);
  EXPECT_STREQ(entry.phase, "prefill");
  EXPECT_STREQ(entry.label, "text/output_head");
  EXPECT_EQ(ninfer_context_get_profile(context, entries, &entry, nullptr), NINFER_USAGE);
  ninfer_context_release(context);
  ninfer_engine_release(engine);
  EXPECT_EQ(ninfer_api_version(), NINFER_API_VERSION);
}

// Outputs belong to the last call: its rows and their positions, or its last row.
TEST_F(ApiTest, OutputsOfTheLastCall) {
  plan::PlanT plan = model_.plan("tiny.ninfer");
  addOutputs(plan);
  writeBytes(folder_ / "outputs.plan", buildBytes(plan));
  plan_ = (folder_ / "outputs.plan").string();
  ninfer_engine *engine = open();
  ninfer_context *context = nullptr;
  ASSERT_EQ(ninfer_context_create(engine, nullptr, &context, nullptr), NINFER_OK);
  EXPECT_EQ(ninfer_context_output_count(context), 0u);
  ninfer_output output = {};
  output.struct_size = sizeof(output);
  EXPECT_EQ(ninfer_context_get_output(context, 0, &output, nullptr), NINFER_USAGE);

  const std::vector<int32_t> tokens = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  for (const size_t count : {size_t(3), size_t(1), size_t(6)}) {
    const size_t before = ninfer_context_position(context);
    ASSERT_EQ(ninfer_context_submit(context, tokens.data() + before, count, nullptr), NINFER_OK);
    ASSERT_EQ(ninfer_context_output_count(context), 3u);
    ASSERT_EQ(ninfer_context_get_output(context, 0, &output, nullptr), NINFER_OK);
    EXPECT_STREQ(output.name, "ids");
    EXPECT_EQ(output.element, NINFER_ELEMENT_I32);
    EXPECT_EQ(output.width, 1u);
    EXPECT_EQ(output.rows, count);
    EXPECT_EQ(output.position, before);
    for (size_t i = 0; i < count; ++i)
      EXPECT_EQ(static_cast<const int32_t *>(output.data)[i], tokens[before + i]);
    ASSERT_EQ(ninfer_context_get_output(context, 1, &output, nullptr), NINFER_OK);
    EXPECT_EQ(output.element, NINFER_ELEMENT_F32);
    EXPECT_EQ(output.width, uint32_t(TinyModel::kHidden));
    EXPECT_EQ(output.rows, count);
    ASSERT_EQ(ninfer_context_get_output(context, 2, &output, nullptr), NINFER_OK);
    EXPECT_STREQ(output.name, "head");
    EXPECT_EQ(output.rows, 1u);
    EXPECT_EQ(output.position, before + count - 1);
  }
  EXPECT_EQ(ninfer_context_get_output(context, 3, &output, nullptr), NINFER_USAGE);
  output.struct_size = 0;
  EXPECT_EQ(ninfer_context_get_output(context, 0, &output, nullptr), NINFER_USAGE);
  ASSERT_EQ(ninfer_context_truncate(context, 2, nullptr), NINFER_OK);
  EXPECT_EQ(ninfer_context_output_count(context), 0u);
  ninfer_context_release(context);
  ninfer_engine_release(engine);
}

TEST_F(ApiTest, SpeculativeRound) {
  DraftModel model;
  const std::string plan = model.write(folder_).string();
  ninfer_open_options given = options();
  given.plan_path = plan.c_str();
  ninfer_engine *engine = nullptr, *tiny = open();
  ASSERT_EQ(ninfer_engine_open(&given, &engine, nullptr), NINFER_OK);
  ninfer_engine_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(ninfer_engine_get_info(tiny, &info, nullptr), NINFER_OK);
  EXPECT_EQ(info.draft_tokens, 0u);
  ASSERT_EQ(ninfer_engine_get_info(engine, &info, nullptr), NINFER_OK);
  EXPECT_EQ(info.draft_tokens, 3u);

  ninfer_context_options options = {};
  options.struct_size = sizeof(options);
  options.threads = 1;
  options.draft = 1;
  ninfer_context *context = nullptr;
  EXPECT_EQ(ninfer_context_create(tiny, &options, &context, nullptr), NINFER_UNSUPPORTED);
  ninfer_engine_release(tiny);
  ASSERT_EQ(ninfer_context_create(engine, &options, &context, nullptr), NINFER_OK);
  const int32_t prompt[] = {1, 2, 3};
  ASSERT_EQ(ninfer_context_submit(context, prompt, 3, nullptr), NINFER_OK);
  std::vector<int32_t> rows = {DraftModel::best({1, 2, 3}), -1, -1, -1};
  size_t count = 3;
  ASSERT_EQ(ninfer_context_draft(context, rows[0], rows.data() + 1, &count, nullptr), NINFER_OK);
  ASSERT_EQ(count, 3u);
  EXPECT_EQ(rows[1], model.proposal({1, 2, 3, rows[0]}));
  ASSERT_EQ(ninfer_context_verify(context, rows.data(), rows.size(), nullptr), NINFER_OK);
  const float *logits = nullptr;
  for (size_t row = 0; row < 4; ++row) {
    ASSERT_EQ(ninfer_context_get_row_logits(context, row, &logits, &count, nullptr), NINFER_OK);
    std::vector<int32_t> tokens = {1, 2, 3};
    tokens.insert(tokens.end(), rows.begin(), rows.begin() + ptrdiff_t(row) + 1);
    EXPECT_EQ(std::vector<float>(logits, logits + count), DraftModel::logits(tokens)) << row;
  }
  ninfer_error *error = nullptr;
  EXPECT_EQ(ninfer_context_get_row_logits(context, 4, &logits, &count, &error), NINFER_USAGE);
  EXPECT_STREQ(ninfer_error_code(error), "NB0654");
  ninfer_error_release(error);
  EXPECT_EQ(ninfer_context_submit(context, prompt, 1, nullptr), NINFER_USAGE);
  EXPECT_EQ(ninfer_context_accept(context, 5, nullptr), NINFER_USAGE);
  ASSERT_EQ(ninfer_context_accept(context, 2, nullptr), NINFER_OK);
  EXPECT_EQ(ninfer_context_position(context), 5u);
  EXPECT_EQ(ninfer_context_get_logits(context, &logits, &count, nullptr), NINFER_USAGE);
  count = 4; // more than the plan makes: refused, nothing written
  EXPECT_EQ(ninfer_context_draft(context, 9, rows.data(), &count, nullptr), NINFER_USAGE);
  EXPECT_EQ(count, 4u);
  ninfer_stats stats = {};
  stats.struct_size = sizeof(stats);
  ASSERT_EQ(ninfer_context_get_stats(context, &stats, nullptr), NINFER_OK);
  EXPECT_EQ(stats.draft_calls, 3u);
  EXPECT_EQ(stats.draft_rows, 5u);
  EXPECT_EQ(stats.drafted_tokens, 3u);
  EXPECT_EQ(stats.verify_calls, 1u);
  EXPECT_EQ(stats.verify_rows, 4u);
  EXPECT_EQ(stats.accepted_tokens, 2u);
  EXPECT_GT(stats.draft_ns, 0u);
  EXPECT_GT(stats.verify_ns, 0u);
  ninfer_context_release(context);
  ninfer_engine_release(engine);
}
