// Model folders: the shard index as an attacker would write it, links, ambiguous folders, and
// shards that disagree with their index.
#include "convert/HuggingFaceFolder.h"

#include "SourceBuilders.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

std::string indexOf(const std::vector<std::pair<std::string, std::string>> &map) {
  Json weights = Json::object();
  for (const auto &[tensor, file] : map)
    weights[tensor] = file;
  return Json{{"metadata", {{"total_size", 1}}}, {"weight_map", weights}}.dump();
}

TEST(ShardIndex, RefusesEveryNameThatIsNotOnePlainBaseName) {
  for (const std::string &name :
       {std::string("../other/m.safetensors"), std::string("/etc/m.safetensors"),
        std::string("a/../../m.safetensors"), std::string("./m.safetensors"),
        std::string("m.safetensors\0x", 15), std::string("C:\\m.safetensors"),
        std::string("C:m.safetensors"), std::string("sub/m.safetensors"), std::string(""),
        std::string("."), std::string(".."), std::string("m\n.safetensors")}) {
    auto map = parseShardIndex(indexOf({{"w", name}}), "model.safetensors.index.json");
    ASSERT_FALSE(map.ok()) << name;
    EXPECT_EQ(map.error().code, "NB0312");
    EXPECT_NE(map.error().message.find("unsafe file name"), std::string::npos)
        << map.error().message;
    EXPECT_NE(map.error().message.find("\"w\""), std::string::npos) << map.error().message;
  }
  EXPECT_TRUE(parseShardIndex(indexOf({{"w", "m-00001-of-00002.safetensors"}}), "i").ok());
}

TEST(ShardIndex, RefusesBrokenForms) {
  for (const char *text :
       {R"({"weight_map":{"w":"a","w":"b"}})", R"({"weight_map":{"w":1}})", R"({"weight_map":{}})",
        R"({"weight_map":[]})", R"({})", R"({"weight_map":{"w":"a"},"x":1})", "[]", "{",
        R"({"weight_map":{"w":"a"},"weight_map":{"w":"b"}})"}) {
    auto map = parseShardIndex(text, "i");
    ASSERT_FALSE(map.ok()) << text;
    EXPECT_EQ(map.error().kind, ErrorKind::BadFile);
  }
}

TEST(ModelFolder, FollowsLinksOnlyUnderTheFolder) {
  TempFolder outside, folder;
  writeBytes(outside / "secret.safetensors", "x");
  writeBytes(folder / "real.safetensors", "x");
  fs::create_symlink(outside / "secret.safetensors", folder / "leak.safetensors");
  fs::create_symlink("real.safetensors", folder / "alias.safetensors");
  fs::create_symlink("nowhere", folder / "broken.safetensors");
  auto model = ModelFolder::open(folder.path());
  ASSERT_TRUE(model.ok());
  EXPECT_TRUE(model->resolve("alias.safetensors").ok());
  auto leak = model->resolve("leak.safetensors");
  ASSERT_FALSE(leak.ok());
  EXPECT_NE(leak.error().message.find("leads outside"), std::string::npos) << leak.error().message;
  auto broken = model->resolve("broken.safetensors");
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("broken link"), std::string::npos);
  EXPECT_FALSE(model->resolve("missing.safetensors").ok());
  EXPECT_FALSE(model->resolve("../x").ok());
}

TEST(ModelFolder, FollowsHubCacheLinksIntoItsOwnRepositoryOnly) {
  TempFolder cache;
  fs::path repository = cache / "models--org--tiny", snapshot = repository / "snapshots" / "abc";
  fs::create_directories(snapshot);
  fs::create_directories(repository / "blobs");
  fs::create_directories(cache / "models--org--other" / "blobs");
  writeBytes(repository / "blobs" / "d1", "x");
  writeBytes(cache / "models--org--other" / "blobs" / "d2", "x");
  fs::create_symlink("../../blobs/d1", snapshot / "mine.safetensors");
  fs::create_symlink("../../../models--org--other/blobs/d2", snapshot / "foreign.safetensors");
  auto model = ModelFolder::open(snapshot);
  ASSERT_TRUE(model.ok());
  EXPECT_TRUE(model->resolve("mine.safetensors").ok());
  EXPECT_FALSE(model->resolve("foreign.safetensors").ok());
  // The same shape of folder outside a hub cache gets no wider root.
  fs::path plain = cache / "work" / "snapshots" / "abc";
  fs::create_directories(plain);
  writeBytes(cache / "work" / "f", "x");
  fs::create_symlink("../../f", plain / "up.safetensors");
  auto other = ModelFolder::open(plain);
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(other->resolve("up.safetensors").ok());
}

