// ls, show, dump, ledger and diff against artifacts made by hand.
#include "inspect/Difference.h"
#include "inspect/Dump.h"
#include "inspect/LedgerPage.h"
#include "inspect/List.h"
#include "inspect/Names.h"
#include "inspect/Show.h"
#include "support/Sha256.h"
#include "test/conformance/FixtureFile.h"
#include "test/unit/inspect/TestModel.h"

#include <bit>
#include <cmath>

using namespace ninfer;
using namespace ninfer::test;

namespace {

class Pages : public InspectTest {
protected:
  Artifact open(const Model &model, const std::string &name = "m.ninfer",
                const std::vector<uint64_t> &segments = {}) {
    model.write(folder_ / name, segments);
    Result<Artifact> artifact = Artifact::open(folder_ / name);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
    return artifact.take();
  }
  size_t find(const Artifact &artifact, const std::string &name) {
    Result<size_t> index = findObjectByName(artifact, name);
    EXPECT_TRUE(index.ok());
    return *index;
  }
  std::string dump(const Artifact &artifact, const std::string &name, const DumpRequest &request) {
    std::string out;
    const Status status =
        dumpObject(artifact, find(artifact, name), request, [&](std::string_view text) {
          out += text;
          return Status();
        });
    return status.ok() ? out : status.error().code + " " + status.error().message;
  }
  uint64_t bytesOnDisk() const {
    uint64_t bytes = 0;
    for (const auto &entry : std::filesystem::directory_iterator(folder_))
      bytes += entry.file_size();
    return bytes;
  }
};

TEST(InspectNames, Texts) {
  EXPECT_EQ(dimensionsText({}), "scalar");
  EXPECT_EQ(dimensionsText({3, 40}), "3x40");
  EXPECT_EQ(binaryBytes(0), "0 bytes");
  EXPECT_EQ(binaryBytes(1), "1 byte");
  EXPECT_EQ(binaryBytes(1023), "1023 bytes");
  EXPECT_EQ(binaryBytes(1536), "1.5 KiB");
  EXPECT_EQ(binaryBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(binaryBytes(uint64_t(7) << 30), "7.0 GiB");
  EXPECT_EQ(binaryBytes(UINT64_MAX), "16.0 EiB");
  EXPECT_EQ(roleOf("text/layers/12/mlp/gate"), "text/layers/*/mlp/gate");
  EXPECT_EQ(roleOf("a1/2b/3"), "a1/2b/*");
  EXPECT_EQ(floatText(0.1f), "0.1");
  EXPECT_EQ(floatText(-INFINITY), "-inf");
  EXPECT_EQ(floatJson(0.1f).dump(), "0.1");
  EXPECT_EQ(floatJson(NAN).dump(), "\"nan\"");
}

TEST(InspectNames, Spans) {
  const auto span = [](const char *text) {
    const auto result = parseSpan(text, "--rows");
    return result.ok() ? std::to_string(result->begin) + "-" +
                             (result->end == UINT64_MAX ? "end" : std::to_string(result->end))
                       : result.error().code;
  };
  EXPECT_EQ(span("3"), "3-4");
  EXPECT_EQ(span("3:7"), "3-7");
  EXPECT_EQ(span("3:"), "3-end");
  EXPECT_EQ(span(":7"), "0-7");
  EXPECT_EQ(span(":"), "0-end");
  for (const char *bad : {"", "a", "3:3", "4:3", "-1:2", "1:2:3", "1: 2", "0x1", "3:b",
                          "18446744073709551615", "99999999999999999999"})
    EXPECT_EQ(span(bad), "NB0121") << bad;
}

TEST_F(Pages, ListHasEveryMember) {
  Model model = modelOfAllFormats();
  model.extraParameters = {"tied=q6"};
  const Artifact artifact = open(model, "m.ninfer", {4096, 512});
  const Json json = listJson(artifact);
  EXPECT_EQ(json["framing"], 3);
  EXPECT_EQ(json["files"].size(), 3u);
  EXPECT_EQ(json["objects"].size(), model.items.size());
  EXPECT_EQ(json["objects"][3]["id"], "q6");
  EXPECT_EQ(json["objects"][3]["parameters"], 2);
  EXPECT_EQ(json["objects"][3]["format"], "Q6G64_F16S");
  EXPECT_EQ(json["bindings"]["tied"]["object"], "q6");
  EXPECT_EQ(json["uses"][0]["activation_policy"], "A16Only");
  EXPECT_EQ(json["components"]["text"]["resources"]["tokenizer.json"], "tokenizer");
  const std::string text = listText(artifact);
  EXPECT_NE(text.find("file        part-1: 512 bytes of payload"), std::string::npos) << text;
  EXPECT_NE(text.find("tokenizer.json: 7 bytes in 'tokenizer'"), std::string::npos);
  model.writeOld(folder_ / "old.ninfer", 2);
  Result<Artifact> old = Artifact::open(folder_ / "old.ninfer");
  EXPECT_EQ(listJson(*old)["objects"][3]["format"], "Q6G64_F16S");
  EXPECT_EQ(listJson(*old)["identity"]["weights_id"], "w");
  EXPECT_NE(listText(*old).find("model       test, weights w"), std::string::npos);
}

TEST_F(Pages, ObjectsAreFoundByIdOrParameter) {
  Model model = modelOfAllFormats();
  model.extraParameters = {"head=q6"};
  const Artifact artifact = open(model);
  EXPECT_EQ(find(artifact, "head"), find(artifact, "q6"));
  const auto missing = findObjectByName(artifact, "q7");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, "NB0120");
  EXPECT_EQ(missing.error().kind, ErrorKind::Usage);
  EXPECT_EQ(missing.error().help.at(0), "is it 'q4'?");
}

TEST_F(Pages, ShowCountsWhatTheWordsHold) {
  const Model model = modelOfAllFormats();
  const Artifact artifact = open(model, "m.ninfer", {4000});
  for (const Item &item : model.items) {
    if (item.format.empty())
      continue;
    const Json json = *showJson(artifact, find(artifact, item.id), 2);
    const Json &s = json["statistics"];
    uint64_t zeros = 0, zeroScales = 0;
    for (uint64_t r = 0; r < item.n; ++r) {
      for (uint64_t c = 0; c < item.k; ++c) {
        uint32_t mask = item.format == "nvfp4"  ? 7
                        : item.format == "fp8"  ? 0x7f
                        : item.format == "bf16" ? 0x7fff
                        : item.format == "fp32" ? 0x7fffffff
                                                : 0xffffffff;
        zeros += (item.code(r, c) & mask) == 0;
      }
      for (uint64_t g = 0; item.bits() < 16 && g < (item.format == "fp8" ? 1 : item.groups()); ++g)
        zeroScales += item.scale(r, g) == 0;
    }
    EXPECT_EQ(s["zero_codes"], zeros) << item.id;
    EXPECT_EQ(s["elements"], item.n * item.k);
    if (item.bits() < 16)
      EXPECT_EQ(s["zero_scales"], zeroScales) << item.id;
    EXPECT_EQ(json["sha256"], toHex(sha256(item.bytes))) << item.id;
    EXPECT_EQ(json["bytes"], item.bytes.size());
    EXPECT_EQ(json["geometry"]["padding_lanes"],
              item.grouped() ? item.n * (item.kp() - item.k) : 0u);
    EXPECT_EQ(showJson(artifact, find(artifact, item.id), 1)->dump(), json.dump());
    EXPECT_NE(showText(json).find("object      " + item.id), std::string::npos);
  }
}

TEST_F(Pages, RangesOfOneSign) {
  for (const std::string format : {"q8", "fp32"})
    for (const bool negative : {true, false}) {
      Model model;
      model.items = {tensor("w", format, 2, 32, 1)};
      Item &w = model["w"];
      const bool integer = format == "q8";
      for (uint64_t r = 0; r < 2; ++r) {
        for (uint64_t c = 0; c < 32; ++c) // 2 and once 5
          w.setCode(r, c,
                    integer ? (negative ? 0xfe : 0x02) : (negative ? 0xc0000000 : 0x40000000));
        if (integer)
          w.setScale(r, 0, 0x3c00);
      }
      w.setCode(1, 7, integer ? (negative ? 0xfb : 0x05) : (negative ? 0xc0a00000 : 0x40a00000));
      const Artifact artifact = open(model);
      const Json statistics = (*showJson(artifact, 0, 2))["statistics"];
      EXPECT_EQ(statistics["values"].dump(), negative ? "[-5,-2]" : "[2,5]") << format;
      if (integer)
        EXPECT_EQ(statistics["codes"].dump(), negative ? "[-5,-2]" : "[2,5]");
    }
}

TEST_F(Pages, ShowRangesProvenanceAndPlaces) {
  Model model;
  model.items = {tensor("w", "q8", 4, 64, 1), tensor("f", "fp32", 2, 3, 1), resource("r", "abc")};
  model.resources = {{"tokenizer.json", "r"}};
  Item &w = model["w"];
  for (uint64_t r = 0; r < 4; ++r)
    for (uint64_t c = 0; c < 64; ++c)
      w.setCode(r, c, 0);
  for (uint64_t r = 0; r < 4; ++r)
    for (uint64_t g = 0; g < 2; ++g)
      w.setScale(r, g, 0);
  w.setScale(2, 1, 0x3c00); // 1.0
  w.setCode(2, 40, 0x81);   // -127
  w.setScale(3, 0, 0x3800); // 0.5
  w.setCode(3, 1, 0x07);    // 7 * 0.5
  model["f"].setCode(0, 0, 0x7fc00000);
  model["f"].setCode(0, 1, 0xff800000);
  model["f"].setCode(1, 2, 0xc0000000);
  model.provenance = {{"tensors", {{"w", {"F32", "converted", "MAXABS_F16_RECIP_RNE_V1"}}}}};
  const Artifact artifact = open(model, "m.ninfer", {100});
  const Json json = *showJson(artifact, 0, 1);
  EXPECT_EQ(json["statistics"]["values"].dump(), "[-127,3.5]");
  EXPECT_EQ(json["statistics"]["codes"].dump(), "[-127,7]");
  EXPECT_EQ(json["statistics"]["scales"].dump(), "[0,1]");
  EXPECT_EQ(json["statistics"]["zero_codes"], 254);
  EXPECT_EQ(json["files"][0]["bytes"], 100);
  EXPECT_EQ(json["files"][1]["file"], "part-1");
  EXPECT_EQ(json["files"][1]["offset"], 4096);
  const std::string text = showText(json);
  EXPECT_NE(text.find("provenance  F32, converted, MAXABS_F16_RECIP_RNE_V1"), std::string::npos);
  const Json f = *showJson(artifact, 1, 1);
  EXPECT_EQ(f["statistics"]["nan"], 1);
  EXPECT_EQ(f["statistics"]["infinite"], 1);
  EXPECT_EQ(f["statistics"]["values"][0], -2);
  EXPECT_TRUE(f["provenance"].is_null());
  const Json r = *showJson(artifact, 2, 1);
  EXPECT_EQ(r["roles"][0]["role"], "tokenizer.json");
  EXPECT_FALSE(r.contains("statistics"));
}

TEST_F(Pages, DumpIsExact) {
  Model model;
  model.items = {tensor("w", "q5", 3, 70, 1),      tensor("b", "bf16", 2, 3, 1),
                 tensor("v", "nvfp4", 128, 64, 1), tensor("e", "fp8", 2, 4, 1),
                 tensor("i", "int32", 1, 2, 1),    resource("r", std::string("a\0b\n", 4))};
  Item &w = model["w"];
  w.setScale(1, 0, 0x3800);
  w.setScale(1, 1, 0x4000);
  w.setCode(1, 62, 0x1f); // -1 * 0.5
  w.setCode(1, 63, 0x0f); // 15 * 0.5
  w.setCode(1, 64, 0x10); // -16 * 2
  const Artifact artifact = open(model);
  DumpRequest request;
  request.rows = DumpRequest::Span{1, 2};
  request.columns = DumpRequest::Span{62, 65};
  request.output = DumpRequest::Output::Csv;
  EXPECT_EQ(dump(artifact, "w", request),
            "row,column,code,scale,value\n1,62,-1,0.5,-0.5\n1,63,15,0.5,7.5\n1,64,-16,2,-32\n");
  request.hex = true;
  EXPECT_EQ(dump(artifact, "w", request),
            "row,column,code,scale,value\n1,62,0x1f,0x3800,0xbf000000\n"
            "1,63,0x0f,0x3800,0x40f00000\n1,64,0x10,0x4000,0xc2000000\n");
  request.hex = false;
  request.values = false;
  EXPECT_EQ(dump(artifact, "w", request),
            "row,column,code,scale\n1,62,-1,0.5\n1,63,15,0.5\n1,64,-16,2\n");
  request.output = DumpRequest::Output::Json;
  request.values = true;
  EXPECT_EQ(nlohmann::json::parse(dump(artifact, "w", request)),
            nlohmann::json::parse(R"({"object":"w","format":"Q5G64_F16S","columns":[62,65],"rows":[
              {"row":1,"first_group":0,"scales":[0.5,2],"codes":[-1,15,-16],"values":[-0.5,7.5,-32]}]})"));
  request.output = DumpRequest::Output::Table;
  EXPECT_EQ(dump(artifact, "w", request), "row 1\n"
                                          "  group 0: scale 0.5\n"
                                          "      62  code             -1            15\n"
                                          "          value          -0.5           7.5\n"
                                          "  group 1: scale 2\n"
                                          "      64  code            -16\n"
                                          "          value           -32\n");
  request = {};
  request.output = DumpRequest::Output::Json;
  for (const char *id : {"w", "b", "v", "e", "i"})
    for (bool hex : {false, true}) {
      request.hex = hex;
      request.rows = DumpRequest::Span{0, UINT64_MAX};
      const nlohmann::json all = nlohmann::json::parse(dump(artifact, id, request));
      EXPECT_EQ(all["rows"].size(), model[id].n) << id;
      EXPECT_EQ(all["rows"][0]["values"].size(), model[id].k) << id;
      EXPECT_EQ(all.contains("divisor"), std::string(id) == "v");
    }
  request = {};
  EXPECT_EQ(dump(artifact, "r", request), std::string("a\0b\n", 4));
  request.rows = DumpRequest::Span{0, 1};
  EXPECT_EQ(dump(artifact, "r", request).substr(0, 6), "NB0121");
  request.rows = DumpRequest::Span{2, 4};
  EXPECT_NE(dump(artifact, "w", request).find("rows 2:4 lie outside 0:3"), std::string::npos);
  request.rows = {};
  request.columns = DumpRequest::Span{70, 71};
  EXPECT_NE(dump(artifact, "w", request).find("columns 70:71 lie outside 0:70"), std::string::npos);
}

