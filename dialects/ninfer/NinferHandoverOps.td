// Rows that one phase leaves for another: speculative decoding keeps hidden rows for the draft layer, and the inputs of
// recurrent layers until it is known how many of them count.
#ifndef NINFER_DIALECTS_NINFER_NINFERHANDOVEROPS_TD
#define NINFER_DIALECTS_NINFER_NINFERHANDOVEROPS_TD

include "dialects/ninfer/NinferOpBase.td"

//===----------------------------------------------------------------------===//
// Handover family
//===----------------------------------------------------------------------===//

def Ninfer_StoreRowsOp : Ninfer_ComputeOp<"store_rows", []> {
  let summary = "leave the rows in a buffer";
  let description = [{
    Row `r` of x becomes columns `[column, column + width)` of row `r` of the buffer.

    ```mlir
    ninfer.store_rows %x, %rows {column = 0} : tensor<?x5120xf32>, <64x5120>
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$x,
    Arg<Ninfer_RowBufferType, "written", [MemWrite]>:$buffer,
    Ninfer_CountAttr:$column);
  let assemblyFormat = [{
    $x `,` $buffer custom<CompactDict>(attr-dict) `:` type($x) `,` type($buffer)
  }];
  let hasVerifier = 1;
}

def Ninfer_LoadRowsOp : Ninfer_ComputeOp<"load_rows", []> {
  let summary = "the rows that another phase left in a buffer";
  let description = [{
    Row `r` of the result is columns `[column, column + width)` of row `r` of the buffer.

    ```mlir
    %x = ninfer.load_rows %rows {column = 0} : <64x5120> -> tensor<?x5120xf32>
    ```
  }];
  let arguments = (ins
    Arg<Ninfer_RowBufferType, "read", [MemRead]>:$buffer,
    Ninfer_CountAttr:$column);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = [{
    $buffer custom<CompactDict>(attr-dict) `:` type($buffer) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Ninfer_ConcatOp : Ninfer_ComputeOp<"concat", [Pure]> {
  let summary = "two activations side by side";
  let description = [{
    ```mlir
    %y = ninfer.concat %a, %b : tensor<?x5120xf32>, tensor<?x5120xf32> -> tensor<?x10240xf32>
    ```
  }];
  let arguments = (ins Ninfer_Activation:$lhs, Ninfer_Activation:$rhs);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

#endif // NINFER_DIALECTS_NINFER_NINFERHANDOVEROPS_TD
