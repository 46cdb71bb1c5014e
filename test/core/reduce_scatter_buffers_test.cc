// test/core/reduce_scatter_buffers_test.cc - tests of reduce_scatter with several buffers for each rank, by
// the public headers, in all three forms, against plain loops.
#include "test/kit/collective_support.h"

#include <numeric>

namespace {

using namespace collective_support;
using namespace gcoll_test;

enum Form { kBlocking, kStarted, kPersistent, kForms };
enum Outputs { kNone, kInside, kApart, kOutputs }; // outputs NULL, in the inputs, of their own

struct Call {
    gcoll_op op = GCOLL_SUM;
    std::vector<uint64_t> counts;  // of each rank's block
    std::vector<uint32_t> buffers; // of each rank
    std::string algorithm = "auto";
    Form form = kBlocking;
    Outputs outputs = kApart;

    uint64_t total() const { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }
    uint64_t begin(uint32_t rank) const {
        return std::accumulate(counts.begin(), counts.begin() + rank, uint64_t{0});
    }
    uint32_t first(uint32_t rank) const { // its first buffer's number among all
        return std::accumulate(buffers.begin(), buffers.begin() + rank, 0u);
    }
    bool is_even() const { return std::equal(counts.begin() + 1, counts.end(), counts.begin()); }
    std::string describe(uint32_t rank) const {
        std::string text = algorithm + ", " + gcoll_op_name(op) + ", form " + std::to_string(form) +
                           ", outputs " + std::to_string(outputs) + ", rank " + std::to_string(rank) +
                           ", counts";
        for (uint64_t count : counts)
            text += " " + std::to_string(count);
        text += ", buffers";
        for (uint32_t n : buffers)
            text += " " + std::to_string(n);
        return text;
    }
};

int64_t element(uint32_t contribution, uint64_t i) {
    return static_cast<int64_t>(mix(contribution * 7919 + i) % 13);
}

// The result over all buffers of all ranks.
int64_t reduced(const Call &call, uint64_t i) {
    const uint32_t all = call.first(static_cast<uint32_t>(call.buffers.size()));
    int64_t result = element(0, i);
    for (uint32_t c = 1; c < all; c++)
        result = call.op == GCOLL_MAX ? std::max(result, element(c, i)) : result + element(c, i);
    return call.op == GCOLL_AVG ? result / all : result;
}

gcoll_status run(const Call &call, gcoll_context *context, gcoll_type type,
                 const gcoll_collective_options *options) {
    const uint64_t *counts = call.counts.data(), count = call.counts[0];
    const bool even = call.is_even();
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    gcoll_status status;
    if (call.form == kBlocking)
        return even ? gcoll_reduce_scatter(context, nullptr, nullptr, count, type, call.op, options)
                    : gcoll_reduce_scatter_v(context, nullptr, nullptr, counts, type, call.op, options);
    if (call.form == kStarted) {
        status = even ? gcoll_reduce_scatter_start(context, nullptr, nullptr, count, type, call.op, options,
                                                   &request)
                      : gcoll_reduce_scatter_v_start(context, nullptr, nullptr, counts, type, call.op,
                                                     options, &request);
        return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
    }
    status = even ? gcoll_reduce_scatter_create(context, nullptr, nullptr, count, type, call.op, options,
                                                &operation)
                  : gcoll_reduce_scatter_v_create(context, nullptr, nullptr, counts, type, call.op, options,
                                                  &operation);
    // In place, a second run would read the results of the first.
    for (int i = 0; i < (call.outputs == kApart ? 2 : 1) && status == GCOLL_OK; i++)
        status = gcoll_operation_run(operation);
    gcoll_operation_destroy(operation);
    return status;
}

// Checks a call. Returns false if the algorithm does not serve this shape.
template <class T> bool check(const Call &call, uint32_t rank, gcoll_context *context, gcoll_type type) {
    constexpr uint64_t kGuard = 3;
    const T guard = static_cast<T>(91);
    const uint64_t total = call.total(), at = call.begin(rank), own = call.counts[rank];
    std::vector<T> want(own + 2 * kGuard, guard);
    for (uint64_t i = 0; i < own; i++)
        want[kGuard + i] = static_cast<T>(reduced(call, at + i));
    std::vector<std::vector<T>> in, out;
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    for (uint32_t k = 0; k < call.buffers[rank]; k++) {
        in.emplace_back(total + 1); // never at NULL
        out.emplace_back(own + 2 * kGuard, guard);
        for (uint64_t i = 0; i < total; i++)
            in[k][i] = static_cast<T>(element(call.first(rank) + k, i));
    }
    const std::vector<std::vector<T>> before = in;
    for (uint32_t k = 0; k < in.size(); k++) {
        inputs.push_back(in[k].data());
        outputs.push_back(call.outputs == kInside ? in[k].data() + at : out[k].data() + kGuard);
    }
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.algorithm = call.algorithm.c_str();
    options.inputs = inputs.data();
    options.outputs = call.outputs == kNone ? nullptr : outputs.data();
    options.buffers = call.buffers[rank];
    const gcoll_status status = run(call, context, type, &options);
    if (status == GCOLL_ERR_UNSUPPORTED && call.algorithm != "auto")
        return false;
    EXPECT_EQ(status, GCOLL_OK) << call.describe(rank) << ": " << told(status);
    for (uint32_t k = 0; k < in.size() && status == GCOLL_OK; k++) {
        std::vector<T> input = before[k];
        if (call.outputs == kApart)
            EXPECT_TRUE(out[k] == want) << call.describe(rank) << ", output " << k;
        else // the rest of the input stays
            std::copy_n(want.begin() + kGuard, own, input.begin() + static_cast<std::ptrdiff_t>(at));
        EXPECT_TRUE(in[k] == input) << call.describe(rank) << ", input " << k;
    }
    return true;
}

class ReduceScatterBuffers : public testing::TestWithParam<Place> {};

// Counts of blocks: all the same, different, some empty, or all empty.
std::vector<uint64_t> counts_of(uint32_t way, uint32_t size) {
    std::vector<uint64_t> counts;
    for (uint32_t rank = 0; rank < size; rank++)
        counts.push_back(way == 0   ? 5
                         : way == 1 ? 3 + rank * 2
                         : way == 2 ? (rank % 3 == 1 ? 0 : 7 * rank + 1)
                                    : 0);
    return counts;
}

TEST_P(ReduceScatterBuffers, EveryAlgorithmReducesAllOfThem) {
    auto [ranks, transport] = GetParam();
    const uint32_t size = ranks;
    std::vector<std::string> texts = {"auto"};
    for (const std::string &name : algorithms("reduce_scatter")) {
        texts.push_back(name);
        texts.push_back(name + ":segment=12");
    }
    std::atomic<uint32_t> served{0};
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        uint32_t number = 0;
        for (const std::string &text : texts)
            for (uint32_t way = 0; way < 4; way++)
                for (uint32_t buffers = 1; buffers <= 5; buffers++, number++) {
                    Call call;
                    call.algorithm = text;
                    call.counts = counts_of(way, size);
                    call.form = static_cast<Form>(number % kForms);
                    call.outputs = static_cast<Outputs>(number / kForms % kOutputs);
                    const gcoll_op ops[] = {GCOLL_SUM, GCOLL_AVG, GCOLL_MAX};
                    call.op = ops[number / 5 % 3];
                    for (uint32_t r = 0; r < size; r++) // an average counts them all alike
                        call.buffers.push_back(call.op == GCOLL_AVG ? buffers : (buffers + r) % 5 + 1);
                    served += check<int32_t>(call, rank, context, GCOLL_INT32);
                    if (call.op != GCOLL_AVG) // then these are exact, too
                        served += check<float>(call, rank, context, GCOLL_FLOAT32);
                }
    });
    EXPECT_GE(served.load(), 2 * 4 * 5 * size) << "auto and one other, at least";
}

