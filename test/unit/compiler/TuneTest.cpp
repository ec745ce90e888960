// --tune and --locked: what a tuned build writes, that a locked one repeats it byte for byte, and what is refused.
#include "Workspace.h"

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace ninfer;
using namespace ninfer::test;

namespace {

class TuneTest : public Workspace {
protected:
  BuildReport buildOk(const BuildOptions &options) {
    auto report = build(options);
    EXPECT_TRUE(report.ok()) << report.error().render();
    return report.ok() ? report.take() : BuildReport();
  }
  Error buildFails(const BuildOptions &options) {
    auto report = build(options);
    EXPECT_FALSE(report.ok());
    return report.ok() ? Error() : report.error();
  }
  /// Takes choices from the cache; an empty one makes a file of defaults without timing anything.
  BuildOptions tuned(const std::filesystem::path &model) {
    BuildOptions o = options(model, {"cpu:x86-64-v3"});
    o.tune = BuildOptions::Tune::Cache;
    o.cache.directory = file("cache").string();
    o.threads = 2;
    return o;
  }
  BuildOptions timed(const std::filesystem::path &model) {
    BuildOptions o = tuned(model);
    o.tune = BuildOptions::Tune::Measure;
    o.tuneSeconds = 0.01;
    return o;
  }
  /// What each kernel with choices was given, by source.
  static std::map<std::string, size_t> sourcesOf(const BuildReport &report) {
    std::map<std::string, size_t> count;
    for (const KernelReport &kernel : report.targets[0].kernels)
      if (!kernel.tuning.empty())
        ++count[kernel.tuningFrom];
    return count;
  }
  /// Puts every entry of a tuning file into the cache, with `value` as its stream_block.
  size_t fillCache(const std::string &text, const std::string &value) {
    std::istringstream lines(text);
    size_t count = 0;
    for (std::string line; std::getline(lines, line);)
      if (line.rfind("cpu:", 0) == 0) {
        std::istringstream words(line);
        std::string target, kernel, digest;
        words >> target >> kernel >> digest;
        rewrite(std::filesystem::path(file("cache")) / (digest + ".tuning"),
                "ninfer-tuning 1\n" + target + " " + kernel + " " + digest + " row_block=128 output_block=64 stream_block=" + value + " # seen\n");
        ++count;
      }
    return count;
  }
  static size_t countOf(const std::string &text, const std::string &part) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size())
      ++count;
    return count;
  }
  void rewrite(const std::filesystem::path &path, const std::string &text) { std::ofstream(path, std::ios::binary) << text; }
};

TEST_F(TuneTest, ALockedBuildRepeatsATunedOne) {
  const auto model = artifact("m.ninfer", {"--layers", "1"});
  BuildReport report = buildOk(tuned(model));
  const std::string defaults = read(file("plan.bin"));
  EXPECT_EQ(report.tuningFile, file("plan.bin.tuning").string());
  std::string text = read(file("plan.bin.tuning"));
  size_t linear = 0;
  for (const KernelReport &kernel : report.targets[0].kernels) {
    const bool chosen = kernel.name.rfind("linear_", 0) == 0;
    linear += chosen;
    EXPECT_EQ(kernel.tuningFrom, chosen ? "default" : "") << kernel.name;
    EXPECT_EQ(countOf(text, " " + kernel.name + " "), chosen ? 1u : 0u) << kernel.name;
    if (chosen)
      EXPECT_NE(text.find(kernel.tuning), std::string::npos) << kernel.name;
  }
  EXPECT_GT(linear, 5u);
  EXPECT_EQ(fillCache(text, "16"), linear);

  report = buildOk(tuned(model)); // the same request, other choices
  const std::string first = read(file("plan.bin"));
  text = read(file("plan.bin.tuning"));
  EXPECT_NE(first, defaults);
  EXPECT_EQ(sourcesOf(report)["cache"], linear);
  EXPECT_EQ(countOf(text, " stream_block=16 # seen\n"), linear) << text;
  const auto json = nlohmann::json::parse(reportJson(report));
  EXPECT_EQ(json["plan"]["tuning_file"], report.tuningFile);
  EXPECT_NE(reportText(report).find("tuning: " + std::to_string(linear) + " cache; " + std::to_string(linear) + " other than the default"),
            std::string::npos)
      << reportText(report);

  BuildOptions locked = options(model, {"cpu:x86-64-v3"}); // no cache
  locked.locked = true;
  rewrite(file("plan.bin"), "");
  report = buildOk(locked); // the file beside the plan
  EXPECT_EQ(read(file("plan.bin")), first);
  EXPECT_EQ(sourcesOf(report)["locked"], linear);
  EXPECT_EQ(report.tuningFile, "");
  EXPECT_EQ(read(file("plan.bin.tuning")), text);
  locked.lockFile = file("plan.bin.tuning");
  locked.output = file("second.bin");
  buildOk(locked);
  EXPECT_EQ(read(file("second.bin")), first);
  EXPECT_EQ(listing(), (std::vector<std::string>{"cache", "m.ninfer", "plan.bin", "plan.bin.tuning", "second.bin"}));
}

