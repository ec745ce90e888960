// ninfer-exec as a process: answers, exit codes, and what a user sees when something is wrong.
#include "test/unit/runtime/ExecTool.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sstream>
#include <thread>

using namespace ninfer;
using namespace ninfer::test;

TEST_F(ExecTool, GreedyIdsAgreeWithTheOracle) {
  std::vector<int32_t> tokens = {72, 105, 33}, generated;
  for (int i = 0; i < 8; ++i) {
    generated.push_back(largest(model_.logits(tokens)));
    tokens.push_back(generated.back());
  }
  for (const char *threads : {"1", "3"}) {
    const Outcome outcome =
        exec({plan_, "--tokens", "72,105,33", "-n", "8", "--ids", "--ignore-eos", "-t", threads});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, joined(generated, "\n") + "\n");
    EXPECT_EQ(outcome.err, "");
  }
}

TEST_F(ExecTool, PromptSourcesAreTheSame) {
  writeBytes(folder_ / "prompt.txt", std::as_bytes(std::span("Hi!", 3)));
  writeBytes(folder_ / "ids", std::as_bytes(std::span("72 105\n33\n", 10)));
  const std::vector<std::string> tail = {"-n", "5", "--ids", "--ignore-eos", "-t", "1"};
  const auto with = [&](std::vector<std::string> arguments, const std::string &input = "") {
    arguments.insert(arguments.begin(), plan_);
    arguments.insert(arguments.end(), tail.begin(), tail.end());
    const Outcome outcome = exec(arguments, input);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string expected = with({"--tokens", "72,105,33"});
  EXPECT_EQ(with({"-p", "Hi!"}), expected);
  EXPECT_EQ(with({"-f", (folder_ / "prompt.txt").string()}), expected);
  EXPECT_EQ(with({"--tokens", "@" + (folder_ / "ids").string()}), expected);
  EXPECT_EQ(with({}, "Hi!"), expected);
  EXPECT_EQ(with({}, "Hi!\n"), expected); // as echo writes it
}

TEST_F(ExecTool, SeedsRepeatAndDiffer) {
  const auto sample = [&](const char *seed) {
    return exec({plan_, "-p", "Hi!", "-n", "12", "--ids", "--ignore-eos", "--temp", "1.5", "--seed", seed}).out;
  };
  EXPECT_EQ(sample("1"), sample("1"));
  EXPECT_NE(sample("1"), sample("2"));
}

TEST_F(ExecTool, LogitsAgreeWithTheOracle) {
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const Outcome raw = exec({"logits", plan_, "--tokens", joined(tokens, ","), "-o", "raw"});
  ASSERT_EQ(raw.code, 0) << raw.err;
  ASSERT_EQ(raw.out.size(), size_t(TinyModel::kVocab) * 4);
  const Outcome each = exec({"logits", plan_, "--tokens", joined(tokens, ","), "-o", "raw", "--each", "--out",
                             (folder_ / "each.bin").string()});
  ASSERT_EQ(each.code, 0) << each.err;
  const std::string all = readFile(folder_ / "each.bin").take();
  ASSERT_EQ(all.size(), raw.out.size() * tokens.size());
  EXPECT_EQ(all.substr(raw.out.size() * (tokens.size() - 1)), raw.out);
  for (size_t length = 1; length <= tokens.size(); ++length) {
    const auto expected = model_.logits({tokens.begin(), tokens.begin() + ptrdiff_t(length)});
    for (size_t i = 0; i < expected.size(); ++i) {
      float value = 0;
      std::memcpy(&value, all.data() + ((length - 1) * expected.size() + i) * 4, 4);
      ASSERT_NEAR(value, expected[i], 1e-3) << length << " " << i;
    }
  }
  const Outcome json = exec({"logits", plan_, "--tokens", joined(tokens, ",")});
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_EQ(parsed["positions"].size(), 1u);
  EXPECT_EQ(parsed["positions"][0]["position"], 10);
  float first = 0;
  std::memcpy(&first, raw.out.data(), 4);
  EXPECT_EQ(parsed["positions"][0]["logits"][0].get<float>(), first);
  const Outcome top = exec({"logits", plan_, "-p", "abc", "--top", "3", "-o", "json"});
  const auto rows = nlohmann::json::parse(top.out);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["token"].get<int32_t>(), largest(model_.logits({97, 98, 99})));
}

