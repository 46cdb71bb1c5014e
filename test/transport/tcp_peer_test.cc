// test/transport/tcp_peer_test.cc - peers that do not keep to the protocol once they are welcome.
#include "test/transport/raw_peer.h"

using namespace raw_peer;

namespace {

// What a welcomed peer says, and that it is taken for garbage.
void garbage(const std::string &name, const std::vector<Bytes> &said,
             const std::function<void(Rank &)> &before = nullptr) {
    SCOPED_TRACE(name);
    Stage stage;
    if (before)
        before(stage.rank);
    auto peer = stage.peer();
    for (const Bytes &bytes : said)
        peer->say(bytes);
    stage.expect_garbage(name);
    for (int i = 0; i < 5; i++)
        stage.rank.progress(0);
    EXPECT_EQ(stage.rank.failed.size(), 1u);
    EXPECT_EQ(stage.rank.done, 0u);
}

TEST(TcpPeer, GarbageIsCalledSo) {
    Bytes bad = frame(kData | kCredited, 1, 0, 4, 4);
    bad[0] ^= 1;
    garbage("bad magic", {bad});
    bad = frame(kData | kCredited, 1, 0, 4, 4);
    bad[2] = 1;
    garbage("bad version", {bad});
    garbage("unknown kind", {frame(15)});
    garbage("unknown flag", {frame(kData | 0x20, 1, 0, 4, 4)});
    garbage("http", {Bytes(100, 'G')});
    garbage("fragment over its limit", {frame(kData | kCredited, 1, 0, UINT64_MAX, (1u << 20) + 1)});
    garbage("fragment over its message", {frame(kData | kCredited, 1, 0, 3, 4)});
    garbage("payload in a control frame", {frame(kPing, 0, 0, 0, 4)});
    garbage("frame after goodbye", {frame(kGoodbye), frame(kPing)});
    garbage("too long an abort", {frame(kAbort, 9, 1, 0, 256), Bytes(256, 'x')});
    garbage("a hello again", {Hello().bytes()});
    garbage("a word for the lane tcp, which has none", {frame(kLane, 0, 1)});
    garbage("a refusal of the lane that stands", {frame(kLane, 1, 1)});
    garbage("a word for a lane that is none of ours", {frame(kLane, 0, 77)});
    garbage("a word for a lane beyond all numbers", {frame(kLane, 0, 0x10001)});
    garbage("a word longer than allowed", {frame(kLane, 0, 1, 0, 257)});
}

TEST(TcpPeer, FragmentsMustFitTheirMessage) {
    Bytes start = frame(kData | kCredited, 1, 0, 100, 40) + Bytes(40, 'x');
    garbage("another total", {start, frame(kData | kCredited, 1, 0, 101, 40)});
    garbage("more than is missing", {start, frame(kData | kCredited, 1, 0, 100, 61)});
    garbage("another flag", {start, frame(kData, 1, 0, 100, 40)});
    garbage("once more", {start + frame(kData | kCredited, 1, 0, 100, 60) + Bytes(60, 'x'),
                          frame(kData | kCredited, 1, 0, 100, 60)});
    garbage("an empty message twice", {frame(kData | kCredited, 1, 0), frame(kData | kCredited, 1, 0)});
}

TEST(TcpPeer, LimitsMustBeKept) {
    garbage("too large for credit", {frame(kData | kCredited, 1, 0, kEager + 1, 1)});
    garbage("not granted", {frame(kData, 1, 0, 100, 100)});
    garbage("not granted though posted", {frame(kData, 1, 0, 100, 100)},
            [](Rank &rank) { rank.receive(1, 1, 0, 101); });
    Bytes flood;
    for (uint32_t i = 0; i < kPool / (kEager + 64) + 1; i++)
        flood = flood + frame(kData | kCredited, 1, i, kEager, kEager) + Bytes(kEager, 'x');
    garbage("pool overrun", {flood});
    flood.clear();
    for (uint32_t i = 0; i < kPool / 64 + 1; i++)
        flood = flood + frame(kData | kCredited, 1, i);
    garbage("pool overrun by empty messages", {flood});
    garbage("credit that was never used", {frame(kCredit, 0, 0, 0, 0, 1)});
    garbage("credit on any frame", {frame(kPing, 0, 0, 0, 0, UINT32_MAX)});
    garbage("credit twice", {frame(kCredit, 0, 0, 0, 0, 164), frame(kCredit, 0, 0, 0, 0, 1)}, [](Rank &rank) {
        Message &message = rank.send(1, 1, 0, 100);
        message.then = [](Message &m) { m.rank->done--; }; // it does go out
    });
}

TEST(TcpPeer, PromisesMustMakeSense) {
    garbage("a grant twice", {frame(kGrant, 1, 0), frame(kGrant, 1, 0)});
    garbage("a revoke of nothing", {frame(kRevoke, 1, 0)});
    garbage("a revoke twice", {frame(kGrant, 1, 0), frame(kRevoke, 1, 0), frame(kRevoke, 1, 0)});
    garbage("an offer twice", {frame(kOffer, 1, 0, 5000), frame(kOffer, 1, 0, 5000)});
    garbage("an offer of what is here",
            {frame(kData | kCredited, 1, 0, 10, 10) + Bytes(10, 'x'), frame(kOffer, 1, 0, 10)});
    garbage("another size than offered", {frame(kOffer, 1, 0, 10), frame(kData | kCredited, 1, 0, 11, 11)});
}

TEST(TcpPeer, AFingerprintThatCameBeforeMustHaveCome) {
    const Bytes message = frame(kData | kCredited | kAhead, 1, 0, 10, 10) + Bytes(10, 'x');
    const Bytes ahead = frame(kCredit | kOpen, 1) + Bytes(32, 'f');
    garbage("none came", {message});
    garbage("one came for two", {ahead, message, frame(kData | kCredited | kAhead, 1, 1, 0, 0)});
    Stage stage;
    stage.rank.receive(1, 1, 0, 10);
    auto peer = stage.peer();
    peer->say(ahead + message);
    ASSERT_TRUE(stage.rank.until_done());
    EXPECT_TRUE(stage.rank.messages[0]->m.opened);
    EXPECT_EQ(stage.rank.opened.size(), 1u);
}

TEST(TcpPeer, AMessageOfAnotherSizeIsAMismatch) {
    for (uint64_t sent : {uint64_t(400), uint64_t(100000)}) {
        Stage stage;
        stage.rank.receive(1, 1, 0, 404);
        auto peer = stage.peer();
        peer->say(frame(kData | kCredited, 1, 0, sent, 400) + Bytes(400, 'x'));
        ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.failed.empty(); }));
        EXPECT_EQ(stage.rank.failed[0].status, GCOLL_ERR_MISMATCH);
        EXPECT_EQ(stage.rank.failed[0].text,
                  "sent " + std::to_string(sent) + " bytes where 404 were expected");
        EXPECT_EQ(stage.rank.messages[0]->bytes, Bytes(404, kUnwritten));
        gcoll_note note = note_of(GCOLL_ERR_MISMATCH, 1, "sizes differ");
        kTcp->abort(stage.rank.endpoint, &note, 1000); // it can still be told
        Bytes heard = peer->heard();
        std::string text(heard.begin(), heard.end());
        EXPECT_NE(text.find("sizes differ"), std::string::npos);
    }
}

