// gcoll_plan as its users run it: what it prints and draws, and what it says of bad command lines.
#include "test/tools/plan_tool_run.h"

#include <filesystem>
#include <map>
#include <set>
#include <sstream>

namespace {

using namespace program_test;

// ---- The command line
// ----------------------------------------------------------------------------------------

TEST(CommandLine, MistakesAreNamed) {
    struct row {
        strings arguments;
        const char *said;
    };
    for (const row &x : {
             row{{"frob"},
                 "unknown subcommand 'frob'; allowed are list, verify, stats, show, draw, explain, simulate"},
             row{{"stats", "--rank=1"},
                 "unknown argument '--rank'; allowed are --collective, --algorithm, --ranks"},
             row{{"stats"}, "--ranks: is missing; allowed is 1 to 1048576"},
             row{{"stats", "--ranks"}, "--ranks: needs a value: --ranks LIST"},
             row{{"stats", "--ranks=0"}, "--ranks: has 0; allowed is 1 to 1048576"},
             row{{"stats", "--ranks=5-3"}, "--ranks: is '5-3'; allowed is a size"},
             row{{"stats", "--ranks=4", "--in-place=yes"}, "--in-place: is 'yes'; the flag takes no value"},
             row{{"stats", "--ranks=4", "--collective=all"},
                 "--collective: is 'all'; allowed is one of them"},
             row{{"list", "--collective=sum"}, "collective: is 'sum'; allowed are allreduce, broadcast,"},
             row{{"stats", "--ranks=4", "--algorithm=rung"},
                 "--algorithm: algorithm 'rung' is not an algorithm of allreduce; allowed"},
             row{{"stats", "--ranks=4", "--algorithm=ring:x=1"},
                 "ring has no option 'x'; allowed are segment"},
             row{{"stats", "--ranks=4", "--algorithm=group_butterfly:r=21"},
                 "option r is '21', allowed are -1 to 20"},
             row{{"stats", "--ranks=4", "--type=float"}, "--type: type \"float\" is unknown; allowed are"},
             row{{"stats", "--ranks=4", "--format=xml"}, "--format: is 'xml'; allowed is one of table, json"},
             row{{"stats", "--ranks=4", "--root=1"}, "--root: is 1, but allreduce has no root"},
             row{{"stats", "--ranks=4", "--exchanges=2"},
                 "--exchanges: is 2, but allreduce has no number of exchanges"},
             row{{"stats", "--ranks=4", "--collective=pairwise_exchange", "--exchanges=33"},
                 "--exchanges: is '33'; allowed is a whole number from 0 to 32"},
             row{{"stats", "--ranks=4", "--collective=broadcast", "--root=4"},
                 "allowed with 4 ranks is 0 to 3"},
             row{{"stats", "--ranks=4", "--collective=alltoall", "--in-place"},
                 "--in-place: alltoall has none"},
             row{{"verify", "--algorithm=rung"},
                 "--algorithm: is 'rung', which is not an algorithm of any collective"},
             row{{"verify", "--algorithm=ring:x=1"}, "--algorithm: ring has no option 'x'"},
             row{{"verify", "--root=most"}, "--root: is 'most'; allowed is one of some, all, or a rank"},
             row{{"verify", "--ranks=2,3", "--root=2"}, "--root: is 2; allowed with 2 ranks is 0 to 1"},
             row{{"verify", "--jobs=0"}, "--jobs: is '0'; allowed is a whole number from 1 to"},
             row{{"show", "--ranks=3", "--rank=3"}, "--rank: is 3; allowed with 3 ranks is 0 to 2, all"},
             row{{"show", "--ranks=3,4"}, "show takes one number of --ranks"},
             row{{"draw", "--ranks=65"}, "--ranks: is 65; allowed for draw is 1 to 64"},
             row{{"draw", "--ranks=3,4"}, "draw takes one number of --ranks"},
             row{{"simulate", "--ranks=4", "--arrival=late"},
                 "allowed is one of none, one-late:TIME[:RANK], rand-late:TIME[:SEED], linear:TIME, "
                 "trace:FILE"},
             row{{"simulate", "--ranks=4", "--arrival=one-late:5ms:4"},
                 "has rank 4; allowed with 4 ranks is 0 to 3"},
             row{{"simulate", "--ranks=4", "--arrival=one-late:5ms:x"}, "is 'x'"},
             row{{"simulate", "--ranks=4", "--alpha=-1us"},
                 "--alpha: is '-1us'; allowed is a time with its unit, as 500ms, 3s or 2m"},
             row{{"simulate", "--ranks=4", "--alpha=6"}, "--alpha: is '6'; allowed is a time with its unit"},
             row{{"simulate", "--ranks=4", "--alpha=1e6s"},
                 "--alpha: is '1e6s'; allowed is a time from 0s to"},
             row{{"simulate", "--ranks=4", "--alpha=5us", "--overhead=6us"},
                 "--overhead: is 6; allowed is 0 to"},
             row{{"simulate", "--ranks=4", "--host-ports=1"},
                 "--host-ports: there are no hosts of several ranks"},
             row{{"simulate", "--ranks=4,5", "--timeline=/dev/null"}, "--timeline: is of one case"},
             row{{"compare", "--ranks=4", "--plot=x.pdf"},
                 "--plot: is 'x.pdf'; allowed is a file that ends in .svg"},
             row{{"compare", "--ranks=4", "--plot=x\ny.svg"}, "whose name has no control characters"},
             row{{"stats", "--ranks=4", "--algorithm=ring,circulant"},
                 "--algorithm: is 'ring,circulant'; allowed is one of them; only verify, compare "
                 "and arrival take a list"},
             row{{"stats", "--ranks=4", "--algorithm=all"}, "--algorithm: is 'all'; allowed is one of them"},
             row{{"stats", "--ranks=4", "--collective=reduce", "--inputs=3"},
                 "--inputs: is 3; allowed for reduce is 1"},
             row{{"verify", "--collective=reduce", "--inputs=3"}, "--inputs: is 3; allowed for reduce is 1"},
             row{{"verify", "--collective=broadcast", "--op=avg"}, "--op: broadcast reduces nothing"},
             row{{"verify", "--collective=allreduce", "--root=1"}, "--root: is 1, but allreduce has no root"},
             row{{"explain", "--ranks=4", "--host-beta=2ns"},
                 "--host-beta: there are no hosts of several ranks"},
             row{{"simulate", "--ranks=4", "--memory-ports=1"},
                 "--memory-ports: there are no hosts of several ranks"},
             row{{"compare", "--ranks=4", "--by=formula", "--arrival=one-late:1ms"},
                 "--arrival: found with --by formula"},
             row{{"compare", "--ranks=4", "--by=formula", "--surprise"},
                 "--surprise: found with --by formula"},
             row{{"compare", "--ranks=4", "--by=formula", "--ports=2"}, "--ports: found with --by formula"},
             row{{"compare", "--ranks=4", "--by=formula", "--overhead=2us"},
                 "--overhead: found with --by formula"},
             row{{"compare", "--ranks=4", "--by=formula", "--eager-bytes=2"},
                 "--eager-bytes: found with --by formula"},
             row{{"compare", "--ranks=4", "--by=formula", "--ranks-per-host=2", "--memory-ports=2"},
                 "--memory-ports: found with --by formula"},
             row{{"compare", "--ranks=4", "--by=formula", "--ranks-per-host=2", "--host-ports=2"},
                 "--host-ports: found with --by formula"},
             row{{"explain", "--ranks=4", "--memory-limit=2"},
                 "--memory-limit: is 2; allowed is at least an element"},
         }) {
        outcome o = plan(x.arguments);
        EXPECT_EQ(o.status, 2) << x.said;
        EXPECT_TRUE(contains(o.err, x.said)) << "found: " << o.err << "expected: " << x.said;
        EXPECT_EQ(o.out, "") << x.said;
    }
}

TEST(CommandLine, HelpIsOfTheSubcommand) {
    EXPECT_TRUE(contains(plan({"--help"}).out, "  compare    all algorithms"));
    for (const char *command :
         {"list", "verify", "stats", "show", "draw", "explain", "simulate", "compare", "arrival", "order"}) {
        outcome o = plan({command, "--help"});
        EXPECT_EQ(o.status, 0);
        EXPECT_TRUE(contains(o.out, "--load FILE.so")) << o.out;
        EXPECT_EQ(contains(o.out, "--arrival"), contains("stats show draw simulate compare arrival", command))
            << command;
    }
}

// The words of each line "  gcoll_plan ..." below "Example" in a help.
std::vector<strings> examples_of(const std::string &help) {
    std::vector<strings> found;
    std::istringstream lines(help.substr(help.find("Example")));
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string word;
        words >> word;
        if (word != "gcoll_plan" || line.compare(0, 2, "  ") != 0)
            continue;
        found.emplace_back();
        while (words >> word)
            found.back().push_back(word);
    }
    return found;
}

