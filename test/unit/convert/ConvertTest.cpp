// Whole conversions of a tiny decoder: values that arrive, provenance that is told, and failures
// that leave nothing.
#include "convert/Converter.h"

#include "SourceBuilders.h"
#include "artifact/container/Reader.h"
#include "artifact/formats/Encode.h"
#include "artifact/layouts/Layout.h"
#include "models/Decoder.h"
#include "support/Bytes.h"

#include <atomic>
#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

struct Run {
  fs::path source, output;
  std::string recipe = "w8";
  std::function<void(ConvertOptions &)> edit = [](ConvertOptions &) {};
};

Result<ConvertReport> convert(const Run &run) {
  ConvertOptions options;
  options.source = run.source;
  options.output = run.output;
  auto recipe = Recipe::fromArgument(run.recipe);
  if (!recipe.ok())
    return recipe.takeStatus();
  options.recipe = recipe.take();
  options.threads = 2;
  run.edit(options);
  return convertCheckpoint(options);
}

/// Represented values of a whole-object binding.
std::vector<float> valuesOf(const Artifact &artifact, const std::string &parameter) {
  uint32_t object = artifact.directory().bindings.at(parameter).parts.at(0).object;
  auto geometry = artifact.geometry(object);
  auto bytes = artifact.object(object);
  std::vector<float> out(geometry->rows * geometry->k);
  for (uint64_t n = 0; n < geometry->rows; ++n)
    decodeRow(*geometry, *bytes, n, std::span(out).subspan(n * geometry->k, geometry->k));
  return out;
}

const std::vector<float> &sourceValues(const std::vector<TinyTensor> &tensors,
                                       const std::string &name) {
  for (const TinyTensor &t : tensors)
    if (t.huggingFace == name)
      return t.values;
  throw std::out_of_range(name);
}

const TensorReport &reportOf(const ConvertReport &report, const std::string &object) {
  for (const TensorReport &t : report.tensors)
    if (t.object == object)
      return t;
  throw std::out_of_range(object);
}

