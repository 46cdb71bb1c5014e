// Execution plans of MSCCL++: those of test/tools/mscclpp are right and have the messages and the time that
// they must have, and broken ones are refused with line and step.
#include "test/tools/plan_tool_run.h"

namespace {

using namespace program_test;

const std::string mscclpp_folder = SOURCE "/test/tools/mscclpp/";

struct ExecutionPlan {
    const char *name, *collective;
    int ranks, chunks;
    double sent; // chunks of rank 0
};
// allpairs: each rank sends two chunks to be read, and one chunk to two others. scratch: two to be reduced,
// two that are. chain: rank 0 sends all.
const ExecutionPlan execution_plans[] = {
    {"allpairs_allreduce", "allreduce", 3, 3, 4}, {"scratch_allreduce", "allreduce", 2, 4, 4},
    {"put_allgather", "allgather", 4, 4, 3},      {"read_reduce_scatter", "reduce_scatter", 3, 6, 4},
    {"chain_broadcast", "broadcast", 3, 2, 2},    {"get_alltoall", "alltoall", 3, 3, 2},
};

std::string path_of(const std::string &name) {
    return mscclpp_folder + name + ".json";
}

TEST(Mscclpp, PlansAreProvedForAllLengths) {
    for (const ExecutionPlan &s : execution_plans) {
        std::string counts = "--count=" + std::to_string(s.chunks);
        for (int k : {2, 7, 100})
            counts += "," + std::to_string(k * s.chunks);
        const outcome o = plan({"verify", "--plan=" + path_of(s.name), counts, "--format=json"});
        ASSERT_EQ(o.status, 0) << s.name << o.out << o.err;
        const json record = records(o)[0];
        EXPECT_TRUE(truth(record, "verified"));
        EXPECT_EQ(number(record, "checked"), 4);
        EXPECT_EQ(text(record, "algorithm"), s.name);
        EXPECT_EQ(text(record, "collective"), s.collective);
        const outcome words = plan({"show", "--plan=" + path_of(s.name), "--rank=0"});
        EXPECT_EQ(occurrences(words.out, ": send in") + occurrences(words.out, ": send out"), size_t(s.sent))
            << words.out;
        EXPECT_TRUE(contains(words.out, std::string(s.collective) + " of " + std::to_string(s.chunks) +
                                            " elements, rank 0 of " + std::to_string(s.ranks)))
            << words.out;
    }
}

// Chunks follow each other along the chain; a ready signal is a message of its own.
TEST(Mscclpp, PlansArePriced) {
    const auto time = [](const char *name, const char *bytes) {
        const outcome o = plan({"simulate", "--plan=" + path_of(name), std::string("--bytes=") + bytes,
                                "--alpha=1us", "--beta=1ns", "--gamma=0ns", "--format=json"});
        EXPECT_EQ(o.status, 0) << o.err;
        return number(records(o)[0], "time_us");
    };
    // Two messages of 4000 bytes, 5 us each, along two links.
    EXPECT_NEAR(time("chain_broadcast", "8000"), 3 * 5, 1e-6);
    // Each rank sends and receives three messages of 1000 bytes, one after the other at least.
    EXPECT_GE(time("put_allgather", "4000"), 3 * 2);
    EXPECT_LE(time("put_allgather", "4000"), 6 * 2);
    // A signal each way at least, before data are read, and after.
    EXPECT_GE(time("get_alltoall", "3000"), 1 + 2 * 2);
}

// The text but for one line.
std::string without(const strings &text, size_t line) {
    std::string all;
    for (size_t k = 0; k < text.size(); k++)
        all += k == line ? "" : text[k] + "\n";
    return all;
}

// Each operation, taken out, makes the plan wrong, and the message names a line or an element. Barriers that
// order nothing but what signals order already are no loss, nor is the wait of one rank for another's end.
TEST(Mscclpp, EveryOperationCounts) {
    for (const ExecutionPlan &s : execution_plans) {
        const strings all = lines(file_text(path_of(s.name)));
        size_t tried = 0, refused = 0;
        for (size_t i = 0; i < all.size(); i++) {
            // Those that are neither first nor last of their list can be taken out as lines.
            const bool is_inner =
                contains(all[i], "    {\"name\"") && all[i].back() == ',' && !contains(all[i], "]},");
            if (!is_inner || contains(all[i], "\"barrier\""))
                continue;
            const outcome o = run_text("verify", without(all, i));
            tried++;
            refused += o.status == 1 || o.status == 2;
            EXPECT_NE(o.status, 0) << s.name << " without line " << i + 1 << ": " << all[i];
            EXPECT_TRUE(contains(o.out + o.err, "rank ") || contains(o.out + o.err, "line "))
                << s.name << " without line " << i + 1 << ": " << o.out << o.err;
        }
        EXPECT_EQ(refused, tried);
        EXPECT_GE(tried, 3u) << s.name;
    }
}

TEST(Mscclpp, BrokenPlansAreRefusedWithLineAndStep) {
    const std::string pairs = file_text(path_of("allpairs_allreduce")),
                      scratch = file_text(path_of("scratch_allreduce")),
                      gather = file_text(path_of("put_allgather")), get = file_text(path_of("get_alltoall")),
                      scatter = file_text(path_of("read_reduce_scatter"));
    const std::string sm = "\"type\": \"sm\"";
    const struct {
        std::string text;
        int status; // 1: it is a plan, but a wrong one; 2: it is none
        std::string said;
    } table[] = {
        {changed(pairs, "\"rrcs\"", "\"rspkt\""), 2,
         "line 8: GPU 0, tb 0, step 2: 'rspkt' uses packets, which gcoll has not"},
        {changed(pairs, "\"rrcs\"", "\"glres\"", 1), 2,
         "line 17: GPU 1, tb 0, step 2: 'glres' uses in-network reduction (NVLS), which gcoll has not"},
        {changed(pairs, "\"rrcs\"", "\"fly\""), 2,
         "line 8: GPU 0, tb 0, step 2: 'name' is 'fly', which is no operation of MSCCL++ 0.4 to 0.6; "
         "allowed are nop, barrier, put, pws, pwsf, get, copy, signal, wait, flush, re, rs, rrc, rrcs"},
        {changed(pairs, "\"connectedTo\": [1", "\"connectedTo\": [7"), 2,
         "gpus[0]: channels[0]: 'connectedTo[0]' is 7; allowed are 0 to 2, but not this GPU"},
        {changed(pairs, "\"cids\": [0", "\"cids\": [9"), 2,
         "'cids[0]' is 9; allowed is the number of one of"},
        {changed(pairs, sm, "\"type\": \"nvls\""), 2, "gpus[0]: channels[0]: 'type' is 'nvls'; allowed are"},
        {changed(pairs, "\"srcoff\": 0", "\"srcoff\": 3"), 2,
         "line 8: GPU 0, tb 0, step 2: chunks 3 + 1 of 'i' of GPU 0; it has 3"},
        {changed(pairs, "{\"id\": 1, \"off\": 0}], \"ctype\": \"sm\", \"o_buff\"",
                 "{\"id\": 1, \"off\": 7}], \"ctype\": \"sm\", \"o_buff\""),
         2, "line 8: GPU 0, tb 0, step 2: 'i_cids[1]': chunks 7 + 1 of 'i' of GPU 2; it has 3"},
        {changed(pairs, "{\"id\": 1, \"off\": 0}], \"ctype\": \"sm\", \"o_buff\"",
                 "{\"id\": 2, \"off\": 0}], \"ctype\": \"sm\", \"o_buff\""),
         2, "line 8: GPU 0, tb 0, step 2: 'i_cids[1]' is channel 2, which this block does not have"},
        // The wrong chunk is reduced.
        {changed(pairs, "\"srcoff\": 0", "\"srcoff\": 1"), 1, "rank "},
        // Data are read before their owner says that they are there: it overwrites its input meanwhile.
        {changed(scratch, "\"name\": \"wait\"", "\"name\": \"flush\""), 2,
         "gives a signal that GPU 0 never waits for"},
        // A signal is missing.
        {changed(gather, "\"name\": \"signal\"", "\"name\": \"flush\""), 2,
         "line 25: GPU 1, tb 0, step 2: never ends: a signal of GPU 0 is not given"},
        {changed(get, "\"tb\": 1, \"step\": 0", "\"tb\": 1, \"step\": 1"), 2,
         "waits for step 1 of tb 1, which is not there"},
        {changed(get, "\"tb\": 1, \"step\": 0", "\"tb\": 2, \"step\": 1"), 2,
         "line 14: GPU 0, tb 2, step 0: waits for step 1 of tb 2, which does not come before it"},
        {changed(
             get,
             R"({"name": "copy", "srcbuff": "i", "srcoff": 0, "dstbuff": "s", "dstoff": 0, "ctype": "none", "cnt": 1})",
             R"({"name": "nop", "deps": [{"tb": 2, "step": 0}]})"),
         2, "never runs: step 0 of tb 2, for which it waits, does not either"},
        {changed(get, "\"tb\": 1, \"step\": 0", "\"tb\": 0, \"step\": 0"), 1, "rank 0"},
        {changed(scratch, "\"nthread_blocks\": 2", "\"nthread_blocks\": 1"), 2,
         "line 9: GPU 0, tb 0: 'nthread_blocks' is 1, but 2 blocks have barrier 0"},
        {changed(scratch, "\"name\": \"barrier\"", "\"name\": \"flush\""), 2,
         "line 17: GPU 0, tb 1: 'nthread_blocks' is 2, but 1 blocks have barrier 0"},
        {changed(scatter, "\"outputChunks\": 2", "\"outputChunks\": 3", 1), 2,
         "gpus[1]: 'outputChunks' is 3; allowed are 2 and 0"},
        {changed(scatter, "reducescatter", "sendrecv"), 2, "'collective' is 'sendrecv'; allowed are"},
        {changed(get, " {\"id\": 1, \"in", " {\"id\": 2, \"in"), 2,
         "gpus[1]: 'id' is 2; allowed is 1, its place"},
        {changed(get, "\"ops\": [", "\"ops\": [], \"ops\": ["), 2,
         "has the key 'ops' twice; allowed is once"},
        {get + "{}", 2, "has text after its end"},
        {"{\"gpus\": []}", 2, "'name' is missing"},
        {R"({"name": "x", "collective": "allreduce", "gpus": []})", 2, "'gpus' is empty"},
        {R"({"name": "x", "collective": "allreduce", "gpus": [7]})", 2, "gpus[0]: is no object"},
    };
    for (const auto &row : table) {
        const outcome o = run_text("verify", row.text);
        EXPECT_EQ(o.status, row.said.empty() ? 0 : row.status) << row.said << o.out << o.err;
        EXPECT_TRUE(contains(o.out + o.err, row.said)) << row.said << "\n" << o.out << o.err;
    }
    EXPECT_TRUE(contains(run_text("verify", pairs, {"--count=4"}).err,
                         "is for 3 chunks, and 4 elements are given; allowed are multiples"));
}

// Data that are read without a signal may not be there yet, and data that are overwritten may still be read.
TEST(Mscclpp, WhatSignalsDoNotOrderIsARace) {
    // GPU 1 changes its input while GPU 0 reads it.
    const auto text = [](const std::string &order) {
        const std::string
            channel = R"("channels": [{"srcbuff": "o", "dstbuff": "i", "type": "sm", "connectedTo": [)",
            block = R"("channels": [{"src": "o", "dst": "i", "ctype": "sm", "cids": [0]}], "ops": [)";
        const auto end = [](const char *which, const char *name) {
            return std::string("\n{\"name\": \"") + name + "\", \"" + which +
                   R"(_buff": {"src": "o", "dst": "i"}, ")" + which +
                   R"(_cids": [{"id": 0, "off": 0}], "ctype": "sm", "cnt": 1})";
        };
        const std::string get =
            R"(
{"name": "get", "i_buff": {"src": "o", "dst": "i"}, "i_cids": [{"id": 0, "off": 0}], "ctype": "sm",)"
            R"( "dsts": [{"buff": "o", "off": 0}], "cnt": 1})";
        const std::string copy =
                              R"(
{"name": "copy", "srcbuff": "s", "srcoff": 0, "dstbuff": "o", "dstoff": 0, "cnt": 1})",
                          save = R"(
{"name": "copy", "srcbuff": "i", "srcoff": 0, "dstbuff": "s", "dstoff": 0, "cnt": 1})";
        std::string reader, owner;
        if (order == "read, then told") {
            reader = get + "," + end("o", "signal");
            owner = save + "," + end("i", "wait") + "," + copy;
        } else { // told before it reads
            reader = end("o", "signal") + "," + get;
            owner = save + "," + end("i", "wait") + "," + copy;
        }
        return R"({"name": "x", "collective": "broadcast", "inplace": true, "gpus": [)"
               R"({"id": 0, "inputChunks": 1, "outputChunks": 1, "scratchChunks": 1, )" +
               channel + "1]}], \"threadblocks\": [{\"id\": 0, " + block + owner + "]}]}," +
               R"({"id": 1, "inputChunks": 1, "outputChunks": 1, "scratchChunks": 1, )" + channel +
               "0]}], \"threadblocks\": [{\"id\": 0, " + block + reader + "]}]}]}\n";
    };
    const outcome right = run_text("verify", text("read, then told"));
    EXPECT_EQ(right.status, 0) << right.out << right.err;
    const outcome wrong = run_text("verify", text("told, then read"));
    EXPECT_EQ(wrong.status, 1) << wrong.out << wrong.err;
    EXPECT_TRUE(contains(wrong.out, "race")) << wrong.out;
    EXPECT_TRUE(contains(wrong.out, "line ")) << wrong.out;
}

