// Framings 1 and 2: the golden file word for word, every verdict of their gates, names per framing,
// limits, and framing 2 as it is written.
#include "artifact/container/Limits.h"
#include "artifact/container/Names.h"
#include "artifact/container/Reader.h"
#include "artifact/container/Writer.h"
#include "support/Bytes.h"
#include "support/Sha256.h"
#include "test/conformance/FixtureFile.h"
#include "test/unit/container/TempFolder.h"

#include <gtest/gtest.h>
#include <unistd.h>

using namespace ninfer;
using namespace ninfer::test;

namespace {

std::string errorOf(const Result<Artifact> &artifact) {
  return artifact.ok() ? "ok" : artifact.error().code + " " + artifact.error().message;
}

TEST(Framing2, GoldenArtifact) {
  const nlohmann::json expected = readJson("v2_nine.json");
  const std::string file = readBytes(fixturePath("v2_nine.ninfer"));
  ASSERT_EQ(file.size(), expected["file_bytes"].get<uint64_t>());
  ASSERT_EQ(toHex(sha256(file)), expected["file_sha256"].get<std::string>());
  Result<Artifact> artifact = Artifact::open(fixturePath("v2_nine.ninfer"));
  ASSERT_TRUE(artifact.ok()) << errorOf(artifact);
  const Directory &directory = artifact->directory();
  EXPECT_EQ(directory.framing, 2);
  ASSERT_TRUE(directory.identity);
  EXPECT_EQ(directory.identity->modelId, expected["identity"]["model_id"].get<std::string>());
  EXPECT_EQ(directory.identity->weightsId, expected["identity"]["weights_id"].get<std::string>());
  EXPECT_EQ(artifact->payloadOffset(), expected["payload_offset"].get<uint64_t>());
  EXPECT_EQ(artifact->payloadBytes(), file.size() - artifact->payloadOffset());
  EXPECT_TRUE(directory.components.empty() && directory.bindings.empty() && directory.uses.empty());
  ASSERT_EQ(directory.objects.size(), expected["objects"].size());
  for (size_t i = 0; i < directory.objects.size(); ++i) {
    const nlohmann::json &want = expected["objects"][i];
    const ObjectEntry &object = directory.objects[i];
    SCOPED_TRACE(want["name"].get<std::string>());
    EXPECT_EQ(object.id, want["name"].get<std::string>());
    EXPECT_EQ(object.isTensor, want["kind"] == "tensor");
    EXPECT_EQ(object.offset, want["offset"].get<uint64_t>());
    EXPECT_EQ(object.bytes, want["bytes"].get<uint64_t>());
    const auto bytes = artifact->object(i);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(toHex(sha256(*bytes)), want["payload_sha256"].get<std::string>());
    if (object.isTensor) {
      EXPECT_EQ(object.shape, want["shape"].get<std::vector<uint64_t>>());
      EXPECT_EQ(object.formatName, want["format"].get<std::string>());
      EXPECT_EQ(object.layoutName, want["layout"].get<std::string>());
      EXPECT_EQ(artifact->geometry(i)->totalBytes, object.bytes);
    } else {
      EXPECT_EQ(object.encoding, want["encoding"].get<std::string>());
      EXPECT_EQ(std::string(asText(*bytes)), leBytes(hexWords(want["bytes_hex"], 2), 1));
    }
  }
  const auto report = verifyArtifact(*artifact);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->ok()) << report->findings.front().text();
}

const char kBase2[] =
    R"({"identity":{"model_id":"m","weights_id":"w"},"objects":[)"
    R"({"name":"r","kind":"resource","encoding":"raw-bytes-v1","offset":0,"bytes":5},)"
    R"({"name":"t","kind":"tensor","shape":[2,130],"format":"Q5G64_F16S",)"
    R"("layout":"row-split-k128-v1","offset":256,"bytes":528},)"
    R"({"name":"s","kind":"tensor","shape":[],"format":"FP32","layout":"contiguous-le-v1",)"
    R"("offset":1024,"bytes":4}]})";
