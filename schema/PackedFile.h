// The file of packed weights that `ninfer-build --prepack` writes: its header, and the two digests that bind it to what it was
// made from. Byte table: docs/plan-format.md, "Packed weights".
#ifndef NINFER_SCHEMA_PACKEDFILE_H
#define NINFER_SCHEMA_PACKEDFILE_H

#include "schema/View.h"
#include "support/Sha256.h"
#include "support/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ninfer {

inline constexpr char kPackedMagic[8] = {'N', 'I', 'N', 'P', 'A', 'C', 'K', '\0'};
inline constexpr uint64_t kPackedHeaderBytes = 4096;
/// Of the byte table. A reader refuses every other number.
inline constexpr uint32_t kPackedVersion = 2;
/// Of the order of codes and scales inside a weight: 1 is panel-16x128 (docs/cuda.md). Changes with the layout.
inline constexpr uint32_t kPackedLayout = 1;
/// Sections a header has room for.
inline constexpr size_t kPackedSections = 40;

/// The space Packed of one or several targets.
struct PackedSection {
  Sha256Digest packing{}; ///< packingDigest()
  uint64_t offset = 0;    ///< in the file, a multiple of 4096
  uint64_t bytes = 0;
  Sha256Digest content{}; ///< of the bytes
};

struct PackedHeader {
  uint64_t fileBytes = 0, payloadBytes = 0;
  Sha256Digest storageSignature{}; ///< of the artifact
  Sha256Digest payloadSample{};    ///< payloadSample() of it
  std::vector<PackedSection> sections;
};

/// What the Load phase of a CUDA target makes of a payload: formats, shapes, places. Equal for targets, and for plans, whose
/// weights are packed to the same bytes.
Sha256Digest packingDigest(const plan::Target &target);

/// SHA-256 over 1024 pieces of 4096 bytes spread evenly over the payload (all of a payload up to 4 MiB): tells artifacts of
/// equal storage signature apart without reading them. Two that agree in every piece and differ elsewhere are not told apart.
Sha256Digest payloadSample(std::span<const std::byte> payload);

std::vector<std::byte> encodePackedHeader(const PackedHeader &header);
/// `file`: the whole file; `name` is for messages. NB0647 (BadFile): not such a file, damaged header, truncated or too long;
/// NB0648 (TargetMismatch): another version or layout.
Result<PackedHeader> readPackedHeader(std::span<const std::byte> file, const std::string &name);

/// Compares every byte behind the header with what the header says, reading all of it: SHA-256 of each section, zeros between
/// them. NB0647 names the first section or byte that differs.
Status checkPackedContent(std::span<const std::byte> file, const PackedHeader &header, const std::string &name);

/// The section for `target` over an artifact of that signature and payload. NB0648 (TargetMismatch) names both sides.
Result<PackedSection> findPackedSection(const PackedHeader &header, const std::string &name, const plan::Target &target,
                                        const Sha256Digest &storageSignature, std::span<const std::byte> payload);

} // namespace ninfer

#endif // NINFER_SCHEMA_PACKEDFILE_H
