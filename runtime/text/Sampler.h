// Chooses the next token from a row of logits. Deterministic for a seed: a counter-based generator, so the
// draw for token n does not depend on how the tokens before it were produced.
#ifndef NINFER_RUNTIME_TEXT_SAMPLER_H
#define NINFER_RUNTIME_TEXT_SAMPLER_H

#include "support/Status.h"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace ninfer {

/// Order of application: repetition, presence and frequency penalties; top-k; softmax at `temperature`; min-p;
/// top-p; one draw. `temperature` 0 means greedy: the largest logit, the lower id on a tie. Truncations keep a prefix of
/// the row in descending order, the lower id first on a tie; the draw walks the kept ids upwards.
struct SamplingOptions {
  double temperature = 0.0;     ///< 0 (greedy) or > 0
  int64_t topK = 0;             ///< 0: all
  double topP = 1.0;            ///< (0, 1]
  double minP = 0.0;            ///< [0, 1], of the largest probability
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
  /// row holds +infinity; a NaN among numbers is an error too, it means a broken kernel. Allocates when a row is longer
  /// than all before it, never otherwise.
  Result<int32_t> sample(std::span<const float> logits);
  /// Records a token of the prompt or of the answer for the penalties.
  void accept(int32_t token);

private:
  /// A prefix of the descending order: up to and with this token, and nothing below `floor`.
  struct Cut {
    float logit = -INFINITY;
    int32_t id = INT32_MAX;
    double floor = -INFINITY;
    bool keeps(float value, int32_t token) const {
      return double(value) >= floor && (value > logit || (value == logit && token <= id));
    }
  };
  struct Candidate {
    float logit;
    int32_t id;
  };

  explicit Sampler(const SamplingOptions &options) : options_(options) {}
  bool penalises() const {
    return options_.repetitionPenalty != 1.0 || options_.presencePenalty != 0.0 || options_.frequencyPenalty != 0.0;
  }
  void reserve(size_t vocabulary);
  /// Fills blockMax_; the largest logit, or NaN when the row has one or +infinity.
  float scan(std::span<const float> row);
  /// Candidates are the tokens of at least that logit.
  void collect(std::span<const float> row, double least);
  /// A logit that at least `count` tokens reach, and few more; -infinity when blocks cannot tell.
  float reachedBy(size_t count);
  static bool before(const Candidate &a, const Candidate &b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }
  /// The last of the fewest first candidates in descending order that have at least that mass; they have it.
  template <typename Weight> Candidate lastOfMass(double mass, const Weight &weight);
  /// The candidates are the tokens around the one at which that mass of weights_ is reached, in descending order;
  /// returns the mass of the tokens before them.
  double collectAtMass(std::span<const float> row, double mass);
  template <typename Body> static void forKept(std::span<const float> row, const Cut &cut, size_t block, const Body &body);
  template <typename Weight> int32_t draw(std::span<const float> row, const Cut &cut, const Weight &weight);
  /// One draw, where blockSum_ has the kept weight of each block and `total` all of it.
  template <typename Weight>
  int32_t choose(std::span<const float> row, const Cut &cut, const Weight &weight, double total);

  SamplingOptions options_;
  std::vector<int64_t> counts_; ///< by token
  std::vector<int32_t> seen_;   ///< tokens of a count above 0
  uint64_t draws_ = 0;
  std::vector<float> penalised_;
  std::vector<float> blockMax_, maxima_; ///< largest logit of each block of the row; the same, reordered
  std::vector<double> blockSum_;         ///< weight of the kept tokens of each block
  std::vector<float> weights_;           ///< of the whole row
  std::vector<Candidate> candidates_;
  std::vector<double> bins_; ///< mass by the leading bits of a weight
};

/// Uniform in [0, 1) for draw `counter` of stream `seed` (SplitMix64 finaliser over both words).
double counterUniform(uint64_t seed, uint64_t counter);

} // namespace ninfer

#endif // NINFER_RUNTIME_TEXT_SAMPLER_H
