// What a conversion may write to: which existing files --force replaces, and names that are too long.
#include "SourceBuilders.h"
#include "convert/Converter.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

Result<ConvertReport> convert(const fs::path &source, const fs::path &output, bool force = false,
                              std::optional<uint64_t> maxFileBytes = {}) {
  ConvertOptions options;
  options.source = source;
  options.output = output;
  options.force = force;
  options.maxFileBytes = maxFileBytes;
  options.threads = 2;
  return convertCheckpoint(options);
}

TEST(ConvertOutput, ForceReplacesArtifactsAndEmptyFilesOnly) {
  TempFolder in, out;
  writeTinyFolder(in.path(), tinyTensors(), "F32");
  writeBytes(out / "quantize_config.json", "{}");
  writeBytes(in / "recipe.toml", "[formats]\ndefault = \"w8\"\n");
  writeBytes(out / "part", std::string("NINPRT\0\3", 8) + std::string(24, '\0'));
  writeBytes(out / "plan", std::string("NINPLAN\0", 8));
  const std::pair<fs::path, const char *> kept[] = {
      {in / "config.json", "a text file"},
      {in / "tokenizer.json", "a text file"},
      {out / "quantize_config.json", "a text file"},
      {in / "recipe.toml", "a text file"},
      {out / "part", "a part of a .ninfer artifact"},
      {out / "plan", "a plan of ninfer-build"}};
  for (const auto &[target, kind] : kept) {
    const std::string before = readBytes(target);
    auto refused = convert(in.path(), target, true);
    ASSERT_FALSE(refused.ok()) << target;
    EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
    EXPECT_EQ(refused.error().code, "NB0905");
    EXPECT_EQ(refused.error().message,
              target.string() + ": exists and is " + kind +
                  "; only a .ninfer artifact or an empty file is replaced");
    EXPECT_TRUE(readBytes(target) == before) << target;
  }
  fs::create_symlink(in / "config.json", out / "link");
  EXPECT_FALSE(convert(in.path(), out / "link", true).ok());
  writeBytes(out / "empty", "");
  EXPECT_TRUE(convert(in.path(), out / "empty", true).ok());
  EXPECT_TRUE(convert(in.path(), out / "empty", true).ok()) << "now an artifact";
}

TEST(ConvertOutput, NamesTheFileSystemCannotHoldAreRefusedBeforeAnyWork) {
  TempFolder out;
  const fs::path none = out / "no such source";
  const auto code = [](const Result<ConvertReport> &r) {
    return r.ok() ? std::string("ok") : r.error().code;
  };
  EXPECT_EQ(code(convert(none, out / std::string(256, 'n'))), "NB0904");
  EXPECT_NE(code(convert(none, out / std::string(255, 'n'))), "NB0904");
  // ".<16 digits>.part-0001" is 27 bytes.
  EXPECT_EQ(code(convert(none, out / std::string(229, 'n'), false, 1u << 30)), "NB0904");
  EXPECT_NE(code(convert(none, out / std::string(228, 'n'), false, 1u << 30)), "NB0904");
}

} // namespace
} // namespace ninfer
