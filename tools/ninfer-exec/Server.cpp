#include "tools/ninfer-exec/Server.h"

#include "support/Sha256.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <httplib.h>
#include <netdb.h>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace ninfer::exec {

namespace {

constexpr size_t kMaxBody = size_t(64) << 20;

int httpStatus(const Error &error) {
  if (error.code == "NB0682" || error.kind == ErrorKind::Interrupted)
    return 503;
  if (error.code == "NB0683")
    return 404;
  // Wherever a file would be to blame, for its JSON or as an image, here it is the caller, who also chose what a template fails on.
  const bool callers =
      error.code == "NB0680" || error.code == "NB0910" || error.code == "NB0707" || error.code == "NB0723";
  return callers || error.kind == ErrorKind::Usage || error.kind == ErrorKind::Unsupported ? 400 : 500;
}

Json errorBody(const Error &error, int status) {
  return {{"error",
           {{"message", error.message},
            {"type", status < 500 ? "invalid_request_error" : "server_error"},
            {"code", error.code}}}};
}

/// Paths, header values and names of models quoted in `json` are whatever bytes a caller sent; what goes out is UTF-8. The
/// library's own choice, an exception, would end the process: pages of errors are made outside of its handlers.
std::string textOf(const Json &json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// A decoded path or method for the log: one line, no escape sequences for the terminal that shows it.
std::string forLog(const std::string &text) {
  std::string out;
  for (const char c : text)
    if (c > ' ' && c < 0x7f)
      out += c;
    else
      out += "%" + toHex(std::span(reinterpret_cast<const uint8_t *>(&c), 1));
  return out;
}

void fail(httplib::Response &response, const Error &error) {
  response.status = httpStatus(error);
  if (response.status == 503)
    response.set_header("Retry-After", "1");
  response.set_content(textOf(errorBody(error, response.status)), "application/json");
}

/// Numeric host and port of one end of a socket, given getsockname or getpeername; port 0 when `fd` has none.
std::pair<std::string, int> endOf(int fd, int (*end)(int, sockaddr *, socklen_t *)) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  auto *of = reinterpret_cast<sockaddr *>(&address);
  if (end(fd, of, &size) == 0)
    getnameinfo(of, size, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  return {host, std::atoi(port)};
}

/// The sockets of this process's connections to `port`, which the library keeps to itself.
std::vector<int> connectionsTo(int port) {
  std::vector<int> found;
  std::error_code ignored;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (endOf(fd, getsockname).second == port)
      found.push_back(fd);
  }
  return found;
}

/// Whether the client behind `fd` still reads: it has not closed its end, not even the half it sends on. -1: not known, taken for yes.
bool stillReads(int fd) {
  char byte;
  const ssize_t got = fd < 0 ? 1 : recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
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
  const size_t prompt = job.prompt.tokens.size(), answer = job.answer.tokens.size();
  return {{"prompt_tokens", prompt},
          {"completion_tokens", answer},
          {"total_tokens", prompt + answer},
          {"prompt_tokens_details", {{"cached_tokens", job.cachedTokens}}}};
}

class Server {
public:
  Server(const ServeOptions &options, const Engine &engine, const ninfer_engine_info &info, const TextModel &text,
         const Tokenizer &tokenizer, const ChatTemplate *chatTemplate)
      : options_(options), engine_(engine), info_(info), text_(text), tokenizer_(tokenizer), template_(chatTemplate),
        queue_(options.queue) {
    model_ = !options.alias.empty()     ? options.alias
             : *info.public_name != '\0' ? std::string(info.public_name)
                                         : std::filesystem::path(info.plan_path).stem().string();
    // A thread stays with a connection: those that wait for an answer must not keep out the next ones.
    http_.new_task_queue = [threads = options.queue + 8] { return new httplib::ThreadPool(threads); };
    http_.set_payload_max_length(kMaxBody);
    // One request per connection: the library leaves the body of a request it refuses unread, and would take what a web page put
    // there for the next request, with any Content-Type. Connections that say nothing don't keep a thread either.
    http_.set_keep_alive_max_count(1);
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
      std::fprintf(stderr, "%s %s %d\n", forLog(request.method).c_str(), forLog(request.path).c_str(), response.status);
    });
    routes();
  }

  Status run(Context &context, uint32_t drafts) {
    port_ = options_.port == 0 ? http_.bind_to_any_port(options_.host)
                               : (http_.bind_to_port(options_.host, options_.port) ? options_.port : -1);
    if (port_ < 0)
      return makeError(ErrorKind::Failed, "NB0681",
                       "cannot listen on " + options_.host + " port " + std::to_string(options_.port) +
                           ": no such address here, or the port is taken");
    const bool v6 = options_.host.find(':') != std::string::npos;
    std::fprintf(stderr, "serving %s at http://%s%s%s:%d\n", model_.c_str(), v6 ? "[" : "", options_.host.c_str(), v6 ? "]" : "", port_);
    std::atomic<bool> ended = false;
    std::thread connections([this, &ended] {
      http_.listen_after_bind();
      ended = true;
    });
    queue_.serve(context, info_, text_, drafts);
    constexpr std::chrono::milliseconds kPoll(20), kGrace(2000);
    while (!http_.is_running() && !ended) // a stop before that would be lost
      std::this_thread::sleep_for(kPoll);
    http_.stop();
    // What ended with the queue is on its way to its readers. A client that sends a byte of its request now and then would
    // hold its thread, and the end of this process, for as long as it likes.
    for (auto waited = kPoll; !ended; waited += kPoll) {
      std::this_thread::sleep_for(kPoll);
      if (waited > kGrace)
        for (const int fd : connectionsTo(port_))
          shutdown(fd, SHUT_RDWR);
    }
    connections.join();
    return {};
  }

