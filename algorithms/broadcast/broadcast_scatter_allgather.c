/* algorithms/broadcast/broadcast_scatter_allgather.c - broadcast of long vectors: a scatter of chunks, then
 * an allgather.
 *
 * Ranks are numbered from the root ("places"); chunk c belongs to place c. The scatter goes down a binomial
 * tree: a rank that has the chunks of a subtree sends on the upper half. The allgather goes round a ring,
 * or by distances that double, the last one shorter where P is no power of two. A place does not receive
 * again what it still has from the scatter.
 *
 * Source: M. Barnett, L. Shuler, R. van de Geijn, S. Gupta, D. Payne and J. Watts, Interprocessor collective
 * communication library, SHPCC 1994 (long-vector broadcast); R. Thakur, R. Rabenseifner and W. Gropp,
 * Optimization of collective communication operations in MPICH, Int. J. High Perform. Comput. Appl. 19
 * (2005); doubling for any P: J. Bruck et al., IEEE Trans. Parallel Distrib. Syst. 8 (1997), without its
 * shift.
 *
 * Steps: L + P - 1 with the ring, 2L with doubling, L = ceil(log2 P).
 *
 * Elements sent: 2(P-1)/P n by the root. Reduced: none.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"

static const char *const allgathers[] = {"ring", "doubling", NULL};
static const gcoll_option options[] = {
    {.name = "allgather", .help = "how the chunks are exchanged: ring or doubling", .words = allgathers},
    {.name = NULL},
};

typedef struct share {
    const gcoll_problem *problem;
    gcoll_builder *b;
    uint32_t size, root, place;
    gcoll_ref data;
} share;

static uint32_t rank_of(const share *s, uint32_t place) {
    return (uint32_t)(((uint64_t)place + s->root) % s->size);
}

/* Chunks that a place holds after the scatter: its own and those of the places below it in the tree. */
static uint32_t span_of(const share *s, uint32_t place) {
    uint32_t low = place & (0 - place), rest = s->size - place;
    return place == 0 || low > rest ? rest : low;
}

/* Sends or receives chunks [first, last). Indices beyond P wrap round, so there are at most two ranges. */
static void pass(const share *s, uint32_t peer, bool sends, uint64_t first, uint64_t last) {
    void (*message)(gcoll_builder *, uint32_t, gcoll_ref, uint64_t) =
        sends ? gcoll_plan_send : gcoll_plan_recv;
    for (uint64_t turn = 0; turn <= s->size; turn += s->size) {
        uint64_t from = first < turn ? turn : first, to = last > turn + s->size ? turn + s->size : last;
        if (from >= to)
            continue;
        uint64_t begin = gcoll_part_begin(s->problem, s->size, (uint32_t)(from - turn));
        uint64_t end = gcoll_part_begin(s->problem, s->size, (uint32_t)(to - turn));
        message(s->b, rank_of(s, peer), gcoll_ref_add(s->data, begin), end - begin);
    }
}

static void scatter(const share *s) {
    for (uint32_t level = gcoll_log2_ceil(s->size); level-- > 0;) {
        uint32_t half = UINT32_C(1) << level, within = s->place & (2 * half - 1);
        if (within == 0 && half < s->size - s->place)
            pass(s, s->place + half, true, s->place + half, s->place + half + span_of(s, s->place + half));
        else if (within == half)
            pass(s, s->place - half, false, s->place, s->place + span_of(s, s->place));
        gcoll_plan_round(s->b);
    }
}

/* Allgather round a ring: in round k, chunk c moves from place c + k to the next. */
static void ring(const share *s) {
    uint32_t next = (s->place + 1) % s->size, previous = (s->place + s->size - 1) % s->size;
    for (uint32_t k = 0; k + 1 < s->size; k++) {
        uint32_t chunk = (s->place + s->size - k) % s->size, coming = (previous + s->size - k) % s->size;
        if ((chunk + s->size - next) % s->size >= span_of(s, next))
            pass(s, next, true, chunk, chunk + 1);
        if ((coming + s->size - s->place) % s->size >= span_of(s, s->place))
            pass(s, previous, false, coming, coming + 1);
        gcoll_plan_round(s->b);
    }
}

/* Allgather by doubling: a place has `distance` chunks from its own on, and gets as many again from the
 * place at that distance above. */
static void doubling(const share *s) {
    for (uint32_t distance = 1; distance < s->size; distance *= 2) {
        uint32_t down = (s->place + s->size - distance) % s->size, up = (s->place + distance) % s->size;
        uint64_t end = s->size - distance < distance ? s->size : 2 * (uint64_t)distance;
        uint32_t theirs = span_of(s, down), own = span_of(s, s->place);
        pass(s, down, true, down + (uint64_t)(theirs > distance ? theirs : distance), down + end);
        pass(s, up, false, s->place + (uint64_t)(own > distance ? own : distance), s->place + end);
        gcoll_plan_round(s->b);
    }
}

static void scatter_allgather_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, place = (problem->rank + size - problem->root) % size;
    share s = {problem, b, size, problem->root, place, place == 0 ? gcoll_in(0, 0) : gcoll_out(0, 0)};
    /* Strict rounds: with an unbounded window, chunks that are not urgent delay urgent ones at the ports. In
     * the simulator that took up to 1.4 times as long. */
    gcoll_plan_window(b, 0);
    scatter(&s);
    (problem->option[0] == 0 ? ring : doubling)(&s);
    if (place == 0) /* last: other ranks wait for the messages, but none for this copy */
        gcoll_plan_copy(b, gcoll_out(0, 0), s.data, problem->count);
}

static void scatter_allgather_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double log = gcoll_log2_ceil(problem->size), others = problem->size - 1;
    *cost = (gcoll_cost){log + (problem->option[0] == 0 ? others : log),
                         2 * others / problem->size * (double)problem->count, 0, 0};
}

const gcoll_algorithm gcoll_broadcast_scatter_allgather_algorithm = {
    .name = "scatter_allgather",
    .collective = GCOLL_BROADCAST,
    .summary = "binomial scatter, then a ring or doubling allgather; fewest bytes for long vectors",
    .source = "Barnett et al. 1994; Thakur, Rabenseifner and Gropp 2005, broadcast",
    .options = options,
    .plan = scatter_allgather_plan,
    .cost = scatter_allgather_cost,
    .takes_codec = true,
};
