// test/core/footprint_test.cc - limits of the memory that the library allocates for a rank: it grows with the
// logarithm of the number of ranks, and by a few bytes for each.
#include "test/kit/harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>

// The linker redirects the allocations of the library and of the test to these functions (--wrap).
static std::atomic<int64_t> held{0};

static void *taken(void *memory) {
    held += static_cast<int64_t>(malloc_usable_size(memory));
    return memory;
}

extern "C" {
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);
void *__wrap_malloc(size_t bytes) {
    return taken(__real_malloc(bytes));
}
void *__wrap_calloc(size_t count, size_t bytes) {
    return taken(__real_calloc(count, bytes));
}
void *__wrap_realloc(void *memory, size_t bytes) {
    int64_t before = static_cast<int64_t>(malloc_usable_size(memory));
    void *moved = __real_realloc(memory, bytes);
    if (moved)
        held -= before;
    return taken(moved);
}
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return taken(__real_aligned_alloc(alignment, bytes));
}
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes) {
    int error = __real_posix_memalign(memory, alignment, bytes);
    if (error == 0)
        taken(*memory);
    return error;
}
char *__wrap_strdup(const char *text) {
    return static_cast<char *>(taken(__real_strdup(text)));
}
void __wrap_free(void *memory) {
    held -= static_cast<int64_t>(malloc_usable_size(memory));
    __real_free(memory);
}
}

namespace {

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
        int64_t before = held;
        gcoll_context *context = gcoll_test::join(store, job, rank);
        if (!context)
            return gcoll_test::kFailed;
        found->joined[rank] = held - before;
        int32_t value = 1;
        for (int i = 0; i < 3; i++) {
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            value = 1;
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &value, 1, GCOLL_INT32, GCOLL_SUM, nullptr));
            EXPECT_EQ(value, static_cast<int32_t>(size));
        }
        found->used[rank] = held - before;
        gcoll_context_destroy(context);
        EXPECT_EQ(held, before) << "rank " << rank << " leaves memory behind";
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
