/*
 * transport/ibverbs/registration.c - registration of memory with the device.
 *
 * A registration pins the current pages of a range. If the caller unmaps the range and maps other memory
 * there, the device silently goes on with the old pages. So by default a registration lives only while it is
 * used: by a message, or by an operation that keeps its buffers. If the caller promises that its memory stays
 * mapped (cache_bytes), the latest used registrations are kept.
 *
 * The list is searched from the latest used on. It is short: buffers of operations, messages in flight.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "transport/ibverbs/ib.h"

static void unlink_region(gcoll_ib_memory *memory, gcoll_ib_region *region) {
    if (region->previous)
        region->previous->next = region->next;
    else
        memory->latest = region->next;
    if (region->next)
        region->next->previous = region->previous;
    else
        memory->oldest = region->previous;
}

static void link_latest(gcoll_ib_memory *memory, gcoll_ib_region *region) {
    region->previous = NULL;
    region->next = memory->latest;
    if (memory->latest)
        memory->latest->previous = region;
    else
        memory->oldest = region;
    memory->latest = region;
}

static bool covers(const gcoll_ib_region *region, const uint8_t *begin, uint64_t bytes, gcoll_ib_use use) {
    return begin >= region->begin && (uint64_t)(begin - region->begin) <= region->bytes &&
           bytes <= region->bytes - (uint64_t)(begin - region->begin) && region->use >= use;
}

static void discard(gcoll_ib *ib, gcoll_ib_region *region) {
    ib->memory.registered_bytes -= region->bytes;
    ib->counters.deregistrations++;
    ib->verbs.dereg_mr(region->mr);
    free(region);
}

static void forget(gcoll_ib *ib, gcoll_ib_region *region) {
    unlink_region(&ib->memory, region);
    discard(ib, region);
}

/* Drops unused registrations, the oldest first, until at most `most` bytes of them remain. */
static void shrink(gcoll_ib *ib, uint64_t most) {
    gcoll_ib_region *region = ib->memory.oldest;
    while (region && ib->memory.idle_bytes > most) {
        gcoll_ib_region *newer = region->previous;
        if (region->users == 0) {
            ib->memory.idle_bytes -= region->bytes;
            forget(ib, region);
        }
        region = newer;
    }
}

static void explain(const gcoll_ib *ib, uint64_t bytes, int error) {
    struct rlimit limit = {0, 0};
    char allowed[32] = "unlimited";
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur != RLIM_INFINITY)
        snprintf(allowed, sizeof allowed, "%" PRIu64 " bytes", (uint64_t)limit.rlim_cur);
    if ((error == ENOMEM || error == EPERM || error == EAGAIN) && limit.rlim_cur != RLIM_INFINITY)
        (gcoll_error)(GCOLL_ERR_NO_MEMORY,
                      "ibverbs: cannot register %" PRIu64 " bytes with %s: %s. This rank needs at least "
                      "%" PRIu64 " bytes of locked memory, and its limit is %s (ulimit -l, RLIMIT_MEMLOCK)",
                      bytes, ib->place.name, strerror(error), ib->memory.registered_bytes + bytes, allowed);
    else
        (gcoll_error)(error == EFAULT ? GCOLL_ERR_INVALID : GCOLL_ERR_NO_MEMORY,
                      "ibverbs: cannot register %" PRIu64 " bytes with %s: %s (%" PRIu64
                      " are registered; limit of locked memory: %s)",
                      bytes, ib->place.name, strerror(error), ib->memory.registered_bytes, allowed);
}

static void enter(gcoll_ib *ib, gcoll_ib_region *region, const uint8_t *begin, uint64_t bytes,
                  gcoll_ib_use use) {
    region->begin = begin;
    region->bytes = bytes;
    region->use = use;
    ib->memory.registered_bytes += bytes;
    ib->counters.registrations++;
    link_latest(&ib->memory, region);
}

static int access_for(gcoll_ib_use use) {
    return (use >= GCOLL_IB_GRANTABLE ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0) |
           (use >= GCOLL_IB_SHARED ? IBV_ACCESS_REMOTE_READ : 0);
}

static gcoll_ib_region *add(gcoll_ib *ib, const uint8_t *begin, uint64_t bytes, gcoll_ib_use use) {
    int access = access_for(use);
    gcoll_ib_region *region = calloc(1, sizeof *region);
    if (!region) {
        (gcoll_error)(GCOLL_ERR_NO_MEMORY, "ibverbs: no memory for a registration");
        return NULL;
    }
    region->mr = ib->verbs.reg_mr(ib->pd, (void *)(uintptr_t)begin, (size_t)bytes, access);
    if (!region->mr && ib->memory.idle_bytes > 0) { /* cached registrations may have used up a limit */
        shrink(ib, 0);
        region->mr = ib->verbs.reg_mr(ib->pd, (void *)(uintptr_t)begin, (size_t)bytes, access);
    }
    if (!region->mr) {
        explain(ib, bytes, errno);
        free(region);
        return NULL;
    }
    enter(ib, region, begin, bytes, use);
    return region;
}

