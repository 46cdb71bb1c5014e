# Jobs over ibverbs that fail, run long, or span two machines. What needs a device runs in the guest alone.
if(gcoll_has_ibverbs)
  gcoll_test(ibverbs_failure_test LAYERS ${core_layers} SOURCES ibverbs_failure_test.cc ibverbs_job_test.cc harness.cc)
  set(failures "$<TARGET_FILE:failure_test> --gtest_brief=1")
  set(over "GCOLL_TEST_TRANSPORTS=ibverbs GCOLL_TEST_RANKS=4 GCOLL_TEST_TOLD_MS=8000")
  gcoll_rdma_test(rdma_failures TIMEOUT 200 SUITE
    "queue_pairs_keys_leftovers 60 $<TARGET_FILE:ibverbs_failure_test> --gtest_brief=1"
    "killed 90 ${over} GCOLL_TEST_KILLS=3 GCOLL_TEST_ELEMENTS=4194304 ${failures} --gtest_filter=Killed.TheOthersNameIt"
    "stopped_absent 60 ${over} GCOLL_TEST_ELEMENTS=100000 ${failures} --gtest_filter=-Killed.TheOthersNameIt"
    "soak 60 GCOLL_TEST_TRANSPORTS=ibverbs GCOLL_TEST_SOAK=300 $<TARGET_FILE:soak_test> --gtest_brief=1")
  if(TARGET gcoll_bench)
    gcoll_rdma_test(rdma_two_machines TIMEOUT 120 GUESTS 2 COMMAND
      bash -c "$<TARGET_FILE:gcoll_bench> --rank $GUEST --size 2 --store file:$GUEST_SHARED --transport ibverbs --algorithm all --bytes 4,4Ki,256Ki --iterations 1 --warmup 0")
  endif()
endif()
