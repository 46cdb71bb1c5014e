/*
 * gcoll/collectives.h - the collective operations, in the form that blocks.
 *
 * Every rank of a context calls the same operations in the same order, with equal arguments except for the
 * buffers. Calls that differ are reported as GCOLL_ERR_MISMATCH with both sides. A count may be 0.
 *
 * A call returns when this rank's part is done and its buffers may be used again. Each collective has two
 * more forms, in gcoll/operations.h: NAME_start begins it and gives a request; NAME_create makes an operation
 * that runs many times.
 *
 * Counts are in elements. If a vector has one block for each rank (reduce_scatter, allgather, gather,
 * scatter, alltoall), `count` is the size of one block. The forms that end in _v take `counts` instead: one
 * entry for each rank, the same on every rank (but see counts_at_root). Blocks follow one another by rank.
 *
 * The forms that end in _list take a vector as a list of buffers. Entry k has counts[k] elements, and the
 * vector consists of all entries, one after the other. See "Lists of buffers" below.
 *
 * In place. If input and output have the same size, they may be the same buffer. If one of them is a block of
 * the other, it may lie in the larger one, exactly where this rank's block is. alltoall and pairwise_exchange
 * have no form in place. Any other overlap is an error. A buffer that a rank does not need, because it is not
 * the root, is ignored and may be NULL.
 *
 * Algorithms are named by text: "ring", "group_butterfly:r=2", "ring:segment=256Ki". NULL or "auto" takes the
 * cheapest for the size and the number of ranks. All ranks must name the same.
 *
 * Results are the same on every rank, bit by bit, unless options.same (of the call or the context) says
 * otherwise. GCOLL_SAME_NOWHERE lets auto take algorithms that are faster for some shapes. A named algorithm
 * that cannot do what `same` asks for is refused with GCOLL_ERR_UNSUPPORTED. All ranks must ask for the same.
 * options.order fixes the tree of operations, so that results are the same for every size, number of buffers,
 * algorithm, transport and run.
 *
 * Parameters that a collective does not describe itself:
 *
 *   type      of the elements
 *   op        the operation of the reduction; GCOLL_USER: that of options.user_op
 *   count     elements of the vector, or of one block where there is one for each rank
 *   root      the rank that is the root
 *   options   NULL: the defaults
 *
 * Errors of every collective: INVALID (names the argument), UNSUPPORTED (names what the algorithm, transport
 * or build lacks), and what breaks a context: TIMEOUT, PEER, MISMATCH, IO, NO_MEMORY, PROTOCOL, ABORTED.
 */
#ifndef GCOLL_COLLECTIVES_H
#define GCOLL_COLLECTIVES_H

#include "gcoll/context.h"
#include "gcoll/plan.h"

GCOLL_BEGIN_DECLS

/* ---- Options ----------------------------------------------------------------------------------------
 * NULL in place of options means the defaults. The *_init functions fill in defaults; call them first. */

/* A callback that is told how an operation has ended. arg: options.done_arg. status: of the operation. text:
 * as gcoll_last_error gives it, or "" for GCOLL_OK; valid during the call only. */
typedef void (*gcoll_done_fn)(void *arg, gcoll_status status, const char *text);

