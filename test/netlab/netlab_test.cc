// test/netlab/netlab: hosts on one machine, what runs on them, and that nothing of them stays.
#include "test/netlab/netlab_support.h"

#include <net/if.h>
#include <signal.h>

#include <algorithm>
#include <thread>

namespace {

using namespace netlab_test;

// Processes that have the text in their environment.
int processes_with(const std::string &text) {
    int count = 0;
    for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
        std::ifstream file(entry.path() / "environ");
        std::string all{std::istreambuf_iterator<char>(file), {}};
        count += contains(all, text) ? 1 : 0;
    }
    return count;
}

template <class Condition> bool comes_true(Condition condition) {
    for (int turn = 0; turn < 2000; turn++) {
        if (condition())
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
}

const char one_rank[] =
    "exec \"$BENCH\" --rank $NETLAB_RANK --size $NETLAB_RANKS --store file:$NETLAB_FOLDER ";

// gcoll_bench as one rank of a lab's job.
strings bench(const strings &lab, const std::string &flags, const char *program = GCOLL_BENCH) {
    strings all = lab;
    for (const std::string &word : {std::string("--"), std::string("env"), std::string("BENCH=") + program,
                                    std::string("sh"), std::string("-c"), one_rank + flags})
        all.push_back(word);
    return all;
}

// ---- The command line
// ---------------------------------------------------------------------------------------

TEST(NetlabFlags, MistakesAreNamed) {
    const struct {
        strings arguments;
        const char *says;
    } rows[] = {
        {{"--hosts", "0", "true"}, "--hosts: is '0'"},
        {{"--hosts", "251", "true"}, "--hosts: is '251'"},
        {{"--hosts", "two", "true"}, "--hosts: is 'two'"},
        {{"--rate", "abc", "true"}, "--rate: is 'abc'"},
        {{"--rate", "1kbit", "true"}, "--rate: is '1kbit'"},
        {{"--delay", "soon", "true"}, "--delay: is 'soon'"},
        {{"--mtu", "100", "true"}, "--mtu: is '100'"},
        {{"--burst", "2000", "true"}, "--burst: is '2000'"},
        {{"--ranks-per-host", "-1", "true"}, "--ranks-per-host: is '-1'"},
        {{"--limit", "", "true"}, "--limit: is ''"},
        {{"--limit", "60", "true"}, "--limit: is '60'; allowed is a time with its unit, as 90s, 10m or 2h"},
        {{"--limit", "25h", "true"}, "--limit: is '25h'; allowed are 0s to 86400s"},
        {{"--hosts"}, "--hosts: a value is missing"},
        {{"--speed", "1", "true"}, "--speed: no such option"},
        {{"--once", "--output", "x", "true"}, "--once"},
        {{"--hosts", "2"}, "COMMAND: missing"},
        {{"each", "true"}, "each: is for commands within a lab"},
        {{"on", "0", "true"}, "on: is for commands within a lab"},
        {{"path", "0", "1", "down"}, "path: is for commands within a lab"},
        {{"check", "it"}, "check: takes no arguments"},
    };
    for (const auto &row : rows) {
        outcome o = run(row.arguments, {}, NETLAB);
        EXPECT_EQ(o.status, 2) << row.says << ": " << o.err;
        EXPECT_TRUE(contains(o.err, row.says)) << row.says << ": " << o.err;
        EXPECT_EQ(o.out, "");
    }
}

TEST(NetlabFlags, HelpIsThere) {
    outcome o = run({"--help"}, {}, NETLAB);
    EXPECT_EQ(o.status, 0);
    EXPECT_EQ(o.err, "");
    for (const char *word : {"--hosts", "--ranks-per-host", "--rate", "--delay", "--burst", "--mtu",
                             "--limit", "--output", "--once", "NETLAB_ADDRESS", "netlab link"})
        EXPECT_TRUE(contains(o.out, word)) << word;
}

TEST(NetlabFlags, AMissingToolIsNamed) {
    folder tools;
    for (const char *tool : {"bash", "readlink", "ip", "unshare", "nsenter", "setpriv", "mount", "sed", "awk",
                             "timeout", "hostname", "id"}) {
        for (const char *where : {"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"}) {
            std::filesystem::path path = where + std::string(tool);
            std::error_code error;
            if (std::filesystem::exists(path))
                std::filesystem::create_symlink(path, tools.path + "/" + tool, error);
        }
    }
    outcome o = run({"true"}, {"PATH=" + tools.path}, NETLAB);
    EXPECT_EQ(o.status, 69) << o.err;
    EXPECT_TRUE(contains(o.err, "not found: ")) << o.err;
    EXPECT_TRUE(contains(o.err, " tc")) << o.err;
}

TEST_F(Netlab, MissingRightsAreTold) {
    // A user namespace of our own that may have no network namespaces.
    outcome o = run({"--user", "--map-root-user", "sh", "-c",
                     "echo 0 >/proc/sys/user/max_net_namespaces && exec " NETLAB " true"},
                    {}, "/usr/bin/unshare");
    if (o.err.rfind("unshare:", 0) == 0)
        GTEST_SKIP() << "no user namespaces here: " << o.err;
    EXPECT_EQ(o.status, 69) << o.err;
    EXPECT_TRUE(contains(o.err, "no rights to make network namespaces")) << o.err;
}

// ---- What commands find
// -------------------------------------------------------------------------------------

TEST_F(Netlab, CommandsKnowWhereTheyAre) {
    outcome o = lab({"--hosts", "2", "--ranks-per-host", "2", "--", "sh", "-c",
                     "echo $NETLAB_HOST/$NETLAB_HOSTS $NETLAB_RANK/$NETLAB_RANKS $NETLAB_ADDRESS $(hostname);"
                     "echo to err >&2; test -e /sys/class/net && test -d $NETLAB_FOLDER"});
    EXPECT_EQ(o.status, 0) << o.err;
    strings out = lines(o.out), err = lines(o.err);
    std::sort(out.begin(), out.end());
    std::sort(err.begin(), err.end());
    EXPECT_EQ(out, (strings{"[0] 0/2 0/4 10.77.0.1 host0", "[1] 0/2 1/4 10.77.0.1 host0",
                            "[2] 1/2 2/4 10.77.0.2 host1", "[3] 1/2 3/4 10.77.0.2 host1"}));
    EXPECT_EQ(err, (strings{"[0] to err", "[1] to err", "[2] to err", "[3] to err"}));
    EXPECT_TRUE(temporary.empty());
}

TEST_F(Netlab, OutputGoesToFiles) {
    folder place;
    outcome o = lab({"--hosts=2"});
    EXPECT_EQ(o.status, 2) << "values stand beside their flags";
    o = lab({"--hosts", "2", "--output", place.path, "sh", "-c", "echo $NETLAB_RANK; echo bad >&2"});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.out + o.err, "");
    EXPECT_EQ(said(place, 0), "0\n");
    EXPECT_EQ(said(place, 1), "1\n");
    EXPECT_EQ(said(place, 1, "err"), "bad\n");
}

