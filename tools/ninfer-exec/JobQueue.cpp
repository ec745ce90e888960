#include "tools/ninfer-exec/JobQueue.h"

#include <chrono>
#include <utility>

namespace ninfer::exec {

namespace {

Status shutDown() { return makeError(ErrorKind::Interrupted, "NB0653", "the server is shutting down"); }

/// A signal handler may not touch a condition variable: the queue looks for an interrupt this often.
constexpr std::chrono::milliseconds kInterruptPoll(50);

Status answer(Job &job, Context &context, PromptCache &cache, const ninfer_engine_info &info, const TextModel &text,
              uint32_t drafts) {
  NINFER_ASSIGN_OR_RETURN(job.cachedTokens, cache.submit(job.prompt));
  NINFER_ASSIGN_OR_RETURN(job.answer, generate(context, info, text, job.prompt.tokens, job.options, drafts, job));
  cache.append(job.answer.tokens);
  return job.answer.reason == StopReason::Interrupted ? shutDown() : Status();
}

} // namespace

std::optional<std::string> Job::nextPiece() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ || !pending_.empty(); });
  if (pending_.empty())
    return std::nullopt;
  return std::exchange(pending_, {});
}

void Job::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
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
