// Ranks that learn which algorithm is fastest. An algorithm that is slow and claims to cost nothing is
// registered, so auto takes it; then the ranks must find out. That all take the same one in each call is
// proved by each call that succeeds: its fingerprint names the algorithm.
#include "gcoll/arrival.h"
#include "test/kit/collective_support.h"
#include "test/kit/sanitizer.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
#include "gcoll/plan.h"
extern const gcoll_algorithm gcoll_allreduce_recursive_doubling_algorithm,
    gcoll_broadcast_one_to_all_algorithm;
#include "transport/inproc/inproc.h"
// tried_peek.c: how often an algorithm, with any options, is among those that are tried for a call with
// float32, if `room` are (0: as many as ever); with a colon, that text alone, which may be a variant.
uint32_t tried_peek(gcoll_context *context, gcoll_collective collective, uint64_t count,
                    const char *algorithm, uint32_t room);
// The kinds of calls that need not ask what was learned, though a lesson of another kind is to begin at one
// of them.
uint32_t unasked_peek(gcoll_context *context);
// How often calls of the context asked what was learned, since this was called first; of one context at a
// time.
uint64_t asked_peek(gcoll_context *context);
// How many of the next allreduces of so many elements need not ask, if they block.
uint64_t excused_peek(gcoll_context *context, uint64_t count);
}

namespace {

using gcoll_test::Job;
using gcoll_test::run_threads;
using gcoll_test::told;

// Along a chain of ranks and back.
void chain_plan(const gcoll_problem *p, gcoll_builder *b) {
    const uint32_t rank = p->rank, last = p->size - 1;
    const gcoll_ref in = gcoll_in(0, 0), out = gcoll_out(0, 0);
    if (rank > 0)
        gcoll_plan_recv_reduce_left(b, rank - 1, out, in, p->count);
    if (rank < last) {
        gcoll_plan_send(b, rank + 1, rank > 0 ? out : in, p->count);
        gcoll_plan_recv(b, rank + 1, out, p->count);
    }
    if (rank > 0)
        gcoll_plan_send(b, rank - 1, out, p->count);
}
// The same after many rounds of messages that nobody needs.
constexpr uint32_t kRounds = 80;
void liar_plan(const gcoll_problem *p, gcoll_builder *b) {
    const gcoll_ref scratch = gcoll_plan_scratch(b, p->count);
    for (uint32_t i = 0; i < kRounds; i++) {
        gcoll_plan_round_at_least(b, i);
        gcoll_plan_send(b, (p->rank + 1) % p->size, gcoll_in(0, 0), p->count);
        gcoll_plan_recv(b, (p->rank + p->size - 1) % p->size, scratch, p->count);
        gcoll_plan_fence(b);
    }
    chain_plan(p, b);
}
uint32_t liar_claims(const gcoll_problem *) {
    return GCOLL_CLAIM_ALL;
}
// Two fifths of a usual one's, whatever was fitted: less than any other's, and so much that others may be
// tried, which nothing is that is predicted to take three times as long.
constexpr double kPart = 0.4;
const gcoll_algorithm &usual(const gcoll_problem *p) {
    return p->collective == GCOLL_BROADCAST ? gcoll_broadcast_one_to_all_algorithm
                                            : gcoll_allreduce_recursive_doubling_algorithm;
}
void liar_cost(const gcoll_problem *p, gcoll_cost *cost) {
    usual(p).cost(p, cost);
    for (double *part : {&cost->steps, &cost->sent, &cost->reduced})
        *part *= kPart;
    cost->scratch = static_cast<double>(p->count);
}
void liar_load(const gcoll_problem *p, gcoll_load *load) {
    usual(p).load(p, load);
    for (double *part : {&load->hops, &load->messages, &load->sent, &load->reduced, &load->within_steps,
                         &load->within_hops, &load->within_sent})
        *part *= kPart;
}
const gcoll_algorithm kLiar = [] {
    gcoll_algorithm liar = {};
    liar.name = "liar";
    liar.collective = GCOLL_ALLREDUCE;
    liar.summary = "slow, and says that it costs next to nothing";
    liar.source = "test/learn/learn_test.cc";
    liar.plan = liar_plan;
    liar.claims = liar_claims;
    liar.cost = liar_cost;
    liar.load = liar_load;
    return liar;
}();

Job learning(uint32_t size, const char *transport, const char *tuning = nullptr) {
    Job job;
    job.size = size;
    job.transport = transport;
    job.adjust = [tuning](uint32_t, gcoll_context_options *options) { options->tuning = tuning; };
    return job;
}

// What the next such call takes, and the whole explanation.
std::string explain(gcoll_context *context, uint64_t count, std::string *all = nullptr,
                    gcoll_same same = GCOLL_SAME_NOWHERE) {
    char text[8192];
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.same = same;
    EXPECT_GCOLL_OK(gcoll_context_explain(context, GCOLL_ALLREDUCE, count, GCOLL_FLOAT32, GCOLL_SUM, 0,
                                          &options, text, sizeof text));
    const std::string first(text, strcspn(text, "\n"));
    if (all)
        *all = text;
    return first.substr(first.rfind(' ') + 1);
}

// The sum of small integers, so that it is exact in any order.
float value(uint32_t rank, uint64_t call, uint64_t i) {
    return static_cast<float>((i + call) % 7 * (rank + 1));
}
void fill(std::vector<float> &data, uint32_t rank, uint64_t call) {
    for (uint64_t i = 0; i < data.size(); i++)
        data[i] = value(rank, call, i);
}
void check(const std::vector<float> &sum, uint32_t size, uint64_t call) {
    for (uint64_t i = 0; i < sum.size(); i++) // nearly always right: the macro costs more than the comparison
        if (const float want = value(size * (size + 1) / 2 - 1, call, i); sum[i] != want)
            ASSERT_EQ(sum[i], want) << "call " << call << ", element " << i;
}

gcoll_status blocking(gcoll_context *context, uint64_t count, uint64_t call,
                      gcoll_same same = GCOLL_SAME_NOWHERE) {
    std::vector<float> data(count);
    fill(data, gcoll_context_rank(context), call);
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.same = same;
    const gcoll_status status =
        gcoll_allreduce(context, nullptr, data.data(), count, GCOLL_FLOAT32, GCOLL_SUM, &options);
    if (status == GCOLL_OK)
        check(data, gcoll_context_size(context), call);
    return status;
}

// Calls until another algorithm than the slow one is kept, and nothing is tried any more: all ranks end after
// the same call. How many it takes without noise is judge_test's; here other tests may have the processors,
// and what is not clear yet is tried again. False: it is not replaced.
constexpr uint64_t kMost = 4000;
template <class Call>
bool until_replaced(gcoll_context *context, uint64_t count, Call call, uint32_t window = 1) {
    const uint64_t every = window < 20 ? 20 / window : 1;
    for (uint64_t i = 0; i < kMost; i++) {
        call(i);
        std::string all;
        if (testing::Test::HasFailure() ||
            (i % every == every - 1 && explain(context, count, &all) != "liar" &&
             all.find(" is kept") != std::string::npos))
            return !testing::Test::HasFailure();
    }
    return false;
}

class Learn : public testing::TestWithParam<const char *> {};

TEST_P(Learn, ASlowChoiceIsReplaced) {
    for (uint32_t size : {2u, 3u, 6u}) {
        std::mutex lock;
        std::map<uint32_t, std::string> kept;
        run_threads(learning(size, GetParam()), [&](uint32_t rank, gcoll_context *context) {
            ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
            EXPECT_EQ(explain(context, 100), "liar");
            EXPECT_TRUE(until_replaced(
                context, 100, [&](uint64_t call) { ASSERT_GCOLL_OK(blocking(context, 100, call)); }));
            std::string all;
            const std::string name = explain(context, 100, &all);
            EXPECT_NE(all.find("learned from "), std::string::npos) << all;
            if (rank == 0)
                EXPECT_NE(all.find("; measured: liar "), std::string::npos) << all;
            const std::lock_guard<std::mutex> guard(lock);
            kept[rank] = name;
        });
        for (const auto &[rank, name] : kept)
            EXPECT_EQ(name, kept[0]) << "rank " << rank << " of " << size;
    }
}

TEST_P(Learn, AnOperationChangesItsAlgorithmInTheSameRunOnAllRanks) {
    constexpr uint32_t kSize = 4;
    std::vector<std::vector<std::string>> taken(kSize);
    run_threads(learning(kSize, GetParam()), [&](uint32_t rank, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
        std::vector<float> in(300), out(300);
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.same = GCOLL_SAME_NOWHERE;
        gcoll_operation *operation = nullptr;
        ASSERT_GCOLL_OK(gcoll_allreduce_create(context, in.data(), out.data(), in.size(), GCOLL_FLOAT32,
                                               GCOLL_SUM, &options, &operation));
        EXPECT_TRUE(until_replaced(context, 300, [&](uint64_t call) {
            fill(in, rank, call);
            ASSERT_GCOLL_OK(gcoll_operation_run(operation));
            check(out, kSize, call);
            taken[rank].push_back(gcoll_operation_algorithm(operation));
        }));
        gcoll_operation_destroy(operation);
    });
    for (uint32_t rank = 1; rank < kSize; rank++)
        EXPECT_EQ(taken[rank], taken[0]) << "rank " << rank;
    EXPECT_EQ(taken[0].front(), "liar");
}

// A rank may start as many calls as it likes before others do, and they may wait for it meanwhile: so no
// start waits for what is learned.
TEST_P(Learn, StartedCallsNeverWait) {
    for (uint32_t blocked : {0u, 3u, 30u, 77u}) // calls before
        run_threads(
            learning(3, GetParam()),
            [&](uint32_t rank, gcoll_context *context) {
                constexpr uint32_t kAtOnce = 150;
                for (uint64_t call = 0; call < blocked; call++)
                    ASSERT_GCOLL_OK(blocking(context, 64, call));
                std::vector<std::vector<float>> data(kAtOnce, std::vector<float>(64));
                std::vector<gcoll_request *> requests(kAtOnce);
                const auto start = [&] {
                    for (uint32_t k = 0; k < kAtOnce; k++) {
                        fill(data[k], rank, k);
                        gcoll_allreduce_options options;
                        gcoll_allreduce_options_init(&options);
                        options.same = GCOLL_SAME_NOWHERE;
                        ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data[k].data(), 64,
                                                              GCOLL_FLOAT32, GCOLL_SUM, &options,
                                                              &requests[k]));
                    }
                };
                for (int round = 0; round < 3; round++) {
                    gcoll_pair *pair;
                    ASSERT_GCOLL_OK(gcoll_context_pair(context, rank == 0 ? 1 : 0, &pair));
                    int32_t word = 1;
                    if (rank == 0) {
                        start();
                        ASSERT_GCOLL_OK(gcoll_pair_send(pair, 5, &word, sizeof word));
                    } else {
                        if (rank == 1)
                            ASSERT_GCOLL_OK(gcoll_pair_recv(pair, 5, &word, sizeof word));
                        start();
                    }
                    for (uint32_t k = 0; k < kAtOnce; k++) {
                        const uint32_t at = round % 2 ? k : kAtOnce - 1 - k;
                        ASSERT_GCOLL_OK(gcoll_request_wait(&requests[at]));
                        check(data[at], 3, at);
                    }
                }
                for (uint64_t call = 0; call < 100; call++)
                    ASSERT_GCOLL_OK(blocking(context, 64, call));
            });
}

