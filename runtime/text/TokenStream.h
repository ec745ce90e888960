// The tokens of an answer, one by one: drawn from the model's law, with or without speculative decoding. Without a
// runtime: the sequence is an interface, so programs and tests bring their own.
#ifndef NINFER_RUNTIME_TEXT_TOKENSTREAM_H
#define NINFER_RUNTIME_TEXT_TOKENSTREAM_H

#include "runtime/text/Sampler.h"
#include "support/Status.h"

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ninfer {

/// One sequence being evaluated; the functions of ninfer.h of the same names say what each does.
class Sequence {
public:
  virtual ~Sequence() = default;
  virtual uint32_t position() const = 0;
  virtual Status submit(int32_t token) = 0;
  /// Row [vocabulary] after the last submitted token.
  virtual Result<std::span<const float>> logits() = 0;
  /// Fills up to `drafts.size()` proposals for what follows `next`; returns their number.
  virtual Result<size_t> draft(int32_t next, std::span<int32_t> drafts) = 0;
  virtual Status verify(std::span<const int32_t> tokens) = 0;
  virtual Result<std::span<const float>> rowLogits(size_t row) = 0;
  virtual Status accept(size_t count) = 0;
};

/// What became of the drafts. Draft i of a round is the (i+1)-th token after the round's first.
struct DraftStats {
  uint64_t rounds = 0;  ///< verify calls
  uint64_t drafted = 0; ///< drafts in them
  /// Per draft: compared with the model's own token, and equal to it. A draft is compared when all before it were
  /// equal and the answer did not end before it.
  std::vector<uint64_t> compared, accepted;

  uint64_t acceptedDrafts() const;
  void add(const DraftStats &other);
};

/// The law: each token is drawn by the sampler from the model's own row, with the counter of plain decoding, and is
/// part of the answer whether a draft equals it or not. A draft only decides whether the row after it was already
/// evaluated. So the tokens are those of plain decoding for the same seed (as far as verified rows equal decoded
/// ones), and a draft d is kept with probability p(d), which for a proposal without randomness is min(1, p/q).
class TokenStream {
public:
  /// `sequence` has evaluated the prompt and has logits; `sampler` has seen the prompt. `drafts` is the number of
  /// drafts per round, 0 for plain decoding.
  TokenStream(Sequence &sequence, Sampler sampler, size_t drafts);

  /// Draws the token after all those advanced over. It is not part of the sequence yet. Call once before each
  /// advance().
  Result<int32_t> next();
  /// Makes the drawn token part of the answer: penalties count it and the sequence evaluates it, if it has not
  /// already. `wanted` is an upper bound for the calls of next() to come; no more drafts than are of use are made.
  /// After an error (Interrupted included) the token is not part of the sequence.
  Status advance(uint64_t wanted = std::numeric_limits<uint64_t>::max());
  /// Leaves in the sequence exactly the tokens advanced over. Call it when the answer ends.
  Status finish();

  /// Tokens in the sequence after finish().
  uint32_t position() const;
  const DraftStats &stats() const { return stats_; }

private:
  Sequence &sequence_;
  Sampler sampler_;
  int32_t token_ = -1;           ///< of the last next()
  std::vector<int32_t> round_;   ///< rows of the verify in progress: its first token, then the drafts; or empty
  size_t row_ = 0;               ///< of round_: the last token advanced over
  std::vector<int32_t> drafts_;  ///< room for the drafts of a round
  DraftStats stats_;
};

} // namespace ninfer

#endif // NINFER_RUNTIME_TEXT_TOKENSTREAM_H
