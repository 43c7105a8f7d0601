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
  leat_precompile(leat-${name} leat-base)
endfunction()

# Most of the time that a small file takes goes into these headers. One set serves all targets of a kind: `first` makes
# it, the others use it.
function(leat_precompile target first)
  if(NOT LEAT_PRECOMPILE)
    return()
  endif()
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE
      <fmt/format.h> <tl/expected.hpp> <string> <vector> <variant> <optional> <filesystem> <map> <memory> ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()
