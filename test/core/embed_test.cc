// test/core/embed_test.cc - tests of what a framework needs to embed gcoll: waits that another thread can
// end, callbacks that tell how operations ended, a descriptor, and several threads on one context.
#include "test/kit/calls.h"
#include "test/kit/collective_support.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>

namespace {

using namespace collective_support;
using namespace gcoll_test;

class Embedded : public testing::TestWithParam<const char *> {
  protected:
    static Job job(uint32_t size, bool thread = true) { return threaded(job_on(GetParam(), size), thread); }
};

// Two ranks in one process, each with the pair to the other.
struct Two {
    explicit Two(const Job &job) : group(job) {
        EXPECT_GCOLL_OK(gcoll_context_pair(group[0], 1, &there));
        EXPECT_GCOLL_OK(gcoll_context_pair(group[1], 0, &back));
    }
    Group group;
    gcoll_pair *there = nullptr, *back = nullptr;
};

// Two ranks that have met hear of each other's failures at once.
void connect(const Group &group) {
    std::thread other([&] { EXPECT_GCOLL_OK(gcoll_barrier(group[1], nullptr)); });
    EXPECT_GCOLL_OK(gcoll_barrier(group[0], nullptr));
    other.join();
}

// Waits until another thread waits for the request.
void await_waiter(gcoll_request *request) {
    const int64_t begun = now_ms();
    gcoll_status status = GCOLL_OK;
    for (int done = 0; status == GCOLL_OK && now_ms() - begun < 10000;)
        status = gcoll_request_test(&request, &done);
    EXPECT_EQ(status, GCOLL_ERR_STATE) << "the other thread waits";
    EXPECT_TRUE(says("another thread waits")) << gcoll_last_error();
}

// ---- Waking ----------------------------------------------------------------------------------------------

void wakes_are_remembered_once(const Job &job) {
    Watchdog watchdog(60);
    Two two(job);
    gcoll_context *context = two.group[0];
    int64_t got = 0, sent = 5;
    uint32_t index = 7;
    gcoll_request *requests[2] = {};
    ASSERT_GCOLL_OK(gcoll_pair_recv_start(two.there, 1, &got, sizeof got, &requests[1]));
    EXPECT_GCOLL_OK(gcoll_context_wake(context));
    EXPECT_GCOLL_OK(gcoll_context_wake(context));
    EXPECT_EQ(gcoll_wait_any(requests, 2, &index), GCOLL_WOKEN);
    EXPECT_EQ(index, 7u);
    EXPECT_NE(requests[1], nullptr);
    std::thread other([&] { EXPECT_GCOLL_OK(gcoll_pair_send(two.back, 1, &sent, sizeof sent)); });
    EXPECT_GCOLL_OK(gcoll_wait_any(requests, 2, &index)); // the second wake was no second one
    other.join();
    EXPECT_EQ(index, 1u);
    EXPECT_GCOLL_OK(gcoll_context_wake(context)); // goes first, and loses nothing
    EXPECT_EQ(gcoll_wait_any(requests, 2, &index), GCOLL_WOKEN);
    EXPECT_GCOLL_OK(gcoll_wait_any(requests, 2, &index));
    EXPECT_GCOLL_OK(gcoll_context_wake(context)); // is for gcoll_wait_any alone
    EXPECT_GCOLL_OK(gcoll_request_wait_for(&requests[1], 1000));
    EXPECT_EQ(got, 5);
    EXPECT_GCOLL_OK(gcoll_context_health(context));
}

TEST_P(Embedded, WakesAreRememberedOnce) {
    wakes_are_remembered_once(job(2, false));
}

TEST_P(Embedded, WakesAreRememberedOnceBesideAThread) {
    wakes_are_remembered_once(job(2));
}

// A sleeper that is not woken looks around ten times a second, which would take 20 s here.
void wakes_end_waits(const Job &job, uint32_t waiters) {
    Watchdog watchdog(60);
    constexpr uint32_t kWakes = 200;
    Two two(job);
    std::vector<std::thread> threads;
    std::vector<int64_t> got(waiters);
    std::vector<gcoll_request *> requests(waiters);
    std::atomic<uint32_t> woken{0};
    for (uint32_t w = 0; w < waiters; w++)
        ASSERT_GCOLL_OK(gcoll_pair_recv_start(two.there, w, &got[w], sizeof got[w], &requests[w]));
    for (uint32_t w = 0; w < waiters; w++)
        threads.emplace_back([&, w] {
            uint32_t index;
            gcoll_status status;
            while ((status = gcoll_wait_any(&requests[w], 1, &index)) == GCOLL_WOKEN)
                woken++;
            EXPECT_GCOLL_OK(status);
            EXPECT_GCOLL_OK(gcoll_request_wait(&requests[w]));
        });
    const int64_t begun = now_ms();
    for (uint32_t i = 0; i < kWakes; i++) {
        EXPECT_GCOLL_OK(gcoll_context_wake(two.group[0]));
        EXPECT_TRUE(await(woken, i + 1));
    }
    EXPECT_LT(now_ms() - begun, 10000);
    EXPECT_EQ(woken, kWakes);
    for (int64_t w = 0; w < waiters; w++)
        EXPECT_GCOLL_OK(gcoll_pair_send(two.back, static_cast<uint32_t>(w), &w, sizeof w));
    for (std::thread &each : threads)
        each.join();
    for (int64_t w = 0; w < waiters; w++)
        EXPECT_EQ(got[static_cast<size_t>(w)], w);
}

TEST_P(Embedded, WakesEndAWait) {
    wakes_end_waits(job(2, false), 1);
}

TEST_P(Embedded, WakesEndAWaitBesideAThread) {
    wakes_end_waits(job(2), 1);
}

TEST_P(Embedded, AWakeEndsOneOfSeveralWaits) {
    wakes_end_waits(job(2), 3);
}

int64_t cpu_ms(std::thread &thread) {
    clockid_t clock;
    timespec used = {};
    EXPECT_EQ(pthread_getcpuclockid(thread.native_handle(), &clock), 0);
    EXPECT_EQ(clock_gettime(clock, &used), 0);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

// A wake that nobody takes, as no thread is in gcoll_wait_any, keeps no thread from its sleep.
TEST_P(Embedded, AWakeIsNotHandedToAndFro) {
    Watchdog watchdog(60);
    constexpr int64_t kLookMs = 400;
    Two two(job(2));
    int64_t got[2] = {}, value = 4;
    gcoll_request *requests[2] = {};
    std::vector<std::thread> waiters;
    for (uint32_t w = 0; w < 2; w++) {
        ASSERT_GCOLL_OK(gcoll_pair_recv_start(two.there, w, &got[w], sizeof got[w], &requests[w]));
        gcoll_request *const copy = requests[w];
        waiters.emplace_back([&requests, w] { EXPECT_GCOLL_OK(gcoll_request_wait(&requests[w])); });
        await_waiter(copy);
    }
    EXPECT_GCOLL_OK(gcoll_context_wake(two.group[0]));
    const int64_t before = cpu_ms(waiters[0]) + cpu_ms(waiters[1]);
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs)); // in which nothing moves
    EXPECT_LT(cpu_ms(waiters[0]) + cpu_ms(waiters[1]) - before, kLookMs / 10);
    for (uint32_t w = 0; w < 2; w++)
        EXPECT_GCOLL_OK(gcoll_pair_send(two.back, w, &value, sizeof value));
    for (std::thread &each : waiters)
        each.join();
}

TEST_P(Embedded, WakesOfManyThreadsDisturbNothing) {
    std::atomic<uint32_t> over{0};
    run_threads(job(3), [&](uint32_t rank, gcoll_context *context) {
        std::vector<std::thread> wakers;
        for (int i = 0; i < 2; i++)
            wakers.emplace_back([&] {
                while (over < 3) {
                    EXPECT_GCOLL_OK(gcoll_context_wake(context));
                    std::this_thread::yield();
                }
            });
        for (int64_t round = 0; round < 100; round++) {
            std::vector<int64_t> data(50, round + rank);
            gcoll_request *request = nullptr;
            ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data.data(), 50, GCOLL_INT64, GCOLL_SUM,
                                                  nullptr, &request));
            uint32_t index = 9;
            gcoll_status status;
            while ((status = gcoll_wait_any(&request, 1, &index)) == GCOLL_WOKEN)
                continue;
            EXPECT_GCOLL_OK(status);
            EXPECT_EQ(index, 0u);
            EXPECT_GCOLL_OK(gcoll_request_wait(&request));
            EXPECT_EQ(data, std::vector<int64_t>(50, 3 * round + 3));
        }
        over++;
        for (std::thread &each : wakers)
            each.join();
    });
}

