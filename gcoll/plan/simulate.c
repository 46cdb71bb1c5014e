/* gcoll/plan/simulate.c - the simulator's entry: options, memory, results. See simulate_internal.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan/simulate_internal.h"

void *gcoll_sim_allocate(uint64_t count, size_t element_bytes) {
    void *memory = count <= SIZE_MAX ? calloc(count ? (size_t)count : 1, element_bytes) : NULL;
    if (!memory)
        gcoll_error(GCOLL_ERR_NO_MEMORY, "the simulator found no memory for %" PRIu64 " entries", count);
    return memory;
}

/* ---- Options ------------------------------------------------------------------------------------- */

void gcoll_simulate_options_init(gcoll_simulate_options *options) {
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
}

static gcoll_status check_seconds(const char *name, double value) {
    if (isfinite(value) && value >= 0)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID, "%s: is %g; it must be finite and not negative", name, value);
}

gcoll_status gcoll_sim_check_link(const char *name, const gcoll_simulate_link *link) {
    const double values[] = {link->alpha, link->beta, link->latency};
    static const char *const fields[] = {"alpha", "beta", "latency"};
    char text[32];
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%s.%s", name, fields[i]);
        gcoll_status status = check_seconds(text, values[i]);
        if (status)
            return status;
    }
    if (link->latency > link->alpha)
        return gcoll_error(GCOLL_ERR_INVALID, "%s.latency: is %g; it is a part of alpha, %g", name,
                           link->latency, link->alpha);
    return GCOLL_OK;
}

static gcoll_status check_device(const gcoll_simulate_device *device) {
    const double values[] = {device->alpha, device->in, device->out, device->within};
    static const char *const fields[] = {"options.device.alpha", "options.device.in", "options.device.out",
                                         "options.device.within"};
    gcoll_status status = GCOLL_OK;
    for (size_t i = 0; i < 4 && !status; i++)
        status = check_seconds(fields[i], values[i]);
    return status;
}

static gcoll_status check_ports(const char *name, uint32_t ports) {
    if (ports <= GCOLL_SIMULATE_MAX_PORTS)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID, "options.%s: is %u; at most %u", name, ports,
                       GCOLL_SIMULATE_MAX_PORTS);
}

static gcoll_status check_ranks(const gcoll_simulate_options *o, uint32_t size) {
    for (uint32_t r = 0; o->slowness && r < size; r++)
        if (!isfinite(o->slowness[r]) || o->slowness[r] <= 0)
            return gcoll_error(GCOLL_ERR_INVALID, "options.slowness[%u]: is %g; it must be above 0", r,
                               o->slowness[r]);
    for (uint32_t r = 0; o->arrival && r < size; r++)
        if (!(o->arrival[r] >= 0 && o->arrival[r] * 1e12 <= (double)GCOLL_SIM_LIMIT))
            return gcoll_error(GCOLL_ERR_INVALID, "options.arrival[%u]: is %g s; allowed are 0 to 100 days",
                               r, o->arrival[r]);
    return GCOLL_OK;
}

static gcoll_status read_options(gcoll_sim *sim, const gcoll_simulate_options *options) {
    gcoll_simulate_options *o = &sim->options;
    if (!options || options->struct_size != sizeof *o)
        return gcoll_error(GCOLL_ERR_INVALID, "options: call gcoll_simulate_options_init first");
    *o = *options;
    if (o->type_bytes == 0)
        o->type_bytes = 1;
    if (o->ports == 0)
        o->ports = 1;
    gcoll_status status = gcoll_sim_check_link("options.network", &o->network);
    if (!status)
        status = gcoll_sim_check_link("options.host", &o->host);
    if (!status)
        status = check_seconds("options.gamma", o->gamma);
    if (!status)
        status = check_seconds("options.copy", o->copy);
    if (!status)
        status = check_device(&o->device);
    if (!status)
        status = check_ports("ports", o->ports);
    if (!status)
        status = check_ports("node_ports", o->node_ports);
    if (!status)
        status = check_ports("memory_ports", o->memory_ports);
    if (!status)
        status = check_ranks(o, sim->v.size);
    if (status)
        return status;
    if (o->node && o->ranks_per_node)
        return gcoll_error(GCOLL_ERR_INVALID, "options.ranks_per_node: is %u, but options.node is given too",
                           o->ranks_per_node);
    if (o->node_ports && !o->node && !o->ranks_per_node)
        return gcoll_error(GCOLL_ERR_INVALID, "options.node_ports: is %u, but there are no nodes",
                           o->node_ports);
    if (o->memory_ports && !o->node && !o->ranks_per_node)
        return gcoll_error(GCOLL_ERR_INVALID, "options.memory_ports: is %u, but there are no nodes",
                           o->memory_ports);
    if (o->links && gcoll_network_ranks(o->links) < sim->v.size)
        return gcoll_error(GCOLL_ERR_INVALID, "options.links: is of %u ranks; there are plans of %u",
                           gcoll_network_ranks(o->links), sim->v.size);
    sim->mixed = o->links ? gcoll_network_latencies_differ(o->links)
                          : (o->node || o->ranks_per_node) && o->network.latency != o->host.latency;
    return GCOLL_OK;
}

