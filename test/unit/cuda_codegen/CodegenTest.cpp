// Texts, device table, NVRTC's absence, and cubins that break a rule. The cubins are made here: no toolkit is needed.
#include "codegen/cuda/Cubin.h"
#include "codegen/cuda/Devices.h"
#include "codegen/cuda/KernelSources.h"
#include "codegen/cuda/KernelText.h"
#include "codegen/cuda/Nvrtc.h"
#include "codegen/cuda/Tuning.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>

namespace ninfer::cuda {
namespace {

TEST(Texts, NameTheShapeAndSpellTheRecord) {
  const ni::LinearSpec spec = tunedLinear(ni::Format::Q4, 1, 5120, ni::Prologue::RmsNorm, ni::Epilogue::Swiglu);
  const KernelText text = linearKernel(spec, 89);
  EXPECT_EQ(text.name, "ni_linear_q4g64_r1_k5120_norm_swiglu_w8x1d2_sm89");
  EXPECT_EQ(text.source(), "#include \"linear.cuh\"\n"
                           "NI_LINEAR(ni_linear_q4g64_r1_k5120_norm_swiglu_w8x1d2_sm89, {.format = ni::Format::Q4, .rows = 1, "
                           ".k = 5120, .prologue = ni::Prologue::RmsNorm, .epilogue = ni::Epilogue::Swiglu, .output = "
                           "ni::OutputType::Bf16, .warpsK = 8, .warpsN = 1, .chunk = 0, .depth = 2, .blocksPerSm = 2, "
            ".operands = ni::Operands::Bf16})\n");
  EXPECT_EQ(text.threads, 256u);
  EXPECT_EQ(text.params.size(), 9u);
}

TEST(Texts, HeadersAreCarriedAndSelfContained) {
  std::set<std::string> names;
  for (const KernelHeader &header : kernelHeaders())
    names.insert(header.name);
  EXPECT_TRUE(names.count("ni.cuh") && names.count("linear.cuh") && names.count("attention_decode.cuh"));
  for (const KernelHeader &header : kernelHeaders()) {
    const std::string text = header.text;
    for (size_t at = text.find("#include"); at != std::string::npos; at = text.find("#include", at + 1)) {
      const std::string included = text.substr(at + 10, text.find('"', at + 10) - at - 10);
      EXPECT_TRUE(included == "ni_host.h" || names.count(included)) << header.name << " includes " << included;
    }
    EXPECT_EQ(text.find("asm(", 0) != std::string::npos && std::string(header.name) != "ni.cuh", false) << header.name;
    EXPECT_EQ(text.find("__syncthreads") != std::string::npos && std::string(header.name) != "ni.cuh", false) << header.name;
  }
}

TEST(Tuning, EveryShapeGetsAnAcceptedRecordWithin48Kib) {
  for (uint32_t format = 0; format < 9; ++format)
    for (uint32_t rows : kRowBuckets)
      for (uint32_t k : {1u, 64u, 576u, 2048u, 5120u, 17408u, 262144u})
        for (auto epilogue : {ni::Epilogue::Store, ni::Epilogue::Swiglu}) {
          const auto f = static_cast<ni::Format>(format);
          if (!ni::hasPanels(f))
            continue;
          const ni::LinearSpec spec = tunedLinear(f, rows, k, ni::Prologue::RmsNorm, epilogue);
          EXPECT_TRUE(ni::linearAccepts(spec)) << linearKernel(spec, 0).name;
          EXPECT_LE(ni::linearShared(spec), 48u * 1024) << linearKernel(spec, 0).name;
          const ni::GemmSpec gemm = tunedGemm(f, 512, ni::roundUp(k, 8u), epilogue, ni::OutputType::Bf16, 99 * 1024);
          EXPECT_TRUE(ni::gemmAccepts(gemm));
          EXPECT_LE(ni::gemmShared(gemm), 99u * 1024) << gemmKernel(gemm, 0).name;
          const ni::MoeGroupedSpec experts = tunedGrouped(f, ni::roundUp(k, 8u), 8, epilogue == ni::Epilogue::Store, 99 * 1024);
          EXPECT_TRUE(ni::groupedAccepts(experts));
          EXPECT_LE(ni::groupedShared(experts), 99u * 1024) << moeGroupedKernel(experts, 0).name;
        }
}

TEST(Tuning, EveryDeltaRuleHasChunks) {
  for (uint32_t keyDim = 32; keyDim <= 256; keyDim += 32)
    for (uint32_t valueDim : {16u, 32u, 48u, 128u})
      for (uint32_t rows : {17u, 512u}) {
        ASSERT_TRUE(ni::deltaAccepts({.keyHeads = 1, .valueHeads = 2, .keyDim = keyDim, .valueDim = valueDim}));
        const ni::DeltaChunkedSpec spec = tunedDeltaChunked(1, 2, keyDim, valueDim, rows);
        EXPECT_TRUE(ni::deltaChunkedAccepts(spec)) << deltaChunkedKernel(spec, 0).name;
        EXPECT_LE(ni::deltaChunkedShared(spec), 99u * 1024) << deltaChunkedKernel(spec, 0).name;
      }
}

TEST(Devices, AreFoundByAliasAndArchitecture) {
  EXPECT_EQ(findDevice("rtx4090")->sm, 89u);
  EXPECT_EQ(findDevice("sm_90")->alias, "h100");
  const Result<Device> unknown = findDevice("rtx9999");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, "NB0490");
  EXPECT_NE(unknown.error().render().find("rtx4090 (sm_89)"), std::string::npos);
  std::set<std::string_view> aliases;
  for (const Device &device : devices())
    EXPECT_TRUE(aliases.insert(device.alias).second) << device.alias;
}

TEST(Nvrtc, AbsenceSaysWhereToGetIt) {
  const Result<Nvrtc> nvrtc = Nvrtc::load("/nonexistent/libnvrtc.so.13");
  ASSERT_FALSE(nvrtc.ok());
  EXPECT_EQ(nvrtc.error().code, "NB0485");
  const std::string text = nvrtc.error().render();
  EXPECT_NE(text.find("/nonexistent/libnvrtc.so.13"), std::string::npos) << text;
  EXPECT_NE(text.find("nvidia-cuda-nvrtc"), std::string::npos) << text;
}

// --- cubins ---------------------------------------------------------------------------------------------------------

struct Attribute {
  uint8_t id;
  std::vector<uint32_t> payload;
};

void put(std::vector<uint8_t> &bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i)
    bytes.push_back(uint8_t(value >> (8 * i)));
}

