/*
 * gcoll/monitor/predict.c - rank 0's prediction: which algorithm is fastest if the ranks arrive as expected.
 *
 * The plans of all ranks run in the simulator, with the cost parameters of auto. The measure is the mean
 * over ranks of the time from a rank's arrival to its end, as in J. Proficz, Improving all-reduce collective
 * operations for imbalanced process arrival patterns, J. Supercomput. 74 (2018).
 */
#include <math.h>
#include <stdlib.h>

#include "gcoll/base/hash.h"
#include "gcoll/monitor/monitor_internal.h"
#include "gcoll/simulate.h"
#include "gcoll/tuning/tuning.h"

uint32_t gcoll_arrival_row(const gcoll_algorithm *algorithm) {
    for (uint32_t row = 0; gcoll_algorithms[row]; row++)
        if (gcoll_algorithms[row] == algorithm)
            return row;
    return UINT32_MAX;
}

static bool heeds_arrival(const gcoll_algorithm *algorithm, gcoll_collective collective) {
    return algorithm->uses_arrival && !algorithm->staging && algorithm->collective == collective;
}

bool gcoll_arrival_has_plans(gcoll_collective collective) {
    bool has = false;
    for (uint32_t row = 0; gcoll_algorithms[row]; row++)
        has = has || heeds_arrival(gcoll_algorithms[row], collective);
    return has;
}

uint64_t gcoll_arrival_hash(const gcoll_arrival_decision *decision, uint32_t size) {
    uint64_t hash = gcoll_hash_word(GCOLL_HASH_START, gcoll_arrival_row(decision->algorithm));
    hash = gcoll_hash_word(gcoll_hash_word(hash, decision->id), (uint64_t)decision->segment_ns);
    for (uint32_t rank = 0; rank < size; rank++)
        hash = gcoll_hash_word(hash, (uint64_t)decision->arrival_ns[rank]);
    return hash;
}

static gcoll_status make_plans(const gcoll_algorithm *algorithm, gcoll_problem *problem, gcoll_plan **plans) {
    gcoll_status status = GCOLL_OK;
    for (uint32_t rank = 0; rank < problem->size && status == GCOLL_OK; rank++) {
        problem->rank = rank;
        status = gcoll_plan_create(algorithm, problem, &plans[rank]);
    }
    return status;
}

static gcoll_status simulate(const gcoll_context *context, const gcoll_call *call, const gcoll_choice *choice,
                             gcoll_problem *problem, const double *arrival, double *mean) {
    gcoll_plan **plans = calloc(problem->size, sizeof(gcoll_plan *));
    if (!plans)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for plans of %u ranks", problem->size);
    gcoll_status status = make_plans(choice->algorithm, problem, plans);
    gcoll_simulate_options options;
    gcoll_cost_parameters cost;
    gcoll_sharing sharing;
    gcoll_simulation *simulation = NULL;
    gcoll_simulate_options_init(&options);
    gcoll_basis_numbers(context->basis, false, &cost, &sharing);
    options.network = (gcoll_simulate_link){cost.alpha, cost.beta, sharing.latency};
    const gcoll_levels *levels = gcoll_basis_levels(context->basis, gcoll_call_is_fixed(call));
    if (levels && problem->node) {
        options.node = problem->node;
        options.host =
            (gcoll_simulate_link){levels->alpha, levels->beta, fmin(sharing.latency, levels->alpha)};
        options.node_ports = 1;
    }
    options.gamma = cost.gamma;
    options.type_bytes = call->element_bytes;
    options.arrival = arrival;
    if (status == GCOLL_OK)
        status = gcoll_simulate((const gcoll_plan *const *)plans, problem->size, &options, &simulation);
    if (status == GCOLL_OK)
        *mean = simulation->mean_elapsed;
    gcoll_simulation_destroy(simulation);
    for (uint32_t rank = 0; rank < problem->size; rank++)
        gcoll_plan_destroy(plans[rank]);
    free(plans);
    return status;
}

/* Predicts the mean time of a candidate, planned as ranks plan it. candidate NULL: of the algorithm `named`;
 * NULL, too: of auto's first choice. */
static gcoll_status mean_of(gcoll_arrival *arrival, const gcoll_site *site,
                            const gcoll_arrival_decision *candidate, const char *named,
                            const double *arrivals, double *mean) {
    gcoll_context *context = arrival->context;
    const gcoll_arrival_decision *current = arrival->current; /* a call may wait before it is planned */
    gcoll_call call = site->key;
    gcoll_choice choice = {0};
    double priced;
    uint64_t mark;
    call.buffers = 1;
    call.arrival = candidate ? candidate->id : 0;
    arrival->current = candidate;
    if (named)
        gcoll_call_name(&call, named);
    gcoll_problem problem = gcoll_call_problem(context, &call, &(gcoll_blocks){0});
    problem.in_place = false;
    gcoll_status status = gcoll_call_choose(context, &call, &problem, &choice, &mark, &priced);
    if (status == GCOLL_OK)
        status = simulate(context, &call, &choice, &problem, arrivals, mean);
    arrival->current = current;
    return status;
}

/* Predicts the mean time of the ordinary algorithm: the one that was learned, or auto's first choice if that
 * is predicted to be faster. The model may predict the learned one to be slower than it is, and a plan by
 * arrival must not win by that error. */
static gcoll_status ordinary_mean(gcoll_arrival *arrival, const gcoll_site *site, const double *arrivals,
                                  double *mean) {
    double first = INFINITY;
    gcoll_status status = mean_of(arrival, site, NULL, site->ordinary, arrivals, mean);
    if (status != GCOLL_OK || !site->ordinary)
        return status;
    status = mean_of(arrival, site, NULL, NULL, arrivals, &first);
    *mean = fmin(*mean, first);
    return status;
}

gcoll_status gcoll_arrival_predict(gcoll_arrival *arrival, gcoll_site *site,
                                   gcoll_arrival_decision *decision) {
    const uint32_t size = arrival->context->size;
    double *arrivals = calloc(size, sizeof *arrivals), least = 0;
    if (!arrivals)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for arrivals of %u ranks", size);
    double last = 0, waits = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        arrivals[rank] = 1e-9 * (double)decision->arrival_ns[rank];
        last = arrivals[rank] > last ? arrivals[rank] : last;
    }
    for (uint32_t rank = 0; rank < size; rank++)
        waits += (last - arrivals[rank]) / size;
    gcoll_status status = ordinary_mean(arrival, site, arrivals, &least);
    const double ordinary = least, algorithms = ordinary - waits;
    double best = INFINITY;
    least -= GCOLL_ARRIVAL_GAIN * algorithms;
    for (uint32_t row = 0; status == GCOLL_OK && gcoll_algorithms[row]; row++) {
        gcoll_arrival_decision candidate = *decision;
        double mean;
        candidate.algorithm = gcoll_algorithms[row];
        candidate.id = arrival->ids + 1;
        if (!heeds_arrival(candidate.algorithm, (gcoll_collective)site->key.collective) ||
            mean_of(arrival, site, &candidate, NULL, arrivals, &mean) != GCOLL_OK)
            continue; /* skips candidates that cannot be used */
        best = mean < best ? mean : best;
        if (mean >= least)
            continue;
        least = mean;
        *decision = candidate;
    }
    site->gain = best < INFINITY && algorithms > 0 ? (ordinary - best) / algorithms : 0;
    if (status == GCOLL_OK && decision->algorithm) {
        arrival->ids++;
        decision->hash = gcoll_arrival_hash(decision, size);
    }
    free(arrivals);
    return status;
}
