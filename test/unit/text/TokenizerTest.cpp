// Every id of the reference implementation (test/oracle/tokenizer_vectors.py) on odd texts, and the refusals.
#include "runtime/text/Tokenizer.h"
#include "support/Json.h"
#include "support/Utf8.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sstream>

using namespace ninfer;

namespace {

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

const std::string kVectors = std::string(NINFER_SOURCE_DIR) + "/test/vectors/tokenizer/";

class TokenizerVectors : public testing::TestWithParam<const char *> {};

TEST_P(TokenizerVectors, EveryIdEqualsTheReference) {
  std::string name = GetParam();
  Result<Tokenizer> tokenizer = Tokenizer::fromJson(readFile(kVectors + name + ".json"), name);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().render();
  Result<Json> vectors = parseStrictJson(readFile(kVectors + name + ".vectors.json"), name);
  ASSERT_TRUE(vectors.ok()) << vectors.error().render();
  ASSERT_GE((*vectors)["vectors"].size(), 40u);
  for (const Json &v : (*vectors)["vectors"]) {
    std::string text = v["text"];
    SCOPED_TRACE(name + ": " + v["text"].dump());
    Result<std::vector<int32_t>> ids = tokenizer->encode(text);
    ASSERT_TRUE(ids.ok()) << ids.error().render();
    EXPECT_EQ(*ids, v["ids"].get<std::vector<int32_t>>());
    Result<std::vector<int32_t>> plain = tokenizer->encode(text, {.addSpecial = false});
    ASSERT_TRUE(plain.ok());
    EXPECT_EQ(*plain, v["plain"].get<std::vector<int32_t>>());
    EXPECT_EQ(tokenizer->decode(*ids, true), v["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer->decode(*ids, false), v["decoded_all"].get<std::string>());
    StreamDecoder stream(*tokenizer);
    std::string streamed;
    for (int32_t id : *ids) {
      streamed += stream.push(id);
      EXPECT_TRUE(isValidUtf8(streamed));
    }
    streamed += stream.finish();
    EXPECT_EQ(streamed, v["decoded"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, TokenizerVectors,
                         testing::Values("gpt2", "gpt2_prefix", "smollm", "qwen2", "qwen35", "llama3", "added"));

TEST(Tokenizer, SpecialTokensInUserTextCanBeTreatedAsText) {
  Result<Tokenizer> t = Tokenizer::fromJson(readFile(kVectors + "smollm.json"), "smollm");
  ASSERT_TRUE(t.ok());
  Result<std::vector<int32_t>> ids = t->encode("<|im_end|>", {.addSpecial = false, .parseSpecial = false});
  ASSERT_TRUE(ids.ok());
  EXPECT_GT(ids->size(), 1u);
  EXPECT_EQ(t->decode(*ids, true), "<|im_end|>");
}

TEST(Tokenizer, InvalidUtf8IsRefusedWithTheOffset) {
  Result<Tokenizer> t = Tokenizer::fromJson(readFile(kVectors + "gpt2.json"), "gpt2");
  ASSERT_TRUE(t.ok());
  Result<std::vector<int32_t>> ids = t->encode("ok \xC3(");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().kind, ErrorKind::Usage);
  EXPECT_NE(ids.error().message.find("byte 3"), std::string::npos);
}

struct Refusal {
  const char *what;
  const char *json;
  ErrorKind kind;
  const char *says;
};

class TokenizerRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(TokenizerRefusals, AreErrorsThatNameThePart) {
  Result<Tokenizer> t = Tokenizer::fromJson(GetParam().json, "tokenizer.json");
  ASSERT_FALSE(t.ok());
  EXPECT_EQ(t.error().kind, GetParam().kind) << t.error().render();
  EXPECT_NE(t.error().message.find(GetParam().says), std::string::npos) << t.error().render();
}

constexpr ErrorKind kBad = ErrorKind::BadFile, kNo = ErrorKind::Unsupported;
INSTANTIATE_TEST_SUITE_P(
    Files, TokenizerRefusals,
    testing::Values(
        Refusal{"empty", "", kBad, "tokenizer.json"}, Refusal{"array", "[]", kBad, "model"},
        Refusal{"no vocab", R"({"model":{"type":"BPE","merges":[]}})", kBad, "vocab"},
        Refusal{"unigram", R"({"model":{"type":"Unigram","vocab":{},"merges":[]}})", kNo, "Unigram"},
        Refusal{"byte fallback", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[],"byte_fallback":true}})", kNo, "byte_fallback"},
        Refusal{"model type null", R"({"model":{"type":null,"vocab":{"a":0},"merges":[]}})", kBad, "model type"},
        Refusal{"behavior number", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Split","pattern":{"String":"x"},"behavior":1}})", kNo, "behavior"},
        Refusal{"decoder type", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":7}})", kNo, "decoder"},
        Refusal{"id twice", R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})", kBad, "used twice"},
        Refusal{"key twice", R"({"model":{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}})", kBad, "duplicate"},
        Refusal{"id type", R"({"model":{"type":"BPE","vocab":{"a":1.0},"merges":[]}})", kBad, "vocab id"},
        Refusal{"id huge", R"({"model":{"type":"BPE","vocab":{"a":4000000000},"merges":[]}})", kBad, "vocab id"},
        Refusal{"merge form", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}})", kBad, "merges[0]"},
        Refusal{"merge unknown", R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]}})", kBad, "not in the vocabulary"},
        Refusal{"normalizer", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"normalizer":{"type":"Prepend","prepend":"x"}})", kNo, "normalizer"},
        Refusal{"pre-tokenizer", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Metaspace"}})", kNo, "Metaspace"},
        Refusal{"regex", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"}})", kNo, "regular expression"},
        Refusal{"merge twice", R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b",["a","b"]]}})", kBad, "duplicate merge"},
        Refusal{"added contradicts vocab", R"({"model":{"type":"BPE","vocab":{"<x>":3},"merges":[]},"decoder":{"type":"ByteLevel"},"added_tokens":[{"id":4,"content":"<x>"}]})", kBad, "in model.vocab it has 3"},
        Refusal{"half code points", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\C"},"behavior":"Isolated"}})", kNo, "regular expression"},
        Refusal{"decoder", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"WordPiece"}})", kNo, "decoder"},
        Refusal{"added twice", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"ByteLevel"},"added_tokens":[{"id":1,"content":"x"},{"id":2,"content":"x"}]})", kBad, "duplicate"}),
    [](const auto &info) {
      std::string name = info.param.what;
      for (char &c : name)
        if (!isalnum(static_cast<unsigned char>(c)))
          c = '_';
      return name;
    });

