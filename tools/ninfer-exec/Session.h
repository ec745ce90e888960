// RAII over the C API for the tool: an engine, a context, and ninfer_error turned into ninfer::Error. The
// tool reaches the runtime only through ninfer.h, as any other program would.
#ifndef NINFER_TOOLS_NINFER_EXEC_SESSION_H
#define NINFER_TOOLS_NINFER_EXEC_SESSION_H

#include "runtime/include/ninfer/ninfer.h"
#include "support/Status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer::exec {

/// Options that every command shares.
struct CommonOptions {
  std::string plan;
  std::string weights;
  std::string target;
  unsigned threads = 0;
  bool noPin = false;
  std::string preload = "auto";
  std::string codeMapping = "auto";
  uint64_t memoryLimit = 0; ///< bytes
  unsigned spinUs = 0;
  bool stats = false;
  bool profile = false;
};

class Engine {
public:
  static Result<Engine> open(const CommonOptions &options);

  ninfer_engine_info info() const;
  Result<ninfer_ledger> ledger(const CommonOptions &options) const;
  /// Bytes of a resource of the artifact, or an empty view.
  Result<std::string_view> resource(const char *role) const;
  ninfer_engine *handle() const { return handle_.get(); }

private:
  struct Release {
    void operator()(ninfer_engine *engine) const { ninfer_engine_release(engine); }
  };
  std::unique_ptr<ninfer_engine, Release> handle_;
};

class Context {
public:
  static Result<Context> create(const Engine &engine, const CommonOptions &options);

  Status submit(std::span<const int32_t> tokens);
  /// The same for tokens of a prompt: stats() counts them as prefill whichever phase ran them (one token at a
  /// time runs in the decode phase).
  Status submitPrompt(std::span<const int32_t> tokens);
  Result<std::span<const float>> logits() const;
  /// Outputs of the last call; their data is valid until the next submit.
  Result<std::vector<ninfer_output>> outputs() const;
  uint32_t position() const { return ninfer_context_position(handle_.get()); }
  Status truncate(uint32_t position);
  ninfer_stats stats() const;
  std::vector<ninfer_profile_entry> profile() const;

private:
  struct Release {
    void operator()(ninfer_context *context) const;
  };
  ninfer_stats rawStats() const;

  std::unique_ptr<ninfer_context, Release> handle_;
  uint64_t promptDecodeTokens_ = 0, promptDecodeNs_ = 0; ///< of prompts, run in the decode phase
};

/// Installs handlers: Ctrl-C (and SIGTERM) stops the running submit, a second one ends the process; a closed
/// pipe is reported by write() instead of a signal.
void installSignalHandlers();
/// True after Ctrl-C. `clearInterrupt` takes it back and arms the handler again (chat).
bool interrupted();
void clearInterrupt();

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_SESSION_H
