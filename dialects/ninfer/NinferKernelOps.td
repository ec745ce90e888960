// Groups of operations that run as one: fused regions, kernels, launches.
#ifndef NINFER_DIALECTS_NINFER_NINFERKERNELOPS_TD
#define NINFER_DIALECTS_NINFER_NINFERKERNELOPS_TD

include "dialects/ninfer/NinferOpBase.td"

//===----------------------------------------------------------------------===//
// Kernel family
//===----------------------------------------------------------------------===//

def Ninfer_FusedOp : Ninfer_ComputeOp<"fused", [
    IsolatedFromAbove, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "operations that become one kernel";
  let description = [{
    The region receives the operands as block arguments and hands the results to `ninfer.yield`.
    `kind` names the shape of the group, such as "linear" or "rope_append".

    ```mlir
    %y = ninfer.fused "linear" (%a = %x : tensor<1x4xf32>, %m = %w : !ninfer.weight<...>) -> tensor<1x4xf32> {
      %0 = ninfer.linear %a, %m policy<A16Only> : ...
      ninfer.yield %0 : tensor<1x4xf32>
    }
    ```
  }];
  let arguments = (ins StrAttr:$kind, Variadic<Ninfer_Value>:$inputs);
  let results = (outs Variadic<Ninfer_Activation>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    ::ninfer::YieldOp getYield();
  }];
  let hasCanonicalizer = 1;
}

def Ninfer_YieldOp : Ninfer_Op<"yield", [
    Pure, ReturnLike, Terminator, ParentOneOf<["::ninfer::FusedOp", "::ninfer::KernelOp"]>]> {
  let summary = "results of a fused region or a kernel";
  let arguments = (ins Variadic<Ninfer_Activation>:$values);
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Ninfer_KernelOp : Ninfer_Op<"kernel", [
    IsolatedFromAbove, SingleBlock, Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "one compiled kernel, shared by every launch of its structure";
  let description = [{
    Arguments are the operands of its launches; the values of `ninfer.yield` are their results.
    `rows` is the row count of a call, or the largest one with `dynamic_rows`. A call runs
    `tiles_const + tiles_per_row * rows` tiles. `family` and `profile` name the code that computes it.

    ```mlir
    ninfer.kernel @add_k576_r1(%a: tensor<1x576xf32>, %b: tensor<1x576xf32>)
        attributes {family = "add", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
      %0 = ninfer.add %a, %b : tensor<1x576xf32>
      ninfer.yield %0 : tensor<1x576xf32>
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    StrAttr:$family,
    StrAttr:$profile,
    Ninfer_CountAttr:$tiles_const,
    Ninfer_CountAttr:$tiles_per_row,
    Ninfer_PositiveAttr:$rows,
    UnitAttr:$dynamic_rows);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    ::ninfer::YieldOp getYield();
    ::mlir::Block::BlockArgListType getArguments() { return getBody().front().getArguments(); }
  }];
}

def Ninfer_LaunchOp : Ninfer_Op<"launch", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "run a kernel";
  let description = [{
    `label` is the parameter path the work belongs to. `trace` records the candidates considered by
    admission. `offsets`, filled by ninfer-plan-memory, are the byte offsets of the results in the arena.

    ```mlir
    %y = ninfer.launch @add_k576_r1(%a, %b) {label = "text/layers/3/attention"}
       : (tensor<1x576xf32>, tensor<1x576xf32>) -> tensor<1x576xf32>
    ```
  }];
  let arguments = (ins
    FlatSymbolRefAttr:$kernel,
    Variadic<Ninfer_Value>:$inputs,
    StrAttr:$label,
    OptionalAttr<DictArrayAttr>:$trace,
    OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Variadic<Ninfer_Activation>:$outputs);
  let assemblyFormat = "$kernel `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
}

#endif // NINFER_DIALECTS_NINFER_NINFERKERNELOPS_TD
