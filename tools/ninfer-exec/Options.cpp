#include "tools/ninfer-exec/Options.h"

#include <charconv>
#include <cstdio>
#include <iostream>

namespace ninfer::exec {

namespace {

/// The library takes a sign away and larger numbers for the largest one.
const CLI::Validator kUnsigned(
    [](const std::string &text) {
      uint64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      return error == std::errc() && end == text.data() + text.size() ? "" : "expected a number from 0 to 18446744073709551615, got " + text;
    },
    "");
const CLI::Validator kNoSign([](const std::string &text) { return text.find('-') == std::string::npos ? "" : "expected a number of bytes, got " + text; }, "");

} // namespace

void addCommonOptions(CLI::App &app, CommonOptions &options) {
  app.add_option("plan", options.plan, "Plan file written by ninfer-build")->required()->type_name("PLAN");
  app.add_option("-m,--weights", options.weights,
                 "Artifact with the weights (default: the name stored in the plan, beside the plan)")
      ->type_name("FILE");
  app.add_option("--target", options.target,
                 "Target of the plan to run, by name or executor (default: the first one this machine supports)")
      ->type_name("NAME");
  app.add_option("--prepacked", options.prepacked, "Packed weights written by ninfer-build --prepack (CUDA targets)")->type_name("FILE");
  app.add_option("--progress", options.progress,
                 "Weights on their way to a device, on stderr: auto (default: on a terminal), on, off, json")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "on", "off", "json"}));
  app.add_option("-t,--threads", options.threads, "Threads (default: every CPU this process may use)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u));
  app.add_flag("--no-pin", options.noPin, "Do not pin each thread to one CPU");
  app.add_option("--preload", options.preload, "Read the weights ahead: auto (default), always, never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--code-mapping", options.codeMapping,
                 "Map machine code from the plan file (direct), a memory file (memory), or whichever works (auto)")
      ->type_name("HOW")
      ->check(CLI::IsMember({"auto", "direct", "memory"}));
  app.add_option("--memory-limit", options.memoryLimit,
                 "Refuse to run when the context needs more bytes than this (suffixes kb, mb, gb)")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false))
      ->transform(kNoSign)
      ->check(CLI::Range(uint64_t(1), UINT64_MAX));
  app.add_option("--spin-us", options.spinUs, "Microseconds an idle thread spins before it sleeps (default 200)")
      ->type_name("N")
      ->check(CLI::Range(1u, UINT32_MAX));
  app.add_flag("--stats", options.stats, "Print startup, speed, and the memory ledger beside the peak RSS");
  app.add_flag("--profile", options.profile, "Time every launch and print the sums per kernel");
}

void addSpecOptions(CLI::App &app, CommonOptions &options) {
  app.add_option("--spec", options.spec,
                 "Speculative decoding: auto (default: mtp when the plan has a draft layer), off, mtp (the plan's draft "
                 "layer)")
      ->type_name("HOW")
      ->check(CLI::IsMember({"auto", "off", "mtp"}));
  app.add_option("--draft-tokens", options.draftTokens,
                 "Tokens to draft per round (default 3, or as many as the plan makes)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u));
}

void addPromptOptions(CLI::App &app, PromptOptions &options) {
  app.add_option_function<std::string>(
         "-p,--prompt",
         [&options](const std::string &text) {
           options.text = text;
           options.hasText = true;
         },
         "Prompt text (default: -f, --tokens or standard input)")
      ->type_name("TEXT");
  app.add_option("-f,--file", options.file, "File with the prompt text")->type_name("FILE");
  app.add_option("--tokens", options.tokens, "Prompt as token ids: 1,2,3 or @FILE")->type_name("LIST");
  app.add_flag("--no-special", options.noSpecial, "Do not add the tokenizer's begin and end tokens to a text");
}

void addImageOption(CLI::App &app, std::vector<std::string> &files, const std::string &help) {
  app.add_option("--image", files, help)->type_name("FILE")->take_all()->allow_extra_args(false);
}

void addGenerateOptions(CLI::App &app, GenerateOptions &options) {
  SamplingOptions &sampling = options.sampling;
  app.add_option("-n,--n-predict", options.maxTokens,
                 "Tokens to generate; -1 (default): until a stop token or the end of the context")
      ->type_name("N")
      ->check(CLI::Range(int64_t(-1), int64_t(1) << 31));
  app.add_option("--temp", sampling.temperature, "Temperature; 0 takes the most likely token (default 0)")
      ->type_name("X");
  app.add_option("--top-k", sampling.topK, "Draw from the K most likely tokens; 0 (default): all")->type_name("K");
  app.add_option("--top-p", sampling.topP, "Draw from the smallest set of this total probability (default 1: all)")
      ->type_name("X");
  app.add_option("--min-p", sampling.minP, "Leave out tokens less likely than X times the most likely one (default 0: none)")
      ->type_name("X");
  app.add_option("--repeat-penalty", sampling.repetitionPenalty, "Divide logits of seen tokens by X (default 1: off)")
      ->type_name("X");
  app.add_option("--presence-penalty", sampling.presencePenalty, "Subtract X from logits of seen tokens (default 0)")
      ->type_name("X");
  app.add_option("--frequency-penalty", sampling.frequencyPenalty, "Subtract X per occurrence of a token (default 0)")
      ->type_name("X");
  app.add_option("-s,--seed", sampling.seed, "Seed of the draws (default 0; same seed, same answer)")
      ->type_name("N")
      ->check(kUnsigned);
  app.add_flag("--ignore-eos", options.ignoreEos, "Do not end at stop tokens");
  app.add_flag("--special", options.showSpecial, "Print special tokens");
  app.add_option("--stop", options.stops, "End the answer before this text (repeatable)")
      ->type_name("TEXT")
      ->take_all()
      ->allow_extra_args(false);
}

int parse(CLI::App &app, int argc, char **argv) {
  app.set_version_flag("--version", "ninfer-exec " NINFER_VERSION);
  try {
    app.parse(argc, argv);
    for (const CLI::Option *option : app.get_options()) // an empty shell variable would be a 0
      if (const std::string type = option->get_type_name(); (type[0] == 'N' && type != "NAME") || type[0] == 'X' || type[0] == 'K')
        for (const std::string &text : option->results())
          if (text.empty())
            throw CLI::ValidationError(option->get_name(), "expected a number, got an empty text");
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) { // --help, --version
      app.exit(error);
      return std::cout.flush() ? 0 : report(makeError(ErrorKind::Failed, "NB0906", "cannot write to stdout"));
    }
    std::string message = error.what();
    for (char &c : message)
      if (c == '\n')
        c = ' ';
    Status status = makeError(ErrorKind::Usage, "NB0900", message);
    status.help("see " + app.get_name() + " --help");
    return report(std::move(status));
  }
  return -1;
}

} // namespace ninfer::exec
