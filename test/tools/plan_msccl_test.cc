// Schedules in MSCCL's XML: those of test/tools/msccl are right and have the time that they must have, and
// broken ones are refused with line and step.
#include "test/tools/plan_tool_run.h"

namespace {

using namespace program_test;

const std::string schedules = SOURCE "/test/tools/msccl/";

struct Schedule {
    const char *name, *collective;
    int ranks, chunks;
};
const Schedule all[] = {
    {"ring_allreduce", "allreduce", 4, 4},  {"allpairs_allreduce", "allreduce", 3, 3},
    {"ring_allgather", "allgather", 4, 8},  {"ring_reduce_scatter", "reduce_scatter", 3, 3},
    {"chain_broadcast", "broadcast", 4, 2}, {"channels_alltoall", "alltoall", 3, 6},
};

std::string schedule(const std::string &name) {
    return file_text(schedules + name + ".xml");
}

TEST(Msccl, SchedulesAreProvedForAllLengths) {
    for (const Schedule &s : all) {
        std::string counts = "--count=" + std::to_string(s.chunks);
        for (int k : {2, 7, 100})
            counts += "," + std::to_string(k * s.chunks);
        const outcome o = plan({"verify", "--plan=" + schedules + s.name + ".xml", counts, "--format=json"});
        ASSERT_EQ(o.status, 0) << s.name << o.out << o.err;
        const json record = records(o)[0];
        EXPECT_TRUE(truth(record, "verified"));
        EXPECT_EQ(number(record, "checked"), 4);
        EXPECT_EQ(text(record, "algorithm"), s.name);
        EXPECT_EQ(text(record, "collective"), s.collective);
        const outcome words = plan({"show", "--plan=" + schedules + s.name + ".xml", "--rank=all"});
        EXPECT_EQ(occurrences(words.out, std::string(s.collective) + " of " + std::to_string(s.chunks) +
                                             " elements, rank "),
                  size_t(s.ranks))
            << words.out;
    }
}

// Rings send what the library's rings send, so they take as long.
TEST(Msccl, ARingTakesAsLongAsTheLibrarys) {
    for (const auto &[name, collective, ranks] :
         {std::tuple{"ring_allreduce", "allreduce", "4"}, {"ring_reduce_scatter", "reduce_scatter", "3"}})
        for (const char *bytes : {"1200", "1200Ki"}) {
            const strings common = {"simulate", std::string("--bytes=") + bytes, "--format=json"};
            strings by_file = common, by_name = common;
            by_file.push_back("--plan=" + schedules + name + ".xml");
            for (const std::string &flag :
                 {std::string("--algorithm=ring"), std::string("--collective=") + collective,
                  std::string("--ranks=") + ranks})
                by_name.push_back(flag);
            const outcome file = plan(by_file), named = plan(by_name);
            ASSERT_EQ(file.status, 0) << file.err;
            ASSERT_EQ(named.status, 0) << named.err;
            EXPECT_NEAR(number(records(file)[0], "time_us"), number(records(named)[0], "time_us"), 1e-6)
                << name;
            EXPECT_EQ(number(records(file)[0], "bytes"), number(records(named)[0], "bytes"));
        }
    // Two messages of half the vector follow each other along three links.
    const outcome chain = plan({"simulate", "--plan=" + schedules + "chain_broadcast.xml", "--bytes=8000",
                                "--alpha=1us", "--beta=1ns", "--format=json"});
    EXPECT_NEAR(number(records(chain)[0], "time_us"), 4 * 5, 1e-6) << chain.err;
}

// A plan that was made from a schedule is written and read like any other.
TEST(Msccl, ASchedulesPlansAreAFileOfTheirOwn) {
    folder here;
    for (const Schedule &s : all) {
        const std::string path = here.path + "/plans.json", xml = "--plan=" + schedules + s.name + ".xml",
                          count = "--count=" + std::to_string(5 * s.chunks);
        ASSERT_EQ(plan({"show", xml, count, "--format=json", "--output=" + path}).status, 0);
        EXPECT_EQ(plan({"show", "--plan=" + path, "--rank=all"}).out,
                  plan({"show", xml, count, "--rank=all"}).out);
        EXPECT_EQ(plan({"verify", "--plan=" + path}).status, 0);
    }
}

// What a schedule does not say, its plans do not do: without a dependency there is a race, and the verifier
// names the line of one of its two steps.
TEST(Msccl, BrokenSchedulesAreRefusedWithLineAndStep) {
    const std::string ring = schedule("ring_allreduce"), pairs = schedule("allpairs_allreduce"),
                      gather = schedule("ring_allgather"), scatter = schedule("ring_reduce_scatter");
    const struct {
        std::string text;
        int status; // 1: it is a schedule, but a wrong one; 2: it is none
        std::string said;
    } table[] = {
        // A reduction that does not wait for what it reads.
        {changed(pairs, "depid=\"2\" deps=\"1\"", "depid=\"-1\" deps=\"-1\""), 1, "line 7: rank 0, step "},
        // The sum is sent before it is complete.
        {changed(pairs, "depid=\"0\" deps=\"2\"", "depid=\"1\" deps=\"1\""), 1,
         "line 6: rank 0, step 6 (reduce, 1 element): races with step 4 "},
        // A block goes to the wrong place.
        {changed(gather, "dstbuf=\"o\" dstoff=\"6\" cnt=\"2\"", "dstbuf=\"o\" dstoff=\"4\" cnt=\"2\""), 1,
         "rank 0"},
        // The wrong chunk is passed on.
        {changed(scatter, "type=\"rrs\" srcbuf=\"i\" srcoff=\"1\"", "type=\"rrs\" srcbuf=\"i\" srcoff=\"0\""),
         1, "rank "},
        // A step is missing, and the last message has no receiver.
        {changed(
             ring,
             "      <step s=\"6\" type=\"r\" srcbuf=\"i\" srcoff=\"2\" dstbuf=\"i\" dstoff=\"2\" cnt=\"1\" "
             "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n",
             ""),
         2, "no partner: GPU "},
        {changed(ring, "cnt=\"1\"", "cnt=\"2\""), 2,
         "line 5: GPU 0, tb 0, step 0: 'cnt' is 2, but 1 of its partner in line 17"},
        {changed(ring, "cnt=\"1\"", "cnt=\"5\""), 2,
         "line 5: GPU 0, tb 0, step 0: 'cnt' is 5; allowed in 'i' are 1 to 4"},
        {changed(ring, "type=\"rrs\"", "type=\"rsr\"", 1), 2,
         "line 7: GPU 0, tb 0, step 2: 'type' is 'rsr'; allowed are s, r, rcs, rrs, rrc, rrcs, cpy, re, nop"},
        {changed(ring, "srcoff=\"3\"", "srcoff=\"4\""), 2,
         "line 6: GPU 0, tb 0, step 1: 'srcoff' is '4'; allowed are 0 to 3"},
        {changed(ring, "srcoff=\"3\"", "srcoff=\"three\""), 2, "'srcoff' is 'three'; allowed are 0 to 3"},
        {changed(ring, "srcbuf=\"i\"", "srcbuf=\"x\""), 2,
         "line 5: GPU 0, tb 0, step 0: 'srcbuf' is 'x'; allowed are i, o, s"},
        {changed(ring, "<step s=\"3\"", "<step s=\"4\""), 2,
         "line 8: GPU 0, tb 0, step 3: 's' is '4'; allowed are 3 to 3"},
        {changed(ring, "send=\"1\"", "send=\"4\""), 2,
         "line 4: GPU 0, tb 0: 'send' is '4'; allowed are 0 to 3"},
        {changed(ring, "send=\"1\"", "send=\"0\""), 2,
         "line 4: GPU 0, tb 0: 'send' is '0'; allowed are other GPUs"},
        {changed(ring, "send=\"1\"", "send=\"-1\""), 2,
         "line 5: GPU 0, tb 0, step 0: 'type' is 's', but its tb has no 'send'"},
        {changed(ring, "chan=\"0\"", "chan=\"1\""), 2,
         "line 5: GPU 0, tb 0, step 0: no partner: GPU 1 receives fewer"},
        {changed(pairs, "depid=\"2\" deps=\"1\"", "depid=\"3\" deps=\"1\""), 2,
         "line 5: GPU 0, tb 0, step 0: 'depid' is 3; allowed are 0 to 2"},
        {changed(pairs, "depid=\"2\" deps=\"1\"", "depid=\"2\" deps=\"4\""), 2,
         "line 5: GPU 0, tb 0, step 0: 'deps' is 4; tb 2 has 4 steps"},
        {changed(pairs, "depid=\"2\" deps=\"1\"", "depid=\"2\" deps=\"-1\""), 2,
         "line 5: GPU 0, tb 0, step 0: 'deps' is missing or -1; allowed are both"},
        {changed(pairs, "depid=\"2\" deps=\"1\"", "depid=\"2\" deps=\"3\""), 2,
         "waits for step 3 of tb 2 (line 19), whose 'hasdep' is 0; allowed is 1"},
        // The first reduction waits for a message that is sent after the last one.
        {changed(changed(pairs, "depid=\"2\" deps=\"1\"", "depid=\"2\" deps=\"3\""),
                 "dstbuf=\"i\" dstoff=\"2\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"",
                 "dstbuf=\"i\" dstoff=\"2\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"1\""),
         2, "line 5: GPU 0, tb 0, step 0: never runs: step 3 of tb 2, for which it waits, does not either"},
        {changed(pairs, "recv=\"2\" chan=\"0\"", "recv=\"1\" chan=\"0\""), 2,
         "line 15: GPU 0, tb 2: receives from GPU 1 on channel 0, as the tb of line 9 does; allowed is one"},
        {changed(ring, "coll=\"allreduce\"", "coll=\"custom\""), 2,
         "line 2: algo: 'coll': collective: is 'custom'"},
        {changed(ring, "ngpus=\"4\"", "ngpus=\"0\""), 2,
         "line 2: algo: 'ngpus' is '0'; allowed are 1 to 4096"},
        {changed(ring, "ngpus=\"4\"", "ngpus=\"5\""), 2, "has 4 gpu elements; allowed are 5"},
        {changed(gather, "nchunksperloop=\"8\"", "nchunksperloop=\"7\""), 2,
         "line 2: algo: 'nchunksperloop' is 7; allowed for allgather by 4 GPUs are multiples of that"},
        {changed(ring, "<tb id=\"0\"", "<tbs id=\"0\""), 2,
         "line 4: file: element 'tbs' is found; allowed here is tb"},
        {changed(ring, "</tb>", ""), 2, "line 13: is no XML: "},
        {"<?xml version=\"1.0\"?>\n<!DOCTYPE algo [<!ENTITY a \"b\">]>\n<algo/>", 2,
         "line 2: file: a document type is found; allowed is none"},
        {"<algo", 2, "line 1: is no XML: "},
    };
    for (const auto &row : table) {
        const outcome o = run_text("verify", row.text);
        EXPECT_EQ(o.status, row.status) << row.said << "\n" << o.out << o.err;
        EXPECT_TRUE(contains(row.status == 1 ? o.out : o.err, row.said))
            << "found: " << o.out << o.err << "expected: " << row.said;
    }
    for (const char *command : {"verify", "show"})
        EXPECT_TRUE(contains(run_text(command, ring, {"--count=6"}).err,
                             "is for 4 chunks, and 6 elements are given; allowed are multiples"))
            << command;
    EXPECT_TRUE(contains(run_text("simulate", ring, {"--bytes=0"}).err, "and 0 elements are given"));
}

std::string step(int number, const std::string &rest, bool awaited = false) {
    return "<step s=\"" + std::to_string(number) + "\" cnt=\"1\" hasdep=\"" + (awaited ? "1" : "0") + "\" " +
           rest + "/>\n";
}

// Two GPUs, each of which overwrites what it sends before it receives. MSCCL has room for a message between
// them, and a plan has none.
TEST(Msccl, AScheduleThatNeedsBuffersBetweenGpusIsADeadlock) {
    std::string text = "<algo ngpus=\"2\" coll=\"allreduce\" nchunksperloop=\"2\" inplace=\"1\">\n";
    for (int gpu : {0, 1}) {
        const std::string peer = std::to_string(1 - gpu);
        text += "<gpu id=\"" + std::to_string(gpu) + "\"><tb id=\"0\" chan=\"0\" send=\"" + peer +
                "\" recv=\"" + peer + "\">\n" + step(0, "type=\"s\" srcbuf=\"i\" srcoff=\"0\"") +
                step(1, "type=\"cpy\" srcbuf=\"i\" srcoff=\"1\" dstbuf=\"i\" dstoff=\"0\"") +
                step(2, "type=\"r\" dstbuf=\"i\" dstoff=\"1\"") + "</tb></gpu>\n";
    }
    const outcome o = run_text("verify", text + "</algo>\n");
    EXPECT_EQ(o.status, 1) << o.err;
    EXPECT_TRUE(contains(o.out, "deadlock")) << o.out;
}

// GPU 0 sends on two channels at once, and GPU 1 receives from the second one first.
TEST(Msccl, MessagesOfTwoGpusHaveOneOrder) {
    auto text = [](const std::string &first_waits, const std::string &second_waits) {
        return "<algo ngpus=\"2\" coll=\"broadcast\" nchunksperloop=\"2\" inplace=\"1\">\n<gpu id=\"0\">\n"
               "<tb id=\"0\" chan=\"0\" send=\"1\">\n" +
               step(0, "type=\"s\" srcbuf=\"i\" srcoff=\"0\"") +
               "</tb><tb id=\"1\" chan=\"1\" send=\"1\">\n" +
               step(0, "type=\"s\" srcbuf=\"i\" srcoff=\"1\"") +
               "</tb></gpu><gpu id=\"1\"><tb id=\"0\" chan=\"0\" recv=\"0\">\n" +
               step(0, "type=\"r\" dstbuf=\"i\" dstoff=\"0\"" + first_waits, true) +
               "</tb><tb id=\"1\" chan=\"1\" recv=\"0\">\n" +
               step(0, "type=\"r\" dstbuf=\"i\" dstoff=\"1\"" + second_waits, true) + "</tb></gpu></algo>\n";
    };
    EXPECT_EQ(run_text("verify", text("", "")).status, 0);
    EXPECT_EQ(run_text("verify", text("", " depid=\"0\" deps=\"0\"")).status, 0);
    const outcome o = run_text("verify", text(" depid=\"1\" deps=\"0\"", ""));
    EXPECT_EQ(o.status, 2) << o.out;
    EXPECT_TRUE(
        contains(o.err, "line 10: GPU 1, tb 1, step 0: receives before a message that GPU 0 sends earlier"))
        << o.err;
}

// Each line of a step, taken out, makes the schedule wrong, and the message names a line.
TEST(Msccl, EveryStepOfEveryScheduleCounts) {
    for (const Schedule &s : all) {
        const strings text = lines(schedule(s.name));
        size_t tried = 0;
        for (size_t i = 0; i < text.size(); i++) {
            if (!contains(text[i], "<step "))
                continue;
            std::string broken;
            size_t number = 0;
            for (size_t k = 0; k < text.size(); k++) { // without it, the steps behind it move up
                std::string line = text[k];
                if (contains(line, "<tb "))
                    number = 0;
                if (contains(line, "<step ") && k != i) {
                    const size_t at = line.find("s=\"") + 3;
                    line.replace(at, line.find('"', at) - at, std::to_string(number++));
                }
                broken += k == i ? "" : line + "\n";
            }
            tried++;
            const outcome o = run_text("verify", broken);
            EXPECT_NE(o.status, 0) << s.name << " without line " << i + 1;
            EXPECT_TRUE(contains(o.out + o.err, "rank ") || contains(o.out + o.err, "line "))
                << s.name << " without line " << i + 1 << ": " << o.out << o.err;
            EXPECT_TRUE(o.status == 1 || o.status == 2) << o.status;
        }
        EXPECT_GE(tried, 9u) << s.name;
    }
}

// docs/plans-as-files.md: the files that it shows, the outputs of the commands below them, and what it says
// of broken ones.
TEST(Msccl, ThePageShowsWhatTheToolPrints) {
    folder here;
    const std::string page = file_text(SOURCE "/docs/plans-as-files.md");
    const std::string pair = block_of(page, "json"), exchange = block_of(page, "xml");
    std::ofstream(here.path + "/pair.json") << pair;
    std::ofstream(here.path + "/exchange.xml") << exchange;
    std::ofstream(here.path + "/gather.json")
        << block_of(page.substr(page.find("## Execution plans of MSCCL++")), "json");
    EXPECT_EQ(check_commands(page, here), 7u);
    const size_t at = exchange.rfind("dstoff=\"1\"");
    ASSERT_NE(at, std::string::npos);
    for (const outcome &o :
         {run_text("verify", changed(pair, "\"a\": [\"in\", 0, 0]", "\"a\": [\"in\", 0, 1]", 2)),
          run_text("verify", std::string(exchange).replace(at, 10, "dstoff=\"0\""))}) {
        const std::string said = o.status == 1 ? o.out : o.err;
        const size_t from = said.find("rank 1");
        ASSERT_NE(from, std::string::npos) << said;
        EXPECT_TRUE(contains(page, said.substr(from))) << said;
    }
}

} // namespace
