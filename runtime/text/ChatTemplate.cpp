#include "runtime/text/ChatTemplate.h"

#include "support/Utf8.h"

namespace ninfer {

Result<ChatTemplate> ChatTemplate::compile(std::string_view source, const Json &tokenizerConfig, const std::string &name) {
  if (const auto bad = findInvalidUtf8(source))
    return makeError(ErrorKind::BadFile, "NB0706", name + ": not valid UTF-8 at byte " + std::to_string(*bad));
  NINFER_ASSIGN_OR_RETURN(jinja::Template t, jinja::Template::compile(source, name));
  Json variables = Json::object();
  if (tokenizerConfig.is_object())
    for (const char *token : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
      if (!tokenizerConfig.contains(token))
        continue;
      const Json &value = tokenizerConfig[token];
      if (value.is_string())
        variables[token] = value;
      else if (value.is_object() && value.contains("content") && value["content"].is_string())
        variables[token] = value["content"];
    }
  return ChatTemplate(std::move(t), std::move(variables));
}

Result<std::string> ChatTemplate::render(const std::vector<ChatMessage> &messages, bool addGenerationPrompt,
                                         const Json &extra) const {
  Json variables = variables_;
  variables["messages"] = Json::array();
  for (const ChatMessage &m : messages)
    variables["messages"].push_back({{"role", m.role}, {"content", m.parts.is_null() ? Json(m.content) : m.parts}});
  variables["add_generation_prompt"] = addGenerationPrompt;
  for (const auto &[key, value] : extra.items())
    variables[key] = value;
  return template_.render(variables);
}

} // namespace ninfer
