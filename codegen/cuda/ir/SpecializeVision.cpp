// Operators of a vision tower.
#include "codegen/cuda/VisionText.h"
#include "codegen/cuda/ir/RecordBuilder.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ninfer::cuda {
namespace {

constexpr double kLog2E = 1.4426950408889634; // exponentials of the kernels have base 2

/// `elements` threads for every row.
void perElement(RecordBuilder &builder, Value rows, int64_t elements) {
  const uint32_t columns = ni::visionBlocksX(static_cast<uint32_t>(elements));
  builder.record().grid = {columns, 0, 1};
  builder.blocksPerRow(rows, columns);
}

} // namespace

Status vision(Operation *operation, RecordBuilder &b) {
  SpecializedKernel &record = b.record();
  return llvm::TypeSwitch<Operation *, Status>(operation)
      .Case([&](LayerNormOp op) -> Status {
        record.text = layerNormKernel({static_cast<uint32_t>(widthOf(op.getX()))}, b.sm());
        b.pointer(op.getX()).pointer(op.getWeight()).pointer(op.getBias()).result().number(op.getEps());
        b.blocksPerRow(op.getX(), 1);
        return {};
      })
      .Case([&](BiasOp op) -> Status {
        const bool wide = op->hasAttr(NinferDialect::kWide);
        record.text = biasKernel({static_cast<uint32_t>(op.getRowGroup()), wide ? ni::OutputType::Float : ni::OutputType::Bf16}, b.sm());
        b.pointer(op.getX()).pointer(op.getBias()).result().word(widthOf(op.getX()));
        perElement(b, op.getX(), widthOf(op.getX()));
        return {};
      })
      .Case([&](GeluOp op) -> Status {
        record.text = geluKernel({op.getTanh()}, b.sm());
        b.pointer(op.getX()).result().word(widthOf(op.getX()));
        perElement(b, op.getX(), widthOf(op.getX()));
        return {};
      })
      .Case([&](AxialRopeOp op) -> Status {
        RopeTableType table = op.getTable().getType();
        const ni::AxialRopeSpec spec{static_cast<uint32_t>(op.getHeads()), static_cast<uint32_t>(table.getPairs())};
        record.text = axialRopeKernel(spec, b.sm());
        b.pointer(op.getX()).pointer(op.getTable()).pointer(op.getPositions()).result().word(table.getCapacity());
        perElement(b, op.getX(), widthOf(op.getX()) / 2);
        return {};
      })
      .Case([&](InterpolateOp op) -> Status {
        WeightType table = op.getTable().getType();
        record.text = interpolateKernel({static_cast<uint32_t>(widthOf(op.getIndices()))}, b.sm());
        b.pointer(op.getIndices()).pointer(op.getWeights()).pointer(op.getTable()).result().word(table.getN()).word(table.getK());
        perElement(b, op.getIndices(), table.getK());
        return {};
      })
      .Case([&](FullAttentionOp op) -> Status {
        const auto heads = static_cast<uint32_t>(op.getHeads());
        const ni::FullAttentionSpec spec{heads, static_cast<uint32_t>(widthOf(op.getQuery())) / heads};
        if (!ni::fullAccepts(spec))
          return b.fail("attention among the rows takes no such heads");
        record.text = fullAttentionKernel(spec, b.sm());
        b.pointer(op.getQuery()).pointer(op.getKey()).pointer(op.getValue()).result().perRow(op.getQuery(), 1);
        b.number(op.getScale() * kLog2E);
        record.grid = {heads, 0, 1};
        b.blocksPerRow(op.getQuery(), heads, ni::kFullRows);
        return {};
      })
      .Default([&](Operation *other) -> Status { return b.fail("no CUDA kernel computes " + other->getName().getStringRef().str()); });
}

} // namespace ninfer::cuda
