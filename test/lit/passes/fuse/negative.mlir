// What must not be fused stays as it is.
// RUN: ninfer-opt %s --split-input-file > %t.in
// RUN: ninfer-opt %s --ninfer-fuse --split-input-file | diff %t.in -

!n = !ninfer.weight<128, BF16, "contiguous-le-v1">
!w = !ninfer.weight<128x128, Q4G64_F16S, "row-split-k128-v1">

// Somebody else reads the norm: a copy inside would compute it twice.
func.func @norm_read_elsewhere(%x: tensor<?x128xf32>, %n: !n, %w: !w) -> (tensor<?x128xf32>, tensor<?x128xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rms_norm %x, %n {eps = 1.0e-5} : tensor<?x128xf32>, !n
  %1 = ninfer.linear %0, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x128xf32>
  return %0, %1 : tensor<?x128xf32>, tensor<?x128xf32>
}

// -----

!w = !ninfer.weight<128x128, Q4G64_F16S, "row-split-k128-v1">

// Both the sum and the caller read the linear.
func.func @linear_read_twice(%x: tensor<?x128xf32>, %w: !w) -> (tensor<?x128xf32>, tensor<?x128xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x128xf32>
  %1 = ninfer.add %x, %0 : tensor<?x128xf32>
  return %0, %1 : tensor<?x128xf32>, tensor<?x128xf32>
}

// -----

!w = !ninfer.weight<128x128, Q4G64_F16S, "row-split-k128-v1">
!b = !ninfer.weight<128x128, BF16, "contiguous-le-v1">

// Gate and up of inputs or formats that no one kernel takes.
func.func @swiglu_of_two_classes(%x: tensor<?x128xf32>, %w: !w, %b: !b) -> tensor<?x128xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x128xf32>
  %1 = ninfer.linear %x, %b policy<A16Only> : tensor<?x128xf32>, !b -> tensor<?x128xf32>
  %2 = ninfer.swiglu %0, %1 : tensor<?x128xf32>
  return %2 : tensor<?x128xf32>
}
func.func @swiglu_of_two_inputs(%x: tensor<?x128xf32>, %y: tensor<?x128xf32>, %w: !w) -> tensor<?x128xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x128xf32>
  %1 = ninfer.linear %y, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x128xf32>
  %2 = ninfer.swiglu %0, %1 : tensor<?x128xf32>
  return %2 : tensor<?x128xf32>
}
func.func @swiglu_of_one_linear(%x: tensor<?x128xf32>, %w: !w) -> tensor<?x128xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x128xf32>
  %1 = ninfer.swiglu %0, %0 : tensor<?x128xf32>
  return %1 : tensor<?x128xf32>
}

// -----

!kv = !ninfer.kv_cache<2x64x16, bf16>
!t = !ninfer.rope_table<64x8>

// Another reader of the rotated query; another position; a cache read between append and rotation.
func.func @query_read_twice(%q: tensor<?x64xf32>, %k: tensor<?x32xf32>, %t: !t, %c: !kv, %p: index) -> (tensor<?x64xf32>, tensor<?x64xf32>)
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rope %q, %t, %p {heads = 4} : tensor<?x64xf32>, !t
  %1 = ninfer.rope %k, %t, %p {heads = 2} : tensor<?x32xf32>, !t
  ninfer.kv_append %1, %k, %c, %p : tensor<?x32xf32>, !kv
  %2 = ninfer.attention %0, %c, %p {heads = 4, kv_heads = 2, scale = 0.25} : tensor<?x64xf32>, !kv
  return %0, %2 : tensor<?x64xf32>, tensor<?x64xf32>
}
func.func @another_position(%q: tensor<?x64xf32>, %k: tensor<?x32xf32>, %t: !t, %c: !kv, %p: index, %o: index) -> tensor<?x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rope %q, %t, %o {heads = 4} : tensor<?x64xf32>, !t
  %1 = ninfer.rope %k, %t, %p {heads = 2} : tensor<?x32xf32>, !t
  ninfer.kv_append %1, %k, %c, %p : tensor<?x32xf32>, !kv
  %2 = ninfer.attention %0, %c, %p {heads = 4, kv_heads = 2, scale = 0.25} : tensor<?x64xf32>, !kv
  return %2 : tensor<?x64xf32>
}
func.func @cache_read_between(%q: tensor<?x64xf32>, %k: tensor<?x32xf32>, %t: !t, %c: !kv, %p: index) -> tensor<?x64xf32>
    attributes {ninfer.component = "text", ninfer.max_rows = 8 : i64, ninfer.phase = "prefill"} {
  %0 = ninfer.rope %k, %t, %p {heads = 2} : tensor<?x32xf32>, !t
  ninfer.kv_append %0, %k, %c, %p : tensor<?x32xf32>, !kv
  %1 = ninfer.attention %q, %c, %p {heads = 4, kv_heads = 2, scale = 0.25} : tensor<?x64xf32>, !kv
  %2 = ninfer.rope %1, %t, %p {heads = 4} : tensor<?x64xf32>, !t
  %3 = ninfer.attention %2, %c, %p {heads = 4, kv_heads = 2, scale = 0.25} : tensor<?x64xf32>, !kv
  return %3 : tensor<?x64xf32>
}

// -----

!w = !ninfer.weight<128x128, Q4G64_F16S, "row-split-k128-v1">

// A function of no component is nobody's graph.
func.func @helper(%x: tensor<?x128xf32>, %w: !w) -> tensor<?x128xf32> {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x128xf32>
  %1 = ninfer.add %x, %0 : tensor<?x128xf32>
  return %1 : tensor<?x128xf32>
}

// -----

!w = !ninfer.weight<128x128, Q4G64_F16S, "row-split-k128-v1">
!v = !ninfer.weight<512x512, Q4G64_F16S, "row-split-k128-v1">

// One input, but groups of rows of different size.
func.func @row_groups_differ(%x: tensor<?x128xf32>, %w: !w, %v: !v) -> (tensor<?x128xf32>, tensor<?x128xf32>)
    attributes {ninfer.component = "vision", ninfer.max_rows = 8 : i64, ninfer.phase = "encode"} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x128xf32>, !w -> tensor<?x128xf32>
  %1 = ninfer.linear %x, %v policy<A16Only> {row_group = 4 : i64} : tensor<?x128xf32>, !v -> tensor<?x128xf32>
  return %0, %1 : tensor<?x128xf32>, tensor<?x128xf32>
}
