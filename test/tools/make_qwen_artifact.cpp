// make_qwen_artifact OUT.ninfer [options]: a hybrid model (Qwen3.5 family) with the shapes of a
// published size or of the options, in framing 3, or in framing 2 with the inventory of an
// identity. --sparse writes the directory and a payload of holes: right length, passes every gate
// of the reader, must not be run. --random SEED fills it with legal words of plausible size, so
// that activations stay finite. Deterministic: same options, same bytes.
#include "QwenPayload.h"
#include "artifact/container/Writer.h"
#include "models/Bind.h"
#include "models/Hybrid.h"
#include "models/Identity.h"
#include "models/Vision.h"
#include "test/tools/Unwrap.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace ninfer;
using ninfer::test::die;
using ninfer::test::unwrap;
using namespace ninfer::testing;

namespace {

const char kUsage[] = R"(usage: make_qwen_artifact OUT.ninfer [options]
framing 3:
  --preset P         tiny (default) | tiny-moe | 0.8B | 2B | 4B | 9B | 27B | 35B-A3B | 397B-A17B
  --recipe R         bf16 | q4 | w8 | mixed (default: the published roles of the 27B integer files)
  --layers N --hidden N --vocab N --max-positions N --heads N --kv-heads N --head-dim N --intermediate N
  --key-heads N --key-dim N --value-heads N --value-dim N --taps N
  --experts N --experts-per-token N --expert-intermediate N --shared-intermediate N
  --layer-types S    one letter per layer, l (linear) or f (full); default every fourth layer is full
  --partial-rotary X --eps X
  --tied | --untied  default: the published choice of the preset
  --no-mtp           no draft layer
  --vision T         with a vision tower: tiny (2 layers of 48) | published (27 layers of 1152)
  --proposal N       indexed proposal head of N rows (default 0: none)
  --separate         one object per parameter instead of fused parents
  --policy P         activation_policy of every use (default A16Only)
  --resource ROLE=FILE   adds a resource to the text component (repeatable)
framing 2:
  --identity M/W     qwen3.6-27b/groupwise-int, ...; resources are placeholders
payload:
  --sparse           holes (default)
  --random SEED      legal words
)";

struct Options {
  std::string out, recipe = "mixed", identity, layerTypes;
  HybridConfig config;
  HybridMoe moe;
  ActivationPolicy policy = ActivationPolicy::A16Only;
  std::vector<std::pair<std::string, std::string>> resources;
  int64_t proposal = 0;
  uint64_t seed = 0;
  bool random = false, mtp = true, separate = false;
  std::optional<VisionConfig> vision;
};

// --- options
// -----------------------------------------------------------------------------------------------

struct Preset {
  const char *name;
  int64_t hidden, layers, heads, kvHeads, headDim, keyHeads, valueHeads, deltaDim, inner;
  HybridMoe moe;
  int64_t vocab, positions;
  bool tied;
};

const Preset kPresets[] = {
    {"tiny", 128, 4, 4, 2, 32, 2, 4, 32, 256, {}, 256, 512, false},
    {"tiny-moe", 128, 4, 4, 2, 32, 2, 4, 32, 0, {8, 2, 64, 64}, 256, 512, false},
    {"0.8B", 1024, 24, 8, 2, 256, 16, 16, 128, 3584, {}, 248320, 262144, true},
    {"2B", 2048, 24, 8, 2, 256, 16, 16, 128, 6144, {}, 248320, 262144, true},
    {"4B", 2560, 32, 16, 4, 256, 16, 32, 128, 9216, {}, 248320, 262144, true},
    {"9B", 4096, 32, 16, 4, 256, 16, 32, 128, 12288, {}, 248320, 262144, false},
    {"27B", 5120, 64, 24, 4, 256, 16, 48, 128, 17408, {}, 248320, 262144, false},
    {"35B-A3B", 2048, 40, 16, 2, 256, 16, 32, 128, 0, {256, 8, 512, 512}, 248320, 262144, false},
    {"397B-A17B",
     4096,
     60,
     32,
     2,
     256,
     16,
     64,
     128,
     0,
     {512, 10, 1024, 1024},
     248320,
     262144,
     false}};

