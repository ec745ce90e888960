#include "runtime/executor/Team.h"

#include "runtime/loader/Machine.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
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

/// Nanoseconds the calling thread has waited for a CPU that others had; waiting for data or for a futex is not among
/// them. 0 where the system does not tell.
uint64_t waitedForCpuNs() {
  const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  char text[96] = {}; // "time on a CPU, time waiting for one, slices"
  const ssize_t got = read(fd, text, sizeof(text) - 1);
  close(fd);
  const char *second = got > 0 ? std::strchr(text, ' ') : nullptr;
  return second ? std::strtoull(second + 1, nullptr, 10) : 0;
}

/// A wait at a barrier that unequal shares of a launch do not explain; a slice of a scheduler is longer.
constexpr uint64_t kLongWaitNs = 1'000'000;

constexpr uint32_t kActiveBits = 11; ///< threads of a run: at most 1024
constexpr uint32_t kActiveMask = (1u << kActiveBits) - 1;

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
  /// -1: leaves it where it is.
  explicit CallerPin(int cpu) {
    if (cpu < 0 || !before_.get())
      return;
    CpuMask wanted;
    wanted.add(cpu);
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
    : threads_(options.threads), cpus_(options.cpus), order_(options.cpus.empty() ? 0 : options.threads),
      spinNs_(options.spinNs), workers_(options.threads - 1), active_(options.threads), attendance_(options.threads),
      stolen_(options.threads), stolenBy_(options.threads) {
  restoreOrder();
}

void Team::restoreOrder() {
  for (size_t i = 0; i < order_.size(); ++i)
    order_[i] = cpus_[i % cpus_.size()];
}

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
  return makeError(ErrorKind::Failed, "NB0630",
                   "cannot start " + std::to_string(options.threads) + " threads: " + std::strerror(error));
}

Team::~Team() {
  if (threads_ > 1) {
    startRun(nullptr, nullptr, threads_);
    for (Worker &worker : workers_)
      if (worker.team)
        pthread_join(worker.thread, nullptr);
  }
}

void *Team::workerMain(void *argument) {
  Worker &worker = *static_cast<Worker *>(argument);
  worker.team->work(worker);
  return nullptr;
}

void Team::work(Worker &worker) {
  int pinned = -1;
  uint32_t seen = 0;
  for (;;) {
    seen = awaitStart(seen, worker.index);
    if (!body_)
      return;
    if (!order_.empty() && order_[worker.index] != pinned) {
      pinned = order_[worker.index];
      CpuMask mask;
      mask.add(pinned);
      mask.set();
    }
    timed(body_, data_, worker.index);
  }
}

/// Waits for a run behind `seen` in which thread `index` takes part, and gives its word. Such a run does not end without
/// the thread, so what belongs to it may be read then.
uint32_t Team::awaitStart(uint32_t seen, unsigned index) {
  for (;;) {
    const uint32_t recall = recall_.load(std::memory_order_seq_cst);
    const uint32_t start = start_.load(std::memory_order_seq_cst);
    if (start == seen)
      wait(start_, seen, startSleepers_);
    else if (index < (start & kActiveMask))
      return start;
    else
      futexWait(recall_, recall);
  }
}

void Team::startRun(Body body, void *data, unsigned active) {
  body_ = body;
  data_ = data;
  const bool more = active > active_;
  active_ = active;
  const uint32_t number = (start_.load(std::memory_order_relaxed) >> kActiveBits) + 1;
  // Sequentially consistent with the sleepers, as at the barrier; recall_ behind start_, so that who sees the new one
  // of the former sees the new one of the latter.
  start_.store(number << kActiveBits | active, std::memory_order_seq_cst);
  if (startSleepers_.load(std::memory_order_seq_cst) != 0)
    futexWakeAll(start_);
  if (more || !body) {
    recall_.fetch_add(1, std::memory_order_seq_cst);
    futexWakeAll(recall_);
  }
}

void Team::run(Body body, void *data, uint64_t kind) {
  if (threads_ == 1) {
    body(data, 0);
    return;
  }
  const uint64_t start = nowNs();
  attendance_.begin(start, stolen_);
  if (attendance_.active() == threads_)
    restoreOrder();
  // A long wait is a reason to look closer, which costs some microseconds per thread and run.
  const uint32_t waits = longWaits_.load(std::memory_order_relaxed);
  watched_ = attendance_.curious() || waits != longWaitsSeen_;
  longWaitsSeen_ = waits;
  // A thread that is alone is left to the scheduler, which knows the CPU that is free.
  CallerPin pin(order_.empty() || attendance_.active() == 1 ? -1 : order_[0]);
  startRun(body, data, attendance_.active());
  timed(body, data, 0);
  settle(start, kind);
}

/// The body, and where the run is watched the time in which the thread could have run and had no CPU.
void Team::timed(Body body, void *data, unsigned thread) {
  if (!watched_) {
    body(data, thread);
    return;
  }
  const uint64_t before = waitedForCpuNs();
  body(data, thread);
  stolenBy_[thread].fetch_add(waitedForCpuNs() - before, std::memory_order_relaxed);
}

/// Other threads may still be adding what this run stole from them: it counts in the next one.
void Team::settle(uint64_t start, uint64_t kind) {
  for (unsigned i = 0; i < threads_; ++i)
    stolen_[i] = stolenBy_[i].load(std::memory_order_relaxed);
  const unsigned before = attendance_.active();
  const std::optional<unsigned> left = attendance_.end(start, nowNs(), stolen_, kind);
  if (left && !order_.empty())
    std::rotate(order_.begin() + *left, order_.begin() + *left + 1, order_.begin() + before);
}

bool Team::barrier(const std::atomic<bool> &stop) {
  const unsigned active = active_; // the next run may have begun behind the arrival
  if (active == 1)
    return stop.load(std::memory_order_relaxed);
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == active) {
    arrived_.store(0, std::memory_order_relaxed);
    answer_.store(stop.load(std::memory_order_relaxed), std::memory_order_relaxed);
    // Sequentially consistent with the sleeper's increment: either this thread sees the sleeper, or the
    // sleeper's futex call sees the new generation.
    generation_.store(generation + 1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0)
      futexWakeAll(generation_);
  } else {
    if (wait(generation_, generation, sleepers_) >= kLongWaitNs)
      longWaits_.fetch_add(1, std::memory_order_relaxed);
  }
  return answer_.load(std::memory_order_relaxed);
}

/// Until `word` is no longer `value`; gives the time that took, 0 where it was short.
uint64_t Team::wait(std::atomic<uint32_t> &word, uint32_t value, std::atomic<uint32_t> &sleepers) {
  const auto passed = [&] { return word.load(std::memory_order_acquire) != value; };
  uint64_t start = 0;
  for (unsigned round = 0;; ++round) {
    for (unsigned i = 0; i < 64; ++i) {
      if (passed())
        return 0;
      pauseCpu();
    }
    const uint64_t now = nowNs();
    if (round == 0)
      start = now;
    if (now - start >= spinNs_)
      break;
  }
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (word.load(std::memory_order_seq_cst) == value)
    futexWait(word, value);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
  return nowNs() - start;
}

} // namespace ninfer
