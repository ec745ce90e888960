// Fused groups: the strictest policy binds, and one family serves all segments.
// RUN: ninfer-opt %s --ninfer-admit-kernels | FileCheck %s

!q4 = !ninfer.weight<64x128, Q4G64_F16S, "row-split-k128-v1">
!w8 = !ninfer.weight<32x128, W8G32_F16S, "row-split-k128-v1">
!n = !ninfer.weight<128, BF16, "contiguous-le-v1">

// CHECK-LABEL: func.func @text.prefill
func.func @text.prefill(%x: tensor<?x128xf32>, %n: !n, %a: !q4, %b: !w8)
    attributes {ninfer.component = "text", ninfer.max_rows = 64 : i64, ninfer.phase = "prefill"} {
  // CHECK: ninfer.fused "linear"
  // CHECK-SAME: ninfer.family = "linear_a16", ninfer.granule = 16
  // CHECK-SAME: ninfer.signature = "Q4G64_F16S+W8G32_F16S linear 64+32x128, rows 1..64, prologue rms_norm"
  // CHECK-SAME: ninfer.tiles_const = 6 : i64, ninfer.tiles_per_row = 0
  %0:2 = ninfer.fused "linear" (%x0 = %x : tensor<?x128xf32>, %n0 = %n : !n, %a0 = %a : !q4, %b0 = %b : !w8)
      -> (tensor<?x64xf32>, tensor<?x32xf32>) {
    %1 = ninfer.rms_norm %x0, %n0 {eps = 1.0e-5} : tensor<?x128xf32>, !n
    %2 = ninfer.linear %1, %a0 policy<AllowA8> : tensor<?x128xf32>, !q4 -> tensor<?x64xf32>
    %3 = ninfer.linear %1, %b0 policy<A16Only> : tensor<?x128xf32>, !w8 -> tensor<?x32xf32>
    ninfer.yield %2, %3 : tensor<?x64xf32>, tensor<?x32xf32>
  }
  // CHECK: ninfer.fused "linear"
  // CHECK-SAME: ninfer.family = "linear_a8"
  // CHECK-SAME: ninfer.signature = "Q4G64_F16S linear 64+64x128, rows 1, prologue last_row, epilogue swiglu"
  // CHECK-SAME: ninfer.tiles_const = 8
  %4 = ninfer.fused "linear" (%x0 = %x : tensor<?x128xf32>, %a0 = %a : !q4) -> tensor<1x64xf32> {
    %1 = ninfer.last_row %x0 : tensor<?x128xf32> -> tensor<1x128xf32>
    %2 = ninfer.linear %1, %a0 policy<AllowA8> : tensor<1x128xf32>, !q4 -> tensor<1x64xf32>
    %3 = ninfer.linear %1, %a0 policy<AllowA8> : tensor<1x128xf32>, !q4 -> tensor<1x64xf32>
    %5 = ninfer.swiglu %2, %3 : tensor<1x64xf32>
    ninfer.yield %5 : tensor<1x64xf32>
  }
  return
}
