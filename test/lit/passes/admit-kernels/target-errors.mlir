// Targets and executors that do not exist, and groups for an executor of single operators.
// RUN: not ninfer-opt %s --ninfer-admit-kernels=target=cpu:i386 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not ninfer-opt %s --ninfer-admit-kernels="target=reference executor=cpu" 2>&1 | FileCheck %s --check-prefix=EXECUTOR
// RUN: not ninfer-opt %s --ninfer-admit-kernels="target=cpu:x86-64-v3 features=avx2,fma" 2>&1 | FileCheck %s --check-prefix=FEATURE
// RUN: not ninfer-opt %s --ninfer-admit-kernels=target=reference 2>&1 | FileCheck %s --check-prefix=FUSED

// NAME: error: unknown target 'cpu:i386'
// NAME-NEXT: note: targets: reference, cpu:x86-64-v3, cpu:x86-64-v4, cpu:znver4
// EXECUTOR: error: executor of target 'reference': expected reference, got cpu
// FEATURE: error: no kernel for W8G32_F16S linear 32x128, rows 1, on cpu:x86-64-v3
// FEATURE: note: linear_a8: rejected: target feature: expected f16c, got a target without it
// FUSED: error: no kernel for W8G32_F16S linear 32x128, rows 1, on reference
// FUSED: note: ref.linear: rejected: fusion: expected a single operator, got a fused group

!w8 = !ninfer.weight<32x128, W8G32_F16S, "row-split-k128-v1">
func.func @text.decode(%x: tensor<1x128xf32>, %w: !w8)
    attributes {ninfer.component = "text", ninfer.max_rows = 1 : i64, ninfer.phase = "decode"} {
  %0 = ninfer.fused "linear" (%a = %x : tensor<1x128xf32>, %b = %w : !w8) -> tensor<1x32xf32> {
    %1 = ninfer.linear %a, %b policy<A16Only> : tensor<1x128xf32>, !w8 -> tensor<1x32xf32>
    ninfer.yield %1 : tensor<1x32xf32>
  }
  return
}
