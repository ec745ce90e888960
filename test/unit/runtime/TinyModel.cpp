#include "test/unit/runtime/TinyModel.h"

#include "artifact/container/Reader.h"
#include "artifact/container/Signature.h"
#include "artifact/container/Writer.h"
#include "artifact/layouts/Layout.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace ninfer::test {

namespace {

/// binary16 scale words and what they mean.
struct Scale {
  uint16_t word;
  double value;
};
constexpr Scale kScales[] = {{0x2000, 0.0078125}, {0x1c00, 0.00390625}, {0x2200, 0.01171875}, {0x1e00, 0.005859375}};

constexpr const char *kExtra = "extra";

std::string layer(uint32_t i, const std::string &rest) { return "text/layers/" + std::to_string(i) + "/" + rest; }

/// One token per byte, then <begin>, <end>, <user>, <bot>.
std::string tokenizerJson() {
  nlohmann::ordered_json vocab;
  // The byte-level alphabet of GPT-2: printable bytes stand for themselves, the others for U+0100 onwards.
  int next = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int point = printable ? byte : 256 + next++;
    std::string text;
    if (point < 0x80)
      text += char(point);
    else
      text = {char(0xc0 | (point >> 6)), char(0x80 | (point & 0x3f))};
    vocab[text] = byte;
  }
  nlohmann::ordered_json json;
  json["version"] = "1.0";
  json["added_tokens"] = nlohmann::ordered_json::array();
  int id = 256;
  for (const char *name : {"<begin>", "<end>", "<user>", "<bot>"})
    json["added_tokens"].push_back({{"id", id++},
                                    {"content", name},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  json["post_processor"] = nullptr;
  json["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  json["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::ordered_json::array()}};
  return json.dump();
}

const std::map<std::string, std::string> &resourceTexts() {
  static const std::map<std::string, std::string> texts = {
      {"tokenizer.json", tokenizerJson()},
      {"generation_config.json", R"({"eos_token_id": [257]})"},
      {"chat_template.jinja", "{% for m in messages %}<{{ 'user' if m.role == 'user' else 'bot' }}>{{ m.content }}"
                              "{% endfor %}{% if add_generation_prompt %}<bot>{% endif %}"}};
  return texts;
}

} // namespace

TinyModel::TinyModel(const TinyOptions &options) : options_(options), random_(options.seed) {
  addWeight("text/token_embedding", kVocab, kHidden, Format::BF16);
  for (uint32_t i = 0; i < options_.layers; ++i) {
    addWeight(layer(i, "input_norm"), 1, kHidden, Format::BF16);
    addWeight(layer(i, "attention/query"), kHeads * kDim, kHidden, Format::Q4G64_F16S);
    addWeight(layer(i, "attention/key"), kKvHeads * kDim, kHidden, Format::Q5G64_F16S);
    addWeight(layer(i, "attention/value"), kKvHeads * kDim, kHidden, Format::Q6G64_F16S);
    addWeight(layer(i, "attention/query_norm"), 1, kDim, Format::BF16);
    addWeight(layer(i, "attention/output"), kHidden, kHeads * kDim, Format::W8G32_F16S);
    addWeight(layer(i, "post_attention_norm"), 1, kHidden, Format::BF16);
    addWeight(layer(i, "mlp/gate"), kInner, kHidden, Format::Q4G64_F16S);
    addWeight(layer(i, "mlp/up"), kInner, kHidden, Format::Q4G64_F16S);
    addWeight(layer(i, "mlp/down"), kHidden, kInner, Format::Q6G64_F16S); // 96 is no multiple of 64
  }
  addWeight("text/final_norm", 1, kHidden, Format::BF16);
  addWeight("text/output_head", kVocab, kHidden, Format::W8G32_F16S);
}

