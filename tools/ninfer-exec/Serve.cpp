// ninfer-exec serve PLAN: the OpenAI completions API over HTTP, for the programs that speak it.
#include "tools/ninfer-exec/Options.h"
#include "tools/ninfer-exec/Server.h"

namespace ninfer::exec {

namespace {

Result<int> run(const ServeOptions &options) {
  NINFER_RETURN_IF_ERROR(checkOptions(options.generate));
  if (options.host.empty()) // to the system that is every address of this machine
    return makeError(ErrorKind::Usage, "NB0900", "--host: expected an address, got an empty text");
  NINFER_ASSIGN_OR_RETURN(Engine engine, Engine::open(options.common));
  NINFER_ASSIGN_OR_RETURN(TextModel text, TextModel::load(engine));
  NINFER_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, text.tokenizer());
  auto chatTemplate = text.chatTemplate(engine);
  // A base model has none and still completes; a broken one is an error now, not at the first request.
  if (!chatTemplate.ok() && chatTemplate.error().code != "NB0661")
    return chatTemplate.takeStatus();
  const ninfer_engine_info info = engine.info();
  NINFER_ASSIGN_OR_RETURN(const uint32_t drafts, draftsPerRound(info, options.common));
  NINFER_ASSIGN_OR_RETURN(Context context, Context::create(engine, options.common, drafts > 0));
  NINFER_RETURN_IF_ERROR(
      serveHttp(options, engine, info, text, *tokenizer, chatTemplate.ok() ? &*chatTemplate : nullptr, drafts, context));
  printAsked(engine, options.common, context, {.loadNs = text.loadNs(), .speculates = drafts > 0});
  return 0; // a signal is how a server ends
}

} // namespace

int serveCommand(int argc, char **argv) {
  ServeOptions options;
  CLI::App app("Answer requests of the OpenAI completions API over HTTP: /v1/chat/completions, /v1/completions, "
               "/v1/models, /health.\nOne request at a time, the others wait. No passwords, no encryption: meant for "
               "this machine. Ctrl-C or SIGTERM ends it.",
               "ninfer-exec serve");
  addCommonOptions(app, options.common);
  addGenerateOptions(app, options.generate);
  addSpecOptions(app, options.common);
  app.add_option("--host", options.host, "Address to listen on (default 127.0.0.1)")->type_name("ADDRESS");
  app.add_option("--port", options.port, "Port to listen on; 0: any free one (default 8080)")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535));
  app.add_option("--alias", options.alias, "Name of the model (default: the artifact's, or the plan's file name)")
      ->type_name("NAME");
  app.add_option("--queue", options.queue, "Requests that may wait before others are refused (default 16)")
      ->type_name("N")
      ->check(CLI::Range(0, 1024));
  app.footer("Sampling options are the defaults of requests that leave them open.");
  if (int code = parse(app, argc, argv); code >= 0)
    return code;
  return report(run(options));
}

} // namespace ninfer::exec