// A thread that is woken before each of its waits gets GCOLL_WOKEN each time. What it waits for goes on.
TEST_P(Embedded, WakesDoNotKeepAWaitFromProgress) {
    Watchdog watchdog(60);
    for (uint64_t count : {uint64_t{1}, uint64_t{200000}}) {
        Two two(job(2, false));
        std::vector<int64_t> got(count), sent(count, 5);
        gcoll_request *request = nullptr;
        ASSERT_GCOLL_OK(gcoll_pair_recv_start(two.there, 1, got.data(), count * 8, &request));
        std::thread other([&] { EXPECT_GCOLL_OK(gcoll_pair_send(two.back, 1, sent.data(), count * 8)); });
        const int64_t begun = now_ms();
        uint32_t source = 7;
        bool has_come = false;
        while (!has_come && now_ms() - begun < 10000) {
            uint32_t index = 9;
            EXPECT_GCOLL_OK(gcoll_context_wake(two.group[0]));
            ASSERT_EQ(gcoll_wait_any(&request, 1, &index), GCOLL_WOKEN);
            has_come = gcoll_request_source(request, &source) == GCOLL_OK; // makes no progress itself
        }
        EXPECT_TRUE(has_come);
        EXPECT_GCOLL_OK(gcoll_request_wait(&request));
        EXPECT_EQ(got, sent);
        other.join();
    }
}

// Rank 1 is in no gcoll call. The time of a request goes on however often its waits are woken.
void woken_waits_time_out(const Job &job, const std::function<gcoll_request *(Two &)> &begin) {
    Watchdog watchdog(60);
    Two two(job);
    connect(two.group);
    gcoll_request *request = begin(two);
    const int64_t begun = now_ms();
    gcoll_status status = GCOLL_WOKEN;
    while (status == GCOLL_WOKEN && now_ms() - begun < 15000) {
        uint32_t index = 9;
        EXPECT_GCOLL_OK(gcoll_context_wake(two.group[0]));
        status = gcoll_wait_any(&request, 1, &index);
    }
    EXPECT_EQ(status, GCOLL_ERR_TIMEOUT) << told(status);
    EXPECT_EQ(gcoll_context_culprit(two.group[0]), 1);
    EXPECT_EQ(gcoll_request_wait(&request), GCOLL_ERR_TIMEOUT);
}

TEST_P(Embedded, WokenWaitsTimeOut) {
    Job short_job = job(2, false);
    int64_t data = 0;
    gcoll_operation *operation = nullptr;
    short_job.timeout_ms = 600;
    const auto receive = [&](Two &two) {
        gcoll_request *request = nullptr;
        EXPECT_GCOLL_OK(gcoll_pair_recv_start(two.there, 1, &data, sizeof data, &request));
        return request;
    };
    const auto started = [&](Two &two) {
        gcoll_request *request = nullptr;
        EXPECT_GCOLL_OK(gcoll_barrier_start(two.group[0], nullptr, &request));
        return request;
    };
    const auto persistent = [&](Two &two) {
        EXPECT_GCOLL_OK(gcoll_barrier_create(two.group[0], nullptr, &operation));
        EXPECT_GCOLL_OK(gcoll_operation_start(operation));
        return gcoll_operation_request(operation);
    };
    woken_waits_time_out(short_job, receive);
    woken_waits_time_out(short_job, started);
    woken_waits_time_out(short_job, persistent);
    gcoll_operation_destroy(operation);
}

TEST_P(Embedded, WakesAreRefusedWhereThatCanBeTold) {
    EXPECT_EQ(gcoll_context_wake(nullptr), GCOLL_ERR_INVALID);
    EXPECT_TRUE(says("context: is NULL"));
    Group group(job(2, false));
    const pid_t child = fork();
    if (child == 0)
        _exit(gcoll_context_wake(group[0]) == GCOLL_ERR_STATE && says("forked") ? 0 : 1);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_GCOLL_OK(gcoll_context_wake(group[0]));
}

// Nothing is in flight on the rank that aborts, and nobody calls. Its thread looks around ten times a second:
// a tell that waits for that takes 50 ms on average.
TEST_P(Embedded, AnAbortIsSentAtOnce) {
    constexpr int kTimes = 20;
    int64_t waited_ms = 0;
    for (int i = 0; i < kTimes; i++) {
        Two two(job(2));
        int64_t data = 1;
        gcoll_request *request = nullptr;
        connect(two.group);
        EXPECT_GCOLL_OK(gcoll_pair_recv_start(two.back, 0, &data, sizeof data, &request));
        std::this_thread::sleep_for(std::chrono::milliseconds(i)); // anywhere between two looks
        const int64_t begun = now_ms();
        gcoll_context_abort(two.group[0], "enough");
        while (gcoll_context_health(two.group[1]) == GCOLL_OK && now_ms() - begun < 10000)
            std::this_thread::yield();
        waited_ms += now_ms() - begun;
        EXPECT_EQ(gcoll_request_wait(&request), GCOLL_ERR_ABORTED);
    }
    EXPECT_LT(waited_ms, kTimes * 25);
}

// ---- Callbacks -------------------------------------------------------------------------------------------

// What options.done was called with.
struct Ending {
    std::atomic<uint32_t> calls{0};
    gcoll_status status = GCOLL_ERR_INTERNAL;
    std::string text = "unset";
};

void note(void *arg, gcoll_status status, const char *text) {
    auto *ending = static_cast<Ending *>(arg);
    ending->status = status;
    ending->text = text;
    ending->calls++;
}

template <class Options> Options telling_by(void (*init)(Options *), Ending *ending) {
    Options options;
    init(&options);
    options.done = note;
    options.done_arg = ending;
    return options;
}

gcoll_collective_options telling(Ending *ending) {
    return telling_by(gcoll_collective_options_init, ending);
}

gcoll_allreduce_options telling_allreduce(Ending *ending) {
    return telling_by(gcoll_allreduce_options_init, ending);
}

