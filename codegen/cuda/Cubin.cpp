#include "codegen/cuda/Cubin.h"

#include "support/Bytes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace ninfer::cuda {

namespace {

// Attributes of .nv.info. They have no public document; checked against cuobjdump -elf and -res-usage.
constexpr uint8_t kFormatSized = 4; ///< 2 bytes of length and a payload follow; else the 2 bytes are the value
constexpr uint8_t kMaxThreads = 0x05, kFrameSize = 0x11, kParamInfo = 0x17, kRegisterCount = 0x2f;

struct Section {
  std::string_view name;
  uint32_t type = 0;
  uint64_t offset = 0, size = 0;
};

Error damaged(const std::string &rule) { return makeError(ErrorKind::BadFile, "NB0488", "cubin: " + rule); }

/// Reads of a byte range, refused beyond its end.
class Reader {
public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool has(uint64_t offset, uint64_t count) const { return offset <= bytes_.size() && count <= bytes_.size() - offset; }
  uint16_t u16(uint64_t offset) const { return loadLe16(bytes_.data() + offset); }
  uint32_t u32(uint64_t offset) const { return loadLe32(bytes_.data() + offset); }
  uint64_t u64(uint64_t offset) const { return loadLe64(bytes_.data() + offset); }
  std::string_view text(uint64_t offset, uint64_t end) const {
    uint64_t stop = offset;
    while (stop < end && bytes_[stop])
      ++stop;
    return {reinterpret_cast<const char *>(bytes_.data()) + offset, size_t(stop - offset)};
  }
  std::span<const uint8_t> part(const Section &s) const { return bytes_.subspan(s.offset, s.size); }

private:
  std::span<const uint8_t> bytes_;
};

struct Attribute {
  uint8_t id;
  uint64_t payload; ///< offset in the section
  uint32_t size;    ///< 0: the value is in `value`
  uint32_t value;
};

Result<std::vector<Attribute>> attributes(const Reader &info, uint64_t size) {
  std::vector<Attribute> all;
  for (uint64_t at = 0; at < size;) {
    if (!info.has(at, 4))
      return damaged("an attribute of .nv.info is cut off");
    const uint16_t head = info.u16(at), length = info.u16(at + 2);
    const bool sized = (head & 0xff) == kFormatSized;
    if (sized && !info.has(at + 4, length))
      return damaged("the payload of an attribute of .nv.info is cut off");
    all.push_back({uint8_t(head >> 8), at + 4, sized ? length : 0u, length});
    at += 4 + (sized ? length : 0u);
  }
  return all;
}

Result<std::vector<Section>> sections(const Reader &elf) {
  if (!elf.has(0, 64) || elf.u32(0) != 0x464c457f)
    return damaged("no ELF header");
  if (elf.u16(0x12) != 190)
    return damaged("machine " + std::to_string(elf.u16(0x12)) + ", expected 190 (CUDA)");
  const uint64_t table = elf.u64(0x28);
  const uint32_t entry = elf.u16(0x3a), count = elf.u16(0x3c), names = elf.u16(0x3e);
  if (entry != 64 || names >= count || !elf.has(table, uint64_t(count) * 64))
    return damaged("section table outside the file");
  std::vector<Section> all;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t at = table + uint64_t(i) * 64;
    Section s{{}, elf.u32(at + 4), elf.u64(at + 24), elf.u64(at + 32)};
    if (s.type != 8 && !elf.has(s.offset, s.size)) // 8: occupies no bytes of the file
      return damaged("section " + std::to_string(i) + " outside the file");
    all.push_back(s);
  }
  const Section &strings = all[names];
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t name = elf.u32(table + uint64_t(i) * 64);
    if (strings.type == 8 || name >= strings.size)
      return damaged("name of section " + std::to_string(i) + " outside the string table");
    all[i].name = elf.text(strings.offset + name, strings.offset + strings.size);
  }
  return all;
}

const Section *find(const std::vector<Section> &all, std::string_view name) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const Section &s) { return s.name == name; });
  return it == all.end() ? nullptr : &*it;
}

/// Symbol number -> name.
Result<std::vector<std::string_view>> symbolNames(const Reader &elf, const std::vector<Section> &all) {
  const Section *symbols = find(all, ".symtab"), *strings = find(all, ".strtab");
  if (!symbols || !strings || symbols->type == 8 || strings->type == 8)
    return damaged("no symbol table");
  std::vector<std::string_view> names;
  for (uint64_t at = 0; at + 24 <= symbols->size; at += 24) {
    const uint64_t name = elf.u32(symbols->offset + at);
    if (name >= strings->size)
      return damaged("name of a symbol outside the string table");
    names.push_back(elf.text(strings->offset + name, strings->offset + strings->size));
  }
  return names;
}

