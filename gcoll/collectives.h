/*
 * gcoll/collectives.h - the collective operations.
 *
 * Every rank of a context calls the same operations in the same order, with equal arguments except for the
 * buffers. Calls that differ are reported as GCOLL_ERR_MISMATCH, naming both sides. count may be 0.
 *
 * The calls here block: they return when this rank's part is done and its buffers may be used again. Each has
 * two more forms, in gcoll/operations.h: NAME_start begins and gives a request, NAME_create makes an
 * operation that runs many times.
 *
 * Counts are elements. Where the vector is made of one block a rank (reduce_scatter, allgather, gather,
 * scatter, alltoall), `count` is that of one block, and the forms that end in _v take `counts`: one entry a
 * rank, the same on every rank, blocks lying one after the other in rank order.
 *
 * In place: where input and output have the same size, they may be the same buffer. Where one of them is a
 * block of the other, it may lie in the larger one, exactly where this rank's block is there. alltoall and
 * pairwise_exchange have no such form. Any other overlap is an error. A buffer that a rank does not need (not
 * being the root) is not looked at and may be NULL.
 *
 * Algorithms are chosen by name: "ring", "group_butterfly:r=2", "ring:segment=256Ki"; NULL or "auto" takes
 * the cheapest by size and ranks. All ranks must name the same.
 */
#ifndef GCOLL_COLLECTIVES_H
#define GCOLL_COLLECTIVES_H

#include "gcoll/context.h"
#include "gcoll/plan.h"

GCOLL_BEGIN_DECLS

/* ---- Options ---------------------------------------------------------------------------------------- */

/* Of all collectives that have no options of their own. All zero (but for struct_size) is the default. */
typedef struct gcoll_collective_options {
    size_t struct_size;
    const char *algorithm;        /* NULL: auto */
    const gcoll_user_op *user_op; /* for GCOLL_USER. Copied, but its arg must live as long as the operation */
    uint64_t memory_limit_bytes;  /* most scratch that the algorithm may need on any rank, 0: any amount. auto
                                   * obeys; a named algorithm that needs more is refused */
    const gcoll_memory *memory;   /* NULL: where the buffers lie is looked up (gcoll/memory.h) */
} gcoll_collective_options;

typedef struct gcoll_allreduce_options {
    size_t struct_size;
    const char *algorithm;        /* NULL: auto */
    const gcoll_user_op *user_op; /* for GCOLL_USER. Copied, but its arg must live as long as the operation */
    int rank_identical; /* 1: refuse (or for auto, avoid) algorithms whose results may differ in the last bits
                         * between ranks */
    /* Several buffers of this process, all of `count` elements; then input and output of the call are NULL.
     * The result is the reduction over all buffers of all ranks and is written to each of outputs. outputs
     * NULL, or equal to inputs pointer by pointer: in place. */
    const void *const *inputs;
    void *const *outputs;
    uint32_t buffers;            /* number of inputs (and outputs); 0: use input and output; at most 1024 */
    uint64_t memory_limit_bytes; /* as in gcoll_collective_options */
    const gcoll_memory *memory;  /* as in gcoll_collective_options */
} gcoll_allreduce_options;

typedef struct gcoll_broadcast_options {
    size_t struct_size;
    const char *algorithm; /* NULL: auto */
    /* Several buffers of this process: the root's buffers[0] is written to all the others, on all ranks. */
    void *const *buffers;
    uint32_t buffer_count;       /* 0: use `data` */
    uint64_t memory_limit_bytes; /* as in gcoll_collective_options */
    const gcoll_memory *memory;  /* as in gcoll_collective_options */
} gcoll_broadcast_options;

typedef struct gcoll_barrier_options {
    size_t struct_size;
    const char *algorithm; /* NULL: auto */
} gcoll_barrier_options;

GCOLL_API void gcoll_collective_options_init(gcoll_collective_options *options);
GCOLL_API void gcoll_allreduce_options_init(gcoll_allreduce_options *options);
GCOLL_API void gcoll_broadcast_options_init(gcoll_broadcast_options *options);
GCOLL_API void gcoll_barrier_options_init(gcoll_barrier_options *options);

/* ---- Reductions --------------------------------------------------------------------------------------
 * Over ranks in rank order: a rank's elements stand left of those of higher ranks. An operation that does not
 * commute (gcoll_user_op) is served only by algorithms that keep that order. GCOLL_AVG is for allreduce,
 * reduce and reduce_scatter alike. options may be NULL everywhere. */

/* output[i] = input[i] of rank 0 op ... op input[i] of rank size-1. count elements each. In place: input NULL
 * or equal to output. */
GCOLL_API gcoll_status gcoll_allreduce(gcoll_context *context, const void *input, void *output,
                                       uint64_t count, gcoll_type type, gcoll_op op,
                                       const gcoll_allreduce_options *options);

/* The same, but only rank `root` gets the result; output is not looked at elsewhere. In place at the root:
 * input NULL or equal to output. */
GCOLL_API gcoll_status gcoll_reduce(gcoll_context *context, const void *input, void *output, uint64_t count,
                                    gcoll_type type, gcoll_op op, uint32_t root,
                                    const gcoll_collective_options *options);

/* input: count * size elements. output: count elements, block `rank` of the reduction. In place: output is
 * input + rank * count elements; the rest of input is left as it was. */
GCOLL_API gcoll_status gcoll_reduce_scatter(gcoll_context *context, const void *input, void *output,
                                            uint64_t count, gcoll_type type, gcoll_op op,
                                            const gcoll_collective_options *options);
/* counts[r]: elements of rank r's block. */
GCOLL_API gcoll_status gcoll_reduce_scatter_v(gcoll_context *context, const void *input, void *output,
                                              const uint64_t *counts, gcoll_type type, gcoll_op op,
                                              const gcoll_collective_options *options);

