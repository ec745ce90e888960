// Custom directives of the assembly formats.
#include "dialects/ninfer/AsmDirectives.h"

#include "dialects/ninfer/NinferDialect.h"

using namespace mlir;

namespace ninfer {

ParseResult parseCompactDict(OpAsmParser &parser, NamedAttrList &attributes) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDict(attributes))
    return failure();
  // The parser hands these over unchecked, and a wrong kind would read as a missing attribute.
  for (NamedAttribute attribute : attributes) {
    StringRef name = attribute.getName();
    Attribute value = attribute.getValue();
    auto number = dyn_cast<TypedAttr>(value);
    bool wrong = false;
    if (name == "eps" || name == "scale")
      wrong = !isa<FloatAttr>(value) || !number.getType().isF64();
    else if (name == "heads" || name == "kv_heads" || name == "key_heads" || name == "experts" ||
             name == "top_k" || name == "column" || name == "row_group")
      wrong = !isa<IntegerAttr>(value) || !number.getType().isSignlessInteger(64);
    else if (name == "unit_offset" || name == "tanh")
      wrong = !isa<BoolAttr>(value);
    else if (name == "peek")
      wrong = !isa<UnitAttr>(value);
    if (wrong)
      return parser.emitError(loc)
             << "attribute '" << name << "' has the wrong kind of value: " << value;
  }
  return success();
}

void printCompactDict(OpAsmPrinter &printer, Operation *, DictionaryAttr attributes) {
  SmallVector<NamedAttribute> shown;
  for (NamedAttribute attribute : attributes) {
    if (attribute.getName() == "policy") // formats that have one print it in front
      continue;
    auto flag = dyn_cast<BoolAttr>(attribute.getValue());
    if (flag && !flag.getValue()) // a flag that is not set
      continue;
    auto group = dyn_cast<IntegerAttr>(attribute.getValue());
    if (attribute.getName() == "row_group" && group.getInt() == 1)
      continue;
    shown.push_back(attribute);
  }
  if (shown.empty())
    return;
  printer << "{";
  llvm::interleaveComma(shown, printer, [&](NamedAttribute attribute) {
    printer.printKeywordOrString(attribute.getName());
    if (isa<UnitAttr>(attribute.getValue()))
      return;
    printer << " = ";
    auto typed = dyn_cast<TypedAttr>(attribute.getValue());
    bool isDefault = isa<IntegerAttr, FloatAttr>(attribute.getValue()) &&
                     (typed.getType().isInteger(64) || typed.getType().isF64());
    if (isDefault)
      printer.printAttributeWithoutType(attribute.getValue());
    else
      printer.printAttribute(attribute.getValue());
  });
  printer << '}';
}

ParseResult parseObjectEncoding(OpAsmParser &parser, DenseI64ArrayAttr &shape, FormatAttr &format,
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

void printObjectEncoding(OpAsmPrinter &printer, Operation *, DenseI64ArrayAttr shape,
                         FormatAttr format, LayoutAttr layout) {
  if (shape.empty())
    printer << "scalar";
  else
    printer.printDimensionList(shape.asArrayRef());
  printer << ", ";
  printRegistryName(printer, format.getValue());
  printer << ", ";
  printRegistryName(printer, layout.getValue());
}

} // namespace ninfer
