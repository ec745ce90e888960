// What the tests of built hybrid models share: the golden artifact with its oracle, and a measure of distance.
#ifndef NINFER_TEST_UNIT_COMPILER_HYBRIDMODEL_H
#define NINFER_TEST_UNIT_COMPILER_HYBRIDMODEL_H

#include "Workspace.h"
#include "runtime/executor/Context.h"
#include "runtime/loader/Machine.h"
#include "test/conformance/FixtureFile.h"

#include <cmath>

namespace ninfer::test {

inline constexpr int64_t kVocab = 48;

/// Levels of this machine's CPU that plans can be built for.
inline std::vector<std::string> cpuTargets() {
  const Machine machine = Machine::detect();
  std::vector<std::string> names;
  if (machine.lacks({"avx2", "fma", "f16c"}).empty())
    names.push_back("cpu:x86-64-v3");
  if (machine.lacks({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}).empty())
    names.push_back("cpu:x86-64-v4");
  return names;
}

struct Distance {
  double worst = 0, rms = 0; ///< largest difference; root mean square of the expected values
  double relative() const { return worst / rms; }
};

inline Distance distance(std::span<const float> actual, std::span<const double> expected) {
  Distance d;
  EXPECT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    d.worst = std::max(d.worst, std::isfinite(actual[i]) ? std::abs(actual[i] - expected[i])
                                                         : HUGE_VAL);
    d.rms += expected[i] * expected[i];
  }
  d.rms = std::sqrt(d.rms / double(expected.size()));
  return d;
}

inline Distance distance(std::span<const float> actual, std::span<const float> expected) {
  const std::vector<double> wide(expected.begin(), expected.end());
  return distance(actual, std::span<const double>(wide));
}

/// "3.8e-06": a measured error as a property of the test.
inline std::string errorText(double error) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", error);
  return text;
}

class HybridModel : public Workspace {
protected:
  struct Sizes {
    int64_t context = 64, chunk = 8;
    std::string kv = "f32";
    std::optional<ActivationPolicy> policy = {};
    int64_t draftTokens = 0;
    bool traceLayers = false;
  };

  std::vector<std::string> targets() const {
    std::vector<std::string> names = cpuTargets();
    names.insert(names.begin(), "reference");
    return names;
  }

  /// Builds the golden artifact, for every target unless told otherwise.
  void buildGolden(const std::string &plan, const Sizes &sizes, std::vector<std::string> names = {}) {
    BuildOptions wanted =
        options(fixturePath("v3_single.ninfer"), names.empty() ? targets() : std::move(names));
    wanted.cache.directory = file("kernels").string();
    wanted.output = file(plan);
    wanted.maxContext = sizes.context;
    wanted.prefillChunk = sizes.chunk;
    wanted.kvDtype = sizes.kv;
    wanted.activationPolicy = sizes.policy;
    wanted.draftTokens = sizes.draftTokens;
    wanted.traceLayers = sizes.traceLayers;
    auto report = build(wanted);
    ASSERT_TRUE(report.ok()) << report.error().render();
  }

  std::shared_ptr<const Engine> open(const std::string &plan, const std::string &target) {
    auto engine = Engine::open({.plan = file(plan),
                                .weights = fixturePath("v3_single.ninfer"),
                                .target = target});
    EXPECT_TRUE(engine.ok()) << engine.error().render();
    return engine.ok() ? engine.take() : nullptr;
  }

  static std::unique_ptr<Context> context(const std::shared_ptr<const Engine> &engine,
                                          unsigned threads = 1) {
    auto made = Context::create(engine, {.threads = threads});
    EXPECT_TRUE(made.ok()) << made.error().render();
    return made.ok() ? made.take() : nullptr;
  }

  static std::vector<float> logits(const Context &context) {
    return {context.logits().begin(), context.logits().end()};
  }
};

/// Exact rows of a trace of the nine tokens, and what the same model gives with every operator rounded
/// to BF16.
struct Oracle {
  std::vector<int32_t> ids;
  std::vector<std::vector<double>> exact, bf16;

  /// Largest relative error of the model with BF16 operators.
  double bf16Error() const {
    double worst = 0;
    for (size_t row = 0; row < exact.size(); ++row) {
      const std::vector<float> rounded(bf16[row].begin(), bf16[row].end());
      worst = std::max(worst, distance(rounded, exact[row]).relative());
    }
    return worst;
  }
};

inline Oracle readOracle(const char *trace = "logits") {
  const nlohmann::json json = readJson("v3_single_forward.json");
  Oracle oracle;
  oracle.ids = json["ids"].get<std::vector<int32_t>>();
  for (auto [name, rows] :
       {std::pair("oracle_f64", &oracle.exact), std::pair("reference_bf16_ops", &oracle.bf16)}) {
    const auto data = json[name][trace]["data"].get<std::vector<double>>();
    const auto width = json["oracle_f64"][trace]["shape"].back().get<size_t>();
    for (size_t i = 0; i + width <= data.size(); i += width)
      rows->emplace_back(data.begin() + ptrdiff_t(i), data.begin() + ptrdiff_t(i + width));
  }
  return oracle;
}

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_COMPILER_HYBRIDMODEL_H
