/* gcoll/lifecycle/create.c - creates a context: memory, endpoint, rendezvous, and agreed costs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/accelerate/accelerate.h"
#include "gcoll/learn/learn.h"
#include "gcoll/lifecycle/lifecycle.h"
#include "gcoll/monitor/monitor.h"
#include "gcoll/oneside/oneside.h"
#include "gcoll/record/record.h"
#include "gcoll/rendezvous/rendezvous.h"
#include "gcoll/run/run.h"

#define SPIN_US 200 /* longer than a small collective, too short for a user to notice */

/* ---- Memory ------------------------------------------------------------------------------- */

/* A context and the structs of its modules, in one allocation. */
struct whole {
    gcoll_context context;
    gcoll_rendezvous rendezvous;
    gcoll_live live;
    gcoll_calls calls;
    gcoll_runs runs;
    gcoll_oneside oneside;
};

static gcoll_context *make_whole(void) {
    struct whole *whole = calloc(1, sizeof *whole);
    if (!whole)
        return NULL;
    whole->context.rendezvous = &whole->rendezvous;
    whole->context.live = &whole->live;
    whole->context.calls = &whole->calls;
    whole->context.runs = &whole->runs;
    whole->context.oneside = &whole->oneside;
    return &whole->context;
}

/* Registers all kinds of work that a context may have in flight. */
static gcoll_status list_work(gcoll_context *context) {
    const gcoll_activity *all[GCOLL_ACTIVITIES] = {NULL};
    const gcoll_activity *const kinds[] = {gcoll_monitor_linked.activity, &gcoll_oneside_activity,
                                           &gcoll_run_activity, &gcoll_request_activity,
                                           &gcoll_learn_activity};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i])
            all[kinds[i]->order] = kinds[i];
    return gcoll_live_create(context, all);
}

/* Of a context that breaks. What it waits for is known exactly, however short the wait was. */
static void write_record(gcoll_context *context) {
    gcoll_live_note_wait(context);
    gcoll_record_dump_broken(context);
}

gcoll_status gcoll_context_allocate(const gcoll_context_options *o, gcoll_context **out) {
    gcoll_status status = gcoll_fork_watch();
    if (status != GCOLL_OK)
        return status;
    gcoll_context *context = make_whole();
    if (!context)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a context");
    context->guard.forks = gcoll_forks;
    context->guard.process = (long)getpid();
    pthread_mutex_init(&context->guard.gate, NULL); /* cannot fail without attributes */
    context->health.cause.culprit = GCOLL_NO_RANK;
    context->health.leave_cause = gcoll_rendezvous_leave_cause;
    context->health.end_work = gcoll_requests_tell_all;
    context->health.write_record = write_record;
    context->rank = o->rank;
    context->size = o->size;
    gcoll_rendezvous_create(context);
    status = gcoll_settings_copy(&context->settings, o);
    gcoll_calls_create(context, gcoll_run_destroy);
    if (status == GCOLL_OK)
        status = gcoll_record_create(context);
    if (status == GCOLL_OK)
        status = list_work(context);
    if (status == GCOLL_OK)
        status = gcoll_runs_create(context);
    if (status != GCOLL_OK) {
        gcoll_context_destroy(context);
        return status;
    }
    *out = context;
    return GCOLL_OK;
}

/* ---- Steps shared with duplicates ---------------------------------------------------------- */

gcoll_status gcoll_context_open(gcoll_context *context) {
    gcoll_events events = gcoll_context_events;
    events.arg = context;
    gcoll_generation_bytes(context, context->settings.endpoint.group);
    return context->transport->open(&context->settings.endpoint, &events, &context->endpoint);
}

/* Polling pays if each rank has its own core. If ranks share cores, a polling rank takes CPU time from its
 * peer, unless the transport yields the core after each unsuccessful poll. */
void gcoll_context_tune_spin(gcoll_context *context, uint32_t local_ranks) {
    if (context->settings.spin_us == 0)
        context->settings.spin_us =
            context->transport->yields || local_ranks <= gcoll_host_cores() ? SPIN_US : -1;
    int64_t spin_us = context->settings.spin_us < 0 ? 0 : context->settings.spin_us;
    context->settings.endpoint.spin_us = spin_us;
    context->transport->set_spin(context->endpoint, spin_us);
}

gcoll_status gcoll_context_finish(gcoll_context *context, bool with_thread) {
    gcoll_status status = GCOLL_OK;
    gcoll_requests_forget_received(context); /* messages of the creation are none of the caller's */
    if (context->settings.recovery && !context->council)
        status = gcoll_recovery_meet(context);
    if (status == GCOLL_OK && context->settings.monitor)
        status = gcoll_monitor_linked.create(context);
    if (status == GCOLL_OK)
        status = gcoll_learn_create(context);
    if (status == GCOLL_OK) {
        gcoll_record_begin_counts(context);
        gcoll_record_watch(context);
    }
    if (status == GCOLL_OK && context->size > 1 && with_thread)
        status = gcoll_thread_start(context);
    return status;
}

/* ---- Joining ------------------------------------------------------------------------------ */

