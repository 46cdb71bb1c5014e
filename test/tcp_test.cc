// test/tcp_test.cc - what is particular to TCP: limits, connections, interfaces, death of a peer, leaving.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>

#include "transport_harness.h"

extern "C" {
#include "transport/tcp/tcp.h"
}

using namespace harness;

namespace {

constexpr uint64_t kMiB = 1 << 20;
const gcoll_transport *const kTcp = &gcoll_transport_tcp;

gcoll_endpoint_options options_of(uint32_t rank, uint32_t size) {
    gcoll_endpoint_options options = {};
    options.rank = rank;
    options.size = size;
    std::memset(options.group, 0x42, sizeof options.group);
    options.connect_timeout_ms = 10000;
    return options;
}

// Two ranks in this process, driven by this thread.
struct Two {
    explicit Two(const std::function<void(gcoll_endpoint_options &)> &change = nullptr) {
        for (uint32_t r = 0; r < 2; r++) {
            gcoll_endpoint_options options = options_of(r, 2);
            if (change)
                change(options);
            ranks.push_back(std::make_unique<Rank>(kTcp, options));
            addresses.push_back(ranks.back()->address());
        }
    }
    void connect(uint32_t from, uint32_t to) {
        EXPECT_EQ(kTcp->connect(ranks[from]->endpoint, to, addresses[to].c_str()), GCOLL_OK)
            << gcoll_last_error();
    }
    template <class Condition> bool turn(Condition condition) {
        auto limit = Clock::now() + kPatience;
        while (!condition()) {
            if (Clock::now() > limit)
                return false;
            for (auto &rank : ranks)
                if (rank->endpoint)
                    rank->progress(0);
        }
        return true;
    }
    bool all_done() {
        return ranks[0]->done == ranks[0]->messages.size() && ranks[1]->done == ranks[1]->messages.size();
    }
    bool meet() { // a message in each direction
        connect(0, 1);
        for (uint32_t r = 0; r < 2; r++) {
            ranks[r]->send(1 - r, 0xfeed, 0, 1);
            ranks[r]->receive(1 - r, 0xfeed, 0, 1);
        }
        return turn([&] { return all_done(); });
    }
    gcoll_tcp_pair *pair(uint32_t r) { return gcoll_tcp_of(ranks[r]->endpoint)->pairs[1 - r]; }
    void check() {
        for (auto &rank : ranks) {
            rank->check();
            EXPECT_TRUE(rank->failed.empty()) << rank->failed[0].text;
        }
    }
    Rank &operator[](uint32_t r) { return *ranks[r]; }
    std::vector<std::unique_ptr<Rank>> ranks;
    std::vector<std::string> addresses;
};

// A socket that listens on loopback, and may pretend to be a rank.
struct Listener {
    Listener() {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in where = {};
        where.sin_family = AF_INET;
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof where;
        EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&where), sizeof where), 0);
        EXPECT_EQ(listen(fd, 16), 0);
        EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr *>(&where), &length), 0);
        port = ntohs(where.sin_port);
    }
    ~Listener() { shut(); }
    void shut() {
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    int fd;
    uint16_t port;
};

std::string with_port(std::string address, uint16_t port) {
    size_t at = address.find("port=");
    return address.replace(at, address.find(';', at) - at, "port=" + std::to_string(port));
}

// ---- Messages ----------------------------------------------------------------------------------------

TEST(Tcp, EverySizeAroundEveryLimit) {
    const uint64_t fragment = GCOLL_WIRE_FRAGMENT_MAX, input = GCOLL_TCP_INPUT_BYTES,
                   copy = GCOLL_TCP_COPY_MAX;
    const uint64_t eager = 100000, hot = GCOLL_TCP_HOT_BYTES;
    std::vector<uint64_t> sizes = {0, 1, 15, 16, 17};
    for (uint64_t limit : {copy, input - 32, input, eager, hot, fragment, 2 * fragment})
        for (uint64_t bytes : {limit - 1, limit, limit + 1})
            sizes.push_back(bytes);
    for (bool early : {true, false})
        for (uint32_t granule : {0u, 1u, 2u, 4u, 8u, 12u, 16u}) {
            Two two([&](gcoll_endpoint_options &o) { o.eager_bytes = eager; });
            two.connect(1, 0);
            auto receive = [&] {
                uint32_t index = 0;
                for (uint64_t bytes : sizes)
                    two[1].receive(0, 1, index++, granule ? bytes - bytes % granule : bytes, granule);
            };
            if (early)
                receive();
            uint32_t index = 0;
            for (uint64_t bytes : sizes)
                two[0].send(1, 1, index++, granule ? bytes - bytes % granule : bytes, bytes % 2);
            if (!early) {
                auto soon = Clock::now() + std::chrono::milliseconds(20);
                two.turn([&] { return Clock::now() > soon; });
                receive();
            }
            ASSERT_TRUE(two.turn([&] { return two.all_done(); })) << early << granule;
            two.check();
        }
}

