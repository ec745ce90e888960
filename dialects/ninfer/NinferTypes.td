// Types: a stored weight, a KV cache, a table of rotation angles. Activations are builtin tensors.
#ifndef NINFER_DIALECTS_NINFER_NINFERTYPES_TD
#define NINFER_DIALECTS_NINFER_NINFERTYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonTypeConstraints.td"
include "dialects/ninfer/NinferAttrs.td"
include "dialects/ninfer/NinferDialect.td"

class Ninfer_Type<string name, string typeMnemonic> : TypeDef<Ninfer_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Ninfer_WeightType : Ninfer_Type<"Weight", "weight"> {
  let summary = "constant stored in the artifact, exactly as encoded";
  let description = [{
    A matrix `[N, K]` (a row is one output of a linear map, K is contiguous) or a vector, with the format
    and layout of its words. Only registered pairs exist.

    Example: `!ninfer.weight<576x1536, Q4G64_F16S, "row-split-k128-v1">`.
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$shape,
    Ninfer_RegistryParameter<"Format", "numeric format">:$format,
    Ninfer_RegistryParameter<"Layout", "storage layout">:$layout);
  let assemblyFormat = "`<` custom<Shape>($shape) `,` $format `,` $layout `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRank() const { return static_cast<int64_t>(getShape().size()); }
    bool isMatrix() const { return getRank() == 2; }
    /// Rows of a matrix (N); 1 for a vector.
    int64_t getN() const { return isMatrix() ? getShape()[0] : 1; }
    /// Length of a row (K).
    int64_t getK() const { return getShape().back(); }
    /// Bytes of the encoded weight, padding included.
    int64_t getEncodedBytes() const;
  }];
}

def Ninfer_KvCacheType : Ninfer_Type<"KvCache", "kv_cache"> {
  let summary = "keys and values of one layer: kv heads x capacity x head dimension";
  let description = [{
    Position `p` of head `h` is the row `[h][p]` of both planes (keys, then values). Words are bf16, f32, or i8:
    int8 codes with one binary16 scale per 64 elements of a row; the scales follow the codes of the plane.
    Example: `!ninfer.kv_cache<3x2048x64, bf16>`.
  }];
  let parameters = (ins "int64_t":$kvHeads, "int64_t":$capacity, "int64_t":$headDim,
                        "::mlir::Type":$elementType);
  let assemblyFormat = "`<` custom<Dims3>($kvHeads, $capacity, $headDim) `,` $elementType `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes of keys, or of values.
    int64_t getPlaneBytes() const;
    /// Bytes of keys and values together.
    int64_t getBytes() const { return 2 * getPlaneBytes(); }
  }];
}

def Ninfer_RopeTableType : Ninfer_Type<"RopeTable", "rope_table"> {
  let summary = "cosine and sine of every position and rotated pair: capacity x pairs";
  let description = [{
    Float32 `[capacity][pairs][2]`, filled once before the first call from the state's `inv_freq`.
    Example: `!ninfer.rope_table<2048x32>`.
  }];
  let parameters = (ins "int64_t":$capacity, "int64_t":$pairs);
  let assemblyFormat = "`<` custom<Dims2>($capacity, $pairs) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getBytes() const { return getCapacity() * getPairs() * 2 * 4; }
  }];
}

def Ninfer_ConvStateType : Ninfer_Type<"ConvState", "conv_state"> {
  let summary = "last rows that a causal convolution has seen: rows x channels";
  let description = [{
    Float32, the oldest row first. Example: `!ninfer.conv_state<3x10240>`.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$channels);
  let assemblyFormat = "`<` custom<Dims2>($rows, $channels) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getBytes() const { return getRows() * getChannels() * 4; }
  }];
}

def Ninfer_DeltaStateType : Ninfer_Type<"DeltaState", "delta_state"> {
  let summary = "matrix state of the delta rule: value heads x value dimension x key dimension";
  let description = [{
    Float32. Example: `!ninfer.delta_state<48x128x128>`.
  }];
  let parameters = (ins "int64_t":$valueHeads, "int64_t":$valueDim, "int64_t":$keyDim);
  let assemblyFormat = "`<` custom<Dims3>($valueHeads, $valueDim, $keyDim) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getBytes() const { return getValueHeads() * getValueDim() * getKeyDim() * 4; }
  }];
}

def Ninfer_RowBufferType : Ninfer_Type<"RowBuffer", "row_buffer"> {
  let summary = "activation rows that one phase leaves for another: rows x width";
  let description = [{
    Float32. Example: `!ninfer.row_buffer<64x5120>`.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$width);
  let assemblyFormat = "`<` custom<Dims2>($rows, $width) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getBytes() const { return getRows() * getWidth() * 4; }
  }];
}

//===----------------------------------------------------------------------===//
// Constraints used by the operations
//===----------------------------------------------------------------------===//

def Ninfer_Matrix : Type<And<[Ninfer_WeightType.predicate,
    CPred<"::llvm::cast<::ninfer::WeightType>($_self).isMatrix()">]>,
  "weight of rank 2", "::ninfer::WeightType">;

def Ninfer_Vector : Type<And<[Ninfer_WeightType.predicate,
    CPred<"!::llvm::cast<::ninfer::WeightType>($_self).isMatrix()">]>,
  "weight of rank 1", "::ninfer::WeightType">;

/// `[rows, width]`; the width is static, rows may be dynamic.
def Ninfer_Activation : Type<And<[2DTensorOf<[F32]>.predicate,
    CPred<"!::llvm::cast<::mlir::RankedTensorType>($_self).isDynamicDim(1)">]>,
  "float32 activation of rank 2 with a static width", "::mlir::RankedTensorType">;

/// Token ids, one per row.
def Ninfer_Tokens : Type<1DTensorOf<[I32]>.predicate, "int32 token ids of rank 1", "::mlir::RankedTensorType">;

/// Integers per row, such as positions or rows of a table.
def Ninfer_Indices : Type<And<[2DTensorOf<[I32]>.predicate,
    CPred<"!::llvm::cast<::mlir::RankedTensorType>($_self).isDynamicDim(1)">]>,
  "int32 indices of rank 2 with a static width", "::mlir::RankedTensorType">;

/// What a function, a fused region, a kernel or a launch may pass on.
def Ninfer_Value : AnyTypeOf<[Ninfer_Activation, Ninfer_Tokens, Ninfer_Indices, Ninfer_WeightType,
                              Ninfer_KvCacheType, Ninfer_RopeTableType, Ninfer_ConvStateType,
                              Ninfer_DeltaStateType, Ninfer_RowBufferType, Index]>;

/// Memory that outlives a call.
def Ninfer_AnyState : AnyTypeOf<[Ninfer_KvCacheType, Ninfer_RopeTableType, Ninfer_ConvStateType,
                                 Ninfer_DeltaStateType, Ninfer_RowBufferType]>;

#endif // NINFER_DIALECTS_NINFER_NINFERTYPES_TD