// Each type of options, by name and by the struct; started and persistent; with counts of no elements.
void tell_of_all_forms(uint32_t rank, gcoll_context *context) {
    const uint32_t size = gcoll_context_size(context);
    for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{100000}}) {
        std::vector<int64_t> in(count, rank + 1), out(count), all(count * size),
            data(count, rank == 0 ? 9 : 0);
        Ending endings[6];
        gcoll_allreduce_options allreduce = telling_allreduce(&endings[0]);
        gcoll_collective_options allgather = telling(&endings[1]), any = telling(&endings[4]),
                                 persistent = telling(&endings[5]);
        gcoll_broadcast_options broadcast;
        gcoll_broadcast_options_init(&broadcast);
        gcoll_barrier_options barrier;
        gcoll_barrier_options_init(&barrier);
        broadcast.done = barrier.done = note;
        broadcast.done_arg = &endings[2];
        barrier.done_arg = &endings[3];
        gcoll_collective_call call;
        gcoll_collective_call_init(&call);
        call.collective = GCOLL_BARRIER;
        call.options = &any;
        std::vector<gcoll_request *> requests(5);
        ASSERT_GCOLL_OK(gcoll_allreduce_start(context, in.data(), out.data(), count, GCOLL_INT64, GCOLL_SUM,
                                              &allreduce, &requests[0]));
        ASSERT_GCOLL_OK(gcoll_allgather_start(context, in.data(), all.data(), count, GCOLL_INT64, &allgather,
                                              &requests[1]));
        ASSERT_GCOLL_OK(
            gcoll_broadcast_start(context, data.data(), count, GCOLL_INT64, 0, &broadcast, &requests[2]));
        ASSERT_GCOLL_OK(gcoll_barrier_start(context, &barrier, &requests[3]));
        ASSERT_GCOLL_OK(gcoll_call_start(context, &call, &requests[4]));
        for (size_t i = requests.size(); i-- > 0;) {
            EXPECT_GCOLL_OK(gcoll_request_wait(&requests[i]));
            EXPECT_EQ(endings[i].calls, 1u) << i;
            EXPECT_EQ(endings[i].status, GCOLL_OK) << i;
            EXPECT_EQ(endings[i].text, "") << i;
        }
        gcoll_operation *operation = nullptr;
        ASSERT_GCOLL_OK(gcoll_reduce_create(context, in.data(), out.data(), count, GCOLL_INT64, GCOLL_SUM, 0,
                                            &persistent, &operation));
        EXPECT_EQ(endings[5].calls, 0u);
        for (uint32_t run = 1; run <= 4; run++) {
            int done = 0;
            if (run == 1) {
                EXPECT_GCOLL_OK(gcoll_operation_run(operation));
            } else {
                EXPECT_GCOLL_OK(gcoll_operation_start(operation));
                while (run == 2 && !done)
                    ASSERT_GCOLL_OK(gcoll_operation_test(operation, &done));
                if (run != 2)
                    EXPECT_GCOLL_OK(gcoll_operation_wait(operation));
            }
            EXPECT_EQ(endings[5].calls, run);
            EXPECT_EQ(endings[5].status, GCOLL_OK);
        }
        gcoll_operation_destroy(operation);
        EXPECT_EQ(endings[5].calls, 4u);
        EXPECT_EQ(all, [&] {
            std::vector<int64_t> expected;
            for (uint32_t r = 0; r < size; r++)
                expected.insert(expected.end(), count, r + 1);
            return expected;
        }());
        EXPECT_EQ(data, std::vector<int64_t>(count, 9));
        EXPECT_EQ(gcoll_barrier(context, &barrier), GCOLL_ERR_INVALID);
        EXPECT_TRUE(says("options.done")) << gcoll_last_error();
        EXPECT_EQ(endings[3].calls, 1u);
    }
    EXPECT_GCOLL_OK(gcoll_context_health(context));
}

TEST_P(Embedded, DoneIsToldOnceInAllForms) {
    run_threads(job(1, false), tell_of_all_forms);
    run_threads(job(3, false), tell_of_all_forms);
}

TEST_P(Embedded, DoneIsToldOnceInAllFormsBesideAThread) {
    run_threads(job(1), tell_of_all_forms);
    run_threads(job(5), tell_of_all_forms);
}

// Nobody waits, and nobody ends anything.
TEST_P(Embedded, DoneWithoutARequest) {
    for (uint32_t size : {1u, 2u, 3u, 5u})
        run_threads(
            job(size),
            [size](uint32_t rank, gcoll_context *context) {
                constexpr uint64_t kRounds = 30;
                std::vector<std::vector<int64_t>> data(kRounds);
                std::vector<std::unique_ptr<Ending>> endings(kRounds);
                for (uint64_t i = 0; i < kRounds; i++) {
                    endings[i] = std::make_unique<Ending>();
                    data[i].assign(i * i * 7, static_cast<int64_t>(rank + i));
                    gcoll_allreduce_options options = telling_allreduce(endings[i].get());
                    ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data[i].data(), data[i].size(),
                                                          GCOLL_INT64, GCOLL_SUM, &options, nullptr));
                }
                for (uint64_t i = 0; i < kRounds; i++) {
                    EXPECT_TRUE(await(endings[i]->calls, 1)) << i;
                    EXPECT_EQ(endings[i]->status, GCOLL_OK) << endings[i]->text;
                    const auto sum = static_cast<int64_t>(size * i + size * (size - 1) / 2);
                    EXPECT_EQ(data[i], std::vector<int64_t>(i * i * 7, sum));
                }
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
                for (uint64_t i = 0; i < kRounds; i++)
                    EXPECT_EQ(endings[i]->calls, 1u) << i;
            });
}

TEST_P(Embedded, ARequestIsNeededWhereNobodyElseWouldEndIt) {
    run_threads(
        job(2, false),
        [](uint32_t, gcoll_context *context) {
            Ending ending;
            gcoll_barrier_options options;
            gcoll_barrier_options_init(&options);
            EXPECT_EQ(gcoll_barrier_start(context, &options, nullptr), GCOLL_ERR_INVALID);
            EXPECT_TRUE(says("options.done")) << gcoll_last_error();
            options.done = note;
            options.done_arg = &ending;
            EXPECT_EQ(gcoll_barrier_start(context, &options, nullptr), GCOLL_ERR_INVALID);
            EXPECT_TRUE(says("progress thread")) << gcoll_last_error();
            EXPECT_EQ(ending.calls, 0u);
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

// An allreduce that rank 1 never calls, in each form that can tell: a request, none, an operation. What ends
// it is told to each once, and is what the request says.
struct Waiting {
    Ending ending[3];
    std::vector<int64_t> data[3];
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
};

void begin_all(gcoll_context *context, Waiting *waiting) {
    gcoll_allreduce_options options[3];
    for (int i = 0; i < 3; i++) {
        waiting->data[i].assign(1000, 1);
        options[i] = telling_allreduce(&waiting->ending[i]);
    }
    EXPECT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, waiting->data[0].data(), 1000, GCOLL_INT64,
                                          GCOLL_SUM, &options[0], &waiting->request));
    EXPECT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, waiting->data[1].data(), 1000, GCOLL_INT64,
                                          GCOLL_SUM, &options[1], nullptr));
    EXPECT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, waiting->data[2].data(), 1000, GCOLL_INT64,
                                           GCOLL_SUM, &options[2], &waiting->operation));
    EXPECT_GCOLL_OK(gcoll_operation_start(waiting->operation));
}

void expect_all(Waiting *waiting, gcoll_status status, const char *text) {
    for (const Ending &each : waiting->ending) {
        EXPECT_TRUE(await(each.calls, 1));
        EXPECT_EQ(each.status, status) << each.text;
        EXPECT_NE(each.text.find(text), std::string::npos) << each.text;
    }
    EXPECT_EQ(gcoll_operation_wait(waiting->operation), status);
    EXPECT_EQ(gcoll_request_wait(&waiting->request), status);
    EXPECT_NE(std::string(gcoll_last_error()).find(text), std::string::npos) << gcoll_last_error();
    gcoll_operation_destroy(waiting->operation);
    for (const Ending &each : waiting->ending)
        EXPECT_EQ(each.calls, 1u);
}

TEST_P(Embedded, DoneIsToldOfAnAbort) {
    for (uint32_t aborts = 0; aborts < 2; aborts++) {
        Watchdog watchdog(60);
        Two two(job(2));
        Waiting waiting;
        uint8_t byte;
        connect(two.group);
        begin_all(two.group[0], &waiting);
        gcoll_context_abort(two.group[aborts], "that is all");
        std::thread other([&] { EXPECT_EQ(gcoll_pair_recv(two.back, 0, &byte, 1), GCOLL_ERR_ABORTED); });
        expect_all(&waiting, GCOLL_ERR_ABORTED, "that is all");
        other.join();
    }
}

TEST_P(Embedded, DoneIsToldOfARankThatLeaves) {
    Watchdog watchdog(60);
    Group group(job(2));
    Waiting waiting;
    connect(group);
    begin_all(group[0], &waiting);
    group.leave(1);
    expect_all(&waiting, GCOLL_ERR_PEER, "rank 1");
}

// Nobody calls: the context's thread watches over the time.
TEST_P(Embedded, DoneIsToldOfATimeout) {
    Watchdog watchdog(60);
    Job job = this->job(2);
    job.timeout_ms = 2000; // for joining, too
    Group group(job);
    Waiting waiting;
    connect(group);
    begin_all(group[0], &waiting);
    expect_all(&waiting, GCOLL_ERR_TIMEOUT, "timed out");
}

