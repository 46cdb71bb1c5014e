# gcoll_bench with buffers in the memory of devices, where there may be none.
gcoll_test(bench_device_test SOURCES bench_device_test.cc)
target_link_libraries(bench_device_test PRIVATE gcoll PkgConfig::json_c)
target_compile_definitions(bench_device_test PRIVATE GCOLL_BENCH="$<TARGET_FILE:gcoll_bench>")
add_dependencies(bench_device_test gcoll_bench)
