/*
 * gcoll/monitor/monitor.c - the monitor's hooks around blocking calls, and the functions of gcoll/arrival.h.
 *
 * On entry, a call finds its site, waits for an announcement if one is due, and takes the plan in force. On
 * return, it notes how long it took, and sends reports and announcements. Messages are received wherever the
 * context makes progress.
 */
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/hash.h"
#include "gcoll/context/hooks.h"
#include "gcoll/monitor/monitor_internal.h"
#include "gcoll/run/run.h"

/* ---- Life --------------------------------------------------------------------------------- */

static const gcoll_hooks hooks;

static gcoll_status create(gcoll_context *context) {
    gcoll_arrival *arrival = calloc(1, sizeof *arrival);
    if (!arrival)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "options.monitor: no memory");
    arrival->context = context;
    arrival->phase_site = GCOLL_NO_SITE;
    context->arrival = arrival;
    context->hooks = &hooks;
    return gcoll_arrival_allocate_messages(arrival);
}

static void destroy(gcoll_context *context) {
    gcoll_arrival *arrival = context->arrival;
    if (!arrival)
        return;
    for (uint32_t i = 0; i < arrival->site_count; i++) {
        gcoll_site *site = &arrival->sites[i];
        free(site->now.arrival_ns);
        free(site->pending.arrival_ns);
        free(site->tried.arrival_ns);
        free(site->views);
    }
    gcoll_arrival_free_messages(arrival);
    free(arrival);
    context->arrival = NULL;
    context->hooks = NULL;
}

/* ---- Sites -------------------------------------------------------------------------------- */

/* Whether the monitor watches the call: its arguments are the same on every rank, and auto selects its
 * algorithm. */
static bool is_watched(const gcoll_call *call) {
    if (gcoll_call_is_fixed(call) || /* arrivals differ from run to run */
        gcoll_call_counts_buffers(call))
        return false;
    if (gcoll_codec_is_set(&call->codec)) /* what is known of times is of messages without one */
        return false;
    switch ((gcoll_collective)call->collective) {
    case GCOLL_ALLREDUCE:
    case GCOLL_REDUCE:
    case GCOLL_REDUCE_SCATTER:
    case GCOLL_BROADCAST:
    case GCOLL_ALLGATHER:
        return call->count > 0 && gcoll_call_is_auto(call);
    case GCOLL_BARRIER:
        return gcoll_call_is_auto(call);
    default:
        return false;
    }
}

/* Whether no rank can leave the call before all ranks have entered it. */
static bool is_meeting(const gcoll_call *call) {
    const gcoll_collective collective = (gcoll_collective)call->collective;
    return collective == GCOLL_BARRIER || (collective == GCOLL_ALLREDUCE && call->count > 0) ||
           (collective == GCOLL_ALLGATHER && call->count > 0 && call->blocks_hash == 0);
}

static uint64_t hash_key(const gcoll_call *key, uint32_t number) {
    const uint64_t fields[] = {key->collective,  key->type,  key->op,           key->root,        key->needs,
                               key->commutative, key->count, key->memory_limit, key->blocks_hash, number};
    return gcoll_hash_words(GCOLL_HASH_START, fields, sizeof fields / sizeof fields[0]);
}

static gcoll_status make_site(gcoll_arrival *arrival, const gcoll_call *call) {
    const uint32_t size = arrival->context->size;
    gcoll_site *site = &arrival->sites[arrival->site_count];
    memset(site, 0, sizeof *site);
    site->now.arrival_ns = calloc(size, sizeof(int64_t));
    site->pending.arrival_ns = calloc(size, sizeof(int64_t));
    if (arrival->context->rank == 0)
        site->views = calloc(size, sizeof *site->views);
    if (!site->now.arrival_ns || !site->pending.arrival_ns || (arrival->context->rank == 0 && !site->views)) {
        free(site->now.arrival_ns);
        free(site->pending.arrival_ns);
        free(site->views);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "the monitor: no memory for a site of %u ranks", size);
    }
    site->key = gcoll_call_alike(call);
    site->hash = hash_key(&site->key, arrival->number);
    site->number = arrival->number;
    site->next = size > 1 ? GCOLL_ARRIVAL_FIRST : GCOLL_ARRIVAL_NEVER;
    site->now.unit_ns = 1;
    arrival->site_count++;
    return GCOLL_OK;
}

/* Finds the site of the call, or makes it. *site is NULL if there are too many sites; that is so on every
 * rank alike. */
