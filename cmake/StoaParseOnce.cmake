# Two ways to parse a header once instead of once per file: units, which are many files of a module, or of its tests,
# compiled together, and precompiled headers for what nearly every file reads. Names in unnamed namespaces are therefore
# unique in a module and in its tests (scripts/check_unique_names.py), or files are named in SEPARATE. A unit hides what a
# file of it forgets to include: tests/slow/separate_files.py compiles each by itself.
option(STOA_PARSE_ONCE "Parse headers once for many files" ON)

# A cache keeps objects by the text that was compiled, which a precompiled header is not.
if(STOA_PARSE_ONCE AND NOT STOA_CCACHE)
  set(STOA_PRECOMPILE ON)
else()
  set(STOA_PRECOMPILE OFF)
endif()

# stoa_precompile(<name> HEADERS <headers…> LIBRARIES <targets whose headers these are…> [QUICKLY | TESTS]): <name> and
# <name>_json, which adds nlohmann's JSON.
function(stoa_precompile name)
  cmake_parse_arguments(ARG "QUICKLY;TESTS;JSON" "" "HEADERS;LIBRARIES" ${ARGN})
  if(NOT ARG_JSON)
    stoa_precompile(${name}_json JSON ${ARGN})
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cc "")
  add_library(${name} STATIC ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(${name} PRIVATE stoa_options fmt::fmt Threads::Threads ${ARG_LIBRARIES})
  if(ARG_QUICKLY)
    stoa_compile_quickly(${name})
  elseif(ARG_TESTS)
    stoa_compile_tests(${name})
  endif()
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  if(ARG_JSON)
    target_link_libraries(${name} PRIVATE nlohmann_json::nlohmann_json)
    target_precompile_headers(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src/base/json_instances.h)
  endif()
endfunction()

# One per level of optimization: GCC 14 reads them only at the optimization at which they were made.
if(STOA_PRECOMPILE)
  set(headers <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <filesystem> <functional>
      <map> <memory> <mutex> <optional> <set> <span> <stop_token> <string> <string_view> <thread> <tuple> <unordered_map>
      <utility> <variant> <vector> <fmt/format.h>)
  stoa_precompile(stoa_precompiled HEADERS ${headers})
  stoa_precompile(stoa_precompiled_quickly QUICKLY HEADERS ${headers})
  if(STOA_TESTS)
    stoa_precompile(stoa_precompiled_tests TESTS LIBRARIES GTest::gtest GTest::gmock
                    HEADERS <algorithm> <filesystem> <functional> <map> <memory> <string> <vector> <fmt/format.h> <gmock/gmock.h>
                    <gtest/gtest.h>)
  endif()
endif()

# stoa_compile(<target> [TESTS | QUICKLY] [JSON] [ONE_BY_ONE] [LARGE_UNITS]): how the files of a target are compiled
# (stoa_compile_tests, stoa_compile_quickly). JSON: many of them read or write it. ONE_BY_ONE: names of their unnamed namespaces
# are not unique. LARGE_UNITS: of 30 files rather than 12, up to a third less to compile in all. They take 40 MB of memory a
# file, and cost more when a file changes: a cache is for that.
function(stoa_compile target)
  cmake_parse_arguments(ARG "TESTS;QUICKLY;JSON;ONE_BY_ONE;LARGE_UNITS" "" "" ${ARGN})
  if(ARG_TESTS)
    stoa_compile_tests(${target})
  elseif(ARG_QUICKLY)
    stoa_compile_quickly(${target})
  endif()
  if(NOT STOA_PARSE_ONCE)
    return()
  endif()
  if(ARG_TESTS)
    set(which _tests)
  elseif(ARG_QUICKLY)
    set(which _quickly)
  endif()
  if(ARG_JSON)
    string(APPEND which _json)
  endif()
  # GCC 12 no longer knows which lines are the library's own and reports what it silences elsewhere.
  target_compile_options(${target} PRIVATE -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
  if(STOA_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM stoa_precompiled${which})
  endif()
  if(NOT ARG_ONE_BY_ONE)
    set(files 12)
    set(many ${ARG_TESTS})
    if(ARG_LARGE_UNITS AND NOT STOA_CCACHE)
      set(files 30)
      set(many ON)
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files} STOA_MANY_TOGETHER "${many}")
  endif()
endfunction()
