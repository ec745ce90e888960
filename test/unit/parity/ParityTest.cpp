// The ladder on small checkpoints: sound artifacts pass on every basis, and each planted fault is
// reported at its level and place.
#include "inspect/Parity.h"
#include "artifact/container/Reader.h"
#include "convert/Converter.h"

#include "test/unit/convert/HybridBuilders.h"
#include "test/unit/convert/SourceBuilders.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace ninfer {
namespace {

using namespace test;

const char *const kQuery = "text/layers/1/attention/query";
const char *const kDown = "text/layers/0/mlp/down";

/// One source, its artifact, and a way to change the artifact's bytes.
class Pair {
public:
  explicit Pair(const std::string &recipe, bool gguf = false, const std::string &dtype = "F32",
                uint32_t ggufType = 0) {
    if (gguf) {
      source = folder_ / "tiny.gguf";
      writeBytes(source, tinyGguf(tinyTensors(), ggufType).file());
    } else {
      source = folder_.path() / "source";
      fs::create_directory(source);
      writeTinyFolder(source, tinyTensors(), dtype);
    }
    convert(source, recipe);
  }

  void convert(const fs::path &from, const std::string &recipe) {
    ConvertOptions options;
    options.source = from;
    options.output = artifact = folder_ / "m.ninfer";
    options.recipe = *Recipe::builtIn(recipe);
    options.force = true;
    options.threads = 1;
    auto report = convertCheckpoint(options);
    ASSERT_TRUE(report.ok()) << report.error().render();
  }

  /// Offset in the file of byte `at` of an object.
  uint64_t place(const std::string &object, uint64_t at) const {
    auto opened = Artifact::open(artifact);
    return opened->payloadOffset() + opened->directory().findObject(object)->offset + at;
  }
  EncodedGeometry geometry(const std::string &object) const {
    auto opened = Artifact::open(artifact);
    const auto &objects = opened->directory().objects;
    for (size_t i = 0; i < objects.size(); ++i)
      if (objects[i].id == object)
        return opened->geometry(i).take();
    ADD_FAILURE() << object;
    return {};
  }
  template <typename Change>
  void change(Change change) const {
    std::string bytes = readBytes(artifact);
    change(bytes);
    writeBytes(artifact, bytes);
  }
  /// Rows of `object` in the new order: row n becomes what row order(n) was. Natural-order layouts.
  template <typename Order>
  void reorder(const std::string &object, Order order) const {
    const EncodedGeometry g = geometry(object);
    const uint64_t start = place(object, 0);
    change([&](std::string &bytes) {
      const std::string before = bytes;
      for (const PlaneInfo &plane : g.planes)
        for (uint64_t n = 0; n < g.rows; ++n)
          bytes.replace(start + plane.offset + n * plane.rowBytes, plane.rowBytes, before,
                        start + plane.offset + order(n) * plane.rowBytes, plane.rowBytes);
    });
  }

  ParityReport check(unsigned threads = 2) const {
    ParityOptions options;
    options.source = source;
    options.artifact = artifact;
    options.threads = threads;
    auto report = checkParity(options);
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().render());
    return report.ok() ? report.take() : ParityReport{};
  }

  TempFolder &folder() { return folder_; }
  fs::path source, artifact;

private:
  TempFolder folder_;
};

std::vector<ParityFault> faultsOf(const ParityReport &report, int level, const std::string &rule) {
  std::vector<ParityFault> out;
  for (const ParityFault &fault : report.faults)
    if (fault.level == level && fault.rule == rule)
      out.push_back(fault);
  return out;
}

std::string all(const ParityReport &report) { return parityText(report); }

const TensorParity &tensor(const ParityReport &report, const std::string &name) {
  for (const TensorParity &t : report.tensors)
    if (t.parameter == name)
      return t;
  ADD_FAILURE() << name;
  return report.tensors.front();
}

