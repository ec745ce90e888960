#include "convert/quantized/Import.h"

#include "convert/Checkpoint.h"
#include "models/Decoder.h"

#include <algorithm>

namespace ninfer {

namespace {
constexpr size_t kMaxListed = 32;
}

void Refusals::refuse(const std::string &tensor, const std::string &rule) {
  lines_.push_back(tensor + ": refused (" + rule + ")");
}

void Refusals::fault(const std::string &text) {
  lines_.push_back(text);
  fault_ = true;
}

void Refusals::help(const std::string &text) {
  if (std::find(help_.begin(), help_.end(), text) == help_.end())
    help_.push_back(text);
}

Status Refusals::status(const std::string &where) const {
  if (lines_.empty())
    return Status();
  Status status(fault_ ? makeError(ErrorKind::BadFile, "NB0325",
                                   where + ": the tensors do not match the quantization config")
                       : makeError(ErrorKind::Unsupported, "NB0324",
                                   where + ": " + std::to_string(lines_.size()) +
                                       " tensors have no exact registered form"));
  for (size_t i = 0; i < std::min(lines_.size(), kMaxListed); ++i)
    status.note(lines_[i]);
  if (lines_.size() > kMaxListed)
    status.note("and " + std::to_string(lines_.size() - kMaxListed) + " more");
  if (fault_)
    return status;
  for (const std::string &text : help_)
    status.help(text);
  return withRefusalHelp(std::move(status));
}

Status withRefusalHelp(Status status) {
  status.help("convert the original BF16 or F16 checkpoint with --recipe instead (docs/convert.md)");
  return status;
}

Status refuseConfig(const QuantConfig &config, const std::string &what, const std::string &rule) {
  return withRefusalHelp(makeError(ErrorKind::Unsupported, "NB0324",
                                   config.where + ": " + what + ": refused (" + rule + ")"));
}

std::vector<SourceModule> huggingFaceModules(const DecoderConfig &config) {
  std::vector<SourceModule> out;
  for (const ParameterSpec &p : decoderInventory(config)) {
    SourceModule module;
    module.name = huggingFaceName(p.name);
    constexpr std::string_view kSuffix = ".weight";
    module.name.resize(module.name.size() - kSuffix.size());
    module.shape = p.shape;
    module.tied = p.name == "text/output_head" && config.tieWordEmbeddings;
    if (p.direct)
      module.classes = {config.qkNorm ? "Qwen3RMSNorm" : "LlamaRMSNorm", "Module"};
    else if (p.name == "text/token_embedding")
      module.classes = {"Embedding", "Module"};
    else
      module.classes = {"Linear", "Module"};
    out.push_back(std::move(module));
  }
  return out;
}

ImportContext::ImportContext(const QuantConfig &config, const DecoderConfig &decoder,
                             const ImportOptions &options, SourceTensors &tensors,
                             std::vector<std::string> &notes)
    : config_(config), decoder_(decoder), options_(options), tensors_(tensors), notes_(notes),
      modules_(huggingFaceModules(decoder)) {
  for (size_t i = 0; i < tensors_.tensors.size(); ++i)
    index_.emplace(tensors_.tensors[i].name, i);
}

std::optional<PackedComponent> ImportContext::component(const std::string &name) const {
  auto it = index_.find(name);
  if (it == index_.end())
    return std::nullopt;
  PackedComponent out;
  out.tensor = tensors_.tensors[it->second];
  out.file = &tensors_.files[out.tensor.file];
  return out;
}

std::vector<std::string> ImportContext::names() const {
  std::vector<size_t> places;
  for (const auto &[name, place] : index_)
    places.push_back(place);
  std::sort(places.begin(), places.end());
  std::vector<std::string> out;
  for (size_t place : places)
    out.push_back(tensors_.tensors[place].name);
  return out;
}

void ImportContext::add(const std::string &name, std::shared_ptr<PackedWeight> weight) {
  SourceTensor tensor;
  tensor.name = name;
  tensor.shape = weight->shape();
  tensor.type = SourceType::Packed;
  tensor.typeName = weight->scheme();
  tensor.file = weight->components().front().tensor.file;
  size_t place = index_.at(weight->components().front().tensor.name);
  for (const PackedComponent &c : weight->components()) {
    tensor.bytes += c.tensor.bytes;
    index_.erase(c.tensor.name);
  }
  tensor.packed = std::move(weight);
  added_.emplace(place, std::move(tensor));
}

void ImportContext::drop(const std::string &name) { index_.erase(name); }

void ImportContext::finish() {
  std::vector<SourceTensor> out;
  for (size_t i = 0; i < tensors_.tensors.size(); ++i) {
    if (auto it = added_.find(i); it != added_.end())
      out.push_back(std::move(it->second));
    else if (index_.count(tensors_.tensors[i].name))
      out.push_back(std::move(tensors_.tensors[i]));
  }
  tensors_.tensors = std::move(out);
}

} // namespace ninfer
