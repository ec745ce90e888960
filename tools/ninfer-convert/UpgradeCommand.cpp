#include "tools/ninfer-convert/UpgradeCommand.h"

#include "convert/Upgrade.h"
#include "tools/ninfer-convert/NotEmpty.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>

namespace ninfer {

namespace {

int fail(const Error &error) {
  std::fputs(error.render().c_str(), stderr);
  return static_cast<int>(error.kind);
}

int usage(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  Error error = makeError(ErrorKind::Usage, "NB0900", std::move(text));
  error.help.push_back("ninfer-convert upgrade --help lists the options");
  return fail(error);
}

struct Arguments {
  std::string source, output, config, weightsId, name, report = "summary", progress = "auto";
  int framing = 3;
  uint64_t maxFileBytes = 0;
  bool force = false;
};

void declare(CLI::App &app, Arguments &a) {
  app.add_option("old", a.source, "the .ninfer artifact to read: framing 1, 2 or 3")->required();
  app.add_option("new", a.output, "the .ninfer file to write")->required();
  app.add_option("--to", a.framing, "framing of the new artifact")
      ->check(CLI::IsMember({2, 3}))
      ->capture_default_str();
  app.add_option("--max-file-bytes", a.maxFileBytes,
                 "largest file in bytes; more goes into part files (default: one file)")
      ->check(CLI::Range(uint64_t(1), UINT64_MAX));
  app.add_option("--config", a.config,
                 "the model's config.json, for an artifact of framing 1 or 2 whose model this "
                 "program does not know");
  app.add_option("--weights-id", a.weightsId,
                 "weights id, for framing 2 from framing 1 of a model this program does not know")
      ->check(notEmpty());
  app.add_option("--name", a.name, "public model name (default: the artifact's)")
      ->check(notEmpty());
  app.add_flag("-f,--force", a.force, "replace an existing output");
  app.add_option("--report", a.report, "what to print on stdout")
      ->check(CLI::IsMember({"summary", "json", "none"}))
      ->capture_default_str();
  app.add_option("--progress", a.progress, "bar on stderr")
      ->check(CLI::IsMember({"auto", "on", "off", "json"}))
      ->capture_default_str();
}

UpgradeOptions toOptions(const Arguments &a) {
  UpgradeOptions options;
  options.source = a.source;
  options.output = a.output;
  options.framing = a.framing;
  if (a.maxFileBytes)
    options.maxFileBytes = a.maxFileBytes;
  if (!a.config.empty())
    options.config = a.config;
  if (!a.weightsId.empty())
    options.weightsId = a.weightsId;
  if (!a.name.empty())
    options.modelName = a.name;
  options.force = a.force;
  options.progress = *progressModeFromName(a.progress);
  return options;
}

} // namespace

int runUpgrade(int argc, char **argv, const std::function<bool()> &cancelled) {
  CLI::App app("Rewrites a .ninfer artifact in another framing or in other file sizes; the bytes "
               "of every object stay",
               "ninfer-convert upgrade");
  app.footer("exit codes: 0 ok, 1 failed, 2 usage, 3 bad file, 5 unsupported, 6 out of memory, "
             "130 interrupted");
  Arguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return error.get_exit_code() == 0 ? app.exit(error) : usage(error.what());
  }
  UpgradeOptions options = toOptions(arguments);
  options.cancelled = cancelled;
  const Result<UpgradeReport> report = upgradeArtifact(options);
  if (!report.ok())
    return fail(report.error());
  if (arguments.report == "json")
    std::cout << upgradeJson(*report).dump(1) << "\n";
  else if (arguments.report == "summary")
    std::cout << upgradeSummary(*report);
  std::cout.flush();
  if (!std::cout)
    return fail(makeError(ErrorKind::Failed, "NB0906", "standard output: cannot write the report"));
  return 0;
}

} // namespace ninfer