struct Kernel {
  std::string name = "k";
  uint32_t registers = 40, frame = 0, threads = 128, sm = 89, staticShared = 0;
  std::vector<std::pair<uint32_t, uint32_t>> params = {{0, 8}, {8, 4}}; ///< offset, bytes
};

/// The sections the reader looks at, by the ELF and .nv.info formats.
std::vector<uint8_t> makeCubin(const Kernel &k) {
  const auto info = [](const std::vector<Attribute> &all) {
    std::vector<uint8_t> bytes;
    for (const Attribute &a : all) {
      put(bytes, 4, 1);
      put(bytes, a.id, 1);
      put(bytes, a.payload.size() * 4, 2);
      for (uint32_t word : a.payload)
        put(bytes, word, 4);
    }
    return bytes;
  };
  std::vector<Attribute> own = {{0x05, {k.threads, 1, 1}}};
  for (size_t i = k.params.size(); i-- > 0;) // ptxas lists the last one first
    own.push_back({0x17, {0, uint32_t(i) | k.params[i].first << 16, k.params[i].second << 18}});
  std::vector<uint8_t> symbols(24, 0);
  put(symbols, 1, 4);
  put(symbols, 0, 20);
  std::string strings = std::string("\0", 1) + k.name + std::string("\0", 1);
  struct Part {
    std::string name;
    uint32_t type;
    std::vector<uint8_t> bytes;
    uint64_t size;
  };
  std::vector<Part> parts = {{"", 0, {}, 0}};
  const auto add = [&](const std::string &name, uint32_t type, std::vector<uint8_t> bytes) {
    parts.push_back({name, type, bytes, bytes.size()});
  };
  add(".strtab", 3, {strings.begin(), strings.end()});
  add(".symtab", 2, symbols);
  add(".nv.info", 1, info({{0x2f, {1, k.registers}}, {0x11, {1, k.frame}}}));
  add(".nv.info." + k.name, 1, info(own));
  add(".text." + k.name, 1, std::vector<uint8_t>(256));
  if (k.staticShared)
    parts.push_back({".nv.shared." + k.name, 8, {}, k.staticShared});
  std::string names;
  std::vector<uint32_t> nameAt;
  parts.push_back({".shstrtab", 3, {}, 0});
  for (const Part &p : parts) {
    nameAt.push_back(uint32_t(names.size()));
    names += p.name + std::string("\0", 1);
  }
  parts.back().bytes.assign(names.begin(), names.end());
  parts.back().size = names.size();
  std::vector<uint8_t> file = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0x41, 8};
  file.resize(64);
  std::vector<uint64_t> at;
  for (const Part &p : parts) {
    at.push_back(file.size());
    file.insert(file.end(), p.bytes.begin(), p.bytes.end());
  }
  const uint64_t table = file.size();
  for (size_t i = 0; i < parts.size(); ++i) {
    put(file, nameAt[i], 4);
    put(file, parts[i].type, 4);
    put(file, 0, 16);
    put(file, at[i], 8);
    put(file, parts[i].size, 8);
    put(file, 0, 24);
  }
  const auto set = [&](size_t offset, uint64_t value, int count) {
    for (int i = 0; i < count; ++i)
      file[offset + size_t(i)] = uint8_t(value >> (8 * i));
  };
  set(0x12, 190, 2);
  set(0x28, table, 8);
  set(0x30, k.sm << 8, 4);
  set(0x3a, 64, 2);
  set(0x3c, parts.size(), 2);
  set(0x3e, parts.size() - 1, 2);
  return file;
}

