// Tokenizers made from GGUF metadata: id for id equal to the reference package on the committed odd
// texts (the same vectors test the runtime reader), and refusals.
#include "convert/TokenizerFiles.h"

#include "SourceBuilders.h"
#include "runtime/text/Tokenizer.h"

#include <functional>
#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

Result<GgufFile> parse(const GgufBuilder &builder) {
  TempFolder folder;
  writeBytes(folder / "m.gguf", builder.file());
  auto file = SourceFile::open(folder / "m.gguf");
  return readGguf(*file);
}

Result<std::vector<SourceResource>> make(const GgufBuilder &builder, int64_t vocab = 100000) {
  auto gguf = parse(builder);
  if (!gguf.ok())
    return gguf.takeStatus();
  return tokenizerFilesOfGguf(*gguf, vocab, 128);
}

std::string find(const std::vector<SourceResource> &resources, const std::string &role) {
  for (const SourceResource &r : resources)
    if (r.role == role)
      return r.bytes;
  return "";
}

/// The metadata a GGUF of this Hugging Face tokenizer carries.
GgufBuilder fromTokenizerJson(const Json &source, const std::string &pre) {
  std::vector<std::string> tokens(source["model"]["vocab"].size());
  std::vector<int32_t> types(tokens.size(), 1);
  for (const auto &item : source["model"]["vocab"].items())
    tokens.at(item.value().get<size_t>()) = item.key();
  for (const Json &token : source["added_tokens"])
    types.at(token["id"].get<size_t>()) = token["special"].get<bool>() ? 3 : 4;
  std::vector<std::string> merges;
  for (const Json &merge : source["model"]["merges"])
    merges.push_back(merge.is_string()
                         ? merge.get<std::string>()
                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  GgufBuilder b;
  b.string("tokenizer.ggml.model", "gpt2");
  b.string("tokenizer.ggml.pre", pre);
  b.strings("tokenizer.ggml.tokens", tokens);
  b.ints("tokenizer.ggml.token_type", types);
  b.strings("tokenizer.ggml.merges", merges);
  b.u32("tokenizer.ggml.bos_token_id", 0);
  b.u32("tokenizer.ggml.eos_token_id", 2);
  return b;
}

TEST(GgufTokenizer, GivesTheReferenceIdsOnOddTexts) {
  struct Case {
    const char *pre, *file;
  };
  for (const Case &c : {Case{"smollm", "smollm"}, Case{"llama-bpe", "llama3"},
                        Case{"qwen2", "qwen2"}, Case{"qwen35", "qwen35"}, Case{"gpt-2", "gpt2"}}) {
    std::string stem = std::string(NINFER_SOURCE_DIR "/test/vectors/tokenizer/") + c.file;
    auto resources = make(fromTokenizerJson(Json::parse(readBytes(stem + ".json")), c.pre));
    ASSERT_TRUE(resources.ok()) << resources.error().render();
    auto tokenizer = Tokenizer::fromJson(find(*resources, "tokenizer.json"), "tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << c.pre << ": " << tokenizer.error().render();
    size_t checked = 0;
    Json reference = Json::parse(readBytes(stem + ".vectors.json"));
    for (const Json &vector : reference["vectors"]) {
      auto ids = tokenizer->encode(vector["text"].get<std::string>());
      ASSERT_TRUE(ids.ok());
      EXPECT_EQ(*ids, vector["ids"].get<std::vector<int32_t>>()) << c.pre << " " << vector["text"];
      ++checked;
    }
    EXPECT_GT(checked, 30u);
  }
}

TEST(GgufTokenizer, MakesTheOtherResources) {
  GgufBuilder b;
  tinyGgufTokenizer(b);
  b.u32("tokenizer.ggml.padding_token_id", 0);
  auto resources = make(b);
  ASSERT_TRUE(resources.ok()) << resources.error().render();
  EXPECT_EQ(find(*resources, "chat_template.jinja"), "{{ messages }}");
  Json generation = Json::parse(find(*resources, "generation_config.json"));
  EXPECT_EQ(generation["bos_token_id"], 1);
  EXPECT_EQ(generation["eos_token_id"],
            (std::vector<int>{2, 0})); // eos, then the other control token that ends a text
  EXPECT_EQ(generation["pad_token_id"], 0);
  Json config = Json::parse(find(*resources, "tokenizer_config.json"));
  EXPECT_EQ(config["eos_token"], "<|im_end|>");
  EXPECT_EQ(config["add_bos_token"], false);
}

TEST(GgufTokenizer, AddsBeginAndEndOfTextWhenTold) {
  GgufBuilder b;
  tinyGgufTokenizer(b);
  b.boolean("tokenizer.ggml.add_bos_token", true);
  b.boolean("tokenizer.ggml.add_eos_token", true);
  auto resources = make(b);
  ASSERT_TRUE(resources.ok());
  auto tokenizer = Tokenizer::fromJson(find(*resources, "tokenizer.json"), "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().render();
  EXPECT_EQ(*tokenizer->encode("abc"), (std::vector<int32_t>{1, 30, 2}));
}

TEST(GgufTokenizer, DropsTheUnusedTailOnly) {
  GgufBuilder b;
  b.string("tokenizer.ggml.model", "gpt2");
  b.string("tokenizer.ggml.pre", "qwen2");
  b.strings("tokenizer.ggml.tokens", {"a", "[PAD1]", "b", "[PAD3]", "[PAD3]"});
  b.ints("tokenizer.ggml.token_type", {1, 5, 4, 5, 5});
  b.strings("tokenizer.ggml.merges", {});
  auto resources = make(b);
  ASSERT_TRUE(resources.ok()) << resources.error().render();
  Json tokenizer = Json::parse(find(*resources, "tokenizer.json"));
  EXPECT_EQ(tokenizer["model"]["vocab"].size(), 3u);
  ASSERT_EQ(tokenizer["added_tokens"].size(), 1u);
  EXPECT_EQ(tokenizer["added_tokens"][0]["special"], false);
}

TEST(GgufTokenizer, RefusesByName) {
  struct Case {
    std::function<void(GgufBuilder &)> edit;
    ErrorKind kind;
    const char *message;
  };
  constexpr ErrorKind bad = ErrorKind::BadFile, unsupported = ErrorKind::Unsupported;
  auto base = [](GgufBuilder &b, std::vector<std::string> tokens, std::vector<std::string> merges,
                 const std::string &pre = "smollm", const std::string &model = "gpt2") {
    b.string("tokenizer.ggml.model", model);
    b.string("tokenizer.ggml.pre", pre);
    b.strings("tokenizer.ggml.tokens", tokens);
    b.strings("tokenizer.ggml.merges", merges);
  };
  for (const Case &c :
       std::vector<Case>{{[&](GgufBuilder &) {}, unsupported, "tokenizer model ''"},
                         {[&](GgufBuilder &b) { base(b, {"a"}, {}, "smollm", "llama"); },
                          unsupported, "tokenizer model 'llama'"},
                         {[&](GgufBuilder &b) { base(b, {"a"}, {}, "tekken"); }, unsupported,
                          "pre-tokenizer 'tekken'"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a"}, {});
                            b.boolean("tokenizer.ggml.add_space_prefix", true);
                          },
                          unsupported, "add_space_prefix"},
                         {[&](GgufBuilder &b) { base(b, {}, {}); }, bad, "tokenizer.ggml.tokens"},
                         {[&](GgufBuilder &b) { base(b, std::vector<std::string>(101, "x"), {}); },
                          bad, "101 tokens, the embedding has 100"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a", "b", "a"}, {});
                          },
                          bad, "tokens 0 and 2 are equal"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a", "\xff"}, {});
                          },
                          bad, "token 1 is empty or not UTF-8"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a", ""}, {});
                          },
                          bad, "token 1 is empty"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a", "b"}, {});
                            b.ints("tokenizer.ggml.token_type", {1});
                          },
                          bad, "1 entries for 2 tokens"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a"}, {});
                            b.ints("tokenizer.ggml.token_type", {7});
                          },
                          bad, "unknown type"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a", "b"}, {"a b"});
                          },
                          bad, "\"ab\" is no token"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a", "b", "ab"}, {"ab"});
                          },
                          bad, "merge 0 is not two parts"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a", "b", "ab"}, {"a  b"});
                          },
                          bad, "merge 0 is not two parts"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a", "b", "ab"}, {"a \xff"});
                          },
                          bad, "is no token"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a"}, {});
                            b.u32("tokenizer.ggml.eos_token_id", 1);
                          },
                          bad, "names no token"},
                         {[&](GgufBuilder &b) {
                            base(b, {"a"}, {});
                            b.string("tokenizer.ggml.bos_token_id", "0");
                          },
                          bad, "bos_token_id"}}) {
    GgufBuilder b;
    c.edit(b);
    auto resources = make(b, 100);
    ASSERT_FALSE(resources.ok()) << c.message;
    EXPECT_EQ(resources.error().kind, c.kind) << resources.error().render();
    EXPECT_NE(resources.error().message.find(c.message), std::string::npos)
        << resources.error().message;
  }
}

} // namespace
} // namespace ninfer
