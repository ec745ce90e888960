// ninfer-exec PLAN: continues a prompt and streams the text to stdout.
#include "tools/ninfer-exec/Options.h"
#include "tools/ninfer-exec/PromptCache.h"

#include <cstdio>

namespace ninfer::exec {

namespace {

struct RunOptions {
  CommonOptions common;
  PromptOptions prompt;
  GenerateOptions generate;
  std::vector<std::string> images;
  bool echo = false;
};

/// What stderr says about the end of the answer, or null when it needs no word.
const char *noteFor(StopReason reason) {
  switch (reason) {
  case StopReason::ContextFull:
    return "stopped: the context of the plan is full";
  case StopReason::Interrupted:
    return "interrupted";
  case StopReason::OutputClosed:
    return "stopped: stdout was closed";
  case StopReason::Length:
  case StopReason::StopToken:
  case StopReason::StopText:
    break;
  }
  return nullptr;
}

Result<int> run(RunOptions &options) {
  NINFER_RETURN_IF_ERROR(checkOptions(options.generate));
  NINFER_ASSIGN_OR_RETURN(Engine engine, Engine::open(options.common));
  NINFER_ASSIGN_OR_RETURN(TextModel text, TextModel::load(engine));
  NINFER_ASSIGN_OR_RETURN(std::vector<int32_t> written, readPrompt(options.prompt, text));
  NINFER_ASSIGN_OR_RETURN(const PromptImages images, readImages(engine, options.images));
  NINFER_ASSIGN_OR_RETURN(const Prompt prompt, placeImages(std::move(written), images, text));
  if (!text.hasTokenizer())
    options.generate.printIds = true;
  const ninfer_engine_info info = engine.info();
  NINFER_RETURN_IF_ERROR(checkLength(info, prompt.tokens.size(), options.generate));
  NINFER_ASSIGN_OR_RETURN(const uint32_t drafts, draftsPerRound(info, options.common));
  NINFER_ASSIGN_OR_RETURN(Context context, Context::create(engine, options.common, drafts > 0));

  Output output;
  if (options.echo && !options.generate.printIds) {
    NINFER_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, text.tokenizer());
    NINFER_RETURN_IF_ERROR(output.write(tokenizer->decode(prompt.tokens, !options.generate.showSpecial)));
  }
  ToolStats own{.loadNs = text.loadNs(), .speculates = drafts > 0};
  StopReason reason = StopReason::Length;
  Status submitted = interrupted() ? Status(makeError(ErrorKind::Interrupted, "NB0653", "cancelled"))
                                   : PromptCache(context).submit(prompt).takeStatus();
  if (submitted.ok()) {
    NINFER_ASSIGN_OR_RETURN(Generated generated,
                            generate(context, info, text, prompt.tokens, options.generate, drafts, output));
    own.firstTokenNs = generated.firstTokenNs;
    own.drafts = generated.drafts;
    reason = generated.reason;
    if (!options.generate.printIds && !generated.text.empty() && generated.text.back() != '\n')
      NINFER_RETURN_IF_ERROR(output.write("\n"));
  } else if (submitted.error().kind == ErrorKind::Interrupted) {
    reason = StopReason::Interrupted;
  } else {
    return submitted;
  }
  if (const char *note = noteFor(reason))
    std::fprintf(stderr, "note: %s\n", note);
  printAsked(engine, options.common, context, own);
  return reason == StopReason::Interrupted ? int(ErrorKind::Interrupted) : 0;
}

} // namespace

int runCommand(int argc, char **argv) {
  RunOptions options;
  CLI::App app("Continue a prompt with a compiled model.\n"
               "Other commands: ninfer-exec chat|serve|bench|logits|perplexity|embed PLAN (each has --help).",
               "ninfer-exec");
  addCommonOptions(app, options.common);
  addPromptOptions(app, options.prompt);
  addGenerateOptions(app, options.generate);
  addSpecOptions(app, options.common);
  addImageOption(app, options.images, "PNG or JPEG file in place of the next <|image_pad|> of the prompt (repeatable)");
  app.add_flag("--echo", options.echo, "Print the prompt before the answer");
  app.add_flag("--ids", options.generate.printIds, "Print token ids, one per line, instead of text");
  if (int code = parse(app, argc, argv); code >= 0)
    return code;
  return report(run(options));
}

} // namespace ninfer::exec
