// test/core/factor_test.cc - options.prescale and options.postscale in all collectives that reduce, forms and
// kinds of buffers, against plain loops over elements. Elements are small numbers and factors of inputs are
// powers of two, so that sums are exact in any order; the factor of the result rounds.
#include "test/kit/calls.h"
#include "test/kit/element_oracle.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace {

using namespace gcoll_test;
using namespace element_oracle;

enum Form { kBlocking, kStarted, kPersistent };
enum Style { kApart, kInPlace, kBuffers, kBuffersInPlace, kList, kListInPlace };
const char *const kStyles[] = {"apart", "in place", "buffers", "buffers in place", "list", "list in place"};

struct Case {
    gcoll_collective collective = GCOLL_ALLREDUCE;
    Style style = kApart;
    Form form = kBlocking;
    gcoll_type type = GCOLL_FLOAT32;
    gcoll_op op = GCOLL_SUM;
    std::vector<double> prescale; // by rank; 0: none
    double postscale = 0;
    std::vector<uint64_t> counts; // the parts of the vector: blocks of ranks, or entries of a list
    uint32_t buffers = 1;         // rank r has 1 + (r + buffers - 1) % buffers of them; an average: buffers
    const char *algorithm = nullptr;

    uint32_t size() const { return static_cast<uint32_t>(prescale.size()); }
    uint64_t total() const { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }
    uint64_t begin(size_t part) const {
        return std::accumulate(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(part), uint64_t{0});
    }
    bool is_list() const { return style == kList || style == kListInPlace; }
    bool is_in_place() const {
        return style == kInPlace || style == kBuffersInPlace || style == kListInPlace;
    }
    bool has_buffers() const { return style == kBuffers || style == kBuffersInPlace; }
    uint32_t buffers_of(uint32_t rank) const {
        if (!has_buffers())
            return 1;
        return op == GCOLL_AVG ? buffers : 1 + (rank + buffers - 1) % buffers;
    }
    std::string describe(uint32_t rank) const {
        return std::string(gcoll_collective_name(collective)) + ", " + kStyles[style] + ", form " +
               std::to_string(form) + ", " + gcoll_type_name(type) + ", " + gcoll_op_name(op) + ", post " +
               std::to_string(postscale) + ", " + std::to_string(size()) + " ranks, " +
               std::to_string(total()) + " elements, " + (algorithm ? algorithm : "auto") + ", rank " +
               std::to_string(rank);
    }
};

Bits number(gcoll_type type, int value) {
    if (kind_of(type) == Kind::kComplex)
        return join(type, number(first_type(type), value), number(first_type(type), 1 - value));
    return encode(type, value);
}

Bits element(const Case &c, uint32_t rank, uint32_t buffer, uint64_t i, uint32_t round) {
    const int span = shape_of(c.type).bytes == 1 ? 3 : 7;
    return number(c.type,
                  static_cast<int>((rank * 5 + buffer * 3 + i * 11 + i / 7 + round) % span) - span / 2);
}

Bits expected(const Case &c, uint64_t i, uint32_t round) {
    Bits result = 0;
    uint32_t contributions = 0;
    for (uint32_t rank = 0; rank < c.size(); rank++) {
        for (uint32_t k = 0; k < c.buffers_of(rank); k++) {
            Bits x = element(c, rank, k, i, round);
            if (c.prescale[rank] != 0)
                x = multiple(c.type, x, c.prescale[rank]);
            result =
                contributions++ == 0 ? x : answer(c.type, c.op == GCOLL_AVG ? GCOLL_SUM : c.op, result, x);
        }
    }
    if (c.op == GCOLL_AVG)
        result = quotient(c.type, result, contributions);
    return c.postscale != 0 ? multiple(c.type, result, c.postscale) : result;
}

