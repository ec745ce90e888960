// RUN: ninfer-opt %s --split-input-file --verify-diagnostics

func.func @sigmoid_gate_c1(%a: tensor<?x128xf32>, %b: tensor<1x128xf32>) {
  // expected-error@+1 {{'ninfer.sigmoid_gate' op failed to verify that all of {x, result} have same type}}
  %0 = "ninfer.sigmoid_gate"(%a, %b) : (tensor<?x128xf32>, tensor<1x128xf32>) -> tensor<1x128xf32>
  return
}

// -----

func.func @sigmoid_gate_c2(%a: tensor<?x128xf32>, %b: tensor<?x2xf32>) {
  // expected-error@+1 {{'ninfer.sigmoid_gate' op expected gate width 128 (that of x) or 1, got 2}}
  %0 = ninfer.sigmoid_gate %a, %b : tensor<?x128xf32>, tensor<?x2xf32>
  return
}

// -----

func.func @sigmoid_gate_c3(%a: tensor<?x128xf32>, %b: tensor<1x1xf32>) {
  // expected-error@+1 {{'ninfer.sigmoid_gate' op expected gate rows ? (the rows of x), got 1}}
  %0 = ninfer.sigmoid_gate %a, %b : tensor<?x128xf32>, tensor<1x1xf32>
  return
}

// -----

func.func @swiglu_c1(%a: tensor<?x128xf32>, %b: tensor<1x128xf32>) {
  // expected-error@+1 {{'ninfer.swiglu' op failed to verify that all of {gate, up, result} have same type}}
  %0 = "ninfer.swiglu"(%a, %b) : (tensor<?x128xf32>, tensor<1x128xf32>) -> tensor<?x128xf32>
  return
}

// -----

func.func @add_c1(%a: tensor<?x128xf32>, %b: tensor<?x64xf32>) {
  // expected-error@+1 {{'ninfer.add' op failed to verify that all of {lhs, rhs, result} have same type}}
  %0 = "ninfer.add"(%a, %b) : (tensor<?x128xf32>, tensor<?x64xf32>) -> tensor<?x128xf32>
  return
}

// -----

func.func @last_row_c1(%x: tensor<?x128xf32>) {
  // expected-error@+1 {{'ninfer.last_row' op expected result 'tensor<1x128xf32>' (one row of x), got 'tensor<1x64xf32>'}}
  %0 = ninfer.last_row %x : tensor<?x128xf32> -> tensor<1x64xf32>
  return
}

// -----

func.func @last_row_c1_rows(%x: tensor<?x128xf32>) {
  // expected-error@+1 {{'ninfer.last_row' op expected result 'tensor<1x128xf32>' (one row of x), got 'tensor<?x128xf32>'}}
  %0 = ninfer.last_row %x : tensor<?x128xf32> -> tensor<?x128xf32>
  return
}

// -----

func.func @tap_c1(%x: tensor<?x128xf32>) {
  // expected-error@+1 {{'ninfer.tap' op attribute 'name' failed to satisfy constraint: string attribute which is not empty}}
  ninfer.tap %x as "" : tensor<?x128xf32>
  return
}

// -----

func.func @replace_rows_c1(%x: tensor<?x128xf32>, %by: tensor<?x64xf32>, %w: tensor<?x1xi32>) {
  // expected-error@+1 {{'ninfer.replace_rows' op failed to verify that all of {x, by, result} have same type}}
  %0 = "ninfer.replace_rows"(%x, %by, %w) : (tensor<?x128xf32>, tensor<?x64xf32>, tensor<?x1xi32>) -> tensor<?x128xf32>
  return
}

// -----

func.func @replace_rows_c2(%x: tensor<?x128xf32>, %w: tensor<?x2xi32>) {
  // expected-error@+1 {{'ninfer.replace_rows' op expected where width 1 (one choice per row), got 2}}
  %0 = ninfer.replace_rows %x, %x, %w : tensor<?x128xf32>, tensor<?x2xi32>
  return
}

// -----

func.func @replace_rows_c3(%x: tensor<?x128xf32>, %w: tensor<4x1xi32>) {
  // expected-error@+1 {{'ninfer.replace_rows' op expected where rows ? (the rows of x), got 4}}
  %0 = ninfer.replace_rows %x, %x, %w : tensor<?x128xf32>, tensor<4x1xi32>
  return
}
