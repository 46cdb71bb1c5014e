// The parts of gcoll_bench that can be wrong without a network: values, sizes, statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

extern "C" {
#include "benchmark/line_up.h"
#include "benchmark/pairs.h"
#include "benchmark/report.h"
#include "benchmark/shape.h"
#include "benchmark/values.h"
}

#include "test/kit/program.h"
#include "test/kit/sanitizer.h"

namespace {

// Decoded by the definition of the formats, with nothing shared with the code under test.
long double decode(gcoll_type type, const unsigned char *from) {
    auto read = [from](auto value) {
        std::memcpy(&value, from, sizeof value);
        return value;
    };
    auto binary = [](unsigned bits, int exponent_bits, int fraction_bits) -> long double {
        int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
        unsigned fraction = bits & ((1u << fraction_bits) - 1);
        int bias = (1 << (exponent_bits - 1)) - 1;
        long double sign = bits >> (exponent_bits + fraction_bits) ? -1 : 1;
        if (exponent == 0) {
            return sign * std::ldexp(static_cast<long double>(fraction), 1 - bias - fraction_bits);
        }
        return sign * std::ldexp(static_cast<long double>(fraction + (1u << fraction_bits)),
                                 exponent - bias - fraction_bits);
    };
    switch (type) {
    case GCOLL_INT8:
        return read(int8_t());
    case GCOLL_UINT8:
        return read(uint8_t());
    case GCOLL_BOOL:
        return read(uint8_t());
    case GCOLL_INT16:
        return read(int16_t());
    case GCOLL_UINT16:
        return read(uint16_t());
    case GCOLL_INT32:
        return read(int32_t());
    case GCOLL_UINT32:
        return read(uint32_t());
    case GCOLL_INT64:
        return static_cast<long double>(read(int64_t()));
    case GCOLL_UINT64:
        return static_cast<long double>(read(uint64_t()));
    case GCOLL_FLOAT8_E4M3:
        return binary(read(uint8_t()), 4, 3);
    case GCOLL_FLOAT8_E5M2:
        return binary(read(uint8_t()), 5, 2);
    case GCOLL_FLOAT16:
        return binary(read(uint16_t()), 5, 10);
    case GCOLL_BFLOAT16:
        return binary(read(uint16_t()), 8, 7);
    case GCOLL_FLOAT32:
        return read(float());
    default:
        return read(double());
    }
}

// Whether the type holds the integer x exactly.
bool holds(gcoll_type type, long double x) {
    long double a = std::fabs(x);
    switch (type) {
    case GCOLL_INT8:
        return x >= -128 && x <= 127;
    case GCOLL_UINT8:
        return x >= 0 && x <= 255;
    case GCOLL_INT16:
        return x >= -0x1p15L && x < 0x1p15L;
    case GCOLL_UINT16:
        return x >= 0 && x < 0x1p16L;
    case GCOLL_INT32:
        return x >= -0x1p31L && x < 0x1p31L;
    case GCOLL_UINT32:
        return x >= 0 && x < 0x1p32L;
    case GCOLL_INT64:
        return x >= -0x1p63L && x < 0x1p63L;
    case GCOLL_UINT64:
        return x >= 0 && x < 0x1p64L;
    case GCOLL_FLOAT8_E4M3:
        return a <= 16;
    case GCOLL_FLOAT8_E5M2:
        return a <= 8;
    case GCOLL_FLOAT16:
        return a <= 2048;
    case GCOLL_BFLOAT16:
        return a <= 256;
    case GCOLL_FLOAT32:
        return a <= 0x1p24L;
    default:
        return a <= 0x1p53L;
    }
}

bool is_integer(gcoll_type type) {
    return type <= GCOLL_UINT64 || type == GCOLL_INT16 || type == GCOLL_UINT16;
}

// The types of the halves of an element; of one without halves, its own type.
const std::vector<gcoll_type> &halves(gcoll_type type) {
    static const std::vector<std::vector<gcoll_type>> known = [] {
        std::vector<std::vector<gcoll_type>> all;
        for (int each = 0; each < GCOLL_TYPE_COUNT; each++)
            all.push_back({static_cast<gcoll_type>(each)});
        all[GCOLL_COMPLEX64] = {GCOLL_FLOAT32, GCOLL_FLOAT32};
        all[GCOLL_COMPLEX128] = {GCOLL_FLOAT64, GCOLL_FLOAT64};
        all[GCOLL_FLOAT32_INT32] = {GCOLL_FLOAT32, GCOLL_INT32};
        all[GCOLL_FLOAT64_INT64] = {GCOLL_FLOAT64, GCOLL_INT64};
        all[GCOLL_INT32_INT32] = {GCOLL_INT32, GCOLL_INT32};
        all[GCOLL_INT64_INT64] = {GCOLL_INT64, GCOLL_INT64};
        return all;
    }();
    return known[type];
}

// Half h of an element.
long double half(gcoll_type type, const unsigned char *from, size_t h) {
    const std::vector<gcoll_type> &types = halves(type);
    return decode(types[h], from + (h == 0 ? 0 : gcoll_type_size(types[0])));
}

bool is_defined(gcoll_type type, gcoll_op op) {
    return gcoll_op_check(type, op) == GCOLL_OK;
}

long double apply(gcoll_op op, long double a, long double b) {
    switch (op) {
    case GCOLL_PRODUCT:
        return a * b;
    case GCOLL_MIN:
        return std::fmin(a, b);
    case GCOLL_MAX:
        return std::fmax(a, b);
    default:
        return a + b;
    }
}

// The values, with the patterns of all contributors one after the other.
struct Patterns : bench_values {
    std::vector<unsigned char> input;
    Patterns(gcoll_type t, gcoll_op o, uint32_t contributors) {
        EXPECT_TRUE(bench_values_create(t, o, contributors, true, this));
        for (uint32_t g = 0; g < contributors; g++) {
            const unsigned char *pattern = bench_values_of(this, g);
            input.insert(input.end(), pattern, pattern + BENCH_PERIOD * element_bytes);
        }
    }
    ~Patterns() { bench_values_free(this); }
    Patterns(const Patterns &) = delete;
    Patterns &operator=(const Patterns &) = delete;
};

const unsigned char *element(const Patterns &v, uint32_t contributor, uint32_t i) {
    return v.input.data() + (static_cast<size_t>(contributor) * BENCH_PERIOD + i) * v.element_bytes;
}

// Contributors of one rank stand for those of many, as contributor (rank, k) is number rank * inputs + k.
class Values : public testing::TestWithParam<int> {};

// Below, at and above what the small types can count; a sanitizer gets the first few.
const std::vector<uint32_t> totals = [] {
    std::vector<uint32_t> all = {1, 3, 64, 129, 257, 2, 127, 255, 600};
    all.resize(gcoll_test::repeats(9, 5));
    return all;
}();

struct partials {
    long double result, positive, negative;
    bool exact;
};

// The result, and the bounds of every partial sum: of all positive values, of all negative ones.
partials combine(const Patterns &v, gcoll_type type, gcoll_op op, uint32_t total, uint32_t i, size_t h) {
    partials p = {half(type, element(v, 0, i), h), 0, 0, true};
    for (uint32_t g = 0; g < total; g++) {
        long double x = half(type, element(v, g, i), h);
        p.exact = p.exact && holds(halves(type)[h], x);
        (x > 0 ? p.positive : p.negative) += x;
        p.result = g > 0 ? apply(op, p.result, x) : x;
    }
    return p;
}

void expect_exact(gcoll_type type, gcoll_op op, uint32_t total, size_t h) {
    Patterns v(type, op, total);
    const gcoll_type own = halves(type)[h];
    uint32_t stride = total <= 64 ? 1 : 13; // large totals take long
    for (uint32_t i = 0; i < BENCH_PERIOD; i += stride) {
        partials p = combine(v, type, op, total, i, h);
        ASSERT_TRUE(p.exact) << "an input is not held at " << i;
        if (op == GCOLL_SUM || op == GCOLL_AVG)
            ASSERT_TRUE(holds(own, p.positive) && holds(own, p.negative)) << "at " << i;
        else if (op == GCOLL_PRODUCT)
            ASSERT_LE(std::fabs(p.result), 64);
        if (op == GCOLL_AVG) {
            p.result = is_integer(type) ? std::trunc(p.result / total) : p.result / total;
            ASSERT_EQ(p.result, std::trunc(p.result)) << "the average is no integer at " << i;
        }
        ASSERT_EQ(half(type, v.result + i * v.element_bytes, h), p.result) << "at " << i;
    }
}

TEST_P(Values, ArithmeticIsExactInAnyOrder) {
    for (gcoll_op op : {GCOLL_SUM, GCOLL_PRODUCT, GCOLL_MIN, GCOLL_MAX, GCOLL_AVG}) {
        for (uint32_t total : totals) {
            SCOPED_TRACE(std::string(gcoll_op_name(op)) + " of " + std::to_string(total));
            auto type = static_cast<gcoll_type>(GetParam());
            if (!is_defined(type, op) || (op == GCOLL_PRODUCT && halves(type).size() > 1))
                continue;
            for (size_t h = 0; h < halves(type).size(); h++)
                expect_exact(type, op, total, h);
        }
    }
}

void expect_bits(gcoll_type type, gcoll_op op, uint32_t total) {
    Patterns v(type, op, total);
    for (uint32_t at = 0; at < BENCH_PERIOD * v.element_bytes; at++) {
        unsigned char expected = v.input[at];
        for (uint32_t g = 1; g < total; g++) {
            unsigned char x = element(v, g, 0)[at];
            expected = static_cast<unsigned char>(op == GCOLL_BAND  ? expected & x
                                                  : op == GCOLL_BOR ? expected | x
                                                                    : expected ^ x);
        }
        ASSERT_EQ(v.result[at], expected) << "byte " << at;
    }
}

TEST_P(Values, BitOperations) {
    auto type = static_cast<gcoll_type>(GetParam());
    for (gcoll_op op : {GCOLL_BAND, GCOLL_BOR, GCOLL_BXOR}) {
        for (uint32_t total : totals) {
            SCOPED_TRACE(std::string(gcoll_op_name(op)) + " of " + std::to_string(total));
            if (is_integer(type))
                expect_bits(type, op, total);
        }
    }
}

// Walks over the results, and checks each against all inputs by `reduce`, which gets two elements as two
// numbers.
template <class Reduce> void expect_halves(gcoll_type type, gcoll_op op, uint32_t total, Reduce reduce) {
    using Number = std::pair<long double, long double>;
    Patterns v(type, op, total);
    const auto read = [type](const unsigned char *from) {
        return Number(half(type, from, 0), halves(type).size() > 1 ? half(type, from, 1) : 0);
    };
    for (uint32_t i = 0; i < BENCH_PERIOD; i += total <= 64 ? 1 : 13) { // large totals take long
        Number result = read(element(v, 0, i));
        for (uint32_t g = 1; g < total; g++)
            result = reduce(result, read(element(v, g, i)));
        ASSERT_EQ(read(v.result + i * v.element_bytes), result) << "at " << i;
    }
}

TEST_P(Values, LogicalOperations) {
    auto type = static_cast<gcoll_type>(GetParam());
    if (!is_integer(type) && type != GCOLL_BOOL)
        return;
    using Number = std::pair<long double, long double>;
    for (uint32_t total : totals) {
        SCOPED_TRACE(total);
        expect_halves(
            type, GCOLL_LAND, total,
            [](Number a, Number b) { return Number(a.first != 0 && b.first != 0, 0); });
        expect_halves(
            type, GCOLL_LOR, total,
            [](Number a, Number b) { return Number(a.first != 0 || b.first != 0, 0); });
        expect_halves(type, GCOLL_LXOR, total,
                      [](Number a, Number b) { return Number((a.first != 0) != (b.first != 0), 0); });
    }
}

TEST_P(Values, ComplexProductsAndLocations) {
    auto type = static_cast<gcoll_type>(GetParam());
    using Number = std::pair<long double, long double>;
    for (uint32_t total : totals) {
        SCOPED_TRACE(total);
        if (type == GCOLL_COMPLEX64 || type == GCOLL_COMPLEX128)
            expect_halves(type, GCOLL_PRODUCT, total, [](Number a, Number b) {
                Number c(a.first * b.first - a.second * b.second, a.first * b.second + a.second * b.first);
                EXPECT_LE(std::fabs(c.first) + std::fabs(c.second), 512);
                return c;
            });
        if (is_defined(type, GCOLL_MINLOC)) {
            expect_halves(
                type, GCOLL_MINLOC, total, [](Number a, Number b) { return std::min(a, b); });
            expect_halves(type, GCOLL_MAXLOC, total, [](Number a, Number b) {
                return a.first == b.first ? std::min(a, b) : std::max(a, b);
            });
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, Values, testing::Range(0, static_cast<int>(GCOLL_TYPE_COUNT)));

const uint32_t kShiftStep = gcoll_test::repeats(1, 19); // each is the same call

TEST(BenchValues, EveryLossAndShiftShows) {
    for (int t = 0; t < GCOLL_TYPE_COUNT; t++) {
        auto type = static_cast<gcoll_type>(t);
        for (gcoll_op op : {GCOLL_SUM, GCOLL_PRODUCT, GCOLL_MIN, GCOLL_MAX, GCOLL_AVG, GCOLL_LAND, GCOLL_LOR,
                            GCOLL_LXOR, GCOLL_MINLOC, GCOLL_MAXLOC}) {
            if (!is_defined(type, op))
                continue;
            Patterns v(type, op, 4);
            std::vector<unsigned char> data(2 * BENCH_PERIOD * v.element_bytes);
            bench_fill(data.data(), v.result, v.element_bytes, 0, 2 * BENCH_PERIOD);
            uint64_t first;
            EXPECT_EQ(
                bench_count_wrong(data.data(), v.result, v.element_bytes, 0, 2 * BENCH_PERIOD, 0, &first),
                0u);
            for (uint32_t shift = 1; shift < BENCH_PERIOD; shift += kShiftStep) {
                ASSERT_GT(bench_count_wrong(data.data() + shift * v.element_bytes, v.result, v.element_bytes,
                                            0, BENCH_PERIOD, 0, &first),
                          BENCH_PERIOD / 8)
                    << gcoll_type_name(type) << " " << gcoll_op_name(op) << " by " << shift;
            }
            for (uint32_t g = 0; g < 4; g++) { // one contribution in place of the result
                EXPECT_GT(bench_count_wrong(element(v, g, 0), v.result, v.element_bytes, 0, BENCH_PERIOD, 0,
                                            &first),
                          0u);
            }
        }
    }
}

TEST(BenchValues, CountsAndLocatesWrongElements) {
    Patterns v(GCOLL_INT32, GCOLL_SUM, 6);
    for (uint64_t position : {0u, 1u, 1020u, 5000u}) {
        std::vector<int32_t> data(5000);
        bench_fill(data.data(), v.result, sizeof(int32_t), position, data.size());
        uint64_t first = 0;
        for (size_t at : {4999u, 1021u, 3000u})
            data[at] ^= 1;
        EXPECT_EQ(bench_count_wrong(data.data(), v.result, sizeof(int32_t), position, data.size(), 0, &first),
                  3u);
        EXPECT_EQ(first, 1021u);
        EXPECT_EQ(bench_count_wrong(data.data(), v.result, sizeof(int32_t), position, 1021, 0, &first), 0u);
        // A part of it, by its own position.
        EXPECT_EQ(bench_count_wrong(&data[100], v.result, sizeof(int32_t), position + 100, 900, 0, &first),
                  0u);
    }
}

TEST(BenchValues, GarbageIsNoValue) {
    for (int t = 0; t < GCOLL_TYPE_COUNT; t++) {
        auto type = static_cast<gcoll_type>(t);
        Patterns v(type,
                   is_defined(type, GCOLL_SUM) ? GCOLL_SUM
                   : type == GCOLL_BOOL        ? GCOLL_LOR
                                               : GCOLL_MINLOC,
                   3);
        std::vector<unsigned char> garbage(BENCH_PERIOD * v.element_bytes, BENCH_POISON);
        uint64_t first;
        EXPECT_GT(bench_count_wrong(garbage.data(), v.result, v.element_bytes, 0, BENCH_PERIOD, 0, &first),
                  BENCH_PERIOD * 9 / 10); // a sum in int8 may be that
        EXPECT_EQ(std::memcmp(garbage.data(), bench_values_of(&v, BENCH_GARBAGE), garbage.size()), 0);
        for (uint32_t g = 0; g < 3; g++) {
            EXPECT_EQ(bench_count_wrong(garbage.data(), element(v, g, 0), v.element_bytes, 0, BENCH_PERIOD, 0,
                                        &first),
                      BENCH_PERIOD);
        }
    }
}

// ---- Who must have what: against loops over all elements --------------------------------------------------

using Element = std::pair<int64_t, uint64_t>; // owner, position

struct Shape {
    bench_options options = {};
    bench_state state = {};
    bench_case what = {};
    bench_call call = {};
    Shape(gcoll_collective collective, uint32_t size, uint32_t rank, uint32_t root, uint64_t count) {
        options.size = size;
        options.root = root;
        options.inputs = 1;
        state.options = &options;
        state.rank = rank;
        what.collective = collective;
        gcoll_problem problem = {};
        problem.collective = collective;
        problem.size = size;
        problem.rank = rank;
        problem.root = root;
        problem.count = count;
        call.state = &state;
        call.what = &what;
        call.count = count;
        call.in_count = gcoll_problem_in_count(&problem);
        call.out_count = gcoll_problem_out_count(&problem);
    }
    std::vector<Element> input() const {
        return elements(
            call.in_count, [this](uint64_t at) { return bench_input_piece(&call, 0, at); });
    }
    std::vector<Element> output() const {
        return elements(
            call.out_count, [this](uint64_t at) { return bench_output_piece(&call, at); });
    }

  private:
    template <class Piece> static std::vector<Element> elements(uint64_t count, Piece piece_at) {
        std::vector<Element> all;
        while (all.size() < count) {
            bench_piece piece = piece_at(all.size());
            EXPECT_GT(piece.count, 0u);
            EXPECT_LE(piece.count, count - all.size());
            if (piece.count == 0)
                break;
            for (uint64_t i = 0; i < piece.count; i++)
                all.emplace_back(piece.owner, piece.position + i);
        }
        return all;
    }
};

// What rank has after the collective, by its definition, when every rank's vector is (rank, 0), (rank, 1),
// ...
std::vector<Element> defined(gcoll_collective c, uint32_t size, uint32_t rank, uint32_t root,
                             uint64_t count) {
    std::vector<Element> out;
    auto begin = [&](uint32_t r) { return count * r / size; };
    auto add = [&](int64_t owner, uint64_t from, uint64_t to) {
        for (uint64_t i = from; i < to; i++)
            out.emplace_back(owner, i);
    };
    switch (c) {
    case GCOLL_ALLREDUCE:
        add(BENCH_RESULT, 0, count);
        break;
    case GCOLL_REDUCE:
        add(BENCH_RESULT, 0, rank == root ? count : 0);
        break;
    case GCOLL_REDUCE_SCATTER:
        add(BENCH_RESULT, begin(rank), begin(rank + 1));
        break;
    case GCOLL_BROADCAST:
        add(root, 0, count);
        break;
    case GCOLL_SCATTER:
        add(root, begin(rank), begin(rank + 1));
        break;
    case GCOLL_GATHER:
    case GCOLL_ALLGATHER:
        for (uint32_t r = 0; r < size && (c == GCOLL_ALLGATHER || rank == root); r++)
            add(r, begin(r), begin(r + 1));
        break;
    case GCOLL_ALLTOALL:
        for (uint32_t r = 0; r < size; r++)
            add(r, begin(rank), begin(rank + 1));
        break;
    case GCOLL_PAIRWISE_EXCHANGE: {
        uint32_t chunks = 0;
        while ((1u << chunks) < size)
            chunks++;
        for (uint32_t k = 0; k < chunks; k++) {
            uint32_t partner = rank ^ (1u << k);
            add(partner < size ? partner : rank, count * k / chunks, count * (k + 1) / chunks);
        }
        add(rank, 0, chunks == 0 ? count : 0);
        break;
    }
    default:
        break;
    }
    return out;
}

TEST(BenchShape, EveryCollective) {
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT; c++) {
        auto collective = static_cast<gcoll_collective>(c);
        for (uint32_t size : {1u, 2u, 3u, 5u, 8u}) {
            for (uint64_t given : {0u, 1u, 7u, 40u, 43u}) {
                uint64_t count = collective == GCOLL_BARRIER ? 0 : bench_round_count(collective, given, size);
                for (uint32_t rank = 0; rank < size; rank++) {
                    uint32_t root = gcoll_collective_has_root(collective) ? size / 2 : 0;
                    Shape shape(collective, size, rank, root, count);
                    SCOPED_TRACE(std::string(gcoll_collective_name(collective)) + " rank " +
                                 std::to_string(rank) + " of " + std::to_string(size) + " count " +
                                 std::to_string(count));
                    EXPECT_EQ(shape.output(), defined(collective, size, rank, root, count));
                    for (const Element &e : shape.input())
                        EXPECT_TRUE(e.first == rank || (e.first == BENCH_GARBAGE && rank != root));
                }
            }
        }
    }
}

std::vector<uint64_t> sizes_of(const char *text) {
    cli_list sizes = {nullptr, 0};
    if (!cli_parse_list("--bytes", text, 0, UINT64_MAX, &sizes))
        return {77777};
    std::vector<uint64_t> result(sizes.values, sizes.values + sizes.count);
    free(sizes.values);
    return result;
}

TEST(BenchSizes, ListsAndSweeps) {
    using sizes = std::vector<uint64_t>;
    EXPECT_EQ(sizes_of("4"), sizes({4}));
    EXPECT_EQ(sizes_of("0,1Ki,4Mi,2Gi"), sizes({0, 1024, 4194304, 2147483648u}));
    EXPECT_EQ(sizes_of("4:1Ki:x4"), sizes({4, 16, 64, 256, 1024}));
    EXPECT_EQ(sizes_of("4:1023:x4"), sizes({4, 16, 64, 256}));
    EXPECT_EQ(sizes_of("0:1Ki:+512,7"), sizes({0, 512, 1024, 7}));
    EXPECT_EQ(sizes_of("8:8:x2"), sizes({8}));
    EXPECT_EQ(sizes_of("3-6,100"), sizes({3, 4, 5, 6, 100}));
    EXPECT_EQ(sizes_of("9223372036854775808:18446744073709551615:x2"), sizes({9223372036854775808u}));
}

TEST(BenchSizes, NonsenseIsRefused) {
    for (const char *text : {"",
                             ",",
                             "4,",
                             "x",
                             "-4",
                             "4k",
                             "1.5Ki",
                             "4 ",
                             "4:",
                             "4:8",
                             "4:8:",
                             "4:8:x",
                             "4:8:x1",
                             "0:8:x2",
                             "8:4:x2",
                             "4:8:+0",
                             "4:8:*2",
                             "4:8:x2:x2",
                             "8-4",
                             "1-2-3",
                             "1-",

                             "18446744073709551616",
                             "18014398509481984Ki",
                             "0:1Gi:+1"})
        EXPECT_EQ(sizes_of(text), std::vector<uint64_t>({77777})) << "'" << text << "'";
}

TEST(BenchStatistics, NearestRank) {
    std::vector<double> times;
    for (int i = 100; i >= 1; i--)
        times.push_back(i);
    bench_statistics s;
    bench_statistics_of(times.data(), times.size(), &s);
    EXPECT_EQ(s.min_us, 1);
    EXPECT_EQ(s.p50_us, 50);
    EXPECT_EQ(s.p95_us, 95);
    EXPECT_EQ(s.p99_us, 99);
    EXPECT_EQ(s.max_us, 100);
    EXPECT_DOUBLE_EQ(s.mean_us, 50.5);
    double one = 3;
    bench_statistics_of(&one, 1, &s);
    EXPECT_EQ(std::make_tuple(s.min_us, s.p50_us, s.p99_us, s.max_us, s.mean_us),
              std::make_tuple(3., 3., 3., 3., 3.));
}

TEST(BenchStatistics, Bandwidths) {
    bench_result r = {};
    r.bytes = 4000000;
    r.time.p50_us = 1000;
    r.collective = GCOLL_ALLREDUCE;
    EXPECT_DOUBLE_EQ(bench_algbw(&r), 4.0);
    EXPECT_DOUBLE_EQ(bench_busbw(&r, 4), 6.0);
    EXPECT_DOUBLE_EQ(bench_busbw(&r, 1), 0.0);
    r.collective = GCOLL_BROADCAST;
    EXPECT_DOUBLE_EQ(bench_busbw(&r, 4), 4.0);
    r.collective = GCOLL_ALLTOALL;
    EXPECT_DOUBLE_EQ(bench_busbw(&r, 4), 3.0);
}

// All pairs meet once, in as few rounds as there can be, and nobody meets two ranks in one.
TEST(Pairs, EachMeetsEachOtherOnce) {
    EXPECT_EQ(bench_pairs_rounds(1), 0u);
    for (uint32_t size = 2; size <= 41; size++) {
        EXPECT_EQ(bench_pairs_rounds(size), size % 2 ? size : size - 1);
        std::vector<std::vector<int>> met(size, std::vector<int>(size, 0));
        for (uint32_t round = 0; round < bench_pairs_rounds(size); round++) {
            uint32_t alone = 0;
            for (uint32_t rank = 0; rank < size; rank++) {
                const uint32_t other = bench_pairs_partner(size, round, rank);
                ASSERT_LT(other, size);
                ASSERT_EQ(bench_pairs_partner(size, round, other), rank) << size << " " << round;
                met[rank][other]++;
                alone += other == rank;
            }
            EXPECT_EQ(alone, size % 2);
        }
        for (uint32_t a = 0; a < size; a++)
            for (uint32_t b = 0; b < size; b++)
                EXPECT_EQ(met[a][b], a != b || size % 2 ? 1 : 0) << size << ": " << a << " " << b;
    }
}

// Each rank maps the file by itself. Nobody goes on before all have come, and nobody waits for ever.
TEST(BenchLineUp, NobodyGoesOnBeforeAllHaveCome) {
    constexpr uint32_t kRanks = 5, kRounds = 300;
    program_test::folder here;
    const std::string path = here.path + "/line";
    std::vector<std::atomic<uint32_t>> come(kRounds);
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < kRanks; rank++)
        ranks.emplace_back([&] {
            bench_line_up line;
            ASSERT_TRUE(bench_line_up_open(&line, path.c_str(), kRanks, 60e3));
            for (uint32_t round = 0; round < kRounds; round++) {
                come[round]++;
                ASSERT_TRUE(bench_line_up_wait(&line));
                EXPECT_EQ(come[round], kRanks);
                EXPECT_TRUE(round + 2 >= kRounds || come[round + 2] == 0);
            }
            bench_line_up_close(&line);
        });
    for (std::thread &rank : ranks)
        rank.join();
}

TEST(BenchLineUp, ARankThatDoesNotComeAndOneTooManyAreTold) {
    program_test::folder here;
    const std::string path = here.path + "/line";
    bench_line_up line;
    ASSERT_TRUE(bench_line_up_open(&line, path.c_str(), 2, 1));
    testing::internal::CaptureStderr();
    EXPECT_FALSE(bench_line_up_wait(&line));
    EXPECT_NE(testing::internal::GetCapturedStderr().find("--line-up: 1 of 2 ranks have come within 0.001 s"),
              std::string::npos);
    line.ranks = 1; // of another job
    testing::internal::CaptureStderr();
    EXPECT_FALSE(bench_line_up_wait(&line));
    EXPECT_NE(testing::internal::GetCapturedStderr().find(
                  "--line-up: 2 have come, and the job has 1 ranks; the file is another job's, too"),
              std::string::npos);
    bench_line_up_close(&line);
    EXPECT_FALSE(bench_line_up_open(&line, here.path.c_str(), 2, 1)) << "a folder";
    bench_line_up_close(&line);
}

} // namespace
