// ninfer-inspect as a program: exit codes, what goes to which stream, and that JSON is JSON.
#include "schema/PackedFile.h"
#include "test/unit/inspect/TestModel.h"

#include <sys/stat.h>
#include <sys/wait.h>

using namespace ninfer::test;

namespace {

struct Outcome {
  int code = -1;
  std::string out, err;
};

class InspectTool : public InspectTest {
protected:
  void SetUp() override {
    InspectTest::SetUp();
    model_ = modelOfAllFormats();
    model_.write(folder_ / "m.ninfer");
    file_ = (folder_ / "m.ninfer").string();
  }
  Outcome run(const std::vector<std::string> &arguments) {
    std::string command = std::string(NINFER_BIN_DIR) + "/ninfer-inspect";
    for (const std::string &argument : arguments)
      command += " '" + argument + "'";
    const std::string out = (folder_ / "stdout").string(), err = (folder_ / "stderr").string();
    const int status = std::system((command + " >'" + out + "' 2>'" + err + "'").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000, readAll(out), readAll(err)};
  }
  void expectError(const std::vector<std::string> &arguments, int code, const std::string &text) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, code) << arguments[0] << "\n" << o.err;
    EXPECT_NE(o.err.find(text), std::string::npos) << o.err;
    EXPECT_EQ(o.out, "");
  }
  nlohmann::json json(std::vector<std::string> arguments, int code = 0) {
    arguments.insert(arguments.end(), {"-o", "json"});
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_TRUE(nlohmann::json::accept(o.out)) << o.out;
    return nlohmann::json::parse(o.out, nullptr, false);
  }

  Model model_;
  std::string file_;
};

