// Slow networks are no failures; hosts that vanish, ranks that stop and networks that are cut are, and what
// is said of them is true. Ranks are processes of netlab_rank on the hosts of a lab.
#include "test/netlab/netlab_support.h"

namespace {

using namespace netlab_test;

constexpr int kTimeout = 4, kPeer = 6; // gcoll_status

// How a rank ended.
struct Ending {
    bool ok = false;
    int status = 0, left = 0; // left: ranks that went on together
    long long culprit = -2, at_ms = 0;
    std::string text;
};

struct Plan {
    int hosts = 2, per_host = 1;
    const char *rate = "100mbit";
    const char *what = "loop";
    const char *form = "call";
    int timeout_ms = 20000, silence_ms = 0;
    size_t bytes = 64 << 10;
    const char *transport = "tcp";
    std::string then; // a script, when all are ready; P is the folder of what they say
};

class NetlabFailure : public Netlab {
  protected:
    // Runs it and gives how the ranks ended. In the script, `now` notes the time of the fault, and
    // `ended RANK...` waits for the end of those.
    std::vector<Ending> run_ranks(const Plan &plan) {
        folder place;
        std::string script =
            "set -e; P='" + place.path +
            "'; now() { cut -d' ' -f1 /proc/uptime >$P/now; }; pid() { cat $NETLAB_FOLDER/$1.pid; }; "
            "ended() { for r; do until grep -q '^ok\\|^failed' $P/$r.out; do sleep 0.02; done; done; }; "
            "$NETLAB each --ranks-per-host " +
            std::to_string(plan.per_host) +
            " --output $P -- sh -c 'echo $$ >$NETLAB_FOLDER/$NETLAB_RANK.pid; exec $RANK " +
            std::string(plan.what) + " " + plan.form + " " + std::to_string(plan.timeout_ms) + " " +
            std::to_string(plan.silence_ms) + " " + std::to_string(plan.bytes) + "' & ranks=$!; for r in";
        const int ranks = plan.hosts * plan.per_host;
        for (int rank = 0; rank < ranks; rank++)
            script += " " + std::to_string(rank);
        script += "; do until grep -qs 'ready' $P/$r.out; do sleep 0.02; done; done; " + plan.then +
                  "\nwait $ranks";
        outcome o = run({"--hosts", std::to_string(plan.hosts), "--rate", plan.rate, "--limit", "50s",
                         "--once", "sh", "-c", script},
                        {"TMPDIR=" + temporary.path, "RANK=" + std::string(NETLAB_RANK),
                         std::string("GCOLL_TRANSPORT=") + plan.transport},
                        NETLAB);
        EXPECT_NE(o.status, 124) << o.err;
        std::vector<Ending> endings;
        for (int rank = 0; rank < ranks; rank++) {
            Ending ending;
            strings all = lines(said(place, rank));
            if (!all.empty()) {
                ending.ok = all.back() == "ok";
                std::sscanf(all.back().c_str(), "failed %d %lld %lld", &ending.status, &ending.culprit,
                            &ending.at_ms);
            }
            for (const std::string &line : all)
                std::sscanf(line.c_str(), "left %d", &ending.left);
            ending.text = said(place, rank, "err");
            endings.push_back(ending);
        }
        std::ifstream file(place.path + "/now");
        double seconds = 0;
        file >> seconds;
        fault_ms = static_cast<long long>(seconds * 1000);
        EXPECT_TRUE(temporary.empty());
        return endings;
    }

    void expect_ok(const Plan &plan) {
        for (const Ending &ending : run_ranks(plan))
            EXPECT_TRUE(ending.ok) << ending.text;
    }

    // All but one are told of it, with these words, after a time of that range.
    void expect_told(const std::vector<Ending> &endings, int except, int status, long long culprit,
                     const std::string &words, int least_ms, int most_ms) {
        for (int rank = 0; rank < static_cast<int>(endings.size()); rank++) {
            const Ending &ending = endings[static_cast<size_t>(rank)];
            if (rank == except)
                continue;
            EXPECT_EQ(ending.status, status) << rank << ": " << ending.text;
            EXPECT_EQ(ending.culprit, culprit) << rank << ": " << ending.text;
            EXPECT_TRUE(contains(ending.text, words)) << rank << ": " << ending.text;
            EXPECT_GE(ending.at_ms - fault_ms, least_ms) << rank << ": " << ending.text;
            EXPECT_LE(ending.at_ms - fault_ms, most_ms) << rank << ": " << ending.text;
        }
    }

