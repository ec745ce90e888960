// Built-ins around attention: rotary table and rotation, KV append, causal attention over the cache.
// A cache is keys, then values: planes [kv_heads][capacity][dim] of bf16 or float32 words, or int8 codes (padded to 64
// bytes) and behind them binary16 scales [kv_heads][capacity][ceil(dim / 64)].
#include "artifact/formats/Words.h"
#include "runtime/reference/Ops.h"
#include "support/Bytes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ninfer::reference {

namespace {

enum class KvCodec { Bf16, F32, Int8 };

/// The shape and encoding of one plane (keys or values) of a KV cache; row(h, p) numbers head h at position p.
class KvPlane {
public:
  explicit KvPlane(AttributeReader &a)
      : heads_(a.extent("kv_heads")), dim_(a.extent("dim")), capacity_(a.extent("capacity")) {
    const std::string name = a.text("codec");
    a.require(name == "bf16" || name == "f32" || name == "int8",
              "attribute 'codec' is '" + name + "', expected bf16, f32 or int8");
    codec_ = name == "f32" ? KvCodec::F32 : name == "int8" ? KvCodec::Int8 : KvCodec::Bf16;
  }
  int64_t heads() const { return heads_; }
  int64_t dim() const { return dim_; }
  int64_t capacity() const { return capacity_; }
  int64_t row(int64_t head, int64_t position) const { return head * capacity_ + position; }

  uint64_t bytes() const {
    if (codec_ != KvCodec::Int8)
      return bytesOf({heads_, capacity_, dim_, codec_ == KvCodec::F32 ? 4 : 2});
    const uint64_t codes = bytesOf({heads_, capacity_, dim_}), scales = bytesOf({heads_, capacity_, groups(), 2});
    if (codes > UINT64_MAX / 4 || scales > UINT64_MAX / 4)
      return UINT64_MAX;
    return scalesAt() + scales;
  }

  double load(const void *plane, int64_t row, int64_t i) const {
    const int64_t at = row * dim_ + i;
    switch (codec_) {
    case KvCodec::F32: return static_cast<const float *>(plane)[at];
    case KvCodec::Bf16: return decodeBf16(static_cast<const uint16_t *>(plane)[at]);
    case KvCodec::Int8: break;
    }
    const auto *bytes = static_cast<const uint8_t *>(plane);
    const uint16_t scale = loadLe16(bytes + scalesAt() + uint64_t(row * groups() + i / kGroup) * 2);
    return double(static_cast<const int8_t *>(plane)[at]) * double(decodeF16(scale));
  }

  void store(void *plane, int64_t row, const float *x) const {
    if (codec_ == KvCodec::Int8)
      return storeInt8(plane, row, x);
    for (int64_t i = 0; i < dim_; ++i)
      if (codec_ == KvCodec::F32)
        static_cast<float *>(plane)[row * dim_ + i] = x[i];
      else
        static_cast<uint16_t *>(plane)[row * dim_ + i] = roundToBf16(x[i]);
  }

private:
  static constexpr int64_t kGroup = 64; ///< values that share a scale; the last group of a row may be shorter

  int64_t groups() const { return (dim_ + kGroup - 1) / kGroup; }
  uint64_t scalesAt() const { return (uint64_t(heads_) * uint64_t(capacity_) * uint64_t(dim_) + 63) / 64 * 64; }

  /// Per group: scale = binary16 of max|x| / 127, code = round(x * (1 / scale)) to nearest even within +-127. This is the
  /// definition of the stored words, so each step is in float32. A scale beyond binary16 becomes its largest number.
  void storeInt8(void *plane, int64_t row, const float *x) const {
    auto *codes = static_cast<int8_t *>(plane) + row * dim_;
    auto *scales = static_cast<uint8_t *>(plane) + scalesAt() + uint64_t(row * groups()) * 2;
    for (int64_t first = 0; first < dim_; first += kGroup, scales += 2) {
      const int64_t end = std::min(dim_, first + kGroup);
      float top = 0;
      for (int64_t i = first; i < end; ++i)
        top = std::max(top, std::fabs(x[i]));
      const uint16_t word = roundToF16(std::min(top / 127.0f, 65504.0f));
      const float scale = decodeF16(word), inverse = scale > 0 ? 1.0f / scale : 0.0f;
      for (int64_t i = first; i < end; ++i) {
        const float code = std::clamp(std::nearbyint(x[i] * inverse), -127.0f, 127.0f);
        codes[i] = std::isnan(code) ? int8_t(0) : int8_t(code);
      }
      storeLe16(scales, word);
    }
  }

