// test/core/same_test.cc - tests of options.same: whether sums have the same bits on all ranks and in all
// runs.
#include "test/kit/harness.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "test/core/same_peek.h"

namespace {

using gcoll_test::Job;
using gcoll_test::run_threads;
using gcoll_test::told;

Job job_of(uint32_t size, gcoll_same same, const char *tuning = "default") {
    Job job;
    job.size = size;
    job.adjust = [=](uint32_t, gcoll_context_options *options) {
        options->tuning = tuning;
        options->same = same;
    };
    return job;
}

// Values whose sums round differently in each order.
float uneven(uint32_t rank, uint64_t i) {
    uint64_t x = (rank + 1) * UINT64_C(0x9e3779b97f4a7c15) + i * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 29)) * UINT64_C(0x94d049bb133111eb);
    return std::ldexp(static_cast<float>(x >> 40) - 8388608.0f, static_cast<int>(x % 23) - 30);
}

std::vector<float> inputs_of(uint32_t rank, uint64_t count) {
    std::vector<float> data(count);
    for (uint64_t i = 0; i < count; i++)
        data[i] = uneven(rank, i);
    return data;
}

constexpr uint64_t kCounts[] = {1, 2, 3, 7, 16, 100, 333, 1000, 4099, 20000, 100003};

// Returns the shapes, of all sizes, whose results differ between ranks.
std::vector<std::string> differing(uint32_t size, gcoll_same same, const char *tuning, gcoll_op op) {
    std::vector<std::vector<std::vector<float>>> results(std::size(kCounts),
                                                         std::vector<std::vector<float>>(size));
    run_threads(job_of(size, same, tuning), [&](uint32_t rank, gcoll_context *context) {
        for (size_t c = 0; c < std::size(kCounts); c++) {
            results[c][rank] = inputs_of(rank, kCounts[c]);
            ASSERT_GCOLL_OK(gcoll_allreduce(context, nullptr, results[c][rank].data(), kCounts[c],
                                            GCOLL_FLOAT32, op, nullptr));
        }
    });
    std::vector<std::string> found;
    for (size_t c = 0; c < std::size(kCounts); c++)
        for (uint32_t rank = 1; rank < size; rank++)
            if (memcmp(results[c][rank].data(), results[c][0].data(), kCounts[c] * sizeof(float)) != 0) {
                found.push_back(std::to_string(kCounts[c]) + " by " + std::to_string(size));
                break;
            }
    return found;
}

TEST(Same, OnEveryRankByDefault) {
    for (uint32_t size = 2; size <= 9; size++)
        for (const char *tuning : {"default", "fit"})
            for (gcoll_op op : {GCOLL_SUM, GCOLL_AVG}) {
                std::vector<std::string> found = differing(size, GCOLL_SAME_ON_RANKS, tuning, op);
                EXPECT_TRUE(found.empty()) << tuning << ", " << gcoll_op_name(op) << ": " << found.size()
                                           << " shapes, " << (found.empty() ? "" : found[0]);
            }
}

// With GCOLL_SAME_NOWHERE the results do differ: else the test above would prove nothing.
TEST(Same, NowhereDiffersSomewhere) {
    size_t shapes = 0;
    for (uint32_t size : {3u, 5u, 6u, 7u})
        shapes += differing(size, GCOLL_SAME_NOWHERE, "default", GCOLL_SUM).size();
    EXPECT_GT(shapes, 0u);
}

// ---- From run to run --------------------------------------------------------------------------------------

// The algorithms of three collectives and their results, by name and shape.
struct Choices {
    std::map<std::string, std::string> algorithms;
    std::map<std::string, std::vector<float>> results; // of rank 0
};

void run_one(Choices *run, uint32_t rank, gcoll_collective collective, uint64_t count,
             gcoll_operation *operation, const std::vector<float> &output) {
    ASSERT_NE(operation, nullptr);
    ASSERT_GCOLL_OK(gcoll_operation_run(operation));
    if (rank == 0) {
        const std::string key = gcoll_collective_name(collective) + std::string(" ") + std::to_string(count);
        run->algorithms[key] = gcoll_operation_algorithm(operation);
        run->results[key] = output;
    }
    gcoll_operation_destroy(operation);
}