void applyPreset(Options &o, const std::string &name) {
  for (const Preset &p : kPresets) {
    if (name != p.name)
      continue;
    HybridConfig &c = o.config;
    c.hiddenSize = p.hidden, c.numLayers = p.layers, c.vocabSize = p.vocab;
    c.maxPositions = p.positions, c.tieWordEmbeddings = p.tied, c.intermediateSize = p.inner;
    c.attention = HybridAttention{p.heads, p.kvHeads, p.headDim, 1e7, 0.25, {}};
    c.delta = HybridDelta{p.keyHeads, p.deltaDim, p.valueHeads, p.deltaDim, 4};
    o.moe = p.moe;
    return;
  }
  die("unknown preset '" + name + "'");
}

/// Fields that follow from the others.
void complete(Options &o) {
  HybridConfig &c = o.config;
  if (o.moe.numExperts > 0)
    c.moe = o.moe, c.intermediateSize = 0;
  c.architecture = c.moe ? "Qwen3_5MoeForCausalLM" : "Qwen3_5ForCausalLM";
  c.rmsNormEps = static_cast<double>(static_cast<float>(c.rmsNormEps));
  if (o.layerTypes.empty())
    for (int64_t i = 0; i < c.numLayers; ++i)
      o.layerTypes += i % 4 == 3 ? 'f' : 'l';
  c.numLayers = static_cast<int64_t>(o.layerTypes.size());
  for (char kind : o.layerTypes) {
    if (kind != 'l' && kind != 'f')
      die("--layer-types takes the letters l and f, got '" + o.layerTypes + "'");
    c.layerTypes.push_back(kind == 'f' ? HybridLayer::FullAttention : HybridLayer::LinearAttention);
  }
  // Pairs per axis as interleaving deals them out: i, i + 1, i + 2, ...
  const int64_t pairs = c.attention->rotaryDim() / 2;
  c.attention->mropeSection = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3};
  unwrap(checkHybridConfig(c, "options", o.mtp));
}

Options parse(int argc, char **argv) {
  Options o;
  applyPreset(o, "tiny");
  for (int i = 1; i + 1 < argc; ++i)
    if (std::string(argv[i]) == "--preset")
      applyPreset(o, argv[i + 1]);
  HybridConfig &c = o.config;
  const std::map<std::string, int64_t *> integers = {
      {"--layers", &c.numLayers},
      {"--hidden", &c.hiddenSize},
      {"--vocab", &c.vocabSize},
      {"--max-positions", &c.maxPositions},
      {"--heads", &c.attention->numHeads},
      {"--kv-heads", &c.attention->numKvHeads},
      {"--head-dim", &c.attention->headDim},
      {"--intermediate", &c.intermediateSize},
      {"--key-heads", &c.delta->numKeyHeads},
      {"--key-dim", &c.delta->keyDim},
      {"--value-heads", &c.delta->numValueHeads},
      {"--value-dim", &c.delta->valueDim},
      {"--taps", &c.delta->taps},
      {"--experts", &o.moe.numExperts},
      {"--experts-per-token", &o.moe.expertsPerToken},
      {"--expert-intermediate", &o.moe.intermediateSize},
      {"--shared-intermediate", &o.moe.sharedIntermediate},
      {"--proposal", &o.proposal}};
  const std::map<std::string, double *> numbers = {
      {"--partial-rotary", &c.attention->partialRotaryFactor}, {"--eps", &c.rmsNormEps}};
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    auto value = [&]() -> std::string {
      if (++i >= argc)
        die(arg + " needs a value");
      return argv[i];
    };
    if (auto it = integers.find(arg); it != integers.end())
      *it->second = std::atoll(value().c_str());
    else if (auto number = numbers.find(arg); number != numbers.end())
      *number->second = std::atof(value().c_str());
    else if (arg == "--preset")
      value();
    else if (arg == "--recipe")
      o.recipe = value();
    else if (arg == "--identity")
      o.identity = value();
    else if (arg == "--layer-types")
      o.layerTypes = value();
    else if (arg == "--tied" || arg == "--untied")
      c.tieWordEmbeddings = arg == "--tied";
    else if (arg == "--no-mtp")
      o.mtp = false;
    else if (arg == "--vision") {
      const std::string name = value();
      if (name != "tiny" && name != "published")
        die("unknown tower '" + name + "'");
      o.vision = name == "tiny" ? VisionConfig{false, 2, 48, 64, 4, 4, 2, 2, 49} : publishedVision(false);
    }
    else if (arg == "--separate")
      o.separate = true;
    else if (arg == "--policy") {
      const std::string name = value();
      const auto policy = activationPolicyFromName(name);
      if (!policy)
        die("unknown policy '" + name + "'");
      o.policy = *policy;
    } else if (arg == "--resource") {
      const std::string text = value();
      const size_t eq = text.find('=');
      if (eq == std::string::npos)
        die("--resource wants ROLE=FILE");
      o.resources.emplace_back(text.substr(0, eq), text.substr(eq + 1));
    } else if (arg == "--sparse")
      o.random = false;
    else if (arg == "--random")
      o.random = true, o.seed = std::strtoull(value().c_str(), nullptr, 10);
    else if (arg == "--help")
      die(kUsage);
    else if (arg[0] != '-' && o.out.empty())
      o.out = arg;
    else
      die("unknown argument '" + arg + "'\n" + kUsage);
  }
  if (o.out.empty())
    die(kUsage);
  complete(o);
  return o;
}

