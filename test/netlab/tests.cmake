# Several hosts on one machine. The script makes them; gcoll_bench is what runs there.
if(NOT GCOLL_BENCHMARK)
  return()
endif()
add_executable(netlab_rank ${CMAKE_CURRENT_LIST_DIR}/netlab_rank.c)
target_link_libraries(netlab_rank PRIVATE gcoll_flags gcoll)
set(netlab_sources netlab_test.cc netlab_failure_test.cc netlab_learn_test.cc)
if(GCOLL_TOOLS)
  list(APPEND netlab_sources netlab_trace_test.cc)
endif()
gcoll_test(netlab_test PLAIN UNSANITIZED * SOURCES ${netlab_sources} TIMED SHARDS 4 COST 18)
if(NOT TARGET netlab_test)
  return()
endif()
target_link_libraries(netlab_test PRIVATE PkgConfig::json_c)
target_compile_definitions(netlab_test PRIVATE NETLAB="${CMAKE_CURRENT_LIST_DIR}/netlab"
                                               NETLAB_RANK="$<TARGET_FILE:netlab_rank>"
                                               GCOLL_BENCH="$<TARGET_FILE:gcoll_bench>"
                                               GCOLL_BENCH_FAULTY="$<TARGET_FILE:gcoll_bench_faulty>")
add_dependencies(netlab_test gcoll_bench gcoll_bench_faulty netlab_rank)
if(GCOLL_TOOLS)
  target_compile_definitions(netlab_test PRIVATE GCOLL_TRACE="$<TARGET_FILE:gcoll_trace>" TROUBLE="$<TARGET_FILE:example_trouble>")
  add_dependencies(netlab_test gcoll_trace example_trouble)
endif()