// Elements of one message arrive in pieces that end anywhere, as other messages are in between.
TEST(Tcp, ConsumeGetsWholeElementsFromOddPieces) {
    Two two;
    two.connect(0, 1);
    std::mt19937 random(7);
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t granule = 1 + random() % 16;
        uint64_t bytes = (random() % 3 ? random() % 5000 : 2 * kMiB + random() % 9999) / granule * granule;
        two[0].send(1, i, 0, bytes);
        two[1].receive(0, i, 0, bytes, granule);
        two[0].send(1, i, 1, 1 + i % 13);
        two[1].receive(0, i, 1, 1 + i % 13);
    }
    ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
    two.check();
}

// Thousands of messages in flight whose order has nothing to do with that of the receives.
void flood(uint64_t pool, uint64_t largest, uint32_t count, uint64_t seed) {
    Two two([&](gcoll_endpoint_options &o) { o.eager_pool_bytes = pool; });
    two.connect(0, 1);
    two.connect(1, 0);
    std::mt19937_64 random(seed);
    struct Post {
        uint32_t rank;
        bool is_send;
        uint64_t stream;
        uint32_t index;
        uint64_t bytes;
        uint32_t granule;
    };
    std::vector<Post> posts;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = static_cast<uint32_t>(random() % 2), granule = static_cast<uint32_t>(random() % 5);
        uint64_t bytes = random() % 3 ? random() % 100 : random() % largest;
        bytes = granule ? bytes / granule * granule : bytes;
        posts.push_back({from, true, i % 7, i, bytes, 0});
        posts.push_back({1 - from, false, i % 7, i, bytes, granule});
    }
    std::shuffle(posts.begin(), posts.end(), random);
    auto check_pools = [&] {
        for (uint32_t r = 0; r < 2; r++) {
            gcoll_tcp_pair *pair = two.pair(r);
            ASSERT_LE(pair->held, pool);
            ASSERT_LE(pair->used, pool);
        }
    };
    for (const Post &post : posts) {
        if (post.is_send)
            two[post.rank].send(1 - post.rank, post.stream, post.index, post.bytes, random() % 4 == 0);
        else
            two[post.rank].receive(1 - post.rank, post.stream, post.index, post.bytes, post.granule);
        if (random() % 4 == 0) {
            two[random() % 2].progress(0);
            check_pools();
        }
    }
    ASSERT_TRUE(two.turn([&] {
        check_pools();
        return two.all_done();
    })) << two[0].done
        << "+" << two[1].done << " of " << 2 * count;
    two.check();
    for (uint32_t r = 0; r < 2; r++) { // nothing is remembered that is over
        two.turn([&] { return two.pair(r)->promised == 0; });
        EXPECT_EQ(two.pair(r)->held, 0u);
        EXPECT_EQ(two.pair(r)->incoming.count, 0u);
        EXPECT_EQ(two.pair(r)->outgoing.count, 0u);
        EXPECT_EQ(two.pair(r)->granted, 0u);
        EXPECT_EQ(two.pair(r)->offered, 0u);
        EXPECT_EQ(two.pair(r)->asked, 0u);
        EXPECT_EQ(two.pair(r)->used, two.pair(r)->owed);
    }
}

TEST(Tcp, FloodThroughATinyPool) {
    flood(4096, 3000, 4000, 1);
}
TEST(Tcp, FloodThroughTheLeastPool) {
    flood(GCOLL_TCP_POOL_MIN, 1000, 2000, 2);
}
TEST(Tcp, FloodOfLargeMessages) {
    flood(65536, 400000, 300, 3);
}
TEST(Tcp, FloodThroughARoomyPool) {
    flood(4 << 20, 100000, 2000, 4);
}

