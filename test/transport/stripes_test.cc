// test/transport/stripes_test.cc - the lane tcp with several connections: what two ranks agree on, what goes
// by them, and what is taken from peers and strangers.
#include <fcntl.h>
#include <linux/filter.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "test/transport/raw_peer.h"

extern "C" {
#include "transport/session/branch.h"
#include "transport/tcp/stripes.h"
}

using namespace raw_peer;

namespace {

constexpr uint64_t kStripe = 240240;
constexpr uint8_t kStriped = 12, kOneStripe = 14, kStripes = 3; // kinds of frames, and the number of the lane

struct Connections {
    explicit Connections(std::vector<uint32_t> counts) { connections_of_ranks = std::move(counts); }
    ~Connections() { connections_of_ranks.clear(); }
};

gcoll_session *session_of(Rank &rank, uint32_t peer) {
    return gcoll_net_session(gcoll_net_of(rank.endpoint), peer);
}

std::string lane(Rank &rank, uint32_t peer) {
    char text[512];
    kTcp->explain(rank.endpoint, peer, text, sizeof text);
    return text;
}

// ---- Two ranks --------------------------------------------------------------------------------------------

TEST(Stripes, TheSmallerNumberCounts) {
    const struct {
        uint32_t counts[2];
        const char *lanes[2];
    } rows[] = {
        {{4, 2}, {"tcp over 2 connections", "tcp over 2 connections"}},
        {{2, 16}, {"tcp over 2 connections", "tcp over 2 connections"}},
        {{16, 16}, {"tcp over 16 connections", "tcp over 16 connections"}},
        {{3, 1}, {"tcp (tcp:connections: the other rank does not offer it)", "tcp"}},
        {{1, 3}, {"tcp", "tcp (tcp:connections: the other rank does not offer it)"}},
        {{1, 1}, {"tcp", "tcp"}},
    };
    for (const auto &row : rows)
        for (uint32_t dialer : {0u, 1u}) {
            Connections counts({row.counts[0], row.counts[1]});
            Group group(striped(), 2);
            group.connect(dialer, 1 - dialer);
            for (uint32_t r : {0u, 1u}) {
                group[r].send(1 - r, 1, 0, 3 * kStripe + 5);
                group[r].receive(1 - r, 1, 0, 3 * kStripe + 5);
            }
            ASSERT_TRUE(group.turn_until_done());
            for (uint32_t r : {0u, 1u}) {
                EXPECT_EQ(lane(group[r], 1 - r), row.lanes[r]);
                group[r].check();
            }
        }
}

// All sizes of elements; those that end in a stripe and those that do not; with and without checksums.
TEST(Stripes, EverySizeAndGranuleArrives) {
    for (bool checksum : {false, true}) {
        setenv("GCOLL_TEST_CHECKSUM", checksum ? "1" : "0", 1);
        Group group(striped(), 2);
        unsetenv("GCOLL_TEST_CHECKSUM");
        group.connect(0, 1);
        uint32_t index = 0;
        for (uint32_t granule : {0u, 1u, 3u, 7u, 8u, 9u, 16u})
            for (uint64_t bytes :
                 {kStripe, kStripe + 1, 2 * kStripe, 5 * kStripe + 720720 / 2, 7 * kStripe - 1}) {
                const uint64_t whole = granule ? bytes - bytes % granule : bytes;
                group[0].send(1, 1, index, whole, index % 5 == 0);
                group[1].receive(0, 1, index++, whole, granule);
            }
        ASSERT_TRUE(group.turn_until_done()) << group[1].done;
        group[1].check();
        EXPECT_TRUE(group[1].changed.empty());
        EXPECT_EQ(group[1].opened.size(), index / 5);
    }
}

TEST(Stripes, BothWaysAtOnceInThreads) {
    Group group(striped(), 3);
    group.each([&](Rank &rank) {
        group.connect(rank);
        for (uint32_t i = 0; i < 8; i++)
            for (uint32_t peer = 0; peer < 3; peer++)
                if (peer != rank.rank) {
                    rank.send(peer, 1, i, i * 100008, i == 7);
                    rank.receive(peer, 1, i, i * 100008, i % 2 ? 4 : 0);
                }
        EXPECT_TRUE(rank.until_done());
        rank.check();
    });
}

TEST(Stripes, AReceiveOfAnySizeTakesThem) {
    Group group(striped(), 2);
    group.connect(0, 1);
    const uint64_t sent[] = {3 * kStripe + 1, 4 * kStripe, 9 * kStripe},
                   room[] = {6 * kStripe, 4 * kStripe, 1000};
    for (uint32_t i = 0; i < 3; i++) {
        group[1].receive_any_size(0, 1, i, room[i]);
        group[0].send(1, 1, i, sent[i]);
    }
    ASSERT_TRUE(group.turn_until_done());
    for (uint32_t i = 0; i < 3; i++) {
        const Message &message = *group[1].messages[i];
        EXPECT_EQ(message.m.bytes, sent[i]);
        const bool fits = sent[i] <= room[i];
        for (uint64_t k = 0; k < (fits ? sent[i] : room[i]); k += 997)
            ASSERT_EQ(message.bytes[k], fits ? pattern(0, 1, 1, i, k) : kUnwritten) << k;
    }
}

TEST(Stripes, WhatIsDoneBeforeClosingArrives) {
    for (int i = 0; i < 3; i++) {
        Group group(striped(), 2);
        group.connect(0, 1);
        group[0].send(1, 1, 0, 20 * kStripe);
        group[1].receive(0, 1, 0, 20 * kStripe);
        std::thread leaver([&] {
            EXPECT_TRUE(group[0].until_done());
            group[0].close();
        });
        EXPECT_TRUE(group[1].until([&] { return !group[1].departed.empty() || !group[1].failed.empty(); }));
        leaver.join();
        EXPECT_TRUE(group[1].failed.empty());
        EXPECT_EQ(group[1].done, 1u) << "the goodbye came before the data";
        group[1].check();
    }
}

TEST(Stripes, ADepartureAmidAMessageIsTold) {
    Group group(striped(), 2);
    group.connect(0, 1);
    group[0].send(1, 1, 0, 400 * kStripe);
    group[1].receive(0, 1, 0, 400 * kStripe);
    ASSERT_TRUE(group.turn([&] { return kTcp->moves(group[1].endpoint) > 0; })); // a few MB of 96
    std::thread leaver([&] { group[0].close(); });
    EXPECT_TRUE(group[1].until([&] { return !group[1].departed.empty() || !group[1].failed.empty(); }));
    leaver.join();
    EXPECT_TRUE(group[1].failed.empty());
    EXPECT_EQ(group[1].done, 0u);
}

TEST(Stripes, AnAbortReachesAPeerThatReceives) {
    Group group(striped(), 2);
    group.connect(0, 1);
    group[0].send(1, 1, 0, 400 * kStripe);
    group[1].receive(0, 1, 0, 400 * kStripe);
    ASSERT_TRUE(group.turn([&] { return kTcp->moves(group[1].endpoint) > 0; })); // a few MB of 96
    gcoll_note note = note_of(GCOLL_ERR_ABORTED, 0, "enough");
    kTcp->abort(group[0].endpoint, &note, 1000);
    ASSERT_TRUE(group[1].until([&] { return !group[1].aborted.empty(); }));
    EXPECT_STREQ(group[1].aborted[0].note.text, "enough");
    EXPECT_EQ(group[1].done, 0u);
}

// The memory of a message that is reduced when all of it has come: a part of an element is none.
TEST(Stripes, ARestThatIsNoElementIsNotReduced) {
    Group group(striped(), 2);
    group.connect(0, 1);
    const uint64_t bytes = 2 * kStripe + 4;
    for (uint32_t granule : {9u, 8u, 16u}) {
        group[0].send(1, 1, granule, bytes);
        Message &message = group[1].receive(0, 1, granule, bytes, granule);
        ASSERT_TRUE(group.turn_until_done());
        EXPECT_EQ(message.consumed, bytes - bytes % granule);
    }
}

// In a forked child, and under AddressSanitizer, which finds what is not freed.
TEST(Stripes, AnAbandonedEndpointIsFreed) {
    Group group(striped(), 2);
    group.connect(0, 1);
    for (uint32_t r : {0u, 1u}) {
        group[r].send(1 - r, 1, 0, 3 * kStripe);
        group[r].receive(1 - r, 1, 0, 3 * kStripe);
    }
    ASSERT_TRUE(group.turn_until_done());
    kTcp->abandon(group[0].endpoint);
    group[0].endpoint = nullptr;
}

// ---- A peer of ours ---------------------------------------------------------------------------------------

gcoll_endpoint_options raw_options(int64_t connect_ms = 10000) {
    gcoll_endpoint_options options = small_options_of(0, 2);
    options.connect_timeout_ms = connect_ms;
    return options;
}

Bytes word(const Bytes &said) {
    return frame(kLane, 0, kStripes, 0, static_cast<uint32_t>(said.size())) + said;
}

Bytes stripe(uint64_t stream, uint32_t index, uint64_t offset, uint32_t bytes) {
    Bytes all = frame(kOneStripe, stream, index, offset, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        all.push_back(pattern(1, 0, stream, index, offset + i));
    return all;
}

// Says more than may fit the kernel's buffers, while the rank reads.
void pour(Rank &rank, Raw &raw, const Bytes &bytes) {
    for (size_t said = 0; said < bytes.size();) {
        const ssize_t n = send(raw.fd, bytes.data() + said, bytes.size() - said, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return; // the other side had enough
        said += n > 0 ? static_cast<size_t>(n) : 0;
        rank.progress(0);
    }
}

// Rank 0 is real, and asks for 3 connections; rank 1 asks for 2, and connects to it.
struct Scene {
    explicit Scene(int64_t connect_ms = 10000)
        : rank(striped(), raw_options(connect_ms)), address(rank.address()) {}

    // Greets as a session; takes the token from rank 0's word.
    void meet() {
        session = std::make_unique<Raw>(address);
        Hello hello;
        hello.token = token_of(address);
        hello.lanes = {kStripes, 1, 0, 0, 0, 0, 0, 0};
        ASSERT_EQ(shake(
                      *session, hello, [&](auto condition) { return rank.until(condition); }, &meeting),
                  0u);
        ASSERT_TRUE(rank.until([&] { return session->heard().size() >= kAnswerBytes + 32 + 20; }));
        const Bytes &heard = session->heard();
        EXPECT_EQ(heard[kChallengeBytes + 56], kStripes) << "it is offered first";
        EXPECT_EQ(heard[kChallengeBytes + 57], 1);
        EXPECT_EQ(heard[kAnswerBytes + 3], kLane);
        const Bytes said(heard.begin() + kAnswerBytes + 32, heard.begin() + kAnswerBytes + 52);
        EXPECT_EQ(said[0], 1);
        EXPECT_EQ(said[1], 3);
        token.assign(said.begin() + 4, said.end());
        session->say(word(Bytes{1, 2, 0, 0} + Bytes(16, 0x99)));
    }
    Bytes greeting(uint32_t number) const {
        Bytes all = {'g', 'c', 'o', 'l', 'l', 'S', 'T', 0};
        put(all, kVersion, 4);
        put(all, 1, 4); // from
        put(all, 0, 4); // to
        put(all, number, 4);
        all = all + kRawGroup + Bytes(16, 0x55) + Bytes(24, 0);
        return all + hmac(key(), "hello", all);
    }
    Bytes key() const { return hmac(meeting.session_key(), "gcoll key within a session", token); }
    // Greets so, and gives the proof if it is asked for.
    std::unique_ptr<Raw> attach(const Bytes &said) {
        auto raw = std::make_unique<Raw>(address);
        raw->say(said);
        prove(rank, *raw, said);
        return raw;
    }
    void prove(Rank &called, Raw &raw, const Bytes &said) const {
        Transcript all = {key(), said, {}};
        called.until([&] { return raw.heard().size() >= kChallengeBytes || raw.is_closed(); });
        if (raw.heard().size() == kChallengeBytes)
            raw.say(all.proof(raw.heard()));
    }
    bool is_ready() {
        const Bytes &heard = session->heard();
        const size_t at = kAnswerBytes + 52;
        return heard.size() >= at + 36 && heard[at + 3] == kLane && heard[at + 32] == 2;
    }
    void stand() {
        meet();
        one = attach(greeting(1));
        two = attach(greeting(2));
        ASSERT_TRUE(rank.until([&] { return is_ready(); }));
        EXPECT_EQ(lane(rank, 1), "tcp over 2 connections");
    }
    void expect_garbage(const std::string &why) {
        ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); })) << why;
        EXPECT_EQ(rank.failed[0].status, GCOLL_ERR_PROTOCOL);
        EXPECT_EQ(rank.failed[0].text, "sent garbage (" + why + ")");
    }
    void say(const std::unique_ptr<Raw> &raw, const Bytes &bytes) { pour(rank, *raw, bytes); }
    void turn(int times = 50) {
        for (int i = 0; i < times; i++)
            rank.progress(200);
    }
    // Drives the rank for so long.
    void spend(int ms) {
        const auto until = Clock::now() + std::chrono::milliseconds(ms);
        while (Clock::now() < until)
            rank.progress(2000);
    }
    // Makes the rank wait for a message that never comes.
    void want() { rank.receive(1, 77, 0, 8); }
    // The kernel takes as much of a granted message as it can; nobody reads it.
    void fill(uint64_t stream, uint64_t bytes) {
        rank.send(1, stream, 0, bytes);
        session->say(frame(kGrant, stream, 0));
        ASSERT_TRUE(rank.until([&] {
            for (uint32_t i = 0; i < 2; i++)
                if (!each(i).out.message || each(i).out.written == 0)
                    return false;
            return true;
        }));
        turn();
    }
    gcoll_stripe &each(uint32_t i) { return gcoll_stripes_of(session_of(rank, 1))->each[i]; }
    void expect_lack(const std::string &why) {
        ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); })) << why;
        EXPECT_EQ(rank.failed[0].status, GCOLL_ERR_NO_MEMORY);
        EXPECT_EQ(rank.failed[0].text.substr(0, why.size()), why);
    }

    // Closes the endpoint in a thread of its own; it has much time.
    std::thread close() {
        gcoll_endpoint *endpoint = rank.endpoint;
        rank.endpoint = nullptr;
        return std::thread([endpoint] { kTcp->close(endpoint, 60000); });
    }
    // While the endpoint closes: whether the peer sees something in time, or within moments.
    template <class Condition> bool comes(Condition condition) { return comes_within(kPatience, condition); }
    template <class Condition> bool comes_early(Condition condition) {
        return comes_within(std::chrono::milliseconds(200), condition);
    }
    template <class Condition> static bool comes_within(Clock::duration time, Condition condition) {
        const auto until = Clock::now() + time;
        while (!condition())
            if (Clock::now() >= until)
                return false;
        return true;
    }
    bool says_goodbye() const {
        const Bytes &heard = session->heard();
        return heard.size() >= 32 && heard[heard.size() - 29] == kGoodbye && heard[heard.size() - 32] == 0x63;
    }

    Rank rank;
    std::string address;
    Bytes token;
    Transcript meeting;
    std::unique_ptr<Raw> session, one, two;
};

