#include "runtime/executor/Team.h"

#include "runtime/loader/Machine.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ninfer {

namespace {

void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futexWakeAll(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

/// Mask large enough for every CPU number the system reports.
struct CpuMask {
  cpu_set_t words[16]; ///< 16384 CPUs

  CpuMask() { std::memset(words, 0, sizeof(words)); }
  void add(int cpu) { CPU_SET_S(size_t(cpu), sizeof(words), words); }
  bool get() { return sched_getaffinity(0, sizeof(words), words) == 0; }
  void set() const { (void)sched_setaffinity(0, sizeof(words), words); }
  bool operator==(const CpuMask &other) const { return std::memcmp(words, other.words, sizeof(words)) == 0; }
};

/// Pins the calling thread for the lifetime of the object, then restores its mask.
class CallerPin {
public:
  explicit CallerPin(const std::vector<int> &cpus) {
    if (cpus.empty() || !before_.get())
      return;
    CpuMask wanted;
    wanted.add(cpus[0]);
    if (wanted == before_)
      return;
    wanted.set();
    pinned_ = true;
  }
  ~CallerPin() {
    if (pinned_)
      before_.set();
  }

private:
  CpuMask before_;
  bool pinned_ = false;
};

} // namespace

struct Team::Worker {
  Team *team = nullptr;
  unsigned index = 0;
  pthread_t thread{};
};

Team::Team(const TeamOptions &options)
    : threads_(options.threads), cpus_(options.cpus), spinNs_(options.spinNs), workers_(options.threads - 1) {}

Result<std::unique_ptr<Team>> Team::start(const TeamOptions &options) {
  std::unique_ptr<Team> team(new Team(options));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  int error = 0;
  for (unsigned i = 0; i < team->workers_.size() && error == 0; ++i) {
    Worker &worker = team->workers_[i];
    worker.team = team.get();
    worker.index = i + 1;
    error = pthread_create(&worker.thread, &attributes, workerMain, &worker);
    if (error != 0)
      worker.team = nullptr;
  }
  pthread_attr_destroy(&attributes);
  if (error == 0)
    return team;
  // The threads that did start wait at the first barrier for the full team; stand in for the missing ones.
  for (unsigned i = 0; i < team->workers_.size(); ++i)
    if (!team->workers_[i].team)
      team->arrived_.fetch_add(1, std::memory_order_acq_rel);
  return makeError(ErrorKind::Failed, "NB0630",
                   "cannot start " + std::to_string(options.threads) + " threads: " + std::strerror(error));
}

Team::~Team() {
  if (threads_ > 1) {
    body_ = nullptr;
    barrier(never_);
    for (Worker &worker : workers_)
      if (worker.team)
        pthread_join(worker.thread, nullptr);
  }
}

void *Team::workerMain(void *argument) {
  Worker &worker = *static_cast<Worker *>(argument);
  Team &team = *worker.team;
  if (!team.cpus_.empty()) {
    CpuMask mask;
    mask.add(team.cpus_[worker.index % team.cpus_.size()]);
    mask.set();
  }
  for (;;) {
    team.barrier(team.never_);
    if (!team.body_)
      return nullptr;
    team.body_(team.data_, worker.index);
  }
}

void Team::run(Body body, void *data) {
  if (threads_ == 1) {
    body(data, 0);
    return;
  }
  CallerPin pin(cpus_);
  body_ = body;
  data_ = data;
  barrier(never_);
  body(data, 0);
}

bool Team::barrier(const std::atomic<bool> &stop) {
  if (threads_ == 1)
    return stop.load(std::memory_order_relaxed);
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    answer_ = stop.load(std::memory_order_relaxed);
    // Sequentially consistent with the sleeper's increment: either this thread sees the sleeper, or the
    // sleeper's futex call sees the new generation.
    generation_.store(generation + 1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0)
      futexWakeAll(generation_);
  } else {
    wait(generation);
  }
  return answer_;
}

void Team::wait(uint32_t generation) {
  const auto passed = [&] { return generation_.load(std::memory_order_acquire) != generation; };
  uint64_t start = 0;
  for (unsigned round = 0;; ++round) {
    for (unsigned i = 0; i < 64; ++i) {
      if (passed())
        return;
      pauseCpu();
    }
    const uint64_t now = nowNs();
    if (round == 0)
      start = now;
    if (now - start >= spinNs_)
      break;
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (generation_.load(std::memory_order_seq_cst) == generation)
    futexWait(generation_, generation);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

} // namespace ninfer