// The time of an operation that only tells passes while another thread is in a call that goes on for longer.
void limits_are_told_during(const Job &job, const std::function<gcoll_status(Two &two)> &call) {
    Watchdog watchdog(60);
    Two two(job);
    int64_t data = 0;
    Ending ending;
    gcoll_allreduce_options options = telling_allreduce(&ending);
    options.timeout_ms = 300;
    EXPECT_GCOLL_OK(
        gcoll_allreduce_start(two.group[0], nullptr, &data, 1, GCOLL_INT64, GCOLL_SUM, &options, nullptr));
    std::thread caller([&] { EXPECT_EQ(call(two), GCOLL_ERR_TIMEOUT) << gcoll_last_error(); });
    EXPECT_TRUE(await(ending.calls, 1));
    EXPECT_EQ(ending.status, GCOLL_ERR_TIMEOUT) << ending.text;
    caller.join();
}

TEST_P(Embedded, DoneIsToldOfATimeoutBesideAWait) {
    limits_are_told_during(
        job(2),
        [](Two &two) {
            int64_t got = 0;
            EXPECT_GCOLL_OK(gcoll_pair_set_timeout(two.there, -1));
            return gcoll_pair_recv(two.there, 3, &got, sizeof got);
        });
}

TEST_P(Embedded, DoneIsToldOfATimeoutBesideAWaitForNotifications) {
    limits_are_told_during(
        job(2),
        [](Two &two) {
            int64_t memory = 0;
            gcoll_region *region = nullptr;
            EXPECT_GCOLL_OK(gcoll_region_create(two.group[0], &memory, sizeof memory, &region));
            gcoll_status status = gcoll_region_wait(region, 1);
            gcoll_region_destroy(region);
            return status;
        });
}

TEST_P(Embedded, DoneIsToldOfATimeoutBesideABarrierReport) {
    limits_are_told_during(
        job(2),
        [](Two &two) {
            uint8_t here[2];
            return gcoll_barrier_report(two.group[0], -1, here);
        });
}

// A broadcast whose message comes while the context's thread is held up, by a callback, until the time of
// the broadcast is over. It is on time if that callback was.
struct HeldUp {
    explicit HeldUp(const Job &job) : two(job) {}
    static constexpr int64_t kLimitMs = 1000;
    Two two;
    int64_t begun = 0, value = 7;
    bool in_time = false;
    gcoll_request *sent = nullptr;
};

void send_when_time_is_over(void *arg, gcoll_status, const char *) {
    auto *held = static_cast<HeldUp *>(arg);
    held->in_time = now_ms() < held->begun + HeldUp::kLimitMs - 20;
    while (now_ms() < held->begun + HeldUp::kLimitMs + 30)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GCOLL_OK(
        gcoll_broadcast_start(held->two.group[1], &held->value, 1, GCOLL_INT64, 1, nullptr, &held->sent));
}

// Returns false if this machine was too slow for that.
bool end_in_the_last_look(const Job &job) {
    HeldUp held(job);
    gcoll_context *mine = held.two.group[0], *other = held.two.group[1];
    int64_t got[2] = {}, first = 6;
    Ending ending;
    gcoll_request *requests[2] = {};
    gcoll_broadcast_options holds, limited;
    gcoll_broadcast_options_init(&holds);
    gcoll_broadcast_options_init(&limited);
    holds.done = send_when_time_is_over;
    holds.done_arg = &held;
    limited.done = note;
    limited.done_arg = &ending;
    limited.timeout_ms = HeldUp::kLimitMs;
    connect(held.two.group);
    EXPECT_GCOLL_OK(gcoll_broadcast_start(mine, &got[0], 1, GCOLL_INT64, 1, &holds, &requests[0]));
    held.begun = now_ms();
    EXPECT_GCOLL_OK(gcoll_broadcast_start(mine, &got[1], 1, GCOLL_INT64, 1, &limited, nullptr));
    while (now_ms() < held.begun + HeldUp::kLimitMs * 8 / 10)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GCOLL_OK(gcoll_context_wake(mine)); // the time until now is counted soon
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_GCOLL_OK(gcoll_broadcast_start(other, &first, 1, GCOLL_INT64, 1, nullptr, &requests[1]));
    EXPECT_TRUE(await(ending.calls, 1));
    gcoll_status status = gcoll_request_wait(&requests[0]);
    if (held.in_time) {
        EXPECT_EQ(status, GCOLL_OK) << told(status);
        EXPECT_EQ(ending.status, GCOLL_OK) << ending.text;
        EXPECT_EQ(got[1], 7);
        EXPECT_GCOLL_OK(gcoll_context_health(mine));
    }
    gcoll_request_wait(&requests[1]);
    gcoll_request_wait(&held.sent);
    return held.in_time;
}

// The look that finds the time over receives the message first, and nobody keeps the operation then.
TEST(EmbeddedInProcess, WhatEndsInTheLastLookHasNotTimedOut) {
    Watchdog watchdog(60);
    Job job;
    job.size = 2;
    job.adjust = [](uint32_t, gcoll_context_options *options) { options->progress_thread = 1; };
    for (int i = 0; i < 5 && !end_in_the_last_look(job); i++)
        continue;
}

TEST_P(Embedded, DoneIsToldOfDestruction) {
    for (int what = 0; what < 2; what++) {
        Watchdog watchdog(60);
        auto group = std::make_unique<Group>(job(2));
        Waiting waiting;
        begin_all((*group)[0], &waiting);
        if (what == 0) {
            gcoll_operation_destroy(waiting.operation);
            for (const Ending &each : waiting.ending)
                EXPECT_EQ(each.status, GCOLL_ERR_PEER) << each.text;
            EXPECT_EQ(gcoll_request_wait(&waiting.request), GCOLL_ERR_PEER);
        } else {
            group->leave(0);
            gcoll_operation_destroy(waiting.operation);
        }
        group.reset();
        for (const Ending &each : waiting.ending) {
            EXPECT_EQ(each.calls, 1u);
            EXPECT_EQ(each.status, GCOLL_ERR_PEER) << each.text;
        }
    }
}

