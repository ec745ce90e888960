// One module -> one target section: states, kernels, phases with their launches, traces.
#include "codegen/plan/PlanTarget.h"

#include "codegen/plan/PlanCuda.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;

namespace ninfer {
namespace {

constexpr uint64_t kStateAlign = 64;
/// The request that admission answered, as text; ninfer-admit-kernels sets it.
constexpr llvm::StringLiteral kSignature = "ninfer.signature";

uint64_t alignUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

/// What a kernel moves and computes at `rows` rows: each argument once, by its greediest reader.
struct Cost {
  int64_t bytesRead = 0, flops = 0;
};

Cost costOf(KernelOp kernel, int64_t rows) {
  Cost cost;
  for (auto op : kernel.getBlock()->getOps<NinferCostOpInterface>()) {
    cost.bytesRead += op.bytesRead(rows);
    cost.flops += op.flops(rows);
  }
  return cost;
}

class TargetBuilder {
public:
  TargetBuilder(const PlanTargetInput &input, uint32_t blob)
      : input_(input), module_(input.module), symbols_(module_), blob_(blob) {
    target_ = std::make_unique<plan::TargetT>();
    if (input.cuda)
      cuda_.emplace(*input.cuda, blob, input.name);
  }

  Result<std::unique_ptr<plan::TargetT>> run() {
    target_->name = input_.name;
    target_->executor = input_.executor;
    target_->cpu_features = input_.cpuFeatures;
    states();
    NINFER_RETURN_IF_ERROR(kernels());
    NINFER_RETURN_IF_ERROR(setup());
    for (auto function : module_.getOps<func::FuncOp>())
      NINFER_RETURN_IF_ERROR(phase(function));
    if (cuda_)
      cuda_->finish(*target_);
    for (const auto &kernel : target_->kernels)
      target_->scratch_bytes_per_thread =
          std::max(target_->scratch_bytes_per_thread, kernel->scratch_bytes);
    return std::move(target_);
  }

private:
  Error fail(std::string text) const { return planError(input_.name, std::move(text)); }

  // --- states
  // -----------------------------------------------------------------------------------------

  void states() {
    for (auto op : module_.getOps<StateOp>()) {
      auto state = std::make_unique<plan::StateT>();
      state->name = op.getSymName();
      state->align = stateAlign();
      TypeSwitch<Type>(op.getType())
          .Case([&](KvCacheType type) {
            state->kind = "kv_cache";
            state->bytes = valuesOffset(type) + type.getPlaneBytes();
          })
          .Case([&](RopeTableType type) {
            state->kind = "rope_table";
            state->bytes = type.getBytes();
          })
          .Case([&](ConvStateType type) {
            state->kind = "conv_state";
            state->bytes = type.getBytes();
          })
          .Case([&](DeltaStateType type) {
            state->kind = "delta_state";
            state->bytes = type.getBytes();
          })
          .Case([&](RowBufferType type) {
            state->kind = "row_buffer";
            state->bytes = type.getBytes();
          });
      stateIndex_[op.getSymName()] = static_cast<uint32_t>(target_->states.size());
      target_->states.push_back(std::move(state));
    }
    if (cuda_)
      cuda_->addStates(*target_);
  }

  /// Kernels of a GPU load 16 bytes at a time and copy whole lines.
  uint64_t stateAlign() const { return cuda_ ? kCudaAlign : kStateAlign; }

  /// Keys fill the first half of a cache; values start at the next argument boundary.
  uint64_t valuesOffset(KvCacheType type) const { return alignUp(type.getPlaneBytes(), stateAlign()); }

  // --- kernels
  // ----------------------------------------------------------------------------------------

  Status kernels() {
    std::map<std::string, const PlanKernelCode *> code;
    for (const PlanKernelCode &entry : input_.code)
      code[entry.name] = &entry;
    for (auto op : module_.getOps<KernelOp>()) {
      std::unique_ptr<plan::KernelT> kernel;
      if (builtins()) {
        NINFER_ASSIGN_OR_RETURN(kernel, builtinKernel(op, input_.name));
      } else if (cuda_) {
        NINFER_ASSIGN_OR_RETURN(kernel, cuda_->kernel(op));
      } else {
        kernel = std::make_unique<plan::KernelT>();
        kernel->name = op.getSymName();
        kernel->kind = plan::KernelKind::Elf;
        kernel->family = op.getFamily();
        kernel->profile = op.getProfile();
        kernel->blob = blob_;
        auto found = code.find(kernel->name);
        if (found == code.end())
          return fail("no machine code for kernel '" + kernel->name + "'");
        kernel->symbol = found->second->symbol;
        kernel->scratch_bytes = found->second->scratchBytes;
      }
      kernelIndex_[op.getSymName()] = static_cast<uint32_t>(target_->kernels.size());
      target_->kernels.push_back(std::move(kernel));
    }
    return {};
  }

