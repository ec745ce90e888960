// Module-level symbols (stored objects, parameters, states) and the operations that name them.
#ifndef NINFER_DIALECTS_NINFER_NINFERMODULEOPS_TD
#define NINFER_DIALECTS_NINFER_NINFERMODULEOPS_TD

include "dialects/ninfer/NinferOpBase.td"

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

def Ninfer_ObjectOp : Ninfer_Op<"object", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "one stored tensor of the artifact";
  let description = [{
    Names a tensor of the directory with its encoding and its place in the logical payload (bytes).

    ```mlir
    ninfer.object @"object/text.qkv" : <960x576, Q4G64_F16S, "row-split-k128-v1"> at 4096 size 326400
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    DenseI64ArrayAttr:$shape,
    Ninfer_FormatAttr:$format,
    Ninfer_LayoutAttr:$layout,
    Ninfer_CountAttr:$offset,
    Ninfer_CountAttr:$bytes);
  let assemblyFormat = [{
    $sym_name `:` `<` custom<ObjectEncoding>($shape, $format, $layout) `>` `at` $offset `size` $bytes attr-dict
  }];
  let hasVerifier = 1;
}

def Ninfer_ParameterOp : Ninfer_Op<"parameter", [
    Symbol, HasParent<"::mlir::ModuleOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one parameter of the model and where its elements are stored";
  let description = [{
    `parts` are element ranges of objects, concatenated in order. `policy` is the coarsest activation
    precision its uses allow. `planes`, filled by ninfer-bind-parameters, are the payload ranges of the
    parameter's rows, one per plane, in the order of runtime/abi/kernel_abi.h.

    ```mlir
    ninfer.parameter @"text/layers/0/attention/query"
        : !ninfer.weight<576x576, Q4G64_F16S, "row-split-k128-v1">
        parts [#ninfer.part<@"object/text.qkv", 0, 331776>] policy<A16Only>
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    TypeAttrOf<Ninfer_WeightType>:$type,
    Ninfer_PartArrayAttr:$parts,
    Ninfer_ActivationPolicyAttr:$policy,
    OptionalAttr<Ninfer_PlaneArrayAttr>:$planes);
  let assemblyFormat = [{
    $sym_name `:` $type `parts` $parts `policy` `` $policy (`planes` $planes^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Ninfer_StateOp : Ninfer_Op<"state", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "memory that outlives a call: a KV cache, a rope table, a recurrent state";
  let description = [{
    A rope table carries `inv_freq`, the angular frequency of each pair in radians per position.

    ```mlir
    ninfer.state @"text/layers/0/attention/kv" : !ninfer.kv_cache<3x2048x64, bf16>
    ninfer.state @"text/rope" : !ninfer.rope_table<2048x2> {inv_freq = array<f64: 1.0, 0.01>}
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    TypeAttrOf<Ninfer_AnyState>:$type,
    OptionalAttr<DenseF64ArrayAttr>:$inv_freq);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// References
//===----------------------------------------------------------------------===//

def Ninfer_ParamOp : Ninfer_Op<"param", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "the value of a parameter";
  let description = [{
    ```mlir
    %final_norm = ninfer.param @"text/final_norm" : !ninfer.weight<576, BF16, "contiguous-le-v1">
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs Ninfer_WeightType:$result);
  let assemblyFormat = "$parameter attr-dict `:` qualified(type($result))";
}

def Ninfer_StateRefOp : Ninfer_Op<"state_ref", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "a handle on a state";
  let description = [{
    ```mlir
    %kv = ninfer.state_ref @"text/layers/0/attention/kv" : !ninfer.kv_cache<3x2048x64, bf16>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs Ninfer_AnyState:$result);
  let assemblyFormat = "$state attr-dict `:` type($result)";
}

#endif // NINFER_DIALECTS_NINFER_NINFERMODULEOPS_TD
