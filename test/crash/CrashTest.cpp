// Every tool that writes a file, killed at every system call and failed at every system call of its
// write path. docs/testing.md says how to run all of it; by default the calls before the tool first
// touches the output folder are visited in larger steps.
//
//   NINFER_CRASH_STRIDE=n   visits every n-th point (1: all; by default every 7th kill and every
//   23rd
//                           failure, which takes less than a minute on a quiet machine)
//   NINFER_CRASH_ONLY=text   scenarios whose name contains the text (for the first two tests)
//   NINFER_CRASH_TOOLS=path  other builds of the tools
#include "test/crash/Scenario.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <set>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ninfer {
namespace {

using namespace test;
using Act = Decision::Act;

size_t strideOr(size_t fallback) {
  const char *text = std::getenv("NINFER_CRASH_STRIDE");
  const size_t value = text ? std::strtoull(text, nullptr, 10) : 0;
  return value ? value : fallback;
}

/// Stops of one undisturbed run: how many, and the first that names the output folder.
struct Window {
  size_t first = 0, stops = 0;
  std::vector<SystemCall> calls;
};

Window windowOf(const Bench &bench, const Scenario &scenario) {
  Window window;
  bool seen = false;
  bench.prepare(scenario);
  const Ended ended = bench.run(scenario, [&](const SystemCall &call, size_t stop) {
    if (!seen && call.entry && call.names(bench.folder().string())) {
      seen = true;
      window.first = stop;
    }
    window.calls.push_back(call);
    return Decision{};
  });
  EXPECT_EQ(ended.code, 0) << scenario.name << ": " << bench.message();
  EXPECT_TRUE(seen) << scenario.name;
  EXPECT_EQ(bench.state(scenario), Bench::State::After) << scenario.name;
  window.stops = ended.stops;
  return window;
}

std::string where(const Scenario &scenario, const SystemCall &call, size_t stop) {
  return scenario.name + ", stop " + std::to_string(stop) + " (" +
         (call.entry ? "before " : "after ") + systemCallName(call.number) + ")";
}

/// After a kill: nothing torn; the next run works and leaves nothing else behind.
void checkAfterKill(const Bench &bench, const Scenario &scenario, const std::string &at,
                    size_t &published, size_t &leftOver) {
  const Bench::State state = bench.state(scenario);
  ASSERT_NE(state, Bench::State::Torn) << at << ": " << describe(snapshotOf(bench.folder()));
  published += state == Bench::State::After;
  const Snapshot now = snapshotOf(bench.folder());
  for (const auto &[name, bytes] : now)
    if (!scenario.before.count(name) && !scenario.after.count(name)) {
      ++leftOver;
      break;
    }
  const Ended next = bench.plain(scenario.next);
  ASSERT_EQ(next.code, 0) << at << ", next run: " << bench.message();
  ASSERT_TRUE(snapshotOf(bench.folder()) == scenario.after) // not EQ: that prints the bytes
      << at << ": after the next run the folder holds " << describe(snapshotOf(bench.folder()))
      << ", expected " << describe(scenario.after);
}

class Crash : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    bench_ = new Bench;
    scenarios_ = new std::vector<Scenario>;
    try {
      *scenarios_ = bench_->scenarios(missing_);
    } catch (const std::exception &error) { // else the tests would count as skipped
      broken_ = error.what();
      return;
    }
    if (const char *only = std::getenv("NINFER_CRASH_ONLY")) {
      std::printf("crash: only scenarios with '%s' in their name\n", only);
      std::erase_if(*scenarios_,
                    [&](const Scenario &s) { return s.name.find(only) == s.name.npos; });
    }
    reason_ = whyNoTracing();
    for (const std::string &name : missing_)
      std::printf("crash: %s is not built here, its writes are not tested\n", name.c_str());
    if (!reason_.empty())
      std::printf("crash: no tracing here (%s): kills by the clock instead\n", reason_.c_str());
  }
  void SetUp() override {
    if (!broken_.empty())
      FAIL() << "an undisturbed run went wrong: " << broken_;
  }
  static void TearDownTestSuite() {
    delete scenarios_;
    delete bench_;
  }
  static inline Bench *bench_ = nullptr;
  static inline std::vector<Scenario> *scenarios_ = nullptr;
  static inline std::vector<std::string> missing_;
  static inline std::string reason_, broken_;
};

