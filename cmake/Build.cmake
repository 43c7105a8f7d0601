# How everything here is compiled: the languages, the warnings, the sanitizers, and where products go.

set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
# Programs find libleat beside themselves, wherever the tree is copied to.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_compile_options(-Wall -Wextra -Werror -Wshadow -Wvla -Wundef -fno-common
                    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                    $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
                    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>)

if(LEAT_SANITIZE)
  add_compile_options(-fsanitize=${LEAT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LEAT_SANITIZE})
  if(LEAT_SANITIZE MATCHES thread)
    # Asio's fences, which that sanitizer does not know, are there beside its locks.
    add_compile_definitions(ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)
  # It has coroutines, and does not say so to libstdc++ and Asio.
  add_compile_definitions(__cpp_impl_coroutine=201902L)
endif()
if(LEAT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# One static library per folder of src/. What it links is what it may include (tools/check-includes).
function(leat_component name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(leat-${name} STATIC ${ARG_SOURCES})
  target_include_directories(leat-${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(leat-${name} PUBLIC ${ARG_LINKS})
  leat_unity(leat-${name})
endfunction()

# Most of the time that a small file takes goes into its headers, so files that are compiled together take a third of it.
function(leat_unity target)
  if(LEAT_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 9)
    # Anonymous namespaces of files that are compiled together are one namespace, in which that warning is wrong.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# Tests name the same things in their files, so they cannot be compiled together: they share precompiled headers, which
# `first` makes.
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
