// A decoder small enough to read: 2 layers, hidden 128, 4 query heads and 2 KV heads of 32,
// vocabulary 64. Query, key and value of a layer are row ranges of one Q4 object; the head is tied
// to the embedding.
#ifndef NINFER_TEST_UNIT_GRAPH_TINYMODEL_H
#define NINFER_TEST_UNIT_GRAPH_TINYMODEL_H

#include "artifact/layouts/Layout.h"
#include "models/ModelSpec.h"

namespace ninfer::testing {

struct TinyModel {
  Directory directory;
  ModelSpec spec;

  /// Stores one tensor after the previous one; returns its index.
  uint32_t store(const std::string &id, std::vector<uint64_t> shape, Format format) {
    ObjectEntry object;
    object.id = id;
    object.shape = shape;
    object.format = format;
    object.layout = layoutOf(format);
    object.formatName = std::string(v3Name(format));
    object.layoutName = std::string(v3Name(*object.layout));
    EncodedGeometry geometry = *encodedGeometry(format, *object.layout, shape);
    object.offset = (end + geometry.alignment - 1) / geometry.alignment * geometry.alignment;
    object.bytes = geometry.totalBytes;
    end = object.offset + object.bytes;
    directory.objects.push_back(object);
    return static_cast<uint32_t>(directory.objects.size() - 1);
  }

  /// Binds a parameter to elements [begin, end) of an object.
  void bind(const std::string &name, std::vector<uint64_t> shape, uint32_t object, uint64_t begin,
            uint64_t finish, ActivationPolicy policy = ActivationPolicy::A16Only) {
    ParameterSpec parameter;
    parameter.name = name;
    parameter.shape = std::move(shape);
    parameter.binding.whole = false;
    parameter.binding.parts = {{object, begin, finish}};
    parameter.policy = policy;
    spec.parameters.push_back(std::move(parameter));
  }

  /// Stores and binds a whole tensor.
  void add(const std::string &name, std::vector<uint64_t> shape, Format format,
           ActivationPolicy policy = ActivationPolicy::A16Only) {
    uint64_t elements = 1;
    for (uint64_t dim : shape)
      elements *= dim;
    bind(name, shape, store(name, shape, format), 0, elements, policy);
  }

  ParameterSpec &parameter(const std::string &name) {
    for (ParameterSpec &parameter : spec.parameters)
      if (parameter.name == name)
        return parameter;
    std::abort();
  }

private:
  uint64_t end = 0;
};

inline TinyModel tinyModel(bool qkNorm) {
  TinyModel model;
  DecoderConfig &config = model.spec.decoderConfig();
  config.architecture = qkNorm ? "Qwen3ForCausalLM" : "LlamaForCausalLM";
  config.hiddenSize = 128;
  config.vocabSize = 64;
  config.numLayers = 2;
  config.numHeads = 4;
  config.numKvHeads = 2;
  config.headDim = 32;
  config.intermediateSize = 256;
  config.maxPositions = 512;
  config.rmsNormEps = 1e-5;
  config.qkNorm = qkNorm;
  config.tieWordEmbeddings = true;

  model.add("text/token_embedding", {64, 128}, Format::W8G32_F16S);
  for (int layer = 0; layer < 2; ++layer) {
    std::string p = "text/layers/" + std::to_string(layer) + "/";
    model.add(p + "input_norm", {128}, Format::BF16);
    uint32_t fused = model.store(p + "qkv", {256, 128}, Format::Q4G64_F16S);
    model.bind(p + "attention/query", {128, 128}, fused, 0, 16384);
    model.bind(p + "attention/key", {64, 128}, fused, 16384, 24576);
    model.bind(p + "attention/value", {64, 128}, fused, 24576, 32768);
    if (qkNorm) {
      model.add(p + "attention/query_norm", {32}, Format::BF16);
      model.add(p + "attention/key_norm", {32}, Format::BF16);
    }
    model.add(p + "attention/output", {128, 128}, Format::Q6G64_F16S);
    model.add(p + "post_attention_norm", {128}, Format::BF16);
    model.add(p + "mlp/gate", {256, 128}, Format::Q4G64_F16S, ActivationPolicy::AllowA8);
    model.add(p + "mlp/up", {256, 128}, Format::Q4G64_F16S, ActivationPolicy::AllowA8);
    model.add(p + "mlp/down", {128, 256}, Format::Q5G64_F16S);
  }
  model.add("text/final_norm", {128}, Format::BF16);
  model.bind("text/output_head", {64, 128}, 0, 0, 8192);
  return model;
}

} // namespace ninfer::testing

#endif // NINFER_TEST_UNIT_GRAPH_TINYMODEL_H
