// The generation loop that run, chat and serve share: draw, print, go on or stop.
#ifndef NINFER_TOOLS_NINFER_EXEC_GENERATE_H
#define NINFER_TOOLS_NINFER_EXEC_GENERATE_H

#include "runtime/text/TokenStream.h"
#include "tools/ninfer-exec/Output.h"
#include "tools/ninfer-exec/TextModel.h"

#include <functional>
#include <string>
#include <vector>

namespace ninfer::exec {

struct GenerateOptions {
  int64_t maxTokens = -1; ///< -1: until a stop token or the end of the context
  SamplingOptions sampling;
  bool ignoreEos = false;
  bool showSpecial = false;
  std::vector<std::string> stops; ///< texts that end the answer; not printed
  bool printIds = false;          ///< token ids, one per line, instead of text
};

enum class StopReason { Length, StopToken, StopText, ContextFull, Interrupted, OutputClosed };

struct Generated {
  std::vector<int32_t> tokens; ///< without the stop token
  std::string text;            ///< as written to the sink
  StopReason reason = StopReason::Length;
  uint64_t firstTokenNs = 0; ///< sinceStart() when the first token was known
  DraftStats drafts;         ///< of speculative decoding
};

/// Continues after `prompt`, which was just submitted to `context`, with `drafts` drafts per round (0: plain
/// decoding). Afterwards the context holds the prompt and the answer, but for a last token that nothing followed.
Result<Generated> generate(Context &context, const ninfer_engine_info &info, const TextModel &text,
                           std::span<const int32_t> prompt, const GenerateOptions &options, uint32_t drafts,
                           TextSink &output);

/// Checks what needs no plan: the sampling options (NB0708) and that no stop text is empty (NB0900).
Status checkOptions(const GenerateOptions &options);

/// Refuses a prompt that does not fit, or does not fit together with an explicit number of tokens (NB0652).
Status checkLength(const ninfer_engine_info &info, size_t promptTokens, const GenerateOptions &options);

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_GENERATE_H
