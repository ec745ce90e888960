// RUN: ninfer-opt %s --ninfer-bind-parameters --split-input-file --verify-diagnostics

// A row that starts inside another row.
// expected-note@+1 {{object 'w' is 4x128, Q4G64_F16S, row-split-k128-v1}}
ninfer.object @w : <4x128, Q4G64_F16S, "row-split-k128-v1"> at 0 size 272
// expected-error@+1 {{parameter 'p': range: expected to begin at a row, a multiple of 128 elements, got 64}}
ninfer.parameter @p : !ninfer.weight<2x128, Q4G64_F16S, "row-split-k128-v1">
  parts [#ninfer.part<@w, 64, 320>] policy<A16Only>

// -----

// expected-note@+1 {{object 'w' is 4x128, Q4G64_F16S, row-split-k128-v1}}
ninfer.object @w : <4x128, Q4G64_F16S, "row-split-k128-v1"> at 0 size 272
// expected-error@+1 {{parameter 'p': row length: expected 128 as in the object, got 64}}
ninfer.parameter @p : !ninfer.weight<2x64, Q4G64_F16S, "row-split-k128-v1">
  parts [#ninfer.part<@w, 0, 128>] policy<A16Only>

// -----

ninfer.object @a : <4x128, Q4G64_F16S, "row-split-k128-v1"> at 0 size 272
ninfer.object @b : <4x128, Q4G64_F16S, "row-split-k128-v1"> at 512 size 272
// expected-error@+1 {{parameter 'p': part 1: expected a range of 'a' as in part 0, got one of 'b'; a kernel reads consecutive rows of one object}}
ninfer.parameter @p : !ninfer.weight<8x128, Q4G64_F16S, "row-split-k128-v1">
  parts [#ninfer.part<@a, 0, 512>, #ninfer.part<@b, 0, 512>] policy<A16Only>

// -----

ninfer.object @w : <4x128, Q4G64_F16S, "row-split-k128-v1"> at 0 size 272
// expected-error@+1 {{parameter 'p': part 1: expected to begin at element 128, where part 0 ends, got 256}}
ninfer.parameter @p : !ninfer.weight<2x128, Q4G64_F16S, "row-split-k128-v1">
  parts [#ninfer.part<@w, 0, 128>, #ninfer.part<@w, 256, 384>] policy<A16Only>

// -----

// Scales of a block-scaled slice are whole tiles of 128 rows.
// expected-note@+1 {{object 'w' is 256x64, NVFP4, blockscale-k16-m128x4-v1}}
ninfer.object @w : <256x64, NVFP4, "blockscale-k16-m128x4-v1"> at 0 size 9220
// expected-error@+1 {{parameter 'p': rows: expected whole blocks of 128 rows, got rows 64..192}}
ninfer.parameter @p : !ninfer.weight<128x64, NVFP4, "blockscale-k16-m128x4-v1">
  parts [#ninfer.part<@w, 4096, 12288>] policy<A16Only>

// -----

// Every bad parameter is reported, not the first alone.
ninfer.object @w : <4x128, Q4G64_F16S, "row-split-k128-v1"> at 0 size 272
// expected-error@+1 {{parameter 'p': part 1}}
ninfer.parameter @p : !ninfer.weight<2x128, Q4G64_F16S, "row-split-k128-v1">
  parts [#ninfer.part<@w, 0, 128>, #ninfer.part<@w, 256, 384>] policy<A16Only>
// expected-error@+1 {{parameter 'q': part 1}}
ninfer.parameter @q : !ninfer.weight<2x128, Q4G64_F16S, "row-split-k128-v1">
  parts [#ninfer.part<@w, 0, 128>, #ninfer.part<@w, 384, 512>] policy<A16Only>
