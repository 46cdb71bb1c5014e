# The site. Without Sphinx there is none (CMake's summary says so), and programs with sanitizers or for another processor make the same one.
if(NOT gcoll_has_site OR CMAKE_CROSSCOMPILING OR CMAKE_C_FLAGS MATCHES "sanitize|coverage")
  return()
endif()
add_test(NAME site.build COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target site)
set_tests_properties(site.build PROPERTIES TIMEOUT 600 COST 30 LABELS site FIXTURES_SETUP site)
add_test(NAME site COMMAND ${gcoll_python} ${CMAKE_CURRENT_LIST_DIR}/site_test.py)
set_tests_properties(site PROPERTIES TIMEOUT 600 COST 6 LABELS site FIXTURES_REQUIRED site
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;GCOLL_TREE=${PROJECT_SOURCE_DIR};GCOLL_SITE=${PROJECT_BINARY_DIR}/site;GCOLL_MYPY_CACHE=${PROJECT_BINARY_DIR}/mypy")
