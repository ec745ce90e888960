// The C API over Engine and Context. Translates errors and structs; decides nothing.
#include "runtime/include/ninfer/ninfer.h"

#include "runtime/executor/Tower.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

using namespace ninfer;

static_assert(NINFER_ELEMENT_F32 == int(plan::ElementType::F32) && NINFER_ELEMENT_I32 == int(plan::ElementType::I32));

struct ninfer_error {
  Error error;
  std::string text;
};

struct ninfer_engine {
  std::shared_ptr<const Engine> engine;
  std::atomic<uint32_t> references{1};
  std::string planPath, weightsPath, publicName, prepackedPath;
};

struct ninfer_context {
  std::unique_ptr<Context> context;
  ninfer_engine *engine = nullptr;
};

namespace {

ninfer_status fail(Error error, ninfer_error **out) {
  const auto status = ninfer_status(error.kind);
  if (out) {
    std::string text = error.render();
    *out = new ninfer_error{std::move(error), std::move(text)};
  }
  return status;
}

ninfer_status usage(const std::string &message, ninfer_error **out) {
  return fail(makeError(ErrorKind::Usage, "NB0600", message), out);
}

/// Calls `body`, which returns a ninfer_status; turns what it throws (allocation, system) into a status.
template <typename Body>
ninfer_status guard(ninfer_error **out, Body body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    try {
      return fail(makeError(ErrorKind::OutOfMemory, "NB0642", "out of memory"), out);
    } catch (...) {
      return NINFER_OUT_OF_MEMORY;
    }
  } catch (const std::exception &exception) {
    return fail(makeError(ErrorKind::Failed, "NB0699", exception.what()), out);
  }
}

/// Copies the caller's options, however old its header is: fields it does not know keep their default.
template <typename T>
bool readOptions(const T *from, T &to) {
  std::memset(&to, 0, sizeof(T));
  to.struct_size = sizeof(T);
  if (!from)
    return true;
  if (from->struct_size < sizeof(size_t))
    return false;
  // A newer caller may set fields this library does not know; they must be zero.
  const auto *bytes = reinterpret_cast<const unsigned char *>(from);
  for (size_t i = sizeof(T); i < from->struct_size; ++i)
    if (bytes[i] != 0)
      return false;
  std::memcpy(&to, from, std::min(from->struct_size, sizeof(T)));
  return true;
}

/// Writes as much of `from` as the caller's struct holds, keeping its struct_size.
template <typename T>
bool writeResult(const T &from, T *to) {
  if (!to || to->struct_size < sizeof(size_t))
    return false;
  const size_t size = to->struct_size;
  std::memcpy(to, &from, std::min(size, sizeof(T)));
  to->struct_size = size;
  return true;
}

constexpr const char *kBadStruct = "an option or result struct is missing, has no struct_size, or sets fields "
                                   "that this version of the library does not know";

ContextOptions contextOptions(const ninfer_context_options &options) {
  ContextOptions result;
  result.threads = options.threads;
  result.pin = options.no_pin == 0;
  result.memoryLimit = options.memory_limit;
  result.profile = options.profile != 0;
  result.spinNs = uint64_t(options.spin_us) * 1000;
  result.draft = options.draft != 0;
  return result;
}

/// Bytes of the states a launch refers to, at full capacity.
uint64_t stateBytes(const plan::Launch &launch) {
  uint64_t bytes = 0;
  for (const plan::Ref *ref : *launch.args())
    bytes += ref->space() == plan::Space::State ? ref->bytes() : 0;
  return bytes;
}

std::string textOf(const flatbuffers::String *text) { return text ? text->str() : std::string(); }

} // namespace

