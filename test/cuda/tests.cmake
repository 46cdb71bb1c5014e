# Buffers in the memory of CUDA devices. What elements become is proved on any machine; the executor against a runtime of
# the tests' own, where the toolkit's headers are; and what needs a device says so where there is none.
list(APPEND computing_tests cuda_elements_test)
gcoll_test(cuda_elements_test PLAIN LAYERS gcoll_base SOURCES cuda_elements_test.cc)
# A device is told operation by operation what to round; a compiler for the host may otherwise fuse a product with a sum.
target_compile_options(cuda_elements_test PRIVATE -ffp-contract=off)
# UBSan looks at the library, not at the tests: but what the kernels compute with is a header that only C++ and CUDA include.
if(CMAKE_C_FLAGS MATCHES "undefined")
  target_compile_options(cuda_elements_test PRIVATE -fsanitize=undefined -fno-sanitize-recover=all)
endif()
gcoll_test(cuda_open_test LAYERS gcoll_base gcoll_cuda SOURCES cuda_open_test.cc)
target_link_libraries(cuda_open_test PRIVATE ${CMAKE_DL_LIBS})
target_compile_definitions(cuda_open_test PRIVATE GCOLL_HAS_CUDA=$<BOOL:${gcoll_has_cuda}>)
if(NOT gcoll_has_cuda)
  return()
endif()
target_include_directories(cuda_open_test SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})

get_target_property(executor gcoll_cuda SOURCES)
list(FILTER executor INCLUDE REGEX "\\.c$")
list(TRANSFORM executor PREPEND "${PROJECT_SOURCE_DIR}/cuda/")
add_library(cuda_executor OBJECT ${executor})
target_link_libraries(cuda_executor PRIVATE gcoll_flags)
target_include_directories(cuda_executor SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
# Stands for NCCL: found by that name in a folder of its own, before any other.
add_library(cuda_fake_nccl SHARED ${CMAKE_CURRENT_LIST_DIR}/cuda_fake_nccl.c)
target_link_libraries(cuda_fake_nccl PRIVATE gcoll_flags)
target_include_directories(cuda_fake_nccl SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
set(nccl_dir ${CMAKE_CURRENT_BINARY_DIR}/fake_nccl)
set_target_properties(cuda_fake_nccl PROPERTIES PREFIX "" OUTPUT_NAME libnccl SUFFIX .so.2 LIBRARY_OUTPUT_DIRECTORY ${nccl_dir})

gcoll_test(cuda_executor_test LAYERS gcoll_base cuda_executor
           SOURCES cuda_executor_test.cc cuda_failure_test.cc cuda_fake_runtime.cc cuda_fake_kernels.cc)
add_dependencies(cuda_executor_test cuda_fake_nccl)
target_include_directories(cuda_executor_test SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(cuda_executor_test PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(cuda_executor_test PROPERTIES ENABLE_EXPORTS ON BUILD_RPATH ${nccl_dir})
target_link_options(cuda_executor_test PRIVATE LINKER:--disable-new-dtags) # also before LD_LIBRARY_PATH

# Those that need a GPU.
gcoll_test(cuda_gpu_test LAYERS gcoll_base gcoll_cuda SOURCES cuda_gpu_test.cc LABELS gpu TIMEOUT 300)
target_include_directories(cuda_gpu_test SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})

# Structs of CUDA with a member of an anonymous namespace: GCC allows that in the file that it compiles, and in none that it includes.
set_source_files_properties(cuda/cuda_fake_runtime.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
