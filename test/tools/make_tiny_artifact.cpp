// make_tiny_artifact OUT.ninfer [options]: a decoder artifact with random weights, for tests.
// Deterministic: same options, same bytes (apart from the artifact id, which the writer draws).
// --sparse writes the directory and a payload of holes, so that shapes of any size cost no disk and
// no time; such a file has the right length, passes every gate of the reader, and must not be run.
#include "artifact/container/Writer.h"
#include "artifact/formats/Encode.h"
#include "artifact/formats/Words.h"
#include "artifact/layouts/Layout.h"
#include "models/Decoder.h"
#include "test/tools/Unwrap.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

using namespace ninfer;
using ninfer::test::die;
using ninfer::test::unwrap;

namespace {

const char kUsage[] = R"(usage: make_tiny_artifact OUT.ninfer [options]
  --preset tiny|8b       shapes to start from (default tiny: 2 layers, hidden 64; 8b: Llama 3.1 8B)
  --arch NAME            LlamaForCausalLM | Qwen3ForCausalLM (qk norm)
  --layers N --hidden N --heads N --kv-heads N --head-dim N --intermediate N --vocab N
  --max-positions N --rope-theta X --eps X
  --tied                 the output head is the embedding object
  --format F             format of every matrix (default Q4G64_F16S)
  --embedding F --head F --attention F --mlp F    format of one role
  --packed-qkv           query, key and value of a layer are row ranges of one object
  --policy P             activation_policy of every use (default A16Only); "none" leaves it out
  --resource ROLE=FILE   adds a resource to the text component (repeatable)
  --seed N               (default 1)
  --sparse               payload of holes
)";

/// SplitMix64: the same numbers on every machine.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// Sum of four uniforms: mean 0, variance 1/3, range (-2, 2).
  float bell() {
    double sum = -2.0;
    for (int i = 0; i < 4; ++i)
      sum += static_cast<double>(next() >> 11) * 0x1p-53;
    return static_cast<float>(sum);
  }

private:
  uint64_t state_;
};

struct Options {
  std::string out, policy = "A16Only";
  DecoderConfig config;
  std::map<std::string, Format> formats; ///< "", "embedding", "head", "attention", "mlp"
  std::vector<std::pair<std::string, std::string>> resources;
  uint64_t seed = 1;
  bool sparse = false, packedQkv = false;

  Format formatOf(const std::string &role) const {
    auto it = formats.find(role);
    return it != formats.end() ? it->second : formats.at("");
  }
};

void applyPreset(DecoderConfig &c, const std::string &name) {
  c.architecture = "LlamaForCausalLM";
  if (name == "tiny") {
    c.hiddenSize = 64, c.vocabSize = 256, c.numLayers = 2, c.numHeads = 4, c.numKvHeads = 2,
    c.headDim = 16;
    c.intermediateSize = 128, c.maxPositions = 512, c.ropeTheta = 10000.0, c.rmsNormEps = 1e-5;
  } else if (name == "8b") {
    c.hiddenSize = 4096, c.vocabSize = 128256, c.numLayers = 32, c.numHeads = 32, c.numKvHeads = 8;
    c.headDim = 128, c.intermediateSize = 14336, c.maxPositions = 131072, c.ropeTheta = 500000.0,
    c.rmsNormEps = 1e-5;
  } else {
    die("unknown preset '" + name + "'");
  }
}