/* Options of every collective that has no struct of its own. */
typedef struct gcoll_collective_options {
    size_t struct_size;           /* set by gcoll_collective_options_init */
    const char *algorithm;        /* NULL: auto */
    const gcoll_user_op *user_op; /* for GCOLL_USER; copied, but its arg must live as long as the operation */

    /* Most scratch that the algorithm may need on any rank; 0: any amount. auto keeps to it; a named
     * algorithm that needs more is refused. */
    uint64_t memory_limit_bytes;
    const gcoll_memory *memory; /* NULL: gcoll finds out where the buffers lie (gcoll/memory.h) */

    /* Several buffers of this process, for reduce_scatter and reduce_scatter_v only; others refuse them.
     * input and output of the call are then NULL. Each of `inputs` is a whole vector. The reduction is over
     * all buffers of all ranks, and this rank's block of it is written to each of `outputs`. In place:
     * outputs is NULL, or each output is this rank's block of its input; the rest of the inputs does not
     * change. Ranks may have different numbers of buffers, except for GCOLL_AVG. The sum of a rank's buffers
     * takes scratch of the size of a vector, which memory_limit_bytes does not count. */
    const void *const *inputs;
    void *const *outputs;
    uint32_t buffers; /* number of inputs, and of outputs, at most 1024; 0: use input and output */

    /* Time limit of this call on this rank, in ms, from the wait or the first test on: 1 to 86400000, whether
     * data move or not. 0: the context's timeout, which counts only the time in which nothing moves. -1: no
     * limit. A call that exceeds it breaks the context, because ranks are out of step. Ranks may differ in
     * it. Connecting, when a connection is first needed, has the context's timeout in any case. */
    int64_t timeout_ms;
    int same; /* gcoll_same, for calls that reduce; 0: as the context's options say */

    /* 1: only the root knows the counts of all ranks. For gather_v and scatter_v only, and the same on every
     * rank. On other ranks, counts has one entry, this rank's own count. Blocks then go straight between the
     * root and each rank (algorithm linear), whatever their sizes, because a tree needs the counts of others.
     * Counts that do not agree are reported as those of alltoall_v are. 0: every rank gives all counts. */
    int counts_at_root;

    /* A callback for the end of a started call, or NULL. It is called once for each NAME_start that returns
     * GCOLL_OK, and for each run of an operation that NAME_create made, when the run has ended, with success
     * or not. The thread that drives the context calls it: the progress thread, or any thread inside a call
     * on the context, also the call that starts the run. The buffers then belong
     * to the caller again. The caller ends the request as without a callback. But if the context has a
     * progress thread, the `request` of NAME_start may be NULL, and nobody ends it.
     * The callback must not call gcoll on this context, except gcoll_context_wake, gcoll_context_abort,
     * gcoll_context_health and gcoll_context_culprit (else GCOLL_ERR_STATE). While it runs, nothing else of
     * the context proceeds. With a progress thread the call's time limit counts from the start on; without
     * it, as in gcoll_request_test. Blocking calls refuse a callback: GCOLL_ERR_INVALID. In a forked child it
     * is not called. */
    gcoll_done_fn done;
    void *done_arg;

    /* 1: a call in place that fails leaves its input as it was, bit by bit, so that it can be repeated. When
     * it starts, it copies the part of its input that it will overwrite. It copies it back when it ends with
     * an error, before options.done is called, or when its request ends because the operation or the context
     * is destroyed. The rest of the output has no defined contents. 0: a call in place that fails leaves its
     * input partly overwritten. A call that is not in place never writes to its input, and costs nothing
     * more.
     *
     * Costs a copy in each run: of the vector for allreduce and, at the root, reduce; of this rank's block
     * for reduce_scatter; of nothing for others, unless the algorithm overwrites its input. The memory comes
     * from the context's allocator, and memory_limit_bytes does not count it. An operation keeps it until it
     * is destroyed. Ranks may differ in it. UNSUPPORTED: the input that would be overwritten lies in device
     * memory. */
    int keep_input;

    /* 1, the same on every rank (else MISMATCH): the call succeeds on all ranks that are left, or fails on
     * all of them. When a rank's part is done, well or not, the ranks agree on the result, as by
     * gcoll_context_agree with timeout_ms 0. If the part of one has failed, a rank whose own succeeded
     * returns GCOLL_ERR_PEER, with the cause of the other. Its output must not be used, keep_input restores
     * its input, and its context breaks. So after a failure the context is broken on every rank, and all can
     * go on by gcoll_context_shrink. If the call succeeds, but ranks are gone, the context breaks for later
     * calls.
     *
     * For blocking calls on contexts with options.recovery; else UNSUPPORTED, also for NAME_start and
     * NAME_create. A call whose arguments are refused returns at once, without an agreement. timeout_ms
     * limits the rank's own part only. A rank that the others count as gone (gcoll/recovery.h) gets PEER
     * whatever they get, and one that is out of memory for the agreement gets NO_MEMORY; the contexts of both
     * break. If another rank calls gcoll_context_agree or gcoll_context_shrink: MISMATCH, on all ranks.
     *
     * Costs six messages between the lowest rank that is left and each other rank, over TCP, in each call,
     * and their connections the first time; no rank returns before all have finished their part. 0: each rank
     * has a result of its own. */
    int uniform;

    /* gcoll_order, for calls that reduce, the same on every rank (else MISMATCH): the tree of operations that
     * builds each element. 0: as the context's options say. With a tree, results are the same on every rank
     * and in every run, whatever `same` says; auto takes only algorithms that build it. A named algorithm
     * that does not is UNSUPPORTED. With several buffers of a process, `buffers` must then be the same on
     * every rank (else MISMATCH), and all lie in host memory (else UNSUPPORTED). */
    int order;

    /* Factors for calls that reduce: the result is postscale * (the reduction over all ranks r of prescale_r
     * * input_r). 0: no factor, so a factor of 0 cannot be asked for. Allowed are finite numbers, and for all
     * types but float64 and complex128 those that float32 has as normal numbers. For floating-point types and
     * complex numbers only; others refuse them with INVALID. docs/types.md says how they round.
     *
     * prescale: of this rank's input, or of each of its inputs. Ranks may differ in it. The input is written
     * only in a call in place. postscale: of the result, after the division of an average. The same on every
     * rank (else MISMATCH), also where only some ranks get the result.
     *
     * Costs: prescale reads the input and writes its multiple before the first message: to the output, for
     * allreduce and at the root of reduce; else to memory of the input's size from the context's allocator,
     * which memory_limit_bytes does not count. postscale costs what the division of an average costs. A
     * change of postscale makes a plan anew, a change of prescale does not. UNSUPPORTED: a buffer lies in
     * device memory. */
    double prescale, postscale;

    /* How messages carry the elements, which must be float32: "bf16", "fp16", "int8:block=128",
     * "fp8:block=32"; NULL, "" or "none": as they are. The same on every rank (else MISMATCH). For allreduce,
     * reduce_scatter, allgather and broadcast; reductions only by GCOLL_SUM and GCOLL_AVG, and in float32.
     * The result has errors, which docs/codecs.md bounds; those of an allreduce, an allgather and a
     * broadcast, also at the sender or the root, have the same bits on every rank. ",seed=7" (bf16 and fp16:
     * ":seed=7") rounds at random, by a seed that is the same on every rank. With an infinity or a NaN in a
     * block, int8 and fp8 make all of the block NaN. UNSUPPORTED: another type or operation, an order (of a
     * reduction by several ranks), buffers in device memory, lists of buffers, or an algorithm that cannot.
     * memory_limit_bytes does not count the memory of encoded messages. */
    const char *codec;
} gcoll_collective_options;

