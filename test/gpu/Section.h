// One part of the check, run in a process of its own: what is lost (a hung kernel, a dead context) is lost for that part.
#ifndef NINFER_TEST_GPU_SECTION_H
#define NINFER_TEST_GPU_SECTION_H

#include "test/gpu/Gpu.h"

#include <chrono>
#include <memory>

namespace ninfer::gpucheck {

enum class Outcome { Pass, Fail, NotRun };
const char *outcomeName(Outcome outcome); ///< "pass", "fail", "not run"

struct Section {
  std::string name;
  Outcome outcome = Outcome::NotRun;
  std::string reason; ///< of anything but a pass
  Json details = Json::object();
  double seconds = 0;

  Section &fail(std::string why) { return set(Outcome::Fail, std::move(why)); }
  Section &notRun(std::string why) { return set(Outcome::NotRun, std::move(why)); }
  /// Fails with the error's message.
  Section &fail(const Error &error) { return fail(error.message + (error.notes.empty() ? "" : " (" + error.notes[0] + ")")); }

  Json toJson() const;
  static Section fromJson(const Json &json);

private:
  Section &set(Outcome value, std::string why);
};

/// What a section works with.
struct Run {
  using Clock = std::chrono::steady_clock;
  Pack pack;
  std::unique_ptr<Gpu> gpu;
  Clock::time_point deadline; ///< a section stops by itself a little before its process is stopped
  bool late() const { return Clock::now() > deadline; }
};

// Each fills outcome, reason and details.
void checkDevice(Run &run, Section &section);    ///< facts, copy bandwidth
void checkWrappers(Run &run, Section &section);  ///< every wrapper of ni.cuh
void checkOperators(Run &run, Section &section); ///< the kernel tests of test/cuda
void checkDemo(Run &run, Section &section);      ///< a small plan end to end
void measureModels(Run &run, Section &section);  ///< kernels, decode and prefill of large shapes

} // namespace ninfer::gpucheck

#endif // NINFER_TEST_GPU_SECTION_H