  bool builtins() const { return input_.executor == "reference"; }

  // --- setup
  // ------------------------------------------------------------------------------------------

  Status setup() {
    auto phase = std::make_unique<plan::PhaseT>();
    phase->kind = plan::PhaseKind::Setup;
    phase->name = "setup";
    phase->min_rows = phase->max_rows = 1;
    for (auto op : module_.getOps<StateOp>()) {
      auto type = dyn_cast<RopeTableType>(op.getType());
      if (!type)
        continue;
      const size_t tables = phase->launches.size();
      std::unique_ptr<plan::KernelT> kernel;
      NINFER_ASSIGN_OR_RETURN(
          kernel, ropeTableKernel(op, "rope_table" + (tables ? "_" + std::to_string(tables) : ""),
                                  input_.name));
      auto launch = std::make_unique<plan::LaunchT>();
      launch->kernel = static_cast<uint32_t>(target_->kernels.size());
      launch->label = op.getSymName();
      launch->args.push_back(stateRef(op.getSymName(), 0, type.getBytes()));
      launch->tiles_const = type.getCapacity();
      target_->kernels.push_back(std::move(kernel));
      phase->launches.push_back(std::move(launch));
    }
    if (!phase->launches.empty())
      target_->phases.push_back(std::move(phase));
    return {};
  }

  plan::Ref stateRef(StringRef name, uint64_t offset, uint64_t bytes) const {
    return plan::Ref(plan::Space::State, stateIndex_.lookup(name), offset, bytes);
  }

  // --- phases
  // -----------------------------------------------------------------------------------------

  Status phase(func::FuncOp function) {
    auto name = function->getAttrOfType<StringAttr>(NinferDialect::kPhase);
    if (!name)
      return fail("function @" + function.getSymName().str() +
                  " has no phase (ninfer-split-phases)");
    auto phase = std::make_unique<plan::PhaseT>();
    phase->name = name.getValue();
    const std::optional<plan::PhaseKind> kind = kindOf(name.getValue());
    if (!kind)
      return fail("phase '" + name.getValue().str() + "' of function @" +
                  function.getSymName().str() + " is not known");
    phase->kind = *kind;
    auto minRows = function->getAttrOfType<IntegerAttr>(NinferDialect::kMinRows);
    phase->min_rows = minRows ? static_cast<uint32_t>(minRows.getInt()) : 1;
    auto maxRows = function->getAttrOfType<IntegerAttr>(NinferDialect::kMaxRows);
    maxRows_ = maxRows ? maxRows.getInt() : 1;
    phase->max_rows = static_cast<uint32_t>(maxRows_);

    auto arena = function->getAttrOfType<IntegerAttr>(NinferDialect::kArenaBytes);
    if (!arena)
      return fail("function @" + function.getSymName().str() +
                  " has no planned memory (ninfer-plan-memory)");
    target_->arena_bytes = std::max<uint64_t>(target_->arena_bytes, arena.getInt());
    NINFER_RETURN_IF_ERROR(arguments(function, *phase));
    NINFER_RETURN_IF_ERROR(tokenIds(function, *phase));

    for (Operation &op : function.getBody().front()) {
      if (auto launch = dyn_cast<LaunchOp>(op)) {
        NINFER_RETURN_IF_ERROR(this->launch(launch, *phase));
      } else if (auto result = dyn_cast<func::ReturnOp>(op)) {
        NINFER_RETURN_IF_ERROR(results(function, result, *phase));
      } else if (auto tap = dyn_cast<TapOp>(op)) {
        NINFER_RETURN_IF_ERROR(output(tap, *phase));
      } else if (!isa<ParamOp, StateRefOp>(op)) {
        return fail("'" + op.getName().getStringRef().str() +
                    "' is not a launch (ninfer-outline-kernels)");
      }
    }
    target_->phases.push_back(std::move(phase));
    return {};
  }

