/* gcoll/oneside/region.c - the public calls of regions: creation, keys, notifications, puts and gets. */
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/oneside/access.h"
#include "gcoll/run/run.h"

#define WAIT_SLICE_US 100000

/* Contents of a gcoll_region_key. Numbers are in the machine's byte order, which all ranks of a context
 * share: their data are not converted, either. */
struct key {
    uint64_t magic;
    uint8_t group[16];
    uint32_t rank;
    uint32_t zero;
    uint64_t region;
    uint64_t bytes;
    uint64_t address; /* of the memory, for a transport that can access it, with key */
    uint32_t key;
    uint32_t is_exposed;
};
_Static_assert(sizeof(struct key) == GCOLL_REGION_KEY_BYTES, "a key is all that is copied");

#define KEY_MAGIC UINT64_C(0x314b4c4f43474b31)

/* ---- Regions ------------------------------------------------------------------------------ */

/* The number in keys that are for one rank: nobody can guess it, or make it of another rank's. */
static uint64_t number_for(const gcoll_region *region, uint32_t rank) {
    uint8_t bytes[sizeof(uint32_t)], digest[GCOLL_SHA256_BYTES];
    gcoll_hmac mac;
    gcoll_put_le(bytes, rank, sizeof bytes);
    gcoll_hmac_begin(&mac, region->secret, sizeof region->secret);
    gcoll_hmac_add(&mac, bytes, sizeof bytes);
    gcoll_hmac_end(&mac, digest);
    return gcoll_get_le(digest, 8);
}

gcoll_region *gcoll_region_find(const gcoll_context *context, uint32_t by, uint64_t number) {
    gcoll_region *region = context->oneside->regions;
    while (region && region->id != number)
        region = region->next;
    if (region)
        return region;
    region = context->oneside->regions;
    while (region && number_for(region, by) != number)
        region = region->next;
    return region;
}

/* Exposes the memory to the transport, if the transport can access a peer's memory by itself. */
static gcoll_status expose(gcoll_region *region) {
    const gcoll_context *context = region->context;
    if (region->is_exposed || !context->endpoint || !context->transport->expose)
        return GCOLL_OK;
    gcoll_status status =
        context->transport->expose(context->endpoint, region->data, region->bytes, &region->exposed);
    region->is_exposed = status == GCOLL_OK && region->exposed.handle;
    return status;
}

/* The struct is not memory of the context, because the caller may destroy the region after the context. */
gcoll_status gcoll_region_create(gcoll_context *context, void *data, uint64_t bytes, gcoll_region **out) {
    if (!context || !data || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", !context ? "context" : data ? "region" : "data");
    if (bytes == 0 || bytes > UINT64_MAX - (uintptr_t)data)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "bytes: is %llu; allowed are 1 and more, up to the end of memory",
                           (unsigned long long)bytes);
    gcoll_region *region = calloc(1, sizeof *region);
    if (!region)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a region");
    gcoll_status status = gcoll_enter(context);
    if (status != GCOLL_OK) {
        free(region);
        return status;
    }
    status = gcoll_context_settle(context);
    if (status == GCOLL_OK)
        status = gcoll_random_bytes(&region->id, sizeof region->id);
    if (status == GCOLL_OK)
        status = gcoll_random_bytes(region->secret, sizeof region->secret);
    if (status == GCOLL_OK) {
        region->context = context;
        region->data = data;
        region->bytes = bytes;
        region->next = context->oneside->regions;
        context->oneside->regions = region;
        *out = region;
    }
    gcoll_leave(context);
    if (status != GCOLL_OK)
        free(region);
    return status;
}

/* Enters the region's context. Fails if there is no region, or its context was destroyed. */
static gcoll_status enter(const gcoll_region *region) {
    if (!region)
        return gcoll_error(GCOLL_ERR_INVALID, "region: is NULL");
    if (!region->context)
        return gcoll_error(GCOLL_ERR_STATE, "region: its context was destroyed");
    return gcoll_enter(region->context);
}

static void write_key(const gcoll_region *region, struct key *key, gcoll_region_key *out) {
    key->magic = KEY_MAGIC;
    key->rank = region->context->rank;
    key->bytes = region->bytes;
    memcpy(key->group, region->context->settings.endpoint.group, sizeof key->group);
    memcpy(out->bytes, key, sizeof *key);
}

