/* gcoll/rendezvous/meeting.h - functions and state that only the files of the rendezvous share. */
#ifndef GCOLL_RENDEZVOUS_MEETING_H
#define GCOLL_RENDEZVOUS_MEETING_H

#include "gcoll/rendezvous/claimant.h"
#include "gcoll/rendezvous/rendezvous.h"

#define GCOLL_VERDICT_MAX   512
#define GCOLL_AGREED_MAX    1024
#define GCOLL_KEEP_MS       INT64_C(86400000)
#define GCOLL_KEEP_BRIEF_MS INT64_C(3600000) /* lifetime of keys of a launch that has failed */
#define GCOLL_KEEP_AGAIN_MS INT64_C(3600000)

_Static_assert(GCOLL_RECORD_MAX >= GCOLL_ADDRESS_MAX + 40 + GCOLL_CLAIMANT_TEXT,
               "a record has an address, a host, processors and a claimant");

#define GCOLL_TRACE_MAX (GCOLL_CLAIMANT_TEXT + 128)

/* A waiting rank's own trace, and the trace that it saw of a rank of the other kind (traces.c). */
typedef struct gcoll_trace {
    int64_t next_ms; /* of the next look; 0: it has not begun to wait */
    uint64_t shown;  /* how often it wrote its own */
    char seen[GCOLL_TRACE_MAX];
    char said[384]; /* for messages; or "" */
} gcoll_trace;

/* The note of a process that was refused its rank: this process's own, or the one that it has read of another
 * (refusals.c). */
typedef struct gcoll_refusal {
    int64_t made_ms;    /* when this process was refused, and ended a launch; else 0 */
    int64_t next_ms;    /* of the next look; 0: it has not begun to wait */
    uint64_t nonce;     /* of the note's claimant; 0: no note has been seen */
    uint64_t past_ms;   /* changes with each writing of the note */
    bool waited;        /* this rank had begun to wait before the refusal */
    bool certain, gone; /* the note has changed since it was read first, or has been removed */
    int64_t due_ms;     /* from then on the rank is not waited for */
    uint32_t rank;      /* GCOLL_NO_RANK: the note does not concern this rank */
    char verdict[GCOLL_VERDICT_MAX + 8];
} gcoll_refusal;

/* State of a context during the meeting of all ranks. */
struct gcoll_meeting {
    char launch[20];           /* "l.<16 digits>/", a part of all keys; "": the launch has no identity */
    char launch_said[96];      /* for messages: ", launch '...'", or "" */
    gcoll_claimant self, lead; /* this rank, and rank 0 once it is known */
    char passed[GCOLL_GENERATION_TEXT]; /* a generation that this rank saw go on or end without it; or "" */
    gcoll_claimant passed_lead;         /* its rank 0 */
    bool belongs;                  /* other ranks than 0: the launch that was found has this rank's size */
    bool inherited;                /* this process has taken the rank over from a dead one */
    bool leads;                    /* rank 0: the key "launch" in the store is its own */
    bool has_led;                  /* rank 0: other ranks may know its generation */
    bool told;                     /* the store has a verdict, of this rank or another; or nobody needs one */
    bool complete;                 /* all ranks have met */
    char agreed[GCOLL_AGREED_MAX]; /* rank 0's decision after go, if it is known already; or "" */
    bool creating;       /* the context is being created, and visits end by deadline_ms + GCOLL_TELL_MS */
    bool has_cause;      /* the store has the cause for which this rank broke */
    bool store_stuck;    /* a visit failed after a long time, as later ones probably would */
    int64_t began_ms;    /* start of the creation of the context */
    int64_t deadline_ms; /* deadline of the creation */
    int64_t limit_ms;    /* deadline of the current visits */
    int64_t answered_until_ms; /* the same while the store answers each visit; 0: it makes no difference */
    int64_t visit_ms;          /* start of the latest visit */
    uint64_t beats;            /* number of renewals of this rank's lease */
    int64_t next_beat_ms;      /* 0: this rank has not begun to wait */
    char record[GCOLL_RECORD_MAX]; /* the record that this rank has published */
    gcoll_trace trace;
    gcoll_refusal refusal;
    bool has_failed; /* the keys that are written now belong to a launch that has failed */
    bool spoke;      /* the latest verdict of this rank is the one that counts */
    bool unsure;     /* rank 0: its claim failed, but the store may have made it all the same */
};

/* ---- Claims (claims.c) --------------------------------------------------------------------- */

/* Ranks other than 0: waits for a launch that this rank belongs to. Sets the generation and `lead`. */
gcoll_status gcoll_launch_find(gcoll_context *context, int64_t deadline_ms);
/* Rank 0: claims the launch. Takes over the launch of a dead rank 0. */
gcoll_status gcoll_launch_claim(gcoll_context *context, int64_t deadline_ms);
/* Returns MISMATCH if another process has taken the launch over from this launch's rank 0. */
gcoll_status gcoll_launch_check(gcoll_context *context);
/* Returns whether the launch of this rank's generation is in the store. */
gcoll_status gcoll_launch_stands(gcoll_context *context, bool *stands);
/* Ignores the launch of this rank's generation from now on. */
void gcoll_launch_pass(gcoll_context *context);
/* Rank 0: removes the launch, so that no rank can join any more. Does nothing if this rank does not lead. */
gcoll_status gcoll_launch_end(gcoll_context *context);
/* Ranks other than 0: claims the rank. Takes over the rank of a dead process. *again: the launch is over, so
 * find another one. */
