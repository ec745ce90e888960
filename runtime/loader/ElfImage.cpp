#include "runtime/loader/ElfImage.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ninfer {

namespace {

#if defined(__x86_64__)
constexpr uint16_t kHostMachine = EM_X86_64;
constexpr const char *kHostName = "x86-64";
#elif defined(__aarch64__)
constexpr uint16_t kHostMachine = EM_AARCH64;
constexpr const char *kHostName = "aarch64";
#else
constexpr uint16_t kHostMachine = EM_NONE;
constexpr const char *kHostName = "another machine";
#endif

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMaxImage = uint64_t(1) << 31;

/// What the checks learn about an image: the segments to map and the functions it exports.
struct Layout {
  std::vector<Elf64_Phdr> loads; ///< ascending addresses
  uint64_t end = 0;              ///< end of the highest segment
  std::map<std::string, uint64_t, std::less<>> functions;
};

class Parser {
public:
  Parser(std::span<const std::byte> image, std::string_view name) : image_(image), name_(name) {}

  Result<Layout> parse() {
    NINFER_RETURN_IF_ERROR(header());
    NINFER_RETURN_IF_ERROR(segments());
    NINFER_RETURN_IF_ERROR(dynamic());
    NINFER_RETURN_IF_ERROR(symbols());
    return std::move(layout_);
  }

private:
  Status bad(const std::string &rule) const {
    return makeError(ErrorKind::BadFile, "NB0610", std::string(name_) + ": machine code " + rule);
  }

  template <typename T>
  bool read(uint64_t offset, T &out) const {
    if (offset > image_.size() || sizeof(T) > image_.size() - offset)
      return false;
    std::memcpy(&out, image_.data() + offset, sizeof(T));
    return true;
  }

  /// File offset of image address `address`, of which `bytes` bytes lie in one segment's file part.
  bool locate(uint64_t address, uint64_t bytes, uint64_t &offset) const {
    for (const Elf64_Phdr &load : layout_.loads)
      if (address >= load.p_vaddr && address - load.p_vaddr <= load.p_filesz &&
          bytes <= load.p_filesz - (address - load.p_vaddr)) {
        offset = load.p_offset + (address - load.p_vaddr);
        return true;
      }
    return false;
  }

  template <typename T>
  bool readAt(uint64_t address, T &out) const {
    uint64_t offset = 0;
    return locate(address, sizeof(T), offset) && read(offset, out);
  }

  Status header() {
    if (!read(0, header_) || std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0)
      return bad("is not an ELF image");
    if (image_.size() > kMaxImage)
      return bad("is larger than 2 GiB");
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
        header_.e_type != ET_DYN || header_.e_phentsize != sizeof(Elf64_Phdr))
      return bad("is not a 64-bit little-endian shared object");
    if (header_.e_machine != kHostMachine)
      return makeError(ErrorKind::TargetMismatch, "NB0611",
                       std::string(name_) + ": plan: machine code of ELF machine " +
                           std::to_string(header_.e_machine) + ", this machine: " + kHostName);
    return {};
  }

  Status segments() {
    std::vector<Elf64_Phdr> relro;
    for (uint32_t i = 0; i < header_.e_phnum; ++i) {
      Elf64_Phdr segment;
      if (header_.e_phoff > image_.size() || !read(header_.e_phoff + uint64_t(i) * sizeof(segment), segment))
        return bad("has program headers outside the image");
      switch (segment.p_type) {
      case PT_LOAD:
        layout_.loads.push_back(segment);
        break;
      case PT_DYNAMIC:
        dynamic_ = segment;
        hasDynamic_ = true;
        break;
      case PT_GNU_RELRO:
        relro.push_back(segment);
        break;
      case PT_INTERP:
      case PT_TLS:
        return bad("has an interpreter or thread-local data, which kernels may not have");
      default:
        break;
      }
    }
    if (layout_.loads.empty())
      return bad("has no loadable segment");
    uint64_t end = 0;
    for (const Elf64_Phdr &load : layout_.loads) {
      if (load.p_offset > image_.size() || load.p_filesz > image_.size() - load.p_offset ||
          load.p_filesz > load.p_memsz || load.p_vaddr > kMaxImage || load.p_memsz > kMaxImage)
        return bad("has a segment outside the image");
      if (load.p_offset % kPage != load.p_vaddr % kPage)
        return bad("has a segment whose offset and address differ modulo 4096");
      if (load.p_vaddr / kPage * kPage < end)
        return bad("has segments that overlap or are out of order");
      end = (load.p_vaddr + load.p_memsz + kPage - 1) / kPage * kPage;
      if ((load.p_flags & PF_W) && (load.p_flags & PF_X))
        return bad("has a segment that is writable and executable");
      // The linker puts the dynamic table into a segment that becomes read-only after relocation. There are
      // no relocations, so it is mapped read-only at once. Anything else writable would be shared state.
      const bool coveredByRelro = std::any_of(relro.begin(), relro.end(), [&](const Elf64_Phdr &r) {
        return r.p_vaddr <= load.p_vaddr && load.p_filesz <= r.p_memsz;
      });
      if ((load.p_flags & PF_W) && !coveredByRelro)
        return bad("has writable data, which kernels may not have");
      if (!(load.p_flags & PF_W) && load.p_filesz != load.p_memsz)
        return bad("has a read-only segment with unfilled memory");
    }
    layout_.end = end;
    return {};
  }

