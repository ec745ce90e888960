// Two kinds of fault at every JSON the product reads: a member that occurs twice (two readers, two answers), and a
// number that is no plain integer (readers that go through a double). Every object and every integer is tried.
#include "JsonMutations.h"

#include "artifact/container/Reader.h"
#include "convert/HuggingFaceFolder.h"
#include "convert/Recipe.h"
#include "convert/Safetensors.h"
#include "convert/quantized/Import.h"
#include "runtime/text/Tokenizer.h"
#include "test/unit/convert/SourceBuilders.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

/// The error of a reader, or "" when it accepts.
using Reader = std::function<std::string(const std::string &text)>;

template <typename T>
std::string message(const Result<T> &result) {
  return result.ok() ? "" : result.error().message;
}

const char *const kDirectory = R"({"components":{"text":{"config":{"a":{"b":1}},"resources":{"tokenizer.json":"t"},
"proposal":{"domain":"indexed","rows":2}},"mtp":{"config":{"c":1},"target":"text"}},
"objects":[{"id":"t","kind":"resource","encoding":"raw_bytes_v1","offset":0,"bytes":5},
{"id":"w","kind":"tensor","shape":[2,130],"format":"q5_g64_fp16","layout":"row_split_k128_v1","offset":256,"bytes":528},
{"id":"s","kind":"tensor","shape":[1],"format":"fp32","layout":"contiguous_le_v1","offset":1024,"bytes":4}],
"bindings":{"p":{"object":"w"},"row1":{"parts":[{"object":"w","range":[130,260]},{"object":"s","range":[0,1]}]}},
"uses":[{"parameter":"p","input":"x","activation_policy":"A16Only","auxiliaries":{"d":{"object":"s"},"e":{"parts":[{"object":"s","range":[0,1]}]}}}],
"metadata":{"name":"n","more":{"x":1}},"provenance":{"y":{"z":2}},
"files":[{"path":null,"payload_bytes":512},{"path":"p1","payload_bytes":516}]})";

const char *const kHeader = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[3,2],"data_offsets":[4,16]},
"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";

std::string fullConfig() {
  TestJson config = TestJson::parse(tinyConfig());
  config["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 32.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
  return config.dump();
}

/// A folder of the tiny model in which one file is replaced; the error of opening it as the converter does.
class FolderReader {
public:
  explicit FolderReader(std::string file) : file_(std::move(file)) {
    writeTinyFolder(folder_.path(), tinyTensors(), "F32");
    writeBytes(folder_ / "generation_config.json", R"({"eos_token_id":2})");
    writeBytes(folder_ / "tokenizer_config.json", "{}");
  }
  std::string operator()(const std::string &text) const {
    writeBytes(folder_ / file_, text);
    return message(openCheckpoint(folder_.path(), {}));
  }

private:
  TempFolder folder_;
  std::string file_;
};

struct Source {
  std::string name, document;
  std::vector<std::string> opaque; ///< prefixes of paths whose integers are not read
};

std::vector<Source> sources() {
  return {
      {"directory", kDirectory, {"/components/text/config", "/components/mtp/config", "/metadata", "/provenance"}},
      {"safetensors", kHeader, {}},
      {"index", R"({"metadata":{"total_size":8},"weight_map":{"a":"m.safetensors","b":"m.safetensors"}})", {"/metadata"}},
      {"config.json", fullConfig(), {"/bos_token_id", "/eos_token_id"}},
      {"tokenizer.json",
       R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"decoder":{"type":"ByteLevel"},
"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"}]},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a"},"behavior":"Isolated"},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]},
"added_tokens":[{"id":3,"content":"<s>","special":true}]})",
       {"/post_processor"}},
      {"tokenizer_config.json", R"({"chat_template":[{"name":"default","template":"x"}],"eos_token":{"content":"A"},"model_max_length":128})",
       {"/model_max_length"}},
      {"generation_config.json", R"({"eos_token_id":[2,3],"x":{"y":1},"bos_token_id":1})", {"/x", "/bos_token_id"}},
  };
}

