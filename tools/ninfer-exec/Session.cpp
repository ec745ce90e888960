#include "tools/ninfer-exec/Session.h"

#include "support/Progress.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace ninfer::exec {

namespace {

std::atomic<bool> gInterrupted{false};
std::atomic<ninfer_context *> gActive{nullptr};

extern "C" void onInterrupt(int) {
  gInterrupted.store(true);
  if (ninfer_context *context = gActive.load())
    ninfer_context_cancel(context);
}

void armInterrupt() {
  struct sigaction action = {};
  action.sa_handler = onInterrupt;
  action.sa_flags = SA_RESETHAND; // the second one has the default effect
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void logToStderr(void *, ninfer_log_level level, const char *text, size_t bytes) {
  std::fprintf(stderr, "%s: %.*s\n", level == NINFER_LOG_WARNING ? "warning" : "note", int(bytes), text);
}

/// Weights on their way to a device. The bar begins with the first report: a CPU target has none.
struct UploadBar {
  ProgressMode mode;
  std::optional<Progress> bar;
  uint64_t done = 0;

  static void report(void *user, uint64_t done, uint64_t total) {
    auto &self = *static_cast<UploadBar *>(user);
    if (!self.bar)
      self.bar.emplace("upload weights", total, self.mode, Progress::Unit::Bytes);
    self.bar->add(done - self.done);
    self.done = done;
  }
};

/// Takes over `error`.
Error takeError(ninfer_error *error) {
  Error result;
  result.kind = ErrorKind(ninfer_error_status(error));
  result.code = ninfer_error_code(error);
  result.message = ninfer_error_message(error);
  std::istringstream lines(ninfer_error_text(error));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("  note: ", 0) == 0)
      result.notes.push_back(line.substr(8));
    else if (line.rfind("  help: ", 0) == 0)
      result.help.push_back(line.substr(8));
  }
  ninfer_error_release(error);
  return result;
}

/// `error` is a reference because callers pass the call that fills it and the variable in one argument list, whose
/// order of evaluation is the compiler's choice.
Status statusOf(ninfer_status status, ninfer_error *const &error) {
  if (status == NINFER_OK)
    return {};
  if (error)
    return takeError(error);
  return makeError(ErrorKind(status), "NB0699", "the runtime failed without a message");
}

ninfer_context_options contextOptions(const CommonOptions &options, bool drafts) {
  ninfer_context_options result = {};
  result.struct_size = sizeof(result);
  result.threads = options.threads;
  result.no_pin = options.noPin;
  result.memory_limit = options.memoryLimit;
  result.profile = options.profile;
  result.spin_us = options.spinUs;
  result.draft = drafts;
  return result;
}

bool isArtifact(const std::string &path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    return false;
  char magic[7] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
  return std::string_view(magic, sizeof(magic)) == std::string_view("NINFER\0", 7);
}

} // namespace

void installSignalHandlers() {
  armInterrupt();
  std::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return gInterrupted.load(); }

void clearInterrupt() {
  gInterrupted.store(false);
  armInterrupt();
}

Result<Engine> Engine::open(const CommonOptions &options) {
  if (isArtifact(options.plan)) {
    Status status = makeError(ErrorKind::BadFile, "NB0665", options.plan + ": this is an artifact, not a plan");
    status.help("compile it first: ninfer-build " + options.plan + " -o model.plan.bin, then run model.plan.bin");
    return status;
  }
  ninfer_open_options open = {};
  open.struct_size = sizeof(open);
  open.plan_path = options.plan.c_str();
  open.weights_path = options.weights.empty() ? nullptr : options.weights.c_str();
  open.target = options.target.empty() ? nullptr : options.target.c_str();
  open.prepacked_path = options.prepacked.empty() ? nullptr : options.prepacked.c_str();
  UploadBar upload{*progressModeFromName(options.progress), {}};
  open.progress = UploadBar::report;
  open.progress_user = &upload;
  open.log = logToStderr;
  open.preload = options.preload == "always"  ? NINFER_PRELOAD_ALWAYS
                 : options.preload == "never" ? NINFER_PRELOAD_NEVER
                                              : NINFER_PRELOAD_AUTO;
  open.code_mapping = options.codeMapping == "direct"   ? NINFER_CODE_DIRECT
                      : options.codeMapping == "memory" ? NINFER_CODE_MEMORY
                                                        : NINFER_CODE_AUTO;
  ninfer_engine *handle = nullptr;
  ninfer_error *error = nullptr;
  NINFER_RETURN_IF_ERROR(statusOf(ninfer_engine_open(&open, &handle, &error), error));
  Engine engine;
  engine.handle_.reset(handle);
  return engine;
}

