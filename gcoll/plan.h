/*
 * gcoll/plan.h - writing algorithms: problems, planners, plans, and the verifier.
 *
 * A planner is a pure function. It reads a problem (rank, size, count, ...) and writes the steps of one rank,
 * one after the other. It does no I/O, reads no clock and sees no user data. The builder finds out which step
 * must wait for which, from the elements that they read and write, so steps that are independent overlap. The
 * engine, the verifier, the simulator and the drawing run the same plan by the same rules:
 *
 *   1. A step may start when every step that it depends on is done, and its round is at most `window` rounds
 *      newer than the oldest round on this rank with an unfinished step.
 *   2. The i-th message from A to B in A's plan is the i-th message from A in B's plan. Both have the same
 *      count. Messages may start in any order.
 *   3. A send may complete only after its receive has started, as over the hardest transport. A receive
 *      completes when all its bytes have arrived and are reduced.
 *
 * Offsets and counts are in elements, so a plan does not know the element type. A planner ignores `in_place`,
 * `buffers`, `average`, `segment` and `codec`: passes over the finished plan do what these ask for.
 *
 *     static void plan_chain(const gcoll_problem *p, gcoll_builder *b) { ... gcoll_plan_send(b, ...); ... }
 *     static const gcoll_algorithm chain = {.name = "chain", .plan = plan_chain, ...};
 *
 * examples/planner.c is a worked example.
 *
 * Parameters that a function does not describe itself:
 *
 *   b           the builder, which collects the steps
 *   p, problem  what is planned, seen by this rank
 */
#ifndef GCOLL_PLAN_H
#define GCOLL_PLAN_H

#include <stdbool.h>

#include "gcoll/types.h"
#include "gcoll/version.h"

GCOLL_BEGIN_DECLS

/* ---- Problems --------------------------------------------------------------------------------------- */

/* The collectives. With P ranks and n = count, IN and OUT of a rank hold:
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

/* Returns the name of a collective: "allreduce", ...; "?" for any other number. */
GCOLL_API const char *gcoll_collective_name(gcoll_collective collective);
/* Finds a collective by its name. GCOLL_ERR_INVALID, whose text lists the allowed names. */
GCOLL_API gcoll_status gcoll_collective_parse(const char *name, gcoll_collective *collective);

/* Properties of a collective, by the table above. */
typedef struct gcoll_traits {
    bool has_root;         /* one rank is the root */
    bool has_blocks;       /* the vector is made of one block a rank, which may be unequal */
    bool reduces;          /* takes an operation, averages included */
    bool takes_buffers;    /* a process may have several buffers */
    bool takes_in_place;   /* input and output may share memory */
    bool in_place_at_root; /* but on the root only: the others have either IN or OUT */
} gcoll_traits;

/* Return the properties of a collective, all or one. All are false for a number that is no collective. */
static inline gcoll_traits gcoll_collective_traits(gcoll_collective collective) {
    static const gcoll_traits traits[GCOLL_COLLECTIVE_COUNT + 1] = {
        /* root, blocks, reduces, buffers, in place, at the root only */
        {false, false, true, true, true, false},    /* allreduce */
        {true, false, false, true, true, false},    /* broadcast */
        {false, false, false, false, false, false}, /* barrier */
        {true, false, true, false, true, true},     /* reduce */
        {false, true, true, true, true, false},     /* reduce_scatter */
        {false, true, false, false, true, false},   /* allgather */
        {true, true, false, false, true, true},     /* gather */
        {true, true, false, false, true, true},     /* scatter */
        {false, true, false, false, false, false},  /* alltoall */
        {false, false, false, false, false, false}, /* pairwise_exchange */
        {false, false, false, false, false, false}, /* none */
    };
    return traits[(unsigned)collective < GCOLL_COLLECTIVE_COUNT ? (unsigned)collective
                                                                : (unsigned)GCOLL_COLLECTIVE_COUNT];
}
static inline bool gcoll_collective_has_root(gcoll_collective collective) {
    return gcoll_collective_traits(collective).has_root;
}
static inline bool gcoll_collective_has_blocks(gcoll_collective collective) {
    return gcoll_collective_traits(collective).has_blocks;
}
static inline bool gcoll_collective_reduces(gcoll_collective collective) {
    return gcoll_collective_traits(collective).reduces;
}
static inline bool gcoll_collective_takes_buffers(gcoll_collective collective) {
    return gcoll_collective_traits(collective).takes_buffers;
}
static inline bool gcoll_collective_takes_in_place(gcoll_collective collective) {
    return gcoll_collective_traits(collective).takes_in_place;
}

