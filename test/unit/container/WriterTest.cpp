// The writer: a copy of the golden artifact, order and size rules, publication, determinism,
// storage signature.
#include "artifact/container/Writer.h"
#include "artifact/container/Reader.h"
#include "artifact/container/Signature.h"
#include "support/Bytes.h"
#include "support/Json.h"
#include "test/conformance/FixtureFile.h"
#include "test/unit/container/TempFolder.h"

#include <csignal>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ninfer;
using namespace ninfer::test;

namespace {

class WriterTest : public TempFolder {
protected:
  void SetUp() override {
    TempFolder::SetUp();
    target_ = folder_ / "out.ninfer";
  }

  /// One resource and one W8 matrix [2,40]: the smallest artifact with a padded tensor.
  static ArtifactPlan smallPlan() {
    ArtifactPlan plan;
    EXPECT_EQ(*plan.addResource("resource/tokenizer.json", 5), 0u);
    EXPECT_EQ(*plan.addTensor("text/w", {2, 40}, Format::W8G32_F16S), 1u);
    plan.bindWhole("text/w", 1);
    plan.bindRange("text/row1", 1, 40, 80);
    Component text;
    text.config = Json::parse(R"({"hidden_size":40,"eps":1e-6})");
    text.resources["tokenizer.json"] = 0;
    plan.directory().components["text"] = text;
    plan.directory().uses.push_back({"text/w", "text/input", ActivationPolicy::A16Only, {}});
    plan.directory().metadata = Json::parse(R"({"name":"small"})");
    return plan;
  }

  static std::vector<std::byte> smallTensor() {
    const EncodedGeometry geometry =
        *encodedGeometry(Format::W8G32_F16S, Layout::RowSplitK128V1, std::vector<uint64_t>{2, 40});
    std::vector<std::byte> object(geometry.totalBytes);
    std::vector<int8_t> codes(80);
    for (size_t i = 0; i < codes.size(); ++i)
      codes[i] = int8_t(i * 7 % 255 - 127);
    const std::vector<uint16_t> scales = {0x3c00, 0x0001, 0x7bff, 0x03ff};
    EXPECT_TRUE(encodeRows(geometry, 0, GroupedRows{codes, scales}, object).ok());
    return object;
  }

  Result<WriteReport> writeSmall(const ArtifactPlan &plan, const std::vector<std::byte> &tensor,
                                 WriterOptions options = {}) {
    Result<ArtifactWriter> writer = ArtifactWriter::create(target_, plan, options);
    if (!writer.ok())
      return writer.takeStatus();
    NINFER_RETURN_IF_ERROR(writer->append(0, asByteSpan("hel")));
    NINFER_RETURN_IF_ERROR(writer->append(0, asByteSpan("lo")));
    NINFER_RETURN_IF_ERROR(writer->append(1, tensor));
    EXPECT_FALSE(std::filesystem::exists(target_))
        << "nothing under the final name before finish()";
    return writer->finish();
  }