/* ---- Data movement ----------------------------------------------------------------------------------- */

/* data of rank `root` to data of every rank. count elements. The root may return before others have it. */
GCOLL_API gcoll_status gcoll_broadcast(gcoll_context *context, void *data, uint64_t count, gcoll_type type,
                                       uint32_t root, const gcoll_broadcast_options *options);

/* input: this rank's block, count elements. output: count * size elements, the blocks of all ranks. In place:
 * input is output + rank * count elements. */
GCOLL_API gcoll_status gcoll_allgather(gcoll_context *context, const void *input, void *output,
                                       uint64_t count, gcoll_type type,
                                       const gcoll_collective_options *options);
GCOLL_API gcoll_status gcoll_allgather_v(gcoll_context *context, const void *input, void *output,
                                         const uint64_t *counts, gcoll_type type,
                                         const gcoll_collective_options *options);

/* As allgather, but only rank `root` gets the blocks; output is not looked at elsewhere. */
GCOLL_API gcoll_status gcoll_gather(gcoll_context *context, const void *input, void *output, uint64_t count,
                                    gcoll_type type, uint32_t root, const gcoll_collective_options *options);
GCOLL_API gcoll_status gcoll_gather_v(gcoll_context *context, const void *input, void *output,
                                      const uint64_t *counts, gcoll_type type, uint32_t root,
                                      const gcoll_collective_options *options);

/* The reverse: block r of the root's input (count * size elements, not looked at elsewhere) to output of rank
 * r, count elements. In place at the root: output is input + root * count elements. */
GCOLL_API gcoll_status gcoll_scatter(gcoll_context *context, const void *input, void *output, uint64_t count,
                                     gcoll_type type, uint32_t root, const gcoll_collective_options *options);
GCOLL_API gcoll_status gcoll_scatter_v(gcoll_context *context, const void *input, void *output,
                                       const uint64_t *counts, gcoll_type type, uint32_t root,
                                       const gcoll_collective_options *options);

/* input: count * size elements, block j for rank j. output: as many; block j is from rank j. Not in place. */
GCOLL_API gcoll_status gcoll_alltoall(gcoll_context *context, const void *input, void *output, uint64_t count,
                                      gcoll_type type, const gcoll_collective_options *options);
/* send_counts[j]: elements for rank j; recv_counts[j]: from rank j, equal to rank j's send_counts for this
 * rank. Each rank has its own; a pair that does not agree is reported where the message arrives (to a rank
 * that expects none, by a later call), or, where none is sent, by the timeout. auto knows no sizes but this
 * rank's, so it chooses as for equal blocks of 64 KiB. */
GCOLL_API gcoll_status gcoll_alltoall_v(gcoll_context *context, const void *input, void *output,
                                        const uint64_t *send_counts, const uint64_t *recv_counts,
                                        gcoll_type type, const gcoll_collective_options *options);

/* input, output: count elements, cut in `exchanges` chunks (0: as many as ranks can be doubled up to size; at
 * most GCOLL_MAX_EXCHANGES). Chunk c goes to output of rank XOR 2^c, or stays here where there is no such
 * rank. Not in place.
 */
GCOLL_API gcoll_status gcoll_pairwise_exchange(gcoll_context *context, const void *input, void *output,
                                               uint64_t count, gcoll_type type, uint32_t exchanges,
                                               const gcoll_collective_options *options);

/* Returns when every rank has called it. */
GCOLL_API gcoll_status gcoll_barrier(gcoll_context *context, const gcoll_barrier_options *options);

/* ---- Algorithms ---------------------------------------------------------------------------------------- */

/* Lists the algorithms of a collective ("allreduce", "broadcast", ...): name and one-line summary of the
 * index-th, GCOLL_ERR_NOT_FOUND past the end. The texts are constant. Those of the library, not registered
 * ones. */
GCOLL_API gcoll_status gcoll_algorithm_at(const char *collective, uint32_t index, const char **name,
                                          const char **summary);

/* Checks an algorithm's text ("ring:segment=1Mi") for a collective without running it. */
GCOLL_API gcoll_status gcoll_algorithm_check(const char *collective, const char *text);

/* Adds an algorithm of the caller's (gcoll/plan.h) to this context, for calls that name it and for auto. All
 * ranks add the same, in the same order, before the first operation that may use it. Not copied: it must
 * outlive the context and its duplicates, which have it too. GCOLL_ERR_INVALID names the field at fault, also
 * for a name that the collective has already. */
GCOLL_API gcoll_status gcoll_context_register(gcoll_context *context, const gcoll_algorithm *algorithm);

/* Writes into text (of `bytes` bytes, terminated, cut if it is longer) which algorithm auto takes for such a
 * call on this context, and below it a line for each algorithm, cheapest first: predicted time, messages on
 * the critical path, elements sent and reduced there, scratch; or why it does not serve. `count` is as in the
 * call, op is for the collectives that reduce, root for those that have one. options may be NULL; a named
 * algorithm in it is ignored. Nothing is sent. */
GCOLL_API gcoll_status gcoll_context_explain(gcoll_context *context, gcoll_collective collective,
                                             uint64_t count, gcoll_type type, gcoll_op op, uint32_t root,
                                             const gcoll_collective_options *options, char *text,
                                             size_t bytes);

/* What this context goes by, as the first two lines of a section of a tuning file (docs/tuning.md): "for"
 * with transport and ranks, "cost" with the costs of messages and bytes. The same on every rank. Truncates.
 * GCOLL_ERR_INVALID: an argument is NULL. */
GCOLL_API gcoll_status gcoll_context_tuning(const gcoll_context *context, char *text, size_t bytes);

GCOLL_END_DECLS

#endif
