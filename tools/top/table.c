/* tools/top/table.c - a view as lines: a table for each group of ranks, and below it who keeps the others. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/base.h"
#include "tools/top/top.h"

#define LONG_NS INT64_C(100000000) /* a wait that is told of: shorter ones come and go in any job */
#define UNEQUAL 0.2                /* a rank that is so much less in collectives than the median is told of */

typedef struct printer {
    top_line_fn print;
    void *arg;
} printer;

static void say(const printer *to, int emphasis, const char *format, ...) GCOLL_PRINTF(3, 4);
static void say(const printer *to, int emphasis, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    to->print(to->arg, emphasis, line);
}

static void say_state(top_state state, int64_t since, int64_t now, char *text, size_t bytes) {
    char time[32];
    trace_say_time(now - since, time);
    snprintf(text, bytes, "%s for at least %s", state == TOP_STOPPED ? "stopped" : "does not answer", time);
}

/* What the rank does now. */
static void say_now(const top_view *view, const top_context *c, char *text, size_t bytes) {
    char call[200] = "no operation", wait[200], state[96];
    if (c->operation.number != 0)
        trace_say_call(&c->operation, call, sizeof call);
    trace_say_wait(&c->who, wait, sizeof wait);
    if (c->state != TOP_ANSWERS) {
        say_state(c->state, c->silent_since, view->at, state, sizeof state);
        snprintf(text, bytes, "%s; its last was #%" PRIu64 ", %s", state, c->operation.number, call);
    } else if (c->is_broken && c->culprit != TRACE_NONE) {
        snprintf(text, bytes, "broken, blames rank %" PRIu32, c->culprit);
    } else if (c->is_broken) {
        snprintf(text, bytes, "broken");
    } else if (c->operation.number == 0) {
        snprintf(text, bytes, "%s", call);
    } else {
        char since[32], done[48] = "";
        trace_say_time(c->now - c->operation.ended, since);
        if (c->operation.state != TRACE_RUNS)
            snprintf(done, sizeof done, ", done %s ago", since);
        snprintf(text, bytes, "%s #%" PRIu64 "%s%s%s", call, c->operation.number, done, wait[0] ? "; " : "",
                 wait);
    }
}

static void print_context(const printer *to, const top_view *view, const top_context *c) {
    char now[600], rates[64] = "         -          -    -";
    say_now(view, c, now, sizeof now);
    if (c->has_rates)
        snprintf(rates, sizeof rates, "%10.1f %10.2f %3.0f%%", c->operations_per_s, c->sent_per_s * 1e-6,
                 100 * c->busy);
    say(to, c->state != TOP_ANSWERS || c->is_broken ? 2 : 0, "%6" PRIu32 " %9ld %s  %s", c->who.rank,
        c->process, rates, now);
}

/* ---- Who keeps the others ------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b) {
    const double one = *(const double *)a, other = *(const double *)b;
    return one < other ? -1 : one > other;
}

/* A rank that waits little while the others wait much is the one that they wait for. */
static void print_imbalance(const printer *to, const top_context *all, size_t count) {
    double *busy = calloc(count + 1, sizeof *busy);
    size_t known = 0, least = 0;
    for (size_t i = 0; busy && i < count; i++) {
        if (!all[i].has_rates)
            continue;
        if (known == 0 || all[i].busy < all[least].busy)
            least = i;
        busy[known++] = all[i].busy;
    }
    if (known > 1) {
        qsort(busy, known, sizeof *busy, by_value);
        const double median = busy[known / 2];
        if (median - busy[0] >= UNEQUAL)
            say(to, 2,
                "  rank %" PRIu32
                " is %.0f %% of its time in collectives, the median rank %.0f %%: the others wait "
                "for it",
                all[least].who.rank, 100 * busy[0], 100 * median);
    }
    free(busy);
}

static bool waits_long(const top_context *c) {
    return c->state == TOP_ANSWERS && c->who.waits && c->now - c->who.waits_since >= LONG_NS;
}