TEST_F(Netlab, TheFirstFailureIsTheStatus) {
    outcome o = lab({"--hosts", "3", "sh", "-c", "case $NETLAB_RANK in 1) exit 3 ;; 2) kill -9 $$ ;; esac"});
    EXPECT_EQ(o.status, 3);
    EXPECT_TRUE(contains(o.err, "rank 1, on host 1: exit status 3")) << o.err;
    EXPECT_TRUE(contains(o.err, "rank 2, on host 2: killed by SIGKILL")) << o.err;
    EXPECT_FALSE(contains(o.err, "rank 0")) << o.err;
    EXPECT_TRUE(temporary.empty());
}

TEST_F(Netlab, OnceStartsOthers) {
    outcome o = lab(
        {"--hosts", "3", "--once", "--", "sh", "-c",
         "$NETLAB on host2 hostname && $NETLAB on 10.77.0.2 hostname && $NETLAB rsh 0 'hostname; exit 4'; "
         "test $? = 4 && $NETLAB each --ranks-per-host 2 -- sh -c 'test $NETLAB_RANKS = 6'"});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.out, "host2\nhost1\nhost0\n");
    o = lab({"--once", "sh", "-c", "$NETLAB on 2 true"});
    EXPECT_EQ(o.status, 2);
    EXPECT_TRUE(contains(o.err, "HOST: is '2'; allowed is 0 to 1")) << o.err;
}

TEST_F(Netlab, SeesNothingOfTheMachine) {
    outcome o = lab({"--hosts", "1", "cat", "/proc/net/dev"});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(lines(o.out).size(), 4u) << "two lines of heading, lo, eth0: " << o.out;
}

// ---- gcoll in it
// ----------------------------------------------------------------------------------------------