/* ---- Making and ending --------------------------------------------------------------------------- */

/* Checks that the plans belong together. Each plan by itself was checked when it was made. */
static gcoll_status check_plans(const gcoll_plan *const *plans, uint32_t size, uint32_t type_bytes) {
    for (uint32_t r = 0; r < size; r++) {
        if (!plans[r])
            return gcoll_error(GCOLL_ERR_INVALID, "rank %u: has no plan (NULL)", r);
        const gcoll_problem *problem = &plans[r]->problem, *first = &plans[0]->problem;
        if (problem->rank != r || problem->size != size)
            return gcoll_error(
                GCOLL_ERR_INVALID,
                "rank %u: its plan is that of rank %u of %u; plans stand in order of ranks, and "
                "there are %u",
                r, problem->rank, problem->size, size);
        if (problem->collective != first->collective)
            return gcoll_error(GCOLL_ERR_INVALID, "rank %u: its plan is of %s, rank 0's of %s", r,
                               gcoll_collective_name(problem->collective),
                               gcoll_collective_name(first->collective));
        for (uint32_t i = 0; i < plans[r]->step_count; i++)
            if (plans[r]->steps[i].count > UINT64_MAX / type_bytes)
                return gcoll_error(GCOLL_ERR_INVALID,
                                   "rank %u, step %u: %" PRIu64 " elements of %u bytes exceed 2^64 bytes", r,
                                   i, plans[r]->steps[i].count, type_bytes);
    }
    return GCOLL_OK;
}

static void prepare_rank(gcoll_sim *sim, uint32_t r) {
    static const gcoll_sim_list empty = {GCOLL_SIM_NONE, GCOLL_SIM_NONE};
    const gcoll_plan *plan = sim->v.plans[r];
    gcoll_sim_rank *rank = &sim->ranks[r];
    rank->ready = rank->moved = empty;
    rank->current = rank->latest = rank->last_step = GCOLL_SIM_NONE;
    rank->posts_time = -1;
    rank->unfinished = plan->step_count;
    rank->arrival = sim->options.arrival ? (int64_t)round(sim->options.arrival[r] * 1e12) : 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        gcoll_sim_step *step = &sim->steps[sim->v.base[r] + i];
        step->rank = r;
        step->missing = plan->steps[i].dependencies;
        step->moved = -1;
        step->next = step->child = GCOLL_SIM_NONE;
        step->cause = step->port_cause = step->work_cause = GCOLL_SIM_NONE;
    }
}

static gcoll_status prepare(gcoll_sim *sim) {
    gcoll_verifier *v = &sim->v;
    v->base = gcoll_sim_allocate((uint64_t)v->size + 1, sizeof *v->base);
    if (!v->base)
        return GCOLL_ERR_NO_MEMORY;
    for (uint32_t r = 0; r < v->size; r++)
        v->base[r + 1] = v->base[r] + v->plans[r]->step_count;
    uint64_t steps = v->base[v->size];
    if (steps >= GCOLL_SIM_NONE)
        return gcoll_error(GCOLL_ERR_INVALID, "the plans have %" PRIu64 " steps; fewer than %u are allowed",
                           steps, GCOLL_SIM_NONE);
    v->partner = gcoll_sim_allocate(steps, sizeof *v->partner);
    sim->steps = gcoll_sim_allocate(steps, sizeof *sim->steps);
    sim->ranks = gcoll_sim_allocate(v->size, sizeof *sim->ranks);
    sim->awake = gcoll_sim_allocate(v->size, sizeof *sim->awake);
    if (!v->partner || !sim->steps || !sim->ranks || !sim->awake)
        return GCOLL_ERR_NO_MEMORY;
    sim->matched = (gcoll_sim_list){GCOLL_SIM_NONE, GCOLL_SIM_NONE};
    for (uint32_t r = 0; r < v->size; r++)
        prepare_rank(sim, r);
    gcoll_status status = gcoll_verify_messages(v);
    if (!status)
        status = gcoll_sim_pieces(sim);
    if (!status)
        status = gcoll_sim_nodes(sim);
    if (!status)
        status = gcoll_sim_lanes(sim);
    return status ? status : gcoll_sim_ports_create(sim);
}