// Starts several calls of two counts, as those of buckets of gradients are, and waits for all of them.
class Buckets {
  public:
    Buckets(gcoll_context *context, uint32_t window) : context_(context), data_(window) {}
    void run(uint64_t call) {
        std::vector<gcoll_request *> requests(data_.size());
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.same = GCOLL_SAME_NOWHERE;
        for (size_t k = 0; k < data_.size(); k++) {
            data_[k].resize(k % 3 == 2 ? 40 : 64);
            fill(data_[k], gcoll_context_rank(context_), call + k);
            ASSERT_GCOLL_OK(gcoll_allreduce_start(context_, nullptr, data_[k].data(), data_[k].size(),
                                                  GCOLL_FLOAT32, GCOLL_SUM, &options, &requests[k]));
        }
        for (size_t k = 0; k < data_.size(); k++) {
            ASSERT_GCOLL_OK(gcoll_request_wait(&requests[k]));
            check(data_[k], gcoll_context_size(context_), call + k);
        }
    }

  private:
    gcoll_context *context_;
    std::vector<std::vector<float>> data_;
};

TEST_P(Learn, StartedCallsLearn) {
    for (uint32_t window : {1u, 4u, 40u}) // the last is more than there are calls between two lessons
        run_threads(
            learning(3, GetParam()),
            [&](uint32_t, gcoll_context *context) {
                ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
                Buckets buckets(context, window);
                EXPECT_TRUE(until_replaced(
                    context, 64, [&](uint64_t call) { buckets.run(call); }))
                    << "window " << window;
            });
}

// The same by operations, which take another run, and with options.done.
TEST_P(Learn, StartedOperationsLearn) {
    constexpr uint32_t kWindow = 30;
    run_threads(learning(3, GetParam()), [&](uint32_t rank, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
        std::vector<std::vector<float>> in(kWindow, std::vector<float>(64)), out = in;
        std::vector<gcoll_operation *> operations(kWindow);
        uint32_t ended = 0, begun = 0;
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.same = GCOLL_SAME_NOWHERE;
        options.done_arg = &ended;
        for (uint32_t k = 0; k < kWindow; k++) {
            options.done = k % 2 ? [](void *arg, gcoll_status status,
                                      const char *) { *static_cast<uint32_t *>(arg) += status == GCOLL_OK; }
                                 : static_cast<gcoll_done_fn>(nullptr);
            ASSERT_GCOLL_OK(gcoll_allreduce_create(context, in[k].data(), out[k].data(), 64, GCOLL_FLOAT32,
                                                   GCOLL_SUM, &options, &operations[k]));
        }
        EXPECT_TRUE(until_replaced(
            context, 64,
            [&](uint64_t call) {
                for (uint32_t k = 0; k < kWindow; k++) {
                    fill(in[k], rank, call + k);
                    ASSERT_GCOLL_OK(gcoll_operation_start(operations[k]));
                    begun += k % 2;
                }
                for (uint32_t k = kWindow; k-- > 0;) {
                    ASSERT_GCOLL_OK(gcoll_operation_wait(operations[k]));
                    check(out[k], 3, call + k);
                }
            },
            kWindow));
        EXPECT_EQ(ended, begun);
        for (gcoll_operation *operation : operations)
            gcoll_operation_destroy(operation);
    });
}

// Calls behind one that is held: other kinds, that are started or block, keep their order and are right.
TEST_P(Learn, CallsKeepTheirOrderBehindThoseThatAreHeld) {
    constexpr uint32_t kSize = 3, kAtOnce = 60;
    run_threads(learning(kSize, GetParam()), [&](uint32_t rank, gcoll_context *context) {
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.same = GCOLL_SAME_NOWHERE;
        gcoll_operation *operation = nullptr;
        float word = 0, words[kSize] = {};
        ASSERT_GCOLL_OK(gcoll_allgather_create(context, &word, words, 1, GCOLL_FLOAT32, nullptr, &operation));
        std::vector<std::vector<float>> data(kAtOnce, std::vector<float>(64));
        for (uint64_t round = 0; round < 12; round++) {
            std::vector<gcoll_request *> requests(kAtOnce);
            for (uint32_t k = 0; k < kAtOnce; k++) {
                fill(data[k], rank, round + k);
                ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data[k].data(), 64, GCOLL_FLOAT32,
                                                      GCOLL_SUM, &options, &requests[k]));
            }
            gcoll_request *broadcast = nullptr;
            std::vector<float> sent(100, rank == round % kSize ? static_cast<float>(round) : -1.F);
            ASSERT_GCOLL_OK(gcoll_broadcast_start(context, sent.data(), sent.size(), GCOLL_FLOAT32,
                                                  round % kSize, nullptr, &broadcast));
            word = static_cast<float>(round * kSize + rank);
            ASSERT_GCOLL_OK(gcoll_operation_start(operation));
            std::vector<float> last(50);
            fill(last, rank, round);
            if (round % 2) {
                ASSERT_GCOLL_OK(blocking(context, 64, round));
            } else {
                ASSERT_GCOLL_OK(
                    gcoll_allreduce(context, nullptr, last.data(), 50, GCOLL_FLOAT32, GCOLL_SUM, nullptr));
                check(last, kSize, round);
            }
            ASSERT_GCOLL_OK(gcoll_operation_wait(operation));
            for (uint32_t from = 0; from < kSize; from++)
                EXPECT_EQ(words[from], static_cast<float>(round * kSize + from));
            ASSERT_GCOLL_OK(gcoll_request_wait(&broadcast));
            EXPECT_EQ(sent, std::vector<float>(100, static_cast<float>(round)));
            for (uint32_t k = 0; k < kAtOnce; k++) {
                ASSERT_GCOLL_OK(gcoll_request_wait(&requests[k]));
                check(data[k], kSize, round + k);
            }
        }
        gcoll_operation_destroy(operation);
    });
}

// Calls of several kinds, the same on all ranks; the form of each is the rank's own, and so is when it ends
// it.
class Mix {
  public:
    Mix(gcoll_context *context, uint64_t seed)
        : context_(context), rank_(gcoll_context_rank(context)), size_(gcoll_context_size(context)),
          common_(seed), own_(seed * 100 + rank_) {
        gcoll_allreduce_options_init(&options_);
        options_.same = GCOLL_SAME_NOWHERE;
    }
    void run(uint32_t calls) {
        for (uint64_t call = 0; call < calls && !testing::Test::HasFailure(); call++) {
            begin(call);
            while (!flying_.empty() && (flying_.size() > 70 || own_() % 4 == 0) &&
                   !testing::Test::HasFailure())
                end(own_() % flying_.size());
        }
        while (!flying_.empty() && !testing::Test::HasFailure())
            end(own_() % flying_.size());
    }

  private:
    struct Flying {
        gcoll_request *request = nullptr;
        gcoll_operation *operation = nullptr;
        std::vector<float> data, want;
    };
    void begin(uint64_t call) {
        auto flying = std::make_unique<Flying>();
        std::vector<float> &data = flying->data, &want = flying->want;
        const uint32_t kind = common_() % 8, root = common_() % size_, form = own_() % 8;
        uint64_t count = kind == 6 ? 1 + common_() % 50 : kind == 7 ? 40 : 64;
        if (kind == 7 && common_() % 2 == 0) // more kinds than a context knows
            count = 100 + common_() % 100;
        float *bytes = nullptr;
        if (kind == 5) { // a root that may be ahead of the others
            for (uint64_t i = 0; i < count; i++) {
                want.push_back(value(root, call, i));
                data.push_back(rank_ == root ? want.back() : -1.F);
            }
            bytes = data.data();
            if (form == 0)
                ASSERT_GCOLL_OK(gcoll_broadcast(context_, bytes, count, GCOLL_FLOAT32, root, nullptr));
            else
                ASSERT_GCOLL_OK(gcoll_broadcast_start(context_, bytes, count, GCOLL_FLOAT32, root, nullptr,
                                                      &flying->request));
        } else {
            data.resize(count);
            fill(data, rank_, call);
            bytes = data.data();
            for (uint64_t i = 0; i < count; i++)
                want.push_back(value(size_ * (size_ + 1) / 2 - 1, call, i));
            if (form == 0) {
                ASSERT_GCOLL_OK(
                    gcoll_allreduce(context_, nullptr, bytes, count, GCOLL_FLOAT32, GCOLL_SUM, &options_));
            } else if (form == 1) {
                ASSERT_GCOLL_OK(gcoll_allreduce_create(context_, nullptr, bytes, count, GCOLL_FLOAT32,
                                                       GCOLL_SUM, &options_, &flying->operation));
                ASSERT_GCOLL_OK(gcoll_operation_start(flying->operation));
            } else {
                ASSERT_GCOLL_OK(gcoll_allreduce_start(context_, nullptr, bytes, count, GCOLL_FLOAT32,
                                                      GCOLL_SUM, &options_, &flying->request));
            }
        }
        flying_.push_back(std::move(flying));
        if (form == 0)
            finish(flying_.size() - 1);
    }
    void end(size_t at) {
        Flying &flying = *flying_[at];
        int done = 1;
        if (flying.operation) {
            ASSERT_GCOLL_OK(gcoll_operation_wait(flying.operation));
            gcoll_operation_destroy(flying.operation);
        } else if (own_() % 3 != 0) {
            ASSERT_GCOLL_OK(gcoll_request_wait(&flying.request));
        } else {
            ASSERT_GCOLL_OK(gcoll_request_test(&flying.request, &done));
        }
        if (done)
            finish(at);
    }
    void finish(size_t at) {
        EXPECT_EQ(flying_[at]->data, flying_[at]->want);
        std::swap(flying_[at], flying_.back());
        flying_.pop_back();
    }

