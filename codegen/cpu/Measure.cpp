#include "codegen/cpu/Measure.h"

#include "codegen/cpu/KernelRun.h"
#include "support/Sha256.h"

#include "mlir/IR/BuiltinTypes.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <chrono>

using namespace mlir;

namespace ninfer::cpu {
namespace {

/// One sample is as many calls as take about this long.
constexpr double kSampleSeconds = 2e-3;
constexpr unsigned kLeastRounds = 5;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Variant {
  CpuTuning tuning;
  std::vector<double> times; ///< seconds per call, one per round
};

/// All variants in one object.
Result<CpuObject> compileVariants(KernelOp kernel, const CpuTarget &target, const std::vector<CpuTuning> &tunings,
                                  const MeasureOptions &measure) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  CpuCodegenOptions options;
  options.threads = measure.threads;
  options.cache = measure.cache;
  for (size_t i = 0; i < tunings.size(); ++i) {
    auto copy = cast<KernelOp>(kernel->clone());
    copy.setSymName("variant_" + std::to_string(i));
    module->push_back(copy);
    options.tuning["variant_" + std::to_string(i)] = tunings[i];
  }
  return compileKernels(*module, target, options);
}

/// Times the variants in turn, so that a disturbance meets all of them.
Status timeVariants(KernelRun &run, std::vector<Variant> &variants, const MeasureOptions &options, unsigned &rounds) {
  run.call(0); // touches everything once
  double start = now();
  run.call(0);
  const size_t calls = std::max<size_t>(1, size_t(kSampleSeconds / std::max(1e-7, now() - start)));
  for (start = now(); rounds < kLeastRounds || now() - start < options.seconds; ++rounds)
    for (size_t variant = 0; variant < variants.size(); ++variant) {
      if (options.cancelled && options.cancelled())
        return makeError(ErrorKind::Interrupted, "NB0540", "interrupted while timing kernels, no plan written");
      const double from = now();
      for (size_t i = 0; i < calls; ++i)
        run.call(variant);
      variants[variant].times.push_back((now() - from) / double(calls));
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
  for (int64_t rowBlock : {64, 128, 256, 512})
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
  NINFER_ASSIGN_OR_RETURN(const CpuObject object, compileVariants(kernel, target, request.variants, options));
  NINFER_ASSIGN_OR_RETURN(KernelRun run, KernelRun::load(kernel, object, options.threads));
  std::vector<Variant> variants;
  for (const CpuTuning &tuning : request.variants)
    variants.push_back({tuning, {}});
  Measured measured;
  NINFER_RETURN_IF_ERROR(timeVariants(run, variants, options, measured.rounds));
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
