// Fused regions, kernels and launches: text, effects, checks.
#include "dialects/ninfer/NinferDialect.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ninfer {

/// A body holds compute operations and ends in ninfer.yield.
static LogicalResult verifyBody(Operation *op, Block &block) {
  if (block.empty() || !isa<YieldOp>(block.back()))
    return op->emitOpError() << "region must end in ninfer.yield";
  if (block.without_terminator().empty())
    return op->emitOpError() << "region must hold at least one operation";
  for (Operation &inner : block.without_terminator())
    if (!isa<NinferCostOpInterface>(inner)) {
      InFlightDiagnostic diag = op->emitOpError() << "region may hold compute operations only";
      diag.attachNote(inner.getLoc()) << "'" << inner.getName() << "' is not one";
      return diag;
    }
  return success();
}

//===----------------------------------------------------------------------===//
// FusedOp
//===----------------------------------------------------------------------===//

YieldOp FusedOp::getYield() { return cast<YieldOp>(getBlock()->getTerminator()); }

/// `ninfer.fused "kind" (%arg = %operand : type, ...) -> types attr-dict? { ... }`
ParseResult FusedOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr kind;
  if (parser.parseAttribute(kind))
    return failure();
  result.addAttribute(getKindAttrName(result.name), kind);

  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Type> types;
  SMLoc operandsLoc = parser.getCurrentLocation();
  auto parseBinding = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    if (parser.parseArgument(argument) || parser.parseEqual() ||
        parser.parseOperand(operands.emplace_back()) || parser.parseColonType(argument.type))
      return failure();
    types.push_back(argument.type);
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseBinding) ||
      parser.resolveOperands(operands, types, operandsLoc, result.operands) ||
      parser.parseOptionalArrowTypeList(result.types) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parser.parseRegion(*result.addRegion(), arguments);
}

void FusedOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getKindAttr() << " (";
  llvm::interleaveComma(llvm::zip_equal(getBlock()->getArguments(), getInputs()), printer,
                        [&](auto binding) {
                          auto [argument, operand] = binding;
                          printer << argument << " = " << operand << " : " << operand.getType();
                        });
  printer << ')';
  printer.printOptionalArrowTypeList(getOutputs().getTypes());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {getKindAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult FusedOp::verifyRegions() {
  if (getKind().empty()) // fused_c1
    return emitOpError() << "kind must not be empty";
  if (getBlock()->getArgumentTypes() != getInputs().getTypes()) // fused_c2
    return emitOpError() << "expected region arguments of the operands' types ("
                         << getInputs().getTypes() << "), got (" << getBlock()->getArgumentTypes()
                         << ")";
  if (failed(verifyBody(*this, *getBlock()))) // fused_c3
    return failure();
  if (getYield().getValues().getTypes() != getOutputs().getTypes()) // fused_c4
    return emitOpError() << "expected ninfer.yield of the result types (" << getOutputs().getTypes()
                         << "), got (" << getYield().getValues().getTypes() << ")";
  if (!getBlock()->getOps<FusedOp>().empty()) // fused_c5
    return emitOpError() << "region may not hold another ninfer.fused";
  return success();
}

namespace {

/// Drops inputs without a use inside, inputs given twice and results without a use outside.
struct TrimFused : OpRewritePattern<FusedOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(FusedOp op, PatternRewriter &rewriter) const override {
    Block *block = op.getBlock();
    SmallVector<Value> inputs, outputs;
    SmallVector<Type> types;
    llvm::SmallMapVector<Value, BlockArgument, 8> kept;
    llvm::BitVector dropped(block->getNumArguments());
    for (auto [argument, operand] : llvm::zip_equal(block->getArguments(), op.getInputs())) {
      auto [entry, isNew] = kept.try_emplace(operand, argument);
      if (!isNew)
        rewriter.replaceAllUsesWith(argument, entry->second);
    }
    for (auto [argument, operand] : llvm::zip_equal(block->getArguments(), op.getInputs())) {
      if (argument.use_empty())
        dropped.set(argument.getArgNumber());
      else
        inputs.push_back(operand);
    }
    llvm::BitVector keptResults(op.getNumResults());
    for (auto [result, value] : llvm::zip_equal(op.getOutputs(), op.getYield().getValues())) {
      if (result.use_empty())
        continue;
      keptResults.set(result.getResultNumber());
      outputs.push_back(value);
      types.push_back(result.getType());
    }
    if (dropped.none() && keptResults.all())
      return failure();

    auto trimmed = FusedOp::create(rewriter, op.getLoc(), types, op.getKindAttr(), inputs);
    trimmed->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    rewriter.modifyOpInPlace(op.getYield(),
                             [&] { op.getYield().getValuesMutable().assign(outputs); });
    rewriter.inlineRegionBefore(op.getBody(), trimmed.getBody(), trimmed.getBody().end());
    trimmed.getBlock()->eraseArguments(dropped);
    auto results = trimmed.getOutputs().begin();
    for (OpResult result : op->getResults())
      if (keptResults.test(result.getResultNumber()))
        rewriter.replaceAllUsesWith(result, *results++);
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void FusedOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<TrimFused>(context);
}

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

YieldOp KernelOp::getYield() { return cast<YieldOp>(getBlock()->getTerminator()); }

/// `ninfer.kernel @name(%arg: type, ...) attributes {...} { ... }`
ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseSymbolName(name, getSymNameAttrName(result.name), result.attributes) ||
      parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren, /*allowType=*/true) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parser.parseRegion(*result.addRegion(), arguments);
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << '(';
  llvm::interleaveComma(getArguments(), printer,
                        [&](BlockArgument argument) { printer.printRegionArgument(argument); });
  printer << ')';
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {getSymNameAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult KernelOp::verifyRegions() {
  if (getFamily().empty() || getProfile().empty()) // kernel_c1
    return emitOpError() << "family and profile must not be empty";
  if (getTilesConst() + getTilesPerRow() == 0) // kernel_c2
    return emitOpError() << "must run at least one tile";
  if (failed(verifyBody(*this, *getBlock()))) // kernel_c3
    return failure();
  auto isDynamic = [](Value value) {
    auto shaped = dyn_cast<ShapedType>(value.getType());
    return shaped && !shaped.hasStaticShape();
  };
  bool anyDynamic =
      llvm::any_of(getArguments(), isDynamic) || llvm::any_of(getYield().getValues(), isDynamic);
  if (anyDynamic != getDynamicRows()) // kernel_c4
    return emitOpError() << (anyDynamic
                                 ? "has an argument or a result with dynamic rows and needs dynamic_rows"
                                 : "has dynamic_rows and needs an argument or a result with dynamic rows");
  return success();
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verify() {
  std::optional<ArrayRef<int64_t>> offsets = getOffsets();
  if (!offsets)
    return success();
  if (offsets->size() != getNumResults()) // launch_c1
    return emitOpError() << "expected " << getNumResults() << " offsets (one per result), got "
                         << offsets->size();
  for (auto [index, offset] : llvm::enumerate(*offsets))
    if (offset < 0) // launch_c5
      return emitOpError() << "offset of result " << index << " must not be negative, got "
                           << offset;
  return success();
}

/// A launch may read and write every state it is given, and nothing else; a rope table it only reads, unless that is all it
/// could be for, having no result.
void LaunchOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  for (OpOperand &operand : getInputsMutable())
    if (isa<KvCacheType, ConvStateType, DeltaStateType, RowBufferType>(operand.get().getType()) ||
        (isa<RopeTableType>(operand.get().getType()) && getNumResults() == 0)) {
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
    }
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel) // launch_c2
    return emitOpError() << "'" << getKernel() << "' is not a ninfer.kernel of this module";
  auto check = [&](StringRef what, TypeRange expected, TypeRange actual) -> LogicalResult {
    if (expected == actual)
      return success();
    InFlightDiagnostic diag = emitOpError()
                              << what << " of the launch differ from the kernel's: expected ("
                              << expected << "), got (" << actual << ")";
    diag.attachNote(kernel.getLoc()) << "the kernel is defined here";
    return diag;
  };
  if (failed(check("operand types", kernel.getBody().getArgumentTypes(),
                   getInputs().getTypes()))) // launch_c3
    return failure();
  return check("result types", kernel.getYield().getValues().getTypes(),
               getOutputs().getTypes()); // launch_c4
}

} // namespace ninfer