  std::filesystem::path target_;
};

TEST_F(WriterTest, CopyOfTheGoldenArtifactHasTheSamePayload) {
  Result<Artifact> golden = Artifact::open(fixturePath("v3_single.ninfer"));
  ASSERT_TRUE(golden.ok());
  ArtifactPlan plan;
  for (const ObjectEntry &object : golden->directory().objects)
    ASSERT_TRUE((object.isTensor
                     ? plan.addTensor(object.id, object.shape, *object.format, *object.layout)
                     : plan.addResource(object.id, object.bytes))
                    .ok());
  plan.directory().components = golden->directory().components;
  plan.directory().bindings = golden->directory().bindings;
  plan.directory().uses = golden->directory().uses;
  plan.directory().metadata = golden->directory().metadata;
  plan.directory().provenance = golden->directory().provenance;
  Result<ArtifactWriter> writer = ArtifactWriter::create(target_, plan);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  for (uint32_t i = 0; i < plan.directory().objects.size(); ++i)
    ASSERT_TRUE(writer->append(i, *golden->object(i)).ok());
  Result<WriteReport> report = writer->finish();
  ASSERT_TRUE(report.ok()) << report.error().message;
  Result<Artifact> copy = Artifact::open(target_);
  ASSERT_TRUE(copy.ok()) << copy.error().message;
  EXPECT_EQ(asText(*copy->payload()), asText(*golden->payload()));
  EXPECT_EQ(storageSignatureText(copy->directory()), storageSignatureText(golden->directory()));
  EXPECT_EQ(report->storageSignature, storageSignature(golden->directory()));
  EXPECT_EQ(report->payloadSha256, sha256(*golden->payload()));
  EXPECT_EQ(report->fileBytes, std::filesystem::file_size(target_));
  EXPECT_EQ(copy->directory().provenance, golden->directory().provenance);
  EXPECT_EQ(copy->directory().components.at("text").config,
            golden->directory().components.at("text").config);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(WriterTest, HeaderAndPadding) {
  ASSERT_TRUE(writeSmall(smallPlan(), smallTensor()).ok());
  const std::string file = readBytes(target_);
  EXPECT_EQ(file.substr(0, 8), std::string("NINFER\0\x03", 8));
  const uint64_t jsonBytes = loadLe64(file.data() + 8);
  EXPECT_EQ((32 + jsonBytes) % 4096, 0u) << "the text is padded to the page";
  EXPECT_EQ(file.substr(32 + jsonBytes, 5), "hello");
  EXPECT_EQ(file.substr(32 + jsonBytes + 5, 251), std::string(251, '\0'));
  const std::string json = file.substr(32, jsonBytes);
  EXPECT_EQ(
      json.rfind(
          "{\"components\":{\"text\":{\"config\":{\"hidden_size\":40,\"eps\":1e-06},\"resources\":",
          0),
      0u)
      << json;
  EXPECT_NE(
      json.find(
          R"("objects":[{"id":"resource/tokenizer.json","encoding":"raw_bytes_v1","offset":0,"bytes":5,"kind":"resource"},{"id":"text/w","shape":[2,40],"format":"q8_g32_fp16","layout":"row_split_k128_v1","offset":256,"bytes":272,"kind":"tensor"}])"),
      std::string::npos)
      << json;
  EXPECT_NE(
      json.find(
          R"("bindings":{"text/row1":{"parts":[{"object":"text/w","range":[40,80]}]},"text/w":{"object":"text/w"}},"uses":[{"parameter":"text/w","input":"text/input","activation_policy":"A16Only"}],"metadata":{"name":"small"},"files":[{"path":null,"payload_bytes":528}]})"),
      std::string::npos)
      << json;
}

/// The page shows this artifact's signature text and the golden file's first bytes; both are
/// checked here.
TEST_F(WriterTest, DocumentedExamples) {
  const std::string page = readBytes(std::string(NINFER_SOURCE_DIR) + "/docs/container.md");
  std::istringstream lines(storageSignatureText(smallPlan().directory()));
  std::string want, line;
  while (std::getline(lines, line))
    want += "    " + line + "\n";
  EXPECT_NE(page.find(want), std::string::npos) << want;
  const std::string file = readBytes(fixturePath("v3_single.ninfer"));
  for (size_t row = 0; row < 3; ++row) {
    char text[128];
    int at = std::snprintf(text, sizeof text, "    %08zx:", row * 16);
    for (size_t i = 0; i < 16; ++i)
      at += std::snprintf(text + at, sizeof text - size_t(at), i % 2 ? "%02x" : " %02x",
                          uint8_t(file[row * 16 + i]));
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
}

TEST_F(WriterTest, SameContentSameBytes) {
  ASSERT_TRUE(writeSmall(smallPlan(), smallTensor()).ok());
  const std::string first = readBytes(target_);
  std::filesystem::remove(target_);
  ASSERT_TRUE(writeSmall(smallPlan(), smallTensor()).ok());
  EXPECT_EQ(readBytes(target_), first);
  std::filesystem::remove(target_);
  std::vector<std::byte> other = smallTensor();
  other[1] ^= std::byte(1);
  ASSERT_TRUE(writeSmall(smallPlan(), other).ok());
  EXPECT_NE(readBytes(target_).substr(16, 16), first.substr(16, 16))
      << "another payload, another artifact id";
}

/// Write calls of this process so far.
uint64_t writeCalls() {
  const std::string io = readBytes("/proc/self/io");
  const size_t at = io.find("syscw: ");
  EXPECT_NE(at, std::string::npos) << io;
  return at == std::string::npos ? 0 : std::stoull(io.substr(at + 7));
}

TEST_F(WriterTest, PayloadGoesOutInBlocks) {
  // Objects that begin and end anywhere in a block, one that spans several, chunks of odd sizes.
  const std::vector<uint64_t> sizes = {5, (uint64_t(2) << 20) - 3, (uint64_t(5) << 20) + 1, 1, uint64_t(2) << 20};
  ArtifactPlan plan;
  for (size_t i = 0; i < sizes.size(); ++i)
    ASSERT_TRUE(plan.addResource("resource/" + std::to_string(i), sizes[i]).ok());
  Component text;
  text.config = Json::parse("{}");
  for (size_t i = 0; i < sizes.size(); ++i)
    text.resources[std::to_string(i)] = uint32_t(i);
  plan.directory().components["text"] = text;
  for (const uint64_t chunk : {uint64_t(4093), uint64_t(3) << 20}) {
    Result<ArtifactWriter> writer = ArtifactWriter::create(target_, plan);
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    const uint64_t before = writeCalls();
    std::vector<std::string> contents;
    uint32_t state = 1;
    for (uint32_t i = 0; i < sizes.size(); ++i) {
      std::string content(sizes[i], '\0');
      for (char &c : content)
        c = char((state = state * 1664525u + 1013904223u) >> 24);
      for (uint64_t at = 0; at < content.size(); at += chunk)
        ASSERT_TRUE(writer->append(i, asByteSpan(std::string_view(content).substr(at, chunk))).ok());
      contents.push_back(std::move(content));
    }
    // 9 MiB are at most six pieces of blocks; whole blocks that came in one chunk are apart from what precedes them.
    EXPECT_LE(writeCalls() - before, 12u) << "chunks of " << chunk;
    ASSERT_TRUE(writer->finish().ok());
    Result<Artifact> artifact = Artifact::open(target_);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    for (uint32_t i = 0; i < sizes.size(); ++i)
      EXPECT_TRUE(asText(*artifact->object(i)) == contents[i]) << "object " << i << ", chunks of " << chunk;
  }
}

// Whatever pieces an object comes in, in one file and in parts.
TEST_F(WriterTest, PiecesOfAnySizeMakeTheSameFiles) {
  ArtifactPlan plan;
  std::vector<std::vector<std::byte>> objects;
  uint32_t state = 1;
  for (const uint64_t bytes : {uint64_t(5), uint64_t(3) << 20, uint64_t(1), (uint64_t(2) << 20) - 7, uint64_t(700001)}) {
    ASSERT_TRUE(plan.addResource("resource/" + std::to_string(objects.size()), bytes).ok());
    std::vector<std::byte> &object = objects.emplace_back(bytes);
    for (std::byte &b : object)
      b = std::byte((state = state * 1664525u + 1013904223u) >> 24);
  }
  ASSERT_TRUE(plan.addTensor("text/w", {2, 40}, Format::W8G32_F16S).ok());
  objects.push_back(smallTensor());
  plan.bindWhole("text/w", 5);
  plan.directory().components["text"].config = Json::object();
  plan.directory().uses.push_back({"text/w", "text/input", ActivationPolicy::A16Only, {}});
  for (const std::optional<uint64_t> limit : {std::optional<uint64_t>(), std::optional<uint64_t>(uint64_t(3) << 20)}) {
    std::vector<std::string> first;
    for (const size_t piece : {size_t(1) << 24, size_t(4096), size_t(99991), size_t(2) << 20}) {
      WriterOptions options;
      options.maxFileBytes = limit;
      Result<ArtifactWriter> writer = ArtifactWriter::create(target_, plan, options);
      ASSERT_TRUE(writer.ok()) << writer.error().render();
      for (uint32_t i = 0; i < objects.size(); ++i)
        for (size_t at = 0; at < objects[i].size(); at += piece)
          ASSERT_TRUE(writer->append(i, std::span(objects[i]).subspan(at, std::min(piece, objects[i].size() - at))).ok());
      const Result<WriteReport> report = writer->finish();
      ASSERT_TRUE(report.ok()) << report.error().render();
      EXPECT_EQ(report->files.size() > 1, limit.has_value());
      std::vector<std::string> files;
      for (const auto &[name, bytes] : report->files)
        files.push_back(name + "\n" + readBytes(folder_ / name));
      if (first.empty())
        first = files;
      EXPECT_EQ(files == first, true) << piece;
      Result<Artifact> artifact = Artifact::open(target_);
      ASSERT_TRUE(artifact.ok()) << artifact.error().render();
      for (uint32_t i = 0; i < objects.size(); ++i) {
        const auto stored = artifact->object(i);
        ASSERT_TRUE(stored.ok());
        EXPECT_TRUE(std::equal(stored->begin(), stored->end(), objects[i].begin(), objects[i].end())) << i;
      }
      std::filesystem::remove(target_);
    }
  }
}

TEST_F(WriterTest, OrderAndSizes) {
  const ArtifactPlan plan = smallPlan();
  const std::vector<std::byte> tensor = smallTensor();
  const auto code = [](Status status) {
    return status.ok() ? std::string("ok") : status.error().code;
  };
  {
    ArtifactWriter writer = ArtifactWriter::create(target_, plan).take();
    EXPECT_EQ(code(writer.append(1, tensor)), "NB0108") << "objects come in order";
    EXPECT_EQ(code(writer.append(0, asByteSpan("hello!"))), "NB0108") << "too many bytes";
    EXPECT_EQ(code(writer.append(0, asByteSpan("hell"))), "ok");
    EXPECT_EQ(code(writer.append(1, tensor)), "NB0108") << "the first object is incomplete";
    EXPECT_EQ(code(writer.append(7, tensor)), "NB0108");
    Result<WriteReport> report = writer.finish();
    ASSERT_FALSE(report.ok());
    EXPECT_NE(
        report.error().message.find("object 'resource/tokenizer.json' (1 of 2) has 4 of 5 bytes"),
        std::string::npos)
        << report.error().message;
  }
  EXPECT_EQ(entries(), 0u);
}

TEST_F(WriterTest, IllegalContentIsNotPublished) {
  std::vector<std::byte> tensor = smallTensor();
  tensor[3] = std::byte(0x80);
  Result<WriteReport> report = writeSmall(smallPlan(), tensor);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, "NB0109");
  EXPECT_NE(
      report.error().message.find("object 'text/w', row 0, group 0, lane 3: code 0x80 (-128)"),
      std::string::npos)
      << report.error().message;
  EXPECT_EQ(entries(), 0u);
  write("out.ninfer", "precious");
  WriterOptions refuse;
  refuse.existing = AtomicFile::Existing::Refuse;
  EXPECT_FALSE(writeSmall(smallPlan(), tensor, refuse).ok());
  EXPECT_EQ(readBytes(target_), "precious");
}

TEST_F(WriterTest, IllegalPlansAreRefusedBeforeWriting) {
  const auto code = [&](const ArtifactPlan &plan) {
    Result<ArtifactWriter> writer = ArtifactWriter::create(target_, plan);
    return writer.ok() ? std::string("ok") : writer.error().code;
  };
  EXPECT_EQ(code(ArtifactPlan()), "NB0105");
  ArtifactPlan plan = smallPlan();
  EXPECT_EQ(plan.addTensor("text/w", {1}, Format::BF16).error().code, "NB0107");
  EXPECT_EQ(plan.addTensor("q", {2, 2}, Format::Q4G64_F16S, Layout::ContiguousLeV1).error().code,
            "NB0201");
  EXPECT_EQ(plan.addTensor("n", {100, 64}, Format::NVFP4).error().code, "NB0202");
  EXPECT_EQ(plan.addResource("e", 0).error().code, "NB0107");
  ObjectEntry kept = plan.directory().objects[1]; // keeps its offset, which is taken
  kept.id = "kept";
  EXPECT_EQ(plan.addObject(kept).error().code, "NB0107");
  kept.offset = UINT64_MAX;
  EXPECT_EQ(plan.addObject(kept).error().code, "NB0107");
  kept.offset = 1024;
  ASSERT_TRUE(plan.addObject(kept).ok());
  EXPECT_EQ(plan.payloadBytes(), 1024 + kept.bytes);
  EXPECT_EQ(code(plan), "ok");
  plan.directory().uses.push_back({"text/none", "x", {}, {}});
  EXPECT_EQ(code(plan), "NB0105");
  plan = smallPlan();
  plan.bindRange("text/bad", 1, 40, 81);
  EXPECT_EQ(code(plan), "NB0105");
  plan = smallPlan();
  plan.directory().objects[1].id = "bad \xff";
  EXPECT_EQ(code(plan), "NB0107") << "a name that is not UTF-8";
  EXPECT_EQ(entries(), 0u);
}

TEST_F(WriterTest, KillDuringWritingLeavesNothing) {
  const pid_t child = fork();
  if (child == 0) {
    Result<ArtifactWriter> writer = ArtifactWriter::create(target_, smallPlan());
    if (writer.ok() && writer->append(0, asByteSpan("hello")).ok())
      kill(getpid(), SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(std::filesystem::exists(target_));
  ASSERT_TRUE(writeSmall(smallPlan(), smallTensor()).ok());
  EXPECT_EQ(entries(), 1u);
}

TEST_F(WriterTest, FullDiskIsReportedAtOnce) {
  const pid_t child = fork();
  if (child == 0) { // a file size limit stands for the full disk
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    Result<ArtifactWriter> writer = ArtifactWriter::create(target_, smallPlan());
    _exit(!writer.ok() && writer.error().code == "NB0906" &&
                  writer.error().message.find("out.ninfer") != std::string::npos
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(entries(), 0u);
}

TEST(Signature, CoversStorageAndNothingElse) {
  Result<Artifact> golden = Artifact::open(fixturePath("v3_single.ninfer"));
  const Directory base = golden->directory();
  const auto differs = [&](auto change) {
    Directory directory = base;
    change(directory);
    return storageSignature(directory) != storageSignature(base);
  };
  EXPECT_TRUE(differs([](Directory &d) { d.objects[5].id += "x"; }));
  EXPECT_TRUE(differs([](Directory &d) { d.objects[5].shape[0] += 1; }));
  EXPECT_TRUE(differs([](Directory &d) { d.objects[5].formatName = "fp32"; }));
  EXPECT_TRUE(differs([](Directory &d) { d.objects[5].layoutName = "row_scale_v1"; }));
  EXPECT_TRUE(differs([](Directory &d) { d.objects[5].offset += 256; }));
  EXPECT_TRUE(differs([](Directory &d) { d.objects[5].bytes += 1; }));
  EXPECT_TRUE(differs([](Directory &d) { d.bindings.begin()->second.parts[0].end -= 1; }));
  EXPECT_TRUE(differs([](Directory &d) { d.bindings.erase(d.bindings.begin()); }));
  EXPECT_TRUE(differs([](Directory &d) {
    d.uses[0].policy = ActivationPolicy::AllowA4;
    d.uses[1].policy = {};
  }));
  EXPECT_TRUE(differs([](Directory &d) { d.components.at("text").config["hidden_size"] = 129; }));
  EXPECT_TRUE(differs([](Directory &d) { d.components.at("text").proposal->rows = 17; }));
  EXPECT_TRUE(differs([](Directory &d) { d.framing = 2; }));
  EXPECT_FALSE(differs([](Directory &d) { d.metadata["name"] = "another"; }));
  EXPECT_FALSE(differs([](Directory &d) { d.provenance = Json::object(); }));
  EXPECT_FALSE(differs([](Directory &d) { d.artifactId[0] ^= 1; }));
  EXPECT_FALSE(differs([](Directory &d) { std::swap(d.uses[0], d.uses[3]); }));
  EXPECT_FALSE(differs([](Directory &d) {
    Json &config = d.components.at("text").config;
    Json reversed = Json::object();
    std::vector<std::string> names;
    for (auto it = config.begin(); it != config.end(); ++it)
      names.insert(names.begin(), it.key());
    for (const std::string &name : names)
      reversed[name] = config[name];
    config = reversed;
  })) << "order of members";
}

} // namespace