  Status dynamic() {
    if (!hasDynamic_)
      return bad("has no dynamic table");
    for (uint64_t at = 0;; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      if (at >= dynamic_.p_filesz || !readAt(dynamic_.p_vaddr + at, entry))
        return bad("has a dynamic table that does not end");
      switch (entry.d_tag) {
      case DT_NULL:
        return {};
      case DT_SYMTAB:
        symtab_ = entry.d_un.d_ptr;
        break;
      case DT_STRTAB:
        strtab_ = entry.d_un.d_ptr;
        break;
      case DT_STRSZ:
        strsz_ = entry.d_un.d_val;
        break;
      case DT_HASH:
        hash_ = entry.d_un.d_ptr;
        break;
      case DT_GNU_HASH:
        gnuHash_ = entry.d_un.d_ptr;
        break;
      case DT_SYMENT:
        if (entry.d_un.d_val != sizeof(Elf64_Sym))
          return bad("has symbols of another size");
        break;
      case DT_SONAME:
      case DT_FLAGS:
      case DT_FLAGS_1:
      case DT_SYMBOLIC:
        break;
      case DT_NEEDED:
        return bad("needs another library, which kernels may not");
      case DT_RELA:
      case DT_REL:
      case DT_RELR:
      case DT_JMPREL:
      case DT_TEXTREL:
        return bad("has relocations, which kernels may not have");
      default:
        return bad("has a dynamic entry of the unexpected kind " + std::to_string(entry.d_tag));
      }
    }
  }

  /// Number of entries of the symbol table, which ELF states only through its hash tables.
  bool countSymbols(uint64_t &count) const {
    if (hash_) {
      uint32_t chains = 0;
      if (!readAt(hash_ + 4, chains))
        return false;
      count = chains;
      return true;
    }
    uint32_t buckets = 0, first = 0, bloom = 0;
    if (!gnuHash_ || !readAt(gnuHash_, buckets) || !readAt(gnuHash_ + 4, first) || !readAt(gnuHash_ + 8, bloom))
      return false;
    const uint64_t bucketsAt = gnuHash_ + 16 + uint64_t(bloom) * 8, chainsAt = bucketsAt + uint64_t(buckets) * 4;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; ++i) {
      uint32_t bucket = 0;
      if (!readAt(bucketsAt + uint64_t(i) * 4, bucket))
        return false;
      last = std::max(last, bucket);
    }
    count = first;
    for (uint64_t symbol = last; last >= first && last != 0; ++symbol) {
      uint32_t chain = 0;
      if (!readAt(chainsAt + (symbol - first) * 4, chain))
        return false;
      if (chain & 1u) {
        count = symbol + 1;
        break;
      }
    }
    return true;
  }

  Status symbols() {
    uint64_t count = 0, strings = 0;
    if (!symtab_ || !strtab_ || !locate(strtab_, strsz_, strings) || !countSymbols(count))
      return bad("has an unusable symbol table");
    for (uint64_t i = 1; i < count; ++i) {
      Elf64_Sym symbol;
      if (!readAt(symtab_ + i * sizeof(symbol), symbol) || symbol.st_name >= strsz_)
        return bad("has symbols outside the image");
      const auto *text = reinterpret_cast<const char *>(image_.data() + strings + symbol.st_name);
      const uint64_t length = strnlen(text, strsz_ - symbol.st_name);
      if (length == strsz_ - symbol.st_name)
        return bad("has a symbol name that does not end");
      if (symbol.st_shndx == SHN_UNDEF)
        return bad("refers to the undefined symbol '" + std::string(text, length) + "'");
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC)
        continue;
      const bool inCode = std::any_of(layout_.loads.begin(), layout_.loads.end(), [&](const Elf64_Phdr &load) {
        return (load.p_flags & PF_X) && symbol.st_value >= load.p_vaddr &&
               symbol.st_value - load.p_vaddr < load.p_filesz;
      });
      if (!inCode)
        return bad("has the function '" + std::string(text, length) + "' outside executable segments");
      layout_.functions.emplace(std::string(text, length), symbol.st_value);
    }
    return {};
  }

  std::span<const std::byte> image_;
  std::string_view name_;
  Elf64_Ehdr header_{};
  Elf64_Phdr dynamic_{};
  bool hasDynamic_ = false;
  uint64_t symtab_ = 0, strtab_ = 0, strsz_ = 0, hash_ = 0, gnuHash_ = 0;
  Layout layout_;
};

