# The transport ibverbs. On a machine without a device only the guest's run of these shows anything.
gcoll_test(ibverbs_test LAYERS gcoll_base gcoll_transport SOURCES ibverbs_test.cc)
if(gcoll_has_ibverbs)
  gcoll_test(ibverbs_frame_test LAYERS gcoll_base gcoll_transport SOURCES ibverbs_frame_test.cc ibverbs_unasked_test.cc)
  set(filter "*ibverbs*")
  if(gcoll_rdma_sanitized)
    set(filter "*ibverbs*:-*RandomTraffic*:*EverySize*:*BeyondTheLimitOfOffers*")
  endif()
  gcoll_rdma(QUICK "counts 60 $<TARGET_FILE:ibverbs_test> --gtest_brief=1")
  gcoll_rdma(REST
    "transport 180 GCOLL_TEST_TRANSPORTS=ibverbs $<TARGET_FILE:transport_test> --gtest_brief=1 --gtest_filter='${filter}'")
endif()