#define GCOLL_MAX_OPTIONS      8
#define GCOLL_WINDOW_UNBOUNDED UINT32_MAX
#define GCOLL_MAX_RANKS        1048576u
#define GCOLL_MAX_BUFFERS      1024u
#define GCOLL_MAX_EXCHANGES    32u /* of a pairwise_exchange: ranks are less than 2^32 */

/* ---- Memories ---------------------------------------------------------------------------------------
 * Messages and the host's reductions touch host memory only. A pass over the plan stages buffers in the
 * memory of a device: it copies a range to scratch in pinned host memory before its first use, and back after
 * its last write. */

#define GCOLL_HOST_MEMORY           0u
#define GCOLL_DEVICE_MEMORY(device) ((device) + 1u) /* of device number `device` */
#define GCOLL_MAX_DEVICES           1024u

/* Who reduces several buffers of one process before the messages, and copies the result to them after. */
typedef enum gcoll_local {
    GCOLL_LOCAL_AUTO = 0,   /* by cost; in a plan made without a context: the device */
    GCOLL_LOCAL_HOST = 1,   /* the host: every buffer is copied there and reduced */
    GCOLL_LOCAL_DEVICE = 2, /* each device reduces its own buffers; the host reduces their results */
    GCOLL_LOCAL_PEER = 3,   /* one device, which reads the memory of the others */
    GCOLL_LOCAL_COUNT = 4
} gcoll_local;

/* How buffers in device memory are staged. */
typedef struct gcoll_staging {
    gcoll_local local;
    bool whole; /* copy everything before the first message, and back after the last one; else range
                 * by range, as messages need them */
    uint64_t segment_bytes; /* in an algorithm's row: the default of the option `segment`; 0: none */
    bool direct; /* the network reads and writes device memory by itself. Collectives that reduce nothing are
                  * then not staged, if all buffers that are on a device are on the same one */
} gcoll_staging;

/* A problem: the shape of an operation, seen by one rank. Zero it, then fill it in. All fields are the same
 * on every rank, with two kinds of exceptions. The first are rank, in_place and buffers (the same for an
 * average). The second are count and offsets of an alltoall with offsets, and of a gather or scatter by
 * `linear`: there only the root must know all blocks, and every other rank gives the blocks of others as
 * empty. Arrays must live until gcoll_plan_create returns. */
typedef struct gcoll_problem {
    gcoll_collective collective;
    uint32_t rank, size;
    uint32_t root;      /* broadcast, reduce, gather, scatter; else 0 */
    uint32_t exchanges; /* pairwise_exchange: number of chunks of the vector (0: ceil(log2 P)); chunk c is
                         * swapped with rank ^ 2^c, or stays if there is no such rank. Else 0 */
    uint32_t buffers;   /* buffers of this process, >= 1: IN[k] and OUT[k]; more than 1 for allreduce,
                         * reduce_scatter and broadcast only */
    bool in_place;    /* allreduce, broadcast, and reduce at the root: OUT[k] is IN[k]. Other collectives: the
                       * smaller of IN and OUT lies in the larger one, where this rank's block is. Never true
                       * for alltoall and pairwise_exchange, nor if IN or OUT is empty by the table above */
    bool average;     /* allreduce, reduce, reduce_scatter: divide the result by the contributions. Calls with
                       * options.postscale use the same steps, to multiply it */
    uint64_t count;   /* n, elements */
    uint64_t segment; /* most elements of one message or step, for the pass that splits; 0: no limit */
    const uint64_t
        *offsets; /* NULL: block r is chunk r of n, see gcoll_chunk_begin. Else size + 1 entries that
                   * never fall, from 0 to n: block r is elements [offsets[r], offsets[r+1]) */
    const uint64_t *recv_offsets; /* alltoall with offsets: where in OUT the block from each rank lies;
                                   * size + 1 entries; NULL for all else */
    const uint32_t *node; /* NULL, or the number of each rank's host: size entries. Equal number, same host */
    const int64_t *arrival_ns; /* when each rank is expected to enter: size entries; NULL: all at once */
    int64_t segment_ns;        /* with arrival_ns: time to move and reduce 1/P of the vector */
    const uint32_t *tour; /* the order of ranks along a ring, for algorithms with `uses_tour`: size entries,
                           * each rank once; NULL: none is given */
    const uint32_t *in_memory, *out_memory; /* NULL: in the host's; or which memory IN[k] and OUT[k] lie in:
                                             * `buffers` entries, see GCOLL_HOST_MEMORY. In place both are the
                                             * same, or one is NULL */
    gcoll_staging staging;                  /* of buffers that lie in a device's memory */
    int64_t option[GCOLL_MAX_OPTIONS];      /* as the algorithm's option table orders them */
    gcoll_order
        order; /* the tree that is wanted; DEFAULT is ANY. Buffers of a process are reduced by it, and
                * a row with `takes_order` builds it. With a tree, `buffers` is the same on all ranks */
    gcoll_codec
        codec; /* how messages carry elements, which are float32 then; for algorithms with `takes_codec`
                */
} gcoll_problem;

