# Tests of the monitor, and of what it decides.
foreach(test arrival_test arrival_fault_test)
  gcoll_test(${test} THREADS LAYERS ${core_layers} SOURCES ${test}.cc harness.cc)
endforeach()
