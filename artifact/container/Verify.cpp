// Cuts an artifact into blocks in payload order, scans them on any number of threads, and joins
// what they found in that order.
#include "artifact/container/Verify.h"

#include "artifact/container/Reader.h"
#include "artifact/container/ScanObject.h"
#include "support/Parallel.h"

#include <atomic>
#include <cstdio>
#include <map>

namespace ninfer {

namespace {

/// A run of rows of one object, or unowned payload bytes (`count` bytes from `first`).
struct Block {
  uint32_t object = 0;
  bool gap = false;
  bool last = false; ///< of the object: the rules about the whole object too
  uint64_t first = 0, count = 0;
  uint64_t bytes = 0; ///< judged
};

uint64_t rowBytes(const EncodedGeometry &geometry) {
  uint64_t bytes = 0;
  for (const PlaneInfo &plane : geometry.planes)
    bytes += plane.rowBytes;
  return bytes;
}

/// Blocks of a tensor with words that can be illegal; one block for everything else.
void addObjectBlocks(uint32_t object, const ObjectEntry &entry, const EncodedGeometry *geometry,
                     std::vector<Block> &blocks) {
  if (!geometry || geometry->layout == Layout::ContiguousLeV1) {
    blocks.push_back({object, false, true, 0, 0, entry.bytes});
    return;
  }
  const uint64_t step = ObjectScan::blockRows(*geometry), perRow = rowBytes(*geometry);
  uint64_t left = entry.bytes;
  for (uint64_t first = 0; first < geometry->rows; first += step) {
    Block block{object, false, false, first, std::min(step, geometry->rows - first), 0};
    block.last = first + block.count == geometry->rows;
    block.bytes = block.last ? left : block.count * perRow;
    left -= block.bytes;
    blocks.push_back(block);
  }
}

/// Joins the findings of blocks that end in any order: those of the lowest blocks stay.
class Collector {
public:
  explicit Collector(const VerifyOptions &options) : options_(options) {}

  bool wanted(uint64_t block) const { return block < stopBefore_; }

  void add(uint64_t block, uint64_t bytes, uint64_t scanned, uint64_t violations,
           std::vector<Finding> findings, uint64_t blocks) {
    const std::lock_guard<std::mutex> lock(mutex_);
    report_.bytes += bytes;
    report_.scanned += scanned;
    report_.violations += violations;
    if (findings.empty())
      return;
    kept_ += findings.size();
    findings_.emplace(block, std::move(findings));
    while (kept_ - findings_.rbegin()->second.size() >= options_.maxFindings) {
      kept_ -= findings_.rbegin()->second.size();
      findings_.erase(std::prev(findings_.end()));
    }
    // Every block that was not started lies behind all that were, hence behind these findings.
    if (options_.stopEarly && kept_ >= options_.maxFindings && stopBefore_ == UINT64_MAX) {
      stopBefore_ = findings_.rbegin()->first + 1;
      report_.stopped = findings_.rbegin()->first + 1 < blocks;
    }
  }

