// RUN: ninfer-opt %s --split-input-file --verify-diagnostics

// The registry is closed: a name outside of it does not parse.

// expected-error@+2 {{unknown format 'Q4G32_F16S', the registered ones are: BF16, FP32, I32, Q4G64_F16S, Q5G64_F16S, Q6G64_F16S, W8G32_F16S, NVFP4, FP8_E4M3FN_ROW_BF16S}}
// expected-error@+1 {{failed to parse Ninfer_WeightType parameter 'format'}}
func.func private @unknown_format(!ninfer.weight<576x1536, Q4G32_F16S, "row-split-k128-v1">)

// -----

// Names are compared exactly, and the spelling of artifacts is not the spelling of IR.
// expected-error@+2 {{unknown format 'q4_g64_fp16', the registered ones are:}}
// expected-error@+1 {{failed to parse Ninfer_WeightType parameter 'format'}}
func.func private @artifact_spelling(!ninfer.weight<576x1536, q4_g64_fp16, "row-split-k128-v1">)

// -----

// expected-error@+2 {{unknown layout 'row-split-k64-v1', the registered ones are: contiguous-le-v1, row-split-k128-v1, blockscale-k16-m128x4-v1, row-scale-v1}}
// expected-error@+1 {{failed to parse Ninfer_WeightType parameter 'layout'}}
func.func private @unknown_layout(!ninfer.weight<576x1536, Q4G64_F16S, "row-split-k64-v1">)

// -----

// expected-error@+2 {{unknown activation policy 'AllowA2', the registered ones are: A16Only, AllowA8, AllowA4}}
// expected-error@+1 {{failed to parse Ninfer_ActivationPolicyAttr parameter 'value'}}
func.func private @unknown_policy() attributes {policy = #ninfer.policy<AllowA2>}

// -----

// expected-error@+1 {{weight must have rank 1 or 2, got rank 3}}
func.func private @weight_c1(!ninfer.weight<4x4x64, BF16, "contiguous-le-v1">)

// -----

// expected-error@+1 {{dimension 1 must be positive, got 0}}
func.func private @weight_c2(!ninfer.weight<4x0, BF16, "contiguous-le-v1">)

// -----

// expected-error@+1 {{format Q4G64_F16S may not use layout contiguous-le-v1, the registered pairs are: BF16/contiguous-le-v1, FP32/contiguous-le-v1, I32/contiguous-le-v1, Q4G64_F16S/row-split-k128-v1, Q5G64_F16S/row-split-k128-v1, Q6G64_F16S/row-split-k128-v1, W8G32_F16S/row-split-k128-v1, NVFP4/blockscale-k16-m128x4-v1, FP8_E4M3FN_ROW_BF16S/row-scale-v1}}
func.func private @weight_c3(!ninfer.weight<576x1536, Q4G64_F16S, "contiguous-le-v1">)

// -----

// expected-error@+1 {{no encoding of this shape:}}
func.func private @weight_c4(!ninfer.weight<576, Q4G64_F16S, "row-split-k128-v1">)

// -----

// expected-error@+1 {{encoding takes 9223372036854775808 bytes, the limit is 4611686018427387904}}
func.func private @weight_c5(!ninfer.weight<4611686018427387904, BF16, "contiguous-le-v1">)

// -----

// A weight is stored: its dimensions are known.
// expected-error@+1 {{expected static shape}}
func.func private @weight_dynamic(!ninfer.weight<?x1536, BF16, "contiguous-le-v1">)

// -----

// expected-error@+1 {{dimension 0 must be positive, got 0}}
func.func private @kv_cache_c1(!ninfer.kv_cache<0x2048x64, bf16>)

// -----

// expected-error@+1 {{element type must be bf16, f32 or i8, got 'f16'}}
func.func private @kv_cache_c2(!ninfer.kv_cache<3x2048x64, f16>)

// -----

// expected-error@+1 {{takes more than 4611686018427387904 bytes}}
func.func private @kv_cache_c3(!ninfer.kv_cache<4294967296x4294967296x64, bf16>)

// -----

// expected-error@+1 {{expected 3 dimensions, got 2}}
func.func private @kv_cache_rank(!ninfer.kv_cache<3x2048, bf16>)

// -----

// expected-error@+1 {{dimension 1 must be positive, got 0}}
func.func private @rope_table_c1(!ninfer.rope_table<2048x0>)

// -----

// expected-error@+1 {{takes more than 4611686018427387904 bytes}}
func.func private @rope_table_c2(!ninfer.rope_table<4611686018427387904x4>)

// -----

// expected-error@+1 {{dimension 0 must be positive, got 0}}
func.func private @conv_state_c1(!ninfer.conv_state<0x64>)

// -----

// expected-error@+1 {{takes more than 4611686018427387904 bytes}}
func.func private @conv_state_c2(!ninfer.conv_state<3x4611686018427387904>)

// -----

// expected-error@+1 {{dimension 2 must be positive, got 0}}
func.func private @delta_state_c1(!ninfer.delta_state<4x16x0>)

// -----

// expected-error@+1 {{takes more than 4611686018427387904 bytes}}
func.func private @delta_state_c2(!ninfer.delta_state<4294967296x4294967296x64>)

// -----

// expected-error@+1 {{range [8, 8) of object 'w' must be non-empty and start at 0 or later}}
func.func private @part_c1() attributes {part = #ninfer.part<@w, 8, 8>}

// -----

// expected-error@+1 {{range [-1, 8) of object 'w' must be non-empty and start at 0 or later}}
func.func private @part_c1_negative() attributes {part = #ninfer.part<@w, -1, 8>}

// -----

// expected-error@+1 {{plane needs an offset of 0 or later and at least one byte, got offset -1 and 8 bytes}}
func.func private @plane_c1() attributes {plane = #ninfer.plane<-1, 8>}

// -----

// expected-error@+1 {{plane needs an offset of 0 or later and at least one byte, got offset 0 and 0 bytes}}
func.func private @plane_c1_empty() attributes {plane = #ninfer.plane<0, 0>}
