/* algorithms/alltoall/alltoall_bruck.c - all-to-all in log2 P steps: blocks travel by way of other ranks,
 * many in a message.
 *
 * At rank r, slot i begins with the block for rank r + i. Step k sends all slots whose bit k is set to the
 * rank 2^k above, in one message; so a block has moved by i ranks in the end. Slots i that agree in all but
 * the k lowest bits have one destination, hence one size: they lie side by side, and are packed and
 * unpacked together.
 *
 * Source: J. Bruck, C. Ho, S. Kipnis, E. Upfal and D. Weathersby, Efficient algorithms for all-to-all
 * communications in multiport message-passing systems, IEEE Trans. Parallel Distrib. Syst. 8 (1997), section
 * 3.
 *
 * Steps: L = ceil(log2 P). Elements sent: L n/2 for P a power of two, never more. Reduced: none.
 *
 * Restrictions: block sizes that every rank knows, so no offsets. Scratch: about 2n for P > 1. Each block is
 * copied about L + 2 times, hence for small blocks. */
#include "algorithms/planners.h"

typedef struct bruck {
    const gcoll_problem *problem;
    gcoll_builder *b;
    uint64_t stride; /* elements of a slot */
    gcoll_ref slots, outbox, inbox;
} bruck;

static uint64_t size_for(const bruck *k, uint32_t distance) {
    return gcoll_block_count(k->problem, gcoll_rank_above(k->problem, distance));
}

/* Slots with the bit of `width` set. */
static uint32_t moving(uint32_t size, uint32_t width) {
    uint32_t whole = size / (2 * width) * width, rest = size % (2 * width);
    return whole + (rest > width ? rest - width : 0);
}

/* Packs (out) or unpacks (in) the runs of slots that move by `width`. The slots of a run, from slot `base` +
 * width on, are for the rank base + width above before they move, and for the rank base above afterwards.
 * Returns the number of elements. */
static uint64_t each_run(const bruck *k, uint32_t width, bool out) {
    uint64_t at = 0;
    const uint32_t size = k->problem->size;
    for (uint64_t base = 0; base + width < size; base += 2 * (uint64_t)width) {
        uint32_t first = (uint32_t)base + width, run = width < size - first ? width : size - first;
        uint64_t each = size_for(k, out ? first : (uint32_t)base), count = run * each;
        if (out)
            gcoll_plan_copy(k->b, gcoll_ref_add(k->outbox, at), gcoll_ref_add(k->slots, first * k->stride),
                            count);
        else /* after the slots that did not move, which have the same destination */
            gcoll_plan_copy(k->b, gcoll_ref_add(k->slots, base * k->stride + width * each),
                            gcoll_ref_add(k->inbox, at), count);
        at += count;
    }
    return at;
}

/* The number of elements that arrive: as if they were packed here after they moved. */
static uint64_t incoming(const bruck *k, uint32_t width) {
    uint64_t elements = 0;
    const uint32_t size = k->problem->size;
    for (uint64_t base = 0; base + width < size; base += 2 * (uint64_t)width) {
        uint64_t left = size - base - width;
        elements += (width < left ? width : left) * size_for(k, (uint32_t)base);
    }
    return elements;
}

static void bruck_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size;
    if (size == 1) {
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
        return;
    }
    const uint64_t stride = gcoll_largest_chunk(problem->count, size);
    bruck k = {.problem = problem, .b = b, .stride = stride};
    k.slots = gcoll_plan_scratch(b, size * stride);
    k.outbox = gcoll_plan_scratch(b, moving(size, 1) * stride); /* the first step moves most */
    k.inbox = gcoll_plan_scratch(b, moving(size, 1) * stride);
    for (uint32_t i = 0; i < size; i++)
        gcoll_plan_copy(b, gcoll_ref_add(k.slots, i * stride),
                        gcoll_in(0, gcoll_block_begin(problem, gcoll_rank_above(problem, i))),
                        size_for(&k, i));
    for (uint32_t width = 1; width < size; width *= 2) {
        uint64_t elements = each_run(&k, width, true);
        gcoll_plan_send(b, gcoll_rank_above(problem, width), k.outbox, elements);
        gcoll_plan_recv(b, gcoll_rank_below(problem, width), k.inbox, incoming(&k, width));
        each_run(&k, width, false);
        gcoll_plan_round(b);
    }
    for (uint32_t i = 0; i < size; i++) /* slot i has come from i ranks below */
        gcoll_plan_copy(b, gcoll_out(0, gcoll_recv_begin(problem, gcoll_rank_below(problem, i))),
                        gcoll_ref_add(k.slots, i * size_for(&k, 0)), size_for(&k, 0));
}

static gcoll_status bruck_applies(const gcoll_problem *problem) {
    if (problem->offsets)
        return gcoll_unsupported(
            "alltoall by bruck passes on the blocks of others, whose sizes no rank knows "
            "where offsets are given; allowed are equal blocks");
    return GCOLL_OK;
}

static void bruck_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const uint32_t size = problem->size;
    const double block = (double)gcoll_largest_chunk(problem->count, size);
    *cost = (gcoll_cost){.steps = gcoll_log2_ceil(size)};
    for (uint64_t width = 1; width < size; width *= 2)
        cost->sent += moving(size, (uint32_t)width) * block;
    if (size > 1)
        cost->scratch = (size + 2.0 * moving(size, 1)) * block;
}

const gcoll_algorithm gcoll_alltoall_bruck_algorithm = {
    .name = "bruck",
    .collective = GCOLL_ALLTOALL,
    .summary = "blocks hop in ceil(log2 P) steps, many in a message; for small blocks",
    .source = "Bruck and others 1997, section 3",
    .plan = bruck_plan,
    .cost = bruck_cost,
    .applies = bruck_applies,
};
