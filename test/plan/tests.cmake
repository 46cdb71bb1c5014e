# Plans: built, verified, mutated, simulated.
gcoll_test(verify_test LAYERS ${plan_layers}
           SOURCES verify_test.cc verify_values_test.cc verify_staged_test.cc verify_support.cc verify_oracle.cc SHARDS 2 COST 5)
gcoll_test(verify_codec_test PLAIN UNSANITIZED Sizes/* LAYERS ${plan_layers} SOURCES verify_codec_test.cc verify_grid.cc SHARDS 2 COST 6)
gcoll_test(verify_grid_test PLAIN EXHAUSTIVE UNSANITIZED All/StagingGrid.* All/Direct.* LAYERS ${plan_layers}
           SOURCES verify_grid_test.cc verify_staging_test.cc verify_direct_test.cc verify_figures_test.cc verify_grid.cc
           SHARDS 6 COST 10)
gcoll_test(verify_mutation_test PLAIN EXHAUSTIVE UNSANITIZED Staged/* LAYERS ${plan_layers}
           SOURCES verify_mutation_test.cc verify_mutants.cc verify_support.cc verify_oracle.cc verify_grid.cc
           SHARDS 6 COST 10)
gcoll_test(simulate_test PLAIN EXHAUSTIVE UNSANITIZED Table/Cost.* CostDocs.* Simulate.GroupButterflyStepByStep Simulate.TwoTreesBeatOne SimulateRules.HoldForEveryAlgorithm LAYERS ${plan_layers}
           SOURCES simulate_test.cc simulate_rules_test.cc simulate_device_test.cc simulate_cost_test.cc simulate_network_test.cc SHARDS 2 COST 8)
target_compile_definitions(simulate_test PRIVATE ALGORITHMS_MD="${PROJECT_SOURCE_DIR}/docs/algorithms.md")
gcoll_test(plan_test UNSANITIZED Passes.ResultsOfEveryCombination LAYERS ${plan_layers} SOURCES builder_test.cc pass_test.cc stage_test.cc ${CMAKE_CURRENT_LIST_DIR}/../algorithms/tuning_test.cc ${CMAKE_CURRENT_LIST_DIR}/../algorithms/choice_test.cc COST 5)
target_link_options(plan_test PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)

# Their names for themselves are those of others in the program, too.
set_source_files_properties(plan/verify_staging_test.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
