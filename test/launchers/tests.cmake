# gcoll under launchers: the commands of docs/launchers.md as printed, with the launchers that are installed. In builds
# without sanitizers only: what these would see is covered by the stores' tests, and launchers print on standard error.
if(NOT GCOLL_BENCHMARK OR CMAKE_C_FLAGS MATCHES "sanitize|coverage")
  return()
endif()
add_dependencies(plain_tests example_from_env gcoll_bench)
foreach(launcher None "Open MPI" MPICH Slurm torchrun Kubernetes)
  string(TOLOWER "launchers.${launcher}" test)
  string(REPLACE " " "" test "${test}")
  add_test(NAME ${test} COMMAND ${CMAKE_CURRENT_LIST_DIR}/launchers_test.sh ${launcher} ${PROJECT_SOURCE_DIR}
                                $<TARGET_FILE:example_from_env> $<TARGET_FILE:gcoll_bench>)
  set_tests_properties(${test} PROPERTIES TIMEOUT 150 COST 9 SKIP_RETURN_CODE 77 LABELS plain_tests)
endforeach()
