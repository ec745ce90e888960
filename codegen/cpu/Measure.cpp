#include "codegen/cpu/Measure.h"

#include "artifact/layouts/Layout.h"
#include "codegen/cpu/KernelLowering.h"
#include "runtime/abi/kernel_abi.h"
#include "support/Sha256.h"

#include "mlir/IR/BuiltinTypes.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace mlir;

namespace ninfer::cpu {
namespace {

/// Weights are read from this much memory in turn, at least: more than a last-level cache.
constexpr size_t kPoolBytes = size_t(128) << 20;
/// One sample is as many calls as take about this long.
constexpr double kSampleSeconds = 2e-3;
constexpr unsigned kLeastRounds = 5;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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

struct Variant {
  CpuTuning tuning;
  ninfer_kernel_fn run = nullptr;
  size_t scratch = 0;
  std::vector<double> times; ///< seconds per call, one per round
};

/// All variants in one object.
Result<CpuObject> compileVariants(KernelOp kernel, const CpuTarget &target, const std::vector<CpuTuning> &tunings,
                                  const MeasureOptions &measure) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  CpuCodegenOptions options;
  options.threads = measure.threads;
  options.cacheDir = measure.cacheDir;
  for (size_t i = 0; i < tunings.size(); ++i) {
    auto copy = cast<KernelOp>(kernel->clone());
    copy.setSymName("variant_" + std::to_string(i));
    module->push_back(copy);
    options.tuning["variant_" + std::to_string(i)] = tunings[i];
  }
  return compileKernels(*module, target, options);
}

/// Times the variants in turn, so that a disturbance meets all of them.
Status timeVariants(KernelOp kernel, std::vector<Variant> &variants, Arguments &arguments, const MeasureOptions &options,
                    unsigned &rounds) {
  const size_t copies = std::max<size_t>(1, kPoolBytes / std::max<size_t>(1, arguments.weightBytes));
  Pool pool(copies * arguments.weightBytes);
  if (!pool.ok())
    return makeError(ErrorKind::OutOfMemory, "NB0543", "kernel " + kernel.getSymName().str() + " cannot be timed: no memory for " +
                                                           std::to_string(copies * arguments.weightBytes) + " bytes of weights");
  size_t scratchBytes = 64;
  for (const Variant &variant : variants)
    scratchBytes = std::max(scratchBytes, (variant.scratch + 63) / 64 * 64);
  const std::unique_ptr<char, decltype(&std::free)> scratch(
      static_cast<char *>(std::aligned_alloc(64, scratchBytes * options.threads)), &std::free);
  std::vector<float> memory(arguments.buffers.size() + 16, 0.5f); // finite inputs
  auto *base = reinterpret_cast<float *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  const int64_t tiles = kernel.getTilesConst() + kernel.getTilesPerRow() * int64_t(kernel.getRows());
  const int64_t scalars[NINFER_SCALAR_COUNT] = {int64_t(kernel.getRows()), 0, 0, 0};
  std::vector<void *> args(arguments.slots.size());
  Team team(options.threads);
  size_t turn = 0;
  auto call = [&](const Variant &variant) {
    char *copy = pool.at(turn++ % copies * arguments.weightBytes);
    for (size_t i = 0; i < args.size(); ++i)
      args[i] = arguments.slots[i].weight ? static_cast<void *>(copy + arguments.slots[i].offset)
                                          : static_cast<void *>(base + arguments.slots[i].offset);
    team.run([&](unsigned thread) {
      variant.run(args.data(), scalars, tiles * thread / options.threads, tiles * (thread + 1) / options.threads,
                  scratch.get() + thread * scratchBytes);
    });
  };
  double start = now();
  call(variants.front()); // touches everything once
  start = now();
  call(variants.front());
  const size_t calls = std::max<size_t>(1, size_t(kSampleSeconds / std::max(1e-7, now() - start)));
  for (start = now(); rounds < kLeastRounds || now() - start < options.seconds; ++rounds)
    for (Variant &variant : variants) {
      if (options.cancelled && options.cancelled())
        return makeError(ErrorKind::Interrupted, "NB0540", "interrupted while timing kernels, no plan written");
      const double from = now();
      for (size_t i = 0; i < calls; ++i)
        call(variant);
      variant.times.push_back((now() - from) / double(calls));
    }
  return {};
}

/// The sample that the rest of the machine disturbed least.
double fastest(const Variant &variant) { return *std::min_element(variant.times.begin(), variant.times.end()); }

/// Faster at its best and in most rounds too: on a busy machine either alone happens by chance.
bool wins(const Variant &variant, const Variant &standard) {
  if (fastest(variant) > fastest(standard) * (1 - kTuningGain))
    return false;
  std::vector<double> ratios;
  for (size_t i = 0; i < variant.times.size(); ++i)
    ratios.push_back(variant.times[i] / standard.times[i]);
  std::nth_element(ratios.begin(), ratios.begin() + ptrdiff_t(ratios.size() / 2), ratios.end());
  return ratios[ratios.size() / 2] < 1 - kTuningGain;
}

/// Rows of the linear maps: those of the call, unless a static number (behind last_row) stands in the result.
int64_t linearRows(KernelOp kernel) {
  auto type = dyn_cast<RankedTensorType>(kernel.getYield()->getOperand(0).getType());
  return type && !type.isDynamicDim(0) ? type.getDimSize(0) : int64_t(kernel.getRows());
}

} // namespace

