// ninfer-exec perplexity against losses computed here from the logits of the plain-double oracle.
#include "test/unit/runtime/ExecTool.h"

#include <cmath>
#include <nlohmann/json.hpp>

using namespace ninfer;
using namespace ninfer::test;

namespace {

/// -log softmax of one entry, all in double.
double lossOf(const std::vector<double> &logits, int32_t token) {
  double sum = 0;
  for (double value : logits)
    sum += std::exp(value - logits[size_t(token)]);
  return std::log(sum);
}

std::vector<int32_t> someTokens(size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back(int32_t((i * 37 + 11) % 251));
  return tokens;
}

struct Expected {
  std::vector<double> losses;
  double mean = 0, error = 0;
};

/// Windows of `tokens`, each behind `begin`; scores from position `first` + 1 on.
Expected expectedOf(const TinyModel &model, const std::vector<int32_t> &begin, const std::vector<int32_t> &tokens,
                    size_t context, size_t first, size_t most = SIZE_MAX) {
  Expected expected;
  const size_t step = context - begin.size();
  for (size_t window = 0; window < std::min(most, tokens.size() / step); ++window) {
    std::vector<int32_t> all = begin;
    all.insert(all.end(), tokens.begin() + ptrdiff_t(window * step), tokens.begin() + ptrdiff_t((window + 1) * step));
    for (size_t at = first + 1; at < context; ++at)
      expected.losses.push_back(lossOf(model.logits({all.begin(), all.begin() + ptrdiff_t(at)}), all[at]));
  }
  const double count = double(expected.losses.size());
  for (double loss : expected.losses)
    expected.mean += loss / count;
  for (double loss : expected.losses)
    expected.error += (loss - expected.mean) * (loss - expected.mean) / (count - 1) / count;
  expected.error = std::sqrt(expected.error);
  return expected;
}

/// Logits of the reference target differ from the oracle's by single rounding of every operator: below 1e-5 of
/// their rms (docs/status.md). A loss is a difference of two such figures, and the rms of this model is below 20.
constexpr double kBound = 2 * 1e-5 * 20;

} // namespace

using ExecPerplexity = ExecTool;

