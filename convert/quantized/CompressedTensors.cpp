// Import of compressed-tensors checkpoints: nvfp4-pack-quantized, float-quantized, naive-quantized,
// int-quantized and pack-quantized.
#include "convert/quantized/CompressedConfig.h"
#include "convert/quantized/FloatWeights.h"
#include "convert/quantized/Import.h"
#include "convert/quantized/IntegerWeight.h"
#include "convert/quantized/Scales.h"
#include "support/Bytes.h"

#include <algorithm>
#include <map>

namespace ninfer {

namespace {

bool endsWith(const std::string &text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

class CompressedImporter {
public:
  CompressedImporter(ImportContext &context, CompressedConfig config)
      : context_(context), config_(std::move(config)) {}

  Status run() {
    std::map<std::string, size_t> covered;
    for (const SourceModule &module : context_.modules()) {
      NINFER_ASSIGN_OR_RETURN(const QuantScheme *scheme, schemeOf(module, covered));
      if (!scheme || !scheme->weights)
        continue;
      const size_t before = context_.refusals().size();
      NINFER_RETURN_IF_ERROR(importModule(module, *scheme));
      if (context_.refusals().size() != before) // told once: its tensors are explained, not taken
        for (const char *suffix : kSuffixes)
          context_.drop(module.name + "." + suffix);
    }
    for (const QuantScheme &s : config_.schemes)
      if (s.weights && !covered[s.group])
        context_.refusals().fault("group '" + s.group + "' (" + schemeText(*s.weights) +
                                  ") matches no weight of the model");
    leftovers();
    remarks();
    return Status();
  }

private:
  /// The one scheme of a module, or null. Ignored modules have none.
  Result<const QuantScheme *> schemeOf(const SourceModule &module,
                                       std::map<std::string, size_t> &covered) {
    NINFER_ASSIGN_OR_RETURN(const std::string *ignored, config_.ignore.match(module));
    const QuantScheme *found = nullptr;
    for (const QuantScheme &s : config_.schemes) {
      NINFER_ASSIGN_OR_RETURN(const std::string *target, s.targets.match(module));
      // A norm carries no quantized weight, whatever a wide expression matches.
      if (!target || ignored || module.shape.size() != 2)
        continue;
      ++covered[s.group];
      if (found)
        context_.refusals().fault("'" + module.name + "' is matched by two schemes: group '" +
                                  found->group + "' and group '" + s.group + "' (target '" +
                                  *target + "')");
      else
        found = &s;
    }
    return found;
  }

  Status importModule(const SourceModule &module, const QuantScheme &scheme) {
    const std::string prefix = module.name + ".";
    // The head of a model with tied embeddings has no weight of its own.
    if (module.tied && !context_.has(prefix + "weight_scale"))
      return Status();
    const WeightArgs &w = *scheme.weights;
    if (!w.symmetric) {
      refuse(module, schemeText(w) + " asymmetric: the registered formats have no zero point");
      return Status();
    }
    if (w.groupOrder) {
      refuse(module, "act-order: columns of one group lie apart (weight_g_idx)");
      return Status();
    }
    for (const char *foreign : {"weight_scale_2", "weight_scale_inv", "qweight"})
      if (context_.has(prefix + foreign)) {
        context_.refusals().fault("'" + prefix + foreign +
                                  "' beside a compressed-tensors scheme: two conventions for one "
                                  "weight");
        return Status();
      }
    if (scheme.format == "nvfp4-pack-quantized")
      return nvfp4(module, scheme);
    if (w.isFloat)
      return float8(module, scheme);
    return integer(module, scheme);
  }

  /// A component the scheme needs; a fault is recorded when it is missing.
  std::optional<PackedComponent> need(const SourceModule &module, const QuantScheme &scheme,
                                      const char *suffix) {
    std::string name = module.name + "." + suffix;
    std::optional<PackedComponent> out = context_.component(name);
    if (out)
      return out;
    std::optional<PackedComponent> plain = context_.component(module.name + ".weight");
    context_.refusals().fault(
        "missing: tensor '" + name + "' of group '" + scheme.group + "' (" + scheme.format + ")" +
        (plain ? ", the weight is stored plain as " + plain->tensor.typeName : ""));
    return std::nullopt;
  }

  void refuse(const SourceModule &module, const std::string &rule) {
    context_.refusals().refuse(module.name + ".weight", rule);
  }

  /// Adds the weight, or records why its tensors do not fit together. Read errors end the import.
  Status add(const SourceModule &module, Result<std::shared_ptr<PackedWeight>> weight) {
    if (weight.ok())
      context_.add(module.name + ".weight", weight.take());
    else
      context_.refusals().fault(weight.error().message);
    return Status();
  }

  /// Reads a positive scalar; a bad value is a fault of the file, other errors end the import.
  Result<std::optional<uint32_t>> scalar(const PackedComponent &component) {
    Result<uint32_t> word = readPositiveScalar(component);
    if (word.ok())
      return std::optional<uint32_t>(*word);
    if (word.error().code != "NB0326")
      return word.takeStatus();
    context_.refusals().fault(word.error().message);
    return std::optional<uint32_t>();
  }

  Status nvfp4(const SourceModule &module, const QuantScheme &scheme) {
    std::optional<PackedComponent> codes = need(module, scheme, "weight_packed"),
                                   scales = need(module, scheme, "weight_scale"),
                                   divisor = need(module, scheme, "weight_global_scale");
    if (!codes || !scales || !divisor)
      return Status();
    Nvfp4Parts parts;
    parts.scheme = schemeName(scheme);
    // compressed-tensors stores the large number that divides: it is d_w itself.
    NINFER_ASSIGN_OR_RETURN(std::optional<uint32_t> word, scalar(*divisor));
    if (!word)
      return Status();
    parts.divisor = *word;
    parts.codes = std::move(*codes);
    parts.scales = std::move(*scales);
    parts.scalars.push_back(std::move(*divisor));
    if (std::optional<PackedComponent> input =
            context_.component(module.name + ".input_global_scale")) {
      NINFER_ASSIGN_OR_RETURN(word, scalar(*input));
      if (!word)
        return Status();
      parts.activation = ActivationDivisor{*word, false};
      parts.scalars.push_back(std::move(*input));
    }
    return add(module, makeNvfp4Weight(std::move(parts)));
  }

  Status float8(const SourceModule &module, const QuantScheme &scheme) {
    const WeightArgs &w = *scheme.weights;
    if (w.strategy != "channel" && w.strategy != "tensor") {
      refuse(module, schemeText(w) + ": the registered format has one scale per row");
      return Status();
    }
    std::optional<PackedComponent> codes = need(module, scheme, "weight"),
                                   scales = need(module, scheme, "weight_scale");
    if (!codes || !scales)
      return Status();
    const SourceTensor &tensor = scales->tensor;
    const uint64_t rows = codes->tensor.shape.empty() ? 1 : codes->tensor.shape[0];
    std::optional<RowScales> shape = rowScalesOfShape(tensor.shape, rows);
    const bool perTensor = w.strategy == "tensor";
    if (!shape || (!perTensor && *shape != RowScales::PerRow) ||
        (perTensor && *shape == RowScales::PerRow && rows != 1)) {
      context_.refusals().fault("tensor '" + tensor.name + "' " + shapeText(tensor.shape) +
                                ": strategy " + w.strategy + " needs " +
                                (perTensor ? "one scale"
                                           : "[" + std::to_string(rows) + "] or [" +
                                                 std::to_string(rows) + ",1]"));
      return Status();
    }
    Fp8Parts parts;
    if (perTensor && rows != 1) {
      if (!mayReplicate(module))
        return Status();
      parts.notes.push_back("one scale per tensor, written once per row");
    }
    parts.scheme = schemeName(scheme);
    parts.rows = perTensor ? RowScales::OnePerTensor : RowScales::PerRow;
    parts.codes = std::move(*codes);
    parts.scales = std::move(*scales);
    return add(module, makeFp8RowWeight(std::move(parts)));
  }

  bool mayReplicate(const SourceModule &module) {
    if (context_.options().replicateTensorScale)
      return true;
    refuse(module, "one scale per tensor: the registered format has one per row; "
                   "--tensor-scale replicate writes it once per row");
    context_.refusals().help(kReplicateHelp);
    return false;
  }

  Status integer(const SourceModule &module, const QuantScheme &scheme) {
    const WeightArgs &w = *scheme.weights;
    if (w.strategy != "channel" && w.strategy != "tensor" && w.strategy != "group") {
      refuse(module, schemeText(w) + ": grouped formats have one scale per group of a row");
      return Status();
    }
    std::string rule;
    if (!integerFormat(w.bits, w.groupSize, rule)) {
      refuse(module, rule);
      return Status();
    }
    IntegerParts parts;
    parts.storage =
        scheme.format == "pack-quantized" ? CodeStorage::PackedInt32 : CodeStorage::Int8;
    const bool packed = parts.storage == CodeStorage::PackedInt32;
    std::optional<PackedComponent> codes = need(module, scheme, packed ? "weight_packed" : "weight"),
                                   scales = need(module, scheme, "weight_scale");
    if (!codes || !scales)
      return Status();
    if (w.strategy == "tensor") {
      if (!mayReplicate(module))
        return Status();
      parts.oneScale = true;
      parts.notes.push_back("one scale per tensor, written once per group");
    }
    parts.scheme = schemeName(scheme);
    parts.bits = w.bits;
    parts.groupSize = w.groupSize;
    parts.columns = codes->tensor.shape.size() == 2 ? codes->tensor.shape[1] : 0;
    if (packed) {
      std::optional<PackedComponent> shape = need(module, scheme, "weight_shape");
      if (!shape)
        return Status();
      NINFER_ASSIGN_OR_RETURN(std::optional<uint64_t> columns, columnsOf(*shape, codes->tensor));
      if (!columns)
        return Status();
      parts.columns = *columns;
      parts.others.push_back(std::move(*shape));
    }
    NINFER_ASSIGN_OR_RETURN(bool neutral, neutralExtras(module, w, parts));
    if (!neutral)
      return Status();
    parts.codes = std::move(*codes);
    parts.scales = std::move(*scales);
    return add(module, makeIntegerWeight(std::move(parts)));
  }

  /// Integers of a small I32 or I64 tensor.
  Result<std::vector<int64_t>> integers(const PackedComponent &component) {
    std::vector<std::byte> bytes(component.tensor.bytes);
    NINFER_RETURN_IF_ERROR(component.read(0, bytes));
    std::vector<int64_t> out;
    if (component.tensor.typeName == "I64")
      for (size_t i = 0; i + 8 <= bytes.size(); i += 8)
        out.push_back(static_cast<int64_t>(loadLe64(bytes.data() + i)));
    else
      for (size_t i = 0; i + 4 <= bytes.size(); i += 4)
        out.push_back(static_cast<int32_t>(loadLe32(bytes.data() + i)));
    return out;
  }

  /// K of weight_shape = [N, K], which must agree with the codes.
  Result<std::optional<uint64_t>> columnsOf(const PackedComponent &shape,
                                            const SourceTensor &codes) {
    const SourceTensor &t = shape.tensor;
    std::vector<int64_t> values;
    const bool typed = (t.typeName == "I64" || t.typeName == "I32") &&
                       t.shape == std::vector<uint64_t>{2};
    if (typed) {
      NINFER_ASSIGN_OR_RETURN(values, integers(shape));
    }
    if (!typed || codes.shape.size() != 2 || values[0] < 1 || values[1] < 1 ||
        static_cast<uint64_t>(values[0]) != codes.shape[0]) {
      context_.refusals().fault("tensor '" + t.name + "' must hold [N,K] of '" + codes.name +
                                "' " + shapeText(codes.shape) +
                                (typed ? ", got [" + std::to_string(values[0]) + "," +
                                             std::to_string(values[1]) + "]"
                                       : ", got " + t.typeName + " " + shapeText(t.shape)));
      return std::optional<uint64_t>();
    }
    return std::optional<uint64_t>(static_cast<uint64_t>(values[1]));
  }

  /// weight_g_idx and weight_zero_point are accepted when they say nothing.
  Result<bool> neutralExtras(const SourceModule &module, const WeightArgs &w,
                             IntegerParts &parts) {
    if (std::optional<PackedComponent> order =
            context_.component(module.name + ".weight_g_idx")) {
      if (order->tensor.typeName != "I32" && order->tensor.typeName != "I64") {
        context_.refusals().fault("tensor '" + order->tensor.name + "' must be I32 or I64");
        return false;
      }
      NINFER_ASSIGN_OR_RETURN(std::vector<int64_t> groups, integers(*order));
      bool plain = groups.size() == parts.columns && w.groupSize != 0;
      for (size_t k = 0; plain && k < groups.size(); ++k)
        plain = groups[k] == static_cast<int64_t>(k / w.groupSize);
      // The library takes -1 for "not set".
      if (!plain && !std::all_of(groups.begin(), groups.end(), [](int64_t g) { return g == -1; })) {
        refuse(module, "act-order: columns of one group lie apart (weight_g_idx)");
        return false;
      }
      parts.others.push_back(std::move(*order));
    }
    if (std::optional<PackedComponent> zero =
            context_.component(module.name + ".weight_zero_point")) {
      std::vector<std::byte> bytes(zero->tensor.bytes);
      NINFER_RETURN_IF_ERROR(zero->read(0, bytes));
      if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte(0); })) {
        context_.refusals().fault("tensor '" + zero->tensor.name +
                                  "' is not zero, though group '" + parts.scheme +
                                  "' is symmetric");
        return false;
      }
      parts.others.push_back(std::move(*zero));
    }
    return true;
  }

