// ninfer-outline-kernels: operations -> kernels shared by structure, and launches.
#include "codegen/common/Admission.h"
#include "codegen/common/KernelName.h"
#include "passes/Passes.h"
#include "passes/SignatureOfOp.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ninfer {

#define GEN_PASS_DEF_OUTLINEKERNELSPASS
#include "passes/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral kAdmissionAttrs[] = {NinferDialect::kFamily,
                                                   NinferDialect::kProfile,
                                                   NinferDialect::kTilesConst,
                                                   NinferDialect::kTilesPerRow,
                                                   NinferDialect::kTrace,
                                                   kGranule,
                                                   kSignature};

const KernelFamily *findFamily(llvm::StringRef name) {
  for (const KernelFamily &family : kernelFamilies())
    if (family.name == std::string_view(name))
      return &family;
  return nullptr;
}

bool hasDynamicRows(TypeRange types) {
  return llvm::any_of(types, [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && !tensor.hasStaticShape();
  });
}

/// Kernels of the module by structure and by name. Structure is the text of the kernel under a
/// fixed name, without locations: equal text, equal kernel.
class KernelTable {
public:
  explicit KernelTable(ModuleOp module) : module_(module) {
    for (auto kernel : module.getOps<KernelOp>()) {
      names_.insert(kernel.getSymName());
      byText_.try_emplace(textOf(kernel), kernel);
    }
    // New kernels go in front of the first function, in the order of their first launch.
    auto functions = module.getOps<func::FuncOp>();
    position_ = functions.empty() ? nullptr : (*functions.begin()).getOperation();
  }

  /// The kernel for an admitted operation; makes it if there is none like it.
  KernelOp kernelFor(Operation *op, llvm::StringRef name, int64_t maxRows) {
    OpBuilder builder(module_.getContext());
    builder.setInsertionPoint(position_);
    KernelOp kernel = create(builder, op, maxRows);
    auto [slot, fresh] = byText_.try_emplace(textOf(kernel), kernel);
    if (!fresh) {
      kernel.erase();
      return slot->second;
    }
    kernel.setSymName(freeName(name));
    return kernel;
  }

private:
  static KernelOp create(OpBuilder &builder, Operation *op, int64_t maxRows) {
    const bool dynamic =
        hasDynamicRows(op->getOperandTypes()) || hasDynamicRows(op->getResultTypes());
    auto stringAttr = [&](llvm::StringRef name) { return op->getAttrOfType<StringAttr>(name); };
    auto intAttr = [&](llvm::StringRef name) {
      return op->getAttrOfType<IntegerAttr>(name).getInt();
    };
    auto kernel = KernelOp::create(
        builder, op->getLoc(), "kernel", stringAttr(NinferDialect::kFamily).getValue(),
        stringAttr(NinferDialect::kProfile).getValue(), intAttr(NinferDialect::kTilesConst),
        intAttr(NinferDialect::kTilesPerRow), dynamic ? maxRows : 1, dynamic);
    if (Attribute granule = op->getAttr(kGranule))
      kernel->setAttr(kGranule, granule);

    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&kernel.getBody());
    IRMapping mapping;
    llvm::SmallVector<Value> arguments;
    for (Value operand : op->getOperands())
      arguments.push_back(body->addArgument(operand.getType(), op->getLoc()));
    // By position: an operand that occurs twice is two arguments.
    Operation *copy = builder.clone(*op, mapping);
    copy->setOperands(arguments);
    for (llvm::StringRef attr : kAdmissionAttrs)
      copy->removeAttr(attr);
    YieldOp::create(builder, op->getLoc(), copy->getResults());
    return kernel;
  }

  static std::string textOf(KernelOp kernel) {
    StringAttr name = kernel.getSymNameAttr();
    kernel.setSymName("kernel");
    std::string text;
    llvm::raw_string_ostream os(text);
    kernel->print(os,
                  OpPrintingFlags().useLocalScope().printGenericOpForm().enableDebugInfo(false));
    kernel.setSymNameAttr(name);
    return text;
  }

  std::string freeName(llvm::StringRef wanted) {
    std::string name = wanted.str();
    for (int version = 2; !names_.insert(name).second; ++version)
      name = (wanted + "_v" + llvm::Twine(version)).str();
    return name;
  }

  ModuleOp module_;
  Operation *position_;
  llvm::StringMap<KernelOp> byText_; // looked up only
  llvm::StringSet<> names_;
};

struct OutlineKernelsPass : impl::OutlineKernelsPassBase<OutlineKernelsPass> {
  void runOnOperation() override {
    KernelTable table(getOperation());
    for (func::FuncOp function : componentFunctions(getOperation())) {
      FailureOr<PhaseInfo> phase = phaseOf(function);
      FailureOr<Block *> block = bodyOf(function);
      if (failed(phase) || failed(block))
        return signalPassFailure();
      for (Operation &op : llvm::make_early_inc_range(**block))
        if (becomesKernel(&op) && failed(outline(&op, *phase, table)))
          return signalPassFailure();
    }
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      (void)kernel;
      ++kernels;
    }
  }

private:
  /// The attributes of an admitted operation, with the types that follow from them.
  LogicalResult checkAdmission(Operation *op) {
    for (llvm::StringRef attr : {NinferDialect::kFamily, NinferDialect::kProfile,
                                 NinferDialect::kTilesConst, NinferDialect::kTilesPerRow})
      if (!op->hasAttr(attr))
        return op->emitOpError() << "expected attribute " << attr
                                 << ", which ninfer-admit-kernels sets";
    auto family = op->getAttrOfType<StringAttr>(NinferDialect::kFamily);
    if (!family || !findFamily(family.getValue()))
      return op->emitOpError() << NinferDialect::kFamily
                               << ": expected a family of the kernel catalog, got "
                               << op->getAttr(NinferDialect::kFamily);
    if (!op->getAttrOfType<StringAttr>(NinferDialect::kProfile))
      return op->emitOpError() << NinferDialect::kProfile << ": expected a string, got "
                               << op->getAttr(NinferDialect::kProfile);
    for (llvm::StringRef attr : {NinferDialect::kTilesConst, NinferDialect::kTilesPerRow})
      if (auto tiles = op->getAttrOfType<IntegerAttr>(attr); !tiles || tiles.getInt() < 0)
        return op->emitOpError() << attr << ": expected an integer of at least 0, got "
                                 << op->getAttr(attr);
    return success();
  }

  LogicalResult outline(Operation *op, const PhaseInfo &phase, KernelTable &table) {
    if (failed(checkAdmission(op)))
      return failure();
    const KernelFamily *family =
        findFamily(op->getAttrOfType<StringAttr>(NinferDialect::kFamily).getValue());
    FailureOr<KernelSignature> signature = signatureOf(op, phase);
    if (failed(signature))
      return failure();

    KernelOp kernel = table.kernelFor(op, kernelName(*signature, *family), phase.maxRows);
    OpBuilder builder(op);
    std::string path = pathOf(op->getLoc());
    auto launch = LaunchOp::create(
        builder, op->getLoc(), op->getResultTypes(),
        FlatSymbolRefAttr::get(kernel.getSymNameAttr()), op->getOperands(),
        builder.getStringAttr(path.empty() ? opKindName(signature->op) : path),
        op->getAttrOfType<ArrayAttr>(NinferDialect::kTrace), /*offsets=*/DenseI64ArrayAttr());
    if (Attribute text = op->getAttr(kSignature))
      launch->setAttr(kSignature, text);
    op->replaceAllUsesWith(launch);
    op->erase();
    ++launches;
    return success();
  }
};

} // namespace
} // namespace ninfer
