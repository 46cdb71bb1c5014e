/*
 * tools/tour.c - the travelling salesman: a short way through all places and back.
 *
 * A tour is improved until none of two moves shortens it: a segment goes elsewhere, in either direction
 * (Or-opt; with segments of any length the 3-opt move that reverses nothing, and its form with one reversal),
 * or a range is reversed (2-opt). Lengths may differ by direction, so what lies inside a reversed range is
 * counted, too.
 *
 * Source: S. Lin, Computer solutions of the traveling salesman problem, Bell System Technical Journal 44
 * (1965), 3-opt; I. Or, Traveling salesman-type combinatorial problems, PhD thesis, Northwestern University
 * (1976); O. Martin, S. W. Otto and E. W. Felten, Large-step Markov chains for the traveling salesman
 * problem, Complex Systems 5 (1991), changes of the best tour by a double bridge.
 */
#include "tools/tour.h"

#include <stdlib.h>
#include <string.h>

#include "tools/random.h"

#define LEAST_GAIN    1e-9 /* of the tour's length: less may be rounding, and would be found again and again */
#define SWEEP_MOVES   4000000 /* about as many moves of segments are looked at in one sweep */
#define LEAST_SEGMENT 3       /* but segments of so many places at least */
#define LEAST_BRIDGE  8       /* places of a tour that a double bridge changes; smaller ones are shuffled */

typedef struct tour {
    const double *length;
    uint32_t size, longest; /* longest: segment that is moved */
    uint32_t *order, *spare;
    double least; /* that a move must gain */
} tour;

/* Positions count on beyond the last one. */
static uint32_t *at(const tour *t, uint32_t position) {
    return &t->order[position % t->size];
}

static double way(const tour *t, uint32_t from, uint32_t to) {
    return t->length[(size_t)*at(t, from) * t->size + *at(t, to)];
}

double tool_tour_length(const double *length, uint32_t size, const uint32_t *order) {
    double sum = 0;
    for (uint32_t i = 0; i < size; i++)
        sum += length[(size_t)order[i] * size + order[(i + 1) % size]];
    return sum;
}

/* ---- Moves --------------------------------------------------------------------------------------------- */

static void reverse(tour *t, uint32_t first, uint32_t last) {
    for (; first < last; first++, last--) {
        const uint32_t kept = *at(t, first);
        *at(t, first) = *at(t, last);
        *at(t, last) = kept;
    }
}

/* Moves the `count` places behind position i to behind position k, which is further on. */
static void move(tour *t, uint32_t i, uint32_t count, uint32_t k) {
    for (uint32_t s = 0; s < count; s++)
        t->spare[s] = *at(t, i + 1 + s);
    for (uint32_t p = i + 1; p + count <= k; p++)
        *at(t, p) = *at(t, p + count);
    for (uint32_t s = 0; s < count; s++)
        *at(t, k - count + 1 + s) = t->spare[s];
}

/* Reverses the range behind position i that shortens the tour, the shortest one. */
static bool try_reversals(tour *t, uint32_t i) {
    double there = 0, back = 0; /* along the range, and the other way */
    for (uint32_t k = i + 2; k < i + t->size; k++) {
        there += way(t, k - 1, k);
        back += way(t, k, k - 1);
        const double gain =
            way(t, i, i + 1) + there + way(t, k, k + 1) - way(t, i, k) - back - way(t, i + 1, k + 1);
        if (gain > t->least) {
            reverse(t, i + 1, k);
            return true;
        }
    }
    return false;
}

/* Moves the segment behind position i, of so many places, to where it shortens the tour. turned: what it
 * gains if it is reversed. */
static bool try_places(tour *t, uint32_t i, uint32_t count, double turned) {
    const uint32_t last = i + count;
    const double closed = way(t, i, i + 1) + way(t, last, last + 1) - way(t, i, last + 1);
    for (uint32_t k = last + 1; k < i + t->size; k++) {
        const double open = closed + way(t, k, k + 1);
        const double gain = open - way(t, k, i + 1) - way(t, last, k + 1);
        const double gain_turned = open + turned - way(t, k, last) - way(t, i + 1, k + 1);
        if (gain <= t->least && gain_turned <= t->least)
            continue;
        if (gain_turned > gain)
            reverse(t, i + 1, last);
        move(t, i, count, k);
        return true;
    }
    return false;
}

