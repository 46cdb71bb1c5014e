// gcoll_plan arrival: the measures, the mean over operations, and the search, whose optimum is known for few
// ranks.
#include "test/kit/program.h"

#include <map>

namespace {

using namespace program_test;

// A float takes 1 ms, and nothing else takes any: with as many floats as ranks that is tau.
outcome arrival(int ranks, const strings &more) {
    strings all = {"arrival",
                   "--ranks=" + std::to_string(ranks),
                   "--bytes=" + std::to_string(4 * ranks),
                   "--alpha=0us",
                   "--beta=250000ns",
                   "--gamma=0ns",
                   "--format=json",
                   "--algorithm=ring,sorted_linear_tree,pre_reduced_ring"};
    all.insert(all.end(), more.begin(), more.end());
    return run(GCOLL_PLAN, all);
}

using Row = std::map<std::string, double>; // ms

std::map<std::string, Row> rows(const outcome &o) {
    std::map<std::string, Row> found;
    EXPECT_EQ(o.status, 0) << o.err;
    for (const json &r : records(o))
        for (const char *name : {"elapsed_us", "from_mean_us", "from_last_us"})
            found[text(r, "algorithm")][name] = number(r, name) / 1000;
    return found;
}

// Two ranks, one late by 5 ms: both exchange halves when it has come, twice.
TEST(Arrival, MeasuresFromOwnMeanAndLastArrival) {
    auto found = rows(arrival(2, {"--arrival=one-late:5ms:1"}));
    EXPECT_NEAR(found["ring"]["elapsed_us"], (7 + 2) / 2., 1e-6);
    EXPECT_NEAR(found["ring"]["from_mean_us"], 7 - 2.5, 1e-6);
    EXPECT_NEAR(found["ring"]["from_last_us"], 2, 1e-6);
}

// Two: nobody can do better. Three, the last late by 3 ms: the two others have pre-reduced; it takes two
// thirds in while the third makes its way, and all are done 4 ms later. Four: the example of the paper, see
// test/algorithms/proficz_test.cc.
TEST(Arrival, TheSearchFindsTheKnownBestOfFewRanks) {
    const struct {
        int ranks;
        const char *how;
        double best_ms;
    } known[] = {
        {2, "one-late:5ms:1", 4.5}, {3, "one-late:3ms:2", 3 * 2 / 3. + 4}, {4, "one-late:2ms:0", 7.25}};
    for (const auto &k : known)
        for (const char *tries : {"--tries=2000", "--tries=60"}) { // all; some, where all are more than that
            auto found = rows(arrival(k.ranks, {std::string("--arrival=") + k.how, tries}));
            EXPECT_NEAR(found["best_ring_found"]["elapsed_us"], k.best_ms, 1e-6)
                << k.ranks << " ranks, " << tries;
            EXPECT_NEAR(found["pre_reduced_ring"]["elapsed_us"], k.best_ms, 1e-6) << k.ranks;
        }
}

// Whatever the pattern, what is found is no worse than what the search began with, and the same each time.
TEST(Arrival, TheSearchIsNeverWorseThanThePlannersAndRepeats) {
    for (const char *how : {"rand-late:4ms:1", "rand-late:9ms:2", "linear:6ms"}) {
        const strings flags = {std::string("--arrival=") + how, "--tries=300", "--operations=2"};
        const outcome o = arrival(6, flags);
        auto found = rows(o);
        EXPECT_EQ(arrival(6, flags).out, o.out);
        ASSERT_EQ(found.size(), 4u);
        for (const auto &row : found)
            EXPECT_GE(row.second.at("elapsed_us") + 1e-9, found["best_ring_found"]["elapsed_us"])
                << row.first;
    }
}

TEST(Arrival, OperationsAreAveraged) {
    folder f;
    const std::string path = f.path + "/trace";
    std::ofstream(path) << "0 0 3\n6 0 1\n";
    auto both = rows(arrival(3, {"--operations=2", "--arrival=trace:" + path}));
    std::ofstream(path) << "0 0 3\n";
    auto first = rows(arrival(3, {"--arrival=trace:" + path}));
    std::ofstream(path) << "6 0 1\n";
    auto second = rows(arrival(3, {"--arrival=trace:" + path}));
    ASSERT_EQ(both.size(), 3u);
    for (const auto &row : both)
        for (const auto &field : row.second)
            EXPECT_NEAR(field.second, (first[row.first][field.first] + second[row.first][field.first]) / 2,
                        1e-6)
                << row.first << " " << field.first;
}

// What planners are told wrong costs those that listen, and the ring does not.
TEST(Arrival, ErrorsAreToldToPlannersOnly) {
    auto right = rows(arrival(8, {"--arrival=none"}));
    auto wrong = rows(arrival(8, {"--arrival=none", "--error=5ms"}));
    EXPECT_EQ(right["ring"], wrong["ring"]);
    EXPECT_EQ(right["ring"], right["pre_reduced_ring"]);
    EXPECT_GT(wrong["pre_reduced_ring"]["elapsed_us"], right["pre_reduced_ring"]["elapsed_us"] + 0.9);
}

TEST(Arrival, MistakesAreNamed) {
    const struct {
        strings flags;
        const char *said;
    } mistakes[] = {
        {{"--ranks=2,3"}, "arrival takes one number of --ranks"},
        {{"--tries=5", "--collective=reduce", "--algorithm=binomial"}, "--tries: what is searched"},
        {{"--operations=0"}, "--operations: is '0'"},
        {{"--arrival=one-late:1ms:9"}, "has rank 9; allowed with 4 ranks is 0 to 3"}};
    for (const auto &m : mistakes) {
        const outcome o = arrival(4, m.flags);
        EXPECT_EQ(o.status, 2) << m.said;
        EXPECT_TRUE(contains(o.err, m.said)) << o.err;
    }
}

TEST(Arrival, TheTableHasTheRing) {
    const outcome o = arrival(4, {"--arrival=one-late:2ms:0", "--tries=2000", "--format=table"});
    EXPECT_TRUE(contains(o.out, "# best of all rings:\n#   order 1 2 3 0\n#   lead  1 1 0 0\n")) << o.out;
    EXPECT_TRUE(contains(o.out, "       7.2500        7.5000        6.0000    1.000  best_ring_found"))
        << o.out;
}

} // namespace
