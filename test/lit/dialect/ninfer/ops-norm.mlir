// RUN: ninfer-opt %s | FileCheck %s

!w128 = !ninfer.weight<128, BF16, "contiguous-le-v1">
!w32 = !ninfer.weight<32, FP32, "contiguous-le-v1">

// CHECK-LABEL: func.func @rms_norm
func.func @rms_norm(%x: tensor<?x128xf32>, %w: !w128) -> (tensor<?x128xf32>, tensor<?x128xf32>) {
  // The plain form hides the default; the unit offset shows.
  // CHECK: ninfer.rms_norm %{{.*}}, %{{.*}} {eps = 1.000000e-05} : tensor<?x128xf32>, <128, BF16, "contiguous-le-v1">
  %0 = ninfer.rms_norm %x, %w {eps = 1.0e-5, unit_offset = false} : tensor<?x128xf32>, !w128
  // CHECK: ninfer.rms_norm %{{.*}}, %{{.*}} {eps = 9.9999999999999995E-7, unit_offset = true} :
  %1 = ninfer.rms_norm %x, %w {eps = 1.0e-6, unit_offset = true} : tensor<?x128xf32>, !w128
  return %0, %1 : tensor<?x128xf32>, tensor<?x128xf32>
}

// CHECK-LABEL: func.func @head_norm
func.func @head_norm(%x: tensor<?x128xf32>, %w: !w32) -> tensor<?x128xf32> {
  // CHECK: ninfer.head_norm %{{.*}}, %{{.*}} {eps = 1.000000e-05, heads = 4} : tensor<?x128xf32>, <32, FP32, "contiguous-le-v1">
  %0 = ninfer.head_norm %x, %w {heads = 4, eps = 1.0e-5} : tensor<?x128xf32>, !w32
  // CHECK: ninfer.head_norm %{{.*}}, %{{.*}} {eps = 1.000000e-05, heads = 4, unit_offset = true} :
  %1 = ninfer.head_norm %0, %w {heads = 4, eps = 1.0e-5, unit_offset = true} : tensor<?x128xf32>, !w32
  return %1 : tensor<?x128xf32>
}
