// test/transport/tcp_checked_test.cc - connections with checksums: what is said, what is taken, and that no
// flipped bit is.
#include "test/kit/sanitizer.h"
#include "test/transport/raw_peer.h"

using namespace raw_peer;

namespace {

gcoll_endpoint_options with_checksums() {
    gcoll_endpoint_options options = small_options_of(0, 2);
    options.checksum = true;
    return options;
}

Bytes payload_of(uint64_t stream, uint32_t index, size_t begin, size_t end) {
    Bytes bytes;
    for (size_t i = begin; i < end; i++)
        bytes.push_back(pattern(1, 0, stream, index, i));
    return bytes;
}

Bytes data(uint8_t flags, uint64_t stream, uint32_t index, uint64_t total, size_t begin, size_t end) {
    Bytes fingerprint(flags & kOpen ? 32 : 0, 'f');
    return checked(frame(kData | flags, stream, index, total, static_cast<uint32_t>(end - begin)),
                   fingerprint, payload_of(stream, index, begin, end));
}

// Two fragments that no element fits, a whole message, an empty one, and control frames.
Bytes talk() {
    return data(kCredited | kOpen, 1, 0, 984, 0, 101) + data(kCredited, 1, 1, 24, 0, 24) +
           checked(frame(kPing)) + data(kCredited, 1, 0, 984, 101, 984) + data(kCredited, 1, 2, 0, 0, 0);
}

enum class How { kConsumed, kPlain, kLate };

void receive_talk(Rank &rank, uint32_t granule) {
    rank.receive(1, 1, 0, 984, granule);
    rank.receive(1, 1, 1, 24, granule);
    rank.receive(1, 1, 2, 0, granule);
}

// In pieces that end anywhere; receives are posted before, or in the midst of it.
TEST(TcpChecked, FramesMayComeInAnyPieces) {
    const Bytes all = talk();
    for (uint32_t granule : {0u, 12u, 8u})
        for (size_t piece : {size_t(1), size_t(7), size_t(50), size_t(149), all.size()})
            for (size_t post_at : {size_t(0), size_t(60), size_t(130), size_t(400), all.size()}) {
                SCOPED_TRACE(std::to_string(granule) + ", " + std::to_string(piece) + ", " +
                             std::to_string(post_at));
                if (piece == 1 && post_at != 130)
                    continue; // takes long
                Stage stage(with_checksums());
                auto peer = stage.peer();
                bool posted = false;
                for (size_t at = 0; at < all.size(); at += piece) {
                    if (!posted && at >= post_at) {
                        receive_talk(stage.rank, granule);
                        posted = true;
                    }
                    size_t end = std::min(all.size(), at + piece);
                    peer->say(Bytes(all.begin() + static_cast<std::ptrdiff_t>(at),
                                    all.begin() + static_cast<std::ptrdiff_t>(end)));
                    stage.rank.progress(0);
                }
                if (!posted)
                    receive_talk(stage.rank, granule);
                ASSERT_TRUE(stage.rank.until_done());
                stage.rank.check();
                EXPECT_EQ(stage.rank.opened.size(), 1u);
                EXPECT_TRUE(stage.rank.changed.empty());
                EXPECT_TRUE(stage.rank.failed.empty());
            }
}

// Headers, checksums, fingerprint and payload alike.
TEST(TcpChecked, EachFlippedBitIsFound) {
    const Bytes whole = data(kCredited | kOpen, 1, 0, 24, 0, 24);
    for (How how : {How::kConsumed, How::kPlain, How::kLate})
        for (size_t bit = 0; bit < 8 * whole.size();
             bit += gcoll_test::repeats(1, 3)) { // of each byte two or three
            SCOPED_TRACE("bit " + std::to_string(bit));
            Stage stage(with_checksums());
            if (how != How::kLate)
                stage.rank.receive(1, 1, 0, 24, how == How::kConsumed ? 8 : 0);
            auto peer = stage.peer();
            Bytes bad = whole;
            bad[bit / 8] = static_cast<uint8_t>(bad[bit / 8] ^ 1u << bit % 8);
            peer->say(bad);
            ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.changed.empty(); }));
            if (how == How::kLate)
                stage.rank.receive(1, 1, 0, 24);
            stage.rank.progress(0);
            EXPECT_EQ(stage.rank.done, 0u);
            EXPECT_EQ(stage.rank.messages[0]->consumed, 0u);
            EXPECT_EQ(stage.rank.messages[0]->bytes, Bytes(24, kUnwritten));
            EXPECT_EQ(stage.rank.changed.size(), 1u);
            EXPECT_EQ(stage.rank.changed[0].peer, 1u);
            EXPECT_TRUE(stage.rank.failed.empty());
        }
}

// A message in fragments: those before the bad one may have been used, it and what follows never.
TEST(TcpChecked, NothingOfABadFragmentIsUsed) {
    for (uint32_t granule : {0u, 8u})
        for (size_t piece : {size_t(64), size_t(10000)}) {
            Stage stage(with_checksums());
            Message &message = stage.rank.receive(1, 1, 0, 900, granule);
            auto peer = stage.peer();
            Bytes all = data(kCredited, 1, 0, 900, 0, 400) + data(kCredited, 1, 0, 900, 400, 900);
            all[all.size() - 450] ^= 4; // of the second fragment
            for (size_t at = 0; at < all.size(); at += piece) {
                size_t end = std::min(all.size(), at + piece);
                peer->say(Bytes(all.begin() + static_cast<std::ptrdiff_t>(at),
                                all.begin() + static_cast<std::ptrdiff_t>(end)));
                stage.rank.progress(0);
            }
            ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.changed.empty(); }));
            EXPECT_EQ(stage.rank.changed[0].text, "a payload with a wrong checksum");
            EXPECT_EQ(message.consumed, granule ? 400u : 0u);
            EXPECT_EQ(message.dones, 0);
            gcoll_note note = note_of(GCOLL_ERR_IO, UINT32_MAX, "data was changed");
            kTcp->abort(stage.rank.endpoint, &note, 1000); // the peer is still told
            Bytes heard = peer->heard();
            EXPECT_NE(std::string(heard.begin(), heard.end()).find("data was changed"), std::string::npos);
        }
}

