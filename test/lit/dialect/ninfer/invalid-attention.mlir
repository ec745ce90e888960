// RUN: ninfer-opt %s --split-input-file --verify-diagnostics

func.func @rope_c1_short(%x: tensor<?x64xf32>, %table: !ninfer.rope_table<64x17>, %position: index) {
  // expected-error@+1 {{'ninfer.rope' op expected x width of 2 heads of at least 34 elements (two per pair of the table), got 64}}
  %0 = ninfer.rope %x, %table, %position {heads = 2} : tensor<?x64xf32>, !ninfer.rope_table<64x17>
  return
}

// -----

func.func @rope_c1(%x: tensor<?x128xf32>, %table: !ninfer.rope_table<64x16>, %position: index) {
  // expected-error@+1 {{'ninfer.rope' op expected x width of 3 heads of at least 32 elements (two per pair of the table), got 128}}
  %0 = ninfer.rope %x, %table, %position {heads = 3} : tensor<?x128xf32>, !ninfer.rope_table<64x16>
  return
}

// -----

func.func @kv_append_c1(%k: tensor<?x128xf32>, %kv: !ninfer.kv_cache<2x64x32, bf16>, %position: index) {
  // expected-error@+1 {{'ninfer.kv_append' op expected key width 64 (kv heads times head dimension of the cache), got 128}}
  ninfer.kv_append %k, %k, %kv, %position : tensor<?x128xf32>, !ninfer.kv_cache<2x64x32, bf16>
  return
}

// -----

func.func @kv_append_c2(%k: tensor<?x64xf32>, %v: tensor<1x64xf32>, %kv: !ninfer.kv_cache<2x64x32, bf16>,
                        %position: index) {
  // expected-error@+1 {{'ninfer.kv_append' op failed to verify that all of {key, value} have same type}}
  "ninfer.kv_append"(%k, %v, %kv, %position)
    : (tensor<?x64xf32>, tensor<1x64xf32>, !ninfer.kv_cache<2x64x32, bf16>, index) -> ()
  return
}

// -----

func.func @attention_c1(%q: tensor<?x128xf32>, %kv: !ninfer.kv_cache<2x64x32, bf16>, %position: index) {
  // expected-error@+1 {{'ninfer.attention' op expected kv_heads 2 (kv heads of the cache), got 4}}
  %0 = ninfer.attention %q, %kv, %position {heads = 4, kv_heads = 4, scale = 0.125}
    : tensor<?x128xf32>, !ninfer.kv_cache<2x64x32, bf16>
  return
}

// -----

func.func @attention_c2(%q: tensor<?x160xf32>, %kv: !ninfer.kv_cache<2x64x32, bf16>, %position: index) {
  // expected-error@+1 {{'ninfer.attention' op heads must be a multiple of kv_heads, got 5 and 2}}
  %0 = ninfer.attention %q, %kv, %position {heads = 5, kv_heads = 2, scale = 0.125}
    : tensor<?x160xf32>, !ninfer.kv_cache<2x64x32, bf16>
  return
}

// -----

func.func @attention_c3(%q: tensor<?x64xf32>, %kv: !ninfer.kv_cache<2x64x32, bf16>, %position: index) {
  // expected-error@+1 {{'ninfer.attention' op expected query width 128 (heads times head dimension of the cache), got 64}}
  %0 = ninfer.attention %q, %kv, %position {heads = 4, kv_heads = 2, scale = 0.125}
    : tensor<?x64xf32>, !ninfer.kv_cache<2x64x32, bf16>
  return
}

// -----

func.func @attention_scale(%q: tensor<?x128xf32>, %kv: !ninfer.kv_cache<2x64x32, bf16>, %position: index) {
  // expected-error@+1 {{attribute 'scale' failed to satisfy constraint: positive finite 64-bit float attribute}}
  %0 = ninfer.attention %q, %kv, %position {heads = 4, kv_heads = 2, scale = -0.125}
    : tensor<?x128xf32>, !ninfer.kv_cache<2x64x32, bf16>
  return
}

// -----

func.func @rope_c2(%x: tensor<?x128xf32>, %table: !ninfer.rope_table<64x16>, %position: index) {
  // expected-error@+1 {{'ninfer.rope' op failed to verify that all of {x, result} have same type}}
  %0 = "ninfer.rope"(%x, %table, %position) <{heads = 4}>
    : (tensor<?x128xf32>, !ninfer.rope_table<64x16>, index) -> tensor<1x128xf32>
  return
}

// -----

func.func @attention_c4(%q: tensor<?x128xf32>, %kv: !ninfer.kv_cache<2x64x32, bf16>, %position: index) {
  // expected-error@+1 {{'ninfer.attention' op failed to verify that all of {query, result} have same type}}
  %0 = "ninfer.attention"(%q, %kv, %position) <{heads = 4, kv_heads = 2, scale = 0.125}>
    : (tensor<?x128xf32>, !ninfer.kv_cache<2x64x32, bf16>, index) -> tensor<1x128xf32>
  return
}

// -----

func.func @place_angles_c1(%p: tensor<?x3xi32>, %angles: !ninfer.rope_table<64x3>, %placed: !ninfer.rope_table<64x2>, %position: index) {
  // expected-error@+1 {{'ninfer.place_angles' op expected pairs of angles 2 (those of placed), got 3}}
  ninfer.place_angles %p, %angles, %placed, %position {axes = array<i64: 0, 1>}
    : tensor<?x3xi32>, !ninfer.rope_table<64x3>, !ninfer.rope_table<64x2>
  return
}

// -----

func.func @place_angles_c2(%p: tensor<?x3xi32>, %t: !ninfer.rope_table<64x2>, %position: index) {
  // expected-error@+1 {{'ninfer.place_angles' op expected number of axes 2 (one per pair), got 3}}
  ninfer.place_angles %p, %t, %t, %position {axes = array<i64: 0, 1, 2>}
    : tensor<?x3xi32>, !ninfer.rope_table<64x2>, !ninfer.rope_table<64x2>
  return
}

// -----

func.func @place_angles_c3(%p: tensor<?x3xi32>, %t: !ninfer.rope_table<64x2>, %position: index) {
  // expected-error@+1 {{'ninfer.place_angles' op expected axis 1 to be one of the 3 positions of a row, got 3}}
  ninfer.place_angles %p, %t, %t, %position {axes = array<i64: 0, 3>}
    : tensor<?x3xi32>, !ninfer.rope_table<64x2>, !ninfer.rope_table<64x2>
  return
}

// -----

func.func @place_angles_c3_negative(%p: tensor<?x3xi32>, %t: !ninfer.rope_table<64x2>, %position: index) {
  // expected-error@+1 {{'ninfer.place_angles' op expected axis 0 to be one of the 3 positions of a row, got -1}}
  ninfer.place_angles %p, %t, %t, %position {axes = array<i64: -1, 0>}
    : tensor<?x3xi32>, !ninfer.rope_table<64x2>, !ninfer.rope_table<64x2>
  return
}
