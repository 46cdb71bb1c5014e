/*
 * gcoll/operations.h - collectives that do not block, and collectives that are planned once and run often.
 *
 * NAME_start begins a collective and gives a request (gcoll/context.h), which is waited for by
 * gcoll_request_wait, gcoll_request_test or gcoll_wait_any. Any number may be in flight on a context, beside
 * blocking calls and requests of pairs; every rank starts the same collectives in the same order, and may end
 * them in any. Progress is made inside gcoll calls on this context, or by its own thread if the context has
 * one. Buffers belong to gcoll until the request has ended. Arguments are those of the blocking calls; arrays
 * of counts, of buffers, and options may go when the call returns.
 *
 * NAME_create makes an operation: a plan bound to buffers, which must stay while it lives. Each run is one
 * collective call, in the order of starts on every rank. Several operations may be in flight; one operation
 * only once at a time. Creation is not collective: nothing is sent.
 */
#ifndef GCOLL_OPERATIONS_H
#define GCOLL_OPERATIONS_H

#include "gcoll/collectives.h"

GCOLL_BEGIN_DECLS

/* ---- Started, not waited for ------------------------------------------------------------------------- */

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
GCOLL_API gcoll_status gcoll_barrier_start(gcoll_context *context, const gcoll_barrier_options *options,
                                           gcoll_request **request);

/* ---- Planned and bound once, run many times ---------------------------------------------------------- */

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
GCOLL_API gcoll_status gcoll_barrier_create(gcoll_context *context, const gcoll_barrier_options *options,
                                            gcoll_operation **operation);

/* start and wait in one. */
GCOLL_API gcoll_status gcoll_operation_run(gcoll_operation *operation);
/* Begins; buffers belong to gcoll until wait returns or test says done. GCOLL_ERR_STATE if it is in flight.
 */
GCOLL_API gcoll_status gcoll_operation_start(gcoll_operation *operation);
/* Waits up to the context's timeout. GCOLL_ERR_STATE if it was not started. */
GCOLL_API gcoll_status gcoll_operation_wait(gcoll_operation *operation);
/* Makes progress without waiting; *done is 1 when finished (then no wait is due). */
GCOLL_API gcoll_status gcoll_operation_test(gcoll_operation *operation, int *done);
/* The operation's request, to stand in a list for gcoll_wait_any or be ended like any other: that ends the
 * run, as gcoll_operation_wait does. The same for every run; it belongs to the operation and goes with it.
 * NULL for NULL. */
GCOLL_API gcoll_request *gcoll_operation_request(gcoll_operation *operation);
/* The algorithm with its options, as "group_butterfly:r=2". Valid until destroy. */
GCOLL_API const char *gcoll_operation_algorithm(const gcoll_operation *operation);
/* NULL is fine. One that is in flight breaks its context. One whose context is gone can only be destroyed. */
GCOLL_API void gcoll_operation_destroy(gcoll_operation *operation);

GCOLL_END_DECLS

#endif
