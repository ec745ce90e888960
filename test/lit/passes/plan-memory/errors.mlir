// RUN: ninfer-opt %s --ninfer-plan-memory --split-input-file --verify-diagnostics

func.func @text.decode(%x: tensor<1x64xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  // expected-error@+1 {{'ninfer.add' op expected launches only; ninfer-outline-kernels makes them}}
  %0 = ninfer.add %x, %x : tensor<1x64xf32>
  return
}

// -----

// expected-error@+1 {{function 'text.decode': result 0: expected a result of a launch}}
func.func @text.decode(%x: tensor<1x64xf32>) -> tensor<1x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  return %x : tensor<1x64xf32>
}

// -----

// expected-error@+1 {{function 'text.decode': expected a tensor as first argument: the tokens, or the first port}}
func.func @text.decode(%p: index)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  return
}

// -----

ninfer.kernel @add(%a: tensor<?x4194304xf32>, %b: tensor<?x4194304xf32>)
    attributes {dynamic_rows, family = "add", profile = "f32", rows = 1099511627776 : i64, tiles_const = 0 : i64, tiles_per_row = 1 : i64} {
  %0 = ninfer.add %a, %b : tensor<?x4194304xf32>
  ninfer.yield %0 : tensor<?x4194304xf32>
}
func.func @text.prefill(
    // expected-error@+1 {{activation of type 'tensor<?x4194304xf32>' at 1099511627776 rows: expected less than 2^64 bytes}}
    %x: tensor<?x4194304xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 1099511627776 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.launch @add(%x, %x) {label = "a"} : (tensor<?x4194304xf32>, tensor<?x4194304xf32>) -> tensor<?x4194304xf32>
  return
}

// -----

// expected-error@+1 {{function 'text.prefill': arena value 0 of 4611686018427387904 bytes: expected an arena below 2^62 bytes}}
func.func @text.prefill(%x: tensor<?x1048576xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 1099511627776 : i64, ninfer.phase = "prefill"} {
  return
}

// -----

func.func @text.decode(%x: tensor<1x64xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  // expected-error@+1 {{'ninfer.tap' op 'x': expected a result of a launch}}
  ninfer.tap %x as "x" : tensor<1x64xf32>
  return
}

// -----

ninfer.kernel @add(%a: tensor<1x16xf32>, %b: tensor<1x16xf32>)
    attributes {family = "add", profile = "f32", rows = 1 : i64, tiles_const = 1 : i64, tiles_per_row = 0 : i64} {
  %0 = ninfer.add %a, %b : tensor<1x16xf32>
  ninfer.yield %0 : tensor<1x16xf32>
}
func.func @text.decode(%x: tensor<1x16xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  %0 = ninfer.launch @add(%x, %x) {label = "a"} : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1x16xf32>
  // expected-note@+1 {{the first tap of that name is here}}
  ninfer.tap %0 as "a" : tensor<1x16xf32>
  // expected-error@+1 {{'ninfer.tap' op 'a': expected a name of its own}}
  ninfer.tap %0 as "a" : tensor<1x16xf32>
  return
}