constexpr uint64_t kBasePayload = 1028;

std::string base1() {
  std::string text = kBase2;
  const std::string from = R"("identity":{"model_id":"m","weights_id":"w"})";
  return text.replace(text.find(from), from.size(), R"("model_id":"m")");
}

/// Verdict of the base directory of that framing with one text replaced: "ok", or id and message.
std::string verdict(int framing, const std::string &from, const std::string &to,
                    uint64_t payload = kBasePayload) {
  std::string text = framing == 1 ? base1() : kBase2;
  const size_t at = text.find(from);
  if (at == std::string::npos)
    return "no such text: " + from;
  text.replace(at, from.size(), to);
  const Result<Directory> directory = parseIdentityDirectory(text, framing, payload, "x.ninfer");
  return directory.ok() ? "ok" : directory.error().code + " " + directory.error().message;
}

TEST(Framing12, Verdicts) {
  struct Case {
    const char *from, *to, *want;
  };
  const Case cases[] = {
      {"\"objects\"", "\"objects\"", "ok"},
      {"[2,130]", "[2,130 ]", "ok"},
      {"}]}", "}]}\n\t ", "ok"},
      {"}]}", "}]} x", "NB0104"},
      {"}]}", "}]}{}", "NB0104"},
      {"}]}", "}],\"extra\":1}", "unknown member 'extra'"},
      {"\"objects\":[", "\"files\":[],\"objects\":[", "unknown member 'files'"},
      {"\"objects\":[", "\"objects\":[],\"objects\":[", "duplicate member 'objects'"},
      {"\"bytes\":528", "\"bytes\":528,\"bytes\":528", "duplicate member 'bytes'"},
      {"\"bytes\":528", "\"bytes\":528,\"b\\u0079tes\":528", "duplicate member 'bytes'"},
      {"\"m\"", "\"\"", "model_id"},
      {"\"m\"", "7", "model_id"},
      {"\"name\":\"r\",", "", "missing member 'name'"},
      {"\"name\":\"r\"", "\"name\":\"\"", "objects[0].name"},
      {"\"name\":\"s\"", "\"name\":\"t\"", "duplicate object name 't'"},
      {"\"kind\":\"resource\"", "\"kind\":\"blob\"", "object 'r'.kind"},
      {"\"kind\":\"tensor\",", "", "missing member 'kind'"},
      {"\"shape\":[2,130],", "", "missing member 'shape'"},
      {"\"encoding\":\"raw-bytes-v1\",", "", "missing member 'encoding'"},
      {"\"encoding\":\"raw-bytes-v1\"", "\"encoding\":\"raw-bytes-v1\",\"shape\":[]",
       "unknown member 'shape'"},
      {"raw-bytes-v1", "raw_bytes_v1", "unknown encoding 'raw_bytes_v1'"},
      {"raw-bytes-v1", "gzip", "unknown encoding 'gzip'"},
      {"Q5G64_F16S", "q5_g64_fp16", "unknown format 'q5_g64_fp16'"},
      {"Q5G64_F16S", "q5g64_f16s", "unknown format 'q5g64_f16s'"},
      {"row-split-k128-v1", "row_split_k128_v1", "unknown layout 'row_split_k128_v1'"},
      {"row-split-k128-v1", "contiguous-le-v1", "not a registered pair"},
      {"[2,130]", "[2,130.0]", "shape[1]"},
      {"[2,130]", "[2,1.3e2]", "shape[1]"},
      {"[2,130]", "[true,130]", "shape[0]"},
      {"[2,130]", "[-2,130]", "shape[0]"},
      {"[2,130]", "[0,130]", "shape[0]"},
      {"[2,130]", "[\"2\",130]", "shape[0]"},
      {"[2,130]", "{}", "shape"},
      {"[2,130]", "[2,131]", "ok"}, // one padded row of 256 either way
      {"[2,130]", "[3,130]", "expected 792 encoded bytes, got 528"},
      {"[2,130]", "[4294967296,4294967296]", "object 't'"},
      {"[2,130]", "[9007199254740993,130]", "object 't'"},
      {"[2,130]", "[18446744073709551616,130]", "shape[0]"},
      {"[]", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "ok"},
      {"[]", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "0 to 16 dimensions"},
      {"\"bytes\":528", "\"bytes\":527", "expected 528 encoded bytes, got 527"},
      {"\"bytes\":528", "\"bytes\":0", "object 't'.bytes"},
      {"\"bytes\":528", "\"bytes\":528.0", "object 't'.bytes"},
      {"\"bytes\":528", "\"bytes\":-1", "object 't'.bytes"},
      {"\"bytes\":528", "\"bytes\":true", "object 't'.bytes"},
      {"\"bytes\":528", "\"bytes\":null", "object 't'.bytes"},
      {"\"bytes\":5}", "\"bytes\":18446744073709551615}",
       "ends at payload byte 18446744073709551615"},
      {"\"offset\":256", "\"offset\":-0", "object 't'.offset"},
      {"\"offset\":256", "\"offset\":256e0", "object 't'.offset"},
      {"\"offset\":256", "\"offset\":257", "offset 257 is not a multiple of 256"},
      {"\"offset\":256", "\"offset\":0", "before the end of the previous object, 5"},
      {"\"offset\":1024", "\"offset\":1280", "ends at payload byte 1284"},
      {"\"offset\":1024", "\"offset\":18446744073709551360", "ends at payload byte"},
      {"\"offset\":1024", "\"offset\":18446744073709551615", "exceeds 2^64-1"},
      {"\"objects\":[{", "\"objects\":[7,{", "objects[0]: expected object"},
      {"\"m\"", "\"\\ud800\"", "NB0104"},
      {"\"m\"", "\"\\u0000\"", "model_id"},
      {"528", "NaN", "NB0104"},
  };
  for (int framing : {1, 2})
    for (const Case &test : cases) {
      const std::string got = verdict(framing, test.from, test.to);
      EXPECT_NE(got.find(test.want), std::string::npos)
          << framing << ": " << test.from << " -> " << test.to << ": " << got;
      if (std::string(test.want) == "ok") {
        EXPECT_EQ(got, "ok");
      } else if (got.rfind("NB0104", 0) != 0) {
        EXPECT_NE(got.find("x.ninfer: "), std::string::npos) << got;
      }
    }
  for (int framing : {1, 2}) {
    const std::string text = framing == 1 ? base1() : kBase2;
    std::string none = text.substr(0, text.find("[{")) + "[]}";
    EXPECT_FALSE(parseIdentityDirectory(none, framing, 100, "x").ok()) << "no objects";
    EXPECT_FALSE(parseIdentityDirectory("[]", framing, 100, "x").ok());
    EXPECT_FALSE(parseIdentityDirectory("\xef\xbb\xbf" + text, framing, kBasePayload, "x").ok());
    EXPECT_TRUE(parseIdentityDirectory(text, framing, kBasePayload + 1000, "x").ok())
        << "bytes behind the last object are ignored";
    EXPECT_FALSE(parseIdentityDirectory(text, framing, kBasePayload - 1, "x").ok());
  }
  EXPECT_NE(verdict(2, "\"weights_id\":\"w\"", "\"weights_id\":null").find("weights_id"),
            std::string::npos);
  EXPECT_NE(verdict(2, ",\"weights_id\":\"w\"", "").find("missing member 'weights_id'"),
            std::string::npos);
  EXPECT_NE(verdict(2, "\"weights_id\":\"w\"", "\"weights_id\":\"w\",\"x\":1").find("unknown"),
            std::string::npos);
  // Each framing has its own root.
  EXPECT_FALSE(parseIdentityDirectory(kBase2, 1, kBasePayload, "x").ok());
  EXPECT_FALSE(parseIdentityDirectory(base1(), 2, kBasePayload, "x").ok());
  EXPECT_FALSE(parseDirectory(kBase2, "x").ok());
}

