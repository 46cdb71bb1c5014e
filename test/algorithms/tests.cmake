# The algorithms as plans, and the choice between them.
gcoll_test(planner_test EXHAUSTIVE
           UNSANITIZED GroupButterflyProduct.SumsClaimsAndCosts GroupButterfly.BoundsOnEveryRank GroupButterfly.ResultsAndClaimsForEveryPAndR
                       Hierarchical.SumsWhateverTheHosts Hierarchical.SumsWhateverTheLeaders Circulant.SumsForEveryPAndLimit
                       CollectivePlanners.OnData CollectivePlanners.CostsAreWhatTheSimulatorFinds TreePlanners.Costs* LevelCost.LeadersAreChosen
                       Hierarchical.ClaimsAndCostsOfEvenHosts
           LAYERS ${plan_layers}
           SOURCES algorithm_test.cc allreduce_planner_test.cc arrival_planner_test.cc circulant_test.cc
                   collective_planner_test.cc group_butterfly_test.cc hierarchical_test.cc level_cost_test.cc proficz_test.cc tour_planner_test.cc tree_planner_test.cc
           SHARDS 6 COST 9)
gcoll_test(docs_test LAYERS ${plan_layers} SOURCES docs_test.cc)
target_compile_definitions(docs_test PRIVATE SOURCE="${PROJECT_SOURCE_DIR}")

# Their names for themselves are those of others in the program, too.
set_source_files_properties(algorithms/level_cost_test.cc algorithms/tuning_test.cc algorithms/collective_planner_test.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