Choices run_with(uint32_t size, gcoll_same same, const gcoll_cost_parameters &measured, double crowd) {
    Choices run;
    run_threads(job_of(size, same), [&](uint32_t rank, gcoll_context *context) {
        same_pretend_measured(context, &measured, crowd);
        for (uint64_t each : {1, 50, 1000, 30000}) {
            const uint64_t count = each * size;
            const std::vector<float> input = inputs_of(rank, count);
            std::vector<float> output(count);
            gcoll_operation *operation = nullptr;
            EXPECT_GCOLL_OK(gcoll_allreduce_create(context, input.data(), output.data(), count, GCOLL_FLOAT32,
                                                   GCOLL_SUM, nullptr, &operation));
            run_one(&run, rank, GCOLL_ALLREDUCE, count, operation, output);
            operation = nullptr;
            EXPECT_GCOLL_OK(gcoll_reduce_create(context, input.data(), output.data(), count, GCOLL_FLOAT32,
                                                GCOLL_SUM, 0, nullptr, &operation));
            run_one(&run, rank, GCOLL_REDUCE, count, operation, output);
            operation = nullptr;
            output.assign(each, 0);
            EXPECT_GCOLL_OK(gcoll_reduce_scatter_create(context, input.data(), output.data(), each,
                                                        GCOLL_FLOAT32, GCOLL_SUM, nullptr, &operation));
            run_one(&run, rank, GCOLL_REDUCE_SCATTER, count, operation, output);
        }
    });
    return run;
}

// Costs that "fit" may find on a busy day: of a slow network, a fast one, and processors that many ranks
// share.
TEST(Same, InRunsWhateverWasMeasured) {
    const gcoll_cost_parameters measured[] = {
        {50e-6, 1e-11, 1e-11}, {1e-7, 8e-9, 1e-9}, {6e-6, 2.5e-10, 1e-10}};
    size_t others = 0;
    for (uint32_t size : {3u, 5u, 8u}) {
        const Choices first = run_with(size, GCOLL_SAME_IN_RUNS, measured[0], 1);
        const Choices other = run_with(size, GCOLL_SAME_ON_RANKS, measured[0], 1);
        for (const auto &[cost, crowd] : {std::pair(measured[1], 0.5), std::pair(measured[2], 9.0)}) {
            const Choices next = run_with(size, GCOLL_SAME_IN_RUNS, cost, crowd);
            EXPECT_EQ(next.algorithms, first.algorithms);
            EXPECT_TRUE(next.results == first.results) << "by " << size << " ranks";
            others += run_with(size, GCOLL_SAME_ON_RANKS, cost, crowd).algorithms != other.algorithms;
        }
    }
    EXPECT_GT(others, 0u) << "costs choose nothing, so the test proves nothing";
}

// An algorithm's option that is left to cost is chosen by the same costs as auto.
TEST(Same, InRunsForOptionsLeftToCost) {
    std::set<std::string> fixed, free;
    const gcoll_cost_parameters measured[] = {{50e-6, 1e-11, 1e-11}, {1e-7, 8e-9, 1e-9}};
    for (const gcoll_cost_parameters &cost : measured)
        for (gcoll_same same : {GCOLL_SAME_IN_RUNS, GCOLL_SAME_NOWHERE})
            run_threads(job_of(8, same), [&](uint32_t rank, gcoll_context *context) {
                same_pretend_measured(context, &cost, 1);
                std::vector<float> data(3000);
                gcoll_allreduce_options options;
                gcoll_allreduce_options_init(&options);
                options.algorithm = "group_butterfly";
                gcoll_operation *operation = nullptr;
                ASSERT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, data.data(), data.size(),
                                                       GCOLL_FLOAT32, GCOLL_SUM, &options, &operation));
                if (rank == 0)
                    (same == GCOLL_SAME_IN_RUNS ? fixed : free).insert(gcoll_operation_algorithm(operation));
                gcoll_operation_destroy(operation);
            });
    EXPECT_EQ(fixed.size(), 1u);
    EXPECT_EQ(free.size(), 2u);
}

// ---- Who asks for what ------------------------------------------------------------------------------------

constexpr const char *kUneven = "group_butterfly:r=2"; // by 5 ranks it adds in different orders

gcoll_status sum_by(gcoll_context *context, const char *algorithm, int same, gcoll_type type = GCOLL_FLOAT32,
                    gcoll_op op = GCOLL_SUM) {
    alignas(16) uint8_t data[800] = {};
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.algorithm = algorithm;
    options.same = same;
    return gcoll_allreduce(context, nullptr, data, 100, type, op, &options);
}

