# Tests of examples/train: what it computes with, in double, beside plain loops; and the program.
set(train_computes matrix.c convolution.c layer.c net.c data.c random.c)
list(TRANSFORM train_computes PREPEND ${PROJECT_SOURCE_DIR}/examples/train/)
add_library(train_double OBJECT ${train_computes})
target_link_libraries(train_double PRIVATE gcoll_flags)
target_compile_options(train_double PRIVATE -O3)
target_compile_definitions(train_double PUBLIC TRAIN_DOUBLE)

gcoll_test(train_gradient_test SOURCES train_gradient_test.cc)
target_link_libraries(train_gradient_test PRIVATE train_double)

if(GCOLL_BENCHMARK OR GCOLL_TOOLS)
  # What starts ranks is linked too, to be given ranks that misbehave.
  add_library(train_starts OBJECT ${PROJECT_SOURCE_DIR}/examples/train/local.c ${PROJECT_SOURCE_DIR}/examples/train/job.c
              ${PROJECT_SOURCE_DIR}/examples/train/options.c ${PROJECT_SOURCE_DIR}/examples/train/pace.c)
  target_link_libraries(train_starts PRIVATE gcoll_flags gcoll)
  gcoll_test(train_test SOURCES train_test.cc train_failure_test.cc TIMED SHARDS 4 COST 9)
  target_link_libraries(train_test PRIVATE train_starts gcoll PkgConfig::json_c util)
  target_compile_definitions(train_test PRIVATE TRAIN="$<TARGET_FILE:example_train>")
  add_dependencies(train_test example_train)
endif()

add_test(NAME train.compare COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/train_compare_test.sh
         ${PROJECT_SOURCE_DIR}/examples/train/compare $<TARGET_FILE:example_train>)
set_tests_properties(train.compare PROPERTIES TIMEOUT 60)
