// test/core/order_test.cc - tests of options.order: sums have the bits of one tree, whatever the size, the
// algorithm, the transport, the element's place and the number of buffers.
#include "test/kit/harness.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

extern "C" {
#include "algorithms/algorithms.h"
}

namespace {

using gcoll_test::Job;
using gcoll_test::run_threads;
using gcoll_test::told;

// ---- The oracle: both trees by plain loops ----------------------------------------------------------------

// A type as the tests see it: its elements as doubles, and one operation rounded to it.
struct Kind {
    gcoll_type type;
    size_t bytes;
};
const Kind kKinds[] = {{GCOLL_FLOAT32, 4}, {GCOLL_FLOAT64, 8}, {GCOLL_FLOAT16, 2}, {GCOLL_BFLOAT16, 2}};

template <class T> T load(const uint8_t *from) {
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}
template <class T> void store(uint8_t *to, T value) {
    memcpy(to, &value, sizeof value);
}

// Rounds to nearest, ties to even, to a 16-bit type: `fraction` bits of fraction, least exponent `least`.
double rounded(double value, int fraction, int least) {
    int exponent;
    if (value == 0 || !std::isfinite(value))
        return value;
    std::frexp(value, &exponent);
    const int last = std::max(exponent - 1, least) - fraction;
    return std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
}

double number(gcoll_type type, const uint8_t *from) {
    if (type == GCOLL_FLOAT32)
        return load<float>(from);
    if (type == GCOLL_FLOAT64)
        return load<double>(from);
    const uint16_t bits = load<uint16_t>(from);
    if (type == GCOLL_BFLOAT16) {
        const uint32_t wide = uint32_t{bits} << 16;
        float value;
        memcpy(&value, &wide, sizeof value);
        return value;
    }
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    return bits & 0x8000 ? -size : size;
}

void put(gcoll_type type, double value, uint8_t *to) {
    if (type == GCOLL_FLOAT32)
        return store(to, static_cast<float>(value));
    if (type == GCOLL_FLOAT64)
        return store(to, value);
    if (type == GCOLL_BFLOAT16) {
        const float narrow = static_cast<float>(rounded(value, 7, -126));
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        return store(to, static_cast<uint16_t>(bits >> 16));
    }
    const double near = std::fabs(rounded(value, 10, -14));
    const bool negative = std::signbit(value);
    int exponent = 0;
    uint16_t bits = 0;
    std::frexp(near, &exponent);
    if (near >= std::ldexp(1, -14))
        bits = static_cast<uint16_t>((exponent + 14) << 10 |
                                     (static_cast<int>(std::ldexp(near, 11 - exponent)) - 1024));
    else
        bits = static_cast<uint16_t>(std::ldexp(near, 24));
    store(to, static_cast<uint16_t>(bits | (negative ? 0x8000 : 0)));
}

using Bytes = std::vector<uint8_t>;

// The values that leaf `leaf` contributes: of very different magnitude, so that each tree rounds otherwise.
Bytes contribution(const Kind &kind, uint32_t leaf, uint64_t first, uint64_t count) {
    Bytes data(count * kind.bytes);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t x = (leaf + 1) * UINT64_C(0x9e3779b97f4a7c15) + (first + i) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 29)) * UINT64_C(0x94d049bb133111eb);
        const double size = std::ldexp(static_cast<double>(x >> 11), static_cast<int>(x % 17) - 62);
        put(kind.type, x & 0x80000 ? -size : size, &data[i * kind.bytes]);
    }
    return data;
}

// One operation on two elements. Sums and products of two float32, float16 or bfloat16 are exact enough in
// double for one rounding more to change nothing.
void operate(const Kind &kind, gcoll_op op, const uint8_t *a, const uint8_t *b, uint8_t *to) {
    const double x = number(kind.type, a), y = number(kind.type, b);
    put(kind.type, op == GCOLL_PRODUCT ? x * y : x + y, to);
}

using Leaves = std::vector<Bytes>;

Bytes combined(const Kind &kind, gcoll_op op, const Bytes &a, const Bytes &b) {
    Bytes made(a.size());
    for (size_t at = 0; at < a.size(); at += kind.bytes)
        operate(kind, op, &a[at], &b[at], &made[at]);
    return made;
}

