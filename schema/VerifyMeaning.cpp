// Stage 2 of the plan verifier: what the numbers mean. Runs only on bytes stage 1 accepted.
#include "schema/Verify.h"

#include "schema/VerifyCuda.h"
#include "support/Sha256.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ninfer {
namespace {

/// No size, row or tile count of a plan may exceed this, so sums of a few never overflow 64 bits.
constexpr uint64_t kMaxBytes = 1ull << 48;
constexpr uint64_t kMaxTiles = 1ull << 40;
constexpr uint32_t kMaxArgs = 64;
constexpr uint32_t kMaxStateAlign = 4096;

/// Rule families of stage 2; docs/errors.md lists them.
constexpr char kName[] = "NB0510", kArtifact[] = "NB0511", kModel[] = "NB0512",
               kParameter[] = "NB0513", kBlob[] = "NB0514", kTarget[] = "NB0515",
               kKernel[] = "NB0516", kState[] = "NB0517", kPhase[] = "NB0518", kLaunch[] = "NB0519",
               kRef[] = "NB0520", kOverlap[] = "NB0521", kTrace[] = "NB0522", kPadding[] = "NB0523",
               kCuda[] = "NB0524";

template <typename T>
using TableVector = flatbuffers::Vector<flatbuffers::Offset<T>>;

template <typename T>
uint32_t sizeOf(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

std::string at(const std::string &path, const char *list, uint32_t index) {
  return (path.empty() ? std::string() : path + ".") + list + "[" + std::to_string(index) + "]";
}

uint64_t alignUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

/// The generated verifier checks the alignment of a vector's length, not that of its elements.
template <typename T>
bool isAligned(const flatbuffers::Vector<T> &vector) {
  return reinterpret_cast<uintptr_t>(vector.Data()) % alignof(T) == 0;
}

class MeaningVerifier {
public:
  MeaningVerifier(std::span<const std::byte> bytes, std::string_view file)
      : bytes_(bytes), file_(file), fb_(bytes.data() + kPlanHeaderBytes),
        plan_(*plan::GetPlan(fb_)) {}

  Status run() {
    NINFER_RETURN_IF_ERROR(artifact());
    NINFER_RETURN_IF_ERROR(model());
    NINFER_RETURN_IF_ERROR(parameters());
    NINFER_RETURN_IF_ERROR(blobs());
    if (plan_.targets()->size() == 0)
      return fail(kTarget, "targets", "is empty, expected at least one");
    std::set<std::string_view> names;
    for (uint32_t i = 0; i < plan_.targets()->size(); ++i) {
      const std::string path = at("", "targets", i);
      const plan::Target &target = *plan_.targets()->Get(i);
      NINFER_RETURN_IF_ERROR(uniqueName(path + ".name", target.name(), names));
      NINFER_RETURN_IF_ERROR(this->target(path, target));
    }
    std::set<std::string_view> keys;
    for (uint32_t i = 0; i < sizeOf(plan_.provenance()); ++i) {
      const std::string path = at("", "provenance", i);
      NINFER_RETURN_IF_ERROR(uniqueName(path + ".key", plan_.provenance()->Get(i)->key(), keys));
      NINFER_RETURN_IF_ERROR(text(path + ".value", plan_.provenance()->Get(i)->value(), true));
    }
    return {};
  }

private:
  Status fail(const char *code, const std::string &path, std::string rule) const {
    return makeError(ErrorKind::BadFile, code,
                     std::string(file_) + ": plan " + path + " " + std::move(rule));
  }

  // --- text
  // -------------------------------------------------------------------------------------------

  /// Names reach terminals and logs: no control characters.
  Status text(const std::string &path, const flatbuffers::String *value, bool mayBeEmpty) const {
    if (!value || value->size() == 0)
      return mayBeEmpty ? Status() : fail(kName, path, "is empty");
    for (char c : value->string_view())
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
        return fail(kName, path, "contains a control character");
    return {};
  }

  Status uniqueName(const std::string &path, const flatbuffers::String *value,
                    std::set<std::string_view> &seen) const {
    NINFER_RETURN_IF_ERROR(text(path, value, false));
    if (!seen.insert(value->string_view()).second)
      return fail(kName, path, "'" + value->str() + "' occurs twice");
    return {};
  }

  Status digest(const char *code, const std::string &path,
                const flatbuffers::Vector<uint8_t> *value) const {
    if (value->size() != 32)
      return fail(code, path, "has " + std::to_string(value->size()) + " bytes, expected 32");
    return {};
  }

  Status inRange(const char *code, const std::string &path, uint64_t value, uint64_t low,
                 uint64_t high) const {
    if (value < low || value > high)
      return fail(code, path,
                  "is " + std::to_string(value) + ", expected " + std::to_string(low) + " to " +
                      std::to_string(high));
    return {};
  }

  // --- plan-wide tables
  // -------------------------------------------------------------------------------

  Status artifact() const {
    const plan::ArtifactBinding &binding = *plan_.artifact();
    NINFER_RETURN_IF_ERROR(inRange(kArtifact, "artifact.framing", binding.framing(), 1, 3));
    NINFER_RETURN_IF_ERROR(
        digest(kArtifact, "artifact.storage_signature", binding.storage_signature()));
    NINFER_RETURN_IF_ERROR(
        inRange(kArtifact, "artifact.payload_bytes", binding.payload_bytes(), 1, kMaxBytes));
    NINFER_RETURN_IF_ERROR(text("artifact.file_name", binding.file_name(), true));
    NINFER_RETURN_IF_ERROR(text("artifact.public_name", binding.public_name(), true));
    if (binding.file_name() && binding.file_name()->size() != 0) {
      const std::string_view name = binding.file_name()->string_view();
      if (name == "." || name == ".." || name.find_first_of("/\\") != std::string_view::npos)
        return fail(kArtifact, "artifact.file_name",
                    "'" + std::string(name) + "' is not a plain file name");
    }
    return binding.head() ? head(binding) : Status();
  }

  Status head(const plan::ArtifactBinding &binding) const {
    const plan::ArtifactHead &head = *binding.head();
    NINFER_RETURN_IF_ERROR(inRange(kArtifact, "artifact.head.bytes", head.bytes(), 1, kMaxBytes));
    NINFER_RETURN_IF_ERROR(digest(kArtifact, "artifact.head.sha256", head.sha256()));
    std::set<std::string_view> roles;
    for (uint32_t i = 0; head.resources() && i < head.resources()->size(); ++i) {
      const plan::Resource &resource = *head.resources()->Get(i);
      const std::string path = at("artifact.head", "resources", i);
      NINFER_RETURN_IF_ERROR(uniqueName(path + ".role", resource.role(), roles));
      NINFER_RETURN_IF_ERROR(inRange(kArtifact, path + ".bytes", resource.bytes(), 1, binding.payload_bytes()));
      NINFER_RETURN_IF_ERROR(inRange(kArtifact, path + ".offset", resource.offset(), 0, binding.payload_bytes() - resource.bytes()));
    }
    return {};
  }

  Status model() const {
    const plan::ModelInfo &model = *plan_.model();
    NINFER_RETURN_IF_ERROR(text("model.architecture", model.architecture(), false));
    constexpr uint64_t maxInt32 = (1ull << 31) - 1;
    NINFER_RETURN_IF_ERROR(inRange(kModel, "model.vocab_size", model.vocab_size(), 1, maxInt32));
    NINFER_RETURN_IF_ERROR(inRange(kModel, "model.max_context", model.max_context(), 1, maxInt32));
    NINFER_RETURN_IF_ERROR(
        inRange(kModel, "model.prefill_chunk", model.prefill_chunk(), 1, model.max_context()));
    return inRange(kModel, "model.layers", model.layers(), 1, maxInt32);
  }

  Status parameters() const {
    std::set<std::string_view> names;
    for (uint32_t i = 0; i < plan_.parameters()->size(); ++i) {
      const plan::Parameter &parameter = *plan_.parameters()->Get(i);
      const std::string path = at("", "parameters", i);
      NINFER_RETURN_IF_ERROR(uniqueName(path + ".name", parameter.name(), names));
      NINFER_RETURN_IF_ERROR(text(path + ".format", parameter.format(), false));
      NINFER_RETURN_IF_ERROR(text(path + ".layout", parameter.layout(), false));
      if (!isAligned(*parameter.shape()))
        return fail(kParameter, path + ".shape", "is not aligned to 8 bytes");
      uint64_t elements = 1;
      for (uint32_t d = 0; d < parameter.shape()->size(); ++d) {
        const uint64_t size = parameter.shape()->Get(d);
        if (size == 0 || size > kMaxBytes / elements)
          return fail(kParameter, at(path, "shape", d),
                      "is " + std::to_string(size) + ", zero or too large");
        elements *= size;
      }
      NINFER_RETURN_IF_ERROR(inRange(kParameter, path + ".bytes", parameter.bytes(), 1,
                                     plan_.artifact()->payload_bytes()));
    }
    return {};
  }

  /// Blobs follow the FlatBuffer in order, each at the next 4096-aligned offset, zeros between,
  /// nothing after.
  Status blobs() const {
    uint64_t end = kPlanHeaderBytes + flatbuffers::ReadScalar<uint64_t>(bytes_.data() + 24);
    std::set<std::string_view> names;
    for (uint32_t i = 0; i < plan_.blobs()->size(); ++i) {
      const plan::Blob &blob = *plan_.blobs()->Get(i);
      const std::string path = at("", "blobs", i);
      NINFER_RETURN_IF_ERROR(uniqueName(path + ".name", blob.name(), names));
      const uint64_t expected = alignUp(end, kPlanBlobAlign);
      if (blob.offset() != expected)
        return fail(kBlob, path + ".offset",
                    "is " + std::to_string(blob.offset()) + ", expected " +
                        std::to_string(expected) + " (4096-aligned, in order, no gap)");
      if (blob.bytes() == 0 || expected > bytes_.size() || blob.bytes() > bytes_.size() - expected)
        return fail(kBlob, path,
                    "covers [" + std::to_string(expected) + ", +" + std::to_string(blob.bytes()) +
                        "), outside the file of " + std::to_string(bytes_.size()) + " bytes");
      NINFER_RETURN_IF_ERROR(zeroPadding(end, expected));
      NINFER_RETURN_IF_ERROR(digest(kBlob, path + ".sha256", blob.sha256()));
      const auto actual = sha256(bytes_.subspan(expected, blob.bytes()));
      if (std::memcmp(actual.data(), blob.sha256()->data(), actual.size()) != 0)
        return fail(kBlob, path + ".sha256", "differs from the digest of the blob");
      end = expected + blob.bytes();
    }
    if (end != bytes_.size())
      return fail(kBlob, "file size",
                  "is " + std::to_string(bytes_.size()) + ", expected " + std::to_string(end) +
                      " (the end of the last blob)");
    return {};
  }

  Status zeroPadding(uint64_t begin, uint64_t end) const {
    const auto gap = bytes_.subspan(begin, end - begin);
    if (std::any_of(gap.begin(), gap.end(), [](std::byte b) { return b != std::byte{0}; }))
      return fail(kPadding, "padding before offset " + std::to_string(end), "is not zero");
    return {};
  }

  // --- targets
  // ----------------------------------------------------------------------------------------

  Status target(const std::string &path, const plan::Target &target) const {
    NINFER_RETURN_IF_ERROR(text(path + ".executor", target.executor(), false));
    const std::string_view name = target.name()->string_view(),
                           executor = target.executor()->string_view();
    if (name != executor &&
        (name.size() <= executor.size() || name.substr(0, executor.size()) != executor ||
         name[executor.size()] != ':'))
      return fail(kTarget, path + ".name",
                  "'" + std::string(name) + "' does not begin with its executor '" +
                      std::string(executor) + "'");
    NINFER_RETURN_IF_ERROR(
        inRange(kTarget, path + ".arena_bytes", target.arena_bytes(), 1, kMaxBytes));
    NINFER_RETURN_IF_ERROR(inRange(kTarget, path + ".scratch_bytes_per_thread",
                                   target.scratch_bytes_per_thread(), 0, kMaxBytes));
    std::set<std::string_view> features;
    for (uint32_t i = 0; i < sizeOf(target.cpu_features()); ++i)
      NINFER_RETURN_IF_ERROR(
          uniqueName(at(path, "cpu_features", i), target.cpu_features()->Get(i), features));
    NINFER_RETURN_IF_ERROR(kernels(path, target));
    NINFER_RETURN_IF_ERROR(states(path, target));
    NINFER_RETURN_IF_ERROR(phases(path, target));
    if (const auto finding = verifyCuda(target, plan_.blobs()->size()))
      return fail(kCuda, path + "." + finding->path, finding->rule);
    return traces(path, target);
  }

  Status kernels(const std::string &parent, const plan::Target &target) const {
    std::set<std::string_view> names;
    for (uint32_t i = 0; i < target.kernels()->size(); ++i) {
      const plan::Kernel &kernel = *target.kernels()->Get(i);
      const std::string path = at(parent, "kernels", i);
      NINFER_RETURN_IF_ERROR(uniqueName(path + ".name", kernel.name(), names));
      NINFER_RETURN_IF_ERROR(text(path + ".symbol", kernel.symbol(), false));
      NINFER_RETURN_IF_ERROR(text(path + ".family", kernel.family(), true));
      NINFER_RETURN_IF_ERROR(text(path + ".profile", kernel.profile(), true));
      NINFER_RETURN_IF_ERROR(inRange(kKernel, path + ".scratch_bytes", kernel.scratch_bytes(), 0,
                                     target.scratch_bytes_per_thread()));
      NINFER_RETURN_IF_ERROR(inRange(kKernel, path + ".num_args", kernel.num_args(), 1, kMaxArgs));
      switch (kernel.kind()) {
      case plan::KernelKind::Elf:
        if (kernel.blob() >= plan_.blobs()->size())
          return fail(kKernel, path + ".blob",
                      "is " + std::to_string(kernel.blob()) + ", the plan has " +
                          std::to_string(plan_.blobs()->size()) + " blobs");
        if (sizeOf(kernel.attributes()) != 0)
          return fail(kKernel, path + ".attributes",
                      "is not empty, but the kernel is not a built-in");
        break;
      case plan::KernelKind::Builtin:
        NINFER_RETURN_IF_ERROR(attributes(path, kernel));
        break;
      case plan::KernelKind::Cuda: // VerifyCuda.cpp
        if (sizeOf(kernel.attributes()) != 0)
          return fail(kKernel, path + ".attributes",
                      "is not empty, but the kernel is not a built-in");
        break;
      default:
        return fail(kKernel, path + ".kind",
                    "is " + std::to_string(static_cast<unsigned>(kernel.kind())) +
                        ", not a known kernel kind");
      }
    }
    return {};
  }

  Status attributes(const std::string &parent, const plan::Kernel &kernel) const {
    std::set<std::string_view> names;
    for (uint32_t i = 0; i < sizeOf(kernel.attributes()); ++i) {
      const plan::Attribute &attribute = *kernel.attributes()->Get(i);
      const std::string path = at(parent, "attributes", i);
      NINFER_RETURN_IF_ERROR(uniqueName(path + ".name", attribute.name(), names));
      switch (attribute.type()) {
      case plan::AttributeType::Int:
        break;
      case plan::AttributeType::Float:
        if (!std::isfinite(attribute.f()))
          return fail(kKernel, path + ".f", "is not finite");
        break;
      case plan::AttributeType::String:
        NINFER_RETURN_IF_ERROR(text(path + ".s", attribute.s(), false));
        break;
      case plan::AttributeType::Floats:
        if (sizeOf(attribute.floats()) == 0)
          return fail(kKernel, path + ".floats", "is empty");
        if (!isAligned(*attribute.floats()))
          return fail(kKernel, path + ".floats", "is not aligned to 8 bytes");
        for (uint32_t k = 0; k < attribute.floats()->size(); ++k)
          if (!std::isfinite(attribute.floats()->Get(k)))
            return fail(kKernel, at(path, "floats", k), "is not finite");
        break;
      default:
        return fail(kKernel, path + ".type",
                    "is " + std::to_string(static_cast<unsigned>(attribute.type())) +
                        ", not a known attribute type");
      }
    }
    return {};
  }

  Status states(const std::string &parent, const plan::Target &target) const {
    std::set<std::string_view> names;
    uint64_t total = 0;
    for (uint32_t i = 0; i < target.states()->size(); ++i) {
      const plan::State &state = *target.states()->Get(i);
      const std::string path = at(parent, "states", i);
      NINFER_RETURN_IF_ERROR(uniqueName(path + ".name", state.name(), names));
      NINFER_RETURN_IF_ERROR(text(path + ".kind", state.kind(), true));
      NINFER_RETURN_IF_ERROR(inRange(kState, path + ".bytes", state.bytes(), 1, kMaxBytes));
      if (state.align() == 0 || (state.align() & (state.align() - 1)) != 0 ||
          state.align() > kMaxStateAlign)
        return fail(kState, path + ".align",
                    "is " + std::to_string(state.align()) + ", expected a power of two up to 4096");
      total += state.bytes() + state.align();
      if (total > kMaxBytes)
        return fail(kState, parent + ".states", "need more than 2^48 bytes together");
    }
    return {};
  }

  Status phases(const std::string &parent, const plan::Target &target) const {
    std::set<std::string_view> names;
    std::set<plan::PhaseKind> kinds;
    for (uint32_t i = 0; i < target.phases()->size(); ++i) {
      const plan::Phase &phase = *target.phases()->Get(i);
      const std::string path = at(parent, "phases", i);
      NINFER_RETURN_IF_ERROR(uniqueName(path + ".name", phase.name(), names));
      const auto kind = static_cast<unsigned>(phase.kind());
      if (phase.kind() < plan::PhaseKind::Setup || phase.kind() > plan::PhaseKind::Place)
        return fail(kPhase, path + ".kind",
                    "is " + std::to_string(kind) + ", not a known phase kind");
      if (!kinds.insert(phase.kind()).second)
        return fail(kPhase, path + ".kind",
                    std::string(plan::EnumNamePhaseKind(phase.kind())) + " occurs twice");
      NINFER_RETURN_IF_ERROR(phaseRows(path, target, phase));
      for (uint32_t k = 0; k < phase.launches()->size(); ++k)
        NINFER_RETURN_IF_ERROR(
            launch(at(path, "launches", k), target, phase, *phase.launches()->Get(k)));
    }
    for (plan::PhaseKind needed : {plan::PhaseKind::Decode, plan::PhaseKind::Prefill})
      if (!kinds.count(needed))
        return fail(kPhase, parent + ".phases",
                    std::string("has no ") + plan::EnumNamePhaseKind(needed) + " phase");
    // Draft proposes, DraftNext goes on, Verify judges: one is of no use without the others.
    using plan::PhaseKind;
    for (auto [kind, needed] : {std::pair{PhaseKind::Draft, PhaseKind::DraftNext},
                                std::pair{PhaseKind::Draft, PhaseKind::Verify},
                                std::pair{PhaseKind::DraftNext, PhaseKind::Draft},
                                std::pair{PhaseKind::Commit, PhaseKind::Verify}})
      if (kinds.count(kind) && !kinds.count(needed))
        return fail(kPhase, parent + ".phases",
                    std::string("has a ") + plan::EnumNamePhaseKind(kind) + " phase and no " +
                        plan::EnumNamePhaseKind(needed) + " phase");
    return speculativeRows(parent, target);
  }

  /// A Draft call takes the rows of any text call, a Commit call those of a Verify call, down to one; a Verify call
  /// holds a token and a draft.
  Status speculativeRows(const std::string &parent, const plan::Target &target) const {
    using plan::PhaseKind;
    auto rows = [&](PhaseKind kind) -> uint64_t {
      for (const plan::Phase *phase : *target.phases())
        if (phase->kind() == kind)
          return phase->max_rows();
      return 0;
    };
    const uint64_t text = std::max(rows(PhaseKind::Prefill), rows(PhaseKind::Verify));
    if (const uint64_t draft = rows(PhaseKind::Draft); draft != 0 && draft != text)
      return fail(kPhase, parent + ".phases",
                  "has a Draft phase of " + std::to_string(draft) + " rows, expected " +
                      std::to_string(text) + " (the longest call of the text model)");
    if (const uint64_t commit = rows(PhaseKind::Commit); commit != 0 && commit != rows(PhaseKind::Verify))
      return fail(kPhase, parent + ".phases",
                  "has a Commit phase of " + std::to_string(commit) + " rows, expected " +
                      std::to_string(rows(PhaseKind::Verify)) + " (those of Verify)");
    if (rows(PhaseKind::Draft) != 0 && rows(PhaseKind::Verify) < 2)
      return fail(kPhase, parent + ".phases",
                  "has a Draft phase and a Verify phase of 1 row, which has no room for a draft");
    for (const plan::Phase *phase : *target.phases())
      if ((phase->kind() == PhaseKind::Draft || phase->kind() == PhaseKind::Commit) && phase->min_rows() != 1)
        return fail(kPhase, parent + ".phases",
                    std::string("has a ") + plan::EnumNamePhaseKind(phase->kind()) + " phase of at least " +
                        std::to_string(phase->min_rows()) + " rows, expected 1");
    return {};
  }

  /// What the caller writes and reads around a call of a phase.
  struct Buffers {
    bool tokens, logits, tokenIds, ports;
  };
  static Buffers buffersOf(plan::PhaseKind kind) {
    switch (kind) {
    case plan::PhaseKind::Setup:
    case plan::PhaseKind::Load:
    case plan::PhaseKind::Commit:
      return {false, false, false, false};
    case plan::PhaseKind::Draft:
    case plan::PhaseKind::DraftNext:
      return {true, true, true, true};
    case plan::PhaseKind::Encode:
    case plan::PhaseKind::Place:
      return {false, false, false, true};
    default:
      return {true, true, false, true};
    }
  }

  /// Rows and buffers of one phase. Setup runs once with rows 1.
  Status phaseRows(const std::string &path, const plan::Target &target,
                   const plan::Phase &phase) const {
    const plan::PhaseKind kind = phase.kind();
    const bool single = kind == plan::PhaseKind::Setup || kind == plan::PhaseKind::Decode ||
                        kind == plan::PhaseKind::DraftNext || kind == plan::PhaseKind::Load;
    // Encode takes rows of its own kind, not positions of the context.
    const uint64_t most = single                            ? 1
                          : kind == plan::PhaseKind::Encode ? uint64_t{1} << 20
                                                            : plan_.model()->max_context();
    NINFER_RETURN_IF_ERROR(inRange(kPhase, path + ".max_rows", phase.max_rows(), 1, most));
    NINFER_RETURN_IF_ERROR(
        inRange(kPhase, path + ".min_rows", phase.min_rows(), 1, phase.max_rows()));
    const Buffers has = buffersOf(kind);
    if (has.tokens != (phase.tokens() != nullptr) || has.logits != (phase.logits() != nullptr))
      return fail(kPhase, path,
                  std::string("is a ") + plan::EnumNamePhaseKind(kind) + " phase and " +
                      (has.tokens ? "lacks its tokens or its logits"
                                  : "may have neither tokens nor logits"));
    if (!has.tokenIds && phase.token_ids())
      return fail(kPhase, path + ".token_ids",
                  std::string("is set, but a ") + plan::EnumNamePhaseKind(kind) +
                      " phase gives logits of the whole vocabulary or none");
    NINFER_RETURN_IF_ERROR(ports(path, "inputs", target, phase, phase.inputs(), has.ports));
    NINFER_RETURN_IF_ERROR(ports(path, "outputs", target, phase, phase.outputs(), has.ports));
    if (kind == plan::PhaseKind::Setup)
      return {};
    if (phase.launches()->size() == 0)
      return fail(kPhase, path + ".launches", "is empty");
    return has.tokens ? tokensAndLogits(path, target, phase) : Status();
  }

  Status tokensAndLogits(const std::string &path, const plan::Target &target,
                         const plan::Phase &phase) const {
    NINFER_RETURN_IF_ERROR(ref(path + ".tokens", target, *phase.tokens()));
    NINFER_RETURN_IF_ERROR(ref(path + ".logits", target, *phase.logits()));
    if (phase.tokens()->space() != plan::Space::Arena ||
        phase.logits()->space() != plan::Space::Arena)
      return fail(kRef, path, "keeps tokens or logits outside the arena");
    const uint64_t tokenBytes = uint64_t{phase.max_rows()} * 4;
    if (phase.tokens()->bytes() != tokenBytes)
      return fail(kPhase, path + ".tokens",
                  "has " + std::to_string(phase.tokens()->bytes()) + " bytes, expected " +
                      std::to_string(tokenBytes));
    uint64_t logits = plan_.model()->vocab_size();
    if (phase.token_ids()) {
      NINFER_RETURN_IF_ERROR(ref(path + ".token_ids", target, *phase.token_ids()));
      const uint64_t bytes = phase.token_ids()->bytes();
      if (phase.token_ids()->space() != plan::Space::Payload || bytes % 4 != 0 ||
          bytes / 4 > logits)
        return fail(kPhase, path + ".token_ids",
                    "has " + std::to_string(bytes) + " bytes of " +
                        plan::EnumNameSpace(phase.token_ids()->space()) +
                        ", expected Payload, four bytes for each of at most " +
                        std::to_string(logits) + " tokens");
      logits = bytes / 4;
    }
    const uint64_t logitRows = phase.kind() == plan::PhaseKind::Verify ? phase.max_rows() : 1;
    const uint64_t logitBytes = logits * 4 * logitRows;
    if (phase.logits()->bytes() != logitBytes)
      return fail(kPhase, path + ".logits",
                  "has " + std::to_string(phase.logits()->bytes()) + " bytes, expected " +
                      std::to_string(logitBytes));
    return {};
  }

  Status ports(const std::string &parent, const char *list, const plan::Target &target,
               const plan::Phase &phase, const TableVector<plan::Port> *ports, bool allowed) const {
    if (!allowed && sizeOf(ports) != 0)
      return fail(kPhase, parent + "." + list,
                  std::string("is not empty, but a ") + plan::EnumNamePhaseKind(phase.kind()) +
                      " phase has no ports");
    std::set<std::string_view> names;
    for (uint32_t i = 0; i < sizeOf(ports); ++i) {
      const plan::Port &port = *ports->Get(i);
      const std::string path = at(parent, list, i);
      NINFER_RETURN_IF_ERROR(uniqueName(path + ".name", port.name(), names));
      if (port.element() < plan::ElementType::F32 || port.element() > plan::ElementType::BF16)
        return fail(kPhase, path + ".element",
                    "is " + std::to_string(static_cast<unsigned>(port.element())) +
                        ", not a known element type");
      NINFER_RETURN_IF_ERROR(inRange(kPhase, path + ".width", port.width(), 1, 1u << 24));
      NINFER_RETURN_IF_ERROR(ref(path + ".ref", target, *port.ref()));
      const uint64_t row = uint64_t{port.width()} * elementBytes(port.element()), bytes = phase.max_rows() * row;
      const bool lastRow = ports == phase.outputs() && port.ref()->bytes() == row;
      if (port.ref()->space() != plan::Space::Arena || (port.ref()->bytes() != bytes && !lastRow))
        return fail(kPhase, path + ".ref",
                    "has " + std::to_string(port.ref()->bytes()) + " bytes of " +
                        plan::EnumNameSpace(port.ref()->space()) + ", expected " +
                        std::to_string(bytes) + " of Arena" +
                        (ports == phase.outputs() ? ", or one row of " + std::to_string(row) : ""));
    }
    return {};
  }

  Status launch(const std::string &path, const plan::Target &target, const plan::Phase &phase,
                const plan::Launch &launch) const {
    NINFER_RETURN_IF_ERROR(text(path + ".label", launch.label(), true));
    if (launch.kernel() >= target.kernels()->size())
      return fail(kLaunch, path + ".kernel",
                  "is " + std::to_string(launch.kernel()) + ", the target has " +
                      std::to_string(target.kernels()->size()) + " kernels");
    const plan::Kernel &kernel = *target.kernels()->Get(launch.kernel());
    if (launch.args()->size() != kernel.num_args())
      return fail(kLaunch, path + ".args",
                  "has " + std::to_string(launch.args()->size()) + " entries, kernel '" +
                      kernel.name()->str() + "' takes " + std::to_string(kernel.num_args()));
    NINFER_RETURN_IF_ERROR(
        inRange(kLaunch, path + ".tiles_const", launch.tiles_const(), 0, kMaxTiles));
    NINFER_RETURN_IF_ERROR(
        inRange(kLaunch, path + ".tiles_per_row", launch.tiles_per_row(), 0, kMaxTiles));
    if (launch.tiles_per_row() > (kMaxTiles - launch.tiles_const()) / phase.max_rows())
      return fail(kLaunch, path, "has more than 2^40 tiles at its largest row count");
    if (launch.tiles_const() == 0 && launch.tiles_per_row() == 0)
      return fail(kLaunch, path, "has no tiles");
    for (uint32_t i = 0; i < launch.args()->size(); ++i)
      NINFER_RETURN_IF_ERROR(ref(at(path, "args", i), target, *launch.args()->Get(i)));
    return overlap(path, launch);
  }

  /// One range of one memory space.
  Status ref(const std::string &path, const plan::Target &target, const plan::Ref &ref) const {
    uint64_t limit = 0, align = kPlanArgAlign;
    switch (ref.space()) {
    case plan::Space::Payload:
      limit = plan_.artifact()->payload_bytes();
      align = 1;
      break;
    case plan::Space::Arena:
      limit = target.arena_bytes();
      break;
    case plan::Space::State:
      if (ref.index() >= target.states()->size())
        return fail(kRef, path,
                    "names state " + std::to_string(ref.index()) + ", the target has " +
                        std::to_string(target.states()->size()));
      limit = target.states()->Get(ref.index())->bytes();
      break;
    case plan::Space::Packed:
      limit = target.cuda() ? target.cuda()->packed_bytes() : 0;
      break;
    case plan::Space::Constant:
      if (ref.index() >= plan_.blobs()->size())
        return fail(kRef, path,
                    "names blob " + std::to_string(ref.index()) + ", the plan has " +
                        std::to_string(plan_.blobs()->size()));
      limit = plan_.blobs()->Get(ref.index())->bytes();
      break;
    default:
      return fail(kRef, path + ".space",
                  "is " + std::to_string(static_cast<unsigned>(ref.space())) +
                      ", not a known memory space");
    }
    if (ref.space() != plan::Space::State && ref.space() != plan::Space::Constant &&
        ref.index() != 0)
      return fail(kRef, path + ".index",
                  "is " + std::to_string(ref.index()) + ", expected 0 in this space");
    if (ref.bytes() == 0 || ref.offset() > limit || ref.bytes() > limit - ref.offset())
      return fail(kRef, path,
                  "covers [" + std::to_string(ref.offset()) + ", +" + std::to_string(ref.bytes()) +
                      ") of " + plan::EnumNameSpace(ref.space()) + ", which has " +
                      std::to_string(limit) + " bytes");
    if (ref.offset() % align != 0)
      return fail(kRef, path + ".offset",
                  "is " + std::to_string(ref.offset()) + ", expected a multiple of " +
                      std::to_string(align));
    return {};
  }

  /// Arena and state arguments of one launch are identical (in place) or disjoint.
  Status overlap(const std::string &path, const plan::Launch &launch) const {
    for (uint32_t i = 0; i < launch.args()->size(); ++i) {
      const plan::Ref &a = *launch.args()->Get(i);
      if (a.space() != plan::Space::Arena && a.space() != plan::Space::State)
        continue;
      for (uint32_t k = i + 1; k < launch.args()->size(); ++k) {
        const plan::Ref &b = *launch.args()->Get(k);
        if (a.space() != b.space() || a.index() != b.index())
          continue;
        const bool identical = a.offset() == b.offset() && a.bytes() == b.bytes();
        if (!identical && a.offset() < b.offset() + b.bytes() &&
            b.offset() < a.offset() + a.bytes())
          return fail(kOverlap, path,
                      "arguments " + std::to_string(i) + " and " + std::to_string(k) +
                          " overlap without being equal");
      }
    }
    return {};
  }

  Status traces(const std::string &parent, const plan::Target &target) const {
    static constexpr std::string_view known[] = {"accepted", "rejected", "lower priority",
                                                 "forbidden by policy"};
    for (uint32_t i = 0; i < sizeOf(target.traces()); ++i) {
      const plan::Trace &trace = *target.traces()->Get(i);
      const std::string path = at(parent, "traces", i);
      NINFER_RETURN_IF_ERROR(text(path + ".op", trace.op(), false));
      NINFER_RETURN_IF_ERROR(text(path + ".phase", trace.phase(), false));
      NINFER_RETURN_IF_ERROR(text(path + ".signature", trace.signature(), false));
      if (trace.kernel() >= target.kernels()->size())
        return fail(kTrace, path + ".kernel",
                    "is " + std::to_string(trace.kernel()) + ", the target has " +
                        std::to_string(target.kernels()->size()) + " kernels");
      unsigned accepted = 0;
      for (uint32_t k = 0; k < trace.verdicts()->size(); ++k) {
        const plan::Verdict &verdict = *trace.verdicts()->Get(k);
        const std::string at = ninfer::at(path, "verdicts", k);
        NINFER_RETURN_IF_ERROR(text(at + ".candidate", verdict.candidate(), false));
        NINFER_RETURN_IF_ERROR(text(at + ".verdict", verdict.verdict(), false));
        NINFER_RETURN_IF_ERROR(text(at + ".reason", verdict.reason(), true));
        if (std::find(std::begin(known), std::end(known), verdict.verdict()->string_view()) ==
            std::end(known))
          return fail(kTrace, at + ".verdict",
                      "'" + verdict.verdict()->str() + "' is not a known verdict");
        accepted += verdict.verdict()->string_view() == "accepted";
      }
      if (accepted != 1)
        return fail(kTrace, path,
                    "has " + std::to_string(accepted) + " accepted candidates, expected 1");
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  const std::byte *fb_;
  const plan::Plan &plan_;
};

} // namespace

Status verifyPlanMeaning(std::span<const std::byte> bytes, std::string_view fileName) {
  return MeaningVerifier(bytes, fileName).run();
}

} // namespace ninfer
