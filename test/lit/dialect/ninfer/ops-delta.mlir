// RUN: ninfer-opt %s | FileCheck %s

!x = tensor<?x64xf32>
!v = tensor<?x128xf32>
!s = tensor<?x8xf32>
!taps = !ninfer.weight<4x256, BF16, "contiguous-le-v1">
!head = !ninfer.weight<8, FP32, "contiguous-le-v1">
!norm = !ninfer.weight<16, BF16, "contiguous-le-v1">

// CHECK: ninfer.state @tail : !ninfer.conv_state<3x256>
ninfer.state @tail : !ninfer.conv_state<3x256>
// CHECK: ninfer.state @delta : !ninfer.delta_state<8x16x16>
ninfer.state @delta : !ninfer.delta_state<8x16x16>
// CHECK: ninfer.state @cache : !ninfer.kv_cache<2x64x32, i8>
ninfer.state @cache : !ninfer.kv_cache<2x64x32, i8>

// CHECK-LABEL: func.func @delta_family
func.func @delta_family(%q: !x, %k: !x, %v: !v, %a: !s, %b: !s, %w: !taps, %al: !head, %dt: !head, %n: !norm, %z: !v) -> !v {
  %tail = ninfer.state_ref @tail : !ninfer.conv_state<3x256>
  %state = ninfer.state_ref @delta : !ninfer.delta_state<8x16x16>
  // CHECK: ninfer.causal_conv %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x128xf32>, <4x256, BF16, "contiguous-le-v1">, <3x256>
  %c:3 = ninfer.causal_conv %q, %k, %v, %w, %tail : !x, !x, !v, !taps, !ninfer.conv_state<3x256>
  // CHECK: ninfer.gated_delta {{.*}} {key_heads = 4} : tensor<?x64xf32>, tensor<?x128xf32>, tensor<?x8xf32>, <8, FP32, "contiguous-le-v1">, <8, FP32, "contiguous-le-v1">, <8x16x16>
  %o = ninfer.gated_delta %c#0, %c#1, %c#2, %a, %b, %al, %dt, %state {key_heads = 4}
     : !x, !v, !s, !head, !head, !ninfer.delta_state<8x16x16>
  // CHECK: ninfer.gated_head_norm %{{.*}}, %{{.*}}, %{{.*}} {eps = 9.9999999999999995E-7, heads = 8} : tensor<?x128xf32>, <16, BF16, "contiguous-le-v1">
  %y = ninfer.gated_head_norm %o, %n, %z {eps = 1.0e-6, heads = 8} : !v, !norm
  return %y : !v
}
