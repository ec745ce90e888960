// Files: read-only mapping, bounded reads, and atomic publication of a new file.
#ifndef NINFER_SUPPORT_FILE_H
#define NINFER_SUPPORT_FILE_H

#include "support/Status.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace ninfer {

/// A regular file opened for reading, and its length when it was opened.
class OpenedFile {
public:
  /// BadFile NB0901: cannot open, or not a regular file. `followLink` = false refuses a path whose
  /// last component is a symbolic link.
  static Result<OpenedFile> open(const std::filesystem::path &path, bool followLink = true);

  OpenedFile() = default;
  OpenedFile(OpenedFile &&other) noexcept;
  OpenedFile &operator=(OpenedFile &&other) noexcept;
  ~OpenedFile() { close(); }

  bool isOpen() const { return fd_ >= 0; }
  int descriptor() const { return fd_; }
  uint64_t size() const { return size_; }
  void close();
  /// Fills `out` from file offset `offset`. BadFile NB0903: the system's reason, or the file ends
  /// before (`path` is for the message).
  Status readAt(uint64_t offset, std::span<std::byte> out, const std::filesystem::path &path) const;

private:
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// A regular file mapped read-only. Pages are read on first access; nothing is copied. The file
/// must not be truncated by others while it is mapped (the system answers access beyond the new end
/// with SIGBUS).
class MappedFile {
public:
  /// Fails with BadFile (NB0901 cannot open or not a regular file, NB0902 cannot map).
  static Result<MappedFile> open(const std::filesystem::path &path);
  /// The whole of an opened file, which may be closed afterwards (NB0902; `path` is for messages).
  static Result<MappedFile> map(const OpenedFile &file, const std::filesystem::path &path);

  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  uint64_t size() const { return size_; }

  enum class Access {
    Normal,
    Sequential,
    Random,
    WillNeed,
    HugePages, ///< what is read from now on comes in huge pages, where the file system has them
  };
  /// Hint for the page cache; failures are ignored.
  void advise(Access access) const;
  /// Lets the system drop the resident pages; they are read again on the next access. A reader that
  /// goes once through a file larger than it wants to keep in memory calls this now and then.
  void release() const;

private:
  const std::byte *data_ = nullptr;
  size_t size_ = 0;
};

/// Whole content of a regular file of at most `maxBytes` bytes (NB0901, NB0903).
Result<std::string> readFile(const std::filesystem::path &path, uint64_t maxBytes = uint64_t(1)
                                                                                    << 32);

/// A file that appears under its final name only when complete. The bytes go to an unnamed file in
/// the target's folder (or, where the file system has none, to a temporary name beside the target
/// that is removed on failure and, after a kill, by the next writer of the same target). publish()
/// syncs file and folder.
class AtomicFile {
public:
  enum class Existing {
    Replace, ///< publish() replaces an existing target
    Refuse,  ///< create() and publish() fail when the target exists (NB0905)
  };

  /// NB0904 (not a usable file name; not a regular file), NB0905, NB0906 (the folder does not accept a file).
  /// `allowUnnamed` = false takes the temporary name at once, as on file systems without unnamed
  /// files.
  static Result<AtomicFile> create(const std::filesystem::path &target,
                                   Existing existing = Existing::Replace, bool allowUnnamed = true);

  AtomicFile() = default;
  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&other) noexcept;
  /// Discards the file unless it was published.
  ~AtomicFile();

  /// Appends at the current position (NB0906: the message names the target and the system's
  /// reason).
  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  /// Writes at an absolute offset without moving the current position.
  Status writeAt(uint64_t offset, std::span<const std::byte> bytes);
  /// Sets the length; new bytes are zero. With `reserve`, disk blocks are allocated now, so a full
  /// disk is reported before any work is done.
  Status resize(uint64_t bytes, bool reserve = false);
  uint64_t position() const { return position_; }
  /// Moves the current position.
  void seek(uint64_t position) { position_ = position; }
  /// Flushes content to the device.
  Status sync();
  /// Path by which this process can open the unpublished content for reading.
  std::filesystem::path reopenPath() const;
  const std::filesystem::path &target() const { return target_; }
  /// sync, give it the final name, sync the folder. The object is empty afterwards.
  Status publish();
  /// First half of publish(): the content is synced and has its final name, the folder is not
  /// synced, and the file stays open. While it is open it holds a lock (flock) by which others know
  /// a live writer.
  Status giveName();
  /// The final name becomes `name`, in the same folder; before publish() or giveName().
  void setName(const std::string &name) { target_.replace_filename(name); }
  /// Drops the content (same as destruction).
  void discard();

private:
  int fd_ = -1;
  bool anonymous_ = false;
  Existing existing_ = Existing::Replace;
  uint64_t position_ = 0;
  std::filesystem::path target_;
  std::filesystem::path temporaryOf_; ///< the target at creation: names of temporaries follow it
  std::filesystem::path temporary_;   ///< empty while the file is unnamed
};

/// Keeps other holders of the lock of the same folder out (flock on the folder; ends with the
/// process, whatever ends that). On file systems that cannot lock a folder it locks nothing.
class FolderLock {
public:
  /// Waits for it. NB0906 when the folder cannot be opened or another program keeps its lock for a
  /// minute.
  static Result<FolderLock> take(const std::filesystem::path &folder);
  FolderLock() = default;
  FolderLock(FolderLock &&other) noexcept;
  FolderLock &operator=(FolderLock &&other) noexcept;
  ~FolderLock();

private:
  int fd_ = -1;
};

/// Folder a file of that path lies in ("." for a plain name).
std::filesystem::path folderOf(const std::filesystem::path &target);

/// Most bytes of a file name in that folder.
size_t longestFileName(const std::filesystem::path &folder);

/// NB0904 (Usage): no file name, or one longer than its file system holds.
Status checkFileName(const std::filesystem::path &target);

/// Brings names given or taken in the folder to the device (NB0906).
Status syncFolder(const std::filesystem::path &folder);

/// AtomicFile in one call.
Status writeFileAtomically(const std::filesystem::path &path, std::span<const std::byte> bytes,
                           AtomicFile::Existing existing = AtomicFile::Existing::Replace);

} // namespace ninfer

#endif // NINFER_SUPPORT_FILE_H
