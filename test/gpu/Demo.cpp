// A small plan end to end through the real runtime: logits against exact ones that were stored when the pack was made, by
// the criterion of test/fakecuda, and greedy tokens against the plan's reference target, which this program runs too.
#include "test/gpu/Section.h"

#include "runtime/executor/Context.h"
#include "support/File.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ninfer::gpucheck {

namespace {

Result<std::unique_ptr<Context>> open(const Run &run, const std::string &target) {
  EngineOptions options;
  options.plan = run.pack.path("demo.plan.bin");
  options.weights = run.pack.path("demo.ninfer");
  options.target = target;
  NINFER_ASSIGN_OR_RETURN(const std::shared_ptr<const Engine> engine, Engine::open(options));
  return Context::create(engine, {});
}

int32_t largest(std::span<const float> row) { return int32_t(std::max_element(row.begin(), row.end()) - row.begin()); }

/// Largest |difference| over the root mean square of the exact row.
double distance(std::span<const float> got, const float *exact) {
  double squares = 0, worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    squares += double(exact[i]) * exact[i];
    const double d = std::fabs(double(got[i]) - exact[i]);
    worst = d <= worst ? worst : d; // NaN stays
  }
  return worst / std::sqrt(squares / double(got.size()));
}

Result<std::vector<int32_t>> greedy(Context &context, std::span<const int32_t> prompt, size_t count) {
  NINFER_RETURN_IF_ERROR(context.truncate(0));
  NINFER_RETURN_IF_ERROR(context.submit(prompt));
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) {
    tokens.push_back(largest(context.logits()));
    NINFER_RETURN_IF_ERROR(context.submit({&tokens.back(), 1}));
  }
  return tokens;
}

Status check(Run &run, Section &section) {
  const Json &demo = run.pack.manifest().at("demo");
  const auto tokens = demo.at("tokens").get<std::vector<int32_t>>();
  const auto positions = demo.at("positions").get<std::vector<size_t>>();
  const auto yardsticks = demo.at("bf16_operators").get<std::vector<double>>();
  NINFER_ASSIGN_OR_RETURN(const std::string stored, readFile(run.pack.path("demo.logits")));
  const size_t vocab = stored.size() / 4 / positions.size();
  std::vector<float> exact(vocab * positions.size());
  std::memcpy(exact.data(), stored.data(), exact.size() * 4);

  NINFER_ASSIGN_OR_RETURN(const std::unique_ptr<Context> context, open(run, "cuda:sm_" + std::to_string(run.gpu->sm())));
  std::string fault;
  double worst = 0;
  const auto compare = [&](const char *how, size_t i) {
    const std::span<const float> row = context->logits();
    if (row.size() != vocab) {
      fault = std::to_string(row.size()) + " logits, expected " + std::to_string(vocab);
      return;
    }
    constexpr double kYardsticks = 2; // test/fakecuda/fakecuda.py
    const double d = distance(row, &exact[i * vocab]), bound = kYardsticks * yardsticks[i];
    const std::string where = std::string(how) + ", position " + std::to_string(positions[i]);
    worst = std::max(worst, d / yardsticks[i]);
    if (!(d <= bound) && fault.empty())
      fault = where + ": distance " + std::to_string(d) + ", bound " + std::to_string(bound);
    if (largest(row) != largest({&exact[i * vocab], vocab}) && fault.empty())
      fault = where + ": another most likely token";
  };
  size_t next = 0;
  for (size_t t = 0; t < tokens.size() && next < positions.size(); ++t) {
    NINFER_RETURN_IF_ERROR(context->submit({&tokens[t], 1}));
    if (t == positions[next])
      compare("decode", next++);
  }
  for (size_t i = 0; i < positions.size(); ++i) {
    NINFER_RETURN_IF_ERROR(context->truncate(0));
    NINFER_RETURN_IF_ERROR(context->submit(std::span(tokens).first(positions[i] + 1)));
    compare("prefill", i);
  }
  section.details["times_bf16_operators"] = worst;
  section.details["positions"] = positions.size();

  NINFER_ASSIGN_OR_RETURN(const std::unique_ptr<Context> reference, open(run, "reference"));
  size_t answers = 0;
  for (const Json &prompt : demo.at("prompts")) {
    const auto ids = prompt.get<std::vector<int32_t>>();
    const size_t count = demo.at("answer_tokens").get<size_t>();
    NINFER_ASSIGN_OR_RETURN(const std::vector<int32_t> expected, greedy(*reference, ids, count));
    NINFER_ASSIGN_OR_RETURN(const std::vector<int32_t> got, greedy(*context, ids, count));
    if (got != expected && fault.empty())
      fault = "answer " + std::to_string(answers) + " differs from the reference plan's";
    ++answers;
  }
  section.details["answers"] = answers;
  if (!fault.empty())
    section.fail(fault);
  else
    section.outcome = Outcome::Pass;
  return {};
}

} // namespace

void checkDemo(Run &run, Section &section) {
  if (Status status = check(run, section); !status.ok())
    section.fail(status.error());
}

} // namespace ninfer::gpucheck
