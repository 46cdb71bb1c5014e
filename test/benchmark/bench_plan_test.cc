// gcoll_bench --plan: the plans of files are run and checked over each transport, and wrong ones are refused
// before anything is run.
#include "test/benchmark/bench_support.h"
#include "test/kit/sanitizer.h"

#include <fstream>

namespace {

using namespace bench_test;

const char *const transports_of_plans[] = {"inproc", "tcp", "shm"};

std::vector<std::string> plan_files() {
    std::vector<std::string> files;
    for (const char *name : {
             "mscclpp/allpairs_allreduce.json",
             "mscclpp/scratch_allreduce.json",
             "mscclpp/put_allgather.json",
             "mscclpp/read_reduce_scatter.json",
             "mscclpp/chain_broadcast.json",
             "mscclpp/get_alltoall.json",
#ifdef HAS_EXPAT
             "msccl/ring_allreduce.xml",
             "msccl/allpairs_allreduce.xml",
             "msccl/ring_allgather.xml",
             "msccl/ring_reduce_scatter.xml",
             "msccl/chain_broadcast.xml",
             "msccl/channels_alltoall.xml",
#endif
         })
        files.push_back(std::string(SOURCE "/test/tools/") + name);
    return files;
}

TEST(BenchPlan, ForeignSchedulesAreRunAndRight) {
    uint32_t file_number = 0;
    for (const std::string &file : plan_files()) {
        uint32_t at = file_number++;
        for (const char *transport : transports_of_plans) {
            if (at++ % gcoll_test::repeats(1, 3) != 0) // another one of each file
                continue;
            const outcome o = run({"--plan=" + file, std::string("--transport=") + transport,
                                   "--iterations=2", "--warmup=1", "--type=int32", "--format=json"});
            ASSERT_EQ(o.status, 0) << file << " " << transport << ": " << o.err;
            size_t sizes = 0;
            for (const std::string &line : lines(o.out)) {
                const json row = parse(line);
                if (!row || text(row, "algorithm") != "plan_file")
                    continue;
                EXPECT_EQ(number(row, "wrong"), 0) << file << ": " << line;
                sizes++;
            }
            EXPECT_EQ(sizes, 4u) << file << ": " << o.out;
        }
    }
}

// In place and not, averages, other operations, calls that are not prepared.
TEST(BenchPlan, RunsEveryKindOfCall) {
    uint32_t file_number = 0;
    for (const std::string &file : plan_files()) {
        uint32_t at = file_number++;
        for (const strings &flags : {strings{"--in-place"}, {"--one-shot"}, {"--op=max"}, {"--op=avg"}}) {
            if (at++ % gcoll_test::repeats(1, 2) != 0) // the other two of the next file
                continue;
            const bool moves =
                contains(file, "gather") || contains(file, "broadcast") || contains(file, "alltoall");
            if (moves && contains(flags[0], "--op"))
                continue;
            if (flags[0] == "--in-place" && contains(file, "alltoall"))
                continue;
            strings all = {"--plan=" + file, "--transport=inproc", "--iterations=2", "--type=float64"};
            all.insert(all.end(), flags.begin(), flags.end());
            const outcome o = run(all);
            EXPECT_EQ(o.status, 0) << file << " " << flags[0] << ": " << o.err;
            EXPECT_TRUE(contains(o.out, "every element of every result was right")) << o.out;
        }
    }
}

const std::string pair =
    R"({"gcoll_plan": 1, "algorithm": "pair", "collective": "allgather", "ranks": 2, "plans": [
 {"rank": 0, "count": 4, "steps": [
  {"op": "send", "count": 2, "peer": 1, "a": ["in", 0, 0]},
  {"op": "copy", "count": 2, "dst": ["out", 0, 0], "a": ["in", 0, 0]},
  {"op": "receive", "count": 2, "peer": 1, "dst": ["out", 0, 2]}]},
 {"rank": 1, "count": 4, "steps": [
  {"op": "send", "count": 2, "peer": 0, "a": ["in", 0, 0]},
  {"op": "copy", "count": 2, "dst": ["out", 0, 2], "a": ["in", 0, 0]},
  {"op": "receive", "count": 2, "peer": 0, "dst": ["out", 0, 0]}]}]}
)";

