// ninfer-convert as a program: exit codes, what goes to which stream, and what an interrupt leaves
// behind.
#include "artifact/container/Reader.h"

#include "SourceBuilders.h"

#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>

namespace ninfer {
namespace {

using namespace test;
using Json = nlohmann::ordered_json;

const char *const kTool = NINFER_BIN_DIR "/ninfer-convert";

struct Outcome {
  int code = -1;
  std::string out, err;
};

pid_t start(const std::vector<std::string> &arguments, const fs::path &out, const fs::path &err) {
  std::string command = "exec " + std::string(kTool);
  for (const std::string &a : arguments)
    command += " '" + a + "'";
  command += " >'" + out.string() + "' 2>'" + err.string() + "'";
  pid_t pid = ::fork();
  if (pid == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  return pid;
}

int waitFor(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

Outcome run(const std::vector<std::string> &arguments) {
  TempFolder logs;
  Outcome o;
  o.code = waitFor(start(arguments, logs / "out", logs / "err"));
  o.out = readBytes(logs / "out");
  o.err = readBytes(logs / "err");
  return o;
}

TEST(ConvertTool, ConvertsAndReportsOnStdout) {
  TempFolder in, out;
  writeTinyFolder(in.path(), tinyTensors(), "F32");
  std::string target = (out / "m.ninfer").string();
  Outcome o = run({in.path().string(), "-o", target, "--recipe", "mixed", "--report", "json",
                   "--progress", "on"});
  ASSERT_EQ(o.code, 0) << o.err;
  nlohmann::json report = nlohmann::json::parse(o.out); // nothing but the report
  EXPECT_EQ(report["recipe"], "mixed");
  EXPECT_EQ(report["provenance"]["converted"], 15);
  EXPECT_EQ(report["file_bytes"], fs::file_size(target));
  EXPECT_TRUE(Artifact::open(target).ok());
  Outcome table = run({in.path().string(), "--dry-run", "--report", "table"});
  EXPECT_EQ(table.code, 0);
  EXPECT_NE(table.out.find("text/layers/1/mlp/down"), std::string::npos);
  EXPECT_NE(table.out.find("dry run"), std::string::npos);
  EXPECT_EQ(table.err, "");
}

TEST(ConvertTool, ExitCodesFollowTheKindOfTheError) {
  TempFolder in, out;
  writeTinyFolder(in.path(), tinyTensors(), "F32");
  std::string source = in.path().string(), target = (out / "m.ninfer").string();
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({source}).code, 2); // no -o
  EXPECT_EQ(run({source, "-o", target, "--recipe", "q3"}).code, 2);
  EXPECT_EQ(run({source, "-o", target, "--activation-policy", "AllowA2"}).code, 2);
  EXPECT_EQ(run({source, "-o", target, "--frobnicate"}).code, 2);
  EXPECT_EQ(run({(in / "missing").string(), "-o", target}).code, 3);
  Json config = Json::parse(tinyConfig());
  config["attention_bias"] = true;
  writeBytes(in / "config.json", config.dump());
  Outcome o = run({source, "-o", target});
  EXPECT_EQ(o.code, 5);
  EXPECT_NE(o.err.find("error[NB0315]: config.json: attention_bias true"), std::string::npos)
      << o.err;
  EXPECT_EQ(o.out, "");
  writeBytes(in / "config.json", "{");
  EXPECT_EQ(run({source, "-o", target}).code, 3);
  EXPECT_TRUE(fs::is_empty(out.path()));
}

TEST(ConvertTool, CommandLineErrorsHaveTheDocumentedForm) {
  TempFolder in, out;
  writeTinyFolder(in.path(), tinyTensors(), "F32");
  const std::string source = in.path().string();
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {source},
      {source, "-o", "-"},
      {source, "-o", "x", "--frobnicate"},
      {source, "-o", "x", "--report", "xml"},
      {source, "-o", "x", "-t", "0"},
      {source, "-o"},
  };
  for (const auto &arguments : wrong) {
    Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_EQ(o.err.rfind("error[NB0900]: ", 0), 0u) << o.err;
    EXPECT_NE(o.err.find("\n  help: ninfer-convert --help lists the options\n"), std::string::npos)
        << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 2) << o.err;
    EXPECT_EQ(o.out, "");
  }
  Outcome version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.rfind("ninfer-convert ", 0), 0u) << version.out;
  EXPECT_EQ(version.err, "");
}

