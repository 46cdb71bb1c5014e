// test/tools/trace_tool_test.cc - gcoll_trace on dumps that are written here, so that what is in them is
// known.
#include <json-c/json.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include <gtest/gtest.h>

#include "gcoll/version.h"
#include "test/kit/program.h"

namespace {

using namespace program_test;

constexpr int64_t kUnix = INT64_C(1800000000000000000), kUs = 1000;

// A dump, as a rank would write it.
struct Dump {
    uint32_t rank = 0, size = 4;
    std::string group = "00112233445566778899aabbccddeeff", host = "one", job = "made", broken, waiting;
    int64_t began_unix = kUnix;
    std::vector<std::string> operations, steps; // no steps: they were not recorded

    std::string text() const {
        std::ostringstream out;
        out << R"({"gcoll_dump": 1, "version": "0", "job": ")" << job << R"(", "group": ")" << group
            << R"(", "rank": )" << rank << R"(, "size": )" << size << R"(, "process": 1, "host": ")" << host
            << R"(", "transport": "tcp", "clock": {"began_unix_ns": )" << began_unix
            << R"(, "dumped_unix_ns": )" << began_unix + 9000000 << R"(, "dumped_ns": 9000000}, )" << broken
            << waiting;
        if (!steps.empty())
            out << R"("model": {"alpha_ps": 5000000, "beta_fs": 1000000, "host_alpha_ps": 0, "host_beta_fs": 0}, "steps": [)";
        for (size_t i = 0; i < steps.size(); i++)
            out << (i > 0 ? ", " : "") << steps[i] << (i + 1 == steps.size() ? "], " : "");
        out << R"("begun": )" << operations.size() << R"(, "operations": [)";
        for (size_t i = 0; i < operations.size(); i++)
            out << (i > 0 ? ", " : "") << operations[i];
        out << "]}";
        return out.str();
    }
};

std::string operation(uint64_t number, int64_t entered, int64_t done, uint64_t count = 100,
                      const std::string &collective = "allreduce") {
    std::ostringstream out;
    out << R"({"number": )" << number << R"(, "collective": ")" << collective << R"(", "count": )" << count
        << R"(, "type": "float32", "op": "sum", "element_bytes": 4, "algorithm": "ring", "rounds": 6, "sent_bytes": 600, )"
        << R"("predicted_ns": 20000, "entered_ns": )" << entered << R"(, "begun_ns": )" << entered;
    if (done >= 0)
        out << R"(, "done_ns": )" << done;
    out << "}";
    return out.str();
}

std::string step(uint64_t operation, const std::string &kind, uint32_t round, int64_t peer, uint64_t bytes,
                 int64_t begun, int64_t done) {
    std::ostringstream out;
    out << '[' << operation << ", \"" << kind << "\", " << round << ", " << peer << ", " << round - 1 << ", "
        << bytes << ", " << begun << ", " << done << ']';
    return out.str();
}

class TraceTool : public testing::Test {
  protected:
    void write(const std::string &name, const std::string &text) const {
        std::ofstream(folder_ + "/" + name) << text;
    }
    void write(const Dump &dump) const { write("rank" + std::to_string(dump.rank) + ".json", dump.text()); }

    // A job of 4 ranks, 20 operations 100 us apart.
    std::vector<Dump> job(const std::function<void(Dump *, uint64_t number, int64_t *entered, int64_t *done)>
                              &change = nullptr) const {
        std::vector<Dump> all(4);
        for (uint32_t rank = 0; rank < 4; rank++) {
            all[rank].rank = rank;
            for (uint64_t number = 1; number <= 20; number++) {
                int64_t entered = static_cast<int64_t>(number) * 100 * kUs + rank, done = entered + 30 * kUs;
                if (change)
                    change(&all[rank], number, &entered, &done);
                all[rank].operations.push_back(operation(number, entered, done));
            }
        }
        return all;
    }
    void write(const std::vector<Dump> &all) const {
        for (const Dump &dump : all)
            write(dump);
    }
    outcome trace(strings arguments = {}) const {
        arguments.insert(arguments.begin(), folder_);
        return run(GCOLL_TRACE, arguments, {});
    }

