// The collectives by the public headers, on ranks that are threads, against plain loops.
#include "harness.h"

#include <cstring>
#include <string>
#include <tuple>

#include "element_oracle.h"

namespace {

using element_oracle::Bits;
using gcoll_test::algorithms;
using gcoll_test::run_threads;
using gcoll_test::told;

uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint32_t ceil_log2(uint32_t n) {
    uint32_t bits = 0;
    while ((1u << bits) < n)
        bits++;
    return bits;
}

// Every algorithm, with every r and with segments that divide nothing evenly.
std::vector<std::string> allreduce_texts(uint32_t size) {
    std::vector<std::string> texts = {"auto"};
    for (const std::string &name : algorithms("allreduce")) {
        texts.push_back(name);
        texts.push_back(name + ":segment=100");
    }
    for (uint32_t r = 0; r <= ceil_log2(size); r++)
        texts.push_back("group_butterfly:r=" + std::to_string(r));
    texts.push_back("group_butterfly:r=1:segment=36");
    return texts;
}

gcoll_allreduce_options by(const char *algorithm) {
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.algorithm = algorithm;
    return options;
}

// `count` elements between two guards that nobody may touch.
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

// Small integers: their sums are exact in any order.
float small(uint32_t contribution, uint64_t i) {
    return static_cast<float>(mix(contribution * 1000003u + i) % 11) - 5;
}

std::vector<double> small_sums(uint32_t contributions, uint64_t count) {
    std::vector<double> sums(count, 0);
    for (uint32_t c = 0; c < contributions; c++)
        for (uint64_t i = 0; i < count; i++)
            sums[i] += small(c, i);
    return sums;
}

// ---- Every algorithm, over sizes and counts -----------------------------------------------------------

using Place = std::tuple<uint32_t, const char *>; // ranks, transport

std::string place_name(const testing::TestParamInfo<Place> &info) {
    return std::string(std::get<1>(info.param)) + "_" + std::to_string(std::get<0>(info.param));
}

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
                                          testing::Values("inproc", "tcp")),
                         place_name);

// ---- Types and operations -------------------------------------------------------------------------------

// What contribution c holds at i. Exact in any order: wrapping integers; sums of small integers; products
// of signs and powers of two; minima and maxima of any bits.
Bits sample(gcoll_type type, gcoll_op op, uint32_t c, uint64_t i) {
    uint64_t random = mix(c * 7919u + i * 104729u + type);
    bool any = op == GCOLL_MIN || op == GCOLL_MAX;
    if (!element_oracle::shape_of(type).is_float || any)
        return random & element_oracle::mask(type);
    if (op == GCOLL_PRODUCT)
        return element_oracle::encode(type, random % 8 == 0 ? 2 : random % 2 ? -1 : 1);
    return element_oracle::encode(type, static_cast<double>(random % 11) - 5);
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
        for (int op = 0; op < GCOLL_USER; op++) {
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
                        << i << ": " << std::hex << load(out, c.type, i) << ", not " << c.want[i];
            }
    });
}

