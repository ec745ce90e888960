// Safetensors headers: what is legal, and every kind of hostile header (duplicate names, numbers
// that are no plain integers, overflow, holes, overlap, wrong sizes).
#include "convert/Safetensors.h"

#include "SourceBuilders.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

using test::safetensorsFile;
using test::TempFolder;

Result<std::vector<SourceTensor>> parse(const std::string &header, uint64_t dataBytes) {
  return parseSafetensorsHeader(header, 8 + header.size(), dataBytes, "m.safetensors");
}

std::string entry(const std::string &shape, const std::string &offsets,
                  const std::string &dtype = "\"F32\"") {
  return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

TEST(Safetensors, ReadsTensorsInFileOrder) {
  std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[3,2],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )";
  auto tensors = parse(header, 16);
  ASSERT_TRUE(tensors.ok()) << tensors.error().render();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].rows(), 1u);
  EXPECT_EQ((*tensors)[1].name, "b");
  EXPECT_EQ((*tensors)[1].type, SourceType::BF16);
  EXPECT_EQ((*tensors)[1].shape, (std::vector<uint64_t>{3, 2}));
  EXPECT_EQ((*tensors)[1].offset, 8 + header.size() + 4);
  EXPECT_EQ((*tensors)[1].rowBytes(), 4u);
}

struct Hostile {
  std::string name, header;
  uint64_t dataBytes;
  std::string message; ///< part of the expected message
};

class HostileHeader : public testing::TestWithParam<Hostile> {};

TEST_P(HostileHeader, IsRefused) {
  auto tensors = parse(GetParam().header, GetParam().dataBytes);
  ASSERT_FALSE(tensors.ok());
  EXPECT_EQ(tensors.error().kind, ErrorKind::BadFile);
  EXPECT_NE(tensors.error().message.find("m.safetensors"), std::string::npos)
      << tensors.error().message;
  EXPECT_NE(tensors.error().message.find(GetParam().message), std::string::npos)
      << tensors.error().message;
}

const std::string kTwice = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                           R"("w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";

INSTANTIATE_TEST_SUITE_P(
    Cases, HostileHeader,
    testing::Values(
        Hostile{"DuplicateTensor", kTwice, 8, "duplicate"},
        Hostile{
            "DuplicateByEscape",
            R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"\u0077":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            8, "duplicate"},
        Hostile{"DuplicateMember",
                R"({"w":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", 4,
                "duplicate"},
        Hostile{"ProductOverflows", entry("[4294967296,4294967296]", "[0,8]"), 8, "exceeds"},
        Hostile{"BytesOverflow", entry("[9223372036854775807]", "[0,8]"), 8, "exceeds"},
        Hostile{"NegativeDimension", entry("[-1,64]", "[0,8]"), 8, "dimension"},
        Hostile{"ZeroDimension", entry("[0,64]", "[0,0]"), 0, "dimension"},
        Hostile{"BeyondDouble", entry("[9007199254740993]", "[0,8]"), 8, "36028797018963972"},
        Hostile{"Exponent", entry("[1e2,64]", "[0,8]"), 8, "dimension"},
        Hostile{"Fraction", entry("[64.0,64]", "[0,8]"), 8, "dimension"},
        Hostile{"Boolean", entry("[true,64]", "[0,8]"), 8, "dimension"},
        Hostile{"LargestUnsigned", entry("[18446744073709551615]", "[0,8]"), 8, "exceeds"},
        Hostile{"BeyondUnsigned", entry("[18446744073709551616]", "[0,8]"), 8, "dimension"},
        Hostile{"StringDimension", entry("[\"2\"]", "[0,8]"), 8, "dimension"},
        Hostile{"TooManyDimensions", entry("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), 4,
                "at most 16"},
        Hostile{"ShapeIsNoArray", entry("2", "[0,8]"), 8, "shape"},
        Hostile{"WrongSize", entry("[3]", "[0,8]"), 8, "needs 12"},
        Hostile{"BeyondFile", entry("[2]", "[0,8]"), 4, "data_offsets"},
        Hostile{"Backwards", entry("[2]", "[8,0]"), 8, "data_offsets"},
        Hostile{"FloatOffset", entry("[2]", "[0,8.0]"), 8, "data_offsets"},
        Hostile{"ThreeOffsets", entry("[2]", "[0,4,8]"), 8, "data_offsets"},
        Hostile{"HoleAtStart", entry("[1]", "[4,8]"), 8, "starts at data byte 4"},
        Hostile{"HoleAtEnd", entry("[1]", "[0,4]"), 8, "the file at 8"},
        Hostile{
            "Overlap",
            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            8, "overlap"},
        Hostile{"UnknownDtype", entry("[1]", "[0,4]", "\"F33\""), 4, "unknown dtype"},
        Hostile{"DtypeIsNoString", entry("[1]", "[0,4]", "32"), 4, "unknown dtype"},
        Hostile{"UnknownMember", R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})",
                4, "'x'"},
        Hostile{"MissingMember", R"({"w":{"dtype":"F32","shape":[1]}})", 4, "data_offsets"},
        Hostile{"MetadataNotText", R"({"__metadata__":{"a":1}})", 0, "__metadata__"},
        Hostile{"NotAnObject", "[1]", 0, "'{'"}, Hostile{"LeadingSpace", " {}", 0, "'{'"},
        Hostile{"Trailing", "{} {}", 0, "m.safetensors"},
        Hostile{"Truncated", R"({"w":)", 0, "m.safetensors"}),
    [](const testing::TestParamInfo<Hostile> &info) { return info.param.name; });

TEST(Safetensors, RefusesFilesThatAreTooShortOrLieAboutTheHeader) {
  TempFolder folder;
  std::string lying;
  test::put<uint64_t>(lying, UINT64_MAX);
  std::string beyond;
  test::put<uint64_t>(beyond, 3);
  for (const std::string &bytes :
       {std::string("abc"), lying + "{}", beyond + "{}", std::string(8, '\0')}) {
    test::writeBytes(folder / "m.safetensors", bytes);
    auto file = SourceFile::open(folder / "m.safetensors");
    ASSERT_TRUE(file.ok());
    auto tensors = readSafetensors(*file);
    ASSERT_FALSE(tensors.ok());
    EXPECT_EQ(tensors.error().kind, ErrorKind::BadFile);
  }
}

TEST(SourceFile, RefusesWhatIsNoRegularFileAndReadsBeyondTheEnd) {
  TempFolder folder;
  EXPECT_FALSE(SourceFile::open(folder / "missing").ok());
  EXPECT_FALSE(SourceFile::open(folder.path()).ok());
  test::writeBytes(folder / "f", "12345");
  auto file = SourceFile::open(folder / "f");
  ASSERT_TRUE(file.ok());
  std::byte bytes[4];
  EXPECT_TRUE(file->read(1, bytes).ok());
  Status status = file->read(2, bytes);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "NB0903");
}

} // namespace
} // namespace ninfer
