/* algorithms/allreduce/allreduce_butterfly.c - allreduce: neighbouring groups of ranks swap their sums, and
 * double.
 *
 * All ranks of a group have the group's sum. Round k joins two neighbouring groups of 2^k ranks: the i-th
 * rank of one swaps with the i-th of the other, and both add up. The last group may have fewer ranks. A
 * rank whose partner does not exist receives the new sum from the first rank of its group. A group without
 * a neighbour waits.
 *
 * Option `halved`: of each pair one rank adds up the first half of the vector and the other the second
 * half, and then they swap these. That halves the additions and needs no scratch, for twice the steps.
 *
 * Source: Peking University, parallel and distributed computing, lab 1, Allreduce (2021), section 2.4,
 * algorithm 2 and the variant after it. (There stepsize is 2^k, where 2^(k+1) is meant.)
 *
 * Steps: L = ceil(log2 P), or 2L halved, and what the first of the last group sends on: at most 2^(k-1) - 1 a
 * round. Elements on the way: n each exchange and each vector sent on. Reduced: L n, or halved L n/2 (odd n:
 * rounded up).
 *
 * Restrictions: none. Neighbours are paired, so more ranks do not change how those below them are added up.
 * Scratch: n, or none if halved. */
#include "algorithms/planners.h"

static const char *const halved_words[] = {"no", "yes", NULL};

static const gcoll_option options[] = {
    {.name = "halved",
     .help = "whether each of a pair adds up one half of the vector",
     .words = halved_words},
    {.name = NULL},
};

/* Two ranks swap whole vectors. The received vector waits in `inbox` until the own one is sent. */
static void swap_whole(gcoll_builder *b, uint32_t peer, bool first, gcoll_ref mine, gcoll_ref inbox,
                       uint64_t n) {
    gcoll_plan_send(b, peer, mine, n);
    gcoll_plan_recv(b, peer, inbox, n);
    gcoll_plan_reduce(b, gcoll_out(0, 0), first ? mine : inbox, first ? inbox : mine, n);
}

static void swap_halves(gcoll_builder *b, uint32_t peer, bool first, gcoll_ref mine, uint64_t n) {
    const uint32_t kept = first ? 0 : 1, given = 1 - kept;
    const uint64_t begin = gcoll_chunk_begin(n, 2, kept), count = gcoll_chunk_count(n, 2, kept);
    const uint64_t other = gcoll_chunk_begin(n, 2, given), other_count = gcoll_chunk_count(n, 2, given);
    gcoll_plan_send(b, peer, gcoll_ref_add(mine, other), other_count);
    if (first)
        gcoll_plan_recv_reduce(b, peer, gcoll_out(0, begin), gcoll_ref_add(mine, begin), count);
    else
        gcoll_plan_recv_reduce_left(b, peer, gcoll_out(0, begin), gcoll_ref_add(mine, begin), count);
    gcoll_plan_round(b);
    gcoll_plan_send(b, peer, gcoll_out(0, begin), count);
    gcoll_plan_recv(b, peer, gcoll_out(0, other), other_count);
}

static void butterfly_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, rank = problem->rank;
    const bool halved = problem->option[0] != 0;
    const uint64_t n = problem->count;
    gcoll_ref mine = gcoll_in(0, 0), inbox = {0};
    if (size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), mine, n);
    else if (!halved)
        inbox = gcoll_plan_scratch(b, n);
    if (halved) /* strict rounds: else a first rank's exchanges and its further sends delay each other */
        gcoll_plan_window(b, 0);
    for (uint32_t half = 1; half < size; half *= 2) {
        const uint32_t head = rank / (2 * half) * (2 * half), peer = rank ^ half;
        const bool joined = head + half < size; /* the group's first rank has a partner */
        if (peer < size && halved)
            swap_halves(b, peer, rank < peer, mine, n);
        else if (peer < size)
            swap_whole(b, peer, rank < peer, mine, inbox, n);
        else if (joined)
            gcoll_plan_recv(b, head, gcoll_out(0, 0), n);
        if (joined && rank == head)
            for (uint32_t missing = 1; missing + size <= head + 2 * half; missing++)
                gcoll_plan_send(b, head + half - missing, gcoll_out(0, 0), n);
        if (joined)
            mine = gcoll_out(0, 0);
        gcoll_plan_round(b);
    }
}

/* The longest path with strict rounds: full groups are ahead of the last group, whose first rank sends the
 * sum on through one port. With `exchange` 1 it is the number of vectors sent one after the other. */
static double path_in_rounds(uint32_t size, double exchange) {
    double full = 0, last = 0;
    for (uint32_t half = 1; half < size; half *= 2, full += exchange) {
        uint32_t ranks = (size - 1) % (2 * half) + 1; /* in the last group, if it is joined */
        if (ranks > half)
            last = (full > last ? full : last) + exchange + (2 * half - ranks);
    }
    return last;
}

static double later(double a, double b) {
    return a > b ? a : b;
}

/* The state of the last group when whole vectors are sent; times are in units of one vector's time. */
typedef struct last_group {
    double sum;    /* when its first rank has the sum */
    double port;   /* when that rank's port is done with the exchange */
    double owed;   /* ranks that it still has to send the sum to */
    double others; /* when the ranks that swapped have it */
} last_group;

/* A full group, ready at `full`, joins the last group on the left; its first rank will owe the sum to
 * `missing` ranks. The old first rank has one port for the exchange and for the vectors that it owes. The
 * port takes whichever is ready first: an owed vector, unless the port is busy until the partner waits. */
static last_group join(last_group old, double full, double missing) {
    const double ready = later(old.sum, full);
    const bool owed_first = old.owed > 0 && (full > old.sum || old.port < old.sum);
    const double idle = later(old.sum, old.port);
    const double begin = owed_first ? later(ready, idle + old.owed) : later(ready, old.port);
    double others = old.others;
    if (old.owed > 0)
        others = later(others, owed_first ? idle + old.owed : begin + 1 + old.owed);
    return (last_group){begin + 1, ready + 1, missing, later(later(full, others), ready) + 1};
}

/* The longest path with whole vectors: a rank does not wait for messages that its first rank sends to
 * others. */
static double path(uint32_t size) {
    last_group last = {0, 0, 0, 0};
    double full = 0;
    for (uint32_t half = 1; half < size; half *= 2, full++) {
        const uint32_t ranks = (size - 1) % (2 * half) + 1;
        if (ranks > half)
            last = join(last, full, 2 * half - ranks);
    }
    return later(last.others, later(last.sum, last.port) + last.owed);
}

static void butterfly_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const bool halved = problem->option[0] != 0;
    double n = (double)problem->count, levels = gcoll_log2_ceil(problem->size);
    *cost = (gcoll_cost){halved ? path_in_rounds(problem->size, 2) : path(problem->size),
                         (halved ? path_in_rounds(problem->size, 1) : path(problem->size)) * n,
                         levels * (halved ? n / 2 : n), halved || problem->size == 1 ? 0 : n};
}

const gcoll_algorithm gcoll_allreduce_butterfly_algorithm = {
    .name = "butterfly",
    .collective = GCOLL_ALLREDUCE,
    .summary = "neighbouring groups swap sums, whole or in halves; ceil(log2 P) steps for a power of two",
    .source = "Peking University lab 1 (2021), section 2.4",
    .options = options,
    .plan = butterfly_plan,
    .claims = gcoll_pairs_claims,
    .cost = butterfly_cost,
};
