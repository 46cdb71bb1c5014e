/*
 * gcoll/monitor/monitor_internal.h - what the files of the monitor share.
 *
 * A site is a kind of call. Its calls are counted, alike on all ranks. For some of them rank 0 announces what
 * is done from there on; which is the next such call is known to all ranks by the announcement before, so
 * each waits for it if it has not come, and all run the same plans. docs/arrival-patterns.md argues this.
 */
#ifndef GCOLL_MONITOR_MONITOR_INTERNAL_H
#define GCOLL_MONITOR_MONITOR_INTERNAL_H

#include "gcoll/arrival.h"
#include "gcoll/call/call.h"
#include "gcoll/monitor/monitor.h"

#define GCOLL_ARRIVAL_SITES   64
#define GCOLL_ARRIVAL_SAMPLES 8 /* latest calls of a site that are remembered */
/* The first call that an announcement is waited for. A report goes to rank 0 three calls before such a call,
 * and the announcement leaves it two calls before; so there are at least four calls from one to the next, or
 * else one, where ranks report edges. */
#define GCOLL_ARRIVAL_FIRST  5
#define GCOLL_ARRIVAL_REPORT 3
#define GCOLL_ARRIVAL_LEAD   2
#define GCOLL_ARRIVAL_FEWEST 4
#define GCOLL_ARRIVAL_MOST   1024
#define GCOLL_ARRIVAL_NEVER  UINT64_MAX
#define GCOLL_NO_SITE        UINT32_MAX

typedef struct gcoll_arrival_sample {
    uint64_t call;      /* of the site, from 1; 0: none */
    int64_t since_ns;   /* from the meeting before to entry; -1: there was none */
    int64_t elapsed_ns; /* from entry to return */
} gcoll_arrival_sample;

/* What calls of a site do from one announcement to the next. */
typedef struct gcoll_arrival_decision {
    uint64_t id;                      /* of the plan, by rank 0's count; 0: the ordinary choice */
    uint64_t hash;                    /* of what decides the plan */
    const gcoll_algorithm *algorithm; /* NULL: the ordinary choice */
    uint32_t interval;                /* calls until the next announcement */
    int64_t segment_ns;               /* as in gcoll_problem */
    int64_t unit_ns;                  /* of which arrivals are multiples */
    int64_t imbalance_ns;             /* from the first rank to the last one, as expected */
    int64_t *arrival_ns; /* by rank, from the first one on, rounded, and no farther than what a plan can heed;
                          * also where nothing is done about it */
} gcoll_arrival_decision;

/* What rank 0 knows of a rank at a site. */
typedef struct gcoll_arrival_view {
    gcoll_arrival_sample samples[GCOLL_ARRIVAL_SAMPLES]; /* of call c: at c modulo their number */
    uint64_t newest;                                     /* call; 0: none */
    uint64_t expected_call;        /* the latest that it said itself when it would come to */
    int64_t expected_ns;           /* after the meeting */
    uint64_t compared, late, last; /* calls, for the statistics */
    double late_sum_ns;
    int64_t late_most_ns;
} gcoll_arrival_view;

typedef struct gcoll_site gcoll_site;
struct gcoll_site {
    gcoll_call key; /* the call, without what may differ between ranks */
    uint64_t hash;
    gcoll_call latest; /* with it */
    uint32_t number;
    uint64_t calls; /* that ended well */
    uint64_t next;  /* call that an announcement is waited for */
    gcoll_arrival_decision now, pending;
    bool has_pending, is_warm; /* warm: planned and connected */
    gcoll_arrival_sample samples[GCOLL_ARRIVAL_SAMPLES];
    int64_t tail_ns; /* from gcoll_arrival_finish to entry, the last time */

    uint64_t heeded, announcements, changes;
    int64_t elapsed_sum_ns, waited_ns;
    char algorithm[GCOLL_ALGORITHM_TEXT_MAX];

    /* Rank 0. */
    gcoll_arrival_view *views; /* by rank; NULL elsewhere */
    uint64_t compared;         /* the latest call that was */
    uint64_t edge_call;        /* the latest call that a rank reported an edge before */
    uint64_t asked_call;       /* the latest that a rank waits at */
    int64_t operation_ns;      /* from the last entry to the end, about; 0: not known */
    int64_t threshold_ns;
    bool is_ripe;                 /* the announcement is to be made */
    bool is_predicted;            /* the latest imbalance was large enough for it */
    double gain;                  /* what the best plan by arrival was predicted to spare; then, or before */
    gcoll_arrival_decision tried; /* the latest that was predicted; arrival_ns NULL: none */
};

/* A message of a fixed size that is in flight, or not. */
typedef struct gcoll_arrival_slot {
    gcoll_message message;
    bool is_busy;
    uint8_t *bytes;
} gcoll_arrival_slot;

