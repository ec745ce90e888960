#include "artifact/container/PayloadMap.h"

#include "support/Bytes.h"
#include "support/Checked.h"
#include "support/Sha256.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace ninfer {

namespace {

constexpr uint64_t kPartHeaderBytes = 32;
constexpr uint64_t kPartPayloadOffset = 4096;
constexpr std::string_view kPartMagic("NINPRT\0\x03", 8);
/// Segments up to this size are copied whole, so that they need no descriptor afterwards.
constexpr uint64_t kCopyWhole = uint64_t(4) << 20;

uint64_t pageSize() {
  static const auto size = uint64_t(sysconf(_SC_PAGESIZE));
  return size;
}

Error cannotMap(const std::filesystem::path &path, uint64_t bytes, int code) {
  return makeError(code == ENOMEM ? ErrorKind::OutOfMemory : ErrorKind::BadFile, "NB0902",
                   path.string() + ": cannot map " + std::to_string(bytes) +
                       " bytes: " + std::strerror(code));
}

int adviceOf(MappedFile::Access access) {
  switch (access) {
  case MappedFile::Access::Sequential:
    return MADV_SEQUENTIAL;
  case MappedFile::Access::Random:
    return MADV_RANDOM;
  case MappedFile::Access::WillNeed:
    return MADV_WILLNEED;
  case MappedFile::Access::HugePages:
    return MADV_HUGEPAGE;
  case MappedFile::Access::Normal:
    break;
  }
  return MADV_NORMAL;
}

} // namespace

Result<std::unique_ptr<PayloadMap>> PayloadMap::open(const std::filesystem::path &entryPath,
                                                     const std::filesystem::path &shownEntry) {
  std::unique_ptr<PayloadMap> map(new PayloadMap());
  map->entryPath_ = entryPath;
  map->shownEntry_ = shownEntry;
  NINFER_ASSIGN_OR_RETURN(map->entryFile_, OpenedFile::open(entryPath));
  NINFER_ASSIGN_OR_RETURN(map->entry_, MappedFile::map(map->entryFile_, shownEntry));
  return map;
}

PayloadMap::~PayloadMap() {
  if (range_)
    munmap(range_, rangeBytes_);
}

