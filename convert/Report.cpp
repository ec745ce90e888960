#include "convert/Report.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace ninfer {

namespace {

constexpr Provenance kProvenances[] = {Provenance::Preserved, Provenance::WidenedExactly,
                                       Provenance::NarrowedExactly, Provenance::Converted};

std::string provenanceColumn(const TensorReport &t) {
  std::string text(provenanceText(t.provenance));
  if (!t.profile.empty())
    text += " (" + t.profile + ")";
  for (const std::string &remark : t.remarks)
    text += "; " + remark;
  return text;
}

std::string fixed(double value, int digits) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

uint64_t paddingBytes(const ConvertReport &report) {
  uint64_t bytes = 0;
  for (const TensorReport &t : report.tensors)
    bytes += t.paddingBytes;
  return bytes;
}

/// ", 9 % is padding": rows are stored in steps of 128 columns. Empty below one half per cent.
std::string paddingText(const ConvertReport &report) {
  uint64_t bytes = 0;
  for (const TensorReport &t : report.tensors)
    bytes += t.bytes;
  const double percent =
      bytes ? 100.0 * static_cast<double>(paddingBytes(report)) / static_cast<double>(bytes) : 0.0;
  return percent < 0.5 ? "" : ", " + fixed(percent, 0) + " % is padding";
}

/// Stored bits per weight over all tensors.
double bitsPerWeight(const ConvertReport &report) {
  uint64_t bytes = 0, elements = 0;
  for (const TensorReport &t : report.tensors) {
    bytes += t.bytes;
    elements += elementCount(t.shape);
  }
  return elements ? 8.0 * static_cast<double>(bytes) / static_cast<double>(elements) : 0.0;
}

} // namespace

std::string reportSummary(const ConvertReport &report) {
  std::string out = report.modelName + ": " + architectureOf(report.config) + ", " +
                    std::to_string(numLayersOf(report.config)) + " layers" +
                    (report.mtp ? ", a draft layer" : "") + (report.vision ? ", a vision tower" : "") + ", from " + report.sourceKind +
                    (report.quantMethod.empty() ? "" : " (" + report.quantMethod + ")") +
                    ", recipe " + report.recipe + "\n";
  std::string counts;
  for (Provenance p : kProvenances)
    if (size_t n = report.count(p))
      counts +=
          (counts.empty() ? "" : ", ") + std::to_string(n) + " " + std::string(provenanceText(p));
  out += std::to_string(report.tensors.size()) + " tensors: " + counts + "; " +
         fixed(bitsPerWeight(report), 2) + " bits per weight" + paddingText(report) + "\n";
  out += std::to_string(report.resources.size()) + " resources";
  for (size_t i = 0; i < report.resources.size(); ++i)
    out += (i ? ", " : ": ") + report.resources[i].first;
  out += "\n";
  for (const std::string &note : report.notes)
    out += "note: " + note + "\n";
  if (report.written)
    out += "written and verified: " + formatBytes(report.written->fileBytes) + " in " +
           fixed(report.seconds, 1) + " s, storage signature " +
           toHex(report.written->storageSignature).substr(0, 16) + "\n";
  else
    out +=
        "dry run: nothing written, the payload would be " + formatBytes(report.payloadBytes) + "\n";
  return out;
}

std::string reportTable(const ConvertReport &report) {
  std::vector<std::array<std::string, 6>> lines = {
      {"object", "shape", "source", "format", "bytes", "provenance"}};
  for (const TensorReport &t : report.tensors)
    lines.push_back({t.object, shapeText(t.shape), t.sourceType,
                     std::string(canonicalName(t.format)), std::to_string(t.bytes),
                     provenanceColumn(t)});
  std::array<size_t, 6> widths{};
  for (const auto &line : lines)
    for (size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], line[i].size());
  std::string out;
  for (const auto &line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      std::string padding(widths[i] - line[i].size(), ' ');
      bool last = i + 1 == line.size(), right = i == 4;
      out += right ? padding + line[i] : line[i] + (last ? "" : padding);
      out += last ? "\n" : "  ";
    }
  }
  return out + "\n" + reportSummary(report);
}

Json reportJson(const ConvertReport &report) {
  Json out = {{"model", report.modelName},
              {"source_kind", report.sourceKind},
              {"recipe", report.recipe},
              {"quant_method", report.quantMethod.empty() ? Json() : Json(report.quantMethod)},
              {"config", configToJson(report.config)},
              {"bits_per_weight", bitsPerWeight(report)}};
  Json counts = Json::object();
  for (Provenance p : kProvenances)
    counts[std::string(provenanceText(p))] = report.count(p);
  out["provenance"] = std::move(counts);
  Json tensors = Json::array();
  for (const TensorReport &t : report.tensors) {
    Json entry = {{"object", t.object},
                  {"source", t.source},
                  {"source_type", t.sourceType},
                  {"shape", t.shape},
                  {"format", canonicalName(t.format)},
                  {"provenance", provenanceText(t.provenance)},
                  {"source_bytes", t.sourceBytes},
                  {"bytes", t.bytes},
                  {"padding_bytes", t.paddingBytes}};
    if (!t.profile.empty())
      entry["profile"] = t.profile;
    if (!t.remarks.empty())
      entry["remarks"] = t.remarks;
    tensors.push_back(std::move(entry));
  }
  out["tensors"] = std::move(tensors);
  Json resources = Json::object();
  for (const auto &[role, bytes] : report.resources)
    resources[role] = bytes;
  out["resources"] = std::move(resources);
  out["notes"] = report.notes;
  out["payload_bytes"] = report.payloadBytes;
  out["padding_bytes"] = paddingBytes(report);
  out["seconds"] = report.seconds;
  if (report.written) {
    out["file_bytes"] = report.written->fileBytes;
    out["payload_sha256"] = toHex(report.written->payloadSha256);
    out["storage_signature"] = toHex(report.written->storageSignature);
  }
  return out;
}

} // namespace ninfer