/* Return where a chunk begins, and how many elements it has. Chunk c of `parts` is elements [c*n/parts,
 * (c+1)*n/parts) rounded down. */
static inline uint64_t gcoll_chunk_begin(uint64_t n, uint32_t parts, uint32_t c) {
    return (n / parts) * c + (n % parts) * c / parts;
}
static inline uint64_t gcoll_chunk_count(uint64_t n, uint32_t parts, uint32_t c) {
    return gcoll_chunk_begin(n, parts, c + 1) - gcoll_chunk_begin(n, parts, c);
}

/* Return where a part of the vector begins, and how many elements it has: chunk c of `parts`, as
 * gcoll_chunk_begin cuts, but between two blocks of the codec. c: 0 to parts; parts: the end of the vector.
 */
static inline uint64_t gcoll_part_begin(const gcoll_problem *p, uint32_t parts, uint32_t c) {
    const uint64_t block = p->codec.block ? p->codec.block : 1;
    const uint64_t blocks = p->count / block + (p->count % block != 0);
    const uint64_t begin = gcoll_chunk_begin(blocks, parts, c);
    return begin < blocks ? begin * block : p->count;
}
static inline uint64_t gcoll_part_count(const gcoll_problem *p, uint32_t parts, uint32_t c) {
    return gcoll_part_begin(p, parts, c + 1) - gcoll_part_begin(p, parts, c);
}

/* Return where block r of the vector begins, and how many elements it has (alltoall: of the vector that this
 * rank sends); r = size: the end of the vector. */
static inline uint64_t gcoll_block_begin(const gcoll_problem *p, uint32_t r) {
    return p->offsets ? p->offsets[r] : gcoll_chunk_begin(p->count, p->size, r);
}
static inline uint64_t gcoll_block_count(const gcoll_problem *p, uint32_t r) {
    return gcoll_block_begin(p, r + 1) - gcoll_block_begin(p, r);
}
/* Return where in OUT of an alltoall the block from rank r begins, and how many elements it has. r = size:
 * the end of OUT. */
static inline uint64_t gcoll_recv_begin(const gcoll_problem *p, uint32_t r) {
    return p->recv_offsets ? p->recv_offsets[r] : r * gcoll_block_count(p, p->rank);
}
static inline uint64_t gcoll_recv_count(const gcoll_problem *p, uint32_t r) {
    return gcoll_recv_begin(p, r + 1) - gcoll_recv_begin(p, r);
}

/* Return the elements of IN and OUT on this rank, by the table at gcoll_collective. */
GCOLL_API uint64_t gcoll_problem_in_count(const gcoll_problem *problem);
GCOLL_API uint64_t gcoll_problem_out_count(const gcoll_problem *problem);

/* Returns the exchanges of a pairwise_exchange: `exchanges`, or ceil(log2 size) if that is 0. */
GCOLL_API uint32_t gcoll_problem_exchanges(const gcoll_problem *problem);

