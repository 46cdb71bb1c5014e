// gather_v and scatter_v with counts that only the root knows: against plain loops, in all forms, and what is
// said when they do not agree.
#include "test/kit/collective_support.h"

#include <numeric>

namespace {

using namespace collective_support;
using gcoll_test::run_threads;
using gcoll_test::told;
using gcoll_test::transports;

using Counts = std::vector<uint64_t>;
using Values = std::vector<int32_t>;

Values values(uint32_t rank, uint64_t count) {
    Values all(count);
    for (uint64_t i = 0; i < count; i++)
        all[i] = static_cast<int32_t>(mix(rank * 7919 + i) % 1000);
    return all;
}

gcoll_collective_options at_root(const char *algorithm = nullptr) {
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.algorithm = algorithm;
    options.counts_at_root = 1;
    return options;
}

Counts counts_of(uint32_t size, uint64_t kind) {
    Counts counts(size);
    for (uint32_t rank = 0; rank < size; rank++)
        counts[rank] = kind == 0 ? 6 : (rank * 5 + kind) % 7 * kind; // some are 0
    return counts;
}

Values blocks_of(const Counts &counts) {
    Values all;
    for (uint32_t rank = 0; rank < counts.size(); rank++) {
        const Values block = values(rank, counts[rank]);
        all.insert(all.end(), block.begin(), block.end());
    }
    return all;
}

class RootCounts : public testing::TestWithParam<Place> {};

TEST_P(RootCounts, GatherAndScatterInEveryForm) {
    auto [ranks, transport] = GetParam();
    const uint32_t size = ranks;
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        for (uint32_t root = 0; root < size; root++)
            for (const uint64_t kind : {uint64_t{0}, uint64_t{1}, uint64_t{3000}})
                for (const char *text : {"auto", "linear", "linear:segment=36"})
                    for (const Form form : {kBlocking, kStarted, kPersistent}) {
                        const Counts all = counts_of(size, kind);
                        const uint64_t own = all[rank], *counts = rank == root ? all.data() : &own;
                        const gcoll_collective_options options = at_root(text);
                        const Values mine = values(rank, own), blocks = blocks_of(all);
                        Values gathered(rank == root ? blocks.size() : 0), block(own);
                        EXPECT_GCOLL_OK(CALL(form, gather_v, context, mine.data(), gathered.data(), counts,
                                             GCOLL_INT32, root, &options));
                        if (rank == root)
                            EXPECT_EQ(gathered, blocks);
                        EXPECT_GCOLL_OK(CALL(form, scatter_v, context, rank == root ? blocks.data() : nullptr,
                                             block.data(), counts, GCOLL_INT32, root, &options));
                        EXPECT_EQ(block, mine);
                    }
    });
}

// In place at the root; another rank's counts may change from call to call without the root's.
TEST_P(RootCounts, InPlace) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        const uint32_t ranks = gcoll_context_size(context), root = ranks / 2;
        const gcoll_collective_options options = at_root();
        for (uint64_t turn = 1; turn < 5; turn++) {
            const Counts all = counts_of(ranks, turn);
            const uint64_t own = all[rank], *counts = rank == root ? all.data() : &own;
            const uint64_t begin = std::accumulate(all.begin(), all.begin() + root, uint64_t{0});
            const Values mine = values(rank, own), blocks = blocks_of(all);
            Values data(blocks.size());
            std::copy(mine.begin(), mine.end(),
                      data.begin() + static_cast<std::ptrdiff_t>(rank == root ? begin : 0));
            EXPECT_GCOLL_OK(gcoll_gather_v(context, rank == root ? data.data() + begin : data.data(),
                                           rank == root ? data.data() : nullptr, counts, GCOLL_INT32, root,
                                           &options));
            if (rank == root)
                EXPECT_EQ(data, blocks);
            EXPECT_GCOLL_OK(gcoll_scatter_v(context, data.data(),
                                            rank == root ? data.data() + begin : data.data(), counts,
                                            GCOLL_INT32, root, &options));
            if (rank != root)
                EXPECT_TRUE(std::equal(mine.begin(), mine.end(), data.begin()));
        }
    });
}

