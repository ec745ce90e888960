#include "support/File.h"

#include "support/Bytes.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ninfer {

namespace {

std::string systemReason(int code) { return std::strerror(code); }

Status ioError(const char *id, const std::filesystem::path &path, const std::string &action,
               int code) {
  Status status =
      makeError(ErrorKind::Failed, id, path.string() + ": " + action + ": " + systemReason(code));
  if (code == ENOSPC || code == EDQUOT)
    status.help("free some space, or write to another disk");
  return status;
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0)
      close(fd);
  }
};

int openRetry(const char *path, int flags, mode_t mode = 0) {
  int fd;
  do
    fd = open(path, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

std::string temporaryPrefix(const std::filesystem::path &target) {
  // File systems hold names of 255 bytes; a long target shares its temporaries' prefix.
  return "." + target.filename().string().substr(0, 200) + ".ninfer-tmp-";
}

bool isFile(const std::filesystem::path &path, int fd) {
  struct stat named, opened;
  return lstat(path.c_str(), &named) == 0 && fstat(fd, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/// Removes what killed writers of the same target left behind: a live writer holds a lock on its
/// file.
void removeStaleTemporaries(const std::filesystem::path &target) {
  const std::filesystem::path folder = folderOf(target);
  const std::string prefix = temporaryPrefix(target);
  DIR *dir = opendir(folder.c_str());
  if (!dir)
    return;
  while (const dirent *entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name.size() != prefix.size() + 6 || name.substr(0, prefix.size()) != prefix)
      continue;
    const std::filesystem::path path = folder / name;
    Descriptor file{openRetry(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK)};
    if (file.fd >= 0 && flock(file.fd, LOCK_EX | LOCK_NB) == 0 && isFile(path, file.fd))
      unlink(path.c_str());
  }
  closedir(dir);
}

std::string descriptorPath(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

} // namespace

std::filesystem::path folderOf(const std::filesystem::path &target) {
  const std::filesystem::path folder = target.parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

size_t longestFileName(const std::filesystem::path &folder) {
  const long known = pathconf(folder.c_str(), _PC_NAME_MAX);
  return known > 0 ? size_t(known) : NAME_MAX;
}

Status checkFileName(const std::filesystem::path &target) {
  const std::string name = target.filename().string();
  if (name.empty() || name == "." || name == "..")
    return makeError(ErrorKind::Usage, "NB0904", "'" + target.string() + "': not a file name");
  if (const size_t most = longestFileName(folderOf(target)); name.size() > most)
    return makeError(ErrorKind::Usage, "NB0904",
                     target.string() + ": the file name would have " + std::to_string(name.size()) +
                         " bytes, the file system holds names of at most " + std::to_string(most));
  return {};
}

Status syncFolder(const std::filesystem::path &folder) {
  Descriptor dir{openRetry(folder.c_str(), O_RDONLY | O_DIRECTORY)};
  // Some file systems cannot sync a folder; the file itself is already on the device.
  if (dir.fd >= 0 && fsync(dir.fd) != 0 && errno != EINVAL && errno != EROFS)
    return ioError("NB0906", folder, "cannot sync the folder", errno);
  return {};
}

Result<FolderLock> FolderLock::take(const std::filesystem::path &folder) {
  FolderLock lock;
  lock.fd_ = openRetry(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (lock.fd_ < 0)
    return ioError("NB0906", folder, "cannot open the folder", errno);
  for (int attempt = 0; flock(lock.fd_, LOCK_EX | LOCK_NB) != 0; ++attempt) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      break; // no locks on this file system
    if (attempt == 6000)
      return makeError(ErrorKind::Failed, "NB0906",
                       folder.string() + ": another program keeps the folder locked");
    usleep(10000);
  }
  return lock;
}

FolderLock::FolderLock(FolderLock &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock &FolderLock::operator=(FolderLock &&other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0)
    close(fd_);
}

Result<OpenedFile> OpenedFile::open(const std::filesystem::path &path, bool followLink) {
  const auto cannot = [&](const std::string &why) {
    return Status(makeError(ErrorKind::BadFile, "NB0901", path.string() + ": cannot open: " + why));
  };
  // Without O_NONBLOCK a FIFO would block here before it can be refused.
  OpenedFile file;
  file.fd_ = openRetry(path.c_str(), O_RDONLY | O_NONBLOCK | (followLink ? 0 : O_NOFOLLOW));
  if (file.fd_ < 0)
    return cannot(systemReason(errno));
  struct stat info;
  if (fstat(file.fd_, &info) != 0 || !S_ISREG(info.st_mode))
    return cannot("not a regular file");
  file.size_ = uint64_t(info.st_size);
  return file;
}

OpenedFile::OpenedFile(OpenedFile &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(std::exchange(other.size_, 0)) {}

OpenedFile &OpenedFile::operator=(OpenedFile &&other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

void OpenedFile::close() {
  if (fd_ >= 0)
    ::close(fd_);
  fd_ = -1;
}

Status OpenedFile::readAt(uint64_t offset, std::span<std::byte> out,
                          const std::filesystem::path &path) const {
  while (!out.empty()) {
    const ssize_t got = pread(fd_, out.data(), out.size(), off_t(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return makeError(ErrorKind::BadFile, "NB0903",
                       path.string() + ": cannot read " + std::to_string(out.size()) +
                           " bytes at offset " + std::to_string(offset) + ": " +
                           (got < 0 ? systemReason(errno) : "the file has become shorter"));
    offset += uint64_t(got);
    out = out.subspan(size_t(got));
  }
  return {};
}

Result<MappedFile> MappedFile::open(const std::filesystem::path &path) {
  NINFER_ASSIGN_OR_RETURN(const OpenedFile file, OpenedFile::open(path));
  return map(file, path);
}

Result<MappedFile> MappedFile::map(const OpenedFile &file, const std::filesystem::path &path) {
  MappedFile mapped;
  mapped.size_ = file.size();
  if (mapped.size_ == 0)
    return mapped;
  void *address = mmap(nullptr, mapped.size_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (address == MAP_FAILED)
    return makeError(errno == ENOMEM ? ErrorKind::OutOfMemory : ErrorKind::BadFile, "NB0902",
                     path.string() + ": cannot map " + std::to_string(mapped.size_) +
                         " bytes: " + systemReason(errno));
  mapped.data_ = static_cast<const std::byte *>(address);
  return mapped;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_)
    munmap(const_cast<std::byte *>(data_), size_);
}

void MappedFile::advise(Access access) const {
  if (!data_)
    return;
  const int advice = access == Access::Sequential ? MADV_SEQUENTIAL
                     : access == Access::Random   ? MADV_RANDOM
                     : access == Access::WillNeed ? MADV_WILLNEED
                     : access == Access::HugePages ? MADV_HUGEPAGE
                                                   : MADV_NORMAL;
  madvise(const_cast<std::byte *>(data_), size_, advice);
}

void MappedFile::release() const {
  if (data_)
    madvise(const_cast<std::byte *>(data_), size_, MADV_DONTNEED);
}

Result<std::string> readFile(const std::filesystem::path &path, uint64_t maxBytes) {
  NINFER_ASSIGN_OR_RETURN(const OpenedFile file, OpenedFile::open(path));
  if (file.size() > maxBytes)
    return makeError(ErrorKind::BadFile, "NB0903",
                     path.string() + ": file has " + std::to_string(file.size()) +
                         " bytes, expected at most " + std::to_string(maxBytes));
  std::string content(file.size(), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = read(file.descriptor(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return makeError(ErrorKind::BadFile, "NB0903",
                       path.string() + ": cannot read: " + systemReason(errno));
    if (got == 0)
      break; // shrunk since fstat
    done += size_t(got);
  }
  content.resize(done);
  return content;
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path &target, Existing existing,
                                      bool allowUnnamed) {
  NINFER_RETURN_IF_ERROR(checkFileName(target));
  struct stat info;
  if (stat(target.c_str(), &info) == 0) {
    if (existing == Existing::Refuse)
      return makeError(ErrorKind::Usage, "NB0905", target.string() + ": file exists");
    if (!S_ISREG(info.st_mode))
      return makeError(ErrorKind::Usage, "NB0904",
                       target.string() + ": exists and is not a regular file");
  }
  removeStaleTemporaries(target);
  AtomicFile file;
  file.existing_ = existing;
  file.target_ = file.temporaryOf_ = target;
  const std::filesystem::path folder = folderOf(target);
  // An unnamed file vanishes with the process, whatever ends it. It gets its name through /proc.
  if (allowUnnamed && access("/proc/self/fd", X_OK) == 0)
    file.fd_ = openRetry(folder.c_str(), O_TMPFILE | O_RDWR, 0666);
  if (file.fd_ >= 0) {
    file.anonymous_ = true;
    flock(file.fd_, LOCK_EX | LOCK_NB);
    return file;
  }
  for (int attempt = 0;; ++attempt) {
    std::string name = (folder / (temporaryPrefix(target) + "XXXXXX")).string();
    file.fd_ = mkostemp(name.data(), O_CLOEXEC);
    if (file.fd_ < 0)
      return ioError("NB0906", target, "cannot create a file in its folder", errno);
    file.temporary_ = name;
    // Before the lock another writer may have taken the file for a stale one.
    if (flock(file.fd_, LOCK_EX) != 0 || isFile(file.temporary_, file.fd_) || attempt == 100)
      break;
    close(file.fd_);
  }
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(file.fd_, 0666 & ~mask);
  return file;
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept { *this = std::move(other); }

AtomicFile &AtomicFile::operator=(AtomicFile &&other) noexcept {
  if (this == &other)
    return *this;
  discard();
  fd_ = std::exchange(other.fd_, -1);
  anonymous_ = other.anonymous_;
  existing_ = other.existing_;
  position_ = other.position_;
  target_ = std::move(other.target_);
  temporaryOf_ = std::move(other.temporaryOf_);
  temporary_ = std::move(other.temporary_);
  other.temporary_.clear();
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (!temporary_.empty())
    unlink(temporary_.c_str());
  temporary_.clear();
  if (fd_ >= 0)
    close(fd_);
  fd_ = -1;
}

Status AtomicFile::writeAt(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd_, bytes.data(), bytes.size(), off_t(offset));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return ioError("NB0906", target_,
                     "cannot write " + std::to_string(bytes.size()) + " bytes at offset " +
                         std::to_string(offset),
                     errno);
    offset += uint64_t(put);
    bytes = bytes.subspan(size_t(put));
  }
  return {};
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  NINFER_RETURN_IF_ERROR(writeAt(position_, bytes));
  position_ += bytes.size();
  return {};
}

Status AtomicFile::write(std::string_view text) { return write(asByteSpan(text)); }

Status AtomicFile::resize(uint64_t bytes, bool reserve) {
  if (bytes > uint64_t(INT64_MAX))
    return ioError("NB0906", target_,
                   "cannot set the length to " + std::to_string(bytes) + " bytes", EFBIG);
  if (ftruncate(fd_, off_t(bytes)) != 0)
    return ioError("NB0906", target_,
                   "cannot set the length to " + std::to_string(bytes) + " bytes", errno);
  if (reserve && bytes > 0) {
    int code;
    do
      code = fallocate(fd_, 0, 0, off_t(bytes)) == 0 ? 0 : errno;
    while (code == EINTR);
    // File systems without the call report the full disk at the write instead.
    if (code != 0 && code != EOPNOTSUPP && code != ENOSYS && code != EINVAL)
      return ioError("NB0906", target_, "cannot reserve " + std::to_string(bytes) + " bytes", code);
  }
  return {};
}

Status AtomicFile::sync() {
  if (fsync(fd_) != 0)
    return ioError("NB0906", target_, "cannot sync", errno);
  return {};
}

std::filesystem::path AtomicFile::reopenPath() const {
  return anonymous_ ? std::filesystem::path(descriptorPath(fd_)) : temporary_;
}

Status AtomicFile::giveName() {
  NINFER_RETURN_IF_ERROR(sync());
  const auto exists = [&] {
    return Status(makeError(ErrorKind::Usage, "NB0905", target_.string() + ": file exists"));
  };
  if (anonymous_ && existing_ == Existing::Refuse) {
    if (linkat(AT_FDCWD, descriptorPath(fd_).c_str(), AT_FDCWD, target_.c_str(),
               AT_SYMLINK_FOLLOW) != 0)
      return errno == EEXIST ? exists() : ioError("NB0906", target_, "cannot publish", errno);
  } else {
    if (anonymous_) {
      // A link never replaces, so the file first takes a temporary name beside the target.
      const std::filesystem::path folder = folderOf(target_);
      for (unsigned attempt = 0;; ++attempt) {
        char suffix[8];
        std::snprintf(suffix, sizeof suffix, "%06x",
                      (unsigned(getpid()) * 2654435761u + attempt * 40503u) & 0xffffff);
        const std::filesystem::path name = folder / (temporaryPrefix(temporaryOf_) + suffix);
        if (linkat(AT_FDCWD, descriptorPath(fd_).c_str(), AT_FDCWD, name.c_str(),
                   AT_SYMLINK_FOLLOW) == 0) {
          temporary_ = name;
          break;
        }
        if (errno != EEXIST || attempt == 100)
          return ioError("NB0906", target_, "cannot publish", errno);
      }
    }
    if (existing_ == Existing::Refuse) {
      if (link(temporary_.c_str(), target_.c_str()) != 0)
        return errno == EEXIST ? exists() : ioError("NB0906", target_, "cannot publish", errno);
      unlink(temporary_.c_str());
    } else if (rename(temporary_.c_str(), target_.c_str()) != 0) {
      return ioError("NB0906", target_, "cannot publish", errno);
    }
    temporary_.clear();
  }
  return {};
}

Status AtomicFile::publish() {
  NINFER_RETURN_IF_ERROR(giveName());
  discard(); // the name stays
  return syncFolder(folderOf(target_));
}

Status writeFileAtomically(const std::filesystem::path &path, std::span<const std::byte> bytes,
                           AtomicFile::Existing existing) {
  NINFER_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, existing));
  NINFER_RETURN_IF_ERROR(file.resize(bytes.size(), true));
  NINFER_RETURN_IF_ERROR(file.write(bytes));
  return file.publish();
}

} // namespace ninfer