/// The tiny model in two shards; returns the index map.
std::vector<std::pair<std::string, std::string>> writeShards(const fs::path &folder) {
  std::vector<TinyTensor> tensors = tinyTensors();
  writeTinyFolder(folder, tensors, "F32");
  fs::remove(folder / "model.safetensors");
  SafetensorsBuilder shards[2];
  std::vector<std::pair<std::string, std::string>> map;
  for (size_t i = 0; i < tensors.size(); ++i) {
    shards[i % 2].add(tensors[i].huggingFace, "F32", tensors[i].shape, f32Bytes(tensors[i].values));
    map.emplace_back(tensors[i].huggingFace, i % 2 ? "b.safetensors" : "a.safetensors");
  }
  writeBytes(folder / "a.safetensors", shards[0].file());
  writeBytes(folder / "b.safetensors", shards[1].file());
  return map;
}

const char *const kIndex = "model.safetensors.index.json";

TEST(HuggingFaceFolder, OpensShards) {
  TempFolder folder;
  writeBytes(folder / kIndex, indexOf(writeShards(folder.path())));
  auto checkpoint = openHuggingFace(folder.path(), "", {});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().render();
  EXPECT_EQ(checkpoint->tensors.files.size(), 2u);
  EXPECT_EQ(checkpoint->parameters.size(), 21u);
  EXPECT_EQ(checkpoint->resources.size(), 2u);
}

TEST(HuggingFaceFolder, RefusesShardsThatDisagreeWithTheIndex) {
  TempFolder folder;
  auto map = writeShards(folder.path());
  auto expect = [&](const std::vector<std::pair<std::string, std::string>> &edited,
                    const std::string &message) {
    writeBytes(folder / kIndex, indexOf(edited));
    auto checkpoint = openHuggingFace(folder.path(), "", {});
    ASSERT_FALSE(checkpoint.ok()) << message;
    EXPECT_NE(checkpoint.error().message.find(message), std::string::npos)
        << checkpoint.error().message;
  };
  auto swapped = map;
  swapped[1].second = "a.safetensors";
  expect(swapped, "is listed in a.safetensors but lies in b.safetensors");
  auto unlisted = map;
  unlisted.pop_back();
  expect(unlisted, "is not listed");
  auto absent = map;
  absent.emplace_back("model.extra.weight", "a.safetensors");
  expect(absent, "\"model.extra.weight\" is not in a.safetensors");
  auto lost = map;
  lost[0].second = "c.safetensors";
  expect(lost, "no such file");
}

TEST(HuggingFaceFolder, RefusesATensorInTwoShards) {
  TempFolder folder;
  auto map = writeShards(folder.path());
  fs::copy_file(folder / "a.safetensors", folder / "c.safetensors");
  map.emplace_back("x", "c.safetensors");
  writeBytes(folder / kIndex, indexOf(map));
  auto checkpoint = openHuggingFace(folder.path(), "", {});
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_NE(checkpoint.error().message.find("occurs twice"), std::string::npos)
      << checkpoint.error().message;
}

TEST(HuggingFaceFolder, RefusesAnAmbiguousOrEmptyFolder) {
  TempFolder folder;
  writeTinyFolder(folder.path(), tinyTensors(), "F32");
  writeBytes(folder / kIndex, "{}");
  auto both = openHuggingFace(folder.path(), "", {});
  ASSERT_FALSE(both.ok());
  EXPECT_NE(both.error().message.find("both"), std::string::npos);
  EXPECT_TRUE(openHuggingFace(folder.path(), "model.safetensors", {}).ok());
  fs::remove(folder / kIndex);
  fs::remove(folder / "model.safetensors");
  EXPECT_FALSE(openHuggingFace(folder.path(), "", {}).ok());
}

TEST(HuggingFaceFolder, ListsMissingExtraAndMisshapedTensorsTogether) {
  TempFolder folder;
  std::vector<TinyTensor> tensors = tinyTensors();
  tensors[1].huggingFace = "model.layers.0.self_attn.q_proj.bias"; // was input_layernorm of layer 0
  std::swap(tensors[3].shape[0], tensors[3].shape[1]);
  writeTinyFolder(folder.path(), tensors, "F32");
  auto checkpoint = openHuggingFace(folder.path(), "", {});
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.error().code, "NB0319");
  std::string text = checkpoint.error().render();
  EXPECT_NE(text.find("missing: tensor 'model.layers.0.input_layernorm.weight' [64]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("misshaped: tensor 'model.layers.0.self_attn.k_proj.weight' is [64,32]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("extra: tensor 'model.layers.0.self_attn.q_proj.bias' [64]"),
            std::string::npos)
      << text;
}

