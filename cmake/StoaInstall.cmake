# What `cmake --install` lays down, and the archive that `cpack` makes of it (scripts/bundle.sh): a folder that runs from
# wherever it lies. Libraries that every Linux of this age has (glibc), NVIDIA's and MPI, which belong to the machine, stay out;
# all others come along, with their licences.
include(GNUInstallDirs)

# In the build as well: some linkers leave CMake no room to change the path when it installs.
set_target_properties(stoa PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" INSTALL_RPATH_USE_LINK_PATH ON
                                      BUILD_WITH_INSTALL_RPATH ON)
# DT_RPATH, which libraries that other libraries need are looked for in as well; DT_RUNPATH serves the program's own alone.
target_link_options(stoa PRIVATE LINKER:--disable-new-dtags)
install(TARGETS stoa RUNTIME_DEPENDENCY_SET stoa_libraries COMPONENT program)
install(RUNTIME_DEPENDENCY_SET stoa_libraries COMPONENT program
        PRE_EXCLUDE_REGEXES "^lib(c|m|dl|rt|pthread)\\.so" "^ld-linux" "^libmpi\\.so" "^lib(cuda|cudart|cublas|cublasLt|cudnn|nccl|nvidia).*\\.so")
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/stoa COMPONENT program)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/stoa COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DATADIR}/stoa COMPONENT program)
# Debian keeps each library's licence beside its package.
install(CODE "set(architecture ${CMAKE_LIBRARY_ARCHITECTURE})" COMPONENT program)
install(SCRIPT cmake/InstallLicences.cmake COMPONENT program)

set(CPACK_GENERATOR TXZ)
set(CPACK_THREADS 0)
string(TOLOWER ${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR} system)
set(CPACK_PACKAGE_FILE_NAME stoa-${PROJECT_VERSION}-${system})
if(STOA_HAS_CUDA)
  string(APPEND CPACK_PACKAGE_FILE_NAME -cuda${CUDAToolkit_VERSION_MAJOR})
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
