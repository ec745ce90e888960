// Recognition of a decoder in the directory of an artifact: every parameter present, nothing extra,
// shapes, formats and row ranges right, every projection with its Use. All faults are listed at
// once.
#include "models/Decoder.h"

#include <algorithm>
#include <map>

namespace ninfer {

namespace {

constexpr size_t kMaxListed = 24; ///< faults listed in one message; the rest is counted

std::string shapeText(const std::vector<uint64_t> &shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? "," : "") + std::to_string(shape[i]);
  return out + "]";
}

uint64_t elementCount(const std::vector<uint64_t> &shape) {
  uint64_t n = 1;
  for (uint64_t d : shape)
    n *= d;
  return n;
}

/// Collects faults of one kind; turns into one error whose notes list them.
class FaultList {
public:
  void add(std::string text) {
    if (faults_.size() < kMaxListed)
      faults_.push_back(std::move(text));
    ++count_;
  }

  Status status(const char *code, const std::string &message) const {
    if (count_ == 0)
      return Status();
    Status status(makeError(ErrorKind::BadFile, code, message));
    for (const std::string &fault : faults_)
      status.note(fault);
    if (count_ > faults_.size())
      status.note("and " + std::to_string(count_ - faults_.size()) + " more");
    return status;
  }

private:
  std::vector<std::string> faults_;
  size_t count_ = 0;
};

bool isMatrixFormat(Format format) { return format != Format::I32; }

/// One bound range: registered, of one kind with its siblings, whole rows of an equally wide
/// matrix. Returns an empty string when nothing is wrong.
std::string checkPart(const ParameterSpec &p, const ObjectEntry &object, const RangePart &part) {
  std::string who = p.name + ": object '" + object.id + "' ";
  if (!object.isTensor)
    return who + "is not a tensor";
  if (!object.format)
    return who + "has the unregistered format '" + object.formatName + "'";
  if (!object.layout)
    return who + "has the unregistered layout '" + object.layoutName + "'";
  if (!isRegisteredPair(*object.format, *object.layout))
    return who + "pairs format '" + object.formatName + "' with layout '" + object.layoutName +
           "', which is not registered";
  if (p.direct)
    return *object.format == Format::BF16
               ? ""
               : who + "must be BF16, got " + std::string(canonicalName(*object.format));
  if (!isMatrixFormat(*object.format))
    return who + "has format " + std::string(canonicalName(*object.format)) +
           ", which no matrix may have";
  uint64_t columns = p.shape.back();
  if (object.shape.size() != 2 || object.shape.back() != columns)
    return who + "has shape " + shapeText(object.shape) + ", expected rows of " +
           std::to_string(columns) + " columns";
  if (part.begin % columns != 0 || part.end % columns != 0)
    return who + "range [" + std::to_string(part.begin) + "," + std::to_string(part.end) +
           ") is not whole rows of " + std::to_string(columns) + " columns";
  return "";
}

/// decoder_c8 for one parameter; fills nothing, returns the fault or an empty string.
std::string checkBinding(const ParameterSpec &p, const Binding &binding,
                         const Directory &directory) {
  uint64_t wanted = elementCount(p.shape);
  uint64_t total = 0;
  const ObjectEntry *first = nullptr;
  if (binding.parts.empty())
    return p.name + ": bound to no range";
  for (const RangePart &part : binding.parts) {
    if (part.object >= directory.objects.size() || part.end <= part.begin)
      return p.name + ": binding range is invalid";
    const ObjectEntry &object = directory.objects[part.object];
    uint64_t length = part.end - part.begin;
    if (length > wanted - total)
      return p.name + ": binds more than the " + std::to_string(wanted) + " elements of " +
             shapeText(p.shape);
    total += length;
    if (binding.whole && object.shape != p.shape)
      return p.name + ": expected shape " + shapeText(p.shape) + ", object '" + object.id +
             "' has " + shapeText(object.shape);
    if (std::string fault = checkPart(p, object, part); !fault.empty())
      return fault;
    if (!first)
      first = &object;
    else if (object.format != first->format || object.layout != first->layout)
      return p.name + ": parts differ in format or layout ('" + first->id + "' and '" + object.id +
             "')";
  }
  if (total != wanted)
    return p.name + ": binds " + std::to_string(total) + " elements, expected " +
           std::to_string(wanted) + " for " + shapeText(p.shape);
  return "";
}

bool isUnder(const std::string &name, std::string_view component) {
  return name.size() > component.size() && name.compare(0, component.size(), component) == 0 &&
         name[component.size()] == '/';
}

Status bindParameters(const Directory &directory, std::string_view fileName,
                      std::vector<ParameterSpec> &parameters) {
  FaultList faults;
  std::map<std::string, const ParameterSpec *> inventory;
  for (ParameterSpec &p : parameters) {
    inventory[p.name] = &p;
    auto it = directory.bindings.find(p.name);
    if (it == directory.bindings.end()) {
      faults.add("missing: " + p.name + " " + shapeText(p.shape));
      continue;
    }
    std::string fault = checkBinding(p, it->second, directory);
    if (!fault.empty())
      faults.add(fault);
    p.binding = it->second;
  }
  for (const auto &[name, binding] : directory.bindings)
    if (isUnder(name, "text") && !inventory.count(name))
      faults.add("extra: " + name + " is no parameter of this architecture");
  return faults.status("NB0304", std::string(fileName) +
                                     ": the parameters of component text do not match its config");
}

/// decoder_c9: exactly one Use per projection, at the input the architecture names, with a policy.
Status bindUses(const Directory &directory, std::string_view fileName,
                std::vector<ParameterSpec> &parameters) {
  FaultList faults;
  std::map<std::string, ParameterSpec *> inventory;
  std::map<std::string, bool> used;
  for (ParameterSpec &p : parameters)
    inventory[p.name] = &p;
  for (const Use &use : directory.uses) {
    if (!isUnder(use.parameter, "text"))
      continue;
    std::string who = "use (" + use.parameter + ", " + use.input + ")";
    auto it = inventory.find(use.parameter);
    if (it == inventory.end()) {
      faults.add(who + " names no parameter of this architecture");
      continue;
    }
    ParameterSpec &p = *it->second;
    if (!isUnder(use.input, "text"))
      continue; // consumed by another component, such as a draft head on the text output
    if (p.input.empty()) {
      faults.add(who + ": " + p.name + " takes no activation, so it has no use");
      continue;
    }
    if (use.input != p.input) {
      faults.add(who + ": expected input " + p.input);
      continue;
    }
    if (!use.policy) {
      faults.add(who + " has no activation_policy");
      continue;
    }
    for (const auto &[role, binding] : use.auxiliaries)
      if (role != "activation_input_divisor")
        faults.add(who + ": unknown auxiliary role '" + role + "'");
    p.policy = *use.policy;
    used[p.name] = true;
  }
  for (const ParameterSpec &p : parameters)
    if (!p.input.empty() && !used.count(p.name))
      faults.add("missing: use (" + p.name + ", " + p.input + ") with an activation_policy");
  return faults.status("NB0305",
                       std::string(fileName) + ": the uses of component text are not complete");
}

} // namespace

Result<ModelSpec> recogniseModel(const Directory &directory, std::string_view fileName) {
  auto text = directory.components.find("text");
  if (text == directory.components.end()) {
    Status status(makeError(ErrorKind::Unsupported, "NB0301",
                            std::string(fileName) + ": no text component with a config (framing " +
                                std::to_string(directory.framing) + ")"));
    status.note("supported: framing 3 artifacts of " + listSupportedArchitectures());
    return status;
  }
  ModelSpec spec;
  NINFER_ASSIGN_OR_RETURN(spec.config, parseDecoderConfig(text->second.config, fileName));
  spec.parameters = decoderInventory(spec.config);
  NINFER_RETURN_IF_ERROR(bindParameters(directory, fileName, spec.parameters));
  NINFER_RETURN_IF_ERROR(bindUses(directory, fileName, spec.parameters));
  return spec;
}

} // namespace ninfer
