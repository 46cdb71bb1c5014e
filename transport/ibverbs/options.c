/* transport/ibverbs/options.c - completes the caller's options from the environment and by defaults. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/options.h"

#define TIMEOUT    14
#define RETRY      6
#define CACHE_MOST (UINT64_C(1) << 50)

void gcoll_ibverbs_options_init(gcoll_ibverbs_options *options) {
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->gid_index = -1;
}

/* Reads a number from the environment, if the variable is set and *value is still `unset`. */
static gcoll_status read_number(const char *variable, int64_t unset, int64_t *value) {
    const char *text = getenv(variable);
    if (*value != unset || !text || text[0] == 0)
        return GCOLL_OK;
    errno = 0;
    char *end;
    long long found = strtoll(text, &end, 0);
    if (errno != 0 || end == text || *end != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: '%.40s' is no number", variable, text);
    *value = found;
    return GCOLL_OK;
}

typedef struct number {
    const char *field, *variable;
    int64_t unset, least, most;
    int64_t value;
} number;

enum { PORT, GID_INDEX, MTU, PKEY, SL, TC, TIME, RETRIES, RNR, CACHE, DEVICE_MEMORY, NUMBERS };

static gcoll_status read_numbers(number numbers[NUMBERS]) {
    for (int i = 0; i < NUMBERS; i++) {
        number *each = &numbers[i];
        gcoll_status status = read_number(each->variable, each->unset, &each->value);
        if (status != GCOLL_OK)
            return status;
        if (each->value != each->unset && (each->value < each->least || each->value > each->most))
            return gcoll_error(GCOLL_ERR_INVALID, "ibverbs.%s (%s): is %lld; allowed are %lld to %lld",
                               each->field, each->variable, (long long)each->value, (long long)each->least,
                               (long long)each->most);
    }
    return GCOLL_OK;
}

static gcoll_status check_mtu(int64_t mtu) {
    if (mtu != 0 && mtu != 256 && mtu != 512 && mtu != 1024 && mtu != 2048 && mtu != 4096)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "ibverbs.mtu (GCOLL_IB_MTU): is %lld; allowed are 256, 512, 1024, 2048, 4096",
                           (long long)mtu);
    return GCOLL_OK;
}

gcoll_status gcoll_ib_options_read(const gcoll_ibverbs_options *given, gcoll_ibverbs_options *options) {
    gcoll_ibverbs_options o;
    gcoll_ibverbs_options_init(&o);
    if (given)
        o = *given;
    if (!o.device) {
        o.device = getenv("GCOLL_IB_DEVICE");
        o.device = o.device && o.device[0] != 0 ? o.device : NULL;
    }
    number numbers[NUMBERS] = {
        [PORT] = {"port", "GCOLL_IB_PORT", 0, 0, 255, o.port},
        [GID_INDEX] = {"gid_index", "GCOLL_IB_GID_INDEX", -1, -1, 255, o.gid_index},
        [MTU] = {"mtu", "GCOLL_IB_MTU", 0, 0, 4096, o.mtu},
        [PKEY] = {"pkey", "GCOLL_IB_PKEY", 0, 0, 0xffff, o.pkey},
        [SL] = {"service_level", "GCOLL_IB_SL", 0, 0, 15, o.service_level},
        [TC] = {"traffic_class", "GCOLL_IB_TC", 0, 0, 255, o.traffic_class},
        [TIME] = {"timeout", "GCOLL_IB_TIMEOUT", 0, 0, 31, o.timeout},
        [RETRIES] = {"retry_count", "GCOLL_IB_RETRY", 0, 0, 7, o.retry_count},
        [RNR] = {"rnr_retry", "GCOLL_IB_RNR_RETRY", 0, 0, 7, o.rnr_retry},
        [CACHE] = {"cache_bytes", "GCOLL_IB_CACHE", 0, 0, (int64_t)CACHE_MOST,
                   (int64_t)(o.cache_bytes < CACHE_MOST ? o.cache_bytes : CACHE_MOST)},
        [DEVICE_MEMORY] = {"device_memory", "GCOLL_IB_DEVICE_MEMORY", 0, 0, GCOLL_IB_DEVICE_MEMORY_REQUIRED,
                           o.device_memory},
    };
    gcoll_status status = read_numbers(numbers);
    if (status == GCOLL_OK)
        status = check_mtu(numbers[MTU].value);
    if (status != GCOLL_OK)
        return status;
    o.port = (uint32_t)numbers[PORT].value;
    o.gid_index = (int32_t)numbers[GID_INDEX].value;
    o.mtu = (uint32_t)numbers[MTU].value;
    o.pkey = (uint32_t)numbers[PKEY].value;
    o.service_level = (uint32_t)numbers[SL].value;
    o.traffic_class = (uint32_t)numbers[TC].value;
    o.timeout = numbers[TIME].value > 0 ? (uint32_t)numbers[TIME].value : TIMEOUT;
    o.retry_count = numbers[RETRIES].value > 0 ? (uint32_t)numbers[RETRIES].value : RETRY;
    o.rnr_retry = numbers[RNR].value > 0 ? (uint32_t)numbers[RNR].value : RETRY;
    o.cache_bytes = (uint64_t)numbers[CACHE].value;
    o.device_memory = (uint32_t)numbers[DEVICE_MEMORY].value;
    *options = o;
    return GCOLL_OK;
}