TEST_F(ExecTool, TracesAreWrittenAndCompared) {
  plan::PlanT plan = model_.plan("tiny.ninfer");
  addOutputs(plan);
  writeBytes(folder_ / "traced.plan", buildBytes(plan));
  const std::string traced = (folder_ / "traced.plan").string(), file = (folder_ / "a.jsonl").string();
  const std::string ids = "1,2,3,4,5,6,7,8,9,10,11"; // calls of eight and three rows
  const Outcome written = exec({"logits", traced, "--tokens", ids, "--trace", file, "-o", "raw"});
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(written.out, exec({"logits", plan_, "--tokens", ids, "-o", "raw"}).out);
  std::istringstream lines(readFile(file).take());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "{\"tokens\":[" + ids + "]}");
  std::map<std::string, std::vector<uint32_t>> positions;
  while (std::getline(lines, line)) {
    const auto row = nlohmann::json::parse(line);
    positions[row["output"]].push_back(row["position"]);
    EXPECT_EQ(row["values"].size(), size_t(TinyModel::kHidden));
  }
  EXPECT_EQ(positions["embedding"], (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(positions["head"], (std::vector<uint32_t>{7, 10}));
  EXPECT_EQ(positions.size(), 2u); // integers are no trace

  const auto compare = [&](const std::string &other, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"logits", traced, "--tokens", ids, "--trace-against", other, "-o", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return exec(arguments);
  };
  for (const bool each : {false, true}) {
    const Outcome equal = compare(file, each ? std::vector<std::string>{"--each"} : std::vector<std::string>{});
    ASSERT_EQ(equal.code, 0) << equal.err;
    const auto rows = nlohmann::json::parse(equal.out);
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0]["output"], "embedding");
    EXPECT_EQ(rows[0]["rows"], 11);
    EXPECT_EQ(rows[0]["worst"], 0.0);
    EXPECT_EQ(rows[1]["rows"], 2);
    EXPECT_LT(rows[1]["worst"], 1e-5);
  }

  // A fault in one value is found: where, and how large beside the rms of its row.
  std::string text = readFile(file).take();
  const std::string at = "{\"output\":\"embedding\",\"position\":4,\"values\":[";
  const size_t begin = text.find(at) + at.size();
  ASSERT_NE(text.find(at), std::string::npos);
  const auto rewrite = [&](const std::string &value) {
    std::string changed = text;
    changed.replace(begin, changed.find(',', begin) - begin, value);
    writeBytes(folder_ / "b.jsonl", std::as_bytes(std::span(changed.data(), changed.size())));
    return (folder_ / "b.jsonl").string();
  };
  auto rows = nlohmann::json::parse(compare(rewrite("1000")).out);
  EXPECT_EQ(rows[0]["position"], 4);
  EXPECT_EQ(rows[0]["element"], 0);
  EXPECT_NEAR(rows[0]["worst"].get<double>(), 8.0, 0.1); // 1000 is the rms of its row of 64, but for sqrt(64)
  EXPECT_LT(rows[1]["worst"], 1e-5);
  rows = nlohmann::json::parse(compare(rewrite("\"nan\"")).out);
  EXPECT_EQ(rows[0]["position"], 4);
  EXPECT_EQ(rows[0]["worst"], "inf");

  struct Bad {
    std::string text, message;
  };
  for (const Bad &bad : {Bad{"", "empty, expected a trace"}, Bad{"{\"tokens\":[1,2]}\n", "is the trace of 2 other tokens"},
                         Bad{"{\"tokens\":[" + ids + "]}\n", "has no output and position in common"},
                         Bad{"{\"tokens\":[" + ids + "]}\n{\"output\":\"embedding\",\"position\":0,\"values\":[1]}\n",
                             "'embedding' at position 0 has 1 values, the plan's has 64"},
                         Bad{"{\"tokens\":[" + ids + "]}\n{\"output\":\"x\",\"position\":0,\"values\":[\"a\"]}\n", "line 2: values"},
                         Bad{"{\"tokens\":[" + ids + "]}\n" + at + "1]}\n" + at + "1]}\n", "is there twice"},
                         Bad{"nonsense", "line 1"}}) {
    writeBytes(folder_ / "b.jsonl", std::as_bytes(std::span(bad.text.data(), bad.text.size())));
    const Outcome outcome = compare((folder_ / "b.jsonl").string());
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "error[NB0671]")) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, bad.message)) << outcome.err;
  }
  const Outcome none = exec({"logits", plan_, "--tokens", ids, "--trace", file});
  EXPECT_EQ(none.code, 5);
  EXPECT_TRUE(contains(none.err, "error[NB0670]")) << none.err;
  EXPECT_EQ(readFile(file).take(), text);
}

