// Reading artifacts of several files: objects across parts, mapped and copied; parts opened late;
// every fault of a part.
#include "artifact/container/Reader.h"
#include "artifact/container/Verify.h"
#include "support/Sha256.h"
#include "test/unit/container/SplitFixture.h"

#include <atomic>
#include <gtest/gtest.h>
#include <random>
#include <thread>

using namespace ninfer;
using namespace ninfer::test;

namespace fs = std::filesystem;

namespace {

class PartsTest : public SplitFixture {
protected:
  /// Every object has the golden digest; the whole payload is the golden one.
  void expectGolden(const fs::path &path) {
    Result<Artifact> artifact = Artifact::open(path);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    EXPECT_EQ(artifact->payloadBytes(), payload_.size());
    for (size_t i = 0; i < expected_["objects"].size(); ++i) {
      const auto bytes = artifact->object(i);
      ASSERT_TRUE(bytes.ok()) << bytes.error().message;
      EXPECT_EQ(toHex(sha256(*bytes)), expected_["objects"][i]["payload_sha256"].get<std::string>())
          << expected_["objects"][i]["id"];
    }
    ASSERT_TRUE(artifact->payload().ok());
    EXPECT_EQ(sha256(*artifact->payload()), sha256(payload_));
  }

  /// "ok", or the error of reading everything.
  static std::string readAll(const fs::path &path) {
    Result<Artifact> artifact = Artifact::open(path);
    if (!artifact.ok())
      return "open: " + artifact.error().code + " " + artifact.error().message;
    const auto payload = artifact->payload();
    return payload.ok() ? "ok" : payload.error().code + " " + payload.error().message;
  }
};

TEST_F(PartsTest, EverySplitReadsAsTheWhole) {
  const uint64_t all = payload_.size();
  std::mt19937 random(3);
  std::vector<std::vector<uint64_t>> splits = {
      {4096},        {1},          {all - 1},       {8192, 8192, 8192}, {1, 1, 1, 1, 1},
      {5000, 11480}, {4095, 4097}, {4096, 1, 4095}, {100, 200, 300},    {0x5000, 0x3001},
  };
  splits.emplace_back(all / 4096, 4096); // some objects lie in three files and more
  for (int i = 0; i < 20; ++i) {
    std::vector<uint64_t> sizes;
    for (uint64_t rest = all - 1; rest > 0 && sizes.size() < 30;) {
      const uint64_t size = 1 + random() % std::min<uint64_t>(rest, i % 2 ? 30000 : 3000);
      sizes.push_back(size);
      rest -= size;
    }
    splits.push_back(sizes);
  }
  for (const auto &sizes : splits) {
    SCOPED_TRACE(std::to_string(sizes.size()) + " cuts, first " + std::to_string(sizes[0]));
    expectGolden(split(sizes));
  }
}

TEST_F(PartsTest, ObjectAcrossManyParts) {
  const auto path = split(std::vector<uint64_t>(payload_.size() / 4096, 4096));
  Result<Artifact> artifact = Artifact::open(path);
  ASSERT_TRUE(artifact.ok());
  uint64_t most = 0;
  for (const ObjectEntry &object : artifact->directory().objects)
    most = std::max(most, (object.offset + object.bytes - 1) / 4096 - object.offset / 4096 + 1);
  EXPECT_GE(most, 3u);
  EXPECT_EQ(artifact->copiedBytes(), 0u);
  ASSERT_TRUE(artifact->payload().ok());
  EXPECT_EQ(artifact->copiedBytes(), 0u) << "every boundary is a multiple of the page";
  const auto report = verifyArtifact(*artifact);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->ok()) << report->findings.front().text();
}

TEST_F(PartsTest, OnlyWhatSharesAPageIsCopied) {
  const uint64_t all = payload_.size();
  {
    Result<Artifact> artifact = Artifact::open(split({5000}));
    ASSERT_TRUE(artifact->range(0, 10).ok());
    EXPECT_EQ(artifact->copiedBytes(), 5000u - 4096) << "the entry's last page";
    ASSERT_TRUE(artifact->payload().ok());
    EXPECT_EQ(artifact->copiedBytes(), all - 4096) << "the part cannot be mapped there";
  }
  {
    Result<Artifact> artifact = Artifact::open(split({4096, 100, 8092}));
    ASSERT_TRUE(artifact->payload().ok());
    EXPECT_EQ(artifact->copiedBytes(), 8192u) << "100 + 8092; the last part starts at a page";
    artifact->release();
    EXPECT_EQ(sha256(*artifact->payload()), sha256(payload_)) << "copies survive release()";
  }
}

