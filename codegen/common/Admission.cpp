#include "codegen/common/Admission.h"

#include <algorithm>

namespace ninfer {

std::string_view verdictName(VerdictKind kind) {
  switch (kind) {
  case VerdictKind::Accepted:
    return "accepted";
  case VerdictKind::Rejected:
    return "rejected";
  case VerdictKind::LowerPriority:
    return "lower priority";
  case VerdictKind::ForbiddenByPolicy:
    return "forbidden by policy";
  }
  return "unknown";
}

namespace {

/// Collects the failed predicates of one candidate, each as "name: expected X, got Y".
class Checks {
public:
  void fail(std::string_view predicate, std::string_view expected, std::string_view actual) {
    ++failures_;
    if (!reason_.empty())
      reason_ += "; ";
    reason_.append(predicate)
        .append(": expected ")
        .append(expected)
        .append(", got ")
        .append(actual);
  }

  void limit(std::string_view predicate, const Limit &limit, int64_t value) {
    if (limit.accepts(value))
      return;
    std::string expected;
    if (value < limit.min)
      expected = "at least " + std::to_string(limit.min);
    else if (value > limit.max)
      expected = "at most " + std::to_string(limit.max);
    else
      expected = "a multiple of " + std::to_string(limit.multiple);
    fail(predicate, expected, std::to_string(value));
  }

  template <typename Enum, typename Name>
  void member(std::string_view predicate, const EnumSet<Enum> &accepted, Enum value, int count,
              Name name) {
    if (accepted.contains(value))
      return;
    std::string expected;
    for (int i = 0; i < count; ++i)
      if (accepted.contains(static_cast<Enum>(i)))
        expected.append(expected.empty() ? "" : ", ").append(name(static_cast<Enum>(i)));
    if (expected.empty())
      expected = "none";
    else if (expected.find(',') != std::string::npos)
      expected = "one of " + expected;
    fail(predicate, expected, name(value));
  }

