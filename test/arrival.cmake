# Tests of arrival patterns: how they are written, and the algorithms that go by them.
if(TARGET gcoll_cli)
  gcoll_test(cli_arrival_test LAYERS gcoll_base SOURCES cli_arrival_test.cc)
  target_link_libraries(cli_arrival_test PRIVATE gcoll_cli)
endif()
