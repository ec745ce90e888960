// Fused regions, kernels and launches: text, effects, checks.
#include "dialects/ninfer/NinferDialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ninfer {

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
  llvm::interleaveComma(llvm::zip_equal(getBlock()->getArguments(), getInputs()), printer, [&](auto binding) {
    auto [argument, operand] = binding;
    printer << argument << " = " << operand << " : " << operand.getType();
  });
  printer << ')';
  printer.printOptionalArrowTypeList(getOutputs().getTypes());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {getKindAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
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

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

/// A launch may read and write every cache it is given, and nothing else.
void LaunchOp::getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  for (OpOperand &operand : getInputsMutable())
    if (isa<KvCacheType>(operand.get().getType())) {
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
    InFlightDiagnostic diag = emitOpError() << what << " of the launch differ from the kernel's: expected ("
                                            << expected << "), got (" << actual << ")";
    diag.attachNote(kernel.getLoc()) << "the kernel is defined here";
    return diag;
  };
  if (failed(check("operand types", kernel.getBody().getArgumentTypes(), getInputs().getTypes()))) // launch_c3
    return failure();
  return check("result types", kernel.getYield().getValues().getTypes(), getOutputs().getTypes()); // launch_c4
}

} // namespace ninfer
