/* gcoll/monitor/statistics.c - the monitor's statistics, as structs and as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "gcoll/monitor/monitor_internal.h"

#define VARIABLE "GCOLL_ARRIVAL_STATS"
/* Size of the text: two lines of head, two for each site, and one for each of its SHOWN_RANKS latest
 * ranks. */
#define LINE_BYTES  160
#define SHOWN_RANKS 8

static double us(double ns) {
    return ns / 1e3;
}

static gcoll_site_stats stats_of(const gcoll_site *site) {
    gcoll_site_stats stats = {.struct_size = sizeof stats,
                              .number = site->number,
                              .collective = (gcoll_collective)site->key.collective,
                              .type = (gcoll_type)site->key.type,
                              .op = (gcoll_op)site->key.op,
                              .root = site->key.root,
                              .count = site->key.count,
                              .calls = site->calls,
                              .heeded = site->heeded,
                              .announcements = site->announcements,
                              .changes = site->changes,
                              .waited_us = us((double)site->waited_ns),
                              .imbalance_us = us((double)site->now.imbalance_ns),
                              .threshold_us = us((double)site->threshold_ns),
                              .gain = site->is_predicted ? site->gain : 0};
    if (site->calls > 0)
        stats.elapsed_us = us((double)site->elapsed_sum_ns) / (double)site->calls;
    snprintf(stats.algorithm, sizeof stats.algorithm, "%s", site->algorithm);
    return stats;
}

static gcoll_rank_stats rank_stats_of(const gcoll_site *site, uint32_t rank) {
    gcoll_rank_stats stats = {.expected_us = us((double)site->now.arrival_ns[rank])};
    if (!site->views || site->views[rank].compared == 0)
        return stats;
    const gcoll_arrival_view *view = &site->views[rank];
    stats.calls = view->compared;
    stats.late = view->late;
    stats.last = view->last;
    stats.mean_late_us = us(view->late_sum_ns) / (double)view->compared;
    stats.max_late_us = us((double)view->late_most_ns);
    return stats;
}

static gcoll_status no_site(const gcoll_arrival *arrival, uint32_t index) {
    return gcoll_error(GCOLL_ERR_NOT_FOUND, "index: is %u; there are %u sites", index, arrival->site_count);
}

gcoll_status gcoll_arrival_stats(gcoll_context *context, uint32_t index, gcoll_site_stats *stats,
                                 gcoll_rank_stats *ranks) {
    if (!context || !stats)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "stats" : "context");
    if (stats->struct_size == 0 || stats->struct_size > sizeof *stats)
        return gcoll_error(GCOLL_ERR_INVALID, "stats->struct_size: is %zu; allowed are 1 to %zu",
                           stats->struct_size, sizeof *stats);
    if (!context->arrival)
        return gcoll_error(GCOLL_ERR_STATE, "context: was created without options.monitor");
    gcoll_status status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    const gcoll_arrival *arrival = context->arrival;
    const bool is_there = index < arrival->site_count;
    if (is_there) {
        const size_t known = stats->struct_size;
        gcoll_site_stats all = stats_of(&arrival->sites[index]);
        all.struct_size = known;
        memcpy(stats, &all, known);
    }
    for (uint32_t rank = 0; is_there && ranks && rank < context->size; rank++)
        ranks[rank] = rank_stats_of(&arrival->sites[index], rank);
    gcoll_leave(context);
    return is_there ? GCOLL_OK : no_site(arrival, index);
}

/* ---- As text -------------------------------------------------------------------------------- */

/* The next rank in the order of mean lateness, largest first, after (mean, after). Returns size if there
 * is none. */
static uint32_t next_latest(const gcoll_site *site, uint32_t size, double mean, uint32_t after) {
    uint32_t found = size;
    double most = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        const gcoll_rank_stats stats = rank_stats_of(site, rank);
        const bool behind = stats.mean_late_us < mean || (stats.mean_late_us == mean && rank > after);
        if (stats.late > 0 && behind && (found == size || stats.mean_late_us > most)) {
            found = rank;
            most = stats.mean_late_us;
        }
    }
    return found;
}

