// test/core/collective_test.cc - tests of the collectives by the public headers, on ranks that are threads,
// against plain loops.
#include "test/kit/collective_support.h"

#include <cstring>

#include "test/kit/element_oracle.h"
#include "test/kit/sanitizer.h"

namespace {

using namespace collective_support;
using element_oracle::Bits;
using gcoll_test::algorithms;
using gcoll_test::run_threads;
using gcoll_test::transports;

// A buffer of `count` elements between two guards, which no call may change.
template <class T> class Guarded {
  public:
    explicit Guarded(uint64_t count, T fill = T{}) : all_(count + 2, fill) {
        all_.front() = all_.back() = guard();
    }
    T *data() { return all_.data() + 1; }
    T &operator[](uint64_t i) { return all_[i + 1]; }
    bool intact() const {
        T want = guard();
        return memcmp(&all_.front(), &want, sizeof want) == 0 &&
               memcmp(&all_.back(), &want, sizeof want) == 0;
    }

  private:
    static T guard() {
        T value;
        memset(&value, 0x5a, sizeof value);
        return value;
    }
    std::vector<T> all_;
};

// ---- Every algorithm, over sizes and counts -----------------------------------------------------------

class Collectives : public testing::TestWithParam<Place> {
  protected:
    uint32_t size() const { return std::get<0>(GetParam()); }
    const char *transport() const { return std::get<1>(GetParam()); }
};

void sum_once(uint32_t rank, gcoll_context *context, const std::string &text, const std::vector<double> &want,
              bool in_place) {
    uint64_t count = want.size(), wrong = 0;
    gcoll_allreduce_options options = by(text.c_str());
    Guarded<float> in(count), out(count, -77.0f);
    for (uint64_t i = 0; i < count; i++)
        in[i] = small(rank, i);
    if (in_place)
        out = in;
    EXPECT_GCOLL_OK(gcoll_allreduce(context, in_place ? nullptr : in.data(), out.data(), count, GCOLL_FLOAT32,
                                    GCOLL_SUM, &options));
    for (uint64_t i = 0; i < count; i++)
        wrong += out[i] != static_cast<float>(want[i]) || in[i] != small(rank, i);
    EXPECT_EQ(wrong, 0u) << text << ", count " << count << ", in place " << in_place << ", rank " << rank;
    EXPECT_TRUE(in.intact() && out.intact()) << text << ", count " << count << ", rank " << rank;
}

TEST_P(Collectives, EveryAlgorithmSums) {
    std::vector<std::string> texts = allreduce_texts(size());
    std::vector<std::vector<double>> wants;
    for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{size() - 1}, uint64_t{size()},
                           uint64_t{3 * size() + 1}, uint64_t{1000}})
        wants.push_back(small_sums(size(), count));
    run_threads(size(), transport(), [&](uint32_t rank, gcoll_context *context) {
        for (const std::vector<double> &want : wants)
            for (const std::string &text : texts)
                for (bool in_place : {false, true})
                    sum_once(rank, context, text, want, in_place);
    });
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
    std::vector<std::string> texts = {"auto"};
    for (const std::string &name : algorithms("broadcast")) {
        texts.push_back(name);
        texts.push_back(name + ":segment=1Ki");
    }
    run_threads(size(), transport(), [&](uint32_t rank, gcoll_context *context) {
        for (const std::string &text : texts)
            for (uint32_t root = 0; root < size(); root++)
                for (uint64_t count : {0, 1, 7, 1000}) {
                    gcoll_broadcast_options options;
                    gcoll_broadcast_options_init(&options);
                    options.algorithm = text.c_str();
                    Guarded<uint64_t> data(count, rank);
                    for (uint64_t i = 0; rank == root && i < count; i++)
                        data[i] = mix(root * 31 + i);
                    EXPECT_GCOLL_OK(
                        gcoll_broadcast(context, data.data(), count, GCOLL_UINT64, root, &options));
                    uint64_t wrong = 0;
                    for (uint64_t i = 0; i < count; i++)
                        wrong += data[i] != mix(root * 31 + i);
                    EXPECT_EQ(wrong, 0u)
                        << text << ", count " << count << ", root " << root << ", rank " << rank;
                    EXPECT_TRUE(data.intact());
                }
    });
}

