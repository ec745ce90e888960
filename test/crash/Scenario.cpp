#include "test/crash/Scenario.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <stdexcept>
#include <sys/syscall.h>

namespace ninfer::test {

namespace {

/// NINFER_CRASH_TOOLS: a folder with other builds of the tools.
std::string tool(const std::string &name) {
  const char *folder = std::getenv("NINFER_CRASH_TOOLS");
  return std::string(folder ? folder : NINFER_BIN_DIR) + "/" + name;
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string> &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Opening an unnamed file, refused as by file systems that have none.
bool opensUnnamed(const SystemCall &call) {
  return call.entry && call.number == SYS_openat && (call.arguments[2] & O_TMPFILE) == O_TMPFILE;
}

} // namespace

Snapshot snapshotOf(const fs::path &folder) {
  Snapshot out;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    out[entry.path().filename().string()] = readBytes(entry.path());
  return out;
}

std::string describe(const Snapshot &snapshot) {
  std::string out;
  for (const auto &[name, bytes] : snapshot)
    out += (out.empty() ? "" : ", ") + name + " (" + std::to_string(bytes.size()) + " bytes)";
  return out.empty() ? "nothing" : out;
}

Bench::Bench() : folder_(root_ / "written-here"), source_(root_ / "source") {
  fs::create_directory(folder_);
  fs::create_directory(source_);
  // Not the user's: the calls of a run must not depend on what other builds left there.
  ::setenv("XDG_CACHE_HOME", (root_ / "cache").c_str(), 1);
  writeTinyFolder(source_, tinyTensors(), "F32");
}

void Bench::prepare(const Scenario &scenario) const {
  for (const fs::directory_entry &entry : fs::directory_iterator(folder_))
    fs::remove_all(entry.path());
  for (const auto &[name, bytes] : scenario.before)
    writeBytes(folder_ / name, bytes);
}

Ended Bench::run(const Scenario &scenario, const TraceHook &hook) const {
  return trace(scenario.command, out(), err(), [&](const SystemCall &call, size_t stop) {
    const Decision decision = hook(call, stop);
    if (decision.act == Decision::Act::Go && scenario.named && opensUnnamed(call))
      return Decision{Decision::Act::Fail, EOPNOTSUPP};
    return decision;
  });
}

Ended Bench::plain(const std::vector<std::string> &command) const {
  return runAndKillAfter(command, out(), err(), 0);
}

Bench::State Bench::state(const Scenario &scenario) const {
  const Snapshot now = snapshotOf(folder_);
  // The target decides which of the two it is; then every other file of that state must be there.
  const auto holds = [&](const Snapshot &wanted) {
    const auto entry = now.find(scenario.target), expected = wanted.find(scenario.target);
    if (expected == wanted.end())
      return entry == now.end();
    for (const auto &[name, bytes] : wanted)
      if (const auto found = now.find(name); found == now.end() || found->second != bytes)
        return false;
    return true;
  };
  return holds(scenario.after)    ? State::After
         : holds(scenario.before) ? State::Before
                                  : State::Torn;
}

Scenario Bench::make(const std::string &name, const std::string &target,
                     std::vector<std::string> command, std::vector<std::string> first,
                     std::vector<std::string> next, bool named) {
  Scenario scenario{name, target, std::move(command), std::move(next), {}, {}, named};
  const auto must = [&](const std::vector<std::string> &words) {
    if (plain(words).code != 0)
      throw std::runtime_error(name + ": " + message());
  };
  prepare(scenario);
  if (!first.empty()) {
    must(first);
    scenario.before = snapshotOf(folder_);
  }
  must(scenario.command);
  scenario.after = snapshotOf(folder_);
  return scenario;
}

std::vector<Scenario> Bench::scenarios(std::vector<std::string> &missing) {
  std::vector<Scenario> out;
  const std::string target = (folder_ / "m.ninfer").string();
  const std::vector<std::string> convert = {
      tool("ninfer-convert"), source_.string(), "-o", target, "-t", "1"};
  // The tiny model has some 90 kB of payload: parts of 48 KiB make an entry and two or three parts.
  const std::vector<std::string> parts = {"--max-file-bytes", "49152"}, force = {"--force"};
  const std::vector<std::string> w8 = {"--recipe", "w8"}, bf16 = {"--recipe", "bf16"};
  for (bool named : {false, true}) {
    const std::string how = named ? ", named temporary" : "";
    out.push_back(
        make("convert, fresh" + how, "m.ninfer", convert + w8, {}, convert + w8 + force, named));
    out.push_back(make("convert, replace" + how, "m.ninfer", convert + w8 + force, convert + bf16,
                       convert + w8 + force, named));
    out.push_back(make("convert, parts, fresh" + how, "m.ninfer", convert + bf16 + parts, {},
                       convert + bf16 + parts + force, named));
    out.push_back(make("convert, parts, replace" + how, "m.ninfer", convert + w8 + parts + force,
                       convert + bf16 + parts, convert + w8 + parts + force, named));
  }
  const std::vector<std::string> upgrade = {
      tool("ninfer-convert"), "upgrade",
      std::string(NINFER_SOURCE_DIR) + "/test/conformance/fixtures/v3_single.ninfer", target};
  out.push_back(make("upgrade, replace", "m.ninfer", upgrade + force, convert + bf16 + parts,
                     upgrade + force, false));
  // Outside the folder that is compared: an artifact as input of the other tools.
  const fs::path input = root_ / "input.ninfer";
  const std::vector<std::string> makeInput = {
      tool("ninfer-convert"), source_.string(), "-o", input.string(), "-t", "1"};
  if (plain(makeInput).code != 0)
    throw std::runtime_error(message());
  if (fs::exists(tool("ninfer-inspect"))) {
    const fs::path held = folder_ / "held.ninfer";
    const std::vector<std::string> copy = {"/bin/cp", input.string(), held.string()};
    const std::vector<std::string> hash = {
        tool("ninfer-inspect"), "verify", held.string(), "--hash", "write", "-t", "1"};
    Scenario manifest = {"manifest, fresh", "held.ninfer.manifest.json", hash, hash, {}, {}, false};
    manifest.before["held.ninfer"] = readBytes(input);
    prepare(manifest);
    if (plain(hash).code != 0)
      throw std::runtime_error("manifest: " + message());
    manifest.after = snapshotOf(folder_);
    out.push_back(manifest);
    manifest.name = "manifest, replace, named temporary";
    manifest.before["held.ninfer.manifest.json"] = "{\"an\":\"older manifest\"}";
    manifest.named = true;
    out.push_back(manifest);
  } else {
    missing.push_back("ninfer-inspect");
  }
  if (fs::exists(tool("ninfer-build"))) {
    const std::string plan = (folder_ / "plan.bin").string();
    const std::vector<std::string> build = {tool("ninfer-build"), input.string(), "-o", plan,
                                            "--target",           "reference",    "-t", "1"};
    out.push_back(make("plan, fresh", "plan.bin", build, {}, build, false));
    out.push_back(make("plan, replace", "plan.bin", build,
                       build + std::vector<std::string>{"--prefill-chunk", "32"}, build, false));
  } else {
    missing.push_back("ninfer-build");
  }
  return out;
}

} // namespace ninfer::test
