#include "schema/PackedFile.h"

#include "support/Bytes.h"

#include <algorithm>
#include <cstring>

namespace ninfer {

namespace {

// Offsets of the byte table.
constexpr size_t kVersionAt = 8, kHeaderBytesAt = 12, kLayoutAt = 16, kCountAt = 20, kFileBytesAt = 24, kPayloadBytesAt = 32,
                 kSignatureAt = 40, kSampleAt = 72, kDigestAt = 104, kSectionsAt = 192, kSectionBytes = 96;
constexpr uint64_t kAlign = 4096;

void putDigest(std::byte *to, const Sha256Digest &digest) { std::memcpy(to, digest.data(), digest.size()); }
Sha256Digest digestAt(const std::byte *from) {
  Sha256Digest digest;
  std::memcpy(digest.data(), from, digest.size());
  return digest;
}

Sha256Digest headerDigest(std::span<const std::byte> header) {
  static constexpr std::byte kZeros[32] = {};
  return Sha256().update(header.first(kDigestAt)).update(kZeros).update(header.subspan(kDigestAt + sizeof kZeros)).finish();
}

Error bad(const std::string &name, const std::string &rule) {
  return makeError(ErrorKind::BadFile, "NB0647", name + ": packed weights: " + rule);
}

Status mismatch(const std::string &name, const std::string &rule) {
  Status status = makeError(ErrorKind::TargetMismatch, "NB0648", name + ": packed weights: " + rule);
  status.help("build the plan again with --prepack, or run it without --prepacked");
  return status;
}

std::string number(uint64_t value) { return std::to_string(value); }
std::string brief(const Sha256Digest &digest) { return toHex(std::span(digest).first(6)); }

} // namespace

Sha256Digest packingDigest(const plan::Target &target) {
  Sha256 hash;
  const auto field = [&](const std::string &text) { hash.update(text + ";"); };
  field("layout " + number(kPackedLayout) + " bytes " + number(target.cuda()->packed_bytes()));
  const plan::Phase *load = PlanView::findPhase(target, plan::PhaseKind::Load);
  if (!load)
    return hash.finish();
  for (const plan::Launch *launch : *load->launches()) {
    const plan::Kernel &kernel = *target.kernels()->Get(launch->kernel());
    const std::string symbol = kernel.symbol()->str(); // "ni_pack_q4g64_sm89": the same bytes on every architecture
    field(symbol.substr(0, symbol.rfind("_sm")));
    if (kernel.cuda())
      for (const plan::CudaParam *param : *kernel.cuda()->params())
        field(number(uint64_t(param->kind())) + "," + number(param->arg()) + "," + number(param->value()));
    for (const plan::Ref *ref : *launch->args())
      field(number(uint64_t(ref->space())) + "," + number(ref->offset()) + "," + number(ref->bytes()));
  }
  return hash.finish();
}

Sha256Digest payloadSample(std::span<const std::byte> payload) {
  constexpr uint64_t kPieces = 1024, kPiece = 4096;
  if (payload.size() <= kPieces * kPiece)
    return sha256(payload);
  Sha256 hash;
  const uint64_t step = (payload.size() - kPiece) / (kPieces - 1);
  for (uint64_t i = 0; i < kPieces; ++i)
    hash.update(payload.subspan(i * step, kPiece));
  return hash.finish();
}

std::vector<std::byte> encodePackedHeader(const PackedHeader &header) {
  std::vector<std::byte> bytes(kPackedHeaderBytes);
  std::memcpy(bytes.data(), kPackedMagic, sizeof kPackedMagic);
  storeLe32(&bytes[kVersionAt], kPackedVersion);
  storeLe32(&bytes[kHeaderBytesAt], uint32_t(kPackedHeaderBytes));
  storeLe32(&bytes[kLayoutAt], kPackedLayout);
  storeLe32(&bytes[kCountAt], uint32_t(header.sections.size()));
  storeLe64(&bytes[kFileBytesAt], header.fileBytes);
  storeLe64(&bytes[kPayloadBytesAt], header.payloadBytes);
  putDigest(&bytes[kSignatureAt], header.storageSignature);
  putDigest(&bytes[kSampleAt], header.payloadSample);
  for (size_t i = 0; i < header.sections.size(); ++i) {
    std::byte *at = &bytes[kSectionsAt + i * kSectionBytes];
    putDigest(at, header.sections[i].packing);
    storeLe64(at + 32, header.sections[i].offset);
    storeLe64(at + 40, header.sections[i].bytes);
    putDigest(at + 64, header.sections[i].content);
  }
  putDigest(&bytes[kDigestAt], headerDigest(bytes));
  return bytes;
}

Result<PackedHeader> readPackedHeader(std::span<const std::byte> file, const std::string &name) {
  if (file.size() < kPackedHeaderBytes || std::memcmp(file.data(), kPackedMagic, sizeof kPackedMagic) != 0)
    return bad(name, "not a file of ninfer-build --prepack");
  const std::span<const std::byte> bytes = file.first(kPackedHeaderBytes);
  if (const uint32_t version = loadLe32(&bytes[kVersionAt]); version != kPackedVersion)
    return mismatch(name, "file: version " + number(version) + ", this build: " + number(kPackedVersion));
  if (digestAt(&bytes[kDigestAt]) != headerDigest(bytes) || loadLe32(&bytes[kHeaderBytesAt]) != kPackedHeaderBytes)
    return bad(name, "the header is damaged");
  if (const uint32_t layout = loadLe32(&bytes[kLayoutAt]); layout != kPackedLayout)
    return mismatch(name, "file: layout " + number(layout) + ", this build: " + number(kPackedLayout) + " (panel-16x128)");
  PackedHeader header;
  header.fileBytes = loadLe64(&bytes[kFileBytesAt]);
  header.payloadBytes = loadLe64(&bytes[kPayloadBytesAt]);
  header.storageSignature = digestAt(&bytes[kSignatureAt]);
  header.payloadSample = digestAt(&bytes[kSampleAt]);
  if (header.fileBytes != file.size())
    return bad(name, "expected " + number(header.fileBytes) + " bytes, got " + number(file.size()) + ": truncated, or something was appended");
  const uint32_t count = loadLe32(&bytes[kCountAt]);
  if (count == 0 || count > kPackedSections)
    return bad(name, "expected 1 to " + number(kPackedSections) + " sections, got " + number(count));
  for (uint32_t i = 0; i < count; ++i) {
    const std::byte *at = &bytes[kSectionsAt + i * kSectionBytes];
    const PackedSection section{digestAt(at), loadLe64(at + 32), loadLe64(at + 40), digestAt(at + 64)};
    if (section.offset % kAlign || section.offset < kPackedHeaderBytes || section.bytes == 0 || section.offset > file.size() ||
        section.bytes > file.size() - section.offset)
      return bad(name, "section " + number(i) + " [" + number(section.offset) + ", +" + number(section.bytes) + ") is outside the file");
    header.sections.push_back(section);
  }
  return header;
}

Status checkPackedContent(std::span<const std::byte> file, const PackedHeader &header, const std::string &name) {
  uint64_t end = kPackedHeaderBytes;
  const auto zerosUpTo = [&](uint64_t to) -> Status {
    for (; end < to; ++end)
      if (file[end] != std::byte(0))
        return bad(name, "byte " + number(end) + " between sections is not zero");
    return {};
  };
  for (size_t i = 0; i < header.sections.size(); ++i) {
    const PackedSection &section = header.sections[i];
    NINFER_RETURN_IF_ERROR(zerosUpTo(section.offset));
    if (const Sha256Digest got = sha256(file.subspan(section.offset, section.bytes)); got != section.content)
      return bad(name, "section " + number(i) + ": SHA-256 is " + toHex(got) + ", the header has " + toHex(section.content));
    end = std::max(end, section.offset + section.bytes);
  }
  return zerosUpTo(file.size());
}

Result<PackedSection> findPackedSection(const PackedHeader &header, const std::string &name, const plan::Target &target,
                                        const Sha256Digest &storageSignature, std::span<const std::byte> payload) {
  if (header.storageSignature != storageSignature || header.payloadBytes != payload.size())
    return mismatch(name, "made from an artifact of storage " + brief(header.storageSignature) + ", " + number(header.payloadBytes) +
                              " bytes; this one: " + brief(storageSignature) + ", " + number(payload.size()) + " bytes");
  if (const Sha256Digest sample = payloadSample(payload); header.payloadSample != sample)
    return mismatch(name, "made from other weights: a sample of them has digest " + brief(header.payloadSample) + ", of this artifact " +
                              brief(sample));
  const Sha256Digest packing = packingDigest(target);
  std::string known;
  for (const PackedSection &section : header.sections) {
    if (section.packing == packing && section.bytes == target.cuda()->packed_bytes())
      return section;
    known += (known.empty() ? "" : ", ") + brief(section.packing);
  }
  return mismatch(name, "made for another plan: it has packing " + known + ", " + target.name()->str() + " of this plan has " + brief(packing));
}

} // namespace ninfer