TEST(TcpChecked, AnAbortIsChecked) {
    const Bytes text = {'w', 'h', 'y'};
    for (bool good : {true, false}) {
        Stage stage(with_checksums());
        auto peer = stage.peer();
        Bytes said = checked(frame(kAbort, GCOLL_ERR_TIMEOUT, 1, 0, 3), text);
        if (!good)
            said.back() ^= 1;
        peer->say(said);
        ASSERT_TRUE(
            stage.rank.until([&] { return !stage.rank.aborted.empty() || !stage.rank.changed.empty(); }));
        EXPECT_EQ(stage.rank.aborted.size(), good ? 1u : 0u);
    }
}

TEST(TcpChecked, OtherFramesAreGarbage) {
    struct {
        const char *name;
        Bytes said;
    } cases[] = {
        {"a large fragment", checked(frame(kData | kCredited, 1, 0, 900000, (128 << 10) + 1))},
        {"an unknown kind", checked(frame(15))},
    };
    for (const auto &each : cases) {
        Stage stage(with_checksums());
        auto peer = stage.peer();
        peer->say(each.said);
        stage.expect_garbage(each.name);
    }
    Bytes without = frame(kPing); // with right checksums, but it does not say that they are there
    put(without, 0, 4);
    put(without, 0, 4);
    put(without, 0, 4);
    put(without, crc32c(without), 4);
    Stage stage(with_checksums());
    auto peer = stage.peer();
    peer->say(without);
    stage.expect_garbage("no checksums");
}

// Every frame that goes out has right checksums, and its payloads are in small fragments.
TEST(TcpChecked, WhatIsSentHasItsChecksums) {
    Stage stage(with_checksums());
    auto peer = stage.peer();
    stage.rank.send(1, 1, 0, 100, true);
    stage.rank.send(1, 1, 1, 0);
    stage.rank.send(1, 2, 0, 300000, true); // is offered
    peer->say(checked(frame(kGrant, 2, 0)) + checked(frame(kPing)));
    ASSERT_TRUE(stage.rank.until([&] { return peer->heard(), stage.rank.done == 3; }));
    gcoll_note note = note_of(GCOLL_ERR_ABORTED, 0, "enough");
    kTcp->abort(stage.rank.endpoint, &note, 1000);
    size_t at = kAnswerBytes, payloads = 0, aborts = 0;
    const Bytes heard = peer->heard();
    auto part = [&](size_t begin, size_t count) {
        EXPECT_LE(begin + count, heard.size());
        count = std::min(count, heard.size() - std::min(begin, heard.size()));
        return Bytes(heard.begin() + static_cast<std::ptrdiff_t>(begin),
                     heard.begin() + static_cast<std::ptrdiff_t>(begin + count));
    };
    while (at + 48 <= heard.size()) {
        const uint8_t kind = heard[at + 3] & 0x0f;
        const size_t fragment = get(heard, at + 24, 4);
        const size_t extra = kind == kAbort ? fragment : heard[at + 3] & kOpen ? 32 : 0;
        const size_t payload = kind == kData ? fragment : 0;
        ASSERT_TRUE(heard[at + 3] & kChecked);
        ASSERT_EQ(get(heard, at + 44, 4), crc32c(part(at, 44)));
        ASSERT_EQ(get(heard, at + 36, 4), crc32c(part(at + 48, extra)));
        ASSERT_EQ(get(heard, at + 32, 4), crc32c(part(at + 48 + extra, payload)));
        ASSERT_LE(payload, size_t(128) << 10);
        payloads += payload;
        aborts += kind == kAbort;
        at += 48 + extra + payload;
    }
    EXPECT_EQ(at, heard.size());
    EXPECT_EQ(payloads, 300100u);
    EXPECT_EQ(aborts, 1u);
}

TEST(TcpChecked, RanksThatDifferAreToldSo) {
    for (bool first : {true, false}) {
        gcoll_endpoint_options mine = small_options_of(0, 2), theirs = small_options_of(1, 2);
        mine.checksum = first;
        theirs.checksum = !first;
        Rank a(kTcp, mine), b(kTcp, theirs);
        EXPECT_EQ(a.address().find(";sum=crc32c") != std::string::npos, first);
        EXPECT_EQ(kTcp->connect(a.endpoint, 1, b.address().c_str()), GCOLL_ERR_MISMATCH);
        EXPECT_EQ(std::string(gcoll_last_error()).find("options.checksum: is ") != std::string::npos, true);
        EXPECT_NE(std::string(gcoll_last_error())
                      .find(first ? "is 1 on rank 0 and 0 on rank 1" : "is 0 on rank 0 and 1 on rank 1"),
                  std::string::npos)
            << gcoll_last_error();
    }
}

} // namespace