INSTANTIATE_TEST_SUITE_P(Some, Types,
                         testing::Combine(testing::Values(1u, 2u, 5u, 8u), testing::Values("inproc", "tcp")),
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
            if (outputs == kOther) {
                EXPECT_EQ(load(in[k], type, i), sample(type, op, rank * buffers + k, i)) << "input changed";
            }
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

INSTANTIATE_TEST_SUITE_P(Some, Buffers,
                         testing::Combine(testing::Values(1u, 2u, 4u, 5u), testing::Values("inproc", "tcp")),
                         place_name);

// ---- Operations of the user's own ------------------------------------------------------------------------

// x -> a x + b modulo a prime below 2^32, packed; composing them is associative and does not commute.
constexpr uint64_t kPrime = 4294967291u;

uint64_t pack(uint64_t a, uint64_t b) {
    return a << 32 | b;
}

uint64_t compose(uint64_t first, uint64_t then) {
    uint64_t a = first >> 32, b = first & UINT32_MAX, c = then >> 32, d = then & UINT32_MAX;
    return pack(a * c % kPrime, (b * c % kPrime + d) % kPrime);
}

uint64_t affine(uint32_t contribution, uint64_t i) {
    return pack(mix(contribution * 17 + i) % (kPrime - 1) + 1, mix(contribution + i * 71) % kPrime);
}

struct Called {
    std::atomic<uint64_t> elements{0};
};

void compose_all(void *dst, const void *a, const void *b, uint64_t count, gcoll_type type, void *arg) {
    EXPECT_EQ(type, GCOLL_UINT64);
    for (uint64_t i = 0; i < count; i++)
        static_cast<uint64_t *>(dst)[i] =
            compose(static_cast<const uint64_t *>(a)[i], static_cast<const uint64_t *>(b)[i]);
    static_cast<Called *>(arg)->elements += count;
}

void add_modulo(void *dst, const void *a, const void *b, uint64_t count, gcoll_type, void *arg) {
    for (uint64_t i = 0; i < count; i++)
        static_cast<uint64_t *>(dst)[i] =
            (static_cast<const uint64_t *>(a)[i] + static_cast<const uint64_t *>(b)[i]) % kPrime;
    static_cast<Called *>(arg)->elements += count;
}

class UserOp : public testing::TestWithParam<Place> {};

TEST_P(UserOp, OrderHoldsOrIsRefused) {
    auto [ranks, transport] = GetParam();
    uint32_t size = ranks;
    std::vector<std::string> texts = allreduce_texts(size);
    std::atomic<uint32_t> served{0};
    Called called;
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        gcoll_user_op op = {compose_all, &called, 0};
        for (uint64_t count : {1u, 5u, 100u})
            for (const std::string &text : texts) {
                gcoll_allreduce_options options = by(text.c_str());
                options.user_op = &op;
                std::vector<uint64_t> in(count), out(count);
                for (uint64_t i = 0; i < count; i++)
                    in[i] = affine(rank, i);
                gcoll_status status = gcoll_allreduce(context, in.data(), out.data(), count, GCOLL_UINT64,
                                                      GCOLL_USER, &options);
                bool must = text.rfind("auto", 0) == 0 || text.rfind("sorted_linear_tree", 0) == 0;
                if (status == GCOLL_ERR_UNSUPPORTED && !must) {
                    EXPECT_NE(std::string(gcoll_last_error()).find("order"), std::string::npos)
                        << gcoll_last_error();
                    continue;
                }
                EXPECT_EQ(status, GCOLL_OK) << text << ": " << told(status);
                served++;
                for (uint64_t i = 0; i < count; i++) {
                    uint64_t want = affine(0, i);
                    for (uint32_t r = 1; r < size; r++)
                        want = compose(want, affine(r, i));
                    EXPECT_EQ(out[i], want) << text << ", count " << count << ", at " << i;
                }
            }
    });
    EXPECT_GE(served.load(), 2 * 3 * size);
    EXPECT_EQ(called.elements.load() > 0, size > 1);
}

TEST_P(UserOp, OrderOfBuffersHoldsToo) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        constexpr uint64_t kCount = 11;
        Called called;
        gcoll_user_op op = {compose_all, &called, 0};
        std::vector<uint64_t> data[2] = {std::vector<uint64_t>(kCount), std::vector<uint64_t>(kCount)};
        const void *pointers[2] = {data[0].data(), data[1].data()};
        for (uint64_t i = 0; i < kCount; i++)
            for (uint32_t k = 0; k < 2; k++)
                data[k][i] = affine(2 * rank + k, i);
        gcoll_allreduce_options options = by("auto");
        options.user_op = &op;
        options.buffers = 2;
        options.inputs = pointers;
        EXPECT_GCOLL_OK(
            gcoll_allreduce(context, nullptr, nullptr, kCount, GCOLL_UINT64, GCOLL_USER, &options));
        for (uint64_t i = 0; i < kCount; i++) {
            uint64_t want = affine(0, i);
            for (uint32_t c = 1; c < 2 * gcoll_context_size(context); c++)
                want = compose(want, affine(c, i));
            EXPECT_EQ(data[0][i], want);
            EXPECT_EQ(data[1][i], want);
        }
    });
}

