// What a build refuses, with which id and exit code; and that a failed build leaves no trace.
#include "Workspace.h"

#include <csignal>

using namespace ninfer;
using namespace ninfer::test;

namespace {

class BuildErrorTest : public Workspace {
protected:
  Error refused(const BuildOptions &options) {
    auto report = build(options);
    EXPECT_FALSE(report.ok());
    return report.ok() ? Error() : report.takeStatus().takeError();
  }
};

TEST_F(BuildErrorTest, OptionsOutOfRange) {
  const auto model = artifact("m.ninfer");
  struct Case {
    std::function<void(BuildOptions &)> set;
    const char *code;
    const char *text;
  };
  const Case cases[] = {
      {[](auto &o) { o.maxContext = 0; }, "NB0403", "expected 1 to 512"},
      {[](auto &o) { o.maxContext = 513; }, "NB0403", "got 513"},
      {[](auto &o) { o.prefillChunk = 0; }, "NB0403", "--prefill-chunk"},
      {[](auto &o) { o.maxContext = 32, o.prefillChunk = 33; }, "NB0403", "expected 1 to 32"},
      {[](auto &o) { o.kvDtype = "f16"; }, "NB0403", "expected bf16, f32 or int8"},
      {[](auto &o) { o.emitStage = "nothing"; }, "NB0403", "unknown stage 'nothing'"},
      {[](auto &o) { o.targets = {}; }, "NB0402", "no target"},
      {[](auto &o) { o.targets = {"cuda:sm_70"}; }, "NB0402", "unknown target 'cuda:sm_70'"},
      {[](auto &o) { o.targets = {"cpu"}; }, "NB0402", "unknown target 'cpu'"},
      {[](auto &o) { o.targets = {"cpu:pentium"}; }, "NB0402", "unknown target 'cpu:pentium'"},
      {[](auto &o) {
         o.targets = {"reference", "reference"};
       },
       "NB0402", "given twice"},
      {[](auto &o) { o.activationPolicy = ActivationPolicy::AllowA8; }, "NB0403",
       "every use of m.ninfer states"},
      {[](auto &o) { o.output = o.artifact; }, "NB0403", "is the artifact itself"},
  };
  for (const Case &c : cases) {
    BuildOptions wrong = options(model);
    c.set(wrong);
    const Error error = refused(wrong);
    EXPECT_EQ(error.code, c.code) << error.render();
    EXPECT_EQ(error.kind, ErrorKind::Usage) << error.render();
    EXPECT_NE(error.message.find(c.text), std::string::npos) << error.render();
  }
  EXPECT_EQ(listing(), std::vector<std::string>{"m.ninfer"});
}

TEST_F(BuildErrorTest, NoKernelNamesTheNearestCandidates) {
  const auto model = artifact("m.ninfer", {"--max-positions", "8192"});
  for (const char *target : {"cpu:x86-64-v3"}) {
    BuildOptions wide = options(model, {target});
    wide.maxContext = 8192;
    wide.prefillChunk = 5000; // more rows than any kernel family accepts
    const Error error = refused(wide);
    EXPECT_EQ(error.code, "NB0412") << error.render();
    EXPECT_EQ(error.kind, ErrorKind::Unsupported);
    EXPECT_NE(error.message.find("no kernel for"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find(target), std::string::npos) << error.message;
    bool nearest = false;
    for (const std::string &note : error.notes)
      nearest |=
          note.find("rejected") != std::string::npos && note.find("5000") != std::string::npos;
    EXPECT_TRUE(nearest) << error.render();
    EXPECT_FALSE(error.help.empty());
  }
  EXPECT_EQ(listing(), std::vector<std::string>{"m.ninfer"});
}

TEST_F(BuildErrorTest, DamagedArtifacts) {
  const auto model = artifact("m.ninfer");
  const std::string good = read(model);
  auto write = [&](const std::string &bytes) {
    std::ofstream(model, std::ios::binary | std::ios::trunc) << bytes;
    return refused(options(model));
  };
  EXPECT_EQ(write("").kind, ErrorKind::BadFile);
  EXPECT_EQ(write("not a model").code, "NB0101");
  EXPECT_EQ(write(good.substr(0, good.size() - 1)).code, "NB0103");
  EXPECT_EQ(write(good.substr(0, 5000)).kind, ErrorKind::BadFile);
  std::string edited = good;
  edited.replace(edited.find("\"hidden_size\":64"), 16, "\"hidden_size\":32");
  EXPECT_EQ(write(edited).kind, ErrorKind::BadFile);
  edited = good;
  edited.replace(edited.find("LlamaForCausalLM"), 16, "OtherForCausalLM");
  EXPECT_EQ(write(edited).code, "NB0302");
  EXPECT_EQ(write(edited).kind, ErrorKind::Unsupported);
  edited = good;
  edited.replace(edited.find("q4_g64_fp16"), 11, "q4_g64_fp17");
  EXPECT_EQ(write(edited).code, "NB0106");
  EXPECT_EQ(write(edited).kind, ErrorKind::Unsupported); // a format of a later version
  std::filesystem::remove(model);
  EXPECT_EQ(refused(options(model)).code, "NB0901");
  EXPECT_EQ(listing(), std::vector<std::string>{});
}

TEST_F(BuildErrorTest, AFailedBuildKeepsTheOldPlan) {
  const auto model = artifact("m.ninfer");
  const std::string old("NINPLAN\0old", 11);
  std::ofstream(file("plan.bin")) << old;
  BuildOptions wrong = options(model);
  wrong.maxContext = 100000;
  refused(wrong);
  EXPECT_EQ(read(file("plan.bin")), old);
  ASSERT_TRUE(build(options(model)).ok());
  EXPECT_GT(read(file("plan.bin")).size(), 4096u);
}

TEST_F(BuildErrorTest, OnlyPlansAndEmptyFilesAreReplaced) {
  const auto model = artifact("m.ninfer"), victim = artifact("victim.ninfer", {"--seed", "2"});
  struct Case {
    std::string bytes;
    const char *kind;
  };
  const Case cases[] = {{read(victim), "a .ninfer artifact"},
                        {"GGUF\3", "a GGUF model"},
                        {"notes", "a text file"},
                        {"NINPLAN", "a text file"}, // one byte short of the magic
                        {std::string("\x90\0\0\0\0\0\0\0{\"a\"", 12), "a safetensors file"}};
  for (const Case &c : cases) {
    std::ofstream(victim, std::ios::binary | std::ios::trunc) << c.bytes;
    BuildOptions wrong = options(model);
    wrong.output = victim;
    bool worked = false;
    wrong.cancelled = [&] { return worked = true, false; };
    const Error error = refused(wrong);
    EXPECT_EQ(error.code, "NB0905") << error.render();
    EXPECT_EQ(error.kind, ErrorKind::Usage);
    EXPECT_NE(error.message.find("victim.ninfer: exists and is " + std::string(c.kind)),
              std::string::npos)
        << error.message;
    EXPECT_EQ(read(victim), c.bytes);
    EXPECT_FALSE(worked) << "refused only after work was done";
  }
  std::ofstream(file("plan.bin"), std::ios::trunc).flush();
  EXPECT_TRUE(build(options(model)).ok()); // an empty file
  EXPECT_TRUE(build(options(model)).ok()); // a plan
}

TEST_F(BuildErrorTest, AFileThatAppearsDuringTheBuildIsKept) {
  const auto model = artifact("m.ninfer");
  BuildOptions racing = options(model);
  racing.cancelled = [&] {
    std::ofstream(file("plan.bin")) << "precious";
    return false;
  };
  EXPECT_EQ(refused(racing).code, "NB0905");
  EXPECT_EQ(read(file("plan.bin")), "precious");
}

TEST_F(BuildErrorTest, SaysWhatAForeignInputIs) {
  const auto model = artifact("m.ninfer");
  ASSERT_TRUE(build(options(model)).ok());
  BuildOptions twice = options(file("plan.bin"));
  twice.output = file("other.bin");
  Error error = refused(twice);
  EXPECT_EQ(error.code, "NB0101");
  EXPECT_NE(error.render().find("plan.bin is a plan of ninfer-build"), std::string::npos)
      << error.render();
  EXPECT_NE(error.render().find("ninfer-exec runs a plan"), std::string::npos) << error.render();
  std::filesystem::create_directory(file("folder"));
  twice.artifact = file("folder");
  error = refused(twice);
  EXPECT_NE(error.render().find("folder is a folder"), std::string::npos) << error.render();
  EXPECT_NE(error.render().find("ninfer-convert makes"), std::string::npos) << error.render();
}

TEST_F(BuildErrorTest, TargetGivenTwice) {
  const auto model = artifact("m.ninfer");
  EXPECT_EQ(refused(options(model, {"reference", "reference"})).message,
            "target 'reference' is given twice");
}

TEST_F(BuildErrorTest, UnwritableOutputs) {
  const auto model = artifact("m.ninfer");
  BuildOptions into = options(model);
  into.output = file("missing") / "plan.bin";
  Error error = refused(into);
  EXPECT_EQ(error.kind, ErrorKind::Failed) << error.render();
  EXPECT_NE(error.message.find("missing"), std::string::npos) << error.message;
  std::filesystem::create_directory(file("folder"));
  into.output = file("folder");
  error = refused(into);
  EXPECT_NE(error.message.find("folder"), std::string::npos) << error.message;
  EXPECT_EQ(listing(), (std::vector<std::string>{"folder", "m.ninfer"}));
}

TEST_F(BuildErrorTest, CancelledAtEveryStep) {
  const auto model = artifact("m.ninfer");
  int polls = 0;
  BuildOptions counting = options(model);
  counting.cancelled = [&] { return ++polls, false; };
  ASSERT_TRUE(build(counting).ok());
  std::filesystem::remove(file("plan.bin"));
  // The last poll is after publication.
  for (int stop = 1; stop < polls; ++stop) {
    int seen = 0;
    BuildOptions stopping = options(model);
    stopping.cancelled = [&] { return ++seen == stop; };
    const Error error = refused(stopping);
    EXPECT_EQ(error.kind, ErrorKind::Interrupted);
    EXPECT_EQ(listing(), std::vector<std::string>{"m.ninfer"}) << "stopped at poll " << stop;
  }
}

} // namespace
