/*
 * gcoll/recovery.h - going on after a failure: which ranks are gone, an agreement of those that are left, and
 * a context for them.
 *
 * A context that has broken stays broken. With options.recovery the ranks that are left can still agree on
 * what happened, and make a new context of their own, without a visit to the store:
 *
 *     gcoll_status status = gcoll_allreduce(context, data, sums, count, GCOLL_FLOAT32, GCOLL_SUM, NULL);
 *     uint64_t all_well = status == GCOLL_OK;
 *     if (gcoll_context_agree(context, &all_well, NULL, 0) != GCOLL_OK)
 *         return leave();         // gcoll_last_error says why; mostly, that this rank was left out
 *     if (!all_well) {
 *         gcoll_context *survivors;
 *         if (gcoll_context_shrink(context, NULL, &survivors) != GCOLL_OK)
 *             return leave();
 *         gcoll_context_destroy(context);
 *         context = survivors;    // and repeat the call
 *     }
 *
 * The call has an output of its own, because a call in place that fails may have changed its input, unless it
 * has options.keep_input. Calls with options.uniform agree by themselves (both: gcoll/collectives.h).
 *
 * What counts as gone. A rank whose process has ended, or that has destroyed its context; a rank from which
 * nothing has come for a timeout, because it is stopped, cut off or in no call. Once the others count a rank
 * as gone they do so for good. If it lives, its own calls here fail with GCOLL_ERR_PEER, and nothing that it
 * sends reaches the context that the others make: each context has a random number, which ranks compare when
 * they connect.
 *
 * These calls go by connections of their own, which two ranks make when they first need them. They work on a
 * context that is broken, and on one that is not. Each is collective among the ranks that are left: all of
 * them call it, in the same order. It does not matter in which calls they were when the context broke.
 */
#ifndef GCOLL_RECOVERY_H
#define GCOLL_RECOVERY_H

#include "gcoll/context.h"

GCOLL_BEGIN_DECLS

/* Lists the ranks that are known here to be gone: all that agreements on this context have found, and, until
 * the next agreement, the culprit of a broken context, if it died, left, went silent or was late. If it lives
 * and comes to the agreement, it is not gone. Other ranks may know of others; after gcoll_context_agree the
 * lists of all ranks are the same but for later deaths. Does not wait or send.
 * ranks: receives up to `room` ranks, in increasing order; NULL if room is 0. count: receives the number of
 * all that are known, which may be more. Works without options.recovery, too. Errors: INVALID, STATE. */
GCOLL_API gcoll_status gcoll_context_failed(gcoll_context *context, uint32_t *ranks, uint32_t room,
                                            uint32_t *count);

/* Returns the number of the latest operation such that it and all before it have completed on this rank.
 * Every collective counts, as its number in error texts ("allreduce #3"), those inside the creation of
 * contexts too. Take the difference of two calls. 0 for NULL. */
GCOLL_API uint64_t gcoll_context_completed(gcoll_context *context);

/* Agrees with the ranks that are left. All of them get the same results, also if more ranks die while it
 * runs, and also those that die right afterwards. bits: this rank's; receives the bitwise AND of the bits of
 * all ranks that are left. Those of a rank that dies during the call may be in it or not. completed: receives
 * the minimum of gcoll_context_completed of these ranks; NULL: not wanted. timeout_ms: a rank from which
 * nothing comes for so long counts as gone: 1 to 86400000; -1: none. 0: the context's timeout; or twice that
 * until the context breaks, because ranks that wait in a collective for a silent one give it up after up to
 * one and a half. A rank that is in a collective of this context, or has a progress thread, answers there: it
 * is waited for up to eight times as long.
 *
 * If ranks are found to be gone, the context breaks, if it has not yet: collectives on it then fail at once,
 * instead of waiting for them. gcoll_context_failed lists these ranks. Blocks until all ranks that are left
 * have called it. Costs six messages between the lowest rank that is left and each other rank, and the
 * connections for them the first time. Errors, which change nothing:
 *   UNSUPPORTED  the context has no options.recovery
 *   PEER         this rank was left out
 *   MISMATCH     another rank is in gcoll_context_shrink, gcoll_context_grow or a call with options.uniform;
 *                on all ranks
 *   NO_MEMORY    this rank is out of memory or descriptors, and can take part in no agreement any more. The
 *                others take it for gone after timeout_ms */
GCOLL_API gcoll_status gcoll_context_agree(gcoll_context *context, uint64_t *bits, uint64_t *completed,
                                           int64_t timeout_ms);

