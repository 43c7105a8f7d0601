# How everything here is compiled: languages, warnings, sanitizers, and where the products go.

set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
# Programs find libleat next to themselves, wherever the tree is copied.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# Off for packages: the next compiler may warn of more.
option(LEAT_WERROR "Warnings are errors" ON)
if(LEAT_WERROR)
  add_compile_options(-Werror)
endif()
add_compile_options(-Wall -Wextra -Wshadow -Wvla -Wundef -fno-common
                    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                    $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
                    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>)

if(LEAT_SANITIZE)
  add_compile_options(-fsanitize=${LEAT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LEAT_SANITIZE})
  # This check opens a pipe to see whether there is memory: where a process has no descriptors left, it calls any object broken.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=vptr>)
  if(LEAT_SANITIZE MATCHES thread)
    # The thread sanitizer does not know fences. Asio uses them in addition to its locks.
    add_compile_definitions(ASIO_DISABLE_FENCED_BLOCK)
  endif()
  # A program that may lie anywhere corrects its addresses when it begins, and each sanitized variable has some: that was a
  # third of the time that `leat` took to begin.
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  # Several times as fast as the other linker for such programs.
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=lld LEAT_HAS_LLD)
  if(LEAT_HAS_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options(-fuse-ld=lld)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)
  # These compilers have coroutines, but do not tell libstdc++ and Asio.
  add_compile_definitions(__cpp_impl_coroutine=201902L)
endif()
if(LEAT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Whether to build libleat for 32-bit programs as well: for tests, where the compiler can. Only GCC does there without a
# library of its own what 64-bit atomics need.
function(leat_check_32bit result)
  include(CheckCSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS "-m32")
  check_c_source_compiles("#include <stdio.h>
    int main(void) { return puts(\"\"); }" LEAT_COMPILER_MAKES_32BIT)
  if(LEAT_TESTS AND LEAT_COMPILER_MAKES_32BIT AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

function(leat_make_32bit target)
  target_compile_options(${target} PRIVATE -m32)
  target_link_options(${target} PRIVATE -m32)
endfunction()

# One static library per folder of src/. A library may include only what it links (tools/check-includes).
function(leat_component name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(leat-${name} STATIC ${ARG_SOURCES})
  target_include_directories(leat-${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(leat-${name} PUBLIC ${ARG_LINKS})
  leat_unity(leat-${name})
endfunction()

# Most of the time for a small file is spent on its headers, so files that are compiled together take a third of the
# time.
function(leat_unity target)
  if(LEAT_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 9)
    # Files that are compiled together share one anonymous namespace, so this warning would be wrong.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# Test files use the same names, so they cannot be compiled together. They share precompiled headers instead, which the
# target `first` makes.
function(leat_precompile target first)
  if(NOT LEAT_UNITY)
    return()
  endif()
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE
      <gtest/gtest.h> <fmt/format.h> <tl/expected.hpp> <filesystem> <map> <memory> <optional> <string> <variant> <vector>)
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()
