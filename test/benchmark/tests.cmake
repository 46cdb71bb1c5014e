# Tests of gcoll_bench.
if(NOT GCOLL_BENCHMARK)
  return()
endif()

gcoll_test(bench_values_test PLAIN BenchValues.EveryLossAndShiftShows All/Values.* SOURCES bench_values_test.cc COST 6)
target_link_libraries(bench_values_test PRIVATE gcoll_bench_parts gcoll_bench_plan_reader gcoll_bench_inner_parts gcoll_bench_cuda gcoll_cli gcoll PkgConfig::json_c)

# The tool again, with its calls of the library going through bench_faulty.c.
add_executable(gcoll_bench_faulty ${CMAKE_CURRENT_LIST_DIR}/bench_faulty.c ${PROJECT_SOURCE_DIR}/benchmark/main.c)
target_link_libraries(gcoll_bench_faulty PRIVATE gcoll_bench_parts gcoll_bench_plan_reader gcoll_bench_inner_parts gcoll_bench_cuda gcoll_cli gcoll_flags gcoll PkgConfig::json_c Threads::Threads)
target_link_options(gcoll_bench_faulty PRIVATE
  -Wl,--wrap=gcoll_context_create,--wrap=gcoll_context_lanes,--wrap=gcoll_allreduce_create,--wrap=gcoll_operation_run)

# What shares memory between threads is the tool itself: ThreadSanitizer need not see its tests.
if(gcoll_thread_sanitizer)
  add_test(NAME bench_threads COMMAND gcoll_bench --local 3 --transport inproc --collective all --bytes 4,1200,256Ki --iterations 6)
  set_tests_properties(bench_threads PROPERTIES TIMEOUT 120 LABELS threaded_tests)
  add_dependencies(threaded_tests gcoll_bench)
endif()
set(threads "")
if(GCOLL_TSAN_ALL)
  set(threads THREADS)
endif()
gcoll_test(bench_test PLAIN UNSANITIZED Bench.EveryTypeAndOperation Bench.SocketsByTheLogarithmOfTheRanks ${threads}
           SOURCES bench_test.cc bench_failure_test.cc bench_tune_test.cc bench_arrival_test.cc bench_network_test.cc bench_plan_test.cc
           TIMED SHARDS 4 COST 6)
target_link_libraries(bench_test PRIVATE gcoll PkgConfig::json_c)
target_compile_definitions(bench_test PRIVATE SOURCE="${PROJECT_SOURCE_DIR}")
set(bench_programs GCOLL_BENCH gcoll_bench GCOLL_BENCH_FAULTY gcoll_bench_faulty EXAMPLE_PLUGIN example_planner)
if(gcoll_has_expat)
  target_compile_definitions(bench_test PRIVATE HAS_EXPAT)
endif()
if(GCOLL_TOOLS)
  target_compile_definitions(bench_test PRIVATE HAS_PLAN_TOOL)
  list(APPEND bench_programs GCOLL_PLAN gcoll_plan_tool)
endif()
gcoll_test_programs(bench_test ${bench_programs})

# The page of --report, as a browser would read it.
if(gcoll_python AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME bench_report_test COMMAND ${gcoll_python} ${CMAKE_CURRENT_LIST_DIR}/report_test.py)
  set_tests_properties(bench_report_test PROPERTIES TIMEOUT 300 COST 3
                       ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;GCOLL_BENCH=$<TARGET_FILE:gcoll_bench>")
endif()

# benchmark/compare with gcoll and plain sockets: the other libraries are not needed.
if(gcoll_has_unsanitized)
  add_test(NAME compare_test COMMAND ${CMAKE_CURRENT_LIST_DIR}/compare_test.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/benchmark)
  set_tests_properties(compare_test PROPERTIES TIMEOUT 120 COST 8 SKIP_RETURN_CODE 77 LABELS "plain_tests;repeats")
  add_dependencies(plain_tests gcoll_bench gcoll_peer_raw gcoll_peer_shm)
  gcoll_slow(gcoll_peer_raw gcoll_peer_shm)
endif()

# benchmark/arrival but for what it measures.
if(GCOLL_TOOLS)
  add_test(NAME arrival_script_test COMMAND ${CMAKE_CURRENT_LIST_DIR}/arrival_script_test.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:gcoll_bench>
                                            $<TARGET_FILE:gcoll_plan_tool>)
  set_tests_properties(arrival_script_test PROPERTIES TIMEOUT 60 SKIP_RETURN_CODE 77)
endif()

include(${CMAKE_CURRENT_LIST_DIR}/bench_device.cmake)
