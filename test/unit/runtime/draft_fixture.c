/* A model with a draft layer that a person can compute: the state after tokens is one 32-bit hash of them, and the
 * logits are hashes of that. The draft layer hashes the hidden row (the state's hash) with the next token, which is the
 * state after it, so its proposals are right, except after every fourth hash, where it proposes the worst token.
 * Calls are written to a log while it has room: kind, rows, position, tokens. */
#include "runtime/abi/kernel_abi.h"

enum { VOCAB = 260, PROPOSALS = 100, LOG_WORDS = 11, LOG_ENTRIES = 1000 };
enum { TEXT = 1, VERIFY, DRAFT, NEXT, COMMIT };

static uint32_t mix(uint32_t hash, uint32_t value) {
  hash = (hash ^ (value + 0x9E3779B9u)) * 0x85EBCA6Bu;
  hash = (hash ^ (hash >> 13)) * 0xC2B2AE35u;
  return hash ^ (hash >> 16);
}

static float logit(uint32_t hash, uint32_t token) { return (float)(int32_t)(mix(hash, token) >> 16) * 0x1p-13f; }

static void row(uint32_t hash, float *out) {
  for (uint32_t token = 0; token < VOCAB; ++token)
    out[token] = logit(hash, token);
}

static void record(uint32_t *log, uint32_t kind, const int64_t *scalars, const int32_t *tokens) {
  if (log[0] == LOG_ENTRIES)
    return;
  uint32_t *entry = log + 1 + log[0]++ * LOG_WORDS;
  entry[0] = kind;
  entry[1] = (uint32_t)scalars[NINFER_SCALAR_ROWS];
  entry[2] = (uint32_t)scalars[NINFER_SCALAR_POSITION];
  for (int64_t i = 0; tokens && i < scalars[NINFER_SCALAR_ROWS]; ++i)
    entry[3 + i] = (uint32_t)tokens[i];
}

/* The state before `position`: kept in `recurrent` when its flag is set, computed from the cache otherwise. */
static uint32_t before(const uint32_t *cache, const uint32_t *recurrent, int64_t position) {
  if (recurrent[1])
    return recurrent[0];
  uint32_t hash = 0;
  for (int64_t i = 0; i < position; ++i)
    hash = mix(hash, cache[i]);
  return hash;
}

#define KERNEL(name) void name(void *const *args, const int64_t *scalars, int64_t begin, int64_t end, void *scratch)
#define ROWS scalars[NINFER_SCALAR_ROWS]
#define POSITION scalars[NINFER_SCALAR_POSITION]

/* args: recurrent u32[2] */
KERNEL(flag) { ((uint32_t *)args[0])[1] = 1; }

/* args: tokens, logits, cache u32[capacity], recurrent u32[2], hidden u32[rows], log */
KERNEL(text) {
  const int32_t *tokens = args[0];
  uint32_t *cache = args[2], *recurrent = args[3], *hidden = args[4];
  uint32_t hash = before(cache, recurrent, POSITION);
  for (int64_t i = 0; i < ROWS; ++i) {
    cache[POSITION + i] = (uint32_t)tokens[i];
    hidden[i] = hash = mix(hash, (uint32_t)tokens[i]);
  }
  if (recurrent[1])
    recurrent[0] = hash;
  row(hash, args[1]);
  record(args[5], TEXT, scalars, tokens);
}

/* args: word u32[1]; takes a few microseconds */
KERNEL(pause) {
  volatile uint32_t *word = args[0];
  for (int i = 0; i < 5000; ++i)
    *word = (uint32_t)i;
}

/* args: as text, but logits of every row, and snapshots u32[rows] before the log */
KERNEL(verify) {
  const int32_t *tokens = args[0];
  uint32_t *cache = args[2], *hidden = args[4], *snapshots = args[5];
  uint32_t hash = before(cache, args[3], POSITION);
  for (int64_t i = 0; i < ROWS; ++i) {
    cache[POSITION + i] = (uint32_t)tokens[i];
    snapshots[i] = hidden[i] = hash = mix(hash, (uint32_t)tokens[i]);
    row(hash, (float *)args[1] + i * VOCAB);
  }
  record(args[6], VERIFY, scalars, tokens);
}

/* args: recurrent, snapshots, log */
KERNEL(commit) {
  uint32_t *recurrent = args[0], *snapshots = args[1];
  if (recurrent[1])
    recurrent[0] = snapshots[ROWS - 1];
  record(args[2], COMMIT, scalars, 0);
}

/* ids: int32 anywhere, or null for all tokens */
static void propose(uint32_t hash, float *out, const unsigned char *ids) {
  const float sign = hash % 4 == 0 ? -1.0f : 1.0f;
  for (uint32_t i = 0; i < (ids ? PROPOSALS : VOCAB); ++i) {
    const uint32_t token = ids ? ids[4 * i] | ids[4 * i + 1] << 8 : i;
    out[i] = sign * logit(hash, token);
  }
}

static void draftRows(void *const *args, const int64_t *scalars, const unsigned char *ids) {
  const int32_t *tokens = args[0];
  uint32_t *cache = args[2], *hidden = args[3], *last = args[4];
  for (int64_t i = 0; i < ROWS; ++i)
    *last = cache[POSITION + i] = mix(hidden[i], (uint32_t)tokens[i]);
  propose(*last, args[1], ids);
  record(args[5], DRAFT, scalars, tokens);
}

static void nextRow(void *const *args, const int64_t *scalars, const unsigned char *ids) {
  const int32_t *tokens = args[0];
  uint32_t *cache = args[2], *last = args[4];
  *last = cache[POSITION] = mix(*last, (uint32_t)tokens[0]);
  propose(*last, args[1], ids);
  record(args[5], NEXT, scalars, tokens);
}

/* args: tokens, logits, draft cache u32[capacity], hidden, last u32[1], log, (ids) */
KERNEL(draft) { draftRows(args, scalars, 0); }
KERNEL(draft_ids) { draftRows(args, scalars, args[6]); }
KERNEL(next) { nextRow(args, scalars, 0); }
KERNEL(next_ids) { nextRow(args, scalars, args[6]); }