TEST_F(Crash, KilledAtEverySystemCall) {
  if (!reason_.empty()) { // the same checks, at moments that the clock chooses
    size_t kills = 0;
    for (const Scenario &scenario : *scenarios_)
      for (uint64_t at = 200; at < 60000; at += at / 8) {
        if (scenario.named)
          continue; // needs the tracer
        bench_->prepare(scenario);
        if (!runAndKillAfter(scenario.command, bench_->out(), bench_->err(), at).killed)
          break;
        ++kills;
        size_t published = 0, leftOver = 0;
        checkAfterKill(*bench_, scenario, scenario.name + " after " + std::to_string(at) + " us",
                       published, leftOver);
      }
    std::printf("crash: %zu kills by the clock\n", kills);
    EXPECT_GT(kills, 20u);
    return;
  }
  size_t total = 0, available = 0;
  for (const Scenario &scenario : *scenarios_) {
    const Window window = windowOf(*bench_, scenario);
    // Before the folder is touched a kill cannot matter: visited in steps unless all are asked for.
    const size_t early = strideOr(97), inside = strideOr(7);
    size_t points = 0, published = 0, leftOver = 0;
    for (size_t stop = 0;;
         stop += stop < window.first ? std::min(early, window.first - stop) : inside) {
      bench_->prepare(scenario);
      SystemCall last;
      const Ended ended = bench_->run(scenario, [&](const SystemCall &call, size_t i) {
        last = call;
        return Decision{i == stop ? Act::Kill : Act::Go};
      });
      if (!ended.killed) { // ran to its end
        ASSERT_EQ(ended.code, 0) << scenario.name << ": " << bench_->message();
        break;
      }
      ++points;
      checkAfterKill(*bench_, scenario, where(scenario, last, stop), published, leftOver);
      if (HasFatalFailure())
        return;
    }
    std::printf("crash: %-40s %4zu of %4zu points (write path from %zu), %zu after publishing, "
                "%zu left a temporary for the next run\n",
                scenario.name.c_str(), points, window.stops, window.first, published, leftOver);
    std::fflush(stdout);
    EXPECT_GT(published, 0u) << scenario.name << ": no kill came after the publication";
    EXPECT_LT(published, points) << scenario.name;
    total += points;
    available += window.stops;
  }
  std::printf("crash: %zu kills at %zu possible points, none lost\n", total, available);
}

/// Calls that a failing disk, quota or permission can fail.
bool mayFail(const SystemCall &call) {
  static const std::set<long> numbers = {
    SYS_openat,
    SYS_read,
    SYS_write,
    SYS_pread64,
    SYS_pwrite64,
    SYS_fsync,
    SYS_fdatasync,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_linkat,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_newfstatat,
    SYS_fstat,
    SYS_flock,
    SYS_fchmod,
    SYS_getdents64,
    SYS_faccessat,
#if defined(__x86_64__)
    SYS_access,
    SYS_stat,
    SYS_lstat,
    SYS_link,
    SYS_unlink,
    SYS_rename,
#endif
  };
  if (call.number == SYS_mmap) // of a file
    return int(call.arguments[4]) >= 0 && (call.arguments[3] & 0x20) == 0;
  return numbers.count(call.number) != 0;
}

