// What is tapped exists outside every group: a tapped linear keeps its sum apart, a tapped norm and last row are not
// taken in; a tapped result of a group is fine. Without the taps all of it is one group each.
// RUN: ninfer-opt %s --ninfer-fuse | FileCheck %s
// RUN: sed '/ninfer.tap/d' %s | ninfer-opt --ninfer-fuse | FileCheck %s --check-prefix=PLAIN

!w = !ninfer.weight<64x64, Q4G64_F16S, "row-split-k128-v1">
!n = !ninfer.weight<64, BF16, "contiguous-le-v1">

// CHECK-LABEL: func.func @text
// CHECK: %[[NORM:.*]] = ninfer.rms_norm
// CHECK: ninfer.tap %[[NORM]] as "norm"
// CHECK: %[[LINEAR:.*]] = ninfer.linear %[[NORM]]
// CHECK: ninfer.tap %[[LINEAR]] as "linear"
// CHECK: %[[SUM:.*]] = ninfer.add %[[LINEAR]]
// CHECK: %[[SECOND:.*]] = ninfer.fused "linear"
// CHECK: ninfer.tap %[[SECOND]] as "sum"
// CHECK: %[[ROW:.*]] = ninfer.last_row %[[SECOND]]
// CHECK: ninfer.tap %[[ROW]] as "row"
// CHECK: ninfer.fused "linear" ({{.*}} = %[[ROW]]
// PLAIN-LABEL: func.func @text
// PLAIN-COUNT-3: ninfer.fused "linear"
// PLAIN-NOT: ninfer.fused
func.func @text(%x: tensor<?x64xf32>, %w: !w, %n: !n) -> tensor<1x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rms_norm %x, %n {eps = 1.0e-05} : tensor<?x64xf32>, !n
  ninfer.tap %0 as "norm" : tensor<?x64xf32>
  %1 = ninfer.linear %0, %w policy<A16Only> : tensor<?x64xf32>, !w -> tensor<?x64xf32>
  ninfer.tap %1 as "linear" : tensor<?x64xf32>
  %2 = ninfer.add %1, %x : tensor<?x64xf32>
  %3 = ninfer.linear %2, %w policy<A16Only> : tensor<?x64xf32>, !w -> tensor<?x64xf32>
  %4 = ninfer.add %3, %2 : tensor<?x64xf32>
  ninfer.tap %4 as "sum" : tensor<?x64xf32>
  %5 = ninfer.last_row %4 : tensor<?x64xf32> -> tensor<1x64xf32>
  ninfer.tap %5 as "row" : tensor<1x64xf32>
  %6 = ninfer.rms_norm %5, %n {eps = 1.0e-05} : tensor<1x64xf32>, !n
  %7 = ninfer.linear %6, %w policy<A16Only> : tensor<1x64xf32>, !w -> tensor<1x64xf32>
  return %7 : tensor<1x64xf32>
}
