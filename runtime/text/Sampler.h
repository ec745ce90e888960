// Chooses the next token from a row of logits. Deterministic for a seed: a counter-based generator, so the
// draw for token n does not depend on how the tokens before it were produced.
#ifndef NINFER_RUNTIME_TEXT_SAMPLER_H
#define NINFER_RUNTIME_TEXT_SAMPLER_H

#include "support/Status.h"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace ninfer {

/// Order of application: repetition, presence and frequency penalties; top-k; softmax at `temperature`; min-p;
/// top-p; one draw. `temperature` 0 means greedy: the largest logit, the lower id on a tie.
struct SamplingOptions {
  double temperature = 0.0;     ///< 0 (greedy) or > 0
  int64_t topK = 0;             ///< 0: all
  double topP = 1.0;            ///< (0, 1]
  double minP = 0.0;            ///< [0, 1]
  double repetitionPenalty = 1.0; ///< > 0; divides positive and multiplies negative logits of seen tokens
  double presencePenalty = 0.0; ///< subtracted once from seen tokens
  double frequencyPenalty = 0.0; ///< subtracted per occurrence
  uint64_t seed = 0;
};

class Sampler {
public:
  /// Errors: Usage, naming the option and its legal range.
  static Result<Sampler> create(const SamplingOptions &options);

  /// Id of the next token. `logits` is one row [vocabulary]. Errors: Failed when every logit is NaN or the
  /// row holds +infinity; a NaN among numbers is an error too, it means a broken kernel.
  Result<int32_t> sample(std::span<const float> logits);
  /// Records a token of the prompt or of the answer for the penalties.
  void accept(int32_t token) { ++counts_[token]; }

private:
  explicit Sampler(const SamplingOptions &options) : options_(options) {}
  SamplingOptions options_;
  std::unordered_map<int32_t, int64_t> counts_;
  uint64_t draws_ = 0;
  std::vector<float> penalised_;
  std::vector<int32_t> order_;
};

/// Uniform in [0, 1) for draw `counter` of stream `seed` (SplitMix64 finaliser over both words).
double counterUniform(uint64_t seed, uint64_t counter);

} // namespace ninfer

#endif // NINFER_RUNTIME_TEXT_SAMPLER_H
