/* gcoll/rendezvous/rendezvous.h - finding the other ranks in a store: the launch that ranks belong to
 * (launch.c), who has claimed which rank (claims.c) and lives (claimant.c, leases.c), the meeting of all
 * (meeting.c), which of them share what (hosts.c), and where they are once all have met (records.c). Requests
 * to the store go through visits.c, which bounds them. */
#ifndef GCOLL_RENDEZVOUS_RENDEZVOUS_H
#define GCOLL_RENDEZVOUS_RENDEZVOUS_H

#include "gcoll/context/context.h"

#define GCOLL_GENERATION_TEXT 33
#define GCOLL_RECORD_MAX      (GCOLL_ADDRESS_MAX + 200) /* with a claimant */
/* Measuring gets at least this part of the timeout, after it, where the last rank came late. */
#define GCOLL_FIT_LEAST_PART 8
/* Creation has one deadline, and ends GCOLL_CLOSING_MS after it at the latest. Until then a rank waits for
 * rank 0's word, then may tell others why it failed, and last takes its keys away: each up to so long after
 * the deadline. */
#define GCOLL_WORD_MS    250
#define GCOLL_TELL_MS    500
#define GCOLL_CLOSING_MS 750

typedef struct gcoll_meeting gcoll_meeting;

/* What a context keeps of its rendezvous: the folder's own. */
struct gcoll_rendezvous {
    char generation[GCOLL_GENERATION_TEXT]; /* random hex, the same on every rank of this run of the job */
    bool joined;                            /* keys of this rank are in the store */
    char **addresses; /* records of every rank that met without a store; else NULL: the store has them */
    uint32_t *node;   /* the number of each rank's host; NULL until an algorithm asks */
    gcoll_meeting *meeting; /* NULL if the ranks met without a store, or if size is 1 */
    int64_t keep_ms;        /* when keys in the store are to be kept again; INT64_MAX: there are none */
};

/* ---- Visits to the store (visits.c) --------------------------------------------------------
 * The visits of one call share a time limit. Keys that are written are kept for a day. */

/* While the context is created, no later than GCOLL_TELL_MS after its deadline. */
void gcoll_visits_until(gcoll_context *context, int64_t limit_ms);
/* Gives the store its own timeout back. */
void gcoll_visits_end(gcoll_context *context);
/* A value as text, with its terminator, at most size - 1 bytes. */
gcoll_status gcoll_visit_text(gcoll_context *context, const char *key, char *text, size_t size);
gcoll_status gcoll_visit_get(gcoll_context *context, const char *key, void *value, size_t capacity,
                             size_t *bytes);
gcoll_status gcoll_visit_set(gcoll_context *context, const char *key, const void *value, size_t bytes);
gcoll_status gcoll_visit_set_new(gcoll_context *context, const char *key, const char *text);
gcoll_status gcoll_visit_wait(gcoll_context *context, const char *key, int64_t timeout_ms);
gcoll_status gcoll_visit_add(gcoll_context *context, const char *key, int64_t delta, int64_t *value);
gcoll_status gcoll_visit_remove(gcoll_context *context, const char *key);

/* "gcoll/<job>/", the launch if it has an identity, and what the format says. */
GCOLL_PRINTF(3, 4)
void gcoll_rendezvous_key(const gcoll_context *context, char key[GCOLL_STORE_KEY_MAX + 1], const char *format,
                          ...);
/* The same for a key of this rank's generation: "<generation>/<name>". */
void gcoll_rendezvous_key_of(const gcoll_context *context, char key[GCOLL_STORE_KEY_MAX + 1],
                             const char *name);
/* The error that a text in the store stands for: "!", a status, a space and what to say. */
gcoll_status gcoll_rendezvous_verdict(const char *text);

/* ---- The meeting (meeting.c) --------------------------------------------------------------- */

/* Of a context that has just been allocated. */
void gcoll_rendezvous_create(gcoll_context *context);

/* Before anything else, with the identity of the launch by the option, the environment or the launcher. The
 * deadline is that of creation, which bounds all visits to the store until gcoll_rendezvous_end. */
gcoll_status gcoll_meeting_create(gcoll_context *context, const char *launch, int64_t deadline_ms);
/* Moves the deadline to a later time, as rank 0 measures. */
void gcoll_meeting_extend(gcoll_context *context, int64_t deadline_ms);
/* The deadline as it is now. */
int64_t gcoll_meeting_deadline(const gcoll_context *context);
/* A fresh generation, or one that the ranks agreed on otherwise. */
gcoll_status gcoll_generation_make(char generation[GCOLL_GENERATION_TEXT]);
void gcoll_generation_set(gcoll_context *context, const char generation[GCOLL_GENERATION_TEXT]);
/* This rank's generation as the 16 bytes that endpoints compare. */
void gcoll_generation_bytes(const gcoll_context *context, uint8_t bytes[16]);
/* Rank 0 makes a generation, the others find one. */
gcoll_status gcoll_rendezvous_begin(gcoll_context *context, int64_t deadline_ms);
/* Claims this rank in it. *again: begin anew. */
gcoll_status gcoll_rendezvous_claim(gcoll_context *context, int64_t deadline_ms, bool *again);
/* Publishes the address and returns when every rank has, or, on ranks that have no part in what is agreed
 * then (has_part), when that is done, well or not; counts the ranks that share this one's processors. */
gcoll_status gcoll_rendezvous_finish(gcoll_context *context, const char *address, bool has_part,
                                     int64_t deadline_ms, uint32_t *local_ranks);
