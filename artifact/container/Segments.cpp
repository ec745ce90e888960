#include "artifact/container/Segments.h"

#include "artifact/container/Limits.h"
#include "support/Checked.h"

#include <algorithm>

namespace ninfer {

namespace {

constexpr uint64_t kEntryHeaderBytes = 32;
constexpr uint64_t kPage = 4096;

Error refuse(uint64_t limit, const std::string &why) {
  return makeError(ErrorKind::Usage, "NB0111",
                   "a file size of at most " + std::to_string(limit) + " bytes: " + why);
}

} // namespace

Result<Segmentation>
segmentPayload(uint64_t payloadBytes, std::optional<uint64_t> maxFileBytes,
               const std::function<std::string(size_t)> &partName,
               const std::function<Result<std::string>(const std::vector<FileEntry> &)> &encode) {
  Segmentation out;
  out.files = {FileEntry{std::nullopt, payloadBytes}};
  NINFER_ASSIGN_OR_RETURN(out.text, encode(out.files));
  // A text has far fewer than 2^64 - 4128 bytes.
  const auto room = [](const std::string &text) {
    return *checkedAlignUp(kEntryHeaderBytes + text.size(), kPage) - kEntryHeaderBytes;
  };
  out.jsonBytes = room(out.text);
  if (!maxFileBytes)
    return out;
  const uint64_t limit = *maxFileBytes;
  for (;;) {
    const uint64_t start = kEntryHeaderBytes + out.jsonBytes;
    if (start >= limit)
      return refuse(limit, "header and directory alone take " + std::to_string(start));
    if (payloadBytes <= limit - start) {
      out.files = {FileEntry{std::nullopt, payloadBytes}};
    } else {
      const uint64_t entryCap = (limit - start) / kPage * kPage;
      const uint64_t partCap = limit < kPage ? 0 : (limit - kPage) / kPage * kPage;
      if (entryCap == 0 || partCap == 0)
        return refuse(limit, "no room for a page of payload behind header and directory, which "
                             "take " +
                                 std::to_string(start) + " (entry) and 4096 (parts)");
      const uint64_t parts = ceilDiv(payloadBytes - entryCap, partCap);
      if (parts > kMaxFiles - 1)
        return refuse(limit, "the payload of " + std::to_string(payloadBytes) + " bytes needs " +
                                 std::to_string(parts) + " parts, at most " +
                                 std::to_string(kMaxFiles - 1) + " are allowed");
      out.files = {FileEntry{std::nullopt, entryCap}};
      uint64_t rest = payloadBytes - entryCap;
      for (size_t i = 1; rest > 0; ++i) {
        const uint64_t bytes = std::min(rest, partCap);
        out.files.push_back({partName(i), bytes});
        rest -= bytes;
      }
    }
    NINFER_ASSIGN_OR_RETURN(out.text, encode(out.files));
    if (out.text.size() <= out.jsonBytes)
      return out;
    out.jsonBytes = room(out.text);
  }
}

} // namespace ninfer
