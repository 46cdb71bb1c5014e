// gcoll_bench --tune, --tuning and --tune-check: from measuring to a context that goes by what was found.
#include "test/benchmark/bench_support.h"

#include <fstream>
#include <sstream>

namespace {

using namespace bench_test;

std::string file_text(const std::string &path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

size_t count_of(const std::string &text, const std::string &part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        found++;
    return found;
}

TEST(BenchTune, WritesWhatContextsThenGoBy) {
    folder here;
    const std::string path = here.path + "/my.tuning";
    const strings small = {"--iterations=2", "--bytes=4:4Ki:x32"};
    const auto tune = [&](strings more) {
        more.insert(more.end(), small.begin(), small.end());
        more.push_back("--tune=" + path);
        return run(more);
    };
    outcome first = tune({"--local=3", "--transport=inproc"});
    ASSERT_EQ(first.status, 0) << first.err;
    std::string text = file_text(path);
    EXPECT_EQ(text.rfind("gcoll-tuning 1\nfor transport=inproc ranks=3 local=3\ncost alpha_ns=", 0), 0u)
        << text;
    for (const char *collective : {"allreduce", "broadcast", "reduce", "allgather", "reduce_scatter",
                                   "alltoall", "barrier", "gather", "scatter"}) {
        EXPECT_TRUE(contains(text, std::string("\nchoose ") + collective + " 0 ")) << collective << "\n"
                                                                                   << text;
    }
    // Another number of ranks is added; the same again takes the place of what there was.
    outcome second = tune({"--local=2", "--collective=allreduce", "--algorithm=linear,ring"});
    ASSERT_EQ(second.status, 0) << second.err;
    // A tour is not measured here, so it stays.
    std::string with_tour = file_text(path);
    with_tour.insert(with_tour.find("\nchoose"), "\n\ttour\t2 1 0");
    with_tour.insert(with_tour.find("\nfor transport=shm"), "\n# within a host"); // nor are comments
    std::ofstream(path) << with_tour;
    outcome third = tune({"--local=3", "--transport=inproc", "--collective=allreduce", "--algorithm=linear"});
    ASSERT_EQ(third.status, 0) << third.err;
    EXPECT_TRUE(contains(third.err, "allreduce of 4Ki bytes: linear, ")) << third.err;
    text = file_text(path);
    EXPECT_EQ(count_of(text, "for transport="), 2u) << text;
    EXPECT_TRUE(contains(text, "for transport=shm ranks=2 local=2\n")) << text;
    EXPECT_TRUE(contains(text, "# within a host\nfor transport=shm")) << text;
    EXPECT_TRUE(contains(text, "choose allreduce 0 - linear\n")) << text;
    EXPECT_FALSE(contains(text, "broadcast")) << text;
    EXPECT_EQ(count_of(text, "\n\ttour\t2 1 0\n"), 1u) << text;

    for (const bool by_variable : {false, true}) {
        strings arguments = {"--local=3", "--transport=inproc", "--bytes=4Ki", "--iterations=2", "--verbose"};
        if (!by_variable)
            arguments.push_back("--tuning=" + path);
        outcome used = run(arguments, by_variable ? strings{"GCOLL_TUNING=" + path} : strings{});
        EXPECT_EQ(used.status, 0) << used.err;
        EXPECT_TRUE(contains(used.err, "3 ranks: linear\n")) << used.err;
        EXPECT_TRUE(contains(used.err, "of '" + path + "'")) << used.err;
    }
    outcome check = run({"--local=3", "--transport=inproc", "--bytes=4Ki", "--iterations=2", "--tune-check",
                         "--tuning=" + path, "--algorithm=linear,ring"});
    EXPECT_EQ(check.status, 0) << check.err;
    EXPECT_TRUE(contains(check.out, "# 1 points: auto within 5 %")) << check.out;
}

// However they are given: rules lie between one size and the next.
TEST(BenchTune, TakesSizesUpwardsAndEachOnce) {
    folder here;
    const std::string path = here.path + "/my.tuning";
    outcome tuned = run({"--tune=" + path, "--local=2", "--transport=inproc", "--collective=allreduce",
                         "--algorithm=linear,ring", "--bytes=4Ki,64,4Ki,66,1Ki", "--iterations=2"});
    ASSERT_EQ(tuned.status, 0) << tuned.err;
    EXPECT_EQ(count_of(tuned.err, "allreduce of "), 3u) << tuned.err;
    const size_t first = tuned.err.find("allreduce of 64 bytes"),
                 second = tuned.err.find("allreduce of 1Ki bytes"),
                 third = tuned.err.find("allreduce of 4Ki bytes");
    EXPECT_NE(third, std::string::npos) << tuned.err;
    EXPECT_LT(first, second) << tuned.err;
    EXPECT_LT(second, third) << tuned.err;
    outcome used =
        run({"--local=2", "--transport=inproc", "--bytes=4Ki", "--iterations=2", "--tuning=" + path});
    EXPECT_EQ(used.status, 0) << used.err;
}

// What contexts would refuse is not written.
TEST(BenchTune, TheFileStaysWhatContextsLoad) {
    folder here;
    const std::string path = here.path + "/full";
    const std::string full = "gcoll-tuning 1\nfor transport=tcp ranks=900\n" + std::string(61350, '#') + "\n";
    std::ofstream(path) << full;
    outcome refused = run({"--tune=" + path, "--local=2", "--collective=allreduce", "--algorithm=linear",
                           "--bytes=4", "--iterations=2"});
    EXPECT_EQ(refused.status, 1) << refused.err;
    EXPECT_TRUE(contains(refused.err, "bytes; allowed are up to 61440")) << refused.err;
    EXPECT_EQ(file_text(path), full);
}

TEST(BenchTune, RefusesWhatItCannotDo) {
    folder here;
    const std::string path = here.path + "/other", gone = here.path + "/gone/f";
    std::ofstream(path) << "not a tuning file\n";
    const struct {
        strings arguments;
        int status;
        const char *says;
    } table[] = {
        // It is said before anything is measured, which would take minutes.
        {{"--tune=" + path, "--local=2"}, 1, "is no tuning file"},
        {{"--tune=" + gone, "--local=2"}, 1, "No such file"},
        {{"--tuning=" + path, "--local=2", "--bytes=4", "--iterations=1"}, 1, "line 1: version"},
        {{"--tune=x", "--tune-check"}, 2, "give one or the other"},
        {{"--tune=x", "--tuning=fit"}, 2, "which measures by itself"},
    };
    for (const auto &row : table) {
        outcome refused = run(row.arguments);
        EXPECT_EQ(refused.status, row.status) << refused.err;
        EXPECT_TRUE(contains(refused.err, row.says)) << refused.err;
    }
    EXPECT_EQ(file_text(path), "not a tuning file\n");
}

} // namespace