Bytes expected(const Kind &kind, gcoll_op op, gcoll_order order, Leaves level) {
    const size_t leaves = level.size();
    while (level.size() > 1) {
        Leaves above;
        if (order == GCOLL_ORDER_LEFT) {
            above.push_back(combined(kind, op, level[0], level[1]));
            above.insert(above.end(), level.begin() + 2, level.end());
        } else {
            for (size_t i = 0; i < level.size(); i += 2)
                above.push_back(i + 1 < level.size() ? combined(kind, op, level[i], level[i + 1]) : level[i]);
        }
        level = above;
    }
    for (size_t at = 0; at < level[0].size() && op == GCOLL_AVG; at += kind.bytes)
        put(kind.type, number(kind.type, &level[0][at]) / static_cast<double>(leaves), &level[0][at]);
    return level[0];
}

// The result of a job's leaves. Ranks, calls and jobs want the same ones, so each is computed once.
const Bytes &expected(const Kind &kind, gcoll_op op, gcoll_order order, uint32_t leaves, uint64_t count,
                      uint64_t first = 0) {
    using Key = std::tuple<int, int, int, uint32_t, uint64_t, uint64_t>;
    static std::mutex lock;
    static std::map<Key, Bytes> known;
    const std::lock_guard<std::mutex> guard(lock);
    const auto [found, is_new] = known.try_emplace({kind.type, op, order, leaves, count, first});
    if (is_new) {
        Leaves all;
        for (uint32_t leaf = 0; leaf < leaves; leaf++)
            all.push_back(contribution(kind, leaf, first, count));
        found->second = expected(kind, op, order, all);
    }
    return found->second;
}

// ---- Jobs -------------------------------------------------------------------------------------------------

Job job_of(uint32_t size, const char *transport = "inproc", gcoll_order order = GCOLL_ORDER_DEFAULT,
           const char *tuning = "default") {
    Job job;
    job.size = size;
    job.transport = transport;
    job.adjust = [=](uint32_t, gcoll_context_options *options) {
        options->tuning = tuning;
        options->order = order;
    };
    return job;
}

const gcoll_order kTrees[] = {GCOLL_ORDER_PAIRS, GCOLL_ORDER_LEFT};
const uint64_t kCounts[] = {1, 5, 64, 1001, 20011};

const char *name(gcoll_order order) {
    return order == GCOLL_ORDER_PAIRS ? "pairs" : "left";
}

std::string leaf_trace(const Kind &kind, gcoll_op op, gcoll_order order, uint64_t count, uint32_t size) {
    return std::string(gcoll_type_name(kind.type)) + " " + gcoll_op_name(op) + " " + name(order) + ", " +
           std::to_string(count) + " by " + std::to_string(size) + " ranks";
}

// Blocks of very different sizes, some of them empty.
std::vector<uint64_t> uneven_blocks(uint32_t size, uint64_t count) {
    std::vector<uint64_t> counts(size, 0);
    for (uint32_t r = 0; r + 1 < size; r++)
        counts[r] = r % 3 == 1 ? 0 : count / (r + 2) / 2;
    uint64_t sum = 0;
    for (uint64_t each : counts)
        sum += each;
    counts[size - 1] = count - sum;
    return counts;
}

Bytes slice(const Bytes &data, const Kind &kind, uint64_t first, uint64_t count) {
    return Bytes(data.begin() + static_cast<std::ptrdiff_t>(first * kind.bytes),
                 data.begin() + static_cast<std::ptrdiff_t>((first + count) * kind.bytes));
}