    folder here_;
    const std::string &folder_ = here_.path;
};

void expect_said(const outcome &o, const std::string &part) {
    EXPECT_NE(o.out.find(part), std::string::npos) << o.out << "\nlacks: " << part;
}
void expect_not_said(const outcome &o, const std::string &part) {
    EXPECT_EQ(o.out.find(part), std::string::npos) << o.out << "\nhas: " << part;
}

TEST_F(TraceTool, AHealthyJob) {
    write(job());
    const outcome o = trace();
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.err, "");
    expect_said(o, "Job made, group 00112233: 4 of 4 ranks");
    expect_said(o, "     3           20  done       allreduce of 100 float32, sum by ring");
    expect_said(o, "      20      30.0 us      30.0 us      20.0 us  allreduce of 100 float32, sum by ring");
    expect_not_said(o, "No dump");
    expect_not_said(o, "differs");
    expect_not_said(o, "Who keeps");
    expect_not_said(o, "Why it broke");
}

TEST_F(TraceTool, ALateRankIsNamedFirst) {
    write(job([](Dump *dump, uint64_t number, int64_t *entered, int64_t *done) {
        *entered += dump->rank == 2 && number % 5 != 0 ? 7 * kUs : 0;
        *done += 7 * kUs;
    }));
    const outcome o = trace();
    expect_said(o, "over the 20 operations that all ranks have\n\n  rank    came last  behind the median  in "
                   "each quarter of them\n"
                   "     2          80%             5.6 us     5.6 us    5.6 us    5.6 us    5.6 us\n");
}

// Of two ranks the earlier one is the median.
TEST_F(TraceTool, TheLateOneOfTwoRanksIsNamed) {
    std::vector<Dump> two = job([](Dump *dump, uint64_t, int64_t *entered, int64_t *done) {
        *entered += dump->rank == 1 ? 7 * kUs : 0;
        *done += 7 * kUs;
    });
    two.resize(2);
    for (Dump &dump : two)
        dump.size = 2;
    write(two);
    expect_said(trace(), "in each quarter of them\n"
                         "     1         100%             7.0 us     7.0 us    7.0 us    7.0 us    7.0 us\n");
}

TEST_F(TraceTool, TheFirstCallThatDiffers) {
    std::vector<Dump> all = job();
    all[1].operations[17] = operation(18, 1800 * kUs, -1, 50);
    all[1].operations[19] = operation(20, 2000 * kUs, -1, 50);
    write(all);
    const outcome o = trace();
    expect_said(o, "The first call that differs between ranks: operation 18\n\n"
                   "  allreduce of 100 float32, sum by ring: rank 0, 2, 3\n"
                   "  allreduce of 50 float32, sum by ring: rank 1\n");
}

TEST_F(TraceTool, CountsOfEachRanksOwnMayDiffer) {
    std::vector<Dump> all = job();
    for (Dump &dump : all) {
        std::string own = operation(20, 2000 * kUs, 2030 * kUs, 100 + dump.rank, "gather");
        own.insert(1, R"("own_counts": true, )");
        dump.operations[19] = own;
    }
    write(all);
    expect_not_said(trace(), "differs");
}

TEST_F(TraceTool, TheRankThatKeepsTheOthers) {
    std::vector<Dump> all = job();
    for (Dump &dump : all) {
        dump.operations[19] = operation(20, 2000 * kUs, -1);
        dump.waiting = R"("waiting": {"number": 20, "step": 2, "steps": 6, "since_ns": 2000000, "peers": [)" +
                       std::to_string((dump.rank + 3) % 4) + R"(]}, )";
    }
    all[1].waiting = "";
    all[1].operations.pop_back();
    write(all);
    outcome o = trace();
    expect_said(o, "     2           20  in flight  allreduce of 100 float32, sum by ring                    "
                   "waits for 1 for 7.0 ms, step 2 of 6");
    expect_said(o, "  rank 1: 1 rank waits for it, and it waits for nobody: its last operation is 19, done");
    unlink((folder_ + "/rank1.json").c_str());
    o = trace();
    expect_said(o, "3 of 4 ranks");
    expect_said(o, "No dump of rank 1: it was stopped or killed");
    expect_said(o, "  rank 1: 1 rank waits for it, and it left no dump");
}

