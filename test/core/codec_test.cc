// options.codec of the collectives: results are within the bound of docs/codecs.md, have the same bits on
// every rank, and are those of a plain oracle; wrong uses are refused by name. Ranks are threads.
#include "test/kit/calls.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tuple>

namespace {

using namespace gcoll_test;

using Floats = std::vector<float>;

// eps and delta of one rounding, and the length of a block (docs/codecs.md).
struct Bound {
    double relative, absolute;
    uint64_t block;
};

Bound bound_of(const std::string &codec) {
    const double twice = codec.find("seed") != std::string::npos ? 2 : 1;
    if (codec.find("bf16") == 0)
        return {twice * 0x1p-8, twice * 0x1p-134, 1};
    if (codec.find("fp16") == 0)
        return {twice * 0x1p-11, twice * 0x1p-25, 1};
    const uint64_t block = std::stoull(codec.substr(codec.find('=') + 1));
    return {codec.find("int8") == 0 ? twice / 127 : twice / 16, twice * 0x1p-127, block};
}

float value(uint32_t rank, uint32_t buffer, uint64_t i) {
    const uint64_t x = (rank * 977 + buffer * 131 + i * 7919) % 100003;
    const float scale = i % 97 == 5 ? 30.0f : 1.0f; // some stand out of their block
    return scale * (static_cast<float>(x) / 50001.5f - 1.0f);
}

Floats vector_of(uint32_t rank, uint32_t buffer, uint64_t count) {
    Floats x(count);
    for (uint64_t i = 0; i < count; i++)
        x[i] = value(rank, buffer, i);
    return x;
}

// The largest magnitude of the elements that may share a block with element i: blocks begin at a multiple of
// the block's length (`cut`), or anywhere.
double largest_near(const Floats &x, uint64_t i, const Bound &bound, bool cut) {
    const uint64_t begin = cut ? i / bound.block * bound.block : i < bound.block ? 0 : i - bound.block + 1;
    const uint64_t end = std::min<uint64_t>(x.size(), (cut ? begin : i) + bound.block);
    double most = 0;
    for (uint64_t k = begin; k < end; k++)
        most = std::max(most, std::fabs(static_cast<double>(x[k])));
    return most;
}

// Checks elements [first, first + count) of a sum of vectors. roundings: R, how often an input may be
// rounded.
void check_sums(const std::vector<Floats> &inputs, uint64_t first, uint64_t count, double divisor,
                const float *got, const Bound &bound, double roundings, bool cut) {
    const double factor = std::pow(1 + bound.relative + 0x1p-24, roundings) - 1;
    double magnitude = 0;
    for (uint64_t at = first; at < first + count; at++) {
        double exact = 0;
        for (const Floats &x : inputs)
            exact += static_cast<double>(x[at]);
        if (at == first || !cut || at % bound.block == 0) { // else it is that of the element before
            magnitude = 0;
            for (const Floats &x : inputs)
                magnitude += largest_near(x, at, bound, cut);
        }
        const double rounding = 0x1p-23 * static_cast<double>(inputs.size()) * magnitude; // of float32 sums
        const double allowed = factor * magnitude + 2 * roundings * bound.absolute + rounding;
        const double off = std::fabs(static_cast<double>(got[at - first]) * divisor - exact);
        if (!(off <= allowed))
            ASSERT_LE(off, allowed) << "element " << at;
    }
}

// What ranks got, compared after the job.
struct Results {
    explicit Results(uint32_t size) : of(size) {}
    std::vector<Floats> of;
    void expect_same() const {
        for (size_t r = 1; r < of.size(); r++) {
            ASSERT_EQ(of[0].size(), of[r].size());
            if (of[0].empty() || memcmp(of[0].data(), of[r].data(), of[0].size() * sizeof(float)) == 0)
                continue;
            for (size_t i = 0; i < of[0].size(); i++)
                ASSERT_EQ(0, memcmp(&of[0][i], &of[r][i], sizeof(float)))
                    << "element " << i << " of rank " << r << ": " << of[r][i] << ", rank 0 has " << of[0][i];
        }
    }
};

const char *const kCodecs[] = {
    "bf16", "fp16", "int8:block=128", "int8:block=8", "fp8:block=32", "fp8:block=32,seed=9", "bf16:seed=1"};
const uint64_t kCounts[] = {0, 1, 7, 100, 1000, 5003};

class CodecCalls : public ::testing::TestWithParam<std::tuple<const char *, uint32_t>> {
  protected:
    Job job() const { return job_on(std::get<0>(GetParam()), std::get<1>(GetParam())); }
    uint32_t size() const { return std::get<1>(GetParam()); }
};

gcoll_allreduce_options allreduce_options(const char *codec, const char *algorithm = nullptr) {
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.codec = codec;
    options.algorithm = algorithm;
    return options;
}

void allreduce(const Job &job, const std::string &codec, const std::string &algorithm, uint64_t count,
               gcoll_op op, bool in_place) {
    SCOPED_TRACE(codec + ", " + algorithm + ", " + std::to_string(count) + " elements");
    Results results(job.size);
    std::vector<Floats> inputs;
    for (uint32_t r = 0; r < job.size; r++)
        inputs.push_back(vector_of(r, 0, count));
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        const gcoll_allreduce_options options = allreduce_options(codec.c_str(), algorithm.c_str());
        Floats in = inputs[rank], out(count, -1.0f);
        EXPECT_GCOLL_OK(gcoll_allreduce(context, in_place ? nullptr : in.data(),
                                        in_place ? in.data() : out.data(), count, GCOLL_FLOAT32, op,
                                        &options));
        if (!in_place)
            EXPECT_EQ(inputs[rank], in);
        results.of[rank] = in_place ? in : out;
    });
    results.expect_same();
    const double divisor = op == GCOLL_AVG ? job.size : 1;
    check_sums(inputs, 0, count, divisor, results.of[0].data(), bound_of(codec), job.size > 1 ? job.size : 0,
               true);
}

