// The logical payload as memory: one file mapped as it is, or the segments of several files side by
// side in one reserved address range. Part files are opened, checked and mapped when a byte in them
// is first needed. Rules of parts: docs/container.md, section "Parts".
#ifndef NINFER_ARTIFACT_CONTAINER_PAYLOADMAP_H
#define NINFER_ARTIFACT_CONTAINER_PAYLOADMAP_H

#include "artifact/container/Directory.h"
#include "support/File.h"
#include "support/Status.h"

#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <vector>

namespace ninfer {

class PayloadMap {
public:
  /// Maps the entry file as a whole (NB0901, NB0902).
  static Result<std::unique_ptr<PayloadMap>> open(const std::filesystem::path &entryPath,
                                                  const std::filesystem::path &shownEntry);
  ~PayloadMap();
  PayloadMap(const PayloadMap &) = delete;
  PayloadMap &operator=(const PayloadMap &) = delete;

  std::span<const std::byte> entry() const { return entry_.bytes(); }

  /// Says where the payload lies; to be called once. `payloadOffset` is that of segment 0 in the
  /// entry, whose length was checked by the caller; `partPaths` as in Artifact::open. Touches no
  /// part file. NB0902 when the address range is not to be had.
  Status setPayload(const Directory &directory, uint64_t payloadOffset,
                    std::vector<std::filesystem::path> partPaths);

  /// Bytes of the logical payload; the range must lie in it. Opens the parts it touches. Errors as
  /// in Artifact::object. Calls may run in parallel.
  Result<std::span<const std::byte>> range(uint64_t offset, uint64_t bytes);

  uint64_t copiedBytes();
  void advise(MappedFile::Access access);
  void release();

private:
  PayloadMap() = default;

  struct Segment {
    uint64_t begin = 0, end = 0;         ///< in the logical payload
    std::filesystem::path path;          ///< of the file, for opening and messages
    uint64_t fileOffset = 0;             ///< of `begin` in it
    bool opened = false;                 ///< checked, and mapped as far as it can be
    uint64_t mapped = 0;                 ///< bytes from `begin` that are mapped
    OpenedFile file;                     ///< while some bytes still have to be copied
    std::map<uint64_t, uint64_t> filled; ///< copied bytes: begin -> end, disjoint
  };

  Status openSegment(size_t index);
  Result<OpenedFile> openPart(size_t index) const;
  Status mapSegment(size_t index, OpenedFile file);
  Status fill(Segment &segment, uint64_t begin, uint64_t end);
  std::byte *address(uint64_t offset) const { return range_ + lead_ + offset; }

  std::mutex mutex_;
  std::filesystem::path entryPath_, shownEntry_;
  OpenedFile entryFile_; ///< several files only, until segment 0 is mapped
  MappedFile entry_;
  uint64_t payloadOffset_ = 0;
  std::array<uint8_t, 16> artifactId_{};
  bool givenPaths_ = false; ///< part paths were given: no rule about their folder
  std::filesystem::path folder_, realFolder_, realEntryFolder_;
  std::vector<Segment> segments_; ///< several files only
  uint64_t copiedBytes_ = 0;
  std::byte *range_ = nullptr; ///< reserved addresses, several files only
  uint64_t rangeBytes_ = 0;
  uint64_t lead_ = 0; ///< range bytes before payload byte 0, so that segment 0 can be mapped
};

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_PAYLOADMAP_H
