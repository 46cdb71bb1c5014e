/*
 * cuda/pinned.c - a pool of pinned host memory.
 *
 * Pinning takes about as long as copying the memory once, and pinning and unpinning may wait for devices. So
 * blocks are kept. Used and idle blocks together never exceed the larger of KEPT_BYTES and the most that was
 * ever in use at once. The block that was returned first is freed first.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cuda/internal.h"

#define KEPT_BYTES  (UINT64_C(64) << 20)
#define GRAIN_BYTES (UINT64_C(64) << 10) /* so that requests that differ by little find the same block */

struct gcoll_cuda_block {
    void *memory;
    uint64_t bytes;
    gcoll_cuda_block *next;
};

/* Makes a device current that is in use anyway, so that pinning initialises no other. *entered is for
 * leave_home. */
static gcoll_status enter_home(gcoll_accelerator *accelerator, bool *entered, int *before) {
    *entered = accelerator->has_home;
    return *entered ? gcoll_cuda_enter(accelerator, accelerator->home, before) : GCOLL_OK;
}

static void leave_home(const gcoll_accelerator *accelerator, bool entered, int before) {
    if (entered)
        gcoll_cuda_leave(accelerator, accelerator->home, before);
}

static void free_block(gcoll_cuda_block *block) {
    if (cudaFreeHost(block->memory) != cudaSuccess)
        (void)cudaGetLastError();
    free(block);
}

/* The smallest idle block that is large enough, and not more than twice as large as asked for. */
static gcoll_cuda_block *take_idle(gcoll_cuda_pool *pool, uint64_t bytes) {
    gcoll_cuda_block **best = NULL;
    for (gcoll_cuda_block **b = &pool->idle; *b; b = &(*b)->next)
        if ((*b)->bytes >= bytes && (*b)->bytes / 2 <= bytes && (!best || (*b)->bytes < (*best)->bytes))
            best = b;
    if (!best)
        return NULL;
    gcoll_cuda_block *block = *best;
    *best = block->next;
    pool->idle_bytes -= block->bytes;
    return block;
}

/* Frees idle blocks, the oldest first, until no more than `bytes` of them are left. */
static void trim(gcoll_cuda_pool *pool, uint64_t bytes) {
    while (pool->idle && pool->idle_bytes > bytes) {
        gcoll_cuda_block **last = &pool->idle;
        for (gcoll_cuda_block *b = pool->idle->next; b; b = b->next)
            last = &(*last)->next;
        gcoll_cuda_block *block = *last;
        *last = NULL;
        pool->idle_bytes -= block->bytes;
        free_block(block);
    }
}

static gcoll_status new_block(uint64_t bytes, gcoll_cuda_block **block) {
    gcoll_cuda_block *b = calloc(1, sizeof *b);
    cudaError_t error = cudaSuccess;
    if (!b)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "cuda: out of memory for a block of host memory");
    error = cudaHostAlloc(&b->memory, bytes, cudaHostAllocPortable);
    if (error != cudaSuccess) {
        free(b);
        return gcoll_cuda_failed(error, "cudaHostAlloc of %" PRIu64 " bytes", bytes);
    }
    b->bytes = bytes;
    *block = b;
    return GCOLL_OK;
}

/* The most bytes that the pool may hold when `bytes` more are in use. */
static uint64_t bound(const gcoll_cuda_pool *pool, uint64_t bytes) {
    const uint64_t used = pool->used_bytes + bytes;
    const uint64_t most = used > pool->most_used_bytes ? used : pool->most_used_bytes;
    return most > KEPT_BYTES ? most : KEPT_BYTES;
}

gcoll_status gcoll_cuda_pin(gcoll_accelerator *accelerator, uint64_t bytes, void **memory) {
    gcoll_cuda_pool *pool = &accelerator->pool;
    gcoll_cuda_block *block = NULL;
    gcoll_status status = GCOLL_OK;
    int before = 0;
    bool entered = false;
    if (bytes > UINT64_MAX / 4)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "cuda: %" PRIu64 " bytes of pinned memory", bytes);
    bytes = (bytes + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
    bytes = bytes > 0 ? bytes : GRAIN_BYTES;
    block = take_idle(pool, bytes);
    if (!block) {
        status = enter_home(accelerator, &entered, &before);
        if (status != GCOLL_OK)
            return status;
        trim(pool, bound(pool, bytes) - pool->used_bytes - bytes);
        status = new_block(bytes, &block);
        if (!block && pool->idle) {
            trim(pool, 0);
            status = new_block(bytes, &block);
        }
        leave_home(accelerator, entered, before);
        if (!block)
            return status;
    }
    block->next = pool->used;
    pool->used = block;
    pool->used_bytes += block->bytes;
    if (pool->used_bytes > pool->most_used_bytes)
        pool->most_used_bytes = pool->used_bytes;
    *memory = block->memory;
    return GCOLL_OK;
}

void gcoll_cuda_unpin(gcoll_accelerator *accelerator, void *memory, uint64_t bytes) {
    gcoll_cuda_pool *pool = &accelerator->pool;
    (void)bytes; /* the block records its size */
    for (gcoll_cuda_block **b = &pool->used; *b; b = &(*b)->next) {
        gcoll_cuda_block *block = *b;
        if (block->memory != memory)
            continue;
        *b = block->next;
        pool->used_bytes -= block->bytes;
        pool->idle_bytes += block->bytes;
        block->next = pool->idle;
        pool->idle = block;
        return;
    }
}

/* Closes the pool. If device work may still be in flight, the memory that it may write is leaked. */
void gcoll_cuda_close_pool(gcoll_accelerator *accelerator) {
    gcoll_cuda_pool *pool = &accelerator->pool;
    const bool is_written = accelerator->tickets;
    gcoll_cuda_block *lists[] = {pool->idle, pool->used};
    for (int i = 0; i < 2; i++) {
        for (gcoll_cuda_block *block = lists[i], *next = NULL; block; block = next) {
            next = block->next;
            if (is_written)
                free(block);
            else
                free_block(block);
        }
    }
    *pool = (gcoll_cuda_pool){.idle = NULL};
}