  static std::optional<plan::PhaseKind> kindOf(StringRef phase) {
    return llvm::StringSwitch<std::optional<plan::PhaseKind>>(phase)
        .Case("decode", plan::PhaseKind::Decode)
        .Case("prefill", plan::PhaseKind::Prefill)
        .Case("verify", plan::PhaseKind::Verify)
        .Case("draft", plan::PhaseKind::Draft)
        .Case("draft_next", plan::PhaseKind::DraftNext)
        .Case("commit", plan::PhaseKind::Commit)
        .Case("encode", plan::PhaseKind::Encode)
        .Case("place", plan::PhaseKind::Place)
        .Default(std::nullopt);
  }

  /// The parameter that names the token of every logit, if the function has one.
  Status tokenIds(func::FuncOp function, plan::PhaseT &phase) const {
    auto name = function->getAttrOfType<FlatSymbolRefAttr>(NinferDialect::kTokenIds);
    if (!name)
      return {};
    auto parameter = symbols_.lookup<ParameterOp>(name.getValue());
    if (!parameter || !parameter.getPlanes() || parameter.getPlanes()->size() != 1)
      return fail("token ids '" + name.getValue().str() +
                  "' have no plane (ninfer-bind-parameters)");
    auto plane = cast<PlaneAttr>((*parameter.getPlanes())[0]);
    phase.token_ids = std::make_unique<plan::Ref>(plan::Space::Payload, 0, plane.getOffset(),
                                                  plane.getBytes());
    return {};
  }

  Status output(TapOp tap, plan::PhaseT &phase) const {
    auto place = arenaRef(tap.getX());
    if (!place.ok())
      return place.takeStatus();
    auto port = std::make_unique<plan::PortT>();
    port->name = tap.getName();
    port->element = cuda_ ? plan::ElementType::BF16 : plan::ElementType::F32;
    port->width = static_cast<uint32_t>(tap.getX().getType().getDimSize(1));
    // The arena has room for float32 in either case.
    port->ref = std::make_unique<plan::Ref>(place->space(), place->index(), place->offset(),
                                            place->bytes() / 4 * elementBytes(port->element));
    phase.outputs.push_back(std::move(port));
    return {};
  }