  int64_t heads_, dim_, capacity_;
  KvCodec codec_ = KvCodec::Bf16;
};

/// table[p][i] = {cos, sin} of p * inv_freq[i].
class RopeTable final : public Builtin {
public:
  explicit RopeTable(AttributeReader &a)
      : capacity_(a.extent("capacity")), pairs_(a.extent("pairs")), frequencies_(a.numbers("inv_freq")) {
    a.require(int64_t(frequencies_.size()) == pairs_, "attribute 'inv_freq' has " +
                                                          std::to_string(frequencies_.size()) +
                                                          " values, expected " + std::to_string(pairs_));
  }
  int64_t units(int64_t) const override { return capacity_; }
  std::vector<ArgNeed> args(int64_t) const override { return {{"table", bytesOf({capacity_, pairs_, 8}), true}}; }
  int64_t positionLimit() const override { return capacity_; }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    auto *table = static_cast<float *>(call.args[0]);
    // The angle of a position is that of the block of kBlock positions it lies in and that of its place in the block: two sums of products in
    // double in place of a sine and a cosine, which would take most of the time of making a context. Blocks begin at multiples of kBlock
    // whatever the range, so that a row is the same however threads share them.
    constexpr int64_t kBlock = 32, kLanes = 8; // lanes: pairs of one cache line of the table
    for (int64_t first = 0; first < pairs_; first += kLanes) {
      const int64_t lanes = std::min(kLanes, pairs_ - first);
      double placeCos[kBlock][kLanes] = {}, placeSin[kBlock][kLanes] = {}, blockCos[kLanes] = {}, blockSin[kLanes] = {};
      for (int64_t place = 0; place < kBlock; ++place)
        turn(place, first, lanes, placeCos[place], placeSin[place]);
      for (int64_t p = begin; p < end; ++p) {
        const int64_t place = p % kBlock;
        if (place == 0 || p == begin)
          turn(p - place, first, lanes, blockCos, blockSin);
        float *row = table + (p * pairs_ + first) * 2;
        for (int64_t i = 0; i < lanes; ++i) {
          row[2 * i] = float(blockCos[i] * placeCos[place][i] - blockSin[i] * placeSin[place][i]);
          row[2 * i + 1] = float(blockSin[i] * placeCos[place][i] + blockCos[i] * placeSin[place][i]);
        }
      }
    }
  }

private:
  void turn(int64_t position, int64_t first, int64_t lanes, double *cosines, double *sines) const {
    for (int64_t i = 0; i < lanes; ++i) {
      const double angle = double(position) * frequencies_[size_t(first + i)];
      cosines[i] = std::cos(angle);
      sines[i] = std::sin(angle);
    }
  }

  int64_t capacity_, pairs_;
  std::vector<double> frequencies_;
};

/// Rotates the pairs (i, i + pairs) of every head by the table row of its position; the rest is copied.
class Rope final : public Builtin {
public:
  explicit Rope(AttributeReader &a)
      : heads_(a.extent("heads")), dim_(a.extent("dim")), capacity_(a.extent("capacity")),
        pairs_(a.extentOr("pairs", 0)) {
    a.require(pairs_ <= dim_ / 2, "attribute 'pairs' is " + std::to_string(pairs_) + ", expected at most dim / 2 = " +
                                      std::to_string(dim_ / 2));
    a.require(pairs_ > 0 || dim_ % 2 == 0,
              "attribute 'dim' is " + std::to_string(dim_) + ", expected an even number");
    if (pairs_ == 0)
      pairs_ = dim_ / 2;
  }
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, heads_, dim_, 4});
    return {{"x", bytes}, {"table", bytesOf({capacity_, pairs_, 8})}, {"out", bytes, true}};
  }
  int64_t positionLimit() const override { return capacity_; }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *x = static_cast<const float *>(call.args[0]);
    const auto *table = static_cast<const float *>(call.args[1]);
    auto *y = static_cast<float *>(call.args[2]);
    for (int64_t r = begin; r < end; ++r) {
      const float *angles = table + (call.position + r) * pairs_ * 2;
      for (int64_t h = 0; h < heads_; ++h) {
        const int64_t at = (r * heads_ + h) * dim_;
        for (int64_t i = 0; i < pairs_; ++i) {
          const double c = angles[2 * i], s = angles[2 * i + 1];
          const double a = x[at + i], b = x[at + pairs_ + i];
          y[at + i] = float(a * c - b * s);
          y[at + pairs_ + i] = float(b * c + a * s);
        }
        for (int64_t i = 2 * pairs_; i < dim_; ++i)
          y[at + i] = x[at + i];
      }
    }
  }

private:
  int64_t heads_, dim_, capacity_, pairs_;
};

/// Writes row r of key and value to cache position position + r.
class KvAppend final : public Builtin {
public:
  explicit KvAppend(AttributeReader &a) : plane_(a) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t row = bytesOf({rows, plane_.heads(), plane_.dim(), 4});
    return {{"key", row}, {"value", row}, {"keys", plane_.bytes(), true}, {"values", plane_.bytes(), true}};
  }
  int64_t positionLimit() const override { return plane_.capacity(); }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t h = 0; h < plane_.heads(); ++h)
        for (int i = 0; i < 2; ++i) {
          const float *x = static_cast<const float *>(call.args[i]) + (r * plane_.heads() + h) * plane_.dim();
          plane_.store(call.args[2 + i], plane_.row(h, call.position + r), x);
        }
  }

