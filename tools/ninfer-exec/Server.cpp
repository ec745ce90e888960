#include "tools/ninfer-exec/Server.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <httplib.h>
#include <thread>

namespace ninfer::exec {

namespace {

constexpr size_t kMaxBody = size_t(64) << 20;

int httpStatus(const Error &error) {
  if (error.code == "NB0682" || error.kind == ErrorKind::Interrupted)
    return 503;
  if (error.code == "NB0683")
    return 404;
  // Wherever a file would be to blame for its JSON, here it is the caller.
  const bool json = error.code == "NB0680" || error.code == "NB0910";
  return json || error.kind == ErrorKind::Usage || error.kind == ErrorKind::Unsupported ? 400 : 500;
}

Json errorBody(const Error &error, int status) {
  return {{"error",
           {{"message", error.message},
            {"type", status < 500 ? "invalid_request_error" : "server_error"},
            {"code", error.code}}}};
}

void fail(httplib::Response &response, const Error &error) {
  response.status = httpStatus(error);
  if (response.status == 503)
    response.set_header("Retry-After", "1");
  response.set_content(errorBody(error, response.status).dump(), "application/json");
}

const char *finishReason(StopReason reason) {
  return reason == StopReason::Length || reason == StopReason::ContextFull ? "length" : "stop";
}

/// What the answers of one request have in common.
struct Envelope {
  std::string id, object, model;
  int64_t created = 0;
  bool chat = false, stream = false;

