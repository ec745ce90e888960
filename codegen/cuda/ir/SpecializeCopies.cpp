// Operators that only move rows: into and out of the buffers that phases hand over, side by side, the last of a call.
#include "codegen/cuda/CopyRows.h"
#include "codegen/cuda/ir/RecordBuilder.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ninfer::cuda {
namespace {

/// Sizes in bytes.
struct Copy {
  uint32_t aWidth, bWidth, aStride, bStride, outStride;
  uint32_t column = 0; ///< where the side that is columns of a buffer begins
};

uint32_t bytesOf(Value activation) { return static_cast<uint32_t>(widthOf(activation)) * kActivationBytes; }
uint32_t bytesOf(RowBufferType buffer) { return static_cast<uint32_t>(buffer.getWidth()) * kActivationBytes; }

/// Text and sizes; the three pointers are there already.
void finish(RecordBuilder &builder, Value rows, const Copy &copy) {
  const uint32_t piece = ni::copyRowsPiece(copy.aWidth | copy.bWidth, copy.aStride | copy.bStride, copy.outStride, copy.column);
  builder.record().text = copyRowsKernel({piece}, builder.sm());
  for (uint32_t bytes : {copy.aWidth, copy.bWidth, copy.aStride, copy.bStride, copy.outStride})
    builder.word(bytes / piece);
  const uint32_t columns = ni::copyRowsBlocks((copy.aWidth + copy.bWidth) / piece);
  builder.record().grid = {columns, 0, 1};
  builder.blocksPerRow(rows, columns);
}

} // namespace

Status copyRows(Operation *operation, RecordBuilder &builder) {
  llvm::TypeSwitch<Operation *>(operation)
      .Case([&](StoreRowsOp op) {
        const uint32_t width = bytesOf(op.getX()), column = static_cast<uint32_t>(op.getColumn()) * kActivationBytes;
        builder.pointer(op.getX()).null().pointer(op.getBuffer(), 0, 0, column);
        finish(builder, op.getX(), {width, 0, width, 0, bytesOf(op.getBuffer().getType()), column});
      })
      .Case([&](LoadRowsOp op) {
        const uint32_t width = bytesOf(op.getResult()), column = static_cast<uint32_t>(op.getColumn()) * kActivationBytes;
        builder.pointer(op.getBuffer(), 0, 0, column).null().result();
        finish(builder, op.getResult(), {width, 0, bytesOf(op.getBuffer().getType()), 0, width, column});
      })
      .Case([&](ConcatOp op) {
        const uint32_t a = bytesOf(op.getLhs()), b = bytesOf(op.getRhs());
        builder.pointer(op.getLhs()).pointer(op.getRhs()).result();
        finish(builder, op.getResult(), {a, b, a, b, a + b});
      })
      .Case([&](LastRowOp op) {
        const uint32_t width = bytesOf(op.getX());
        const bool dynamic = cast<RankedTensorType>(op.getX().getType()).isDynamicDim(0);
        builder.pointer(op.getX(), 0, dynamic ? width : 0).null().result();
        finish(builder, op.getResult(), {width, 0, width, 0, width});
      });
  return {};
}

} // namespace ninfer::cuda