private:
  void routes() {
    http_.Get("/health", [this](const httplib::Request &, httplib::Response &response) {
      response.set_content(textOf({{"status", "ok"}, {"requests", queue_.size()}}), "application/json");
    });
    http_.Get("/v1/models", [this](const httplib::Request &, httplib::Response &response) {
      const Json model = {{"id", model_},
                          {"object", "model"},
                          {"created", started_},
                          {"owned_by", "ninfer"},
                          {"max_context", info_.max_context},
                          {"target", info_.target}};
      response.set_content(textOf({{"object", "list"}, {"data", Json::array({model})}}), "application/json");
    });
    for (const bool chat : {false, true})
      http_.Post(chat ? "/v1/chat/completions" : "/v1/completions",
                 [this, chat](const httplib::Request &request, httplib::Response &response, const httplib::ContentReader &read) {
                   answer(request, response, read, chat);
                 });
  }

  void answer(const httplib::Request &request, httplib::Response &response, const httplib::ContentReader &read, bool chat) {
    // A web page may send any other kind of text to any address without asking; this one needs the server's consent.
    const std::string type = request.get_header_value("Content-Type");
    if (!isJson(type))
      return fail(response, makeError(ErrorKind::Usage, "NB0680", "Content-Type: expected application/json, got '" + type + "'"));
    // Read here because the library holds only a declared length to the limit, not what chunks or gzip make of it.
    std::string body;
    bool fits = true;
    const bool complete = read([&](const char *data, size_t size) {
      fits = size <= kMaxBody - body.size();
      if (fits)
        body.append(data, size);
      return fits;
    });
    if (!complete) { // the error handler makes the page
      if (!fits)
        response.status = 413;
      return;
    }
    Status status = start(body, connectionOf(request), response, chat);
    if (!status.ok())
      fail(response, status.error());
  }

  static bool isJson(std::string type) {
    type.resize(std::min(type.find(';'), type.size()));
    while (!type.empty() && (type.back() == ' ' || type.back() == '\t'))
      type.pop_back();
    std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::tolower(c); });
    return type == "application/json";
  }

  /// The socket a request came through, open as long as its thread is here; -1 when it is not found.
  int connectionOf(const httplib::Request &request) const {
    for (const int fd : connectionsTo(port_))
      if (endOf(fd, getpeername) == std::pair(request.remote_addr, request.remote_port))
        return fd;
    return -1;
  }

  Status start(const std::string &body, int connection, httplib::Response &response, bool chat) {
    NINFER_ASSIGN_OR_RETURN(CompletionRequest wanted, chat ? parseChatRequest(body, options_.generate, model_)
                                                           : parseTextRequest(body, options_.generate, model_));
    NINFER_ASSIGN_OR_RETURN(Prompt prompt, promptOf(wanted, chat));
    NINFER_RETURN_IF_ERROR(checkLength(info_, prompt.tokens.size(), wanted.generate));
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
          [job, envelope, connection, usage = wanted.streamUsage](size_t, httplib::DataSink &sink) {
            stream(*job, envelope, usage, connection, sink);
            return true;
          },
          [job](bool) { job->abandon(); });
      return {};
    }
    if (!job->wait([connection] { return stillReads(connection); }))
      return makeError(ErrorKind::Interrupted, "NB0653", "the client closed the connection"); // for the log
    NINFER_RETURN_IF_ERROR(std::move(job->status));
    Json page = envelope.wrap(envelope.choice(job->answer.text, finishReason(job->answer.reason)));
    page["usage"] = usageOf(*job);
    response.set_content(textOf(page), "application/json");
    return {};
  }

  Result<Prompt> promptOf(const CompletionRequest &wanted, bool chat) const {
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
    PromptImages images;
    if (!wanted.images.empty()) {
      NINFER_ASSIGN_OR_RETURN(const ImageReader reader, ImageReader::of(engine_));
      NINFER_RETURN_IF_ERROR(checkTakesImages(engine_, reader.tower()));
      for (const std::string &file : wanted.images) {
        NINFER_ASSIGN_OR_RETURN(std::shared_ptr<PromptImage> image,
                                reader.read(std::as_bytes(std::span(file.data(), file.size())),
                                            "image " + std::to_string(images.size() + 1) + " of the request"));
        images.push_back(std::move(image));
      }
    }
    return placeImages(std::move(tokens), images, text_);
  }

  static void stream(Job &job, const Envelope &envelope, bool usage, int connection, httplib::DataSink &sink) {
    const auto write = [&sink](const std::string &data) {
      const std::string event = "data: " + data + "\n\n";
      return sink.is_writable() && sink.write(event.data(), event.size());
    };
    const auto send = [&write](const Json &json) { return write(textOf(json)); };
    bool reads = !envelope.chat || send(envelope.wrap(envelope.choice("", nullptr, true)));
    while (reads) {
      const std::optional<std::string> piece = job.nextPiece([connection] { return stillReads(connection); });
      if (!piece)
        break;
      reads = send(envelope.wrap(envelope.choice(*piece, nullptr)));
    }
    if (!reads)
      job.abandon();
    if (job.closed())
      return;
    if (!job.status.ok()) {
      send(errorBody(job.status.error(), httpStatus(job.status.error())));
    } else {
      send(envelope.wrap(envelope.choice("", finishReason(job.answer.reason))));
      if (usage) {
        Json body = envelope.wrap(Json::array());
        body["usage"] = usageOf(job);
        send(body);
      }
    }
    write("[DONE]");
    sink.done();
  }

  const ServeOptions &options_;
  const Engine &engine_;
  const ninfer_engine_info &info_;
  const TextModel &text_;
  const Tokenizer &tokenizer_;
  const ChatTemplate *template_;
  std::string model_;
  const int64_t started_ = std::time(nullptr);
  std::atomic<uint64_t> requests_ = 0;
  int port_ = 0;
  JobQueue queue_;
  httplib::Server http_;
};

} // namespace

Status serveHttp(const ServeOptions &options, const Engine &engine, const ninfer_engine_info &info, const TextModel &text,
                 const Tokenizer &tokenizer, const ChatTemplate *chatTemplate, uint32_t drafts, Context &context) {
  return Server(options, engine, info, text, tokenizer, chatTemplate).run(context, drafts);
}

} // namespace ninfer::exec
