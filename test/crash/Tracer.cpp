#include "test/crash/Tracer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <stdexcept>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace ninfer::test {

namespace {

[[noreturn]] void execute(const std::vector<std::string> &command, const std::string &out,
                          const std::string &err) {
  const auto redirect = [](const std::string &path, int to) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, to);
    ::close(fd);
  };
  redirect(out, 1);
  redirect(err, 2);
  std::vector<char *> arguments;
  for (const std::string &word : command)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

long control(int request, pid_t task, uint64_t address, void *data) {
  return ::ptrace(static_cast<__ptrace_request>(request), task, reinterpret_cast<void *>(address),
                  data);
}

/// One traced task between entry and exit of a call.
struct Task {
  SystemCall call;
  bool inside = false;
  int failure = 0; ///< errno to hand back at exit
};

#if defined(__x86_64__)
void skipCall(pid_t task) {
  user_regs_struct registers{};
  control(PTRACE_GETREGS, task, 0, &registers);
  registers.orig_rax = static_cast<unsigned long long>(-1);
  control(PTRACE_SETREGS, task, 0, &registers);
}
void setResult(pid_t task, int64_t result) {
  user_regs_struct registers{};
  control(PTRACE_GETREGS, task, 0, &registers);
  registers.rax = static_cast<unsigned long long>(result);
  control(PTRACE_SETREGS, task, 0, &registers);
}
void setThirdArgument(pid_t task, uint64_t value) {
  user_regs_struct registers{};
  control(PTRACE_GETREGS, task, 0, &registers);
  registers.rdx = value;
  control(PTRACE_SETREGS, task, 0, &registers);
}
#else
void skipCall(pid_t) { throw std::runtime_error("failing calls needs x86-64"); }
void setResult(pid_t, int64_t) {}
void setThirdArgument(pid_t, uint64_t) { throw std::runtime_error("shortening needs x86-64"); }
#endif

void readCall(pid_t pid, Task &task) {
  struct __ptrace_syscall_info info {};
  if (control(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) <= 0)
    throw std::runtime_error("PTRACE_GET_SYSCALL_INFO: " + std::string(std::strerror(errno)));
  task.call.task = pid;
  if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
    task.inside = task.call.entry = true;
    task.call.number = long(info.entry.nr);
    std::copy_n(info.entry.args, 6, task.call.arguments);
  } else {
    task.inside = task.call.entry = false;
    task.call.result = info.exit.rval;
  }
}

void apply(Task &task, const Decision &decision) {
  const pid_t pid = task.call.task;
  if (task.call.entry && decision.act == Decision::Act::Fail) {
    skipCall(pid);
    task.failure = decision.error;
  } else if (task.call.entry && decision.act == Decision::Act::Shorten) {
    setThirdArgument(pid, std::max<uint64_t>(1, task.call.arguments[2] / 2));
  } else if (!task.call.entry && task.failure) {
    setResult(pid, -task.failure);
    task.failure = 0;
  }
}

} // namespace

bool SystemCall::names(const std::string &part) const {
  for (int i = 0; i < 2; ++i) {
    // Page by page: the one behind the text may not be mapped.
    std::string text;
    for (uint64_t at = arguments[i]; text.size() < 512;) {
      char bytes[512];
      iovec local{bytes, sizeof bytes};
      iovec remote{reinterpret_cast<void *>(at), std::min<size_t>(4096 - at % 4096, sizeof bytes)};
      const ssize_t count = ::process_vm_readv(task, &local, 1, &remote, 1, 0);
      if (count <= 0)
        break;
      const auto length = ::strnlen(bytes, size_t(count));
      text.append(bytes, length);
      at += uint64_t(count);
      if (length < size_t(count))
        break;
    }
    if (text.find(part) != std::string::npos)
      return true;
  }
  return false;
}