TEST_P(UserOp, CommutativeOnesTakeEveryAlgorithm) {
    auto [ranks, transport] = GetParam();
    uint32_t size = ranks;
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        constexpr uint64_t kCount = 50;
        Called called;
        gcoll_user_op op = {add_modulo, &called, 1};
        for (const std::string &text : allreduce_texts(size)) {
            gcoll_allreduce_options options = by(text.c_str());
            options.user_op = &op;
            std::vector<uint64_t> data(kCount);
            for (uint64_t i = 0; i < kCount; i++)
                data[i] = mix(rank * 5 + i) % kPrime;
            EXPECT_GCOLL_OK(
                gcoll_allreduce(context, nullptr, data.data(), kCount, GCOLL_UINT64, GCOLL_USER, &options));
            for (uint64_t i = 0; i < kCount; i++) {
                uint64_t want = 0;
                for (uint32_t r = 0; r < size; r++)
                    want += mix(r * 5 + i) % kPrime;
                EXPECT_EQ(data[i], want % kPrime) << text;
            }
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Some, UserOp,
                         testing::Combine(testing::Values(1u, 2u, 3u, 5u, 8u),
                                          testing::Values("inproc", "tcp")),
                         place_name);

// ---- Bits that all ranks share ----------------------------------------------------------------------------

TEST(RankIdentical, HoldsOrIsRefused) {
    constexpr uint32_t kRanks = 7;
    constexpr uint64_t kCount = 200;
    std::vector<std::string> texts = allreduce_texts(kRanks);
    std::vector<std::vector<std::vector<float>>> results(texts.size(),
                                                         std::vector<std::vector<float>>(kRanks));
    run_threads(kRanks, "inproc", [&](uint32_t rank, gcoll_context *context) {
        for (size_t t = 0; t < texts.size(); t++) {
            gcoll_allreduce_options options = by(texts[t].c_str());
            options.rank_identical = 1;
            std::vector<float> data(kCount);
            for (uint64_t i = 0; i < kCount; i++)
                data[i] = static_cast<float>(mix(rank * 100 + i) >> 40) * 1.1f; // rounding differs by order
            gcoll_status status =
                gcoll_allreduce(context, nullptr, data.data(), kCount, GCOLL_FLOAT32, GCOLL_SUM, &options);
            if (status == GCOLL_OK)
                results[t][rank] = data;
            else
                EXPECT_EQ(status, GCOLL_ERR_UNSUPPORTED) << texts[t] << ": " << told(status);
        }
    });
    EXPECT_FALSE(results[0][0].empty()) << "auto must find one that is";
    for (size_t t = 0; t < texts.size(); t++)
        for (uint32_t rank = 1; rank < kRanks; rank++)
            EXPECT_EQ(results[t][rank], results[t][0]) << texts[t];
    // It is no empty promise: one of them is refused.
    size_t refused = 0;
    for (const auto &result : results)
        refused += result[0].empty();
    EXPECT_GT(refused, 0u);
}

// ---- Millions of elements
// -----------------------------------------------------------------------------------

class Large : public testing::TestWithParam<Place> {};

TEST_P(Large, EveryAlgorithm) {
    auto [size, transport] = GetParam();
    constexpr uint64_t kCount = 2500001;
    std::vector<double> want = small_sums(size, kCount);
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
            uint64_t wrong = 0;
            for (uint64_t i = 0; i < kCount; i++)
                wrong += out[i] != static_cast<float>(want[i]);
            EXPECT_EQ(wrong, 0u) << text << ", rank " << rank;
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

INSTANTIATE_TEST_SUITE_P(Some, Large,
                         testing::Combine(testing::Values(2u, 5u), testing::Values("inproc", "tcp")),
                         place_name);

// ---- Arguments that are refused
// -----------------------------------------------------------------------------

void expect_refused(gcoll_status status, gcoll_status want, const char *word) {
    EXPECT_EQ(status, want) << word << ": " << told(status);
    EXPECT_NE(std::string(gcoll_last_error()).find(word), std::string::npos)
        << "'" << gcoll_last_error() << "' does not name " << word;
}

void refuse_buffers(gcoll_context *c, float *data) {
    char *bytes = reinterpret_cast<char *>(data);
    expect_refused(gcoll_allreduce(c, nullptr, nullptr, 4, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "output");
    expect_refused(gcoll_allreduce(c, nullptr, bytes + 1, 4, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "aligned");
    expect_refused(gcoll_allreduce(c, bytes + 2, data + 8, 4, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "input");
    expect_refused(gcoll_allreduce(c, data, data + 3, 4, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "overlap");
    expect_refused(gcoll_broadcast(c, nullptr, 4, GCOLL_FLOAT32, 0, nullptr), GCOLL_ERR_INVALID, "NULL");
    expect_refused(gcoll_allreduce(c, nullptr, data, UINT64_MAX / 2, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "count");
    const void *overlapping[] = {data, data + 2};
    gcoll_allreduce_options options = by(nullptr);
    options.buffers = 2;
    expect_refused(gcoll_allreduce(c, nullptr, nullptr, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "inputs");
    options.inputs = overlapping;
    expect_refused(gcoll_allreduce(c, nullptr, nullptr, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "overlap");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "buffers");
    options.buffers = 1025;
    expect_refused(gcoll_allreduce(c, nullptr, nullptr, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "1024");
}

void refuse_the_rest(gcoll_context *c, float *data) {
    expect_refused(gcoll_allreduce(nullptr, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "context");
    expect_refused(gcoll_barrier(nullptr, nullptr), GCOLL_ERR_INVALID, "context");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, static_cast<gcoll_type>(10), GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "type");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, static_cast<gcoll_op>(9), nullptr),
                   GCOLL_ERR_INVALID, "op");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_BAND, nullptr),
                   GCOLL_ERR_INVALID, "float32");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_USER, nullptr),
                   GCOLL_ERR_INVALID, "user_op");
    expect_refused(gcoll_broadcast(c, data, 4, GCOLL_FLOAT32, 3, nullptr), GCOLL_ERR_INVALID, "root");
    for (const char *text :
         {"rign", "ring:segment=", "ring:r=1", "group_butterfly:r=x", "binomial", ":", ""}) {
        gcoll_allreduce_options options = by(text);
        if (text[0])
            expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                           GCOLL_ERR_INVALID, "allowed");
    }
    std::string endless(1000, 'x');
    gcoll_allreduce_options options = by(endless.c_str());
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "algorithm");
    options = by(nullptr);
    options.struct_size = 0;
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "struct_size");
}

