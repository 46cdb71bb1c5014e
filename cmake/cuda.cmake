# Whether buffers in the memory of CUDA devices are supported: gcoll_has_cuda, and what that links, gcoll_cuda_libraries.
set(gcoll_cuda_libraries "")
set(missing "")
set(failed 0)
set(gcoll_cuda_least_version 11.8) # the first that knows devices of architecture 90

if(NOT GCOLL_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    set(missing "no CUDA toolkit found; nvcc in PATH, or CUDAToolkit_ROOT, says where it is")
  elseif(CUDAToolkit_VERSION VERSION_LESS gcoll_cuda_least_version)
    set(missing "CUDA toolkit ${CUDAToolkit_VERSION} is older than ${gcoll_cuda_least_version}")
  elseif(NOT TARGET CUDA::cudart_static)
    set(missing "CUDA toolkit in ${CUDAToolkit_BIN_DIR}/.. has no libcudart_static.a")
  else()
    # Instructions for the devices of data centres; others translate those of the first or last kind, once, when they
    # first load them.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 75-virtual 80-real 90)
    endif()
    # One small file tells whether the compiler works. CMake's check_language tries as much as enable_language then does again.
    if(NOT CMAKE_CUDA_COMPILER)
      unset(CMAKE_CUDA_COMPILER CACHE) # a look-up that failed is tried again
      if(NOT DEFINED ENV{CUDACXX})
        set(ENV{CUDACXX} "${CUDAToolkit_NVCC_EXECUTABLE}")
      endif()
      set(host_compiler "")
      if(DEFINED ENV{CUDAHOSTCXX})
        set(host_compiler -ccbin "$ENV{CUDAHOSTCXX}")
      endif()
      file(WRITE "${PROJECT_BINARY_DIR}/CMakeFiles/nothing.cu" "")
      execute_process(COMMAND "$ENV{CUDACXX}" ${host_compiler} -c "${PROJECT_BINARY_DIR}/CMakeFiles/nothing.cu" -o "${PROJECT_BINARY_DIR}/CMakeFiles/nothing.o"
                      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET TIMEOUT 60)
    endif()
    if(NOT failed)
      enable_language(CUDA)
    else()
      set(missing "$ENV{CUDACXX} does not work, or finds no C++ compiler that it takes (CUDAHOSTCXX)")
    endif()
  endif()
endif()
gcoll_optional_decide(CUDA "${missing}")

# The runtime library is linked in, so that programs start where there is none. It opens the driver when it is first used.
if(gcoll_has_cuda)
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)
  set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
  set(gcoll_cuda_libraries CUDA::cudart_static)
endif()