TEST_F(ExecTool, UsageErrors) {
  struct Case {
    std::vector<std::string> arguments;
    std::string input, message;
  };
  const Case cases[] = {
      {{plan_, "-p", ""}, "", "the prompt is empty"},
      {{plan_}, "", "standard input: the prompt is empty"},
      {{plan_}, "\n", "standard input: the prompt is empty"},
      {{plan_, "-p", "ab\xff\xfe"}, "", "not valid UTF-8 at byte 2"},
      {{plan_}, "\xc3", "not valid UTF-8 at byte 0"},
      {{plan_, "-p", "x", "--tokens", "1"}, "", "more than one prompt"},
      {{plan_, "--tokens", "1,2,999"}, "", "token 2 is 999, the vocabulary has 260 entries"},
      {{plan_, "--tokens", "1,x"}, "", "--tokens: byte 2"},
      {{plan_, "--tokens", "1,-2"}, "", "--tokens: byte 2"},
      {{plan_, "-p", std::string(33, 'a')}, "", "context overflow: the prompt has 33 tokens"},
      {{plan_, "-p", "abc", "-n", "31"}, "", "-n (max_tokens) asks for 31"},
      {{plan_, "-p", "x", "--temp", "-1"}, "", "error[NB0708]: temperature (--temp) must be in [0, 100], got -1\n"},
      {{"chat", plan_, "-p", "x", "--repeat-penalty", "0"}, "", "(--repeat-penalty) must be positive"},
      {{plan_, "-p", "x", "--stop", ""}, "", "--stop: the text is empty"},
      {{"chat", plan_, "-p", "x", "--stop", ""}, "", "--stop: the text is empty"},
      {{"bench", plan_, "-p", "0", "-n", "0"}, "", "nothing to measure"},
      {{"bench", plan_, "--startup", "-n", "4"}, "", "excludes --startup"},
      {{"bench", plan_, "--startup", "-p", "4,5"}, "", "one prompt"},
      {{"bench", plan_, "--startup", "--stats"}, "", "excludes --startup"},
      {{"bench", plan_, "--startup", "-t", "1,2"}, "", "one thread count"},
      {{"chta", plan_}, "", "no command or plan 'chta'; commands: run, chat, serve, bench, logits, perplexity, embed"},
      {{plan_, "-p", "x", "--no-such-option"}, "", "--no-such-option"},
      {{plan_, "-p", "x", "-t", "0"}, "", "--threads"},
      {{}, "", "plan"},
      {{"bench", plan_, "-p", "33", "-n", "0"}, "", "context overflow"},
      {{"bench", plan_, "-o", "xml"}, "", "xml"},
      {{"bench", plan_, "-t", "1,0"}, "", "--threads: Value 0"},
      {{"bench", plan_, "-p", ""}, "", "--n-prompt"},
      {{"chat", plan_, "-p", ""}, "", "-p: the message is empty"},
      {{"chat", plan_, "-p", "x", "--system", "a\xff"}, "", "--system: the text is not valid UTF-8 at byte 1"},
      {{plan_, "-p", "x", "--temp", ""}, "", "--temp: expected a number, got an empty text"},
      {{plan_, "-p", "x", "--seed", "-1"}, "", "--seed: expected a number from 0"},
      {{plan_, "-p", "x", "--seed", "18446744073709551616"}, "", "--seed: expected a number from 0"},
      {{plan_, "-p", "x", "--memory-limit", "-5"}, "", "--memory-limit: expected a number of bytes"},
      {{plan_, "-p", "x", "--memory-limit", "0"}, "", "--memory-limit"},
      {{plan_, "-p", "x", "--spin-us", "0"}, "", "--spin-us"},
      {{"logits", plan_, "-p", "x", "-o", "table"}, "", "needs --top"},
      {{"logits", plan_, "-p", "x", "--top", "1", "--trace-against", "x.jsonl"}, "", "give one of them"},
  };
  for (const Case &c : cases) {
    const Outcome outcome = exec(c.arguments, c.input);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(contains(outcome.err, c.message)) << outcome.err;
    EXPECT_EQ(outcome.err.rfind("error[NB", 0), 0u) << outcome.err;
  }
}

