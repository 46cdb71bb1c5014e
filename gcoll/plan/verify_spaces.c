/* gcoll/plan/verify_spaces.c - checks which steps touch device memory, and how often elements are copied.
 *
 * The host works on host memory, each device on its own memory; only copies cross between them. Each element
 * of a device buffer is copied to the host at most once, and written from the host at most once. */
#include <inttypes.h>
#include <stdlib.h>

#include "gcoll/plan/verify_internal.h"

/* ---- Access to memory --------------------------------------------------------------------------------- */

static uint32_t memory_of(const gcoll_plan *plan, gcoll_ref ref) {
    return gcoll_problem_memory(&plan->problem, ref);
}

/* Checks a step of the host. Only messages may touch device memory, and only if the transport reads it
 * itself. */
static gcoll_status check_host_step(const gcoll_verifier *v, uint32_t rank, uint32_t i) {
    const gcoll_plan *plan = v->plans[rank];
    const gcoll_step *step = &plan->steps[i];
    const uint32_t n = gcoll_verify_access_count(step);
    const bool is_carried = (step->kind == GCOLL_STEP_SEND || step->kind == GCOLL_STEP_RECV) &&
                            gcoll_problem_is_direct(&plan->problem);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t memory = memory_of(plan, gcoll_verify_access_at(plan, step, k).ref);
        if (memory != GCOLL_HOST_MEMORY && !is_carried)
            return gcoll_verify_fail(
                v, rank, i, "touches the memory of device %u, which the host cannot reach", memory - 1);
    }
    return GCOLL_OK;
}

/* Checks a copy, which may cross between host and device, or a fold, which only a device does. */
static gcoll_status check_device_step(const gcoll_verifier *v, uint32_t rank, uint32_t i) {
    const gcoll_plan *plan = v->plans[rank];
    const gcoll_step *step = &plan->steps[i];
    const bool peer = plan->problem.staging.local == GCOLL_LOCAL_PEER;
    const bool fold = step->kind == GCOLL_STEP_FOLD;
    const uint32_t home = memory_of(plan, step->dst), n = gcoll_verify_access_count(step);
    if (fold && home == GCOLL_HOST_MEMORY)
        return gcoll_verify_fail(v, rank, i, "a fold is done by a device, but the result is in host memory");
    for (uint32_t k = 0; k + 1 < n; k++) {
        uint32_t memory = memory_of(plan, gcoll_verify_access_at(plan, step, k).ref);
        if (memory == GCOLL_HOST_MEMORY && fold)
            return gcoll_verify_fail(v, rank, i, "reads host memory, which device %u cannot reach", home - 1);
        if (memory != GCOLL_HOST_MEMORY && home != GCOLL_HOST_MEMORY && memory != home && !peer)
            return gcoll_verify_fail(v, rank, i,
                                     "device %u reads the memory of device %u, which the plan's staging "
                                     "does not say they can",
                                     home - 1, memory - 1);
    }
    return GCOLL_OK;
}

static gcoll_status check_step(const gcoll_verifier *v, uint32_t rank, uint32_t i) {
    switch ((gcoll_step_kind)v->plans[rank]->steps[i].kind) {
    case GCOLL_STEP_DIVIDE:
        return GCOLL_OK; /* done where the element lies: host or device */
    case GCOLL_STEP_COPY:
    case GCOLL_STEP_FOLD:
        return check_device_step(v, rank, i);
    default:
        return check_host_step(v, rank, i);
    }
}

/* ---- Number of copies --------------------------------------------------------------------------------- */

/* A copy between the host and the buffer `memory`, which is on a device. */
typedef struct crossing {
    uint64_t begin, end;
    uint32_t memory, step;
    bool out; /* to the device */
} crossing;

static int compare(const void *a, const void *b) {
    const crossing *x = a, *y = b;
    if (x->memory != y->memory)
        return x->memory < y->memory ? -1 : 1;
    if (x->out != y->out)
        return x->out ? 1 : -1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

static bool crosses(const gcoll_plan *plan, uint32_t i, crossing *made) {
    const gcoll_step *step = &plan->steps[i];
    const bool out = memory_of(plan, step->dst) != GCOLL_HOST_MEMORY;
    if (step->count == 0 || step->kind != GCOLL_STEP_COPY ||
        out == (memory_of(plan, step->a) != GCOLL_HOST_MEMORY))
        return false;
    const gcoll_ref buffer = out ? step->dst : step->a;
    *made = (crossing){buffer.offset, buffer.offset + step->count,
                       gcoll_verify_memory_index(&plan->problem, buffer), i, out};
    return true;
}

static gcoll_status report_twice(const gcoll_verifier *v, uint32_t rank, const crossing *x,
                                 const crossing *y) {
    const gcoll_plan *plan = v->plans[rank];
    const crossing *first = x->step < y->step ? x : y, *second = x->step < y->step ? y : x;
    char name[GCOLL_VERIFY_TEXT], other[GCOLL_VERIFY_TEXT];
    return gcoll_verify_fail(v, rank, second->step,
                             "copies %s element %" PRIu64 " %s, as step %u (%s) does: once is enough",
                             gcoll_verify_memory_name(&plan->problem, x->memory, name), y->begin,
                             x->out ? "to its device" : "to the host", first->step,
                             gcoll_verify_describe(&plan->steps[first->step], other));
}

/* Checks that no two copies overlap. Once sorted by their begin, each is compared with the one before it. */
static gcoll_status check_once(const gcoll_verifier *v, uint32_t rank, crossing *all, uint64_t count) {
    const crossing *furthest = all;
    qsort(all, count, sizeof *all, compare);
    for (uint64_t k = 1; k < count; k++) {
        if (all[k].memory == furthest->memory && all[k].out == furthest->out) {
            if (all[k].begin < furthest->end)
                return report_twice(v, rank, furthest, &all[k]);
        }
        furthest = &all[k];
    }
    return GCOLL_OK;
}

gcoll_status gcoll_verify_spaces(const gcoll_verifier *v, uint32_t rank) {
    const gcoll_plan *plan = v->plans[rank];
    uint64_t count = 0, room = 0;
    crossing *all = NULL, made;
    gcoll_status status = GCOLL_OK;
    for (uint32_t i = 0; i < plan->step_count && !status; i++) {
        status = check_step(v, rank, i);
        if (status || !crosses(plan, i, &made))
            continue;
        status = gcoll_verify_reserve(&all, &room, count + 1, sizeof *all);
        if (!status)
            all[count++] = made;
    }
    if (!status && count > 1)
        status = check_once(v, rank, all, count);
    free(all);
    return status;
}