// The pool is full of messages that nobody waits for; those somebody waits for come all the same.
TEST(Tcp, AFullPoolDoesNotStopWhatIsAwaited) {
    for (bool receiver_first : {true, false}) {
        Two two([&](gcoll_endpoint_options &o) { o.eager_pool_bytes = 4096; });
        ASSERT_TRUE(two.meet());
        if (receiver_first)
            two[1].receive(0, 2, 0, 100);
        for (uint32_t i = 0; i < 1000; i++)
            two[0].send(1, 1, i, 50);
        Message &awaited = two[0].send(1, 2, 0, 100);
        if (!receiver_first)
            two[1].receive(0, 2, 0, 100);
        ASSERT_TRUE(two.turn([&] { return awaited.dones == 1 && two[1].messages.back()->dones == 1; }));
        EXPECT_LT(two[0].done, 200u); // the others are still waiting
        for (uint32_t i = 1000; i-- > 0;)
            two[1].receive(0, 1, i, 50);
        ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
        two.check();
    }
}

TEST(Tcp, DifferentSizesAreAMismatchWhoeverIsFirst) {
    const uint64_t small = 404, large = kMiB;
    for (uint64_t sent : {small, small + 1, large, large + 1})
        for (uint64_t expected : {small, large})
            for (bool receiver_first : {true, false}) {
                if (sent == expected)
                    continue;
                Two two;
                ASSERT_TRUE(two.meet());
                auto soon = Clock::now() + std::chrono::milliseconds(5);
                if (receiver_first)
                    two[1].receive(0, 1, 0, expected);
                else
                    two[0].send(1, 1, 0, sent);
                two.turn([&] { return Clock::now() > soon; });
                if (receiver_first)
                    two[0].send(1, 1, 0, sent);
                else
                    two[1].receive(0, 1, 0, expected);
                ASSERT_TRUE(two.turn([&] { return !two[1].failed.empty(); })) << sent << " " << expected;
                EXPECT_EQ(two[1].failed[0].status, GCOLL_ERR_MISMATCH);
                EXPECT_EQ(two[1].failed[0].text, "sent " + std::to_string(sent) + " bytes where " +
                                                     std::to_string(expected) + " were expected");
                EXPECT_EQ(two[1].messages.back()->dones, 0);
                // The connection still carries the news.
                gcoll_note note = {GCOLL_ERR_MISMATCH, 0, "they differ"};
                kTcp->abort(two[1].endpoint, &note, 1000);
                ASSERT_TRUE(two.turn([&] { return !two[0].aborted.empty(); }));
                EXPECT_STREQ(two[0].aborted[0].note.text, "they differ");
            }
}

TEST(Tcp, AFingerprintOfAMessageThatMustWaitTravelsAhead) {
    Two two;
    ASSERT_TRUE(two.meet());
    two[0].send(1, 5, 0, kMiB, true); // waits for a grant that does not come yet
    ASSERT_TRUE(two.turn([&] { return two[1].opened.size() == 1; }));
    EXPECT_EQ(two[1].opened[0].stream, 5u);
    two[1].receive(0, 5, 0, kMiB);
    ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
    EXPECT_EQ(two[1].opened.size(), 1u); // once
    two.check();
}

TEST(Tcp, SmallMessagesOvertakeALargeOne) {
    Two two;
    ASSERT_TRUE(two.meet());
    two[1].receive(0, 1, 0, 16 * kMiB);
    two[1].receive(0, 1, 1, 4);
    two[0].send(1, 1, 0, 16 * kMiB);
    Message &small = two[0].send(1, 1, 1, 4);
    ASSERT_TRUE(two.turn([&] { return two[1].messages.back()->dones == 1; }));
    EXPECT_EQ(small.dones, 1);
    EXPECT_LT(two[1].done, two[1].messages.size());
    ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
    two.check();
}

// ---- Connections -------------------------------------------------------------------------------------

TEST(Tcp, ConnectionsThatCrossBecomeOne) {
    for (int i = 0; i < 100; i++) {
        Group group(kTcp, 2);
        group.each([&](Rank &rank) {
            uint32_t peer = 1 - rank.rank;
            if ((i + rank.rank) % 3)
                rank.progress(0);
            group.connect(rank.rank, peer);
            rank.send(peer, 1, 0, 10);
            rank.receive(peer, 1, 0, 10);
            EXPECT_TRUE(rank.until_done());
            rank.send(peer, 2, 0, 400000);
            rank.receive(peer, 2, 0, 400000);
            EXPECT_TRUE(rank.until_done());
            rank.check();
            EXPECT_TRUE(rank.failed.empty());
        });
    }
}