gcoll_status gcoll_region_export(gcoll_region *region, gcoll_region_key *out) {
    if (region && !out)
        return gcoll_error(GCOLL_ERR_INVALID, "key: is NULL");
    gcoll_status status = enter(region);
    if (status != GCOLL_OK)
        return status;
    gcoll_context *context = region->context;
    status = gcoll_context_settle(context);
    if (status == GCOLL_OK)
        status = expose(region);
    if (status == GCOLL_OK) {
        struct key key = {.region = region->id,
                          .address = region->exposed.address,
                          .key = region->exposed.key,
                          .is_exposed = region->is_exposed};
        write_key(region, &key, out);
    }
    gcoll_leave(context);
    return status;
}

gcoll_status gcoll_region_export_to(gcoll_region *region, uint32_t rank, gcoll_region_key *out) {
    if (region && !out)
        return gcoll_error(GCOLL_ERR_INVALID, "key: is NULL");
    gcoll_status status = enter(region);
    if (status != GCOLL_OK)
        return status;
    gcoll_context *context = region->context;
    if (rank >= context->size) {
        status = gcoll_error(GCOLL_ERR_INVALID, "rank: is %u; allowed are 0 to %u", rank, context->size - 1);
    } else {
        struct key key = {.region = number_for(region, rank)};
        write_key(region, &key, out);
    }
    gcoll_leave(context);
    return status;
}

static void unlink_region(gcoll_context *context, gcoll_region *region) {
    gcoll_region **at = &context->oneside->regions;
    while (*at != region)
        at = &(*at)->next;
    *at = region->next;
}

/* Destroys a region of a context that has been entered. The ends of accesses may not have been heard yet: the
 * call before, such as a barrier, may have moved its messages by itself and left them to the next progress.
 */
static void destroy_inside(gcoll_context *context, gcoll_region *region) {
    if (region->uses > 0 && !context->health.broken)
        gcoll_progress(context, 0);
    if (region->uses > 0) /* breaking ends them: none may touch the memory after this call */
        gcoll_break(context, GCOLL_ERR_STATE, context->rank,
                    "rank %u destroyed a region that %u accesses are using", context->rank, region->uses);
    gcoll_context_settle(context);
    if (region->is_exposed)
        context->transport->conceal(context->endpoint, &region->exposed);
    unlink_region(context, region);
}

/* In a forked child, the region is freed with its context. While a thread is inside a call on the context,
 * the region stays as it is. */
void gcoll_region_destroy(gcoll_region *region) {
    if (!region)
        return;
    gcoll_context *context = region->context;
    if (context && gcoll_enter(context) != GCOLL_OK) {
        region->is_unwanted |= gcoll_is_forked(context);
        return;
    }
    if (context && region->waiters > 0) {
        gcoll_error(GCOLL_ERR_STATE, "region: another thread waits for its notifications");
        gcoll_leave(context);
        return;
    }
    if (context) {
        destroy_inside(context, region);
        gcoll_leave(context);
    }
    free(region);
}

void gcoll_regions_orphan(gcoll_context *context) {
    while (context->oneside->regions) {
        gcoll_region *region = context->oneside->regions;
        context->oneside->regions = region->next;
        region->context = NULL;
        region->next = NULL;
        if (region->is_unwanted)
            free(region);
    }
}

/* ---- Notifications ------------------------------------------------------------------------ */

gcoll_status gcoll_region_notified(gcoll_region *region, uint64_t *count) {
    if (region && !count)
        return gcoll_error(GCOLL_ERR_INVALID, "count: is NULL");
    gcoll_status status = enter(region);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_progress(region->context, 0);
    *count = region->notified;
    gcoll_leave(region->context);
    return status;
}

