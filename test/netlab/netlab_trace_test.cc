// test/netlab/netlab_trace_test.cc - the cases of docs/cases.md: jobs on several hosts in which something is
// wrong, found by gcoll_trace.
#include "test/netlab/netlab_support.h"

namespace {

using namespace netlab_test;

// The ranks of a lab say where they meet and who they are as a launcher would.
const char as_launched[] =
    "export GCOLL_RANK=$NETLAB_RANK GCOLL_SIZE=$NETLAB_RANKS GCOLL_STORE=file:$NETLAB_FOLDER; exec ";

class NetlabTrace : public Netlab {
  protected:
    // Runs examples/trouble on some hosts. then: a shell's words, beside it.
    outcome trouble(int hosts, const std::string &what, const std::string &then = "") {
        const std::string job = "$NETLAB each sh -c '" + std::string(as_launched) + TROUBLE + " " + what +
                                "' &\n" + then + "\nwait $!\n";
        return run({"--hosts", std::to_string(hosts), "--rate", "100mbit", "--once", "--", "sh", "-c", job},
                   {"TMPDIR=" + temporary.path, "GCOLL_DUMP_DIR=" + dumps.path}, NETLAB);
    }
    std::string trace() {
        const outcome o = run({dumps.path}, {}, GCOLL_TRACE);
        EXPECT_EQ(o.status, 0) << o.err;
        return o.out;
    }
    folder dumps;
};

TEST_F(NetlabTrace, ALateRankIsNamedFirst) {
    const outcome o = trouble(4, "late 200");
    ASSERT_EQ(o.status, 0) << o.err;
    const std::string report = trace();
    EXPECT_TRUE(contains(report, "4 of 4 ranks")) << report;
    EXPECT_TRUE(contains(report, "in each quarter of them\n     2 ")) << report;
}

TEST_F(NetlabTrace, ACallThatDiffersIsNamedWithBothSides) {
    const outcome o = trouble(4, "mismatch");
    EXPECT_EQ(o.status, 1) << o.err;
    const std::string report = trace();
    EXPECT_TRUE(contains(report, "The first call that differs between ranks: operation 50\n")) << report;
    strings sides;
    for (const std::string &line : lines(report))
        if (contains(line, ": rank ") && contains(line, "allreduce of ") && !contains(line, "operation #"))
            sides.push_back(line);
    ASSERT_EQ(sides.size(), 2u) << report;
    // A rank that heard of it before it made the call has not made it.
    EXPECT_TRUE(contains(sides[0], "of 100 float32, sum by ") && contains(sides[0], ": rank ")) << report;
    EXPECT_FALSE(contains(sides[0].substr(sides[0].find(": rank ")), "1")) << report;
    EXPECT_TRUE(contains(sides[1], "of 50 float32, sum by ") && contains(sides[1], ": rank 1")) << report;
}

TEST_F(NetlabTrace, AStoppedRankIsSaidToKeepTheOthers) {
    const outcome o = trouble(4, "none",
                              "sleep 1\n"
                              "stopped=$(for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ 2>/dev/null | "
                              "grep -qx NETLAB_RANK=3 && "
                              "grep -q trouble $p/comm && echo ${p#/proc/}; done)\n"
                              "kill -STOP $stopped\nsleep 5\nkill -KILL $stopped\n");
    EXPECT_NE(o.status, 0);
    const std::string report = trace();
    EXPECT_TRUE(contains(report, "3 of 4 ranks")) << report << o.err;
    EXPECT_TRUE(contains(report, "No dump of rank 3")) << report;
    EXPECT_TRUE(contains(report, "  rank 3: ") && contains(report, "for it, and it left no dump")) << report;
    EXPECT_TRUE(contains(report, "which blame rank 3")) << report;
}

// One cable at a tenth of the rate.
TEST_F(NetlabTrace, ASlowLinkIsNamedFirst) {
    const std::string rank =
        "'$NETLAB each sh -c \"exec " + std::string(GCOLL_BENCH) +
        " --rank \\$NETLAB_RANK --size 8 --store file:\\$NETLAB_FOLDER "
        "--bytes 128Ki --algorithm ring --iterations 3 --warmup 0 --tuning default --timeout 60s --trace " +
        dumps.path + "\"'";
    const outcome o = run({"--hosts", "8", "--rate", "20mbit", "--once", "--", "sh", "-c",
                           "$NETLAB link 5 2mbit && eval " + rank},
                          {"TMPDIR=" + temporary.path, "GCOLL_RECORD=steps"}, NETLAB);
    ASSERT_EQ(o.status, 0) << o.err;
    const std::string report = trace();
    const size_t table = report.find("times in each quarter\n");
    ASSERT_NE(table, std::string::npos) << report;
    const strings rows = lines(report.substr(table));
    ASSERT_GT(rows.size(), 2u);
    for (size_t i : {1, 2}) // what that host sends, and what it receives
        EXPECT_TRUE(contains(rows[i], " 4 -> 5 ") || contains(rows[i], " 5 -> 6 ")) << report;
    EXPECT_TRUE(contains(report, "Rank 5 is at one end of all of them")) << report;
}

} // namespace
