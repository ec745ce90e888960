// RUN: ninfer-opt %s --ninfer-lower-kernels-to-cpu --split-input-file | FileCheck %s

// One row: the norm, one packing for both segments, one call per segment over its whole share.

// CHECK-LABEL: module @qk attributes {ninfer.scratch_bytes = {{[0-9]+}} : i64}
// CHECK: llvm.func internal @"$linear_q6"{{.*}}no_inline
// CHECK: llvm.call @ni_linear_q6_a16(
// CHECK: llvm.func @qk(%[[ARGS:.*]]: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.noalias}, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %{{.*}}: !llvm.ptr {llvm.noalias})
// CHECK: arith.cmpi slt, %[[BEGIN]], %[[END]]
// CHECK: llvm.call @ni_rms_norm
// CHECK: llvm.call @ni_pack_a16g64
// CHECK-NOT: ni_pack
// CHECK-COUNT-2: llvm.call @"$linear_q6"
// CHECK-NOT: llvm.call
ninfer.kernel @qk(%x: tensor<1x128xf32>, %n: !ninfer.weight<128, BF16, "contiguous-le-v1">,
                  %q: !ninfer.weight<64x128, Q6G64_F16S, "row-split-k128-v1">,
                  %k: !ninfer.weight<20x128, Q6G64_F16S, "row-split-k128-v1">)
    attributes {family = "linear_a16", profile = "a16", rows = 1, tiles_const = 11, tiles_per_row = 0} {
  %0:2 = ninfer.fused "linear" (%a = %x : tensor<1x128xf32>, %b = %n : !ninfer.weight<128, BF16, "contiguous-le-v1">,
      %c = %q : !ninfer.weight<64x128, Q6G64_F16S, "row-split-k128-v1">,
      %d = %k : !ninfer.weight<20x128, Q6G64_F16S, "row-split-k128-v1">) -> (tensor<1x64xf32>, tensor<1x20xf32>) {
    %1 = ninfer.rms_norm %a, %b {eps = 1.0e-05} : tensor<1x128xf32>, <128, BF16, "contiguous-le-v1">
    %2 = ninfer.linear %1, %c policy<A16Only> : tensor<1x128xf32>, <64x128, Q6G64_F16S, "row-split-k128-v1"> -> tensor<1x64xf32>
    %3 = ninfer.linear %1, %d policy<A16Only> : tensor<1x128xf32>, <20x128, Q6G64_F16S, "row-split-k128-v1"> -> tensor<1x20xf32>
    ninfer.yield %2, %3 : tensor<1x64xf32>, tensor<1x20xf32>
  }
  ninfer.yield %0#0, %0#1 : tensor<1x64xf32>, tensor<1x20xf32>
}

// -----

// Many rows: blocks of rows, blocks of outputs (larger ones for one or two rows), the residual added while they are in the cache.

// CHECK-LABEL: module @down
// CHECK: llvm.func @down
// CHECK: scf.for
// CHECK: llvm.call @ni_pack_a16g32
// CHECK: %[[MANY:.*]] = arith.cmpi slt, %c2_i64, %{{.*}} : i64
// CHECK: %[[BLOCK:.*]] = arith.select %[[MANY]], %c64_i64, %c2048_i64 : i64
// CHECK: scf.for {{.*}} step %[[BLOCK]]
// CHECK: llvm.call @"$ni_linear_w8_a16"
// CHECK: scf.for
// CHECK: llvm.call @ni_add
ninfer.kernel @down(%x: tensor<?x96xf32>, %w: !ninfer.weight<200x96, W8G32_F16S, "row-split-k128-v1">, %r: tensor<?x200xf32>)
    attributes {family = "linear_a16", profile = "a16", rows = 512, dynamic_rows, tiles_const = 13, tiles_per_row = 0} {
  %0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x96xf32>, <200x96, W8G32_F16S, "row-split-k128-v1"> -> tensor<?x200xf32>
  %1 = ninfer.add %0, %r : tensor<?x200xf32>
  ninfer.yield %1 : tensor<?x200xf32>
}