TEST_F(ExecTool, NoOutputOverWhatIsRead) {
  const std::string text = (folder_ / "read.txt").string(), other = (folder_ / "same.txt").string();
  const std::string words = "some words that are long enough for a window";
  writeBytes(text, std::as_bytes(std::span(words.data(), words.size())));
  std::filesystem::create_hard_link(text, other);
  const std::string plan = readFile(plan_).take();
  const std::vector<std::string> commands[] = {{"perplexity", plan_, "--text", text, "-c", "16", "--each", plan_},
                                               {"perplexity", plan_, "--text", text, "-c", "16", "--each", other},
                                               {"logits", plan_, "-f", text, "--out", text},
                                               {"logits", plan_, "--tokens", "@" + text, "--trace", text}};
  for (const std::vector<std::string> &command : commands) {
    const Outcome outcome = exec(command);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "error[NB0905]")) << outcome.err;
    EXPECT_EQ(readFile(text).take(), words);
    EXPECT_TRUE(readFile(plan_).take() == plan);
  }
}

TEST_F(ExecTool, OneTokenHasNoStandardError) {
  const Outcome outcome = exec({"perplexity", plan_, "--tokens", "1,2,3", "-c", "3", "-o", "jsonl"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "\"tokens\":1,")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "\"nll error\":null,")) << outcome.out;
}

TEST_F(ExecTool, FilesAndTargets) {
  EXPECT_EQ(exec({"/no/such.plan", "-p", "x"}).code, 3);
  EXPECT_EQ(exec({folder_.path().string(), "-p", "x"}).code, 3);
  EXPECT_EQ(exec({plan_, "-f", "/no/such.txt"}).code, 3);
  for (const char *command : {"run", "chat", "logits"}) {
    const Outcome artifact = exec({command, (folder_ / "tiny.ninfer").string(), "-p", "x"});
    EXPECT_EQ(artifact.code, 3);
    EXPECT_TRUE(contains(artifact.err, "this is an artifact, not a plan")) << artifact.err;
    EXPECT_TRUE(contains(artifact.err, "ninfer-build")) << artifact.err;
  }
  EXPECT_EQ(exec({plan_, "-p", "x", "--weights", "/no/such.ninfer"}).code, 3);
  TinyModel other({.layers = 1, .publicName = "other"});
  other.writeArtifact(folder_ / "other.ninfer");
  const Outcome weights = exec({plan_, "-p", "x", "--weights", (folder_ / "other.ninfer").string()});
  EXPECT_EQ(weights.code, 4);
  EXPECT_TRUE(contains(weights.err, "other weights")) << weights.err;
  const Outcome target = exec({plan_, "-p", "x", "--target", "cuda:sm_90"});
  EXPECT_EQ(target.code, 4);
  EXPECT_TRUE(contains(target.err, "it has reference")) << target.err;
  const Outcome memory = exec({plan_, "-p", "x", "--memory-limit", "4kb"});
  EXPECT_EQ(memory.code, 6);
  EXPECT_TRUE(contains(memory.err, "available: 0.0 MiB")) << memory.err;
  EXPECT_TRUE(contains(memory.err, "--memory-limit is 4")) << memory.err;
}

TEST_F(ExecTool, ArtifactWithoutText) {
  TinyModel bare({.resources = false, .publicName = "bare"});
  bare.writeArtifact(folder_ / "bare.ninfer");
  writeBytes(folder_ / "bare.plan", buildBytes(bare.plan("bare.ninfer")));
  const std::string plan = (folder_ / "bare.plan").string();
  const Outcome text = exec({plan, "-p", "x"});
  EXPECT_EQ(text.code, 5);
  EXPECT_TRUE(contains(text.err, "--tokens")) << text.err;
  const Outcome ids = exec({plan, "--tokens", "5", "-n", "2"});
  EXPECT_EQ(ids.code, 0) << ids.err;
  EXPECT_EQ(std::count(ids.out.begin(), ids.out.end(), '\n'), 2);
  EXPECT_EQ(exec({"chat", plan, "-p", "x"}).code, 5);
}

