// test/transport/wire_test.cc - the bytes of the protocol: what is written is read back, what is wrong is
// refused.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

extern "C" {
#include "transport/session/wire.h"
}

namespace {

using Bytes = std::vector<uint8_t>;

gcoll_wire_header data_header(uint64_t total, uint32_t fragment) {
    gcoll_wire_header header = {};
    header.kind = GCOLL_WIRE_DATA;
    header.total_bytes = total;
    header.fragment_bytes = fragment;
    return header;
}

Bytes encoded(const gcoll_wire_header &header) {
    Bytes bytes(GCOLL_WIRE_HEADER_BYTES);
    gcoll_wire_put_header(bytes.data(), &header);
    return bytes;
}

bool is_sound(const Bytes &bytes) {
    gcoll_wire_header header = {};
    return gcoll_wire_get_header(bytes.data(), &header) == nullptr;
}

TEST(Wire, HeaderIsThirtyTwoLittleEndianBytes) {
    gcoll_wire_header header = data_header(0x1112131415161718u, 0x00010203u);
    header.flags = GCOLL_WIRE_OPEN | GCOLL_WIRE_CREDITED;
    header.index = 0x21222324u;
    header.stream = 0x3132333435363738u;
    header.credit = 0x41424344u;
    const Bytes expected = {0x63, 0x67, 0x03, 0xc1, 0x24, 0x23, 0x22, 0x21, 0x38, 0x37, 0x36,
                            0x35, 0x34, 0x33, 0x32, 0x31, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
                            0x12, 0x11, 0x03, 0x02, 0x01, 0x00, 0x44, 0x43, 0x42, 0x41};
    EXPECT_EQ(encoded(header), expected);
}

TEST(Wire, EverySoundHeaderIsReadBack) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 20000; i++) {
        gcoll_wire_header header = {};
        header.kind = static_cast<uint8_t>(1 + random() % (GCOLL_WIRE_KINDS - 1));
        header.index = static_cast<uint32_t>(random());
        header.stream = random();
        header.total_bytes = random() >> (random() % 64);
        header.credit = static_cast<uint32_t>(random());
        if (header.kind == GCOLL_WIRE_DATA) {
            header.flags = static_cast<uint8_t>((random() % 4) << 6);
            if (!(header.flags & GCOLL_WIRE_OPEN) && random() % 2)
                header.flags |= GCOLL_WIRE_AHEAD;
            uint64_t most = std::min<uint64_t>(header.total_bytes, GCOLL_WIRE_FRAGMENT_MAX);
            header.fragment_bytes = static_cast<uint32_t>(most ? 1 + random() % most : 0);
        } else if (header.kind == GCOLL_WIRE_OFFER || header.kind == GCOLL_WIRE_CREDIT ||
                   header.kind == GCOLL_WIRE_STRIPED) {
            header.flags = random() % 2 ? GCOLL_WIRE_OPEN : 0;
        } else if (header.kind == GCOLL_WIRE_ABORT) {
            header.flags = random() % 2 ? GCOLL_WIRE_PASSED_ON : 0;
            header.fragment_bytes = static_cast<uint32_t>(random() % GCOLL_NOTE_TEXT_MAX);
        }
        gcoll_wire_header back = {};
        ASSERT_EQ(gcoll_wire_get_header(encoded(header).data(), &back), nullptr);
        EXPECT_EQ(back.kind, header.kind);
        EXPECT_EQ(back.flags, header.flags);
        EXPECT_EQ(back.index, header.index);
        EXPECT_EQ(back.stream, header.stream);
        EXPECT_EQ(back.total_bytes, header.total_bytes);
        EXPECT_EQ(back.fragment_bytes, header.fragment_bytes);
        EXPECT_EQ(back.credit, header.credit);
    }
}

TEST(Wire, ChecksumsAreReadBackAndFindEachFlippedBit) {
    const gcoll_wire_header header = data_header(1000, 500);
    const gcoll_wire_sums sums = {0x01020304u, 0x05060708u};
    Bytes bytes = encoded(header);
    bytes.resize(GCOLL_WIRE_HEADER_BYTES + GCOLL_WIRE_CHECK_BYTES);
    gcoll_wire_put_sums(bytes.data(), gcoll_crc32c_plain, &sums);
    const Bytes expected = {4, 3, 2, 1, 8, 7, 6, 5, 0, 0, 0, 0};
    EXPECT_EQ(Bytes(bytes.begin() + 32, bytes.begin() + 44), expected);
    EXPECT_FALSE(is_sound(bytes)) << "without checksums nobody expects the flag";
    gcoll_wire_header read = {};
    gcoll_wire_sums found = {};
    ASSERT_TRUE(gcoll_wire_is_intact(bytes.data(), gcoll_crc32c_plain));
    ASSERT_EQ(gcoll_wire_get_checked(bytes.data(), &read, &found), nullptr);
    EXPECT_EQ(read.fragment_bytes, 500u);
    EXPECT_EQ(read.flags, 0);
    EXPECT_EQ(found.payload, sums.payload);
    EXPECT_EQ(found.extra, sums.extra);
    for (size_t bit = 0; bit < 8 * bytes.size(); bit++) {
        Bytes bad = bytes;
        bad[bit / 8] = static_cast<uint8_t>(bad[bit / 8] ^ 1u << bit % 8);
        EXPECT_FALSE(gcoll_wire_is_intact(bad.data(), gcoll_crc32c_plain)) << "bit " << bit;
    }
}

