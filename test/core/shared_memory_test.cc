// test/core/shared_memory_test.cc - every collective by every algorithm on memory of gcoll_memory_alloc,
// which ranks of a host read where it lies, against plain loops.
#include "test/kit/collective_support.h"

#include "test/kit/descriptors.h"
#include "test/kit/sanitizer.h"

#include <cstring>

#include "gcoll/memory.h"

namespace {

using namespace collective_support;
using namespace gcoll_test;
using Values = std::vector<int32_t>;

constexpr uint64_t kCount = 3001; // of a block
constexpr uint32_t kMost = 4;     // ranks

int32_t value(uint32_t rank, uint64_t i) {
    return static_cast<int32_t>(mix(rank * 7919u + i) % 1000003);
}
Values values(uint32_t rank, uint64_t first, uint64_t count) {
    Values all(count);
    for (uint64_t i = 0; i < count; i++)
        all[i] = value(rank, first + i);
    return all;
}
Values sums(uint32_t size, uint64_t first, uint64_t count) {
    Values all(count, 0);
    for (uint32_t rank = 0; rank < size; rank++)
        for (uint64_t i = 0; i < count; i++)
            all[i] += value(rank, first + i);
    return all;
}
// Block `block` of each rank, one behind the other.
Values blocks(uint32_t size, uint32_t block) {
    Values all;
    for (uint32_t rank = 0; rank < size; rank++) {
        const Values one = values(rank, block * kCount, kCount);
        all.insert(all.end(), one.begin(), one.end());
    }
    return all;
}

struct Call {
    Form form;
    uint32_t rank, size, root;
    gcoll_context *context;
    int32_t *in, *out; // in: value(rank, 0...)
    const gcoll_collective_options *options;
};

struct Row {
    const char *name;
    std::function<gcoll_status(const Call &)> run;
    std::function<Values(const Call &)> want; // what out begins with
    int32_t *Call::*result;                   // where it is
};

const Row kRows[] = {
    {"allreduce",
     [](const Call &c) {
         gcoll_allreduce_options options = by(c.options->algorithm);
         return CALL(c.form, allreduce, c.context, c.in, c.out, kCount, GCOLL_INT32, GCOLL_SUM, &options);
     },
     [](const Call &c) { return sums(c.size, 0, kCount); }, &Call::out},
    {"reduce",
     [](const Call &c) {
         return CALL(c.form, reduce, c.context, c.in, c.out, kCount, GCOLL_INT32, GCOLL_SUM, c.root,
                     c.options);
     },
     [](const Call &c) { return c.rank == c.root ? sums(c.size, 0, kCount) : Values(); }, &Call::out},
    {"reduce_scatter",
     [](const Call &c) {
         return CALL(c.form, reduce_scatter, c.context, c.in, c.out, kCount, GCOLL_INT32, GCOLL_SUM,
                     c.options);
     },
     [](const Call &c) { return sums(c.size, c.rank * kCount, kCount); }, &Call::out},
    {"broadcast",
     [](const Call &c) {
         gcoll_broadcast_options options;
         gcoll_broadcast_options_init(&options);
         options.algorithm = c.options->algorithm;
         return CALL(c.form, broadcast, c.context, c.in, kCount, GCOLL_INT32, c.root, &options);
     },
     [](const Call &c) { return values(c.root, 0, kCount); }, &Call::in},
    {"allgather",
     [](const Call &c) {
         return CALL(c.form, allgather, c.context, c.in, c.out, kCount, GCOLL_INT32, c.options);
     },
     [](const Call &c) { return blocks(c.size, 0); }, &Call::out},
    {"gather",
     [](const Call &c) {
         return CALL(c.form, gather, c.context, c.in, c.out, kCount, GCOLL_INT32, c.root, c.options);
     },
     [](const Call &c) { return c.rank == c.root ? blocks(c.size, 0) : Values(); }, &Call::out},
    {"scatter",
     [](const Call &c) {
         return CALL(c.form, scatter, c.context, c.in, c.out, kCount, GCOLL_INT32, c.root, c.options);
     },
     [](const Call &c) { return values(c.root, c.rank * kCount, kCount); }, &Call::out},
    {"alltoall",
     [](const Call &c) {
         return CALL(c.form, alltoall, c.context, c.in, c.out, kCount, GCOLL_INT32, c.options);
     },
     [](const Call &c) { return blocks(c.size, c.rank); }, &Call::out},
    {"pairwise_exchange",
     [](const Call &c) {
         return CALL(c.form, pairwise_exchange, c.context, c.in, c.out, kCount, GCOLL_INT32, 1, c.options);
     },
     [](const Call &c) { return values((c.rank ^ 1) < c.size ? c.rank ^ 1 : c.rank, 0, kCount); },
     &Call::out},
};

class SharedMemory : public testing::TestWithParam<Place> {};

// In and out are parts of one block, which other calls have used before.
TEST_P(SharedMemory, EveryCollectiveByEveryAlgorithm) {
    const uint32_t size = std::get<0>(GetParam());
    constexpr size_t kBytes = (2 * kMost * kCount + 100) * sizeof(int32_t);
    std::atomic<uint32_t> mapped{0};
    void *memory[kMost] = {};
    for (uint32_t rank = 0; rank < size; rank++)
        ASSERT_EQ(gcoll_memory_alloc(kBytes, &memory[rank]), GCOLL_OK) << gcoll_last_error();
    run_threads(size, std::get<1>(GetParam()), [&](uint32_t rank, gcoll_context *context) {
        uint32_t number = 0;
        for (const Row &row : kRows) {
            std::vector<std::string> texts = algorithms(row.name);
            texts.insert(texts.begin(), "auto");
            for (const std::string &text : texts) {
                gcoll_collective_options options;
                gcoll_collective_options_init(&options);
                options.algorithm = text.c_str();
                Call c = {static_cast<Form>(number % 3),
                          rank,
                          size,
                          number % size,
                          context,
                          nullptr,
                          nullptr,
                          &options};
                c.in = static_cast<int32_t *>(memory[rank]) + number % 16;
                c.out = c.in + kMost * kCount + number % 5;
                number++;
                const Values in = values(rank, 0, kMost * kCount);
                std::copy(in.begin(), in.end(), c.in);
                std::fill_n(c.out, kMost * kCount, -1);
                EXPECT_EQ(row.run(c), GCOLL_OK) << row.name << " by " << text;
                const Values want = row.want(c);
                EXPECT_TRUE(std::equal(want.begin(), want.end(), c.*row.result))
                    << row.name << " by " << text << ", rank " << rank << ", form " << c.form;
                if (row.result == &Call::out)
                    EXPECT_TRUE(std::equal(in.begin(), in.end(), c.in)) << row.name << " by " << text;
                const int32_t *rest = c.out + (row.result == &Call::out ? want.size() : 0);
                EXPECT_EQ(std::count(rest, static_cast<const int32_t *>(c.out) + kMost * kCount, -1),
                          c.out + kMost * kCount - rest)
                    << row.name << " by " << text;
            }
        }
        EXPECT_GT(number, 40u);
        gcoll_barrier(context, nullptr);
        if (rank == 0)
            mapped = mappings("gcoll-memory");
        gcoll_barrier(context, nullptr);
    });
    const bool is_shm = std::string(std::get<1>(GetParam())).compare(0, 3, "shm") == 0;
    EXPECT_GE(mapped, is_shm && !&__tsan_init ? 2 * size : size); // each by some peer
    EXPECT_EQ(mappings("gcoll-memory"), size);
    for (uint32_t rank = 0; rank < size; rank++)
        EXPECT_EQ(gcoll_memory_free(memory[rank]), GCOLL_OK);
}

// shm by which all but the smallest messages are read where they lie; tcp and threads, where it is memory
// like any other.
INSTANTIATE_TEST_SUITE_P(Sizes, SharedMemory,
                         testing::Combine(testing::Values(2u, 3u, 4u),
                                          testing::Values("shm:map_bytes=1Ki", "tcp", "inproc")),
                         [](const testing::TestParamInfo<Place> &place) {
                             return std::string(std::get<1>(place.param), 3) + "_" +
                                    std::to_string(std::get<0>(place.param));
                         });

} // namespace
