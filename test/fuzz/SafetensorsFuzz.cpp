// safetensors files. Input: one byte, then an even one: a whole file; an odd one: a header text, to which length and
// as many data bytes as its largest offset says (when small) are added.
#include "convert/Safetensors.h"
#include "support/Json.h"
#include "test/fuzz/Fuzz.h"

#include <set>

using namespace ninfer;
using namespace ninfer::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  std::string bytes(textOf(data + 1, size - 1));
  if (data[0] % 2) {
    uint64_t end = 0;
    const Json header = Json::parse(bytes, nullptr, false);
    if (header.is_object())
      for (const auto &item : header.items())
        if (item.value().is_object() && item.value().contains("data_offsets"))
          for (const Json &offset : item.value()["data_offsets"])
            if (offset.is_number_unsigned() && offset.get<uint64_t>() <= 65536)
              end = std::max(end, offset.get<uint64_t>());
    std::string length;
    for (int i = 0; i < 8; ++i)
      length += static_cast<char>(static_cast<uint64_t>(bytes.size()) >> (8 * i));
    bytes = length + bytes + std::string(end, '\1');
  }
  MemoryFile memory(bytes);
  Result<SourceFile> file = SourceFile::open(memory.path(), "m.safetensors");
  require(file.ok(), "the file opens");
  Result<std::vector<SourceTensor>> tensors = readSafetensors(*file);
  if (!accepted(tensors))
    return 0;
  std::set<std::string> names;
  for (const SourceTensor &t : *tensors) {
    require(names.insert(t.name).second, "no name occurs twice");
    require(t.offset >= 8 && t.bytes > 0 && t.offset <= bytes.size() && t.bytes <= bytes.size() - t.offset,
            "a tensor lies in the file");
    require(t.rows() * t.rowBytes() == t.bytes, "rows fill the tensor");
    std::vector<std::byte> row(t.rowBytes());
    require(file->read(t.offset + t.bytes - row.size(), row).ok(), "the last row can be read");
  }
  return 0;
}
