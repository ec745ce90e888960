// Attributes of the dialect and the text of the closed registry.
#include "dialects/ninfer/NinferDialect.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ninfer {

namespace {

StringRef toRef(std::string_view text) { return {text.data(), text.size()}; }

std::string listPolicies() {
  std::string names;
  for (ActivationPolicy policy :
       {ActivationPolicy::A16Only, ActivationPolicy::AllowA8, ActivationPolicy::AllowA4}) {
    if (!names.empty())
      names += ", ";
    names += canonicalName(policy);
  }
  return names;
}

std::string listLayouts() {
  std::string names;
  for (const LayoutInfo &info : allLayouts()) {
    if (!names.empty())
      names += ", ";
    names += canonicalName(info.layout);
  }
  return names;
}

template <typename EnumT>
FailureOr<EnumT> parseName(AsmParser &parser, StringRef what,
                           std::optional<EnumT> (*find)(std::string_view), std::string (*list)()) {
  std::string name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeywordOrString(&name))
    return failure();
  if (std::optional<EnumT> value = find(name))
    return *value;
  return parser.emitError(loc) << "unknown " << what << " '" << name
                               << "', the registered ones are: " << list();
}

} // namespace

template <>
FailureOr<Format> parseRegistryName<Format>(AsmParser &parser) {
  return parseName<Format>(parser, "format", formatFromCanonical, listFormats);
}

template <>
FailureOr<Layout> parseRegistryName<Layout>(AsmParser &parser) {
  return parseName<Layout>(parser, "layout", layoutFromCanonical, listLayouts);
}

template <>
FailureOr<ActivationPolicy> parseRegistryName<ActivationPolicy>(AsmParser &parser) {
  return parseName<ActivationPolicy>(parser, "activation policy", activationPolicyFromName,
                                     listPolicies);
}

void printRegistryName(AsmPrinter &printer, Format value) {
  printer.printKeywordOrString(toRef(canonicalName(value)));
}
void printRegistryName(AsmPrinter &printer, Layout value) {
  printer.printKeywordOrString(toRef(canonicalName(value)));
}
void printRegistryName(AsmPrinter &printer, ActivationPolicy value) {
  printer.printKeywordOrString(toRef(canonicalName(value)));
}

LogicalResult verifyRegisteredPair(function_ref<InFlightDiagnostic()> emitError, Format format,
                                   Layout layout) {
  if (isRegisteredPair(format, layout))
    return success();
  return emitError() << "format " << canonicalName(format) << " may not use layout "
                     << canonicalName(layout)
                     << ", the registered pairs are: " << listRegisteredPairs();
}

LogicalResult PartAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               FlatSymbolRefAttr object, int64_t begin, int64_t end) {
  if (begin < 0 || end <= begin) // part_c1
    return emitError() << "range [" << begin << ", " << end << ") of object '" << object.getValue()
                       << "' must be non-empty and start at 0 or later";
  return success();
}

LogicalResult PlaneAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t offset,
                                int64_t bytes) {
  if (offset < 0 || bytes <= 0) // plane_c1
    return emitError() << "plane needs an offset of 0 or later and at least one byte, got offset "
                       << offset << " and " << bytes << " bytes";
  return success();
}

} // namespace ninfer

#define GET_ATTRDEF_CLASSES
#include "dialects/ninfer/NinferAttrs.cpp.inc"

namespace ninfer {

void NinferDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/ninfer/NinferAttrs.cpp.inc"
      >();
}

} // namespace ninfer