// Makes a call of each collective that reduces, with elements [first, first + count) of an endless vector.
void compare_all(gcoll_context *context, uint32_t rank, uint32_t size, const Kind &kind, gcoll_op op,
                 gcoll_order order, uint64_t first, uint64_t count) {
    SCOPED_TRACE(leaf_trace(kind, op, order, count, size) + ", on " + std::to_string(rank));
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.order = order;
    gcoll_allreduce_options own;
    gcoll_allreduce_options_init(&own);
    own.order = order;
    const uint32_t root = static_cast<uint32_t>(count % size);
    const Bytes input = contribution(kind, rank, first, count);
    const Bytes &want = expected(kind, op, order, size, count, first);
    Bytes output(input.size());
    ASSERT_GCOLL_OK(gcoll_allreduce(context, input.data(), output.data(), count, kind.type, op, &own));
    EXPECT_EQ(output, want) << "allreduce";
    output = input;
    ASSERT_GCOLL_OK(gcoll_allreduce(context, nullptr, output.data(), count, kind.type, op, &own));
    EXPECT_EQ(output, want) << "allreduce in place";
    ASSERT_GCOLL_OK(gcoll_reduce(context, input.data(), output.data(), count, kind.type, op, root, &options));
    if (rank == root)
        EXPECT_EQ(output, want) << "reduce";
    const std::vector<uint64_t> counts = uneven_blocks(size, count);
    uint64_t begin = 0;
    for (uint32_t r = 0; r < rank; r++)
        begin += counts[r];
    output.assign(counts[rank] * kind.bytes + 1, 0);
    ASSERT_GCOLL_OK(
        gcoll_reduce_scatter_v(context, input.data(), output.data(), counts.data(), kind.type, op, &options));
    output.pop_back();
    EXPECT_EQ(output, slice(want, kind, begin, counts[rank])) << "reduce_scatter_v";
    const uint64_t block = count / size;
    if (block == 0)
        return;
    output.assign(block * kind.bytes, 0);
    ASSERT_GCOLL_OK(
        gcoll_reduce_scatter(context, input.data(), output.data(), block, kind.type, op, &options));
    EXPECT_EQ(output, slice(want, kind, rank * block, block)) << "reduce_scatter";
}

// ---- Sizes, types, transports -----------------------------------------------------------------------------

TEST(Order, TheTwoTreesAndARingDiffer) { // else the tests below would prove nothing
    for (const Kind &kind : kKinds)
        EXPECT_NE(expected(kind, GCOLL_SUM, GCOLL_ORDER_PAIRS, 5, 500),
                  expected(kind, GCOLL_SUM, GCOLL_ORDER_LEFT, 5, 500));
    std::atomic<int> equal{0};
    run_threads(job_of(5), [&](uint32_t rank, gcoll_context *context) {
        Bytes data = contribution(kKinds[0], rank, 0, 500);
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.algorithm = "ring";
        ASSERT_GCOLL_OK(
            gcoll_allreduce(context, nullptr, data.data(), 500, GCOLL_FLOAT32, GCOLL_SUM, &options));
        for (gcoll_order order : kTrees)
            equal += data == expected(kKinds[0], GCOLL_SUM, order, 5, 500);
    });
    EXPECT_EQ(equal, 0);
}

TEST(Order, HoldsForAllSizesAndTypes) {
    for (uint32_t size = 1; size <= 17; size++)
        run_threads(
            job_of(size),
            [&](uint32_t rank, gcoll_context *context) {
                for (const Kind &kind : kKinds)
                    for (gcoll_order order : kTrees)
                        for (uint64_t count : {uint64_t{1}, uint64_t{size}, uint64_t{301}})
                            compare_all(context, rank, size, kind, count % 2 ? GCOLL_SUM : GCOLL_AVG, order,
                                        count % 5, count);
            });
}

class OrderOver : public testing::TestWithParam<const char *> {};

TEST_P(OrderOver, HoldsForVectorsOfAllLengths) {
    for (uint32_t size : {2u, 3u, 4u, 6u})
        for (const char *tuning : {"default", "fit"})
            run_threads(
                job_of(size, GetParam(), GCOLL_ORDER_DEFAULT, tuning),
                [&](uint32_t rank, gcoll_context *context) {
                    for (gcoll_order order : kTrees)
                        for (uint64_t count : kCounts)
                            compare_all(context, rank, size, kKinds[count % 2 ? 0 : 3], GCOLL_SUM, order,
                                        count % 7, count);
                });
}

INSTANTIATE_TEST_SUITE_P(Some, OrderOver, testing::Values("inproc", "tcp", "tcp:connections=2", "shm"),
                         [](const auto &transport) {
                             std::string text = transport.param;
                             std::replace_if(
                                 text.begin(), text.end(), [](char c) { return !isalnum(c); }, '_');
                             return text;
                         });

// ---- Algorithms -------------------------------------------------------------------------------------------

