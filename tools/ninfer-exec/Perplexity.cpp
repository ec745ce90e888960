// ninfer-exec perplexity PLAN: how well a model predicts a fixed text, in windows of equal length. What a recipe or an
// activation profile costs is the difference of two such figures over the same windows.
#include "tools/ninfer-exec/Options.h"

#include "support/File.h"
#include "support/Utf8.h"
#include "tools/ninfer-exec/Report.h"

#include <algorithm>
#include <cmath>

namespace ninfer::exec {

namespace {

/// Of a text; a longer one is no longer a fixed test but a data set.
constexpr uint64_t kMostTextBytes = uint64_t(1) << 30;

struct PerplexityOptions {
  CommonOptions common;
  std::string text, tokens;
  bool noSpecial = false;
  uint32_t context = 512;
  uint32_t first = 0; ///< 0: half of the context
  bool hasFirst = false;
  uint32_t windows = 0; ///< at most; 0: all
  std::string format = "table";
  std::string each; ///< file for the loss of every scored token
};

/// What is predicted: `begin` stands before every window and is never scored.
struct Corpus {
  std::vector<int32_t> begin, tokens;
};

struct Score {
  uint32_t window, position; ///< of the predicted token
  int32_t token;
  double nll; ///< natural logarithm
};

/// Mean of the losses and its standard error, as if tokens were independent; one token has none (NaN).
struct Mean {
  double value = 0, error = std::nan("");
};

Mean meanOf(const std::vector<Score> &scores) {
  Mean mean;
  for (const Score &score : scores)
    mean.value += score.nll;
  mean.value /= double(scores.size());
  double squares = 0;
  for (const Score &score : scores)
    squares += (score.nll - mean.value) * (score.nll - mean.value);
  if (scores.size() > 1)
    mean.error = std::sqrt(squares / double(scores.size() - 1) / double(scores.size()));
  return mean;
}

/// The tokens that the tokenizer puts before a text. Nothing it puts behind one is predicted.
Result<std::vector<int32_t>> beginTokens(const Tokenizer &tokenizer) {
  NINFER_ASSIGN_OR_RETURN(const std::vector<int32_t> plain, tokenizer.encode("a", {.addSpecial = false}));
  NINFER_ASSIGN_OR_RETURN(std::vector<int32_t> full, tokenizer.encode("a", {.addSpecial = true}));
  const auto at = std::search(full.begin(), full.end(), plain.begin(), plain.end());
  full.erase(at, full.end());
  return full;
}

Result<Corpus> readCorpus(const PerplexityOptions &options, const TextModel &text) {
  Corpus corpus;
  if (!options.tokens.empty()) {
    std::string list = options.tokens;
    if (list[0] == '@') {
      NINFER_ASSIGN_OR_RETURN(list, readFile(options.tokens.substr(1), kMostTextBytes));
    }
    NINFER_ASSIGN_OR_RETURN(corpus.tokens, parseTokens(list, options.tokens[0] == '@' ? options.tokens.substr(1) : "--tokens"));
    return corpus;
  }
  NINFER_ASSIGN_OR_RETURN(const std::string bytes, readFile(options.text, kMostTextBytes));
  if (auto at = findInvalidUtf8(bytes))
    return makeError(ErrorKind::Usage, "NB0664", options.text + ": the text is not valid UTF-8 at byte " + std::to_string(*at));
  NINFER_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, text.tokenizer());
  // A text that spells a special token does not mean it.
  NINFER_ASSIGN_OR_RETURN(corpus.tokens, tokenizer->encode(bytes, {.addSpecial = false, .parseSpecial = false}));
  if (!options.noSpecial) {
    NINFER_ASSIGN_OR_RETURN(corpus.begin, beginTokens(*tokenizer));
  }
  return corpus;
}

/// -log softmax(logits)[token].
Result<double> loss(std::span<const float> logits, int32_t token) {
  double largest = -INFINITY;
  for (float value : logits) {
    if (value != value)
      return makeError(ErrorKind::AccuracyFailed, "NB0679", "a logit is not a number");
    largest = std::max(largest, double(value));
  }
  double sum = 0;
  for (float value : logits)
    sum += std::exp(double(value) - largest);
  return largest + std::log(sum) - double(logits[size_t(token)]);
}

Status scoreWindow(Context &context, const std::vector<int32_t> &tokens, uint32_t first, uint32_t window,
                   std::vector<Score> &scores) {
  NINFER_RETURN_IF_ERROR(context.truncate(0));
  // Logits belong to the last row of a call: what is not scored goes through prefill, the rest one by one.
  for (size_t done = 0; done + 1 < tokens.size();) {
    const size_t count = done == 0 ? first + 1 : 1;
    NINFER_RETURN_IF_ERROR(context.submitPrompt(std::span(tokens).subspan(done, count)));
    done += count;
    NINFER_ASSIGN_OR_RETURN(std::span<const float> logits, context.logits());
    auto nll = loss(logits, tokens[done]);
    if (!nll.ok()) {
      Status status = nll.takeStatus();
      status.note("window " + std::to_string(window) + ", after position " + std::to_string(done - 1));
      return status;
    }
    scores.push_back({window, uint32_t(done), tokens[done], *nll});
  }
  return {};
}

Status checkSizes(const PerplexityOptions &options, uint32_t first, const ninfer_engine_info &info) {
  if (options.context > info.max_context)
    return makeError(ErrorKind::Usage, "NB0678",
                     "--context is " + std::to_string(options.context) + ", the plan holds " +
                         std::to_string(info.max_context) + " positions");
  if (options.context < 2 || first + 2 > options.context)
    return makeError(ErrorKind::Usage, "NB0678",
                     "a window of " + std::to_string(options.context) + " positions (--context) whose scores begin behind position " +
                         std::to_string(first) + " (--first) has nothing to score");
  return {};
}

std::string csvOf(const std::vector<Score> &scores) {
  std::string text = "window,position,token,nll\n";
  char line[96];
  for (const Score &score : scores) {
    std::snprintf(line, sizeof(line), "%u,%u,%d,%.9g\n", score.window, score.position, score.token, score.nll);
    text += line;
  }
  return text;
}

Row toRow(const PerplexityOptions &options, const ninfer_engine_info &info, uint32_t first, uint32_t windows,
          const std::vector<Score> &scores, size_t corpus) {
  const Mean mean = meanOf(scores);
  // A table rounds to two decimals, which is too coarse for losses.
  const bool readable = options.format == "table" || options.format == "md";
  const auto figure = [&](double value) {
    if (std::isnan(value))
      return Row();
    if (!readable)
      return Row(value);
    char text[32];
    std::snprintf(text, sizeof(text), "%.4f", value);
    return Row(text);
  };
  Row row;
  row["model"] = info.public_name;
  row["target"] = info.target;
  row["text tokens"] = corpus;
  row["context"] = options.context;
  row["first"] = first;
  row["windows"] = windows;
  row["tokens"] = scores.size();
  row["nll"] = figure(mean.value);
  row["nll error"] = figure(mean.error);
  row["ppl"] = figure(std::exp(mean.value));
  row["ppl error"] = figure(std::exp(mean.value) * mean.error);
  return row;
}

Result<int> run(const PerplexityOptions &options) {
  if (options.text.empty() && options.tokens.empty())
    return makeError(ErrorKind::Usage, "NB0900", "nothing to predict: give --text FILE or --tokens LIST");
  NINFER_ASSIGN_OR_RETURN(Engine engine, Engine::open(options.common));
  const ninfer_engine_info info = engine.info();
  NINFER_RETURN_IF_ERROR(checkOutput(options.each, {options.common.plan, info.weights_path, options.common.prepacked, options.text, options.tokens}));
  const uint32_t first = options.hasFirst ? options.first : options.context / 2;
  NINFER_RETURN_IF_ERROR(checkSizes(options, first, info));
  TextModel text;
  if (options.tokens.empty()) {
    NINFER_ASSIGN_OR_RETURN(text, TextModel::load(engine));
  }
  NINFER_ASSIGN_OR_RETURN(const Corpus corpus, readCorpus(options, text));
  const size_t begin = corpus.begin.size();
  if (begin + 1 > options.context || begin > first + 1)
    return makeError(ErrorKind::Usage, "NB0678",
                     "the tokenizer begins a text with " + std::to_string(begin) + " tokens, more than the " +
                         std::to_string(first + 1) + " that are not scored (--first)");
  const size_t step = options.context - begin;
  const size_t whole = corpus.tokens.size() / step;
  if (whole == 0)
    return makeError(ErrorKind::Usage, "NB0678",
                     (options.tokens.empty() ? options.text : std::string("--tokens")) + ": " +
                         std::to_string(corpus.tokens.size()) + " tokens do not fill one window of " + std::to_string(step));
  const uint32_t windows = uint32_t(options.windows ? std::min<size_t>(whole, options.windows) : whole);
  // Token ids are checked before anything runs: the loss reads a logit of each.
  for (int32_t token : corpus.tokens)
    if (uint32_t(token) >= info.vocab_size)
      return makeError(ErrorKind::Usage, "NB0651",
                       "token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(info.vocab_size));
  AtomicFile each; // now, so that a folder that takes no file is not found out after the work
  if (!options.each.empty()) {
    NINFER_ASSIGN_OR_RETURN(each, AtomicFile::create(options.each));
  }
  NINFER_ASSIGN_OR_RETURN(Context context, Context::create(engine, options.common, false));
  std::vector<Score> scores;
  for (uint32_t window = 0; window < windows; ++window) {
    std::vector<int32_t> tokens = corpus.begin;
    const auto from = corpus.tokens.begin() + ptrdiff_t(window * step);
    tokens.insert(tokens.end(), from, from + ptrdiff_t(step));
    NINFER_RETURN_IF_ERROR(scoreWindow(context, tokens, first, window, scores));
  }
  if (!options.each.empty()) {
    NINFER_RETURN_IF_ERROR(each.write(csvOf(scores)));
    NINFER_RETURN_IF_ERROR(each.publish());
  }
  Output output;
  NINFER_RETURN_IF_ERROR(output.write(
      renderReport({toRow(options, info, first, windows, scores, corpus.tokens.size())}, reportFormat(options.format))));
  printAsked(engine, options.common, context, {.loadNs = text.loadNs()});
  return 0;
}

} // namespace

int perplexityCommand(int argc, char **argv) {
  PerplexityOptions options;
  CLI::App app("Measure how well the model predicts a text: mean negative log-likelihood and perplexity.",
               "ninfer-exec perplexity");
  addCommonOptions(app, options.common);
  auto *text = app.add_option("--text", options.text, "Text file, taken as it is")->type_name("FILE");
  auto *tokens = app.add_option("--tokens", options.tokens, "Token ids instead of a text: 1,2,3 or @FILE")->type_name("LIST");
  text->excludes(tokens);
  app.add_flag("--no-special", options.noSpecial, "Do not begin every window with the tokenizer's begin tokens");
  app.add_option("-c,--context", options.context, "Positions of a window (default 512)")->type_name("N");
  app.add_option_function<uint32_t>(
         "--first",
         [&options](const uint32_t &first) {
           options.first = first;
           options.hasFirst = true;
         },
         "Score the tokens behind this position of each window (default: half of --context)")
      ->type_name("N");
  app.add_option("--windows", options.windows, "Windows to evaluate (default: all that the text fills)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1u << 31));
  app.add_option("--each", options.each, "Write the loss of every scored token to this file, as CSV")->type_name("FILE");
  app.add_option("-o,--output", options.format, "table (default), md, csv, json, jsonl")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(reportFormatNames()));
  if (int code = parse(app, argc, argv); code >= 0)
    return code;
  return report(run(options));
}

} // namespace ninfer::exec
