// test/transport/tcp_stranger_test.cc - strangers at the port, and where a peer should be.
#include <fcntl.h>
#include <sys/resource.h>

#include "test/transport/raw_peer.h"
#include "test/transport/tcp_support.h"

using namespace raw_peer;

namespace {

using Drive = std::function<void()>;

// Two real ranks of three exchange messages as often as `visit` asks for that, and rank 0 goes on when it
// asks for that.
void undisturbed(
    const std::function<void(const std::string &, const Drive &exchange, const Drive &go_on)> &visit) {
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
    visit(address, exchange, [&] { a.progress(0); });
    exchange();
    a.check();
    b.check();
    EXPECT_TRUE(a.failed.empty());
    EXPECT_TRUE(b.failed.empty());
    EXPECT_TRUE(a.opened.empty());
    a.close();
    ASSERT_TRUE(b.until([&] { return !b.departed.empty(); }));
}

// Drives both real ranks until a condition holds.
auto turn_by(const Drive &exchange) {
    return [&exchange](const std::function<bool()> &condition) {
        for (int i = 0; i < 10000 && !condition(); i++)
            exchange();
        return condition();
    };
}

TEST(TcpStranger, WhoIsSilentDoesNotDisturb) {
    undisturbed([](const std::string &address, const Drive &exchange, const Drive &) {
        Raw silent(address);
        for (int i = 0; i < 20; i++)
            exchange();
        EXPECT_FALSE(silent.is_closed());
    });
}

TEST(TcpStranger, WhoTalksNonsenseIsSentAway) {
    undisturbed([](const std::string &address, const Drive &exchange, const Drive &) {
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
    ASSERT_TRUE(stage.rank.until([&] { return slow.heard().size() == kChallengeBytes; }));
    Transcript said = hello.transcript();
    for (uint8_t byte : said.proof(slow.heard())) {
        EXPECT_EQ(slow.heard().size(), kChallengeBytes);
        slow.say(Bytes{byte});
        stage.rank.progress(0);
    }
    ASSERT_TRUE(stage.rank.until([&] { return slow.heard().size() == kAnswerBytes; }));
    EXPECT_EQ(get(slow.heard(), kChallengeBytes + 8, 4), 0u);
}

// It may be a rank that looks for another one, which has died, and whose port this one has now.
TEST(TcpStranger, WhoLacksGroupOrTokenHearsNoMoreThanThat) {
    Reply refusal;
    refusal.verdict = 5;
    refusal.from = refusal.to = 0;
    refusal.group = Bytes(16, 0);
    refusal.eager = refusal.pool = 0;
    refusal.lanes = Bytes(8, 0);
    undisturbed([&](const std::string &address, const Drive &exchange, const Drive &) {
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
            EXPECT_EQ(stranger.heard(), refusal.untold());
        }
    });
}

TEST(TcpStranger, WhoIsWrongOtherwiseHearsWhy) {
    undisturbed([](const std::string &address, const Drive &exchange, const Drive &) {
        auto verdict = [&](const std::function<void(Hello &)> &change) {
            Hello hello;
            hello.from = 2;
            hello.token = token_of(address);
            change(hello);
            Raw stranger(address);
            return shake(stranger, hello, turn_by(exchange));
        };
        EXPECT_EQ(verdict([](Hello &h) { h.version = 1; }), 1u);
        EXPECT_EQ(verdict([](Hello &h) { h.version = h.oldest = 4; }), 1u);
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
    undisturbed([](const std::string &address, const Drive &exchange, const Drive &) {
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
        EXPECT_EQ(shake(peer, hello, turn_by(exchange)), 0u);
        peer.say(frame(kGoodbye));
    });
}

TEST(TcpStranger, ComingAndGoingDoesNotDisturb) {
    undisturbed([](const std::string &address, const Drive &exchange, const Drive &) {
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
    ASSERT_TRUE(stage.rank.until([&] { return peer.heard().size() == kChallengeBytes; }));
    peer.say(hello.transcript().proof(peer.heard()));
    ASSERT_TRUE(stage.rank.until([&] { return peer.heard().size() == kAnswerBytes; }));
    EXPECT_EQ(get(peer.heard(), kChallengeBytes + 8, 4), 0u);
}

// ---- Somebody who has listened -------------------------------------------------------------------------

// What a real rank of the job says and hears while it connects to another.
struct Recorded {
    Bytes hello, challenge, proof;
};

// Rank 2 of three calls rank 0, and ends before its proof is sent: so it stays unconnected, and may be
// pretended to be.
Recorded record(const std::string &address, const Drive &go_on) {
    Hello hello;
    hello.from = 2;
    hello.token = token_of(address);
    Transcript said = hello.transcript();
    Raw raw(address);
    raw.say(said.hello);
    EXPECT_TRUE(turn_by(go_on)([&] { return raw.heard().size() == kChallengeBytes; }));
    return {said.hello, raw.heard(), said.proof(raw.heard())};
}

// The greeting, the proof, or both may be old ones, changed in a bit, or what the real rank itself has said.
TEST(TcpStranger, RecordedForgedAndReflectedGreetingsAreOfNoUse) {
    constexpr int kTimes = 10000;
    undisturbed([](const std::string &address, const Drive &exchange, const Drive &go_on) {
        const Recorded old = record(address, go_on);
        std::mt19937 random(23);
        int let_in = 0, asked = 0;
        for (int i = 0; i < kTimes; i++) {
            Raw forger(address);
            Bytes hello = old.hello, proof = old.proof;
            if (i % 4 == 1) // changed in one bit
                hello[random() % hello.size()] ^= static_cast<uint8_t>(1u << random() % 8);
            if (i % 4 == 2) // the rank's own bytes, sent back
                hello = old.challenge + Bytes(kHelloBytes - kChallengeBytes, 0);
            forger.say(hello);
            turn_by(go_on)([&] { return forger.heard().size() >= kChallengeBytes || forger.is_closed(); });
            if (i % 100 == 0)
                exchange();
            const Bytes heard = forger.heard();
            if (heard.size() >= kChallengeBytes && heard[5] == 'C') {
                asked++;
                EXPECT_NE(heard, old.challenge) << "a nonce that was used before";
                if (i % 4 == 3) // the challenge's tag in place of the proof's
                    std::copy(heard.end() - kTagBytes, heard.end(), proof.end() - kTagBytes);
                forger.say(proof);
                EXPECT_TRUE(turn_by(go_on)([&] { return forger.is_closed(); }));
                let_in += forger.heard().size() > kChallengeBytes;
            }
        }
        EXPECT_EQ(let_in, 0);
        EXPECT_GT(asked, kTimes / 4) << "recorded greetings must have been answered";
    });
}

// With a secret, whoever reads the store, where the token is, can do no more.
TEST(TcpStranger, WhoKnowsTheTokenLacksTheSecret) {
    const Bytes secret(32, 0x5e);
    gcoll_endpoint_options options = small_options_of(0, 2);
    options.secret = secret.data();
    Stage stage(options);
    auto verdict = [&](const Bytes &known) {
        Hello hello;
        hello.token = token_of(stage.address);
        hello.secret = known;
        Raw raw(stage.address);
        return shake(raw, hello, [&](auto condition) { return stage.rank.until(condition); });
    };
    for (int i = 0; i < 1000; i++) {
        Bytes wrong = i % 2 == 0 ? Bytes() : secret;
        if (i % 2 == 1)
            wrong[static_cast<size_t>(i) % 32] ^= static_cast<uint8_t>(1 << i % 8);
        ASSERT_EQ(verdict(wrong), 99u) << i;
    }
    EXPECT_TRUE(stage.rank.failed.empty());
    EXPECT_EQ(verdict(secret), 0u);
}

// ---- A stranger where a peer should be ---------------------------------------------------------------

// answer: what the stranger says, in its first or second message. knows: it has the key.
void dial_failure(const Reply &reply, bool knows, bool challenges, gcoll_status status,
                  const std::string &text) {
    SCOPED_TRACE(text);
    Listener listener;
    Rank rank(kTcp, small_options_of(0, 2));
    ASSERT_EQ(kTcp->connect(rank.endpoint, 1, with_port(rank.address(), listener.port).c_str()), GCOLL_OK);
    pollfd ready = {listener.fd, POLLIN, 0};
    ASSERT_TRUE(rank.until([&] { return poll(&ready, 1, 0) == 1; }));
    Raw fake(accept(listener.fd, nullptr, nullptr));
    const Bytes key = key_of(token_of(rank.address()));
    auto turn = [&](auto condition) { return rank.until(condition); };
    Transcript said = {key, {}, {}};
    if (challenges) {
        said = challenge(fake, key, turn);
    } else {
        ASSERT_TRUE(turn([&] { return fake.heard().size() == kHelloBytes; }));
        EXPECT_EQ(get(fake.heard(), 16, 4), 1u); // to rank 1
        said.hello = fake.heard();
    }
    fake.say(knows ? reply.bytes(said) : reply.untold());
    ASSERT_TRUE(turn([&] { return !rank.failed.empty(); }));
    EXPECT_EQ(rank.failed[0].status, status);
    EXPECT_EQ(rank.failed[0].text.find(text), 0u) << rank.failed[0].text;
}

TEST(TcpStranger, AnswersOfSomebodyElseAreNotTrusted) {
    Reply reply;
    dial_failure(reply, false, false, GCOLL_ERR_PEER, "sent garbage (an answer without a proof) at ");
    dial_failure(reply, false, true, GCOLL_ERR_PEER, "sent garbage (an answer without a proof) at ");
    dial_failure(reply, true, false, GCOLL_ERR_PEER, "sent garbage (a welcome before the proof) at ");
    reply.verdict = 17;
    dial_failure(reply, true, true, GCOLL_ERR_PEER, "sent garbage (an unknown answer to a greeting) at ");
    reply = Reply();
    reply.from = 0;
    dial_failure(reply, true, true, GCOLL_ERR_PEER, "sent garbage (an answer for another rank or job) at ");
    reply = Reply();
    reply.group[3] ^= 1;
    dial_failure(reply, true, true, GCOLL_ERR_PEER, "sent garbage (an answer for another rank or job) at ");
    reply = Reply();
    reply.pool = 0;
    dial_failure(reply, true, true, GCOLL_ERR_PEER, "sent garbage (a welcome with impossible limits) at ");
}

// A server of another kind, one that sends the greeting back, and one that challenges without the key.
TEST(TcpStranger, WhoDoesNotKnowTheKeyIsNoPeer) {
    const std::string http =
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n";
    const Bytes magic = {'g', 'c', 'o', 'l', 'l', 'C', 'H', 0};
    for (int kind = 0; kind < 3; kind++) {
        Listener listener;
        Rank rank(kTcp, small_options_of(0, 2));
        ASSERT_EQ(kTcp->connect(rank.endpoint, 1, with_port(rank.address(), listener.port).c_str()),
                  GCOLL_OK);
        pollfd ready = {listener.fd, POLLIN, 0};
        ASSERT_TRUE(rank.until([&] { return poll(&ready, 1, 0) == 1; }));
        Raw fake(accept(listener.fd, nullptr, nullptr));
        ASSERT_TRUE(rank.until([&] { return fake.heard().size() == kHelloBytes; }));
        fake.say(kind == 0   ? Bytes(http.begin(), http.end()) + Bytes(kReplyBytes, 0)
                 : kind == 1 ? fake.heard()
                             : magic + Bytes(kChallengeBytes - magic.size(), 0x77));
        ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); }));
        EXPECT_EQ(rank.failed[0].status, GCOLL_ERR_PEER);
        const std::string text = kind == 2 ? "sent garbage (a challenge without a proof) at "
                                           : "sent garbage (no answer to a greeting) at ";
        EXPECT_EQ(rank.failed[0].text.find(text), 0u) << rank.failed[0].text;
    }
}

TEST(TcpStranger, RefusalsAreTold) {
    Reply reply;
    reply.verdict = 1;
    reply.version = 9;
    dial_failure(reply, true, false, GCOLL_ERR_PROTOCOL,
                 "speaks version 9 of the protocol, and this rank version 3");
    reply.verdict = 2;
    dial_failure(reply, true, false, GCOLL_ERR_PROTOCOL, "is another rank at ");
    reply.verdict = 4;
    dial_failure(reply, true, true, GCOLL_ERR_PEER, "has given up on this rank");
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
