// Normalisations.
#ifndef NINFER_DIALECTS_NINFER_NINFERNORMOPS_TD
#define NINFER_DIALECTS_NINFER_NINFERNORMOPS_TD

include "dialects/ninfer/NinferOpBase.td"

//===----------------------------------------------------------------------===//
// Norm family
//===----------------------------------------------------------------------===//

def Ninfer_RmsNormOp : Ninfer_ComputeOp<"rms_norm", [
    Pure, AllTypesMatch<["x", "result"]>]> { // rms_norm_c3
  let summary = "root-mean-square norm of each row, times a weight";
  let description = [{
    `y[r][i] = x[r][i] / sqrt(mean(x[r]^2) + eps) * w[i]`; with `unit_offset` the factor is `1 + w[i]`.

    ```mlir
    %y = ninfer.rms_norm %x, %w {eps = 1.0e-05}
       : tensor<?x576xf32>, <576, BF16, "contiguous-le-v1">
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$x,
    Ninfer_Vector:$weight,
    Ninfer_PositiveF64Attr:$eps,
    DefaultValuedAttr<BoolAttr, "false">:$unit_offset);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$x `,` $weight custom<CompactDict>(attr-dict) `:` type($x) `,` type($weight)";
  let hasVerifier = 1;
}

def Ninfer_HeadNormOp : Ninfer_ComputeOp<"head_norm", [
    Pure, AllTypesMatch<["x", "result"]>]> { // head_norm_c3
  let summary = "root-mean-square norm of each head of each row, times a weight";
  let description = [{
    The row is `heads` heads of equal length; each is normalised on its own with the same weight. With
    `unit_offset` the factor is `1 + w[i]`.

    ```mlir
    %y = ninfer.head_norm %q, %w {eps = 1.0e-06, heads = 16}
       : tensor<?x2048xf32>, <128, BF16, "contiguous-le-v1">
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$x,
    Ninfer_Vector:$weight,
    Ninfer_PositiveAttr:$heads,
    Ninfer_PositiveF64Attr:$eps,
    DefaultValuedAttr<BoolAttr, "false">:$unit_offset);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$x `,` $weight custom<CompactDict>(attr-dict) `:` type($x) `,` type($weight)";
  let hasVerifier = 1;
}

#endif // NINFER_DIALECTS_NINFER_NINFERNORMOPS_TD