TEST(Framing12, TheFirstBrokenRuleIsTheError) {
  // Registry before names before ranges, as the fields come.
  std::string text = kBase2;
  const auto replace = [&](const std::string &from, const std::string &to) {
    text.replace(text.find(from), from.size(), to);
  };
  const auto message = [&] {
    return parseIdentityDirectory(text, 2, kBasePayload, "x").error().message;
  };
  replace("\"offset\":256", "\"offset\":257");
  EXPECT_NE(message().find("multiple of 256"), std::string::npos);
  replace("\"offset\":1024", "\"offset\":700");
  EXPECT_NE(message().find("multiple of 256"), std::string::npos) << "in order of the objects";
  replace("\"name\":\"s\"", "\"name\":\"t\"");
  EXPECT_NE(message().find("duplicate object name"), std::string::npos) << message();
  replace("FP32", "FP31");
  EXPECT_NE(message().find("unknown format 'FP31'"), std::string::npos) << message();
  replace("\"model_id\":\"m\"", "\"model_id\":\"\"");
  EXPECT_NE(message().find("model_id"), std::string::npos) << message();
}

TEST(Names, OneTableThreeSpellings) {
  for (const FormatInfo &info : allFormats()) {
    const bool inFraming1 =
        info.format != Format::NVFP4 && info.format != Format::FP8_E4M3FN_ROW_BF16S;
    EXPECT_EQ(formatOfName(1, info.canonical),
              inFraming1 ? std::optional(info.format) : std::nullopt);
    EXPECT_EQ(formatOfName(2, info.canonical), info.format);
    EXPECT_EQ(formatOfName(3, info.v3), info.format);
    for (int framing : {1, 2})
      EXPECT_EQ(formatOfName(framing, info.v3), std::nullopt) << info.v3;
    EXPECT_EQ(formatOfName(3, info.canonical), std::nullopt);
  }
  for (const LayoutInfo &info : allLayouts()) {
    const bool inFraming1 =
        info.canonical == "contiguous-le-v1" || info.canonical == "row-split-k128-v1";
    EXPECT_EQ(layoutOfName(1, info.canonical),
              inFraming1 ? std::optional(info.layout) : std::nullopt);
    EXPECT_EQ(layoutOfName(2, info.canonical), info.layout);
    EXPECT_EQ(layoutOfName(3, info.v3), info.layout);
    EXPECT_EQ(layoutOfName(2, info.v3), std::nullopt);
    EXPECT_EQ(layoutOfName(3, info.canonical), std::nullopt);
  }
  EXPECT_EQ(layoutOfName(3, "block_scale_k16_m128x4_v1"), Layout::BlockScaleK16M128x4V1);
  EXPECT_EQ(layoutOfName(3, "blockscale_k16_m128x4_v1"), std::nullopt);
  EXPECT_EQ(listFormatNames(1), "BF16, FP32, I32, Q4G64_F16S, Q5G64_F16S, Q6G64_F16S, W8G32_F16S");
}

