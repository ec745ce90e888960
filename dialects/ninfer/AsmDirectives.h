// Custom directives shared by the assembly formats of the operations. Private to the dialect.
#ifndef NINFER_DIALECTS_NINFER_ASMDIRECTIVES_H
#define NINFER_DIALECTS_NINFER_ASMDIRECTIVES_H

#include "artifact/formats/Format.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"

namespace ninfer {

class FormatAttr;
class LayoutAttr;

/// An attribute dictionary whose numbers go without their default types: `{eps = 1.0e-05, heads =
/// 4}`. `unit_offset = false` is the default and is left out. The generated printer has put a space
/// before; every user has a required attribute.
mlir::ParseResult parseCompactDict(mlir::OpAsmParser &parser, mlir::NamedAttrList &attributes);
void printCompactDict(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                      mlir::DictionaryAttr attributes);

/// `576x1536, Q4G64_F16S, "row-split-k128-v1"`; an object of rank 0 starts with `scalar`.
mlir::ParseResult parseObjectEncoding(mlir::OpAsmParser &parser, mlir::DenseI64ArrayAttr &shape,
                                      FormatAttr &format, LayoutAttr &layout);
void printObjectEncoding(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                         mlir::DenseI64ArrayAttr shape, FormatAttr format, LayoutAttr layout);

} // namespace ninfer

#endif // NINFER_DIALECTS_NINFER_ASMDIRECTIVES_H
