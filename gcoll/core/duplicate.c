/*
 * gcoll/core/duplicate.c - a second context for the same ranks, by means of the first one's connections.
 *
 * Rank 0 draws a generation and broadcasts it; each rank opens an endpoint under it, and the addresses are
 * gathered by a bitwise-or allreduce of a table in which each rank fills in its own row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/core/core_internal.h"
#include "gcoll/core/rendezvous.h"

static gcoll_status split_table(gcoll_context *context, const char *table, uint32_t row) {
    context->addresses = calloc(context->size, sizeof *context->addresses);
    if (!context->addresses)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the addresses of %u ranks", context->size);
    for (uint32_t rank = 0; rank < context->size; rank++) {
        if (table[(size_t)rank * row] == '\0')
            return gcoll_error(GCOLL_ERR_PEER, "rank %u could not open its end of the duplicate", rank);
        context->addresses[rank] = strndup(table + (size_t)rank * row, row);
        if (!context->addresses[rank])
            return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the addresses of %u ranks", context->size);
    }
    return GCOLL_OK;
}

/* Every rank must take part in both steps, also one without an endpoint: it offers an empty row, which tells
 * the others that it failed. */
static gcoll_status exchange_addresses(gcoll_context *parent, gcoll_context *context) {
    char address[GCOLL_ADDRESS_MAX] = "", record[GCOLL_RECORD_MAX] = "";
    gcoll_status status = GCOLL_OK;
    if (context->endpoint)
        status = context->transport->address(context->endpoint, address, sizeof address);
    if (address[0])
        gcoll_rendezvous_record(address, record);
    uint32_t row = (uint32_t)strlen(record) + 1;
    gcoll_status shared = gcoll_allreduce(parent, NULL, &row, 1, GCOLL_UINT32, GCOLL_MAX, NULL);
    if (shared != GCOLL_OK)
        return shared;
    char *table = calloc(context->size, row);
    if (!table)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the addresses of %u ranks", context->size);
    memcpy(table + (size_t)context->rank * row, record, strlen(record));
    shared =
        gcoll_allreduce(parent, NULL, table, (uint64_t)context->size * row, GCOLL_UINT8, GCOLL_BOR, NULL);
    if (shared == GCOLL_OK)
        shared = split_table(context, table, row);
    free(table);
    return status != GCOLL_OK ? status : shared;
}

/* Without memory this rank cannot go on with the steps that the others take, so it breaks the parent: they
 * would wait in vain, and the next operation would be another one here than there. The last error says what
 * was lacking. */
static gcoll_status fall_out(gcoll_context *parent, gcoll_status status) {
    gcoll_break(parent, status, parent->rank, "rank %u cannot duplicate the context: %s", parent->rank,
                gcoll_last_error());
    return gcoll_context_settle(parent);
}

static gcoll_status meet(gcoll_context *parent, gcoll_context *context) {
    gcoll_status status = GCOLL_OK;
    if (context->rank == 0)
        status = gcoll_generation_make(context->generation);
    if (status != GCOLL_OK)
        return fall_out(parent, status);
    status = gcoll_broadcast(parent, context->generation, sizeof context->generation, GCOLL_UINT8, 0, NULL);
    if (status != GCOLL_OK)
        return status;
    context->generation[sizeof context->generation - 1] = '\0';
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
    options.job = parent->job;
    options.timeout_ms = parent->timeout_ms;
    options.monitor = parent->monitor;
    options.spin_us = parent->spin_us;
    options.interface = parent->interface;
    options.port_min = parent->endpoint_options.port_min;
    options.port_max = parent->endpoint_options.port_max;
    options.eager_bytes = parent->endpoint_options.eager_bytes;
    options.eager_pool_bytes = parent->endpoint_options.eager_pool_bytes;
    options.hub = parent->endpoint_options.hub;
    options.ibverbs = parent->endpoint_options.ibverbs;
    options.log = parent->log;
    options.log_arg = parent->log_arg;
    options.allocator = &parent->allocator;
    gcoll_context *context;
    gcoll_status status = gcoll_context_settle(parent);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_context_allocate(&options, &context);
    if (status != GCOLL_OK)
        return fall_out(parent, status);
    context->transport = parent->transport;
    context->basis = gcoll_basis_hold(parent->basis);
    if (parent->acceleration)
        status =
            gcoll_context_accelerate(context, parent->acceleration->table, &parent->acceleration->options);
    for (uint32_t i = 0; i < parent->registry.count && status == GCOLL_OK; i++)
        status = gcoll_registry_add(&context->registry, parent->registry.added[i]);
    if (status != GCOLL_OK) {
        fall_out(parent, status);
    } else if (context->size > 1) {
        status = meet(parent, context);
    }
    if (status == GCOLL_OK && context->monitor)
        status = gcoll_arrival_create(context);
    if (status == GCOLL_OK && parent->thread)
        status = gcoll_thread_start(context);
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
    gcoll_enter(parent);
    gcoll_status status = duplicate(parent, out);
    gcoll_leave(parent);
    return status;
}