TEST(StripesPeer, StripesComeInAnyOrderByAnyConnection) {
    Scene scene;
    scene.rank.receive(1, 5, 0, 3 * kStripe + 7, 0);
    Message &consumed = scene.rank.receive(1, 5, 1, 2 * kStripe, 8);
    scene.stand();
    scene.session->say(frame(kStriped, 5, 0, 3 * kStripe + 7) + frame(kStriped, 5, 1, 2 * kStripe));
    scene.say(scene.two, stripe(5, 0, 3 * kStripe, 7) + stripe(5, 1, kStripe, kStripe));
    scene.say(scene.one, stripe(5, 0, kStripe, kStripe) + stripe(5, 0, 0, kStripe));
    scene.turn();
    EXPECT_EQ(scene.rank.done, 0u);
    EXPECT_EQ(consumed.consumed, kStripe);
    scene.say(scene.two, stripe(5, 0, 2 * kStripe, kStripe) + stripe(5, 1, 0, kStripe));
    ASSERT_TRUE(scene.rank.until_done());
    scene.rank.check();
}

// A stripe is ahead of the word that its message begins; the connection waits, and nothing else does.
TEST(StripesPeer, AStripeWaitsForItsMessageToBegin) {
    Scene scene;
    scene.rank.receive(1, 5, 0, 2 * kStripe);
    scene.rank.receive(1, 6, 0, 2 * kStripe);
    scene.stand();
    Bytes first(1000);
    for (size_t i = 0; i < first.size(); i++)
        first[i] = pattern(1, 0, 5, 0, kStripe + i);
    scene.one->say(frame(kOneStripe, 5, 0, kStripe, kStripe) + first);
    scene.turn();
    EXPECT_TRUE(scene.rank.failed.empty());
    scene.session->say(frame(kStriped, 6, 0, 2 * kStripe));
    scene.say(scene.two, stripe(6, 0, kStripe, kStripe) + stripe(6, 0, 0, kStripe));
    ASSERT_TRUE(scene.rank.until([&] { return scene.rank.done == 1; }));
    scene.session->say(frame(kStriped, 5, 0, 2 * kStripe));
    scene.turn(5);
    Bytes rest(kStripe - 1000, 0);
    for (size_t i = 0; i < rest.size(); i++)
        rest[i] = pattern(1, 0, 5, 0, kStripe + 1000 + i);
    scene.say(scene.one, rest + stripe(5, 0, 0, kStripe));
    ASSERT_TRUE(scene.rank.until_done());
    scene.rank.check();
}

