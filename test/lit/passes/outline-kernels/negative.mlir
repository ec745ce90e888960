// References stay in the function, launches stay launches, functions of no component keep their operations.
// RUN: ninfer-opt %s > %t.in
// RUN: ninfer-opt %s --ninfer-outline-kernels | diff %t.in -

ninfer.state @kv : !ninfer.kv_cache<2x64x16, bf16>
ninfer.kernel @add_k64_r1(%a: tensor<1x64xf32>, %b: tensor<1x64xf32>)
    attributes {family = "add", profile = "f32", rows = 1 : i64, tiles_const = 1 : i64, tiles_per_row = 0 : i64} {
  %0 = ninfer.add %a, %b : tensor<1x64xf32>
  ninfer.yield %0 : tensor<1x64xf32>
}
func.func @text.decode(%x: tensor<1x64xf32>) -> tensor<1x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  %c = ninfer.state_ref @kv : !ninfer.kv_cache<2x64x16, bf16>
  %0 = ninfer.launch @add_k64_r1(%x, %x) {label = "text"} : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  return %0 : tensor<1x64xf32>
}
func.func @helper(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = ninfer.add %x, %x : tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
