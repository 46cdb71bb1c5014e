// test/core/refusal_test.cc - tests of reductions of the caller's own that fail: no rank may take a result
// that a failed reduction is part of, and every rank learns who failed.
#include "test/kit/calls.h"
#include "test/kit/collective_support.h"

#include <cstring>
#include <future>

namespace {

using namespace collective_support;
using namespace gcoll_test;

constexpr int64_t kSoonMs = 12000;                        // far less than the timeout, also on a busy machine
constexpr auto kStatus = static_cast<gcoll_status>(4711); // no status of gcoll's
constexpr const char *kReason = "the test's reduction has had enough";

// Adds bytes modulo 256. Call number `at` spoils the result and fails.
struct Failing {
    uint32_t each = 1; // bytes of an element
    uint64_t at = UINT64_MAX;
    gcoll_status status = kStatus;
    const char *reason = kReason;
    std::atomic<uint64_t> called{0}, after{0};

    bool has_failed() const { return called.load() > at; }
};

gcoll_status add_or_fail(void *dst, const void *a, const void *b, uint64_t count, gcoll_type, void *arg) {
    auto *const failing = static_cast<Failing *>(arg);
    const uint64_t bytes = count * failing->each, call = failing->called++;
    failing->after += call > failing->at;
    for (uint64_t i = 0; i < bytes; i++)
        static_cast<uint8_t *>(dst)[i] =
            static_cast<uint8_t>(static_cast<const uint8_t *>(a)[i] + static_cast<const uint8_t *>(b)[i]);
    if (call != failing->at)
        return GCOLL_OK;
    memset(dst, 0xee, bytes);
    return failing->reason ? gcoll_store_error(failing->status, failing->reason) : failing->status;
}

uint8_t value(uint32_t contribution, uint64_t i) {
    return static_cast<uint8_t>(mix(contribution * 7919 + i % kPeriod));
}

std::vector<uint8_t> values(uint32_t contribution, uint64_t bytes) {
    std::vector<uint8_t> made(bytes);
    fill_by_period(made, [&](uint64_t i) { return value(contribution, i); });
    return made;
}

std::vector<uint8_t> summed(uint32_t contributions, uint64_t begin, uint64_t bytes) {
    std::vector<uint8_t> sums(bytes);
    fill_by_period(sums, [&](uint64_t i) {
        uint8_t sum = 0;
        for (uint32_t c = 0; c < contributions; c++)
            sum = static_cast<uint8_t>(sum + value(c, begin + i));
        return sum;
    });
    return sums;
}

// ---- One call of each collective that reduces -------------------------------------------------------------

struct Reduction {
    const char *collective; // or "buffers", "list"
    std::string algorithm;
    Form form;
    uint32_t each;
    uint64_t count;
};

struct Outcome {
    gcoll_status status;
    bool is_right; // this rank's outputs are
    std::string text;
};

Outcome outcome_of(gcoll_status status, bool is_right) {
    return {status, is_right, status == GCOLL_OK ? "" : gcoll_last_error()};
}

Outcome reduce_list(gcoll_context *context, const Reduction &what, const gcoll_allreduce_options &options) {
    const uint64_t counts[] = {what.count / 3 + 1, 0, what.count, 2};
    const uint32_t rank = gcoll_context_rank(context), size = gcoll_context_size(context);
    const uint64_t total = counts[0] + counts[2] + counts[3];
    std::vector<uint8_t> in = values(rank, total * what.each), out(in.size());
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    uint64_t at = 0;
    for (const uint64_t count : counts) {
        inputs.push_back(in.data() + at);
        outputs.push_back(out.data() + at);
        at += count * what.each;
    }
    const gcoll_status status = CALL(what.form, allreduce_list, context, inputs.data(), outputs.data(),
                                     counts, 4, GCOLL_UINT8, GCOLL_USER, &options);
    return outcome_of(status, out == summed(size, 0, out.size()));
}

Outcome reduce_buffers(gcoll_context *context, const Reduction &what, gcoll_allreduce_options options) {
    const uint32_t rank = gcoll_context_rank(context), size = gcoll_context_size(context);
    const uint64_t bytes = what.count * what.each;
    std::vector<uint8_t> data[3];
    std::vector<const void *> pointers;
    for (uint32_t k = 0; k < 3; k++) {
        data[k] = values(3 * rank + k, bytes);
        pointers.push_back(data[k].data());
    }
    const std::vector<uint8_t> want = summed(3 * size, 0, bytes);
    options.buffers = 3;
    options.inputs = pointers.data();
    // In place, so a second run would start from the result of the first.
    const Form form = what.form == kPersistent ? kStarted : what.form;
    const gcoll_status status =
        CALL(form, allreduce, context, nullptr, nullptr, what.count, GCOLL_UINT8, GCOLL_USER, &options);
    return outcome_of(status, data[0] == want && data[1] == want && data[2] == want);
}

Outcome reduce(gcoll_context *context, const Reduction &what, const gcoll_user_op *op) {
    const uint32_t rank = gcoll_context_rank(context), size = gcoll_context_size(context), root = size - 1;
    gcoll_allreduce_options options = by(what.algorithm.c_str());
    options.user_op = op;
    if (!strcmp(what.collective, "list"))
        return reduce_list(context, what, options);
    if (!strcmp(what.collective, "buffers"))
        return reduce_buffers(context, what, options);
    gcoll_collective_options others;
    gcoll_collective_options_init(&others);
    others.algorithm = options.algorithm;
    others.user_op = op;
    const uint64_t bytes = what.count * what.each;
    const bool scatters = !strcmp(what.collective, "reduce_scatter");
    const std::vector<uint8_t> in = values(rank, scatters ? bytes * size : bytes);
    std::vector<uint8_t> out(bytes);
    gcoll_status status;
    if (scatters)
        status = CALL(what.form, reduce_scatter, context, in.data(), out.data(), what.count, GCOLL_UINT8,
                      GCOLL_USER, &others);
    else if (!strcmp(what.collective, "reduce"))
        status = CALL(what.form, reduce, context, in.data(), out.data(), what.count, GCOLL_UINT8, GCOLL_USER,
                      root, &others);
    else
        status = CALL(what.form, allreduce, context, in.data(), out.data(), what.count, GCOLL_UINT8,
                      GCOLL_USER, &options);
    const bool has_result = scatters || strcmp(what.collective, "reduce") != 0 || rank == root;
    return outcome_of(status, !has_result || out == summed(size, scatters ? rank * bytes : 0, bytes));
}

// ---- What every rank must see ---------------------------------------------------------------------------

bool has(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

void expect_refusal(const Outcome &outcome, gcoll_context *context, uint32_t bad, const Failing &failing) {
    const std::string &text = outcome.text;
    EXPECT_EQ(outcome.status, GCOLL_ERR_ABORTED) << text;
    EXPECT_TRUE(has(text, "rank " + std::to_string(bad) + ": options.user_op failed with status " +
                              std::to_string(failing.status)))
        << text;
    EXPECT_TRUE(has(text, "#") && has(text, ", step ")) << text;
    if (failing.reason)
        EXPECT_TRUE(has(text, failing.reason)) << text;
    else
        EXPECT_FALSE(has(text, kReason)) << text;
    EXPECT_EQ(gcoll_context_culprit(context), static_cast<int64_t>(bad)) << text;
}

// Runs the reduction on all ranks of a new job; rank `bad` fails at its call `at`. Returns whether it came so
// far.
bool refuse(const Job &job, const Reduction &what, uint32_t bad, uint64_t at, bool has_reason = true) {
    Failing failing[16];
    std::atomic<bool> has_failed{false};
    const int64_t begun = now_ms();
    std::atomic<int> unsupported{0};
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        Failing &mine = failing[rank];
        mine.each = what.each;
        if (rank == bad)
            mine.at = at;
        if (!has_reason) { // an earlier text of this thread must not be taken for its reason
            gcoll_store_error(GCOLL_ERR_IO, kReason);
            mine.reason = nullptr;
            mine.status = GCOLL_ERR_NO_MEMORY;
        }
        const gcoll_user_op op = {add_or_fail, &mine, 0, what.each};
        const Outcome outcome = reduce(context, what, &op);
        SCOPED_TRACE(std::string(what.collective) + " " + what.algorithm + ", form " +
                     std::to_string(what.form) + ", rank " + std::to_string(rank) + ", bad " +
                     std::to_string(bad) + ", at " + std::to_string(at));
        if (outcome.status == GCOLL_ERR_UNSUPPORTED && what.algorithm != "auto") {
            unsupported++;
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            return;
        }
        if (outcome.status == GCOLL_OK)
            EXPECT_TRUE(outcome.is_right) << "a wrong result as success";
        else
            expect_refusal(outcome, context, bad, failing[bad]);
        if (rank == bad)
            EXPECT_EQ(outcome.status != GCOLL_OK, mine.has_failed()) << outcome.text;
        EXPECT_EQ(mine.after.load(), 0u) << "was called again";
        // A rank whose part was done learns it from a later call.
        const gcoll_status next = gcoll_barrier(context, nullptr);
        if (next != GCOLL_OK)
            expect_refusal(outcome_of(next, true), context, bad, failing[bad]);
        if (rank == bad)
            has_failed = mine.has_failed();
        EXPECT_EQ(next != GCOLL_OK, failing[bad].has_failed());
    });
    EXPECT_TRUE(unsupported == 0 || unsupported == static_cast<int>(job.size));
    EXPECT_LT(now_ms() - begun, kSoonMs);
    return has_failed;
}