// A call that is refused begins nothing, so nothing ends.
TEST_P(Embedded, DoneIsNotToldOfWhatNeverBegan) {
    run_threads(
        job(2),
        [](uint32_t rank, gcoll_context *context) {
            Ending ending;
            gcoll_request *request = nullptr;
            gcoll_operation *operation = nullptr;
            int64_t value = rank;
            gcoll_allreduce_options options = telling_allreduce(&ending);
            options.algorithm = "none such";
            EXPECT_EQ(gcoll_allreduce_start(context, nullptr, &value, 1, GCOLL_INT64, GCOLL_SUM, &options,
                                            &request),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(
                gcoll_allreduce_start(context, nullptr, &value, 1, GCOLL_INT64, GCOLL_SUM, &options, nullptr),
                GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_allreduce_create(context, nullptr, &value, 1, GCOLL_INT64, GCOLL_SUM, &options,
                                             &operation),
                      GCOLL_ERR_INVALID);
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            EXPECT_EQ(ending.calls, 0u);
        });
}

// Callbacks may ask and wake. What else they call is refused, and breaks nothing.
struct Calling {
    gcoll_context *context;
    std::atomic<uint32_t> right{0};
};

void call_all(void *arg, gcoll_status status, const char *) {
    auto *calling = static_cast<Calling *>(arg);
    gcoll_context *context = calling->context;
    gcoll_request *request = nullptr;
    bool right = gcoll_context_health(context) == status && gcoll_context_wake(context) == GCOLL_OK;
    gcoll_context_culprit(context);
    right = right && gcoll_barrier(context, nullptr) == GCOLL_ERR_STATE && says("callback");
    right = right && gcoll_barrier_start(context, nullptr, &request) == GCOLL_ERR_STATE && !request;
    gcoll_context_destroy(context); // must do nothing
    right = right && says("callback");
    calling->right += right ? 1 : 1000;
}

void call_from_done(uint32_t rank, gcoll_context *context) {
    Calling calling;
    calling.context = context;
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.done = call_all;
    options.done_arg = &calling;
    for (uint32_t i = 1; i <= 3; i++) {
        int64_t value = rank;
        uint32_t index = 9;
        gcoll_request *request = nullptr;
        ASSERT_GCOLL_OK(
            gcoll_allreduce_start(context, nullptr, &value, 1, GCOLL_INT64, GCOLL_SUM, &options, &request));
        gcoll_status status;
        while ((status = gcoll_wait_any(&request, 1, &index)) == GCOLL_WOKEN) // by its own callback
            continue;
        EXPECT_GCOLL_OK(status);
        EXPECT_GCOLL_OK(gcoll_request_wait(&request));
        EXPECT_EQ(value, 3);
        EXPECT_EQ(calling.right, i);
    }
    EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
}

TEST_P(Embedded, CallbacksMayAskAndWake) {
    run_threads(job(3, false), call_from_done);
    run_threads(job(3), call_from_done);
}

struct Asking {
    gcoll_context *context;
    std::atomic<uint32_t> asks{0}, destroys{0};
};

void ask_for_long(void *arg, gcoll_status, const char *) {
    auto *asking = static_cast<Asking *>(arg);
    asking->asks = 1;
    int64_t until = now_ms() + 5000;
    for (bool is_over = false; !is_over && now_ms() < until;) {
        gcoll_context_health(asking->context);
        gcoll_context_culprit(asking->context);
        if (asking->destroys) { // for a while after the other thread has come to it
            is_over = asking->destroys == 2;
            until = std::min(until, now_ms() + 5);
        }
    }
}

// A callback that asks is no call that another thread makes: destruction waits for it, and is not refused.
TEST_P(Embedded, ACallbackThatAsksDoesNotKeepAContextFromItsDestruction) {
    Watchdog watchdog(60);
    for (int i = 0; i < 10; i++) {
        Asking asking; // outlives the callback, also if destruction is refused
        Two two(job(2));
        asking.context = two.group[0];
        gcoll_barrier_options options;
        gcoll_barrier_options_init(&options);
        options.done = ask_for_long;
        options.done_arg = &asking;
        gcoll_request *request = nullptr;
        ASSERT_GCOLL_OK(gcoll_barrier_start(two.group[0], &options, nullptr));
        ASSERT_GCOLL_OK(gcoll_barrier_start(two.group[1], nullptr, &request));
        EXPECT_TRUE(await(asking.asks, 1));
        EXPECT_EQ(gcoll_context_wake(nullptr), GCOLL_ERR_INVALID); // an error before
        asking.destroys = 1;
        gcoll_context_destroy(two.group[0]);
        const bool refused = says("another thread");
        asking.destroys = 2;
        EXPECT_FALSE(refused) << gcoll_last_error();
        if (!refused)
            two.group.forget(0);
        gcoll_request_wait(&request);
    }
}

void abort_it(void *arg, gcoll_status, const char *) {
    gcoll_context_abort(static_cast<gcoll_context *>(arg), "by a callback");
}

TEST_P(Embedded, CallbacksMayAbort) {
    run_threads(
        job(3),
        [](uint32_t, gcoll_context *context) {
            gcoll_barrier_options options;
            gcoll_barrier_options_init(&options);
            options.done = abort_it;
            options.done_arg = context;
            gcoll_request *request = nullptr;
            ASSERT_GCOLL_OK(gcoll_barrier_start(context, &options, &request));
            gcoll_request_wait(&request); // an abort may come from a rank that was faster
            EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_ABORTED);
            EXPECT_TRUE(says("by a callback")) << gcoll_last_error();
        });
}

// Each callback calls the other's context while the other callback runs.
struct Crossing {
    gcoll_context *other = nullptr;
    std::atomic<uint32_t> *inside = nullptr;
    gcoll_status status = GCOLL_OK;
    std::string text;
    std::atomic<uint32_t> calls{0};
};

void cross(void *arg, gcoll_status, const char *) {
    auto *crossing = static_cast<Crossing *>(arg);
    gcoll_request *request = nullptr;
    ++*crossing->inside;
    EXPECT_TRUE(await(*crossing->inside, 2));
    crossing->status = gcoll_barrier_start(crossing->other, nullptr, &request);
    crossing->text = gcoll_last_error();
    crossing->calls++;
}

// Neither can have the other's context while it keeps its own from going on. One of them is refused, and
// nothing stands still for good.
TEST_P(Embedded, CallbacksOfTwoContextsThatCallEachOtherEnd) {
    Watchdog watchdog(60);
    Job each = job(2);
    each.timeout_ms = 8000; // of which a callback waits a quarter; joining has as much, on a busy machine
    std::atomic<uint32_t> over{0};
    run_threads(each, [&](uint32_t rank, gcoll_context *context) {
        gcoll_context *twin = nullptr;
        std::atomic<uint32_t> inside{0};
        Crossing crossings[2];
        gcoll_barrier_options options;
        ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &twin));
        gcoll_context *const contexts[2] = {context, twin};
        gcoll_barrier_options_init(&options);
        options.done = cross;
        std::vector<std::thread> starters; // a start may call its callback itself
        for (int i = 0; i < 2; i++) {
            crossings[i].other = contexts[1 - i];
            crossings[i].inside = &inside;
            options.done_arg = &crossings[i];
            if (rank == 0)
                starters.emplace_back([options, context = contexts[i]] {
                    EXPECT_GCOLL_OK(gcoll_barrier_start(context, &options, nullptr));
                });
            else
                EXPECT_GCOLL_OK(gcoll_barrier(contexts[i], nullptr));
        }
        for (std::thread &starter : starters)
            starter.join();
        if (rank == 0) {
            int refused = 0;
            for (const Crossing &crossing : crossings) {
                EXPECT_TRUE(await(crossing.calls, 1));
                refused += crossing.status == GCOLL_ERR_STATE &&
                           crossing.text.find("callback of another context") != std::string::npos;
                EXPECT_TRUE(crossing.status == GCOLL_OK || crossing.status == GCOLL_ERR_STATE)
                    << crossing.text;
            }
            EXPECT_GE(refused, 1);
        }
        over++;
        EXPECT_TRUE(await(over, 2));
        gcoll_context_destroy(twin);
    });
}

// ---- A descriptor ----------------------------------------------------------------------------------------

bool is_readable(int fd, int limit_ms) {
    struct pollfd poll_one = {fd, POLLIN, 0};
    return poll(&poll_one, 1, limit_ms) == 1;
}

void read_it(int fd) {
    uint64_t count = 0;
    EXPECT_EQ(read(fd, &count, sizeof count), static_cast<ssize_t>(sizeof count));
    EXPECT_GE(count, 1u);
}

// An event loop that sleeps on the descriptor, and never in gcoll.
TEST_P(Embedded, ADescriptorTellsWhenToLook) {
    run_threads(
        job(3),
        [](uint32_t rank, gcoll_context *context) {
            int fd = -1, again = -2;
            ASSERT_GCOLL_OK(gcoll_context_fd(context, &fd));
            ASSERT_GCOLL_OK(gcoll_context_fd(context, &again));
            EXPECT_EQ(fd, again);
            EXPECT_GCOLL_OK(gcoll_context_wake(context));
            EXPECT_TRUE(is_readable(fd, 10000));
            EXPECT_TRUE(is_readable(fd, 0)); // until it is read
            read_it(fd);
            EXPECT_FALSE(is_readable(fd, 0));
            for (int64_t round = 0; round < 50; round++) {
                std::vector<int64_t> data(round % 5 == 4 ? 50000 : 2, rank + round);
                gcoll_request *request = nullptr;
                ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data.data(), data.size(), GCOLL_INT64,
                                                      GCOLL_SUM, nullptr, &request));
                int done = 0;
                while (!done && is_readable(fd, 10000)) {
                    read_it(fd);
                    ASSERT_GCOLL_OK(gcoll_request_test(&request, &done));
                }
                ASSERT_TRUE(done) << "nothing was told of";
                EXPECT_EQ(data, std::vector<int64_t>(data.size(), 3 * round + 3));
            }
        });
}

