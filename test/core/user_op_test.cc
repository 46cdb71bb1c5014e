// test/core/user_op_test.cc - tests of reductions that the user defines, and of results that must be the same
// on all ranks.
#include "test/kit/collective_support.h"

#include <cstring>

namespace {

using namespace collective_support;
using gcoll_test::run_threads;
using gcoll_test::told;
using gcoll_test::transports;

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

gcoll_status compose_all(void *dst, const void *a, const void *b, uint64_t count, gcoll_type type,
                         void *arg) {
    EXPECT_EQ(type, GCOLL_UINT64);
    for (uint64_t i = 0; i < count; i++)
        static_cast<uint64_t *>(dst)[i] =
            compose(static_cast<const uint64_t *>(a)[i], static_cast<const uint64_t *>(b)[i]);
    static_cast<Called *>(arg)->elements += count;
    return GCOLL_OK;
}

gcoll_status add_modulo(void *dst, const void *a, const void *b, uint64_t count, gcoll_type, void *arg) {
    for (uint64_t i = 0; i < count; i++)
        static_cast<uint64_t *>(dst)[i] =
            (static_cast<const uint64_t *>(a)[i] + static_cast<const uint64_t *>(b)[i]) % kPrime;
    static_cast<Called *>(arg)->elements += count;
    return GCOLL_OK;
}

class UserOp : public testing::TestWithParam<Place> {};

TEST_P(UserOp, OrderHoldsOrIsRefused) {
    auto [ranks, transport] = GetParam();
    uint32_t size = ranks;
    std::vector<std::string> texts = allreduce_texts(size);
    std::atomic<uint32_t> served{0};
    Called called;
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        gcoll_user_op op = {compose_all, &called, 0, 0};
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
        gcoll_user_op op = {compose_all, &called, 0, 0};
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
        gcoll_user_op op = {add_modulo, &called, 1, 0};
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

// Reduces all blocks in rank order, by every algorithm of reduce and reduce_scatter that keeps the order.
void order_of_blocks(uint32_t rank, gcoll_context *context, const std::string &text, gcoll_collective what,
                     uint64_t count, const gcoll_user_op *op, std::atomic<uint32_t> *served) {
    const uint32_t size = gcoll_context_size(context), root = size - 1;
    const bool scatters = what == GCOLL_REDUCE_SCATTER;
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.algorithm = text.c_str();
    options.user_op = op;
    std::vector<uint64_t> in(scatters ? count * size : count), out(count, 0);
    for (uint64_t i = 0; i < in.size(); i++)
        in[i] = affine(rank, i);
    gcoll_status status =
        scatters
            ? gcoll_reduce_scatter(context, in.data(), out.data(), count, GCOLL_UINT64, GCOLL_USER, &options)
            : gcoll_reduce(context, in.data(), out.data(), count, GCOLL_UINT64, GCOLL_USER, root, &options);
    if (status == GCOLL_ERR_UNSUPPORTED && text != "auto")
        return;
    EXPECT_EQ(status, GCOLL_OK) << text << ": " << told(status);
    ++*served;
    for (uint64_t i = 0; (scatters || rank == root) && i < count; i++) {
        uint64_t at = scatters ? rank * count + i : i, want = affine(0, at);
        for (uint32_t r = 1; r < size; r++)
            want = compose(want, affine(r, at));
        EXPECT_EQ(out[i], want) << text << ", count " << count << ", at " << i << ", rank " << rank;
    }
}

TEST_P(UserOp, OrderHoldsInReduceAndReduceScatter) {
    auto [size, transport] = GetParam();
    std::atomic<uint32_t> served{0};
    Called called;
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        gcoll_user_op op = {compose_all, &called, 0, 0};
        for (gcoll_collective what : {GCOLL_REDUCE, GCOLL_REDUCE_SCATTER})
            for (uint64_t count : {1u, 5u, 100u}) {
                order_of_blocks(rank, context, "auto", what, count, &op, &served);
                for (const std::string &name : gcoll_test::algorithms(gcoll_collective_name(what)))
                    order_of_blocks(rank, context, name, what, count, &op, &served);
            }
    });
    EXPECT_GE(served.load(), 2 * 3 * size);
    EXPECT_EQ(called.elements.load() > 0, size > 1);
}

