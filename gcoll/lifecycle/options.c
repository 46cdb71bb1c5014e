/* gcoll/lifecycle/options.c - checks the options of a context, and turns them into settings. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "gcoll/call/call.h"
#include "gcoll/lifecycle/lifecycle.h"
#include "transport/interfaces.h"
#include "transport/lane.h"

#define DEFAULT_SILENCE_MS INT64_C(5000) /* time for several retransmissions, even to a distant host */
#define LEAST_SILENCE_MS   INT64_C(500)
#define MOST_EAGER_BYTES   (UINT64_C(1) << 30) /* half of the largest pool */
#define LONGEST_SPIN_US    INT64_C(10000000)

void gcoll_context_options_init(gcoll_context_options *options) {
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->size = 1;
}

gcoll_status gcoll_context_options_read(gcoll_context_options *options, const gcoll_context_options *given) {
    return gcoll_options_read(options, sizeof *options, offsetof(gcoll_context_options, progress_thread),
                              given);
}

bool gcoll_job_is_name(const char *job) {
    const char *allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strlen(job);
    return length > 0 && length <= 64 && strspn(job, allowed) == length;
}

static gcoll_status check_job(const char *job) {
    if (!gcoll_job_is_name(job))
        return gcoll_error(GCOLL_ERR_INVALID, "options.job: is '%.80s'; allowed are " GCOLL_JOB_NAMES, job);
    return GCOLL_OK;
}

/* Checks the options that are on or off. */
static gcoll_status check_switches(const gcoll_context_options *o) {
    const struct {
        const char *name;
        int value;
    } switches[] = {{"progress_thread", o->progress_thread},
                    {"accelerator_times", o->accelerator_times},
                    {"monitor", o->monitor},
                    {"checksum", o->checksum},
                    {"share", o->share},
                    {"recovery", o->recovery}};
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++)
        if (switches[i].value != 0 && switches[i].value != 1)
            return gcoll_error(GCOLL_ERR_INVALID, "options.%s: is %d; allowed are 0 and 1", switches[i].name,
                               switches[i].value);
    return GCOLL_OK;
}

gcoll_status gcoll_context_options_check(const gcoll_context_options *o) {
    if (o->size < 1 || o->size > GCOLL_MAX_RANKS)
        return gcoll_error(GCOLL_ERR_INVALID, "options.size: is %u; allowed are 1 to %u", o->size,
                           GCOLL_MAX_RANKS);
    if (o->rank >= o->size)
        return gcoll_error(GCOLL_ERR_INVALID, "options.rank: is %u; allowed are 0 to %u", o->rank,
                           o->size - 1);
    if (o->size > 1 && !o->store && !o->exchange)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.store: is NULL, and so is options.exchange; %u ranks need one of them to "
                           "find each other",
                           o->size);
    if (o->store && o->exchange)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.exchange: is set beside options.store; allowed is one");
    if (o->timeout_ms < 0 || o->timeout_ms > GCOLL_TIMEOUT_MAX_MS)
        return gcoll_error(GCOLL_ERR_INVALID, "options.timeout_ms: is %lld; allowed are 0 (default) to %lld",
                           (long long)o->timeout_ms, (long long)GCOLL_TIMEOUT_MAX_MS);
    if (o->silence_ms != -1 && o->silence_ms != 0 &&
        (o->silence_ms < LEAST_SILENCE_MS || o->silence_ms > GCOLL_TIMEOUT_MAX_MS))
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "options.silence_ms: is %lld; allowed are -1 (never), 0 (default) and %lld to %lld",
            (long long)o->silence_ms, (long long)LEAST_SILENCE_MS, (long long)GCOLL_TIMEOUT_MAX_MS);
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
    if (o->eager_bytes > MOST_EAGER_BYTES)
        return gcoll_error(GCOLL_ERR_INVALID, "options.eager_bytes: is %llu; allowed are 0 (default) to %llu",
                           (unsigned long long)o->eager_bytes, (unsigned long long)MOST_EAGER_BYTES);
    gcoll_status status = check_switches(o);
    if (status == GCOLL_OK)
        status = gcoll_same_check(o->same);
    if (status == GCOLL_OK)
        status = gcoll_order_check(o->order);
    if (status != GCOLL_OK)
        return status;
    if (o->share != 0 && o->progress_thread != 0)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.share: is %d, and options.progress_thread %d; allowed is one of them",
                           o->share, o->progress_thread);
    if (o->share != 0 && o->recovery != 0)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.recovery: is %d, and options.share %d; allowed is one of them",
                           o->recovery, o->share);
    if (o->allocator && (!o->allocator->allocate || !o->allocator->release))
        return gcoll_error(GCOLL_ERR_INVALID, "options.allocator: allocate or release is NULL");
    return check_job(o->job ? o->job : "default");
}