TEST_F(TraceTool, WhyItBroke) {
    std::vector<Dump> all = job();
    for (uint32_t rank : {0, 2, 3})
        all[rank].broken = R"("broken": {"status": "peer", "text": "rank 1 is \"gone\"", "culprit": 1}, )";
    write(all);
    expect_said(trace(), "  rank 0 and 2 more, which blame rank 1: rank 1 is \"gone\"\n");
}

// Clocks of another host that are 3 s ahead: its ranks cannot be done before rank 0 has entered.
TEST_F(TraceTool, ClocksOfHostsMeet) {
    std::vector<Dump> all = job();
    for (uint32_t rank : {2, 3}) {
        all[rank].host = "two";
        all[rank].began_unix += 3000000 * kUs;
    }
    write(all);
    const outcome o = trace();
    expect_said(o, "      20      30.0 us      30.0 us");
}

// A job whose ranks send around a ring, in each of 20 operations 3 times: `takes` says how long from rank to
// the next.
std::vector<Dump> ring(std::vector<Dump> all,
                       const std::function<int64_t(uint32_t from, uint64_t number)> &takes,
                       const std::function<int64_t(uint32_t from, uint64_t number)> &late = nullptr) {
    const uint32_t size = static_cast<uint32_t>(all.size());
    for (uint64_t number = 1; number <= 20; number++)
        for (uint32_t round = 1; round <= 3; round++)
            for (uint32_t from = 0; from < size; from++) {
                const uint32_t to = (from + 1) % size;
                const int64_t wanted =
                    static_cast<int64_t>(number) * 10000 * kUs + round * 800 * kUs - 800 * kUs;
                const int64_t sent = wanted + (late ? late(from, number) : 0);
                all[from].steps.push_back(step(number, "send", round, to, 4096, sent, sent + 1));
                all[to].steps.push_back(step(number, "receive and reduce", round, from, 4096, wanted,
                                             sent + takes(from, number)));
            }
    return all;
}

std::vector<Dump> with_operations(std::vector<Dump> all, const std::string &collective = "allreduce") {
    for (uint32_t rank = 0; rank < all.size(); rank++) {
        all[rank].rank = rank;
        all[rank].size = static_cast<uint32_t>(all.size());
        for (uint64_t number = 1; number <= 20; number++)
            all[rank].operations.push_back(operation(number, static_cast<int64_t>(number) * 10000 * kUs,
                                                     static_cast<int64_t>(number) * 10000 * kUs + 2000 * kUs,
                                                     100, collective));
    }
    return all;
}

TEST_F(TraceTool, ASlowLinkIsNamedFirst) {
    write(ring(with_operations(std::vector<Dump>(8)), [](uint32_t from, uint64_t number) {
        return from == 5 && number > 10 ? 200 * kUs : (20 + from) * kUs; // in the second half
    }));
    const outcome o = trace();
    expect_said(o, "times in each quarter\n     5 -> 6             60 ");
    expect_said(o, " 1.1   1.1   8.7   8.7\n\nWho comes late"); // and no other link
    expect_not_said(o, "at one end");
}

TEST_F(TraceTool, RanksOfWhichTheSameIsToBeSaidAreOneRow) {
    std::vector<Dump> all = with_operations(std::vector<Dump>(24));
    all[3].operations.pop_back();
    write(all);
    const outcome o = trace();
    expect_said(o, "     2           20  done       allreduce");
    expect_said(o, "     3           19  done       allreduce");
    expect_said(o, "     4           20  done       allreduce");
    expect_said(o, "   ...               so are the ranks up to 23\n");
    expect_not_said(o, "     5 ");
}

