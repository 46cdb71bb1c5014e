/*
 * tools/trace/report.c - the tables: where each rank was at the end, what keeps the job, the first call that
 * differs, who comes late, and what took longer than the cost model says.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/trace.h"

#define LISTED     8 /* of a list that may be long */
#define QUARTERS   4
#define ALIKE      8 /* ranks one after another of which the same is to be said, which then one row says */
#define LATE_LEAST 4 /* operations, before somebody is called late */

static const char *state_word(const trace_operation *o) {
    return o->state == TRACE_DONE ? "done" : o->state == TRACE_FAILED ? "failed" : "in flight";
}

/* ---- The end ------------------------------------------------------------------------------------------ */

static const trace_operation *last_of(const trace_rank *rank) {
    return rank->count > 0 ? &rank->operations[rank->count - 1] : NULL;
}

/* The oldest that is not done: what the rank is in. */
static const trace_operation *current_of(const trace_rank *rank) {
    for (size_t i = 0; i < rank->count; i++)
        if (rank->operations[i].state != TRACE_DONE)
            return &rank->operations[i];
    return last_of(rank);
}

/* What stands behind the rank. */
static void say_end(const trace_rank *rank, char *text, size_t bytes) {
    char call[200], wait[200];
    const trace_operation *o = current_of(rank);
    if (!o) {
        snprintf(text, bytes, "%12s  no operation", "-");
        return;
    }
    trace_say_call(o, call, sizeof call);
    trace_say_wait(rank, wait, sizeof wait);
    snprintf(text, bytes, "%12" PRIu64 "  %-10s %-56s %s", o->number, state_word(o), call, wait);
}

static void list_end(const trace_job *job, FILE *file) {
    char text[512], next[512];
    fprintf(file, "Where each rank was\n\n%6s %12s  %-10s %-56s %s\n", "rank", "operation", "", "", "");
    for (uint32_t i = 0, end; i < job->count; i = end) {
        say_end(&job->ranks[i], text, sizeof text);
        for (end = i + 1; end < job->count; end++) {
            say_end(&job->ranks[end], next, sizeof next);
            if (strcmp(text, next) != 0 || job->ranks[end].rank != job->ranks[end - 1].rank + 1)
                break;
        }
        if (end - i < ALIKE)
            end = i + 1;
        fprintf(file, "%6" PRIu32 " %s\n", job->ranks[i].rank, text);
        if (end > i + 1)
            fprintf(file, "%6s %12s  so are the ranks up to %" PRIu32 "\n", "...", "",
                    job->ranks[end - 1].rank);
    }
    if (job->count == job->size)
        return;
    uint32_t listed = 0;
    fprintf(file, "\n  No dump of rank");
    for (uint32_t rank = 0; rank < job->size && listed < LISTED; rank++)
        if (!trace_rank_of(job, rank))
            fprintf(file, "%s %" PRIu32, listed++ > 0 ? "," : "", rank);
    if (job->size - job->count > listed)
        fprintf(file, " and %" PRIu32 " more", job->size - job->count - listed);
    fprintf(file, ": it was stopped or killed, or its file is elsewhere or was left out\n");
}

/* The ranks that others wait for and that do not wait themselves: there the chain ends. */
static void list_keepers(const trace_job *job, FILE *file) {
    uint32_t *waiters = calloc(job->size, sizeof *waiters);
    bool is_headed = false;
    for (uint32_t i = 0; waiters && i < job->count; i++)
        for (int k = 0; job->ranks[i].waits && k < TRACE_PEERS; k++)
            if (job->ranks[i].waits_peer[k] < job->size)
                waiters[job->ranks[i].waits_peer[k]]++;
    for (uint32_t rank = 0; waiters && rank < job->size; rank++) {
        const trace_rank *there = trace_rank_of(job, rank);
        if (waiters[rank] == 0 || (there && there->waits))
            continue;
        if (!is_headed)
            fputs("\nWho keeps the others\n\n", file);
        is_headed = true;
        const trace_operation *last = there ? last_of(there) : NULL;
        fprintf(file, "  rank %" PRIu32 ": %" PRIu32 " rank%s wait%s for it, and it ", rank, waiters[rank],
                waiters[rank] == 1 ? "" : "s", waiters[rank] == 1 ? "s" : "");
        if (!there)
            fputs("left no dump\n", file);
        else if (!last)
            fputs("has called nothing\n", file);
        else
            fprintf(file, "waits for nobody: its last operation is %" PRIu64 ", %s\n", last->number,
                    state_word(last));
    }
    free(waiters);
}