TEST(CommandLine, ExamplesOfTheHelpsRun) {
    const std::vector<strings> all = examples_of(plan({"--help"}).out);
    EXPECT_EQ(all.size(), 10u);
    char folder[] = "/tmp/gcoll-plan-examples-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    const std::string before = std::filesystem::current_path();
    std::filesystem::current_path(folder); // where some write pictures
    std::ofstream("lab.json") << R"({"gcoll_network": 1, "hosts": [{"name": "a", "ranks": [0, 1, 2]}],
                                     "default": {"delay_us": 1, "rate_bit_per_s": 1e9}})";
    for (const strings &example : all) {
        strings arguments = example;
        for (std::string &word : arguments)
            if (word == "1-64,100,127") // of verify, which takes a minute
                word = "1-3";
        outcome o = plan(arguments);
        const bool cannot_plot = contains(o.err, "there is no gnuplot here"); // which is optional
        EXPECT_EQ(o.status, cannot_plot ? 1 : 0) << example[0] << ": " << o.err;
        EXPECT_EQ(examples_of(plan({example[0], "--help"}).out), std::vector<strings>{example});
    }
    std::filesystem::current_path(before);
    std::filesystem::remove_all(folder);
}

TEST(CommandLine, OutputThatCannotBeWritten) {
    outcome o = plan({"list", "--output=/no/such/folder/x"});
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "--output: /no/such/folder/x: No such file")) << o.err;
    o = plan({"list", "--output=/dev/full"});
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "--output: /dev/full: No space left")) << o.err;
}

// ---- list, show, explain
// -----------------------------------------------------------------------------------------

