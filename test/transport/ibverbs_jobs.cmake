# Jobs over ibverbs: collectives, jobs that fail, run long, or span two machines. What needs a device runs in the guest
# alone.
if(NOT gcoll_has_ibverbs)
  return()
endif()
gcoll_test(ibverbs_failure_test LAYERS ${core_layers} SOURCES ibverbs_failure_test.cc ibverbs_job_test.cc harness.cc)
add_library(ibverbs_peek OBJECT ${CMAKE_CURRENT_LIST_DIR}/ibverbs_peek.c) # C, and so without the precompiled headers of the tests
target_link_libraries(ibverbs_peek PRIVATE gcoll_flags)
target_sources(ibverbs_failure_test PRIVATE $<TARGET_OBJECTS:ibverbs_peek>)

# Messages from and to the memory of devices that are not there.
list(APPEND computing_tests ibverbs_device_test)
gcoll_test(ibverbs_device_test LAYERS ${core_layers}
           SOURCES ibverbs_device_test.cc pretend_work.cc pretend_memory.cc pretend_device.cc harness.cc)
target_sources(ibverbs_device_test PRIVATE $<TARGET_OBJECTS:ibverbs_peek>)
gcoll_rdma(REST "device_memory 120 $<TARGET_FILE:ibverbs_device_test> --gtest_brief=1")

set(over "GCOLL_TEST_TRANSPORTS=ibverbs")
gcoll_rdma(QUICK "queue_pairs_keys_leftovers 60 $<TARGET_FILE:ibverbs_failure_test> --gtest_brief=1")
add_dependencies(plain_tests ibverbs_test ibverbs_failure_test)
if(gcoll_rdma_sanitized)
  return()
endif()
gcoll_rdma(QUICK "soak 60 ${over} GCOLL_TEST_SOAK=300 $<TARGET_FILE:soak_test> --gtest_brief=1")

set(failures "$<TARGET_FILE:failure_test> --gtest_brief=1")
set(told "${over} GCOLL_TEST_RANKS=4 GCOLL_TEST_TOLD_MS=8000")
gcoll_rdma(REST
  "killed 90 ${told} GCOLL_TEST_KILLS=3 GCOLL_TEST_ELEMENTS=4194304 ${failures} --gtest_filter=Killed.TheOthersNameIt"
  "stopped_absent 120 ${told} GCOLL_TEST_ELEMENTS=100000 ${failures} --gtest_filter=-Killed.TheOthersNameIt")

gcoll_rdma(REST
  "recovery 150 ${over} GCOLL_TEST_KILLS=4 GCOLL_TEST_PATIENCE_MS=60000 $<TARGET_FILE:recovery_test> --gtest_brief=1 --gtest_filter=Recovery.SurvivorsGoOn:*Agreeing*ibverbs*")

# What the tests of the core do over the other transports; of collectives, a part; of groups, all but one of 45 ranks, which
# takes half a minute where processors are emulated, and more than 1024 descriptors.
set(suites Contexts Operations Requests Regions Mismatches Aborts)
list(TRANSFORM suites REPLACE "(.+)" "*/\\1.*ibverbs*")
list(JOIN suites ":" filter)
gcoll_rdma(REST
  "core 200 ${over} $<TARGET_FILE:core_test> --gtest_brief=1 --gtest_filter='${filter}'"
  "receives 60 ${over} $<TARGET_FILE:receive_test> --gtest_brief=1 --gtest_filter='*ibverbs*'"
  "groups 90 ${over} $<TARGET_FILE:group_test> --gtest_brief=1 --gtest_filter='*/Groups.*-*ATreeOfMembers*'"
  "sums 60 ${over} $<TARGET_FILE:collective_test> --gtest_brief=1 --gtest_filter='*Sums/*_5'"
  "blocks 60 ${over} $<TARGET_FILE:collective_test> --gtest_brief=1 --gtest_filter='*Blocks*_3'")

if(TARGET gcoll_bench)
  set(all "$<TARGET_FILE:gcoll_bench> --transport ibverbs --algorithm all --iterations 1 --warmup 0")
  gcoll_rdma(REST "bench 90 ${all} --local 4 --bytes 0,4,4Ki,256Ki")
  gcoll_rdma(PAIR "two_machines 90 ${all} --rank $GUEST --size 2 --store file:$GUEST_SHARED?shared=1 --bytes 4,4Ki,256Ki")
  gcoll_rdma(PAIR "mixed_lanes 90 ${PROJECT_SOURCE_DIR}/test/rdma/mixed $<TARGET_FILE:gcoll_bench>")
endif()
