# Tests of the cost of the hot path, in counts that do not depend on timing: ctest -L counts.
add_library(counts_calls OBJECT ${CMAKE_CURRENT_LIST_DIR}/counts_calls.c)
target_link_libraries(counts_calls PRIVATE gcoll_flags)
target_compile_options(counts_calls PRIVATE -fno-builtin)
gcoll_test(counts_test LAYERS ${core_layers} SOURCES counts_test.cc harness.cc $<TARGET_OBJECTS:counts_calls> PLAIN SHARDS 2 COST 3 LABELS counts)

# Programs whose calls other programs count. Calls of sanitizers and coverage would count, too.
if(CMAKE_C_FLAGS MATCHES "sanitize|coverage")
  return()
endif()
set(counts_objects "")
foreach(layer IN LISTS core_layers)
  list(APPEND counts_objects $<TARGET_OBJECTS:${layer}>)
endforeach()
foreach(program counts_rank counts_turns)
  add_executable(${program} ${CMAKE_CURRENT_LIST_DIR}/${program}.c ${counts_objects})
  target_link_libraries(${program} PRIVATE gcoll_flags PkgConfig::libuv PkgConfig::hiredis Threads::Threads m
                                           ${gcoll_cuda_libraries})
  set_target_properties(${program} PROPERTIES LINKER_LANGUAGE C)
endforeach()
add_dependencies(plain_tests counts_rank counts_turns)
add_test(NAME counts_strace COMMAND ${CMAKE_CURRENT_LIST_DIR}/counts_strace.sh $<TARGET_FILE:counts_rank>)
set_tests_properties(counts_strace PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77 LABELS "counts;plain_tests")
# The limits are those of optimised code.
if(CMAKE_BUILD_TYPE MATCHES "^(RelWithDebInfo|Release)$")
  add_test(NAME counts_callgrind COMMAND ${CMAKE_CURRENT_LIST_DIR}/counts_callgrind.sh $<TARGET_FILE:counts_turns>)
  set_tests_properties(counts_callgrind PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77 LABELS "counts;plain_tests")
endif()
