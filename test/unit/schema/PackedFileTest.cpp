// The header of packed weights: the byte table of docs/plan-format.md, and every rule of its reader.
#include "schema/PackedFile.h"

#include "support/Bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace ninfer {
namespace {

PackedHeader example() {
  PackedHeader header;
  header.fileBytes = 12388;
  header.payloadBytes = 7777;
  header.storageSignature.fill(0x11);
  header.payloadSample.fill(0x22);
  header.sections = {{{}, 4096, 4000, {}}, {{}, 8192, 4196, {}}};
  header.sections[0].packing.fill(0x33);
  header.sections[1].packing.fill(0x44);
  header.sections[0].content = sha256(std::vector<std::byte>(4000, std::byte(0x55)));
  header.sections[1].content = sha256(std::vector<std::byte>(4196, std::byte(0x66)));
  return header;
}

std::vector<std::byte> file(const PackedHeader &header) {
  std::vector<std::byte> bytes = encodePackedHeader(header);
  bytes.resize(header.fileBytes);
  std::fill_n(bytes.begin() + 4096, 4000, std::byte(0x55));
  std::fill_n(bytes.begin() + 8192, 4196, std::byte(0x66));
  return bytes;
}

TEST(PackedFile, BytesAreThoseOfTheTable) {
  const std::vector<std::byte> bytes = encodePackedHeader(example());
  ASSERT_EQ(bytes.size(), 4096u);
  EXPECT_EQ(std::memcmp(bytes.data(), "NINPACK\0", 8), 0);
  EXPECT_EQ(loadLe32(&bytes[8]), 2u);
  EXPECT_EQ(loadLe32(&bytes[12]), 4096u);
  EXPECT_EQ(loadLe32(&bytes[16]), 1u);
  EXPECT_EQ(loadLe32(&bytes[20]), 2u);
  EXPECT_EQ(loadLe64(&bytes[24]), 12388u);
  EXPECT_EQ(loadLe64(&bytes[32]), 7777u);
  EXPECT_EQ(bytes[40], std::byte(0x11));
  EXPECT_EQ(bytes[72], std::byte(0x22));
  EXPECT_EQ(bytes[192], std::byte(0x33));
  EXPECT_EQ(loadLe64(&bytes[192 + 32]), 4096u);
  EXPECT_EQ(std::memcmp(&bytes[192 + 64], sha256(std::vector<std::byte>(4000, std::byte(0x55))).data(), 32), 0);
  EXPECT_EQ(bytes[288], std::byte(0x44));
  EXPECT_EQ(loadLe64(&bytes[288 + 40]), 4196u);
  std::vector<std::byte> zeroed = bytes;
  std::fill_n(zeroed.begin() + 104, 32, std::byte(0));
  const Sha256Digest digest = sha256(zeroed);
  EXPECT_EQ(std::memcmp(&bytes[104], digest.data(), 32), 0);
  EXPECT_TRUE(std::all_of(bytes.begin() + 384, bytes.end(), [](std::byte b) { return b == std::byte(0); }));
}

TEST(PackedFile, ReadsWhatWasWritten) {
  Result<PackedHeader> read = readPackedHeader(file(example()), "f");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->payloadBytes, 7777u);
  EXPECT_EQ(read->storageSignature, example().storageSignature);
  EXPECT_EQ(read->payloadSample, example().payloadSample);
  ASSERT_EQ(read->sections.size(), 2u);
  EXPECT_EQ(read->sections[1].packing, example().sections[1].packing);
  EXPECT_EQ(read->sections[1].offset, 8192u);
}

/// A change of the header with a digest that fits it.
void expectRefused(const std::function<void(PackedHeader &)> &change, const std::string &message) {
  PackedHeader header = example();
  change(header);
  std::vector<std::byte> bytes = encodePackedHeader(header);
  bytes.resize(example().fileBytes);
  const Result<PackedHeader> read = readPackedHeader(bytes, "f");
  ASSERT_FALSE(read.ok()) << message;
  EXPECT_EQ(read.error().code, "NB0647");
  EXPECT_EQ(read.error().kind, ErrorKind::BadFile);
  EXPECT_NE(read.error().message.find(message), std::string::npos) << read.error().message;
}