TEST(Same, WhatIsNamedMustKeepIt) {
    run_threads(
        job_of(5, GCOLL_SAME_ON_RANKS),
        [](uint32_t, gcoll_context *context) {
            for (int same : {GCOLL_SAME_ON_RANKS, GCOLL_SAME_IN_RUNS}) {
                EXPECT_EQ(sum_by(context, kUneven, same), GCOLL_ERR_UNSUPPORTED);
                EXPECT_NE(told(GCOLL_ERR_UNSUPPORTED).find("options.same = GCOLL_SAME_NOWHERE"),
                          std::string::npos)
                    << gcoll_last_error();
                EXPECT_GCOLL_OK(sum_by(context, "ring", same));
                EXPECT_GCOLL_OK(
                    sum_by(context, "group_butterfly", same)); // of its options, those that keep it
                EXPECT_GCOLL_OK(sum_by(context, "auto", same));
            }
            EXPECT_GCOLL_OK(sum_by(context, kUneven, GCOLL_SAME_NOWHERE));
            // Nothing is rounded, so any order gives the same bits.
            EXPECT_GCOLL_OK(sum_by(context, kUneven, 0, GCOLL_INT32));
            EXPECT_GCOLL_OK(sum_by(context, kUneven, 0, GCOLL_FLOAT32, GCOLL_MAX));
        });
}

TEST(Same, ACallHasItsOwnOrItsContexts) {
    run_threads(
        job_of(5, GCOLL_SAME_NOWHERE),
        [](uint32_t, gcoll_context *context) {
            EXPECT_GCOLL_OK(sum_by(context, kUneven, 0));
            EXPECT_EQ(sum_by(context, kUneven, GCOLL_SAME_IN_RUNS), GCOLL_ERR_UNSUPPORTED);
            EXPECT_EQ(sum_by(context, kUneven, GCOLL_SAME_ON_RANKS), GCOLL_ERR_UNSUPPORTED);
            EXPECT_GCOLL_OK(sum_by(context, "ring", GCOLL_SAME_ON_RANKS));
            gcoll_context *second = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &second));
            EXPECT_GCOLL_OK(sum_by(second, kUneven, 0));
            gcoll_context_destroy(second);
        });
}

// A caller that sets no option gets what the header promises.
TEST(Same, AContextThatSaysNothingKeepsItOnRanks) {
    run_threads(
        job_of(5, GCOLL_SAME_DEFAULT),
        [](uint32_t, gcoll_context *context) {
            EXPECT_EQ(sum_by(context, kUneven, 0), GCOLL_ERR_UNSUPPORTED);
            EXPECT_GCOLL_OK(sum_by(context, kUneven, GCOLL_SAME_NOWHERE));
        });
}

// Minima and maxima are the same in any order, including zeros of both signs and NaNs.
TEST(Same, ExtremesDoNotDependOnTheOrder) {
    constexpr uint32_t kSize = 5;
    const float odd[] = {
        0.0f,     -0.0f, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
        INFINITY, -1.5f};
    for (gcoll_op op : {GCOLL_MIN, GCOLL_MAX}) {
        std::vector<std::vector<float>> results(kSize);
        run_threads(job_of(kSize, GCOLL_SAME_ON_RANKS), [&](uint32_t rank, gcoll_context *context) {
            std::vector<float> data(2000);
            for (size_t i = 0; i < data.size(); i++)
                data[i] = odd[(i * (rank + 3) + i / 7 + rank) % std::size(odd)];
            gcoll_allreduce_options options;
            gcoll_allreduce_options_init(&options);
            options.algorithm = kUneven;
            ASSERT_GCOLL_OK(
                gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32, op, &options));
            results[rank] = data;
        });
        for (uint32_t rank = 1; rank < kSize; rank++)
            EXPECT_EQ(memcmp(results[rank].data(), results[0].data(), results[0].size() * sizeof(float)), 0);
    }
}

const char *word(int same) {
    return same == GCOLL_SAME_ON_RANKS ? "on ranks" : same == GCOLL_SAME_IN_RUNS ? "in runs" : "nowhere";
}