TEST_P(CodecCalls, AllreduceIsWithinTheBound) {
    for (const char *codec : kCodecs)
        for (uint64_t count : kCounts) {
            allreduce(job(), codec, "auto", count, GCOLL_SUM, count % 2 == 1);
            allreduce(job(), codec, "ring", count, GCOLL_AVG, count % 2 == 0);
        }
}

TEST_P(CodecCalls, EveryAlgorithmThatTakesCodecs) {
    for (const char *algorithm :
         {"ring:segment=512", "sorted_linear_tree", "pre_reduced_ring", "rabenseifner", "halving_doubling",
          "ring_chunked", "segmented_ring", "linear", "nonoverlapping", "tree_pipelined", "star", "circle",
          "recursive"})
        for (const char *codec : {"int8:block=8", "bf16"})
            for (uint64_t count : {13, 1003})
                allreduce(job(), codec, algorithm, count, GCOLL_SUM, count == 13);
}

TEST_P(CodecCalls, SeveralBuffers) {
    const uint64_t count = 300;
    const char *const codec = "int8:block=16";
    Results results(size());
    std::vector<Floats> inputs;
    for (uint32_t r = 0; r < size(); r++)
        for (uint32_t k = 0; k < 2; k++)
            inputs.push_back(vector_of(r, k, count));
    run_threads(job(), [&](uint32_t rank, gcoll_context *context) {
        gcoll_allreduce_options options = allreduce_options(codec);
        Floats in[2] = {inputs[2 * rank], inputs[2 * rank + 1]}, out[2] = {Floats(count), Floats(count)};
        const void *from[] = {in[0].data(), in[1].data()};
        void *to[] = {out[0].data(), out[1].data()};
        options.buffers = 2;
        options.inputs = from;
        options.outputs = to;
        EXPECT_GCOLL_OK(
            gcoll_allreduce(context, nullptr, nullptr, count, GCOLL_FLOAT32, GCOLL_SUM, &options));
        EXPECT_EQ(out[0], out[1]);
        results.of[rank] = out[1];
    });
    results.expect_same();
    check_sums(inputs, 0, count, 1, results.of[0].data(), bound_of(codec), size(), true);
}

