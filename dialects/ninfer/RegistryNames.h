// The closed registry inside IR: a value is parsed from and printed as its canonical name; the
// legal pairs are those of the artifact reader.
#ifndef NINFER_DIALECTS_NINFER_REGISTRYNAMES_H
#define NINFER_DIALECTS_NINFER_REGISTRYNAMES_H

#include "artifact/formats/Format.h"

#include "mlir/IR/OpImplementation.h"

namespace ninfer {

/// Parses a keyword or a string that is the canonical name of an `EnumT`; any other name is an
/// error that lists the registered ones. `EnumT` is Format, Layout or ActivationPolicy.
template <typename EnumT>
mlir::FailureOr<EnumT> parseRegistryName(mlir::AsmParser &parser);

template <>
mlir::FailureOr<Format> parseRegistryName<Format>(mlir::AsmParser &parser);
template <>
mlir::FailureOr<Layout> parseRegistryName<Layout>(mlir::AsmParser &parser);
template <>
mlir::FailureOr<ActivationPolicy> parseRegistryName<ActivationPolicy>(mlir::AsmParser &parser);

/// Prints the canonical name, quoted unless it is an identifier.
void printRegistryName(mlir::AsmPrinter &printer, Format value);
void printRegistryName(mlir::AsmPrinter &printer, Layout value);
void printRegistryName(mlir::AsmPrinter &printer, ActivationPolicy value);

/// An error that lists the registered pairs when `layout` cannot store `format`.
mlir::LogicalResult verifyRegisteredPair(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                         Format format, Layout layout);

} // namespace ninfer

#endif // NINFER_DIALECTS_NINFER_REGISTRYNAMES_H