TEST_F(Netlab, ACollectiveOverFourHostsIsRight) {
    folder place;
    outcome o = lab(bench({"--hosts", "4", "--rate", "1gbit", "--output", place.path},
                          "--collective all --algorithm auto --bytes 4,64Ki --iterations 2 --format json"));
    ASSERT_EQ(o.status, 0) << o.err << said(place, 0, "err");
    strings all = lines(said(place, 0));
    EXPECT_GT(all.size(), 10u);
    for (const std::string &line : all) {
        json record = parse(line);
        ASSERT_NE(record, nullptr) << line;
        EXPECT_EQ(number(record, "ranks"), 4) << line;
        EXPECT_EQ(number(record, "wrong"), 0) << line;
    }
    EXPECT_TRUE(temporary.empty());
}

// A window of at most 128 KiB in a round trip of 40 ms: one connection cannot be faster than that, and four
// are. The bound for one shows that the delay is there, whoever makes it.
TEST_F(Netlab, SeveralConnectionsAreFasterOnALongLink) {
    const std::string windows =
        "for what in rmem wmem; do echo 4096 131072 131072 >/proc/sys/net/ipv4/tcp_$what || exit 90; done; ";
    double seconds[2] = {};
    for (int several : {0, 1}) {
        folder place;
        strings all = {
            "--hosts",
            "2",
            "--delay",
            "10ms",
            "--output",
            place.path,
            "--",
            "env",
            std::string("BENCH=") + GCOLL_BENCH,
            "sh",
            "-c",
            windows + one_rank + "--interface eth0 --transport tcp:connections=" + (several ? "4" : "1") +
                " --collective broadcast --algorithm binomial --bytes 4Mi --warmup 1 --iterations 2 "
                "--format json"};
        outcome o = lab(all);
        if (o.status == 69 || o.status == 90)
            GTEST_SKIP() << o.err << said(place, 0, "err");
        ASSERT_EQ(o.status, 0) << o.err << said(place, 0, "err");
        json record = parse(lines(said(place, 0)).at(0));
        ASSERT_NE(record, nullptr);
        EXPECT_EQ(number(record, "wrong"), 0);
        seconds[several] = number(record, "min_us") / 1e6;
    }
    EXPECT_GT(seconds[0], 0.04 * (4 << 20) / 131072 / 2)
        << "half, as the first and last trip are not whole ones";
    EXPECT_LT(seconds[1], seconds[0] / 1.5);
    EXPECT_TRUE(temporary.empty());
}

// Each host has networks of which not all lead anywhere. The list says which to take.
TEST_F(Netlab, ListsOfInterfacesChooseTheNetwork) {
    folder place;
    const std::string networks =
        "n=$((NETLAB_HOST + 1)); six=; "
        "ip address add 10.88.0.$n/24 dev eth0 && "
        "ip link add veth0 type veth peer name veth1 && ip address add 10.99.0.1/24 dev veth0 && "
        "ip link set veth0 up && ip link set veth1 up && "
        "ip route replace prohibit 10.77.0.0/24 || exit 90; "
        "if [ -e /proc/net/if_inet6 ] && ip address add fd88::$n/64 dev eth0 nodad; then six=,fd88::/64; "
        "fi; ";
    const std::string runs =
        "i=0; try() { i=$((i + 1)); \"$BENCH\" --rank $NETLAB_RANK --size $NETLAB_RANKS --store "
        "file:$NETLAB_FOLDER --job job$i --bytes 4,64Ki --iterations 2 --timeout 10s \"$@\" || exit $i; echo "
        "ran $i; }; "
        "try --interface 10.88.0.0/16; "
        "try --interface \"eth9,10.88.0.0/16$six,lo\"; "
        "try --interface \"lo$six,10.88.0.0/16\"; "
        "try --interface '^veth*,10.77.0.0/16,lo'; "
        "GCOLL_INTERFACE=10.88.0.0/16 try; "
        "GCOLL_INTERFACE=veth0 try --interface 10.88.0.0/16; "
        "! \"$BENCH\" --rank $NETLAB_RANK --size $NETLAB_RANKS --store file:$NETLAB_FOLDER --job bad "
        "--timeout 10s --interface 'eth9,203.0.113.0/24'";
    outcome o = lab({"--hosts", "3", "--output", place.path, "--", "env", std::string("BENCH=") + GCOLL_BENCH,
                     "sh", "-c", networks + runs});
    if (o.status == 90)
        GTEST_SKIP() << "ip cannot make the networks: " << said(place, 0, "err");
    ASSERT_EQ(o.status, 0) << o.err << said(place, 0, "err");
    for (int rank = 0; rank < 3; rank++) {
        EXPECT_TRUE(contains(said(place, rank), "ran 6")) << said(place, rank);
        EXPECT_TRUE(
            contains(said(place, rank, "err"),
                     "options.interface: is 'eth9,203.0.113.0/24', which fits nothing; this host has "))
            << said(place, rank, "err");
        EXPECT_TRUE(contains(said(place, rank, "err"), "veth0 (10.99.0.1)")) << said(place, rank, "err");
    }
}