// One rank's memory and call.
class Part {
  public:
    Part(const Case &c, uint32_t rank) : c_(c), rank_(rank), bytes_(shape_of(c.type).bytes) {
        gcoll_collective_call_init(&call_);
        gcoll_collective_options_init(&options_);
        const bool scatters = c.collective == GCOLL_REDUCE_SCATTER;
        const bool gets = c.collective != GCOLL_REDUCE || rank == c.size() - 1;
        out_count_ = scatters ? c.counts[rank] : gets ? c.total() : 0;
        for (uint32_t k = 0; k < c.buffers_of(rank); k++) {
            in_.emplace_back(bytes_ * (c.total() + 1));
            out_.emplace_back(bytes_ * (out_count_ + 1));
        }
        for (uint32_t k = 0; k < in_.size(); k++) {
            inputs_.push_back(in_[k].data());
            outputs_.push_back(!c.is_in_place() ? out_[k].data()
                               : scatters       ? in_[k].data() + bytes_ * c.begin(rank)
                                                : in_[k].data());
        }
        call_.collective = c.collective;
        call_.type = c.type;
        call_.op = c.op;
        call_.root = c.collective == GCOLL_REDUCE ? c.size() - 1 : 0;
        call_.algorithm = c.algorithm;
        call_.options = &options_;
        if (scatters)
            call_.counts = c.counts.data();
        else if (!c.is_list())
            call_.count = c.total();
        options_.prescale = c.prescale[rank];
        options_.postscale = c.postscale;
        lay_out();
    }
    Part(const Part &) = delete;
    Part &operator=(const Part &) = delete;

    void fill(uint32_t round) {
        for (uint32_t k = 0; k < in_.size(); k++)
            for (uint64_t i = 0; i < c_.total(); i++) {
                const Bits x = element(c_, rank_, k, i, round);
                memcpy(&in_[k][i * bytes_], &x, bytes_);
            }
        before_ = in_;
    }
    // Whether the result is right, and nothing else of the input has changed.
    void check(uint32_t round) {
        const uint64_t first = c_.collective == GCOLL_REDUCE_SCATTER ? c_.begin(rank_) : 0;
        for (uint32_t k = 0; k < in_.size(); k++) {
            for (uint64_t i = 0; i < out_count_; i++) {
                Bits got = 0;
                memcpy(&got, static_cast<char *>(outputs_[k]) + i * bytes_, bytes_);
                const Bits want = expected(c_, first + i, round);
                ASSERT_TRUE(same(c_.type, got, want))
                    << c_.describe(rank_) << ": [" << i << "] got " << hex(got) << ", want " << hex(want);
            }
            if (c_.is_in_place()) // leave the output out of the comparison
                std::copy_n(&before_[k][first * bytes_], out_count_ * bytes_, &in_[k][first * bytes_]);
            ASSERT_EQ(in_[k], before_[k]) << c_.describe(rank_) << ": the input was written";
        }
    }
    const gcoll_collective_call *call() const { return &call_; }

  private:
    void lay_out() {
        for (size_t part = 0; c_.is_list() && part < c_.counts.size(); part++) {
            list_in_.push_back(in_[0].data() + bytes_ * c_.begin(part));
            list_out_.push_back(static_cast<char *>(outputs_[0]) + bytes_ * c_.begin(part));
        }
        if (c_.has_buffers()) {
            options_.inputs = inputs_.data();
            options_.outputs = c_.is_in_place() && rank_ % 2 ? nullptr : outputs_.data();
            options_.buffers = static_cast<uint32_t>(in_.size());
        } else if (c_.is_list() && c_.collective == GCOLL_REDUCE_SCATTER) {
            call_.inputs = list_in_.data();
            call_.output = outputs_[0];
        } else if (c_.is_list()) {
            call_.inputs = c_.is_in_place() && rank_ % 2 ? nullptr : list_in_.data();
            call_.outputs = list_out_.data();
            call_.counts = c_.counts.data();
            call_.entries = static_cast<uint32_t>(c_.counts.size());
        } else {
            call_.input = inputs_[0];
            call_.output = outputs_[0];
        }
    }

