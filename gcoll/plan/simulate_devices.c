/* gcoll/plan/simulate_devices.c - steps in device memory: their kind, their device, and the device's lanes.
 */
#include "gcoll/plan/simulate_internal.h"

enum { IN = 0, OUT, WITHIN, LANES };

static uint32_t memory_of(const gcoll_sim *sim, uint32_t id, gcoll_ref ref) {
    return gcoll_problem_memory(&sim->v.plans[sim->steps[id].rank]->problem, ref);
}

gcoll_simulate_kind gcoll_sim_device_kind(const gcoll_sim *sim, uint32_t id) {
    const gcoll_step *step = gcoll_sim_plan_step(sim, id);
    if (step->kind == GCOLL_STEP_FOLD)
        return GCOLL_SIMULATE_FOLD;
    if (step->kind == GCOLL_STEP_DIVIDE)
        return GCOLL_SIMULATE_DEVICE_DIVIDE;
    if (memory_of(sim, id, step->dst) == GCOLL_HOST_MEMORY)
        return GCOLL_SIMULATE_COPY_IN;
    return memory_of(sim, id, step->a) == GCOLL_HOST_MEMORY ? GCOLL_SIMULATE_COPY_OUT
                                                            : GCOLL_SIMULATE_DEVICE_COPY;
}

/* The device whose memory the step writes; if it writes host memory, the device that it reads. */
uint32_t gcoll_sim_device(const gcoll_sim *sim, uint32_t id) {
    const gcoll_step *step = gcoll_sim_plan_step(sim, id);
    const uint32_t memory = memory_of(sim, id, step->dst);
    return (memory != GCOLL_HOST_MEMORY ? memory : memory_of(sim, id, step->a)) - 1;
}

static gcoll_status add_lanes(gcoll_sim *sim) {
    static const gcoll_sim_lane idle = {{GCOLL_SIM_NONE, GCOLL_SIM_NONE}, GCOLL_SIM_NONE, GCOLL_SIM_NONE};
    gcoll_status status =
        gcoll_verify_reserve(&sim->lanes, &sim->lane_room, sim->lane_count + LANES, sizeof idle);
    for (int i = 0; i < LANES && !status; i++)
        sim->lanes[sim->lane_count++] = idle;
    return status;
}

/* Assigns a step to a lane of its device. `devices` maps a rank's device to 1 + its first lane. */
static gcoll_status find_lane(gcoll_sim *sim, gcoll_verify_map *devices, uint32_t id) {
    const gcoll_simulate_kind kind = gcoll_sim_device_kind(sim, id);
    const uint32_t lane = kind == GCOLL_SIMULATE_COPY_IN    ? IN
                          : kind == GCOLL_SIMULATE_COPY_OUT ? OUT
                                                            : WITHIN;
    const uint64_t key = (uint64_t)sim->steps[id].rank << 32 | gcoll_sim_device(sim, id);
    uint32_t *first = gcoll_verify_map_at(devices, key);
    if (!first)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "the simulator found no memory for devices");
    if (*first == 0) {
        *first = (uint32_t)sim->lane_count + 1; /* fewer than there are steps */
        gcoll_status status = add_lanes(sim);
        if (status)
            return status;
    }
    sim->steps[id].lane = *first - 1 + lane;
    return GCOLL_OK;
}

gcoll_status gcoll_sim_lanes(gcoll_sim *sim) {
    gcoll_verify_map devices = {0};
    gcoll_status status = GCOLL_OK;
    for (uint32_t id = 0; id < sim->v.base[sim->v.size] && !status; id++) {
        sim->steps[id].lane = GCOLL_SIM_NONE;
        if (gcoll_step_is_on_device(sim->v.plans[sim->steps[id].rank], gcoll_sim_plan_step(sim, id)))
            status = find_lane(sim, &devices, id);
    }
    gcoll_verify_map_free(&devices);
    return status;
}

gcoll_status gcoll_sim_price_device(const gcoll_sim *sim, uint32_t id, int64_t *ps) {
    const gcoll_simulate_device *device = &sim->options.device;
    double each = 2 * device->within;
    switch (gcoll_sim_device_kind(sim, id)) {
    case GCOLL_SIMULATE_COPY_IN:
        each = device->in;
        break;
    case GCOLL_SIMULATE_COPY_OUT:
        each = device->out;
        break;
    case GCOLL_SIMULATE_FOLD:
        each = (gcoll_sim_plan_step(sim, id)->operand_count + 1.0) * device->within;
        break;
    default:
        break;
    }
    return gcoll_sim_duration(sim, id, device->alpha + each * (double)gcoll_sim_bytes(sim, id), ps);
}
