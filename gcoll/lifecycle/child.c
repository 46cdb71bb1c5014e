/* gcoll/lifecycle/child.c - makes a context of all or some ranks of another one, see child.h. */
#include "gcoll/lifecycle/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/accelerate/accelerate.h"
#include "gcoll/base/text.h"
#include "gcoll/run/run.h"

/* Whether the ranks of the child are those of the parent, by the same numbers. */
static bool is_whole(const gcoll_child *c) {
    for (uint32_t rank = 0; rank < c->size; rank++)
        if (c->ranks[rank] != rank)
            return false;
    return c->size == c->parent->size;
}

/* ---- This rank's end ---------------------------------------------------------------------- */

gcoll_status gcoll_child_allocate(gcoll_child *c) {
    gcoll_context *parent = c->parent;
    const gcoll_endpoint_options *endpoint = &parent->settings.endpoint;
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.rank = c->rank;
    options.size = c->size;
    options.job = parent->settings.job;
    options.timeout_ms = parent->settings.timeout_ms;
    options.silence_ms = parent->settings.silence_ms > 0 ? parent->settings.silence_ms : -1;
    options.monitor = parent->settings.monitor;
    options.same = (int)parent->settings.same;
    options.order = (int)parent->settings.order;
    options.recovery = parent->settings.recovery;
    options.spin_us = parent->settings.spin_us;
    options.interface = parent->settings.interface;
    options.port_min = endpoint->port_min;
    options.port_max = endpoint->port_max;
    options.eager_bytes = endpoint->eager_bytes;
    options.eager_pool_bytes = endpoint->eager_pool_bytes;
    options.hub = endpoint->hub;
    options.checksum = endpoint->checksum;
    options.ibverbs = endpoint->ibverbs;
    options.log = parent->settings.log;
    options.log_arg = parent->settings.log_arg;
    options.allocator = &parent->settings.allocator;
    gcoll_status status = gcoll_context_allocate(&options, &c->context);
    if (status != GCOLL_OK)
        return status;
    c->context->transport = parent->transport;
    c->context->settings.endpoint.interface_from = endpoint->interface_from;
    c->context->settings.share = parent->settings.share;
    gcoll_secret_copy(&c->context->settings, &parent->settings);
    if (parent->settings.share && parent->transport->shared && c->size > 1) {
        c->context->transport = parent->transport->shared;
        c->context->settings.endpoint.trunk = parent->endpoint;
        c->context->settings.endpoint.members = c->ranks; /* until it is opened */
    }
    c->context->settings.endpoint.is_part = endpoint->is_part || !is_whole(c);
    c->context->settings.endpoint.hub_rank = endpoint->is_part ? endpoint->hub_rank : parent->rank;
    status = gcoll_encryption_copy(&c->context->settings, &parent->settings, c->ranks, c->size);
    if (status == GCOLL_OK)
        status = gcoll_settings_add_lanes(&c->context->settings, endpoint->lanes, endpoint->lane_count,
                                          endpoint->may_lack);
    if (status == GCOLL_OK)
        status = gcoll_memory_duplicate(c->context, parent);
    return status == GCOLL_OK ? gcoll_calls_duplicate(c->context, parent) : status;
}

void gcoll_child_offer(gcoll_child *c, char record[GCOLL_RECORD_MAX]) {
    char address[GCOLL_ADDRESS_MAX] = "";
    record[0] = '\0';
    if (c->size < 2)
        return;
    gcoll_generation_set(c->context, c->generation);
    c->opened = gcoll_context_open(c->context);
    c->context->settings.endpoint.members = NULL;
    if (c->opened == GCOLL_OK)
        c->opened = c->context->transport->address(c->context->endpoint, address, sizeof address);
    if (c->opened == GCOLL_OK) {
        gcoll_rendezvous_record(address, record);
        return;
    }
    snprintf(c->reason, sizeof c->reason, "%.*s", (int)sizeof c->reason - 1, gcoll_last_error());
    snprintf(record, GCOLL_RECORD_MAX, "!%s", c->reason);
}