/* Options of gcoll_context_shrink. */
typedef struct gcoll_shrink_options {
    size_t struct_size; /* set by gcoll_shrink_options_init */
    int64_t timeout_ms; /* as of gcoll_context_agree */
    /* 1, the same on every rank: GCOLL_ERR_PEER unless more than half of the ranks of `context` are left. If
     * a network falls into parts, then at most one part goes on. 0: each part may. */
    int majority;
} gcoll_shrink_options;

/* Fills `options` with defaults. Always call it first: later versions add fields. */
GCOLL_API void gcoll_shrink_options_init(gcoll_shrink_options *options);

/* Makes a context of the ranks that are left, in their old order, with the options of `context`.
 * gcoll_context_parent_rank translates a rank of the new context to its rank of the old one. Does not visit
 * the store. A rank that dies meanwhile is in the new context or not, the same on all ranks. In the first
 * case the new context breaks when the rank is first needed, and can be shrunk in its turn. `context` stays
 * as it was; it may be destroyed before the new one or after it. options: NULL for the defaults. Costs three
 * agreements, and new connections where the new context needs them. Errors, as of gcoll_context_agree, and:
 *   INVALID  names the option
 *   PEER     too few ranks are left for options.majority; or a rank could not open its end, with its reason.
 *            In the second case all ranks get it, and may try again. */
GCOLL_API gcoll_status gcoll_context_shrink(gcoll_context *context, const gcoll_shrink_options *options,
                                            gcoll_context **shrunk);

/* The most newcomers that wait in a job's store at a time; more wait for a place. */
#define GCOLL_GROW_MOST 16

/* Options of gcoll_context_grow. store is needed on every rank, and job is the same on all. */
typedef struct gcoll_grow_options {
    size_t struct_size; /* set by gcoll_grow_options_init */
    gcoll_store *store; /* in which newcomers wait. Not owned, and not used after the call */
    const char *job;    /* as options.job of gcoll_context_create; NULL: "default" */
    uint32_t most;      /* newcomers that are admitted, of the lowest rank that is left: 1 to
                           GCOLL_GROW_MOST; 0: as many as wait */
    int64_t timeout_ms; /* as of gcoll_context_agree */
} gcoll_grow_options;

/* Fills `options` with defaults. Always call it first: later versions add fields. */
GCOLL_API void gcoll_grow_options_init(gcoll_grow_options *options);

/* Makes a context of the ranks that are left and of newcomers, which call gcoll_context_join. Those that are
 * left come first, in their old order, with the options of `context`. gcoll_context_parent_rank gives
 * UINT32_MAX for newcomers. Collective among the ranks that are left, on a context that is broken or not.
 * *grown: NULL, and GCOLL_OK, if nobody waits; then call gcoll_context_shrink if the context is broken.
 *
 * It returns once all newcomers are in. A newcomer that does not answer within a second (a quarter of the
 * time limit, if that is less) loses its place, and the others go on without it. If a rank or newcomer dies
 * meanwhile, the call begins again without it. One that dies afterwards breaks the new context, which can be
 * shrunk or grown in its turn. `context` stays as it was, also if the call fails, and may be used, grown
 * again or destroyed.
 *
 * Only the lowest rank that is left asks the store, and in its place the next one if it dies. If the store
 * fails, all ranks get that status. `auto` uses the costs of the context, but no rules of a tuning file.
 * Costs 16 requests to the store if nobody waits, and an agreement; else three agreements, and some five
 * requests for each newcomer. Errors, as of gcoll_context_shrink, and:
 *   INVALID      names the option
 *   UNSUPPORTED  the context is of transport inproc, or the store lacks operations */
GCOLL_API gcoll_status gcoll_context_grow(gcoll_context *context, const gcoll_grow_options *options,
                                          gcoll_context **grown);

/* Joins a job that is running, as a newcomer: waits in the store until the ranks of a context call
 * gcoll_context_grow, and becomes a rank of the new context. options: as of gcoll_context_create. rank and
 * size are not used. store is needed, and used in this call only. recovery is implied. transport, checksum,
 * eager sizes and reductions' options must fit those of the ranks that are in, as in gcoll_context_create;
 * cost, tuning and monitor come from them. *joined: the context. Blocks up to options.timeout_ms. If the
 * ranks begin again, it begins again, too.
 * Errors: as of gcoll_context_create, and
 *   INVALID      store is NULL; exchange or share is set
 *   UNSUPPORTED  transport inproc, or a store that lacks operations
 *   TIMEOUT      it was not admitted in time. The text says how far it came. It may try again */
GCOLL_API gcoll_status gcoll_context_join(const gcoll_context_options *options, gcoll_context **joined);

GCOLL_END_DECLS

#endif
