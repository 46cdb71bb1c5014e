/* gcoll/lifecycle/duplicate.c - creates a second context for the same ranks, over the connections of the
 * first.
 *
 * Rank 0 draws a generation and broadcasts it; each rank opens an endpoint under it, and the addresses are
 * gathered by a bitwise-or allreduce of a table in which each rank fills in its own row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/accelerate/accelerate.h"
#include "gcoll/lifecycle/lifecycle.h"
#include "gcoll/rendezvous/rendezvous.h"
#include "gcoll/run/run.h"

static gcoll_status split_table(gcoll_context *context, const char *table, uint32_t row) {
    char **addresses = gcoll_rendezvous_addresses_make(context);
    if (!addresses)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the addresses of %u ranks", context->size);
    for (uint32_t rank = 0; rank < context->size; rank++) {
        if (table[(size_t)rank * row] == '\0')
            return gcoll_error(GCOLL_ERR_PEER, "rank %u could not open its end of the duplicate", rank);
        addresses[rank] = strndup(table + (size_t)rank * row, row);
        if (!addresses[rank])
            return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the addresses of %u ranks", context->size);
    }
    return GCOLL_OK;
}

/* Gathers the addresses of all ranks. Every rank must take part: a rank without an endpoint offers an empty
 * row, which tells the others that it failed. */
static gcoll_status exchange_addresses(gcoll_context *parent, gcoll_context *context) {
    char address[GCOLL_ADDRESS_MAX] = "", record[GCOLL_RECORD_MAX] = "";
    gcoll_status status = GCOLL_OK;
    if (context->endpoint)
        status = context->transport->address(context->endpoint, address, sizeof address);
    if (address[0])
        gcoll_rendezvous_record(address, record);
    uint32_t row = (uint32_t)strlen(record) + 1;
    gcoll_status shared = gcoll_collective_run(parent, &(const gcoll_given){.collective = GCOLL_ALLREDUCE,
                                                                            .output = &row,
                                                                            .count = 1,
                                                                            .type = GCOLL_UINT32,
                                                                            .op = GCOLL_MAX});
    if (shared != GCOLL_OK)
        return shared;
    char *table = calloc(context->size, row);
    if (!table)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the addresses of %u ranks", context->size);
    memcpy(table + (size_t)context->rank * row, record, strlen(record));
    shared = gcoll_collective_run(parent, &(const gcoll_given){.collective = GCOLL_ALLREDUCE,
                                                               .output = table,
                                                               .count = (uint64_t)context->size * row,
                                                               .type = GCOLL_UINT8,
                                                               .op = GCOLL_BOR});
    if (shared == GCOLL_OK)
        shared = split_table(context, table, row);
    free(table);
    return status != GCOLL_OK ? status : shared;
}

/* Breaks the parent if this rank cannot take part for lack of memory: the others would wait forever, and the
 * ranks' next operations would not match. The last error becomes the cause. */
static gcoll_status fall_out(gcoll_context *parent, gcoll_status status) {
    gcoll_break(parent, status, parent->rank, "rank %u cannot duplicate the context: %s", parent->rank,
                gcoll_last_error());
    return gcoll_context_settle(parent);
}

static gcoll_status meet(gcoll_context *parent, gcoll_context *context) {
    char generation[GCOLL_GENERATION_TEXT] = "";
    gcoll_status status = GCOLL_OK;
    if (context->rank == 0)
        status = gcoll_generation_make(generation);
    if (status != GCOLL_OK)
        return fall_out(parent, status);
    status = gcoll_collective_run(parent, &(const gcoll_given){.collective = GCOLL_BROADCAST,
                                                               .output = generation,
                                                               .count = sizeof generation,
                                                               .type = GCOLL_UINT8});
    if (status != GCOLL_OK)
        return status;
    gcoll_generation_set(context, generation);
    gcoll_status opened = gcoll_context_open(context);
    char text[512];
    snprintf(text, sizeof text, "%s", gcoll_last_error());
    status = exchange_addresses(parent, context);
    if (opened != GCOLL_OK)
        return gcoll_error(opened, "%s", text);
    if (status == GCOLL_OK)
        gcoll_context_tune_spin(context, 1);
    return status;
}

static gcoll_status duplicate(gcoll_context *parent, gcoll_context **out) {
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.rank = parent->rank;
    options.size = parent->size;
    options.job = parent->settings.job;
    options.timeout_ms = parent->settings.timeout_ms;
    options.silence_ms = parent->settings.silence_ms > 0 ? parent->settings.silence_ms : -1;
    options.monitor = parent->settings.monitor;
    options.same = (int)parent->settings.same;
    options.spin_us = parent->settings.spin_us;
    options.interface = parent->settings.interface;
    options.port_min = parent->settings.endpoint.port_min;
    options.port_max = parent->settings.endpoint.port_max;
    options.eager_bytes = parent->settings.endpoint.eager_bytes;
    options.eager_pool_bytes = parent->settings.endpoint.eager_pool_bytes;
    options.hub = parent->settings.endpoint.hub;
    options.checksum = parent->settings.endpoint.checksum;
    options.ibverbs = parent->settings.endpoint.ibverbs;
    options.log = parent->settings.log;
    options.log_arg = parent->settings.log_arg;
    options.allocator = &parent->settings.allocator;
    gcoll_context *context;
    gcoll_status status = gcoll_context_settle(parent);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_context_allocate(&options, &context);
    if (status != GCOLL_OK)
        return fall_out(parent, status);
    context->transport = parent->transport;
    context->basis = gcoll_basis_hold(parent->basis);
    status = gcoll_memory_duplicate(context, parent);
    if (status == GCOLL_OK)
        status = gcoll_calls_duplicate(context, parent);
    if (status != GCOLL_OK)
        fall_out(parent, status);
    else if (context->size > 1)
        status = meet(parent, context);
    if (status == GCOLL_OK)
        status = gcoll_context_finish(context, parent->guard.driver);
    if (status != GCOLL_OK) {
        char text[1024];
        snprintf(text, sizeof text, "%s", gcoll_last_error());
        gcoll_context_destroy(context);
        gcoll_error(status, "%s", text);
        return status == GCOLL_ERR_NO_MEMORY ? fall_out(parent, status) : status;
    }
    *out = context;
    return GCOLL_OK;
}

gcoll_status gcoll_context_duplicate(gcoll_context *parent, gcoll_context **out) {
    if (!parent || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", parent ? "context" : "parent");
    gcoll_status status = gcoll_enter(parent);
    if (status != GCOLL_OK)
        return status;
    status = duplicate(parent, out);
    gcoll_leave(parent);
    return status;
}