TEST_F(InspectTool, HelpOfEveryCommand) {
  const Outcome all = run({"--help"});
  EXPECT_EQ(all.code, 0);
  for (const std::string command : {"ls", "show", "dump", "verify", "ledger", "diff"}) {
    EXPECT_NE(all.out.find("\n  " + command + " "), std::string::npos);
    const Outcome help = run({command, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(help.out.find("usage: ninfer-inspect " + command), 0u);
    EXPECT_NE(help.out.find("exit codes: "), std::string::npos);
    EXPECT_EQ(help.err, "");
    expectError({command}, 2, "ninfer-inspect " + command + " --help lists the options");
    expectError({command, file_, "--bogus"}, 2, "error[NB0900]: unknown option --bogus");
  }
  EXPECT_NE(all.out.find("8 parity found faults"), std::string::npos);
  for (const std::string command : {"ls", "show", "dump", "verify", "ledger", "parity"})
    for (const std::string code : {"1 cannot write", "2 usage", "3 bad file", "5 unsupported",
                                   "6 out of memory"}) // whatever fails ends with one of them
      EXPECT_NE(run({command, "--help"}).out.find(code), std::string::npos) << command << code;
  EXPECT_NE(run({"parity", "--help"}).out.find("Dense decoders (Llama, Qwen3) only"),
            std::string::npos);
  EXPECT_EQ(run({"--version"}).out.find("ninfer-inspect "), 0u);
}

TEST_F(InspectTool, PackedWeights) {
  ninfer::PackedHeader header;
  header.fileBytes = 4096 + 300;
  header.sections = {{{}, 4096, 300, ninfer::sha256(std::string(300, 'w'))}};
  const std::vector<std::byte> head = ninfer::encodePackedHeader(header);
  std::string bytes(reinterpret_cast<const char *>(head.data()), head.size());
  bytes += std::string(300, 'w');
  const std::string file = (folder_ / "weights.packed").string();
  const auto write = [&] { std::ofstream(file, std::ios::binary) << bytes; };
  write();
  const Outcome page = run({file}), hash = run({file, "--hash"});
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_NE(page.out.find("section     0: 300 bytes at 4096\n"), std::string::npos) << page.out;
  EXPECT_EQ(hash.code, 0) << hash.err;
  EXPECT_EQ(hash.out.rfind(page.out + "content     agrees", 0), 0u) << hash.out;
  bytes[4200] ^= 1;
  write();
  EXPECT_EQ(run({file}).out, page.out); // the header is whole
  expectError({file, "--hash"}, 3, "error[NB0647]: " + file + ": packed weights: section 0: SHA-256 is ");
  bytes.pop_back();
  write();
  expectError({file}, 3, "expected 4396 bytes, got 4395");
  bytes[8] = 9;
  write();
  expectError({file}, 4, "file: version 9, this build: 2");
  expectError({file_, "--hash"}, 2, "--hash without a command is about packed weights, but " + file_ + " is a .ninfer artifact");
}

TEST_F(InspectTool, PlansAndFilesWithoutACommand) {
  EXPECT_EQ(run({file_}).out, run({"ls", file_}).out);
  expectError({}, 2, "no file given");
  expectError({file_, "--kernels"}, 2, "are about plans");
  expectError({file_, "-t", "0"}, 2, "expected an integer from 1 to 1024, got '0'");
  Model::put(folder_ / "x.bin", "hello");
  expectError({(folder_ / "x.bin").string()}, 3, "is a text file");
  expectError({folder_.string()}, 3, "is a folder");
  expectError({(folder_ / "none").string()}, 3, "NB0901");
  expectError({"ls", (folder_ / "none").string()}, 3, "NB0901");
  expectError({"ls", (folder_ / "x.bin").string()}, 3, "NB0101");
}

TEST_F(InspectTool, UnknownCommandsAreNamed) {
  for (const std::vector<std::string> &words : std::vector<std::vector<std::string>>{
           {"frob", file_}, {"frob"}, {"frob", "--kernels"}, {"frob.x", file_}}) {
    expectError(words, 2, "error[NB0900]: unknown command '" + words[0] + "'");
    expectError(words, 2, "ls, show, dump, verify, ledger, diff, parity");
  }
  expectError({"frob.ninfer"}, 3, "NB0901"); // meant as a file
  expectError({file_, "frob"}, 2, "unexpected argument 'frob'");
}

TEST_F(InspectTool, FilesOfAnotherKindAreNamed) {
  const std::string gguf = (folder_ / "x.gguf").string(), plan = (folder_ / "x.plan").string();
  Model::put(gguf, "GGUF\x03" + std::string(100, '\0'));
  Model::put(plan, std::string("NINPLAN\0", 8) + std::string(100, '\0'));
  for (const std::vector<std::string> &command :
       std::vector<std::vector<std::string>>{{"ls"}, {"ledger"}, {"verify"}, {"show"}, {"dump"}}) {
    std::vector<std::string> arguments = {command[0], gguf};
    if (command[0] == "show" || command[0] == "dump")
      arguments.push_back("q4");
    expectError(arguments, 3, "note: " + gguf + " is a GGUF model");
    arguments[1] = plan;
    expectError(arguments, 3, "note: " + plan + " is a plan of ninfer-build");
    arguments[1] = folder_.string();
    expectError(arguments, 3, " is a folder");
  }
  expectError({"diff", file_, gguf}, 3, "is a GGUF model");
  expectError({"diff", gguf, file_}, 3, "is a GGUF model");
}

TEST_F(InspectTool, StateOfTheManifest) {
  const std::string manifest = file_ + ".manifest.json";
  const auto expectState = [&](const std::string &state) {
    const Outcome o = run({"verify", file_, "--hash", "check"});
    EXPECT_EQ(o.code, state == "agrees" ? 0 : 3) << o.err;
    EXPECT_NE(o.out.find("manifest    " + state + ": " + manifest + "\n"), std::string::npos)
        << state << "\n"
        << o.out;
    EXPECT_EQ(json({"verify", file_, "--hash", "check"}, o.code)["manifest"]["state"], state);
  };
  expectState("missing");
  ASSERT_TRUE(std::filesystem::create_directory(manifest));
  expectState("a folder");
  std::filesystem::remove(manifest);
  ASSERT_EQ(mkfifo(manifest.c_str(), 0600), 0);
  expectState("not a regular file");
  std::filesystem::remove(manifest);
  Model::put(manifest, "{\"manifest\": ");
  expectState("not strict JSON");
  Model::put(manifest, "{}");
  expectState("not a side manifest");
  std::filesystem::remove(manifest);
  EXPECT_EQ(json({"verify", file_, "--hash", "write"})["manifest"]["state"], "written");
  expectState("agrees");
  model_["q4"].setCode(0, 0, model_["q4"].code(0, 0) ^ 3);
  model_["q4"].setScale(0, 0, 0x3c00);
  model_.write(file_);
  expectState("disagrees");
}

TEST_F(InspectTool, CommandLinesAreChecked) {
  expectError({"ls", file_, "-o", "yaml"}, 2, "expected one of table, json, got 'yaml'");
  expectError({"ls", file_, "-o"}, 2, "option -o needs a value");
  expectError({"ls", file_, "-o", "json", "--output=json"}, 2, "is given twice");
  expectError({"ls", file_, file_}, 2, "unexpected argument");
  expectError({"show", file_}, 2, "no object given");
  expectError({"show", file_, "none"}, 2, "NB0120");
  expectError({"diff", file_}, 2, "no second artifact given");
  expectError({"dump", file_, "q4", "--rows", "5:6"}, 2, "rows 5:6 lie outside 0:5");
  expectError({"dump", file_, "q4", "--rows", "x"}, 2, "NB0121");
  expectError({"dump", file_, "q4", "--hex=1"}, 2, "option --hex takes no value");
  expectError({"verify", file_, "--max-faults", "0"}, 2, "expected an integer from 1 to 1000000");
  expectError({"verify", file_, "--hash", "delete"}, 2, "expected one of write, check");
  expectError({"verify", file_, "--threads", "1000"}, 2, "from 1 to 256");
  expectError({"verify", file_, "--progress", "loud"}, 2, "expected one of auto, on, off, json");
}

TEST_F(InspectTool, JsonOfEveryCommand) {
  EXPECT_EQ(json({"ls", file_})["objects"].size(), model_.items.size());
  for (const Item &item : model_.items)
    EXPECT_EQ(json({"show", file_, item.id})["id"], item.id);
  EXPECT_EQ(json({"dump", file_, "q6", "--rows", ":"})["rows"].size(), 6u);
  EXPECT_EQ(json({"ledger", file_})["file_bytes"], std::filesystem::file_size(file_));
  EXPECT_EQ(json({"verify", file_})["sound"], true);
  EXPECT_EQ(json({"diff", file_, file_})["equal"], true);
  EXPECT_EQ(run({"dump", file_, "tokenizer"}).out, "tokens!");
  EXPECT_EQ(run({"dump", file_, "q4", "--rows", "0:2", "--output=csv"}).out.substr(0, 27),
            "row,column,code,scale,value");
}

TEST_F(InspectTool, VerifyNamesTheFault) {
  const Outcome sound = run({"verify", file_});
  EXPECT_EQ(sound.code, 0) << sound.err;
  EXPECT_EQ(sound.out.find("sound "), 0u);
  EXPECT_EQ(sound.err, "");
  model_["q8"].setCode(4, 33, 0x80);
  model_["q8"].setCode(7, 1, 0x80);
  model_["fp8"].setScale(2, 0, 0x8000);
  model_.write(file_);
  Outcome o = run({"verify", file_, "--progress", "json"});
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.out.find("w8-code-range"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find("bf16-scale"), std::string::npos) << o.out;
  EXPECT_NE(o.err.find("error[NB0109]"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("{\"phase\":\"verify\""), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("stopped at the first fault, --keep-going lists more"), std::string::npos);
  EXPECT_NE(run({"verify", file_, "--max-faults", "2"}).err.find("stopped at the first 2 faults, "),
            std::string::npos);
  nlohmann::json first = json({"verify", file_}, 3);
  ASSERT_EQ(first["faults"].size(), 1u);
  EXPECT_EQ(first["faults"][0]["object"], "q8");
  EXPECT_EQ(first["faults"][0]["row"], 4);
  EXPECT_EQ(first["faults"][0]["group"], 1);
  EXPECT_EQ(first["faults"][0]["lane"], 1);
  EXPECT_EQ(first["faults"][0]["byte"], model_["q8"].baseAt(4, 33));
  EXPECT_EQ(json({"verify", file_, "--max-faults", "2"}, 3)["faults"].size(), 2u);
  const nlohmann::json all = json({"verify", file_, "--keep-going"}, 3);
  EXPECT_EQ(all["faults"].size(), 3u);
  EXPECT_EQ(all["violations"], 3);
  EXPECT_EQ(json({"verify", file_, "--keep-going", "--max-faults", "1"}, 3)["violations"], 3);
  EXPECT_EQ(run({"verify", file_, "--keep-going", "-t", "1"}).out,
            run({"verify", file_, "--keep-going", "-t", "5"}).out);
  EXPECT_NE(run({"verify", file_, "--keep-going"}).err.find("content breaks 3 rules"),
            std::string::npos);
}

TEST_F(InspectTool, ManifestIsWrittenAndChecked) {
  const std::filesystem::path manifest = folder_ / "m.ninfer.manifest.json";
  EXPECT_EQ(run({"verify", file_, "--hash", "check"}).code, 3);
  Outcome o = run({"verify", file_, "--hash", "write"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("written: " + manifest.string()), std::string::npos) << o.out;
  const std::string text = readAll(manifest);
  EXPECT_EQ(run({"verify", file_, "--hash", "write", "-t", "1"}).code, 0);
  EXPECT_EQ(readAll(manifest), text);
  EXPECT_EQ(run({"verify", file_, "--hash", "check"}).code, 0);
  EXPECT_EQ(json({"verify", file_, "--hash", "check"})["manifest"]["path"], manifest.string());
  // A legal change of one code is found by its digest only.
  model_["q4"].setCode(0, 0, model_["q4"].code(0, 0) ^ 3);
  model_["q4"].setScale(0, 0, 0x3c00);
  model_.write(file_);
  EXPECT_EQ(run({"verify", file_}).code, 0);
  o = run({"verify", file_, "--hash", "check"});
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("error[NB0124]"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("object 'q4': SHA-256 is "), std::string::npos) << o.err;
  EXPECT_NE(o.out.find("disagrees: " + manifest.string()), std::string::npos) << o.out;
  EXPECT_EQ(json({"verify", file_, "--hash", "check"}, 3)["manifest"]["ok"], false);
  // Broken content gets no manifest; the old one stays as it was.
  model_["q4"].setScale(0, 0, 0xffff);
  model_.write(file_);
  o = run({"verify", file_, "--hash", "write"});
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("no manifest is written"), std::string::npos) << o.err;
  EXPECT_EQ(readAll(manifest), text);
}

TEST_F(InspectTool, DiffExitCodes) {
  const std::string other = (folder_ / "n.ninfer").string();
  model_.write(other);
  Outcome o = run({"diff", file_, other});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_EQ(o.out.find("equal: "), 0u);
  model_["q5"].setCode(3, 200, model_["q5"].code(3, 200) ^ 16);
  model_["q5"].setScale(3, 3, 0x3c00);
  model_.write(other);
  o = run({"diff", file_, other});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.out.find("object      q5: 1 code, 1 scale changed"), std::string::npos) << o.out;
  EXPECT_EQ(o.err, "");
  EXPECT_EQ(json({"diff", file_, other}, 1)["equal"], false);
  expectError({"diff", file_, (folder_ / "none").string()}, 3, "NB0901");
  model_ = modelOfAllFormats();
  model_.writeOld(other, 2);
  EXPECT_EQ(run({"diff", file_, other}).code, 1);
  EXPECT_EQ(run({"diff", file_, other, "--words"}).code, 0);
}

} // namespace
