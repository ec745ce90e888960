#include "tools/ninfer-inspect/ListArtifact.h"

#include "artifact/container/Reader.h"
#include "artifact/container/Signature.h"
#include "schema/TextTable.h"
#include "support/Progress.h"
#include "support/Sha256.h"

namespace ninfer {
namespace {

std::string shapeText(const std::vector<uint64_t> &shape) {
  std::string out;
  for (uint64_t size : shape)
    out += (out.empty() ? "" : "x") + std::to_string(size);
  return out.empty() ? "scalar" : out;
}

} // namespace

Result<std::string> listArtifact(const std::filesystem::path &path) {
  auto artifact = Artifact::open(path);
  if (!artifact.ok())
    return artifact.takeStatus();
  const Directory &directory = artifact->directory();
  std::string out = "artifact    " + path.string() + ": framing " +
                    std::to_string(directory.framing) + ", payload " +
                    formatBytes(artifact->payload().size()) + ", " +
                    std::to_string(directory.objects.size()) + " objects, " +
                    std::to_string(directory.bindings.size()) + " parameters\n";
  out += "signature   " + toHex(storageSignature(directory)) + "\n";
  for (const auto &[name, component] : directory.components) {
    out += "component   " + name;
    if (component.config.is_object() && component.config.contains("architectures"))
      out += " " + component.config["architectures"].dump();
    out += "\n";
    for (const auto &[role, object] : component.resources)
      out += "  resource  " + role + ": " + formatBytes(directory.objects[object].bytes) + "\n";
  }
  TextTable table("  ");
  table.row({"object", "shape", "format", "layout", "offset", "bytes"});
  for (const ObjectEntry &object : directory.objects)
    table.row({object.id, object.isTensor ? shapeText(object.shape) : "-",
               object.isTensor ? object.formatName : object.encoding,
               object.isTensor ? object.layoutName : "-", std::to_string(object.offset),
               std::to_string(object.bytes)});
  return out + table.render();
}

} // namespace ninfer
