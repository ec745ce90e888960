// Planes of whole objects and of row slices, per layout. Offsets count from the start of the payload.
// RUN: ninfer-opt %s --ninfer-bind-parameters > %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: ninfer-opt %t.once --ninfer-bind-parameters | diff %t.once -

// Rows of 640 code bytes and 20 scales; the second 192 rows of the object are rows 576..768.
ninfer.object @w8 : <960x576, W8G32_F16S, "row-split-k128-v1"> at 4096 size 652800
// CHECK-LABEL: ninfer.parameter @w8_whole
// CHECK-SAME: planes [#ninfer.plane<4096, 614400>, #ninfer.plane<618496, 38400>]
ninfer.parameter @w8_whole : !ninfer.weight<960x576, W8G32_F16S, "row-split-k128-v1">
  parts [#ninfer.part<@w8, 0, 552960>] policy<A16Only>
// CHECK-LABEL: ninfer.parameter @w8_rows
// CHECK-SAME: planes [#ninfer.plane<372736, 122880>, #ninfer.plane<641536, 7680>]
ninfer.parameter @w8_rows : !ninfer.weight<192x576, W8G32_F16S, "row-split-k128-v1">
  parts [#ninfer.part<@w8, 331776, 442368>] policy<A16Only>

// Three planes: base (64 bytes a row), high (32), scales (4).
ninfer.object @q6 : <64x128, Q6G64_F16S, "row-split-k128-v1"> at 256 size 6400
// CHECK-LABEL: ninfer.parameter @q6_rows
// CHECK-SAME: planes [#ninfer.plane<2304, 2048>, #ninfer.plane<5376, 1024>, #ninfer.plane<6528, 128>]
ninfer.parameter @q6_rows : !ninfer.weight<32x128, Q6G64_F16S, "row-split-k128-v1">
  parts [#ninfer.part<@q6, 4096, 8192>] policy<A16Only>

// Adjacent parts are one range.
// CHECK-LABEL: ninfer.parameter @q6_two_parts
// CHECK-SAME: planes [#ninfer.plane<256, 4096>, #ninfer.plane<4352, 2048>, #ninfer.plane<6400, 256>]
ninfer.parameter @q6_two_parts : !ninfer.weight<64x128, Q6G64_F16S, "row-split-k128-v1">
  parts [#ninfer.part<@q6, 0, 128>, #ninfer.part<@q6, 128, 8192>] policy<A16Only>

// Direct words: a vector may be a row of a matrix.
ninfer.object @norms : <4x64, BF16, "contiguous-le-v1"> at 8192 size 512
// CHECK-LABEL: ninfer.parameter @norm_1
// CHECK-SAME: planes [#ninfer.plane<8320, 128>]
ninfer.parameter @norm_1 : !ninfer.weight<64, BF16, "contiguous-le-v1">
  parts [#ninfer.part<@norms, 64, 128>] policy<A16Only>

// A slice of whole 128-row tiles; the divisor serves every slice.
ninfer.object @fp4 : <256x64, NVFP4, "blockscale-k16-m128x4-v1"> at 12288 size 9220
// CHECK-LABEL: ninfer.parameter @fp4_rows
// CHECK-SAME: planes [#ninfer.plane<16384, 4096>, #ninfer.plane<20992, 512>, #ninfer.plane<21504, 4>]
ninfer.parameter @fp4_rows : !ninfer.weight<128x64, NVFP4, "blockscale-k16-m128x4-v1">
  parts [#ninfer.part<@fp4, 8192, 16384>] policy<A16Only>

// One scale per row.
ninfer.object @fp8 : <8x64, FP8_E4M3FN_ROW_BF16S, "row-scale-v1"> at 24576 size 528
// CHECK-LABEL: ninfer.parameter @fp8_rows
// CHECK-SAME: planes [#ninfer.plane<24832, 256>, #ninfer.plane<25096, 8>]
ninfer.parameter @fp8_rows : !ninfer.weight<4x64, FP8_E4M3FN_ROW_BF16S, "row-scale-v1">
  parts [#ninfer.part<@fp8, 256, 512>] policy<A16Only>