TEST_F(Pages, DumpReproducesTheGoldenWords) {
  Result<Artifact> artifact = Artifact::open(fixturePath("v3_single.ninfer"));
  ASSERT_TRUE(artifact.ok());
  const nlohmann::json expected = readJson("v3_single.json");
  size_t values = 0, codes = 0;
  for (const auto &object : expected["objects"]) {
    if (!object.contains("dequant_f32_le_sha256"))
      continue;
    DumpRequest request;
    request.hex = true;
    request.rows = DumpRequest::Span{0, UINT64_MAX};
    request.output = DumpRequest::Output::Json;
    const std::string id = object["id"];
    const nlohmann::json got = nlohmann::json::parse(dump(*artifact, id, request));
    std::vector<uint32_t> floats;
    for (const auto &row : got["rows"])
      for (const auto &value : row["values"])
        floats.push_back(uint32_t(std::stoul(value.get<std::string>(), nullptr, 16)));
    EXPECT_EQ(toHex(sha256(leBytes(floats, 4))), object["dequant_f32_le_sha256"].get<std::string>())
        << id;
    ++values;
    if (!object.contains("codes_i8_sha256"))
      continue;
    request.hex = false;
    std::string bytes;
    const nlohmann::json decimal = nlohmann::json::parse(dump(*artifact, id, request));
    for (const auto &row : decimal["rows"])
      for (const auto &code : row["codes"])
        bytes += char(code.get<int>());
    EXPECT_EQ(toHex(sha256(bytes)), object["codes_i8_sha256"].get<std::string>()) << id;
    ++codes;
  }
  EXPECT_EQ(values, 20u);
  EXPECT_EQ(codes, 16u);
}

