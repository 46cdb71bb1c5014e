# Tests of gcoll_plan, and of the algorithm that CONTRIBUTING.md adds.
find_program(GCOLL_BASH bash REQUIRED)
add_test(NAME contributing.example COMMAND ${GCOLL_BASH} ${CMAKE_CURRENT_LIST_DIR}/../package/contributing.sh
         ${PROJECT_SOURCE_DIR})
set_tests_properties(contributing.example PROPERTIES TIMEOUT 60)
if(NOT GCOLL_TOOLS)
  return()
endif()

set(plan_tool_programs GCOLL_PLAN gcoll_plan_tool EXAMPLE_PLUGIN example_planner)
# The numbers are those of plan_tool_broken.c.
set(number 0)
foreach(fault DROP CLAIM MODEST CRASH VERSION SAME RELUCT REFUSE)
  math(EXPR number "${number} + 1")
  add_library(plan_tool_${fault} MODULE ${CMAKE_CURRENT_LIST_DIR}/plan_tool_broken.c)
  target_link_libraries(plan_tool_${fault} PRIVATE gcoll_flags)
  target_compile_definitions(plan_tool_${fault} PRIVATE BROKEN=${number})
  list(APPEND plan_tool_programs PLUGIN_${fault} plan_tool_${fault})
endforeach()

gcoll_test(plan_tool_test UNSANITIZED CommandLine.ExamplesOfTheHelpsRun Verify.EveryAlgorithmOfTheLibrary Msccl.EveryStepOfEveryScheduleCounts Mscclpp.EveryOperationCounts SOURCES plan_tool_test.cc plan_tool_verify_test.cc plan_tool_device_test.cc plan_tool_file_test.cc plan_mscclpp_test.cc
           plan_tool_network_test.cc COST 8)
if(gcoll_has_expat)
  target_sources(plan_tool_test PRIVATE ${CMAKE_CURRENT_LIST_DIR}/plan_msccl_test.cc)
endif()
target_link_libraries(plan_tool_test PRIVATE PkgConfig::json_c)
target_compile_definitions(plan_tool_test PRIVATE SOURCE="${PROJECT_SOURCE_DIR}")
gcoll_test_programs(plan_tool_test ${plan_tool_programs})
