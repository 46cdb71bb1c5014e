# Tests of examples/train: the network, in double, and the program.
add_library(train_double OBJECT ${PROJECT_SOURCE_DIR}/examples/train/network.c)
target_link_libraries(train_double PRIVATE gcoll_flags)
target_compile_options(train_double PRIVATE -O3)
target_compile_definitions(train_double PUBLIC TRAIN_DOUBLE)

gcoll_test(train_gradient_test UNSANITIZED TrainNet.GradientsAreThoseOfFiniteDifferences SOURCES train_gradient_test.cc)
target_link_libraries(train_gradient_test PRIVATE train_double)

if(GCOLL_BENCHMARK OR GCOLL_TOOLS)
  gcoll_test(train_test UNSANITIZED Train.Learns SOURCES train_test.cc TIMED SHARDS 3 COST 4)
  target_link_libraries(train_test PRIVATE PkgConfig::json_c)
  gcoll_test_programs(train_test TRAIN example_train)
endif()

add_test(NAME train.compare COMMAND ${CMAKE_CURRENT_LIST_DIR}/train_compare_test.sh
         ${PROJECT_SOURCE_DIR}/examples/train/compare $<TARGET_FILE:example_train>)
set_tests_properties(train.compare PROPERTIES TIMEOUT 60 COST 4)

add_test(NAME backend.example COMMAND ${CMAKE_CURRENT_LIST_DIR}/backend_test.sh $<TARGET_FILE:example_backend>)
set_tests_properties(backend.example PROPERTIES TIMEOUT 60 COST 2 LABELS threaded_tests)
add_dependencies(threaded_tests example_backend)

# Real processes, of which three are killed and three join; the loss of each step is that of an undisturbed training but for rounding.
# With this seed the network learns early.
if(gcoll_python AND gcoll_has_unsanitized)
  add_test(NAME elastic.kills COMMAND ${gcoll_python} ${PROJECT_SOURCE_DIR}/examples/elastic/run --program $<TARGET_FILE:example_elastic>
           --ranks 4 --kills 3 --joins 3 --steps 110 --step-ms 10 --seed 4 --check 1e-6)
  set_tests_properties(elastic.kills PROPERTIES TIMEOUT 120 COST 10 LABELS "plain_tests;timed;repeats")
  add_dependencies(plain_tests example_elastic)
endif()