/* Options of allreduce. */
typedef struct gcoll_allreduce_options {
    size_t struct_size;           /* set by gcoll_allreduce_options_init */
    const char *algorithm;        /* NULL: auto */
    const gcoll_user_op *user_op; /* for GCOLL_USER; copied, but its arg must live as long as the operation */
    int same;                     /* gcoll_same; 0: as the context's options say */

    /* Several buffers of this process, all of `count` elements. input and output of the call are then NULL.
     * The reduction is over all buffers of all ranks, and is written to each of `outputs`. In place: outputs
     * is NULL, or equal to inputs pointer by pointer. */
    const void *const *inputs;
    void *const *outputs;
    uint32_t buffers;            /* number of inputs, and of outputs, at most 1024; 0: use input and output */
    uint64_t memory_limit_bytes; /* as in gcoll_collective_options */
    const gcoll_memory *memory;  /* as in gcoll_collective_options */
    int64_t timeout_ms;          /* as in gcoll_collective_options */
    gcoll_done_fn done;          /* as in gcoll_collective_options */
    void *done_arg;
    int keep_input;             /* as in gcoll_collective_options */
    int uniform;                /* as in gcoll_collective_options */
    int order;                  /* as in gcoll_collective_options */
    double prescale, postscale; /* as in gcoll_collective_options */
    const char *codec;          /* as in gcoll_collective_options */
} gcoll_allreduce_options;

