/*
 * gcoll/monitor/monitor_internal.h - types and functions that the files of the monitor share.
 *
 * A site is a kind of call. All ranks count its calls alike. Before some of these calls, rank 0 announces
 * which plan to use from that call on. Each announcement also names the call at which the next one takes
 * effect. So every rank knows when to wait for an announcement, and all run the same plans.
 * docs/arrival-patterns.md gives the argument.
 */
#ifndef GCOLL_MONITOR_MONITOR_INTERNAL_H
#define GCOLL_MONITOR_MONITOR_INTERNAL_H

#include "gcoll/arrival.h"
#include "gcoll/call/call.h"
#include "gcoll/monitor/monitor.h"

#define GCOLL_ARRIVAL_SITES   64
#define GCOLL_ARRIVAL_SAMPLES 8 /* remembered samples of a site: the latest calls */
/* The first call that waits for an announcement. Ranks report to rank 0 three calls before such a call,
 * and rank 0 announces two calls before it. So announcements are at least four calls apart, or exactly one
 * call where ranks report edges. */
#define GCOLL_ARRIVAL_FIRST  5
#define GCOLL_ARRIVAL_REPORT 3
#define GCOLL_ARRIVAL_LEAD   2
#define GCOLL_ARRIVAL_FEWEST 4
#define GCOLL_ARRIVAL_MOST   1024
#define GCOLL_ARRIVAL_NEVER  UINT64_MAX
#define GCOLL_NO_SITE        UINT32_MAX

typedef struct gcoll_arrival_sample {
    uint64_t call;      /* number of the call at its site, from 1; 0: none */
    int64_t since_ns;   /* from the previous meeting to entry; -1: there was none */
    int64_t elapsed_ns; /* from entry to return */
} gcoll_arrival_sample;

/* The plan that calls of a site use until the next announcement. */
typedef struct gcoll_arrival_decision {
    uint64_t id;                      /* number of the plan, counted by rank 0; 0: the ordinary choice */
    uint64_t hash;                    /* hash of everything that decides the plan */
    const gcoll_algorithm *algorithm; /* NULL: the ordinary choice */
    uint32_t interval;                /* calls until the next announcement */
    int64_t segment_ns;               /* as in gcoll_problem */
    int64_t unit_ns;                  /* arrivals are multiples of this */
    int64_t imbalance_ns;             /* expected time from the first rank's arrival to the last one's */
    int64_t *arrival_ns; /* by rank: expected arrival after the first rank, rounded, and limited to what a
                            plan can use; set also for the ordinary choice */
} gcoll_arrival_decision;

/* Rank 0's knowledge of one rank at one site. */
typedef struct gcoll_arrival_view {
    gcoll_arrival_sample samples[GCOLL_ARRIVAL_SAMPLES]; /* of call c: at c modulo their number */
    uint64_t newest;                                     /* the latest call; 0: none */
    uint64_t expected_call;        /* the latest call for which the rank itself reported its arrival */
    int64_t expected_ns;           /* its reported arrival, after the meeting */
    uint64_t compared, late, last; /* numbers of calls, for the statistics */
    double late_sum_ns;
    int64_t late_most_ns;
} gcoll_arrival_view;

typedef struct gcoll_site gcoll_site;
struct gcoll_site {
    gcoll_call key; /* the call without what may differ between ranks */
    uint64_t hash;
    gcoll_call latest;         /* the latest call in full, but for the algorithm that was learned */
    char asked[sizeof "auto"]; /* what the caller named in it: "" or "auto" */
    uint32_t number;
    uint64_t calls; /* successful calls */
    uint64_t next;  /* the call that waits for the next announcement */
    gcoll_arrival_decision now, pending;
    bool has_pending, is_warm; /* warm: the pending plan is made and its peers are connected */
    gcoll_arrival_sample samples[GCOLL_ARRIVAL_SAMPLES];
    int64_t tail_ns; /* from gcoll_arrival_finish to entry, in the latest call */

    uint64_t heeded, announcements, changes;
    int64_t elapsed_sum_ns, waited_ns;
    char algorithm[GCOLL_ALGORITHM_TEXT_MAX];

    /* Rank 0. */
    gcoll_arrival_view *views; /* by rank; NULL elsewhere */
    uint64_t compared;         /* the latest compared call */
    uint64_t edge_call;        /* the latest call for which a rank reported an edge */
    uint64_t asked_call;       /* the latest call at which a rank waits */
    int64_t operation_ns;      /* estimated time from the last entry to the end; 0: not known */
    int64_t threshold_ns;
    bool is_ripe;         /* the announcement is due now */
    bool is_predicted;    /* the latest imbalance exceeded the threshold */
    double gain;          /* latest predicted gain of the best arrival-aware plan */
    const char *ordinary; /* what was learned at the latest decision (gcoll_call_learned); NULL: nothing */
    bool is_tried;        /* `tried` was predicted beside that */
    gcoll_arrival_decision tried; /* the latest predicted decision */
};

/* A message of a fixed size, in flight or not. */
typedef struct gcoll_arrival_slot {
    gcoll_message message;
    bool is_busy;
    uint8_t *bytes;
} gcoll_arrival_slot;

/* An announcement in flight to all ranks. */
typedef struct gcoll_arrival_outbox {
    struct gcoll_arrival_outbox *next;
    uint32_t busy; /* messages in flight */
    uint8_t *bytes;
    gcoll_message *messages; /* by rank */
} gcoll_arrival_outbox;

