// Writing several files: how the payload is divided, what is published when, and what is left of
// killed, failed and competing writers.
#include "artifact/container/PartFiles.h"
#include "artifact/container/Reader.h"
#include "artifact/container/Segments.h"
#include "artifact/container/Writer.h"
#include "support/Bytes.h"
#include "test/unit/container/SplitFixture.h"

#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <set>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ninfer;
using namespace ninfer::test;

namespace fs = std::filesystem;

namespace {

/// Segments of a payload when the text has `base` bytes and 60 more per part.
Result<Segmentation> segments(uint64_t payload, uint64_t limit, size_t base) {
  return segmentPayload(
      payload, limit, [](size_t i) { return "part" + std::to_string(i); },
      [&](const std::vector<FileEntry> &files) -> Result<std::string> {
        return std::string(base + 60 * (files.size() - 1), 'j');
      });
}

std::vector<uint64_t> sizes(const Segmentation &s) {
  std::vector<uint64_t> out;
  for (const FileEntry &file : s.files)
    out.push_back(file.payloadBytes);
  return out;
}

TEST(Segments, WorkedExamples) {
  // The default limit of another writer: the entry is filled exactly.
  Result<Segmentation> s = segments(100'000'000'000, 32'000'000'000, 65'000);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->jsonBytes, 65'536u - 32);
  EXPECT_EQ(sizes(*s),
            (std::vector<uint64_t>{31'999'934'464, 31'999'995'904, 31'999'995'904, 4'000'073'728}));
  EXPECT_EQ(32 + s->jsonBytes + s->files[0].payloadBytes, 32'000'000'000u);
  s = segments(57'905, 20'480, 3000);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->jsonBytes, 4096u - 32);
  EXPECT_EQ(sizes(*s), (std::vector<uint64_t>{16'384, 16'384, 16'384, 8'753}));
  EXPECT_EQ(s->files[3].path, "part3");
}

TEST(Segments, Boundaries) {
  // Exactly full, one byte more.
  EXPECT_EQ(sizes(*segments(16'384, 20'480, 100)), std::vector<uint64_t>{16'384});
  EXPECT_EQ(sizes(*segments(16'385, 20'480, 100)), (std::vector<uint64_t>{16'384, 1}));
  EXPECT_EQ(sizes(*segments(16'384, 20'479, 100)), (std::vector<uint64_t>{12'288, 4'096}));
  // The text outgrows its page because of its own list of parts: 4064 - 60 * 10 = 3464.
  const Segmentation s = *segments(15 * 8'192, 12'288, 3'500);
  EXPECT_EQ(s.jsonBytes, 8'192u - 32);
  EXPECT_EQ(s.files[0].payloadBytes, 4'096u);
  EXPECT_EQ(s.files[1].payloadBytes, 8'192u);
  uint64_t total = 0;
  for (uint64_t size : sizes(s))
    total += size;
  EXPECT_EQ(total, 15u * 8'192);
  EXPECT_LE(s.text.size(), s.jsonBytes);
}

TEST(Segments, LimitsWithoutRoom) {
  for (uint64_t limit : {1, 32, 4095, 4096, 8191}) {
    Result<Segmentation> s = segments(100'000, limit, 100);
    ASSERT_FALSE(s.ok()) << limit;
    EXPECT_EQ(s.error().code, "NB0111");
    EXPECT_EQ(s.error().kind, ErrorKind::Usage);
  }
  // Parts would have room, but the entry has none behind a directory of two pages.
  EXPECT_FALSE(segments(100'000, 12'287, 5'000).ok());
  EXPECT_TRUE(segments(100'000, 12'288, 5'000).ok());
  EXPECT_TRUE(segments(100'000, 8192, 100).ok());
  EXPECT_TRUE(segments(5, 4101, 100).ok()) << "one file needs no whole page";
  EXPECT_FALSE(segments(5, 4100, 100).ok());
  EXPECT_FALSE(segments(UINT64_MAX, 1 << 20, 100).ok()) << "too many parts";
}

class SplitWriterTest : public SplitFixture {
protected:
  fs::path target(const std::string &name = "m.ninfer") const { return folder_ / name; }

  /// Three resources and a matrix that straddles; `salt` changes the content.
  static ArtifactPlan plan() {
    ArtifactPlan out;
    EXPECT_TRUE(out.addResource("head", 3328).ok());
    EXPECT_TRUE(out.addTensor("b/nvfp4", {256, 128}, Format::NVFP4).ok());
    EXPECT_TRUE(out.addResource("middle", 20'000).ok());
    EXPECT_TRUE(out.addResource("tail", 57'905 - 3328 - 18'436 - 20'000).ok());
    out.directory().components["text"].config = nlohmann::ordered_json::object();
    return out;
  }

  static std::string content(const ObjectEntry &object, int salt) {
    if (object.isTensor) { // codes 0x77.., scales 1.0, divisor 2.0
      std::string bytes(object.bytes, '\x77');
      std::fill(bytes.begin() + 16'384, bytes.end() - 4, '\x38');
      bytes.replace(bytes.size() - 4, 4, std::string("\0\0\0\x40", 4));
      return bytes;
    }
    std::string bytes(object.bytes, '\0');
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = char(i * 31 + i / 251 + object.offset + size_t(salt));
    return bytes;
  }

  static Result<WriteReport> writeTo(const fs::path &path, int salt = 0, uint64_t limit = 20'480,
                                     AtomicFile::Existing existing = AtomicFile::Existing::Replace,
                                     const std::function<Status(const Artifact &)> &check = {}) {
    const ArtifactPlan p = plan();
    WriterOptions options;
    if (limit)
      options.maxFileBytes = limit;
    options.existing = existing;
    options.check = check;
    NINFER_ASSIGN_OR_RETURN(ArtifactWriter writer, ArtifactWriter::create(path, p, options));
    for (uint32_t i = 0; i < p.directory().objects.size(); ++i) {
      const std::string bytes = content(p.directory().objects[i], salt);
      for (size_t at = 0; at < bytes.size(); at += 7001) // chunks that straddle, too
        NINFER_RETURN_IF_ERROR(
            writer.append(i, asByteSpan(std::string_view(bytes).substr(at, 7001))));
    }
    return writer.finish();
  }

  /// The artifact is complete and holds the content of that salt.
  static void expectContent(const fs::path &path, int salt) {
    Result<Artifact> artifact = Artifact::open(path);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    for (size_t i = 0; i < artifact->directory().objects.size(); ++i) {
      const auto bytes = artifact->object(i);
      ASSERT_TRUE(bytes.ok()) << bytes.error().message;
      EXPECT_EQ(asText(*bytes), content(artifact->directory().objects[i], salt));
    }
  }

  std::set<std::string> names() const {
    std::set<std::string> out;
    for (const auto &entry : fs::directory_iterator(folder_))
      out.insert(entry.path().filename().string());
    return out;
  }
};

TEST_F(SplitWriterTest, WorkedExample) {
  Result<WriteReport> report = writeTo(target());
  ASSERT_TRUE(report.ok()) << report.error().message;
  const std::string token = toHex(std::span(report->artifactId).first(8));
  ASSERT_EQ(report->files.size(), 4u);
  EXPECT_EQ(report->files[0], std::pair("m.ninfer" + std::string(), uint64_t(20'480)));
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(report->files[i].first, "m.ninfer." + token + ".part-000" + std::to_string(i));
    EXPECT_EQ(report->files[i].second, i < 3 ? 20'480u : 4096u + 8'753);
  }
  EXPECT_EQ(report->fileBytes, 3 * 20'480u + 4096 + 8'753);
  for (const auto &[name, bytes] : report->files)
    EXPECT_EQ(fs::file_size(folder_ / name), bytes);
  EXPECT_EQ(entries(), 4u);

  // By hand: the object at [3328, 21764) is cut at 16384.
  const std::string entry = readBytes(target()),
                    first = readBytes(folder_ / report->files[1].first);
  const std::string want = content(plan().directory().objects[1], 0);
  EXPECT_EQ(entry.substr(4096 + 3328), want.substr(0, 16'384 - 3328));
  EXPECT_EQ(first.substr(4096, 21'764 - 16'384), want.substr(16'384 - 3328));
  EXPECT_EQ(first.substr(0, 8), std::string("NINPRT\0\3", 8));
  EXPECT_EQ(loadLe64(first.data() + 8), 1u);
  EXPECT_EQ(first.substr(16, 16), entry.substr(16, 16));
  EXPECT_EQ(first.substr(32, 4064), std::string(4064, '\0'));
  const auto json = nlohmann::json::parse(entry.substr(32, loadLe64(entry.data() + 8)));
  EXPECT_EQ(json["files"][0], (nlohmann::json{{"path", nullptr}, {"payload_bytes", 16'384}}));
  EXPECT_EQ(json["files"][3],
            (nlohmann::json{{"path", report->files[3].first}, {"payload_bytes", 8'753}}));
  expectContent(target(), 0);
  Result<Artifact> artifact = Artifact::open(target());
  ASSERT_TRUE(artifact->payload().ok());
  EXPECT_EQ(artifact->copiedBytes(), 0u);
}

TEST_F(SplitWriterTest, SamePayloadWhateverTheLimit) {
  Result<WriteReport> whole = writeTo(target("whole.ninfer"), 0, 0);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->files.size(), 1u);
  for (uint64_t limit : {8'192, 8'193, 12'288, 20'480, 24'575, 60'000, 62'001, 70'000}) {
    const std::string name = std::to_string(limit) + ".ninfer";
    Result<WriteReport> report = writeTo(target(name), 0, limit);
    ASSERT_TRUE(report.ok()) << limit << ": " << report.error().message;
    EXPECT_EQ(report->payloadSha256, whole->payloadSha256);
    EXPECT_EQ(report->storageSignature, whole->storageSignature) << "file sizes are no storage";
    for (const auto &[file, bytes] : report->files)
      EXPECT_LE(bytes, limit);
    expectContent(target(name), 0);
    Result<Artifact> artifact = Artifact::open(target(name));
    EXPECT_EQ(asText(*artifact->payload()),
              asText(*Artifact::open(target("whole.ninfer"))->payload()));
  }
  const Result<WriteReport> tooSmall = writeTo(target("small.ninfer"), 0, 4'096);
  ASSERT_FALSE(tooSmall.ok());
  EXPECT_EQ(tooSmall.error().code, "NB0111");
  EXPECT_NE(tooSmall.error().message.find("small.ninfer"), std::string::npos);
}

TEST_F(SplitWriterTest, SameContentSameFiles) {
  ASSERT_TRUE(writeTo(target()).ok());
  const auto first = names();
  const std::string entry = readBytes(target());
  // Over itself: the names of the parts are the same, and nothing is lost.
  ASSERT_TRUE(writeTo(target()).ok());
  EXPECT_EQ(names(), first);
  EXPECT_EQ(readBytes(target()), entry);
  expectContent(target(), 0);
}

TEST_F(SplitWriterTest, ReplacingRemovesTheOldPartsAndNothingElse) {
  ASSERT_TRUE(writeTo(target(), 1).ok());
  const auto old = names();
  write("m.ninfer.0123456789abcdef.part-0001", "not a part at all");
  write("m.ninfer.part-0001", "somebody's");
  ASSERT_TRUE(writeTo(target(), 2, 12'288).ok());
  expectContent(target(), 2);
  for (const std::string &name : old) {
    EXPECT_EQ(fs::exists(folder_ / name), name == "m.ninfer") << name;
  }
  EXPECT_EQ(readBytes(folder_ / "m.ninfer.part-0001"), "somebody's");
  EXPECT_EQ(readBytes(folder_ / "m.ninfer.0123456789abcdef.part-0001"), "not a part at all");
  ASSERT_TRUE(writeTo(target(), 3, 0).ok()) << "by one file";
  expectContent(target(), 3);
  EXPECT_EQ(entries(), 3u);
}

TEST_F(SplitWriterTest, PartsOfARenamedEntryStay) {
  ASSERT_TRUE(writeTo(target(), 1).ok());
  fs::rename(target(), folder_ / "kept.ninfer");
  ASSERT_TRUE(writeTo(target(), 2).ok());
  ASSERT_TRUE(writeTo(target(), 3).ok());
  expectContent(folder_ / "kept.ninfer", 1);
  expectContent(target(), 3);
  EXPECT_EQ(entries(), 8u);
  fs::remove(folder_ / "kept.ninfer"); // now nothing refers to its parts
  ASSERT_TRUE(writeTo(target(), 4).ok());
  EXPECT_EQ(entries(), 4u);
  expectContent(target(), 4);
}

TEST_F(SplitWriterTest, ReplacingAForeignArtifactTakesItsParts) {
  split({16'384, 8'192}, "m.ninfer"); // m.ninfer.part-0001, -0002
  ASSERT_TRUE(writeTo(target(), 1).ok());
  expectContent(target(), 1);
  EXPECT_EQ(entries(), 4u);
}

TEST_F(SplitWriterTest, FailureLeavesTheOldArtifact) {
  ASSERT_TRUE(writeTo(target(), 1).ok());
  const auto before = names();
  const auto fail = [](const Artifact &) -> Status {
    return makeError(ErrorKind::Failed, "NB0108", "no");
  };
  EXPECT_FALSE(writeTo(target(), 2, 20'480, AtomicFile::Existing::Replace, fail).ok());
  EXPECT_EQ(names(), before);
  expectContent(target(), 1);
  Result<WriteReport> refused = writeTo(target(), 2, 20'480, AtomicFile::Existing::Refuse);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "NB0905");
  EXPECT_EQ(names(), before);
  // The name is taken while the writer works: parts are published, then withdrawn.
  fs::rename(target(), folder_ / "aside.ninfer");
  const auto takeName = [&](const Artifact &) -> Status {
    write("m.ninfer", "taken");
    return {};
  };
  refused = writeTo(target(), 2, 20'480, AtomicFile::Existing::Refuse, takeName);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "NB0905");
  EXPECT_EQ(readBytes(target()), "taken");
  EXPECT_EQ(entries(), 5u) << "aside, its three parts, and the foreign file";
  expectContent(folder_ / "aside.ninfer", 1);
}

TEST_F(SplitWriterTest, ForeignFilesUnderThePartNamesAreNotTouched) {
  ASSERT_TRUE(writeTo(target(), 1).ok());
  std::string part;
  for (const std::string &name : names())
    if (name.find("part-0002") != std::string::npos)
      part = name;
  for (const auto &entry : names())
    fs::remove(folder_ / entry);
  write(part, "precious");
  Result<WriteReport> report = writeTo(target(), 1);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, "NB0905");
  EXPECT_NE(report.error().message.find(part), std::string::npos);
  EXPECT_EQ(readBytes(folder_ / part), "precious");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(SplitWriterTest, StrayPartsGoAtTheNextRun) {
  ASSERT_TRUE(writeTo(target(), 1).ok());
  fs::remove(target()); // as after a kill between the parts and the entry
  ASSERT_EQ(entries(), 3u);
  {
    // A writer that lives holds its parts locked.
    const fs::path locked = folder_ / *names().begin();
    const int fd = open(locked.c_str(), O_RDONLY);
    ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
    ASSERT_TRUE(writeTo(target(), 2, 0).ok());
    EXPECT_EQ(entries(), 2u);
    EXPECT_TRUE(fs::exists(locked));
    close(fd);
  }
  ASSERT_TRUE(writeTo(target(), 2, 0).ok());
  EXPECT_EQ(entries(), 1u);
}

TEST_F(SplitWriterTest, PartsWhoseHeaderDisagreesWithTheirNameStay) {
  ASSERT_TRUE(writeTo(target(), 1).ok());
  fs::remove(target());
  std::vector<std::string> parts;
  for (const std::string &name : names())
    parts.push_back(name);
  fs::rename(folder_ / parts[0], folder_ / (parts[0] + ".bak"));
  fs::rename(folder_ / parts[1], folder_ / ("x" + parts[1]));
  std::string other = parts[2];
  other.back() = '9'; // another index than the header says
  fs::rename(folder_ / parts[2], folder_ / other);
  ASSERT_TRUE(writeTo(target(), 2, 0).ok());
  EXPECT_EQ(entries(), 4u);
}

TEST_F(SplitWriterTest, KillAtAnyPointLeavesOldOrNew) {
  // The old artifact is there; the child is killed at the given stage of replacing it.
  for (int stage = 0; stage < 3; ++stage) {
    SCOPED_TRACE(stage);
    ASSERT_TRUE(writeTo(target(), 1).ok());
    const auto before = names();
    const pid_t child = fork();
    if (child == 0) {
      const ArtifactPlan p = plan();
      WriterOptions options;
      options.maxFileBytes = 12'288;
      options.check = [&](const Artifact &) -> Status {
        if (stage == 1)
          kill(getpid(), SIGKILL);
        return {};
      };
      Result<ArtifactWriter> writer = ArtifactWriter::create(folder_ / "m.ninfer", p, options);
      for (uint32_t i = 0; writer.ok() && i < p.directory().objects.size(); ++i) {
        if (stage == 0 && i == 2)
          kill(getpid(), SIGKILL);
        (void)writer->append(i, asByteSpan(content(p.directory().objects[i], 2))).ok();
      }
      if (writer.ok())
        (void)writer->finish().ok();
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    expectContent(target(), stage == 2 ? 2 : 1);
    if (stage < 2) {
      EXPECT_EQ(names(), before);
    }
  }
}

TEST_F(SplitWriterTest, TwoWritersOnOneName) {
  std::vector<pid_t> children;
  for (int salt = 1; salt <= 6; ++salt) {
    const pid_t child = fork();
    if (child == 0) {
      bool good = true;
      for (int round = 0; round < 5; ++round)
        good = good && writeTo(folder_ / "m.ninfer", salt * 8, salt % 2 ? 20'480 : 12'288).ok();
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  Result<Artifact> artifact = Artifact::open(target());
  ASSERT_TRUE(artifact.ok());
  const std::string head(asText(*artifact->object(0)));
  int winner = 0;
  for (int salt = 1; salt <= 6; ++salt)
    if (head == content(artifact->directory().objects[0], salt * 8))
      winner = salt * 8;
  ASSERT_NE(winner, 0);
  expectContent(target(), winner);
  EXPECT_EQ(entries(), artifact->directory().files.size()) << "the losers' parts are gone";
}

TEST_F(SplitWriterTest, PartNames) {
  EXPECT_EQ(partFileName("m.ninfer", "00ff", 1), "m.ninfer.00ff.part-0001");
  EXPECT_EQ(partFileName("m", "t", 9999), "m.t.part-9999");
  EXPECT_EQ(partFileName("m", "t", 12345), "m.t.part-12345");
  EXPECT_EQ(partToken({0, 1, 2, 3, 4, 5, 6, 0xff, 8}), "00010203040506ff");
}

} // namespace