// --- plan
// -----------------------------------------------------------------------------------------------

bool endsWith(const std::string &name, std::initializer_list<const char *> ends) {
  for (const char *end : ends)
    if (name.ends_with(end))
      return true;
  return false;
}

/// Format of a matrix. "mixed" follows the roles of the published 27B and 35B integer files.
Format formatOf(const Options &o, const std::string &name) {
  if (o.recipe == "bf16" ||
      endsWith(name, {"/a_projection", "/b_projection", "/router", "/shared_score"}))
    return Format::BF16;
  if (o.recipe == "q4")
    return Format::Q4G64_F16S;
  if (o.recipe == "w8")
    return Format::W8G32_F16S;
  if (o.recipe != "mixed")
    die("unknown recipe '" + o.recipe + "'");
  if (name == "proposal/head")
    return Format::Q4G64_F16S;
  if (isUnder(name, "vision")) {
    if (name == "vision/patch_embedding")
      return Format::Q6G64_F16S;
    if (isUnder(name, "vision/merger"))
      return Format::W8G32_F16S;
    return endsWith(name, {"/output", "/fc2"}) ? Format::Q5G64_F16S : Format::Q4G64_F16S;
  }
  if (isUnder(name, "mtp") || name.find("/moe/shared/") != std::string::npos)
    return Format::W8G32_F16S;
  if (name == "text/token_embedding" || name == "text/output_head")
    return Format::Q6G64_F16S;
  if (endsWith(name, {"/query", "/key", "/gate", "/up"}) && !name.ends_with("attention/gate"))
    return Format::Q4G64_F16S;
  return Format::Q5G64_F16S;
}

/// Where a parameter is stored when parents are fused: the object's id, by the converter's rule.
std::string parentOf(const Options &o, const std::string &name) {
  const size_t slash = name.rfind('/');
  const std::string folder = name.substr(0, slash + 1), leaf = name.substr(slash + 1);
  if (o.separate)
    return name;
  if (const size_t experts = name.find("/experts/"); experts != std::string::npos)
    return name.substr(0, experts) + (leaf == "down" ? "/routed_down" : "/routed_gate_up");
  auto same = [&](const char *a, const char *b) {
    return formatOf(o, folder + a) == formatOf(o, folder + b);
  };
  if (isUnder(name, "vision"))
    return folder.ends_with("attention/") && leaf != "output" ? folder + "qkv" : name;
  if (folder.ends_with("attention/") && leaf != "output") {
    if (same("query", "gate"))
      return folder + "query_key_gate_value";
    return folder + (leaf == "query" || leaf == "key" ? "query_key" : "gate_value");
  }
  if (folder.ends_with("gdn/")) {
    if (endsWith(leaf, {"a_projection", "b_projection"}))
      return folder + "a_b_projection";
    if (leaf == "output")
      return name;
    if (same("query", "value"))
      return folder + "query_key_value_z";
    return folder + (leaf == "query" || leaf == "key" ? "query_key" : "value_z");
  }
  if (leaf == "router" || leaf == "shared_score")
    return folder + "router_shared_gate";
  if (leaf == "gate" || leaf == "up")
    return folder + "gate_up";
  return name;
}

