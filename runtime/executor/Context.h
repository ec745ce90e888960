// One sequence being evaluated: what is in it, and which calls of the plan's phases make it longer. An executor has the
// memory and runs the calls. Allocates only at creation.
#ifndef NINFER_RUNTIME_EXECUTOR_CONTEXT_H
#define NINFER_RUNTIME_EXECUTOR_CONTEXT_H

#include "runtime/executor/Executor.h"
#include "runtime/vision/Grid.h"
#include "runtime/vision/Positions.h"

#include <atomic>
#include <memory>
#include <span>
#include <vector>

namespace ninfer {

struct ContextStats {
  uint64_t setupNs = 0;
  uint64_t prefillTokens = 0, prefillCalls = 0, prefillNs = 0;
  uint64_t decodeTokens = 0, decodeNs = 0;
  uint64_t launches = 0;
  uint64_t draftCalls = 0, draftRows = 0, draftNs = 0; ///< calls of the draft layer, for pending rows and for proposals
  uint64_t draftedTokens = 0;                          ///< proposals handed out
  uint64_t verifyCalls = 0, verifyRows = 0, verifyNs = 0; ///< the time of accept() included
  uint64_t acceptedTokens = 0;                         ///< verified rows that became part of the sequence
  uint64_t encodeRows = 0, encodeCalls = 0, encodeNs = 0;
};

/// An image among the tokens of a submit.
struct ImageSpan {
  size_t first = 0;                  ///< its first placeholder, counted from the first token of the submit
  vision::Grid grid;                 ///< patches
  const float *embeddings = nullptr; ///< as Tower::encode gives them: one row per merged square
};

class Context {
public:
  /// Checks the ledger, makes the executor, runs the setup phase.
  static Result<std::unique_ptr<Context>> create(std::shared_ptr<const Engine> engine, const ContextOptions &options);

  /// Errors, all before any work: NB0650 no tokens, NB0651 id outside the vocabulary, NB0652 context overflow, NB0659
  /// verified rows that were not accepted, NB0666 states left half-way by a cancelled call (Usage). NB0653 cancelled
  /// (Interrupted): the sequence ends at the last call that ran to its end; where a state is not indexed by position
  /// and the cancelled call had begun, everything but truncate(0) is NB0666 from then on.
  Status submit(std::span<const int32_t> tokens) { return submit(tokens, {}); }
  /// The same with images: embeddings instead of those of the placeholders, whose ids must be in the vocabulary and count
  /// for nothing, and positions of three axes for the rotary embedding (vision::Positions), from here on also of the
  /// text behind. More errors: NB0672 the target takes no images in a prompt, NB0675 the plan has no tower (Unsupported);
  /// NB0673 images out of order, one in another, or beyond the tokens, NB0676 a grid, NB0674 the sequence ends inside an
  /// image since a call was cancelled there (Usage).
  Status submit(std::span<const int32_t> tokens, std::span<const ImageSpan> images);
  bool takesImages() const { return imagePorts_.takes(); }
  /// What the rotary position of the next text token is ahead of position(): 0 without images, usually negative with them.
  int64_t ropeDelta() const { return positions_.delta(); }
  /// Logits after the last token, or an empty span when there are none: nothing evaluated yet, or something else
  /// than a submit came after it.
  std::span<const float> logits() const;
  /// What the last call of a phase wrote beside the logits; none before a call, after
  /// anything but a submit and after a cancelled submit. The memory is that of the next call.
  std::span<const ProgramOutput> outputs() const;
  /// Rows of that output, and the sequence position of its first row.
  uint32_t rows(const ProgramOutput &output) const { return output.lastRowOnly ? 1 : lastRows_; }
  uint32_t firstPosition(const ProgramOutput &output) const { return position_ - rows(output); }
  uint32_t position() const { return position_; }
  /// Keeps the first `position` tokens; verified rows that were not accepted are dropped. NB0655 beyond the position
  /// (Usage), NB0656 a state that cannot be cut there (Unsupported), NB0674 inside an image (Usage).
  Status truncate(uint32_t position);

  // Speculative decoding: draft, verify, accept, in this order; a submit may take the place of the last two.

  /// Greedy proposals of the draft layer for the tokens after `token`, the next one of the sequence, which is not
  /// submitted yet. Returns how many it wrote: `drafts.size()`, fewer when the context would overflow, none when no
  /// row of the sequence is left to draft from (nothing evaluated since the start, a truncate or accept(0)).
  /// Errors: NB0658 the context was made without drafts (Unsupported); NB0651, NB0659, NB0666 as submit; NB0667 more
  /// than maxDrafts() (Usage); NB0653; NB0669 a draft logit is no number (Failed).
  Result<size_t> draft(int32_t token, std::span<int32_t> drafts);
  /// Evaluates tokens without making them part of the sequence; rowLogits() has the row of each. Errors: NB0658 the
  /// plan has no verify phase; NB0650, NB0651, NB0652, NB0653, NB0659, NB0666 as submit; NB0667 a number of rows
  /// outside the phase's.
  Status verify(std::span<const int32_t> tokens);
  /// Logits after row `row` of the last verify, or an empty span. Valid until the next call that evaluates or accepts.
  std::span<const float> rowLogits(size_t row) const;
  /// Makes the first `count` verified rows part of the sequence and drops the others. Not cancellable: it leaves no
  /// half. Errors: NB0659 nothing was verified, NB0667 more rows than were verified (Usage).
  Status accept(size_t count);
  /// Most tokens that one draft() proposes; 0 without drafts.
  size_t maxDrafts() const { return speculates_ ? size_t(phases_.verify->maxRows) - 1 : 0; }