    gcoll_context *context_;
    uint32_t rank_, size_;
    std::mt19937_64 common_, own_;
    gcoll_allreduce_options options_;
    std::vector<std::unique_ptr<Flying>> flying_;
};

TEST_P(Learn, AnyMixOfCallsInAnyOrder) {
    for (uint64_t seed = 1; seed <= gcoll_test::repeats(8, 4); seed++)
        run_threads(
            learning(2 + seed % 5, GetParam()),
            [seed](uint32_t, gcoll_context *context) { Mix(context, seed).run(600); });
}

// A long call: so each is counted while its kind is watched.
gcoll_status sleeping_sum(void *result, const void *left, const void *right, uint64_t count, gcoll_type,
                          void *) {
    std::this_thread::sleep_for(std::chrono::microseconds(700));
    for (uint64_t i = 0; i < count; i++)
        static_cast<float *>(result)[i] =
            static_cast<const float *>(left)[i] + static_cast<const float *>(right)[i];
    return GCOLL_OK;
}

// Calls of two kinds, started far ahead: what is decided for one kind lets its calls begin until one of the
// other kind is undecided, and calls behind that may have been taught before those between.
TEST_P(Learn, CallsOfTwoKindsAreHeldTogether) {
    run_threads(
        learning(2, GetParam()),
        [&](uint32_t rank, gcoll_context *context) {
            constexpr size_t kMostAhead = 150;
            gcoll_user_op op = {};
            op.reduce = sleeping_sum;
            op.commutative = 1;
            gcoll_allreduce_options options;
            gcoll_allreduce_options_init(&options);
            options.user_op = &op;
            options.same = GCOLL_SAME_NOWHERE;
            std::mt19937 common(1), own(rank);
            std::deque<std::pair<gcoll_request *, std::unique_ptr<std::vector<float>>>> ahead;
            const auto end = [&] {
                ASSERT_GCOLL_OK(gcoll_request_wait(&ahead.front().first));
                for (float sum : *ahead.front().second)
                    ASSERT_EQ(sum, 3);
                ahead.pop_front();
            };
            for (int call = 0; call < 2400 && !testing::Test::HasFailure();) {
                const bool is_mixed = common() % 3 == 0;
                const uint32_t burst = call < 800 ? 1 : 1 + common() % 60, kind = common() % 2;
                for (uint32_t i = 0; i < burst; i++, call++) {
                    ahead.emplace_back(nullptr, std::make_unique<std::vector<float>>(
                                                    is_mixed ? 16 << common() % 2 : 16 << kind,
                                                    static_cast<float>(rank + 1)));
                    ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, ahead.back().second->data(),
                                                          ahead.back().second->size(), GCOLL_FLOAT32,
                                                          GCOLL_USER, &options, &ahead.back().first));
                }
                const size_t left = call < 800 ? 0 : own() % kMostAhead;
                while (ahead.size() > left)
                    ASSERT_NO_FATAL_FAILURE(end());
            }
            while (!ahead.empty())
                ASSERT_NO_FATAL_FAILURE(end());
        });
}

// A progress thread begins what is held; nobody waits for requests that are not returned.
TEST_P(Learn, CallsWithoutARequestLearnOnAProgressThread) {
    constexpr uint32_t kAtOnce = 50;
    Job job = learning(3, GetParam());
    job.adjust = [](uint32_t, gcoll_context_options *options) {
        options->tuning = nullptr;
        options->progress_thread = 1;
    };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
        std::vector<std::vector<float>> data(kAtOnce, std::vector<float>(64));
        struct {
            std::mutex lock;
            std::condition_variable changed;
            uint64_t count = 0;
        } ended;
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.same = GCOLL_SAME_NOWHERE;
        options.done_arg = &ended;
        options.done = [](void *arg, gcoll_status status, const char *text) {
            EXPECT_EQ(status, GCOLL_OK) << text;
            auto *all = static_cast<decltype(ended) *>(arg);
            const std::lock_guard<std::mutex> guard(all->lock);
            all->count++;
            all->changed.notify_one();
        };
        EXPECT_TRUE(until_replaced(
            context, 64,
            [&](uint64_t call) {
                for (uint32_t k = 0; k < kAtOnce; k++) {
                    fill(data[k], rank, call + k);
                    ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data[k].data(), 64, GCOLL_FLOAT32,
                                                          GCOLL_SUM, &options, nullptr));
                }
                std::unique_lock<std::mutex> guard(ended.lock);
                ended.changed.wait(guard, [&] { return ended.count == kAtOnce * (call + 1); });
                for (uint32_t k = 0; k < kAtOnce; k++)
                    check(data[k], 3, call + k);
            },
            kAtOnce));
    });
}

// Rank 0 starts no call, so what the others hold is not decided: each of theirs ends with the cause.
TEST_P(Learn, HeldCallsEndWithTheContext) {
    constexpr uint32_t kAtOnce = 50;
    for (const bool destroys : {false, true}) {
        std::atomic<uint32_t> ready{0};
        std::atomic<bool> has_ended{false};
        std::array<std::vector<gcoll_operation *>, 3> all; // they and the buffers outlive the contexts
        std::array<std::vector<std::vector<float>>, 3> buffers;
        run_threads(learning(3, GetParam()), [&](uint32_t rank, gcoll_context *context) {
            for (uint64_t call = 0; call < 20; call++)
                ASSERT_GCOLL_OK(blocking(context, 64, call));
            gcoll_allreduce_options options;
            gcoll_allreduce_options_init(&options);
            options.same = GCOLL_SAME_NOWHERE;
            std::vector<std::vector<float>> &data = buffers[rank];
            data.assign(kAtOnce, std::vector<float>(64));
            std::vector<gcoll_operation *> &operations = all[rank];
            operations.resize(kAtOnce);
            std::vector<gcoll_request *> requests(kAtOnce);
            for (uint32_t k = 0; k < kAtOnce && rank != 0; k++)
                if (k % 2)
                    ASSERT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, data[k].data(), 64,
                                                           GCOLL_FLOAT32, GCOLL_SUM, &options,
                                                           &operations[k]));
            for (uint32_t k = 0; k < kAtOnce && rank != 0; k++)
                if (k % 2)
                    ASSERT_GCOLL_OK(gcoll_operation_start(operations[k]));
                else
                    ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data[k].data(), 64, GCOLL_FLOAT32,
                                                          GCOLL_SUM, &options, &requests[k]));
            ready++;
            while (ready < 3)
                std::this_thread::yield();
            if (destroys && rank != 0) { // the last one is held, and breaks the context
                gcoll_operation_destroy(operations[kAtOnce - 1]);
                operations[kAtOnce - 1] = nullptr;
            } else if (!destroys && rank == 0) {
                gcoll_context_abort(context, "enough");
            }
            for (uint32_t k = 0; k < kAtOnce && rank == 1; k++) { // rank 2 leaves all to its context
                if (k % 2 && !operations[k])
                    continue;
                const gcoll_status status =
                    k % 2 ? gcoll_operation_wait(operations[k]) : gcoll_request_wait(&requests[k]);
                EXPECT_NE(status, GCOLL_OK) << k;
                if (!destroys)
                    EXPECT_NE(std::string(gcoll_last_error()).find("enough"), std::string::npos)
                        << gcoll_last_error();
            }
            if (rank == 1)
                has_ended = true;
            while (rank == 2 && !has_ended) // else its leaving may be the cause
                std::this_thread::yield();
        });
        for (const std::vector<gcoll_operation *> &operations : all)
            for (gcoll_operation *operation : operations)
                gcoll_operation_destroy(operation);
    }
}

// Blocking, started and persistent calls of one kind count together.
TEST_P(Learn, FormsOfACallMix) {
    constexpr uint32_t kSize = 3;
    run_threads(learning(kSize, GetParam()), [&](uint32_t rank, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.same = GCOLL_SAME_NOWHERE;
        std::vector<float> in(50), out(50);
        gcoll_operation *operation = nullptr;
        ASSERT_GCOLL_OK(gcoll_allreduce_create(context, in.data(), out.data(), 50, GCOLL_FLOAT32, GCOLL_SUM,
                                               &options, &operation));
        EXPECT_TRUE(until_replaced(context, 50, [&](uint64_t call) {
            fill(in, rank, call);
            gcoll_request *request = nullptr;
            if (call % 5 == 0) {
                ASSERT_GCOLL_OK(blocking(context, 50, call));
                return;
            }
            if (call % 5 == 1) {
                ASSERT_GCOLL_OK(gcoll_operation_run(operation));
            } else {
                ASSERT_GCOLL_OK(gcoll_allreduce_start(context, in.data(), out.data(), 50, GCOLL_FLOAT32,
                                                      GCOLL_SUM, &options, &request));
                ASSERT_GCOLL_OK(gcoll_request_wait(&request));
            }
            check(out, kSize, call);
        }));
        gcoll_operation_destroy(operation);
    });
}

