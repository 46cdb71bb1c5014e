/* algorithms/shared/by_arrival.c - see by_arrival.h. */
#include "algorithms/shared/by_arrival.h"

#include <stdlib.h>

static bool before(gcoll_ready a, gcoll_ready b) {
    return a.when != b.when ? a.when < b.when : a.rank < b.rank;
}

static int compare(const void *left, const void *right) {
    const gcoll_ready *a = left, *b = right;
    return before(*a, *b) ? -1 : 1; /* no rank is there twice */
}

static int64_t first_arrival(const gcoll_problem *problem) {
    int64_t first = problem->arrival_ns[0];
    for (uint32_t r = 1; r < problem->size; r++)
        first = problem->arrival_ns[r] < first ? problem->arrival_ns[r] : first;
    return first;
}

gcoll_ready *gcoll_by_arrival(const gcoll_problem *problem) {
    gcoll_ready *order = calloc(problem->size, sizeof *order);
    const bool known = order && problem->arrival_ns;
    const uint64_t first = known ? (uint64_t)first_arrival(problem) : 0;
    for (uint32_t r = 0; order && r < problem->size; r++)
        order[r] = (gcoll_ready){known ? (uint64_t)problem->arrival_ns[r] - first : 0, r};
    if (known)
        qsort(order, problem->size, sizeof *order, compare);
    return order;
}

bool gcoll_arrive_together(const gcoll_problem *problem) {
    if (!problem->arrival_ns)
        return true;
    const uint64_t first = (uint64_t)first_arrival(problem), segment = gcoll_segment_time(problem);
    for (uint32_t r = 0; r < problem->size; r++)
        if ((uint64_t)problem->arrival_ns[r] - first >= segment)
            return false;
    return true;
}

uint64_t gcoll_segment_time(const gcoll_problem *problem) {
    return problem->segment_ns > 0 ? (uint64_t)problem->segment_ns : 1;
}

uint64_t gcoll_vector_time(const gcoll_problem *problem) {
    uint64_t time;
    return __builtin_mul_overflow(gcoll_segment_time(problem), (uint64_t)problem->size, &time) ? UINT64_MAX
                                                                                               : time;
}

void gcoll_ready_put(gcoll_ready_heap *heap, gcoll_ready ready) {
    uint32_t i = heap->count++;
    for (; i > 0 && before(ready, heap->at[(i - 1) / 2]); i = (i - 1) / 2)
        heap->at[i] = heap->at[(i - 1) / 2];
    heap->at[i] = ready;
}

gcoll_ready gcoll_ready_take(gcoll_ready_heap *heap) {
    const gcoll_ready first = heap->at[0], last = heap->at[--heap->count];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child + 1 < heap->count && before(heap->at[child + 1], heap->at[child]))
            child++;
        if (child >= heap->count || !before(heap->at[child], last))
            break;
        heap->at[i] = heap->at[child];
        i = child;
    }
    heap->at[i] = last; /* for an empty heap this is `first`, out of use */
    return first;
}
