// test/base/crc32c_test.cc - CRC32C by all ways of this build, against its definition.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

extern "C" {
#include "gcoll/base/crc32c.h"
}

namespace {

// Bit by bit, by the definition: the remainder of a division by the polynomial, reflected.
uint32_t oracle(uint32_t crc, const uint8_t *data, size_t bytes) {
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    }
    return ~crc;
}

std::vector<std::pair<std::string, gcoll_crc32c_fn>> sets() {
    std::vector<std::pair<std::string, gcoll_crc32c_fn>> found;
    for (const char *const *name = gcoll_crc32c_sets; *name; name++)
        if (gcoll_crc32c_fn compute = gcoll_crc32c_find_in(*name))
            found.emplace_back(*name, compute);
    return found;
}

TEST(Crc32c, KnowsTheStandardsVectors) {
    std::vector<uint8_t> ascending(32), descending(32);
    for (uint8_t i = 0; i < 32; i++) {
        ascending[i] = i;
        descending[i] = static_cast<uint8_t>(31 - i);
    }
    for (const auto &[name, compute] : sets()) {
        SCOPED_TRACE(name);
        EXPECT_EQ(compute(0, "123456789", 9), 0xE3069283u);
        EXPECT_EQ(compute(0, nullptr, 0), 0u);
        // RFC 3720, B.4
        EXPECT_EQ(compute(0, std::vector<uint8_t>(32, 0).data(), 32), 0x8A9136AAu);
        EXPECT_EQ(compute(0, std::vector<uint8_t>(32, 0xff).data(), 32), 0x62A8AB43u);
        EXPECT_EQ(compute(0, ascending.data(), 32), 0x46DD794Eu);
        EXPECT_EQ(compute(0, descending.data(), 32), 0x113FDB5Cu);
    }
}

TEST(Crc32c, AgreesWithItsDefinition) {
    std::mt19937 random(7);
    std::vector<uint8_t> data(60000);
    for (uint8_t &byte : data)
        byte = static_cast<uint8_t>(random());
    std::vector<size_t> lengths = {0,     767,   768,   769,   1535,  1536,  1537,
                                   12287, 12288, 12289, 24576, 36864, 37700, 59980};
    for (size_t length = 1; length < 70; length++)
        lengths.push_back(length);
    for (const auto &[name, compute] : sets())
        for (size_t length : lengths)
            for (size_t at : {size_t(0), size_t(1), size_t(7), size_t(16)}) {
                const uint32_t begin = static_cast<uint32_t>(random());
                ASSERT_EQ(compute(begin, data.data() + at, length), oracle(begin, data.data() + at, length))
                    << name << " of " << length << " bytes at " << at;
            }
}

TEST(Crc32c, IsTheSameInPieces) {
    std::mt19937 random(8);
    std::vector<uint8_t> data(50000);
    for (uint8_t &byte : data)
        byte = static_cast<uint8_t>(random());
    for (const auto &[name, compute] : sets()) {
        const uint32_t whole = compute(0, data.data(), data.size());
        for (int i = 0; i < 20; i++) {
            const size_t cut = random() % data.size();
            EXPECT_EQ(compute(compute(0, data.data(), cut), data.data() + cut, data.size() - cut), whole)
                << name << " cut at " << cut;
        }
    }
}

TEST(Crc32c, TheBestIsThere) {
    EXPECT_EQ(gcoll_crc32c_find(), sets()[0].second);
    EXPECT_EQ(sets().back().second, &gcoll_crc32c_plain);
    EXPECT_EQ(gcoll_crc32c_find_in("sse9"), nullptr);
}

} // namespace