/* Says why the latest announcement did or did not use an arrival-aware plan. */
static void add_reason(gcoll_text *to, const gcoll_site *site, uint32_t size) {
    if (size < GCOLL_ARRIVAL_LEAST_RANKS || size > GCOLL_ARRIVAL_MOST_RANKS)
        gcoll_text_add(to, "    not heeded: that is done with %u to %u ranks\n", GCOLL_ARRIVAL_LEAST_RANKS,
                       GCOLL_ARRIVAL_MOST_RANKS);
    else if (!gcoll_arrival_has_plans((gcoll_collective)site->key.collective) || site->key.blocks_hash != 0)
        gcoll_text_add(to, "    not heeded: no algorithm of these calls does\n");
    else if (!site->is_predicted)
        gcoll_text_add(to, "    an imbalance of less than %.1f us is not heeded\n",
                       us((double)site->threshold_ns));
    else if (site->gain <= 0)
        gcoll_text_add(to, "    not heeded: no plan by arrival takes less time than the ordinary one\n");
    else
        gcoll_text_add(
            to,
            "    the best plan by arrival spares %.1f %% of the ordinary one's time (heeded from %.0f %% "
            "on)\n",
            100 * site->gain, 100 * GCOLL_ARRIVAL_GAIN);
}

static void add_ranks(gcoll_text *to, const gcoll_site *site, uint32_t size) {
    uint32_t rank = next_latest(site, size, 1e300, 0);
    if (rank < size)
        add_reason(to, site, size);
    if (rank == size && site->views && site->views[0].compared > 0)
        gcoll_text_add(to, "    no rank was late in the %llu calls that were compared\n",
                       (unsigned long long)site->views[0].compared);
    for (uint32_t shown = 0; rank < size && shown < SHOWN_RANKS; shown++) {
        const gcoll_rank_stats stats = rank_stats_of(site, rank);
        gcoll_text_add(to,
                       "    rank %-5u late in %llu of %llu, the last in %llu; mean %.1f us, most %.1f us\n",
                       rank, (unsigned long long)stats.late, (unsigned long long)stats.calls,
                       (unsigned long long)stats.last, stats.mean_late_us, stats.max_late_us);
        rank = next_latest(site, size, stats.mean_late_us, rank);
    }
}

static void add_site(gcoll_text *to, const gcoll_site *site, uint32_t size) {
    const gcoll_site_stats stats = stats_of(site);
    gcoll_text_add(to, "%s of %llu %s", gcoll_collective_name(stats.collective),
                   (unsigned long long)stats.count, gcoll_type_name(stats.type));
    if (stats.number > 0)
        gcoll_text_add(to, ", site %u", stats.number);
    gcoll_text_add(to, ": %llu calls, %llu by arrival; mean %.1f us; imbalance %.1f us; %s\n",
                   (unsigned long long)stats.calls, (unsigned long long)stats.heeded, stats.elapsed_us,
                   stats.imbalance_us, stats.algorithm);
    add_ranks(to, site, size);
}

static gcoll_status check_text(const gcoll_context *context, const char *text, size_t bytes) {
    if (!context || !text || bytes == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s",
                           context ? "text: is NULL or of 0 bytes" : "context: is NULL");
    return context->arrival ? GCOLL_OK
                            : gcoll_error(GCOLL_ERR_STATE, "context: was created without options.monitor");
}

gcoll_status gcoll_arrival_site_text(gcoll_context *context, uint32_t index, char *text, size_t bytes) {
    gcoll_status status = check_text(context, text, bytes);
    if (status == GCOLL_OK)
        status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    gcoll_text to = {text, bytes, 0};
    text[0] = '\0';
    const gcoll_arrival *arrival = context->arrival;
    if (index < arrival->site_count)
        add_site(&to, &arrival->sites[index], context->size);
    else
        status = no_site(arrival, index);
    gcoll_leave(context);
    return status;
}

static void write_stats(const gcoll_context *context, char *text, size_t bytes) {
    gcoll_text to = {text, bytes, 0};
    text[0] = '\0';
    gcoll_text_add(
        &to,
        "arrivals seen by rank %u of %u in job '%s'; of a site: the mean time of a call on this rank, the "
        "imbalance that was expected last\n",
        context->rank, context->size, context->settings.job);
    for (uint32_t i = 0; i < context->arrival->site_count; i++)
        add_site(&to, &context->arrival->sites[i], context->size);
}

gcoll_status gcoll_arrival_stats_text(gcoll_context *context, char *text, size_t bytes) {
    gcoll_status status = check_text(context, text, bytes);
    if (status == GCOLL_OK)
        status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    write_stats(context, text, bytes);
    gcoll_leave(context);
    return GCOLL_OK;
}

void gcoll_arrival_print(gcoll_context *context) {
    const char *wanted = getenv(VARIABLE);
    if (!context->arrival || context->rank != 0 || !wanted || strcmp(wanted, "1") != 0)
        return;
    const size_t bytes = (size_t)LINE_BYTES * (2 + context->arrival->site_count * (2 + SHOWN_RANKS));
    char *text = malloc(bytes);
    if (text) {
        write_stats(context, text, bytes);
        fputs(text, stderr);
    }
    free(text);
}
