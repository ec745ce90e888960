#include "codegen/cpu/ElfLink.h"

#include "lld/Common/Driver.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include <fcntl.h>

LLD_HAS_DRIVER(elf)

namespace ninfer::cpu {

namespace {

Error linkError(std::string message) {
  return makeError(ErrorKind::Failed, "NB0484", std::move(message));
}

Error systemError(const char *what) {
  return makeError(ErrorKind::Failed, "NB0906", std::string(what) + ": " + std::strerror(errno));
}

/// Closes a file descriptor once.
class Descriptor {
public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor &operator=(Descriptor &&) = delete;
  ~Descriptor() { reset(); }
  void reset() {
    if (fd_ >= 0)
      close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

private:
  int fd_;
};

Result<Descriptor> memoryFile(std::span<const char> bytes) {
  Descriptor file(memfd_create("ninfer-object", MFD_CLOEXEC));
  if (file.get() < 0)
    return systemError("cannot make a memory file for the linker");
  for (size_t done = 0; done < bytes.size();) {
    ssize_t n = write(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return systemError("cannot fill a memory file for the linker");
    done += static_cast<size_t>(n);
  }
  return file;
}

std::string oneLine(std::string text) {
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

} // namespace

Result<std::vector<char>> linkSharedObject(const std::vector<std::vector<char>> &objects,
                                           CpuArchitecture architecture) {
  static std::mutex turn;
  std::lock_guard<std::mutex> lock(turn);

  std::vector<Descriptor> inputs;
  std::vector<std::string> names;
  for (const std::vector<char> &object : objects) {
    NINFER_ASSIGN_OR_RETURN(Descriptor file, memoryFile(object));
    names.push_back(file.path());
    inputs.push_back(std::move(file));
  }
  // LLD writes regular files through a temporary name beside them, which a memory file has not;
  // into a pipe it writes straight, once, from memory.
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return systemError("cannot make a pipe for the linker");
  Descriptor readEnd(ends[0]), writeEnd(ends[1]);
  std::string outName = writeEnd.path();
  std::vector<char> elf;
  std::thread collector([&elf, fd = readEnd.get()] {
    char buffer[65536];
    for (;;) {
      ssize_t n = read(fd, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return;
      elf.insert(elf.end(), buffer, buffer + n);
    }
  });

  std::vector<const char *> args = {"ld.lld",         "-shared",
                                    "-nostdlib",      "-m",
                                    architecture == CpuArchitecture::Aarch64 ? "aarch64linux" : "elf_x86_64", "-z",
                                    "noexecstack",    "-z",
                                    "relro",          "--hash-style=gnu",
                                    "--gc-sections",  "--build-id=none",
                                    "--no-undefined", "--strip-all",
                                    "--threads=1",    "-Bsymbolic",
                                    "-soname",        "ninfer-kernels"};
  for (const std::string &name : names)
    args.push_back(name.c_str());
  args.push_back("-o");
  args.push_back(outName.c_str());
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result outcome = lld::lldMain(args, stream, stream, {{lld::Gnu, &lld::elf::link}});
  writeEnd.reset();
  collector.join();
  if (outcome.retCode != 0)
    return linkError("linking the kernels failed: " + oneLine(messages));
  if (!outcome.canRunAgain)
    return linkError("the linker stopped in a state it cannot recover from");
  return elf;
}

Status checkSharedObject(std::span<const char> elf, const std::vector<std::string> &symbols,
                         CpuArchitecture architecture) {
  using File = llvm::object::ELF64LEFile;
  auto broken = [](llvm::Error error) {
    return linkError("the linked object is not readable: " + llvm::toString(std::move(error)));
  };
  llvm::Expected<File> file = File::create(llvm::StringRef(elf.data(), elf.size()));
  if (!file)
    return broken(file.takeError());
  if (file->getHeader().e_type != llvm::ELF::ET_DYN ||
      file->getHeader().e_machine !=
          (architecture == CpuArchitecture::Aarch64 ? llvm::ELF::EM_AARCH64 : llvm::ELF::EM_X86_64))
    return linkError(std::string("the linked object is not an ") +
                     (architecture == CpuArchitecture::Aarch64 ? "aarch64" : "x86-64") + " shared object");

  auto headers = file->program_headers();
  if (!headers)
    return broken(headers.takeError());
  for (const File::Elf_Phdr &header : *headers) {
    if (header.p_type == llvm::ELF::PT_TLS)
      return linkError("the linked object has thread-local storage");
    if (header.p_type == llvm::ELF::PT_LOAD && (header.p_flags & llvm::ELF::PF_W) &&
        (header.p_flags & llvm::ELF::PF_X))
      return linkError("the linked object has a segment that is writable and executable");
  }

  auto entries = file->dynamicEntries();
  if (!entries)
    return broken(entries.takeError());
  for (const File::Elf_Dyn &entry : *entries)
    switch (entry.getTag()) {
    case llvm::ELF::DT_NEEDED:
      return linkError("the linked object needs another library");
    case llvm::ELF::DT_RELA:
    case llvm::ELF::DT_REL:
    case llvm::ELF::DT_RELR:
    case llvm::ELF::DT_JMPREL:
    case llvm::ELF::DT_TEXTREL:
      return linkError("the linked object has dynamic relocations");
    case llvm::ELF::DT_INIT:
    case llvm::ELF::DT_FINI:
    case llvm::ELF::DT_INIT_ARRAY:
    case llvm::ELF::DT_FINI_ARRAY:
      return linkError("the linked object has constructors");
    default:
      break;
    }

  auto sections = file->sections();
  if (!sections)
    return broken(sections.takeError());
  std::vector<std::string> defined;
  for (const File::Elf_Shdr &section : *sections) {
    if (section.sh_type == llvm::ELF::SHT_RELA || section.sh_type == llvm::ELF::SHT_REL)
      return linkError("the linked object has a relocation section");
    if (section.sh_type != llvm::ELF::SHT_DYNSYM)
      continue;
    auto table = file->symbols(&section);
    if (!table)
      return broken(table.takeError());
    auto strings = file->getStringTableForSymtab(section);
    if (!strings)
      return broken(strings.takeError());
    for (const File::Elf_Sym &symbol : table->drop_front(table->empty() ? 0 : 1)) {
      llvm::Expected<llvm::StringRef> name = symbol.getName(*strings);
      if (!name)
        return broken(name.takeError());
      if (symbol.st_shndx == llvm::ELF::SHN_UNDEF)
        return linkError("the linked object leaves '" + name->str() + "' undefined");
      if (symbol.getType() == llvm::ELF::STT_FUNC)
        defined.push_back(name->str());
    }
  }
  for (const std::string &symbol : symbols)
    if (std::find(defined.begin(), defined.end(), symbol) == defined.end())
      return linkError("the linked object does not define the function '" + symbol + "'");
  return {};
}

} // namespace ninfer::cpu
