// test/core/late_clock_test.cc - time limits where the system's coarse clock is behind, as it is by tens of
// milliseconds on a busy virtual machine. No wait may end before its limit.
#include "test/kit/calls.h"
#include "test/kit/collective_support.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr int64_t kTickNs = 80000000; // of the coarse clock here: longer than any that was seen

int64_t ns_of(const timespec &time) {
    return static_cast<int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

} // namespace

// In place of the C library's. The coarse clock moves on once in kTickNs.
extern "C" int clock_gettime(clockid_t clock, timespec *time) noexcept {
    const bool is_coarse = clock == CLOCK_MONOTONIC_COARSE;
    const long error = syscall(SYS_clock_gettime, is_coarse ? CLOCK_MONOTONIC : clock, time);
    if (error == 0 && is_coarse) {
        const int64_t ns = ns_of(*time) / kTickNs * kTickNs;
        time->tv_sec = ns / 1000000000;
        time->tv_nsec = ns % 1000000000;
    }
    return error == 0 ? 0 : -1;
}

namespace {

using namespace collective_support;
using namespace gcoll_test;

constexpr int64_t kLimitMs = 300;

// Returns right before the coarse clock moves on, when it is behind most.
void await_end_of_tick() {
    timespec time;
    do
        clock_gettime(CLOCK_MONOTONIC, &time);
    while (ns_of(time) % kTickNs < kTickNs - 2000000);
}

class LateClock : public testing::TestWithParam<const char *> {};

TEST_P(LateClock, NoWaitEndsBeforeItsLimit) {
    for (const bool is_tested : {false, true}) {
        SCOPED_TRACE(is_tested ? "tested" : "waited for");
        std::atomic<uint32_t> over{0};
        run_threads(job_on(GetParam(), 2, 20000), [&](uint32_t rank, gcoll_context *context) {
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            if (rank == 1) {
                EXPECT_TRUE(await(over, 1, 30000));
                return;
            }
            gcoll_pair *pair = pair_to(context, 1);
            gcoll_request *request = nullptr;
            gcoll_status status = GCOLL_OK;
            int64_t value = 0;
            int done = 0;
            EXPECT_GCOLL_OK(gcoll_pair_set_timeout(pair, kLimitMs));
            EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, 1, &value, sizeof value, &request));
            await_end_of_tick();
            const int64_t begun = now_ms();
            while (is_tested && status == GCOLL_OK && !done)
                status = gcoll_request_test(&request, &done);
            if (!is_tested)
                status = gcoll_request_wait(&request);
            const int64_t took = now_ms() - begun;
            EXPECT_EQ(status, GCOLL_ERR_TIMEOUT) << told(status);
            EXPECT_GE(took, kLimitMs);
            over = 1;
        });
    }
}

INSTANTIATE_TEST_SUITE_P(Transports, LateClock, testing::Values("inproc", "tcp", "shm"),
                         [](const auto &each) { return std::string(each.param); });

} // namespace
