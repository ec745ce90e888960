// The closed table of quantization methods: which names a config may carry, which importer takes
// the checkpoint over, or which rule of the registry the method breaks.
#include "convert/quantized/Import.h"

#include <algorithm>

namespace ninfer {

namespace {

struct Method {
  const char *name;
  std::vector<const char *> aliases;
  Importer importer; ///< null: refused
  const char *rule;  ///< why refused
};

constexpr const char *kNoZeroPoint = "grouped formats have no zero point";
constexpr const char *kCodebook = "codebook formats are not registered";

const std::vector<Method> &methods() {
  static const std::vector<Method> table = {
      {"compressed-tensors", {"compressed_tensors", "sparseml"}, importCompressedTensors, ""},
      {"gptq", {}, importGptq, ""},
      {"auto-round", {"auto_round", "intel/auto-round"}, importGptq, ""},
      {"modelopt", {"modelopt_fp4", "modelopt_fp8"}, importModelOpt, ""},
      {"awq", {"awq_marlin", "llm-awq"}, nullptr, kNoZeroPoint},
      {"bitsandbytes", {"bnb"}, nullptr, "bitsandbytes blocks have no registered form"},
      {"aqlm", {}, nullptr, kCodebook},
      {"vptq", {}, nullptr, kCodebook},
      {"quip", {"quip#", "quip-sharp", "quip_sharp", "quipsharp", "qtip"},
       nullptr,
       "lattice codebooks and Hadamard rotations are not registered"},
      {"higgs", {}, nullptr, "vector codebooks and Hadamard rotations are not registered"},
      {"squeezellm", {}, nullptr, kCodebook},
      {"onebit", {"one-bit"}, nullptr, "one-bit codes with two value vectors are not registered"},
      {"bitnet", {}, nullptr, "ternary codes are not registered"},
      {"spqr", {}, nullptr, "sparse outliers beside dense codes are not registered"},
      {"hqq", {}, nullptr, kNoZeroPoint},
      {"sinq", {}, nullptr, "two scale vectors per matrix are not registered"},
      {"eetq", {}, nullptr, "its int8 words are interleaved for one GPU and scaled per column"},
      {"quanto", {"optimum-quanto"}, nullptr, "qint2, qint4, qint8 and qfloat8 of quanto are not registered"},
      {"torchao", {}, nullptr, "torchao stores tensor subclasses, not words of a registered format"},
      {"fp8", {"deepseek_fp8", "fine-grained-fp8"},
       nullptr,
       "FP8 with scales per block of rows and columns: the registered format has one bfloat16 "
       "scale per row"},
      {"mxfp4", {}, nullptr, "blocks of 32 with E8M0 scales are not registered"},
      {"mxfp8", {}, nullptr, "blocks of 32 with E8M0 scales are not registered"},
      {"nvfp4", {}, nullptr, "only NVFP4 written by compressed-tensors or ModelOpt is read"},
      {"fouroversix", {}, nullptr, "its block scales follow no registered rule"},
      {"fp_quant", {"fp-quant"}, nullptr, "Hadamard rotations of the weights are not registered"},
      {"fbgemm_fp8", {"fbgemm-fp8"}, nullptr, "row scale must be bfloat16"},
      {"ptpc_fp8", {}, nullptr, "row scale must be bfloat16"},
      {"quark", {}, nullptr, "Quark exports are not read"},
      {"exl2", {"exl3", "exllamav2", "exllamav3"}, nullptr, "widths that change inside a matrix are not registered"},
      {"mixed_2_4_16", {"mixed-2-4-16"}, nullptr, "widths that change inside a matrix are not registered"},
      {"marlin", {"gptq_marlin", "gptq_marlin_24", "marlin_24"},
       nullptr,
       "words repacked for one GPU kernel are not read"},
      {"bitblas", {"gptq_bitblas"}, nullptr, "words repacked for one GPU kernel are not read"},
      {"gguf", {}, nullptr, "give the .gguf file itself"},
      {"inc", {"neural-compressor", "intel-neural-compressor"}, nullptr, "its int8 words have zero points"},
      {"rtn", {"deepspeedfp", "experts_int8", "tpu_int8", "metal", "gemma"},
       nullptr,
       "the method quantizes at load time and defines no checkpoint"},
  };
  return table;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  return text;
}

const Method *findMethod(const std::string &name) {
  const std::string wanted = lower(name);
  for (const Method &m : methods())
    if (wanted == m.name || std::any_of(m.aliases.begin(), m.aliases.end(),
                                        [&](const char *alias) { return wanted == alias; }))
      return &m;
  return nullptr;
}

Error bad(const std::string &text) { return makeError(ErrorKind::BadFile, "NB0323", text); }

/// Method of a config that does not name it, from members only one tool writes; empty when unknown.
std::string methodByMembers(const Json &members) {
  constexpr std::pair<const char *, const char *> kTells[] = {
      {"config_groups", "compressed-tensors"}, {"load_in_4bit", "bitsandbytes"},
      {"load_in_8bit", "bitsandbytes"},        {"quant_algo", "modelopt"},
      {"quantization", "modelopt"},            {"desc_act", "gptq"},
      {"q_group_size", "awq"},                 {"w_bit", "awq"},
      {"nbits_per_codebook", "aqlm"},
  };
  for (auto [member, method] : kTells)
    if (members.contains(member))
      return method;
  return "";
}

/// The rule in more detail where the config tells which variant it is.
std::string refusalRule(const Method &method, const Json &members) {
  auto truth = [&](const char *name) {
    auto it = members.find(name);
    return it != members.end() && it->is_boolean() && it->get<bool>();
  };
  const std::string name = method.name;
  if (name == "bitsandbytes") {
    if (truth("load_in_8bit"))
      return "LLM.int8: row scales are binary32 and outlier columns stay apart";
    auto type = members.find("bnb_4bit_quant_type");
    if (type != members.end() && *type == "fp4")
      return "FP4 of bitsandbytes is a codebook; codebook formats are not registered";
    return "NF4 is a codebook; codebook formats are not registered";
  }
  if (name == "fp8" && !members.contains("weight_block_size"))
    return "row scale must be bfloat16: this method stores one binary32 scale per tensor";
  return method.rule;
}

/// A side file repeats the config; where the two disagree about the words, neither can be believed.
Status checkSideFiles(const QuantConfig &config, const QuantSideFiles &sideFiles) {
  for (const auto &[file, object] : sideFiles) {
    if (!object.is_object())
      continue;
    auto inner = object.find("quantization"); // ModelOpt keeps the members one level down
    const Json &members = inner != object.end() && inner->is_object() ? *inner : object;
    for (const char *name : {"bits", "group_size", "sym", "desc_act", "quant_algo"}) {
      auto here = config.members.find(name), there = members.find(name);
      if (here == config.members.end() || there == members.end() || *here == *there)
        continue;
      return bad(config.where + "." + name + " is " + jsonExcerpt(*here) + ", but " + file +
                 " says " + jsonExcerpt(*there));
    }
  }
  return Status();
}

} // namespace

const std::vector<std::string> &quantSideFileNames() {
  static const std::vector<std::string> names = {"hf_quant_config.json", "quantize_config.json",
                                                 "quant_config.json"};
  return names;
}

Result<std::optional<QuantConfig>> findQuantization(const Json &config,
                                                    const QuantSideFiles &sideFiles) {
  std::optional<QuantConfig> out;
  for (const char *member : {"quantization_config", "compression_config"}) {
    auto it = config.find(member);
    if (it == config.end() || it->is_null())
      continue;
    if (out)
      return bad("config.json: quantization_config and compression_config are both present");
    out = QuantConfig{"", "config.json: " + std::string(member), *it};
  }
  // QuIP# writes its parameters beside the model's, without a quantization config.
  if (!out && config.contains("quip_params"))
    out = QuantConfig{"quip", "config.json: quip_params", config["quip_params"]};
  if (!out)
    for (const std::string &name : quantSideFileNames())
      if (auto it = sideFiles.find(name); it != sideFiles.end()) {
        out = QuantConfig{"", name, it->second};
        break;
      }
  if (!out)
    return out;
  if (!out->members.is_object())
    return bad(out->where + " must be an object, got " + jsonExcerpt(out->members));
  if (out->members.empty())
    return bad(out->where + " must not be empty");
  NINFER_RETURN_IF_ERROR(checkSideFiles(*out, sideFiles));
  const Json &members = out->members;
  std::string name = out->method;
  if (name.empty()) {
    if (auto it = members.find("quant_method"); it != members.end() && !it->is_null()) {
      NINFER_ASSIGN_OR_RETURN(name, jsonIdentifier(*it, out->where + ".quant_method", "NB0323"));
    } else {
      name = methodByMembers(members);
    }
  }
  if (name.empty())
    return bad(out->where + " does not name its method (quant_method)");
  const Method *method = findMethod(name);
  if (!method) {
    Status status(makeError(ErrorKind::Unsupported, "NB0329",
                            out->where + ": unknown quant_method " + jsonExcerpt(Json(name))));
    status.note("accepted: compressed-tensors, gptq, auto-round, modelopt (docs/convert.md)");
    return withRefusalHelp(std::move(status));
  }
  out->method = method->name;
  // A width that is no plain number changes from matrix to matrix or inside one.
  for (const char *member : {"bits", "w_bit", "num_bits"})
    if (auto it = members.find(member); it != members.end() && it->is_structured())
      return refuseConfig(*out, std::string(member) + " " + jsonExcerpt(*it),
                          "mixed widths such as 2/4/16 are not registered");
  if (!method->importer)
    return refuseConfig(*out, method->name, refusalRule(*method, members));
  return out;
}

Status importQuantized(const QuantConfig &config, const DecoderConfig &decoder,
                       const ImportOptions &options, SourceTensors &tensors,
                       std::vector<std::string> &notes) {
  const Method *method = findMethod(config.method);
  ImportContext context(config, decoder, options, tensors, notes);
  NINFER_RETURN_IF_ERROR(method->importer(context));
  NINFER_RETURN_IF_ERROR(context.refusals().status(config.where));
  context.finish();
  return Status();
}

} // namespace ninfer