static gcoll_status find_site(gcoll_arrival *arrival, const gcoll_call *call, gcoll_site **site) {
    *site = NULL;
    for (uint32_t i = 0; i < arrival->site_count; i++) {
        const uint32_t at =
            (arrival->guess + i) % arrival->site_count; /* usually the latest site, or the one after it */
        gcoll_site *tried = &arrival->sites[at];
        if (tried->number != arrival->number || !gcoll_call_is_alike(&tried->key, call))
            continue;
        arrival->guess = at;
        *site = tried;
        return GCOLL_OK;
    }
    if (arrival->site_count == GCOLL_ARRIVAL_SITES)
        return GCOLL_OK;
    gcoll_status status = make_site(arrival, call);
    if (status == GCOLL_OK)
        *site = &arrival->sites[arrival->site_count - 1];
    return status;
}

/* ---- Plans -------------------------------------------------------------------------------- */

static void choose(const gcoll_context *context, gcoll_problem *problem, gcoll_problem *common,
                   gcoll_choice *choice, uint64_t *mark) {
    const gcoll_arrival_decision *decision = context->arrival->current;
    *choice = (gcoll_choice){.algorithm = decision->algorithm};
    for (uint32_t i = 0; decision->algorithm->options && decision->algorithm->options[i].name; i++)
        choice->option[i] = decision->algorithm->options[i].fallback;
    problem->arrival_ns = common->arrival_ns = decision->arrival_ns;
    problem->segment_ns = common->segment_ns = decision->segment_ns;
    *mark = decision->hash;
}

void gcoll_arrival_warm(gcoll_arrival *arrival, gcoll_site *site) {
    gcoll_context *context = arrival->context;
    gcoll_call call = site->latest;
    gcoll_cache_entry *entry;
    if (!site->has_pending || site->is_warm || site->pending.id == 0 || site->calls == 0 ||
        call.places != 0 || call.blocks_hash != 0)
        return;
    site->is_warm = true;
    const gcoll_arrival_decision *current = arrival->current; /* a call may wait before it is planned */
    call.arrival = site->pending.id;
    arrival->current = &site->pending;
    gcoll_status status = gcoll_cache_get(context, &call, &(gcoll_blocks){0}, &entry);
    arrival->current = current;
    if (status != GCOLL_OK) /* the call will report the error */
        return;
    for (uint32_t i = 0; i < entry->plan->step_count; i++) {
        const gcoll_step *step = &entry->plan->steps[i];
        if (gcoll_step_is_message(step) && !gcoll_peer_has_departed(context, step->peer))
            gcoll_peer_need(context, step->peer, false);
    }
    gcoll_cache_put(entry);
}

/* ---- Between calls ------------------------------------------------------------------------ */

static void tend_rank_0(gcoll_arrival *arrival) {
    const bool is_idle = !gcoll_runs_are_in_flight(arrival->context);
    arrival->put_off = false;
    for (uint32_t i = 0; i < arrival->site_count; i++) {
        gcoll_site *site = &arrival->sites[i];
        if (!site->is_ripe || site->has_pending)
            continue;
        if (!is_idle && site->asked_call < site->next) { /* no rank waits for it */
            arrival->put_off = true;
            continue;
        }
        if (gcoll_arrival_decide(arrival, site) == GCOLL_OK && is_idle)
            gcoll_arrival_warm(arrival, site);
    }
}

void gcoll_arrival_call(gcoll_context *context) {
    context->arrival->calls = true;
    gcoll_live_due(context, &gcoll_arrival_activity);
}

void gcoll_arrival_tend(gcoll_context *context) {
    gcoll_arrival *arrival = context->arrival;
    gcoll_live_not_due(context, &gcoll_arrival_activity);
    arrival->calls = false;
    if (context->health.broken)
        return;
    if (context->rank == 0) {
        tend_rank_0(arrival);
        return;
    }
    if (gcoll_runs_are_in_flight(context) || arrival->waits) /* the rest is done when the call ends */
        return;
    gcoll_arrival_place(arrival);
    for (uint32_t i = 0; i < arrival->site_count && !context->health.broken; i++)
        gcoll_arrival_warm(arrival, &arrival->sites[i]);
}

static bool has_work(const gcoll_context *context) {
    const gcoll_arrival *arrival = context->arrival;
    if (!arrival || !arrival->is_open)
        return false;
    if (arrival->calls || arrival->reports[0].is_busy)
        return true;
    for (uint32_t i = 0; context->rank == 0 && i < arrival->site_count; i++) {
        const gcoll_site *site = &arrival->sites[i];
        if (site->now.interval == 1 && !site->has_pending && site->calls + 1 == site->next)
            return true; /* reports of edges are on their way, or a rank may wait */
    }
    return false;
}

/* ---- The activity's table ----------------------------------------------------------------- */

/* Whether this rank waits for an announcement of rank 0. */
static bool waits(const gcoll_context *context) {
    return context->arrival && context->arrival->waits;
}

static void each_waited(gcoll_context *context, gcoll_waited_fn fn, void *arg) {
    if (waits(context))
        fn(arg, 0);
}