/// `use` runs with the reader of the source; FolderReader is kept alive by it.
std::string read(const Source &source, const std::string &text) {
  if (source.name == "directory")
    return message(parseDirectory(text, "x.ninfer"));
  if (source.name == "safetensors")
    return message(parseSafetensorsHeader(text, 8 + text.size(), 16, "m.safetensors"));
  if (source.name == "index")
    return message(parseShardIndex(text, "model.safetensors.index.json"));
  static std::map<std::string, std::unique_ptr<FolderReader>> folders;
  auto &folder = folders[source.name];
  if (!folder)
    folder = std::make_unique<FolderReader>(source.name);
  return (*folder)(text);
}

TEST(JsonKinds, TheDocumentsThemselvesAreAccepted) {
  for (const Source &source : sources()) {
    EXPECT_EQ(read(source, source.document), "") << source.name;
    const MutationWriter same([](auto &, auto &, auto &) { return std::string(); }, [](auto &, auto &) { return std::string(); });
    EXPECT_EQ(read(source, same.write(TestJson::parse(source.document))), "") << source.name;
  }
}

TEST(JsonKinds, AMemberTwiceIsRefusedInEveryObject) {
  size_t tried = 0;
  for (const Source &source : sources())
    for (const Mutation &m : duplicates(TestJson::parse(source.document))) {
      const std::string error = read(source, m.text);
      EXPECT_NE(error.find("duplicate member"), std::string::npos) << source.name << " " << m.where << "\n" << m.text << "\n" << error;
      ++tried;
    }
  EXPECT_GT(tried, 150u);
}

TEST(JsonKinds, EveryIntegerFieldTakesPlainIntegersOnly) {
  size_t tried = 0;
  for (const Source &source : sources()) {
    const auto skip = [&](const std::string &path) {
      return std::any_of(source.opaque.begin(), source.opaque.end(),
                         [&](const std::string &prefix) { return path.rfind(prefix, 0) == 0; });
    };
    for (const Mutation &m : wrongIntegers(TestJson::parse(source.document), skip)) {
      EXPECT_NE(read(source, m.text), "") << source.name << " " << m.where;
      ++tried;
    }
  }
  EXPECT_GT(tried, 500u);
}

/// 2^53 + 1 is not 2^53: no integer goes through a double on its way in.
TEST(JsonKinds, LargeIntegersKeepTheirValue) {
  std::string text = kDirectory;
  const size_t at = text.find("\"payload_bytes\":516");
  text.replace(at, 19, "\"payload_bytes\":9007199254740993");
  Result<Directory> directory = parseDirectory(text, "x.ninfer");
  ASSERT_TRUE(directory.ok()) << directory.error().message;
  EXPECT_EQ(directory->files[1].payloadBytes, 9007199254740993u);
  auto header = parseSafetensorsHeader(R"({"w":{"dtype":"U8","shape":[9007199254740993],"data_offsets":[0,9007199254740993]}})", 0,
                                       9007199254740993u, "m");
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->front().bytes, 9007199254740993u);
  EXPECT_FALSE(parseSafetensorsHeader(R"({"w":{"dtype":"U8","shape":[9007199254740993],"data_offsets":[0,9007199254740992]}})", 0,
                                      9007199254740992u, "m")
                   .ok());
}

TEST(JsonKinds, TheSameNameTwiceWithoutJsonsHelp) {
  // Names that are values, so that only the reader can see them twice.
  std::string text = kDirectory;
  text.replace(text.find("\"id\":\"s\""), 8, "\"id\":\"w\"");
  EXPECT_NE(message(parseDirectory(text, "x")).find("duplicate object id 'w'"), std::string::npos);
  text = kDirectory;
  text.replace(text.find("{\"path\":\"p1\""), 12, "{\"path\":\"p1\",\"payload_bytes\":1},{\"path\":\"p1\"");
  EXPECT_NE(message(parseDirectory(text, "x")).find("duplicate file name 'p1'"), std::string::npos);
  text = kDirectory;
  text.replace(text.find("\"uses\":["), 8, R"("uses":[{"parameter":"p","input":"x"},)");
  EXPECT_NE(message(parseDirectory(text, "x")).find("duplicate use"), std::string::npos);
}

