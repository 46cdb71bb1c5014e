/*
 * gcoll/arrival.h - arrival patterns: collectives that know who will be late.
 *
 * Ranks that compute between collectives rarely finish together, and the same ones are mostly late again. A
 * context that was created with options.monitor = 1 watches when each rank enters its collectives. Where one
 * is late by more than it costs to heed it, `auto` takes an algorithm in which the others begin without it
 * (docs/arrival-patterns.md). No other call is needed:
 *
 *     options.monitor = 1;                           on every rank
 *     ...
 *     for (;;) {
 *         compute();
 *         gcoll_allreduce(context, ...);
 *     }
 *
 * What is watched. Blocking allreduce, reduce, reduce_scatter, broadcast, allgather and barrier whose
 * algorithm is auto, by *site*: the calls that agree in collective, type, operation, count, blocks, root,
 * what they ask of the result, and the number set by gcoll_arrival_site. Every rank must make the same
 * watched calls in the same order, as it must anyway, and in the same form: a collective that blocks on one
 * rank must block on all. Started and persistent collectives take the ordinary choice. There are 64 sites at
 * most, the first ones; further calls are ordinary.
 *
 * What is assumed of time. No clocks of two ranks are ever compared. Each rank measures with its own
 * monotonic clock how long after the end of the previous *meeting* it enters a collective: a meeting is the
 * last blocking barrier, allreduce or allgather of equal blocks, which nobody leaves before everybody has
 * come. Ranks do not leave a meeting at once: what one calls its end may be later than what another does by
 * up to the time that the meeting takes after its last rank has come. So differences between ranks that are
 * small beside an operation are not trusted, and the least imbalance that is heeded grows with what an
 * operation takes.
 *
 * Who decides. Rank 0 gathers reports and announces to all ranks what a site does from a given call on: the
 * algorithm, and for each rank when it is expected. A rank that reaches such a call waits for the
 * announcement, so all ranks run one plan; between announcements no message is sent. A report that is late or
 * lost changes nothing but the numbers that rank 0 goes by. A rank 0 that is dead or stuck is like any rank
 * that is: the call fails within the context's timeout and names it. Rank 0 sends an announcement when it has
 * ended the last call but one before, so it is mostly there long before it is needed. Only where ranks report
 * edges it comes later, before the call itself; a rank that has arrived and lacks it asks for it, which takes
 * a message to rank 0 and back.
 *
 * What it costs. Two readings of the clock and some arithmetic in each watched call; a small message from and
 * to each rank every 4 to 1024 calls of a site; rank 0 has a connection to every rank.
 *
 * Results. With options.rank_identical only algorithms that claim it are taken. But an announcement may
 * change the order of a sum, so two runs of a program may differ in the last bits where ranks are late
 * differently: who needs the same bits in each run names an algorithm, or leaves the monitor off.
 *
 * The algorithms: those whose row says `uses_arrival` (gcoll/plan.h). They are compared by the simulator,
 * with the costs that auto reckons with, whenever the ranks are late in a new way; that takes rank 0 up to
 * some 50 ms, and is done for 3 to 64 ranks. Other contexts have the statistics only.
 */
#ifndef GCOLL_ARRIVAL_H
#define GCOLL_ARRIVAL_H

#include "gcoll/context.h"

GCOLL_BEGIN_DECLS

/* Ranks of a context that heeds who is late. Two have no order to change; with more than the most, plans
 * would take too long to simulate. */
#define GCOLL_ARRIVAL_LEAST_RANKS 3u
#define GCOLL_ARRIVAL_MOST_RANKS  64u

/* ---- What the computation tells ----------------------------------------------------------------------
 * For patterns that change from phase to phase, and so cannot be known from the past. Each rank calls begin
 * where its computation starts, edge once it has done a part of it, and finish at its end, right before the
 * collective. All three are optional, and may be called on some ranks only. They return at once, and send a
 * message of less than 1 KiB at most. From the thread that uses the context.
 *
 * Errors: INVALID (context is NULL; fraction), STATE (the context has no monitor; edge: it has no progress
 * thread, which passes reports on while the ranks compute: create it with options.progress_thread = 1), and
 * whatever broke the context. */

