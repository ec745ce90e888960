// Several rows stay symbolic; states that hold just enough are accepted; other functions are not looked at.
// RUN: ninfer-opt %s > %t.in
// RUN: ninfer-opt %s --ninfer-specialize-shapes | diff %t.in -

ninfer.state @kv : !ninfer.kv_cache<2x16x8, bf16>
func.func @text.prefill(%k: tensor<?x16xf32>, %p: index) -> tensor<1x16xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 16 : i64, ninfer.phase = "prefill"} {
  %c = ninfer.state_ref @kv : !ninfer.kv_cache<2x16x8, bf16>
  ninfer.kv_append %k, %k, %c, %p : tensor<?x16xf32>, !ninfer.kv_cache<2x16x8, bf16>
  %0 = ninfer.last_row %k : tensor<?x16xf32> -> tensor<1x16xf32>
  return %0 : tensor<1x16xf32>
}
func.func @helper(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}