gcoll_status gcoll_rank_claim(gcoll_context *context, int64_t deadline_ms, bool *again);
/* Finds the process that holds a rank in this generation. Returns NOT_FOUND if there is none. Then *holder is
 * the process that left the rank after it failed to join, or has pid 0. */
gcoll_status gcoll_rank_holder(gcoll_context *context, uint32_t rank, gcoll_claimant *holder);
/* Returns MISMATCH if this process was taken for dead, and another one has taken over its rank. */
gcoll_status gcoll_rank_check(gcoll_context *context);
/* Removes this rank's claim or, if not all ranks have met, replaces it by a mark that the process has
 * left. */
gcoll_status gcoll_rank_leave(gcoll_context *context);
/* Writes the last error as verdict for all ranks of the generation, in place of go. The first verdict counts:
 * if there is another already, that becomes the last error and the status. *passed: rank 0 has said go
 * already. */
gcoll_status gcoll_verdict_tell(gcoll_context *context, const char *generation, gcoll_status status,
                                bool *passed);

/* ---- Leases (leases.c) --------------------------------------------------------------------- */

/* Observation of another rank's lease. Zeroed before the first look. */
typedef struct gcoll_pulse {
    char beat[24];
    bool seen, moved;
    int64_t looked_ms, still_ms; /* time of the last look; how long the lease was watched without a change */
} gcoll_pulse;

/* Returns the interval at which a waiting rank renews its lease. */
int64_t gcoll_lease_interval_ms(const gcoll_context *context);
/* Renews this rank's lease if it is time, to show that the rank is alive. */
void gcoll_lease_renew(gcoll_context *context);
/* Returns whether a claimant is alive: by its process, else by its lease. UNKNOWN: since the first look the
 * lease has neither changed nor been unchanged for long. */
gcoll_life gcoll_lease_life(gcoll_context *context, const char *generation, uint32_t rank,
                            const gcoll_claimant *who, gcoll_pulse *pulse);

/* ---- Traces (traces.c) --------------------------------------------------------------------- */

/* Writes the trace of a waiting rank, and looks for ranks of the other kind, if it is time to.
 */
void gcoll_trace_renew(gcoll_context *context);
/* Removes the trace, as the rank does not wait any more. Keeps the last error. */
void gcoll_trace_remove(gcoll_context *context);

/* ---- Refusals (refusals.c) ------------------------------------------------------------------ */

/* If this process was refused its rank and has ended a launch: stays for a second and a half, and leaves a
 * note of it with the last error, which stays. */
void gcoll_refusal_leave_note(gcoll_context *context);
/* Looks for the note of another process, if it is time to. is_over: the time to wait is over; looks at once,
 * and also for the memo of a process that was refused some time ago. */
void gcoll_refusal_look(gcoll_context *context, bool is_over);
/* Removes the memo, as a launch was complete after it. */
gcoll_status gcoll_refusal_remove_memo(gcoll_context *context);
/* Returns the rank that need not be waited for, as its process was refused; or GCOLL_NO_RANK. is_over: the
 * time to wait is over, so that process has no time left to try again. */
uint32_t gcoll_refusal_rank(const gcoll_context *context, bool is_over);
/* That rank has joined all the same. */
void gcoll_refusal_forget(gcoll_context *context);
/* Returns the error that the refused process got. */
gcoll_status gcoll_refusal_error(const gcoll_context *context);

/* ---- Ranks that share processors (hosts.c) --------------------------------------------------- */

/* Returns the id of the processors in a record, or 0. */
uint64_t gcoll_rendezvous_processors(const char *record);
/* Returns the id of the host in a record, or 0. */
uint64_t gcoll_rendezvous_host(const char *record);
/* Rank 0: publishes how many ranks have the same processors. Sorts `processors`. */
gcoll_status gcoll_rendezvous_publish_shared(gcoll_context *context, uint64_t *processors);
/* Numbers hosts by their ids: node[r] is the first rank that is on the host of rank r (host_map.c). */
gcoll_status gcoll_hosts_number(const uint64_t *hosts, uint32_t size, uint32_t *node);
/* Returns the ranks of the largest host if there are several hosts, else 1. 0: no memory. */
uint32_t gcoll_hosts_most(const uint32_t *node, uint32_t size);
/* Reads a text of gcoll_hosts_write. *is_map: whether it is one, of `size` ranks. */
gcoll_status gcoll_hosts_read(const char *text, uint32_t size, uint32_t *node, bool *is_map);
/* Rank 0: keeps the numbers of all hosts if there are several, one of them with several ranks. */
gcoll_status gcoll_rendezvous_note_hosts(gcoll_context *context, const uint64_t *hosts);
/* Finds how many ranks share this rank's processors, by what rank 0 published. */
gcoll_status gcoll_rendezvous_count_shared(gcoll_context *context, uint32_t *ranks);
/* Removes what rank 0 published. */
gcoll_status gcoll_rendezvous_remove_shared(gcoll_context *context);

#endif
