// The build report as JSON and as text.
#include "codegen/cpu/Tuning.h"
#include "compiler/Compiler.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

namespace ninfer {
namespace {

using Json = nlohmann::ordered_json;

Json counts(const std::vector<std::pair<std::string, size_t>> &values) {
  Json json = Json::object();
  for (const auto &[name, count] : values)
    json[name] = count;
  return json;
}

Json targetJson(const BuildReport &report, const TargetReport &target) {
  Json kernels = Json::array();
  for (const KernelReport &kernel : target.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"family", kernel.family},
                       {"profile", kernel.profile},
                       {"code", kernel.code},
                       {"scratch_bytes", kernel.scratchBytes},
                       {"launches", counts(kernel.launches)}});
    if (!kernel.tuning.empty()) {
      kernels.back()["tuning"] = kernel.tuning;
      kernels.back()["tuning_from"] = kernel.tuningFrom;
    }
  }
  return {{"name", target.name},
          {"executor", target.executor},
          {"cpu_features", target.cpuFeatures},
          {"distinct_kernels", target.kernels.size()},
          {"launches", counts(target.launches)},
          {"code_bytes", target.codeBytes},
          {"cache_hits", target.cacheHits},
          {"ledger",
           {{"weights_bytes", report.payloadBytes},
            {"plan_bytes", report.planBytes},
            {"state_bytes", target.stateBytes},
            {"arena_bytes", target.arenaBytes},
            {"packed_bytes", target.packedBytes},
            {"scratch_bytes_per_thread", target.scratchBytesPerThread},
            {"total_bytes_one_thread", report.payloadBytes + report.planBytes + target.stateBytes +
                                           target.arenaBytes + target.scratchBytesPerThread}}},
          {"cost_decode", {{"bytes_read", target.decodeBytesRead}, {"flops", target.decodeFlops}}},
          {"kernels", std::move(kernels)}};
}

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f s", value);
  return text;
}

} // namespace

std::string reportJson(const BuildReport &report, bool explain) {
  Json targets = Json::array(), stages = Json::array();
  for (const TargetReport &target : report.targets)
    targets.push_back(targetJson(report, target));
  for (const auto &[name, time] : report.stages)
    stages.push_back({{"stage", name}, {"seconds", time}});
  Json json = {{"artifact",
                {{"file", report.artifact},
                 {"name", report.publicName},
                 {"payload_bytes", report.payloadBytes},
                 {"storage_signature", report.storageSignature}}},
               {"model",
                {{"architecture", report.architecture},
                 {"layers", report.layers},
                 {"vocab_size", report.vocabSize},
                 {"parameters", report.parameters},
                 {"max_context", report.maxContext},
                 {"prefill_chunk", report.prefillChunk},
                 {"vision_max_patches", report.visionMaxPatches}}},
               {"plan",
                {{"file", report.output.empty() ? Json(nullptr) : Json(report.output)},
                 {"bytes", report.planBytes},
                 {"sha256", report.planSha256},
                 {"tuning_file", report.tuningFile.empty() ? Json(nullptr) : Json(report.tuningFile)}}},
               {"prepacked", report.prepacked.empty() ? Json(nullptr)
                                                      : Json({{"file", report.prepacked},
                                                              {"bytes", report.prepackedBytes},
                                                              {"sections", report.prepackedSections}})},
               {"targets", std::move(targets)},
               {"stages", std::move(stages)},
               {"seconds", report.seconds},
               {"peak_rss_bytes", report.peakRssBytes}};
  if (explain)
    json["explain"] = report.explain;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string reportText(const BuildReport &report) {
  std::string out = report.artifact + ": " + report.architecture + ", " +
                    std::to_string(report.layers) + " layers, weights " +
                    formatBytes(report.payloadBytes) + "\n";
  for (const TargetReport &target : report.targets) {
    out += target.name + ": " + std::to_string(target.kernels.size()) + " kernels";
    for (const auto &[phase, count] : target.launches)
      out += ", " + phase + " " + std::to_string(count) + (count == 1 ? " launch" : " launches");
    if (target.codeBytes)
      out += ", code " + formatBytes(target.codeBytes);
    std::map<std::string, size_t> from;
    size_t changed = 0;
    for (const KernelReport &kernel : target.kernels)
      if (!kernel.tuning.empty()) {
        ++from[kernel.tuningFrom];
        changed += kernel.tuning != tuningText({});
      }
    for (const auto &[source, count] : from)
      out += (source == from.begin()->first ? "\n  tuning: " : ", ") + std::to_string(count) + " " + source;
    if (!from.empty())
      out += "; " + std::to_string(changed) + " other than the default";
    out += "\n  memory for " + std::to_string(report.maxContext) + " positions: states " +
           formatBytes(target.stateBytes) + ", arena " + formatBytes(target.arenaBytes) +
           (target.onDevice ? ", packed weights " + formatBytes(target.packedBytes)
                            : ", scratch " + formatBytes(target.scratchBytesPerThread) + " per thread") +
           "; decode reads at most " + formatBytes(target.decodeBytesRead) +
           " per token\n";
  }
  out += (report.output.empty() ? "dry run, nothing written" : report.output) + ": " +
         formatBytes(report.planBytes) + " in " + seconds(report.seconds) + " (";
  for (size_t i = 0; i < report.stages.size(); ++i)
    out += (i ? ", " : "") + report.stages[i].first + " " + seconds(report.stages[i].second);
  out += "), peak memory " + formatBytes(report.peakRssBytes) + "\n";
  if (!report.prepacked.empty())
    out += report.prepacked + ": packed weights " + formatBytes(report.prepackedBytes) + ", for ninfer-exec --prepacked\n";
  return out;
}

} // namespace ninfer