TEST(StripesPeer, ForgedStripesAreGarbage) {
    const uint64_t total = 2 * kStripe + 100;
    const std::string misfit = "a stripe that does not fit its message",
                      unknown = "a stripe of a message that was not granted",
                      size = "a stripe of a size that is not allowed";
    const auto header = [](uint64_t offset, uint64_t bytes) {
        return frame(kOneStripe, 5, 0, offset, static_cast<uint32_t>(bytes));
    };
    Bytes credit = header(0, kStripe), magic = credit, version = credit, kind = credit;
    credit[28] = 1;
    magic[0] ^= 1;
    version[2] ^= 1;
    kind[3] = kData;
    const struct {
        Bytes said;
        std::string why;
    } rows[] = {
        {header(1, kStripe), misfit},
        {header(kStripe, kStripe - 1), misfit},
        {header(0, 1), misfit},
        {header(2 * kStripe, 101), misfit},
        {header(2 * kStripe, 99), misfit},
        {header(2 * kStripe, kStripe), misfit},
        {header(3 * kStripe, 1), misfit},
        {header(UINT64_MAX - UINT64_MAX % kStripe, 1), misfit},
        {header(UINT64_MAX, kStripe), misfit},
        {header(0, 0), size},
        {header(0, kStripe + 1), size},
        {header(0, UINT32_MAX), size},
        {frame(kOneStripe, 5, 1, 0, kStripe), unknown},
        {frame(kOneStripe, 6, 0, 0, kStripe), unknown},
        {frame(kOneStripe, 7, 0, 0, 64), unknown}, // has a receive, small and not granted
        {stripe(5, 0, 0, kStripe) + header(0, kStripe), "a stripe twice"},
        {credit, "a stripe with credit"},
        {magic, "a frame without its magic number"},
        {version, "a frame of another version"},
        {kind, "a frame that is no stripe"},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.why);
        Scene scene;
        scene.rank.receive(1, 5, 0, total);
        scene.rank.receive(1, 7, 0, 64);
        scene.stand();
        scene.session->say(frame(kStriped, 5, 0, total));
        scene.turn(5);
        scene.say(scene.one, row.said);
        scene.expect_garbage(row.why);
        EXPECT_EQ(scene.rank.done, 0u);
    }
}

// The same stripe by two connections, one of which has not ended.
TEST(StripesPeer, AClaimCountsFromTheFirstByteOn) {
    Scene scene;
    scene.rank.receive(1, 5, 0, 2 * kStripe);
    scene.stand();
    scene.session->say(frame(kStriped, 5, 0, 2 * kStripe));
    scene.turn(5);
    scene.one->say(frame(kOneStripe, 5, 0, kStripe, kStripe) + Bytes(10, 0));
    scene.turn(5);
    scene.two->say(frame(kOneStripe, 5, 0, kStripe, kStripe) + Bytes(10, 0));
    scene.expect_garbage("a stripe twice");
}

TEST(StripesPeer, WrongFramesOfTheSessionAreGarbage) {
    const struct {
        Bytes said;
        std::string why;
    } rows[] = {
        {frame(kStriped, 5, 0, kStripe), "a striped message of a size that is not allowed"},
        {frame(kStriped, 5, 0, kStripe << 21), "a striped message of a size that is not allowed"},
        {frame(kStriped, 6, 0, 2 * kStripe), "a message that was not granted"},
        {frame(kStriped, 7, 0, 2 * kStripe), "a message that was not granted"},
        {frame(kStriped, 5, 0, 2 * kStripe) + frame(kStriped, 5, 0, 2 * kStripe), "a message twice"},
        {frame(kStriped, 5, 0, 2 * kStripe) + frame(kData, 5, 0, 2 * kStripe, 100) + Bytes(100, 0),
         "a fragment that does not fit its message"},
        {frame(kStriped | kAhead, 5, 0, 2 * kStripe), "a message whose fingerprint did not come"},
        {frame(kOneStripe, 5, 0, 0, 100), "a frame of unknown kind"},
        {word(Bytes{2, 0, 0, 0}), "a word of connections that does not fit"},
        {word(Bytes{1, 2, 0, 0} + Bytes(16, 1)), "a word of connections that does not fit"},
        {word(Bytes{}), "a word of connections that does not fit"},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.why);
        Scene scene;
        scene.rank.receive(1, 5, 0, 2 * kStripe);
        scene.rank.receive(1, 7, 0, 64);
        scene.stand();
        scene.session->say(row.said);
        scene.expect_garbage(row.why);
    }
    Stage plain;
    plain.rank.receive(1, 5, 0, 2 * kStripe);
    auto peer = plain.peer();
    peer->say(frame(kStriped, 5, 0, 2 * kStripe));
    plain.expect_garbage("a striped message where there is one connection");
}

TEST(StripesPeer, AMessageOfAnotherSizeIsAMismatch) {
    Scene scene;
    scene.rank.receive(1, 5, 0, 2 * kStripe);
    scene.stand();
    scene.session->say(frame(kStriped, 5, 0, 3 * kStripe));
    ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.failed.empty(); }));
    EXPECT_EQ(scene.rank.failed[0].status, GCOLL_ERR_MISMATCH);
}

TEST(StripesPeer, OnlyTheRightKeyAttaches) {
    Scene scene;
    scene.meet();
    std::vector<std::unique_ptr<Raw>> strangers;
    for (size_t at = 8; at < kHelloBytes; at += at < 24 ? 4 : 9) {
        Bytes bad = scene.greeting(1);
        bad[at] ^= 0x10;
        strangers.push_back(scene.attach(bad));
    }
    for (uint32_t number : {0u, 3u, 17u, UINT32_MAX})
        strangers.push_back(scene.attach(scene.greeting(number)));
    const Bytes right = scene.token; // that of the address is no secret of this session
    scene.token = token_of(scene.address);
    strangers.push_back(scene.attach(scene.greeting(1)));
    scene.token = right;
    for (auto &stranger : strangers) {
        ASSERT_TRUE(scene.rank.until([&] { return stranger->is_closed(); }));
        EXPECT_TRUE(stranger->heard().empty());
    }
    Raw again(scene.address); // a recorded greeting is right, and then the proof is missing
    again.say(scene.greeting(1));
    ASSERT_TRUE(scene.rank.until([&] { return again.heard().size() == kChallengeBytes; }));
    again.say(Bytes{'g', 'c', 'o', 'l', 'l', 'P', 'R', 0} + Bytes(kTagBytes, 0));
    ASSERT_TRUE(scene.rank.until([&] { return again.is_closed(); }));
    EXPECT_FALSE(scene.is_ready());
    scene.one = scene.attach(scene.greeting(1));
    scene.two = scene.attach(scene.greeting(2));
    ASSERT_TRUE(scene.rank.until([&] { return scene.is_ready(); }));
    auto late = scene.attach(scene.greeting(1)); // all are there: nobody replaces one
    ASSERT_TRUE(scene.rank.until([&] { return late->is_closed(); }));
    scene.rank.receive(1, 5, 0, 2 * kStripe);
    scene.session->say(frame(kStriped, 5, 0, 2 * kStripe));
    scene.say(scene.one, stripe(5, 0, 0, kStripe));
    scene.say(scene.two, stripe(5, 0, kStripe, kStripe));
    ASSERT_TRUE(scene.rank.until_done());
    scene.rank.check();
}

TEST(StripesPeer, AConnectionThatIsLostEarlyMayBeMadeAgain) {
    Scene scene;
    scene.meet();
    scene.one = scene.attach(scene.greeting(1));
    scene.turn(5);
    scene.one->shut();
    scene.turn(5);
    scene.two = scene.attach(scene.greeting(2));
    scene.turn(5);
    EXPECT_FALSE(scene.is_ready());
    scene.one = scene.attach(scene.greeting(1));
    ASSERT_TRUE(scene.rank.until([&] { return scene.is_ready(); }));
}