/* Opens the endpoint and claims the rank; starts over with the next launch if this one went on without it. */
static gcoll_status enter(gcoll_context *context, const char *tuning, int64_t deadline_ms,
                          char address[GCOLL_ADDRESS_MAX]) {
    gcoll_status status;
    bool again = false;
    do {
        if (context->endpoint)
            context->transport->close(context->endpoint, 0);
        context->endpoint = NULL;
        status = gcoll_rendezvous_begin(context, deadline_ms);
        if (status == GCOLL_OK)
            status = gcoll_context_open(context);
        if (status == GCOLL_OK)
            status = gcoll_tuning_begin(context, tuning);
        if (status == GCOLL_OK)
            status = context->transport->address(context->endpoint, address, GCOLL_ADDRESS_MAX);
        if (status == GCOLL_OK)
            status = gcoll_rendezvous_claim(context, deadline_ms, &again);
    } while (status == GCOLL_OK && again);
    return status;
}

static gcoll_status meet(gcoll_context *context, const char *tuning, int64_t deadline_ms) {
    char address[GCOLL_ADDRESS_MAX];
    uint32_t local_ranks = 1;
    gcoll_status status;
    bool again = false;
    do {
        status = enter(context, tuning, deadline_ms, address);
        if (status == GCOLL_OK)
            status = gcoll_rendezvous_finish(context, address, gcoll_fit_by_pairs.asks(context), deadline_ms,
                                             &local_ranks, &again);
    } while (status == GCOLL_OK && again);
    if (status != GCOLL_OK) {
        char cause[1024];
        snprintf(cause, sizeof cause, "%s", gcoll_last_error());
        if (context->endpoint) /* frees descriptors, which the store may need to tell the other ranks */
            context->transport->close(context->endpoint, 0);
        context->endpoint = NULL;
        gcoll_error(status, "%s", cause);
        gcoll_rendezvous_refuse(context, status);
        return status;
    }
    gcoll_context_tune_spin(context, local_ranks);
    return gcoll_tuning_agree(context, &gcoll_fit_by_pairs, local_ranks, deadline_ms);
}

static gcoll_status join(gcoll_context *context, const char *tuning, const char *launch,
                         int64_t deadline_ms) {
    gcoll_status status = gcoll_meeting_create(context, launch, deadline_ms);
    if (status != GCOLL_OK)
        return status;
    status = meet(context, tuning, deadline_ms);
    gcoll_rendezvous_end(context, status);
    if (status != GCOLL_OK &&
        gcoll_rendezvous_is_complete(context)) /* other ranks may already rely on this one */
        gcoll_break(context, status, GCOLL_NO_RANK, "%s", gcoll_last_error());
    return status;
}

/* Opens the endpoint, and gives this rank's record for the others. */
static gcoll_status open_for_exchange(gcoll_context *context, const char *tuning,
                                      char record[GCOLL_RECORD_MAX]) {
    char address[GCOLL_ADDRESS_MAX];
    gcoll_status status = gcoll_tuning_begin(context, tuning);
    if (status == GCOLL_OK)
        status = gcoll_context_open(context);
    if (status == GCOLL_OK)
        status = context->transport->address(context->endpoint, address, sizeof address);
    if (status == GCOLL_OK)
        gcoll_rendezvous_record(address, record);
    return status;
}

/* Joins by an allgather. A rank that fails tells the others why in its next part of it. */
static gcoll_status join_by_exchange(gcoll_context *context, const gcoll_exchange *by, const char *tuning,
                                     int64_t deadline_ms) {
    char record[GCOLL_RECORD_MAX], reason[1024] = "";
    gcoll_status own = GCOLL_OK;
    gcoll_status status = gcoll_exchange_hello(context, by, &own);
    if (status != GCOLL_OK)
        return status;
    if (own == GCOLL_OK)
        own = open_for_exchange(context, tuning, record);
    if (own != GCOLL_OK) {
        snprintf(reason, sizeof reason, "%s", gcoll_last_error());
        snprintf(record, sizeof record, "!%s", reason);
    }
    status = gcoll_exchange_records(context, by, record);
    if (own != GCOLL_OK)
        return gcoll_error(own, "%s", reason);
    if (status != GCOLL_OK)
        return status;
    const uint32_t local_ranks = gcoll_rendezvous_sharing(context, context->rank);
    gcoll_context_tune_spin(context, local_ranks);
    status = gcoll_tuning_agree(context, &gcoll_fit_by_pairs, local_ranks, deadline_ms);
    if (status != GCOLL_OK) /* the others may already rely on this rank */
        gcoll_break(context, status, GCOLL_NO_RANK, "%s", gcoll_last_error());
    return status;
}

