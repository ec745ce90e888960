// RUN: ninfer-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{dimension 0 must be positive, got 0}}
func.func private @row_buffer_c1(!ninfer.row_buffer<0x4>)

// -----

// expected-error@+1 {{takes more than 4611686018427387904 bytes}}
func.func private @row_buffer_c2(!ninfer.row_buffer<4294967296x4294967296>)

// -----

func.func @store_rows_c1(%x: tensor<?x4xf32>, %b: !ninfer.row_buffer<8x7>) {
  // expected-error@+1 {{'ninfer.store_rows' op expected columns inside the buffer's width 7, got 4 from column 4}}
  ninfer.store_rows %x, %b {column = 4} : tensor<?x4xf32>, !ninfer.row_buffer<8x7>
  return
}

// -----

func.func @store_rows_c1_wide(%x: tensor<?x8xf32>, %b: !ninfer.row_buffer<8x7>) {
  // expected-error@+1 {{'ninfer.store_rows' op expected columns inside the buffer's width 7, got 8 from column 0}}
  ninfer.store_rows %x, %b {column = 0} : tensor<?x8xf32>, !ninfer.row_buffer<8x7>
  return
}

// -----

func.func @store_rows_c2(%x: tensor<9x4xf32>, %b: !ninfer.row_buffer<8x7>) {
  // expected-error@+1 {{'ninfer.store_rows' op expected at most 8 rows (those of the buffer), got 9}}
  ninfer.store_rows %x, %b {column = 0} : tensor<9x4xf32>, !ninfer.row_buffer<8x7>
  return
}

// -----

func.func @store_rows_kind(%x: tensor<?x4xf32>, %b: !ninfer.row_buffer<8x7>) {
  // expected-error@+1 {{attribute 'column' has the wrong kind of value: "0"}}
  ninfer.store_rows %x, %b {column = "0"} : tensor<?x4xf32>, !ninfer.row_buffer<8x7>
  return
}

// -----

func.func @load_rows_c1(%b: !ninfer.row_buffer<8x7>) {
  // expected-error@+1 {{'ninfer.load_rows' op expected columns inside the buffer's width 7, got 4 from column 4}}
  %0 = ninfer.load_rows %b {column = 4} : !ninfer.row_buffer<8x7> -> tensor<?x4xf32>
  return
}

// -----

func.func @load_rows_c2(%b: !ninfer.row_buffer<8x7>) {
  // expected-error@+1 {{'ninfer.load_rows' op expected at most 8 rows (those of the buffer), got 9}}
  %0 = ninfer.load_rows %b {column = 0} : !ninfer.row_buffer<8x7> -> tensor<9x4xf32>
  return
}

// -----

func.func @concat_c1(%a: tensor<?x4xf32>, %b: tensor<?x3xf32>) {
  // expected-error@+1 {{'ninfer.concat' op expected result width 7 (the widths of both operands), got 8}}
  %0 = ninfer.concat %a, %b : tensor<?x4xf32>, tensor<?x3xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @concat_c2(%a: tensor<?x4xf32>, %b: tensor<2x3xf32>) {
  // expected-error@+1 {{'ninfer.concat' op expected operands and result of equal rows, got ?, 2 and ?}}
  %0 = ninfer.concat %a, %b : tensor<?x4xf32>, tensor<2x3xf32> -> tensor<?x7xf32>
  return
}

// -----

func.func @peek_kind(%q: tensor<?x4xf32>, %w: !ninfer.weight<2x12, BF16, "contiguous-le-v1">, %t: !ninfer.conv_state<1x12>) {
  // expected-error@+1 {{attribute 'peek' failed to satisfy constraint: unit attribute}}
  %a, %b, %c = ninfer.causal_conv %q, %q, %q, %w, %t {peek = 1 : i64}
     : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, !ninfer.weight<2x12, BF16, "contiguous-le-v1">, !ninfer.conv_state<1x12>
  return
}
