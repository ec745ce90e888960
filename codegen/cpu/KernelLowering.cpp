// Dispatch by family, and what all families share: pointers, rows, tile ranges.
#include "codegen/cpu/KernelLowering.h"

#include "artifact/layouts/Layout.h"
#include "codegen/cpu/kernels/MicroKernels.h"
#include "runtime/abi/kernel_abi.h"

#include "mlir/IR/Verifier.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ninfer::cpu {

std::string kernelSymbol(KernelOp kernel) {
  std::string symbol = kernel.getSymName().str();
  for (char &c : symbol)
    if (!llvm::isAlnum(c) && c != '_' && c != '.')
      c = '_';
  return symbol;
}

std::optional<llvm::StringRef> microFormatName(Format format) {
  switch (format) {
  case Format::BF16:
    return "bf16";
  case Format::FP32:
    return "fp32";
  case Format::Q4G64_F16S:
    return "q4";
  case Format::Q5G64_F16S:
    return "q5";
  case Format::Q6G64_F16S:
    return "q6";
  case Format::W8G32_F16S:
    return "w8";
  case Format::NVFP4:
    return "nvfp4";
  case Format::FP8_E4M3FN_ROW_BF16S:
    return "fp8row";
  case Format::I32:
    break;
  }
  return std::nullopt;
}

MicroPack microPackOf(Format format, llvm::StringRef profile) {
  const bool g32 = format == Format::W8G32_F16S;
  if (profile == "a16")
    return g32 ? MicroPack::A16G32 : MicroPack::A16G64;
  if (profile == "a8")
    return g32 ? MicroPack::A8G32 : MicroPack::A8G64;
  return MicroPack::F32;
}

llvm::StringRef microPackFunction(MicroPack pack) {
  switch (pack) {
  case MicroPack::F32:
    return "ni_pack_f32";
  case MicroPack::A16G64:
    return "ni_pack_a16g64";
  case MicroPack::A16G32:
    return "ni_pack_a16g32";
  case MicroPack::A8G64:
    return "ni_pack_a8g64";
  case MicroPack::A8G32:
    return "ni_pack_a8g32";
  }
  return "";
}

llvm::StringRef microPackPartFunction(MicroPack pack) {
  switch (pack) {
  case MicroPack::F32:
    return "ni_pack_part_f32";
  case MicroPack::A16G64:
    return "ni_pack_part_a16g64";
  case MicroPack::A16G32:
    return "ni_pack_part_a16g32";
  case MicroPack::A8G64:
    return "ni_pack_part_a8g64";
  case MicroPack::A8G32:
    return "ni_pack_part_a8g32";
  }
  return "";
}

llvm::StringRef microCodecName(KvCacheType cache) {
  Type word = cache.getElementType();
  return word.isF32() ? "f32" : word.isInteger(8) ? "int8" : "bf16";
}

CachePlane cachePlane(KvCacheType cache) {
  const int64_t rows = cache.getCapacity(), dim = cache.getHeadDim();
  CachePlane plane;
  if (!cache.getElementType().isInteger(8)) {
    plane.headBytes = rows * dim * (cache.getElementType().getIntOrFloatBitWidth() / 8);
    return plane;
  }
  plane.headBytes = rows * dim;
  plane.scalesOffset = microKvInt8ScalesOffset(cache.getKvHeads(), rows, dim);
  plane.headScaleBytes = rows * (microRoundUp(dim, kMicroKvGroup) / kMicroKvGroup) * 2;
  return plane;
}

bool isBf16Vector(Value weight) {
  auto type = llvm::cast<WeightType>(weight.getType());
  return !type.isMatrix() && type.getFormat() == Format::BF16;
}

KernelLowering::KernelLowering(KernelOp kernel, const CpuTuning &tuning)
    : kernel(kernel), tuning(tuning), b(kernel.getContext(), kernel.getLoc(), kernelSymbol(kernel)) {}

LogicalResult KernelLowering::refuse(const llvm::Twine &why) {
  return kernel.emitError() << "no cpu code for family '" << kernel.getFamily() << "', profile '"
                            << kernel.getProfile() << "': " << why;
}

