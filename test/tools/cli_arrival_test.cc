// tools/cli_arrival: texts and traces that are read or refused, and the delays that they stand for.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <unistd.h>

#include "tools/cli_arrival.h"

extern "C" const char cli_program[] = "test";

namespace {

// One that is freed, and what was said of it.
class Arrival {
  public:
    explicit Arrival(const std::string &text) {
        testing::internal::CaptureStderr();
        good = cli_arrival_parse("--arrival", text.c_str(), &it);
        said = testing::internal::GetCapturedStderr();
    }
    ~Arrival() { cli_arrival_free(&it); }
    Arrival(const Arrival &) = delete;
    double ms(uint32_t size, uint32_t rank, uint64_t operation = 0) const {
        return cli_arrival_ms(&it, size, rank, operation);
    }
    std::string fits(uint32_t size) const {
        testing::internal::CaptureStderr();
        const bool does = cli_arrival_fits("--arrival", &it, size);
        const std::string text = testing::internal::GetCapturedStderr();
        EXPECT_EQ(does, text.empty()) << text;
        return text;
    }

    cli_arrival it = {};
    bool good;
    std::string said;
};

class File {
  public:
    explicit File(const std::string &text) {
        const int fd = mkstemp(path_.data());
        EXPECT_GE(fd, 0);
        close(fd);
        std::ofstream(path_, std::ios::binary) << text;
    }
    ~File() { unlink(path_.c_str()); }
    File(const File &) = delete;
    std::string arrival() const { return "trace:" + path_; }

  private:
    std::string path_ = testing::TempDir() + "gcoll-trace-XXXXXX";
};

TEST(Arrival, TextsStandForDelays) {
    EXPECT_EQ(Arrival("none").ms(4, 3), 0);
    const Arrival one("one-late:2.5ms");
    EXPECT_EQ(one.ms(5, 2), 2.5);
    EXPECT_EQ(one.ms(5, 1) + one.ms(5, 3), 0);
    EXPECT_EQ(one.ms(1, 0), 2.5);
    const Arrival named("one-late:4ms:0");
    EXPECT_EQ(named.ms(5, 0), 4);
    EXPECT_EQ(named.ms(5, 2), 0);
    const Arrival linear("linear:6ms");
    for (uint32_t r = 0; r < 4; r++)
        EXPECT_EQ(linear.ms(4, r), 2 * r);
    EXPECT_EQ(linear.ms(1, 0), 0);
}

// The first outputs of splitmix64 from seed 1 are 910a2dec89025cc1 and beeb8da1658eec67 (hexadecimal).
TEST(Arrival, RandomOnesAreSplitmixAndGoOnFromOperationToOperation) {
    const Arrival random("rand-late:1000ms"), same("rand-late:1000ms:1"), other("rand-late:1000ms:2");
    EXPECT_DOUBLE_EQ(random.ms(3, 0), 1000 * (double(0x910a2dec89025cc1) / 18446744073709551616.0));
    EXPECT_DOUBLE_EQ(random.ms(3, 1), 1000 * (double(0xbeeb8da1658eec67) / 18446744073709551616.0));
    EXPECT_EQ(random.ms(2, 1, 3), same.ms(4, 3, 1)); // both the eighth
    EXPECT_NE(random.ms(3, 0), other.ms(3, 0));
    double sum = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        const double ms = random.ms(4, i % 4, i / 4);
        ASSERT_TRUE(ms >= 0 && ms < 1000);
        sum += ms;
    }
    EXPECT_NEAR(sum / 4000, 500, 15); // three sigma of the mean of so many
}