private:
  KvPlane plane_;
};

/// softmax(scale * q k^T) v; row r attends positions 0..position + r; query head h uses KV head
/// h / (heads / kv_heads). One unit is one head of one row.
class Attention final : public Builtin {
public:
  explicit Attention(AttributeReader &a) : heads_(a.extent("heads")), plane_(a), scale_(a.number("scale")) {
    a.require(heads_ % plane_.heads() == 0, "attribute 'heads' is " + std::to_string(heads_) +
                                                ", expected a multiple of kv_heads " + std::to_string(plane_.heads()));
  }
  int64_t units(int64_t rows) const override { return rows * heads_; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t row = bytesOf({rows, heads_, plane_.dim(), 4});
    return {{"query", row}, {"keys", plane_.bytes()}, {"values", plane_.bytes()}, {"out", row, true}};
  }
  uint64_t scratchBytes() const override { return bytesOf({plane_.capacity(), 8}); }
  int64_t positionLimit() const override { return plane_.capacity(); }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *query = static_cast<const float *>(call.args[0]);
    const void *keys = call.args[1], *values = call.args[2];
    auto *out = static_cast<float *>(call.args[3]);
    auto *weights = static_cast<double *>(call.scratch);
    const int64_t dim = plane_.dim();
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t length = call.position + unit / heads_ + 1;
      const int64_t first = plane_.row((unit % heads_) / (heads_ / plane_.heads()), 0);
      const float *q = query + unit * dim;
      double top = -INFINITY;
      for (int64_t p = 0; p < length; ++p) {
        double dot = 0;
        for (int64_t i = 0; i < dim; ++i)
          dot += double(q[i]) * plane_.load(keys, first + p, i);
        weights[p] = dot * scale_;
        top = std::max(top, weights[p]);
      }
      double sum = 0;
      for (int64_t p = 0; p < length; ++p) {
        weights[p] = std::exp(weights[p] - top);
        sum += weights[p];
      }
      for (int64_t i = 0; i < dim; ++i) {
        double mixed = 0;
        for (int64_t p = 0; p < length; ++p)
          mixed += weights[p] * plane_.load(values, first + p, i);
        out[unit * dim + i] = float(mixed / sum);
      }
    }
  }

private:
  int64_t heads_;
  KvPlane plane_;
  double scale_;
};

/// Row position + r of `placed` from the rows of `angles` that the positions of row r name, pair by pair. A position
/// outside of `angles` gives NaN.
class PlaceAngles final : public Builtin {
public:
  explicit PlaceAngles(AttributeReader &a)
      : capacity_(a.extent("capacity")), positions_(a.extent("positions")), width_(a.extent("width", 16)) {
    for (double axis : a.numbers("axes")) {
      a.require(axis >= 0 && axis < double(width_) && axis == std::floor(axis),
                "attribute 'axes' holds " + std::to_string(axis) + ", not one of " + std::to_string(width_) + " positions");
      axes_.push_back(int64_t(axis));
    }
  }
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const auto pairs = int64_t(axes_.size());
    return {{"positions", bytesOf({rows, width_, 4})},
            {"angles", bytesOf({positions_, pairs, 8})},
            {"placed", bytesOf({capacity_, pairs, 8}), true}};
  }
  int64_t positionLimit() const override { return capacity_; }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto pairs = int64_t(axes_.size());
    const auto *angles = static_cast<const float *>(call.args[1]);
    for (int64_t r = begin; r < end; ++r) {
      const int32_t *positions = static_cast<const int32_t *>(call.args[0]) + r * width_;
      float *out = static_cast<float *>(call.args[2]) + (call.position + r) * pairs * 2;
      for (int64_t i = 0; i < pairs; ++i) {
        const int64_t at = positions[axes_[size_t(i)]];
        const bool inside = at >= 0 && at < positions_;
        for (int64_t part : {0, 1})
          out[2 * i + part] = inside ? angles[(at * pairs + i) * 2 + part] : std::numeric_limits<float>::quiet_NaN();
      }
    }
  }

private:
  int64_t capacity_, positions_, width_;
  std::vector<int64_t> axes_;
};

} // namespace

std::unique_ptr<Builtin> makePlaceAngles(AttributeReader &a) { return std::make_unique<PlaceAngles>(a); }
std::unique_ptr<Builtin> makeRope(AttributeReader &a) { return std::make_unique<Rope>(a); }
std::unique_ptr<Builtin> makeKvAppend(AttributeReader &a) { return std::make_unique<KvAppend>(a); }
std::unique_ptr<Builtin> makeAttention(AttributeReader &a) { return std::make_unique<Attention>(a); }
std::unique_ptr<Builtin> makeRopeTable(AttributeReader &a) { return std::make_unique<RopeTable>(a); }

} // namespace ninfer::reference