void TinyModel::addWeight(const std::string &name, uint64_t n, uint64_t k, Format format) {
  const auto draw = [&] {
    random_ = random_ * 1664525u + 1013904223u;
    return random_ >> 8;
  };
  TinyWeight weight{n, k, format, std::vector<double>(n * k)};
  std::vector<uint64_t> shape = {n, k};
  if (n == 1)
    shape = {k};
  auto geometry = encodedGeometry(format, layoutOf(format), shape);
  ASSERT_TRUE(geometry.ok()) << geometry.error().message;
  std::vector<std::byte> object(geometry->totalBytes);
  Status status;
  if (format == Format::BF16) {
    std::vector<std::byte> words(n * k * 2);
    for (uint64_t i = 0; i < n * k; ++i) {
      // 8 bits of mantissa: exact in bfloat16. Norms lie around 1, the rest around 0.
      const float value = n == 1 ? 0.5f + float(draw() % 128) / 128.0f : float(int(draw() % 255) - 127) / 128.0f;
      uint32_t bits = 0;
      std::memcpy(&bits, &value, 4);
      EXPECT_EQ(bits & 0xffff, 0u);
      words[2 * i] = std::byte(bits >> 16 & 0xff);
      words[2 * i + 1] = std::byte(bits >> 24);
      weight.values[i] = value;
    }
    status = encodeRows(*geometry, 0, DirectRows{words}, object);
  } else {
    const int bits = format == Format::Q4G64_F16S ? 4 : format == Format::Q5G64_F16S ? 5 : format == Format::Q6G64_F16S ? 6 : 8;
    const uint64_t group = bits == 8 ? 32 : 64, groups = (k + group - 1) / group;
    const int low = bits == 8 ? -127 : -(1 << (bits - 1)), high = (1 << (bits - 1)) - 1;
    std::vector<int8_t> codes(n * k);
    std::vector<uint16_t> scales(n * groups);
    for (uint64_t r = 0; r < n; ++r)
      for (uint64_t i = 0; i < k; ++i) {
        const Scale &scale = kScales[(r + i / group) % 4];
        scales[r * groups + i / group] = scale.word;
        codes[r * k + i] = int8_t(low + int(draw() % uint32_t(high - low + 1)));
        weight.values[r * k + i] = scale.value * codes[r * k + i];
      }
    status = encodeRows(*geometry, 0, GroupedRows{codes, scales}, object);
  }
  ASSERT_TRUE(status.ok()) << status.error().message;
  order_.push_back(name);
  weights_[name] = std::move(weight);
  encoded_[name] = std::move(object);
}

