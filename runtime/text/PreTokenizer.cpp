#include "runtime/text/PreTokenizer.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utf8proc.h>

namespace ninfer {

namespace {

// The pattern ByteLevel applies when use_regex is set (GPT-2 byte-level BPE).
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kNothing = R"((?!))"; // a step that only adds a prefix space

Error unsupported(const std::string &name, const std::string &part, const Json &value) {
  std::string text = value.dump();
  if (text.size() > 80)
    text = text.substr(0, 77) + "...";
  return makeError(ErrorKind::Unsupported, "NB0702", name + ": " + part + " " + text + " is not supported");
}

std::string typeOf(const Json &json) {
  return json.is_object() && json.contains("type") && json["type"].is_string() ? json["type"].get<std::string>() : "";
}

bool flag(const Json &json, const char *member, bool fallback) {
  return json.contains(member) && json[member].is_boolean() ? json[member].get<bool>() : fallback;
}

} // namespace

Result<Normalizer> Normalizer::fromJson(const Json &json, const std::string &name) {
  Normalizer out;
  if (json.is_null())
    return out;
  std::string type = typeOf(json);
  if (type == "Sequence" && json.contains("normalizers") && json["normalizers"].is_array()) {
    for (const Json &entry : json["normalizers"]) {
      NINFER_ASSIGN_OR_RETURN(Normalizer inner, fromJson(entry, name));
      out.steps_.insert(out.steps_.end(), inner.steps_.begin(), inner.steps_.end());
    }
    return out;
  }
  if (type == "NFC")
    out.steps_ = {Step::Nfc};
  else if (type == "NFD")
    out.steps_ = {Step::Nfd};
  else if (type == "NFKC")
    out.steps_ = {Step::Nfkc};
  else if (type == "NFKD")
    out.steps_ = {Step::Nfkd};
  else if (type == "Lowercase")
    out.steps_ = {Step::Lowercase};
  else
    return unsupported(name, "normalizer", json);
  return out;
}

Result<std::string> Normalizer::apply(std::string_view text) const {
  std::string current(text);
  for (Step step : steps_) {
    int options = UTF8PROC_STABLE;
    switch (step) {
    case Step::Nfc:
      options |= UTF8PROC_COMPOSE;
      break;
    case Step::Nfd:
      options |= UTF8PROC_DECOMPOSE;
      break;
    case Step::Nfkc:
      options |= UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
      break;
    case Step::Nfkd:
      options |= UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
      break;
    case Step::Lowercase: {
      std::string lower;
      for (size_t at = 0; at < current.size();) {
        utf8proc_int32_t c = 0;
        auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t *>(current.data()) + at,
                                       static_cast<utf8proc_ssize_t>(current.size() - at), &c);
        if (length <= 0)
          return makeError(ErrorKind::Usage, "NB0704", "text is not valid UTF-8 at byte " + std::to_string(at));
        utf8proc_uint8_t buffer[4];
        auto written = utf8proc_encode_char(utf8proc_tolower(c), buffer);
        lower.append(reinterpret_cast<char *>(buffer), static_cast<size_t>(written));
        at += static_cast<size_t>(length);
      }
      current = std::move(lower);
      continue;
    }
    }
    utf8proc_uint8_t *mapped = nullptr;
    auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(current.data()),
                               static_cast<utf8proc_ssize_t>(current.size()), &mapped,
                               static_cast<utf8proc_option_t>(options));
    std::unique_ptr<utf8proc_uint8_t, void (*)(void *)> owner(mapped, std::free);
    if (length < 0)
      return makeError(ErrorKind::Failed, "NB0703", std::string("Unicode normalisation failed: ") + utf8proc_errmsg(length));
    current.assign(reinterpret_cast<char *>(mapped), static_cast<size_t>(length));
  }
  return current;
}

Result<PreTokenizer> PreTokenizer::fromJson(const Json &json, const std::string &name) {
  PreTokenizer out;
  if (!json.is_null())
    NINFER_RETURN_IF_ERROR(out.append(json, name));
  return out;
}

