// Artifacts made by hand from the tables of docs/formats.md and docs/container.md: bytes, offsets
// and directory text are computed here, with no code under test, so they can judge it.
#ifndef NINFER_TEST_UNIT_INSPECT_TESTMODEL_H
#define NINFER_TEST_UNIT_INSPECT_TESTMODEL_H

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace ninfer::test {

inline uint64_t up(uint64_t x, uint64_t a) { return (x + a - 1) / a * a; }

/// One object. Tensors of rank 2 with n rows of k.
struct Item {
  std::string id,
      format; ///< "q4" "q5" "q6" "q8" "nvfp4" "fp8" "bf16" "fp32" "int32", "" = resource
  uint64_t n = 0, k = 0;
  std::string bytes;

  int bits() const {
    return format == "bf16"                        ? 16
           : format == "fp32" || format == "int32" ? 32
           : format == "nvfp4"                     ? 4
           : format == "fp8"                       ? 8
                                                   : format[1] - '0';
  }
  bool grouped() const { return format.size() == 2 && format[0] == 'q'; }
  uint64_t group() const { return format == "q8" ? 32 : format == "nvfp4" ? 16 : 64; }
  uint64_t kp() const { return up(k, 128); }
  uint64_t groups() const { return (k + group() - 1) / group(); }
  uint64_t storedGroups() const { return grouped() ? kp() / group() : k / 16; }

  // Planes.
  uint64_t baseRow() const { return grouped() ? kp() * (bits() == 8 ? 8 : 4) / 8 : k * bits() / 8; }
  uint64_t highRow() const { return bits() == 5 || bits() == 6 ? kp() * (bits() - 4) / 8 : 0; }
  uint64_t highOffset() const { return up(n * baseRow(), 256); }
  uint64_t scaleOffset() const {
    return highRow() ? up(highOffset() + n * highRow(), 256) : up(n * baseRow(), 256);
  }
  uint64_t size() const {
    if (bits() >= 16)
      return n * k * bits() / 8;
    if (format == "fp8")
      return scaleOffset() + 2 * n;
    if (format == "nvfp4")
      return scaleOffset() + n * k / 16 + 4;
    return scaleOffset() + n * storedGroups() * 2;
  }

  // Places of words, from the start of the object.
  uint64_t baseAt(uint64_t r, uint64_t c) const { return r * baseRow() + c * baseBits() / 8; }
  uint64_t highAt(uint64_t r, uint64_t c) const {
    return highOffset() + r * highRow() + c * (bits() - 4) / 8;
  }
  uint64_t scaleAt(uint64_t r, uint64_t g) const {
    if (format == "fp8")
      return scaleOffset() + 2 * r;
    if (format == "nvfp4") // tiles of 128 rows by 4 groups
      return scaleOffset() + ((r / 128) * (k / 64) + g / 4) * 512 + (r % 32) * 16 +
             (r % 128 / 32) * 4 + g % 4;
    return scaleOffset() + (r * storedGroups() + g) * 2;
  }
  uint64_t divisorAt() const { return size() - 4; }

  uint8_t at(uint64_t i) const { return uint8_t(bytes[i]); }
  void poke(uint64_t i, std::initializer_list<int> values) {
    for (int value : values)
      bytes[i++] = char(value);
  }

  /// Unsigned code word.
  uint32_t code(uint64_t r, uint64_t c) const {
    if (bits() >= 16) {
      uint32_t word = 0;
      for (int i = bits() / 8; i-- > 0;)
        word = word << 8 | at((r * k + c) * uint64_t(bits()) / 8 + uint64_t(i));
      return word;
    }
    if (baseBits() == 8)
      return at(baseAt(r, c));
    uint32_t word = at(baseAt(r, c)) >> (c % 2 * 4) & 15;
    if (bits() == 5)
      word |= uint32_t(at(highAt(r, c)) >> (c % 8) & 1) << 4;
    if (bits() == 6)
      word |= uint32_t(at(highAt(r, c)) >> (c % 4 * 2) & 3) << 4;
    return word;
  }
  void setCode(uint64_t r, uint64_t c, uint32_t word) {
    if (bits() >= 16) {
      for (int i = 0; i < bits() / 8; ++i)
        bytes[(r * k + c) * uint64_t(bits()) / 8 + uint64_t(i)] = char(word >> 8 * i);
      return;
    }
    if (baseBits() == 8) {
      bytes[baseAt(r, c)] = char(word);
      return;
    }
    const auto bitsAt = [&](uint64_t byte, uint64_t shift, uint32_t width, uint32_t value) {
      const uint32_t mask = ((1u << width) - 1) << shift;
      bytes[byte] = char((at(byte) & ~mask) | value << shift);
    };
    bitsAt(baseAt(r, c), c % 2 * 4, 4, word & 15);
    if (bits() == 5)
      bitsAt(highAt(r, c), c % 8, 1, word >> 4);
    if (bits() == 6)
      bitsAt(highAt(r, c), c % 4 * 2, 2, word >> 4);
  }
  uint32_t scale(uint64_t r, uint64_t g) const {
    const uint64_t i = scaleAt(r, g);
    return format == "nvfp4" ? at(i) : uint32_t(at(i) | at(i + 1) << 8);
  }
  void setScale(uint64_t r, uint64_t g, uint32_t word) {
    const uint64_t i = scaleAt(r, g);
    bytes[i] = char(word);
    if (format != "nvfp4")
      bytes[i + 1] = char(word >> 8);
  }

private:
  uint64_t baseBits() const { return grouped() && bits() != 8 ? 4 : uint64_t(bits()); }
};

/// Reproducible numbers.
class Lcg {
public:
  explicit Lcg(uint32_t seed) : state_(seed) {}
  uint32_t operator()(uint32_t bound) {
    state_ = state_ * 1664525u + 1013904223u;
    return uint32_t((uint64_t(state_ >> 4) * bound) >> 28);
  }

private:
  uint32_t state_;
};

/// A tensor of legal random words: some zero scales (with zero codes), padding zero.
inline Item tensor(std::string id, std::string format, uint64_t n, uint64_t k, uint32_t seed = 1) {
  Item item{std::move(id), std::move(format), n, k, {}};
  item.bytes.assign(item.size(), '\0');
  Lcg random(seed);
  for (uint64_t r = 0; r < n; ++r) {
    const bool zeroRow = item.format == "fp8" && random(8) == 0;
    for (uint64_t c = 0; c < k; ++c) {
      uint32_t word = 0;
      if (item.format == "bf16")
        word = 0x3f00 + random(256) + (random(2) << 15);
      else if (item.format == "fp32")
        word = 0x3f000000 + random(1 << 20);
      else if (item.format == "int32")
        word = random(1 << 27) - (1u << 26);
      else if (item.format == "fp8")
        word = zeroRow ? random(2) << 7 : random(127) | random(2) << 7;
      else if (item.format == "q8")
        word = (random(255) - 127) & 0xff;
      else
        word = random(1u << item.bits());
      item.setCode(r, c, word);
    }
    if (item.bits() >= 16)
      continue;
    if (item.format == "fp8")
      item.setScale(r, 0, zeroRow ? 0 : 0x3c00 + random(256));
    for (uint64_t g = 0; item.format != "fp8" && g < item.groups(); ++g) {
      const bool zero = random(6) == 0;
      if (item.format == "nvfp4") {
        item.setScale(r, g, zero ? 0 : random(0x7f));
        continue;
      }
      item.setScale(r, g, zero ? 0 : 1 + random(0x7bff));
      for (uint64_t c = g * item.group(); zero && c < std::min(k, (g + 1) * item.group()); ++c)
        item.setCode(r, c, 0);
    }
  }
  if (item.format == "nvfp4")
    item.poke(item.divisorAt(), {0x00, 0x00, 0x80, 0x40}); // 4.0
  return item;
}

inline Item resource(std::string id, std::string bytes) {
  return {std::move(id), "", 0, 0, std::move(bytes)};
}

/// Objects and how a file holds them. Every tensor is bound to a parameter of its id.
struct Model {
  std::vector<Item> items;
  nlohmann::ordered_json provenance, metadata = {{"name", "m"}};
  std::map<std::string, std::string> resources; ///< role -> id
  std::vector<std::string> extraParameters;     ///< "name=id": one more parameter of an object
  std::string gapByte = std::string(1, '\0');   ///< fill of the gaps between objects

  Item &operator[](const std::string &id) {
    for (Item &item : items)
      if (item.id == id)
        return item;
    throw std::runtime_error("no item " + id);
  }

  std::vector<uint64_t> offsets() const {
    std::vector<uint64_t> out;
    uint64_t cursor = 0;
    for (const Item &item : items) {
      out.push_back(item.format.empty() ? cursor : up(cursor, 256));
      cursor = out.back() + item.bytes.size();
    }
    return out;
  }
  std::string payload() const {
    std::string out;
    const std::vector<uint64_t> at = offsets();
    for (size_t i = 0; i < items.size(); ++i) {
      out.resize(at[i], gapByte[0]);
      out += items[i].bytes;
    }
    return out;
  }

  static std::string canonical(const std::string &format) {
    static const std::map<std::string, std::string> names = {
        {"bf16", "BF16"},     {"fp32", "FP32"},     {"int32", "I32"},
        {"q4", "Q4G64_F16S"}, {"q5", "Q5G64_F16S"}, {"q6", "Q6G64_F16S"},
        {"q8", "W8G32_F16S"}, {"nvfp4", "NVFP4"},   {"fp8", "FP8_E4M3FN_ROW_BF16S"}};
    return names.at(format);
  }
  static std::string framing3(const std::string &format) {
    static const std::map<std::string, std::string> names = {{"q4", "q4_g64_fp16"},
                                                             {"q5", "q5_g64_fp16"},
                                                             {"q6", "q6_g64_fp16"},
                                                             {"q8", "q8_g32_fp16"},
                                                             {"fp8", "fp8_e4m3fn_row_bf16"}};
    return names.count(format) ? names.at(format) : format;
  }
  static std::string layout(const Item &item, bool old) {
    std::string name = item.grouped()           ? "row-split-k128-v1"
                       : item.format == "nvfp4" ? "blockscale-k16-m128x4-v1"
                       : item.format == "fp8"   ? "row-scale-v1"
                                                : "contiguous-le-v1";
    if (old)
      return name;
    if (item.format == "nvfp4")
      return "block_scale_k16_m128x4_v1";
    for (char &c : name)
      c = c == '-' ? '_' : c;
    return name;
  }

  nlohmann::ordered_json objects(bool old) const {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    const std::vector<uint64_t> at = offsets();
    for (size_t i = 0; i < items.size(); ++i) {
      const Item &item = items[i];
      nlohmann::ordered_json entry = {{old ? "name" : "id", item.id}};
      if (item.format.empty()) {
        entry["kind"] = "resource";
        entry["encoding"] = old ? "raw-bytes-v1" : "raw_bytes_v1";
      } else {
        entry["kind"] = "tensor";
        entry["shape"] = {item.n, item.k};
        entry["format"] = old ? canonical(item.format) : framing3(item.format);
        entry["layout"] = layout(item, old);
      }
      entry["offset"] = at[i];
      entry["bytes"] = item.bytes.size();
      out.push_back(entry);
    }
    return out;
  }

  static std::string le64(uint64_t value) {
    std::string out;
    for (int i = 0; i < 8; ++i)
      out += char(value >> 8 * i);
    return out;
  }
  static void put(const std::filesystem::path &path, const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  /// Framing 3; with segments, the payload in that many bytes per file, the rest in the last.
  void write(const std::filesystem::path &path, std::vector<uint64_t> segments = {}) const {
    const std::string bytes = payload();
    nlohmann::ordered_json files = nlohmann::ordered_json::array(),
                           bindings = nlohmann::json::object(),
                           uses = nlohmann::ordered_json::array();
    uint64_t rest = bytes.size();
    for (uint64_t segment : segments)
      rest -= segment;
    segments.push_back(rest);
    std::vector<std::string> names;
    for (size_t i = 0; i < segments.size(); ++i) {
      names.push_back("part-" + std::to_string(i));
      files.push_back({{"path", i ? nlohmann::ordered_json(names[i]) : nullptr},
                       {"payload_bytes", segments[i]}});
    }
    for (const Item &item : items)
      if (!item.format.empty()) {
        bindings[item.id] = {{"object", item.id}};
        uses.push_back({{"parameter", item.id}, {"input", "x"}, {"activation_policy", "A16Only"}});
      }
    for (const std::string &extra : extraParameters)
      bindings[extra.substr(0, extra.find('='))] = {{"object", extra.substr(extra.find('=') + 1)}};
    nlohmann::ordered_json text = {{"config", {{"architectures", {"Test"}}}}};
    for (const auto &[role, id] : resources)
      text["resources"][role] = id;
    nlohmann::ordered_json root = {{"components", {{"text", text}}},
                                   {"objects", objects(false)},
                                   {"bindings", bindings},
                                   {"uses", uses},
                                   {"files", files}};
    if (!metadata.is_null())
      root["metadata"] = metadata;
    if (!provenance.is_null())
      root["provenance"] = provenance;
    std::string json = root.dump();
    json.resize(up(32 + json.size(), 4096) - 32, ' ');
    const std::string id = "0123456789abcdef";
    put(path, std::string("NINFER\0\x03", 8) + le64(json.size()) + id + json +
                  bytes.substr(0, segments[0]));
    uint64_t start = segments[0];
    for (size_t i = 1; i < segments.size(); ++i) {
      std::string part = std::string("NINPRT\0\x03", 8) + le64(i) + id;
      part.resize(4096, '\0');
      put(path.parent_path() / names[i], part + bytes.substr(start, segments[i]));
      start += segments[i];
    }
  }

  /// Framing 1 or 2.
  void writeOld(const std::filesystem::path &path, int framing) const {
    nlohmann::ordered_json root;
    if (framing == 1)
      root["model_id"] = "test";
    else
      root["identity"] = {{"model_id", "test"}, {"weights_id", "w"}};
    root["objects"] = objects(true);
    const std::string json = root.dump();
    std::string out = std::string("NINFER\0", 7) + char(framing) + le64(json.size()) + json;
    out.resize(up(out.size(), 4096), '\0');
    put(path, out + payload());
  }
};

/// All nine formats with odd sizes, two resources.
inline Model modelOfAllFormats() {
  Model model;
  model.items = {resource("tokenizer", "tokens!"),      tensor("q4", "q4", 5, 131, 2),
                 tensor("q5", "q5", 7, 257, 3),         tensor("q6", "q6", 6, 70, 4),
                 tensor("q8", "q8", 9, 129, 5),         tensor("fp8", "fp8", 17, 33, 6),
                 tensor("nvfp4", "nvfp4", 256, 128, 7), tensor("bf16", "bf16", 3, 5, 8),
                 tensor("fp32", "fp32", 2, 3, 9),       tensor("int32", "int32", 1, 4, 10),
                 resource("template", "{{x}}")};
  model.resources = {{"tokenizer.json", "tokenizer"}};
  return model;
}

inline std::string readAll(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

class InspectTest : public ::testing::Test {
protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::temp_directory_path() / "ninfer-inspect-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_INSPECT_TESTMODEL_H
