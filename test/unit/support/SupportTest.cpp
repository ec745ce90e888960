// Checked arithmetic, bytes, digests, UTF-8, JSON, progress text.
#include "support/Bytes.h"
#include "support/Checked.h"
#include "support/Json.h"
#include "support/Progress.h"
#include "support/Sha256.h"
#include "support/Utf8.h"

#include <gtest/gtest.h>

using namespace ninfer;

namespace {

TEST(Checked, ReportsOverflow) {
  constexpr uint64_t kMax = UINT64_MAX;
  EXPECT_EQ(checkedAdd(kMax - 1, 1), kMax);
  EXPECT_FALSE(checkedAdd(kMax, 1));
  EXPECT_EQ(checkedMul(uint64_t(1) << 32, (uint64_t(1) << 32) - 1), kMax - 0xffffffff);
  EXPECT_FALSE(checkedMul(uint64_t(1) << 32, uint64_t(1) << 32));
  EXPECT_EQ(checkedAlignUp(1, 256), 256u);
  EXPECT_EQ(checkedAlignUp(256, 256), 256u);
  EXPECT_EQ(checkedAlignUp(0, 256), 0u);
  EXPECT_FALSE(checkedAlignUp(kMax, 256));
  EXPECT_EQ(ceilDiv(kMax, 2), uint64_t(1) << 63);
  const uint64_t dims[] = {uint64_t(1) << 40, uint64_t(1) << 24};
  EXPECT_FALSE(checkedProduct(dims));
  EXPECT_EQ(checkedProduct({}), 1u);
}

TEST(Bytes, LittleEndianAtAnyAlignment) {
  unsigned char buffer[12] = {};
  storeLe64(buffer + 1, 0x0123456789abcdef);
  EXPECT_EQ(buffer[1], 0xef);
  EXPECT_EQ(buffer[8], 0x01);
  EXPECT_EQ(loadLe64(buffer + 1), 0x0123456789abcdefu);
  EXPECT_EQ(loadLe32(buffer + 1), 0x89abcdefu);
  EXPECT_EQ(loadLe16(buffer + 7), 0x0123u);
}

TEST(Sha256, KnownDigests) {
  EXPECT_EQ(toHex(sha256(std::string_view(""))),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(toHex(sha256(std::string_view("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 parts;
  parts.update(std::string_view("a")).update(std::string_view("bc"));
  EXPECT_EQ(parts.finish(), sha256(std::string_view("abc")));
}

// Every place of the end in a block, and of a cut. The digest of the 300 digests is that of Python's hashlib.
TEST(Sha256, EveryLength) {
  std::string text(300, '\0');
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = char(i * 7 + 3);
  Sha256 all;
  for (size_t n = 0; n < text.size(); ++n) {
    const std::string_view part(text.data(), n);
    const Sha256Digest digest = sha256(part);
    for (size_t cut = 0; cut <= n; ++cut)
      ASSERT_EQ(Sha256().update(part.substr(0, cut)).update(part.substr(cut)).finish(), digest) << n << ", " << cut;
    all.update(std::as_bytes(std::span(digest)));
  }
  EXPECT_EQ(toHex(all.finish()), "7b074096cabb18dd0d1b468a173cb2f97f80e952525bca29542e606fd6d0753a");
}

TEST(Utf8, ValidAndInvalid) {
  EXPECT_TRUE(isValidUtf8(""));
  EXPECT_TRUE(isValidUtf8("A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf"));
  for (const char *bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
                          "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc3\x41"})
    EXPECT_EQ(findInvalidUtf8(std::string("ok") + bad), 2u) << bad;
  std::string text;
  for (char32_t c : {U'\0', U'A', U'\u07ff', U'\u0800', U'\uffff', U'\U00010000', U'\U0010ffff'}) {
    text.clear();
    appendUtf8(text, c);
    size_t position = 0;
    EXPECT_EQ(decodeUtf8(text, position), c);
    EXPECT_EQ(position, text.size());
  }
}

TEST(Utf8, StreamingAndReplacement) {
  EXPECT_EQ(completeUtf8Prefix("ab\xe2\x82"), 2u);
  EXPECT_EQ(completeUtf8Prefix("ab\xf0\x9f\x98"), 2u);
  EXPECT_EQ(completeUtf8Prefix("ab\xe2\x82\xac"), 5u);
  EXPECT_EQ(completeUtf8Prefix("ab\xff"), 3u) << "more bytes cannot repair it";
  EXPECT_EQ(completeUtf8Prefix("\xc3"), 0u);
  EXPECT_EQ(completeUtf8Prefix(""), 0u);
  EXPECT_EQ(replaceInvalidUtf8("a\xff"
                               "b\xe2\x82"
                               "c\xed\xa0\x80"),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd"
            "c\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

std::string jsonMessage(std::string_view text) {
  Result<Json> value = parseStrictJson(text, "f.json");
  return value.ok() ? "ok" : value.error().message;
}

TEST(StrictJson, Accepts) {
  Result<Json> value =
      parseStrictJson(" {\"b\":[1,-2,1.5e3,true,null,\"\\u00e9\"],\"a\":{}}\n\t", "f");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->begin().key(), "b") << "member order is kept";
  EXPECT_EQ((*value)["b"][5], "\xc3\xa9");
  EXPECT_EQ(jsonMessage("18446744073709551615"), "ok");
  EXPECT_EQ((*parseStrictJson("9007199254740993", "f")).get<uint64_t>(), 9007199254740993u);
}

TEST(StrictJson, Refuses) {
  EXPECT_EQ(jsonMessage("{\"a\":1,\"a\":2}"), "f.json: invalid JSON: duplicate member 'a'");
  EXPECT_EQ(jsonMessage("[{\"x\":{\"a\":1,\"\\u0061\":2}}]"),
            "f.json: invalid JSON: duplicate member 'a'");
  for (int members = 1; members < 20; ++members)
    for (int twice = 0; twice < members; ++twice) {
      std::string text = "{";
      for (int i = 0; i < members; ++i)
        text += "\"m" + std::to_string(i) + "\":{},";
      EXPECT_EQ(jsonMessage(text + "\"m\":0}"), "ok");
      EXPECT_EQ(jsonMessage(text + "\"m" + std::to_string(twice) + "\":0}"),
                "f.json: invalid JSON: duplicate member 'm" + std::to_string(twice) + "'")
          << members;
    }
  EXPECT_EQ(jsonMessage("\xef\xbb\xbf{}"), "f.json: invalid JSON: starts with a byte order mark");
  EXPECT_EQ(jsonMessage(std::string("{}\0{\"a\":1}", 10)), "f.json: invalid JSON at line 1, column 3: NUL byte");
  EXPECT_EQ(jsonMessage("[\n\"\xff\"]"), "f.json: invalid JSON at line 2, column 2: invalid UTF-8");
  for (const char *bad : {"",
                          " ",
                          "{} x",
                          "{}{}",
                          "[NaN]",
                          "[Infinity]",
                          "[-Infinity]",
                          "[1e999]",
                          "[01]",
                          "[1.]",
                          "[+1]",
                          "['a']",
                          "[1,]",
                          "{\"a\":1,}",
                          "// c\n1",
                          "[\"\\ud800\"]",
                          "[\"\\udc00\\ud800\"]",
                          "[\"\t\"]",
                          "{\"a\"}",
                          "{a:1}",
                          "nul",
                          "[\"a]"})
    EXPECT_NE(jsonMessage(bad), "ok") << bad;
  EXPECT_EQ(jsonMessage("{\"a\" 1}").substr(0, 44), "f.json: invalid JSON at line 1, column 6: sy");
  EXPECT_NE(jsonMessage(std::string(600, '[') + std::string(600, ']')).find("deeper than 512"),
            std::string::npos);
  EXPECT_EQ(jsonMessage(std::string(512, '[') + std::string(512, ']')), "ok");
  EXPECT_NE(jsonMessage(std::string(1000000, '[')), "ok");
}

TEST(StrictJson, ManyMembersAreLinear) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i)
    text += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":" + std::to_string(i);
  text += "}";
  Result<Json> value = parseStrictJson(text, "f"); // quadratic work would take minutes
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->size(), 200000u);
}

TEST(JsonFields, PlainIntegersOnly) {
  const auto read = [](std::string_view text) {
    return jsonUnsigned(*parseStrictJson(text, "f"), 1, UINT64_MAX, "n").ok();
  };
  EXPECT_TRUE(read("1"));
  EXPECT_TRUE(read("18446744073709551615"));
  for (const char *bad :
       {"0", "-1", "1.0", "1e2", "true", "\"1\"", "null", "18446744073709551616", "[1]", "-0"})
    EXPECT_FALSE(read(bad)) << bad;
  EXPECT_EQ(jsonUnsigned(Json(64.0), 1, 9, "x: shape[0]").error().message,
            "x: shape[0]: expected integer in [1,9], got 64.0");
  EXPECT_EQ(*jsonInteger(Json(-5), -5, 5, "n"), -5);
  EXPECT_FALSE(jsonInteger(Json(-6), -5, 5, "n").ok());
  EXPECT_FALSE(jsonInteger(Json(UINT64_MAX), INT64_MIN, INT64_MAX, "n").ok());
  EXPECT_FALSE(jsonInteger(Json(true), 0, 5, "n").ok());
  EXPECT_EQ(*jsonNumber(Json(1), "n"), 1.0);
  EXPECT_FALSE(jsonNumber(Json("1"), "n").ok());
  EXPECT_FALSE(jsonIdentifier(Json(""), "n").ok());
  EXPECT_FALSE(jsonIdentifier(Json(std::string("a\0b", 3)), "n").ok());
  EXPECT_TRUE(jsonMembers(Json{{"a", 1}, {"b", 2}}, {"a"}, {"b"}, "o").ok());
  EXPECT_EQ(jsonMembers(Json{{"b", 2}}, {"a"}, {"b"}, "o").error().message,
            "o: missing member 'a'");
  EXPECT_EQ(jsonMembers(Json{{"a", 1}, {"c", 2}}, {"a"}, {"b"}, "o").error().message,
            "o: unknown member 'c'");
  EXPECT_FALSE(jsonMembers(Json::array(), {}, {}, "o").ok());
}

std::string printed(ProgressMode mode) {
  std::FILE *file = std::tmpfile();
  {
    Progress progress("convert", 200, mode, Progress::Unit::Items, file);
    progress.add(50);
    progress.detail("a\"b");
    progress.add(150);
  }
  std::string text(size_t(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

TEST(Progress, ModesOnAFile) {
  EXPECT_EQ(printed(ProgressMode::Off), "");
  EXPECT_EQ(printed(ProgressMode::Auto), "");
  EXPECT_NE(printed(ProgressMode::On).find("convert: 100% 200/200"), std::string::npos);
  const std::string json = printed(ProgressMode::Json);
  const Json last = *parseStrictJson(json.substr(json.rfind('\n', json.size() - 2) + 1), "line");
  EXPECT_EQ(last["phase"], "convert");
  EXPECT_EQ(last["done"], 200);
  EXPECT_EQ(last["total"], 200);
  EXPECT_EQ(last["detail"], "a\"b");
  EXPECT_EQ(progressModeFromName("json"), ProgressMode::Json);
  EXPECT_FALSE(progressModeFromName("yes"));
}

TEST(Progress, Texts) {
  EXPECT_EQ(formatBytes(12), "12 B");
  EXPECT_EQ(formatBytes(1400000000), "1.4 GB");
  EXPECT_EQ(formatBytes(830000), "830 kB");
  EXPECT_EQ(formatBytes(999999), "1.0 MB");
  EXPECT_EQ(formatDuration(7), "0:07");
  EXPECT_EQ(formatDuration(3723), "1:02:03");
  EXPECT_EQ(formatDuration(-1), "0:00");
}

} // namespace

TEST(Status, RenderingIsSafeForATerminal) {
  const Error error = makeError(ErrorKind::BadFile, "NB0000", "tensor '\x1b[31mred\x7f'");
  EXPECT_EQ(error.render(), "error[NB0000]: tensor '\\x1b[31mred\\x7f'\n");
  const Error endless = makeError(ErrorKind::BadFile, "NB0000", std::string(100000, 'x'));
  EXPECT_LT(endless.render().size(), 4100u);
}