// Factors work on float32: before the first encoding, and after the last decoding.
TEST_P(CodecCalls, Factors) {
    const uint64_t count = 1003;
    for (const char *codec : kCodecs)
        for (gcoll_op op : {GCOLL_SUM, GCOLL_AVG}) {
            SCOPED_TRACE(codec);
            Results results(size());
            std::vector<Floats> scaled;
            for (uint32_t r = 0; r < size(); r++) {
                scaled.push_back(vector_of(r, 0, count));
                for (float &x : scaled.back())
                    x *= static_cast<float>(r + 2);
            }
            run_threads(job(), [&](uint32_t rank, gcoll_context *context) {
                gcoll_allreduce_options options = allreduce_options(codec);
                options.prescale = rank + 2;
                options.postscale = 0.25; // exact
                const Floats in = vector_of(rank, 0, count);
                Floats out(count, -1.0f);
                EXPECT_GCOLL_OK(
                    gcoll_allreduce(context, in.data(), out.data(), count, GCOLL_FLOAT32, op, &options));
                EXPECT_EQ(in, vector_of(rank, 0, count));
                results.of[rank] = out;
            });
            results.expect_same();
            const double divisor = 4.0 * (op == GCOLL_AVG ? size() : 1);
            check_sums(scaled, 0, count, divisor, results.of[0].data(), bound_of(codec),
                       size() > 1 ? size() : 0, true);
        }
}

// All ranks refuse a call for its scratch, or none does, though encoded messages take more of it on some.
TEST_P(CodecCalls, LimitsOfMemory) {
    const uint64_t count = 1000;
    for (const char *algorithm : {"star", "linear", "ring", "tree_pipelined", "auto"})
        for (uint64_t limit : {4u, 2000u, 8000u, 64000u}) {
            SCOPED_TRACE(std::string(algorithm) + ", " + std::to_string(limit) + " bytes");
            std::vector<gcoll_status> statuses(size());
            run_threads(job(), [&](uint32_t rank, gcoll_context *context) {
                gcoll_allreduce_options options = allreduce_options("bf16", algorithm);
                options.memory_limit_bytes = limit;
                Floats x(count, 1.0f);
                statuses[rank] =
                    gcoll_allreduce(context, nullptr, x.data(), count, GCOLL_FLOAT32, GCOLL_SUM, &options);
                EXPECT_TRUE(statuses[rank] == GCOLL_OK || statuses[rank] == GCOLL_ERR_UNSUPPORTED)
                    << gcoll_last_error();
                if (statuses[rank] == GCOLL_OK)
                    EXPECT_EQ(x, Floats(count, static_cast<float>(size())));
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            });
            EXPECT_EQ(statuses, std::vector<gcoll_status>(size(), statuses[0]));
        }
}

// Sums that are rounded on the way are those of no tree.
TEST_P(CodecCalls, NoTree) {
    run_threads(
        job(),
        [&](uint32_t, gcoll_context *context) {
            for (gcoll_order order : {GCOLL_ORDER_PAIRS, GCOLL_ORDER_LEFT}) {
                gcoll_allreduce_options options = allreduce_options("bf16");
                options.order = order;
                gcoll_collective_options general;
                gcoll_collective_options_init(&general);
                general.codec = options.codec;
                general.order = order;
                const std::string refusal = "options.codec: is 'bf16' with options.order " +
                                            std::string(order == GCOLL_ORDER_PAIRS ? "pairs" : "left") +
                                            "; allowed is one of the two";
                Floats x(10, 1.0f), blocks(10 * gcoll_context_size(context), 1.0f);
                const auto expect = [&](gcoll_status status) {
                    if (gcoll_context_size(context) == 1) { // nothing is sent
                        EXPECT_GCOLL_OK(status);
                        return;
                    }
                    EXPECT_EQ(status, GCOLL_ERR_UNSUPPORTED);
                    EXPECT_TRUE(says(refusal)) << gcoll_last_error();
                };
                for (const char *algorithm : {"auto", "linear"}) {
                    options.algorithm = algorithm;
                    expect(
                        gcoll_allreduce(context, nullptr, x.data(), 10, GCOLL_FLOAT32, GCOLL_SUM, &options));
                }
                expect(gcoll_reduce_scatter(context, blocks.data(), x.data(), 10, GCOLL_FLOAT32, GCOLL_SUM,
                                            &general));
                EXPECT_GCOLL_OK(
                    gcoll_allgather(context, x.data(), blocks.data(), 10, GCOLL_FLOAT32, &general));
            }
            gcoll_barrier(context, nullptr);
        });
}