  /// What the caller writes: the tokens and the ports, or one of both.
  Status arguments(func::FuncOp function, plan::PhaseT &phase) {
    arguments_.clear();
    auto tokens = function->getAttrOfType<IntegerAttr>(NinferDialect::kTokensOffset);
    auto offsets = function->getAttrOfType<DenseI64ArrayAttr>(NinferDialect::kPortOffsets);
    int64_t next = 0;
    for (BlockArgument argument : function.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type) // the position is a scalar of the call
        continue;
      auto name =
          function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), NinferDialect::kPort);
      if (!name && tokens) {
        const plan::Ref ref(plan::Space::Arena, 0, tokens.getInt(), maxRows_ * 4);
        phase.tokens = std::make_unique<plan::Ref>(ref);
        arguments_.try_emplace(argument, ref);
      } else if (name && offsets && next < offsets.size()) {
        auto port = this->port(name, type, offsets[next++]);
        if (cuda_ && port->element == plan::ElementType::F32) { // an activation like the others
          port->element = plan::ElementType::BF16;
          port->ref = std::make_unique<plan::Ref>(plan::Space::Arena, 0, port->ref->offset(), port->ref->bytes() / 2);
        }
        arguments_.try_emplace(argument, *port->ref);
        phase.inputs.push_back(std::move(port));
      } else {
        return fail("function @" + function.getSymName().str() +
                    " has no planned memory (ninfer-plan-memory)");
      }
    }
    return {};
  }

  /// What the caller reads: the logits, or the ports.
  Status results(func::FuncOp function, func::ReturnOp result, plan::PhaseT &phase) {
    for (auto [index, value] : llvm::enumerate(result.getOperands())) {
      auto ref = arenaRef(value);
      if (!ref.ok())
        return ref.takeStatus();
      auto name = function.getResultAttrOfType<StringAttr>(index, NinferDialect::kPort);
      if (name)
        phase.outputs.push_back(
            port(name, cast<RankedTensorType>(value.getType()), ref->offset()));
      else
        phase.logits = std::make_unique<plan::Ref>(*ref);
    }
    return {};
  }

  std::unique_ptr<plan::PortT> port(StringAttr name, RankedTensorType type, uint64_t offset) const {
    auto port = std::make_unique<plan::PortT>();
    port->name = name.getValue();
    port->element =
        type.getElementType().isInteger() ? plan::ElementType::I32 : plan::ElementType::F32;
    port->width = static_cast<uint32_t>(type.getDimSize(1));
    port->ref = std::make_unique<plan::Ref>(plan::Space::Arena, 0, offset,
                                            static_cast<uint64_t>(maxRows_) * port->width * 4);
    return port;
  }

  Status launch(LaunchOp op, plan::PhaseT &phase) {
    auto kernel = symbols_.lookup<KernelOp>(op.getKernel());
    auto launch = std::make_unique<plan::LaunchT>();
    launch->kernel = kernelIndex_.lookup(op.getKernel());
    launch->label = op.getLabel();
    launch->tiles_const = kernel.getTilesConst();
    launch->tiles_per_row = kernel.getTilesPerRow();
    if (cuda_)
      cuda_->setBlocks(kernel, *launch);
    // A line through the cost at no row and at one; of a tower through that of its longest call, where
    // attention among the rows counts every row of it.
    const int64_t rows = phase.kind == plan::PhaseKind::Encode ? maxRows_ : 1;
    const Cost none = costOf(kernel, 0), some = costOf(kernel, rows);
    launch->bytes_read_const = none.bytesRead;
    launch->bytes_read_per_row = (some.bytesRead - none.bytesRead) / rows;
    launch->flops_const = none.flops;
    launch->flops_per_row = (some.flops - none.flops) / rows;

    if (builtins()) { // by the operands of the operation: one value may feed two of them
      for (Value operand : builtinBody(kernel)->getOperands())
        NINFER_RETURN_IF_ERROR(
            argument(op.getInputs()[cast<BlockArgument>(operand).getArgNumber()], launch->args));
    } else {
      for (auto [index, input] : llvm::enumerate(op.getInputs())) {
        auto param = cuda_ ? input.getDefiningOp<ParamOp>() : ParamOp();
        if (!param) {
          NINFER_RETURN_IF_ERROR(argument(input, launch->args));
          continue;
        }
        auto weight = cuda_->weight(symbols_.lookup<ParameterOp>(param.getParameter()), kernel, index);
        if (!weight.ok())
          return weight.takeStatus();
        launch->args.push_back(*weight);
      }
    }
    for (Value result : op.getOutputs()) {
      NINFER_RETURN_IF_ERROR(argument(result, launch->args));
      if (joined(op))
        break; // one buffer
    }
    if (cuda_)
      cuda_->addOwn(kernel, launch->args);

    plan::KernelT &entry = *target_->kernels[launch->kernel];
    if (entry.num_args == 0)
      entry.num_args = static_cast<uint32_t>(launch->args.size());
    trace(op, launch->kernel, phase.name);
    phase.launches.push_back(std::move(launch));
    return {};
  }

  /// Appends the references of one launch operand or result, in the order of
  /// runtime/abi/kernel_abi.h.
  Status argument(Value value, std::vector<plan::Ref> &args) const {
    if (value.getType().isIndex()) // the position is a scalar of the call
      return {};
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      args.push_back(arguments_.at(argument));
      return {};
    }
    Operation *definition = value.getDefiningOp();
    if (auto param = dyn_cast<ParamOp>(definition)) {
      auto parameter = symbols_.lookup<ParameterOp>(param.getParameter());
      if (!parameter || !parameter.getPlanes())
        return fail("parameter '" + param.getParameter().str() +
                    "' has no planes (ninfer-bind-parameters)");
      for (auto plane : parameter.getPlanes()->getAsRange<PlaneAttr>())
        args.emplace_back(plan::Space::Payload, 0, plane.getOffset(), plane.getBytes());
      return {};
    }
    if (auto ref = dyn_cast<StateRefOp>(definition)) {
      if (auto cache = dyn_cast<KvCacheType>(ref.getType())) {
        args.push_back(stateRef(ref.getState(), 0, cache.getPlaneBytes()));
        args.push_back(stateRef(ref.getState(), valuesOffset(cache), cache.getPlaneBytes()));
      } else {
        args.push_back(stateRef(ref.getState(), 0, stateBytes(ref.getType())));
      }
      return {};
    }
    auto arena = arenaRef(value);
    if (!arena.ok())
      return arena.takeStatus();
    args.push_back(*arena);
    return {};
  }

  /// Results that are columns of one buffer: each has the reference of the whole.
  bool joined(LaunchOp launch) const {
    auto kernel = symbols_.lookup<KernelOp>(launch.getKernel());
    return launch.getNumResults() > 1 && kernel.getBlock()->front().hasAttr(NinferDialect::kJoined);
  }

  Result<plan::Ref> arenaRef(Value value) const {
    auto launch = value.getDefiningOp<LaunchOp>();
    if (!launch || !launch.getOffsets())
      return fail("an activation has no place in the arena (ninfer-plan-memory)");
    auto type = cast<RankedTensorType>(value.getType());
    const int64_t rows = type.isDynamicDim(0) ? maxRows_ : type.getDimSize(0);
    int64_t width = type.getDimSize(1);
    if (joined(launch)) {
      width = 0;
      for (Value column : launch.getOutputs())
        width += cast<RankedTensorType>(column.getType()).getDimSize(1);
    }
    return plan::Ref(plan::Space::Arena, 0,
                     (*launch.getOffsets())[cast<OpResult>(value).getResultNumber()],
                     static_cast<uint64_t>(rows) * width * 4);
  }

  // --- trace
  // ------------------------------------------------------------------------------------------

  /// Launches of one kernel in one phase share a record, as long as admission saw the same for
  /// both.
  void trace(LaunchOp op, uint32_t kernel, const std::string &phase) {
    if (!op.getTrace())
      return;
    plan::TraceT *&known = traces_[{kernel, phase, op.getTraceAttr()}];
    if (known) {
      ++known->launches;
      return;
    }
    auto trace = std::make_unique<plan::TraceT>();
    trace->op = op.getLabel().empty() ? op.getKernel().str() : op.getLabel().str();
    trace->phase = phase;
    auto signature = op->getAttrOfType<StringAttr>(kSignature);
    trace->signature = signature ? signature.getValue().str() : op.getKernel().str();
    trace->kernel = kernel;
    trace->launches = 1;
    for (auto entry : op.getTrace()->getAsRange<DictionaryAttr>()) {
      auto verdict = std::make_unique<plan::VerdictT>();
      auto text = [&](StringRef key) {
        auto value = entry.getAs<StringAttr>(key);
        return value ? value.getValue().str() : std::string();
      };
      verdict->candidate = text("candidate");
      verdict->verdict = text("verdict");
      verdict->reason = text("reason");
      trace->verdicts.push_back(std::move(verdict));
    }
    known = trace.get();
    target_->traces.push_back(std::move(trace));
  }

  struct TraceKey {
    uint32_t kernel;
    std::string phase;
    ArrayAttr verdicts;
    bool operator<(const TraceKey &o) const {
      // Pointer order only separates records; the order of the table is the order of the launches.
      return std::tie(kernel, phase) != std::tie(o.kernel, o.phase)
                 ? std::tie(kernel, phase) < std::tie(o.kernel, o.phase)
                 : verdicts.getAsOpaquePointer() < o.verdicts.getAsOpaquePointer();
    }
  };

  const PlanTargetInput &input_;
  ModuleOp module_;
  SymbolTable symbols_;
  uint32_t blob_;
  std::optional<CudaSection> cuda_;
  std::unique_ptr<plan::TargetT> target_;
  llvm::StringMap<uint32_t> stateIndex_, kernelIndex_;
  std::map<TraceKey, plan::TraceT *> traces_;
  llvm::DenseMap<Value, plan::Ref> arguments_; ///< of the function in work
  int64_t maxRows_ = 1;
};

} // namespace

Error planError(const std::string &target, std::string text) {
  return makeError(ErrorKind::Failed, "NB0530", "plan for " + target + ": " + std::move(text));
}

Result<std::unique_ptr<plan::TargetT>> buildTarget(const PlanTargetInput &input, uint32_t blob) {
  return TargetBuilder(input, blob).run();
}

} // namespace ninfer