/* ---- Memory of devices ----------------------------------------------------------------------------- */

static struct ibv_mr *register_pages(gcoll_ib *ib, const gcoll_foreign_memory *memory, int access) {
    const uint64_t address = (uintptr_t)memory->data;
    if (memory->dmabuf >= 0 && !ib->verbs.reg_dmabuf_mr) {
        (gcoll_error)(GCOLL_ERR_UNSUPPORTED, "ibverbs: the library of rdma-core has no ibv_reg_dmabuf_mr");
        return NULL;
    }
    if (memory->dmabuf < 0 && memory->pages != memory->data && !ib->verbs.reg_mr_at) {
        (gcoll_error)(GCOLL_ERR_UNSUPPORTED, "ibverbs: the library of rdma-core has no ibv_reg_mr_iova");
        return NULL;
    }
    struct ibv_mr *mr = memory->dmabuf >= 0 ? ib->verbs.reg_dmabuf_mr(ib->pd, memory->offset, memory->bytes,
                                                                      address, memory->dmabuf, access)
                        : memory->pages == memory->data
                            ? ib->verbs.reg_mr(ib->pd, memory->data, memory->bytes, access)
                            : ib->verbs.reg_mr_at(ib->pd, memory->pages, memory->bytes, address, access);
    if (!mr)
        (gcoll_error)(
            GCOLL_ERR_UNSUPPORTED, "ibverbs: %s does not take %" PRIu64 " bytes of device memory%s: %s",
            ib->place.name, memory->bytes,
            memory->dmabuf >= 0 ? " by dma-buf" : " by their address (nvidia-peermem)", strerror(errno));
    return mr;
}

gcoll_ib_region *gcoll_ib_register_device(gcoll_ib *ib, const gcoll_foreign_memory *memory,
                                          gcoll_ib_use use) {
    gcoll_ib_region *region = calloc(1, sizeof *region);
    if (!region) {
        (gcoll_error)(GCOLL_ERR_NO_MEMORY, "ibverbs: no memory for a registration");
        return NULL;
    }
    region->mr = register_pages(ib, memory, access_for(use));
    if (!region->mr) {
        free(region);
        return NULL;
    }
    region->is_foreign = true;
    region->users = 1;
    enter(ib, region, memory->data, memory->bytes, use);
    return region;
}

/* ---- Finding and using ----------------------------------------------------------------------------- */

static gcoll_ib_region *find(const gcoll_ib *ib, const uint8_t *begin, uint64_t bytes, gcoll_ib_use use,
                             bool lasts) {
    gcoll_ib_region *region = ib->memory.latest;
    while (region && (!covers(region, begin, bytes, use) || (lasts && region->use == GCOLL_IB_SHARED)))
        region = region->next;
    return region;
}

static gcoll_ib_region *use_region(gcoll_ib *ib, const void *data, uint64_t bytes, gcoll_ib_use use,
                                   bool lasts) {
    gcoll_ib_region *region = find(ib, data, bytes, use, lasts);
    if (!region) {
        region = add(ib, data, bytes, use);
    } else {
        ib->memory.idle_bytes -= region->users == 0 ? region->bytes : 0;
        unlink_region(&ib->memory, region);
        link_latest(&ib->memory, region);
    }
    if (region)
        region->users++;
    return region;
}

gcoll_ib_region *gcoll_ib_register(gcoll_ib *ib, const void *data, uint64_t bytes, gcoll_ib_use use) {
    return use_region(ib, data, bytes, use, false);
}

gcoll_ib_region *gcoll_ib_register_for_long(gcoll_ib *ib, const void *data, uint64_t bytes,
                                            gcoll_ib_use use) {
    return use_region(ib, data, bytes, use, true);
}

void gcoll_ib_unregister(gcoll_ib *ib, gcoll_ib_region *region) {
    if (!region || --region->users > 0)
        return;
    if (region->use == GCOLL_IB_SHARED ||
        region->is_foreign) { /* peers know its key, or its memory may be freed: not cached */
        forget(ib, region);
        return;
    }
    ib->memory.idle_bytes += region->bytes;
    shrink(ib, ib->memory.cache_bytes);
}

void gcoll_ib_memory_clear(gcoll_ib *ib) {
    gcoll_ib_region *region = ib->memory.latest;
    ib->memory.latest = ib->memory.oldest = NULL;
    ib->memory.idle_bytes = 0;
    while (region) {
        gcoll_ib_region *next = region->next;
        discard(ib, region);
        region = next;
    }
}