extern "C" {

// --- errors ------------------------------------------------------------------------------------------------

ninfer_status ninfer_error_status(const ninfer_error *error) { return ninfer_status(error->error.kind); }
const char *ninfer_error_code(const ninfer_error *error) { return error->error.code.c_str(); }
const char *ninfer_error_message(const ninfer_error *error) { return error->error.message.c_str(); }
const char *ninfer_error_text(const ninfer_error *error) { return error->text.c_str(); }
void ninfer_error_release(ninfer_error *error) { delete error; }

uint32_t ninfer_api_version(void) { return NINFER_API_VERSION; }

// --- engine ------------------------------------------------------------------------------------------------

ninfer_status ninfer_engine_open(const ninfer_open_options *options, ninfer_engine **engine, ninfer_error **error) {
  return guard(error, [&] {
    ninfer_open_options given;
    if (!engine || !options || !readOptions(options, given))
      return usage(kBadStruct, error);
    if (!given.plan_path || !*given.plan_path)
      return usage("no plan file given", error);
    if (given.code_mapping < NINFER_CODE_AUTO || given.code_mapping > NINFER_CODE_MEMORY ||
        given.preload < NINFER_PRELOAD_AUTO || given.preload > NINFER_PRELOAD_NEVER)
      return usage("code_mapping or preload is not a known value", error);
    EngineOptions open;
    open.plan = given.plan_path;
    if (given.weights_path)
      open.weights = given.weights_path;
    if (given.target)
      open.target = given.target;
    open.codeMapping = CodeMapping(given.code_mapping);
    open.preload = Preload(given.preload);
    if (given.prepacked_path)
      open.prepacked = given.prepacked_path;
    if (given.progress)
      open.progress = [report = given.progress, user = given.progress_user](uint64_t done, uint64_t total) { report(user, done, total); };
    if (given.log)
      open.log = [sink = given.log, user = given.log_user](LogLevel level, const std::string &text) {
        sink(user, ninfer_log_level(level), text.c_str(), text.size());
      };
    auto opened = Engine::open(open);
    if (!opened.ok())
      return fail(opened.takeStatus().takeError(), error);
    auto result = std::make_unique<ninfer_engine>();
    result->engine = opened.take();
    result->planPath = result->engine->planPath().string();
    result->weightsPath = result->engine->weightsPath().string();
    result->prepackedPath = result->engine->prepackedPath().string();
    result->publicName = textOf(result->engine->plan().artifact()->public_name());
    *engine = result.release();
    return NINFER_OK;
  });
}

void ninfer_engine_retain(ninfer_engine *engine) { engine->references.fetch_add(1, std::memory_order_relaxed); }

void ninfer_engine_release(ninfer_engine *engine) {
  if (engine && engine->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete engine;
}

ninfer_status ninfer_engine_get_info(const ninfer_engine *engine, ninfer_engine_info *info, ninfer_error **error) {
  return guard(error, [&] {
    const Engine &e = *engine->engine;
    const plan::ModelInfo &model = *e.plan().model();
    ninfer_engine_info result = {};
    result.plan_path = engine->planPath.c_str();
    result.weights_path = engine->weightsPath.c_str();
    result.public_name = engine->publicName.c_str();
    result.prepacked_path = engine->prepackedPath.c_str();
    result.packed_bytes = e.target().cuda() ? e.target().cuda()->packed_bytes() : 0;
    result.device_ns = e.times().device;
    result.architecture = model.architecture()->c_str();
    result.target = e.target().name()->c_str();
    result.executor = e.target().executor()->c_str();
    result.code_mapped = e.codeMapped();
    result.machine = e.machine().brand.c_str();
    result.vocab_size = model.vocab_size();
    result.max_context = model.max_context();
    result.prefill_chunk = e.phase(plan::PhaseKind::Prefill)->max_rows();
    result.layers = model.layers();
    result.kernels = e.target().kernels()->size();
    const plan::Phase &decode = *e.phase(plan::PhaseKind::Decode);
    result.launches_decode = decode.launches()->size();
    for (const plan::Launch *launch : *decode.launches()) {
      // The cost model counts states at full capacity.
      const uint64_t read = launch->bytes_read_const() + launch->bytes_read_per_row();
      const uint64_t states = stateBytes(*launch);
      result.state_read_bytes_per_token += std::min(read, states);
      result.read_bytes_per_token += read - std::min(read, states);
    }
    result.weights_bytes = e.payload().size();
    result.plan_bytes = e.planBytes();
    result.plan_ns = e.times().plan;
    result.weights_ns = e.times().weights;
    result.code_ns = e.times().code;
    if (e.phase(plan::PhaseKind::Draft)) // the plan verifier asks for a Verify phase beside it
      result.draft_tokens = e.phase(plan::PhaseKind::Verify)->max_rows() - 1;
    return writeResult(result, info) ? NINFER_OK : usage(kBadStruct, error);
  });
}

ninfer_status ninfer_engine_get_resource(const ninfer_engine *engine, const char *role, const void **data, size_t *bytes,
                                         ninfer_error **error) {
  return guard(error, [&] {
    auto resource = engine->engine->resource(role);
    if (!resource.ok())
      return fail(resource.takeStatus().takeError(), error);
    *data = resource->empty() ? nullptr : resource->data();
    *bytes = resource->size();
    return NINFER_OK;
  });
}

ninfer_status ninfer_engine_get_ledger(const ninfer_engine *engine, const ninfer_context_options *options,
                                       ninfer_ledger *ledger, ninfer_error **error) {
  return guard(error, [&] {
    ninfer_context_options given;
    if (!readOptions(options, given))
      return usage(kBadStruct, error);
    const Ledger made = makeLedger(*engine->engine, contextOptions(given), usableCpus().size());
    ninfer_ledger result = {};
    result.weights_bytes = made.weightsBytes;
    result.plan_bytes = made.planBytes;
    result.code_bytes = made.codeBytes;
    result.arena_bytes = made.arenaBytes;
    result.state_bytes = made.stateBytes;
    result.scratch_bytes = made.scratchBytes;
    result.host_bytes = made.hostBytes;
    result.anonymous_bytes = made.anonymousBytes();
    result.total_bytes = made.totalBytes();
    result.threads = made.threads;
    result.device_bytes = made.deviceBytes;
    result.engine_bytes = made.engineBytes;
    return writeResult(result, ledger) ? NINFER_OK : usage(kBadStruct, error);
  });
}

// --- context -----------------------------------------------------------------------------------------------

ninfer_status ninfer_context_create(ninfer_engine *engine, const ninfer_context_options *options,
                                    ninfer_context **context, ninfer_error **error) {
  return guard(error, [&] {
    ninfer_context_options given;
    if (!engine || !context || !readOptions(options, given))
      return usage(kBadStruct, error);
    auto created = Context::create(engine->engine, contextOptions(given));
    if (!created.ok())
      return fail(created.takeStatus().takeError(), error);
    auto result = std::make_unique<ninfer_context>();
    result->context = created.take();
    result->engine = engine;
    ninfer_engine_retain(engine);
    *context = result.release();
    return NINFER_OK;
  });
}

void ninfer_context_release(ninfer_context *context) {
  if (!context)
    return;
  ninfer_engine *engine = context->engine;
  delete context;
  ninfer_engine_release(engine);
}

ninfer_status ninfer_context_submit(ninfer_context *context, const int32_t *tokens, size_t count, ninfer_error **error) {
  return guard(error, [&] {
    Status status = context->context->submit({tokens, count});
    return status.ok() ? NINFER_OK : fail(status.takeError(), error);
  });
}

ninfer_status ninfer_context_get_logits(const ninfer_context *context, const float **logits, size_t *count,
                                        ninfer_error **error) {
  return guard(error, [&] {
    const auto values = context->context->logits();
    if (values.empty())
      return fail(makeError(ErrorKind::Usage, "NB0654", "there are no logits: no token was submitted, or another call came after the last submit"), error);
    *logits = values.data();
    *count = values.size();
    return NINFER_OK;
  });
}

size_t ninfer_context_output_count(const ninfer_context *context) { return context->context->outputs().size(); }

ninfer_status ninfer_context_get_output(const ninfer_context *context, size_t index, ninfer_output *output,
                                        ninfer_error **error) {
  return guard(error, [&] {
    const Context &c = *context->context;
    const auto outputs = c.outputs();
    if (index >= outputs.size())
      return usage("output " + std::to_string(index) + " does not exist, the last call has " +
                       std::to_string(outputs.size()),
                   error);
    const ProgramOutput &from = outputs[index];
    ninfer_output result = {};
    result.name = from.source->name()->c_str();
    result.data = from.data;
    result.element = from.source->element() == plan::ElementType::I32 ? NINFER_ELEMENT_I32 : NINFER_ELEMENT_F32;
    result.width = from.source->width();
    result.rows = c.rows(from);
    result.position = c.firstPosition(from);
    return writeResult(result, output) ? NINFER_OK : usage(kBadStruct, error);
  });
}

ninfer_status ninfer_engine_get_vision(const ninfer_engine *engine, ninfer_vision_info *info, ninfer_error **error) {
  return guard(error, [&] {
    auto tower = Tower::of(*engine->engine);
    if (!tower.ok())
      return fail(tower.takeStatus().takeError(), error);
    ninfer_vision_info result = {};
    result.max_patches = uint32_t(tower->maxPatches());
    result.merge = uint32_t(tower->merge());
    result.patch_width = uint32_t(tower->patchWidth());
    result.embedding_width = uint32_t(tower->embeddingWidth());
    const plan::Phase *prefill = engine->engine->phase(plan::PhaseKind::Prefill);
    result.images_in_text = prefill->inputs() && prefill->inputs()->size() != 0;
    return writeResult(result, info) ? NINFER_OK : usage(kBadStruct, error);
  });
}

ninfer_status ninfer_context_encode_image(ninfer_context *context, const float *patches, uint32_t grid_height,
                                          uint32_t grid_width, const float **embeddings, size_t *count,
                                          ninfer_error **error) {
  return guard(error, [&] {
    auto tower = Tower::of(context->context->engine());
    if (!tower.ok())
      return fail(tower.takeStatus().takeError(), error);
    const vision::Grid grid{grid_height, grid_width};
    Status status = vision::checkGrid(grid, tower->merge(), tower->maxPatches());
    if (!status.ok())
      return fail(status.takeError(), error);
    auto values =
        tower->encode(*context->context, {patches, size_t(grid.patches() * tower->patchWidth())}, grid);
    if (!values.ok())
      return fail(values.takeStatus().takeError(), error);
    *embeddings = values->data();
    *count = values->size();
    return NINFER_OK;
  });
}

ninfer_status ninfer_context_submit_images(ninfer_context *context, const int32_t *tokens, size_t count,
                                           const ninfer_image_span *images, size_t image_count, ninfer_error **error) {
  return guard(error, [&] {
    std::vector<ImageSpan> spans;
    for (size_t i = 0; i < image_count; ++i) {
      const auto *at = reinterpret_cast<const std::byte *>(images) + i * images->struct_size;
      ninfer_image_span given;
      if (!readOptions(reinterpret_cast<const ninfer_image_span *>(at), given) || given.struct_size != images->struct_size)
        return usage(kBadStruct, error);
      spans.push_back({given.first, {given.grid_height, given.grid_width}, given.embeddings});
    }
    Status status = context->context->submit({tokens, count}, spans);
    return status.ok() ? NINFER_OK : fail(status.takeError(), error);
  });
}

uint32_t ninfer_context_position(const ninfer_context *context) { return context->context->position(); }

ninfer_status ninfer_context_truncate(ninfer_context *context, uint32_t position, ninfer_error **error) {
  return guard(error, [&] {
    Status status = context->context->truncate(position);
    return status.ok() ? NINFER_OK : fail(status.takeError(), error);
  });
}

ninfer_status ninfer_context_draft(ninfer_context *context, int32_t next, int32_t *drafts, size_t *count,
                                   ninfer_error **error) {
  return guard(error, [&] {
    auto written = context->context->draft(next, {drafts, *count});
    if (!written.ok())
      return fail(written.takeStatus().takeError(), error);
    *count = *written;
    return NINFER_OK;
  });
}

ninfer_status ninfer_context_verify(ninfer_context *context, const int32_t *tokens, size_t count, ninfer_error **error) {
  return guard(error, [&] {
    Status status = context->context->verify({tokens, count});
    return status.ok() ? NINFER_OK : fail(status.takeError(), error);
  });
}

ninfer_status ninfer_context_get_row_logits(const ninfer_context *context, size_t row, const float **logits,
                                            size_t *count, ninfer_error **error) {
  return guard(error, [&] {
    const auto values = context->context->rowLogits(row);
    if (values.empty())
      return fail(makeError(ErrorKind::Usage, "NB0654",
                            "there are no logits of row " + std::to_string(row) + ": the last verify had fewer rows, "
                            "or another call came after it"),
                  error);
    *logits = values.data();
    *count = values.size();
    return NINFER_OK;
  });
}

ninfer_status ninfer_context_accept(ninfer_context *context, size_t count, ninfer_error **error) {
  return guard(error, [&] {
    Status status = context->context->accept(count);
    return status.ok() ? NINFER_OK : fail(status.takeError(), error);
  });
}

void ninfer_context_cancel(ninfer_context *context) { context->context->cancel(); }

// --- stats -------------------------------------------------------------------------------------------------

ninfer_status ninfer_context_get_stats(const ninfer_context *context, ninfer_stats *stats, ninfer_error **error) {
  return guard(error, [&] {
    const ContextStats &from = context->context->stats();
    ninfer_stats result = {};
    result.setup_ns = from.setupNs;
    result.prefill_tokens = from.prefillTokens;
    result.prefill_calls = from.prefillCalls;
    result.prefill_ns = from.prefillNs;
    result.decode_tokens = from.decodeTokens;
    result.decode_ns = from.decodeNs;
    result.launches = from.launches;
    result.draft_calls = from.draftCalls;
    result.draft_rows = from.draftRows;
    result.draft_ns = from.draftNs;
    result.drafted_tokens = from.draftedTokens;
    result.verify_calls = from.verifyCalls;
    result.verify_rows = from.verifyRows;
    result.verify_ns = from.verifyNs;
    result.accepted_tokens = from.acceptedTokens;
    result.encode_patches = from.encodeRows;
    result.encode_calls = from.encodeCalls;
    result.encode_ns = from.encodeNs;
    return writeResult(result, stats) ? NINFER_OK : usage(kBadStruct, error);
  });
}

size_t ninfer_context_profile_size(const ninfer_context *context) {
  size_t count = 0;
  for (const ProgramPhase &phase : context->context->program().phases())
    count += phase.launches.size();
  return count;
}

ninfer_status ninfer_context_get_profile(const ninfer_context *context, size_t index, ninfer_profile_entry *entry,
                                         ninfer_error **error) {
  return guard(error, [&] {
    const size_t asked = index;
    for (const ProgramPhase &phase : context->context->program().phases()) {
      if (index >= phase.launches.size()) {
        index -= phase.launches.size();
        continue;
      }
      const ProgramLaunch &launch = phase.launches[index];
      const plan::Launch &source = *launch.source;
      ninfer_profile_entry result = {};
      result.phase = phase.source->name()->c_str();
      result.label = source.label() ? source.label()->c_str() : "";
      result.kernel = context->context->engine().target().kernels()->Get(source.kernel())->name()->c_str();
      result.calls = launch.calls;
      result.rows = launch.rows;
      result.ns = launch.ns;
      result.bytes_read = source.bytes_read_const() * launch.calls + source.bytes_read_per_row() * launch.rows;
      result.flops = source.flops_const() * launch.calls + source.flops_per_row() * launch.rows;
      const uint64_t states = stateBytes(source);
      result.full_state_cost = states > 0 && source.bytes_read_const() + source.bytes_read_per_row() >= states;
      return writeResult(result, entry) ? NINFER_OK : usage(kBadStruct, error);
    }
    return usage("profile entry " + std::to_string(asked) + " does not exist", error);
  });
}

} // extern "C"
