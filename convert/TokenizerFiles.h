// Tokenizer resources of an artifact: copied from a model folder, or made from GGUF metadata in the
// same file forms, so that the runtime has one reader for both.
#ifndef NINFER_CONVERT_TOKENIZERFILES_H
#define NINFER_CONVERT_TOKENIZERFILES_H

#include "convert/Checkpoint.h"
#include "convert/Gguf.h"
#include "support/Json.h"

#include <vector>

namespace ninfer {

class ModelFolder;

inline constexpr const char *kTokenizerRole = "tokenizer.json";
inline constexpr const char *kTokenizerConfigRole = "tokenizer_config.json";
inline constexpr const char *kChatTemplateRole = "chat_template.jinja";
inline constexpr const char *kGenerationConfigRole = "generation_config.json";

/// tokenizer.json (required), tokenizer_config.json, the chat template (its own file, else the
/// member of tokenizer_config.json), generation_config.json (else the ids of config.json). The
/// bytes of files are kept; ids must be below `vocabSize`. Errors: NB0310 missing, BadFile (NB0320)
/// broken.
Result<std::vector<SourceResource>>
tokenizerFilesOfFolder(const ModelFolder &folder, const Json &config, int64_t vocabSize);

/// The same four from tokenizer.ggml.*: byte-level BPE ("gpt2") with a known pre-tokenizer.
/// Unsupported (NB0320) for another model or pre-tokenizer, BadFile (NB0320) for tokens or merges
/// that contradict each other.
Result<std::vector<SourceResource>> tokenizerFilesOfGguf(const GgufFile &gguf,
                                                         int64_t vocabSize, int64_t maxPositions);

/// Opens the resources as the runtime does. BadFile or Unsupported (NB0320) for a tokenizer it would
/// refuse, a chat template that is not UTF-8, stop ids outside the vocabulary; a template beyond the
/// supported language adds a note.
Status checkTextResources(const std::vector<SourceResource> &resources, int64_t vocabSize,
                          std::vector<std::string> &notes);

/// Values of tokenizer.ggml.pre that tokenizerFilesOfGguf knows, for messages.
std::string listPreTokenizers();

} // namespace ninfer

#endif // NINFER_CONVERT_TOKENIZERFILES_H