std::string replaced(std::string text, const std::string &from, const std::string &to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

outcome run_plan(const std::string &text, const strings &more = {}) {
    folder here;
    const std::string path = here.path + "/plan.json";
    std::ofstream(path) << text;
    strings all = {"--plan=" + path, "--transport=inproc", "--iterations=2"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
}

TEST(BenchPlan, AFileOfOneSizeIsRunAtThatSize) {
    const outcome o = run_plan(pair, {"--format=json"});
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_TRUE(contains(o.out, "\"bytes\":16,") || contains(o.out, "\"bytes\": 16,")) << o.out;
    EXPECT_EQ(run_plan(pair, {"--bytes=16", "--local=2"}).status, 0);
    const strings wrong[] = {
        {"--bytes=32", "--bytes: is 32; allowed with --plan is 16"},
        {"--local=3", "--local: is 3; allowed with --plan is 2, the ranks of '"},
        {"--collective=allgather", "--collective: found with --plan"},
        {"--algorithm=ring", "--algorithm: found with --plan"},
        {"--inputs=2",
         "--inputs: found with --plan, whose file says what is run; allowed is to leave it out"},
        {"--codec=bf16", "--codec: found with --plan"},
        {"--order=left",
         "--order: found with --plan, whose file says what is run; allowed is any, or to leave it out"},
        {"--same=ranks", "allowed is nowhere, or to leave it out"},
        {"--root=1", "--root: found with --plan"},
        {"--tune=x", "--tune: found with --plan"}};
    for (const strings &row : wrong) {
        const outcome refused = run_plan(pair, {row[0]});
        EXPECT_EQ(refused.status, 2) << row[0];
        EXPECT_TRUE(contains(refused.err, row[1])) << refused.err;
    }
    const outcome odd = run({"--plan=" SOURCE "/test/tools/mscclpp/put_allgather.json", "--bytes=24"});
    EXPECT_EQ(odd.status, 2);
    EXPECT_TRUE(contains(odd.err, "--bytes: is 24; allowed with --plan are multiples of 16 bytes"))
        << odd.err;
}

// Nothing is run of a plan that the verifier refuses; the message names file, rank and step, or line.
TEST(BenchPlan, WrongPlansAreRefused) {
    const struct {
        std::string text, said;
    } rows[] = {
        {replaced(pair, "\"dst\": [\"out\", 0, 2]}]},\n", "\"dst\": [\"out\", 0, 0], \"after\": [1]}]},\n"),
         "rank 0"},
        {replaced(pair, "\"dst\": [\"out\", 0, 2]}]},\n", "\"dst\": [\"out\", 0, 0]}]},\n"), "races with"},
        {replaced(pair, "\"count\": 2, \"peer\": 1, \"a\"", "\"count\": 1, \"peer\": 1, \"a\""),
         "plan.json': rank "},
        {replaced(pair, "\"a\": [\"in\", 0, 0]", "\"a\": [\"in\", 0, 1]"), "elements 1 + 2 are outside of"},
        {replaced(pair, "\"op\": \"copy\"", "\"op\": \"divide\""), "'a' is found"},
        {replaced(pair, "allgather", "allreduce"), "plan.json': rank "},
        {replaced(pair, "\"count\": 4,", "\"count\": 4, \"offsets\": [0, 1, 4],"),
         "has blocks that are not even"},
        {replaced(pair, "\"ranks\": 2", "\"ranks\": 3"), "'plans' has 2 entries and 'ranks' is 3"},
        {"{", "plan.json': ends too early"},
        {"nonsense", "is no JSON"},
    };
    for (const auto &row : rows) {
        const outcome o = run_plan(row.text);
        EXPECT_EQ(o.status, 2) << row.text << o.out;
        EXPECT_TRUE(contains(o.err, "--plan: plan file '")) << o.err;
        EXPECT_TRUE(contains(o.err, row.said)) << row.said << "\n" << o.err;
        EXPECT_FALSE(contains(o.out, "plan_file")) << o.out;
    }
    const std::string get = program_test::file_text(SOURCE "/test/tools/mscclpp/get_alltoall.json");
    const outcome race = run_plan(replaced(get, "\"tb\": 1, \"step\": 0", "\"tb\": 0, \"step\": 0"));
    EXPECT_EQ(race.status, 2);
    EXPECT_TRUE(contains(race.err, "plan.json': line ")) << race.err;
    EXPECT_EQ(run({"--plan=/does/not/exist"}).status, 2);
}

} // namespace
