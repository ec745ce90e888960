// Arguments that are ports have offsets of their own, in their order; there are no tokens.
// RUN: ninfer-opt %s --ninfer-plan-memory --split-input-file --verify-diagnostics | FileCheck %s

!w = !ninfer.weight<9x16, BF16, "contiguous-le-v1">

ninfer.kernel @sum(%i: tensor<?x4xi32>, %p: tensor<?x4xf32>, %w: !w)
    attributes {dynamic_rows, family = "interpolate", profile = "f32", rows = 8 : i64, tiles_const = 0 : i64, tiles_per_row = 1 : i64} {
  %0 = ninfer.interpolate %i, %p, %w : tensor<?x4xi32>, tensor<?x4xf32>, !w -> tensor<?x16xf32>
  ninfer.yield %0 : tensor<?x16xf32>
}
ninfer.kernel @add(%a: tensor<?x16xf32>, %b: tensor<?x16xf32>)
    attributes {dynamic_rows, family = "add", profile = "f32", rows = 8 : i64, tiles_const = 0 : i64, tiles_per_row = 1 : i64} {
  %0 = ninfer.add %a, %b : tensor<?x16xf32>
  ninfer.yield %0 : tensor<?x16xf32>
}

// Patches are 512 bytes, indices and weights 128 each. The result lies where indices and weights were,
// which the first launch was the last to read.
// CHECK-LABEL: func.func @vision.encode
// CHECK-SAME: ninfer.arena_bytes = 1536
// CHECK-NOT: ninfer.tokens_offset
// CHECK-SAME: ninfer.port_offsets = array<i64: 0, 1024, 1152>
// CHECK: ninfer.launch @sum({{.*}}) {label = "s", offsets = array<i64: 512>}
// CHECK: ninfer.launch @add({{.*}}) {label = "a", offsets = array<i64: 1024>}
func.func @vision.encode(%patches: tensor<?x16xf32> {ninfer.port = "patches"}, %i: tensor<?x4xi32> {ninfer.port = "indices"},
                         %p: tensor<?x4xf32> {ninfer.port = "weights"}) -> (tensor<?x16xf32> {ninfer.port = "out"})
    attributes {ninfer.component = "vision", ninfer.max_rows = 8 : i64, ninfer.phase = "encode"} {
  %w = ninfer.param @table : !w
  %0 = ninfer.launch @sum(%i, %p, %w) {label = "s"} : (tensor<?x4xi32>, tensor<?x4xf32>, !w) -> tensor<?x16xf32>
  %1 = ninfer.launch @add(%0, %patches) {label = "a"} : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  return %1 : tensor<?x16xf32>
}
ninfer.object @stored : <9x16, BF16, "contiguous-le-v1"> at 0 size 288
ninfer.parameter @table : !w parts [#ninfer.part<@stored, 0, 144>] policy<A16Only>

// -----

// expected-error@+1 {{function 'vision.encode': argument 1: expected a tensor, since it is a port, got 'index'}}
func.func @vision.encode(%x: tensor<?x16xf32> {ninfer.port = "a"}, %p: index {ninfer.port = "b"})
    attributes {ninfer.component = "vision", ninfer.max_rows = 8 : i64, ninfer.phase = "encode"} {
  return
}
