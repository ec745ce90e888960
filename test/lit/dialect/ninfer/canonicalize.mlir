// RUN: ninfer-opt %s --canonicalize --split-input-file | FileCheck %s

// The last row of one row is that row.
// CHECK-LABEL: func.func @last_row_of_one
// CHECK-SAME: (%[[X:.*]]: tensor<1x128xf32>)
// CHECK-NEXT: return %[[X]]
func.func @last_row_of_one(%x: tensor<1x128xf32>) -> tensor<1x128xf32> {
  %0 = ninfer.last_row %x : tensor<1x128xf32> -> tensor<1x128xf32>
  return %0 : tensor<1x128xf32>
}

// -----

// Unknown rows stay.
// CHECK-LABEL: func.func @last_row_of_many
// CHECK: ninfer.last_row
func.func @last_row_of_many(%x: tensor<?x128xf32>) -> tensor<1x128xf32> {
  %0 = ninfer.last_row %x : tensor<?x128xf32> -> tensor<1x128xf32>
  return %0 : tensor<1x128xf32>
}

// -----

// Pure operations without a use go; an append stays.
// CHECK-LABEL: func.func @unused
// CHECK-NEXT: ninfer.kv_append
// CHECK-NEXT: return
func.func @unused(%x: tensor<?x64xf32>, %kv: !ninfer.kv_cache<2x64x32, bf16>, %position: index) {
  %0 = ninfer.add %x, %x : tensor<?x64xf32>
  %1 = ninfer.attention %x, %kv, %position {heads = 2, kv_heads = 2, scale = 0.125}
    : tensor<?x64xf32>, !ninfer.kv_cache<2x64x32, bf16>
  ninfer.kv_append %x, %x, %kv, %position : tensor<?x64xf32>, !ninfer.kv_cache<2x64x32, bf16>
  %2 = ninfer.swiglu %x, %x : tensor<?x64xf32>
  return
}

// -----

// A fused region keeps the inputs it reads, each once, and the results that are read.
// CHECK-LABEL: func.func @trim
// CHECK-SAME: (%[[X:.*]]: tensor<1x128xf32>, %{{.*}}: tensor<1x128xf32>)
// CHECK-NEXT: %[[R:.*]] = ninfer.fused "k" (%[[A:[a-z0-9]*]] = %[[X]] : tensor<1x128xf32>) -> tensor<1x128xf32> attributes {ninfer.family = "f"} {
// CHECK-NEXT:   %[[S:.*]] = ninfer.swiglu %[[A]], %[[A]]
// CHECK-NEXT:   ninfer.yield %[[S]] : tensor<1x128xf32>
// CHECK-NEXT: }
// CHECK-NEXT: return %[[R]]
func.func @trim(%x: tensor<1x128xf32>, %unused: tensor<1x128xf32>) -> tensor<1x128xf32> {
  %0:2 = ninfer.fused "k" (%a = %x : tensor<1x128xf32>, %b = %unused : tensor<1x128xf32>, %c = %x : tensor<1x128xf32>)
      -> (tensor<1x128xf32>, tensor<1x128xf32>) attributes {ninfer.family = "f"} {
    %1 = ninfer.add %a, %c : tensor<1x128xf32>
    %2 = ninfer.swiglu %a, %c : tensor<1x128xf32>
    ninfer.yield %1, %2 : tensor<1x128xf32>, tensor<1x128xf32>
  }
  return %0#1 : tensor<1x128xf32>
}

// -----

// A fused region that only computes goes when nothing reads it; one that appends stays.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT: ninfer.fused "append"
// CHECK-NOT: ninfer.fused "add"
func.func @dead(%x: tensor<1x64xf32>, %kv: !ninfer.kv_cache<2x64x32, bf16>, %position: index) {
  %0 = ninfer.fused "add" (%a = %x : tensor<1x64xf32>) -> tensor<1x64xf32> {
    %1 = ninfer.add %a, %a : tensor<1x64xf32>
    ninfer.yield %1 : tensor<1x64xf32>
  }
  ninfer.fused "append" (%a = %x : tensor<1x64xf32>, %c = %kv : !ninfer.kv_cache<2x64x32, bf16>, %p = %position : index) {
    ninfer.kv_append %a, %a, %c, %p : tensor<1x64xf32>, !ninfer.kv_cache<2x64x32, bf16>
    ninfer.yield
  }
  return
}
