/*
 * gcoll/plan.h - writing algorithms: problems, plans, and what proves and prices them.
 *
 * A planner is a pure function: it reads a problem (rank, size, count, ...) and writes down, step by step,
 * what this one rank does. It does no I/O, reads no clock and sees no user data. From its steps the builder
 * infers which must wait for which, by the elements that they touch, so a program written step by step
 * overlaps by itself. The engine, the verifier, the simulator and the drawing all run the same plan by the
 * same rules:
 *
 *   1. A step may start when every step that it depends on is done, and its round is at most `window`
 *      rounds newer than the oldest round on this rank with an unfinished step.
 *   2. The i-th message from A to B in A's plan is the i-th from A in B's plan.
 *      They may start in any order and carry the same count.
 *   3. A send may complete only when its receive has started (the hardest transport); a receive when
 *      all bytes are there (and reduced).
 *
 * Offsets and counts are in elements, so a plan does not know the element's type. A planner looks neither at
 * `in_place` nor at `buffers`, `average` and `segment`: passes over the finished plan add what they ask for.
 *
 *     static void plan_chain(const gcoll_problem *p, gcoll_builder *b) { ... gcoll_plan_send(b, ...); ... }
 *     static const gcoll_algorithm chain = {.name = "chain", .collective = GCOLL_ALLREDUCE, .plan =
 * plan_chain, ...};
 *
 * examples/planner.c is a worked example.
 */
#ifndef GCOLL_PLAN_H
#define GCOLL_PLAN_H

#include <stdbool.h>

#include "gcoll/types.h"
#include "gcoll/version.h"

GCOLL_BEGIN_DECLS

/* ---- Problems --------------------------------------------------------------------------------------- */

/* P ranks; n = count. What IN and OUT hold, per rank:
 *                          IN                        OUT
 *   allreduce              n                         n: the reduction over all ranks
 *   reduce                 n                         n at the root, else 0
 *   reduce_scatter         n                         block `rank` of the reduction
 *   broadcast              n, the root's counts      n
 *   allgather              block `rank`              n: all blocks, in rank order
 *   gather                 block `rank`              n at the root, else 0
 *   scatter                n at the root, else 0     block `rank`
 *   alltoall               n: block j is for rank j  block `rank` of every rank, in rank order
 *   pairwise_exchange      n                         n: see `exchanges`
 *   barrier                0                         0 */
typedef enum gcoll_collective {
    GCOLL_ALLREDUCE = 0,
    GCOLL_BROADCAST = 1,
    GCOLL_BARRIER = 2,
    GCOLL_REDUCE = 3,
    GCOLL_REDUCE_SCATTER = 4,
    GCOLL_ALLGATHER = 5,
    GCOLL_GATHER = 6,
    GCOLL_SCATTER = 7,
    GCOLL_ALLTOALL = 8,
    GCOLL_PAIRWISE_EXCHANGE = 9,
    GCOLL_COLLECTIVE_COUNT = 10
} gcoll_collective;

/* "allreduce", ...; "?" for a number that is none. */
GCOLL_API const char *gcoll_collective_name(gcoll_collective collective);
/* The reverse. GCOLL_ERR_INVALID lists the allowed names. */
GCOLL_API gcoll_status gcoll_collective_parse(const char *name, gcoll_collective *collective);

#define GCOLL_MAX_OPTIONS      8
#define GCOLL_WINDOW_UNBOUNDED UINT32_MAX
#define GCOLL_MAX_RANKS        1048576u
#define GCOLL_MAX_BUFFERS      1024u
#define GCOLL_MAX_EXCHANGES    32u /* of a pairwise_exchange: ranks are less than 2^32 */

/* ---- Memories ---------------------------------------------------------------------------------------
 * A plan's messages and the host's reductions touch host memory only. Buffers in the memory of a device are
 * staged by a pass over the plan: before its first use a range is copied to scratch, which lies in (pinned)
 * host memory, after its last write back from there. */

#define GCOLL_HOST_MEMORY           0u
#define GCOLL_DEVICE_MEMORY(device) ((device) + 1u) /* of device number `device` */
#define GCOLL_MAX_DEVICES           1024u

