// Image files: pixels against Pillow, and everything that must be refused.
#include "runtime/image/Decode.h"

#include "Vectors.h"

#include <cmath>

namespace ninfer::image {
namespace {

using test::fromBase64;
using test::visionFile;
using test::visionVectors;

Result<vision::Image> decodeText(const std::string &bytes, const std::string &name = "x") {
  return decode(std::as_bytes(std::span(bytes)), name);
}

// PNG is exact. JPEG leaves the inverse transform and the upsampling of colour to the decoder: two libraries of one family
// may differ by a level of each.
TEST(Image, PixelsAreThoseOfPillow) {
  ASSERT_GE(visionVectors()["files"].size(), 12u);
  for (const auto &c : visionVectors()["files"]) {
    const std::string name = c["file"];
    const auto image = decodeText(visionFile(name), name);
    ASSERT_TRUE(image.ok()) << image.error().render();
    EXPECT_EQ(image->height, c["size"][0].get<int64_t>()) << name;
    EXPECT_EQ(image->width, c["size"][1].get<int64_t>()) << name;
    const std::vector<uint8_t> pixels = fromBase64(c["pixels"]);
    ASSERT_EQ(image->pixels.size(), pixels.size()) << name;
    const int bound = name.ends_with(".png") ? 0 : 2;
    for (size_t i = 0; i < pixels.size(); ++i)
      ASSERT_LE(std::abs(int(image->pixels[i]) - int(pixels[i])), bound) << name << " " << i;
  }
}

TEST(Image, TruncationAndNoiseAreRefused) {
  for (const char *name : {"rgb.png", "palette.png", "rgba.png", "rgb.jpg", "progressive.jpg"}) {
    const std::string bytes = visionFile(name);
    size_t refused = 0;
    for (size_t cut = 0; cut + 2 < bytes.size(); cut += 1 + bytes.size() / 150) {
      const auto image = decodeText(bytes.substr(0, cut), name);
      ASSERT_FALSE(image.ok()) << name << " cut at " << cut;
      EXPECT_EQ(image.error().code, "NB0723");
      EXPECT_EQ(image.error().message.rfind(name, 0), 0u) << image.error().message;
      ++refused;
    }
    EXPECT_GT(refused, 100u);
    // Any byte changed: refused or decoded, never worse. PNG has checksums, so nothing critical slips through.
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string damaged = bytes;
      damaged[at] = char(damaged[at] ^ 0x5a);
      const auto image = decodeText(damaged, name);
      if (image.ok())
        EXPECT_EQ(image->pixels.size(), size_t(image->height * image->width * 3));
    }
  }
  for (const std::string &text : {std::string(), std::string("GIF89a"), std::string("\x89PNG\r\n\x1a\n"), std::string("\xff\xd8\xff")})
    EXPECT_EQ(decodeText(text).error().code, "NB0723") << text;
}

TEST(Image, SizeIsCheckedBeforeTheMemoryIsTaken) {
  std::string bytes = visionFile("gray.png");
  for (size_t i : {16u, 20u}) // width and height behind the length and the name of IHDR
    bytes.replace(i, 4, std::string("\0\1\0\0", 4));
  // The checksum of IHDR no longer holds; libpng complains of that first, unless it is made right.
  EXPECT_EQ(decodeText(bytes).error().code, "NB0723");
  bytes.replace(29, 4, "\x49\xef\x6f\x3f"); // CRC of IHDR for 65536 x 65536, 8-bit grey
  const auto huge = decodeText(bytes, "huge.png");
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code, "NB0724");
  EXPECT_NE(huge.error().message.find("65536 x 65536 pixels, at most 67108864"), std::string::npos) << huge.error().message;
  EXPECT_EQ(checkSize(0, 5, "x").error().code, "NB0723");
  EXPECT_EQ(checkSize(UINT64_MAX, UINT64_MAX, "x").error().code, "NB0724");
  EXPECT_TRUE(checkSize(8192, 8192, "x").ok());
  EXPECT_FALSE(checkSize(8192, 8193, "x").ok());

  std::string jpeg = visionFile("rgb.jpg");
  const size_t frame = jpeg.find(std::string("\xff\xc0", 2));
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, std::string("\xff\x00\xff\x00", 4));
  const auto wide = decodeText(jpeg);
  ASSERT_FALSE(wide.ok());
  EXPECT_EQ(wide.error().code, "NB0724") << wide.error().message;
}

TEST(Image, CmykHasNoSingleWayToRgb) {
  const auto image = decodeText(visionFile("cmyk.jpg"), "cmyk.jpg");
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().code, "NB0724");
  EXPECT_NE(image.error().message.find("CMYK"), std::string::npos);
}

} // namespace
} // namespace ninfer::image