LogicalResult KernelLowering::open() {
  if (kernelSymbol(kernel).starts_with("ni_"))
    return refuse("names that start with ni_ are those of micro-kernels");
  Block *block = kernel.getBlock();
  ValueRange yielded = kernel.getYield()->getOperands();
  auto fused = llvm::dyn_cast<FusedOp>(block->front());
  if (!fused) {
    body = block;
    results.assign(yielded.begin(), yielded.end());
  } else {
    if (block->getOperations().size() != 2)
      return refuse("a fused group must be alone in its kernel");
    for (Value input : fused->getOperands())
      if (!llvm::isa<BlockArgument>(input))
        return refuse("operands of the fused group must be arguments of the kernel");
    body = fused.getBlock();
    for (Value value : yielded) {
      auto result = llvm::dyn_cast<OpResult>(value);
      if (!result || result.getOwner() != fused.getOperation())
        return refuse("results must come from the fused group");
      results.push_back(fused.getYield()->getOperand(result.getResultNumber()));
    }
  }
  for (Value result : results)
    if (!result.getDefiningOp())
      return refuse("a result is an argument");
  return success();
}

BlockArgument KernelLowering::argumentOf(Value value) {
  auto argument = llvm::dyn_cast<BlockArgument>(value);
  if (!argument)
    return {};
  if (auto fused = llvm::dyn_cast<FusedOp>(argument.getOwner()->getParentOp()))
    return llvm::cast<BlockArgument>(fused->getOperand(argument.getArgNumber()));
  return argument;
}

/// Pointers an operand takes in `args`: runtime/abi/kernel_abi.h.
int64_t KernelLowering::pointerCount(Type type) {
  if (auto weight = llvm::dyn_cast<WeightType>(type)) {
    llvm::SmallVector<uint64_t, 2> shape(weight.getShape().begin(), weight.getShape().end());
    Result<EncodedGeometry> geometry =
        encodedGeometry(weight.getFormat(), weight.getLayout(), shape);
    return geometry.ok() ? static_cast<int64_t>(geometry->planes.size()) : 0;
  }
  if (llvm::isa<KvCacheType>(type))
    return 2;
  return llvm::isa<IndexType>(type) ? 0 : 1;
}

llvm::SmallVector<Value, 3> KernelLowering::pointers(Value value) {
  BlockArgument argument = argumentOf(value);
  int64_t first = 0;
  for (BlockArgument before : kernel.getArguments().take_front(argument.getArgNumber()))
    first += pointerCount(before.getType());
  llvm::SmallVector<Value, 3> planes;
  for (int64_t i = 0, n = pointerCount(argument.getType()); i < n; ++i)
    planes.push_back(b.argument(first + i));
  while (planes.size() < 3)
    planes.push_back(b.nullPointer());
  return planes;
}

Value KernelLowering::resultPointer(unsigned index) {
  int64_t first = 0;
  for (BlockArgument argument : kernel.getArguments())
    first += pointerCount(argument.getType());
  return b.argument(first + index);
}

bool KernelLowering::hasStaticRows(Value value) {
  return !llvm::cast<RankedTensorType>(value.getType()).isDynamicDim(0);
}

Value KernelLowering::rowsOf(Value value) {
  if (hasStaticRows(value))
    return b.constant(llvm::cast<RankedTensorType>(value.getType()).getDimSize(0));
  return b.scalar(NINFER_SCALAR_ROWS);
}

int64_t KernelLowering::maxRowsOf(Value value) {
  if (hasStaticRows(value))
    return llvm::cast<RankedTensorType>(value.getType()).getDimSize(0);
  return kernel.getRows();
}

