/* gcoll/plan/stage_ranges.c - finds the first user and the last writer of each element, and the order in
 * which the steps of a round get their data loaded. */
#include <stdlib.h>

#include "gcoll/plan/stage_internal.h"

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* All offsets at which accesses begin or end, with 0 and count, sorted and without duplicates. */
static uint64_t *boundaries(const gcoll_plan *plan, uint64_t count, gcoll_touched_fn touched, const void *arg,
                            uint32_t *found) {
    uint64_t *at = malloc((6 * (size_t)plan->step_count + 2) * sizeof *at);
    size_t used = 0;
    if (!at)
        return NULL;
    at[used++] = 0;
    at[used++] = count;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_touched t = touched(arg, &plan->steps[i]);
        for (uint32_t k = 0; k < t.reads + t.writes; k++) {
            at[used++] = t.begin[k];
            at[used++] = t.end[k];
        }
    }
    qsort(at, used, sizeof *at, by_value);
    size_t kept = 1;
    for (size_t i = 1; i < used; i++)
        if (at[i] != at[kept - 1])
            at[kept++] = at[i];
    *found = (uint32_t)kept;
    return at;
}

uint32_t gcoll_ranges_find(const gcoll_ranges *ranges, uint64_t offset) {
    uint32_t low = 0, high = ranges->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ranges->at[middle].end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void note(gcoll_ranges *ranges, uint64_t begin, uint64_t end, uint32_t step, bool writes) {
    for (uint32_t r = gcoll_ranges_find(ranges, begin); r < ranges->count && ranges->at[r].begin < end; r++) {
        gcoll_range *range = &ranges->at[r];
        if (range->first == GCOLL_NO_STEP) {
            range->first = step;
            range->reads = !writes;
        }
        if (writes)
            range->last = step;
    }
}

/* ---- Order -------------------------------------------------------------------------------------------- */

/* A step, and its place among the neighbouring steps of its round with the same kind and peer. */
typedef struct placed {
    uint32_t round, place, step;
} placed;

static int by_place(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

uint32_t *gcoll_stage_order(const gcoll_plan *plan) {
    placed *all = malloc((plan->step_count + (size_t)1) * sizeof *all);
    uint32_t *order = malloc((plan->step_count + (size_t)1) * sizeof *order);
    for (uint32_t i = 0; i < plan->step_count && all; i++) {
        const gcoll_step *step = &plan->steps[i], *before = i > 0 ? step - 1 : NULL;
        const bool goes_on = before && before->round == step->round && before->kind == step->kind &&
                             before->peer == step->peer;
        all[i] = (placed){step->round, goes_on ? all[i - 1].place + 1 : 0, i};
    }
    if (all)
        qsort(all, plan->step_count, sizeof *all, by_place);
    for (uint32_t i = 0; i < plan->step_count && all && order; i++)
        order[i] = all[i].step;
    if (!all) {
        free(order);
        order = NULL;
    }
    free(all);
    return order;
}

/* ---- Ranges ------------------------------------------------------------------------------------------- */

bool gcoll_ranges_create(const gcoll_plan *plan, uint64_t count, gcoll_touched_fn touched, const void *arg,
                         gcoll_ranges *ranges) {
    uint32_t found = 0;
    uint64_t *at = boundaries(plan, count, touched, arg, &found);
    ranges->count = found > 0 ? found - 1 : 0;
    ranges->at = at ? malloc((found + (size_t)1) * sizeof *ranges->at) : NULL;
    if (!ranges->at) {
        free(at);
        return false;
    }
    for (uint32_t r = 0; r < ranges->count; r++)
        ranges->at[r] = (gcoll_range){at[r], at[r + 1], GCOLL_NO_STEP, GCOLL_NO_STEP, false, false};
    free(at);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_touched t = touched(arg, &plan->steps[i]);
        for (uint32_t k = 0; k < t.reads + t.writes; k++)
            note(ranges, t.begin[k], t.end[k], i, k == t.reads);
    }
    return true;
}

void gcoll_ranges_destroy(gcoll_ranges *ranges) {
    free(ranges->at);
    *ranges = (gcoll_ranges){0};
}
