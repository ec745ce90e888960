// Checkpoints written by the real quantization libraries (test/vectors/quantized) through the whole
// converter. The readers of the sources and of the stored objects here share no code with convert/
// or artifact/: safetensors and GGUF by their specifications, objects by docs/formats.md.
#include "QuantizedBuilders.h"
#include "artifact/container/Reader.h"
#include "artifact/layouts/Layout.h"
#include "convert/Converter.h"
#include "support/Bytes.h"
#include "support/Sha256.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ninfer {
namespace {

using namespace test;
using PlainJson = nlohmann::json;

const fs::path kVectors = fs::path(NINFER_SOURCE_DIR) / "test/vectors/quantized";

std::span<const std::byte> bytesOf(const std::string &text) {
  return std::as_bytes(std::span(text));
}
std::string digestOf(std::span<const std::byte> bytes) { return toHex(sha256(bytes)); }

// --- rounding, by the definition of the formats (clang's own types, not support/) ---

uint16_t halfWord(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }
uint16_t bfloatWord(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float bfloatValue(uint16_t word) { return std::bit_cast<float>(uint32_t(word) << 16); }
float halfValue(uint16_t word) { return static_cast<float>(std::bit_cast<_Float16>(word)); }
float e4m3Value(uint8_t word) {
  int exponent = word >> 3 & 15, fraction = word & 7;
  float magnitude = exponent ? std::ldexp(1.0f + static_cast<float>(fraction) / 8, exponent - 7)
                             : std::ldexp(static_cast<float>(fraction), -9);
  return word & 0x80 ? -magnitude : magnitude;
}
float e2m1Value(uint8_t word) {
  constexpr float kTable[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return word & 8 ? -kTable[word & 7] : kTable[word & 7];
}
/// Distance in units of the last place of values of one sign.
uint32_t ulps(float a, float b) {
  if (a == b)
    return 0;
  if (std::signbit(a) != std::signbit(b))
    return 0xffffffff;
  auto x = std::bit_cast<uint32_t>(a), y = std::bit_cast<uint32_t>(b);
  return x > y ? x - y : y - x;
}
/// Digest of values rounded to `dtype`, negative zeros made positive.
std::string valueDigest(const std::vector<float> &values, const std::string &dtype) {
  std::string out;
  for (float v : values) {
    v += 0.0f;
    if (dtype == "float32")
      put<uint32_t>(out, std::bit_cast<uint32_t>(v));
    else
      put<uint16_t>(out, dtype == "float16" ? halfWord(v) : bfloatWord(v));
  }
  return digestOf(bytesOf(out));
}

std::string text(const PlainJson &value) { return value.get<std::string>(); }

// --- the source ---

struct Raw {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string bytes;

  uint32_t u32(uint64_t i) const { return loadLe32(bytesOf(bytes).data() + 4 * i); }
  uint16_t u16(uint64_t i) const { return loadLe16(bytesOf(bytes).data() + 2 * i); }
  uint8_t u8(uint64_t i) const { return static_cast<uint8_t>(bytes[i]); }
  float value(uint64_t i) const {
    return dtype == "F16"    ? halfValue(u16(i))
           : dtype == "BF16" ? bfloatValue(u16(i))
                             : std::bit_cast<float>(u32(i));
  }
};

std::map<std::string, Raw> readSafetensorsFile(const fs::path &path) {
  std::string file = readBytes(path);
  uint64_t length = loadLe64(bytesOf(file).data());
  std::map<std::string, Raw> out;
  const PlainJson header = PlainJson::parse(file.substr(8, length));
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    out[name] = {entry["dtype"], entry["shape"], file.substr(8 + length + begin, end - begin)};
  }
  return out;
}

/// One matrix as the library stored it, unpacked. Integers: `codes` without zero point.
struct Matrix {
  uint64_t rows = 0, columns = 0, groups = 1; ///< scales per row
  std::vector<int8_t> codes;                  ///< or E2M1 / E4M3FN words
  std::vector<float> scales;                  ///< rows * groups, sign kept
  float global = 1;                           ///< NVFP4: as stored

  float scale(uint64_t n, uint64_t k) const { return scales[n * groups + k * groups / columns]; }
};

enum class Kind { Gptq, PackedInt, Nvfp4Divisor, Nvfp4Multiplier, Fp8 };

Matrix readMatrix(const std::map<std::string, Raw> &file, const std::string &module, Kind kind,
                  uint32_t bits) {
  auto part = [&](const char *suffix) -> const Raw & { return file.at(module + "." + suffix); };
  Matrix m;
  const int offset = 1 << (bits - 1);
  const uint32_t mask = (1u << bits) - 1, perWord = 32 / bits;
  if (kind == Kind::Gptq) {
    const Raw &codes = part("qweight"), &scales = part("scales");
    m.rows = codes.shape[1];
    m.columns = codes.shape[0] * perWord;
    m.groups = scales.shape[0];
    for (uint64_t n = 0; n < m.rows; ++n)
      for (uint64_t k = 0; k < m.columns; ++k)
        m.codes.push_back(static_cast<int8_t>(
            int(codes.u32(k / perWord * m.rows + n) >> (bits * (k % perWord)) & mask) - offset));
    for (uint64_t n = 0; n < m.rows; ++n)
      for (uint64_t g = 0; g < m.groups; ++g)
        m.scales.push_back(scales.value(g * m.rows + n));
    return m;
  }
  const Raw &scales = part("weight_scale");
  const Raw &codes =
      part(kind == Kind::PackedInt || kind == Kind::Nvfp4Divisor ? "weight_packed" : "weight");
  m.rows = codes.shape[0];
  uint64_t words = codes.shape[1];
  if (kind == Kind::PackedInt) {
    m.columns = words * perWord;
    for (uint64_t i = 0; i < m.rows * m.columns; ++i)
      m.codes.push_back(static_cast<int8_t>(
          int(codes.u32(i / perWord) >> (bits * (i % perWord)) & mask) - offset));
  } else if (kind == Kind::Fp8) {
    m.columns = words;
    for (uint64_t i = 0; i < m.rows * m.columns; ++i)
      m.codes.push_back(static_cast<int8_t>(codes.u8(i)));
  } else {
    m.columns = words * 2;
    for (uint64_t i = 0; i < m.rows * m.columns; ++i)
      m.codes.push_back(static_cast<int8_t>(codes.u8(i / 2) >> (4 * (i % 2)) & 15));
    m.global = part(kind == Kind::Nvfp4Divisor ? "weight_global_scale" : "weight_scale_2").value(0);
  }
  const uint64_t count = std::max<uint64_t>(1, scales.bytes.size() / (scales.dtype == "F8_E4M3" ? 1
                                                                      : scales.dtype == "F32"   ? 4
                                                                                              : 2));
  for (uint64_t i = 0; i < count; ++i)
    m.scales.push_back(scales.dtype == "F8_E4M3" ? e4m3Value(scales.u8(i)) : scales.value(i));
  m.groups = count / m.rows;
  if (count == 1) { // one scale for all rows
    m.scales.assign(m.rows, m.scales[0]);
    m.groups = 1;
  }
  return m;
}

// --- one vector ---

struct Vector {
  const char *folder;
  Kind kind;
  uint32_t bits;
  Format format; ///< of every matrix, but see negativeScales
  Provenance provenance;
  bool negativeScales = false; ///< of AutoRound: Q5G64_F16S
  bool replicate = false;
};

void PrintTo(const Vector &v, std::ostream *out) { *out << v.folder; }

class QuantizedVectors : public testing::TestWithParam<Vector> {
protected:
  Result<ConvertReport> convert(bool replicate) {
    ConvertOptions options;
    options.source = kVectors / GetParam().folder;
    options.output = out_ / "m.ninfer";
    options.tokenizer = false;
    options.threads = 2;
    options.imports.replicateTensorScale = replicate;
    return convertCheckpoint(options);
  }

  TempFolder out_;
};

const std::map<std::string, std::string> &parameters() {
  static const std::map<std::string, std::string> names = {{"self_attn.q_proj", "attention/query"},
                                                           {"self_attn.k_proj", "attention/key"},
                                                           {"self_attn.v_proj", "attention/value"},
                                                           {"self_attn.o_proj", "attention/output"},
                                                           {"mlp.gate_proj", "mlp/gate"},
                                                           {"mlp.up_proj", "mlp/up"},
                                                           {"mlp.down_proj", "mlp/down"}};
  return names;
}

std::vector<float> decodedValues(const Artifact &artifact, uint32_t object) {
  auto geometry = artifact.geometry(object);
  std::vector<float> out(geometry->rows * geometry->k);
  for (uint64_t n = 0; n < geometry->rows; ++n)
    decodeRow(*geometry, *artifact.object(object), n,
              std::span(out).subspan(n * geometry->k, geometry->k));
  return out;
}

/// Signed code of row n, column k of Q5G64_F16S: base nibbles, then the upper bits, eight per byte.
int q5Code(std::span<const std::byte> object, uint64_t rows, uint64_t n, uint64_t k,
           uint64_t columns) {
  uint64_t padded = up(columns, 128), high = up(rows * padded / 2, 256);
  uint8_t byte = byteAt(object, (n * padded + k) / 2);
  int code = (k % 2 ? byte >> 4 : byte & 15) |
             (byteAt(object, high + n * padded / 8 + k / 8) >> (k % 8) & 1) << 4;
  return code < 16 ? code : code - 32;
}
uint16_t q5Scale(std::span<const std::byte> object, uint64_t rows, uint64_t columns, uint64_t n,
                 uint64_t group) {
  uint64_t padded = up(columns, 128);
  uint64_t at = up(up(rows * padded / 2, 256) + rows * padded / 8, 256);
  return wordAt(object, at + 2 * (n * (padded / 64) + group));
}

/// Codes and scale words of the object against the source, word for word.
void compareWords(const Matrix &m, Format format, std::span<const std::byte> object) {
  const uint64_t k = m.columns;
  for (uint64_t n = 0; n < m.rows; ++n)
    for (uint64_t c = 0; c < k; ++c) {
      const int8_t code = m.codes[n * k + c];
      const float scale = m.scale(n, c);
      const int moved = scale < 0 ? -code : code;
      switch (format) {
      case Format::Q4G64_F16S:
        ASSERT_EQ(q4Code(object, n, c, k), moved) << n << "," << c;
        ASSERT_EQ(halfValue(groupScaleWord(object, m.rows, k, 4, 64, n, c / 64)), std::fabs(scale));
        break;
      case Format::Q5G64_F16S:
        ASSERT_EQ(q5Code(object, m.rows, n, c, k), moved) << n << "," << c;
        ASSERT_EQ(halfValue(q5Scale(object, m.rows, k, n, c / 64)), std::fabs(scale));
        break;
      case Format::W8G32_F16S:
        ASSERT_EQ(w8Code(object, n, c, k), moved) << n << "," << c;
        ASSERT_EQ(halfValue(groupScaleWord(object, m.rows, k, 8, 32, n, c / 32)), std::fabs(scale));
        break;
      case Format::NVFP4:
        ASSERT_EQ(nvfp4Code(object, n, c, k), code) << n << "," << c;
        ASSERT_EQ(e4m3Value(nvfp4Scale(object, m.rows, k, n, c / 16)), scale);
        break;
      default:
        ASSERT_EQ(byteAt(object, n * k + c), static_cast<uint8_t>(code)) << n << "," << c;
        ASSERT_EQ(bfloatValue(fp8Scale(object, m.rows, k, n)), scale);
        break;
      }
    }
}

/// True when no other binary32 value is nearer to 1/m.
bool isNearestReciprocal(float divisor, float m) {
  auto error = [&](float d) { return std::fabs(double(d) - 1.0 / double(m)); };
  return error(divisor) <= error(std::nextafter(divisor, 0.0f)) &&
         error(divisor) <= error(std::nextafter(divisor, INFINITY));
}

TEST_P(QuantizedVectors, CodesScalesAndValuesAreTheLibrarys) {
  const Vector &v = GetParam();
  auto report = convert(v.replicate);
  ASSERT_TRUE(report.ok()) << report.error().render();
  auto artifact = Artifact::open(out_ / "m.ninfer");
  ASSERT_TRUE(artifact.ok()) << artifact.error().render();
  auto file = readSafetensorsFile(kVectors / v.folder / "model.safetensors");
  PlainJson expected = PlainJson::parse(readBytes(kVectors / v.folder / "expected.json"));
  size_t q5 = 0;
  for (const auto &[module, parameter] : parameters()) {
    SCOPED_TRACE(module);
    const std::string source = "model.layers.0." + module, name = "text/layers/0/" + parameter;
    const PlainJson &want = expected["tensors"].at(source + ".weight");
    Matrix m = readMatrix(file, source, v.kind, v.bits);
    ASSERT_EQ(want["shape"], (PlainJson{m.rows, m.columns}));
    // The reader of this test against the script's.
    EXPECT_EQ(digestOf(std::as_bytes(std::span(m.codes))), text(want["codes"]));
    if (v.kind != Kind::Fp8 || !v.replicate) {
      EXPECT_EQ(digestOf(std::as_bytes(std::span(m.scales))), text(want["scales"]));
    }

    const Directory &directory = artifact->directory();
    uint32_t index = directory.bindings.at(name).parts.at(0).object;
    auto geometry = artifact->geometry(index);
    ASSERT_TRUE(geometry.ok());
    if (v.negativeScales && geometry->format == Format::Q5G64_F16S)
      ++q5;
    else
      ASSERT_EQ(geometry->format, v.format);
    std::span<const std::byte> object = *artifact->object(index);
    compareWords(m, geometry->format, object);
    for (const TensorReport &t : report->tensors)
      if (t.object == name) {
        EXPECT_EQ(provenanceText(t.provenance), provenanceText(v.provenance));
        EXPECT_EQ(t.profile, v.provenance == Provenance::Converted ? "DIVISOR_RECIPROCAL_RNE" : "");
      }

    std::vector<float> values = decodedValues(*artifact, index);
    if (v.kind == Kind::Nvfp4Divisor || v.kind == Kind::Nvfp4Multiplier) {
      // The library rounds twice: its block scale, then its value. Its words are met exactly by
      // that rule, and the artifact's are within two units of the last place of them.
      std::vector<float> twice;
      uint32_t worst = 0;
      for (uint64_t n = 0; n < m.rows; ++n)
        for (uint64_t c = 0; c < m.columns; ++c) {
          const float s =
              v.kind == Kind::Nvfp4Divisor ? m.scale(n, c) / m.global : m.scale(n, c) * m.global;
          twice.push_back(e2m1Value(static_cast<uint8_t>(m.codes[n * m.columns + c])) * s);
          worst = std::max(worst, ulps(values[n * m.columns + c] + 0.0f, twice.back() + 0.0f));
        }
      EXPECT_EQ(valueDigest(twice, text(want["dtype"])), text(want["values"]));
      EXPECT_LE(worst, 2u);
      RecordProperty(module + "_worst_ulp", static_cast<int>(worst));
      if (want.contains("decompressed"))
        EXPECT_EQ(valueDigest(twice, text(want["decompressed"]["dtype"])),
                  text(want["decompressed"]["sha256"]));
      const float divisor = std::bit_cast<float>(nvfp4Divisor(object));
      if (v.kind == Kind::Nvfp4Divisor)
        EXPECT_EQ(divisor, m.global);
      else
        EXPECT_TRUE(isNearestReciprocal(divisor, m.global)) << divisor;
    } else {
      EXPECT_EQ(valueDigest(values, text(want["dtype"])), text(want["values"]));
      if (want.contains("decompressed"))
        EXPECT_EQ(valueDigest(values, text(want["decompressed"]["dtype"])),
                  text(want["decompressed"]["sha256"]));
    }

    // A calibrated divisor of the activations reaches the use of the parameter.
    const char *input = v.kind == Kind::Nvfp4Divisor ? "input_global_scale" : "input_scale";
    for (const Use &use : directory.uses) {
      if (use.parameter != name || geometry->format != Format::NVFP4)
        continue;
      const Binding &binding = use.auxiliaries.at("activation_input_divisor");
      const float stored =
          decodedValues(*artifact, binding.parts.at(0).object)[binding.parts.at(0).begin];
      const float source_ = file.at(source + "." + input).value(0);
      if (v.kind == Kind::Nvfp4Divisor)
        EXPECT_EQ(stored, source_);
      else
        EXPECT_TRUE(isNearestReciprocal(stored, source_));
    }
  }
  if (v.negativeScales)
    EXPECT_EQ(q5, parameters().size());
}

const Vector kTable[] = {
    {"compressed-tensors-nvfp4", Kind::Nvfp4Divisor, 4, Format::NVFP4, Provenance::Preserved},
    {"compressed-tensors-fp8", Kind::Fp8, 8, Format::FP8_E4M3FN_ROW_BF16S, Provenance::Preserved},
    {"compressed-tensors-int4-g64", Kind::PackedInt, 4, Format::Q4G64_F16S,
     Provenance::WidenedExactly}, // bfloat16 scales
    {"compressed-tensors-int4-g128", Kind::PackedInt, 4, Format::Q4G64_F16S,
     Provenance::WidenedExactly},
    {"compressed-tensors-int8-g32", Kind::PackedInt, 8, Format::W8G32_F16S,
     Provenance::WidenedExactly},
    {"gptq-v1-int4-g128", Kind::Gptq, 4, Format::Q4G64_F16S,
     Provenance::WidenedExactly}, // every scale twice
    {"gptq-v2-int4-g64", Kind::Gptq, 4, Format::Q4G64_F16S, Provenance::Preserved},
    {"gptq-v1-int8-g32", Kind::Gptq, 8, Format::W8G32_F16S, Provenance::Preserved},
    {"auto-round-gptq", Kind::Gptq, 4, Format::Q4G64_F16S, Provenance::WidenedExactly, true},
    {"auto-round-packed", Kind::Gptq, 4, Format::Q4G64_F16S, Provenance::WidenedExactly, true},
    {"modelopt-nvfp4", Kind::Nvfp4Multiplier, 4, Format::NVFP4, Provenance::Converted},
    {"modelopt-fp8", Kind::Fp8, 8, Format::FP8_E4M3FN_ROW_BF16S, Provenance::NarrowedExactly, false,
     true},
    {"modelopt-fp8-rows", Kind::Fp8, 8, Format::FP8_E4M3FN_ROW_BF16S, Provenance::NarrowedExactly},
};

INSTANTIATE_TEST_SUITE_P(All, QuantizedVectors, testing::ValuesIn(kTable), [](const auto &info) {
  std::string name = info.param.folder;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(QuantizedVectorFiles, EveryFolderIsCovered) {
  size_t folders = 0;
  for (const auto &entry : fs::directory_iterator(kVectors))
    folders += entry.is_directory();
  EXPECT_EQ(folders, std::size(kTable) + 1); // and gguf-blocks
}

// --- GGUF ---

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> shape; ///< row-major
  uint32_t type = 0;
  uint64_t offset = 0;
};

/// Tensor table of a little-endian version 3 file, and where the data start.
std::vector<GgufTensor> readGgufTable(const std::string &file, uint64_t &data) {
  uint64_t at = 8;
  auto u32 = [&] { return loadLe32(bytesOf(file).data() + std::exchange(at, at + 4)); };
  auto u64 = [&] { return loadLe64(bytesOf(file).data() + std::exchange(at, at + 8)); };
  auto text = [&] {
    uint64_t length = u64();
    at += length;
    return file.substr(at - length, length);
  };
  uint64_t tensors = u64(), members = u64();
  constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  for (uint64_t i = 0; i < members; ++i) {
    text();
    uint32_t type = u32();
    if (type == 8)
      text();
    else
      at += kBytes[type]; // the file has no array
  }
  std::vector<GgufTensor> out(tensors);
  for (GgufTensor &t : out) {
    t.name = text();
    t.shape.resize(u32());
    for (size_t d = t.shape.size(); d-- > 0;)
      t.shape[d] = u64();
    t.type = u32();
    t.offset = u64();
  }
  data = up(at, 32);
  return out;
}

/// 32 codes and the scale of one block.
float readBlock(uint32_t type, const std::string &file, uint64_t at, int8_t *codes) {
  constexpr int kIq4[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  auto byte = [&](uint64_t i) { return static_cast<uint8_t>(file[at + i]); };
  for (int i = 0; i < 32; ++i) {
    int low = i % 16, nibble = byte((type == 6 ? 6 : 2) + low) >> (i < 16 ? 0 : 4) & 15;
    if (type == 8)
      codes[i] = static_cast<int8_t>(byte(2 + i));
    else if (type == 2)
      codes[i] = static_cast<int8_t>(nibble - 8);
    else if (type == 20)
      codes[i] = static_cast<int8_t>(kIq4[nibble]);
    else // 6: the fifth bits lie in four bytes before the nibbles
      codes[i] = static_cast<int8_t>((nibble | (byte(2 + i / 8) >> (i % 8) & 1) << 4) - 16);
  }
  return halfValue(static_cast<uint16_t>(byte(0) | byte(1) << 8));
}

TEST(QuantizedVectorFiles, GgufBlocksMoveIntoW8) {
  TempFolder out;
  ConvertOptions options;
  options.source = kVectors / "gguf-blocks/model.gguf";
  options.output = out / "m.ninfer";
  options.tokenizer = false;
  options.threads = 2;
  auto report = convertCheckpoint(options);
  ASSERT_TRUE(report.ok()) << report.error().render();
  auto artifact = Artifact::open(options.output);
  ASSERT_TRUE(artifact.ok());
  PlainJson expected = PlainJson::parse(readBytes(kVectors / "gguf-blocks/expected.json"));
  const std::map<std::string, std::string> names = {
      {"token_embd.weight", "text/token_embedding"},
      {"output.weight", "text/output_head"},
      {"blk.0.attn_q.weight", "text/layers/0/attention/query"},
      {"blk.0.attn_k.weight", "text/layers/0/attention/key"},
      {"blk.0.attn_v.weight", "text/layers/0/attention/value"},
      {"blk.0.attn_output.weight", "text/layers/0/attention/output"},
      {"blk.0.ffn_gate.weight", "text/layers/0/mlp/gate"},
      {"blk.0.ffn_up.weight", "text/layers/0/mlp/up"},
      {"blk.0.ffn_down.weight", "text/layers/0/mlp/down"}};
  std::string file = readBytes(options.source);
  uint64_t data = 0;
  std::map<uint32_t, size_t> types;
  for (const GgufTensor &t : readGgufTable(file, data)) {
    if (!names.count(t.name))
      continue;
    SCOPED_TRACE(t.name);
    ++types[t.type];
    const PlainJson &want = expected["tensors"].at(t.name);
    const uint64_t rows = t.shape[0], k = t.shape[1], groups = k / 32;
    const uint64_t blockBytes = t.type == 8 ? 34 : t.type == 6 ? 22 : 18;
    const std::string parameter = names.at(t.name);
    uint32_t index = artifact->directory().bindings.at(parameter).parts.at(0).object;
    ASSERT_EQ(artifact->geometry(index)->format, Format::W8G32_F16S);
    std::span<const std::byte> object = *artifact->object(index);
    std::vector<float> stored = decodedValues(*artifact, index), sourceOrder;
    std::vector<int8_t> codes(rows * k);
    std::vector<float> scales;
    for (uint64_t n = 0; n < rows; ++n) {
      // Rows of q and k lie in rotary pairs: two halves of 32 in each head of 64.
      const bool paired = parameter.ends_with("query") || parameter.ends_with("key");
      const uint64_t to = paired ? n / 64 * 64 + n % 2 * 32 + n % 64 / 2 : n;
      for (uint64_t g = 0; g < groups; ++g) {
        int8_t *block = codes.data() + n * k + g * 32;
        const float scale =
            readBlock(t.type, file, data + t.offset + (n * groups + g) * blockBytes, block);
        scales.push_back(scale);
        ASSERT_EQ(halfValue(groupScaleWord(object, rows, k, 8, 32, to, g)), std::fabs(scale));
        for (uint64_t i = 0; i < 32; ++i)
          ASSERT_EQ(w8Code(object, to, g * 32 + i, k), scale < 0 ? -block[i] : block[i]) << n;
      }
      sourceOrder.insert(sourceOrder.end(), stored.begin() + static_cast<ptrdiff_t>(to * k),
                         stored.begin() + static_cast<ptrdiff_t>((to + 1) * k));
    }
    EXPECT_EQ(digestOf(std::as_bytes(std::span(codes))), text(want["codes"]));
    EXPECT_EQ(digestOf(std::as_bytes(std::span(scales))), text(want["scales"]));
    EXPECT_EQ(valueDigest(sourceOrder, "float32"), text(want["values"]));
    for (const TensorReport &r : report->tensors)
      if (r.object == parameter)
        EXPECT_EQ(r.provenance, t.type == 8 ? Provenance::Preserved : Provenance::WidenedExactly);
  }
  EXPECT_EQ(types.size(), 4u);
}

// --- what is refused ---

TEST(QuantizedVectorFiles, OneScalePerTensorNeedsTheOption) {
  TempFolder out;
  ConvertOptions options;
  options.source = kVectors / "modelopt-fp8";
  options.output = out / "m.ninfer";
  options.tokenizer = false;
  auto report = convertCheckpoint(options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().kind, ErrorKind::Unsupported);
  EXPECT_NE(report.error().render().find("one scale per tensor"), std::string::npos);
  EXPECT_FALSE(fs::exists(options.output));
}

} // namespace
} // namespace ninfer