class Framing12File : public TempFolder {
protected:
  static std::string wrap(int framing, const std::string &json, uint64_t payload,
                          std::optional<uint64_t> jsonBytes = {}) {
    std::string bytes("NINFER\0\0", 8);
    bytes[7] = char(framing);
    bytes.resize(16);
    storeLe64(bytes.data() + 8, jsonBytes.value_or(json.size()));
    bytes += json;
    bytes.resize((bytes.size() + 4095) / 4096 * 4096 + payload);
    return bytes;
  }
};

TEST_F(Framing12File, Framing1Opens) {
  std::string bytes = wrap(1, base1(), kBasePayload);
  bytes.replace(4096, 5, "hello");
  Result<Artifact> artifact = Artifact::open(write("one.ninfer", bytes));
  ASSERT_TRUE(artifact.ok()) << errorOf(artifact);
  EXPECT_EQ(artifact->directory().framing, 1);
  EXPECT_EQ(artifact->directory().identity->modelId, "m");
  EXPECT_EQ(artifact->directory().identity->weightsId, "");
  EXPECT_EQ(asText(*artifact->object(0)), "hello");
  EXPECT_EQ(artifact->object(1)->size(), 528u);
  EXPECT_EQ(artifact->payload()->size(), kBasePayload);
}

TEST_F(Framing12File, HeaderGates) {
  const auto open = [&](const std::string &bytes) {
    return errorOf(Artifact::open(write("x.ninfer", bytes)));
  };
  for (int framing : {1, 2}) {
    const std::string json = framing == 1 ? base1() : kBase2;
    const std::string good = wrap(framing, json, kBasePayload);
    EXPECT_EQ(open(good), "ok");
    for (size_t length : {8, 15, 16, 17, 100, 4095})
      EXPECT_EQ(open(good.substr(0, length)).substr(0, 6), "NB0103") << length;
    EXPECT_EQ(open(good.substr(0, 4096)).substr(0, 6), "NB0105") << "no payload at all";
    EXPECT_EQ(open(good + "tail"), "ok") << "bytes behind the last object";
    for (uint64_t length : {uint64_t(0), uint64_t(good.size() - 15), UINT64_MAX, UINT64_MAX - 15})
      EXPECT_EQ(open(wrap(framing, json, kBasePayload, length)).substr(0, 6), "NB0103") << length;
    EXPECT_EQ(open(wrap(framing, json, kBasePayload, json.size() - 1)).substr(0, 6), "NB0104");
    EXPECT_EQ(open(wrap(framing, json, kBasePayload, json.size() + 1)).substr(0, 6), "NB0104")
        << "a zero byte behind the JSON is no white space";
    std::string padding = good;
    padding[16 + json.size()] = 'x';
    EXPECT_EQ(open(padding), "ok") << "bytes between JSON and payload are not inspected";
  }
}

