// RUN: ninfer-opt %s | FileCheck %s

!table = !ninfer.weight<64x128, BF16, "contiguous-le-v1">
!q4 = !ninfer.weight<192x128, Q4G64_F16S, "row-split-k128-v1">

// CHECK-LABEL: func.func @embedding
func.func @embedding(%tokens: tensor<?xi32>, %one: tensor<1xi32>, %table: !table)
    -> (tensor<?x128xf32>, tensor<1x128xf32>) {
  // CHECK: ninfer.embedding %{{.*}}, %{{.*}} : tensor<?xi32>, <64x128, BF16, "contiguous-le-v1"> -> tensor<?x128xf32>
  %0 = ninfer.embedding %tokens, %table : tensor<?xi32>, !table -> tensor<?x128xf32>
  // CHECK: ninfer.embedding %{{.*}}, %{{.*}} : tensor<1xi32>, <64x128, BF16, "contiguous-le-v1"> -> tensor<1x128xf32>
  %1 = ninfer.embedding %one, %table : tensor<1xi32>, !table -> tensor<1x128xf32>
  return %0, %1 : tensor<?x128xf32>, tensor<1x128xf32>
}

// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<?x128xf32>, %w: !q4) -> tensor<?x192xf32> {
  // CHECK: ninfer.linear %{{.*}}, %{{.*}} policy<AllowA8> : tensor<?x128xf32>, <192x128, Q4G64_F16S, "row-split-k128-v1"> -> tensor<?x192xf32>
  %0 = ninfer.linear %x, %w policy<AllowA8> : tensor<?x128xf32>, !q4 -> tensor<?x192xf32>
  return %0 : tensor<?x192xf32>
}

// Admission attributes are discardable and survive.
// CHECK-LABEL: func.func @admitted
func.func @admitted(%x: tensor<1x128xf32>, %w: !q4) -> tensor<1x192xf32> {
  // CHECK: ninfer.linear %{{.*}} policy<A16Only> {ninfer.family = "cpu.linear", ninfer.profile = "a16", ninfer.tiles_const = 3 : i64} :
  %0 = ninfer.linear %x, %w policy<A16Only>
    {ninfer.family = "cpu.linear", ninfer.profile = "a16", ninfer.tiles_const = 3 : i64}
    : tensor<1x128xf32>, !q4 -> tensor<1x192xf32>
  return %0 : tensor<1x192xf32>
}
