// Linear kernels of every profile, format and number of rows, compiled for this machine by the code generator, as
// google-benchmark cases named PROFILE and FORMAT / NxK / rows. See README.md.
#include "artifact/layouts/Layout.h"
#include "bench/ReadProbe.h"
#include "codegen/common/Tiling.h"
#include "codegen/cpu/KernelRun.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

using namespace ninfer;

namespace {

struct Settings {
  unsigned threads = 1;
  std::vector<std::pair<int64_t, int64_t>> shapes = {{2048, 2048}}; ///< N, K
  std::vector<int64_t> rows = {1, 2, 4, 8, 16, 64, 128};
  CpuTuning tuning;
};

struct Case {
  std::string profile;
  Format format;
  const char *name;
  int64_t n, k, rows;
};

bool failed = false; ///< a case could not be measured

constexpr size_t kProbeBytes = size_t(256) << 20;
constexpr double kProbeSeconds = 0.03; ///< of each way to read

std::string kernelText(const Case &c) {
  const std::string rows = std::to_string(c.rows), n = std::to_string(c.n), k = std::to_string(c.k);
  const std::string weight = "!ninfer.weight<" + n + "x" + k + ", " + std::string(canonicalName(c.format)) + ", \"" +
                             std::string(canonicalName(layoutOf(c.format))) + "\">";
  const std::string r = c.rows == 1 ? "1" : "?"; // as in decode and prefill phases
  const std::string x = "tensor<" + r + "x" + k + "xf32>", y = "tensor<" + r + "x" + n + "xf32>";
  const int64_t tiles = segmentFirstTiles({c.n}, linearGranule({c.n}, c.rows)).back();
  return "ninfer.kernel @k(%x: " + x + ", %w: " + weight + ") attributes {family = \"linear_" + c.profile + "\", profile = \"" + c.profile +
         "\", rows = " + rows + (c.rows == 1 ? "" : ", dynamic_rows") + ", tiles_const = " + std::to_string(tiles) +
         ", tiles_per_row = 0} {\n  %y = ninfer.linear %x, %w policy<" + (c.profile == "a8" ? "AllowA8" : "A16Only") + "> : " + x + ", " + weight +
         " -> " + y + "\n  ninfer.yield %y : " + y + "\n}\n";
}

Result<cpu::KernelRun> prepare(const Case &c, const Settings &settings) {
  mlir::DialectRegistry registry;
  registry.insert<NinferDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kernelText(c), &context);
  if (!module)
    return makeError(ErrorKind::Failed, "bench", "the kernel does not parse");
  NINFER_ASSIGN_OR_RETURN(const CpuTarget target, resolveCpuTarget("native"));
  CpuCodegenOptions options;
  options.tuning["k"] = settings.tuning;
  NINFER_ASSIGN_OR_RETURN(const CpuObject object, compileKernels(*module, target, options));
  return cpu::KernelRun::load(*module->getOps<KernelOp>().begin(), object, settings.threads);
}

void measure(benchmark::State &state, const Case &c, const Settings &settings, const uint64_t *probe) {
  auto run = prepare(c, settings);
  if (!run.ok()) {
    failed = true;
    state.SkipWithError(run.error().message.c_str());
    return;
  }
  double read = 0;
  for (const bench::Way &way : bench::kWays)
    read = std::max(read, bench::gigabytesPerSecond(probe, kProbeBytes / 8, settings.threads, way, kProbeSeconds));
  run->call(0);
  // Times of its own: the rates of google-benchmark are printed as "/s" whatever they count.
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state)
    run->call(0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / double(state.iterations());
  auto geometry = encodedGeometry(c.format, layoutOf(c.format), std::vector<uint64_t>{uint64_t(c.n), uint64_t(c.k)});
  uint64_t bytes = 0;
  for (const PlaneInfo &plane : geometry->planes)
    bytes += plane.bytes;
  const double rate = double(bytes) * 1e-9 / seconds;
  state.counters["GB/s"] = rate;
  state.counters["probe"] = read;
  state.counters["share"] = rate / read;
  state.counters["GOP/s"] = 2e-9 * double(c.n) * double(c.k) * double(c.rows) / seconds;
}

