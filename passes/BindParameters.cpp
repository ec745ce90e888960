// ninfer-bind-parameters: from element ranges of objects to payload bytes of each plane.
#include "passes/Passes.h"

#include "artifact/layouts/Layout.h"
#include "dialects/ninfer/NinferDialect.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ninfer {

#define GEN_PASS_DEF_BINDPARAMETERSPASS
#include "passes/Passes.h.inc"

namespace {

/// Tile height of the block scale plane: a slice must start and end on it to be contiguous.
constexpr uint64_t kBlockScaleRows = 128;

/// One object with its geometry, computed once.
struct BoundObject {
  ObjectOp op;
  EncodedGeometry geometry;
};

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(shape, os, "x");
  return shape.empty() ? "scalar" : text;
}

InFlightDiagnostic errorOn(ParameterOp parameter) {
  return emitError(parameter.getLoc()) << "parameter '" << parameter.getSymName() << "': ";
}

InFlightDiagnostic withObject(InFlightDiagnostic diag, ObjectOp object) {
  diag.attachNote(object.getLoc()) << "object '" << object.getSymName() << "' is " << shapeText(object.getShape())
                                   << ", " << canonicalName(object.getFormat()) << ", "
                                   << canonicalName(object.getLayout());
  return diag;
}

/// Checks an object's size and place against its encoding.
FailureOr<EncodedGeometry> geometryOf(ObjectOp object) {
  auto error = [&] { return emitError(object.getLoc()) << "object '" << object.getSymName() << "': "; };
  llvm::SmallVector<uint64_t> shape(object.getShape().begin(), object.getShape().end());
  Result<EncodedGeometry> geometry = encodedGeometry(object.getFormat(), object.getLayout(), shape);
  if (!geometry.ok()) {
    InFlightDiagnostic diag = error() << geometry.error().message;
    for (const std::string &note : geometry.error().notes)
      diag.attachNote() << note;
    return diag;
  }
  if (geometry->totalBytes != static_cast<uint64_t>(object.getBytes()))
    return error() << "size: expected " << geometry->totalBytes << " bytes for its shape and format, got "
                   << object.getBytes();
  if (object.getOffset() % geometry->alignment != 0)
    return error() << "offset: expected a multiple of " << geometry->alignment << ", got " << object.getOffset();
  if (object.getOffset() > INT64_MAX - object.getBytes())
    return error() << "end: expected below 2^63, got offset " << object.getOffset() << " and size "
                   << object.getBytes();
  return geometry.take();
}

struct BindParametersPass : impl::BindParametersPassBase<BindParametersPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool failedAny = false;
    objects_.clear();
    for (auto object : module.getOps<ObjectOp>()) {
      FailureOr<EncodedGeometry> geometry = geometryOf(object);
      if (failed(geometry))
        failedAny = true;
      else
        objects_.try_emplace(object.getSymName(), BoundObject{object, std::move(*geometry)});
    }
    if (failedAny)
      return signalPassFailure();
    for (auto parameter : module.getOps<ParameterOp>()) {
      if (failed(bind(parameter)))
        failedAny = true;
      else
        ++bound;
    }
    if (failedAny)
      signalPassFailure();
  }