TEST_F(TraceTool, ARankWhoseLinksAreSlowIsNamed) {
    write(ring(with_operations(std::vector<Dump>(8)), [](uint32_t from, uint64_t) {
        return from == 4 || from == 5 ? (200 + from) * kUs : 20 * kUs;
    }));
    const outcome o = trace();
    expect_said(o, "     5 -> 6 ");
    expect_said(o, "     4 -> 5 ");
    expect_said(o, "Rank 5 is at one end of all of them");
}

// What is sent late, or waits for the message before it on the same link, does not make that link slow.
TEST_F(TraceTool, ALateSenderMakesNoLinkSlow) {
    write(ring(
        with_operations(std::vector<Dump>(4)), [](uint32_t, uint64_t) { return 20 * kUs; },
        [](uint32_t from, uint64_t) { return from == 2 ? 700 * kUs : 0; }));
    expect_not_said(trace(), "Slow links");
}

// Nor does a late receiver, for whom messages wait: of two links, one shows its time and the other none.
TEST_F(TraceTool, ALateReceiverMakesNoLinkSlow) {
    std::vector<Dump> all = with_operations(std::vector<Dump>(2));
    for (uint64_t number = 1; number <= 20; number++)
        for (uint32_t round = 1; round <= 3; round++)
            for (uint32_t from : {0, 1}) {
                const int64_t sent = static_cast<int64_t>(number) * 10000 * kUs + round * 500 * kUs +
                                     (from == 0 ? 200 * kUs : 0);
                const int64_t wanted = sent + (from == 0 ? -200 : 200) * kUs;
                all[from].steps.push_back(step(number, "send", round, 1 - from, 4096, sent, sent + 1));
                all[1 - from].steps.push_back(step(number, "receive", round, from, 4096, wanted,
                                                   (from == 0 ? sent + 20 * kUs : wanted)));
            }
    write(all);
    expect_not_said(trace(), "Slow links");
}

// Files may mix calls of which each rank has counts of its own with others.
TEST_F(TraceTool, CallsHaveAnOrder) {
    std::vector<Dump> all =
        ring(with_operations(std::vector<Dump>(4)), [](uint32_t, uint64_t) { return 20 * kUs; });
    for (Dump &dump : all)
        for (uint64_t number = 1; number <= 20; number++) {
            std::string &o = dump.operations[number - 1];
            o = operation(number, static_cast<int64_t>(number) * 10000 * kUs,
                          static_cast<int64_t>(number) * 10000 * kUs + 2000 * kUs, number % 3, "alltoall");
            if (number % 2 == 0)
                o.insert(o.size() - 1, ", \"own_counts\": true");
        }
    write(all);
    const std::string out = trace().out;
    size_t tables = 0;
    for (size_t at = 0; (at = out.find("Messages of each step of alltoall", at)) != std::string::npos; at++)
        tables++;
    EXPECT_EQ(tables, 4u) << "of 0, 1 and 2 elements, and of own counts, each once\n" << out;
}

TEST_F(TraceTool, StepsAreShownBesideTheModel) {
    write(ring(with_operations(std::vector<Dump>(4)), [](uint32_t, uint64_t) { return 20 * kUs; }));
    const outcome o = trace();
    expect_said(o, "Messages of each step of allreduce of 100 float32, sum by ring\n");
    expect_said(
        o, "       2        80         4096      20.0 us      20.0 us       9.1 us\n"); // 5 us and 4096 ns
}