Ended trace(const std::vector<std::string> &command, const std::filesystem::path &out,
            const std::filesystem::path &err, const TraceHook &hook) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (control(PTRACE_TRACEME, 0, 0, nullptr) != 0)
      ::_exit(126);
    ::raise(SIGSTOP);
    execute(command, out.string(), err.string());
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
    throw std::runtime_error("the traced child did not stop");
  const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE |
                       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
  if (control(PTRACE_SETOPTIONS, child, 0, reinterpret_cast<void *>(options)) != 0)
    throw std::runtime_error("PTRACE_SETOPTIONS: " + std::string(std::strerror(errno)));

  Ended ended;
  std::map<pid_t, Task> tasks;
  control(PTRACE_SYSCALL, child, 0, nullptr);
  for (;;) {
    const pid_t pid = ::waitpid(-1, &status, __WALL);
    if (pid < 0)
      throw std::runtime_error("waitpid: " + std::string(std::strerror(errno)));
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (pid != child)
        continue;
      ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      return ended;
    }
    uint64_t signal = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      Task &task = tasks[pid];
      readCall(pid, task);
      const Decision decision = hook(task.call, ended.stops++);
      if (decision.act == Decision::Act::Kill) {
        ended.killed = true;
        ::kill(child, SIGKILL);
        continue;
      }
      apply(task, decision);
    } else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) {
      signal = uint64_t(WSTOPSIG(status));
    }
    control(PTRACE_SYSCALL, pid, 0, reinterpret_cast<void *>(signal));
  }
}

std::string whyNoTracing() {
  try {
    const Ended ended = trace({"/bin/true"}, "/dev/null", "/dev/null",
                              [](const SystemCall &, size_t) { return Decision{}; });
    return ended.code == 0 && ended.stops > 0 ? "" : "a traced /bin/true did not end well";
  } catch (const std::runtime_error &error) {
    return error.what();
  }
}

Ended runAndKillAfter(const std::vector<std::string> &command, const std::filesystem::path &out,
                      const std::filesystem::path &err, uint64_t microseconds) {
  const pid_t child = ::fork();
  if (child == 0)
    execute(command, out.string(), err.string());
  Ended ended;
  int status = 0;
  if (microseconds > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    ended.killed = ::waitpid(child, &status, WNOHANG) == 0;
    if (ended.killed)
      ::kill(child, SIGKILL);
    else {
      ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      return ended;
    }
  }
  ::waitpid(child, &status, 0);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return ended;
}

std::string systemCallName(long number) {
  static const std::map<long, const char *> names = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_openat, "openat"},
    {SYS_close, "close"},
    {SYS_newfstatat, "newfstatat"},
    {SYS_fstat, "fstat"},
    {SYS_lseek, "lseek"},
    {SYS_mmap, "mmap"},
    {SYS_mprotect, "mprotect"},
    {SYS_munmap, "munmap"},
    {SYS_brk, "brk"},
    {SYS_pread64, "pread64"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_ftruncate, "ftruncate"},
    {SYS_fallocate, "fallocate"},
    {SYS_linkat, "linkat"},
    {SYS_unlinkat, "unlinkat"},
    {SYS_renameat2, "renameat2"},
    {SYS_flock, "flock"},
    {SYS_fchmod, "fchmod"},
    {SYS_umask, "umask"},
    {SYS_getdents64, "getdents64"},
    {SYS_madvise, "madvise"},
    {SYS_faccessat, "faccessat"},
    {SYS_readlinkat, "readlinkat"},
    {SYS_exit_group, "exit_group"},
    {SYS_futex, "futex"},
#if defined(__x86_64__)
    {SYS_access, "access"},
    {SYS_stat, "stat"},
    {SYS_lstat, "lstat"},
    {SYS_link, "link"},
    {SYS_unlink, "unlink"},
    {SYS_rename, "rename"},
    {SYS_open, "open"},
    {SYS_readlink, "readlink"},
#endif
  };
  const auto found = names.find(number);
  return found == names.end() ? "call " + std::to_string(number) : found->second;
}

} // namespace ninfer::test
