// Groups around linears: shared input, norm in front, swiglu, residual.
// RUN: ninfer-opt %s --ninfer-fuse --split-input-file > %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: ninfer-opt %t.once --ninfer-fuse --split-input-file | diff %t.once -

!n = !ninfer.weight<128, BF16, "contiguous-le-v1">
!q4 = !ninfer.weight<64x128, Q4G64_F16S, "row-split-k128-v1">
!w8 = !ninfer.weight<32x128, W8G32_F16S, "row-split-k128-v1">

// Projections of one normed input, of different integer formats: one group, the norm inside.
// CHECK-LABEL: func.func @qkv
// CHECK-NEXT: %[[R:.*]]:3 = ninfer.fused "linear" (%[[X:.*]] = %arg0 : {{.*}}, %[[N:.*]] = %arg1 : {{.*}}, %[[Q:.*]] = %arg2 : {{.*}}, %[[K:.*]] = %arg3 : {{.*}}, %[[V:.*]] = %arg4 : {{.*}}) -> (tensor<?x64xf32>, tensor<?x32xf32>, tensor<?x32xf32>) {
// CHECK-NEXT:   %[[Y:.*]] = ninfer.rms_norm %[[X]], %[[N]]
// CHECK-NEXT:   %[[A:.*]] = ninfer.linear %[[Y]], %[[Q]] policy<A16Only>
// CHECK-NEXT:   %[[B:.*]] = ninfer.linear %[[Y]], %[[K]] policy<AllowA8>
// CHECK-NEXT:   %[[C:.*]] = ninfer.linear %[[Y]], %[[V]] policy<A16Only>
// CHECK-NEXT:   ninfer.yield %[[A]], %[[B]], %[[C]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1, %[[R]]#2
func.func @qkv(%x: tensor<?x128xf32>, %n: !n, %wq: !q4, %wk: !w8, %wv: !w8)
    -> (tensor<?x64xf32>, tensor<?x32xf32>, tensor<?x32xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rms_norm %x, %n {eps = 1.0e-5} : tensor<?x128xf32>, !n
  %q = ninfer.linear %0, %wq policy<A16Only> : tensor<?x128xf32>, !q4 -> tensor<?x64xf32>
  %k = ninfer.linear %0, %wk policy<AllowA8> : tensor<?x128xf32>, !w8 -> tensor<?x32xf32>
  %v = ninfer.linear %0, %wv policy<A16Only> : tensor<?x128xf32>, !w8 -> tensor<?x32xf32>
  return %q, %k, %v : tensor<?x64xf32>, tensor<?x32xf32>, tensor<?x32xf32>
}

// -----

!n = !ninfer.weight<128, BF16, "contiguous-le-v1">
!up = !ninfer.weight<256x128, Q4G64_F16S, "row-split-k128-v1">
!down = !ninfer.weight<128x256, Q6G64_F16S, "row-split-k128-v1">

// A feed-forward block is two groups: norm, gate, up, swiglu; and down with the residual sum.
// CHECK-LABEL: func.func @ffn
// CHECK-NEXT: %[[P:.*]] = ninfer.fused "linear" (%[[X:.*]] = %arg0 : {{.*}}, %{{.*}} = %arg1 : {{.*}}, %[[G:.*]] = %arg2 : {{.*}}, %[[U:.*]] = %arg3 : {{.*}}) -> tensor<?x256xf32> {
// CHECK-NEXT:   %[[Y:.*]] = ninfer.rms_norm
// CHECK-NEXT:   %[[A:.*]] = ninfer.linear %[[Y]], %[[G]]
// CHECK-NEXT:   %[[B:.*]] = ninfer.linear %[[Y]], %[[U]]
// CHECK-NEXT:   %[[S:.*]] = ninfer.swiglu %[[A]], %[[B]]
// CHECK-NEXT:   ninfer.yield %[[S]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[R:.*]] = ninfer.fused "linear" (%[[I:.*]] = %[[P]] : {{.*}}, %[[W:.*]] = %arg4 : {{.*}}, %[[RES:.*]] = %arg0 : {{.*}}) -> tensor<?x128xf32> {
// CHECK-NEXT:   %[[D:.*]] = ninfer.linear %[[I]], %[[W]]
// CHECK-NEXT:   %[[SUM:.*]] = ninfer.add %[[RES]], %[[D]]
// CHECK-NEXT:   ninfer.yield %[[SUM]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[R]]
func.func @ffn(%x: tensor<?x128xf32>, %n: !n, %wg: !up, %wu: !up, %wd: !down) -> tensor<?x128xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rms_norm %x, %n {eps = 1.0e-5} : tensor<?x128xf32>, !n
  %g = ninfer.linear %0, %wg policy<A16Only> : tensor<?x128xf32>, !up -> tensor<?x256xf32>
  %u = ninfer.linear %0, %wu policy<A16Only> : tensor<?x128xf32>, !up -> tensor<?x256xf32>
  %p = ninfer.swiglu %g, %u : tensor<?x256xf32>
  %d = ninfer.linear %p, %wd policy<A16Only> : tensor<?x256xf32>, !down -> tensor<?x128xf32>
  %y = ninfer.add %x, %d : tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}

// -----

!n = !ninfer.weight<128, BF16, "contiguous-le-v1">
!q4 = !ninfer.weight<64x128, Q4G64_F16S, "row-split-k128-v1">
!bf = !ninfer.weight<32x128, BF16, "contiguous-le-v1">