// Ranks of one host reach one another by loopback, those of another never.
TEST_F(Netlab, HostsAreHostsToGcoll) {
    folder place;
    std::string count = "--bytes 1Mi --iterations 5 --warmup 0 --no-check; cat /proc/net/dev";
    std::string run_bench = one_rank;
    run_bench.replace(0, 5, ""); // something follows
    outcome o = lab({"--hosts", "2", "--ranks-per-host", "1", "--output", place.path, "env",
                     std::string("BENCH=") + GCOLL_BENCH, "sh", "-c", run_bench + count});
    ASSERT_EQ(o.status, 0) << o.err << said(place, 0, "err");
    int seen = 0;
    for (const std::string &line : lines(said(place, 1))) {
        unsigned long long received = 0;
        size_t colon = line.find(':');
        if (colon != std::string::npos && colon < 8)
            received = std::stoull(line.substr(colon + 1));
        if (contains(line, "lo:")) {
            seen++;
            EXPECT_EQ(received, 0u) << line;
        } else if (contains(line, "eth0:")) {
            seen++;
            EXPECT_GT(received, 5u << 20) << line;
        }
    }
    EXPECT_EQ(seen, 2) << said(place, 1);
}

// With two ranks a host, auto takes a plan by hosts. Of 3 hosts each then receives 4/3 of the vector by its
// link, of plans that know no hosts at least 5/3. The links are so slow that memory is faster on a busy
// machine, too; where even that is measured otherwise, the next job measures again.
TEST_F(Netlab, AutoGoesByHosts) {
    const double vector = 256 << 10, calls = 5;
    const std::string flags =
        "--bytes 256Ki --iterations 5 --warmup 0 --no-check --verbose; cat /proc/net/dev";
    std::string run_bench = one_rank, explained;
    double received = 0;
    run_bench.replace(0, 5, ""); // something follows
    for (int turn = 0; turn < 4 && !contains(explained, "by 6 ranks: hierarchical"); turn++) {
        folder place;
        outcome o = lab({"--hosts", "3", "--ranks-per-host", "2", "--rate", "20mbit", "--output", place.path,
                         "env", std::string("BENCH=") + GCOLL_BENCH, "sh", "-c", run_bench + flags});
        ASSERT_EQ(o.status, 0) << o.err << said(place, 0, "err");
        explained = said(place, 0, "err");
        for (const std::string &line : lines(said(place, 2))) // on a host that nothing was measured with
            if (size_t at = line.find("eth0:"); at != std::string::npos)
                received = std::stod(line.substr(at + 5));
    }
    EXPECT_TRUE(contains(explained, "allreduce of 65536 float32 by 6 ranks: hierarchical")) << explained;
    EXPECT_TRUE(contains(explained, "within a host alpha")) << explained;
    EXPECT_TRUE(contains(explained, "; 2 ranks on the largest")) << explained;
    EXPECT_GT(received, 4.0 / 3 * calls * vector);
    EXPECT_LT(received, 1.6 * calls * vector); // with headers and acknowledgements
}

TEST_F(Netlab, ALinkIsNotFasterThanItsRate) {
    folder place;
    outcome o = lab(bench({"--hosts", "2", "--rate", "20mbit", "--output", place.path},
                          "--collective broadcast --bytes 1Mi --iterations 2 --warmup 1 --format json"));
    ASSERT_EQ(o.status, 0) << o.err << said(place, 0, "err");
    // The bucket goes at once, and is small: 64 KiB is more than it.
    double least_us = ((1 << 20) - (1 << 16)) * 8 / 20.0;
    EXPECT_GE(number(parse(said(place, 0)), "min_us"), least_us);
}

