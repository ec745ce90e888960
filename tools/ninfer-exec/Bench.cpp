// ninfer-exec bench PLAN: prompt processing (pp) and token generation (tg) speed, one row per test, as llama-bench
// lays them out; --startup measures opening instead. Tokens are pseudo-random: speed does not depend on them. It does
// with speculative decoding (tg N mtp K), whose rows measure a greedy answer after those tokens.
#include "tools/ninfer-exec/Options.h"

#include "runtime/loader/Machine.h"
#include "tools/ninfer-exec/Report.h"

#include <algorithm>
#include <cmath>

namespace ninfer::exec {

namespace {

struct BenchOptions {
  CommonOptions common;
  std::vector<uint32_t> prompts = {512}, generates = {128}, depths = {0};
  std::vector<unsigned> threads = {0};
  unsigned repetitions = 5;
  bool noWarmup = false;
  bool startup = false;
  std::string format = "table";
};

/// Value below which a fraction `q` of the samples lies, interpolated.
double quantile(std::vector<double> samples, double q) {
  std::sort(samples.begin(), samples.end());
  const double at = q * double(samples.size() - 1);
  const size_t low = size_t(at), high = std::min(low + 1, samples.size() - 1);
  return samples[low] + (samples[high] - samples[low]) * (at - double(low));
}

std::vector<int32_t> randomTokens(size_t count, uint32_t vocabulary) {
  std::vector<int32_t> tokens(count);
  uint32_t state = 12345;
  for (int32_t &token : tokens) {
    state = state * 1664525u + 1013904223u;
    token = int32_t(uint64_t(state) * vocabulary >> 32);
  }
  return tokens;
}

struct Test {
  bool generate = false;
  uint32_t tokens = 0;
  uint32_t depth = 0;
  uint32_t drafts = 0; ///< per round; 0: plain decoding