TEST_F(Pages, LedgerCountsEveryByteOnce) {
  const Model model = modelOfAllFormats();
  const Artifact artifact = open(model, "m.ninfer", {4096, 4096});
  const ArtifactLedger ledger = *artifactLedger(artifact);
  EXPECT_EQ(ledger.fileBytes, bytesOnDisk());
  EXPECT_EQ(ledger.tensors.bytes() + ledger.resourceBytes + ledger.gapBytes +
                ledger.directoryBytes + ledger.framingBytes,
            ledger.fileBytes);
  EXPECT_EQ(ledger.resources, 2u);
  EXPECT_EQ(ledger.resourceBytes, 12u);
  uint64_t gaps = model.payload().size();
  for (const Item &item : model.items)
    gaps -= item.bytes.size();
  EXPECT_EQ(ledger.gapBytes, gaps);
  for (const Item &item : model.items) {
    if (item.format.empty())
      continue;
    // Set bits beyond codes and scales are what padding is: fill it and count.
    const ArtifactLedger::Line &line = ledger.formats.at(Model::canonical(item.format));
    const uint64_t codeBits = item.n * item.k * uint64_t(item.bits());
    const uint64_t scales = item.bits() >= 16        ? 0
                            : item.format == "fp8"   ? 2 * item.n
                            : item.format == "nvfp4" ? item.n * item.k / 16 + 4
                                                     : item.n * item.groups() * 2;
    EXPECT_EQ(line.elements, item.n * item.k);
    EXPECT_EQ(line.scaleBytes, scales) << item.id;
    EXPECT_EQ(line.bytes(), item.bytes.size()) << item.id;
    EXPECT_GE(line.codeBytes * 8, codeBits) << item.id;
    EXPECT_LE(line.codeBytes * 8, codeBits + 8 * item.n) << item.id; // shared bytes at row ends
    EXPECT_DOUBLE_EQ(line.bitsPerWeight(),
                     8.0 * double(item.bytes.size()) / double(item.n * item.k));
  }
  const Json json = ledgerJson(artifact, ledger);
  EXPECT_EQ(json["file_bytes"], bytesOnDisk());
  EXPECT_EQ(json["formats"].size(), 9u);
  EXPECT_DOUBLE_EQ(json["bits_per_weight"]["artifact"]["value"].get<double>(),
                   8.0 * double(bytesOnDisk()) / double(ledger.tensors.elements));
  EXPECT_NE(ledgerText(artifact, ledger).find("counted once"), std::string::npos);
}

