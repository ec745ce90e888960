// Equal structure is one kernel, over layers and phases; names say what differs.
// RUN: ninfer-opt %s --ninfer-admit-kernels --ninfer-outline-kernels > %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: ninfer-opt %t.once --ninfer-outline-kernels | diff %t.once -
// RUN: ninfer-opt %s --ninfer-admit-kernels --ninfer-outline-kernels | diff %t.once -

!w = !ninfer.weight<64x64, Q4G64_F16S, "row-split-k128-v1">
!n = !ninfer.weight<64, BF16, "contiguous-le-v1">
!kv = !ninfer.kv_cache<2x128x16, bf16>

// Kernels stand in front of the functions, in the order of their first launch.
// CHECK: ninfer.kernel @linear_q4g64_n64_k64_r1_a16(%[[X:.*]]: tensor<1x64xf32>, %[[W:.*]]: !ninfer.weight<64x64, {{.*}}>) attributes {family = "linear_a16", ninfer.granule = 8 : i64, profile = "a16", rows = 1 : i64, tiles_const = 8 : i64, tiles_per_row = 0 : i64} {
// CHECK-NEXT: %[[Y:.*]] = ninfer.linear %[[X]], %[[W]] policy<A16Only> : tensor<1x64xf32>, {{.*}} -> tensor<1x64xf32>
// CHECK-NEXT: ninfer.yield %[[Y]] : tensor<1x64xf32>

// The same name with another eps: told apart by a suffix.
// CHECK: ninfer.kernel @rms_norm_k64_r1(
// CHECK-NEXT: eps = 1.000000e-05
// CHECK: ninfer.kernel @rms_norm_k64_r1_v2(
// CHECK-NEXT: eps = {{1\.0*e-06|9\.9*5E-7}}

// An operand used twice is two arguments: the kernel knows nothing of the values it will get.
// CHECK: ninfer.kernel @add_k64_r1(%[[A:.*]]: tensor<1x64xf32>, %[[B:.*]]: tensor<1x64xf32>)
// CHECK-NEXT: ninfer.add %[[A]], %[[B]]

// A position stays an argument; rows of a call are dynamic.
// CHECK: ninfer.kernel @attention_h4_kv2_d16_c128_bf16_r1to32(%{{.*}}: tensor<?x64xf32>, %{{.*}}: !ninfer.kv_cache<2x128x16, bf16>, %{{.*}}: index) attributes {dynamic_rows, family = "attention", profile = "f32", rows = 32 : i64, tiles_const = 0 : i64, tiles_per_row = 4 : i64}
// A kernel without results.
// CHECK: ninfer.kernel @kv_append_kv2_d16_c128_bf16_r1to32(
// CHECK-NEXT: ninfer.kv_append
// CHECK-NEXT: ninfer.yield{{$}}
// CHECK: ninfer.kernel @last_row_k64_r1to32({{.*}}) attributes {dynamic_rows, {{.*}} rows = 32 : i64, tiles_const = 1 : i64, tiles_per_row = 0 : i64}
// CHECK-NOT: ninfer.kernel

// CHECK-LABEL: func.func @text.decode
// CHECK-NEXT: %[[A:.*]] = ninfer.launch @linear_q4g64_n64_k64_r1_a16(%arg0, %arg1) {label = "text/layers/0/query", ninfer.signature = "Q4G64_F16S linear 64x64, rows 1", trace = [{{.*}}]} : (tensor<1x64xf32>, {{.*}}) -> tensor<1x64xf32>
// CHECK-NEXT: %[[B:.*]] = ninfer.launch @linear_q4g64_n64_k64_r1_a16(%[[A]], %arg1) {label = "text/layers/1/query"
// CHECK-NEXT: %[[C:.*]] = ninfer.launch @rms_norm_k64_r1(%[[B]], %arg2) {label = "rms_norm"
// CHECK-NEXT: %[[D:.*]] = ninfer.launch @rms_norm_k64_r1_v2(%[[C]], %arg2)
// CHECK-NEXT: %[[E:.*]] = ninfer.launch @add_k64_r1(%[[D]], %[[D]])
// CHECK-NEXT: %[[F:.*]] = ninfer.launch @add_k64_r1(%[[E]], %[[D]])
// CHECK-NEXT: return %[[F]]
func.func @text.decode(%x: tensor<1x64xf32>, %w: !w, %n: !n) -> tensor<1x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<1x64xf32>, !w -> tensor<1x64xf32> loc("text/layers/0/query")
  %1 = ninfer.linear %0, %w policy<A16Only> : tensor<1x64xf32>, !w -> tensor<1x64xf32> loc("text/layers/1/query")
  %2 = ninfer.rms_norm %1, %n {eps = 1.0e-5} : tensor<1x64xf32>, !n
  %3 = ninfer.rms_norm %2, %n {eps = 1.0e-6} : tensor<1x64xf32>, !n
  %4 = ninfer.add %3, %3 : tensor<1x64xf32>
  %5 = ninfer.add %4, %3 : tensor<1x64xf32>
  return %5 : tensor<1x64xf32>
}

// The single row behind last_row runs the kernel of the decode phase.
// CHECK-LABEL: func.func @text.prefill
// CHECK-NEXT: ninfer.launch @attention_h4_kv2_d16_c128_bf16_r1to32(%arg0, %arg3, %arg4)
// CHECK-NEXT: ninfer.launch @kv_append_kv2_d16_c128_bf16_r1to32(%arg1, %arg1, %arg3, %arg4)
// CHECK-NEXT: %[[L:.*]] = ninfer.launch @last_row_k64_r1to32(
// CHECK-NEXT: ninfer.launch @linear_q4g64_n64_k64_r1_a16(%[[L]], %arg2)
func.func @text.prefill(%x: tensor<?x64xf32>, %k: tensor<?x32xf32>, %w: !w, %c: !kv, %p: index) -> tensor<1x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 32 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.attention %x, %c, %p {heads = 4, kv_heads = 2, scale = 0.25} : tensor<?x64xf32>, !kv
  ninfer.kv_append %k, %k, %c, %p : tensor<?x32xf32>, !kv
  %1 = ninfer.last_row %0 : tensor<?x64xf32> -> tensor<1x64xf32>
  %2 = ninfer.linear %1, %w policy<A16Only> : tensor<1x64xf32>, !w -> tensor<1x64xf32>
  return %2 : tensor<1x64xf32>
}
