/*
 * gcoll/recovery.h - going on after a failure: which ranks are gone, an agreement of those that are left, and
 * a context for them.
 *
 * A context that has broken stays broken. With options.recovery the ranks that are left can still agree on
 * what happened, and make a new context of their own, without a visit to the store:
 *
 *     gcoll_status status = gcoll_allreduce(context, NULL, data, count, GCOLL_FLOAT32, GCOLL_SUM, NULL);
 *     uint64_t all_well = status == GCOLL_OK;
 *     gcoll_context_agree(context, &all_well, NULL, 0);
 *     if (!all_well) {
 *         gcoll_context *survivors;
 *         gcoll_context_shrink(context, NULL, &survivors);
 *         gcoll_context_destroy(context);
 *         context = survivors;    // and repeat the call
 *     }
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

/* Lists the ranks that are known here to be gone: the culprit of a broken context, if it died, left or went
 * silent, and all that agreements on this context have found. Other ranks may know of others; after
 * gcoll_context_agree the lists of all ranks are the same but for later deaths. Does not wait or send.
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
 * one and a half.
 *
 * If ranks are found to be gone, the context breaks, if it has not yet: collectives on it then fail at once,
 * instead of waiting for them. gcoll_context_failed lists these ranks. Blocks until all ranks that are left
 * have called it. Costs six messages between the lowest rank that is left and each other rank, and the
 * connections for them the first time. Errors, which change nothing:
 *   UNSUPPORTED  the context has no options.recovery
 *   PEER         this rank was left out
 *   MISMATCH     another rank is in gcoll_context_shrink; on all ranks
 *   NO_MEMORY    this rank is out of memory or descriptors. Out of memory, it can take part in no agreement
 *                any more */
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

GCOLL_API void gcoll_shrink_options_init(gcoll_shrink_options *options);

/* Makes a context of the ranks that are left, in their old order, with the options of `context`.
 * gcoll_context_parent_rank translates a rank of the new context to its rank of the old one. Does not visit
 * the store. A rank that dies meanwhile is in the new context or not, the same on all ranks. In the first
 * case the new context breaks when the rank is first needed, and can be shrunk in its turn. `context` stays
 * as it was; it may be destroyed before the new one or after it. options: NULL for the defaults. Costs two
 * agreements, and new connections where the new context needs them. Errors, as of gcoll_context_agree, and:
 *   INVALID  names the option
 *   PEER     too few ranks are left for options.majority; or a rank could not open its end, with its reason.
 *            In the second case all ranks get it, and may try again. */
GCOLL_API gcoll_status gcoll_context_shrink(gcoll_context *context, const gcoll_shrink_options *options,
                                            gcoll_context **shrunk);

GCOLL_END_DECLS

#endif