Status PreTokenizer::append(const Json &json, const std::string &name) {
  std::string type = typeOf(json);
  std::string what = name + ": pre_tokenizer";
  if (type == "Sequence" && json.contains("pretokenizers") && json["pretokenizers"].is_array()) {
    for (const Json &entry : json["pretokenizers"])
      NINFER_RETURN_IF_ERROR(append(entry, name));
    return {};
  }
  if (type == "ByteLevel") {
    bool prefix = flag(json, "add_prefix_space", true), regex = flag(json, "use_regex", true);
    if (!prefix && !regex)
      return {};
    NINFER_ASSIGN_OR_RETURN(Regex pattern, Regex::compile(regex ? kByteLevelPattern : kNothing, what));
    steps_.push_back({std::move(pattern), Behavior::Isolated, false, prefix});
    return {};
  }
  if (type == "Digits") {
    bool individual = flag(json, "individual_digits", false);
    NINFER_ASSIGN_OR_RETURN(Regex pattern, Regex::compile(individual ? R"(\p{N})" : R"(\p{N}+)", what));
    steps_.push_back({std::move(pattern), Behavior::Isolated, false, false});
    return {};
  }
  if (type == "Split" && json.contains("pattern") && json["pattern"].is_object()) {
    const Json &p = json["pattern"];
    std::string source;
    if (p.contains("Regex") && p["Regex"].is_string())
      source = p["Regex"].get<std::string>();
    else if (p.contains("String") && p["String"].is_string())
      source = Regex::escape(p["String"].get<std::string>());
    else
      return unsupported(name, "pre_tokenizer pattern", p);
    std::string behavior = json.contains("behavior") && json["behavior"].is_string() ? json["behavior"].get<std::string>() : "";
    Behavior b;
    if (behavior == "Isolated")
      b = Behavior::Isolated;
    else if (behavior == "Removed")
      b = Behavior::Removed;
    else if (behavior == "MergedWithPrevious")
      b = Behavior::MergedWithPrevious;
    else if (behavior == "MergedWithNext")
      b = Behavior::MergedWithNext;
    else
      return unsupported(name, "pre_tokenizer behavior", json);
    NINFER_ASSIGN_OR_RETURN(Regex pattern, Regex::compile(source, what));
    steps_.push_back({std::move(pattern), b, flag(json, "invert", false), false});
    return {};
  }
  return unsupported(name, "pre_tokenizer", json);
}

Result<std::vector<std::string>> PreTokenizer::split(const Step &step, const std::string &text) {
  NINFER_ASSIGN_OR_RETURN(auto matches, step.pattern.findAll(text));
  // Stretches covering the whole text, each a match or not.
  struct Stretch {
    std::string text;
    bool match;
  };
  std::vector<Stretch> stretches;
  size_t at = 0;
  for (auto [begin, end] : matches) {
    if (begin > at)
      stretches.push_back({text.substr(at, begin - at), step.invert});
    stretches.push_back({text.substr(begin, end - begin), !step.invert});
    at = end;
  }
  if (at < text.size())
    stretches.push_back({text.substr(at), step.invert});

  std::vector<std::string> out;
  switch (step.behavior) {
  case Behavior::Isolated:
    for (Stretch &s : stretches)
      out.push_back(std::move(s.text));
    break;
  case Behavior::Removed:
    for (Stretch &s : stretches)
      if (!s.match)
        out.push_back(std::move(s.text));
    break;
  case Behavior::MergedWithPrevious: {
    bool previousMatch = false;
    for (Stretch &s : stretches) {
      if (s.match && !previousMatch && !out.empty())
        out.back() += s.text;
      else
        out.push_back(std::move(s.text));
      previousMatch = s.match;
    }
    break;
  }
  case Behavior::MergedWithNext: {
    bool nextMatch = false;
    for (size_t i = stretches.size(); i-- > 0;) {
      Stretch &s = stretches[i];
      if (s.match && !nextMatch && !out.empty())
        out.back().insert(0, s.text);
      else
        out.push_back(std::move(s.text));
      nextMatch = s.match;
    }
    std::reverse(out.begin(), out.end());
    break;
  }
  }
  return out;
}

Result<std::vector<std::string>> PreTokenizer::apply(std::string text) const {
  std::vector<std::string> pieces;
  if (!text.empty())
    pieces.push_back(std::move(text));
  for (const Step &step : steps_) {
    std::vector<std::string> next;
    for (std::string &piece : pieces) {
      if (step.addPrefixSpace && piece[0] != ' ')
        piece.insert(0, " ");
      NINFER_ASSIGN_OR_RETURN(std::vector<std::string> parts, split(step, piece));
      for (std::string &part : parts)
        next.push_back(std::move(part));
    }
    pieces = std::move(next);
  }
  return pieces;
}

} // namespace ninfer
