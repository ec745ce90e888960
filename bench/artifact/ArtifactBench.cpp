// Throughput of the artifact layer on one core: rows of BF16 through the encoder into the packed
// object, and the content scan of that object, against a memcpy of the same bytes in the same
// round. Prints medians over the rounds; docs/testing.md, "Throughput".
#include "artifact/container/Verify.h"
#include "artifact/formats/Encode.h"
#include "artifact/layouts/Layout.h"
#include "convert/GgmlBlocks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

using namespace ninfer;

namespace {

constexpr uint64_t kRows = 2048, kColumns = 4096; ///< 16 MiB of BF16: larger than the caches
constexpr uint64_t kBlockRows = 64;               ///< 512 KiB, the converter's unit of work

/// Time this thread spent on a core: other work on the machine is not counted.
double seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// Keeps a copy that nobody reads.
void keep(const std::vector<std::byte> &bytes) {
  asm volatile("" : : "r"(bytes.data()) : "memory");
}

template <typename Work>
double timed(Work work) {
  const double start = seconds();
  work();
  return seconds() - start;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

[[noreturn]] void stop(const Error &error) {
  std::fputs(error.render().c_str(), stderr);
  std::exit(1);
}

std::vector<std::byte> sourceWords() {
  std::vector<std::byte> out(kRows * kColumns * 2);
  uint64_t state = 0x9e3779b97f4a7c15u;
  for (uint64_t i = 0; i < kRows * kColumns; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    // Magnitudes from 2^-9 to 2^-4, either sign.
    const uint32_t word = uint32_t(state >> 63) << 15 | uint32_t(118 + (state >> 40) % 5) << 7 |
                          uint32_t(state & 127);
    out[2 * i] = std::byte(word & 255);
    out[2 * i + 1] = std::byte(word >> 8);
  }
  return out;
}

/// The converter's inner work on one tensor.
class Encoder {
public:
  Encoder(Format format, std::span<const std::byte> source) : format_(format), source_(source) {
    const std::vector<uint64_t> shape = {kRows, kColumns};
    auto geometry = encodedGeometry(format, layoutOf(format), shape);
    if (!geometry.ok())
      stop(geometry.error());
    geometry_ = geometry.take();
    object.resize(geometry_.totalBytes);
    values_.resize(kColumns);
    codes_.resize(kBlockRows * kColumns);
    floatCodes_.resize(kBlockRows * kColumns);
    groups_ = geometry_.groupSize ? geometry_.logicalGroupsPerRow() : 1;
    scales_.resize(kBlockRows * groups_);
  }

  void run() {
    for (uint64_t first = 0; first < kRows; first += kBlockRows) {
      Status status = block(first);
      if (!status.ok())
        stop(status.error());
    }
  }

  std::vector<std::byte> object;

private:
  Status block(uint64_t first) {
    const auto rows = source_.subspan(first * kColumns * 2, kBlockRows * kColumns * 2);
    if (format_ == Format::BF16)
      return encodeRows(geometry_, first, DirectRows{rows}, object);
    for (uint64_t r = 0; r < kBlockRows; ++r) {
      decodeSourceRow(SourceType::BF16, rows.subspan(r * kColumns * 2, kColumns * 2), values_);
      const auto scales = std::span(scales_).subspan(r * groups_, groups_);
      if (format_ == Format::FP8_E4M3FN_ROW_BF16S)
        NINFER_RETURN_IF_ERROR(encodeFp8Row(
            values_, std::span(floatCodes_).subspan(r * kColumns, kColumns), scales[0]));
      else
        NINFER_RETURN_IF_ERROR(encodeRowFast(
            format_, values_, std::span(codes_).subspan(r * kColumns, kColumns), scales));
    }
    if (format_ == Format::FP8_E4M3FN_ROW_BF16S)
      return encodeRows(geometry_, first, RowScaledRows{floatCodes_, scales_}, object);
    return encodeRows(geometry_, first, GroupedRows{codes_, scales_}, object);
  }

  Format format_;
  std::span<const std::byte> source_;
  EncodedGeometry geometry_;
  uint64_t groups_ = 1;
  std::vector<float> values_;
  std::vector<int8_t> codes_;
  std::vector<uint8_t> floatCodes_;
  std::vector<uint16_t> scales_;
};

void verify(Format format, std::span<const std::byte> object) {
  ObjectEntry entry;
  entry.id = "bench";
  entry.shape = {kRows, kColumns};
  entry.format = format;
  entry.layout = layoutOf(format);
  VerifyReport report;
  Status status = verifyObject(entry, object, VerifyOptions{}, report);
  if (!status.ok())
    stop(status.error());
  if (!report.ok()) {
    std::fputs((report.findings.front().text() + "\n").c_str(), stderr);
    std::exit(1);
  }
}

} // namespace

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  if (rounds < 1 || argc > 2) {
    std::fputs("usage: ninfer-artifact-bench [ROUNDS]\n", stderr);
    return 2;
  }
  const std::vector<std::byte> source = sourceWords();
  std::vector<std::byte> copy(source.size());
  std::printf("%-22s %12s %12s %7s %12s %12s %7s   (GB/s, median of %d; source and stored bytes)\n",
              "format", "encode", "memcpy", "ratio", "verify", "memcpy", "ratio", rounds);
  for (Format format : {Format::BF16, Format::W8G32_F16S, Format::Q6G64_F16S, Format::Q5G64_F16S,
                        Format::Q4G64_F16S, Format::FP8_E4M3FN_ROW_BF16S}) {
    Encoder encoder(format, source);
    std::vector<double> encode, copySource, scan, copyObject;
    for (int i = -1; i < rounds; ++i) {
      const double e = timed([&] { encoder.run(); });
      const double c = timed([&] {
        std::memcpy(copy.data(), source.data(), source.size());
        keep(copy);
      });
      const double v = timed([&] { verify(format, encoder.object); });
      const double d = timed([&] {
        std::memcpy(copy.data(), encoder.object.data(), encoder.object.size());
        keep(copy);
      });
      if (i < 0)
        continue; // the first round touches the pages
      encode.push_back(double(source.size()) / e / 1e9);
      copySource.push_back(double(source.size()) / c / 1e9);
      scan.push_back(double(encoder.object.size()) / v / 1e9);
      copyObject.push_back(double(encoder.object.size()) / d / 1e9);
    }
    const double e = median(encode), c = median(copySource), v = median(scan),
                 d = median(copyObject);
    std::printf("%-22s %12.2f %12.2f %7.2f %12.2f %12.2f %7.2f\n",
                std::string(canonicalName(format)).c_str(), e, c, e / c, v, d, v / d);
  }
  return 0;
}
