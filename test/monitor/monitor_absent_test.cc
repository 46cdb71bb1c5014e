// A core that is linked without the monitor: all else works, and who asks for one is told that there is none.
#include "test/kit/harness.h"

namespace {

using gcoll_test::Group;
using gcoll_test::Job;
using gcoll_test::run_threads;
using gcoll_test::transports;

TEST(MonitorAbsent, WhoAsksForOneIsRefused) {
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.monitor = 1;
    gcoll_context *context = nullptr;
    EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_UNSUPPORTED);
    EXPECT_STREQ(gcoll_last_error(), "options.monitor: this gcoll was built without it");
    EXPECT_EQ(context, nullptr);
}

class WithoutMonitor : public testing::TestWithParam<const char *> {};

TEST_P(WithoutMonitor, CallsOfAllFormsAgree) {
    run_threads(
        3, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            gcoll_context *second = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &second));
            for (gcoll_context *used : {context, second}) {
                for (int round = 0; round < 20; round++) {
                    int64_t blocking = rank, started = rank + 10;
                    gcoll_request *request = nullptr;
                    ASSERT_GCOLL_OK(
                        gcoll_allreduce(used, nullptr, &blocking, 1, GCOLL_INT64, GCOLL_SUM, nullptr));
                    ASSERT_GCOLL_OK(gcoll_allreduce_start(used, nullptr, &started, 1, GCOLL_INT64, GCOLL_SUM,
                                                          nullptr, &request));
                    ASSERT_GCOLL_OK(gcoll_request_wait(&request));
                    EXPECT_EQ(blocking, 3);
                    EXPECT_EQ(started, 33);
                }
                ASSERT_GCOLL_OK(gcoll_barrier(used, nullptr));
            }
            gcoll_context_destroy(second);
        });
}

INSTANTIATE_TEST_SUITE_P(Some, WithoutMonitor, transports());

} // namespace