/* Options of broadcast. */
typedef struct gcoll_broadcast_options {
    size_t struct_size;    /* set by gcoll_broadcast_options_init */
    const char *algorithm; /* NULL: auto */
    /* Several buffers of this process: the root's buffers[0] is written to all other buffers of all ranks. */
    void *const *buffers;
    uint32_t buffer_count;       /* number of buffers; 0: use `data` */
    uint64_t memory_limit_bytes; /* as in gcoll_collective_options */
    const gcoll_memory *memory;  /* as in gcoll_collective_options */
    int64_t timeout_ms;          /* as in gcoll_collective_options */
    gcoll_done_fn done;          /* as in gcoll_collective_options */
    void *done_arg;
    int uniform;       /* as in gcoll_collective_options */
    const char *codec; /* as in gcoll_collective_options */
} gcoll_broadcast_options;

/* Options of barrier. */
typedef struct gcoll_barrier_options {
    size_t struct_size;    /* set by gcoll_barrier_options_init */
    const char *algorithm; /* NULL: auto */
    int64_t timeout_ms;    /* as in gcoll_collective_options */
    gcoll_done_fn done;    /* as in gcoll_collective_options */
    void *done_arg;
    int uniform; /* as in gcoll_collective_options */
} gcoll_barrier_options;

/* Fill `options` with defaults. Always call one of them first: later versions add fields. */
GCOLL_API void gcoll_collective_options_init(gcoll_collective_options *options);
GCOLL_API void gcoll_allreduce_options_init(gcoll_allreduce_options *options);
GCOLL_API void gcoll_broadcast_options_init(gcoll_broadcast_options *options);
GCOLL_API void gcoll_barrier_options_init(gcoll_barrier_options *options);

/* ---- Reductions -------------------------------------------------------------------------------------
 * A reduction is in rank order: the elements of a rank stand left of those of higher ranks. An operation that
 * does not commute (gcoll_user_op) is served only by algorithms that keep that order. GCOLL_AVG is for
 * allreduce, reduce and reduce_scatter. */

/* Reduces the vectors of all ranks and gives the result to every rank:
 * output[i] = input[i] of rank 0 op ... op input[i] of rank size-1.
 * input, output: count elements. In place: input is NULL or equal to output. */
GCOLL_API gcoll_status gcoll_allreduce(gcoll_context *context, const void *input, void *output,
                                       uint64_t count, gcoll_type type, gcoll_op op,
                                       const gcoll_allreduce_options *options);

/* Reduces the vectors of all ranks and gives the result to rank `root`.
 * input: count elements. output: count elements at the root, ignored elsewhere. In place at the root: input
 * is NULL or equal to output. */
GCOLL_API gcoll_status gcoll_reduce(gcoll_context *context, const void *input, void *output, uint64_t count,
                                    gcoll_type type, gcoll_op op, uint32_t root,
                                    const gcoll_collective_options *options);

/* Reduces the vectors of all ranks and gives block r of the result to rank r.
 * input: count * size elements. output: count elements. In place: output is input + rank * count elements;
 * the rest of input does not change. Several buffers a rank: options.inputs and options.outputs. */
GCOLL_API gcoll_status gcoll_reduce_scatter(gcoll_context *context, const void *input, void *output,
                                            uint64_t count, gcoll_type type, gcoll_op op,
                                            const gcoll_collective_options *options);
/* Does what gcoll_reduce_scatter does, with blocks of different sizes. input: the sum of all counts,
 * elements. output: counts[rank] elements. counts: counts[r] elements for rank r. In place: output is where
 * block `rank` is in input. */
GCOLL_API gcoll_status gcoll_reduce_scatter_v(gcoll_context *context, const void *input, void *output,
                                              const uint64_t *counts, gcoll_type type, gcoll_op op,
                                              const gcoll_collective_options *options);

