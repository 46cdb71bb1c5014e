// gcoll_bench when something goes wrong: lost ranks, wrong results, signals.
#include "test/benchmark/bench_support.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <cerrno>

namespace {

using namespace bench_test;

// What the parent leaves behind: no folder, no process of its group.
void expect_clean(const folder &temporary, pid_t group) {
    EXPECT_TRUE(temporary.empty());
    EXPECT_EQ(kill(-group, 0), -1);
    EXPECT_EQ(errno, ESRCH);
}

struct fault_row {
    const char *fault, *says;
};

void PrintTo(const fault_row &row, std::ostream *to) {
    *to << row.fault;
}

class Fault : public testing::TestWithParam<fault_row> {};

TEST_P(Fault, IsReportedAndEndsTheRun) {
    folder temporary;
    process p(GCOLL_BENCH_FAULTY, {"--local=3", "--bytes=4,64Ki", "--iterations=20", "--timeout=1500ms"},
              {"TMPDIR=" + temporary.path, std::string("GCOLL_BENCH_FAULT=") + GetParam().fault});
    EXPECT_EQ(p.wait(), 1);
    std::string err = read_all(p.err);
    EXPECT_TRUE(contains(err, GetParam().says)) << err;
    expect_clean(temporary, p.pid);
}

INSTANTIATE_TEST_SUITE_P(All, Fault,
                         testing::Values(fault_row{"kill", "rank 1 (process "}, fault_row{"exit", "rank 1"},
                                         fault_row{"hang", "rank 1 (process "},
                                         fault_row{"wrong",
                                                   "elements of output 0 are wrong, the first at 0"}),
                         [](const auto &row) { return std::string(row.param.fault); });

// Rank 0 tells it last: the others must not have left by then.
TEST(Bench, HowRanksWereReachedIsToldHoweverLate) {
    outcome result =
        run({"--local=3", "--transport=tcp", "--collective=all", "--iterations=1", "--bytes=4", "--verbose"},
            {"GCOLL_BENCH_FAULT=late"}, GCOLL_BENCH_FAULTY);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(contains(result.err, "to ranks 1 to 2: tcp\n")) << result.err;
}

TEST(Bench, WrongResultsFailEveryRank) {
    folder place;
    auto arguments = [&](const char *rank) {
        return strings{
            "--rank",         rank,           "--size=3", "--store=file:" + place.path, "--bytes=64",
            "--iterations=2", "--format=json"};
    };
    strings environment = {"GCOLL_BENCH_FAULT=wrong"};
    process zero(GCOLL_BENCH_FAULTY, arguments("0"), environment);
    process one(GCOLL_BENCH_FAULTY, arguments("1"), environment);
    process two(GCOLL_BENCH_FAULTY, arguments("2"), environment);
    EXPECT_EQ(zero.wait(), 1);
    EXPECT_EQ(one.wait(), 1);
    EXPECT_EQ(two.wait(), 1);
    EXPECT_GT(number(parse(read_all(zero.out)), "wrong"), 0);
}

TEST(Bench, ResultsThatAreNoNumbersAreNoSmallRoundingErrors) {
    process p(GCOLL_BENCH_FAULTY,
              {"--local=3", "--bytes=64", "--iterations=2", "--no-check", "--rounding", "--type=float32"},
              {"GCOLL_BENCH_FAULT=nan"});
    EXPECT_EQ(p.wait(), 1);
    std::string err = read_all(p.err);
    EXPECT_TRUE(contains(err, "infinite or no number")) << err;
}

class Stop : public testing::TestWithParam<int> {};

TEST_P(Stop, CleansUp) {
    folder temporary;
    folder place;
    std::string fifo = place.path + "/output";
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    int from = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
    process p(GCOLL_BENCH, {"--local=2", "--bytes=4", "--iterations=10000000", "--output", fifo},
              {"TMPDIR=" + temporary.path});
    struct pollfd head = {from, POLLIN, 0};
    ASSERT_EQ(poll(&head, 1, limit_s * 1000), 1); // the head of the table: all ranks have joined
    EXPECT_FALSE(temporary.empty());
    kill(p.pid, GetParam());
    EXPECT_EQ(p.wait(), -GetParam());
    expect_clean(temporary, p.pid);
    close(from);
}

INSTANTIATE_TEST_SUITE_P(All, Stop, testing::Values(SIGINT, SIGTERM, SIGHUP));

// A rank is killed as it writes to a pipe that nobody reads, and so would the process be that says so.
TEST(Bench, AReaderThatHasGoneLeavesNothingBehind) {
    folder temporary;
    const std::string line = "TMPDIR='" + temporary.path + "' bash -c '" + GCOLL_BENCH +
                             " --local 2 --bytes 4 --iterations 10 --verbose 2>&1 | true\n"
                             "status=${PIPESTATUS[0]}; [ $status = 1 ] || [ $status = 141 ]'";
    EXPECT_EQ(std::system(line.c_str()), 0) << "it ends by SIGPIPE, or as one whose ranks have failed";
    EXPECT_TRUE(temporary.empty());
}

// nohup: what was to be ignored when it began does not end it.
TEST(Bench, AHangupThatIsIgnoredDoesNotEndIt) {
    folder place;
    std::string fifo = place.path + "/output";
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    int from = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
    process p(GCOLL_BENCH, {"--local=2", "--bytes=4", "--iterations=10", "--compute=50ms", "--output", fifo},
              {}, SIGHUP);
    struct pollfd head = {from, POLLIN, 0};
    ASSERT_EQ(poll(&head, 1, limit_s * 1000), 1);
    kill(p.pid, SIGHUP);
    EXPECT_EQ(p.wait(), 0) << read_all(p.err);
    close(from);
}

// Whoever ignores the end of children hands that down.
TEST(Bench, EndsWhereTheEndOfChildrenWasIgnored) {
    process p(GCOLL_BENCH, {"--local=2", "--bytes=4", "--iterations=2"}, {}, SIGCHLD);
    EXPECT_EQ(p.wait(), 0) << read_all(p.err);
}

} // namespace