  int failures() const { return failures_; }
  std::string takeReason() { return std::move(reason_); }

private:
  std::string reason_;
  int failures_ = 0;
};

constexpr int kNumFormats = 9;

std::string segmentName(const KernelSignature &signature, size_t index, std::string_view field) {
  std::string name(field);
  if (signature.weights.size() > 1)
    name += " of segment " + std::to_string(index);
  return name;
}

void checkWeights(Checks &checks, const KernelFamily &family, const KernelSignature &s) {
  checks.limit("segments", family.segments, static_cast<int64_t>(s.weights.size()));
  for (size_t i = 0; i < s.weights.size(); ++i) {
    const WeightSignature &w = s.weights[i];
    checks.member(segmentName(s, i, "format"), family.formats, w.format, kNumFormats,
                  [](Format f) { return canonicalName(f); });
    if (!isRegisteredPair(w.format, w.layout))
      checks.fail(segmentName(s, i, "layout"),
                  "a layout registered for " + std::string(canonicalName(w.format)),
                  canonicalName(w.layout));
    checks.limit(segmentName(s, i, "n"), family.n, w.n);
    checks.limit(segmentName(s, i, "k"), family.k, w.k);
    if (family.uniformFormats.contains(s.epilogue) && w.format != s.weights.front().format)
      checks.fail(segmentName(s, i, "format"),
                  std::string(canonicalName(s.weights.front().format)) + " as in segment 0",
                  canonicalName(w.format));
    if (w.k != s.weights.front().k)
      checks.fail(segmentName(s, i, "k"), std::to_string(s.weights.front().k) + " as in segment 0",
                  std::to_string(w.k));
  }
  if (s.epilogue == KernelEpilogue::Store)
    checks.limit("segments with the store epilogue", {0, family.storeSegments}, static_cast<int64_t>(s.weights.size()));
  if (s.wide)
    checks.limit("segments stored in float32", {0, family.wideSegments}, static_cast<int64_t>(s.weights.size()));
  if (s.epilogue == KernelEpilogue::Residual && s.weights.size() != 1)
    checks.fail("segments with the residual epilogue", "1", std::to_string(s.weights.size()));
  if (s.epilogue != KernelEpilogue::Swiglu)
    return;
  if (s.weights.size() != 2)
    checks.fail("segments with the swiglu epilogue", "2", std::to_string(s.weights.size()));
  else if (s.weights[0].n != s.weights[1].n)
    checks.fail("n of segment 1", std::to_string(s.weights[0].n) + " as in segment 0",
                std::to_string(s.weights[1].n));
}

void checkShapes(Checks &checks, const KernelFamily &family, const KernelSignature &s) {
  checks.limit("rows", family.rows, s.rows.min);
  if (!s.rows.isStatic())
    checks.limit("rows", family.rows, s.rows.max);
  if (s.peek)
    checks.limit("rows that leave the state as it was", family.peekRows, s.rows.max);
  if (s.inputRows != s.rows) {
    checks.limit("input rows", family.inputRows, s.inputRows.min);
    if (!s.inputRows.isStatic())
      checks.limit("input rows", family.inputRows, s.inputRows.max);
  }
  checks.limit("width", family.width, s.width);
  checks.limit("heads", family.heads, s.heads);
  checks.limit("kv heads", family.kvHeads, s.kvHeads);
  checks.limit("head dim", family.headDim, s.headDim);
  checks.limit("key dim", family.keyDim, s.keyDim);
  checks.limit("rotary dim", family.rotaryDim, s.rotaryDim);
  checks.limit("taps", family.taps, s.taps);
  checks.limit("row group", family.rowGroup, s.rowGroup);
  checks.limit("experts", family.experts, s.experts);
  checks.limit("top k", family.topK, s.topK);
  checks.limit("capacity", family.capacity, s.capacity);
  if (s.experts > 0 && !s.weights.empty())
    checks.limit("rows of an expert", family.expertRows, s.weights.front().n / s.experts);
  if (s.op == OpKind::Attention && s.kvHeads > 0)
    checks.limit("rows of the heads of a kv head", family.groupRows, s.rows.max * (s.heads / s.kvHeads));
  if (s.heads > 0 && s.kvHeads > 0 && s.heads % s.kvHeads != 0)
    checks.fail("heads",
                "a multiple of the " + std::to_string(s.kvHeads) +
                    (s.op == OpKind::GatedDelta ? " key heads" : " kv heads"),
                std::to_string(s.heads));
  if (s.rotaryDim > s.headDim)
    checks.fail("rotary dim", "at most the head dim " + std::to_string(s.headDim),
                std::to_string(s.rotaryDim));
  if (s.capacity > 0 && s.rows.max > s.capacity)
    checks.fail("rows", "at most the capacity " + std::to_string(s.capacity),
                std::to_string(s.rows.max));
}

void checkEnums(Checks &checks, const KernelFamily &family, const KernelSignature &s) {
  if (s.fused && !family.acceptsFused)
    checks.fail("fusion", "a single operator", "a fused group");
  checks.member("prologue", family.prologues, s.prologue, 4, prologueName);
  checks.member("epilogue", family.epilogues, s.epilogue, 3, epilogueName);
  checks.member("phase", family.phases, s.phase, kNumKernelPhases, kernelPhaseName);
  if (s.wide && !family.storesWide)
    checks.fail("result", "bfloat16", "float32");
  if (s.op == OpKind::RopeAppend)
    checks.limit("head norms", family.headNorms, static_cast<int64_t>(s.normFormats.size()));
  if (s.codec)
    checks.member("state codec", family.codecs, *s.codec, kNumStateCodecs, stateCodecName);
  for (Format format : s.normFormats)
    checks.member("norm format", family.normFormats, format, kNumFormats,
                  [](Format f) { return canonicalName(f); });
}

Verdict judge(const KernelFamily &family, const KernelSignature &s, const KernelTarget &target) {
  Checks checks;
  for (std::string_view feature : target.hasFeature("neon") ? family.neonFeatures : family.features)
    if (!target.hasFeature(feature))
      checks.fail("target feature", feature, "a target without it");
  checkEnums(checks, family, s);
  checkWeights(checks, family, s);
  checkShapes(checks, family, s);
  if (uint64_t scratch = scratchBound(s, family); scratch > kMaxScratchBytes)
    checks.fail("scratch", "at most " + std::to_string(kMaxScratchBytes) + " bytes per thread",
                std::to_string(scratch));
  if (checks.failures() > 0)
    return {&family, VerdictKind::Rejected, checks.takeReason(), checks.failures()};
  if (family.needsPolicy > s.policy) {
    checks.fail("activation policy", canonicalName(family.needsPolicy), canonicalName(s.policy));
    return {&family, VerdictKind::ForbiddenByPolicy, checks.takeReason(), 1};
  }
  return {&family, VerdictKind::Accepted, "", 0};
}

} // namespace

AdmissionResult admitKernel(const KernelSignature &signature, const KernelTarget &target) {
  AdmissionResult result;
  int best = 0;
  for (const KernelFamily &family : kernelFamilies()) {
    if (family.executor != target.executor || family.op != signature.op)
      continue;
    result.verdicts.push_back(judge(family, signature, target));
    if (result.verdicts.back().kind != VerdictKind::Accepted)
      continue;
    // The first in catalog order wins a tie, so the choice is a function of the tables alone.
    int priority = family.priority(signature, target);
    if (!result.selected || priority > best) {
      result.selected = &family;
      best = priority;
    }
  }
  if (!result.selected)
    return result;
  for (Verdict &verdict : result.verdicts) {
    if (verdict.kind != VerdictKind::Accepted || verdict.family == result.selected)
      continue;
    verdict.kind = VerdictKind::LowerPriority;
    verdict.reason = "priority: " + std::string(result.selected->name) + " has " +
                     std::to_string(best) + ", this has " +
                     std::to_string(verdict.family->priority(signature, target));
  }
  result.tiling = tilingFor(signature, target.executor);
  return result;
}

std::vector<const Verdict *> AdmissionResult::nearest() const {
  std::vector<const Verdict *> order;
  for (const Verdict &verdict : verdicts)
    order.push_back(&verdict);
  // Verdicts lie in catalog order in one vector: the address breaks ties.
  std::sort(order.begin(), order.end(), [](const Verdict *a, const Verdict *b) {
    return a->failures != b->failures ? a->failures < b->failures : a < b;
  });
  return order;
}

std::string noKernelMessage(const KernelSignature &signature, const KernelTarget &target) {
  return "no kernel for " + describe(signature) + ", on " + target.name;
}

} // namespace ninfer
