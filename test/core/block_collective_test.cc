// test/core/block_collective_test.cc - tests of the collectives that move or reduce blocks, by the public
// headers, in all three forms, against plain loops.
#include "test/kit/collective_support.h"
#include "test/kit/sanitizer.h"

#include <cstring>
#include <numeric>

namespace {

using namespace collective_support;
using gcoll_test::algorithms;
using gcoll_test::run_threads;
using gcoll_test::told;
using gcoll_test::transports;

// ---- What is to be done, and what must come of it -------------------------------------------------------

struct Shape {
    gcoll_collective what = GCOLL_REDUCE;
    uint32_t size = 1, root = 0, exchanges = 0;
    std::vector<uint64_t> counts; // of each rank's block, where there are blocks; else the vector's in [0]
    bool uneven = false;          // by the form with counts
    gcoll_op op = GCOLL_SUM;

    uint64_t total() const { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }
    uint64_t begin(uint32_t rank) const {
        return std::accumulate(counts.begin(), counts.begin() + rank, uint64_t{0});
    }
    // Number of elements that an alltoall moves from one rank to another.
    uint64_t between(uint32_t from, uint32_t to) const {
        return uneven ? (from * 3 + to * 5) % 7 : counts[0];
    }
};

template <class T> T value(uint32_t rank, uint64_t i) {
    return static_cast<T>(mix(rank * 7919 + i) % 13);
}

template <class T> std::vector<T> values(uint32_t rank, uint64_t first, uint64_t count) {
    std::vector<T> all(count);
    for (uint64_t i = 0; i < count; i++)
        all[i] = value<T>(rank, first + i);
    return all;
}

template <class T> T reduced(const Shape &s, uint64_t i) {
    T result = value<T>(0, i);
    for (uint32_t rank = 1; rank < s.size; rank++) {
        T next = value<T>(rank, i);
        result = s.op == GCOLL_MAX ? std::max(result, next) : static_cast<T>(result + next);
    }
    return s.op == GCOLL_AVG ? static_cast<T>(result / static_cast<T>(s.size)) : result;
}

bool moves_parts(gcoll_collective what) {
    return what == GCOLL_ALLGATHER || what == GCOLL_GATHER;
}

template <class T> std::vector<T> input_of(const Shape &s, uint32_t rank) {
    if (moves_parts(s.what))
        return values<T>(rank, 0, s.counts[rank]);
    if (s.what == GCOLL_SCATTER)
        return values<T>(rank, 0, rank == s.root ? s.total() : 0);
    if (s.what == GCOLL_ALLTOALL) {
        uint64_t count = 0;
        for (uint32_t to = 0; to < s.size; to++)
            count += s.between(rank, to);
        return values<T>(rank, 0, count);
    }
    return values<T>(rank, 0, s.total());
}

template <class T> std::vector<T> gathered(const Shape &s) {
    std::vector<T> all;
    for (uint32_t rank = 0; rank < s.size; rank++) {
        std::vector<T> block = values<T>(rank, 0, s.counts[rank]);
        all.insert(all.end(), block.begin(), block.end());
    }
    return all;
}

template <class T> std::vector<T> exchanged(const Shape &s, uint32_t rank) {
    uint32_t chunks = s.exchanges ? s.exchanges : ceil_log2(s.size);
    std::vector<T> out = values<T>(rank, 0, s.total());
    for (uint32_t c = 0; c < chunks; c++) {
        uint64_t peer = rank ^ (uint64_t{1} << c);
        for (uint64_t i = s.total() * c / chunks; peer < s.size && i < s.total() * (c + 1) / chunks; i++)
            out[i] = value<T>(static_cast<uint32_t>(peer), i);
    }
    return out;
}

template <class T> std::vector<T> output_of(const Shape &s, uint32_t rank) {
    std::vector<T> out;
    switch (s.what) {
    case GCOLL_REDUCE:
        for (uint64_t i = 0; rank == s.root && i < s.total(); i++)
            out.push_back(reduced<T>(s, i));
        return out;
    case GCOLL_REDUCE_SCATTER:
        for (uint64_t i = 0; i < s.counts[rank]; i++)
            out.push_back(reduced<T>(s, s.begin(rank) + i));
        return out;
    case GCOLL_ALLGATHER:
        return gathered<T>(s);
    case GCOLL_GATHER:
        return rank == s.root ? gathered<T>(s) : out;
    case GCOLL_SCATTER:
        return values<T>(s.root, s.begin(rank), s.counts[rank]);
    case GCOLL_ALLTOALL:
        for (uint32_t from = 0; from < s.size; from++) {
            uint64_t first = 0;
            for (uint32_t to = 0; to < rank; to++)
                first += s.between(from, to);
            std::vector<T> block = values<T>(from, first, s.between(from, rank));
            out.insert(out.end(), block.begin(), block.end());
        }
        return out;
    default:
        return exchanged<T>(s, rank);
    }
}

// ---- One call -------------------------------------------------------------------------------------------

template <class T>
gcoll_status call(const Shape &s, uint32_t rank, gcoll_context *c, const T *in, T *out, gcoll_type type,
                  Form form, const gcoll_collective_options *o) {
    const uint64_t n = s.counts[0], *counts = s.counts.data();
    std::vector<uint64_t> sent, received;
    for (uint32_t peer = 0; peer < s.size; peer++) {
        sent.push_back(s.between(rank, peer));
        received.push_back(s.between(peer, rank));
    }
    switch (s.what) {
    case GCOLL_REDUCE:
        return CALL(form, reduce, c, in, out, n, type, s.op, s.root, o);
    case GCOLL_REDUCE_SCATTER:
        return s.uneven ? CALL(form, reduce_scatter_v, c, in, out, counts, type, s.op, o)
                        : CALL(form, reduce_scatter, c, in, out, n, type, s.op, o);
    case GCOLL_ALLGATHER:
        return s.uneven ? CALL(form, allgather_v, c, in, out, counts, type, o)
                        : CALL(form, allgather, c, in, out, n, type, o);
    case GCOLL_GATHER:
        return s.uneven ? CALL(form, gather_v, c, in, out, counts, type, s.root, o)
                        : CALL(form, gather, c, in, out, n, type, s.root, o);
    case GCOLL_SCATTER:
        return s.uneven ? CALL(form, scatter_v, c, in, out, counts, type, s.root, o)
                        : CALL(form, scatter, c, in, out, n, type, s.root, o);
    case GCOLL_ALLTOALL:
        return s.uneven ? CALL(form, alltoall_v, c, in, out, sent.data(), received.data(), type, o)
                        : CALL(form, alltoall, c, in, out, n, type, o);
    default:
        return CALL(form, pairwise_exchange, c, in, out, n, type, s.exchanges, o);
    }
}

gcoll_collective_options with(const std::string &algorithm) {
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.algorithm = algorithm.c_str();
    return options;
}

std::string describe(const Shape &s, const std::string &text, uint32_t rank) {
    return std::string(gcoll_collective_name(s.what)) + (s.uneven ? "_v of " : " of ") +
           std::to_string(s.total()) + " by " + text + ", root " + std::to_string(s.root) + ", rank " +
           std::to_string(rank) + " of " + std::to_string(s.size);
}

// Checks a call out of place, with guards around the output. Returns false if the algorithm does not serve
// this shape.
template <class T>
bool check_apart(const Shape &s, uint32_t rank, gcoll_context *context, const std::string &text, Form form,
                 gcoll_type type) {
    constexpr uint64_t kGuard = 3;
    const T guard = static_cast<T>(91);
    std::vector<T> in = input_of<T>(s, rank), before = in, want = output_of<T>(s, rank);
    std::vector<T> out(want.size() + 2 * kGuard, guard);
    want.insert(want.begin(), kGuard, guard);
    want.insert(want.end(), kGuard, guard);
    gcoll_collective_options options = with(text);
    gcoll_status status = call<T>(s, rank, context, in.data(), out.data() + kGuard, type, form, &options);
    if (status == GCOLL_ERR_UNSUPPORTED && text != "auto")
        return false;
    EXPECT_EQ(status, GCOLL_OK) << describe(s, text, rank) << ": " << told(status);
    EXPECT_TRUE(out == want) << describe(s, text, rank);
    EXPECT_TRUE(in == before) << describe(s, text, rank) << ": the input changed";
    return true;
}

bool has_root(gcoll_collective what) {
    return what == GCOLL_REDUCE || what == GCOLL_GATHER || what == GCOLL_SCATTER;
}

// Checks a call in place: the smaller of input and output is a part of the larger one, whose other elements
// hold `rest`.
void check_in_place(const Shape &s, uint32_t rank, gcoll_context *context, const std::string &text) {
    using T = int32_t;
    const bool here = !has_root(s.what) || rank == s.root;
    std::vector<T> in = input_of<T>(s, rank), want = output_of<T>(s, rank);
    const uint64_t at = s.what == GCOLL_REDUCE ? 0 : s.begin(rank);
    const bool in_is_larger = in.size() >= want.size();
    std::vector<T> larger = in_is_larger ? in : std::vector<T>(want.size(), -5), all = larger;
    gcoll_collective_options options = with(text);
    gcoll_status status;
    if (!here) {
        std::vector<T> out(want.size());
        status = call<T>(s, rank, context, in.empty() ? nullptr : in.data(),
                         out.empty() ? nullptr : out.data(), GCOLL_INT32, kBlocking, &options);
        EXPECT_TRUE(status == GCOLL_ERR_UNSUPPORTED || out == want) << describe(s, text, rank);
    } else if (in_is_larger) {
        status =
            call<T>(s, rank, context, larger.data(), larger.data() + at, GCOLL_INT32, kBlocking, &options);
        std::copy(want.begin(), want.end(), all.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
        std::copy(in.begin(), in.end(), larger.begin() + static_cast<std::ptrdiff_t>(at));
        status =
            call<T>(s, rank, context, larger.data() + at, larger.data(), GCOLL_INT32, kBlocking, &options);
        all = want;
    }
    if (status == GCOLL_ERR_UNSUPPORTED && text != "auto")
        return;
    EXPECT_EQ(status, GCOLL_OK) << describe(s, text, rank) << ": " << told(status);
    EXPECT_TRUE(!here || larger == all) << describe(s, text, rank) << ", in place";
}

// ---- Every collective, algorithm and form ---------------------------------------------------------------

std::vector<Shape> shapes(gcoll_collective what, uint32_t size) {
    std::vector<Shape> all;
    const bool vector = what == GCOLL_REDUCE || what == GCOLL_PAIRWISE_EXCHANGE;
    for (uint64_t count : {0u, 1u, 3u, 100u}) {
        Shape s;
        s.what = what;
        s.size = size;
        s.counts.assign(vector ? 1 : size, count);
        s.root = count % size;
        all.push_back(s);
        if (vector)
            continue;
        for (uint32_t rank = 0; rank < size; rank++)
            s.counts[rank] = (rank * 5 + count) % 7 * (count > 3 ? 40 : 1); // some are 0
        s.uneven = true;
        s.root = size - 1;
        all.push_back(s);
    }
    if (what == GCOLL_PAIRWISE_EXCHANGE)
        for (uint32_t exchanges : {1u, 2u, 5u}) {
            all.push_back(all[3]);
            all.back().exchanges = exchanges;
        }
    return all;
}

std::vector<std::string> texts_of(gcoll_collective what) {
    std::vector<std::string> texts = {"auto"};
    for (const std::string &name : algorithms(gcoll_collective_name(what))) {
        texts.push_back(name);
        texts.push_back(name + ":segment=20");
    }
    return texts;
}

const std::vector<gcoll_collective> kAll = {GCOLL_REDUCE,           GCOLL_REDUCE_SCATTER, GCOLL_ALLGATHER,
                                            GCOLL_GATHER,           GCOLL_SCATTER,        GCOLL_ALLTOALL,
                                            GCOLL_PAIRWISE_EXCHANGE};

class Blocks : public testing::TestWithParam<Place> {};

TEST_P(Blocks, EveryAlgorithmInEveryForm) {
    auto [ranks, transport] = GetParam();
    const uint32_t size = ranks;
    std::atomic<uint32_t> served{0};
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        for (gcoll_collective what : kAll)
            for (const Shape &s : shapes(what, size)) {
                int turn = 0;
                for (const std::string &text : texts_of(what)) {
                    Form form = static_cast<Form>(turn++ % 3);
                    served += check_apart<int32_t>(s, rank, context, text, form, GCOLL_INT32);
                }
                for (Form form : {kBlocking, kStarted, kPersistent})
                    check_apart<int32_t>(s, rank, context, "auto", form, GCOLL_INT32);
            }
    });
    EXPECT_GE(served.load(), 4 * kAll.size() * size);
}