typedef struct gcoll_arrival_inbox {
    struct gcoll_arrival *arrival;
    gcoll_message message;
    uint32_t peer;
    uint8_t *bytes;
} gcoll_arrival_inbox;

struct gcoll_arrival {
    gcoll_context *context;
    const gcoll_arrival_decision *current; /* of the call that is being planned, else NULL */
    uint32_t site_count;
    uint32_t guess;      /* where to begin the search: the site of the latest call */
    uint32_t number;     /* set by gcoll_arrival_site */
    uint32_t phase_site; /* the site called after the latest computation; GCOLL_NO_SITE: not known */

    int64_t met_ns;                /* when this rank left the latest meeting */
    int64_t began_ns, finished_ns; /* of the caller's computation; finished_ns 0: not finished */
    bool met, began;

    bool calls;    /* gcoll_arrival_call was called, and gcoll_arrival_tend not since */
    bool is_open;  /* receives are posted */
    bool has_come; /* an announcement arrived and is not placed yet */
    bool waits;
    bool put_off;       /* rank 0: an announcement is delayed until the operation in flight ends */
    uint32_t announced; /* number of announcements received; on rank 0, sent */
    /* Used by all ranks but rank 0. */
    uint32_t reported;
    gcoll_arrival_slot announcement;
    gcoll_arrival_slot reports[2]; /* the second is for GCOLL_ARRIVAL_ASKS */
    /* Used by rank 0. */
    gcoll_arrival_inbox *inboxes;
    gcoll_arrival_outbox *outboxes;
    uint64_t ids;

    gcoll_site sites[GCOLL_ARRIVAL_SITES];
    int64_t timeout_ms; /* options.timeout_ms of the current call */
};

/* ---- Messages (message.c) --------------------------------------------------------- */

typedef enum gcoll_arrival_report {
    GCOLL_ARRIVAL_HISTORY = 0, /* reports the latest calls */
    GCOLL_ARRIVAL_EDGE = 1,    /* reports when the rank expects to arrive at its next call */
    GCOLL_ARRIVAL_ASKS = 2     /* the same, and the rank waits for the announcement */
} gcoll_arrival_report;

gcoll_status gcoll_arrival_allocate_messages(gcoll_arrival *arrival);
/* Requires a closed endpoint. */
void gcoll_arrival_free_messages(gcoll_arrival *arrival);
/* Posts the receives of the monitor's messages, once. */
void gcoll_arrival_open(gcoll_arrival *arrival);
/* Sends a report from a rank other than 0. Does nothing while the previous report is in flight, or if
 * rank 0 has left. */
void gcoll_arrival_report_to_0(gcoll_arrival *arrival, const gcoll_site *site, gcoll_arrival_report kind,
                               uint64_t call, int64_t expected_ns);
/* Rank 0: sends site->pending to all ranks. */
gcoll_status gcoll_arrival_announce(gcoll_arrival *arrival, gcoll_site *site);
/* Moves announcements that have arrived into their sites. */
void gcoll_arrival_place(gcoll_arrival *arrival);
/* Waits until the site has a pending announcement. */
gcoll_status gcoll_arrival_await(gcoll_arrival *arrival, gcoll_site *site, int64_t since_ns);

/* ---- Decisions of rank 0 (decide.c, predict.c) ------------------------------------ */

/* Record a report: one that arrived, or rank 0's own. */
void gcoll_arrival_note_sample(gcoll_site *site, uint32_t rank, const gcoll_arrival_sample *sample);
void gcoll_arrival_note_expected(gcoll_arrival *arrival, gcoll_site *site, uint32_t rank,
                                 gcoll_arrival_report kind, uint64_t call, int64_t expected_ns);
/* Sets site->is_ripe if the announcement for the site's next call is due now, so that gcoll_arrival_tend
 * makes it. */
void gcoll_arrival_ripen(gcoll_arrival *arrival, gcoll_site *site);
/* Rank 0: fills in site->pending and announces it. */
gcoll_status gcoll_arrival_decide(gcoll_arrival *arrival, gcoll_site *site);
/* The least predicted gain of an arrival-aware plan, as a part of the ordinary plan's time. Waiting for
 * the last rank is not counted, as no algorithm can avoid it. The gain is required because the model is not
 * exact and a new plan costs time. */
#define GCOLL_ARRIVAL_GAIN 0.03
/* Selects the algorithm with the least mean time from a rank's arrival to its end. On entry *decision has
 * the arrivals, with algorithm NULL; NULL stays if the ordinary choice is best. */
gcoll_status gcoll_arrival_predict(gcoll_arrival *arrival, gcoll_site *site,
                                   gcoll_arrival_decision *decision);
/* Whether the collective has an algorithm that uses arrivals. */
bool gcoll_arrival_has_plans(gcoll_collective collective);
/* Hash of the algorithm and the arrivals. */
uint64_t gcoll_arrival_hash(const gcoll_arrival_decision *decision, uint32_t size);
uint32_t gcoll_arrival_row(const gcoll_algorithm *algorithm);

/* ---- The monitor (monitor.c) and its statistics (statistics.c) -------------------- */

extern const gcoll_activity gcoll_arrival_activity;
/* Requests a call of gcoll_arrival_tend wherever the context makes progress. */
void gcoll_arrival_call(gcoll_context *context);
void gcoll_arrival_tend(gcoll_context *context);
void gcoll_arrival_print(gcoll_context *context);
/* Makes the plan of the pending announcement, and connects to the peers of that plan. */
void gcoll_arrival_warm(gcoll_arrival *arrival, gcoll_site *site);

#endif
