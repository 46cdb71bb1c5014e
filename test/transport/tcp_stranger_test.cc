// test/transport/tcp_stranger_test.cc - strangers at the port, and where a peer should be.
#include <fcntl.h>
#include <sys/resource.h>

#include "test/transport/raw_peer.h"

using namespace raw_peer;

namespace {

// Two real ranks of three exchange messages all the time that `visit` runs.
void undisturbed(const std::function<void(const std::string &, const std::function<void()> &)> &visit) {
    Rank a(kTcp, small_options_of(0, 3)), b(kTcp, small_options_of(1, 3));
    std::string address = a.address();
    ASSERT_EQ(kTcp->connect(b.endpoint, 0, address.c_str()), GCOLL_OK);
    uint32_t index = 0;
    auto exchange = [&] {
        for (uint64_t bytes : {uint64_t(4), kEager + 1}) {
            a.send(1, 1, index, bytes);
            b.receive(0, 1, index, bytes);
            b.send(0, 1, index, bytes);
            a.receive(1, 1, index, bytes);
            index++;
        }
        auto limit = Clock::now() + kPatience;
        while (a.done < a.messages.size() || b.done < b.messages.size()) {
            ASSERT_LT(Clock::now(), limit);
            a.progress(0);
            b.progress(0);
        }
    };
    visit(address, exchange);
    exchange();
    a.check();
    b.check();
    EXPECT_TRUE(a.failed.empty());
    EXPECT_TRUE(b.failed.empty());
    EXPECT_TRUE(a.opened.empty());
    a.close();
    ASSERT_TRUE(b.until([&] { return !b.departed.empty(); }));
}

TEST(TcpStranger, WhoIsSilentDoesNotDisturb) {
    undisturbed([](const std::string &address, const std::function<void()> &exchange) {
        Raw silent(address);
        for (int i = 0; i < 20; i++)
            exchange();
        EXPECT_FALSE(silent.is_closed());
    });
}

TEST(TcpStranger, WhoTalksNonsenseIsSentAway) {
    undisturbed([](const std::string &address, const std::function<void()> &exchange) {
        std::mt19937 random(9);
        Bytes noise(5000);
        for (uint8_t &byte : noise)
            byte = static_cast<uint8_t>(random());
        std::string http =
            "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: somebody/1.0\r\nAccept: */*\r\n\r\n";
        for (const Bytes &talk :
             {noise, Bytes(http.begin(), http.end()), Bytes(80, 0), frame(kPing) + Bytes(80, 0)}) {
            Raw stranger(address);
            stranger.say(talk);
            for (int i = 0; i < 10000 && !stranger.is_closed(); i++)
                exchange();
            EXPECT_TRUE(stranger.is_closed());
            EXPECT_TRUE(stranger.heard().empty());
        }
    });
}

TEST(TcpStranger, HalfAGreetingWaitsForTheOtherHalf) {
    Stage stage;
    Hello hello;
    hello.token = token_of(stage.address);
    Bytes bytes = hello.bytes();
    ASSERT_EQ(bytes.size(), kHelloBytes);
    Raw slow(stage.address);
    for (uint8_t byte : bytes) {
        EXPECT_TRUE(slow.heard().empty());
        slow.say(Bytes{byte});
        stage.rank.progress(0);
    }
    ASSERT_TRUE(stage.rank.until([&] { return slow.heard().size() == kReplyBytes; }));
    EXPECT_EQ(get(slow.heard(), 8, 4), 0u);
}

// It may be a rank that looks for another one, which has died, and whose port this one has now.
TEST(TcpStranger, WhoLacksGroupOrTokenHearsNoMoreThanThat) {
    Reply refusal;
    refusal.verdict = 5;
    refusal.from = refusal.to = 0;
    refusal.group = Bytes(16, 0);
    refusal.eager = refusal.pool = 0;
    refusal.lanes = Bytes(8, 0);
    undisturbed([&](const std::string &address, const std::function<void()> &exchange) {
        for (size_t bit = 0; bit < 256; bit += 17) {
            Hello hello;
            hello.from = 2;
            hello.token = token_of(address);
            (bit < 128 ? hello.token : hello.group)[bit % 128 / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
            Raw stranger(address);
            stranger.say(hello.bytes());
            for (int i = 0; i < 10000 && !stranger.is_closed(); i++)
                exchange();
            EXPECT_TRUE(stranger.is_closed());
            EXPECT_EQ(stranger.heard(), refusal.bytes());
        }
    });
}

TEST(TcpStranger, WhoIsWrongOtherwiseHearsWhy) {
    undisturbed([](const std::string &address, const std::function<void()> &exchange) {
        auto verdict = [&](const std::function<void(Hello &)> &change) {
            Hello hello;
            hello.from = 2;
            hello.token = token_of(address);
            change(hello);
            Raw stranger(address);
            stranger.say(hello.bytes());
            for (int i = 0; i < 10000 && !stranger.is_closed(); i++)
                exchange();
            EXPECT_EQ(stranger.heard().size(), kReplyBytes);
            return stranger.heard().size() == kReplyBytes ? get(stranger.heard(), 8, 4) : 99;
        };
        EXPECT_EQ(verdict([](Hello &h) { h.version = 1; }), 1u);
        EXPECT_EQ(verdict([](Hello &h) { h.version = h.oldest = 3; }), 1u);
        EXPECT_EQ(verdict([](Hello &h) { h.to = 1; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.from = 3; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.from = UINT32_MAX; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.from = 0; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.from = 1; }), 3u); // is connected already
        EXPECT_EQ(verdict([](Hello &h) { h.pool = 0; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.pool = UINT64_MAX; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.eager = h.pool; }), 2u);
    });
}

TEST(TcpStranger, ACrowdIsBoundedAndDoesNotDisturb) {
    undisturbed([](const std::string &address, const std::function<void()> &exchange) {
        std::vector<std::unique_ptr<Raw>> crowd;
        for (int i = 0; i < 200; i++) {
            crowd.push_back(std::make_unique<Raw>(address));
            if (i % 3 == 0)
                crowd.back()->say("hello? ");
            if (i % 20 == 0)
                exchange();
        }
        auto waiting = [&] {
            int count = 0;
            for (auto &each : crowd)
                count += !each->is_closed();
            return count;
        };
        for (int i = 0; i < 10000 && waiting() > 64; i++)
            exchange();
        EXPECT_EQ(waiting(), 64);
        EXPECT_TRUE(crowd[0]->is_closed());
        EXPECT_FALSE(crowd[199]->is_closed());
        // A real rank gets in all the same.
        Hello hello;
        hello.from = 2;
        hello.token = token_of(address);
        Raw peer(address);
        peer.say(hello.bytes());
        for (int i = 0; i < 10000 && peer.heard().size() < kReplyBytes; i++)
            exchange();
        EXPECT_EQ(peer.heard().size(), kReplyBytes);
        peer.say(frame(kGoodbye));
    });
}

TEST(TcpStranger, ComingAndGoingDoesNotDisturb) {
    undisturbed([](const std::string &address, const std::function<void()> &exchange) {
        for (int i = 0; i < 300; i++) {
            Raw stranger(address);
            if (i % 4 == 1) {
                linger hard = {1, 0}; // a reset instead of an end
                setsockopt(stranger.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
            }
            if (i % 4 == 2)
                stranger.say("x");
            if (i % 10 == 0)
                exchange();
        }
    });
}

// Connections wait in the kernel meanwhile, and progress neither hangs nor sends them away.
TEST(TcpStranger, WithoutDescriptorsPeersHaveToWait) {
    Stage stage;
    stage.rank.progress(0);
    rlimit before, tight;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    Raw peer(stage.address);
    tight = before;
    tight.rlim_cur = static_cast<rlim_t>(peer.fd) + 20;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
    std::vector<int> all;
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;)
        all.push_back(fd);
    Hello hello;
    hello.token = token_of(stage.address);
    peer.say(hello.bytes());
    for (int i = 0; i < 200; i++)
        stage.rank.progress(1000);
    EXPECT_FALSE(peer.is_closed());
    EXPECT_TRUE(peer.heard().empty());
    for (int fd : all)
        close(fd);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_TRUE(stage.rank.until([&] { return peer.heard().size() == kReplyBytes; }));
    EXPECT_EQ(get(peer.heard(), 8, 4), 0u);
}

// ---- A stranger where a peer should be ---------------------------------------------------------------

void dial_failure(const Bytes &answer, gcoll_status status, const std::string &text) {
    SCOPED_TRACE(text);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where = {};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof where;
    ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&where), sizeof where), 0);
    ASSERT_EQ(listen(listener, 4), 0);
    ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr *>(&where), &length), 0);
    Rank rank(kTcp, small_options_of(0, 2));
    std::string address = rank.address(), port = field(address, "port");
    std::string there = std::to_string(ntohs(where.sin_port));
    address.replace(address.find("port=" + port) + 5, port.size(), there);
    ASSERT_EQ(kTcp->connect(rank.endpoint, 1, address.c_str()), GCOLL_OK);
    pollfd ready = {listener, POLLIN, 0};
    ASSERT_TRUE(rank.until([&] { return poll(&ready, 1, 0) == 1; }));
    Raw fake(accept(listener, nullptr, nullptr));
    ASSERT_TRUE(rank.until([&] { return fake.heard().size() == kHelloBytes; }));
    EXPECT_EQ(get(fake.heard(), 16, 4), 1u); // to rank 1
    fake.say(answer);
    ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); }));
    EXPECT_EQ(rank.failed[0].status, status);
    EXPECT_EQ(rank.failed[0].text.find(text), 0u) << rank.failed[0].text;
    close(listener);
}

