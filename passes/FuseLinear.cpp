// Linear groups: linears of one input with the norm in front of it, gate and up with swiglu,
// residual sums.
#include "passes/Fuse.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ninfer {
namespace {

/// Formats of one class may share a group: a group has one compute profile, and only integer codes
/// have the integer profiles.
bool hasIntegerCodes(LinearOp linear) {
  return formatInfo(linear.getWeight().getType().getFormat()).category ==
         FormatCategory::GroupedInteger;
}

/// Linears that become one group, and the operation behind them that they are fused with, if any.
struct Group {
  llvm::SmallVector<LinearOp> linears;
  Operation *epilogue = nullptr;
  Value input() const { return LinearOp(linears.front()).getX(); }
};

/// Limits for the rows of a linear's input.
struct LimitsOf {
  int64_t maxRows;
  LimitsOfRows ofRows;
  FusionLimits operator()(Value input) const {
    auto type = cast<RankedTensorType>(input.getType());
    return ofRows(type.isDynamicDim(0) ? maxRows : type.getDimSize(0));
  }
};

/// Linears whose classes are equal may share a group with this epilogue, as far as their formats are concerned.
int formatClass(LinearOp linear, KernelEpilogue epilogue, const FusionLimits &limits) {
  if (limits.uniformFormats.contains(epilogue))
    return static_cast<int>(linear.getWeight().getType().getFormat());
  return !limits.oneProfile && hasIntegerCodes(linear);
}

/// The caller or a router reads the result: in float32 where activations are stored in bfloat16.
bool isReadInFloat(LinearOp linear) {
  return llvm::any_of(linear->getUsers(), [](Operation *user) {
    return isa<MoeRouteOp>(user) || user->hasTrait<OpTrait::IsTerminator>();
  });
}

/// Gate and up of a swiglu that nobody else reads.
bool isSwigluPair(LinearOp gate, LinearOp up, const FusionLimits &limits) {
  return gate && up && gate != up && gate->hasOneUse() && up->hasOneUse() &&
         gate.getX() == up.getX() && gate.getRowGroup() == up.getRowGroup() &&
         formatClass(gate, KernelEpilogue::Swiglu, limits) == formatClass(up, KernelEpilogue::Swiglu, limits) &&
         gate->getBlock() == up->getBlock();
}

/// The group with an epilogue that `linear` belongs to, if its only user is a swiglu or a sum.
std::optional<Group> epilogueGroup(LinearOp linear, const LimitsOf &limitsOf) {
  const FusionLimits limits = limitsOf(linear.getX());
  if (!linear->hasOneUse())
    return std::nullopt;
  Operation *user = *linear->user_begin();
  if (user->getBlock() != linear->getBlock())
    return std::nullopt;
  if (auto swiglu = dyn_cast<SwigluOp>(user); swiglu && limits.epilogues.contains(KernelEpilogue::Swiglu)) {
    auto gate = swiglu.getGate().getDefiningOp<LinearOp>(),
         up = swiglu.getUp().getDefiningOp<LinearOp>();
    if (isSwigluPair(gate, up, limits))
      return Group{{gate, up}, user};
    return std::nullopt;
  }
  if (isa<AddOp>(user) && limits.epilogues.contains(KernelEpilogue::Residual))
    return Group{{linear}, user};
  return std::nullopt;
}

/// All groups of the block, in the order of their first linears.
llvm::SmallVector<Group> findGroups(Block &block, const LimitsOf &limitsOf) {
  llvm::SmallVector<Group> groups;
  llvm::SetVector<Operation *> taken; // linears and epilogues; iteration is never pointer-ordered
  llvm::SmallVector<LinearOp> plain;
  for (auto linear : block.getOps<LinearOp>()) {
    if (taken.contains(linear))
      continue;
    std::optional<Group> group = epilogueGroup(linear, limitsOf);
    if (!group || taken.contains(group->epilogue)) {
      plain.push_back(linear);
      continue;
    }
    for (LinearOp member : group->linears)
      taken.insert(member);
    taken.insert(group->epilogue);
    groups.push_back(*group);
  }
  llvm::MapVector<std::pair<Value, int64_t>, size_t>
      open; // (input, class and row group) -> index of the group to extend
  for (LinearOp linear : plain) {
    const FusionLimits limits = limitsOf(linear.getX());
    if (limits.wideSegments < limits.storeSegments && isReadInFloat(linear)) {
      groups.push_back(Group{{linear}, nullptr});
      continue;
    }
    const int formats = formatClass(linear, KernelEpilogue::Store, limits);
    constexpr int kFormats = 16; // more than there are
    auto [slot, fresh] =
        open.insert({{linear.getX(), kFormats * static_cast<int>(linear.getRowGroup()) + formats}, groups.size()});
    if (!fresh && static_cast<int64_t>(groups[slot->second].linears.size()) >= limits.storeSegments) {
      slot->second = groups.size();
      fresh = true;
    }
    if (fresh)
      groups.push_back(Group{});
    groups[slot->second].linears.push_back(linear);
  }
  return groups;
}

/// True if linears alone read the value: then each group can compute it for itself.
bool onlyLinearsRead(Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) { return isa<LinearOp>(user); });
}

