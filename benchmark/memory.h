/* benchmark/memory.h - kinds of memory that buffers lie in. */
#ifndef GCOLL_BENCH_MEMORY_H
#define GCOLL_BENCH_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* A kind of memory. The functions return false when they have said what is wrong. */
typedef struct bench_memory {
    /* How many devices have such memory: 1 and more. */
    bool (*count)(uint32_t *devices);
    /* Aligned to a page; bytes: a multiple of one. */
    bool (*allocate)(uint32_t device, uint64_t bytes, void **buffer);
    void (*release)(uint32_t device, void *buffer); /* NULL is fine */
    /* NULL where the host reaches the memory itself. A copy is ordered by the stream, and done on return. */
    bool (*open_stream)(uint32_t device, void **stream);
    void (*close_stream)(uint32_t device, void *stream);
    bool (*upload)(uint32_t device, void *stream, void *to, const void *from, uint64_t bytes);
    bool (*download)(uint32_t device, void *stream, void *to, const void *from, uint64_t bytes);
} bench_memory;

extern const bench_memory bench_host_memory, bench_shared_memory, bench_cuda_memory;

#endif
