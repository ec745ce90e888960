#include "tools/ninfer-exec/Generate.h"

#include <algorithm>

namespace ninfer::exec {

namespace {

/// Holds back text that may turn out to be the beginning of a stop text.
class StopFilter {
public:
  explicit StopFilter(const std::vector<std::string> &stops) : stops_(stops) {}

  /// Text that may be printed now. Sets `stopped` once a stop text is complete; nothing comes after it.
  std::string push(const std::string &text) {
    held_ += text;
    size_t first = std::string::npos;
    for (const std::string &stop : stops_)
      first = std::min(first, held_.find(stop));
    if (first != std::string::npos) {
      stopped = true;
      std::string out = held_.substr(0, first);
      held_.clear();
      return out;
    }
    size_t keep = 0;
    for (const std::string &stop : stops_)
      for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length)
        if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) {
          keep = length;
          break;
        }
    std::string out = held_.substr(0, held_.size() - keep);
    held_.erase(0, out.size());
    return out;
  }
  std::string finish() { return std::exchange(held_, {}); }

  bool stopped = false;

private:
  const std::vector<std::string> &stops_;
  std::string held_;
};

} // namespace

Status checkOptions(const GenerateOptions &options) {
  for (const std::string &stop : options.stops)
    if (stop.empty())
      return makeError(ErrorKind::Usage, "NB0900", "--stop: the text is empty, every answer would end at once");
  return Sampler::create(options.sampling).takeStatus();
}

Status checkLength(const ninfer_engine_info &info, size_t promptTokens, const GenerateOptions &options) {
  // The last generated token is never submitted.
  const uint64_t wanted = options.maxTokens > 0 ? uint64_t(options.maxTokens) - 1 : 0;
  if (promptTokens + wanted <= info.max_context)
    return {};
  Status status = makeError(ErrorKind::Usage, "NB0652",
                            "context overflow: the prompt has " + std::to_string(promptTokens) + (promptTokens == 1 ? " token" : " tokens") +
                                (wanted ? ", -n (max_tokens) asks for " + std::to_string(options.maxTokens) : std::string()) +
                                ", the plan has " + std::to_string(info.max_context) + " positions");
  status.help("shorten the prompt, lower -n, or build the plan with a larger --max-context");
  return status;
}

Result<Generated> generate(Context &context, const ninfer_engine_info &info, const TextModel &text,
                           std::span<const int32_t> prompt, const GenerateOptions &options, uint32_t drafts,
                           TextSink &output) {
  NINFER_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create(options.sampling));
  for (int32_t token : prompt)
    sampler.accept(token);
  TokenStream stream(context, std::move(sampler), drafts);
  const Tokenizer *tokenizer = nullptr;
  if (!options.printIds) {
    NINFER_ASSIGN_OR_RETURN(tokenizer, text.tokenizer());
  }
  std::optional<StreamDecoder> decoder;
  if (tokenizer)
    decoder.emplace(*tokenizer, !options.showSpecial);
  StopFilter filter(options.stops);
  Generated result;
  const auto emit = [&](const std::string &piece) {
    result.text += piece;
    return output.write(piece);
  };

  while (options.maxTokens < 0 || int64_t(result.tokens.size()) < options.maxTokens) {
    if (interrupted()) {
      result.reason = StopReason::Interrupted;
      break;
    }
    NINFER_ASSIGN_OR_RETURN(const int32_t token, stream.next());
    if (result.firstTokenNs == 0)
      result.firstTokenNs = sinceStart();
    if (!options.ignoreEos && text.stopTokens().contains(token)) {
      result.reason = StopReason::StopToken;
      break;
    }
    result.tokens.push_back(token);
    if (options.printIds)
      NINFER_RETURN_IF_ERROR(emit(std::to_string(token) + "\n"));
    else
      NINFER_RETURN_IF_ERROR(emit(filter.push(decoder->push(token))));
    if (filter.stopped) {
      result.reason = StopReason::StopText;
      break;
    }
    if (output.closed()) {
      result.reason = StopReason::OutputClosed;
      break;
    }
    if (int64_t(result.tokens.size()) == options.maxTokens)
      break;
    if (stream.position() == info.max_context) {
      result.reason = StopReason::ContextFull;
      break;
    }
    const auto left = options.maxTokens < 0 ? UINT64_MAX : uint64_t(options.maxTokens) - result.tokens.size();
    Status status = stream.advance(left);
    if (!status.ok()) {
      if (status.error().kind != ErrorKind::Interrupted)
        return status;
      result.reason = StopReason::Interrupted;
      break;
    }
  }
  NINFER_RETURN_IF_ERROR(stream.finish());
  result.drafts = stream.stats();
  if (!options.printIds && !filter.stopped)
    NINFER_RETURN_IF_ERROR(emit(filter.push(decoder->finish()) + filter.finish()));
  return result;
}

} // namespace ninfer::exec
