// ninfer-exec chat PLAN: a conversation through the model's own chat template. The part of the conversation
// that is already in the context is kept; only what differs is evaluated again.
#include "tools/ninfer-exec/Options.h"
#include "tools/ninfer-exec/PromptCache.h"

#include "support/Utf8.h"

#include <cstdio>
#include <iostream>
#include <unistd.h>

namespace ninfer::exec {

namespace {

struct ChatOptions {
  CommonOptions common;
  GenerateOptions generate;
  std::string system, prompt;
  std::vector<std::string> images;
  bool noThink = false;
};

class Chat {
public:
  Chat(const ChatOptions &options, const Engine &engine, const ninfer_engine_info &info, const TextModel &text,
       const Tokenizer &tokenizer, const ChatTemplate &chatTemplate, uint32_t drafts, Context &context)
      : options_(options), engine_(engine), info_(info), text_(text), tokenizer_(tokenizer), template_(chatTemplate), drafts_(drafts),
        context_(context), cache_(context) {
    if (options.noThink)
      extra_["enable_thinking"] = false;
    clear();
  }

  void clear() {
    messages_.clear();
    images_.clear();
    attached_.clear();
    if (!options_.system.empty())
      messages_.push_back({"system", options_.system});
  }

  /// Images that go with the next message, in front of its text.
  Status attach(const std::vector<std::string> &files) {
    NINFER_ASSIGN_OR_RETURN(const PromptImages read, readImages(engine_, files));
    attached_.insert(attached_.end(), read.begin(), read.end());
    return {};
  }

  /// One exchange; NB0652 when it does not fit the context. A failed one leaves the conversation as it was before.
  Result<StopReason> ask(const std::string &question, Output &output) {
    const size_t before = messages_.size(), imagesBefore = images_.size();
    ChatMessage message{"user", question};
    if (!attached_.empty()) {
      message.parts = Json::array();
      for (size_t i = 0; i < attached_.size(); ++i)
        message.parts.push_back({{"type", "image"}});
      message.parts.push_back({{"type", "text"}, {"text", question}});
      images_.insert(images_.end(), attached_.begin(), attached_.end());
    }
    messages_.push_back(std::move(message));
    auto answered = answer(output, before > (options_.system.empty() ? 0u : 1u));
    if (!answered.ok())
      messages_.resize(before);
    if (messages_.size() <= before) // also when it was stopped before the answer began
      images_.resize(imagesBefore);
    else
      attached_.clear();
    return answered;
  }

  ToolStats stats() const { return {text_.loadNs(), firstTokenNs_, drafts_ > 0, draftStats_}; }

private:
  Result<StopReason> answer(Output &output, bool continues) {
    NINFER_ASSIGN_OR_RETURN(std::string prompt, template_.render(messages_, true, extra_));
    EncodeOptions encode;
    encode.addSpecial = false;
    NINFER_ASSIGN_OR_RETURN(std::vector<int32_t> written, tokenizer_.encode(prompt, encode));
    NINFER_ASSIGN_OR_RETURN(const Prompt placed, placeImages(std::move(written), images_, text_));
    const std::vector<int32_t> &tokens = placed.tokens;
    Status fits = checkLength(info_, tokens.size(), options_.generate);
    if (!fits.ok() && continues) {
      const int64_t wanted = options_.generate.maxTokens;
      Status full = makeError(ErrorKind::Usage, "NB0652",
                              "the conversation is full: with this message it has " + std::to_string(tokens.size()) +
                                  " tokens" + (wanted > 0 ? ", -n asks for " + std::to_string(wanted) : std::string()) +
                                  ", the plan has " + std::to_string(info_.max_context) + " positions");
      full.help("use /clear to forget the conversation and begin a new one");
      return full;
    }
    NINFER_RETURN_IF_ERROR(std::move(fits));
    auto submitted = cache_.submit(placed);
    if (!submitted.ok()) {
      if (submitted.error().kind == ErrorKind::Interrupted) {
        messages_.pop_back();
        return StopReason::Interrupted;
      }
      return submitted.error();
    }
    NINFER_ASSIGN_OR_RETURN(Generated generated, generate(context_, info_, text_, tokens, options_.generate, drafts_, output));
    draftStats_.add(generated.drafts);
    if (firstTokenNs_ == 0)
      firstTokenNs_ = generated.firstTokenNs;
    cache_.append(generated.tokens);
    NINFER_RETURN_IF_ERROR(output.write("\n"));
    messages_.push_back({"assistant", generated.text});
    return generated.reason;
  }

