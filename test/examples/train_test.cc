// examples/train: it learns, ranks agree, and what it says when something is wrong.
#include <csignal>
#include <iterator>

#include "test/kit/program.h"

namespace {

using program_test::contains;
using program_test::folder;
using program_test::lines;
using program_test::outcome;
using program_test::strings;

// Small: some 3000 parameters.
strings small(const strings &more) {
    strings all = {"--channels", "4",        "--images", "50",      "--test-images",
                   "20",         "--epochs", "1",        "--batch", "4"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

outcome train(const strings &arguments, const strings &environment = {}) {
    return program_test::run(TRAIN, arguments, environment);
}

void expect_good(const outcome &o) {
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    EXPECT_EQ(o.err, "");
}

strings words(const std::string &line) {
    std::istringstream stream(line);
    return {std::istream_iterator<std::string>(stream), {}};
}

// A column of the table, which stands last.
std::string result(const outcome &o, size_t column) {
    const strings all = lines(o.out);
    const strings last = all.empty() ? strings() : words(all.back());
    EXPECT_EQ(last.size(), 8U) << o.out << o.err;
    return last.size() == 8 ? last[column] : "";
}
std::string algorithm(const outcome &o) {
    return result(o, 0);
}
std::string weights(const outcome &o) {
    return result(o, 7);
}

// The line of a rank.
struct rank_line {
    int rank, images;
    double compute_s, allreduce_ms;
    char weights[17];
};
std::vector<rank_line> rank_lines(const outcome &o) {
    std::vector<rank_line> found;
    for (const std::string &line : lines(o.out)) {
        rank_line r;
        if (std::sscanf(line.c_str(), "rank %d: %d images, compute %lf s, allreduce %lf ms, weights %16s",
                        &r.rank, &r.images, &r.compute_s, &r.allreduce_ms, r.weights) == 5)
            found.push_back(r);
    }
    return found;
}

void expect_same_weights(const outcome &o, size_t ranks) {
    const std::vector<rank_line> found = rank_lines(o);
    EXPECT_EQ(found.size(), ranks) << o.out << o.err;
    for (const rank_line &each : found)
        EXPECT_EQ(each.weights, weights(o)) << o.out;
}

// The losses of an epoch: of training and of the test.
struct losses {
    double training, test;
};
losses losses_of(const outcome &o, int epoch) {
    for (const std::string &line : lines(o.out)) {
        int number;
        losses found;
        if (std::sscanf(line.c_str(), "epoch %d/%*d training: loss %lf, %*f %% right test: loss %lf", &number,
                        &found.training, &found.test) == 3 &&
            number == epoch)
            return found;
    }
    ADD_FAILURE() << "no epoch " << epoch << " in\n" << o.out << o.err;
    return {};
}

TEST(Train, Learns) {
    const outcome o = train({"--channels", "8", "--images", "600", "--test-images", "200", "--epochs", "8",
                             "--batch", "4", "--algorithm", "ring"});
    expect_good(o);
    EXPECT_NEAR(losses_of(o, 1).training, 2.3, 0.2); // the logarithm of ten: knows nothing yet
    EXPECT_GT(std::atof(result(o, 6).c_str()), 50);  // of 200 images that it has not seen; chance is 10
}

// The mean of the ranks' gradients is the gradient of all their images, also where 50 images in steps of 12
// leave 2 and one of three ranks has none of them. Only the last bits of sums differ.
TEST(Train, SeveralRanksLearnWhatOneDoes) {
    const outcome alone = train(small({"--local", "1", "--batch", "12", "--epochs", "3"}));
    expect_good(alone);
    for (int ranks : {2, 3}) {
        const outcome o = train(small(
            {"--local", std::to_string(ranks), "--batch", std::to_string(12 / ranks), "--epochs", "3"}));
        expect_good(o);
        EXPECT_NEAR(losses_of(o, 3).training, losses_of(alone, 3).training, 2e-4) << ranks;
        EXPECT_NEAR(losses_of(o, 3).test, losses_of(alone, 3).test, 2e-4) << ranks;
        int images = 0;
        for (const rank_line &each : rank_lines(o))
            images += each.images;
        EXPECT_EQ(images, 150);
        EXPECT_EQ(result(o, 2), "15"); // steps
    }
}

TEST(Train, MoreRanksThanImages) {
    const outcome o = train(small({"--local", "4", "--images", "3", "--test-images", "0"}));
    expect_good(o);
    expect_same_weights(o, 4);
    EXPECT_EQ(result(o, 6), "-"); // nothing was tested, so nothing is said of it
}

TEST(Train, AllRanksHaveWeightsOfTheSameBits) {
    for (const char *name : {"auto", "sorted_linear_tree", "recursive_doubling"}) {
        const outcome o = train(small({"--local", "3", "--algorithm", name}));
        expect_good(o);
        expect_same_weights(o, 3);
        EXPECT_NE(algorithm(o), "auto"); // but what it was
    }
}

TEST(Train, WeightsDependOnSeedAndAlgorithmAlone) {
    const strings arguments = small({"--local", "3", "--algorithm", "ring"});
    strings other = arguments;
    other.insert(other.end(), {"--seed", "4294967295"});
    const outcome first = train(arguments);
    EXPECT_EQ(algorithm(first), "ring");
    EXPECT_EQ(weights(first), weights(train(arguments)));
    EXPECT_NE(weights(first), weights(train(other)));
}

TEST(Train, AlgorithmsThatGiveRanksOtherBitsAreRefused) {
    const outcome o = train(small({"--local", "3", "--algorithm", "ring_full"}));
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "ring_full")) << o.err;
    EXPECT_FALSE(contains(o.out, "epoch")) << o.out;
}

// The algorithm may change from step to step; the ranks agree all the same.
TEST(Train, RanksAgreeWithAMonitor) {
    for (int ranks : {2, 4}) {
        const outcome o = train(small({"--local", std::to_string(ranks), "--images", "200", "--batch", "2",
                                       "--step-ms", "4", "--slow", "0:100", "--monitor", "on"}));
        expect_good(o);
        expect_same_weights(o, static_cast<size_t>(ranks));
        EXPECT_EQ(result(o, 1), "on");
        EXPECT_TRUE(contains(o.out, "late ranks were heeded in ")) << o.out;
        EXPECT_NE(algorithm(o), "auto");
    }
}

// A slow rank computes for longer; what a sleep lasts at least is certain.
TEST(Train, SlowRanksAreSlow) {
    const outcome o = train(small({"--images", "40", "--step-ms", "20", "--slow", "1:100"}));
    expect_good(o);
    ASSERT_EQ(rank_lines(o).size(), 2U);
    for (const rank_line &each : rank_lines(o))
        EXPECT_GE(each.compute_s, 5 * (each.rank == 1 ? 0.040 : 0.020));
}

TEST(Train, LeavesNothingBehind) {
    folder place;
    expect_good(train(small({"--local", "3"}), {"TMPDIR=" + place.path}));
    EXPECT_TRUE(std::filesystem::is_empty(place.path));
}

// ---- When something is wrong
// ---------------------------------------------------------------------------------

TEST(TrainFailure, BadOptionsAreNamed) {
    const std::pair<strings, std::string> rows[] = {
        {{"--bogus"}, "unknown argument '--bogus'"},
        {{"--epochs"}, "no value for '--epochs'"},
        {{"--epochs", "0"}, "--epochs: found '0'; allowed: 1 to 1000000"},
        {{"--images", "1.5"}, "--images: found '1.5'"},
        {{"--images", ""}, "--images: found ''"},
        {{"--seed", "nan"}, "--seed: found 'nan'"},
        {{"--slow", "1"}, "--slow: found '1'; allowed: RANK:PERCENT"},
        {{"--slow", "0:nan"}, "--slow: found '0:nan'"},
        {{"--slow", "2:10"}, "--slow 2: allowed: below the number of ranks, 2"},
        {{"--monitor", "maybe"}, "--monitor: found 'maybe'; allowed: on or off"},
        {{"--monitor", "on", "--algorithm", "ring"}, "--monitor on: it is auto that heeds late ranks"},
        {{"--local", "2", "--size", "2", "--store", "file:/tmp/x"}, "do not go with --local"},
        {{"--size", "2"}, "--rank, --size and --store need one another"},
        {{"--rank", "2", "--size", "2", "--store", "file:/tmp/x"}, "--rank 2"},
    };
    for (const auto &[arguments, text] : rows) {
        const outcome o = train(arguments);
        EXPECT_EQ(o.status, 2) << text;
        EXPECT_TRUE(contains(o.err, text)) << text << "\nbut\n" << o.err;
    }
}

TEST(TrainFailure, OutputThatIsLostIsSaid) {
    strings arguments = {"-c", "exec \"$0\" \"$@\" >/dev/full", TRAIN};
    const strings rest = small({});
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    const outcome o = program_test::run("/bin/sh", arguments);
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "rank 0: standard output did not take the results")) << o.err;
}