/* An announcement on its way to all. */
typedef struct gcoll_arrival_outbox {
    struct gcoll_arrival_outbox *next;
    uint32_t busy; /* messages */
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
    const gcoll_arrival_decision *current; /* of the call that is being planned */
    uint32_t site_count;
    uint32_t guess;      /* the site of the latest call */
    uint32_t number;     /* gcoll_arrival_site */
    uint32_t phase_site; /* that came after the latest computation */

    int64_t met_ns;                /* when this rank left the latest meeting */
    int64_t began_ns, finished_ns; /* of the computation; finished_ns 0: not yet */
    bool met, began;

    bool calls;    /* gcoll_arrival_call, and nobody came yet */
    bool is_open;  /* receives are posted */
    bool has_come; /* an announcement, which is to be read */
    bool waits;
    bool put_off;       /* rank 0: an announcement, until the operation in flight has ended */
    uint32_t announced; /* received; rank 0: sent */
    /* Of all but rank 0. */
    uint32_t reported;
    gcoll_arrival_slot announcement;
    gcoll_arrival_slot reports[2]; /* the second for ranks that wait */
    /* Of rank 0. */
    gcoll_arrival_inbox *inboxes;
    gcoll_arrival_outbox *outboxes;
    uint64_t ids;

    gcoll_site sites[GCOLL_ARRIVAL_SITES];
    int64_t timeout_ms; /* of the call at hand, as options have it */
};

/* ---- Messages (message.c) --------------------------------------------------------- */

typedef enum gcoll_arrival_report {
    GCOLL_ARRIVAL_HISTORY = 0, /* call: the latest one */
    GCOLL_ARRIVAL_EDGE = 1,    /* call: the next one, with when it is expected */
    GCOLL_ARRIVAL_ASKS = 2     /* the same, and the rank waits */
} gcoll_arrival_report;

gcoll_status gcoll_arrival_allocate_messages(gcoll_arrival *arrival);
/* The endpoint must be closed. */
void gcoll_arrival_free_messages(gcoll_arrival *arrival);
/* Posts the receives, once. */
void gcoll_arrival_open(gcoll_arrival *arrival);
/* Not on rank 0. Nothing if one is still on its way, or rank 0 has left. */
void gcoll_arrival_report_to_0(gcoll_arrival *arrival, const gcoll_site *site, gcoll_arrival_report kind,
                               uint64_t call, int64_t expected_ns);
/* Rank 0: site->pending, to all. */
gcoll_status gcoll_arrival_announce(gcoll_arrival *arrival, gcoll_site *site);
/* Reads announcements that have come into the sites. */
void gcoll_arrival_place(gcoll_arrival *arrival);
/* Until the site has one. */
gcoll_status gcoll_arrival_await(gcoll_arrival *arrival, gcoll_site *site, int64_t since_ns);

/* ---- What rank 0 makes of reports (decide.c, predict.c) -------------------- */

/* What a rank said, by a report or on rank 0 itself. */
void gcoll_arrival_note_sample(gcoll_site *site, uint32_t rank, const gcoll_arrival_sample *sample);
void gcoll_arrival_note_expected(gcoll_arrival *arrival, gcoll_site *site, uint32_t rank,
                                 gcoll_arrival_report kind, uint64_t call, int64_t expected_ns);
/* Whether the announcement for the site's next call is to be made now; then gcoll_arrival_tend does it. */
void gcoll_arrival_ripen(gcoll_arrival *arrival, gcoll_site *site);
/* Fills in site->pending, and announces it. */
gcoll_status gcoll_arrival_decide(gcoll_arrival *arrival, gcoll_site *site);
/* A plan by arrival must be predicted to spare so much of the ordinary one's time, but for what is waiting
 * for the last rank, which is no algorithm's fault: the model is not exact, and a new plan is not free. */
#define GCOLL_ARRIVAL_GAIN 0.03
/* The decision with the least mean time from a rank's arrival to its end, of those that serve; what it has of
 * arrivals stands in *decision, with algorithm NULL. */
gcoll_status gcoll_arrival_predict(gcoll_arrival *arrival, gcoll_site *site,
                                   gcoll_arrival_decision *decision);
/* Whether there is an algorithm of it that heeds arrivals. */
bool gcoll_arrival_has_plans(gcoll_collective collective);
/* Of the algorithm and the arrivals. */
uint64_t gcoll_arrival_hash(const gcoll_arrival_decision *decision, uint32_t size);
uint32_t gcoll_arrival_row(const gcoll_algorithm *algorithm);

/* ---- The monitor (monitor.c) and its statistics (statistics.c) --------------------------- */

extern const gcoll_activity gcoll_arrival_activity;
/* The context has something to do, which gcoll_arrival_tend does wherever it makes progress. */
void gcoll_arrival_call(gcoll_context *context);
void gcoll_arrival_tend(gcoll_context *context);
void gcoll_arrival_print(gcoll_context *context);
/* Plans what is pending, and connects to whom the plan needs. */
void gcoll_arrival_warm(gcoll_arrival *arrival, gcoll_site *site);

#endif
