// A folder of its own per test, random artifacts, and child processes with their exit code and peak
// memory.
#ifndef NINFER_TEST_UNIT_COMPILER_WORKSPACE_H
#define NINFER_TEST_UNIT_COMPILER_WORKSPACE_H

#include "compiler/Compiler.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ninfer::test {

struct ChildResult {
  int exitCode = -1;
  uint64_t peakRssBytes = 0;
  std::string out, err;
};

class Workspace : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "ninfer-compiler-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path file(const std::string &name) const { return folder_ / name; }

  /// Runs a program; both streams are captured through files.
  ChildResult run(std::vector<std::string> arguments,
                  const std::function<void()> &inChild = {}) const {
    const auto out = file(".out"), err = file(".err");
    const pid_t child = fork();
    if (child == 0) {
      if (!freopen(out.c_str(), "w", stdout) || !freopen(err.c_str(), "w", stderr))
        _exit(99);
      if (inChild)
        inChild();
      std::vector<char *> argv;
      for (std::string &argument : arguments)
        argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(98);
    }
    int status = 0;
    rusage usage{};
    wait4(child, &status, 0, &usage);
    ChildResult result;
    result.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    result.peakRssBytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    result.out = read(out);
    result.err = read(err);
    std::filesystem::remove(out);
    std::filesystem::remove(err);
    return result;
  }

  /// A random artifact named `name`; `options` as for make_tiny_artifact.
  std::filesystem::path artifact(const std::string &name,
                                 std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {NINFER_MAKE_ARTIFACT, file(name).string()});
    const ChildResult result = run(options);
    EXPECT_EQ(result.exitCode, 0) << result.err;
    return file(name);
  }

  BuildOptions options(const std::filesystem::path &artifact,
                       std::vector<std::string> targets = {"reference"}) const {
    BuildOptions options;
    options.artifact = artifact;
    options.output = file("plan.bin");
    options.targets = std::move(targets);
    options.threads = 1;
    return options;
  }

  static std::string read(const std::filesystem::path &path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  /// Names in the folder, sorted.
  std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::filesystem::path folder_;
};

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_COMPILER_WORKSPACE_H
