// examples/train: what it says when it cannot.
#include <cmath>
#include <csignal>
#include <regex>

#include "test/train_support.h"

extern "C" {
#include "examples/train/job.h"
#include "examples/train/local.h"
}

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
        {{"--slow", " 0:1"}, "--slow: found ' 0:1'"},
        {{"--slow", "0:1001"}, "--slow: found '0:1001'"},
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
        {{"--algorithm", "ring:segment=" + std::string(115, '0') + "8"},
         "--algorithm: found 129 bytes; allowed: up to 127"},
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

// In the background, its output in a file.
struct process {
    pid_t pid;
    std::FILE *err = std::tmpfile();
    std::string out;

    process(const std::string &output, const strings &more, int ignored = 0) : out(output) {
        strings arguments = small(more);
        std::vector<char *> argv = {const_cast<char *>(TRAIN)};
        for (std::string &argument : arguments)
            argv.push_back(argument.data());
        argv.push_back(nullptr);
        pid = fork();
        if (pid == 0) {
            FILE *opened = std::freopen(out.c_str(), "w", stdout);
            dup2(fileno(err), 2);
            if (ignored != 0)
                (void)std::signal(ignored, SIG_IGN);
            alarm(opened != nullptr ? program_test::limit_s : 1);
            execv(TRAIN, argv.data());
            _exit(127);
        }
    }
    void wait_for(const char *text) const {
        siginfo_t ended;
        ended.si_pid = 0;
        while (!contains(program_test::file_text(out), text) && ended.si_pid == 0 &&
               waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) == 0)
            usleep(10000);
    }
    outcome wait() {
        int how = 0;
        EXPECT_EQ(waitpid(pid, &how, 0), pid);
        return {WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how), program_test::file_text(out),
                program_test::read_all(err)};
    }
};

