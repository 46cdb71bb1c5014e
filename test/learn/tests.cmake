# Tests of learning: its decisions alone, and ranks that learn.
gcoll_test(judge_test PLAIN UNSANITIZED * LAYERS gcoll_base
           SOURCES judge_test.cc $<FILTER:$<TARGET_OBJECTS:gcoll_core>,INCLUDE,/learn/judge[.]c> COST 8)
gcoll_test(learn_test UNSANITIZED Transports/Learn.*/1 THREADS Transports/Learn.RanksAgreeWhoeverIsLate/0 Transports/Learn.FormsOfACallMix/0 Transports/Learn.RanksMayCallInDifferentWays/0
           LAYERS ${core_layers} SOURCES learn_test.cc harness.cc TIMED SHARDS 2 COST 24)
add_library(tried_peek OBJECT ${CMAKE_CURRENT_LIST_DIR}/tried_peek.c) # C, and so without the precompiled headers of the tests
target_link_libraries(tried_peek PRIVATE gcoll_flags)
target_sources(learn_test PRIVATE $<TARGET_OBJECTS:tried_peek>)
