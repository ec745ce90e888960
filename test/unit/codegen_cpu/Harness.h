// Runs kernels made from text: parse, compile, map the ELF from memory, call it on guarded buffers.
// Expected values come from artifact/layouts (which decodes words one by one) and double arithmetic
// here; nothing is shared with the micro-kernels.
#ifndef NINFER_TEST_UNIT_CODEGEN_CPU_HARNESS_H
#define NINFER_TEST_UNIT_CODEGEN_CPU_HARNESS_H

#include "artifact/layouts/Layout.h"
#include "codegen/cpu/CpuCodegen.h"
#include "runtime/abi/kernel_abi.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ninfer::test {

/// Levels this machine can run.
std::vector<std::string> runnableTargets();

/// Bytes at an aligned address with a guard behind them.
class Buffer {
public:
  explicit Buffer(size_t bytes, size_t align = 64);
  template <typename T>
  T *as() {
    return reinterpret_cast<T *>(data_);
  }
  size_t size() const { return bytes_; }
  /// True while nothing was written around the bytes.
  bool guardsIntact() const;

private:
  std::vector<std::byte> memory_;
  std::byte *data_;
  size_t bytes_, skip_;
};

/// A parsed context and the object of all kernels of one module text.
class Compiled {
public:
  /// Fails the test on an error.
  static std::unique_ptr<Compiled> fromText(const std::string &text, const std::string &target,
                                            const std::map<std::string, CpuTuning> &tuning = {});
  ~Compiled();

  const CpuObject &object() const { return object_; }
  uint64_t scratchBytes(const std::string &kernel) const;

  /// Runs tiles [0, tiles) in `pieces` runs, last run first, each with fresh scratch full of NaN
  /// and guards. `outputs` are filled with NaN (all bits set) before; no two runs may write the
  /// same word of them, since runs of one launch happen at the same time.
  void run(const std::string &kernel, const std::vector<void *> &args,
           const std::vector<Buffer *> &outputs, int64_t rows, int64_t position, int64_t tiles,
           int64_t pieces) const;

private:
  CpuObject object_;
  int fd_ = -1;
  void *handle_ = nullptr;
};

/// Compiles text and gives the result or the error.
Result<CpuObject> compileText(const std::string &text, const CpuTarget &target,
                              const CpuCodegenOptions &options = {});

/// A weight with random legal words, stored as the layout says, and its exactly decoded values.
struct Weight {
  Weight(Format format, std::vector<uint64_t> shape, uint32_t seed);

  std::string type() const; ///< "!ninfer.weight<192x576, Q6G64_F16S, \"row-split-k128-v1\">"
  /// Appends one pointer per plane.
  void addPointers(std::vector<void *> &args);
  double at(uint64_t n, uint64_t k) const { return values[n * geometry.k + k]; }

  EncodedGeometry geometry;
  std::vector<uint64_t> shape;
  std::unique_ptr<Buffer> object;
  std::vector<float> values;
};

std::vector<float> randomFloats(size_t count, uint32_t seed, float scale = 1.0f);
std::unique_ptr<Buffer> floatBuffer(size_t count);
std::unique_ptr<Buffer> bufferOf(const std::vector<float> &values);

/// Every |actual - expected| must be within its own bound; reports the first that is not, NaN
/// included.
void expectWithin(const float *actual, const std::vector<double> &expected,
                  const std::vector<double> &bound, const std::string &what);

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_CODEGEN_CPU_HARNESS_H
