// Recognition of a framing 1 or 2 artifact: its objects are exactly the inventory of its identity;
// logical parameters are bound to rows of the stored tensors.
#include "models/Bind.h"
#include "models/Hybrid.h"
#include "models/Identity.h"
#include "models/Vision.h"

#include <map>

namespace ninfer {

namespace {

std::string identityText(const Identity &identity) {
  return "'" + identity.modelId + "'" +
         (identity.weightsId.empty() ? "" : " / '" + identity.weightsId + "'");
}

Status unknownIdentity(const Directory &directory, const std::string &fileName) {
  Status status(makeError(ErrorKind::Unsupported, "NB0306",
                          fileName + ": unknown model identity " +
                              identityText(*directory.identity) + " (framing " +
                              std::to_string(directory.framing) + ")"));
  std::string known;
  for (const Identity &identity : knownIdentities())
    known += (known.empty() ? "" : ", ") + identityText(identity);
  status.note("known identities: " + known);
  return status;
}

/// One element may be written as a scalar or as a vector.
bool shapesAgree(const StoredTensor &wanted, const ObjectEntry &object) {
  if (wanted.shape.empty())
    return object.shape.empty() || object.shape == std::vector<uint64_t>{1};
  return object.shape == wanted.shape;
}

class Recogniser {
public:
  Recogniser(const Directory &directory, std::string fileName, StoredModel model)
      : directory_(directory), fileName_(std::move(fileName)), model_(std::move(model)) {
    for (size_t i = 0; i < directory.objects.size(); ++i)
      objects_.emplace(directory.objects[i].id, static_cast<uint32_t>(i));
  }

  Result<ModelSpec> run(const RecogniseOptions &options) {
    NINFER_RETURN_IF_ERROR(checkObjects());
    for (const StoredTensor &tensor : model_.tensors)
      bind(tensor);
    ModelSpec spec;
    spec.config = model_.config;
    take(hybridInventory(model_.config), spec);
    if (options.mtp) {
      take(mtpInventory(model_.config), spec);
      take(proposalInventory(model_.config, {true, model_.proposalRows}), spec);
      const ParameterSpec *head = spec.find("proposal/head");
      spec.mtp = MtpSpec{head->name, true, model_.proposalRows, head->policy};
    }
    if (options.vision) {
      spec.vision = model_.vision;
      take(visionInventory(model_.vision, model_.config.hiddenSize), spec);
    }
    for (const std::string &id : model_.resources)
      spec.resources[id.substr(id.find('/') + 1)] = objects_.at(id);
    noteUnread(options, spec);
    return spec;
  }

private:
  bool isCompanion(const std::string &id) const {
    return !model_.companion.empty() && isUnder(id, model_.companion);
  }

  /// hybrid_c15
  Status checkObjects() {
    FaultList faults;
    std::map<std::string_view, bool> wanted;
    for (const StoredTensor &tensor : model_.tensors) {
      wanted[tensor.name] = true;
      if (std::string fault = checkTensor(tensor); !fault.empty())
        faults.add(fault);
    }
    for (const std::string &id : model_.resources) {
      wanted[id] = true;
      auto it = objects_.find(id);
      if (it == objects_.end())
        faults.add("missing: resource " + id);
      else if (directory_.objects[it->second].isTensor)
        faults.add(id + ": expected a resource, got a tensor");
    }
    for (const ObjectEntry &object : directory_.objects) {
      if (isCompanion(object.id))
        ++companionObjects_;
      else if (!wanted.count(object.id))
        faults.add("extra: " + object.id);
    }
    if (companionObjects_ != 0 && companionObjects_ != model_.companionTensors)
      faults.add("component " + model_.companion + ": expected " +
                 std::to_string(model_.companionTensors) + " objects or none, got " +
                 std::to_string(companionObjects_));
    return faults.status(ErrorKind::BadFile, "NB0307",
                         fileName_ + ": the objects are not those of " +
                             identityText({model_.modelId, model_.weightsId}));
  }

