# Tests of the core through the public headers: ranks are threads or processes.
gcoll_test(collective_test PLAIN *Large* UNSANITIZED Sizes/Collectives.*_7 Sizes/Collectives.*_8 Some/Types*_8 Some/Lists.*_8 Sizes/Blocks.*_8 Sizes/Factors.*_7 All/ReduceScatterBuffers.*_7 All/ReduceScatterBuffers.*_8 All/ReduceScatterBuffers.*_9 Sizes/Collectives.*_13 Sizes/Collectives.*_16 Sizes/Collectives.*_17 THREADS *inproc_2 *inproc_3 *inproc_5 Some/Types*inproc* Some/Buffers*inproc* Sizes/SharedMemory*shm_3 - *Large* *Lists.*_5 *Lists.AllreduceOfLongVectors*_3 *Types*_8 *Factors.*_5
           LAYERS ${core_layers}
           SOURCES collective_test.cc block_collective_test.cc shared_memory_test.cc reduce_scatter_buffers_test.cc list_test.cc root_counts_test.cc factor_test.cc harness.cc SHARDS 4 COST 9)
gcoll_test(core_test UNSANITIZED Some/UserOp.*_8 THREADS *inproc* *Threads.* *Guards.* *Aborts.* *Contexts.* *Requests.* ContextsAlone.* Strangers.* - *TagsOutOfOrder* *ASlowReduction* *UserOp*_5 *UserOp*_8 *Refusals*_5
           LAYERS ${core_layers}
           SOURCES argument_test.cc call_test.cc choose_test.cc context_test.cc fit_test.cc fork_test.cc guard_test.cc mismatch_test.cc operation_test.cc pair_test.cc
                   refusal_test.cc region_test.cc rendezvous_test.cc request_test.cc store_text_test.cc thread_test.cc timeout_test.cc tuning_context_test.cc user_op_test.cc
                   harness.cc
           TIMED SHARDS 6 COST 12)
add_library(region_peek OBJECT ${CMAKE_CURRENT_LIST_DIR}/region_peek.c) # C, and so without the precompiled headers of the tests
target_link_libraries(region_peek PRIVATE gcoll_flags)
target_sources(core_test PRIVATE $<TARGET_OBJECTS:region_peek>)
if(CMAKE_C_FLAGS MATCHES "sanitize=address") # one of its tests asks AddressSanitizer itself
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/operation_test.cc PROPERTIES
                              COMPILE_OPTIONS -fsanitize=address SKIP_PRECOMPILE_HEADERS ON)
endif()
if(TARGET PkgConfig::json_c) # reads the files, beside gcoll's own tool
  gcoll_test(record_test PLAIN Records.RowsAreReadWholeOrNotAtAll THREADS * - */tcp LAYERS ${core_layers} SOURCES record_test.cc harness.cc COST 6)
  add_library(record_peek OBJECT ${CMAKE_CURRENT_LIST_DIR}/record_peek.c)
  target_link_libraries(record_peek PRIVATE gcoll_flags)
  if(TARGET record_test)
    target_sources(record_test PRIVATE $<TARGET_OBJECTS:record_peek>)
  endif()
  # ThreadSanitizer lets no child of a program with threads make threads.
  gcoll_test(watch_test THREADS *-*WithoutAFolder* LAYERS ${core_layers} SOURCES watch_test.cc harness.cc COST 3)
  foreach(test record_test watch_test)
    if(TARGET ${test})
      target_link_libraries(${test} PRIVATE PkgConfig::json_c)
    endif()
  endforeach()
endif()
gcoll_test(stats_test THREADS * LAYERS ${core_layers} SOURCES stats_test.cc harness.cc COST 3)
gcoll_test(codec_call_test UNSANITIZED Jobs/CodecCalls.*_5 Jobs/CodecCalls.*_8 THREADS *inproc_3 CodecRefusals.* LAYERS ${core_layers} SOURCES codec_test.cc harness.cc SHARDS 2 COST 6)
gcoll_test(secret_test LAYERS ${core_layers} SOURCES secret_test.cc harness.cc TIMED COST 6)
gcoll_test(encryption_test LAYERS ${core_layers} SOURCES encryption_test.cc harness.cc TIMED COST 10)
gcoll_test(late_clock_test LAYERS ${core_layers} SOURCES late_clock_test.cc harness.cc COST 3)
gcoll_test(receive_test THREADS *inproc* LAYERS ${core_layers} SOURCES receive_test.cc roll_call_test.cc harness.cc TIMED COST 8)
gcoll_test(embed_test PLAIN THREADS * LAYERS ${core_layers} SOURCES embed_test.cc harness.cc TIMED COST 13)
gcoll_test(striped_test LAYERS ${core_layers} SOURCES striped_test.cc harness.cc TIMED COST 3)
gcoll_test(environment_test LAYERS ${core_layers} SOURCES environment_test.cc harness.cc)
gcoll_test(network_test LAYERS ${core_layers} SOURCES network_test.cc harness.cc)
add_library(network_peek OBJECT ${CMAKE_CURRENT_LIST_DIR}/network_peek.c) # C, and so without the precompiled headers of the tests
target_link_libraries(network_peek PRIVATE gcoll_flags)
target_sources(network_test PRIVATE $<TARGET_OBJECTS:network_peek>)
gcoll_test(launch_test LAYERS ${core_layers} SOURCES launch_test.cc harness.cc TIMED SHARDS 2 COST 18)
add_library(launch_peek OBJECT ${CMAKE_CURRENT_LIST_DIR}/launch_peek.c) # C, and so without the precompiled headers of the tests
target_link_libraries(launch_peek PRIVATE gcoll_flags)
target_sources(launch_test PRIVATE $<TARGET_OBJECTS:launch_peek>)
gcoll_test(group_test THREADS *inproc* LimitedStoreCalls.* GroupsInProcess.* - *AThousandSplits*
           LAYERS ${core_layers} SOURCES exchange_test.cc group_test.cc limited_store_test.cc harness.cc TIMED SHARDS 2 COST 8)
