// gpu-check: does this machine's GPU compute what the kernels were proven to compute, and how fast. One JSON file and one
// table; docs/cuda.md, section "On a GPU", says what is checked.
#include "test/gpu/Section.h"

#include "support/File.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ninfer;
using namespace ninfer::gpucheck;

namespace {

constexpr int kNoGpu = 77, kIncomplete = 76;

struct Part {
  const char *name, *what;
  void (*check)(Run &, Section &);
  int seconds; ///< at most
};
constexpr Part kParts[] = {{"device", "the device and its copy bandwidth", checkDevice, 30},
                           {"wrappers", "every instruction wrapper beside the emulator", checkWrappers, 60},
                           {"operators", "every kernel key against its oracle", checkOperators, 200},
                           {"demo", "a small plan end to end", checkDemo, 60},
                           {"models", "kernels and calls of large shapes", measureModels, 150}};

struct Options {
  std::filesystem::path pack, out = "gpu-check.json";
  std::string only, section; ///< section: this process is the child for it
  int budget = 420;
};

int usage() {
  std::cerr << "usage: gpu-check [--pack FOLDER] [--out FILE.json] [--budget SECONDS] [--only SECTION,...]\n"
               "sections:";
  for (const Part &part : kParts)
    std::cerr << " " << part.name;
  std::cerr << "\nexit code: 0 all passed, 1 a failure, 76 nothing failed but something was not run, 77 no GPU: nothing was run\n";
  return 2;
}

bool parse(int argc, char **argv, Options &o) {
  o.pack = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc)
      return false;
    const std::string option = argv[i], value = argv[i + 1];
    if (option == "--pack")
      o.pack = value;
    else if (option == "--out")
      o.out = value;
    else if (option == "--only")
      o.only = value;
    else if (option == "--section")
      o.section = value;
    else if (option == "--budget" && std::atoi(value.c_str()) > 0)
      o.budget = std::atoi(value.c_str());
    else
      return false;
  }
  return true;
}

const Part *partOf(const std::string &name) {
  for (const Part &part : kParts)
    if (name == part.name)
      return &part;
  return nullptr;
}

bool chosen(const Options &o, const std::string &name) {
  return o.only.empty() || ("," + o.only + ",").find("," + name + ",") != std::string::npos;
}

/// The child: one section, its JSON to `out`.
int child(const Options &o) {
  Section section;
  section.name = o.section;
  Run run;
  run.deadline = Run::Clock::now() + std::chrono::seconds(o.budget);
  Result<Pack> pack = Pack::open(o.pack);
  if (!pack.ok()) {
    section.fail(pack.error());
  } else {
    run.pack = pack.take();
    Result<std::unique_ptr<Gpu>> gpu = Gpu::open(run.pack);
    if (!gpu.ok()) {
      const bool none = gpu.error().message.rfind("no NVIDIA driver", 0) == 0 || gpu.error().message == "no CUDA device";
      none ? section.notRun(gpu.error().message) : section.fail(gpu.error());
    } else {
      run.gpu = gpu.take();
      partOf(o.section)->check(run, section);
    }
  }
  std::ofstream(o.out) << section.toJson().dump();
  return 0;
}

/// Runs a section in a process of its own, at most `seconds` and a little.
Section runPart(const Options &o, const Part &part, int seconds) {
  Section section;
  section.name = part.name;
  const std::string out = o.out.string() + "." + part.name + "." + std::to_string(getpid());
  const auto start = Run::Clock::now();
  const pid_t pid = fork();
  if (pid == 0) {
    const std::string budget = std::to_string(seconds);
    execl("/proc/self/exe", "gpu-check", "--pack", o.pack.c_str(), "--out", out.c_str(), "--section", part.name, "--budget",
          budget.c_str(), nullptr);
    _exit(127);
  }
  constexpr int kGrace = 20;
  int status = 0;
  bool stopped = false;
  while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
    if (!stopped && Run::Clock::now() - start > std::chrono::seconds(seconds + kGrace)) {
      kill(pid, SIGKILL);
      stopped = true;
    }
    usleep(20000);
  }
  const Result<std::string> text = readFile(out);
  unlink(out.c_str());
  const Result<Json> json = text.ok() && !text->empty() ? parseStrictJson(*text, part.name) : Result<Json>(Json());
  if (stopped)
    section.fail("stopped after " + std::to_string(seconds + kGrace) + " s: a kernel does not end, or the machine is very slow");
  else if (WIFSIGNALED(status))
    section.fail("ended by signal " + std::to_string(WTERMSIG(status)));
  else if (!json.ok() || json->is_null())
    section.fail("gave no result (exit code " + std::to_string(WEXITSTATUS(status)) + ")");
  else
    section = Section::fromJson(*json);
  section.seconds = std::chrono::duration<double>(Run::Clock::now() - start).count();
  return section;
}

