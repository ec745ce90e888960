#include "tools/ninfer-exec/JobQueue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ninfer::exec {

namespace {

Status shutDown() { return makeError(ErrorKind::Interrupted, "NB0653", "the server is shutting down"); }

/// A signal handler may not touch a condition variable: the queue looks for an interrupt this often.
constexpr std::chrono::milliseconds kInterruptPoll(50);
/// Nobody tells a thread that waits for the model of a connection that was closed: it looks this often.
constexpr std::chrono::milliseconds kReaderPoll(100);

Status answer(Job &job, Context &context, PromptCache &cache, const ninfer_engine_info &info, const TextModel &text,
              uint32_t drafts) {
  NINFER_ASSIGN_OR_RETURN(job.cachedTokens, cache.submit(job.prompt, info.prefill_chunk, [&job] { return !job.closed(); }));
  NINFER_ASSIGN_OR_RETURN(job.answer, generate(context, info, text, job.prompt.tokens, job.options, drafts, job));
  cache.append(job.answer.tokens);
  return job.answer.reason == StopReason::Interrupted ? shutDown() : Status();
}

} // namespace

bool Job::await(std::unique_lock<std::mutex> &lock, size_t bytes, const Reader &reads) {
  using Clock = std::chrono::steady_clock;
  auto look = Clock::now() + kReaderPoll;
  while (!done_ && !abandoned_ && pending_.size() < bytes) {
    changed_.wait_until(lock, look);
    if (Clock::now() < look) // a piece came
      continue;
    abandoned_ = !reads();
    look = Clock::now() + kReaderPoll;
  }
  return !abandoned_;
}

std::optional<std::string> Job::nextPiece(const Reader &reads) {
  std::unique_lock lock(mutex_);
  if (!await(lock, 1, reads) || pending_.empty())
    return std::nullopt;
  return std::exchange(pending_, {});
}

bool Job::wait(const Reader &reads) {
  std::unique_lock lock(mutex_);
  return await(lock, SIZE_MAX, reads);
}

void Job::abandon() {
  std::lock_guard lock(mutex_);
  abandoned_ = true;
}

Status Job::write(std::string_view text) {
  std::lock_guard lock(mutex_);
  pending_ += text;
  changed_.notify_all();
  return {};
}

bool Job::closed() const {
  std::lock_guard lock(mutex_);
  return abandoned_;
}

void Job::finish(Status ended) {
  std::lock_guard lock(mutex_);
  status = std::move(ended);
  done_ = true;
  changed_.notify_all();
}

Status JobQueue::push(std::shared_ptr<Job> job) {
  std::lock_guard lock(mutex_);
  if (closed_)
    return shutDown();
  const auto waiting = jobs_.empty() ? jobs_.end() : jobs_.begin() + 1;
  jobs_.erase(std::remove_if(waiting, jobs_.end(), [](const auto &old) { return old->closed(); }), jobs_.end());
  if (jobs_.size() > limit_)
    return makeError(ErrorKind::Failed, "NB0682",
                     "busy: one request is running and " + std::to_string(limit_) + " are waiting");
  jobs_.push_back(std::move(job));
  arrived_.notify_one();
  return {};
}

size_t JobQueue::size() const {
  std::lock_guard lock(mutex_);
  return jobs_.size();
}

std::shared_ptr<Job> JobQueue::pop() {
  std::unique_lock lock(mutex_);
  while (jobs_.empty() && !interrupted())
    arrived_.wait_for(lock, kInterruptPoll);
  return interrupted() ? nullptr : jobs_.front();
}

void JobQueue::serve(Context &context, const ninfer_engine_info &info, const TextModel &text, uint32_t drafts) {
  PromptCache cache(context);
  while (const std::shared_ptr<Job> job = pop()) {
    Status ended = job->closed() ? Status() : answer(*job, context, cache, info, text, drafts);
    {
      std::lock_guard lock(mutex_);
      jobs_.pop_front();
    }
    job->finish(std::move(ended));
  }
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (const std::shared_ptr<Job> &job : std::exchange(jobs_, {}))
    job->finish(shutDown());
}

} // namespace ninfer::exec