/// One tensor to be written; `role` is a parameter that tells what its values are like.
struct Job {
  uint32_t object = 0;
  std::string role;
  std::string resource;
};

/// Plans text, mtp and proposal of a framing 3 artifact.
class Planner {
public:
  Planner(const Options &o, ArtifactPlan &plan) : o_(o), plan_(plan) {}

  std::vector<Job> run() {
    Directory &d = plan_.directory();
    resources();
    d.components["text"].config = toJson(o_.config);
    add(hybridInventory(o_.config));
    if (o_.proposal > 0) {
      d.components["text"].proposal = Component::Proposal{true, static_cast<uint64_t>(o_.proposal)};
      add(proposalInventory(o_.config, *d.components["text"].proposal));
    }
    if (o_.vision) {
      VisionConfig vision = *o_.vision;
      vision.moe = o_.config.moe.has_value();
      d.components["vision"].config = toJson(vision);
      d.components["vision"].target = "text";
      add(visionInventory(vision, o_.config.hiddenSize));
    }
    if (o_.mtp) {
      d.components["mtp"].config = {{"architectures", {mtpArchitecture(o_.config)}}};
      d.components["mtp"].target = "text";
      add(mtpInventory(o_.config));
      use("text/output_head", "mtp/final_hidden");
    }
    d.metadata = {{"name", "random hybrid"}};
    d.provenance = nlohmann::ordered_json::object();
    return std::move(jobs_);
  }

private:
  void resources() {
    for (const auto &[role, file] : o_.resources) {
      std::ifstream in(file, std::ios::binary);
      if (!in)
        die("cannot open " + file);
      std::string contents(std::istreambuf_iterator<char>(in), {});
      const uint32_t object = unwrap(plan_.addResource("resource/" + role, contents.size()));
      plan_.directory().components["text"].resources[role] = object;
      jobs_.push_back({object, {}, std::move(contents)});
    }
  }

  void use(const std::string &parameter, const std::string &input) {
    Use u;
    u.parameter = parameter;
    u.input = input;
    u.policy = o_.policy;
    plan_.directory().uses.push_back(std::move(u));
  }

  void add(const std::vector<ParameterSpec> &inventory) {
    // Rows of every parent, then the parents in the order of their first parameter.
    std::map<std::string, std::vector<const ParameterSpec *>> members;
    std::vector<std::string> order;
    for (const ParameterSpec &p : inventory) {
      if (!p.input.empty())
        use(p.name, p.input);
      if (p.name == "text/output_head" && o_.config.tieWordEmbeddings)
        continue;
      const std::string parent = p.direct ? p.name : parentOf(o_, p.name);
      if (members[parent].empty())
        order.push_back(parent);
      members[parent].push_back(&p);
    }
    for (const std::string &parent : order)
      addParent(parent, members[parent]);
    auto &bindings = plan_.directory().bindings;
    if (o_.config.tieWordEmbeddings)
      bindings["text/output_head"] = bindings.at("text/token_embedding");
  }