Options parse(int argc, char **argv) {
  Options o;
  o.formats[""] = Format::Q4G64_F16S;
  applyPreset(o.config, "tiny");
  DecoderConfig &c = o.config;
  const std::map<std::string, int64_t *> integers = {
      {"--layers", &c.numLayers}, {"--hidden", &c.hiddenSize},
      {"--heads", &c.numHeads},   {"--kv-heads", &c.numKvHeads},
      {"--head-dim", &c.headDim}, {"--intermediate", &c.intermediateSize},
      {"--vocab", &c.vocabSize},  {"--max-positions", &c.maxPositions}};
  const std::map<std::string, double *> numbers = {{"--rope-theta", &c.ropeTheta},
                                                   {"--eps", &c.rmsNormEps}};
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    auto value = [&]() -> std::string {
      if (++i >= argc)
        die(arg + " needs a value");
      return argv[i];
    };
    auto format = [&](const char *role) {
      const std::string name = value();
      const auto found = formatFromCanonical(name);
      if (!found)
        die("unknown format '" + name + "'; registered: " + listFormats());
      o.formats[role] = *found;
    };
    if (auto it = integers.find(arg); it != integers.end())
      *it->second = std::atoll(value().c_str());
    else if (auto number = numbers.find(arg); number != numbers.end())
      *number->second = std::atof(value().c_str());
    else if (arg == "--preset")
      applyPreset(c, value());
    else if (arg == "--arch")
      c.architecture = value();
    else if (arg == "--tied")
      c.tieWordEmbeddings = true;
    else if (arg == "--format")
      format("");
    else if (arg == "--embedding" || arg == "--head" || arg == "--attention" || arg == "--mlp")
      format(arg.c_str() + 2);
    else if (arg == "--packed-qkv")
      o.packedQkv = true;
    else if (arg == "--policy")
      o.policy = value();
    else if (arg == "--resource") {
      const std::string text = value();
      const size_t eq = text.find('=');
      if (eq == std::string::npos)
        die("--resource wants ROLE=FILE");
      o.resources.emplace_back(text.substr(0, eq), text.substr(eq + 1));
    } else if (arg == "--seed")
      o.seed = std::strtoull(value().c_str(), nullptr, 10);
    else if (arg == "--sparse")
      o.sparse = true;
    else if (arg == "--help")
      die(kUsage);
    else if (arg[0] != '-' && o.out.empty())
      o.out = arg;
    else
      die("unknown argument '" + arg + "'\n" + kUsage);
  }
  if (o.out.empty())
    die(kUsage);
  c.qkNorm = c.architecture == "Qwen3ForCausalLM";
  return o;
}

std::string roleOf(const std::string &parameter) {
  for (const char *role : {"embedding", "head", "attention", "mlp"})
    if (parameter.find(role) != std::string::npos)
      return role;
  return "";
}

// --- payload
// --------------------------------------------------------------------------------------------

/// One row of values, then its words in the object.
class ObjectFiller {
public:
  ObjectFiller(const EncodedGeometry &geometry, bool norm, Random &random)
      : g_(geometry), norm_(norm), random_(random), object_(geometry.totalBytes), row_(geometry.k) {
  }

  std::vector<std::byte> fill() {
    for (uint64_t n = 0; n < g_.rows; ++n) {
      // Matrices keep the variance of their input; norms scatter around 1.
      const float scale = norm_ ? 0.1f : 1.7f / std::sqrt(static_cast<float>(g_.k));
      for (float &x : row_)
        x = (norm_ ? 1.0f : 0.0f) + scale * random_.bell();
      encode(n);
    }
    return std::move(object_);
  }

private:
  void encode(uint64_t n) {
    switch (g_.format) {
    case Format::BF16:
    case Format::FP32:
    case Format::I32:
      return direct(n);
    case Format::NVFP4:
      return nvfp4(n);
    case Format::FP8_E4M3FN_ROW_BF16S: {
      std::vector<uint8_t> codes(g_.k);
      uint16_t rowScale = 0;
      unwrap(encodeFp8Row(row_, codes, rowScale));
      return unwrap(encodeRows(g_, n, RowScaledRows{codes, {&rowScale, 1}}, object_));
    }
    default: {
      std::vector<int8_t> codes(g_.k);
      std::vector<uint16_t> scales(g_.logicalGroupsPerRow());
      unwrap(encodeRowFast(g_.format, row_, codes, scales));
      return unwrap(encodeRows(g_, n, GroupedRows{codes, scales}, object_));
    }
    }
  }

  void direct(uint64_t n) {
    std::vector<std::byte> words(g_.k * (g_.format == Format::BF16 ? 2 : 4));
    for (uint64_t i = 0; i < g_.k; ++i) {
      if (g_.format == Format::BF16) {
        const uint16_t word = roundToBf16(row_[i]);
        std::memcpy(&words[2 * i], &word, 2);
      } else {
        std::memcpy(&words[4 * i], &row_[i], 4);
      }
    }
    unwrap(encodeRows(g_, n, DirectRows{words}, object_));
  }

  /// Codes and block scales are drawn, not encoded: value = code * scale / divisor.
  void nvfp4(uint64_t n) {
    std::vector<uint8_t> codes(g_.k), scales(g_.k / 16);
    for (uint8_t &code : codes)
      code = static_cast<uint8_t>(random_.next() & 15);
    for (uint8_t &scale : scales)
      scale = static_cast<uint8_t>(0x38 + random_.next() % 16); // 1.0 .. 3.75
    const float divisor = 4.0f * std::sqrt(static_cast<float>(g_.k));
    unwrap(encodeRows(g_, n, BlockScaledRows{codes, scales, std::bit_cast<uint32_t>(divisor)},
                      object_));
  }

