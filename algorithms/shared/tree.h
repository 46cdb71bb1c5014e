/* algorithms/shared/tree.h - binary trees and chains of ranks that a vector travels block by block: the place
 * of a rank, and the parts of the vector. */
#ifndef GCOLL_TREE_H
#define GCOLL_TREE_H

#include "algorithms/planners.h"

#define GCOLL_TREE_NOBODY    UINT32_MAX
#define GCOLL_TREE_MAX_PARTS 65536

/* A row of an option table: the number of parts that the vector is cut in. */
#define GCOLL_TREE_PARTS_OPTION(NAME)                                                                        \
    {                                                                                                        \
        .name = (NAME), .help = NAME " that the vector is cut in, at most one an element; -1: by cost",      \
        .fallback = GCOLL_BY_COST, .min = GCOLL_BY_COST, .max = GCOLL_TREE_MAX_PARTS, .doubling = true       \
    }

/* The place of a rank in a binary tree that is numbered in post-order: the left subtree, then the right one,
 * then their root. So each subtree adds up consecutive ranks. */
typedef struct gcoll_tree_place {
    uint32_t parent, left, right; /* GCOLL_TREE_NOBODY if there is none; an only child is the left one */
    uint32_t depth;               /* 0: the root */
} gcoll_tree_place;

/* In the tree of ranks begin to end - 1. Its subtrees differ by one rank at most; the left one is the larger.
 */
static inline gcoll_tree_place gcoll_tree_find(uint32_t begin, uint32_t end, uint32_t rank) {
    gcoll_tree_place place = {GCOLL_TREE_NOBODY, GCOLL_TREE_NOBODY, GCOLL_TREE_NOBODY, 0};
    while (rank != end - 1) {
        uint32_t middle = begin + (end - begin) / 2;
        place.parent = end - 1;
        place.depth++;
        if (rank < middle) {
            end = middle;
        } else {
            begin = middle;
            end--;
        }
    }
    if (end - begin > 1)
        place.left = begin + (end - begin) / 2 - 1;
    if (end - begin > 2)
        place.right = end - 2;
    return place;
}

/* Steps that one block takes from the root to all of `size` ranks of such a tree when the left child, which
 * has more ranks below it, comes second. A block that goes up, or comes down left first, takes a step less
 * than this for size + 1. */
static inline uint32_t gcoll_tree_steps(uint32_t size) {
    uint32_t steps = 0;
    for (; size >= 4; size /= 2)
        steps += 2;
    return steps + size - 1;
}

/* The number of parts: the option's value, or a fixed rule where it is left to cost; at most one an element.
 */
static inline uint32_t gcoll_tree_parts(uint64_t n, int64_t option) {
    const uint64_t unchosen =
        16384; /* elements: transferring them takes longer than the start of a message */
    uint64_t parts = option < 1 ? n / unchosen : (uint64_t)option;
    uint64_t most = n < GCOLL_TREE_MAX_PARTS ? n : GCOLL_TREE_MAX_PARTS;
    parts = parts < most ? parts : most;
    return parts > 1 ? (uint32_t)parts : 1;
}

/* Part k of a vector; it is empty for a k out of range. */
typedef struct gcoll_tree_part {
    uint64_t begin, count;
} gcoll_tree_part;

static inline gcoll_tree_part gcoll_tree_part_make(const gcoll_problem *problem, uint32_t parts, int64_t k) {
    gcoll_tree_part part = {0, 0};
    if (k >= 0 && k < parts) {
        part.begin = gcoll_part_begin(problem, parts, (uint32_t)k);
        part.count = gcoll_part_count(problem, parts, (uint32_t)k);
    }
    return part;
}

/* Elements of the largest part. */
static inline uint64_t gcoll_tree_largest_part(uint64_t n, uint32_t parts) {
    return n / parts + (n % parts > 0);
}

#endif
