// test/transport/tcp_connect_test.cc - connections that cross, fail or are slow; interfaces and ports.
#include <poll.h>
#include <sched.h>

#include <set>

#include "test/transport/raw_peer.h"
#include "test/transport/tcp_support.h"

using namespace harness;

namespace {

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

// libuv runs timers before it polls: the welcome has been here for longer than the time limit, but not seen.
TEST(Tcp, AnAnswerThatCameDuringAComputationCounts) {
    Two two([](gcoll_endpoint_options &o) {
        o.interface = "127.0.0.1";
        o.connect_timeout_ms = 100;
    });
    two.connect(0, 1);
    auto begun = Clock::now();
    while (!two.pair(0)->dial || !gcoll_dial_has_proved(two.pair(0)->dial)) {
        two[0].progress(0);
        two[1].progress(0);
    }
    while (!two.pair(1) || two.pair(1)->state != GCOLL_SESSION_CONNECTED)
        two[1].progress(0);
    ASSERT_EQ(two.pair(0)->state, GCOLL_SESSION_DIALING);
    while (Clock::now() - begun < std::chrono::milliseconds(300)) {
    } // computes
    ASSERT_TRUE(two.turn([&] { return two.pair(0)->state != GCOLL_SESSION_DIALING; }));
    EXPECT_EQ(two.pair(0)->state, GCOLL_SESSION_CONNECTED);
    two.check();
}

// The peer has asked for the proof, and given up waiting for it. It lives, so it is called again.
TEST(Tcp, WhoComputesBeforeItsProofIsLetInLater) {
    for (const int computes_ms : {150, 400, 2500}) {
        SCOPED_TRACE(computes_ms);
        Two two([](gcoll_endpoint_options &o) {
            o.interface = "127.0.0.1";
            o.connect_timeout_ms = 300;
        });
        two.connect(0, 1);
        two[0].send(1, 1, 0, 100);
        two[1].receive(0, 1, 0, 100);
        while (gcoll_net_of(two[1].endpoint)->trusted_count == 0) {
            if (gcoll_net_of(two[1].endpoint)->stranger_count == 0)
                two[0].progress(0); // until it has greeted: then it computes
            two[1].progress(0);
        }
        const auto until = Clock::now() + std::chrono::milliseconds(computes_ms);
        while (Clock::now() < until)
            two[1].progress(1000);
        ASSERT_TRUE(two.turn([&] { return two.all_done() || !two[0].failed.empty(); }));
        two.check();
    }
}

// Somebody else listens where one of the peer's addresses should lead.
TEST(Tcp, AMuteAddressDoesNotTakeAllTheTime) {
    Two two([](gcoll_endpoint_options &o) {
        o.interface = "127.0.0.1";
        o.connect_timeout_ms = 3000;
    });
    const std::string &real = two.addresses[1];
    int mute = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where = {};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<uint16_t>(std::stoi(real.substr(real.find("port=") + 5))));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 2);
    ASSERT_EQ(bind(mute, reinterpret_cast<sockaddr *>(&where), sizeof where), 0);
    ASSERT_EQ(listen(mute, 4), 0);
    std::string both = real;
    both.insert(both.find(";a="), ";a=127.0.0.3/8");
    ASSERT_EQ(kTcp->connect(two[0].endpoint, 1, both.c_str()), GCOLL_OK);
    two[0].send(1, 1, 0, 100);
    two[1].receive(0, 1, 0, 100);
    ASSERT_TRUE(two.turn([&] { return two.all_done() || !two[0].failed.empty(); }));
    two.check();
    close(mute);
}

// The mute one is kept: it may be a peer that computes.
TEST(Tcp, AMuteConnectionMayStillAnswer) {
    Listener late;
    gcoll_endpoint_options options = options_of(0, 2);
    options.interface = "127.0.0.1";
    options.connect_timeout_ms = 1500;
    Rank rank(kTcp, options);
    std::string twice = with_port(rank.address(), late.port) + ";a=127.0.0.1/8";
    ASSERT_EQ(kTcp->connect(rank.endpoint, 1, twice.c_str()), GCOLL_OK);
    gcoll_session *pair = gcoll_net_of(rank.endpoint)->sessions[1];
    int fd = accept(late.fd, nullptr, nullptr);
    pollfd second = {late.fd, POLLIN, 0};
    ASSERT_TRUE(rank.until([&] { return poll(&second, 1, 0) == 1 || !rank.failed.empty(); }));
    ASSERT_TRUE(rank.failed.empty());
    raw_peer::Raw raw(fd);
    raw_peer::Reply reply;
    reply.pool = GCOLL_FLOW_POOL_BYTES;
    const auto said = raw_peer::challenge(raw, raw_peer::key_of(raw_peer::token_of(rank.address())),
                                          [&](auto condition) { return rank.until(condition); });
    raw.say(reply.bytes(said));
    ASSERT_TRUE(rank.until([&] { return pair->state == GCOLL_SESSION_CONNECTED || !rank.failed.empty(); }));
    EXPECT_TRUE(rank.failed.empty());
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
    for (int i = 0; i < 20; i++)
        two[0].progress(1000);
    raw_peer::Raw called(accept(silent.fd, nullptr, nullptr));
    raw_peer::challenge(called, raw_peer::key_of(raw_peer::token_of(two.addresses[1])),
                        [&](auto condition) { return two[0].until(condition); });
    two.connect(1, 0); // rank 0 keeps it in reserve: it may have been welcomed
    for (int i = 0; i < 20; i++) {
        two[0].progress(1000);
        two[1].progress(1000);
    }
    EXPECT_NE(two.pair(0)->reserve, nullptr);
    called.shut();
    silent.shut();
    for (uint32_t r = 0; r < 2; r++) {
        two[r].send(1 - r, 1, 0, 100);
        two[r].receive(1 - r, 1, 0, 100);
    }
    ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
    two.check();
}

