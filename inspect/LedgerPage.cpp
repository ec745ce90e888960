#include "inspect/LedgerPage.h"

#include "inspect/Names.h"
#include "schema/TextTable.h"

#include <set>

namespace ninfer {

namespace {

constexpr uint64_t kPartHeaderBytes = 4096;

constexpr const char *kQuantizedRule =
    "tensors in all formats but BF16, FP32 and I32: codes, scales, divisors, padding lanes and "
    "bytes between planes, over their logical elements";
constexpr const char *kTensorsRule =
    "all tensors, norms and embeddings included, over their logical elements";
constexpr const char *kArtifactRule =
    "all bytes of all files, resources and directory included, over the logical elements of all "
    "tensors";
constexpr const char *kCountingRule =
    "an element is counted once, however many parameters are bound to it; an object's role is that "
    "of the parameters bound to it, numbers in names read as *";

/// The rest of `bytes` bits of padding are inside bytes that also hold codes; those count as codes.
uint64_t paddingOf(const EncodedGeometry &geometry) {
  uint64_t used = 0;
  for (const PlaneInfo &plane : geometry.planes)
    used += plane.bytes;
  uint64_t padding = geometry.totalBytes - used;
  const uint64_t lanes = geometry.paddedK - geometry.k;
  padding += geometry.rows * (lanes * formatInfo(geometry.format).bits / 8);
  if (geometry.layout == Layout::RowSplitK128V1)
    padding += geometry.rows * 2 * (geometry.groupsPerRow - geometry.logicalGroupsPerRow());
  return padding;
}

uint64_t scalesOf(const EncodedGeometry &geometry) {
  switch (geometry.layout) {
  case Layout::ContiguousLeV1:
    break;
  case Layout::RowSplitK128V1:
    return geometry.rows * 2 * geometry.logicalGroupsPerRow();
  case Layout::BlockScaleK16M128x4V1:
    return geometry.planes[1].bytes + geometry.planes[2].bytes;
  case Layout::RowScaleV1:
    return geometry.planes[1].bytes;
  }
  return 0;
}

/// Roles of the parameters bound to each object, joined by " + ".
std::vector<std::string> rolesOf(const Directory &directory) {
  std::vector<std::set<std::string>> names(directory.objects.size());
  for (const auto &[name, binding] : directory.bindings)
    for (const RangePart &part : binding.parts)
      names[part.object].insert(roleOf(name));
  // An object that only serves an operator beside its parameter, such as activation divisors.
  for (const Use &use : directory.uses)
    for (const auto &[role, binding] : use.auxiliaries)
      for (const RangePart &part : binding.parts)
        if (names[part.object].empty())
          names[part.object].insert("auxiliary " + role);
  std::vector<std::string> out(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    for (const std::string &name : names[i])
      out[i] += (out[i].empty() ? "" : " + ") + name;
    if (names[i].empty()) // framings 1 and 2 bind nothing: the object's own name tells
      out[i] = directory.framing == 3 ? "not bound" : roleOf(directory.objects[i].id);
  }
  return out;
}

Json lineJson(const ArtifactLedger::Line &line) {
  return {{"objects", line.objects},
          {"elements", line.elements},
          {"code_bytes", line.codeBytes},
          {"scale_bytes", line.scaleBytes},
          {"padding_bytes", line.paddingBytes},
          {"bytes", line.bytes()},
          {"bits_per_weight", line.bitsPerWeight()}};
}

void addRows(TextTable &table, const std::string &heading,
             const std::map<std::string, ArtifactLedger::Line> &lines) {
  table.row({heading, "objects", "elements", "codes", "scales", "padding", "bytes", "bits/weight"});
  for (const auto &[name, line] : lines)
    table.row({name, std::to_string(line.objects), std::to_string(line.elements),
               std::to_string(line.codeBytes), std::to_string(line.scaleBytes),
               std::to_string(line.paddingBytes), std::to_string(line.bytes()),
               fixedText(line.bitsPerWeight(), 3)});
}

double artifactBits(const ArtifactLedger &ledger) {
  return ledger.tensors.elements ? 8.0 * double(ledger.fileBytes) / double(ledger.tensors.elements)
                                 : 0;
}

} // namespace

void ArtifactLedger::Line::add(const Line &other) {
  objects += other.objects;
  elements += other.elements;
  codeBytes += other.codeBytes;
  scaleBytes += other.scaleBytes;
  paddingBytes += other.paddingBytes;
}

Result<ArtifactLedger> artifactLedger(const Artifact &artifact) {
  const Directory &directory = artifact.directory();
  const std::vector<std::string> roles = rolesOf(directory);
  ArtifactLedger ledger;
  uint64_t owned = 0;
  for (size_t i = 0; i < directory.objects.size(); ++i) {
    const ObjectEntry &object = directory.objects[i];
    owned += object.bytes;
    if (!object.isTensor) {
      ++ledger.resources;
      ledger.resourceBytes += object.bytes;
      continue;
    }
    if (!object.format || !object.layout) {
      ledger.unknownBytes += object.bytes;
      continue;
    }
    NINFER_ASSIGN_OR_RETURN(const EncodedGeometry geometry, artifact.geometry(i));
    ArtifactLedger::Line line;
    line.objects = 1;
    line.elements = geometry.rows * geometry.k;
    line.scaleBytes = scalesOf(geometry);
    line.paddingBytes = paddingOf(geometry);
    line.codeBytes = geometry.totalBytes - line.scaleBytes - line.paddingBytes;
    ledger.formats[formatText(object)].add(line);
    ledger.roles[roles[i]].add(line);
    ledger.tensors.add(line);
    if (formatInfo(*object.format).category != FormatCategory::Direct)
      ledger.quantized.add(line);
  }
  ledger.files = directory.files.size();
  ledger.gapBytes = artifact.payloadBytes() - owned;
  ledger.directoryBytes = artifact.directoryText().size();
  ledger.fileBytes =
      artifact.payloadOffset() + artifact.payloadBytes() + (ledger.files - 1) * kPartHeaderBytes;
  ledger.framingBytes = ledger.fileBytes - artifact.payloadBytes() - ledger.directoryBytes;
  return ledger;
}

std::string ledgerText(const Artifact &artifact, const ArtifactLedger &ledger) {
  std::string out = "artifact    " + artifact.path().string() + ": " +
                    std::to_string(ledger.fileBytes) + " bytes (" + binaryBytes(ledger.fileBytes) +
                    ") in " + std::to_string(ledger.files) +
                    (ledger.files == 1 ? " file\n" : " files\n");
  TextTable formats, roles, places;
  addRows(formats, "format", ledger.formats);
  addRows(roles, "role", ledger.roles);
  places.row({"place", "bytes"});
  places.row({"tensors", std::to_string(ledger.tensors.bytes())});
  if (ledger.unknownBytes)
    places.row({"tensors of unknown format", std::to_string(ledger.unknownBytes)});
  places.row({"resources (" + std::to_string(ledger.resources) + ")",
              std::to_string(ledger.resourceBytes)});
  places.row({"gaps between objects", std::to_string(ledger.gapBytes)});
  places.row({"directory", std::to_string(ledger.directoryBytes)});
  places.row({"headers and page padding", std::to_string(ledger.framingBytes)});
  places.row({"total", std::to_string(ledger.fileBytes)});
  out += "\n" + formats.render() + "\n" + roles.render() + "\n" + places.render() + "\n";
  const auto bits = [&](const char *name, double value, const char *rule) {
    out += std::string(name) + fixedText(value, 3) + " bits per weight: " + rule + "\n";
  };
  bits("quantized   ", ledger.quantized.bitsPerWeight(), kQuantizedRule);
  bits("tensors     ", ledger.tensors.bitsPerWeight(), kTensorsRule);
  bits("artifact    ", artifactBits(ledger), kArtifactRule);
  return out + "counting    " + kCountingRule + "\n";
}

Json ledgerJson(const Artifact &artifact, const ArtifactLedger &ledger) {
  Json formats = Json::array(), roles = Json::array();
  for (const auto &[name, line] : ledger.formats) {
    Json entry = {{"format", name}};
    entry.update(lineJson(line));
    formats.push_back(std::move(entry));
  }
  for (const auto &[name, line] : ledger.roles) {
    Json entry = {{"role", name}};
    entry.update(lineJson(line));
    roles.push_back(std::move(entry));
  }
  return {{"artifact", artifact.path().string()},
          {"files", ledger.files},
          {"file_bytes", ledger.fileBytes},
          {"formats", std::move(formats)},
          {"roles", std::move(roles)},
          {"tensor_bytes", ledger.tensors.bytes()},
          {"unknown_format_bytes", ledger.unknownBytes},
          {"resources", ledger.resources},
          {"resource_bytes", ledger.resourceBytes},
          {"gap_bytes", ledger.gapBytes},
          {"directory_bytes", ledger.directoryBytes},
          {"framing_bytes", ledger.framingBytes},
          {"bits_per_weight",
           {{"quantized", {{"value", ledger.quantized.bitsPerWeight()}, {"rule", kQuantizedRule}}},
            {"tensors", {{"value", ledger.tensors.bitsPerWeight()}, {"rule", kTensorsRule}}},
            {"artifact", {{"value", artifactBits(ledger)}, {"rule", kArtifactRule}}}}},
          {"counting_rule", kCountingRule}};
}

} // namespace ninfer
