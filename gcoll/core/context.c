/* gcoll/core/context.c - the life of a context: options, rendezvous, endpoint, end. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/core/core_internal.h"
#include "gcoll/core/rendezvous.h"

#define DEFAULT_TIMEOUT_MS INT64_C(30000)
#define LONGEST_TIMEOUT_MS INT64_C(86400000) /* a day */
#define CLOSE_LIMIT_MS     1000              /* for what was sent to arrive; normally it has long arrived */
#define DEPARTED_GRACE_MS  250               /* for messages of a rank that has left to come out of buffers */
#define LONGEST_SPIN_US    INT64_C(10000000)
#define SPIN_US            200 /* longer than a small collective takes, shorter than anyone notices */
#define CACHE_LINE         64

/* ---- Memory and log ----------------------------------------------------------------------- */

static void *default_allocate(void *arg, size_t bytes, size_t alignment) {
    (void)arg;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void default_release(void *arg, void *memory, size_t bytes) {
    (void)arg;
    (void)bytes;
    free(memory);
}

void *gcoll_allocate(gcoll_context *context, uint64_t bytes) {
    uint64_t wanted = bytes > 0 ? bytes : 1;
    void *memory = NULL;
    if (wanted <= SIZE_MAX - CACHE_LINE)
        memory = context->allocator.allocate(context->allocator.arg, (size_t)wanted, CACHE_LINE);
    if (!memory)
        gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %llu bytes", (unsigned long long)bytes);
    return memory;
}

void gcoll_release(gcoll_context *context, void *memory, uint64_t bytes) {
    if (memory)
        context->allocator.release(context->allocator.arg, memory, (size_t)(bytes > 0 ? bytes : 1));
}

void gcoll_log(gcoll_context *context, gcoll_log_level level, const char *format, ...) {
    if (!context->log)
        return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    context->log(context->log_arg, level, text);
}

/* ---- Options ------------------------------------------------------------------------------ */

void gcoll_context_options_init(gcoll_context_options *options) {
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->size = 1;
}

gcoll_status gcoll_options_read(void *to, size_t size, size_t first_size, const void *from) {
    if (!from)
        return GCOLL_OK;
    size_t given;
    memcpy(&given, from, sizeof given);
    if (given < first_size || given > size)
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "options.struct_size: is %zu; allowed are %zu to %zu (call the init function first)", given,
            first_size, size);
    memcpy(to, from, given);
    return GCOLL_OK;
}

static gcoll_status check_job(const char *job) {
    const char *allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strlen(job);
    if (length == 0 || length > 64 || strspn(job, allowed) != length)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.job: is '%.80s'; allowed are 1 to 64 of A-Z a-z 0-9 . _ -", job);
    return GCOLL_OK;
}

static gcoll_status check_options(const gcoll_context_options *o) {
    if (o->size < 1 || o->size > GCOLL_MAX_RANKS)
        return gcoll_error(GCOLL_ERR_INVALID, "options.size: is %u; allowed are 1 to %u", o->size,
                           GCOLL_MAX_RANKS);
    if (o->rank >= o->size)
        return gcoll_error(GCOLL_ERR_INVALID, "options.rank: is %u; allowed are 0 to %u", o->rank,
                           o->size - 1);
    if (o->size > 1 && !o->store)
        return gcoll_error(GCOLL_ERR_INVALID, "options.store: is NULL; %u ranks need one to find each other",
                           o->size);
    if (o->timeout_ms < 0 || o->timeout_ms > LONGEST_TIMEOUT_MS)
        return gcoll_error(GCOLL_ERR_INVALID, "options.timeout_ms: is %lld; allowed are 0 (default) to %lld",
                           (long long)o->timeout_ms, (long long)LONGEST_TIMEOUT_MS);
    if (o->spin_us < -1 || o->spin_us > LONGEST_SPIN_US)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.spin_us: is %lld; allowed are -1 (never), 0 (default) and up to %lld",
                           (long long)o->spin_us, (long long)LONGEST_SPIN_US);
    if ((o->port_min == 0) != (o->port_max == 0) || o->port_min > o->port_max)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.port_min, port_max: are %u and %u; allowed are 0 and 0, or a range",
                           o->port_min, o->port_max);
    if (o->cost && !(isfinite(o->cost->alpha) && o->cost->alpha >= 0 && isfinite(o->cost->beta) &&
                     o->cost->beta >= 0 && isfinite(o->cost->gamma) && o->cost->gamma >= 0))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.cost: is alpha %g, beta %g, gamma %g; allowed are finite numbers "
                           "from 0",
                           o->cost->alpha, o->cost->beta, o->cost->gamma);
    if (o->cost && o->tuning)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.tuning: is '%.80s' beside options.cost; allowed is one", o->tuning);
    if (o->allocator && (!o->allocator->allocate || !o->allocator->release))
        return gcoll_error(GCOLL_ERR_INVALID, "options.allocator: allocate or release is NULL");
    return check_job(o->job ? o->job : "default");
}

