/* job.c - errors of gcoll name what went wrong, and the rank at fault; here they only get the number of this
 * one. */
#include "job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

bool job_good(const train_job *self, gcoll_status status) {
    if (status == GCOLL_ERR_ABORTED && self->stopped) {
        return false; /* job_stop has said why */
    }
    if (status == GCOLL_ERR_ABORTED) { /* the message begins with the rank, and that it has aborted */
        complain("rank %u: %s", self->rank, gcoll_last_error());
    } else if (status != GCOLL_OK) {
        complain("rank %u: %s: %s", self->rank, gcoll_status_text(status), gcoll_last_error());
    }
    return status == GCOLL_OK;
}

bool job_open(train_job *self, const train_options *options) {
    gcoll_context_options context;
    gcoll_context_options_init(&context);
    *self = (train_job){.rank = options->rank, .size = options->size};
    context.rank = options->rank;
    context.size = options->size;
    context.job = options->job != NULL ? options->job : "train";
    context.timeout_ms = (int64_t)options->timeout_s * 1000;
    context.monitor = options->monitor != MONITOR_OFF;
    context.progress_thread = options->monitor == MONITOR_EDGES; /* passes on what edges say */
    if (!job_good(self, gcoll_store_open(options->store, context.timeout_ms, &self->store))) {
        return false;
    }
    context.store = self->store;
    return job_good(self, gcoll_context_create(&context, &self->context));
}

void job_close(train_job *self) {
    gcoll_context_destroy(self->context);
    gcoll_store_destroy(self->store);
}

void job_stop(train_job *self, const char *reason) {
    complain("rank %u: %s", self->rank, reason);
    self->stopped = true;
    gcoll_context_abort(self->context, reason);
}

bool job_share(train_job *self, void *data, uint64_t bytes) {
    return job_good(self, gcoll_broadcast(self->context, data, bytes, GCOLL_UINT8, 0, NULL));
}

uint64_t hash_bytes(uint64_t hash, const void *data, uint64_t bytes) {
    const unsigned char *each = data;
    for (uint64_t i = 0; i < bytes; i++) {
        hash = (hash ^ each[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

bool job_agree(train_job *self, const void *data, uint64_t bytes, uint64_t *hash) {
    uint64_t *all = calloc(self->size, sizeof *all);
    const uint64_t own = hash_bytes(HASH_BEGIN, data, bytes);
    bool good = all != NULL;
    if (!good) {
        complain("rank %u: no memory", self->rank);
    }
    good = good && job_good(self, gcoll_allgather(self->context, &own, all, 1, GCOLL_UINT64, NULL));
    for (uint32_t r = 1; good && r < self->size; r++) {
        if (all[r] != all[0]) {
            complain("rank %u: the weights of rank %u (%016" PRIx64 ") are not those of rank 0 (%016" PRIx64
                     ")",
                     self->rank, r, all[r], all[0]);
            good = false;
        }
    }
    free(all);
    *hash = own;
    return good;
}
