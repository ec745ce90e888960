// RUN: ninfer-opt %s --ninfer-admit-kernels --split-input-file --verify-diagnostics

!f = !ninfer.weight<64, FP32, "contiguous-le-v1">

// The nearest candidates with what they lack. Equal requests are reported once.
func.func @text.prefill(%x: tensor<?x64xf32>, %w: !f)
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  // expected-error@+2 {{no kernel for rms_norm of width 64, rows 1..8, on cpu:x86-64-v3}}
  // expected-note@+1 {{rms_norm: rejected: norm format: expected BF16, got FP32}}
  %0 = ninfer.rms_norm %x, %w {eps = 1.0e-5} : tensor<?x64xf32>, !f
  %1 = ninfer.rms_norm %0, %w {eps = 1.0e-5} : tensor<?x64xf32>, !f
  return
}

// -----

!w = !ninfer.weight<34816x5120, W8G32_F16S, "row-split-k128-v1">

func.func @text.prefill(%x: tensor<?x5120xf32>, %w: !w)
    attributes {ninfer.component = "text", ninfer.max_rows = 5000 : i64, ninfer.phase = "prefill"} {
  // expected-error@+4 {{no kernel for W8G32_F16S linear 34816x5120, rows 1..5000, on cpu:x86-64-v3}}
  // expected-note@+3 {{linear_a8: rejected: rows: expected at most 4096, got 5000}}
  // expected-note@+2 {{linear_a16: rejected: rows: expected at most 4096, got 5000}}
  // expected-note@+1 {{linear_f32: rejected: rows: expected at most 4096, got 5000}}
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x5120xf32>, !w -> tensor<?x34816xf32>
  return
}

// -----

!w = !ninfer.weight<8x64, Q4G64_F16S, "row-split-k128-v1">

func.func @text.decode(%x: tensor<1x64xf32>, %w: !w)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  // expected-error@+1 {{'ninfer.fused' op kind: expected linear or rope_append, got 'mlp'}}
  %0 = ninfer.fused "mlp" (%a = %x : tensor<1x64xf32>, %b = %w : !w) -> tensor<1x8xf32> {
    %1 = ninfer.linear %a, %b policy<A16Only> : tensor<1x64xf32>, !w -> tensor<1x8xf32>
    ninfer.yield %1 : tensor<1x8xf32>
  }
  // expected-error@+1 {{'ninfer.fused' op linear group: expected a linear, got ninfer.add}}
  %2 = ninfer.fused "linear" (%a = %x : tensor<1x64xf32>) -> tensor<1x64xf32> {
    %3 = ninfer.add %a, %a : tensor<1x64xf32>
    ninfer.yield %3 : tensor<1x64xf32>
  }
  // expected-error@+1 {{'ninfer.fused' op linear group: expected linears of one input, got ninfer.linear}}
  %4 = ninfer.fused "linear" (%a = %x : tensor<1x64xf32>, %c = %x : tensor<1x64xf32>, %b = %w : !w) -> tensor<1x8xf32> {
    %5 = ninfer.linear %a, %b policy<A16Only> : tensor<1x64xf32>, !w -> tensor<1x8xf32>
    %6 = ninfer.linear %c, %b policy<A16Only> : tensor<1x64xf32>, !w -> tensor<1x8xf32>
    ninfer.yield %6 : tensor<1x8xf32>
  }
  // expected-error@+1 {{'ninfer.fused' op linear group: expected the end of the group, got ninfer.last_row}}
  %7 = ninfer.fused "linear" (%a = %x : tensor<1x64xf32>, %b = %w : !w) -> tensor<1x8xf32> {
    %8 = ninfer.linear %a, %b policy<A16Only> : tensor<1x64xf32>, !w -> tensor<1x8xf32>
    %9 = ninfer.last_row %8 : tensor<1x8xf32> -> tensor<1x8xf32>
    ninfer.yield %9 : tensor<1x8xf32>
  }
  // expected-error@+1 {{'ninfer.fused' op rope_append group: expected one kv_append and one result, got 0 and 1}}
  %10 = ninfer.fused "rope_append" (%a = %x : tensor<1x64xf32>) -> tensor<1x64xf32> {
    %11 = ninfer.add %a, %a : tensor<1x64xf32>
    ninfer.yield %11 : tensor<1x64xf32>
  }
  return
}