  const ChatOptions &options_;
  const Engine &engine_;
  const ninfer_engine_info &info_;
  const TextModel &text_;
  const Tokenizer &tokenizer_;
  const ChatTemplate &template_;
  const uint32_t drafts_; ///< per round
  DraftStats draftStats_;
  Context &context_;
  Json extra_ = Json::object();
  std::vector<ChatMessage> messages_;
  PromptImages images_;   ///< of the messages, in order
  PromptImages attached_; ///< for the next one
  PromptCache cache_;
  uint64_t firstTokenNs_ = 0;
};

constexpr const char *kCommands = "/clear forgets the conversation, /image FILE adds an image to the next message, /exit (or "
                                  "/quit) ends, /help lists the commands";

/// The command on a line, such as "/clear", or nothing: a line that begins with a path is a message.
std::string commandOf(const std::string &line) {
  if (line[0] != '/')
    return {};
  const size_t end = line.find_last_not_of(" \t\r") + 1;
  const size_t word = std::min(end, line.find_first_of(" \t"));
  if (line.find('/', 1) < word)
    return {};
  return line.substr(0, word);
}

/// What stands behind the command, without blanks around it.
std::string argumentOf(const std::string &line) {
  const size_t begin = line.find_first_not_of(" \t", std::min(line.size(), line.find_first_of(" \t")));
  const size_t end = line.find_last_not_of(" \t\r") + 1;
  return begin == std::string::npos || begin >= end ? std::string() : line.substr(begin, end - begin);
}

/// Reads lines until the end of the input. To a person a failed exchange is only reported; a script goes on after
/// a full conversation or an unknown command (a /clear may follow), ends at any other failure, and returns its code.
Result<int> converse(Chat &chat, Output &output) {
  const bool person = isatty(STDIN_FILENO);
  if (person)
    std::fprintf(stderr, "%s; Ctrl-D ends, Ctrl-C stops an answer\n", kCommands);
  std::string line;
  int failed = 0;
  for (;;) {
    if (person)
      std::fputs("> ", stderr);
    if (!std::getline(std::cin, line))
      return interrupted() ? int(ErrorKind::Interrupted) : failed;
    if (line.empty())
      continue;
    if (const std::string command = commandOf(line); !command.empty()) {
      if (command == "/exit" || command == "/quit")
        return failed;
      if (command == "/clear") {
        chat.clear();
      } else if (command == "/image") {
        Status attached = chat.attach({argumentOf(line)});
        if (!attached.ok()) {
          const int code = report(std::move(attached));
          if (!person)
            return code;
        }
      } else if (command == "/help") {
        std::fprintf(stderr, "%s\n", kCommands);
      } else {
        Status unknown = makeError(ErrorKind::Usage, "NB0900", "no command " + command);
        unknown.help(kCommands);
        const int code = report(std::move(unknown));
        failed = person ? 0 : code;
      }
      continue;
    }
    auto reason = findInvalidUtf8(line)
                      ? Result<StopReason>(makeError(ErrorKind::Usage, "NB0664", "the message is not valid UTF-8"))
                      : chat.ask(line, output);
    if (!reason.ok()) {
      const int code = report(reason.error());
      if (!person && reason.error().code != "NB0652")
        return code;
      failed = person ? 0 : code;
      continue;
    }
    if (*reason == StopReason::ContextFull)
      std::fputs("note: stopped: the conversation is full; use /clear to begin a new one\n", stderr);
    if (*reason == StopReason::OutputClosed)
      return failed;
    if (*reason == StopReason::Interrupted) {
      if (!person)
        return int(ErrorKind::Interrupted);
      std::fputs("\n", stderr);
      clearInterrupt();
    }
  }
}

Result<int> run(const ChatOptions &options) {
  NINFER_RETURN_IF_ERROR(checkOptions(options.generate));
  NINFER_ASSIGN_OR_RETURN(Engine engine, Engine::open(options.common));
  NINFER_ASSIGN_OR_RETURN(TextModel text, TextModel::load(engine));
  NINFER_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, text.tokenizer());
  NINFER_ASSIGN_OR_RETURN(ChatTemplate chatTemplate, text.chatTemplate(engine));
  for (const auto &[name, given] : {std::pair("-p", &options.prompt), std::pair("--system", &options.system)})
    if (const auto at = findInvalidUtf8(*given))
      return makeError(ErrorKind::Usage, "NB0664", std::string(name) + ": the text is not valid UTF-8 at byte " + std::to_string(*at));
  const ninfer_engine_info info = engine.info();
  NINFER_ASSIGN_OR_RETURN(const uint32_t drafts, draftsPerRound(info, options.common));
  NINFER_ASSIGN_OR_RETURN(Context context, Context::create(engine, options.common, drafts > 0));
  Chat chat(options, engine, info, text, *tokenizer, chatTemplate, drafts, context);
  NINFER_RETURN_IF_ERROR(chat.attach(options.images));
  Output output;
  int code = 0;
  if (options.prompt.empty()) {
    NINFER_ASSIGN_OR_RETURN(code, converse(chat, output));
  } else {
    NINFER_ASSIGN_OR_RETURN(const StopReason reason, chat.ask(options.prompt, output));
    if (reason == StopReason::ContextFull)
      std::fputs("note: stopped: the context of the plan is full\n", stderr);
    code = reason == StopReason::Interrupted ? int(ErrorKind::Interrupted) : 0;
  }
  printAsked(engine, options.common, context, chat.stats());
  return code;
}

} // namespace

int chatCommand(int argc, char **argv) {
  ChatOptions options;
  CLI::App app("Talk with a compiled model. Messages come from -p (one exchange) or, line by line, from standard "
               "input.",
               "ninfer-exec chat");
  app.footer(std::string("In a conversation: ") + kCommands + ".");
  addCommonOptions(app, options.common);
  addGenerateOptions(app, options.generate);
  addSpecOptions(app, options.common);
  app.add_option("--system", options.system, "System message")->type_name("TEXT");
  app.add_option("-p,--prompt", options.prompt, "Ask this one message and end")->type_name("TEXT");
  addImageOption(app, options.images, "PNG or JPEG file that goes with the first message (repeatable)");
  app.add_flag("--no-think", options.noThink, "Set enable_thinking to false in the chat template");
  if (int code = parse(app, argc, argv); code >= 0)
    return code;
  if (app.count("--prompt") && options.prompt.empty()) // not a conversation on standard input
    return report(makeError(ErrorKind::Usage, "NB0662", "-p: the message is empty"));
  return report(run(options));
}

} // namespace ninfer::exec
