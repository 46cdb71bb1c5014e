# gcoll under launchers: the commands of docs/launchers.md as printed, with the launchers that are installed.
if(NOT GCOLL_BENCHMARK)
  return()
endif()
foreach(launcher None "Open MPI" MPICH Slurm torchrun Kubernetes)
  string(TOLOWER "launchers.${launcher}" test)
  string(REPLACE " " "" test "${test}")
  add_test(NAME ${test} COMMAND ${CMAKE_CURRENT_LIST_DIR}/launchers_test.sh ${launcher} ${PROJECT_SOURCE_DIR}
                                $<TARGET_FILE:example_from_env> $<TARGET_FILE:gcoll_bench>)
  set_tests_properties(${test} PROPERTIES TIMEOUT 150 COST 4 SKIP_RETURN_CODE 77)
endforeach()