// What is said of a codec leads here.
TEST(List, SaysWhichAlgorithmsTakeACodec) {
    const auto takes = [](const std::string &collective, const std::string &algorithm) {
        for (const json &r : records(plan({"list", "--collective=" + collective, "--format=json"})))
            if (text(r, "algorithm") == algorithm)
                return truth(r, "takes_codec");
        ADD_FAILURE() << algorithm;
        return false;
    };
    EXPECT_TRUE(takes("allreduce", "ring"));
    EXPECT_FALSE(takes("allreduce", "bcube"));
    EXPECT_FALSE(takes("reduce", "ring")) << "a reduce takes none";
    const outcome all = plan({"list", "--collective=reduce_scatter"});
    EXPECT_EQ(occurrences(all.out, "      codec    may be given\n"), 4u) << "all but spread: " << all.out;
    const outcome o = plan({"stats", "--ranks=4", "--algorithm=bcube", "--codec=bf16"});
    EXPECT_TRUE(contains(o.err, "`gcoll_plan list` has a line 'codec' for the algorithms that do")) << o.err;
}

TEST(List, ButterflysOptionsAndClaims) {
    outcome o = plan({"list", "--format=json"});
    ASSERT_EQ(o.status, 0);
    std::set<std::string> seen;
    for (const json &r : records(o)) {
        EXPECT_TRUE(seen.insert(text(r, "collective") + " " + text(r, "algorithm")).second)
            << text(r, "algorithm");
        EXPECT_NE(text(r, "source"), "");
        if (text(r, "algorithm") != "group_butterfly")
            continue;
        json_object *first = json_object_array_get_idx(field(r, "options"), 0);
        json option(json_object_get(first), json_object_put);
        EXPECT_EQ(text(option, "name"), "r");
        EXPECT_EQ(number(option, "fallback"), -1);
        EXPECT_EQ(number(option, "max"), 20);
        EXPECT_TRUE(truth(option, "by_cost"));
        EXPECT_STREQ(
            json_object_to_json_string_ext(field(r, "claims"), JSON_C_TO_STRING_PLAIN),
            "{\"7\":[\"rank-identical\",\"run-identical\"],\"8\":[\"rank-identical\",\"run-identical\"]}");
    }
    EXPECT_TRUE(seen.count("allreduce ring") && seen.count("broadcast binomial") &&
                seen.count("barrier dissemination"));
    for (const char *name : {"ring", "group_butterfly", "sorted_linear_tree"})
        EXPECT_TRUE(
            contains(plan({"list", "--collective=allreduce"}).out, std::string("\n  ") + name + "\n"));
}

TEST(Show, ARingOfThree) {
    outcome o = plan({"show", "--algorithm=ring", "--ranks=3", "--count=6", "--rank=1"});
    ASSERT_EQ(o.status, 0) << o.err;
    strings found = lines(o.out);
    ASSERT_EQ(found.size(), 10u) << o.out;
    EXPECT_EQ(found[0], "ring");
    EXPECT_TRUE(contains(found[1], "allreduce of 6 elements, rank 1 of 3: 8 steps")) << found[1];
    EXPECT_TRUE(contains(found[2], "send in0[2, 4) to rank 2")) << found[2];
    EXPECT_TRUE(contains(found[3], "receive and reduce out0[0, 2)")) << found[3];
    EXPECT_EQ(lines(plan({"show", "--algorithm=ring", "--ranks=3", "--rank=all"}).out).size(), 1u + 3 * 9);
}

TEST(Explain, TheChosenOneIsTheCheapestThatServes) {
    for (const char *bytes : {"64", "1Mi"}) {
        outcome o = plan({"explain", "--ranks=24", "--bytes", bytes, "--format=json"});
        ASSERT_EQ(o.status, 0) << o.err;
        std::vector<json> found = records(o);
        ASSERT_GE(found.size(), 3u);
        EXPECT_TRUE(truth(found[0], "chosen"));
        for (size_t i = 1; i < found.size(); i++) {
            EXPECT_FALSE(truth(found[i], "chosen"));
            bool serves = field(found[i], "reason") == nullptr;
            EXPECT_EQ(serves, field(found[i], "time_us") != nullptr);
            if (serves)
                EXPECT_GE(number(found[i], "time_us"), number(found[0], "time_us"));
        }
        outcome stats =
            plan({"stats", "--algorithm", text(found[0], "algorithm"), "--ranks=24", "--format=json"});
        EXPECT_TRUE(truth(records(stats).at(0), "rank_identical")) << text(found[0], "algorithm");
    }
}

// spread would be the cheapest here, but cost takes it only for a tree.
TEST(Explain, WhatCostDoesNotChooseIsListedAndNotChosen) {
    const std::vector<std::string> shape = {"explain", "--collective=reduce", "--ranks=3", "--bytes=64Ki"};
    outcome table = plan(shape);
    const std::vector<std::string> rows = lines(table.out);
    ASSERT_GE(rows.size(), 5u) << table.out;
    EXPECT_NE(rows[3].find("spread:owners=2   (not chosen by cost)"), std::string::npos) << table.out;
    EXPECT_NE(rows[4].find("ring   <- auto"), std::string::npos) << table.out;
    std::vector<std::string> words = shape;
    words.push_back("--format=json");
    std::vector<json> found = records(plan(words));
    ASSERT_GE(found.size(), 2u);
    EXPECT_FALSE(truth(found[0], "chosen"));
    EXPECT_TRUE(truth(found[1], "chosen"));
}

