// The selected family, its tiles, and a verdict for every candidate.
// RUN: ninfer-opt %s --ninfer-admit-kernels=target=cpu:x86-64-v3 > %t.once
// RUN: FileCheck %s --input-file=%t.once --check-prefix=CPU
// RUN: ninfer-opt %t.once --ninfer-admit-kernels=target=cpu:x86-64-v3 | diff %t.once -
// RUN: ninfer-opt %s --ninfer-admit-kernels=target=reference | FileCheck %s --check-prefix=REF
// A driver that resolved a target itself passes executor and features.
// RUN: ninfer-opt %s --ninfer-admit-kernels="target=cpu:native executor=cpu features=avx2,fma,f16c" > %t.native
// RUN: diff %t.once %t.native

!q6 = !ninfer.weight<192x576, Q6G64_F16S, "row-split-k128-v1">
!w8 = !ninfer.weight<4096x576, W8G32_F16S, "row-split-k128-v1">
!bf = !ninfer.weight<64x576, BF16, "contiguous-le-v1">
!kv = !ninfer.kv_cache<3x2048x64, bf16>

// CPU-LABEL: func.func @text.decode
// REF-LABEL: func.func @text.decode
func.func @text.decode(%x: tensor<1x576xf32>, %a: !q6, %b: !w8, %c: !bf)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  // 24 tiles of 8 output rows; int8 is faster but not allowed.
  // CPU: ninfer.linear {{.*}} {ninfer.family = "linear_a16", ninfer.granule = 8 : i64, ninfer.profile = "a16",
  // CPU-SAME: ninfer.signature = "Q6G64_F16S linear 192x576, rows 1", ninfer.tiles_const = 24 : i64, ninfer.tiles_per_row = 0 : i64,
  // CPU-SAME: {candidate = "linear_a8", reason = "activation policy: expected AllowA8, got A16Only", verdict = "forbidden by policy"}
  // CPU-SAME: {candidate = "linear_a16", reason = "", verdict = "accepted"}
  // CPU-SAME: {candidate = "linear_f32", reason = "priority: linear_a16 has 20, this has 10", verdict = "lower priority"}
  // REF: ninfer.linear {{.*}} {ninfer.family = "ref.linear", ninfer.profile = "f32",
  // REF-SAME: ninfer.tiles_const = 1 : i64, ninfer.tiles_per_row = 0 : i64,
  // REF-SAME: ninfer.trace = [{candidate = "ref.linear", reason = "", verdict = "accepted"}]
  %0 = ninfer.linear %x, %a policy<A16Only> : tensor<1x576xf32>, !q6 -> tensor<1x192xf32>
  // CPU: ninfer.linear {{.*}} policy<AllowA8> {ninfer.family = "linear_a8", ninfer.granule = 8
  %1 = ninfer.linear %x, %a policy<AllowA8> : tensor<1x576xf32>, !q6 -> tensor<1x192xf32>
  // 256 tiles of 16; for 8-bit codes int16 activations are as fast.
  // CPU: ninfer.linear {{.*}} policy<AllowA8> {ninfer.family = "linear_a16", ninfer.granule = 16 {{.*}} ninfer.tiles_const = 256
  // CPU-SAME: {candidate = "linear_a8", reason = "priority: linear_a16 has 20, this has 15", verdict = "lower priority"}
  %2 = ninfer.linear %x, %b policy<AllowA8> : tensor<1x576xf32>, !w8 -> tensor<1x4096xf32>
  // CPU: ninfer.linear {{.*}} {ninfer.family = "linear_f32"
  // CPU-SAME: reason = "format: expected one of Q4G64_F16S, Q5G64_F16S, Q6G64_F16S, W8G32_F16S, got BF16", verdict = "rejected"
  %3 = ninfer.linear %x, %c policy<AllowA8> : tensor<1x576xf32>, !bf -> tensor<1x64xf32>
  return
}

// CPU-LABEL: func.func @text.prefill
func.func @text.prefill(%q: tensor<?x576xf32>, %k: tensor<?x192xf32>, %b: !w8, %c: !kv, %p: index)
    attributes {ninfer.component = "text", ninfer.max_rows = 512 : i64, ninfer.phase = "prefill"} {
  // CPU: ninfer.kv_append {{.*}} {ninfer.family = "kv_append", {{.*}} ninfer.tiles_const = 0 : i64, ninfer.tiles_per_row = 1
  ninfer.kv_append %k, %k, %c, %p : tensor<?x192xf32>, !kv
  // CPU: ninfer.attention {{.*}} ninfer.family = "attention"
  // CPU-SAME: ninfer.signature = "attention of 9 heads over 3 kv heads of 64, capacity 2048, bf16 cache, rows 1..512"
  // CPU-SAME: ninfer.tiles_const = 0, ninfer.tiles_per_row = 9
  %0 = ninfer.attention %q, %c, %p {heads = 9, kv_heads = 3, scale = 0.125} : tensor<?x576xf32>, !kv
  // CPU: ninfer.linear {{.*}} ninfer.granule = 32 {{.*}} ninfer.tiles_const = 128 : i64, ninfer.tiles_per_row = 0
  %1 = ninfer.linear %0, %b policy<A16Only> : tensor<?x576xf32>, !w8 -> tensor<?x4096xf32>
  // One row whatever the rows of the call.
  // CPU: ninfer.last_row {{.*}} ninfer.tiles_const = 1 : i64, ninfer.tiles_per_row = 0
  %2 = ninfer.last_row %q : tensor<?x576xf32> -> tensor<1x576xf32>
  // CPU: ninfer.add {{.*}} ninfer.tiles_const = 1 : i64, ninfer.tiles_per_row = 0
  %3 = ninfer.add %2, %2 : tensor<1x576xf32>
  return
}