static void clean_up(gcoll_sim *sim) {
    free(sim->lanes);
    free(sim->slots);
    free(sim->ports);
    free(sim->candidates.at);
    free(sim->events.at);
    free(sim->awake);
    free(sim->ranks);
    free(sim->steps);
    free(sim->node);
    free(sim->v.partner);
    free(sim->v.base);
}

/* ---- Results ------------------------------------------------------------------------------------- */

/* One allocation: the result, then its arrays by rank. */
static gcoll_simulation *allocate_result(uint32_t size) {
    uint64_t each = sizeof(double) + 2 * sizeof(uint64_t);
    gcoll_simulation *result = gcoll_sim_allocate(1, sizeof *result + size * each);
    if (!result)
        return NULL;
    char *arrays = (char *)result + sizeof *result; /* aligned: the struct's size is a multiple of 8 */
    result->size = size;
    result->finish = (const void *)arrays;
    result->sent_bytes = (const void *)(arrays + size * sizeof(double));
    result->received_bytes = result->sent_bytes + size;
    return result;
}

static gcoll_status fill_in(const gcoll_sim *sim, gcoll_simulation *result) {
    double *finish = (double *)(uintptr_t)result->finish;
    uint64_t *sent = (uint64_t *)(uintptr_t)result->sent_bytes;
    uint64_t *received = (uint64_t *)(uintptr_t)result->received_bytes;
    double elapsed = 0;
    int64_t last = 0;
    for (uint32_t r = 0; r < sim->v.size; r++) {
        const gcoll_sim_rank *rank = &sim->ranks[r];
        finish[r] = gcoll_sim_seconds(rank->finish);
        elapsed += gcoll_sim_seconds(rank->finish - rank->arrival);
        last = last < rank->finish ? rank->finish : last;
    }
    for (uint32_t id = 0; id < sim->v.base[sim->v.size]; id++) {
        const gcoll_step *step = gcoll_sim_plan_step(sim, id);
        if (step->kind == GCOLL_STEP_SEND)
            sent[sim->steps[id].rank] += gcoll_sim_bytes(sim, id);
        else if (gcoll_step_is_message(step))
            received[sim->steps[id].rank] += gcoll_sim_bytes(sim, id);
    }
    result->time = gcoll_sim_seconds(last);
    result->mean_elapsed = elapsed / sim->v.size;
    gcoll_status status = gcoll_sim_path(sim, result);
    if (!status && sim->options.timeline)
        status = gcoll_sim_timeline(sim, result);
    return status;
}

gcoll_status gcoll_simulate(const gcoll_plan *const *plans, uint32_t size,
                            const gcoll_simulate_options *options, gcoll_simulation **simulation) {
    gcoll_sim sim = {.v = {.plans = plans, .size = size}};
    gcoll_simulation *result = NULL;
    if (!plans || size == 0 || size > GCOLL_MAX_RANKS)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_simulate: %u plans given; allowed are 1 to %u",
                           plans ? size : 0, GCOLL_MAX_RANKS);
    gcoll_status status = read_options(&sim, options);
    if (!status)
        status = check_plans(plans, size, sim.options.type_bytes);
    if (!status)
        status = prepare(&sim);
    if (!status)
        status = gcoll_sim_run(&sim);
    if (!status && !(result = allocate_result(size)))
        status = GCOLL_ERR_NO_MEMORY;
    if (!status)
        status = fill_in(&sim, result);
    clean_up(&sim);
    if (status)
        gcoll_simulation_destroy(result);
    else
        *simulation = result;
    return status;
}

void gcoll_simulation_destroy(gcoll_simulation *simulation) {
    if (!simulation)
        return;
    free((void *)(uintptr_t)simulation->events);
    free((void *)(uintptr_t)simulation->path);
    free(simulation);
}
