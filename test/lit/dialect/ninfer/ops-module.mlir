// RUN: ninfer-opt %s | FileCheck %s

// CHECK: ninfer.object @embed : <64x128, BF16, "contiguous-le-v1"> at 0 size 16384
ninfer.object @embed : <64x128, BF16, "contiguous-le-v1"> at 0 size 16384
// CHECK: ninfer.object @"object/text.qkv" : <256x128, W8G32_F16S, "row-split-k128-v1"> at 16384 size 34816
ninfer.object @"object/text.qkv" : <256x128, W8G32_F16S, "row-split-k128-v1"> at 16384 size 34816
// CHECK: ninfer.object @scalar : <scalar, FP32, "contiguous-le-v1"> at 51200 size 4
ninfer.object @scalar : <scalar, FP32, "contiguous-le-v1"> at 51200 size 4
// CHECK: ninfer.object @cube : <2x3x4, I32, "contiguous-le-v1"> at 51456 size 96 {note = "kept"}
ninfer.object @cube : <2x3x4, I32, "contiguous-le-v1"> at 51456 size 96 {note = "kept"}

// CHECK: ninfer.parameter @"text/token_embedding" : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
// CHECK-SAME: parts [#ninfer.part<@embed, 0, 8192>] policy<A16Only>
ninfer.parameter @"text/token_embedding" : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
    parts [#ninfer.part<@embed, 0, 8192>] policy<A16Only>

// A parameter may be put together from ranges.
// CHECK: ninfer.parameter @halves : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
// CHECK-SAME: parts [#ninfer.part<@embed, 4096, 8192>, #ninfer.part<@embed, 0, 4096>] policy<AllowA8>
ninfer.parameter @halves : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
    parts [#ninfer.part<@embed, 4096, 8192>, #ninfer.part<@embed, 0, 4096>] policy<AllowA8>

// After binding: one plane per word array of the layout.
// CHECK: ninfer.parameter @key : !ninfer.weight<64x128, W8G32_F16S, "row-split-k128-v1">
// CHECK-SAME: parts [#ninfer.part<@"object/text.qkv", 16384, 24576>] policy<AllowA4>
// CHECK-SAME: planes [#ninfer.plane<32768, 8192>, #ninfer.plane<50176, 512>]
ninfer.parameter @key : !ninfer.weight<64x128, W8G32_F16S, "row-split-k128-v1">
    parts [#ninfer.part<@"object/text.qkv", 16384, 24576>] policy<AllowA4>
    planes [#ninfer.plane<32768, 8192>, #ninfer.plane<50176, 512>]

// CHECK: ninfer.state @"text/layers/0/attention/kv" : !ninfer.kv_cache<2x64x32, bf16>
ninfer.state @"text/layers/0/attention/kv" : !ninfer.kv_cache<2x64x32, bf16>
// CHECK: ninfer.state @"text/rope" : !ninfer.rope_table<64x2> {inv_freq = array<f64: 1.000000e+00, 1.000000e-02>}
ninfer.state @"text/rope" : !ninfer.rope_table<64x2> {inv_freq = array<f64: 1.0, 0.01>}

// Results are named after the last component of the path.
// CHECK-LABEL: func.func @references
func.func @references() {
  // CHECK-NEXT: %token_embedding = ninfer.param @"text/token_embedding" : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
  %0 = ninfer.param @"text/token_embedding" : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
  // CHECK-NEXT: %kv = ninfer.state_ref @"text/layers/0/attention/kv" : !ninfer.kv_cache<2x64x32, bf16>
  %1 = ninfer.state_ref @"text/layers/0/attention/kv" : !ninfer.kv_cache<2x64x32, bf16>
  // CHECK-NEXT: %rope = ninfer.state_ref @"text/rope" : !ninfer.rope_table<64x2>
  %2 = ninfer.state_ref @"text/rope" : !ninfer.rope_table<64x2>
  return
}
