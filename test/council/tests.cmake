# The agreement: its machine alone, by a model checker and by random schedules.
gcoll_test(agree_test PLAIN AgreeRandom.SixtyFourRanks UNSANITIZED AgreeModelLong.* AgreeModel.FiveRanks EXHAUSTIVE
           LAYERS gcoll_base
           SOURCES agree_model_test.cc agree_random_test.cc $<FILTER:$<TARGET_OBJECTS:gcoll_core>,INCLUDE,/council/agree[.]c> COST 12 TIMEOUT 900)
target_compile_options(agree_test PRIVATE -fexceptions)
set_target_properties(agree_test PROPERTIES DISABLE_PRECOMPILE_HEADERS ON) # they are made without exceptions
if(CMAKE_C_FLAGS MATCHES "sanitize" AND TEST agree_test)
  set_property(TEST agree_test APPEND PROPERTY ENVIRONMENT GCOLL_AGREE_SCHEDULES=5000)
endif()
# The same with each rule of gcoll/council/agree.c broken in turn, which they must notice.
if(GCOLL_PYTHON3 AND NOT CMAKE_C_FLAGS)
  add_test(NAME agree_mutants COMMAND ${GCOLL_PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/agree_mutants.py ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER}
                                      $<TARGET_OBJECTS:agree_test> $<FILTER:$<TARGET_OBJECTS:computing_headers>,INCLUDE,main[.]cc> $<TARGET_OBJECTS:gcoll_base>
           COMMAND_EXPAND_LISTS)
  set_tests_properties(agree_mutants PROPERTIES TIMEOUT 1200 COST 60 LABELS exhaustive_tests
                                           ENVIRONMENT "PYTHONPATH=${PROJECT_SOURCE_DIR}/test/kit;PYTHONDONTWRITEBYTECODE=1")
  add_dependencies(exhaustive_tests agree_test)
endif()

# Their names for themselves are those of others in the program, too.
set_source_files_properties(council/agree_random_test.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