/// Integers of a tokenizer.json are plain JSON integers in range, wherever they stand.
TEST(Tokenizer, IdsArePlainIntegers) {
  for (const char *id : {"-1", "-0", "1.0", "1e2", "true", "null", "\"1\"", "[1]", "16777216", "9007199254740993", "18446744073709551615",
                         "18446744073709551616"}) {
    const std::string vocab = std::string(R"({"model":{"type":"BPE","vocab":{"a":)") + id + R"(},"merges":[]},"decoder":{"type":"ByteLevel"}})";
    const std::string added = std::string(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"ByteLevel"},"added_tokens":[{"id":)") +
                              id + R"(,"content":"<x>"}]})";
    for (const std::string &json : {vocab, added}) {
      Result<Tokenizer> t = Tokenizer::fromJson(json, "tokenizer.json");
      ASSERT_FALSE(t.ok()) << json;
      EXPECT_EQ(t.error().kind, ErrorKind::BadFile) << t.error().render();
    }
  }
}

TEST(Tokenizer, DuplicateMembersAreRefusedAtEveryDepth) {
  for (const char *json :
       {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"ByteLevel"}})",
        R"({"model":{"type":"BPE","vocab":{"a":0},"vocab":{"b":0},"merges":[]},"decoder":{"type":"ByteLevel"}})",
        R"({"model":{"type":"BPE","vocab":{"a":0,"\u0061":0},"merges":[]},"decoder":{"type":"ByteLevel"}})",
        R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"ByteLevel","type":"ByteLevel"}})",
        R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"ByteLevel"},"added_tokens":[{"id":1,"id":2,"content":"x"}]})",
        R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"ByteLevel"},"unknown":{"x":1,"x":1}})"}) {
    Result<Tokenizer> t = Tokenizer::fromJson(json, "tokenizer.json");
    ASSERT_FALSE(t.ok()) << json;
    EXPECT_NE(t.error().message.find("duplicate member"), std::string::npos) << t.error().render();
  }
}

/// A short file with the largest ids takes no memory in proportion to them.
TEST(Tokenizer, GapsInTheIdsCostNothing) {
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  Result<Tokenizer> t = Tokenizer::fromJson(
      R"({"model":{"type":"BPE","vocab":{"a":16777215,"b":3},"merges":[]},"decoder":{"type":"ByteLevel"}})", "tokenizer.json");
  getrusage(RUSAGE_SELF, &after);
  ASSERT_TRUE(t.ok()) << t.error().render();
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 * 1024) << "KiB";
  EXPECT_EQ(t->size(), 16777216);
  EXPECT_EQ(t->tokenBytes(16777215), "a");
  EXPECT_EQ(t->tokenBytes(3), "b");
  EXPECT_EQ(t->tokenBytes(4), "");
  EXPECT_EQ(*t->encode("ab"), (std::vector<int32_t>{16777215, 3}));
}

TEST(Tokenizer, ManyAddedTokensLoadInReasonableTime) {
  std::string json = R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"ByteLevel"},"added_tokens":[)";
  for (int i = 0; i < 100000; ++i)
    json += (i ? "," : "") + std::string(R"({"id":)") + std::to_string(i + 1) + R"(,"content":"<)" + std::to_string(i) + ">\"}";
  Result<Tokenizer> t = Tokenizer::fromJson(json + "]}", "tokenizer.json"); // sorting at each token took hours
  ASSERT_TRUE(t.ok()) << t.error().render();
  EXPECT_EQ(*t->encode("<99999>a<7>"), (std::vector<int32_t>{100000, 0, 8}));
}

/// An entry outside the byte-level alphabet is no token of any text, even when it looks like one byte.
TEST(Tokenizer, OnlyByteLevelSpellingsStandForBytes) {
  for (const char *vocab : {R"("Ġ":0," ":1,"a":2)", R"(" ":1,"Ġ":0,"a":2)"}) {
    Result<Tokenizer> t = Tokenizer::fromJson(
        std::string(R"({"model":{"type":"BPE","vocab":{)") + vocab + R"(},"merges":[]},"decoder":{"type":"ByteLevel"}})", "tokenizer.json");
    ASSERT_TRUE(t.ok()) << t.error().render();
    EXPECT_EQ(*t->encode("a a"), (std::vector<int32_t>{2, 0, 2}));
    EXPECT_EQ(*t->find(" "), 1);
    EXPECT_EQ(*t->find("Ġ"), 0);
  }
}

} // namespace