/* ---- Transport and interface ---------------------------------------------------------------- */

static const char transport_option[] = "options.transport", transport_variable[] = "GCOLL_TRANSPORT";
static const char interface_option[] = "options.interface", interface_variable[] = "GCOLL_INTERFACE";

/* The variable fills in what the program left open; what it decided stays. */
static const char *fill_in(const char *given, bool is_open, const char *option, const char *variable,
                           const char **from) {
    const char *text = is_open ? getenv(variable) : NULL;
    const bool by_variable = text && text[0] != '\0';
    *from = by_variable ? variable : option;
    return by_variable ? text : given;
}

static bool is_auto(const char *transport) {
    return !transport || strcmp(transport, "auto") == 0;
}

/* The transport of a lane's name; NULL: that of tcp has all that the lane needs. */
static const gcoll_transport *find_transport(const char *name) {
    const gcoll_transport *const *at = gcoll_transports;
    while (*at && strcmp((*at)->name, name) != 0)
        at++;
    return *at;
}

/* What "auto" stands for on this machine: lanes whose devices it seems to have, and tcp behind them; "auto",
 * which is tcp, if there are none. */
static void write_auto(char text[GCOLL_LANES_TEXT_MAX]) {
    gcoll_text to = {text, GCOLL_LANES_TEXT_MAX, 0};
    text[0] = '\0';
    for (const gcoll_lane_row *row = gcoll_lane_rows; row->name; row++)
        if (row->lane && row->lane->is_likely && row->lane->is_likely())
            gcoll_text_add(&to, "%s,", row->name);
    gcoll_text_add(&to, "%s", to.used > 0 ? "tcp" : "auto");
}

gcoll_status gcoll_network_find(gcoll_network *network, const char *given, const char *option) {
    const char *from;
    const char *text = fill_in(given, is_auto(given), option, transport_variable, &from);
    char chosen[GCOLL_LANES_TEXT_MAX];
    network->is_auto = is_auto(text);
    if (network->is_auto)
        write_auto(chosen);
    gcoll_status status = gcoll_lanes_parse(gcoll_lane_rows, from, network->is_auto ? chosen : text,
                                            &network->lanes, &network->lane_count);
    if (status != GCOLL_OK)
        return status;
    network->transport = &gcoll_transport_tcp;
    for (uint32_t i = 0; i < network->lane_count; i++) {
        const gcoll_lane_row *row = network->lanes[i].lane;
        if (!row->lane && network->lane_count > 1) {
            gcoll_network_free(network);
            return gcoll_error(GCOLL_ERR_INVALID, "%s: names %s among others; allowed is %s alone", from,
                               row->name, row->name);
        }
        const gcoll_transport *own = find_transport(row->name);
        if (own && (own->expose || network->transport == &gcoll_transport_tcp))
            network->transport = own; /* it does all that those before it do, or reaches memory besides */
    }
    return GCOLL_OK;
}

/* Completes the options of the devices, if the transport has any. */
static gcoll_status complete_ibverbs(gcoll_context_options *options, gcoll_network *network) {
    const gcoll_lane_row *lane = gcoll_lane_rows;
    if (network->transport != &gcoll_transport_ibverbs)
        return GCOLL_OK;
    while (strcmp(lane->name, network->transport->name) != 0)
        lane++;
    const gcoll_lane_choice *choice = NULL;
    for (uint32_t i = 0; i < network->lane_count; i++)
        if (network->lanes[i].lane == lane)
            choice = &network->lanes[i];
    gcoll_ibverbs_options given;
    gcoll_ibverbs_options_init(&given);
    gcoll_ibverbs_options_init(&network->ibverbs);
    gcoll_status status = gcoll_options_read_named(&given, sizeof given, sizeof given, options->ibverbs,
                                                   "options.ibverbs->struct_size");
    if (status == GCOLL_OK)
        status =
            gcoll_lane_complete(lane->options, choice, "options.ibverbs", &given, true, &network->ibverbs);
    options->ibverbs = &network->ibverbs;
    if (status == GCOLL_OK && network->ibverbs.device_memory != GCOLL_IB_DEVICE_MEMORY_NEVER &&
        network->lane_count > 1)
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "options.ibverbs.device_memory: is not never; allowed only if ibverbs is the only transport");
    return status;
}

