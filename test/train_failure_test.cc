// examples/train: what it says when it cannot.
#include <csignal>

#include "test/train_support.h"

namespace {

using namespace train_test;

TEST(TrainOptions, BadOnesAreNamed) {
    const std::pair<strings, std::string> rows[] = {
        {{"--bogus"}, "unknown argument '--bogus'"},
        {{"stray"}, "unknown argument 'stray'"},
        {{"--epochs"}, "--epochs: needs a value"},
        {{"--epochs", "0"}, "--epochs: found '0'; allowed: whole numbers, 1 to 1000000"},
        {{"--epochs", "1.5"}, "--epochs: found '1.5'"},
        {{"--batch", "-1"}, "--batch: found '-1'"},
        {{"--images", "99999999999"}, "--images: found '99999999999'"},
        {{"--images", ""}, "--images: found ''"},
        {{"--rate", "fast"}, "--rate: found 'fast'; allowed: 1e-09 to 10"},
        {{"--rate", "nan"}, "--rate: found 'nan'"},
        {{"--seed", "18446744073709551616"}, "--seed: found '18446744073709551616'"},
        {{"--seed", "-1"}, "--seed: found '-1'"},
        {{"--slow", "1"}, "--slow: found '1'; allowed: RANK:PERCENT"},
        {{"--slow", "1:10x"}, "--slow: found '1:10x'"},
        {{"--slow", "-1:10"}, "--slow: found '-1:10'"},
        {{"--slow", "0:nan"}, "--slow: found '0:nan'"},
        {{"--slow", "2:10"}, "--slow: found rank 2; allowed: below the number of ranks, 2"},
        {{"--monitor", "maybe"}, "--monitor: found 'maybe'; allowed: off, on, edges"},
        {{"--monitor", "on", "--algorithm", "ring"}, "--monitor on: it is auto that heeds arrivals"},
        {{"--local", "0"}, "--local: found '0'"},
        {{"--local", "2", "--rank", "0"}, "--local starts all ranks"},
        {{"--rank", "0"}, "--rank, --size and --store need one another"},
        {{"--size", "2", "--store", "file:/tmp/x"}, "--rank, --size and --store need one another"},
        {{"--rank", "2", "--size", "2", "--store", "file:/tmp/x"},
         "--rank: found 2; allowed: below --size, 2"},
        {{"--resume"}, "--resume: needs --checkpoint"},
        {{"--checkpoint", ""}, "--checkpoint: found ''"},
        {{"--algorithm", "bogus"}, "--algorithm: algorithm 'bogus' is none of allreduce"},
    };
    for (const auto &[arguments, text] : rows) {
        const outcome o = train(arguments);
        EXPECT_EQ(o.status, 2) << text;
        EXPECT_TRUE(contains(o.err, "train: " + text)) << text << "\nbut\n" << o.err;
        EXPECT_EQ(o.out, "");
    }
}

TEST(TrainOptions, Help) {
    const outcome o = train({"--help"});
    expect_good(o);
    for (const char *flag : {"--local", "--rank", "--epochs", "--checkpoint", "--algorithm", "--slow"})
        EXPECT_TRUE(contains(o.out, flag));
}

// One rank of several, its output in a file.
struct rank_process {
    pid_t pid;
    std::FILE *err = std::tmpfile();
    std::string out;

    rank_process(const folder &place, int rank, int size, const strings &more)
        : out(place.path + "/out" + std::to_string(rank)) {
        strings arguments = small({"--rank", std::to_string(rank), "--size", std::to_string(size), "--store",
                                   "file:" + place.path + "/store"});
        arguments.insert(arguments.end(), more.begin(), more.end());
        std::vector<char *> argv = {const_cast<char *>(TRAIN)};
        for (std::string &argument : arguments)
            argv.push_back(argument.data());
        argv.push_back(nullptr);
        pid = fork();
        if (pid == 0) {
            FILE *opened = std::freopen(out.c_str(), "w", stdout);
            dup2(fileno(err), 2);
            alarm(opened != nullptr ? program_test::limit_s : 1);
            execv(TRAIN, argv.data());
            _exit(127);
        }
    }
    outcome wait() {
        int how = 0;
        EXPECT_EQ(waitpid(pid, &how, 0), pid);
        return {WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how), program_test::file_text(out),
                program_test::read_all(err)};
    }
};

