// gcoll_plan --plan: what a file gives in the place of an algorithm, and what is said of flags that it makes
// superfluous.
#include "test/tools/plan_tool_run.h"

namespace {

using namespace program_test;

std::string ring_file(const folder &here) {
    const std::string path = here.path + "/ring.json";
    const outcome o =
        plan({"show", "--algorithm=ring", "--ranks=4", "--count=64", "--format=json", "--output=" + path});
    EXPECT_EQ(o.status, 0) << o.err;
    return path;
}

TEST(PlanFiles, AFileTakesThePlaceOfAnAlgorithm) {
    folder here;
    const std::string file = "--plan=" + ring_file(here);
    const outcome words = plan({"show", file, "--rank=2"});
    EXPECT_EQ(words.out, plan({"show", "--algorithm=ring", "--ranks=4", "--count=64", "--rank=2"}).out);
    EXPECT_EQ(words.status, 0) << words.err;
    const outcome proof = plan({"verify", file});
    EXPECT_EQ(proof.status, 0) << proof.err;
    EXPECT_TRUE(contains(proof.out, "allreduce          ring ")) << proof.out;
    EXPECT_TRUE(contains(proof.out, " 1 checked\n")) << proof.out;
    const json record = records(plan({"verify", file, "--format=json"}))[0];
    EXPECT_TRUE(truth(record, "verified"));
    EXPECT_EQ(number(record, "checked"), 1);
    for (const strings &flags : {strings{"--alpha=3us", "--beta=1ns"},
                                 strings{"--ranks-per-host=2", "--host-beta=0.1ns", "--host-ports=1"},
                                 strings{"--arrival=one-late:1ms", "--type=float64"}}) {
        strings by_file = {"simulate", file, "--format=json"},
                by_name = {"simulate", "--algorithm=ring", "--ranks=4", "--format=json"};
        by_file.insert(by_file.end(), flags.begin(), flags.end());
        by_name.insert(by_name.end(), flags.begin(), flags.end());
        by_name.push_back(flags.back() == "--type=float64" ? "--bytes=512" : "--bytes=256");
        const outcome one = plan(by_file), other = plan(by_name);
        ASSERT_EQ(one.status, 0) << one.err;
        ASSERT_EQ(other.status, 0) << other.err;
        for (const char *key : {"time_us", "mean_elapsed_us", "count", "bytes"})
            EXPECT_EQ(number(records(one)[0], key), number(records(other)[0], key)) << key;
        EXPECT_EQ(json_object_get_type(field(records(one)[0], "formula_us")), json_type_null);
    }
}

// A plan that is well-formed but wrong can be looked at, and has no time.
TEST(PlanFiles, AWrongPlanIsShownAndNotPriced) {
    folder here;
    std::string text = file_text(ring_file(here));
    const size_t at = text.find("\"a\": [\"in\", 0, 16]");
    ASSERT_NE(at, std::string::npos);
    text.replace(at, 18, "\"a\": [\"in\", 0, 0]");
    const std::string path = here.path + "/wrong.json", file = "--plan=" + path;
    std::ofstream(path) << text;
    EXPECT_EQ(plan({"show", file}).status, 0);
    const outcome proof = plan({"verify", file}), time = plan({"simulate", file});
    EXPECT_EQ(proof.status, 1);
    EXPECT_TRUE(contains(proof.out, "FAILED: " + path + " of 4 ranks, 64 elements: rank ")) << proof.out;
    EXPECT_FALSE(truth(records(plan({"verify", file, "--format=json"}))[0], "verified"));
    EXPECT_EQ(time.status, 1);
    EXPECT_TRUE(contains(time.err, "--plan: " + path + ": rank ")) << time.err;
    EXPECT_FALSE(contains(time.out, "wrong")) << time.out;
}

TEST(PlanFiles, FlagsThatTheFileAnswersAreRefused) {
    folder here;
    const std::string file = "--plan=" + ring_file(here), network = here.path + "/net.json";
    std::ofstream(network) << R"({"gcoll_network": 1, "hosts": [{"name": "a", "ranks": [0, 1]}],
                                  "default": {"delay_us": 1, "rate_bit_per_s": 1e9}})";
    const struct {
        strings arguments;
        std::string said;
    } table[] = {
        {{"verify", file, "--collective=allreduce"}, "--collective: found with --plan"},
        {{"verify", file, "--algorithm=ring"}, "--algorithm: found with --plan"},
        {{"verify", file, "--ranks=4"}, "--ranks: found with --plan"},
        {{"verify", file, "--jobs=2"}, "--jobs: found with --plan"},
        {{"show", file, "--root=1"}, "--root: found with --plan"},
        {{"show", file, "--op=avg"}, "--op: found with --plan"},
        {{"show", file, "--in-place"}, "--in-place: found with --plan"},
        {{"show", file, "--inputs=2"}, "--inputs: found with --plan"},
        {{"show", file, "--rank=4"}, "--rank: is 4; allowed with 4 ranks is 0 to 3, all"},
        {{"show", file, "--rank=1", "--format=json"}, "--rank: is 1; allowed with --format json is all"},
        {{"show", file, "--count=64"}, "has elements of its own, but a number of them is given"},
        {{"simulate", file, "--bytes=1Ki"}, "has elements of its own, but a number of them is given"},
        {{"simulate", file, "--same=ranks"}, "--same: found with --plan"},
        {{"simulate", file, "--network=" + network}, "has 4 ranks; allowed with " + network + " are 1 to 2"},
        {{"stats", file}, "unknown argument '--plan'"},
        {{"verify", "--plan=/no/such"}, "plan file '/no/such': cannot be read: No such file"},
    };
    for (const auto &row : table) {
        const outcome o = plan(row.arguments);
        EXPECT_EQ(o.status, 2) << row.said << o.out;
        EXPECT_TRUE(contains(o.err, row.said)) << "found: " << o.err << "expected: " << row.said;
    }
}

} // namespace
