// Without parameters nothing changes; planes that are wrong are replaced.
// RUN: ninfer-opt %s --ninfer-bind-parameters | FileCheck %s

// CHECK: ninfer.object @lonely : <64, BF16, "contiguous-le-v1"> at 0 size 128{{$}}
ninfer.object @lonely : <64, BF16, "contiguous-le-v1"> at 0 size 128
// CHECK: ninfer.parameter @stale
// CHECK-SAME: planes [#ninfer.plane<0, 128>]
ninfer.parameter @stale : !ninfer.weight<64, BF16, "contiguous-le-v1">
  parts [#ninfer.part<@lonely, 0, 64>] policy<A16Only> planes [#ninfer.plane<512, 128>]
// CHECK: ninfer.state @kv : !ninfer.kv_cache<2x64x16, bf16>{{$}}
ninfer.state @kv : !ninfer.kv_cache<2x64x16, bf16>