std::optional<TuningRequest> tuningRequest(KernelOp kernel, const CpuTarget &target) {
  if (!kernel.getFamily().starts_with("linear_"))
    return std::nullopt;
  TuningRequest request;
  Sha256 hash;
  hash.update("ninfer tuning request 1\n").update(target.name).update("\n");
  for (const std::string &feature : target.features)
    hash.update(feature).update("\n");
  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream);
  hash.update(text);
  request.digest = toHex(hash.finish()).substr(0, 32);

  const CpuTuning standard;
  request.variants.push_back(standard);
  const int64_t rows = linearRows(kernel);
  if (rows == 1) {
    for (int64_t block : {64, 128, 256, 512, 1024}) {
      CpuTuning tuning = standard;
      tuning.streamBlock = block;
      request.variants.push_back(tuning);
    }
    return request;
  }
  for (int64_t rowBlock : {64, 128, 256})
    for (int64_t outputBlock : {32, 64, 128, 256}) {
      CpuTuning tuning = standard;
      tuning.rowBlock = rowBlock;
      tuning.outputBlock = outputBlock;
      // A block beyond the rows of a call is the block of all of them.
      const bool same = rowBlock != standard.rowBlock && std::min(rowBlock, rows) == std::min(standard.rowBlock, rows);
      if (!(tuning == standard) && !same)
        request.variants.push_back(tuning);
    }
  return request;
}

Result<Measured> measureKernel(KernelOp kernel, const CpuTarget &target, const TuningRequest &request,
                               const MeasureOptions &options) {
  NINFER_ASSIGN_OR_RETURN(Arguments arguments, makeArguments(kernel));
  NINFER_ASSIGN_OR_RETURN(const CpuObject object, compileVariants(kernel, target, request.variants, options));
  Library library;
  if (!library.open(object.elf)) {
    const char *why = dlerror();
    return failed(kernel, why ? why : "its code cannot be loaded");
  }
  std::vector<Variant> variants;
  for (size_t i = 0; i < request.variants.size(); ++i) {
    variants.push_back({request.variants[i], library.find(object.kernels[i].symbol), size_t(object.kernels[i].scratchBytes), {}});
    if (!variants.back().run)
      return failed(kernel, "its symbol is missing");
  }
  Measured measured;
  NINFER_RETURN_IF_ERROR(timeVariants(kernel, variants, arguments, options, measured.rounds));
  const Variant &standard = variants.front();
  measured.defaultNs = measured.bestNs = fastest(standard) * 1e9;
  measured.best = standard.tuning;
  for (const Variant &variant : variants)
    if (const double ns = fastest(variant) * 1e9; ns < measured.bestNs && wins(variant, standard)) {
      measured.best = variant.tuning;
      measured.bestNs = ns;
    }
  return measured;
}

} // namespace ninfer::cpu
