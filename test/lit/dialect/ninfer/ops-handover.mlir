// RUN: ninfer-opt %s | ninfer-opt | FileCheck %s

// CHECK-LABEL: func.func @handover
func.func @handover(%x: tensor<?x4xf32>, %y: tensor<?x3xf32>, %b: !ninfer.row_buffer<8x7>) -> tensor<?x7xf32> {
  // CHECK: ninfer.store_rows %{{.*}}, %{{.*}} {column = 0} : tensor<?x4xf32>, <8x7>
  ninfer.store_rows %x, %b {column = 0} : tensor<?x4xf32>, !ninfer.row_buffer<8x7>
  // CHECK: ninfer.store_rows %{{.*}}, %{{.*}} {column = 4} : tensor<?x3xf32>, <8x7>
  ninfer.store_rows %y, %b {column = 4} : tensor<?x3xf32>, !ninfer.row_buffer<8x7>
  // CHECK: ninfer.load_rows %{{.*}} {column = 4} : <8x7> -> tensor<?x3xf32>
  %z = ninfer.load_rows %b {column = 4} : !ninfer.row_buffer<8x7> -> tensor<?x3xf32>
  // CHECK: ninfer.concat %{{.*}}, %{{.*}} : tensor<?x4xf32>, tensor<?x3xf32> -> tensor<?x7xf32>
  %c = ninfer.concat %x, %z : tensor<?x4xf32>, tensor<?x3xf32> -> tensor<?x7xf32>
  return %c : tensor<?x7xf32>
}

// CHECK-LABEL: func.func @peek
func.func @peek(%q: tensor<?x4xf32>, %a: tensor<?x2xf32>, %w: !ninfer.weight<2x12, BF16, "contiguous-le-v1">,
                %v: !ninfer.weight<2, FP32, "contiguous-le-v1">, %t: !ninfer.conv_state<1x12>, %s: !ninfer.delta_state<2x2x4>) {
  // CHECK: ninfer.causal_conv {{.*}} {peek} :
  %x, %y, %z = ninfer.causal_conv %q, %q, %q, %w, %t {peek}
     : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, !ninfer.weight<2x12, BF16, "contiguous-le-v1">, !ninfer.conv_state<1x12>
  // CHECK: ninfer.gated_delta {{.*}} {key_heads = 1, peek} :
  %o = ninfer.gated_delta %x, %y, %z, %a, %a, %v, %v, %s {key_heads = 1, peek}
     : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x2xf32>, !ninfer.weight<2, FP32, "contiguous-le-v1">, !ninfer.weight<2, FP32, "contiguous-le-v1">, !ninfer.delta_state<2x2x4>
  return
}