ninfer_engine_info Engine::info() const {
  ninfer_engine_info info = {};
  info.struct_size = sizeof(info);
  (void)ninfer_engine_get_info(handle_.get(), &info, nullptr);
  return info;
}

Result<ninfer_ledger> Engine::ledger(const CommonOptions &options, bool drafts) const {
  const ninfer_context_options given = contextOptions(options, drafts);
  ninfer_ledger ledger = {};
  ledger.struct_size = sizeof(ledger);
  ninfer_error *error = nullptr;
  NINFER_RETURN_IF_ERROR(statusOf(ninfer_engine_get_ledger(handle_.get(), &given, &ledger, &error), error));
  return ledger;
}

Result<std::string_view> Engine::resource(const char *role) const {
  const void *data = nullptr;
  size_t bytes = 0;
  ninfer_error *error = nullptr;
  NINFER_RETURN_IF_ERROR(statusOf(ninfer_engine_get_resource(handle_.get(), role, &data, &bytes, &error), error));
  return std::string_view(static_cast<const char *>(data), bytes);
}

Result<uint32_t> draftsPerRound(const ninfer_engine_info &info, const CommonOptions &options) {
  if (options.spec == "off") {
    if (options.draftTokens)
      return makeError(ErrorKind::Usage, "NB0900", "--draft-tokens goes with speculative decoding, --spec is off");
    return 0u;
  }
  if (info.draft_tokens == 0) {
    if (options.spec == "auto" && !options.draftTokens)
      return 0u;
    Status status = makeError(ErrorKind::Unsupported, "NB0658",
                              std::string(info.plan_path) + ": target " + info.target +
                                  " has no draft layer, so there is no speculative decoding");
    status.help("leave out --spec and --draft-tokens");
    return status;
  }
  if (options.draftTokens > info.draft_tokens)
    return makeError(ErrorKind::Usage, "NB0667",
                     "--draft-tokens is " + std::to_string(options.draftTokens) + ", the plan makes at most " +
                         std::to_string(info.draft_tokens) + " drafts per round");
  constexpr uint32_t kDefault = 3;
  return options.draftTokens ? options.draftTokens : std::min(kDefault, info.draft_tokens);
}

Result<ninfer_vision_info> Engine::vision() const {
  ninfer_vision_info info = {};
  info.struct_size = sizeof(info);
  ninfer_error *error = nullptr;
  NINFER_RETURN_IF_ERROR(statusOf(ninfer_engine_get_vision(handle_.get(), &info, &error), error));
  return info;
}

Result<Context> Context::create(const Engine &engine, const CommonOptions &options, bool drafts) {
  const ninfer_context_options given = contextOptions(options, drafts);
  ninfer_context *handle = nullptr;
  ninfer_error *error = nullptr;
  Status created = statusOf(ninfer_context_create(engine.handle(), &given, &handle, &error), error);
  if (!created.ok() && created.error().code == "NB0640" && options.memoryLimit)
    created.note("--memory-limit is " + std::to_string(options.memoryLimit) + " bytes");
  NINFER_RETURN_IF_ERROR(std::move(created));
  Context context;
  context.handle_.reset(handle);
  gActive.store(handle);
  return context;
}

void Context::Release::operator()(ninfer_context *context) const {
  ninfer_context *active = context;
  gActive.compare_exchange_strong(active, nullptr);
  ninfer_context_release(context);
}

Status Context::submit(std::span<const int32_t> tokens) {
  ninfer_error *error = nullptr;
  return statusOf(ninfer_context_submit(handle_.get(), tokens.data(), tokens.size(), &error), error);
}

Result<std::span<const float>> Context::logits() {
  const float *values = nullptr;
  size_t count = 0;
  ninfer_error *error = nullptr;
  NINFER_RETURN_IF_ERROR(statusOf(ninfer_context_get_logits(handle_.get(), &values, &count, &error), error));
  return std::span<const float>(values, count);
}

