#include "tools/ninfer-exec/Request.h"

#include <limits>
#include <optional>

namespace ninfer::exec {

namespace {

Status wrong(const std::string &member, const std::string &expected, const Json &got) {
  return makeError(ErrorKind::Usage, "NB0680", member + ": expected " + expected + ", got " + jsonExcerpt(got));
}

Result<std::string> textOf(const Json &value, const std::string &member) {
  if (!value.is_string())
    return wrong(member, "a string", value);
  return value.get<std::string>();
}

Result<bool> flagOf(const Json &value, const std::string &member) {
  if (!value.is_boolean())
    return wrong(member, "true or false", value);
  return value.get<bool>();
}

/// The bytes of base64 text with its padding; nothing for other text.
std::optional<std::string> fromBase64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  size_t padding = 0;
  uint32_t bits = 0;
  if (text.size() % 4 != 0)
    return std::nullopt;
  for (size_t i = 0; i < text.size(); ++i) {
    size_t digit = digits.find(text[i]);
    if (text[i] == '=' && i + 2 >= text.size()) {
      ++padding;
      digit = 0;
    } else if (digit == std::string_view::npos || padding) {
      return std::nullopt;
    }
    bits = bits << 6 | uint32_t(digit);
    if (i % 4 == 3)
      for (int shift : {16, 8, 0})
        out.push_back(char(bits >> shift & 255));
  }
  out.resize(out.size() - padding);
  return out;
}

/// The file in {"url": "data:image/png;base64,..."}: the server fetches nothing.
Result<std::string> imageOf(const Json &value, const std::string &member) {
  NINFER_RETURN_IF_ERROR(jsonMembers(value, {"url"}, {"detail"}, member, "NB0680"));
  if (value.contains("detail") && value["detail"] != "auto")
    return wrong(member + ".detail", "\"auto\"", value["detail"]);
  NINFER_ASSIGN_OR_RETURN(const std::string url, textOf(value["url"], member + ".url"));
  for (std::string_view head : {"data:image/png;base64,", "data:image/jpeg;base64,"})
    if (url.rfind(head, 0) == 0) {
      if (auto bytes = fromBase64(std::string_view(url).substr(head.size())))
        return std::move(*bytes);
      return wrong(member + ".url", "base64 behind the comma", value["url"]);
    }
  return wrong(member + ".url", "data:image/png;base64,... or data:image/jpeg;base64,... (nothing is fetched)", value["url"]);
}

/// A string, or an array of {"type":"text","text":...}, which are joined, and, in a user message,
/// {"type":"image_url","image_url":...}.
Status readContent(const Json &value, const std::string &member, ChatMessage &message, std::vector<std::string> &images) {
  if (value.is_string()) {
    message.content = value.get<std::string>();
    return {};
  }
  if (!value.is_array())
    return wrong(member, "a string or an array of parts", value);
  Json parts = Json::array();
  bool hasImages = false;
  for (size_t i = 0; i < value.size(); ++i) {
    const Json &part = value[i];
    const std::string name = member + "[" + std::to_string(i) + "]";
    // Before the other members: those of another kind are not what is wrong with it.
    const bool typed = part.is_object() && part.contains("type"), isImage = typed && part["type"] == "image_url";
    if (typed && !isImage && part["type"] != "text")
      return wrong(name + ".type", "\"text\" or \"image_url\"", part["type"]);
    if (isImage && message.role != "user")
      return wrong(name + ".type", "\"text\" in a message of this role", part["type"]);
    NINFER_RETURN_IF_ERROR(jsonMembers(part, {"type", isImage ? "image_url" : "text"}, {}, name, "NB0680"));
    if (isImage) {
      NINFER_ASSIGN_OR_RETURN(std::string file, imageOf(part["image_url"], name + ".image_url"));
      images.push_back(std::move(file));
      parts.push_back({{"type", "image"}});
      hasImages = true;
      continue;
    }
    NINFER_ASSIGN_OR_RETURN(const std::string piece, textOf(part["text"], name + ".text"));
    message.content += piece;
    parts.push_back({{"type", "text"}, {"text", piece}});
  }
  if (hasImages) // templates know parts where they know images; text alone is text to all of them
    message.parts = std::move(parts);
  return {};
}

Result<std::vector<ChatMessage>> messagesOf(const Json &value, std::vector<std::string> &images) {
  if (!value.is_array() || value.empty())
    return wrong("messages", "an array of at least one message", value);
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string name = "messages[" + std::to_string(i) + "]";
    NINFER_RETURN_IF_ERROR(jsonMembers(value[i], {"role", "content"}, {"name"}, name, "NB0680"));
    ChatMessage message;
    NINFER_ASSIGN_OR_RETURN(message.role, textOf(value[i]["role"], name + ".role"));
    if (message.role == "developer") // the API's newer word for it; templates know the older one
      message.role = "system";
    if (message.role != "system" && message.role != "user" && message.role != "assistant")
      return wrong(name + ".role", "\"system\", \"user\" or \"assistant\"", value[i]["role"]);
    NINFER_RETURN_IF_ERROR(readContent(value[i]["content"], name + ".content", message, images));
    messages.push_back(std::move(message));
  }
  return messages;
}