// The root's list of buffers, beside counts that only it knows.
TEST_P(RootCounts, WithLists) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        const uint32_t ranks = gcoll_context_size(context);
        const gcoll_collective_options options = at_root();
        const Counts all = counts_of(ranks, 2);
        const Values mine = values(rank, all[rank]);
        std::vector<Values> buffers;
        std::vector<void *> list;
        for (const uint64_t count : all)
            buffers.emplace_back(count);
        for (Values &buffer : buffers)
            list.push_back(buffer.data());
        gcoll_collective_call call;
        gcoll_collective_call_init(&call);
        call.collective = GCOLL_GATHER;
        call.type = GCOLL_INT32;
        call.options = &options;
        call.input = mine.data();
        call.outputs = rank == 0 ? list.data() : nullptr;
        call.counts = rank == 0 ? all.data() : &all[rank];
        EXPECT_GCOLL_OK(gcoll_call_run(context, &call));
        for (uint32_t r = 0; rank == 0 && r < ranks; r++)
            EXPECT_EQ(buffers[r], values(r, all[r]));
    });
}

INSTANTIATE_TEST_SUITE_P(Some, RootCounts,
                         testing::Combine(testing::Values(1u, 2u, 3u, 5u, 8u), transports()), place_name);

// ---- Errors ---------------------------------------------------------------------------------------------

class RootCountErrors : public testing::TestWithParam<const char *> {};

// Rank 1 has more, or fewer, than the root takes it to have; in every form, with segments too.
TEST_P(RootCountErrors, CountsThatDisagreeAreToldByBothSides) {
    for (const bool gathers : {true, false})
        for (const uint64_t own : {uint64_t{5}, uint64_t{90}})
            for (const Form form : {kBlocking, kStarted, kPersistent}) {
                gcoll_test::Job job;
                job.size = 3;
                job.transport = GetParam();
                job.timeout_ms = 8000;
                run_threads(job, [&](uint32_t rank, gcoll_context *context) {
                    const Counts all = {4, 50, 4};
                    const uint64_t mine = rank == 1 ? own : all[rank];
                    const uint64_t *counts = rank == 0 ? all.data() : &mine;
                    Values data(200), other(200);
                    const gcoll_collective_options options = at_root("linear:segment=40");
                    gcoll_status status = gathers ? CALL(form, gather_v, context, data.data(), other.data(),
                                                         counts, GCOLL_INT32, 0, &options)
                                                  : CALL(form, scatter_v, context, data.data(), other.data(),
                                                         counts, GCOLL_INT32, 0, &options);
                    for (int i = 0; i < 3 && status == GCOLL_OK; i++) // a rank that is done hears of it later
                        status = gcoll_barrier(context, nullptr);
                    EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
                    const std::string text = gcoll_last_error(), number = std::to_string(own);
                    const std::string want =
                        gathers
                            ? "gather_v: rank 1 sends " + number +
                                  " elements to rank 0, whose counts[1] is 50"
                            : "scatter_v: rank 0 sends 50 elements to rank 1, whose counts[0] is " + number;
                    EXPECT_NE(text.find(want), std::string::npos) << text;
                });
            }
}

TEST_P(RootCountErrors, OtherCallsAndAlgorithmsAreRefused) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            const Counts all = {3, 3};
            Values data(20), other(20);
            gcoll_collective_options options = at_root("binomial");
            const auto refused = [&](gcoll_status status, gcoll_status want, const char *text) {
                EXPECT_EQ(status, want);
                EXPECT_NE(std::string(gcoll_last_error()).find(text), std::string::npos)
                    << gcoll_last_error();
            };
            for (const Form form : {kBlocking, kStarted, kPersistent})
                refused(CALL(form, gather_v, context, data.data(), other.data(), all.data(), GCOLL_INT32, 0,
                             &options),
                        GCOLL_ERR_UNSUPPORTED, "algorithm: binomial needs the counts of all ranks");
            options.algorithm = nullptr;
            refused(gcoll_gather(context, data.data(), other.data(), 3, GCOLL_INT32, 0, &options),
                    GCOLL_ERR_INVALID, "options.counts_at_root: is set for gather;");
            refused(gcoll_allgather_v(context, data.data(), other.data(), all.data(), GCOLL_INT32, &options),
                    GCOLL_ERR_INVALID, "options.counts_at_root: is set for allgather_v;");
            refused(gcoll_scatter_v(context, data.data(), other.data(), nullptr, GCOLL_INT32, 0, &options),
                    GCOLL_ERR_INVALID, "counts: is NULL");
            EXPECT_GCOLL_OK(gcoll_gather_v(context, data.data(), other.data(),
                                           rank == 0 ? all.data() : &all[1], GCOLL_INT32, 0, &options));
        });
}

INSTANTIATE_TEST_SUITE_P(Some, RootCountErrors, transports());

} // namespace