TEST_F(ExecTool, FullContextEndsTheAnswer) {
  const Outcome outcome = exec({plan_, "-p", "abcd", "--ids", "--ignore-eos"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  // 32 positions: 4 of the prompt, 28 generated and submitted, one more sampled from the last.
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 29);
  EXPECT_TRUE(contains(outcome.err, "context of the plan is full")) << outcome.err;
}

TEST_F(ExecTool, ClosedPipeStopsQuietly) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const pid_t child = start({plan_, "-p", "abcd", "--ids", "--ignore-eos"}, "", ends[1]);
  close(ends[1]);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "stdout was closed")) << outcome.err;
}

TEST_F(ExecTool, FullDiskIsAnError) {
  const int full = open("/dev/full", O_WRONLY);
  if (full < 0)
    GTEST_SKIP() << "no /dev/full";
  const pid_t child = start({plan_, "-p", "abcd", "--ids"}, "", full);
  close(full);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, "cannot write to stdout")) << outcome.err;
}

TEST_F(ExecTool, CtrlCEndsWith130) {
  TinyModel large({.maxContext = 4096, .publicName = "long"});
  large.writeArtifact(folder_ / "long.ninfer");
  writeBytes(folder_ / "long.plan", buildBytes(large.plan("long.ninfer")));
  const pid_t child = start({(folder_ / "long.plan").string(), "-p", "abcd", "--ids", "--ignore-eos"}, "");
  // Wait for the first token, so that the signal arrives in the middle of the answer.
  for (int i = 0; i < 2000; ++i) {
    std::error_code ignored;
    if (std::filesystem::file_size(folder_ / "stdout", ignored) > 0 && !ignored)
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(child, SIGINT);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "interrupted")) << outcome.err;
  ASSERT_FALSE(outcome.out.empty());
  EXPECT_EQ(outcome.out.back(), '\n'); // whole lines only
}

TEST_F(ExecTool, Chat) {
  // The template spells <user>hello<bot>: one id, five bytes, one id.
  std::vector<int32_t> tokens = {258, 'h', 'e', 'l', 'l', 'o', 259};
  const Outcome logits = exec({"logits", plan_, "-p", "<user>hello<bot>", "--top", "1", "-o", "json"});
  ASSERT_EQ(logits.code, 0) << logits.err;
  EXPECT_EQ(nlohmann::json::parse(logits.out)[0]["token"].get<int32_t>(), largest(model_.logits(tokens)));

  const Outcome once = exec({"chat", plan_, "-p", "hello", "-n", "6", "--ignore-eos"});
  EXPECT_EQ(once.code, 0) << once.err;
  const Outcome script = exec({"chat", plan_, "-n", "6", "--ignore-eos"}, "hello\n/clear\nhello\n/exit\nnever\n");
  EXPECT_EQ(script.code, 0) << script.err;
  EXPECT_EQ(script.out, once.out + once.out); // a cleared conversation begins afresh
  const Outcome bad = exec({"chat", plan_}, "\xff\n");
  EXPECT_EQ(bad.code, 2);
  const Outcome overflow = exec({"chat", plan_, "-p", std::string(40, 'a')});
  EXPECT_EQ(overflow.code, 2);
  EXPECT_TRUE(contains(overflow.err, "context overflow")) << overflow.err;
}

TEST_F(ExecTool, ChatCommands) {
  const std::vector<std::string> chat = {"chat", plan_, "-n", "6", "--ignore-eos"};
  const Outcome once = exec(chat, "hello\n");
  ASSERT_EQ(once.code, 0) << once.err;
  // An unknown command is answered, not sent: the rest is as without it.
  const Outcome unknown = exec(chat, "/cleer\nhello\n");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.out, once.out);
  EXPECT_TRUE(contains(unknown.err, "no command /cleer")) << unknown.err;
  EXPECT_TRUE(contains(unknown.err, "/clear forgets")) << unknown.err;
  const Outcome help = exec(chat, "/help\n");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.out, "");
  for (const char *name : {"/clear", "/exit", "/help"}) {
    EXPECT_TRUE(contains(help.err, name)) << help.err;
    EXPECT_TRUE(contains(exec({"chat", "--help"}).out, name));
  }
  EXPECT_NE(exec(chat, "/a/b\n").out, ""); // a path is a message
  // 32 positions hold two exchanges of 13 tokens, not three; /clear makes room.
  const Outcome full = exec(chat, "hello\nhello\nhello\n/clear\nhello\n");
  EXPECT_EQ(full.code, 2);
  EXPECT_TRUE(contains(full.err, "the conversation is full")) << full.err;
  EXPECT_TRUE(contains(full.err, "use /clear")) << full.err;
  ASSERT_GE(full.out.size(), 2 * once.out.size());
  EXPECT_EQ(full.out.substr(0, once.out.size()), once.out);
  EXPECT_EQ(full.out.substr(full.out.size() - once.out.size()), once.out);
}

