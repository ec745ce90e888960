// Attributes: the three registry enums, a stored element range and a bound plane.
// The C++ enums and their spellings come from artifact/formats, which is generated from
// NinferRegistry.td; nothing is listed here a second time.
#ifndef NINFER_DIALECTS_NINFER_NINFERATTRS_TD
#define NINFER_DIALECTS_NINFER_NINFERATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "dialects/ninfer/NinferDialect.td"

//===----------------------------------------------------------------------===//
// Parameters and bases
//===----------------------------------------------------------------------===//

/// A value of a registry enum, spelled by its canonical name (quoted when it is not an identifier).
class Ninfer_RegistryParameter<string enumName, string desc>
    : AttrOrTypeParameter<"::ninfer::" # enumName, desc> {
  let parser = "::ninfer::parseRegistryName<::ninfer::" # enumName # ">($_parser)";
  let printer = "::ninfer::printRegistryName($_printer, $_self)";
}

class Ninfer_Attr<string name, string attrMnemonic> : AttrDef<Ninfer_Dialect, name> {
  let mnemonic = attrMnemonic;
}

/// An attribute that wraps one registry enum; operations see the C++ enum.
class Ninfer_RegistryAttr<string enumName, string attrMnemonic> : Ninfer_Attr<enumName, attrMnemonic> {
  let parameters = (ins Ninfer_RegistryParameter<enumName, "registry entry">:$value);
  let assemblyFormat = "`<` $value `>`";
  let returnType = "::ninfer::" # enumName;
  let convertFromStorage = "$_self.getValue()";
  let constBuilderCall = "::ninfer::" # enumName # "Attr::get($_builder.getContext(), $0)";
}

//===----------------------------------------------------------------------===//
// Registry attributes
//===----------------------------------------------------------------------===//

def Ninfer_FormatAttr : Ninfer_RegistryAttr<"Format", "format"> {
  let summary = "numeric format of the closed registry";
  let description = [{ Example: `#ninfer.format<Q4G64_F16S>`. }];
}

def Ninfer_LayoutAttr : Ninfer_RegistryAttr<"Layout", "layout"> {
  let summary = "storage layout of the closed registry";
  let description = [{ Example: `#ninfer.layout<"row-split-k128-v1">`. }];
}

def Ninfer_ActivationPolicyAttr : Ninfer_RegistryAttr<"ActivationPolicy", "policy"> {
  let summary = "coarsest activation precision a use of a parameter allows";
  let description = [{ Example: `#ninfer.policy<A16Only>`. }];
}

//===----------------------------------------------------------------------===//
// Binding attributes
//===----------------------------------------------------------------------===//

def Ninfer_PartAttr : Ninfer_Attr<"Part", "part"> {
  let summary = "logical elements [begin, end) of one stored object, in C order";
  let description = [{ Example: `#ninfer.part<@"object/text.qkv", 0, 331776>`. }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$object, "int64_t":$begin, "int64_t":$end);
  let assemblyFormat = "`<` $object `,` $begin `,` $end `>`";
  let genVerifyDecl = 1;
}

def Ninfer_PlaneAttr : Ninfer_Attr<"Plane", "plane"> {
  let summary = "bytes [offset, offset + bytes) of the payload that hold one plane of a parameter";
  let description = [{
    `offset` counts from the start of the logical payload and addresses the parameter's first row.
    Example: `#ninfer.plane<4096, 165888>`.
  }];
  let parameters = (ins "int64_t":$offset, "int64_t":$bytes);
  let assemblyFormat = "`<` $offset `,` $bytes `>`";
  let genVerifyDecl = 1;
}

#endif // NINFER_DIALECTS_NINFER_NINFERATTRS_TD