// What the codec would round stays as it is.
TEST(CodecAlone, OneRankRoundsNothing) {
    run_threads(
        job_on("inproc", 1),
        [](uint32_t, gcoll_context *context) {
            const gcoll_allreduce_options options = allreduce_options("bf16");
            gcoll_broadcast_options broadcast;
            gcoll_broadcast_options_init(&broadcast);
            gcoll_collective_options general;
            gcoll_collective_options_init(&general);
            broadcast.codec = general.codec = options.codec;
            const Floats x(10, 1.0f + 0x1p-20f);
            Floats sum(10), scattered(10), gathered(10), copied = x;
            EXPECT_GCOLL_OK(
                gcoll_allreduce(context, x.data(), sum.data(), 10, GCOLL_FLOAT32, GCOLL_SUM, &options));
            EXPECT_GCOLL_OK(gcoll_reduce_scatter(context, x.data(), scattered.data(), 10, GCOLL_FLOAT32,
                                                 GCOLL_SUM, &general));
            EXPECT_GCOLL_OK(gcoll_allgather(context, x.data(), gathered.data(), 10, GCOLL_FLOAT32, &general));
            EXPECT_GCOLL_OK(gcoll_broadcast(context, copied.data(), 10, GCOLL_FLOAT32, 0, &broadcast));
            for (const Floats &result : {sum, scattered, gathered, copied})
                EXPECT_EQ(x, result);
        });
}

TEST_P(CodecCalls, ReduceScatter) {
    for (const char *codec : {"bf16", "int8:block=8", "fp8:block=32"})
        for (const char *algorithm : {"auto", "ring", "halving_doubling", "circulant"})
            for (bool even : {true, false}) {
                std::vector<uint64_t> counts(size(), 37);
                for (uint32_t r = 0; r < size() && !even; r++)
                    counts[r] = r % 3 * 50;
                std::vector<uint64_t> begin(size() + 1, 0);
                for (uint32_t r = 0; r < size(); r++)
                    begin[r + 1] = begin[r] + counts[r];
                std::vector<Floats> inputs;
                for (uint32_t r = 0; r < size(); r++)
                    inputs.push_back(vector_of(r, 0, begin[size()]));
                run_threads(job(), [&](uint32_t rank, gcoll_context *context) {
                    gcoll_collective_options options;
                    gcoll_collective_options_init(&options);
                    options.codec = codec;
                    options.algorithm = algorithm;
                    Floats in = inputs[rank], out(counts[rank]);
                    EXPECT_GCOLL_OK(gcoll_reduce_scatter_v(context, in.data(), out.data(), counts.data(),
                                                           GCOLL_FLOAT32, GCOLL_SUM, &options));
                    check_sums(inputs, begin[rank], counts[rank], 1, out.data(), bound_of(codec), size(),
                               false);
                    // In place, only the block of this rank changes.
                    EXPECT_GCOLL_OK(gcoll_reduce_scatter_v(context, in.data(), in.data() + begin[rank],
                                                           counts.data(), GCOLL_FLOAT32, GCOLL_SUM,
                                                           &options));
                    for (uint64_t i = 0; i < in.size(); i++)
                        if (i < begin[rank] || i >= begin[rank + 1])
                            ASSERT_EQ(inputs[rank][i], in[i]) << i;
                });
            }
}