    long long fault_ms = 0;
};

// ---- What is slow --------------------------------------------------------------------------------------

// 6 MiB by each link, which take 5 s.
TEST_F(NetlabFailure, ATransferThatMovesOutlastsTheTimeout) {
    Plan plan;
    plan.hosts = 4;
    plan.rate = "10mbit";
    plan.what = "once";
    plan.timeout_ms = 1500;
    plan.bytes = 4 << 20;
    expect_ok(plan);
}

// Rank 0 sends to rank 1, and the others stand in line behind it with nothing to do.
TEST_F(NetlabFailure, RanksThatWaitForABusyOneWaitOn) {
    Plan plan;
    plan.hosts = 5;
    plan.rate = "10mbit";
    plan.what = "chain";
    plan.timeout_ms = 1500;
    plan.bytes = 6 << 20;
    expect_ok(plan);
}

// What a rank has sent stands in its kernel's buffer when it leaves.
TEST_F(NetlabFailure, WhatWasSentArrivesThoughTheSenderLeaves) {
    Plan plan;
    plan.rate = "5mbit";
    plan.what = "leave";
    plan.timeout_ms = 1500;
    plan.bytes = 2 << 20;
    expect_ok(plan);
}

// Two seconds in which nothing passes: the kernel repeats what is lost.
TEST_F(NetlabFailure, AShortCutIsNoFailure) {
    Plan plan;
    plan.rate = "20mbit";
    plan.what = "once";
    plan.bytes = 4 << 20;
    plan.then = "sleep 0.3; $NETLAB link 1 down; sleep 2; $NETLAB link 1 up";
    expect_ok(plan);
}

// ---- Who is stopped, or elsewhere ------------------------------------------------------------------------

TEST_F(NetlabFailure, AStoppedRankBehindASlowLinkIsNamedInTime) {
    Plan plan;
    plan.hosts = 4;
    plan.rate = "20mbit";
    plan.timeout_ms = 2000;
    plan.bytes = 4 << 20;
    plan.then = "now; kill -STOP $(pid 2); ended 0 1 3; kill -CONT $(pid 2)";
    std::vector<Ending> endings = run_ranks(plan);
    // What its kernel had been given by then arrives, and a little more is sent to it.
    expect_told(endings, 2, kTimeout, 2, "rank 2", 1500, 6000);
    EXPECT_FALSE(endings[2].ok);
}

// The hosts of ranks that are stopped, or compute, acknowledge what they get: also when their window is
// closed.
TEST_F(NetlabFailure, AHostThatAcknowledgesIsNotBlamed) {
    Plan plan;
    plan.hosts = 4;
    plan.what = "late";
    plan.silence_ms = 1000;
    plan.bytes = 1 << 20;
    plan.then = "sleep 2; kill -STOP $(pid 3); sleep 2; touch $NETLAB_FOLDER/go; kill -CONT $(pid 3)";
    expect_ok(plan);
}

// ---- Who is gone -----------------------------------------------------------------------------------------

// Within a host by shared memory, between hosts by TCP: all learn of a death as soon as over TCP alone. Each
// rank's neighbours in the ring are one of its host and one of another.
TEST_F(NetlabFailure, AKilledRankIsNamedAtOnceAlsoWhereHostsShareMemory) {
    for (const char *transport : {"tcp", "auto"}) {
        Plan plan;
        plan.hosts = 3;
        plan.per_host = 2;
        plan.rate = "1gbit";
        plan.transport = transport;
        plan.then = "sleep 0.2; now; kill -KILL $(pid 3)";
        const std::vector<Ending> endings = run_ranks(plan);
        expect_told(endings, 3, kPeer, 3, "rank 3", 0, 2000);
        EXPECT_FALSE(endings[3].ok);
        for (size_t rank : {0, 1, 2, 4, 5}) {
            RecordProperty(transport + std::string("_ms_") + std::to_string(rank),
                           std::to_string(endings[rank].at_ms - fault_ms));
            EXPECT_EQ(contains(endings[rank].text, ": shm"), transport == std::string("auto"))
                << endings[rank].text;
        }
        EXPECT_TRUE(contains(endings[0].text, ": tcp")) << endings[0].text;
    }
}

TEST_F(NetlabFailure, AHostThatVanishesIsNamedSoon) {
    Plan plan;
    plan.hosts = 4;
    plan.silence_ms = 2000;
    plan.bytes = 1 << 20;
    plan.then = "now; $NETLAB link 3 down";
    expect_told(run_ranks(plan), 3, kPeer, 3, "rank 3 cannot be reached any more: its host", 1000, 6000);
}

TEST_F(NetlabFailure, AHostThatVanishesWhileAllWaitForItIsNamedSoon) {
    Plan plan;
    plan.hosts = 3;
    plan.what = "late";
    plan.silence_ms = 2000;
    plan.then = "sleep 1; now; $NETLAB link 2 down; ended 0 1; touch $NETLAB_FOLDER/go";
    expect_told(run_ranks(plan), 2, kPeer, 2, "rank 2 cannot be reached any more: its host", 1000, 6000);
}

// ---- What is cut -----------------------------------------------------------------------------------------

// Ranks 1 and 0 hear nothing from each other any more, but rank 2 hears rank 1, so neither is at fault. Rank
// 0 learns it from rank 3, as in a ring it is not connected to rank 2.
TEST_F(NetlabFailure, OneDirectionThatIsCutIsTheNetworksFault) {
    Plan plan;
    plan.hosts = 4;
    plan.silence_ms = 2000;
    plan.bytes = 4 << 20;
    plan.then = "now; $NETLAB path 1 0 down";
    expect_told(run_ranks(plan), -1, kPeer, -1, "is at fault", 1000, 8000);
}

TEST_F(NetlabFailure, OneDirectionThatIsCutIsFoundByTheTimeoutToo) {
    Plan plan;
    plan.hosts = 3;
    plan.timeout_ms = 2000;
    plan.silence_ms = -1;
    plan.bytes = 3 << 20;
    plan.then = "now; $NETLAB path 1 0 down";
    expect_told(run_ranks(plan), -1, kTimeout, -1, "the network between ranks 0 and 1 is at fault", 1500,
                8000);
}

// Nobody else could know: what is known is said.
TEST_F(NetlabFailure, OneDirectionThatIsCutBetweenTwoIsNotCalledAStop) {
    Plan plan;
    plan.timeout_ms = 2000;
    plan.silence_ms = -1;
    plan.bytes = 3 << 20;
    plan.then = "now; $NETLAB path 1 0 down";
    std::vector<Ending> endings = run_ranks(plan);
    for (long long rank = 0; rank < 2; rank++) { // TCP stands still in both directions then
        expect_told(endings, static_cast<int>(1 - rank), kTimeout, 1 - rank,
                    "nothing arrives from it any more; it may be stopped, or not in a gcoll call, or the "
                    "network between may be cut",
                    1500, 8000);
    }
}

// ---- Going on --------------------------------------------------------------------------------------------

// Two hosts know each other by two networks, of which the first swallows everything. Collectives take the
// second, and so do agreements.
TEST_F(NetlabFailure, ANetworkThatSwallowsPacketsLeavesNobodyOut) {
    folder place;
    const std::string networks = "n=$((NETLAB_HOST + 1)); other=$((3 - n)); "
                                 "ip address add 10.88.0.$n/24 dev eth0 && "
                                 "ip neighbour replace 10.77.0.$other lladdr 02:00:00:00:00:99 nud permanent "
                                 "dev eth0 || exit 90; touch $NETLAB_FOLDER/stop; ";
    const outcome o = lab({"--hosts", "2", "--limit", "50s", "--output", place.path, "--", "env",
                           "RANK=" + std::string(NETLAB_RANK), "GCOLL_TRANSPORT=tcp", "sh", "-c",
                           networks + "exec $RANK recover any 6000 -1 4096"});
    if (o.status == 90)
        GTEST_SKIP() << "ip cannot make the networks: " << said(place, 0, "err");
    for (int rank = 0; rank < 2; rank++) {
        const strings all = lines(said(place, rank));
        EXPECT_EQ(all.empty() ? "" : all.back(), "ok") << said(place, rank, "err");
        EXPECT_FALSE(contains(said(place, rank), "left")) << said(place, rank);
    }
}

// Three hosts with two ranks each, of which the first is cut off, and comes back when ranks have ended as
// `awaited` says.
Plan plan_of_a_cut(const char *form, const std::string &awaited) {
    Plan plan;
    plan.hosts = 3;
    plan.per_host = 2;
    plan.rate = "1gbit";
    plan.what = "recover";
    plan.form = form;
    plan.transport = "auto";
    plan.timeout_ms = 6000;
    plan.silence_ms = 1000;
    plan.then =
        "left() { for r; do until grep -q '^left' $P/$r.out; do sleep 0.02; done; done; }; sleep 0.3; "
        "$NETLAB link 0 down; " +
        awaited + "; $NETLAB link 0 up; sleep 0.5; touch $NETLAB_FOLDER/stop";
    return plan;
}

// Both parts go on by themselves, and do not disturb each other when the network is whole again.
TEST_F(NetlabFailure, EachPartOfACutNetworkMayGoOn) {
    const Plan plan = plan_of_a_cut("any", "left 0 1 2 3 4 5");
    const std::vector<Ending> endings = run_ranks(plan);
    for (int rank = 0; rank < 6; rank++) {
        const Ending &ending = endings[static_cast<size_t>(rank)];
        EXPECT_TRUE(ending.ok) << rank << ": " << ending.text;
        EXPECT_EQ(ending.left, rank < 2 ? 2 : 4) << rank;
    }
}

// Only the larger part, if that is wanted; the other is told.
TEST_F(NetlabFailure, OnlyTheMajorityOfACutNetworkGoesOnIfThatIsWanted) {
    const Plan plan = plan_of_a_cut("majority", "left 2 3 4 5; ended 0 1");
    const std::vector<Ending> endings = run_ranks(plan);
    for (int rank = 0; rank < 6; rank++) {
        const Ending &ending = endings[static_cast<size_t>(rank)];
        EXPECT_EQ(ending.ok, rank >= 2) << rank << ": " << ending.text;
        EXPECT_EQ(ending.left, rank < 2 ? 0 : 4) << rank;
        if (rank < 2) {
            EXPECT_EQ(ending.status, kPeer);
            EXPECT_TRUE(contains(ending.text, "only 2 of 6 ranks are left")) << ending.text;
        }
    }
}

} // namespace
