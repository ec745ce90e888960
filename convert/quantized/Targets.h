// Which modules of a model a quantization config means: names, class names and regular expressions
// as the compressed-tensors library matches them. Patterns are hostile input: their number, length
// and the work of one match are bounded.
#ifndef NINFER_CONVERT_QUANTIZED_TARGETS_H
#define NINFER_CONVERT_QUANTIZED_TARGETS_H

#include "convert/quantized/Import.h"

#include <memory>
#include <string>
#include <vector>

namespace ninfer {

inline constexpr size_t kMaxPatterns = 256;       ///< "re:" entries of one list
inline constexpr size_t kMaxTargets = 65536;      ///< entries of one list
inline constexpr size_t kMaxPatternBytes = 4096;

/// A list of targets. An entry is either "re:" and a regular expression, which must match from the
/// start of the module's name (and may end before the name does), or a text that equals the
/// module's name or the name of one of its classes.
class TargetList {
public:
  /// `value` is an array of strings; null is an empty list. `where` starts messages: BadFile
  /// (NB0323: not strings, too many; NB0328: an expression PCRE2 refuses or too long).
  static Result<TargetList> parse(const Json &value, const std::string &where);

  /// The entry that matches, in list order, or null. NB0328 when an expression needs more steps
  /// than allowed.
  Result<const std::string *> match(const SourceModule &module) const;
  bool empty() const { return entries_.empty(); }

  TargetList();
  TargetList(TargetList &&) noexcept;
  TargetList &operator=(TargetList &&) noexcept;
  ~TargetList();

private:
  struct Expression;
  struct Entry {
    std::string text;
    std::unique_ptr<Expression> expression; ///< null for a plain name
  };
  std::vector<Entry> entries_;
  std::string where_;
};

} // namespace ninfer

#endif // NINFER_CONVERT_QUANTIZED_TARGETS_H