void printTable(const std::vector<Section> &sections) {
  for (const Section &s : sections) {
    std::printf("%-10s %-8s %6.1f s  %s\n", s.name.c_str(), outcomeName(s.outcome), s.seconds, s.reason.c_str());
    const Json &d = s.details;
    if (s.name == "device" && d.contains("name"))
      std::printf("             %s, sm_%u, driver %s, copy %.0f GB/s\n", d["name"].get<std::string>().c_str(), d["sm"].get<unsigned>(),
                  d["driver"].get<std::string>().c_str(), d.value("copy_gb_s", 0.0));
    if (s.name == "operators" && d.contains("passed"))
      std::printf("             %d passed, %d failed, not run: %d (time), %d keys (shared memory of this card)\n", d["passed"].get<int>(),
                  d["failed"].get<int>(), d["not_run_time"].get<int>(), d["not_run_shared_memory"].get<int>());
    if (s.name == "demo" && d.contains("times_bf16_operators"))
      std::printf("             logits at most %.2f times the BF16 operators, %d answers\n", d["times_bf16_operators"].get<double>(),
                  d.value("answers", 0));
    for (const Json &m : d.value("models", Json::array())) {
      std::printf("             %s: %s\n", m["name"].get<std::string>().c_str(), m["status"].get<std::string>().c_str());
      if (m.contains("decode_tok_s"))
        std::printf("             decode %.1f tok/s, %.0f GB/s of weights, %.0f %% of the copy, %d launches; prefill %.0f tok/s in chunks of %d\n",
                    m["decode_tok_s"].get<double>(), m["decode_gb_s"].get<double>(), m["decode_share_of_copy"].get<double>() * 100,
                    m["launches_per_token"].get<int>(), m["prefill_tok_s"].get<double>(), m["prefill_rows"].get<int>());
      for (const Json &k : m.value("kernels", Json::array()))
        std::printf("               %-8s %-64s x%-4d %9.1f us %8.1f GB/s %5.1f %% %8.2f TFLOP/s\n", k["phase"].get<std::string>().c_str(),
                    k["kernel"].get<std::string>().c_str(), k["launches"].get<int>(), k["us_per_launch"].get<double>(),
                    k["gb_s"].get<double>(), k["share_of_copy"].get<double>() * 100, k["tflop_s"].get<double>());
    }
  }
}

int parent(const Options &o) {
  const auto start = Run::Clock::now();
  std::vector<Section> sections;
  Section pack;
  pack.name = "pack";
  Result<Pack> opened = Pack::open(o.pack);
  Status intact = opened.ok() ? opened->verify() : opened.takeStatus();
  intact.ok() ? void(pack.outcome = Outcome::Pass) : void(pack.fail(intact.error()));
  sections.push_back(pack);
  // The limits are for a GPU. A small pack is for a driver that emulates kernels, perhaps on a loaded machine.
  const int slow = opened.ok() && opened->small() ? 10 : 1;
  bool noGpu = false;
  for (const Part &part : kParts) {
    Section section;
    section.name = part.name;
    const int left = o.budget - int(std::chrono::duration<double>(Run::Clock::now() - start).count());
    if (noGpu || (sections.size() > 1 && sections[1].outcome == Outcome::Fail))
      section.notRun(noGpu ? sections[1].reason : "the device cannot be used");
    else if (pack.outcome != Outcome::Pass && !opened.ok())
      section.notRun("no pack");
    else if (!chosen(o, part.name) && part.check != checkDevice)
      section.notRun("not asked for");
    else if (left < 5)
      section.notRun("time");
    else {
      section = runPart(o, part, std::min(slow * part.seconds, left));
      noGpu = part.check == checkDevice && section.outcome == Outcome::NotRun;
    }
    std::cerr << part.name << ": " << outcomeName(section.outcome) << "\n";
    sections.push_back(std::move(section));
  }
  bool failed = false, incomplete = false;
  Json report;
  report["gpu_check"] = 1;
  report["sections"] = Json::array();
  for (const Section &s : sections) {
    failed |= s.outcome == Outcome::Fail;
    incomplete |= s.outcome == Outcome::NotRun && s.reason != "not asked for";
    report["sections"].push_back(s.toJson());
  }
  const int code = failed ? 1 : noGpu ? kNoGpu : incomplete ? kIncomplete : 0;
  report["status"] = failed ? "fail" : code == 0 ? "pass" : "not run";
  report["exit_code"] = code;
  report["seconds"] = std::chrono::duration<double>(Run::Clock::now() - start).count();
  if (sections.size() > 1 && sections[1].details.contains("name"))
    report["device"] = sections[1].details;
  if (opened.ok())
    report["built"] = opened->manifest().value("built", Json());
  const std::string text = report.dump(1) + "\n";
  if (Status written = writeFileAtomically(o.out, std::as_bytes(std::span(text))); !written.ok()) {
    std::cerr << written.error().render();
    return 1;
  }
  printTable(sections);
  std::printf("%s: %s\n", o.out.c_str(), report["status"].get<std::string>().c_str());
  return code;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options) || (!options.section.empty() && !partOf(options.section)))
    return usage();
  return options.section.empty() ? parent(options) : child(options);
}