TEST_F(Crash, FailedAtEverySystemCallOfTheWritePath) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "failing calls is written for x86-64";
#endif
  if (!reason_.empty())
    GTEST_SKIP() << "no tracing here: " << reason_;
  size_t total = 0, survived = 0, refused = 0, afterPublish = 0;
  for (const Scenario &scenario : *scenarios_) {
    const Window window = windowOf(*bench_, scenario);
    const size_t stride = strideOr(23);
    size_t step = 0;
    for (size_t stop = window.first; stop < window.calls.size(); ++stop) {
      const SystemCall &planned = window.calls[stop];
      if (!planned.entry || !mayFail(planned))
        continue;
      const auto nth = size_t(std::count_if(
          window.calls.begin(), window.calls.begin() + int64_t(stop) + 1,
          [&](const SystemCall &c) { return c.entry && c.number == planned.number; }));
      std::vector<Decision> faults;
      for (int code : {ENOSPC, EIO, EACCES, EINTR})
        faults.push_back({Act::Fail, code});
      if (planned.number == SYS_write || planned.number == SYS_pwrite64 ||
          planned.number == SYS_read || planned.number == SYS_pread64)
        faults.push_back({Act::Shorten, 0});
      for (const Decision &fault : faults) {
        if (step++ % stride != 0)
          continue;
        bench_->prepare(scenario);
        SystemCall hit;
        bool done = false;
        // Addresses differ from run to run, and with them the number of memory calls: the call is
        // found again as the n-th of its kind.
        size_t seen = 0;
        const Ended ended = bench_->run(scenario, [&](const SystemCall &call, size_t) {
          if (!call.entry || call.number != planned.number || ++seen != nth)
            return Decision{};
          hit = call;
          done = true;
          return fault;
        });
        const std::string at = where(scenario, hit, stop) + ", " +
                               (fault.act == Act::Fail ? std::strerror(fault.error) : "shortened");
        ASSERT_TRUE(done) << at;
        ++total;
        const Bench::State state = bench_->state(scenario);
        ASSERT_NE(state, Bench::State::Torn)
            << at << ": " << describe(snapshotOf(bench_->folder()));
        ASSERT_GE(ended.code, 0) << at << ": ended by signal " << -ended.code;
        if (fault.act == Act::Shorten) {
          ASSERT_EQ(ended.code, 0) << at << ": " << bench_->message();
        }
        if (ended.code == 0) {
          ++survived;
          ASSERT_EQ(state, Bench::State::After) << at << ": success without the new file";
        } else {
          ++refused;
          afterPublish += state == Bench::State::After && state != Bench::State::Before;
          ASSERT_LE(ended.code, 6) << at << ": " << bench_->message();
          ASSERT_EQ(bench_->message().rfind("error[NB", 0), 0u) << at << ": " << bench_->message();
        }
        // The next run works, whatever this one left.
        const Ended next = bench_->plain(scenario.next);
        ASSERT_EQ(next.code, 0) << at << ", next run: " << bench_->message();
        ASSERT_TRUE(snapshotOf(bench_->folder()) == scenario.after)
            << at << ": " << describe(snapshotOf(bench_->folder()));
      }
    }
  }
  std::printf("crash: %zu failed calls: %zu runs succeeded all the same, %zu refused (%zu of them "
              "after the new file was published)\n",
              total, survived, refused, afterPublish);
  EXPECT_GT(refused, total / 4);
}