Status PayloadMap::setPayload(const Directory &directory, uint64_t payloadOffset,
                              std::vector<std::filesystem::path> partPaths) {
  payloadOffset_ = payloadOffset;
  artifactId_ = directory.artifactId;
  const std::vector<FileEntry> &files = directory.files;
  if (files.size() == 1) {
    entryFile_.close();
    return {};
  }
  givenPaths_ = !partPaths.empty();
  if (givenPaths_ && partPaths.size() + 1 != files.size())
    return makeError(ErrorKind::Failed, "NB0110",
                     shownEntry_.string() + ": " + std::to_string(partPaths.size()) +
                         " part paths given, the artifact has " + std::to_string(files.size() - 1));
  std::error_code ignored; // an empty result matches no folder
  folder_ = shownEntry_.parent_path();
  realFolder_ = std::filesystem::canonical(
      std::filesystem::absolute(entryPath_, ignored).parent_path(), ignored);
  realEntryFolder_ = std::filesystem::canonical(entryPath_, ignored).parent_path();
  uint64_t begin = 0;
  for (size_t i = 0; i < files.size(); ++i) { // the total was checked by the directory gates
    Segment segment;
    segment.begin = begin;
    segment.end = begin += files[i].payloadBytes;
    segment.path = i == 0 ? shownEntry_ : givenPaths_ ? partPaths[i - 1] : folder_ / *files[i].path;
    segment.fileOffset = i == 0 ? payloadOffset : kPartPayloadOffset;
    segments_.push_back(std::move(segment));
  }
  lead_ = payloadOffset % pageSize();
  const auto bytes = checkedAdd(begin, lead_);
  const auto rounded = bytes ? checkedAlignUp(*bytes, pageSize()) : std::nullopt;
  // The largest address space of the supported machines; no honest file set comes near it.
  constexpr uint64_t kMostBytes = uint64_t(1) << 46;
  if (!rounded || *rounded > kMostBytes)
    return makeError(ErrorKind::BadFile, "NB0103",
                     shownEntry_.string() + ": the files claim " + std::to_string(begin) +
                         " payload bytes, expected at most " + std::to_string(kMostBytes));
  void *range =
      mmap(nullptr, *rounded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    return cannotMap(shownEntry_, begin, errno);
  range_ = static_cast<std::byte *>(range);
  rangeBytes_ = *rounded;
  return {};
}

Result<std::span<const std::byte>> PayloadMap::range(uint64_t offset, uint64_t bytes) {
  if (segments_.empty())
    return entry_.bytes().subspan(payloadOffset_ + offset, bytes);
  if (bytes == 0)
    return std::span<const std::byte>();
  const std::lock_guard lock(mutex_);
  const uint64_t end = offset + bytes;
  auto at = std::upper_bound(segments_.begin(), segments_.end(), offset,
                             [](uint64_t value, const Segment &s) { return value < s.end; });
  for (; at != segments_.end() && at->begin < end; ++at) {
    NINFER_RETURN_IF_ERROR(openSegment(size_t(at - segments_.begin())));
    NINFER_RETURN_IF_ERROR(
        fill(*at, std::max(offset, at->begin + at->mapped), std::min(end, at->end)));
  }
  return std::span<const std::byte>(address(offset), bytes);
}

Status PayloadMap::openSegment(size_t index) {
  if (segments_[index].opened)
    return {};
  if (index == 0)
    return mapSegment(index, std::move(entryFile_));
  NINFER_ASSIGN_OR_RETURN(OpenedFile part, openPart(index));
  return mapSegment(index, std::move(part));
}

Result<OpenedFile> PayloadMap::openPart(size_t index) const {
  const Segment &segment = segments_[index];
  const std::string what =
      segment.path.string() + ": part " + std::to_string(index) + " of " + shownEntry_.string();
  const auto refuse = [&](const std::string &why) {
    return makeError(ErrorKind::BadFile, "NB0110", what + ": " + why);
  };
  std::filesystem::path real = segment.path;
  if (!givenPaths_) {
    const std::filesystem::path path = realFolder_ / segment.path.filename();
    std::error_code code;
    real = std::filesystem::canonical(path, code);
    if (code == std::errc::no_such_file_or_directory) {
      Status status = makeError(ErrorKind::BadFile, "NB0901", what + ": missing");
      return std::move(status.help("the parts of an artifact lie beside its entry file, under "
                                   "the names in its directory"));
    }
    if (code)
      return makeError(ErrorKind::BadFile, "NB0901", what + ": cannot open: " + code.message());
    // A hub cache links both the entry and its parts to one folder of blobs.
    if (real.parent_path() != realFolder_ && real.parent_path() != realEntryFolder_)
      return refuse("a link to '" + real.string() + "', outside the folder of the entry");
  }
  Result<OpenedFile> opened = OpenedFile::open(real, givenPaths_);
  if (!opened.ok())
    return makeError(ErrorKind::BadFile, opened.error().code, what + ": " + opened.error().message);
  OpenedFile file = opened.take();
  char header[kPartHeaderBytes];
  if (file.size() < sizeof header)
    return refuse("too short: expected at least 32 bytes of header, got " +
                  std::to_string(file.size()));
  NINFER_RETURN_IF_ERROR(file.readAt(0, std::as_writable_bytes(std::span(header)), segment.path));
  if (std::memcmp(header, kPartMagic.data(), kPartMagic.size()) != 0)
    return refuse(std::memcmp(header, "NINFER\0", 7) == 0
                      ? "an entry file, expected a part (wrong magic)"
                      : "not a part of a .ninfer artifact (wrong magic)");
  if (const uint64_t stored = loadLe64(header + 8); stored != index)
    return refuse("wrong part: expected index " + std::to_string(index) + ", got " +
                  std::to_string(stored));
  if (std::memcmp(header + 16, artifactId_.data(), artifactId_.size()) != 0)
    return refuse("part of another artifact: expected id " + toHex(artifactId_) + ", got " +
                  toHex(std::span(reinterpret_cast<const uint8_t *>(header) + 16, 16)));
  const auto expected = checkedAdd(kPartPayloadOffset, segment.end - segment.begin);
  if (!expected || file.size() != *expected)
    return refuse(std::string("too ") + (expected && file.size() > *expected ? "long" : "short") +
                  ": expected " + (expected ? std::to_string(*expected) : "more than 2^64-1") +
                  " bytes (4096 + payload_bytes " + std::to_string(segment.end - segment.begin) +
                  "), got " + std::to_string(file.size()));
  return file;
}

Status PayloadMap::mapSegment(size_t index, OpenedFile file) {
  Segment &segment = segments_[index];
  const uint64_t page = pageSize();
  const uint64_t begin = lead_ + segment.begin, end = lead_ + segment.end; // in the range
  const bool last = index + 1 == segments_.size();
  // A page of the range can show one file only. What shares a page with another file is copied; so
  // is a whole segment whose pages do not lie as the file's do.
  const bool fits = begin % page == segment.fileOffset % page && (index == 0 || begin % page == 0);
  const uint64_t mapEnd = !fits ? begin : last ? end : end / page * page;
  if (mapEnd > begin) {
    const uint64_t skip = begin % page; // segment 0 only; the range has room before it
    void *wanted = range_ + (begin - skip);
    if (mmap(wanted, mapEnd - begin + skip, PROT_READ, MAP_SHARED | MAP_FIXED, file.descriptor(),
             off_t(segment.fileOffset - skip)) != wanted)
      return cannotMap(segment.path, mapEnd - begin, errno);
  }
  const uint64_t copyBegin = std::max(begin, mapEnd);
  if (copyBegin < end) {
    const uint64_t first = copyBegin / page * page;
    if (mprotect(range_ + first, ceilDiv(end, page) * page - first, PROT_READ | PROT_WRITE) != 0)
      return cannotMap(segment.path, end - copyBegin, errno);
  }
  segment.mapped = copyBegin - begin;
  segment.file = std::move(file);
  segment.opened = true;
  if (segment.end - segment.begin - segment.mapped <= kCopyWhole)
    return fill(segment, segment.begin + segment.mapped, segment.end);
  return {};
}

Status PayloadMap::fill(Segment &segment, uint64_t begin, uint64_t end) {
  // Only what is missing is written: other bytes may be in use.
  while (begin < end) {
    auto next = segment.filled.upper_bound(begin);
    if (next != segment.filled.begin()) {
      const auto previous = std::prev(next);
      if (previous->second > begin) {
        begin = previous->second;
        continue;
      }
    }
    const uint64_t stop = next == segment.filled.end() ? end : std::min(end, next->first);
    NINFER_RETURN_IF_ERROR(segment.file.readAt(segment.fileOffset + (begin - segment.begin),
                                               std::span(address(begin), stop - begin),
                                               segment.path));
    segment.filled.emplace(begin, stop);
    copiedBytes_ += stop - begin;
    begin = stop;
  }
  uint64_t filled = segment.mapped;
  for (const auto &[from, to] : segment.filled)
    filled += to - from;
  if (filled == segment.end - segment.begin)
    segment.file.close();
  return {};
}

uint64_t PayloadMap::copiedBytes() {
  const std::lock_guard lock(mutex_);
  return copiedBytes_;
}

void PayloadMap::advise(MappedFile::Access access) {
  if (segments_.empty())
    return entry_.advise(access);
  const std::lock_guard lock(mutex_);
  for (const Segment &segment : segments_)
    if (segment.mapped)
      madvise(address(segment.begin) - (lead_ + segment.begin) % pageSize(), segment.mapped,
              adviceOf(access));
}

void PayloadMap::release() {
  entry_.release();
  const std::lock_guard lock(mutex_);
  for (const Segment &segment : segments_)
    if (segment.mapped) // copied pages would come back as zeros
      madvise(address(segment.begin) - (lead_ + segment.begin) % pageSize(), segment.mapped,
              MADV_DONTNEED);
}

} // namespace ninfer