TEST_P(Collectives, NobodyLeavesABarrierBeforeAllHaveCome) {
    std::atomic<uint32_t> come{0};
    std::vector<std::string> texts = {"auto"};
    for (const std::string &name : algorithms("barrier"))
        texts.push_back(name);
    run_threads(size(), transport(), [&](uint32_t rank, gcoll_context *context) {
        uint32_t round = 0;
        for (int repeat = 0; repeat < 20; repeat++)
            for (const std::string &text : texts) {
                gcoll_barrier_options options;
                gcoll_barrier_options_init(&options);
                options.algorithm = text.c_str();
                come++;
                EXPECT_GCOLL_OK(gcoll_barrier(context, &options));
                EXPECT_GE(come.load(), ++round * size()) << text << ", rank " << rank;
            }
    });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Collectives,
                         testing::Combine(testing::Values(1u, 2u, 3u, 4u, 5u, 7u, 8u, 13u, 16u, 17u),
                                          transports()),
                         place_name);

// ---- Types and operations -------------------------------------------------------------------------------

// Element i of contribution c. Results are exact in any order: wrapping integers, sums of small integers,
// products of signs and powers of two, and minima and maxima of any bits. So are products of complex numbers
// of which only contribution 0 has both parts, and the others are positive: no part is -0, whose sign would
// depend on the order. Of values with an index, many are equal.
Bits sample(gcoll_type type, gcoll_op op, uint32_t c, uint64_t i) {
    uint64_t random = mix(c * 7919u + i * 104729u + type);
    if (element_oracle::kind_of(type) == element_oracle::Kind::kComplex && op == GCOLL_PRODUCT) {
        const gcoll_type part = element_oracle::first_type(type);
        const auto number = [part](double x) { return element_oracle::encode(part, x); };
        return c > 0
                   ? element_oracle::join(type, number(random % 8 == 0 ? 2 : 1), 0)
                   : element_oracle::join(type, number(random % 2 ? -1 : 2), number(random % 4 < 2 ? -3 : 1));
    }
    if (element_oracle::kind_of(type) == element_oracle::Kind::kLocated && random % 4 != 0)
        return element_oracle::join(type, random / 4 % 2, random / 8 % 16);
    if (element_oracle::has_halves(type))
        return element_oracle::join(type, sample(element_oracle::first_type(type), op, c, 2 * i),
                                    sample(element_oracle::second_type(type), op, c, 2 * i + 1));
    bool any = op == GCOLL_MIN || op == GCOLL_MAX || op == GCOLL_MINLOC || op == GCOLL_MAXLOC;
    if (!element_oracle::shape_of(type).is_float || any)
        return random & element_oracle::mask(type);
    if (op == GCOLL_PRODUCT)
        return element_oracle::encode(type, random % 8 == 0 ? 2 : random % 2 ? -1 : 1);
    const uint64_t most = element_oracle::shape_of(type).bytes == 1 ? 1 : 5; // 8 bits count to 8
    return element_oracle::encode(type,
                                  static_cast<double>(random % (2 * most + 1)) - static_cast<double>(most));
}

void store(std::vector<uint8_t> &buffer, gcoll_type type, uint64_t i, Bits bits) {
    memcpy(buffer.data() + i * gcoll_type_size(type), &bits, gcoll_type_size(type));
}

Bits load(const std::vector<uint8_t> &buffer, gcoll_type type, uint64_t i) {
    Bits bits = 0;
    memcpy(&bits, buffer.data() + i * gcoll_type_size(type), gcoll_type_size(type));
    return bits;
}

std::vector<Bits> reductions(gcoll_type type, gcoll_op op, uint32_t contributions, uint64_t count) {
    std::vector<Bits> wants(count);
    for (uint64_t i = 0; i < count; i++) {
        Bits want = sample(type, op, 0, i);
        for (uint32_t c = 1; c < contributions; c++)
            want = element_oracle::answer(type, op, want, sample(type, op, c, i));
        wants[i] = op == GCOLL_AVG ? element_oracle::quotient(type, want, contributions) : want;
    }
    return wants;
}

class Types : public testing::TestWithParam<Place> {};

