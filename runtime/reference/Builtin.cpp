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
    {"ref.axial_rope", makeAxialRope},
    {"ref.bias", makeBias},
    {"ref.causal_conv", makeCausalConv},
    {"ref.concat", makeConcat},
    {"ref.embedding", makeEmbedding},
    {"ref.full_attention", makeFullAttention},
    {"ref.gated_delta", makeGatedDelta},
    {"ref.gated_head_norm", makeGatedHeadNorm},
    {"ref.gelu", makeGelu},
    {"ref.head_norm", makeHeadNorm},
    {"ref.interpolate", makeInterpolate},
    {"ref.kv_append", makeKvAppend},
    {"ref.last_row", makeLastRow},
    {"ref.layer_norm", makeLayerNorm},
    {"ref.linear", makeLinear},
    {"ref.load_rows", makeLoadRows},
    {"ref.moe_down", makeMoeDown},
    {"ref.moe_route", makeMoeRoute},
    {"ref.moe_up", makeMoeUp},
    {"ref.place_angles", makePlaceAngles},
    {"ref.replace_rows", makeReplaceRows},
    {"ref.rms_norm", makeRmsNorm},
    {"ref.rope", makeRope},
    {"ref.sigmoid_gate", makeSigmoidGate},
    {"ref.store_rows", makeStoreRows},
    {"ref.swiglu", makeSwiglu},
    {"rope_table", makeRopeTable},
};

/// A built-in whose number of rows was fixed when the plan was built, whatever the rows of the call: what
/// follows last_row works on one row.
class StaticRows final : public Builtin {
public:
  StaticRows(std::unique_ptr<Builtin> inner, int64_t rows) : inner_(std::move(inner)), rows_(rows) {}
  int64_t units(int64_t) const override { return inner_->units(rows_); }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    inner_->run({call.args, rows_, call.position, call.scratch}, begin, end);
  }
  std::vector<ArgNeed> args(int64_t) const override { return inner_->args(rows_); }
  uint64_t scratchBytes() const override { return inner_->scratchBytes(); }
  int64_t positionLimit() const override { return inner_->positionLimit(); }
  int64_t tokenLimit() const override { return inner_->tokenLimit(); }

private:
  std::unique_ptr<Builtin> inner_;
  int64_t rows_;
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
  const bool fixed = attributes.contains("rows");
  const int64_t rows = fixed ? reader.extent("rows") : 0;
  NINFER_RETURN_IF_ERROR(reader.finish());
  if (fixed)
    return std::unique_ptr<Builtin>(std::make_unique<StaticRows>(std::move(builtin), rows));
  return builtin;
}

} // namespace ninfer::reference