// A plan that was made from a schedule is written and read like any other.
// 1023 blocks stand at a barrier while one runs 8000 operations: a small file that would take minutes.
TEST(Mscclpp, BlocksThatWaitForLongAreRefused) {
    const std::string barrier = R"({"name": "barrier", "barrier_id": 0, "nthread_blocks": 1024})";
    std::string blocks;
    for (int block = 0; block < 1023; block++)
        blocks += R"({"id": )" + std::to_string(block) + R"(, "channels": [], "ops": [)" + barrier + "]}, ";
    blocks += R"({"id": 1023, "channels": [], "ops": [)";
    for (int operation = 0; operation < 8000; operation++)
        blocks += R"({"name": "nop"}, )";
    const outcome o = run_text(
        "verify",
        R"({"name": "x", "collective": "allreduce", "inplace": true, "gpus": [{"id": 0, )"
        R"("inputChunks": 1, "outputChunks": 1, "scratchChunks": 0, "channels": [], "threadblocks": [)" +
            blocks + barrier + "]}]}]}");
    EXPECT_NE(o.status, 0);
    EXPECT_TRUE(contains(o.err, "wait too long for one another: allowed are up to 33554432 looks")) << o.err;
}

TEST(Mscclpp, PlansAreAFileOfTheirOwn) {
    folder here;
    for (const ExecutionPlan &s : execution_plans) {
        const std::string path = here.path + "/plans.json", given = "--plan=" + path_of(s.name),
                          count = "--count=" + std::to_string(5 * s.chunks);
        ASSERT_EQ(plan({"show", given, count, "--format=json", "--output=" + path}).status, 0);
        EXPECT_EQ(plan({"show", "--plan=" + path, "--rank=all"}).out,
                  plan({"show", given, count, "--rank=all"}).out);
        EXPECT_EQ(plan({"verify", "--plan=" + path}).status, 0);
    }
}

} // namespace