gcoll_test(integrity_test THREADS *inproc LAYERS ${core_layers} SOURCES opening_test.cc checksum_test.cc harness.cc SHARDS 2)
# Runs the tests of the transports and some of the collectives once more, with checksums.
add_test(NAME transport_test.checksum COMMAND transport_test --gtest_filter=*/tcp)
add_test(NAME collective_test.checksum COMMAND collective_test --gtest_filter=*Sums/tcp_3:*Blocks*tcp_3*:*Sums/inproc_3)
set_tests_properties(transport_test.checksum collective_test.checksum PROPERTIES TIMEOUT 120 COST 4
                     LABELS "plain_tests;repeats" ENVIRONMENT "GCOLL_TEST_CHECKSUM=1")
# Runs cases of tests once more, as PROGRAM.SUFFIX, with labels and an environment. Each of the rest is a program and a filter of its cases.
function(gcoll_test_again suffix labels environment)
  foreach(each IN LISTS ARGN)
    separate_arguments(words UNIX_COMMAND "${each}")
    list(GET words 0 program)
    list(GET words 1 cases)
    if("plain_tests" IN_LIST labels)
      add_dependencies(plain_tests ${program})
    endif()
    add_test(NAME ${program}.${suffix} COMMAND ${program} --gtest_filter=${cases})
    set_tests_properties(${program}.${suffix} PROPERTIES TIMEOUT 300 COST 8 LABELS "${labels};repeats"
                         ENVIRONMENT "${environment};GTEST_BRIEF=1")
  endforeach()
endfunction()
set(shm GCOLL_TEST_TRANSPORTS=shm)
set(secret GCOLL_SECRET=0123456789abcdef0123456789abcdef)
set(encrypted "${secret};GCOLL_ENCRYPTION=on")
# What a lane may change, over shared memory: failures with ranks that die, stop and stay away, too.
gcoll_test_again(shm "plain_tests;timed" "${shm}"
  "collective_test '*Sums/shm_2:*Sums/shm_5:*Blocks*shm_3*'" "receive_test '*shm*'" "soak_test '*'" "failure_test '*'")
if(gcoll_has_openssl)
  gcoll_test_again(encrypted timed "${encrypted}"
    "collective_test '*Sums/tcp_3:*Sums/shm_3:*Sums/tcp_5'" "receive_test '*tcp*'")
endif()
if(gcoll_has_unsanitized)
  gcoll_test_again(shm "plain_tests;timed" "${shm}" "group_test '*shm*'" "core_test '*shm*:Fork*:Timeouts*'" "recovery_test '*shm*:Recovery.*'")
  # Failures, recovery, groups and collectives in a job with a secret. Where there is encryption, which has one too, the gate has only
  # some of them.
  gcoll_test_again(secret "plain_tests;timed" "${secret}" "failure_test '*'" "collective_test '*Sums/tcp_3:*Sums/shm_3'")
  set(beside "plain_tests;timed")
  if(gcoll_has_openssl)
    set(beside timed)
  endif()
  gcoll_test_again(secret "${beside}" "${secret}" "recovery_test '*'" "grow_test '*'" "group_test '*tcp*'")
  if(gcoll_has_openssl)
    gcoll_test_again(encrypted "plain_tests;timed" "${encrypted}" "failure_test '*'" "recovery_test '*'" "soak_test '*'"
      "grow_test '*'" "group_test '*tcp*'")
  endif()
  # All collectives once more, in contexts that share the connections of another one, which has several to each peer.
  add_test(NAME collective_test.share COMMAND collective_test --gtest_filter=*tcp_2*:*tcp_3*:*tcp_5*)
  set_tests_properties(collective_test.share PROPERTIES TIMEOUT 300 COST 8
                       LABELS "plain_tests;repeats" ENVIRONMENT "GCOLL_TEST_SHARE=tcp:connections=4")