// Formats with and without integer codes have no common profile: two groups, each with its own norm.
// CHECK-LABEL: func.func @two_classes
// CHECK-NEXT: %[[A:.*]]:2 = ninfer.fused "linear" ({{.*}}Q4G64_F16S{{.*}}) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
// CHECK-NEXT:   ninfer.rms_norm
// CHECK:      {{^ *}}}
// CHECK-NEXT: %[[B:.*]] = ninfer.fused "linear" ({{.*}}<32x128, BF16{{.*}}) -> tensor<?x32xf32> {
// CHECK-NEXT:   ninfer.rms_norm
// CHECK:      {{^ *}}}
// CHECK-NEXT: return %[[A]]#0, %[[B]], %[[A]]#1
func.func @two_classes(%x: tensor<?x128xf32>, %n: !n, %a: !q4, %b: !bf)
    -> (tensor<?x64xf32>, tensor<?x32xf32>, tensor<?x64xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rms_norm %x, %n {eps = 1.0e-5} : tensor<?x128xf32>, !n
  %1 = ninfer.linear %0, %a policy<A16Only> : tensor<?x128xf32>, !q4 -> tensor<?x64xf32>
  %2 = ninfer.linear %0, %b policy<A16Only> : tensor<?x128xf32>, !bf -> tensor<?x32xf32>
  %3 = ninfer.linear %0, %a policy<A16Only> : tensor<?x128xf32>, !q4 -> tensor<?x64xf32>
  return %1, %2, %3 : tensor<?x64xf32>, tensor<?x32xf32>, tensor<?x64xf32>
}

// -----

!n = !ninfer.weight<128, BF16, "contiguous-le-v1">
!q4 = !ninfer.weight<64x128, Q4G64_F16S, "row-split-k128-v1">

// The head reads one row: selection and norm move into its group, whichever came first.
// CHECK-LABEL: func.func @head
// CHECK-NEXT: %[[R:.*]] = ninfer.fused "linear" (%[[X:.*]] = %arg0 : tensor<?x128xf32>, %[[N:.*]] = %arg1 : {{.*}}, %[[W:.*]] = %arg2 : {{.*}}) -> tensor<1x64xf32> {
// CHECK-NEXT:   %[[L:.*]] = ninfer.last_row %[[X]] : tensor<?x128xf32> -> tensor<1x128xf32>
// CHECK-NEXT:   %[[Y:.*]] = ninfer.rms_norm %[[L]], %[[N]] {{.*}} : tensor<1x128xf32>
// CHECK-NEXT:   %[[O:.*]] = ninfer.linear %[[Y]], %[[W]]
// CHECK-NEXT:   ninfer.yield %[[O]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[R]]
func.func @head(%x: tensor<?x128xf32>, %n: !n, %w: !q4) -> tensor<1x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rms_norm %x, %n {eps = 1.0e-5} : tensor<?x128xf32>, !n
  %1 = ninfer.last_row %0 : tensor<?x128xf32> -> tensor<1x128xf32>
  %2 = ninfer.linear %1, %w policy<A16Only> : tensor<1x128xf32>, !q4 -> tensor<1x64xf32>
  return %2 : tensor<1x64xf32>
}

// -----

!w = !ninfer.weight<8x128, Q4G64_F16S, "row-split-k128-v1">

// A group holds at most 8 linears; the ninth alone has nothing to share.
// CHECK-LABEL: func.func @nine
// CHECK-NEXT: ninfer.fused "linear"
// CHECK-COUNT-8: ninfer.linear
// CHECK-NEXT: ninfer.yield
// CHECK-NEXT: }
// CHECK-NEXT: ninfer.linear
// CHECK-NEXT: return
func.func @nine(%x: tensor<?x128xf32>, %w: !w) -> (tensor<?x8xf32>, tensor<?x8xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x8xf32>
  %1 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x8xf32>
  %2 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x8xf32>
  %3 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x8xf32>
  %4 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x8xf32>
  %5 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x8xf32>
  %6 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x8xf32>
  %7 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x8xf32>
  %8 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x8xf32>
  return %0, %8 : tensor<?x8xf32>, tensor<?x8xf32>
}

// -----

!w = !ninfer.weight<128x128, Q4G64_F16S, "row-split-k128-v1">

// The residual may be the input of the linear itself, and defined between linear and sum.
// CHECK-LABEL: func.func @residuals
// CHECK-NEXT: %[[A:.*]] = ninfer.fused "linear" (%[[X:.*]] = %arg0 : {{.*}}, %[[W:.*]] = %arg1 : {{.*}}) ->
// CHECK-NEXT:   %[[L:.*]] = ninfer.linear %[[X]], %[[W]]
// CHECK-NEXT:   ninfer.add %[[L]], %[[X]]
// CHECK:      %[[M:.*]] = ninfer.swiglu %[[A]], %[[A]]
// CHECK-NEXT: ninfer.fused "linear" (%{{.*}} = %[[A]] : {{.*}}, %{{.*}} = %arg1 : {{.*}}, %{{.*}} = %[[M]] : {{.*}})
func.func @residuals(%x: tensor<?x128xf32>, %w: !w) -> tensor<?x128xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x128xf32>
  %1 = ninfer.add %0, %x : tensor<?x128xf32>
  %2 = ninfer.linear %1, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x128xf32>
  %3 = ninfer.swiglu %1, %1 : tensor<?x128xf32>
  %4 = ninfer.add %2, %3 : tensor<?x128xf32>
  return %4 : tensor<?x128xf32>
}
