# Two ways to parse a header once instead of once per file: precompiled headers for what nearly every file reads, and
# compilations of twelve files of a module together. Only where no compiler cache is used: a cache keeps objects by the
# text that was compiled, and serves other checkouts and small changes better without this. So names in unnamed
# namespaces are unique in a module (scripts/check_unique_names.py), or its files are named in SEPARATE.
if(STOA_CCACHE)
  set(parse_once_default OFF)
else()
  set(parse_once_default ON)
endif()
option(STOA_PARSE_ONCE "Parse headers once for many files" ${parse_once_default})
if(STOA_PARSE_ONCE)
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cc "")
  add_library(stoa_precompiled STATIC ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(stoa_precompiled PRIVATE stoa_options fmt::fmt Threads::Threads)
  target_precompile_headers(stoa_precompiled PRIVATE
    <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <filesystem> <functional> <map>
    <memory> <mutex> <optional> <set> <span> <stop_token> <string> <string_view> <thread> <tuple> <unordered_map> <utility>
    <variant> <vector> <fmt/format.h>)
  if(STOA_TESTS)
    add_library(stoa_precompiled_tests STATIC ${CMAKE_BINARY_DIR}/precompiled.cc)
    target_link_libraries(stoa_precompiled_tests PRIVATE stoa_options fmt::fmt Threads::Threads GTest::gtest GTest::gmock)
    target_precompile_headers(stoa_precompiled_tests PRIVATE <algorithm> <filesystem> <functional> <map> <memory> <string> <vector>
                              <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endif()

# stoa_parse_once(<target> [TESTS])
function(stoa_parse_once target)
  cmake_parse_arguments(ARG "TESTS" "" "" ${ARGN})
  if(NOT STOA_PARSE_ONCE)
    return()
  endif()
  # With them GCC 12 no longer knows which lines are the library's own and reports what it silences elsewhere.
  target_compile_options(${target} PRIVATE -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
  if(ARG_TESTS)
    target_precompile_headers(${target} REUSE_FROM stoa_precompiled_tests)
  else()
    target_precompile_headers(${target} REUSE_FROM stoa_precompiled)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
endfunction()