// Of a broadcast ranks learn nothing about the first one's clock, but from message to message they do. One
// link is slow in one direction, which must not pass for a clock.
TEST_F(TraceTool, ClocksMeetByMessagesAlongAChain) {
    std::vector<Dump> all = ring(with_operations(std::vector<Dump>(5), "broadcast"),
                                 [](uint32_t from, uint64_t) { return from == 3 ? 700 * kUs : 20 * kUs; });
    for (uint64_t number = 1; number <= 20; number++)
        for (uint32_t from = 0; from < 5; from++) { // and back, before that
            const uint32_t to = (from + 4) % 5;
            const int64_t sent = static_cast<int64_t>(number) * 10000 * kUs - 500 * kUs;
            all[from].steps.push_back(step(number, "send", 9, to, 4096, sent, sent + 1));
            all[to].steps.push_back(step(number, "receive", 9, from, 4096, sent, sent + 20 * kUs));
        }
    for (uint32_t rank = 0; rank < 5; rank++) {
        all[rank].host = "host" + std::to_string(rank);
        all[rank].began_unix += rank * 50000 * kUs; // its clock is ahead
    }
    write(all);
    const outcome o = trace();
    expect_said(o, "times in each quarter\n     3 -> 4             60 ");
    expect_said(o, "      20       2.0 ms       2.0 ms"); // as long as each rank took
}

TEST_F(TraceTool, PerfettoHasTheSteps) {
    std::vector<Dump> all =
        ring(with_operations(std::vector<Dump>(4)), [](uint32_t, uint64_t) { return 20 * kUs; });
    all[0].steps.push_back(step(21, "receive", 1, 3, 8, 300000 * kUs, -1)); // in flight
    write(all);
    const std::string path = folder_ + "/out.perfetto";
    ASSERT_EQ(trace({"--quiet", "--perfetto", path}).status, 0);
    const json file = parse(file_text(path));
    json_object *events = field(file, "traceEvents"), *part = nullptr;
    std::map<std::string, int> kinds;
    for (size_t i = 0; i < json_object_array_length(events); i++) {
        json_object *event = json_object_array_get_idx(events, i);
        if (!json_object_object_get_ex(event, "cat", &part) ||
            std::string(json_object_get_string(part)) != "step")
            continue;
        ASSERT_TRUE(json_object_object_get_ex(event, "dur", &part));
        EXPECT_GE(json_object_get_double(part), 0);
        json_object_object_get_ex(event, "name", &part);
        kinds[json_object_get_string(part)]++;
    }
    EXPECT_EQ(kinds["send to 1"], 60);
    EXPECT_EQ(kinds["receive and reduce from 1"], 60);
    EXPECT_EQ(kinds["receive from 3"], 1);
}

TEST_F(TraceTool, StepsThatMakeNoSenseAreNamed) {
    const std::vector<std::pair<std::string, std::string>> rows = {
        {"7", "a step is no array of 8"},
        {"[1, 2]", "a step is no array of 8"},
        {R"([1, 2, 1, 1, 0, 4, 5, 6])", "a step has no text in its place 2"},
        {R"([1, "send", "1", 1, 0, 4, 5, 6])", "a step has no whole number in its place 3"},
        {R"([1, "send", 1, 4, 0, 4, 5, 6])", "a step of operation 1 makes no sense"},
        {R"([1, "send", 1, 0, 0, 4, 5, 6])", "a step of operation 1 makes no sense"},
        {R"([1, "send", 1, -1, 0, 4, 5, 6])", "a step of operation 1 makes no sense"},
        {R"([1, "send", 0, 1, 0, 4, 5, 6])", "a step of operation 1 makes no sense"},
        {R"([1, "copy", 1, -1, 0, -4, 5, 6])", "a step of operation 1 makes no sense"},
        {R"([1, "copy", 1, -1, 0, 4, 9223372036854775807, 6])", "a step of operation 1 makes no sense"},
    };
    for (const auto &row : rows) {
        std::vector<Dump> all = job();
        all[0].steps.push_back(row.first);
        write(all);
        const outcome o = trace();
        EXPECT_TRUE(contains(o.err, "rank0.json: " + row.second + "; left out")) << row.first << "\n"
                                                                                 << o.err;
        expect_said(o, "3 of 4 ranks");
    }
}

