// Scans encoded objects rule by rule. The common case reads each byte once through memchr or a
// vectorisable loop; only a broken rule is looked at lane by lane.
#include "artifact/container/Verify.h"

#include "artifact/container/Reader.h"
#include "artifact/formats/Words.h"
#include "support/Bytes.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace ninfer {

namespace {

std::string hex(uint32_t word, int digits) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%0*x", digits, word);
  return text;
}

/// First nonzero byte of [begin, end), or end.
uint64_t firstNonzero(const uint8_t *bytes, uint64_t begin, uint64_t end) {
  while (begin + 64 <= end) {
    uint64_t any = 0;
    for (int i = 0; i < 8; ++i)
      any |= loadLe64(bytes + begin + 8 * i);
    if (any)
      break;
    begin += 64;
  }
  while (begin < end && bytes[begin] == 0)
    ++begin;
  return begin;
}

class ObjectScan {
public:
  ObjectScan(const ObjectEntry &object, const EncodedGeometry &geometry, const uint8_t *bytes,
             const VerifyOptions &options, VerifyReport &report)
      : object_(object), geometry_(geometry), bytes_(bytes), options_(options), report_(report) {}

  void run() {
    switch (geometry_.layout) {
    case Layout::ContiguousLeV1: // every word is legal, and there is no padding
      progress(geometry_.totalBytes);
      break;
    case Layout::RowSplitK128V1:
      for (uint64_t n = 0; n < geometry_.rows; ++n) {
        groupedRow(n);
        progressRow();
      }
      break;
    case Layout::BlockScaleK16M128x4V1:
      for (uint64_t n = 0; n < geometry_.rows; ++n) {
        blockScaledRow(n);
        progressRow();
      }
      if (const uint32_t divisor = loadLe32(bytes_ + geometry_.planes[2].offset);
          !isValidDivisor(divisor))
        add({object_.id,
             "nvfp4-divisor",
             "divisor " + hex(divisor, 8) + " is not finite and positive",
             {},
             {},
             {}});
      break;
    case Layout::RowScaleV1:
      for (uint64_t n = 0; n < geometry_.rows; ++n) {
        rowScaledRow(n);
        progressRow();
      }
      break;
    }
    planeGaps();
    progress(geometry_.totalBytes - reported_);
  }

private:
  void add(Finding finding) {
    ++report_.violations;
    if (report_.findings.size() < options_.maxFindings)
      report_.findings.push_back(std::move(finding));
  }

  void progress(uint64_t bytes) {
    reported_ += bytes;
    report_.bytes += bytes;
    if (options_.onBytes && bytes)
      options_.onBytes(bytes);
  }

  void progressRow() {
    for (const PlaneInfo &plane : geometry_.planes)
      pending_ += plane.rowBytes;
    if (pending_ >= (1 << 20)) {
      progress(pending_);
      pending_ = 0;
    }
  }

  void planeGaps() {
    for (size_t i = 0; i + 1 < geometry_.planes.size(); ++i) {
      const uint64_t begin = geometry_.planes[i].offset + geometry_.planes[i].bytes,
                     end = geometry_.planes[i + 1].offset;
      if (const uint64_t at = firstNonzero(bytes_, begin, end); at < end)
        add({object_.id,
             "plane-gap",
             "byte " + std::to_string(at) + " of the object, between planes '" +
                 geometry_.planes[i].name + "' and '" + geometry_.planes[i + 1].name + "', is " +
                 hex(bytes_[at], 2) + ", expected zero",
             {},
             {},
             {}});
    }
  }

  const uint8_t *row(size_t plane, uint64_t n) const {
    return bytes_ + geometry_.planes[plane].offset + n * geometry_.planes[plane].rowBytes;
  }

