// test/core/keep_input_test.cc - options.keep_input: a call that fails leaves its input bit by bit as it was.
// The oracle is a copy that the test makes of each input before the call.
#include "test/kit/calls.h"

#include "test/kit/sanitizer.h"

#include <cstring>
#include <memory>
#include <string>

extern "C" {
#include "transport/inproc/inproc.h"
}

namespace {

using namespace gcoll_test;

enum Form { kBlocking, kStarted, kPersistent };
enum Style { kInPlace, kApart, kBuffers, kList };
const char *const kStyles[] = {"in place", "apart", "several buffers", "list"};

float value(uint32_t rank, uint64_t i) {
    return static_cast<float>((rank * 31 + i * 7) % 1009 + 1);
}

// Which styles a collective has.
bool has(gcoll_collective collective, Style style) {
    switch (collective) {
    case GCOLL_ALLREDUCE:
    case GCOLL_REDUCE_SCATTER:
        return true;
    case GCOLL_BROADCAST:
        return style == kInPlace || style == kBuffers;
    case GCOLL_ALLGATHER:
        return style != kBuffers;
    case GCOLL_REDUCE:
    case GCOLL_GATHER:
    case GCOLL_SCATTER:
        return style == kInPlace || style == kApart;
    case GCOLL_ALLTOALL:
    case GCOLL_PAIRWISE_EXCHANGE:
        return style == kApart;
    default:
        return false;
    }
}

// A reduction of the caller's own, which fails when it has been called `left` more times.
struct Reduction {
    int left = 1000000;
};

gcoll_status add(void *out, const void *a, const void *b, uint64_t count, gcoll_type, void *arg) {
    auto *reduction = static_cast<Reduction *>(arg);
    if (reduction->left-- <= 0)
        return GCOLL_ERR_ABORTED;
    for (uint64_t i = 0; i < count; i++)
        static_cast<float *>(out)[i] = static_cast<const float *>(a)[i] + static_cast<const float *>(b)[i];
    return GCOLL_OK;
}

// One rank's call, its memory, and the input that must not change.
class Part {
  public:
    Part(gcoll_collective collective, Style style, uint32_t rank, uint32_t size, uint64_t count, bool keeps,
         const char *algorithm = nullptr)
        : rank_(rank), size_(size) {
        gcoll_collective_options_init(&options_);
        gcoll_collective_call_init(&call_);
        options_.keep_input = keeps ? 1 : 0;
        call_.collective = collective;
        call_.count = count;
        call_.type = GCOLL_FLOAT32;
        call_.op = GCOLL_SUM;
        call_.root = size - 1;
        call_.algorithm = algorithm;
        call_.options = &options_;
        lay_out(collective, style, count);
        for (auto &[at, length] : inputs_)
            before_.emplace_back(at, at + length);
    }
    Part(const Part &) = delete;
    Part &operator=(const Part &) = delete;

    const gcoll_collective_call *call() const { return &call_; }
    void fail_after(int calls) {
        reduction_.left = calls;
        call_.op = GCOLL_USER;
        options_.user_op = &user_;
    }
    void tell() {
        options_.done = [](void *arg, gcoll_status status, const char *) {
            auto *part = static_cast<Part *>(arg);
            part->told_ = true;
            part->was_good_ = status == GCOLL_OK || part->is_kept();
        };
        options_.done_arg = this;
    }
    bool told() const { return told_; }
    bool was_good_when_told() const { return was_good_; }
    bool is_kept() const {
        for (size_t i = 0; i < inputs_.size(); i++)
            if (memcmp(inputs_[i].first, before_[i].data(), inputs_[i].second * sizeof(float)) != 0)
                return false;
        return true;
    }

  private:
    float *memory(uint64_t count) {
        buffers_.emplace_back(count + 1);
        for (uint64_t i = 0; i < count; i++)
            buffers_.back()[i] = value(rank_ + static_cast<uint32_t>(buffers_.size()) * 100, i);
        return buffers_.back().data();
    }
    void add_input(float *at, uint64_t count) { inputs_.emplace_back(at, count); }

