// Everything about one object: place, planes, padding, who uses it, where it comes from, and
// statistics of its words.
#ifndef NINFER_INSPECT_SHOW_H
#define NINFER_INSPECT_SHOW_H

#include "inspect/ObjectWords.h"
#include "support/Json.h"

#include <functional>
#include <string>

namespace ninfer {

/// Statistics of the words of one tensor. Ranges cover finite values; they are empty (least >
/// largest) when there is none.
struct ObjectStatistics {
  struct Range {
    double least = 1, largest = 0;
    bool empty() const { return least > largest; }
    void add(double value) {
      const bool first = empty(); // before either end changes
      least = first || value < least ? value : least;
      largest = first || value > largest ? value : largest;
    }
    void join(const Range &other) {
      if (!other.empty()) {
        add(other.least);
        add(other.largest);
      }
    }
  };
  uint64_t elements = 0;
  uint64_t zeroCodes = 0; ///< codes that mean zero; -0 of the float words included
  uint64_t nan = 0, infinite = 0;
  uint64_t scales = 0, zeroScales = 0;
  Range values;
  Range codes; ///< grouped integer formats only
  Range scaleValues;
};

/// Reads every word, on `threads` threads. The result does not depend on their number.
Result<ObjectStatistics> objectStatistics(const ObjectWords &words, unsigned threads,
                                          const std::function<void(uint64_t)> &onBytes = {});

/// `index` is an object of the artifact. Reads all of it, for statistics and SHA-256.
Result<Json> showJson(const Artifact &artifact, size_t index, unsigned threads);
/// The same as a page.
std::string showText(const Json &object);

} // namespace ninfer

#endif // NINFER_INSPECT_SHOW_H
