#include "codegen/cpu/Tuning.h"

#include "codegen/cpu/kernels/MicroKernels.h"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace ninfer {
namespace {

struct Field {
  std::string_view name;
  int64_t CpuTuning::*member;
  int64_t least, most, multiple;
};

constexpr Field kFields[] = {{"row_block", &CpuTuning::rowBlock, 16, 4096, 16},
                             {"output_block", &CpuTuning::outputBlock, kMicroPanelRows, 4096, kMicroPanelRows},
                             {"stream_block", &CpuTuning::streamBlock, 0, 65536, 16}};
constexpr size_t kDigestDigits = 32;

/// Words between blanks, up to a '#'.
std::vector<std::string_view> wordsOf(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != line.npos;) {
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

/// Sets one "name=value"; the empty string, or the rule that is broken.
std::string setField(std::string_view word, CpuTuning &tuning, std::vector<std::string_view> &seen) {
  const size_t eq = word.find('=');
  const std::string_view name = word.substr(0, eq), value = eq == word.npos ? "" : word.substr(eq + 1);
  for (const Field &field : kFields) {
    if (field.name != name)
      continue;
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return "'" + std::string(name) + "' is given twice";
    seen.push_back(field.name);
    int64_t number = -1;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (value.empty() || error != std::errc() || end != value.data() + value.size() || number < field.least ||
        number > field.most || number % field.multiple != 0)
      return std::string(name) + ": expected a multiple of " + std::to_string(field.multiple) + " from " +
             std::to_string(field.least) + " to " + std::to_string(field.most) + ", got '" + std::string(value) + "'";
    tuning.*field.member = number;
    return {};
  }
  return "unknown choice '" + std::string(name) + "'";
}

std::string parseEntry(const std::vector<std::string_view> &words, TuningEntry &entry) {
  if (words.size() != 3 + std::size(kFields))
    return "expected target, kernel, digest and " + std::to_string(std::size(kFields)) + " choices, got " +
           std::to_string(words.size()) + " words";
  entry.target = words[0];
  entry.kernel = words[1];
  entry.digest = words[2];
  if (entry.digest.size() != kDigestDigits || entry.digest.find_first_not_of("0123456789abcdef") != std::string::npos)
    return "'" + entry.digest + "' is no digest of " + std::to_string(kDigestDigits) + " hexadecimal digits";
  std::vector<std::string_view> seen;
  for (size_t i = 3; i < words.size(); ++i)
    if (std::string why = setField(words[i], entry.tuning, seen); !why.empty())
      return why;
  return {};
}

} // namespace

std::string tuningText(const CpuTuning &tuning) {
  std::string text;
  for (const Field &field : kFields)
    text += (text.empty() ? "" : " ") + std::string(field.name) + "=" + std::to_string(tuning.*field.member);
  return text;
}

void TuningTable::add(TuningEntry entry) {
  auto key = std::make_pair(entry.target, entry.digest);
  entries_.insert_or_assign(std::move(key), std::move(entry));
}

const TuningEntry *TuningTable::find(const std::string &target, const std::string &digest) const {
  const auto it = entries_.find({target, digest});
  return it == entries_.end() ? nullptr : &it->second;
}

std::string TuningTable::render() const {
  return std::string(kTuningMagic) + "\n# target, kernel, digest of its request, choices (docs/tuning.md)\n" + renderWith(true);
}

std::string TuningTable::renderChoices() const { return renderWith(false); }

std::string TuningTable::renderWith(bool comments) const {
  std::vector<const TuningEntry *> order;
  for (const auto &[key, entry] : entries_)
    order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const TuningEntry *a, const TuningEntry *b) {
    return std::tie(a->target, a->kernel, a->digest) < std::tie(b->target, b->kernel, b->digest);
  });
  std::string text;
  for (const TuningEntry *entry : order)
    text += entry->target + " " + entry->kernel + " " + entry->digest + " " + tuningText(entry->tuning) +
            (comments && !entry->comment.empty() ? " # " + entry->comment : "") + "\n";
  return text;
}

Result<TuningTable> TuningTable::parse(std::string_view text, const std::string &name) {
  TuningTable table;
  size_t number = 0;
  for (size_t at = 0; at < text.size() || number == 0; ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const auto broken = [&](const std::string &why) {
      return makeError(ErrorKind::BadFile, "NB0541", name + ": line " + std::to_string(number + 1) + ": " + why);
    };
    if (number == 0) {
      if (line != kTuningMagic)
        return broken("expected '" + std::string(kTuningMagic) + "', this is no tuning file of this version");
      continue;
    }
    const std::vector<std::string_view> words = wordsOf(line);
    if (words.empty())
      continue;
    TuningEntry entry;
    if (const size_t note = line.find('#'); note != line.npos)
      entry.comment = line.substr(std::min(line.find_first_not_of(" \t", note + 1), line.size()));
    if (std::string why = parseEntry(words, entry); !why.empty())
      return broken(why);
    if (table.find(entry.target, entry.digest))
      return broken("a second entry for " + entry.kernel + " on " + entry.target);
    table.add(std::move(entry));
  }
  return table;
}

} // namespace ninfer