/* Where several buffers of one process are reduced before, and spread after, the messages. */
typedef enum gcoll_local {
    GCOLL_LOCAL_AUTO = 0,   /* by cost; in a plan that is made by itself: on the device */
    GCOLL_LOCAL_HOST = 1,   /* every buffer is copied to the host and reduced there */
    GCOLL_LOCAL_DEVICE = 2, /* each device reduces its own buffers; the host what the devices have come to */
    GCOLL_LOCAL_PEER = 3,   /* one device reduces all of them, reading the memory of the others */
    GCOLL_LOCAL_COUNT = 4
} gcoll_local;

typedef struct gcoll_staging {
    gcoll_local local;
    bool whole;             /* all is staged before the first message and unstaged after the last one; else
                             * range by range, as messages need them */
    uint64_t segment_bytes; /* of an algorithm's row: the option `segment` where it is not given; 0: none */
    bool direct; /* the network reads and writes the memory of devices by itself: what reduces nothing is not
                  * staged, if all its buffers that are on a device are on the same one */
} gcoll_staging;

/* What is to be done: the shape of an operation, seen by one rank. All zero, then filled in. Every rank has
 * the same but for rank, in_place, buffers (the same, too, for an average), and count and offsets of an
 * alltoall with offsets. Arrays must outlive gcoll_plan_create, no longer. */
typedef struct gcoll_problem {
    gcoll_collective collective;
    uint32_t rank, size;
    uint32_t root;      /* broadcast, reduce, gather, scatter; else 0 */
    uint32_t exchanges; /* pairwise_exchange: the vector is cut in this many chunks (0: ceil(log2 P)); chunk c
                         * is swapped with rank ^ 2^c, or stays where there is no such rank. Else 0 */
    uint32_t buffers;   /* buffers of this process, >= 1: IN[k] and OUT[k]; more than 1 for allreduce and
                         * broadcast only */
    bool in_place;      /* allreduce, broadcast, and reduce at the root: OUT[k] is IN[k]. Else the smaller of
                         * IN and OUT lies in the larger one, where this rank's block is. Never for alltoall and
                         * pairwise_exchange, nor where IN or OUT is empty by the table above */
    bool average;       /* allreduce, reduce, reduce_scatter: divide the result by the contributions */
    uint64_t count;     /* n, elements */
    uint64_t segment;   /* 0, or the most elements one message or step carries (the splitting pass) */
    const uint64_t
        *offsets; /* NULL: block r is chunk r of n, see gcoll_chunk_begin. Else size + 1 entries that
                   * never fall, from 0 to n: block r is elements [offsets[r], offsets[r+1]) */
    const uint64_t *recv_offsets; /* alltoall with offsets: where in OUT the block from each rank lies;
                                   * size + 1 entries; NULL for all else */
    const uint32_t *node; /* NULL, or the number of each rank's host: size entries. Equal numbers, one host */
    const int64_t *arrival_ns; /* NULL: all together; or when each rank is expected to enter: size entries */
    int64_t segment_ns;        /* with arrival_ns: the time to move and reduce one P-th of the vector */
    const uint32_t *in_memory, *out_memory; /* NULL: in the host's; or which memory IN[k] and OUT[k] lie in:
                                             * `buffers` entries, see GCOLL_HOST_MEMORY. In place both are the
                                             * same, or one is NULL */
    gcoll_staging staging;                  /* of buffers that lie in a device's memory */
    int64_t option[GCOLL_MAX_OPTIONS];      /* as the algorithm's option table orders them */
} gcoll_problem;

/* Chunk c of `parts` is elements [c*n/parts, (c+1)*n/parts) rounded down. */
static inline uint64_t gcoll_chunk_begin(uint64_t n, uint32_t parts, uint32_t c) {
    return (n / parts) * c + (n % parts) * c / parts;
}
static inline uint64_t gcoll_chunk_count(uint64_t n, uint32_t parts, uint32_t c) {
    return gcoll_chunk_begin(n, parts, c + 1) - gcoll_chunk_begin(n, parts, c);
}

/* Block r of the vector of n elements (alltoall: of what this rank sends); r = size: its end. */
static inline uint64_t gcoll_block_begin(const gcoll_problem *p, uint32_t r) {
    return p->offsets ? p->offsets[r] : gcoll_chunk_begin(p->count, p->size, r);
}
static inline uint64_t gcoll_block_count(const gcoll_problem *p, uint32_t r) {
    return gcoll_block_begin(p, r + 1) - gcoll_block_begin(p, r);
}
/* Alltoall: where in OUT the block from rank r begins. r = size: OUT's end. */
static inline uint64_t gcoll_recv_begin(const gcoll_problem *p, uint32_t r) {
    return p->recv_offsets ? p->recv_offsets[r] : r * gcoll_block_count(p, p->rank);
}
static inline uint64_t gcoll_recv_count(const gcoll_problem *p, uint32_t r) {
    return gcoll_recv_begin(p, r + 1) - gcoll_recv_begin(p, r);
}