Status systemError(std::string_view name, const char *what, int error) {
  return makeError(ErrorKind::Failed, "NB0612",
                   std::string(name) + ": cannot map machine code: " + what + ": " + std::strerror(error));
}

/// Reserves the address range and maps every segment into it. Returns the base.
Result<void *> mapSegments(const Layout &layout, int fd, uint64_t fileOffset, std::string_view name) {
  if (uint64_t(sysconf(_SC_PAGESIZE)) != kPage)
    return makeError(ErrorKind::Failed, "NB0612",
                     std::string(name) + ": cannot map machine code directly: the system's page size is not 4096");
  void *base = mmap(nullptr, layout.end, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return systemError(name, "reserving addresses", errno);
  for (const Elf64_Phdr &load : layout.loads) {
    if (load.p_filesz == 0)
      continue;
    const uint64_t skew = load.p_vaddr % kPage;
    const int protection = PROT_READ | ((load.p_flags & PF_X) ? PROT_EXEC : 0);
    if (mmap(static_cast<char *>(base) + load.p_vaddr - skew, load.p_filesz + skew, protection,
             MAP_PRIVATE | MAP_FIXED, fd, off_t(fileOffset + load.p_offset - skew)) == MAP_FAILED) {
      const int error = errno;
      munmap(base, layout.end);
      return systemError(name, "mapping a segment of the plan file", error);
    }
  }
  return base;
}

/// Copies the image into a sealed memory file and lets the dynamic loader map it. Returns its handle.
Result<void *> loadFromMemory(std::span<const std::byte> image, std::string_view name) {
  const int fd = memfd_create("ninfer-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return systemError(name, "memfd_create", errno);
  for (size_t done = 0; done < image.size();) {
    const ssize_t count = write(fd, image.data() + done, image.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0) {
      const int error = errno;
      close(fd);
      return systemError(name, "writing the memory file", error);
    }
    done += size_t(count);
  }
  (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char *reason = handle ? nullptr : dlerror();
  Status status;
  if (!handle)
    status = makeError(ErrorKind::Failed, "NB0612",
                       std::string(name) + ": cannot map machine code: dlopen: " + (reason ? reason : "unknown reason"));
  close(fd);
  if (!handle)
    return status;
  return handle;
}

} // namespace

Status ElfImage::check(std::span<const std::byte> image, std::string_view name) {
  return Parser(image, name).parse().takeStatus();
}

Result<ElfImage> ElfImage::map(Mapping mapping, int fd, uint64_t fileOffset, std::span<const std::byte> image,
                               std::string_view name) {
  NINFER_ASSIGN_OR_RETURN(Layout layout, Parser(image, name).parse());
  ElfImage result;
  result.mapping_ = mapping;
  result.mappedBytes_ = layout.end;
  if (mapping == Mapping::Direct) {
    NINFER_ASSIGN_OR_RETURN(result.base_, mapSegments(layout, fd, fileOffset, name));
    result.bias_ = reinterpret_cast<uint64_t>(result.base_);
  } else {
    NINFER_ASSIGN_OR_RETURN(result.base_, loadFromMemory(image, name));
  }
  result.functions_ = std::move(layout.functions);
  return result;
}

const void *ElfImage::function(const std::string &symbol) const {
  auto it = functions_.find(symbol);
  if (it == functions_.end())
    return nullptr;
  if (mapping_ == Mapping::Memory)
    return dlsym(base_, symbol.c_str());
  return reinterpret_cast<const void *>(bias_ + it->second);
}

void ElfImage::reset() {
  if (base_ && mapping_ == Mapping::Direct)
    munmap(base_, mappedBytes_);
  else if (base_)
    dlclose(base_);
  base_ = nullptr;
}

ElfImage::ElfImage(ElfImage &&other) noexcept { *this = std::move(other); }

ElfImage &ElfImage::operator=(ElfImage &&other) noexcept {
  if (this != &other) {
    reset();
    mapping_ = other.mapping_;
    base_ = std::exchange(other.base_, nullptr);
    mappedBytes_ = other.mappedBytes_;
    functions_ = std::move(other.functions_);
    bias_ = other.bias_;
  }
  return *this;
}

ElfImage::~ElfImage() { reset(); }

} // namespace ninfer
