// GGUF tokenizer metadata -> tokenizer.json, tokenizer_config.json, chat_template.jinja,
// generation_config.json. Token types, pre-tokenizer names and their splits: docs/convert.md,
// "Tokenizer from GGUF metadata".
#include "convert/TokenizerFiles.h"

#include "support/Utf8.h"

#include <algorithm>
#include <unordered_map>

namespace ninfer {

namespace {

const char *const kCode = "NB0320";

enum TokenType { Normal = 1, Unknown = 2, Control = 3, UserDefined = 4, Unused = 5, Byte = 6 };

// Split expressions of the models these names stand for.
const char *const kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char *const kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char *const kQwen35Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char *const kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Split { Gpt2, SmolLm, Llama3, Qwen2, Qwen35, GgmlDefault };

struct PreTokenizer {
  const char *name;
  Split split;
};
constexpr PreTokenizer kPreTokenizers[] = {
    {"gpt-2", Split::Gpt2},
    {"smollm", Split::SmolLm},
    {"starcoder", Split::SmolLm},
    {"refact", Split::SmolLm},
    {"llama-bpe", Split::Llama3},
    {"llama3", Split::Llama3},
    {"llama-v3", Split::Llama3},
    {"qwen2", Split::Qwen2},
    {"deepseek-r1-qwen", Split::Qwen2},
    {"qwen35", Split::Qwen35},
    {"default", Split::GgmlDefault},
};

/// Control tokens that end a turn or a text in the families served, whatever the metadata names as
/// eos.
const char *const kEndTexts[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>",
                                 "<|end_of_text|>"};

Json splitStep(const char *expression) {
  return Json{{"type", "Split"},
              {"pattern", {{"Regex", expression}}},
              {"behavior", "Isolated"},
              {"invert", false}};
}

Json byteLevel(bool useRegex) {
  return Json{{"type", "ByteLevel"},
              {"add_prefix_space", false},
              {"trim_offsets", true},
              {"use_regex", useRegex}};
}

Json sequence(Json steps) {
  return Json{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

Json preTokenizerJson(Split split) {
  switch (split) {
  case Split::Gpt2:
    return byteLevel(true);
  case Split::SmolLm:
    return sequence(
        Json::array({Json{{"type", "Digits"}, {"individual_digits", true}}, byteLevel(true)}));
  case Split::Llama3:
    return sequence(Json::array({splitStep(kLlama3Words), byteLevel(false)}));
  case Split::Qwen2:
    return sequence(Json::array({splitStep(kQwen2Words), byteLevel(false)}));
  case Split::Qwen35:
    return sequence(Json::array({splitStep(kQwen35Words), byteLevel(false)}));
  case Split::GgmlDefault:
    return sequence(
        Json::array({splitStep(R"([\p{P}\$\+<=>\^~\|]+)"), splitStep(kGpt2Words),
                     splitStep(R"(\p{N}+)"), splitStep("[0-9][0-9][0-9]"), byteLevel(false)}));
  }
  return nullptr;
}

class Builder {
public:
  Builder(const GgufFile &gguf, int64_t vocabSize, int64_t maxPositions)
      : gguf_(gguf), vocabSize_(vocabSize), maxPositions_(maxPositions) {}

  Result<std::vector<SourceResource>> run() {
    NINFER_RETURN_IF_ERROR(readTokens());
    NINFER_RETURN_IF_ERROR(readMerges());
    NINFER_RETURN_IF_ERROR(readSettings());
    std::vector<SourceResource> out;
    out.push_back({kTokenizerRole, tokenizerJson()});
    out.push_back({kTokenizerConfigRole, tokenizerConfigJson().dump(1)});
    NINFER_ASSIGN_OR_RETURN(std::optional<std::string> chat,
                            gguf_.textAt("tokenizer.chat_template"));
    if (chat && !chat->empty())
      out.push_back({kChatTemplateRole, std::move(*chat)});
    out.push_back({kGenerationConfigRole, generationConfigJson().dump(1)});
    return out;
  }

private:
  Error bad(const std::string &text) const {
    return makeError(ErrorKind::BadFile, kCode, gguf_.fileName + ": " + text);
  }
  Status unsupported(const std::string &text, const std::string &note) const {
    Status status(makeError(ErrorKind::Unsupported, kCode, gguf_.fileName + ": " + text));
    status.note(note);
    status.help("--no-tokenizer writes an artifact without text resources");
    return status;
  }

  Status readTokens() {
    NINFER_ASSIGN_OR_RETURN(std::optional<std::string> model, gguf_.textAt("tokenizer.ggml.model"));
    if (model != "gpt2")
      return unsupported("tokenizer model '" + model.value_or("") + "' is not supported",
                         "supported tokenizer.ggml.model: gpt2 (byte-level BPE)");
    NINFER_ASSIGN_OR_RETURN(std::optional<std::string> pre, gguf_.textAt("tokenizer.ggml.pre"));
    std::string name = pre.value_or("default");
    auto known = std::find_if(std::begin(kPreTokenizers), std::end(kPreTokenizers),
                              [&](const PreTokenizer &p) { return name == p.name; });
    if (known == std::end(kPreTokenizers))
      return unsupported("pre-tokenizer '" + name + "' is not supported",
                         "supported tokenizer.ggml.pre: " + listPreTokenizers());
    split_ = known->split;

    const GgufValue *tokens = gguf_.find("tokenizer.ggml.tokens");
    const GgufValue *types = gguf_.find("tokenizer.ggml.token_type");
    if (!tokens || tokens->strings.empty())
      return bad("metadata 'tokenizer.ggml.tokens' must be an array of strings that is not empty");
    if (tokens->strings.size() > static_cast<uint64_t>(vocabSize_))
      return bad(std::to_string(tokens->strings.size()) + " tokens, the embedding has " +
                 std::to_string(vocabSize_) + " rows");
    if (types && types->numbers.size() != tokens->strings.size())
      return bad("tokenizer.ggml.token_type has " + std::to_string(types->numbers.size()) +
                 " entries for " + std::to_string(tokens->strings.size()) + " tokens");
    if (types && types->elementKind != GgufValue::Kind::Signed && types->elementKind != GgufValue::Kind::Unsigned)
      return bad("tokenizer.ggml.token_type must be an array of integers");
    tokens_ = &tokens->strings;
    types_.assign(tokens_->size(), Normal);
    for (size_t i = 0; types && i < types_.size(); ++i) {
      double type = types->numbers[i];
      if (!(type >= 1.0 && type <= 6.0))
        return bad("token " + std::to_string(i) + " has unknown type " + std::to_string(type));
      types_[i] = static_cast<TokenType>(static_cast<int>(type));
    }
    // Unused entries at the end only pad the embedding; they are no tokens.
    used_ = tokens_->size();
    while (used_ > 0 && types_[used_ - 1] == Unused)
      --used_;
    for (size_t i = 0; i < used_; ++i) {
      const std::string &text = (*tokens_)[i];
      if (text.empty() || !isValidUtf8(text))
        return bad("token " + std::to_string(i) + " is empty or not UTF-8");
      if (auto [it, inserted] = ids_.emplace(text, i); !inserted)
        return bad("tokens " + std::to_string(it->second) + " and " + std::to_string(i) +
                   " are equal: " + Json(text).dump());
    }
    return Status();
  }

  Status readMerges() {
    const GgufValue *merges = gguf_.find("tokenizer.ggml.merges");
    if (!merges || merges->kind != GgufValue::Kind::Array ||
        (merges->strings.empty() && !merges->numbers.empty()))
      return bad("metadata 'tokenizer.ggml.merges' must be an array of strings");
    merges_ = &merges->strings;
    for (size_t i = 0; i < merges_->size(); ++i) {
      const std::string &merge = (*merges_)[i];
      size_t space = merge.find(' ');
      if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos)
        return bad("merge " + std::to_string(i) + " is not two parts separated by one space");
      std::string left = merge.substr(0, space), right = merge.substr(space + 1);
      for (const std::string &part : {left, right, left + right})
        if (!ids_.count(part))
          return bad("merge " + std::to_string(i) + ": " +
                     Json(part).dump(-1, ' ', false, Json::error_handler_t::replace) +
                     " is no token");
    }
    return Status();
  }

  Status readId(const char *key, std::optional<size_t> &out) {
    NINFER_ASSIGN_OR_RETURN(std::optional<uint64_t> id,
                            gguf_.unsignedAt(std::string("tokenizer.ggml.") + key));
    if (id && *id >= used_)
      return bad(std::string("tokenizer.ggml.") + key + " " + std::to_string(*id) +
                 " names no token");
    if (id)
      out = *id;
    return Status();
  }

  Status readSettings() {
    NINFER_RETURN_IF_ERROR(readId("bos_token_id", bos_));
    NINFER_RETURN_IF_ERROR(readId("eos_token_id", eos_));
    NINFER_RETURN_IF_ERROR(readId("eot_token_id", eot_));
    NINFER_RETURN_IF_ERROR(readId("eom_token_id", eom_));
    NINFER_RETURN_IF_ERROR(readId("unknown_token_id", unknown_));
    NINFER_RETURN_IF_ERROR(readId("padding_token_id", padding_));
    NINFER_ASSIGN_OR_RETURN(std::optional<bool> addBos,
                            gguf_.boolAt("tokenizer.ggml.add_bos_token"));
    NINFER_ASSIGN_OR_RETURN(std::optional<bool> addEos,
                            gguf_.boolAt("tokenizer.ggml.add_eos_token"));
    NINFER_ASSIGN_OR_RETURN(std::optional<bool> prefix,
                            gguf_.boolAt("tokenizer.ggml.add_space_prefix"));
    if (prefix.value_or(false))
      return unsupported("tokenizer.ggml.add_space_prefix is true", "supported: false or absent");
    // Llama 3 files older than the key rely on this default.
    addBos_ = addBos.value_or(split_ == Split::Llama3) && bos_;
    addEos_ = addEos.value_or(false) && eos_;
    return Status();
  }

  std::string quotedToken(size_t id) const { return Json((*tokens_)[id]).dump(); }

  /// Written as text: an ordered JSON object would search each of some 100000 names on insertion.
  std::string tokenizerJson() const {
    std::string out = R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)";
    bool first = true;
    for (size_t i = 0; i < used_; ++i) {
      TokenType type = types_[i];
      if (type != Control && type != UserDefined && type != Unknown)
        continue;
      out += (first ? "\n" : ",\n");
      out += "{\"id\":" + std::to_string(i) + ",\"content\":" + quotedToken(i) +
             R"(,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":)" +
             (type == UserDefined ? "false}" : "true}");
      first = false;
    }
    out += "],\n\"normalizer\":";
    out += split_ == Split::Qwen2 || split_ == Split::Qwen35 ? R"({"type":"NFC"})" : "null";
    out += ",\n\"pre_tokenizer\":" + preTokenizerJson(split_).dump();
    out += ",\n\"post_processor\":" + postProcessorJson().dump();
    out += ",\n\"decoder\":" + byteLevel(true).dump();
    out += R"(,
"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)"
           R"("fuse_unk":false,"byte_fallback":false,"ignore_merges":)";
    out += split_ == Split::Llama3 ? "true" : "false";
    out += ",\n\"vocab\":{";
    for (size_t i = 0; i < used_; ++i)
      out += (i ? ",\n" : "\n") + quotedToken(i) + ":" + std::to_string(i);
    out += "},\n\"merges\":[";
    for (size_t i = 0; i < merges_->size(); ++i)
      out += (i ? ",\n" : "\n") + Json((*merges_)[i]).dump();
    out += "]}}\n";
    return out;
  }

