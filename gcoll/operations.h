/*
 * gcoll/operations.h - collectives that do not block (started), and collectives that are prepared once and
 * run many times (persistent).
 *
 * NAME_start begins a collective and gives a request (gcoll/context.h). End it by gcoll_request_wait,
 * gcoll_request_test or gcoll_request_wait_for. Any number may be in flight on a context, beside blocking
 * calls and messages of pairs. Every rank starts the same collectives in the same order, and may end them in
 * any order. Progress is made inside gcoll calls on this context, and by its progress thread if it has one.
 * Buffers belong to gcoll until the request has ended. The arguments are those of the blocking calls; arrays
 * of counts and of buffers, and options, are copied. options.done is called when the collective has ended. On
 * a context with a progress thread `request` may then be NULL (docs/embedding.md).
 *
 * NAME_create makes an operation: a plan bound to buffers, which must stay while the operation lives. Each
 * run is one collective call; every rank starts the runs in the same order. Several operations may be in
 * flight, but each of them only once at a time. Creation is not collective and sends nothing.
 *
 * Parameters that a function does not describe itself:
 *
 *   *request     receives the request of the operation that was started
 *   operation    the operation
 *   *operation   receives the operation
 */
#ifndef GCOLL_OPERATIONS_H
#define GCOLL_OPERATIONS_H

#include "gcoll/collectives.h"

GCOLL_BEGIN_DECLS

/* ---- Started collectives ---------------------------------------------------------------------------- */

GCOLL_API gcoll_status gcoll_allreduce_start(gcoll_context *context, const void *input, void *output,
                                             uint64_t count, gcoll_type type, gcoll_op op,
                                             const gcoll_allreduce_options *options, gcoll_request **request);
GCOLL_API gcoll_status gcoll_reduce_start(gcoll_context *context, const void *input, void *output,
                                          uint64_t count, gcoll_type type, gcoll_op op, uint32_t root,
                                          const gcoll_collective_options *options, gcoll_request **request);
GCOLL_API gcoll_status gcoll_reduce_scatter_start(gcoll_context *context, const void *input, void *output,
                                                  uint64_t count, gcoll_type type, gcoll_op op,
                                                  const gcoll_collective_options *options,
                                                  gcoll_request **request);
GCOLL_API gcoll_status gcoll_reduce_scatter_v_start(gcoll_context *context, const void *input, void *output,
                                                    const uint64_t *counts, gcoll_type type, gcoll_op op,
                                                    const gcoll_collective_options *options,
                                                    gcoll_request **request);
GCOLL_API gcoll_status gcoll_broadcast_start(gcoll_context *context, void *data, uint64_t count,
                                             gcoll_type type, uint32_t root,
                                             const gcoll_broadcast_options *options, gcoll_request **request);
GCOLL_API gcoll_status gcoll_allgather_start(gcoll_context *context, const void *input, void *output,
                                             uint64_t count, gcoll_type type,
                                             const gcoll_collective_options *options,
                                             gcoll_request **request);
GCOLL_API gcoll_status gcoll_allgather_v_start(gcoll_context *context, const void *input, void *output,
                                               const uint64_t *counts, gcoll_type type,
                                               const gcoll_collective_options *options,
                                               gcoll_request **request);
GCOLL_API gcoll_status gcoll_gather_start(gcoll_context *context, const void *input, void *output,
                                          uint64_t count, gcoll_type type, uint32_t root,
                                          const gcoll_collective_options *options, gcoll_request **request);
GCOLL_API gcoll_status gcoll_gather_v_start(gcoll_context *context, const void *input, void *output,
                                            const uint64_t *counts, gcoll_type type, uint32_t root,
                                            const gcoll_collective_options *options, gcoll_request **request);
GCOLL_API gcoll_status gcoll_scatter_start(gcoll_context *context, const void *input, void *output,
                                           uint64_t count, gcoll_type type, uint32_t root,
                                           const gcoll_collective_options *options, gcoll_request **request);
GCOLL_API gcoll_status gcoll_scatter_v_start(gcoll_context *context, const void *input, void *output,
                                             const uint64_t *counts, gcoll_type type, uint32_t root,
                                             const gcoll_collective_options *options,
                                             gcoll_request **request);
GCOLL_API gcoll_status gcoll_alltoall_start(gcoll_context *context, const void *input, void *output,
                                            uint64_t count, gcoll_type type,
                                            const gcoll_collective_options *options, gcoll_request **request);
GCOLL_API gcoll_status gcoll_alltoall_v_start(gcoll_context *context, const void *input, void *output,
                                              const uint64_t *send_counts, const uint64_t *recv_counts,
                                              gcoll_type type, const gcoll_collective_options *options,
                                              gcoll_request **request);
GCOLL_API gcoll_status gcoll_pairwise_exchange_start(gcoll_context *context, const void *input, void *output,
                                                     uint64_t count, gcoll_type type, uint32_t exchanges,
                                                     const gcoll_collective_options *options,
                                                     gcoll_request **request);
