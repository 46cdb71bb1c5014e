/* gcoll/plan/verify.c - the verifier's entry, and small functions that its files share. See
 * verify_internal.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan/verify_internal.h"

gcoll_status gcoll_verify_reserve(void *array, uint64_t *room, uint64_t needed, size_t element_bytes) {
    if (needed <= *room)
        return GCOLL_OK;
    uint64_t more = *room < UINT64_MAX / 2 ? 2 * *room : needed;
    more = more < needed ? needed : more;
    void *old, *bigger = NULL;
    uint64_t bytes;
    memcpy(&old, array, sizeof old);
    if (gcoll_mul_u64(more, element_bytes, &bytes) && bytes <= SIZE_MAX)
        bigger = realloc(old, (size_t)bytes);
    if (!bigger)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "the verifier found no memory for %" PRIu64 " entries", more);
    memcpy(array, &bigger, sizeof bigger);
    *room = more;
    return GCOLL_OK;
}

void *gcoll_verify_allocate(uint64_t count, size_t element_bytes) {
    void *memory = count <= SIZE_MAX ? calloc(count ? (size_t)count : 1, element_bytes) : NULL;
    if (!memory)
        gcoll_error(GCOLL_ERR_NO_MEMORY, "the verifier found no memory for %" PRIu64 " entries", count);
    return memory;
}

const char *gcoll_verify_describe(const gcoll_step *step, char text[GCOLL_VERIFY_TEXT]) {
    static const char *const kinds[GCOLL_STEP_KIND_COUNT] = {
        [GCOLL_STEP_SEND] = "send to",
        [GCOLL_STEP_RECV] = "recv from",
        [GCOLL_STEP_RECV_REDUCE] = "recv and reduce from",
        [GCOLL_STEP_REDUCE] = "reduce",
        [GCOLL_STEP_COPY] = "copy",
        [GCOLL_STEP_DIVIDE] = "divide",
        [GCOLL_STEP_FOLD] = "fold",
        [GCOLL_STEP_ENCODE] = "encode",
        [GCOLL_STEP_DECODE] = "decode",
        [GCOLL_STEP_DECODE_REDUCE] = "decode and reduce",
    };
    const char *plural = step->count == 1 ? "" : "s";
    if (step->kind >= GCOLL_STEP_KIND_COUNT)
        snprintf(text, GCOLL_VERIFY_TEXT, "kind %u", (unsigned)step->kind);
    else if (gcoll_step_is_message(step))
        snprintf(text, GCOLL_VERIFY_TEXT, "%s %u, %" PRIu64 " element%s", kinds[step->kind], step->peer,
                 step->count, plural);
    else if (step->kind == GCOLL_STEP_FOLD)
        snprintf(text, GCOLL_VERIFY_TEXT, "fold of %u, %" PRIu64 " element%s", step->operand_count,
                 step->count, plural);
    else
        snprintf(text, GCOLL_VERIFY_TEXT, "%s, %" PRIu64 " element%s", kinds[step->kind], step->count,
                 plural);
    return text;
}

gcoll_status gcoll_verify_fail(const gcoll_verifier *v, uint32_t rank, uint32_t step, const char *format,
                               ...) {
    char what[512], name[GCOLL_VERIFY_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return gcoll_error(GCOLL_ERR_INVALID, "rank %u, step %u (%s): %s", rank, step,
                       gcoll_verify_describe(&v->plans[rank]->steps[step], name), what);
}

static uint32_t reads(const gcoll_step *step) {
    switch ((gcoll_step_kind)step->kind) {
    case GCOLL_STEP_RECV:
    case GCOLL_STEP_DIVIDE: /* reads only its destination */
        return 0;
    case GCOLL_STEP_REDUCE:
    case GCOLL_STEP_DECODE_REDUCE:
        return 2;
    case GCOLL_STEP_FOLD:
        return step->operand_count;
    default:
        return 1;
    }
}

uint32_t gcoll_verify_access_count(const gcoll_step *step) {
    return step->count == 0 ? 0 : reads(step) + (step->kind != GCOLL_STEP_SEND ? 1 : 0);
}