TEST_F(TraceTool, PerfettoReadsIt) {
    std::vector<Dump> all = job();
    all[2].operations[19] = operation(20, 2000 * kUs, -1);
    write(all);
    const std::string path = folder_ + "/out.perfetto";
    ASSERT_EQ(trace({"--quiet", "--perfetto", path}).status, 0);
    std::unique_ptr<json_object, int (*)(json_object *)> file(json_object_from_file(path.c_str()),
                                                              json_object_put);
    json_object *events = nullptr;
    ASSERT_TRUE(file && json_object_object_get_ex(file.get(), "traceEvents", &events));
    size_t operations = 0, names = 0;
    for (size_t i = 0; i < json_object_array_length(events); i++) {
        json_object *event = json_object_array_get_idx(events, i), *part = nullptr;
        // "Trace Event Format": every event has name, ph, pid and tid; X also ts and dur, in microseconds.
        for (const char *name : {"name", "ph", "pid", "tid"})
            ASSERT_TRUE(json_object_object_get_ex(event, name, &part)) << name;
        json_object_object_get_ex(event, "ph", &part);
        const std::string phase = json_object_get_string(part);
        if (phase == "M") {
            names++;
            continue;
        }
        ASSERT_EQ(phase, "X");
        operations++;
        for (const char *name : {"ts", "dur"}) {
            ASSERT_TRUE(json_object_object_get_ex(event, name, &part)) << name;
            EXPECT_GE(json_object_get_double(part), 0);
        }
    }
    EXPECT_EQ(operations, 80u);
    EXPECT_EQ(names, 8u);
}

size_t occurrences(const std::string &all, const std::string &part) {
    size_t count = 0;
    for (size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1))
        count++;
    return count;
}

TEST_F(TraceTool, ThePageHasThePictureAndTheTables) {
    std::vector<Dump> all = job();
    all[2].operations[19] = operation(20, 2000 * kUs, -1);
    all[2].waiting =
        R"("waiting": {"number": 20, "step": 2, "steps": 6, "since_ns": 2000000, "peers": [1]}, )";
    for (Dump &dump : all)
        dump.job = "<script>alert(1)</script>&\\\"";
    all.pop_back();
    write(all);
    const std::string page = folder_ + "/page.html", picture = folder_ + "/picture.svg";
    ASSERT_EQ(trace({"--quiet", "--html", page, "--svg", picture}).status, 0);
    const std::string html = file_text(page), svg = file_text(picture);
    EXPECT_EQ(occurrences(html, "<script"), 0u) << "texts are escaped";
    EXPECT_NE(html.find("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;"), std::string::npos);
    EXPECT_NE(html.find(svg), std::string::npos);
    EXPECT_EQ(occurrences(svg, "<title>rank "), 60u) << "a bar an operation";
    EXPECT_EQ(occurrences(svg, "class=\"runs\""), 2u) << "one, and the legend";
    EXPECT_NE(svg.find(">waits for 1<"), std::string::npos);
    EXPECT_NE(svg.find(">no dump<"), std::string::npos);
    for (const char *part : {"<h2>Where each rank was</h2>", "<h2>Who keeps the others</h2>",
                             "<h2>Times, from the last entry on</h2>"})
        EXPECT_NE(html.find(part), std::string::npos) << part;
    for (const char *element : {"svg", "section", "pre", "h2", "text", "title", "main"})
        EXPECT_EQ(occurrences(html, "<" + std::string(element) + ">") +
                      occurrences(html, "<" + std::string(element) + " "),
                  occurrences(html, "</" + std::string(element) + ">"))
            << element;
    EXPECT_EQ(trace({"--quiet", "--html", "/nowhere/at/all"}).status, 1);
}

// ---- What is no dump
// ----------------------------------------------------------------------------------------