TEST_F(PartsTest, LargeCopiesAreMadePieceByPiece) {
  // One resource of 20 MiB behind 100 bytes: too large to be copied at once.
  const uint64_t bytes = (uint64_t(20) << 20) + 100;
  std::string content(bytes, '\0');
  std::mt19937_64 random(1);
  for (size_t i = 0; i + 8 <= content.size(); i += 8)
    storeLe64(content.data() + i, random());
  payload_ = content;
  json_ = nlohmann::ordered_json::parse(
      R"({"components":{"text":{"config":{}}},"objects":[{"id":"a","kind":"resource",)"
      R"("encoding":"raw_bytes_v1","offset":0,"bytes":)" +
      std::to_string(bytes) + R"(}],"bindings":{},"uses":[],"files":[]})");
  Result<Artifact> artifact = Artifact::open(split({100, bytes - 300}));
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  uint64_t copied = 0;
  const auto read = [&](uint64_t offset, uint64_t count, uint64_t fresh) {
    const auto range = artifact->range(offset, count);
    ASSERT_TRUE(range.ok());
    EXPECT_EQ(asText(*range), std::string_view(content).substr(offset, count));
    EXPECT_EQ(artifact->copiedBytes(), copied += fresh) << offset << " " << count;
  };
  read(1000, 1000, 1000);
  read(1500, 1000, 500);
  read(5000, 100, 100);
  read(900, 5000, 100 + 2500 + 800);
  read(0, 100, 100);
  read(99, 2, 1); // byte 100 is the part's first
  read(bytes - 250, 250, 250);
  read(0, bytes, bytes - copied);
  read(0, bytes, 0);
  EXPECT_FALSE(artifact->range(bytes, 1).ok());
  EXPECT_FALSE(artifact->range(1, UINT64_MAX).ok());
  EXPECT_TRUE(artifact->range(bytes, 0).ok());
}