class Refusals : public testing::TestWithParam<Place> {
  protected:
    static Job job() {
        const auto [size, transport] = GetParam();
        return job_on(transport, size);
    }
};

// Elements of one byte; of 16, which a stream may split; of 9; and of 36, which are reduced when all has
// come.
constexpr uint32_t kSizes[] = {1, 16, 9, 36};

TEST_P(Refusals, ReachAllRanksOfAnAllreduceByEveryAlgorithm) {
    const uint32_t size = job().size;
    uint32_t turn = 0, failed = 0;
    for (const std::string &text : allreduce_texts(size)) {
        const Form form = static_cast<Form>(turn % 3);
        const Reduction what = {"allreduce", text, form, kSizes[turn % 4], turn % 5 == 0 ? 20000u : 57u};
        failed += refuse(job(), what, turn % size, turn % 7 % 3);
        turn++;
    }
    EXPECT_GT(failed, 8u);
}

TEST_P(Refusals, ReachAllRanksInEveryFormAndCollective) {
    const uint32_t size = job().size;
    uint32_t failed = 0;
    for (const Form form : {kBlocking, kStarted, kPersistent})
        for (const char *collective : {"allreduce", "reduce", "reduce_scatter", "list", "buffers"})
            for (const uint32_t each : kSizes) {
                const Reduction what = {collective, "auto", form, each, 100};
                failed += refuse(job(), what, (each + form) % size, 0, each != 9);
            }
    EXPECT_GT(failed, 20u);
}

