// RUN: ninfer-opt %s | FileCheck %s

!w48 = !ninfer.weight<48, BF16, "contiguous-le-v1">
!w192 = !ninfer.weight<192, BF16, "contiguous-le-v1">
!table = !ninfer.weight<49x48, BF16, "contiguous-le-v1">
!fc = !ninfer.weight<192x192, W8G32_F16S, "row-split-k128-v1">

// CHECK-LABEL: func.func @layer_norm
func.func @layer_norm(%x: tensor<?x48xf32>, %w: !w48, %b: !w48) -> tensor<?x48xf32> {
  // CHECK: ninfer.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {eps = 9.9999999999999995E-7} : tensor<?x48xf32>, <48, BF16, "contiguous-le-v1">, <48, BF16, "contiguous-le-v1">
  %0 = ninfer.layer_norm %x, %w, %b {eps = 1.0e-6} : tensor<?x48xf32>, !w48, !w48
  return %0 : tensor<?x48xf32>
}

// CHECK-LABEL: func.func @bias
func.func @bias(%x: tensor<?x48xf32>, %b: !w48, %c: !w192) -> tensor<?x48xf32> {
  // CHECK: ninfer.bias %{{.*}}, %{{.*}} : tensor<?x48xf32>, <48, BF16, "contiguous-le-v1">
  %0 = ninfer.bias %x, %b {row_group = 1} : tensor<?x48xf32>, !w48
  // CHECK: ninfer.bias %{{.*}}, %{{.*}} {row_group = 4} : tensor<?x48xf32>, <192, BF16, "contiguous-le-v1">
  %1 = ninfer.bias %0, %c {row_group = 4} : tensor<?x48xf32>, !w192
  return %1 : tensor<?x48xf32>
}

// CHECK-LABEL: func.func @gelu
func.func @gelu(%x: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // CHECK: ninfer.gelu %{{.*}} : tensor<?x48xf32>
  %0 = ninfer.gelu %x {tanh = false} : tensor<?x48xf32>
  // CHECK: ninfer.gelu %{{.*}} {tanh = true} : tensor<?x48xf32>
  %1 = ninfer.gelu %0 {tanh = true} : tensor<?x48xf32>
  return %1 : tensor<?x48xf32>
}

// CHECK-LABEL: func.func @axial_rope
func.func @axial_rope(%x: tensor<?x48xf32>, %t: !ninfer.rope_table<64x3>, %p: tensor<?x2xi32>) -> tensor<?x48xf32> {
  // CHECK: ninfer.axial_rope %{{.*}}, %{{.*}}, %{{.*}} {heads = 4} : tensor<?x48xf32>, <64x3>, tensor<?x2xi32>
  %0 = ninfer.axial_rope %x, %t, %p {heads = 4} : tensor<?x48xf32>, !ninfer.rope_table<64x3>, tensor<?x2xi32>
  return %0 : tensor<?x48xf32>
}

// CHECK-LABEL: func.func @full_attention
func.func @full_attention(%q: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // CHECK: ninfer.full_attention %{{.*}}, %{{.*}}, %{{.*}} {heads = 4, scale = 2.500000e-01} : tensor<?x48xf32>
  %0 = ninfer.full_attention %q, %q, %q {heads = 4, scale = 0.25} : tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// CHECK-LABEL: func.func @interpolate
func.func @interpolate(%i: tensor<?x4xi32>, %w: tensor<?x4xf32>, %t: !table) -> tensor<?x48xf32> {
  // CHECK: ninfer.interpolate %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x4xi32>, tensor<?x4xf32>, <49x48, BF16, "contiguous-le-v1"> -> tensor<?x48xf32>
  %0 = ninfer.interpolate %i, %w, %t : tensor<?x4xi32>, tensor<?x4xf32>, !table -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// CHECK-LABEL: func.func @grouped_linear
func.func @grouped_linear(%x: tensor<?x48xf32>, %w: !fc) -> tensor<?x48xf32> {
  // CHECK: ninfer.linear %{{.*}}, %{{.*}} policy<A16Only> {row_group = 4 : i64} : tensor<?x48xf32>, <192x192, W8G32_F16S, "row-split-k128-v1"> -> tensor<?x48xf32>
  %0 = ninfer.linear %x, %w policy<A16Only> {row_group = 4 : i64} : tensor<?x48xf32>, !fc -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}
