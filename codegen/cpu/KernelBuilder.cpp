#include "codegen/cpu/KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ninfer::cpu {

namespace {
constexpr auto noWrap = arith::IntegerOverflowFlags::nsw;
}

KernelBuilder::KernelBuilder(MLIRContext *context, Location loc, llvm::StringRef symbol)
    : module_(ModuleOp::create(loc)), builder_(context), loc_(loc) {
  builder_.setInsertionPointToStart(module_->getBody());
  auto pointer = LLVM::LLVMPointerType::get(context);
  Type i64 = builder_.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                          {pointer, pointer, i64, i64, pointer});
  function_ = LLVM::LLVMFuncOp::create(builder_, loc_, symbol, type);
  // args, scalars and scratch are memory of the runtime that nothing else points into.
  for (unsigned index : {0u, 1u, 4u})
    function_.setArgAttr(index, LLVM::LLVMDialect::getNoAliasAttrName(), builder_.getUnitAttr());
  Block *entry = function_.addEntryBlock(builder_);
  head_.block = entry;
  builder_.setInsertionPointToStart(entry);
  builder_.setInsertionPoint(LLVM::ReturnOp::create(builder_, loc_, ValueRange()));
}

OwningOpRef<ModuleOp> KernelBuilder::finish() { return std::move(module_); }

/// Makes a value at the head of the function, where it dominates every use.
Value KernelBuilder::onEntry(llvm::function_ref<Value()> make) {
  OpBuilder::InsertionGuard guard(builder_);
  if (head_.last)
    builder_.setInsertionPointAfter(head_.last);
  else
    builder_.setInsertionPointToStart(head_.block);
  Value value = make();
  if (Operation *op = value.getDefiningOp())
    head_.last = op;
  return value;
}

Value KernelBuilder::constant(int64_t value) {
  Value &known = head_.constants[value];
  if (!known)
    known = onEntry([&] {
      return arith::ConstantOp::create(builder_, loc_, builder_.getI64IntegerAttr(value))
          .getResult();
    });
  return known;
}

Value KernelBuilder::f32(double value) {
  return arith::ConstantOp::create(builder_, loc_,
                                   builder_.getF32FloatAttr(static_cast<float>(value)));
}

Value KernelBuilder::scalar(int64_t index) {
  Value known = head_.scalars.lookup(index);
  if (!known)
    known = head_.scalars[index] = onEntry([&] {
      Value at = LLVM::GEPOp::create(
          builder_, loc_, LLVM::LLVMPointerType::get(builder_.getContext()), builder_.getI64Type(),
          function_.getArgument(1), ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
      return load(builder_.getI64Type(), at);
    });
  return known;
}

Value KernelBuilder::argument(int64_t index) {
  Value known = head_.arguments.lookup(index);
  if (!known)
    known = head_.arguments[index] = onEntry([&] {
      auto pointer = LLVM::LLVMPointerType::get(builder_.getContext());
      Value at = LLVM::GEPOp::create(builder_, loc_, pointer, pointer, function_.getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
      return load(pointer, at);
    });
  return known;
}

Value KernelBuilder::scratch(uint64_t bytes) {
  uint64_t at = scratchBytes_;
  scratchBytes_ += (bytes + 63) / 64 * 64;
  return onEntry([&] { return offset(function_.getArgument(4), static_cast<int64_t>(at)); });
}

Value KernelBuilder::add(Value a, Value b) {
  return arith::AddIOp::create(builder_, loc_, a, b, noWrap);
}
Value KernelBuilder::sub(Value a, Value b) {
  return arith::SubIOp::create(builder_, loc_, a, b, noWrap);
}
Value KernelBuilder::mul(Value a, int64_t b) {
  return arith::MulIOp::create(builder_, loc_, a, constant(b), noWrap);
}
Value KernelBuilder::mul(Value a, Value b) {
  return arith::MulIOp::create(builder_, loc_, a, b, noWrap);
}
Value KernelBuilder::div(Value a, int64_t b) {
  return arith::DivUIOp::create(builder_, loc_, a, constant(b));
}
Value KernelBuilder::rem(Value a, int64_t b) {
  return arith::RemUIOp::create(builder_, loc_, a, constant(b));
}
Value KernelBuilder::min(Value a, Value b) { return arith::MinSIOp::create(builder_, loc_, a, b); }
Value KernelBuilder::max(Value a, Value b) { return arith::MaxSIOp::create(builder_, loc_, a, b); }

Value KernelBuilder::less(Value a, Value b) {
  return arith::CmpIOp::create(builder_, loc_, arith::CmpIPredicate::slt, a, b);
}
Value KernelBuilder::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder_, loc_, condition, a, b);
}
Value KernelBuilder::addFloat(Value a, Value b) {
  return arith::AddFOp::create(builder_, loc_, a, b);
}