TEST(Tcp, ConnectionsThatCrossInOneThread) {
    for (uint32_t first : {0u, 1u})
        for (int steps = 0; steps < 8; steps++) {
            Two two;
            two.connect(first, 1 - first);
            for (int i = 0; i < steps; i++)
                two[first].progress(0);
            two.connect(1 - first, first);
            for (int i = 0; i < steps; i++)
                two[1 - first].progress(0);
            for (uint32_t r = 0; r < 2; r++) {
                two[r].send(1 - r, 1, 0, 300000);
                two[r].receive(1 - r, 1, 0, 300000);
            }
            ASSERT_TRUE(two.turn([&] { return two.all_done(); })) << first << steps;
            two.check();
        }
}

TEST(Tcp, APeerThatIsBusyIsWaitedFor) {
    Two two;
    two.connect(0, 1);
    two[0].send(1, 1, 0, 100);
    for (int i = 0; i < 100; i++)
        two[0].progress(1000); // rank 1 computes meanwhile
    EXPECT_TRUE(two[0].failed.empty());
    two[1].receive(0, 1, 0, 100);
    ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
    two.check();
}

void expect_failure(Rank &rank, gcoll_status status, const std::string &text) {
    ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); }));
    EXPECT_EQ(rank.failed.size(), 1u);
    EXPECT_EQ(rank.failed[0].status, status);
    EXPECT_EQ(rank.failed[0].text, text);
}

TEST(Tcp, APeerThatIsGoneRefuses) {
    Two two([](gcoll_endpoint_options &o) { o.interface = "127.0.0.1"; });
    size_t at = two.addresses[1].find("port=") + 5;
    std::string port = two.addresses[1].substr(at, two.addresses[1].find(';', at) - at);
    two[1].close();
    Message &message = two[0].send(1, 1, 0, 1);
    two.connect(0, 1);
    expect_failure(two[0], GCOLL_ERR_PEER, "refused the connection at 127.0.0.1:" + port);
    two[0].send(1, 1, 1, 1); // a broken pair does nothing
    two[0].receive(1, 1, 1, 1);
    two[0].progress(1000);
    EXPECT_EQ(message.dones, 0);
    EXPECT_EQ(two[0].failed.size(), 1u);
}

TEST(Tcp, APeerThatDoesNotAnswerIsGivenUpInTime) {
    Listener silent;
    gcoll_endpoint_options options = options_of(0, 2);
    options.connect_timeout_ms = 100;
    options.interface = "127.0.0.1";
    Rank rank(kTcp, options);
    auto begun = Clock::now();
    ASSERT_EQ(kTcp->connect(rank.endpoint, 1, with_port(rank.address(), silent.port).c_str()), GCOLL_OK);
    expect_failure(rank, GCOLL_ERR_PEER,
                   "did not answer within 100 ms at 127.0.0.1:" + std::to_string(silent.port));
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(2));
    EXPECT_GE(Clock::now() - begun, std::chrono::milliseconds(99));
}

// As an acceptor does that has a crowd at its door.
TEST(Tcp, AConnectionClosedBeforeTheAnswerIsTriedAgain) {
    Listener moody;
    gcoll_endpoint_options options = options_of(0, 2);
    options.interface = "127.0.0.1";
    Rank rank(kTcp, options);
    ASSERT_EQ(kTcp->connect(rank.endpoint, 1, with_port(rank.address(), moody.port).c_str()), GCOLL_OK);
    std::thread acceptor([&] {
        for (int i = 0; i < 4; i++)
            close(accept(moody.fd, nullptr, nullptr));
        moody.shut();
    });
    ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); }));
    acceptor.join();
    EXPECT_EQ(rank.failed[0].text, "refused the connection at 127.0.0.1:" + std::to_string(moody.port));
}

TEST(Tcp, TheOtherWayIsTakenWhenOursFails) {
    Listener silent; // stands where rank 1 should be
    Two two([](gcoll_endpoint_options &o) { o.interface = "127.0.0.1"; });
    ASSERT_EQ(kTcp->connect(two[0].endpoint, 1, with_port(two.addresses[1], silent.port).c_str()), GCOLL_OK);
    int accepted = -1;
    for (int i = 0; i < 20; i++)
        two[0].progress(1000);
    accepted = accept(silent.fd, nullptr, nullptr);
    two.connect(1, 0); // rank 0 keeps it in reserve
    for (int i = 0; i < 20; i++) {
        two[0].progress(1000);
        two[1].progress(1000);
    }
    EXPECT_NE(two.pair(0)->reserve, nullptr);
    close(accepted);
    silent.shut();
    for (uint32_t r = 0; r < 2; r++) {
        two[r].send(1 - r, 1, 0, 100);
        two[r].receive(1 - r, 1, 0, 100);
    }
    ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
    two.check();
}

