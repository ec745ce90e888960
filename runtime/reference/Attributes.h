// Checked access to the attributes of a built-in: every attribute must be read, have the expected type and be
// in range; one that nobody reads is refused.
#ifndef NINFER_RUNTIME_REFERENCE_ATTRIBUTES_H
#define NINFER_RUNTIME_REFERENCE_ATTRIBUTES_H

#include "runtime/reference/Builtin.h"

#include <set>

namespace ninfer::reference {

class AttributeReader {
public:
  AttributeReader(const AttributeMap &attributes, std::string_view symbol, std::string_view kernelName)
      : attributes_(attributes), symbol_(symbol), kernelName_(kernelName) {}

  static constexpr int64_t kLargestExtent = int64_t(1) << 28;
  /// Integer in [1, limit]; the default limit keeps products of three extents inside 63 bits.
  int64_t extent(const char *name, int64_t limit = kLargestExtent);
  /// Integer in [0, kLargestExtent].
  int64_t offset(const char *name);
  /// extent(name), or `absent` when there is no such attribute.
  int64_t extentOr(const char *name, int64_t absent);
  /// Finite number.
  double number(const char *name);
  /// 0 or 1; absent means 0.
  bool flag(const char *name);
  std::string text(const char *name);
  std::vector<double> numbers(const char *name);

  /// Records a rule that spans attributes.
  void require(bool holds, const std::string &rule);
  /// The first failure, or NB0621 for an attribute that was never read.
  Status finish();

private:
  int64_t checked(const AttributeValue &value, const char *name, int64_t limit);
  const AttributeValue *find(const char *name, bool required);
  void fail(const std::string &what);

  const AttributeMap &attributes_;
  std::string symbol_;
  std::string kernelName_;
  std::set<std::string> read_;
  std::string failure_;
};

} // namespace ninfer::reference

#endif // NINFER_RUNTIME_REFERENCE_ATTRIBUTES_H
