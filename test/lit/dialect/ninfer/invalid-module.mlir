// RUN: ninfer-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'ninfer.object' op dimension 1 must be positive, got 0}}
ninfer.object @object_c1 : <64x0, BF16, "contiguous-le-v1"> at 0 size 1

// -----

// expected-error@+1 {{'ninfer.object' op format Q4G64_F16S may not use layout contiguous-le-v1, the registered pairs are: BF16/contiguous-le-v1, FP32/contiguous-le-v1,}}
ninfer.object @object_c2 : <64x128, Q4G64_F16S, "contiguous-le-v1"> at 0 size 1

// -----

// 64 rows of 128: 4096 bytes of codes and 64 * 2 scales of 2 bytes.
// expected-error@+1 {{'ninfer.object' op expected size 4352 (bytes of the encoding), got 4096}}
ninfer.object @object_c3 : <64x128, Q4G64_F16S, "row-split-k128-v1"> at 0 size 4096

// -----

// expected-error@+1 {{'ninfer.object' op offset must be a multiple of 256, got 128}}
ninfer.object @object_c4 : <64x128, BF16, "contiguous-le-v1"> at 128 size 16384

// -----

// expected-error@+1 {{'ninfer.object' op has no encoding:}}
ninfer.object @object_c5 : <128, Q4G64_F16S, "row-split-k128-v1"> at 0 size 1

// -----

// expected-error@+1 {{'ninfer.object' op must end at byte 4611686018427387904 or before, got 16384 bytes at offset 4611686018427387904}}
ninfer.object @object_c6 : <64x128, BF16, "contiguous-le-v1"> at 4611686018427387904 size 16384

// -----

// expected-error@+1 {{attribute 'offset' failed to satisfy constraint: 64-bit integer attribute whose value is non-negative}}
ninfer.object @object_offset : <64x128, BF16, "contiguous-le-v1"> at -256 size 16384

// -----

func.func @object_parent() {
  // expected-error@+1 {{'ninfer.object' op expects parent op 'builtin.module'}}
  ninfer.object @inner : <64x128, BF16, "contiguous-le-v1"> at 0 size 16384
  return
}

// -----

