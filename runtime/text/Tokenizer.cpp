#include "runtime/text/Tokenizer.h"

#include "runtime/text/Bpe.h"
#include "runtime/text/PreTokenizer.h"
#include "support/Json.h"
#include "support/Utf8.h"

#include <algorithm>
#include <unordered_map>
#include <utf8proc.h>

namespace ninfer {

namespace {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false, normalized = false, singleWord = false, lstrip = false, rstrip = false;
};

bool isSpace(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool isWordChar(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC:
    return true;
  default:
    return false;
  }
}

/// Start of the code point that ends before `at`.
size_t previousCodePoint(std::string_view text, size_t at) {
  do
    --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

std::optional<char32_t> codePointBefore(std::string_view text, size_t at) {
  if (at == 0)
    return std::nullopt;
  size_t begin = previousCodePoint(text, at);
  return decodeUtf8(text, begin);
}

std::optional<char32_t> codePointAt(std::string_view text, size_t at) {
  return at < text.size() ? decodeUtf8(text, at) : std::nullopt;
}

std::string typeOf(const Json &json) {
  return json.is_object() && json.contains("type") && json["type"].is_string() ? json["type"].get<std::string>() : "";
}

/// A stretch of text that is either one added token or still to be tokenized.
struct Stretch {
  std::string_view text;
  int32_t id = -1;
};

/// Finds added tokens, leftmost first and the longest of those that start together.
class AddedTokenMatcher {
public:
  void add(const AddedToken &token) {
    byFirstByte_[static_cast<unsigned char>(token.content[0])].push_back(token);
  }

  /// Longest first; once, behind the last add().
  void sort() {
    // Contents are unique, so equal lengths need no order among themselves.
    for (auto &[first, list] : byFirstByte_)
      std::sort(list.begin(), list.end(),
                [](const AddedToken &a, const AddedToken &b) { return a.content.size() > b.content.size(); });
  }

  void split(std::string_view text, bool parseSpecial, std::vector<Stretch> &out) const {
    size_t pending = 0;
    for (size_t at = 0; at < text.size();) {
      const AddedToken *token = match(text, at, parseSpecial);
      if (!token) {
        ++at;
        continue;
      }
      size_t begin = at, end = at + token->content.size();
      if (token->lstrip)
        while (begin > pending) {
          size_t p = previousCodePoint(text, begin);
          std::optional<char32_t> c = codePointAt(text, p);
          if (!c || !isSpace(*c))
            break;
          begin = p;
        }
      if (token->rstrip)
        while (end < text.size()) {
          size_t p = end;
          std::optional<char32_t> c = decodeUtf8(text, p);
          if (!c || !isSpace(*c))
            break;
          end = p;
        }
      if (begin > pending)
        out.push_back({text.substr(pending, begin - pending), -1});
      out.push_back({text.substr(begin, end - begin), token->id});
      at = pending = end;
    }
    if (pending < text.size())
      out.push_back({text.substr(pending), -1});
  }

private:
  const AddedToken *match(std::string_view text, size_t at, bool parseSpecial) const {
    auto found = byFirstByte_.find(static_cast<unsigned char>(text[at]));
    if (found == byFirstByte_.end())
      return nullptr;
    for (const AddedToken &t : found->second) {
      if ((t.special && !parseSpecial) || text.substr(at, t.content.size()) != t.content)
        continue;
      if (t.singleWord) {
        std::optional<char32_t> before = codePointBefore(text, at), after = codePointAt(text, at + t.content.size());
        if ((before && isWordChar(*before)) || (after && isWordChar(*after)))
          continue;
      }
      return &t;
    }
    return nullptr;
  }

  std::unordered_map<unsigned char, std::vector<AddedToken>> byFirstByte_;
};

} // namespace

struct Tokenizer::Impl {
  std::string name;
  Bpe bpe;
  Normalizer normalizer;
  PreTokenizer preTokenizer;
  AddedTokenMatcher raw, normalized;
  std::unordered_map<int32_t, AddedToken> added;
  std::unordered_map<std::string, int32_t> addedIds;
  std::vector<int32_t> prefix, suffix; ///< what the post-processor puts around a single text
  int32_t size = 0;

