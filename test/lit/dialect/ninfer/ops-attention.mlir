// RUN: ninfer-opt %s | FileCheck %s

!kv = !ninfer.kv_cache<2x64x32, bf16>
!table = !ninfer.rope_table<64x16>

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x128xf32>, %k: tensor<?x64xf32>, %v: tensor<?x64xf32>,
                     %table: !table, %kv: !kv, %position: index) -> tensor<?x128xf32> {
  // CHECK: ninfer.rope %{{.*}}, %{{.*}}, %{{.*}} {heads = 4} : tensor<?x128xf32>, <64x16>
  %0 = ninfer.rope %q, %table, %position {heads = 4} : tensor<?x128xf32>, !table
  // CHECK: ninfer.rope %{{.*}}, %{{.*}}, %{{.*}} {heads = 2} : tensor<?x64xf32>, <64x16>
  %1 = ninfer.rope %k, %table, %position {heads = 2} : tensor<?x64xf32>, !table
  // CHECK: ninfer.kv_append %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x64xf32>, <2x64x32, bf16>
  ninfer.kv_append %1, %v, %kv, %position : tensor<?x64xf32>, !kv
  // CHECK: ninfer.attention %{{.*}}, %{{.*}}, %{{.*}} {heads = 4, kv_heads = 2, scale = 1.250000e-01} : tensor<?x128xf32>, <2x64x32, bf16>
  %2 = ninfer.attention %0, %kv, %position {heads = 4, kv_heads = 2, scale = 0.125} : tensor<?x128xf32>, !kv
  return %2 : tensor<?x128xf32>
}

// CHECK-LABEL: func.func @place
func.func @place(%p: tensor<?x3xi32>, %angles: !ninfer.rope_table<64x4>, %placed: !ninfer.rope_table<32x4>, %position: index) {
  // CHECK: ninfer.place_angles %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {axes = array<i64: 0, 1, 2, 0>} : tensor<?x3xi32>, <64x4>, <32x4>
  ninfer.place_angles %p, %angles, %placed, %position {axes = array<i64: 0, 1, 2, 0>}
    : tensor<?x3xi32>, !ninfer.rope_table<64x4>, !ninfer.rope_table<32x4>
  return
}
