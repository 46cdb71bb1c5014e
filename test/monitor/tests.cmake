# Tests of the monitor, and of what it decides.
gcoll_test(arrival_test THREADS Monitor.RanksThatRunAheadAgree Monitor.ADuplicateHasOneOfItsOwn Faults.*
           LAYERS ${core_layers} SOURCES arrival_test.cc arrival_fault_test.cc harness.cc
           TIMED SHARDS 3 COST 6)
# The rest of the core does not know the monitor: it links without its objects, and works.
set(monitor_absent_layers ${core_layers})
list(REMOVE_ITEM monitor_absent_layers gcoll_monitor)
add_library(monitor_absent OBJECT ${PROJECT_SOURCE_DIR}/gcoll/monitor/absent.c)
target_link_libraries(monitor_absent PRIVATE gcoll_flags)
gcoll_test(monitor_absent_test PLAIN UNSANITIZED * LAYERS ${monitor_absent_layers}
           SOURCES monitor_absent_test.cc ${CMAKE_CURRENT_LIST_DIR}/../core/operation_test.cc ${CMAKE_CURRENT_LIST_DIR}/../core/request_test.cc ${CMAKE_CURRENT_LIST_DIR}/../core/mismatch_test.cc harness.cc $<TARGET_OBJECTS:monitor_absent>
           TIMED COST 3)
# And layers point down by what they call, too.
add_test(NAME layers_calls COMMAND ${PROJECT_SOURCE_DIR}/.ci/layers --calls ${PROJECT_BINARY_DIR})
if(GCOLL_BENCHMARK)
  add_test(NAME monitor_cost_test COMMAND ${CMAKE_CURRENT_LIST_DIR}/monitor_cost_test.sh $<TARGET_FILE:monitor_cost>)
  set_tests_properties(monitor_cost_test PROPERTIES TIMEOUT 60)
endif()
