// RUN: ninfer-opt %s --split-input-file --verify-diagnostics

!w = !ninfer.weight<64, BF16, "contiguous-le-v1">
!v = !ninfer.weight<32, BF16, "contiguous-le-v1">

func.func @layer_norm_c1_weight(%x: tensor<?x64xf32>, %w: !w, %v: !v) {
  // expected-error@+1 {{'ninfer.layer_norm' op expected weight length 64 (the width of x), got 32}}
  %0 = ninfer.layer_norm %x, %v, %w {eps = 1.0e-6} : tensor<?x64xf32>, !v, !w
  return
}

// -----

!w = !ninfer.weight<64, BF16, "contiguous-le-v1">
!v = !ninfer.weight<32, BF16, "contiguous-le-v1">

func.func @layer_norm_c1_bias(%x: tensor<?x64xf32>, %w: !w, %v: !v) {
  // expected-error@+1 {{'ninfer.layer_norm' op expected bias length 64 (the width of x), got 32}}
  %0 = ninfer.layer_norm %x, %w, %v {eps = 1.0e-6} : tensor<?x64xf32>, !w, !v
  return
}

// -----

!w = !ninfer.weight<64, BF16, "contiguous-le-v1">
!i = !ninfer.weight<64, I32, "contiguous-le-v1">

func.func @layer_norm_c2(%x: tensor<?x64xf32>, %w: !w, %i: !i) {
  // expected-error@+1 {{'ninfer.layer_norm' op weight format I32 holds indices}}
  %0 = ninfer.layer_norm %x, %w, %i {eps = 1.0e-6} : tensor<?x64xf32>, !w, !i
  return
}

// -----

func.func @layer_norm_c3(%x: tensor<?x64xf32>, %w: !ninfer.weight<64, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.layer_norm' op failed to verify that all of {x, result} have same type}}
  %0 = "ninfer.layer_norm"(%x, %w, %w) {eps = 1.0e-6} : (tensor<?x64xf32>, !ninfer.weight<64, BF16, "contiguous-le-v1">, !ninfer.weight<64, BF16, "contiguous-le-v1">) -> tensor<1x64xf32>
  return
}

// -----

!v = !ninfer.weight<32, BF16, "contiguous-le-v1">

func.func @bias_c1(%x: tensor<?x64xf32>, %v: !v) {
  // expected-error@+1 {{'ninfer.bias' op expected bias length 64 (the width of x), got 32}}
  %0 = ninfer.bias %x, %v : tensor<?x64xf32>, !v
  return
}

// -----

!w = !ninfer.weight<64, BF16, "contiguous-le-v1">

func.func @bias_c1_group(%x: tensor<?x64xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.bias' op expected bias length 256 (row_group times the width of x), got 64}}
  %0 = ninfer.bias %x, %w {row_group = 4} : tensor<?x64xf32>, !w
  return
}

// -----

!i = !ninfer.weight<64, I32, "contiguous-le-v1">

func.func @bias_c2(%x: tensor<?x64xf32>, %i: !i) {
  // expected-error@+1 {{'ninfer.bias' op weight format I32 holds indices}}
  %0 = ninfer.bias %x, %i : tensor<?x64xf32>, !i
  return
}

// -----

func.func @bias_c3(%x: tensor<?x64xf32>, %w: !ninfer.weight<64, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.bias' op failed to verify that all of {x, result} have same type}}
  %0 = "ninfer.bias"(%x, %w) : (tensor<?x64xf32>, !ninfer.weight<64, BF16, "contiguous-le-v1">) -> tensor<?x32xf32>
  return
}

// -----

!w = !ninfer.weight<256, BF16, "contiguous-le-v1">

func.func @bias_c4(%x: tensor<6x64xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.bias' op expected rows to be a multiple of row_group 4, got 6}}
  %0 = ninfer.bias %x, %w {row_group = 4} : tensor<6x64xf32>, !w
  return
}

// -----

func.func @bias_group_zero(%x: tensor<?x64xf32>, %w: !ninfer.weight<64, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{attribute 'row_group' failed to satisfy constraint}}
  %0 = ninfer.bias %x, %w {row_group = 0} : tensor<?x64xf32>, !ninfer.weight<64, BF16, "contiguous-le-v1">
  return
}

// -----

func.func @gelu_c1(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{'ninfer.gelu' op failed to verify that all of {x, result} have same type}}
  %0 = "ninfer.gelu"(%x) : (tensor<?x64xf32>) -> tensor<?x32xf32>
  return
}

// -----

!t = !ninfer.rope_table<16x4>

func.func @axial_rope_c1(%x: tensor<?x64xf32>, %t: !t, %p: tensor<?x2xi32>) {
  // expected-error@+1 {{'ninfer.axial_rope' op expected x width 32 (heads of four elements per pair of the table), got 64}}
  %0 = ninfer.axial_rope %x, %t, %p {heads = 2} : tensor<?x64xf32>, !t, tensor<?x2xi32>
  return
}

// -----

func.func @axial_rope_c2(%x: tensor<?x32xf32>, %t: !ninfer.rope_table<16x4>, %p: tensor<?x2xi32>) {
  // expected-error@+1 {{'ninfer.axial_rope' op failed to verify that all of {x, result} have same type}}
  %0 = "ninfer.axial_rope"(%x, %t, %p) {heads = 2} : (tensor<?x32xf32>, !ninfer.rope_table<16x4>, tensor<?x2xi32>) -> tensor<1x32xf32>
  return
}

// -----

