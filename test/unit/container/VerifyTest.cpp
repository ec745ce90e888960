// Content verification: one planted fault per rule, found where it was planted.
#include "artifact/container/Verify.h"
#include "artifact/container/Reader.h"
#include "test/conformance/FixtureFile.h"
#include "test/unit/container/TempFolder.h"

#include <gtest/gtest.h>

using namespace ninfer;
using namespace ninfer::test;

namespace {

class VerifyTest : public TempFolder {
protected:
  void SetUp() override {
    TempFolder::SetUp();
    file_ = readBytes(fixturePath("v3_single.ninfer"));
    golden_ = Artifact::open(fixturePath("v3_single.ninfer")).take();
  }

  size_t find(const std::string &id) const {
    for (size_t i = 0; i < golden_.directory().objects.size(); ++i)
      if (golden_.directory().objects[i].id == id)
        return i;
    ADD_FAILURE() << id;
    return 0;
  }

  /// Text of the only finding after `word` was stored at byte `offset` of the object.
  std::string plant(const std::string &id, uint64_t offset, std::vector<uint8_t> word) {
    std::string bytes = file_;
    const size_t at =
        golden_.payloadOffset() + golden_.directory().objects[find(id)].offset + offset;
    for (size_t i = 0; i < word.size(); ++i)
      bytes[at + i] = char(word[i]);
    Result<Artifact> artifact = Artifact::open(write("planted.ninfer", bytes));
    EXPECT_TRUE(artifact.ok()) << "open() does not scan the payload";
    Result<VerifyReport> report = verifyArtifact(*artifact);
    EXPECT_TRUE(report.ok());
    EXPECT_EQ(report->violations, report->findings.size());
    std::string out;
    for (const Finding &finding : report->findings)
      out += (out.empty() ? "" : " | ") + finding.text();
    EXPECT_EQ(verifyReportStatus(*report, "f").ok(), report->ok());
    return out;
  }

  EncodedGeometry geometry(const std::string &id) const { return *golden_.geometry(find(id)); }

