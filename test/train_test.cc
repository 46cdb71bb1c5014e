// examples/train: it learns, by one rank and by several alike, and goes on where it was.
#include <pty.h>

#include <cmath>
#include <map>

#include "test/train_support.h"

namespace {

using namespace train_test;

TEST(Train, Learns) {
    const outcome o = train({"--channels", "8", "--images", "600", "--test-images", "200", "--epochs", "8",
                             "--batch", "4", "--algorithm", "ring"});
    expect_good(o);
    EXPECT_NEAR(losses_of(o, 1).training, 2.3, 0.2); // the logarithm of ten: knows nothing yet
    EXPECT_GT(accuracy(o), 50);                      // of 200 images that it has not seen; chance is 10
}

// Weights and velocity of a checkpoint.
std::vector<float> numbers_of(const std::string &file) {
    const std::string text = program_test::file_text(file);
    EXPECT_GT(text.size(), 216U);
    std::vector<float> found(text.size() > 216 ? (text.size() - 216) / sizeof(float) : 0);
    std::memcpy(found.data(), text.data() + text.size() - found.size() * sizeof(float),
                found.size() * sizeof(float));
    return found;
}

// The mean over ranks of gradients is the gradient of all their images, number by number: after one step of
// 12 images and one of 2, of which two of three ranks have one and one has none, the weights are those of one
// rank, and so is the velocity, which is rate times gradients. Sums differ in the last bits of a float.
TEST(Train, SeveralRanksMakeTheStepsOfOne) {
    folder place;
    std::vector<float> alone;
    for (int ranks : {1, 2, 3, 12}) {
        const std::string file = place.path + "/" + std::to_string(ranks);
        expect_good(train(small({"--local", std::to_string(ranks), "--batch", std::to_string(12 / ranks),
                                 "--images", "14", "--test-images", "0", "--checkpoint", file})));
        const std::vector<float> found = numbers_of(file);
        if (ranks == 1)
            alone = found;
        ASSERT_EQ(found.size(), alone.size());
        double most = 0, differs = 0;
        for (size_t i = found.size() / 2; i < found.size(); i++) {
            most = std::max(most, std::fabs(double(alone[i])));
            differs = std::max(differs, std::fabs(double(found[i]) - alone[i]));
        }
        EXPECT_GT(most, 1e-3);
        EXPECT_LT(differs, 1e-5 * most) << ranks;
        for (size_t i = 0; i < found.size() / 2; i++)
            ASSERT_NEAR(found[i], alone[i], 1e-6) << ranks << ", parameter " << i;
    }
}

// And so it stays, but for the last bits, also where 50 images in steps of 12 leave 2.
TEST(Train, SeveralRanksLearnWhatOneDoes) {
    std::map<int, losses> found;
    for (int ranks : {1, 2, 3}) {
        const outcome o = train(small(
            {"--local", std::to_string(ranks), "--batch", std::to_string(12 / ranks), "--epochs", "3"}));
        expect_good(o);
        found[ranks] = losses_of(o, 3);
    }
    for (int ranks : {2, 3}) {
        EXPECT_NEAR(found[ranks].training, found[1].training, 2e-4) << ranks;
        EXPECT_NEAR(found[ranks].test, found[1].test, 2e-4) << ranks;
    }
}

TEST(Train, ImagesAreSharedEvenly) {
    const outcome o = train(small({"--local", "3"}));
    expect_good(o);
    EXPECT_TRUE(contains(o.out, "     0        16 ")) << o.out; // 4 steps of 12 images, one of 2
    EXPECT_TRUE(contains(o.out, "     1        17 ")) << o.out;
    EXPECT_TRUE(contains(o.out, "     2        17 ")) << o.out;
    EXPECT_EQ(result(o, 2), "5");
}

TEST(Train, MoreRanksThanImages) {
    const outcome o = train(small({"--local", "4", "--images", "3", "--test-images", "0"}));
    expect_good(o);
    EXPECT_EQ(result(o, 2), "1");
    EXPECT_EQ(result(o, 6), "-"); // nothing was tested, so nothing is said of it
    EXPECT_FALSE(contains(o.out, "test:")) << o.out;
}

TEST(Train, ResultsDependOnTheSeedAlone) {
    const outcome first = train(small({"--local", "3", "--algorithm", "ring"}));
    const outcome again = train(small({"--local", "3", "--algorithm", "ring"}));
    const outcome other =
        train(small({"--local", "3", "--algorithm", "ring", "--seed", "18446744073709551615"}));
    EXPECT_EQ(weights(first), weights(again));
    EXPECT_NE(weights(first), weights(other));
    EXPECT_EQ(algorithm(first), "ring");
}

TEST(Train, AlgorithmsThatGiveRanksTheSameBits) {
    for (const char *name :
         {"sorted_linear_tree", "pre_reduced_ring", "recursive_doubling", "linear", "circulant"}) {
        const outcome o = train(small({"--local", "3", "--algorithm", name}));
        expect_good(o);
        EXPECT_EQ(algorithm(o).substr(0, std::strlen(name)), name);
    }
}

TEST(Train, AlgorithmsThatDoNotAreRefused) {
    const outcome o = train(small({"--local", "3", "--algorithm", "ring_full"}));
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "ring_full")) << o.err;
    EXPECT_FALSE(contains(o.out, "epoch")) << o.out;
}

