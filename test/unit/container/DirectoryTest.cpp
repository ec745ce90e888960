// Directory gates: every verdict of the shared case list, and the kinds of fault readers of other
// projects let pass.
#include "artifact/container/Reader.h"
#include "test/conformance/FixtureFile.h"

#include <gtest/gtest.h>
#include <set>

using namespace ninfer;
using namespace ninfer::test;

namespace {

/// Where this reader refuses what the other parser accepts (docs/container.md, section "Stricter on
/// purpose").
const std::set<std::string> kStricter = {"1e999 in config (overflowing number)"};

TEST(Directory, SharedCases) {
  const nlohmann::json cases = readJson("v3_directory_cases.json");
  ASSERT_EQ(cases.size(), 130u);
  size_t accepted = 0, refused = 0;
  std::set<std::string> stricter;
  for (const nlohmann::json &test : cases) {
    const std::string name = test["name"];
    SCOPED_TRACE(name);
    Result<Directory> directory =
        parseDirectory(test["json"].get<std::string>(), test["entry_name"]);
    const bool wantAccept = test["directory"] == "accept";
    if (wantAccept && !directory.ok() && kStricter.count(name)) {
      stricter.insert(name);
      continue;
    }
    ASSERT_EQ(directory.ok(), wantAccept)
        << (directory.ok() ? test["directory"].get<std::string>() : directory.error().message);
    if (!directory.ok()) {
      ++refused;
      EXPECT_EQ(directory.error().kind, ErrorKind::BadFile);
      EXPECT_EQ(directory.error().message.rfind(test["entry_name"].get<std::string>() + ": ", 0),
                0u)
          << directory.error().message;
      continue;
    }
    ++accepted;
    ASSERT_EQ(directory->objects.size(), test["objects"].size());
    for (size_t i = 0; i < directory->objects.size(); ++i) {
      const std::string id = directory->objects[i].id;
      Status status = checkObject(*directory, i, "x.ninfer");
      EXPECT_EQ(status.ok(), test["objects"][id] == "accept")
          << id << (status.ok() ? "" : ": " + status.error().message);
      if (!status.ok()) {
        EXPECT_NE(status.error().message.find("object '" + id + "'"), std::string::npos)
            << status.error().message;
      }
    }
  }
  EXPECT_EQ(stricter, kStricter);
  EXPECT_GT(accepted, 40u);
  EXPECT_GT(refused, 70u);
}

/// The base case with one text replaced.
std::string verdict(const std::string &from, const std::string &to) {
  std::string json = readJson("v3_directory_cases.json")[0]["json"];
  const size_t at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  json.replace(at, from.size(), to);
  Result<Directory> directory = parseDirectory(json, "x.ninfer");
  return directory.ok() ? "ok" : directory.error().message;
}

TEST(Directory, DuplicatesAreNeverResolved) {
  EXPECT_NE(
      verdict("\"objects\":[", "\"objects\":[],\"objects\":[").find("duplicate member 'objects'"),
      std::string::npos);
  EXPECT_NE(verdict("\"bytes\":528", "\"bytes\":528,\"bytes\":1").find("duplicate member 'bytes'"),
            std::string::npos);
  EXPECT_NE(verdict("\"id\":\"s\"", "\"id\":\"w\"").find("duplicate object id 'w'"),
            std::string::npos);
  EXPECT_NE(verdict("\"p\":{\"object\":\"w\"}", "\"p\":{\"object\":\"w\"},\"p\":{\"object\":\"s\"}")
                .find("duplicate member 'p'"),
            std::string::npos);
}

TEST(Directory, ShapesArePlainPositiveIntegers) {
  const auto shape = [](const std::string &text) {
    return verdict("\"shape\":[2,130]", "\"shape\":" + text);
  };
  EXPECT_EQ(shape("[2,130]"), "ok");
  for (const char *bad :
       {"[4294967296,4294967296]", "[-1,64]", "[0,64]", "[1e2,64]", "[64.0,64]", "[true,64]",
        "[18446744073709551616]", "[\"2\",130]", "[null]", "{}", "2", "[[2],130]"}) {
    EXPECT_NE(shape(bad), "ok") << bad;
    EXPECT_NE(shape(bad).find("object 'w'"), std::string::npos) << shape(bad);
  }
  // Legal for the directory, refused when the object is used: its bytes do not fit the shape.
  for (const std::string odd :
       {"[9007199254740993]", "[18446744073709551615]", "[1,9007199254740993]"}) {
    std::string json = readJson("v3_directory_cases.json")[0]["json"];
    json.replace(json.find("\"shape\":[2,130]"), 15, "\"shape\":" + odd);
    Result<Directory> directory = parseDirectory(json, "x.ninfer");
    ASSERT_TRUE(directory.ok());
    EXPECT_EQ(directory->objects[1].shape.back(),
              odd == "[18446744073709551615]" ? UINT64_MAX : 9007199254740993u)
        << "no detour through a double";
    EXPECT_FALSE(checkObject(*directory, 1, "x.ninfer").ok());
  }
}

TEST(Directory, MessagesNameExpectedAndActual) {
  EXPECT_EQ(verdict("\"bytes\":528", "\"bytes\":true"),
            "x.ninfer: object 'w'.bytes: expected integer in [1,18446744073709551615], got true");
  EXPECT_EQ(
      verdict("\"activation_policy\":\"A16Only\"", "\"activation_policy\":\"A8\""),
      "x.ninfer: use 'p' @ 'x'.activation_policy: expected A16Only, AllowA8 or AllowA4, got 'A8'");
  EXPECT_EQ(verdict("\"payload_bytes\":1292", "\"payload_bytes\":1291"),
            "x.ninfer: object 'v': ends at payload byte 1292, but the files hold 1291");
}

} // namespace