Result<std::vector<ninfer_output>> Context::outputs() const {
  std::vector<ninfer_output> outputs(ninfer_context_output_count(handle_.get()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].struct_size = sizeof(ninfer_output);
    ninfer_error *error = nullptr;
    NINFER_RETURN_IF_ERROR(statusOf(ninfer_context_get_output(handle_.get(), i, &outputs[i], &error), error));
  }
  return outputs;
}

Result<size_t> Context::draft(int32_t next, std::span<int32_t> drafts) {
  size_t count = drafts.size();
  ninfer_error *error = nullptr;
  NINFER_RETURN_IF_ERROR(statusOf(ninfer_context_draft(handle_.get(), next, drafts.data(), &count, &error), error));
  return count;
}

Status Context::verify(std::span<const int32_t> tokens) {
  ninfer_error *error = nullptr;
  return statusOf(ninfer_context_verify(handle_.get(), tokens.data(), tokens.size(), &error), error);
}

Result<std::span<const float>> Context::rowLogits(size_t row) {
  const float *values = nullptr;
  size_t count = 0;
  ninfer_error *error = nullptr;
  NINFER_RETURN_IF_ERROR(statusOf(ninfer_context_get_row_logits(handle_.get(), row, &values, &count, &error), error));
  return std::span<const float>(values, count);
}

Status Context::accept(size_t count) {
  ninfer_error *error = nullptr;
  return statusOf(ninfer_context_accept(handle_.get(), count, &error), error);
}

Result<std::span<const float>> Context::encodeImage(std::span<const float> patches, int64_t gridHeight,
                                                    int64_t gridWidth) {
  const float *values = nullptr;
  size_t count = 0;
  ninfer_error *error = nullptr;
  NINFER_RETURN_IF_ERROR(statusOf(ninfer_context_encode_image(handle_.get(), patches.data(), uint32_t(gridHeight),
                                                              uint32_t(gridWidth), &values, &count, &error),
                                  error));
  return std::span<const float>(values, count);
}

Status Context::truncate(uint32_t position) {
  ninfer_error *error = nullptr;
  Status status = statusOf(ninfer_context_truncate(handle_.get(), position, &error), error);
  if (status.ok() || status.error().code != "NB0656")
    return status;
  error = nullptr;
  return statusOf(ninfer_context_truncate(handle_.get(), 0, &error), error);
}

Status Context::submitPrompt(std::span<const int32_t> tokens, std::span<const ninfer_image_span> images) {
  const ninfer_stats before = rawStats();
  ninfer_error *error = nullptr;
  Status status = images.empty() ? submit(tokens)
                                 : statusOf(ninfer_context_submit_images(handle_.get(), tokens.data(), tokens.size(),
                                                                         images.data(), images.size(), &error),
                                            error);
  const ninfer_stats after = rawStats();
  promptDecodeTokens_ += after.decode_tokens - before.decode_tokens;
  promptDecodeNs_ += after.decode_ns - before.decode_ns;
  promptDraftNs_ += after.draft_ns - before.draft_ns;
  return status;
}

ninfer_stats Context::stats() const {
  ninfer_stats stats = rawStats();
  stats.prefill_tokens += promptDecodeTokens_;
  stats.prefill_ns += promptDecodeNs_ + promptDraftNs_;
  stats.decode_tokens += stats.accepted_tokens - promptDecodeTokens_;
  stats.decode_ns += stats.draft_ns - promptDraftNs_ + stats.verify_ns - promptDecodeNs_;
  return stats;
}

ninfer_stats Context::rawStats() const {
  ninfer_stats stats = {};
  stats.struct_size = sizeof(stats);
  (void)ninfer_context_get_stats(handle_.get(), &stats, nullptr);
  return stats;
}

std::vector<ninfer_profile_entry> Context::profile() const {
  std::vector<ninfer_profile_entry> entries(ninfer_context_profile_size(handle_.get()));
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].struct_size = sizeof(ninfer_profile_entry);
    (void)ninfer_context_get_profile(handle_.get(), i, &entries[i], nullptr);
  }
  return entries;
}

} // namespace ninfer::exec