// Calls the collective by name. Returns what the call does, and checks a result that it gives.
gcoll_status call_by(gcoll_context *context, uint32_t rank, uint32_t size, gcoll_collective collective,
                     const std::string &algorithm, gcoll_order order, uint64_t count) {
    const Kind &kind = kKinds[0];
    SCOPED_TRACE(algorithm + ", " + leaf_trace(kind, GCOLL_SUM, order, count, size));
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.algorithm = algorithm.c_str();
    options.order = order;
    gcoll_allreduce_options own;
    gcoll_allreduce_options_init(&own);
    own.algorithm = algorithm.c_str();
    own.order = order;
    const Bytes input = contribution(kind, rank, 0, count);
    const Bytes &want = expected(kind, GCOLL_SUM, order, size, count);
    Bytes output(input.size());
    const uint32_t root = size / 2;
    gcoll_status status;
    if (collective == GCOLL_ALLREDUCE) {
        status = gcoll_allreduce(context, input.data(), output.data(), count, kind.type, GCOLL_SUM, &own);
        if (status == GCOLL_OK)
            EXPECT_EQ(output, want);
    } else if (collective == GCOLL_REDUCE) {
        status =
            gcoll_reduce(context, input.data(), output.data(), count, kind.type, GCOLL_SUM, root, &options);
        if (status == GCOLL_OK && rank == root)
            EXPECT_EQ(output, want);
    } else {
        const uint64_t block = count / size;
        output.resize(block * kind.bytes);
        status =
            gcoll_reduce_scatter(context, input.data(), output.data(), block, kind.type, GCOLL_SUM, &options);
        if (status == GCOLL_OK)
            EXPECT_EQ(output, slice(want, kind, rank * block, block));
    }
    return status;
}

// Every algorithm that serves gives the same bits; at least one does, and the refusal of others names those.
TEST(Order, EveryAlgorithmThatServesGivesTheSameBits) {
    for (uint32_t size : {2u, 3u, 4u, 5u, 7u, 8u, 12u, 16u})
        run_threads(
            job_of(size),
            [&](uint32_t rank, gcoll_context *context) {
                for (gcoll_collective collective : {GCOLL_ALLREDUCE, GCOLL_REDUCE, GCOLL_REDUCE_SCATTER})
                    for (gcoll_order order : kTrees) {
                        std::vector<std::string> served, refused;
                        const gcoll_algorithm *algorithm;
                        for (uint32_t i = 0; (algorithm = gcoll_registry_at(nullptr, collective, i)); i++) {
                            if (algorithm->staging)
                                continue;
                            const std::string name = algorithm->name;
                            const gcoll_status status =
                                call_by(context, rank, size, collective, name, order, 40 * size);
                            if (status == GCOLL_OK) {
                                served.push_back(name);
                                EXPECT_GCOLL_OK(call_by(context, rank, size, collective, name + ":segment=64",
                                                        order, 400 * size));
                            } else {
                                EXPECT_EQ(status, GCOLL_ERR_UNSUPPORTED) << told(status);
                                if (strstr(gcoll_last_error(), "options.order"))
                                    refused.push_back(gcoll_last_error());
                            }
                        }
                        EXPECT_FALSE(served.empty());
                        for (const std::string &text : refused)
                            for (const std::string &name : served)
                                EXPECT_NE(text.find(", " + name), std::string::npos) << text;
                        EXPECT_TRUE(size <= 3 || !refused.empty());
                    }
            });
}

// ---- Several buffers --------------------------------------------------------------------------------------

struct Spread {
    uint32_t ranks, buffers;
};