endif()
add_library(opening_peek OBJECT ${CMAKE_CURRENT_LIST_DIR}/opening_peek.c ${CMAKE_CURRENT_LIST_DIR}/route_peek.c) # C, and so without the precompiled headers of the tests
target_link_libraries(opening_peek PRIVATE gcoll_flags)
target_sources(integrity_test PRIVATE $<TARGET_OBJECTS:opening_peek>)
gcoll_test(soak_test PLAIN THREADS LAYERS ${core_layers} SOURCES soak_test.cc harness.cc)
gcoll_test(fault_test PLAIN Forms/KilledInProcess.* THREADS * - *KilledInProcess.*
           LAYERS ${core_layers} SOURCES fault_test.cc harness.cc TIMED SHARDS 2 COST 7)
gcoll_test(failure_test PLAIN LAYERS ${core_layers} SOURCES failure_test.cc attack_test.cc harness.cc TIMED SHARDS 2 COST 14)
gcoll_test(keep_input_test PLAIN Collectives/* THREADS *inproc* LAYERS ${core_layers} SOURCES keep_input_test.cc harness.cc COST 5)
gcoll_test(recovery_test PLAIN UNSANITIZED Recovery.Costs LAYERS ${core_layers} SOURCES recovery_test.cc harness.cc TIMED COST 10)
gcoll_test(uniform_test PLAIN UNSANITIZED Uniform.Costs THREADS *inproc* LAYERS ${core_layers} SOURCES uniform_test.cc harness.cc TIMED COST 10)
gcoll_test(grow_test PLAIN LAYERS ${core_layers} SOURCES grow_test.cc harness.cc TIMED COST 10)
gcoll_test(scale_test UNSANITIZED Scale.WaitingForALateRankTakesNoProcessor Scale.SixtyFourProcessesOfWhichOneServes LAYERS ${core_layers} SOURCES scale_test.cc harness.cc TIMED)
gcoll_test(footprint_test PLAIN LAYERS ${core_layers} SOURCES footprint_test.cc allocations.cc harness.cc)
# 64 ranks leave at once, each within a second, and must leave no key in the store. So no other test runs at the same time.
set_tests_properties(footprint_test scale_test PROPERTIES RUN_SERIAL ON)
if(TEST scale_test.repeats)
  set_tests_properties(scale_test.repeats PROPERTIES RUN_SERIAL ON)
endif()
gcoll_test(share_test THREADS *ASecondThread* PLAIN *AGroupThatIsFreedWhileItsPeersSend *AChildFreesAllAmidTheirMessages UNSANITIZED ShareCosts.*
           LAYERS ${core_layers} SOURCES share_test.cc allocations.cc harness.cc TIMED COST 6)
gcoll_test(level_test THREADS Levels.OfGroups* LAYERS ${core_layers} SOURCES level_test.cc harness.cc COST 3)
add_library(level_peek OBJECT ${CMAKE_CURRENT_LIST_DIR}/level_peek.c) # C, and so without the precompiled headers of the tests
target_link_libraries(level_peek PRIVATE gcoll_flags)
target_sources(level_test PRIVATE $<TARGET_OBJECTS:level_peek>)
gcoll_test(same_test LAYERS ${core_layers} SOURCES same_test.cc harness.cc COST 3)
add_library(same_peek OBJECT ${CMAKE_CURRENT_LIST_DIR}/same_peek.c) # C, and so without the precompiled headers of the tests
target_link_libraries(same_peek PRIVATE gcoll_flags)
target_sources(same_test PRIVATE $<TARGET_OBJECTS:same_peek>)
gcoll_test(order_test UNSANITIZED Order.HoldsForAllSizesAndTypes LAYERS ${core_layers} SOURCES order_test.cc harness.cc COST 5)
gcoll_test(shortage_test PLAIN UNSANITIZED MemoryForChoosing.* LAYERS ${core_layers} SOURCES shortage_test.cc allocations.cc harness.cc TIMED COST 5)
set(counted malloc calloc realloc aligned_alloc posix_memalign strdup free)
list(TRANSFORM counted PREPEND -Wl,--wrap=)
target_link_options(footprint_test PRIVATE ${counted})
target_link_options(share_test PRIVATE ${counted} -Wl,--wrap=gcoll_rendezvous_record -Wl,--wrap=gcoll_ib_is_likely)
target_link_options(shortage_test PRIVATE ${counted})

# Their names for themselves are those of others in the program, too.
set_source_files_properties(core/attack_test.cc core/call_test.cc core/fork_test.cc core/guard_test.cc core/limited_store_test.cc core/list_test.cc core/operation_test.cc core/reduce_scatter_buffers_test.cc core/request_test.cc core/root_counts_test.cc core/timeout_test.cc core/tuning_context_test.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
