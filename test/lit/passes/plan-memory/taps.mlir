// A tapped value keeps its bytes to the end of the call; without the tap the same offsets are given again.
// RUN: ninfer-opt %s --ninfer-plan-memory | FileCheck %s
// RUN: sed '/ninfer.tap/d' %s | ninfer-opt --ninfer-plan-memory | FileCheck %s --check-prefix=PLAIN

ninfer.kernel @add(%a: tensor<1x16xf32>, %b: tensor<1x16xf32>)
    attributes {family = "add", profile = "f32", rows = 1 : i64, tiles_const = 1 : i64, tiles_per_row = 0 : i64} {
  %0 = ninfer.add %a, %b : tensor<1x16xf32>
  ninfer.yield %0 : tensor<1x16xf32>
}
// CHECK-LABEL: func.func @text.decode
// CHECK-SAME: ninfer.arena_bytes = 256
// CHECK: label = "a", offsets = array<i64: [[TAPPED:[0-9]+]]>
// CHECK: ninfer.tap %{{.*}} as "a"
// CHECK-NOT: offsets = array<i64: [[TAPPED]]>
// CHECK: return
// PLAIN: ninfer.arena_bytes = 192
func.func @text.decode(%x: tensor<1x16xf32>) -> tensor<1x16xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  %0 = ninfer.launch @add(%x, %x) {label = "a"} : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1x16xf32>
  ninfer.tap %0 as "a" : tensor<1x16xf32>
  %1 = ninfer.launch @add(%0, %x) {label = "b"} : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1x16xf32>
  %2 = ninfer.launch @add(%1, %x) {label = "c"} : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1x16xf32>
  %3 = ninfer.launch @add(%2, %x) {label = "d"} : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1x16xf32>
  return %3 : tensor<1x16xf32>
}
