/* transport/ibverbs/counters.h - counters of an endpoint's work, for tests and for gcoll_bench. */
#ifndef GCOLL_IB_COUNTERS_H
#define GCOLL_IB_COUNTERS_H

#include "transport/transport.h"

/* All count from the opening of the endpoint. */
typedef struct gcoll_ib_counters {
    uint64_t work_requests; /* sends and writes posted */
    uint64_t doorbells;     /* calls that posted them */
    uint64_t completions;   /* of sends, writes and receives */
    uint64_t bytes_copied;  /* of messages, by this process: to and from slots */
    uint64_t bytes_written; /* of messages, by the device from and to the callers' memory */
    uint64_t registrations; /* of memory */
    uint64_t deregistrations;
    uint64_t sleeps; /* waits that slept */
} gcoll_ib_counters;

/* Of an endpoint of gcoll_transport_ibverbs. All zero in a build without it. */
void gcoll_ib_get_counters(gcoll_endpoint *endpoint, gcoll_ib_counters *counters);

#endif
