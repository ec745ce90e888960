// Sparse mixture of experts: choice of experts, and the two linear maps of the chosen ones.
#ifndef NINFER_DIALECTS_NINFER_NINFERMOEOPS_TD
#define NINFER_DIALECTS_NINFER_NINFERMOEOPS_TD

include "dialects/ninfer/NinferOpBase.td"

//===----------------------------------------------------------------------===//
// Expert family
//===----------------------------------------------------------------------===//

def Ninfer_MoeRouteOp : Ninfer_ComputeOp<"moe_route", [Pure]> {
  let summary = "the experts of each row and their weights";
  let description = [{
    A row of the result holds the numbers of the `top_k` experts with the largest logits, in falling order, equal
    logits by rising number, then the softmax of these logits. Numbers are float32 integers.

    ```mlir
    %routes = ninfer.moe_route %logits {top_k = 8} : tensor<?x256xf32> -> tensor<?x16xf32>
    ```
  }];
  let arguments = (ins Ninfer_Activation:$logits, Ninfer_PositiveAttr:$top_k);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$logits custom<CompactDict>(attr-dict) `:` type($logits) `->` type($result)";
  let hasVerifier = 1;
}

def Ninfer_MoeUpOp : Ninfer_ComputeOp<"moe_up", [Pure]> {
  let summary = "silu(gate) * up of the chosen experts";
  let description = [{
    The bank holds, expert by expert, the rows of gate, then those of up. With I rows each, slot `s` of a row of
    the result is `silu(gate_e x) * (up_e x)` for the expert `e` of the row's slot `s`: columns
    `[s I, (s + 1) I)`.

    ```mlir
    %p = ninfer.moe_up %x, %routes, %bank {experts = 256, top_k = 8} policy<A16Only>
       : tensor<?x2048xf32>, tensor<?x16xf32>, <262144x2048, Q4G64_F16S, "row-split-k128-v1"> -> tensor<?x4096xf32>
    ```
  }];
  let arguments = (ins Ninfer_Activation:$x, Ninfer_Activation:$routes, Ninfer_Matrix:$bank,
                       Ninfer_PositiveAttr:$experts, Ninfer_PositiveAttr:$top_k,
                       Ninfer_ActivationPolicyAttr:$policy);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = [{
    $x `,` $routes `,` $bank `policy` `` $policy custom<CompactDict>(attr-dict)
    `:` type($x) `,` type($routes) `,` type($bank) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Ninfer_MoeDownOp : Ninfer_ComputeOp<"moe_down", [Pure]> {
  let summary = "weighted sum of the second linear map of the chosen experts";
  let description = [{
    The bank holds H rows per expert. `y = sum over slots s of weight_s * (down_e product_s)`, with the expert and
    the weight of the row's slot `s`.

    ```mlir
    %y = ninfer.moe_down %p, %routes, %bank {experts = 256, top_k = 8} policy<A16Only>
       : tensor<?x4096xf32>, tensor<?x16xf32>, <524288x512, Q5G64_F16S, "row-split-k128-v1"> -> tensor<?x2048xf32>
    ```
  }];
  let arguments = (ins Ninfer_Activation:$products, Ninfer_Activation:$routes, Ninfer_Matrix:$bank,
                       Ninfer_PositiveAttr:$experts, Ninfer_PositiveAttr:$top_k,
                       Ninfer_ActivationPolicyAttr:$policy);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = [{
    $products `,` $routes `,` $bank `policy` `` $policy custom<CompactDict>(attr-dict)
    `:` type($products) `,` type($routes) `,` type($bank) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // NINFER_DIALECTS_NINFER_NINFERMOEOPS_TD
