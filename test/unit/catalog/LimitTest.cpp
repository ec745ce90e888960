// Every numeric limit of every family is enforced: just inside is admitted, just outside is refused
// with the name of the limit and both values. Covers N as well as K and rows.
#include "Requests.h"

#include <gtest/gtest.h>

#include <set>

namespace ninfer {
namespace {

/// One integer of the signature that a family limits.
struct Field {
  const char *name;
  const Limit &(*limit)(const KernelFamily &);
  void (*set)(KernelSignature &, int64_t);
};

const Field kFields[] = {
    {"n", [](const KernelFamily &f) -> const Limit & { return f.n; },
     [](KernelSignature &s, int64_t v) {
       for (WeightSignature &w : s.weights)
         w.n = v;
     }},
    {"k", [](const KernelFamily &f) -> const Limit & { return f.k; },
     [](KernelSignature &s, int64_t v) {
       for (WeightSignature &w : s.weights)
         w.k = v;
     }},
    {"rows", [](const KernelFamily &f) -> const Limit & { return f.rows; },
     [](KernelSignature &s, int64_t v) {
       s.rows = s.inputRows = {v, v};
     }},
    {"width", [](const KernelFamily &f) -> const Limit & { return f.width; },
     [](KernelSignature &s, int64_t v) { s.width = v; }},
    {"heads", [](const KernelFamily &f) -> const Limit & { return f.heads; },
     [](KernelSignature &s, int64_t v) {
       s.heads = v;
       if (s.kvHeads)
         s.kvHeads = 1;
     }},
    {"kv heads", [](const KernelFamily &f) -> const Limit & { return f.kvHeads; },
     [](KernelSignature &s, int64_t v) {
       s.kvHeads = v;
       if (s.heads)
         s.heads = std::max<int64_t>(v, 0);
     }},
    {"head dim", [](const KernelFamily &f) -> const Limit & { return f.headDim; },
     [](KernelSignature &s, int64_t v) {
       s.headDim = v;
       if (s.op == OpKind::AxialRope) // turns whole heads
         s.rotaryDim = std::clamp<int64_t>(v / 4 * 4, 4, 1024);
       else if (s.rotaryDim) // no more than the head has
         s.rotaryDim = std::max<int64_t>(2, std::min(s.rotaryDim, v / 2 * 2));
     }},
    {"rotary dim", [](const KernelFamily &f) -> const Limit & { return f.rotaryDim; },
     [](KernelSignature &s, int64_t v) {
       s.rotaryDim = v;
       s.headDim = 1024;
     }},
    {"key dim", [](const KernelFamily &f) -> const Limit & { return f.keyDim; },
     [](KernelSignature &s, int64_t v) { s.keyDim = v; }},
    {"taps", [](const KernelFamily &f) -> const Limit & { return f.taps; },
     [](KernelSignature &s, int64_t v) { s.taps = v; }},
    {"row group", [](const KernelFamily &f) -> const Limit & { return f.rowGroup; },
     [](KernelSignature &s, int64_t v) { s.rowGroup = v; }},
    {"experts", [](const KernelFamily &f) -> const Limit & { return f.experts; },
     [](KernelSignature &s, int64_t v) { s.experts = v; }},
    {"top k", [](const KernelFamily &f) -> const Limit & { return f.topK; },
     [](KernelSignature &s, int64_t v) { s.topK = v; }},
    {"capacity", [](const KernelFamily &f) -> const Limit & { return f.capacity; },
     [](KernelSignature &s, int64_t v) { s.capacity = v; }},
};

KernelSignature requestFor(const KernelFamily &family) {
  KernelSignature s = test::request(family.op);
  if (family.needsPolicy != ActivationPolicy::A16Only)
    s.policy = family.needsPolicy;
  return s;
}

bool uses(const KernelSignature &s, std::string_view field) {
  if (field == "n" || field == "k")
    return !s.weights.empty();
  if (field == "rows" || field == "row group")
    return true;
  const std::pair<std::string_view, int64_t> values[] = {{"width", s.width},
                                                         {"heads", s.heads},
                                                         {"kv heads", s.kvHeads},
                                                         {"head dim", s.headDim},
                                                         {"rotary dim", s.rotaryDim},
                                                         {"key dim", s.keyDim},
                                                         {"taps", s.taps},
                                                         {"experts", s.experts},
                                                         {"top k", s.topK},
                                                         {"capacity", s.capacity}};
  for (auto [name, value] : values)
    if (name == field)
      return value != 0;
  return false;
}

/// Verdict of exactly this family.
Verdict judged(const KernelFamily &family, const KernelSignature &s) {
  AdmissionResult result =
      admitKernel(s, test::target(family.executor == "cpu"    ? "cpu:x86-64-v3"
                                  : family.executor == "cuda" ? "cuda:sm_89"
                                                              : "reference"));
  for (const Verdict &verdict : result.verdicts)
    if (verdict.family == &family)
      return verdict;
  ADD_FAILURE() << family.name << " was no candidate";
  return {};
}

TEST(FamilyLimits, InsideIsAdmittedOutsideIsNamed) {
  int checked = 0;
  for (const KernelFamily &family : kernelFamilies()) {
    for (const Field &field : kFields) {
      KernelSignature base = requestFor(family);
      if (!uses(base, field.name))
        continue;
      SCOPED_TRACE(std::string(family.name) + ", " + field.name);
      const Limit &limit = field.limit(family);
      ASSERT_GE(limit.min, 1) << "a used field needs a lower bound of at least 1";
      ASSERT_LT(limit.max, INT64_MAX) << "a used field needs an upper bound";

      auto verdictAt = [&](int64_t value) {
        KernelSignature s = base;
        // Nothing else may stand in the way of the value under test.
        if (std::string_view(field.name) == "rows" && s.capacity)
          s.capacity = family.capacity.max;
        field.set(s, value);
        const std::string_view name = field.name;
        if (name == "rotary dim")
          s.headDim = family.headDim.max;
        if (s.op == OpKind::Attention && (name == "rows" || name == "heads") && value > 0) // one head per group
          s.kvHeads = s.heads;
        if (name == "n" && s.experts)
          s.experts = s.topK = 1;
        return judged(family, s);
      };
      auto admitted = [](const Verdict &v) {
        return v.kind == VerdictKind::Accepted || v.kind == VerdictKind::LowerPriority;
      };
      // Near the upper end scratch may refuse first; that is a verdict of its own.
      auto onlyScratch = [](const Verdict &v) {
        return v.failures == 1 && v.reason.starts_with("scratch: ");
      };
      EXPECT_TRUE(admitted(verdictAt(limit.min))) << verdictAt(limit.min).reason;
      EXPECT_TRUE(admitted(verdictAt(limit.max)) || onlyScratch(verdictAt(limit.max)))
          << verdictAt(limit.max).reason;

      std::set<int64_t> outside = {limit.min - 1, limit.max + 1, 0, -1};
      if (limit.multiple > 1)
        outside.insert({limit.min + 1, limit.max - 1});
      for (int64_t value : outside) {
        Verdict verdict = verdictAt(value);
        EXPECT_EQ(verdict.kind, VerdictKind::Rejected) << value;
        EXPECT_NE(verdict.reason.find(std::string(field.name) + ": expected "), std::string::npos)
            << verdict.reason;
        EXPECT_NE(verdict.reason.find(", got " + std::to_string(value)), std::string::npos)
            << verdict.reason;
      }
      ++checked;
    }
  }
  EXPECT_GE(checked, 60);
}

TEST(FamilyLimits, RowsAreCheckedAtBothEnds) {
  for (const KernelFamily &family : kernelFamilies()) {
    KernelSignature s = requestFor(family);
    if (s.capacity)
      s.capacity = family.capacity.max;
    s.rows = s.inputRows = {1, family.rows.max + 1};
    EXPECT_EQ(judged(family, s).kind, VerdictKind::Rejected) << family.name;
    s.rows = s.inputRows = {0, 1};
    EXPECT_EQ(judged(family, s).kind, VerdictKind::Rejected) << family.name;
  }
}

TEST(FamilyLimits, EverySegmentIsChecked) {
  KernelTarget target = test::target("cpu:x86-64-v3");
  for (size_t bad = 0; bad < 3; ++bad) {
    KernelSignature s = test::linear(Format::Q4G64_F16S, 64, 576, ActivationPolicy::AllowA8);
    s.fused = true;
    s.weights.resize(3, s.weights.front());
    ASSERT_NE(admitKernel(s, target).selected, nullptr);
    s.weights[bad].n = 0;
    AdmissionResult result = admitKernel(s, target);
    ASSERT_EQ(result.selected, nullptr);
    EXPECT_EQ(result.verdicts.front().reason,
              "n of segment " + std::to_string(bad) + ": expected at least 1, got 0");
  }
}

TEST(FamilyLimits, SegmentCount) {
  KernelTarget target = test::target("cpu:x86-64-v3");
  for (int64_t count : {int64_t{0}, int64_t{1}, kMaxSegments, kMaxSegments + 1}) {
    KernelSignature s = test::linear(Format::Q4G64_F16S, 64, 576);
    s.fused = true;
    s.weights.assign(static_cast<size_t>(count), s.weights.front());
    EXPECT_EQ(admitKernel(s, target).selected != nullptr, count >= 1 && count <= kMaxSegments)
        << count;
  }
}

TEST(FamilyLimits, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const KernelFamily &family : kernelFamilies()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_NE(family.priority, nullptr);
    EXPECT_EQ(family.executor == "reference", family.name.starts_with("ref.")) << family.name;
  }
}

} // namespace
} // namespace ninfer