    const Case &c_;
    uint32_t rank_;
    size_t bytes_;
    uint64_t out_count_;
    std::vector<std::vector<char>> in_, out_, before_;
    std::vector<const void *> inputs_, list_in_;
    std::vector<void *> outputs_, list_out_;
    gcoll_collective_options options_;
    gcoll_collective_call call_;
};

void run_case(const Case &c, gcoll_context *context, uint32_t rank) {
    Part part(c, rank);
    gcoll_operation *operation = nullptr;
    if (c.form == kPersistent)
        ASSERT_GCOLL_OK(gcoll_call_create(context, part.call(), &operation));
    for (uint32_t round = 0; round < 2; round++) {
        part.fill(round);
        if (c.form == kBlocking) {
            ASSERT_GCOLL_OK(gcoll_call_run(context, part.call()));
        } else if (c.form == kStarted) {
            gcoll_request *request = nullptr;
            ASSERT_GCOLL_OK(gcoll_call_start(context, part.call(), &request));
            ASSERT_GCOLL_OK(gcoll_request_wait(&request));
        } else {
            ASSERT_GCOLL_OK(gcoll_operation_run(operation));
        }
        ASSERT_NO_FATAL_FAILURE(part.check(round));
    }
    gcoll_operation_destroy(operation);
}

std::vector<double> factors(uint32_t size) { // of each rank's input; one of four has none
    const double some[] = {0.5, 0, -2, 1};
    std::vector<double> all(size);
    for (uint32_t rank = 0; rank < size; rank++)
        all[rank] = some[rank % 4];
    return all;
}

std::vector<uint64_t> uneven(uint32_t parts, uint64_t each) {
    std::vector<uint64_t> counts(parts);
    for (uint32_t i = 0; i < parts; i++)
        counts[i] = i % 3 == 1 ? 0 : each + i;
    return counts;
}

std::vector<Style> styles_of(gcoll_collective collective) {
    if (collective == GCOLL_REDUCE)
        return {kApart, kInPlace};
    return {kApart, kInPlace, kBuffers, kBuffersInPlace, kList, kListInPlace};
}

class Factors : public testing::TestWithParam<std::tuple<const char *, uint32_t>> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Factors, testing::Combine(transports(), testing::Values(1, 2, 3, 5, 7)),
                         [](const auto &of) {
                             return std::string(std::get<0>(of.param)) + "_" +
                                    std::to_string(std::get<1>(of.param));
                         });

TEST_P(Factors, GiveTheReductionOfMultiples) {
    const uint32_t size = std::get<1>(GetParam());
    std::vector<Case> cases;
    for (gcoll_collective collective : {GCOLL_ALLREDUCE, GCOLL_REDUCE, GCOLL_REDUCE_SCATTER})
        for (Style style : styles_of(collective))
            for (Form form : {kBlocking, kStarted, kPersistent})
                for (gcoll_op op : {GCOLL_SUM, GCOLL_AVG, GCOLL_MAX}) {
                    Case c;
                    c.collective = collective;
                    c.style = style;
                    c.form = form;
                    c.op = op;
                    c.buffers = 3;
                    c.counts = uneven(size, 1 + 40 * (form % 2));
                    for (int which = 1; which < 4; which++) {
                        c.prescale = which & 1 ? factors(size) : std::vector<double>(size, 0);
                        c.postscale = which & 2 ? 1.0 / 3 : 0;
                        cases.push_back(c);
                    }
                }
    run_threads(size, std::get<0>(GetParam()), [&](uint32_t rank, gcoll_context *context) {
        for (const Case &c : cases)
            ASSERT_NO_FATAL_FAILURE(run_case(c, context, rank));
    });
}

