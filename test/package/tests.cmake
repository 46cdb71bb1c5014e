# The library as it is installed, and the program in the README. Without a sanitizer or coverage only, whose run-time
# libraries a consumer would have to link.
find_program(GCOLL_BASH bash REQUIRED)
set(package_scripts ${CMAKE_CURRENT_LIST_DIR})

add_test(NAME package.readme COMMAND ${GCOLL_BASH} ${package_scripts}/readme.sh ${PROJECT_SOURCE_DIR})
add_test(NAME package.example COMMAND ${GCOLL_BASH} ${package_scripts}/example.sh $<TARGET_FILE:example_allreduce>)
set_tests_properties(package.readme package.example PROPERTIES TIMEOUT 60)

if(NOT CMAKE_C_FLAGS MATCHES "sanitize|coverage")
  add_test(NAME package.symbols COMMAND ${GCOLL_BASH} ${package_scripts}/symbols.sh ${PROJECT_SOURCE_DIR}/gcoll
           $<TARGET_FILE:gcoll> $<TARGET_FILE:gcoll_static>)
  add_test(NAME package.consumers COMMAND ${GCOLL_BASH} ${package_scripts}/consumers.sh ${PROJECT_SOURCE_DIR}
           ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
  add_test(NAME package.debian COMMAND ${GCOLL_BASH} ${package_scripts}/debian.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:gcoll>)
  add_test(NAME package.abi COMMAND ${GCOLL_BASH} ${package_scripts}/abi.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:gcoll>)
  set_tests_properties(package.symbols package.consumers package.debian package.abi PROPERTIES
                       TIMEOUT 300 SKIP_RETURN_CODE 77 LABELS "plain_tests;repeats")
  get_property(installed_programs GLOBAL PROPERTY GCOLL_INSTALLED_PROGRAMS)
  add_dependencies(plain_tests gcoll gcoll_static ${installed_programs})
endif()