/* ---- Places ----------------------------------------------------------------------------------------- */

/* The spaces that a place can lie in. */
typedef enum gcoll_space { GCOLL_IN = 0, GCOLL_OUT = 1, GCOLL_SCRATCH = 2 } gcoll_space;

/* A place: element `offset` of IN[index], OUT[index] or SCRATCH (index 0). A planner uses index 0 only. */
typedef struct gcoll_ref {
    uint16_t space;
    uint16_t index;
    uint64_t offset;
} gcoll_ref;

/* Return a place: element `offset` of number `index` (k of IN and OUT) of a space; and one that lies
 * `elements` behind ref. */
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

/* ---- Steps: the functions of a planner -------------------------------------------------------------- */

/* Collects the steps of a plan. Errors stick: after the first, every call does nothing and no plan is made.
 * Steps of count 0 are dropped, on both sides; signal and await are messages of 0 elements that are kept. A
 * copy onto itself is dropped. A planner never writes to IN. */
typedef struct gcoll_builder gcoll_builder;

/* Sends `count` elements from a to rank `peer`. */
GCOLL_API void gcoll_plan_send(gcoll_builder *b, uint32_t peer, gcoll_ref a, uint64_t count);
/* Receives `count` elements from rank `peer` into dst. */
GCOLL_API void gcoll_plan_recv(gcoll_builder *b, uint32_t peer, gcoll_ref dst, uint64_t count);
/* Receives `count` elements from rank `peer` and reduces them: dst = a op received. */
GCOLL_API void gcoll_plan_recv_reduce(gcoll_builder *b, uint32_t peer, gcoll_ref dst, gcoll_ref a,
                                      uint64_t count);
/* Receives `count` elements from rank `peer` and reduces them in the other order: dst = received op a. For
 * contributions of ranks before this rank's. */
GCOLL_API void gcoll_plan_recv_reduce_left(gcoll_builder *b, uint32_t peer, gcoll_ref dst, gcoll_ref a,
                                           uint64_t count);
/* Reduces `count` elements: dst = a op x. */
GCOLL_API void gcoll_plan_reduce(gcoll_builder *b, gcoll_ref dst, gcoll_ref a, gcoll_ref x, uint64_t count);
/* Copies `count` elements: dst = a. */
GCOLL_API void gcoll_plan_copy(gcoll_builder *b, gcoll_ref dst, gcoll_ref a, uint64_t count);
/* Send an empty message to rank `peer`, or receive one from it. */
GCOLL_API void gcoll_plan_signal(gcoll_builder *b, uint32_t peer);
GCOLL_API void gcoll_plan_await(gcoll_builder *b, uint32_t peer);
/* Begins the next round: later steps belong to it. */
GCOLL_API void gcoll_plan_round(gcoll_builder *b);
/* Begins round `round`, unless a later round has begun. */
GCOLL_API void gcoll_plan_round_at_least(gcoll_builder *b, uint32_t round);
/* Makes every later step wait for every earlier step. */
GCOLL_API void gcoll_plan_fence(gcoll_builder *b);
/* Says which steps the next step waits for, and that it waits for no others: for schedules that were made
 * elsewhere, and say so themselves. A planner that calls this calls it before each of its steps, and never
 * fences. No step is then dropped, so that step i is the i-th that the planner wrote, from 0 on: a copy of 0
 * elements or onto itself does nothing but wait, and a message of 0 elements is a signal. The builder checks
 * the numbers and nothing more; gcoll_verify finds steps that should wait and do not. Passes over such a plan
 * (average, several buffers, segments, staging) find out anew what waits for what, from the elements.
 * after: `count` numbers of earlier steps; copied. */
GCOLL_API void gcoll_plan_after(gcoll_builder *b, const uint32_t *after, uint32_t count);
/* Reserves `count` elements of scratch and returns their place. */
GCOLL_API gcoll_ref gcoll_plan_scratch(gcoll_builder *b, uint64_t count);
/* Sets how many rounds a step may be ahead of the oldest unfinished one. window: 0: strict rounds;
 * GCOLL_WINDOW_UNBOUNDED, the default: only dependencies count. */