void TinyModel::writeArtifact(const std::filesystem::path &path) {
  ArtifactPlan artifact;
  std::vector<std::span<const std::byte>> contents;
  for (const std::string &name : order_) {
    const TinyWeight &weight = weights_[name];
    std::vector<uint64_t> shape = {weight.n, weight.k};
    if (weight.n == 1)
      shape = {weight.k};
    auto object = artifact.addTensor(name, shape, weight.format);
    ASSERT_TRUE(object.ok()) << object.error().message;
    if (options_.framing == 3)
      artifact.bindWhole(name, *object);
    contents.push_back(encoded_[name]);
  }
  Component text;
  text.config = {{"architectures", {"LlamaForCausalLM"}}};
  if (options_.resources)
    for (const auto &[role, bytes] : resourceTexts()) {
      auto object = artifact.addResource((options_.framing == 3 ? "" : "frontend/") + role, bytes.size());
      ASSERT_TRUE(object.ok()) << object.error().message;
      text.resources[role] = *object;
      contents.push_back(std::as_bytes(std::span(bytes.data(), bytes.size())));
    }
  if (!options_.extraResource.empty()) {
    auto object = artifact.addResource(kExtra, options_.extraResource.size());
    ASSERT_TRUE(object.ok()) << object.error().message;
    text.resources[kExtra] = *object;
    contents.push_back(std::as_bytes(std::span(options_.extraResource.data(), options_.extraResource.size())));
  }
  WriterOptions writing;
  writing.framing = options_.framing;
  if (options_.framing == 3) {
    artifact.directory().components["text"] = std::move(text);
    artifact.directory().metadata["name"] = options_.publicName;
  } else {
    artifact.directory().identity = Identity{options_.publicName, "words"};
  }
  auto writer = ArtifactWriter::create(path, artifact, std::move(writing));
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  for (size_t i = 0; i < contents.size(); ++i) {
    Status status = writer->append(uint32_t(i), contents[i]);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  auto report = writer->finish();
  ASSERT_TRUE(report.ok()) << report.error().message;
  directory_ = artifact.directory();
  signature_.assign(report->storageSignature.begin(), report->storageSignature.end());
  auto opened = Artifact::open(path);
  ASSERT_TRUE(opened.ok());
  payloadBytes_ = opened->payloadBytes();
}

uint64_t TinyModel::extraResourceOffset() const { return directory_.findObject(kExtra)->offset; }

// --- plan --------------------------------------------------------------------------------------------------

namespace {

/// Assembles one target: kernels by name, an arena without reuse, launches.
class Assembler {
public:
  Assembler(plan::TargetT &target, const Directory &directory) : target_(target), directory_(directory) {}

  using Attribute = std::pair<std::string, std::variant<int64_t, double, std::string, std::vector<double>>>;

  plan::Ref arena(uint64_t bytes) {
    const plan::Ref ref(plan::Space::Arena, 0, target_.arena_bytes, bytes);
    target_.arena_bytes += (bytes + 63) / 64 * 64;
    return ref;
  }
  /// One ref per plane of the object bound to `name`.
  std::vector<plan::Ref> weight(const std::string &name) const {
    const ObjectEntry &object = *directory_.findObject(name);
    auto geometry = encodedGeometry(*object.format, *object.layout, object.shape);
    std::vector<plan::Ref> refs;
    for (const PlaneInfo &plane : geometry->planes)
      refs.emplace_back(plan::Space::Payload, 0, object.offset + plane.offset, plane.bytes);
    return refs;
  }
  uint32_t state(const std::string &name, const std::string &kind, uint64_t bytes) {
    for (uint32_t i = 0; i < target_.states.size(); ++i)
      if (target_.states[i]->name == name)
        return i;
    auto state = std::make_unique<plan::StateT>();
    state->name = name;
    state->kind = kind;
    state->bytes = bytes;
    state->align = 64;
    target_.states.push_back(std::move(state));
    return uint32_t(target_.states.size() - 1);
  }
  void launch(plan::PhaseT &phase, const std::string &symbol, const std::string &label,
              const std::vector<Attribute> &attributes, const std::vector<std::vector<plan::Ref>> &args) {
    auto launch = std::make_unique<plan::LaunchT>();
    for (const auto &refs : args)
      launch->args.insert(launch->args.end(), refs.begin(), refs.end());
    launch->label = label;
    launch->tiles_per_row = 1;
    // As the cost model does: weights once, and the whole cache where it is read.
    for (const plan::Ref &ref : launch->args)
      if (ref.space() == plan::Space::Payload || (ref.space() == plan::Space::State && symbol == "ref.attention"))
        launch->bytes_read_const += ref.bytes();
    launch->kernel = kernel(symbol, attributes, uint32_t(launch->args.size()));
    phase.launches.push_back(std::move(launch));
  }

private:
  uint32_t kernel(const std::string &symbol, const std::vector<Attribute> &attributes, uint32_t args) {
    auto kernel = std::make_unique<plan::KernelT>();
    kernel->kind = plan::KernelKind::Builtin;
    kernel->symbol = kernel->name = symbol;
    kernel->num_args = args;
    for (const auto &[name, value] : attributes) {
      auto attribute = std::make_unique<plan::AttributeT>();
      attribute->name = name;
      if (const auto *i = std::get_if<int64_t>(&value)) {
        attribute->type = plan::AttributeType::Int;
        attribute->i = *i;
        kernel->name += "_" + std::to_string(*i);
      } else if (const auto *f = std::get_if<double>(&value)) {
        attribute->type = plan::AttributeType::Float;
        attribute->f = *f;
      } else if (const auto *s = std::get_if<std::string>(&value)) {
        attribute->type = plan::AttributeType::String;
        attribute->s = *s;
        kernel->name += "_" + *s;
      } else {
        attribute->type = plan::AttributeType::Floats;
        attribute->floats = std::get<std::vector<double>>(value);
      }
      kernel->attributes.push_back(std::move(attribute));
    }
    for (uint32_t i = 0; i < target_.kernels.size(); ++i)
      if (target_.kernels[i]->name == kernel->name)
        return i;
    target_.kernels.push_back(std::move(kernel));
    return uint32_t(target_.kernels.size() - 1);
  }

  plan::TargetT &target_;
  const Directory &directory_;
};

} // namespace

plan::PlanT TinyModel::plan(const std::string &fileName) const {
  plan::PlanT plan;
  plan.artifact = std::make_unique<plan::ArtifactBindingT>();
  plan.artifact->framing = 3;
  plan.artifact->storage_signature = signature_;
  plan.artifact->file_name = fileName;
  plan.artifact->public_name = options_.publicName;
  plan.artifact->payload_bytes = payloadBytes_;
  plan.model = std::make_unique<plan::ModelInfoT>();
  plan.model->architecture = "LlamaForCausalLM";
  plan.model->vocab_size = kVocab;
  plan.model->max_context = options_.maxContext;
  plan.model->prefill_chunk = options_.chunk;
  plan.model->layers = options_.layers;
  for (const std::string &name : order_) {
    auto parameter = std::make_unique<plan::ParameterT>();
    parameter->name = name;
    parameter->shape = {weights_.at(name).n, weights_.at(name).k};
    parameter->format = canonicalName(weights_.at(name).format);
    parameter->layout = canonicalName(layoutOf(weights_.at(name).format));
    parameter->bytes = encoded_.at(name).size();
    plan.parameters.push_back(std::move(parameter));
  }
  auto target = std::make_unique<plan::TargetT>();
  target->name = target->executor = "reference";
  Assembler a(*target, directory_);
  const int64_t capacity = options_.maxContext, pairs = kDim / 2;

  auto setup = std::make_unique<plan::PhaseT>();
  setup->kind = plan::PhaseKind::Setup;
  setup->name = "setup";
  setup->min_rows = setup->max_rows = 1;
  std::vector<double> frequencies;
  for (int64_t i = 0; i < pairs; ++i)
    frequencies.push_back(std::pow(kTheta, -double(2 * i) / kDim));
  const uint64_t tableBytes = uint64_t(capacity * pairs * 8);
  const plan::Ref table(plan::Space::State, a.state("text/rope", "rope_table", tableBytes), 0, tableBytes);
  a.launch(*setup, "rope_table", "text/rope", {{"capacity", capacity}, {"pairs", pairs}, {"inv_freq", frequencies}},
           {{table}});
  target->phases.push_back(std::move(setup));

  for (bool prefill : {false, true}) {
    const int64_t rows = prefill ? options_.chunk : 1;
    auto phase = std::make_unique<plan::PhaseT>();
    phase->kind = prefill ? plan::PhaseKind::Prefill : plan::PhaseKind::Decode;
    phase->name = prefill ? "prefill" : "decode";
    phase->min_rows = 1;
    phase->max_rows = uint32_t(rows);
    const auto activation = [&](int64_t width) { return a.arena(uint64_t(rows * width * 4)); };
    const auto matrix = [&](const std::string &name) {
      const TinyWeight &w = weights_.at(name);
      return std::vector<Assembler::Attribute>{{"format", std::string(canonicalName(w.format))},
                                               {"layout", std::string(canonicalName(layoutOf(w.format)))},
                                               {"n", int64_t(w.n)},
                                               {"k", int64_t(w.k)}};
    };
    const auto linear = [&](const std::string &name, plan::Ref x) {
      const plan::Ref out = activation(int64_t(weights_.at(name).n));
      a.launch(*phase, "ref.linear", name, matrix(name), {{x}, a.weight(name), {out}});
      return out;
    };
    const auto rmsNorm = [&](const std::string &name, plan::Ref x) {
      const plan::Ref out = activation(kHidden);
      a.launch(*phase, "ref.rms_norm", name, {{"k", kHidden}, {"eps", kEps}}, {{x}, a.weight(name), {out}});
      return out;
    };
    const auto add = [&](const std::string &name, plan::Ref x, plan::Ref y) {
      const plan::Ref out = activation(kHidden);
      a.launch(*phase, "ref.add", name, {{"k", kHidden}}, {{x}, {y}, {out}});
      return out;
    };

    const plan::Ref tokens = a.arena(uint64_t(rows) * 4);
    plan::Ref x = activation(kHidden);
    a.launch(*phase, "ref.embedding", "text/token_embedding", matrix("text/token_embedding"),
             {{tokens}, a.weight("text/token_embedding"), {x}});
    for (uint32_t i = 0; i < options_.layers; ++i) {
      const plan::Ref normed = rmsNorm(layer(i, "input_norm"), x);
      plan::Ref q = linear(layer(i, "attention/query"), normed);
      plan::Ref k = linear(layer(i, "attention/key"), normed);
      const plan::Ref v = linear(layer(i, "attention/value"), normed);
      const plan::Ref qn = activation(kHeads * kDim);
      a.launch(*phase, "ref.head_norm", layer(i, "attention/query_norm"),
               {{"heads", kHeads}, {"dim", kDim}, {"eps", kEps}}, {{q}, a.weight(layer(i, "attention/query_norm")), {qn}});
      const auto rope = [&](plan::Ref in, int64_t heads) {
        const plan::Ref out = activation(heads * kDim);
        a.launch(*phase, "ref.rope", layer(i, "attention"), {{"heads", heads}, {"dim", kDim}, {"capacity", capacity}},
                 {{in}, {table}, {out}});
        return out;
      };
      q = rope(qn, kHeads);
      k = rope(k, kKvHeads);
      const uint64_t half = uint64_t(kKvHeads * capacity * kDim) * (options_.codec == "f32" ? 4 : 2);
      const uint32_t state = a.state(layer(i, "attention/kv"), "kv_cache", 2 * half);
      const plan::Ref keys(plan::Space::State, state, 0, half), values(plan::Space::State, state, half, half);
      a.launch(*phase, "ref.kv_append", layer(i, "attention"),
               {{"kv_heads", kKvHeads}, {"dim", kDim}, {"capacity", capacity}, {"codec", options_.codec}},
               {{k}, {v}, {keys}, {values}});
      const plan::Ref mixed = activation(kHeads * kDim);
      a.launch(*phase, "ref.attention", layer(i, "attention"),
               {{"heads", kHeads},
                {"kv_heads", kKvHeads},
                {"dim", kDim},
                {"capacity", capacity},
                {"codec", options_.codec},
                {"scale", 1.0 / std::sqrt(double(kDim))}},
               {{q}, {keys}, {values}, {mixed}});
      x = add(layer(i, "attention/add"), x, linear(layer(i, "attention/output"), mixed));
      const plan::Ref normed2 = rmsNorm(layer(i, "post_attention_norm"), x);
      const plan::Ref gate = linear(layer(i, "mlp/gate"), normed2), up = linear(layer(i, "mlp/up"), normed2);
      const plan::Ref product = activation(kInner);
      a.launch(*phase, "ref.swiglu", layer(i, "mlp"), {{"k", kInner}}, {{gate}, {up}, {product}});
      x = add(layer(i, "mlp/add"), x, linear(layer(i, "mlp/down"), product));
    }
    const plan::Ref last = a.arena(kHidden * 4), normed = a.arena(kHidden * 4), logits = a.arena(kVocab * 4);
    a.launch(*phase, "ref.last_row", "text/last_row", {{"k", kHidden}}, {{x}, {last}});
    // What follows works on one row, whatever the rows of the call.
    std::vector<Assembler::Attribute> head = matrix("text/output_head");
    head.push_back({"rows", int64_t(1)});
    phase->tokens = std::make_unique<plan::Ref>(tokens);
    phase->logits = std::make_unique<plan::Ref>(logits);
    a.launch(*phase, "ref.rms_norm", "text/final_norm", {{"k", kHidden}, {"eps", kEps}, {"rows", int64_t(1)}},
             {{last}, a.weight("text/final_norm"), {normed}});
    a.launch(*phase, "ref.linear", "text/output_head", head,
             {{normed}, a.weight("text/output_head"), {logits}});
    target->phases.push_back(std::move(phase));
  }
  plan.targets.push_back(std::move(target));
  return plan;
}

// --- oracle ------------------------------------------------------------------------------------------------

std::vector<double> TinyModel::multiply(const std::string &name, const std::vector<double> &x) const {
  const TinyWeight &w = weights_.at(name);
  std::vector<double> y(w.n, 0.0);
  for (uint64_t r = 0; r < w.n; ++r)
    for (uint64_t i = 0; i < w.k; ++i)
      y[r] += w.values[r * w.k + i] * x[i];
  return y;
}

std::vector<double> TinyModel::norm(const std::string &name, const std::vector<double> &x) const {
  const std::vector<double> &w = weights_.at(name).values;
  std::vector<double> y(x.size());
  for (size_t begin = 0; begin < x.size(); begin += w.size()) { // one norm per head when w is shorter than x
    double squares = 0;
    for (size_t i = 0; i < w.size(); ++i)
      squares += x[begin + i] * x[begin + i];
    for (size_t i = 0; i < w.size(); ++i)
      y[begin + i] = x[begin + i] / std::sqrt(squares / double(w.size()) + kEps) * w[i];
  }
  return y;
}

std::vector<double> TinyModel::logits(const std::vector<int32_t> &tokens) const {
  const auto rotate = [](std::vector<double> &x, size_t position) {
    for (size_t head = 0; head < x.size(); head += kDim)
      for (int64_t i = 0; i < kDim / 2; ++i) {
        const double angle = double(position) / std::pow(kTheta, 2.0 * double(i) / kDim);
        double &a = x[head + size_t(i)], &b = x[head + size_t(i + kDim / 2)];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
  };
  std::vector<std::vector<std::vector<double>>> keys(options_.layers), values(options_.layers);
  std::vector<double> x;
  for (size_t position = 0; position < tokens.size(); ++position) {
    const auto &table = weights_.at("text/token_embedding").values;
    x.assign(table.begin() + tokens[position] * kHidden, table.begin() + (tokens[position] + 1) * kHidden);
    for (uint32_t l = 0; l < options_.layers; ++l) {
      const std::vector<double> h = norm(layer(l, "input_norm"), x);
      std::vector<double> q = norm(layer(l, "attention/query_norm"), multiply(layer(l, "attention/query"), h));
      std::vector<double> k = multiply(layer(l, "attention/key"), h);
      rotate(q, position);
      rotate(k, position);
      keys[l].push_back(k);
      values[l].push_back(multiply(layer(l, "attention/value"), h));
      std::vector<double> mixed(size_t(kHeads * kDim), 0.0);
      for (int64_t head = 0; head < kHeads; ++head) {
        const size_t at = size_t(head * kDim), kv = size_t(head / (kHeads / kKvHeads) * kDim);
        std::vector<double> scores;
        double total = 0;
        for (const auto &key : keys[l]) {
          double dot = 0;
          for (size_t i = 0; i < size_t(kDim); ++i)
            dot += q[at + i] * key[kv + i];
          scores.push_back(std::exp(dot / std::sqrt(double(kDim))));
          total += scores.back();
        }
        for (size_t p = 0; p < scores.size(); ++p)
          for (size_t i = 0; i < size_t(kDim); ++i)
            mixed[at + i] += scores[p] / total * values[l][p][kv + i];
      }
      const std::vector<double> attended = multiply(layer(l, "attention/output"), mixed);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] += attended[i];
      const std::vector<double> h2 = norm(layer(l, "post_attention_norm"), x);
      std::vector<double> gate = multiply(layer(l, "mlp/gate"), h2);
      const std::vector<double> up = multiply(layer(l, "mlp/up"), h2);
      for (size_t i = 0; i < gate.size(); ++i)
        gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      const std::vector<double> fed = multiply(layer(l, "mlp/down"), gate);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] += fed[i];
    }
  }
  return multiply("text/output_head", norm("text/final_norm", x));
}

