// The pack kernel against the layout written from its definition, byte for byte: every code and scale is where it belongs,
// and padding is zero.
#include "test/cuda/Keys.h"
#include "test/cuda/Support.h"
#include "test/cuda/Weights.h"

#include "codegen/cuda/PackHost.h"
#include "codegen/cuda/kernels/panel.cuh"

#include <gtest/gtest.h>

namespace ninfer::cuda {
namespace {

class Pack : public testing::TestWithParam<ni::Format> {};

void check(ni::Format f, uint32_t n, uint32_t k, uint32_t blocks, const emulator::Options &mode) {
  std::mt19937_64 random(n * 1000 + k);
  const Weight weight = randomWeight(f, n, k, random);
  const std::vector<uint8_t> expected = packedByDefinition(weight);
  ASSERT_EQ(expected.size(), ni::packedBytes(f, n, k));
  const KernelText text = packKernel(f, 0);
  std::vector<Array> planes;
  for (const PlaneInfo &plane : weight.geometry.planes) {
    const auto *at = reinterpret_cast<const uint8_t *>(weight.object.data()) + plane.offset;
    planes.emplace_back(std::vector<uint8_t>(at, at + plane.bytes), plane.name);
  }
  const auto plane = [&](Arguments &args, std::initializer_list<const char *> names) {
    for (const char *name : names)
      if (const int i = weight.geometry.findPlane(name); i >= 0) {
        args.pointer(planes[size_t(i)]);
        return;
      }
    args.null();
  };
  Array packed(expected.size(), true, "packed");
  Arguments args;
  plane(args, {"base", "codes", "words"});
  plane(args, {"high"});
  plane(args, {"scales"});
  plane(args, {"divisor"});
  args.pointer(packed).u32(n).u32(k);
  ASSERT_EQ(launch(text, {blocks}, args, mode), "") << n << "x" << k;
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(packed.data()[i], expected[i]) << text.name << " " << n << "x" << k << " byte " << i;
}

TEST_P(Pack, EqualsTheDefinition) {
  const ni::Format f = GetParam();
  emulator::Options mode;
  if (f == ni::Format::Nvfp4) {
    check(f, 128, 64, 8, mode);
    check(f, 256, 192, 3, mode);
    return;
  }
  for (uint32_t n : {1u, 16u, 37u})
    for (uint32_t k : {1u, 64u, 130u, 257u}) {
      mode.order = emulator::Order((n + k) % 3);
      check(f, n, k, n == 37 ? 2 : (n + 15) / 16, mode);
    }
}

/// The host's panels are those of the definition, and so the kernel's; a range of panels touches no other.
void checkHost(ni::Format f, uint32_t n, uint32_t k, uint32_t step) {
  std::mt19937_64 random(n * 1000 + k + 1);
  const Weight weight = randomWeight(f, n, k, random);
  const std::vector<uint8_t> expected = packedByDefinition(weight);
  StoredPlanes planes;
  for (const PlaneInfo &plane : weight.geometry.planes) {
    const std::string_view name = plane.name;
    (name == "high" ? planes.high : name == "scales" ? planes.scales : name == "divisor" ? planes.divisor : planes.codes) =
        weight.object.data() + plane.offset;
  }
  std::vector<uint8_t> packed(expected.size(), 0xff);
  const uint32_t panels = (n + 15) / 16;
  const uint64_t bytes = expected.size() / panels;
  for (uint32_t first = 0; first < panels; first += step) {
    const uint32_t last = std::min(panels, first + step);
    packPanels(f, n, k, planes, first, last, reinterpret_cast<std::byte *>(packed.data()));
    for (size_t i = 0; i < last * bytes; ++i)
      ASSERT_EQ(packed[i], expected[i]) << shortName(f) << " " << n << "x" << k << " byte " << i;
    for (size_t i = last * bytes; i < packed.size(); ++i)
      ASSERT_EQ(packed[i], 0xff) << shortName(f) << " " << n << "x" << k << ": written ahead, byte " << i;
  }
}

TEST_P(Pack, HostEqualsTheDefinition) {
  const ni::Format f = GetParam();
  if (f == ni::Format::Nvfp4) {
    for (uint32_t k : {64u, 192u, 256u, 1088u})
      checkHost(f, k == 192 ? 256 : 128, k, 3);
    return;
  }
  for (uint32_t n : {1u, 16u, 37u, 128u})
    for (uint32_t k : {1u, 33u, 64u, 127u, 128u, 130u, 257u, 1088u})
      checkHost(f, n, k, n == 128 ? 3 : 1);
}

std::string formatName(const testing::TestParamInfo<ni::Format> &info) { return std::string(shortName(info.param)); }
INSTANTIATE_TEST_SUITE_P(Formats, Pack, testing::ValuesIn(keys::pack()), formatName);

} // namespace
} // namespace ninfer::cuda
