# What everything stands on: types, kernels, checksums, maps.
gcoll_test(base_test LAYERS gcoll_base SOURCES types_test.cc host_test.cc crc32c_test.cc map_test.cc sha256_test.cc)
gcoll_test(kernel_test PLAIN LAYERS gcoll_base SOURCES kernel_test.cc SHARDS 2 COST 7)

include(${CMAKE_CURRENT_LIST_DIR}/kernels.cmake)
