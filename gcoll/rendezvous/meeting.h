/* gcoll/rendezvous/meeting.h - what the files of the rendezvous share. */
#ifndef GCOLL_RENDEZVOUS_MEETING_H
#define GCOLL_RENDEZVOUS_MEETING_H

#include "gcoll/rendezvous/claimant.h"
#include "gcoll/rendezvous/rendezvous.h"

#define GCOLL_VERDICT_MAX   512
#define GCOLL_AGREED_MAX    1024
#define GCOLL_KEEP_MS       INT64_C(86400000)
#define GCOLL_KEEP_AGAIN_MS INT64_C(3600000)

_Static_assert(GCOLL_RECORD_MAX >= GCOLL_ADDRESS_MAX + 40 + GCOLL_CLAIMANT_TEXT,
               "a record has an address, a host, processors and a claimant");

#define GCOLL_TRACE_MAX (GCOLL_CLAIMANT_TEXT + 128)

/* What a rank knows of ranks that wait without the identity that it has, or with one (traces.c). */
typedef struct gcoll_trace {
    int64_t next_ms; /* of the next look; 0: it has not begun to wait */
    uint64_t shown;  /* how often it wrote its own */
    char seen[GCOLL_TRACE_MAX];
    char said[384]; /* for messages; or "" */
} gcoll_trace;

/* What a context keeps of the meeting of all ranks. */
struct gcoll_meeting {
    char launch[20];                    /* "l.<16 digits>/", part of all keys; "": no identity is known */
    char launch_said[96];               /* for messages: ", launch '...'", or "" */
    gcoll_claimant self, lead;          /* of this rank, and of rank 0 once it is known */
    char passed[GCOLL_GENERATION_TEXT]; /* a generation that went on or ended without this rank; or "" */
    bool belongs;                       /* ranks but 0: the launch that it found is of its size */
    bool inherited;                     /* the rank was a dead process's */
    bool leads;                         /* rank 0: the store's launch is this one */
    bool has_led;                       /* rank 0: others may know of its generation */
    bool told;     /* the store says why there will be no go, by this rank's or another's word */
    bool complete; /* all have met */
    char agreed[GCOLL_AGREED_MAX]; /* what rank 0 says then, where it is known already; or "" */
    bool creating;                 /* visits share limit_ms: the context is not there yet */
    bool store_stuck;              /* a visit failed after it had taken long: more would, too */
    int64_t began_ms;              /* creation of the context */
    int64_t deadline_ms;           /* of it */
    int64_t limit_ms;              /* when the visits at hand must be over */
    int64_t visit_ms;              /* when the latest one began */
    uint64_t beats;                /* of this rank's lease */
    int64_t next_beat_ms;          /* 0: it has not begun to wait */
    char record[GCOLL_RECORD_MAX]; /* that this rank has published */
    gcoll_trace trace;
    bool unsure; /* rank 0: its claim failed, and may have been made all the same */
};

/* ---- Claims (claims.c) --------------------------------------------------------------------- */

/* Ranks but 0: waits for a launch that is for this rank. Sets the generation and who leads. */
gcoll_status gcoll_launch_find(gcoll_context *context, int64_t deadline_ms);
/* Rank 0: claims the launch; a dead one's is taken over. */
gcoll_status gcoll_launch_claim(gcoll_context *context, int64_t deadline_ms);
/* Rank 0: whether no other one has taken the launch over. */
gcoll_status gcoll_launch_check(gcoll_context *context);
/* Rank 0: nobody may join any more. Nothing if the launch is not this rank's. */
gcoll_status gcoll_launch_end(gcoll_context *context);
/* Ranks but 0: claims the rank; a dead one's is taken over. *again: the launch went by, look for another. */
gcoll_status gcoll_rank_claim(gcoll_context *context, int64_t deadline_ms, bool *again);
/* Who holds the rank in this generation. NOT_FOUND: nobody does; then *holder is who left it after it had
 * failed to join, or has the pid 0. */
gcoll_status gcoll_rank_holder(gcoll_context *context, uint32_t rank, gcoll_claimant *holder);
/* Whether the rank is this one's still: MISMATCH if it was taken for dead, and replaced. */
gcoll_status gcoll_rank_check(gcoll_context *context);
/* Takes the claim away, or leaves a mark in its place that it is over. */
gcoll_status gcoll_rank_leave(gcoll_context *context);
/* Says to all ranks of the generation, in place of go, that there will be none, for the reason in the last
 * error. The first word stands: where another reason was said before, the last error and the status become
 * those. *passed: go was said already. */
gcoll_status gcoll_verdict_tell(gcoll_context *context, const char *generation, gcoll_status status,
                                bool *passed);

/* ---- Leases (leases.c) --------------------------------------------------------------------- */

/* What is seen of another rank's lease. Zeroed before the first look. */
typedef struct gcoll_pulse {
    char beat[24];
    bool seen, moved;
    int64_t looked_ms, still_ms; /* the last look, and how long it has been watched without a change */
} gcoll_pulse;

/* How often a rank of this job shows that it lives while it waits. */
int64_t gcoll_lease_interval_ms(const gcoll_context *context);
/* Shows that this rank lives, if it is time to. */
void gcoll_lease_renew(gcoll_context *context);
/* Whether a claimant lives: by its process, else by its lease. UNKNOWN: it has neither moved since the first
 * look nor been still for long. */
gcoll_life gcoll_lease_life(gcoll_context *context, const char *generation, uint32_t rank,
                            const gcoll_claimant *who, gcoll_pulse *pulse);

/* ---- Traces (traces.c) --------------------------------------------------------------------- */

/* A rank that waits for others: shows that it does, and looks for ranks of the other kind, if it is time to.
 */
void gcoll_trace_renew(gcoll_context *context);
/* The rank waits no longer. Keeps the last error. */
void gcoll_trace_remove(gcoll_context *context);

/* ---- Who shares what (hosts.c) -------------------------------------------------- */

/* The processors that a record names, or 0. */
uint64_t gcoll_rendezvous_processors(const char *record);
/* Rank 0: tells how many ranks have the same processors. Sorts them. */
gcoll_status gcoll_rendezvous_publish_shared(gcoll_context *context, uint64_t *processors);
gcoll_status gcoll_rendezvous_count_shared(gcoll_context *context, uint32_t *ranks);
gcoll_status gcoll_rendezvous_remove_shared(gcoll_context *context);

#endif