TEST_P(Refusals, OfALaterPartStopTheRest) {
    const uint32_t size = job().size;
    uint32_t failed = 0;
    for (const char *text : {"ring:segment=100", "ring_chunked", "sorted_linear_tree:segment=64"})
        for (const uint64_t at : {1u, 5u, 11u})
            for (const Form form : {kBlocking, kStarted, kPersistent})
                failed += refuse(job(), {"allreduce", text, form, 1, 5000}, (at + form) % size, at);
    EXPECT_GE(failed, 6u);
}

INSTANTIATE_TEST_SUITE_P(Some, Refusals, testing::Combine(testing::Values(3u, 5u), transports()), place_name);

// ---- Who learns it when ---------------------------------------------------------------------------------

class RefusalsOfThree : public testing::TestWithParam<const char *> {};

// Rank 1 reduces two buffers of its own when it starts the call. After that it makes no call until all others
// know.
void start_and_rest(const Job &job, bool is_persistent) {
    std::promise<void> ready[3], known[3];
    const int64_t begun = now_ms();
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        Failing failing;
        const Failing told; // what rank 1 says
        failing.at = rank == 1 ? 0 : UINT64_MAX;
        const gcoll_user_op op = {add_or_fail, &failing, 0, 1};
        std::vector<uint8_t> data[2] = {std::vector<uint8_t>(50, 1), std::vector<uint8_t>(50, 2)};
        const void *pointers[2] = {data[0].data(), data[1].data()};
        gcoll_allreduce_options options = by("auto");
        options.user_op = &op;
        options.buffers = 2;
        options.inputs = pointers;
        gcoll_request *request = nullptr;
        gcoll_operation *operation = nullptr;
        if (is_persistent)
            EXPECT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, nullptr, 50, GCOLL_UINT8, GCOLL_USER,
                                                   &options, &operation));
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // connects all pairs of three ranks
        ready[rank].set_value();
        for (const uint32_t other : {0u, 2u})
            if (rank == 1)
                ready[other].get_future().wait();
        gcoll_status status = is_persistent
                                  ? gcoll_operation_start(operation)
                                  : gcoll_allreduce_start(context, nullptr, nullptr, 50, GCOLL_UINT8,
                                                          GCOLL_USER, &options, &request);
        if (rank == 1)
            EXPECT_GCOLL_OK(status); // others may know already
        for (const uint32_t other : {0u, 2u})
            if (rank == 1)
                known[other].get_future().wait();
        if (status == GCOLL_OK)
            status = is_persistent ? gcoll_operation_wait(operation) : gcoll_request_wait(&request);
        expect_refusal(outcome_of(status, true), context, 1, told);
        known[rank].set_value();
        gcoll_operation_destroy(operation);
    });
    EXPECT_LT(now_ms() - begun, kSoonMs);
}