/* The computation begins. */
GCOLL_API gcoll_status gcoll_arrival_begin(gcoll_context *context);
/* This part of it is done, 0 < fraction < 1: the rest is expected to take accordingly. STATE if there was no
 * begin. More than one a phase is allowed; each replaces the one before. */
GCOLL_API gcoll_status gcoll_arrival_edge(gcoll_context *context, double fraction);
/* The computation is over: what follows until the collective counts as the same in each phase. */
GCOLL_API gcoll_status gcoll_arrival_finish(gcoll_context *context);

/* The calls that follow on this context belong to the site with this number, and not to others that look
 * alike: for programs that call the same collective in several places. The same on every rank; 0 at first.
 * STATE without a monitor.
 */
GCOLL_API gcoll_status gcoll_arrival_site(gcoll_context *context, uint32_t number);

/* ---- What was seen --------------------------------------------------------------------------------- */

/* Of one site. */
typedef struct gcoll_site_stats {
    size_t struct_size;          /* sizeof, set by the caller */
    uint32_t number;             /* gcoll_arrival_site */
    gcoll_collective collective; /* with the shape that its calls have */
    gcoll_type type;
    gcoll_op op;
    uint32_t root;
    uint64_t count;         /* of the problem: all blocks */
    uint64_t calls;         /* on this rank */
    uint64_t heeded;        /* of these, with an algorithm chosen by arrival */
    uint64_t announcements; /* that ranks got */
    uint64_t changes;       /* of these, such that changed the plan */
    double elapsed_us;      /* on this rank, the mean of a call from entry to return */
    double waited_us;       /* on this rank, in all, for announcements */
    double imbalance_us;    /* from the first rank to the last one, as the last announcement expects it */
    double threshold_us;    /* up to which the choice is ordinary; rank 0, else 0 */
    double gain; /* what the best plan by arrival was predicted to spare of the ordinary one's mean time but
                  * for the wait for the last rank, at the last announcement; below 0.03 it is not taken. 0:
                  * the imbalance was below the threshold, or this is not rank 0 */
    char algorithm[128]; /* of the last call */
} gcoll_site_stats;

/* Of one rank at one site. Lateness is counted from the rank that came first in that call. */
typedef struct gcoll_rank_stats {
    uint64_t calls;      /* that were compared: of the latest 8 before each report. Rank 0; else 0 */
    uint64_t late;       /* of these, with a lateness beyond the threshold */
    uint64_t last;       /* of these, as the last one, so */
    double mean_late_us; /* of all that were compared */
    double max_late_us;  /* of these */
    double expected_us;  /* the lateness that the last announcement goes by; any rank. Rounded, and no more
                          * than 8 P segments of 1/P of the vector: beyond that plans are the same */
} gcoll_rank_stats;

/* The index-th site, in the order of their first calls. stats->struct_size is set by the caller; ranks is
 * NULL, or has room for as many entries as the context has ranks. Rank 0 has the numbers of all ranks.
 * Errors: NOT_FOUND past the last one, STATE without a monitor, INVALID (names the argument). */
GCOLL_API gcoll_status gcoll_context_stats(gcoll_context *context, uint32_t index, gcoll_site_stats *stats,
                                           gcoll_rank_stats *ranks);

/* The same of one site in words: a line for it, and below it why late ranks are heeded or not, and up to 8 of
 * them, the latest first; cut to `bytes`, the terminator included. Errors: as above. */
GCOLL_API gcoll_status gcoll_context_site_text(gcoll_context *context, uint32_t index, char *text,
                                               size_t bytes);

/* And of all sites as a table for people, cut to `bytes`, its terminator included. Rank 0 writes it to
 * standard error when the context is destroyed if the environment variable GCOLL_ARRIVAL_STATS is 1. */
GCOLL_API gcoll_status gcoll_context_stats_text(gcoll_context *context, char *text, size_t bytes);

GCOLL_END_DECLS

#endif
