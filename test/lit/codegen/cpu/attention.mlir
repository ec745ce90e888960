// RUN: ninfer-opt %s --ninfer-lower-kernels-to-cpu | FileCheck %s

// Query heads of one KV head share a call; a row is one tile per head.

// CHECK-LABEL: module @attention attributes {ninfer.scratch_bytes = 28928 : i64}
// CHECK: llvm.func internal @"$attend"
// CHECK: llvm.call @ni_attention_bf16
// CHECK: llvm.func @attention
// CHECK: llvm.call @"$attend"
ninfer.kernel @attention(%q: tensor<1x576xf32>, %c: !ninfer.kv_cache<3x64x64, bf16>, %p: index)
    attributes {family = "attention", profile = "f32", rows = 1, tiles_const = 9, tiles_per_row = 0} {
  %0 = ninfer.attention %q, %c, %p {heads = 9, kv_heads = 3, scale = 1.25e-01} : tensor<1x576xf32>, <3x64x64, bf16>
  ninfer.yield %0 : tensor<1x576xf32>
}

// A unit is a query head (rotate) or a KV head (rotate and store).

// CHECK-LABEL: module @append
// CHECK: llvm.func @append
// CHECK: scf.if
// CHECK: llvm.call @ni_rope
// CHECK: else
// CHECK: llvm.call @ni_rope
// CHECK-COUNT-2: llvm.call @ni_kv_store_f32
ninfer.kernel @append(%q: tensor<1x64xf32>, %k: tensor<1x32xf32>, %v: tensor<1x32xf32>, %t: !ninfer.rope_table<64x8>,
                      %c: !ninfer.kv_cache<2x64x16, f32>, %p: index)
    attributes {family = "rope_append", profile = "f32", rows = 1, tiles_const = 6, tiles_per_row = 0} {
  %0 = ninfer.rope %q, %t, %p {heads = 4} : tensor<1x64xf32>, <64x8>
  %1 = ninfer.rope %k, %t, %p {heads = 2} : tensor<1x32xf32>, <64x8>
  ninfer.kv_append %1, %v, %c, %p : tensor<1x32xf32>, <2x64x16, f32>
  ninfer.yield %0 : tensor<1x64xf32>
}

// More than 16 rows: KV head by KV head, by the micro-kernel of many rows where a call has them.

// CHECK-LABEL: module @prefill
// CHECK: llvm.func internal @"$attend"
// CHECK: scf.if
// CHECK: llvm.call @ni_attention_many_f32
// CHECK: else
// CHECK: llvm.call @ni_attention_f32
// CHECK: llvm.func @prefill
// CHECK: scf.for
// CHECK-COUNT-3: llvm.call @"$attend"
ninfer.kernel @prefill(%q: tensor<?x64xf32>, %c: !ninfer.kv_cache<2x64x16, f32>, %p: index)
    attributes {family = "attention", profile = "f32", rows = 17, dynamic_rows, tiles_const = 0, tiles_per_row = 4} {
  %0 = ninfer.attention %q, %c, %p {heads = 4, kv_heads = 2, scale = 1.25e-01} : tensor<?x64xf32>, <2x64x16, f32>
  ninfer.yield %0 : tensor<?x64xf32>
}