gcoll_verify_access gcoll_verify_access_at(const gcoll_plan *plan, const gcoll_step *step, uint32_t k) {
    const gcoll_problem *problem = &plan->problem;
    if (k == reads(step))
        return (gcoll_verify_access){step->dst, true, gcoll_step_dst_count(problem, step)};
    gcoll_verify_access access = {step->a, false, gcoll_step_a_count(problem, step)};
    if (k > 0 && step->kind != GCOLL_STEP_FOLD)
        access = (gcoll_verify_access){step->b, false, gcoll_step_b_count(problem, step)};
    if (step->kind == GCOLL_STEP_FOLD)
        access.ref.index = plan->operands[step->first_operand + k];
    return access;
}

const char *gcoll_verify_memory_name(const gcoll_problem *problem, uint32_t index,
                                     char text[GCOLL_VERIFY_TEXT]) {
    if (index == gcoll_verify_memory_count(problem) - 1)
        snprintf(text, GCOLL_VERIFY_TEXT, "SCRATCH");
    else if (problem->in_place)
        snprintf(text, GCOLL_VERIFY_TEXT, "OUT[%u]", index);
    else
        snprintf(text, GCOLL_VERIFY_TEXT, "%s[%u]", index < problem->buffers ? "IN" : "OUT",
                 index % problem->buffers);
    return text;
}

/* Numbers steps, contributions and memories of all ranks. */
static gcoll_status number(gcoll_verifier *v) {
    v->base = gcoll_verify_allocate((uint64_t)v->size + 1, sizeof *v->base);
    v->leaf = gcoll_verify_allocate((uint64_t)v->size + 1, sizeof *v->leaf);
    v->memory_at = gcoll_verify_allocate((uint64_t)v->size + 1, sizeof *v->memory_at);
    if (!v->base || !v->leaf || !v->memory_at)
        return GCOLL_ERR_NO_MEMORY;
    for (uint32_t r = 0; r < v->size; r++) {
        const gcoll_plan *plan = v->plans[r];
        v->base[r + 1] = v->base[r] + plan->step_count;
        v->leaf[r + 1] = v->leaf[r] + plan->problem.buffers; /* < 2^31: 2^20 ranks, 2^10 buffers */
        v->memory_at[r + 1] = v->memory_at[r] + gcoll_verify_memory_count(&plan->problem);
    }
    v->partner = gcoll_verify_allocate(v->base[v->size], sizeof *v->partner);
    return v->partner ? GCOLL_OK : GCOLL_ERR_NO_MEMORY;
}

static gcoll_status check_divisors(const gcoll_verifier *v) {
    const gcoll_problem *problem = &v->plans[0]->problem;
    uint32_t all = v->leaf[v->size];
    if (!problem->average)
        return GCOLL_OK;
    for (uint32_t r = 0; r < v->size; r++) {
        if (v->plans[r]->divisor != all)
            return gcoll_error(GCOLL_ERR_INVALID,
                               "rank %u: the plan of an average divides by %u, not by the %u contributions",
                               r, v->plans[r]->divisor, all);
    }
    return GCOLL_OK;
}

/* Cost. Let S be the steps of all ranks, E their edges, and N the steps of one rank. A piece is a range
 * whose elements hold the same value; steps touch R pieces altogether, and a memory has at most M. Time: O(S
 * + E + R) hash look-ups; O(S M) bytes moved in memory at worst (a few microseconds a step if M is 10,000);
 * and O(E N / 64) to find races. Memory: O(S + E + R), and P bits a step for a barrier. */
gcoll_status gcoll_verify(const gcoll_plan *const *plans, uint32_t size, gcoll_verify_report *report) {
    gcoll_verifier v = {.plans = plans, .size = size};
    gcoll_verify_report found = {0};
    gcoll_status status = gcoll_verify_structure(plans, size);
    if (status)
        return status;
    status = number(&v);
    if (!status)
        status = check_divisors(&v);
    if (!status)
        status = gcoll_verify_messages(&v);
    if (!status)
        status = gcoll_verify_races(&v);
    if (!status)
        status = gcoll_verify_values_create(&v);
    if (!status)
        status = gcoll_verify_memory_create(&v);
    if (!status)
        status = gcoll_verify_causal_create(&v);
    if (!status)
        status = gcoll_verify_run(&v);
    if (!status)
        status = gcoll_verify_result(&v, &found);
    if (!status && report)
        *report = found;
    gcoll_verify_causal_free(&v.causal);
    gcoll_verify_memory_free(&v);
    gcoll_verify_encodings_free(&v.encodings);
    gcoll_verify_values_free(&v.values);
    free(v.partner);
    free(v.memory_at);
    free(v.leaf);
    free(v.base);
    return status;
}