  void addParent(const std::string &id, const std::vector<const ParameterSpec *> &parts) {
    const ParameterSpec &first = *parts[0];
    std::vector<uint64_t> shape = first.shape;
    for (size_t i = 1; i < parts.size(); ++i)
      shape[0] += parts[i]->shape[0];
    const Format format = first.direct ? first.directFormat : formatOf(o_, first.name);
    const uint32_t object = unwrap(plan_.addTensor(id, shape, format));
    uint64_t element = 0;
    for (const ParameterSpec *p : parts) {
      const uint64_t count = elementCount(p->shape);
      if (parts.size() == 1)
        plan_.bindWhole(p->name, object);
      else
        plan_.bindRange(p->name, object, element, element + count);
      element += count;
    }
    jobs_.push_back({object, first.name, {}});
  }

  const Options &o_;
  ArtifactPlan &plan_;
  std::vector<Job> jobs_;
};

std::vector<Job> planIdentity(const std::string &text, ArtifactPlan &plan) {
  const size_t slash = text.find('/');
  const Identity identity{text.substr(0, slash),
                          slash == std::string::npos ? "" : text.substr(slash + 1)};
  const auto model = storedModel(identity);
  if (!model || identity.weightsId.empty())
    die("unknown identity '" + text + "'");
  std::vector<Job> jobs;
  for (const StoredTensor &tensor : model->tensors)
    jobs.push_back({unwrap(plan.addTensor(tensor.name, tensor.shape, tensor.format)),
                    tensor.parameters.empty() ? tensor.name : tensor.parameters[0].parameter,
                    {}});
  for (const std::string &id : model->resources)
    jobs.push_back({unwrap(plan.addResource(id, 2)), {}, "{}"});
  for (ObjectEntry &object : plan.directory().objects) {
    if (object.isTensor) {
      object.formatName = canonicalName(*object.format);
      object.layoutName = canonicalName(*object.layout);
    } else {
      object.encoding = "raw-bytes-v1";
    }
  }
  plan.directory().framing = 2;
  plan.directory().identity = identity;
  return jobs;
}

void writeSparse(const std::string &path, ArtifactPlan &plan) {
  Directory &directory = plan.directory();
  directory.files = {FileEntry{std::nullopt, plan.payloadBytes()}};
  std::string json = unwrap(encodeDirectory(directory));
  std::string header("NINFER\0", 7);
  header.push_back(static_cast<char>(directory.framing));
  const size_t headerBytes = directory.framing == 3 ? 32 : 16;
  if (directory.framing == 3)
    json.append(4096 - (headerBytes + json.size()) % 4096, ' ');
  for (int i = 0; i < 8; ++i)
    header.push_back(static_cast<char>(json.size() >> (8 * i)));
  header.resize(headerBytes, '\x11');
  const uint64_t start = (headerBytes + json.size() + 4095) / 4096 * 4096;
  AtomicFile file = unwrap(AtomicFile::create(path));
  unwrap(file.write(header + json));
  unwrap(file.resize(start + plan.payloadBytes()));
  unwrap(file.publish());
}

void writeRandom(const Options &o, const ArtifactPlan &plan, const std::vector<Job> &jobs) {
  WriterOptions options;
  options.framing = plan.directory().framing;
  ArtifactWriter writer = unwrap(ArtifactWriter::create(o.out, plan, options));
  for (const Job &job : jobs) {
    const ObjectEntry &object = plan.directory().objects[job.object];
    if (!object.isTensor) {
      unwrap(writer.append(job.object, std::as_bytes(std::span(job.resource))));
      continue;
    }
    const EncodedGeometry geometry =
        unwrap(encodedGeometry(*object.format, *object.layout, object.shape));
    const uint64_t tokens = static_cast<uint64_t>(o.config.vocabSize);
    unwrap(writer.append(job.object,
                         unwrap(randomObject(geometry, job.role, tokens, o.seed + job.object))));
  }
  unwrap(writer.finish());
}

} // namespace

int main(int argc, char **argv) {
  const Options o = parse(argc, argv);
  ArtifactPlan plan;
  const std::vector<Job> jobs =
      o.identity.empty() ? Planner(o, plan).run() : planIdentity(o.identity, plan);
  if (o.random)
    writeRandom(o, plan, jobs);
  else
    writeSparse(o.out, plan);
  return 0;
}