TEST(JsonKinds, RecipesRefuseDuplicatesAndWrongNumbers) {
  const std::string head = "[formats]\ndefault = \"q4\"\n";
  for (const std::string &text :
       {head + "default = \"q4\"\n", head + "[formats]\nhead = \"q4\"\n", "name = \"a\"\nname = \"a\"\n" + head,
        head + "[[layers]]\nfirst = 0\nfirst = 0\nlast = 1\n", head + "[[layers]]\nfirst = 0\n\"first\" = 0\nlast = 1\n",
        head + "\"\\u0064efault\" = \"q5\"\n"})
    EXPECT_FALSE(Recipe::parse(text, "r.toml").ok()) << text;
  for (const char *number : {"-1", "1.0", "1e0", "true", "\"1\"", "[1]", "{}", "9223372036854775808", "2147483648", "inf", "nan",
                             "1979-05-27", "01"})
    for (const char *field : {"first", "last"}) {
      const std::string other = field == std::string("first") ? "last = 5" : "first = 0";
      const std::string text = head + "[[layers]]\n" + other + "\n" + field + " = " + number + "\n";
      EXPECT_FALSE(Recipe::parse(text, "r.toml").ok()) << text;
    }
}

/// Config files of quantizers beside config.json.
TEST(JsonKinds, QuantizationFilesRefuseDuplicates) {
  for (const std::string &name : quantSideFileNames()) {
    TempFolder folder;
    writeTinyFolder(folder.path(), tinyTensors(), "F32");
    const TestJson document = TestJson::parse(R"({"quantization":{"quant_algo":"FP8","exclude_modules":["a"]},"bits":4,"quant_method":"gptq"})");
    for (const Mutation &m : duplicates(document)) {
      writeBytes(folder / name, m.text);
      const std::string error = message(openCheckpoint(folder.path(), {}));
      EXPECT_NE(error.find("duplicate member"), std::string::npos) << name << " " << m.where << "\n" << error;
    }
  }
}

/// The same kind in a binary format: integers of GGUF metadata have types.
TEST(JsonKinds, GgufIntegersHaveIntegerTypes) {
  struct Value {
    const char *what;
    uint32_t type;
    std::string bytes;
  };
  const auto word = [](uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i)
      out += static_cast<char>(value >> (8 * i));
    return out;
  };
  const std::vector<Value> wrong = {
      {"binary32", 6, f32Bytes({64.0f})},          {"binary64", 12, word(0x4050000000000000, 8)}, {"bool", 7, word(1, 1)},
      {"string", 8, GgufBuilder::text("64")},      {"negative", 5, word(0xffffffff, 4)},          {"negative 64", 11, word(UINT64_MAX, 8)},
      {"beyond 2^31", 10, word(1ull << 31, 8)},    {"2^64-1", 10, word(UINT64_MAX, 8)},           {"zero", 4, word(0, 4)},
      {"array", 9, word(4, 4) + word(1, 8) + word(64, 4)},
  };
  const char *const keys[] = {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
                              "attention.head_count_kv", "attention.key_length", "attention.value_length", "rope.dimension_count",
                              "vocab_size"};
  CheckpointOptions withoutTokenizer;
  withoutTokenizer.tokenizer = false;
  TempFolder folder;
  for (const char *key : keys)
    for (const Value &value : wrong) {
      GgufBuilder b;
      b.string("general.architecture", "llama");
      for (const auto &[name, number] : std::map<std::string, uint32_t>{{"block_count", 2}, {"context_length", 128},
                                                                        {"embedding_length", 64}, {"feed_forward_length", 96},
                                                                        {"attention.head_count", 4}, {"attention.head_count_kv", 2}})
        if (name != key)
          b.u32("llama." + name, number);
      b.f32("llama.attention.layer_norm_rms_epsilon", 0.0001f);
      b.raw(std::string("llama.") + key, value.type, value.bytes);
      b.tensor("token_embd.weight", 0, {40, 64}, std::string(40 * 64 * 4, '\0'));
      writeBytes(folder / "m.gguf", b.file());
      Result<Checkpoint> checkpoint = openCheckpoint(folder / "m.gguf", withoutTokenizer);
      ASSERT_FALSE(checkpoint.ok());
      EXPECT_NE(checkpoint.error().message.find(key), std::string::npos) << key << " " << value.what << ": " << checkpoint.error().message;
    }
}

} // namespace
} // namespace ninfer
