// Module-level symbols: their rules and the checks that need the symbol table.
#include "dialects/ninfer/AsmDirectives.h"
#include "dialects/ninfer/NinferDialect.h"

#include "artifact/layouts/Layout.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace ninfer {

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

/// Exact: a verified shape has an encoding of at most kMaxBytes.
static int64_t elementCount(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

/// Geometry of a stored tensor, by the same function as the reader and the converter use.
static Result<EncodedGeometry> geometryOf(Format format, Layout layout, ArrayRef<int64_t> shape) {
  SmallVector<uint64_t, 4> sizes(shape.begin(), shape.end());
  return encodedGeometry(format, layout, sizes);
}

LogicalResult ObjectOp::verify() {
  for (auto [index, dim] : llvm::enumerate(getShape()))
    if (dim <= 0) // object_c1
      return emitOpError() << "dimension " << index << " must be positive, got " << dim;
  if (failed(verifyRegisteredPair([&] { return emitOpError(); }, getFormat(),
                                  getLayout()))) // object_c2
    return failure();
  Result<EncodedGeometry> geometry = geometryOf(getFormat(), getLayout(), getShape());
  if (!geometry.ok()) // object_c5
    return emitOpError() << "has no encoding: " << geometry.error().message;
  if (geometry->totalBytes > kMaxBytes ||
      getOffset() > kMaxBytes - static_cast<int64_t>(geometry->totalBytes)) // object_c6
    return emitOpError() << "must end at byte " << kMaxBytes << " or before, got "
                         << geometry->totalBytes << " bytes at offset " << getOffset();
  if (static_cast<uint64_t>(getBytes()) != geometry->totalBytes) // object_c3
    return emitOpError() << "expected size " << geometry->totalBytes
                         << " (bytes of the encoding), got " << getBytes();
  if (static_cast<uint64_t>(getOffset()) % geometry->alignment != 0) // object_c4
    return emitOpError() << "offset must be a multiple of " << geometry->alignment << ", got "
                         << getOffset();
  return success();
}

LogicalResult ParameterOp::verify() {
  auto weight = cast<WeightType>(getType());
  int64_t elements = 0;
  for (Attribute attr : getParts()) {
    auto part = cast<PartAttr>(attr);
    if (llvm::AddOverflow(elements, part.getEnd() - part.getBegin(), elements))
      return emitOpError()
             << "parts hold more elements than a 64-bit integer counts"; // parameter_c6
  }
  if (elements != elementCount(weight.getShape())) // parameter_c1
    return emitOpError() << "expected parts of " << elementCount(weight.getShape())
                         << " elements in all (the shape of the type), got " << elements;
  if (std::optional<ArrayAttr> planes = getPlanes()) {
    size_t expected =
        geometryOf(weight.getFormat(), weight.getLayout(), weight.getShape())->planes.size();
    if (planes->size() != expected) // parameter_c2
      return emitOpError() << "expected " << expected << " planes (layout "
                           << canonicalName(weight.getLayout()) << " of "
                           << canonicalName(weight.getFormat()) << "), got " << planes->size();
  }
  return success();
}

LogicalResult StateOp::verify() {
  auto table = dyn_cast<RopeTableType>(getType());
  std::optional<ArrayRef<double>> frequencies = getInvFreq();
  if (frequencies.has_value() != (table != nullptr)) // state_c1
    return emitOpError() << "inv_freq belongs to a rope table and only to it, got type "
                         << getType() << (frequencies ? " with it" : " without it");
  if (!table)
    return success();
  if (static_cast<int64_t>(frequencies->size()) != table.getPairs()) // state_c2
    return emitOpError() << "expected " << table.getPairs()
                         << " values in inv_freq (one per pair), got " << frequencies->size();
  for (auto [index, value] : llvm::enumerate(*frequencies))
    if (!std::isfinite(value) || value <= 0) // state_c3
      return emitOpError() << "inv_freq[" << index << "] must be positive and finite, got "
                           << value;
  return success();
}

//===----------------------------------------------------------------------===//
// Symbol uses
//===----------------------------------------------------------------------===//

LogicalResult ParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto weight = cast<WeightType>(getType());
  for (auto [index, attr] : llvm::enumerate(getParts())) {
    auto part = cast<PartAttr>(attr);
    auto object = symbols.lookupNearestSymbolFrom<ObjectOp>(*this, part.getObject());
    if (!object) // parameter_c3
      return emitOpError() << "part " << index << " names '" << part.getObject().getValue()
                           << "', which is not a ninfer.object of this module";
    if (part.getEnd() > elementCount(object.getShape())) { // parameter_c4
      InFlightDiagnostic diag = emitOpError()
                                << "part " << index << " ends at element " << part.getEnd()
                                << ", the object has " << elementCount(object.getShape());
      diag.attachNote(object.getLoc()) << "the object is declared here";
      return diag;
    }
    if (object.getFormat() != weight.getFormat() ||
        object.getLayout() != weight.getLayout()) { // parameter_c5
      InFlightDiagnostic diag =
          emitOpError() << "part " << index << " is stored as " << canonicalName(object.getFormat())
                        << " in " << canonicalName(object.getLayout()) << ", the type says "
                        << canonicalName(weight.getFormat()) << " in "
                        << canonicalName(weight.getLayout());
      diag.attachNote(object.getLoc()) << "the object is declared here";
      return diag;
    }
  }
  return success();
}

LogicalResult ParamOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParameterAttr());
  if (!parameter) // param_c1
    return emitOpError() << "'" << getParameter() << "' is not a ninfer.parameter of this module";
  if (parameter.getType() != getResult().getType()) { // param_c2
    InFlightDiagnostic diag = emitOpError()
                              << "expected the parameter's type " << parameter.getType() << ", got "
                              << getResult().getType();
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
    InFlightDiagnostic diag = emitOpError() << "expected the state's type " << state.getType()
                                            << ", got " << getResult().getType();
    diag.attachNote(state.getLoc()) << "the state is declared here";
    return diag;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Names of results in text: the last component of the path
//===----------------------------------------------------------------------===//

void ParamOp::getAsmResultNames(OpAsmSetValueNameFn setNameFn) {
  setNameFn(getResult(), getParameter().rsplit('/').second);
}

void StateRefOp::getAsmResultNames(OpAsmSetValueNameFn setNameFn) {
  setNameFn(getResult(), getState().rsplit('/').second);
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
