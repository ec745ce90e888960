// A small valid plan, and helpers that break one rule of it.
#ifndef NINFER_TEST_UNIT_SCHEMA_PLANFIXTURE_H
#define NINFER_TEST_UNIT_SCHEMA_PLANFIXTURE_H

#include "schema/Build.h"

#include <functional>

namespace ninfer::test {

inline plan::Ref arena(uint64_t offset, uint64_t bytes) {
  return {plan::Space::Arena, 0, offset, bytes};
}

inline std::unique_ptr<plan::LaunchT> launch(uint32_t kernel, std::vector<plan::Ref> args,
                                             uint64_t tilesConst = 1) {
  auto result = std::make_unique<plan::LaunchT>();
  result->kernel = kernel;
  result->label = "text/layers/0";
  result->args = std::move(args);
  result->tiles_const = tilesConst;
  return result;
}

/// One target with an ELF kernel, a built-in, a rope table and the three usual phases. Vocabulary
/// 32, context 16, chunk 4; two blobs.
inline plan::PlanT smallPlan() {
  plan::PlanT plan;
  plan.artifact = std::make_unique<plan::ArtifactBindingT>();
  plan.artifact->framing = 3;
  plan.artifact->storage_signature.assign(32, 7);
  plan.artifact->file_name = "tiny.ninfer";
  plan.artifact->payload_bytes = 8192;
  plan.model = std::make_unique<plan::ModelInfoT>();
  plan.model->architecture = "LlamaForCausalLM";
  plan.model->vocab_size = 32;
  plan.model->max_context = 16;
  plan.model->prefill_chunk = 4;
  plan.model->layers = 1;

  auto parameter = std::make_unique<plan::ParameterT>();
  parameter->name = "text/token_embedding";
  parameter->shape = {32, 64};
  parameter->format = "BF16";
  parameter->layout = "contiguous-le-v1";
  parameter->bytes = 4096;
  plan.parameters.push_back(std::move(parameter));

  auto target = std::make_unique<plan::TargetT>();
  target->name = "cpu:x86-64-v3";
  target->executor = "cpu";
  target->cpu_features = {"avx2", "fma"};
  target->arena_bytes = 4096;
  target->scratch_bytes_per_thread = 256;

  auto elf = std::make_unique<plan::KernelT>();
  elf->name = "embedding_bf16_n32_k64";
  elf->kind = plan::KernelKind::Elf;
  elf->symbol = "k0";
  elf->blob = 0;
  elf->scratch_bytes = 256;
  elf->num_args = 3;
  target->kernels.push_back(std::move(elf));
  auto builtin = std::make_unique<plan::KernelT>();
  builtin->name = "rope_table";
  builtin->kind = plan::KernelKind::Builtin;
  builtin->symbol = "rope_table";
  builtin->num_args = 1;
  auto attribute = std::make_unique<plan::AttributeT>();
  attribute->name = "inv_freq";
  attribute->type = plan::AttributeType::Floats;
  attribute->floats = {1.0, 0.5};
  builtin->attributes.push_back(std::move(attribute));
  target->kernels.push_back(std::move(builtin));

  auto state = std::make_unique<plan::StateT>();
  state->name = "text/rope";
  state->bytes = 256;
  state->align = 64;
  state->kind = "rope_table";
  target->states.push_back(std::move(state));

  auto setup = std::make_unique<plan::PhaseT>();
  setup->kind = plan::PhaseKind::Setup;
  setup->name = "setup";
  setup->min_rows = setup->max_rows = 1;
  setup->launches.push_back(launch(1, {{plan::Space::State, 0, 0, 256}}));
  target->phases.push_back(std::move(setup));
  for (bool prefill : {false, true}) {
    auto phase = std::make_unique<plan::PhaseT>();
    phase->kind = prefill ? plan::PhaseKind::Prefill : plan::PhaseKind::Decode;
    phase->name = prefill ? "prefill" : "decode";
    phase->min_rows = 1;
    phase->max_rows = prefill ? 4 : 1;
    phase->tokens = std::make_unique<plan::Ref>(arena(0, phase->max_rows * 4));
    phase->logits = std::make_unique<plan::Ref>(arena(64, 128));
    phase->launches.push_back(launch(
        0, {arena(0, phase->max_rows * 4), {plan::Space::Payload, 0, 0, 4096}, arena(64, 128)}));
    target->phases.push_back(std::move(phase));
  }

  auto trace = std::make_unique<plan::TraceT>();
  trace->op = "text/token_embedding";
  trace->phase = "decode";
  trace->signature = "embedding BF16 32x64";
  auto accepted = std::make_unique<plan::VerdictT>();
  accepted->candidate = "cpu.embedding";
  accepted->verdict = "accepted";
  trace->verdicts.push_back(std::move(accepted));
  target->traces.push_back(std::move(trace));
  plan.targets.push_back(std::move(target));
  return plan;
}

/// Payload range of sixteen token ids.
inline plan::Ref ids() { return {plan::Space::Payload, 0, 0, 64}; }

/// Verify and Commit of three rows, Draft of four (the longest text call) and DraftNext over sixteen ids.
inline void addSpeculation(plan::PlanT &p) {
  const plan::PhaseT &prefill = *p.targets[0]->phases[2];
  auto add = [&](plan::PhaseKind kind, const char *name, uint32_t rows) -> plan::PhaseT & {
    auto phase = std::make_unique<plan::PhaseT>(prefill);
    phase->kind = kind;
    phase->name = name;
    phase->max_rows = rows;
    *phase->tokens = arena(0, rows * 4);
    p.targets[0]->phases.push_back(std::move(phase));
    return *p.targets[0]->phases.back();
  };
  *add(plan::PhaseKind::Verify, "verify", 3).logits = arena(64, 3 * 128);
  for (auto [kind, name, rows] : {std::tuple{plan::PhaseKind::Draft, "draft", 4u},
                                  std::tuple{plan::PhaseKind::DraftNext, "draft_next", 1u}}) {
    plan::PhaseT &phase = add(kind, name, rows);
    phase.token_ids = std::make_unique<plan::Ref>(ids());
    *phase.logits = arena(64, 64);
  }
  plan::PhaseT &commit = add(plan::PhaseKind::Commit, "commit", 3);
  commit.tokens.reset();
  commit.logits.reset();
}

inline std::vector<PlanBlob> smallBlobs() {
  return {{"cpu:x86-64-v3.so", std::vector<std::byte>(300, std::byte{0x5a})},
          {"table", std::vector<std::byte>(64, std::byte{1})}};
}

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_SCHEMA_PLANFIXTURE_H
