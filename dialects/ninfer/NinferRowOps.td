// Operations on activations alone.
#ifndef NINFER_DIALECTS_NINFER_NINFERROWOPS_TD
#define NINFER_DIALECTS_NINFER_NINFERROWOPS_TD

include "dialects/ninfer/NinferOpBase.td"

//===----------------------------------------------------------------------===//
// Row family
//===----------------------------------------------------------------------===//

def Ninfer_SwigluOp : Ninfer_ComputeOp<"swiglu", [
    Pure, AllTypesMatch<["gate", "up", "result"]>]> { // swiglu_c1
  let summary = "silu(gate) * up, element by element";
  let description = [{
    `silu(g) = g / (1 + exp(-g))`.

    ```mlir
    %y = ninfer.swiglu %gate, %up : tensor<?x1536xf32>
    ```
  }];
  let arguments = (ins Ninfer_Activation:$gate, Ninfer_Activation:$up);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$gate `,` $up attr-dict `:` type($result)";
}

def Ninfer_SigmoidGateOp : Ninfer_ComputeOp<"sigmoid_gate", [
    Pure, AllTypesMatch<["x", "result"]>]> { // sigmoid_gate_c1
  let summary = "x * sigmoid(gate), element by element or row by row";
  let description = [{
    `sigmoid(g) = 1 / (1 + exp(-g))`. A gate of width 1 gates the whole row.

    ```mlir
    %y = ninfer.sigmoid_gate %x, %gate : tensor<?x2048xf32>, tensor<?x2048xf32>
    ```
  }];
  let arguments = (ins Ninfer_Activation:$x, Ninfer_Activation:$gate);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$x `,` $gate attr-dict `:` type($x) `,` type($gate)";
  let hasVerifier = 1;
}

def Ninfer_AddOp : Ninfer_ComputeOp<"add", [
    Pure, Commutative, AllTypesMatch<["lhs", "rhs", "result"]>]> { // add_c1
  let summary = "sum, element by element";
  let description = [{
    ```mlir
    %y = ninfer.add %a, %b : tensor<?x576xf32>
    ```
  }];
  let arguments = (ins Ninfer_Activation:$lhs, Ninfer_Activation:$rhs);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Ninfer_LastRowOp : Ninfer_ComputeOp<"last_row", [Pure]> {
  let summary = "the last row";
  let description = [{
    ```mlir
    %y = ninfer.last_row %x : tensor<?x576xf32> -> tensor<1x576xf32>
    ```
  }];
  let arguments = (ins Ninfer_Activation:$x);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Ninfer_ReplaceRowsOp : Ninfer_ComputeOp<"replace_rows", [
    Pure, AllTypesMatch<["x", "by", "result"]>]> { // replace_rows_c1
  let summary = "rows of an activation, some of them replaced";
  let description = [{
    `y[r] = by[r]` where `where[r][0]` is positive, else `x[r]`: embeddings that come from elsewhere, an image,
    instead of those of tokens.

    ```mlir
    %y = ninfer.replace_rows %x, %by, %where : tensor<?x576xf32>, tensor<?x1xi32>
    ```
  }];
  let arguments = (ins Ninfer_Activation:$x, Ninfer_Activation:$by, Ninfer_Indices:$where);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$x `,` $by `,` $where attr-dict `:` type($x) `,` type($where)";
  let hasVerifier = 1;
}

def Ninfer_TapOp : Ninfer_Op<"tap", [MemoryEffects<[MemWrite]>]> {
  let summary = "make a value readable after the call, by name";
  let description = [{
    No kernel: the value keeps its place in the arena to the end of the call and becomes an output port of the phase.
    The write effect stands for the reader behind the call, so the operation and its operand stay.

    ```mlir
    ninfer.tap %x as "text/layers/3" : tensor<?x576xf32>
    ```
  }];
  let arguments = (ins Ninfer_Activation:$x, Ninfer_NameAttr:$name); // tap_c1
  let assemblyFormat = "$x `as` $name attr-dict `:` type($x)";
}

#endif // NINFER_DIALECTS_NINFER_NINFERROWOPS_TD