// The formula of the ring, by hand: 14 messages of an eighth of 8000 bytes, half of them reduced.
TEST(Explain, CostsOfTheRing) {
    outcome o = plan({"explain", "--ranks=8", "--bytes=8000", "--alpha=10us", "--beta=2ns", "--gamma=1ns",
                      "--format=json"});
    ASSERT_EQ(o.status, 0) << o.err;
    bool found = false;
    for (const json &r : records(o))
        if (text(r, "algorithm") == "ring") {
            found = true;
            EXPECT_NEAR(number(r, "time_us"), 14 * (10 + 2.0) + 7 * 1.0, 1e-9);
            EXPECT_EQ(number(r, "turns"), 14);
            EXPECT_EQ(number(r, "sent_bytes"), 14000);
            EXPECT_EQ(number(r, "reduced_bytes"), 7000);
        }
    EXPECT_TRUE(found);
}

// Two levels, by hand: 4 hosts of 2 ranks, 8000 bytes, 10 us and 2 ns a byte between hosts, 1 us and 0.5 ns
// within.
TEST(Explain, TwoLevels) {
    const strings levels = {"--ranks=8",   "--bytes=8000",     "--alpha=10us",      "--beta=2ns",
                            "--gamma=0ns", "--host-alpha=1us", "--host-beta=0.5ns", "--ranks-per-host=2"};
    strings command = {"explain", "--format=json"};
    command.insert(command.end(), levels.begin(), levels.end());
    outcome o = plan(command);
    ASSERT_EQ(o.status, 0) << o.err;
    // With one leader a host: the vector within a host there and back, and by the link twice (r = 2).
    EXPECT_EQ(text(records(o).at(0), "algorithm"), "hierarchical:r=2:leaders=1") << o.out;
    EXPECT_NEAR(number(records(o).at(0), "time_us"), 2 * (1 + 4) + 2 * (10 + 16), 1e-9);
    for (const json &r : records(o))
        if (text(r, "algorithm") == "ring")
            EXPECT_NEAR(number(r, "time_us"), 14 * (10 + 2), 1e-9);
    // With two, half of the vector within a host, but two messages by the link in each step, one after the
    // other. The same by formula and by simulation, which agrees where no rank waits for another.
    command = {"compare", "--by=formula", "--algorithm=hierarchical:r=2,hierarchical:r=2:leaders=2,ring",
               "--format=json"};
    command.insert(command.end(), levels.begin(), levels.end());
    o = plan(command);
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(text(records(o).at(0), "algorithm"), "hierarchical:r=2:leaders=1");
    EXPECT_NEAR(number(records(o).at(0), "time_us"), 62, 1e-9) << o.out;
    EXPECT_NEAR(number(records(o).at(1), "time_us"), 2 * (1 + 2) + 2 * 2 * (10 + 8), 1e-9) << o.out;
    EXPECT_NEAR(number(records(o).at(2), "time_us"), 168, 1e-9) << o.out;
    command = {"simulate", "--algorithm=auto", "--format=json", "--host-ports=1", "--memory-ports=2"};
    command.insert(command.end(), levels.begin(), levels.end());
    o = plan(command);
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(text(records(o).at(0), "algorithm"), "hierarchical:r=2:leaders=1");
    EXPECT_NEAR(number(records(o).at(0), "formula_us"), 62, 1e-9);
    EXPECT_NEAR(number(records(o).at(0), "time_us"), 62, 1e-9);
    command.at(1) = "--algorithm=hierarchical:r=2:leaders=2";
    const double full = number(records(plan(command)).at(0), "time_us");
    EXPECT_NEAR(full, 78, 1e-9);
    command.at(4) = "--memory-ports=1"; // both ranks of a host send at once, in two of four steps
    EXPECT_NEAR(number(records(plan(command)).at(0), "time_us"), full + 2 * (1 + 2), 1e-9);
}

// auto takes what builds the tree, and a name that does not is refused.
TEST(PlanTool, OrderAsksForATree) {
    outcome o = plan({"explain", "--ranks=5", "--order=left", "--bytes=64Ki"});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_TRUE(contains(o.out, "asked for: left")) << o.out;
    EXPECT_TRUE(contains(o.out, "ring: does not reduce one after the other, from the left")) << o.out;
    o = plan({"stats", "--algorithm=ring", "--ranks=5", "--order=pairs"});
    EXPECT_NE(o.status, 0);
    EXPECT_TRUE(contains(o.err, "--order: ring does not build that tree for 5 ranks; allowed is any"))
        << o.err;
    o = plan({"show", "--algorithm=linear", "--ranks=4", "--order=pairs"});
    EXPECT_TRUE(contains(o.err, "linear does not build that tree for 4 ranks; allowed are any, left"))
        << o.err;
    o = plan(
        {"verify", "--collective=allreduce", "--algorithm=group_butterfly", "--ranks=6", "--order=pairs"});
    EXPECT_EQ(o.status, 2);
    EXPECT_TRUE(contains(o.err, "--order: group_butterfly does not build that tree for 6 ranks")) << o.err;
    o = plan({"verify", "--collective=allreduce", "--algorithm=spread", "--ranks=1-6", "--inputs=3",
              "--order=pairs"});
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    o = plan({"stats", "--ranks=5", "--order=right"});
    EXPECT_NE(o.status, 0);
    EXPECT_TRUE(contains(o.err, "any, pairs, left")) << o.err;
}

