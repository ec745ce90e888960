// Rotation of query and key with the append to the cache, with and without head norms.
// RUN: ninfer-opt %s --ninfer-fuse --split-input-file > %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: ninfer-opt %t.once --ninfer-fuse --split-input-file | diff %t.once -

!kv = !ninfer.kv_cache<2x64x16, bf16>
!t = !ninfer.rope_table<64x8>

// CHECK-LABEL: func.func @plain
// CHECK-NEXT: %[[Q:.*]] = ninfer.fused "rope_append" (%[[A:.*]] = %arg0 : {{.*}}, %[[B:.*]] = %arg1 : {{.*}}, %[[V:.*]] = %arg2 : {{.*}}, %[[T:.*]] = %arg3 : {{.*}}, %[[C:.*]] = %arg4 : {{.*}}, %[[P:.*]] = %arg5 : index) -> tensor<?x64xf32> {
// CHECK-NEXT:   %[[RQ:.*]] = ninfer.rope %[[A]], %[[T]], %[[P]] {heads = 4}
// CHECK-NEXT:   %[[RK:.*]] = ninfer.rope %[[B]], %[[T]], %[[P]] {heads = 2}
// CHECK-NEXT:   ninfer.kv_append %[[RK]], %[[V]], %[[C]], %[[P]]
// CHECK-NEXT:   ninfer.yield %[[RQ]]
// CHECK-NEXT: }
// CHECK-NEXT: ninfer.attention %[[Q]], %arg4, %arg5
func.func @plain(%q: tensor<?x64xf32>, %k: tensor<?x32xf32>, %v: tensor<?x32xf32>, %t: !t, %c: !kv, %p: index) -> tensor<?x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rope %q, %t, %p {heads = 4} : tensor<?x64xf32>, !t
  %1 = ninfer.rope %k, %t, %p {heads = 2} : tensor<?x32xf32>, !t
  ninfer.kv_append %1, %v, %c, %p : tensor<?x32xf32>, !kv
  %2 = ninfer.attention %0, %c, %p {heads = 4, kv_heads = 2, scale = 0.25} : tensor<?x64xf32>, !kv
  return %2 : tensor<?x64xf32>
}

// -----

!kv = !ninfer.kv_cache<2x64x16, bf16>
!t = !ninfer.rope_table<64x8>
!n = !ninfer.weight<16, BF16, "contiguous-le-v1">

// The query may be rotated after the append; the group stands where both are known.
// CHECK-LABEL: func.func @head_norms
// CHECK-NEXT: %[[Q:.*]] = ninfer.fused "rope_append"
// CHECK-NEXT:   %[[NQ:.*]] = ninfer.head_norm
// CHECK-NEXT:   %[[NK:.*]] = ninfer.head_norm
// CHECK-NEXT:   %[[RQ:.*]] = ninfer.rope %[[NQ]]
// CHECK-NEXT:   %[[RK:.*]] = ninfer.rope %[[NK]]
// CHECK-NEXT:   ninfer.kv_append %[[RK]]
// CHECK-NEXT:   ninfer.yield %[[RQ]]
// CHECK-NEXT: }
// CHECK-NEXT: ninfer.attention %[[Q]]
func.func @head_norms(%q: tensor<?x64xf32>, %k: tensor<?x32xf32>, %v: tensor<?x32xf32>, %nq: !n, %nk: !n, %t: !t, %c: !kv, %p: index)
    -> tensor<?x64xf32> attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.head_norm %k, %nk {eps = 1.0e-6, heads = 2} : tensor<?x32xf32>, !n
  %1 = ninfer.rope %0, %t, %p {heads = 2} : tensor<?x32xf32>, !t
  ninfer.kv_append %1, %v, %c, %p : tensor<?x32xf32>, !kv
  %2 = ninfer.head_norm %q, %nq {eps = 1.0e-6, heads = 4} : tensor<?x64xf32>, !n
  %3 = ninfer.rope %2, %t, %p {heads = 4} : tensor<?x64xf32>, !t
  %4 = ninfer.attention %3, %c, %p {heads = 4, kv_heads = 2, scale = 0.25} : tensor<?x64xf32>, !kv
  return %4 : tensor<?x64xf32>
}

// -----

!kv = !ninfer.kv_cache<2x64x16, bf16>
!t = !ninfer.rope_table<64x8>
!n = !ninfer.weight<16, BF16, "contiguous-le-v1">

// A norm of the query alone stays outside.
// CHECK-LABEL: func.func @one_norm
// CHECK-NEXT: %[[N:.*]] = ninfer.head_norm
// CHECK-NEXT: ninfer.fused "rope_append" (%{{.*}} = %[[N]] :
// CHECK-NOT:  ninfer.head_norm
// CHECK:      ninfer.attention
func.func @one_norm(%q: tensor<?x64xf32>, %k: tensor<?x32xf32>, %nq: !n, %t: !t, %c: !kv, %p: index) -> tensor<?x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.head_norm %q, %nq {eps = 1.0e-6, heads = 4} : tensor<?x64xf32>, !n
  %1 = ninfer.rope %0, %t, %p {heads = 4} : tensor<?x64xf32>, !t
  %2 = ninfer.rope %k, %t, %p {heads = 2} : tensor<?x32xf32>, !t
  ninfer.kv_append %2, %k, %c, %p : tensor<?x32xf32>, !kv
  %3 = ninfer.attention %1, %c, %p {heads = 4, kv_heads = 2, scale = 0.25} : tensor<?x64xf32>, !kv
  return %3 : tensor<?x64xf32>
}
