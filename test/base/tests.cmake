# What everything stands on: types, kernels, checksums, maps.
gcoll_test(base_test LAYERS gcoll_base SOURCES types_test.cc host_test.cc crc32c_test.cc map_test.cc sha256_test.cc)
gcoll_test(codec_test PLAIN UNSANITIZED *KeepTheirBoundInAMillionSums* *AreRightInTheMean* LAYERS gcoll_base SOURCES codec_test.cc SHARDS 2 COST 6)
gcoll_test(kernel_test PLAIN LAYERS gcoll_base SOURCES kernel_test.cc SHARDS 2 COST 7)
set(layers ${core_layers})
list(REMOVE_ITEM layers gcoll_base)
# A library without OpenSSL.
add_library(tls_absent OBJECT ${PROJECT_SOURCE_DIR}/gcoll/base/tls_absent.c)
target_link_libraries(tls_absent PRIVATE gcoll_flags)
gcoll_test(tls_absent_test LAYERS ${layers}
           SOURCES tls_absent_test.cc harness.cc $<TARGET_OBJECTS:tls_absent> $<FILTER:$<FILTER:$<TARGET_OBJECTS:gcoll_base>,EXCLUDE,/tls>,EXCLUDE,/openssl>)
# TLS with keys that are new after 100,000 bytes.
if(gcoll_has_openssl)
  add_library(tls_of_test OBJECT ${PROJECT_SOURCE_DIR}/gcoll/base/tls.c)
  target_link_libraries(tls_of_test PRIVATE gcoll_flags)
  target_compile_definitions(tls_of_test PRIVATE REKEY_BYTES=100000)
  gcoll_test(tls_test LAYERS ${layers} SOURCES tls_test.cc harness.cc $<TARGET_OBJECTS:tls_of_test> $<FILTER:$<TARGET_OBJECTS:gcoll_base>,EXCLUDE,/tls[.]c> COST 5)
endif()

include(${CMAKE_CURRENT_LIST_DIR}/kernels.cmake)
