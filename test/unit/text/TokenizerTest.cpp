// Every id of the reference implementation (test/oracle/tokenizer_vectors.py) on odd texts, and the refusals.
#include "runtime/text/Tokenizer.h"
#include "support/Json.h"
#include "support/Utf8.h"

#include <fstream>
#include <gtest/gtest.h>
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
                         testing::Values("gpt2", "gpt2_prefix", "smollm", "qwen2", "llama3", "added"));

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
        Refusal{"decoder", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"WordPiece"}})", kNo, "decoder"},
        Refusal{"added twice", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"ByteLevel"},"added_tokens":[{"id":1,"content":"x"},{"id":2,"content":"x"}]})", kBad, "duplicate"}),
    [](const auto &info) {
      std::string name = info.param.what;
      for (char &c : name)
        if (!isalnum(static_cast<unsigned char>(c)))
          c = '_';
      return name;
    });

} // namespace