TEST(Tcp, ALoopbackAddressOfAnotherHostIsNotTried) {
    Two two([](gcoll_endpoint_options &o) { o.interface = "127.0.0.1"; });
    std::string elsewhere = two.addresses[1];
    size_t digit = elsewhere.find("host=") + 5;
    elsewhere[digit] = elsewhere[digit] == '0' ? '1' : '0';
    ASSERT_EQ(kTcp->connect(two[0].endpoint, 1, elsewhere.c_str()), GCOLL_OK);
    expect_failure(two[0], GCOLL_ERR_PEER, "offers no address but loopback, and is on another host");
}

TEST(Tcp, WrongPeersAreRefusedByName) {
    Two two;
    for (uint32_t peer : {0u, 2u, UINT32_MAX})
        EXPECT_EQ(kTcp->connect(two[0].endpoint, peer, two.addresses[1].c_str()), GCOLL_ERR_INVALID) << peer;
}

TEST(Tcp, LoopbackOfBothFamilies) {
    for (const char *interface : {"127.0.0.1", "::1", "lo"}) {
        Two two([&](gcoll_endpoint_options &o) { o.interface = interface; });
        EXPECT_NE(two.addresses[0].find(interface[0] == ':' ? ";a=::1/" : ";a=127.0.0.1/"),
                  std::string::npos);
        ASSERT_TRUE(two.meet()) << interface;
        two.check();
    }
}

// ---- Listening ---------------------------------------------------------------------------------------

std::string open_error(const std::function<void(gcoll_endpoint_options &)> &change) {
    gcoll_endpoint_options options = options_of(0, 2);
    gcoll_events events = {};
    gcoll_endpoint *endpoint = nullptr;
    change(options);
    EXPECT_EQ(kTcp->open(&options, &events, &endpoint), GCOLL_ERR_INVALID);
    EXPECT_EQ(endpoint, nullptr);
    return gcoll_last_error();
}

TEST(Tcp, AnInterfaceIsFoundByNameAddressAndSubnet) {
    for (const char *interface : {"lo", "127.0.0.1", "127.0.0.0/8", "127.1.2.3/8"}) {
        gcoll_endpoint_options options = options_of(0, 1);
        options.interface = interface;
        Rank rank(kTcp, options);
        EXPECT_NE(rank.address().find(";a=127.0.0.1/8"), std::string::npos) << interface;
        EXPECT_EQ(rank.address().find(";a="), rank.address().rfind(";a=")) << interface;
    }
}

TEST(Tcp, AnUnknownInterfaceIsNamedWithThoseThereAre) {
    for (const char *interface :
         {"eth987", "203.0.113.77", "203.0.113.0/24", "", "127.0.0.1/33", "::1%lo9"}) {
        std::string error = open_error([&](gcoll_endpoint_options &o) { o.interface = interface; });
        EXPECT_EQ(error.find("interface '" + std::string(interface) + "': not found; this host has "), 0u)
            << error;
        EXPECT_NE(error.find("lo (127.0.0.1)"), std::string::npos) << error;
    }
}

TEST(Tcp, RouteToPutsAnAddressFirst) {
    gcoll_endpoint_options options = options_of(0, 1);
    options.route_to = "127.0.0.1:6379";
    Rank rank(kTcp, options);
    std::string text = rank.address();
    EXPECT_EQ(text.find(";a=127.0.0.1/8"), text.find(";a="));
    for (const char *route : {"", "host", "host:", ":1"})
        EXPECT_NE(open_error([&](gcoll_endpoint_options &o) { o.route_to = route; }).find("route_to"),
                  std::string::npos);
}

TEST(Tcp, TakenPortsOfARangeAreSkipped) {
    Listener a; // any two neighbours will do; the first is surely taken
    auto open = [&](uint32_t rank, uint16_t last) {
        gcoll_endpoint_options options = options_of(rank, 4);
        options.interface = "127.0.0.1";
        options.port_min = a.port;
        options.port_max = last;
        return std::make_unique<Rank>(kTcp, options);
    };
    uint16_t last = static_cast<uint16_t>(a.port + 20 > UINT16_MAX ? UINT16_MAX : a.port + 20);
    if (last - a.port < 20)
        GTEST_SKIP() << "the kernel chose a port at the end of all ports";
    std::set<std::string> ports;
    for (uint32_t rank = 0; rank < 4; rank++) { // all alive at once would be 5 ports of 21
        auto endpoint = open(rank, last);
        std::string text = endpoint->address();
        size_t at = text.find("port=") + 5;
        int port = std::stoi(text.substr(at));
        EXPECT_GT(port, a.port);
        EXPECT_LE(port, last);
    }
    std::string error = open_error([&](gcoll_endpoint_options &o) {
        o.interface = "127.0.0.1";
        o.port_min = o.port_max = a.port;
    });
    EXPECT_EQ(
        error.find("port range: no free port in " + std::to_string(a.port) + " to " + std::to_string(a.port)),
        0u)
        << error;
}