TEST(TcpStranger, AnswersOfSomebodyElseAreNotTrusted) {
    std::string http = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n";
    dial_failure(Bytes(http.begin(), http.end()), GCOLL_ERR_PEER,
                 "sent garbage (no answer to a greeting) at ");
    Reply reply;
    reply.verdict = 17;
    dial_failure(reply.bytes(), GCOLL_ERR_PEER, "sent garbage (an unknown answer to a greeting) at ");
    reply = Reply();
    reply.from = 0;
    dial_failure(reply.bytes(), GCOLL_ERR_PEER, "sent garbage (an answer for another rank or job) at ");
    reply = Reply();
    reply.group[3] ^= 1;
    dial_failure(reply.bytes(), GCOLL_ERR_PEER, "sent garbage (an answer for another rank or job) at ");
    reply = Reply();
    reply.pool = 0;
    dial_failure(reply.bytes(), GCOLL_ERR_PEER, "sent garbage (a welcome with impossible limits) at ");
}

TEST(TcpStranger, RefusalsAreTold) {
    Reply reply;
    reply.verdict = 1;
    reply.version = 9;
    dial_failure(reply.bytes(), GCOLL_ERR_PROTOCOL,
                 "speaks version 9 of the protocol, and this rank version 2");
    reply.verdict = 2;
    dial_failure(reply.bytes(), GCOLL_ERR_PROTOCOL, "is another rank at ");
    reply.verdict = 4;
    dial_failure(reply.bytes(), GCOLL_ERR_PEER, "has given up on this rank");
}

// All addresses of the rank lead to the stranger, and are given up at once.
TEST(TcpStranger, WhereAnotherRankListensNobodyWaits) {
    Rank rank(kTcp, small_options_of(0, 2)), other(kTcp, small_options_of(1, 2));
    std::string address = other.address(), token = field(address, "token");
    std::string wrong = token;
    wrong[0] = wrong[0] == '0' ? '1' : '0';
    address.replace(address.find("token=" + token) + 6, token.size(), wrong);
    ASSERT_EQ(kTcp->connect(rank.endpoint, 1, address.c_str()), GCOLL_OK);
    const auto limit = Clock::now() + std::chrono::seconds(5);
    while (rank.failed.empty() && Clock::now() < limit) {
        rank.progress(0);
        other.progress(0);
    }
    ASSERT_FALSE(rank.failed.empty());
    EXPECT_EQ(rank.failed[0].status, GCOLL_ERR_PEER);
    EXPECT_EQ(rank.failed[0].text.find("does not listen at "), 0u) << rank.failed[0].text;
    EXPECT_NE(rank.failed[0].text.find("where another rank or job does"), std::string::npos)
        << rank.failed[0].text;
    EXPECT_TRUE(other.failed.empty());
}

} // namespace