TEST_P(RefusalsOfThree, AreToldBeforeTheRankMakesAnotherCall) {
    for (const bool is_persistent : {false, true}) {
        start_and_rest(job_on(GetParam(), 3), is_persistent);
        start_and_rest(threaded(job_on(GetParam(), 3)), is_persistent);
    }
}

struct Told {
    std::atomic<int> times{0};
    gcoll_status status = GCOLL_OK;
    std::string text;
    std::promise<void> is_told;
};

void note(void *arg, gcoll_status status, const char *text) {
    auto *const told = static_cast<Told *>(arg);
    told->status = status;
    told->text = text;
    if (told->times++ == 0)
        told->is_told.set_value();
}

// A call that nobody waits for: the progress thread reduces, and options.done tells.
TEST_P(RefusalsOfThree, EndDetachedCallsOnce) {
    for (const uint32_t buffers : {1u, 2u}) { // of two, the first reduction is done as the call starts
        const int64_t begun = now_ms();
        run_threads(threaded(job_on(GetParam(), 3)), [&](uint32_t rank, gcoll_context *context) {
            Failing failing, told_of;
            Told told;
            failing.at = rank == 2 ? 0 : UINT64_MAX;
            const gcoll_user_op op = {add_or_fail, &failing, 1, 1};
            std::vector<uint8_t> data[2] = {std::vector<uint8_t>(50, 1), std::vector<uint8_t>(50, 2)};
            const void *pointers[2] = {data[0].data(), data[1].data()};
            gcoll_allreduce_options options = by("ring");
            options.user_op = &op;
            options.buffers = buffers;
            options.inputs = pointers;
            options.done = note;
            options.done_arg = &told;
            EXPECT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, nullptr, 50, GCOLL_UINT8, GCOLL_USER,
                                                  &options, nullptr));
            told.is_told.get_future().wait();
            expect_refusal({told.status, true, told.text}, context, 2, told_of);
            EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_ABORTED);
            EXPECT_EQ(told.times.load(), 1);
        });
        EXPECT_LT(now_ms() - begun, kSoonMs);
    }
}

// Another call is in flight on the same context, and ends while the context breaks or fails: it is never
// wrong.
TEST_P(RefusalsOfThree, LeaveOtherCallsRightOrFailed) {
    for (const uint64_t at : {0u, 1u})
        run_threads(
            job_on(GetParam(), 3),
            [&](uint32_t rank, gcoll_context *context) {
                Failing bad, good;
                bad.at = rank == 0 ? at : UINT64_MAX;
                const gcoll_user_op refused = {add_or_fail, &bad, 1, 1}, fine = {add_or_fail, &good, 1, 1};
                const std::vector<uint8_t> in = values(rank, 4000);
                std::vector<uint8_t> out[3] = {std::vector<uint8_t>(4000), std::vector<uint8_t>(4000),
                                               std::vector<uint8_t>(4000)};
                gcoll_request *requests[3] = {};
                gcoll_allreduce_options options = by("ring");
                for (int k = 0; k < 3; k++) {
                    options.user_op = k == 1 ? &refused : &fine;
                    const gcoll_status status =
                        gcoll_allreduce_start(context, in.data(), out[k].data(), 4000, GCOLL_UINT8,
                                              GCOLL_USER, &options, &requests[k]);
                    EXPECT_TRUE(status == GCOLL_OK || status == GCOLL_ERR_ABORTED) << told(status);
                }
                for (int k = 0; k < 3; k++) {
                    if (!requests[k])
                        continue;
                    const gcoll_status status = gcoll_request_wait(&requests[k]);
                    EXPECT_TRUE(status == GCOLL_OK || status == GCOLL_ERR_ABORTED) << told(status);
                    if (status == GCOLL_OK)
                        EXPECT_EQ(out[k], summed(3, 0, 4000)) << k;
                    if (k == 1 && rank == 0)
                        EXPECT_EQ(status, GCOLL_ERR_ABORTED);
                }
            });
}

