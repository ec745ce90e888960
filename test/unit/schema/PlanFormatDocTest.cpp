// docs/plan-format.md shows a real file: the lines between its two marks must be the bytes the
// writer makes.
#include "PlanFixture.h"

#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace ninfer;
using namespace ninfer::test;

namespace {

std::string hexLines(const std::vector<std::byte> &file, size_t begin, size_t end,
                     const char *note) {
  std::string out;
  for (size_t at = begin; at < end; at += 16) {
    char text[32];
    std::snprintf(text, sizeof text, "%08zx ", at);
    std::string line = text;
    for (size_t i = at; i < at + 16; ++i) {
      if (i < end)
        std::snprintf(text, sizeof text, " %02x", static_cast<unsigned>(file[i]));
      else
        std::snprintf(text, sizeof text, "   ");
      line += text;
    }
    if (at == begin)
      line += std::string("  ") + note;
    while (line.back() == ' ')
      line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string annotated(const std::vector<std::byte> &file) {
  auto view = PlanView::open(file, "fixture");
  EXPECT_TRUE(view.ok());
  const size_t fbEnd = 4096 + flatbuffers::ReadScalar<uint64_t>(file.data() + 24);
  const size_t blob0 = (*view)->blobs()->Get(0)->offset(),
               blob1 = (*view)->blobs()->Get(1)->offset();
  std::string out = "```\n";
  out += hexLines(file, 0, 8, "magic");
  out += hexLines(file, 8, 12, "header_version 1");
  out += hexLines(file, 12, 16, "header_bytes 4096");
  out += hexLines(file, 16, 24, "fb_offset 4096");
  out += hexLines(file, 24, 32, ("fb_bytes " + std::to_string(fbEnd - 4096)).c_str());
  out += hexLines(file, 32, 40, ("file_bytes " + std::to_string(file.size())).c_str());
  out += hexLines(file, 40, 72, "SHA-256 of the rest of the file");
  out += "00000048  00 ...                                           reserved, zero up to 4096\n";
  out += hexLines(file, 4096, 4100, "FlatBuffer: offset of the root table");
  out += hexLines(file, 4100, 4104, "identifier NIP1");
  out += "00001008  ...                                              tables\n";
  out += hexLines(file, blob0, blob0 + 16, "blob 0 (300 bytes), zeros before it");
  out += "...\n";
  out += hexLines(file, blob1, blob1 + 16, "blob 1 (64 bytes), ends the file");
  return out + "...\n```\n";
}

TEST(PlanFormatDoc, HexDumpIsTheRealFile) {
  std::ifstream in(std::string(NINFER_SOURCE_DIR) + "/docs/plan-format.md");
  ASSERT_TRUE(in.good());
  const std::string page(std::istreambuf_iterator<char>(in), {});
  const std::string open = "<!-- hex: begin -->\n", close = "<!-- hex: end -->";
  const size_t begin = page.find(open), end = page.find(close);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  EXPECT_EQ(page.substr(begin + open.size(), end - begin - open.size()),
            annotated(buildPlan(smallPlan(), smallBlobs()).take()));
}

} // namespace