/* ---- Data movement ---------------------------------------------------------------------------------- */

/* Copies data of rank `root` to data of every rank. data: count elements. The root may return before the
 * other ranks have them. With options.codec, data of the root is written, too: it gets the rounded numbers
 * that the others get. */
GCOLL_API gcoll_status gcoll_broadcast(gcoll_context *context, void *data, uint64_t count, gcoll_type type,
                                       uint32_t root, const gcoll_broadcast_options *options);

/* Gives the blocks of all ranks to every rank.
 * input: this rank's block, count elements. output: count * size elements, in rank order. In place: input is
 * output + rank * count elements. */
GCOLL_API gcoll_status gcoll_allgather(gcoll_context *context, const void *input, void *output,
                                       uint64_t count, gcoll_type type,
                                       const gcoll_collective_options *options);
/* Does what gcoll_allgather does, with blocks of different sizes. input: counts[rank] elements. output: the
 * sum of all counts, elements. counts: counts[r] elements of rank r. In place: input is where block `rank` is
 * in output. */
GCOLL_API gcoll_status gcoll_allgather_v(gcoll_context *context, const void *input, void *output,
                                         const uint64_t *counts, gcoll_type type,
                                         const gcoll_collective_options *options);

/* Gives the blocks of all ranks to rank `root`.
 * input: this rank's block, count elements. output: count * size elements at the root, in rank order; ignored
 * elsewhere. In place at the root: input is output + root * count elements. */
GCOLL_API gcoll_status gcoll_gather(gcoll_context *context, const void *input, void *output, uint64_t count,
                                    gcoll_type type, uint32_t root, const gcoll_collective_options *options);
/* Does what gcoll_gather does, with blocks of different sizes. input: counts[rank] elements. output: the sum
 * of all counts, elements, at the root; ignored elsewhere. counts: counts[r] elements of rank r. In place at
 * the root: input is where block `root` is in output. */
GCOLL_API gcoll_status gcoll_gather_v(gcoll_context *context, const void *input, void *output,
                                      const uint64_t *counts, gcoll_type type, uint32_t root,
                                      const gcoll_collective_options *options);

/* Gives block r of the root's input to rank r.
 * input: count * size elements at the root, ignored elsewhere. output: count elements. In place at the root:
 * output is input + root * count elements. */
GCOLL_API gcoll_status gcoll_scatter(gcoll_context *context, const void *input, void *output, uint64_t count,
                                     gcoll_type type, uint32_t root, const gcoll_collective_options *options);
/* Does what gcoll_scatter does, with blocks of different sizes. input: the sum of all counts, elements, at
 * the root; ignored elsewhere. output: counts[rank] elements. counts: counts[r] elements for rank r. In place
 * at the root: output is where block `root` is in input. */
GCOLL_API gcoll_status gcoll_scatter_v(gcoll_context *context, const void *input, void *output,
                                       const uint64_t *counts, gcoll_type type, uint32_t root,
                                       const gcoll_collective_options *options);

/* Gives block j of every rank's input to rank j.
 * input: count * size elements, block j for rank j. output: as many; block j comes from rank j. Not in place.
 */
GCOLL_API gcoll_status gcoll_alltoall(gcoll_context *context, const void *input, void *output, uint64_t count,
                                      gcoll_type type, const gcoll_collective_options *options);
/* Does what gcoll_alltoall does, with blocks of different sizes. Each rank has its own arrays of counts.
 * Counts that do not agree are reported when the message arrives (to a rank that expects no message, by a
 * later call), or by the timeout if no message is sent. auto knows only this rank's sizes, so it chooses as
 * for equal blocks of 64 KiB. input, output: blocks follow one another by rank. send_counts[j]: elements for
 * rank j. recv_counts[j]: elements from rank j, equal to rank j's send_counts for this rank. */
GCOLL_API gcoll_status gcoll_alltoall_v(gcoll_context *context, const void *input, void *output,
                                        const uint64_t *send_counts, const uint64_t *recv_counts,
                                        gcoll_type type, const gcoll_collective_options *options);

