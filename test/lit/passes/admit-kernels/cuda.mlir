// What a CUDA target marks and refuses.
// RUN: ninfer-opt %s --ninfer-admit-kernels=target=cuda:sm_89 --split-input-file --verify-diagnostics | FileCheck %s

!q4 = !ninfer.weight<64x128, Q4G64_F16S, "row-split-k128-v1">

// The caller reads float32.
// CHECK-LABEL: func.func @text.decode
// CHECK: ninfer.linear {{.*}} {ninfer.family = "cuda.linear"
// CHECK-SAME: ninfer.wide
func.func @text.decode(%x: tensor<1x128xf32>, %w: !q4) -> tensor<1x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<1x128xf32>, !q4 -> tensor<1x64xf32>
  return %0 : tensor<1x64xf32>
}

// -----

func.func @text.decode(%x: tensor<1x128xf32>) -> tensor<1x128xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  // expected-error@+2 {{no kernel for add of width 128, rows 1, stored in float32, on cuda:sm_89}}
  // expected-note@+1 {{cuda.add: rejected: result: expected bfloat16, got float32}}
  %0 = ninfer.add %x, %x : tensor<1x128xf32>
  return %0 : tensor<1x128xf32>
}

// -----

func.func @text.decode(%x: tensor<1x128xf32>) -> tensor<1x128xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  // expected-error@+1 {{'ninfer.add' op is read by the caller and by others}}
  %0 = ninfer.add %x, %x : tensor<1x128xf32>
  %1 = ninfer.add %0, %x : tensor<1x128xf32>
  return %0 : tensor<1x128xf32>
}

// -----

!q4 = !ninfer.weight<64x128, Q4G64_F16S, "row-split-k128-v1">

func.func @text.prefill(%x: tensor<?x128xf32>, %w: !q4)
    attributes {ninfer.component = "text", ninfer.max_rows = 4097 : i64, ninfer.phase = "prefill"} {
  // expected-error@+3 {{no kernel for Q4G64_F16S linear 64x128, rows 1..4097, on cuda:sm_89}}
  // expected-note@+2 {{cuda.linear: rejected: rows: expected at most 16, got 4097}}
  // expected-note@+1 {{cuda.gemm: rejected: rows: expected at most 4096, got 4097}}
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !q4 -> tensor<?x64xf32>
  return
}
