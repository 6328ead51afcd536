# stoa_kernels(<folder of a module> <directory> [SETS <instruction sets…>] [LEVEL <options>])
#
# Files named *_kernels.cc are compiled once per instruction set and linked into the module (or are a library
# `stoa_<folder>` of their own where there is no such module); the library itself stays baseline, the choice is made at
# run time (ops/cpu/instruction_set.h). In such a file
#   STOA_ISA        is the namespace of this compilation: portable, avx2, avx512 or avx512bf16
#   STOA_ISA_LEVEL  is 0, 1, 2 or 3 (ops/cpu/simd.h wraps the vectors)
# and everything it defines lives in `namespace stoa::ops::cpu::STOA_ISA`. It exports one table of function pointers,
# declared per instruction set with STOA_FOR_EACH_ISA (ops/cpu/kernel_table.h). A file whose header of the same name
# declares it with STOA_FOR_EACH_WIDTH is not compiled for avx512bf16. SETS: only those, where the processor has them.
# LEVEL: of optimisation, -O3 unless another is named.
#
# An inline function of a shared header that is not inlined would be emitted here with this file's instructions, and the
# linker may keep that copy for everybody. So kernel files include nothing but declarations, simd.h and intrinsics, and
# the test `kernels.symbols.<folder>` refuses weak symbols outside STOA_ISA.
function(stoa_kernels folder directory)
  cmake_parse_arguments(ARG "" "" "LEVEL;SETS" ${ARGN})
  if(STOA_SANITIZE)  # GCC takes minutes per file to optimise their checks
    set(ARG_LEVEL -O1)
  elseif(NOT ARG_LEVEL)
    set(ARG_LEVEL -O3)
  endif()
  string(REPLACE "/" "_" name ${folder})
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${directory}/*_kernels.cc)
  if(NOT kernels)
    return()
  endif()

  if(NOT TARGET stoa_${name})
    add_library(stoa_${name} STATIC)
  endif()

  set(sets portable)
  set(level_portable 0)
  set(flags_portable "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    list(APPEND sets avx2 avx512 avx512bf16)
    set(level_avx2 1)
    set(flags_avx2 -mavx2 -mfma -mf16c)
    set(level_avx512 2)
    set(flags_avx512 ${flags_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mprefer-vector-width=512)
    set(level_avx512bf16 3)
    set(flags_avx512bf16 ${flags_avx512} -mavx512bf16)
  endif()

  if(ARG_SETS)
    string(REPLACE ";" "|" wanted "${ARG_SETS}")
    list(FILTER sets INCLUDE REGEX "^(${wanted})$")
  endif()

  # Those with instructions of their own for products of bf16 numbers.
  set(kernels_bf16)
  foreach(kernel ${kernels})
    cmake_path(REPLACE_EXTENSION kernel h OUTPUT_VARIABLE header)
    set(by_width)
    if(EXISTS ${header})
      file(STRINGS ${header} by_width REGEX "^STOA_FOR_EACH_WIDTH")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    endif()
    if(NOT by_width)
      list(APPEND kernels_bf16 ${kernel})
    endif()
  endforeach()

  set(objects)
  foreach(set ${sets})
    set(target stoa_${name}_${set})
    if(set STREQUAL avx512bf16)
      add_library(${target} OBJECT ${kernels_bf16})
    else()
      add_library(${target} OBJECT ${kernels})
    endif()
    target_link_libraries(${target} PRIVATE stoa_options)
    # Kernels are optimised in every preset: unoptimised vector code would make the tests of debug builds crawl.
    # -Wno-psabi: vectors are passed between functions of this file only. -Wno-uninitialized: GCC 12 warns of
    # the deliberately undefined registers in its own intrinsics.
    target_compile_options(${target} PRIVATE ${ARG_LEVEL} -Wno-psabi -Wno-uninitialized -Wno-maybe-uninitialized
                                             ${flags_${set}})
    target_compile_definitions(${target} PRIVATE STOA_ISA=${set} STOA_ISA_LEVEL=${level_${set}})
    if(STOA_PRECOMPILE)  # the compiler's intrinsics are 3 MB of text
      target_precompile_headers(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src/ops/cpu/simd_math.h)
    endif()
    target_sources(stoa_${name} PRIVATE $<TARGET_OBJECTS:${target}>)
    list(APPEND objects $<FILTER:$<TARGET_OBJECTS:${target}>,EXCLUDE,gch$>)  # a precompiled header is none
  endforeach()

  if(STOA_TESTS AND NOT STOA_SANITIZE)
    add_test(NAME kernels.symbols.${name}
             COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} "-DOBJECTS=${objects}"
                     -P ${CMAKE_SOURCE_DIR}/cmake/CheckKernelSymbols.cmake)
  endif()
endfunction()
