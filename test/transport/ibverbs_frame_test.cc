// test/transport/ibverbs_frame_test.cc - frames and hellos of ibverbs as bytes: what is put is got, and
// nothing else is.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>

extern "C" {
#include "transport/ibverbs/frame.h"
#include "transport/ibverbs/ib.h"
}

namespace {

gcoll_ib_frame frame_of(gcoll_ib_kind kind, uint8_t flags = 0) {
    gcoll_ib_frame frame = {};
    frame.kind = static_cast<uint8_t>(kind);
    frame.flags = flags;
    frame.slots = 17;
    frame.credit = 123456789;
    frame.stream = UINT64_C(0x8123456789ABCDEF);
    frame.index = 4000000000u;
    frame.total = 100;
    if (kind == GCOLL_IB_PIECE) {
        frame.handle = GCOLL_IB_PIECES - 1;
        frame.rkey = 0xfedcba98;
        frame.total = UINT64_C(1) << 40;
        frame.bytes = GCOLL_IB_PIECE_MAX;
        frame.offset = frame.total - frame.bytes;
        frame.address = UINT64_C(0x7fffdeadbeef0000);
    }
    return frame;
}

// NULL, or what is wrong with the frame after `change`, of `more` bytes than it should have.
std::string refusal(gcoll_ib_frame frame, int more = 0,
                    const std::function<void(uint8_t *)> &change = nullptr) {
    uint8_t bytes[4096] = {};
    uint32_t count = gcoll_ib_put_frame(bytes, &frame);
    if (frame.kind == GCOLL_IB_DATA)
        count += static_cast<uint32_t>(frame.total);
    if (change)
        change(bytes);
    gcoll_ib_frame got;
    const char *wrong = gcoll_ib_get_frame(bytes, count + static_cast<uint32_t>(more), &got);
    return wrong ? wrong : "";
}

TEST(IbverbsFrame, WhatIsPutIsGot) {
    for (int kind = 1; kind < GCOLL_IB_KINDS; kind++)
        for (uint8_t flags = 0; flags < 0xf0; flags = static_cast<uint8_t>(flags + 0x10)) {
            bool may_open = kind == GCOLL_IB_DATA || kind == GCOLL_IB_OFFER || kind == GCOLL_IB_CREDIT;
            bool allowed = (!(flags & GCOLL_IB_OPEN) || may_open) &&
                           (!(flags & GCOLL_IB_CREDITED) || kind == GCOLL_IB_DATA) &&
                           (!(flags & GCOLL_IB_AHEAD) || kind == GCOLL_IB_DATA || kind == GCOLL_IB_CREDIT) &&
                           !((flags & GCOLL_IB_AHEAD) && (flags & GCOLL_IB_OPEN)) && !(flags & 0x10);
            gcoll_ib_frame frame = frame_of(static_cast<gcoll_ib_kind>(kind), flags);
            EXPECT_EQ(refusal(frame).empty(), allowed) << kind << " " << int{flags};
            if (!allowed)
                continue;
            uint8_t bytes[4096] = {};
            gcoll_ib_frame got;
            uint32_t count = gcoll_ib_put_frame(bytes, &frame);
            count += kind == GCOLL_IB_DATA ? static_cast<uint32_t>(frame.total) : 0;
            ASSERT_EQ(gcoll_ib_get_frame(bytes, count, &got), nullptr);
            EXPECT_EQ(got.kind, frame.kind);
            EXPECT_EQ(got.flags, frame.flags);
            EXPECT_EQ(got.slots, frame.slots);
            EXPECT_EQ(got.credit, frame.credit);
            EXPECT_EQ(got.stream, frame.stream);
            EXPECT_EQ(got.index, frame.index);
            EXPECT_EQ(got.total, frame.total);
            EXPECT_EQ(got.handle, frame.handle);
            EXPECT_EQ(got.rkey, frame.rkey);
            EXPECT_EQ(got.offset, frame.offset);
            EXPECT_EQ(got.bytes, frame.bytes);
            EXPECT_EQ(got.address, frame.address);
        }
}

TEST(IbverbsFrame, ACopyHasWhatIsOwedByThen) {
    gcoll_ib_frame frame = frame_of(GCOLL_IB_PIECE), owed = {}, got;
    uint8_t first[GCOLL_IB_FIXED_BYTES] = {}, second[GCOLL_IB_FIXED_BYTES] = {};
    owed.slots = 3;
    owed.credit = 77;
    gcoll_ib_put_frame(first, &frame);
    ASSERT_EQ(gcoll_ib_copy_frame(second, first, &owed), static_cast<uint32_t>(GCOLL_IB_FIXED_BYTES));
    ASSERT_EQ(gcoll_ib_get_frame(second, sizeof second, &got), nullptr);
    EXPECT_EQ(got.slots, 3);
    EXPECT_EQ(got.credit, 77u);
    EXPECT_EQ(got.address, frame.address);
}

TEST(IbverbsFrame, LengthsMustFit) {
    for (int kind = 1; kind < GCOLL_IB_KINDS; kind++)
        for (int more : {-1, 1, 1024 - GCOLL_IB_FIXED_BYTES}) {
            const bool fits = kind == GCOLL_IB_PROOF && more > 0; /* which fills a packet */
            EXPECT_EQ(refusal(frame_of(static_cast<gcoll_ib_kind>(kind)), more) == "", fits)
                << kind << " " << more;
        }
    gcoll_ib_frame got;
    uint8_t bytes[GCOLL_IB_HEADER_BYTES] = {GCOLL_IB_CREDIT, 1};
    for (uint32_t count = 0; count < GCOLL_IB_HEADER_BYTES; count++)
        EXPECT_NE(gcoll_ib_get_frame(bytes, count, &got), nullptr);
    EXPECT_EQ(gcoll_ib_get_frame(bytes, GCOLL_IB_HEADER_BYTES, &got), nullptr);
}

TEST(IbverbsFrame, PiecesMustLieInTheirMessage) {
    auto piece = [](const std::function<void(gcoll_ib_frame &)> &change) {
        gcoll_ib_frame frame = frame_of(GCOLL_IB_PIECE);
        change(frame);
        return refusal(frame);
    };
    EXPECT_EQ(piece([](gcoll_ib_frame &) {}), "");
    EXPECT_NE(piece([](gcoll_ib_frame &f) { f.handle = GCOLL_IB_PIECES; }), "");
    EXPECT_NE(piece([](gcoll_ib_frame &f) { f.bytes = 0; }), "");
    EXPECT_NE(piece([](gcoll_ib_frame &f) { f.offset++; }), "");
    EXPECT_NE(piece([](gcoll_ib_frame &f) { f.offset = UINT64_MAX; }), "");
    EXPECT_NE(piece([](gcoll_ib_frame &f) { f.bytes = UINT64_C(1) + GCOLL_IB_PIECE_MAX, f.offset = 0; }), "");
    EXPECT_NE(piece([](gcoll_ib_frame &f) { f.total = f.bytes - 1, f.offset = 0; }), "");
}

TEST(IbverbsFrame, KindAndVersionAreChecked) {
    EXPECT_NE(refusal(frame_of(GCOLL_IB_CREDIT), 0, [](uint8_t *b) { b[1]++; }), "");
    for (uint8_t kind : {0, int{GCOLL_IB_KINDS}, 15})
        EXPECT_NE(refusal(
                      frame_of(GCOLL_IB_CREDIT), 0, [=](uint8_t *b) { b[0] = kind; }),
                  "")
            << int{kind};
    EXPECT_NE(refusal(frame_of(GCOLL_IB_CREDIT), 0, [](uint8_t *b) { b[0] |= 0x10; }), "");
}

TEST(IbverbsFrame, NoiseIsReadWithinItsBounds) {
    std::mt19937 random(7);
    for (int i = 0; i < 200000; i++) {
        uint32_t count = random() % 97;
        std::unique_ptr<uint8_t[]> bytes(new uint8_t[count + 1]); // the sanitizer watches its end
        for (uint32_t k = 0; k < count; k++)
            bytes[k] = static_cast<uint8_t>(random());
        if (count > 1 && i % 2)
            bytes[0] &= 0x87, bytes[1] = 1;
        gcoll_ib_frame got;
        if (!gcoll_ib_get_frame(bytes.get(), count, &got))
            EXPECT_LT(got.kind, GCOLL_IB_KINDS);
    }
}

gcoll_ib_hello hello_of() {
    gcoll_ib_hello hello = {};
    hello.qpn = 0xffffff;
    hello.psn = 0x123456;
    hello.lid = 0xabcd;
    hello.ethernet = true;
    hello.gid.raw[15] = 7;
    hello.mtu = IBV_MTU_2048;
    hello.depth = GCOLL_IB_DEPTH;
    hello.piece_max = GCOLL_IB_PIECE_MAX;
    hello.eager_bytes = GCOLL_IB_EAGER_BYTES;
    hello.pool_bytes = GCOLL_FLOW_POOL_BYTES;
    return hello;
}

std::string hello_refusal(const std::function<void(gcoll_ib_hello &)> &change) {
    uint8_t bytes[GCOLL_IB_HELLO_BYTES];
    gcoll_ib_hello hello = hello_of(), got;
    change(hello);
    gcoll_ib_put_hello(bytes, &hello);
    const char *wrong = gcoll_ib_get_hello(bytes, &got);
    return wrong ? wrong : "";
}

TEST(IbverbsHello, WhatIsPutIsGot) {
    uint8_t bytes[GCOLL_IB_HELLO_BYTES];
    gcoll_ib_hello hello = hello_of(), got;
    gcoll_ib_put_hello(bytes, &hello);
    ASSERT_EQ(gcoll_ib_get_hello(bytes, &got), nullptr);
    EXPECT_EQ(got.qpn, hello.qpn);
    EXPECT_EQ(got.psn, hello.psn);
    EXPECT_EQ(got.lid, hello.lid);
    EXPECT_EQ(got.ethernet, hello.ethernet);
    EXPECT_EQ(std::memcmp(got.gid.raw, hello.gid.raw, sizeof got.gid.raw), 0);
    EXPECT_EQ(got.mtu, hello.mtu);
    EXPECT_EQ(got.depth, hello.depth);
    EXPECT_EQ(got.piece_max, hello.piece_max);
    EXPECT_EQ(got.eager_bytes, hello.eager_bytes);
    EXPECT_EQ(got.pool_bytes, hello.pool_bytes);
    bytes[3] ^= 1;
    EXPECT_NE(gcoll_ib_get_hello(bytes, &got), nullptr);
}

TEST(IbverbsHello, EachFieldIsChecked) {
    EXPECT_EQ(hello_refusal([](gcoll_ib_hello &) {}), "");
    EXPECT_EQ(hello_refusal([](gcoll_ib_hello &h) { h.ethernet = false; }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.ethernet = false, h.lid = 0; }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.gid = {}; }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.qpn = 0x1000000; }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.psn = 0x1000000; }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.mtu = static_cast<ibv_mtu>(0); }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.mtu = static_cast<ibv_mtu>(6); }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.depth--; }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.piece_max = GCOLL_IB_CHUNK_BYTES - 1; }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.piece_max++; }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.eager_bytes = GCOLL_IB_EAGER_MAX + 1; }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.pool_bytes = GCOLL_FLOW_POOL_MIN - 1; }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.pool_bytes = GCOLL_FLOW_POOL_MAX + 1; }), "");
    EXPECT_NE(hello_refusal([](gcoll_ib_hello &h) { h.pool_bytes = 2 * h.eager_bytes; }), "");
}

// The table of options cannot include the limits of the protocol, which need the headers of libibverbs.
TEST(IbverbsFrame, LimitsAreThoseOfTheTableOfOptions) {
    const gcoll_lane_option *option = gcoll_ib_lane_options;
    int found = 0;
    for (; option->name; option++) {
        if (std::string(option->name) == "eager_bytes") {
            EXPECT_EQ(option->most, GCOLL_IB_EAGER_MAX);
            EXPECT_EQ(option->initial, std::to_string(GCOLL_IB_EAGER_BYTES));
            found++;
        } else if (std::string(option->name) == "pool_bytes") {
            EXPECT_EQ(option->least, static_cast<int64_t>(GCOLL_FLOW_POOL_MIN));
            EXPECT_EQ(option->most, static_cast<int64_t>(GCOLL_FLOW_POOL_MAX));
            EXPECT_STREQ(option->initial, "4Mi");
            EXPECT_EQ(GCOLL_FLOW_POOL_BYTES, UINT64_C(4) << 20);
            found++;
        }
    }
    EXPECT_EQ(found, 2);
}

} // namespace
