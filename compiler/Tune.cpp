#include "compiler/Tune.h"

#include "codegen/cpu/Measure.h"
#include "dialects/ninfer/NinferDialect.h"
#include "support/File.h"
#include "support/Progress.h"
#include "support/Sha256.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <thread>

namespace ninfer {
namespace {

constexpr uint64_t kMostFileBytes = uint64_t(1) << 24;
/// Threads that run a kernel together while it is timed: a plan is run on as many as the machine has, which a build
/// cannot know, so as many as this one has, up to what a barrier by spinning bears.
constexpr unsigned kMostThreads = 8;

std::filesystem::path beside(const std::filesystem::path &plan) { return plan.string() + ".tuning"; }

/// A tuning file may replace a tuning file or an empty one, nothing else.
Status checkReplaceable(const std::filesystem::path &path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return {};
  std::string head(kTuningMagic.size(), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), std::streamsize(head.size()));
  if (in.gcount() == 0 || head == kTuningMagic)
    return {};
  Status status = makeError(ErrorKind::Usage, "NB0905", path.string() + ": exists and is no tuning file; only a tuning file or an empty file is replaced");
  status.help("move it away, or give the plan another name");
  return status;
}

std::string micros(double ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", ns / 1e3);
  return text;
}

Status writeCached(const std::string &directory, const std::string &path, const std::string &text) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed)
    return makeError(ErrorKind::Failed, "NB0907", directory + ": cannot make the cache directory: " + failed.message());
  return writeFileAtomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

Status interrupted() { return makeError(ErrorKind::Interrupted, "NB0540", "interrupted while timing kernels, no plan written"); }

} // namespace

Status Tuner::prepare(const std::vector<BuildTarget> &targets) {
  using Tune = BuildOptions::Tune;
  for (const BuildTarget &target : targets)
    cpuTargets_ += target.cpu.has_value();
  if (!active())
    return {};
  const char *option = options_.locked ? "--locked" : "--tune";
  if (options_.locked && options_.tune != Tune::Off)
    return makeError(ErrorKind::Usage, "NB0403", "--locked takes every choice from a file, so it does not go with --tune");
  if (cpuTargets_ == 0)
    return makeError(ErrorKind::Usage, "NB0403", std::string(option) + " is about CPU kernels, and no --target is a CPU");
  if (options_.locked) {
    const std::filesystem::path path = options_.lockFile.empty() ? beside(options_.output) : options_.lockFile;
    if (options_.lockFile.empty() && options_.output.empty())
      return makeError(ErrorKind::Usage, "NB0403", "--locked without a file takes the one beside the plan, and no plan is written; give --locked=FILE");
    boundName_ = path.string();
    NINFER_ASSIGN_OR_RETURN(const std::string text, readFile(path, kMostFileBytes));
    NINFER_ASSIGN_OR_RETURN(bound_, TuningTable::parse(text, boundName_));
    return {};
  }
  if (options_.tune == Tune::Cache && options_.cache.directory.empty())
    return makeError(ErrorKind::Usage, "NB0403", "--tune=cache takes earlier measurements from the cache, and there is none (--cache)");
  if (options_.tune == Tune::Measure)
    for (const BuildTarget &target : targets) {
      if (!target.cpu)
        continue;
      NINFER_ASSIGN_OR_RETURN(const CpuTarget native, resolveCpuTarget("native"));
      if (architectureOf(target.cpu->level) == architectureOf(native.level) && target.cpu->level <= native.level)
        continue;
      Status status = makeError(ErrorKind::TargetMismatch, "NB0544",
                                "--tune times kernels on this machine, which runs cpu:" + native.name + " at most, not " + target.name);
      status.help("build there, or bring the tuning file of a build there: --locked=FILE");
      return status;
    }
  return options_.output.empty() ? Status() : checkReplaceable(beside(options_.output));
}

Result<std::map<std::string, CpuTuning>> Tuner::choose(mlir::ModuleOp module, const BuildTarget &target,
                                                       std::map<std::string, std::string> &from) {
  using Tune = BuildOptions::Tune;
  std::map<std::string, CpuTuning> choices;
  if (!active())
    return choices;
  struct Open {
    KernelOp kernel;
    cpu::TuningRequest request;
  };
  std::vector<Open> open;
  const std::string where = target.name;
  auto keep = [&](const std::string &kernel, TuningEntry entry, const char *source) {
    choices[kernel] = entry.tuning;
    from[kernel] = source;
    chosen_.add(std::move(entry));
  };
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    std::optional<cpu::TuningRequest> request = cpu::tuningRequest(kernel, *target.cpu);
    if (!request)
      continue;
    const std::string name = kernel.getSymName().str();
    if (options_.locked) {
      const TuningEntry *entry = bound_.find(where, request->digest);
      if (!entry) {
        Status status = makeError(ErrorKind::CacheMiss, "NB0542", boundName_ + ": no entry for kernel " + name + " on " + where);
        status.note("its request has the digest " + request->digest);
        status.help("build with --tune=SECONDS, which writes the file anew, or without --locked");
        return status;
      }
      keep(name, *entry, "locked");
      continue;
    }
    if (!options_.cache.directory.empty()) {
      // What is unreadable there is as good as absent: the cache is nobody's only copy.
      auto text = readFile(cachePath(request->digest), kMostFileBytes);
      auto table = text.ok() ? TuningTable::parse(*text, cachePath(request->digest)) : Result<TuningTable>(text.takeStatus());
      if (table.ok())
        if (const TuningEntry *entry = table->find(where, request->digest)) {
          TuningEntry found = *entry;
          found.kernel = name;
          keep(name, std::move(found), "cache");
          continue;
        }
    }
    if (options_.tune == Tune::Cache) {
      keep(name, {where, name, request->digest, {}, "not measured"}, "default");
      continue;
    }
    open.push_back({kernel, std::move(*request)});
  }
  if (open.empty())
    return choices;
  cpu::MeasureOptions measure;
  measure.seconds = options_.tuneSeconds / double(open.size()) / double(cpuTargets_);
  measure.threads = std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
  measure.cache = options_.cache;
  measure.cancelled = options_.cancelled;
  Progress progress("tuning " + where, open.size(), options_.progress);
  for (Open &entry : open) {
    if (options_.cancelled && options_.cancelled())
      return interrupted();
    const std::string name = entry.kernel.getSymName().str();
    progress.detail(name);
    NINFER_ASSIGN_OR_RETURN(const cpu::Measured measured, cpu::measureKernel(entry.kernel, *target.cpu, entry.request, measure));
    TuningEntry line{where, name, entry.request.digest, measured.best,
                     measured.best == CpuTuning() ? micros(measured.defaultNs)
                                                  : micros(measured.bestNs) + ", default " + micros(measured.defaultNs)};
    if (!options_.cache.directory.empty()) {
      TuningTable one;
      one.add(line);
      const std::string text = one.render();
      Status kept = writeCached(options_.cache.directory, cachePath(line.digest), text);
      if (!kept.ok() && !options_.cache.optional)
        return kept;
    }
    keep(name, std::move(line), "measured");
    progress.add(1);
  }
  return choices;
}

std::string Tuner::digest() const { return toHex(sha256(chosen_.renderChoices())); }

std::string Tuner::written() const {
  return options_.tune == BuildOptions::Tune::Off || options_.output.empty() ? "" : beside(options_.output).string();
}

Status Tuner::writeFile() const {
  if (written().empty())
    return {};
  const std::string text = chosen_.render();
  return writeFileAtomically(written(), std::as_bytes(std::span(text.data(), text.size())));
}

} // namespace ninfer
