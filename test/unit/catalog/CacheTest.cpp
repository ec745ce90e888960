// The cache of compiled kernels: its default place, many writers at once, damage, and its limit.
#include "codegen/common/ObjectCache.h"

#include "support/File.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ninfer {
namespace {

class CacheTest : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ninfer-cache-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    for (const char *name : {"XDG_CACHE_HOME", "HOME"})
      if (const char *value = std::getenv(name))
        saved_.emplace_back(name, value);
  }
  void TearDown() override {
    for (const auto &[name, value] : saved_)
      setenv(name.c_str(), value.c_str(), 1);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path(const char *name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
  std::vector<std::pair<std::string, std::string>> saved_;
};

std::vector<char> objectOf(char fill, size_t bytes) { return std::vector<char>(bytes, fill); }

TEST_F(CacheTest, DefaultPlace) {
  setenv("XDG_CACHE_HOME", "/x/cache", 1);
  setenv("HOME", "/home/a", 1);
  EXPECT_EQ(defaultCacheDirectory(), "/x/cache/ninfer");
  setenv("XDG_CACHE_HOME", "relative", 1); // the XDG specification: ignored
  EXPECT_EQ(defaultCacheDirectory(), "/home/a/.cache/ninfer");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(defaultCacheDirectory(), "/home/a/.cache/ninfer");
  unsetenv("HOME");
  EXPECT_EQ(defaultCacheDirectory(), "");
}

TEST_F(CacheTest, ADefaultCacheIsItsOwnersAlone) {
  const std::string cache = path("a/b/ninfer");
  EXPECT_EQ(prepareDefaultCache(cache), "");
  struct stat info = {};
  ASSERT_EQ(stat(cache.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(prepareDefaultCache(cache), ""); // again
  chmod(cache.c_str(), 0770);
  EXPECT_EQ(prepareDefaultCache(cache), "other users may write to it");
  chmod(cache.c_str(), 0755); // reading is harmless
  EXPECT_EQ(prepareDefaultCache(cache), "");
  std::ofstream(path("file")) << "x";
  EXPECT_EQ(prepareDefaultCache(path("file")), "it is not a folder");
  EXPECT_NE(prepareDefaultCache(path("file") + "/ninfer").find("it cannot be made: "), std::string::npos);
}

TEST_F(CacheTest, AnOptionalCacheMayFail) {
  std::ofstream(path("file")) << "x"; // a folder cannot be made inside
  const ObjectCache wanted({path("file") + "/c", false}), optional({path("file") + "/c", true}), none(CachePlace{});
  EXPECT_EQ(wanted.store("key", objectOf('a', 10)).error().code, "NB0907");
  EXPECT_TRUE(optional.store("key", objectOf('a', 10)).ok());
  EXPECT_FALSE(optional.find("key"));
  EXPECT_TRUE(none.store("key", objectOf('a', 10)).ok());
  EXPECT_FALSE(none.find("key"));
}

TEST_F(CacheTest, AnObjectUnderTheNameOfAnother) {
  const ObjectCache cache({path("c"), false});
  ASSERT_TRUE(cache.store("one", objectOf('1', 100)).ok());
  ASSERT_TRUE(cache.store("two", objectOf('2', 100)).ok());
  std::filesystem::rename(path("c/one.o"), path("c/x.o"));
  std::filesystem::copy_file(path("c/two.o"), path("c/one.o"));
  EXPECT_FALSE(cache.find("one"));
  EXPECT_EQ(cache.find("two"), objectOf('2', 100));
  std::filesystem::remove(path("c/one.o"));
  std::filesystem::rename(path("c/x.o"), path("c/one.o"));
  EXPECT_EQ(cache.find("one"), objectOf('1', 100));
}

TEST_F(CacheTest, WritersAtTheSameTime) {
  // Four processes write and read the same keys; what is found is always a whole object of that key.
  std::vector<pid_t> children;
  for (int writer = 0; writer < 4; ++writer) {
    const pid_t child = fork();
    if (child == 0) {
      const ObjectCache cache({path("c"), false});
      int code = 0;
      for (int i = 0; i < 60; ++i) {
        const char fill = char('a' + (i + writer) % 5);
        const auto expected = objectOf(fill, 50000 + size_t(fill) * 1000);
        const auto found = cache.find(std::string("key-") + fill);
        if (found && *found != expected)
          code = 1;
        if (!cache.store(std::string("key-") + fill, expected).ok())
          code = 2;
      }
      _exit(code);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  size_t files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(path("c")))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 5u); // no temporary is left
}

TEST_F(CacheTest, DamageIsAMiss) {
  const ObjectCache cache({path("c"), false});
  ASSERT_TRUE(cache.store("key", objectOf('a', 1000)).ok());
  ASSERT_TRUE(cache.find("key"));
  const std::string file = path("c") + "/key.o", whole = readFile(file).take();
  for (size_t length : {size_t(0), size_t(31), size_t(32), whole.size() - 1}) {
    std::ofstream(file, std::ios::binary) << whole.substr(0, length);
    EXPECT_FALSE(cache.find("key")) << length;
  }
  for (size_t at : {size_t(0), size_t(40), whole.size() - 1}) {
    std::string changed = whole;
    changed[at] = char(changed[at] ^ 1);
    std::ofstream(file, std::ios::binary) << changed;
    EXPECT_FALSE(cache.find("key")) << at;
  }
  ASSERT_TRUE(cache.store("key", objectOf('a', 1000)).ok());
  EXPECT_TRUE(cache.find("key"));
}

TEST_F(CacheTest, TrimRemovesTheOldest) {
  const ObjectCache cache({path("c"), false});
  const auto now = std::filesystem::file_time_type::clock::now();
  for (int i = 0; i < 10; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_TRUE(cache.store(key, objectOf('x', 968)).ok()); // 1000 with the digest
    std::filesystem::last_write_time(path("c") + "/" + key + ".o", now - std::chrono::hours(10 - i));
  }
  std::ofstream(path("c") + "/notes.txt") << std::string(5000, 'n'); // not ours
  trimCache(path("c"), 10000);
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(cache.find("k" + std::to_string(i))) << i;
  trimCache(path("c"), 3500);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(cache.find("k" + std::to_string(i)).has_value(), i >= 7) << i;
  EXPECT_TRUE(std::filesystem::exists(path("c") + "/notes.txt"));
  trimCache(path("absent"), 1);
}

} // namespace
} // namespace ninfer