bool parseList(std::string_view text, char separator, std::vector<int64_t> &values) {
  values.clear();
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(separator));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1)
      return false;
    values.push_back(value);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return !values.empty();
}

/// One option that google-benchmark left over; false if it is none of ours.
bool parseOption(std::string_view text, Settings &settings) {
  std::vector<int64_t> values;
  auto value = [&](std::string_view name) -> std::optional<std::string_view> {
    if (text.substr(0, name.size()) != name)
      return std::nullopt;
    return text.substr(name.size());
  };
  if (auto v = value("--threads=")) {
    if (!parseList(*v, ',', values) || values.size() != 1 || values[0] > 256)
      return false;
    settings.threads = unsigned(values[0]);
    return true;
  }
  if (auto v = value("--rows="))
    return parseList(*v, ',', settings.rows);
  if (auto v = value("--shapes=")) {
    settings.shapes.clear();
    for (std::string_view rest = *v; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(','));
      if (!parseList(word, 'x', values) || values.size() != 2)
        return false;
      settings.shapes.emplace_back(values[0], values[1]);
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    }
    return !settings.shapes.empty();
  }
  if (auto v = value("--tuning=")) {
    // The line of a tuning file, with what is not given left as it is.
    std::string line = tuningText({});
    const size_t eq = v->find('='), at = eq == v->npos ? line.npos : line.find(v->substr(0, eq + 1));
    if (at == line.npos)
      return false;
    line.replace(at, std::min(line.find(' ', at), line.size()) - at, *v);
    auto table = TuningTable::parse(std::string(kTuningMagic) + "\nt k " + std::string(32, '0') + " " + line + "\n", "--tuning");
    if (!table.ok())
      return false;
    settings.tuning = table->find("t", std::string(32, '0'))->tuning;
    return true;
  }
  return false;
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  Settings settings;
  for (int i = 1; i < argc; ++i)
    if (!parseOption(argv[i], settings)) {
      std::fprintf(stderr, "ninfer-kernel-bench: '%s': expected --threads=N, --rows=LIST, --shapes=NxK,..., --tuning=CHOICE or an option of "
                           "google-benchmark\n", argv[i]);
      return 2;
    }
  const uint64_t *probe = bench::probeMemory(kProbeBytes);
  if (!probe) {
    std::fprintf(stderr, "ninfer-kernel-bench: no memory for the read probe\n");
    return 6;
  }
  constexpr std::pair<Format, const char *> formats[] = {
      {Format::Q4G64_F16S, "q4"}, {Format::Q5G64_F16S, "q5"}, {Format::Q6G64_F16S, "q6"},   {Format::W8G32_F16S, "w8"},
      {Format::BF16, "bf16"},     {Format::FP32, "fp32"},     {Format::NVFP4, "nvfp4"}, {Format::FP8_E4M3FN_ROW_BF16S, "fp8row"}};
  for (const char *profile : {"a16", "a8", "f32"})
    for (const auto &[format, name] : formats)
      if (std::string_view(profile) == "f32" || formatInfo(format).category == FormatCategory::GroupedInteger)
        for (const auto &[n, k] : settings.shapes)
          for (int64_t rows : settings.rows) {
            const Case c{profile, format, name, n, k, rows};
            const std::string title = std::string(name) + "_" + profile + "/" + std::to_string(n) + "x" + std::to_string(k) + "/rows:" + std::to_string(rows);
            benchmark::RegisterBenchmark(title.c_str(), [c, settings, probe](benchmark::State &state) { measure(state, c, settings, probe); })
                ->UseRealTime()
                ->Unit(benchmark::kMicrosecond);
          }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return failed ? 1 : 0;
}
