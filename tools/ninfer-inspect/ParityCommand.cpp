// ninfer-inspect parity: an artifact against the checkpoint it was made from.
#include "inspect/Parity.h"
#include "tools/ninfer-inspect/Command.h"

#include <atomic>
#include <csignal>

namespace ninfer::inspect_tool {

namespace {

const char kHelp[] = R"(usage: ninfer-inspect parity SOURCE MODEL.ninfer [-o table|json]

Holds an artifact to its source (model folder, .safetensors, index, .gguf) in three levels.
Dense decoders (Llama, Qwen3) only.
  0  parameters, shapes, config, resources; words that must be kept
  1  every stored word unpacked by a second reader and packed again
  2  values against the source: error per tensor, and words that differ from those the recorded
     encoder prescribes, which are faults
  -o, --output FORMAT   table (default) or json
  -t, --threads N       (default: one per hardware thread, at most 16)
      --max-faults N    faults listed per subject and level, 1..1000 (default 4); all are counted
      --progress MODE   auto, on, off, json
      --gptq-zero-points v1|v2, --tensor-scale replicate   as given to ninfer-convert
exit codes: 0 ok, 1 cannot write, 2 usage, 3 bad file, 5 unsupported, 6 out of memory,
            8 faults found, 130 interrupted
)";

std::atomic<bool> interrupted = false;

void onInterrupt(int signal) {
  interrupted = true;
  std::signal(signal, SIG_DFL);
}

Result<ParityReport> check(const Arguments &arguments) {
  ParityOptions options;
  options.source = arguments.positionals()[0];
  options.artifact = arguments.positionals()[1];
  NINFER_ASSIGN_OR_RETURN(options.threads, arguments.threads());
  NINFER_ASSIGN_OR_RETURN(options.progress, arguments.progress());
  NINFER_ASSIGN_OR_RETURN(options.maxFaults, arguments.number("--max-faults", 4, 1, 1000));
  NINFER_ASSIGN_OR_RETURN(const std::string zeros,
                          arguments.choice("--gptq-zero-points", {"labelled", "v1", "v2"}));
  options.imports.gptqZeros = zeros == "v1"   ? GptqZeros::MinusOne
                              : zeros == "v2" ? GptqZeros::Plain
                                              : GptqZeros::AsLabelled;
  NINFER_ASSIGN_OR_RETURN(const std::string scale,
                          arguments.choice("--tensor-scale", {"refuse", "replicate"}));
  options.imports.replicateTensorScale = scale == "replicate";
  options.cancelled = [] { return interrupted.load(); };
  std::signal(SIGINT, onInterrupt);
  std::signal(SIGTERM, onInterrupt);
  auto report = checkParity(options);
  if (report.ok() || report.error().code != "NB0101")
    return report;
  return noteFileKind(report.takeStatus(), options.artifact.string());
}

} // namespace

int runParity(std::span<char *const> args) {
  auto arguments = Arguments::parse("parity", args,
                                    {{"-o/--output", true},
                                     {"-t/--threads", true},
                                     {"--max-faults", true},
                                     {"--progress", true},
                                     {"--gptq-zero-points", true},
                                     {"--tensor-scale", true}},
                                    {"source", "artifact"});
  if (!arguments.ok())
    return fail(arguments.error());
  if (arguments->help())
    return print(kHelp);
  const auto output = arguments->choice("--output", {"table", "json"});
  if (!output.ok())
    return fail(output.error());
  const auto report = check(*arguments);
  if (!report.ok())
    return fail(report.error());
  if (const int code =
          print(*output == "json" ? parityJson(*report).dump(1) + "\n" : parityText(*report)))
    return code;
  const Status status = parityStatus(*report);
  return status.ok() ? 0 : fail(status.error());
}

} // namespace ninfer::inspect_tool
