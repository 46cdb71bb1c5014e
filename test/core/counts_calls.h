/* test/core/counts_calls.h - counts what this program and the libraries in it ask of the C library and the
 * kernel.
 */
#ifndef GCOLL_TEST_COUNTS_CALLS_H
#define GCOLL_TEST_COUNTS_CALLS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Between counts_begin and counts_end, over the threads that take part. */
typedef struct counts {
    uint64_t allocations;  /* malloc, calloc, realloc, aligned ones, mmap */
    uint64_t releases;     /* free of what was allocated, munmap */
    uint64_t copied_bytes; /* by memcpy and memmove that are calls; compilers inline those of a few bytes */
    uint64_t sends, sent_bytes;        /* send, sendmsg, writev that took something */
    uint64_t receives, received_bytes; /* recv, recvmsg, readv that gave something */
    uint64_t refused;                  /* sends and receives that found nothing to do */
} counts;

/* Whether this build counts: under a sanitizer the functions are the sanitizer's. */
extern const int counts_available;

/* Whether this thread's calls count; at first they do not. */
void counts_take_part(int yes);
void counts_begin(void);
void counts_end(counts *result);

#ifdef __cplusplus
}
#endif

#endif