TEST(Arrival, TracesAreReadLineByLineAndBeginAgain) {
    const File file("# of three ranks\n\n0 1.5\t3 # early, later, last\r\n  4 0 1e1");
    const Arrival trace(file.arrival());
    ASSERT_TRUE(trace.good) << trace.said;
    ASSERT_EQ(trace.it.trace_lines, 2u);
    EXPECT_EQ(trace.fits(3), "");
    const double expected[2][3] = {{0, 1.5, 3}, {4, 0, 10}};
    for (uint64_t i = 0; i < 5; i++)
        for (uint32_t r = 0; r < 3; r++)
            EXPECT_EQ(trace.ms(3, r, i), expected[i % 2][r]);
    EXPECT_NE(trace.fits(4).find("has a trace of 3 ranks; allowed with 4 ranks are 4 numbers"),
              std::string::npos);
}

TEST(Arrival, TheMostThatAnybodyIsLate) {
    const File file("0 1.5 3\n4 7 7\n0 0 0\n");
    const std::pair<std::string, std::pair<double, uint32_t>> rows[] = {
        {"none", {0, 0}},       {"one-late:5ms", {5, 1}},    {"one-late:4ms:2", {4, 2}},
        {"linear:6ms", {6, 2}}, {"rand-late:9ms:7", {9, 0}}, {file.arrival(), {7, 1}}};
    for (const auto &[text, most] : rows) {
        const Arrival a(text);
        uint32_t rank = 9;
        EXPECT_EQ(cli_arrival_most_ms(&a.it, 3, &rank), most.first) << text;
        EXPECT_EQ(rank, most.second) << text;
    }
}

TEST(Arrival, LateRanksMustExist) {
    EXPECT_EQ(Arrival("one-late:1ms:3").fits(4), "");
    EXPECT_EQ(Arrival("one-late:1ms").fits(1), "");
    EXPECT_NE(Arrival("one-late:1ms:4").fits(4).find("has rank 4; allowed with 4 ranks is 0 to 3"),
              std::string::npos);
}

TEST(Arrival, OtherTextsAreRefused) {
    for (const char *text : {"", "late", "none:", "one-late", "one-late:", "rand-late::1", "linear:1ms:2",
                             "trace:", "one-late:00000000000000000000000000000000001ms"}) {
        const Arrival a(text);
        EXPECT_FALSE(a.good) << text;
        EXPECT_NE(a.said.find("allowed is one of " CLI_ARRIVAL_ALLOWED), std::string::npos) << a.said;
    }
    for (const char *text :
         {"one-late:-1", "one-late:1ms:x", "one-late:1ms:-2", "rand-late:1ms:", "linear:nan",
          "rand-late:1ms:99999999999999999999", "one-late:1ms:1048576", "linear:2e9ms", "linear:5",
          "one-late: 5ms", "one-late:5ms ", "rand-late:1ms: 2"}) {
        const Arrival a(text);
        EXPECT_FALSE(a.good) << text;
        EXPECT_NE(a.said.find("--arrival: is "), std::string::npos) << a.said;
    }
}

TEST(Arrival, OtherTracesAreRefusedWithTheirLine) {
    const Arrival missing("trace:/nonexistent/trace");
    EXPECT_FALSE(missing.good);
    EXPECT_NE(missing.said.find("cannot open /nonexistent/trace: No such file"), std::string::npos);
    const Arrival directory("trace:/tmp");
    EXPECT_FALSE(directory.good);
    EXPECT_NE(directory.said.find("/tmp: "), std::string::npos) << directory.said;
    struct {
        std::string text, said;
    } const rows[] = {{"", "has no numbers"},
                      {"# 1 2\n\n", "has no numbers"},
                      {"1 2\n# x\n1\n", ":3: has 1 numbers; allowed are 2"},
                      {"1 2\n1 2 3\n", ":2: has 3 numbers; allowed are 2"},
                      {"1 -2\n", ":1: has '-2'; allowed are numbers from 0"},
                      {"1 inf\n", ":1: has 'inf'"},
                      {"1,2\n", ":1: has '1,2'"},
                      {std::string("1\0 2\n", 5), ":1: is no text"}};
    for (const auto &row : rows) {
        const File file(row.text);
        const Arrival a(file.arrival());
        EXPECT_FALSE(a.good) << row.said;
        EXPECT_NE(a.said.find(row.said), std::string::npos) << a.said;
    }
}

} // namespace
