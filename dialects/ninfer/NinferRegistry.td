// The closed registry of numeric formats, storage layouts and activation policies: the one place where they
// are declared. scripts/gen_registry.py turns the records into artifact/formats/Registry.gen.h and the tables
// of docs/formats.md; the dialect's types and attributes use those C++ enums. Meanings: docs/formats.md.
#ifndef NINFER_DIALECT_REGISTRY_TD
#define NINFER_DIALECT_REGISTRY_TD

include "mlir/IR/EnumAttr.td"

// Bits and group size are facts about a registered name, never parameters of a type.
class Ninfer_FormatCase<string sym, int val, string v3, string kind, int bitsPerCode, int group, int codeMin,
                        int codeMax, string scale> : I32EnumCase<sym, val, sym> {
  string v3Name = v3;         // spelling in framing 3
  string category = kind;     // enumerator of ninfer::FormatCategory
  int codeBits = bitsPerCode; // bits of one logical word or code
  int groupSize = group;      // elements of the last axis that share a scale; 0: none or the whole row
  int qmin = codeMin;         // legal signed codes of the grouped integer formats, else 0
  int qmax = codeMax;
  string scaleWord = scale;   // word of one scale: "", "binary16", "e4m3fn", "bfloat16"
}

def Ninfer_FormatBF16 : Ninfer_FormatCase<"BF16", 0, "bf16", "Direct", 16, 0, 0, 0, "">;
def Ninfer_FormatFP32 : Ninfer_FormatCase<"FP32", 1, "fp32", "Direct", 32, 0, 0, 0, "">;
def Ninfer_FormatI32 : Ninfer_FormatCase<"I32", 2, "int32", "Direct", 32, 0, 0, 0, "">;
def Ninfer_FormatQ4 : Ninfer_FormatCase<"Q4G64_F16S", 3, "q4_g64_fp16", "GroupedInteger", 4, 64, -8, 7, "binary16">;
def Ninfer_FormatQ5 : Ninfer_FormatCase<"Q5G64_F16S", 4, "q5_g64_fp16", "GroupedInteger", 5, 64, -16, 15, "binary16">;
def Ninfer_FormatQ6 : Ninfer_FormatCase<"Q6G64_F16S", 5, "q6_g64_fp16", "GroupedInteger", 6, 64, -32, 31, "binary16">;
def Ninfer_FormatW8 : Ninfer_FormatCase<"W8G32_F16S", 6, "q8_g32_fp16", "GroupedInteger", 8, 32, -127, 127, "binary16">;
def Ninfer_FormatNVFP4 : Ninfer_FormatCase<"NVFP4", 7, "nvfp4", "BlockScaledFloat", 4, 16, 0, 0, "e4m3fn">;
def Ninfer_FormatFP8 : Ninfer_FormatCase<"FP8_E4M3FN_ROW_BF16S", 8, "fp8_e4m3fn_row_bf16", "RowScaledFloat", 8, 0, 0, 0, "bfloat16">;

class Ninfer_LayoutCase<string sym, int val, string canonical, string v3, int align,
                        list<Ninfer_FormatCase> accepted> : I32EnumCase<sym, val, canonical> {
  string v3Name = v3;
  int alignment = align;                      // bytes, of the object's offset in the payload
  list<Ninfer_FormatCase> formats = accepted; // the registered pairs
}

def Ninfer_LayoutContiguous : Ninfer_LayoutCase<"ContiguousLeV1", 0, "contiguous-le-v1", "contiguous_le_v1", 256,
    [Ninfer_FormatBF16, Ninfer_FormatFP32, Ninfer_FormatI32]>;
def Ninfer_LayoutRowSplit : Ninfer_LayoutCase<"RowSplitK128V1", 1, "row-split-k128-v1", "row_split_k128_v1", 256,
    [Ninfer_FormatQ4, Ninfer_FormatQ5, Ninfer_FormatQ6, Ninfer_FormatW8]>;
def Ninfer_LayoutBlockScale : Ninfer_LayoutCase<"BlockScaleK16M128x4V1", 2, "blockscale-k16-m128x4-v1",
    "block_scale_k16_m128x4_v1", 256, [Ninfer_FormatNVFP4]>;
def Ninfer_LayoutRowScale : Ninfer_LayoutCase<"RowScaleV1", 3, "row-scale-v1", "row_scale_v1", 256,
    [Ninfer_FormatFP8]>;

class Ninfer_PolicyCase<string sym, int val, int lowestBits> : I32EnumCase<sym, val, sym> {
  int minActivationBits = lowestBits; // the narrowest activation a kernel may compute with
}

def Ninfer_PolicyA16 : Ninfer_PolicyCase<"A16Only", 0, 16>;
def Ninfer_PolicyA8 : Ninfer_PolicyCase<"AllowA8", 1, 8>;
def Ninfer_PolicyA4 : Ninfer_PolicyCase<"AllowA4", 2, 4>;

#endif // NINFER_DIALECT_REGISTRY_TD