TEST_P(Factors, WithEveryTypeAndAlgorithm) {
    const uint32_t size = std::get<1>(GetParam());
    std::vector<Case> cases;
    for (gcoll_type type : {GCOLL_FLOAT8_E4M3, GCOLL_FLOAT8_E5M2, GCOLL_FLOAT16, GCOLL_BFLOAT16,
                            GCOLL_FLOAT32, GCOLL_FLOAT64, GCOLL_COMPLEX64, GCOLL_COMPLEX128})
        for (const char *algorithm :
             {"ring", "sorted_linear_tree", "recursive_doubling", "ring:segment=64", "group_butterfly:r=0"}) {
            if (shape_of(type).bytes == 1 && size > 3)
                continue; // sums of more would round
            Case c;
            c.type = type;
            c.algorithm = algorithm;
            c.prescale = factors(size);
            c.postscale = -1.0 / 3;
            c.counts = {257};
            cases.push_back(c);
            c.style = kInPlace;
            cases.push_back(c);
        }
    run_threads(size, std::get<0>(GetParam()), [&](uint32_t rank, gcoll_context *context) {
        for (const Case &c : cases)
            ASSERT_NO_FATAL_FAILURE(run_case(c, context, rank));
    });
}

// NaN, infinity, the largest numbers and denormals, where nothing is added up.
TEST(FactorValues, AreMultipliedAsTheTypeSays) {
    run_threads(
        1, "inproc",
        [](uint32_t, gcoll_context *context) {
            const float tiny = std::numeric_limits<float>::denorm_min(),
                        most = std::numeric_limits<float>::max();
            const std::vector<float> in = {NAN,  INFINITY, -INFINITY, most, -most,
                                           tiny, 3 * tiny, 0.0f,      -0.0f};
            std::vector<float> out(in.size());
            gcoll_allreduce_options options;
            gcoll_allreduce_options_init(&options);
            options.prescale = 2;
            options.postscale = 0.25;
            ASSERT_GCOLL_OK(gcoll_allreduce(context, in.data(), out.data(), in.size(), GCOLL_FLOAT32,
                                            GCOLL_SUM, &options));
            for (size_t i = 0; i < in.size(); i++) {
                const float want = in[i] * 2.0f * 0.25f;
                EXPECT_TRUE(memcmp(&out[i], &want, 4) == 0 || (std::isnan(out[i]) && std::isnan(want))) << i;
            }
        });
}

// The rank without the factor goes by another plan than the others, and all get the same bits.
TEST(FactorValues, AreTheSameOnAllRanks) {
    Job job = job_on("inproc", 5);
    job.same = GCOLL_SAME_IN_RUNS;
    std::vector<std::vector<float>> results(5, std::vector<float>(1001));
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        std::vector<float> in(1001);
        for (size_t i = 0; i < in.size(); i++)
            in[i] = std::sin(static_cast<float>(rank * 1001 + i));
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.prescale = rank == 2 ? 0 : 0.1 * (rank + 1);
        options.postscale = 0.7;
        ASSERT_GCOLL_OK(gcoll_allreduce(context, in.data(), results[rank].data(), in.size(), GCOLL_FLOAT32,
                                        GCOLL_SUM, &options));
    });
    for (uint32_t rank = 1; rank < 5; rank++)
        EXPECT_EQ(memcmp(results[0].data(), results[rank].data(), 1001 * sizeof(float)), 0) << rank;
}