/* Swaps chunk c of the vector with rank XOR 2^c, for each of `exchanges` chunks. A chunk without such a rank
 * stays here. input, output: count elements. exchanges: 0 (as many as ranks can be doubled up to size) to
 * GCOLL_MAX_EXCHANGES. Not in place. */
GCOLL_API gcoll_status gcoll_pairwise_exchange(gcoll_context *context, const void *input, void *output,
                                               uint64_t count, gcoll_type type, uint32_t exchanges,
                                               const gcoll_collective_options *options);

/* Returns when every rank has called it. */
GCOLL_API gcoll_status gcoll_barrier(gcoll_context *context, const gcoll_barrier_options *options);

/* A barrier with a time limit, which reports the ranks that are late and breaks nothing. If all ranks come in
 * time, it is a barrier. The i-th call of one rank belongs together with the i-th calls of the others.
 * Blocks. Other threads may use the context meanwhile, if it has a progress thread; their own reports wait
 * for their turn, and timeout_ms counts from then on. here: one entry for each rank; 1: the rank has called,
 * 0: it has not; not written after an error.
 *
 * Rank 0 makes the list: when all have called, or timeout_ms after its own call. Each rank that came in time
 * gets that list. A rank that comes later gets it when rank 0 next makes progress, and finds 0 for itself. If
 * rank 0 has made later lists meanwhile, the rank gets the latest. A rank that gets no list within twice
 * timeout_ms and half a second takes rank 0 for absent. Then only its own entry is 1, because it knows
 * nothing of the others. When rank 0 calls in the end, it waits up to half a second longer for such a rank to
 * take the list. timeout_ms: 1 to 86400000; 0: the context's timeout; -1: no limit.
 *
 * Costs a message to rank 0 and one from it, and a connection to it. A connected rank that dies breaks the
 * context, as always. Errors: INVALID, STATE, NO_MEMORY; and the cause, if the context breaks. */
GCOLL_API gcoll_status gcoll_barrier_report(gcoll_context *context, int64_t timeout_ms, uint8_t here[]);

/* ---- Lists of buffers -------------------------------------------------------------------------------
 * One call over many buffers, which need not lie beside one another. It is one operation: one choice of the
 * algorithm, and as many messages as for one vector of that size, however many buffers there are. Buffers lie
 * in host memory. Lists cannot be combined with several buffers that are reduced with one another
 * (options.buffers). A buffer of 0 elements is ignored and may be NULL. The arrays of pointers and counts are
 * copied, and may be freed when the call returns.
 *
 * Data are reduced and received straight in the buffers. A message that begins in one buffer and ends in
 * another is gathered before it is sent, in memory that gcoll allocates. That is at most as much as this rank
 * sends: for most algorithms twice the vector. options.memory_limit_bytes does not count it. */

#define GCOLL_MAX_LIST 65536u /* buffers in a list */

/* Allreduce of `entries` buffers of one type, as one operation (elsewhere: coalesced). inputs[k] and
 * outputs[k] have counts[k] elements. In place: inputs is NULL or equal to outputs, pointer by pointer. Every
 * rank gives the same number of buffers, of the same counts. entries: 0 to GCOLL_MAX_LIST. */
GCOLL_API gcoll_status gcoll_allreduce_list(gcoll_context *context, const void *const *inputs,
                                            void *const *outputs, const uint64_t *counts, uint32_t entries,
                                            gcoll_type type, gcoll_op op,
                                            const gcoll_allreduce_options *options);

/* The calls that follow take a buffer for each rank, instead of one buffer with blocks one after the other.
 * They match the calls without a list: each rank may call either form. */

/* Does what gcoll_reduce_scatter_v does, with a list of inputs: inputs[r] is block r, counts[r] elements. In
 * place: output is inputs[rank]; the other inputs do not change. */
GCOLL_API gcoll_status gcoll_reduce_scatter_list(gcoll_context *context, const void *const *inputs,
                                                 void *output, const uint64_t *counts, gcoll_type type,
                                                 gcoll_op op, const gcoll_collective_options *options);