TEST_F(TraceTool, FilesThatMakeNoSenseAreLeftOutAndNamed) {
    const std::string good = job()[3].text();
    const auto with = [&](const std::string &from, const std::string &to) {
        std::string text = good;
        const size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return text.replace(at, from.size(), to);
    };
    const std::vector<std::pair<std::string, std::string>> rows = {
        {"", "ends too early, after 0 bytes"},
        {good.substr(0, 700), "ends too early, after 700 bytes"},
        {"[1, 2]", "is no dump of gcoll"},
        {"{}", "is no dump of gcoll"},
        {"hello", "is no JSON at byte 0"},
        {with(R"("gcoll_dump": 1)", R"("gcoll_dump": 7)"),
         "is a dump of version 7; this gcoll_trace reads version 1"},
        {with(R"("rank": 3)", R"("rank": 4)"), "rank 4 of 4 makes no sense"},
        {with(R"("size": 4)", R"("size": 4000000000)"), "rank 3 of 4000000000 makes no sense"},
        {with(R"("size": 4)", R"("size": "four")"), "'size' is \"four\"; allowed are whole numbers"},
        {with(R"("count": 100)", R"("count": -1)"), "'count' is -1; allowed are 0 to"},
        {with(R"("number": 2,)", R"("number": 1,)"), "operation 1 comes after 1"},
        {with(R"("entered_ns": 100003)", R"("entered_ns": 1e400)"),
         "'entered_ns' is 1e400; allowed are whole numbers"},
        {with(R"("clock": {)", R"("clock": 1, "x": {)"), "'clock' is no object"}};
    for (const auto &row : rows) {
        SCOPED_TRACE(row.second);
        write(job());
        write("rank3.json", row.first);
        const outcome o = trace();
        EXPECT_EQ(o.status, 0) << o.err;
        EXPECT_NE(o.err.find("rank3.json: " + row.second), std::string::npos) << o.err;
        EXPECT_NE(o.err.find("left out"), std::string::npos) << o.err;
        expect_said(o, "No dump of rank 3");
    }
}

TEST_F(TraceTool, TwoJobsAreToldApart) {
    std::vector<Dump> all = job();
    write(all);
    for (Dump &dump : all) {
        dump.group = "ffeeddccbbaa99887766554433221100";
        write("other" + std::to_string(dump.rank) + ".json", dump.text());
    }
    outcome o = trace();
    EXPECT_EQ(o.status, 1);
    EXPECT_NE(o.err.find("choose one by --group"), std::string::npos) << o.err;
    o = trace({"--group", "ffee"});
    EXPECT_EQ(o.status, 0) << o.err;
    expect_said(o, "group ffeeddcc: 4 of 4 ranks");
    EXPECT_EQ(trace({"--group", "00000"}).status, 1);
}

TEST_F(TraceTool, ItsVersionIsTold) {
    const outcome o = run(GCOLL_TRACE, {"--version"}, {});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.out, "gcoll_trace " + std::to_string(GCOLL_VERSION_MAJOR) + "." +
                         std::to_string(GCOLL_VERSION_MINOR) + "." + std::to_string(GCOLL_VERSION_PATCH) +
                         "\n");
}

TEST_F(TraceTool, BadArgumentsAreNamed) {
    EXPECT_EQ(run(GCOLL_TRACE, {}, {}).status, 2);
    EXPECT_EQ(run(GCOLL_TRACE, {"/nowhere/at/all"}, {}).status, 1);
    outcome o = trace();
    EXPECT_EQ(o.status, 1);
    EXPECT_NE(o.err.find("no dump of gcoll was found"), std::string::npos) << o.err;
    write(job());
    o = trace({"--perfetto", "/nowhere/at/all"});
    EXPECT_EQ(o.status, 1);
    EXPECT_NE(o.err.find("--perfetto: cannot write '/nowhere/at/all'"), std::string::npos) << o.err;
    write("again.json", job()[0].text());
    EXPECT_NE(trace().err.find("are both of rank 0"), std::string::npos);
}

} // namespace