  /// A greedy answer needs a token to begin after.
  uint32_t before() const { return drafts ? std::max(depth, 1u) : depth; }
};

struct Samples {
  std::vector<double> rates;     ///< tokens/s, one per repetition
  std::vector<double> latencies; ///< ms per token, plain generation only
  DraftStats drafts;
};

/// `count` greedy tokens, each evaluated, as a plain test evaluates each of its own.
Status answer(Context &context, uint32_t count, uint32_t drafts, DraftStats &stats) {
  NINFER_ASSIGN_OR_RETURN(Sampler greedy, Sampler::create({}));
  TokenStream stream(context, std::move(greedy), drafts);
  for (uint32_t left = count; left > 0; --left) {
    NINFER_RETURN_IF_ERROR(stream.next().takeStatus());
    NINFER_RETURN_IF_ERROR(stream.advance(left - 1));
  }
  NINFER_RETURN_IF_ERROR(stream.finish());
  stats.add(stream.stats());
  return {};
}

Result<Samples> measure(Context &context, const Test &test, const BenchOptions &options, uint32_t vocabulary) {
  const std::vector<int32_t> tokens = randomTokens(test.before() + test.tokens, vocabulary);
  const auto before = std::span(tokens).first(test.before()), timed = std::span(tokens).subspan(test.before());
  Samples samples;
  const unsigned skipped = options.noWarmup ? 0 : 1;
  for (unsigned round = 0; round < options.repetitions + skipped; ++round) {
    // An answer begins with the logits of the last token before it.
    if (round == 0 || before.empty() || test.drafts)
      NINFER_RETURN_IF_ERROR(context.truncate(0));
    if (context.position() > before.size())
      NINFER_RETURN_IF_ERROR(context.truncate(uint32_t(before.size())));
    if (context.position() < before.size())
      NINFER_RETURN_IF_ERROR(context.submit(before));
    const uint64_t start = nowNs();
    if (test.drafts) {
      DraftStats drafts;
      NINFER_RETURN_IF_ERROR(answer(context, test.tokens, test.drafts, drafts));
      if (round >= skipped)
        samples.drafts.add(drafts);
    } else if (test.generate) {
      uint64_t last = start;
      for (size_t i = 0; i < timed.size(); ++i) {
        NINFER_RETURN_IF_ERROR(context.submit(timed.subspan(i, 1)));
        const uint64_t now = nowNs();
        if (round >= skipped)
          samples.latencies.push_back(double(now - last) / 1e6);
        last = now;
      }
    } else {
      NINFER_RETURN_IF_ERROR(context.submit(timed));
    }
    if (round >= skipped)
      samples.rates.push_back(double(test.tokens) * 1e9 / double(nowNs() - start));
  }
  return samples;
}

/// `speculates`: the report has rows of speculative decoding, and so the columns for them.
Row toRow(const Test &test, const Samples &samples, const Engine &engine, unsigned threads, bool speculates) {
  const ninfer_engine_info info = engine.info();
  const double median = quantile(samples.rates, 0.5);
  Row row;
  row["model"] = info.public_name;
  row["target"] = info.target;
  row["size MiB"] = double(info.weights_bytes) / 1048576.0;
  row["threads"] = threads;
  row["test"] = (test.generate ? "tg" : "pp") + std::to_string(test.tokens) +
                (test.drafts ? " mtp" + std::to_string(test.drafts) : std::string()) +
                (test.depth ? " @ d" + std::to_string(test.depth) : std::string());
  row["t/s"] = median;
  row["t/s p10"] = quantile(samples.rates, 0.1);
  row["t/s p90"] = quantile(samples.rates, 0.9);
  const bool plain = test.generate && !test.drafts;
  row["ms p50"] = plain ? Row(quantile(samples.latencies, 0.5)) : Row();
  row["ms p95"] = plain ? Row(quantile(samples.latencies, 0.95)) : Row();
  row["ms p99"] = plain ? Row(quantile(samples.latencies, 0.99)) : Row();
  // States are read up to the position, which grows from depth to depth + tokens.
  const double filled = (double(test.depth) + double(test.tokens) / 2) / double(info.max_context);
  const double bytes = double(info.read_bytes_per_token) + filled * double(info.state_read_bytes_per_token);
  row["GB/s"] = plain ? Row(bytes * median / 1e9) : Row();
  if (speculates) {
    const DraftStats &drafts = samples.drafts;
    const double accepted = double(drafts.acceptedDrafts());
    row["accepted"] = drafts.drafted ? Row(accepted / double(drafts.drafted)) : Row();
    row["t/round"] = drafts.rounds ? Row((accepted + double(drafts.rounds)) / double(drafts.rounds)) : Row();
  }
  row["runs"] = samples.rates.size();
  return row;
}

Result<std::vector<Row>> benchSpeed(const BenchOptions &options) {
  std::vector<Test> tests, speculative;
  for (uint32_t depth : options.depths) {
    for (uint32_t tokens : options.prompts)
      if (tokens)
        tests.push_back({false, tokens, depth});
    for (uint32_t tokens : options.generates)
      if (tokens)
        tests.push_back({true, tokens, depth});
  }
  if (tests.empty())
    return makeError(ErrorKind::Usage, "NB0900", "nothing to measure: every length of -p and -n is 0");
  NINFER_ASSIGN_OR_RETURN(Engine engine, Engine::open(options.common));
  const ninfer_engine_info info = engine.info();
  NINFER_ASSIGN_OR_RETURN(const uint32_t drafts, draftsPerRound(info, options.common));
  for (const Test &test : tests)
    if (test.generate && drafts)
      speculative.push_back({true, test.tokens, test.depth, drafts});
  for (const std::vector<Test> *list : {&tests, &speculative})
    for (const Test &test : *list)
      if (uint64_t(test.before()) + test.tokens > info.max_context)
        return makeError(ErrorKind::Usage, "NB0652",
                         "context overflow: the test needs " + std::to_string(uint64_t(test.before()) + test.tokens) +
                             " positions, the plan has " + std::to_string(info.max_context));
  std::vector<Row> rows;
  for (unsigned threads : options.threads) {
    CommonOptions common = options.common;
    common.threads = threads;
    NINFER_ASSIGN_OR_RETURN(const ninfer_ledger ledger, engine.ledger(common, false));
    for (const std::vector<Test> *list : {&tests, &speculative}) {
      if (list->empty())
        continue;
      // Plain rows are those of a context that spends nothing on drafts.
      ToolStats own{.speculates = list == &speculative};
      NINFER_ASSIGN_OR_RETURN(Context context, Context::create(engine, common, own.speculates));
      for (const Test &test : *list) {
        NINFER_ASSIGN_OR_RETURN(const Samples samples, measure(context, test, options, info.vocab_size));
        own.drafts.add(samples.drafts);
        rows.push_back(toRow(test, samples, engine, ledger.threads, !speculative.empty()));
      }
      printAsked(engine, common, context, own);
    }
  }
  return rows;
}

/// Opens everything `repetitions` times in this process: files are warm after the first. "again" is the prompt of the first token in the
/// same context once more, so that "all" without it is what starting costs beyond the work itself.
Result<std::vector<Row>> benchStartup(const BenchOptions &options) {
  if (options.threads.size() != 1)
    return makeError(ErrorKind::Usage, "NB0900", "--startup measures one thread count, --threads has " +
                                                     std::to_string(options.threads.size()));
  if (options.prompts.size() != 1)
    return makeError(ErrorKind::Usage, "NB0900", "--startup measures one prompt, --n-prompt has " +
                                                     std::to_string(options.prompts.size()));
  const char *const steps[] = {"open and verify plan", "open and map weights", "map code", "create context",
                               "first token", "all", "again", "all without again"};
  std::vector<std::vector<double>> samples(std::size(steps));
  CommonOptions common = options.common;
  common.threads = options.threads.front();
  for (unsigned round = 0; round < options.repetitions; ++round) {
    const uint64_t start = nowNs();
    NINFER_ASSIGN_OR_RETURN(Engine engine, Engine::open(common));
    const uint64_t opened = nowNs();
    NINFER_ASSIGN_OR_RETURN(Context context, Context::create(engine, common, false));
    const uint64_t created = nowNs();
    const ninfer_engine_info info = engine.info();
    const std::vector<int32_t> tokens = randomTokens(options.prompts.front(), info.vocab_size);
    const uint64_t ready = nowNs();
    NINFER_RETURN_IF_ERROR(context.submit(tokens));
    const uint64_t done = nowNs();
    NINFER_RETURN_IF_ERROR(context.truncate(0));
    const uint64_t cut = nowNs();
    NINFER_RETURN_IF_ERROR(context.submit(tokens));
    const uint64_t again = nowNs() - cut, all = done - ready + created - start;
    const uint64_t times[] = {info.plan_ns, info.weights_ns, info.code_ns, created - opened,
                              done - ready, all,             again,        all - std::min(again, all)};
    for (size_t i = 0; i < std::size(times); ++i)
      samples[i].push_back(double(times[i]) / 1e6);
  }
  std::vector<Row> rows;
  for (size_t i = 0; i < std::size(steps); ++i) {
    Row row;
    row["startup"] = steps[i];
    row["ms"] = quantile(samples[i], 0.5);
    row["ms min"] = quantile(samples[i], 0);
    row["ms max"] = quantile(samples[i], 1);
    row["runs"] = options.repetitions;
    rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace

int benchCommand(int argc, char **argv) {
  BenchOptions options;
  CLI::App app("Measure prompt processing (pp), token generation (tg), or startup.", "ninfer-exec bench");
  addCommonOptions(app, options.common);
  addSpecOptions(app, options.common);
  app.remove_option(app.get_option("--threads"));
  const auto list = [&](const char *names, auto &values, const char *text, unsigned least, unsigned most) {
    app.add_option(names, values, text)->type_name("N,...")->delimiter(',')->allow_extra_args(false)->check(CLI::Range(least, most));
  };
  list("-t,--threads", options.threads, "Thread counts (default: every CPU this process may use)", 1, 1024);
  list("-p,--n-prompt", options.prompts, "Prompt lengths (default 512; 0: none)", 0, UINT32_MAX);
  list("-n,--n-gen", options.generates, "Numbers of generated tokens (default 128; 0: none)", 0, UINT32_MAX);
  list("-d,--n-depth", options.depths, "Tokens already in the context (default 0)", 0, UINT32_MAX);
  app.add_option("-r,--repetitions", options.repetitions, "Repetitions of every test (default 5)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000000u));
  app.add_flag("--no-warmup", options.noWarmup, "Do not run every test once before measuring");
  auto *startup = app.add_flag("--startup", options.startup,
                               "Measure opening the plan up to the first token instead (-p: prompt length, default 1)");
  for (const char *name : {"--n-gen", "--n-depth", "--no-warmup", "--stats", "--profile", "--spec",
                           "--draft-tokens"})
    startup->excludes(app.get_option(name));
  app.add_option("-o,--output", options.format, "table (default), md, csv, json, jsonl")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(reportFormatNames()));
  if (int code = parse(app, argc, argv); code >= 0)
    return code;
  if (options.startup && app.count("--n-prompt") == 0)
    options.prompts = {1};
  auto rows = options.startup ? benchStartup(options) : benchSpeed(options);
  if (!rows.ok())
    return report(rows.error());
  Output output;
  return report(output.write(renderReport(*rows, reportFormat(options.format))));
}

} // namespace ninfer::exec