/* Waits for a key of the generation that rank 0 writes, and gives its text. Ends early if somebody says that
 * there will be none, or rank 0 dies. TIMEOUT without a text of its own, but for where was_told. */
gcoll_status gcoll_rendezvous_await(gcoll_context *context, const char *name, int64_t limit_ms, char *text,
                                    size_t size);
bool gcoll_rendezvous_was_told(const gcoll_context *context);
/* What rank 0 says once all are there, where finish has come to know it already; or "". */
const char *gcoll_rendezvous_agreed(const gcoll_context *context);
/* Tells the others that this rank could not join, for the reason in the last error, which stays. Nothing once
 * all have met, or before anything has begun. */
void gcoll_rendezvous_refuse(gcoll_context *context, gcoll_status status);
/* The store gets its own timeout back; after a good end its keys are kept from now on. */
void gcoll_rendezvous_end(gcoll_context *context, gcoll_status status);
/* Keys of this rank are in the store. */
bool gcoll_rendezvous_has_joined(const gcoll_context *context);
/* And the others may count on this rank. */
bool gcoll_rendezvous_is_complete(const gcoll_context *context);

/* ---- Without a store (exchange.c) ---------------------------------------------------------- */

/* An allgather: the caller's, or gcoll_limited_exchange. */
typedef struct gcoll_exchange {
    gcoll_exchange_fn fn;
    void *arg;
    const char *name; /* for messages */
} gcoll_exchange;

#define GCOLL_EXCHANGE_ROUNDS 3

/* First: agrees on the generation. If it works but what it gives makes no sense, that is *rows, and this rank
 * must take part in the next step to tell the others. */
gcoll_status gcoll_exchange_hello(gcoll_context *context, const gcoll_exchange *by, gcoll_status *rows);
/* Then, when the endpoint is open: gets the records of all ranks. record: this rank's, or "!" and why there
 * is none. */
gcoll_status gcoll_exchange_records(gcoll_context *context, const gcoll_exchange *by, const char *record);
/* Whether a row has been filled in; and, of the first round, by a rank of a job of this size. */
bool gcoll_exchange_row_is_there(const uint8_t *row, size_t bytes);
bool gcoll_exchange_hello_fits(const gcoll_context *context, const uint8_t *row, size_t bytes);

/* An allgather by a store that lacks operations (limited.c). The context has a meeting. */
typedef struct gcoll_limited gcoll_limited;
gcoll_status gcoll_limited_create(gcoll_context *context, gcoll_store *store, int64_t deadline_ms,
                                  gcoll_limited **limited);
gcoll_status gcoll_limited_exchange(void *limited, const void *mine, size_t bytes, void *all);
/* Frees it. If all ranks are through, removes its keys, where the store can. */
void gcoll_limited_end(gcoll_limited *limited, bool all_are_through);

/* ---- Once all have met (records.c) ------------------------------------------------ */

/* GCOLL_ERR_NOT_FOUND if the peer has left. One that broke leaves the cause in place of its address: then
 * GCOLL_ERR_STATE, and *cause is set. */
gcoll_status gcoll_rendezvous_lookup(gcoll_context *context, uint32_t peer, char *address, size_t bytes,
                                     gcoll_note *cause);
/* Of a rank whose record the lookup does not find: NOT_FOUND if it has left; IO if the store has lost the
 * keys of all; or why the store does not say. */
gcoll_status gcoll_rendezvous_has_left(gcoll_context *context);
/* What a rank publishes of itself: its address, its host and its processors, with spaces between. In a store,
 * the claimant follows. */
void gcoll_rendezvous_record(const char *address, char record[GCOLL_RECORD_MAX]);
/* Which ranks share a host: the number of each rank's. The first time it is a look-up for each rank. On
 * failure *missing is the rank whose record could not be had, and *cause as that of gcoll_rendezvous_lookup,
 * or GCOLL_NO_RANK. */
gcoll_status gcoll_rendezvous_hosts(gcoll_context *context, const uint32_t **node, uint32_t *missing,
                                    gcoll_note *cause);
/* Of a context that meets without a store: keeps the record of a rank, which it checks. */
gcoll_status gcoll_rendezvous_take_record(gcoll_context *context, uint32_t rank, const char *record);
/* By these records, once all are there: how many ranks share the processors of this one. */
uint32_t gcoll_rendezvous_sharing(const gcoll_context *context, uint32_t rank);
/* Whether there are such: then the store does not say who has left. */
bool gcoll_rendezvous_has_addresses(const gcoll_context *context);
/* Puts the cause that the context broke for in place of this rank's address. */
void gcoll_rendezvous_leave_cause(gcoll_context *context);
/* Takes this rank's keys away, by limit_ms. */
void gcoll_rendezvous_leave(gcoll_context *context, int64_t limit_ms);
/* Has the store keep this rank's address for another day, or puts it there anew. */
void gcoll_rendezvous_keep(gcoll_context *context);
/* Whether that is due: about hourly. */
static inline bool gcoll_rendezvous_is_due(const gcoll_context *context, int64_t now_ms) {
    return now_ms >= context->rendezvous->keep_ms;
}
/* Does it if it is due, by the coarse clock, and the context in order. */
void gcoll_rendezvous_keep_if_due(gcoll_context *context);
/* In a forked child: the keys are the parent's. */
void gcoll_rendezvous_abandon(gcoll_context *context);
void gcoll_rendezvous_free(gcoll_context *context);

/* Processors that this thread may run on (hosts.c). */
uint32_t gcoll_host_cores(void);

#endif
