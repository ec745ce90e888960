#include "tools/ninfer-build/Options.h"

#include <charconv>

namespace ninfer {

const char kUsage[] = R"(usage: ninfer-build MODEL.ninfer -o PLAN.bin [options]

Compiles the weights' directory into a plan for ninfer-exec. The weights themselves are read for --prepack only.

  -o, --output FILE          the plan; an existing plan is replaced when the new one is complete, another file never
  --target T                 cpu:native (default), cpu:x86-64-v3, cpu:x86-64-v4, cpu:znver4, cpu:aarch64, reference,
                             cuda:sm_89 and other architectures, cuda:rtx4090 and other cards;
                             repeat it for a plan with several targets
  --max-context N            positions of one context (default: the model's, at most 4096)
  --prefill-chunk N          rows of the longest prefill call (default 64)
  --kv-dtype T               bf16 (default), f32, int8
  --spec off|mtp             mtp: speculative decoding with the model's draft layer (default off)
  --draft-tokens N           with --spec mtp: most tokens proposed per step, 1 to 15 (default 3)
  --vision                   the vision tower too, so that ninfer-exec embed turns images into embeddings
  --vision-max-patches N     patches of the largest image (default 4096: 1024 x 1024 pixels in patches of 16)
  --activation-policy P      A16Only, AllowA8, AllowA4: for uses that state none, a bound for the others
  --trace-layers             the residual stream after every layer is kept for ninfer-exec logits --trace
  --prepack FILE             write the weights of the CUDA targets as their kernels read them, for ninfer-exec --prepacked:
                             loading is then a plain copy to the device
  --report text|json|none    what was built, on standard output (default text)
  --explain                  every operation, its kernel, why, and the rejected candidates
  --dry-run                  build and verify, write nothing
  --emit-mlir STAGE          print the IR after: graph, bind-parameters, split-phases, specialize-shapes, fuse,
                             admit-kernels, outline-kernels, plan-memory (without -o nothing else is done)
  --dump-kernels DIR         keep the code of every kernel (.mlir, .ll, .opt.ll)
  --cache DIR|off            compiled kernels and measured choices by content hash
                             (default: $XDG_CACHE_HOME/ninfer or ~/.cache/ninfer, at most 512 MB)
  --tune off|cache|SECONDS   choices of CPU kernels: as always (default), measured by earlier builds (--cache), or
                             timed on this machine for so long in all; written to PLAN.bin.tuning
  --locked, --locked=FILE    take every choice from PLAN.bin.tuning, or from FILE; one that is not there is an error
  -t, --threads N            kernels compiled at the same time (default: CPUs, at most 8)
  --progress auto|on|off|json   on standard error (default auto)
  -h, --help   --version

exit codes: 0 ok, 1 failed, 2 usage, 3 bad file, 4 a target above this machine (--tune, cpu:native), 5 unsupported model or
operation, 6 out of memory, 7 not in the tuning file (--locked), 130 interrupted
)";

namespace {

Error usage(std::string text) {
  Error error = makeError(ErrorKind::Usage, "NB0900", std::move(text));
  error.help.push_back("ninfer-build --help lists the options");
  return error;
}

/// Walks the arguments; understands "--name value", "--name=value" and "-n value".
class Parser {
public:
  Parser(int argc, const char *const *argv) : argc_(argc), argv_(argv) {}

  Result<CommandLine> run() {
    while (++at_ < argc_) {
      NINFER_RETURN_IF_ERROR(argument(argv_[at_]));
      if (line_.help || line_.version)
        return std::move(line_);
    }
    BuildOptions &build = line_.build;
    if (!targets_.empty())
      build.targets = targets_;
    if (build.artifact.empty())
      return usage("no artifact given");
    if (build.output == "-")
      return usage("-o -: a plan is a file that is mapped, it cannot go to standard output "
                   "(a file of that name is ./-)");
    if (build.prepack == "-")
      return usage("--prepack -: packed weights are a file that is mapped, they cannot go to standard output (a file of that name is ./-)");
    if (line_.dryRun && !build.output.empty())
      return usage("--dry-run writes nothing, so it cannot go with --output");
    if (build.output.empty() && !line_.dryRun && build.emitStage.empty())
      return usage("no output given (-o PLAN.bin, or --dry-run)");
    if (build.output.empty() && !build.prepack.empty())
      return usage("--prepack goes with a plan that is written (-o PLAN.bin)");
    if (spec_ == "mtp")
      build.draftTokens = draftTokens_.value_or(3);
    else if (draftTokens_)
      return usage("--draft-tokens goes with --spec mtp");
    if (!build.emitStage.empty() && line_.report == CommandLine::Report::Json)
      return usage("--emit-mlir and --report json both write to standard output");
    return std::move(line_);
  }

private:
  Status argument(std::string text) {
    hasInline_ = false;
    if (text.rfind("--", 0) == 0)
      if (const size_t eq = text.find('='); eq != std::string::npos) {
        inline_ = text.substr(eq + 1);
        hasInline_ = true;
        text.resize(eq);
      }
    name_ = text;
    Status status = option();
    if (status.ok() && hasInline_)
      return usage("option " + name_ + " takes no value");
    return status;
  }