// What a rank has for itself makes no difference: a list of buffers, options.done, a copy of the input, the
// form of the call.
TEST_P(Learn, RanksMayCallInDifferentWays) {
    constexpr uint32_t kSize = 5;
    constexpr uint64_t kCount = 60;
    run_threads(learning(kSize, GetParam()), [&](uint32_t rank, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
        std::vector<float> in(kCount), out(kCount);
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.same = GCOLL_SAME_NOWHERE;
        std::atomic<uint32_t> told_of{0};
        gcoll_operation *operation = nullptr;
        if (rank == 1 || rank == 4) {
            ASSERT_GCOLL_OK(gcoll_allreduce_create(context, in.data(), out.data(), kCount, GCOLL_FLOAT32,
                                                   GCOLL_SUM, &options, &operation));
        } else if (rank == 2) {
            options.done = [](void *arg, gcoll_status status, const char *) {
                *static_cast<std::atomic<uint32_t> *>(arg) += status == GCOLL_OK;
            };
            options.done_arg = &told_of;
            ASSERT_GCOLL_OK(gcoll_allreduce_create(context, in.data(), out.data(), kCount, GCOLL_FLOAT32,
                                                   GCOLL_SUM, &options, &operation));
        } else if (rank == 3) {
            options.keep_input = 1;
            ASSERT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, out.data(), kCount, GCOLL_FLOAT32,
                                                   GCOLL_SUM, &options, &operation));
        }
        uint32_t calls = 0;
        EXPECT_TRUE(until_replaced(context, kCount, [&](uint64_t call) {
            calls++;
            fill(rank == 3 ? out : in, rank, call);
            if (rank == 0)
                ASSERT_GCOLL_OK(gcoll_allreduce(context, in.data(), out.data(), kCount, GCOLL_FLOAT32,
                                                GCOLL_SUM, &options));
            else
                ASSERT_GCOLL_OK(gcoll_operation_run(operation));
            check(out, kSize, call);
        }));
        if (rank == 2)
            EXPECT_EQ(told_of, calls);
        gcoll_operation_destroy(operation);
    });
}

// An operation keeps copies of the lists that it was given. Only the root of a gather has one.
TEST_P(Learn, OperationsWithListsLearn) {
    constexpr uint32_t kSize = 3;
    run_threads(learning(kSize, GetParam()), [&](uint32_t rank, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
        std::vector<float> in(60), out(60);
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.same = GCOLL_SAME_NOWHERE;
        const void *inputs[] = {in.data(), in.data() + 10, in.data() + 45};
        void *outputs[] = {out.data(), out.data() + 10, out.data() + 45};
        uint64_t counts[] = {10, 35, 15};
        gcoll_operation *sum = nullptr, *gather = nullptr;
        ASSERT_GCOLL_OK(gcoll_allreduce_list_create(context, inputs, outputs, counts, 3, GCOLL_FLOAT32,
                                                    GCOLL_SUM, &options, &sum));
        std::vector<std::vector<float>> blocks(kSize, std::vector<float>(60));
        std::vector<void *> at(kSize);
        for (uint32_t i = 0; i < kSize; i++)
            at[i] = blocks[i].data();
        gcoll_collective_call call;
        gcoll_collective_call_init(&call);
        call.collective = GCOLL_GATHER;
        call.type = GCOLL_FLOAT32;
        call.count = 60;
        call.root = 1;
        call.input = in.data();
        call.outputs = rank == 1 ? at.data() : nullptr;
        ASSERT_GCOLL_OK(gcoll_call_create(context, &call, &gather));
        memset(inputs, 0, sizeof inputs);
        memset(outputs, 0, sizeof outputs);
        memset(counts, 0, sizeof counts);
        std::fill(at.begin(), at.end(), nullptr);
        for (uint64_t i = 0; i < 500; i++) {
            fill(in, rank, i);
            ASSERT_GCOLL_OK(gcoll_operation_run(sum));
            check(out, kSize, i);
            ASSERT_GCOLL_OK(gcoll_operation_run(gather));
            for (uint32_t from = 0; from < kSize && rank == 1; from++)
                for (uint64_t k = 0; k < 60; k++)
                    ASSERT_EQ(blocks[from][k], value(from, i, k));
        }
        gcoll_operation_destroy(gather);
        gcoll_operation_destroy(sum);
    });
}

// Refused calls do not count, and may be repeated.
TEST_P(Learn, RefusedCallsDoNotCount) {
    run_threads(
        learning(3, GetParam()),
        [&](uint32_t rank, gcoll_context *context) {
            for (uint64_t call = 0; call < 150; call++) {
                if (rank == 1 && call % 3 == 0) {
                    float x = 0;
                    gcoll_allreduce_options options;
                    gcoll_allreduce_options_init(&options);
                    options.algorithm = "no_such";
                    EXPECT_NE(gcoll_allreduce(context, nullptr, &x, 1, GCOLL_FLOAT32, GCOLL_SUM, &options),
                              GCOLL_OK);
                    EXPECT_NE(gcoll_allreduce(context, &x, nullptr, 30, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                              GCOLL_OK);
                }
                ASSERT_GCOLL_OK(blocking(context, 30, call));
            }
        });
}

TEST_P(Learn, NothingIsLearnedWhereTheChoiceIsFixed) {
    for (const char *tuning : {"fixed", "fixed:fit", "default"})
        run_threads(
            learning(3, GetParam(), tuning),
            [&](uint32_t, gcoll_context *context) {
                ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
                for (uint64_t call = 0; call < 200; call++)
                    ASSERT_GCOLL_OK(blocking(context, 20, call));
                std::string all;
                EXPECT_EQ(explain(context, 20, &all), "liar");
                EXPECT_EQ(all.find("learned"), std::string::npos) << all;
            });
}

// By the choice of one rank, the first.
TEST_P(Learn, RankZeroSaysWhetherTheChoiceIsFixed) {
    Job job = learning(3, GetParam());
    job.adjust = [](uint32_t rank, gcoll_context_options *options) {
        options->tuning = rank == 0 ? "fixed" : "fit";
    };
    run_threads(job, [&](uint32_t, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
        for (uint64_t call = 0; call < 150; call++)
            ASSERT_GCOLL_OK(blocking(context, 20, call));
        EXPECT_EQ(explain(context, 20), "liar");
    });
}

// Results that must be the same in every run keep their algorithm, whatever it takes.
TEST_P(Learn, TheSameBitsInRunsKeepTheAlgorithm) {
    run_threads(
        learning(3, GetParam()),
        [&](uint32_t, gcoll_context *context) {
            ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
            for (uint64_t call = 0; call < 200; call++)
                ASSERT_GCOLL_OK(blocking(context, 20, call, GCOLL_SAME_IN_RUNS));
            std::string all;
            EXPECT_EQ(explain(context, 20, &all, GCOLL_SAME_IN_RUNS), "liar");
            EXPECT_EQ(all.find("learned"), std::string::npos) << all;
        });
}

// Trials keep what the call asks for: the order of ranks, and the same bits on every rank.
TEST_P(Learn, TrialsKeepWhatTheCallAsksFor) {
    constexpr uint32_t kSize = 5;
    std::vector<std::vector<double>> sums(kSize);
    run_threads(learning(kSize, GetParam()), [&](uint32_t rank, gcoll_context *context) {
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.same = GCOLL_SAME_ON_RANKS;
        gcoll_user_op left = {};
        left.reduce = [](void *out, const void *a, const void *, uint64_t count, gcoll_type, void *) {
            memmove(out, a, count * sizeof(int32_t)); // the left operand: does not commute
            return GCOLL_OK;
        };
        for (uint32_t call = 0; call < 250; call++) {
            double x = 0.1 * (rank + 1) + call / 3.0, sum = 0;
            ASSERT_GCOLL_OK(gcoll_allreduce(context, &x, &sum, 1, GCOLL_FLOAT64, GCOLL_SUM, &options));
            sums[rank].push_back(sum);
            int32_t mine = static_cast<int32_t>(1000 * call + rank), first = -1;
            gcoll_allreduce_options ordered;
            gcoll_allreduce_options_init(&ordered);
            ordered.user_op = &left;
            ASSERT_GCOLL_OK(gcoll_allreduce(context, &mine, &first, 1, GCOLL_INT32, GCOLL_USER, &ordered));
            ASSERT_EQ(first, static_cast<int32_t>(1000 * call));
        }
    });
    for (uint32_t rank = 1; rank < kSize; rank++)
        EXPECT_EQ(memcmp(sums[rank].data(), sums[0].data(), sums[0].size() * sizeof(double)), 0)
            << "rank " << rank;
}

// All collectives, each with results that are checked.
TEST_P(Learn, EveryCollectiveLearns) {
    constexpr uint32_t kSize = 4, kCount = 8;
    run_threads(learning(kSize, GetParam()), [&](uint32_t rank, gcoll_context *context) {
        for (int32_t call = 0; call < 220; call++) {
            std::vector<int32_t> own(kCount), all(kSize * kCount);
            for (uint32_t i = 0; i < kCount; i++)
                own[i] = static_cast<int32_t>(call * 100 + static_cast<int32_t>(rank * 10 + i));
            const auto at = [&](uint32_t from, uint32_t i) {
                return call * 100 + static_cast<int32_t>(from * 10 + i);
            };
            ASSERT_GCOLL_OK(gcoll_allgather(context, own.data(), all.data(), kCount, GCOLL_INT32, nullptr));
            for (uint32_t r = 0; r < kSize; r++)
                ASSERT_EQ(all[r * kCount + 1], at(r, 1));
            std::vector<int32_t> swapped(kSize * 2), given(kSize * 2);
            for (uint32_t i = 0; i < kSize * 2; i++)
                given[i] = at(rank, i);
            ASSERT_GCOLL_OK(gcoll_alltoall(context, given.data(), swapped.data(), 2, GCOLL_INT32, nullptr));
            for (uint32_t r = 0; r < kSize; r++)
                ASSERT_EQ(swapped[r * 2 + 1], at(r, rank * 2 + 1));
            std::vector<int32_t> word(kCount, rank == 2 ? call : -1);
            ASSERT_GCOLL_OK(gcoll_broadcast(context, word.data(), kCount, GCOLL_INT32, 2, nullptr));
            ASSERT_EQ(word[kCount - 1], call);
            std::vector<int32_t> sum(kCount, -1);
            ASSERT_GCOLL_OK(
                gcoll_reduce(context, own.data(), sum.data(), kCount, GCOLL_INT32, GCOLL_SUM, 1, nullptr));
            if (rank == 1)
                ASSERT_EQ(sum[0], at(0, 0) + at(1, 0) + at(2, 0) + at(3, 0));
            std::fill(all.begin(), all.end(), -1);
            ASSERT_GCOLL_OK(gcoll_gather(context, own.data(), all.data(), kCount, GCOLL_INT32, 3, nullptr));
            for (uint32_t r = 0; r < kSize && rank == 3; r++)
                ASSERT_EQ(all[r * kCount + 5], at(r, 5));
            std::vector<int32_t> part(2, -1);
            ASSERT_GCOLL_OK(gcoll_scatter(context, given.data(), part.data(), 2, GCOLL_INT32, 0, nullptr));
            ASSERT_EQ(part[1], at(0, rank * 2 + 1));
            std::vector<int32_t> block(2, -1);
            ASSERT_GCOLL_OK(gcoll_reduce_scatter(context, given.data(), block.data(), 2, GCOLL_INT32,
                                                 GCOLL_SUM, nullptr));
            ASSERT_EQ(block[0], at(0, rank * 2) + at(1, rank * 2) + at(2, rank * 2) + at(3, rank * 2));
            ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
        }
    });
}

// Broadcasts along a chain of ranks, after many messages that nobody needs.
void slow_broadcast_plan(const gcoll_problem *p, gcoll_builder *b) {
    const uint32_t at = (p->rank + p->size - p->root) % p->size, next = (p->rank + 1) % p->size;
    const uint32_t before = (p->rank + p->size - 1) % p->size;
    const gcoll_ref scratch = gcoll_plan_scratch(b, p->count);
    for (uint32_t i = 0; i < kRounds; i++) {
        gcoll_plan_round_at_least(b, i);
        gcoll_plan_send(b, next, gcoll_in(0, 0), p->count);
        gcoll_plan_recv(b, before, scratch, p->count);
        gcoll_plan_fence(b);
    }
    if (at > 0)
        gcoll_plan_recv(b, before, gcoll_out(0, 0), p->count);
    if (at + 1 < p->size)
        gcoll_plan_send(b, next, at > 0 ? gcoll_out(0, 0) : gcoll_in(0, 0), p->count);
    if (at == 0 && !p->in_place)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), p->count);
}

