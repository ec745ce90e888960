// What a conversion did to the values of one tensor: the vocabulary of planner, importers and
// report.
#ifndef NINFER_CONVERT_PROVENANCE_H
#define NINFER_CONVERT_PROVENANCE_H

#include <cstdint>
#include <string_view>

namespace ninfer {

/// What happened to the values of a tensor. Only Converted changes any.
enum class Provenance : uint8_t {
  Preserved,       ///< the stored words are the source's words
  WidenedExactly,  ///< other or wider words, equal values
  NarrowedExactly, ///< narrower words whose values all fit
  Converted        ///< rounded or encoded anew
};
/// "preserved", "widened exactly", "narrowed exactly", "converted".
std::string_view provenanceText(Provenance provenance);

} // namespace ninfer

#endif // NINFER_CONVERT_PROVENANCE_H
