// Operations that read a weight matrix: embedding and linear map.
#ifndef NINFER_DIALECTS_NINFER_NINFERLINEAROPS_TD
#define NINFER_DIALECTS_NINFER_NINFERLINEAROPS_TD

include "dialects/ninfer/NinferOpBase.td"

//===----------------------------------------------------------------------===//
// Linear family
//===----------------------------------------------------------------------===//

def Ninfer_EmbeddingOp : Ninfer_ComputeOp<"embedding", [Pure]> {
  let summary = "rows of a table, one per token";
  let description = [{
    `y[r] = weight[tokens[r]]`, decoded exactly.

    ```mlir
    %x = ninfer.embedding %tokens, %table
       : tensor<?xi32>, <49152x576, BF16, "contiguous-le-v1"> -> tensor<?x576xf32>
    ```
  }];
  let arguments = (ins Ninfer_Tokens:$tokens, Ninfer_Matrix:$weight);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$tokens `,` $weight attr-dict `:` type($tokens) `,` type($weight) `->` type($result)";
  let hasVerifier = 1;
}

def Ninfer_LinearOp : Ninfer_ComputeOp<"linear", [Pure]> {
  let summary = "y = x * transpose(weight)";
  let description = [{
    `x` is `[rows, K]`, `weight` is `[N, K]`, the result is `[rows, N]`. `policy` is the coarsest
    precision to which a kernel may round `x`. With `row_group` G, G consecutive rows of `x` laid end to end are
    one row of length K, and its N results are G rows: `x` is `[rows, K / G]`, the result `[rows, N / G]`.

    ```mlir
    %y = ninfer.linear %x, %w policy<A16Only>
       : tensor<?x576xf32>, <192x576, Q6G64_F16S, "row-split-k128-v1"> -> tensor<?x192xf32>
    ```
  }];
  let arguments = (ins Ninfer_Activation:$x, Ninfer_Matrix:$weight, Ninfer_ActivationPolicyAttr:$policy,
                       DefaultValuedAttr<Ninfer_PositiveAttr, "1">:$row_group);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = [{
    $x `,` $weight `policy` `` $policy attr-dict `:` type($x) `,` type($weight) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // NINFER_DIALECTS_NINFER_NINFERLINEAROPS_TD
