// RAII over the C API for the tool: an engine, a context, and ninfer_error turned into ninfer::Error. The
// tool reaches the runtime only through ninfer.h, as any other program would.
#ifndef NINFER_TOOLS_NINFER_EXEC_SESSION_H
#define NINFER_TOOLS_NINFER_EXEC_SESSION_H

#include "runtime/include/ninfer/ninfer.h"
#include "runtime/text/TokenStream.h"
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
  std::string prepacked;
  std::string progress = "auto";
  unsigned threads = 0;
  bool noPin = false;
  std::string preload = "auto";
  std::string codeMapping = "auto";
  uint64_t memoryLimit = 0; ///< bytes
  unsigned spinUs = 0;
  bool stats = false;
  bool profile = false;
  std::string spec = "auto"; ///< speculative decoding: auto, off, mtp
  uint32_t draftTokens = 0;  ///< per round; 0: the default
};

/// Drafts per round that the options ask for on a plan that makes at most `info.draft_tokens`: 0 without speculation.
/// NB0900 (Usage) options that contradict each other, NB0658 (Unsupported) a plan without a draft layer, NB0667
/// (Usage) more drafts than the plan makes.
Result<uint32_t> draftsPerRound(const ninfer_engine_info &info, const CommonOptions &options);

class Engine {
public:
  static Result<Engine> open(const CommonOptions &options);

  ninfer_engine_info info() const;
  /// `drafts` as in Context::create.
  Result<ninfer_ledger> ledger(const CommonOptions &options, bool drafts) const;
  /// Bytes of a resource of the artifact, or an empty view.
  Result<std::string_view> resource(const char *role) const;
  /// NB0675 when the plan has no vision tower.
  Result<ninfer_vision_info> vision() const;
  ninfer_engine *handle() const { return handle_.get(); }

private:
  struct Release {
    void operator()(ninfer_engine *engine) const { ninfer_engine_release(engine); }
  };
  std::unique_ptr<ninfer_engine, Release> handle_;
};

class Context final : public Sequence {
public:
  /// `drafts`: with speculative decoding.
  static Result<Context> create(const Engine &engine, const CommonOptions &options, bool drafts);

  Status submit(std::span<const int32_t> tokens);
  Status submit(int32_t token) override { return submit({&token, 1}); }
  /// The same for tokens of a prompt: stats() counts them as prefill whichever phase ran them (one token at a
  /// time runs in the decode phase).
  Status submitPrompt(std::span<const int32_t> tokens, std::span<const ninfer_image_span> images = {});
  /// Outputs of the last call; their data is valid until the next submit.
  Result<std::vector<ninfer_output>> outputs() const;
  Result<std::span<const float>> logits() override;
  uint32_t position() const override { return ninfer_context_position(handle_.get()); }
  Result<size_t> draft(int32_t next, std::span<int32_t> drafts) override;
  Status verify(std::span<const int32_t> tokens) override;
  Result<std::span<const float>> rowLogits(size_t row) override;
  Status accept(size_t count) override;
  /// Embeddings of one image, valid until the next call. `patches` as ninfer_context_encode_image wants them.
  Result<std::span<const float>> encodeImage(std::span<const float> patches, int64_t gridHeight, int64_t gridWidth);
  /// Goes back to `position`, or to 0 where the states of the model cannot be cut there; position() says which.
  Status truncate(uint32_t position);
  /// Of all calls. Prefill is what ran for prompts, decode the rest, whichever phases ran it.
  ninfer_stats stats() const;
  std::vector<ninfer_profile_entry> profile() const;

private:
  struct Release {
    void operator()(ninfer_context *context) const;
  };
  ninfer_stats rawStats() const;

  std::unique_ptr<ninfer_context, Release> handle_;
  uint64_t promptDecodeTokens_ = 0, promptDecodeNs_ = 0; ///< of prompts, run in the decode phase
  uint64_t promptDraftNs_ = 0;                           ///< of prompts, run in the draft phase
};

/// Installs handlers: Ctrl-C (and SIGTERM) stops the running submit, a second one ends the process; a closed
/// pipe is reported by write() instead of a signal.
void installSignalHandlers();
/// True after Ctrl-C. `clearInterrupt` takes it back and arms the handler again (chat).
bool interrupted();
void clearInterrupt();

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_SESSION_H
