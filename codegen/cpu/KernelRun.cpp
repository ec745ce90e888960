#include "codegen/cpu/KernelRun.h"

#include "artifact/layouts/Layout.h"

#include "mlir/IR/BuiltinTypes.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace mlir;

namespace ninfer::cpu {
namespace {

/// Weights are read from this much memory in turn, at least: more than a last-level cache.
constexpr size_t kPoolBytes = size_t(128) << 20;

/// Anonymous memory of harmless words: every 16-bit word is a moderate binary16 and bfloat16 number.
class Pool {
public:
  explicit Pool(size_t bytes) : bytes_(bytes) {
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
      return;
    data_ = static_cast<char *>(p);
    madvise(p, bytes, MADV_NOHUGEPAGE); // as the pages of a mapped artifact
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      const uint64_t word = (state & 0x83ff83ff83ff83ffu) | 0x3000300030003000u;
      std::memcpy(data_ + i, &word, 8);
    }
  }
  ~Pool() {
    if (data_)
      munmap(data_, bytes_);
  }
  Pool(const Pool &) = delete;
  bool ok() const { return data_ != nullptr; }
  char *at(size_t offset) { return data_ + offset; }

private:
  char *data_ = nullptr;
  size_t bytes_;
};

/// Shared objects of variants, loaded from memory.
class Library {
public:
  ~Library() {
    if (handle_)
      dlclose(handle_);
    if (fd_ >= 0)
      close(fd_);
  }
  bool open(const std::vector<char> &elf) {
    fd_ = memfd_create("ninfer-tuning", MFD_CLOEXEC);
    for (size_t done = 0; fd_ >= 0 && done < elf.size();) {
      const ssize_t n = write(fd_, elf.data() + done, elf.size() - done);
      if (n <= 0)
        return false;
      done += size_t(n);
    }
    if (fd_ >= 0)
      handle_ = dlopen(("/proc/self/fd/" + std::to_string(fd_)).c_str(), RTLD_NOW | RTLD_LOCAL);
    return handle_ != nullptr;
  }
  ninfer_kernel_fn find(const std::string &symbol) const {
    return reinterpret_cast<ninfer_kernel_fn>(dlsym(handle_, symbol.c_str()));
  }

private:
  int fd_ = -1;
  void *handle_ = nullptr;
};

/// Threads that take their share of the tiles together, as the runtime's team does.
class Team {
public:
  explicit Team(unsigned size) : size_(size) {
    for (unsigned i = 1; i < size; ++i)
      threads_.emplace_back([this, i] {
        for (unsigned seen = 0;;) {
          while (generation_.load(std::memory_order_acquire) == seen)
            std::this_thread::yield(); // others may need the core: this runs on a build machine
          ++seen;
          if (quit_)
            return;
          (*job_)(i);
          done_.fetch_add(1, std::memory_order_release);
        }
      });
  }
  ~Team() {
    quit_ = true;
    generation_.fetch_add(1, std::memory_order_release);
    for (std::thread &thread : threads_)
      thread.join();
  }
  void run(const std::function<void(unsigned)> &job) {
    job_ = &job;
    done_ = 0;
    generation_.fetch_add(1, std::memory_order_release);
    job(0);
    while (done_.load(std::memory_order_acquire) + 1 < size_)
      std::this_thread::yield();
  }

private:
  unsigned size_;
  std::vector<std::thread> threads_;
  const std::function<void(unsigned)> *job_ = nullptr;
  std::atomic<unsigned> generation_{0}, done_{0};
  bool quit_ = false;
};

Error failed(KernelOp kernel, const std::string &why) {
  return makeError(ErrorKind::Failed, "NB0543", "kernel " + kernel.getSymName().str() + " cannot be timed: " + why);
}

/// What a call of the kernel is given. Weight pointers are offsets into one copy of all matrices.
struct Arguments {
  struct Slot {
    bool weight;
    size_t offset; ///< in the copy, or in `buffers`
  };
  std::vector<Slot> slots;
  size_t weightBytes = 0; ///< of one copy
  std::vector<float> buffers;
};

Result<Arguments> makeArguments(KernelOp kernel) {
  Arguments arguments;
  constexpr size_t kAlign = 64 / sizeof(float);
  auto buffer = [&](size_t floats) {
    arguments.slots.push_back({false, arguments.buffers.size()});
    arguments.buffers.resize((arguments.buffers.size() + floats + kAlign - 1) / kAlign * kAlign, 0.5f);
  };
  auto activation = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.getRank() != 2 || !tensor.getElementType().isF32())
      return false;
    buffer(size_t(tensor.isDynamicDim(0) ? kernel.getRows() : tensor.getDimSize(0)) * size_t(tensor.getDimSize(1)));
    return true;
  };
  for (BlockArgument argument : kernel.getArguments()) {
    auto weight = dyn_cast<WeightType>(argument.getType());
    if (!weight) {
      if (!activation(argument.getType()))
        return failed(kernel, "an argument is neither weight nor activation");
      continue;
    }
    const std::vector<uint64_t> shape(weight.getShape().begin(), weight.getShape().end());
    NINFER_ASSIGN_OR_RETURN(const EncodedGeometry geometry, encodedGeometry(weight.getFormat(), weight.getLayout(), shape));
    for (const PlaneInfo &plane : geometry.planes)
      arguments.slots.push_back({true, arguments.weightBytes + size_t(plane.offset)});
    arguments.weightBytes += (size_t(geometry.totalBytes) + 4095) / 4096 * 4096;
  }
  for (Value result : kernel.getYield()->getOperands())
    if (!activation(result.getType()))
      return failed(kernel, "a result is no activation");
  return arguments;
}

} // namespace

