// The directory of a .ninfer artifact after the structural gates: what is stored, where, and which
// logical parameter each stored range serves. Framings 1 and 2 know objects only. Source:
// docs/container.md.
#ifndef NINFER_ARTIFACT_CONTAINER_DIRECTORY_H
#define NINFER_ARTIFACT_CONTAINER_DIRECTORY_H

#include "artifact/formats/Format.h"

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ninfer {

/// One stored object. Names are as the file spells them: framings 1 and 2 use the canonical
/// spellings ("Q4G64_F16S", "raw-bytes-v1"), framing 3 its own. `offset` counts bytes from the start of the logical payload.
struct ObjectEntry {
  std::string id;
  bool isTensor = true;
  std::vector<uint64_t> shape;  ///< tensors; rank 0 is one element; the last axis is contiguous
  std::string formatName;       ///< as spelled in the file
  std::string layoutName;       ///< as spelled in the file
  std::optional<Format> format; ///< empty when the name is not in the closed registry
  std::optional<Layout> layout;
  std::string encoding; ///< resources
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// Logical elements [begin, end) of object `object` in C order.
struct RangePart {
  uint32_t object = 0; ///< index into Directory::objects
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct Binding {
  bool whole = true; ///< written as {"object": id}; parts then holds the full range of one object
  std::vector<RangePart> parts;
};

struct Use {
  std::string parameter;
  std::string input;
  std::optional<ActivationPolicy> policy;
  std::map<std::string, Binding> auxiliaries;
};

struct Component {
  nlohmann::ordered_json config;
  std::optional<std::string> target;
  std::map<std::string, uint32_t> resources; ///< role -> index into Directory::objects
  struct Proposal {
    bool indexed = false;
    uint64_t rows = 0; ///< indexed only
  };
  std::optional<Proposal> proposal;
};

struct FileEntry {
  std::optional<std::string> path; ///< empty for the entry file
  uint64_t payloadBytes = 0;
};

/// What framings 1 and 2 say about the model instead of components. Framing 1 has no weights id.
struct Identity {
  std::string modelId;
  std::string weightsId;
};

struct Directory {
  int framing = 3;
  std::array<uint8_t, 16> artifactId{}; ///< framing 3; zero in 1 and 2
  std::optional<Identity> identity;     ///< framings 1 and 2
  /// Framings 1 and 2: one entry that holds the rest of the file. Components, bindings and uses are
  /// then empty.
  std::vector<FileEntry> files;
  std::vector<ObjectEntry> objects;
  std::map<std::string, Component> components;
  std::map<std::string, Binding> bindings; ///< parameter name -> stored ranges
  std::vector<Use> uses;
  nlohmann::ordered_json metadata;
  nlohmann::ordered_json provenance;

  const ObjectEntry *findObject(const std::string &id) const;
  /// Objects of the text and the vision component by role ("tokenizer.json"); of framings 1 and 2 those named frontend/<role>.
  std::map<std::string, uint32_t> resourcesByRole() const;
};

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_DIRECTORY_H