TEST(Tcp, ImpossibleOptionsAreRefused) {
    EXPECT_NE(open_error([](gcoll_endpoint_options &o) {
                  o.port_min = 5;
                  o.port_max = 4;
              }).find("port range"),
              std::string::npos);
    EXPECT_NE(open_error([](gcoll_endpoint_options &o) { o.port_max = 4; }).find("port range"),
              std::string::npos);
    EXPECT_NE(open_error([](gcoll_endpoint_options &o) { o.eager_pool_bytes = 1; }).find("eager_pool_bytes"),
              std::string::npos);
    EXPECT_NE(open_error([](gcoll_endpoint_options &o) { o.rank = 2; }).find("rank"), std::string::npos);
}

// ---- Waiting -----------------------------------------------------------------------------------------

TEST(Tcp, ABlockedWaitUsesNoProcessor) {
    Two two;
    ASSERT_TRUE(two.meet());
    two[0].receive(1, 1, 0, 100);
    auto cpu = [] {
        rusage usage;
        getrusage(RUSAGE_THREAD, &usage);
        return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
               static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
    };
    double before = cpu();
    auto begun = Clock::now();
    EXPECT_FALSE(two[0].progress(300000));
    auto took = std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
    EXPECT_LT(cpu() - before, 30);
    EXPECT_GE(took, 299);
    EXPECT_LT(took, 2000);
}

TEST(Tcp, SpinningEndsInBlocking) {
    Two two([](gcoll_endpoint_options &o) { o.spin_us = 2000; });
    ASSERT_TRUE(two.meet());
    two[0].receive(1, 1, 0, 100);
    std::thread sender([&] {
        auto soon = Clock::now() + std::chrono::milliseconds(30);
        while (Clock::now() < soon)
            two[1].progress(1000);
        two[1].send(0, 1, 0, 100);
        EXPECT_TRUE(two[1].until_done());
    });
    EXPECT_TRUE(two[0].progress(10000000)); // at once when it comes, whether spinning or blocked
    sender.join();
    two.check();
}

TEST(Tcp, AWakeIsNotLostWhenNobodyWaits) {
    Two two;
    kTcp->wake(two[0].endpoint);
    auto begun = Clock::now();
    EXPECT_FALSE(two[0].progress(10000000));
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
}

// ---- Death and leave ---------------------------------------------------------------------------------

// Forks a rank 1 that runs `life` and is then killed, or kills itself.
struct Mortal {
    explicit Mortal(const std::function<void(Rank &)> &life) {
        int pipes[2];
        EXPECT_EQ(pipe(pipes), 0);
        pid = fork();
        if (pid == 0) {
            Rank rank(kTcp, options_of(1, 2));
            char text[GCOLL_ADDRESS_MAX] = {};
            std::strcpy(text, rank.address().c_str());
            if (write(pipes[1], text, sizeof text) == sizeof text)
                life(rank);
            _exit(0);
        }
        char text[GCOLL_ADDRESS_MAX] = {};
        EXPECT_EQ(read(pipes[0], text, sizeof text), static_cast<ssize_t>(sizeof text));
        address = text;
        close(pipes[0]);
        close(pipes[1]);
    }
    ~Mortal() {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
    pid_t pid;
    std::string address;
};

TEST(Tcp, AKilledPeerIsNoticedAtOnce) {
    Mortal mortal([](Rank &rank) {
        rank.send(0, 1, 0, 10);
        rank.receive(0, 3, 0, 64 * kMiB); // comes in part
        for (;;)
            rank.progress(1000000);
    });
    Rank rank(kTcp, options_of(0, 2));
    ASSERT_EQ(kTcp->connect(rank.endpoint, 1, mortal.address.c_str()), GCOLL_OK);
    rank.receive(1, 1, 0, 10);
    ASSERT_TRUE(rank.until_done());
    Message &never = rank.receive(1, 2, 0, 10);
    kill(mortal.pid, SIGKILL);
    auto begun = Clock::now();
    bool moved = false;
    ASSERT_EQ(kTcp->progress(rank.endpoint, 10000000, &moved), GCOLL_OK);
    EXPECT_TRUE(moved);
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(2));
    ASSERT_EQ(rank.failed.size(), 1u);
    EXPECT_EQ(rank.failed[0].status, GCOLL_ERR_PEER);
    EXPECT_EQ(rank.failed[0].text, "closed the connection");
    EXPECT_EQ(never.dones, 0);
    EXPECT_TRUE(rank.departed.empty());
}

