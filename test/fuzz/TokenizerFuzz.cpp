// tokenizer.json through the runtime's reader: what loads can encode and decode, and all ids are its own.
#include "runtime/text/Tokenizer.h"
#include "support/Utf8.h"
#include "test/fuzz/Fuzz.h"

using namespace ninfer;
using namespace ninfer::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<Tokenizer> tokenizer = Tokenizer::fromJson(textOf(data, size), "tokenizer.json");
  if (!accepted(tokenizer))
    return 0;
  for (const char *text : {"", "Hello, world! 123\n\n  it's\tfine", "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80 e\xcc\x81\xef\xac\x81",
                           "<|im_start|>user <s> x</s>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaab"})
    for (bool parseSpecial : {true, false}) {
      Result<std::vector<int32_t>> ids = tokenizer->encode(text, {.addSpecial = true, .parseSpecial = parseSpecial});
      if (!accepted(ids))
        continue;
      for (int32_t id : *ids) {
        require(id >= 0 && id < tokenizer->size(), "an id lies in the vocabulary");
        (void)tokenizer->isSpecial(id);
      }
      require(!findInvalidUtf8(tokenizer->decode(*ids, false)), "decoded text is UTF-8");
      StreamDecoder stream(*tokenizer, false);
      std::string streamed;
      for (int32_t id : *ids)
        streamed += stream.push(id);
      streamed += stream.finish();
      require(streamed == tokenizer->decode(*ids, false), "streamed text equals the whole");
    }
  (void)tokenizer->tokenBytes(-1);
  (void)tokenizer->tokenBytes(tokenizer->size());
  (void)tokenizer->find("a");
  return 0;
}
