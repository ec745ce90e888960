// The text resources of a checkpoint, read as the runtime will read them: an artifact whose tokenizer
// could not be opened later must not be written.
#include "convert/TokenizerFiles.h"

#include "runtime/text/ChatTemplate.h"
#include "runtime/text/Tokenizer.h"

namespace ninfer {

namespace {

const char *const kCode = "NB0320";

Error under(const Error &cause) {
  Error error = cause;
  error.code = kCode;
  error.help.push_back("--no-tokenizer writes an artifact without text resources");
  return error;
}

Status checkStopIds(const Json &generation, int64_t vocabSize) {
  auto eos = generation.find("eos_token_id");
  if (eos == generation.end() || eos->is_null())
    return {};
  const Json list = eos->is_array() ? *eos : Json::array({*eos});
  for (const Json &id : list) {
    Result<uint64_t> value = jsonUnsigned(id, 0, static_cast<uint64_t>(vocabSize) - 1,
                                          std::string(kGenerationConfigRole) + ": eos_token_id", kCode);
    if (!value.ok())
      return value.takeStatus();
  }
  return {};
}

} // namespace

Status checkTextResources(const std::vector<SourceResource> &resources, int64_t vocabSize,
                          std::vector<std::string> &notes) {
  auto find = [&](const char *role) -> const std::string * {
    for (const SourceResource &r : resources)
      if (r.role == role)
        return &r.bytes;
    return nullptr;
  };
  if (const std::string *bytes = find(kTokenizerRole))
    if (Result<Tokenizer> tokenizer = Tokenizer::fromJson(*bytes, kTokenizerRole); !tokenizer.ok())
      return under(tokenizer.error());
  Json config;
  if (const std::string *bytes = find(kTokenizerConfigRole)) {
    NINFER_ASSIGN_OR_RETURN(config, parseStrictJson(*bytes, kTokenizerConfigRole, kCode));
  }
  if (const std::string *bytes = find(kChatTemplateRole)) {
    Result<ChatTemplate> compiled = ChatTemplate::compile(*bytes, config, kChatTemplateRole);
    // A model whose template uses more of the language still continues texts; only chat needs it.
    if (!compiled.ok() && compiled.error().kind != ErrorKind::Unsupported)
      return under(compiled.error());
    if (!compiled.ok())
      notes.push_back("chat will not work with this model: " + compiled.error().message);
  }
  if (const std::string *bytes = find(kGenerationConfigRole)) {
    NINFER_ASSIGN_OR_RETURN(Json generation, parseStrictJson(*bytes, kGenerationConfigRole, kCode));
    NINFER_RETURN_IF_ERROR(checkStopIds(generation, vocabSize));
  }
  return {};
}

} // namespace ninfer