Value KernelBuilder::loadIndex(Value pointer) {
  return arith::ExtSIOp::create(builder_, loc_, builder_.getI64Type(), load(i32Type(), pointer));
}

Value KernelBuilder::toInteger(Value value) {
  return arith::FPToSIOp::create(builder_, loc_, builder_.getI64Type(), value);
}

Value KernelBuilder::nullPointer() {
  return LLVM::ZeroOp::create(builder_, loc_, LLVM::LLVMPointerType::get(builder_.getContext()));
}

Value KernelBuilder::offset(Value base, Value bytes) {
  return LLVM::GEPOp::create(builder_, loc_, LLVM::LLVMPointerType::get(builder_.getContext()),
                             builder_.getI8Type(), base, ArrayRef<LLVM::GEPArg>{bytes});
}

Value KernelBuilder::offset(Value base, int64_t bytes) {
  return bytes == 0 ? base : offset(base, constant(bytes));
}

Value KernelBuilder::load(Type type, Value pointer) {
  return LLVM::LoadOp::create(builder_, loc_, type, pointer);
}
void KernelBuilder::store(Value value, Value pointer) {
  LLVM::StoreOp::create(builder_, loc_, value, pointer);
}

void KernelBuilder::loop(Value begin, Value end, Value step, llvm::function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(builder_, loc_, begin, end, step);
  OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

void KernelBuilder::ifLess(Value a, Value b, llvm::function_ref<void()> then,
                           llvm::function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(builder_, loc_, less(a, b),
                                  /*withElseRegion=*/static_cast<bool>(otherwise));
  OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(branch.thenBlock());
  then();
  if (otherwise) {
    builder_.setInsertionPointToStart(branch.elseBlock());
    otherwise();
  }
}

void KernelBuilder::call(llvm::StringRef name, ValueRange operands) {
  if (!module_->lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(module_->getBody());
    LLVM::LLVMFuncOp::create(builder_, loc_, name, functionType(operands));
  }
  LLVM::CallOp::create(builder_, loc_, TypeRange(), name, operands);
}

void KernelBuilder::callShared(llvm::StringRef name, ValueRange operands,
                               llvm::function_ref<void(ValueRange)> body) {
  if (!module_->lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPoint(function_);
    auto shared = LLVM::LLVMFuncOp::create(builder_, loc_, name, functionType(operands),
                                           LLVM::Linkage::Internal);
    shared.setNoInline(true);
    Block *entry = shared.addEntryBlock(builder_);
    HeadValues caller = std::exchange(head_, HeadValues());
    head_.block = entry;
    builder_.setInsertionPointToStart(entry);
    builder_.setInsertionPoint(LLVM::ReturnOp::create(builder_, loc_, ValueRange()));
    body(entry->getArguments());
    head_ = std::move(caller);
  }
  LLVM::CallOp::create(builder_, loc_, TypeRange(), name, operands);
}

void KernelBuilder::callOutlined(llvm::StringRef name, ValueRange operands) {
  outlined_.insert({name.str(), functionType(operands)});
  call(outlinedSymbol(name), operands);
}

std::string outlinedSymbol(llvm::StringRef microKernel) { return ("$" + microKernel).str(); }

OwningOpRef<ModuleOp> outlinedModule(MLIRContext *context, llvm::StringRef microKernel,
                                     LLVM::LLVMFunctionType type) {
  Location loc = UnknownLoc::get(context);
  OwningOpRef<ModuleOp> module(ModuleOp::create(loc));
  OpBuilder builder(context);
  builder.setInsertionPointToStart(module->getBody());
  LLVM::LLVMFuncOp::create(builder, loc, microKernel, type);
  auto function = LLVM::LLVMFuncOp::create(builder, loc, outlinedSymbol(microKernel), type);
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  LLVM::CallOp::create(builder, loc, TypeRange(), microKernel, entry->getArguments());
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  return module;
}

LLVM::LLVMFunctionType KernelBuilder::functionType(ValueRange operands) {
  return LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder_.getContext()),
                                     SmallVector<Type>(operands.getTypes()));
}

} // namespace ninfer::cpu
