# Transports, against one contract, and each by itself.
gcoll_test(message_test LAYERS gcoll_base gcoll_transport SOURCES wire_test.cc match_test.cc address_test.cc patience_test.cc)
gcoll_test(tcp_test THREADS Tcp.SpinningEndsInBlocking Tcp.AWakeIsNotLostWhenNobodyWaits Tcp.ConnectionsThatCrossBecomeOne Tcp.Abort*
           LAYERS gcoll_base gcoll_transport
           SOURCES tcp_test.cc tcp_connect_test.cc tcp_leave_test.cc tcp_peer_test.cc tcp_stranger_test.cc tcp_checked_test.cc TIMED SHARDS 3 COST 5)
gcoll_test(transport_test PLAIN THREADS */inproc Inproc* *WakeEndsAWait* *PeekInVainWakes* *AbortTells* - *SameSeedSameOrder* *LimitOfOffers*
           LAYERS gcoll_base gcoll_transport
           SOURCES transport_test.cc transport_inproc_test.cc TIMED SHARDS 2 COST 4)