TEST(Tcp, APeerKilledWhileMuchIsOnItsWay) {
    for (uint32_t i = 0; i < 5; i++) {
        Mortal mortal([](Rank &rank) {
            rank.send(0, 1, 0, 16 * kMiB);
            rank.receive(0, 1, 0, 16 * kMiB);
            for (;;)
                rank.progress(1000000);
        });
        Rank rank(kTcp, options_of(0, 2));
        ASSERT_EQ(kTcp->connect(rank.endpoint, 1, mortal.address.c_str()), GCOLL_OK);
        Message &out = rank.send(1, 1, 0, 16 * kMiB);
        Message &in = rank.receive(1, 1, 0, 16 * kMiB);
        Message &never = rank.receive(1, 1, 1, 1);
        ASSERT_TRUE(rank.until([&] { return in.bytes[(i * 3 + 1) * kMiB] != kUnwritten; }));
        kill(mortal.pid, SIGKILL);
        ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); }));
        EXPECT_EQ(rank.failed[0].text, "closed the connection");
        EXPECT_EQ(never.dones, 0);
        EXPECT_EQ(rank.done, static_cast<size_t>(out.dones + in.dones));
    }
}

TEST(Tcp, WhatAPeerSentBeforeItLeftCanStillBeReceived) {
    Two two;
    ASSERT_TRUE(two.meet());
    for (uint32_t i = 0; i < 10; i++)
        two[1].send(0, 1, i, 1000 * i);
    ASSERT_TRUE(two[1].until_done());
    two[1].close();
    ASSERT_TRUE(two[0].until([&] { return !two[0].departed.empty(); }));
    for (uint32_t i = 10; i-- > 0;)
        two[0].receive(1, 1, i, 1000 * i, i % 2 ? 8 : 0);
    ASSERT_TRUE(two[0].until_done());
    two[0].check();
    EXPECT_TRUE(two[0].failed.empty());
    Message &never = two[0].receive(1, 1, 10, 1);
    two[0].progress(1000);
    EXPECT_EQ(never.dones, 0);
}

// Memory that may be neither read nor written once it is forbidden.
struct Forbidden {
    explicit Forbidden(size_t count) : bytes(count) {
        memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(memory, MAP_FAILED);
    }
    ~Forbidden() { munmap(memory, bytes); }
    void forbid() { EXPECT_EQ(mprotect(memory, bytes, PROT_NONE), 0); }
    size_t bytes;
    void *memory;
};

// A send and a receive of the same size, in memory that can be taken away.
struct Exchange {
    explicit Exchange(size_t bytes) : out(bytes), in(bytes) {
        send.bytes = receive.bytes = bytes;
        send.stream = receive.stream = 9;
        send.data = out.memory;
        receive.data = in.memory;
        send.owner = receive.owner = this;
        send.done =
            receive.done = [](gcoll_message *m) { EXPECT_FALSE(static_cast<Exchange *>(m->owner)->is_over); };
    }
    void post(Rank &rank) {
        kTcp->post_recv(rank.endpoint, 1 - rank.rank, &receive);
        kTcp->post_send(rank.endpoint, 1 - rank.rank, &send);
    }
    void forbid() {
        is_over = true;
        out.forbid();
        in.forbid();
    }
    Forbidden out, in;
    bool is_over = false;
    gcoll_message send = {}, receive = {};
};

TEST(Tcp, AbortInTheMiddleOfLargeMessages) {
    for (int i = 0; i < 8; i++) {
        Two two;
        ASSERT_TRUE(two.meet());
        Exchange mine(64 * kMiB), theirs(64 * kMiB);
        mine.post(two[0]);
        theirs.post(two[1]);
        for (int k = 0; k < 3 + 2 * i; k++) {
            two[1].progress(0);
            two[0].progress(0);
        }
        bool both = i % 2;
        gcoll_note note = {GCOLL_ERR_ABORTED, 0, "enough"};
        std::thread other([&] { // reads, or aborts at the same time
            if (both)
                kTcp->abort(two[1].endpoint, &note, 15000);
            else
                EXPECT_TRUE(two[1].until([&] { return !two[1].aborted.empty(); }));
        });
        auto begun = Clock::now();
        kTcp->abort(two[0].endpoint, &note, 15000);
        EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
        mine.forbid();
        other.join();
        if (both) {
            theirs.forbid();
        } else if (!two[1].aborted.empty()) {
            EXPECT_STREQ(two[1].aborted[0].note.text, "enough");
            EXPECT_EQ(two[1].aborted[0].from, 0u);
        }
        for (int k = 0; k < 20; k++) {
            two[0].progress(0);
            two[1].progress(0);
        }
        begun = Clock::now();
        two[0].close();
        two[1].close();
        EXPECT_LT(Clock::now() - begun, std::chrono::seconds(3));
    }
}