static void list_causes(const trace_job *job, FILE *file) {
    bool is_headed = false;
    for (uint32_t i = 0; i < job->count; i++) {
        const trace_rank *rank = &job->ranks[i];
        uint32_t same = 0;
        bool is_first = rank->is_broken;
        for (uint32_t k = 0; k < job->count; k++) {
            const bool is_same =
                rank->is_broken && job->ranks[k].is_broken && job->ranks[k].culprit == rank->culprit;
            same += is_same;
            is_first = is_first && !(is_same && k < i);
        }
        if (!is_first)
            continue;
        if (!is_headed)
            fputs("\nWhy it broke\n\n", file);
        is_headed = true;
        fprintf(file, "  rank %" PRIu32, rank->rank);
        if (same > 1)
            fprintf(file, " and %" PRIu32 " more", same - 1);
        if (rank->culprit != TRACE_NONE)
            fprintf(file, ", which blame%s rank %" PRIu32, same > 1 ? "" : "s", rank->culprit);
        fprintf(file, ": %s\n", rank->cause);
    }
}

/* ---- Calls that differ --------------------------------------------------------------------------------- */

int trace_compare_calls(const trace_operation *a, const trace_operation *b) {
    int order = strcmp(a->collective, b->collective);
    if (order == 0)
        order = strcmp(a->type, b->type);
    if (order == 0)
        order = strcmp(a->op, b->op);
    if (order == 0)
        order = strcmp(a->algorithm, b->algorithm);
    if (order == 0)
        order = (a->root > b->root) - (a->root < b->root);
    if (order == 0)
        order = a->has_own_counts - b->has_own_counts;
    if (order != 0 || a->has_own_counts)
        return order;
    return (a->count > b->count) - (a->count < b->count);
}

static bool is_same_call(const trace_operation *a, const trace_operation *b) {
    return trace_compare_calls(a, b) == 0;
}

/* Whether ranks differ at `number`; *one and *other are of two that do. */
static bool differs_at(const trace_job *job, uint64_t number, uint32_t *one, uint32_t *other) {
    const trace_operation *first = NULL;
    for (uint32_t i = 0; i < job->count; i++) {
        const trace_operation *o = trace_find(&job->ranks[i], number);
        if (o && !first) {
            first = o;
            *one = i;
        } else if (o && !is_same_call(first, o)) {
            *other = i;
            return true;
        }
    }
    return false;
}