  Json postProcessorJson() const {
    if (!addBos_ && !addEos_)
      return nullptr;
    Json special = Json::object();
    auto token = [&](size_t id, int typeId) {
      const std::string &text = (*tokens_)[id];
      special[text] =
          Json{{"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}};
      return Json{{"SpecialToken", {{"id", text}, {"type_id", typeId}}}};
    };
    auto piece = [&](const char *id, int typeId, Json &out) {
      if (addBos_)
        out.push_back(token(*bos_, typeId));
      out.push_back(Json{{"Sequence", {{"id", id}, {"type_id", typeId}}}});
      if (addEos_)
        out.push_back(token(*eos_, typeId));
    };
    Json single = Json::array(), pair = Json::array();
    piece("A", 0, single);
    piece("A", 0, pair);
    piece("B", 1, pair);
    return Json{{"type", "TemplateProcessing"},
                {"single", single},
                {"pair", pair},
                {"special_tokens", special}};
  }

  Json tokenizerConfigJson() const {
    Json out = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                {"add_bos_token", addBos_},
                {"add_eos_token", addEos_},
                {"add_prefix_space", false},
                {"clean_up_tokenization_spaces", false},
                {"model_max_length", maxPositions_}};
    auto put = [&](const char *name, std::optional<size_t> id) {
      if (id)
        out[name] = (*tokens_)[*id];
    };
    put("bos_token", bos_);
    put("eos_token", eos_);
    put("unk_token", unknown_);
    put("pad_token", padding_);
    return out;
  }

  Json generationConfigJson() const {
    std::vector<size_t> ends;
    auto add = [&](std::optional<size_t> id) {
      if (id && std::find(ends.begin(), ends.end(), *id) == ends.end())
        ends.push_back(*id);
    };
    add(eos_);
    add(eot_);
    add(eom_);
    for (const char *text : kEndTexts)
      if (auto it = ids_.find(text); it != ids_.end() && types_[it->second] == Control)
        add(it->second);
    Json out = Json::object();
    if (bos_)
      out["bos_token_id"] = *bos_;
    if (!ends.empty())
      out["eos_token_id"] = ends;
    if (padding_)
      out["pad_token_id"] = *padding_;
    return out;
  }

  const GgufFile &gguf_;
  const int64_t vocabSize_, maxPositions_;
  Split split_ = Split::Gpt2;
  const std::vector<std::string> *tokens_ = nullptr, *merges_ = nullptr;
  std::vector<TokenType> types_;
  size_t used_ = 0; ///< tokens before the unused tail
  std::unordered_map<std::string, size_t> ids_;
  std::optional<size_t> bos_, eos_, eot_, eom_, unknown_, padding_;
  bool addBos_ = false, addEos_ = false;
};

} // namespace

std::string listPreTokenizers() {
  std::string out;
  for (const PreTokenizer &p : kPreTokenizers)
    out += (out.empty() ? "" : ", ") + std::string(p.name);
  return out;
}

Result<std::vector<SourceResource>> tokenizerFilesOfGguf(const GgufFile &gguf,
                                                         int64_t vocabSize, int64_t maxPositions) {
  return Builder(gguf, vocabSize, maxPositions).run();
}

} // namespace ninfer