TEST(Tcp, AbortKeepsItsLimitWhenThePeerDoesNotRead) {
    Two two;
    ASSERT_TRUE(two.meet());
    Forbidden out(64 * kMiB);
    gcoll_message send = {};
    send.bytes = out.bytes;
    send.stream = 9;
    send.data = out.memory;
    send.done = [](gcoll_message *) { ADD_FAILURE() << "done"; };
    two[1].receive(0, 9, 0, out.bytes);
    two[1].progress(0); // the grant goes
    kTcp->post_send(two[0].endpoint, 1, &send);
    for (int i = 0; i < 100; i++)
        two[0].progress(100); // fills all buffers
    gcoll_note note = {GCOLL_ERR_ABORTED, UINT32_MAX, "enough"};
    auto begun = Clock::now();
    kTcp->abort(two[0].endpoint, &note, 200);
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(2));
    out.forbid();
    for (int i = 0; i < 10; i++)
        two[0].progress(100);
    // The rest of the frame could not be sent: the peer hears of it, but is never told that it has it all.
    ASSERT_TRUE(two[1].until([&] { return !two[1].failed.empty() || !two[1].aborted.empty(); }));
    EXPECT_EQ(two[1].messages.back()->dones, 0);
}

TEST(Tcp, APeerThatConnectsAfterAnAbortHearsOfIt) {
    Two two;
    gcoll_note note = {GCOLL_ERR_TIMEOUT, 7, "too slow"};
    kTcp->abort(two[1].endpoint, &note, 100);
    two.connect(0, 1);
    ASSERT_TRUE(two.turn([&] { return !two[0].aborted.empty(); }));
    EXPECT_EQ(two[0].aborted[0].note.status, GCOLL_ERR_TIMEOUT);
    EXPECT_EQ(two[0].aborted[0].note.culprit, 7u);
    EXPECT_STREQ(two[0].aborted[0].note.text, "too slow");
}

TEST(Tcp, CloseKeepsItsLimitWhenThePeerDoesNotRead) {
    Two two;
    ASSERT_TRUE(two.meet());
    two[1].receive(0, 9, 0, 64 * kMiB);
    two[1].progress(0);
    two[0].send(1, 9, 0, 64 * kMiB);
    for (int i = 0; i < 100; i++)
        two[0].progress(100);
    auto begun = Clock::now();
    kTcp->close(two[0].endpoint, 200);
    two[0].endpoint = nullptr;
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(2));
    ASSERT_TRUE(two[1].until([&] { return !two[1].failed.empty() || !two[1].departed.empty(); }));
    EXPECT_EQ(two[1].messages.back()->dones, 0);
}

TEST(Tcp, CloseWhileConnecting) {
    Listener silent;
    for (int steps = 0; steps < 6; steps++) {
        Rank rank(kTcp, options_of(0, 3));
        ASSERT_EQ(kTcp->connect(rank.endpoint, 1, with_port(rank.address(), silent.port).c_str()), GCOLL_OK);
        rank.send(1, 1, 0, 10);
        rank.receive(2, 1, 0, 10);
        for (int i = 0; i < steps; i++)
            rank.progress(1000);
        auto begun = Clock::now();
        rank.close();
        EXPECT_LT(Clock::now() - begun, std::chrono::seconds(1));
    }
}

TEST(Tcp, ManyRanksAtOnce) {
    Group group(kTcp, 8);
    group.each([&](Rank &rank) {
        group.connect(rank);
        for (uint32_t round = 0; round < 20; round++)
            for (uint32_t peer = 0; peer < group.size(); peer++)
                if (peer != rank.rank) {
                    rank.send(peer, round, 0, round * 999, true);
                    rank.receive(peer, round, 0, round * 999);
                }
        EXPECT_TRUE(rank.until_done());
        rank.check();
        EXPECT_TRUE(rank.failed.empty());
        EXPECT_EQ(rank.opened.size(), 20u * 7);
    });
}

} // namespace