/* Does what gcoll_allgather_v does, with a list of outputs: outputs[r] gets the block of rank r, counts[r]
 * elements. In place: input is outputs[rank]. */
GCOLL_API gcoll_status gcoll_allgather_list(gcoll_context *context, const void *input, void *const *outputs,
                                            const uint64_t *counts, gcoll_type type,
                                            const gcoll_collective_options *options);
/* Does what gcoll_alltoall_v does, with lists on both sides: inputs[r] goes to rank r, send_counts[r]
 * elements; outputs[r] comes from rank r, recv_counts[r] elements. */
GCOLL_API gcoll_status gcoll_alltoall_list(gcoll_context *context, const void *const *inputs,
                                           void *const *outputs, const uint64_t *send_counts,
                                           const uint64_t *recv_counts, gcoll_type type,
                                           const gcoll_collective_options *options);

/* ---- Algorithms ------------------------------------------------------------------------------------- */

/* Gives the name and a one-line summary of the index-th algorithm of a collective ("allreduce", "broadcast",
 * ...). GCOLL_ERR_NOT_FOUND past the end. The texts are constant. Lists the algorithms of the library, not
 * registered ones. */
GCOLL_API gcoll_status gcoll_algorithm_at(const char *collective, uint32_t index, const char **name,
                                          const char **summary);

/* Checks the text of an algorithm ("ring:segment=1Mi") for a collective without running it. */
GCOLL_API gcoll_status gcoll_algorithm_check(const char *collective, const char *text);

/* Says whether an algorithm of the library uses expected arrival times (gcoll/arrival.h): *uses is 1 or 0.
 * text is as for gcoll_algorithm_check; "auto" and NULL give 0. For a registered algorithm see `uses_arrival`
 * of its row. GCOLL_ERR_INVALID: the collective or the text is unknown, or uses is NULL. */
GCOLL_API gcoll_status gcoll_algorithm_uses_arrival(const char *collective, const char *text, int *uses);

/* Adds an algorithm of the caller (gcoll/plan.h) to this context, for calls that name it and for auto. All
 * ranks add the same algorithms in the same order, before the first operation that may use them. The struct
 * is not copied: it must outlive the context and its duplicates, which have it too. GCOLL_ERR_INVALID names
 * the field at fault, also if the collective already has an algorithm of that name. */
GCOLL_API gcoll_status gcoll_context_register(gcoll_context *context, const gcoll_algorithm *algorithm);

/* Writes which algorithm auto takes for such a call on this context. Below it the text has one line for each
 * algorithm, cheapest first: predicted time; turns (messages one after the other on the critical path, queues
 * for a port included); elements sent and reduced there; scratch; in jobs with two levels of cost also the
 * turns and elements that stay within hosts; or the reason why it cannot be used. collective, count and type
 * are as in the call, op for the collectives that reduce, root for those that have one. options may be NULL;
 * a named algorithm and several buffers in it are ignored, as auto does not use them. text has room for
 * `bytes` bytes; longer text is cut. Sends nothing. */
GCOLL_API gcoll_status gcoll_context_explain(gcoll_context *context, gcoll_collective collective,
                                             uint64_t count, gcoll_type type, gcoll_op op, uint32_t root,
                                             const gcoll_collective_options *options, char *text,
                                             size_t bytes);

/* Writes what auto goes by on this context, as the first lines of a section of a tuning file
 * (docs/tuning.md): "for" with transport and ranks, "cost" with the costs of messages and bytes, and "tour",
 * the order of ranks along a ring, if the context has it from a tuning file. The same on every rank. 512
 * bytes are enough, and 8 more for each rank of a tour. text has room for `bytes` bytes; longer text is cut.
 * GCOLL_ERR_INVALID: an argument is NULL. */
GCOLL_API gcoll_status gcoll_context_tuning(const gcoll_context *context, char *text, size_t bytes);

GCOLL_END_DECLS

#endif