  void groupedRow(uint64_t n) {
    const uint32_t bits = formatInfo(geometry_.format).bits;
    const uint64_t groupSize = geometry_.groupSize, groups = geometry_.logicalGroupsPerRow();
    const size_t scalePlane = geometry_.planes.size() - 1;
    const uint8_t *base = row(0, n), *high = row(1, n), *scales = row(scalePlane, n);
    const uint64_t baseGroup = bits == 8 ? groupSize : groupSize / 2;
    const uint64_t highGroup = bits == 5 || bits == 6 ? groupSize * (bits - 4) / 8 : 0;
    if (bits == 8) {
      const uint8_t *end = base + geometry_.k;
      for (const uint8_t *at = base;
           (at = static_cast<const uint8_t *>(std::memchr(at, 0x80, size_t(end - at)))); ++at) {
        const uint64_t k = uint64_t(at - base);
        add({object_.id, "w8-code-range", "code 0x80 (-128) is outside [-127,127]", n,
             k / groupSize, k % groupSize});
      }
    }
    for (uint64_t group = 0; group < groups; ++group) {
      const uint16_t scale = loadLe16(scales + 2 * group);
      if (!isValidF16Scale(scale)) {
        add({object_.id,
             "f16-scale",
             "scale " + hex(scale, 4) + (scale & 0x8000 ? " is negative" : " is not finite"),
             n,
             group,
             {}});
      } else if (scale == 0 && (firstNonzero(base, group * baseGroup, (group + 1) * baseGroup) <
                                    (group + 1) * baseGroup ||
                                firstNonzero(high, group * highGroup, (group + 1) * highGroup) <
                                    (group + 1) * highGroup)) {
        for (uint64_t k = group * groupSize; k < std::min((group + 1) * groupSize, geometry_.k);
             ++k)
          if (const int code = codeAt(base, high, bits, k); code != 0) {
            add({object_.id, "zero-scale",
                 "code " + std::to_string(code) + " under a zero scale, expected 0", n, group,
                 k % groupSize});
            break;
          }
      }
    }
    for (uint64_t k = geometry_.k; k < geometry_.paddedK; ++k)
      if (const int code = codeAt(base, high, bits, k); code != 0) {
        add({object_.id, "padding-code",
             "padding element " + std::to_string(k) + " holds code " + std::to_string(code) +
                 ", expected 0",
             n, k / groupSize, k % groupSize});
        break;
      }
    for (uint64_t group = groups; group < geometry_.groupsPerRow; ++group)
      if (const uint16_t scale = loadLe16(scales + 2 * group); scale != 0)
        add({object_.id,
             "padding-scale",
             "padding group holds scale " + hex(scale, 4) + ", expected 0x0000",
             n,
             group,
             {}});
  }

  static int codeAt(const uint8_t *base, const uint8_t *high, uint32_t bits, uint64_t k) {
    if (bits == 8)
      return int8_t(base[k]);
    uint32_t word = base[k / 2] >> (k % 2) * 4 & 15;
    if (bits == 5)
      word |= (high[k / 8] >> (k % 8) & 1) << 4;
    if (bits == 6)
      word |= (high[k / 4] >> (k % 4) * 2 & 3) << 4;
    return signExtend(word, bits);
  }

  void blockScaledRow(uint64_t n) {
    for (uint64_t group = 0; group < geometry_.groupsPerRow; ++group)
      if (const uint8_t scale = bytes_[scaleOffset(geometry_, n, group)];
          !isValidE4m3fnScale(scale))
        add({object_.id,
             "e4m3fn-scale",
             "scale " + hex(scale, 2) +
                 ((scale & 0x7f) == 0x7f ? " is NaN" : " has its sign bit set"),
             n,
             group,
             {}});
  }

  void rowScaledRow(uint64_t n) {
    const uint8_t *codes = row(0, n);
    const uint16_t scale = loadLe16(bytes_ + scaleOffset(geometry_, n, 0));
    if (!isValidBf16Scale(scale))
      add({object_.id,
           "bf16-scale",
           "row scale " + hex(scale, 4) + (scale & 0x8000 ? " is negative" : " is not finite"),
           n,
           {},
           {}});
    uint8_t any = 0, nan = 0;
    for (uint64_t k = 0; k < geometry_.k; ++k) {
      any |= codes[k] & 0x7f;
      nan |= uint8_t((codes[k] & 0x7f) == 0x7f);
    }
    if (nan)
      for (uint64_t k = 0; k < geometry_.k; ++k)
        if (!isValidE4m3fnCode(codes[k]))
          add({object_.id, "e4m3fn-code", "code " + hex(codes[k], 2) + " is NaN", n, {}, k});
    if (scale == 0 && any)
      for (uint64_t k = 0; k < geometry_.k; ++k)
        if ((codes[k] & 0x7f) != 0) {
          add({object_.id,
               "zero-scale",
               "code " + hex(codes[k], 2) + " under a zero row scale, expected 0x00 or 0x80",
               n,
               {},
               k});
          break;
        }
  }