LogicalResult KernelLowering::unitRange(Value rowsLike, int64_t units, Value &begin, Value &end) {
  int64_t whole = kernel.getTilesConst(), perRow = kernel.getTilesPerRow();
  Value total = b.mul(rowsOf(rowsLike), units);
  int64_t unitsPerTile = 0;
  if (whole == 0 && (perRow == 1 || perRow == units))
    unitsPerTile = units / perRow;
  else if (perRow == 0 && hasStaticRows(rowsLike) && whole == maxRowsOf(rowsLike))
    unitsPerTile = units;
  else if (perRow == 0 && hasStaticRows(rowsLike) && whole == maxRowsOf(rowsLike) * units)
    unitsPerTile = 1;
  else if (perRow == 0 && whole == 1) {
    // One tile for everything: tile ranges are [0, 1) or empty.
    begin = b.constant(0);
    end = b.select(b.less(b.tileBegin(), b.tileEnd()), total, b.constant(0));
    return success();
  } else {
    return refuse(llvm::Twine(whole) + " + " + llvm::Twine(perRow) + " tiles per row do not cut " +
                  llvm::Twine(units) + " units per row");
  }
  begin = b.min(b.mul(b.tileBegin(), unitsPerTile), total);
  end = b.min(b.mul(b.tileEnd(), unitsPerTile), total);
  return success();
}

LogicalResult KernelLowering::forEachRow(Value rowsLike, llvm::function_ref<void(Value)> row) {
  Value begin, end;
  if (failed(unitRange(rowsLike, 1, begin, end)))
    return failure();
  b.loop(begin, end, 1, row);
  return success();
}

FailureOr<LoweredKernel> lowerKernel(KernelOp kernel, const CpuTuning &tuning) {
  KernelLowering l(kernel, tuning);
  if (failed(l.open()))
    return failure();
  llvm::StringRef family = kernel.getFamily(), profile = kernel.getProfile();
  LogicalResult lowered = failure();
  using LowerProfile = LogicalResult (*)(KernelLowering &, llvm::StringRef);
  constexpr std::pair<llvm::StringLiteral, LowerProfile> byProfile[] = {
      {"linear_", lowerLinear}, {"moe_up_", lowerMoeUp}, {"moe_down_", lowerMoeDown}};
  const auto *profiled =
      llvm::find_if(byProfile, [&](const auto &f) { return family.consume_front(f.first); });
  if (profiled != std::end(byProfile)) {
    lowered = family == profile ? profiled->second(l, profile)
                                : l.refuse("the family is for another profile");
  } else {
    using Lower = LogicalResult (*)(KernelLowering &);
    constexpr std::pair<llvm::StringLiteral, Lower> families[] = {{"embedding", lowerEmbedding},
                                                                  {"rms_norm", lowerRmsNorm},
                                                                  {"head_norm", lowerHeadNorm},
                                                                  {"rope", lowerRope},
                                                                  {"kv_append", lowerKvAppend},
                                                                  {"swiglu", lowerSwiglu},
                                                                  {"add", lowerAdd},
                                                                  {"last_row", lowerLastRow},
                                                                  {"attention", lowerAttention},
                                                                  {"rope_append", lowerRopeAppend},
                                                                  {"sigmoid_gate", lowerSigmoidGate},
                                                                  {"gated_head_norm", lowerGatedHeadNorm},
                                                                  {"causal_conv", lowerCausalConv},
                                                                  {"gated_delta", lowerGatedDelta},
                                                                  {"layer_norm", lowerLayerNorm},
                                                                  {"bias", lowerBias},
                                                                  {"gelu", lowerGelu},
                                                                  {"axial_rope", lowerAxialRope},
                                                                  {"full_attention", lowerFullAttention},
                                                                  {"interpolate", lowerInterpolate},
                                                                  {"moe_route", lowerMoeRoute},
                                                                  {"store_rows", lowerStoreRows},
                                                                  {"load_rows", lowerLoadRows},
                                                                  {"concat", lowerConcat},
                                                                  {"replace_rows", lowerReplaceRows},
                                                                  {"place_angles", lowerPlaceAngles}};
    const auto *entry = llvm::find_if(families, [&](const auto &f) { return f.first == family; });
    if (entry == std::end(families))
      lowered = l.refuse("unknown family");
    else if (profile != "f32")
      lowered = l.refuse("only profile f32 exists");
    else
      lowered = entry->second(l);
  }
  if (failed(lowered))
    return failure();
  LoweredKernel out;
  out.scratchBytes = l.b.scratchBytes();
  out.outlined = l.b.takeOutlined();
  out.module = l.b.finish();
  if (failed(verify(*out.module)))
    return failure();
  return out;
}

} // namespace ninfer::cpu