TEST(Arguments, BadOnesAreNamedAndBreakNothing) {
    run_threads(3, "tcp", [](uint32_t rank, gcoll_context *context) {
        std::vector<float> data(32, 1.0f);
        for (int repeat = 0; repeat < 2; repeat++) {
            if (repeat > 0 || rank != 1) // also while others are in step with nobody
                refuse_buffers(context, data.data());
            refuse_the_rest(context, data.data());
            EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
            EXPECT_EQ(gcoll_context_culprit(context), -1);
            float one = 1;
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &one, 1, GCOLL_FLOAT32, GCOLL_SUM, nullptr));
            EXPECT_EQ(one, 3.0f);
        }
    });
}

TEST(Algorithms, ListsAndChecks) {
    for (const char *collective : {"allreduce", "broadcast", "barrier"}) {
        std::vector<std::string> names = algorithms(collective);
        EXPECT_FALSE(names.empty()) << collective;
        for (const std::string &name : names)
            EXPECT_GCOLL_OK(gcoll_algorithm_check(collective, (name + ":segment=64Ki").c_str()));
        EXPECT_EQ(gcoll_algorithm_at(collective, 100000, nullptr, nullptr), GCOLL_ERR_NOT_FOUND);
        EXPECT_EQ(gcoll_algorithm_check(collective, "none"), GCOLL_ERR_INVALID);
        EXPECT_GCOLL_OK(gcoll_algorithm_check(collective, "auto"));
        EXPECT_GCOLL_OK(gcoll_algorithm_check(collective, nullptr));
    }
    EXPECT_EQ(gcoll_algorithm_at("allgatherish", 0, nullptr, nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_algorithm_at(nullptr, 0, nullptr, nullptr), GCOLL_ERR_INVALID);
}

} // namespace
