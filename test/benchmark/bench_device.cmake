# gcoll_bench with buffers in the memory of devices: as it is, where there may be none; and with the tests' own runtime in
# place of CUDA's.
gcoll_test(bench_device_test SOURCES bench_device_test.cc)
target_link_libraries(bench_device_test PRIVATE gcoll PkgConfig::json_c)
gcoll_test_programs(bench_device_test GCOLL_BENCH gcoll_bench)
if(NOT gcoll_has_cuda)
  return()
endif()

add_executable(gcoll_bench_fake ${PROJECT_SOURCE_DIR}/benchmark/main.c ${CMAKE_CURRENT_LIST_DIR}/bench_device_runtime.cc
               ${CMAKE_CURRENT_LIST_DIR}/../cuda/cuda_fake_runtime.cc ${CMAKE_CURRENT_LIST_DIR}/../cuda/cuda_fake_kernels.cc
               $<TARGET_OBJECTS:gcoll_bench_cuda>)
foreach(layer IN LISTS core_layers)
  if(layer STREQUAL gcoll_cuda)
    set(layer cuda_executor)
  endif()
  target_sources(gcoll_bench_fake PRIVATE $<TARGET_OBJECTS:${layer}>)
endforeach()
target_compile_features(gcoll_bench_fake PRIVATE cxx_std_17)
target_include_directories(gcoll_bench_fake SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(gcoll_bench_fake PRIVATE gcoll_bench_parts gcoll_bench_plan_reader gcoll_cli gcoll_flags PkgConfig::json_c PkgConfig::libuv
                      PkgConfig::hiredis Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(gcoll_bench_fake PRIVATE -Wl,--wrap=cudaGetDeviceCount,--wrap=cudaMemcpyAsync,--disable-new-dtags)
set_target_properties(gcoll_bench_fake PROPERTIES ENABLE_EXPORTS ON BUILD_RPATH ${CMAKE_CURRENT_BINARY_DIR}/fake_nccl)

gcoll_test(bench_device_fake_test UNSANITIZED All/Grid.*/1? BenchDevice.EveryTypeAndOperation THREADS *Mode.* BenchDevice.LocalReductions
           SOURCES bench_device_fake_test.cc SHARDS 5 COST 9)
target_link_libraries(bench_device_fake_test PRIVATE gcoll PkgConfig::json_c)
gcoll_test_programs(bench_device_fake_test GCOLL_BENCH gcoll_bench_fake)
add_dependencies(bench_device_fake_test cuda_fake_nccl)
