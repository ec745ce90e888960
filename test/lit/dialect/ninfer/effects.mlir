// RUN: ninfer-opt %s --cse --canonicalize | FileCheck %s

!kv = !ninfer.kv_cache<2x64x32, bf16>
!x = tensor<?x64xf32>

ninfer.state @kv : !kv
ninfer.kernel @attend(%q: !x, %c: !kv, %p: index)
    attributes {dynamic_rows, family = "f", profile = "f32", rows = 16, tiles_const = 0, tiles_per_row = 2} {
  %0 = ninfer.attention %q, %c, %p {heads = 2, kv_heads = 2, scale = 0.125} : !x, !kv
  ninfer.yield %0 : !x
}
ninfer.kernel @twice(%q: !x)
    attributes {dynamic_rows, family = "f", profile = "f32", rows = 16, tiles_const = 0, tiles_per_row = 2} {
  %0 = ninfer.add %q, %q : !x
  ninfer.yield %0 : !x
}

ninfer.state @table : !ninfer.rope_table<64x2> {inv_freq = array<f64: 1.0, 0.5>}
ninfer.kernel @place(%r: tensor<?x2xi32>, %t: !ninfer.rope_table<64x2>, %p: index)
    attributes {dynamic_rows, family = "f", profile = "f32", rows = 16, tiles_const = 0, tiles_per_row = 1} {
  ninfer.place_angles %r, %t, %t, %p {axes = array<i64: 0, 1>} : tensor<?x2xi32>, !ninfer.rope_table<64x2>, !ninfer.rope_table<64x2>
  ninfer.yield
}
ninfer.kernel @turn(%q: !x, %t: !ninfer.rope_table<64x2>, %p: index)
    attributes {dynamic_rows, family = "f", profile = "f32", rows = 16, tiles_const = 0, tiles_per_row = 1} {
  %0 = ninfer.rope %q, %t, %p {heads = 2} : !x, !ninfer.rope_table<64x2>
  ninfer.yield %0 : !x
}

// A launch with a rope table and a result reads it and goes when unused; one without a result is there to write it.
// CHECK-LABEL: func.func @tables
// CHECK-NOT: ninfer.launch @turn
// CHECK: ninfer.launch @place
// CHECK: return
func.func @tables(%x: !x, %r: tensor<?x2xi32>, %p: index) {
  %t = ninfer.state_ref @table : !ninfer.rope_table<64x2>
  %0 = ninfer.launch @turn(%x, %t, %p) {label = "l"} : (!x, !ninfer.rope_table<64x2>, index) -> !x
  ninfer.launch @place(%r, %t, %p) {label = "l"} : (tensor<?x2xi32>, !ninfer.rope_table<64x2>, index) -> ()
  return
}

// Equal references are one; equal reads with a write between them are two.
// CHECK-LABEL: func.func @reads_around_a_write
// CHECK: %[[KV:.*]] = ninfer.state_ref @kv
// CHECK-NOT: ninfer.state_ref
// CHECK: ninfer.attention %{{.*}}, %[[KV]]
// CHECK: ninfer.kv_append %{{.*}}, %{{.*}}, %[[KV]]
// CHECK: ninfer.attention %{{.*}}, %[[KV]]
func.func @reads_around_a_write(%x: !x, %p: index) -> (!x, !x) {
  %a = ninfer.state_ref @kv : !kv
  %b = ninfer.state_ref @kv : !kv
  %0 = ninfer.attention %x, %a, %p {heads = 2, kv_heads = 2, scale = 0.125} : !x, !kv
  ninfer.kv_append %x, %x, %b, %p : !x, !kv
  %1 = ninfer.attention %x, %b, %p {heads = 2, kv_heads = 2, scale = 0.125} : !x, !kv
  return %0, %1 : !x, !x
}

// A launch with a cache may write it and stays; one without is a computation and goes when unused.
// CHECK-LABEL: func.func @launches
// CHECK: ninfer.launch @attend
// CHECK: ninfer.launch @attend
// CHECK-NOT: ninfer.launch @twice
// CHECK: return
func.func @launches(%x: !x, %p: index) {
  %kv = ninfer.state_ref @kv : !kv
  %0 = ninfer.launch @attend(%x, %kv, %p) {label = "l"} : (!x, !kv, index) -> !x
  %1 = ninfer.launch @attend(%x, %kv, %p) {label = "l"} : (!x, !kv, index) -> !x
  %2 = ninfer.launch @twice(%x) {label = "l"} : (!x) -> !x
  return
}

// A tap is read by the caller: it stays, and so does what it taps.
// CHECK-LABEL: func.func @taps
// CHECK: %[[SUM:.*]] = ninfer.add
// CHECK: ninfer.tap %[[SUM]] as "sum"
// CHECK: ninfer.tap %[[SUM]] as "again"
func.func @taps(%x: !x) {
  %0 = ninfer.add %x, %x : !x
  ninfer.tap %0 as "sum" : !x
  ninfer.tap %0 as "again" : !x
  return
}
