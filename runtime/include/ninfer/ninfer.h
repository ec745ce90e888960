/* libninfer: opens a plan and its artifact, runs it, and nothing else. Pure C11.
 *
 * Rules of this header
 *  1. Handles are opaque. `ninfer_X_open` / `_create` make one, `ninfer_X_release` gives it back; NULL may be released.
 *  2. A function that can fail returns ninfer_status and takes `ninfer_error **error` last. `error` may be NULL. On
 *     failure *error is a new object that the caller releases, and no output is written; on success *error is left as it is.
 *  3. A status value is also the process exit code that the tools document (docs/errors.md).
 *  4. Option and result structs start with `struct_size`; the caller sets it to sizeof the struct it was compiled
 *     with, zeroes the rest, and fills what it needs. Zero always means the default. Fields are only ever appended.
 *  5. Text is UTF-8. Strings that are returned belong to the handle they came from and live as long as it does.
 *  6. There is no global state. An engine may be used from many threads at once. A context belongs to one thread at a
 *     time; only ninfer_context_cancel may be called from another thread or from a signal handler.
 *  7. Nothing is thrown across this boundary. Enum numbers never change.
 *  8. Sizes are bytes and times nanoseconds unless the name says otherwise. */
#ifndef NINFER_NINFER_H
#define NINFER_NINFER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN: C naming */

#define NINFER_API_VERSION 1u

#if defined(_WIN32)
#define NINFER_API
#else
#define NINFER_API __attribute__((visibility("default")))
#endif

typedef enum ninfer_status {
  NINFER_OK = 0,
  NINFER_FAILED = 1,
  NINFER_USAGE = 2,           /* an argument is wrong, or a request does not fit the plan's limits */
  NINFER_BAD_FILE = 3,        /* missing, unreadable, corrupt or foreign file */
  NINFER_TARGET_MISMATCH = 4, /* a valid plan, but for other weights or another machine */
  NINFER_UNSUPPORTED = 5,
  NINFER_OUT_OF_MEMORY = 6,
  NINFER_CACHE_MISS = 7,
  NINFER_ACCURACY_FAILED = 8,
  NINFER_INTERRUPTED = 130,   /* cancelled */
  NINFER_STATUS_FORCE_32 = 0x7fffffff
} ninfer_status;

/* ------------------------------------------------------------------------------------------------ errors */

typedef struct ninfer_error ninfer_error;

NINFER_API ninfer_status ninfer_error_status(const ninfer_error *error);
/* Stable id such as "NB0601". */
NINFER_API const char *ninfer_error_code(const ninfer_error *error);
/* One line: file, object, rule, expected and actual. */
NINFER_API const char *ninfer_error_message(const ninfer_error *error);
/* The message with its notes and help, as the tools print it; several lines, ends with a line feed. */
NINFER_API const char *ninfer_error_text(const ninfer_error *error);
NINFER_API void ninfer_error_release(ninfer_error *error);

/* --------------------------------------------------------------------------------------------------- log */

typedef enum ninfer_log_level {
  NINFER_LOG_INFO = 1,
  NINFER_LOG_WARNING = 2,
  NINFER_LOG_FORCE_32 = 0x7fffffff
} ninfer_log_level;

/* Receives one line without a line feed. May be called from any thread that calls the library. */
typedef void (*ninfer_log_fn)(void *user, ninfer_log_level level, const char *text, size_t bytes);

/* ------------------------------------------------------------------------------------------------ engine */

/* An opened plan: verified, its machine code mapped for one target, and the artifact's weights mapped. */
typedef struct ninfer_engine ninfer_engine;

typedef enum ninfer_code_mapping {
  NINFER_CODE_AUTO = 0,   /* straight from the plan file; where that is refused, through a sealed memory file */
  NINFER_CODE_DIRECT = 1, /* straight from the plan file only */
  NINFER_CODE_MEMORY = 2, /* memory file and the system's dynamic loader only */
  NINFER_CODE_FORCE_32 = 0x7fffffff
} ninfer_code_mapping;

