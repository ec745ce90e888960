#include "tools/ninfer-exec/TextModel.h"

#include "runtime/loader/Machine.h"
#include "support/File.h"
#include "support/Json.h"
#include "support/Utf8.h"

#include <charconv>
#include <iostream>
#include <iterator>
#include <unistd.h>

namespace ninfer::exec {

namespace {

Result<Json> readJson(const Engine &engine, const char *role, const std::string &path) {
  NINFER_ASSIGN_OR_RETURN(std::string_view bytes, engine.resource(role));
  if (bytes.empty())
    return Json();
  return parseStrictJson(bytes, path + ": " + role);
}

} // namespace

Result<TextModel> TextModel::load(const Engine &engine) {
  const uint64_t start = nowNs();
  TextModel model;
  model.weightsPath_ = engine.info().weights_path;
  NINFER_ASSIGN_OR_RETURN(std::string_view json, engine.resource("tokenizer.json"));
  if (!json.empty()) {
    NINFER_ASSIGN_OR_RETURN(model.tokenizer_, Tokenizer::fromJson(json, model.weightsPath_ + ": tokenizer.json"));
  }
  NINFER_ASSIGN_OR_RETURN(model.tokenizerConfig_,
                          readJson(engine, "tokenizer_config.json", model.weightsPath_));
  NINFER_RETURN_IF_ERROR(model.readStopTokens(engine));
  model.loadNs_ = nowNs() - start;
  return model;
}

Status TextModel::readStopTokens(const Engine &engine) {
  NINFER_ASSIGN_OR_RETURN(Json config, readJson(engine, "generation_config.json", weightsPath_));
  const auto bad = [&] {
    return makeError(ErrorKind::BadFile, "NB0663",
                     weightsPath_ + ": generation_config.json: eos_token_id is neither a token id nor a list of them");
  };
  const auto add = [&](const Json &value) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > INT32_MAX)
      return false;
    stopTokens_.insert(value.get<int32_t>());
    return true;
  };
  if (auto eos = config.find("eos_token_id"); config.is_object() && eos != config.end() && !eos->is_null()) {
    if (eos->is_array()) {
      for (const Json &value : *eos)
        if (!add(value))
          return bad();
    } else if (!add(*eos)) {
      return bad();
    }
  }
  if (!stopTokens_.empty() || !tokenizer_ || !tokenizerConfig_.is_object())
    return {};
  auto eos = tokenizerConfig_.find("eos_token");
  if (eos == tokenizerConfig_.end())
    return {};
  const Json &spelled = eos->is_object() && eos->contains("content") ? (*eos)["content"] : *eos;
  if (spelled.is_string())
    if (auto id = tokenizer_->find(spelled.get<std::string>()))
      stopTokens_.insert(*id);
  return {};
}

Result<const Tokenizer *> TextModel::tokenizer() const {
  if (tokenizer_)
    return &*tokenizer_;
  Status status = makeError(ErrorKind::Unsupported, "NB0660", weightsPath_ + ": the artifact has no tokenizer.json");
  status.help("give token ids with --tokens");
  return status;
}

Result<ChatTemplate> TextModel::chatTemplate(const Engine &engine) {
  const uint64_t start = nowNs();
  NINFER_ASSIGN_OR_RETURN(std::string_view source, engine.resource("chat_template.jinja"));
  if (source.empty()) {
    Status status =
        makeError(ErrorKind::Unsupported, "NB0661", weightsPath_ + ": the artifact has no chat_template.jinja");
    status.help("use ninfer-exec without 'chat': it continues a text");
    return status;
  }
  auto compiled = ChatTemplate::compile(source, tokenizerConfig_, weightsPath_ + ": chat_template.jinja");
  loadNs_ += nowNs() - start;
  return compiled;
}

Result<std::vector<int32_t>> parseTokens(const std::string &list, const std::string &what) {
  std::vector<int32_t> tokens;
  const char *at = list.data(), *end = at + list.size();
  const auto isSeparator = [](char c) { return c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  while (at != end) {
    if (isSeparator(*at)) {
      ++at;
      continue;
    }
    int32_t value = 0;
    auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0 || (next != end && !isSeparator(*next)))
      return makeError(ErrorKind::Usage, "NB0662",
                       what + ": byte " + std::to_string(at - list.data()) +
                           " does not begin a token id; expected numbers separated by commas");
    tokens.push_back(value);
    at = next;
  }
  if (tokens.empty())
    return makeError(ErrorKind::Usage, "NB0662", what + ": no token ids");
  return tokens;
}

Result<std::vector<int32_t>> readPrompt(const PromptOptions &options, const TextModel &text) {
  const int given = options.hasText + !options.file.empty() + !options.tokens.empty();
  if (given > 1)
    return makeError(ErrorKind::Usage, "NB0662", "more than one prompt: give one of -p, -f, --tokens");
  if (!options.tokens.empty()) {
    if (options.tokens[0] != '@')
      return parseTokens(options.tokens, "--tokens");
    NINFER_ASSIGN_OR_RETURN(std::string list, readFile(options.tokens.substr(1)));
    return parseTokens(list, options.tokens.substr(1));
  }
  std::string prompt = options.text, source = "-p";
  if (!options.file.empty()) {
    source = options.file;
    NINFER_ASSIGN_OR_RETURN(prompt, readFile(options.file));
  } else if (!options.hasText) {
    source = "standard input";
    if (isatty(STDIN_FILENO))
      return makeError(ErrorKind::Usage, "NB0662", "no prompt: give -p TEXT, -f FILE, --tokens LIST, or pipe a text in");
    prompt.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  // Editors and echo end a text with a line feed that is not part of the prompt.
  if (!options.hasText && !prompt.empty() && prompt.back() == '\n')
    prompt.pop_back();
  if (prompt.empty())
    return makeError(ErrorKind::Usage, "NB0662", source + ": the prompt is empty");
  if (auto at = findInvalidUtf8(prompt))
    return makeError(ErrorKind::Usage, "NB0664",
                     source + ": the prompt is not valid UTF-8 at byte " + std::to_string(*at));
  NINFER_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, text.tokenizer());
  EncodeOptions encode;
  encode.addSpecial = !options.noSpecial;
  NINFER_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer->encode(prompt, encode));
  if (tokens.empty())
    return makeError(ErrorKind::Usage, "NB0662", source + ": the prompt has no tokens");
  return tokens;
}

} // namespace ninfer::exec