static gcoll_status find_transport(const char *name, const gcoll_transport **transport) {
    const char *wanted = !name || strcmp(name, "auto") == 0 ? "tcp" : name;
    char list[128] = "auto";
    for (const gcoll_transport *const *at = gcoll_transports; *at; at++) {
        if (strcmp((*at)->name, wanted) == 0) {
            *transport = *at;
            return GCOLL_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, ", %s", (*at)->name);
    }
    return gcoll_error(GCOLL_ERR_INVALID, "options.transport: is '%.40s'; allowed are %s", wanted, list);
}

/* ---- Creation ----------------------------------------------------------------------------- */

static char *copy_text(const char *text) {
    return text ? strdup(text) : NULL;
}

static gcoll_status copy_ibverbs(gcoll_context *context, const gcoll_ibverbs_options *given) {
    if (!given)
        return GCOLL_OK;
    gcoll_ibverbs_options_init(&context->ibverbs);
    gcoll_status status =
        gcoll_options_read(&context->ibverbs, sizeof context->ibverbs, sizeof context->ibverbs, given);
    if (status != GCOLL_OK)
        return gcoll_error(status, "options.ibverbs: %s", gcoll_last_error());
    context->ib_device = copy_text(context->ibverbs.device);
    if (context->ibverbs.device && !context->ib_device)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "options.ibverbs: no memory for the name of a device");
    context->ibverbs.device = context->ib_device;
    context->endpoint_options.ibverbs = &context->ibverbs;
    return GCOLL_OK;
}

gcoll_status gcoll_context_allocate(const gcoll_context_options *o, gcoll_context **out) {
    gcoll_context *context = calloc(1, sizeof *context);
    if (!context)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a context");
    context->rank = o->rank;
    context->size = o->size;
    context->timeout_ms = o->timeout_ms ? o->timeout_ms : DEFAULT_TIMEOUT_MS;
    context->spin_us = o->spin_us;
    context->store = o->store;
    context->monitor = o->monitor != 0;
    snprintf(context->job, sizeof context->job, "%s", o->job ? o->job : "default");
    context->suspect = GCOLL_NO_RANK;
    context->cause.culprit = GCOLL_NO_RANK;
    context->log = o->log;
    context->log_arg = o->log_arg;
    context->allocator =
        o->allocator ? *o->allocator : (gcoll_allocator){default_allocate, default_release, NULL};
    context->interface = copy_text(o->interface);
    context->endpoint_options = (gcoll_endpoint_options){.rank = o->rank,
                                                         .size = o->size,
                                                         .interface = context->interface,
                                                         .port_min = o->port_min,
                                                         .port_max = o->port_max,
                                                         .eager_bytes = o->eager_bytes,
                                                         .eager_pool_bytes = o->eager_pool_bytes,
                                                         .connect_timeout_ms = context->timeout_ms,
                                                         .spin_us = 0,
                                                         .hub = o->hub};
    context->peers = gcoll_allocate(context, o->size * sizeof *context->peers);
    if (!context->peers || (o->interface && !context->interface)) {
        gcoll_context_destroy(context);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "options.size: no memory for %u ranks", o->size);
    }
    memset(context->peers, 0, o->size * sizeof *context->peers);
    gcoll_status status = copy_ibverbs(context, o->ibverbs);
    if (status != GCOLL_OK) {
        gcoll_context_destroy(context);
        return status;
    }
    *out = context;
    return GCOLL_OK;
}

