// Requests of the HTTP server: the JSON of the OpenAI completions API, as far as a model behind one context can
// answer it. What would change the answer and is not supported is refused, not ignored.
#ifndef NINFER_TOOLS_NINFER_EXEC_REQUEST_H
#define NINFER_TOOLS_NINFER_EXEC_REQUEST_H

#include "runtime/text/ChatTemplate.h"
#include "tools/ninfer-exec/Generate.h"

#include <string>
#include <string_view>
#include <vector>

namespace ninfer::exec {

struct CompletionRequest {
  std::vector<ChatMessage> messages; ///< of /v1/chat/completions
  std::vector<std::string> images;   ///< files of their image parts, in order
  Json templateArguments = Json::object();
  std::string prompt;                ///< of /v1/completions: a text,
  std::vector<int32_t> promptTokens; ///< or token ids
  GenerateOptions generate;
  bool stream = false;
  bool streamUsage = false; ///< a last chunk with the counts
};

/// `defaults` are the options of the command line; members of the request override them. `model` is the name the
/// server goes by. Errors: NB0680 (Usage), naming the member, what is expected and what is there; NB0683 (Usage) another
/// model; NB0708 (Usage) a sampling value out of range; NB0910 (BadFile) not strict JSON.
Result<CompletionRequest> parseChatRequest(std::string_view body, const GenerateOptions &defaults,
                                           const std::string &model);
Result<CompletionRequest> parseTextRequest(std::string_view body, const GenerateOptions &defaults,
                                           const std::string &model);

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_REQUEST_H