// Blocks of ranks begin anywhere, so the blocks of the codec do.
TEST_P(CodecCalls, Allgather) {
    for (const char *codec : {"fp16", "int8:block=16", "fp8:block=32,seed=3"})
        for (const char *algorithm : {"auto", "ring", "linear", "recursive_doubling", "arrival_ring"})
            for (bool in_place : {false, true}) {
                SCOPED_TRACE(std::string(codec) + " " + algorithm);
                std::vector<uint64_t> counts(size());
                std::vector<uint64_t> begin(size() + 1, 0);
                for (uint32_t r = 0; r < size(); r++) {
                    counts[r] = r % 4 == 1 ? 0 : 21 + 13 * r;
                    begin[r + 1] = begin[r] + counts[r];
                }
                Results results(size());
                run_threads(job(), [&](uint32_t rank, gcoll_context *context) {
                    gcoll_collective_options options;
                    gcoll_collective_options_init(&options);
                    options.codec = codec;
                    options.algorithm = algorithm;
                    Floats in = vector_of(rank, 0, counts[rank]), out(begin[size()], -1.0f);
                    std::copy(in.begin(), in.end(), out.begin() + static_cast<ptrdiff_t>(begin[rank]));
                    EXPECT_GCOLL_OK(gcoll_allgather_v(context,
                                                      in_place ? out.data() + begin[rank] : in.data(),
                                                      out.data(), counts.data(), GCOLL_FLOAT32, &options));
                    results.of[rank] = out;
                });
                results.expect_same();
                for (uint32_t r = 0; r < size(); r++)
                    check_sums({vector_of(r, 0, counts[r])}, 0, counts[r], 1, results.of[0].data() + begin[r],
                               bound_of(codec), size() > 1 ? 1 : 0, true);
            }
}

TEST_P(CodecCalls, Broadcast) {
    for (const char *codec : {"bf16", "int8:block=16", "int8:block=16,seed=3"})
        for (const char *algorithm :
             {"auto", "binomial", "chain", "scatter_allgather", "one_to_all", "arrival_tree"})
            for (uint64_t count : {5, 700}) {
                const uint32_t root = size() / 2;
                Results results(size());
                run_threads(job(), [&](uint32_t rank, gcoll_context *context) {
                    gcoll_broadcast_options options;
                    gcoll_broadcast_options_init(&options);
                    options.codec = codec;
                    options.algorithm = algorithm;
                    Floats data = rank == root ? vector_of(root, 0, count) : Floats(count, -1.0f);
                    EXPECT_GCOLL_OK(
                        gcoll_broadcast(context, data.data(), count, GCOLL_FLOAT32, root, &options));
                    results.of[rank] = data;
                });
                results.expect_same();
                check_sums({vector_of(root, 0, count)}, 0, count, 1, results.of[0].data(), bound_of(codec),
                           size() > 1 ? 1 : 0, true);
            }
}

// Numbers that are not finite are not lost, and denormals and zeros are what they were, up to the bound.
TEST_P(CodecCalls, SpecialNumbers) {
    const uint64_t count = 400;
    const float infinity = std::numeric_limits<float>::infinity();
    for (const char *codec : {"bf16", "fp16", "int8:block=8", "fp8:block=32"}) {
        const uint64_t block = bound_of(codec).block;
        Results results(size());
        run_threads(job(), [&](uint32_t rank, gcoll_context *context) {
            const gcoll_allreduce_options options = allreduce_options(codec);
            Floats x(count, 0.0f);
            for (uint64_t i = 200; i < 264; i++)
                x[i] = std::numeric_limits<float>::denorm_min() * static_cast<float>(i);
            if (rank == size() - 1) {
                x[10] = infinity;
                x[77] = std::numeric_limits<float>::quiet_NaN();
            }
            EXPECT_GCOLL_OK(
                gcoll_allreduce(context, nullptr, x.data(), count, GCOLL_FLOAT32, GCOLL_SUM, &options));
            results.of[rank] = x;
        });
        results.expect_same();
        const Floats &got = results.of[0];
        for (uint64_t i = 0; i < count; i++) {
            const bool bad =
                size() == 1 ? i == 10 || i == 77 : i / block == 10 / block || i / block == 77 / block;
            EXPECT_EQ(!bad, std::isfinite(got[i])) << codec << " " << i;
            if (!bad && (i < 200 || i >= 264))
                EXPECT_EQ(0.0f, got[i]) << codec << " " << i;
        }
        if (block == 1)
            EXPECT_EQ(infinity, got[10]) << codec;
    }
}

