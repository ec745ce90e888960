// Targets, the shared object and its rules, determinism, the cache, and what is refused.
#include "test/unit/codegen_cpu/Harness.h"

#include "codegen/cpu/ElfLink.h"
#include "codegen/cpu/LlvmCompile.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/Support/SourceMgr.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define NINFER_TEST_LEAKS_BEGIN __lsan_disable()
#define NINFER_TEST_LEAKS_END __lsan_enable()
#endif
#endif
#ifndef NINFER_TEST_LEAKS_BEGIN
#define NINFER_TEST_LEAKS_BEGIN
#define NINFER_TEST_LEAKS_END
#endif

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace ninfer::test {
namespace {

CpuTarget targetNamed(const char *name) {
  Result<CpuTarget> target = resolveCpuTarget(name);
  EXPECT_TRUE(target.ok());
  return target.take();
}

template <typename T>
std::string why(const Result<T> &result) {
  return result.ok() ? "" : result.error().render();
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

// --- targets ---

TEST(CpuTargets, LevelsGrow) {
  CpuTarget v3 = targetNamed("x86-64-v3"), v4 = targetNamed("x86-64-v4"),
            zen = targetNamed("znver4");
  EXPECT_EQ(v3.level, CpuLevel::V3);
  EXPECT_EQ(v4.level, CpuLevel::V4);
  EXPECT_EQ(zen.level, CpuLevel::V4Vnni);
  for (const std::string &feature : {"avx2", "fma", "f16c", "bmi2"})
    EXPECT_EQ(std::count(v3.features.begin(), v3.features.end(), feature), 1) << feature;
  EXPECT_EQ(std::count(v3.features.begin(), v3.features.end(), "avx512f"), 0);
  EXPECT_TRUE(std::equal(v3.features.begin(), v3.features.end(), v4.features.begin()));
  EXPECT_EQ(zen.features.size(), v4.features.size() + 1);
  EXPECT_EQ(zen.features.back(), "avx512vnni");
}

TEST(CpuTargets, UnknownNameListsTheKnown) {
  Result<CpuTarget> target = resolveCpuTarget("pentium");
  ASSERT_FALSE(target.ok());
  EXPECT_EQ(target.error().code, "NB0480");
  EXPECT_EQ(target.error().kind, ErrorKind::Usage);
  EXPECT_TRUE(contains(target.error().message, "'pentium'"));
  EXPECT_TRUE(contains(target.error().help.at(0), "x86-64-v3, x86-64-v4, znver4, aarch64 and native"));
}

TEST(CpuTargets, NativeTakesTheBestLevel) {
  std::vector<std::string> host = targetNamed("znver4").features;
  auto level = [&] { return bestCpuTarget(host)->level; };
  EXPECT_EQ(level(), CpuLevel::V4Vnni);
  host.pop_back(); // avx512vnni
  EXPECT_EQ(level(), CpuLevel::V4);
  std::erase(host, "avx512bw");
  EXPECT_EQ(level(), CpuLevel::V3);
}

TEST(CpuTargets, HostBelowV3IsNamed) {
  std::vector<std::string> host = targetNamed("x86-64-v3").features;
  std::erase(host, "fma");
  std::erase(host, "bmi2");
  Result<CpuTarget> target = bestCpuTarget(host);
  ASSERT_FALSE(target.ok());
  EXPECT_EQ(target.error().code, "NB0481");
  EXPECT_EQ(target.error().kind, ErrorKind::TargetMismatch);
  EXPECT_TRUE(contains(target.error().message, "it lacks fma, bmi2")) << target.error().message;
}

// --- LLVM module to object ---

cpu::LlvmUnit unitOf(const std::string &ir) {
  cpu::LlvmUnit unit;
  llvm::SMDiagnostic error;
  unit.module = llvm::parseAssemblyString(ir, error, *unit.context);
  EXPECT_TRUE(unit.module) << error.getMessage().str();
  return unit;
}

Result<std::vector<char>> compile(const std::string &ir, const char *target,
                                  std::string_view bitcode = {}) {
  cpu::LlvmUnit unit = unitOf(ir);
  return cpu::compileModule(unit, targetNamed(target), bitcode, {"entry"}, nullptr);
}

TEST(CpuObject, UndefinedCallIsNamed) {
  auto object = compile(
      "declare float @expf(float)\n"
      "define float @entry(float %x) {\n  %y = call float @expf(float %x)\n  ret float %y\n}\n",
      "x86-64-v3");
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.error().code, "NB0483");
  EXPECT_TRUE(contains(object.error().message, "calls expf")) << object.error().message;
}

TEST(CpuObject, InstructionTheCpuLacksIsAnError) {
  const char *ir =
      "declare <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32>, <64 x i8>, <64 x i8>)\n"
      "define void @entry(ptr %p) {\n  %a = load <16 x i32>, ptr %p\n  %b = load <64 x i8>, ptr "
      "%p\n"
      "  %r = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %a, <64 x i8> %b, <64 x i8> "
      "%b)\n"
      "  store <16 x i32> %r, ptr %p\n  ret void\n}\n";
  NINFER_TEST_LEAKS_BEGIN; // what LLVM held when it gave up stays allocated
  auto object = compile(ir, "x86-64-v3");
  NINFER_TEST_LEAKS_END;
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.error().code, "NB0483");
  EXPECT_TRUE(contains(object.error().message, "LLVM gave up on code for x86-64-v3"))
      << object.error().message;
  EXPECT_TRUE(compile(ir, "znver4").ok()) << "and the process goes on";
}

TEST(CpuObject, CopyLoopStaysALoop) {
  auto object = compile(
      "define void @entry(ptr noalias %d, ptr noalias %s, i64 %n) {\nentry:\n  br label "
      "%loop\nloop:\n"
      "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n  %a = getelementptr i8, ptr %s, i64 %i\n"
      "  %b = getelementptr i8, ptr %d, i64 %i\n  %v = load i8, ptr %a\n  store i8 %v, ptr %b\n"
      "  %next = add i64 %i, 1\n  %more = icmp slt i64 %next, %n\n"
      "  br i1 %more, label %loop, label %done\ndone:\n  ret void\n}\n",
      "x86-64-v3");
  ASSERT_TRUE(object.ok()) << object.error().render();
  auto elf = cpu::linkSharedObject({*object});
  EXPECT_TRUE(elf.ok()) << elf.error().render(); // a call of memcpy would be undefined here
}

// --- ELF ---

TEST(CpuElf, UndefinedSymbolFailsTheLink) {
  // A library call that only instruction selection introduces: 128-bit division.
  auto object =
      compile("define i128 @entry(i128 %a, i128 %b) {\n  %q = udiv i128 %a, %b\n  ret i128 %q\n}\n",
              "x86-64-v3");
  ASSERT_TRUE(object.ok());
  auto elf = cpu::linkSharedObject({*object});
  ASSERT_FALSE(elf.ok());
  EXPECT_EQ(elf.error().code, "NB0484");
  EXPECT_TRUE(contains(elf.error().message, "__udivti3")) << elf.error().message;
}

TEST(CpuElf, RelocationsAreRefused) {
  auto object =
      compile("@x = internal global i32 7\n@table = internal global ptr @x\n"
              "define ptr @entry() {\n  %p = load volatile ptr, ptr @table\n  ret ptr %p\n}\n",
              "x86-64-v3");
  ASSERT_TRUE(object.ok());
  auto elf = cpu::linkSharedObject({*object});
  ASSERT_TRUE(elf.ok()) << elf.error().render();
  Status status = cpu::checkSharedObject(*elf, {"entry"});
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(contains(status.error().message, "relocation")) << status.error().message;
}

TEST(CpuElf, ConstantTablesNeedNone) {
  auto object = compile(
      "@table = internal constant [4 x i32] [i32 3, i32 1, i32 4, i32 1]\n"
      "define i32 @entry(i64 %i) {\n  %p = getelementptr [4 x i32], ptr @table, i64 0, i64 %i\n"
      "  %v = load i32, ptr %p\n  ret i32 %v\n}\n",
      "x86-64-v3");
  ASSERT_TRUE(object.ok());
  auto elf = cpu::linkSharedObject({*object});
  ASSERT_TRUE(elf.ok());
  EXPECT_TRUE(cpu::checkSharedObject(*elf, {"entry"}).ok());
  Status missing = cpu::checkSharedObject(*elf, {"other"});
  ASSERT_FALSE(missing.ok());
  EXPECT_TRUE(contains(missing.error().message, "'other'"));
  EXPECT_FALSE(cpu::checkSharedObject(std::span(*elf).first(40), {}).ok());
}

// --- kernels ---

const char *twoKernels = R"(
ninfer.kernel @add_one(%a: tensor<1x40xf32>, %b: tensor<1x40xf32>)
    attributes {family = "add", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %y = ninfer.add %a, %b : tensor<1x40xf32>
  ninfer.yield %y : tensor<1x40xf32>
}
ninfer.kernel @linear_w8(%x: tensor<1x64xf32>, %w: !ninfer.weight<24x64, W8G32_F16S, "row-split-k128-v1">)
    attributes {family = "linear_a16", profile = "a16", rows = 1, tiles_const = 3, tiles_per_row = 0} {
  %y = ninfer.linear %x, %w policy<A16Only> : tensor<1x64xf32>, <24x64, W8G32_F16S, "row-split-k128-v1"> -> tensor<1x24xf32>
  ninfer.yield %y : tensor<1x24xf32>
}
)";

