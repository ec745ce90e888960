// The reader against the golden artifact, damaged copies of it, foreign framings, and a huge sparse
// file.
#include "artifact/container/Reader.h"
#include "artifact/container/Verify.h"
#include "support/Bytes.h"
#include "support/Sha256.h"
#include "test/conformance/FixtureFile.h"
#include "test/unit/container/TempFolder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

using namespace ninfer;
using namespace ninfer::test;

namespace {

std::string errorOf(const Result<Artifact> &artifact) {
  return artifact.ok() ? "ok" : artifact.error().code + " " + artifact.error().message;
}

TEST(Reader, GoldenArtifact) {
  const nlohmann::json expected = readJson("v3_single.json");
  Result<Artifact> artifact = Artifact::open(fixturePath("v3_single.ninfer"));
  ASSERT_TRUE(artifact.ok()) << errorOf(artifact);
  const Directory &directory = artifact->directory();
  EXPECT_EQ(directory.framing, 3);
  EXPECT_EQ(toHex(directory.artifactId), expected["artifact_id_hex"].get<std::string>());
  EXPECT_EQ(artifact->payloadOffset(), expected["payload_offset"].get<uint64_t>());
  EXPECT_EQ(artifact->payloadBytes(), expected["payload_bytes"].get<uint64_t>());
  ASSERT_EQ(directory.objects.size(), expected["objects"].size());
  EXPECT_TRUE(checkAllObjects(directory, "x").ok());
  for (size_t i = 0; i < directory.objects.size(); ++i) {
    const nlohmann::json &object = expected["objects"][i];
    SCOPED_TRACE(object["id"].get<std::string>());
    EXPECT_EQ(directory.objects[i].id, object["id"].get<std::string>());
    EXPECT_EQ(directory.objects[i].isTensor, object["kind"] == "tensor");
    EXPECT_EQ(directory.objects[i].offset, object["offset"].get<uint64_t>());
    EXPECT_EQ(directory.objects[i].bytes, object["bytes"].get<uint64_t>());
    Result<std::span<const std::byte>> bytes = artifact->object(i);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(toHex(sha256(*bytes)), object["payload_sha256"].get<std::string>());
    if (directory.objects[i].isTensor) {
      EXPECT_EQ(directory.objects[i].shape, object["shape"].get<std::vector<uint64_t>>());
      EXPECT_EQ(artifact->geometry(i)->totalBytes, object["bytes"].get<uint64_t>());
    } else {
      EXPECT_EQ(std::string(asText(*bytes)), leBytes(hexWords(object["bytes_hex"], 2), 1));
      EXPECT_FALSE(artifact->geometry(i).ok());
    }
  }
  EXPECT_EQ(directory.uses.size(), 30u);
  EXPECT_EQ(directory.components.count("mtp"), 1u);
  EXPECT_TRUE(directory.components.at("text").proposal->indexed);
  EXPECT_EQ(directory.components.at("text").proposal->rows, 16u);
}

/// Elements of a binding as the fixture hashes them: little-endian binary32 (or int32 words) in
/// part order.
std::string boundBytes(const Artifact &artifact, const Binding &binding, bool raw) {
  std::string out;
  for (const RangePart &part : binding.parts) {
    const std::span<const std::byte> object = *artifact.object(part.object);
    if (raw) {
      out += std::string(asText(object)).substr(part.begin * 4, (part.end - part.begin) * 4);
      continue;
    }
    std::vector<float> values(part.end - part.begin);
    decodeElements(*artifact.geometry(part.object), object, part.begin, part.end, values);
    out += leBytes(floatBits(values), 4);
  }
  return out;
}

TEST(Reader, GoldenBindings) {
  const nlohmann::json expected = readJson("v3_single.json");
  Result<Artifact> artifact = Artifact::open(fixturePath("v3_single.ninfer"));
  ASSERT_TRUE(artifact.ok());
  const Directory &directory = artifact->directory();
  ASSERT_EQ(directory.bindings.size(), expected["bindings"].size());
  for (const auto &[name, binding] : directory.bindings) {
    SCOPED_TRACE(name);
    const nlohmann::json &want = expected["bindings"][name];
    ASSERT_EQ(binding.parts.size(), want["parts"].size());
    for (size_t i = 0; i < binding.parts.size(); ++i) {
      EXPECT_EQ(directory.objects[binding.parts[i].object].id,
                want["parts"][i][0].get<std::string>());
      EXPECT_EQ(binding.parts[i].begin, want["parts"][i][1].get<uint64_t>());
      EXPECT_EQ(binding.parts[i].end, want["parts"][i][2].get<uint64_t>());
    }
    EXPECT_EQ(toHex(sha256(boundBytes(*artifact, binding, want["dtype"] == "int32"))),
              want["logical_le_sha256"].get<std::string>());
  }
  size_t auxiliaries = 0;
  for (const Use &use : directory.uses)
    for (const auto &[role, binding] : use.auxiliaries) {
      const std::string key = use.parameter + " @ " + use.input + " / " + role;
      EXPECT_EQ(boundBytes(*artifact, binding, true),
                leBytes(hexWords(expected["auxiliary_values_f32"][key], 8), 4))
          << key;
      ++auxiliaries;
    }
  EXPECT_EQ(auxiliaries, expected["auxiliary_values_f32"].size());
}

TEST(Reader, GoldenContentVerifies) {
  Result<Artifact> artifact = Artifact::open(fixturePath("v3_single.ninfer"));
  uint64_t bytes = 0;
  VerifyOptions options;
  options.onBytes = [&](uint64_t count) { bytes += count; };
  Result<VerifyReport> report = verifyArtifact(*artifact, options);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->ok()) << report->findings.front().text();
  EXPECT_EQ(report->objects, 49u);
  EXPECT_EQ(report->bytes, artifact->payloadBytes());
  EXPECT_EQ(bytes, artifact->payloadBytes());
}

