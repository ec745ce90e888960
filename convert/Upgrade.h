// From an artifact to an artifact: an older framing to a newer one, or framing 3 with other file
// sizes. Objects keep their bytes and their places in the payload; only the directory is new.
#ifndef NINFER_CONVERT_UPGRADE_H
#define NINFER_CONVERT_UPGRADE_H

#include "artifact/container/Writer.h"
#include "support/Progress.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ninfer {

struct UpgradeOptions {
  std::filesystem::path source;
  std::filesystem::path output;
  int framing = 3;                      ///< of the output: 3, or 2
  std::optional<uint64_t> maxFileBytes; ///< framing 3: split into parts
  /// A model's config.json, which becomes the config of component text when the source (framing 1
  /// or 2) says nothing of it. Needed unless the identity is a known one.
  std::optional<std::filesystem::path> config;
  std::optional<std::string> weightsId; ///< for framing 2 from framing 1, unless it is known
  std::optional<std::string> modelName; ///< public name, instead of the source's
  bool force = false;                   ///< an existing artifact is replaced
  ProgressMode progress = ProgressMode::Off;
  std::function<bool()> cancelled = {}; ///< polled; true ends the work with Interrupted
};

struct UpgradePlan {
  ArtifactPlan artifact;
  std::vector<std::string> notes; ///< what the reader of a report should know
};

struct UpgradeReport {
  int from = 0, to = 0; ///< framings
  uint64_t objects = 0;
  uint64_t payloadBytes = 0;
  std::vector<std::string> notes;
  WriteReport written;
  double seconds = 0;
};

/// The directory of the upgraded artifact. From framing 1 or 2 to 3: names become ids; of a known
/// identity (models/Identity.h) every parameter and Use is written, else each tensor is bound as a
/// whole under its own name; resources get the role that is the last part of their name. From 3 to
/// 3: everything is kept, and nothing is recorded unless the public name changes. `metadata.name` and
/// `provenance.upgrade` say where it comes from; earlier records follow in the member `previous`.
/// Errors: NB0112 (Usage) when the target needs what is not given, cannot hold the source, or a given
/// weights id is not that of the source;
/// NB0307 when the objects are not those of their known identity; NB0910 for the config file.
Result<UpgradePlan> planUpgrade(const Directory &source, uint64_t payloadBytes,
                                const UpgradeOptions &options);

/// Plans, copies, and compares the SHA-256 of every object in the reopened output with the source
/// before it gets its name. Errors: those of Artifact, planUpgrade and ArtifactWriter, under the name
/// of the source where it is at fault; NB0904 and NB0905 as convert/Output.h, or when the output is a
/// file of the source; NB0113 when a digest differs; NB0321 interrupted.
Result<UpgradeReport> upgradeArtifact(const UpgradeOptions &options);

/// One line per fact, or one JSON object with stable members.
std::string upgradeSummary(const UpgradeReport &report);
nlohmann::ordered_json upgradeJson(const UpgradeReport &report);

} // namespace ninfer

#endif // NINFER_CONVERT_UPGRADE_H
