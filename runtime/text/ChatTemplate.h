// Turns a conversation into the prompt text a model was trained on, by its own chat template.
#ifndef NINFER_RUNTIME_TEXT_CHATTEMPLATE_H
#define NINFER_RUNTIME_TEXT_CHATTEMPLATE_H

#include "runtime/text/jinja/Template.h"
#include "support/Json.h"
#include "support/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

struct ChatMessage {
  std::string role; ///< "system", "user" or "assistant"
  std::string content;
  /// Not null: the content as an array of parts, {"type":"text","text":...} and {"type":"image"}, instead of `content`.
  Json parts = nullptr;
};

class ChatTemplate {
public:
  /// `source` is chat_template.jinja; `tokenizerConfig` is tokenizer_config.json or null and gives bos_token and
  /// eos_token. Errors: Unsupported with the line of the construct.
  static Result<ChatTemplate> compile(std::string_view source, const Json &tokenizerConfig, const std::string &name);

  /// Prompt text; `extra` (an object) adds variables such as enable_thinking. The text spells special tokens and is
  /// to be encoded with parseSpecial and without addSpecial. Errors: Failed, with the template's own words.
  Result<std::string> render(const std::vector<ChatMessage> &messages, bool addGenerationPrompt,
                             const Json &extra = Json::object()) const;

private:
  ChatTemplate(jinja::Template t, Json variables) : template_(std::move(t)), variables_(std::move(variables)) {}
  jinja::Template template_;
  Json variables_;
};

} // namespace ninfer

#endif // NINFER_RUNTIME_TEXT_CHATTEMPLATE_H
