// What the encoders of this folder share: argument checks and the wording of their errors. No
// arithmetic.
#ifndef NINFER_ARTIFACT_FORMATS_ENCODECHECKS_H
#define NINFER_ARTIFACT_FORMATS_ENCODECHECKS_H

#include "artifact/formats/Format.h"
#include "support/Status.h"

#include <cstdio>
#include <string>

namespace ninfer::encode_checks {

inline Status groupedArguments(Format format, size_t k, size_t codes, size_t scales) {
  const FormatInfo &info = formatInfo(format);
  if (info.category != FormatCategory::GroupedInteger)
    return makeError(ErrorKind::Failed, "NB0205",
                     std::string(info.canonical) +
                         ": not a grouped integer format, no canonical encoder");
  const size_t groups = (k + info.groupSize - 1) / info.groupSize;
  if (k == 0 || codes != k || scales != groups)
    return makeError(ErrorKind::Failed, "NB0205",
                     std::string(info.canonical) + ": row of " + std::to_string(k) +
                         " values needs " + std::to_string(k) + " codes and " +
                         std::to_string(groups) + " scales, got " + std::to_string(codes) +
                         " and " + std::to_string(scales));
  return {};
}

inline Status nonFiniteSource(std::string_view format, size_t element, uint32_t bits) {
  char word[16];
  std::snprintf(word, sizeof word, "0x%08x", bits);
  return makeError(ErrorKind::BadFile, "NB0206",
                   std::string(format) + ": source element " + std::to_string(element) +
                       " is not finite (binary32 " + word + ")");
}

inline Status scaleOverflow(std::string_view format, size_t group, uint32_t amaxBits) {
  char word[16];
  std::snprintf(word, sizeof word, "0x%08x", amaxBits);
  return makeError(
      ErrorKind::BadFile, "NB0207",
      std::string(format) + ": scale of group " + std::to_string(group) +
          " exceeds the largest binary16 value (largest source magnitude is binary32 " + word +
          ")");
}

} // namespace ninfer::encode_checks

#endif // NINFER_ARTIFACT_FORMATS_ENCODECHECKS_H