// --- limits, equal on both sides
// -------------------------------------------------------------------

std::string resourceJson(const std::string &id, size_t offset) {
  return R"({"id":")" + id + R"(","kind":"resource","encoding":"raw_bytes_v1","offset":)" +
         std::to_string(offset) + R"(,"bytes":1})";
}

std::string directoryJson(const std::string &objects, size_t payload,
                          const std::string &moreFiles = "") {
  return R"({"components":{"text":{"config":{}}},"objects":[)" + objects +
         R"(],"bindings":{},"uses":[],"files":[{"path":null,"payload_bytes":)" +
         std::to_string(payload) + "}" + moreFiles + "]}";
}

ArtifactPlan planOf(size_t resources, const std::string &name = "") {
  ArtifactPlan plan;
  plan.directory().components["text"].config = nlohmann::ordered_json::object();
  for (size_t i = 0; i < resources; ++i)
    EXPECT_TRUE(plan.addResource(i == 0 && !name.empty() ? name : std::to_string(i), 1).ok());
  return plan;
}

class LimitTest : public TempFolder {
protected:
  Error refusal(const ArtifactPlan &plan) {
    Result<ArtifactWriter> writer = ArtifactWriter::create(folder_ / "x.ninfer", plan);
    EXPECT_FALSE(writer.ok());
    EXPECT_EQ(entries(), 0u);
    return writer.ok() ? Error() : writer.takeStatus().takeError();
  }
};

