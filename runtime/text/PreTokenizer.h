// Normalisation and pre-tokenization as a tokenizer.json describes them: text in, pieces for the model out.
#ifndef NINFER_RUNTIME_TEXT_PRETOKENIZER_H
#define NINFER_RUNTIME_TEXT_PRETOKENIZER_H

#include "runtime/text/Regex.h"
#include "support/Json.h"
#include "support/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// Unicode normal forms and lower case, applied in order.
class Normalizer {
public:
  static Result<Normalizer> fromJson(const Json &json, const std::string &name);
  Result<std::string> apply(std::string_view text) const;

private:
  enum class Step { Nfc, Nfd, Nfkc, Nfkd, Lowercase };
  std::vector<Step> steps_;
};

class PreTokenizer {
public:
  static Result<PreTokenizer> fromJson(const Json &json, const std::string &name);
  /// Pieces of one stretch of text, in order. Together they hold every byte that no Split removed.
  Result<std::vector<std::string>> apply(std::string text) const;

private:
  enum class Behavior { Isolated, Removed, MergedWithPrevious, MergedWithNext };
  struct Step {
    Regex pattern;
    Behavior behavior = Behavior::Isolated;
    bool invert = false;
    bool addPrefixSpace = false; ///< done before splitting
  };
  Status append(const Json &json, const std::string &name);
  static Result<std::vector<std::string>> split(const Step &step, const std::string &text);

  std::vector<Step> steps_;
};

} // namespace ninfer

#endif // NINFER_RUNTIME_TEXT_PRETOKENIZER_H