TEST(Parity, SoundArtifactsPassOnEveryBasis) {
  struct Case {
    const char *recipe;
    bool gguf;
    const char *dtype;
    uint32_t ggufType;
    ParityBasis basis;
  };
  const Case cases[] = {
      {"bf16", false, "BF16", 0, ParityBasis::Words},
      {"bf16", false, "F32", 0, ParityBasis::Profile},
      {"w8", false, "F32", 0, ParityBasis::Profile},
      {"q6", false, "BF16", 0, ParityBasis::Profile},
      {"q5", false, "F32", 0, ParityBasis::Profile},
      {"q4", false, "BF16", 0, ParityBasis::Profile},
      {"bf16", true, "", 30, ParityBasis::Words},
      {"q4", true, "", 0, ParityBasis::Profile},
      {"mixed", true, "", 30, ParityBasis::Profile},
  };
  for (const Case &c : cases) {
    Pair pair(c.recipe, c.gguf, c.dtype, c.ggufType);
    const ParityReport report = pair.check();
    EXPECT_TRUE(report.ok()) << c.recipe << "\n" << all(report);
    const TensorParity &query = tensor(report, kQuery);
    EXPECT_EQ(query.basis, c.basis) << c.recipe;
    EXPECT_EQ(query.differentWords, 0u);
    EXPECT_EQ(query.elements, 64u * 64u);
    if (std::string(c.recipe) == "bf16") {
      EXPECT_EQ(query.relativeL2, 0) << c.dtype; // bfloat16 values all of them
    } else {
      EXPECT_GT(query.relativeL2, 1e-4) << c.recipe;
      EXPECT_LT(query.relativeL2, 0.2) << c.recipe;
    }
    EXPECT_EQ(report.tensors.size(), 21u); // 2 * 9, embedding, norm, tied head
    for (const ParityReport::Level &level : report.levels)
      EXPECT_GT(level.checked, 0u);
  }
}

TEST(Parity, TheErrorIsThatOfTheStoredValues) {
  Pair pair("q4");
  const ParityReport report = pair.check();
  // From the source values and the production reader, with other sums.
  const std::vector<TinyTensor> tensors = tinyTensors();
  const auto source = std::find_if(tensors.begin(), tensors.end(), [](const TinyTensor &t) {
    return t.huggingFace == "model.layers.0.mlp.down_proj.weight";
  });
  auto artifact = Artifact::open(pair.artifact);
  const auto &objects = artifact->directory().objects;
  const size_t index = size_t(artifact->directory().findObject(kDown) - objects.data());
  std::vector<float> values(64 * 96);
  decodeElements(*artifact->geometry(index), *artifact->object(index), 0, values.size(), values);
  long double error = 0, norm = 0, most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const long double e = (long double)(values[i]) - source->values[i];
    error += e * e;
    norm += (long double)(source->values[i]) * source->values[i];
    most = std::max(most, std::abs(e));
  }
  const TensorParity &t = tensor(report, kDown);
  EXPECT_NEAR(t.relativeL2, double(std::sqrt(error / norm)), 1e-12);
  EXPECT_EQ(t.maxAbs, double(most));
  EXPECT_NEAR(*t.snrDb, double(10 * std::log10(norm / error)), 1e-9);
  const uint64_t at = t.maxRow * 96 + t.maxColumn;
  EXPECT_EQ(std::fabs(double(values[at]) - source->values[at]), t.maxAbs);
}

TEST(Parity, ReportsDoNotDependOnThreads) {
  Pair pair("mixed", true);
  pair.reorder(kQuery, [](uint64_t n) { return n ^ 1; });
  nlohmann::ordered_json one = parityJson(pair.check(1)), four = parityJson(pair.check(4));
  one.erase("seconds");
  four.erase("seconds");
  EXPECT_EQ(one.dump(), four.dump());
}

TEST(Parity, FlippedCode) {
  for (const char *recipe : {"q4", "q5", "q6", "w8"}) {
    Pair pair(recipe);
    const uint64_t at = pair.place(kDown, baseByteOffset(pair.geometry(kDown), 17, 70));
    pair.change([&](std::string &bytes) { bytes[at] = char(bytes[at] ^ 1); });
    const ParityReport report = pair.check();
    const auto faults = faultsOf(report, 2, "prescribed-words");
    ASSERT_EQ(faults.size(), 1u) << all(report);
    EXPECT_EQ(faults[0].subject, kDown);
    EXPECT_EQ(faults[0].row, 17u);
    EXPECT_EQ(faults[0].column, 70u);
    EXPECT_EQ(report.faultCount(), 1u) << all(report);
    EXPECT_EQ(tensor(report, kDown).differentWords, 1u);
  }
}