/* Elements of IN and OUT on this rank, by the table above. */
GCOLL_API uint64_t gcoll_problem_in_count(const gcoll_problem *problem);
GCOLL_API uint64_t gcoll_problem_out_count(const gcoll_problem *problem);

/* Exchanges of a pairwise_exchange: `exchanges`, or ceil(log2 size) if that is 0. */
GCOLL_API uint32_t gcoll_problem_exchanges(const gcoll_problem *problem);

/* ---- Places ----------------------------------------------------------------------------------------- */

typedef enum gcoll_space { GCOLL_IN = 0, GCOLL_OUT = 1, GCOLL_SCRATCH = 2 } gcoll_space;

/* Element `offset` of IN[index], OUT[index] or SCRATCH (index 0). A planner uses index 0 only. */
typedef struct gcoll_ref {
    uint16_t space;
    uint16_t index;
    uint64_t offset;
} gcoll_ref;

static inline gcoll_ref gcoll_ref_make(gcoll_space space, uint32_t index, uint64_t offset) {
    gcoll_ref ref;
    ref.space = (uint16_t)space;
    ref.index = (uint16_t)index;
    ref.offset = offset;
    return ref;
}
static inline gcoll_ref gcoll_in(uint32_t k, uint64_t offset) {
    return gcoll_ref_make(GCOLL_IN, k, offset);
}
static inline gcoll_ref gcoll_out(uint32_t k, uint64_t offset) {
    return gcoll_ref_make(GCOLL_OUT, k, offset);
}
static inline gcoll_ref gcoll_scratch(uint64_t offset) {
    return gcoll_ref_make(GCOLL_SCRATCH, 0, offset);
}
static inline gcoll_ref gcoll_ref_add(gcoll_ref ref, uint64_t elements) {
    ref.offset += elements;
    return ref;
}

/* ---- What a planner writes with --------------------------------------------------------------------- */

/* Errors stick: after the first, every call does nothing and the plan is not made.
 * Data steps of count 0 are dropped (both sides know the count); signal and await are messages of 0
 * elements that are kept. A copy onto itself is dropped. IN is never written. */
typedef struct gcoll_builder gcoll_builder;

GCOLL_API void gcoll_plan_send(gcoll_builder *b, uint32_t peer, gcoll_ref a, uint64_t count);
GCOLL_API void gcoll_plan_recv(gcoll_builder *b, uint32_t peer, gcoll_ref dst, uint64_t count);
/* dst = a op received. */
GCOLL_API void gcoll_plan_recv_reduce(gcoll_builder *b, uint32_t peer, gcoll_ref dst, gcoll_ref a,
                                      uint64_t count);
/* dst = received op a: the sender's ranks stand before this rank's. */
GCOLL_API void gcoll_plan_recv_reduce_left(gcoll_builder *b, uint32_t peer, gcoll_ref dst, gcoll_ref a,
                                           uint64_t count);
/* dst = a op x. */
GCOLL_API void gcoll_plan_reduce(gcoll_builder *b, gcoll_ref dst, gcoll_ref a, gcoll_ref x, uint64_t count);
GCOLL_API void gcoll_plan_copy(gcoll_builder *b, gcoll_ref dst, gcoll_ref a, uint64_t count);
GCOLL_API void gcoll_plan_signal(gcoll_builder *b, uint32_t peer);
GCOLL_API void gcoll_plan_await(gcoll_builder *b, uint32_t peer);
/* What follows belongs to the next round. */
GCOLL_API void gcoll_plan_round(gcoll_builder *b);
/* What follows belongs to `round`, unless a later one has begun. */
GCOLL_API void gcoll_plan_round_at_least(gcoll_builder *b, uint32_t round);
/* Every later step waits for every earlier one. */
GCOLL_API void gcoll_plan_fence(gcoll_builder *b);
/* Reserves scratch and returns its start. */
GCOLL_API gcoll_ref gcoll_plan_scratch(gcoll_builder *b, uint64_t count);
GCOLL_API void gcoll_plan_window(gcoll_builder *b, uint32_t window);
/* Ends planning with this error. Shapes that the algorithm does not do are for `applies` to refuse. */
GCOLL_API void gcoll_plan_refuse(gcoll_builder *b, gcoll_status status, const char *format, ...);

