// RUN: ninfer-opt %s --ninfer-fuse --split-input-file --verify-diagnostics

// expected-error@+1 {{function 'text': expected ninfer.phase and ninfer.max_rows, which ninfer-split-phases sets}}
func.func @text(%x: tensor<?x8xf32>) attributes {ninfer.component = "text"} { return }

// -----

func.func @text.decode(%x: tensor<1x8xf32>) -> tensor<1x8xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  // expected-error@+1 {{expected operations without an admitted kernel; ninfer-fuse runs before ninfer-admit-kernels}}
  %0 = ninfer.add %x, %x {ninfer.family = "add"} : tensor<1x8xf32>
  return %0 : tensor<1x8xf32>
}

// -----

// expected-error@+1 {{function 'text.decode': expected one block, got 2}}
func.func @text.decode(%x: tensor<1x8xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  cf.br ^bb1
^bb1:
  return
}