TEST(StripesPeer, AKilledConnectionBreaksThePair) {
    for (bool hard : {false, true})
        for (bool midway : {false, true}) {
            Scene scene;
            scene.rank.receive(1, 5, 0, 2 * kStripe);
            scene.stand();
            scene.session->say(frame(kStriped, 5, 0, 2 * kStripe));
            if (midway)
                scene.two->say(frame(kOneStripe, 5, 0, 0, kStripe) + Bytes(1000, 1));
            scene.turn(5);
            linger reset = {1, 0};
            if (hard)
                setsockopt(scene.two->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            scene.two->shut();
            ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.failed.empty(); }));
            EXPECT_EQ(scene.rank.failed[0].status, GCOLL_ERR_PEER);
            EXPECT_EQ(scene.rank.failed[0].text, "closed connection 2 of 2 for large messages");
            EXPECT_EQ(scene.rank.done, 0u);
        }
}

// The session knows better why: it left, it aborted, or it is gone.
TEST(StripesPeer, NewsOfTheSessionComesBeforeALostConnection) {
    for (int how = 0; how < 3; how++) {
        Scene scene;
        scene.stand();
        scene.one->shut();
        scene.turn(5);
        if (how == 0)
            scene.session->say(frame(kGoodbye));
        const std::string why = "why";
        if (how == 1)
            scene.session->say(frame(kAbort, GCOLL_ERR_TIMEOUT, 1, 0, 3) + Bytes(why.begin(), why.end()));
        if (how != 1)
            scene.session->shut();
        ASSERT_TRUE(scene.rank.until([&] {
            return !scene.rank.failed.empty() || !scene.rank.departed.empty() || !scene.rank.aborted.empty();
        }));
        EXPECT_EQ(scene.rank.departed.size(), how == 0 ? 1u : 0u);
        EXPECT_EQ(scene.rank.aborted.size(), how == 1 ? 1u : 0u);
        EXPECT_EQ(scene.rank.failed.size(), how == 2 ? 1u : 0u);
        if (how == 2)
            EXPECT_EQ(scene.rank.failed[0].text, "closed the connection");
    }
}

// What had come counts, although the rank reads the goodbye first.
TEST(StripesPeer, DataCountBeforeADepartureOrAnAbort) {
    for (bool aborts : {false, true}) {
        Scene scene;
        scene.stand();
        scene.rank.receive(1, 5, 0, 2 * kStripe);
        std::vector<std::string> log;
        scene.rank.log = [&](const std::string &line) { log.push_back(line); };
        scene.turn(5); // the grant
        for (const auto &raw : {&scene.one, &scene.two}) {
            const int most = 1 << 20; // room for a stripe that nobody reads
            ASSERT_EQ(setsockopt((*raw)->fd, SOL_SOCKET, SO_SNDBUF, &most, sizeof most), 0);
        }
        std::thread other([&] {
            scene.one->say(stripe(5, 0, 0, kStripe));
            scene.two->say(stripe(5, 0, kStripe, kStripe));
            const std::string why = "why";
            scene.session->say(
                frame(kStriped, 5, 0, 2 * kStripe) +
                (aborts ? frame(kAbort, GCOLL_ERR_TIMEOUT, 1, 0, 3) + Bytes(why.begin(), why.end())
                        : frame(kGoodbye)));
            if (!aborts)
                shutdown(scene.session->fd, SHUT_WR);
        });
        other.join(); // all is in the kernel
        ASSERT_TRUE(scene.rank.until([&] {
            return !scene.rank.departed.empty() || !scene.rank.aborted.empty() || !scene.rank.failed.empty();
        }));
        ASSERT_EQ(log.size(), 2u);
        EXPECT_EQ(log[0], "0 received 1 5 0");
        EXPECT_EQ(log[1], aborts ? "0 aborted 1 0 0" : "0 departed 1 0 0");
        scene.rank.check();
    }
}

// The last stripes are on their way when the peer's session has ended: it has left in good order, and its
// kernel still sends.
TEST(StripesPeer, DataThatComeAfterTheGoodbyeCountBeforeTheDeparture) {
    Scene scene;
    scene.rank.receive(1, 5, 0, 3 * kStripe, 8);
    scene.stand();
    std::vector<std::string> log;
    scene.session->say(frame(kStriped, 5, 0, 3 * kStripe) + frame(kGoodbye));
    shutdown(scene.session->fd, SHUT_WR);
    scene.say(scene.one, stripe(5, 0, 0, kStripe));
    scene.one->shut();
    ASSERT_TRUE(scene.rank.until([&] {
        return !scene.rank.departed.empty() ||
               (session_of(scene.rank, 1)->lane.awaits_rest && !scene.each(0).socket);
    }));
    scene.turn();
    ASSERT_TRUE(scene.rank.departed.empty());
    scene.rank.log = [&](const std::string &line) {
        if (line.find("consumes") == std::string::npos)
            log.push_back(line);
    };
    scene.say(scene.two, stripe(5, 0, 2 * kStripe, kStripe) + stripe(5, 0, kStripe, kStripe));
    ASSERT_TRUE(scene.rank.until([&] { return !log.empty() && log.back() != "0 received 1 5 0"; }));
    ASSERT_EQ(log.size(), 2u);
    EXPECT_EQ(log[0], "0 received 1 5 0");
    EXPECT_EQ(log[1], "0 departed 1 0 0");
    scene.rank.check();
}

// The rest does not come: the peer left amid the message. It departs at the end of all streams, or when
// nothing has come for some time; or this rank leaves, too.
TEST(StripesPeer, ADepartureWaitsForNoMoreThanCanCome) {
    enum { kEnds, kTime, kAborts, kCloses, kHows };
    for (int how = 0; how < kHows; how++) {
        SCOPED_TRACE(how);
        Scene scene;
        scene.rank.receive(1, 5, 0, 3 * kStripe);
        scene.stand();
        scene.fill(6, 60 * kStripe);
        scene.session->say(frame(kStriped, 5, 0, 3 * kStripe) + frame(kGoodbye));
        shutdown(scene.session->fd, SHUT_WR);
        gcoll_session *session = session_of(scene.rank, 1);
        ASSERT_TRUE(
            scene.rank.until([&] { return session->lane.awaits_rest || !scene.rank.departed.empty(); }));
        scene.turn(5);
        ASSERT_TRUE(scene.rank.departed.empty());
        const auto begun = Clock::now();
        const gcoll_note note = note_of(GCOLL_ERR_ABORTED, 0, "enough");
        if (how == kEnds)
            for (const auto &raw : {&scene.one, &scene.two})
                shutdown((*raw)->fd, SHUT_WR);
        else if (how == kTime)
            session->lane.rest_until_ms = 0;
        else if (how == kAborts)
            kTcp->abort(scene.rank.endpoint, &note, 15000);
        else
            kTcp->close(scene.rank.endpoint, 15000);
        if (how == kCloses)
            scene.rank.endpoint = nullptr;
        if (how < kAborts)
            ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.departed.empty(); }));
        EXPECT_LT(Clock::now() - begun, std::chrono::milliseconds(how < kAborts ? 4000 : 10000));
        EXPECT_TRUE(scene.rank.failed.empty());
        EXPECT_EQ(scene.rank.done, 0u);
    }
}

// The session may tell the cause behind a backlog of data.
TEST(StripesPeer, ADoubtLastsWhileTheSessionDelivers) {
    Scene scene;
    scene.stand();
    scene.one->shut();
    gcoll_session *session = session_of(scene.rank, 1);
    ASSERT_TRUE(scene.rank.until([&] { return session->lane.in_doubt; }));
    for (int i = 0; i < 5; i++) {
        const uint64_t before = session->lane.doubt_heard;
        Bytes many;
        for (int k = 0; k < 200; k++)
            many = many + frame(kPing, 0, 0, 0);
        scene.session->say(many);
        ASSERT_TRUE(scene.rank.until([&] { return session->heard - before >= many.size(); }));
        session->lane.doubt_until_ms = 0;
        scene.turn(5);
        ASSERT_TRUE(scene.rank.failed.empty());
    }
    scene.session->say(frame(kPing)); // a sign of life is no backlog
    session->lane.doubt_until_ms = 0;
    ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.failed.empty(); }));
    EXPECT_EQ(scene.rank.failed[0].text, "closed connection 1 of 2 for large messages");
}

TEST(StripesPeer, WhatTheKernelLacksIsThisRanksOwnFault) {
    Scene scene;
    scene.stand();
    gcoll_stripe_lost(&scene.each(1), ENOMEM);
    scene.expect_lack("cannot read what rank 1 sends: ");
}