// Each rank may choose by itself where its results go.
TEST_P(ReduceScatterBuffers, RanksMayDiffer) {
    auto [ranks, transport] = GetParam();
    const uint32_t size = ranks;
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        for (uint32_t turn = 0; turn < 6; turn++) {
            Call call;
            call.counts = counts_of(turn % 3, size);
            for (uint32_t r = 0; r < size; r++)
                call.buffers.push_back((r + turn) % 3 + 1);
            call.form = (rank + turn) % 2 ? kStarted : kBlocking;
            call.outputs = static_cast<Outputs>((rank + turn) % kOutputs);
            EXPECT_TRUE(check<int32_t>(call, rank, context, GCOLL_INT32));
        }
    });
}

// x -> a x + b modulo a prime; composing them is associative and does not commute.
constexpr uint64_t kPrime = 4294967291u;

uint64_t compose(uint64_t first, uint64_t then) {
    const uint64_t a = first >> 32, b = first & UINT32_MAX, c = then >> 32, d = then & UINT32_MAX;
    return (a * c % kPrime) << 32 | (b * c % kPrime + d) % kPrime;
}

gcoll_status compose_all(void *dst, const void *a, const void *b, uint64_t count, gcoll_type, void *) {
    for (uint64_t i = 0; i < count; i++)
        static_cast<uint64_t *>(dst)[i] =
            compose(static_cast<const uint64_t *>(a)[i], static_cast<const uint64_t *>(b)[i]);
    return GCOLL_OK;
}

