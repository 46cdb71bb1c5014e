/* algorithms/gather_scatter/gather_scatter_binomial.c - gather up, and scatter down, a binomial tree.
 *
 * Ranks are numbered from the root ("places"). The subtree of place p is places [p, p + span); its blocks
 * cross each link in one message, in the order of places. An inner rank stores them in scratch. The root
 * stores them in the vector itself, in rank order: the one subtree that wraps round the end of the vector
 * takes one message more.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), the sections on gather and scatter.
 *
 * Steps: L = ceil(log2 P).
 *
 * Elements sent (scatter) or received (gather) by the root: n less its block. Reduced: none.
 *
 * Restrictions: none. Scratch on inner ranks: the blocks of their subtree, n/2 for P a power of two. */
#include "algorithms/planners.h"

static uint32_t rank_of(const gcoll_problem *p, uint32_t place) {
    return (uint32_t)(((uint64_t)place + p->root) % p->size);
}

/* Where the block of a place begins if the root's block is first and the others follow; place = P: the end.
 */
static uint64_t begin_of(const gcoll_problem *p, uint32_t place) {
    uint64_t first = gcoll_block_begin(p, p->root);
    if (place <= p->size - p->root)
        return gcoll_block_begin(p, p->root + place) - first;
    return p->count - first + gcoll_block_begin(p, place - (p->size - p->root));
}

/* Places in the subtree of place > 0. */
static uint32_t span_of(const gcoll_problem *p, uint32_t place) {
    uint32_t low = place & (0 - place), rest = p->size - place;
    return low < rest ? low : rest;
}

static uint64_t elements_of(const gcoll_problem *p, uint32_t place) {
    return begin_of(p, place + span_of(p, place)) - begin_of(p, place);
}

/* Sends or receives the blocks of a subtree, at one end of a link. */
typedef void (*message_fn)(gcoll_builder *b, uint32_t peer, gcoll_ref data, uint64_t count);

/* The message between the root and its child at place `child`, whose blocks at the other end are one range
 * from `data` on. In the root's vector they are two ranges if they wrap round; hence two messages. */
static void with_root(const gcoll_problem *p, gcoll_builder *b, message_fn message, uint32_t peer,
                      uint32_t child, bool at_root, gcoll_ref data) {
    const uint64_t count = elements_of(p, child), to_end = p->count - gcoll_block_begin(p, p->root);
    const uint64_t begin = begin_of(p, child);
    const uint64_t before = begin >= to_end ? 0 : to_end - begin < count ? to_end - begin : count;
    const uint64_t wrapped = begin > to_end ? begin - to_end : 0;
    gcoll_ref low = at_root ? gcoll_ref_add(data, p->count - to_end + begin) : data;
    gcoll_ref high = at_root ? gcoll_ref_add(data, wrapped) : gcoll_ref_add(data, before);
    message(b, peer, low, before);
    message(b, peer, high, count - before);
}

/* The place where this rank (not the root) holds the blocks of its subtree. A leaf has only its own block,
 * in `own`. */
static gcoll_ref held_at(const gcoll_problem *p, gcoll_builder *b, uint32_t place, gcoll_ref own) {
    return span_of(p, place) > 1 ? gcoll_plan_scratch(b, elements_of(p, place)) : own;
}

static void to_parent(const gcoll_problem *p, gcoll_builder *b, message_fn message, uint32_t place,
                      gcoll_ref held) {
    uint32_t parent = place & (place - 1);
    if (parent == 0)
        with_root(p, b, message, p->root, place, false, held);
    else
        message(b, rank_of(p, parent), held, elements_of(p, place));
}

static void to_child(const gcoll_problem *p, gcoll_builder *b, message_fn message, uint32_t place,
                     uint32_t child, gcoll_ref held) {
    if (place == 0)
        with_root(p, b, message, rank_of(p, child), child, true, held);
    else
        message(b, rank_of(p, child), gcoll_ref_add(held, begin_of(p, child) - begin_of(p, place)),
                elements_of(p, child));
}

