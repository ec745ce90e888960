#include "test/unit/runtime/DraftModel.h"

#include "support/File.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

namespace ninfer::test {

namespace {

constexpr uint32_t kLogWords = 11, kLogEntries = 1000;

uint32_t step(uint32_t hash, uint32_t value) {
  hash ^= value + 0x9E3779B9u;
  hash *= 0x85EBCA6Bu;
  hash ^= hash >> 13;
  hash *= 0xC2B2AE35u;
  return hash ^ hash >> 16;
}

std::vector<float> rowOf(uint32_t hash) {
  std::vector<float> row;
  for (uint32_t token = 0; token < TinyModel::kVocab; ++token)
    row.push_back(float(step(hash, token) >> 16) / 8192.0f);
  return row;
}

/// A leading byte, so that the ids are not aligned, then the even tokens below 200.
std::string proposalBytes(uint32_t badId) {
  std::string bytes = "x";
  for (uint32_t i = 0; i < DraftModel::kProposals; ++i) {
    const uint32_t id = badId && i == 7 ? badId : 2 * i;
    for (int shift = 0; shift < 32; shift += 8)
      bytes += char(id >> shift & 0xff);
  }
  return bytes;
}

TinyOptions tinyOptions(const DraftOptions &options) {
  TinyOptions tiny;
  tiny.layers = 1;
  tiny.maxContext = options.maxContext;
  tiny.chunk = options.chunk;
  tiny.publicName = "drafting";
  tiny.extraResource = proposalBytes(options.badId);
  return tiny;
}

} // namespace

DraftModel::DraftModel(const DraftOptions &options) : options_(options), tiny_(tinyOptions(options)) {}

std::filesystem::path DraftModel::write(const TemporaryFolder &folder) {
  tiny_.writeArtifact(folder / "draft.ninfer");
  writeBytes(folder / "draft.plan", buildBytes(plan(), {code()}));
  return folder / "draft.plan";
}

PlanBlob DraftModel::code() {
  const auto text = readFile(std::string(NINFER_IMAGE_DIR) + "/draft_kernels.so").take();
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {"code", {bytes.begin(), bytes.end()}};
}

plan::PlanT DraftModel::plan() {
  plan::PlanT plan = tiny_.plan("draft.ninfer");
  plan::TargetT &target = *plan.targets[0];
  target = plan::TargetT();
  target.name = "cpu:test";
  target.executor = "cpu";
  target.scratch_bytes_per_thread = 64;
  constexpr uint32_t kVerify = 4;
  const uint64_t vocabulary = TinyModel::kVocab;

  const auto arena = [&](uint64_t bytes) {
    const plan::Ref ref(plan::Space::Arena, 0, target.arena_bytes, bytes);
    target.arena_bytes += (bytes + 63) / 64 * 64;
    return ref;
  };
  const auto state = [&](const char *name, const char *kind, uint64_t words) {
    auto made = std::make_unique<plan::StateT>();
    made->name = name;
    made->kind = kind;
    made->bytes = words * 4;
    made->align = 64;
    target.states.push_back(std::move(made));
    return plan::Ref(plan::Space::State, uint32_t(target.states.size() - 1), 0, words * 4);
  };
  const auto cache = state("cache", "kv_cache", options_.maxContext);
  const auto recurrent = state("recurrent", options_.recurrent ? "delta_state" : "row_buffer", 2);
  const auto hidden = state("hidden", "row_buffer", options_.chunk);
  const auto snapshots = state("snapshots", "row_buffer", kVerify);
  const auto draftCache = state("draft cache", "kv_cache", options_.maxContext);
  const auto last = state("last", "row_buffer", 1);
  const auto log = state("log", "row_buffer", 1 + kLogWords * kLogEntries);
  // Phases share the arena, as in a compiled plan: what one leaves there the next overwrites.
  const auto tokens = arena(options_.chunk * 4), logits = arena(kVerify * vocabulary * 4), word = arena(4);

  const auto launch = [&](plan::PhaseT &phase, const std::string &symbol, std::vector<plan::Ref> args) {
    uint32_t kernel = 0;
    while (kernel < target.kernels.size() && target.kernels[kernel]->symbol != symbol)
      ++kernel;
    if (kernel == target.kernels.size()) {
      auto made = std::make_unique<plan::KernelT>();
      made->name = made->symbol = symbol;
      made->kind = plan::KernelKind::Elf;
      made->num_args = uint32_t(args.size());
      target.kernels.push_back(std::move(made));
    }
    auto made = std::make_unique<plan::LaunchT>();
    made->kernel = kernel;
    made->label = symbol;
    made->tiles_const = 1;
    made->args = std::move(args);
    phase.launches.push_back(std::move(made));
  };
  const auto part = [](const plan::Ref &ref, uint64_t bytes) {
    return plan::Ref(ref.space(), ref.index(), ref.offset(), bytes);
  };
  const auto phase = [&](plan::PhaseKind kind, const char *name, uint32_t rows, const std::string &symbol,
                         std::vector<plan::Ref> states) {
    auto made = std::make_unique<plan::PhaseT>();
    made->kind = kind;
    made->name = name;
    made->min_rows = 1;
    made->max_rows = rows;
    const bool calls = kind != plan::PhaseKind::Setup && kind != plan::PhaseKind::Commit;
    const bool drafts = kind == plan::PhaseKind::Draft || kind == plan::PhaseKind::DraftNext;
    if (calls) {
      const uint64_t width = drafts && options_.proposals ? kProposals : vocabulary;
      made->tokens = std::make_unique<plan::Ref>(part(tokens, rows * 4));
      made->logits =
          std::make_unique<plan::Ref>(part(logits, (kind == plan::PhaseKind::Verify ? rows : 1) * width * 4));
      states.insert(states.begin(), {*made->tokens, *made->logits});
      if (drafts && options_.proposals) {
        const uint64_t offset = tiny_.extraResourceOffset() + 1;
        made->token_ids = std::make_unique<plan::Ref>(plan::Space::Payload, 0, offset, kProposals * 4);
        states.push_back(*made->token_ids);
      }
    }
    for (uint32_t i = 0; !calls && i < options_.pauses; ++i)
      launch(*made, "pause", {word});
    launch(*made, symbol, states);
    for (uint32_t i = 0; calls && i < options_.pauses; ++i)
      launch(*made, "pause", {word});
    target.phases.push_back(std::move(made));
  };
  const std::string ids = options_.proposals ? "_ids" : "";
  using plan::PhaseKind;
  if (options_.recurrent)
    phase(PhaseKind::Setup, "setup", 1, "flag", {recurrent});
  phase(PhaseKind::Decode, "decode", 1, "text", {cache, recurrent, hidden, log});
  phase(PhaseKind::Prefill, "prefill", options_.chunk, "text", {cache, recurrent, hidden, log});
  phase(PhaseKind::Verify, "verify", kVerify, "verify", {cache, recurrent, hidden, snapshots, log});
  phase(PhaseKind::Draft, "draft", options_.chunk, "draft" + ids, {draftCache, hidden, last, log});
  phase(PhaseKind::DraftNext, "draft_next", 1, "next" + ids, {draftCache, hidden, last, log});
  if (options_.recurrent)
    phase(PhaseKind::Commit, "commit", kVerify, "commit", {recurrent, snapshots, log});
  return plan;
}

uint32_t DraftModel::hash(const std::vector<int32_t> &tokens) {
  uint32_t hash = 0;
  for (int32_t token : tokens)
    hash = step(hash, uint32_t(token));
  return hash;
}

std::vector<float> DraftModel::logits(const std::vector<int32_t> &tokens) { return rowOf(hash(tokens)); }

int32_t DraftModel::best(const std::vector<int32_t> &tokens) {
  const auto row = logits(tokens);
  return int32_t(std::max_element(row.begin(), row.end()) - row.begin());
}

int32_t DraftModel::proposal(const std::vector<int32_t> &tokens) const {
  const auto row = logits(tokens);
  const bool wrong = hash(tokens) % 4 == 0;
  int32_t chosen = 0;
  for (int32_t token = 0; token < TinyModel::kVocab; ++token)
    if ((!options_.proposals || (token % 2 == 0 && token < 200)) &&
        (wrong ? row[size_t(token)] < row[size_t(chosen)] : row[size_t(token)] > row[size_t(chosen)]))
      chosen = token;
  return chosen;
}

namespace {

/// Argument `index` of the first launch of a phase.
const uint32_t *argument(const Context &context, plan::PhaseKind kind, size_t index) {
  for (const ProgramPhase &phase : context.program().phases())
    if (phase.source->kind() == kind)
      return static_cast<const uint32_t *>(phase.launches[0].args[index]);
  return nullptr;
}

} // namespace

std::vector<std::string> callsOf(const Context &context) {
  const uint32_t *log = argument(context, plan::PhaseKind::Decode, 5);
  constexpr const char *names[] = {"", "text", "verify", "draft", "next", "commit"};
  std::vector<std::string> calls;
  for (uint32_t i = 0; i < log[0]; ++i) {
    const uint32_t *entry = log + 1 + i * kLogWords;
    std::string line = std::string(names[entry[0]]) + " @" + std::to_string(entry[2]) + ":";
    if (entry[0] == 5)
      line += " " + std::to_string(entry[1]) + " rows";
    else
      for (uint32_t k = 0; k < entry[1]; ++k)
        line += " " + std::to_string(entry[3 + k]);
    calls.push_back(line);
  }
  return calls;
}

const uint32_t *draftCacheOf(const Context &context) { return argument(context, plan::PhaseKind::Draft, 2); }

} // namespace ninfer::test