TEST(Tcp, TheOtherWayIsTakenWhenOursIsMute) {
    Listener mute; // stands where rank 1 should be
    Two two([](gcoll_endpoint_options &o) {
        o.interface = "127.0.0.1";
        o.connect_timeout_ms = 2000;
    });
    auto begun = Clock::now();
    ASSERT_EQ(kTcp->connect(two[0].endpoint, 1, with_port(two.addresses[1], mute.port).c_str()), GCOLL_OK);
    pollfd ready = {mute.fd, POLLIN, 0};
    ASSERT_TRUE(two[0].until([&] { return poll(&ready, 1, 0) == 1; }));
    raw_peer::Raw called(accept(mute.fd, nullptr, nullptr));
    raw_peer::challenge(called, raw_peer::key_of(raw_peer::token_of(two.addresses[1])),
                        [&](auto condition) { return two[0].until(condition); });
    two.connect(1, 0);
    ASSERT_TRUE(two.turn([&] { return two.pair(0)->state != GCOLL_SESSION_DIALING; }));
    EXPECT_LT(Clock::now() - begun, std::chrono::milliseconds(2000));
    ASSERT_TRUE(two.meet());
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

// ---- Congestion control ------------------------------------------------------------------------------

std::string congestion_control(int fd) {
    char name[GCOLL_NET_CONTROL_BYTES] = {};
    socklen_t length = sizeof name;
    EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
    return name;
}

std::string congestion_control_of_system() {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    std::string name = congestion_control(fd);
    close(fd);
    return name;
}

TEST(Tcp, WithinTheHostNothingIsPaced) {
    const std::string system = congestion_control_of_system();
    const bool paces = system.rfind("bbr", 0) == 0;
    for (const char *interface : {"127.0.0.1", "::1"}) {
        Two two([&](gcoll_endpoint_options &o) { o.interface = interface; });
        ASSERT_TRUE(two.meet());
        for (uint32_t r = 0; r < 2; r++)
            EXPECT_EQ(congestion_control(two.pair(r)->socket->fd), paces ? "reno" : system)
                << interface << ", rank " << r;
        two.check();
    }
}

TEST(Tcp, WhoConnectsFromElsewhereGetsTheSystemsCongestionControl) {
    gcoll_endpoint_options options = options_of(0, 2);
    Rank rank(kTcp, options);
    gcoll_net *tcp = gcoll_net_of(rank.endpoint);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in here = {}, there = {};
    here.sin_family = there.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    there.sin_port = htons(tcp->address.port);
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&here), sizeof here), 0);
    ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr *>(&there), sizeof there), 0);
    auto limit = Clock::now() + kPatience;
    while (tcp->strangers == nullptr && Clock::now() < limit)
        rank.progress(0);
    ASSERT_NE(tcp->strangers, nullptr);
    EXPECT_EQ(congestion_control(tcp->strangers->socket->fd), congestion_control_of_system());
    close(fd);
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
    for (const char *interface : {"eth987", "203.0.113.77", "203.0.113.0/24", "::1%lo9", "eth987,eth988"}) {
        std::string error = open_error([&](gcoll_endpoint_options &o) { o.interface = interface; });
        EXPECT_EQ(
            error.find("interface: is '" + std::string(interface) + "', which fits nothing; this host has "),
            0u)
            << error;
        EXPECT_NE(error.find("lo (127.0.0.1)"), std::string::npos) << error;
    }
    for (const char *interface : {"", "127.0.0.1/33", "lo,"})
        EXPECT_EQ(open_error([&](gcoll_endpoint_options &o) {
                      o.interface = interface;
                  }).find("interface: is '" + std::string(interface) + "', in which "),
                  0u)
            << gcoll_last_error();
}

TEST(Tcp, AHostWithoutAnyInterfaceSaysSo) {
    std::string lacking, error;
    gcoll_status status = GCOLL_OK;
    std::thread([&] { // of this thread alone
        if (unshare(CLONE_NEWNET) != 0) {
            lacking = strerror(errno);
            return;
        }
        gcoll_endpoint_options options = options_of(0, 2);
        gcoll_events events = {};
        gcoll_endpoint *endpoint = nullptr;
        status = kTcp->open(&options, &events, &endpoint);
        error = gcoll_last_error();
    })
        .join();
    if (!lacking.empty())
        GTEST_SKIP() << "this machine lacks network namespaces: " << lacking;
    EXPECT_EQ(status, GCOLL_ERR_IO);
    EXPECT_NE(error.find("no network interface is up, not even loopback"), std::string::npos) << error;
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

} // namespace