  std::string file_;
  Artifact golden_;
};

TEST_F(VerifyTest, GroupedIntegerRules) {
  const std::string q8 = "fixture/q8_k257", q5 = "fixture/q5_k257", q6 = "fixture/q6_k257",
                    q4 = "fixture/q4_k257";
  const EncodedGeometry w8 = geometry(q8), g5 = geometry(q5), g6 = geometry(q6), g4 = geometry(q4);
  EXPECT_EQ(plant(q8, 0, {0}), "");
  EXPECT_EQ(plant(q8, baseByteOffset(w8, 1, 70), {0x80}),
            "object 'fixture/q8_k257', row 1, group 2, lane 6: code 0x80 (-128) is outside "
            "[-127,127] [w8-code-range]");
  EXPECT_EQ(plant(q8, scaleOffset(w8, 1, 3), {0x00, 0x80}),
            "object 'fixture/q8_k257', row 1, group 3: scale 0x8000 is negative [f16-scale]");
  EXPECT_EQ(plant(q5, scaleOffset(g5, 1, 0), {0x00, 0x7c}),
            "object 'fixture/q5_k257', row 1, group 0: scale 0x7c00 is not finite [f16-scale]");
  EXPECT_EQ(plant(q6, scaleOffset(g6, 1, 0), {0x01, 0x7e}),
            "object 'fixture/q6_k257', row 1, group 0: scale 0x7e01 is not finite [f16-scale]");
  EXPECT_EQ(plant(q4, baseByteOffset(g4, 0, 4), {0x10}),
            "object 'fixture/q4_k257', row 0, group 0, lane 5: code 1 under a zero scale, expected "
            "0 [zero-scale]");
  EXPECT_EQ(plant(q5, highByteOffset(g5, 0, 64), {0x04}),
            "object 'fixture/q5_k257', row 0, group 1, lane 2: code -16 under a zero scale, "
            "expected 0 [zero-scale]");
  EXPECT_EQ(plant(q6, highByteOffset(g6, 3, 300), {0x40}),
            "object 'fixture/q6_k257', row 3, group 4, lane 47: padding element 303 holds code 16, "
            "expected 0 [padding-code]");
  EXPECT_EQ(plant(q8, baseByteOffset(w8, 5, 383), {0x01}),
            "object 'fixture/q8_k257', row 5, group 11, lane 31: padding element 383 holds code 1, "
            "expected 0 [padding-code]");
  EXPECT_EQ(plant(q4, scaleOffset(g4, 2, 5), {0x00, 0x3c}),
            "object 'fixture/q4_k257', row 2, group 5: padding group holds scale 0x3c00, expected "
            "0x0000 [padding-scale]");
  const PlaneInfo &high = g5.planes[1];
  EXPECT_EQ(plant(q5, high.offset + high.bytes, {0x01}).find("object 'fixture/q5_k257': byte "),
            0u);
}

TEST_F(VerifyTest, BlockScaledRules) {
  const std::string id = "text/layers/0/mlp/gate_up";
  const EncodedGeometry geometry = this->geometry(id);
  for (const auto &[word, reason] :
       {std::pair(0x7f, "0x7f is NaN"), std::pair(0xff, "0xff is NaN"),
        std::pair(0x80, "0x80 has its sign bit set"), std::pair(0x81, "0x81 has its sign bit set"),
        std::pair(0xb8, "0xb8 has its sign bit set")})
    EXPECT_EQ(plant(id, scaleOffset(geometry, 161, 5), {uint8_t(word)}),
              "object 'text/layers/0/mlp/gate_up', row 161, group 5: scale " + std::string(reason) +
                  " [e4m3fn-scale]");
  EXPECT_EQ(plant(id, scaleOffset(geometry, 161, 5), {0x00}), "") << "a zero scale is legal";
  EXPECT_EQ(plant(id, geometry.planes[2].offset, {0, 0, 0, 0}),
            "object 'text/layers/0/mlp/gate_up': divisor 0x00000000 is not finite and positive "
            "[nvfp4-divisor]");
  EXPECT_EQ(plant(id, geometry.planes[2].offset, {0, 0, 0x80, 0x7f}),
            "object 'text/layers/0/mlp/gate_up': divisor 0x7f800000 is not finite and positive "
            "[nvfp4-divisor]");
}

TEST_F(VerifyTest, RowScaledRules) {
  const std::string id = "text/layers/1/attention/input_parent";
  const EncodedGeometry geometry = this->geometry(id);
  EXPECT_EQ(plant(id, codeByteOffset(geometry, 7, 9), {0xff}),
            "object 'text/layers/1/attention/input_parent', row 7, lane 9: code 0xff is NaN "
            "[e4m3fn-code]");
  EXPECT_EQ(plant(id, scaleOffset(geometry, 8, 0), {0x80, 0xbf}),
            "object 'text/layers/1/attention/input_parent', row 8: row scale 0xbf80 is negative "
            "[bf16-scale]");
  EXPECT_EQ(plant(id, scaleOffset(geometry, 8, 0), {0x80, 0x7f}),
            "object 'text/layers/1/attention/input_parent', row 8: row scale 0x7f80 is not finite "
            "[bf16-scale]");
  EXPECT_NE(plant(id, scaleOffset(geometry, 8, 0), {0, 0})
                .find("under a zero row scale, expected 0x00 or 0x80 [zero-scale]"),
            std::string::npos);
}

TEST_F(VerifyTest, GapsAndCounts) {
  EXPECT_NE(plant("text/layers/0/input_norm", 256, {0x00}), "x");
  const ObjectEntry &embedding = golden_.directory().objects[find("text/token_embedding")];
  EXPECT_NE(plant("text/token_embedding", embedding.bytes, {0x05}).find("[payload-gap]"),
            std::string::npos);
  // All bytes 0xff in the codes of one W8 object: many violations, few kept.
  std::string bytes = file_;
  const ObjectEntry &w8 = golden_.directory().objects[find("mtp/input_projection")];
  std::fill_n(bytes.begin() + long(golden_.payloadOffset() + w8.offset), 128 * 256, char(0x80));
  Result<Artifact> artifact = Artifact::open(write("many.ninfer", bytes));
  VerifyOptions options;
  options.maxFindings = 3;
  Result<VerifyReport> report = verifyArtifact(*artifact, options);
  EXPECT_EQ(report->violations, 128u * 256);
  EXPECT_EQ(report->findings.size(), 3u);
  Status status = verifyReportStatus(*report, "many.ninfer");
  EXPECT_EQ(status.error().code, "NB0109");
  EXPECT_EQ(status.error().kind, ErrorKind::BadFile);
  EXPECT_NE(status.error().message.find("many.ninfer: content breaks 32768 rules"),
            std::string::npos);
}

} // namespace
