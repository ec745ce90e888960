// The rotated queries of a CPU kernel lie where the queries lay, unless those are read again or the kernel is one of another family.
// RUN: ninfer-opt %s --ninfer-plan-memory > %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: ninfer-opt %t.once --ninfer-plan-memory | diff %t.once -

!w = !ninfer.weight<256x64, BF16, "contiguous-le-v1">
!kv = !ninfer.kv_cache<2x64x16, bf16>
!rope = !ninfer.rope_table<64x8>
!x = tensor<?x64xf32>
!k = tensor<?x32xf32>

ninfer.state @kv : !kv
ninfer.state @rope : !rope {inv_freq = array<f64: 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3>}

ninfer.kernel @embed(%t: tensor<?xi32>, %w: !w)
    attributes {dynamic_rows, family = "embedding", profile = "f32", rows = 8 : i64, tiles_const = 0 : i64, tiles_per_row = 1 : i64} {
  %0 = ninfer.embedding %t, %w : tensor<?xi32>, !w -> !x
  ninfer.yield %0 : !x
}
ninfer.kernel @turn(%q: !x, %rope: !rope, %position: index)
    attributes {dynamic_rows, family = "rope_append", profile = "f32", rows = 8 : i64, tiles_const = 0 : i64, tiles_per_row = 4 : i64} {
  %0 = ninfer.fused "rope_append" (%a = %q : !x, %b = %rope : !rope, %c = %position : index) -> !x {
    %1 = ninfer.rope %a, %b, %c {heads = 4} : !x, <64x8>
    ninfer.yield %1 : !x
  }
  ninfer.yield %0 : !x
}
ninfer.kernel @other(%q: !x, %rope: !rope, %position: index)
    attributes {dynamic_rows, family = "cuda.rope_append", profile = "f32", rows = 8 : i64, tiles_const = 0 : i64, tiles_per_row = 4 : i64} {
  %0 = ninfer.rope %q, %rope, %position {heads = 4} : !x, <64x8>
  ninfer.yield %0 : !x
}
ninfer.kernel @add(%a: !x, %b: !x)
    attributes {dynamic_rows, family = "add", profile = "f32", rows = 8 : i64, tiles_const = 0 : i64, tiles_per_row = 1 : i64} {
  %0 = ninfer.add %a, %b : !x
  ninfer.yield %0 : !x
}

// CHECK-LABEL: func.func @text.prefill
// CHECK-SAME: ninfer.arena_bytes = 2112 : i64
// CHECK: ninfer.launch @embed({{.*}}) {label = "e", offsets = array<i64: 0>}
// CHECK: ninfer.launch @turn({{.*}}) {label = "t", offsets = array<i64: 0>}
// CHECK: ninfer.launch @turn({{.*}}) {label = "u", offsets = array<i64: 0>}
func.func @text.prefill(%tokens: tensor<?xi32>, %position: index, %w: !w) -> !x
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %rope = ninfer.state_ref @rope : !rope
  %0 = ninfer.launch @embed(%tokens, %w) {label = "e"} : (tensor<?xi32>, !w) -> !x
  %1 = ninfer.launch @turn(%0, %rope, %position) {label = "t"} : (!x, !rope, index) -> !x
  %2 = ninfer.launch @turn(%1, %rope, %position) {label = "u"} : (!x, !rope, index) -> !x
  return %2 : !x
}

// CHECK-LABEL: func.func @text.verify
// CHECK-SAME: ninfer.arena_bytes = 6144 : i64
// CHECK: ninfer.launch @embed({{.*}}) {label = "e", offsets = array<i64: 0>}
// CHECK: ninfer.launch @turn({{.*}}) {label = "t", offsets = array<i64: 2048>}
func.func @text.verify(%tokens: tensor<?xi32>, %position: index, %w: !w) -> !x
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "verify"} {
  %rope = ninfer.state_ref @rope : !rope
  %0 = ninfer.launch @embed(%tokens, %w) {label = "e"} : (tensor<?xi32>, !w) -> !x
  %1 = ninfer.launch @turn(%0, %rope, %position) {label = "t"} : (!x, !rope, index) -> !x
  %2 = ninfer.launch @add(%1, %0) {label = "a"} : (!x, !x) -> !x
  return %2 : !x
}

// CHECK-LABEL: func.func @text.draft
// CHECK-SAME: ninfer.arena_bytes = 4096 : i64
// CHECK: ninfer.launch @other({{.*}}) {label = "o", offsets = array<i64: 2048>}
func.func @text.draft(%tokens: tensor<?xi32>, %position: index, %w: !w) -> !x
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "draft"} {
  %rope = ninfer.state_ref @rope : !rope
  %0 = ninfer.launch @embed(%tokens, %w) {label = "e"} : (tensor<?xi32>, !w) -> !x
  %1 = ninfer.launch @other(%0, %rope, %position) {label = "o"} : (!x, !rope, index) -> !x
  return %1 : !x
}
