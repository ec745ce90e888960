// ninfer-exec with a plan that has a draft layer: the same answers with and without it, and what is told about it.
#include "test/unit/runtime/DraftModel.h"
#include "test/unit/runtime/ExecTool.h"

#include <csignal>
#include <regex>

using namespace ninfer;
using namespace ninfer::test;

namespace {

class ExecSpec : public ExecTool {
protected:
  std::string write(const DraftOptions &options) {
    drafting_ = DraftModel(options);
    return drafting_.write(folder_).string();
  }
  DraftModel drafting_;
};

using Arguments = std::vector<std::string>;

template <typename T>
std::vector<T> operator+(std::vector<T> a, const std::vector<T> &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::vector<Arguments> kDepths = {{}, {"--spec", "mtp"}, {"--draft-tokens", "1"}, {"--draft-tokens", "2"},
                                        {"--spec", "mtp", "--draft-tokens", "3"}};

} // namespace

TEST_F(ExecSpec, GreedyAnswersAreThePlainOnes) {
  for (bool recurrent : {false, true}) {
    const std::string plan = write({.recurrent = recurrent, .maxContext = 400});
    std::vector<int32_t> tokens = {72, 105, 33}, expected;
    for (int i = 0; i < 300; ++i) {
      expected.push_back(DraftModel::best(tokens));
      tokens.push_back(expected.back());
    }
    const Arguments run = {plan, "--tokens", "72,105,33", "-n", "300", "--ids", "--ignore-eos"};
    EXPECT_EQ(exec(run + Arguments{"--spec", "off"}).out, joined(expected, "\n") + "\n");
    for (const Arguments &depth : kDepths)
      EXPECT_EQ(exec(run + depth).out, joined(expected, "\n") + "\n") << depth.size();
  }
}

// Sampled answers, penalties, stop tokens, stop texts, lengths and a full context.
TEST_F(ExecSpec, EveryAnswerIsThePlainOne) {
  const std::string plan = write({.recurrent = true, .maxContext = 128});
  const std::vector<Arguments> answers = {
      {"--ids", "--ignore-eos", "--temp", "1.3", "-s", "5"},
      {"--ids", "--ignore-eos", "--temp", "0.4", "--top-k", "5", "--top-p", "0.9", "-s", "6"},
      {"--ids", "--ignore-eos", "--temp", "0.8", "--repeat-penalty", "1.5", "--presence-penalty", "0.5", "-s", "7"},
      {"--ids", "--ignore-eos", "--frequency-penalty", "2"},
      {"--ids", "--temp", "4", "-s", "1"}, // close to uniform: the stop token comes up
      {"--temp", "1", "--stop", "a", "--ignore-eos"},
      {"--special", "--stop", "<user>", "--stop", "b", "--ignore-eos"},
      {"-n", "1", "--ids"},
      {"-n", "2", "--ids"},
      {"-n", "7", "--ids"},
      {"--ids", "--ignore-eos", "--echo"},
  };
  for (const Arguments &answer : answers) {
    const Arguments run = Arguments{plan, "-p", "Hi!"} + answer;
    const Outcome plain = exec(run + Arguments{"--spec", "off"});
    ASSERT_EQ(plain.code, 0) << plain.err;
    EXPECT_NE(plain.out, "");
    for (const Arguments &depth : kDepths) {
      const Outcome spec = exec(run + depth);
      EXPECT_EQ(spec.code, 0) << spec.err;
      EXPECT_EQ(spec.out, plain.out) << answer[0] << " " << depth.size();
      EXPECT_EQ(spec.err, plain.err);
    }
  }
}

TEST_F(ExecSpec, StatsTellWhatBecameOfTheDrafts) {
  const std::string plan = write({.maxContext = 128});
  // The same rounds by hand: three drafts each, fewer where the answer ends.
  std::vector<int32_t> tokens = {72, 105, 33};
  size_t rounds = 0, drafted = 0, accepted = 0, left = 40;
  const auto next = [&] {
    tokens.push_back(DraftModel::best(tokens));
    --left;
  };
  next();
  while (left > 0) {
    std::vector<int32_t> rows = tokens;
    const size_t count = std::min<size_t>(3, left - 1);
    if (count == 0) {
      next();
      break;
    }
    ++rounds;
    drafted += count;
    for (size_t i = 0; i < count; ++i)
      rows.push_back(drafting_.proposal(rows));
    for (size_t i = 0; i <= count; ++i) {
      const size_t at = tokens.size();
      next();
      if (i == count || tokens[at] != rows[at])
        break;
      ++accepted;
    }
  }
  ASSERT_GT(accepted, 5u);
  ASSERT_LT(accepted, drafted);
  const Outcome outcome = exec({plan, "--tokens", "72,105,33", "-n", "40", "--ids", "--ignore-eos", "--stats", "--profile"});
  EXPECT_EQ(outcome.out, joined({tokens.begin() + 3, tokens.end()}, "\n") + "\n");
  char line[200];
  std::snprintf(line, sizeof(line), "drafts      %zu rounds, %zu drafted, %zu accepted, %.2f tokens per round, of the compared ",
                rounds, drafted, accepted, double(accepted + rounds) / double(rounds));
  EXPECT_TRUE(contains(outcome.err, line)) << line << "\n" << outcome.err;
  EXPECT_TRUE(std::regex_search(outcome.err, std::regex("of the compared [0-9.]+ %, [0-9.]+ %, [0-9.]+ %; draft layer "
                                                        "[0-9.]+ ms, verification [0-9.]+ ms\n")))
      << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "prefill     3 tokens")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "decode      39 tokens")) << outcome.err;
  for (const char *phase : {"verify", "draft", "draft_next"})
    EXPECT_TRUE(contains(outcome.err, "\n" + std::string(phase) + "  ")) << outcome.err;
  const Outcome off = exec({plan, "--tokens", "72", "-n", "4", "--ids", "--stats", "--spec", "off"});
  EXPECT_FALSE(contains(off.err, "drafts ")) << off.err;
}