static void gather_plan(const gcoll_problem *p, gcoll_builder *b) {
    const uint32_t place = (p->rank + p->size - p->root) % p->size;
    const uint64_t own = gcoll_block_count(p, p->rank);
    gcoll_ref held = place == 0 ? gcoll_out(0, 0) : held_at(p, b, place, gcoll_in(0, 0));
    gcoll_plan_copy(b, place == 0 ? gcoll_out(0, gcoll_block_begin(p, p->rank)) : held, gcoll_in(0, 0), own);
    for (uint32_t distance = 1; distance < p->size; distance *= 2) {
        if (place & distance) {
            to_parent(p, b, gcoll_plan_send, place, held);
            return;
        }
        if (distance < p->size - place)
            to_child(p, b, gcoll_plan_recv, place, place + distance, held);
        gcoll_plan_round(b);
    }
}

static void scatter_plan(const gcoll_problem *p, gcoll_builder *b) {
    const uint32_t place = (p->rank + p->size - p->root) % p->size;
    const uint64_t own = gcoll_block_count(p, p->rank);
    gcoll_ref held = place == 0 ? gcoll_in(0, 0) : held_at(p, b, place, gcoll_out(0, 0));
    for (uint32_t level = gcoll_log2_ceil(p->size); level-- > 0;) {
        uint32_t distance = UINT32_C(1) << level, within = place & (2 * distance - 1);
        if (within == distance)
            to_parent(p, b, gcoll_plan_recv, place, held);
        else if (within == 0 && distance < p->size - place)
            to_child(p, b, gcoll_plan_send, place, place + distance, held);
        gcoll_plan_round(b);
    }
    gcoll_plan_copy(b, gcoll_out(0, 0), place == 0 ? gcoll_in(0, gcoll_block_begin(p, p->rank)) : held, own);
}

static void binomial_cost(const gcoll_problem *p, gcoll_cost *cost) {
    uint64_t own = gcoll_block_count(p, p->root), scratch = 0;
    for (uint32_t child = 2; child < p->size; child *= 2) /* an inner rank's subtree is in one of these */
        if (span_of(p, child) > 1 && elements_of(p, child) > scratch)
            scratch = elements_of(p, child);
    /* The additional message for the subtree that wraps round is not counted. */
    *cost = (gcoll_cost){gcoll_log2_ceil(p->size), (double)(p->count - own), 0, (double)scratch};
}

/* The number of links that all blocks travel, added up: the block of a place travels one for each bit set in
 * its number. */
static double all_links(uint32_t size) {
    double links = 0;
    for (uint64_t bit = 1; bit < size;
         bit *= 2) { /* places with this bit form runs; the last run may be cut */
        const uint64_t whole = size / (2 * bit) * bit, rest = size % (2 * bit);
        links += (double)(whole + (rest > bit ? rest - bit : 0));
    }
    return links;
}

/* The load. Equal blocks are not visited one by one, as there may be a million. */
static void binomial_load(const gcoll_problem *p, gcoll_load *load) {
    *load = (gcoll_load){.hops = gcoll_log2_ceil(p->size), .messages = p->size - 1.0};
    if (!p->offsets)
        load->sent = (double)p->count / p->size * all_links(p->size);
    for (uint32_t place = 1; place < p->size && p->offsets; place++)
        load->sent += (double)elements_of(p, place);
}

const gcoll_algorithm gcoll_gather_binomial_algorithm = {
    .name = "binomial",
    .collective = GCOLL_GATHER,
    .summary = "blocks come up a binomial tree; ceil(log2 P) steps",
    .source = "Thakur, Rabenseifner and Gropp 2005, gather",
    .plan = gather_plan,
    .cost = binomial_cost,
    .load = binomial_load,
};

const gcoll_algorithm gcoll_scatter_binomial_algorithm = {
    .name = "binomial",
    .collective = GCOLL_SCATTER,
    .summary = "blocks go down a binomial tree; ceil(log2 P) steps",
    .source = "Thakur, Rabenseifner and Gropp 2005, scatter",
    .plan = scatter_plan,
    .cost = binomial_cost,
    .load = binomial_load,
};