// What the next broadcast takes, and whether anything was learned.
std::string explain_broadcast(gcoll_context *context, uint64_t count, uint32_t root, std::string *all) {
    char text[8192];
    EXPECT_GCOLL_OK(gcoll_context_explain(context, GCOLL_BROADCAST, count, GCOLL_INT32, GCOLL_SUM, root,
                                          nullptr, text, sizeof text));
    *all = text;
    const std::string first(text, strcspn(text, "\n"));
    return first.substr(first.rfind(' ') + 1);
}

gcoll_status broadcast(gcoll_context *context, uint64_t count, uint32_t root, int32_t call) {
    std::vector<int32_t> words(count);
    for (uint64_t i = 0; i < count; i++)
        words[i] = gcoll_context_rank(context) == root ? call + static_cast<int32_t>(i) : -1;
    const gcoll_status status = gcoll_broadcast(context, words.data(), count, GCOLL_INT32, root, nullptr);
    for (uint64_t i = 0; i < count && status == GCOLL_OK; i++)
        EXPECT_EQ(words[i], call + static_cast<int32_t>(i));
    return status;
}

// A job whose slow broadcast auto takes first.
void with_slow_broadcast(gcoll_context *context, std::string *first) {
    static const gcoll_algorithm slow = [] {
        gcoll_algorithm made = {};
        made.name = "slow";
        made.collective = GCOLL_BROADCAST;
        made.summary = "slow, and says that it costs little";
        made.source = "test/learn/learn_test.cc";
        made.plan = slow_broadcast_plan;
        made.claims = liar_claims;
        made.cost = liar_cost;
        made.load = liar_load;
        return made;
    }();
    std::string all;
    ASSERT_GCOLL_OK(gcoll_context_register(context, &slow));
    *first = explain_broadcast(context, 64, 1, &all);
}

// Broadcasts learn where calls stand between them that no rank leaves before all have entered: calls, or runs
// of an operation, which ask what was learned only when something may change.
TEST_P(Learn, BroadcastsLearnBetweenBarriers) {
    constexpr uint32_t kSize = 5;
    for (const bool has_operation : {false, true})
        run_threads(learning(kSize, GetParam()), [&](uint32_t, gcoll_context *context) {
            std::string name, all;
            gcoll_operation *barrier = nullptr;
            ASSERT_NO_FATAL_FAILURE(with_slow_broadcast(context, &name));
            ASSERT_EQ(name, "slow");
            if (has_operation)
                ASSERT_GCOLL_OK(gcoll_barrier_create(context, nullptr, &barrier));
            for (int32_t call = 0; call < static_cast<int32_t>(kMost) && name == "slow"; call++) {
                ASSERT_GCOLL_OK(broadcast(context, 64, 1, call));
                ASSERT_EQ(unasked_peek(context), 0u) << "broadcast " << call;
                if (call % 3 == 0)
                    ASSERT_GCOLL_OK(barrier ? gcoll_operation_run(barrier) : gcoll_barrier(context, nullptr));
                if (call % 60 == 59)
                    name = explain_broadcast(context, 64, 1, &all);
            }
            EXPECT_NE(name, "slow") << all;
            gcoll_operation_destroy(barrier);
        });
}

// The names of algorithms have no limit, but texts of calls have: what would be cut off is not tried.
TEST_P(Learn, NamesThatAreTooLongWithSegmentsAreNotTried) {
    for (size_t length : {114u, 117u, 120u, 127u, 200u}) {
        const std::string long_name(length, 'x');
        run_threads(learning(2, GetParam()), [&](uint32_t, gcoll_context *context) {
            gcoll_algorithm made = kLiar;
            made.name = long_name.c_str();
            ASSERT_GCOLL_OK(gcoll_context_register(context, &made));
            const std::string whole = long_name + ":segment=256Ki";
            for (size_t end = length + 1; end < whole.size(); end++)
                EXPECT_EQ(tried_peek(context, GCOLL_ALLREDUCE, 1 << 18, whole.substr(0, end).c_str(), 0), 0u)
                    << end;
            EXPECT_GT(tried_peek(context, GCOLL_ALLREDUCE, 1 << 18, "ring", 0), 0u);
        });
    }
}

// Runs of an operation that block ask only when something may change. On a busy machine calls may be too long
// for that, for a while.
TEST_P(Learn, RunsOfASettledOperationNeedNotAsk) {
    constexpr uint64_t kCount = 10, kManyCalls = 30000;
    run_threads(learning(2, GetParam()), [&](uint32_t rank, gcoll_context *context) {
        std::vector<float> in(kCount), out(kCount);
        gcoll_operation *operation = nullptr;
        ASSERT_GCOLL_OK(gcoll_allreduce_create(context, in.data(), out.data(), kCount, GCOLL_FLOAT32,
                                               GCOLL_SUM, nullptr, &operation));
        int32_t excused = 0, all = 0;
        for (uint64_t call = 1; call <= kManyCalls && all < 50; call++) {
            fill(in, rank, call);
            const bool need_not_ask = rank == 0 && excused_peek(context, kCount) > 0;
            const uint64_t asked = rank == 0 ? asked_peek(context) : 0;
            ASSERT_GCOLL_OK(gcoll_operation_run(operation));
            check(out, 2, call);
            excused += need_not_ask;
            if (need_not_ask)
                ASSERT_EQ(asked_peek(context), asked) << "call " << call;
            if (call % 100 == 0)
                ASSERT_GCOLL_OK(gcoll_allreduce(context, &excused, &all, 1, GCOLL_INT32, GCOLL_SUM, nullptr));
        }
        EXPECT_GE(all, 50);
        gcoll_operation_destroy(operation);
    });
}

// Without such calls a root may run ahead as far as its buffers reach; it never waits to learn. Messages of
// ranks of one process have no buffers: there no rank waits for the root.
TEST_P(Learn, ABroadcastsRootNeverWaits) {
    constexpr uint32_t kSize = 3;
    const bool has_buffers = std::string(GetParam()) != "inproc";
    for (const int32_t barriers : {0, 9, 12, 200}) // calls with a barrier each before
        run_threads(learning(kSize, GetParam()), [&](uint32_t rank, gcoll_context *context) {
            gcoll_pair *pair;
            ASSERT_GCOLL_OK(gcoll_context_pair(context, rank == 0 ? 1 : 0, &pair));
            int32_t call = 0;
            for (; call < barriers; call++) {
                ASSERT_GCOLL_OK(broadcast(context, 8, 0, call));
                ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
            }
            int32_t word = 7;
            if (rank == 1 && has_buffers) // goes on only when the root has been through
                ASSERT_GCOLL_OK(gcoll_pair_recv(pair, 5, &word, sizeof word));
            for (int32_t end = call + 100; call < end; call++)
                ASSERT_GCOLL_OK(broadcast(context, 8, 0, call));
            if (rank == 0 && has_buffers)
                ASSERT_GCOLL_OK(gcoll_pair_send(pair, 5, &word, sizeof word));
            for (int32_t end = call + 100; call < end; call++) {
                ASSERT_GCOLL_OK(broadcast(context, 8, 0, call));
                ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
            }
        });
}