// The same leaves, however they are spread over ranks, give the same bits.
void compare_buffers(gcoll_context *context, uint32_t rank, Spread spread, const Kind &kind, gcoll_op op,
                     gcoll_order order, bool in_place) {
    const uint32_t leaves = spread.ranks * spread.buffers;
    const uint64_t block = 37, count = block * spread.ranks;
    SCOPED_TRACE(leaf_trace(kind, op, order, count, spread.ranks) + " of " + std::to_string(spread.buffers) +
                 (in_place ? " buffers, in place" : " buffers"));
    const Bytes &want = expected(kind, op, order, leaves, count);
    std::vector<Bytes> inputs, outputs;
    std::vector<const void *> in;
    std::vector<void *> out;
    for (uint32_t k = 0; k < spread.buffers; k++) {
        inputs.push_back(contribution(kind, rank * spread.buffers + k, 0, count));
        outputs.push_back(Bytes(inputs[k].size()));
    }
    for (uint32_t k = 0; k < spread.buffers; k++) {
        in.push_back(inputs[k].data());
        out.push_back(in_place ? inputs[k].data() : outputs[k].data());
    }
    const std::vector<Bytes> kept = inputs;
    gcoll_allreduce_options own;
    gcoll_allreduce_options_init(&own);
    own.order = order;
    own.inputs = in.data();
    own.outputs = in_place ? nullptr : out.data();
    own.buffers = spread.buffers;
    ASSERT_GCOLL_OK(gcoll_allreduce(context, nullptr, nullptr, count, kind.type, op, &own));
    for (uint32_t k = 0; k < spread.buffers; k++)
        EXPECT_EQ(in_place ? inputs[k] : outputs[k], want) << "allreduce, output " << k;
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.order = order;
    options.inputs = in.data();
    for (uint32_t k = 0; k < spread.buffers; k++) {
        std::copy(kept[k].begin(), kept[k].end(), inputs[k].begin());
        out[k] = in_place ? inputs[k].data() + rank * block * kind.bytes : outputs[k].data();
    }
    options.outputs = out.data();
    options.buffers = spread.buffers;
    ASSERT_GCOLL_OK(gcoll_reduce_scatter(context, nullptr, nullptr, block, kind.type, op, &options));
    for (uint32_t k = 0; k < spread.buffers; k++) {
        const uint8_t *at = static_cast<const uint8_t *>(out[k]);
        EXPECT_EQ(Bytes(at, at + block * kind.bytes), slice(want, kind, rank * block, block))
            << "reduce_scatter, output " << k;
    }
}

TEST(Order, HoldsHoweverLeavesAreSpreadOverRanks) {
    std::vector<Spread> spreads;
    for (uint32_t leaves : {2u, 3u, 5u, 6u, 8u, 10u, 12u, 15u, 16u})
        for (uint32_t ranks = 1; ranks <= leaves; ranks++)
            if (leaves % ranks == 0)
                spreads.push_back({ranks, leaves / ranks});
    for (Spread spread : spreads)
        run_threads(job_of(spread.ranks), [&](uint32_t rank, gcoll_context *context) {
            for (gcoll_order order : kTrees)
                for (bool in_place : {false, true})
                    compare_buffers(context, rank, spread, kKinds[spread.buffers % 2 ? 1 : 0],
                                    spread.ranks % 2 ? GCOLL_AVG : GCOLL_SUM, order, in_place);
        });
}

TEST(Order, RanksWithOtherNumbersOfBuffersAreTold) {
    for (gcoll_op op : {GCOLL_SUM, GCOLL_AVG})
        run_threads(
            job_of(2, "inproc", GCOLL_ORDER_PAIRS),
            [&](uint32_t rank, gcoll_context *context) {
                float data[2][4] = {};
                void *buffers[] = {data[0], data[1]};
                gcoll_allreduce_options options;
                gcoll_allreduce_options_init(&options);
                options.inputs = buffers;
                options.buffers = rank + 1;
                const gcoll_status status =
                    gcoll_allreduce(context, nullptr, nullptr, 4, GCOLL_FLOAT32, op, &options);
                EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
                const std::string text = gcoll_last_error(); // of the rank that noticed it first
                EXPECT_TRUE(text.find(": rank 1 of 2 buffers, rank 0 of 1)") != std::string::npos ||
                            text.find(": rank 0 of 1 buffers, rank 1 of 2)") != std::string::npos)
                    << text;
            });
}

// ---- Operations of the caller -----------------------------------------------------------------------------

