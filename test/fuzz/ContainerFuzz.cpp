// Whole artifacts. Input: one byte, then
//   even: the bytes of one file as they are, any framing;
//   odd:  a framing 3 directory, from which a whole artifact is made: header, zero payload of the declared size when
//         that is small, and the part files beside the entry. The bits above say what is wrong with the parts: bit 1
//         a part is missing, bit 2 cut by one byte, bit 3 of another artifact, bit 4 has another index, bit 5 too long.
// Everything an accepted artifact offers is read.
#include "artifact/container/Reader.h"
#include "artifact/container/Signature.h"
#include "artifact/container/Verify.h"
#include "test/fuzz/Fuzz.h"

#include <fstream>

using namespace ninfer;
using namespace ninfer::fuzz;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxFile = 64u << 10;

template <typename T>
void put(std::string &out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}

/// A folder of this process, emptied before each use.
const fs::path &folder() {
  static const fs::path path = [] {
    std::string pattern = (fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string()) + "/ninfer-fuzz-XXXXXX";
    require(mkdtemp(pattern.data()) != nullptr, "a folder can be made");
    static std::string keep = pattern;
    std::atexit([] { fs::remove_all(keep); });
    return fs::path(pattern);
  }();
  for (const auto &entry : fs::directory_iterator(path))
    fs::remove(entry.path());
  return path;
}

void writeFile(const fs::path &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void readAll(const fs::path &path, const fs::path &shown) {
  Result<Artifact> artifact = Artifact::open(path, shown);
  if (!accepted(artifact))
    return;
  volatile uint64_t sink = 0;
  const auto touch = [&](std::span<const std::byte> bytes) {
    for (size_t i = 0; i < bytes.size(); i += 512)
      sink = sink + static_cast<uint64_t>(bytes[i]);
    if (!bytes.empty())
      sink = sink + static_cast<uint64_t>(bytes.back());
  };
  const Directory &directory = artifact->directory();
  for (size_t i = 0; i < directory.objects.size(); ++i) {
    Result<std::span<const std::byte>> bytes = artifact->object(i);
    if (!accepted(bytes))
      continue;
    require(bytes->size() == directory.objects[i].bytes, "an object has the bytes its entry says");
    touch(*bytes);
    if (directory.objects[i].isTensor) {
      Result<EncodedGeometry> geometry = artifact->geometry(i);
      if (accepted(geometry)) {
        require(geometry->totalBytes == bytes->size(), "the geometry agrees");
        std::vector<float> row(geometry->k < 65536 ? geometry->k : 0);
        if (!row.empty())
          decodeRow(*geometry, *bytes, geometry->rows - 1, row);
      }
    }
  }
  Result<std::span<const std::byte>> payload = artifact->payload();
  if (accepted(payload)) {
    require(payload->size() == artifact->payloadBytes(), "the payload is whole");
    touch(*payload);
  }
  (void)storageSignature(directory);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const uint8_t mode = data[0];
  const std::string_view rest = textOf(data + 1, size - 1);
  if (mode % 2 == 0) {
    MemoryFile file(rest);
    readAll(file.path(), "x.ninfer");
    return 0;
  }
  Result<Directory> directory = parseDirectory(rest, "x.ninfer");
  if (!accepted(directory) || directory->files.size() > 4)
    return 0;
  for (const FileEntry &file : directory->files)
    if (file.payloadBytes > kMaxFile)
      return 0;
  const fs::path &at = folder();
  const std::string id = "0123456789abcdef";
  std::string entry("NINFER\0\x03", 8);
  put<uint64_t>(entry, rest.size());
  entry += id;
  entry += rest;
  entry.resize((entry.size() + 4095) / 4096 * 4096 + directory->files[0].payloadBytes);
  writeFile(at / "x.ninfer", entry);
  for (size_t i = 1; i < directory->files.size(); ++i) {
    if (mode & 2 && i == 1)
      continue;
    const std::string name(*directory->files[i].path);
    if (name.size() > 200)
      return 0;
    std::string part("NINPRT\0\x03", 8);
    put<uint64_t>(part, i + (mode & 16 ? 1 : 0));
    part += mode & 8 ? std::string(16, 'x') : id;
    part.resize(4096 + directory->files[i].payloadBytes);
    if (mode & 4)
      part.pop_back();
    if (mode & 32)
      part += '\0';
    writeFile(at / name, part);
  }
  readAll(at / "x.ninfer", {});
  return 0;
}