// The same calls give the same bits in another job; another seed gives others; each call of one operation is
// rounded anew.
TEST_P(CodecCalls, ASeedDecidesTheBits) {
    const uint64_t count = 2000;
    auto run = [&](const char *codec) {
        Results results(size());
        run_threads(job(), [&](uint32_t rank, gcoll_context *context) {
            const gcoll_allreduce_options options = allreduce_options(codec, "ring");
            for (int call = 0; call < 2; call++) {
                Floats x = vector_of(rank, 0, count);
                EXPECT_GCOLL_OK(
                    gcoll_allreduce(context, nullptr, x.data(), count, GCOLL_FLOAT32, GCOLL_SUM, &options));
                results.of[rank].insert(results.of[rank].end(), x.begin(), x.end());
            }
        });
        results.expect_same();
        return results.of[0];
    };
    if (size() == 1)
        return;
    const Floats one = run("int8:block=128,seed=1"), again = run("int8:block=128,seed=1"),
                 other = run("int8:block=128,seed=2"), none = run("int8:block=128");
    EXPECT_EQ(one, again);
    EXPECT_NE(one, other);
    EXPECT_FALSE(std::equal(one.begin(), one.begin() + count, one.begin() + count));
    EXPECT_TRUE(std::equal(none.begin(), none.begin() + count, none.begin() + count));
}

TEST_P(CodecCalls, StartedAndPersistent) {
    const uint64_t count = 1000;
    std::vector<Floats> inputs;
    for (uint32_t r = 0; r < size(); r++)
        inputs.push_back(vector_of(r, 0, count));
    run_threads(job(), [&](uint32_t rank, gcoll_context *context) {
        gcoll_allreduce_options options = allreduce_options("int8:block=32");
        options.keep_input = 1;
        Floats x = inputs[rank], y(count);
        gcoll_request *request = nullptr;
        EXPECT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, x.data(), count, GCOLL_FLOAT32, GCOLL_SUM,
                                              &options, &request));
        EXPECT_GCOLL_OK(gcoll_request_wait(&request));
        gcoll_operation *operation = nullptr;
        EXPECT_GCOLL_OK(gcoll_allreduce_create(context, inputs[rank].data(), y.data(), count, GCOLL_FLOAT32,
                                               GCOLL_SUM, &options, &operation));
        for (int call = 0; call < 3; call++) {
            std::fill(y.begin(), y.end(), -1.0f);
            EXPECT_GCOLL_OK(gcoll_operation_start(operation));
            EXPECT_GCOLL_OK(gcoll_operation_wait(operation));
            EXPECT_EQ(x, y);
        }
        gcoll_operation_destroy(operation);
        check_sums(inputs, 0, count, 1, x.data(), bound_of("int8:block=32"), size() > 1 ? size() : 0, true);
    });
}

INSTANTIATE_TEST_SUITE_P(Jobs, CodecCalls,
                         ::testing::Combine(transports(), ::testing::Values(1u, 2u, 3u, 5u, 8u)),
                         [](const auto &of) {
                             return std::string(std::get<0>(of.param)) + "_" +
                                    std::to_string(std::get<1>(of.param));
                         });

// ---- What is refused --------------------------------------------------------------------------------------

TEST(CodecRefusals, NameWhatIsWrong) {
    run_threads(
        job_on("inproc", 1),
        [](uint32_t, gcoll_context *context) {
            gcoll_allreduce_options options;
            gcoll_allreduce_options_init(&options);
            gcoll_collective_options general;
            gcoll_collective_options_init(&general);
            double wide[4] = {1, 2, 3, 4};
            float x[4] = {1, 2, 3, 4};
            options.codec = general.codec = "int8:block=8";
            EXPECT_EQ(GCOLL_ERR_UNSUPPORTED,
                      gcoll_allreduce(context, nullptr, wide, 4, GCOLL_FLOAT64, GCOLL_SUM, &options));
            EXPECT_TRUE(says("options.codec: is 'int8:block=8' for type float64; allowed is float32"))
                << gcoll_last_error();
            EXPECT_EQ(GCOLL_ERR_UNSUPPORTED,
                      gcoll_allreduce(context, nullptr, x, 4, GCOLL_FLOAT32, GCOLL_MAX, &options));
            EXPECT_TRUE(says("for op max; allowed are sum and avg")) << gcoll_last_error();
            EXPECT_EQ(GCOLL_ERR_UNSUPPORTED,
                      gcoll_reduce(context, nullptr, x, 4, GCOLL_FLOAT32, GCOLL_SUM, 0, &general));
            EXPECT_TRUE(says("for reduce; allowed are allreduce, reduce_scatter, allgather and broadcast"))
                << gcoll_last_error();
            void *const outputs[] = {x};
            const uint64_t counts[] = {4};
            EXPECT_EQ(GCOLL_ERR_UNSUPPORTED, gcoll_allreduce_list(context, nullptr, outputs, counts, 1,
                                                                  GCOLL_FLOAT32, GCOLL_SUM, &options));
            EXPECT_TRUE(says("is a list of buffers")) << gcoll_last_error();
            options.algorithm = "recursive_doubling";
            EXPECT_EQ(GCOLL_ERR_UNSUPPORTED,
                      gcoll_allreduce(context, nullptr, x, 4, GCOLL_FLOAT32, GCOLL_SUM, &options));
            EXPECT_TRUE(says("codec: is int8, but recursive_doubling")) << gcoll_last_error();
            options.algorithm = nullptr;
            options.codec = "int9";
            EXPECT_EQ(GCOLL_ERR_INVALID,
                      gcoll_allreduce(context, nullptr, x, 4, GCOLL_FLOAT32, GCOLL_SUM, &options));
            EXPECT_TRUE(says("codec: is 'int9'; allowed are none, bf16")) << gcoll_last_error();
            for (const char *none : {"", "none"}) {
                options.codec = none;
                EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, x, 4, GCOLL_FLOAT32, GCOLL_SUM, &options));
            }
        });
}

