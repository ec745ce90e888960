// Directory texts of all framings. Input: one byte (framing 1, 2 or 3 by its value modulo 3), then the text. What the
// strict reader accepts, a general JSON parser must read as the same value: two readers, one answer.
#include "artifact/container/Reader.h"
#include "test/fuzz/Fuzz.h"

#include <nlohmann/json.hpp>
#include "support/Json.h"

using namespace ninfer;
using namespace ninfer::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const int framing = data[0] % 3 + 1;
  const std::string_view text = textOf(data + 1, size - 1);
  Result<Json> strict = parseStrictJson(text, "fuzz", "NB0104");
  if (accepted(strict)) {
    const Json general = Json::parse(text, nullptr, false);
    require(!general.is_discarded() && general == *strict, "a general parser reads the same value");
  }
  Result<Directory> directory =
      framing == 3 ? parseDirectory(text, "x.ninfer") : parseIdentityDirectory(text, framing, 1u << 20, "x.ninfer");
  if (!accepted(directory))
    return 0;
  require(strict.ok() && !directory->objects.empty(), "an accepted directory is strict JSON and has objects");
  uint64_t cursor = 0;
  for (size_t i = 0; i < directory->objects.size(); ++i) {
    const ObjectEntry &object = directory->objects[i];
    require(object.offset >= cursor && object.bytes > 0, "objects are in order without overlap");
    cursor = object.offset + object.bytes;
    const Status status = checkObject(*directory, i, "x.ninfer");
    require(accepted(status) || framing == 3, "framings 1 and 2 are checked whole");
  }
  return 0;
}