static bool needs(const gcoll_context *context, uint32_t peer) {
    return peer == 0 && waits(context);
}

static uint32_t announcer(const gcoll_context *context) {
    return waits(context) ? 0 : GCOLL_NO_RANK;
}

static void not_announced(gcoll_context *context, uint64_t begun) {
    gcoll_break_operation(context, GCOLL_ERR_MISMATCH, 0,
                          "the monitor: rank 0 has begun %llu operations, rank %u waits to begin #%llu; rank "
                          "0 does not block in it, or names an algorithm, or calls something else",
                          (unsigned long long)begun, context->rank,
                          (unsigned long long)gcoll_runs_begun(context) + 1);
}

const gcoll_activity gcoll_arrival_activity = {
    .order = 0,
    .advance = gcoll_arrival_tend,
    .has_work = has_work,
    .each_waited = each_waited,
    .needs = needs,
    .announcer = announcer,
    .not_announced = not_announced,
};

/* ---- A call ------------------------------------------------------------------------------- */

static gcoll_status adopt(gcoll_arrival *arrival, gcoll_site *site, uint64_t call, int64_t since_ns) {
    gcoll_status status = GCOLL_OK;
    if (!site->has_pending)
        status = arrival->context->rank == 0
                     ? gcoll_arrival_decide(arrival, site)
                     : gcoll_arrival_await(arrival, site, since_ns > 0 ? since_ns : 0);
    if (status != GCOLL_OK)
        return status;
    const gcoll_arrival_decision before = site->now;
    site->changes += site->pending.id != before.id;
    site->announcements++;
    site->now = site->pending;
    site->pending = before; /* exchange the memory of arrival_ns */
    site->has_pending = site->is_warm = false;
    site->next = call + site->now.interval;
    if (before.id != 0 && before.id != site->now.id) /* each plan holds memory */
        gcoll_cache_forget(arrival->context, before.id);
    gcoll_arrival_place(arrival); /* the next announcement may have waited for this one */
    return arrival->context->health.broken ? gcoll_context_settle(arrival->context) : GCOLL_OK;
}

static gcoll_status enter(gcoll_context *context, gcoll_call *call, gcoll_visit *visit) {
    gcoll_arrival *arrival = context->arrival;
    gcoll_site *site = NULL;
    visit->entered_ns = gcoll_now_ns();
    visit->is_meeting = is_meeting(call);
    arrival->timeout_ms = visit->timeout_ms;
    if (!is_watched(call))
        return GCOLL_OK;
    gcoll_status status = find_site(arrival, call, &site);
    if (status != GCOLL_OK || !site)
        return status;
    visit->site = site;
    visit->since_ns = arrival->met ? visit->entered_ns - arrival->met_ns : -1;
    if (site->calls + 1 == site->next)
        status = adopt(arrival, site, site->next, visit->since_ns);
    memcpy(site->asked, call->algorithm, sizeof site->asked);
    call->arrival = site->now.id;
    arrival->current = &site->now; /* for `choose`, if the call is planned */
    return status;
}

static void note_call(gcoll_arrival *arrival, const gcoll_visit *visit, const gcoll_run *run,
                      int64_t now_ns) {
    gcoll_site *site = visit->site;
    const gcoll_cache_entry *entry = gcoll_run_entry(run);
    const gcoll_arrival_sample sample = {++site->calls, visit->since_ns, now_ns - visit->entered_ns};
    site->samples[sample.call % GCOLL_ARRIVAL_SAMPLES] = sample;
    site->elapsed_sum_ns += sample.elapsed_ns;
    site->heeded += entry->call.arrival > 0;
    if (strcmp(site->algorithm, entry->algorithm) != 0)
        memcpy(site->algorithm, entry->algorithm, sizeof site->algorithm);
    site->latest = entry->call;
    if (strcmp(site->latest.algorithm, site->asked) != 0) /* it has taken what was learned */
        gcoll_call_name(&site->latest, site->asked);
    if (arrival->began) {
        arrival->phase_site = (uint32_t)(site - arrival->sites);
        site->tail_ns = arrival->finished_ns > 0 ? visit->entered_ns - arrival->finished_ns : 0;
        arrival->began = false;
    }
    if (site->views)
        gcoll_arrival_note_sample(site, 0, &sample);
}

static void exchange(gcoll_arrival *arrival, gcoll_site *site) {
    const bool each = site->now.interval == 1;
    gcoll_arrival_open(arrival);
    if (arrival->context->rank == 0) {
        gcoll_arrival_ripen(arrival, site);
        if (!each && !site->has_pending && site->calls + GCOLL_ARRIVAL_LEAD >= site->next)
            gcoll_arrival_decide(arrival, site); /* the next call reports a failure */
    } else if (site->calls + GCOLL_ARRIVAL_REPORT == site->next ||
               (each && site->calls % GCOLL_ARRIVAL_FEWEST == 0)) {
        gcoll_arrival_report_to_0(arrival, site, GCOLL_ARRIVAL_HISTORY, site->calls, 0);
    }
}