GCOLL_API void gcoll_plan_window(gcoll_builder *b, uint32_t window);
/* Ends planning with an error: status, and a text by format, as of printf. Refuse shapes that the algorithm
 * cannot do in `applies`, not here. */
GCOLL_API void gcoll_plan_refuse(gcoll_builder *b, gcoll_status status, const char *format, ...);

/* ---- Algorithms ------------------------------------------------------------------------------------- */

#define GCOLL_BY_COST (-1) /* as min of an option: find the cheapest value */

/* An option of an algorithm, as in "group_butterfly:r=2:group=cyclic". */
typedef struct gcoll_option {
    const char *name;
    const char *help; /* not NULL */
    int64_t fallback; /* the value when it is not given; one of those allowed */
    int64_t min, max; /* allowed values, inclusive; ignored with words. min GCOLL_BY_COST: selection tries the
                       * values from 0 to max, which is at most 4096 unless they double, up to the first value
                       * above 1 that has the cost and load of the one before; a planner that gets
                       * GCOLL_BY_COST chooses by itself */
    const char *const *words; /* NULL, or allowed words, NULL-terminated: the value is the index */
    bool doubling;            /* selection tries 1, 2, 4, ... instead of all values */
} gcoll_option;

/* Claims: properties that an algorithm guarantees for a problem. The verifier computes them, and both must
 * agree.
 */
#define GCOLL_CLAIM_RANK_IDENTICAL 1u  /* all ranks that get a result get the same bits */
#define GCOLL_CLAIM_ORDERED        2u  /* keeps rank order, as operations that do not commute need */
#define GCOLL_CLAIM_RUN_IDENTICAL  4u  /* same inputs, same bits, in whatever order messages arrive */
#define GCOLL_CLAIM_PAIRS          8u  /* every element is built by the tree of GCOLL_ORDER_PAIRS */
#define GCOLL_CLAIM_LEFT           16u /* every element is built by the tree of GCOLL_ORDER_LEFT */
#define GCOLL_CLAIM_ALL            31u /* all of them; collectives that reduce nothing have them */
/* The only value of `claims` if there was no memory to compute them. The call then fails, because all ranks
 * must judge alike. */
#define GCOLL_CLAIM_UNKNOWN 0x80000000u

/* Returns the claims that every algorithm has, as a start for `claims`. A plan has no races, so it is
 * run-identical. Small problems have more:
 *
 *   one rank   the plan is a copy from IN to OUT, which is dropped in place. Every claim holds.
 *   count 0    steps of 0 elements are dropped; signals and awaits stay. Every claim holds.
 *   two ranks  an element is 0 op 1 or 1 op 0, which is one tree. A tree says which operands meet, and not on
 *              which side they stand: that is GCOLL_CLAIM_ORDERED. */
static inline uint32_t gcoll_trivial_claims(const gcoll_problem *problem) {
    if (problem->size == 1 || problem->count == 0)
        return GCOLL_CLAIM_ALL;
    return GCOLL_CLAIM_RUN_IDENTICAL | (problem->size == 2 ? GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT : 0u);
}

/* Returns the claim that an algorithm must make to build the tree of an order; 0 for ANY and DEFAULT. */
static inline uint32_t gcoll_order_claim(gcoll_order order) {
    return order == GCOLL_ORDER_PAIRS ? GCOLL_CLAIM_PAIRS : order == GCOLL_ORDER_LEFT ? GCOLL_CLAIM_LEFT : 0u;
}

/* Returns the trees that an algorithm builds if it builds `trees`: GCOLL_CLAIM_PAIRS, GCOLL_CLAIM_LEFT, both
 * or 0. For up to three contributions both are one tree, (0 op 1) op 2. Claims are of one buffer a rank; for
 * more the library finds them itself. */
static inline uint32_t gcoll_claimed_trees(const gcoll_problem *problem, uint32_t trees) {
    return trees != 0 && problem->size <= 3 ? GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT : trees;
}
/* Return the claims of an algorithm that builds every element by the tree of GCOLL_ORDER_PAIRS or of
 * GCOLL_ORDER_LEFT, with operands in rank order. */