// What --same, --order and --codec ask for is an error of an algorithm that was named, and leaves out one of
// all.
TEST(PlanTool, AllLeavesOutWhatLacksTheBits) {
    struct row {
        const char *flag, *out, *in, *said;
    };
    for (const row &x : {row{"--order=pairs", "ring", "recursive_doubling", "--order: ring does not"},
                         row{"--same=runs", "ring_full", "ring", "--same: sums of ring_full by 4 ranks"},
                         row{"--codec=bf16", "bcube", "ring", "--codec: is bf16, but bcube does not"}})
        for (const char *command : {"compare", "arrival"}) {
            outcome o = plan({command, "--ranks=4", "--bytes=1Ki", x.flag});
            EXPECT_EQ(o.status, 0) << command << x.flag << o.err;
            EXPECT_EQ(o.err, "") << command << x.flag;
            EXPECT_TRUE(contains(o.out, std::string("-  ") + x.out + ": does not apply\n")) << o.out;
            EXPECT_FALSE(contains(o.out, std::string("  ") + x.in + ": does not apply")) << o.out;
            o = plan({command, "--ranks=4", "--bytes=1Ki", x.flag, std::string("--algorithm=") + x.out});
            EXPECT_NE(o.status, 0) << command << x.flag;
            EXPECT_TRUE(contains(o.err, x.said)) << o.err;
        }
}

TEST(PlanTool, ACodecThatTheCollectiveDoesNotTake) {
    for (const char *collective : {"reduce", "barrier"})
        for (const char *command : {"explain", "verify", "compare", "arrival", "stats"}) {
            const outcome o =
                plan({command, "--ranks=5", std::string("--collective=") + collective, "--codec=bf16"});
            EXPECT_NE(o.status, 0) << command << o.out;
            EXPECT_TRUE(contains(o.err, std::string("--codec: is bf16 for ") + collective +
                                            "; allowed are allreduce, reduce_scatter, allgather"))
                << command << o.err;
        }
}

// auto keeps the bits as the library does by default; what is named does as it can.
TEST(Explain, SameSaysWhatAutoMayTake) {
    const auto chosen = [](const char *same) {
        strings command = {"explain", "--ranks=5", "--bytes=64", "--format=json"};
        if (same)
            command.push_back(std::string("--same=") + same);
        return text(records(plan(command)).at(0), "algorithm");
    };
    EXPECT_EQ(chosen(nullptr), "recursive_doubling");
    EXPECT_EQ(chosen("ranks"), chosen(nullptr));
    EXPECT_EQ(chosen("runs"), chosen(nullptr));
    EXPECT_EQ(chosen("nowhere"), "group_butterfly:r=3");
    EXPECT_EQ(plan({"stats", "--algorithm=ring_full", "--ranks=5"}).status, 0);
    outcome o = plan({"stats", "--algorithm=ring_full", "--ranks=5", "--same=ranks"});
    EXPECT_NE(o.status, 0);
    EXPECT_TRUE(contains(o.err, "--same: sums of ring_full by 5 ranks may differ")) << o.err;
    o = plan({"explain", "--ranks=5", "--same=always"});
    EXPECT_EQ(o.status, 2);
    EXPECT_TRUE(contains(o.err, "ranks, runs, nowhere")) << o.err;
}

TEST(Explain, MemoryLimitRulesOut) {
    outcome o = plan({"explain", "--ranks=8", "--bytes=1Mi", "--memory-limit=4Ki", "--format=json"});
    ASSERT_EQ(o.status, 0) << o.err;
    for (const json &r : records(o))
        if (field(r, "reason") == nullptr)
            EXPECT_LE(number(r, "scratch_bytes"), 4096) << text(r, "algorithm");
    EXPECT_TRUE(contains(o.out, "needs more scratch than the memory limit"));
}

// ---- simulate, compare
// --------------------------------------------------------------------------------------------

TEST(Simulate, TheRingTakesWhatItsFormulaSays) {
    outcome o = plan({"simulate", "--algorithm=ring", "--ranks=4", "--bytes=4000", "--alpha=10us",
                      "--beta=1ns", "--gamma=0.5ns", "--format=json"});
    ASSERT_EQ(o.status, 0) << o.err;
    json r = records(o).at(0);
    const double time_us = 6 * (10 + 1) + 3 * 0.5;
    EXPECT_NEAR(number(r, "time_us"), time_us, 1e-6);
    EXPECT_NEAR(number(r, "formula_us"), time_us, 1e-6);
    EXPECT_NEAR(number(r, "mean_elapsed_us"), time_us, 1e-6);
    json_object *finish = field(r, "finish_us");
    ASSERT_EQ(json_object_array_length(finish), 4u);
    for (size_t i = 0; i < 4; i++)
        EXPECT_NEAR(json_object_get_double(json_object_array_get_idx(finish, i)), time_us, 1e-6);
}

TEST(Simulate, ALateRankIsWaitedFor) {
    outcome o = plan({"simulate", "--collective=barrier", "--algorithm=dissemination", "--ranks=4",
                      "--alpha=10us", "--arrival=one-late:1ms", "--format=json"});
    ASSERT_EQ(o.status, 0) << o.err;
    json r = records(o).at(0);
    EXPECT_NEAR(number(r, "time_us"), 1020, 1e-6) << "two rounds after the late one";
    double sum = 0;
    for (size_t i = 0; i < 4; i++)
        sum += json_object_get_double(json_object_array_get_idx(field(r, "finish_us"), i));
    EXPECT_NEAR(number(r, "mean_elapsed_us"), (sum - 1000) / 4, 1e-6);
    strings random = {"simulate", "--ranks=9", "--algorithm=ring", "--format=json", "--arrival"};
    strings same = random, other = random;
    random.push_back("rand-late:5ms:7");
    same.push_back("rand-late:5ms:7");
    other.push_back("rand-late:5ms:8");
    EXPECT_EQ(plan(random).out, plan(same).out);
    EXPECT_NE(plan(random).out, plan(other).out);
}

