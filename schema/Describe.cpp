#include "schema/Describe.h"

#include "schema/TextTable.h"
#include "support/Progress.h"
#include "support/Sha256.h"

#include <algorithm>
#include <map>
#include <vector>

namespace ninfer {
namespace {

std::string text(const flatbuffers::String *value) { return value ? value->str() : std::string(); }

std::string joined(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *values) {
  std::string out;
  if (values)
    for (const flatbuffers::String *value : *values)
      out += (out.empty() ? "" : " ") + value->str();
  return out;
}

/// What the phases of speculative decoding amount to, or nothing.
std::string draftText(const plan::Target &target, const plan::ModelInfo &model) {
  const plan::Phase *draft = PlanView::findPhase(target, plan::PhaseKind::Draft);
  const plan::Phase *verify = PlanView::findPhase(target, plan::PhaseKind::Verify);
  if (!draft || !verify)
    return {};
  const uint64_t proposed = draft->token_ids() ? draft->token_ids()->bytes() / 4 : model.vocab_size();
  return "up to " + std::to_string(verify->max_rows() - 1) + " drafts per round from " + std::to_string(proposed) +
         " of " + std::to_string(model.vocab_size()) + " tokens" +
         (PlanView::findPhase(target, plan::PhaseKind::Commit) ? ", recurrent states" : "");
}

std::string tileText(const plan::Launch &launch) {
  if (launch.tiles_per_row() == 0)
    return std::to_string(launch.tiles_const());
  return (launch.tiles_const() ? std::to_string(launch.tiles_const()) + " + " : "") +
         std::to_string(launch.tiles_per_row()) + " per row";
}

} // namespace

PlanLedger planLedger(const PlanView &view, const plan::Target &target) {
  PlanLedger ledger;
  ledger.weights = view->artifact()->payload_bytes();
  ledger.plan = view.bytes().size();
  for (const plan::State *state : *target.states())
    ledger.states += state->bytes();
  ledger.arena = target.arena_bytes();
  ledger.scratchPerThread = target.scratch_bytes_per_thread();
  if (target.cuda()) {
    ledger.onDevice = true;
    ledger.packed = target.cuda()->packed_bytes();
    ledger.staging = target.cuda()->staging_bytes();
  }
  return ledger;
}

uint64_t phaseBytesRead(const plan::Phase &phase, uint64_t rows) {
  uint64_t total = 0;
  for (const plan::Launch *launch : *phase.launches())
    total += launch->bytes_read_const() + launch->bytes_read_per_row() * rows;
  return total;
}

uint64_t phaseFlops(const plan::Phase &phase, uint64_t rows) {
  uint64_t total = 0;
  for (const plan::Launch *launch : *phase.launches())
    total += launch->flops_const() + launch->flops_per_row() * rows;
  return total;
}

std::string describePacked(const PackedHeader &header, const std::string &fileName) {
  const auto sections = header.sections.size();
  std::string out = "packed      " + fileName + ": " + formatBytes(header.fileBytes) + ", version " + std::to_string(kPackedVersion) +
                    ", layout " + std::to_string(kPackedLayout) + " (panel-16x128), " + std::to_string(sections) +
                    (sections == 1 ? " section\n" : " sections\n");
  out += "made from   payload " + formatBytes(header.payloadBytes) + ", sample " + toHex(header.payloadSample) + "\n";
  out += "signature   " + toHex(header.storageSignature) + "\n";
  for (size_t i = 0; i < sections; ++i) {
    const PackedSection &section = header.sections[i];
    out += "section     " + std::to_string(i) + ": " + std::to_string(section.bytes) + " bytes at " + std::to_string(section.offset) + "\n";
    out += "  packing   " + toHex(section.packing) + "\n";
    out += "  sha256    " + toHex(section.content) + "\n";
  }
  return out;
}

std::string describePlan(const PlanView &view, const std::string &fileName) {
  const plan::Plan &plan = view.plan();
  const plan::ModelInfo &model = *plan.model();
  const plan::ArtifactBinding &artifact = *plan.artifact();
  const std::string signature =
      toHex({artifact.storage_signature()->data(), artifact.storage_signature()->size()});
  std::string out;
  out += "plan        " + fileName + ": " + formatBytes(view.bytes().size()) + ", schema " +
         std::to_string(plan.schema_version()) + "." + std::to_string(plan.schema_minor()) +
         ", kernel ABI " + std::to_string(plan.kernel_abi_version()) + "\n";
  out += "model       " + text(model.architecture()) + ", " + std::to_string(model.layers()) +
         " layers, vocabulary " + std::to_string(model.vocab_size()) + ", context " +
         std::to_string(model.max_context()) + ", prefill chunk " +
         std::to_string(model.prefill_chunk()) + ", " + std::to_string(plan.parameters()->size()) +
         " parameters\n";
  out += "artifact    " +
         (text(artifact.file_name()).empty() ? "(no name)" : text(artifact.file_name())) +
         (text(artifact.public_name()).empty() ? "" : " \"" + text(artifact.public_name()) + "\"") +
         ", framing " + std::to_string(artifact.framing()) + ", payload " +
         formatBytes(artifact.payload_bytes()) + "\n";
  out += "signature   " + signature + "\n";
  for (const plan::Target *target : *plan.targets()) {
    const PlanLedger ledger = planLedger(view, *target);
    const std::string features = joined(target->cpu_features());
    out += "target      " + text(target->name()) + ": " +
           std::to_string(target->kernels()->size()) + " kernels" +
           (features.empty() ? "" : ", needs " + features) + "\n";
    size_t width = 10;
    for (const plan::Phase *phase : *target->phases())
      width = std::max(width, text(phase->name()).size() + 1);
    const auto label = [&](std::string name) { return "  " + (name.resize(width, ' '), name); };
    for (const plan::Phase *phase : *target->phases()) {
      out += label(text(phase->name())) + std::to_string(phase->launches()->size()) +
          (phase->launches()->size() == 1 ? " launch" : " launches");
      if (phase->kind() != plan::PhaseKind::Setup)
        out += ", rows " + std::to_string(phase->min_rows()) +
               (phase->max_rows() != phase->min_rows() ? ".." + std::to_string(phase->max_rows())
                                                       : "") +
               ", reads " + formatBytes(phaseBytesRead(*phase, phase->max_rows())) + " for " +
               std::to_string(phase->max_rows()) + (phase->max_rows() == 1 ? " row" : " rows");
      if (phase->outputs() && phase->outputs()->size() != 0)
        out += ", outputs " + std::to_string(phase->outputs()->size());
      out += "\n";
    }
    if (const std::string drafts = draftText(*target, model); !drafts.empty())
      out += label("drafts") + drafts + "\n";
    out += label("memory") + "states " + formatBytes(ledger.states) + ", arena " +
           formatBytes(ledger.arena) + (ledger.onDevice ? ", packed weights " + formatBytes(ledger.packed) : "") + ", scratch " + formatBytes(ledger.scratchPerThread) +
           " per thread\n";
  }
  for (const plan::Blob *blob : *plan.blobs())
    out += "blob        " + text(blob->name()) + ": " + formatBytes(blob->bytes()) + " at " +
           std::to_string(blob->offset()) + "\n";
  if (plan.provenance())
    for (const plan::KeyValue *entry : *plan.provenance())
      out += "provenance  " + text(entry->key()) + " = " + text(entry->value()) + "\n";
  return out;
}

std::string describeKernels(const PlanView &view) {
  std::string out;
  for (const plan::Target *target : *view->targets()) {
    std::map<uint32_t, std::map<std::string, size_t>> uses;
    std::map<uint32_t, const plan::Launch *> first;
    for (const plan::Phase *phase : *target->phases())
      for (const plan::Launch *launch : *phase->launches()) {
        ++uses[launch->kernel()][text(phase->name())];
        first.try_emplace(launch->kernel(), launch);
      }
    out += text(target->name()) + ": " + std::to_string(target->kernels()->size()) + " kernels\n";
    TextTable table("  ");
    table.row({"kernel", "family", "profile", "code", "launches", "tiles", "scratch", "args"});
    for (uint32_t i = 0; i < target->kernels()->size(); ++i) {
      const plan::Kernel &kernel = *target->kernels()->Get(i);
      std::string launches;
      for (const auto &[phase, count] : uses[i])
        launches += (launches.empty() ? "" : ", ") + phase + " " + std::to_string(count);
      table.row({text(kernel.name()), text(kernel.family()), text(kernel.profile()),
                 kernel.kind() == plan::KernelKind::Elf ? text(kernel.symbol())
                                                        : "built-in " + text(kernel.symbol()),
                 launches, first.count(i) ? tileText(*first[i]) : "-",
                 formatBytes(kernel.scratch_bytes()), std::to_string(kernel.num_args())});
    }
    out += table.render();
  }
  return out;
}

std::string describeTrace(const PlanView &view) {
  std::string out;
  for (const plan::Target *target : *view->targets()) {
    out += text(target->name()) + "\n";
    std::string phase;
    if (!target->traces())
      continue;
    for (const plan::Trace *trace : *target->traces()) {
      if (text(trace->phase()) != phase) {
        phase = text(trace->phase());
        out += "  " + phase + "\n";
      }
      out += "    " + text(trace->op());
      if (trace->launches() > 1)
        out += " and " + std::to_string(trace->launches() - 1) + " more";
      out += ": " + text(trace->signature()) + "\n      -> " +
             text(target->kernels()->Get(trace->kernel())->name()) + "\n";
      TextTable table("         ");
      for (const char *verdict : {"accepted", "lower priority", "forbidden by policy", "rejected"})
        for (const plan::Verdict *entry : *trace->verdicts())
          if (text(entry->verdict()) == verdict)
            table.row({text(entry->candidate()), verdict, text(entry->reason())});
      out += table.render();
    }
  }
  return out;
}

std::string describeLedger(const PlanView &view, uint64_t threads) {
  std::string out;
  for (const plan::Target *target : *view->targets()) {
    const PlanLedger ledger = planLedger(view, *target);
    out += text(target->name()) + ", one context of " +
           std::to_string(view->model()->max_context()) + " positions, " + std::to_string(threads) +
           (threads == 1 ? " thread\n" : " threads\n");
    TextTable table("  ");
    auto line = [&](const std::string &what, uint64_t bytes, const std::string &note) {
      table.row({what, std::to_string(bytes), formatBytes(bytes), note});
    };
    line("weights", ledger.weights, "mapped from the artifact");
    line("plan", ledger.plan, "mapped from the plan");
    if (ledger.onDevice) {
      line("packed", ledger.packed, "weights on the device");
      line("staging", ledger.staging, "on the device, while weights are loaded; not in the total");
    }
    std::map<std::string, std::pair<uint64_t, uint64_t>> kinds; // count, bytes
    for (const plan::State *state : *target->states()) {
      auto &entry = kinds[text(state->kind())];
      ++entry.first;
      entry.second += state->bytes();
    }
    for (const auto &[kind, entry] : kinds)
      line("state " + kind, entry.second,
           std::to_string(entry.first) + (entry.first == 1 ? " state" : " states"));
    line("arena", ledger.arena, "activations");
    line("scratch", ledger.scratchPerThread * threads,
         std::to_string(ledger.scratchPerThread) + " per thread");
    line("total", ledger.total(threads), "");
    out += table.render();
  }
  return out;
}

} // namespace ninfer