TEST(Wire, EachWrongFieldIsRefused) {
    Bytes good = encoded(data_header(100, 50));
    EXPECT_TRUE(is_sound(good));
    for (int bit = 0; bit < 24; bit++) { // magic and version
        Bytes bad = good;
        bad[static_cast<size_t>(bit / 8)] ^= static_cast<uint8_t>(1 << (bit % 8));
        EXPECT_FALSE(is_sound(bad)) << bit;
    }
    for (int kind : {0, 10, 15}) {
        Bytes bad = good;
        bad[3] = static_cast<uint8_t>(kind);
        EXPECT_FALSE(is_sound(bad)) << kind;
    }
    for (int flag : {0x20, 0x90}) { // CHECKED; a fingerprint that is here, and came before
        Bytes bad = good;
        bad[3] |= static_cast<uint8_t>(flag);
        EXPECT_FALSE(is_sound(bad)) << flag;
    }
    EXPECT_FALSE(is_sound(encoded(data_header(1, 0))));
    EXPECT_FALSE(is_sound(encoded(data_header(1, 2))));
    EXPECT_TRUE(is_sound(encoded(data_header(0, 0))));
    EXPECT_TRUE(is_sound(encoded(data_header(UINT64_MAX, GCOLL_WIRE_FRAGMENT_MAX))));
    EXPECT_FALSE(is_sound(encoded(data_header(UINT64_MAX, GCOLL_WIRE_FRAGMENT_MAX + 1))));
}

TEST(Wire, ControlFramesHaveNoPayloadAndNoStrangeFlags) {
    for (int kind = GCOLL_WIRE_OFFER; kind < GCOLL_WIRE_KINDS; kind++) {
        gcoll_wire_header header = {};
        header.kind = static_cast<uint8_t>(kind);
        EXPECT_TRUE(is_sound(encoded(header))) << kind;
        header.flags = GCOLL_WIRE_CREDITED;
        EXPECT_FALSE(is_sound(encoded(header))) << kind;
        header.flags = GCOLL_WIRE_OPEN;
        EXPECT_EQ(is_sound(encoded(header)), kind == GCOLL_WIRE_OFFER || kind == GCOLL_WIRE_CREDIT ||
                                                 kind == GCOLL_WIRE_PING || kind == GCOLL_WIRE_STRIPED)
            << kind;
        header.flags = GCOLL_WIRE_PASSED_ON;
        EXPECT_EQ(is_sound(encoded(header)), kind == GCOLL_WIRE_ABORT || kind == GCOLL_WIRE_STRIPED)
            << kind; // which is AHEAD of STRIPED
        header.flags = 0;
        const uint32_t most = kind == GCOLL_WIRE_ABORT  ? GCOLL_NOTE_TEXT_MAX - 1
                              : kind == GCOLL_WIRE_LANE ? GCOLL_LANE_WORD_MAX
                                                        : 0;
        for (uint32_t bytes : {1u, most, most + 1}) {
            header.fragment_bytes = bytes;
            EXPECT_EQ(is_sound(encoded(header)), bytes <= most) << kind << " " << bytes;
        }
    }
}

// Whatever is accepted is exactly what would have been written: no two encodings, no ignored bits.
TEST(Wire, RandomBytesAreRefusedOrMeanWhatTheySay) {
    std::mt19937_64 random(2);
    int accepted = 0;
    for (int i = 0; i < 200000; i++) {
        Bytes bytes(GCOLL_WIRE_HEADER_BYTES); // exactly so many: a sanitizer sees a read beyond
        for (uint8_t &b : bytes)
            b = static_cast<uint8_t>(random() % 4 ? 0 : random());
        if (random() % 8) { // or nobody gets past the magic number
            bytes[0] = 0x63;
            bytes[1] = 0x67;
            bytes[2] = GCOLL_WIRE_VERSION;
            bytes[3] = static_cast<uint8_t>((random() % 16) | (random() % 16) << 4);
        }
        gcoll_wire_header header = {};
        if (gcoll_wire_get_header(bytes.data(), &header) == nullptr) {
            accepted++;
            ASSERT_EQ(encoded(header), bytes);
            ASSERT_LE(gcoll_wire_extra_bytes(&header), static_cast<size_t>(GCOLL_NOTE_TEXT_MAX));
        }
    }
    EXPECT_GT(accepted, 1000);
}

