// gcoll_plan on buffers in the memory of devices.
#include "test/tools/plan_tool_run.h"

#include <map>
#include <set>

namespace {

using namespace program_test;

TEST(DeviceMemory, MistakesAreNamed) {
    struct row {
        strings arguments;
        const char *said;
    };
    for (const row &x : {
             row{{"stats", "--ranks=4", "--memory=gpu"},
                 "--memory: is 'gpu'; allowed is one of host, device"},
             row{{"stats", "--ranks=4", "--local-reduction=gpu"},
                 "--local-reduction: is 'gpu'; allowed is one of auto, host, device, peer"},
             row{{"stats", "--ranks=4", "--algorithm=ring", "--whole"},
                 "--whole: there are no buffers in device memory; give --memory device"},
             row{{"stats", "--ranks=4", "--algorithm=ring", "--local-reduction=peer"},
                 "--local-reduction: there are no buffers in device memory; give --memory device"},
             row{{"stats", "--ranks=4", "--algorithm=cuda_ring", "--memory=host", "--inputs=2",
                  "--devices=2"},
                 "--devices: there are no buffers in device memory; give --memory device"},
             row{{"stats", "--ranks=4", "--algorithm=cuda_ring", "--local-reduction=device"},
                 "--local-reduction: cuda_ring says by itself how it stages"},
             row{{"stats", "--ranks=4", "--memory=device", "--inputs=2", "--devices=3"},
                 "--devices: is 3; allowed is 1 to --inputs, 2"},
             row{{"verify", "--algorithm=ring", "--ranks=3", "--devices=2", "--inputs=2"},
                 "--devices: there are no buffers in device memory; give --memory device"},
             row{{"verify", "--algorithm=ring", "--ranks=3", "--local-reduction=peer"},
                 "--local-reduction: there are no buffers in device memory; give --memory device"},
             row{{"verify", "--algorithm=ring", "--ranks=3", "--whole"},
                 "--whole: there are no buffers in device memory; give --memory device"},
             row{{"verify", "--ranks=3", "--whole"},
                 "--whole: there are no buffers in device memory; give --memory device"},
             row{{"verify", "--algorithm=ring,cuda_ring", "--ranks=3", "--memory=device", "--whole"},
                 "--whole: cuda_ring says by itself how it stages; allowed for all others"},
             row{{"compare", "--algorithm=cuda_ring", "--ranks=3", "--memory=device",
                  "--local-reduction=host"},
                 "--local-reduction: cuda_ring says by itself how it stages; allowed for all others"},
             row{{"compare", "--ranks=3", "--local-reduction=peer"},
                 "--local-reduction: there are no buffers in device memory; give --memory device"},
             row{{"arrival", "--algorithm=ring", "--ranks=3", "--whole"},
                 "--whole: there are no buffers in device memory; give --memory device"},
             row{{"compare", "--ranks=4", "--by=formula", "--device-in=1ns"},
                 "--device-in: found with --by formula, which does not know of it"},
         }) {
        outcome o = plan(x.arguments);
        EXPECT_EQ(o.status, 2) << o.err;
        EXPECT_TRUE(contains(o.err, x.said)) << o.err;
    }
}

TEST(DeviceMemory, StatsCountWhatCrosses) {
    struct row {
        strings more;
        int in, out, folded, reduced;
    };
    // Four buffers of 12, a ring of three that reduces 8 of the 12 elements on each rank.
    for (const row &x : {row{{"--local-reduction=host"}, 48, 48, 0, 8 + 36},
                         row{{"--local-reduction=device"}, 24, 24, 24, 8 + 12},
                         row{{"--local-reduction=peer"}, 12, 12, 36, 8}, row{{}, 24, 24, 24, 8 + 12},
                         row{{"--local-reduction=peer", "--whole"}, 12, 12, 36, 8}}) {
        strings all = {"stats",      "--algorithm=ring", "--ranks=3",       "--count=12",
                       "--inputs=4", "--devices=2",      "--memory=device", "--format=json"};
        all.insert(all.end(), x.more.begin(), x.more.end());
        outcome o = plan(all);
        ASSERT_EQ(o.status, 0) << o.err;
        json r = records(o).at(0);
        EXPECT_TRUE(truth(r, "verified"));
        EXPECT_EQ(number(r, "copied_in_max"), x.in) << o.out;
        EXPECT_EQ(number(r, "copied_out_max"), x.out) << o.out;
        EXPECT_EQ(number(r, "folded_max"), x.folded) << o.out;
        EXPECT_EQ(number(r, "reduced_max"), x.reduced) << o.out;
    }
    EXPECT_TRUE(contains(plan({"stats", "--algorithm=cuda_ring", "--ranks=3", "--count=12"}).out,
                         "# copied to the host: 12, from there: 12, reduced by devices: 0\n"));
    outcome o = plan({"stats", "--algorithm=cuda_ring", "--ranks=3", "--memory=host", "--format=json"});
    EXPECT_FALSE(contains(o.out, "copied")) << "as in ring_full";
}

TEST(DeviceMemory, ShowSaysWhereThingsLie) {
    outcome o = plan({"show", "--algorithm=cuda_ring_chunked", "--ranks=1", "--count=4", "--inputs=2"});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_TRUE(
        contains(o.out, "fold out0[0, 4) on device 0 = in0[0, 4) on device 0 op in1[0, 4) on device 0\n"))
        << o.out;
    o = plan({"show", "--algorithm=cuda_ring", "--ranks=2", "--count=4"});
    EXPECT_TRUE(contains(o.out, "copy scratch[4, 8) = in0[0, 4) on device 0\n")) << o.out;
}

TEST(DeviceMemory, VerifyProvesRowsThatStage) {
    outcome o = plan({"verify", "--algorithm=cuda_ring_chunked,cuda_broadcast_one_to_all,ring", "--ranks=1-5",
                      "--inputs=4", "--devices=2", "--memory=device", "--format=json"});
    ASSERT_EQ(o.status, 0) << o.err << o.out;
    std::set<std::string> proved;
    for (const json &r : records(o)) {
        EXPECT_TRUE(truth(r, "verified"));
        EXPECT_GT(number(r, "checked"), 0);
        proved.insert(text(r, "collective") + " " + text(r, "algorithm"));
    }
    EXPECT_EQ(proved.count("allreduce cuda_ring_chunked"), 1u);
    EXPECT_EQ(proved.count("broadcast cuda_broadcast_one_to_all"), 1u);
    EXPECT_EQ(proved.count("allgather ring"), 1u);
}

TEST(DeviceMemory, AllMeansThoseThatLeaveStagingToFlags) {
    for (const strings &arguments : std::vector<strings>{
             {"verify", "--collective=allreduce", "--ranks=2", "--count=4", "--memory=device"},
             {"compare", "--ranks=2", "--bytes=16", "--memory=device"},
             {"arrival", "--ranks=2", "--bytes=16", "--memory=device"}})
        for (const char *flag : {"", "--local-reduction=peer", "--whole"}) {
            strings all = arguments;
            all.push_back("--format=json");
            if (*flag)
                all.push_back(flag);
            outcome o = plan(all);
            ASSERT_EQ(o.status, 0) << arguments[0] << " " << flag << ": " << o.err;
            EXPECT_TRUE(contains(o.out, "\"ring_full\"")) << o.out;
            EXPECT_EQ(contains(o.out, "\"cuda_ring\""), *flag == 0) << arguments[0] << " " << flag;
        }
}

double time_of(strings arguments) {
    const strings common = {"simulate", "--format=json", "--alpha=10us", "--beta=1ns", "--gamma=0ns"};
    arguments.insert(arguments.begin(), common.begin(), common.end());
    outcome o = plan(arguments);
    EXPECT_EQ(o.status, 0) << o.err;
    return number(records(o).at(0), "time_us");
}

TEST(DeviceMemory, TheSimulatorHasItsNumbers) {
    // In, the message, out.
    strings one = {"--collective=broadcast",
                   "--algorithm=cuda_broadcast_one_to_all",
                   "--ranks=2",
                   "--bytes=10000",
                   "--device-alpha=5us",
                   "--device-in=2ns",
                   "--device-out=3ns"};
    EXPECT_NEAR(time_of(one), (5 + 20) + (10 + 10) + (5 + 30), 1e-6);
    // Two buffers are read and one is written; then one copy reads one and writes one.
    strings alone = {"--algorithm=cuda_halving_doubling", "--ranks=1", "--bytes=10000", "--inputs=2",
                     "--device-within=1ns"};
    EXPECT_NEAR(time_of(alone), 30 + 20, 1e-6);
    // Of two variants the pipelined one is faster.
    auto variant = [](const char *name) {
        return time_of(
            {"--algorithm", name, "--ranks=4", "--bytes=16Mi", "--device-in=0.5ns", "--device-out=0.5ns"});
    };
    EXPECT_LT(variant("cuda_halving_doubling_pipelined"), 0.8 * variant("cuda_halving_doubling"));
}

TEST(DeviceMemory, TheTimelineHasLanesOfDevices) {
    folder f;
    std::string path = f.path + "/trace.json";
    outcome o = plan({"simulate", "--algorithm=cuda_halving_doubling", "--ranks=2", "--bytes=1Ki",
                      "--inputs=4", "--devices=2", "--timeline", path});
    ASSERT_EQ(o.status, 0) << o.err;
    json trace = parse(file_text(path));
    json_object *events = field(trace, "traceEvents");
    std::map<std::string, std::set<std::string>> lanes; // what is done, and in which lane of which rank
    std::map<std::string, std::string> names;
    for (size_t i = 0; i < json_object_array_length(events); i++) {
        json e(json_object_get(json_object_array_get_idx(events, i)), json_object_put);
        if (text(e, "name") == "process_name")
            continue;
        std::string lane = std::to_string(number(e, "pid")) + "/" + std::to_string(number(e, "tid"));
        if (text(e, "ph") == "M" && text(e, "name") == "thread_name") {
            json arguments(json_object_get(field(e, "args")), json_object_put);
            names[lane] = text(arguments, "name");
        } else if (text(e, "ph") == "X") {
            EXPECT_EQ(names.count(lane), 1u) << lane;
            lanes[text(e, "name")].insert(names[lane]);
        }
    }
    EXPECT_EQ(lanes["copy to host"], (std::set<std::string>{"device 0: to host", "device 1: to host"}));
    EXPECT_EQ(lanes["copy to device"], (std::set<std::string>{"device 0: from host", "device 1: from host"}));
    EXPECT_EQ(lanes["fold"], (std::set<std::string>{"device 0: within", "device 1: within"}));
    EXPECT_EQ(lanes["copy on device"], lanes["fold"]);
}

TEST(DeviceMemory, PicturesHaveLanes) {
    const strings common = {
        "draw", "--ranks=4", "--count=4Ki", "--device-in=1ns", "--device-out=1ns", "--device-within=1ns"};
    auto with = [&](const strings &more) {
        strings all = common;
        all.insert(all.end(), more.begin(), more.end());
        outcome o = plan(all);
        EXPECT_EQ(o.status, 0) << o.err;
        return o.out;
    };
    const std::string to_host = "fill=\"#2f9e74\"/>", from_host = "fill=\"#7b61b5\"/>",
                      within = "fill=\"#c9a227\"/>";
    std::string svg = with({"--algorithm=cuda_halving_doubling", "--inputs=2"});
    for (const char *name : {">to host<", ">from host<", ">on device<", ">sends<", ">receives<"})
        EXPECT_EQ(occurrences(svg, name), 4u) << name;
    EXPECT_EQ(occurrences(svg, to_host), 4u) << "whole, once a rank";
    EXPECT_EQ(occurrences(svg, from_host), 4u);
    EXPECT_EQ(occurrences(svg, within), 2u * 4) << "folded, and copied to the other buffer";
    svg = with({"--algorithm=cuda_halving_doubling_pipelined:segment=1Ki"});
    EXPECT_EQ(occurrences(svg, to_host), 4u * 16);
    EXPECT_EQ(occurrences(svg, from_host), 4u * 16);
    svg = with({"--algorithm=ring", "--memory=device", "--inputs=4", "--devices=2"});
    EXPECT_EQ(occurrences(svg, ">to host, 1<"), 4u);
    EXPECT_TRUE(contains(svg, "4 inputs, on 2 devices"));
    // The width stands for as long as is asked, or for all there is.
    const std::string plain = with({"--algorithm=ring", "--memory=device"});
    EXPECT_FALSE(contains(plain, ">100000<"));
    EXPECT_TRUE(contains(with({"--algorithm=ring", "--memory=device", "--span=100000us"}), ">100000<"));
    EXPECT_EQ(with({"--algorithm=ring", "--memory=device", "--span=1us"}), plain);
    outcome o =
        plan({"draw", "--algorithm=ring", "--memory=device", "--inputs=12", "--devices=6", "--ranks=2"});
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "--devices: is more than a picture has lanes for; allowed is up to 4"))
        << o.err;
}

} // namespace
