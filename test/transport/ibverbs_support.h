// test/transport/ibverbs_support.h - tests that need an RDMA device.
#ifndef GCOLL_TEST_IBVERBS_SUPPORT_H
#define GCOLL_TEST_IBVERBS_SUPPORT_H

#include <gtest/gtest.h>

extern "C" {
#include "gcoll/base/base.h"
#include "transport/transport.h"
}

namespace ibverbs_support {

// Skipped where there is no device, with what is missing.
class NeedsDevice : public testing::Test {
  protected:
    void SetUp() override {
        gcoll_endpoint_options options = {};
        gcoll_events events = {};
        gcoll_endpoint *endpoint = nullptr;
        options.size = 1;
        if (gcoll_transport_ibverbs.open(&options, &events, &endpoint) == GCOLL_ERR_UNSUPPORTED)
            GTEST_SKIP() << gcoll_last_error();
        ASSERT_NE(endpoint, nullptr) << gcoll_last_error();
        gcoll_transport_ibverbs.close(endpoint, 0);
    }
};

} // namespace ibverbs_support

#endif