static void leave(gcoll_context *context, const gcoll_visit *visit, const gcoll_run *run) {
    gcoll_arrival *arrival = context->arrival;
    const int64_t now_ns = gcoll_now_ns();
    arrival->current = NULL;
    if (visit->is_meeting) {
        arrival->met = true;
        arrival->met_ns = now_ns;
    }
    if (!visit->site)
        return;
    note_call(arrival, visit, run, now_ns);
    if (context->size == 1 || context->health.broken)
        return;
    exchange(arrival, visit->site);
    if (arrival->calls || arrival->has_come || arrival->put_off)
        gcoll_arrival_tend(context);
}

static const gcoll_hooks hooks = {.enter = enter, .leave = leave, .choose = choose};

const gcoll_monitor gcoll_monitor_linked = {
    .activity = &gcoll_arrival_activity, .create = create, .print = gcoll_arrival_print, .destroy = destroy};

/* ---- The caller's computation (gcoll/arrival.h) ------------------------------------------- */

static gcoll_status check(gcoll_context *context) {
    if (!context)
        return gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
    if (!context->arrival)
        return gcoll_error(GCOLL_ERR_STATE, "context: was created without options.monitor");
    return GCOLL_OK;
}

static gcoll_status check_and_enter(gcoll_context *context) {
    const gcoll_status status = check(context);
    return status == GCOLL_OK ? gcoll_enter(context) : status;
}

gcoll_status gcoll_arrival_begin(gcoll_context *context) {
    gcoll_status status = check_and_enter(context);
    if (status != GCOLL_OK)
        return status;
    gcoll_arrival *arrival = context->arrival;
    arrival->began = true;
    arrival->began_ns = gcoll_now_ns();
    arrival->finished_ns = 0;
    status = gcoll_context_settle(context);
    gcoll_leave(context);
    return status;
}

static gcoll_status edge(gcoll_arrival *arrival, double fraction) {
    gcoll_context *context = arrival->context;
    gcoll_status status = gcoll_context_settle(context);
    if (status != GCOLL_OK)
        return status;
    if (!arrival->began)
        return gcoll_error(GCOLL_ERR_STATE, "edge: there was no gcoll_arrival_begin");
    if (!arrival->met || arrival->phase_site == GCOLL_NO_SITE || context->size == 1)
        return GCOLL_OK; /* at first it is not known which call follows the computation */
    gcoll_site *site = &arrival->sites[arrival->phase_site];
    const double whole_ns = (double)(gcoll_now_ns() - arrival->began_ns) / fraction;
    if (whole_ns > 1e15) /* 11 days */
        return GCOLL_OK;
    int64_t expected_ns = arrival->began_ns - arrival->met_ns + (int64_t)whole_ns + site->tail_ns;
    expected_ns = expected_ns > 0 ? expected_ns : 0;
    gcoll_arrival_open(arrival);
    if (context->rank != 0)
        gcoll_arrival_report_to_0(arrival, site, GCOLL_ARRIVAL_EDGE, site->calls + 1, expected_ns);
    else
        gcoll_arrival_note_expected(arrival, site, 0, GCOLL_ARRIVAL_EDGE, site->calls + 1, expected_ns);
    return gcoll_context_settle(context);
}

gcoll_status gcoll_arrival_edge(gcoll_context *context, double fraction) {
    gcoll_status status = check(context);
    if (status != GCOLL_OK)
        return status;
    if (!(fraction > 0 && fraction < 1))
        return gcoll_error(GCOLL_ERR_INVALID, "fraction: is %g; allowed are numbers between 0 and 1",
                           fraction);
    if (!context->guard.driver && context->size > 1)
        return gcoll_error(
            GCOLL_ERR_STATE,
            "context: was created without options.progress_thread, which edges need: reports go on "
            "while the ranks compute");
    status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    status = edge(context->arrival, fraction);
    gcoll_leave(context);
    return status;
}

gcoll_status gcoll_arrival_finish(gcoll_context *context) {
    gcoll_status status = check_and_enter(context);
    if (status != GCOLL_OK)
        return status;
    context->arrival->finished_ns = gcoll_now_ns();
    status = gcoll_context_settle(context);
    gcoll_leave(context);
    return status;
}

gcoll_status gcoll_arrival_site(gcoll_context *context, uint32_t number) {
    gcoll_status status = check_and_enter(context);
    if (status != GCOLL_OK)
        return status;
    context->arrival->number = number;
    gcoll_leave(context);
    return GCOLL_OK;
}