!t = !ninfer.rope_table<16x4>

func.func @axial_rope_c3(%x: tensor<?x32xf32>, %t: !t, %p: tensor<?x3xi32>) {
  // expected-error@+1 {{'ninfer.axial_rope' op expected positions width 2 (one position per axis), got 3}}
  %0 = ninfer.axial_rope %x, %t, %p {heads = 2} : tensor<?x32xf32>, !t, tensor<?x3xi32>
  return
}

// -----

!t = !ninfer.rope_table<16x4>

func.func @axial_rope_c4(%x: tensor<?x32xf32>, %t: !t, %p: tensor<4x2xi32>) {
  // expected-error@+1 {{'ninfer.axial_rope' op expected positions rows ? (the rows of x), got 4}}
  %0 = ninfer.axial_rope %x, %t, %p {heads = 2} : tensor<?x32xf32>, !t, tensor<4x2xi32>
  return
}

// -----

func.func @full_attention_c1(%q: tensor<?x64xf32>) {
  // expected-error@+1 {{'ninfer.full_attention' op expected the width to be a multiple of heads 3, got 64}}
  %0 = ninfer.full_attention %q, %q, %q {heads = 3, scale = 1.0} : tensor<?x64xf32>
  return
}

// -----

func.func @full_attention_c2(%q: tensor<?x64xf32>, %k: tensor<?x32xf32>) {
  // expected-error@+1 {{'ninfer.full_attention' op failed to verify that all of {query, key, value, result} have same type}}
  %0 = "ninfer.full_attention"(%q, %k, %q) {heads = 2, scale = 1.0} : (tensor<?x64xf32>, tensor<?x32xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

!t = !ninfer.weight<9x64, BF16, "contiguous-le-v1">

func.func @interpolate_c1(%i: tensor<?x4xi32>, %w: tensor<?x4xf32>, %t: !t) {
  // expected-error@+1 {{'ninfer.interpolate' op expected result width 64 (the length of a table row), got 32}}
  %0 = ninfer.interpolate %i, %w, %t : tensor<?x4xi32>, tensor<?x4xf32>, !t -> tensor<?x32xf32>
  return
}

// -----

!t = !ninfer.weight<9x64, BF16, "contiguous-le-v1">

func.func @interpolate_c2(%i: tensor<?x4xi32>, %w: tensor<?x3xf32>, %t: !t) {
  // expected-error@+1 {{'ninfer.interpolate' op expected weights width 4 (one weight per index), got 3}}
  %0 = ninfer.interpolate %i, %w, %t : tensor<?x4xi32>, tensor<?x3xf32>, !t -> tensor<?x64xf32>
  return
}

// -----

!t = !ninfer.weight<9x64, BF16, "contiguous-le-v1">

func.func @interpolate_c3(%i: tensor<?x4xi32>, %w: tensor<5x4xf32>, %t: !t) {
  // expected-error@+1 {{'ninfer.interpolate' op expected indices, weights and result of equal rows, got ?, 5 and ?}}
  %0 = ninfer.interpolate %i, %w, %t : tensor<?x4xi32>, tensor<5x4xf32>, !t -> tensor<?x64xf32>
  return
}

// -----

!t = !ninfer.weight<9x64, I32, "contiguous-le-v1">

func.func @interpolate_c4(%i: tensor<?x4xi32>, %w: tensor<?x4xf32>, %t: !t) {
  // expected-error@+1 {{'ninfer.interpolate' op weight format I32 holds indices}}
  %0 = ninfer.interpolate %i, %w, %t : tensor<?x4xi32>, tensor<?x4xf32>, !t -> tensor<?x64xf32>
  return
}

// -----

func.func @interpolate_dynamic_width(%i: tensor<?x?xi32>, %w: tensor<?x4xf32>, %t: !ninfer.weight<9x64, BF16, "contiguous-le-v1">) {
  // expected-error@+1 {{'ninfer.interpolate' op operand #0 must be int32 indices of rank 2 with a static width}}
  %0 = "ninfer.interpolate"(%i, %w, %t) : (tensor<?x?xi32>, tensor<?x4xf32>, !ninfer.weight<9x64, BF16, "contiguous-le-v1">) -> tensor<?x64xf32>
  return
}

// -----

!w = !ninfer.weight<10x64, BF16, "contiguous-le-v1">

func.func @linear_c5(%x: tensor<?x16xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.linear' op expected N and K of the weight to be multiples of row_group 4, got 10 and 64}}
  %0 = ninfer.linear %x, %w policy<A16Only> {row_group = 4 : i64} : tensor<?x16xf32>, !w -> tensor<?x2xf32>
  return
}

// -----

!w = !ninfer.weight<8x64, BF16, "contiguous-le-v1">

func.func @linear_c6(%x: tensor<6x16xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.linear' op expected rows to be a multiple of row_group 4, got 6}}
  %0 = ninfer.linear %x, %w policy<A16Only> {row_group = 4 : i64} : tensor<6x16xf32>, !w -> tensor<6x2xf32>
  return
}

// -----

!w = !ninfer.weight<8x64, BF16, "contiguous-le-v1">

func.func @linear_c1_group(%x: tensor<?x64xf32>, %w: !w) {
  // expected-error@+1 {{'ninfer.linear' op expected x width 16 (K of the weight over row_group), got 64}}
  %0 = ninfer.linear %x, %w policy<A16Only> {row_group = 4 : i64} : tensor<?x64xf32>, !w -> tensor<?x2xf32>
  return
}