gcoll_status gcoll_context_open(gcoll_context *context) {
    gcoll_events events = gcoll_context_events;
    events.arg = context;
    gcoll_generation_bytes(context->generation, context->endpoint_options.group);
    return context->transport->open(&context->endpoint_options, &events, &context->endpoint);
}

/* Polling pays while each rank has a core. Where ranks share cores it burns the time that the peer needs,
 * unless each poll that finds nothing gives the core away. */
void gcoll_context_tune_spin(gcoll_context *context, uint32_t local_ranks) {
    if (context->spin_us == 0)
        context->spin_us = context->transport->yields || local_ranks <= gcoll_host_cores() ? SPIN_US : -1;
    int64_t spin_us = context->spin_us < 0 ? 0 : context->spin_us;
    context->endpoint_options.spin_us = spin_us;
    context->transport->set_spin(context->endpoint, spin_us);
}

static gcoll_status join(gcoll_context *context, const char *tuning) {
    char address[GCOLL_ADDRESS_MAX];
    uint32_t local_ranks = 1;
    int64_t deadline_ms = gcoll_now_ms() + context->timeout_ms;
    gcoll_status status = gcoll_rendezvous_begin(context, deadline_ms);
    if (status == GCOLL_OK)
        status = gcoll_context_open(context);
    if (status == GCOLL_OK)
        status = gcoll_tuning_begin(context, tuning);
    if (status == GCOLL_OK)
        status = context->transport->address(context->endpoint, address, sizeof address);
    if (status != GCOLL_OK && context->generation[0])
        gcoll_rendezvous_refuse(context, GCOLL_ERR_PEER);
    if (status == GCOLL_OK)
        status = gcoll_rendezvous_finish(context, address, deadline_ms, &local_ranks);
    if (status != GCOLL_OK)
        return status;
    gcoll_context_tune_spin(context, local_ranks);
    return gcoll_tuning_agree(context, local_ranks, deadline_ms);
}

/* One rank needs nobody, but a file that cannot be read is an error all the same. */
static gcoll_status join_alone(gcoll_context *context, const char *tuning) {
    gcoll_status status = gcoll_tuning_begin(context, tuning);
    return status == GCOLL_OK ? gcoll_tuning_agree(context, 1, 0) : status;
}