/* Joins by a store that lacks operations. Such a store serves only as an allgather. */
static gcoll_status join_by_limited_store(gcoll_context *context, const gcoll_context_options *o,
                                          int64_t deadline_ms) {
    gcoll_limited *limited = NULL;
    gcoll_store *store = context->settings.store;
    context->settings.store = NULL; /* nothing else is asked of it */
    gcoll_status status = gcoll_meeting_create(context, o->launch, deadline_ms);
    if (status == GCOLL_OK)
        status = gcoll_limited_create(context, store, deadline_ms, &limited);
    if (status != GCOLL_OK)
        return status;
    const gcoll_exchange by = {gcoll_limited_exchange, limited, "the store"};
    status = join_by_exchange(context, &by, o->tuning, deadline_ms);
    if (status == GCOLL_OK) /* then all ranks have read what they need */
        status = gcoll_collective_run(context, &(const gcoll_given){.collective = GCOLL_BARRIER});
    char text[1024];
    snprintf(text, sizeof text, "%s", gcoll_last_error());
    gcoll_limited_end(limited, status == GCOLL_OK);
    return status == GCOLL_OK ? GCOLL_OK : gcoll_error(status, "%s", text);
}

/* A single rank needs no rendezvous, but a tuning file that cannot be read is still an error. */
static gcoll_status join_alone(gcoll_context *context, const char *tuning) {
    gcoll_status status = gcoll_tuning_begin(context, tuning);
    return status == GCOLL_OK ? gcoll_tuning_agree(context, &gcoll_fit_by_pairs, 1, 0) : status;
}

/* Frees a context that could not be created, by the deadline of creation and what may follow that. */
static void end_by_deadline(gcoll_context *context) {
    if (context->rendezvous->meeting)
        gcoll_context_end(context, gcoll_meeting_deadline(context) + GCOLL_CLOSING_MS, 0);
    else
        gcoll_context_destroy(context);
}

gcoll_status gcoll_network_use(gcoll_context *context, const gcoll_network *network) {
    const gcoll_transport *transport = network->transport;
    uint32_t lane_count = network->lane_count;
    context->settings.endpoint.interface_from = network->interface_from;
    if (context->settings.share && !transport->shared && transport != &gcoll_transport_inproc) {
        if (!network->is_auto)
            return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                               "options.share: is 1; not possible over %s, only over tcp and inproc",
                               transport->name);
        transport = &gcoll_transport_tcp; /* the best of those that can share */
        lane_count = 0;
    }
    context->transport = transport;
    gcoll_status status =
        gcoll_settings_add_lanes(&context->settings, network->lanes, lane_count, network->is_auto);
    if (status == GCOLL_OK && context->settings.share)
        status = gcoll_family_found(context);
    return status;
}

gcoll_status gcoll_context_create(const gcoll_context_options *options, gcoll_context **out) {
    if (!options || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", options ? "context" : "options");
    const int64_t began_ms = gcoll_now_ms();
    gcoll_context_options known = {0};
    gcoll_status status = gcoll_context_options_read(&known, options);
    if (status == GCOLL_OK)
        status = gcoll_context_options_check(&known);
    gcoll_network network = {0};
    if (status == GCOLL_OK)
        status = gcoll_network_read(&known, &network);
    gcoll_context *context = NULL;
    if (status == GCOLL_OK)
        status = gcoll_context_allocate(&known, &context);
    if (status == GCOLL_OK)
        status = gcoll_network_use(context, &network);
    if (status == GCOLL_OK)
        status = gcoll_secret_read(&context->settings, &known);
    if (status == GCOLL_OK && context->transport != &gcoll_transport_inproc)
        status = gcoll_encryption_read(&context->settings, &known);
    if (status == GCOLL_OK)
        status = gcoll_secret_use_store(&context->settings);
    gcoll_network_free(&network);
    if (status != GCOLL_OK) {
        gcoll_context_destroy(context);
        return status;
    }
    status = gcoll_basis_create(known.cost, &context->basis);
    if (status == GCOLL_OK)
        status = gcoll_memory_open(context, known.accelerator, known.accelerator_times != 0);
    if (status == GCOLL_OK && context->size == 1)
        status = join_alone(context, known.tuning);
    else if (status == GCOLL_OK && known.exchange)
        status = join_by_exchange(
            context, &(const gcoll_exchange){known.exchange, known.exchange_arg, "options.exchange"},
            known.tuning, GCOLL_NEVER_MS);
    else if (status == GCOLL_OK && gcoll_store_lacks(known.store) != 0)
        status = join_by_limited_store(context, &known, began_ms + context->settings.timeout_ms);
    else if (status == GCOLL_OK)
        status = join(context, known.tuning, known.launch, began_ms + context->settings.timeout_ms);
    if (status == GCOLL_OK)
        status = gcoll_context_finish(context, known.progress_thread != 0);
    if (status != GCOLL_OK) {
        char text[1024];
        snprintf(text, sizeof text, "%s", gcoll_last_error());
        /* Other ranks may have been created already; tell them why this rank failed. */
        if (gcoll_rendezvous_has_joined(context))
            gcoll_run_out(context, status);
        end_by_deadline(context);
        return gcoll_error(status, "%s", text);
    }
    gcoll_log(context, GCOLL_LOG_INFO, "rank %u of %u joined job '%s' over %s%s", context->rank,
              context->size, context->settings.job, context->transport->name,
              gcoll_encryption_say(&context->settings));
    gcoll_secret_warn(context);
    *out = context;
    return GCOLL_OK;
}