TEST_F(Crash, ReadOnlyFolderAndFolderAsTarget) {
  const Scenario &fresh = scenarios_->front();
  bench_->prepare(fresh);
  // Root may write everywhere; without the right to, the folder itself refuses.
  if (::geteuid() == 0) {
    std::printf("crash: running as root, a read-only folder is imitated by failing the creation\n");
    if (reason_.empty()) {
      const Ended ended = bench_->run(fresh, [&](const SystemCall &call, size_t) {
        const bool creates = call.entry && call.number == SYS_openat &&
                             (call.arguments[2] & (O_CREAT | O_TMPFILE)) != 0 &&
                             (call.arguments[2] & O_ACCMODE) != O_RDONLY;
        return creates && call.names(bench_->folder().string()) ? Decision{Act::Fail, EROFS}
                                                                : Decision{};
      });
      EXPECT_EQ(ended.code, 1);
      EXPECT_NE(bench_->message().find("Read-only file system"), std::string::npos)
          << bench_->message();
      EXPECT_TRUE(snapshotOf(bench_->folder()).empty());
    }
  } else {
    fs::permissions(bench_->folder(), fs::perms::owner_read | fs::perms::owner_exec);
    const Ended ended = bench_->plain(fresh.command);
    fs::permissions(bench_->folder(), fs::perms::owner_all);
    EXPECT_EQ(ended.code, 1);
    EXPECT_EQ(bench_->message().rfind("error[NB0906]", 0), 0u) << bench_->message();
    EXPECT_TRUE(snapshotOf(bench_->folder()).empty());
  }
  bench_->prepare(fresh);
  fs::create_directory(bench_->folder() / fresh.target);
  const Ended ended = bench_->plain(fresh.next); // with --force
  EXPECT_EQ(ended.code, 2) << bench_->message();
  EXPECT_EQ(bench_->message().rfind("error[NB0904]", 0), 0u) << bench_->message();
  EXPECT_TRUE(fs::is_directory(bench_->folder() / fresh.target));
  fs::remove(bench_->folder() / fresh.target);
}

TEST_F(Crash, TwoWritersAtOnceLeaveOneCompleteFile) {
  const Scenario *one = nullptr, *other = nullptr;
  for (const Scenario &scenario : *scenarios_) {
    if (scenario.name == "convert, replace")
      one = &scenario;
    if (scenario.name == "convert, parts, replace")
      other = &scenario;
  }
  ASSERT_TRUE(one && other);
  size_t first = 0, second = 0, strays = 0;
  constexpr size_t kRounds = 40;
  for (size_t round = 0; round < kRounds; ++round) {
    bench_->prepare(*one);
    const auto start = [&](const Scenario &scenario, unsigned delay) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::usleep(delay);
        const int null = ::open("/dev/null", O_WRONLY);
        ::dup2(null, 1);
        ::dup2(null, 2);
        std::vector<char *> words;
        for (const std::string &word : scenario.command)
          words.push_back(const_cast<char *>(word.c_str()));
        words.push_back(nullptr);
        ::execv(words[0], words.data());
        ::_exit(127);
      }
      return pid;
    };
    const pid_t a = start(*one, unsigned(round % 8) * 8000),
                b = start(*other, unsigned(round / 8) * 2000);
    int statusA = -1, statusB = -1;
    ::waitpid(a, &statusA, 0);
    ::waitpid(b, &statusB, 0);
    ASSERT_TRUE(WIFEXITED(statusA) && WEXITSTATUS(statusA) == 0) << round;
    ASSERT_TRUE(WIFEXITED(statusB) && WEXITSTATUS(statusB) == 0) << round;
    const bool isFirst = bench_->state(*one) == Bench::State::After;
    const bool isSecond = bench_->state(*other) == Bench::State::After;
    ASSERT_TRUE(isFirst != isSecond) << describe(snapshotOf(bench_->folder()));
    first += isFirst;
    second += isSecond;
    // A writer of one file does not know the parts that another published meanwhile: they may stay
    // until the next run, which leaves nothing else.
    strays += snapshotOf(bench_->folder()) != (isFirst ? one->after : other->after);
    ASSERT_EQ(bench_->plain(one->next).code, 0) << round << ": " << bench_->message();
    ASSERT_TRUE(snapshotOf(bench_->folder()) == one->after)
        << "round " << round << ": " << describe(snapshotOf(bench_->folder()));
  }
  std::printf("crash: two writers, %zu rounds: %zu ended with the one file, %zu with the other, "
              "%zu with parts for the next run to remove\n",
              kRounds, first, second, strays);
}

} // namespace
} // namespace ninfer
