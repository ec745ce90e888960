// RUN: ninfer-opt %s --split-input-file --verify-diagnostics

!w = !ninfer.weight<64, BF16, "contiguous-le-v1">

func.func @rms_norm_c1(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.rms_norm' op expected weight length 128 (the width of x), got 64}}
  %0 = ninfer.rms_norm %x, %w {eps = 1.0e-5} : tensor<?x128xf32>, !w
  return
}

// -----

!w = !ninfer.weight<128, I32, "contiguous-le-v1">

func.func @rms_norm_c2(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.rms_norm' op weight format I32 holds indices}}
  %0 = ninfer.rms_norm %x, %w {eps = 1.0e-5} : tensor<?x128xf32>, !w
  return
}

// -----

!w = !ninfer.weight<128, BF16, "contiguous-le-v1">

func.func @rms_norm_eps(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{attribute 'eps' failed to satisfy constraint: positive finite 64-bit float attribute}}
  %0 = ninfer.rms_norm %x, %w {eps = 0.0} : tensor<?x128xf32>, !w
  return
}

// -----

!w = !ninfer.weight<128, BF16, "contiguous-le-v1">

func.func @rms_norm_no_eps(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.rms_norm' op requires attribute 'eps'}}
  %0 = ninfer.rms_norm %x, %w : tensor<?x128xf32>, !w
  return
}

// -----

!w = !ninfer.weight<128x128, BF16, "contiguous-le-v1">

func.func @rms_norm_matrix(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.rms_norm' op operand #1 must be weight of rank 1}}
  %0 = ninfer.rms_norm %x, %w {eps = 1.0e-5} : tensor<?x128xf32>, !w
  return
}

// -----

!w = !ninfer.weight<32, BF16, "contiguous-le-v1">

func.func @head_norm_c1(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.head_norm' op expected x width 96 (heads times the weight length), got 128}}
  %0 = ninfer.head_norm %x, %w {eps = 1.0e-5, heads = 3} : tensor<?x128xf32>, !w
  return
}

// -----

!w = !ninfer.weight<32, I32, "contiguous-le-v1">

func.func @head_norm_c2(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.head_norm' op weight format I32 holds indices}}
  %0 = ninfer.head_norm %x, %w {eps = 1.0e-5, heads = 4} : tensor<?x128xf32>, !w
  return
}

// -----

!w = !ninfer.weight<32, BF16, "contiguous-le-v1">

func.func @head_norm_heads(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{attribute 'heads' failed to satisfy constraint: 64-bit integer attribute whose value is positive}}
  %0 = ninfer.head_norm %x, %w {eps = 1.0e-5, heads = 0} : tensor<?x128xf32>, !w
  return
}

// -----

!w = !ninfer.weight<32, BF16, "contiguous-le-v1">

func.func @head_norm_heads_type(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{attribute 'heads' has the wrong kind of value: "four"}}
  %0 = ninfer.head_norm %x, %w {eps = 1.0e-5, heads = "four"} : tensor<?x128xf32>, !w
  return
}

// -----

!w = !ninfer.weight<32, BF16, "contiguous-le-v1">

func.func @head_norm_eps_type(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{attribute 'eps' has the wrong kind of value: 1 : i64}}
  %0 = ninfer.head_norm %x, %w {eps = 1, heads = 4} : tensor<?x128xf32>, !w
  return
}

// -----

!w = !ninfer.weight<128, BF16, "contiguous-le-v1">

func.func @rms_norm_offset_type(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{attribute 'unit_offset' has the wrong kind of value: 1 : i64}}
  %0 = ninfer.rms_norm %x, %w {eps = 1.0e-5, unit_offset = 1} : tensor<?x128xf32>, !w
  return
}

// -----

!w = !ninfer.weight<128, BF16, "contiguous-le-v1">

func.func @rms_norm_c3(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.rms_norm' op failed to verify that all of {x, result} have same type}}
  %0 = "ninfer.rms_norm"(%x, %w) <{eps = 1.0e-5}> : (tensor<?x128xf32>, !w) -> tensor<1x128xf32>
  return
}

// -----

!w = !ninfer.weight<32, BF16, "contiguous-le-v1">

func.func @head_norm_c3(%x: tensor<?x128xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.head_norm' op failed to verify that all of {x, result} have same type}}
  %0 = "ninfer.head_norm"(%x, %w) <{eps = 1.0e-5, heads = 4}> : (tensor<?x128xf32>, !w) -> tensor<1x128xf32>
  return
}