TEST(TcpPeer, AnAbortIsCleanedUp) {
    Stage stage;
    auto peer = stage.peer();
    Bytes text(255, 0xff);
    text[0] = 'a';
    text[1] = '\n';
    peer->say(frame(kAbort, 0xffffffffffffffffu, 77, 0, 255) + text);
    ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.aborted.empty(); }));
    const gcoll_note &note = stage.rank.aborted[0].note;
    EXPECT_EQ(note.status, GCOLL_ERR_ABORTED);
    EXPECT_EQ(note.culprit, 77u);
    EXPECT_EQ(std::string(note.text), "a" + std::string(254, '?'));
    peer->shut(); // it told why: no second report
    for (int i = 0; i < 20; i++)
        stage.rank.progress(1000);
    EXPECT_TRUE(stage.rank.failed.empty());
    EXPECT_EQ(stage.rank.aborted.size(), 1u);
}

TEST(TcpPeer, EofInTheMiddleOfAnythingIsAFailure) {
    Bytes whole = frame(kData | kCredited | kOpen, 1, 0, 100, 100) + Bytes(32, 'f') + Bytes(100, 'x');
    for (size_t cut : {size_t(0), size_t(1), size_t(31), size_t(32), size_t(50), size_t(64), size_t(65),
                       whole.size() - 1, whole.size()}) {
        Stage stage;
        stage.rank.receive(1, 1, 0, 100);
        auto peer = stage.peer();
        peer->say(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)));
        peer->shut();
        ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.failed.empty(); }));
        EXPECT_EQ(stage.rank.failed[0].status, GCOLL_ERR_PEER);
        EXPECT_EQ(stage.rank.failed[0].text, "closed the connection");
        EXPECT_EQ(stage.rank.done, cut == whole.size() ? 1u : 0u);
        EXPECT_EQ(stage.rank.opened.size(), cut >= 64 ? 1u : 0u);
    }
}

