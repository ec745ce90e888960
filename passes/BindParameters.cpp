// ninfer-bind-parameters: from element ranges of objects to payload bytes of each plane. What the
// verifiers of ninfer.object and ninfer.parameter promise (docs/dialect/spec.md) is not checked
// again.
#include "passes/Passes.h"

#include "artifact/layouts/Layout.h"
#include "dialects/ninfer/NinferDialect.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace ninfer {

#define GEN_PASS_DEF_BINDPARAMETERSPASS
#include "passes/Passes.h.inc"

namespace {

/// Tile height of the block scale plane: a slice must start and end on it to be contiguous.
constexpr uint64_t kBlockScaleRows = 128;

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(shape, os, "x");
  return text;
}

InFlightDiagnostic errorOn(ParameterOp parameter) {
  return emitError(parameter.getLoc()) << "parameter '" << parameter.getSymName() << "': ";
}

InFlightDiagnostic withObject(InFlightDiagnostic diag, ObjectOp object) {
  diag.attachNote(object.getLoc())
      << "object '" << object.getSymName() << "' is " << shapeText(object.getShape()) << ", "
      << canonicalName(object.getFormat()) << ", " << canonicalName(object.getLayout());
  return diag;
}

/// Joins the parts to one element range of one object.
FailureOr<PartAttr> joinParts(ParameterOp parameter) {
  auto parts = parameter.getParts().getAsRange<PartAttr>();
  PartAttr whole = *parts.begin();
  for (auto [index, part] : llvm::drop_begin(llvm::enumerate(parts))) {
    if (part.getObject() != whole.getObject())
      return errorOn(parameter) << "part " << index << ": expected a range of '"
                                << whole.getObject().getValue() << "' as in part 0, got one of '"
                                << part.getObject().getValue()
                                << "'; a kernel reads consecutive rows of one object";
    if (part.getBegin() != whole.getEnd())
      return errorOn(parameter) << "part " << index << ": expected to begin at element "
                                << whole.getEnd() << ", where part " << index - 1 << " ends, got "
                                << part.getBegin()
                                << "; a kernel reads consecutive rows of one object";
    whole =
        PartAttr::get(parameter.getContext(), whole.getObject(), whole.getBegin(), part.getEnd());
  }
  return whole;
}

/// First row of the parameter in the object, in rows of the parameter's length.
FailureOr<uint64_t> firstRow(ParameterOp parameter, PartAttr range, ObjectOp object,
                             const EncodedGeometry &g) {
  auto type = cast<WeightType>(parameter.getType());
  const uint64_t k = static_cast<uint64_t>(type.getK()), n = static_cast<uint64_t>(type.getN());
  const uint64_t begin = static_cast<uint64_t>(range.getBegin());
  // Direct words have no row structure: any run of whole parameter rows is a run of bytes.
  if (g.layout != Layout::ContiguousLeV1 && k != g.k)
    return withObject(errorOn(parameter)
                          << "row length: expected " << g.k << " as in the object, got " << k,
                      object);
  if (begin % k != 0)
    return withObject(errorOn(parameter) << "range: expected to begin at a row, a multiple of " << k
                                         << " elements, got " << begin,
                      object);
  const uint64_t first = begin / k;
  if (g.layout == Layout::BlockScaleK16M128x4V1 && first % kBlockScaleRows != 0)
    return withObject(errorOn(parameter) << "rows: expected whole blocks of " << kBlockScaleRows
                                         << " rows, got rows " << first << ".." << first + n,
                      object);
  return first;
}

struct BindParametersPass : impl::BindParametersPassBase<BindParametersPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    bool failedAny = false;
    for (auto parameter : getOperation().getOps<ParameterOp>()) {
      if (failed(bind(parameter, symbols)))
        failedAny = true;
      else
        ++bound;
    }
    if (failedAny)
      signalPassFailure();
  }

private:
  LogicalResult bind(ParameterOp parameter, SymbolTable &symbols) {
    FailureOr<PartAttr> range = joinParts(parameter);
    if (failed(range))
      return failure();
    auto object = symbols.lookup<ObjectOp>(range->getObject().getValue());
    llvm::SmallVector<uint64_t> shape(object.getShape().begin(), object.getShape().end());
    Result<EncodedGeometry> geometry =
        encodedGeometry(object.getFormat(), object.getLayout(), shape);
    if (!geometry.ok())
      return errorOn(parameter) << geometry.error().message;
    const EncodedGeometry &g = *geometry;
    FailureOr<uint64_t> first = firstRow(parameter, *range, object, g);
    if (failed(first))
      return failure();

    auto type = cast<WeightType>(parameter.getType());
    const uint64_t k = static_cast<uint64_t>(type.getK()), n = static_cast<uint64_t>(type.getN());
    const bool direct = g.layout == Layout::ContiguousLeV1;
    llvm::SmallVector<Attribute> planes;
    for (const PlaneInfo &plane : g.planes) {
      // A row of the parameter; a plane without rows (a divisor) serves every slice as a whole.
      const uint64_t rowBytes = direct ? plane.rowBytes / g.k * k : plane.rowBytes;
      const uint64_t offset =
          static_cast<uint64_t>(object.getOffset()) + plane.offset + *first * rowBytes;
      const uint64_t bytes = rowBytes ? n * rowBytes : plane.bytes;
      planes.push_back(
          PlaneAttr::get(&getContext(), static_cast<int64_t>(offset), static_cast<int64_t>(bytes)));
    }
    parameter.setPlanesAttr(ArrayAttr::get(&getContext(), planes));
    return success();
  }
};

} // namespace
} // namespace ninfer
