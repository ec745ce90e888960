// A vision tower: layer norm, biases, gelu, positions of a grid, attention among the rows of a call.
#ifndef NINFER_DIALECTS_NINFER_NINFERVISIONOPS_TD
#define NINFER_DIALECTS_NINFER_NINFERVISIONOPS_TD

include "dialects/ninfer/NinferOpBase.td"

//===----------------------------------------------------------------------===//
// Vision family
//===----------------------------------------------------------------------===//

def Ninfer_LayerNormOp : Ninfer_ComputeOp<"layer_norm", [
    Pure, AllTypesMatch<["x", "result"]>]> { // layer_norm_c3
  let summary = "each row with its mean taken off, divided by its deviation, times a weight, plus a bias";
  let description = [{
    `y[r][i] = (x[r][i] - mean(x[r])) / sqrt(variance(x[r]) + eps) * w[i] + b[i]`; the variance is the mean of
    the squared differences from the mean.

    ```mlir
    %y = ninfer.layer_norm %x, %w, %b {eps = 1.0e-06}
       : tensor<?x1152xf32>, <1152, BF16, "contiguous-le-v1">, <1152, BF16, "contiguous-le-v1">
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$x,
    Ninfer_Vector:$weight,
    Ninfer_Vector:$bias,
    Ninfer_PositiveF64Attr:$eps);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = [{
    $x `,` $weight `,` $bias custom<CompactDict>(attr-dict) `:` type($x) `,` type($weight) `,` type($bias)
  }];
  let hasVerifier = 1;
}

def Ninfer_BiasOp : Ninfer_ComputeOp<"bias", [
    Pure, AllTypesMatch<["x", "result"]>]> { // bias_c3
  let summary = "a stored vector added to every row, or to every group of rows";
  let description = [{
    `y[r][i] = x[r][i] + b[(r mod row_group) * width + i]`: with `row_group` G the rows `G j .. G j + G - 1` are one
    row of the bias's length.

    ```mlir
    %y = ninfer.bias %x, %b : tensor<?x1152xf32>, <1152, BF16, "contiguous-le-v1">
    %z = ninfer.bias %x, %c {row_group = 4} : tensor<?x1152xf32>, <4608, BF16, "contiguous-le-v1">
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$x,
    Ninfer_Vector:$bias,
    DefaultValuedAttr<Ninfer_PositiveAttr, "1">:$row_group);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$x `,` $bias custom<CompactDict>(attr-dict) `:` type($x) `,` type($bias)";
  let hasVerifier = 1;
}

def Ninfer_GeluOp : Ninfer_ComputeOp<"gelu", [
    Pure, AllTypesMatch<["x", "result"]>]> { // gelu_c1
  let summary = "x times the standard normal distribution function of x, element by element";
  let description = [{
    `y = x / 2 * (1 + erf(x / sqrt(2)))`; with `tanh` its approximation
    `y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.

    ```mlir
    %y = ninfer.gelu %x {tanh = true} : tensor<?x4304xf32>
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$x,
    DefaultValuedAttr<BoolAttr, "false">:$tanh);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$x custom<CompactDict>(attr-dict) `:` type($x)";
}

def Ninfer_AxialRopeOp : Ninfer_ComputeOp<"axial_rope", [
    Pure, AllTypesMatch<["x", "result"]>]> { // axial_rope_c2
  let summary = "rotate the first half of the pairs of each head by the row's first position, the others by its second";
  let description = [{
    Row `r` is at the positions `positions[r][0]` and `positions[r][1]`. The table has P pairs per position; a head
    of length `4P` has the pairs `(i, i + 2P)`, `i < 2P`: `y[i] = x[i] cos - x[i + 2P] sin`,
    `y[i + 2P] = x[i + 2P] cos + x[i] sin`. Pair `i` turns by entry `i mod P` of the table at position
    `positions[r][i / P]`. A position outside of the table has no result that means anything.

    ```mlir
    %y = ninfer.axial_rope %q, %table, %positions {heads = 16}
       : tensor<?x1152xf32>, <4096x18>, tensor<?x2xi32>
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$x,
    Ninfer_RopeTableType:$table,
    Ninfer_Indices:$positions,
    Ninfer_PositiveAttr:$heads);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = [{
    $x `,` $table `,` $positions custom<CompactDict>(attr-dict) `:` type($x) `,` type($table) `,` type($positions)
  }];
  let hasVerifier = 1;
}

def Ninfer_FullAttentionOp : Ninfer_ComputeOp<"full_attention", [
    Pure, AllTypesMatch<["query", "key", "value", "result"]>]> { // full_attention_c2
  let summary = "attention of every row of the call to every row of the call";
  let description = [{
    Per head, `y[r] = sum over j of softmax over j (scale * q[r] . k[j]) v[j]`, `j` over all rows. There is no cache
    and no order of rows.

    ```mlir
    %y = ninfer.full_attention %q, %k, %v {heads = 16, scale = 0.11785113019775793} : tensor<?x1152xf32>
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$query,
    Ninfer_Activation:$key,
    Ninfer_Activation:$value,
    Ninfer_PositiveAttr:$heads,
    Ninfer_PositiveF64Attr:$scale);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$query `,` $key `,` $value custom<CompactDict>(attr-dict) `:` type($query)";
  let hasVerifier = 1;
}

def Ninfer_InterpolateOp : Ninfer_ComputeOp<"interpolate", [Pure]> {
  let summary = "weighted sums of rows of a table";
  let description = [{
    `y[r] = sum over t of weights[r][t] * table[indices[r][t]]`, the rows decoded exactly. An index outside of the table
    has no result that means anything.

    ```mlir
    %y = ninfer.interpolate %indices, %weights, %table
       : tensor<?x4xi32>, tensor<?x4xf32>, <2304x1152, BF16, "contiguous-le-v1"> -> tensor<?x1152xf32>
    ```
  }];
  let arguments = (ins
    Ninfer_Indices:$indices,
    Ninfer_Activation:$weights,
    Ninfer_Matrix:$table);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = [{
    $indices `,` $weights `,` $table attr-dict
    `:` type($indices) `,` type($weights) `,` type($table) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // NINFER_DIALECTS_NINFER_NINFERVISIONOPS_TD