TEST(Parity, UpperBitsOfACode) {
  Pair pair("q6");
  const uint64_t at = pair.place(kDown, highByteOffset(pair.geometry(kDown), 63, 95));
  pair.change(
      [&](std::string &bytes) { bytes[at] = char(bytes[at] ^ 0x40); }); // lane 3 of the byte
  const ParityReport report = pair.check();
  ASSERT_EQ(report.faultCount(), 1u) << all(report);
  EXPECT_EQ(report.faults[0].row, 63u);
  EXPECT_EQ(report.faults[0].column, 95u);
}

TEST(Parity, SwappedRows) {
  Pair pair("q5");
  pair.reorder(kDown, [](uint64_t n) { return n == 3 ? 40 : n == 40 ? 3 : n; });
  const ParityReport report = pair.check();
  const auto order = faultsOf(report, 2, "row-order");
  ASSERT_EQ(order.size(), 1u) << all(report);
  EXPECT_EQ(order[0].subject, kDown);
  EXPECT_EQ(order[0].row, 3u);
  EXPECT_NE(order[0].message.find("2 of 2 wrong rows"), std::string::npos) << order[0].message;
  EXPECT_NE(order[0].message.find("3 holds row 40, 40 holds row 3"), std::string::npos);
  EXPECT_EQ(tensor(report, kDown).differentRows, 2u);
}

TEST(Parity, ScaleOfTheNeighbourGroup) {
  Pair pair("w8"); // three groups of 32 in a row of 96
  const EncodedGeometry g = pair.geometry(kDown);
  const uint64_t to = pair.place(kDown, scaleOffset(g, 9, 1)),
                 from = pair.place(kDown, scaleOffset(g, 9, 2));
  pair.change([&](std::string &bytes) { bytes.replace(to, 2, bytes, from, 2); });
  const ParityReport report = pair.check();
  const auto faults = faultsOf(report, 2, "prescribed-words");
  ASSERT_EQ(faults.size(), 1u) << all(report);
  EXPECT_EQ(faults[0].row, 9u);
  EXPECT_EQ(faults[0].column, 32u);
  EXPECT_NE(faults[0].message.find("it is the scale of group 2"), std::string::npos);
}

TEST(Parity, RotaryPairsLeftInterleaved) {
  Pair pair("q4", true);
  ASSERT_TRUE(pair.check().ok());
  // As if the converter had not put the rows back: row n keeps source row n, which belongs
  // elsewhere. Head of 16: source row 2i + half is parameter row half * 8 + i.
  pair.reorder(kQuery, [](uint64_t n) { return n / 16 * 16 + n % 2 * 8 + n % 16 / 2; });
  const ParityReport report = pair.check();
  const auto order = faultsOf(report, 2, "row-order");
  ASSERT_EQ(order.size(), 1u) << all(report);
  EXPECT_EQ(order[0].subject, kQuery);
  EXPECT_NE(order[0].message.find("left interleaved"), std::string::npos) << order[0].message;
}

TEST(Parity, SwappedAxis) {
  Pair pair("q6");
  // The same checkpoint with one square matrix transposed gives the artifact.
  std::vector<TinyTensor> tensors = tinyTensors();
  for (TinyTensor &t : tensors)
    if (t.huggingFace == "model.layers.1.self_attn.q_proj.weight") {
      const std::vector<float> before = t.values;
      for (uint64_t n = 0; n < 64; ++n)
        for (uint64_t k = 0; k < 64; ++k)
          t.values[n * 64 + k] = before[k * 64 + n];
    }
  const fs::path other = pair.folder() / "other";
  fs::create_directory(other);
  writeTinyFolder(other, tensors, "F32");
  pair.convert(other, "q6");
  const ParityReport report = pair.check();
  const auto axis = faultsOf(report, 2, "axis");
  ASSERT_EQ(axis.size(), 1u) << all(report);
  EXPECT_EQ(axis[0].subject, kQuery);
}

TEST(Parity, KeptWordsAndResources) {
  Pair pair("bf16", false, "BF16");
  const uint64_t word = pair.place(kDown, 2 * (5 * 96 + 11));
  const uint64_t letter = pair.place("text/tokenizer.json", 20);
  pair.change([&](std::string &bytes) {
    bytes[word] = char(bytes[word] ^ 0x10);
    bytes[letter] = char(bytes[letter] ^ 1);
  });
  const ParityReport report = pair.check();
  const auto kept = faultsOf(report, 0, "kept-words");
  ASSERT_EQ(kept.size(), 1u) << all(report);
  EXPECT_EQ(kept[0].row, 5u);
  EXPECT_EQ(kept[0].column, 11u);
  const auto resource = faultsOf(report, 0, "resource");
  ASSERT_EQ(resource.size(), 1u);
  EXPECT_EQ(resource[0].subject, "tokenizer.json");
  EXPECT_NE(resource[0].message.find("byte 20"), std::string::npos) << resource[0].message;
  EXPECT_EQ(faultsOf(report, 2, "equal-values").size(), 1u);
}

