// Mapping, and publication of files: nothing appears under the final name unless publish()
// succeeded.
#include "support/File.h"
#include "support/Bytes.h"

#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ninfer;
namespace fs = std::filesystem;

namespace {

class FileTest : public ::testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/ninfer-file-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    target_ = folder_ / "out.bin";
  }
  void TearDown() override { fs::remove_all(folder_); }

  size_t entries() const {
    return size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string content() const { return *readFile(target_); }

  fs::path folder_, target_;
};

TEST_F(FileTest, MapsAndReads) {
  std::ofstream(target_) << "hello";
  Result<MappedFile> mapped = MappedFile::open(target_);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(asText(mapped->bytes()), "hello");
  MappedFile moved = mapped.take();
  EXPECT_EQ(moved.size(), 5u);
  EXPECT_EQ(*readFile(target_), "hello");
  EXPECT_EQ(readFile(target_, 4).error().code, "NB0903");
  std::ofstream(folder_ / "empty");
  EXPECT_EQ(MappedFile::open(folder_ / "empty")->size(), 0u);
}

TEST_F(FileTest, RefusesWhatIsNotARegularFile) {
  EXPECT_EQ(MappedFile::open(folder_).error().code, "NB0901");
  EXPECT_EQ(MappedFile::open(folder_ / "missing").error().code, "NB0901");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(folder_ / "pipe").error().code, "NB0901")
      << "must not wait for a writer";
  EXPECT_EQ(AtomicFile::create(folder_ / "pipe").error().code, "NB0904");
  EXPECT_EQ(AtomicFile::create(folder_).error().code, "NB0904");
  EXPECT_EQ(AtomicFile::create(folder_ / std::string(256, 'n')).error().code, "NB0904");
  EXPECT_TRUE(AtomicFile::create(folder_ / std::string(240, 'n')).ok());
  EXPECT_EQ(AtomicFile::create(folder_ / "no" / "such.bin").error().code, "NB0906");
}

/// Both ways of keeping the unpublished content: without a name, and under a temporary name.
class AtomicFileTest : public FileTest, public ::testing::WithParamInterface<bool> {
protected:
  Result<AtomicFile> create(AtomicFile::Existing existing = AtomicFile::Existing::Replace) {
    return AtomicFile::create(target_, existing, GetParam());
  }
};

TEST_P(AtomicFileTest, AppearsOnPublishOnly) {
  std::ofstream(target_) << "old";
  {
    Result<AtomicFile> file = create();
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("new content").ok());
    EXPECT_EQ(content(), "old");
    EXPECT_EQ(*readFile(file->reopenPath()), "new content");
    ASSERT_TRUE(file->writeAt(4, asByteSpan("CONTENT")).ok());
    ASSERT_TRUE(file->publish().ok());
  }
  EXPECT_EQ(content(), "new CONTENT");
  EXPECT_EQ(entries(), 1u);
  struct stat info;
  ASSERT_EQ(stat(target_.c_str(), &info), 0);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST_P(AtomicFileTest, DiscardLeavesNothing) {
  {
    Result<AtomicFile> file = create();
    ASSERT_TRUE(file->write("half").ok());
    AtomicFile moved = file.take();
    ASSERT_TRUE(moved.write(" more").ok());
  }
  EXPECT_EQ(entries(), 0u);
}

TEST_P(AtomicFileTest, RefusesToReplaceWhenAsked) {
  {
    Result<AtomicFile> file = create(AtomicFile::Existing::Refuse);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("mine").ok());
    std::ofstream(target_) << "theirs"; // appears while ours is being written
    EXPECT_EQ(file->publish().error().code, "NB0905");
  }
  EXPECT_EQ(content(), "theirs");
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(create(AtomicFile::Existing::Refuse).error().code, "NB0905");
  fs::remove(target_);
  Result<AtomicFile> file = create(AtomicFile::Existing::Refuse);
  ASSERT_TRUE(file->write("mine").ok());
  ASSERT_TRUE(file->publish().ok());
  EXPECT_EQ(content(), "mine");
  EXPECT_EQ(entries(), 1u);
}

TEST_P(AtomicFileTest, KilledWriterLeavesNothingForLong) {
  const pid_t child = fork();
  if (child == 0) {
    Result<AtomicFile> file = create();
    if (file.ok() && file->write("half").ok())
      kill(getpid(), SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_FALSE(fs::exists(target_));
  EXPECT_LE(entries(), GetParam() ? 0u : 1u);
  Result<AtomicFile> next = create();
  ASSERT_TRUE(next->write("whole").ok());
  ASSERT_TRUE(next->publish().ok());
  EXPECT_EQ(content(), "whole");
  EXPECT_EQ(entries(), 1u) << "the killed writer's file is removed by the next one";
}

TEST_P(AtomicFileTest, ResizeAndFailures) {
  Result<AtomicFile> file = create();
  ASSERT_TRUE(file->resize(1 << 20, true).ok());
  EXPECT_EQ(readFile(file->reopenPath())->size(), size_t(1) << 20);
  Status huge = file->resize(UINT64_MAX);
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code, "NB0906");
  EXPECT_NE(huge.error().message.find("out.bin"), std::string::npos);
  Status full = file->resize(uint64_t(1) << 60, true);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, "NB0906");
}

INSTANTIATE_TEST_SUITE_P(Naming, AtomicFileTest, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "Unnamed" : "Named"; });

TEST_F(FileTest, StaleTemporariesAreRemovedLiveOnesKept) {
  const fs::path stale = folder_ / ".out.bin.ninfer-tmp-abcdef",
                 live = folder_ / ".out.bin.ninfer-tmp-123456",
                 foreign = folder_ / ".out.bin.ninfer-tmp-abcdefg";
  for (const fs::path &path : {stale, live, foreign})
    std::ofstream(path) << "x";
  const int fd = open(live.c_str(), O_RDWR);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  ASSERT_TRUE(writeFileAtomically(target_, asByteSpan("done")).ok());
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(live));
  EXPECT_TRUE(fs::exists(foreign));
  close(fd);
  EXPECT_EQ(content(), "done");
}

} // namespace