std::filesystem::path freshDirectory(const char *name) {
  auto path = std::filesystem::path(::testing::TempDir()) /
              ("ninfer-cpu-" + std::string(name) + std::to_string(getpid()));
  std::filesystem::remove_all(path);
  return path;
}

TEST(CpuKernels, SameInputSameBytes) {
  CpuCodegenOptions one, two;
  two.threads = 2;
  auto a = compileText(twoKernels, targetNamed("x86-64-v3"), one),
       b = compileText(twoKernels, targetNamed("x86-64-v3"), two);
  ASSERT_TRUE(a.ok() && b.ok()) << why(a) << why(b);
  EXPECT_EQ(a->elf, b->elf);
  ASSERT_EQ(a->kernels.size(), 2u);
  EXPECT_EQ(a->kernels[0].name, "add_one");
  EXPECT_EQ(a->kernels[1].symbol, "linear_w8");
  EXPECT_EQ(a->kernels[0].scratchBytes, 0u);
  EXPECT_GT(a->kernels[1].scratchBytes, 0u);
  EXPECT_EQ(a->kernels[1].scratchBytes % 64, 0u);
  EXPECT_TRUE(cpu::checkSharedObject(a->elf, {"add_one", "linear_w8"}).ok());
  EXPECT_LT(a->elf.size(), 32768u);
}