TEST(Parity, PaddingGapsAndIllegalWords) {
  Pair pair("q5"); // rows of 96 are stored as 128
  const EncodedGeometry g = pair.geometry(kDown);
  const uint64_t padding = pair.place(kDown, baseByteOffset(g, 33, 100));
  pair.change([&](std::string &bytes) { bytes[padding] = 1; });
  ParityReport report = pair.check();
  ASSERT_EQ(faultsOf(report, 1, "repack").size(), 1u) << all(report);
  EXPECT_EQ(faultsOf(report, 1, "repack")[0].row, 33u);
  EXPECT_EQ(report.levels[2].faults, 0u);

  Pair second("q5");
  const uint64_t scale = second.place(kDown, scaleOffset(g, 12, 0));
  second.change([&](std::string &bytes) { bytes[scale + 1] = 0x7c; }); // infinity or NaN
  report = second.check();
  const auto illegal = faultsOf(report, 1, "illegal-word");
  ASSERT_EQ(illegal.size(), 1u) << all(report);
  EXPECT_NE(illegal[0].message.find("row 12, group 0"), std::string::npos) << illegal[0].message;
  EXPECT_GE(report.levels[2].faults, 1u);
}

TEST(Parity, OtherInventoryAndConfig) {
  Pair pair("q4");
  const fs::path other = pair.folder() / "other";
  fs::create_directory(other);
  // Untied: the head is a tensor of its own.
  writeTinyFolder(other, tinyTensors(false, false), "F32", tinyConfig(false, false));
  pair.convert(other, "q4");
  const ParityReport report = pair.check();
  EXPECT_FALSE(report.ok());
  const auto config = faultsOf(report, 0, "config");
  ASSERT_EQ(config.size(), 1u) << all(report);
  EXPECT_NE(config[0].message.find("tie_word_embeddings"), std::string::npos);
  // The head no longer holds the embedding.
  const auto words = faultsOf(report, 2, "prescribed-words");
  ASSERT_FALSE(words.empty());
  EXPECT_EQ(words[0].subject, "text/output_head");
}

TEST(Parity, ChangedSourceTypeAndProvenance) {
  Pair pair("q4");
  writeTinyFolder(pair.source, tinyTensors(), "BF16"); // equal values, other words
  const ParityReport report = pair.check();
  EXPECT_EQ(report.levels[2].faults, 0u) << all(report);
  const auto recorded = faultsOf(report, 0, "provenance");
  ASSERT_EQ(recorded.size(), 21u) << all(report);
  EXPECT_NE(recorded[0].message.find("records source type F32, the source has BF16"),
            std::string::npos);
}

TEST(Parity, QuantizedCheckpoints) {
  const fs::path vectors = NINFER_SOURCE_DIR "/test/vectors/quantized";
  size_t checked = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(vectors)) {
    if (!fs::exists(entry.path() / "config.json"))
      continue;
    TempFolder out;
    ConvertOptions convert;
    convert.source = entry.path();
    convert.output = out / "m.ninfer";
    convert.tokenizer = false;
    convert.imports.replicateTensorScale = true;
    auto converted = convertCheckpoint(convert);
    ASSERT_TRUE(converted.ok()) << entry.path() << converted.error().render();
    ParityOptions options;
    options.source = entry.path();
    options.artifact = convert.output;
    options.imports = convert.imports;
    auto sound = checkParity(options);
    ASSERT_TRUE(sound.ok()) << entry.path() << sound.error().render();
    EXPECT_TRUE(sound->ok()) << entry.path() << "\n" << parityText(*sound);
    for (const TensorParity &t : sound->tensors) {
      EXPECT_NE(t.basis, ParityBasis::ErrorOnly) << entry.path() << " " << t.parameter;
      EXPECT_LT(t.relativeL2, 1e-6) << entry.path() << " " << t.parameter;
    }
    // One code changed: told against the import's words and against the raw tensor.
    const std::string name = "text/layers/0/attention/query";
    auto artifact = Artifact::open(convert.output);
    const ObjectEntry &object = *artifact->directory().findObject(name);
    const uint64_t at = artifact->payloadOffset() + object.offset + 5;
    std::string bytes = readBytes(convert.output);
    bytes[at] = char(bytes[at] ^ 1);
    writeBytes(convert.output, bytes);
    auto faulty = checkParity(options);
    ASSERT_TRUE(faulty.ok());
    const auto raw = faultsOf(*faulty, 0, "raw-codes");
    ASSERT_EQ(raw.size(), 1u) << entry.path() << "\n" << parityText(*faulty);
    EXPECT_EQ(raw[0].subject, name);
    EXPECT_EQ(raw[0].row, 0u);
    EXPECT_FALSE(faultsOf(*faulty, 0, "kept-words").empty() &&
                 faultsOf(*faulty, 2, "prescribed-words").empty());
    ++checked;
  }
  EXPECT_GE(checked, 10u);
}