  std::string checkTensor(const StoredTensor &tensor) const {
    auto it = objects_.find(tensor.name);
    const std::string format(canonicalName(tensor.format));
    if (it == objects_.end())
      return "missing: " + tensor.name + " " + shapeText(tensor.shape) + " " + format;
    const ObjectEntry &object = directory_.objects[it->second];
    if (!object.isTensor)
      return tensor.name + ": expected a tensor, got a resource";
    if (!shapesAgree(tensor, object))
      return tensor.name + ": expected shape " + shapeText(tensor.shape) + ", got " +
             shapeText(object.shape);
    if (!object.format || !object.layout || !isRegisteredPair(*object.format, *object.layout))
      return tensor.name + ": format '" + object.formatName + "' with layout '" +
             object.layoutName + "' is not registered";
    const bool legal =
        tensor.anyFormat ? *object.format != Format::I32 : *object.format == tensor.format;
    if (!legal)
      return tensor.name + ": expected format " + (tensor.anyFormat ? "of a matrix" : format) +
             ", got " + std::string(canonicalName(*object.format));
    return "";
  }

  /// Remembers where the tensor's parameters lie, and their policy.
  void bind(const StoredTensor &tensor) {
    const uint32_t index = objects_.at(tensor.name);
    const ObjectEntry &object = directory_.objects[index];
    if (!tensor.divisorOf.empty()) {
      divisors_[tensor.divisorOf] = RangePart{index, 0, 1};
      return;
    }
    const uint64_t rowElements =
        tensor.shape.empty() ? 1 : elementCount(tensor.shape) / tensor.shape[0];
    ActivationPolicy policy = ActivationPolicy::A16Only;
    if (model_.narrowActivations && object.format == Format::NVFP4)
      policy = ActivationPolicy::AllowA4;
    else if (model_.narrowActivations && object.format == Format::FP8_E4M3FN_ROW_BF16S)
      policy = ActivationPolicy::AllowA8;
    for (const StoredRows &rows : tensor.parameters) {
      Bound &bound = bound_[rows.parameter];
      bound.binding.whole = tensor.parameters.size() == 1;
      bound.binding.parts = {
          RangePart{index, rows.first * rowElements, (rows.first + rows.rows) * rowElements}};
      bound.policy = policy;
      bound.tensor = tensor.name;
    }
  }

  void take(std::vector<ParameterSpec> parameters, ModelSpec &spec) const {
    for (ParameterSpec &p : parameters) {
      const Bound &bound = bound_.at(p.name);
      p.binding = bound.binding;
      if (!p.input.empty()) {
        p.policy = bound.policy;
        if (auto divisor = divisors_.find(bound.tensor); divisor != divisors_.end())
          p.activationInputDivisor = divisor->second;
      }
      spec.parameters.push_back(std::move(p));
    }
  }

  void noteUnread(const RecogniseOptions &options, ModelSpec &spec) const {
    auto note = [&](const std::string &what, uint64_t count) {
      spec.notes.push_back(what + " is not selected; " + std::to_string(count) +
                           " objects left unread");
    };
    auto count = [&](std::string_view component) {
      uint64_t n = 0;
      for (const StoredTensor &tensor : model_.tensors)
        n += isUnder(tensor.name, component);
      return n;
    };
    if (companionObjects_)
      note("component " + model_.companion, companionObjects_);
    if (!options.mtp) {
      note("component mtp", count("mtp"));
      note("the proposal head", 2);
    }
    if (!options.vision)
      note("component vision", count("vision"));
  }

  struct Bound {
    Binding binding;
    ActivationPolicy policy = ActivationPolicy::A16Only;
    std::string tensor;
  };

  const Directory &directory_;
  std::string fileName_;
  StoredModel model_;
  std::map<std::string, uint32_t> objects_;
  std::map<std::string, Bound> bound_;
  std::map<std::string, RangePart> divisors_; ///< by the tensor whose activation they divide
  uint64_t companionObjects_ = 0;
};

} // namespace

Result<ModelSpec> recogniseIdentity(const Directory &directory, std::string_view fileName,
                                    const RecogniseOptions &options) {
  std::optional<StoredModel> model = storedModel(*directory.identity);
  if (!model)
    return unknownIdentity(directory, std::string(fileName));
  return Recogniser(directory, std::string(fileName), std::move(*model)).run(options);
}

} // namespace ninfer
