// RUN: ninfer-opt %s --ninfer-outline-kernels --split-input-file --verify-diagnostics

func.func @text.decode(%x: tensor<1x64xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  // expected-error@+1 {{'ninfer.add' op expected attribute ninfer.family, which ninfer-admit-kernels sets}}
  %0 = ninfer.add %x, %x : tensor<1x64xf32>
  return
}

// -----

func.func @text.decode(%x: tensor<1x64xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  // expected-error@+1 {{'ninfer.add' op ninfer.family: expected a family of the kernel catalog, got "warp_add"}}
  %0 = ninfer.add %x, %x {ninfer.family = "warp_add", ninfer.profile = "f32", ninfer.tiles_const = 1 : i64, ninfer.tiles_per_row = 0 : i64} : tensor<1x64xf32>
  return
}

// -----

func.func @text.decode(%x: tensor<1x64xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  // expected-error@+1 {{'ninfer.add' op ninfer.tiles_const: expected an integer of at least 0, got "many"}}
  %0 = ninfer.add %x, %x {ninfer.family = "add", ninfer.profile = "f32", ninfer.tiles_const = "many", ninfer.tiles_per_row = 0 : i64} : tensor<1x64xf32>
  return
}