TEST(PackedFile, EveryRuleOfTheHeader) {
  expectRefused([](PackedHeader &h) { h.fileBytes -= 1; }, "expected 12387 bytes, got 12388");
  expectRefused([](PackedHeader &h) { h.sections.clear(); }, "expected 1 to 40 sections, got 0");
  expectRefused([](PackedHeader &h) { h.sections[1].offset = 8193; }, "section 1 [8193, +4196) is outside the file");
  expectRefused([](PackedHeader &h) { h.sections[0].offset = 0; }, "section 0");
  expectRefused([](PackedHeader &h) { h.sections[1].bytes = 4197; }, "section 1");
  expectRefused([](PackedHeader &h) { h.sections[1].bytes = ~uint64_t(0) - 4096; }, "section 1");
  expectRefused([](PackedHeader &h) { h.sections[1].offset = ~uint64_t(4095); }, "section 1");
  expectRefused([](PackedHeader &h) { h.sections[0].bytes = 0; }, "section 0");
}

TEST(PackedFile, EveryBitOfTheHeaderCounts) {
  const std::vector<std::byte> good = file(example());
  for (size_t bit = 0; bit < 4096 * 8; bit += 5) {
    std::vector<std::byte> bytes = good;
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_FALSE(readPackedHeader(bytes, "f").ok()) << bit;
  }
  for (size_t size : {size_t(0), size_t(100), size_t(4095), size_t(4096), good.size() - 1})
    EXPECT_FALSE(readPackedHeader(std::span(good).first(size), "f").ok()) << size;
}

TEST(PackedFile, ContentIsComparedByteForByte) {
  const std::vector<std::byte> good = file(example());
  const PackedHeader header = readPackedHeader(good, "f").take();
  EXPECT_TRUE(checkPackedContent(good, header, "f").ok());
  const auto messageAt = [&](size_t byte) {
    std::vector<std::byte> bytes = good;
    bytes[byte] ^= std::byte(0x80);
    const Status status = checkPackedContent(bytes, header, "f");
    return status.ok() ? std::string("accepted") : status.error().code + " " + status.error().message;
  };
  for (const size_t byte : {4096, 6000, 8095})
    EXPECT_NE(messageAt(byte).find("NB0647 f: packed weights: section 0: SHA-256 is "), std::string::npos) << messageAt(byte);
  for (const size_t byte : {8192, 12387})
    EXPECT_NE(messageAt(byte).find("NB0647 f: packed weights: section 1: SHA-256 is "), std::string::npos) << messageAt(byte);
  for (const size_t byte : {8096, 8191})
    EXPECT_NE(messageAt(byte).find("byte " + std::to_string(byte) + " between sections is not zero"), std::string::npos) << messageAt(byte);
  EXPECT_NE(messageAt(6000).find("the header has " + toHex(header.sections[0].content)), std::string::npos);
}

TEST(PackedFile, SamplesSeeEachPieceOfALargePayload) {
  std::vector<std::byte> payload(5 << 20);
  const Sha256Digest before = payloadSample(payload);
  const uint64_t step = (payload.size() - 4096) / 1023;
  for (uint64_t piece : {0, 1, 511, 1023}) {
    payload[piece * step + 4095] ^= std::byte(1);
    EXPECT_NE(payloadSample(payload), before) << piece;
    payload[piece * step + 4095] ^= std::byte(1);
  }
  payload.resize(4096); // a small one is read whole
  payload[2000] ^= std::byte(1);
  EXPECT_NE(payloadSample(payload), sha256(std::vector<std::byte>(4096)));
}

} // namespace
} // namespace ninfer
