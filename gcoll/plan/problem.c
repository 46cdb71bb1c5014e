/* gcoll/plan/problem.c - names of collectives, sizes of a problem's buffers, and checks of a problem. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan/steps.h"

static const char *const names[GCOLL_COLLECTIVE_COUNT] = {
    [GCOLL_ALLREDUCE] = "allreduce",
    [GCOLL_BROADCAST] = "broadcast",
    [GCOLL_BARRIER] = "barrier",
    [GCOLL_REDUCE] = "reduce",
    [GCOLL_REDUCE_SCATTER] = "reduce_scatter",
    [GCOLL_ALLGATHER] = "allgather",
    [GCOLL_GATHER] = "gather",
    [GCOLL_SCATTER] = "scatter",
    [GCOLL_ALLTOALL] = "alltoall",
    [GCOLL_PAIRWISE_EXCHANGE] = "pairwise_exchange",
};

const char *gcoll_collective_name(gcoll_collective collective) {
    return (unsigned)collective < GCOLL_COLLECTIVE_COUNT ? names[collective] : "?";
}

gcoll_status gcoll_collective_parse(const char *name, gcoll_collective *collective) {
    char list[256] = "";
    size_t used = 0;
    if (!collective)
        return gcoll_error(GCOLL_ERR_INVALID, "collective: is NULL");
    for (unsigned i = 0; i < GCOLL_COLLECTIVE_COUNT; i++) {
        if (name && strcmp(name, names[i]) == 0) {
            *collective = (gcoll_collective)i;
            return GCOLL_OK;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 names[i]); /* 101 bytes */
    }
    return gcoll_error(GCOLL_ERR_INVALID, "collective: is '%.40s'; allowed are %s", name ? name : "NULL",
                       list);
}

/* ---- Sizes ---------------------------------------------------------------------------------------- */

uint64_t gcoll_problem_in_count(const gcoll_problem *p) {
    switch (p->collective) {
    case GCOLL_BARRIER:
        return 0;
    case GCOLL_ALLGATHER:
    case GCOLL_GATHER:
        return gcoll_block_count(p, p->rank);
    case GCOLL_SCATTER:
        return p->rank == p->root ? p->count : 0;
    default:
        return p->count;
    }
}

uint64_t gcoll_problem_out_count(const gcoll_problem *p) {
    switch (p->collective) {
    case GCOLL_BARRIER:
        return 0;
    case GCOLL_REDUCE_SCATTER:
    case GCOLL_SCATTER:
        return gcoll_block_count(p, p->rank);
    case GCOLL_REDUCE:
    case GCOLL_GATHER:
        return p->rank == p->root ? p->count : 0;
    case GCOLL_ALLTOALL:
        return gcoll_recv_begin(p, p->size);
    default:
        return p->count;
    }
}

uint64_t gcoll_problem_space_count(const gcoll_problem *p, uint16_t space) {
    uint64_t in = gcoll_problem_in_count(p), out = gcoll_problem_out_count(p);
    if (p->in_place)
        return in > out ? in : out;
    return space == GCOLL_IN ? in : out;
}

bool gcoll_problem_is_staged(const gcoll_problem *p) {
    for (uint32_t k = 0; k < p->buffers; k++)
        if (gcoll_problem_memory(p, gcoll_in(k, 0)) != GCOLL_HOST_MEMORY ||
            gcoll_problem_memory(p, gcoll_out(k, 0)) != GCOLL_HOST_MEMORY)
            return true;
    return false;
}

bool gcoll_problem_is_direct(const gcoll_problem *p) {
    uint32_t device = GCOLL_HOST_MEMORY;
    if (!p->staging.direct || gcoll_collective_reduces(p->collective))
        return false;
    for (uint32_t i = 0; i < 2 * p->buffers; i++) {
        const uint32_t memory = gcoll_problem_memory(p, i % 2 ? gcoll_out(i / 2, 0) : gcoll_in(i / 2, 0));
        if (memory != GCOLL_HOST_MEMORY && device != GCOLL_HOST_MEMORY && memory != device)
            return false;
        device = memory != GCOLL_HOST_MEMORY ? memory : device;
    }
    return device != GCOLL_HOST_MEMORY;
}

