# Library, tool and test helpers shared by every folder.
#
# ninfer_library(<name> LAYER <n> SOURCES <files...> [DEPS <ninfer libs...>] [LINK <other libs...>] [MLIR])
#   LAYER is the height of the folder (docs/architecture.md). A dependency on a ninfer library of the
#   same or a greater layer stops the configuration: the downward rule is checked here and nowhere else.
#   MLIR marks a library that may include MLIR/LLVM headers; it gets LLVM's compile flags and the shared
#   libMLIR/libLLVM. A library without MLIR may not depend on one with it.

include_guard(GLOBAL)

add_library(ninfer_options INTERFACE)
target_include_directories(ninfer_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_compile_options(ninfer_options INTERFACE -Wall -Wextra -Wno-unused-parameter
  -ffunction-sections -fdata-sections -ffp-contract=off)
target_link_options(ninfer_options INTERFACE -Wl,--gc-sections)
if(NINFER_SANITIZE)
  target_compile_options(ninfer_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer -g)
  target_link_options(ninfer_options INTERFACE -fsanitize=address,undefined)
endif()

function(_ninfer_check_layer name layer mlir)
  foreach(dep IN LISTS ARGN)
    if(NOT TARGET ${dep})
      message(FATAL_ERROR "${name}: unknown ninfer library '${dep}' (declare lower folders first)")
    endif()
    get_target_property(dep_layer ${dep} NINFER_LAYER)
    if(NOT dep_layer LESS layer)
      message(FATAL_ERROR "downward rule: ${name} (layer ${layer}) may not link ${dep} (layer ${dep_layer})")
    endif()
    get_target_property(dep_mlir ${dep} NINFER_MLIR)
    if(dep_mlir AND NOT mlir)
      message(FATAL_ERROR "downward rule: ${name} is free of MLIR and may not link ${dep}, which needs it")
    endif()
  endforeach()
endfunction()

# The pre-compiled MLIR headers are built once, by the first MLIR target, and reused by the others.
function(_ninfer_use_mlir target)
  llvm_update_compile_flags(${target})
  target_include_directories(${target} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  target_compile_definitions(${target} PRIVATE ${NINFER_LLVM_DEFINITIONS})
  target_link_libraries(${target} PUBLIC MLIR LLVM)
endfunction()

function(ninfer_library name)
  cmake_parse_arguments(A "MLIR" "LAYER" "SOURCES;DEPS;LINK" ${ARGN})
  if(NOT A_LAYER)
    set(A_LAYER 0)
  endif()
  _ninfer_check_layer(${name} ${A_LAYER} ${A_MLIR} ${A_DEPS})
  add_library(${name} STATIC ${A_SOURCES})
  set_target_properties(${name} PROPERTIES NINFER_LAYER ${A_LAYER} NINFER_MLIR ${A_MLIR})
  target_link_libraries(${name} PUBLIC ninfer_options ${A_DEPS} PRIVATE ${A_LINK})
  if(A_MLIR)
    _ninfer_use_mlir(${name})
  endif()
endfunction()

# ninfer_tool(<name> SOURCES ... DEPS ... [LINK ...] [MLIR]): an executable in build/bin.
function(ninfer_tool name)
  cmake_parse_arguments(A "MLIR" "" "SOURCES;DEPS;LINK" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ninfer_options ${A_DEPS} ${A_LINK})
  if(A_MLIR)
    _ninfer_use_mlir(${name})
  endif()
  if(NINFER_COMPILER)
    set_target_properties(${name} PROPERTIES INSTALL_RPATH "\$ORIGIN/../lib:${LLVM_LIBRARY_DIR}")
  endif()
  install(TARGETS ${name})
endfunction()

# ninfer_test(<name> SOURCES ... DEPS ... [LINK ...] [MLIR]): a GoogleTest executable registered with CTest.
# NINFER_SOURCE_DIR and NINFER_BIN_DIR are compile definitions for finding fixtures and tools.
function(ninfer_test name)
  if(NOT NINFER_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "MLIR" "" "SOURCES;DEPS;LINK" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test-bin)
  target_link_libraries(${name} PRIVATE ninfer_options ${A_DEPS} ${A_LINK} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE NINFER_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    NINFER_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  if(A_MLIR)
    _ninfer_use_mlir(${name})
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
endfunction()