  Status option() {
    BuildOptions &build = line_.build;
    if (name_ == "-h" || name_ == "--help")
      return flag(line_.help);
    if (name_ == "--version")
      return flag(line_.version);
    if (name_ == "--explain")
      return flag(line_.explain);
    if (name_ == "--trace-layers")
      return flag(line_.build.traceLayers);
    if (name_ == "--dry-run")
      return flag(line_.dryRun);
    if (name_ == "-o" || name_ == "--output")
      return path(build.output);
    if (name_ == "--prepack")
      return path(build.prepack);
    if (name_ == "--target")
      return append(targets_);
    if (name_ == "--max-context")
      return integer(build.maxContext);
    if (name_ == "--prefill-chunk")
      return integer(build.prefillChunk);
    if (name_ == "--vision")
      return flag(build.vision);
    if (name_ == "--vision-max-patches")
      return integer(build.visionMaxPatches);
    if (name_ == "--kv-dtype")
      return choice(build.kvDtype, {"bf16", "f32", "int8"});
    if (name_ == "--spec")
      return choice(spec_, {"off", "mtp"});
    if (name_ == "--draft-tokens")
      return integer(draftTokens_);
    if (name_ == "--emit-mlir")
      return string(build.emitStage);
    if (name_ == "--dump-kernels")
      return string(build.dumpDir);
    if (name_ == "--cache")
      return cache();
    if (name_ == "--tune")
      return tune();
    if (name_ == "--locked")
      return locked();
    if (name_ == "-t" || name_ == "--threads")
      return threads(build.threads);
    if (name_ == "--activation-policy")
      return policy();
    if (name_ == "--report")
      return report();
    if (name_ == "--progress")
      return progress();
    if (name_.size() > 1 && name_[0] == '-')
      return usage("unknown option " + name_);
    if (!build.artifact.empty())
      return usage("two artifacts given: '" + build.artifact.string() + "' and '" + name_ + "'");
    build.artifact = name_;
    return {};
  }

  Status flag(bool &value) {
    value = true;
    return {};
  }

  Status string(std::string &value) {
    if (hasInline_) {
      value = inline_;
      hasInline_ = false;
    } else if (at_ + 1 < argc_) {
      value = argv_[++at_];
    } else {
      return usage("option " + name_ + " needs a value");
    }
    if (value.empty())
      return usage("option " + name_ + " needs a value that is not empty");
    return {};
  }

  Status path(std::filesystem::path &value) {
    std::string text;
    NINFER_RETURN_IF_ERROR(string(text));
    value = text;
    return {};
  }

  Status append(std::vector<std::string> &values) {
    values.emplace_back();
    return string(values.back());
  }

  Status integer(std::optional<int64_t> &value) {
    std::string text;
    NINFER_RETURN_IF_ERROR(string(text));
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 1 ||
        number > INT32_MAX)
      return usage("option " + name_ + ": expected an integer from 1 to 2147483647, got '" + text +
                   "'");
    value = number;
    return {};
  }

  Status threads(unsigned &value) {
    std::optional<int64_t> number;
    NINFER_RETURN_IF_ERROR(integer(number));
    if (*number > 1024)
      return usage("option " + name_ + ": expected at most 1024, got " + std::to_string(*number));
    value = static_cast<unsigned>(*number);
    return {};
  }

  Status choice(std::string &value, std::initializer_list<const char *> known) {
    NINFER_RETURN_IF_ERROR(string(value));
    std::string list;
    for (const char *name : known) {
      if (value == name)
        return {};
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    return usage("option " + name_ + ": expected one of " + list + ", got '" + value + "'");
  }

  Status policy() {
    std::string text;
    NINFER_RETURN_IF_ERROR(choice(text, {"A16Only", "AllowA8", "AllowA4"}));
    line_.build.activationPolicy = activationPolicyFromName(text);
    return {};
  }

  Status cache() {
    line_.defaultCache = false;
    NINFER_RETURN_IF_ERROR(string(line_.build.cache.directory));
    if (line_.build.cache.directory == "off")
      line_.build.cache.directory.clear();
    return {};
  }

  /// off, cache, or seconds.
  Status tune() {
    using Tune = BuildOptions::Tune;
    BuildOptions &build = line_.build;
    std::string text;
    NINFER_RETURN_IF_ERROR(string(text));
    double seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    build.tune = text == "off" ? Tune::Off : text == "cache" ? Tune::Cache : Tune::Measure;
    if (build.tune != Tune::Measure)
      return {};
    constexpr double kMost = 86400;
    if (error != std::errc() || end != text.data() + text.size() || !(seconds > 0 && seconds <= kMost))
      return usage("option --tune: expected off, cache or seconds up to 86400, got '" + text + "'");
    build.tuneSeconds = seconds;
    return {};
  }

  /// A value only as --locked=FILE: the word behind may be the artifact.
  Status locked() {
    line_.build.locked = true;
    if (!hasInline_)
      return {};
    return path(line_.build.lockFile);
  }

  Status report() {
    std::string text;
    NINFER_RETURN_IF_ERROR(choice(text, {"text", "json", "none"}));
    line_.report = text == "json"   ? CommandLine::Report::Json
                   : text == "none" ? CommandLine::Report::None
                                    : CommandLine::Report::Text;
    return {};
  }

  Status progress() {
    std::string text;
    NINFER_RETURN_IF_ERROR(choice(text, {"auto", "on", "off", "json"}));
    line_.build.progress = *progressModeFromName(text);
    return {};
  }

  int argc_;
  const char *const *argv_;
  int at_ = 0;
  CommandLine line_;
  std::vector<std::string> targets_;
  std::string spec_ = "off";
  std::optional<int64_t> draftTokens_;
  std::string name_, inline_;
  bool hasInline_ = false;
};

} // namespace

Result<CommandLine> parseCommandLine(int argc, const char *const *argv) {
  auto line = Parser(argc, argv).run();
  return line;
}

} // namespace ninfer