    void lay_out(gcoll_collective collective, Style style, uint64_t count) {
        const uint64_t whole = count * size_;
        const bool is_root = rank_ == size_ - 1;
        if (style == kBuffers) {
            const bool is_broadcast = collective == GCOLL_BROADCAST;
            for (int k = 0; k < 3; k++) {
                const uint64_t length = collective == GCOLL_REDUCE_SCATTER ? whole : count;
                listed_.push_back(memory(length));
                if (!is_broadcast || (is_root && k == 0))
                    add_input(static_cast<float *>(listed_.back()), length);
            }
            options_.buffers = 3;
            if (is_broadcast)
                options_.outputs = listed_.data();
            else
                options_.inputs = listed_.data();
            return;
        }
        if (style == kList) {
            if (collective == GCOLL_ALLREDUCE) {
                counts_ = {count, 0, 3, 2 * count + 1};
                call_.entries = 4;
                call_.count = 0;
                call_.counts = counts_.data();
            }
            for (uint32_t k = 0; k < (collective == GCOLL_ALLREDUCE ? 4 : size_); k++)
                listed_.push_back(memory(collective == GCOLL_ALLREDUCE ? counts_[k] : count));
            for (uint32_t k = 0; k < listed_.size(); k++)
                if (collective != GCOLL_ALLGATHER || k == rank_)
                    add_input(static_cast<float *>(listed_[k]),
                              collective == GCOLL_ALLREDUCE ? counts_[k] : count);
            if (collective == GCOLL_ALLGATHER)
                call_.input = listed_[rank_];
            else
                call_.inputs = listed_.data();
            if (collective == GCOLL_REDUCE_SCATTER)
                call_.output = listed_[rank_];
            else
                call_.outputs = listed_.data();
            return;
        }
        const bool in_is_whole =
            collective == GCOLL_REDUCE_SCATTER || collective == GCOLL_SCATTER || collective == GCOLL_ALLTOALL;
        const bool out_is_whole =
            collective == GCOLL_ALLGATHER || collective == GCOLL_GATHER || collective == GCOLL_ALLTOALL;
        const bool has_root =
            collective == GCOLL_REDUCE || collective == GCOLL_GATHER || collective == GCOLL_SCATTER;
        if (collective == GCOLL_BROADCAST) {
            call_.output = memory(count);
            if (is_root)
                add_input(static_cast<float *>(call_.output), count);
            return;
        }
        if (style == kInPlace && (!has_root || is_root)) {
            float *all = memory(in_is_whole || out_is_whole ? whole : count);
            float *block = in_is_whole || out_is_whole ? all + rank_ * count : all;
            call_.input = out_is_whole ? block : all;
            call_.output = in_is_whole ? block : all;
            add_input(out_is_whole ? block : all, in_is_whole ? whole : count);
            return;
        }
        float *input = memory(in_is_whole ? whole : count);
        call_.input = input;
        if (collective != GCOLL_SCATTER || is_root)
            add_input(input, in_is_whole ? whole : count);
        call_.output = memory(out_is_whole ? whole : count);
    }

