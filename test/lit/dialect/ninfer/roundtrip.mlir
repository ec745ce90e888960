// The generic form and the bytecode carry the same module as the text.
// RUN: ninfer-opt %s > %t.text
// RUN: ninfer-opt %s --mlir-print-op-generic | ninfer-opt > %t.generic
// RUN: diff %t.text %t.generic
// RUN: ninfer-opt %s --emit-bytecode -o %t.bytecode
// RUN: ninfer-opt %t.bytecode > %t.bytes
// RUN: diff %t.text %t.bytes
// RUN: FileCheck %s --input-file=%t.text

!w = !ninfer.weight<64x128, Q6G64_F16S, "row-split-k128-v1">
!norm = !ninfer.weight<128, BF16, "contiguous-le-v1">
!kv = !ninfer.kv_cache<2x64x32, bf16>
!table = !ninfer.rope_table<64x16>

// CHECK: module @everything attributes {ninfer.layers = 1 : i64}
module @everything attributes {ninfer.layers = 1 : i64} {
  ninfer.object @w : <64x128, Q6G64_F16S, "row-split-k128-v1"> at 256 size 6400
  ninfer.parameter @key : !w parts [#ninfer.part<@w, 0, 8192>] policy<AllowA8>
    planes [#ninfer.plane<256, 4096>, #ninfer.plane<4352, 2048>, #ninfer.plane<6400, 256>]
  ninfer.state @kv : !kv
  ninfer.kernel @k(%a: tensor<?x64xf32>, %c: !kv, %p: index)
      attributes {dynamic_rows, family = "f", profile = "f32", rows = 16, tiles_const = 0, tiles_per_row = 2} {
    %0 = ninfer.attention %a, %c, %p {heads = 2, kv_heads = 2, scale = 0.176776695296636893} : tensor<?x64xf32>, !kv
    ninfer.yield %0 : tensor<?x64xf32>
  }
  func.func @f(%x: tensor<?x128xf32>, %n: !norm, %t: !table, %p: index) -> tensor<1x64xf32> {
    %w = ninfer.param @key : !w
    %c = ninfer.state_ref @kv : !kv
    %0 = ninfer.fused "linear" (%a = %x : tensor<?x128xf32>, %m = %n : !norm, %v = %w : !w) -> tensor<?x64xf32> {
      // CHECK: ninfer.rms_norm %{{.*}}, %{{.*}} {eps = 9.9999999999999995E-7, unit_offset = true} :
      %3 = ninfer.rms_norm %a, %m {eps = 1.0e-6, unit_offset = true} : tensor<?x128xf32>, !norm
      %4 = ninfer.linear %3, %v policy<AllowA8> : tensor<?x128xf32>, !w -> tensor<?x64xf32>
      ninfer.yield %4 : tensor<?x64xf32>
    }
    %1 = ninfer.rope %0, %t, %p {heads = 2} : tensor<?x64xf32>, !table
    ninfer.kv_append %1, %1, %c, %p : tensor<?x64xf32>, !kv
    %2 = ninfer.launch @k(%1, %c, %p) {label = "text/layers/0/attention"} : (tensor<?x64xf32>, !kv, index) -> tensor<?x64xf32>
    %5 = ninfer.last_row %2 : tensor<?x64xf32> -> tensor<1x64xf32>
    return %5 : tensor<1x64xf32>
  }
}