GCOLL_API gcoll_status gcoll_allreduce_list_start(gcoll_context *context, const void *const *inputs,
                                                  void *const *outputs, const uint64_t *counts,
                                                  uint32_t entries, gcoll_type type, gcoll_op op,
                                                  const gcoll_allreduce_options *options,
                                                  gcoll_request **request);
GCOLL_API gcoll_status gcoll_reduce_scatter_list_start(gcoll_context *context, const void *const *inputs,
                                                       void *output, const uint64_t *counts, gcoll_type type,
                                                       gcoll_op op, const gcoll_collective_options *options,
                                                       gcoll_request **request);
GCOLL_API gcoll_status gcoll_allgather_list_start(gcoll_context *context, const void *input,
                                                  void *const *outputs, const uint64_t *counts,
                                                  gcoll_type type, const gcoll_collective_options *options,
                                                  gcoll_request **request);
GCOLL_API gcoll_status gcoll_alltoall_list_start(gcoll_context *context, const void *const *inputs,
                                                 void *const *outputs, const uint64_t *send_counts,
                                                 const uint64_t *recv_counts, gcoll_type type,
                                                 const gcoll_collective_options *options,
                                                 gcoll_request **request);
GCOLL_API gcoll_status gcoll_barrier_start(gcoll_context *context, const gcoll_barrier_options *options,
                                           gcoll_request **request);

/* ---- Persistent operations -------------------------------------------------------------------------- */

typedef struct gcoll_operation gcoll_operation;