  Status readAdded(const Json &json);
  Status readPostProcessor(const Json &json);
  Status readDecoder(const Json &json);
  Status encodePlain(std::string_view text, std::vector<int32_t> &out) const;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer &&) noexcept = default;
Tokenizer &Tokenizer::operator=(Tokenizer &&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Status Tokenizer::Impl::readAdded(const Json &json) {
  for (const Json &entry : json) {
    std::string where = name + ": added_tokens[" + std::to_string(added.size()) + "]";
    if (!entry.is_object() || !entry.contains("id") || !entry.contains("content") || !entry["content"].is_string())
      return makeError(ErrorKind::BadFile, "NB0701", where + ": expected an object with id and content");
    NINFER_ASSIGN_OR_RETURN(uint64_t id, jsonUnsigned(entry["id"], 0, (1 << 24) - 1, where + ".id", "NB0701"));
    AddedToken token;
    token.id = static_cast<int32_t>(id);
    token.content = entry["content"].get<std::string>();
    auto flag = [&](const char *m) { return entry.contains(m) && entry[m].is_boolean() && entry[m].get<bool>(); };
    token.special = flag("special");
    token.normalized = flag("normalized");
    token.singleWord = flag("single_word");
    token.lstrip = flag("lstrip");
    token.rstrip = flag("rstrip");
    if (token.content.empty())
      return makeError(ErrorKind::BadFile, "NB0701", where + ": content is empty");
    if (!added.emplace(token.id, token).second || !addedIds.emplace(token.content, token.id).second)
      return makeError(ErrorKind::BadFile, "NB0701", where + ": duplicate id or content '" + token.content + "'");
    if (auto inVocabulary = bpe.findSpelling(token.content); inVocabulary && *inVocabulary != token.id)
      return makeError(ErrorKind::BadFile, "NB0701",
                       where + ": '" + token.content + "' has id " + std::to_string(token.id) + ", in model.vocab it has " +
                           std::to_string(*inVocabulary));
    (token.normalized ? normalized : raw).add(token);
    size = std::max(size, token.id + 1);
  }
  raw.sort();
  normalized.sort();
  return {};
}

Status Tokenizer::Impl::readPostProcessor(const Json &json) {
  if (json.is_null())
    return {};
  std::string type = typeOf(json);
  if (type == "ByteLevel")
    return {}; // trims offsets only
  if (type == "Sequence" && json.contains("processors") && json["processors"].is_array()) {
    for (const Json &entry : json["processors"])
      NINFER_RETURN_IF_ERROR(readPostProcessor(entry));
    return {};
  }
  if (type == "TemplateProcessing" && json.contains("single") && json["single"].is_array()) {
    bool seen = false;
    for (const Json &piece : json["single"]) {
      if (piece.is_object() && piece.contains("Sequence")) {
        seen = true;
        continue;
      }
      if (!piece.is_object() || !piece.contains("SpecialToken") || !piece["SpecialToken"].contains("id") ||
          !piece["SpecialToken"]["id"].is_string())
        return makeError(ErrorKind::BadFile, "NB0701", name + ": post_processor: unexpected piece " + jsonExcerpt(piece));
      auto found = addedIds.find(piece["SpecialToken"]["id"].get<std::string>());
      if (found == addedIds.end())
        return makeError(ErrorKind::BadFile, "NB0701",
                         name + ": post_processor: token " + jsonExcerpt(piece["SpecialToken"]["id"]) + " is not an added token");
      (seen ? suffix : prefix).push_back(found->second);
    }
    return {};
  }
  return makeError(ErrorKind::Unsupported, "NB0702", name + ": post_processor " + jsonExcerpt(json) + " is not supported");
}

Status Tokenizer::Impl::readDecoder(const Json &json) {
  std::string type = typeOf(json);
  if (type == "ByteLevel")
    return {};
  if (type == "Sequence" && json.contains("decoders") && json["decoders"].is_array()) {
    for (const Json &entry : json["decoders"])
      NINFER_RETURN_IF_ERROR(readDecoder(entry));
    return {};
  }
  return makeError(ErrorKind::Unsupported, "NB0702",
                   name + ": decoder " + jsonExcerpt(json) + " is not supported, only ByteLevel");
}

Result<Tokenizer> Tokenizer::fromJson(std::string_view text, const std::string &name) {
  NINFER_ASSIGN_OR_RETURN(Json json, parseStrictJson(text, name, "NB0701"));
  if (!json.is_object() || !json.contains("model"))
    return makeError(ErrorKind::BadFile, "NB0701", name + ": expected an object with a model member");
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  NINFER_ASSIGN_OR_RETURN(impl->bpe, Bpe::fromJson(json["model"], name));
  impl->size = impl->bpe.maxId() + 1;
  auto member = [&](const char *key) { return json.contains(key) ? json[key] : Json(); };
  NINFER_ASSIGN_OR_RETURN(impl->normalizer, Normalizer::fromJson(member("normalizer"), name));
  NINFER_ASSIGN_OR_RETURN(impl->preTokenizer, PreTokenizer::fromJson(member("pre_tokenizer"), name));
  if (Json added = member("added_tokens"); added.is_array())
    NINFER_RETURN_IF_ERROR(impl->readAdded(added));
  NINFER_RETURN_IF_ERROR(impl->readPostProcessor(member("post_processor")));
  NINFER_RETURN_IF_ERROR(impl->readDecoder(member("decoder")));
  return Tokenizer(std::move(impl));
}

Status Tokenizer::Impl::encodePlain(std::string_view text, std::vector<int32_t> &out) const {
  NINFER_ASSIGN_OR_RETURN(std::vector<std::string> pieces, preTokenizer.apply(std::string(text)));
  for (const std::string &piece : pieces)
    NINFER_RETURN_IF_ERROR(bpe.encodePiece(piece, out));
  return {};
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, const EncodeOptions &options) const {
  if (std::optional<size_t> bad = findInvalidUtf8(text))
    return makeError(ErrorKind::Usage, "NB0704", "text is not valid UTF-8 at byte " + std::to_string(*bad));
  std::vector<int32_t> out;
  if (options.addSpecial)
    out = impl_->prefix;
  std::vector<Stretch> stretches;
  impl_->raw.split(text, options.parseSpecial, stretches);
  for (const Stretch &s : stretches) {
    if (s.id >= 0) {
      out.push_back(s.id);
      continue;
    }
    NINFER_ASSIGN_OR_RETURN(std::string plain, impl_->normalizer.apply(s.text));
    std::vector<Stretch> inner;
    impl_->normalized.split(plain, options.parseSpecial, inner);
    for (const Stretch &i : inner) {
      if (i.id >= 0)
        out.push_back(i.id);
      else
        NINFER_RETURN_IF_ERROR(impl_->encodePlain(i.text, out));
    }
  }
  if (options.addSpecial)
    out.insert(out.end(), impl_->suffix.begin(), impl_->suffix.end());
  return out;
}

std::string Tokenizer::tokenBytes(int32_t id) const {
  auto added = impl_->added.find(id);
  if (added != impl_->added.end())
    return added->second.content;
  const std::string *bytes = impl_->bpe.bytes(id);
  return bytes ? *bytes : std::string();
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skipSpecial) const {
  std::string bytes;
  for (int32_t id : ids)
    if (!skipSpecial || !isSpecial(id))
      bytes += tokenBytes(id);
  return replaceInvalidUtf8(bytes);
}

int32_t Tokenizer::size() const { return impl_->size; }

bool Tokenizer::isSpecial(int32_t id) const {
  auto added = impl_->added.find(id);
  return added != impl_->added.end() && added->second.special;
}

std::optional<int32_t> Tokenizer::find(std::string_view token) const {
  auto added = impl_->addedIds.find(std::string(token));
  if (added != impl_->addedIds.end())
    return added->second;
  return impl_->bpe.findSpelling(token);
}

std::string StreamDecoder::push(int32_t id) {
  if (!skipSpecial_ || !tokenizer_.isSpecial(id))
    pending_ += tokenizer_.tokenBytes(id);
  size_t ready = completeUtf8Prefix(pending_);
  std::string out = replaceInvalidUtf8(std::string_view(pending_).substr(0, ready));
  pending_.erase(0, ready);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out = replaceInvalidUtf8(pending_);
  pending_.clear();
  return out;
}

} // namespace ninfer
