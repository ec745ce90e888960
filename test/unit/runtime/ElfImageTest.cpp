#include "runtime/loader/ElfImage.h"

#include "runtime/abi/kernel_abi.h"
#include "support/File.h"
#include "test/unit/runtime/TinyModel.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

using namespace ninfer;
using namespace ninfer::test;

namespace {

std::vector<std::byte> image(const std::string &variant) {
  auto text = readFile(std::string(NINFER_IMAGE_DIR) + "/kernels_" + variant + ".so");
  EXPECT_TRUE(text.ok());
  const auto bytes = std::as_bytes(std::span(text->data(), text->size()));
  return {bytes.begin(), bytes.end()};
}

std::string refusal(std::span<const std::byte> bytes) {
  Status status = ElfImage::check(bytes, "test");
  return status.ok() ? "accepted" : status.error().message;
}

/// Calls the fixture's `mark` on tiles [1, 3).
void callMark(const ElfImage &elf) {
  auto *mark = reinterpret_cast<ninfer_kernel_fn>(const_cast<void *>(elf.function("mark")));
  ASSERT_NE(mark, nullptr);
  int32_t out[4] = {-1, -1, -1, -1};
  void *args[] = {out};
  const int64_t scalars[NINFER_SCALAR_COUNT] = {2, 3};
  char scratch[64];
  mark(args, scalars, 1, 3, scratch);
  EXPECT_EQ(out[0], -1);
  EXPECT_EQ(out[1], 30201);
  EXPECT_EQ(out[2], 30202);
  EXPECT_EQ(out[3], -1);
  EXPECT_EQ(elf.function("no_such_function"), nullptr);
}

} // namespace

TEST(ElfImage, BothMappingsRunTheSameCode) {
  TemporaryFolder folder;
  const auto bytes = image("good");
  // As in a plan: the image starts at a page boundary behind other data.
  std::vector<std::byte> file(8192, std::byte{0xee});
  file.insert(file.end(), bytes.begin(), bytes.end());
  writeBytes(folder / "plan", file);
  const int fd = open((folder / "plan").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  for (auto mapping : {ElfImage::Mapping::Direct, ElfImage::Mapping::Memory}) {
    auto elf = ElfImage::map(mapping, fd, 8192, bytes, "test");
    ASSERT_TRUE(elf.ok()) << elf.error().message;
    EXPECT_EQ(elf->mapping(), mapping);
    callMark(*elf);
    ElfImage moved = elf.take();
    callMark(moved);
  }
  close(fd);
}

TEST(ElfImage, RefusesWhatKernelsMayNotHave) {
  EXPECT_EQ(refusal(image("good")), "accepted");
  EXPECT_NE(refusal(image("undefined")).find("machine code"), std::string::npos); // undefined symbol or relocation
  EXPECT_EQ(refusal(image("writable")), "test: machine code has writable data, which kernels may not have");
  EXPECT_EQ(refusal(image("relocation")), "test: machine code has relocations, which kernels may not have");
  EXPECT_EQ(refusal(image("needed")), "test: machine code needs another library, which kernels may not");
}

TEST(ElfImage, RefusesOtherMachinesByName) {
  auto bytes = image("good");
  auto *header = reinterpret_cast<Elf64_Ehdr *>(bytes.data());
  header->e_machine = EM_RISCV;
  Status status = ElfImage::check(bytes, "test");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::TargetMismatch);
  EXPECT_NE(status.error().message.find("this machine"), std::string::npos);
}

TEST(ElfImage, RefusesOtherFiles) {
  EXPECT_EQ(refusal({}), "test: machine code is not an ELF image");
  auto bytes = image("good");
  bytes[EI_CLASS] = std::byte{ELFCLASS32};
  EXPECT_EQ(refusal(bytes), "test: machine code is not a 64-bit little-endian shared object");
}

// Whatever the bytes, the check reads inside the image (the sanitizer build sees it when it does not).
TEST(ElfImage, DamagedImagesAreReadSafely) {
  const auto good = image("good");
  for (size_t size = 0; size < good.size(); size += 13)
    (void)refusal(std::vector<std::byte>(good.begin(), good.begin() + ptrdiff_t(size)));
  std::mt19937 random(1);
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = good;
    // Header and program headers half of the time: there a damaged number moves every later read.
    const size_t limit = round % 2 ? bytes.size() : 512;
    for (int flip = 0; flip < 1 + round % 3; ++flip)
      bytes[random() % limit] = std::byte(random());
    refused += refusal(bytes) != "accepted";
  }
  EXPECT_GT(refused, 2000u);
}
