# The manual pages. Where there is no Python, there are none.
if(NOT gcoll_has_man)
  return()
endif()
list(JOIN gcoll_man_commands "|" man_commands)
add_test(NAME man.pages COMMAND ${gcoll_python} ${CMAKE_CURRENT_LIST_DIR}/man_test.py)
set_tests_properties(man.pages PROPERTIES TIMEOUT 300 COST 12 LABELS "plain_tests;repeats"
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;GCOLL_TREE=${PROJECT_SOURCE_DIR};GCOLL_MAN_PAGES=${PROJECT_BINARY_DIR}/man;GCOLL_MAN_PROGRAMS=${man_commands};GCOLL_MYPY_CACHE=${PROJECT_BINARY_DIR}/mypy")
add_dependencies(plain_tests gcoll_man)