// Started broadcasts learn, too. A rank that starts barriers may be ahead of others in all calls: then
// nothing more is learned, and no start waits.
TEST_P(Learn, StartedBroadcastsLearnIfBarriersBlock) {
    for (const bool starts_barriers : {false, true}) {
        const int32_t most = starts_barriers ? static_cast<int32_t>(gcoll_test::repeats(1200, 400)) : 1200;
        run_threads(learning(3, GetParam()), [&](uint32_t rank, gcoll_context *context) {
            std::string name, all;
            ASSERT_NO_FATAL_FAILURE(with_slow_broadcast(context, &name));
            for (int32_t call = 0; call < most && name == "slow"; call++) {
                int32_t words[64] = {rank == 1 ? call : -1};
                gcoll_request *request = nullptr;
                ASSERT_GCOLL_OK(gcoll_broadcast_start(context, words, 64, GCOLL_INT32, 1, nullptr, &request));
                ASSERT_GCOLL_OK(gcoll_request_wait(&request));
                EXPECT_EQ(words[0], call);
                if (starts_barriers && rank == 2) {
                    ASSERT_GCOLL_OK(gcoll_barrier_start(context, nullptr, &request));
                    ASSERT_GCOLL_OK(gcoll_request_wait(&request));
                } else {
                    ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
                }
                if (call % 60 == 59)
                    name = explain_broadcast(context, 64, 1, &all);
            }
            if (starts_barriers)
                EXPECT_EQ(name, "slow") << all;
            else
                EXPECT_NE(name, "slow") << all;
        });
    }
}

// A rank that is ahead passes the fence of a lesson without a word of it; it reports all the same, so that
// others, who block in the same calls, do not wait for it.
TEST_P(Learn, ARankThatIsAheadReportsAfterAll) {
    constexpr uint32_t kSize = 4, kTimes = 20;
    for (const uint32_t ahead : {0u, 1u, 3u})
        run_threads(learning(kSize, GetParam()), [&](uint32_t rank, gcoll_context *context) {
            std::vector<int32_t> words(kTimes * 8, rank == 2 ? 7 : -1);
            std::vector<gcoll_request *> requests;
            for (uint32_t i = 0; i < kTimes; i++) {
                int32_t *data = words.data() + i * 8;
                if (rank != ahead) {
                    ASSERT_GCOLL_OK(gcoll_broadcast(context, data, 8, GCOLL_INT32, 2, nullptr));
                    ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
                    continue;
                }
                for (const bool is_barrier : {false, true}) {
                    requests.push_back(nullptr);
                    ASSERT_GCOLL_OK(is_barrier ? gcoll_barrier_start(context, nullptr, &requests.back())
                                               : gcoll_broadcast_start(context, data, 8, GCOLL_INT32, 2,
                                                                       nullptr, &requests.back()));
                }
            }
            for (gcoll_request *&request : requests)
                ASSERT_GCOLL_OK(gcoll_request_wait(&request));
            EXPECT_EQ(words, std::vector<int32_t>(kTimes * 8, 7));
        });
}

// What was learned is where the next job begins; other sections of the file stay, with the comments above
// them.
TEST_P(Learn, WhatWasLearnedIsSaved) {
    gcoll_test::Folder folder;
    const std::string path = folder.path() + "/saved.tuning";
    const std::string other =
        "# of seventy-seven\n\nfor transport=tcp ranks=77 local=7\nchoose barrier 0 - dissemination";
    std::ofstream(path) << "gcoll-tuning 1\n  for ranks=3 transport=" << GetParam()
                        << " # mine\ntour 2 1 0\n# stale\nchoose allreduce 0 - ring\n" +
                               other; // without an end of the line
    ASSERT_EQ(chmod(path.c_str(), 0640), 0);
    setenv("GCOLL_TUNING_SAVE", path.c_str(), 1);
    std::string learned; // by rank 0, when it was settled the last time
    // The second job replaces the section of the first. It ends while algorithms are tried anew.
    for (const bool is_tried_anew : {false, true})
        run_threads(learning(3, GetParam()), [&](uint32_t rank, gcoll_context *context) {
            ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
            EXPECT_TRUE(until_replaced(
                context, 100, [&](uint64_t call) { ASSERT_GCOLL_OK(blocking(context, 100, call)); }));
            std::string all = " is kept";
            for (uint64_t call = 0; call < 10 * kMost && all.find(" is kept") != std::string::npos; call++) {
                const std::string name = explain(context, 100, &all);
                if (rank == 0 && all.find(" is kept") != std::string::npos)
                    learned = name;
                if (!is_tried_anew)
                    break;
                ASSERT_GCOLL_OK(blocking(context, 100, call));
            }
            EXPECT_EQ(is_tried_anew, all.find(" is kept") == std::string::npos) << all;
        });
    unsetenv("GCOLL_TUNING_SAVE");
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_EQ(text.find("gcoll-tuning 1\n" + other + "\nfor "), 0u) << text;
    EXPECT_EQ(text.find("stale"), std::string::npos) << text;
    struct stat about;
    ASSERT_EQ(stat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0640u);
    const std::string head = std::string("for transport=") + GetParam() + " ranks=3 local=3\n";
    EXPECT_NE(text.find(head), std::string::npos) << text;
    EXPECT_EQ(text.find(head), text.rfind(head)) << text;
    const size_t tour = text.find("\ntour 2 1 0\n");
    ASSERT_NE(tour, std::string::npos) << text;
    EXPECT_EQ(tour, text.rfind("\ntour ")) << text;
    EXPECT_GT(tour, text.find(head)) << text;
    const std::string line = "choose allreduce 0 - ";
    const size_t at = text.find(line);
    ASSERT_NE(at, std::string::npos) << text;
    const std::string kept(text, at + line.size(), text.find('\n', at) - at - line.size());
    EXPECT_EQ(kept, learned);
    run_threads(learning(3, GetParam(), path.c_str()), [&](uint32_t, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
        std::string all;
        EXPECT_EQ(explain(context, 100, &all), kept) << all;
    });
}

// The path of a tuning file with one section.
std::string tuning_file(const gcoll_test::Folder &folder, const char *transport, uint32_t ranks,
                        const std::string &lines) {
    const std::string path = folder.path() + "/one.tuning";
    std::ofstream(path) << "gcoll-tuning 1\nfor ranks=" << ranks << " transport=" << transport << "\n"
                        << lines << "\n";
    return path;
}

// Messages of a ring of 3 ranks are blocks, and segments have 256 KiB. Where they cut nothing, one name is
// enough; and what a file names is not listed twice.
TEST_P(Learn, WhatSegmentsCutIsTriedInSegments) {
    gcoll_test::Folder folder;
    const std::string path = tuning_file(folder, GetParam(), 3, "choose allgather 0 - ring:segment=256Ki");
    for (const char *tuning : {"default", path.c_str()})
        run_threads(learning(3, GetParam(), tuning), [&](uint32_t, gcoll_context *context) {
            const auto tried = [&](uint64_t count, const char *text) {
                return tried_peek(context, GCOLL_ALLGATHER, count, text, 0);
            };
            const bool is_ruled = tuning == path.c_str();
            EXPECT_EQ(tried(1 << 16, "ring"), is_ruled ? 2u : 1u);
            EXPECT_EQ(tried(1 << 16, "ring:segment=256Ki"), is_ruled ? 1u : 0u);
            EXPECT_EQ(tried((1 << 16) + 1, "ring"), is_ruled ? 2u : 1u);
            EXPECT_EQ(tried((1 << 16) + 1, "ring:segment=256Ki"), 1u);
            EXPECT_EQ(tried((1 << 16) + 1, "linear:segment=256Ki"), 1u);
            EXPECT_EQ(tried(UINT64_C(1) << 34, "linear:segment=256Ki"), 0u)
                << "more segments than a plan should have";
        });
}

// The model knows nothing in its favour: more algorithms than are tried are cheaper by it.
TEST_P(Learn, ATourIsAmongWhatIsTried) {
    gcoll_test::Folder folder;
    const std::string path =
        tuning_file(folder, GetParam(), 5, "cost alpha_ns=9000 beta_ps=100 gamma_ps=10\ntour 2 4 1 0 3");
    run_threads(learning(5, GetParam(), path.c_str()), [&](uint32_t, gcoll_context *context) {
        EXPECT_EQ(tried_peek(context, GCOLL_ALLREDUCE, 100, "tour_ring", 8), 1u);
        EXPECT_EQ(tried_peek(context, GCOLL_ALLREDUCE, 100, "ring", 8), 0u)
            << "there are more than are tried";
    });
}

// With 4 ranks, butterfly is recursive doubling, and halving and doubling is Rabenseifner's algorithm. Of
// each two, one is tried, which leaves room for others.
TEST_P(Learn, APlanOfSeveralNamesIsTriedByOne) {
    for (uint64_t count : {256u, 16384u, 262144u})
        run_threads(
            learning(4, GetParam(), "default"),
            [&](uint32_t, gcoll_context *context) {
                const auto tried = [&](const char *name) {
                    return tried_peek(context, GCOLL_ALLREDUCE, count, name, 0);
                };
                EXPECT_LE(tried("recursive_doubling") + tried("butterfly"), 1u);
                EXPECT_EQ(tried("rabenseifner") + tried("halving_doubling"), 1u);
                EXPECT_LE(tried("ring") + tried("pre_reduced_ring"), 1u);
            });
}

// That rank 0 has the same neighbours along a tour as in the ring does not make one of both.
TEST_P(Learn, ATourThatIsTheRingForRank0IsTriedBesideTheRing) {
    gcoll_test::Folder folder;
    const std::string path =
        tuning_file(folder, GetParam(), 5, "cost alpha_ns=100 beta_ps=100 gamma_ps=10\ntour 0 1 3 2 4");
    run_threads(learning(5, GetParam(), path.c_str()), [&](uint32_t, gcoll_context *context) {
        const auto tried = [&](const char *name) {
            return tried_peek(context, GCOLL_ALLREDUCE, 1 << 18, name, 0);
        };
        EXPECT_EQ(tried("tour_ring"), 1u);
        EXPECT_EQ(tried("ring") + tried("pre_reduced_ring"), 1u);
    });
}

