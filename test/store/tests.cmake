# Tests of all kinds of stores, against one contract.
gcoll_test(store_test THREADS * - StoreRedisTls.* LAYERS gcoll_base gcoll_store SOURCES store_test.cc store_file_test.cc store_redis_test.cc store_pmi_test.cc store_signed_test.cc store_tcp_test.cc store_trust_test.cc TIMED SHARDS 4 COST 15)