  /// NB0659 while verified rows wait for accept: their logits share their memory with the ports of the Encode phase.
  Status checkEncode() const;
  /// One call of the Encode phase over `rows` rows, which the caller has checked and whose input ports it has filled
  /// after checkEncode(). The logits become unavailable; the sequence stays. NB0653 cancelled.
  Status encode(int64_t rows);
  /// Where the float32 or int32 values of a port are.
  std::byte *memoryOf(const plan::Port &port) { return executor_->memoryOf(port); }
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  const Engine &engine() const { return *engine_; }
  const Ledger &ledger() const { return ledger_; }
  const ContextStats &stats() const { return stats_; }
  const Program &program() const { return executor_->program(); }

private:
  Context() = default;

  /// As Executor::run; keeps finished_.
  bool runPhase(ProgramPhase &phase, int64_t rows, int64_t position, const std::atomic<bool> &stop);
  /// One call over `tokens` at `position`, timed into `ns`; false when cancelled, before it or (finished_ is false) in
  /// the middle.
  /// `embeddings` are the rows to take instead of those of the tokens, null for a token; empty: all null.
  bool runTokens(ProgramPhase &phase, std::span<const int32_t> tokens, int64_t position, uint64_t &ns,
                 std::span<const float *const> embeddings = {});
  /// The `stop` of what must not be left half done.
  static const std::atomic<bool> never_;
  bool setup();
  void forgetResults();

  /// Turns speculation on: NB0658 when the plan has no draft layer, NB0668 for token ids outside the vocabulary.
  Status enableDrafts();
  /// NB0659 or NB0666 when the sequence cannot go on from here.
  Status checkReady() const;
  Status checkTokens(std::span<const int32_t> tokens) const;
  Status checkRoom(size_t tokens) const;
  /// NB0653, and takes the flag back; or why the executor failed.
  Status cancelled();
  /// cancelled() for a text call; its hidden rows are gone if it had begun.
  Status textCallCut();
  /// The hidden rows in the plan's states are from now on those of `tokens`, with `embeddings` as in runTokens.
  void keepRows(std::span<const int32_t> tokens, std::span<const float *const> embeddings = {});
  /// Draft rows of the pending positions, now that the token after them is known, or its embedding. False when cancelled.
  bool draftPending(int32_t next, const float *nextEmbedding = nullptr);
  /// The proposal of the draft phase that just ran.
  Result<int32_t> proposal(const ProgramPhase &phase) const;

  // Images.cpp
  /// Finds the ports of images and the phase Place, and takes the memory for them. NB0677: other ones than this runtime knows.
  Status prepareImages();
  Status checkImages(size_t tokens, std::span<const ImageSpan> images) const;
  /// The embeddings of the call that begins with token `first` of the submit and has `rows` rows.
  std::span<const float *const> embeddingsOf(size_t first, size_t rows, std::span<const ImageSpan> images);
  /// The angles of the rows of a call that are not yet those of their positions. False when the executor failed.
  bool place(int64_t position, int64_t rows);
  /// Fills the ports of a call that has them.
  void writeEmbeddings(const ProgramPhase &phase, size_t rows, std::span<const float *const> embeddings);

  std::shared_ptr<const Engine> engine_;
  Ledger ledger_;
  std::unique_ptr<Executor> executor_;
  bool truncatable_ = true; ///< every state is indexed by position, or worth nothing after the next call
  bool broken_ = false;     ///< a cancelled call left states that belong to no position
  uint32_t position_ = 0;
  const float *logits_ = nullptr;
  const ProgramPhase *lastPhase_ = nullptr; ///< of the last call; null when its results are gone
  uint32_t lastRows_ = 0;
  ContextStats stats_;
  std::atomic<bool> cancelled_{false};

  struct {
    ProgramPhase *setup = nullptr, *decode = nullptr, *prefill = nullptr;
    ProgramPhase *verify = nullptr, *draft = nullptr, *draftNext = nullptr, *commit = nullptr, *place = nullptr;
  } phases_;
  struct {
    const plan::Port *prefill = nullptr, *prefillFrom = nullptr, *draft = nullptr, *draftFrom = nullptr, *positions = nullptr;
    int64_t width = 0, merge = 0; ///< elements of an embedding; side of a merged square
    bool takes() const { return prefill != nullptr; }
  } imagePorts_;
  vision::Positions positions_;
  int64_t placedEnd_ = 0; ///< rows of the rope table from here on are those of text without images
  std::vector<const float *> rowEmbeddings_; ///< of the call in work
  bool speculates_ = false;
  /// Tokens of the last text call, whose hidden rows the plan keeps. The draft layer's row of a position needs the
  /// token after it, so these rows are drafted when that token is known and before the next text call. After verify():
  /// its tokens.
  std::vector<int32_t> pending_;
  int32_t draftedFor_ = -1; ///< the token that pending_ was last drafted with, -1: not yet
  size_t unaccepted_ = 0;   ///< rows of the last verify
  std::vector<int32_t> drafts_;
  /// Embeddings of the pending tokens that came with one, row by row, and where they are: null for a token.
  std::vector<float> pendingValues_;
  std::vector<const float *> pendingEmbeddings_, draftEmbeddings_;

  bool finished_ = true; ///< false: the launches of the last call were cut short
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_CONTEXT_H