/* ---- Algorithms ------------------------------------------------------------------------------------- */

#define GCOLL_BY_COST (-1) /* of an option whose min it is: the cheapest value is to be found */

/* An option of an algorithm, as in "group_butterfly:r=2:group=cyclic". */
typedef struct gcoll_option {
    const char *name;
    const char *help; /* not NULL */
    int64_t fallback; /* the value when it is not given; one of those allowed */
    int64_t min, max; /* allowed, inclusive; ignored with words. min GCOLL_BY_COST: selection tries the
                       * values from 0 to max, which is 4096 at most unless they double; a planner takes it as
                       * a value of its own choice */
    const char *const *words; /* NULL, or allowed words, NULL-terminated: the value is the index */
    bool doubling;            /* selection tries 1, 2, 4, ... instead of all values */
} gcoll_option;

/* What an algorithm claims for a problem; the verifier finds out, and the two must agree. */
#define GCOLL_CLAIM_RANK_IDENTICAL 1u /* every rank that gets a result gets the same bits */
#define GCOLL_CLAIM_ORDERED        2u /* keeps rank order: good for operations that do not commute */
#define GCOLL_CLAIM_RUN_IDENTICAL  4u /* same inputs, same bits, however messages are timed */
#define GCOLL_CLAIM_P_INDEPENDENT                                                                            \
    8u /* every element is built by one tree, and more ranks that contribute nothing (the operation's        \
        * neutral element) would not change a bit: a left fold over the ranks, or the tree that pairs        \
        * neighbours */
#define GCOLL_CLAIM_ALL 15u /* what collectives that reduce nothing have */

/* What holds of whatever reduces, to begin `claims` with: a plan has no races, so it is run-identical, and at
 * the small ends, where a planner is called like anywhere else, there is more.
 *
 * One rank: its result is its input, so the plan is a copy from IN to OUT, which is dropped in place. There
 * is nobody to send to. Every claim holds.
 *
 * Two ranks: an element is 0 op 1 or 1 op 0, which is one tree, so GCOLL_CLAIM_P_INDEPENDENT holds. The
 * others are the algorithm's own affair.
 *
 * Count 0: data steps of 0 elements are dropped, as those of an empty block are, so a planner need not look;
 * a signal and an await stay. Every claim holds. */
static inline uint32_t gcoll_trivial_claims(const gcoll_problem *problem) {
    if (problem->size == 1 || problem->count == 0)
        return GCOLL_CLAIM_ALL;
    return GCOLL_CLAIM_RUN_IDENTICAL | (problem->size == 2 ? GCOLL_CLAIM_P_INDEPENDENT : 0u);
}

/* What the busiest rank does in the alpha-beta-gamma model with one port: messages one after the other,
 * elements sent (or received, if more) on that way, elements reduced; and the most scratch of any rank. */
typedef struct gcoll_cost {
    double steps, sent, reduced, scratch;
} gcoll_cost;

/* What counts besides where ranks share processors, or where messages follow one another without waiting. */
typedef struct gcoll_load {
    double hops;                    /* the longest chain of messages each of which waits for the one before */
    double messages, sent, reduced; /* of all ranks together; sent and reduced in elements */
} gcoll_load;

/* Constant, and to live as long as whatever it is registered with. */
typedef struct gcoll_algorithm {
    const char *name;
    gcoll_collective collective;
    const char *summary;         /* one line */
    const char *source;          /* where it is published */
    const gcoll_option *options; /* at most GCOLL_MAX_OPTIONS, ended by name NULL; or NULL */
    void (*plan)(const gcoll_problem *problem, gcoll_builder *builder);
    uint32_t (*claims)(const gcoll_problem *problem);             /* GCOLL_CLAIM_*; NULL: GCOLL_CLAIM_ALL */
    void (*cost)(const gcoll_problem *problem, gcoll_cost *cost); /* by formula, no plan built */
    /* NULL, or what is asked of a problem beyond its table: GCOLL_ERR_UNSUPPORTED, by gcoll_unsupported. Of a
     * problem that is refused nothing else is asked. Refusals belong here, not in `plan`: who chooses or
     * compares asks this, and builds no plan for it. */
    gcoll_status (*applies)(const gcoll_problem *problem);
    bool uses_node; /* it makes use of the problem's `node`, which a context finds out for an algorithm that
                     * is asked for by name or by a tuning file, and leaves NULL when it chooses by cost */
    /* By formula, after `cost`. NULL: every step is a hop, and all ranks are as busy as the busiest. What it
     * leaves 0 is taken so, too. */
    void (*load)(const gcoll_problem *problem, gcoll_load *load);
    /* NULL: buffers in device memory are staged as the problem says; or how this one stages them, whatever
     * the problem says. Such a row is another one with a way of staging: on buffers in host memory, where
     * there is nothing to stage, it is that other one, and selection by cost leaves it out. */
    const gcoll_staging *staging;
    bool uses_arrival; /* it makes use of the problem's `arrival_ns`, which a context with a monitor finds out
                        * for it (gcoll/arrival.h); without it all ranks are taken to come together */
} gcoll_algorithm;