TEST_F(ExecPerplexity, LossesAgreeWithTheOracle) {
  struct Case {
    size_t count, context, first, most;
    std::vector<std::string> arguments;
  };
  const Case cases[] = {{40, 16, 8, SIZE_MAX, {"-c", "16"}},             // two windows, eight tokens left over
                        {32, 32, 16, SIZE_MAX, {"--context", "32"}},     // the whole context of the plan
                        {20, 10, 0, SIZE_MAX, {"-c", "10", "--first", "0"}},
                        {40, 9, 7, SIZE_MAX, {"-c", "9", "--first", "7"}}, // one scored token per window
                        {40, 16, 8, 1, {"-c", "16", "--windows", "1"}}};
  for (const Case &c : cases) {
    SCOPED_TRACE(c.context);
    const std::vector<int32_t> tokens = someTokens(c.count);
    const std::string each = (folder_ / "each.csv").string();
    std::vector<std::string> arguments = {"perplexity", plan_, "--tokens", joined(tokens, ","), "-o", "json", "--each", each};
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    const Outcome outcome = exec(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto row = nlohmann::json::parse(outcome.out)[0];
    const Expected expected = expectedOf(model_, {}, tokens, c.context, c.first, c.most);
    EXPECT_EQ(row["tokens"], expected.losses.size());
    EXPECT_EQ(row["text tokens"], c.count);
    EXPECT_EQ(row["windows"], std::min(c.most, c.count / c.context));
    EXPECT_EQ(row["context"], c.context);
    EXPECT_EQ(row["first"], c.first);
    EXPECT_NEAR(row["nll"].get<double>(), expected.mean, kBound);
    EXPECT_NEAR(row["nll error"].get<double>(), expected.error, kBound);
    EXPECT_DOUBLE_EQ(row["ppl"].get<double>(), std::exp(row["nll"].get<double>()));
    EXPECT_DOUBLE_EQ(row["ppl error"].get<double>(), row["ppl"].get<double>() * row["nll error"].get<double>());

    std::istringstream lines(readFile(each).take());
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(line, "window,position,token,nll");
    size_t scored = 0;
    const size_t perWindow = c.context - c.first - 1;
    for (; std::getline(lines, line); ++scored) {
      unsigned window = 0, position = 0;
      int token = 0;
      double nll = 0;
      ASSERT_EQ(std::sscanf(line.c_str(), "%u,%u,%d,%lf", &window, &position, &token, &nll), 4) << line;
      ASSERT_LT(scored, expected.losses.size());
      EXPECT_EQ(window, scored / perWindow);
      EXPECT_EQ(position, c.first + 1 + scored % perWindow);
      EXPECT_EQ(token, tokens[window * c.context + position]);
      EXPECT_NEAR(nll, expected.losses[scored], kBound) << line;
    }
    EXPECT_EQ(scored, expected.losses.size());
  }
}

TEST_F(ExecPerplexity, ATextIsTakenAsItIs) {
  // Every byte counts, the last line feed too; a special token spelled in the text is text.
  const std::string text = "<user>once upon a time\n\n12\n";
  writeBytes(folder_ / "text", std::as_bytes(std::span(text.data(), text.size())));
  std::vector<int32_t> bytes;
  for (char c : text)
    bytes.push_back(static_cast<unsigned char>(c));
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"perplexity", plan_, "-c", "14", "-o", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = exec(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string fromText = run({"--text", (folder_ / "text").string()});
  EXPECT_EQ(fromText, run({"--tokens", joined(bytes, ",")}));
  EXPECT_EQ(fromText, run({"--text", (folder_ / "text").string(), "--no-special", "-t", "3"}));
  EXPECT_EQ(nlohmann::json::parse(fromText)[0]["text tokens"], text.size());
}

TEST_F(ExecPerplexity, Tables) {
  const std::string ids = joined(someTokens(32), ",");
  const Outcome table = exec({"perplexity", plan_, "--tokens", ids, "-c", "16"});
  EXPECT_EQ(table.code, 0) << table.err;
  for (const char *part : {"nll error", "ppl", "reference", "tiny"})
    EXPECT_TRUE(contains(table.out, part)) << table.out;
  const double mean = expectedOf(model_, {}, someTokens(32), 16, 8).mean;
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f", mean); // one digit less than printed
  EXPECT_TRUE(contains(table.out, std::string(text).substr(0, 5))) << table.out << mean;
}

TEST_F(ExecPerplexity, UsageErrors) {
  const std::string ids = joined(someTokens(40), ",");
  writeBytes(folder_ / "short", std::as_bytes(std::span("abc", 3)));
  writeBytes(folder_ / "broken", std::as_bytes(std::span("ab\xff", 3)));
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const Case cases[] = {
      {{"--tokens", ids}, "error[NB0678]: --context is 512, the plan holds 32 positions"},
      {{"--tokens", ids, "-c", "1"}, "error[NB0678]: a window of 1 positions"},
      {{"--tokens", ids, "-c", "16", "--first", "15"}, "behind position 15 (--first) has nothing to score"},
      {{"--text", (folder_ / "short").string(), "-c", "16"}, "short: 3 tokens do not fill one window of 16"},
      {{"--text", (folder_ / "broken").string(), "-c", "16"}, "error[NB0664]"},
      {{"--tokens", "1,2,260", "-c", "3"}, "error[NB0651]: token 260 is outside the vocabulary of 260"},
      {{"-c", "16"}, "give --text FILE or --tokens LIST"},
      {{"--tokens", ids, "--text", (folder_ / "short").string()}, "excludes"},
      {{"--tokens", ids, "-c", "16", "-o", "raw"}, "raw"},
  };
  for (const Case &c : cases) {
    std::vector<std::string> arguments = {"perplexity", plan_};
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    const Outcome outcome = exec(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(contains(outcome.err, c.message)) << outcome.err;
  }
  EXPECT_EQ(exec({"perplexity", plan_, "--text", "/no/such", "-c", "16"}).code, 3);
}