static gcoll_status wait_for(gcoll_region *region, uint64_t count) {
    gcoll_context *context = region->context;
    const int64_t deadline_ms = gcoll_now_ms() + context->settings.timeout_ms;
    while (region->notified < count) {
        const int64_t left_us = (deadline_ms - gcoll_now_ms()) * 1000;
        if (left_us <= 0)
            return gcoll_error(GCOLL_ERR_TIMEOUT, "timed out after %lld ms: %llu of %llu notifications came",
                               (long long)context->settings.timeout_ms, (unsigned long long)region->notified,
                               (unsigned long long)count);
        if (!context->endpoint)
            return gcoll_error(GCOLL_ERR_STATE,
                               "count: is %llu, but only %llu notifications came; this rank has no peers",
                               (unsigned long long)count, (unsigned long long)region->notified);
        region->waiters++;
        gcoll_status status =
            gcoll_progress_shared(context, left_us < WAIT_SLICE_US ? left_us : WAIT_SLICE_US);
        region->waiters--;
        if (status == GCOLL_OK && context->guard.driver)
            gcoll_live_tend(context);
        if (status != GCOLL_OK && region->notified < count)
            return status;
    }
    return GCOLL_OK;
}

gcoll_status gcoll_region_wait(gcoll_region *region, uint64_t count) {
    gcoll_status status = enter(region);
    if (status != GCOLL_OK)
        return status;
    status = wait_for(region, count);
    gcoll_leave(region->context);
    return status;
}

/* ---- Put and get -------------------------------------------------------------------------- */

/* Reads a key, and checks that it belongs to a region of this context. */
static gcoll_status read_key(const gcoll_context *context, const gcoll_region_key *given, struct key *key) {
    memcpy(key, given->bytes, sizeof *key);
    if (key->magic != KEY_MAGIC)
        return gcoll_error(GCOLL_ERR_INVALID, "key: was not made by gcoll_region_export");
    if (memcmp(key->group, context->settings.endpoint.group, sizeof key->group) != 0 ||
        key->rank >= context->size)
        return gcoll_error(GCOLL_ERR_INVALID, "key: belongs to a region of another context");
    return GCOLL_OK;
}

/* Checks the arguments of a put or a get, and reads the key. */
static gcoll_status check_access(const gcoll_context *context, const gcoll_region_key *given,
                                 const gcoll_access_wanted *wanted, uint32_t flags, struct key *key) {
    if (!context || !given)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "key" : "context");
    if (!wanted->data && wanted->bytes > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "data: is NULL, but bytes is %llu",
                           (unsigned long long)wanted->bytes);
    if (flags & ~GCOLL_PUT_NOTIFY)
        return gcoll_error(GCOLL_ERR_INVALID, "flags: is %#x; allowed are 0 and GCOLL_PUT_NOTIFY", flags);
    gcoll_status status = read_key(context, given, key);
    if (status == GCOLL_OK && (wanted->bytes > key->bytes || wanted->offset > key->bytes - wanted->bytes))
        status = gcoll_error(GCOLL_ERR_INVALID,
                             "offset, bytes: are %llu and %llu; the region of rank %u has %llu bytes",
                             (unsigned long long)wanted->offset, (unsigned long long)wanted->bytes, key->rank,
                             (unsigned long long)key->bytes);
    return status;
}

/* Puts into or gets from a region of this rank, by copying. */
static gcoll_status access_own(gcoll_context *context, const gcoll_access_wanted *wanted) {
    gcoll_region *region = gcoll_region_find(context, context->rank, wanted->region);
    if (!region)
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "key: belongs to a region of this rank that was destroyed, or is for another rank");
    if (wanted->bytes > region->bytes || wanted->offset > region->bytes - wanted->bytes)
        return gcoll_error(GCOLL_ERR_INVALID, "key: claims more bytes than its region has");
    uint8_t *there = region->data + wanted->offset;
    if (wanted->bytes > 0 && wanted->is_put)
        memmove(there, wanted->data, wanted->bytes);
    else if (wanted->bytes > 0)
        memmove(wanted->data, there, wanted->bytes);
    region->notified += wanted->notify;
    return GCOLL_OK;
}