// In the background.
struct process {
    folder place;
    std::string out = place.path + "/out", err = place.path + "/err";
    pid_t pid;

    explicit process(const strings &more) {
        strings arguments = small(more);
        std::vector<char *> argv = {const_cast<char *>(TRAIN)};
        for (std::string &argument : arguments)
            argv.push_back(argument.data());
        argv.push_back(nullptr);
        pid = fork();
        if (pid == 0) {
            const bool opened =
                std::freopen(out.c_str(), "w", stdout) && std::freopen(err.c_str(), "w", stderr);
            setenv("TMPDIR", place.path.c_str(), 1);
            alarm(opened ? program_test::limit_s : 1);
            execv(TRAIN, argv.data());
            _exit(127);
        }
    }
    // Until it trains, or has ended.
    void wait_for_training() const {
        siginfo_t ended;
        ended.si_pid = 0;
        while (!contains(program_test::file_text(out), "epoch 1/") && ended.si_pid == 0 &&
               waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) == 0)
            usleep(10000);
    }
    // Of its ranks, in their order. Empty if the kernel does not list children.
    std::vector<pid_t> children() const {
        const std::string number = std::to_string(pid);
        std::ifstream list("/proc/" + number + "/task/" + number + "/children");
        return {std::istream_iterator<pid_t>(list), {}};
    }
    outcome wait() const {
        int how = 0;
        EXPECT_EQ(waitpid(pid, &how, 0), pid);
        return {WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how), program_test::file_text(out),
                program_test::file_text(err)};
    }
};

