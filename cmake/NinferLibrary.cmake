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
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports every `"literal" + std::string` as overlapping memory (its bug 105651, fixed in 13).
  target_compile_options(ninfer_options INTERFACE -Wno-restrict)
endif()
target_link_options(ninfer_options INTERFACE -Wl,--gc-sections)
if(NINFER_FUZZ)
  target_compile_options(ninfer_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(NINFER_SANITIZE OR NINFER_FUZZ)
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

# Pre-compiled MLIR headers (cmake/pch), built once and reused by every MLIR target: two thirds of the time of a
# file that includes MLIR go into its headers. Clang only; another compiler reads the headers as usual.
option(NINFER_PCH "Pre-compiled headers for the targets that use MLIR" ON)

function(_ninfer_mlir_flags target)
  llvm_update_compile_flags(${target})
  target_include_directories(${target} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  target_compile_definitions(${target} PRIVATE ${NINFER_LLVM_DEFINITIONS})
endfunction()

function(_ninfer_use_mlir target)
  _ninfer_mlir_flags(${target})
  target_link_libraries(${target} PUBLIC MLIR LLVM)
  if(NOT NINFER_PCH OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  if(NOT TARGET ninfer_mlir_pch)
    add_library(ninfer_mlir_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch/MlirPch.cpp)
    target_link_libraries(ninfer_mlir_pch PRIVATE ninfer_options)
    _ninfer_mlir_flags(ninfer_mlir_pch)
    _ninfer_pch_flags(ninfer_mlir_pch)
    target_precompile_headers(ninfer_mlir_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch/MlirPch.h)
  endif()
  _ninfer_pch_flags(${target})
  target_precompile_headers(${target} REUSE_FROM ninfer_mlir_pch)
endfunction()

# What makes the headers identical for every user and cacheable: no time stamp in the file, position-independent
# code of one kind (executables would get -fPIE), and ccache told that a pre-compiled header may be cached.
function(_ninfer_pch_flags target)
  target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$")
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
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