/// A source of the hybrid family and its artifact.
class HybridPair {
public:
  HybridPair(const HybridFolder &source, const std::string &recipe, bool vision = false) {
    source.write(folder_.path());
    ConvertOptions convert;
    convert.source = folder_.path();
    convert.output = artifact();
    convert.recipe = *Recipe::builtIn(recipe);
    convert.tokenizer = false;
    convert.vision = vision;
    const auto report = convertCheckpoint(convert);
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().render());
  }

  fs::path artifact() const { return folder_.path() / "m.ninfer"; }
  Result<ParityReport> check() const {
    ParityOptions options;
    options.source = folder_.path();
    options.artifact = artifact();
    return checkParity(options);
  }
  /// Exchanges two ranges of bytes of an object.
  void exchange(const std::string &object, uint64_t one, uint64_t other, uint64_t bytes) const {
    auto opened = Artifact::open(artifact());
    const uint64_t start = opened->payloadOffset() + opened->directory().findObject(object)->offset;
    std::string file = readBytes(artifact());
    std::swap_ranges(file.begin() + long(start + one), file.begin() + long(start + one + bytes), file.begin() + long(start + other));
    writeBytes(artifact(), file);
  }
  /// Object of a parameter and the byte its first element has there; BF16.
  std::pair<std::string, uint64_t> place(const std::string &parameter) const {
    auto opened = Artifact::open(artifact());
    const RangePart part = opened->directory().bindings.at(parameter).parts.at(0);
    return {opened->directory().objects[part.object].id, 2 * part.begin};
  }

private:
  TempFolder folder_;
};

HybridFolder hybrid(bool moe, bool mtp, bool nested, bool tied, bool banks) {
  HybridFolder source;
  source.moe = moe;
  source.mtp = mtp;
  source.nested = nested;
  source.tied = tied;
  source.banks = banks;
  source.make();
  return source;
}

TEST(Parity, HybridSourcesPassOnEveryBasis) {
  for (const char *recipe : {"bf16", "q4"})
    for (int form = 0; form < 6; ++form) {
      const HybridPair pair(hybrid(form % 2 != 0, form >= 2, form >= 3, form == 4, form != 5), recipe);
      const auto report = pair.check();
      ASSERT_TRUE(report.ok()) << report.error().render();
      EXPECT_TRUE(report->ok()) << recipe << " " << form << "\n" << all(*report);
      EXPECT_EQ(tensor(*report, "text/layers/0/gdn/convolution").shape, (std::vector<uint64_t>{tiny::taps, tiny::C}));
      EXPECT_EQ(tensor(*report, "text/layers/0/gdn/convolution").relativeL2, 0);
      if (std::string(recipe) == "bf16")
        for (const TensorParity &t : report->tensors)
          EXPECT_EQ(t.relativeL2, 0) << t.parameter;
    }
}