// One rank of several.
struct rank_process : process {
    rank_process(const folder &place, int rank, int size, const strings &more)
        : process(place.path + "/out" + std::to_string(rank), arguments(place, rank, size, more)) {}
    static strings arguments(const folder &place, int rank, int size, const strings &more) {
        strings all = {"--rank",  std::to_string(rank),           "--size", std::to_string(size),
                       "--store", "file:" + place.path + "/store"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
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
    first.wait_for("epoch 1/");
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

// ---- All ranks on this machine ----------------------------------------------------------------------------

TEST(TrainLocal, StatusIsThatOfAnyThatFails) {
    folder place;
    const outcome o = train(small({"--local", "3", "--checkpoint", place.path + "/missing", "--resume"}));
    EXPECT_EQ(o.status, 1);
    for (const char *rank : {"rank 0: ", "rank 1: ", "rank 2: "})
        EXPECT_TRUE(contains(o.err, rank)) << o.err;
}

// nohup: what was to be ignored when it began does not end it.
TEST(TrainLocal, AHangupThatIsIgnoredDoesNotEndIt) {
    folder place;
    process job(place.path + "/out", {"--local", "2", "--epochs", "4", "--step-ms", "20"}, SIGHUP);
    job.wait_for("epoch 1/");
    kill(job.pid, SIGHUP);
    const outcome o = job.wait();
    expect_good(o);
    EXPECT_TRUE(contains(o.out, "epoch 4/4")) << o.out;
}

TEST(TrainLocal, SignalsEndAllRanks) {
    for (int number : {SIGHUP, SIGINT, SIGTERM}) {
        folder place;
        process job(place.path + "/out", {"--local", "2", "--epochs", "1000000"});
        job.wait_for("epoch 1/");
        kill(job.pid, number);
        EXPECT_EQ(job.wait().status, -number);
    }
}

// Whoever ignores the end of children hands that down.
TEST(TrainLocal, EndsWhereTheEndOfChildrenWasIgnored) {
    folder place;
    expect_good(process(place.path + "/out", {"--local", "2"}, SIGCHLD).wait());
}

// It may have children that are no ranks: what the shell began that it took the place of.
TEST(TrainLocal, OtherChildrenAreNoRanks) {
    strings arguments = {"-c", "(exit 3) & exec \"$0\" \"$@\"", TRAIN};
    const strings rest = small({"--local", "2"});
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    expect_good(program_test::run("/bin/sh", arguments));
}

// Rank 2 has one bit that the others have not.
int compares_weights(const train_options *options) {
    train_job job;
    float weights[3] = {1, 2, options->rank == 2 ? std::nextafter(3.0F, 4.0F) : 3};
    uint64_t hash = 0;
    const bool opened = job_open(&job, options);
    const bool agree = opened && job_agree(&job, weights, sizeof weights - sizeof weights[2], &hash);
    const bool differ = opened && !job_agree(&job, weights, sizeof weights, &hash);
    job_close(&job);
    return agree && differ && hash == hash_bytes(HASH_BEGIN, weights, sizeof weights) ? 7 : TRAIN_FAILED;
}

// That they would be found if they did: trainings have no such weights to show it with.
TEST(TrainLocal, WeightsThatDifferInABitAreFoundByAllRanks) {
    train_options options = {};
    options.local = options.size = 3;
    options.timeout_s = 30;
    EXPECT_EXIT(exit(local_run(&options, compares_weights)), testing::ExitedWithCode(7),
                "the weights of rank 2 .[0-9a-f]+. are not those of rank 0 .[0-9a-f]+.");
}

int fails_or_waits_for_ever(const train_options *options) {
    while (options->rank != 0)
        pause();
    return TRAIN_FAILED;
}

TEST(TrainLocal, RanksThatDoNotEndAreEnded) {
    train_options options = {};
    options.local = options.size = 2;
    options.timeout_s = 1;
    EXPECT_EXIT(exit(local_run(&options, fails_or_waits_for_ever)), testing::ExitedWithCode(TRAIN_FAILED),
                "rank 1 .process [0-9]+. has not ended after 1 s, and is killed");
}

int ends_well_or_waits_for_ever(const train_options *options) {
    while (options->rank != 0)
        pause();
    return TRAIN_GOOD;
}

TEST(TrainLocal, RanksThatOutlastTheOthersAreEnded) {
    train_options options = {};
    options.local = options.size = 2;
    options.timeout_s = 1;
    EXPECT_EXIT(exit(local_run(&options, ends_well_or_waits_for_ever)), testing::ExitedWithCode(TRAIN_FAILED),
                "rank 1 .process [0-9]+. has not ended after 2 s, and is killed");
}

pid_t child_of(pid_t parent, int index) {
    const std::string number = std::to_string(parent);
    std::ifstream children("/proc/" + number + "/task/" + number + "/children");
    pid_t pid = 0;
    for (int i = 0; i <= index; i++)
        children >> pid;
    return children ? pid : 0;
}

TEST(TrainLocal, ARankThatIsStoppedIsNamedAndEnded) {
    folder place;
    process job(place.path + "/out", {"--local", "3", "--epochs", "1000000", "--timeout", "5"});
    job.wait_for("epoch 1/");
    ASSERT_TRUE(contains(program_test::file_text(job.out), "epoch 1/")) << job.wait().err;
    const pid_t second = child_of(job.pid, 1);
    if (second == 0) {
        kill(job.pid, SIGTERM);
        job.wait();
        GTEST_SKIP() << "the kernel does not list children";
    }
    kill(second, SIGSTOP);
    const outcome o = job.wait();
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "rank 1 (process " + std::to_string(second) + ") has not ended after 5 s"))
        << o.err;
    EXPECT_TRUE(std::regex_search(o.err, std::regex("train: rank [02]: .*rank 1"))) << o.err;
}

TEST(TrainLocal, FoldersThatCannotBeMadeAreNamed) {
    EXPECT_TRUE(contains(train(small({}), {"TMPDIR=/nowhere"}).err, "ranks to meet in, /nowhere/train-"));
    EXPECT_TRUE(contains(train(small({}), {"TMPDIR=/" + std::string(2000, 'x')}).err, "TMPDIR: is of more"));
}

} // namespace