TEST_F(TuneTest, WithoutTuningNothingChanges) {
  const auto model = artifact("m.ninfer", {"--layers", "1"});
  const BuildReport plain = buildOk(options(model, {"cpu:x86-64-v3"}));
  EXPECT_EQ(listing(), (std::vector<std::string>{"m.ninfer", "plan.bin"}));
  for (const KernelReport &kernel : plain.targets[0].kernels)
    EXPECT_EQ(kernel.tuning + kernel.tuningFrom, "");
  EXPECT_EQ(reportText(plain).find("tuning"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(reportJson(plain))["plan"]["tuning_file"].is_null());
}

TEST_F(TuneTest, OnlyWhatTheCacheDoesNotHaveIsTimed) {
  const auto model = artifact("m.ninfer", {"--layers", "1"});
  buildOk(tuned(model));
  const size_t all = fillCache(read(file("plan.bin.tuning")), "16");
  // A damaged entry is as good as absent: its kernel is timed, and the entry is written anew.
  for (const auto &entry : std::filesystem::directory_iterator(file("cache")))
    if (entry.path().extension() == ".tuning") {
      rewrite(entry.path(), "ninfer-tuning 1\nnonsense\n");
      break;
    }
  auto count = sourcesOf(buildOk(tuned(model)));
  EXPECT_EQ(count["default"], 1u); // --tune=cache times nothing
  EXPECT_EQ(count["cache"], all - 1);
  count = sourcesOf(buildOk(timed(model)));
  EXPECT_EQ(count["measured"], 1u);
  EXPECT_EQ(count["cache"], all - 1);
  const std::string plan = read(file("plan.bin")), choices = read(file("plan.bin.tuning"));
  EXPECT_EQ(countOf(choices, " us"), countOf(choices, ", default") + 1) << choices;
  count = sourcesOf(buildOk(tuned(model)));
  EXPECT_EQ(count["cache"], all);
  EXPECT_EQ(read(file("plan.bin")), plan);
  EXPECT_EQ(read(file("plan.bin.tuning")), choices);
}

TEST_F(TuneTest, MissesAndBrokenFiles) {
  const auto model = artifact("m.ninfer", {"--layers", "1"}), wide = artifact("wide.ninfer", {"--layers", "1", "--vocab", "320"});
  buildOk(tuned(model));
  BuildOptions locked = options(wide, {"cpu:x86-64-v3"});
  locked.output = file("wide.bin");
  locked.locked = true;
  locked.lockFile = file("plan.bin.tuning");
  Error error = buildFails(locked);
  EXPECT_EQ(error.code, "NB0542");
  EXPECT_EQ(error.kind, ErrorKind::CacheMiss);
  EXPECT_NE(error.message.find("plan.bin.tuning: no entry for kernel linear_"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("on cpu:x86-64-v3"), std::string::npos) << error.message;
  EXPECT_FALSE(std::filesystem::exists(file("wide.bin")));
  // Another level of the same kernels is another request.
  locked.artifact = model;
  locked.targets = {"cpu:x86-64-v4"};
  EXPECT_EQ(buildFails(locked).code, "NB0542");
  rewrite(file("plan.bin.tuning"), "ninfer-tuning 1\nx\n");
  error = buildFails(locked);
  EXPECT_EQ(error.code, "NB0541");
  EXPECT_NE(error.message.find("line 2"), std::string::npos);
  locked.lockFile = file("absent");
  EXPECT_EQ(buildFails(locked).code, "NB0901");
}

TEST_F(TuneTest, OptionsThatDoNotFit) {
  const auto model = artifact("m.ninfer", {"--layers", "1"});
  const std::string foreign = "precious\n";
  rewrite(file("plan.bin.tuning"), foreign);
  Error error = buildFails(tuned(model));
  EXPECT_EQ(error.code, "NB0905");
  EXPECT_EQ(read(file("plan.bin.tuning")), foreign);
  std::filesystem::remove(file("plan.bin.tuning"));

  BuildOptions both = timed(model), reference = timed(model), cache = tuned(model), nowhere = tuned(model);
  both.locked = true;
  EXPECT_NE(buildFails(both).message.find("does not go with --tune"), std::string::npos);
  reference.targets = {"reference"};
  EXPECT_NE(buildFails(reference).message.find("no --target is a CPU"), std::string::npos);
  cache.cache.directory.clear();
  EXPECT_NE(buildFails(cache).message.find("--cache"), std::string::npos);
  nowhere.tune = BuildOptions::Tune::Off;
  nowhere.locked = true;
  nowhere.output.clear();
  EXPECT_NE(buildFails(nowhere).message.find("--locked=FILE"), std::string::npos);
  EXPECT_EQ(listing(), std::vector<std::string>{"m.ninfer"});

  BuildOptions stopped = timed(model);
  stopped.cache.directory.clear();
  stopped.tuneSeconds = 1000;
  size_t polls = 0;
  stopped.cancelled = [&polls] { return ++polls > 12; }; // the steps before are few
  EXPECT_EQ(buildFails(stopped).code, "NB0540");
  EXPECT_EQ(listing(), std::vector<std::string>{"m.ninfer"});
}

} // namespace
