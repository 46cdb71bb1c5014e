/*
 * gcoll/collectives.h - the collective operations.
 *
 * Every rank of a context calls the same operations in the same order, with equal arguments except for the
 * buffers. Calls that differ are reported as GCOLL_ERR_MISMATCH, naming both sides. count may be 0.
 *
 * Algorithms are chosen by name: "ring", "group_butterfly:r=2", "ring:segment=256Ki"; NULL or "auto" takes
 * the cheapest by size and ranks. All ranks must name the same.
 */
#ifndef GCOLL_COLLECTIVES_H
#define GCOLL_COLLECTIVES_H

#include "gcoll/context.h"

GCOLL_BEGIN_DECLS

typedef struct gcoll_allreduce_options {
    size_t struct_size;
    const char *algorithm;        /* NULL: auto */
    const gcoll_user_op *user_op; /* for GCOLL_USER; must live as long as the operation */
    int rank_identical; /* 1: refuse (or for auto, avoid) algorithms whose results may differ in the last bits
                         * between ranks */
    /* Several buffers of this process, all of `count` elements; then input and output of the call are NULL.
     * The result is the reduction over all buffers of all ranks and is written to each of outputs. outputs
     * NULL, or equal to inputs pointer by pointer: in place. */
    const void *const *inputs;
    void *const *outputs;
    uint32_t buffers; /* number of inputs (and outputs); 0: use input and output; at most 1024 */
} gcoll_allreduce_options;

typedef struct gcoll_broadcast_options {
    size_t struct_size;
    const char *algorithm; /* NULL: auto */
    /* Several buffers of this process: the root's buffers[0] is written to all the others, on all ranks. */
    void *const *buffers;
    uint32_t buffer_count; /* 0: use `data` */
} gcoll_broadcast_options;

typedef struct gcoll_barrier_options {
    size_t struct_size;
    const char *algorithm; /* NULL: auto */
} gcoll_barrier_options;

GCOLL_API void gcoll_allreduce_options_init(gcoll_allreduce_options *options);
GCOLL_API void gcoll_broadcast_options_init(gcoll_broadcast_options *options);
GCOLL_API void gcoll_barrier_options_init(gcoll_barrier_options *options);

/* output[i] = input[i] of rank 0 op ... op input[i] of rank size-1. count elements each. In place: input NULL
 * or equal to output; any other overlap is an error. options may be NULL. Blocking. */
GCOLL_API gcoll_status gcoll_allreduce(gcoll_context *context, const void *input, void *output,
                                       uint64_t count, gcoll_type type, gcoll_op op,
                                       const gcoll_allreduce_options *options);

/* data of rank `root` to data of every rank. count elements. Blocking; the root may return before others have
 * it. */
GCOLL_API gcoll_status gcoll_broadcast(gcoll_context *context, void *data, uint64_t count, gcoll_type type,
                                       uint32_t root, const gcoll_broadcast_options *options);

/* Returns when every rank has called it. Blocking. */
GCOLL_API gcoll_status gcoll_barrier(gcoll_context *context, const gcoll_barrier_options *options);

/* ---- Persistent form: planned and bound once, run many times --------------------------------------- */

/* An operation object holds a plan bound to buffers, which must stay while it lives. Each run is one
 * collective call (in the order of starts on every rank). Several operations may be in flight; one operation
 * only once at a time. */
typedef struct gcoll_operation gcoll_operation;

/* Arguments as above. Not collective: nothing is sent. */
GCOLL_API gcoll_status gcoll_allreduce_create(gcoll_context *context, const void *input, void *output,
                                              uint64_t count, gcoll_type type, gcoll_op op,
                                              const gcoll_allreduce_options *options,
                                              gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_broadcast_create(gcoll_context *context, void *data, uint64_t count,
                                              gcoll_type type, uint32_t root,
                                              const gcoll_broadcast_options *options,
                                              gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_barrier_create(gcoll_context *context, const gcoll_barrier_options *options,
                                            gcoll_operation **operation);

/* start and wait in one. */
GCOLL_API gcoll_status gcoll_operation_run(gcoll_operation *operation);
/* Begins; buffers belong to gcoll until wait returns or test says done. Progress is made inside gcoll calls
 * on this context. GCOLL_ERR_STATE if it is in flight. */
GCOLL_API gcoll_status gcoll_operation_start(gcoll_operation *operation);
/* Waits up to the context's timeout. GCOLL_ERR_STATE if it was not started. */
GCOLL_API gcoll_status gcoll_operation_wait(gcoll_operation *operation);
/* Makes progress without waiting; *done is 1 when finished (then no wait is due). */
GCOLL_API gcoll_status gcoll_operation_test(gcoll_operation *operation, int *done);
/* The algorithm with its options, as "group_butterfly:r=2". Valid until destroy. */
GCOLL_API const char *gcoll_operation_algorithm(const gcoll_operation *operation);
/* NULL is fine. One that is in flight breaks its context. */
GCOLL_API void gcoll_operation_destroy(gcoll_operation *operation);

/* Lists the algorithms of a collective ("allreduce", "broadcast", "barrier"): name and one-line summary of
 * the index-th, GCOLL_ERR_NOT_FOUND past the end. The texts are constant. */
GCOLL_API gcoll_status gcoll_algorithm_at(const char *collective, uint32_t index, const char **name,
                                          const char **summary);

/* Checks an algorithm's text ("ring:segment=1Mi") for a collective without running it. */
GCOLL_API gcoll_status gcoll_algorithm_check(const char *collective, const char *text);

GCOLL_END_DECLS

#endif
