// The pipeline by its flag: fused for a cpu target, single operations for the reference.
// RUN: ninfer-opt %s --ninfer-plan=target=cpu:x86-64-v3 | FileCheck %s --check-prefix=CPU
// RUN: ninfer-opt %s --ninfer-plan="target=cpu:native executor=cpu features=avx2,fma,f16c" | FileCheck %s --check-prefix=CPU
// RUN: ninfer-opt %s --ninfer-plan=target=reference | FileCheck %s --check-prefix=REF
// RUN: not ninfer-opt %s --ninfer-plan=target=cuda:sm_70 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: unknown target 'cuda:sm_70'

!n = !ninfer.weight<64, BF16, "contiguous-le-v1">
!w = !ninfer.weight<32x64, W8G32_F16S, "row-split-k128-v1">

module attributes {ninfer.max_context = 128 : i64, ninfer.prefill_chunk = 16 : i64} {
  ninfer.object @table : <32x64, W8G32_F16S, "row-split-k128-v1"> at 0 size 4352
  ninfer.object @norms : <64, BF16, "contiguous-le-v1"> at 4352 size 128
  // CPU: ninfer.parameter @embedding {{.*}} planes [#ninfer.plane<0, 4096>, #ninfer.plane<4096, 256>]
  ninfer.parameter @embedding : !w parts [#ninfer.part<@table, 0, 2048>] policy<A16Only>
  ninfer.parameter @norm : !n parts [#ninfer.part<@norms, 0, 64>] policy<A16Only>
  // CPU: ninfer.kernel @embedding_w8g32_n32_k64_r1(
  // CPU: ninfer.kernel @linear_w8g32_n32_k64_r1_a16_norm(
  // CPU: ninfer.kernel @embedding_w8g32_n32_k64_r1to16(
  // CPU: ninfer.kernel @linear_w8g32_n32_k64_r1to16_a16_last_norm(
  // CPU-NOT: ninfer.kernel
  // CPU: func.func @text.decode
  // CPU-SAME: ninfer.arena_bytes = 384
  // CPU-COUNT-2: ninfer.launch
  // CPU-NOT: ninfer.launch
  // CPU: func.func @text.prefill
  // CPU-SAME: ninfer.arena_bytes = 4224
  // CPU-COUNT-2: ninfer.launch
  // CPU-NOT: ninfer.launch
  // REF: ninfer.kernel @ref_embedding_w8g32_n32_k64_r1(
  // REF: ninfer.kernel @ref_rms_norm_k64_r1(
  // REF: ninfer.kernel @ref_linear_w8g32_n32_k64_r1(
  // REF: ninfer.kernel @ref_embedding_w8g32_n32_k64_r1to16(
  // REF: ninfer.kernel @ref_last_row_k64_r1to16(
  // REF-NOT: ninfer.kernel
  // REF: func.func @text.prefill
  // REF: ninfer.launch @ref_embedding_w8g32_n32_k64_r1to16
  // REF-NEXT: ninfer.launch @ref_last_row_k64_r1to16
  // REF: ninfer.launch @ref_rms_norm_k64_r1
  // REF-NEXT: ninfer.launch @ref_linear_w8g32_n32_k64_r1
  // REF-NEXT: return
  func.func @text(%tokens: tensor<?xi32>, %position: index) -> tensor<1x32xf32> attributes {ninfer.component = "text"} {
    %e = ninfer.param @embedding : !w
    %x = ninfer.embedding %tokens, %e : tensor<?xi32>, !w -> tensor<?x64xf32>
    %r = ninfer.last_row %x : tensor<?x64xf32> -> tensor<1x64xf32>
    %n = ninfer.param @norm : !n
    %y = ninfer.rms_norm %r, %n {eps = 1.0e-5} : tensor<1x64xf32>, !n
    %l = ninfer.linear %y, %e policy<A16Only> : tensor<1x64xf32>, !w -> tensor<1x32xf32>
    return %l : tensor<1x32xf32>
  }
}
