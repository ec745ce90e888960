// Types of the dialect: text, legality by the registry tables, sizes.
#include "dialects/ninfer/NinferDialect.h"

#include "artifact/layouts/Layout.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

//===----------------------------------------------------------------------===//
// Text of shapes
//===----------------------------------------------------------------------===//

static ParseResult parseShape(AsmParser &parser, SmallVectorImpl<int64_t> &shape) {
  return parser.parseDimensionList(shape, /*allowDynamic=*/false, /*withTrailingX=*/false);
}

static void printShape(AsmPrinter &printer, ArrayRef<int64_t> shape) {
  printer.printDimensionList(shape);
}

static ParseResult parseExactDims(AsmParser &parser, size_t count, SmallVectorImpl<int64_t> &dims) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseDimensionList(dims, /*allowDynamic=*/false, /*withTrailingX=*/false))
    return failure();
  if (dims.size() != count)
    return parser.emitError(loc) << "expected " << count << " dimensions, got " << dims.size();
  return success();
}

static ParseResult parseDims2(AsmParser &parser, int64_t &a, int64_t &b) {
  SmallVector<int64_t> dims;
  if (parseExactDims(parser, 2, dims))
    return failure();
  a = dims[0];
  b = dims[1];
  return success();
}

static void printDims2(AsmPrinter &printer, int64_t a, int64_t b) {
  printer.printDimensionList({a, b});
}

static ParseResult parseDims3(AsmParser &parser, int64_t &a, int64_t &b, int64_t &c) {
  SmallVector<int64_t> dims;
  if (parseExactDims(parser, 3, dims))
    return failure();
  a = dims[0];
  b = dims[1];
  c = dims[2];
  return success();
}

static void printDims3(AsmPrinter &printer, int64_t a, int64_t b, int64_t c) {
  printer.printDimensionList({a, b, c});
}

#define GET_TYPEDEF_CLASSES
#include "dialects/ninfer/NinferTypes.cpp.inc"

namespace ninfer {

void NinferDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/ninfer/NinferTypes.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Legality and sizes
//===----------------------------------------------------------------------===//

static LogicalResult verifyDims(function_ref<InFlightDiagnostic()> emitError,
                                ArrayRef<int64_t> dims) {
  for (auto [index, dim] : llvm::enumerate(dims))
    if (dim <= 0)
      return emitError() << "dimension " << index << " must be positive, got " << dim;
  return success();
}

/// The product of the factors is a size in bytes.
static LogicalResult verifyBytes(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> factors) {
  int64_t bytes = 1;
  for (int64_t factor : factors)
    if (llvm::MulOverflow(bytes, factor, bytes) || bytes > kMaxBytes)
      return emitError() << "takes more than " << kMaxBytes << " bytes";
  return success();
}

LogicalResult WeightType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Format format, Layout layout) {
  if (shape.empty() || shape.size() > 2) // weight_c1
    return emitError() << "weight must have rank 1 or 2, got rank " << shape.size();
  if (failed(verifyDims(emitError, shape))) // weight_c2
    return failure();
  if (failed(verifyRegisteredPair(emitError, format, layout))) // weight_c3
    return failure();
  SmallVector<uint64_t, 2> sizes(shape.begin(), shape.end());
  Result<EncodedGeometry> geometry = encodedGeometry(format, layout, sizes);
  if (!geometry.ok()) // weight_c4
    return emitError() << "no encoding of this shape: " << geometry.error().message;
  if (geometry->totalBytes > kMaxBytes) // weight_c5
    return emitError() << "encoding takes " << geometry->totalBytes << " bytes, the limit is "
                       << kMaxBytes;
  return success();
}

int64_t WeightType::getEncodedBytes() const {
  SmallVector<uint64_t, 2> sizes(getShape().begin(), getShape().end());
  return static_cast<int64_t>(encodedGeometry(getFormat(), getLayout(), sizes)->totalBytes);
}

LogicalResult KvCacheType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t kvHeads,
                                  int64_t capacity, int64_t headDim, Type elementType) {
  if (failed(verifyDims(emitError, {kvHeads, capacity, headDim}))) // kv_cache_c1
    return failure();
  if (!elementType.isBF16() && !elementType.isF32() && !elementType.isInteger(8)) // kv_cache_c2
    return emitError() << "element type must be bf16, f32 or i8, got " << elementType;
  return verifyBytes(emitError, {2, kvHeads, capacity, headDim, 4}); // kv_cache_c3
}

int64_t KvCacheType::getPlaneBytes() const {
  const int64_t rows = getKvHeads() * getCapacity();
  if (!getElementType().isInteger(8))
    return rows * getHeadDim() * (getElementType().getIntOrFloatBitWidth() / 8);
  constexpr int64_t kGroup = 64, kAlign = 64, kScaleBytes = 2;
  return llvm::alignTo(rows * getHeadDim(), kAlign) +
         rows * llvm::divideCeil(getHeadDim(), kGroup) * kScaleBytes;
}

LogicalResult RopeTableType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t capacity,
                                    int64_t pairs) {
  if (failed(verifyDims(emitError, {capacity, pairs}))) // rope_table_c1
    return failure();
  return verifyBytes(emitError, {capacity, pairs, 2, 4}); // rope_table_c2
}

LogicalResult ConvStateType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                                    int64_t channels) {
  if (failed(verifyDims(emitError, {rows, channels}))) // conv_state_c1
    return failure();
  return verifyBytes(emitError, {rows, channels, 4}); // conv_state_c2
}

LogicalResult DeltaStateType::verify(function_ref<InFlightDiagnostic()> emitError,
                                     int64_t valueHeads, int64_t valueDim, int64_t keyDim) {
  if (failed(verifyDims(emitError, {valueHeads, valueDim, keyDim}))) // delta_state_c1
    return failure();
  return verifyBytes(emitError, {valueHeads, valueDim, keyDim, 4}); // delta_state_c2
}

LogicalResult RowBufferType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                                    int64_t width) {
  if (failed(verifyDims(emitError, {rows, width}))) // row_buffer_c1
    return failure();
  return verifyBytes(emitError, {rows, width, 4}); // row_buffer_c2
}

int64_t stateBytes(Type type) {
  return llvm::TypeSwitch<Type, int64_t>(type)
      .Case<KvCacheType, RopeTableType, ConvStateType, DeltaStateType, RowBufferType>(
          [](auto state) { return state.getBytes(); })
      .Default([](Type) { return 0; });
}

} // namespace ninfer
