// Built-ins around attention: rotary table and rotation, KV append, causal attention over the cache.
// A cache is keys, then values, each [kv_heads][capacity][dim] of bf16 or float32 words.
#include "artifact/formats/Words.h"
#include "runtime/reference/Ops.h"

#include <algorithm>
#include <cmath>

namespace ninfer::reference {

namespace {

enum class KvCodec { Bf16, F32 };

KvCodec readCodec(AttributeReader &a) {
  const std::string name = a.text("codec");
  a.require(name == "bf16" || name == "f32", "attribute 'codec' is '" + name + "', expected bf16 or f32");
  return name == "f32" ? KvCodec::F32 : KvCodec::Bf16;
}

int64_t codecBytes(KvCodec codec) { return codec == KvCodec::F32 ? 4 : 2; }

double loadWord(const void *cache, KvCodec codec, int64_t index) {
  if (codec == KvCodec::F32)
    return static_cast<const float *>(cache)[index];
  return decodeBf16(static_cast<const uint16_t *>(cache)[index]);
}

void storeWord(void *cache, KvCodec codec, int64_t index, float value) {
  if (codec == KvCodec::F32)
    static_cast<float *>(cache)[index] = value;
  else
    static_cast<uint16_t *>(cache)[index] = roundToBf16(value);
}

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
    for (int64_t p = begin; p < end; ++p)
      for (int64_t i = 0; i < pairs_; ++i) {
        const double angle = double(p) * frequencies_[size_t(i)];
        table[(p * pairs_ + i) * 2] = float(std::cos(angle));
        table[(p * pairs_ + i) * 2 + 1] = float(std::sin(angle));
      }
  }

private:
  int64_t capacity_, pairs_;
  std::vector<double> frequencies_;
};

/// Rotates the pairs (i, i + dim/2) of every head by the table row of its position.
class Rope final : public Builtin {
public:
  explicit Rope(AttributeReader &a)
      : heads_(a.extent("heads")), dim_(a.extent("dim")), capacity_(a.extent("capacity")) {
    a.require(dim_ % 2 == 0, "attribute 'dim' is " + std::to_string(dim_) + ", expected an even number");
  }
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, heads_, dim_, 4});
    return {{"x", bytes}, {"table", bytesOf({capacity_, dim_ / 2, 8})}, {"out", bytes, true}};
  }
  int64_t positionLimit() const override { return capacity_; }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *x = static_cast<const float *>(call.args[0]);
    const auto *table = static_cast<const float *>(call.args[1]);
    auto *y = static_cast<float *>(call.args[2]);
    const int64_t half = dim_ / 2;
    for (int64_t r = begin; r < end; ++r) {
      const float *angles = table + (call.position + r) * half * 2;
      for (int64_t h = 0; h < heads_; ++h) {
        const int64_t at = (r * heads_ + h) * dim_;
        for (int64_t i = 0; i < half; ++i) {
          const double c = angles[2 * i], s = angles[2 * i + 1];
          const double a = x[at + i], b = x[at + half + i];
          y[at + i] = float(a * c - b * s);
          y[at + half + i] = float(b * c + a * s);
        }
      }
    }
  }

private:
  int64_t heads_, dim_, capacity_;
};

/// Writes row r of key and value to cache position position + r.
class KvAppend final : public Builtin {
public:
  explicit KvAppend(AttributeReader &a)
      : heads_(a.extent("kv_heads")), dim_(a.extent("dim")), capacity_(a.extent("capacity")),
        codec_(readCodec(a)) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t row = bytesOf({rows, heads_, dim_, 4});
    const uint64_t cache = bytesOf({heads_, capacity_, dim_, codecBytes(codec_)});
    return {{"key", row}, {"value", row}, {"keys", cache, true}, {"values", cache, true}};
  }
  int64_t positionLimit() const override { return capacity_; }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t h = 0; h < heads_; ++h)
        for (int64_t i = 0; i < dim_; ++i) {
          const int64_t from = (r * heads_ + h) * dim_ + i;
          const int64_t to = (h * capacity_ + call.position + r) * dim_ + i;
          storeWord(call.args[2], codec_, to, static_cast<const float *>(call.args[0])[from]);
          storeWord(call.args[3], codec_, to, static_cast<const float *>(call.args[1])[from]);
        }
  }

private:
  int64_t heads_, dim_, capacity_;
  KvCodec codec_;
};

/// softmax(scale * q k^T) v; row r attends positions 0..position + r; query head h uses KV head
/// h / (heads / kv_heads). One unit is one head of one row.
class Attention final : public Builtin {
public:
  explicit Attention(AttributeReader &a)
      : heads_(a.extent("heads")), kvHeads_(a.extent("kv_heads")), dim_(a.extent("dim")),
        capacity_(a.extent("capacity")), codec_(readCodec(a)), scale_(a.number("scale")) {
    a.require(heads_ % kvHeads_ == 0, "attribute 'heads' is " + std::to_string(heads_) +
                                          ", expected a multiple of kv_heads " + std::to_string(kvHeads_));
  }
  int64_t units(int64_t rows) const override { return rows * heads_; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t row = bytesOf({rows, heads_, dim_, 4});
    const uint64_t cache = bytesOf({kvHeads_, capacity_, dim_, codecBytes(codec_)});
    return {{"query", row}, {"keys", cache}, {"values", cache}, {"out", row, true}};
  }
  uint64_t scratchBytes() const override { return bytesOf({capacity_, 8}); }
  int64_t positionLimit() const override { return capacity_; }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *query = static_cast<const float *>(call.args[0]);
    const void *keys = call.args[1], *values = call.args[2];
    auto *out = static_cast<float *>(call.args[3]);
    auto *weights = static_cast<double *>(call.scratch);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t length = call.position + unit / heads_ + 1;
      const int64_t kv = (unit % heads_) / (heads_ / kvHeads_) * capacity_;
      const float *q = query + unit * dim_;
      double top = -INFINITY;
      for (int64_t p = 0; p < length; ++p) {
        double dot = 0;
        for (int64_t i = 0; i < dim_; ++i)
          dot += double(q[i]) * loadWord(keys, codec_, (kv + p) * dim_ + i);
        weights[p] = dot * scale_;
        top = std::max(top, weights[p]);
      }
      double sum = 0;
      for (int64_t p = 0; p < length; ++p) {
        weights[p] = std::exp(weights[p] - top);
        sum += weights[p];
      }
      for (int64_t i = 0; i < dim_; ++i) {
        double mixed = 0;
        for (int64_t p = 0; p < length; ++p)
          mixed += weights[p] * loadWord(values, codec_, (kv + p) * dim_ + i);
        out[unit * dim_ + i] = float(mixed / sum);
      }
    }
  }

private:
  int64_t heads_, kvHeads_, dim_, capacity_;
  KvCodec codec_;
  double scale_;
};

} // namespace

std::unique_ptr<Builtin> makeRope(AttributeReader &a) { return std::make_unique<Rope>(a); }
std::unique_ptr<Builtin> makeKvAppend(AttributeReader &a) { return std::make_unique<KvAppend>(a); }
std::unique_ptr<Builtin> makeAttention(AttributeReader &a) { return std::make_unique<Attention>(a); }
std::unique_ptr<Builtin> makeRopeTable(AttributeReader &a) { return std::make_unique<RopeTable>(a); }

} // namespace ninfer::reference
