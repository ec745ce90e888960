// Groups are those the kernels of the executor take: for CUDA linears of one input in any formats and a norm in front of few
// rows only, swiglu of equal formats.
// RUN: ninfer-opt %s --ninfer-fuse=executor=cuda --split-input-file | FileCheck %s
// RUN: ninfer-opt %s --ninfer-fuse=executor=reference --split-input-file | FileCheck %s --check-prefix=NONE
// NONE-NOT: ninfer.fused

!n = !ninfer.weight<128, BF16, "contiguous-le-v1">
!q4 = !ninfer.weight<64x128, Q4G64_F16S, "row-split-k128-v1">
!w8 = !ninfer.weight<64x128, W8G32_F16S, "row-split-k128-v1">

!b16 = !ninfer.weight<64x128, BF16, "contiguous-le-v1">

// What the caller reads in float32 is a launch of its own.
// CHECK-LABEL: func.func @few_rows
// CHECK: ninfer.fused "linear"
// CHECK-NEXT: ninfer.rms_norm
// CHECK-NEXT: ninfer.linear
// CHECK-NEXT: ninfer.linear
// CHECK-NEXT: ninfer.linear
// CHECK-NEXT: ninfer.yield
// CHECK: ninfer.fused "linear"
// CHECK-NEXT: ninfer.rms_norm
// CHECK-NEXT: ninfer.linear
// CHECK-NEXT: ninfer.yield
// CHECK-NOT: ninfer.fused
func.func @few_rows(%x: tensor<?x128xf32>, %n: !n, %wq: !q4, %wk: !b16, %wv: !w8, %wr: !q4) -> (tensor<?x64xf32>, tensor<?x64xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 16 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rms_norm %x, %n {eps = 1.0e-5} : tensor<?x128xf32>, !n
  %1 = ninfer.linear %0, %wq policy<A16Only> : tensor<?x128xf32>, !q4 -> tensor<?x64xf32>
  %2 = ninfer.linear %0, %wk policy<A16Only> : tensor<?x128xf32>, !b16 -> tensor<?x64xf32>
  %3 = ninfer.linear %0, %wv policy<A16Only> : tensor<?x128xf32>, !w8 -> tensor<?x64xf32>
  %4 = ninfer.linear %0, %wr policy<A16Only> : tensor<?x128xf32>, !q4 -> tensor<?x64xf32>
  %5 = ninfer.sigmoid_gate %1, %2 : tensor<?x64xf32>, tensor<?x64xf32>
  %6 = ninfer.sigmoid_gate %5, %3 : tensor<?x64xf32>, tensor<?x64xf32>
  return %6, %4 : tensor<?x64xf32>, tensor<?x64xf32>
}

// -----

!n = !ninfer.weight<128, BF16, "contiguous-le-v1">
!q4 = !ninfer.weight<64x128, Q4G64_F16S, "row-split-k128-v1">

// The norm of many rows stays alone; behind last_row there is one row.
// CHECK-LABEL: func.func @many_rows
// CHECK: ninfer.rms_norm %arg0
// CHECK-NOT: ninfer.fused
// CHECK: ninfer.linear
// CHECK: ninfer.fused "linear"
// CHECK-NEXT: ninfer.last_row
// CHECK-NEXT: ninfer.rms_norm
// CHECK-NEXT: ninfer.linear
func.func @many_rows(%x: tensor<?x128xf32>, %n: !n, %wq: !q4, %wk: !q4) -> (tensor<?x64xf32>, tensor<1x64xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 17 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rms_norm %x, %n {eps = 1.0e-5} : tensor<?x128xf32>, !n
  %1 = ninfer.linear %0, %wq policy<A16Only> : tensor<?x128xf32>, !q4 -> tensor<?x64xf32>
  %2 = ninfer.rms_norm %x, %n {eps = 1.0e-6} : tensor<?x128xf32>, !n
  %3 = ninfer.last_row %2 : tensor<?x128xf32> -> tensor<1x128xf32>
  %4 = ninfer.linear %3, %wk policy<A16Only> : tensor<1x128xf32>, !q4 -> tensor<1x64xf32>
  return %1, %4 : tensor<?x64xf32>, tensor<1x64xf32>
}

// -----

!q4 = !ninfer.weight<64x128, Q4G64_F16S, "row-split-k128-v1">
!w8 = !ninfer.weight<64x128, W8G32_F16S, "row-split-k128-v1">

// CHECK-LABEL: func.func @swiglu
// CHECK: ninfer.swiglu
// CHECK-NOT: ninfer.linear
// CHECK: ninfer.fused "linear"
// CHECK: ninfer.swiglu
func.func @swiglu(%x: tensor<1x128xf32>, %g: !q4, %u: !w8, %v: !q4) -> (tensor<1x64xf32>, tensor<1x64xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  %0 = ninfer.linear %x, %g policy<A16Only> : tensor<1x128xf32>, !q4 -> tensor<1x64xf32>
  %1 = ninfer.linear %x, %u policy<A16Only> : tensor<1x128xf32>, !w8 -> tensor<1x64xf32>
  %2 = ninfer.swiglu %0, %1 : tensor<1x64xf32>
  %3 = ninfer.linear %x, %g policy<A16Only> : tensor<1x128xf32>, !q4 -> tensor<1x64xf32>
  %4 = ninfer.linear %x, %v policy<A16Only> : tensor<1x128xf32>, !q4 -> tensor<1x64xf32>
  %5 = ninfer.swiglu %3, %4 : tensor<1x64xf32>
  return %2, %5 : tensor<1x64xf32>, tensor<1x64xf32>
}
