/*
 * gcoll/environment.h - a job's rank, size and store, as the launcher that started this process says them in
 * the environment.
 *
 *     gcoll_context *context;
 *     gcoll_context_create_from_env(NULL, &context);
 *
 * docs/launchers.md lists the variables of each launcher, which of several wins, and commands.
 */
#ifndef GCOLL_ENVIRONMENT_H
#define GCOLL_ENVIRONMENT_H

#include <stddef.h>
#include <stdint.h>

#include "gcoll/context.h"

GCOLL_BEGIN_DECLS

#define GCOLL_ENVIRONMENT_JOB_MAX   65   /* bytes, with the NUL */
#define GCOLL_ENVIRONMENT_STORE_MAX 1024 /* the same */

/* A process and its job, as a launcher says. */
typedef struct gcoll_environment {
    size_t struct_size;  /* set by gcoll_environment_init */
    uint32_t rank, size; /* of the job */
    uint32_t local_rank; /* number among the job's ranks on this host; UINT32_MAX: not said */
    uint32_t local_size; /* ranks of the job on this host; 0: not said */
    /* The launcher that said rank and size: "gcoll" (GCOLL_RANK, GCOLL_SIZE), "torchrun", "slurm", "openmpi",
     * "pmi", "pmix" or "kubernetes". A constant. */
    const char *source;
    char job[GCOLL_ENVIRONMENT_JOB_MAX];     /* for options.job; "default" if there is no name */
    char store[GCOLL_ENVIRONMENT_STORE_MAX]; /* URL for gcoll_store_open; "": set GCOLL_STORE */
} gcoll_environment;

/* Fills `environment` with its struct_size, and values that say nothing. Always call it first: later versions
 * add fields. */
GCOLL_API void gcoll_environment_init(gcoll_environment *environment);

/* Reads the variables of this process into `environment`. Opens and sends nothing. No other thread may change
 * the environment meanwhile. A variable that is empty counts as not set. Errors name the variable, its value
 * and what is allowed. GCOLL_ERR_NOT_FOUND: no launcher's variables are set. GCOLL_ERR_INVALID: a variable
 * has a value that is not allowed, or is missing though others of its launcher are set, or two launchers say
 * different ranks or sizes. */
GCOLL_API gcoll_status gcoll_environment_read(gcoll_environment *environment);

/* Reads the environment, opens the store and creates a context. `options` may be NULL: the defaults. Its rank
 * and size are replaced. Its store must be NULL. Its job, if it is not NULL, replaces that of the
 * environment. The context owns the store: gcoll_context_destroy closes it last. On the rank whose process
 * serves a tcp store, that takes up to GCOLL_STORE_LINGER_MS more. Blocks up to options->timeout_ms for the
 * store, and as long again for the other ranks. Errors: those of gcoll_environment_read, gcoll_store_open and
 * gcoll_context_create; INVALID names GCOLL_STORE if nothing says where ranks meet. */
GCOLL_API gcoll_status gcoll_context_create_from_env(const gcoll_context_options *options,
                                                     gcoll_context **context);

GCOLL_END_DECLS

#endif