uint64_t hash_of(uint64_t a, uint64_t b) {
    const uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + (b << 7 | b >> 57) + 1;
    return (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
}

gcoll_status hash_all(void *dst, const void *a, const void *b, uint64_t count, gcoll_type, void *) {
    for (uint64_t i = 0; i < count; i++)
        static_cast<uint64_t *>(dst)[i] =
            hash_of(static_cast<const uint64_t *>(a)[i], static_cast<const uint64_t *>(b)[i]);
    return GCOLL_OK;
}

uint64_t hash_tree(gcoll_order order, uint64_t i, uint32_t leaves) {
    std::vector<uint64_t> level;
    for (uint32_t leaf = 0; leaf < leaves; leaf++)
        level.push_back(1000 * i + leaf);
    for (uint32_t leaf = 1; leaf < leaves && order == GCOLL_ORDER_LEFT; leaf++)
        level[0] = hash_of(level[0], level[leaf]);
    for (uint32_t apart = 1; apart < leaves && order == GCOLL_ORDER_PAIRS; apart *= 2)
        for (uint32_t leaf = 0; leaf + apart < leaves; leaf += 2 * apart)
            level[leaf] = hash_of(level[leaf], level[leaf + apart]);
    return level[0];
}

// A hash neither commutes nor associates, so its value is the tree, with the side of every operand. It need
// not, even where the caller says that it commutes.
TEST(Order, OperationsOfTheCallerSeeTheVeryTree) {
    constexpr uint64_t most = 9001;
    for (uint32_t size : {1u, 2u, 3u, 4u, 6u, 8u, 11u, 13u, 16u, 17u}) {
        std::map<gcoll_order, std::vector<uint64_t>> want;
        for (gcoll_order order : kTrees)
            for (uint64_t i = 0; i < most; i++)
                want[order].push_back(hash_tree(order, i, size));
        run_threads(job_of(size), [&](uint32_t rank, gcoll_context *context) {
            for (gcoll_order order : kTrees)
                for (int commutative : {0, 1})
                    for (uint64_t count : {uint64_t{3}, uint64_t{700}, most}) {
                        SCOPED_TRACE(std::to_string(count) + " by " + std::to_string(size) + ", " +
                                     name(order));
                        gcoll_user_op op = {};
                        op.reduce = hash_all;
                        op.commutative = commutative;
                        gcoll_allreduce_options options;
                        gcoll_allreduce_options_init(&options);
                        options.user_op = &op;
                        options.order = order;
                        std::vector<uint64_t> data(count);
                        for (uint64_t i = 0; i < count; i++)
                            data[i] = 1000 * i + rank;
                        ASSERT_GCOLL_OK(gcoll_allreduce(context, nullptr, data.data(), count, GCOLL_UINT64,
                                                        GCOLL_USER, &options));
                        EXPECT_TRUE(std::equal(data.begin(), data.end(), want.at(order).begin()));
                    }
        });
    }
}

// ---- Options ----------------------------------------------------------------------------------------------

gcoll_status sum_by(gcoll_context *context, const char *algorithm, int order, gcoll_type type = GCOLL_FLOAT32,
                    gcoll_op op = GCOLL_SUM) {
    uint64_t data[30] = {};
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.algorithm = algorithm;
    options.order = order;
    return gcoll_allreduce(context, nullptr, data, 30, type, op, &options);
}

TEST(Order, WhatCannotShowIsNotRestricted) {
    run_threads(
        job_of(5, "inproc", GCOLL_ORDER_PAIRS),
        [&](uint32_t, gcoll_context *context) {
            EXPECT_EQ(sum_by(context, "ring", 0), GCOLL_ERR_UNSUPPORTED);
            EXPECT_GCOLL_OK(sum_by(context, "ring", GCOLL_ORDER_ANY));
            EXPECT_GCOLL_OK(sum_by(context, "ring", 0, GCOLL_INT32));
            EXPECT_GCOLL_OK(sum_by(context, "ring", 0, GCOLL_FLOAT32, GCOLL_MAX));
            EXPECT_EQ(sum_by(context, "linear", 0), GCOLL_ERR_UNSUPPORTED);
            EXPECT_GCOLL_OK(sum_by(context, "linear", GCOLL_ORDER_LEFT));
        });
}

TEST(Order, RanksThatAskForDifferentTreesAreTold) {
    const std::pair<gcoll_order, gcoll_order> pairs[] = {{GCOLL_ORDER_PAIRS, GCOLL_ORDER_LEFT},
                                                         {GCOLL_ORDER_ANY, GCOLL_ORDER_PAIRS},
                                                         {GCOLL_ORDER_LEFT, GCOLL_ORDER_ANY}};
    const char *const words[] = {"", "any", "pairs", "left"};
    for (const auto &[first, others] : pairs)
        for (gcoll_same same : {GCOLL_SAME_ON_RANKS, GCOLL_SAME_IN_RUNS}) {
            Job job = job_of(3);
            job.adjust = [first = first, others = others, same](uint32_t rank,
                                                                gcoll_context_options *options) {
                options->order = rank == 0 ? first : others;
                options->same = same;
            };
            run_threads(job, [&, first = first, others = others](uint32_t, gcoll_context *context) {
                const gcoll_status status = sum_by(context, nullptr, 0);
                EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
                const std::string text = gcoll_last_error();
                const size_t at = text.find("(options.order: rank ");
                ASSERT_NE(at, std::string::npos) << text;
                EXPECT_NE(text.find(words[first], at), std::string::npos) << text;
                EXPECT_NE(text.find(words[others], at), std::string::npos) << text;
            });
        }
}

TEST(Order, OtherValuesAreRefused) {
    for (int order : {-1, 4}) {
        gcoll_context_options options;
        gcoll_context_options_init(&options);
        options.order = order;
        gcoll_context *context = nullptr;
        EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_INVALID);
        EXPECT_NE(strstr(gcoll_last_error(), "options.order"), nullptr) << gcoll_last_error();
        run_threads(job_of(1), [&](uint32_t, gcoll_context *alone) {
            EXPECT_EQ(sum_by(alone, nullptr, order), GCOLL_ERR_INVALID);
            EXPECT_NE(strstr(gcoll_last_error(), "options.order"), nullptr) << gcoll_last_error();
        });
    }
}

