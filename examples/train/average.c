/* average.c - one allreduce for the gradients of all layers, which lie one behind the other.
 *
 * Every rank updates its own copy of the weights, so the mean must have the same bits everywhere, or the
 * copies would drift apart, a little more with each step. Not every algorithm gives that: a sum of floats
 * depends on its order. rank_identical asks for one that does; another one that is named is refused. */
#include "average.h"

#include <stdio.h>
#include <string.h>

#include "pace.h"

/* What auto takes may depend on what was measured when the context was made. A run that goes on from a
 * checkpoint must add up in the order of the run that wrote it, so the name is settled once, and kept. */
static bool settle(average *self) {
    gcoll_operation *operation;
    if (!job_good(self->job, gcoll_allreduce_create(self->job->context, NULL, self->gradients, self->count,
                                                    GCOLL_FLOAT32, GCOLL_AVG, &self->options, &operation))) {
        return false;
    }
    (void)snprintf(self->algorithm, sizeof self->algorithm, "%s", gcoll_operation_algorithm(operation));
    gcoll_operation_destroy(operation);
    return true;
}

/* The first call makes connections, which belongs to no step. The gradients are all 0 still. */
static bool warm_up(average *self) {
    const bool good = average_begin(self) && average_gradients(self);
    self->steps = 0;
    self->compute_s = self->elapsed_s = 0;
    return good;
}

bool average_make(average *self, train_job *job, const char *algorithm, monitoring monitor, float *gradients,
                  uint64_t count) {
    *self = (average){.job = job, .monitor = monitor, .gradients = gradients, .count = count};
    gcoll_allreduce_options_init(&self->options);
    self->options.rank_identical = 1;
    self->options.algorithm = algorithm;
    (void)snprintf(self->algorithm, sizeof self->algorithm, "%s", algorithm);
    if (monitor == MONITOR_OFF && !settle(self)) {
        return false;
    }
    self->options.algorithm = self->algorithm;
    return warm_up(self);
}

bool average_begin(average *self) {
    self->begun_at = clock_now();
    return self->monitor == MONITOR_OFF || job_good(self->job, gcoll_arrival_begin(self->job->context));
}

bool average_part(average *self, double fraction) {
    return self->monitor != MONITOR_EDGES ||
           job_good(self->job, gcoll_arrival_edge(self->job->context, fraction));
}

bool average_gradients(average *self) {
    const double arrived_at = clock_now();
    if (self->monitor != MONITOR_OFF && !job_good(self->job, gcoll_arrival_finish(self->job->context))) {
        return false;
    }
    if (!job_good(self->job, gcoll_allreduce(self->job->context, NULL, self->gradients, self->count,
                                             GCOLL_FLOAT32, GCOLL_AVG, &self->options))) {
        return false;
    }
    self->steps++;
    self->compute_s += arrived_at - self->begun_at;
    self->elapsed_s += clock_now() - arrived_at;
    return true;
}

bool average_look(average *self, uint64_t *heeded) {
    gcoll_site_stats site = {.struct_size = sizeof site};
    *heeded = 0;
    for (uint32_t s = 0; self->monitor != MONITOR_OFF; s++) {
        if (!job_good(self->job, gcoll_context_stats(self->job->context, s, &site, NULL))) {
            return false;
        }
        if (site.collective == GCOLL_ALLREDUCE && site.type == GCOLL_FLOAT32) {
            *heeded = site.heeded;
            (void)snprintf(self->algorithm, sizeof self->algorithm, "%s", site.algorithm);
            break;
        }
    }
    return true;
}