// ---- The monitor of arrivals
// ---------------------------------------------------------------------------------

// What is chosen may change from step to step; the ranks agree all the same, and say so themselves.
TEST(TrainMonitor, RanksAgree) {
    for (const char *monitor : {"on", "edges"})
        for (const char *ranks : {"1", "2", "4"}) {
            outcome o =
                train(small({"--local", ranks, "--images", "200", "--batch", "2", "--epochs", "2",
                             "--channels", "8", "--step-ms", "4", "--slow", "0:100", "--monitor", monitor}));
            EXPECT_EQ(contains(o.err, "who is late is heeded with 3 to 64"), ranks[0] != '4') << o.err;
            if (ranks[0] == '4') {
                EXPECT_EQ(o.err, "");
            }
            o.err.clear();
            expect_good(o);
            EXPECT_EQ(result(o, 1), monitor);
            EXPECT_TRUE(contains(o.out, "late ranks were heeded in ")) << o.out;
            EXPECT_NE(algorithm(o), "auto"); // but what it was
        }
}

// It learns the same, but for the last bits.
TEST(TrainMonitor, LearnsTheSame) {
    const strings arguments = {"--local", "3", "--epochs", "3"};
    strings with = arguments;
    with.insert(with.end(), {"--monitor", "edges"});
    const outcome without = train(small(arguments)), watched = train(small(with));
    expect_good(watched);
    EXPECT_NEAR(losses_of(watched, 3).training, losses_of(without, 3).training, 2e-4);
    EXPECT_NEAR(losses_of(watched, 3).test, losses_of(without, 3).test, 2e-4);
}

TEST(TrainMonitor, SaysWithHowManyRanksNobodyIsHeeded) {
    EXPECT_EQ(train(small({"--local", "2", "--monitor", "on"})).err,
              "train: --monitor on: found with 2 ranks; who is late is heeded with 3 to 64\n");
    EXPECT_EQ(train(small({"--local", "3", "--monitor", "on"})).err, "");
    EXPECT_EQ(train(small({"--local", "2"})).err, "");
}

// The checkpoint's algorithm is for runs without a monitor.
TEST(TrainMonitor, GoesOnFromACheckpoint) {
    folder place;
    const std::string file = place.path + "/checkpoint";
    expect_good(train(small({"--local", "3", "--checkpoint", file, "--algorithm", "ring"})));
    const outcome o =
        train(small({"--local", "3", "--checkpoint", file, "--resume", "--epochs", "2", "--monitor", "on"}));
    expect_good(o);
    EXPECT_TRUE(contains(o.out, "images a step each, auto")) << o.out;
    EXPECT_TRUE(contains(o.out, "goes on after epoch 1")) << o.out;
}

// ---- Checkpoints -----------------------------------------------------------------------------------------

TEST(TrainCheckpoint, ResumedRunEndsWithTheSameBits) {
    for (const char *name : {"auto", "pre_reduced_ring"}) {
        folder place;
        const std::string file = place.path + "/checkpoint";
        const outcome whole =
            train(small({"--local", "3", "--epochs", "4", "--algorithm", name, "--checkpoint", file}));
        const outcome half = train(
            small({"--local", "3", "--epochs", "2", "--algorithm", algorithm(whole), "--checkpoint", file}));
        const outcome rest =
            train(small({"--local", "3", "--epochs", "4", "--checkpoint", file, "--resume"}));
        expect_good(half);
        expect_good(rest);
        EXPECT_TRUE(contains(rest.out, "goes on after epoch 2")) << rest.out;
        EXPECT_FALSE(contains(rest.out, "epoch 2/4")) << rest.out;
        EXPECT_NE(weights(half), weights(whole));
        EXPECT_EQ(weights(rest), weights(whole));
        EXPECT_EQ(algorithm(rest), algorithm(whole)); // auto keeps to what the checkpoint says
        EXPECT_EQ(losses_of(rest, 4).training, losses_of(whole, 4).training);
        EXPECT_FALSE(std::filesystem::exists(file + ".new"));
    }
}