// A word on the session overtakes data that wait there. It must not overtake a fingerprint of its stream.
TEST(StripesPeer, AFingerprintIsNotOvertaken) {
    Scene scene;
    scene.stand();
    const size_t before = scene.session->heard().size();
    scene.session->say(frame(kGrant, 5, 1) + frame(kGrant, 6, 1));
    ASSERT_TRUE(scene.rank.until([&] { return session_of(scene.rank, 1)->flow.promised == 2; }));
    scene.rank.send(1, 5, 0, 100, true);
    scene.rank.send(1, 5, 1, 2 * kStripe);
    scene.rank.send(1, 6, 1, 2 * kStripe);
    const auto kind_at = [&](size_t at) { return scene.session->heard()[before + at + 3]; };
    const size_t whole = 32 + 32 + 32 + 100 + 32 + 2 * kStripe;
    ASSERT_TRUE(scene.rank.until([&] { return scene.session->heard().size() >= before + whole; }));
    EXPECT_EQ(kind_at(0), kStriped) << "of the other stream";
    EXPECT_EQ(get(scene.session->heard(), before + 8, 8), 6u);
    EXPECT_EQ(kind_at(32), kData | kOpen | kCredited);
    EXPECT_EQ(kind_at(32 + 64 + 100), kData);
    EXPECT_EQ(get(scene.session->heard(), before + 32 + 64 + 100 + 8, 8), 5u);
}

// Both connections are reset while this rank leaves: nothing that it has sent will arrive any more.
TEST(StripesPeer, LeavingDoesNotWaitForConnectionsThatAreGone) {
    Scene scene;
    scene.stand();
    scene.fill(5, 60 * kStripe);
    const linger reset = {1, 0};
    for (const auto &raw : {&scene.one, &scene.two}) {
        setsockopt((*raw)->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        (*raw)->shut();
    }
    const auto begun = Clock::now();
    kTcp->close(scene.rank.endpoint, 15000);
    scene.rank.endpoint = nullptr;
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
}

// It is read to its end, so that a peer that leaves, too, need not wait.
TEST(StripesPeer, AConnectionThatWaitsIsReadWhenLeaving) {
    Scene scene;
    scene.rank.receive(1, 5, 0, 2 * kStripe);
    scene.stand();
    scene.one->say(frame(kOneStripe, 5, 0, kStripe, kStripe) + Bytes(1000, 1));
    ASSERT_TRUE(scene.rank.until([&] { return scene.each(0).in.waits; }));
    EXPECT_TRUE(scene.each(0).socket->deaf);
    const gcoll_note note = note_of(GCOLL_ERR_ABORTED, 0, "enough");
    kTcp->abort(scene.rank.endpoint, &note, 1000);
    EXPECT_FALSE(scene.each(0).socket->deaf);
}

// A connection that waits, and has something to write, breaks: it is not polled for that again and again.
TEST(StripesPeer, AConnectionThatWaitsMayBreak) {
    Scene scene;
    scene.rank.receive(1, 5, 0, 2 * kStripe);
    scene.stand();
    scene.fill(6, 60 * kStripe);
    scene.one->say(frame(kOneStripe, 5, 0, kStripe, kStripe) + Bytes(1000, 1));
    ASSERT_TRUE(scene.rank.until([&] { return scene.each(0).in.waits; }));
    scene.rank.progress(20000);
    const linger reset = {1, 0};
    setsockopt(scene.one->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    scene.one->shut();
    ASSERT_TRUE(scene.rank.until([&] { return scene.each(0).out.dead; }));
    for (int i = 0; i < 3; i++) {
        scene.rank.progress(20000);
        EXPECT_FALSE(scene.each(0).socket->wants_write);
        EXPECT_TRUE(scene.each(1).socket->wants_write);
    }
    scene.session->say(frame(kStriped, 5, 0, 2 * kStripe)); // it is read again, and found broken
    ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.failed.empty(); }));
    EXPECT_EQ(scene.rank.failed[0].text, "closed connection 1 of 2 for large messages");
}