    uint32_t rank_, size_;
    std::vector<std::vector<float>> buffers_; // vectors move, their memory does not
    std::vector<void *> listed_;
    std::vector<uint64_t> counts_;
    gcoll_collective_options options_;
    gcoll_collective_call call_;
    Reduction reduction_;
    gcoll_user_op user_ = [this] {
        gcoll_user_op op = {};
        op.reduce = add;
        op.arg = &reduction_;
        op.commutative = 1;
        return op;
    }();
    std::vector<std::pair<float *, size_t>> inputs_;
    std::vector<std::vector<float>> before_;
    bool told_ = false, was_good_ = true;
};

struct Tally {
    int failed = 0, changed = 0;
};

// A rank dies after so many turns of the thread that drives all of them. Each call of the others that fails
// must have its input back: when options.done is called, and when its request ends.
void die(Form form, gcoll_collective collective, Style style, uint32_t size, uint64_t count, int turns,
         bool keeps, bool tells, Tally &tally, const char *algorithm = nullptr) {
    std::vector<std::unique_ptr<Part>> parts; // outlive the contexts, which write to the victim's
    Group group(job_on("inproc", size));
    const uint32_t victim = static_cast<uint32_t>(turns) % size;
    std::vector<gcoll_request *> requests(size, nullptr);
    std::vector<gcoll_operation *> operations(size, nullptr);
    std::vector<int> done(size, 0);
    for (uint32_t rank = 0; rank < size; rank++) {
        parts.push_back(std::make_unique<Part>(collective, style, rank, size, count, keeps, algorithm));
        if (tells)
            parts[rank]->tell();
        if (form == kStarted) {
            ASSERT_GCOLL_OK(gcoll_call_start(group[rank], parts[rank]->call(), &requests[rank]));
            continue;
        }
        ASSERT_GCOLL_OK(gcoll_call_create(group[rank], parts[rank]->call(), &operations[rank]));
        ASSERT_GCOLL_OK(gcoll_operation_start(operations[rank]));
    }
    auto test = [&](uint32_t rank) {
        return form == kStarted ? gcoll_request_test(&requests[rank], &done[rank])
                                : gcoll_operation_test(operations[rank], &done[rank]);
    };
    for (int turn = 0; turn < turns; turn++)
        if (const uint32_t rank = static_cast<uint32_t>(turn) % size; !done[rank])
            EXPECT_GCOLL_OK(test(rank));
    ASSERT_GCOLL_OK(gcoll_inproc_kill(group.hub(), victim));
    done[victim] = 1;
    for (int turn = 0; turn < 1000; turn++)
        for (uint32_t rank = 0; rank < size; rank++) {
            if (done[rank] || test(rank) == GCOLL_OK)
                continue;
            done[rank] = 2;
            tally.failed++;
            tally.changed += !parts[rank]->is_kept();
            if (keeps)
                EXPECT_TRUE(parts[rank]->is_kept()) << "rank " << rank;
            if (keeps && tells)
                EXPECT_TRUE(parts[rank]->told() && parts[rank]->was_good_when_told()) << "rank " << rank;
        }
    for (uint32_t rank = 0; rank < size; rank++) {
        EXPECT_NE(done[rank], 0) << "rank " << rank << " is never told";
        if (keeps && style == kApart)
            EXPECT_TRUE(parts[rank]->is_kept()) << "rank " << rank << " has another output";
        gcoll_operation_destroy(operations[rank]);
    }
}

const uint32_t kLeast = gcoll_test::repeats(2, 4), kMost = gcoll_test::repeats(5, 4); // ranks

class Keeps : public testing::TestWithParam<int> {};

TEST_P(Keeps, InputsOfCallsWhosePeerDies) {
    const gcoll_collective collective = static_cast<gcoll_collective>(GetParam());
    Tally kept, lost;
    for (Style style : {kInPlace, kApart, kBuffers, kList})
        for (uint32_t size = kLeast; has(collective, style) && size <= kMost; size++)
            for (int turns = 0; turns < 24; turns++) {
                const uint64_t count = turns % 3 == 0 ? 1 : turns % 3 == 1 ? 17 : 1001;
                const Form form = turns % 2 ? kStarted : kPersistent;
                SCOPED_TRACE(std::string(kStyles[style]) + ", " + std::to_string(size) + " ranks, " +
                             std::to_string(count) + " elements, turn " + std::to_string(turns));
                die(form, collective, style, size, count, turns, true, turns % 4 < 2, kept);
                if (turns % 5 == 4 || collective == GCOLL_REDUCE) // to see that the test would notice
                    die(form, collective, style, size, count, turns, false, false, lost);
                if (HasFailure())
                    return;
            }
    EXPECT_GT(kept.failed, 0);
    EXPECT_EQ(kept.changed, 0);
    printf("%d calls failed; without keep_input, %d of %d lost their input\n", kept.failed, lost.changed,
           lost.failed);
    const bool overwrites =
        collective == GCOLL_ALLREDUCE || collective == GCOLL_REDUCE || collective == GCOLL_REDUCE_SCATTER;
    if (overwrites) // else this test shows nothing
        EXPECT_GT(lost.changed, 0);
}

INSTANTIATE_TEST_SUITE_P(Collectives, Keeps,
                         testing::Values(GCOLL_ALLREDUCE, GCOLL_BROADCAST, GCOLL_REDUCE, GCOLL_REDUCE_SCATTER,
                                         GCOLL_ALLGATHER, GCOLL_GATHER, GCOLL_SCATTER, GCOLL_ALLTOALL,
                                         GCOLL_PAIRWISE_EXCHANGE),
                         [](const auto &param) {
                             return std::string(
                                 gcoll_collective_name(static_cast<gcoll_collective>(param.param)));
                         });

TEST(KeepsInput, WithEveryAlgorithmInPlace) {
    for (gcoll_collective collective : {GCOLL_ALLREDUCE, GCOLL_REDUCE, GCOLL_REDUCE_SCATTER, GCOLL_ALLGATHER})
        for (const std::string &name : algorithms(gcoll_collective_name(collective)))
            for (uint32_t size : {2u, 4u})
                for (int turns = 1; turns < 24; turns += 5) {
                    Tally tally;
                    int uses_arrival = 0;
                    SCOPED_TRACE(name + ", " + std::to_string(size) + " ranks, turn " +
                                 std::to_string(turns));
                    ASSERT_GCOLL_OK(gcoll_algorithm_uses_arrival(gcoll_collective_name(collective),
                                                                 name.c_str(), &uses_arrival));
                    if (!uses_arrival)
                        die(kStarted, collective, kInPlace, size, 333, turns, true, false, tally,
                            name.c_str());
                    if (HasFailure())
                        return;
                }
}

// The caller's own reduction fails on one rank. All forms, all ranks.
class KeepsWithReduction : public testing::TestWithParam<const char *> {};

TEST_P(KeepsWithReduction, InEveryForm) {
    std::atomic<int> failed{0};
    for (gcoll_collective collective : {GCOLL_ALLREDUCE, GCOLL_REDUCE, GCOLL_REDUCE_SCATTER})
        for (Style style : {kInPlace, kApart, kBuffers, kList})
            for (uint32_t size = 2; has(collective, style) && size <= 5; size++)
                for (Form form : {kBlocking, kStarted, kPersistent}) {
                    SCOPED_TRACE(std::string(gcoll_collective_name(collective)) + ", " + kStyles[style] +
                                 ", " + std::to_string(size) + " ranks, form " + std::to_string(form));
                    run_threads(job_on(GetParam(), size), [&](uint32_t rank, gcoll_context *context) {
                        Part part(collective, style, rank, size, 257, true);
                        part.fail_after(rank == size / 2 ? 1 : 1000000);
                        gcoll_status status;
                        gcoll_request *request = nullptr;
                        gcoll_operation *operation = nullptr;
                        if (form == kBlocking)
                            status = gcoll_call_run(context, part.call());
                        else if (form == kStarted) {
                            status = gcoll_call_start(context, part.call(), &request);
                            EXPECT_GCOLL_OK(status);
                            status = gcoll_request_wait(&request);
                        } else {
                            EXPECT_GCOLL_OK(gcoll_call_create(context, part.call(), &operation));
                            status = gcoll_operation_run(operation);
                        }
                        failed += status != GCOLL_OK;
                        if (status != GCOLL_OK)
                            EXPECT_TRUE(part.is_kept()) << "rank " << rank;
                        gcoll_operation_destroy(operation);
                    });
                    if (HasFailure())
                        return;
                }
    EXPECT_GT(failed.load(), 50);
}

INSTANTIATE_TEST_SUITE_P(Over, KeepsWithReduction, transports(),
                         [](const auto &param) { return std::string(param.param); });

// Calls that nobody ends: their request goes with the context, their operation is destroyed in flight.
TEST(KeepsInput, WhenItsContextOrOperationGoes) {
    for (Form form : {kStarted, kPersistent})
        for (bool context_first : {false, true})
            for (bool tells : {false, true})
                for (int turns : {0, 4, 9}) {
                    SCOPED_TRACE("form " + std::to_string(form) + ", turns " + std::to_string(turns));
                    constexpr uint32_t kRanks = 3;
                    std::vector<std::unique_ptr<Part>> parts;
                    Group group(job_on("inproc", kRanks));
                    std::vector<gcoll_request *> requests(kRanks, nullptr);
                    std::vector<gcoll_operation *> operations(kRanks, nullptr);
                    std::vector<int> done(kRanks, 0);
                    for (uint32_t rank = 0; rank < kRanks; rank++) {
                        parts.push_back(std::make_unique<Part>(GCOLL_ALLREDUCE, kInPlace, rank, kRanks, 501,
                                                               true, "ring"));
                        if (tells)
                            parts[rank]->tell();
                        ASSERT_GCOLL_OK(
                            form == kStarted
                                ? gcoll_call_start(group[rank], parts[rank]->call(), &requests[rank])
                                : gcoll_call_create(group[rank], parts[rank]->call(), &operations[rank]));
                        if (form == kPersistent)
                            ASSERT_GCOLL_OK(gcoll_operation_start(operations[rank]));
                    }
                    for (int turn = 0; turn < turns; turn++)
                        if (const uint32_t rank = static_cast<uint32_t>(turn) % kRanks; !done[rank])
                            EXPECT_GCOLL_OK(form == kStarted
                                                ? gcoll_request_test(&requests[rank], &done[rank])
                                                : gcoll_operation_test(operations[rank], &done[rank]));
                    for (uint32_t rank = 0; rank < kRanks; rank++) {
                        if (!context_first)
                            gcoll_operation_destroy(operations[rank]);
                        if (context_first || form == kStarted)
                            group.leave(rank);
                        if (!done[rank])
                            EXPECT_TRUE(parts[rank]->is_kept()) << "rank " << rank;
                        if (!done[rank] && tells)
                            EXPECT_TRUE(parts[rank]->told() && parts[rank]->was_good_when_told());
                        if (context_first)
                            gcoll_operation_destroy(operations[rank]);
                    }
                }
}

// With the option, calls that succeed give the same results; without it later, the input is not touched.
TEST(KeepsInput, AndResultsStayRight) {
    run_threads(
        3, "inproc",
        [](uint32_t rank, gcoll_context *context) {
            gcoll_allreduce_options options;
            gcoll_allreduce_options_init(&options);
            for (int round = 0; round < 6; round++) {
                options.keep_input = round % 2;
                std::vector<float> data(99, static_cast<float>(rank + 1));
                EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32,
                                                GCOLL_SUM, &options));
                EXPECT_EQ(data, std::vector<float>(99, 6));
            }
            options.keep_input = 2;
            EXPECT_EQ(gcoll_allreduce(context, nullptr, nullptr, 0, GCOLL_FLOAT32, GCOLL_SUM, &options),
                      GCOLL_ERR_INVALID);
            EXPECT_TRUE(says("options.keep_input: is 2")) << gcoll_last_error();
        });
}

} // namespace