TEST_F(Pages, LedgerKnowsRolesAndSharedObjects) {
  Model model;
  model.items = {tensor("text/embedding", "q6", 4, 128, 1),
                 tensor("text/layers/0/a", "q4", 4, 128, 2),
                 tensor("text/layers/1/a", "q4", 4, 128, 3)};
  model.extraParameters = {"text/head=text/embedding"};
  const ArtifactLedger ledger = *artifactLedger(open(model));
  EXPECT_EQ(ledger.roles.size(), 2u);
  EXPECT_EQ(ledger.roles.at("text/layers/*/a").objects, 2u);
  EXPECT_EQ(ledger.roles.at("text/embedding + text/head").elements, 512u);
  EXPECT_EQ(ledger.tensors.elements, 1536u);
  EXPECT_EQ(ledger.quantized.bytes(), ledger.tensors.bytes());
  for (const int framing : {1, 2}) {
    model.writeOld(folder_ / "old.ninfer", framing);
    Result<Artifact> old = Artifact::open(folder_ / "old.ninfer");
    ASSERT_TRUE(old.ok());
    const ArtifactLedger of = *artifactLedger(*old);
    EXPECT_EQ(of.fileBytes, std::filesystem::file_size(folder_ / "old.ninfer"));
    EXPECT_EQ(of.roles.at("text/layers/*/a").objects, 2u);
  }
}