TEST_F(LimitTest, NameLength) {
  for (const bool tooLong : {false, true}) {
    const std::string name(kMaxNameBytes + tooLong, 'n');
    Result<Directory> read = parseDirectory(directoryJson(resourceJson(name, 0), 1), "x.ninfer");
    ASSERT_EQ(read.ok(), !tooLong);
    const ArtifactPlan plan = planOf(1, name);
    if (tooLong) {
      EXPECT_EQ(refusal(plan).message, read.error().message);
      EXPECT_NE(read.error().message.find("at most 4096"), std::string::npos);
    } else {
      EXPECT_TRUE(ArtifactWriter::create(folder_ / "x.ninfer", plan).ok());
    }
  }
}

TEST_F(LimitTest, NumberOfObjects) {
  std::string objects;
  for (size_t i = 0; i < kMaxObjects; ++i)
    objects += (i ? "," : "") + resourceJson(std::to_string(i), i);
  EXPECT_TRUE(parseDirectory(directoryJson(objects, kMaxObjects + 1), "x.ninfer").ok());
  objects += "," + resourceJson(std::to_string(kMaxObjects), kMaxObjects);
  Result<Directory> read = parseDirectory(directoryJson(objects, kMaxObjects + 1), "x.ninfer");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, "x.ninfer: objects: 262145 members, at most 262144 are allowed");
  EXPECT_EQ(refusal(planOf(kMaxObjects + 1)).message, read.error().message);
}

TEST_F(LimitTest, NumberAndNamesOfFiles) {
  const auto read = [](size_t count, const std::string &suffix) {
    std::string more;
    for (size_t i = 1; i < count; ++i)
      more += R"(,{"path":"p)" + std::to_string(i) + suffix + R"(","payload_bytes":1})";
    const Result<Directory> directory =
        parseDirectory(directoryJson(resourceJson("r", 0), 1, more), "x.ninfer");
    return directory.ok() ? "ok" : directory.error().message;
  };
  EXPECT_EQ(read(kMaxFiles, ""), "ok");
  EXPECT_NE(read(kMaxFiles + 1, "").find("at most 16384"), std::string::npos);
  EXPECT_EQ(read(2, std::string(253, 'x')), "ok");
  EXPECT_NE(read(2, std::string(254, 'x')).find("at most 255"), std::string::npos);
  // The writer: more parts than that, and an entry name that leaves no room for a part's.
  ArtifactPlan plan;
  plan.directory().components["text"].config = nlohmann::ordered_json::object();
  ASSERT_TRUE(plan.addResource("r", (uint64_t(kMaxFiles) + 1) * 4096).ok());
  WriterOptions options;
  options.maxFileBytes = 8192;
  Result<ArtifactWriter> writer = ArtifactWriter::create(folder_ / "x.ninfer", plan, options);
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.error().code, "NB0111");
  EXPECT_NE(writer.error().message.find("at most 16383 are allowed"), std::string::npos)
      << writer.error().message;
  options.maxFileBytes = uint64_t(1) << 26;
  writer = ArtifactWriter::create(folder_ / (std::string(229, 'x')), plan, options);
  ASSERT_FALSE(writer.ok());
  EXPECT_NE(writer.error().message.find("at most 255"), std::string::npos)
      << writer.error().message;
  EXPECT_EQ(entries(), 0u);
}

TEST_F(LimitTest, DirectoryBytes) {
  for (const auto &[magic, header] : {std::pair("NINFER\0\3", 32), std::pair("NINFER\0\2", 16)}) {
    std::string head(magic, 8);
    head.resize(size_t(header));
    storeLe64(head.data() + 8, kMaxDirectoryBytes + 1);
    const auto path = write("big.ninfer", head);
    ASSERT_EQ(truncate(path.c_str(), off_t(kMaxDirectoryBytes * 2)), 0);
    EXPECT_NE(errorOf(Artifact::open(path)).find("exceeds the limit of 67108864 bytes"),
              std::string::npos);
    std::filesystem::remove(path);
  }
  ArtifactPlan plan = planOf(1);
  plan.directory().metadata = {{"note", std::string(kMaxDirectoryBytes, 'n')}};
  EXPECT_NE(refusal(plan).message.find("exceeds the limit of 67108864 bytes"), std::string::npos);
}

