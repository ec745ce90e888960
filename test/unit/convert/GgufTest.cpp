// GGUF files: what is read, and every kind of hostile header.
#include "convert/Gguf.h"

#include "SourceBuilders.h"

#include <functional>
#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

Result<GgufFile> parse(const std::string &bytes) {
  TempFolder folder;
  writeBytes(folder / "m.gguf", bytes);
  auto file = SourceFile::open(folder / "m.gguf");
  if (!file.ok())
    return file.takeStatus();
  return readGguf(*file);
}

TEST(Gguf, ReadsMetadataAndTensors) {
  GgufBuilder b;
  b.string("general.architecture", "llama");
  b.u32("n", 7);
  b.f32("f", 0.1f);
  b.boolean("yes", true);
  b.strings("words", {"a", "", "c"});
  b.ints("types", {-1, 3});
  b.raw("negative", 5, std::string("\xff\xff\xff\xff", 4));
  b.tensor("w", 0, {2, 3}, f32Bytes({1, 2, 3, 4, 5, 6}));
  b.tensor("q", 8, {1, 32}, std::string(34, '\1'));
  auto gguf = parse(b.file());
  ASSERT_TRUE(gguf.ok()) << gguf.error().render();
  EXPECT_EQ(**gguf->textAt("general.architecture"), "llama");
  EXPECT_EQ(**gguf->unsignedAt("n"), 7u);
  EXPECT_EQ(**gguf->numberAt("f"), static_cast<double>(0.1f));
  EXPECT_TRUE(**gguf->boolAt("yes"));
  EXPECT_FALSE(gguf->textAt("absent")->has_value());
  EXPECT_FALSE(gguf->unsignedAt("negative").ok());
  EXPECT_FALSE(gguf->textAt("n").ok());
  EXPECT_EQ(gguf->find("words")->strings, (std::vector<std::string>{"a", "", "c"}));
  EXPECT_EQ(gguf->find("types")->numbers, (std::vector<double>{-1, 3}));
  ASSERT_EQ(gguf->tensors.size(), 2u);
  EXPECT_EQ(gguf->tensors[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(gguf->tensors[1].type, SourceType::Q8_0);
  EXPECT_EQ(gguf->tensors[1].bytes, 34u);
  EXPECT_EQ(gguf->tensors[1].offset, gguf->tensors[0].offset + 32);
}

struct Hostile {
  std::string name;
  std::function<std::string()> bytes;
  ErrorKind kind;
  std::string message;
};

std::string built(const std::function<void(GgufBuilder &)> &edit) {
  GgufBuilder b;
  edit(b);
  return b.file();
}

std::string arrayOf(uint32_t type, uint64_t count, const std::string &elements = "") {
  std::string out;
  put<uint32_t>(out, type);
  put<uint64_t>(out, count);
  return out + elements;
}

std::string nested(int depth) {
  std::string inner = arrayOf(4, 0);
  for (int i = 0; i < depth; ++i)
    inner = arrayOf(9, 1, inner);
  return inner;
}

std::vector<Hostile> hostileFiles() {
  constexpr ErrorKind bad = ErrorKind::BadFile, unsupported = ErrorKind::Unsupported;
  auto one = [](const std::function<void(GgufBuilder &)> &edit) {
    return [edit] { return built(edit); };
  };
  auto tensor = [&](uint32_t type, std::vector<uint64_t> shape, uint64_t offset = 0) {
    return one([=](GgufBuilder &b) {
      b.tensor("a", 0, {8}, std::string(32, '\0'));
      b.tensorAt("w", type, shape, offset);
    });
  };
  return {
      {"Empty", [] { return std::string(); }, bad,
       "too short (truncated?): it ends inside the magic"},
      {"OtherMagic", [] { return std::string("GGML") + std::string(60, '\0'); }, bad,
       "not a GGUF file"},
      {"VersionTwo", one([](GgufBuilder &b) { b.version = 2; }), unsupported, "version 2"},
      {"VersionFuture", one([](GgufBuilder &b) { b.version = 4; }), unsupported, "version 4"},
      {"BigEndian", one([](GgufBuilder &b) { b.version = 0x03000000; }), unsupported, "big-endian"},
      {"TensorCountLies", one([](GgufBuilder &b) { b.tensorCount = UINT64_MAX; }), bad,
       "tensor count"},
      {"EntryCountLies", one([](GgufBuilder &b) { b.entryCount = 1ull << 60; }), bad,
       "metadata count"},
      {"EntryMissing", one([](GgufBuilder &b) {
         b.u32("k", 1);
         b.entryCount = 2;
       }),
       bad, "m.gguf"},
      {"Truncated",
       [] {
         std::string f = built([](GgufBuilder &b) { b.string("key", "value"); });
         return f.substr(0, 40);
       },
       bad, "too short (truncated?)"},
      {"TruncatedInsideAnArray",
       [] {
         std::string f =
             built([](GgufBuilder &b) { b.ints("types", std::vector<int32_t>(1000, 1)); });
         return f.substr(0, 2000);
       },
       bad, "the file is too short (truncated?): metadata 'types': array of 1000 elements"},
      {"TruncatedInsideATensor",
       [] {
         std::string f =
             built([](GgufBuilder &b) { b.tensor("w", 0, {64}, std::string(256, '\0')); });
         return f.substr(0, f.size() - 1);
       },
       bad, "the file is too short (truncated?): tensor 'w'"},
      {"ElementLimit", one([](GgufBuilder &b) { b.raw("k", 9, arrayOf(0, (1u << 24) + 1)); }), bad,
       "exceeds the limit of 16777216"},
      {"DuplicateKey", one([](GgufBuilder &b) {
         b.u32("k", 1);
         b.u32("k", 2);
       }),
       bad, "duplicate metadata key 'k'"},
      {"EmptyKey", one([](GgufBuilder &b) { b.u32("", 1); }), bad, "key is empty"},
      {"LongKey", one([](GgufBuilder &b) { b.u32(std::string(300, 'k'), 1); }), bad,
       "metadata key"},
      {"UnknownValueType", one([](GgufBuilder &b) { b.raw("k", 13, std::string(8, '\0')); }), bad,
       "unknown value type 13"},
      {"BooleanTwo", one([](GgufBuilder &b) { b.raw("k", 7, "\2"); }), bad, "boolean"},
      {"StringBeyondFile", one([](GgufBuilder &b) {
         std::string v;
         put<uint64_t>(v, 1ull << 40);
         b.raw("k", 8, v);
       }),
       bad, "metadata string"},
      {"ArrayBeyondFile", one([](GgufBuilder &b) { b.raw("k", 9, arrayOf(0, 1ull << 40)); }), bad,
       "array of"},
      {"ArrayOverflow", one([](GgufBuilder &b) { b.raw("k", 9, arrayOf(10, UINT64_MAX)); }), bad,
       "array of"},
      {"ArrayOfUnknown", one([](GgufBuilder &b) { b.raw("k", 9, arrayOf(99, 1, "x")); }), bad,
       "element type 99"},
      {"ArrayTooDeep", one([](GgufBuilder &b) { b.raw("k", 9, nested(6)); }), bad, "nested deeper"},
      {"ArrayInexactInteger", one([](GgufBuilder &b) {
         std::string v;
         put<uint64_t>(v, UINT64_MAX);
         b.raw("k", 9, arrayOf(10, 1, v));
       }),
       bad, "2^53"},
      {"AlignmentZero", one([](GgufBuilder &b) { b.u32("general.alignment", 0); }), bad,
       "power of two"},
      {"AlignmentOdd", one([](GgufBuilder &b) { b.u32("general.alignment", 24); }), bad,
       "power of two"},
      {"AlignmentText", one([](GgufBuilder &b) { b.string("general.alignment", "32"); }), bad,
       "power of two"},
      {"RankZero", tensor(0, {}), bad, "rank"},
      {"RankFive", tensor(0, {1, 1, 1, 1, 1}), bad, "rank"},
      {"ZeroDimension", tensor(0, {0, 4}), bad, "is zero"},
      {"ProductOverflow", tensor(0, {1ull << 32, 1ull << 32}), bad, "exceeds"},
      {"BytesOverflow", tensor(0, {1ull << 62}), bad, "exceeds"},
      {"PartialBlock", tensor(8, {4, 33}), bad, "no multiple of the Q8_0 block"},
      {"UnknownTensorType", tensor(4, {32}), unsupported, "ggml type 4"},
      {"OffsetUnaligned", tensor(0, {1}, 4), bad, "no multiple of the alignment"},
      {"OffsetBeyond", tensor(0, {1}, 1ull << 40), bad, "beyond"},
      {"OffsetWraps", tensor(0, {8}, UINT64_MAX - 31), bad, "beyond"},
      {"EndBeyond", tensor(0, {64}, 0), bad, "beyond"},
      {"Overlap", tensor(0, {8}, 0), bad, "overlap"},
      {"Gap", one([](GgufBuilder &b) { b.tensor("w", 1, {64}, std::string(256, '\0')); }), bad,
       "behind the last tensor belong to none"},
      {"DuplicateTensor", one([](GgufBuilder &b) {
         b.tensor("w", 0, {1}, "1234");
         b.tensor("w", 0, {1}, "1234");
       }),
       bad, "duplicate tensor name 'w'"},
      {"NameNotUtf8", one([](GgufBuilder &b) { b.tensor("\xff", 0, {1}, "1234"); }), bad,
       "not UTF-8"},
      {"NoData",
       [] {
         std::string f = built([](GgufBuilder &b) { b.tensor("w", 0, {8}, std::string(32, 'x')); });
         return f.substr(0, f.size() - 33);
       },
       bad, "m.gguf"},
  };
}

class HostileGguf : public testing::TestWithParam<Hostile> {};

TEST_P(HostileGguf, IsRefused) {
  auto gguf = parse(GetParam().bytes());
  ASSERT_FALSE(gguf.ok());
  EXPECT_EQ(gguf.error().kind, GetParam().kind) << gguf.error().render();
  EXPECT_NE(gguf.error().message.find(GetParam().message), std::string::npos)
      << gguf.error().message;
}

INSTANTIATE_TEST_SUITE_P(Cases, HostileGguf, testing::ValuesIn(hostileFiles()),
                         [](const testing::TestParamInfo<Hostile> &info) {
                           return info.param.name;
                         });

TEST(Gguf, EveryPrefixOfAValidFileIsRefusedOrReadWithoutHarm) {
  std::string whole = tinyGguf(tinyTensors(), 0).file();
  size_t header = whole.size() > 4096 ? 4096 : whole.size();
  for (size_t n = 0; n < header; n += 7)
    EXPECT_FALSE(parse(whole.substr(0, n)).ok()) << n;
}

TEST(Gguf, EveryFlippedHeaderByteIsSurvived) {
  std::string whole = tinyGguf(tinyTensors(), 0).file();
  for (size_t i = 0; i < 3000; i += 3) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(~bytes[i]);
    (void)parse(bytes).ok(); // no crash, no runaway allocation; most are refused
  }
}

} // namespace
} // namespace ninfer