// Cost does not choose spread, but it may be tried, where ranks are few: it needs a connection to each. Where
// a message costs next to nothing, it has a place among those that are tried.
TEST(Tried, SpreadByUpTo64Ranks) {
    gcoll_test::Folder folder;
    for (uint32_t size : {4u, 63u, 65u}) {
        const std::string path =
            tuning_file(folder, "inproc", size, "cost alpha_ns=1 beta_ps=250 gamma_ps=100");
        run_threads(learning(size, "inproc", path.c_str()), [&](uint32_t rank, gcoll_context *context) {
            if (rank == 0)
                EXPECT_EQ(tried_peek(context, GCOLL_ALLREDUCE, 65536, "spread", 0), size <= 64 ? 1u : 0u)
                    << size;
        });
    }
}

// What a rule chooses is not tried by another name.
TEST_P(Learn, TheChoiceOfARuleIsTriedByItsOwnName) {
    gcoll_test::Folder folder;
    const std::string path = tuning_file(folder, GetParam(), 4, "choose allreduce 0 - butterfly");
    run_threads(learning(4, GetParam(), path.c_str()), [&](uint32_t, gcoll_context *context) {
        EXPECT_EQ(tried_peek(context, GCOLL_ALLREDUCE, 1000, "butterfly", 0), 1u);
        EXPECT_EQ(tried_peek(context, GCOLL_ALLREDUCE, 1000, "recursive_doubling", 0), 0u);
    });
}

// A file that is none stays as it is, and the job ends well.
TEST_P(Learn, AFileThatIsNoTuningFileStaysAsItIs) {
    gcoll_test::Folder folder;
    const std::string path = folder.path() + "/notes.txt";
    std::ofstream(path) << "not a tuning file\n";
    setenv("GCOLL_TUNING_SAVE", path.c_str(), 1);
    run_threads(learning(2, GetParam()), [&](uint32_t, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
        EXPECT_TRUE(until_replaced(context, 100,
                                   [&](uint64_t call) { ASSERT_GCOLL_OK(blocking(context, 100, call)); }));
    });
    unsetenv("GCOLL_TUNING_SAVE");
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_EQ(text, "not a tuning file\n");
    EXPECT_EQ(folder.files().size(), 1u);
}

// Whether auto learns from calls of this kind.
bool learns(gcoll_context *context, uint64_t count) {
    std::string all;
    explain(context, count, &all);
    return all.find("learned from") != std::string::npos;
}

// Costs in a tuning file: those in options.cost learn nothing, and fitted ones depend on what else runs.
const char kCosts[] = "cost alpha_ns=1000 beta_ps=8000 gamma_ps=200";

Job watched(uint32_t size, const char *transport, const std::string &tuning, bool has_thread = false) {
    Job job = learning(size, transport);
    job.adjust = [tuning, has_thread](uint32_t, gcoll_context_options *options) {
        options->tuning = tuning.c_str();
        options->monitor = 1;
        options->progress_thread = has_thread;
    };
    return job;
}

gcoll_site_stats arrivals(gcoll_context *context, uint32_t site) {
    gcoll_site_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_GCOLL_OK(gcoll_arrival_stats(context, site, &stats, nullptr));
    return stats;
}

// What is compared with a plan for late ranks is what was learned: beside the slow choice any would spare
// nine tenths. Rank 3 is later and later, until rank 0 has compared them.
TEST_P(Learn, ContextsWithAMonitorLearn) {
    gcoll_test::Folder folder;
    const std::string tuning = tuning_file(folder, GetParam(), 4, kCosts);
    std::mutex lock;
    std::map<std::string, int> kept;
    run_threads(watched(4, GetParam(), tuning), [&](uint32_t rank, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
        const auto call_at = [&](uint64_t call, uint64_t late_us) {
            ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
            if (rank == 3)
                std::this_thread::sleep_for(std::chrono::microseconds(late_us));
            ASSERT_GCOLL_OK(blocking(context, 100, call));
        };
        EXPECT_TRUE(until_replaced(context, 100, [&](uint64_t call) { call_at(call, 0); }));
        gcoll_broadcast_options named; // is not watched
        gcoll_broadcast_options_init(&named);
        named.algorithm = "one_to_all";
        const uint64_t announced = arrivals(context, 1).announcements;
        int32_t is_compared = 0;
        for (uint64_t call = 0; !is_compared && call < kMost && !testing::Test::HasFailure(); call++) {
            call_at(call, 2000 + 50 * call);
            const gcoll_site_stats seen = arrivals(context, 1);
            is_compared = rank == 0 && seen.announcements > announced && seen.gain != 0;
            ASSERT_GCOLL_OK(gcoll_broadcast(context, &is_compared, 1, GCOLL_INT32, 0, &named));
        }
        EXPECT_TRUE(is_compared);
        if (rank == 0)
            EXPECT_LT(arrivals(context, 1).gain, 0.75);
        const std::lock_guard<std::mutex> guard(lock);
        kept[explain(context, 100)]++;
    });
    EXPECT_EQ(kept.size(), 1u);
}

// Calls of all forms among those that heed a late rank, which do not count for what is learned, on any rank.
// Between calls a rank says how far it is, if there is a thread.
struct Crowd {
    static constexpr uint64_t kSteps = 60;
    gcoll_context *context;
    uint32_t rank, size;
    bool starts, has_edges;
    std::vector<std::vector<float>> started = std::vector<std::vector<float>>(3, std::vector<float>(100));

    void compute(int ms) const {
        if (has_edges)
            ASSERT_GCOLL_OK(gcoll_arrival_begin(context));
        std::this_thread::sleep_for(std::chrono::milliseconds(ms));
        if (has_edges)
            ASSERT_GCOLL_OK(gcoll_arrival_edge(context, 0.5));
        std::this_thread::sleep_for(std::chrono::milliseconds(ms));
        if (has_edges)
            ASSERT_GCOLL_OK(gcoll_arrival_finish(context));
    }
    // Started first, waited for last: a call that blocks between them waits until none is held.
    void step(uint64_t call) {
        std::vector<gcoll_request *> requests(starts ? started.size() : 0);
        for (size_t i = 0; i < requests.size(); i++) {
            gcoll_allreduce_options options;
            gcoll_allreduce_options_init(&options);
            options.same = GCOLL_SAME_NOWHERE;
            fill(started[i], rank, call + i);
            ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, started[i].data(), started[i].size(),
                                                  GCOLL_FLOAT32, GCOLL_SUM, &options, &requests[i]));
        }
        // Whoever is late stays so for 12 calls, and after all have been is later and later.
        const uint64_t late_ms = call < kSteps ? 1 : 1 + (call - kSteps) / 10;
        compute(rank == call / 12 % size ? static_cast<int>(late_ms) : 0);
        ASSERT_GCOLL_OK(blocking(context, 100, call));
        ASSERT_GCOLL_OK(blocking(context, 3000, call));
        const uint32_t root = call % 2 == 0 ? 2 : 0;
        std::vector<int32_t> word(8, rank == root ? static_cast<int32_t>(call) : -1), total(8);
        ASSERT_GCOLL_OK(gcoll_broadcast(context, word.data(), word.size(), GCOLL_INT32, root, nullptr));
        ASSERT_EQ(word, std::vector<int32_t>(8, static_cast<int32_t>(call)));
        ASSERT_GCOLL_OK(gcoll_reduce(context, word.data(), total.data(), word.size(), GCOLL_INT32, GCOLL_SUM,
                                     root, nullptr));
        if (rank == root)
            ASSERT_EQ(total, std::vector<int32_t>(8, static_cast<int32_t>(call * size)));
        for (size_t i = requests.size(); i-- > 0;) {
            ASSERT_GCOLL_OK(gcoll_request_wait(&requests[i]));
            check(started[i], size, call + i);
        }
    }
};

TEST_P(Learn, RanksAgreeWhoeverIsLate) {
    const struct { bool starts, has_edges; } modes[] = {{false, false}, {true, false}, {true, true}};
    for (const auto &mode : modes) {
        gcoll_test::Folder folder;
        const Job job = watched(5, GetParam(), tuning_file(folder, GetParam(), 5, kCosts), mode.has_edges);
        std::mutex lock;
        std::map<std::string, int> seen;
        run_threads(job, [&](uint32_t rank, gcoll_context *context) {
            ASSERT_GCOLL_OK(gcoll_context_register(context, &kLiar));
            Crowd crowd = {context, rank, 5, mode.starts, mode.has_edges};
            for (uint64_t call = 0;
                 call < Crowd::kSteps || (arrivals(context, 0).heeded == 0 && call < kMost); call++) {
                crowd.step(call);
                if (testing::Test::HasFailure())
                    return;
            }
            const gcoll_site_stats blocked = arrivals(context, 0);
            EXPECT_GT(blocked.heeded, 0u);
            std::string all, text;
            explain(context, 100, &all);
            if (!mode.starts) // else started calls count beside them
                EXPECT_NE(
                    all.find("learned from " + std::to_string(blocked.calls - blocked.heeded) + " calls"),
                    std::string::npos)
                    << blocked.calls << " calls, " << blocked.heeded << " heeded: " << all;
            for (uint64_t count : {100u, 3000u}) {
                explain(context, count, &all);
                const size_t learned = all.find("learned from ");
                text += learned == std::string::npos
                            ? "nothing learned; "
                            : all.substr(learned, all.find(':', learned) - learned) + "; ";
            }
            for (uint32_t site = 0; site < 6; site++)
                text += std::to_string(arrivals(context, site).heeded) + " of " +
                        std::to_string(arrivals(context, site).calls) + " heeded; ";
            const std::lock_guard<std::mutex> guard(lock);
            seen[text]++;
        });
        EXPECT_EQ(seen.size(), 1u);
        for (const auto &[text, ranks] : seen)
            EXPECT_NE(text.find("learned from "), std::string::npos) << text << ": " << ranks << " ranks";
    }
}