TEST_F(PartsTest, ThreadsAgree) {
  for (const std::vector<uint64_t> &sizes :
       {std::vector<uint64_t>{5000, 20000, 30000, 777}, std::vector<uint64_t>{4096, 8192, 4096}}) {
    Result<Artifact> artifact = Artifact::open(split(sizes));
    ASSERT_TRUE(artifact.ok());
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (unsigned t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        for (int i = 0; i < 60; ++i) {
          const size_t index = random() % expected_["objects"].size();
          const auto bytes = artifact->object(index);
          wrong +=
              !bytes.ok() || toHex(sha256(*bytes)) !=
                                 expected_["objects"][index]["payload_sha256"].get<std::string>();
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST_F(PartsTest, PartsAreOpenedWhenNeeded) {
  const auto path = split({16384, 16384});
  const fs::path first = folder_ / partName("split.ninfer", 1);
  fs::remove(first);
  Result<Artifact> artifact = Artifact::open(path);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  size_t good = 0, bad = 0;
  for (size_t i = 0; i < artifact->directory().objects.size(); ++i) {
    const ObjectEntry &object = artifact->directory().objects[i];
    const bool needed = object.offset < 32768 && object.offset + object.bytes > 16384;
    const auto bytes = artifact->object(i);
    EXPECT_EQ(bytes.ok(), !needed) << object.id;
    (bytes.ok() ? good : bad) += 1;
    EXPECT_TRUE(artifact->geometry(i).ok() || !object.isTensor) << "needs no part";
    if (!bytes.ok()) {
      EXPECT_EQ(bytes.error().code, "NB0901");
      EXPECT_EQ(bytes.error().kind, ErrorKind::BadFile);
      EXPECT_NE(bytes.error().message.find(first.filename().string() + ": part 1 of"),
                std::string::npos)
          << bytes.error().message;
    }
  }
  EXPECT_GT(good, 5u);
  EXPECT_GT(bad, 0u);
  // It may come back.
  split({16384, 16384});
  EXPECT_TRUE(artifact->payload().ok());
}

TEST_F(PartsTest, FaultsNameThePartAndTheRule) {
  const auto fresh = [&] { return split({16384, 8192, 8192}); };
  const fs::path one = folder_ / partName("split.ninfer", 1),
                 two = folder_ / partName("split.ninfer", 2);
  const auto expectFault = [&](const std::string &code, const std::string &text,
                               const fs::path &part) {
    const std::string got = readAll(folder_ / "split.ninfer");
    EXPECT_EQ(got.substr(0, 6), code) << got;
    EXPECT_NE(got.find(text), std::string::npos) << got;
    EXPECT_NE(got.find(part.filename().string() + ": part "), std::string::npos) << got;
    EXPECT_NE(got.find("split.ninfer: "), std::string::npos) << got;
  };
  fresh();
  EXPECT_EQ(readAll(folder_ / "split.ninfer"), "ok");
  const std::string good = readBytes(one);
  const auto change = [&](size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    write(one.filename().string(), bytes);
  };

  fs::remove(one);
  expectFault("NB0901", "missing", one);
  fs::create_directory(one);
  expectFault("NB0901", "not a regular file", one);
  fs::remove(one);
  for (size_t length : {0, 31}) {
    write(one.filename().string(), good.substr(0, length));
    expectFault("NB0110", "too short: expected at least 32", one);
  }
  for (size_t length : {size_t(32), size_t(4096), good.size() - 1}) {
    write(one.filename().string(), good.substr(0, length));
    expectFault("NB0110", "too short: expected 12288 bytes", one);
  }
  write(one.filename().string(), good + "x");
  expectFault("NB0110", "too long: expected 12288 bytes (4096 + payload_bytes 8192), got 12289",
              one);
  for (size_t at = 0; at < 8; ++at) {
    change(at, char(good[at] ^ 1));
    expectFault("NB0110", "wrong magic", one);
  }
  write(one.filename().string(), readBytes(fixturePath("v3_single.ninfer")));
  expectFault("NB0110", "an entry file, expected a part", one);
  for (size_t at = 8; at < 16; ++at) {
    change(at, char(good[at] ^ 0x40));
    expectFault("NB0110", "wrong part: expected index 1, got", one);
  }
  for (size_t at = 16; at < 32; ++at) {
    change(at, char(good[at] ^ 1));
    expectFault("NB0110", "part of another artifact: expected id 000102", one);
  }
  change(40, 'x');
  EXPECT_EQ(readAll(folder_ / "split.ninfer"), "ok") << "the rest of the head is not inspected";
  fresh();
  const std::string other = readBytes(two);
  fs::rename(one, folder_ / "swap");
  fs::rename(two, one);
  fs::rename(folder_ / "swap", two);
  expectFault("NB0110", "wrong part: expected index 1, got 2", one);
}

TEST_F(PartsTest, LinksStayInTheFolder) {
  const fs::path outside = folder_ / "outside", inside = folder_ / "model";
  fs::create_directories(outside);
  fs::create_directories(inside);
  const auto move = [&](const fs::path &from, const fs::path &to) { fs::rename(from, to); };
  split({16384});
  const std::string name = partName("split.ninfer", 1);
  move(folder_ / "split.ninfer", inside / "split.ninfer");
  move(folder_ / name, outside / name);
  fs::create_symlink(outside / name, inside / name);
  std::string got = readAll(inside / "split.ninfer");
  EXPECT_EQ(got.substr(0, 6), "NB0110") << got;
  EXPECT_NE(got.find("outside the folder of the entry"), std::string::npos) << got;
  // A link within the folder, and a folder that is itself a link.
  fs::remove(inside / name);
  move(outside / name, inside / "real-part");
  fs::create_symlink("real-part", inside / name);
  EXPECT_EQ(readAll(inside / "split.ninfer"), "ok");
  fs::create_directory_symlink(inside, folder_ / "linked");
  EXPECT_EQ(readAll(folder_ / "linked" / "split.ninfer"), "ok");
  // Dangling.
  fs::remove(inside / "real-part");
  EXPECT_EQ(readAll(inside / "split.ninfer").substr(0, 6), "NB0901");
}

TEST_F(PartsTest, HubCacheKeepsEntryAndPartsInOneFolderOfBlobs) {
  split({16384});
  const std::string name = partName("split.ninfer", 1);
  fs::create_directories(folder_ / "blobs");
  fs::create_directories(folder_ / "snapshots" / "abc");
  fs::rename(folder_ / "split.ninfer", folder_ / "blobs" / "1111");
  fs::rename(folder_ / name, folder_ / "blobs" / "2222");
  const fs::path snapshot = folder_ / "snapshots" / "abc";
  fs::create_symlink("../../blobs/1111", snapshot / "split.ninfer");
  fs::create_symlink("../../blobs/2222", snapshot / name);
  EXPECT_EQ(readAll(snapshot / "split.ninfer"), "ok");
}

TEST_F(PartsTest, RenamedEntry) {
  split({16384, 8192});
  fs::rename(folder_ / "split.ninfer", folder_ / "other name.ninfer");
  expectGolden(folder_ / "other name.ninfer");
  // Its new name must not be a part's.
  split({16384, 8192});
  fs::remove(folder_ / partName("split.ninfer", 2));
  fs::rename(folder_ / "split.ninfer", folder_ / partName("split.ninfer", 2));
  const std::string got = readAll(folder_ / partName("split.ninfer", 2));
  EXPECT_EQ(got.substr(0, 12), "open: NB0105") << got;
  EXPECT_NE(got.find("is the entry file itself"), std::string::npos) << got;
}

TEST_F(PartsTest, RelativePathsDoNotFollowTheWorkingFolder) {
  const auto path = split({16384});
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  Result<Artifact> artifact = Artifact::open("split.ninfer");
  fs::current_path(before);
  ASSERT_TRUE(artifact.ok());
  const auto payload = artifact->payload();
  EXPECT_TRUE(payload.ok()) << payload.error().message;
}

TEST_F(PartsTest, EntryLength) {
  const auto path = split({16384});
  const std::string good = readBytes(path);
  for (const std::string &bytes : {good + "x", good.substr(0, good.size() - 1)}) {
    write("split.ninfer", bytes);
    EXPECT_EQ(readAll(path).substr(0, 12), "open: NB0103") << readAll(path);
  }
  EXPECT_EQ(Artifact::open(folder_ / partName("split.ninfer", 1)).error().code, "NB0101");
}

TEST_F(PartsTest, HugeDeclaredPartsReserveAddressesOnly) {
  // 2^44 bytes in a part that is not there: opening costs nothing, 2^46 + 1 are more than a
  // machine has addresses for, which no honest file claims.
  for (const auto &[bytes, want] :
       {std::pair(uint64_t(1) << 44, "ok"), std::pair((uint64_t(1) << 46) - 4095, "NB0103")}) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(
        R"({"components":{"text":{"config":{}}},"objects":[{"id":"a","kind":"resource",)"
        R"("encoding":"raw_bytes_v1","offset":0,"bytes":4096}],"bindings":{},"uses":[],)"
        R"("files":[{"path":null,"payload_bytes":4096},{"path":"p","payload_bytes":1}]})");
    json["files"][1]["payload_bytes"] = bytes;
    const std::string text = json.dump();
    std::string head = std::string("NINFER\0\3", 8) + leU64(text.size()) + id_ + text;
    head.resize(4096);
    const auto path = write("huge.ninfer", head + std::string(4096, 'a'));
    Result<Artifact> artifact = Artifact::open(path);
    EXPECT_EQ(artifact.ok() ? "ok" : artifact.error().code, want);
    if (!artifact.ok())
      EXPECT_EQ(artifact.error().kind, ErrorKind::BadFile);
    if (artifact.ok()) {
      EXPECT_EQ(asText(*artifact->object(0)), std::string(4096, 'a'));
      EXPECT_EQ(artifact->payload().error().code, "NB0901");
    }
  }
}

} // namespace