TEST_F(Pages, DiffOfEqualArtifacts) {
  const Model model = modelOfAllFormats();
  const Artifact a = open(model, "a.ninfer"), b = open(model, "b.ninfer");
  const ArtifactDifference difference = *diffArtifacts(a, b);
  EXPECT_TRUE(difference.equal()) << diffText(difference);
  EXPECT_EQ(difference.comparedObjects, model.items.size());
  EXPECT_EQ(diffText(difference).substr(0, 6), "equal:");
  // Another framing, other files: only the directory differs.
  std::filesystem::create_directory(folder_ / "p");
  const Artifact parts = open(model, "p/a.ninfer", {4096});
  EXPECT_FALSE(diffArtifacts(a, parts)->equal());
  EXPECT_TRUE(diffArtifacts(a, parts)->objects.empty());
  model.writeOld(folder_ / "old.ninfer", 2);
  Result<Artifact> old = Artifact::open(folder_ / "old.ninfer");
  const ArtifactDifference framings = *diffArtifacts(a, *old);
  EXPECT_TRUE(framings.objects.empty()) << diffText(framings);
  EXPECT_EQ(framings.directory.at(0), "framing: 3, 2");
  DiffOptions words;
  words.wordsOnly = true;
  EXPECT_TRUE(diffArtifacts(a, *old, words)->equal());
}

