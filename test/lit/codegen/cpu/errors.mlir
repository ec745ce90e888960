// RUN: ninfer-opt %s --ninfer-lower-kernels-to-cpu --split-input-file --verify-diagnostics

// expected-error@+1 {{no cpu code for family 'conv1d', profile 'f32': unknown family}}
ninfer.kernel @a(%x: tensor<1x4xf32>) attributes {family = "conv1d", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.add %x, %x : tensor<1x4xf32>
  ninfer.yield %0 : tensor<1x4xf32>
}

// -----

// expected-error@+1 {{no cpu code for family 'linear_a16', profile 'a16': linear maps must share their input}}
ninfer.kernel @b(%x: tensor<1x64xf32>, %y: tensor<1x64xf32>, %w: !ninfer.weight<8x64, W8G32_F16S, "row-split-k128-v1">)
    attributes {family = "linear_a16", profile = "a16", rows = 1, tiles_const = 2, tiles_per_row = 0} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<1x64xf32>, <8x64, W8G32_F16S, "row-split-k128-v1"> -> tensor<1x8xf32>
  %1 = ninfer.linear %y, %w policy<A16Only> : tensor<1x64xf32>, <8x64, W8G32_F16S, "row-split-k128-v1"> -> tensor<1x8xf32>
  ninfer.yield %0, %1 : tensor<1x8xf32>, tensor<1x8xf32>
}

// -----

// expected-error@+1 {{no cpu code for family 'linear_a16', profile 'a16': format BF16}}
ninfer.kernel @c(%x: tensor<1x64xf32>, %w: !ninfer.weight<8x64, BF16, "contiguous-le-v1">)
    attributes {family = "linear_a16", profile = "a16", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<1x64xf32>, <8x64, BF16, "contiguous-le-v1"> -> tensor<1x8xf32>
  ninfer.yield %0 : tensor<1x8xf32>
}

// -----

// expected-error@+1 {{no cpu code for family 'rms_norm', profile 'f32': the norm weight must be BF16}}
ninfer.kernel @d(%x: tensor<1x64xf32>, %w: !ninfer.weight<64, FP32, "contiguous-le-v1">)
    attributes {family = "rms_norm", profile = "f32", rows = 1, tiles_const = 1, tiles_per_row = 0} {
  %0 = ninfer.rms_norm %x, %w {eps = 1.0e-05} : tensor<1x64xf32>, <64, FP32, "contiguous-le-v1">
  ninfer.yield %0 : tensor<1x64xf32>
}

// -----

// expected-error@+1 {{5 + 0 tiles per row do not cut 9 units per row}}
ninfer.kernel @e(%q: tensor<1x576xf32>, %c: !ninfer.kv_cache<3x64x64, bf16>, %p: index)
    attributes {family = "attention", profile = "f32", rows = 1, tiles_const = 5, tiles_per_row = 0} {
  %0 = ninfer.attention %q, %c, %p {heads = 9, kv_heads = 3, scale = 1.25e-01} : tensor<1x576xf32>, <3x64x64, bf16>
  ninfer.yield %0 : tensor<1x576xf32>
}