  const ObjectEntry &object_;
  const EncodedGeometry &geometry_;
  const uint8_t *bytes_;
  const VerifyOptions &options_;
  VerifyReport &report_;
  uint64_t pending_ = 0, reported_ = 0;
};

} // namespace

std::string Finding::text() const {
  std::string out = "object '" + object + "'";
  if (row)
    out += ", row " + std::to_string(*row);
  if (group)
    out += ", group " + std::to_string(*group);
  if (lane)
    out += ", lane " + std::to_string(*lane);
  return out + ": " + message + " [" + rule + "]";
}

Status verifyObject(const ObjectEntry &object, std::span<const std::byte> bytes,
                    const VerifyOptions &options, VerifyReport &report) {
  ++report.objects;
  if (!object.isTensor) { // a resource is opaque
    report.bytes += bytes.size();
    if (options.onBytes)
      options.onBytes(bytes.size());
    return {};
  }
  if (!object.format || !object.layout)
    return makeError(ErrorKind::Unsupported, "NB0106",
                     "object '" + object.id + "': unknown format or layout");
  NINFER_ASSIGN_OR_RETURN(const EncodedGeometry geometry,
                          encodedGeometry(*object.format, *object.layout, object.shape));
  if (bytes.size() != geometry.totalBytes)
    return makeError(ErrorKind::BadFile, "NB0106",
                     "object '" + object.id + "': expected " + std::to_string(geometry.totalBytes) +
                         " encoded bytes, got " + std::to_string(bytes.size()));
  ObjectScan(object, geometry, reinterpret_cast<const uint8_t *>(bytes.data()), options, report)
      .run();
  return {};
}

Result<VerifyReport> verifyArtifact(const Artifact &artifact, const VerifyOptions &options) {
  VerifyReport report;
  const Directory &directory = artifact.directory();
  const auto *payload = reinterpret_cast<const uint8_t *>(artifact.payload().data());
  uint64_t cursor = 0;
  const auto gap = [&](uint64_t end, const std::string &before) {
    if (const uint64_t at = firstNonzero(payload, cursor, end); at < end) {
      ++report.violations;
      if (report.findings.size() < options.maxFindings)
        report.findings.push_back({before,
                                   "payload-gap",
                                   "unowned payload byte " + std::to_string(at) + " is " +
                                       hex(payload[at], 2) + ", expected zero",
                                   {},
                                   {},
                                   {}});
    }
    report.bytes += end - cursor;
    if (options.onBytes && end > cursor)
      options.onBytes(end - cursor);
  };
  for (size_t i = 0; i < directory.objects.size(); ++i) {
    const ObjectEntry &object = directory.objects[i];
    NINFER_ASSIGN_OR_RETURN(const auto bytes, artifact.object(i));
    gap(object.offset, object.id);
    NINFER_RETURN_IF_ERROR(verifyObject(object, bytes, options, report));
    cursor = object.offset + object.bytes;
    artifact.release(); // one object resident at a time, whatever the size of the artifact
  }
  gap(artifact.payload().size(), directory.objects.back().id);
  return report;
}

Status verifyReportStatus(const VerifyReport &report, const std::string &fileName) {
  if (report.ok())
    return {};
  Status status =
      makeError(ErrorKind::BadFile, "NB0109",
                fileName + ": content breaks " + std::to_string(report.violations) + " rule" +
                    (report.violations == 1 ? "" : "s") + " of its formats: " +
                    (report.findings.empty() ? std::string("no details kept")
                                             : report.findings.front().text()));
  for (size_t i = 1; i < report.findings.size(); ++i)
    status.note(report.findings[i].text());
  return status;
}

} // namespace ninfer