TEST(TrainRanks, StartedOneByOne) {
    folder place;
    rank_process first(place, 0, 2, {"--algorithm", "ring"}), second(place, 1, 2, {"--algorithm", "ring"});
    const outcome a = first.wait(), b = second.wait();
    expect_good(a);
    expect_good(b);
    EXPECT_EQ(b.out, "");
    EXPECT_EQ(weights(a), weights(train(small({"--local", "2", "--algorithm", "ring"}))));
}

TEST(TrainRanks, StartedWithOtherOptions) {
    folder place;
    rank_process first(place, 0, 2, {}), second(place, 1, 2, {"--batch", "5"});
    for (const outcome &o : {first.wait(), second.wait()}) {
        EXPECT_EQ(o.status, 1);
        EXPECT_TRUE(contains(o.err, "rank 1 was not started like rank 0: --batch: 5 here, 4 there")) << o.err;
    }
}

// All 64 bits of a seed are compared.
TEST(TrainRanks, StartedWithSeedsThatDifferInTheLastBit) {
    folder place;
    rank_process first(place, 0, 2, {"--seed", "18446744073709551615"});
    rank_process second(place, 1, 2, {"--seed", "18446744073709551614"});
    for (const outcome &o : {first.wait(), second.wait()}) {
        EXPECT_EQ(o.status, 1);
        EXPECT_TRUE(contains(o.err, "--seed: 18446744073709551614 here, 18446744073709551615 there"))
            << o.err;
    }
}

// These count as rank 0 has them: each rank tests its share of 20 images, and none goes on for longer.
TEST(TrainRanks, EpochsAndTestsAreThoseOfRankZero) {
    folder place;
    const strings few = {"--algorithm", "ring", "--epochs", "2"};
    const strings many = {"--algorithm", "linear", "--epochs", "3", "--test-images", "10"};
    rank_process first(place, 0, 2, few), second(place, 1, 2, many);
    const outcome a = first.wait(), b = second.wait();
    expect_good(a);
    expect_good(b);
    const outcome alike = train(small({"--local", "2", "--algorithm", "ring", "--epochs", "2"}));
    EXPECT_EQ(weights(a), weights(alike));
    EXPECT_EQ(losses_of(a, 2).test, losses_of(alike, 2).test);
    EXPECT_EQ(accuracy(a), accuracy(alike));
}

struct TrainMonitored : testing::TestWithParam<const char *> {};

TEST_P(TrainMonitored, TheLossOfOneEndsTheOthers) {
    folder place;
    const strings endless = {"--epochs", "1000000", "--monitor", GetParam()};
    rank_process first(place, 0, 3, endless), second(place, 1, 3, endless), third(place, 2, 3, endless);
    while (!contains(program_test::file_text(first.out), "epoch 1/") &&
           waitpid(first.pid, nullptr, WNOHANG) == 0)
        usleep(10000);
    kill(second.pid, SIGKILL);
    EXPECT_EQ(second.wait().status, -SIGKILL);
    for (rank_process *each : {&first, &third}) {
        const outcome o = each->wait();
        EXPECT_EQ(o.status, 1);
        EXPECT_TRUE(contains(o.err, "rank 1")) << o.err;
    }
}

INSTANTIATE_TEST_SUITE_P(Monitor, TrainMonitored, testing::Values("off", "on", "edges"));

TEST(TrainRanks, OneThatNeverComes) {
    folder place;
    const outcome o = rank_process(place, 0, 2, {"--timeout", "1"}).wait();
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "1 of 2 ranks did not join within 1000 ms: 1")) << o.err;
}

} // namespace
