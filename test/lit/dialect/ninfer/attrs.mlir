// RUN: ninfer-opt %s | FileCheck %s

// Types and attributes in their own text.

// CHECK-LABEL: func.func private @weights(
// CHECK-SAME: !ninfer.weight<576x1536, Q4G64_F16S, "row-split-k128-v1">
// CHECK-SAME: !ninfer.weight<192x576, Q5G64_F16S, "row-split-k128-v1">
// CHECK-SAME: !ninfer.weight<192x576, Q6G64_F16S, "row-split-k128-v1">
// CHECK-SAME: !ninfer.weight<192x576, W8G32_F16S, "row-split-k128-v1">
// CHECK-SAME: !ninfer.weight<128x64, NVFP4, "blockscale-k16-m128x4-v1">
// CHECK-SAME: !ninfer.weight<192x576, FP8_E4M3FN_ROW_BF16S, "row-scale-v1">
// CHECK-SAME: !ninfer.weight<192x576, BF16, "contiguous-le-v1">
// CHECK-SAME: !ninfer.weight<576, BF16, "contiguous-le-v1">
// CHECK-SAME: !ninfer.weight<576, FP32, "contiguous-le-v1">
// CHECK-SAME: !ninfer.weight<576, I32, "contiguous-le-v1">
func.func private @weights(
  !ninfer.weight<576x1536, Q4G64_F16S, "row-split-k128-v1">,
  !ninfer.weight<192x576, Q5G64_F16S, "row-split-k128-v1">,
  !ninfer.weight<192x576, Q6G64_F16S, "row-split-k128-v1">,
  !ninfer.weight<192x576, W8G32_F16S, "row-split-k128-v1">,
  !ninfer.weight<128x64, NVFP4, "blockscale-k16-m128x4-v1">,
  !ninfer.weight<192x576, FP8_E4M3FN_ROW_BF16S, "row-scale-v1">,
  !ninfer.weight<192x576, BF16, "contiguous-le-v1">,
  !ninfer.weight<576, BF16, "contiguous-le-v1">,
  !ninfer.weight<576, FP32, "contiguous-le-v1">,
  !ninfer.weight<576, I32, "contiguous-le-v1">)

// A format may be quoted; it prints as an identifier.
// CHECK-LABEL: func.func private @quoted(!ninfer.weight<8x64, Q4G64_F16S, "row-split-k128-v1">)
func.func private @quoted(!ninfer.weight<8x64, "Q4G64_F16S", "row-split-k128-v1">)

// CHECK-LABEL: func.func private @states(
// CHECK-SAME: !ninfer.kv_cache<3x2048x64, bf16>, !ninfer.kv_cache<3x2048x64, f32>, !ninfer.rope_table<2048x32>)
func.func private @states(
  !ninfer.kv_cache<3x2048x64, bf16>, !ninfer.kv_cache<3x2048x64, f32>, !ninfer.rope_table<2048x32>)

// CHECK-LABEL: func.func private @attributes() attributes {
// CHECK-SAME: format = #ninfer.format<NVFP4>
// CHECK-SAME: layout = #ninfer.layout<"row-scale-v1">
// CHECK-SAME: part = #ninfer.part<@text.qkv, 0, 331776>
// CHECK-SAME: plane = #ninfer.plane<4096, 165888>
// CHECK-SAME: policies = [#ninfer.policy<A16Only>, #ninfer.policy<AllowA8>, #ninfer.policy<AllowA4>]
func.func private @attributes() attributes {
  format = #ninfer.format<NVFP4>,
  layout = #ninfer.layout<"row-scale-v1">,
  part = #ninfer.part<@"text.qkv", 0, 331776>,
  plane = #ninfer.plane<4096, 165888>,
  policies = [#ninfer.policy<A16Only>, #ninfer.policy<AllowA8>, #ninfer.policy<AllowA4>]
}