GCOLL_API gcoll_status gcoll_allreduce_create(gcoll_context *context, const void *input, void *output,
                                              uint64_t count, gcoll_type type, gcoll_op op,
                                              const gcoll_allreduce_options *options,
                                              gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_reduce_create(gcoll_context *context, const void *input, void *output,
                                           uint64_t count, gcoll_type type, gcoll_op op, uint32_t root,
                                           const gcoll_collective_options *options,
                                           gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_reduce_scatter_create(gcoll_context *context, const void *input, void *output,
                                                   uint64_t count, gcoll_type type, gcoll_op op,
                                                   const gcoll_collective_options *options,
                                                   gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_reduce_scatter_v_create(gcoll_context *context, const void *input, void *output,
                                                     const uint64_t *counts, gcoll_type type, gcoll_op op,
                                                     const gcoll_collective_options *options,
                                                     gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_broadcast_create(gcoll_context *context, void *data, uint64_t count,
                                              gcoll_type type, uint32_t root,
                                              const gcoll_broadcast_options *options,
                                              gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_allgather_create(gcoll_context *context, const void *input, void *output,
                                              uint64_t count, gcoll_type type,
                                              const gcoll_collective_options *options,
                                              gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_allgather_v_create(gcoll_context *context, const void *input, void *output,
                                                const uint64_t *counts, gcoll_type type,
                                                const gcoll_collective_options *options,
                                                gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_gather_create(gcoll_context *context, const void *input, void *output,
                                           uint64_t count, gcoll_type type, uint32_t root,
                                           const gcoll_collective_options *options,
                                           gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_gather_v_create(gcoll_context *context, const void *input, void *output,
                                             const uint64_t *counts, gcoll_type type, uint32_t root,
                                             const gcoll_collective_options *options,
                                             gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_scatter_create(gcoll_context *context, const void *input, void *output,
                                            uint64_t count, gcoll_type type, uint32_t root,
                                            const gcoll_collective_options *options,
                                            gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_scatter_v_create(gcoll_context *context, const void *input, void *output,
                                              const uint64_t *counts, gcoll_type type, uint32_t root,
                                              const gcoll_collective_options *options,
                                              gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_alltoall_create(gcoll_context *context, const void *input, void *output,
                                             uint64_t count, gcoll_type type,
                                             const gcoll_collective_options *options,
                                             gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_alltoall_v_create(gcoll_context *context, const void *input, void *output,
                                               const uint64_t *send_counts, const uint64_t *recv_counts,
                                               gcoll_type type, const gcoll_collective_options *options,
                                               gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_pairwise_exchange_create(gcoll_context *context, const void *input, void *output,
                                                      uint64_t count, gcoll_type type, uint32_t exchanges,
                                                      const gcoll_collective_options *options,
                                                      gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_allreduce_list_create(gcoll_context *context, const void *const *inputs,
                                                   void *const *outputs, const uint64_t *counts,
                                                   uint32_t entries, gcoll_type type, gcoll_op op,
                                                   const gcoll_allreduce_options *options,
                                                   gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_reduce_scatter_list_create(gcoll_context *context, const void *const *inputs,
                                                        void *output, const uint64_t *counts, gcoll_type type,
                                                        gcoll_op op, const gcoll_collective_options *options,
                                                        gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_allgather_list_create(gcoll_context *context, const void *input,
                                                   void *const *outputs, const uint64_t *counts,
                                                   gcoll_type type, const gcoll_collective_options *options,
                                                   gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_alltoall_list_create(gcoll_context *context, const void *const *inputs,
                                                  void *const *outputs, const uint64_t *send_counts,
                                                  const uint64_t *recv_counts, gcoll_type type,
                                                  const gcoll_collective_options *options,
                                                  gcoll_operation **operation);
GCOLL_API gcoll_status gcoll_barrier_create(gcoll_context *context, const gcoll_barrier_options *options,
                                            gcoll_operation **operation);

/* ---- Any collective, by a struct ----------------------------------------------------------------------
 * The calls above and those of gcoll/collectives.h are forms of these three. For bindings, and for programs
 * to which the collective is data. What a collective has no use for is not looked at. */

/* A call of any collective. */
typedef struct gcoll_collective_call {
    size_t struct_size;
    gcoll_collective collective;
    const void *input;
    void *output;   /* broadcast: data */
    uint64_t count; /* as the call by name counts: of the vector, or of a block */
    /* Not NULL: the form _v, with elements for each rank; count must be 0. recv_counts is for alltoall, whose
     * send_counts are counts. */
    const uint64_t *counts, *recv_counts;
    gcoll_type type;
    gcoll_op op;
    uint32_t root;
    uint32_t exchanges;    /* of a pairwise exchange */
    const char *algorithm; /* NULL: as options say */
    /* Of any collective, or NULL. inputs, outputs and buffers are for allreduce, reduce_scatter and
     * broadcast, whose buffers are outputs. */
    const gcoll_collective_options *options;
    int64_t timeout_ms; /* as in gcoll_collective_options; 0: as options say */

    /* Lists of buffers, as NAME_list takes them, in place of input and output. NULL and 0: no list. A
     * collective with blocks has an entry for each rank, of `count` elements or by counts. inputs is for
     * reduce_scatter, alltoall and, at the root, scatter. outputs is for allgather, alltoall and, at the
     * root, gather. In an alltoall, one side may be a list and the other not. allreduce has `entries` buffers
     * by counts; for other collectives `entries` must be 0. */
    const void *const *inputs;
    void *const *outputs;
    uint32_t entries;
} gcoll_collective_call;

/* Fills `call` with defaults. Always call it first: later versions add fields. */
GCOLL_API void gcoll_collective_call_init(gcoll_collective_call *call);
/* Does a call, and blocks, as gcoll_NAME does. call: the collective, its buffers and sizes. GCOLL_ERR_INVALID
 * names the field at fault. */
GCOLL_API gcoll_status gcoll_call_run(gcoll_context *context, const gcoll_collective_call *call);
/* Begins a call, as gcoll_NAME_start does. The struct may go when it returns. */
GCOLL_API gcoll_status gcoll_call_start(gcoll_context *context, const gcoll_collective_call *call,
                                        gcoll_request **request);
/* Plans a call, as gcoll_NAME_create does. The struct may go when it returns. */
GCOLL_API gcoll_status gcoll_call_create(gcoll_context *context, const gcoll_collective_call *call,
                                         gcoll_operation **operation);

/* ---- Operations --------------------------------------------------------------------------------------- */

/* Runs the operation once: starts it and waits for it. */
GCOLL_API gcoll_status gcoll_operation_run(gcoll_operation *operation);
/* Starts a run of an operation. Buffers belong to gcoll until wait returns or test gives done.
 * GCOLL_ERR_STATE if a run is in flight. */
GCOLL_API gcoll_status gcoll_operation_start(gcoll_operation *operation);
/* Waits for the run of an operation, up to options.timeout_ms or else the context's timeout. GCOLL_ERR_STATE
 * if no run was started. */
GCOLL_API gcoll_status gcoll_operation_wait(gcoll_operation *operation);
/* Tests whether the run of an operation has finished: makes progress, and does not wait. *done is 1 if it
 * has; then do not wait for it. The timeout counts as in gcoll_request_test. */
GCOLL_API gcoll_status gcoll_operation_test(gcoll_operation *operation, int *done);
/* Returns the operation's request, for gcoll_request_wait_for, gcoll_wait_any and the other functions of
 * requests. Ending it ends the run, as gcoll_operation_wait does. It is the same for every run, belongs to
 * the operation and is freed with it. NULL for NULL. */
GCOLL_API gcoll_request *gcoll_operation_request(gcoll_operation *operation);
/* Returns the algorithm of the latest run, or before the first one that of creation, with its options, as
 * "group_butterfly:r=2". It changes where auto learns: on a context with a progress thread also while a run
 * is in flight, so do not call it then. Valid until the operation is destroyed. "" for NULL, and after the
 * context was destroyed. */
GCOLL_API const char *gcoll_operation_algorithm(const gcoll_operation *operation);
/* Frees the operation. NULL is allowed. Destroying it while a run is in flight breaks its context. After the
 * context was destroyed, only this call is allowed. Does nothing while another thread waits for the
 * operation. Without a progress thread, it also does nothing while another thread is inside a call on its
 * context.
 */
GCOLL_API void gcoll_operation_destroy(gcoll_operation *operation);

GCOLL_END_DECLS

#endif
