#include "runtime/reference/WeightRows.h"

#include "artifact/formats/Words.h"
#include "support/Bytes.h"

namespace ninfer::reference {

WeightRows::WeightRows(AttributeReader &a) {
  const std::string formatName = a.text("format"), layoutName = a.text("layout");
  n_ = a.extent("n");
  k_ = a.extent("k");
  const auto format = formatFromCanonical(formatName);
  const auto layout = layoutFromCanonical(layoutName);
  a.require(format.has_value(), "attribute 'format' is '" + formatName + "', not a registered format");
  a.require(layout.has_value(), "attribute 'layout' is '" + layoutName + "', not a registered layout");
  if (!format || !layout)
    return;
  const uint64_t shape[] = {uint64_t(n_), uint64_t(k_)};
  auto geometry = encodedGeometry(*format, *layout, shape);
  if (geometry.ok())
    geometry_ = geometry.take();
  else
    a.require(false, geometry.error().message);
}

void WeightRows::appendNeeds(std::vector<ArgNeed> &needs) const {
  for (const PlaneInfo &plane : geometry_.planes)
    needs.push_back({plane.name, plane.bytes});
}

void WeightRows::decode(void *const *planes, int64_t row, float *out) const {
  const auto plane = [&](size_t p) {
    return static_cast<const uint8_t *>(planes[p]) + uint64_t(row) * geometry_.planes[p].rowBytes;
  };
  switch (geometry_.format) {
  case Format::BF16:
    for (int64_t i = 0; i < k_; ++i)
      out[i] = decodeBf16(loadLe16(plane(0) + 2 * i));
    return;
  case Format::FP32:
    for (int64_t i = 0; i < k_; ++i)
      out[i] = floatFromBits(loadLe32(plane(0) + 4 * i));
    return;
  case Format::I32:
    for (int64_t i = 0; i < k_; ++i)
      out[i] = float(int32_t(loadLe32(plane(0) + 4 * i)));
    return;
  case Format::Q4G64_F16S:
  case Format::Q5G64_F16S:
  case Format::Q6G64_F16S: {
    // Low nibbles, two per byte; the upper bits of a code lie `upper` per lane in the high plane.
    const uint32_t bits = formatInfo(geometry_.format).bits, upper = bits - 4;
    const uint8_t *base = plane(0), *high = upper ? plane(1) : nullptr, *scales = plane(upper ? 2 : 1);
    for (int64_t i = 0; i < k_; ++i) {
      uint32_t code = (base[i / 2] >> (4 * (i % 2))) & 15u;
      for (uint32_t b = 0; b < upper; ++b) {
        const int64_t bit = i * upper + b;
        code |= ((high[bit / 8] >> (bit % 8)) & 1u) << (4 + b);
      }
      out[i] = reconstructGrouped(loadLe16(scales + i / 64 * 2), signExtend(code, bits));
    }
    return;
  }
  case Format::W8G32_F16S:
    for (int64_t i = 0; i < k_; ++i)
      out[i] = reconstructGrouped(loadLe16(plane(1) + i / 32 * 2), int8_t(plane(0)[i]));
    return;
  case Format::FP8_E4M3FN_ROW_BF16S:
    for (int64_t i = 0; i < k_; ++i)
      out[i] = reconstructRowScaled(loadLe16(plane(1)), plane(0)[i]);
    return;
  case Format::NVFP4: {
    // The scale plane is ordered by tiles of 128 rows, so its offset is not row * rowBytes.
    const auto *scales = static_cast<const uint8_t *>(planes[1]);
    const uint32_t divisor = loadLe32(planes[2]);
    for (int64_t i = 0; i < k_; ++i) {
      const uint64_t at = scaleOffset(geometry_, uint64_t(row), uint64_t(i / 16)) - geometry_.planes[1].offset;
      const uint8_t code = (plane(0)[i / 2] >> (4 * (i % 2))) & 15u;
      out[i] = reconstructBlockScaled(scales[at], code, divisor);
    }
    return;
  }
  }
}

} // namespace ninfer::reference
