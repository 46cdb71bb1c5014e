// tools/cli: times and sizes with their units, and rows that fill an options struct.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "tools/cli.h"

namespace {

// What was said of a time, or nothing.
std::string refused(const char *text, double unit_ns, double least, double most) {
    double value = -1;
    testing::internal::CaptureStderr();
    const bool good = cli_time("--timeout", text, unit_ns, least, most, &value);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(good, said.empty()) << text;
    EXPECT_EQ(good, value >= 0) << text << " must be written only if it is good";
    return said;
}

TEST(Cli, TimesAreReadInTheCallersUnit) {
    const struct {
        const char *text;
        double unit_ns, value;
    } rows[] = {{"3s", CLI_MS, 3000},       {"200ms", CLI_S, 0.2},    {"2m", CLI_S, 120},
                {"1h", CLI_S, 3600},        {"0.25ns", CLI_NS, 0.25}, {"0.653ns", CLI_NS, 0.653},
                {"6us", CLI_US, 6},         {"0.002ms", CLI_US, 2},   {".5s", CLI_MS, 500},
                {"1e-05ns", CLI_NS, 1e-05}, {"0s", CLI_MS, 0}};
    for (const auto &row : rows) {
        double value = -1;
        EXPECT_TRUE(cli_time("--time", row.text, row.unit_ns, 0, 1e9, &value)) << row.text;
        EXPECT_EQ(value, row.value) << row.text;
    }
}

TEST(Cli, ATimeWithoutItsUnitIsRefused) {
    for (const char *text : {"3", "0", "", "ms", "3 s", " 3s", "+3s", "-3s", "3sec", "3S", "0x3s", "infs",
                             "nan", "1e999s", "3s ", "3,5s"})
        EXPECT_EQ(refused(text, CLI_MS, 1, 86400e3),
                  std::string("test: --timeout: is '") + text +
                      "'; allowed is a time with its unit, as 500ms, 3s or 2m\n");
}

TEST(Cli, TimesHaveLimitsWhichAreIncluded) {
    EXPECT_EQ(refused("1ms", CLI_MS, 1, 86400e3), "");
    EXPECT_EQ(refused("24h", CLI_MS, 1, 86400e3), "");
    EXPECT_EQ(refused("999us", CLI_MS, 1, 86400e3),
              "test: --timeout: is '999us'; allowed is a time from 1ms to 24h\n");
    EXPECT_EQ(refused("86401s", CLI_MS, 1, 86400e3),
              "test: --timeout: is '86401s'; allowed is a time from 1ms to 24h\n");
    EXPECT_EQ(refused("3s", CLI_S, 0, 2.5), "test: --timeout: is '3s'; allowed is a time from 0s to 2.5s\n");
}

struct Options {
    double wait_ms;
    uint64_t bytes;
    cli_list sizes;
    uint32_t ranks;
    bool fast, wait_given;
};

cli_flag row(const char *name, const char *initial, cli_reader *read, size_t at, double most) {
    cli_flag made = {};
    made.name = name;
    made.value = read == cli_read_switch ? nullptr : "X";
    made.help = "of tests";
    made.initial = initial;
    made.read = read;
    made.at = at;
    made.most = most;
    made.unit_ns = CLI_MS;
    return made;
}

constexpr uint32_t kRun = 1, kStop = 2;

std::vector<cli_flag> table() {
    std::vector<cli_flag> rows = {row("--wait", "2s", cli_read_time, offsetof(Options, wait_ms), 1e6),
                                  row("--bytes", nullptr, cli_read_size, offsetof(Options, bytes), 1 << 20),
                                  row("--sizes", "1,2", cli_read_list, offsetof(Options, sizes), 100),
                                  row("--ranks", nullptr, cli_read_whole32, offsetof(Options, ranks), 8),
                                  row("--fast", nullptr, cli_read_switch, offsetof(Options, fast), 0)};
    rows[0].given = offsetof(Options, wait_given);
    rows[4].commands = kRun;
    return rows;
}

// Reads a command line; what was said is in *said.
bool parse(std::vector<std::string> texts, uint32_t command, Options *o, std::string *said) {
    std::vector<cli_flag> rows = table();
    const cli_flags flags = {rows.data(), rows.size(), command};
    std::vector<char *> argv = {const_cast<char *>("test")};
    for (std::string &text : texts)
        argv.push_back(text.data());
    testing::internal::CaptureStderr();
    const bool good = cli_parse(&flags, static_cast<int>(argv.size()), argv.data(), o);
    *said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(good, said->empty()) << *said;
    return good;
}

TEST(Cli, RowsFillTheirFields) {
    Options o = {};
    std::string said;
    ASSERT_TRUE(parse({}, kRun, &o, &said)) << said;
    EXPECT_EQ(o.wait_ms, 2000);
    EXPECT_FALSE(o.wait_given) << "an initial value is not given";
    EXPECT_EQ(o.sizes.count, 2u);
    ASSERT_TRUE(parse({"--wait=5ms", "--bytes", "64Ki", "--sizes=7", "--ranks=8", "--fast"}, kRun, &o, &said))
        << said;
    EXPECT_EQ(o.wait_ms, 5);
    EXPECT_TRUE(o.wait_given);
    EXPECT_EQ(o.bytes, 65536u);
    ASSERT_EQ(o.sizes.count, 1u);
    EXPECT_EQ(o.sizes.values[0], 7u);
    EXPECT_EQ(o.ranks, 8u);
    EXPECT_TRUE(o.fast);
    free(o.sizes.values);
}

TEST(Cli, OtherCommandLinesAreRefused) {
    const struct {
        std::vector<std::string> texts;
        uint32_t command;
        const char *says;
    } rows[] = {
        {{"--wait=5"}, kRun, "test: --wait: is '5'; allowed is a time with its unit, as 500ms, 3s or 2m\n"},
        {{"--bytes=64k"}, kRun, "test: --bytes: is '64k'; allowed is a size, as 64, 4Ki, 1Mi or 2Gi\n"},
        {{"--bytes=2Mi"}, kRun, "test: --bytes: is '2Mi'; allowed is a size from 0 to 1048576\n"},
        {{"--sizes=5,101"}, kRun, "test: --sizes: has 101; allowed is 0 to 100\n"},
        {{"--ranks=9"}, kRun, "test: --ranks: is '9'; allowed is a whole number from 0 to 8\n"},
        {{"--ranks"}, kRun, "test: --ranks: needs a value: --ranks X\n"},
        {{"--fast=1"}, kRun, "test: --fast: is '1'; the flag takes no value\n"},
        {{"--fast"},
         kStop,
         "test: unknown argument '--fast'; allowed are --wait, --bytes, --sizes, --ranks\n"},
    };
    for (const auto &row : rows) {
        Options o = {};
        std::string said;
        EXPECT_FALSE(parse(row.texts, row.command, &o, &said)) << row.says;
        EXPECT_EQ(said, row.says);
        free(o.sizes.values);
    }
}

} // namespace