TEST(Wire, GreetingIsReadBackAndNothingElseIsOne) {
    gcoll_wire_hello hello = {};
    hello.version = 7;
    hello.oldest = 5;
    for (size_t i = 0; i < sizeof hello.lanes; i++)
        hello.lanes[i] = static_cast<uint8_t>(100 + i);
    hello.from = 3;
    hello.to = 0xfffffffe;
    hello.eager_bytes = 1234567890123u;
    hello.pool_bytes = 987654321987u;
    for (size_t i = 0; i < 16; i++) {
        hello.group[i] = static_cast<uint8_t>(i);
        hello.nonce[i] = static_cast<uint8_t>(200 + i);
    }
    Bytes bytes(GCOLL_WIRE_HELLO_BYTES);
    gcoll_wire_put_hello(bytes.data(), &hello);
    gcoll_wire_hello back = {};
    ASSERT_EQ(gcoll_wire_get_hello(bytes.data(), &back), nullptr);
    EXPECT_EQ(back.version, hello.version);
    EXPECT_EQ(back.oldest, hello.oldest);
    EXPECT_EQ(std::memcmp(back.lanes, hello.lanes, sizeof back.lanes), 0);
    EXPECT_EQ(back.from, hello.from);
    EXPECT_EQ(back.to, hello.to);
    EXPECT_EQ(back.eager_bytes, hello.eager_bytes);
    EXPECT_EQ(back.pool_bytes, hello.pool_bytes);
    EXPECT_EQ(std::memcmp(back.group, hello.group, 16), 0);
    EXPECT_EQ(std::memcmp(back.nonce, hello.nonce, 16), 0);
    for (size_t i = 0; i < 8; i++) {
        Bytes bad = bytes;
        bad[i] ^= 0x20;
        EXPECT_NE(gcoll_wire_get_hello(bad.data(), &back), nullptr) << i;
    }
}

TEST(Wire, AStripesGreetingIsReadBack) {
    gcoll_wire_hello hello = {}, back = {};
    hello.version = 2;
    hello.from = 3;
    hello.to = 4;
    hello.stripe = 16;
    std::memset(hello.group, 0x17, sizeof hello.group);
    std::memset(hello.nonce, 0x28, sizeof hello.nonce);
    Bytes bytes(GCOLL_WIRE_HELLO_BYTES);
    gcoll_wire_put_hello(bytes.data(), &hello);
    for (size_t count = 0; count <= bytes.size(); count++)
        EXPECT_TRUE(gcoll_wire_may_be_hello(bytes.data(), count)) << count;
    ASSERT_EQ(gcoll_wire_get_hello(bytes.data(), &back), nullptr);
    EXPECT_EQ(back.version, hello.version);
    EXPECT_EQ(back.from, hello.from);
    EXPECT_EQ(back.to, hello.to);
    EXPECT_EQ(back.stripe, hello.stripe);
    EXPECT_EQ(std::memcmp(back.group, hello.group, 16), 0);
    EXPECT_EQ(std::memcmp(back.nonce, hello.nonce, 16), 0);
    Bytes without = bytes;
    std::fill_n(without.begin() + 20, 4, uint8_t{0});
    EXPECT_NE(gcoll_wire_get_hello(without.data(), &back), nullptr) << "no greeting of a session either";
    bytes[6] ^= 0x20;
    EXPECT_NE(gcoll_wire_get_hello(bytes.data(), &back), nullptr);
}

TEST(Wire, AStripesHeaderIsCheckedFieldByField) {
    gcoll_wire_header header = {}, back = {};
    header.kind = GCOLL_WIRE_STRIPE;
    header.index = 5;
    header.stream = 0x0102030405060708u;
    header.total_bytes = UINT64_MAX;
    header.fragment_bytes = GCOLL_WIRE_STRIPE_BYTES;
    const Bytes good = encoded(header);
    ASSERT_EQ(gcoll_wire_get_stripe(good.data(), &back), nullptr);
    EXPECT_EQ(back.index, header.index);
    EXPECT_EQ(back.stream, header.stream);
    EXPECT_EQ(back.total_bytes, header.total_bytes);
    EXPECT_EQ(back.fragment_bytes, header.fragment_bytes);
    for (size_t i : {0u, 1u, 2u, 3u, 28u, 31u}) { // magic, version, kind, credit
        Bytes bad = good;
        bad[i] ^= 0x10;
        EXPECT_NE(gcoll_wire_get_stripe(bad.data(), &back), nullptr) << i;
    }
    for (uint32_t bytes : {0u, GCOLL_WIRE_STRIPE_BYTES + 1, UINT32_MAX}) {
        header.fragment_bytes = bytes;
        EXPECT_NE(gcoll_wire_get_stripe(encoded(header).data(), &back), nullptr) << bytes;
    }
    EXPECT_FALSE(is_sound(good)) << "on a session's own connection";
}

