// test/core/footprint_test.cc - limits of the memory that the library allocates for a rank: it grows with the
// logarithm of the number of ranks, and by a few bytes for each.
#include "test/kit/allocations.h"
#include "test/kit/harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

using gcoll_test::allocated_bytes;
using gcoll_test::Job;
using gcoll_test::Shared;

struct Held {
    std::atomic<int64_t> joined[64], used[64];
};

// Measures the largest memory of any rank after it has joined, and after collectives by the algorithms that
// the library chooses for few bytes.
void measure(uint32_t size, int64_t *joined, int64_t *used) {
    Shared<Held> found;
    gcoll_test::run_processes(size, 60000, [&](uint32_t rank, gcoll_store *store) {
        Job job;
        job.size = size;
        int64_t before = allocated_bytes;
        gcoll_context *context = gcoll_test::join(store, job, rank);
        if (!context)
            return gcoll_test::kFailed;
        found->joined[rank] = allocated_bytes - before;
        int32_t value = 1;
        for (int i = 0; i < 3; i++) {
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            value = 1;
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &value, 1, GCOLL_INT32, GCOLL_SUM, nullptr));
            EXPECT_EQ(value, static_cast<int32_t>(size));
        }
        found->used[rank] = allocated_bytes - before;
        gcoll_context_destroy(context);
        EXPECT_EQ(allocated_bytes, before) << "rank " << rank << " leaves memory behind";
        return 0;
    });
    *joined = *used = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        *joined = std::max(*joined, found->joined[rank].load());
        *used = std::max(*used, found->used[rank].load());
    }
    EXPECT_GT(*joined, 0) << "nothing is counted";
    EXPECT_GT(*used, *joined);
    printf("%u ranks: %lld bytes joined, %lld after collectives\n", size, static_cast<long long>(*joined),
           static_cast<long long>(*used));
}

TEST(Footprint, GrowsByALittleForEachRank) {
    int64_t joined[2], used[2];
    measure(32, &joined[0], &used[0]); // up to 16, all may be partners of rank 0
    measure(64, &joined[1], &used[1]);
    constexpr int64_t kRanks = 64 - 32;
    constexpr int64_t kEachBytes = 64;           // tables by rank; 48 are found
    constexpr int64_t kPartnerBytes = 96 * 1024; // 64 KiB are its input buffer; 75 KiB are found
    constexpr int64_t kPartners = 2 * (6 - 5);   // barrier's and allreduce's, more at 64 than at 32
    EXPECT_LE(joined[1] - joined[0], kRanks * kEachBytes);
    EXPECT_LE(used[1] - used[0], kRanks * kEachBytes + kPartners * kPartnerBytes);
}

} // namespace