/* Reading the weights ahead of use. */
typedef enum ninfer_preload {
  NINFER_PRELOAD_AUTO = 0,  /* when a sample of their pages is not in memory and all of them fit */
  NINFER_PRELOAD_ALWAYS = 1,
  NINFER_PRELOAD_NEVER = 2,
  NINFER_PRELOAD_FORCE_32 = 0x7fffffff
} ninfer_preload;

/* Weights on their way to a device: bytes done, which never go back, and bytes in all; the last call has both equal. From the
 * thread that opens the engine. */
typedef void (*ninfer_progress_fn)(void *user, uint64_t done, uint64_t total);

typedef struct ninfer_open_options {
  size_t struct_size;
  const char *plan_path;    /* required */
  const char *weights_path; /* NULL: the artifact name stored in the plan, beside the plan */
  const char *target;       /* NULL: the first target of the plan that this machine supports */
  ninfer_log_fn log;        /* NULL: silent */
  void *log_user;
  ninfer_code_mapping code_mapping;
  ninfer_preload preload;
  const char *prepacked_path; /* file of ninfer-build --prepack, for a CUDA target; NULL: weights are packed on the device */
  ninfer_progress_fn progress; /* NULL: none; not called for targets that map their weights */
  void *progress_user;
} ninfer_open_options;

typedef struct ninfer_engine_info {
  size_t struct_size;
  const char *plan_path;
  const char *weights_path;
  const char *public_name; /* model name of the artifact, or "" */
  const char *architecture;
  const char *target;      /* "cpu:x86-64-v3", "reference" */
  const char *executor;    /* "cpu", "reference" */
  const char *code_mapped; /* "direct", "memory", or "none" when every kernel is built in */
  const char *machine;     /* CPU brand string */
  uint32_t vocab_size;
  uint32_t max_context;    /* positions of one context */
  uint32_t prefill_chunk;  /* rows of the longest prefill call */
  uint32_t layers;
  uint32_t kernels;        /* distinct kernels of the target */
  uint32_t launches_decode;
  uint64_t weights_bytes;  /* logical payload of the artifact */
  uint64_t plan_bytes;     /* size of the plan file */
  /* Cost model of one decode step: bytes read from weights and activations, and from states when the context is full. */
  uint64_t read_bytes_per_token;
  uint64_t state_read_bytes_per_token;
  /* Startup times of this engine. */
  uint64_t plan_ns;        /* open, hash and verify the plan */
  uint64_t weights_ns;     /* open the artifact, check its signature, map it */
  uint64_t code_ns;        /* map machine code, resolve symbols */
  uint32_t draft_tokens;   /* most tokens of one ninfer_context_draft; 0: the plan has no draft layer */
  uint32_t reserved;
  const char *prepacked_path; /* file the packed weights came from, or "" */
  uint64_t packed_bytes;   /* weights on a device; 0 on a CPU */
  uint64_t device_ns;      /* of code_ns: device opened, weights uploaded and packed */
} ninfer_engine_info;

/* Opens, verifies, then maps. Fails with NINFER_BAD_FILE for a damaged plan or artifact, NINFER_TARGET_MISMATCH when
 * the weights have another storage signature or the CPU lacks a feature that the plan needs (both sides are named). */
NINFER_API ninfer_status ninfer_engine_open(const ninfer_open_options *options, ninfer_engine **engine,
                                            ninfer_error **error);
/* Adds a reference. A context holds one of its own. */
NINFER_API void ninfer_engine_retain(ninfer_engine *engine);
NINFER_API void ninfer_engine_release(ninfer_engine *engine);
NINFER_API ninfer_status ninfer_engine_get_info(const ninfer_engine *engine, ninfer_engine_info *info,
                                                ninfer_error **error);
/* Bytes of a resource of the text or the vision component by role ("tokenizer.json", "chat_template.jinja", ...), mapped.
 * *data is NULL and *bytes 0 when the artifact has none by that role. */
NINFER_API ninfer_status ninfer_engine_get_resource(const ninfer_engine *engine, const char *role,
                                                    const void **data, size_t *bytes, ninfer_error **error);

/* ----------------------------------------------------------------------------------------------- context */

/* One sequence: its persistent states, its activation memory, its team of threads. */
typedef struct ninfer_context ninfer_context;