TEST(TrainCheckpoint, NothingLeftToDo) {
    folder place;
    const strings arguments = small({"--checkpoint", place.path + "/checkpoint"});
    strings again = arguments;
    again.push_back("--resume");
    const outcome first = train(arguments), second = train(again);
    expect_good(second);
    expect_good(first);
    EXPECT_EQ(second.out, "nothing left to do: 1 of 1 epochs are done\n");
}

struct damaged {
    folder place;
    std::string file = place.path + "/checkpoint";
    std::string good;
    damaged() {
        expect_good(train(small({"--checkpoint", file})));
        good = program_test::file_text(file);
    }
    std::string resume(const std::string &text, const strings &more = {}) {
        std::ofstream(file, std::ios::binary) << text;
        strings arguments = {"--checkpoint", file, "--resume"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const outcome o = train(small(arguments));
        EXPECT_EQ(o.status, 1) << o.out << o.err;
        EXPECT_TRUE(contains(o.err, "rank 1: ")) << o.err; // the others are told as well
        EXPECT_EQ(program_test::file_text(file), text);    // and the file is left alone
        return o.err;
    }
};

TEST(TrainCheckpoint, DamagedOnesAreRefused) {
    damaged d;
    std::string flipped = d.good, longer = d.good + "x", header = d.good;
    flipped[d.good.size() - 5] ^= 1;
    header[16 + 7 * 8] ^= 1; // of the epoch
    const std::string said = d.resume(flipped);
    EXPECT_TRUE(contains(said, "train: rank 0: " + d.file + " is damaged\n")) << said;
    EXPECT_TRUE(contains(said, "train: rank 1: rank 0 aborted: " + d.file + " is damaged")) << said;
    EXPECT_TRUE(contains(d.resume(longer), "is damaged"));
    EXPECT_TRUE(contains(d.resume(header), "is damaged"));
    EXPECT_TRUE(contains(d.resume(d.good.substr(0, d.good.size() - 1)), "is damaged"));
    EXPECT_TRUE(contains(d.resume(d.good.substr(0, 20)), "is not a checkpoint"));
    EXPECT_TRUE(contains(d.resume(""), "is not a checkpoint"));
    EXPECT_TRUE(contains(d.resume("x" + d.good.substr(1)), "is not a checkpoint"));
}

// A checkpoint with its hash made good again: 64 bits, the last of the header.
std::string rehashed(std::string text) {
    const size_t at = 16 + 8 * 8 + 128;
    std::memset(&text[at], 0, 8);
    uint64_t hash = 0xcbf29ce484222325;
    for (char each : text)
        hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
    std::memcpy(&text[at], &hash, 8);
    return text;
}

// Whoever forges one gets no further.
TEST(TrainCheckpoint, AlgorithmsWithoutEndAreRefused) {
    damaged d;
    std::string endless = d.good;
    endless.replace(16 + 8 * 8, 128, std::string(128, 'x'));
    EXPECT_EQ(rehashed(d.good), d.good);
    EXPECT_TRUE(contains(d.resume(rehashed(endless)), "is damaged"));
    std::string other = d.good;
    other.replace(16 + 8 * 8, 6, std::string("bogus\0", 6));
    EXPECT_TRUE(contains(d.resume(rehashed(other)), "algorithm 'bogus'"));
}

// A limit of the size of files is as good as a disk that is full: 4 KB where it takes 21.
TEST(TrainCheckpoint, IsKeptIfTheNextOneCannotBeWritten) {
    damaged d;
    strings arguments = {"-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"", TRAIN};
    const strings rest = small({"--checkpoint", d.file, "--resume", "--epochs", "2"});
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    const outcome o = program_test::run("/bin/sh", arguments);
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "rank 0: ")) << o.err;
    EXPECT_TRUE(contains(o.err, "writing the checkpoint " + d.file + ": File too large")) << o.err;
    EXPECT_EQ(program_test::file_text(d.file), d.good);
    EXPECT_FALSE(std::filesystem::exists(d.file + ".new"));
}

// Weights of 1e30 are too large to go on with. What is left is no checkpoint of weights that are no numbers.
TEST(TrainCheckpoint, IsKeptIfWeightsGrowWithoutEnd) {
    damaged d;
    std::string large = d.good;
    const float weight = 1e30F;
    for (size_t i = 216; i < (large.size() + 216) / 2; i += sizeof weight)
        std::memcpy(&large[i], &weight, sizeof weight);
    EXPECT_TRUE(contains(d.resume(rehashed(large), {"--epochs", "2"}),
                         "rank 0: after epoch 2 weights are no numbers any more; a smaller --rate"));
}