TEST_F(ExecSpec, OptionErrors) {
  const std::string drafting = write({});
  struct Case {
    Arguments arguments;
    int code;
    std::string message;
  };
  const Case cases[] = {
      {{plan_, "-p", "x", "--spec", "mtp"}, 5, "has no draft layer"},
      {{plan_, "-p", "x", "--draft-tokens", "1"}, 5, "has no draft layer"},
      {{"bench", plan_, "--spec", "mtp"}, 5, "has no draft layer"},
      {{"chat", plan_, "-p", "x", "--spec", "mtp"}, 5, "has no draft layer"},
      {{drafting, "-p", "x", "--draft-tokens", "4"}, 2, "--draft-tokens is 4, the plan makes at most 3"},
      {{drafting, "-p", "x", "--draft-tokens", "0"}, 2, "--draft-tokens"},
      {{drafting, "-p", "x", "--draft-tokens", "1", "--spec", "off"}, 2, "--spec is off"},
      {{drafting, "-p", "x", "--spec", "on"}, 2, "--spec"},
      {{"bench", drafting, "--startup", "--spec", "off"}, 2, "excludes --startup"},
      {{"bench", drafting, "-p", "0", "-n", "32"}, 2, "the test needs 33 positions"}, // an answer follows a token
  };
  for (const Case &c : cases) {
    const Outcome outcome = exec(c.arguments);
    EXPECT_EQ(outcome.code, c.code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(contains(outcome.err, c.message)) << outcome.err;
  }
  EXPECT_EQ(exec({plan_, "-p", "x", "-n", "1"}).code, 0); // auto: the plan has none, so there is none
}

// A conversation whose earlier part is spelled differently the next time has to go back. Recurrent states cannot: they
// start afresh, and the answers are the same.
TEST_F(ExecSpec, ChatGoesBack) {
  const std::string lines = "hello\nwho?\n/clear\nhello\nagain\n";
  std::string expected;
  for (bool recurrent : {false, true}) {
    const std::string plan = write({.recurrent = recurrent, .maxContext = 200});
    for (const Arguments &depth : kDepths + std::vector<Arguments>{{"--spec", "off"}}) {
      const Outcome outcome = exec(Arguments{"chat", plan, "-n", "12", "--ignore-eos", "--stats"} + depth, lines);
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      if (expected.empty())
        expected = outcome.out;
      EXPECT_EQ(outcome.out, expected);
      EXPECT_NE(outcome.out, "");
    }
  }
}

TEST_F(ExecSpec, BenchHasRowsForIt) {
  for (bool recurrent : {false, true}) {
    const std::string plan = write({.recurrent = recurrent, .maxContext = 128});
    const Arguments bench = {"bench", plan, "-p", "4", "-n", "30", "-d", "0,5", "-r", "2", "-t", "1", "-o", "json"};
    const Outcome outcome = exec(bench);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto rows = nlohmann::json::parse(outcome.out);
    ASSERT_EQ(rows.size(), 6u);
    EXPECT_EQ(rows[1]["test"], "tg30");
    EXPECT_EQ(rows[3]["test"], "tg30 @ d5");
    EXPECT_TRUE(rows[3]["accepted"].is_null());
    EXPECT_GT(rows[3]["ms p50"].get<double>(), 0);
    EXPECT_EQ(rows[4]["test"], "tg30 mtp3");
    EXPECT_EQ(rows[5]["test"], "tg30 mtp3 @ d5");
    for (int row : {4, 5}) {
      EXPECT_GT(rows[row]["t/s"].get<double>(), 0);
      EXPECT_GT(rows[row]["accepted"].get<double>(), 0.2);
      EXPECT_LT(rows[row]["accepted"].get<double>(), 1.0);
      EXPECT_GT(rows[row]["t/round"].get<double>(), 1.5);
      EXPECT_LT(rows[row]["t/round"].get<double>(), 4.0);
      EXPECT_TRUE(rows[row]["ms p50"].is_null());
    }
    const auto off = nlohmann::json::parse(exec(bench + Arguments{"--spec", "off"}).out);
    ASSERT_EQ(off.size(), 4u);
    EXPECT_FALSE(off[1].contains("accepted"));
  }
}

TEST_F(ExecSpec, CtrlCEndsWith130) {
  const std::string plan = write({.recurrent = true, .pauses = 500, .maxContext = 4000});
  const pid_t child = start({plan, "-p", "abcd", "--ids", "--ignore-eos"}, "");
  for (int i = 0; i < 2000; ++i) {
    std::error_code ignored;
    if (std::filesystem::file_size(folder_ / "stdout", ignored) > 0 && !ignored)
      break;
    usleep(5000);
  }
  kill(child, SIGINT);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "interrupted")) << outcome.err;
}