TEST_F(Pages, DiffCountsWords) {
  const Model model = modelOfAllFormats();
  Model other = model;
  const auto flip = [&](const std::string &id, uint64_t row, uint64_t column) {
    other[id].setCode(row, column, other[id].code(row, column) ^ 1);
  };
  flip("q4", 1, 130);
  flip("q4", 4, 0);
  other["q5"].setScale(6, 4, 0x1111);
  flip("q6", 0, 69);
  other["q6"].poke(other["q6"].baseAt(5, 126), {0x01}); // a padding lane
  flip("bf16", 2, 4);
  flip("fp8", 16, 32);
  other["nvfp4"].poke(other["nvfp4"].divisorAt(), {0, 0, 0, 0x40}); // 2.0
  flip("nvfp4", 200, 127);
  other["nvfp4"].setScale(130, 5, other["nvfp4"].scale(130, 5) ^ 1);
  other["template"].bytes[3] = '?';
  const Artifact a = open(model, "a.ninfer"), b = open(other, "b.ninfer");
  for (unsigned threads : {1u, 3u}) {
    DiffOptions options;
    options.threads = threads;
    const ArtifactDifference difference = *diffArtifacts(a, b, options);
    EXPECT_TRUE(difference.directory.empty()) << diffText(difference);
    std::map<std::string, ObjectDifference> found;
    for (const ObjectDifference &d : difference.objects)
      found[d.object] = d;
    ASSERT_EQ(found.size(), 7u) << diffText(difference);
    EXPECT_EQ(found["q4"].codes, 2u);
    EXPECT_EQ(found["q4"].scales, 0u);
    EXPECT_EQ(found["q4"].firstRow, 1u);
    EXPECT_EQ(found["q4"].firstColumn, 130u);
    EXPECT_EQ(found["q5"].scales, 1u);
    EXPECT_EQ(found["q5"].codes, 0u);
    EXPECT_EQ(found["q5"].firstColumn, 256u);
    EXPECT_EQ(found["q6"].codes, 1u);
    EXPECT_EQ(found["q6"].padding, 1u);
    EXPECT_EQ(found["bf16"].codes, 1u);
    EXPECT_EQ(found["bf16"].values, 1u);
    EXPECT_EQ(found["fp8"].firstRow, 16u);
    EXPECT_TRUE(found["nvfp4"].divisor);
    EXPECT_EQ(found["nvfp4"].codes, 1u);
    EXPECT_EQ(found["nvfp4"].scales, 1u);
    EXPECT_EQ(found["template"].kind, ObjectDifference::Kind::Bytes);
    EXPECT_EQ(found["template"].firstColumn, 3u);
    EXPECT_NE(diffText(difference).find("2 codes changed; "), std::string::npos);
    EXPECT_EQ(diffJson(difference)["objects"].size(), 7u);
  }
}

