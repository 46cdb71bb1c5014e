// test/transport/shm_land_test.cc - large messages of the lane shm that are put past the caches: that every
// byte comes where it belongs and no other is touched, and which messages these are.
#include "test/transport/raw_peer.h"
#include "test/transport/shm_support.h"

#include <cstring>
#include <numeric>
#include <vector>

extern "C" {
#include "gcoll/memory.h"
#include "transport/session/connect.h"
#include "transport/session/session.h"
#include "transport/shm/shm.h"
}

using namespace harness;

namespace {

TEST(ShmLand, CopiesAllLengthsFromAndToAllPlaces) {
    constexpr size_t kLine = 64, kMost = 5 * kLine;
    std::vector<uint8_t> from(kMost + kLine);
    std::iota(from.begin(), from.end(), uint8_t{1});
    for (size_t to_offset = 0; to_offset < kLine; to_offset++)
        for (size_t from_offset : {size_t{0}, size_t{1}, size_t{16}, size_t{32}, to_offset})
            for (size_t bytes = 0; bytes <= kMost; bytes += bytes < kLine + 2 ? 1 : 13) {
                alignas(64) uint8_t to[kMost + 2 * kLine];
                uint8_t wanted[sizeof to];
                memset(to, 0xa5, sizeof to);
                memset(wanted, 0xa5, sizeof wanted);
                for (size_t i = 0; i < bytes; i++)
                    wanted[to_offset + i] = from[from_offset + i];
                gcoll_shm_copy_past(to + to_offset, from.data() + from_offset, bytes);
                ASSERT_EQ(memcmp(to, wanted, sizeof to), 0)
                    << bytes << " bytes from " << from_offset << " to " << to_offset;
            }
}

TEST(ShmLand, MoreRanksHaveSmallerShares) {
    const struct {
        uint64_t ranks, bytes;
    } rows[] = {{0, 2 << 20},   {1, 2 << 20},    {2, 1 << 20},        {4, 512 << 10},
                {8, 256 << 10}, {16, 256 << 10}, {1 << 20, 256 << 10}};
    for (const auto &row : rows)
        EXPECT_EQ(gcoll_shm_past_bytes(row.ranks), row.bytes) << row.ranks;
}

// Messages below and above the limit, through the ring and in memory that the peer reads, to receives that
// take them as they are, reduce them, and come later than they do.
TEST(ShmLand, MessagesOfAllKindsComeWhole) {
    constexpr uint64_t kPast = 20000;
    constexpr size_t kBytes = size_t{8} << 20;
    void *memory = nullptr;
    ASSERT_EQ(gcoll_memory_alloc(kBytes, &memory), GCOLL_OK) << gcoll_last_error();
    auto *block = static_cast<uint8_t *>(memory);
    {
        Group group(&gcoll_transport_shm, 2);
        for (uint32_t r = 0; r < 2; r++) {
            group.connect(group[r]);
            group[r].send(1 - r, 1, 0, 100, true);
            group[r].receive(1 - r, 1, 0, 100);
        }
        ASSERT_TRUE(group.turn_until_done());
        for (uint32_t r = 0; r < 2; r++)
            pair_of(group[r], 1 - r)->shm->past_bytes = kPast;
        group[0].send(1, 2, 0, 300000, false, false, block); /* the peer maps the block */
        group[1].receive(0, 2, 0, 300000);
        ASSERT_TRUE(group.turn_until_done());
        uint32_t index = 0;
        uint64_t at = 0;
        for (uint64_t bytes : {kPast - 1, kPast, kPast + 1, kPast + 4095, UINT64_C(100003), UINT64_C(300000),
                               UINT64_C(1000001)})
            for (uint32_t granule : {0U, 4U, 12U}) {
                const uint64_t whole = granule ? bytes - bytes % granule : bytes;
                for (bool is_mapped : {false, true}) {
                    uint8_t *place = is_mapped ? block + at : nullptr;
                    ASSERT_LE(at + whole, kBytes);
                    at += is_mapped ? whole : 0;
                    group[0].send(1, 3, index, whole, false, false, place);
                    uint32_t turns = 0; /* now and then the message is there before its receive */
                    ASSERT_TRUE(group.turn([&] { return index % 3 != 0 || turns++ == 4; }));
                    group[1].receive(0, 3, index, whole, granule);
                    index++;
                }
            }
        ASSERT_TRUE(group.turn_until_done());
        group[1].check();
        EXPECT_GT(pair_of(group[1], 0)->pulls.count, 0u);
    }
    EXPECT_EQ(gcoll_memory_free(block), GCOLL_OK);
}

} // namespace