TEST(Parity, FaultsOfHybridArtifactsAreFound) {
  const uint64_t row = 2 * tiny::H;
  struct Case {
    const char *parameter;
    uint64_t from, to, bytes; ///< exchanged, from the start of the parameter on
  };
  const Case cases[] = {
      {"text/layers/0/gdn/query", 0, row, row},                        // two rows of the query
      {"text/layers/0/gdn/convolution", 0, 2 * tiny::C, 2 * tiny::C},  // two taps
      {"text/layers/0/moe/experts/1/gate", 0, tiny::Ir * row, row},    // a gate row and an up row
      {"text/layers/0/moe/experts/0/down", 0, 2 * tiny::Ir, 2 * tiny::Ir},
      {"text/layers/1/attention/gate", 0, tiny::D *row, row},          // rows of two heads
      {"mtp/layers/0/attention/query", 0, row, row},
  };
  for (const Case &c : cases) {
    const HybridPair pair(hybrid(true, true, false, false, true), "bf16");
    const auto [object, at] = pair.place(c.parameter);
    pair.exchange(object, at + c.from, at + c.to, c.bytes);
    const auto report = pair.check();
    ASSERT_TRUE(report.ok()) << report.error().render();
    const auto kept = faultsOf(*report, 0, "kept-words");
    ASSERT_FALSE(kept.empty()) << c.parameter << "\n" << all(*report);
    EXPECT_EQ(kept.front().subject, c.parameter);
  }
}

TEST(Parity, TowersOfHybridSourcesAreCompared) {
  TempFolder folder;
  ConvertOptions convert;
  convert.source = fs::path(NINFER_SOURCE_DIR) / "test/vectors/hybrid/dense-vision-mtp";
  convert.output = folder / "m.ninfer";
  convert.recipe = *Recipe::builtIn("bf16");
  convert.tokenizer = false;
  for (const bool vision : {false, true}) {
    convert.vision = vision;
    convert.force = true;
    ASSERT_TRUE(convertCheckpoint(convert).ok());
    ParityOptions options;
    options.source = convert.source;
    options.artifact = convert.output;
    const auto report = checkParity(options);
    ASSERT_TRUE(report.ok()) << report.error().render();
    EXPECT_TRUE(report->ok()) << all(*report);
    const bool noted = std::any_of(report->notes.begin(), report->notes.end(),
                                   [](const std::string &note) { return note.find("vision tower") != std::string::npos; });
    EXPECT_NE(noted, vision);
    if (!vision)
      continue;
    EXPECT_EQ(tensor(*report, "vision/layers/0/attention/key").differentWords, 0u);
    EXPECT_EQ(tensor(*report, "vision/layers/0/attention/key_bias").elements, tensor(*report, "vision/layers/0/attention/key").shape[0]);
    // One word of the key's bias, which lies between those of query and value.
    auto opened = Artifact::open(convert.output);
    const RangePart part = opened->directory().bindings.at("vision/layers/0/attention/key_bias").parts.at(0);
    const uint64_t at = opened->payloadOffset() + opened->directory().objects[part.object].offset + 2 * part.begin;
    std::string bytes = readBytes(convert.output);
    bytes[at] = char(bytes[at] ^ 1);
    writeBytes(convert.output, bytes);
    const auto faulty = checkParity(options);
    ASSERT_TRUE(faulty.ok());
    ASSERT_FALSE(faulty->ok());
    EXPECT_EQ(faulty->faults.front().subject, "vision/layers/0/attention/key_bias") << all(*faulty);
  }
}

#ifdef NINFER_BIN_DIR
int toolCode(const std::string &arguments, const fs::path &out) {
  const std::string command = std::string(NINFER_BIN_DIR) + "/ninfer-inspect parity " + arguments +
                              " >" + out.string() + " 2>" + out.string() + ".err";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ParityTool, ExitCodesAndOutputs) {
  Pair pair("q4");
  const fs::path out = pair.folder() / "out";
  const std::string both = pair.source.string() + " " + pair.artifact.string();
  EXPECT_EQ(toolCode(both, out), 0) << readBytes(out);
  EXPECT_NE(readBytes(out).find("parity: ok"), std::string::npos);
  EXPECT_EQ(toolCode(both + " -o json --threads 1", out), 0);
  EXPECT_TRUE(nlohmann::json::parse(readBytes(out))["ok"].get<bool>());
  pair.reorder(kDown, [](uint64_t n) { return n ^ 1; });
  EXPECT_EQ(toolCode(both + " -o json", out), 8);
  EXPECT_FALSE(nlohmann::json::parse(readBytes(out))["ok"].get<bool>());
  EXPECT_NE(readBytes(out.string() + ".err").find("error[NB0351]"), std::string::npos);
  EXPECT_EQ(toolCode(pair.source.string() + " " + (pair.source / "config.json").string(), out), 3);
  EXPECT_EQ(toolCode(pair.source.string(), out), 2);
  EXPECT_EQ(toolCode(both + " -o xml", out), 2);
  EXPECT_EQ(toolCode("--help", out), 0);
}
#endif

} // namespace
} // namespace ninfer