Status readKernelInfo(const Reader &elf, const Section &section, CubinKernel &kernel) {
  const Reader info(elf.part(section));
  NINFER_ASSIGN_OR_RETURN(const std::vector<Attribute> all, attributes(info, section.size));
  std::map<uint32_t, CubinParam> params;
  for (const Attribute &a : all) {
    if (a.id == kMaxThreads && a.size >= 4)
      kernel.maxThreads = info.u32(a.payload);
    if (a.id == kParamInfo && a.size >= 12)
      params[info.u16(a.payload + 4)] = {info.u16(a.payload + 6), info.u32(a.payload + 8) >> 18};
  }
  for (const auto &[ordinal, param] : params) {
    if (ordinal != kernel.params.size())
      return damaged(kernel.name + ": parameter " + std::to_string(kernel.params.size()) + " is missing");
    kernel.params.push_back(param);
  }
  return {};
}

/// e_flags hold the architecture in bits 8..15 (ABI version 8, CUDA 13) or 0..7 (before).
uint32_t architecture(const Reader &elf, uint8_t abi) {
  const uint32_t flags = elf.u32(0x30);
  return abi >= 8 ? flags >> 8 & 0xff : flags & 0xff;
}

} // namespace

Result<CubinFacts> readCubin(std::span<const uint8_t> cubin) {
  const Reader elf(cubin);
  NINFER_ASSIGN_OR_RETURN(const std::vector<Section> all, sections(elf));
  NINFER_ASSIGN_OR_RETURN(const std::vector<std::string_view> symbols, symbolNames(elf, all));
  CubinFacts facts;
  facts.sm = architecture(elf, cubin[8]);
  constexpr std::string_view kPrefix = ".nv.info.";
  for (const Section &s : all) {
    if (!s.name.starts_with(kPrefix) || s.type == 8)
      continue;
    CubinKernel kernel;
    kernel.name = std::string(s.name.substr(kPrefix.size()));
    NINFER_RETURN_IF_ERROR(readKernelInfo(elf, s, kernel));
    if (const Section *text = find(all, ".text." + kernel.name))
      kernel.codeBytes = uint32_t(text->size);
    if (const Section *shared = find(all, ".nv.shared." + kernel.name))
      kernel.staticSharedBytes = uint32_t(shared->size);
    facts.kernels.push_back(std::move(kernel));
  }
  const Section *common = find(all, ".nv.info");
  if (!common || common->type == 8)
    return damaged("no section .nv.info");
  const Reader info(elf.part(*common));
  NINFER_ASSIGN_OR_RETURN(const std::vector<Attribute> attrs, attributes(info, common->size));
  for (const Attribute &a : attrs) {
    if ((a.id != kRegisterCount && a.id != kFrameSize) || a.size < 8)
      continue;
    const uint32_t symbol = info.u32(a.payload), value = info.u32(a.payload + 4);
    if (symbol >= symbols.size())
      return damaged("an attribute names symbol " + std::to_string(symbol) + " of " + std::to_string(symbols.size()));
    for (CubinKernel &kernel : facts.kernels)
      if (kernel.name == symbols[symbol])
        (a.id == kRegisterCount ? kernel.registers : kernel.frameBytes) = value;
  }
  return facts;
}

Result<CubinKernel> checkCubin(std::span<const uint8_t> cubin, const KernelText &text, uint32_t sm) {
  NINFER_ASSIGN_OR_RETURN(CubinFacts facts, readCubin(cubin));
  const auto broken = [&](const std::string &rule, const std::string &expected, const std::string &actual) {
    return makeError(ErrorKind::Failed, "NB0489",
                     text.name + " for sm_" + std::to_string(sm) + ": " + rule + ": expected " + expected + ", got " + actual);
  };
  if (facts.sm != sm)
    return broken("architecture", std::to_string(sm), std::to_string(facts.sm));
  const auto it = std::find_if(facts.kernels.begin(), facts.kernels.end(),
                               [&](const CubinKernel &k) { return k.name == text.name; });
  if (it == facts.kernels.end())
    return broken("kernel", text.name, std::to_string(facts.kernels.size()) + " other kernels");
  if (it->registers == 0)
    return broken("register count", "a number", "none");
  if (it->frameBytes != 0)
    return broken("stack frame (register spills)", "0 bytes", std::to_string(it->frameBytes));
  if (it->maxThreads != text.threads)
    return broken("launch bound", std::to_string(text.threads), std::to_string(it->maxThreads));
  if (it->staticSharedBytes > (sm >= 90 ? 1024u : 0u))
    return broken("static shared memory", "none", std::to_string(it->staticSharedBytes) + " bytes");
  if (it->params.size() != text.params.size())
    return broken("number of parameters", std::to_string(text.params.size()), std::to_string(it->params.size()));
  uint32_t offset = 0;
  for (size_t i = 0; i < text.params.size(); ++i) {
    offset = (offset + text.params[i].bytes - 1) / text.params[i].bytes * text.params[i].bytes;
    if (it->params[i].offset != offset || it->params[i].bytes != text.params[i].bytes)
      return broken("parameter " + std::string(text.params[i].name),
                    std::to_string(text.params[i].bytes) + " bytes at " + std::to_string(offset),
                    std::to_string(it->params[i].bytes) + " at " + std::to_string(it->params[i].offset));
    offset += text.params[i].bytes;
  }
  return *it;
}

} // namespace ninfer::cuda
