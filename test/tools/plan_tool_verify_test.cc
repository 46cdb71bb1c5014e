// gcoll_plan verify and stats: numbers of the sources, and planners with a fault each.
#include "test/tools/plan_tool_run.h"

namespace {

using namespace program_test;

// ---- stats ------------------------------------------------------------------------------------------------

TEST(Stats, GroupButterflyByThePaper) {
    struct row {
        int ranks, r, steps, sent;
    };
    for (const row &x : {row{7, 0, 6, 12}, row{7, 1, 5, 14}, row{7, 2, 4, 18}, row{7, 3, 3, 21},
                         row{127, 0, 14, 252}, row{127, 4, 10, 342}, row{127, 7, 7, 889}}) {
        std::string ranks = std::to_string(x.ranks);
        outcome o = plan({"stats", "--collective", "allreduce", "--algorithm",
                          "group_butterfly:r=" + std::to_string(x.r), "--ranks", ranks, "--count", ranks,
                          "--format", "json"});
        ASSERT_EQ(o.status, 0) << o.err;
        std::vector<json> found = records(o);
        ASSERT_EQ(found.size(), 1u);
        EXPECT_EQ(number(found[0], "steps"), x.steps) << o.out;
        EXPECT_EQ(number(found[0], "sent_max"), x.sent) << o.out;
        EXPECT_TRUE(truth(found[0], "verified"));
        EXPECT_EQ(truth(found[0], "rank_identical"), x.r == 0) << o.out;
    }
}

TEST(Stats, RingByItsFormulaForListsOfRanksAndCounts) {
    outcome o = plan({"stats", "--algorithm=ring", "--ranks=2-5,8", "--count=40:160:x2", "--format=json"});
    ASSERT_EQ(o.status, 0) << o.err;
    std::vector<json> found = records(o);
    ASSERT_EQ(found.size(), 15u);
    size_t at = 0;
    for (int ranks : {2, 3, 4, 5, 8})
        for (int count : {40, 80, 160}) {
            const json &r = found[at++];
            strings keys;
            json_object_object_foreach(r.get(), key, value) {
                (void)value;
                keys.push_back(key);
            }
            EXPECT_EQ(keys,
                      strings({"collective", "algorithm", "ranks", "count", "steps", "sent_max", "sent_total",
                               "reduced_max", "scratch_max", "messages_max", "verified", "rank_identical"}));
            EXPECT_EQ(text(r, "collective"), "allreduce");
            EXPECT_EQ(text(r, "algorithm"), "ring");
            EXPECT_EQ(number(r, "ranks"), ranks);
            EXPECT_EQ(number(r, "count"), count);
            EXPECT_EQ(number(r, "steps"), 2 * (ranks - 1));
            EXPECT_EQ(number(r, "messages_max"), 2 * (ranks - 1));
            EXPECT_EQ(number(r, "sent_total"), 2 * (ranks - 1) * count) << "each segment makes 2(P-1) hops";
            EXPECT_EQ(number(r, "scratch_max"), 0);
            if (count % ranks == 0) {
                EXPECT_EQ(number(r, "sent_max"), 2 * (ranks - 1) * count / ranks);
                EXPECT_EQ(number(r, "reduced_max"), (ranks - 1) * count / ranks);
            }
            EXPECT_TRUE(truth(r, "verified"));
            EXPECT_TRUE(truth(r, "rank_identical"));
        }
}

TEST(Stats, APlanThatIsWrongIsNotVerified) {
    outcome o = plan({"stats", "--load", PLUGIN_DROP, "--algorithm=broken", "--ranks=4", "--format=json"});
    EXPECT_EQ(o.status, 1);
    std::vector<json> found = records(o);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_FALSE(truth(found[0], "verified"));
    EXPECT_FALSE(truth(found[0], "rank_identical"));
    EXPECT_TRUE(contains(o.err, "broken of 4 ranks, 4 elements: rank 1, step 2 (recv from 2, 4 elements)"))
        << o.err;
}

// ---- verify
// ------------------------------------------------------------------------------------------------

TEST(Verify, EveryAlgorithmOfTheLibrary) {
    const strings grid = {"verify", "--ranks=1-5,8", "--count=0,1,9", "--format=json", "--jobs"};
    strings one = grid, three = grid;
    one.push_back("1");
    three.push_back("3");
    outcome o = plan(one);
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    std::vector<json> found = records(o);
    EXPECT_GE(found.size(), 5u);
    for (const json &r : found) {
        EXPECT_TRUE(truth(r, "verified")) << text(r, "error");
        EXPECT_GT(number(r, "checked"), 0) << text(r, "algorithm");
    }
    EXPECT_EQ(o.out, plan(three).out) << "what is found does not depend on who finds it";
    outcome list = plan({"list", "--format=json"});
    EXPECT_EQ(found.size(), lines(list.out).size()) << "all of them were looked at";
}

TEST(Verify, TheTableEndsWithTotals) {
    outcome o =
        plan({"verify", "--collective=allreduce",
              "--algorithm=ring,group_butterfly:r=1:group=cyclic:factor=0", "--ranks=2-9", "--count=10"});
    EXPECT_EQ(o.status, 0) << o.err;
    strings found = lines(o.out);
    ASSERT_EQ(found.size(), 3u) << o.out;
    EXPECT_TRUE(contains(found[0], "ring")) << found[0];
    EXPECT_TRUE(contains(found[0], " 16 checked")) << "8 numbers of ranks, two placements: " << found[0];
    EXPECT_TRUE(contains(found[1], "group_butterfly:r=1")) << found[1];
    EXPECT_EQ(found[2], "2 algorithms, 32 jobs checked, 0 skipped, 0 algorithms failed");
}

struct fault {
    const char *plugin;
    const char *said;
};

TEST(Verify, FaultsAreFound) {
    for (const fault &f :
         {fault{PLUGIN_DROP, "FAILED: broken of 3 ranks, 1 element: rank 0, step 1 (recv from 1, 1 element)"},
          fault{PLUGIN_CLAIM,
                "FAILED: broken of 2 ranks, 1 element: claims a property that does not hold: ordered"},
          fault{PLUGIN_MODEST,
                "FAILED: broken of 2 ranks, 7 elements: does not claim a property that holds: ordered"},
          fault{PLUGIN_CRASH, "FAILED: broken of 4 ranks: crashed"}}) {
        outcome o = plan({"verify", "--load", f.plugin, "--collective=allreduce", "--algorithm=broken,ring",
                          "--ranks=1-5", "--count=1,7", "--jobs=2"});
        EXPECT_EQ(o.status, 1);
        strings found = lines(o.out);
        ASSERT_EQ(found.size(), 3u) << o.out << o.err;
        EXPECT_TRUE(contains(found[0], f.said)) << found[0];
        EXPECT_TRUE(contains(found[1], "ring")) << "the others are still proved: " << found[1];
        EXPECT_FALSE(contains(found[1], "FAILED")) << found[1];
        EXPECT_TRUE(contains(found[2], "1 algorithm failed")) << found[2];
    }
}

TEST(Verify, WhatDoesNotApplyIsSkippedWithTheReason) {
    outcome o = plan({"verify", "--load", PLUGIN_RELUCT, "--algorithm=broken", "--ranks=1-6", "--count=7"});
    EXPECT_EQ(o.status, 0) << o.out;
    EXPECT_TRUE(contains(o.out, " 6 checked, 6 skipped (1 rank: odd numbers of ranks are too odd)")) << o.out;
}

TEST(Verify, ATreeThatIsNotBuiltIsNotChecked) {
    outcome o = plan({"verify", "--collective=allreduce", "--algorithm=ring", "--ranks=5", "--order=pairs"});
    EXPECT_EQ(o.status, 2) << o.out;
    EXPECT_TRUE(contains(o.err, "--order: ring does not build that tree for 5 ranks; allowed is any"))
        << o.err;
    o = plan({"verify", "--collective=allreduce", "--algorithm=ring,linear", "--ranks=1-5", "--order=left"});
    EXPECT_EQ(o.status, 2) << "one of them lacks it: " << o.out;
    o = plan({"verify", "--collective=allreduce", "--ranks=5", "--count=10", "--order=pairs"});
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    EXPECT_TRUE(
        contains(o.out, "ring                                0 checked, 2 skipped (5 ranks: order: ring"))
        << o.out;
    EXPECT_TRUE(contains(o.out, "halving_doubling                    2 checked\n")) << o.out;
    o = plan({"verify", "--collective=broadcast", "--algorithm=binomial", "--ranks=5", "--order=pairs"});
    EXPECT_EQ(o.status, 0) << "nothing is reduced: " << o.err;
}

TEST(Compare, APlannerThatRefusesDoesNotApply) {
    outcome o = plan({"compare", "--load", PLUGIN_REFUSE, "--algorithm=broken,ring", "--ranks=3,4",
                      "--bytes=64", "--format=json"});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_TRUE(contains(o.err, "broken of 3 ranks, 16 elements: does not apply: rank 0: odd numbers"))
        << o.err;
    std::vector<json> found = records(o);
    ASSERT_EQ(found.size(), 4u) << o.out;
    EXPECT_EQ(text(found[1], "algorithm"), "broken");
    EXPECT_EQ(field(found[1], "time_us"), nullptr);
    EXPECT_NE(field(found[2], "time_us"), nullptr);
    EXPECT_NE(field(found[3], "time_us"), nullptr);
}

TEST(Verify, TheWorkedExample) {
    outcome o = plan({"verify", "--load", EXAMPLE_PLUGIN, "--algorithm=chain,chain:segment=8",
                      "--collective=allreduce", "--ranks=1-17", "--count=0,1,5,64"});
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    o = plan(
        {"stats", "--load", EXAMPLE_PLUGIN, "--algorithm=chain", "--ranks=6", "--count=10", "--format=json"});
    ASSERT_EQ(o.status, 0) << o.err;
    json r = records(o).at(0);
    EXPECT_EQ(number(r, "steps"), 10);
    EXPECT_EQ(number(r, "sent_max"), 20);
    EXPECT_EQ(number(r, "sent_total"), 100);
    EXPECT_EQ(number(r, "reduced_max"), 10);
}

// ---- plugins
// -----------------------------------------------------------------------------------------------

TEST(Load, WhatIsNoPluginIsRefused) {
    for (const fault &f :
         {fault{PLUGIN_VERSION, "was compiled with gcoll"},
          fault{PLUGIN_SAME, "algorithm ring: allreduce has one of that name already"},
          fault{"no_such_file.so", "--load: ./no_such_file.so"}, fault{GCOLL_PLAN, "--load: "}}) {
        outcome o = plan({"list", "--load", f.plugin});
        EXPECT_EQ(o.status, 2) << f.plugin;
        EXPECT_TRUE(contains(o.err, f.said)) << o.err;
    }
}

TEST(Load, PluginsAreListedAfterTheTable) {
    outcome o = plan({"list", "--load", EXAMPLE_PLUGIN, "--collective=allreduce", "--format=json"});
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(text(records(o).back(), "algorithm"), "chain");
    EXPECT_EQ(text(records(o).back(), "source"), "examples/planner.c");
}

} // namespace