KernelText expectedText() {
  KernelText text;
  text.name = "k";
  text.params = {{"x", 8}, {"n", 4}};
  text.threads = 128;
  return text;
}

TEST(Cubins, FactsAreRead) {
  const Result<CubinKernel> kernel = checkCubin(makeCubin({}), expectedText(), 89);
  ASSERT_TRUE(kernel.ok()) << kernel.error().render();
  EXPECT_EQ(kernel->registers, 40u);
  EXPECT_EQ(kernel->codeBytes, 256u);
  ASSERT_EQ(kernel->params.size(), 2u);
  EXPECT_EQ(kernel->params[1].offset, 8u);
}

TEST(Cubins, EachRuleIsNamed) {
  const std::pair<std::function<void(Kernel &)>, const char *> faults[] = {
      {[](Kernel &k) { k.sm = 86; }, "architecture: expected 89, got 86"},
      {[](Kernel &k) { k.name = "other"; }, "kernel: expected k"},
      {[](Kernel &k) { k.frame = 16; }, "stack frame (register spills): expected 0 bytes, got 16"},
      {[](Kernel &k) { k.threads = 256; }, "launch bound: expected 128, got 256"},
      {[](Kernel &k) { k.staticShared = 64; }, "static shared memory: expected none, got 64 bytes"},
      {[](Kernel &k) { k.params.pop_back(); }, "number of parameters: expected 2, got 1"},
      {[](Kernel &k) { k.params[1] = {8, 8}; }, "parameter n: expected 4 bytes at 8, got 8 at 8"},
      {[](Kernel &k) { k.params[1].first = 12; }, "parameter n: expected 4 bytes at 8, got 4 at 12"},
      {[](Kernel &k) { k.registers = 0; }, "register count: expected a number, got none"},
  };
  for (const auto &[change, message] : faults) {
    Kernel k;
    change(k);
    const Result<CubinKernel> kernel = checkCubin(makeCubin(k), expectedText(), 89);
    ASSERT_FALSE(kernel.ok()) << message;
    EXPECT_EQ(kernel.error().code, "NB0489");
    EXPECT_NE(kernel.error().message.find(message), std::string::npos) << kernel.error().message;
  }
}

TEST(Cubins, DamagedFilesAreRefusedNotRead) {
  const std::vector<uint8_t> good = makeCubin({});
  for (size_t length = 0; length < good.size(); ++length) { // every truncation
    const Result<CubinFacts> facts = readCubin(std::span(good.data(), length));
    ASSERT_FALSE(facts.ok()) << length;
    EXPECT_EQ(facts.error().code, "NB0488");
  }
  for (size_t i = 0; i < good.size(); ++i) // every byte wild: an answer or an error, never a fault
    for (uint8_t value : {uint8_t(0), uint8_t(0x7f), uint8_t(0xff)}) {
      std::vector<uint8_t> bad = good;
      bad[i] = value;
      (void)readCubin(bad).ok();
    }
}

} // namespace
} // namespace ninfer::cuda
