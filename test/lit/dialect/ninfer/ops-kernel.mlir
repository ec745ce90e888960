// RUN: ninfer-opt %s | FileCheck %s

!w = !ninfer.weight<64x128, W8G32_F16S, "row-split-k128-v1">
!kv = !ninfer.kv_cache<2x64x32, f32>

// CHECK-LABEL: func.func @fused
func.func @fused(%x: tensor<?x128xf32>, %w: !w) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  // CHECK: %{{.*}}:2 = ninfer.fused "linear" (%[[A:.*]] = %{{.*}} : tensor<?x128xf32>, %[[W:.*]] = %{{.*}} : !ninfer.weight<64x128, W8G32_F16S, "row-split-k128-v1">) -> (tensor<?x64xf32>, tensor<?x64xf32>) attributes {ninfer.profile = "a16"} {
  %0:2 = ninfer.fused "linear" (%a = %x : tensor<?x128xf32>, %m = %w : !w)
      -> (tensor<?x64xf32>, tensor<?x64xf32>) attributes {ninfer.profile = "a16"} {
    // CHECK-NEXT: %[[Y:.*]] = ninfer.linear %[[A]], %[[W]] policy<A16Only>
    %1 = ninfer.linear %a, %m policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x64xf32>
    // CHECK-NEXT: %[[S:.*]] = ninfer.add
    %2 = ninfer.add %1, %1 : tensor<?x64xf32>
    // CHECK-NEXT: ninfer.yield %[[Y]], %[[S]] : tensor<?x64xf32>, tensor<?x64xf32>
    ninfer.yield %1, %2 : tensor<?x64xf32>, tensor<?x64xf32>
  // CHECK-NEXT: }
  }
  return %0#0, %0#1 : tensor<?x64xf32>, tensor<?x64xf32>
}

// A group without results works on a state.
// CHECK-LABEL: func.func @fused_append
func.func @fused_append(%k: tensor<1x64xf32>, %kv: !kv, %position: index) {
  // CHECK: ninfer.fused "append" (%{{.*}} = %{{.*}} : tensor<1x64xf32>, %{{.*}} = %{{.*}} : !ninfer.kv_cache<2x64x32, f32>, %{{.*}} = %{{.*}} : index) {
  ninfer.fused "append" (%a = %k : tensor<1x64xf32>, %c = %kv : !kv, %p = %position : index) {
    ninfer.kv_append %a, %a, %c, %p : tensor<1x64xf32>, !kv
    // CHECK: ninfer.yield{{$}}
    ninfer.yield
  }
  return
}

// CHECK: ninfer.kernel @add_k128_r1(%[[A:.*]]: tensor<1x128xf32>, %[[B:.*]]: tensor<1x128xf32>) attributes {
// CHECK-SAME: family = "cpu.add", profile = "f32", rows = 1 : i64, tiles_const = 1 : i64, tiles_per_row = 0 : i64} {
// CHECK-NEXT: %[[S:.*]] = ninfer.add %[[A]], %[[B]]
// CHECK-NEXT: ninfer.yield %[[S]] : tensor<1x128xf32>
ninfer.kernel @add_k128_r1(%a: tensor<1x128xf32>, %b: tensor<1x128xf32>)
    attributes {family = "cpu.add", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.add %a, %b : tensor<1x128xf32>
  ninfer.yield %0 : tensor<1x128xf32>
}

// CHECK: ninfer.kernel @last_k128_r16(%{{.*}}: tensor<?x128xf32>) attributes {dynamic_rows, family
ninfer.kernel @last_k128_r16(%a: tensor<?x128xf32>)
    attributes {family = "cpu.last_row", profile = "f32", rows = 16, dynamic_rows, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.last_row %a : tensor<?x128xf32> -> tensor<1x128xf32>
  ninfer.yield %0 : tensor<1x128xf32>
}

// CHECK-LABEL: func.func @launches
func.func @launches(%x: tensor<?x128xf32>) -> tensor<1x128xf32> {
  // CHECK: %[[L:.*]] = ninfer.launch @last_k128_r16(%{{.*}}) {label = "text/output_head", offsets = array<i64: 512>} : (tensor<?x128xf32>) -> tensor<1x128xf32>
  %0 = ninfer.launch @last_k128_r16(%x) {label = "text/output_head", offsets = array<i64: 512>}
    : (tensor<?x128xf32>) -> tensor<1x128xf32>
  // CHECK: ninfer.launch @add_k128_r1(%[[L]], %[[L]]) {label = "text/layers/3/mlp", trace = [{candidate = "cpu.add", verdict = "accepted"}]}
  %1 = ninfer.launch @add_k128_r1(%0, %0)
    {label = "text/layers/3/mlp", trace = [{candidate = "cpu.add", verdict = "accepted"}]}
    : (tensor<1x128xf32>, tensor<1x128xf32>) -> tensor<1x128xf32>
  return %1 : tensor<1x128xf32>
}
