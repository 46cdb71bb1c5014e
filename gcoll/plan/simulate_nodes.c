/* gcoll/plan/simulate_nodes.c - finds ranks that share a host, and prices messages and local work. */
#include <math.h>
#include <stdlib.h>

#include "gcoll/plan/simulate_internal.h"

typedef struct numbered {
    uint32_t number, rank;
} numbered;

static int compare(const void *a, const void *b) {
    const numbered *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Renumbers the hosts from 0 on; the caller's numbers may be arbitrary. */
static gcoll_status number_hosts(gcoll_sim *sim) {
    uint32_t size = sim->v.size, hosts = 0;
    numbered *all = gcoll_sim_allocate(size, sizeof *all);
    if (!all)
        return GCOLL_ERR_NO_MEMORY;
    for (uint32_t r = 0; r < size; r++)
        all[r] = (numbered){sim->options.node[r], r};
    qsort(all, size, sizeof *all, compare);
    for (uint32_t i = 0; i < size; i++) {
        hosts += i > 0 && all[i].number != all[i - 1].number;
        sim->node[all[i].rank] = hosts;
    }
    free(all);
    sim->nodes = hosts + 1;
    return GCOLL_OK;
}

gcoll_status gcoll_sim_nodes(gcoll_sim *sim) {
    const gcoll_simulate_options *o = &sim->options;
    uint32_t size = sim->v.size;
    if (!o->node && o->ranks_per_node == 0)
        return GCOLL_OK;
    sim->node = gcoll_sim_allocate(size, sizeof *sim->node);
    if (!sim->node)
        return GCOLL_ERR_NO_MEMORY;
    if (o->node) {
        gcoll_status status = number_hosts(sim);
        if (status)
            return status;
    } else {
        for (uint32_t r = 0; r < size; r++)
            sim->node[r] = r / o->ranks_per_node;
        sim->nodes = (size - 1) / o->ranks_per_node + 1;
    }
    sim->memories = o->memory_ports == 0 ? 0 : sim->nodes;
    if (o->node_ports == 0)
        sim->nodes = 0;
    return GCOLL_OK;
}

gcoll_status gcoll_sim_duration(const gcoll_sim *sim, uint32_t id, double seconds, int64_t *ps) {
    double rounded = round(seconds * 1e12);
    if (!(rounded <= (double)(GCOLL_SIM_LIMIT - sim->now)))
        return gcoll_verify_fail(&sim->v, sim->steps[id].rank, gcoll_sim_local(sim, id),
                                 "takes %g s from %g s on; a run may last 100 days", seconds,
                                 gcoll_sim_seconds(sim->now));
    *ps = (int64_t)rounded;
    return GCOLL_OK;
}

static double slowness(const gcoll_sim *sim, uint32_t rank) {
    return sim->options.slowness ? sim->options.slowness[rank] : 1.0;
}

/* Whether the splitting pass cut `step` off the step before it: that one is a full segment, and `step` begins
 * where it ends. */
static bool is_cut(const gcoll_step *before, const gcoll_step *step, uint64_t segment) {
    return segment > 0 && before->count == segment && before->a.space == step->a.space &&
           before->a.index == step->a.index && before->a.offset + before->count == step->a.offset;
}

/* Messages of one round between two ranks count as pieces of one message: transports put them into one
 * system call, so only the first piece pays the start-up cost. Segments of the splitting pass each pay it. */
gcoll_status gcoll_sim_pieces(gcoll_sim *sim) {
    gcoll_verify_map latest = {0}; /* sender << 32 | receiver -> 1 + the latest message */
    gcoll_status status = GCOLL_OK;
    for (uint32_t id = 0; id < sim->v.base[sim->v.size] && !status; id++) {
        const gcoll_step *step = gcoll_sim_plan_step(sim, id);
        gcoll_sim_step *state = &sim->steps[id];
        state->whole = id;
        if (step->kind != GCOLL_STEP_SEND)
            continue;
        uint32_t *before = gcoll_verify_map_at(&latest, (uint64_t)state->rank << 32 | step->peer);
        if (!before) {
            status = gcoll_error(GCOLL_ERR_NO_MEMORY, "the simulator found no memory for messages");
            break;
        }
        const gcoll_step *previous = *before > 0 ? gcoll_sim_plan_step(sim, *before - 1) : NULL;
        if (previous && previous->round == step->round &&
            !is_cut(previous, step, sim->v.plans[state->rank]->problem.segment))
            state->whole = sim->steps[*before - 1].whole;
        *before = id + 1;
    }
    gcoll_verify_map_free(&latest);
    return status;
}

static const gcoll_simulate_link *link_of(const gcoll_sim *sim, uint32_t sender, uint32_t receiver) {
    if (sim->options.links)
        return gcoll_network_at(sim->options.links, sender, receiver);
    return gcoll_sim_level(sim, sender, receiver) == 1 ? &sim->options.host : &sim->options.network;
}

gcoll_status gcoll_sim_price_message(const gcoll_sim *sim, uint32_t send, gcoll_sim_price *price) {
    uint32_t sender = sim->steps[send].rank, receiver = gcoll_sim_plan_step(sim, send)->peer;
    const gcoll_simulate_link *link = link_of(sim, sender, receiver);
    double slow = fmax(slowness(sim, sender), slowness(sim, receiver));
    double bytes = (double)gcoll_sim_bytes(sim, send);
    bool goes_along = sim->steps[sim->steps[send].whole].started;
    double start_up = goes_along ? 0 : link->alpha - link->latency;
    double hold = slow * (start_up + link->beta * bytes);
    int64_t whole = 0;
    gcoll_status status = gcoll_sim_duration(sim, send, link->latency + hold, &whole);
    if (status)
        return status;
    price->latency = (int64_t)round(link->latency * 1e12);             /* no more than `whole`, which fits */
    price->hold = whole > price->latency ? whole - price->latency : 0; /* rounding may be half a unit off */
    return GCOLL_OK;
}

gcoll_status gcoll_sim_price_work(const gcoll_sim *sim, uint32_t id, int64_t *ps) {
    const gcoll_simulate_options *o = &sim->options;
    const gcoll_sim_step *step = &sim->steps[id];
    double each = 0;
    switch ((gcoll_step_kind)gcoll_sim_plan_step(sim, id)->kind) {
    case GCOLL_STEP_RECV:
        each = gcoll_sim_is_early(step) ? o->copy : 0;
        break;
    case GCOLL_STEP_RECV_REDUCE:
    case GCOLL_STEP_REDUCE:
    case GCOLL_STEP_ENCODE: /* about as much work as a reduction */
    case GCOLL_STEP_DECODE:
    case GCOLL_STEP_DECODE_REDUCE:
        each = o->gamma;
        break;
    case GCOLL_STEP_COPY:
    case GCOLL_STEP_DIVIDE:
        each = o->copy;
        break;
    default:
        break;
    }
    return gcoll_sim_duration(sim, id, slowness(sim, step->rank) * each * (double)gcoll_sim_bytes(sim, id),
                              ps);
}