/* Within a process there are no interfaces, and the variable is not read. */
static gcoll_status find_interface(gcoll_context_options *options, gcoll_network *network) {
    const bool is_open = !options->interface && network->transport != &gcoll_transport_inproc;
    options->interface =
        fill_in(options->interface, is_open, interface_option, interface_variable, &network->interface_from);
    if (!options->interface || network->transport == &gcoll_transport_inproc)
        return GCOLL_OK;
    return gcoll_interfaces_check(network->interface_from, options->interface);
}

gcoll_status gcoll_network_read(gcoll_context_options *options, gcoll_network *network) {
    memset(network, 0, sizeof *network);
    gcoll_status status = gcoll_network_find(network, options->transport, transport_option);
    if (status == GCOLL_OK)
        status = complete_ibverbs(options, network);
    if (status == GCOLL_OK)
        status = find_interface(options, network);
    if (status != GCOLL_OK) {
        gcoll_network_free(network);
        return status;
    }
    return GCOLL_OK;
}

void gcoll_network_free(gcoll_network *network) {
    free(network->lanes);
    network->lanes = NULL;
    network->lane_count = 0;
}

/* ---- Settings ----------------------------------------------------------------------------- */

static char *copy_text(const char *text) {
    return text ? strdup(text) : NULL;
}

static gcoll_status copy_ibverbs(gcoll_settings *settings, const gcoll_ibverbs_options *given) {
    gcoll_ibverbs_options *own = &settings->ibverbs;
    if (!given)
        return GCOLL_OK;
    gcoll_ibverbs_options_init(own);
    gcoll_status status =
        gcoll_options_read_named(own, sizeof *own, sizeof *own, given, "options.ibverbs->struct_size");
    if (status != GCOLL_OK)
        return status;
    settings->ib_device = copy_text(own->device);
    if (own->device && !settings->ib_device)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "options.ibverbs: no memory for the name of a device");
    own->device = settings->ib_device;
    settings->endpoint.ibverbs = own;
    return GCOLL_OK;
}

gcoll_status gcoll_settings_copy(gcoll_settings *settings, const gcoll_context_options *o) {
    const int64_t timeout_ms = o->timeout_ms ? o->timeout_ms : GCOLL_DEFAULT_TIMEOUT_MS;
    *settings =
        (gcoll_settings){.timeout_ms = timeout_ms,
                         .silence_ms = o->silence_ms < 0    ? 0
                                       : o->silence_ms == 0 ? DEFAULT_SILENCE_MS
                                                            : o->silence_ms,
                         .spin_us = o->spin_us,
                         .store = o->store,
                         .monitor = o->monitor != 0,
                         .share = o->share != 0,
                         .recovery = o->recovery != 0,
                         .same = o->same == GCOLL_SAME_DEFAULT ? GCOLL_SAME_ON_RANKS : (gcoll_same)o->same,
                         .order = o->order == GCOLL_ORDER_DEFAULT ? GCOLL_ORDER_ANY : (gcoll_order)o->order,
                         .log = o->log,
                         .log_arg = o->log_arg,
                         .allocator = o->allocator ? *o->allocator : gcoll_default_allocator,
                         .interface = copy_text(o->interface)};
    snprintf(settings->job, sizeof settings->job, "%s", o->job ? o->job : "default");
    settings->endpoint = (gcoll_endpoint_options){.rank = o->rank,
                                                  .size = o->size,
                                                  .interface = settings->interface,
                                                  .interface_from = interface_option,
                                                  .port_min = o->port_min,
                                                  .port_max = o->port_max,
                                                  .eager_bytes = o->eager_bytes,
                                                  .eager_pool_bytes = o->eager_pool_bytes,
                                                  .connect_timeout_ms = timeout_ms,
                                                  .spin_us = 0,
                                                  .hub = o->hub,
                                                  .checksum = o->checksum != 0};
    if (o->interface && !settings->interface)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "options.interface: no memory for its name");
    return copy_ibverbs(settings, o->ibverbs);
}

gcoll_status gcoll_settings_add_lanes(gcoll_settings *settings, const gcoll_lane_choice *lanes,
                                      uint32_t count, bool may_lack) {
    settings->endpoint.may_lack = may_lack;
    if (count == 0)
        return GCOLL_OK;
    gcoll_lane_choice *own = malloc(count * sizeof *own);
    if (!own)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "%s: no memory for %u transports", transport_option, count);
    memcpy(own, lanes, count * sizeof *own);
    settings->lanes = own;
    settings->endpoint.lanes = own;
    settings->endpoint.lane_count = count;
    return GCOLL_OK;
}

void gcoll_settings_free(gcoll_settings *settings) {
    free(settings->interface);
    free(settings->lanes);
    free(settings->ib_device);
}
