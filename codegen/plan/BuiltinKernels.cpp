// Kernels that the runtime has built in: symbol and attributes from one operation of the dialect.
// The runtime's own factory is asked at build time, so a plan never names a built-in that its
// runtime would refuse.
#include "codegen/plan/PlanTarget.h"
#include "runtime/reference/Builtin.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ninfer {
namespace {

/// Fills plan attributes and the runtime's map side by side.
class AttributeList {
public:
  explicit AttributeList(plan::KernelT &kernel) : kernel_(kernel) {}

  AttributeList &integer(const char *name, int64_t value) {
    add(name, plan::AttributeType::Int).i = value;
    map[name] = value;
    return *this;
  }
  AttributeList &number(const char *name, double value) {
    add(name, plan::AttributeType::Float).f = value;
    map[name] = value;
    return *this;
  }
  AttributeList &text(const char *name, std::string_view value) {
    add(name, plan::AttributeType::String).s = value;
    map[name] = std::string(value);
    return *this;
  }
  AttributeList &numbers(const char *name, ArrayRef<double> values) {
    add(name, plan::AttributeType::Floats).floats.assign(values.begin(), values.end());
    map[name] = std::vector<double>(values.begin(), values.end());
    return *this;
  }
  AttributeList &weight(WeightType type) {
    return text("format", canonicalName(type.getFormat()))
        .text("layout", canonicalName(type.getLayout()))
        .integer("n", type.getN())
        .integer("k", type.getK());
  }
  AttributeList &codec(KvCacheType type) {
    return text("codec", type.getElementType().isF32()         ? "f32"
                         : type.getElementType().isInteger(8) ? "int8"
                                                              : "bf16");
  }

  AttributeList &handover(Value buffer, Value rows, int64_t column) {
    return integer("k", cast<RankedTensorType>(rows.getType()).getDimSize(1))
        .integer("width", cast<RowBufferType>(buffer.getType()).getWidth())
        .integer("column", column);
  }

  reference::AttributeMap map;

private:
  plan::AttributeT &add(const char *name, plan::AttributeType type) {
    kernel_.attributes.push_back(std::make_unique<plan::AttributeT>());
    kernel_.attributes.back()->name = name;
    kernel_.attributes.back()->type = type;
    return *kernel_.attributes.back();
  }
  plan::KernelT &kernel_;
};

int64_t widthOf(Value activation) {
  return cast<RankedTensorType>(activation.getType()).getDimSize(1);
}

/// False for an operation that no built-in computes.
bool describe(Operation *op, AttributeList &list) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](EmbeddingOp o) { return list.weight(o.getWeight().getType()), true; })
      .Case([&](LinearOp o) {
        list.weight(o.getWeight().getType());
        if (o.getRowGroup() != 1)
          list.integer("row_group", o.getRowGroup());
        return true;
      })
      .Case([&](LayerNormOp o) {
        return list.integer("k", widthOf(o.getX())).number("eps", o.getEps()), true;
      })
      .Case([&](BiasOp o) {
        list.integer("k", widthOf(o.getX()));
        if (o.getRowGroup() != 1)
          list.integer("row_group", o.getRowGroup());
        return true;
      })
      .Case([&](GeluOp o) {
        list.integer("k", widthOf(o.getX()));
        if (o.getTanh())
          list.integer("tanh", 1);
        return true;
      })
      .Case([&](AxialRopeOp o) {
        list.integer("heads", o.getHeads())
            .integer("pairs", o.getTable().getType().getPairs())
            .integer("capacity", o.getTable().getType().getCapacity());
        return true;
      })
      .Case([&](FullAttentionOp o) {
        list.integer("heads", o.getHeads())
            .integer("dim", widthOf(o.getQuery()) / o.getHeads())
            .number("scale", o.getScale());
        return true;
      })
      .Case([&](InterpolateOp o) {
        return list.weight(o.getTable().getType()).integer("taps", widthOf(o.getIndices())), true;
      })
      .Case([&](RmsNormOp o) {
        list.integer("k", widthOf(o.getX()))
            .number("eps", o.getEps())
            .integer("unit_offset", o.getUnitOffset());
        return true;
      })
      .Case([&](HeadNormOp o) {
        const int64_t heads = o.getHeads();
        list.integer("heads", heads)
            .integer("dim", widthOf(o.getX()) / heads)
            .number("eps", o.getEps());
        if (o.getUnitOffset())
          list.integer("unit_offset", 1);
        return true;
      })
      .Case([&](GatedHeadNormOp o) {
        const int64_t heads = o.getHeads();
        list.integer("heads", heads)
            .integer("dim", widthOf(o.getX()) / heads)
            .number("eps", o.getEps());
        return true;
      })
      .Case([&](CausalConvOp o) {
        list.integer("taps", o.getWeight().getType().getN())
            .integer("query_width", widthOf(o.getQuery()))
            .integer("key_width", widthOf(o.getKey()))
            .integer("value_width", widthOf(o.getValue()));
        if (o.getPeek())
          list.integer("peek", 1);
        return true;
      })
      .Case([&](GatedDeltaOp o) {
        DeltaStateType state = o.getState().getType();
        list.integer("key_heads", o.getKeyHeads())
            .integer("key_dim", state.getKeyDim())
            .integer("value_heads", state.getValueHeads())
            .integer("value_dim", state.getValueDim());
        if (o.getPeek())
          list.integer("peek", 1);
        return true;
      })
      .Case([&](RopeOp o) {
        const int64_t heads = o.getHeads();
        list.integer("heads", heads)
            .integer("dim", widthOf(o.getX()) / heads)
            .integer("pairs", o.getTable().getType().getPairs())
            .integer("capacity", o.getTable().getType().getCapacity());
        return true;
      })
      .Case([&](KvAppendOp o) {
        KvCacheType cache = o.getCache().getType();
        list.integer("kv_heads", cache.getKvHeads())
            .integer("dim", cache.getHeadDim())
            .integer("capacity", cache.getCapacity())
            .codec(cache);
        return true;
      })
      .Case([&](AttentionOp o) {
        KvCacheType cache = o.getCache().getType();
        list.integer("heads", o.getHeads())
            .integer("kv_heads", o.getKvHeads())
            .integer("dim", cache.getHeadDim())
            .integer("capacity", cache.getCapacity())
            .codec(cache)
            .number("scale", o.getScale());
        return true;
      })
      .Case([&](SwigluOp o) { return list.integer("k", widthOf(o.getResult())), true; })
      .Case([&](SigmoidGateOp o) {
        list.integer("k", widthOf(o.getResult()));
        if (widthOf(o.getGate()) != widthOf(o.getX()))
          list.integer("row_gate", 1);
        return true;
      })
      .Case([&](MoeRouteOp o) {
        return list.integer("experts", widthOf(o.getLogits())).integer("top_k", o.getTopK()), true;
      })
      .Case<MoeUpOp, MoeDownOp>([&](auto o) {
        list.weight(o.getBank().getType())
            .integer("experts", o.getExperts())
            .integer("top_k", o.getTopK());
        return true;
      })
      .Case([&](AddOp o) { return list.integer("k", widthOf(o.getResult())), true; })
      .Case([&](LastRowOp o) { return list.integer("k", widthOf(o.getResult())), true; })
      .Case([&](StoreRowsOp o) { return list.handover(o.getBuffer(), o.getX(), o.getColumn()), true; })
      .Case([&](LoadRowsOp o) {
        return list.handover(o.getBuffer(), o.getResult(), o.getColumn()), true;
      })
      .Case([&](ConcatOp o) {
        return list.integer("lhs_width", widthOf(o.getLhs())).integer("rhs_width", widthOf(o.getRhs())),
               true;
      })
      .Case([&](ReplaceRowsOp o) { return list.integer("k", widthOf(o.getX())), true; })
      .Case([&](PlaceAnglesOp o) {
        const SmallVector<double> axes(o.getAxes().begin(), o.getAxes().end());
        list.integer("capacity", o.getPlaced().getType().getCapacity())
            .integer("positions", o.getAngles().getType().getCapacity())
            .integer("width", widthOf(o.getPositions()))
            .numbers("axes", axes);
        return true;
      })
      .Default([](Operation *) { return false; });
}

