#include "artifact/container/Signature.h"

#include "support/Json.h"
#include "support/Sha256.h"

#include <algorithm>

namespace ninfer {

namespace {

constexpr int kVersion = 1;

std::string quoted(const std::string &text) {
  // Names are plain as a rule: nothing to escape.
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; }))
    return '"' + text + '"';
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// Sorted members at every depth, compact, ASCII.
std::string sortedDump(const Json &value) {
  return nlohmann::json(value).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string bindingText(const Directory &directory, const Binding &binding) {
  std::string out = binding.whole ? "whole" : "parts";
  for (const RangePart &part : binding.parts)
    out += " " + quoted(directory.objects[part.object].id) + " " + std::to_string(part.begin) +
           " " + std::to_string(part.end);
  return out;
}

} // namespace

std::string storageSignatureText(const Directory &directory) {
  std::string out = "ninfer-storage-signature " + std::to_string(kVersion) + "\n";
  out += "framing " + std::to_string(directory.framing) + "\n";
  for (const ObjectEntry &object : directory.objects) {
    out += "object " + quoted(object.id);
    if (object.isTensor) {
      out += " tensor [";
      for (size_t i = 0; i < object.shape.size(); ++i)
        out += (i ? "," : "") + std::to_string(object.shape[i]);
      out += "] " + quoted(object.formatName) + " " + quoted(object.layoutName);
    } else {
      out += " resource " + quoted(object.encoding);
    }
    out += " " + std::to_string(object.offset) + " " + std::to_string(object.bytes) + "\n";
  }
  for (const auto &[name, binding] : directory.bindings)
    out += "binding " + quoted(name) + " " + bindingText(directory, binding) + "\n";
  std::vector<std::string> uses;
  for (const Use &use : directory.uses) {
    std::string line = "use " + quoted(use.parameter) + " " + quoted(use.input) + " " +
                       (use.policy ? std::string(canonicalName(*use.policy)) : "-");
    for (const auto &[role, binding] : use.auxiliaries)
      line += " auxiliary " + quoted(role) + " " + bindingText(directory, binding);
    uses.push_back(line + "\n");
  }
  std::sort(uses.begin(), uses.end());
  for (const std::string &line : uses)
    out += line;
  for (const auto &[name, component] : directory.components) {
    out += "component " + quoted(name) + " target " +
           (component.target ? quoted(*component.target) : "-");
    if (component.proposal)
      out += component.proposal->indexed
                 ? " proposal indexed " + std::to_string(component.proposal->rows)
                 : " proposal full";
    for (const auto &[role, object] : component.resources)
      out += " resource " + quoted(role) + " " + quoted(directory.objects[object].id);
    out += " config " + sortedDump(component.config) + "\n";
  }
  return out;
}

std::array<uint8_t, 32> storageSignature(const Directory &directory) {
  return sha256(storageSignatureText(directory));
}

} // namespace ninfer
