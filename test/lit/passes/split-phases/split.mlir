// RUN: ninfer-opt %s --ninfer-split-phases > %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: ninfer-opt %t.once --ninfer-split-phases | diff %t.once -

!w = !ninfer.weight<64x128, BF16, "contiguous-le-v1">

// CHECK: module attributes
module attributes {ninfer.max_context = 2048 : i64, ninfer.prefill_chunk = 512 : i64} {
  // The original is gone; both phases have its body, still with a symbolic number of rows.
  // CHECK-NOT: @text(
  // CHECK: func.func @text.decode(%{{.*}}: tensor<?xi32>, {{.*}}) -> tensor<?x128xf32>
  // CHECK-SAME: attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"}
  // CHECK-NEXT: ninfer.embedding
  // CHECK-NEXT: return
  // CHECK: func.func @text.prefill(
  // CHECK-SAME: attributes {ninfer.component = "text", ninfer.max_rows = 512 : i64, ninfer.phase = "prefill"}
  // CHECK-NEXT: ninfer.embedding
  // CHECK-NEXT: return
  func.func @text(%tokens: tensor<?xi32>, %w: !w) -> tensor<?x128xf32> attributes {ninfer.component = "text"} {
    %0 = ninfer.embedding %tokens, %w : tensor<?xi32>, !w -> tensor<?x128xf32>
    return %0 : tensor<?x128xf32>
  }
}
