# Jobs over ibverbs that fail, and a soak. What needs a device runs in the guest alone.
if(gcoll_has_ibverbs)
  set(failures "$<TARGET_FILE:failure_test> --gtest_brief=1")
  set(over "GCOLL_TEST_TRANSPORTS=ibverbs GCOLL_TEST_RANKS=4 GCOLL_TEST_TOLD_MS=8000")
  gcoll_rdma_test(rdma_failures TIMEOUT 170 SUITE
    "killed 60 ${over} GCOLL_TEST_KILLS=4 GCOLL_TEST_ELEMENTS=4194304 ${failures} --gtest_filter=Killed.TheOthersNameIt"
    "stopped_absent 60 ${over} GCOLL_TEST_ELEMENTS=100000 ${failures} --gtest_filter=-Killed.TheOthersNameIt"
    "soak 60 GCOLL_TEST_TRANSPORTS=ibverbs GCOLL_TEST_SOAK=300 $<TARGET_FILE:soak_test> --gtest_brief=1")
endif()