TEST(HuggingFaceFolder, IgnoresRotaryTablesAndATiedHeadAndSaysSo) {
  TempFolder folder;
  std::vector<TinyTensor> tensors = tinyTensors(false, false); // with lm_head
  tensors.push_back(
      {"model.layers.0.self_attn.rotary_emb.inv_freq", "", {8}, std::vector<float>(8, 1.0f)});
  writeTinyFolder(folder.path(), tensors, "F32"); // config says tied
  auto checkpoint = openHuggingFace(folder.path(), "", {});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().render();
  ASSERT_EQ(checkpoint->notes.size(), 1u);
  EXPECT_NE(checkpoint->notes[0].find("lm_head.weight"), std::string::npos);
}

TEST(HuggingFaceFolder, RefusesParametersOfATypeThatIsNoFloat) {
  TempFolder folder;
  SafetensorsBuilder file;
  for (const TinyTensor &t : tinyTensors())
    file.add(t.huggingFace, t.shape.size() == 1 ? "I32" : "F32", t.shape, f32Bytes(t.values));
  writeTinyFolder(folder.path(), tinyTensors(), "F32");
  writeBytes(folder / "model.safetensors", file.file());
  auto checkpoint = openHuggingFace(folder.path(), "", {});
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_NE(checkpoint.error().render().find("has type I32"), std::string::npos)
      << checkpoint.error().render();
}

struct TextCase {
  std::string file, content, expected;
};

TEST(TokenizerFiles, RefusesBrokenResources) {
  for (const TextCase &c : std::vector<TextCase>{
           {"tokenizer.json", R"({"model":{"vocab":{"a":40}}})", "id of token \"a\""},
           {"tokenizer.json", R"({"model":{"vocab":{"a":-1}}})", "id of token"},
           {"tokenizer.json", R"({"model":{"vocab":{"a":1,"a":2}}})", "duplicate"},
           {"tokenizer.json", R"({"model":{"vocab":{}},"added_tokens":[{"id":40,"content":"x"}]})",
            "id of token"},
           {"tokenizer.json", "{}", "model.vocab"},
           {"tokenizer.json", "[]", "JSON object"},
           {"tokenizer_config.json", "{", "tokenizer_config.json"},
           {"tokenizer_config.json", R"({"chat_template":[{"name":"rag","template":"x"}]})",
            "default"},
           {"chat_template.jinja", "", "is empty"},
           {"generation_config.json", "1", "JSON object"}}) {
    TempFolder folder;
    writeTinyFolder(folder.path(), tinyTensors(), "F32");
    writeBytes(folder / c.file, c.content);
    auto checkpoint = openHuggingFace(folder.path(), "", {});
    ASSERT_FALSE(checkpoint.ok()) << c.file << " " << c.content;
    EXPECT_NE(checkpoint.error().message.find(c.expected), std::string::npos)
        << checkpoint.error().message;
  }
}

TEST(TokenizerFiles, PicksTheTemplateAndMakesGenerationIds) {
  TempFolder folder;
  writeTinyFolder(folder.path(), tinyTensors(), "F32");
  writeBytes(
      folder / "tokenizer_config.json",
      R"({"chat_template":[{"name":"rag","template":"r"},{"name":"default","template":"d"}]})");
  auto find = [&](const std::string &role) -> std::string {
    auto checkpoint = openHuggingFace(folder.path(), "", {});
    EXPECT_TRUE(checkpoint.ok());
    for (const SourceResource &r : checkpoint->resources)
      if (r.role == role)
        return r.bytes;
    return "absent";
  };
  EXPECT_EQ(find("chat_template.jinja"), "d");
  EXPECT_EQ(find("generation_config.json"), R"({"bos_token_id":1,"eos_token_id":2})");
  EXPECT_EQ(find("tokenizer.json"), tinyTokenizer());
  writeBytes(folder / "chat_template.jinja", "file wins");
  EXPECT_EQ(find("chat_template.jinja"), "file wins");
  writeBytes(folder / "generation_config.json", R"({"eos_token_id": [1, 2]})");
  EXPECT_EQ(find("generation_config.json"), R"({"eos_token_id": [1, 2]})");
  fs::remove(folder / "tokenizer.json");
  EXPECT_FALSE(openHuggingFace(folder.path(), "", {}).ok());
  auto bare = openHuggingFace(folder.path(), "", {false, {}});
  ASSERT_TRUE(bare.ok());
  EXPECT_TRUE(bare->resources.empty());
}

} // namespace
} // namespace ninfer
