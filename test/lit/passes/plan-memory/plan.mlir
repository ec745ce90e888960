// Offsets of a chain with a residual, at the largest number of rows; sizes of the states.
// RUN: ninfer-opt %s --ninfer-plan-memory > %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: ninfer-opt %t.once --ninfer-plan-memory | diff %t.once -

!w = !ninfer.weight<256x16, BF16, "contiguous-le-v1">

// CHECK: ninfer.state @kv : !ninfer.kv_cache<2x64x16, bf16> {ninfer.bytes = 8192 : i64}
ninfer.state @kv : !ninfer.kv_cache<2x64x16, bf16>
// CHECK: ninfer.state @rope : !ninfer.rope_table<64x2> {inv_freq = {{.*}}, ninfer.bytes = 1024 : i64}
ninfer.state @rope : !ninfer.rope_table<64x2> {inv_freq = array<f64: 1.0, 0.5>}

ninfer.kernel @embed(%t: tensor<?xi32>, %w: !w)
    attributes {dynamic_rows, family = "embedding", profile = "f32", rows = 8 : i64, tiles_const = 0 : i64, tiles_per_row = 1 : i64} {
  %0 = ninfer.embedding %t, %w : tensor<?xi32>, !w -> tensor<?x16xf32>
  ninfer.yield %0 : tensor<?x16xf32>
}
ninfer.kernel @add(%a: tensor<?x16xf32>, %b: tensor<?x16xf32>)
    attributes {dynamic_rows, family = "add", profile = "f32", rows = 8 : i64, tiles_const = 0 : i64, tiles_per_row = 1 : i64} {
  %0 = ninfer.add %a, %b : tensor<?x16xf32>
  ninfer.yield %0 : tensor<?x16xf32>
}
ninfer.kernel @last(%a: tensor<?x16xf32>)
    attributes {dynamic_rows, family = "last_row", profile = "f32", rows = 8 : i64, tiles_const = 1 : i64, tiles_per_row = 0 : i64} {
  %0 = ninfer.last_row %a : tensor<?x16xf32> -> tensor<1x16xf32>
  ninfer.yield %0 : tensor<1x16xf32>
}

// 8 rows of 16 floats are 512 bytes, tokens 32, one row 64. %0 lives to the second sum; %1 is dead then, so %3
// takes its place; the tokens are dead when the last row is written.
// CHECK-LABEL: func.func @text.prefill
// CHECK-SAME: ninfer.arena_bytes = 1536 : i64
// CHECK-SAME: ninfer.tokens_offset = 512 : i64
// CHECK: ninfer.launch @embed({{.*}}) {label = "e", offsets = array<i64: 0>}
// CHECK: ninfer.launch @add({{.*}}) {label = "a", offsets = array<i64: 512>}
// CHECK: ninfer.launch @add({{.*}}) {label = "b", offsets = array<i64: 1024>}
// CHECK: ninfer.launch @last({{.*}}) {label = "l", offsets = array<i64: 0>}
func.func @text.prefill(%tokens: tensor<?xi32>, %w: !w) -> tensor<1x16xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.launch @embed(%tokens, %w) {label = "e"} : (tensor<?xi32>, !w) -> tensor<?x16xf32>
  %1 = ninfer.launch @add(%0, %0) {label = "a"} : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %2 = ninfer.launch @add(%1, %0) {label = "b"} : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %3 = ninfer.launch @last(%2) {label = "l"} : (tensor<?x16xf32>) -> tensor<1x16xf32>
  return %3 : tensor<1x16xf32>
}
