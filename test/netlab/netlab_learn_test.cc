// A network that changes while a job runs: auto finds out which algorithm is fastest then. Ranks are
// processes of netlab_rank on the hosts of a lab.
#include "test/netlab/netlab_support.h"

#include <map>

namespace {

using namespace netlab_test;

class NetlabLearn : public Netlab {};

// Links get a hundredth of their rate. Before, all algorithms with few steps are about as fast as one
// another; then, one that sends three vectors takes much longer than one that sends two thin ones. What a
// link sends at once after a pause is little: else what comes after a slow algorithm in turn would have its
// bytes sent free.
TEST_F(NetlabLearn, ARateThatChangesIsAnswered) {
    folder place;
    const std::string script =
        "set -e; P='" + place.path +
        "'; $NETLAB each --output $P -- sh -c 'exec $RANK learn call 20000 0 8192' & ranks=$!; "
        "until grep -qs 'learned\\|failed' $P/0.out; do sleep 0.02; done; "
        "for host in 0 1 2 3 4 5 6 7; do $NETLAB link $host 5mbit; done; touch $NETLAB_FOLDER/slow; wait "
        "$ranks";
    const outcome o =
        run({"--hosts", "8", "--rate", "500mbit", "--burst", "6000", "--limit", "80s", "--once", "sh", "-c",
             script},
            {"TMPDIR=" + temporary.path, "RANK=" + std::string(NETLAB_RANK), "GCOLL_TRANSPORT=tcp"}, NETLAB);
    ASSERT_EQ(o.status, 0) << o.err << said(place, 0, "err");
    std::map<std::string, double> us;
    for (const std::string &line : lines(said(place, 0))) {
        char name[64];
        double time;
        if (std::sscanf(line.c_str(), "%63s %lf", name, &time) == 2)
            us[name] = time;
    }
    ASSERT_EQ(us.count("kept"), 1u) << said(place, 0);
    double best = us["ring"];
    for (const auto &[name, time] : us)
        if (name != "kept")
            best = std::min(best, time);
    // Two that differ by a sixth may be taken for one another in a hundred calls on a busy machine.
    const double halfway = (best + us["recursive_doubling"]) / 2;
    EXPECT_LE(us["kept"], std::max(1.15 * best, halfway)) << said(place, 0) << said(place, 0, "err");
    EXPECT_GE(us["recursive_doubling"], 1.3 * best) << "the choice makes no difference\n" << said(place, 0);
}

} // namespace