TEST(FactorChecks, NameTheField) {
    run_threads(
        1, "inproc",
        [](uint32_t, gcoll_context *context) {
            struct {
                double prescale, postscale;
                gcoll_type type;
                const char *text;
            } const cases[] = {
                {NAN, 0, GCOLL_FLOAT32, "options.prescale: is nan"},
                {0, -NAN, GCOLL_FLOAT64, "options.postscale: is "},
                {INFINITY, 0, GCOLL_FLOAT64, "options.prescale: is inf"},
                {0, -INFINITY, GCOLL_BFLOAT16, "options.postscale: is -inf"},
                {1e300, 0, GCOLL_FLOAT32,
                 "options.prescale: is 1e+300; allowed for float32 are 0 (none) and "},
                {0, 1e-300, GCOLL_COMPLEX64, "options.postscale: is 1e-300; allowed for complex64"},
                {1e-310, 0, GCOLL_FLOAT64, "options.prescale: is 1e-310"},
                {2, 0, GCOLL_INT32, "options.prescale: is 2, but type is int32"},
                {0, 2, GCOLL_BOOL, "options.postscale: is 2, but type is bool"},
                {2, 0, GCOLL_FLOAT32_INT32, "options.prescale: is 2, but type is float32_int32"},
            };
            for (const auto &c : cases) {
                double buffer[4] = {1, 1, 1, 1};
                gcoll_allreduce_options options;
                gcoll_allreduce_options_init(&options);
                options.prescale = c.prescale;
                options.postscale = c.postscale;
                const gcoll_op op = c.type == GCOLL_BOOL            ? GCOLL_LOR
                                    : c.type == GCOLL_FLOAT32_INT32 ? GCOLL_MINLOC
                                                                    : GCOLL_SUM;
                EXPECT_EQ(gcoll_allreduce(context, nullptr, buffer, 1, c.type, op, &options),
                          GCOLL_ERR_INVALID);
                EXPECT_TRUE(says(c.text)) << gcoll_last_error();
                EXPECT_EQ(buffer[0], 1);
            }
            gcoll_collective_options options;
            gcoll_collective_options_init(&options);
            options.prescale = 2;
            float in = 1, out = 0;
            EXPECT_EQ(gcoll_allgather(context, &in, &out, 1, GCOLL_FLOAT32, &options), GCOLL_ERR_INVALID);
            EXPECT_TRUE(says("options.prescale: is 2, but allgather reduces nothing")) << gcoll_last_error();
        });
}

TEST(FactorChecks, APostscaleMustBeTheSame) {
    for (const double odd : {0.0, 0.25}) {
        run_threads(
            3, "inproc",
            [&](uint32_t rank, gcoll_context *context) {
                std::vector<float> data(8, 1);
                gcoll_allreduce_options options;
                gcoll_allreduce_options_init(&options);
                options.postscale = rank == 1 ? odd : 0.5;
                EXPECT_EQ(gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32,
                                          GCOLL_SUM, &options),
                          GCOLL_ERR_MISMATCH);
                EXPECT_TRUE(says(odd != 0 ? "options.postscale differs" : "sum with a postscale"))
                    << gcoll_last_error();
            });
    }
}

// A call in place that fails restores the input, not its multiple.
TEST(FactorChecks, KeepInputKeepsTheInput) {
    for (gcoll_collective collective : {GCOLL_ALLREDUCE, GCOLL_REDUCE, GCOLL_REDUCE_SCATTER}) {
        for (const Style style : {kInPlace, kApart}) {
            run_threads(
                2, "inproc",
                [&](uint32_t rank, gcoll_context *context) {
                    std::vector<float> in(10), out(10);
                    std::iota(in.begin(), in.end(), 1.0f);
                    const std::vector<float> before = in;
                    gcoll_user_op op = {[](void *, const void *, const void *, uint64_t, gcoll_type, void *) {
                                            return GCOLL_ERR_ABORTED;
                                        },
                                        nullptr, 1, 0};
                    gcoll_collective_options options;
                    gcoll_collective_options_init(&options);
                    options.user_op = &op;
                    options.prescale = 3;
                    options.postscale = 2;
                    options.keep_input = 1;
                    gcoll_collective_call call;
                    gcoll_collective_call_init(&call);
                    call.collective = collective;
                    call.type = GCOLL_FLOAT32;
                    call.op = GCOLL_USER;
                    call.input = in.data();
                    call.output = style == kApart                      ? out.data()
                                  : collective == GCOLL_REDUCE_SCATTER ? in.data() + rank * 5
                                                                       : in.data();
                    call.count = collective == GCOLL_REDUCE_SCATTER ? 5 : 10;
                    call.options = &options;
                    const gcoll_status status = gcoll_call_run(context, &call);
                    if (collective != GCOLL_REDUCE || rank == 0)
                        EXPECT_NE(status, GCOLL_OK);
                    EXPECT_EQ(in, before) << gcoll_collective_name(collective) << ", rank " << rank;
                });
        }
    }
}

} // namespace
