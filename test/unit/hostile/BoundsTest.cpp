// Length fields that lie, and files that change: no allocation follows a number that the file does not back with
// bytes, and a source that shrinks while it is read is an error.
#include "artifact/container/Reader.h"
#include "convert/Converter.h"
#include "convert/Gguf.h"
#include "convert/HuggingFaceFolder.h"
#include "convert/Safetensors.h"
#include "runtime/text/Tokenizer.h"
#include "support/Json.h"
#include "test/unit/convert/SourceBuilders.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <new>

namespace {
/// Bytes the program holds through operator new, and the most it held since the last reset.
std::atomic<size_t> held{0}, most{0};

void *counted(size_t bytes) {
  auto *block = static_cast<size_t *>(std::malloc(bytes + 16));
  if (!block)
    std::abort(); // the test names the allocation that could not be made
  *block = bytes;
  const size_t now = held += bytes;
  for (size_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
  }
  return block + 2;
}
void released(void *pointer) noexcept {
  if (!pointer)
    return;
  auto *block = static_cast<size_t *>(pointer) - 2;
  held -= *block;
  std::free(block);
}
} // namespace

void *operator new(size_t bytes) { return counted(bytes); }
void *operator new[](size_t bytes) { return counted(bytes); }
void operator delete(void *pointer) noexcept { released(pointer); }
void operator delete[](void *pointer) noexcept { released(pointer); }
void operator delete(void *pointer, size_t) noexcept { released(pointer); }
void operator delete[](void *pointer, size_t) noexcept { released(pointer); }