  const EncodedGeometry &g_;
  bool norm_;
  Random &random_;
  std::vector<std::byte> object_;
  std::vector<float> row_;
};

// --- plan
// -----------------------------------------------------------------------------------------------

struct Job {
  uint32_t object;
  bool norm;
  std::string resource; ///< contents; tensors: empty
};

std::string readAll(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    die("cannot open " + path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::vector<Job> planObjects(const Options &o, const std::vector<ParameterSpec> &inventory,
                             ArtifactPlan &plan) {
  std::vector<Job> jobs;
  uint32_t embedding = 0;
  for (size_t i = 0; i < inventory.size(); ++i) {
    const ParameterSpec &p = inventory[i];
    const std::string role = roleOf(p.name);
    if (role == "head" && o.config.tieWordEmbeddings) {
      plan.bindWhole(p.name, embedding);
      continue;
    }
    if (o.packedQkv && p.name.ends_with("attention/query")) {
      uint64_t rows = 0, element = 0;
      for (size_t k = i; k < i + 3; ++k)
        rows += inventory[k].shape[0];
      const uint32_t object = unwrap(plan.addTensor(p.name.substr(0, p.name.size() - 5) + "qkv",
                                                    {rows, p.shape[1]}, o.formatOf(role)));
      for (size_t k = i; k < i + 3; ++k) {
        const uint64_t count = inventory[k].shape[0] * p.shape[1];
        plan.bindRange(inventory[k].name, object, element, element + count);
        element += count;
      }
      jobs.push_back({object, false, {}});
      i += 2;
      continue;
    }
    const uint32_t object =
        unwrap(plan.addTensor(p.name, p.shape, p.direct ? Format::BF16 : o.formatOf(role)));
    plan.bindWhole(p.name, object);
    if (role == "embedding")
      embedding = object;
    jobs.push_back({object, p.direct, {}});
  }
  for (const auto &[role, file] : o.resources) {
    std::string contents = readAll(file);
    const uint32_t object = unwrap(plan.addResource("resource/" + role, contents.size()));
    plan.directory().components["text"].resources[role] = object;
    jobs.push_back({object, false, std::move(contents)});
  }
  return jobs;
}

void writeSparse(const std::string &path, ArtifactPlan &plan) {
  Directory &directory = plan.directory();
  directory.files = {FileEntry{std::nullopt, plan.payloadBytes()}};
  std::string json = unwrap(encodeDirectory(directory));
  json.append(4096 - (32 + json.size()) % 4096, ' ');
  std::string header("NINFER\0\x03", 8);
  for (int i = 0; i < 8; ++i)
    header.push_back(static_cast<char>(json.size() >> (8 * i)));
  header.append(16, '\x11');
  AtomicFile file = unwrap(AtomicFile::create(path));
  unwrap(file.write(header + json));
  unwrap(file.resize(header.size() + json.size() + plan.payloadBytes()));
  unwrap(file.publish());
}

} // namespace

int main(int argc, char **argv) {
  const Options o = parse(argc, argv);
  unwrap(checkDecoderConfig(o.config, "options"));
  const std::vector<ParameterSpec> inventory = decoderInventory(o.config);

  ArtifactPlan plan;
  const std::vector<Job> jobs = planObjects(o, inventory, plan);
  Directory &directory = plan.directory();
  directory.components["text"].config = toJson(o.config);
  for (const ParameterSpec &p : inventory)
    if (!p.input.empty()) {
      Use use;
      use.parameter = p.name;
      use.input = p.input;
      if (o.policy != "none") {
        use.policy = activationPolicyFromName(o.policy);
        if (!use.policy)
          die("unknown policy '" + o.policy + "'");
      }
      directory.uses.push_back(std::move(use));
    }
  directory.metadata = {{"name", "random decoder"}};
  directory.provenance = nlohmann::ordered_json::object();
  if (o.sparse) {
    writeSparse(o.out, plan);
    return 0;
  }

  Random random(o.seed);
  ArtifactWriter writer = unwrap(ArtifactWriter::create(o.out, plan));
  for (const Job &job : jobs) {
    const ObjectEntry &object = plan.directory().objects[job.object];
    if (!object.isTensor) {
      unwrap(writer.append(job.object, std::as_bytes(std::span(job.resource))));
      continue;
    }
    const EncodedGeometry geometry =
        unwrap(encodedGeometry(*object.format, *object.layout, object.shape));
    unwrap(writer.append(job.object, ObjectFiller(geometry, job.norm, random).fill()));
  }
  unwrap(writer.finish());
  return 0;
}
