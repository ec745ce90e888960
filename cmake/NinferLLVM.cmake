# MLIR/LLVM 22 from Debian's packages, linked as the shared libMLIR and libLLVM.
# The version file of these packages wants major.minor, so "22.1" and not "22".
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
set(MLIR_LINK_MLIR_DYLIB ON)
set(LLVM_LINK_LLVM_DYLIB ON)
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR})   # otherwise the target mlir-doc writes into /docs
set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/lib)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
separate_arguments(_defs NATIVE_COMMAND "${LLVM_DEFINITIONS}")   # LLVM hands over ONE string
list(TRANSFORM _defs REPLACE "^-D" "")
set(NINFER_LLVM_DEFINITIONS ${_defs})
set(NINFER_TBLGEN_INCLUDES ${MLIR_INCLUDE_DIRS})
