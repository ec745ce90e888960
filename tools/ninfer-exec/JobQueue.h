// The requests of a server in the order they came, answered one by one by the thread that owns the context. Threads
// of connections put jobs in and wait for their pieces, so a slow reader never holds up the model.
#ifndef NINFER_TOOLS_NINFER_EXEC_JOBQUEUE_H
#define NINFER_TOOLS_NINFER_EXEC_JOBQUEUE_H

#include "tools/ninfer-exec/Generate.h"
#include "tools/ninfer-exec/PromptCache.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace ninfer::exec {

/// One prompt and its answer. The model's thread writes, one connection reads.
class Job final : public TextSink {
public:
  Job(Prompt prompt, GenerateOptions options)
      : prompt(std::move(prompt)), options(std::move(options)) {}

  const Prompt prompt;
  const GenerateOptions options;

  /// Whether the reader is still there; asked while its thread waits.
  using Reader = std::function<bool()>;

  /// The next text of the answer, waiting for it; nothing once the answer is complete, has failed, or is abandoned.
  std::optional<std::string> nextPiece(const Reader &reads);
  /// Waits for the end: true, and status, answer and cachedTokens may be read. False when the reader left.
  bool wait(const Reader &reads);
  /// The reader is gone: a prompt ends at its next call, an answer at its next token.
  void abandon();

  Status status;
  Generated answer;
  size_t cachedTokens = 0; ///< of the prompt, already in the context

  // For the model's thread.
  Status write(std::string_view text) override;
  bool closed() const override;
  void finish(Status ended);

private:
  /// Waits until `pending_` has at least `bytes` bytes or the job has ended. False when abandoned, also by this.
  bool await(std::unique_lock<std::mutex> &lock, size_t bytes, const Reader &reads);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string pending_;
  bool done_ = false, abandoned_ = false;
};

class JobQueue {
public:
  explicit JobQueue(size_t limit) : limit_(limit) {}

  /// NB0682 (Failed) when `limit` jobs wait already, abandoned ones not counted; NB0653 (Interrupted) after serve().
  Status push(std::shared_ptr<Job> job);
  /// Jobs waiting or running.
  size_t size() const;

  /// Answers jobs with `context` until the process is interrupted; then everything that waits fails with NB0653.
  void serve(Context &context, const ninfer_engine_info &info, const TextModel &text, uint32_t drafts);

private:
  std::shared_ptr<Job> pop();

  const size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::shared_ptr<Job>> jobs_; ///< the first one is running
  bool closed_ = false;
};

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_JOBQUEUE_H