/* Sets the last error and returns GCOLL_ERR_UNSUPPORTED. */
GCOLL_API gcoll_status gcoll_unsupported(const char *format, ...);

/* Seconds. alpha per message, beta per byte sent, gamma per byte reduced. */
typedef struct gcoll_cost_parameters {
    double alpha, beta, gamma;
} gcoll_cost_parameters;

/* What a shared object of algorithms exports, by GCOLL_PLUGIN(list), as gcoll_plugin_table. */
typedef struct gcoll_plugin {
    uint32_t version_major,
        version_minor; /* of the header that it was compiled with; must be the library's */
    const gcoll_algorithm *const *algorithms; /* ended by NULL */
} gcoll_plugin;

#define GCOLL_PLUGIN(list)                                                                                   \
    GCOLL_API extern const gcoll_plugin gcoll_plugin_table;                                                  \
    const gcoll_plugin gcoll_plugin_table = {GCOLL_VERSION_MAJOR, GCOLL_VERSION_MINOR, list}

/* ---- Plans ------------------------------------------------------------------------------------------ */

/* Immutable, hence shared and cached; holds no pointers to user data. */
typedef struct gcoll_plan gcoll_plan;

/* The plan of problem->rank: the planner's, then passes for average, buffers and segment as the problem asks.
 * Errors: INVALID (names the field), UNSUPPORTED (the algorithm's reason), NO_MEMORY; INTERNAL: the planner
 * broke a rule of the builder (an access out of bounds, a peer that is no other rank, ...). */
GCOLL_API gcoll_status gcoll_plan_create(const gcoll_algorithm *algorithm, const gcoll_problem *problem,
                                         gcoll_plan **plan);
GCOLL_API void gcoll_plan_destroy(gcoll_plan *plan);

/* Bytes that the plan itself occupies. */
GCOLL_API uint64_t gcoll_plan_memory_bytes(const gcoll_plan *plan);

/* One line a step, in plain words, to `file` (a FILE *, void here to keep stdio out of planners). */
GCOLL_API void gcoll_plan_print(const gcoll_plan *plan, void *file);

/* ---- Verifier (needs every rank's plan) --------------------------------------------------------------- */

typedef struct gcoll_verify_report {
    uint32_t steps;        /* the longest chain of messages */
    uint64_t sent_max;     /* elements sent by the rank that sends most */
    uint64_t sent_total;   /* elements, all ranks */
    uint64_t reduced_max;  /* elements reduced by the rank that reduces most */
    uint64_t scratch_max;  /* elements */
    uint64_t messages_max; /* messages sent by the rank that sends most */
    /* Elements, each of the rank that has most: copied from devices to the host and from there to devices,
     * and reduced by devices. */
    uint64_t copied_in_max, copied_out_max, folded_max;
    uint32_t claims; /* GCOLL_CLAIM_* that hold */
} gcoll_verify_report;

/* Runs all plans (plans[r] is rank r's; same size, collective and count) symbolically by the rules
 * above, in the hardest model. GCOLL_OK if every output element of every rank holds what the collective
 * promises; else GCOLL_ERR_INVALID with a text that names rank and step: a message without partner or of
 * another size, an access out of bounds or to memory that cannot be reached, an element copied between host
 * and device twice, two unordered steps on the same elements, a deadlock, uninitialised or written input, a
 * contribution missing or twice. */
GCOLL_API gcoll_status gcoll_verify(const gcoll_plan *const *plans, uint32_t size,
                                    gcoll_verify_report *report);

GCOLL_END_DECLS

#endif