// Byte by byte is as good as all at once.
TEST(TcpPeer, FramesMayComeInAnyPieces) {
    Bytes all;
    std::vector<uint64_t> sizes = {0, 1, 13, 900, 77};
    for (uint32_t i = 0; i < sizes.size(); i++) {
        Bytes payload;
        for (uint64_t k = 0; k < sizes[i]; k++)
            payload.push_back(pattern(1, 0, 3, i, k));
        all = all + frame(kData | kCredited | kOpen, 3, i, sizes[i], static_cast<uint32_t>(sizes[i])) +
              Bytes(32, static_cast<uint8_t>(i)) + payload + frame(kPing);
    }
    for (uint32_t granule : {0u, 1u}) {
        Stage stage;
        for (uint32_t i = 0; i < sizes.size(); i++)
            stage.rank.receive(1, 3, i, sizes[i], granule);
        auto peer = stage.peer();
        for (uint8_t byte : all) {
            peer->say(Bytes{byte});
            stage.rank.progress(0);
        }
        ASSERT_TRUE(stage.rank.until_done());
        stage.rank.check();
        EXPECT_EQ(stage.rank.opened.size(), sizes.size());
        EXPECT_TRUE(stage.rank.failed.empty());
    }
}

// What a rank that leaves has sent of a message of `bytes` bytes, and what follows it, while its peer probes
// and does not read. With `is_cut` the kernel has taken a part of the message before the rank leaves, else
// all of it.
Bytes last_words(uint64_t bytes, bool is_cut) {
    Stage stage;
    auto peer = stage.peer();
    const int small = 65536; // what is not read stays with the sender's kernel
    EXPECT_EQ(setsockopt(peer->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    stage.rank.send(1, 2, 0, bytes, true);
    peer->say(frame(kGrant, 2, 0));
    peer->heard();
    Bytes heard;
    uint8_t some[16384];
    for (int quiet = 0; quiet < 50 && stage.rank.done == 0;) {
        ssize_t n = is_cut && heard.size() > 0 ? 0 : recv(peer->fd, some, sizeof some, MSG_DONTWAIT);
        heard.insert(heard.end(), some, some + (n > 0 ? n : 0));
        stage.rank.progress(1000);
        quiet = is_cut ? quiet + 1 : 0;
    }
    EXPECT_EQ(stage.rank.done, is_cut ? 0u : 1u);
    std::thread leaving([&] { stage.rank.close(); });
    for (int i = 0; i < 100; i++) {
        peer->say(frame(kPing));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ssize_t n;
    while ((n = recv(peer->fd, some, sizeof some, 0)) > 0)
        heard.insert(heard.end(), some, some + n);
    EXPECT_EQ(n, 0) << strerror(errno);
    leaving.join();
    return heard;
}

// A rank that leaves says the end of its stream while its kernel still sends. A probe that comes then cannot
// be answered, and must not end the wait for the bytes.
TEST(TcpPeer, AProbeWhileARankLeavesCutsNothingOff) {
    constexpr uint64_t kBytes = 8 << 20;                 // more than the kernel takes at once
    EXPECT_GT(last_words(kBytes, false).size(), kBytes); // with what frames it, and the goodbye
}

// A rank that leaves while the kernel takes nothing has told nobody yet. The answer to a probe
// that comes then must not follow the goodbye: for the peer that would be garbage, by a rank that left in
// good order.
TEST(TcpPeer, NothingFollowsAGoodbye) {
    const Bytes heard = last_words(64 << 20, true);
    const Bytes goodbye = frame(kGoodbye);
    ASSERT_GT(heard.size(), goodbye.size());
    EXPECT_EQ(Bytes(heard.end() - static_cast<std::ptrdiff_t>(goodbye.size()), heard.end()), goodbye);
}

// Whatever a peer says, nothing worse than a failure follows.
TEST(TcpPeer, RandomFramesDoNoHarm) {
    std::mt19937_64 random(8);
    for (int i = 0; i < 150; i++) {
        Stage stage;
        for (uint32_t k = 0; k < 4; k++) {
            stage.rank.receive(1, 0, k, random() % 2000, random() % 2 ? 1 : 0);
            stage.rank.send(1, 0, k, random() % 5000, true);
        }
        auto peer = stage.peer();
        for (int k = 0; k < 60; k++) {
            uint64_t total = random() % 3 ? random() % 2000 : random() >> (random() % 64);
            auto fragment =
                static_cast<uint32_t>(random() % 3 ? std::min<uint64_t>(total, 2000) : random() % 500);
            uint8_t kind = static_cast<uint8_t>(random() % 4 ? kData | kCredited : 1 + random() % 9);
            bool plain = (kind & 15) != kData;
            Bytes bytes =
                frame(kind, random() % 2, static_cast<uint32_t>(random() % 8), total, plain ? 0 : fragment,
                      random() % 8 ? 0 : static_cast<uint32_t>(random() % 200));
            peer->say(plain ? bytes : bytes + Bytes(fragment, 'x'));
            if (random() % 4 == 0)
                stage.rank.progress(0);
            peer->heard();
        }
        peer->shut();
        ASSERT_TRUE(stage.rank.until([&] {
            return !stage.rank.failed.empty() || !stage.rank.departed.empty() || !stage.rank.aborted.empty();
        }));
    }
}

} // namespace
