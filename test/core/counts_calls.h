/* test/core/counts_calls.h - counts the calls of this program and its libraries to the C library and the
 * kernel. */
#ifndef GCOLL_TEST_COUNTS_CALLS_H
#define GCOLL_TEST_COUNTS_CALLS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts between counts_begin and counts_end, summed over the threads that take part. */
typedef struct counts {
    uint64_t allocations;  /* malloc, calloc, realloc, aligned ones, mmap */
    uint64_t releases;     /* free of what was allocated, munmap */
    uint64_t copied_bytes; /* by memcpy and memmove that are calls; compilers inline those of a few bytes */
    uint64_t sends, sent_bytes;        /* calls of send, sendmsg and writev that sent something */
    uint64_t receives, received_bytes; /* calls of recv, recvmsg and readv that received something */
    uint64_t refused;                  /* calls that would have blocked */
} counts;

/* Nonzero if this build counts. With a sanitizer the functions are the sanitizer's. */
extern const int counts_available;

/* Sets whether this thread's calls count. At first they do not. */
void counts_take_part(int yes);
void counts_begin(void);
void counts_end(counts *result);

#ifdef __cplusplus
}
#endif

#endif