TEST(ConvertTool, OptionsThatSayNothingOrContradictEachOther) {
  TempFolder in, out;
  writeTinyFolder(in.path(), tinyTensors(), "F32");
  const std::string source = in.path().string(), target = (out / "m.ninfer").string();
  Outcome o = run({source, "-o", target, "--requantize", "--recipe", "keep"});
  EXPECT_EQ(o.code, 2) << o.err;
  EXPECT_NE(o.err.find("--requantize and --recipe keep contradict each other"), std::string::npos)
      << o.err;
  for (const std::vector<std::string> &arguments :
       {std::vector<std::string>{source, "-o", target, "--name", ""},
        std::vector<std::string>{"upgrade", source, target, "--name", ""},
        std::vector<std::string>{"upgrade", source, target, "--to", "2", "--weights-id", ""}}) {
    o = run(arguments);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_NE(o.err.find("must not be empty"), std::string::npos) << o.err;
  }
  EXPECT_TRUE(fs::is_empty(out.path()));
}

TEST(ConvertTool, SaysWhatASourceIsNot) {
  TempFolder in, out;
  const std::string target = (out / "m.ninfer").string();
  Outcome o = run({in.path().string(), "-o", target});
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("not a model folder (no config.json)"), std::string::npos) << o.err;
  writeBytes(in / "plan.bin", std::string("NINPLAN\0", 8));
  o = run({(in / "plan.bin").string(), "-o", target});
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("it is a plan of ninfer-build"), std::string::npos) << o.err;
}

TEST(ConvertTool, ReportsPadding) {
  TempFolder in; // rows of 64 or 96 elements, stored as 128
  writeTinyFolder(in.path(), tinyTensors(), "F32");
  Outcome padded = run({in.path().string(), "--dry-run", "--recipe", "w8"});
  EXPECT_NE(padded.out.find(" % is padding\n"), std::string::npos) << padded.out;
  Outcome plain = run({in.path().string(), "--dry-run", "--recipe", "bf16"});
  EXPECT_EQ(plain.out.find("padding"), std::string::npos) << plain.out;
}

/// A model whose embedding is half a gigabyte of zeros that take no disk space.
void writeLargeSource(const fs::path &folder) {
  constexpr uint64_t kVocab = 1u << 21, kBytes = kVocab * 64 * 4;
  std::vector<TinyTensor> tensors = tinyTensors();
  std::string header = "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[" +
                       std::to_string(kVocab) + ",64],\"data_offsets\":[0," +
                       std::to_string(kBytes) + "]}";
  std::string data;
  for (size_t i = 1; i < tensors.size(); ++i) {
    std::string dims;
    for (uint64_t d : tensors[i].shape)
      dims += (dims.empty() ? "" : ",") + std::to_string(d);
    uint64_t begin = kBytes + data.size();
    data += f32Bytes(tensors[i].values);
    header += ",\"" + tensors[i].huggingFace + "\":{\"dtype\":\"F32\",\"shape\":[" + dims +
              "],\"data_offsets\":[" + std::to_string(begin) + "," +
              std::to_string(kBytes + data.size()) + "]}";
  }
  std::string head = safetensorsFile(header + "}", "");
  writeBytes(folder / "model.safetensors", head);
  fs::resize_file(folder / "model.safetensors", head.size() + kBytes);
  std::ofstream(folder / "model.safetensors", std::ios::binary | std::ios::app)
      .write(data.data(), static_cast<std::streamsize>(data.size()));
  Json config = Json::parse(tinyConfig());
  config["vocab_size"] = kVocab;
  writeBytes(folder / "config.json", config.dump());
  writeBytes(folder / "tokenizer.json", tinyTokenizer());
}

TEST(ConvertTool, AnInterruptEndsWith130AndLeavesNothing) {
  TempFolder in, out, logs;
  writeLargeSource(in.path());
  pid_t pid = start({in.path().string(), "-o", (out / "m.ninfer").string(), "--recipe", "q4", "-t",
                     "1", "--progress", "json"},
                    logs / "out", logs / "err");
  for (int i = 0; i < 6000 && readBytes(logs / "err").find("\"convert\"") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(pid, SIGINT);
  EXPECT_EQ(waitFor(pid), 130) << readBytes(logs / "err");
  EXPECT_TRUE(fs::is_empty(out.path()));
  EXPECT_EQ(readBytes(logs / "out"), "");
  EXPECT_NE(readBytes(logs / "err").find("interrupted"), std::string::npos);
}

} // namespace
} // namespace ninfer
