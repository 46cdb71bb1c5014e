# Transports, against one contract, and each by itself.
gcoll_test(message_test LAYERS gcoll_base gcoll_transport SOURCES wire_test.cc match_test.cc address_test.cc patience_test.cc)
gcoll_test(choice_test LAYERS gcoll_base gcoll_transport SOURCES choice_test.cc)
target_compile_definitions(choice_test PRIVATE SOURCE="${PROJECT_SOURCE_DIR}")
gcoll_test(interfaces_test LAYERS gcoll_base gcoll_transport SOURCES interfaces_test.cc)
gcoll_test(flow_test PLAIN Flow.RandomSchedules* LAYERS gcoll_base gcoll_transport SOURCES flow_test.cc COST 12)
# The same with each rule of transport/flow/flow.c broken in turn, which it must notice.
find_program(GCOLL_PYTHON3 python3)
if(GCOLL_PYTHON3 AND NOT CMAKE_C_FLAGS)
  add_test(NAME flow_mutants COMMAND ${GCOLL_PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/flow_mutants.py ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER}
                                     $<TARGET_OBJECTS:flow_test> $<FILTER:$<TARGET_OBJECTS:test_headers>,INCLUDE,main[.]cc> $<TARGET_OBJECTS:gcoll_base>
                                     $<FILTER:$<TARGET_OBJECTS:gcoll_transport>,INCLUDE,/match[.]c>
           COMMAND_EXPAND_LISTS)
  set_tests_properties(flow_mutants PROPERTIES TIMEOUT 1200 COST 60 LABELS exhaustive_tests
                                           ENVIRONMENT "PYTHONPATH=${PROJECT_SOURCE_DIR}/test/kit;PYTHONDONTWRITEBYTECODE=1")
  add_dependencies(exhaustive_tests flow_test)
endif()
gcoll_test(tcp_test PLAIN TcpChecked.EachFlippedBitIsFound THREADS Tcp.SpinningEndsInBlocking Tcp.AWakeIsNotLostWhenNobodyWaits Tcp.ConnectionsThatCrossBecomeOne Tcp.Abort* Stripes.BothWaysAtOnceInThreads Stripes.WhatIsDone*
           LAYERS gcoll_base gcoll_transport
           SOURCES tcp_test.cc tcp_connect_test.cc tcp_leave_test.cc tcp_peer_test.cc tcp_stranger_test.cc tcp_checked_test.cc stripes_test.cc TIMED SHARDS 3 COST 5)
gcoll_test(transport_test PLAIN THREADS */inproc */shm Inproc* *WakeEndsAWait* *PeekInVainWakes* *AbortTells* *RandomTraffic*/tcp_connections_3 - *SameSeedSameOrder* *LimitOfOffers*
           LAYERS gcoll_base gcoll_transport
           SOURCES transport_test.cc transport_inproc_test.cc TIMED SHARDS 2 COST 4)
gcoll_test(shm_test PLAIN ShmScribbles.* UNSANITIZED Shm.MemoryOfManyRanksIsBounded THREADS ShmRing.* Shm.NobodyMisses* Shm.WhatAPeer* Shm.RanksOfAHost* ShmPulls.A* ShmPulls.B* ShmPulls.U* ShmPulls.What* ShmLand.M* Memory.Threads* - ShmRing.FramesCome* ShmRing.Garbage* *AKilled* *BlocksBeyond* LAYERS gcoll_base gcoll_transport SOURCES shm_ring_test.cc shm_test.cc shm_block_test.cc shm_reach_test.cc shm_hostile_test.cc shm_land_test.cc TIMED SHARDS 2 COST 8)
# The lanes pipe and tcp in place of those of the library; and the contract of transports, held against the lane pipe.
add_library(test_pipe_lane OBJECT ${CMAKE_CURRENT_LIST_DIR}/pipe_lane.c) # C, and so without the precompiled headers of the tests
target_link_libraries(test_pipe_lane PRIVATE gcoll_flags)
target_include_directories(test_pipe_lane PRIVATE ${PROJECT_SOURCE_DIR})
gcoll_test(lane_test LAYERS gcoll_base
           SOURCES lane_test.cc transport_test.cc $<TARGET_OBJECTS:test_pipe_lane>
                   $<FILTER:$<TARGET_OBJECTS:gcoll_transport>,EXCLUDE,/transports[.]c> TIMED SHARDS 2 COST 4)
# The contract of transports, held against endpoints that share the connections of others.
gcoll_test(branch_test UNSANITIZED *BeyondTheLimitOfOffers/*orphan LAYERS gcoll_base
           SOURCES branch_test.cc transport_test.cc allocations.cc $<FILTER:$<TARGET_OBJECTS:gcoll_transport>,EXCLUDE,/transports[.]c> TIMED COST 4)
set(wrapped malloc calloc realloc aligned_alloc posix_memalign strdup free)
list(TRANSFORM wrapped PREPEND -Wl,--wrap=)
target_link_options(branch_test PRIVATE ${wrapped})
