// Gated DeltaNet: causal convolution, delta rule, gated norm.
#ifndef NINFER_DIALECTS_NINFER_NINFERDELTAOPS_TD
#define NINFER_DIALECTS_NINFER_NINFERDELTAOPS_TD

include "dialects/ninfer/NinferOpBase.td"

//===----------------------------------------------------------------------===//
// Delta family
//===----------------------------------------------------------------------===//

def Ninfer_CausalConvOp : Ninfer_ComputeOp<"causal_conv", [
    AllTypesMatch<["query", "query_result"]>,      // causal_conv_c3
    AllTypesMatch<["key", "key_result"]>,          // causal_conv_c3
    AllTypesMatch<["value", "value_result"]>]> {   // causal_conv_c3
  let summary = "causal depthwise convolution of query, key and value, then silu";
  let description = [{
    The channels `u` of a row are those of query, then key, then value. With T taps,
    `y[r][c] = silu(sum over j < T of weight[j][c] * u[r - (T - 1) + j][c])`. Rows before row 0 are in the
    tail, oldest first; afterwards the tail holds the last `T - 1` rows. With `peek` the tail stays as it was.

    ```mlir
    %q, %k, %v = ninfer.causal_conv %a, %b, %c, %w, %tail
       : tensor<?x2048xf32>, tensor<?x2048xf32>, tensor<?x6144xf32>, <4x10240, BF16, "contiguous-le-v1">, <3x10240>
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$query,
    Ninfer_Activation:$key,
    Ninfer_Activation:$value,
    Ninfer_Matrix:$weight,
    Arg<Ninfer_ConvStateType, "rows before and after", [MemRead, MemWrite]>:$tail,
    UnitAttr:$peek);
  let results = (outs Ninfer_Activation:$query_result, Ninfer_Activation:$key_result,
                      Ninfer_Activation:$value_result);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $weight `,` $tail attr-dict
    `:` type($query) `,` type($key) `,` type($value) `,` type($weight) `,` type($tail)
  }];
  let hasVerifier = 1;
}

def Ninfer_GatedDeltaOp : Ninfer_ComputeOp<"gated_delta", [
    AllTypesMatch<["query", "key"]>,      // gated_delta_c6
    AllTypesMatch<["value", "result"]>,   // gated_delta_c6
    AllTypesMatch<["a", "b"]>]> {         // gated_delta_c6
  let summary = "gated delta rule over a matrix state per value head";
  let description = [{
    Value head `j` uses key head `j / (value heads / key_heads)`, whose `q` and `k` are divided by
    `sqrt(sum of squares + 1e-6)` first. With `g = -exp(a_log[j]) * softplus(a[j] + dt_bias[j])` and
    `beta = sigmoid(b[j])`, each row in turn does
    `S = exp(g) S; e = v - S k; S = S + beta e k^T; y = S q / sqrt(key dimension)`. With `peek` the results are the same
    and the state stays as it was.

    ```mlir
    %y = ninfer.gated_delta %q, %k, %v, %a, %b, %a_log, %dt_bias, %state {key_heads = 16}
       : tensor<?x2048xf32>, tensor<?x6144xf32>, tensor<?x48xf32>, <48, FP32, "contiguous-le-v1">, <48, FP32, "contiguous-le-v1">, <48x128x128>
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$query,
    Ninfer_Activation:$key,
    Ninfer_Activation:$value,
    Ninfer_Activation:$a,
    Ninfer_Activation:$b,
    Ninfer_Vector:$a_log,
    Ninfer_Vector:$dt_bias,
    Arg<Ninfer_DeltaStateType, "read and updated", [MemRead, MemWrite]>:$state,
    Ninfer_PositiveAttr:$key_heads,
    UnitAttr:$peek);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $a `,` $b `,` $a_log `,` $dt_bias `,` $state custom<CompactDict>(attr-dict)
    `:` type($query) `,` type($value) `,` type($a) `,` type($a_log) `,` type($dt_bias) `,` type($state)
  }];
  let hasVerifier = 1;
}

def Ninfer_GatedHeadNormOp : Ninfer_ComputeOp<"gated_head_norm", [
    Pure, AllTypesMatch<["x", "gate", "result"]>]> { // gated_head_norm_c3
  let summary = "root-mean-square norm of each head, times a weight, times silu of a gate";
  let description = [{
    `y = x / sqrt(mean(x^2) + eps) * w * silu(gate)`, the mean over one head.

    ```mlir
    %y = ninfer.gated_head_norm %x, %w, %z {eps = 1.0e-06, heads = 48}
       : tensor<?x6144xf32>, <128, BF16, "contiguous-le-v1">
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$x,
    Ninfer_Vector:$weight,
    Ninfer_Activation:$gate,
    Ninfer_PositiveAttr:$heads,
    Ninfer_PositiveF64Attr:$eps);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = [{
    $x `,` $weight `,` $gate custom<CompactDict>(attr-dict) `:` type($x) `,` type($weight)
  }];
  let hasVerifier = 1;
}

#endif // NINFER_DIALECTS_NINFER_NINFERDELTAOPS_TD