Status readStops(const Json &value, std::vector<std::string> &stops) {
  stops.clear();
  if (value.is_string()) {
    stops.push_back(value.get<std::string>());
  } else if (value.is_array()) {
    for (const Json &stop : value) {
      if (!stop.is_string())
        return wrong("stop", "texts", stop);
      stops.push_back(stop.get<std::string>());
    }
  } else {
    return wrong("stop", "a string or an array of strings", value);
  }
  for (const std::string &stop : stops)
    if (stop.empty())
      return wrong("stop", "a text that is not empty", value);
  return {};
}

Status readPromptMember(const Json &value, CompletionRequest &request) {
  if (value.is_string()) {
    request.prompt = value.get<std::string>();
    return {};
  }
  if (!value.is_array())
    return wrong("prompt", "a string or an array of token ids", value);
  for (const Json &id : value) {
    NINFER_ASSIGN_OR_RETURN(const int64_t token,
                            jsonInteger(id, 0, std::numeric_limits<int32_t>::max(), "prompt", "NB0680"));
    request.promptTokens.push_back(int32_t(token));
  }
  return {};
}

/// Members whose only supported value is that of leaving them out.
struct Fixed {
  const char *name;
  Json value;
};
const std::vector<Fixed> &fixedMembers() {
  static const std::vector<Fixed> members = {
      {"n", 1},           {"best_of", 1},        {"echo", false},  {"logprobs", false}, {"suffix", ""},
      {"tools", Json::array()}, {"logit_bias", Json::object()}, {"response_format", {{"type", "text"}}}};
  return members;
}

/// Members about the caller, which no answer depends on.
bool isNote(const std::string &name) { return name == "user" || name == "metadata" || name == "store"; }