TEST_F(Pages, DiffOfValuesAndEntries) {
  Model left, right;
  left.items = {tensor("w", "fp32", 2, 64, 1), tensor("gone", "bf16", 1, 2, 1),
                tensor("shape", "bf16", 2, 4, 1)};
  right.items = {tensor("w", "q4", 2, 64, 1), tensor("shape", "bf16", 4, 2, 1),
                 tensor("new", "bf16", 1, 2, 1)};
  double squares = 0, norm = 0, largest = 0;
  Item &a = left["w"], &b = right["w"];
  for (uint64_t r = 0; r < 2; ++r) {
    b.setScale(r, 0, 0x3c00);
    for (uint64_t c = 0; c < 64; ++c) {
      const float value = float(c % 15) - 7 + (r == 1 && c == 9 ? 0.25f : 0.0f);
      a.setCode(r, c, std::bit_cast<uint32_t>(value));
      b.setCode(r, c, uint32_t(int(c % 15) - 7) & 15);
      norm += double(value) * value;
      squares += r == 1 && c == 9 ? 0.0625 : 0;
      largest = 0.25;
    }
  }
  const ArtifactDifference difference =
      *diffArtifacts(open(left, "a.ninfer"), open(right, "b.ninfer"));
  std::map<std::string, ObjectDifference> found;
  for (const ObjectDifference &d : difference.objects)
    found[d.object] = d;
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found["w"].kind, ObjectDifference::Kind::Values);
  EXPECT_EQ(found["w"].values, 1u);
  EXPECT_DOUBLE_EQ(found["w"].largest, largest);
  EXPECT_DOUBLE_EQ(found["w"].relativeL2, std::sqrt(squares / norm));
  EXPECT_EQ(found["w"].firstRow, 1u);
  EXPECT_EQ(found["w"].firstColumn, 9u);
  EXPECT_EQ(found["gone"].kind, ObjectDifference::Kind::OnlyA);
  EXPECT_EQ(found["new"].kind, ObjectDifference::Kind::OnlyB);
  EXPECT_EQ(found["shape"].kind, ObjectDifference::Kind::Entry);
  EXPECT_EQ(found["shape"].entry.at(0), "shape: 2x4, 4x2");
}

TEST_F(Pages, DiffOfTheDirectory) {
  Model model = modelOfAllFormats();
  const Artifact a = open(model, "a.ninfer");
  model.metadata = {{"name", "other"}, {"extra", 1}};
  model.extraParameters = {"alias=q4"};
  model.provenance = {{"converter", "x"}};
  const ArtifactDifference difference = *diffArtifacts(a, open(model, "b.ninfer"));
  EXPECT_TRUE(difference.objects.empty());
  const std::string text = diffText(difference);
  for (const char *line :
       {"metadata.name: \"m\", \"other\"", "metadata.extra: none, 1",
        "bindings.alias: none, {\"object\":\"q4\"}", "provenance.converter: none, \"x\""})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

} // namespace