static inline uint32_t gcoll_pairs_claims(const gcoll_problem *problem) {
    return GCOLL_CLAIM_RANK_IDENTICAL | GCOLL_CLAIM_ORDERED | gcoll_trivial_claims(problem) |
           gcoll_claimed_trees(problem, GCOLL_CLAIM_PAIRS);
}
static inline uint32_t gcoll_left_claims(const gcoll_problem *problem) {
    return GCOLL_CLAIM_RANK_IDENTICAL | GCOLL_CLAIM_ORDERED | gcoll_trivial_claims(problem) |
           gcoll_claimed_trees(problem, GCOLL_CLAIM_LEFT);
}

/* The cost of the busiest rank in the alpha-beta-gamma model with one port: messages one after the other,
 * elements sent (or received, if more), elements reduced; and the most scratch of any rank, in elements. */
typedef struct gcoll_cost {
    double steps; /* turns, as docs/algorithms.md calls them: the steps of gcoll_verify_report, plus the
                   * messages that queue for a port in each of them */
    double sent, reduced, scratch;
} gcoll_cost;

/* More of the cost, for ranks that share processors, for messages that follow one another without waiting,
 * and for ranks that share hosts. */
typedef struct gcoll_load {
    double hops;                    /* the longest chain of messages in which each waits for the one before */
    double messages, sent, reduced; /* of all ranks together; sent and reduced in elements */
    /* With the problem's `node`. The part of gcoll_cost.steps, of hops and of gcoll_cost.sent that stays
     * within hosts; 0: none. And of the ranks of a host, the part that sends to other hosts at the same time,
     * and so shares the host's link; 0: all of them. */
    double within_steps, within_hops, within_sent, crossing;
} gcoll_load;

/* An algorithm: a row of the table. Constant; it must live as long as the contexts that it is registered
 * with. */
typedef struct gcoll_algorithm {
    const char *name;
    gcoll_collective collective;
    const char *summary;         /* one line */
    const char *source;          /* where it is published */
    const gcoll_option *options; /* at most GCOLL_MAX_OPTIONS, ended by name NULL; or NULL */
    void (*plan)(const gcoll_problem *problem, gcoll_builder *builder);
    uint32_t (*claims)(const gcoll_problem *problem); /* GCOLL_CLAIM_*; NULL: GCOLL_CLAIM_ALL, as is right if
                                                       * the collective reduces nothing */
    void (*cost)(const gcoll_problem *problem, gcoll_cost *cost); /* by formula, without a plan; all NaN
                                                                   * if there was no memory for it */
    /* Refuses problems that the algorithm cannot do, by gcoll_unsupported. NULL: none. Refuse here and not in
     * `plan`, because selection asks this and builds no plan. No other function is called for a refused
     * problem. */
    gcoll_status (*applies)(const gcoll_problem *problem);
    bool uses_node; /* uses the problem's `node`. A context finds it out for an algorithm that is named or
                     * comes from a tuning file. If it chooses by cost, it sets `node` only if costs within
                     * hosts and between hosts are known; then `cost` and `load` of every algorithm see it,
                     * and `plan` of those that use it. Else it is NULL */
    /* By formula, called after `cost`. NULL, and for each field that it leaves 0: every step is a hop, all
     * ranks are as busy as the busiest, and messages go between hosts. All NaN: no memory for it. */
    void (*load)(const gcoll_problem *problem, gcoll_load *load);
    /* How this algorithm stages buffers in device memory, whatever the problem says. NULL: as the problem
     * says. A row with a staging repeats another row; for buffers in host memory they are the same, so
     * selection by cost leaves it out. */
    const gcoll_staging *staging;
    bool uses_arrival; /* uses the problem's `arrival_ns`, which a context with a monitor sets
                        * (gcoll/arrival.h); without it all ranks are assumed to come together */
    bool uses_tour;    /* uses the problem's `tour`, which a context has from the line `tour` of a tuning file
                        * (docs/tuning.md); without one it goes by rank. A context refuses it without a tour, and
                        * auto leaves it out */
    bool takes_order; /* builds the tree that the problem's `order` names. The planner then sees all `buffers`
                       * of the process: it reads IN[k] and writes OUT[k] of each */
    bool takes_codec; /* plans problems with a codec: one rank has each element of the result first, and all
                       * others get it from there; the vector is cut by gcoll_part_begin only */
} gcoll_algorithm;

