#include "passes/IRUtil.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ninfer {

InFlightDiagnostic emitFunctionError(func::FuncOp function) {
  return emitError(function.getLoc()) << "function '" << function.getSymName() << "': ";
}

llvm::SmallVector<func::FuncOp> componentFunctions(ModuleOp module) {
  llvm::SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(NinferDialect::kComponent))
      functions.push_back(function);
  return functions;
}

FailureOr<PhaseInfo> phaseOf(func::FuncOp function) {
  auto phase = function->getAttrOfType<StringAttr>(NinferDialect::kPhase);
  auto maxRows = function->getAttrOfType<IntegerAttr>(NinferDialect::kMaxRows);
  if (!phase || !maxRows)
    return emitFunctionError(function)
           << "expected " << NinferDialect::kPhase << " and " << NinferDialect::kMaxRows
           << ", which ninfer-split-phases sets";
  PhaseInfo info;
  std::optional<KernelPhase> known = parseKernelPhase(phase.getValue());
  if (!known)
    return emitFunctionError(function)
           << NinferDialect::kPhase << ": expected decode, prefill, verify, draft, draft_next, commit, "
           << "encode or place, got '" << phase.getValue() << "'";
  info.phase = *known;
  info.maxRows = maxRows.getInt();
  if (info.maxRows < 1)
    return emitFunctionError(function)
           << NinferDialect::kMaxRows << ": expected at least 1, got " << info.maxRows;
  return info;
}

FailureOr<Block *> bodyOf(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return emitFunctionError(function)
           << "expected one block, got " << function.getBody().getBlocks().size();
  return &function.getBody().front();
}

bool becomesKernel(Operation *op) {
  return isa<NinferCostOpInterface>(op) && isa_and_nonnull<func::FuncOp>(op->getParentOp());
}

std::string pathOf(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      if (std::string path = pathOf(part); !path.empty())
        return path;
  }
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return pathOf(call.getCallee());
  return "";
}

/// Longest common prefix of whole path elements.
static std::string commonPath(llvm::StringRef a, llvm::StringRef b) {
  llvm::SmallVector<llvm::StringRef> left, right;
  a.split(left, '/');
  b.split(right, '/');
  size_t common = 0;
  while (common < std::min(left.size(), right.size()) && left[common] == right[common])
    ++common;
  return llvm::join(llvm::ArrayRef(left).take_front(common), "/");
}

Location groupLocation(llvm::ArrayRef<Operation *> ops) {
  Location first = ops.front()->getLoc();
  std::string path = pathOf(first);
  for (Operation *op : ops.drop_front())
    path = commonPath(path, pathOf(op->getLoc()));
  if (path.empty() || path == pathOf(first))
    return first;
  return NameLoc::get(StringAttr::get(first.getContext(), path), first);
}

FailureOr<int64_t> positiveModuleAttr(ModuleOp module, llvm::StringRef name) {
  auto attr = module->getAttrOfType<IntegerAttr>(name);
  if (!attr)
    return emitError(module.getLoc())
           << "module attribute " << name << ": expected an integer, got none";
  if (attr.getInt() < 1)
    return emitError(module.getLoc())
           << "module attribute " << name << ": expected at least 1, got " << attr.getInt();
  return attr.getInt();
}

} // namespace ninfer