TEST_F(ExecTool, TopTables) {
  const auto top = [&](const std::vector<std::string> &more) {
    std::vector<std::string> arguments = {"logits", plan_, "-p", "abc", "--top", "260"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = exec(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string table = top({});
  EXPECT_EQ(table, top({"-o", "table"}));
  EXPECT_TRUE(contains(table, "  \" \"\n")); // the blank, visible
  EXPECT_TRUE(contains(table, "  \"|\"\n"));
  EXPECT_TRUE(contains(table, "  \"\\n\"\n"));
  EXPECT_TRUE(contains(top({"-o", "csv"}), ",\"\"\" \"\"\"\n"));
  const std::string markdown = top({"-o", "md"});
  EXPECT_TRUE(contains(markdown, "| \"\\|\" "));
  EXPECT_FALSE(contains(markdown, "\"|\""));
  bool blank = false;
  for (const auto &row : nlohmann::json::parse(top({"-o", "json"})))
    blank |= row["text"] == " ";
  EXPECT_TRUE(blank);
}

TEST_F(ExecTool, Bench) {
  const Outcome json =
      exec({"bench", plan_, "-p", "4,8", "-n", "3", "-d", "0,5", "-t", "1,2", "-r", "2", "-o", "json"});
  ASSERT_EQ(json.code, 0) << json.err;
  const auto rows = nlohmann::json::parse(json.out);
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows[0]["test"], "pp4");
  EXPECT_EQ(rows[2]["test"], "tg3");
  EXPECT_EQ(rows[5]["test"], "tg3 @ d5");
  EXPECT_EQ(rows[11]["threads"], 2);
  for (const auto &row : rows)
    EXPECT_GT(row["t/s"].get<double>(), 0);
  const std::vector<std::string> base = {"bench", plan_, "-p", "4", "-n", "0", "-r", "1", "-o"};
  const auto lines = [&](const char *format) {
    auto arguments = base;
    arguments.push_back(format);
    const Outcome outcome = exec(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return std::count(outcome.out.begin(), outcome.out.end(), '\n');
  };
  EXPECT_EQ(lines("table"), 2);
  EXPECT_EQ(lines("md"), 3);
  EXPECT_EQ(lines("csv"), 2);
  EXPECT_EQ(lines("jsonl"), 1);
  const Outcome startup = exec({"bench", plan_, "--startup", "-r", "2", "-o", "csv"});
  EXPECT_EQ(startup.code, 0) << startup.err;
  EXPECT_TRUE(contains(startup.out, "first token")) << startup.out;
}

TEST_F(ExecTool, StatsGoToStderr) {
  const Outcome outcome = exec({plan_, "-p", "abc", "-n", "4", "--ids", "--ignore-eos", "--stats", "--profile"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 4);
  for (const char *part : {"ledger", "peak RSS", "first token at", "ref.linear"})
    EXPECT_TRUE(contains(outcome.err, part)) << part;
  EXPECT_TRUE(contains(outcome.err, "tokenizer and template")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "prefill     3 tokens")) << outcome.err;
  std::istringstream lines(outcome.err);
  for (std::string line; std::getline(lines, line);)
    if (contains(line, "ref.attention") || contains(line, "ref.linear")) {
      const bool rateless = contains(line, "%        -         -  ");
      EXPECT_EQ(rateless, contains(line, "ref.attention")) << line;
    }
  const Outcome one = exec({plan_, "--tokens", "5", "-n", "2", "--ignore-eos", "--stats", "-t", "1"});
  EXPECT_TRUE(contains(one.err, "prefill     1 token in")) << one.err;
  EXPECT_TRUE(contains(one.err, "decode      1 token in")) << one.err;
  EXPECT_TRUE(contains(one.err, ", 1 thread,")) << one.err;
}
