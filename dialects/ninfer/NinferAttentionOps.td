// Rotary positions, KV cache and attention.
#ifndef NINFER_DIALECTS_NINFER_NINFERATTENTIONOPS_TD
#define NINFER_DIALECTS_NINFER_NINFERATTENTIONOPS_TD

include "dialects/ninfer/NinferOpBase.td"

//===----------------------------------------------------------------------===//
// Attention family
//===----------------------------------------------------------------------===//

def Ninfer_RopeOp : Ninfer_ComputeOp<"rope", [
    Pure, AllTypesMatch<["x", "result"]>]> { // rope_c2
  let summary = "rotate the leading pairs of each head by the angles of its position";
  let description = [{
    Row `r` is at sequence position `position + r`. The table has P pairs per position; in a head of length
    `D >= 2P` the pair is `(i, i + P)`: `y[i] = x[i] cos - x[i + P] sin`, `y[i + P] = x[i + P] cos + x[i] sin`.
    Elements from `2P` on stay as they are.

    ```mlir
    %y = ninfer.rope %q, %table, %position {heads = 9}
       : tensor<?x576xf32>, <2048x32>
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$x,
    Ninfer_RopeTableType:$table,
    Index:$position,
    Ninfer_PositiveAttr:$heads);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = [{
    $x `,` $table `,` $position custom<CompactDict>(attr-dict) `:` type($x) `,` type($table)
  }];
  let hasVerifier = 1;
}

def Ninfer_KvAppendOp : Ninfer_ComputeOp<"kv_append", [
    AllTypesMatch<["key", "value"]>]> { // kv_append_c2
  let summary = "store keys and values of the rows at positions position, position + 1, ...";
  let description = [{
    Words are rounded to the element type of the cache.

    ```mlir
    ninfer.kv_append %k, %v, %cache, %position
      : tensor<?x192xf32>, <3x2048x64, bf16>
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$key,
    Ninfer_Activation:$value,
    Arg<Ninfer_KvCacheType, "appended to", [MemWrite]>:$cache,
    Index:$position);
  let assemblyFormat = [{
    $key `,` $value `,` $cache `,` $position attr-dict `:` type($key) `,` type($cache)
  }];
  let hasVerifier = 1;
}

def Ninfer_AttentionOp : Ninfer_ComputeOp<"attention", [
    AllTypesMatch<["query", "result"]>]> { // attention_c4
  let summary = "causal attention over the cache";
  let description = [{
    Row `r` attends to positions `0 .. position + r`. Query head `h` reads KV head
    `h / (heads / kv_heads)`. Scores are multiplied by `scale` before the softmax.

    ```mlir
    %y = ninfer.attention %q, %cache, %position {heads = 9, kv_heads = 3, scale = 1.250000e-01}
       : tensor<?x576xf32>, <3x2048x64, bf16>
    ```
  }];
  let arguments = (ins
    Ninfer_Activation:$query,
    Arg<Ninfer_KvCacheType, "attended to", [MemRead]>:$cache,
    Index:$position,
    Ninfer_PositiveAttr:$heads,
    Ninfer_PositiveAttr:$kv_heads,
    Ninfer_PositiveF64Attr:$scale);
  let results = (outs Ninfer_Activation:$result);
  let assemblyFormat = [{
    $query `,` $cache `,` $position custom<CompactDict>(attr-dict) `:` type($query) `,` type($cache)
  }];
  let hasVerifier = 1;
}

def Ninfer_PlaceAnglesOp : Ninfer_ComputeOp<"place_angles", []> {
  let summary = "write the table rows of tokens whose positions are not their numbers in the sequence";
  let description = [{
    Row `r` is token `position + r`, at the positions `positions[r]`, one per axis (time, height, width of an image in
    the text). Afterwards pair `i` of row `position + r` of `placed` is pair `i` of row `positions[r][axes[i]]` of
    `angles`. So a rotation by `placed` goes by the number of the token, whatever its positions are. A position outside
    of `angles` has no result that means anything.

    ```mlir
    ninfer.place_angles %positions, %angles, %placed, %position {axes = array<i64: 0, 1, 2, 0>}
      : tensor<?x3xi32>, <2048x4>, <2048x4>
    ```
  }];
  let arguments = (ins
    Ninfer_Indices:$positions,
    Arg<Ninfer_RopeTableType, "read", [MemRead]>:$angles,
    Arg<Ninfer_RopeTableType, "written", [MemWrite]>:$placed,
    Index:$position,
    DenseI64ArrayAttr:$axes);
  let assemblyFormat = [{
    $positions `,` $angles `,` $placed `,` $position custom<CompactDict>(attr-dict)
    `:` type($positions) `,` type($angles) `,` type($placed)
  }];
  let hasVerifier = 1;
}

#endif // NINFER_DIALECTS_NINFER_NINFERATTENTIONOPS_TD
