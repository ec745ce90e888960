// Resizing and patches, against the library's processor on Pillow.
#include "runtime/vision/Preprocess.h"

#include "Vectors.h"
#include "runtime/image/Decode.h"

#include <cmath>

namespace ninfer::vision {
namespace {

using test::fromBase64;
using test::visionFile;
using test::visionVectors;

nlohmann::json validConfig() {
  return {{"patch_size", 16},   {"temporal_patch_size", 2},
          {"merge_size", 2},    {"size", {{"shortest_edge", 65536}, {"longest_edge", 16777216}}},
          {"image_mean", {0.5, 0.5, 0.5}}, {"image_std", {0.5, 0.5, 0.5}}};
}

TEST(ImageConfig, ReadsBothSpellingsOfTheLimits) {
  auto config = parseImageConfig(validConfig().dump(), "p.json");
  ASSERT_TRUE(config.ok()) << config.error().render();
  EXPECT_EQ(config->patchWidth(), 1536);
  EXPECT_EQ(config->minPixels, 65536);
  EXPECT_EQ(config->maxPixels, 16777216);
  auto json = validConfig();
  json.erase("size");
  json["min_pixels"] = 3136;
  json["max_pixels"] = 1003520;
  json["rescale_factor"] = 0.00392156862745098;
  json["resample"] = 3;
  json["do_convert_rgb"] = true;
  json["image_processor_type"] = "Qwen2VLImageProcessorFast";
  config = parseImageConfig(json.dump(), "p.json");
  ASSERT_TRUE(config.ok()) << config.error().render();
  EXPECT_EQ(config->minPixels, 3136);
}

TEST(ImageConfig, RefusesWhatItDoesNotDo) {
  struct Case {
    const char *member;
    nlohmann::json value;
    const char *code, *says;
  };
  for (const Case &c : std::initializer_list<Case>{
           {"patch_size", nullptr, "NB0720", "patch_size"},
           {"patch_size", 0, "NB0720", "patch_size"},
           {"merge_size", 1.5, "NB0720", "merge_size"},
           {"image_mean", {0.5, 0.5}, "NB0720", "image_mean must be an array of 3 numbers"},
           {"image_std", {0.5, 0.5, 0.0}, "NB0720", "image_std must be positive"},
           {"size", {{"shortest_edge", 10}, {"longest_edge", 5}}, "NB0720", "the fewest pixels (10) exceed the most (5)"},
           {"do_normalize", false, "NB0721", "only true is supported"},
           {"resample", 2, "NB0721", "only 3 is supported"},
           {"rescale_factor", 0.5, "NB0721", "only 1/255 is supported"}}) {
    auto json = validConfig();
    json[c.member] = c.value;
    const auto config = parseImageConfig(json.dump(), "p.json");
    ASSERT_FALSE(config.ok()) << c.member;
    EXPECT_EQ(config.error().code, c.code) << config.error().render();
    EXPECT_NE(config.error().message.find(c.says), std::string::npos) << config.error().message;
  }
  EXPECT_EQ(parseImageConfig("[]", "p.json").error().code, "NB0720");
  EXPECT_EQ(parseImageConfig("{", "p.json").error().code, "NB0720");
}

TEST(SmartGrid, IsThatOfTheLibrary) {
  int refused = 0;
  for (const auto &c : visionVectors()["sizes"]) {
    const auto v = c["case"].get<std::vector<int64_t>>();
    ImageConfig config;
    config.patchSize = v[2], config.mergeSize = v[3], config.minPixels = v[4], config.maxPixels = v[5];
    const auto got = smartGrid(v[0], v[1], config, int64_t(1) << 30);
    // The library makes an image without pixels of one much smaller than a patch; here that is refused.
    if (c["size"].is_null() || c["size"][0] == 0 || c["size"][1] == 0) {
      ASSERT_FALSE(got.ok()) << c["case"];
      EXPECT_EQ(got.error().code, "NB0722");
      ++refused;
      continue;
    }
    ASSERT_TRUE(got.ok()) << c["case"] << got.error().render();
    EXPECT_EQ(got->height * v[2], c["size"][0].get<int64_t>()) << c["case"];
    EXPECT_EQ(got->width * v[2], c["size"][1].get<int64_t>()) << c["case"];
  }
  EXPECT_GE(refused, 1);
}

TEST(SmartGrid, KeepsToThePlan) {
  ImageConfig config;
  config.patchSize = 16, config.mergeSize = 2, config.minPixels = 65536, config.maxPixels = 16777216;
  const auto grid = smartGrid(4000, 3000, config, 1024);
  ASSERT_TRUE(grid.ok());
  EXPECT_LE(grid->patches(), 1024);
  EXPECT_GE(grid->patches(), 900);
  EXPECT_EQ(smartGrid(448, 448, config, 200).error().code, "NB0722"); // the fewest pixels are 256 patches
  EXPECT_EQ(smartGrid(0, 5, config, 1024).error().code, "NB0722");
  EXPECT_EQ(smartGrid(INT64_MAX, INT64_MAX, config, 1024).error().code, "NB0722");
}

// Pillow works with weights of 22 bits behind the point, so where a sum falls on the half of a level the two may part by
// one level; counted below. In floating point a level of a bicubic sum is that close to a half once in 2^20.
TEST(PatchRows, AreThoseOfTheLibrary) {
  ASSERT_GE(visionVectors()["patches"].size(), 3u);
  for (const auto &c : visionVectors()["patches"]) {
    SCOPED_TRACE(c["file"].dump() + c["grid"].dump());
    const std::string bytes = visionFile(c["file"]);
    const auto image = image::decode(std::as_bytes(std::span(bytes)), c["file"]);
    ASSERT_TRUE(image.ok());
    const auto config = parseImageConfig(c["config"].dump(), "p.json");
    ASSERT_TRUE(config.ok()) << config.error().render();
    const auto grid = smartGrid(image->height, image->width, *config, 4096);
    ASSERT_TRUE(grid.ok());
    EXPECT_EQ(*grid, (Grid{c["grid"][0], c["grid"][1]}));
    const std::vector<float> rows = patchRows(*image, *grid, *config);
    const std::vector<uint8_t> levels = fromBase64(c["levels"]);
    ASSERT_EQ(rows.size(), levels.size());
    size_t apart = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const double level = (double(rows[i]) * 0.5 + 0.5) * 255;
      ASSERT_NEAR(level, std::nearbyint(level), 1e-4); // a whole level, normalised
      ASSERT_LE(std::abs(level - levels[i]), 1.001) << i;
      apart += std::abs(level - levels[i]) > 0.5;
    }
    EXPECT_LE(apart, rows.size() / 1000);
  }
}

// A constant stays; sizes of one pixel work; a linear ramp stays one inside when it shrinks by a whole factor.
TEST(Resize, Invariants) {
  Image flat{5, 7, std::vector<uint8_t>(5 * 7 * 3, 93)};
  for (const auto &[h, w] : {std::pair(1, 1), std::pair(13, 3), std::pair(2, 40)}) {
    const Image out = resize(flat, h, w);
    EXPECT_EQ(out.pixels, std::vector<uint8_t>(size_t(h * w * 3), 93));
  }
  Image one{1, 1, {10, 20, 30}};
  EXPECT_EQ(resize(one, 2, 1).pixels, (std::vector<uint8_t>{10, 20, 30, 10, 20, 30}));
  Image ramp{1, 64, {}};
  for (int x = 0; x < 64; ++x)
    ramp.pixels.insert(ramp.pixels.end(), 3, uint8_t(4 * x));
  const Image half = resize(ramp, 1, 32);
  for (int x = 4; x < 28; ++x) // centres between two pixels
    EXPECT_EQ(half.pixels[size_t(3 * x)], 4 * 2 * x + 2);
}

} // namespace
} // namespace ninfer::vision