TEST(Simulate, TheTimelineHasEachMessageOnceAtBothEnds) {
    folder f;
    std::string path = f.path + "/trace.json";
    outcome o = plan({"simulate", "--algorithm=ring", "--ranks=5", "--bytes=1Ki", "--timeline", path});
    ASSERT_EQ(o.status, 0) << o.err;
    json trace = parse(file_text(path));
    json_object *events = field(trace, "traceEvents");
    std::map<std::string, int> begun, ended;
    int sends = 0;
    for (size_t i = 0; i < json_object_array_length(events); i++) {
        json e(json_object_get(json_object_array_get_idx(events, i)), json_object_put);
        std::string kind = text(e, "ph");
        sends += kind == "X" && contains(text(e, "name"), "send to");
        if (kind == "s")
            begun[text(e, "id")]++;
        if (kind == "f")
            ended[text(e, "id")]++;
    }
    EXPECT_EQ(sends, 5 * 8);
    EXPECT_EQ(begun.size(), 40u);
    EXPECT_EQ(begun, ended);
}

TEST(Compare, HasAllAlgorithmsTheFastestFirst) {
    outcome o = plan({"compare", "--ranks=4,6", "--bytes=64,1Ki", "--format=json"});
    ASSERT_EQ(o.status, 0) << o.err;
    const size_t algorithms = lines(plan({"list", "--collective=allreduce", "--format=json"}).out).size();
    std::vector<json> found = records(o);
    ASSERT_EQ(found.size(), 4 * algorithms);
    for (size_t i = 0; i < found.size(); i++)
        if (i % algorithms > 0 && field(found[i], "time_us") != nullptr)
            EXPECT_GE(number(found[i], "time_us"), number(found[i - 1], "time_us"));
    o = plan({"compare", "--algorithm=ring", "--ranks=8", "--bytes=8000", "--by=formula", "--alpha=10us",
              "--beta=2ns", "--gamma=1ns", "--format=json"});
    EXPECT_NEAR(number(records(o).at(0), "time_us"), 14 * 12 + 7, 1e-9);
}

TEST(Compare, ALateRankAddsTheMeanOfTheirOwnTimes) {
    const strings common = {"--algorithm=ring", "--ranks=4", "--bytes=4000", "--arrival=one-late:1ms"};
    strings compare = {"compare"}, simulate = {"simulate", "--format=json"};
    compare.insert(compare.end(), common.begin(), common.end());
    simulate.insert(simulate.end(), common.begin(), common.end());
    EXPECT_TRUE(contains(plan(compare).out, "mean own us"));
    compare.push_back("--format=json");
    json mine = records(plan(compare)).at(0), other = records(plan(simulate)).at(0);
    EXPECT_NEAR(number(mine, "time_us") - number(mine, "mean_elapsed_us"), 250, 1e-6)
        << "1 ms of one in four";
    EXPECT_EQ(number(mine, "mean_elapsed_us"), number(other, "mean_elapsed_us"));
    outcome o = plan({"compare", "--algorithm=ring", "--ranks=4"});
    EXPECT_FALSE(contains(o.out, "mean own us")) << o.out;
}

TEST(Bytes, AreThoseOfWholeElements) {
    for (const char *command : {"simulate", "compare", "explain"}) {
        outcome o = plan({command, "--ranks=4", "--bytes=3,8,9", "--format=json"});
        EXPECT_EQ(o.status, 0);
        EXPECT_TRUE(contains(o.err, "--bytes: has 3, and an element of float32 has 4: rounded down to 0, "
                                    "and 1 more of them"))
            << o.err;
        std::set<double> seen;
        for (const json &r : records(o))
            seen.insert(static_cast<double>(number(r, "bytes")));
        EXPECT_EQ(seen, std::set<double>({0, 8}));
    }
    EXPECT_EQ(plan({"simulate", "--ranks=4", "--bytes=3", "--type=int8"}).err, "");
}

// With 0 exchanges there are as many as reach all ranks.
TEST(Stats, PairwiseExchangesAreAsManyAsIsAsked) {
    for (int exchanges = 0; exchanges <= 3; exchanges++) {
        const outcome o = plan({"stats", "--collective=pairwise_exchange", "--ranks=8", "--count=12",
                                "--exchanges=" + std::to_string(exchanges), "--format=json"});
        ASSERT_EQ(o.status, 0) << o.err;
        EXPECT_EQ(number(records(o).at(0), "messages_max"), exchanges ? exchanges : 3) << exchanges;
        EXPECT_EQ(text(records(o).at(0), "sent_max"), "12") << exchanges;
    }
}

TEST(Stats, HostsAndLateRanksAreToldToPlanners) {
    const strings hosts = {"stats", "--algorithm=hierarchical", "--ranks=8", "--format=json"};
    strings paired = hosts;
    paired.push_back("--ranks-per-host=4");
    EXPECT_NE(number(records(plan(hosts)).at(0), "steps"), number(records(plan(paired)).at(0), "steps"));
    const strings show = {"show", "--algorithm=pre_reduced_ring", "--ranks=4", "--rank=all"};
    strings late = show;
    late.push_back("--arrival=one-late:50ms:2");
    EXPECT_NE(plan(show).out, plan(late).out);
    EXPECT_EQ(plan(late).status, 0);
}