/* Begins an access and creates its request. An access to a region of this rank ends at once. */
static gcoll_status begin(gcoll_context *context, uint32_t peer, const gcoll_access_wanted *wanted,
                          gcoll_request **out) {
    gcoll_request *request = NULL;
    gcoll_status status = gcoll_context_settle(context);
    if (status == GCOLL_OK && peer != context->rank && !gcoll_peer_need(context, peer, true))
        status = gcoll_context_settle(context);
    if (status == GCOLL_OK)
        status = gcoll_request_create(context, peer, &request);
    if (status != GCOLL_OK)
        return status;
    if (peer == context->rank) {
        status = access_own(context, wanted);
        gcoll_request_set_done(request);
    } else {
        status = gcoll_access_start(context, peer, wanted, request);
        context->transport->flush(context->endpoint);
    }
    if (status == GCOLL_OK)
        *out = request;
    else
        gcoll_request_end(request);
    return status;
}

/* Checks the arguments, completes `wanted` by the key, and enters the context. *peer is the rank that owns
 * the region. */
static gcoll_status prepare(gcoll_context *context, const gcoll_region_key *given,
                            gcoll_access_wanted *wanted, uint32_t flags, uint32_t *peer) {
    struct key key;
    gcoll_status status = check_access(context, given, wanted, flags, &key);
    if (status != GCOLL_OK)
        return status;
    wanted->region = key.region;
    wanted->address = key.address + wanted->offset;
    wanted->key = key.key;
    *peer = key.rank;
    status = gcoll_enter(context);
    if (status == GCOLL_OK)
        wanted->is_direct = key.is_exposed && wanted->bytes > 0 && context->transport->reaches &&
                            context->transport->reaches(context->endpoint, key.rank);
    return status;
}

/* Begins an access, and gives its request. */
static gcoll_status start(gcoll_context *context, const gcoll_region_key *key, gcoll_access_wanted *wanted,
                          uint32_t flags, gcoll_request **request) {
    uint32_t peer;
    if (context && key && !request)
        return gcoll_error(GCOLL_ERR_INVALID, "request: is NULL");
    gcoll_status status = prepare(context, key, wanted, flags, &peer);
    if (status != GCOLL_OK)
        return status;
    status = begin(context, peer, wanted, request);
    gcoll_leave(context);
    return status;
}

/* Begins an access, and waits for its end. */
static gcoll_status finish(gcoll_context *context, const gcoll_region_key *key, gcoll_access_wanted *wanted,
                           uint32_t flags) {
    gcoll_request *request = NULL;
    uint32_t peer;
    gcoll_status status = prepare(context, key, wanted, flags, &peer);
    if (status != GCOLL_OK)
        return status;
    status = begin(context, peer, wanted, &request);
    if (status == GCOLL_OK)
        status = gcoll_request_finish(&request);
    gcoll_leave(context);
    return status;
}

gcoll_status gcoll_put_start(gcoll_context *context, const gcoll_region_key *key, uint64_t offset,
                             const void *data, uint64_t bytes, uint32_t flags, gcoll_request **request) {
    gcoll_access_wanted wanted = {.is_put = true,
                                  .notify = flags & GCOLL_PUT_NOTIFY,
                                  .offset = offset,
                                  .data = (void *)(uintptr_t)data,
                                  .bytes = bytes};
    return start(context, key, &wanted, flags, request);
}

gcoll_status gcoll_get_start(gcoll_context *context, const gcoll_region_key *key, uint64_t offset, void *data,
                             uint64_t bytes, gcoll_request **request) {
    gcoll_access_wanted wanted = {.offset = offset, .data = data, .bytes = bytes};
    return start(context, key, &wanted, 0, request);
}

gcoll_status gcoll_put(gcoll_context *context, const gcoll_region_key *key, uint64_t offset, const void *data,
                       uint64_t bytes, uint32_t flags) {
    gcoll_access_wanted wanted = {.is_put = true,
                                  .notify = flags & GCOLL_PUT_NOTIFY,
                                  .offset = offset,
                                  .data = (void *)(uintptr_t)data,
                                  .bytes = bytes};
    return finish(context, key, &wanted, flags);
}

gcoll_status gcoll_get(gcoll_context *context, const gcoll_region_key *key, uint64_t offset, void *data,
                       uint64_t bytes) {
    gcoll_access_wanted wanted = {.offset = offset, .data = data, .bytes = bytes};
    return finish(context, key, &wanted, 0);
}
