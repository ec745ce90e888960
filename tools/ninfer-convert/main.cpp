// ninfer-convert: a source checkpoint to a .ninfer artifact. Thin main over convert/Converter.h:
// options in, report on stdout, everything else on stderr, exit code by the kind of the error.
#include "convert/Converter.h"
#include "convert/Report.h"
#include "support/StandardStreams.h"
#include "tools/ninfer-convert/NotEmpty.h"
#include "tools/ninfer-convert/UpgradeCommand.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>

namespace {

using namespace ninfer;

std::atomic<bool> interrupted = false;

/// The first Ctrl-C asks the conversion to stop and clean up; the second ends the process, which
/// leaves no file under the output name either.
void onInterrupt(int signal) {
  interrupted = true;
  std::signal(signal, SIG_DFL);
}

int fail(const Error &error) {
  std::fputs(error.render().c_str(), stderr);
  return static_cast<int>(error.kind);
}

Error usage(std::string text) {
  Error error = makeError(ErrorKind::Usage, "NB0900", std::move(text));
  error.help.push_back("ninfer-convert --help lists the options");
  return error;
}

std::string join(const std::vector<std::string> &names) {
  std::string out;
  for (const std::string &name : names)
    out += (out.empty() ? "" : " ") + name;
  return out;
}

struct Arguments {
  std::string source, output, recipe, policy = "A16Only", name, report = "summary",
                                      progress = "auto", gptqZeros = "labelled",
                                      tensorScale = "refuse";
  bool requantize = false, noTokenizer = false, vision = false, dryRun = false, force = false,
       sourceDigest = false;
  unsigned threads = 0;
  uint64_t maxFileBytes = 0;
};

void declare(CLI::App &app, Arguments &a) {
  app.set_version_flag("--version", "ninfer-convert " NINFER_VERSION);
  app.add_option("source", a.source,
                 "model folder, .safetensors, model.safetensors.index.json, or .gguf")
      ->required();
  app.add_option("-o,--output", a.output, "the .ninfer file to write (optional with --dry-run)");
  app.add_option("-r,--recipe", a.recipe,
                 "formats of the matrices: " + join(Recipe::builtInNames()) +
                     ", or a TOML file (docs/convert.md) [w8; keep for a quantized checkpoint]");
  app.add_flag("--requantize", a.requantize,
               "allow quantized tensors to be decoded and encoded anew by the recipe");
  app.add_option("--gptq-zero-points", a.gptqZeros,
                 "zero points of a GPTQ file: as its format label says, stored minus one (v1), or "
                 "stored as they are (v2)")
      ->check(CLI::IsMember({"labelled", "v1", "v2"}))
      ->capture_default_str();
  app.add_option("--tensor-scale", a.tensorScale,
                 "one scale for a whole quantized matrix: refuse it, or write it once per row or "
                 "group")
      ->check(CLI::IsMember({"refuse", "replicate"}))
      ->capture_default_str();
  app.add_option("--activation-policy", a.policy, "widest permission for activations")
      ->check(CLI::IsMember({"A16Only", "AllowA8", "AllowA4"}))
      ->capture_default_str();
  app.add_option("--name", a.name, "public model name (default: the source's)")
      ->check(notEmpty());
  app.add_flag("--no-tokenizer", a.noTokenizer, "write no text resources");
  app.add_flag("--vision", a.vision, "take the vision tower and its preprocessor files along");
  app.add_flag("--source-digest", a.sourceDigest,
               "record the SHA-256 of every source file in the provenance");
  app.add_flag("--dry-run", a.dryRun, "check and report, write nothing");
  app.add_flag("-f,--force", a.force, "replace an existing output");
  app.add_option("--max-file-bytes", a.maxFileBytes,
                 "largest file in bytes; more goes into part files (default: one file)")
      ->check(CLI::Range(uint64_t(1), UINT64_MAX));
  app.add_option("--report", a.report, "what to print on stdout")
      ->check(CLI::IsMember({"summary", "table", "json", "none"}))
      ->capture_default_str();
  app.add_option("--progress", a.progress, "bar on stderr")
      ->check(CLI::IsMember({"auto", "on", "off", "json"}))
      ->capture_default_str();
  app.add_option("-t,--threads", a.threads,
                 "threads that encode (default: one per hardware thread, at most 16)")
      ->check(CLI::Range(1, 256));
}

Result<ConvertOptions> toOptions(const Arguments &a) {
  if (a.output.empty() && !a.dryRun)
    return usage("no output given (-o MODEL.ninfer, or --dry-run)");
  if (a.output == "-")
    return usage("-o -: an artifact cannot go to standard output (a file of that name is ./-)");
  if (a.requantize && a.recipe == "keep")
    return usage("--requantize and --recipe keep contradict each other: keep leaves packed weights "
                 "as they are (bf16 decodes them)");
  ConvertOptions options;
  options.source = a.source;
  options.output = a.output.empty() ? "model.ninfer" : a.output;
  if (!a.recipe.empty()) {
    NINFER_ASSIGN_OR_RETURN(options.recipe, Recipe::fromArgument(a.recipe));
  }
  options.imports.gptqZeros = a.gptqZeros == "v1"   ? GptqZeros::MinusOne
                              : a.gptqZeros == "v2" ? GptqZeros::Plain
                                                    : GptqZeros::AsLabelled;
  options.imports.replicateTensorScale = a.tensorScale == "replicate";
  options.requantize = a.requantize;
  options.policy = *activationPolicyFromName(a.policy);
  if (!a.name.empty())
    options.modelName = a.name;
  options.tokenizer = !a.noTokenizer;
  options.vision = a.vision;
  options.sourceDigest = a.sourceDigest;
  options.dryRun = a.dryRun;
  options.force = a.force;
  options.threads = a.threads;
  if (a.maxFileBytes)
    options.maxFileBytes = a.maxFileBytes;
  options.progress = *progressModeFromName(a.progress);
  options.cancelled = [] { return interrupted.load(); };
  return options;
}

} // namespace

