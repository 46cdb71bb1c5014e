/*
 * test/benchmark/bench_faulty.c - what goes wrong in gcoll_bench_faulty, a gcoll_bench whose calls of the
 * library pass through here (by the linker's --wrap). Rank 1 misbehaves in its FAULT_CALL-th run of an
 * operation, as GCOLL_BENCH_FAULT says:
 *
 *   wrong  changes one byte of a result      kill  kills itself
 *   exit   ends without a word               hang  stops for good
 *   nan    makes a result no number          pause  is 3 ms late for what is no allreduce, each time
 *   refuse fails in all that is no allreduce
 *
 * "late" is a fault of rank 0: it is slow to ask how it reached the others, and hears them meanwhile.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/gcoll.h"

#define FAULT_RANK 1u
#define FAULT_CALL 3

gcoll_status __real_gcoll_context_create(const gcoll_context_options *options, gcoll_context **context);
gcoll_status __real_gcoll_allreduce_create(gcoll_context *context, const void *input, void *output,
                                           uint64_t count, gcoll_type type, gcoll_op op,
                                           const gcoll_allreduce_options *options,
                                           gcoll_operation **operation);
gcoll_status __real_gcoll_operation_run(gcoll_operation *operation);
gcoll_status __real_gcoll_context_lanes(gcoll_context *context, char *text, size_t bytes);
gcoll_status __wrap_gcoll_context_lanes(gcoll_context *context, char *text, size_t bytes);
gcoll_status __wrap_gcoll_context_create(const gcoll_context_options *options, gcoll_context **context);
gcoll_status __wrap_gcoll_allreduce_create(gcoll_context *context, const void *input, void *output,
                                           uint64_t count, gcoll_type type, gcoll_op op,
                                           const gcoll_allreduce_options *options,
                                           gcoll_operation **operation);
gcoll_status __wrap_gcoll_operation_run(gcoll_operation *operation);

/* Of this process, which is one rank with one thread. */
static uint32_t this_rank;
static unsigned char *result;
static gcoll_operation *writes_result;
static int calls;

gcoll_status __wrap_gcoll_context_create(const gcoll_context_options *options, gcoll_context **context) {
    this_rank = options->rank;
    return __real_gcoll_context_create(options, context);
}

gcoll_status __wrap_gcoll_allreduce_create(gcoll_context *context, const void *input, void *output,
                                           uint64_t count, gcoll_type type, gcoll_op op,
                                           const gcoll_allreduce_options *options,
                                           gcoll_operation **operation) {
    gcoll_status status =
        __real_gcoll_allreduce_create(context, input, output, count, type, op, options, operation);
    if (status == GCOLL_OK) {
        result = output;
        writes_result = *operation;
    }
    return status;
}

gcoll_status __wrap_gcoll_operation_run(gcoll_operation *operation) {
    const char *fault = getenv("GCOLL_BENCH_FAULT");
    int due = fault && this_rank == FAULT_RANK && ++calls == FAULT_CALL;
    if (due && strcmp(fault, "kill") == 0)
        (void)raise(SIGKILL);
    else if (due && strcmp(fault, "exit") == 0)
        _exit(0);
    else if (due && strcmp(fault, "hang") == 0)
        for (;;)
            (void)pause();
    if (fault && strcmp(fault, "pause") == 0 && this_rank == FAULT_RANK && operation != writes_result)
        (void)usleep(3000);
    if (fault && strcmp(fault, "refuse") == 0 && this_rank == FAULT_RANK && operation != writes_result)
        return GCOLL_ERR_INVALID;
    gcoll_status status = __real_gcoll_operation_run(operation);
    if (fault && strcmp(fault, "wrong") == 0 && this_rank == FAULT_RANK && operation == writes_result)
        result[0] ^= 1;
    if (fault && strcmp(fault, "nan") == 0 && this_rank == FAULT_RANK && operation == writes_result)
        memset(result, 0xff, sizeof(float));
    return status;
}

gcoll_status __wrap_gcoll_context_lanes(gcoll_context *context, char *text, size_t bytes) {
    const char *fault = getenv("GCOLL_BENCH_FAULT");
    if (fault && strcmp(fault, "late") == 0) {
        const uint32_t others[] = {1, 2};
        char none;
        gcoll_request *wait; /* for what nobody sends: meanwhile it sees who has left */
        if (gcoll_context_recv_any_start(context, others, 2, 1, &none, 1, &wait) == GCOLL_OK &&
            gcoll_request_wait_for(&wait, 500) == GCOLL_ERR_TIMEOUT)
            (void)gcoll_request_cancel(&wait);
    }
    return __real_gcoll_context_lanes(context, text, bytes);
}
