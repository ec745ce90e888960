// A returned value keeps its bytes to the end, also when later launches follow; an unread result still has its own.
// RUN: ninfer-opt %s --ninfer-plan-memory | FileCheck %s

ninfer.kernel @add(%a: tensor<1x16xf32>, %b: tensor<1x16xf32>)
    attributes {family = "add", profile = "f32", rows = 1 : i64, tiles_const = 1 : i64, tiles_per_row = 0 : i64} {
  %0 = ninfer.add %a, %b : tensor<1x16xf32>
  ninfer.yield %0 : tensor<1x16xf32>
}
// CHECK-LABEL: func.func @text.decode
// CHECK-SAME: ninfer.arena_bytes = 192
// CHECK: label = "returned", offsets = array<i64: [[R:[0-9]+]]>
// CHECK-NOT: offsets = array<i64: [[R]]>
// CHECK: return
func.func @text.decode(%x: tensor<1x16xf32>) -> tensor<1x16xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  %0 = ninfer.launch @add(%x, %x) {label = "returned"} : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1x16xf32>
  %1 = ninfer.launch @add(%x, %x) {label = "unread"} : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1x16xf32>
  %2 = ninfer.launch @add(%x, %x) {label = "unread"} : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1x16xf32>
  return %0 : tensor<1x16xf32>
}
