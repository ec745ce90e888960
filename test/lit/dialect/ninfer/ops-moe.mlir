// RUN: ninfer-opt %s | FileCheck %s

!up = !ninfer.weight<256x128, Q4G64_F16S, "row-split-k128-v1">
!down = !ninfer.weight<512x32, W8G32_F16S, "row-split-k128-v1">

// CHECK-LABEL: func.func @experts
func.func @experts(%x: tensor<?x128xf32>, %logits: tensor<?x4xf32>, %score: tensor<?x1xf32>, %u: !up, %d: !down) -> tensor<?x128xf32> {
  // CHECK: ninfer.moe_route %{{.*}} {top_k = 2} : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = ninfer.moe_route %logits {top_k = 2} : tensor<?x4xf32> -> tensor<?x4xf32>
  // CHECK: ninfer.moe_up %{{.*}}, %{{.*}}, %{{.*}} policy<A16Only> {experts = 4, top_k = 2} : tensor<?x128xf32>, tensor<?x4xf32>, <256x128, Q4G64_F16S, "row-split-k128-v1"> -> tensor<?x64xf32>
  %p = ninfer.moe_up %x, %r, %u policy<A16Only> {experts = 4, top_k = 2} : tensor<?x128xf32>, tensor<?x4xf32>, !up -> tensor<?x64xf32>
  // CHECK: ninfer.moe_down %{{.*}}, %{{.*}}, %{{.*}} policy<AllowA8> {experts = 4, top_k = 2} : tensor<?x64xf32>, tensor<?x4xf32>, <512x32, W8G32_F16S, "row-split-k128-v1"> -> tensor<?x128xf32>
  %y = ninfer.moe_down %p, %r, %d policy<AllowA8> {experts = 4, top_k = 2} : tensor<?x64xf32>, tensor<?x4xf32>, !down -> tensor<?x128xf32>
  // CHECK: ninfer.sigmoid_gate %{{.*}}, %{{.*}} : tensor<?x128xf32>, tensor<?x1xf32>
  %g = ninfer.sigmoid_gate %y, %score : tensor<?x128xf32>, tensor<?x1xf32>
  return %g : tensor<?x128xf32>
}
