# The backend of torch.distributed. In builds without sanitizers only: Python and torch are not instrumented. The tests skip, and
# say what is missing, where the extension was not built.
if(CMAKE_C_FLAGS MATCHES "sanitize|coverage" AND NOT gcoll_has_torch)
  return()
endif()
set(torch_environment "PYTHONPATH=${PROJECT_SOURCE_DIR}/bindings/python" OMP_NUM_THREADS=1)
if(gcoll_has_torch)
  set(torch_python "${gcoll_torch_python}")
  list(APPEND torch_environment "GCOLL_TORCH_EXTENSION=$<TARGET_FILE:gcoll_torch>")
  add_dependencies(plain_tests gcoll_torch)
else()
  set(torch_python "")
endif()

# gcoll_torch_test(NAME SCRIPT ARGUMENT... [TIMEOUT s] [COST s] [LABELS l...])
function(gcoll_torch_test name)
  cmake_parse_arguments(arg "" "TIMEOUT;COST" "LABELS" ${ARGN})
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/torch_or_skip.sh
           "${torch_python}" "${gcoll_torch_missing}" ${arg_UNPARSED_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST ${arg_COST} SKIP_RETURN_CODE 77
                       LABELS "${arg_LABELS}" ENVIRONMENT "${torch_environment}")
endfunction()

gcoll_torch_test(torch.backend "${CMAKE_CURRENT_LIST_DIR}/torch_test.py" TIMEOUT 600 COST 30 LABELS plain_tests timed)
gcoll_torch_test(torch.careless "${CMAKE_CURRENT_LIST_DIR}/torch_careless_test.py" TIMEOUT 600 COST 40 LABELS plain_tests timed)
set_tests_properties(torch.backend torch.careless PROPERTIES RUN_SERIAL ON) # they give the survivors of a death a second
# PyTorch's own tests: minutes each, so only .ci/full runs them.
option(GCOLL_TORCH_SUITE "Tests of the backend of torch.distributed: also PyTorch's own, which take minutes" OFF)
mark_as_advanced(GCOLL_TORCH_SUITE)
if(gcoll_has_torch AND GCOLL_TORCH_SUITE)
  foreach(ranks 2 3 4)
    gcoll_torch_test(torch.suite.${ranks} "${CMAKE_CURRENT_LIST_DIR}/torch_suite_check.sh" ${ranks} TIMEOUT 3600 COST 1000
                     LABELS torch_suite)
  endforeach()
endif()