static int by_number(const void *a, const void *b) {
    const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

/* The numbers of operations that any rank has, increasing, each once. NULL: out of memory. */
static uint64_t *all_numbers(const trace_job *job, size_t *count) {
    size_t all = 0, kept = 0;
    for (uint32_t i = 0; i < job->count; i++)
        all += job->ranks[i].count;
    uint64_t *numbers = calloc(all + 1, sizeof *numbers);
    *count = 0;
    if (!numbers)
        return NULL;
    for (uint32_t i = 0; i < job->count; i++)
        for (size_t k = 0; k < job->ranks[i].count; k++)
            numbers[(*count)++] = job->ranks[i].operations[k].number;
    qsort(numbers, all, sizeof *numbers, by_number);
    for (size_t i = 0; i < all; i++)
        if (i == 0 || numbers[i] != numbers[kept - 1])
            numbers[kept++] = numbers[i];
    *count = kept;
    return numbers;
}

/* Ranks that made the same call as rank `like`. */
static void list_side(const trace_job *job, uint64_t number, uint32_t like, FILE *file) {
    char call[200];
    const trace_operation *its = trace_find(&job->ranks[like], number);
    uint32_t listed = 0, more = 0;
    trace_say_call(its, call, sizeof call);
    fprintf(file, "  %s: rank", call);
    for (uint32_t i = 0; i < job->count; i++) {
        const trace_operation *o = trace_find(&job->ranks[i], number);
        if (!o || !is_same_call(o, its))
            continue;
        if (listed < LISTED)
            fprintf(file, "%s %" PRIu32, listed++ > 0 ? "," : "", job->ranks[i].rank);
        else
            more++;
    }
    if (more > 0)
        fprintf(file, " and %" PRIu32 " more", more);
    fputc('\n', file);
}

static void list_difference(const trace_job *job, FILE *file) {
    size_t count;
    uint32_t one = 0, other = 0;
    uint64_t *numbers = all_numbers(job, &count);
    for (size_t i = 0; i < count; i++) {
        if (!differs_at(job, numbers[i], &one, &other))
            continue;
        fprintf(file, "\nThe first call that differs between ranks: operation %" PRIu64 "\n\n", numbers[i]);
        list_side(job, numbers[i], one, file);
        list_side(job, numbers[i], other, file);
        break;
    }
    free(numbers);
}

/* ---- Who is late ------------------------------------------------------------------------------------------
 */

typedef struct lateness {
    uint32_t rank;
    uint64_t operations, last; /* that all ranks have, and in which it came last */
    double behind;             /* ns after the median of all, summed over those */
    double quarter[QUARTERS];  /* the same, of each quarter of them */
    uint64_t of_quarter[QUARTERS];
} lateness;

static int by_time(const void *a, const void *b) {
    const int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return one < other ? -1 : one > other;
}

static int by_behind(const void *a, const void *b) {
    const lateness *one = a, *other = b;
    return one->behind > other->behind ? -1 : one->behind < other->behind;
}

/* Adds an operation that all ranks have. */
static void add_arrivals(const trace_job *job, uint64_t number, size_t quarter, int64_t *times,
                         int64_t *sorted, lateness *late) {
    uint32_t last = 0;
    for (uint32_t i = 0; i < job->count; i++) {
        const trace_operation *o = trace_find(&job->ranks[i], number);
        if (!o)
            return;
        times[i] = sorted[i] = o->entered;
        last = times[i] > times[last] ? i : last;
    }
    qsort(sorted, job->count, sizeof *sorted, by_time);
    const int64_t median =
        sorted[(job->count - 1) / 2]; /* of two, the earlier, so that the later is behind */
    for (uint32_t i = 0; i < job->count; i++) {
        late[i].operations++;
        late[i].last += i == last;
        const double behind = times[i] > median ? (double)(times[i] - median) : 0;
        late[i].behind += behind;
        late[i].quarter[quarter] += behind;
        late[i].of_quarter[quarter]++;
    }
}

static void list_late(const trace_job *job, FILE *file) {
    lateness *late = calloc(job->count, sizeof *late);
    int64_t *times = calloc(job->count, 2 * sizeof *times);
    if (late && times && job->count > 1) {
        for (uint32_t i = 0; i < job->count; i++)
            late[i].rank = job->ranks[i].rank;
        for (size_t k = 0; k < job->ranks[0].count; k++)
            add_arrivals(job, job->ranks[0].operations[k].number, k * QUARTERS / job->ranks[0].count, times,
                         times + job->count, late);
        qsort(late, job->count, sizeof *late, by_behind);
    }
    if (late && times && job->count > 1 && late[0].operations >= LATE_LEAST) {
        fprintf(file,
                "\nWho comes late, over the %" PRIu64
                " operations that all ranks have\n\n%6s %12s %18s  %s\n",
                late[0].operations, "rank", "came last", "behind the median", "in each quarter of them");
        for (uint32_t i = 0; i < job->count && i < LISTED && late[i].behind > 0; i++) {
            char mean[32];
            trace_say_time((int64_t)(late[i].behind / (double)late[i].operations), mean);
            fprintf(file, "%6" PRIu32 " %11.0f%% %18s ", late[i].rank,
                    100.0 * (double)late[i].last / (double)late[i].operations, mean);
            for (int q = 0; q < QUARTERS; q++) {
                if (late[i].of_quarter[q] > 0)
                    trace_say_time((int64_t)(late[i].quarter[q] / (double)late[i].of_quarter[q]), mean);
                fprintf(file, " %9s", late[i].of_quarter[q] > 0 ? mean : "-");
            }
            fputc('\n', file);
        }
    }
    free(late);
    free(times);
}

/* ---- Measured and predicted --------------------------------------------------------------------------- */

/* Calls of one kind, on all ranks. */
typedef struct kind {
    const trace_operation *call;
    uint64_t calls;
    size_t room;
    int64_t *took; /* of each call, of the rank that took longest: from the last entry on */
} kind;

static void kinds_free(kind *kinds, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(kinds[i].took);
    free(kinds);
}

static kind *find_kind(kind **kinds, size_t *count, const trace_operation *call) {
    for (size_t i = 0; i < *count; i++)
        if (is_same_call((*kinds)[i].call, call))
            return &(*kinds)[i];
    kind *more = realloc(*kinds, (*count + 1) * sizeof *more);
    if (!more)
        return NULL;
    *kinds = more;
    more[*count] = (kind){.call = call};
    return &more[(*count)++];
}

static bool add_time(kind *k, int64_t took) {
    int64_t *more = trace_make_room(k->took, k->calls, &k->room, sizeof *more);
    if (!more)
        return false;
    k->took = more;
    k->took[k->calls++] = took;
    return true;
}

/* The time of an operation from its last entry to its last end; -1 if it is not done on all ranks. */
static int64_t time_of(const trace_job *job, uint64_t number) {
    int64_t entered = INT64_MIN, ended = INT64_MIN;
    for (uint32_t i = 0; i < job->count; i++) {
        const trace_operation *o = trace_find(&job->ranks[i], number);
        if (!o || o->state != TRACE_DONE)
            return -1;
        entered = o->entered > entered ? o->entered : entered;
        ended = o->ended > ended ? o->ended : ended;
    }
    return ended > entered ? ended - entered : 0;
}

static void list_kinds(const trace_job *job, FILE *file) {
    kind *kinds = NULL;
    size_t count = 0;
    for (size_t i = 0; i < job->ranks[0].count; i++) {
        const trace_operation *o = &job->ranks[0].operations[i];
        const int64_t took = time_of(job, o->number);
        kind *k = took >= 0 ? find_kind(&kinds, &count, o) : NULL;
        if (k && !add_time(k, took))
            break;
    }
    if (count > 0)
        fprintf(file, "\nTimes, from the last entry on\n\n%8s %12s %12s %12s  %s\n", "calls", "median",
                "longest", "predicted", "call");
    for (size_t i = 0; i < count && i < 2 * LISTED; i++) {
        char call[200], median[32], longest[32], predicted[32] = "-";
        if (kinds[i].calls == 0) /* out of memory */
            break;
        qsort(kinds[i].took, kinds[i].calls, sizeof *kinds[i].took, by_time);
        trace_say_call(kinds[i].call, call, sizeof call);
        trace_say_time(kinds[i].took[kinds[i].calls / 2], median);
        trace_say_time(kinds[i].took[kinds[i].calls - 1], longest);
        if (kinds[i].call->predicted >= 0)
            trace_say_time(kinds[i].call->predicted, predicted);
        fprintf(file, "%8" PRIu64 " %12s %12s %12s  %s\n", kinds[i].calls, median, longest, predicted, call);
    }
    kinds_free(kinds, count);
}

void trace_report(const trace_job *job, FILE *file) {
    trace_messages messages;
    fprintf(file, "Job %s, group %.*s: %" PRIu32 " of %" PRIu32 " ranks\n\n", job->job,
            trace_group_digits(job->group), job->group, job->count, job->size);
    list_end(job, file);
    list_keepers(job, file);
    list_causes(job, file);
    list_difference(job, file);
    if (!trace_match(job, &messages))
        messages.count = 0;                   /* out of memory: the other tables stand */
    trace_report_links(job, &messages, file); /* first: behind a slow link ranks come late, too */
    list_late(job, file);
    list_kinds(job, file);
    trace_report_steps(job, &messages, file);
    trace_messages_free(&messages);
}