TEST_P(Blocks, InPlace) {
    auto [ranks, transport] = GetParam();
    const uint32_t size = ranks;
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        for (gcoll_collective what :
             {GCOLL_REDUCE, GCOLL_REDUCE_SCATTER, GCOLL_ALLGATHER, GCOLL_GATHER, GCOLL_SCATTER})
            for (const Shape &s : shapes(what, size))
                for (const std::string &text : texts_of(what))
                    check_in_place(s, rank, context, text);
        // The root of a reduction may also ask for in place by a NULL input.
        std::vector<int32_t> data = values<int32_t>(rank, 0, 50);
        EXPECT_GCOLL_OK(gcoll_reduce(context, rank == 0 ? nullptr : data.data(),
                                     rank == 0 ? data.data() : nullptr, 50, GCOLL_INT32, GCOLL_SUM, 0,
                                     nullptr));
        Shape s;
        s.size = size;
        for (uint64_t i = 0; rank == 0 && i < 50; i++)
            EXPECT_EQ(data[i], reduced<int32_t>(s, i));
    });
}

template <class T> void every_type(uint32_t rank, gcoll_context *context, gcoll_type type) {
    for (gcoll_collective what : kAll)
        for (Shape s : shapes(what, gcoll_context_size(context)))
            for (gcoll_op op : {GCOLL_SUM, GCOLL_MAX, GCOLL_AVG}) {
                s.op = op;
                if (op == GCOLL_SUM || what == GCOLL_REDUCE || what == GCOLL_REDUCE_SCATTER)
                    check_apart<T>(s, rank, context, "auto", kBlocking, type);
            }
}

