/* gcoll/plan/simulate_heap.c - a binary heap. Ties are broken by the caller, so the order is always the same.
 */
#include <stdlib.h>

#include "gcoll/plan/simulate_internal.h"

#define FIRST_ROOM 256u

static bool before(const gcoll_sim_entry *a, const gcoll_sim_entry *b) {
    return a->time != b->time ? a->time < b->time : a->tie < b->tie;
}

gcoll_status gcoll_sim_heap_push(gcoll_sim_heap *heap, gcoll_sim_entry entry) {
    if (heap->count == heap->room) {
        uint64_t room = heap->room ? 2 * heap->room : FIRST_ROOM, bytes;
        gcoll_sim_entry *at = NULL;
        if (gcoll_mul_u64(room, sizeof *at, &bytes) && bytes <= SIZE_MAX)
            at = realloc(heap->at, (size_t)bytes);
        if (!at)
            return gcoll_error(GCOLL_ERR_NO_MEMORY, "the simulator found no memory for its events");
        heap->at = at;
        heap->room = room;
    }
    uint64_t i = heap->count++;
    for (; i > 0 && before(&entry, &heap->at[(i - 1) / 2]); i = (i - 1) / 2)
        heap->at[i] = heap->at[(i - 1) / 2];
    heap->at[i] = entry;
    return GCOLL_OK;
}

gcoll_sim_entry gcoll_sim_heap_pop(gcoll_sim_heap *heap) {
    gcoll_sim_entry first = heap->at[0], last = heap->at[--heap->count];
    uint64_t i = 0, n = heap->count;
    for (uint64_t child = 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && before(&heap->at[child + 1], &heap->at[child]))
            child++;
        if (!before(&heap->at[child], &last))
            break;
        heap->at[i] = heap->at[child];
        i = child;
    }
    heap->at[i] = last;
    return first;
}