namespace ninfer {
namespace {

using namespace test;

/// The most bytes `run` held beyond what was held before.
size_t peakOf(const std::function<void()> &run) {
  const size_t before = held;
  most = before;
  run();
  return most - before;
}

constexpr size_t kMiB = 1u << 20;

TEST(Bounds, TheCounterCounts) {
  EXPECT_GE(peakOf([] { std::vector<char> v(5 * kMiB); }), 5 * kMiB);
  EXPECT_LT(peakOf([] {}), kMiB);
}

TEST(Bounds, SafetensorsHeaderLengths) {
  TempFolder folder;
  for (uint64_t length : {uint64_t(1) << 63, UINT64_MAX, UINT64_MAX - 7, uint64_t(99'999'999), uint64_t(100'000'001), uint64_t(1000)}) {
    std::string bytes;
    put<uint64_t>(bytes, length);
    writeBytes(folder / "m.safetensors", bytes + "{}");
    const size_t peak = peakOf([&] {
      auto file = SourceFile::open(folder / "m.safetensors");
      ASSERT_TRUE(file.ok());
      auto tensors = readSafetensors(*file);
      ASSERT_FALSE(tensors.ok());
      EXPECT_EQ(tensors.error().code, "NB0311");
    });
    EXPECT_LT(peak, kMiB) << length;
  }
}

TEST(Bounds, SafetensorsSizes) {
  for (const char *entry :
       {R"("shape":[4294967296,4294967296],"data_offsets":[0,4])", R"("shape":[18446744073709551615],"data_offsets":[0,4])",
        R"("shape":[1152921504606846976],"data_offsets":[0,4611686018427387904])", R"("shape":[1],"data_offsets":[18446744073709551612,18446744073709551615])",
        R"("shape":[1],"data_offsets":[4,0])", R"("shape":[0],"data_offsets":[0,0])", R"("shape":[4,0],"data_offsets":[0,0])",
        R"("shape":[1],"data_offsets":[0,4],"extra":0)"}) {
    const std::string header = R"({"w":{"dtype":"F32",)" + std::string(entry) + "}}";
    const size_t peak = peakOf([&] { EXPECT_FALSE(parseSafetensorsHeader(header, 8, 4, "m").ok()) << entry; });
    EXPECT_LT(peak, kMiB) << entry;
  }
}

TEST(Bounds, GgufCounts) {
  TempFolder folder;
  struct Case {
    const char *what;
    std::function<void(GgufBuilder &)> edit;
  };
  const auto array = [](uint32_t type, uint64_t count) {
    std::string out;
    put<uint32_t>(out, type);
    put<uint64_t>(out, count);
    return out;
  };
  std::string longText;
  put<uint64_t>(longText, uint64_t(1) << 62);
  for (const Case &c : std::vector<Case>{
           {"tensors", [](GgufBuilder &b) { b.tensorCount = UINT64_MAX; }},
           {"entries", [](GgufBuilder &b) { b.entryCount = UINT64_MAX; }},
           {"string", [&](GgufBuilder &b) { b.raw("k", 8, longText); }},
           {"array of bytes", [&](GgufBuilder &b) { b.raw("k", 9, array(0, uint64_t(1) << 62)); }},
           {"array of 16 million bytes", [&](GgufBuilder &b) { b.raw("k", 9, array(0, 1u << 24)); }},
           {"array of strings", [&](GgufBuilder &b) { b.raw("k", 9, array(8, 1u << 24)); }},
           {"array of arrays", [&](GgufBuilder &b) { b.raw("k", 9, array(9, 1u << 24)); }},
           {"name", [](GgufBuilder &b) { b.tensorAt(std::string(300, 'n'), 0, {1}, 0); }},
           {"dimensions", [](GgufBuilder &b) { b.tensorAt("w", 0, {uint64_t(1) << 60}, 0); }},
           {"product", [](GgufBuilder &b) { b.tensorAt("w", 0, {uint64_t(1) << 32, uint64_t(1) << 32}, 0); }},
           {"offset", [](GgufBuilder &b) { b.tensorAt("w", 0, {1}, uint64_t(1) << 62); }}}) {
    GgufBuilder b;
    c.edit(b);
    writeBytes(folder / "m.gguf", b.file());
    const size_t peak = peakOf([&] {
      auto file = SourceFile::open(folder / "m.gguf");
      ASSERT_TRUE(file.ok());
      EXPECT_FALSE(readGguf(*file).ok()) << c.what;
    });
    EXPECT_LT(peak, 2 * kMiB) << c.what; // the window of the reader is one MiB at most
  }
}

/// More entries or tensors than any model has, each backed by bytes.
TEST(Bounds, GgufLimitsOfEntriesAndTensors) {
  TempFolder folder;
  const auto open = [&](const std::string &bytes) {
    writeBytes(folder / "m.gguf", bytes);
    auto file = SourceFile::open(folder / "m.gguf");
    auto gguf = readGguf(*file);
    return gguf.ok() ? std::string() : gguf.error().message;
  };
  std::string head = "GGUF";
  put<uint32_t>(head, 3);
  put<uint64_t>(head, 0);
  put<uint64_t>(head, kMaxGgufEntries + 1);
  EXPECT_NE(open(head + std::string((kMaxGgufEntries + 1) * 32, '\0')).find("exceeds the limit of 65536"), std::string::npos);
  head = "GGUF";
  put<uint32_t>(head, 3);
  put<uint64_t>(head, kMaxGgufTensors + 1);
  put<uint64_t>(head, 0);
  EXPECT_NE(open(head + std::string((kMaxGgufTensors + 1) * 40, '\0')).find("exceeds the limit of 1048576"), std::string::npos);
}

TEST(Bounds, ArtifactLengths) {
  TempFolder folder;
  for (uint64_t length : {uint64_t(0), uint64_t(1) << 63, UINT64_MAX, UINT64_MAX - 31, uint64_t(1) << 40, uint64_t(4065)})
    for (char framing : {'\1', '\2', '\3'}) {
      std::string bytes = std::string("NINFER\0", 7) + framing;
      put<uint64_t>(bytes, length);
      bytes += std::string(16, 'i') + "{}";
      writeBytes(folder / "x.ninfer", bytes);
      const size_t peak = peakOf([&] { EXPECT_FALSE(Artifact::open(folder / "x.ninfer").ok()) << length; });
      EXPECT_LT(peak, kMiB) << length;
    }
  // Sizes inside the directory: legal numbers that no file backs.
  const std::string head = R"({"components":{"text":{"config":{}}},"bindings":{},"uses":[],"objects":[{"id":"t","kind":"resource",)"
                           R"("encoding":"raw_bytes_v1","offset":0,"bytes":)";
  for (const char *size : {"1099511627776", "9223372036854775808", "18446744073709551615"}) {
    const std::string directory = head + size + R"(}],"files":[{"path":null,"payload_bytes":)" + size + "}]}";
    std::string bytes("NINFER\0\3", 8);
    put<uint64_t>(bytes, directory.size());
    bytes += std::string(16, 'i') + directory;
    bytes.resize(8192);
    writeBytes(folder / "x.ninfer", bytes);
    const size_t peak = peakOf([&] { EXPECT_FALSE(Artifact::open(folder / "x.ninfer").ok()) << size; });
    EXPECT_LT(peak, kMiB) << size;
  }
}

/// Memory grows with the text, not with what the text claims: the densest texts take less than 100 bytes a byte.
TEST(Bounds, JsonTakesMemoryInProportionToItsText) {
  const auto repeated = [](const std::string &open, const std::string &item, const std::string &close, bool numbered) {
    std::string out = open;
    for (int i = 0; out.size() < kMiB; ++i)
      out += (i ? "," : "") + (numbered ? "\"" + std::to_string(i) + "\":" : "") + item;
    return out + close;
  };
  for (const std::string &text :
       {repeated("[", "0", "]", false), repeated("[", "[]", "]", false), repeated("[", "{}", "]", false), repeated("[", "\"\"", "]", false),
        repeated("[", "[[[0]]]", "]", false), repeated("[", "{\"\":0}", "]", false), repeated("{", "0", "}", true),
        repeated("{", "{\"a\":[]}", "}", true)}) {
    const size_t peak = peakOf([&] { EXPECT_TRUE(parseStrictJson(text, "f").ok()); });
    EXPECT_LT(peak, 100 * text.size()) << text.substr(0, 20) << ": " << peak / text.size() << " bytes a byte";
  }
}

TEST(Bounds, TokenizerIds) {
  const size_t peak = peakOf([] {
    EXPECT_TRUE(Tokenizer::fromJson(
                    R"({"model":{"type":"BPE","vocab":{"a":16777215},"merges":[]},"decoder":{"type":"ByteLevel"},"added_tokens":[{"id":16777214,"content":"b"}]})",
                    "t")
                    .ok());
  });
  EXPECT_LT(peak, kMiB);
}

/// Config numbers size nothing before the tensors back them.
TEST(Bounds, ConfigNumbers) {
  for (const char *member : {"hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
                             "intermediate_size", "max_position_embeddings"}) {
    TempFolder folder;
    Json config = Json::parse(tinyConfig());
    config[member] = 2147483646;
    writeTinyFolder(folder.path(), tinyTensors(), "F32", config.dump());
    const size_t peak = peakOf([&] {
      auto checkpoint = openCheckpoint(folder.path(), {});
      if (std::string(member) != "max_position_embeddings") {
        EXPECT_FALSE(checkpoint.ok()) << member;
      }
    });
    EXPECT_LT(peak, 8 * kMiB) << member;
  }
}

TEST(Shrinking, AReadBehindTheNewEndIsAnError) {
  TempFolder folder;
  SafetensorsBuilder b;
  b.add("w", "F32", {1024}, std::string(4096, '\1'));
  writeBytes(folder / "m.safetensors", b.file());
  auto file = SourceFile::open(folder / "m.safetensors");
  ASSERT_TRUE(file.ok());
  auto tensors = readSafetensors(*file);
  ASSERT_TRUE(tensors.ok());
  fs::resize_file(folder / "m.safetensors", tensors->front().offset + 4095);
  std::vector<std::byte> bytes(4096);
  Status status = file->read(tensors->front().offset, bytes);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "NB0903");
  EXPECT_NE(status.error().message.find("the file ends before"), std::string::npos) << status.error().message;
  fs::resize_file(folder / "m.safetensors", 4);
  EXPECT_FALSE(readSafetensors(*file).ok());
}

/// A source truncated at any moment of a conversion: an error, no crash, nothing under the final name.
TEST(Shrinking, AConversionEndsWithAnErrorAndLeavesNothing) {
  int refused = 0;
  for (int moment = 0; moment < 60; moment += 3)
    for (bool gguf : {false, true}) {
      TempFolder in, out;
      const fs::path source = gguf ? in / "m.gguf" : in.path();
      const fs::path data = gguf ? in / "m.gguf" : in / "model.safetensors";
      if (gguf)
        writeBytes(data, tinyGguf(tinyTensors(), 0).file());
      else
        writeTinyFolder(in.path(), tinyTensors(), "F32");
      ConvertOptions options;
      options.source = source;
      options.output = out / "m.ninfer";
      options.threads = 1;
      int polls = 0;
      options.cancelled = [&] {
        if (polls++ == moment)
          fs::resize_file(data, fs::file_size(data) / 16);
        return false;
      };
      auto report = convertCheckpoint(options);
      if (report.ok())
        continue; // all was read before
      ++refused;
      EXPECT_EQ(report.error().code, "NB0903") << report.error().render();
      EXPECT_TRUE(fs::is_empty(out.path()));
    }
  EXPECT_GT(refused, 10);
}

/// A mapping belongs to the file, not to the name: replacing an artifact as this project's writers do (a new file takes
/// the name) leaves a reader with the old content. Truncating the file itself is the documented limit: SIGBUS.
TEST(Shrinking, AMappedArtifactSurvivesReplacementButNotTruncation) {
  TempFolder folder;
  const std::string directory = R"({"components":{"text":{"config":{}}},"bindings":{},"uses":[],"objects":[{"id":"t","kind":"resource",)"
                                R"("encoding":"raw_bytes_v1","offset":0,"bytes":8192}],"files":[{"path":null,"payload_bytes":8192}]})";
  std::string bytes("NINFER\0\3", 8);
  put<uint64_t>(bytes, directory.size());
  bytes += std::string(16, 'i') + directory;
  bytes.resize(4096);
  bytes += std::string(8192, 'x');
  writeBytes(folder / "x.ninfer", bytes);
  auto artifact = Artifact::open(folder / "x.ninfer");
  ASSERT_TRUE(artifact.ok()) << artifact.error().render();
  auto object = artifact->object(0);
  ASSERT_TRUE(object.ok());
  writeBytes(folder / "new", std::string(12288, 'y'));
  fs::create_hard_link(folder / "x.ninfer", folder / "old");
  fs::rename(folder / "new", folder / "x.ninfer");
  EXPECT_EQ(static_cast<char>((*object)[8191]), 'x');
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL); // a sanitizer has a handler of its own
        fs::resize_file(folder / "old", 4096);
        volatile auto byte = (*object)[8191];
        (void)byte;
      },
      testing::KilledBySignal(SIGBUS), "");
}

} // namespace
} // namespace ninfer