TEST_P(Blocks, TypesAndOperations) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        every_type<uint8_t>(rank, context, GCOLL_UINT8);
        every_type<int64_t>(rank, context, GCOLL_INT64);
        every_type<float>(rank, context, GCOLL_FLOAT32);
        every_type<double>(rank, context, GCOLL_FLOAT64);
    });
}

// Two calls that differ only in which rank has which block must not share a plan.
TEST_P(Blocks, TurnsOfTheSameCounts) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        const uint32_t ranks = gcoll_context_size(context);
        for (gcoll_collective what : {GCOLL_REDUCE_SCATTER, GCOLL_ALLGATHER, GCOLL_GATHER, GCOLL_SCATTER})
            for (int repeat = 0; repeat < 2; repeat++)
                for (uint32_t turn = 0; turn < ranks; turn++) {
                    Shape s;
                    s.what = what;
                    s.size = ranks;
                    s.uneven = true;
                    for (uint32_t r = 0; r < ranks; r++)
                        s.counts.push_back((r + turn) % ranks * 3 + 1);
                    check_apart<int32_t>(s, rank, context, "auto", kBlocking, GCOLL_INT32);
                }
    });
}

// Larger than eager messages. With sanitizers no larger than necessary.
const uint64_t kLargeBlock = gcoll_test::is_sanitized() ? 40001 : 150001;

TEST_P(Blocks, LargeOnes) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        for (gcoll_collective what : kAll) {
            Shape s;
            s.what = what;
            s.size = gcoll_context_size(context);
            s.root = s.size / 2;
            s.counts.assign(what == GCOLL_REDUCE || what == GCOLL_PAIRWISE_EXCHANGE ? 1 : s.size,
                            kLargeBlock);
            check_apart<int64_t>(s, rank, context, "auto", kBlocking, GCOLL_INT64);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Blocks, testing::Combine(testing::Values(1u, 2u, 3u, 5u, 8u), transports()),
                         place_name);

} // namespace
