# Headers that nearly every file reads, parsed once: a third of the time of a clean build. Only where no compiler cache
# is used: a cache keeps objects by the text that was compiled, and serves other checkouts better without this.
if(STOA_CCACHE)
  set(precompile_default OFF)
else()
  set(precompile_default ON)
endif()
option(STOA_PRECOMPILE "Parse standard and test headers once" ${precompile_default})
if(STOA_PRECOMPILE)
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

# stoa_precompile(<target> [TESTS])
function(stoa_precompile target)
  cmake_parse_arguments(ARG "TESTS" "" "" ${ARGN})
  if(NOT STOA_PRECOMPILE)
    return()
  endif()
  # With them GCC 12 no longer knows which lines are the library's own and reports what it silences elsewhere.
  target_compile_options(${target} PRIVATE -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
  if(ARG_TESTS)
    target_precompile_headers(${target} REUSE_FROM stoa_precompiled_tests)
  else()
    target_precompile_headers(${target} REUSE_FROM stoa_precompiled)
  endif()
endfunction()
