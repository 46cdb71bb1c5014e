# The Python that makes the manual pages, and runs the tests of bindings/python: gcoll_python, gcoll_python_version and, for the
# tests, gcoll_python_numpy (its numpy's version, or ""). The package itself needs no build. Without GCOLL_PYTHON the system's
# interpreter goes first, because packages of the system, such as numpy, belong to it.
set(gcoll_python "")
if(GCOLL_PYTHON)
  set(Python3_EXECUTABLE "${GCOLL_PYTHON}")
elseif(NOT Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python3 3.9 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  set(gcoll_python "${Python3_EXECUTABLE}")
  set(gcoll_python_version "${Python3_VERSION}")
  if(GCOLL_TESTS AND (NOT GCOLL_PYTHON_NUMPY_OF STREQUAL gcoll_python OR NOT GCOLL_PYTHON_NUMPY))
    execute_process(COMMAND "${gcoll_python}" -c "import numpy; print(numpy.__version__)"
                    OUTPUT_VARIABLE numpy OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET TIMEOUT 60)
    set(GCOLL_PYTHON_NUMPY "${numpy}" CACHE INTERNAL "")
    set(GCOLL_PYTHON_NUMPY_OF "${gcoll_python}" CACHE INTERNAL "")
  endif()
  set(gcoll_python_numpy "${GCOLL_PYTHON_NUMPY}")
endif()
