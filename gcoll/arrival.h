/*
 * gcoll/arrival.h - the monitor: collectives that do not wait for late ranks.
 *
 * Ranks that compute between collectives rarely finish together, and often the same ranks are late again. A
 * context with options.monitor = 1 measures when each rank enters its collectives. If a rank is late by more
 * than it costs to react, `auto` takes an algorithm in which the other ranks begin without it
 * (docs/arrival-patterns.md). No other call is needed:
 *
 *     options.monitor = 1;                           on every rank
 *     ...
 *     for (;;) {
 *         compute();
 *         gcoll_allreduce(context, ...);
 *     }
 *
 * Watched calls. Blocking allreduce, reduce, reduce_scatter, broadcast, allgather and barrier with algorithm
 * auto are watched. Calls form a *site* if they agree in collective, type, operation, count, blocks, root,
 * `same`, and the number set by gcoll_arrival_site. Every rank must make the same watched calls in the same
 * order, as always, and in the same form: a collective that blocks on one rank must block on all. Started and
 * persistent collectives are not watched. The first 64 sites are; calls of further sites are not.
 *
 * Time. Clocks of two ranks are never compared. Each rank measures by its own monotonic clock how long after
 * the end of the previous *meeting* it enters a collective. A meeting is the last blocking barrier, allreduce
 * or allgather of equal blocks, because no rank leaves these before all have entered. Ranks do not leave a
 * meeting at the same moment: they differ by up to the time that the meeting takes after its last rank has
 * come. So small differences between ranks are not trusted, and the smallest imbalance that counts grows with
 * the time of an operation.
 *
 * Decisions. Rank 0 gathers reports and announces to all ranks what a site does from a given call on: the
 * algorithm, and when each rank is expected. A rank that reaches that call waits for the announcement, so all
 * ranks run one plan. Between announcements no message is sent. A report that is late or lost changes only
 * the numbers that rank 0 uses. If rank 0 is dead or stuck, the call fails within the context's timeout and
 * names it, as for any rank. Rank 0 sends an announcement two calls ahead, so it is usually there long before
 * it is needed. If ranks report edges it comes later, just before the call; a rank that needs it earlier asks
 * for it, which takes a message to rank 0 and back.
 *
 * Cost. Two readings of the clock and some arithmetic in each watched call; a small message from and to each
 * rank every 4 to 1024 calls of a site; rank 0 has a connection to every rank.
 *
 * Results. options.same holds. An announcement may change the order of a sum, so two runs of a program may
 * differ in the last bits if ranks are late in different ways. Calls with GCOLL_SAME_IN_RUNS whose bits
 * depend on the order are not watched.
 *
 * Algorithms. Those whose row says `uses_arrival` (gcoll/plan.h). Rank 0 compares them, in the simulator,
 * with the ordinary algorithm: the one that auto has learned (docs/tuning.md), or its first choice if that is
 * predicted to be faster. The simulator goes by the costs that auto uses. A comparison takes up to some 50
 * ms. Rank 0 makes one when the ranks are late in a new way, or when auto has learned another algorithm, in
 * contexts of 3 to 64 ranks. Contexts of other sizes only have the statistics.
 */
#ifndef GCOLL_ARRIVAL_H
#define GCOLL_ARRIVAL_H

#include "gcoll/context.h"

GCOLL_BEGIN_DECLS

/* Ranks of a context that reacts to late ranks. Two ranks have no order to change; with more than the
 * maximum, simulating the plans takes too long. */
#define GCOLL_ARRIVAL_LEAST_RANKS 3u
#define GCOLL_ARRIVAL_MOST_RANKS  64u

/* ---- Edges: the computation reports its progress ----------------------------------------------------
 *
 * For lateness that changes from phase to phase, so that the past does not predict it. Each rank calls begin
 * when its computation starts, edge when it has done a part of it, and finish at its end, right before the
 * collective. All three are optional, and may be called on some ranks only. They return at once and send at
 * most a message of less than 1 KiB. Call them from the thread that uses the context.
 *
 * Errors: INVALID (context is NULL; fraction), STATE (the context has no monitor; for edge also: it has no
 * progress thread, which sends reports while the ranks compute: set options.progress_thread = 1), and the
 * cause of a broken context. */