static bool try_segments(tour *t, uint32_t i) {
    double turned = 0;
    for (uint32_t count = 1; count <= t->longest; count++) {
        if (count > 1)
            turned += way(t, i + count - 1, i + count) - way(t, i + count, i + count - 1);
        if (try_places(t, i, count, turned))
            return true;
    }
    return false;
}

static void improve(tour *t) {
    t->least = LEAST_GAIN * tool_tour_length(t->length, t->size, t->order);
    for (uint32_t i = 0, since = 0; since < t->size; i = (i + 1) % t->size)
        since = try_segments(t, i) || try_reversals(t, i) ? 0 : since + 1;
}

/* ---- Where a try begins ----------------------------------------------------------------------------------
 */

static void go_to_nearest(tour *t, uint32_t first) {
    for (uint32_t i = 0; i < t->size; i++)
        t->order[i] = (first + i) % t->size;
    for (uint32_t i = 0; i + 2 < t->size; i++) {
        uint32_t nearest = i + 1;
        for (uint32_t k = i + 2; k < t->size; k++)
            if (way(t, i, k) < way(t, i, nearest))
                nearest = k;
        const uint32_t kept = t->order[i + 1];
        t->order[i + 1] = t->order[nearest];
        t->order[nearest] = kept;
    }
}

static void shuffle(tour *t, uint64_t *random) {
    for (uint32_t i = t->size; i > 1; i--) {
        const uint32_t k = tool_random_below(random, i), kept = t->order[i - 1];
        t->order[i - 1] = t->order[k];
        t->order[k] = kept;
    }
}

/* Four segments a b c d become a d c b, none of them reversed: no single move above leads back. */
static void bridge(tour *t, uint64_t *random) {
    const uint32_t quarter = t->size / 4;
    uint32_t cut[5] = {0, 0, 0, 0, t->size}, used = 0;
    for (uint32_t s = 1; s < 4; s++)
        cut[s] = (s - 1) * quarter + 1 + tool_random_below(random, quarter);
    static const uint32_t turn[4] = {0, 3, 2, 1};
    for (uint32_t s = 0; s < 4; s++)
        for (uint32_t p = cut[turn[s]]; p < cut[turn[s] + 1]; p++)
            t->spare[used++] = t->order[p];
    memcpy(t->order, t->spare, t->size * sizeof *t->order);
}

static void begin(tour *t, uint32_t attempt, uint32_t tries, const uint32_t *best, uint64_t *random) {
    memcpy(t->order, best, t->size * sizeof *t->order);
    if (attempt == 0)
        return;
    if (attempt <= t->size && attempt <= tries / 2)
        go_to_nearest(t, attempt - 1);
    else if (t->size < LEAST_BRIDGE)
        shuffle(t, random);
    else
        bridge(t, random);
}

/* ---- The search ------------------------------------------------------------------------------------------
 */

static void begin_with_first(tour *t, uint32_t *order) {
    uint32_t zero = 0;
    while (order[zero] != 0)
        zero++;
    memcpy(t->order, order, t->size * sizeof *order);
    for (uint32_t i = 0; i < t->size; i++)
        order[i] = *at(t, zero + i);
}

bool tool_tour_search(const double *length, uint32_t size, uint32_t tries, uint64_t seed, uint32_t *order) {
    const uint64_t room = SWEEP_MOVES / ((uint64_t)size * size) + LEAST_SEGMENT;
    tour t = {.length = length, .size = size};
    t.longest = size < 3 ? 0 : room < size - 2 ? (uint32_t)room : size - 2;
    t.order = calloc(size, sizeof *t.order);
    t.spare = calloc(size, sizeof *t.spare);
    const bool good = t.order && t.spare;
    double best = good ? tool_tour_length(length, size, order) : 0;
    for (uint32_t i = 0; good && i < tries && size > 2; i++) {
        begin(&t, i, tries, order, &seed);
        improve(&t);
        const double found = tool_tour_length(length, size, t.order);
        if (found < best) {
            best = found;
            memcpy(order, t.order, size * sizeof *order);
        }
    }
    if (good)
        begin_with_first(&t, order);
    free(t.order);
    free(t.spare);
    return good;
}