bool gcoll_step_is_on_device(const gcoll_plan *plan, const gcoll_step *s) {
    const gcoll_problem *p = &plan->problem;
    if (s->count == 0 ||
        (s->kind != GCOLL_STEP_COPY && s->kind != GCOLL_STEP_DIVIDE && s->kind != GCOLL_STEP_FOLD))
        return false;
    return gcoll_problem_memory(p, s->dst) != GCOLL_HOST_MEMORY ||
           (s->kind == GCOLL_STEP_COPY && gcoll_problem_memory(p, s->a) != GCOLL_HOST_MEMORY);
}

uint32_t gcoll_problem_exchanges(const gcoll_problem *p) {
    uint32_t log = 0;
    while ((UINT64_C(1) << log) < p->size)
        log++;
    return p->exchanges ? p->exchanges : log;
}

gcoll_status gcoll_unsupported(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return gcoll_error(GCOLL_ERR_UNSUPPORTED, "%s", text);
}

/* ---- Checks --------------------------------------------------------------------------------------- */

/* Whether this rank may run the collective in place. A barrier may: it has no buffers. */
static bool takes_in_place(const gcoll_problem *p) {
    const gcoll_traits traits = gcoll_collective_traits(p->collective);
    if (p->collective == GCOLL_BARRIER)
        return true;
    return traits.takes_in_place && (!traits.in_place_at_root || p->rank == p->root);
}

static gcoll_status check_offsets(const gcoll_problem *p, const uint64_t *offsets, const char *name) {
    if (offsets[0] != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s[0] is %" PRIu64 ", allowed is 0", name, offsets[0]);
    for (uint32_t r = 0; r < p->size; r++)
        if (offsets[r + 1] < offsets[r])
            return gcoll_error(GCOLL_ERR_INVALID, "%s[%u] is %" PRIu64 ", allowed are %" PRIu64 " and more",
                               name, r + 1, offsets[r + 1], offsets[r]);
    return GCOLL_OK;
}

static gcoll_status check_blocks(const gcoll_problem *p) {
    const char *name = gcoll_collective_name(p->collective);
    if (p->offsets && !gcoll_collective_has_blocks(p->collective))
        return gcoll_error(GCOLL_ERR_INVALID, "offsets are given, but %s has no blocks", name);
    if ((p->recv_offsets != NULL) != (p->offsets && p->collective == GCOLL_ALLTOALL))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "recv_offsets are %s; alltoall has them with offsets, others never",
                           p->recv_offsets ? "given" : "missing");
    gcoll_status status = p->offsets ? check_offsets(p, p->offsets, "offsets") : GCOLL_OK;
    if (status == GCOLL_OK && p->recv_offsets)
        status = check_offsets(p, p->recv_offsets, "recv_offsets");
    if (status == GCOLL_OK && p->offsets && p->offsets[p->size] != p->count)
        status = gcoll_error(GCOLL_ERR_INVALID, "offsets end at %" PRIu64 ", allowed is count, %" PRIu64,
                             p->offsets[p->size], p->count);
    return status;
}

static gcoll_status check_ranks(const gcoll_problem *p) {
    if ((unsigned)p->collective >= GCOLL_COLLECTIVE_COUNT)
        return gcoll_error(GCOLL_ERR_INVALID, "collective is %u, allowed are 0 to %u",
                           (unsigned)p->collective, GCOLL_COLLECTIVE_COUNT - 1u);
    if (p->size < 1 || p->size > GCOLL_MAX_RANKS)
        return gcoll_error(GCOLL_ERR_INVALID, "size is %u, allowed are 1 to %u", p->size, GCOLL_MAX_RANKS);
    if (p->rank >= p->size)
        return gcoll_error(GCOLL_ERR_INVALID, "rank is %u, allowed are 0 to %u", p->rank, p->size - 1);
    uint32_t last_root = gcoll_collective_has_root(p->collective) ? p->size - 1 : 0;
    if (p->root > last_root)
        return gcoll_error(GCOLL_ERR_INVALID, "root is %u, allowed are 0 to %u", p->root, last_root);
    return GCOLL_OK;
}

static gcoll_status check_memory(const gcoll_problem *p) {
    if ((unsigned)p->staging.local >= GCOLL_LOCAL_COUNT)
        return gcoll_error(GCOLL_ERR_INVALID, "staging.local is %u, allowed are 0 to %u",
                           (unsigned)p->staging.local, GCOLL_LOCAL_COUNT - 1u);
    for (uint32_t k = 0; k < p->buffers; k++) {
        uint32_t in = p->in_memory ? p->in_memory[k] : 0, out = p->out_memory ? p->out_memory[k] : 0;
        if (in > GCOLL_MAX_DEVICES || out > GCOLL_MAX_DEVICES)
            return gcoll_error(GCOLL_ERR_INVALID, "%s_memory[%u] is %u, allowed are 0 to %u",
                               in > GCOLL_MAX_DEVICES ? "in" : "out", k, in > out ? in : out,
                               GCOLL_MAX_DEVICES);
        if (p->in_place && p->in_memory && p->out_memory && in != out)
            return gcoll_error(GCOLL_ERR_INVALID,
                               "in_memory[%u] is %u and out_memory %u, but in_place is set", k, in, out);
    }
    return GCOLL_OK;
}