/* Says that the computation begins. */
GCOLL_API gcoll_status gcoll_arrival_begin(gcoll_context *context);
/* Says that a part of the computation is done. fraction: which part, 0 < fraction < 1; the rest is expected
 * to take its share. GCOLL_ERR_STATE without a begin. Several calls in a phase are allowed; each replaces the
 * one before. */
GCOLL_API gcoll_status gcoll_arrival_edge(gcoll_context *context, double fraction);
/* Says that the computation is over. The time from here to the collective counts as the same in each phase.
 */
GCOLL_API gcoll_status gcoll_arrival_finish(gcoll_context *context);

/* Sets the site number of the calls that follow on this context, so that calls in different places of a
 * program are different sites even if they look alike. The same on every rank; 0 at first. STATE without a
 * monitor. */
GCOLL_API gcoll_status gcoll_arrival_site(gcoll_context *context, uint32_t number);

/* ---- Statistics ------------------------------------------------------------------------------------- */

/* Statistics of one site. */
typedef struct gcoll_site_stats {
    size_t struct_size;          /* sizeof, set by the caller */
    uint32_t number;             /* gcoll_arrival_site */
    gcoll_collective collective; /* this and the next four: the shape of its calls */
    gcoll_type type;
    gcoll_op op;
    uint32_t root;
    uint64_t count;         /* elements, of all blocks together */
    uint64_t calls;         /* on this rank */
    uint64_t heeded;        /* calls with an algorithm chosen by arrival */
    uint64_t announcements; /* that ranks received */
    uint64_t changes;       /* announcements that changed the plan */
    double elapsed_us;      /* mean time of a call on this rank, from entry to return */
    double waited_us;       /* total time that this rank waited for announcements */
    double imbalance_us;    /* expected time from the first rank to the last, by the last announcement */
    double threshold_us;    /* imbalance up to which the choice is ordinary; 0 except on rank 0 */
    double gain; /* predicted gain of the best plan by arrival at the last announcement, as a part of the
                  * ordinary plan's mean time without the wait for the last rank; below 0.03 the plan is not
                  * taken. 0: the imbalance was below the threshold, or this is not rank 0 */
    char algorithm[128]; /* of the last call */
} gcoll_site_stats;

/* Statistics of one rank at one site. Lateness is counted from the first rank of that call. */
typedef struct gcoll_rank_stats {
    uint64_t calls; /* calls that were compared, of the latest 8 before each report; 0 except on rank 0 */
    uint64_t late;  /* calls with a lateness beyond the threshold */
    uint64_t last;  /* calls in which the rank was also the last one */
    double mean_late_us; /* mean over the calls that were compared */
    double max_late_us;  /* maximum over them */
    double expected_us;  /* lateness by the last announcement, on every rank. Rounded, and at most the time of
                          * 8 P segments of 1/P of the vector: beyond that plans are the same */
} gcoll_rank_stats;

/* Gives the statistics of the index-th site, in the order of their first calls. The caller sets
 * stats->struct_size. ranks is NULL, or has room for one entry for each rank of the context. Rank 0 has the
 * numbers of all ranks. Errors: NOT_FOUND past the last site, STATE without a monitor, INVALID (names the
 * argument). */
GCOLL_API gcoll_status gcoll_arrival_stats(gcoll_context *context, uint32_t index, gcoll_site_stats *stats,
                                           gcoll_rank_stats *ranks);

/* Writes the statistics of the index-th site as text: a line for the site, a line with the reason why late
 * ranks are taken into account or not, and up to 8 of them, the latest first. The text is cut to `bytes`,
 * terminator included. Errors as of gcoll_arrival_stats. */
GCOLL_API gcoll_status gcoll_arrival_site_text(gcoll_context *context, uint32_t index, char *text,
                                               size_t bytes);

/* Writes the statistics of all sites to text as a table, cut to `bytes`, terminator included. Rank 0 writes
 * it to standard error when the context is destroyed, if the environment variable GCOLL_ARRIVAL_STATS is 1.
 */
GCOLL_API gcoll_status gcoll_arrival_stats_text(gcoll_context *context, char *text, size_t bytes);

GCOLL_END_DECLS

#endif
