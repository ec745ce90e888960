// The text side of an artifact: its tokenizer, chat template and generation defaults, read from the artifact's
// resources. An artifact without a tokenizer still runs on token ids.
#ifndef NINFER_TOOLS_NINFER_EXEC_TEXTMODEL_H
#define NINFER_TOOLS_NINFER_EXEC_TEXTMODEL_H

#include "runtime/text/ChatTemplate.h"
#include "runtime/text/Sampler.h"
#include "runtime/text/Tokenizer.h"
#include "tools/ninfer-exec/Session.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ninfer::exec {

class TextModel {
public:
  /// Reads tokenizer.json and generation_config.json. Missing resources are not an error here.
  static Result<TextModel> load(const Engine &engine);

  bool hasTokenizer() const { return tokenizer_.has_value(); }
  /// NB0660 (Unsupported) when the artifact has no tokenizer.
  Result<const Tokenizer *> tokenizer() const;
  /// NB0661 (Unsupported) when the artifact has no chat template.
  Result<ChatTemplate> chatTemplate(const Engine &engine);
  /// Ids that end an answer: eos_token_id of generation_config.json, else eos_token of tokenizer_config.json.
  const std::set<int32_t> &stopTokens() const { return stopTokens_; }

  /// Nanoseconds that load() and chatTemplate() took so far.
  uint64_t loadNs() const { return loadNs_; }

private:
  Status readStopTokens(const Engine &engine);

  std::string weightsPath_;
  std::optional<Tokenizer> tokenizer_;
  Json tokenizerConfig_;
  std::set<int32_t> stopTokens_;
  uint64_t loadNs_ = 0;
};

/// Where the prompt of run, logits and bench comes from.
struct PromptOptions {
  std::string text, file, tokens;
  bool hasText = false;
  bool noSpecial = false; ///< leave out the tokens the tokenizer would add around a text
};

/// Ids of the prompt: --tokens, -p, -f, or standard input. NB0662 (Usage) for an empty prompt or a wrong list.
Result<std::vector<int32_t>> readPrompt(const PromptOptions &options, const TextModel &text);
/// "1,2,3" or "1 2 3"; `what` is for messages.
Result<std::vector<int32_t>> parseTokens(const std::string &list, const std::string &what);

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_TEXTMODEL_H
