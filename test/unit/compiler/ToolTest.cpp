// ninfer-build as a process: exit codes, streams, full disk, Ctrl-C, and memory that does not
// follow the weights.
#include "Workspace.h"

#include <csignal>
#include <nlohmann/json.hpp>

using namespace ninfer;
using namespace ninfer::test;

namespace {

class ToolTest : public Workspace {
protected:
  ChildResult tool(std::vector<std::string> arguments, const std::function<void()> &inChild = {}) {
    arguments.insert(arguments.begin(), NINFER_BUILD_TOOL);
    return run(std::move(arguments), inChild);
  }
};

TEST_F(ToolTest, CommandLineErrors) {
  const std::string model = artifact("m.ninfer").string();
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {model},
      {model, "-o"},
      {model, "-o", ""},
      {model, "-o", "-"},
      {model, "--nothing", "-o", "p"},
      {model, model, "-o", "p"},
      {model, "-o", "p", "--max-context", "12x"},
      {model, "-o", "p", "--max-context=0"},
      {model, "-o", "p", "--max-context=-1"},
      {model, "-o", "p", "--kv-dtype", "f16"},
      {model, "-o", "p", "--report", "xml"},
      {model, "-o", "p", "--dry-run"},
      {model, "-o", "p", "--explain=yes"},
      {model, "-o", "p", "--tune", "fast"},
      {model, "-o", "p", "--tune=0"},
      {model, "-o", "p", "--tune=-1"},
      {model, "-o", "p", "--locked="},
      {model, "-o", "p", "--locked", "--target", "reference"},
      {model, "-o", "p", "--target", "cpu:i486"},
      {model, "--emit-mlir", "graph", "--report", "json"},
      {model, "-o", "p", "--target", "cuda:sm_89", "--prepack", "-"},
      {model, "-o", file("p").string(), "--target", "cuda:sm_89", "--prepack", file("./p").string()},
      {model, "-o", file("p").string(), "--target", "cuda:sm_89", "--prepack", file("p.tuning").string()},
  };
  for (const auto &arguments : wrong) {
    const ChildResult result = tool(arguments);
    EXPECT_EQ(result.exitCode, 2) << result.err;
    EXPECT_EQ(result.err.rfind("error[NB0", 0), 0u) << result.err;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(listing(), std::vector<std::string>{"m.ninfer"});
  EXPECT_EQ(tool({"--help"}).exitCode, 0);
}

TEST_F(ToolTest, JsonReportIsOneObjectOnStandardOutput) {
  const std::string model = artifact("m.ninfer").string(), plan = file("plan.bin").string();
  const ChildResult result =
      tool({model, "-o", plan, "--target", "reference", "--report", "json", "--explain"});
  ASSERT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["plan"]["bytes"], std::filesystem::file_size(plan));
  EXPECT_EQ(json["targets"][0]["name"], "reference");
  EXPECT_GT(json["targets"][0]["distinct_kernels"], 8);
  EXPECT_GT(json["peak_rss_bytes"], 1 << 20);
  EXPECT_TRUE(json["explain"].is_string());
}

TEST_F(ToolTest, TheCacheOfTheUserIsTheDefault) {
  const std::string model = artifact("m.ninfer", {"--layers", "1"}).string(), home = file("home").string();
  std::filesystem::create_directory(home);
  const auto inHome = [&] {
    setenv("HOME", home.c_str(), 1);
    unsetenv("XDG_CACHE_HOME");
  };
  auto build = [&](const char *plan, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {model, "-o", file(plan).string(), "--target", "cpu:x86-64-v3", "--report", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ChildResult result = tool(arguments, inHome);
    EXPECT_EQ(result.exitCode, 0) << result.err;
    const auto json = nlohmann::json::parse(result.out, nullptr, false);
    return std::pair(json["targets"][0]["cache_hits"].get<size_t>(), result.err);
  };
  EXPECT_EQ(build("off.bin", {"--cache", "off"}).first, 0u);
  EXPECT_FALSE(std::filesystem::exists(home + "/.cache"));
  // Two at once into an empty cache, then one that finds everything: the same bytes as without.
  const pid_t other = fork();
  if (other == 0) {
    inHome();
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
      _exit(99);
    execl(NINFER_BUILD_TOOL, NINFER_BUILD_TOOL, model.c_str(), "-o", file("a.bin").c_str(), "--target", "cpu:x86-64-v3", nullptr);
    _exit(98);
  }
  build("b.bin");
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  const auto [hits, err] = build("c.bin");
  EXPECT_GT(hits, 8u);
  EXPECT_EQ(err, "");
  for (const char *plan : {"a.bin", "b.bin", "c.bin"})
    EXPECT_EQ(read(file(plan)), read(file("off.bin"))) << plan;
  // A place others may write to is left alone, and said so.
  std::filesystem::permissions(home + "/.cache/ninfer", std::filesystem::perms::all);
  const auto [none, note] = build("d.bin");
  EXPECT_EQ(none, 0u);
  EXPECT_NE(note.find("note: no cache of compiled kernels in " + home + "/.cache/ninfer: other users may write to it"), std::string::npos) << note;
  EXPECT_EQ(read(file("d.bin")), read(file("off.bin")));
}

TEST_F(ToolTest, FullDiskLeavesNothing) {
  const std::string model = artifact("m.ninfer").string();
  const std::string old("NINPLAN\0old", 11);
  std::ofstream(file("plan.bin")) << old;
  // A limit on file size stands in for a full disk: the write fails after part of the plan.
  const ChildResult result =
      tool({model, "-o", file("plan.bin").string(), "--target", "reference"}, [] {
        const rlimit limit = {8192, 8192};
        setrlimit(RLIMIT_FSIZE, &limit);
      });
  EXPECT_EQ(result.exitCode, 1) << result.err;
  EXPECT_NE(result.err.find("plan.bin"), std::string::npos) << result.err;
  EXPECT_EQ(read(file("plan.bin")), old);
  EXPECT_EQ(listing(), (std::vector<std::string>{"m.ninfer", "plan.bin"}));
}

TEST_F(ToolTest, InterruptLeavesNothing) {
  const std::string model = artifact("m.ninfer").string();
  // Raised while blocked, so that it waits until the tool has its handler and unblocks it.
  const ChildResult result =
      tool({model, "-o", file("plan.bin").string(), "--target", "cpu:x86-64-v3"}, [] {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigprocmask(SIG_BLOCK, &set, nullptr);
        raise(SIGINT);
      });
  EXPECT_EQ(result.exitCode, 130) << result.out << result.err;
  EXPECT_EQ(listing(), std::vector<std::string>{"m.ninfer"});
}

TEST_F(ToolTest, MemoryDoesNotFollowTheWeights) {
  // 4.3 GB of weights as holes: 32 layers of an 8B model against 2 layers of a toy.
  const std::string tiny = artifact("tiny.ninfer").string();
  const std::string large = artifact("large.ninfer", {"--preset", "8b", "--sparse"}).string();
  ASSERT_GT(std::filesystem::file_size(large), 4000000000u);
  const ChildResult small = tool({tiny, "--dry-run", "--target", "reference"});
  const ChildResult big = tool({large, "--dry-run", "--target", "reference"});
  ASSERT_EQ(small.exitCode, 0) << small.err;
  ASSERT_EQ(big.exitCode, 0) << big.err;
  EXPECT_LT(big.peakRssBytes, small.peakRssBytes + (64u << 20));
}

} // namespace