/* Sets the last error to a text by format, as of printf, and returns GCOLL_ERR_UNSUPPORTED. */
GCOLL_API gcoll_status gcoll_unsupported(const char *format, ...);

/* Costs in seconds: alpha per message, beta per byte sent, gamma per byte reduced. */
typedef struct gcoll_cost_parameters {
    double alpha, beta, gamma;
} gcoll_cost_parameters;

/* A plug-in: a shared object of algorithms exports it as gcoll_plugin_table, by GCOLL_PLUGIN(list). */
typedef struct gcoll_plugin {
    uint32_t version_major,
        version_minor; /* of the header that it was compiled with; must equal the library's */
    const gcoll_algorithm *const *algorithms; /* ended by NULL */
} gcoll_plugin;

#define GCOLL_PLUGIN(list)                                                                                   \
    GCOLL_API extern const gcoll_plugin gcoll_plugin_table;                                                  \
    const gcoll_plugin gcoll_plugin_table = {GCOLL_VERSION_MAJOR, GCOLL_VERSION_MINOR, list}

/* ---- Plans ------------------------------------------------------------------------------------------ */

/* A plan: the steps of one rank. Immutable; holds no pointers to user data. */
typedef struct gcoll_plan gcoll_plan;

/* Makes the plan of problem->rank: calls the planner, then the passes for average, buffers and segment that
 * the problem asks for. Errors: INVALID (names the field), UNSUPPORTED (the algorithm's reason), NO_MEMORY,
 * INTERNAL (the planner broke a rule: an access out of bounds, a peer that is no other rank, ...). */
GCOLL_API gcoll_status gcoll_plan_create(const gcoll_algorithm *algorithm, const gcoll_problem *problem,
                                         gcoll_plan **plan);
GCOLL_API void gcoll_plan_destroy(gcoll_plan *plan);

/* Returns the bytes of memory that the plan occupies. */
GCOLL_API uint64_t gcoll_plan_memory_bytes(const gcoll_plan *plan);

/* Prints the plan, one line a step, to `file`, which is a FILE *. */
GCOLL_API void gcoll_plan_print(const gcoll_plan *plan, void *file);

/* ---- Verifier --------------------------------------------------------------------------------------- */

/* What the verifier counts over the plans of all ranks. */
typedef struct gcoll_verify_report {
    uint32_t steps;        /* the longest chain of messages in which each waits for the one before */
    uint64_t sent_max;     /* elements sent by the rank that sends the most */
    uint64_t sent_total;   /* elements sent by all ranks */
    uint64_t reduced_max;  /* elements reduced by the rank that reduces the most */
    uint64_t scratch_max;  /* elements */
    uint64_t messages_max; /* messages sent by the rank that sends the most */
    /* Elements copied from devices to the host, copied from the host to devices, and reduced by devices; each
     * of the rank with the most. */
    uint64_t copied_in_max, copied_out_max, folded_max;
    uint32_t claims;    /* GCOLL_CLAIM_* that hold */
    uint32_t encodings; /* with a codec: how often it rounds an input on the way to an output, at most.
                         * Encoding again without a change does not count */
} gcoll_verify_report;

/* Verifies the plans of all ranks: runs them symbolically by the rules above, over the hardest transport that
 * is allowed. plans[r] is the plan of rank r; all have the same size, collective and count. GCOLL_OK if every
 * output element of every rank holds what the collective promises, and the rest of an input in place is as it
 * was. Else GCOLL_ERR_INVALID, with a text that names rank and step: a message without a partner or of
 * another size, an access out of bounds or to memory that cannot be reached, an element copied between host
 * and device twice, two unordered steps on the same elements, a deadlock, an element that was never written,
 * an input that was, a contribution that is missing or comes twice. *report: what was counted. */
GCOLL_API gcoll_status gcoll_verify(const gcoll_plan *const *plans, uint32_t size,
                                    gcoll_verify_report *report);

GCOLL_END_DECLS

#endif