typedef struct ninfer_context_options {
  size_t struct_size;
  uint32_t threads;        /* 0: every CPU this process may run on */
  uint32_t no_pin;         /* 1: let the scheduler place threads instead of one CPU each */
  uint64_t memory_limit;   /* 0: the memory available now; a context that needs more is refused before allocation */
  uint32_t profile;        /* 1: time every launch (ninfer_context_get_profile) */
  uint32_t spin_us;        /* 0: default; how long an idle thread spins before it sleeps */
  uint32_t draft;          /* 1: speculative decoding; NINFER_UNSUPPORTED when the plan has no draft layer */
  uint32_t reserved;       /* 0 */
} ninfer_context_options;

/* What a context needs, exact before anything is allocated. */
typedef struct ninfer_ledger {
  size_t struct_size;
  uint64_t weights_bytes;  /* artifact mapping: file-backed, shared, resident as it is touched */
  uint64_t plan_bytes;     /* plan mapping: file-backed */
  uint64_t code_bytes;     /* machine code of the target */
  uint64_t arena_bytes;    /* activations */
  uint64_t state_bytes;    /* KV cache, rope table, ... */
  uint64_t scratch_bytes;  /* all threads */
  uint64_t host_bytes;     /* launch tables, thread stacks */
  uint64_t anonymous_bytes; /* arena + state + scratch + host: what the context allocates */
  uint64_t total_bytes;    /* all of the above, and engine_bytes */
  uint32_t threads;
  uint32_t reserved;
  uint64_t device_bytes;   /* memory of a GPU: packed weights, and states and activations of one context; 0 on a CPU */
  uint64_t engine_bytes;   /* heap that the process took from the system while the plan was opened, or more, if more is in use
                              since: tables, and a directory that had to be parsed. Measured, not predicted: what other threads allocate meanwhile counts too. Part of
                              total_bytes, not of anonymous_bytes or any limit; 0 where the C library cannot tell */
} ninfer_ledger;

NINFER_API ninfer_status ninfer_engine_get_ledger(const ninfer_engine *engine,
                                                  const ninfer_context_options *options, ninfer_ledger *ledger,
                                                  ninfer_error **error);
/* NINFER_OUT_OF_MEMORY names the need and the limit. `options` may be NULL. */
NINFER_API ninfer_status ninfer_context_create(ninfer_engine *engine, const ninfer_context_options *options,
                                               ninfer_context **context, ninfer_error **error);
NINFER_API void ninfer_context_release(ninfer_context *context);

/* Appends tokens to the sequence and evaluates them: one token through the decode phase, more through prefill calls of
 * at most prefill_chunk rows. Afterwards the logits belong to the last token. Refuses, before any work, a count of 0,
 * an id outside the vocabulary, a sequence longer than max_context, and rows that wait for ninfer_context_accept. When
 * cancelled it returns NINFER_INTERRUPTED; the sequence then ends at the last call that ran to its end. A model with
 * recurrent states may not go on from there: then everything but a truncation to 0 is NINFER_USAGE. Allocates nothing. */
NINFER_API ninfer_status ninfer_context_submit(ninfer_context *context, const int32_t *tokens, size_t count,
                                               ninfer_error **error);
/* Logits after the last submitted token: float32[vocab_size], valid until the next call that evaluates (submit, draft,
 * verify), truncate or release. There are none after anything but a submit. */
NINFER_API ninfer_status ninfer_context_get_logits(const ninfer_context *context, const float **logits,
                                                   size_t *count, ninfer_error **error);
/* What a plan hands out beside the logits, such as the residual stream after every layer (ninfer-build --trace-layers). */
typedef enum ninfer_element {
  NINFER_ELEMENT_F32 = 1,
  NINFER_ELEMENT_I32 = 2,
  NINFER_ELEMENT_FORCE_32 = 0x7fffffff
} ninfer_element;

typedef struct ninfer_output {
  size_t struct_size;
  const char *name;        /* "text/layers/3" */
  const void *data;        /* rows * width elements, dense; valid as long as the logits */
  ninfer_element element;
  uint32_t width;          /* elements of a row */
  uint32_t rows;           /* those of the last call, or 1: its last row only */
  uint32_t position;       /* sequence position of row 0 */
} ninfer_output;

