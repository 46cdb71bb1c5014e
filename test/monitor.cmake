# Tests of the monitor, and of what it decides.
gcoll_test(arrival_test THREADS Monitor.RanksThatRunAheadAgree Monitor.ADuplicateHasOneOfItsOwn Faults.*
           LAYERS ${core_layers} SOURCES arrival_test.cc arrival_fault_test.cc harness.cc
           TIMED SHARDS 3 COST 6)