/// Asks the runtime's factory, and takes the number of arguments and the scratch size from it.
Status finish(plan::KernelT &kernel, const AttributeList &list, const std::string &target) {
  auto builtin = reference::makeBuiltin(kernel.symbol, list.map, kernel.name);
  if (!builtin.ok()) {
    Status status =
        makeError(ErrorKind::Unsupported, "NB0531",
                  target + ": built-in kernel '" + kernel.name + "' is refused by the runtime");
    status.note(builtin.error().message);
    return status;
  }
  kernel.num_args = static_cast<uint32_t>((*builtin)->args(1).size());
  kernel.scratch_bytes = (*builtin)->scratchBytes();
  return {};
}

} // namespace

Operation *builtinBody(KernelOp kernel) {
  Operation *body = nullptr;
  for (Operation &op : kernel.getBlock()->without_terminator()) {
    if (body)
      return nullptr;
    body = &op;
  }
  return body;
}

Result<std::unique_ptr<plan::KernelT>> builtinKernel(KernelOp kernel, const std::string &target) {
  auto result = std::make_unique<plan::KernelT>();
  result->name = kernel.getSymName();
  result->kind = plan::KernelKind::Builtin;
  result->family = kernel.getFamily();
  result->profile = kernel.getProfile();
  Operation *body = builtinBody(kernel);
  AttributeList list(*result);
  if (!body || !describe(body, list))
    return planError(target, "kernel '" + result->name +
                                 "' is not one operation that the runtime has built in");
  // Operations behind last_row have one row in a call of many.
  const Value rows = isa<LoadRowsOp>(body) ? body->getResult(0) : body->getOperand(0);
  if (auto type = cast<RankedTensorType>(rows.getType()); !type.isDynamicDim(0))
    list.integer("rows", type.getDimSize(0));
  result->symbol = ("ref." + body->getName().stripDialect()).str();
  NINFER_RETURN_IF_ERROR(finish(*result, list, target));
  return result;
}

Result<std::unique_ptr<plan::KernelT>> ropeTableKernel(StateOp state, std::string name,
                                                       const std::string &target) {
  auto result = std::make_unique<plan::KernelT>();
  result->name = std::move(name);
  result->kind = plan::KernelKind::Builtin;
  result->symbol = "rope_table";
  result->family = "rope_table";
  auto type = cast<RopeTableType>(state.getType());
  if (!state.getInvFreq())
    return planError(target, "rope table '" + state.getSymName().str() + "' has no inv_freq");
  AttributeList list(*result);
  list.integer("capacity", type.getCapacity())
      .integer("pairs", type.getPairs())
      .numbers("inv_freq", *state.getInvFreq());
  NINFER_RETURN_IF_ERROR(finish(*result, list, target));
  return result;
}

} // namespace ninfer