TEST(TrainCheckpoint, ThoseOfAnotherTrainingAreRefused) {
    damaged d;
    EXPECT_TRUE(
        contains(d.resume(d.good, {"--batch", "5"}), "is of another training: --batch: 5 here, 4 there"));
    EXPECT_TRUE(contains(d.resume(d.good, {"--local", "3"}), "ranks: 3 here, 2 there"));
    EXPECT_TRUE(contains(d.resume(d.good, {"--channels", "5"}), "--channels: 5 here, 4 there"));
    EXPECT_TRUE(contains(d.resume(d.good, {"--rate", "0.02"}), "--rate: 0.02 here, 0.005 there"));
}

TEST(TrainCheckpoint, PlacesThatAreNotThere) {
    folder place;
    const std::string file = place.path + "/missing/checkpoint";
    const outcome read = train(small({"--checkpoint", file, "--resume"}));
    EXPECT_EQ(read.status, 1);
    EXPECT_TRUE(contains(read.err, file + ": No such file or directory")) << read.err;
    const std::string far = place.path + "/" + std::string(200, 'x') + "/" + std::string(60, 'y');
    const outcome deep = train(small({"--checkpoint", far}));
    EXPECT_EQ(deep.status, 1);
    EXPECT_TRUE(contains(deep.err, std::string(60, 'y') + ": No such file or directory")) << deep.err;
    const outcome longer = train(small({"--checkpoint", std::string(4092, 'x')}));
    EXPECT_EQ(longer.status, 1);
    EXPECT_TRUE(contains(longer.err, "has 4092 bytes; allowed: up to 4091")) << longer.err;
    const outcome write = train(small({"--checkpoint", file}));
    EXPECT_EQ(write.status, 1);
    EXPECT_TRUE(contains(write.err, file + ": No such file or directory")) << write.err;
    EXPECT_EQ(write.out, "") << "nothing is trained first";
    const outcome on = train(small({"--checkpoint", place.path}));
    EXPECT_EQ(on.status, 1);
    EXPECT_TRUE(contains(on.err, place.path + ": Is a directory")) << on.err;
    EXPECT_EQ(on.out, "");
}

// ---- What is shown, and what is left behind ---------------------------------------------------------------

TEST(Train, LeavesNothingBehind) {
    folder place;
    expect_good(train(small({"--local", "3"}), {"TMPDIR=" + place.path}));
    EXPECT_TRUE(std::filesystem::is_empty(place.path));
}

TEST(Train, OutputThatIsLostIsSaid) {
    strings arguments = {"-c", "exec \"$0\" \"$@\" >/dev/full", TRAIN};
    const strings rest = small({});
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    const outcome o = program_test::run("/bin/sh", arguments);
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "rank 0: writing the results: No space left on device")) << o.err;
}

TEST(Train, ShowsABarOnATerminalOnly) {
    int terminal = -1, side = -1;
    ASSERT_EQ(openpty(&terminal, &side, nullptr, nullptr, nullptr), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(side, 2);
        FILE *nowhere = std::freopen("/dev/null", "w", stdout);
        alarm(nowhere != nullptr ? program_test::limit_s : 1);
        execl(TRAIN, TRAIN, "--channels", "4", "--images", "40", "--epochs", "1", "--step-ms", "50", nullptr);
        _exit(127);
    }
    close(side);
    std::string shown;
    char part[1000];
    for (ssize_t got; (got = read(terminal, part, sizeof part)) > 0;)
        shown.append(part, static_cast<size_t>(got));
    close(terminal);
    int how = 0;
    EXPECT_EQ(waitpid(pid, &how, 0), pid);
    EXPECT_EQ(how, 0);
    EXPECT_TRUE(contains(shown, "epoch 1/1  [")) << shown;
    EXPECT_TRUE(contains(shown, "loss ")) << shown;
}

// A slow rank computes for longer; what a sleep lasts at least is certain.
TEST(Train, SlowRanksAreSlow) {
    const outcome o = train(small({"--local", "2", "--images", "40", "--step-ms", "20", "--slow", "1:100"}));
    expect_good(o);
    double compute[2] = {0, 0};
    for (const std::string &line : lines(o.out)) {
        const strings row = words(line);
        if (row.size() == 4 && (row[0] == "0" || row[0] == "1"))
            compute[row[0] == "1"] = std::atof(row[2].c_str());
    }
    EXPECT_GE(compute[0], 5 * 0.020);
    EXPECT_GE(compute[1], 5 * 0.040);
}

} // namespace