TEST_P(Types, EveryOperationOfEveryType) {
    auto [size, transport] = GetParam();
    constexpr uint64_t kCount = 37;
    struct Case {
        gcoll_type type;
        gcoll_op op;
        std::vector<Bits> want;
    };
    std::vector<Case> cases;
    for (int type = 0; type < GCOLL_TYPE_COUNT; type++)
        for (int op = 0; op < GCOLL_OP_COUNT; op++) {
            auto t = static_cast<gcoll_type>(type);
            auto o = static_cast<gcoll_op>(op);
            if (element_oracle::defined(t, o))
                cases.push_back({t, o, reductions(t, o, size, kCount)});
        }
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        for (const Case &c : cases)
            for (const std::string &text :
                 {std::string("auto"), std::string("ring:segment=24"), std::string("group_butterfly:r=1"),
                  std::string("sorted_linear_tree")}) {
                gcoll_allreduce_options options = by(text.c_str());
                std::vector<uint8_t> in(kCount * gcoll_type_size(c.type)), out(in.size());
                for (uint64_t i = 0; i < kCount; i++)
                    store(in, c.type, i, sample(c.type, c.op, rank, i));
                EXPECT_GCOLL_OK(
                    gcoll_allreduce(context, in.data(), out.data(), kCount, c.type, c.op, &options));
                for (uint64_t i = 0; i < kCount; i++)
                    EXPECT_TRUE(element_oracle::same(c.type, load(out, c.type, i), c.want[i]))
                        << gcoll_type_name(c.type) << " " << gcoll_op_name(c.op) << " by " << text << " at "
                        << i << ": " << element_oracle::hex(load(out, c.type, i)) << ", not "
                        << element_oracle::hex(c.want[i]);
            }
    });
}

// A complex number needs the alignment of its parts, as in C.
TEST_P(Types, PartsOfAnElementAreAligned) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        alignas(16) double numbers[5] = {-1, static_cast<double>(rank), 1, 2, 3};
        EXPECT_GCOLL_OK(
            gcoll_allreduce(context, nullptr, numbers + 1, 2, GCOLL_COMPLEX128, GCOLL_SUM, nullptr));
        const double ranks = gcoll_context_size(context);
        EXPECT_EQ(std::vector<double>(numbers, numbers + 5),
                  std::vector<double>({-1, ranks * (ranks - 1) / 2, ranks, 2 * ranks, 3 * ranks}));
        EXPECT_EQ(gcoll_allreduce(context, nullptr, reinterpret_cast<char *>(numbers) + 4, 2,
                                  GCOLL_COMPLEX128, GCOLL_SUM, nullptr),
                  GCOLL_ERR_INVALID);
        EXPECT_NE(std::string(gcoll_last_error()).find("is not aligned to its element, 8 bytes"),
                  std::string::npos);
    });
}

INSTANTIATE_TEST_SUITE_P(Some, Types, testing::Combine(testing::Values(1u, 2u, 5u, 8u), transports()),
                         place_name);

// ---- Several buffers of a process -------------------------------------------------------------------------

class Buffers : public testing::TestWithParam<Place> {};

enum Outputs { kNone, kSame, kOther };

void reduce_buffers(uint32_t rank, gcoll_context *context, uint32_t buffers, gcoll_op op, uint64_t count,
                    Outputs outputs, const std::string &text) {
    const gcoll_type type = GCOLL_FLOAT32;
    uint32_t contributions = gcoll_context_size(context) * buffers;
    std::vector<Bits> want = reductions(type, op, contributions, count);
    std::vector<std::vector<uint8_t>> in, out;
    std::vector<const void *> in_pointers;
    std::vector<void *> out_pointers;
    for (uint32_t k = 0; k < buffers; k++) {
        in.emplace_back(count * gcoll_type_size(type));
        out.emplace_back(count * gcoll_type_size(type));
        for (uint64_t i = 0; i < count; i++)
            store(in[k], type, i, sample(type, op, rank * buffers + k, i));
    }
    for (uint32_t k = 0; k < buffers; k++) {
        in_pointers.push_back(in[k].data());
        out_pointers.push_back(outputs == kSame ? in[k].data() : out[k].data());
    }
    gcoll_allreduce_options options = by(text.c_str());
    options.buffers = buffers;
    options.inputs = in_pointers.data();
    options.outputs = outputs == kNone ? nullptr : out_pointers.data();
    EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, nullptr, count, type, op, &options));
    for (uint32_t k = 0; k < buffers; k++)
        for (uint64_t i = 0; i < count; i++) {
            EXPECT_TRUE(
                element_oracle::same(type, load(outputs == kOther ? out[k] : in[k], type, i), want[i]))
                << text << ", buffer " << k << " of " << buffers << ", outputs " << outputs << ", at " << i;
            if (outputs == kOther)
                EXPECT_EQ(load(in[k], type, i), sample(type, op, rank * buffers + k, i)) << "input changed";
        }
}

TEST_P(Buffers, AllAreReducedAndAllGetTheResult) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        for (uint32_t buffers : {1u, 2u, 3u})
            for (uint64_t count : {0u, 1u, 50u})
                for (gcoll_op op : {GCOLL_SUM, GCOLL_AVG, GCOLL_MAX})
                    for (Outputs outputs : {kNone, kSame, kOther})
                        for (const char *text : {"auto", "ring", "ring:segment=40", "group_butterfly:r=1"})
                            reduce_buffers(rank, context, buffers, op, count, outputs, text);
    });
}