private:
  /// Joins the parts to one element range [begin, end) of one object.
  FailureOr<PartAttr> joinParts(ParameterOp parameter) {
    PartAttr whole;
    for (auto [index, attr] : llvm::enumerate(parameter.getParts())) {
      auto part = cast<PartAttr>(attr);
      if (!whole) {
        whole = part;
        continue;
      }
      if (part.getObject() != whole.getObject())
        return errorOn(parameter) << "part " << index << ": expected a range of '" << whole.getObject().getValue()
                                  << "' as in part 0, got one of '" << part.getObject().getValue()
                                  << "'; a kernel reads consecutive rows of one object";
      if (part.getBegin() != whole.getEnd())
        return errorOn(parameter) << "part " << index << ": expected to begin at element " << whole.getEnd()
                                  << ", where part " << index - 1 << " ends, got " << part.getBegin()
                                  << "; a kernel reads consecutive rows of one object";
      whole = PartAttr::get(parameter.getContext(), whole.getObject(), whole.getBegin(), part.getEnd());
    }
    if (!whole)
      return errorOn(parameter) << "expected at least one part, got none";
    return whole;
  }

  /// Rows [first, first + count) of the object that the range covers; reports what does not fit.
  LogicalResult rowsOf(ParameterOp parameter, PartAttr range, const BoundObject &object, uint64_t &first,
                       uint64_t &count) {
    auto type = cast<WeightType>(parameter.getType());
    const EncodedGeometry &g = object.geometry;
    if (type.getFormat() != g.format || type.getLayout() != g.layout)
      return withObject(errorOn(parameter) << "encoding: expected " << canonicalName(type.getFormat()) << ", "
                                           << canonicalName(type.getLayout()) << " as in its type, got "
                                           << canonicalName(g.format) << ", " << canonicalName(g.layout),
                        object.op);
    // Counts are unsigned: 4-bit codes may be more than 2^63 in an object of fewer bytes.
    const uint64_t k = static_cast<uint64_t>(type.getK()), wanted = static_cast<uint64_t>(type.getN()) * k;
    const uint64_t elements = g.rows * g.k;
    if (range.getBegin() < 0 || range.getBegin() >= range.getEnd() ||
        static_cast<uint64_t>(range.getEnd()) > elements)
      return withObject(errorOn(parameter) << "range: expected within elements 0.." << elements << ", got "
                                           << range.getBegin() << ".." << range.getEnd(),
                        object.op);
    const uint64_t begin = static_cast<uint64_t>(range.getBegin());
    if (static_cast<uint64_t>(range.getEnd()) - begin != wanted)
      return withObject(errorOn(parameter) << "range: expected " << wanted << " elements for "
                                           << shapeText(type.getShape()) << ", got "
                                           << range.getEnd() - range.getBegin(),
                        object.op);
    // Direct words have no row structure: any run of whole parameter rows is a run of bytes.
    if (g.layout != Layout::ContiguousLeV1 && k != g.k)
      return withObject(errorOn(parameter) << "row length: expected " << g.k << " as in the object, got " << k,
                        object.op);
    if (begin % k != 0)
      return withObject(errorOn(parameter) << "range: expected to begin at a row, a multiple of " << k
                                           << " elements, got " << begin,
                        object.op);
    first = begin / k;
    count = static_cast<uint64_t>(type.getN());
    if (g.layout == Layout::BlockScaleK16M128x4V1 && (first % kBlockScaleRows != 0 || count % kBlockScaleRows != 0))
      return withObject(errorOn(parameter) << "rows: expected whole blocks of " << kBlockScaleRows
                                           << " rows, got rows " << first << ".." << first + count,
                        object.op);
    return success();
  }

  LogicalResult bind(ParameterOp parameter) {
    FailureOr<PartAttr> range = joinParts(parameter);
    if (failed(range))
      return failure();
    auto found = objects_.find(range->getObject().getValue());
    if (found == objects_.end())
      return errorOn(parameter) << "'" << range->getObject().getValue() << "' is not an object of this module";
    BoundObject &object = found->second;
    uint64_t first = 0, count = 0;
    if (failed(rowsOf(parameter, *range, object, first, count)))
      return failure();

    const EncodedGeometry &g = object.geometry;
    auto type = cast<WeightType>(parameter.getType());
    const uint64_t base = static_cast<uint64_t>(object.op.getOffset());
    llvm::SmallVector<Attribute> planes;
    for (const PlaneInfo &plane : g.planes) {
      // Words of a vector may start anywhere in a direct object; a plane without rows (a divisor) serves every slice.
      const bool direct = g.layout == Layout::ContiguousLeV1;
      const uint64_t rowBytes = direct ? plane.rowBytes / g.k * static_cast<uint64_t>(type.getK()) : plane.rowBytes;
      const uint64_t begin = first * rowBytes, bytes = rowBytes ? count * rowBytes : plane.bytes;
      planes.push_back(PlaneAttr::get(&getContext(), static_cast<int64_t>(base + plane.offset + begin),
                                      static_cast<int64_t>(bytes)));
    }
    parameter.setPlanesAttr(ArrayAttr::get(&getContext(), planes));
    return success();
  }

  llvm::StringMap<BoundObject> objects_; // looked up by name only
};

} // namespace
} // namespace ninfer