/* Number of outputs of the last call. A submit longer than prefill_chunk runs several calls, and a last single row runs
 * in a call of its own; submit at most prefill_chunk tokens at a time to see the outputs of all. 0 when the plan has none, before
 * the first submit, after any other call and after a cancelled submit. */
NINFER_API size_t ninfer_context_output_count(const ninfer_context *context);
NINFER_API ninfer_status ninfer_context_get_output(const ninfer_context *context, size_t index, ninfer_output *output,
                                                   ninfer_error **error);

/* What the vision tower of a plan takes and gives. */
typedef struct ninfer_vision_info {
  size_t struct_size;
  uint32_t max_patches;     /* of one image */
  uint32_t merge;           /* side of the square of patches that becomes one embedding */
  uint32_t patch_width;     /* elements of one patch: 3 * temporal_patch_size * patch_size^2 */
  uint32_t embedding_width; /* elements of one embedding: the hidden size of the text model */
  uint32_t images_in_text;  /* 1: ninfer_context_submit_images works with this target; 0: it is refused */
} ninfer_vision_info;

/* NINFER_UNSUPPORTED when the plan was built without --vision. */
NINFER_API ninfer_status ninfer_engine_get_vision(const ninfer_engine *engine, ninfer_vision_info *info,
                                                  ninfer_error **error);
/* Embeddings of one image. `patches` is float32 [grid_height * grid_width][patch_width]: normalised pixels, channel by
 * channel and frame by frame, in the order that puts the merge x merge patches of a square one after the other, squares
 * and patches row by row. Both sides are multiples of merge. *embeddings is float32 [count / embedding_width]
 * [embedding_width], one per square, valid until the next call that runs the context. Logits become unavailable, the
 * sequence stays. Allocates nothing. */
NINFER_API ninfer_status ninfer_context_encode_image(ninfer_context *context, const float *patches,
                                                     uint32_t grid_height, uint32_t grid_width,
                                                     const float **embeddings, size_t *count, ninfer_error **error);
/* An image among submitted tokens. It takes (grid_height / merge) * (grid_width / merge) of them, from `first` on. */
typedef struct ninfer_image_span {
  size_t struct_size;       /* of the first one of an array: of all */
  size_t first;             /* index into `tokens` */
  uint32_t grid_height;     /* patches, as for ninfer_context_encode_image */
  uint32_t grid_width;
  const float *embeddings;  /* float32 [tokens of the image][embedding_width]: a copy of what ninfer_context_encode_image gave */
} ninfer_image_span;

/* As ninfer_context_submit, with images: their embeddings take the place of those of their tokens, whose ids must be in the
 * vocabulary and count for nothing. The tokens of an image have its time, row and column as rotary positions, and the
 * text behind it, in this call and in all later ones, goes on at the start of the image + the longer side of its merged grid.
 * Images are in order and do not overlap. The memory of `embeddings` is read during the call only. NINFER_UNSUPPORTED when
 * the plan has no tower or its target takes no images; NINFER_USAGE for spans outside of `tokens`, out of order, with sides
 * that are not multiples of merge or more patches than the plan takes, and for embeddings that still lie where the tower left
 * them. Cancelled inside an image, the sequence cannot go on: truncate it to the image's first token or before. Allocates
 * a record per image and nothing else. */
NINFER_API ninfer_status ninfer_context_submit_images(ninfer_context *context, const int32_t *tokens, size_t count,
                                                      const ninfer_image_span *images, size_t image_count,
                                                      ninfer_error **error);
/* Number of evaluated tokens. */
NINFER_API uint32_t ninfer_context_position(const ninfer_context *context);
/* Forgets every token from `position` on (0 starts afresh), and verified rows that were not accepted. The logits become
 * unavailable. NINFER_UNSUPPORTED when a state of the model cannot go back to `position`; 0 always works. NINFER_USAGE
 * inside an image; images before `position` stay, and with them the positions of the text behind. */
NINFER_API ninfer_status ninfer_context_truncate(ninfer_context *context, uint32_t position,
                                                 ninfer_error **error);
