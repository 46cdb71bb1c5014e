/* transport/ibverbs/options.c - the table of the options of the lane ibverbs, from which transport/choice.c
 * reads them. */
#include <stddef.h>
#include <string.h>

#include "transport/ibverbs/options.h"

#define FIELD(name)                                                                                          \
    .field = #name, .at = offsetof(gcoll_ibverbs_options, name),                                             \
    .bytes = sizeof(((gcoll_ibverbs_options *)0)->name)

#define TIMEOUT   14 /* 67 ms */
#define RETRY     6
#define RNR_RETRY 6
/* As in frame.h, which this file cannot include: it needs the headers of libibverbs. */
#define EAGER_MOST INT64_C(65472)
#define CACHE_MOST (INT64_C(1) << 50)

static const uint64_t mtus[] = {256, 512, 1024, 2048, 4096, 0};
static const char *const uses_of_device_memory[] = {"never", "possible", "required", NULL};

const gcoll_lane_option gcoll_ib_lane_options[] = {
    {.name = "device",
     .form = GCOLL_LANE_TEXT,
     .help = "the RDMA device, such as mlx5_0",
     .initial = "the first with an active port that has an address of this rank, else the first active",
     .variable = "GCOLL_IB_DEVICE",
     FIELD(device)},
    {.name = "port",
     .least = 1,
     .most = UINT8_MAX,
     .help = "its port",
     .initial = "the first active one",
     .variable = "GCOLL_IB_PORT",
     FIELD(port)},
    {.name = "gid",
     .most = UINT8_MAX,
     .unset = -1,
     .fallback = -1,
     .help = "index in the port's table of GIDs",
     .initial = "found by type, RoCE v2, and address",
     .variable = "GCOLL_IB_GID_INDEX",
     FIELD(gid_index)},
    {.name = "mtu",
     .values = mtus,
     .help = "bytes of a packet; the smaller of both ends is used",
     .initial = "the port's",
     .variable = "GCOLL_IB_MTU",
     FIELD(mtu)},
    {.name = "pkey",
     .least = 1,
     .most = UINT16_MAX,
     .help = "a partition key of the port",
     .initial = "the first of its table",
     .variable = "GCOLL_IB_PKEY",
     FIELD(pkey)},
    {.name = "sl",
     .most = 15,
     .help = "service level",
     .initial = "0",
     .variable = "GCOLL_IB_SL",
     FIELD(service_level)},
    {.name = "tc",
     .most = UINT8_MAX,
     .help = "traffic class; its upper six bits are the DSCP of RoCE v2",
     .initial = "0",
     .variable = "GCOLL_IB_TC",
     FIELD(traffic_class)},
    {.name = "timeout",
     .least = 1,
     .most = 31,
     .fallback = TIMEOUT,
     .help = "a packet is sent again after 4.096 us * 2^timeout",
     .initial = "14",
     .variable = "GCOLL_IB_TIMEOUT",
     FIELD(timeout)},
    {.name = "retry",
     .least = 1,
     .most = 7,
     .fallback = RETRY,
     .help = "how often it is sent again; 7 is for ever on some devices",
     .initial = "6",
     .variable = "GCOLL_IB_RETRY",
     FIELD(retry_count)},
    {.name = "rnr_retry",
     .least = 1,
     .most = 7,
     .fallback = RNR_RETRY,
     .help = "how often a send without a receive is tried again; 7 is for ever",
     .initial = "6",
     .variable = "GCOLL_IB_RNR_RETRY",
     FIELD(rnr_retry)},
    {.name = "cache",
     .form = GCOLL_LANE_SIZE,
     .most = CACHE_MOST,
     .help = "bytes that stay registered after an operation",
     .initial = "0",
     .variable = "GCOLL_IB_CACHE",
     FIELD(cache_bytes)},
    {.name = "device_memory",
     .form = GCOLL_LANE_WORD,
     .words = uses_of_device_memory,
     .help = "whether the device reads and writes the memory of GPUs by itself",
     .initial = "never",
     .variable = "GCOLL_IB_DEVICE_MEMORY",
     FIELD(device_memory)},
    {.name = "eager_bytes",
     .form = GCOLL_LANE_SIZE,
     .least = 1,
     .most = EAGER_MOST,
     .help = "messages up to this size go through slots, without asking",
     .initial = "8128"},
    GCOLL_LANE_POOL_OPTION,
    {.name = NULL},
};

void gcoll_ibverbs_options_init(gcoll_ibverbs_options *options) {
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->gid_index = -1;
}

gcoll_status gcoll_ib_options_read(const gcoll_ibverbs_options *given, gcoll_ibverbs_options *options) {
    gcoll_ibverbs_options o;
    gcoll_ibverbs_options_init(&o);
    gcoll_status status =
        gcoll_lane_complete(gcoll_ib_lane_options, NULL, "options.ibverbs", given, !given, &o);
    if (status == GCOLL_OK)
        *options = o;
    return status;
}
