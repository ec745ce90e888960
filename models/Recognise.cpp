// Which package reads an artifact, and what every package's result can be asked.
#include "models/Bind.h"
#include "models/Decoder.h"

namespace ninfer {

namespace {

template <typename F>
auto ask(const ModelSpec &spec, F member) {
  return std::visit(member, spec.config);
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

std::string listModelArchitectures() { return listSupportedArchitectures(); }

Result<ModelSpec> recogniseModel(const Directory &directory, std::string_view fileName,
                                 const RecogniseOptions &options) {
  auto text = directory.components.find("text");
  if (text == directory.components.end()) {
    Status status(makeError(ErrorKind::Unsupported, "NB0301",
                            std::string(fileName) + ": no text component with a config (framing " +
                                std::to_string(directory.framing) + ")"));
    status.note("supported: framing 3 artifacts of " + listModelArchitectures());
    return status;
  }
  NINFER_ASSIGN_OR_RETURN(ModelSpec spec, recogniseDecoder(directory, fileName));
  spec.resources = text->second.resources;
  (void)options;
  return spec;
}

} // namespace ninfer