// A context knows 64 kinds of calls. Those that came once or twice, long ago, make room.
TEST_P(Learn, KindsThatComeOftenLearnAfterManyThatDoNot) {
    run_threads(
        learning(3, GetParam()),
        [&](uint32_t, gcoll_context *context) {
            uint64_t call = 0;
            for (uint64_t count = 1; count <= 150; count++)
                for (uint64_t times = 0; times <= count % 2; times++)
                    ASSERT_GCOLL_OK(blocking(context, count, ++call));
            for (int i = 0; i < 1010; i++)
                ASSERT_GCOLL_OK(blocking(context, 1000, ++call));
            EXPECT_TRUE(learns(context, 1000)) << "it came alone";
            for (int i = 0; i < 3; i++) // two in turns would take the place of one another for ever
                for (uint64_t count : {2000u, 2001u, 2002u})
                    ASSERT_GCOLL_OK(blocking(context, count, ++call));
            for (uint64_t count : {2000u, 2001u, 2002u})
                EXPECT_TRUE(learns(context, count)) << count;
            for (int i = 0; i < 1010; i++) // all other kinds are old then
                ASSERT_GCOLL_OK(blocking(context, 2000, ++call));
            for (uint64_t count = 3000; count < 3070; count++)
                ASSERT_GCOLL_OK(blocking(context, count, ++call));
            EXPECT_TRUE(learns(context, 1000)) << "what is learned is not forgotten";
        });
}

// Of more kinds than are known that come in turns, as a model's tensors do, most learn.
TEST_P(Learn, MostOfManyKindsInTurnsLearn) {
    run_threads(
        learning(2, GetParam()),
        [&](uint32_t, gcoll_context *context) {
            uint64_t call = 0, count = 0;
            for (int round = 0; round < 4; round++)
                for (uint64_t kind = 1; kind <= 100; kind++)
                    ASSERT_GCOLL_OK(blocking(context, kind, ++call));
            for (uint64_t kind = 1; kind <= 100; kind++)
                count += learns(context, kind);
            EXPECT_GE(count, 63u);
            EXPECT_LE(count, 64u);
        });
}

// A job that ends before anything was settled on says so, and writes nothing.
TEST_P(Learn, AJobThatHasLearnedNothingSavesNothingAndSaysSo) {
    gcoll_test::Folder folder;
    setenv("GCOLL_TUNING_SAVE", (folder.path() + "/none.tuning").c_str(), 1);
    std::string said;
    Job job = learning(2, GetParam());
    job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        options->tuning = nullptr;
        if (rank != 0)
            return;
        options->log_arg = &said;
        options->log = [](void *arg, gcoll_log_level level, const char *text) {
            if (level == GCOLL_LOG_INFO)
                static_cast<std::string *>(arg)->append(text).append("\n");
        };
    };
    run_threads(job, [&](uint32_t, gcoll_context *context) { ASSERT_GCOLL_OK(blocking(context, 100, 1)); });
    unsetenv("GCOLL_TUNING_SAVE");
    EXPECT_NE(said.find("none.tuning, as no algorithm was settled on yet"), std::string::npos) << said;
    EXPECT_EQ(folder.files().size(), 0u);
}

// Rules are for calls without one.
TEST_P(Learn, CallsWithACodecAreNotSaved) {
    gcoll_test::Folder folder;
    setenv("GCOLL_TUNING_SAVE", (folder.path() + "/codec.tuning").c_str(), 1);
    run_threads(learning(2, GetParam()), [&](uint32_t, gcoll_context *context) {
        std::vector<float> data(100);
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.codec = "bf16";
        for (int call = 0; call < 700; call++)
            ASSERT_GCOLL_OK(gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32,
                                            GCOLL_SUM, &options));
    });
    unsetenv("GCOLL_TUNING_SAVE");
    EXPECT_EQ(folder.files().size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Transports, Learn, gcoll_test::transports());

// Times and lessons come late and in another order.
// Calls of one form, from number `call` on: one that blocks, or several that are started and then waited for.
constexpr uint64_t kStarted = 30;
gcoll_status calls_of(bool starts, gcoll_context *context, uint64_t count, uint64_t call) {
    if (!starts)
        return blocking(context, count, call);
    std::vector<std::vector<float>> data(kStarted, std::vector<float>(count));
    std::vector<gcoll_request *> requests(kStarted);
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.same = GCOLL_SAME_NOWHERE;
    gcoll_status status = GCOLL_OK;
    uint64_t begun = 0;
    for (; begun < kStarted && status == GCOLL_OK; begun++) {
        fill(data[begun], gcoll_context_rank(context), call + begun);
        status = gcoll_allreduce_start(context, nullptr, data[begun].data(), count, GCOLL_FLOAT32, GCOLL_SUM,
                                       &options, &requests[begun]);
    }
    for (uint64_t k = 0; k < begun; k++) {
        const gcoll_status ended = requests[k] ? gcoll_request_wait(&requests[k]) : status;
        if (ended == GCOLL_OK)
            check(data[k], gcoll_context_size(context), call + k);
        status = status == GCOLL_OK ? ended : status;
    }
    return status;
}

TEST(LearnFaults, RanksAgreeInAnyOrderOfMessages) {
    for (uint64_t seed = 1; seed <= 5; seed++) {
        Job job = learning(2 + static_cast<uint32_t>(seed) * 2, "inproc"); // up to a tree of three levels
        job.prepare = [seed](gcoll_hub *hub) { ASSERT_GCOLL_OK(gcoll_inproc_shuffle(hub, seed)); };
        run_threads(job, [&](uint32_t rank, gcoll_context *context) {
            for (uint64_t call = 0; call < 150; call++) {
                ASSERT_GCOLL_OK(calls_of(call % 10 == 7, context, 10 + call % 2, call));
                int32_t token = rank == 1 ? 7 : 0;
                ASSERT_GCOLL_OK(gcoll_broadcast(context, &token, 1, GCOLL_INT32, 1, nullptr));
                EXPECT_EQ(token, 7);
            }
        });
    }
}

// By the chain nothing but times goes from rank 3 to rank 0, and the first are lost: as bad as any message
// that is lost, an error of the ranks that wait for the lesson.
TEST(LearnFaults, ALostReportEndsInAnError) {
    for (bool starts : {false, true}) {
        Job job = learning(4, "inproc");
        job.timeout_ms = 1500;
        job.prepare = [](gcoll_hub *hub) {
            ASSERT_GCOLL_OK(gcoll_inproc_drop(hub, 3, 0, 0)); // creation measures with ranks 1 and 2
        };
        run_threads(job, [starts](uint32_t, gcoll_context *context) {
            static const gcoll_algorithm chain = [] {
                gcoll_algorithm made = kLiar;
                made.name = "chain";
                made.plan = [](const gcoll_problem *p, gcoll_builder *b) { chain_plan(p, b); };
                return made;
            }();
            ASSERT_GCOLL_OK(gcoll_context_register(context, &chain));
            gcoll_status status = GCOLL_OK;
            uint64_t call = 0;
            for (; call < 200 && status == GCOLL_OK; call++)
                status = calls_of(starts, context, 10, call);
            EXPECT_NE(status, GCOLL_OK);
            EXPECT_GE(call, starts ? 1u : 8u);
        });
    }
}

// Ranks whose calls differ hear so, whether they compare fingerprints first or counts of calls.
TEST(LearnFaults, DifferentCallsAreToldOf) {
    Job job = learning(3, "inproc");
    job.timeout_ms = 3000;
    for (bool starts : {false, true})
        run_threads(job, [starts](uint32_t rank, gcoll_context *context) {
            gcoll_status status = GCOLL_OK;
            const uint64_t differs = starts ? 3 : 20;
            for (uint64_t call = 0; call < 100 && status == GCOLL_OK; call++)
                status = calls_of(starts, context, rank == 2 && call >= differs ? 11 : 10, call);
            EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
        });
}

// A rank makes no progress while others wait for a lesson, some of them for a rank that waits itself: it is
// named.
TEST(LearnFaults, ASilentRankIsNamed) {
    constexpr uint32_t kSize = 7, kSilent = 5; // rank 6 waits for rank 1, and that for rank 5
    for (bool starts : {false, true}) {
        Job job = learning(kSize, "inproc");
        job.timeout_ms = 1000;
        std::atomic<uint32_t> ended{0};
        run_threads(job, [&](uint32_t rank, gcoll_context *context) {
            gcoll_status status = GCOLL_OK;
            for (uint64_t call = 0; call < 200 && status == GCOLL_OK; call++) {
                if (rank == kSilent && call == (starts ? 2 : 40))
                    break;
                status = calls_of(starts, context, 10, call);
            }
            if (rank == kSilent) {
                while (ended < kSize - 1)
                    std::this_thread::yield();
                return;
            }
            EXPECT_NE(status, GCOLL_OK);
            EXPECT_EQ(gcoll_context_culprit(context), kSilent)
                << "rank " << rank << ": " << gcoll_last_error();
            ended++;
        });
    }
}

// A rank dies while algorithms are tried: all others hear of it, and which it was, as at any other time.
TEST(LearnFaults, ADeadRankIsNamed) {
    struct Death {
        bool starts;
        uint32_t call;
    };
    for (const Death death :
         {Death{false, 3}, Death{false, 9}, Death{false, 41}, Death{false, 44}, Death{false, 60},
          Death{false, 90}, Death{true, 1}, Death{true, 2}, Death{true, 7}}) {
        constexpr uint32_t kSize = 4;
        gcoll_test::Folder folder;
        gcoll_test::Processes ranks(kSize, [&](uint32_t rank) {
            gcoll_store *store = nullptr;
            EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 20000, &store));
            gcoll_context *context =
                gcoll_test::join(store, learning(kSize, gcoll_test::process_transport()), rank);
            gcoll_status status = context ? GCOLL_OK : GCOLL_ERR_IO;
            for (uint32_t i = 0; i < 300 && status == GCOLL_OK; i++) {
                if (rank == 2 && i == death.call)
                    _exit(0);
                status = calls_of(death.starts, context, 30, i);
            }
            EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
            EXPECT_NE(std::string(gcoll_last_error()).find("rank 2"), std::string::npos)
                << gcoll_last_error();
            gcoll_context_destroy(context);
            gcoll_store_destroy(store);
            return 0;
        });
        ranks.expect_success(20000, 2);
    }
}

} // namespace