uint64_t affine(uint32_t contribution, uint64_t i) {
    return (mix(contribution * 17 + i) % (kPrime - 1) + 1) << 32 | mix(contribution + i * 71) % kPrime;
}

TEST_P(ReduceScatterBuffers, OrderHoldsOrIsRefused) {
    auto [ranks, transport] = GetParam();
    const uint32_t size = ranks;
    std::vector<std::string> texts = algorithms("reduce_scatter");
    texts.insert(texts.begin(), "auto");
    run_threads(size, transport, [&](uint32_t rank, gcoll_context *context) {
        gcoll_user_op op = {compose_all, nullptr, 0, 0};
        for (const std::string &text : texts) {
            constexpr uint64_t kOwn = 4;
            std::vector<uint64_t> data[3], out(kOwn), others[2] = {out, out};
            const void *inputs[3];
            void *outputs[3] = {out.data(), others[0].data(), others[1].data()};
            for (uint32_t k = 0; k < 3; k++) {
                for (uint64_t i = 0; i < kOwn * size; i++)
                    data[k].push_back(affine(3 * rank + k, i));
                inputs[k] = data[k].data();
            }
            gcoll_collective_options options;
            gcoll_collective_options_init(&options);
            options.algorithm = text.c_str();
            options.user_op = &op;
            options.inputs = inputs;
            options.outputs = outputs;
            options.buffers = 3;
            const gcoll_status status =
                gcoll_reduce_scatter(context, nullptr, nullptr, kOwn, GCOLL_UINT64, GCOLL_USER, &options);
            if (status == GCOLL_ERR_UNSUPPORTED && text != "auto")
                continue;
            EXPECT_EQ(status, GCOLL_OK) << text << ": " << told(status);
            for (uint64_t i = 0; i < kOwn; i++) {
                uint64_t want = affine(0, rank * kOwn + i);
                for (uint32_t c = 1; c < 3 * size; c++)
                    want = compose(want, affine(c, rank * kOwn + i));
                EXPECT_EQ(out[i], want) << text << ", at " << i;
            }
            EXPECT_EQ(others[0], out);
            EXPECT_EQ(others[1], out);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(All, ReduceScatterBuffers,
                         testing::Combine(testing::Range(1u, 10u), testing::Values("inproc")), place_name);
INSTANTIATE_TEST_SUITE_P(Some, ReduceScatterBuffers,
                         testing::Combine(testing::Values(2u, 3u, 5u), testing::Values("tcp")), place_name);

// The divisor of an average is the number of all buffers. Ranks with different numbers would divide by
// different divisors.
TEST(ReduceScatterBuffersAlone, AveragesOverDifferentNumbersAreTold) {
    for (bool even : {true, false})
        run_threads(
            2, "tcp",
            [&](uint32_t rank, gcoll_context *context) {
                std::vector<float> data[3];
                const void *inputs[3];
                for (uint32_t k = 0; k < 3; k++) {
                    data[k].assign(8, 1);
                    inputs[k] = data[k].data();
                }
                const uint64_t counts[2] = {5, 3};
                gcoll_collective_options options;
                gcoll_collective_options_init(&options);
                options.inputs = inputs;
                options.buffers = 2 + rank;
                const gcoll_status status = even ? gcoll_reduce_scatter(context, nullptr, nullptr, 4,
                                                                        GCOLL_FLOAT32, GCOLL_AVG, &options)
                                                 : gcoll_reduce_scatter_v(context, nullptr, nullptr, counts,
                                                                          GCOLL_FLOAT32, GCOLL_AVG, &options);
                EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
                const std::string text = gcoll_last_error();
                if (even)
                    EXPECT_TRUE(text.find("(an average: rank 1 of 3 buffers, rank 0 of 2)") != text.npos ||
                                text.find("(an average: rank 0 of 2 buffers, rank 1 of 3)") != text.npos)
                        << text;
                else
                    EXPECT_NE(text.find("(counts of single ranks, or numbers of buffers, differ)"), text.npos)
                        << text;
            });
}

} // namespace
