// The HTTP side of `serve`: routes, the JSON of the answers, and what a failure looks like.
#ifndef NINFER_TOOLS_NINFER_EXEC_SERVER_H
#define NINFER_TOOLS_NINFER_EXEC_SERVER_H

#include "tools/ninfer-exec/JobQueue.h"
#include "tools/ninfer-exec/Request.h"

#include <string>

namespace ninfer::exec {

struct ServeOptions {
  CommonOptions common;
  GenerateOptions generate; ///< where a request says nothing
  std::string host = "127.0.0.1";
  int port = 8080;   ///< 0: any free one
  std::string alias; ///< name of the model; default: its public name, or the plan's file name
  size_t queue = 16; ///< requests that may wait
};

/// Serves until the process is interrupted. Returns once every connection is closed. Errors: NB0681 (Failed) when it
/// cannot listen.
Status serveHttp(const ServeOptions &options, const Engine &engine, const ninfer_engine_info &info, const TextModel &text,
                 const Tokenizer &tokenizer, const ChatTemplate *chatTemplate, uint32_t drafts, Context &context);

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_SERVER_H