TEST_F(LimitTest, Rank) {
  ArtifactPlan plan = planOf(1);
  ASSERT_TRUE(plan.addTensor("t", std::vector<uint64_t>(16, 1), Format::FP32).ok());
  EXPECT_TRUE(ArtifactWriter::create(folder_ / "x.ninfer", plan).ok());
  ObjectEntry object = plan.directory().objects.back();
  object.id = "u";
  object.shape.push_back(1);
  object.offset = 512;
  ASSERT_TRUE(plan.addObject(object).ok());
  EXPECT_NE(refusal(plan).message.find("0 to 16 dimensions"), std::string::npos);
}

// --- writing framing 2
// -------------------------------------------------------------------------------

class Framing2Writer : public TempFolder {
protected:
  /// The objects of the golden file, without its bytes.
  static ArtifactPlan goldenPlan(const Artifact &golden) {
    ArtifactPlan plan;
    for (const ObjectEntry &object : golden.directory().objects)
      EXPECT_TRUE((object.isTensor
                       ? plan.addTensor(object.id, object.shape, *object.format, *object.layout)
                       : plan.addResource(object.id, object.bytes))
                      .ok());
    plan.directory().identity = golden.directory().identity;
    return plan;
  }
  static WriterOptions framing2() {
    WriterOptions options;
    options.framing = 2;
    return options;
  }
};

TEST_F(Framing2Writer, GoldenFileByteForByte) {
  Result<Artifact> golden = Artifact::open(fixturePath("v2_nine.ninfer"));
  ASSERT_TRUE(golden.ok());
  const ArtifactPlan plan = goldenPlan(*golden);
  const auto target = folder_ / "copy.ninfer";
  Result<ArtifactWriter> writer = ArtifactWriter::create(target, plan, framing2());
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  for (uint32_t i = 0; i < plan.directory().objects.size(); ++i)
    ASSERT_TRUE(writer->append(i, *golden->object(i)).ok());
  Result<WriteReport> report = writer->finish();
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(readBytes(target), readBytes(fixturePath("v2_nine.ninfer")));
  EXPECT_EQ(report->fileBytes, std::filesystem::file_size(target));
}

TEST_F(Framing2Writer, WhatItCannotHoldIsRefused) {
  Result<Artifact> golden = Artifact::open(fixturePath("v2_nine.ninfer"));
  const auto refusal = [&](const ArtifactPlan &plan, WriterOptions options) {
    Result<ArtifactWriter> writer =
        ArtifactWriter::create(folder_ / "x.ninfer", plan, std::move(options));
    return writer.ok() ? std::string("ok") : writer.error().code + " " + writer.error().message;
  };
  ArtifactPlan plan = goldenPlan(*golden);
  EXPECT_EQ(refusal(plan, framing2()), "ok");
  plan.directory().identity.reset();
  EXPECT_NE(refusal(plan, framing2()).find("needs a model id"), std::string::npos);
  plan.directory().identity = Identity{"m", ""};
  EXPECT_NE(refusal(plan, framing2()).find("weights_id"), std::string::npos);
  plan = goldenPlan(*golden);
  plan.bindWhole("p", 1);
  EXPECT_NE(refusal(plan, framing2()).find("objects only"), std::string::npos);
  plan = goldenPlan(*golden);
  WriterOptions split = framing2();
  split.maxFileBytes = 80646;
  EXPECT_EQ(refusal(plan, split), "ok");
  split.maxFileBytes = 80645;
  EXPECT_EQ(refusal(plan, split).substr(0, 6), "NB0111");
  EXPECT_EQ(entries(), 0u);
}

} // namespace
