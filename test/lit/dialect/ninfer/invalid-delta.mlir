// RUN: ninfer-opt %s --split-input-file --verify-diagnostics

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @causal_conv_c1(%q: !x, %k: !x, %v: !v, %w: !ninfer.weight<4x255, BF16, "contiguous-le-v1">, %t: !ninfer.conv_state<3x256>) {
  // expected-error@+1 {{'ninfer.causal_conv' op expected weight K 256 (channels of query, key and value), got 255}}
  %0:3 = ninfer.causal_conv %q, %k, %v, %w, %t : !x, !x, !v, !ninfer.weight<4x255, BF16, "contiguous-le-v1">, !ninfer.conv_state<3x256>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @causal_conv_c2(%q: !x, %k: !x, %v: !v, %w: !taps, %t: !ninfer.conv_state<3x128>) {
  // expected-error@+1 {{'ninfer.causal_conv' op expected tail channels 256 (channels of query, key and value), got 128}}
  %0:3 = ninfer.causal_conv %q, %k, %v, %w, %t : !x, !x, !v, !taps, !ninfer.conv_state<3x128>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @causal_conv_c3(%q: !x, %k: !x, %v: !v, %w: !taps, %t: !ninfer.conv_state<3x256>) {
  // expected-error@+1 {{'ninfer.causal_conv' op failed to verify that all of {query, query_result} have same type}}
  %0:3 = "ninfer.causal_conv"(%q, %k, %v, %w, %t) : (!x, !x, !v, !taps, !ninfer.conv_state<3x256>) -> (tensor<1x64xf32>, !x, !v)
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @causal_conv_c4(%q: !x, %k: tensor<1x64xf32>, %v: !v, %w: !taps, %t: !ninfer.conv_state<3x256>) {
  // expected-error@+1 {{'ninfer.causal_conv' op expected query, key and value of equal rows, got ?, 1 and ?}}
  %0:3 = ninfer.causal_conv %q, %k, %v, %w, %t : !x, tensor<1x64xf32>, !v, !taps, !ninfer.conv_state<3x256>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @causal_conv_c5(%q: !x, %k: !x, %v: !v, %w: !taps, %t: !ninfer.conv_state<4x256>) {
  // expected-error@+1 {{'ninfer.causal_conv' op expected tail rows 3 (taps of the weight less one), got 4}}
  %0:3 = ninfer.causal_conv %q, %k, %v, %w, %t : !x, !x, !v, !taps, !ninfer.conv_state<4x256>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @causal_conv_c6(%q: !x, %k: !x, %v: !v, %w: !ninfer.weight<4x256, I32, "contiguous-le-v1">, %t: !ninfer.conv_state<3x256>) {
  // expected-error@+1 {{'ninfer.causal_conv' op weight format I32 holds indices}}
  %0:3 = ninfer.causal_conv %q, %k, %v, %w, %t : !x, !x, !v, !ninfer.weight<4x256, I32, "contiguous-le-v1">, !ninfer.conv_state<3x256>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @gated_delta_c1(%q: !x, %k: !x, %v: !v, %a: !s, %b: !s, %al: !head, %dt: !head, %s: !ninfer.delta_state<8x16x16>) {
  // expected-error@+1 {{'ninfer.gated_delta' op expected value heads to be a multiple of key_heads, got 8 and 3}}
  %0 = ninfer.gated_delta %q, %k, %v, %a, %b, %al, %dt, %s {key_heads = 3} : !x, !v, !s, !head, !head, !ninfer.delta_state<8x16x16>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @gated_delta_c2(%q: !x, %k: !x, %v: !v, %a: !s, %b: !s, %al: !head, %dt: !head, %s: !ninfer.delta_state<8x16x16>) {
  // expected-error@+1 {{'ninfer.gated_delta' op expected query width 32 (key_heads times key dimension of the state), got 64}}
  %0 = ninfer.gated_delta %q, %k, %v, %a, %b, %al, %dt, %s {key_heads = 2} : !x, !v, !s, !head, !head, !ninfer.delta_state<8x16x16>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @gated_delta_c3(%q: !x, %k: !x, %v: !v, %a: !s, %b: !s, %al: !head, %dt: !head, %s: !ninfer.delta_state<8x17x16>) {
  // expected-error@+1 {{'ninfer.gated_delta' op expected value width 136 (value heads times value dimension of the state), got 128}}
  %0 = ninfer.gated_delta %q, %k, %v, %a, %b, %al, %dt, %s {key_heads = 4} : !x, !v, !s, !head, !head, !ninfer.delta_state<8x17x16>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @gated_delta_c4(%q: !x, %k: !x, %v: !v, %a: tensor<?x7xf32>, %b: tensor<?x7xf32>, %al: !head, %dt: !head, %s: !ninfer.delta_state<8x16x16>) {
  // expected-error@+1 {{'ninfer.gated_delta' op expected a width 8 (value heads of the state), got 7}}
  %0 = ninfer.gated_delta %q, %k, %v, %a, %b, %al, %dt, %s {key_heads = 4} : !x, !v, tensor<?x7xf32>, !head, !head, !ninfer.delta_state<8x16x16>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @gated_delta_c5(%q: !x, %k: !x, %v: !v, %a: !s, %b: !s, %al: !head, %dt: !ninfer.weight<9, FP32, "contiguous-le-v1">, %s: !ninfer.delta_state<8x16x16>) {
  // expected-error@+1 {{'ninfer.gated_delta' op expected dt_bias length 8 (value heads of the state), got 9}}
  %0 = ninfer.gated_delta %q, %k, %v, %a, %b, %al, %dt, %s {key_heads = 4} : !x, !v, !s, !head, !ninfer.weight<9, FP32, "contiguous-le-v1">, !ninfer.delta_state<8x16x16>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @gated_delta_c5_a_log(%q: !x, %k: !x, %v: !v, %a: !s, %b: !s, %al: !ninfer.weight<9, FP32, "contiguous-le-v1">, %dt: !head, %s: !ninfer.delta_state<8x16x16>) {
  // expected-error@+1 {{'ninfer.gated_delta' op expected a_log length 8 (value heads of the state), got 9}}
  %0 = ninfer.gated_delta %q, %k, %v, %a, %b, %al, %dt, %s {key_heads = 4} : !x, !v, !s, !ninfer.weight<9, FP32, "contiguous-le-v1">, !head, !ninfer.delta_state<8x16x16>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @gated_delta_c6(%q: !x, %v: !v, %a: !s, %al: !head, %s: !ninfer.delta_state<8x16x16>) {
  // expected-error@+1 {{'ninfer.gated_delta' op failed to verify that all of {value, result} have same type}}
  %0 = "ninfer.gated_delta"(%q, %q, %v, %a, %a, %al, %al, %s) <{key_heads = 4 : i64}> : (!x, !x, !v, !s, !s, !head, !head, !ninfer.delta_state<8x16x16>) -> !x
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @gated_delta_c7(%q: !x, %k: !x, %v: !v, %a: !s, %b: !s, %al: !ninfer.weight<8, I32, "contiguous-le-v1">, %dt: !head, %s: !ninfer.delta_state<8x16x16>) {
  // expected-error@+1 {{'ninfer.gated_delta' op weight format I32 holds indices}}
  %0 = ninfer.gated_delta %q, %k, %v, %a, %b, %al, %dt, %s {key_heads = 4} : !x, !v, !s, !ninfer.weight<8, I32, "contiguous-le-v1">, !head, !ninfer.delta_state<8x16x16>
  return
}

// -----

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">

func.func @gated_delta_c8(%q: !x, %k: !x, %v: tensor<1x128xf32>, %a: !s, %b: !s, %al: !head, %dt: !head, %s: !ninfer.delta_state<8x16x16>) {
  // expected-error@+1 {{'ninfer.gated_delta' op expected query, value and a of equal rows, got ?, 1 and ?}}
  %0 = ninfer.gated_delta %q, %k, %v, %a, %b, %al, %dt, %s {key_heads = 4} : !x, tensor<1x128xf32>, !s, !head, !head, !ninfer.delta_state<8x16x16>
  return
}

// -----

func.func @gated_head_norm_c1(%x: tensor<?x128xf32>, %w: !ninfer.weight<32, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.gated_head_norm' op expected x width 96 (heads times the weight length), got 128}}
  %0 = ninfer.gated_head_norm %x, %w, %x {eps = 1.0e-6, heads = 3} : tensor<?x128xf32>, !ninfer.weight<32, BF16, "contiguous-le-v1">
  return
}

// -----

func.func @gated_head_norm_c2(%x: tensor<?x128xf32>, %w: !ninfer.weight<32, I32, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.gated_head_norm' op weight format I32 holds indices}}
  %0 = ninfer.gated_head_norm %x, %w, %x {eps = 1.0e-6, heads = 4} : tensor<?x128xf32>, !ninfer.weight<32, I32, "contiguous-le-v1">
  return
}

// -----

!w = !ninfer.weight<32, BF16, "contiguous-le-v1">
func.func @gated_head_norm_c3(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.gated_head_norm' op failed to verify that all of {x, gate, result} have same type}}
  %0 = "ninfer.gated_head_norm"(%x, %w, %x) <{eps = 1.0e-6, heads = 4}> : (tensor<?x128xf32>, !w, tensor<?x128xf32>) -> tensor<1x128xf32>
  return
}
