#include "test/gpu/Section.h"

#include "test/gpu/Wrappers.h"

namespace ninfer::gpucheck {

const char *outcomeName(Outcome outcome) {
  return outcome == Outcome::Pass ? "pass" : outcome == Outcome::Fail ? "fail" : "not run";
}

Section &Section::set(Outcome value, std::string why) {
  outcome = value;
  reason = std::move(why);
  return *this;
}

Json Section::toJson() const {
  Json json;
  json["name"] = name;
  json["status"] = outcomeName(outcome);
  if (!reason.empty())
    json["reason"] = reason;
  json["seconds"] = seconds;
  json["details"] = details;
  return json;
}

Section Section::fromJson(const Json &json) {
  Section section;
  section.name = json.at("name");
  const std::string status = json.at("status");
  section.outcome = status == "pass" ? Outcome::Pass : status == "fail" ? Outcome::Fail : Outcome::NotRun;
  section.reason = json.value("reason", "");
  section.seconds = json.at("seconds");
  section.details = json.at("details");
  return section;
}

void checkDevice(Run &run, Section &section) {
  section.details = run.gpu->facts();
  // Several times the largest cache; a small card may have less free.
  size_t bytes = run.pack.small() ? size_t(1) << 20 : size_t(1) << 30;
  if (auto memory = run.gpu->device()->memory(); memory.ok())
    bytes = std::min<size_t>(bytes, memory->free / 4);
  const Result<double> rate = run.gpu->copyRate(bytes);
  if (!rate.ok()) {
    section.fail(rate.error());
    return;
  }
  section.details["copy_bytes"] = bytes;
  section.details["copy_gb_s"] = *rate / 1e9;
  section.outcome = Outcome::Pass;
}

void checkWrappers(Run &run, Section &section) {
  const std::vector<WrapperCase> cases = wrapperCases(run.pack.small() ? 1 : 32, 20240611);
  section.details["cases"] = Json::array();
  std::string first;
  for (const WrapperCase &c : cases) {
    if (run.late()) {
      section.notRun("time, after " + std::to_string(section.details["cases"].size()) + " of " + std::to_string(cases.size()) + " wrappers");
      break;
    }
    std::vector<uint32_t> emulated, got(c.outWords, 0xffffffffu);
    std::string message = emulate(c, emulated);
    if (!message.empty())
      message = "emulator: " + message;
    const auto onDevice = [&]() -> Status {
      NINFER_ASSIGN_OR_RETURN(const gpu::FunctionHandle function, run.gpu->function(run.pack, "check_wrappers", c.kernel, c.sharedBytes));
      const size_t inBytes = (c.in.size() * 4 + 255) / 256 * 256;
      NINFER_ASSIGN_OR_RETURN(const gpu::DevicePointer memory, run.gpu->scratch(inBytes + size_t(c.outWords) * 4));
      if (c.kernel == "check_atomic")
        got.back() = 0; // the counter
      NINFER_RETURN_IF_ERROR(run.gpu->upload(memory, c.in.data(), c.in.size() * 4));
      NINFER_RETURN_IF_ERROR(run.gpu->upload(memory + inBytes, got.data(), got.size() * 4));
      const uint64_t values[] = {memory, memory + inBytes, c.count};
      NINFER_RETURN_IF_ERROR(run.gpu->launch(function, c.grid, c.threads, c.sharedBytes, values));
      return run.gpu->download(got.data(), memory + inBytes, got.size() * 4);
    };
    double worst = 0;
    if (message.empty()) {
      if (Status status = onDevice(); !status.ok())
        message = status.error().message;
      else
        message = c.compare(c.in, emulated, got, worst);
    }
    Json entry;
    entry["name"] = c.kernel;
    entry["status"] = message.empty() ? "pass" : "fail";
    entry["words"] = c.outWords;
    if (worst > 0)
      entry["worst_error_of_bound"] = worst;
    if (!message.empty()) {
      entry["message"] = message;
      if (first.empty())
        first = c.kernel + ": " + message;
    }
    section.details["cases"].push_back(std::move(entry));
  }
  if (!first.empty())
    section.fail(first);
  else if (section.reason.empty())
    section.outcome = Outcome::Pass;
}

} // namespace ninfer::gpucheck
