// gcoll_bench --device cuda, over a CUDA runtime of the tests' own (bench_device_runtime.cc): the whole
// command, its devices included, on any machine. That runtime does everything late, refuses copies that touch
// memory of another device, and tells at the end what was not freed: so the error output of a good run is
// empty.
#include <cmath>
#include <map>
#include <tuple>

#include "gcoll/gcoll.h"
#include "test/benchmark/bench_support.h"

namespace {

using namespace bench_test;

strings operator+(strings a, const strings &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

std::string algorithm_of(const json &line) {
    const std::string algorithm = text(line, "algorithm");
    return algorithm.substr(0, algorithm.find(':'));
}

// Runs that in JSON; nothing was wrong, and nothing is said.
std::vector<json> run_well(const strings &arguments, const strings &environment = {}) {
    std::vector<json> all;
    outcome result = run(arguments + strings{"--format=json"}, environment);
    EXPECT_EQ(result.status, 0) << result.err << result.out;
    EXPECT_EQ(result.err, "");
    for (const std::string &line : lines(result.out)) {
        all.push_back(parse(line));
        EXPECT_NE(all.back(), nullptr) << line;
        EXPECT_EQ(text(all.back(), "wrong"), "0") << line;
    }
    return all;
}

// Transport, ranks, inputs.
class Grid : public testing::TestWithParam<std::tuple<const char *, int, int>> {};

TEST_P(Grid, EveryAlgorithmOfEveryCollective) {
    const auto [transport, ranks, inputs] = GetParam();
    const strings common = {"--device=cuda:all",
                            "--algorithm=all",
                            "--iterations=2",
                            "--warmup=0",
                            "--bytes=4,100004",
                            std::string("--transport=") + transport,
                            "--local=" + std::to_string(ranks),
                            "--inputs=" + std::to_string(inputs)};
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT; c++) {
        const char *collective = gcoll_collective_name(static_cast<gcoll_collective>(c));
        const bool takes_inputs = c == GCOLL_ALLREDUCE || c == GCOLL_BROADCAST || c == GCOLL_REDUCE_SCATTER;
        if (inputs > 1 && !takes_inputs)
            continue;
        SCOPED_TRACE(collective);
        std::map<std::string, int> found;
        for (const json &line : run_well(common + strings{"--collective", collective}))
            found[algorithm_of(line)]++;
        const char *name = nullptr;
        size_t known = 0;
        for (uint32_t i = 0; gcoll_algorithm_at(collective, i, &name, nullptr) == GCOLL_OK; i++) {
            if (std::string(name) == "tour_ring")
                continue; // there is no tour
            EXPECT_EQ(found[name], c == GCOLL_BARRIER ? 1 : 2) << name;
            known++;
        }
        EXPECT_EQ(found.size(), known);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Grid,
                         testing::Combine(testing::Values("inproc", "tcp"), testing::Values(1, 2, 4),
                                          testing::Values(1, 2, 8)));

class Mode : public testing::TestWithParam<const char *> {};

TEST_P(Mode, EveryCollective) {
    const bool checks = std::string(GetParam()) != "--no-check";
    outcome result = run({"--device=cuda", "--local=3", "--transport=inproc", "--collective=all",
                          "--bytes=0,4,64Ki", "--iterations=2", "--format=json", GetParam()});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(lines(result.out).size(), 9u * 3 + 1);
    for (const std::string &line : lines(result.out))
        EXPECT_EQ(text(parse(line), "wrong"), checks ? "0" : "null") << line;
}

INSTANTIATE_TEST_SUITE_P(All, Mode,
                         testing::Values("--in-place", "--one-shot", "--back-to-back", "--no-check"));

TEST(BenchDevice, EveryTypeAndOperation) {
    for (const bench_test::type_family &family : bench_test::families)
        for (const std::string &type : family.types)
            for (const std::string &op : family.ops)
                run_well({"--device=cuda", "--local=2", "--transport=inproc", "--inputs=3",
                          "--local-reduction=device", "--bytes=16,24016", "--iterations=1", "--warmup=0",
                          "--type", type, "--op", op});
}

TEST(BenchDevice, RoundingErrors) {
    for (const json &line :
         run_well({"--device=cuda:0,1", "--local=2", "--transport=inproc", "--inputs=3", "--rounding",
                   "--bytes=64Ki", "--iterations=1", "--algorithm=ring,recursive"})) {
        EXPECT_LE(number(line, "rounding"), 6 * 0x1p-24);
        EXPECT_GT(number(line, "rounding"), 0x1p-24 / 8);
    }
}

// Buffers of all ranks go round the devices that were named; where each is, the library is told, and looks.
TEST(BenchDevice, LocalReductions) {
    for (const char *local : {"auto", "host", "device", "peer", "nccl"}) {
        SCOPED_TRACE(local);
        for (const json &line :
             run_well({"--device=cuda:3,0,2", "--local=2", "--inputs=3", "--bytes=64Ki", "--iterations=2",
                       "--local-reduction", local, "--algorithm=ring,halving_doubling"},
                      {"FAKE_CUDA_DEVICES=4"})) {
            EXPECT_EQ(text(line, "device"), "cuda:3,0,2");
            EXPECT_EQ(text(line, "local_reduction"), local);
            const bool on_device = std::string(local) == "peer" || std::string(local) == "nccl";
            EXPECT_EQ(number(line, "reduce_event_us") > 0, on_device);
        }
    }
    outcome refused =
        run({"--device=cuda", "--local=2", "--inputs=2", "--bytes=4", "--local-reduction=nccl"});
    EXPECT_EQ(refused.status, 1);
    EXPECT_TRUE(
        contains(refused.err, "options.memory.local: is nccl: each buffer must be on a device of its own"))
        << refused.err;
}

// The keys, and figures that agree with one another: of two ranks with two buffers on a device, each rank
// copies a buffer in and out, after and before the device has done with both.
TEST(BenchDevice, Figures) {
    const strings keys = {"wrong",           "device",        "local_reduction", "copy_share",
                          "reduce_share",    "network_share", "overlap",         "copy_event_us",
                          "reduce_event_us", "copy_GBps",     "pinned_bytes"};
    std::vector<json> all = run_well({"--device=cuda", "--local=2", "--inputs=2", "--bytes=64Ki",
                                      "--iterations=4", "--local-reduction=device", "--algorithm=ring"});
    ASSERT_EQ(all.size(), 1u);
    const json &line = all[0];
    strings found;
    json_object_object_foreach(line.get(), key, value) {
        (void)value;
        found.push_back(key);
    }
    EXPECT_EQ(strings(found.end() - static_cast<ptrdiff_t>(keys.size()), found.end()), keys);
    for (const char *share : {"copy_share", "reduce_share", "network_share", "overlap"}) {
        EXPECT_GE(number(line, share), share[0] == 'o' ? 0 : 1e-9) << share;
        EXPECT_LE(number(line, share), 1) << share;
    }
    EXPECT_GT(number(line, "reduce_event_us"), 0);
    // Bytes in nanoseconds.
    EXPECT_NEAR(number(line, "copy_GBps"), 2 * 65536 / (1e3 * number(line, "copy_event_us")), 2e-6);
    EXPECT_GE(number(line, "pinned_bytes"), 65536);
}

// One rank needs no host memory, and has no messages to overlap with.
TEST(BenchDevice, WhatDoesNotApplyIsNull) {
    std::vector<json> one = run_well({"--device=cuda", "--local=1", "--inputs=2", "--bytes=64Ki",
                                      "--iterations=2", "--local-reduction=device"});
    ASSERT_EQ(one.size(), 1u);
    EXPECT_EQ(number(one[0], "copy_share"), 0);
    EXPECT_EQ(text(one[0], "copy_GBps"), "null");
    EXPECT_EQ(text(one[0], "overlap"), "null");
    std::vector<json> barrier = run_well({"--device=cuda", "--collective=barrier", "--iterations=2"});
    ASSERT_EQ(barrier.size(), 1u);
    EXPECT_EQ(text(barrier[0], "device"), "cuda");
    for (const char *key : {"local_reduction", "copy_share", "overlap", "copy_event_us", "pinned_bytes"})
        EXPECT_EQ(text(barrier[0], key), "null") << key;
}

TEST(BenchDevice, CsvAndTable) {
    const strings arguments = {"--device=cuda:0,1", "--inputs=2", "--bytes=4,64Ki", "--iterations=2",
                               "--algorithm=ring"};
    strings csv = lines(run(arguments + strings{"--format=csv"}).out);
    ASSERT_EQ(csv.size(), 3u);
    EXPECT_TRUE(contains(csv[0], ",wrong,device,local_reduction,copy_share,"));
    EXPECT_TRUE(contains(csv[1], ",0,\"cuda:0,1\",auto,")) << csv[1];
    EXPECT_EQ(std::count(csv[0].begin(), csv[0].end(), ',') + 1,
              std::count(csv[1].begin(), csv[1].end(), ','));
    strings table = lines(run(arguments + strings{"--rounding"}).out);
    ASSERT_EQ(table.size(), 9u);
    EXPECT_TRUE(contains(table[2], "out of place, 2 inputs a rank, cuda:0,1, local reduction auto"))
        << table[2];
    for (int i : {4, 5, 6}) // each unit and figure ends where its heading does
        EXPECT_EQ(table[static_cast<size_t>(i)].find_last_of("0123456789B") + 1, table[3].find("  algorithm"))
            << table[static_cast<size_t>(i)];
}

// Ranks of one job may differ.
TEST(BenchDevice, OneRankOnTheHost) {
    folder place;
    auto arguments = [&](const char *rank, const char *device) {
        return strings{"--rank",           rank,          "--size=2",       "--store=file:" + place.path,
                       "--collective=all", "--bytes=4Ki", "--iterations=2", "--format=json",
                       "--device",         device};
    };
    process one(GCOLL_BENCH, arguments("1", "cuda:1"));
    process zero(GCOLL_BENCH, arguments("0", "host"));
    EXPECT_EQ(zero.wait(), 0);
    EXPECT_EQ(one.wait(), 0);
    EXPECT_EQ(read_all(zero.err) + read_all(one.err), "");
    strings all = lines(read_all(zero.out));
    EXPECT_EQ(all.size(), 10u);
    for (const std::string &line : all) {
        const bool is_barrier = text(parse(line), "collective") == "barrier"; // checked on one machine only
        EXPECT_EQ(text(parse(line), "wrong"), is_barrier ? "null" : "0") << line;
        EXPECT_EQ(text(parse(line), "device"), "host") << line;
        EXPECT_EQ(text(parse(line), "copy_share") == "null", is_barrier) << line;
    }
}

TEST(BenchDevice, DevicesThatAreNotThere) {
    outcome none = run({"--device=cuda", "--local=4"}, {"FAKE_CUDA_DEVICES=0"});
    EXPECT_EQ(none.status, 1);
    EXPECT_TRUE(contains(none.err, "--device: cudaGetDeviceCount: there is no device")) << none.err;
    outcome fewer = run({"--device=cuda:0,3", "--local=4"}, {"FAKE_CUDA_DEVICES=3"});
    EXPECT_EQ(fewer.status, 1);
    EXPECT_TRUE(contains(fewer.err, "is 'cuda:0,3'; allowed on this machine are devices from 0 to 2"))
        << fewer.err;
    EXPECT_EQ(lines(none.err).size() + lines(fewer.err).size(), 2u);
    EXPECT_EQ(none.out + fewer.out, "");
}

// What a device does wrong is seen.
TEST(BenchDevice, LostCopiesAreWrong) {
    outcome result = run({"--device=cuda", "--local=2", "--transport=inproc", "--bytes=64Ki",
                          "--iterations=5", "--algorithm=ring", "--format=json"},
                         {"FAKE_CUDA_FAULT=lose"});
    EXPECT_EQ(result.status, 1);
    ASSERT_EQ(lines(result.out).size(), 1u) << result.err;
    EXPECT_GT(number(parse(lines(result.out)[0]), "wrong"), 0);
    EXPECT_TRUE(contains(result.err, "are wrong, the first at")) << result.err;
}

TEST(BenchDevice, FailuresNameTheCall) {
    outcome result = run({"--device=cuda", "--local=2", "--bytes=64Ki", "--iterations=5", "--algorithm=ring"},
                         {"FAKE_CUDA_FAULT=fail"});
    EXPECT_EQ(result.status, 1);
    EXPECT_TRUE(contains(result.err, "copy by a device: cuda: cudaMemcpyAsync of ")) << result.err;
    EXPECT_TRUE(contains(result.err, "(cudaErrorOfTheFake)")) << result.err;
}

} // namespace