class DamagedFile : public TempFolder {
protected:
  void SetUp() override {
    TempFolder::SetUp();
    file_ = readBytes(fixturePath("v3_single.ninfer"));
  }
  std::string open(const std::string &bytes) {
    return errorOf(Artifact::open(write("damaged.ninfer", bytes)));
  }
  std::string file_;
};

TEST_F(DamagedFile, Framings) {
  const auto withMagic = [&](const char *magic) { return std::string(magic, 8) + file_.substr(8); };
  EXPECT_EQ(open(file_), "ok");
  // The framing number decides which schema the text must have.
  EXPECT_NE(open(withMagic("NINFER\0\x01")).find("NB010"), std::string::npos);
  EXPECT_NE(open(withMagic("NINFER\0\x02")).find("NB010"), std::string::npos);
  EXPECT_NE(open(withMagic("NINFER\0\0")).find("framing 0 is not supported"), std::string::npos);
  EXPECT_NE(open(withMagic("NINFER\0\x04")).find("framing 4 is not supported"), std::string::npos);
  EXPECT_NE(open(withMagic("NINPRT\0\x03")).find("NB0101"), std::string::npos);
  EXPECT_NE(open(withMagic("GGUF\3\0\0\0")).find("not a .ninfer file"), std::string::npos);
}

TEST_F(DamagedFile, EveryTruncationIsRefused) {
  for (size_t length : {0, 1, 7, 8, 16, 31, 32, 33, 1000, 16383, 16384, 16385, 293519})
    EXPECT_NE(open(file_.substr(0, length)), "ok") << length;
  EXPECT_EQ(open(file_.substr(0, 293519)).substr(0, 6), "NB0103");
  EXPECT_EQ(open(file_ + std::string(1, '\0')).substr(0, 6), "NB0103");
  EXPECT_NE(errorOf(Artifact::open(folder_ / "missing.ninfer")).find("NB0901"), std::string::npos);
}

TEST_F(DamagedFile, HeaderLengths) {
  const auto withLength = [&](uint64_t length) {
    std::string bytes = file_;
    storeLe64(bytes.data() + 8, length);
    return open(bytes);
  };
  for (uint64_t length :
       {uint64_t(0), uint64_t(file_.size() - 31), UINT64_MAX, UINT64_MAX - 31, uint64_t(1) << 63})
    EXPECT_EQ(withLength(length).substr(0, 6), "NB0103") << length;
  EXPECT_EQ(withLength(100).substr(0, 6), "NB0104") << "JSON cut short";
  const size_t end = file_.find_last_not_of(' ', 16383) + 1;
  EXPECT_EQ(withLength(end - 32), "ok")
      << "white space behind the JSON is optional within the page";
}

TEST_F(DamagedFile, MutatedDirectoriesNeverCrash) {
  std::mt19937 random(5);
  const std::string text = file_.substr(32, file_.find_last_not_of(' ', 16383) + 1 - 32);
  size_t refused = 0;
  const std::string spice = "\"{}[],:0129-+.eEtfn\\u\0 \xff";
  for (int i = 0; i < 400; ++i) {
    std::string mutated = text;
    for (int edits = 1 + int(random() % 3); edits > 0; --edits) {
      const size_t at = random() % mutated.size();
      switch (random() % 3) {
      case 0:
        mutated[at] = spice[random() % spice.size()];
        break;
      case 1:
        mutated.erase(at, 1 + random() % 20);
        break;
      default:
        mutated.insert(at, text.substr(random() % text.size(), random() % 40));
      }
    }
    Result<Directory> directory = parseDirectory(mutated, "x.ninfer");
    refused += !directory.ok();
    if (directory.ok())
      (void)checkAllObjects(*directory, "x.ninfer").ok();
    else
      EXPECT_TRUE(directory.error().code == "NB0104" || directory.error().code == "NB0105")
          << directory.error().code;
  }
  EXPECT_GT(refused, 200u);
}

uint64_t residentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * uint64_t(sysconf(_SC_PAGESIZE));
}

TEST_F(DamagedFile, OpeningDoesNotReadThePayload) {
  // 68 GiB of payload in a sparse file; only its last row is touched.
  const uint64_t n = uint64_t(1) << 20, k = uint64_t(1) << 16;
  const uint64_t bytes = n * k + n * k / 32 * 2;
  const std::string json =
      R"({"components":{"text":{"config":{}}},"objects":[{"id":"w","kind":"tensor","shape":[)" +
      std::to_string(n) + "," + std::to_string(k) +
      R"(],"format":"q8_g32_fp16","layout":"row_split_k128_v1","offset":0,"bytes":)" +
      std::to_string(bytes) +
      R"(}],"bindings":{},"uses":[],"files":[{"path":null,"payload_bytes":)" +
      std::to_string(bytes) + "}]}";
  std::string head("NINFER\0\x03", 8);
  head.resize(32);
  storeLe64(head.data() + 8, json.size());
  head += json;
  head.resize(4096);
  const auto path = write("huge.ninfer", head);
  ASSERT_EQ(truncate(path.c_str(), off_t(4096 + bytes)), 0);
  const uint64_t before = residentBytes();
  Result<Artifact> artifact = Artifact::open(path);
  ASSERT_TRUE(artifact.ok()) << errorOf(artifact);
  Result<std::span<const std::byte>> object = artifact->object(0);
  ASSERT_TRUE(object.ok());
  std::vector<float> row(k);
  decodeRow(*artifact->geometry(0), *object, n - 1, row);
  EXPECT_EQ(row.back(), 0.0f);
  EXPECT_LT(residentBytes() - before, uint64_t(16) << 20);
}

} // namespace