// A rank alone has nobody to tell; its call fails all the same.
TEST(RefusalsAlone, FailTheCall) {
    for (const Form form : {kBlocking, kStarted, kPersistent})
        EXPECT_TRUE(refuse(job_on("inproc", 1), {"buffers", "auto", form, 9, 10}, 0, 0));
}

// The group's own numbers name the culprit, and the parent goes on.
TEST_P(RefusalsOfThree, OfAGroupSpareTheParent) {
    run_threads(
        job_on(GetParam(), 3),
        [&](uint32_t rank, gcoll_context *parent) {
            gcoll_context *group = nullptr;
            EXPECT_GCOLL_OK(gcoll_context_split(parent, 0, static_cast<int32_t>(2 - rank), &group));
            Failing failing, told_of;
            failing.at = rank == 0 ? 0 : UINT64_MAX; // rank 2 of the group
            const gcoll_user_op op = {add_or_fail, &failing, 1, 1};
            gcoll_allreduce_options options = by("ring");
            options.user_op = &op;
            std::vector<uint8_t> data(30, 1);
            const Outcome outcome = outcome_of(
                gcoll_allreduce(group, nullptr, data.data(), 30, GCOLL_UINT8, GCOLL_USER, &options), true);
            expect_refusal(outcome, group, 2, told_of);
            gcoll_context_destroy(group);
            EXPECT_EQ(sum_of(parent, 1), 3u);
        });
}

INSTANTIATE_TEST_SUITE_P(Over, RefusalsOfThree, transports(),
                         [](const testing::TestParamInfo<const char *> &place) {
                             return std::string(place.param);
                         });

// ---- The form for bindings ------------------------------------------------------------------------------

TEST(GuardedReductions, FailUnlessTheySayOtherwise) {
    struct Binding {
        gcoll_guarded_reduce guard;
        int returns; // its function does not come to its end from this call on
        int called;
    } binding = {{[](void *dst, const void *a, const void *b, uint64_t count, gcoll_type type, void *arg) {
                      auto *const self = static_cast<Binding *>(arg);
                      EXPECT_EQ(self->guard.status, GCOLL_ERR_ABORTED);
                      EXPECT_EQ(type, GCOLL_UINT8);
                      if (self->called++ >= self->returns)
                          return;
                      for (uint64_t i = 0; i < count; i++)
                          static_cast<uint8_t *>(dst)[i] = static_cast<uint8_t>(
                              static_cast<const uint8_t *>(a)[i] + static_cast<const uint8_t *>(b)[i]);
                      self->guard.status = GCOLL_OK;
                  },
                  nullptr, GCOLL_OK},
                 1,
                 0};
    binding.guard.arg = &binding;
    run_threads(1, "inproc", [&](uint32_t, gcoll_context *context) {
        const gcoll_user_op op = {gcoll_reduce_guarded, &binding.guard, 1, 0};
        uint8_t data[2][3] = {{1, 2, 3}, {10, 20, 30}};
        const void *pointers[2] = {data[0], data[1]};
        gcoll_allreduce_options options = by("auto");
        options.user_op = &op;
        options.buffers = 2;
        options.inputs = pointers;
        EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, nullptr, 3, GCOLL_UINT8, GCOLL_USER, &options));
        EXPECT_EQ(data[0][2], 33);
        EXPECT_EQ(data[1][0], 11);
        EXPECT_EQ(gcoll_allreduce(context, nullptr, nullptr, 3, GCOLL_UINT8, GCOLL_USER, &options),
                  GCOLL_ERR_ABORTED);
        EXPECT_TRUE(says("options.user_op failed with status 9 (aborted)")) << gcoll_last_error();
    });
}

} // namespace