/* Makes the running submit, draft or verify, or the next one, stop at its next launch. Safe in a signal handler. */
NINFER_API void ninfer_context_cancel(ninfer_context *context);

/* Speculative decoding, for a context made with ninfer_context_options.draft. One round, `next` being the token that
 * was chosen from the logits and is not submitted yet:
 *   draft(next) proposes d1, d2, ...; verify(next, d1, d2, ...) evaluates them all; row i has the logits after the
 *   i-th of them; the caller compares its choice from row 0 with d1, from row 1 with d2, ..., and accept(1 + number of
 *   equal ones) makes those rows part of the sequence. The first choice that differs, or the one after the last row,
 *   is the next round's `next`.
 * Calls in another order are refused with NINFER_USAGE. None of them allocates. */

/* Writes up to *count greedy proposals for the tokens after `next`, and their number to *count. It is less than asked for
 * at the end of the context, and 0 when nothing is there to draft from: before the first submit, after a truncate to
 * another position than one within the last call, and after accept(0). *count must be 1 to draft_tokens. */
NINFER_API ninfer_status ninfer_context_draft(ninfer_context *context, int32_t next, int32_t *drafts, size_t *count,
                                              ninfer_error **error);
/* Evaluates 1 to draft_tokens + 1 tokens; the sequence stays as it is. Works without the option `draft` too. */
NINFER_API ninfer_status ninfer_context_verify(ninfer_context *context, const int32_t *tokens, size_t count,
                                               ninfer_error **error);
/* Logits after token `row` of the last verify: float32[vocab_size], valid until the next call that evaluates, accepts
 * or truncates. */
NINFER_API ninfer_status ninfer_context_get_row_logits(const ninfer_context *context, size_t row, const float **logits,
                                                       size_t *count, ninfer_error **error);
/* Makes the first `count` verified tokens part of the sequence and drops the rest. Cannot be cancelled. */
NINFER_API ninfer_status ninfer_context_accept(ninfer_context *context, size_t count, ninfer_error **error);

/* ------------------------------------------------------------------------------------------------- stats */

typedef struct ninfer_stats {
  size_t struct_size;
  uint64_t setup_ns;       /* allocation, threads and the setup phase */
  uint64_t prefill_tokens;
  uint64_t prefill_calls;
  uint64_t prefill_ns;
  uint64_t decode_tokens;
  uint64_t decode_ns;
  uint64_t launches;
  uint64_t draft_calls;     /* of the draft layer: rows of evaluated tokens, and proposals */
  uint64_t draft_rows;
  uint64_t draft_ns;
  uint64_t drafted_tokens;  /* proposals handed out */
  uint64_t verify_calls;
  uint64_t verify_rows;
  uint64_t verify_ns;       /* ninfer_context_accept included */
  uint64_t accepted_tokens; /* verified rows that became part of the sequence */
  uint64_t encode_patches; /* images */
  uint64_t encode_calls;
  uint64_t encode_ns;
} ninfer_stats;

NINFER_API ninfer_status ninfer_context_get_stats(const ninfer_context *context, ninfer_stats *stats,
                                                  ninfer_error **error);

/* One launch of one phase, with the cost model's figures and the measured time. */
typedef struct ninfer_profile_entry {
  size_t struct_size;
  const char *phase;
  const char *label;
  const char *kernel;
  uint64_t calls;
  uint64_t rows;           /* sum over the calls */
  uint64_t ns;             /* sum over the calls, 0 unless ninfer_context_options.profile */
  uint64_t bytes_read;     /* sum over the calls, from the cost model */
  uint64_t flops;
  int full_state_cost;     /* 1: bytes_read and flops count a state at full capacity, not up to the position */
} ninfer_profile_entry;

/* Number of profile entries: the launches of every phase, in plan order. */
NINFER_API size_t ninfer_context_profile_size(const ninfer_context *context);
NINFER_API ninfer_status ninfer_context_get_profile(const ninfer_context *context, size_t index,
                                                    ninfer_profile_entry *entry, ninfer_error **error);

/* NINFER_API_VERSION the library was built with. */
NINFER_API uint32_t ninfer_api_version(void);

/* NOLINTEND */

#ifdef __cplusplus
}
#endif

#endif /* NINFER_NINFER_H */