// A network swallows what goes by one connection; the others, and the session's own, are well.
TEST(StripesPeer, AConnectionThatANetworkSwallowsIsFound) {
    Scene scene(300);
    scene.stand();
    sock_filter nothing = {BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program = {1, &nothing};
    ASSERT_EQ(setsockopt(scene.two->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
    scene.rank.send(1, 5, 0, 2 * kStripe);
    scene.session->say(frame(kGrant, 5, 0));
    ASSERT_TRUE(scene.rank.until([&] {
        gcoll_sight sight;
        scene.one->heard();
        if (!session_of(scene.rank, 1)->lane.in_doubt)
            scene.session->say(frame(kPing));
        kTcp->look(scene.rank.endpoint, 1, &sight);
        return !scene.rank.failed.empty();
    }));
    EXPECT_EQ(scene.rank.failed[0].status, GCOLL_ERR_PEER);
    EXPECT_EQ(scene.rank.failed[0].text,
              "cannot be reached any more by connection 2 of 2 for large messages (Connection timed out)");
}

// ---- The time of the meeting
// --------------------------------------------------------------------------------

TEST(StripesMeeting, NobodyIsGivenUpWhileNobodyWaits) {
    Scene scene(40);
    scene.meet();
    scene.spend(300);
    scene.one = scene.attach(scene.greeting(1));
    scene.spend(300);
    EXPECT_TRUE(scene.rank.failed.empty());
    scene.two = scene.attach(scene.greeting(2));
    ASSERT_TRUE(scene.rank.until([&] { return scene.is_ready(); }));
}

TEST(StripesMeeting, TimeAwayDoesNotCount) {
    Scene scene(1000);
    scene.want();
    scene.meet();
    ASSERT_TRUE(scene.rank.until([&] { return gcoll_stripes_of(session_of(scene.rank, 1))->count == 2; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(1300)); // this rank computes
    scene.turn(20);
    EXPECT_TRUE(scene.rank.failed.empty());
    scene.one = scene.attach(scene.greeting(1));
    scene.two = scene.attach(scene.greeting(2));
    ASSERT_TRUE(scene.rank.until([&] { return scene.is_ready(); }));
}

TEST(StripesMeeting, EachStepOfThePeerBeginsItAnew) {
    Scene scene(1000);
    scene.want();
    scene.meet();
    scene.spend(600);
    scene.one = scene.attach(scene.greeting(1));
    scene.spend(600);
    EXPECT_TRUE(scene.rank.failed.empty());
    scene.two = scene.attach(scene.greeting(2));
    ASSERT_TRUE(scene.rank.until([&] { return scene.is_ready(); }));
}

// One that is made again and again is no step.
TEST(StripesMeeting, ItEnds) {
    Scene scene(300);
    scene.want();
    scene.meet();
    ASSERT_TRUE(scene.rank.until([&] {
        scene.one = scene.attach(scene.greeting(1));
        scene.turn(5);
        return !scene.rank.failed.empty();
    }));
    EXPECT_EQ(scene.rank.failed[0].text.find("has "), 0u) << scene.rank.failed[0].text;
}

// Connections wait to be accepted, and this rank has no descriptors for them.
TEST(StripesMeeting, AShortageOfTheCalledRankIsItsOwn) {
    Scene scene(300);
    scene.want();
    scene.meet();
    Raw one(scene.address), two(scene.address);
    rlimit before, tight;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    tight = before;
    tight.rlim_cur = static_cast<rlim_t>(two.fd) + 20;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
    std::vector<int> all;
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;)
        all.push_back(fd);
    scene.expect_lack("cannot accept connections for large messages of rank 1: no file descriptors left (");
    for (int fd : all)
        close(fd);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// A word comes before this rank has what it needs for the lane, as when it ran out of memory.
TEST(StripesMeeting, WordsWithoutAStateAreIgnored) {
    Scene scene;
    scene.stand();
    gcoll_session *session = session_of(scene.rank, 1);
    void *state = gcoll_session_lane_state(session);
    gcoll_session_set_lane_state(session, nullptr);
    const uint8_t said[] = {2, 0, 0, 0};
    gcoll_lane_stripes.hear(session, said, sizeof said);
    gcoll_session_set_lane_state(session, state);
    scene.turn(5);
    EXPECT_TRUE(scene.rank.failed.empty());
}

// A rank that closes says goodbye when the peer's kernel has the stripes, all of which do not fit there
// unread.
TEST(StripesPeer, TheGoodbyeWaitsForStripes) {
    Scene scene;
    scene.stand();
    scene.fill(5, 60 * kStripe);
    std::thread closer = scene.close();
    EXPECT_FALSE(scene.comes_early([&] { return scene.says_goodbye(); }));
    ASSERT_TRUE(scene.comes([&] {
        scene.one->heard();
        scene.two->heard();
        return scene.says_goodbye();
    }));
    closer.join();
}

// If the connections for stripes ended before the goodbye is there, this rank would seem to have failed.
TEST(StripesPeer, ConnectionsEndWhenTheGoodbyeIsThere) {
    Scene scene;
    scene.stand();
    const auto has_ended = [&] { return scene.one->is_closed() || scene.two->is_closed(); };
    sock_filter nothing = {BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program = {1, &nothing};
    ASSERT_EQ(setsockopt(scene.session->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
    std::thread closer = scene.close();
    EXPECT_FALSE(scene.comes_early(has_ended));
    const int unused = 0;
    ASSERT_EQ(setsockopt(scene.session->fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused), 0);
    EXPECT_TRUE(scene.comes(has_ended));
    EXPECT_TRUE(scene.says_goodbye());
    closer.join();
}

// The word that a message begins waits behind data when this rank leaves. Its stripes are read, and so
// arrive, only when the word is there.
TEST(StripesPeer, WordsAreWrittenWhileStripesAreAwaited) {
    Scene scene;
    scene.stand();
    const size_t before = scene.session->heard().size();
    gcoll_session *session = session_of(scene.rank, 1);
    Bytes grants;
    for (uint32_t i = 0; i < 60; i++) { // each too small for stripes
        scene.rank.send(1, 5, i, kStripe);
        grants = grants + frame(kGrant, 5, i);
    }
    scene.session->say(grants);
    ASSERT_TRUE(scene.rank.until([&] { return session->output.cut.payload_bytes > 0; }));
    scene.turn();
    scene.fill(6, 60 * kStripe);
    ASSERT_GT(gcoll_bytes_left(&session->output.control), 0u);
    session->socket->wants_write = false; // as if this rank had not slept since
    gcoll_socket_poll(session->socket);
    std::thread closer = scene.close();
    const auto word_is_there = [&] {
        const Bytes &heard = scene.session->heard();
        for (size_t at = before; at + 32 <= heard.size(); at += 32 + get(heard, at + 24, 4))
            if (heard[at + 3] == kStriped)
                return true;
        return false;
    };
    EXPECT_TRUE(scene.comes(word_is_there));
    EXPECT_FALSE(scene.says_goodbye());
    EXPECT_TRUE(scene.comes([&] {
        scene.one->heard();
        scene.two->heard();
        return scene.says_goodbye();
    }));
    closer.join();
}

// Otherwise a peer that does not stop could keep this rank from leaving.
TEST(StripesPeer, ARankThatLeavesCatchesUpWithNothing) {
    Scene scene;
    scene.stand();
    const gcoll_note note = note_of(GCOLL_ERR_ABORTED, 0, "enough");
    kTcp->abort(scene.rank.endpoint, &note, 1000);
    const int fd = scene.each(0).socket->fd;
    int waiting = 0;
    scene.one->say(Bytes(1000));
    ASSERT_TRUE(scene.comes([&] { return ioctl(fd, FIONREAD, &waiting) == 0 && waiting == 1000; }));
    gcoll_session_catch_up(session_of(scene.rank, 1));
    ASSERT_EQ(ioctl(fd, FIONREAD, &waiting), 0);
    EXPECT_EQ(waiting, 1000);
}

// The peer has left in good order, though the end of its session is late.
TEST(StripesPeer, AGoodbyeEndsADoubt) {
    Scene scene;
    scene.stand();
    scene.one->shut();
    gcoll_session *session = session_of(scene.rank, 1);
    ASSERT_TRUE(scene.rank.until([&] { return session->lane.in_doubt; }));
    scene.session->say(frame(kGoodbye));
    ASSERT_TRUE(scene.rank.until([&] { return session->input.goodbye; }));
    session->lane.doubt_until_ms = session->lane.doubt_last_ms = 0;
    scene.turn(5);
    ASSERT_TRUE(scene.rank.failed.empty()) << scene.rank.failed[0].text;
    scene.session->shut();
    ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.departed.empty(); }));
    EXPECT_TRUE(scene.rank.failed.empty());
}

// More stripes than usual, each of which counts once.
TEST(StripesPeer, ClaimsOfALargeMessage) {
    Scene scene;
    const uint64_t most = 8 * GCOLL_STRIPES_USUAL_BYTES;
    for (uint32_t i = 0; i < 3; i++)
        scene.rank.receive_any_size(1, 5, i, 5000);
    scene.stand();
    for (uint32_t i = 0; i < 3; i++) {
        const uint64_t total = (most + i) * kStripe - 8;
        scene.session->say(frame(kStriped, 5, i, total));
        scene.turn(5);
        scene.say(scene.one, stripe(5, i, (most + i - 1) * kStripe, kStripe - 8));
        scene.say(scene.two, stripe(5, i, 0, kStripe));
    }
    scene.turn();
    ASSERT_TRUE(scene.rank.failed.empty()) << scene.rank.failed[0].text;
    scene.say(scene.two, stripe(5, 2, (most + 1) * kStripe, kStripe - 8));
    scene.expect_garbage("a stripe twice");
}

TEST(StripesPeer, ConnectionsThatDoNotComeAreToldInTime) {
    const std::string said = " of 2 connections for large messages after 300 ms";
    for (uint32_t come : {0u, 1u}) {
        Scene scene(300);
        scene.want();
        scene.meet();
        if (come > 0)
            scene.one = scene.attach(scene.greeting(1));
        ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.failed.empty(); }));
        EXPECT_EQ(scene.rank.failed[0].status, GCOLL_ERR_PEER);
        EXPECT_EQ(scene.rank.failed[0].text, "has " + std::to_string(come) + said);
    }
    Scene scene(300);
    scene.want();
    Raw session(scene.address);
    Hello hello;
    hello.token = token_of(scene.address);
    hello.lanes = {kStripes, 1, 0, 0, 0, 0, 0, 0};
    ASSERT_EQ(shake(
                  session, hello, [&](auto condition) { return scene.rank.until(condition); }),
              0u);
    ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.failed.empty(); }));
    EXPECT_EQ(scene.rank.failed[0].text, "said nothing of connections for large messages within 300 ms");
}

// Rank 0 has dialed rank 1, which is ours to play, and makes the connections.
struct Called {
    explicit Called(Scene &scene) {
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in where = {};
        where.sin_family = AF_INET;
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof where;
        EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&where), sizeof where), 0);
        EXPECT_EQ(listen(listener, 4), 0);
        EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr *>(&where), &length), 0);
        std::string address = scene.address;
        const std::string port = field(address, "port");
        there = std::to_string(ntohs(where.sin_port));
        address.replace(address.find("port=" + port) + 5, port.size(), there);
        EXPECT_EQ(kTcp->connect(scene.rank.endpoint, 1, address.c_str()), GCOLL_OK);
        pollfd ready = {listener, POLLIN, 0};
        EXPECT_TRUE(scene.rank.until([&] { return poll(&ready, 1, 0) == 1; }));
        peer = std::make_unique<Raw>(accept(listener, nullptr, nullptr));
        said = challenge(*peer, key_of(token_of(address)),
                         [&](auto condition) { return scene.rank.until(condition); });
    }
    ~Called() { shut(); }
    void shut() {
        if (listener >= 0)
            close(listener);
        listener = -1;
    }
    void welcome() {
        Reply reply;
        reply.lanes = {kStripes, 1, 0, 0, 0, 0, 0, 0};
        peer->say(reply.bytes(said) + word(Bytes{1, 16, 0, 0} + Bytes(16, 7)));
    }
    Transcript said;
    int listener;
    std::string there;
    std::unique_ptr<Raw> peer;
};

// The kernel of the called rank has all connections, and that rank computes: its answer is awaited like any
// other.
TEST(StripesMeeting, ACalledRankMayCompute) {
    Scene scene(100);
    scene.want();
    Called called(scene);
    called.welcome();
    scene.spend(700);
    ASSERT_TRUE(scene.rank.failed.empty()) << scene.rank.failed[0].text;
    std::vector<std::unique_ptr<Raw>> stripes;
    for (int i = 0; i < 3; i++) {
        stripes.push_back(std::make_unique<Raw>(accept(called.listener, nullptr, nullptr)));
        challenge(*stripes[i], hmac(called.said.session_key(), "gcoll key within a session", Bytes(16, 7)),
                  [&](auto condition) { return scene.rank.until(condition); });
    }
    called.peer->say(word(Bytes{2, 0, 0, 0}));
    ASSERT_TRUE(scene.rank.until([&] { return lane(scene.rank, 1) == "tcp over 3 connections"; }));
}