  Json wrap(Json choices) const {
    return {{"id", id}, {"object", object}, {"created", created}, {"model", model}, {"choices", std::move(choices)}};
  }
  /// The one choice there is. `first`: a stream's first chunk, which says whose words these are.
  Json choice(const std::string &text, Json reason, bool first = false) const {
    Json choice = {{"index", 0}};
    if (!chat) {
      choice["text"] = text;
    } else {
      Json content = Json::object();
      if (first || !stream)
        content["role"] = "assistant";
      if (first || !stream || !text.empty())
        content["content"] = text;
      choice[stream ? "delta" : "message"] = std::move(content);
    }
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = std::move(reason);
    return Json::array({std::move(choice)});
  }
};

Json usageOf(const Job &job) {
  const size_t prompt = job.prompt.size(), answer = job.answer.tokens.size();
  return {{"prompt_tokens", prompt},
          {"completion_tokens", answer},
          {"total_tokens", prompt + answer},
          {"prompt_tokens_details", {{"cached_tokens", job.cachedTokens}}}};
}

class Server {
public:
  Server(const ServeOptions &options, const ninfer_engine_info &info, const TextModel &text, const Tokenizer &tokenizer,
         const ChatTemplate *chatTemplate)
      : options_(options), info_(info), text_(text), tokenizer_(tokenizer), template_(chatTemplate),
        queue_(options.queue) {
    model_ = !options.alias.empty()     ? options.alias
             : *info.public_name != '\0' ? std::string(info.public_name)
                                         : std::filesystem::path(info.plan_path).stem().string();
    // A thread stays with a connection: those that wait for an answer must not keep out the next ones.
    http_.new_task_queue = [threads = options.queue + 8] { return new httplib::ThreadPool(threads); };
    http_.set_payload_max_length(kMaxBody);
    http_.set_tcp_nodelay(true);
    // The library's own choice, SO_REUSEPORT, would let two servers share a port without a word.
    http_.set_socket_options([](socket_t socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    http_.set_exception_handler([](const httplib::Request &, httplib::Response &response, std::exception_ptr) {
      fail(response, makeError(ErrorKind::Failed, "NB0699", "unexpected failure"));
    });
    http_.set_error_handler([](const httplib::Request &request, httplib::Response &response) {
      if (!response.body.empty())
        return;
      const int status = response.status;
      fail(response, makeError(ErrorKind::Usage, "NB0680", request.method + " " + request.path + ": " +
                                                               (status == 404   ? "no such page"
                                                                : status == 413 ? "the request is too long"
                                                                                : "not a request of this server")));
      response.status = status;
    });
    http_.set_logger([](const httplib::Request &request, const httplib::Response &response) {
      std::fprintf(stderr, "%s %s %d\n", request.method.c_str(), request.path.c_str(), response.status);
    });
    routes();
  }

  Status run(Context &context, uint32_t drafts) {
    const int port = options_.port == 0 ? http_.bind_to_any_port(options_.host)
                                        : (http_.bind_to_port(options_.host, options_.port) ? options_.port : -1);
    if (port < 0)
      return makeError(ErrorKind::Failed, "NB0681",
                       "cannot listen on " + options_.host + " port " + std::to_string(options_.port) +
                           ": no such address here, or the port is taken");
    std::fprintf(stderr, "serving %s at http://%s:%d\n", model_.c_str(), options_.host.c_str(), port);
    std::thread connections([this] { http_.listen_after_bind(); });
    queue_.serve(context, info_, text_, drafts);
    http_.stop();
    connections.join();
    return {};
  }

private:
  void routes() {
    http_.Get("/health", [this](const httplib::Request &, httplib::Response &response) {
      response.set_content(Json{{"status", "ok"}, {"requests", queue_.size()}}.dump(), "application/json");
    });
    http_.Get("/v1/models", [this](const httplib::Request &, httplib::Response &response) {
      const Json model = {{"id", model_},
                          {"object", "model"},
                          {"created", started_},
                          {"owned_by", "ninfer"},
                          {"max_context", info_.max_context},
                          {"target", info_.target}};
      response.set_content(Json{{"object", "list"}, {"data", Json::array({model})}}.dump(), "application/json");
    });
    http_.Post("/v1/completions", [this](const httplib::Request &request, httplib::Response &response) {
      answer(request, response, false);
    });
    http_.Post("/v1/chat/completions", [this](const httplib::Request &request, httplib::Response &response) {
      answer(request, response, true);
    });
  }

  void answer(const httplib::Request &request, httplib::Response &response, bool chat) {
    Status status = start(request, response, chat);
    if (!status.ok())
      fail(response, status.error());
  }

  Status start(const httplib::Request &request, httplib::Response &response, bool chat) {
    // A web page may send any other kind of text to any address without asking; this one needs the server's consent.
    const std::string type = request.get_header_value("Content-Type");
    if (type.substr(0, type.find(';')) != "application/json")
      return makeError(ErrorKind::Usage, "NB0680", "Content-Type: expected application/json, got '" + type + "'");
    NINFER_ASSIGN_OR_RETURN(CompletionRequest wanted, chat
                                                          ? parseChatRequest(request.body, options_.generate, model_)
                                                          : parseTextRequest(request.body, options_.generate, model_));
    NINFER_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, promptOf(wanted, chat));
    NINFER_RETURN_IF_ERROR(checkLength(info_, prompt.size(), wanted.generate));
    auto job = std::make_shared<Job>(std::move(prompt), wanted.generate);
    NINFER_RETURN_IF_ERROR(queue_.push(job));
    const std::string number = std::to_string(started_) + "-" + std::to_string(++requests_);
    Envelope envelope;
    envelope.id = (chat ? "chatcmpl-" : "cmpl-") + number;
    envelope.object = !chat ? "text_completion" : wanted.stream ? "chat.completion.chunk" : "chat.completion";
    envelope.model = model_;
    envelope.created = std::time(nullptr);
    envelope.chat = chat;
    envelope.stream = wanted.stream;
    if (wanted.stream) {
      response.set_chunked_content_provider(
          "text/event-stream",
          [job, envelope, usage = wanted.streamUsage](size_t, httplib::DataSink &sink) {
            stream(*job, envelope, usage, sink);
            return true;
          },
          [job](bool) { job->abandon(); });
      return {};
    }
    job->wait();
    NINFER_RETURN_IF_ERROR(std::move(job->status));
    Json body = envelope.wrap(envelope.choice(job->answer.text, finishReason(job->answer.reason)));
    body["usage"] = usageOf(*job);
    response.set_content(body.dump(), "application/json");
    return {};
  }

  Result<std::vector<int32_t>> promptOf(const CompletionRequest &wanted, bool chat) const {
    EncodeOptions encode;
    std::vector<int32_t> tokens = wanted.promptTokens;
    if (chat) {
      if (!template_)
        return makeError(ErrorKind::Unsupported, "NB0661", "the artifact has no chat template: use /v1/completions");
      NINFER_ASSIGN_OR_RETURN(const std::string text, template_->render(wanted.messages, true, wanted.templateArguments));
      encode.addSpecial = false;
      NINFER_ASSIGN_OR_RETURN(tokens, tokenizer_.encode(text, encode));
    } else if (tokens.empty()) {
      NINFER_ASSIGN_OR_RETURN(tokens, tokenizer_.encode(wanted.prompt, encode));
    }
    if (tokens.empty())
      return makeError(ErrorKind::Usage, "NB0662", "the prompt is empty");
    for (int32_t token : tokens)
      if (uint32_t(token) >= info_.vocab_size)
        return makeError(ErrorKind::Usage, "NB0651",
                         "prompt: token " + std::to_string(token) + ", the vocabulary has " +
                             std::to_string(info_.vocab_size));
    return tokens;
  }

  static void stream(Job &job, const Envelope &envelope, bool usage, httplib::DataSink &sink) {
    const auto send = [&sink](const std::string &data) {
      const std::string event = "data: " + data + "\n\n";
      return sink.is_writable() && sink.write(event.data(), event.size());
    };
    bool reads = !envelope.chat || send(envelope.wrap(envelope.choice("", nullptr, true)).dump());
    while (const std::optional<std::string> piece = job.nextPiece()) {
      reads = reads && send(envelope.wrap(envelope.choice(*piece, nullptr)).dump());
      if (!reads)
        job.abandon();
    }
    if (!reads)
      return;
    if (!job.status.ok()) {
      send(errorBody(job.status.error(), httpStatus(job.status.error())).dump());
    } else {
      send(envelope.wrap(envelope.choice("", finishReason(job.answer.reason))).dump());
      if (usage) {
        Json body = envelope.wrap(Json::array());
        body["usage"] = usageOf(job);
        send(body.dump());
      }
    }
    send("[DONE]");
    sink.done();
  }

  const ServeOptions &options_;
  const ninfer_engine_info &info_;
  const TextModel &text_;
  const Tokenizer &tokenizer_;
  const ChatTemplate *template_;
  std::string model_;
  const int64_t started_ = std::time(nullptr);
  std::atomic<uint64_t> requests_ = 0;
  JobQueue queue_;
  httplib::Server http_;
};

} // namespace

Status serveHttp(const ServeOptions &options, const ninfer_engine_info &info, const TextModel &text,
                 const Tokenizer &tokenizer, const ChatTemplate *chatTemplate, uint32_t drafts, Context &context) {
  return Server(options, info, text, tokenizer, chatTemplate).run(context, drafts);
}

} // namespace ninfer::exec