/// [last_row] [rms_norm] in front of the group's input, outermost first.
llvm::SmallVector<Operation *> prologueOf(Value input, const LimitsOf &limitsOf) {
  const FusionLimits limits = limitsOf(input);
  llvm::SmallVector<Operation *> ops;
  Operation *producer = input.getDefiningOp();
  if (!producer || !isa<RmsNormOp, LastRowOp>(producer) || !onlyLinearsRead(input))
    return ops;
  const bool norms = isa<RmsNormOp>(producer);
  if (!limits.prologues.contains(norms ? KernelPrologue::RmsNorm : KernelPrologue::LastRow))
    return ops;
  if (auto norm = dyn_cast<RmsNormOp>(producer); norm && limits.prologues.contains(KernelPrologue::LastRowRmsNorm))
    if (auto last = norm.getX().getDefiningOp<LastRowOp>(); last && last->hasOneUse())
      ops.push_back(last);
  ops.push_back(producer);
  return ops;
}

/// Where the group stands: at its last operation if it has an epilogue (whose other operand is
/// there), else at its first linear (whose users may follow at once).
Operation *positionOf(const Group &group) {
  return group.epilogue ? group.epilogue : LinearOp(group.linears.front()).getOperation();
}

void fuseGroup(const Group &group, llvm::ArrayRef<Operation *> prologue) {
  llvm::SmallVector<Operation *> ops(prologue);
  for (LinearOp linear : group.linears)
    ops.push_back(linear);
  if (group.epilogue)
    ops.push_back(group.epilogue);

  llvm::SmallSetVector<Value, 8> made, inputs;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (!made.contains(operand))
        inputs.insert(operand);
    made.insert(op->result_begin(), op->result_end());
  }
  llvm::SmallVector<Value> results;
  if (group.epilogue)
    results.push_back(group.epilogue->getResult(0));
  else
    for (LinearOp linear : group.linears)
      results.push_back(linear.getResult());
  makeFused("linear", positionOf(group), ops, prologue, inputs.getArrayRef(), results);
}

} // namespace

int64_t fuseLinears(Block &block, int64_t maxRows, LimitsOfRows limitsOf) {
  const LimitsOf limits{maxRows, limitsOf};
  // Prologues are found before anything changes: afterwards the readers of a norm are groups.
  llvm::SmallVector<Group> groups = findGroups(block, limits);
  llvm::SmallVector<llvm::SmallVector<Operation *>> prologues;
  llvm::SmallSetVector<Operation *, 8> copied;
  for (const Group &group : groups) {
    prologues.push_back(prologueOf(group.input(), limits));
    copied.insert(prologues.back().begin(), prologues.back().end());
  }
  int64_t made = 0;
  for (auto [group, prologue] : llvm::zip_equal(groups, prologues)) {
    if (group.linears.size() == 1 && !group.epilogue && prologue.empty())
      continue; // nothing to share: stays a single linear
    fuseGroup(group, prologue);
    ++made;
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (copied.contains(&op) && op.use_empty())
      op.erase();
  return made;
}

} // namespace ninfer