// The listener is gone after the first connection.
TEST(StripesPeer, ConnectionsThatCannotBeMadeAreTold) {
    Scene scene(300);
    scene.want();
    Called called(scene);
    const std::string there = called.there;
    called.shut();
    called.welcome();
    ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.failed.empty(); }));
    EXPECT_EQ(scene.rank.failed[0].status, GCOLL_ERR_PEER);
    const std::string &text = scene.rank.failed[0].text;
    EXPECT_EQ(text.find("cannot be reached by all connections within 300 ms (connection "), 0u) << text;
    EXPECT_NE(text.find(" of 3 for large messages to 127.0.0.1:" + there + ": Connection refused)"),
              std::string::npos)
        << text;
}

TEST(StripesPeer, EachFlippedBitOfAStripeIsFound) {
    const Bytes plain = stripe(5, 0, 0, kStripe);
    const Bytes good =
        checked(frame(kOneStripe, 5, 0, 0, kStripe), {}, Bytes(plain.begin() + 32, plain.end()));
    for (uint32_t granule : {0u, 8u, 9u})
        for (size_t bit = granule; bit < 8 * 48 + 64; bit += 13) {
            SCOPED_TRACE(std::to_string(bit));
            gcoll_endpoint_options options = small_options_of(0, 2);
            options.checksum = true;
            Scene scene;
            scene.rank.close();
            Rank rank(striped(), options);
            const uint64_t total = 2 * kStripe - 2 * kStripe % 9;
            Message &message = rank.receive(1, 5, 0, total, granule);
            Raw session(rank.address());
            Hello hello;
            hello.token = token_of(rank.address());
            hello.lanes = {kStripes, 1, 0, 0, 0, 0, 0, 0};
            ASSERT_EQ(
                shake(
                    session, hello, [&](auto condition) { return rank.until(condition); }, &scene.meeting),
                0u);
            const size_t said = kAnswerBytes + 48;
            ASSERT_TRUE(rank.until([&] { return session.heard().size() >= said + 20; }));
            scene.token.assign(session.heard().begin() + said + 4, session.heard().begin() + said + 20);
            session.say(checked(frame(kLane, 0, kStripes, 0, 20), Bytes{1, 2, 0, 0} + Bytes(16, 1)));
            Raw one(rank.address()), two(rank.address());
            one.say(scene.greeting(1));
            scene.prove(rank, one, scene.greeting(1));
            two.say(scene.greeting(2));
            scene.prove(rank, two, scene.greeting(2));
            ASSERT_TRUE(rank.until([&] { return session.heard().size() >= said + 20 + 48 + 4; }));
            session.say(checked(frame(kStriped, 5, 0, total)));
            Bytes bad = good;
            bad[bit / 8] = static_cast<uint8_t>(bad[bit / 8] ^ 1u << bit % 8);
            pour(rank, one, bad);
            ASSERT_TRUE(rank.until([&] { return !rank.changed.empty(); }));
            EXPECT_EQ(rank.done, 0u);
            EXPECT_EQ(message.consumed, 0u);
            EXPECT_TRUE(rank.failed.empty());
        }
}

// ---- Groups that share the session ------------------------------------------------------------------------

// The trunk is closed, and lives on for its groups.
const Bytes kGone = grouped(0, frame(kGoodbye));

// Rank 0 also has a group.
struct SharedScene : Scene {
    explicit SharedScene(int64_t connect_ms = 10000) : Scene(connect_ms), own(rank, small_options_of(0, 2)) {}

    // Whether a message of the group arrives.
    bool hears(uint32_t index) {
        group.receive(1, 9, index, 100);
        Bytes said = frame(kData | kCredited, 9, index, 100, 100);
        for (uint64_t i = 0; i < 100; i++)
            said.push_back(pattern(1, 0, 9, index, i));
        session->say(grouped(kNumber, said));
        return group.until_done();
    }
    void expect_that_the_group_is_well(uint32_t index) {
        EXPECT_TRUE(hears(index));
        group.check();
        for (int i = 0; i < 20; i++)
            group.progress(200);
        EXPECT_TRUE(group.failed.empty() && group.departed.empty() && group.aborted.empty());
    }

    Branch own;
    Rank &group = own.rank;
};

// So frames of a group keep their order, and nothing overtakes its goodbye. Large messages of the trunk are
// striped beside them.
TEST(StripesShared, GroupsUseTheSessionsConnectionAlone) {
    Group trunks(striped(), 2);
    trunks.connect(0, 1);
    gcoll_endpoint_options options[] = {trunks.options(), trunks.options()};
    options[0].rank = 0;
    options[1].rank = 1;
    Branch first(trunks[0], options[0]), second(trunks[1], options[1]);
    Rank *const groups[] = {&first.rank, &second.rank};
    const auto by_stripes = [&](uint32_t r) {
        uint64_t bytes = 0;
        for (const gcoll_stripe &each : gcoll_stripes_of(session_of(trunks[r], 1 - r))->each)
            bytes += each.out.written;
        return bytes;
    };
    const auto are_done = [&] {
        for (uint32_t r : {0u, 1u})
            if (groups[r]->done < groups[r]->messages.size() || trunks[r].done < trunks[r].messages.size())
                return false;
        return true;
    };
    for (uint32_t r : {0u, 1u}) {
        groups[r]->send(1 - r, 1, 0, 8 * kStripe, true);
        groups[r]->receive(1 - r, 1, 0, 8 * kStripe);
    }
    ASSERT_TRUE(trunks.turn(are_done));
    for (uint32_t r : {0u, 1u}) {
        EXPECT_EQ(by_stripes(r), 0u);
        char text[512];
        kTcp->shared->explain(groups[r]->endpoint, 1 - r, text, sizeof text);
        EXPECT_STREQ(text, "tcp, by a connection that is shared");
        EXPECT_EQ(lane(trunks[r], 1 - r), "tcp over 3 connections");
    }
    for (uint32_t i = 1; i < 12; i++) // the same streams and indexes in both
        for (uint32_t r : {0u, 1u})
            for (Rank *each : {groups[r], &trunks[r]}) {
                each->send(1 - r, i / 4, i, i * 100003, i % 4 == 0);
                each->receive(1 - r, i / 4, i, i * 100003, i % 2 ? 0 : 1);
            }
    ASSERT_TRUE(trunks.turn(are_done));
    for (uint32_t r : {0u, 1u}) {
        EXPECT_GT(by_stripes(r), 0u);
        for (Rank *each : {groups[r], &trunks[r]}) {
            each->check();
            EXPECT_TRUE(each->failed.empty());
        }
        EXPECT_EQ(groups[r]->opened.size(), 3u);
        EXPECT_EQ(trunks[r].opened.size(), 2u);
    }
}

// The last stripes are on their way when the peer's trunk is closed. The group goes on meanwhile, and when
// the other connections have ended.
TEST(StripesShared, DataThatComeAfterTheTrunkIsGoneCountBeforeItsDeparture) {
    SharedScene scene;
    scene.rank.receive(1, 5, 0, 3 * kStripe, 8);
    scene.stand();
    std::vector<std::string> log;
    scene.rank.log = [&](const std::string &line) {
        if (line.find("consumes") == std::string::npos)
            log.push_back(line);
    };
    scene.session->say(frame(kStriped, 5, 0, 3 * kStripe) + kGone);
    scene.say(scene.one, stripe(5, 0, 0, kStripe));
    scene.one->shut();
    scene.expect_that_the_group_is_well(0);
    scene.turn();
    ASSERT_TRUE(log.empty()) << log[0];
    scene.say(scene.two, stripe(5, 0, 2 * kStripe, kStripe) + stripe(5, 0, kStripe, kStripe));
    ASSERT_TRUE(scene.rank.until([&] { return log.size() >= 2; }));
    EXPECT_EQ(log[0], "0 received 1 5 0");
    EXPECT_EQ(log[1], "0 departed 1 0 0");
    scene.rank.check();
    scene.two->shut();
    scene.expect_that_the_group_is_well(1);
    EXPECT_EQ(log.size(), 2u);
    EXPECT_FALSE(session_of(scene.rank, 1)->lane.in_doubt);
}