// Ranks that differ in the codec are told both.
TEST(CodecRefusals, RanksThatDisagreeAreToldBoth) {
    const struct {
        const char *one, *other, *says[2];
    } rows[] = {
        {"int8:block=128", "", {"float32 as int8:block=128", "1000 float32,"}},
        {"int8:block=128", "int8:block=64", {"as int8:block=128", "as int8:block=64"}},
        {"bf16", "fp16", {"as bf16", "as fp16"}},
        {"bf16:seed=1", "bf16", {"as bf16 with a seed", "as bf16,"}},
        {"bf16:seed=1", "bf16:seed=2", {"as bf16 with a seed", "the seeds of options.codec"}},
    };
    for (const auto &row : rows) {
        std::atomic<int> told{0};
        run_threads(job_on("inproc", 2), [&](uint32_t rank, gcoll_context *context) {
            const gcoll_allreduce_options options = allreduce_options(rank ? row.one : row.other, "ring");
            Floats x(1000, 1.0f);
            const gcoll_status status =
                gcoll_allreduce(context, nullptr, x.data(), x.size(), GCOLL_FLOAT32, GCOLL_SUM, &options);
            EXPECT_EQ(GCOLL_ERR_MISMATCH, status) << gcoll_last_error();
            EXPECT_TRUE(says(row.says[0]) && says(row.says[1])) << gcoll_last_error();
            told++;
        });
        EXPECT_EQ(2, told);
    }
}

TEST(CodecExplanations, NameTheCodecAndPriceItsBytes) {
    run_threads(
        job_on("inproc", 4),
        [](uint32_t, gcoll_context *context) {
            gcoll_collective_options options;
            gcoll_collective_options_init(&options);
            char plain[8192], coded[8192];
            EXPECT_GCOLL_OK(gcoll_context_explain(context, GCOLL_ALLREDUCE, 1 << 20, GCOLL_FLOAT32, GCOLL_SUM,
                                                  0, &options, plain, sizeof plain));
            options.codec = "int8";
            EXPECT_GCOLL_OK(gcoll_context_explain(context, GCOLL_ALLREDUCE, 1 << 20, GCOLL_FLOAT32, GCOLL_SUM,
                                                  0, &options, coded, sizeof coded));
            EXPECT_NE(nullptr, strstr(coded, "float32 as int8:block=128 by 4 ranks")) << coded;
            EXPECT_NE(nullptr, strstr(coded, "takes no codec")) << coded;
            auto sent = [](const char *text) {
                const char *row = strstr(text, "\n  ring ");
                const char *at = row ? strstr(row, "sent ") : nullptr;
                return at ? atof(at + 5) : 0.0;
            };
            EXPECT_NEAR(sent(plain) * (1 + 1.0 / 128) / 4, sent(coded), 1) << plain << coded;
        });
}

} // namespace
