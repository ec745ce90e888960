// References, constants and functions of no component get no kernel.
// RUN: ninfer-opt %s > %t.in
// RUN: ninfer-opt %s --ninfer-admit-kernels | diff %t.in -

!n = !ninfer.weight<64, BF16, "contiguous-le-v1">
ninfer.object @o : <64, BF16, "contiguous-le-v1"> at 0 size 128
ninfer.parameter @n : !n parts [#ninfer.part<@o, 0, 64>] policy<A16Only>
ninfer.state @kv : !ninfer.kv_cache<2x64x16, bf16>
func.func @text.decode(%x: tensor<1x64xf32>) -> tensor<1x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  %n = ninfer.param @n : !n
  %c = ninfer.state_ref @kv : !ninfer.kv_cache<2x64x16, bf16>
  return %x : tensor<1x64xf32>
}
func.func @helper(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = ninfer.add %x, %x : tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