// The rest does not come: the peer's trunk was closed amid the message.
TEST(StripesShared, ADepartureWaitsForNoMoreThanCanCome) {
    enum { kEnds, kTime, kLeaves, kHows };
    for (int how = 0; how < kHows; how++) {
        SCOPED_TRACE(how);
        SharedScene scene;
        scene.rank.receive(1, 5, 0, 3 * kStripe);
        scene.stand();
        scene.session->say(frame(kStriped, 5, 0, 3 * kStripe) + kGone);
        gcoll_session *session = session_of(scene.rank, 1);
        ASSERT_TRUE(scene.rank.until([&] { return session->goes || !scene.rank.departed.empty(); }));
        ASSERT_TRUE(scene.rank.departed.empty());
        if (how == kEnds) {
            for (const auto &raw : {&scene.one, &scene.two})
                shutdown((*raw)->fd, SHUT_WR);
        } else if (how == kLeaves) { // and then the peer leaves altogether
            scene.session->say(frame(kGoodbye));
            shutdown(scene.session->fd, SHUT_WR);
            ASSERT_TRUE(scene.rank.until([&] { return !session->goes; }));
            ASSERT_TRUE(scene.rank.departed.empty());
        }
        if (how != kEnds)
            session->lane.rest_until_ms = 0;
        ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.departed.empty(); }));
        EXPECT_EQ(scene.group.departed.size(), how == kLeaves ? 1u : 0u);
        if (how != kLeaves)
            scene.expect_that_the_group_is_well(0);
        EXPECT_EQ(scene.rank.departed.size(), 1u);
        EXPECT_TRUE(scene.rank.failed.empty());
        EXPECT_EQ(scene.rank.done, 0u);
    }
}

// The word that the trunk is gone is behind the end of a connection that it no longer needs.
TEST(StripesShared, AConnectionMayEndBeforeTheTrunkIsSaidToBeGone) {
    SharedScene scene;
    scene.stand();
    scene.one->shut();
    const gcoll_session *session = session_of(scene.rank, 1);
    ASSERT_TRUE(scene.rank.until([&] { return session->lane.in_doubt; }));
    scene.session->say(kGone);
    ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.departed.empty(); }));
    EXPECT_FALSE(session->lane.in_doubt);
    scene.expect_that_the_group_is_well(0);
    EXPECT_TRUE(scene.rank.failed.empty());
}

// Our own trunk is closed amid messages both ways. Their memory is not touched, what comes is thrown away,
// and the peer sees the end of the connections behind what was sent.
TEST(StripesShared, ATrunkIsClosedAmidItsMessages) {
    SharedScene scene;
    scene.rank.receive(1, 5, 0, 3 * kStripe);
    scene.stand();
    scene.fill(6, 60 * kStripe);
    const Bytes whole = stripe(5, 0, 0, kStripe);
    const Bytes part(whole.begin(), whole.begin() + 1000), rest(whole.begin() + 1000, whole.end());
    scene.session->say(frame(kStriped, 5, 0, 3 * kStripe));
    scene.say(scene.one, part);
    scene.turn();
    scene.rank.close();
    scene.rank.messages.clear();
    pour(scene.group, *scene.one, rest);
    pour(scene.group, *scene.two, stripe(5, 0, kStripe, kStripe) + stripe(7, 0, 0, kStripe));
    scene.session->say(frame(kStriped, 7, 0, 2 * kStripe) + frame(kGrant, 8, 0) +
                       frame(kOffer, 4, 0, 2 * kStripe));
    scene.expect_that_the_group_is_well(0);
    ASSERT_TRUE(scene.group.until([&] { return scene.one->is_closed() && scene.two->is_closed(); }));
    scene.one->shut();
    scene.two->shut();
    scene.session->say(kGone);
    scene.expect_that_the_group_is_well(1);
    const Bytes &heard = scene.session->heard();
    const auto said = std::search(heard.begin(), heard.end(), kGone.begin(), kGone.end());
    EXPECT_NE(said, heard.end()) << "the peer is told";
}

// In the parent, stripes come before and after the fork: of a message in parts, of one that is reduced, and
// of one that has not begun, while its own wait for room. In the child the endpoints are abandoned in either
// order, and their messages freed. Or the trunk was closed before.
TEST(StripesShared, AForkedChildTouchesNoMessage) {
    enum { kParts, kReduced, kLater, kSent, kQueued, kMessages };
    for (int way = 0; way < 3; way++) {
        SCOPED_TRACE(way);
        const bool trunk_first = way == 0, is_closed = way == 2;
        const Pages buffer(100 * kStripe), of_trunk(4096), of_group(4096);
        SharedScene scene;
        gcoll_message *const messages = of_trunk.messages();
        for (uint32_t i = 0; i < kMessages; i++) {
            gcoll_message &message = messages[i];
            message.stream = 5;
            message.index = i;
            message.bytes = (i < kSent ? 3 : 60) * kStripe;
            message.data = static_cast<uint8_t *>(buffer.at) + i * 3 * kStripe;
            message.done = [](gcoll_message *done) { done->data = nullptr; };
            if (i == kReduced) {
                message.granule = 9; // no stripe ends with an element, so it is gathered
                message.consume = [](void *, uint64_t, const void *, uint64_t) {};
            }
            if (i < kSent)
                kTcp->post_recv(scene.rank.endpoint, 1, &message);
        }
        gcoll_message &early = of_group.messages()[0];
        early.stream = 9;
        early.bytes = 100;
        early.data = buffer.at;
        early.done = [](gcoll_message *) {};
        kTcp->shared->post_send(scene.group.endpoint, 1, &early);
        scene.stand();
        for (uint32_t i : {kSent, kQueued}) {
            kTcp->post_send(scene.rank.endpoint, 1, &messages[i]);
            scene.session->say(frame(kGrant, 5, i));
        }
        scene.session->say(frame(kStriped, 5, kParts, 3 * kStripe) +
                           frame(kStriped, 5, kReduced, 3 * kStripe));
        const Bytes whole = stripe(5, kParts, 0, kStripe);
        const Bytes part(whole.begin(), whole.begin() + 1000), rest(whole.begin() + 1000, whole.end());
        scene.say(scene.one, stripe(5, kReduced, 0, kStripe) + part);
        scene.say(scene.two, frame(kOneStripe, 5, kLater, 0, kStripe));
        const gcoll_stripes *const all = gcoll_stripes_of(session_of(scene.rank, 1));
        ASSERT_TRUE(scene.rank.until([&] {
            return all->arriving && all->arriving->next && all->each[1].in.waits && all->each[0].in.message &&
                   all->each[0].out.message && all->each[1].out.message;
        }));
        scene.turn();
        ASSERT_TRUE(all->each[0].out.message && all->each[1].out.message) << "the peer reads nothing";
        if (is_closed) { // the trunk lives on for its group
            scene.rank.close();
            EXPECT_FALSE(all->arriving);
            of_trunk.take_away();
        }
        fflush(nullptr);
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            buffer.take_away();
            for (bool is_trunk : {trunk_first, !trunk_first}) {
                if (is_trunk && is_closed)
                    continue;
                Rank &each = is_trunk ? scene.rank : scene.group;
                each.transport->abandon(each.endpoint);
                (is_trunk ? of_trunk : of_group).take_away();
            }
            _exit(testing::Test::HasFailure());
        }
        int ended = 0;
        ASSERT_EQ(waitpid(child, &ended, 0), child);
        EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << "the child ended with " << ended;
        if (!is_closed) { // all that the parent waits for still comes
            scene.session->say(frame(kStriped, 5, kLater, 3 * kStripe));
            Bytes left(kStripe, 3);
            pour(scene.rank, *scene.two, left);
            for (uint32_t i : {kParts, kReduced, kLater})
                for (uint64_t offset : {kStripe, 2 * kStripe})
                    pour(scene.rank, *scene.two, stripe(5, i, offset, kStripe));
            pour(scene.rank, *scene.one, rest);
            ASSERT_TRUE(scene.rank.until([&] {
                return !messages[kParts].data && !messages[kReduced].data && !messages[kLater].data;
            }));
            const auto *const at = static_cast<const uint8_t *>(buffer.at);
            for (uint64_t k = 0; k < 3 * kStripe; k += 97)
                ASSERT_EQ(at[k], pattern(1, 0, 5, kParts, k)) << k;
        }
        scene.expect_that_the_group_is_well(0);
        scene.rank.close();
        scene.group.close();
    }
}

// As long as only a group waits for the peer, too.
TEST(StripesShared, AMeetingHasItsTimeWhileAGroupWaits) {
    SharedScene scene(300);
    scene.meet();
    scene.group.send(1, 9, 0, 100);
    ASSERT_TRUE(scene.rank.until([&] { return !scene.rank.failed.empty(); }));
    EXPECT_EQ(scene.rank.failed[0].text, "has 0 of 2 connections for large messages after 300 ms");
    ASSERT_EQ(scene.group.failed.size(), 1u);
    EXPECT_EQ(scene.group.failed[0].text, scene.rank.failed[0].text);
}

} // namespace