TEST_P(Buffers, RanksMayHaveDifferentNumbers) {
    auto [size, transport] = GetParam();
    constexpr uint64_t kCount = 33;
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        uint32_t contributions = 0, first = 0;
        for (uint32_t r = 0; r < gcoll_context_size(context); r++) {
            if (r < rank)
                first += r % 3 + 1;
            contributions += r % 3 + 1;
        }
        std::vector<double> want = small_sums(contributions, kCount);
        std::vector<std::vector<float>> data(rank % 3 + 1, std::vector<float>(kCount));
        std::vector<const void *> pointers;
        for (uint32_t k = 0; k < data.size(); k++) {
            pointers.push_back(data[k].data());
            for (uint64_t i = 0; i < kCount; i++)
                data[k][i] = small(first + k, i);
        }
        gcoll_allreduce_options options = by("auto");
        options.inputs = pointers.data();
        options.buffers = static_cast<uint32_t>(data.size());
        EXPECT_GCOLL_OK(
            gcoll_allreduce(context, nullptr, nullptr, kCount, GCOLL_FLOAT32, GCOLL_SUM, &options));
        for (uint64_t i = 0; i < kCount; i++)
            for (const std::vector<float> &buffer : data)
                EXPECT_EQ(buffer[i], static_cast<float>(want[i]));
    });
}

TEST_P(Buffers, BroadcastFillsAll) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        for (uint32_t buffers : {1u, 2u, 3u})
            for (uint32_t root = 0; root < gcoll_context_size(context); root++) {
                std::vector<std::vector<int32_t>> data(buffers, std::vector<int32_t>(100, -1));
                std::vector<void *> pointers;
                for (std::vector<int32_t> &buffer : data)
                    pointers.push_back(buffer.data());
                for (int32_t i = 0; rank == root && i < 100; i++)
                    data[0][static_cast<size_t>(i)] = i * i;
                gcoll_broadcast_options options;
                gcoll_broadcast_options_init(&options);
                options.buffers = pointers.data();
                options.buffer_count = buffers;
                EXPECT_GCOLL_OK(gcoll_broadcast(context, nullptr, 100, GCOLL_INT32, root, &options));
                for (const std::vector<int32_t> &buffer : data)
                    for (int32_t i = 0; i < 100; i++)
                        EXPECT_EQ(buffer[static_cast<size_t>(i)], i * i);
            }
    });
}

INSTANTIATE_TEST_SUITE_P(Some, Buffers, testing::Combine(testing::Values(1u, 2u, 4u, 5u), transports()),
                         place_name);

// ---- Millions of elements
// -----------------------------------------------------------------------------------

// Larger than any buffer of the library. With sanitizers, which take ten times as long, larger than its
// credits only.
const uint64_t kLarge = gcoll_test::is_sanitized() ? 300001 : 2500001;

class Large : public testing::TestWithParam<Place> {};

TEST_P(Large, EveryAlgorithm) {
    auto [size, transport] = GetParam();
    const uint64_t kCount = kLarge;
    const std::vector<double> sums = small_sums(size, kCount);
    const std::vector<float> want(sums.begin(), sums.end());
    std::vector<std::string> texts = {"auto", "ring:segment=256Ki"};
    for (const std::string &name : algorithms("allreduce"))
        texts.push_back(name);
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        std::vector<float> in(kCount), out(kCount);
        for (uint64_t i = 0; i < kCount; i++)
            in[i] = small(rank, i);
        for (const std::string &text : texts) {
            gcoll_allreduce_options options = by(text.c_str());
            EXPECT_GCOLL_OK(
                gcoll_allreduce(context, in.data(), out.data(), kCount, GCOLL_FLOAT32, GCOLL_SUM, &options));
            EXPECT_TRUE(memcmp(out.data(), want.data(), kCount * sizeof(float)) == 0)
                << text << ", rank " << rank;
        }
        for (uint32_t root = 0; root < 2; root++) {
            if (rank == root)
                out = in;
            EXPECT_GCOLL_OK(gcoll_broadcast(context, out.data(), kCount, GCOLL_FLOAT32, root, nullptr));
            uint64_t wrong = 0;
            for (uint64_t i = 0; i < kCount; i++)
                wrong += out[i] != small(root, i);
            EXPECT_EQ(wrong, 0u) << "broadcast from " << root << ", rank " << rank;
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Some, Large, testing::Combine(testing::Values(2u, 5u), transports()), place_name);

} // namespace