TEST(Words, OneIsNotSeveralAndABarrierHasNoBytes) {
    EXPECT_TRUE(contains(plan({"show", "--collective=barrier", "--ranks=2"}).out,
                         "\nbarrier, rank 0 of 2: 2 steps in 1 round, scratch 0 elements,"));
    EXPECT_TRUE(contains(plan({"show", "--collective=broadcast", "--ranks=1", "--count=1"}).out,
                         "\nbroadcast of 1 element, rank 0 of 1: 1 step in 1 round,"));
    EXPECT_TRUE(contains(plan({"verify", "--collective=allreduce", "--algorithm=ring", "--ranks=2"}).out,
                         "1 algorithm, "));
    EXPECT_TRUE(contains(plan({"explain", "--collective=barrier", "--ranks=5"}).out, "# barrier: 5 ranks;"));
    EXPECT_TRUE(contains(plan({"simulate", "--collective=barrier", "--ranks=5"}).out, "# barrier: alpha"));
    EXPECT_TRUE(
        contains(plan({"compare", "--collective=barrier", "--ranks=1"}).out, "# barrier, 1 rank, by simul"));
    EXPECT_TRUE(contains(plan({"explain", "--collective=broadcast", "--ranks=5", "--bytes=8"}).out,
                         "2 elements of float32, root 0;"));
}

// A context that chooses does not know its hosts.
TEST(Simulate, AutoIsWhatAContextTakes) {
    for (const char *ranks : {"--ranks=12", "--ranks=24", "--ranks=48"}) {
        const strings common = {ranks, "--bytes=64Ki", "--format=json"};
        strings explain = {"explain"}, simulate = {"simulate", "--ranks-per-host=6"};
        explain.insert(explain.end(), common.begin(), common.end());
        simulate.insert(simulate.end(), common.begin(), common.end());
        EXPECT_EQ(text(records(plan(simulate)).at(0), "algorithm"),
                  text(records(plan(explain)).at(0), "algorithm"))
            << ranks;
    }
}

TEST(Compare, PlotsNeedGnuplot) {
    folder f;
    outcome o = plan({"compare", "--algorithm=ring", "--ranks=4", "--bytes=4,8", "--plot", f.path + "/x.svg"},
                     {"PATH=/no/such/folder"});
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "--plot: there is no gnuplot here")) << o.err;
    if (std::system("gnuplot --version >/dev/null 2>&1") != 0)
        return;
    std::string path = f.path + "/it's.svg";
    o = plan({"compare", "--algorithm=ring,linear", "--ranks=4", "--bytes=4:1Ki:x4", "--plot", path});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_TRUE(contains(file_text(path), "linear"));
    // A name that gnuplot would run: it is a file here.
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(f.path);
    o = plan({"compare", "--algorithm=ring", "--ranks=4", "--bytes=4,8", "--plot", "|touch ran #.svg"});
    std::filesystem::current_path(before);
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_NE(access((f.path + "/ran").c_str(), F_OK), 0);
    EXPECT_EQ(access((f.path + "/|touch ran #.svg").c_str(), F_OK), 0);
}

TEST(Compare, NothingToPlotIsAFailure) {
    folder f;
    std::string path = f.path + "/x.svg";
    outcome o = plan(
        {"compare", "--algorithm=group_butterfly:group=xor", "--ranks=3", "--bytes=4,8", "--plot", path});
    EXPECT_EQ(o.status, 1);
    EXPECT_NE(access(path.c_str(), F_OK), 0) << "nothing is left behind";
    EXPECT_TRUE(contains(o.err, "--plot: there is nothing to draw")) << o.err;
}

TEST(Compare, APlotThatCannotBeWrittenIsSaidBeforeTheWork) {
    outcome o = plan({"compare", "--ranks=4", "--bytes=4,8", "--plot=/no/such/folder/x.svg"});
    EXPECT_EQ(o.status, 1);
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(o.err, "gcoll_plan: --plot: /no/such/folder/x.svg: No such file or directory\n");
}

// ---- draw
// -----------------------------------------------------------------------------------------------------

// "" if every element is closed in its turn and texts hold no bare < or &.
std::string flaw(const std::string &svg) {
    strings open;
    for (size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
        size_t end = svg.find('>', at);
        if (end == std::string::npos)
            return "not closed: " + svg.substr(at, 40);
        std::string tag = svg.substr(at + 1, end - at - 1);
        if (tag.find('<') != std::string::npos || std::count(tag.begin(), tag.end(), '"') % 2)
            return "bad tag: " + tag;
        std::string name = tag.substr(tag[0] == '/', tag.find_first_of(" /", 1) - (tag[0] == '/'));
        if (tag[0] == '/') {
            if (open.empty() || open.back() != name)
                return "closes what is not open: " + tag;
            open.pop_back();
        } else if (tag[0] != '?' && tag.back() != '/') {
            open.push_back(name);
        }
    }
    return open.empty() ? "" : "not closed: " + open.back();
}

// docs/gcoll_plan.md shows what the commands below its pictures draw, and nothing else lies beside them.
TEST(Draw, MakesThePicturesOfItsPage) {
    const std::string page = file_text(SOURCE "/docs/gcoll_plan.md"), pictures = SOURCE "/docs/gcoll_plan";
    folder f;
    std::set<std::string> made, there;
    for (const std::string &line : lines(page)) {
        std::istringstream words(line);
        strings arguments;
        for (std::string word; words >> word;)
            arguments.push_back(word);
        if (line.rfind("    gcoll_plan draw ", 0) != 0 || arguments.size() < 3 ||
            arguments[arguments.size() - 2] != "--output")
            continue;
        const std::string name = arguments.back();
        arguments.erase(arguments.begin());
        arguments.back() = f.path + "/" + name;
        const outcome o = plan(arguments);
        EXPECT_EQ(o.status, 0) << line << ": " << o.err;
        EXPECT_TRUE(file_text(arguments.back()) == file_text(pictures + "/" + name))
            << name << " is not what is drawn now: scripts/reproduce draw";
        EXPECT_TRUE(contains(page, "](gcoll_plan/" + name + ")")) << name << " is not shown";
        made.insert(name);
    }
    for (const auto &entry : std::filesystem::directory_iterator(pictures))
        there.insert(entry.path().filename());
    EXPECT_EQ(made, there);
    EXPECT_GE(made.size(), 5u);
}

