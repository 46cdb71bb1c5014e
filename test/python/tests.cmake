# The Python package, bindings/python, as it lies in the tree. Not with ThreadSanitizer, which cannot be loaded into Python, and
# not where the library is for another processor. A test skips, and says why, if numpy is missing.
if(CMAKE_CROSSCOMPILING OR gcoll_thread_sanitizer)
  return()
endif()
if(NOT gcoll_python)
  set(gcoll_python ${CMAKE_CURRENT_LIST_DIR}/missing.sh)
endif()
set(python_environment
  "PYTHONPATH=${PROJECT_SOURCE_DIR}/bindings/python" PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
  "GCOLL_LIBRARY=$<TARGET_FILE:gcoll>" "GCOLL_LAYOUT=$<TARGET_FILE:python_layout>" "GCOLL_TREE=${PROJECT_SOURCE_DIR}"
  "GCOLL_MYPY_CACHE=${PROJECT_BINARY_DIR}/mypy")
if(CMAKE_C_FLAGS MATCHES "sanitize=address")
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU") # whose run-time library is one that Python can load
    return()
  endif()
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libasan.so OUTPUT_VARIABLE asan OUTPUT_STRIP_TRAILING_WHITESPACE)
  # Python keeps memory until it ends, which is no leak of the library's.
  list(APPEND python_environment "LD_PRELOAD=${asan}" ASAN_OPTIONS=detect_leaks=0 GCOLL_TEST_SANITIZED=1)
endif()

add_executable(python_layout ${CMAKE_CURRENT_LIST_DIR}/layout.c)
target_link_libraries(python_layout PRIVATE gcoll_flags gcoll)
add_dependencies(plain_tests gcoll python_layout)

# gcoll_python_test(NAME FILE [TIMED] [COST s]): the cases of a file.
function(gcoll_python_test name file)
  cmake_parse_arguments(arg "TIMED" "COST" "" ${ARGN})
  add_test(NAME python.${name} COMMAND ${gcoll_python} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${file})
  set(labels plain_tests)
  if(arg_TIMED)
    list(APPEND labels timed)
  endif()
  set_tests_properties(python.${name} PROPERTIES TIMEOUT 600 COST ${arg_COST} SKIP_RETURN_CODE 77 LABELS "${labels}"
                       ENVIRONMENT "${python_environment}")
endfunction()

gcoll_python_test(layout layout_test.py COST 1)
gcoll_python_test(buffers buffers_test.py COST 4)
gcoll_python_test(collectives collectives_test.py COST 6)
gcoll_python_test(callbacks callbacks_test.py COST 8)
gcoll_python_test(careless careless_test.py TIMED COST 8)
if(gcoll_has_unsanitized)
  gcoll_python_test(jobs jobs_test.py TIMED COST 20)
endif()
if(NOT CMAKE_C_FLAGS MATCHES "sanitize|coverage")
  gcoll_python_test(package package_test.py COST 20)
  set_tests_properties(python.package PROPERTIES LABELS "plain_tests;repeats")
endif()
