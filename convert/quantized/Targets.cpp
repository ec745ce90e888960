#include "convert/quantized/Targets.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

namespace ninfer {

namespace {
// Backtracking one expression may do on one name, and the memory it may take for it. A name has
// some fifty bytes: honest patterns need a few hundred steps.
constexpr uint32_t kMatchLimit = 20'000;
constexpr uint32_t kDepthLimit = 2'000;
constexpr uint32_t kHeapLimitKib = 1'024;

Error badPattern(const std::string &text) { return makeError(ErrorKind::BadFile, "NB0328", text); }
} // namespace

struct TargetList::Expression {
  pcre2_code *code = nullptr;
  pcre2_match_data *data = nullptr;
  pcre2_match_context *limits = nullptr;
  ~Expression() {
    pcre2_match_context_free(limits);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
  }
};

TargetList::TargetList() = default;
TargetList::TargetList(TargetList &&) noexcept = default;
TargetList &TargetList::operator=(TargetList &&) noexcept = default;
TargetList::~TargetList() = default;

Result<TargetList> TargetList::parse(const Json &value, const std::string &where) {
  TargetList out;
  out.where_ = where;
  if (value.is_null())
    return out;
  if (!value.is_array() || value.size() > kMaxTargets)
    return makeError(ErrorKind::BadFile, "NB0323",
                     where + " must be an array of at most " + std::to_string(kMaxTargets) +
                         " strings, got " + jsonExcerpt(value));
  size_t patterns = 0;
  for (const Json &item : value) {
    Entry entry;
    NINFER_ASSIGN_OR_RETURN(entry.text, jsonIdentifier(item, where + " entry", "NB0323"));
    constexpr std::string_view kPrefix = "re:";
    if (entry.text.compare(0, kPrefix.size(), kPrefix) == 0) {
      if (++patterns > kMaxPatterns || entry.text.size() > kMaxPatternBytes)
        return badPattern(where + ": at most " + std::to_string(kMaxPatterns) +
                          " expressions of " + std::to_string(kMaxPatternBytes) + " bytes");
      std::string_view pattern = std::string_view(entry.text).substr(kPrefix.size());
      auto expression = std::make_unique<Expression>();
      int code = 0;
      PCRE2_SIZE offset = 0;
      expression->code =
          pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                        PCRE2_ANCHORED | PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code,
                        &offset, nullptr);
      if (!expression->code) {
        PCRE2_UCHAR message[256] = {};
        pcre2_get_error_message(code, message, sizeof message);
        return badPattern(where + ": expression " + jsonExcerpt(item) + ": " +
                          reinterpret_cast<const char *>(message) + " at byte " +
                          std::to_string(offset));
      }
      expression->data = pcre2_match_data_create(1, nullptr);
      expression->limits = pcre2_match_context_create(nullptr);
      if (!expression->data || !expression->limits)
        return makeError(ErrorKind::OutOfMemory, "NB0322", where + ": not enough memory");
      pcre2_set_match_limit(expression->limits, kMatchLimit);
      pcre2_set_depth_limit(expression->limits, kDepthLimit);
      pcre2_set_heap_limit(expression->limits, kHeapLimitKib);
      entry.expression = std::move(expression);
    }
    out.entries_.push_back(std::move(entry));
  }
  return out;
}

Result<const std::string *> TargetList::match(const SourceModule &module) const {
  for (const Entry &entry : entries_) {
    if (!entry.expression) {
      if (entry.text == module.name || std::find(module.classes.begin(), module.classes.end(),
                                                 entry.text) != module.classes.end())
        return &entry.text;
      continue;
    }
    const int count =
        pcre2_match(entry.expression->code, reinterpret_cast<PCRE2_SPTR>(module.name.data()),
                    module.name.size(), 0, 0, entry.expression->data, entry.expression->limits);
    if (count >= 0)
      return &entry.text;
    if (count != PCRE2_ERROR_NOMATCH)
      return badPattern(where_ + ": expression " + jsonExcerpt(Json(entry.text)) + " on '" +
                        module.name + "': more than " + std::to_string(kMatchLimit) +
                        " steps (PCRE2 error " + std::to_string(count) + ")");
  }
  return static_cast<const std::string *>(nullptr);
}

} // namespace ninfer