static bool is_shared(const char *address) {
    return strncmp(address, GCOLL_SHARED_ADDRESS, sizeof GCOLL_SHARED_ADDRESS - 1) == 0;
}

gcoll_status gcoll_child_take_record(const gcoll_child *c, uint32_t rank, char *text) {
    gcoll_text_clean(text);
    if (text[0] == '!' || text[0] == '\0')
        return gcoll_error(GCOLL_ERR_PEER,
                           "rank %u of the new context, %u of its parent, could not open its end: %.*s", rank,
                           c->ranks[rank], GCOLL_REASON_BYTES, text[0] ? text + 1 : "it gave no reason");
    const bool shares = c->context->settings.endpoint.trunk;
    if (is_shared(text) != shares)
        return gcoll_error(
            GCOLL_ERR_MISMATCH,
            "options.share: is %d on rank %u and %d on rank %u; allowed is one value for all ranks", shares,
            c->parent->rank, !shares, c->ranks[rank]);
    return gcoll_rendezvous_take_record(c->context, rank, text);
}

gcoll_status gcoll_child_complete(gcoll_child *c) {
    gcoll_context *context = c->context;
    gcoll_status status = GCOLL_OK;
    if (is_whole(c)) {
        context->basis = gcoll_basis_hold(c->parent->basis);
    } else {
        context->parent_ranks = c->ranks;
        c->ranks = NULL;
        status = gcoll_basis_part(context, c->parent->basis,
                                  context->size > 1 ? gcoll_rendezvous_sharing(context, 0) : 1);
    }
    if (status == GCOLL_OK && context->size > 1)
        gcoll_context_tune_spin(context, 1);
    if (status == GCOLL_OK)
        status = gcoll_context_finish(context, c->parent->guard.driver);
    return status;
}

/* ---- Bytes and texts of all ranks --------------------------------------------------------------------- */

gcoll_status gcoll_bytes_share(gcoll_context *context, const void *mine, void *all, uint64_t bytes) {
    if (context->size == 1) {
        memcpy(all, mine, bytes);
        return GCOLL_OK;
    }
    return gcoll_collective_run(context, &(const gcoll_given){.collective = GCOLL_ALLGATHER,
                                                              .input = mine,
                                                              .output = all,
                                                              .count = bytes,
                                                              .type = GCOLL_UINT8});
}

/* The others would wait forever for a rank that goes no further. */
static gcoll_status fall_out(gcoll_context *context, gcoll_status status) {
    gcoll_break(context, status, context->rank, "rank %u: %s", context->rank, gcoll_last_error());
    const gcoll_status cause = gcoll_context_settle(context);
    return cause != GCOLL_OK ? cause : status;
}

gcoll_status gcoll_texts_share(gcoll_context *context, const char *mine, uint32_t most, gcoll_texts *texts) {
    uint32_t row = (uint32_t)strlen(mine) + 1;
    gcoll_status status = gcoll_collective_run(context, &(const gcoll_given){.collective = GCOLL_ALLREDUCE,
                                                                             .output = &row,
                                                                             .count = 1,
                                                                             .type = GCOLL_UINT32,
                                                                             .op = GCOLL_MAX});
    if (status != GCOLL_OK)
        return status;
    if (row > most)
        return fall_out(context, gcoll_error(GCOLL_ERR_PROTOCOL,
                                             "a rank has a record of %u bytes; allowed are %u", row, most));
    char *own = calloc(1, row), *table = calloc(context->size, row);
    if (own && table) {
        memcpy(own, mine, strlen(mine));
        status = gcoll_bytes_share(context, own, table, row);
    } else
        status = fall_out(context, gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the addresses of %u ranks",
                                               context->size));
    free(own);
    if (status != GCOLL_OK) {
        free(table);
        return status;
    }
    for (uint32_t rank = 0; rank < context->size; rank++)
        table[(size_t)rank * row + row - 1] = '\0';
    *texts = (gcoll_texts){table, row};
    return GCOLL_OK;
}
