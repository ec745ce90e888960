// Binding of an inventory to a directory; what is checked: models/Bind.h.
#include "models/Bind.h"

#include <algorithm>
#include <map>
#include <set>

namespace ninfer {

namespace {

constexpr size_t kMaxListed = 64; ///< faults listed in one message; the rest is counted

const char *const kDivisorRole = "activation_input_divisor";

} // namespace

bool isUnder(std::string_view name, std::string_view component) {
  return name.size() > component.size() && name.substr(0, component.size()) == component &&
         name[component.size()] == '/';
}

void FaultList::add(std::string text) {
  if (faults_.size() < kMaxListed)
    faults_.push_back(std::move(text));
  ++count_;
}

Status FaultList::status(ErrorKind kind, const char *code, const std::string &message) const {
  if (count_ == 0)
    return Status();
  Status status(makeError(kind, code, message));
  for (const std::string &fault : faults_)
    status.note(fault);
  if (count_ > faults_.size())
    status.note("and " + std::to_string(count_ - faults_.size()) + " more");
  return status;
}

namespace {

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
    return *object.format == p.directFormat
               ? ""
               : who + "must be " + std::string(canonicalName(p.directFormat)) + ", got " +
                     std::string(canonicalName(*object.format));
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

/// One parameter; fills nothing, returns the fault or an empty string.
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

/// The one FP32 element of an activation_input_divisor; returns the fault or an empty string.
std::string checkDivisor(const Binding &binding, const Directory &directory) {
  if (binding.parts.size() != 1 || binding.parts[0].end - binding.parts[0].begin != 1)
    return std::string(kDivisorRole) + " must be one element";
  const RangePart &part = binding.parts[0];
  if (part.object >= directory.objects.size())
    return std::string(kDivisorRole) + " binding range is invalid";
  const ObjectEntry &object = directory.objects[part.object];
  if (!object.isTensor || object.format != Format::FP32 || object.layout != layoutOf(Format::FP32))
    return std::string(kDivisorRole) + " must be FP32, object '" + object.id + "' is not";
  return "";
}

/// Policy and auxiliaries of one Use; returns the fault or an empty string.
std::string checkUse(const Use &use, const Directory &directory) {
  if (!use.policy)
    return " has no activation_policy";
  for (const auto &[role, binding] : use.auxiliaries) {
    if (role != kDivisorRole)
      return ": unknown auxiliary role '" + role + "'";
    if (std::string fault = checkDivisor(binding, directory); !fault.empty())
      return ": " + fault;
  }
  return "";
}

std::string useText(const std::string &parameter, const std::string &input) {
  return "use (" + parameter + ", " + input + ")";
}

} // namespace

Status bindParameters(const Directory &directory, std::string_view fileName,
                      std::string_view component, std::span<ParameterSpec> parameters) {
  FaultList faults;
  std::set<std::string_view> inventory;
  for (ParameterSpec &p : parameters) {
    inventory.insert(p.name);
    auto it = directory.bindings.find(p.name);
    if (it == directory.bindings.end()) {
      faults.add("missing: " + p.name + " " + shapeText(p.shape));
      continue;
    }
    if (std::string fault = checkBinding(p, it->second, directory); !fault.empty())
      faults.add(fault);
    p.binding = it->second;
  }
  for (const auto &[name, binding] : directory.bindings)
    if (isUnder(name, component) && !inventory.count(name))
      faults.add("extra: " + name + " is no parameter of this architecture");
  return faults.status(ErrorKind::BadFile, "NB0304",
                       std::string(fileName) + ": the parameters of component " +
                           std::string(component) + " do not match its config");
}

Status bindUses(const Directory &directory, std::string_view fileName, std::string_view component,
                std::string_view inputComponent, std::span<ParameterSpec> parameters) {
  FaultList faults;
  std::map<std::string_view, ParameterSpec *> inventory;
  std::set<std::string_view> used;
  for (ParameterSpec &p : parameters)
    inventory[p.name] = &p;
  for (const Use &use : directory.uses) {
    if (!isUnder(use.parameter, component))
      continue;
    std::string who = useText(use.parameter, use.input);
    auto it = inventory.find(use.parameter);
    if (it == inventory.end()) {
      faults.add(who + " names no parameter of this architecture");
      continue;
    }
    ParameterSpec &p = *it->second;
    if (!isUnder(use.input, inputComponent))
      continue; // consumed by another component, such as a draft head on the text output
    if (p.input.empty()) {
      faults.add(who + ": " + p.name + " takes no activation, so it has no use");
      continue;
    }
    if (use.input != p.input) {
      faults.add(who + ": expected input " + p.input);
      continue;
    }
    used.insert(p.name);
    if (std::string fault = checkUse(use, directory); !fault.empty()) {
      faults.add(who + fault);
      continue;
    }
    p.policy = *use.policy;
    if (auto divisor = use.auxiliaries.find(kDivisorRole); divisor != use.auxiliaries.end())
      p.activationInputDivisor = divisor->second.parts[0];
  }
  for (const ParameterSpec &p : parameters)
    if (!p.input.empty() && !used.count(p.name))
      faults.add("missing: " + useText(p.name, p.input) + " with an activation_policy");
  return faults.status(ErrorKind::BadFile, "NB0305",
                       std::string(fileName) + ": the uses of component " + std::string(component) +
                           " are not complete");
}

Result<const Use *> requireUse(const Directory &directory, std::string_view fileName,
                               const std::string &parameter, const std::string &input) {
  FaultList faults;
  const Use *found = nullptr;
  for (const Use &use : directory.uses)
    if (use.parameter == parameter && use.input == input)
      found = &use;
  if (!found)
    faults.add("missing: " + useText(parameter, input) + " with an activation_policy");
  else if (std::string fault = checkUse(*found, directory); !fault.empty())
    faults.add(useText(parameter, input) + fault);
  Status status =
      faults.status(ErrorKind::BadFile, "NB0305",
                    std::string(fileName) + ": the uses of " + parameter + " are not complete");
  if (!status.ok())
    return status;
  return found;
}

} // namespace ninfer