struct KernelRun::Impl {
  Impl(Arguments given, size_t copies, unsigned threads)
      : arguments(std::move(given)), copies(copies), pool(std::max<size_t>(1, copies * arguments.weightBytes)), threads(threads),
        args(arguments.slots.size()), memory(arguments.buffers.size() + 16, 0.5f), team(threads) {}

  Arguments arguments;
  size_t copies;
  Pool pool;
  unsigned threads;
  Library library;
  std::vector<ninfer_kernel_fn> entries;
  size_t scratchBytes = 64; ///< of one thread
  std::unique_ptr<char, decltype(&std::free)> scratch{nullptr, &std::free};
  std::vector<void *> args;
  std::vector<float> memory; ///< activations and results, finite
  float *base = nullptr;     ///< of `memory`, aligned
  int64_t tiles = 0;
  int64_t scalars[NINFER_SCALAR_COUNT] = {};
  size_t turn = 0;
  Team team;
};

KernelRun::KernelRun(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KernelRun::KernelRun(KernelRun &&) noexcept = default;
KernelRun::~KernelRun() = default;

Result<KernelRun> KernelRun::load(KernelOp kernel, const CpuObject &object, unsigned threads) {
  NINFER_ASSIGN_OR_RETURN(Arguments arguments, makeArguments(kernel));
  const size_t copies = std::max<size_t>(1, kPoolBytes / std::max<size_t>(1, arguments.weightBytes));
  auto impl = std::make_unique<Impl>(std::move(arguments), copies, threads);
  if (!impl->pool.ok())
    return makeError(ErrorKind::OutOfMemory, "NB0543", "kernel " + kernel.getSymName().str() + " cannot be timed: no memory for " +
                                                           std::to_string(copies * impl->arguments.weightBytes) + " bytes of weights");
  if (!impl->library.open(object.elf)) {
    const char *why = dlerror();
    return failed(kernel, why ? why : "its code cannot be loaded");
  }
  for (const CpuKernel &entry : object.kernels) {
    impl->entries.push_back(impl->library.find(entry.symbol));
    if (!impl->entries.back())
      return failed(kernel, "symbol " + entry.symbol + " is missing");
    impl->scratchBytes = std::max(impl->scratchBytes, (size_t(entry.scratchBytes) + 63) / 64 * 64);
  }
  impl->scratch.reset(static_cast<char *>(std::aligned_alloc(64, impl->scratchBytes * threads)));
  if (!impl->scratch)
    return makeError(ErrorKind::OutOfMemory, "NB0543", "kernel " + kernel.getSymName().str() + " cannot be timed: no memory for scratch");
  impl->base = reinterpret_cast<float *>((reinterpret_cast<uintptr_t>(impl->memory.data()) + 63) / 64 * 64);
  impl->tiles = kernel.getTilesConst() + kernel.getTilesPerRow() * int64_t(kernel.getRows());
  impl->scalars[NINFER_SCALAR_ROWS] = int64_t(kernel.getRows());
  return KernelRun(std::move(impl));
}

size_t KernelRun::weightBytes() const { return impl_->arguments.weightBytes; }

void KernelRun::call(size_t kernel) {
  Impl &d = *impl_;
  char *copy = d.pool.at(d.turn++ % d.copies * d.arguments.weightBytes);
  for (size_t i = 0; i < d.args.size(); ++i)
    d.args[i] = d.arguments.slots[i].weight ? static_cast<void *>(copy + d.arguments.slots[i].offset)
                                            : static_cast<void *>(d.base + d.arguments.slots[i].offset);
  d.team.run([&](unsigned thread) {
    d.entries[kernel](d.args.data(), d.scalars, d.tiles * thread / d.threads, d.tiles * (thread + 1) / d.threads,
                      d.scratch.get() + thread * d.scratchBytes);
  });
}

} // namespace ninfer::cpu
