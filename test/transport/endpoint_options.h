// test/transport/endpoint_options.h - makes the options of an endpoint for tests of transports.
#ifndef GCOLL_TEST_ENDPOINT_OPTIONS_H
#define GCOLL_TEST_ENDPOINT_OPTIONS_H

#include <cstring>

extern "C" {
#include "transport/transport.h"
}

namespace harness {

inline gcoll_endpoint_options options_of(uint32_t rank, uint32_t size) {
    gcoll_endpoint_options options = {};
    options.rank = rank;
    options.size = size;
    std::memset(options.group, 0x42, sizeof options.group);
    options.connect_timeout_ms = 10000;
    return options;
}

} // namespace harness

#endif