// Callers that were compiled before the option existed get its default.
TEST(Order, OlderOptionsDoWithoutIt) {
    run_threads(
        job_of(2),
        [](uint32_t, gcoll_context *context) {
            gcoll_collective_options options;
            gcoll_collective_options_init(&options);
            options.order = 77;
            options.struct_size = offsetof(gcoll_collective_options, order);
            float data[4] = {}, result[2];
            EXPECT_GCOLL_OK(
                gcoll_reduce_scatter(context, data, result, 2, GCOLL_FLOAT32, GCOLL_SUM, &options));
        });
}

TEST(Order, GroupsInheritIt) {
    run_threads(
        job_of(5, "inproc", GCOLL_ORDER_LEFT),
        [](uint32_t, gcoll_context *context) {
            gcoll_context *copy = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &copy));
            EXPECT_EQ(sum_by(copy, "nonoverlapping", 0), GCOLL_ERR_UNSUPPORTED);
            EXPECT_GCOLL_OK(sum_by(copy, "linear", 0));
            gcoll_context_destroy(copy);
        });
}

TEST(Order, ExplainSaysIt) {
    run_threads(
        job_of(5),
        [](uint32_t rank, gcoll_context *context) {
            std::vector<char> text(16384);
            gcoll_collective_options options;
            gcoll_collective_options_init(&options);
            options.order = GCOLL_ORDER_PAIRS;
            if (rank != 0)
                return;
            EXPECT_GCOLL_OK(gcoll_context_explain(context, GCOLL_ALLREDUCE, 1000, GCOLL_FLOAT32, GCOLL_SUM, 0,
                                                  &options, text.data(), text.size()));
            EXPECT_NE(strstr(text.data(), "and run (options.order: pairs)"), nullptr) << text.data();
            EXPECT_NE(strstr(text.data(), "no: does not build the tree of pairs"), nullptr) << text.data();
            EXPECT_NE(strstr(text.data(), "\n  spread"), nullptr) << text.data();
        });
}

// Devices choose an order of their own.
TEST(Order, SeveralBuffersOfADeviceAreRefused) {
    gcoll_problem problem = {};
    const uint32_t memory[] = {GCOLL_HOST_MEMORY, GCOLL_DEVICE_MEMORY(0)};
    problem.collective = GCOLL_ALLREDUCE;
    problem.size = 4;
    problem.count = 100;
    problem.buffers = 2;
    problem.in_memory = problem.out_memory = memory;
    problem.order = GCOLL_ORDER_PAIRS;
    gcoll_plan *plan = nullptr;
    const gcoll_algorithm *algorithm = gcoll_registry_find(nullptr, GCOLL_ALLREDUCE, "spread");
    ASSERT_NE(algorithm, nullptr);
    EXPECT_EQ(gcoll_plan_create(algorithm, &problem, &plan), GCOLL_ERR_UNSUPPORTED);
    EXPECT_NE(strstr(gcoll_last_error(), "device memory"), nullptr) << gcoll_last_error();
    problem.order = GCOLL_ORDER_ANY;
    ASSERT_GCOLL_OK(gcoll_plan_create(algorithm, &problem, &plan));
    gcoll_plan_destroy(plan);
}

} // namespace
