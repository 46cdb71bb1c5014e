# Devices that are not there, and the staging of buffers that lie in their memory.
set(pretend pretend_work.cc pretend_memory.cc pretend_device.cc)
gcoll_test(pretend_device_test THREADS LAYERS gcoll_base SOURCES ${CMAKE_CURRENT_LIST_DIR}/../kit/pretend_device_test.cc ${pretend})
set(staged ${pretend} staging_calls.cc staging_values.cc)
gcoll_test(staging_grid_test PLAIN UNSANITIZED *inproc_7 *inproc_8 THREADS *thread *inproc_2
           LAYERS ${core_layers} SOURCES staging_grid_test.cc ${staged} harness.cc
           SHARDS 2 COST 12)
gcoll_test(staging_broken_test LAYERS ${core_layers} SOURCES staging_broken_test.cc ${staged} harness.cc COST 5)
add_library(staging_peek OBJECT ${CMAKE_CURRENT_LIST_DIR}/staging_peek.c) # C, and so without the precompiled headers of the tests
target_link_libraries(staging_peek PRIVATE gcoll_flags)
target_sources(staging_broken_test PRIVATE $<TARGET_OBJECTS:staging_peek>)
gcoll_test(staging_failure_test LAYERS ${core_layers} SOURCES staging_failure_test.cc ${staged} harness.cc TIMED SHARDS 2 COST 4)