TEST(Wire, AnswerIsReadBackAndNothingElseIsOne) {
    gcoll_wire_reply reply = {};
    reply.verdict = GCOLL_WIRE_REFUSE_DUPLICATE;
    reply.version = 9;
    for (size_t i = 0; i < sizeof reply.lanes; i++)
        reply.lanes[i] = static_cast<uint8_t>(50 + i);
    reply.from = 1;
    reply.to = 2;
    reply.eager_bytes = 55;
    reply.pool_bytes = 66;
    std::memset(reply.group, 0xab, sizeof reply.group);
    Bytes bytes(GCOLL_WIRE_REPLY_BYTES);
    gcoll_wire_put_reply(bytes.data(), &reply);
    gcoll_wire_reply back = {};
    ASSERT_EQ(gcoll_wire_get_reply(bytes.data(), &back), nullptr);
    EXPECT_EQ(back.verdict, reply.verdict);
    EXPECT_EQ(back.version, reply.version);
    EXPECT_EQ(std::memcmp(back.lanes, reply.lanes, sizeof back.lanes), 0);
    EXPECT_EQ(back.from, reply.from);
    EXPECT_EQ(back.to, reply.to);
    EXPECT_EQ(back.eager_bytes, reply.eager_bytes);
    EXPECT_EQ(back.pool_bytes, reply.pool_bytes);
    EXPECT_EQ(std::memcmp(back.group, reply.group, 16), 0);
    for (size_t i = 0; i < 8; i++) {
        Bytes bad = bytes;
        bad[i] ^= 0x20;
        EXPECT_NE(gcoll_wire_get_reply(bad.data(), &back), nullptr) << i;
    }
    reply.verdict = GCOLL_WIRE_VERDICTS;
    gcoll_wire_put_reply(bytes.data(), &reply);
    EXPECT_NE(gcoll_wire_get_reply(bytes.data(), &back), nullptr);
}

TEST(Wire, NoteIsReadBack) {
    for (size_t length : {0u, 1u, 17u, 254u, 255u}) {
        gcoll_note note = {};
        note.status = GCOLL_ERR_TIMEOUT;
        note.culprit = 12345;
        note.passed_on = length % 2 == 1;
        std::memset(note.text, 'x', length);
        Bytes bytes(GCOLL_WIRE_HEADER_BYTES + GCOLL_NOTE_TEXT_MAX);
        size_t count = gcoll_wire_put_note(bytes.data(), &note);
        ASSERT_EQ(count, GCOLL_WIRE_HEADER_BYTES + length);
        gcoll_wire_header header = {};
        ASSERT_EQ(gcoll_wire_get_header(bytes.data(), &header), nullptr);
        ASSERT_EQ(gcoll_wire_extra_bytes(&header), length);
        gcoll_note back = {};
        gcoll_wire_get_note(&header, bytes.data() + GCOLL_WIRE_HEADER_BYTES, &back);
        EXPECT_EQ(back.status, note.status);
        EXPECT_EQ(back.culprit, note.culprit);
        EXPECT_EQ(back.passed_on, note.passed_on);
        EXPECT_STREQ(back.text, note.text);
    }
}

TEST(Wire, NoteFromAStrangeTongueIsPrintableAndAnError) {
    std::mt19937_64 random(3);
    for (int i = 0; i < 5000; i++) {
        gcoll_wire_header header = {};
        header.kind = GCOLL_WIRE_ABORT;
        header.stream = i % 3 ? random() : random() % 16;
        header.fragment_bytes = static_cast<uint32_t>(random() % GCOLL_NOTE_TEXT_MAX);
        Bytes text(header.fragment_bytes); // unterminated
        for (uint8_t &b : text)
            b = static_cast<uint8_t>(random());
        gcoll_note note;
        std::memset(&note, 0x5a, sizeof note);
        gcoll_wire_get_note(&header, text.data(), &note);
        EXPECT_GT(note.status, GCOLL_OK);
        EXPECT_LE(note.status, GCOLL_ERR_INTERNAL);
        size_t length = strnlen(note.text, sizeof note.text);
        ASSERT_LT(length, sizeof note.text);
        for (size_t k = 0; k < length; k++)
            EXPECT_TRUE(note.text[k] >= ' ' && note.text[k] < 127);
    }
}

} // namespace