ninfer.object @w : <64x128, BF16, "contiguous-le-v1"> at 0 size 16384
// expected-error@+1 {{'ninfer.parameter' op expected parts of 8192 elements in all (the shape of the type), got 4096}}
ninfer.parameter @parameter_c1 : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
    parts [#ninfer.part<@w, 0, 4096>] policy<A16Only>

// -----

// expected-error@+1 {{'ninfer.parameter' op expected parts of 8192 elements in all (the shape of the type), got 0}}
ninfer.parameter @parameter_c1_empty : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
    parts [] policy<A16Only>

// -----

ninfer.object @w : <64x128, Q5G64_F16S, "row-split-k128-v1"> at 0 size 5376
// expected-error@+1 {{'ninfer.parameter' op expected 3 planes (layout row-split-k128-v1 of Q5G64_F16S), got 1}}
ninfer.parameter @parameter_c2 : !ninfer.weight<64x128, Q5G64_F16S, "row-split-k128-v1">
    parts [#ninfer.part<@w, 0, 8192>] policy<A16Only> planes [#ninfer.plane<0, 4096>]

// -----

// expected-error@+1 {{'ninfer.parameter' op part 0 names 'w', which is not a ninfer.object of this module}}
ninfer.parameter @parameter_c3 : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
    parts [#ninfer.part<@w, 0, 8192>] policy<A16Only>

// -----

// expected-note@+1 {{the object is declared here}}
ninfer.object @w : <64x128, BF16, "contiguous-le-v1"> at 0 size 16384
// expected-error@+1 {{'ninfer.parameter' op part 0 ends at element 8256, the object has 8192}}
ninfer.parameter @parameter_c4 : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
    parts [#ninfer.part<@w, 64, 8256>] policy<A16Only>

// -----

// expected-note@+1 {{the object is declared here}}
ninfer.object @w : <64x128, BF16, "contiguous-le-v1"> at 0 size 16384
// expected-error@+1 {{'ninfer.parameter' op part 0 is stored as BF16 in contiguous-le-v1, the type says Q4G64_F16S in row-split-k128-v1}}
ninfer.parameter @parameter_c5 : !ninfer.weight<64x128, Q4G64_F16S, "row-split-k128-v1">
    parts [#ninfer.part<@w, 0, 8192>] policy<A16Only>

// -----

// expected-error@+1 {{'ninfer.parameter' op parts hold more elements than a 64-bit integer counts}}
ninfer.parameter @parameter_c6 : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
    parts [#ninfer.part<@w, 0, 9223372036854775807>, #ninfer.part<@w, 0, 8192>] policy<A16Only>

// -----

// expected-error@+1 {{'ninfer.state' op inv_freq belongs to a rope table and only to it, got type '!ninfer.rope_table<64x2>' without it}}
ninfer.state @state_c1 : !ninfer.rope_table<64x2>

// -----

// expected-error@+1 {{'ninfer.state' op inv_freq belongs to a rope table and only to it, got type '!ninfer.kv_cache<2x64x32, bf16>' with it}}
ninfer.state @state_c1_cache : !ninfer.kv_cache<2x64x32, bf16> {inv_freq = array<f64: 1.0, 1.0>}

// -----

// expected-error@+1 {{'ninfer.state' op expected 2 values in inv_freq (one per pair), got 1}}
ninfer.state @state_c2 : !ninfer.rope_table<64x2> {inv_freq = array<f64: 1.0>}

// -----

// expected-error@+1 {{'ninfer.state' op inv_freq[1] must be positive and finite, got 0}}
ninfer.state @state_c3 : !ninfer.rope_table<64x2> {inv_freq = array<f64: 1.0, 0.0>}

// -----

// expected-error@+1 {{attribute 'type' failed to satisfy constraint: type attribute of}}
ninfer.state @state_type : !ninfer.weight<64x128, BF16, "contiguous-le-v1">

// -----

func.func @param_c1() {
  // expected-error@+1 {{'ninfer.param' op 'w' is not a ninfer.parameter of this module}}
  %0 = ninfer.param @w : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
  return
}

// -----

ninfer.object @w : <64x128, BF16, "contiguous-le-v1"> at 0 size 16384
// expected-note@+1 {{the parameter is declared here}}
ninfer.parameter @p : !ninfer.weight<64x128, BF16, "contiguous-le-v1">
    parts [#ninfer.part<@w, 0, 8192>] policy<A16Only>
func.func @param_c2() {
  // expected-error@+1 {{'ninfer.param' op expected the parameter's type '!ninfer.weight<64x128, BF16, "contiguous-le-v1">', got '!ninfer.weight<128x64, BF16, "contiguous-le-v1">'}}
  %0 = ninfer.param @p : !ninfer.weight<128x64, BF16, "contiguous-le-v1">
  return
}

// -----

func.func @state_ref_c1() {
  // expected-error@+1 {{'ninfer.state_ref' op 'state_ref_c1' is not a ninfer.state of this module}}
  %0 = ninfer.state_ref @state_ref_c1 : !ninfer.kv_cache<2x64x32, bf16>
  return
}

// -----

// expected-note@+1 {{the state is declared here}}
ninfer.state @kv : !ninfer.kv_cache<2x64x32, bf16>
func.func @state_ref_c2() {
  // expected-error@+1 {{'ninfer.state_ref' op expected the state's type '!ninfer.kv_cache<2x64x32, bf16>', got '!ninfer.kv_cache<2x64x32, f32>'}}
  %0 = ninfer.state_ref @kv : !ninfer.kv_cache<2x64x32, f32>
  return
}
