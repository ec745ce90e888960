// Bases shared by every family of operations.
#ifndef NINFER_DIALECTS_NINFER_NINFEROPBASE_TD
#define NINFER_DIALECTS_NINFER_NINFEROPBASE_TD

include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/ninfer/NinferAttrs.td"
include "dialects/ninfer/NinferDialect.td"
include "dialects/ninfer/NinferInterfaces.td"
include "dialects/ninfer/NinferTypes.td"

class Ninfer_Op<string mnemonic, list<Trait> traits = []> : Op<Ninfer_Dialect, mnemonic, traits>;

/// An operation that becomes one kernel, alone or inside `ninfer.fused`.
class Ninfer_ComputeOp<string mnemonic, list<Trait> traits = []>
    : Ninfer_Op<mnemonic, traits # [DeclareOpInterfaceMethods<NinferCostOpInterface>]>;

/// 64-bit integer attribute read as int64_t.
def Ninfer_I64Attr : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer attribute"> {
  let constBuilderCall = "$_builder.getI64IntegerAttr($0)";
}
def Ninfer_PositiveAttr : ConfinedAttr<Ninfer_I64Attr, [IntPositive]>;
def Ninfer_CountAttr : ConfinedAttr<Ninfer_I64Attr, [IntNonNegative]>;

/// Double attribute read as double.
def Ninfer_F64Attr : FloatAttrBase<F64, "64-bit float attribute"> {
  let returnType = "double";
  let convertFromStorage = "$_self.getValueAsDouble()";
  let constBuilderCall = "$_builder.getF64FloatAttr($0)";
}
def Ninfer_PositiveF64Attr : Attr<And<[Ninfer_F64Attr.predicate,
    CPred<"::llvm::cast<::mlir::FloatAttr>($_self).getValueAsDouble() > 0.0">,
    CPred<"::llvm::cast<::mlir::FloatAttr>($_self).getValue().isFinite()">]>,
    "positive finite 64-bit float attribute"> {
  let storageType = Ninfer_F64Attr.storageType;
  let returnType = Ninfer_F64Attr.returnType;
  let convertFromStorage = Ninfer_F64Attr.convertFromStorage;
  let constBuilderCall = Ninfer_F64Attr.constBuilderCall;
}

def Ninfer_NameAttr : ConfinedAttr<StrAttr, [
    AttrConstraint<CPred<"!::llvm::cast<::mlir::StringAttr>($_self).empty()">, "which is not empty">]>;

def Ninfer_PartArrayAttr : TypedArrayAttrBase<Ninfer_PartAttr, "array of #ninfer.part">;
def Ninfer_PlaneArrayAttr : TypedArrayAttrBase<Ninfer_PlaneAttr, "array of #ninfer.plane">;

#endif // NINFER_DIALECTS_NINFER_NINFEROPBASE_TD