  static std::string schemeName(const QuantScheme &scheme) {
    std::string args = scheme.format == "nvfp4-pack-quantized" ? "" : " " + schemeText(*scheme.weights);
    return "compressed-tensors " + scheme.format + args;
  }

  /// Tensors that are left: quantities of activations are dropped and counted, parts of weights no
  /// scheme explains are faults.
  void leftovers() {
    static constexpr const char *kActivation[] = {".input_scale",  ".input_zero_point",
                                                  ".output_scale", ".output_zero_point",
                                                  ".input_global_scale"};
    static constexpr const char *kCache[] = {".k_scale", ".v_scale", ".q_scale", ".k_zero_point",
                                             ".v_zero_point", ".k_global_scale", ".v_global_scale"};
    auto isOne = [](const std::string &name, auto &list) {
      return std::any_of(std::begin(list), std::end(list),
                         [&](const char *suffix) { return endsWith(name, suffix); });
    };
    for (const std::string &name : context_.names()) {
      if (isOne(name, kActivation)) {
        ++activationScales_;
        context_.drop(name);
      } else if (isOne(name, kCache)) {
        ++cacheScales_;
        context_.drop(name);
      } else if (std::any_of(std::begin(kSuffixes) + 1, std::end(kSuffixes),
                             [&](const char *s) { return endsWith(name, "." + std::string(s)); })) {
        context_.refusals().fault("no scheme explains tensor '" + name + "'");
        context_.drop(name);
      }
    }
  }

  void remarks() {
    if (activationScales_)
      context_.note(std::to_string(activationScales_) +
                    " scales of activations are not used: only weights are taken over");
    if (cacheScales_ || config_.kvCache)
      context_.note("kv_cache_scheme is not used: the format of the cache is chosen at run time");
    if (!config_.unused.empty())
      context_.note(context_.config().where + ": members not used: " + config_.unused);
  }

  /// Of the tensors of one weight; the first is also the name of a plain one.
  static constexpr const char *kSuffixes[] = {
      "weight",       "weight_packed", "weight_scale",       "weight_global_scale",
      "weight_shape", "weight_g_idx",  "weight_zero_point"};

  ImportContext &context_;
  CompressedConfig config_;
  size_t activationScales_ = 0, cacheScales_ = 0;
};

} // namespace

Status importCompressedTensors(ImportContext &context) {
  NINFER_ASSIGN_OR_RETURN(CompressedConfig config, parseCompressedConfig(context.config()));
  return CompressedImporter(context, std::move(config)).run();
}

} // namespace ninfer