TEST_F(Netlab, TwoLabsKnowNothingOfEachOther) {
    folder places[2];
    std::unique_ptr<process> labs[2];
    for (int i = 0; i < 2; i++) {
        labs[i] =
            std::make_unique<process>(NETLAB,
                                      bench({"--hosts", "3", "--rate", "100mbit", "--output", places[i].path},
                                            "--bytes 64Ki --iterations 10 --format json"),
                                      environment());
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(labs[i]->wait(), 0) << read_all(labs[i]->err) << said(places[i], 0, "err");
        labs[i]->err = std::tmpfile();
        EXPECT_EQ(number(parse(said(places[i], 0)), "wrong"), 0);
    }
    EXPECT_TRUE(temporary.empty());
}

TEST_F(Netlab, AKilledRankIsNamedByTheOthers) {
    folder place;
    strings arguments = bench({"--hosts", "4", "--rate", "100mbit", "--limit", "40s", "--output", place.path},
                              "--bytes 4 --iterations 50 --timeout 5s", GCOLL_BENCH_FAULTY);
    outcome o = run(arguments, {"TMPDIR=" + temporary.path, "GCOLL_BENCH_FAULT=kill"}, NETLAB);
    EXPECT_EQ(o.status, 1) << o.err;
    EXPECT_TRUE(contains(o.err, "rank 1, on host 1: killed by SIGKILL")) << o.err;
    for (int rank : {0, 2, 3})
        EXPECT_TRUE(contains(said(place, rank, "err"), "rank 1")) << rank << ": " << said(place, rank, "err");
    EXPECT_TRUE(temporary.empty());
}

TEST_F(Netlab, ARankWhoseCableIsPulledIsNamedByTheOthers) {
    folder place;
    std::string script = "set -e; $NETLAB each --output '" + place.path + "' -- sh -c '" + one_rank +
                         "--bytes 64Ki --time 30s --timeout 2s' & "
                         "until grep -q gcoll_bench '" +
                         place.path + "/0.out'; do sleep 0.02; done; $NETLAB link 2 down; wait $!";
    outcome o = run({"--hosts", "4", "--rate", "100mbit", "--limit", "40s", "--once", "sh", "-c", script},
                    {"TMPDIR=" + temporary.path, std::string("BENCH=") + GCOLL_BENCH}, NETLAB);
    EXPECT_EQ(o.status, 1) << o.err;
    for (int rank : {0, 1, 3})
        EXPECT_TRUE(contains(said(place, rank, "err"), "rank 2")) << rank << ": " << said(place, rank, "err");
    EXPECT_TRUE(temporary.empty());
}

// ---- The end
// --------------------------------------------------------------------------------------------------

TEST_F(Netlab, TheLimitEndsIt) {
    outcome o = lab({"--hosts", "2", "--limit", "1s", "sleep", "1000"});
    EXPECT_EQ(o.status, 124);
    EXPECT_TRUE(contains(o.err, "--limit: not done within 1 s")) << o.err;
    EXPECT_TRUE(temporary.empty());
    EXPECT_TRUE(comes_true([&] { return processes_with(temporary.path) == 0; }));
}

class NetlabSignal : public Netlab, public testing::WithParamInterface<int> {};

TEST_P(NetlabSignal, LeavesNothing) {
    folder place;
    // One that goes by itself, and one that does not care and has a child in a group of its own.
    process p(NETLAB,
              {"--hosts", "3", "--output", place.path, "sh", "-c",
               "test $NETLAB_RANK = 1 && trap '' TERM INT HUP; echo started; setsid sleep 1000 & sleep 1000"},
              environment());
    for (int rank = 0; rank < 3; rank++)
        ASSERT_TRUE(comes_true([&] { return said(place, rank) == "started\n"; })) << rank;
    EXPECT_GE(processes_with(temporary.path), 6);
    kill(p.pid, GetParam());
    int status = p.wait();
    EXPECT_EQ(status, GetParam() == SIGKILL ? -SIGKILL : 128 + GetParam()) << read_all(p.err);
    EXPECT_TRUE(comes_true([&] { return processes_with(temporary.path) == 0; }));
    if (GetParam() == SIGKILL) { // an empty folder with its number, which the next one removes
        EXPECT_FALSE(temporary.empty());
        EXPECT_EQ(lab({"true"}).status, 0);
    }
    EXPECT_TRUE(temporary.empty());
}

INSTANTIATE_TEST_SUITE_P(All, NetlabSignal, testing::Values(SIGINT, SIGTERM, SIGHUP, SIGKILL),
                         [](const auto &row) { return std::string(sigabbrev_np(row.param)); });

} // namespace