bool gcoll_collective_takes_codec(gcoll_collective collective) {
    return collective == GCOLL_ALLREDUCE || collective == GCOLL_REDUCE_SCATTER ||
           collective == GCOLL_ALLGATHER || collective == GCOLL_BROADCAST;
}

static gcoll_status check_codec(const gcoll_problem *p) {
    const gcoll_status status = gcoll_codec_check(&p->codec);
    if (status != GCOLL_OK || !gcoll_codec_is_set(&p->codec))
        return status;
    if (!gcoll_collective_takes_codec(p->collective))
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "codec: is %s for %s; allowed are allreduce, reduce_scatter, allgather and broadcast",
            gcoll_codec_name(p->codec.kind), gcoll_collective_name(p->collective));
    if (gcoll_problem_is_staged(p))
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "codec: is %s for buffers in device memory; allowed are buffers in host memory",
                           gcoll_codec_name(p->codec.kind));
    return GCOLL_OK;
}

gcoll_status gcoll_tour_check(const gcoll_problem *p) {
    gcoll_status status = GCOLL_OK;
    uint8_t *seen = p->tour ? calloc(p->size, sizeof *seen) : NULL;
    if (p->tour && !seen)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "tour: no memory for %u ranks", p->size);
    for (uint32_t i = 0; p->tour && i < p->size && status == GCOLL_OK; i++)
        if (p->tour[i] >= p->size || seen[p->tour[i]]++)
            status = gcoll_error(GCOLL_ERR_INVALID, "tour[%u] is %u, allowed is each of 0 to %u once", i,
                                 p->tour[i], p->size - 1);
    free(seen);
    return status;
}

gcoll_status gcoll_problem_check(const gcoll_problem *p) {
    gcoll_status status = check_ranks(p);
    if (status != GCOLL_OK)
        return status;
    const char *name = gcoll_collective_name(p->collective);
    uint32_t most = gcoll_collective_takes_buffers(p->collective) ? GCOLL_MAX_BUFFERS : 1;
    if (p->buffers < 1 || p->buffers > most)
        return gcoll_error(GCOLL_ERR_INVALID, "buffers is %u, allowed are 1 to %u for %s", p->buffers, most,
                           name);
    if ((unsigned)p->order > GCOLL_ORDER_LEFT)
        return gcoll_error(GCOLL_ERR_INVALID, "order is %u, allowed are 0 to %u", (unsigned)p->order,
                           (unsigned)GCOLL_ORDER_LEFT);
    if (p->average && !gcoll_collective_reduces(p->collective))
        return gcoll_error(GCOLL_ERR_INVALID, "%s computes no average", name);
    if (p->in_place && !takes_in_place(p))
        return gcoll_error(GCOLL_ERR_INVALID, "in_place is set, but %s cannot be in place on rank %u", name,
                           p->rank);
    if (p->exchanges > GCOLL_MAX_EXCHANGES || (p->exchanges > 0 && p->collective != GCOLL_PAIRWISE_EXCHANGE))
        return gcoll_error(GCOLL_ERR_INVALID, "exchanges is %u, allowed are 0 to %u for %s", p->exchanges,
                           p->collective == GCOLL_PAIRWISE_EXCHANGE ? GCOLL_MAX_EXCHANGES : 0u, name);
    if (p->collective == GCOLL_BARRIER && p->count != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "count is %" PRIu64 ", allowed is 0 for barrier", p->count);
    uint64_t received;
    if (p->collective == GCOLL_ALLTOALL && !gcoll_mul_u64(p->count, p->size, &received))
        return gcoll_error(GCOLL_ERR_INVALID, "count is %" PRIu64 ", too many for %u ranks", p->count,
                           p->size);
    status = check_memory(p);
    if (status == GCOLL_OK)
        status = check_codec(p);
    if (status == GCOLL_OK)
        status = gcoll_tour_check(p);
    return status == GCOLL_OK ? check_blocks(p) : status;
}
