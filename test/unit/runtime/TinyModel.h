// A tiny decoder for runtime tests: an artifact with known weights, a `reference` plan for it assembled by hand, and
// an oracle that evaluates the same decoder in plain doubles from the numbers the weights were made of.
// The oracle shares no code with the built-ins, the formats or the layouts.
#ifndef NINFER_TEST_UNIT_RUNTIME_TINYMODEL_H
#define NINFER_TEST_UNIT_RUNTIME_TINYMODEL_H

#include "artifact/container/Directory.h"
#include "schema/Build.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ninfer::test {

struct TinyOptions {
  uint32_t layers = 2;
  uint32_t maxContext = 32;
  uint32_t chunk = 8;
  std::string codec = "f32"; ///< of the KV cache
  bool resources = true;     ///< tokenizer (one token per byte), chat template, generation config
  std::string publicName = "tiny";
  uint32_t seed = 1;
  std::string extraResource = {}; ///< bytes of one more resource, if not empty
  int framing = 3; ///< of the artifact; 2 has no components, its resources are frontend/*
};

/// A matrix or vector as plain numbers.
struct TinyWeight {
  uint64_t n = 1, k = 1;
  Format format = Format::BF16;
  std::vector<double> values; ///< n * k
};

class TinyModel {
public:
  static constexpr int64_t kVocab = 260, kHidden = 64, kHeads = 4, kKvHeads = 2, kDim = 16, kInner = 96;
  static constexpr double kEps = 1e-5, kTheta = 10000.0;
  static constexpr int32_t kEnd = 257; ///< stop token

  explicit TinyModel(const TinyOptions &options = {});

  const TinyOptions &options() const { return options_; }
  /// Writes the artifact.
  void writeArtifact(const std::filesystem::path &path);
  /// Plan with the one target "reference". `fileName` is the artifact's base name. After writeArtifact.
  plan::PlanT plan(const std::string &fileName) const;
  /// Offset of the extra resource in the payload. After writeArtifact.
  uint64_t extraResourceOffset() const;
  /// Logits after the last of `tokens`, in double; the KV cache keeps full precision.
  std::vector<double> logits(const std::vector<int32_t> &tokens) const;

private:
  void addWeight(const std::string &name, uint64_t n, uint64_t k, Format format);
  std::vector<double> multiply(const std::string &name, const std::vector<double> &x) const;
  std::vector<double> norm(const std::string &name, const std::vector<double> &x) const;

  TinyOptions options_;
  uint32_t random_;
  std::vector<std::string> order_;
  std::map<std::string, TinyWeight> weights_;
  std::map<std::string, std::vector<std::byte>> encoded_;
  Directory directory_;
  std::vector<uint8_t> signature_;
  uint64_t payloadBytes_ = 0;
};

/// A fresh folder, removed at the end.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::filesystem::path operator/(const std::string &name) const { return path_ / name; }
  const std::filesystem::path &path() const { return path_; }

private:
  std::filesystem::path path_;
};

void writeBytes(const std::filesystem::path &path, std::span<const std::byte> bytes);
std::vector<std::byte> buildBytes(const plan::PlanT &plan, const std::vector<PlanBlob> &blobs = {});

/// Gives decode and prefill the outputs "ids" (the tokens), "embedding" and "head" (what the head reads: one row).
void addOutputs(plan::PlanT &plan);

/// Writes "tiny.ninfer" and "tiny.plan" into `folder`; returns the path of the plan.
std::filesystem::path writeTiny(const TemporaryFolder &folder, TinyModel &model);

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_RUNTIME_TINYMODEL_H
