// Tokenizer resources of a Hugging Face model folder.
#include "convert/TokenizerFiles.h"

#include "convert/HuggingFaceFolder.h"
#include "convert/SourceConfig.h"
#include "support/File.h"

namespace ninfer {

namespace {

const char *const kCode = "NB0320";
constexpr uint64_t kMaxBytes = 256u << 20;

struct TextFile {
  std::string bytes;
  Json json; ///< null for a template
};

Result<std::optional<TextFile>> readOptional(const ModelFolder &folder, const std::string &name,
                                             bool isJson) {
  if (!folder.contains(name))
    return std::optional<TextFile>();
  NINFER_ASSIGN_OR_RETURN(std::filesystem::path path, folder.resolve(name));
  TextFile out;
  NINFER_ASSIGN_OR_RETURN(out.bytes, readFile(path, kMaxBytes));
  if (isJson) {
    NINFER_ASSIGN_OR_RETURN(out.json, parseStrictJson(out.bytes, name, kCode));
    if (!out.json.is_object())
      return makeError(ErrorKind::BadFile, kCode, name + ": must be a JSON object");
  } else if (out.bytes.empty()) {
    return makeError(ErrorKind::BadFile, kCode, name + ": is empty");
  }
  return std::optional<TextFile>(std::move(out));
}

/// Every id of the vocabulary and of the added tokens has a row in the embedding.
Status checkIds(const Json &tokenizer, int64_t vocabSize) {
  std::string name = kTokenizerRole;
  auto check = [&](const Json &id, const std::string &token) -> Status {
    Result<int64_t> value =
        jsonInteger(id, 0, vocabSize - 1, name + ": id of token " + Json(token).dump(), kCode);
    return value.ok() ? Status() : value.takeStatus();
  };
  auto model = tokenizer.find("model");
  if (model == tokenizer.end() || !model->is_object() || !model->contains("vocab"))
    return makeError(ErrorKind::BadFile, kCode, name + ": member model.vocab is missing");
  const Json &vocab = (*model)["vocab"];
  if (vocab.is_object())
    for (const auto &item : vocab.items())
      NINFER_RETURN_IF_ERROR(check(item.value(), item.key()));
  auto added = tokenizer.find("added_tokens");
  if (added != tokenizer.end() && added->is_array())
    for (const Json &token : *added)
      if (token.is_object() && token.contains("id"))
        NINFER_RETURN_IF_ERROR(
            check(token["id"], token.contains("content") ? jsonExcerpt(token["content"]) : ""));
  return Status();
}

/// The template member of tokenizer_config.json: a string, or named templates of which "default"
/// counts.
Result<std::optional<std::string>> templateOfConfig(const Json &tokenizerConfig) {
  auto it = tokenizerConfig.find("chat_template");
  if (it == tokenizerConfig.end() || it->is_null())
    return std::optional<std::string>();
  if (it->is_string())
    return std::optional<std::string>(it->get<std::string>());
  if (it->is_array())
    for (const Json &entry : *it)
      if (entry.is_object() && entry.contains("name") && entry["name"] == "default" &&
          entry.contains("template") && entry["template"].is_string())
        return std::optional<std::string>(entry["template"].get<std::string>());
  return makeError(ErrorKind::BadFile, kCode,
                   std::string(kTokenizerConfigRole) +
                       ": chat_template must be a string or hold a template named \"default\"");
}

} // namespace

Result<std::vector<SourceResource>> tokenizerFilesOfFolder(const ModelFolder &folder,
                                                           const Json &config,
                                                           int64_t vocabSize) {
  std::vector<SourceResource> out;
  NINFER_ASSIGN_OR_RETURN(std::optional<TextFile> tokenizer,
                          readOptional(folder, kTokenizerRole, true));
  if (!tokenizer) {
    Status status(makeError(ErrorKind::BadFile, "NB0310",
                            (folder.path() / kTokenizerRole).string() + ": no such file"));
    status.help("--no-tokenizer writes an artifact without text resources");
    return status;
  }
  NINFER_RETURN_IF_ERROR(checkIds(tokenizer->json, vocabSize));
  out.push_back({kTokenizerRole, std::move(tokenizer->bytes)});

  NINFER_ASSIGN_OR_RETURN(std::optional<TextFile> tokenizerConfig,
                          readOptional(folder, kTokenizerConfigRole, true));
  NINFER_ASSIGN_OR_RETURN(std::optional<TextFile> chatTemplate,
                          readOptional(folder, kChatTemplateRole, false));
  std::optional<std::string> text;
  if (chatTemplate) {
    text = std::move(chatTemplate->bytes);
  } else if (tokenizerConfig) {
    NINFER_ASSIGN_OR_RETURN(text, templateOfConfig(tokenizerConfig->json));
  }
  if (tokenizerConfig)
    out.push_back({kTokenizerConfigRole, std::move(tokenizerConfig->bytes)});
  if (text && !text->empty())
    out.push_back({kChatTemplateRole, std::move(*text)});

  NINFER_ASSIGN_OR_RETURN(std::optional<TextFile> generation,
                          readOptional(folder, kGenerationConfigRole, true));
  if (generation) {
    out.push_back({kGenerationConfigRole, std::move(generation->bytes)});
    return out;
  }
  Json made = Json::object();
  for (const char *member : {"bos_token_id", "eos_token_id", "pad_token_id"})
    for (const Json *source : {&config, &textConfigOf(config)})
      if (!made.contains(member) && source->contains(member) && !(*source)[member].is_null())
        made[member] = (*source)[member];
  out.push_back({kGenerationConfigRole, made.dump()});
  return out;
}

} // namespace ninfer
