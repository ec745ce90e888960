// The kernel tests of test/cuda on a device, and their section. All buffers of a launch lie in one piece of device memory
// with guards between them; guards and inputs must come back as they were.
#include "test/cuda/Keys.h"
#include "test/cuda/Support.h"
#include "test/gpu/Section.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace ninfer {

namespace {

gpucheck::Run *running = nullptr;
bool timeIsUp = false;

constexpr size_t kGuard = 256;
constexpr uint8_t kGuardByte = 0xa5;

struct Placed {
  uint8_t *host;
  size_t bytes, at;
  bool writable;
  const char *name;
};

/// Buffers once each, whatever number of arguments point into them.
std::vector<Placed> place(const std::vector<emulator::Buffer> &buffers, size_t &total) {
  std::vector<Placed> placed;
  total = kGuard;
  for (const emulator::Buffer &buffer : buffers) {
    bool known = false;
    for (Placed &p : placed)
      if (p.host == buffer.data) {
        p.writable |= buffer.writable;
        known = true;
      }
    if (known)
      continue;
    // const_cast: tests declare inputs; what is written back was declared writable.
    placed.push_back({static_cast<uint8_t *>(const_cast<void *>(buffer.data)), buffer.bytes, total, buffer.writable, buffer.name});
    total += (buffer.bytes + 255) / 256 * 256 + kGuard;
  }
  return placed;
}

Result<std::string> launchOn(gpucheck::Run &run, const cuda::KernelText &text, emulator::Grid grid, cuda::Arguments &args) {
  const std::string name = text.name + "_sm" + std::to_string(run.gpu->sm());
  NINFER_ASSIGN_OR_RETURN(const gpu::FunctionHandle function, run.gpu->function(run.pack, name, name, text.sharedBytes));
  size_t total = 0;
  const std::vector<Placed> placed = place(args.buffers(), total);
  std::vector<uint8_t> image(total, kGuardByte);
  for (const Placed &p : placed)
    std::memcpy(image.data() + p.at, p.host, p.bytes);
  NINFER_ASSIGN_OR_RETURN(const gpu::DevicePointer memory, run.gpu->scratch(std::max(total, size_t(64) << 20)));
  std::vector<uint64_t> values;
  for (size_t i = 0; i < text.params.size(); ++i) {
    uint64_t value = *static_cast<uint64_t *>(args.pointers()[i]);
    if (text.params[i].bytes == 8 && value) { // a pointer of the host, perhaps into the middle of a buffer
      const Placed *into = nullptr;
      for (const Placed &p : placed)
        if (value - reinterpret_cast<uint64_t>(p.host) < std::max<size_t>(p.bytes, 1))
          into = &p;
      if (!into)
        return text.name + ": argument '" + std::string(text.params[i].name) + "' points into no buffer";
      value += memory + into->at - reinterpret_cast<uint64_t>(into->host);
    }
    values.push_back(value);
  }
  NINFER_RETURN_IF_ERROR(run.gpu->upload(memory, image.data(), total));
  NINFER_RETURN_IF_ERROR(run.gpu->launch(function, grid, text.threads, text.sharedBytes, values));
  const std::vector<uint8_t> before = image;
  NINFER_RETURN_IF_ERROR(run.gpu->download(image.data(), memory, total));
  size_t guardAt = 0;
  for (size_t i = 0; i <= placed.size(); ++i) {
    const size_t end = i < placed.size() ? placed[i].at : total;
    for (size_t j = guardAt; j < end; ++j)
      if (image[j] != kGuardByte)
        return text.name + ": wrote outside its buffers, " + (i ? std::string("behind '") + placed[i - 1].name + "'" : "before the first");
    if (i == placed.size())
      break;
    const Placed &p = placed[i];
    if (p.writable)
      std::memcpy(p.host, image.data() + p.at, p.bytes);
    else if (std::memcmp(image.data() + p.at, before.data() + p.at, p.bytes) != 0)
      return text.name + ": wrote to its input '" + p.name + "'";
    guardAt = p.at + p.bytes;
  }
  return std::string();
}

/// One line per test for the report.
class Listener : public testing::EmptyTestEventListener {
public:
  Json failures = Json::array();
  std::string first;
  int passed = 0, failed = 0, notRun = 0;

  void OnTestEnd(const testing::TestInfo &info) override {
    const std::string name = std::string(info.test_suite_name()) + "." + info.name();
    if (timeIsUp || info.result()->Skipped()) { // skipped: fail-fast is set when time is up
      ++notRun;
    } else if (info.result()->Passed()) {
      ++passed;
    } else {
      ++failed;
      std::string message;
      for (int i = 0; i < info.result()->total_part_count(); ++i)
        if (info.result()->GetTestPartResult(i).failed()) {
          message = info.result()->GetTestPartResult(i).message();
          break;
        }
      if (first.empty())
        first = name + ": " + message.substr(0, 400);
      failures.push_back({{"name", name}, {"message", message.substr(0, 2000)}});
    }
  }
};

} // namespace

namespace cuda {

std::string launch(const KernelText &text, emulator::Grid grid, Arguments &args, const emulator::Options &) {
  if (running->late()) {
    timeIsUp = true;
    GTEST_FLAG_SET(fail_fast, true); // what follows is skipped, and counted as not run
    return "time is up";
  }
  if (args.pointers().size() != text.params.size())
    return text.name + ": " + std::to_string(args.pointers().size()) + " arguments, expected " + std::to_string(text.params.size());
  Result<std::string> result = launchOn(*running, text, grid, args);
  return result.ok() ? *result : text.name + ": " + result.error().message;
}

} // namespace cuda

namespace gpucheck {

void checkOperators(Run &run, Section &section) {
  running = &run;
  // Keys for cards with more shared memory per block than this one has, and those of other architectures.
  std::string filter = run.pack.manifest().at("operators").get<std::string>(), excluded;
  int beyond = 0;
  std::set<std::string> here;
  for (const cuda::KernelText &text : cuda::keys::all(run.gpu->sm()))
    here.insert(text.name.substr(0, text.name.rfind("_sm")));
  for (const cuda::KernelText &text : cuda::keys::all(0))
    if (!here.contains(text.name)) {
      excluded += (excluded.empty() ? "-*/" : ":*/") + text.name;
    } else if (text.sharedBytes > run.gpu->info().sharedBytes) {
      excluded += (excluded.empty() ? "-*/" : ":*/") + text.name;
      ++beyond;
    }
  GTEST_FLAG_SET(filter, filter + excluded);
  GTEST_FLAG_SET(brief, true);
  char name[] = "gpu-check", *arguments[] = {name, nullptr};
  int count = 1;
  testing::InitGoogleTest(&count, arguments);
  auto &listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  auto *listener = new Listener(); // owned by the list
  listeners.Append(listener);
  (void)RUN_ALL_TESTS();
  section.details["passed"] = listener->passed;
  section.details["failed"] = listener->failed;
  section.details["not_run_time"] = listener->notRun;
  section.details["not_run_shared_memory"] = beyond;
  section.details["failures"] = listener->failures;
  if (listener->failed)
    section.fail(std::to_string(listener->failed) + " of " + std::to_string(listener->failed + listener->passed) + " tests; " + listener->first);
  else if (listener->notRun || listener->passed == 0)
    section.notRun(listener->passed ? "time, after " + std::to_string(listener->passed) + " tests without a failure" : "no test of this name");
  else
    section.outcome = Outcome::Pass;
}

} // namespace gpucheck
} // namespace ninfer
