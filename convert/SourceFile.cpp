#include "convert/SourceFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ninfer {

Result<SourceFile> SourceFile::open(const std::filesystem::path &path, const std::string &name) {
  SourceFile file;
  file.path_ = path;
  file.name_ = name.empty() ? path.filename().string() : name;
  // O_NONBLOCK: a FIFO in place of the file must not hang the open; it is refused below.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0)
    return makeError(ErrorKind::BadFile, "NB0901",
                     path.string() + ": cannot open: " + std::strerror(errno));
  struct stat info {};
  if (::fstat(file.fd_, &info) != 0 || !S_ISREG(info.st_mode))
    return makeError(ErrorKind::BadFile, "NB0901", path.string() + ": not a regular file");
  file.size_ = static_cast<uint64_t>(info.st_size);
  return file;
}

SourceFile::SourceFile(SourceFile &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(other.size_), path_(std::move(other.path_)),
      name_(std::move(other.name_)) {}

SourceFile &SourceFile::operator=(SourceFile &&other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  std::swap(name_, other.name_);
  return *this;
}

SourceFile::~SourceFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

Status SourceFile::read(uint64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    ssize_t n =
        ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return makeError(ErrorKind::BadFile, "NB0903",
                       path_.string() + ": cannot read bytes [" + std::to_string(offset) + "," +
                           std::to_string(offset + out.size()) +
                           "): " + (n < 0 ? std::strerror(errno) : "the file ends before"));
    done += static_cast<size_t>(n);
  }
  return Status();
}

} // namespace ninfer