static const top_context *find(const top_context *all, size_t count, uint32_t rank) {
    for (size_t i = 0; i < count; i++)
        if (all[i].who.rank == rank)
            return &all[i];
    return NULL;
}

/* The ranks that others wait for and that do not wait themselves. */
static void print_keepers(const printer *to, const top_view *view, const top_context *all, size_t count) {
    uint32_t *waiters = calloc(all->who.size + (size_t)1, sizeof *waiters);
    for (size_t i = 0; waiters && i < count; i++)
        for (int k = 0; waits_long(&all[i]) && k < TRACE_PEERS; k++)
            if (all[i].who.waits_peer[k] < all->who.size)
                waiters[all[i].who.waits_peer[k]]++;
    for (uint32_t rank = 0; waiters && rank < all->who.size; rank++) {
        const top_context *there = waiters[rank] > 0 ? find(all, count, rank) : NULL;
        char state[96] = "is in no call that waits";
        if (waiters[rank] == 0 || (there && waits_long(there)))
            continue;
        if (!there)
            snprintf(state, sizeof state, "is not seen here");
        else if (there->state != TOP_ANSWERS)
            say_state(there->state, there->silent_since, view->at, state, sizeof state);
        say(to, 2, "  %" PRIu32 " rank%s wait%s for rank %" PRIu32 ", which %s%s", waiters[rank],
            waiters[rank] == 1 ? "" : "s", waiters[rank] == 1 ? "s" : "", rank,
            there && there->state == TOP_STOPPED ? "is " : "", state);
    }
    free(waiters);
}

static size_t group_end(const top_view *view, size_t first) {
    size_t end = first + 1;
    while (end < view->count && strcmp(view->contexts[end].who.job, view->contexts[first].who.job) == 0 &&
           strcmp(view->contexts[end].who.group, view->contexts[first].who.group) == 0 &&
           view->contexts[end].who.size == view->contexts[first].who.size)
        end++;
    return end;
}

/* "host0", or that there are several, which processes of one machine may take for theirs. */
static void say_hosts(const top_context *all, size_t count, char *text, size_t bytes) {
    bool is_one = true;
    for (size_t i = 1; i < count; i++)
        is_one = is_one && strcmp(all[i].who.host, all->who.host) == 0;
    snprintf(text, bytes, "%s", is_one ? all->who.host : "several hosts");
}

void top_print(const top_view *view, const char *folder, top_line_fn print, void *arg) {
    const printer to = {print, arg};
    if (view->count == 0 && view->stranger_count == 0)
        say(&to, 0, "No process is seen in %s: start them with GCOLL_WATCH=1", folder);
    for (size_t first = 0, end; first < view->count; first = end) {
        const top_context *head = &view->contexts[first];
        char hosts[256];
        end = group_end(view, first);
        say_hosts(head, end - first, hosts, sizeof hosts);
        say(&to, 1, "Job %s, group %.*s: %zu of %" PRIu32 " ranks on %s, %s", head->who.job,
            trace_group_digits(head->who.group), head->who.group, end - first, head->who.size, hosts,
            head->who.transport);
        say(&to, 0, "%6s %9s %10s %10s %4s  %s", "rank", "process", "op/s", "MB/s sent", "busy", "now");
        for (size_t i = first; i < end; i++)
            print_context(&to, view, &view->contexts[i]);
        print_keepers(&to, view, head, end - first);
        print_imbalance(&to, head, end - first);
        if (end < view->count)
            say(&to, 0, "%s", "");
    }
    for (size_t i = 0; i < view->stranger_count; i++) {
        const top_stranger *one = &view->strangers[i];
        char state[96];
        say_state(one->state, one->silent_since, view->at, state, sizeof state);
        say(&to, 2, "process %ld, rank %" PRIu32 " of %" PRIu32 " in its first context: %s%s", one->process,
            one->rank, one->size, one->state == TOP_STOPPED ? "is " : "", state);
    }
}