TEST(Draw, AnArrowAMessageAndADotAReduction) {
    const size_t legend_arrows = 3, legend_dots = 1;
    for (size_t ranks : {2, 5, 16}) {
        outcome o = plan({"draw", "--algorithm=ring", "--ranks", std::to_string(ranks)});
        ASSERT_EQ(o.status, 0) << o.err;
        EXPECT_EQ(flaw(o.out), "");
        EXPECT_EQ(occurrences(o.out, "<polygon"), 2 * ranks * (ranks - 1) + legend_arrows);
        EXPECT_EQ(occurrences(o.out, "<circle"), ranks * (ranks - 1) + legend_dots);
        EXPECT_EQ(occurrences(o.out, ">rank "), ranks);
        EXPECT_EQ(o.out, plan({"draw", "--algorithm=ring", "--ranks", std::to_string(ranks)}).out);
    }
    outcome o = plan({"draw", "--collective=barrier", "--algorithm=dissemination", "--ranks=6"});
    EXPECT_EQ(flaw(o.out), "") << o.out;
    EXPECT_EQ(occurrences(o.out, "<polygon"), 6 * 3 + legend_arrows);
    o = plan({"draw", "--algorithm=ring", "--ranks=1"});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(flaw(o.out), "");
}

TEST(Draw, WhoIsLateIsSaidAndMarked) {
    const strings common = {"draw", "--algorithm=ring", "--ranks=4"};
    auto with = [&](const strings &more) {
        strings all = common;
        all.insert(all.end(), more.begin(), more.end());
        outcome o = plan(all);
        EXPECT_EQ(o.status, 0) << o.err;
        EXPECT_EQ(flaw(o.out), "");
        return o.out;
    };
    const std::string mark = "stroke=\"#8040a0\"";
    EXPECT_EQ(occurrences(with({}), mark), 0u);
    std::string one = with({"--arrival=one-late:4ms:1"});
    EXPECT_TRUE(contains(one, "rank 1 late by 4 ms")) << one;
    EXPECT_EQ(occurrences(one, mark), 1u + 1) << "the rank's and the legend's";
    EXPECT_TRUE(contains(one, ">arrives<"));
    std::string random = with({"--arrival=rand-late:4ms", "--surprise"});
    EXPECT_TRUE(contains(random, "arriving at random within 4 ms, which planners are not told"));
    EXPECT_EQ(occurrences(random, mark), 4u + 1);
}

double width_of(const std::string &svg) {
    return std::stod(svg.substr(svg.find("width=\"") + 7));
}

// To scale, the short messages among these would want some 6000 pixels.
TEST(Draw, APictureFitsAPage) {
    const double page = 1400;
    const std::string told = "time is not to scale";
    for (const strings &shape : {strings{"--algorithm=group_butterfly:r=0", "--ranks=5", "--count=5"},
                                 strings{"--algorithm=group_butterfly:r=0", "--ranks=7", "--count=7"},
                                 strings{"--algorithm=ring_chunked", "--ranks=16", "--count=1000"}}) {
        strings all = {"draw"};
        all.insert(all.end(), shape.begin(), shape.end());
        outcome o = plan(all);
        ASSERT_EQ(o.status, 0) << o.err;
        EXPECT_EQ(flaw(o.out), "");
        EXPECT_LE(width_of(o.out), page) << shape[0];
        EXPECT_EQ(occurrences(o.out, told), 1u) << shape[0];
    }
    outcome o = plan({"draw", "--algorithm=ring", "--ranks=5", "--count=5"});
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_LE(width_of(o.out), page);
    EXPECT_EQ(occurrences(o.out, told), 0u) << "its steps are alike, and fit";
}

// Letters of a sans-serif font of 16 pixels are 8 wide on average, and seldom more than 9.
TEST(Draw, TitlesFitThePicture) {
    outcome o =
        plan({"draw", "--collective=broadcast", "--algorithm=binomial", "--ranks=16", "--root=3",
              "--in-place", "--inputs=2", "--ranks-per-host=4", "--arrival=one-late:4ms", "--count=1000"});
    ASSERT_EQ(o.status, 0) << o.err;
    const double width = width_of(o.out);
    const std::string size = "font-size=\"16\"";
    std::string title;
    for (size_t at = o.out.find(size); at != std::string::npos; at = o.out.find(size, at + 1)) {
        size_t begin = o.out.find('>', at) + 1, length = o.out.find('<', begin) - begin;
        EXPECT_LE(70 + 9.0 * static_cast<double>(length), width) << o.out.substr(begin, length);
        title += (title.empty() ? "" : " ") + o.out.substr(begin, length);
    }
    EXPECT_EQ(title,
              "broadcast by binomial: 16 ranks, 1000 elements, root 3, in place, 2 inputs, rank 8 late by "
              "4 ms, on hosts 0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3");
}

} // namespace
