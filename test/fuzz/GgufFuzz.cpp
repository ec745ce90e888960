// GGUF files: reader, config, tokenizer resources, and the runtime's reading of those.
#include "convert/Gguf.h"
#include "convert/GgmlBlocks.h"
#include "convert/SourceConfig.h"
#include "convert/TokenizerFiles.h"
#include "test/fuzz/Fuzz.h"

using namespace ninfer;
using namespace ninfer::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  MemoryFile memory(textOf(data, size));
  Result<SourceFile> file = SourceFile::open(memory.path(), "m.gguf");
  require(file.ok(), "the file opens");
  Result<GgufFile> gguf = readGguf(*file);
  if (!accepted(gguf))
    return 0;
  for (const SourceTensor &t : gguf->tensors) {
    require(t.bytes > 0 && t.offset <= size && t.bytes <= size - t.offset, "a tensor lies in the file");
    require(t.rows() * t.rowBytes() == t.bytes, "rows fill the tensor");
    std::vector<std::byte> row(t.rowBytes());
    require(file->read(t.offset, row).ok(), "a row can be read");
    std::vector<float> values(t.columns());
    decodeSourceRow(t.type, row, values);
    if (movesExactlyIntoW8(t.type)) {
      std::vector<int8_t> codes(t.columns());
      std::vector<uint16_t> scales(t.columns() / 32);
      MoveKind kind = MoveKind::SameWords;
      (void)moveRowIntoW8(t.type, row, codes, scales, kind);
    }
  }
  if (isHybrid(*gguf)) {
    std::vector<std::string> ignored;
    (void)accepted(hybridFromGguf(*gguf, ignored));
    return 0;
  }
  Result<DecoderConfig> config = configFromGguf(*gguf, *file);
  if (!accepted(config))
    return 0;
  Result<std::vector<SourceResource>> resources = tokenizerFilesOfGguf(*gguf, config->vocabSize, config->maxPositions);
  if (!accepted(resources))
    return 0;
  std::vector<std::string> notes;
  (void)accepted(checkTextResources(*resources, config->vocabSize, notes));
  return 0;
}