// ---- Elements of the user's own -------------------------------------------------------------------------

// Pairs of bytes, each a function x -> a x + b modulo 256, and what is left over, of which the right one
// stays. Composing them is associative and does not commute.
template <size_t kBytes> struct Element {
    uint8_t at[kBytes];
    bool operator==(const Element &other) const { return memcmp(at, other.at, kBytes) == 0; }
};

template <size_t kBytes> Element<kBytes> composed(const Element<kBytes> &first, const Element<kBytes> &then) {
    Element<kBytes> result = then;
    for (size_t k = 0; k + 1 < kBytes; k += 2) {
        result.at[k] = static_cast<uint8_t>(first.at[k] * then.at[k]);
        result.at[k + 1] = static_cast<uint8_t>(first.at[k + 1] * then.at[k] + then.at[k + 1]);
    }
    return result;
}

template <size_t kBytes>
gcoll_status compose_elements(void *dst, const void *a, const void *b, uint64_t count, gcoll_type type,
                              void *) {
    using E = Element<kBytes>;
    constexpr size_t kDivides = kBytes & (~kBytes + 1), kAligned = kDivides < 16 ? kDivides : 16;
    EXPECT_EQ(type, GCOLL_UINT8);
    for (const void *operand : {static_cast<const void *>(dst), a, b})
        EXPECT_EQ(reinterpret_cast<uintptr_t>(operand) % kAligned, 0u);
    for (uint64_t i = 0; i < count; i++)
        static_cast<E *>(dst)[i] = composed(static_cast<const E *>(a)[i], static_cast<const E *>(b)[i]);
    return GCOLL_OK;
}

template <size_t kBytes> Element<kBytes> element(uint32_t rank, uint64_t i) {
    Element<kBytes> made;
    for (size_t k = 0; k < kBytes; k++)
        made.at[k] =
            static_cast<uint8_t>(mix(rank * 77777 + i * 3001 + k) | (k % 2 == 0)); // odd a: none is lost
    return made;
}

template <size_t kBytes> Element<kBytes> composed_of_ranks(uint32_t size, uint64_t i) {
    Element<kBytes> want = element<kBytes>(0, i);
    for (uint32_t rank = 1; rank < size; rank++)
        want = composed(want, element<kBytes>(rank, i));
    return want;
}

// By every algorithm that keeps the order, in every form, and in reduce_scatter.
template <size_t kBytes>
void own_elements(uint32_t rank, gcoll_context *context, std::atomic<uint32_t> *served) {
    using E = Element<kBytes>;
    const uint32_t size = gcoll_context_size(context);
    const gcoll_user_op op = {compose_elements<kBytes>, nullptr, 0, kBytes};
    int turn = 0;
    for (const uint64_t count : {uint64_t{1}, uint64_t{7}, uint64_t{1500 / kBytes + 3}}) {
        std::vector<E> in(count), want(count);
        for (uint64_t i = 0; i < count; i++) {
            in[i] = element<kBytes>(rank, i);
            want[i] = composed_of_ranks<kBytes>(size, i);
        }
        for (const std::string &text : allreduce_texts(size)) {
            gcoll_allreduce_options options = by(text.c_str());
            options.user_op = &op;
            std::vector<E> out(count);
            const Form form = static_cast<Form>(turn++ % 3);
            const gcoll_status status = CALL(form, allreduce, context, in.data(), out.data(), count,
                                             GCOLL_UINT8, GCOLL_USER, &options);
            if (status == GCOLL_ERR_UNSUPPORTED && text != "auto")
                continue;
            EXPECT_EQ(status, GCOLL_OK) << text << ": " << told(status);
            EXPECT_TRUE(out == want) << text << ", count " << count << ", form " << form;
            ++*served;
        }
    }
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.user_op = &op;
    for (const Form form : {kBlocking, kStarted, kPersistent}) {
        const uint64_t count = 5;
        std::vector<E> in(count * size), out(count);
        for (uint64_t i = 0; i < in.size(); i++)
            in[i] = element<kBytes>(rank, i);
        EXPECT_GCOLL_OK(CALL(form, reduce_scatter, context, in.data(), out.data(), count, GCOLL_UINT8,
                             GCOLL_USER, &options));
        for (uint64_t i = 0; i < count; i++)
            EXPECT_TRUE(out[i] == composed_of_ranks<kBytes>(size, rank * count + i)) << i;
    }
}