TEST(Same, RanksThatAskForDifferentThingsAreTold) {
    const std::pair<int, int> pairs[] = {{GCOLL_SAME_IN_RUNS, GCOLL_SAME_NOWHERE},
                                         {GCOLL_SAME_ON_RANKS, GCOLL_SAME_NOWHERE},
                                         {GCOLL_SAME_ON_RANKS, GCOLL_SAME_IN_RUNS}};
    for (const auto &[first, others] : pairs)
        for (const char *algorithm : {"auto", "ring"}) {
            Job job = job_of(3, GCOLL_SAME_ON_RANKS);
            job.adjust = [first = first, others = others](uint32_t rank, gcoll_context_options *options) {
                options->same = rank == 0 ? first : others;
            };
            std::atomic<int> mismatched{0};
            run_threads(job, [&, first = first, others = others](uint32_t, gcoll_context *context) {
                gcoll_status status = sum_by(context, algorithm, 0);
                EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
                const std::string text = gcoll_last_error();
                const size_t at = text.find("(options.same: rank ");
                EXPECT_NE(at, std::string::npos) << text;
                EXPECT_NE(text.find(word(first), at), std::string::npos) << text;
                EXPECT_NE(text.find(word(others), at), std::string::npos) << text;
                mismatched += at != std::string::npos;
            });
            EXPECT_EQ(mismatched, 3);
        }
}

TEST(Same, OtherValuesAreRefused) {
    for (int same : {-1, 4}) {
        gcoll_context_options options;
        gcoll_context_options_init(&options);
        options.same = same;
        gcoll_context *context = nullptr;
        EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_INVALID);
        EXPECT_NE(strstr(gcoll_last_error(), "options.same"), nullptr) << gcoll_last_error();
        run_threads(job_of(1, GCOLL_SAME_ON_RANKS), [&](uint32_t, gcoll_context *alone) {
            EXPECT_EQ(sum_by(alone, nullptr, same), GCOLL_ERR_INVALID);
            EXPECT_NE(strstr(gcoll_last_error(), "options.same"), nullptr) << gcoll_last_error();
        });
    }
}

// Callers that were compiled before the option existed get its default.
TEST(Same, OlderOptionsDoWithoutIt) {
    run_threads(
        job_of(2, GCOLL_SAME_ON_RANKS),
        [](uint32_t, gcoll_context *context) {
            gcoll_collective_options options;
            gcoll_collective_options_init(&options);
            options.same = 77;
            options.struct_size = offsetof(gcoll_collective_options, same);
            float data[4] = {}, result[2];
            EXPECT_GCOLL_OK(
                gcoll_reduce_scatter(context, data, result, 2, GCOLL_FLOAT32, GCOLL_SUM, &options));
        });
}

TEST(Same, ExplainSaysWhatHolds) {
    run_threads(
        job_of(5, GCOLL_SAME_ON_RANKS, "fit"),
        [](uint32_t rank, gcoll_context *context) {
            const auto explain = [&](gcoll_collective collective, gcoll_type type, int same) {
                std::vector<char> text(16384);
                gcoll_collective_options options;
                gcoll_collective_options_init(&options);
                options.same = same;
                EXPECT_GCOLL_OK(gcoll_context_explain(context, collective, 1000, type, GCOLL_SUM, 0, &options,
                                                      text.data(), text.size()));
                return std::string(text.data());
            };
            if (rank != 0)
                return;
            std::string text = explain(GCOLL_ALLREDUCE, GCOLL_FLOAT32, 0);
            EXPECT_NE(text.find("result: the same bits on every rank (options.same: on ranks)"),
                      std::string::npos)
                << text;
            EXPECT_NE(text.find("no: results may differ between ranks"), std::string::npos) << text;
            EXPECT_NE(text.find("fitted when the context was created"), std::string::npos) << text;
            text = explain(GCOLL_ALLREDUCE, GCOLL_FLOAT32, GCOLL_SAME_IN_RUNS);
            EXPECT_NE(text.find("in every run (options.same: in runs)"), std::string::npos) << text;
            EXPECT_NE(text.find("alpha 6.00 us, beta 0.250 ns, gamma 0.100 ns; built in"), std::string::npos)
                << text;
            text = explain(GCOLL_ALLREDUCE, GCOLL_FLOAT32, GCOLL_SAME_NOWHERE);
            EXPECT_NE(text.find("(options.same: nowhere)"), std::string::npos) << text;
            text = explain(GCOLL_ALLREDUCE, GCOLL_INT32, 0);
            EXPECT_NE(text.find("result: the same bits in any order"), std::string::npos) << text;
            text = explain(GCOLL_REDUCE, GCOLL_FLOAT32, 0);
            EXPECT_NE(text.find("result: each element is on one rank"), std::string::npos) << text;
        });
}

} // namespace