/// True when `name` was one of the members that both requests share.
Result<bool> readShared(const std::string &name, const Json &value, CompletionRequest &request,
                        const std::string &model) {
  SamplingOptions &sampling = request.generate.sampling;
  struct Number {
    const char *name;
    double *to;
  };
  const Number numbers[] = {{"temperature", &sampling.temperature},
                            {"top_p", &sampling.topP},
                            {"min_p", &sampling.minP},
                            {"presence_penalty", &sampling.presencePenalty},
                            {"frequency_penalty", &sampling.frequencyPenalty},
                            {"repetition_penalty", &sampling.repetitionPenalty}};
  for (const Number &number : numbers)
    if (name == number.name) {
      NINFER_ASSIGN_OR_RETURN(*number.to, jsonNumber(value, name, "NB0680"));
      return true;
    }
  if (name == "model") {
    NINFER_ASSIGN_OR_RETURN(const std::string wanted, textOf(value, name));
    if (wanted != model)
      return makeError(ErrorKind::Usage, "NB0683", "model: this server has '" + model + "', not '" + wanted + "'");
  } else if (name == "max_tokens" || name == "max_completion_tokens") {
    NINFER_ASSIGN_OR_RETURN(request.generate.maxTokens, jsonInteger(value, 1, int64_t(1) << 31, name, "NB0680"));
  } else if (name == "top_k") {
    NINFER_ASSIGN_OR_RETURN(sampling.topK, jsonInteger(value, 0, int64_t(1) << 31, name, "NB0680"));
  } else if (name == "seed") {
    NINFER_ASSIGN_OR_RETURN(sampling.seed, jsonUnsigned(value, 0, std::numeric_limits<uint64_t>::max(), name, "NB0680"));
  } else if (name == "stop") {
    NINFER_RETURN_IF_ERROR(readStops(value, request.generate.stops));
  } else if (name == "stream") {
    NINFER_ASSIGN_OR_RETURN(request.stream, flagOf(value, name));
  } else if (name == "stream_options") {
    NINFER_RETURN_IF_ERROR(jsonMembers(value, {}, {"include_usage"}, name, "NB0680"));
    if (value.contains("include_usage")) {
      NINFER_ASSIGN_OR_RETURN(request.streamUsage, flagOf(value["include_usage"], "stream_options.include_usage"));
    }
  } else {
    for (const Fixed &fixed : fixedMembers())
      if (name == fixed.name) {
        if (value != fixed.value)
          return wrong(name, "no other value than " + fixed.value.dump() + " here", value);
        return true;
      }
    return isNote(name);
  }
  return true;
}

Result<CompletionRequest> parseRequest(std::string_view body, const GenerateOptions &defaults, const std::string &model,
                                       bool chat) {
  NINFER_ASSIGN_OR_RETURN(const Json json, parseStrictJson(body, "request"));
  if (!json.is_object())
    return wrong("request", "an object", json);
  CompletionRequest request;
  request.generate = defaults;
  bool asked = false;
  for (const auto &[name, value] : json.items()) {
    if (value.is_null()) // clients send null for what they leave open
      continue;
    if (chat && name == "messages") {
      NINFER_ASSIGN_OR_RETURN(request.messages, messagesOf(value, request.images));
      asked = true;
    } else if (chat && name == "chat_template_kwargs") {
      if (!value.is_object())
        return wrong(name, "an object", value);
      for (const char *own : {"messages", "add_generation_prompt"})
        if (value.contains(own))
          return makeError(ErrorKind::Usage, "NB0680", name + ": '" + own + "' is set by the server");
      request.templateArguments = value;
    } else if (!chat && name == "prompt") {
      NINFER_RETURN_IF_ERROR(readPromptMember(value, request));
      asked = true;
    } else {
      NINFER_ASSIGN_OR_RETURN(const bool known, readShared(name, value, request, model));
      if (!known)
        return makeError(ErrorKind::Usage, "NB0680", "'" + name + "': not supported here");
    }
  }
  if (!asked)
    return makeError(ErrorKind::Usage, "NB0680", std::string(chat ? "messages" : "prompt") + ": missing");
  if (request.streamUsage && !request.stream)
    return makeError(ErrorKind::Usage, "NB0680", "stream_options: without \"stream\": true");
  NINFER_RETURN_IF_ERROR(checkOptions(request.generate));
  return request;
}

} // namespace

Result<CompletionRequest> parseChatRequest(std::string_view body, const GenerateOptions &defaults,
                                           const std::string &model) {
  return parseRequest(body, defaults, model, true);
}

Result<CompletionRequest> parseTextRequest(std::string_view body, const GenerateOptions &defaults,
                                           const std::string &model) {
  return parseRequest(body, defaults, model, false);
}

} // namespace ninfer::exec
