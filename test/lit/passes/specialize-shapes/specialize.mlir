// RUN: ninfer-opt %s --ninfer-specialize-shapes > %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: ninfer-opt %t.once --ninfer-specialize-shapes | diff %t.once -

!w = !ninfer.weight<64x128, BF16, "contiguous-le-v1">
!n = !ninfer.weight<128, BF16, "contiguous-le-v1">

// Every symbolic row count is 1, and selecting the last of one row is nothing.
// CHECK-LABEL: func.func @text.decode
// CHECK-SAME: (%{{.*}}: tensor<1xi32>, {{.*}}) -> tensor<1x64xf32>
// CHECK-NEXT: %[[E:.*]] = ninfer.embedding {{.*}} -> tensor<1x128xf32>
// CHECK-NEXT: %[[N:.*]] = ninfer.rms_norm %[[E]], {{.*}} : tensor<1x128xf32>
// CHECK-NEXT: %[[Y:.*]] = ninfer.linear %[[N]], {{.*}} -> tensor<1x64xf32>
// CHECK-NEXT: return %[[Y]] : tensor<1x64xf32>
func.func @text.decode(%tokens: tensor<?xi32>, %w: !w, %n: !n) -> tensor<1x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  %0 = ninfer.embedding %tokens, %w : tensor<?xi32>, !w -> tensor<?x128xf32>
  %1 = ninfer.last_row %0 : tensor<?x128xf32> -> tensor<1x128xf32>
  %2 = ninfer.rms_norm %1, %n {eps = 1.0e-5} : tensor<1x128xf32>, !n
  %3 = ninfer.linear %2, %w policy<A16Only> : tensor<1x128xf32>, !w -> tensor<1x64xf32>
  return %3 : tensor<1x64xf32>
}

// A chunk of one row is one row as well.
// CHECK-LABEL: func.func @small.prefill
// CHECK-SAME: tensor<1x8xf32>) -> tensor<1x8xf32>
func.func @small.prefill(%x: tensor<?x8xf32>) -> tensor<?x8xf32>
    attributes {ninfer.component = "small", ninfer.max_rows = 1 : i64, ninfer.phase = "prefill"} {
  // CHECK: ninfer.add %{{.*}}, %{{.*}} : tensor<1x8xf32>
  %0 = ninfer.add %x, %x : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
