# The Python that makes the manual pages, and runs the tests of bindings/python: gcoll_python, gcoll_python_version and, for the
# tests, gcoll_python_numpy (its numpy's version, or ""). The package itself needs no build. Without GCOLL_PYTHON the system's
# interpreter goes first, because packages of the system, such as numpy, belong to it.
set(gcoll_python "")

# What the program prints, or "" if it fails, as where a module is missing. An answer is kept in the cache for this Python.
function(gcoll_python_says name program result)
  if(NOT GCOLL_PYTHON_${name}_OF STREQUAL gcoll_python OR NOT GCOLL_PYTHON_${name})
    execute_process(COMMAND "${gcoll_python}" -c "${program}"
                    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET TIMEOUT 60)
    set(GCOLL_PYTHON_${name} "${found}" CACHE INTERNAL "")
    set(GCOLL_PYTHON_${name}_OF "${gcoll_python}" CACHE INTERNAL "")
  endif()
  set(${result} "${GCOLL_PYTHON_${name}}" PARENT_SCOPE)
endfunction()

if(GCOLL_PYTHON)
  set(Python3_EXECUTABLE "${GCOLL_PYTHON}")
elseif(NOT Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python3 3.9 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  set(gcoll_python "${Python3_EXECUTABLE}")
  set(gcoll_python_version "${Python3_VERSION}")
  if(GCOLL_TESTS)
    gcoll_python_says(NUMPY "import numpy; print(numpy.__version__)" gcoll_python_numpy)
  endif()
endif()