TEST(CpuKernels, Aarch64Objects) {
  CpuTarget arm = targetNamed("aarch64");
  EXPECT_EQ(arm.level, CpuLevel::Aarch64);
  EXPECT_EQ(arm.features, (std::vector<std::string>{"fp-armv8", "neon", "crc", "lse", "rdm", "dotprod"}));
  auto a = compileText(twoKernels, arm), b = compileText(twoKernels, arm);
  ASSERT_TRUE(a.ok() && b.ok()) << why(a) << why(b);
  EXPECT_EQ(a->elf, b->elf);
  EXPECT_EQ(uint8_t(a->elf[18]) | uint8_t(a->elf[19]) << 8, 183); // e_machine: EM_AARCH64
  EXPECT_TRUE(cpu::checkSharedObject(a->elf, {"add_one", "linear_w8"}, CpuArchitecture::Aarch64).ok());
  Status other = cpu::checkSharedObject(a->elf, {"add_one"});
  ASSERT_FALSE(other.ok());
  EXPECT_TRUE(contains(other.error().message, "is not an x86-64 shared object")) << other.error().message;
}

TEST(CpuKernels, CacheGivesTheSameBytesAndSurvivesCorruption) {
  auto directory = freshDirectory("cache");
  CpuCodegenOptions options;
  options.cache.directory = directory.string();
  CpuTarget v3 = targetNamed("x86-64-v3");
  auto first = compileText(twoKernels, v3, options), second = compileText(twoKernels, v3, options);
  ASSERT_TRUE(first.ok() && second.ok()) << why(first) << why(second);
  EXPECT_EQ(first->cacheHits, 0u);
  EXPECT_EQ(second->cacheHits, 2u);
  EXPECT_EQ(first->elf, second->elf);

  auto other = compileText(twoKernels, targetNamed("x86-64-v4"), options);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->cacheHits, 0u) << "another target has another key";

  for (const auto &entry : std::filesystem::directory_iterator(directory)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(200);
    file.put('\x5a').put('\x5a');
  }
  auto third = compileText(twoKernels, v3, options);
  ASSERT_TRUE(third.ok()) << third.error().render();
  EXPECT_EQ(third->cacheHits, 0u);
  EXPECT_EQ(third->elf, first->elf);
  std::filesystem::remove_all(directory);
}