int main(int argc, char **argv) {
  reserveStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN); // a file size limit is an error of the write, not the end
  if (argc > 1 && std::string_view(argv[1]) == "upgrade") {
    std::signal(SIGINT, onInterrupt);
    std::signal(SIGTERM, onInterrupt);
    return runUpgrade(argc - 1, argv + 1, [] { return interrupted.load(); });
  }
  CLI::App app("Converts a Hugging Face or GGUF checkpoint into a .ninfer artifact",
               "ninfer-convert");
  app.footer("ninfer-convert upgrade --help: an artifact to another framing or other file sizes\n"
             "exit codes: 0 ok, 1 failed, 2 usage, 3 bad file, 5 unsupported model or tensor, 6 "
             "out of memory, "
             "130 interrupted");
  Arguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) // --help, --version
      return app.exit(error);
    std::string message = error.what();
    std::replace(message.begin(), message.end(), '\n', ' ');
    return fail(usage(std::move(message)));
  }
  Result<ConvertOptions> options = toOptions(arguments);
  if (!options.ok())
    return fail(options.error());
  std::signal(SIGINT, onInterrupt);
  std::signal(SIGTERM, onInterrupt);

  Result<ConvertReport> report = convertCheckpoint(*options);
  if (!report.ok())
    return fail(report.error());
  if (arguments.report == "json")
    std::cout << reportJson(*report).dump(1) << "\n";
  else if (arguments.report == "table")
    std::cout << reportTable(*report);
  else if (arguments.report == "summary")
    std::cout << reportSummary(*report);
  std::cout.flush();
  if (!std::cout)
    return fail(makeError(ErrorKind::Failed, "NB0906", "standard output: cannot write the report"));
  return 0;
}