TEST_P(UserOp, TakesElementsOfItsOwnSize) {
    auto [size, transport] = GetParam();
    std::atomic<uint32_t> served{0};
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        own_elements<1>(rank, context, &served);
        own_elements<9>(rank, context, &served);
        own_elements<16>(rank, context, &served);
        own_elements<36>(rank, context, &served);
        own_elements<2738>(rank, context, &served);
    });
    EXPECT_GE(served.load(), 5 * 3 * size);
}

TEST(UserOps, ElementsAreChecked) {
    run_threads(
        1, "inproc",
        [](uint32_t, gcoll_context *context) {
            alignas(16) uint8_t data[64] = {};
            gcoll_user_op op = {compose_elements<16>, nullptr, 0, GCOLL_MAX_ELEMENT_BYTES + 1};
            gcoll_allreduce_options options = by(nullptr);
            options.user_op = &op;
            const auto refused = [&](void *at, uint64_t count, gcoll_type type, const char *text) {
                EXPECT_EQ(gcoll_allreduce(context, nullptr, at, count, type, GCOLL_USER, &options),
                          GCOLL_ERR_INVALID);
                EXPECT_NE(std::string(gcoll_last_error()).find(text), std::string::npos)
                    << gcoll_last_error();
            };
            refused(data, 1, GCOLL_UINT8, "options.user_op->element_bytes: is 65536; allowed are 0 to 65535");
            op.element_bytes = 16;
            refused(data, 1, GCOLL_FLOAT32, "type: is float32, but options.user_op->element_bytes is 16");
            refused(data + 8, 1, GCOLL_UINT8, "is not aligned to its element, 16 bytes");
            refused(data, UINT64_MAX / 8, GCOLL_UINT8, "16-byte elements exceed the address space");
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, data, 4, GCOLL_UINT8, GCOLL_USER, &options));
            op.element_bytes = 24;
            EXPECT_GCOLL_OK(
                gcoll_allreduce(context, nullptr, data + 8, 2, GCOLL_UINT8, GCOLL_USER, &options));
            op.element_bytes = 0;
            op.reduce = compose_all;
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, data, 2, GCOLL_UINT64, GCOLL_USER, &options));
            // Other operations take no notice of it.
            op.element_bytes = 24;
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, data, 2, GCOLL_UINT64, GCOLL_SUM, &options));
        });
}

INSTANTIATE_TEST_SUITE_P(Some, UserOp, testing::Combine(testing::Values(1u, 2u, 3u, 5u, 8u), transports()),
                         place_name);

// ---- Bits that all ranks share ----------------------------------------------------------------------------

TEST(RankIdentical, HoldsOrIsRefused) {
    constexpr uint32_t kRanks = 7;
    constexpr uint64_t kCount = 200;
    std::vector<std::string> texts = allreduce_texts(kRanks);
    std::vector<std::vector<std::vector<float>>> results(texts.size(),
                                                         std::vector<std::vector<float>>(kRanks));
    gcoll_test::Job job;
    job.size = kRanks;
    job.same = GCOLL_SAME_ON_RANKS;
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        for (size_t t = 0; t < texts.size(); t++) {
            gcoll_allreduce_options options = by(texts[t].c_str());
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
    // At least one algorithm is refused, so the promise is not empty.
    size_t refused = 0;
    for (const auto &result : results)
        refused += result[0].empty();
    EXPECT_GT(refused, 0u);
}

} // namespace
