// Which package reads an artifact, and what every package's result can be asked.
#include "models/Decoder.h"
#include "models/Hybrid.h"
#include "models/Identity.h"

#include <algorithm>

namespace ninfer {

namespace {

template <typename F>
auto ask(const ModelSpec &spec, F member) {
  return std::visit(member, spec.config);
}

/// The single architecture the text component names, or an empty string when it names none; the
/// package that reads the config reports what is wrong.
std::string architectureOf(const nlohmann::ordered_json &config) {
  auto it = config.is_object() ? config.find("architectures") : config.end();
  if (it == config.end() || !it->is_array() || it->size() != 1 || !it->front().is_string())
    return "";
  return it->front().get<std::string>();
}

bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

} // namespace

const std::string &ModelSpec::architecture() const {
  return std::visit([](const auto &c) -> const std::string & { return c.architecture; }, config);
}
int64_t ModelSpec::hiddenSize() const {
  return ask(*this, [](const auto &c) { return c.hiddenSize; });
}
int64_t ModelSpec::vocabSize() const {
  return ask(*this, [](const auto &c) { return c.vocabSize; });
}
int64_t ModelSpec::numLayers() const {
  return ask(*this, [](const auto &c) { return c.numLayers; });
}
int64_t ModelSpec::maxPositions() const {
  return ask(*this, [](const auto &c) { return c.maxPositions; });
}

const ParameterSpec *ModelSpec::find(std::string_view name) const {
  for (const ParameterSpec &p : parameters)
    if (p.name == name)
      return &p;
  return nullptr;
}

std::string listModelArchitectures() {
  std::string out = listSupportedArchitectures();
  for (const std::string &name : hybridArchitectures())
    out += ", " + name;
  return out;
}

Result<ModelSpec> recogniseModel(const Directory &directory, std::string_view fileName,
                                 const RecogniseOptions &options) {
  if (directory.identity)
    return recogniseIdentity(directory, fileName, options);
  const auto text = directory.components.find("text");
  if (text == directory.components.end()) {
    Status status(makeError(ErrorKind::Unsupported, "NB0301",
                            std::string(fileName) + ": no text component with a config (framing " +
                                std::to_string(directory.framing) + ")"));
    status.note("supported: framing 3 artifacts of " + listModelArchitectures());
    return status;
  }
  const std::string architecture = architectureOf(text->second.config);
  const bool hybrid = contains(hybridArchitectures(), architecture);
  if (!hybrid && !contains(supportedArchitectures(), architecture) && !architecture.empty()) {
    Status status(makeError(ErrorKind::Unsupported, "NB0302",
                            std::string(fileName) +
                                ": components.text.config: unsupported architecture '" +
                                architecture + "'"));
    status.note("supported architectures: " + listModelArchitectures());
    return status;
  }
  Result<ModelSpec> spec = hybrid ? recogniseHybrid(directory, fileName, options)
                                  : recogniseDecoder(directory, fileName, options);
  if (spec.ok())
    spec->resources = text->second.resources;
  return spec;
}

} // namespace ninfer