size_t filesIn(const fs::path &folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(Convert, Bf16IsPreservedAndTheArtifactIsAModel) {
  TempFolder in, out;
  std::vector<TinyTensor> tensors = tinyTensors();
  writeTinyFolder(in.path(), tensors, "BF16");
  auto report = convert({in.path(), out / "m.ninfer", "bf16", [](ConvertOptions &o) {
                           o.policy = ActivationPolicy::AllowA8;
                           o.modelName = "Tiny";
                           o.sourceDigest = true;
                         }});
  ASSERT_TRUE(report.ok()) << report.error().render();
  EXPECT_EQ(report->count(Provenance::Preserved), report->tensors.size());

  auto artifact = Artifact::open(out / "m.ninfer");
  ASSERT_TRUE(artifact.ok());
  auto spec = recogniseModel(artifact->directory(), "m.ninfer");
  ASSERT_TRUE(spec.ok()) << spec.error().render();
  EXPECT_EQ(std::get<DecoderConfig>(spec->config).numHeads, 4);
  for (const ParameterSpec &p : spec->parameters)
    if (!p.input.empty()) {
      EXPECT_EQ(p.policy, ActivationPolicy::AllowA8) << p.name;
    }
  EXPECT_EQ(valuesOf(*artifact, "text/layers/1/mlp/down"),
            sourceValues(tensors, "model.layers.1.mlp.down_proj.weight"));
  EXPECT_EQ(valuesOf(*artifact, "text/layers/0/attention/query"),
            sourceValues(tensors, "model.layers.0.self_attn.q_proj.weight"));
  EXPECT_EQ(valuesOf(*artifact, "text/final_norm"), sourceValues(tensors, "model.norm.weight"));
  const Directory &d = artifact->directory();
  EXPECT_EQ(d.bindings.at("text/output_head").parts[0].object,
            d.bindings.at("text/token_embedding").parts[0].object);
  EXPECT_EQ(d.metadata["name"], "Tiny");
  EXPECT_EQ(d.provenance["tensors"]["text/final_norm"], (Json{"BF16", "preserved"}));
  EXPECT_EQ(d.provenance["source"]["files"][0]["sha256"],
            toHex(sha256(readBytes(in / "model.safetensors"))));
  uint32_t tokenizer = d.components.at("text").resources.at("tokenizer.json");
  EXPECT_EQ(std::string(asText(*artifact->object(tokenizer))), tinyTokenizer());
}

TEST(Convert, GroupedFormatsHoldTheWordsOfTheCanonicalEncoder) {
  TempFolder in, out;
  std::vector<TinyTensor> tensors = tinyTensors();
  writeTinyFolder(in.path(), tensors, "F32");
  for (const std::string &name :
       {std::string("w8"), std::string("q6"), std::string("q5"), std::string("q4")}) {
    auto report = convert({in.path(), out / (name + ".ninfer"), name});
    ASSERT_TRUE(report.ok()) << report.error().render();
    EXPECT_EQ(reportOf(*report, "text/token_embedding").provenance, Provenance::Converted);
    EXPECT_EQ(reportOf(*report, "text/token_embedding").profile, "MAXABS_F16_RECIP_RNE_V1");
    EXPECT_EQ(reportOf(*report, "text/final_norm").provenance, Provenance::NarrowedExactly);
    auto artifact = Artifact::open(out / (name + ".ninfer"));
    ASSERT_TRUE(artifact.ok());
    uint32_t object = artifact->directory()
                          .bindings.at("text/layers/0/mlp/down")
                          .parts[0]
                          .object; // K = 96: partial group
    auto geometry = artifact->geometry(object);
    const std::vector<float> &source = sourceValues(tensors, "model.layers.0.mlp.down_proj.weight");
    for (uint64_t n = 0; n < geometry->rows; ++n) {
      uint64_t groups = geometry->logicalGroupsPerRow();
      std::vector<int8_t> codes(geometry->k), stored(geometry->paddedK);
      std::vector<uint16_t> scales(groups), storedScales(geometry->groupsPerRow);
      ASSERT_TRUE(
          encodeRowCanonical(geometry->format, std::span(source).subspan(n * 96, 96), codes, scales)
              .ok());
      readGroupedRow(*geometry, *artifact->object(object), n, stored, storedScales);
      stored.resize(codes.size());
      storedScales.resize(groups);
      ASSERT_EQ(stored, codes) << name << " row " << n;
      ASSERT_EQ(storedScales, scales) << name << " row " << n;
    }
  }
}

TEST(Convert, GgufGivesTheSamePayloadAsTheFolderItWasMadeFrom) {
  auto plain = [](ConvertOptions &o) { o.tokenizer = false; };
  for (bool qwen : {false, true}) {
    TempFolder in, out;
    std::vector<TinyTensor> tensors = tinyTensors(qwen, false);
    writeTinyFolder(in.path(), tensors, "BF16", tinyConfig(qwen, false));
    writeBytes(in / "m.gguf", tinyGguf(tensors, 30, qwen ? "qwen3" : "llama").file());
    for (const char *recipe : {"bf16", "mixed"}) {
      auto folder = convert({in.path(), out / "a.ninfer", recipe, [&](ConvertOptions &o) {
                               plain(o);
                               o.force = true;
                             }});
      auto gguf = convert({in / "m.gguf", out / "b.ninfer", recipe, [&](ConvertOptions &o) {
                             plain(o);
                             o.force = true;
                           }});
      ASSERT_TRUE(folder.ok()) << folder.error().render();
      ASSERT_TRUE(gguf.ok()) << gguf.error().render();
      EXPECT_EQ(folder->written->payloadSha256, gguf->written->payloadSha256) << recipe << qwen;
      EXPECT_EQ(folder->written->storageSignature, gguf->written->storageSignature)
          << recipe << qwen;
    }
  }
}

TEST(Convert, ShardsGiveTheSameFileAsOneFile) {
  TempFolder one, two, out;
  std::vector<TinyTensor> tensors = tinyTensors();
  writeTinyFolder(one.path(), tensors, "F32");
  writeTinyFolder(two.path(), tensors, "F32");
  fs::remove(two / "model.safetensors");
  SafetensorsBuilder shards[2];
  Json map = Json::object();
  for (size_t i = 0; i < tensors.size(); ++i) {
    shards[i % 2].add(tensors[i].huggingFace, "F32", tensors[i].shape, f32Bytes(tensors[i].values));
    map[tensors[i].huggingFace] = i % 2 ? "b.safetensors" : "a.safetensors";
  }
  writeBytes(two / "a.safetensors", shards[0].file());
  writeBytes(two / "b.safetensors", shards[1].file());
  writeBytes(two / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  auto a = convert({one.path(), out / "a.ninfer"}), b = convert({two.path(), out / "b.ninfer"});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->written->payloadSha256, b->written->payloadSha256);
}

// --- block types
// -----------------------------------------------------------------------------------------------------

/// The tiny model with Q8_0 matrices of made-up blocks; `edit` may spoil the bytes of one tensor.
struct BlockModel {
  std::map<std::string, std::vector<double>>
      values; ///< GGUF name -> values, rows in Hugging Face order
  std::string file;
};

BlockModel q8Model(const std::function<void(const std::string &, std::string &)> &edit = {}) {
  BlockModel out;
  GgufBuilder b;
  tinyGgufMetadata(b);
  tinyGgufTokenizer(b);
  uint32_t seed = 99;
  for (const TinyTensor &t : tinyTensors()) {
    if (t.shape.size() == 1) {
      b.tensor(t.gguf, 0, t.shape, f32Bytes(t.values));
      continue;
    }
    uint64_t rows = t.shape[0], blocks = t.shape[1] / 32;
    std::vector<std::string> rowBytes(rows);
    std::vector<double> &values = out.values[t.gguf];
    for (std::string &row : rowBytes)
      for (uint64_t g = 0; g < blocks; ++g) {
        seed = seed * 1664525u + 1013904223u;
        int exponent = static_cast<int>((seed >> 20) % 20); // subnormal scales included
        uint16_t scale = static_cast<uint16_t>(exponent << 10 | ((seed >> 8) & 1023));
        double d = exponent ? std::ldexp(1024 + (scale & 1023), exponent - 25)
                            : std::ldexp(scale & 1023, -24);
        put<uint16_t>(row, scale);
        for (int j = 0; j < 32; ++j) {
          seed = seed * 1664525u + 1013904223u;
          int code = static_cast<int>((seed >> 16) % 255) - 127;
          put<uint8_t>(row, static_cast<uint8_t>(code));
          values.push_back(d * code);
        }
      }
    uint64_t headDim = t.pairedHeads ? rows / t.pairedHeads : 0;
    std::string bytes;
    for (uint64_t r = 0; r < rows; ++r) {
      uint64_t inHead = headDim ? r % headDim : 0;
      bytes += rowBytes[headDim ? r - inHead + (inHead % 2) * (headDim / 2) + inHead / 2 : r];
    }
    if (edit)
      edit(t.gguf, bytes);
    b.tensor(t.gguf, 8, t.shape, bytes);
  }
  out.file = b.file();
  return out;
}

TEST(Convert, Q8BlocksMoveIntoW8WordForWord) {
  TempFolder in, out;
  BlockModel model = q8Model();
  writeBytes(in / "m.gguf", model.file);
  auto report = convert({in / "m.gguf", out / "m.ninfer", "w8"});
  ASSERT_TRUE(report.ok()) << report.error().render();
  EXPECT_EQ(report->count(Provenance::Converted), 0u);
  EXPECT_EQ(reportOf(*report, "text/layers/0/attention/key").provenance, Provenance::Preserved);
  auto artifact = Artifact::open(out / "m.ninfer");
  for (auto [parameter, tensor] :
       {std::pair("text/token_embedding", "token_embd.weight"),
        std::pair("text/layers/0/attention/key", "blk.0.attn_k.weight"),
        std::pair("text/layers/1/attention/query", "blk.1.attn_q.weight"),
        std::pair("text/layers/1/mlp/down", "blk.1.ffn_down.weight")}) {
    std::vector<float> stored = valuesOf(*artifact, parameter);
    const std::vector<double> &expected = model.values.at(tensor);
    ASSERT_EQ(stored.size(), expected.size());
    for (size_t i = 0; i < stored.size(); ++i)
      ASSERT_EQ(static_cast<double>(stored[i]), expected[i]) << parameter << " element " << i;
  }
}

TEST(Convert, BlockTypesNeedRequantizeForAnyOtherFormat) {
  TempFolder in, out;
  writeBytes(in / "m.gguf", q8Model().file);
  for (const char *recipe : {"q4", "bf16", "mixed"}) {
    auto refused = convert({in / "m.gguf", out / "m.ninfer", recipe});
    ASSERT_FALSE(refused.ok()) << recipe;
    EXPECT_EQ(refused.error().kind, ErrorKind::Unsupported);
    EXPECT_NE(refused.error().render().find("--requantize"), std::string::npos);
    EXPECT_NE(refused.error().render().find("need --requantize: 15 Q8_0\n"), std::string::npos)
        << refused.error().render();
    EXPECT_EQ(filesIn(out.path()), 0u);
    auto report = convert(
        {in / "m.gguf", out / "m.ninfer", recipe, [](ConvertOptions &o) { o.requantize = true; }});
    ASSERT_TRUE(report.ok()) << report.error().render();
    EXPECT_EQ(report->count(Provenance::Converted), 15u);
    auto artifact = Artifact::open(out / "m.ninfer");
    const Json &record = artifact->directory().provenance;
    EXPECT_EQ(record["requantize"], true);
    EXPECT_EQ(record["tensors"]["text/token_embedding"][1], "converted");
    EXPECT_EQ(artifact->directoryText().find("preserved"), std::string_view::npos);
    fs::remove(out / "m.ninfer");
  }
}

TEST(Convert, BlocksOfOneProductWidenExactlyToFp32) {
  TempFolder in, out;
  BlockModel model = q8Model();
  writeBytes(in / "m.gguf", model.file);
  writeBytes(in / "r.toml", "[formats]\ndefault = \"fp32\"\n");
  auto report = convert({in / "m.gguf", out / "m.ninfer", (in / "r.toml").string()});
  ASSERT_TRUE(report.ok()) << report.error().render();
  EXPECT_EQ(reportOf(*report, "text/token_embedding").provenance, Provenance::WidenedExactly);
  auto artifact = Artifact::open(out / "m.ninfer");
  std::vector<float> stored = valuesOf(*artifact, "text/token_embedding");
  const std::vector<double> &expected = model.values.at("token_embd.weight");
  for (size_t i = 0; i < stored.size(); ++i)
    ASSERT_EQ(static_cast<double>(stored[i]), expected[i]);
}

TEST(Convert, RefusalsAreCountedByTypeAndSayWhatWouldHappen) {
  TempFolder in, out;
  writeBytes(in / "m.gguf", q8Model([](const std::string &, std::string &) {}).file);
  auto q4 = convert({in / "m.gguf", out / "m.ninfer", "q4"});
  ASSERT_FALSE(q4.ok());
  EXPECT_EQ(q4.error().code, "NB0316");
  std::string text = q4.error().render();
  EXPECT_NE(text.find("': refused (Q8_0: storing it as Q4G64_F16S would quantise it a second time)"),
            std::string::npos)
      << text;
  size_t lines = 0; // every tensor has its own
  for (size_t at = 0; (at = text.find(": refused (Q8_0", at)) != std::string::npos; ++at)
    ++lines;
  EXPECT_EQ(lines, 15u) << text;
  EXPECT_NE(text.find("tensors that need --requantize: 15 Q8_0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("help: add --requantize"), std::string::npos) << text;
  EXPECT_NE(text.find("Q8_0 moves exactly into it"), std::string::npos) << text;
  auto bf16 = convert({in / "m.gguf", out / "m.ninfer", "bf16"});
  ASSERT_FALSE(bf16.ok());
  text = bf16.error().render();
  EXPECT_NE(text.find("storing it as BF16 would round it"), std::string::npos) << text;
  EXPECT_EQ(text.find("moves exactly"), std::string::npos) << text;
}

TEST(Convert, ABlockThatCannotMoveIsRefusedOrConverted) {
  TempFolder in, out;
  auto spoil = [](uint64_t row, size_t at, char byte) {
    return [=](const std::string &name, std::string &bytes) {
      if (name == "blk.1.ffn_up.weight")
        bytes[row * 68 + at] = byte; // two blocks of 34 bytes per row
    };
  };
  writeBytes(in / "m.gguf", q8Model(spoil(7, 34 + 2 + 3, '\x80')).file);
  auto refused = convert({in / "m.gguf", out / "m.ninfer"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "NB0316");
  EXPECT_NE(refused.error().message.find(
                "tensor 'blk.1.ffn_up.weight' row 7 block 1: code -128 of element 3"),
            std::string::npos)
      << refused.error().message;
  auto report = convert(
      {in / "m.gguf", out / "m.ninfer", "w8", [](ConvertOptions &o) { o.requantize = true; }});
  ASSERT_TRUE(report.ok()) << report.error().render();
  EXPECT_EQ(reportOf(*report, "text/layers/1/mlp/up").provenance, Provenance::Converted);
  EXPECT_EQ(reportOf(*report, "text/layers/0/mlp/up").provenance, Provenance::Preserved);

  // An infinite scale is no value at all: refused under every option.
  writeBytes(in / "m.gguf", q8Model(spoil(7, 34 + 1, '\x7c')).file);
  auto infinite = convert(
      {in / "m.gguf", out / "x.ninfer", "q4", [](ConvertOptions &o) { o.requantize = true; }});
  ASSERT_FALSE(infinite.ok());
  EXPECT_EQ(infinite.error().code, "NB0317");
  EXPECT_NE(infinite.error().message.find("'blk.1.ffn_up.weight' row 7 column 32"),
            std::string::npos)
      << infinite.error().message;
  EXPECT_FALSE(fs::exists(out / "x.ninfer"));
  auto moved = convert(
      {in / "m.gguf", out / "x.ninfer", "w8", [](ConvertOptions &o) { o.requantize = true; }});
  ASSERT_FALSE(moved.ok());
  EXPECT_EQ(moved.error().code, "NB0317");
  EXPECT_NE(
      moved.error().message.find("'blk.1.ffn_up.weight' row 7 block 1: the scale is not finite"),
      std::string::npos)
      << moved.error().message;
}

// --- values that no format holds
// -------------------------------------------------------------------------------------

TEST(Convert, NamesTheTensorRowAndColumnOfANonFiniteValue) {
  for (float poison : {NAN, INFINITY, -INFINITY}) {
    TempFolder in, out;
    std::vector<TinyTensor> tensors = tinyTensors();
    tensors[2].values[3 * 64 + 5] = poison; // q_proj of layer 0
    writeTinyFolder(in.path(), tensors, "F32");
    for (const char *recipe : {"bf16", "w8", "q4"}) {
      auto report = convert({in.path(), out / "m.ninfer", recipe});
      ASSERT_FALSE(report.ok());
      EXPECT_EQ(report.error().code, "NB0317");
      EXPECT_NE(
          report.error().message.find("'model.layers.0.self_attn.q_proj.weight' row 3 column 5"),
          std::string::npos)
          << report.error().message;
      EXPECT_EQ(filesIn(out.path()), 0u);
    }
    writeTinyFolder(in.path(), tensors, "BF16");
    EXPECT_EQ(convert({in.path(), out / "m.ninfer", "bf16"}).error().code,
              "NB0317"); // also where words are copied
  }
}

TEST(Convert, RefusesValuesBeyondTheTargetFormat) {
  TempFolder in, out;
  std::vector<TinyTensor> tensors = tinyTensors();
  tensors[1].values[9] = 3.4e38f; // a norm: finite, but the nearest BF16 is infinity
  writeTinyFolder(in.path(), tensors, "F32");
  auto norm = convert({in.path(), out / "m.ninfer"});
  ASSERT_FALSE(norm.ok());
  EXPECT_NE(norm.error().message.find("column 9: source value rounds to infinity"),
            std::string::npos)
      << norm.error().message;
  tensors = tinyTensors();
  tensors[2].values[64] = 1e30f; // scale beyond binary16
  writeTinyFolder(in.path(), tensors, "F32");
  auto scale = convert({in.path(), out / "m.ninfer"});
  ASSERT_FALSE(scale.ok());
  EXPECT_EQ(scale.error().code, "NB0207");
  EXPECT_NE(scale.error().message.find("'model.layers.0.self_attn.q_proj.weight' row 1"),
            std::string::npos)
      << scale.error().message;
  EXPECT_EQ(filesIn(out.path()), 0u);
}

TEST(Convert, ANormThatDoesNotFitBf16IsToldAsConverted) {
  TempFolder in, out;
  std::vector<TinyTensor> tensors = tinyTensors();
  tensors[1].values[0] = 1.00390625f; // 1 + 2^-8 is halfway between two BF16 words
  writeTinyFolder(in.path(), tensors, "F32");
  auto report = convert({in.path(), out / "m.ninfer"});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(reportOf(*report, "text/layers/0/input_norm").provenance, Provenance::Converted);
  EXPECT_EQ(reportOf(*report, "text/layers/0/input_norm").profile, "BF16_RNE");
  EXPECT_EQ(reportOf(*report, "text/layers/1/input_norm").provenance, Provenance::NarrowedExactly);
  auto artifact = Artifact::open(out / "m.ninfer");
  EXPECT_EQ(valuesOf(*artifact, "text/layers/0/input_norm")[0], 1.0f); // ties to even
}

// --- the rest
// --------------------------------------------------------------------------------------------------------

TEST(Convert, TheFileDependsOnNothingButTheInputs) {
  TempFolder in, out;
  writeTinyFolder(in.path(), tinyTensors(), "F32");
  std::string first;
  for (unsigned threads : {1u, 4u, 1u}) {
    auto report = convert({in.path(), out / "m.ninfer", "mixed", [&](ConvertOptions &o) {
                             o.threads = threads;
                             o.force = true;
                           }});
    ASSERT_TRUE(report.ok()) << report.error().render();
    std::string bytes = readBytes(out / "m.ninfer");
    if (first.empty())
      first = bytes;
    EXPECT_TRUE(bytes == first);
  }
}

TEST(Convert, ATiedHeadWithItsOwnFormatGetsItsOwnObject) {
  TempFolder in, out;
  writeTinyFolder(in.path(), tinyTensors(), "F32");
  writeBytes(in / "r.toml",
             "[formats]\ndefault = \"q5\"\nembedding = \"bf16\"\nhead = \"q6\"\nkey = \"fp8\"\n");
  auto report = convert({in.path(), out / "m.ninfer", (in / "r.toml").string()});
  ASSERT_TRUE(report.ok()) << report.error().render();
  EXPECT_EQ(reportOf(*report, "text/token_embedding").format, Format::BF16);
  EXPECT_EQ(reportOf(*report, "text/output_head").format, Format::Q6G64_F16S);
  EXPECT_EQ(reportOf(*report, "text/layers/0/attention/key").format, Format::FP8_E4M3FN_ROW_BF16S);
  auto artifact = Artifact::open(out / "m.ninfer");
  EXPECT_TRUE(recogniseModel(artifact->directory(), "m").ok());
}

TEST(Convert, ADryRunTellsTheSameAndWritesNothing) {
  TempFolder in, out;
  writeBytes(in / "m.gguf", q8Model().file);
  auto dry =
      convert({in / "m.gguf", out / "m.ninfer", "w8", [](ConvertOptions &o) { o.dryRun = true; }});
  ASSERT_TRUE(dry.ok());
  EXPECT_FALSE(dry->written);
  EXPECT_EQ(filesIn(out.path()), 0u);
  auto real = convert({in / "m.gguf", out / "m.ninfer", "w8"});
  ASSERT_TRUE(real.ok());
  ASSERT_EQ(dry->tensors.size(), real->tensors.size());
  for (size_t i = 0; i < dry->tensors.size(); ++i) {
    EXPECT_EQ(dry->tensors[i].provenance, real->tensors[i].provenance);
    EXPECT_EQ(dry->tensors[i].bytes, real->tensors[i].bytes);
  }
  EXPECT_EQ(dry->payloadBytes, real->payloadBytes);
}

TEST(Convert, AnExistingOutputIsKeptUnlessForcedAndReplacedOnlyOnSuccess) {
  TempFolder in, out;
  std::vector<TinyTensor> tensors = tinyTensors();
  writeTinyFolder(in.path(), tensors, "F32");
  const std::string old("NINFER\0\3old", 11);
  writeBytes(out / "m.ninfer", old);
  auto refused = convert({in.path(), out / "m.ninfer"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
  EXPECT_EQ(refused.error().code, "NB0905");
  tensors[4].values[0] = NAN;
  writeTinyFolder(in.path(), tensors, "F32");
  EXPECT_FALSE(
      convert({in.path(), out / "m.ninfer", "w8", [](ConvertOptions &o) { o.force = true; }}).ok());
  EXPECT_TRUE(readBytes(out / "m.ninfer") == old);
  EXPECT_EQ(filesIn(out.path()), 1u);
  writeTinyFolder(in.path(), tinyTensors(), "F32");
  EXPECT_TRUE(
      convert({in.path(), out / "m.ninfer", "w8", [](ConvertOptions &o) { o.force = true; }}).ok());
  EXPECT_TRUE(Artifact::open(out / "m.ninfer").ok());
}

TEST(Convert, NeverReplacesItsOwnSource) {
  TempFolder in;
  writeBytes(in / "m.gguf", q8Model().file);
  std::string before = readBytes(in / "m.gguf");
  auto report =
      convert({in / "m.gguf", in / "m.gguf", "w8", [](ConvertOptions &o) { o.force = true; }});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, "NB0905");
  EXPECT_TRUE(readBytes(in / "m.gguf") == before);
}

TEST(Convert, CancellingAtAnyPollLeavesNothing) {
  TempFolder in, out;
  writeBytes(in / "m.gguf", q8Model().file);
  int polls = 0;
  bool finished = false;
  for (int limit = 0; !finished && limit < 200; ++limit) {
    std::atomic<int> left = limit;
    auto report = convert({in / "m.gguf", out / "m.ninfer", "w8", [&](ConvertOptions &o) {
                             o.threads = 1;
                             o.cancelled = [&] { return left-- <= 0; };
                           }});
    finished = report.ok();
    if (finished)
      break;
    ASSERT_EQ(report.error().kind, ErrorKind::Interrupted) << report.error().render();
    ASSERT_EQ(filesIn(out.path()), 0u);
    ++polls;
  }
  EXPECT_TRUE(finished);
  EXPECT_GT(polls, 30); // scanning and encoding both poll
}

TEST(Convert, ReportsAnOutputThatCannotBeWritten) {
  TempFolder in, out;
  writeTinyFolder(in.path(), tinyTensors(), "F32");
  auto report = convert({in.path(), out / "no" / "such" / "m.ninfer"});
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("m.ninfer"), std::string::npos);
  EXPECT_EQ(filesIn(out.path()), 0u);
}

TEST(Convert, ARecipeOfAnotherModelIsRefused) {
  TempFolder in, out;
  writeTinyFolder(in.path(), tinyTensors(), "F32");
  writeBytes(in / "r.toml",
             "[formats]\ndefault = \"q5\"\n[[layers]]\nfirst = 2\nlast = 3\ndown = \"q6\"\n");
  auto report = convert({in.path(), out / "m.ninfer", (in / "r.toml").string()});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().kind, ErrorKind::Usage);
}

TEST(Convert, RefusesSourcesItDoesNotKnow) {
  TempFolder in, out;
  writeBytes(in / "m.bin", "x");
  for (const fs::path &path : {in / "m.bin", in / "missing", in.path()})
    EXPECT_EQ(convert({path, out / "m.ninfer"}).error().kind, ErrorKind::BadFile) << path;
}

} // namespace
// What the runtime could not open is not written.
TEST(Convert, RefusesTextResourcesTheRuntimeWouldRefuse) {
  struct Case {
    const char *file, *bytes, *says;
  };
  for (const Case &c :
       {Case{"tokenizer.json", R"({"model":{"type":"Unigram","vocab":{"A":0},"merges":[]}})", "Unigram"},
        Case{"generation_config.json", R"({"eos_token_id":-1})", "eos_token_id"},
        Case{"generation_config.json", R"({"eos_token_id":[2,40]})", "eos_token_id"},
        Case{"chat_template.jinja", "\xff", "not valid UTF-8"}}) {
    TempFolder in, out;
    writeTinyFolder(in.path(), tinyTensors(), "BF16");
    writeBytes(in.path() / c.file, c.bytes);
    const auto report = convert({in.path(), out / "m.ninfer", "bf16"});
    ASSERT_FALSE(report.ok()) << c.file << c.bytes;
    EXPECT_EQ(report.error().code, "NB0320");
    EXPECT_NE(report.error().message.find(c.says), std::string::npos) << report.error().message;
    EXPECT_EQ(filesIn(out.path()), 0u);
  }
}

} // namespace ninfer
