/*
 * tools/trace/clock.c - moves the times of all ranks to the clock of the first one.
 *
 * Ranks of one host share a clock. Between hosts, the operations themselves bound how far two clocks differ:
 * no rank leaves an operation in which all depend on all before each other rank has entered it. The hosts'
 * own clocks are believed as long as they keep to these bounds; else the middle of the bounds is taken.
 */
#include <string.h>

#include "tools/trace/trace.h"

/* allgather and alltoall do, too, unless their blocks are unequal, which a dump does not tell. */
static bool depends_on_all(const trace_operation *o) {
    return strcmp(o->collective, "barrier") == 0 || (strcmp(o->collective, "allreduce") == 0 && o->count > 0);
}

/* What must be added to the times of `other`, by what `first` has seen: least and most. */
static void bound(const trace_rank *first, const trace_rank *other, int64_t *least, int64_t *most) {
    *least = INT64_MIN;
    *most = INT64_MAX;
    for (size_t i = 0; i < first->count; i++) {
        const trace_operation *mine = &first->operations[i], *its = trace_find(other, mine->number);
        if (!its || !depends_on_all(mine) || strcmp(mine->collective, its->collective) != 0)
            continue;
        if (its->state == TRACE_DONE && mine->entered - its->ended > *least)
            *least = mine->entered - its->ended;
        if (mine->state == TRACE_DONE && mine->ended - its->entered < *most)
            *most = mine->ended - its->entered;
    }
}

static void shift(trace_rank *rank, int64_t by) {
    rank->dumped += by;
    rank->waits_since += by;
    for (size_t i = 0; i < rank->count; i++) {
        rank->operations[i].entered += by;
        rank->operations[i].begun += by;
        rank->operations[i].ended += by;
    }
}

void trace_align(trace_job *job) {
    const int64_t start = job->ranks[0].began_unix;
    int64_t earliest = INT64_MAX;
    for (uint32_t i = 0; i < job->count; i++)
        shift(&job->ranks[i], job->ranks[i].began_unix - start);
    for (uint32_t i = 1; i < job->count; i++) {
        trace_rank *rank = &job->ranks[i];
        int64_t least, most;
        if (strcmp(rank->host, job->ranks[0].host) == 0)
            continue;
        bound(&job->ranks[0], rank, &least, &most);
        if (least > most) /* the files are of different runs, or a clock was set */
            continue;
        if (least > 0)
            rank->shift = most == INT64_MAX ? least : least + (most - least) / 2;
        else if (most < 0)
            rank->shift = least == INT64_MIN ? most : least + (most - least) / 2;
        shift(rank, rank->shift);
    }
    /* Times begin with the first operation that is there. */
    for (uint32_t i = 0; i < job->count; i++)
        if (job->ranks[i].count > 0 && job->ranks[i].operations[0].entered < earliest)
            earliest = job->ranks[i].operations[0].entered;
    for (uint32_t i = 0; i < job->count && earliest != INT64_MAX; i++)
        shift(&job->ranks[i], -earliest);
}
