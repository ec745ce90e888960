#include "tools/ninfer-inspect/Command.h"

#include "support/FileKind.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <thread>

namespace ninfer::inspect_tool {

int fail(const Error &error) {
  std::fputs(error.render().c_str(), stderr);
  return static_cast<int>(error.kind);
}

int print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return fail(makeError(ErrorKind::Failed, "NB0906",
                          std::string("standard output: ") + std::strerror(errno)));
  return 0;
}

Status noteFileKind(Status status, const std::string &path) {
  const std::string kind = describeFileKind(path);
  if (status.error().code == "NB0101" && kind != "a .ninfer artifact") {
    status.note(path + " is " + kind);
    if (kind == "a plan of ninfer-build")
      status.help("ninfer-inspect " + path + ", without a command, says what a plan holds");
  } else if (status.error().code == "NB0901" && kind == "a folder") {
    status.note(path + " is a folder");
  }
  return status;
}

Result<Artifact> openArtifact(const std::string &path) {
  auto artifact = Artifact::open(path);
  if (artifact.ok())
    return artifact;
  return noteFileKind(artifact.takeStatus(), path);
}

Error usageError(const std::string &command, const std::string &text) {
  Error error = makeError(ErrorKind::Usage, "NB0900", text);
  error.help.push_back("ninfer-inspect " + (command.empty() ? "" : command + " ") +
                       "--help lists the options");
  return error;
}

Result<Arguments> Arguments::parse(const std::string &command, std::span<char *const> args,
                                   std::initializer_list<OptionSpec> options,
                                   std::initializer_list<const char *> positionals) {
  Arguments out;
  out.command_ = command;
  for (const char *arg : args)
    if (std::string_view(arg) == "-h" || std::string_view(arg) == "--help") {
      out.help_ = true;
      return out;
    }
  bool optionsEnded = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string arg = args[i];
    if (optionsEnded || arg.size() < 2 || arg[0] != '-') {
      out.positionals_.push_back(arg);
      continue;
    }
    if (arg == "--") {
      optionsEnded = true;
      continue;
    }
    const size_t equals = arg.rfind("--", 0) == 0 ? arg.find('=') : std::string::npos;
    const std::string name = arg.substr(0, equals);
    std::optional<OptionSpec> spec;
    std::string longName;
    for (const OptionSpec &option : options) {
      const std::string_view text = option.name;
      const size_t slash = text.find('/');
      longName = slash == std::string_view::npos ? text : text.substr(slash + 1);
      if (name == longName || (slash != std::string_view::npos && name == text.substr(0, slash))) {
        spec = option;
        break;
      }
    }
    if (!spec)
      return usageError(command, "unknown option " + name);
    if (!spec->takesValue && equals != std::string::npos)
      return usageError(command, "option " + name + " takes no value");
    std::string value;
    if (spec->takesValue) {
      if (equals == std::string::npos && i + 1 == args.size())
        return usageError(command, "option " + name + " needs a value");
      value = equals == std::string::npos ? args[++i] : arg.substr(equals + 1);
    }
    if (!out.values_.emplace(longName, value).second)
      return usageError(command, "option " + name + " is given twice");
  }
  if (out.positionals_.size() < positionals.size())
    return usageError(command, std::string("no ") +
                                   std::data(positionals)[out.positionals_.size()] + " given");
  if (out.positionals_.size() > positionals.size())
    return usageError(command,
                      "unexpected argument '" + out.positionals_[positionals.size()] + "'");
  return out;
}

std::string Arguments::text(const std::string &longName, const std::string &fallback) const {
  const auto found = values_.find(longName);
  return found == values_.end() ? fallback : found->second;
}

Result<std::string> Arguments::choice(const std::string &longName,
                                      std::initializer_list<const char *> choices) const {
  const std::string value = text(longName, *choices.begin());
  std::string list;
  for (const char *name : choices) {
    if (value == name)
      return value;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return usageError(command_,
                    "option " + longName + ": expected one of " + list + ", got '" + value + "'");
}

Result<uint64_t> Arguments::number(const std::string &longName, uint64_t fallback, uint64_t min,
                                   uint64_t max) const {
  if (!has(longName))
    return fallback;
  const std::string value = text(longName, "");
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < min || number > max)
    return usageError(command_, "option " + longName + ": expected an integer from " +
                                    std::to_string(min) + " to " + std::to_string(max) + ", got '" +
                                    value + "'");
  return number;
}

Result<unsigned> Arguments::threads() const {
  const uint64_t hardware = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
  NINFER_ASSIGN_OR_RETURN(const uint64_t count, number("--threads", hardware, 1, 256));
  return static_cast<unsigned>(count);
}

Result<ProgressMode> Arguments::progress() const {
  NINFER_ASSIGN_OR_RETURN(const std::string name,
                          choice("--progress", {"auto", "on", "off", "json"}));
  return *progressModeFromName(name);
}

int runPage(const std::string &command, std::span<char *const> args,
            std::initializer_list<OptionSpec> options,
            std::initializer_list<const char *> positionals, const char *help,
            Result<std::string> (*page)(const Arguments &)) {
  auto arguments = Arguments::parse(command, args, options, positionals);
  if (!arguments.ok())
    return fail(arguments.error());
  if (arguments->help())
    return print(help);
  const auto text = page(*arguments);
  return text.ok() ? print(*text) : fail(text.error());
}

} // namespace ninfer::inspect_tool