TEST(CpuKernels, DumpsAndProgress) {
  auto directory = freshDirectory("dump");
  CpuCodegenOptions options;
  options.dumpDir = directory.string();
  std::vector<std::string> seen;
  options.progress = [&](size_t done, size_t total, std::string_view kernel) {
    seen.push_back(std::to_string(done) + "/" + std::to_string(total) + " " + std::string(kernel));
  };
  auto object = compileText(twoKernels, targetNamed("x86-64-v3"), options);
  ASSERT_TRUE(object.ok()) << why(object);
  EXPECT_EQ(seen, (std::vector<std::string>{"1/2 add_one", "2/2 linear_w8"}));
  for (const char *name :
       {"add_one.mlir", "add_one.ll", "add_one.opt.ll", "linear_w8.mlir", "kernels.so"})
    EXPECT_TRUE(std::filesystem::exists(directory / name)) << name;
  std::filesystem::remove_all(directory);
}

TEST(CpuKernels, NoKernelsNoObject) {
  auto object = compileText("module {}", targetNamed("x86-64-v3"));
  ASSERT_TRUE(object.ok());
  EXPECT_TRUE(object->elf.empty() && object->kernels.empty());
}

/// The text with `from` replaced must be refused with a message that names the kernel and holds
/// `why`.
void expectRefused(std::string text, const std::string &from, const std::string &to,
                   const std::string &why) {
  size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  auto object = compileText(text, targetNamed("x86-64-v3"));
  ASSERT_FALSE(object.ok()) << why;
  EXPECT_EQ(object.error().code, "NB0482");
  EXPECT_EQ(object.error().kind, ErrorKind::Unsupported);
  EXPECT_TRUE(contains(object.error().message, "kernel ")) << object.error().message;
  EXPECT_TRUE(contains(object.error().message, why)) << object.error().message;
}

TEST(CpuKernels, RefusesWhatItDoesNotImplement) {
  expectRefused(twoKernels, "family = \"add\"", "family = \"mul\"",
                "no cpu code for family 'mul', profile 'f32': unknown family");
  expectRefused(twoKernels, "family = \"add\"", "family = \"swiglu\"",
                "the kernel is not one swiglu");
  expectRefused(twoKernels, "family = \"add\", profile = \"f32\"",
                "family = \"add\", profile = \"a16\"", "only profile f32 exists");
  expectRefused(twoKernels, "tiles_const = 1", "tiles_const = 7",
                "7 + 0 tiles per row do not cut 1 units per row");
  expectRefused(twoKernels, "@add_one", "@ni_add",
                "names that start with ni_ are those of micro-kernels");
  expectRefused(twoKernels, "family = \"linear_a16\"", "family = \"linear_f32\"",
                "the family is for another profile");
  expectRefused(twoKernels, "tiles_const = 3", "tiles_const = 4",
                "outputs make 3 tiles of 8, the kernel has 4 + 0 per row");
  expectRefused(twoKernels, "\"linear_a16\", profile = \"a16\"", "\"linear_a8\", profile = \"a8\"",
                "the policy of a weight is A16Only");
  expectRefused(twoKernels, "\"linear_a16\", profile = \"a16\"", "\"linear_b1\", profile = \"b1\"",
                "unknown profile");
}

TEST(CpuKernels, RefusesIntegerProfilesOfFloatFormats) {
  std::string text = twoKernels;
  for (size_t at; (at = text.find("W8G32_F16S, \"row-split-k128-v1\"")) != std::string::npos;)
    text.replace(at, 31, "BF16, \"contiguous-le-v1\"");
  expectRefused(text, "x", "x", "format BF16");
}

TEST(CpuKernels, RefusesAnEpilogueItDoesNotKnow) {
  const char *text = R"(
ninfer.kernel @odd(%x: tensor<1x64xf32>, %w: !ninfer.weight<64x64, W8G32_F16S, "row-split-k128-v1">)
    attributes {family = "linear_a16", profile = "a16", rows = 1, tiles_const = 8, tiles_per_row = 0} {
  %y = ninfer.linear %x, %w policy<A16Only> : tensor<1x64xf32>, <64x64, W8G32_F16S, "row-split-k128-v1"> -> tensor<1x64xf32>
  %z = ninfer.add %y, %y : tensor<1x64xf32>
  ninfer.yield %z : tensor<1x64xf32>
}
)";
  expectRefused(text, "odd", "odd", "an add must take one linear map and one argument");
}

} // namespace
} // namespace ninfer::test
