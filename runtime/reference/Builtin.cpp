#include "runtime/reference/Builtin.h"

#include "runtime/reference/Ops.h"

#include <algorithm>

namespace ninfer::reference {

namespace {

struct Entry {
  std::string_view symbol;
  Factory make;
};

// Alphabetical; the only list of built-ins.
constexpr Entry kEntries[] = {
    {"ref.add", makeAdd},
    {"ref.attention", makeAttention},
    {"ref.embedding", makeEmbedding},
    {"ref.head_norm", makeHeadNorm},
    {"ref.kv_append", makeKvAppend},
    {"ref.last_row", makeLastRow},
    {"ref.linear", makeLinear},
    {"ref.rms_norm", makeRmsNorm},
    {"ref.rope", makeRope},
    {"ref.swiglu", makeSwiglu},
    {"rope_table", makeRopeTable},
};

} // namespace

const std::vector<std::string> &builtinSymbols() {
  static const std::vector<std::string> symbols = [] {
    std::vector<std::string> names;
    for (const Entry &entry : kEntries)
      names.emplace_back(entry.symbol);
    return names;
  }();
  return symbols;
}

Result<std::unique_ptr<Builtin>> makeBuiltin(std::string_view symbol, const AttributeMap &attributes,
                                             std::string_view kernelName) {
  const Entry *entry = std::find_if(std::begin(kEntries), std::end(kEntries),
                                    [&](const Entry &e) { return e.symbol == symbol; });
  if (entry == std::end(kEntries)) {
    std::string known;
    for (const std::string &name : builtinSymbols())
      known += (known.empty() ? "" : ", ") + name;
    Status status = makeError(ErrorKind::TargetMismatch, "NB0620",
                              "kernel '" + std::string(kernelName) + "' needs the built-in '" +
                                  std::string(symbol) + "', which this build does not have");
    status.note("this build has: " + known);
    return status;
  }
  AttributeReader reader(attributes, symbol, kernelName);
  std::unique_ptr<Builtin> builtin = entry->make(reader);
  NINFER_RETURN_IF_ERROR(reader.finish());
  return builtin;
}

} // namespace ninfer::reference
