// Storage signature: equal for two artifacts whose storage is interchangeable, so that one plan
// serves both.
#ifndef NINFER_ARTIFACT_CONTAINER_SIGNATURE_H
#define NINFER_ARTIFACT_CONTAINER_SIGNATURE_H

#include "artifact/container/Directory.h"

#include <array>
#include <cstdint>
#include <string>

namespace ninfer {

/// SHA-256 of storageSignatureText(). Covers framing, objects (id, kind, shape, format, layout or
/// encoding, offset, bytes), bindings, uses and component configs, targets, resources and proposal.
/// Does not cover payload bytes, artifact id, file names, metadata, provenance or the order of
/// members.
std::array<uint8_t, 32> storageSignature(const Directory &directory);

/// The text that is hashed, one fact per line (docs/container.md).
std::string storageSignatureText(const Directory &directory);

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_SIGNATURE_H