gcoll_status gcoll_context_create(const gcoll_context_options *options, gcoll_context **out) {
    if (!options || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", options ? "context" : "options");
    gcoll_context_options known = {0};
    gcoll_status status =
        gcoll_options_read(&known, sizeof known, offsetof(gcoll_context_options, progress_thread), options);
    if (status == GCOLL_OK)
        status = check_options(&known);
    const gcoll_transport *transport = NULL;
    if (status == GCOLL_OK)
        status = find_transport(known.transport, &transport);
    gcoll_context *context = NULL;
    if (status == GCOLL_OK)
        status = gcoll_context_allocate(&known, &context);
    if (status != GCOLL_OK)
        return status;
    context->transport = transport;
    status = gcoll_basis_create(known.cost, &context->basis);
    if (status == GCOLL_OK)
        status = gcoll_memory_open(context, known.accelerator, known.accelerator_times != 0);
    if (status == GCOLL_OK)
        status = context->size > 1 ? join(context, known.tuning) : join_alone(context, known.tuning);
    if (status == GCOLL_OK && context->monitor)
        status = gcoll_arrival_create(context);
    if (status == GCOLL_OK && context->size > 1 && known.progress_thread)
        status = gcoll_thread_start(context);
    if (status != GCOLL_OK) {
        char text[1024];
        snprintf(text, sizeof text, "%s", gcoll_last_error());
        gcoll_context_destroy(context);
        return gcoll_error(status, "%s", text);
    }
    gcoll_log(context, GCOLL_LOG_INFO, "rank %u of %u joined job '%s' over %s", context->rank, context->size,
              context->job, transport->name);
    *out = context;
    return GCOLL_OK;
}

uint32_t gcoll_context_rank(const gcoll_context *context) {
    return context->rank;
}
uint32_t gcoll_context_size(const gcoll_context *context) {
    return context->size;
}

void gcoll_context_destroy(gcoll_context *context) {
    if (!context)
        return;
    gcoll_thread_stop(context);
    gcoll_arrival_print(context);
    if (gcoll_requests_in_flight(context)) /* each run that is not done has one */
        gcoll_break(context, GCOLL_ERR_PEER, context->rank,
                    "rank %u destroyed its context with work in flight", context->rank);
    gcoll_context_settle(context); /* also for an abort that nobody has noticed yet */
    while (context->runs)
        gcoll_run_drop(context->runs);
    /* Who meets a closed door looks for the cause in the store, so that goes first; a rank that leaves in
     * good order takes its address away after what it sent has arrived. */
    if (context->broken)
        gcoll_rendezvous_leave(context);
    if (context->endpoint)
        context->transport->close(context->endpoint, CLOSE_LIMIT_MS);
    context->endpoint = NULL;
    gcoll_operations_orphan(context);
    gcoll_requests_free(context);
    gcoll_accesses_free(context);
    gcoll_arrival_destroy(context);
    gcoll_regions_orphan(context);
    if (!context->broken)
        gcoll_rendezvous_leave(context);
    gcoll_cache_clear(context);
    gcoll_memory_close(context);
    gcoll_fingerprint_forget(context);
    for (uint32_t peer = 0; context->peers && peer < context->size; peer++) {
        gcoll_pair_destroy(context->peers[peer].pair);
    }
    for (uint32_t peer = 0; context->addresses && peer < context->size; peer++)
        free(context->addresses[peer]);
    free(context->addresses);
    free(context->offsets);
    free(context->node);
    gcoll_basis_drop(context->basis);
    gcoll_registry_clear(&context->registry);
    gcoll_release(context, context->peers, context->size * sizeof *context->peers);
    free(context->interface);
    free(context->ib_device);
    free(context);
}

/* ---- Peers -------------------------------------------------------------------------------- */

/* A rank may send the last message, finish and leave before this one asks for it. So a receive from a rank
 * that has left is posted, and given up only when nothing has come for a while. */
static bool need_departed(gcoll_context *context, uint32_t peer, bool sends) {
    if (sends)
        gcoll_break_operation(context, GCOLL_ERR_PEER, peer, "rank %u left the job", peer);
    else
        context->doubt_ms = gcoll_now_ms() + DEPARTED_GRACE_MS;
    return !context->broken;
}

bool gcoll_peer_reach(gcoll_context *context, uint32_t peer, bool sends) {
    gcoll_peer *state = &context->peers[peer];
    if (context->broken)
        return false;
    if (state->departed)
        return need_departed(context, peer, sends);
    char address[GCOLL_ADDRESS_MAX];
    gcoll_note cause;
    gcoll_status status = gcoll_rendezvous_lookup(context, peer, address, sizeof address, &cause);
    if (status == GCOLL_ERR_STATE) {
        gcoll_break_reported(context, &cause, peer);
        return false;
    }
    if (status == GCOLL_OK)
        status = context->transport->connect(context->endpoint, peer, address);
    if (status == GCOLL_ERR_NOT_FOUND) { /* a rank takes its address away when it has closed */
        state->departed = true;
        return need_departed(context, peer, sends);
    }
    if (status != GCOLL_OK)
        gcoll_break_operation(context, status, peer, "connecting to rank %u: %s", peer, gcoll_last_error());
    state->connecting = status == GCOLL_OK;
    return !context->broken;
}
