// ninfer-exec as a process, with what it printed and how it ended.
#ifndef NINFER_TEST_UNIT_RUNTIME_EXECTOOL_H
#define NINFER_TEST_UNIT_RUNTIME_EXECTOOL_H

#include "support/File.h"
#include "test/unit/runtime/TinyModel.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ninfer::test {

struct Outcome {
  int code = -1; ///< exit code, or 1000 + signal
  std::string out, err;
};

inline bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

class ExecTool : public testing::Test {
protected:
  void SetUp() override { plan_ = writeTiny(folder_, model_).string(); }

  pid_t start(const std::vector<std::string> &arguments, const std::string &input, int stdoutFd = -1) {
    writeBytes(folder_ / "stdin", std::as_bytes(std::span(input.data(), input.size())));
    const pid_t child = fork();
    if (child == 0) {
      dup2(open((folder_ / "stdin").c_str(), O_RDONLY), 0);
      dup2(stdoutFd >= 0 ? stdoutFd : open((folder_ / "stdout").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      dup2(open((folder_ / "stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      std::vector<char *> argv = {const_cast<char *>("ninfer-exec")};
      for (const std::string &argument : arguments)
        argv.push_back(const_cast<char *>(argument.c_str()));
      argv.push_back(nullptr);
      execv(NINFER_BIN_DIR "/ninfer-exec", argv.data());
      _exit(99);
    }
    return child;
  }
  Outcome finish(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    Outcome outcome;
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    if (std::filesystem::exists(folder_ / "stdout"))
      outcome.out = readFile(folder_ / "stdout").take();
    outcome.err = readFile(folder_ / "stderr").take();
    return outcome;
  }
  Outcome exec(const std::vector<std::string> &arguments, const std::string &input = "") {
    return finish(start(arguments, input));
  }

  TemporaryFolder folder_;
  TinyModel model_;
  std::string plan_;
};

inline int32_t largest(const std::vector<double> &values) {
  return int32_t(std::max_element(values.begin(), values.end()) - values.begin());
}

inline std::string joined(const std::vector<int32_t> &tokens, const char *separator) {
  std::string text;
  for (int32_t token : tokens)
    text += (text.empty() ? "" : separator) + std::to_string(token);
  return text;
}

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_RUNTIME_EXECTOOL_H
