# The CUDA backend. Its host code is plain C++; kernels (src/ops/cuda/kernels/*.cu) are compiled twice: by nvcc, where
# STOA_CUDA is on and the toolkit is there, and by the C++ compiler for the block emulator, on which they are tested
# everywhere.
option(STOA_CUDA "Build the CUDA backend where the toolkit is found" OFF)
set(STOA_CUDA_ARCHITECTURES "80;86;89;90;100;120" CACHE STRING
    "Compute capabilities to compile for (PTX of the lowest is added); developers: one, for example 90")

set(STOA_HAS_CUDA OFF)
if(STOA_CUDA)
  find_package(CUDAToolkit 12.8 QUIET)
  if(CUDAToolkit_FOUND)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
    set(codes)
    foreach(architecture ${STOA_CUDA_ARCHITECTURES})
      list(APPEND codes ${architecture}-real)
    endforeach()
    list(GET STOA_CUDA_ARCHITECTURES 0 first)
    set(CMAKE_CUDA_ARCHITECTURES ${codes} ${first}-virtual)
    enable_language(CUDA)
    # CMake 3.25 does not know the later compilers' flag.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    if(STOA_CCACHE)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${STOA_CCACHE})
    endif()
    set(STOA_HAS_CUDA ON)
    message(STATUS "CUDA ${CUDAToolkit_VERSION}: the CUDA backend is built for sm_${STOA_CUDA_ARCHITECTURES}")
  else()
    message(WARNING "STOA_CUDA is on but no CUDA toolkit of version 12.8 or later was found: the program is built "
                    "without the CUDA backend (set CUDAToolkit_ROOT to the toolkit's folder)")
  endif()
endif()

# The kernels for the emulator: one C++ file per .cu file.
function(stoa_emulated_kernels target)
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ops/cuda/kernels/*.cu)
  set(sources)
  foreach(kernel ${kernels})
    get_filename_component(name ${kernel} NAME_WE)
    set(wrapper ${CMAKE_BINARY_DIR}/emulated/${name}.cc)
    file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"ops/cuda/kernels/${name}.cu\"\n" @ONLY)
    list(APPEND sources ${wrapper})
  endforeach()
  target_sources(${target} PRIVATE ${sources})
  set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# cuDNN's header-only C++ frontend (Apache-2.0 and MIT): the folder that holds cudnn_frontend.h. docs/dependencies.md
# says where it comes from. Without it the kernels of our own do all attention.
set(STOA_CUDNN_FRONTEND "" CACHE PATH "Folder of cudnn_frontend.h")

function(stoa_cuda_modules)
  stoa_module(device/cuda DEPENDS device LIBRARIES CUDA::cudart_static)
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ops/cuda/kernels/*.cu)
  # Instructions of warpgroups exist for sm_90a alone, whose code runs where that for sm_90 runs and nowhere else. Kernels
  # that use them stand in files of their own, so that the rest is compiled as for other chips.
  set(warpgroup_kernels ${CMAKE_SOURCE_DIR}/src/ops/cuda/kernels/grouped_warpgroups.cu)
  list(REMOVE_ITEM kernels ${warpgroup_kernels})
  add_library(stoa_ops_cuda_kernels STATIC ${kernels} ${CMAKE_SOURCE_DIR}/src/ops/cuda/kernels/launch_error.cc)
  if(90 IN_LIST STOA_CUDA_ARCHITECTURES)
    add_library(stoa_ops_cuda_warpgroup_kernels OBJECT ${warpgroup_kernels})
    set_target_properties(stoa_ops_cuda_warpgroup_kernels PROPERTIES CUDA_ARCHITECTURES 90a-real)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/ops/cuda/kernels/grouped_linear.cu PROPERTIES COMPILE_DEFINITIONS STOA_SM_90A)
    target_sources(stoa_ops_cuda_kernels PRIVATE $<TARGET_OBJECTS:stoa_ops_cuda_warpgroup_kernels>)
  endif()
  target_include_directories(stoa_ops_cuda_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src)
  # nvcc does not take the options of stoa_base; what links the kernels does.
  target_link_libraries(stoa_ops_cuda_kernels PRIVATE fmt::fmt PUBLIC CUDA::cudart_static INTERFACE stoa_base)
  set(cuda_options "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings -Xcompiler=-Wall,-Wextra,-Werror -Xptxas=-Werror>")
  target_compile_options(stoa_ops_cuda_kernels PRIVATE ${cuda_options})
  if(TARGET stoa_ops_cuda_warpgroup_kernels)
    target_include_directories(stoa_ops_cuda_warpgroup_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(stoa_ops_cuda_warpgroup_kernels PRIVATE fmt::fmt CUDA::cudart_static)
    target_compile_options(stoa_ops_cuda_warpgroup_kernels PRIVATE ${cuda_options})
  endif()

  stoa_module(ops/cuda/libraries DEPENDS ops_cuda device_cuda TEST_DEPENDS ops_cuda_kernels op_test_util LIBRARIES stoa_ops_cuda_kernels CUDA::cudart_static)
  find_path(STOA_CUDNN_FRONTEND_FOUND cudnn_frontend.h HINTS ${STOA_CUDNN_FRONTEND}
            ${CMAKE_SOURCE_DIR}/third_party/cudnn-frontend/include NO_CACHE)
  find_path(STOA_CUDNN_FOUND cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CACHE)
  if(STOA_CUDNN_FRONTEND_FOUND AND STOA_CUDNN_FOUND)
    message(STATUS "cuDNN's frontend: ${STOA_CUDNN_FRONTEND_FOUND}")
    add_library(stoa_cudnn_headers INTERFACE)
    target_include_directories(stoa_cudnn_headers SYSTEM INTERFACE ${STOA_CUDNN_FRONTEND_FOUND} ${STOA_CUDNN_FOUND})
    target_link_libraries(stoa_ops_cuda_libraries PRIVATE stoa_cudnn_headers)
    set_source_files_properties(ops/cuda/libraries/make_attention.cc PROPERTIES COMPILE_DEFINITIONS STOA_HAS_CUDNN=1)
  else()
    message(STATUS "cuDNN's frontend was not found (STOA_CUDNN_FRONTEND): attention by the kernels of our own")
    set_source_files_properties(ops/cuda/libraries/cudnn_attention.cc PROPERTIES HEADER_FILE_ONLY ON)
  endif()
endfunction()
