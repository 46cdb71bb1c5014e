/* job.h - the ranks together: a store to meet in, a context, and what they tell one another beside gradients.
 */
#ifndef TRAIN_JOB_H
#define TRAIN_JOB_H

#include <gcoll/gcoll.h>
#include <stdbool.h>

#include "options.h"

typedef struct train_job {
    uint32_t rank, size;
    gcoll_store *store;
    gcoll_context *context;
    bool stopped; /* by job_stop here */
} train_job;

/* Returns when all ranks are there. False: has been said, and job_close is due in any case. */
bool job_open(train_job *self, const train_options *options);
void job_close(train_job *self);

/* False: the call has failed, and has said why. */
bool job_good(const train_job *self, gcoll_status status);

/* Says the reason and ends the job on all ranks; the others say it when they are next in a call. */
void job_stop(train_job *self, const char *reason);

/* Rank 0's `bytes` bytes to all ranks. */
bool job_share(train_job *self, void *data, uint64_t bytes);

/* Are these bytes, as every rank has them, the same everywhere? False: the ranks that differ from rank 0 are
 * named. *hash: of the bytes. */
bool job_agree(train_job *self, const void *data, uint64_t bytes, uint64_t *hash);

/* FNV-1a of 64 bits, going on from `hash`. */
#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)
uint64_t hash_bytes(uint64_t hash, const void *data, uint64_t bytes);

#endif
