/*
 * tools/trace/clock.c - moves the times of all ranks to the clock of the first one.
 *
 * Ranks of one host share a clock. Between hosts, what happened bounds how far two clocks differ: no message
 * has come before it was sent, and no rank leaves an operation in which all depend on all before each other
 * rank has entered it. Bounds add up along a chain of hosts. Where they are narrow, the middle between them
 * is taken, which is closer than hosts keep their clocks; else the hosts' own clocks are believed as long as
 * they keep to the bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/trace/trace.h"

#define FAR (INT64_MAX / 4)
#define SHIFT_MOST                                                                                           \
    INT64_C(1900000000000000000) /* sixty years: a clock that starts in 1970 is mended, too                  \
                                  */

/* Times of `later` are at least those of `earlier` less `ns`, once both have one clock: so what is added to
 * the clock of `earlier` is at most what is added to that of `later`, and `ns`. */
typedef struct bound {
    uint32_t earlier, later; /* hosts */
    int64_t ns;
} bound;

typedef struct bounds {
    bound *list;
    size_t count, room;
    uint32_t *host; /* of each rank of the job that is there, by place */
    uint32_t hosts;
} bounds;

/* Numbers the hosts. False: out of memory. */
static bool number_hosts(const trace_job *job, bounds *b) {
    b->host = calloc(job->count + (size_t)1, sizeof *b->host);
    for (uint32_t i = 0; b->host && i < job->count; i++) {
        uint32_t same = 0;
        while (same < i && strcmp(job->ranks[same].host, job->ranks[i].host) != 0)
            same++;
        b->host[i] = same < i ? b->host[same] : b->hosts++;
    }
    return b->host;
}

/* One bound of each pair of hosts: the narrowest. False: out of memory. */
static bool add(bounds *b, uint32_t earlier, uint32_t later, int64_t ns) {
    if (earlier == later)
        return true;
    for (size_t i = b->count; i-- > 0 && b->count - i <= 64;) /* those that come one after another */
        if (b->list[i].earlier == earlier && b->list[i].later == later) {
            b->list[i].ns = ns < b->list[i].ns ? ns : b->list[i].ns;
            return true;
        }
    bound *more = trace_make_room(b->list, b->count, &b->room, sizeof *more);
    if (!more)
        return false;
    b->list = more;
    b->list[b->count++] = (bound){earlier, later, ns};
    return true;
}

/* allgather and alltoall do, too, unless their blocks are unequal, which a dump does not tell. */
static bool depends_on_all(const trace_operation *o) {
    return strcmp(o->collective, "barrier") == 0 || (strcmp(o->collective, "allreduce") == 0 && o->count > 0);
}

/* What the first rank and another have seen of operations. */
static bool bound_operations(const trace_job *job, uint32_t other, bounds *b) {
    bool good = true;
    for (size_t i = 0; i < job->ranks[0].count && good; i++) {
        const trace_operation *mine = &job->ranks[0].operations[i];
        const trace_operation *its = trace_find(&job->ranks[other], mine->number);
        if (!its || !depends_on_all(mine) || strcmp(mine->collective, its->collective) != 0)
            continue;
        if (its->state == TRACE_DONE)
            good = add(b, b->host[0], b->host[other], its->ended - mine->entered);
        if (mine->state == TRACE_DONE && good)
            good = add(b, b->host[other], b->host[0], mine->ended - its->entered);
    }
    return good;
}

static bool bound_messages(const trace_job *job, bounds *b) {
    trace_messages all;
    uint32_t *place = calloc(job->size + (size_t)1, sizeof *place);
    bool good = place && trace_match(job, &all);
    if (!good) {
        free(place);
        return false;
    }
    for (uint32_t i = 0; i < job->count; i++)
        place[job->ranks[i].rank] = i;
    for (size_t i = 0; i < all.count && good; i++)
        good = add(b, b->host[place[all.list[i].from]], b->host[place[all.list[i].to]],
                   all.list[i].done - all.list[i].sent);
    trace_messages_free(&all);
    free(place);
    return good;
}

/* The most that can be added to the clock of each host (towards: the least, with its sign turned), by the
 * shortest chains of bounds from host 0 (Bellman and Ford's). False: they contradict each other. */
static bool follow(const bounds *b, bool towards, int64_t *most) {
    for (uint32_t i = 0; i < b->hosts; i++)
        most[i] = i == 0 ? 0 : FAR;
    for (uint32_t round = 0; round <= b->hosts; round++) {
        bool changed = false;
        for (size_t i = 0; i < b->count; i++) {
            const uint32_t from = towards ? b->list[i].earlier : b->list[i].later,
                           to = towards ? b->list[i].later : b->list[i].earlier;
            int64_t sum; /* files are not trusted: the sum may overflow */
            if (most[from] < FAR && !__builtin_add_overflow(most[from], b->list[i].ns, &sum) &&
                sum < most[to] && sum > -FAR) {
                most[to] = sum;
                changed = true;
            }
        }
        if (!changed)
            return true;
    }
    return false;
}

static int64_t choose(int64_t least, int64_t most) {
    const bool has_both = least > -FAR && most < FAR;
    const int64_t middle = has_both ? least / 2 + most / 2 : least > -FAR ? least : most;
    const bool is_wanted = least > 0 || most < 0;
    return is_wanted && middle < SHIFT_MOST && middle > -SHIFT_MOST ? middle : 0;
}

static void shift(trace_rank *rank, int64_t by) {
    rank->dumped += by;
    rank->waits_since += by;
    for (size_t i = 0; i < rank->count; i++) {
        rank->operations[i].entered += by;
        rank->operations[i].begun += by;
        rank->operations[i].ended += by;
    }
    for (size_t i = 0; i < rank->step_count; i++) {
        rank->steps[i].begun += by;
        rank->steps[i].done += rank->steps[i].done != TRACE_NEVER ? by : 0;
    }
}

/* Of hosts whose bounds contradict each other, the files are of different runs, or a clock was set meanwhile:
 * their clocks are left alone. */
static void align_hosts(trace_job *job) {
    bounds b = {.list = NULL};
    bool good = number_hosts(job, &b);
    for (uint32_t i = 1; i < job->count && good && b.hosts > 1; i++)
        good = b.host[i] == b.host[0] || bound_operations(job, i, &b);
    if (good && b.hosts > 1)
        good = bound_messages(job, &b);
    int64_t *most = calloc(b.hosts + (size_t)1, sizeof *most),
            *least = calloc(b.hosts + (size_t)1, sizeof *least);
    if (good && most && least && b.hosts > 1 && follow(&b, false, most) && follow(&b, true, least))
        for (uint32_t i = 0; i < job->count; i++) {
            trace_rank *rank = &job->ranks[i];
            rank->shift = b.host[i] == b.host[0] ? 0 : choose(-least[b.host[i]], most[b.host[i]]);
            shift(rank, rank->shift);
        }
    free(most);
    free(least);
    free(b.list);
    free(b.host);
}

void trace_align(trace_job *job) {
    const int64_t start = job->ranks[0].began_unix;
    int64_t earliest = INT64_MAX;
    for (uint32_t i = 0; i < job->count; i++)
        shift(&job->ranks[i], job->ranks[i].began_unix - start);
    align_hosts(job);
    /* Times begin with the first operation that is there. */
    for (uint32_t i = 0; i < job->count; i++)
        if (job->ranks[i].count > 0 && job->ranks[i].operations[0].entered < earliest)
            earliest = job->ranks[i].operations[0].entered;
    for (uint32_t i = 0; i < job->count && earliest != INT64_MAX; i++)
        shift(&job->ranks[i], -earliest);
}