TEST_P(Embedded, ADescriptorTellsOfMessagesAndFailures) {
    Watchdog watchdog(60);
    Two two(job(2));
    int fd = -1;
    int64_t got = 0, value = 8;
    gcoll_request *request = nullptr;
    connect(two.group);
    ASSERT_GCOLL_OK(gcoll_context_fd(two.group[0], &fd));
    ASSERT_GCOLL_OK(gcoll_pair_recv_start(two.there, 4, &got, sizeof got, &request));
    EXPECT_GCOLL_OK(gcoll_pair_send(two.back, 4, &value, sizeof value));
    int done = 0;
    while (!done && is_readable(fd, 10000)) {
        read_it(fd);
        ASSERT_GCOLL_OK(gcoll_request_test(&request, &done));
    }
    EXPECT_EQ(got, 8);
    ASSERT_GCOLL_OK(gcoll_pair_recv_start(two.there, 4, &got, sizeof got, &request));
    two.group.leave(1);
    while (request && is_readable(fd, 10000)) {
        read_it(fd);
        gcoll_request_test(&request, &done);
    }
    EXPECT_EQ(request, nullptr) << "nothing was told of";
    EXPECT_EQ(gcoll_context_health(two.group[0]), GCOLL_ERR_PEER);
}

// Only the descriptor is made later.
TEST_P(Embedded, ADescriptorTellsOfWhatEndedBeforeIt) {
    run_threads(
        job(2),
        [](uint32_t, gcoll_context *context) {
            Ending ending;
            int fd = -1;
            gcoll_barrier_options options;
            gcoll_barrier_options_init(&options);
            options.done = note;
            options.done_arg = &ending;
            ASSERT_GCOLL_OK(gcoll_barrier_start(context, &options, nullptr));
            EXPECT_TRUE(await(ending.calls, 1));
            EXPECT_GCOLL_OK(gcoll_context_health(context)); // whoever was inside has left
            ASSERT_GCOLL_OK(gcoll_context_fd(context, &fd));
            EXPECT_TRUE(is_readable(fd, 0));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

// Nobody calls on the rank that owns the region.
TEST_P(Embedded, ADescriptorTellsOfNotifications) {
    Watchdog watchdog(60);
    Two two(job(2));
    int fd = -1;
    int64_t memory[3] = {};
    gcoll_region *region = nullptr;
    gcoll_region_key key;
    ASSERT_GCOLL_OK(gcoll_region_create(two.group[0], memory, sizeof memory, &region));
    ASSERT_GCOLL_OK(gcoll_region_export(region, &key));
    ASSERT_GCOLL_OK(gcoll_context_fd(two.group[0], &fd));
    for (uint64_t i = 0; i < 3; i++) {
        const auto value = static_cast<int64_t>(7 + i);
        uint64_t count = 0;
        if (is_readable(fd, 0)) // for what was before
            read_it(fd);
        EXPECT_GCOLL_OK(
            gcoll_put(two.group[1], &key, i * sizeof value, &value, sizeof value, GCOLL_PUT_NOTIFY));
        EXPECT_TRUE(is_readable(fd, 5000));
        EXPECT_GCOLL_OK(gcoll_region_notified(region, &count));
        EXPECT_EQ(count, i + 1);
        EXPECT_EQ(memory[i], value);
    }
    gcoll_region_destroy(region);
}

struct Slow {
    std::atomic<uint32_t> begun{0}, looked{0}, noted{0};
};

void note_slowly(void *arg, gcoll_status, const char *) {
    auto *slow = static_cast<Slow *>(arg);
    slow->begun = 1;
    EXPECT_TRUE(await(slow->looked, 1));
    slow->noted = 1;
}

// The context breaks while a thread waits: the loop hears of that, looks, and finds nothing before the
// callback has noted what it is told.
TEST_P(Embedded, ADescriptorTellsOfWhatACallbackHasNoted) {
    Watchdog watchdog(60);
    Two two(job(2));
    Slow slow;
    int fd = -1;
    int64_t got = 0;
    gcoll_request *request = nullptr;
    gcoll_barrier_options options;
    gcoll_barrier_options_init(&options);
    options.done = note_slowly;
    options.done_arg = &slow;
    connect(two.group);
    ASSERT_GCOLL_OK(gcoll_context_fd(two.group[0], &fd));
    ASSERT_GCOLL_OK(gcoll_barrier_start(two.group[0], &options, nullptr));
    ASSERT_GCOLL_OK(gcoll_pair_recv_start(two.there, 4, &got, sizeof got, &request));
    gcoll_request *const copy = request;
    std::thread waiter([&] { EXPECT_EQ(gcoll_request_wait(&request), GCOLL_ERR_ABORTED); });
    await_waiter(copy);
    gcoll_context_abort(two.group[1], "enough");
    EXPECT_TRUE(await(slow.begun, 1));
    if (is_readable(fd, 0))
        read_it(fd);
    slow.looked = 1;
    EXPECT_TRUE(is_readable(fd, 5000));
    EXPECT_TRUE(await(slow.noted, 1));
    waiter.join();
}

// A thread that drives the context while it waits for its own tells of what ends before it sleeps on.
TEST_P(Embedded, ADescriptorTellsAtOnceBesideAWait) {
    Watchdog watchdog(60);
    constexpr int kRounds = 10;
    constexpr int64_t kLateMs = 50; // the thread sleeps for 100 ms
    Two two(job(2));
    int fd = -1, late = 0;
    int64_t got = 0, value = 5;
    gcoll_request *awaited = nullptr;
    connect(two.group);
    ASSERT_GCOLL_OK(gcoll_context_fd(two.group[0], &fd));
    ASSERT_GCOLL_OK(gcoll_pair_recv_start(two.there, 4, &got, sizeof got, &awaited));
    gcoll_request *const copy = awaited;
    std::thread waiter([&] { EXPECT_GCOLL_OK(gcoll_request_wait(&awaited)); });
    await_waiter(copy);
    for (int i = 0; i < kRounds; i++) {
        gcoll_request *mine = nullptr, *other = nullptr;
        int64_t data = 0;
        ASSERT_GCOLL_OK(gcoll_broadcast_start(two.group[0], &data, 1, GCOLL_INT64, 1, nullptr, &mine));
        std::this_thread::sleep_for(std::chrono::milliseconds(5)); // the waiter goes on with its wait
        if (is_readable(fd, 0))                                    // for the round before
            read_it(fd);
        const int64_t begun = now_ms();
        ASSERT_GCOLL_OK(gcoll_broadcast_start(two.group[1], &value, 1, GCOLL_INT64, 1, nullptr, &other));
        int done = 0;
        while (!done && is_readable(fd, 10000)) {
            read_it(fd);
            ASSERT_GCOLL_OK(gcoll_request_test(&mine, &done));
        }
        late += now_ms() - begun >= kLateMs;
        EXPECT_EQ(data, 5);
        EXPECT_GCOLL_OK(gcoll_request_wait(&other));
    }
    EXPECT_LT(late, kRounds / 2);
    EXPECT_GCOLL_OK(gcoll_pair_send(two.back, 4, &value, sizeof value));
    waiter.join();
}

TEST_P(Embedded, ADescriptorNeedsAThread) {
    int fd = -1;
    Group alone(job(1)), two(job(2, false));
    EXPECT_EQ(gcoll_context_fd(alone[0], &fd), GCOLL_ERR_UNSUPPORTED);
    EXPECT_TRUE(says("one rank")) << gcoll_last_error();
    EXPECT_EQ(gcoll_context_fd(two[0], &fd), GCOLL_ERR_UNSUPPORTED);
    EXPECT_TRUE(says("progress_thread")) << gcoll_last_error();
    EXPECT_EQ(gcoll_context_fd(nullptr, &fd), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_context_fd(two[0], nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(fd, -1);
}

// ---- Several threads -------------------------------------------------------------------------------------

// While a thread of rank 0 waits for rank 1, another one sends what rank 1 needs before it goes on. A waiter
// that keeps others out would wait until the time is over.
using Wait = std::function<gcoll_status(Two &two, int64_t *got)>;

void start_while_another_waits(const Job &job, const Wait &wait,
                               const std::function<void(Two &two, const int64_t *value)> &answer) {
    Watchdog watchdog(60);
    Two two(job);
    int64_t got = 0, first = 3, seen = 0;
    const int64_t value = 42;
    std::thread waiter([&] {
        EXPECT_GCOLL_OK(wait(two, &got));
        EXPECT_EQ(got, value);
    });
    std::thread other([&] {
        EXPECT_GCOLL_OK(gcoll_pair_recv(two.back, 50, &seen, sizeof seen));
        answer(two, &value);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // likely to be waiting by then
    EXPECT_GCOLL_OK(gcoll_pair_send(two.there, 50, &first, sizeof first));
    waiter.join();
    other.join();
    EXPECT_EQ(seen, 3);
}

void send_answer(Two &two, const int64_t *value) {
    EXPECT_GCOLL_OK(gcoll_pair_send(two.back, 1, value, sizeof *value));
}

TEST_P(Embedded, StartsGoOnWhileAnotherThreadWaits) {
    const Wait by_request = [](Two &two, int64_t *got) {
        gcoll_request *request = nullptr;
        gcoll_status status = gcoll_pair_recv_start(two.there, 1, got, sizeof *got, &request);
        return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
    };
    const Wait with_limit = [](Two &two, int64_t *got) {
        gcoll_request *request = nullptr;
        gcoll_status status = gcoll_pair_recv_start(two.there, 1, got, sizeof *got, &request);
        return status == GCOLL_OK ? gcoll_request_wait_for(&request, 15000) : status;
    };
    const Wait for_any = [](Two &two, int64_t *got) {
        gcoll_request *request = nullptr;
        uint32_t index;
        gcoll_status status = gcoll_pair_recv_start(two.there, 1, got, sizeof *got, &request);
        if (status == GCOLL_OK)
            status = gcoll_wait_any(&request, 1, &index);
        return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
    };
    const Wait by_pair = [](Two &two, int64_t *got) {
        return gcoll_pair_recv(two.there, 1, got, sizeof *got);
    };
    const Wait from_any = [](Two &two, int64_t *got) {
        const uint32_t peer = 1;
        uint32_t source = 9;
        return gcoll_context_recv_any(two.group[0], &peer, 1, 1, got, sizeof *got, &source);
    };
    for (const Wait &wait : {by_request, with_limit, for_any, by_pair, from_any})
        start_while_another_waits(job(2), wait, send_answer);
}

TEST_P(Embedded, StartsGoOnWhileAnotherThreadIsInACollective) {
    const auto answer = [](Two &two, const int64_t *value) {
        int64_t data = *value;
        EXPECT_GCOLL_OK(gcoll_broadcast(two.group[1], &data, 1, GCOLL_INT64, 1, nullptr));
    };
    start_while_another_waits(
        job(2),
        [](Two &two, int64_t *got) { return gcoll_broadcast(two.group[0], got, 1, GCOLL_INT64, 1, nullptr); },
        answer);
    start_while_another_waits(
        job(2),
        [](Two &two, int64_t *got) {
            gcoll_operation *operation = nullptr;
            gcoll_status status =
                gcoll_broadcast_create(two.group[0], got, 1, GCOLL_INT64, 1, nullptr, &operation);
            if (status == GCOLL_OK)
                status = gcoll_operation_run(operation);
            gcoll_operation_destroy(operation);
            return status;
        },
        answer);
}

TEST_P(Embedded, StartsGoOnWhileAnotherThreadWaitsForNotifications) {
    Watchdog watchdog(60);
    Two two(job(2));
    int64_t memory = 0, value = 42, first = 3, seen = 0;
    gcoll_region *region = nullptr;
    gcoll_region_key key;
    ASSERT_GCOLL_OK(gcoll_region_create(two.group[0], &memory, sizeof memory, &region));
    ASSERT_GCOLL_OK(gcoll_region_export(region, &key));
    std::thread waiter([&] { EXPECT_GCOLL_OK(gcoll_region_wait(region, 1)); });
    std::thread other([&] {
        EXPECT_GCOLL_OK(gcoll_pair_recv(two.back, 50, &seen, sizeof seen));
        EXPECT_GCOLL_OK(gcoll_put(two.group[1], &key, 0, &value, sizeof value, GCOLL_PUT_NOTIFY));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // likely to be waiting by then
    EXPECT_GCOLL_OK(gcoll_pair_send(two.there, 50, &first, sizeof first));
    waiter.join();
    other.join();
    EXPECT_EQ(memory, 42);
    gcoll_region_destroy(region);
}

// Rank 1, and then rank 0, is absent from a report that a thread of the other rank waits in. Meanwhile the
// two ranks exchange messages.
TEST_P(Embedded, MessagesGoOnWhileAnotherThreadIsInABarrierReport) {
    constexpr int64_t kRounds = 30, kLimitMs = 15000; // the latter is what a round would wait for
    for (int present : {0, 1}) {
        SCOPED_TRACE("rank " + std::to_string(present) + " waits");
        Watchdog watchdog(60);
        Two two(job(2));
        gcoll_pair *const from_present = present == 0 ? two.there : two.back;
        gcoll_pair *const from_absent = present == 0 ? two.back : two.there;
        const std::vector<uint8_t> all = {1, 1};
        std::vector<uint8_t> here[2] = {{7, 7}, {7, 7}};
        std::thread waiter(
            [&] { EXPECT_GCOLL_OK(gcoll_barrier_report(two.group[present], kLimitMs, here[0].data())); });
        std::thread other([&] {
            for (int64_t round = 0, got = 0; round < kRounds; round++) {
                EXPECT_GCOLL_OK(gcoll_pair_recv(from_absent, 50, &got, sizeof got));
                EXPECT_EQ(got, round);
                EXPECT_GCOLL_OK(gcoll_pair_send(from_absent, 51, &got, sizeof got));
            }
            EXPECT_GCOLL_OK(gcoll_barrier_report(two.group[1 - present], kLimitMs, here[1].data()));
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(20)); // likely to be waiting by then
        for (int64_t round = 0, got = 0; round < kRounds; round++) {
            EXPECT_GCOLL_OK(gcoll_pair_send(from_present, 50, &round, sizeof round));
            EXPECT_GCOLL_OK(gcoll_pair_recv(from_present, 51, &got, sizeof got));
        }
        waiter.join();
        other.join();
        for (const std::vector<uint8_t> &list : here)
            EXPECT_EQ(list, all);
    }
}

// Reports of two threads, beside messages of a third.
TEST_P(Embedded, BarrierReportsOfTwoThreadsTakeTurns) {
    constexpr uint32_t kReports = 20;
    run_threads(job(3), [](uint32_t rank, gcoll_context *context) {
        gcoll_pair *next = nullptr, *last = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_pair(context, (rank + 1) % 3, &next));
        ASSERT_GCOLL_OK(gcoll_context_pair(context, (rank + 2) % 3, &last));
        std::vector<std::thread> threads;
        for (int t = 0; t < 2; t++)
            threads.emplace_back([&] {
                for (uint32_t i = 0; i < kReports; i++) {
                    std::vector<uint8_t> here(3, 7);
                    EXPECT_GCOLL_OK(gcoll_barrier_report(context, 30000, here.data()));
                    EXPECT_EQ(here, std::vector<uint8_t>(3, 1));
                }
            });
        for (int64_t round = 0; round < 200; round++) {
            int64_t got = -1;
            EXPECT_GCOLL_OK(gcoll_pair_sendrecv(next, 5, &round, sizeof round, last, 5, &got, sizeof got));
            EXPECT_EQ(got, round);
        }
        for (std::thread &each : threads)
            each.join();
        EXPECT_GCOLL_OK(gcoll_context_health(context));
    });
}

// Threads of each rank send numbers in circles, each by its own tag, while one thread runs collectives.
TEST_P(Embedded, ThreadsWorkSideBySide) {
    run_threads(
        job(3),
        [](uint32_t rank, gcoll_context *context) {
            constexpr uint32_t kThreads = 3;
            constexpr int64_t kRounds = 60;
            const uint32_t size = gcoll_context_size(context);
            gcoll_pair *next = nullptr, *last = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_pair(context, (rank + 1) % size, &next));
            ASSERT_GCOLL_OK(gcoll_context_pair(context, (rank + size - 1) % size, &last));
            std::vector<std::thread> threads;
            for (uint32_t t = 0; t < kThreads; t++)
                threads.emplace_back([&, t] {
                    for (int64_t round = 0; round < kRounds; round++) {
                        const uint64_t count = round % 10 == 9 ? 20000 : 5; // some wait to be asked for
                        std::vector<int64_t> sent(count, round * 100 + rank), got(count);
                        gcoll_request *requests[2] = {};
                        ASSERT_GCOLL_OK(gcoll_pair_recv_start(last, t, got.data(), count * 8, &requests[0]));
                        ASSERT_GCOLL_OK(gcoll_pair_send_start(next, t, sent.data(), count * 8, &requests[1]));
                        for (int left = 2; left > 0; left--) {
                            uint32_t index = 0;
                            ASSERT_GCOLL_OK(gcoll_wait_any(requests, 2, &index));
                            ASSERT_GCOLL_OK(gcoll_request_wait(&requests[index]));
                        }
                        const int64_t from = (rank + size - 1) % size;
                        ASSERT_EQ(got, std::vector<int64_t>(count, round * 100 + from));
                    }
                });
            for (int64_t round = 0; round < kRounds; round++) {
                const uint64_t count = round % 10 == 5 ? 30000 : 3;
                std::vector<int64_t> data(count, rank + round);
                if (round % 2) {
                    EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, data.data(), count, GCOLL_INT64,
                                                    GCOLL_SUM, nullptr));
                } else {
                    Ending ending;
                    gcoll_allreduce_options options = telling_allreduce(&ending);
                    EXPECT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data.data(), count, GCOLL_INT64,
                                                          GCOLL_SUM, &options, nullptr));
                    EXPECT_TRUE(await(ending.calls, 1));
                }
                EXPECT_EQ(data, std::vector<int64_t>(count, 3 * round + 3));
            }
            for (std::thread &each : threads)
                each.join();
            EXPECT_GCOLL_OK(gcoll_context_health(context));
        });
}

// All that wait hear of a failure.
TEST_P(Embedded, ThreadsHearOfAnAbort) {
    Watchdog watchdog(60);
    Two two(job(2));
    std::vector<std::thread> threads;
    std::vector<int64_t> got(5);
    for (uint32_t t = 0; t < 5; t++)
        threads.emplace_back([&, t] {
            gcoll_status status = gcoll_pair_recv(two.there, t, &got[t], sizeof got[t]);
            EXPECT_EQ(status, GCOLL_ERR_ABORTED) << told(status);
            EXPECT_TRUE(says("enough")) << gcoll_last_error();
        });
    const int64_t begun = now_ms();
    gcoll_context_abort(two.group[0], "enough");
    for (std::thread &each : threads)
        each.join();
    EXPECT_LT(now_ms() - begun, 5000);
}

// Each waits for its own time.
TEST_P(Embedded, ThreadsHaveLimitsOfTheirOwn) {
    Watchdog watchdog(60);
    Two two(job(2));
    int64_t got[3] = {};
    gcoll_request *requests[3] = {};
    for (uint32_t t = 0; t < 3; t++)
        ASSERT_GCOLL_OK(gcoll_pair_recv_start(two.there, t, &got[t], sizeof got[t], &requests[t]));
    std::thread patient([&] { EXPECT_GCOLL_OK(gcoll_request_wait(&requests[0])); });
    std::thread first([&] { EXPECT_EQ(gcoll_request_wait_for(&requests[1], 50), GCOLL_ERR_TIMEOUT); });
    std::thread second([&] { EXPECT_EQ(gcoll_request_wait_for(&requests[2], 150), GCOLL_ERR_TIMEOUT); });
    first.join();
    second.join();
    for (int64_t t = 0; t < 3; t++)
        EXPECT_GCOLL_OK(gcoll_pair_send(two.back, static_cast<uint32_t>(t), &t, sizeof t));
    patient.join();
    EXPECT_GCOLL_OK(gcoll_request_wait(&requests[1]));
    EXPECT_GCOLL_OK(gcoll_request_wait(&requests[2]));
    EXPECT_EQ(got[2], 2);
}

// What a thread waits for, no other can end or destroy.
TEST_P(Embedded, WhatAThreadWaitsForIsItsOwn) {
    Watchdog watchdog(60);
    Two two(job(2));
    int64_t got = 0, value = 6, data = 1;
    uint32_t index = 7;
    gcoll_request *request = nullptr;
    ASSERT_GCOLL_OK(gcoll_pair_recv_start(two.there, 1, &got, sizeof got, &request));
    gcoll_request *copy = request;
    std::thread waiter([&] { EXPECT_GCOLL_OK(gcoll_request_wait(&request)); });
    await_waiter(copy);
    EXPECT_EQ(gcoll_request_wait(&copy), GCOLL_ERR_STATE);
    EXPECT_EQ(gcoll_request_wait_for(&copy, 0), GCOLL_ERR_STATE);
    EXPECT_EQ(gcoll_request_cancel(&copy), GCOLL_ERR_STATE);
    EXPECT_EQ(gcoll_wait_any(&copy, 1, &index), GCOLL_ERR_STATE);
    gcoll_context_destroy(two.group[0]); // must do nothing
    EXPECT_TRUE(says("another thread")) << gcoll_last_error();
    EXPECT_GCOLL_OK(gcoll_pair_send(two.back, 1, &value, sizeof value));
    waiter.join();
    EXPECT_EQ(got, 6);

    gcoll_operation *operation = nullptr;
    ASSERT_GCOLL_OK(
        gcoll_allreduce_create(two.group[0], nullptr, &data, 1, GCOLL_INT64, GCOLL_SUM, nullptr, &operation));
    ASSERT_GCOLL_OK(gcoll_operation_start(operation));
    std::thread runner([&] { EXPECT_GCOLL_OK(gcoll_operation_wait(operation)); });
    const int64_t begun = now_ms();
    gcoll_status status = GCOLL_OK;
    for (int done = 0; status == GCOLL_OK && now_ms() - begun < 10000;)
        status = gcoll_operation_test(operation, &done);
    EXPECT_EQ(status, GCOLL_ERR_STATE) << "the other thread waits";
    EXPECT_EQ(gcoll_operation_start(operation), GCOLL_ERR_STATE);
    EXPECT_EQ(gcoll_operation_wait(operation), GCOLL_ERR_STATE);
    gcoll_operation_destroy(operation); // must do nothing
    EXPECT_TRUE(says("another thread waits")) << gcoll_last_error();
    EXPECT_GCOLL_OK(gcoll_allreduce(two.group[1], nullptr, &value, 1, GCOLL_INT64, GCOLL_SUM, nullptr));
    runner.join();
    EXPECT_EQ(data, 7);
    gcoll_operation_destroy(operation);
}

// A thread looks at requests that another thread has ended, and whose memory serves new ones.
TEST_P(Embedded, OtherThreadsMayHoldEndedRequests) {
    std::atomic<uint32_t> over{0};
    run_threads(job(2), [&](uint32_t rank, gcoll_context *context) {
        std::atomic<gcoll_request *> last{nullptr};
        std::atomic<bool> ends{false};
        std::thread looker([&] {
            while (!ends) {
                uint32_t source = 7;
                gcoll_request *const request = last;
                if (request)
                    EXPECT_EQ(gcoll_request_source(request, &source), GCOLL_ERR_STATE);
                std::this_thread::yield();
            }
        });
        for (int64_t round = 0; round < 200; round++) {
            int64_t data = rank + round;
            gcoll_request *request = nullptr;
            EXPECT_GCOLL_OK(
                gcoll_allreduce_start(context, nullptr, &data, 1, GCOLL_INT64, GCOLL_SUM, nullptr, &request));
            last = request;
            gcoll_status status = gcoll_request_wait(&request);
            EXPECT_GCOLL_OK(status);
            EXPECT_EQ(data, 2 * round + 1);
        }
        ends = true;
        looker.join();
        over++;
        EXPECT_TRUE(await(over, 2));
    });
}

INSTANTIATE_TEST_SUITE_P(Transports, Embedded, transports(),
                         [](const testing::TestParamInfo<const char *> &row) {
                             return std::string(row.param);
                         });

} // namespace