// --- files -------------------------------------------------------------------------------------------------

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "ninfer-test-XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void writeBytes(const std::filesystem::path &path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(bytes.data()), std::streamsize(bytes.size()));
  ASSERT_TRUE(file.good());
}

std::vector<std::byte> buildBytes(const plan::PlanT &plan, const std::vector<PlanBlob> &blobs) {
  auto bytes = buildPlan(plan, blobs);
  EXPECT_TRUE(bytes.ok()) << (bytes.ok() ? "" : bytes.error().render());
  return bytes.ok() ? bytes.take() : std::vector<std::byte>();
}

void addOutputs(plan::PlanT &plan) {
  for (const auto &phase : plan.targets[0]->phases) {
    if (!phase->tokens)
      continue;
    const auto add = [&](const char *name, plan::ElementType element, uint32_t width, const plan::Ref &ref) {
      auto port = std::make_unique<plan::PortT>();
      port->name = name;
      port->element = element;
      port->width = width;
      port->ref = std::make_unique<plan::Ref>(ref);
      phase->outputs.push_back(std::move(port));
    };
    add("ids", plan::ElementType::I32, 1, *phase->tokens);
    add("embedding", plan::ElementType::F32, TinyModel::kHidden, phase->launches.front()->args.back());
    add("head", plan::ElementType::F32, TinyModel::kHidden, phase->launches.back()->args.front());
  }
}

std::filesystem::path writeTiny(const TemporaryFolder &folder, TinyModel &model) {
  model.writeArtifact(folder / "tiny.ninfer");
  writeBytes(folder / "tiny.plan", buildBytes(model.plan("tiny.ninfer")));
  return folder / "tiny.plan";
}

} // namespace ninfer::test