  VerifyReport take() {
    for (auto &[block, findings] : findings_)
      for (Finding &finding : findings)
        if (report_.findings.size() < options_.maxFindings)
          report_.findings.push_back(std::move(finding));
    return std::move(report_);
  }

private:
  const VerifyOptions &options_;
  std::mutex mutex_;
  VerifyReport report_;
  std::map<uint64_t, std::vector<Finding>> findings_;
  uint64_t kept_ = 0;
  std::atomic<uint64_t> stopBefore_ = UINT64_MAX;
};

Finding gapFinding(const Directory &directory, const Block &block, uint64_t at, uint8_t value) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", value);
  return {directory.objects[block.object].id,
          "payload-gap",
          "unowned payload byte " + std::to_string(at) + " is " + text + ", expected zero",
          {},
          {},
          {},
          at};
}

Status checkSize(const ObjectEntry &object, const EncodedGeometry &geometry, uint64_t bytes) {
  if (bytes == geometry.totalBytes)
    return {};
  return makeError(ErrorKind::BadFile, "NB0106",
                   "object '" + object.id + "': expected " + std::to_string(geometry.totalBytes) +
                       " encoded bytes, got " + std::to_string(bytes));
}

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
  report.bytes += bytes.size();
  if (object.isTensor) {
    if (!object.format || !object.layout)
      return makeError(ErrorKind::Unsupported, "NB0106",
                       "object '" + object.id + "': unknown format or layout");
    NINFER_ASSIGN_OR_RETURN(const EncodedGeometry geometry,
                            encodedGeometry(*object.format, *object.layout, object.shape));
    NINFER_RETURN_IF_ERROR(checkSize(object, geometry, bytes.size()));
    const size_t room = options.maxFindings - std::min(options.maxFindings, report.findings.size());
    ObjectScan scan(object, geometry, reinterpret_cast<const uint8_t *>(bytes.data()), room);
    const uint64_t step = ObjectScan::blockRows(geometry);
    for (uint64_t first = 0; first < geometry.rows; first += step)
      scan.scanRows(first, std::min(step, geometry.rows - first));
    scan.scanRest();
    report.violations += scan.violations;
    report.scanned += scan.scanned;
    report.findings.insert(report.findings.end(), scan.findings.begin(), scan.findings.end());
  }
  if (options.onBytes)
    options.onBytes(bytes.size());
  return {};
}

Result<VerifyReport> verifyArtifact(const Artifact &artifact, const VerifyOptions &options) {
  const Directory &directory = artifact.directory();
  std::vector<EncodedGeometry> geometries(directory.objects.size());
  std::vector<Block> blocks;
  uint64_t cursor = 0;
  const auto addGap = [&](uint32_t object, uint64_t end) {
    if (end > cursor)
      blocks.push_back({object, true, false, cursor, end - cursor, end - cursor});
  };
  for (uint32_t i = 0; i < directory.objects.size(); ++i) {
    const ObjectEntry &object = directory.objects[i];
    NINFER_RETURN_IF_ERROR(checkObject(directory, i, artifact.path().string()));
    if (object.isTensor) {
      NINFER_ASSIGN_OR_RETURN(geometries[i], artifact.geometry(i));
    }
    addGap(i, object.offset);
    addObjectBlocks(i, object, object.isTensor ? &geometries[i] : nullptr, blocks);
    cursor = object.offset + object.bytes;
  }
  addGap(uint32_t(directory.objects.size() - 1), artifact.payloadBytes());

  Collector collector(options);
  std::atomic<uint64_t> sinceRelease = 0;
  NINFER_RETURN_IF_ERROR(parallelFor(blocks.size(), options.threads, [&](uint64_t index) -> Status {
    const Block &block = blocks[index];
    if (options.cancelled && options.cancelled())
      return makeError(ErrorKind::Interrupted, "NB0125", "verification interrupted");
    if (!collector.wanted(index))
      return {};
    if (block.gap) {
      NINFER_ASSIGN_OR_RETURN(const auto bytes, artifact.range(block.first, block.count));
      const auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
      const uint64_t at = firstNonzero(data, 0, block.count);
      std::vector<Finding> found;
      if (at < block.count)
        found.push_back(gapFinding(directory, block, block.first + at, data[at]));
      const uint64_t violations = found.size();
      collector.add(index, block.bytes, block.bytes, violations, std::move(found), blocks.size());
    } else {
      NINFER_ASSIGN_OR_RETURN(const auto bytes, artifact.object(block.object));
      ObjectScan scan(directory.objects[block.object], geometries[block.object],
                      reinterpret_cast<const uint8_t *>(bytes.data()), options.maxFindings);
      if (block.count)
        scan.scanRows(block.first, block.count);
      if (block.count && block.last)
        scan.scanRest();
      collector.add(index, block.bytes, scan.scanned, scan.violations, std::move(scan.findings),
                    blocks.size());
    }
    if (options.onBytes)
      options.onBytes(block.bytes);
    // Some 64 MiB resident at a time, whatever the size of the artifact.
    if (sinceRelease.fetch_add(block.bytes) + block.bytes >= uint64_t(64) << 20) {
      sinceRelease = 0;
      artifact.release();
    }
    return {};
  }));
  VerifyReport report = collector.take();
  report.objects = directory.objects.size();
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
