/* gcoll/lifecycle/lifecycle.h - how contexts come and go: options.c, environment.c, create.c, group.c,
 * destroy.c, the progress thread (thread.c), and what the transport tells (events.c). This folder alone knows
 * all modules.
 */
#ifndef GCOLL_LIFECYCLE_LIFECYCLE_H
#define GCOLL_LIFECYCLE_LIFECYCLE_H

#include "gcoll/context/context.h"
#include "gcoll/tuning/tuning.h"
#include "transport/choice.h"

/* ---- Options (options.c) -------------------------------------------------------------------- */

#define GCOLL_DEFAULT_TIMEOUT_MS INT64_C(30000)
#define GCOLL_JOB_NAMES          "1 to 64 of A-Z a-z 0-9 . _ -"

/* Those of a caller of this or an earlier version, over what stands in `options`. NULL: nothing changes. */
gcoll_status gcoll_context_options_read(gcoll_context_options *options, const gcoll_context_options *given);
/* Whether it can be options.job: GCOLL_JOB_NAMES. */
bool gcoll_job_is_name(const char *job);
/* Errors name the option. */
gcoll_status gcoll_context_options_check(const gcoll_context_options *options);
/* ---- The job's secret (secret.c) ------------------------------------------------------------- */

/* As the options or the environment have it. */
gcoll_status gcoll_secret_read(gcoll_settings *settings, const gcoll_context_options *options);
/* That of another context. */
void gcoll_secret_copy(gcoll_settings *settings, const gcoll_settings *from);
/* Lets the context use a view of its store, in which values are signed if there is a secret. */
gcoll_status gcoll_secret_use_store(gcoll_settings *settings);
/* What is encrypted, and how: after the secret was read. job: the settings' own. */
gcoll_status gcoll_encryption_read(gcoll_settings *settings, const gcoll_context_options *options);
/* ranks: of `from`, by the new ranks; NULL: the same. NO_MEMORY. */
gcoll_status gcoll_encryption_copy(gcoll_settings *settings, const gcoll_settings *from,
                                   const uint32_t *ranks, uint32_t size);
void gcoll_encryption_free(gcoll_settings *settings);
/* For the log: ", encrypted by certificates"; "" if it is not. */
const char *gcoll_encryption_say(const gcoll_settings *settings);
/* INVALID: names in certificates have the numbers of ranks, and newcomers have none. */
gcoll_status gcoll_encryption_may_grow(const gcoll_settings *settings);
/* Forgets the secret and ends the view. */
void gcoll_secret_free(gcoll_settings *settings);
/* Rank 0 says in the log if it listens to others than this host without a secret. */
void gcoll_secret_warn(gcoll_context *context);

/* ---- The network (options.c) ------------------------------------------------------------------ */

/* The transport and the interface of a context, as options and environment say. */
typedef struct gcoll_network {
    const gcoll_transport *transport;
    gcoll_lane_choice *lanes; /* as options.transport names them, or "auto" chooses them; owned */
    uint32_t lane_count;
    bool is_auto;
    const char *interface_from; /* what errors call options.interface: its variable, if it comes from that */
    gcoll_ibverbs_options ibverbs; /* complete, if the transport is that one */
} gcoll_network;

/* Fills in the transport and the lanes: as options.transport says, or GCOLL_TRANSPORT, if that leaves it
 * open. option: what errors call it. */
gcoll_status gcoll_network_find(gcoll_network *network, const char *given, const char *option);
/* Reads the transport and the interface from the options, or from GCOLL_TRANSPORT and GCOLL_INTERFACE where
 * the options leave them open, and writes the result into `options`. These then point into `network`, which
 * must outlive them; the caller frees it by gcoll_network_free. Errors name the option or the variable. */
gcoll_status gcoll_network_read(gcoll_context_options *options, gcoll_network *network);
void gcoll_network_free(gcoll_network *network);
/* Fills them in, with defaults. */
gcoll_status gcoll_settings_copy(gcoll_settings *settings, const gcoll_context_options *options);
/* Copies what the options do not hold. After gcoll_settings_copy. */
gcoll_status gcoll_settings_add_lanes(gcoll_settings *settings, const gcoll_lane_choice *lanes,
                                      uint32_t count, bool may_lack);
void gcoll_settings_free(gcoll_settings *settings);

/* ---- Creation (create.c) -------------------------------------------------------------------- */

/* With all modules, and no endpoint yet. */
gcoll_status gcoll_context_allocate(const gcoll_context_options *options, gcoll_context **context);
/* Gives a context that has no endpoint yet its transport and lanes. */
gcoll_status gcoll_network_use(gcoll_context *context, const gcoll_network *network);
/* Opens the endpoint of a context whose generation is known. */
gcoll_status gcoll_context_open(gcoll_context *context);
/* How long a wait polls, by the ranks and cores of this host, where the caller did not say. */
void gcoll_context_tune_spin(gcoll_context *context, uint32_t local_ranks);
/* What comes last: the monitor, if settings want it, and the thread. */
gcoll_status gcoll_context_finish(gcoll_context *context, bool with_thread);

/* ---- Destruction (destroy.c) ---------------------------------------------------------------- */

/* As gcoll_context_destroy, by limit_ms at the latest. What comes second, the store or messages that are
 * late, gets least_ms all the same. */
void gcoll_context_end(gcoll_context *context, int64_t limit_ms, int64_t least_ms);

/* ---- The progress thread (thread.c) --------------------------------------------------------- */

gcoll_status gcoll_thread_start(gcoll_context *context);
/* Waits until it has ended. Nothing if there is none. */
void gcoll_thread_stop(gcoll_context *context);
/* In a forked child, where it does not run: frees it. False if it was at work when the process forked. */
bool gcoll_thread_abandon(gcoll_context *context);

/* ---- Recovery (recovery.c) ------------------------------------------------------------------ */

/* Opens the council of a new context, and makes it known to the other ranks. Collective on the context. */
gcoll_status gcoll_recovery_meet(gcoll_context *context);

/* ---- Others --------------------------------------------------------------------------------- */

extern const gcoll_events gcoll_context_events; /* arg to be set (events.c) */
extern const gcoll_fit gcoll_fit_by_pairs;      /* fit.c */

#endif
