# Compiler settings shared by every target.
find_program(STOA_CCACHE ccache)
if(STOA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${STOA_CCACHE})
endif()
find_program(STOA_MOLD mold)
if(STOA_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(stoa_options INTERFACE)
target_compile_options(stoa_options INTERFACE -Wall -Wextra -Wconversion -Wno-sign-conversion -fno-math-errno
                       -Wno-restrict  # GCC 12 sees overlaps in std::string that cannot be (GCC bug 105651)
                       # GCC's check takes half a minute per file that derives a backend; clang-tidy has -Wunsequenced.
                       -Wno-sequence-point)
# Of tests, or of many files, that are compiled together, a local name may shadow one of another file.
target_compile_options(stoa_options INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:STOA_MANY_TOGETHER>>>:-Wshadow>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(stoa_options INTERFACE -Wno-unknown-warning-option)
endif()
# GCC searches its heap for garbage whenever that has doubled, from 128 MB on: 4 to 9 % of its time. Nothing is collected
# below 512 MB, which most units do not reach. With a cache the time is spent once, and other options would be other objects.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT STOA_CCACHE)
  target_compile_options(stoa_options INTERFACE --param=ggc-min-heapsize=524288)
endif()
if(STOA_WERROR)
  target_compile_options(stoa_options INTERFACE -Werror)
endif()
# Contraction of a*b+c into fma would make results depend on the compiler; kernels ask for fma where they want it.
target_compile_options(stoa_options INTERFACE -ffp-contract=off)
target_include_directories(stoa_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
# stoa_compile_quickly(<target>): for code that nobody waits for, and whose compilation people do wait for.
function(stoa_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()
# stoa_compile_tests(<target>): tests are not optimised: they spend their time in the program's code.
function(stoa_compile_tests target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE" AND CMAKE_BUILD_TYPE STREQUAL "Release")
    target_link_options(${target} PRIVATE $<TARGET_OBJECTS:stoa_test_templates>)  # base/test_templates.cc says why
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS $<TARGET_OBJECTS:stoa_test_templates>)
  endif()
endfunction()
if(STOA_POISON)
  target_compile_definitions(stoa_options INTERFACE STOA_POISON=1)
endif()
if(STOA_SANITIZE)
  # With what sanitizers add to it, GCC takes the standard library's regular expressions for unwritten.
  target_compile_options(stoa_options INTERFACE -fsanitize=${STOA_SANITIZE} -fno-omit-frame-pointer -g1
                         -Wno-maybe-uninitialized)
  target_link_options(stoa_options INTERFACE -fsanitize=${STOA_SANITIZE})
  if(STOA_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Asio has fences, which ThreadSanitizer does not see; its mutexes order the same.
    target_compile_options(stoa_options INTERFACE -Wno-tsan)
  endif()
endif()
if(STOA_FUZZ)
  target_compile_options(stoa_options INTERFACE -fsanitize=fuzzer-no-link)
  add_custom_target(fuzz)
endif()