// Ranks that are started one by one, with more arguments for the last one.
std::vector<outcome> train_by_hand(int ranks, const strings &more, const strings &last = {}) {
    folder place;
    std::vector<std::unique_ptr<process>> started;
    for (int r = 0; r < ranks; r++) {
        strings arguments = {"--rank",  std::to_string(r),
                             "--size",  std::to_string(ranks),
                             "--store", "file:" + place.path + "/store"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        if (r == ranks - 1)
            arguments.insert(arguments.end(), last.begin(), last.end());
        started.push_back(std::make_unique<process>(arguments));
    }
    std::vector<outcome> ended;
    for (const std::unique_ptr<process> &each : started)
        ended.push_back(each->wait());
    return ended;
}

TEST(TrainByHand, GivesWhatLocalRanksGive) {
    const std::vector<outcome> ranks = train_by_hand(2, {"--algorithm", "ring"});
    for (const outcome &o : ranks)
        expect_good(o);
    EXPECT_EQ(weights(ranks[0]), weights(train(small({"--algorithm", "ring"}))));
}

TEST(TrainByHand, OptionsThatDifferAreToldToAll) {
    for (const outcome &o : train_by_hand(3, {}, {"--batch", "5"})) {
        EXPECT_EQ(o.status, 1);
        EXPECT_TRUE(contains(o.err, "rank 2 aborted: it has --batch 5, rank 0 has 4")) << o.err;
    }
}

struct TrainMonitored : testing::TestWithParam<const char *> {};

TEST_P(TrainMonitored, ARankThatIsKilledIsNamedAndEndsTheOthers) {
    const process job({"--local", "3", "--epochs", "1000000", "--monitor", GetParam()});
    job.wait_for_training();
    const std::vector<pid_t> ranks = job.children();
    if (ranks.size() == 3)
        kill(ranks[1], SIGKILL);
    else
        kill(job.pid, SIGTERM);
    const outcome o = job.wait();
    if (ranks.empty())
        GTEST_SKIP() << "the kernel does not list children";
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "rank 1 (process " + std::to_string(ranks[1]) + ") was killed by signal 9"))
        << o.err;
    for (const char *rank : {"train: rank 0: ", "train: rank 2: "}) {
        const size_t at = o.err.find(rank);
        ASSERT_NE(at, std::string::npos) << o.err;
        EXPECT_TRUE(contains(o.err.substr(at, o.err.find('\n', at) - at), "rank 1")) << o.err;
    }
}

INSTANTIATE_TEST_SUITE_P(Monitor, TrainMonitored, testing::Values("off", "on"));

TEST(TrainFailure, RanksEndWithTheProgram) {
    const process job({"--local", "2", "--epochs", "1000000"});
    job.wait_for_training();
    const std::vector<pid_t> ranks = job.children();
    kill(job.pid, SIGTERM);
    EXPECT_EQ(job.wait().status, -SIGTERM);
    for (pid_t rank : ranks) {
        const auto trains = [&] {
            return contains(program_test::file_text("/proc/" + std::to_string(rank) + "/cmdline"), TRAIN);
        };
        for (int i = 0; i < 1000 && trains(); i++) // the kernel ends them, but not at once
            usleep(10000);
        ASSERT_FALSE(trains()) << kill(rank, SIGKILL);
    }
}

} // namespace
