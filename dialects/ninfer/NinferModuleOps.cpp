// Module-level symbols: their text and the checks that need the symbol table.
#include "dialects/ninfer/NinferDialect.h"

using namespace mlir;

namespace ninfer {

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// `576x1536, Q4G64_F16S, "row-split-k128-v1"`; an object of rank 0 starts with `scalar`.
static ParseResult parseObjectEncoding(OpAsmParser &parser, DenseI64ArrayAttr &shape, FormatAttr &format,
                                       LayoutAttr &layout) {
  SmallVector<int64_t> dims;
  if (failed(parser.parseOptionalKeyword("scalar")) &&
      parser.parseDimensionList(dims, /*allowDynamic=*/false, /*withTrailingX=*/false))
    return failure();
  if (parser.parseComma())
    return failure();
  FailureOr<Format> formatValue = parseRegistryName<Format>(parser);
  if (failed(formatValue) || parser.parseComma())
    return failure();
  FailureOr<Layout> layoutValue = parseRegistryName<Layout>(parser);
  if (failed(layoutValue))
    return failure();
  shape = parser.getBuilder().getDenseI64ArrayAttr(dims);
  format = FormatAttr::get(parser.getContext(), *formatValue);
  layout = LayoutAttr::get(parser.getContext(), *layoutValue);
  return success();
}

static void printObjectEncoding(OpAsmPrinter &printer, Operation *, DenseI64ArrayAttr shape, FormatAttr format,
                                LayoutAttr layout) {
  if (shape.empty())
    printer << "scalar";
  else
    printer.printDimensionList(shape.asArrayRef());
  printer << ", ";
  printRegistryName(printer, format.getValue());
  printer << ", ";
  printRegistryName(printer, layout.getValue());
}

//===----------------------------------------------------------------------===//
// Symbol uses
//===----------------------------------------------------------------------===//

LogicalResult ParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (auto [index, attr] : llvm::enumerate(getParts())) {
    auto part = cast<PartAttr>(attr);
    auto object = symbols.lookupNearestSymbolFrom<ObjectOp>(*this, part.getObject());
    if (!object) // parameter_c4
      return emitOpError() << "part " << index << " names '" << part.getObject().getValue()
                           << "', which is not a ninfer.object of this module";
  }
  return success();
}

LogicalResult ParamOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParameterAttr());
  if (!parameter) // param_c1
    return emitOpError() << "'" << getParameter() << "' is not a ninfer.parameter of this module";
  if (parameter.getType() != getResult().getType()) { // param_c2
    InFlightDiagnostic diag = emitOpError() << "expected the parameter's type " << parameter.getType()
                                            << ", got " << getResult().getType();
    diag.attachNote(parameter.getLoc()) << "the parameter is declared here";
    return diag;
  }
  return success();
}

LogicalResult StateRefOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto state = symbols.lookupNearestSymbolFrom<StateOp>(*this, getStateAttr());
  if (!state) // state_ref_c1
    return emitOpError() << "'" << getState() << "' is not a ninfer.state of this module";
  if (state.getType() != getResult().getType()) { // state_ref_c2
    InFlightDiagnostic diag = emitOpError() << "expected the state's type " << state.getType() << ", got "
                                            << getResult().getType();
    diag.attachNote(state.getLoc()) << "the state is declared here";
    return diag;
  }
  return success();
}

} // namespace ninfer

#define GET_OP_CLASSES
#include "dialects/ninfer/NinferOps.cpp.inc"

namespace ninfer {

void NinferDialect::registerOperations() {
  addOperations<
#define GET_OP_LIST
#include "dialects/ninfer/NinferOps.cpp.inc"
      >();
}

} // namespace ninfer
