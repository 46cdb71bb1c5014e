/* gcoll/rendezvous/rendezvous.h - the ranks of a job find each other in a store. Files: the identity of the
 * launch (launch.c); claims of ranks (claims.c); whether a claimant is alive (claimant.c, leases.c); the
 * meeting of all ranks (meeting.c); ranks that are waited for in vain (traces.c, refusals.c); ranks that
 * share processors (hosts.c) or hosts (host_map.c); the records of ranks after the meeting (records.c). All
 * requests to the store go through visits.c, which limits their time. */
#ifndef GCOLL_RENDEZVOUS_RENDEZVOUS_H
#define GCOLL_RENDEZVOUS_RENDEZVOUS_H

#include "gcoll/context/context.h"

#define GCOLL_GENERATION_TEXT 33
#define GCOLL_RECORD_MAX      (GCOLL_ADDRESS_MAX + 200) /* an address, host, processors and a claimant */
/* If the last rank comes late, rank 0 may measure for at least this part of the timeout (1/8) after the
 * deadline. */
#define GCOLL_FIT_LEAST_PART 8
/* Creation of a context has one deadline, and ends at most GCOLL_CLOSING_MS after it. After the deadline, a
 * rank waits GCOLL_WORD_MS for the word of rank 0. Then, until GCOLL_TELL_MS, it may write a verdict for the
 * others. Last, it removes its keys. A rank that the machine has not run for so long still gets
 * GCOLL_LEAST_MS for its verdict, and as much for its keys: if it ended without a word, it would seem to have
 * died. */
#define GCOLL_WORD_MS    250
#define GCOLL_TELL_MS    500
#define GCOLL_CLOSING_MS 750
#define GCOLL_LEAST_MS   100

typedef struct gcoll_meeting gcoll_meeting;

/* A context's rendezvous. Only this folder reads the fields. */
struct gcoll_rendezvous {
    char generation[GCOLL_GENERATION_TEXT]; /* random hex digits, the same on all ranks of the launch */
    bool joined;                            /* this rank has keys in the store */
    char *
        *addresses; /* records of all ranks, if they met without a store; else NULL: they are in the store */
    uint32_t *node; /* the number of each rank's host; NULL until an algorithm asks */
    bool spans_hosts;       /* rank 0, which has met all in a store: they run on several hosts */
    gcoll_meeting *meeting; /* NULL if the ranks met without a store, or if size is 1 */
    int64_t keep_ms; /* time at which this rank's keys are to be kept again; INT64_MAX: there are none */
};

/* ---- Visits to the store (visits.c) --------------------------------------------------------
 *
 * A visit is a request to the store. The visits of one call share a time limit. Each key that is written gets
 * a lifetime of a day. */

/* Sets the deadline of the next visits. While the context is being created, it is at most GCOLL_TELL_MS after
 * the deadline of creation. */
void gcoll_visits_until(gcoll_context *context, int64_t limit_ms);
/* The same for visits that tell other ranks why this one ends. Leaves them GCOLL_LEAST_MS in any case. */
void gcoll_visits_to_tell(gcoll_context *context, int64_t limit_ms);
/* The same for visits of a rank that leaves. If all ranks had met, a store that answers has a second for each
 * of them, and ten for all: where many ranks share few processors they leave slowly, and keys that stay
 * behind stay for a day. */
void gcoll_visits_to_leave(gcoll_context *context, int64_t limit_ms);
/* Gives the store its own timeout again. */
void gcoll_visits_end(gcoll_context *context);
/* Gets a value as text of at most size - 1 bytes, and adds the NUL. */
gcoll_status gcoll_visit_text(gcoll_context *context, const char *key, char *text, size_t size);
gcoll_status gcoll_visit_get(gcoll_context *context, const char *key, void *value, size_t capacity,
                             size_t *bytes);
/* The same, of a text that was signed with another secret, or not at all: nobody vouches for it. */
gcoll_status gcoll_visit_unsigned(gcoll_context *context, const char *key, char *text, size_t size);
gcoll_status gcoll_visit_set(gcoll_context *context, const char *key, const void *value, size_t bytes);
gcoll_status gcoll_visit_set_new(gcoll_context *context, const char *key, const char *text);
gcoll_status gcoll_visit_wait(gcoll_context *context, const char *key, int64_t timeout_ms);
gcoll_status gcoll_visit_add(gcoll_context *context, const char *key, int64_t delta, int64_t *value);
gcoll_status gcoll_visit_remove(gcoll_context *context, const char *key);

/* Writes a key: "gcoll/<job>/", the launch if it has an identity, and the formatted text. */
GCOLL_PRINTF(3, 4)
void gcoll_rendezvous_key(const gcoll_context *context, char key[GCOLL_STORE_KEY_MAX + 1], const char *format,
                          ...);
/* Writes a key of this rank's generation: "<generation>/<name>" after the same start. */
void gcoll_rendezvous_key_of(const gcoll_context *context, char key[GCOLL_STORE_KEY_MAX + 1],
                             const char *name);
/* Parses a verdict from the store ("!", a status, a space and a reason), and returns it as error. */
gcoll_status gcoll_rendezvous_verdict(const char *text);

/* ---- The meeting (meeting.c) --------------------------------------------------------------- */

/* Initialises the rendezvous of a new context. */
void gcoll_rendezvous_create(gcoll_context *context);

/* Begins the meeting. Comes before all other calls. `launch` is the option that names the launch; without it
 * the environment or the launcher may. deadline_ms is the deadline of creation, which limits all visits until
 * gcoll_rendezvous_end. */
gcoll_status gcoll_meeting_create(gcoll_context *context, const char *launch, int64_t deadline_ms);
/* Moves the deadline of creation to a later time, because rank 0 still measures. */
void gcoll_meeting_extend(gcoll_context *context, int64_t deadline_ms);
/* Returns the current deadline of creation. */
int64_t gcoll_meeting_deadline(const gcoll_context *context);
/* Make a random generation, or set one that the ranks have agreed on. */
gcoll_status gcoll_generation_make(char generation[GCOLL_GENERATION_TEXT]);
void gcoll_generation_set(gcoll_context *context, const char generation[GCOLL_GENERATION_TEXT]);
/* Gives the generation as the 16 bytes that endpoints compare. */
void gcoll_generation_bytes(const gcoll_context *context, uint8_t bytes[16]);
/* Rank 0 makes a generation, the others find one. */
gcoll_status gcoll_rendezvous_begin(gcoll_context *context, int64_t deadline_ms);
/* Claims this rank in the generation. *again: the launch is over, so begin again. */
gcoll_status gcoll_rendezvous_claim(gcoll_context *context, int64_t deadline_ms, bool *again);
/* Publishes this rank's address and waits for all ranks. Ranks that take no part in agreeing on costs
 * (has_part is false) wait until that has succeeded or failed, too. Then counts the ranks that share this
 * rank's processors. *again: the time of the launch was over when this rank came, so begin again. */
gcoll_status gcoll_rendezvous_finish(gcoll_context *context, const char *address, bool has_part,
                                     int64_t deadline_ms, uint32_t *local_ranks, bool *again);
/* Waits for a key of the generation that rank 0 writes, and gets its text. Ends early if there is a verdict,
 * or rank 0 dies. Returns TIMEOUT when the time is over; then there is an error text only if
 * gcoll_rendezvous_was_told. */
gcoll_status gcoll_rendezvous_await(gcoll_context *context, const char *name, int64_t limit_ms, char *text,
                                    size_t size);
/* Returns whether there is a verdict. */
bool gcoll_rendezvous_was_told(const gcoll_context *context);
/* Returns rank 0's decision after go if gcoll_rendezvous_finish has received it already, else "". */
const char *gcoll_rendezvous_agreed(const gcoll_context *context);
/* Tells the other ranks that this one could not join, for the reason in the last error, which stays. Does
 * nothing before a generation is known, or after all ranks have met. */
void gcoll_rendezvous_refuse(gcoll_context *context, gcoll_status status);
/* Ends the meeting: gives the store its own timeout again and, if creation succeeded, keeps this rank's keys
 * from now on. */
void gcoll_rendezvous_end(gcoll_context *context, gcoll_status status);
/* Returns whether this rank has keys in the store. */
bool gcoll_rendezvous_has_joined(const gcoll_context *context);
/* Returns whether this rank has keys in the store, and all ranks have met. */
bool gcoll_rendezvous_is_complete(const gcoll_context *context);

/* ---- Without a store (exchange.c) ---------------------------------------------------------- */

/* An allgather: the caller's, or gcoll_limited_exchange. */
typedef struct gcoll_exchange {
    gcoll_exchange_fn fn;
    void *arg;
    const char *name; /* for messages */
} gcoll_exchange;

#define GCOLL_EXCHANGE_ROUNDS 3

/* The first step: agrees on the generation. If the allgather works but gives invalid rows, *rows says so.
 * Then this rank must take part in the next step, to tell the others. */
gcoll_status gcoll_exchange_hello(gcoll_context *context, const gcoll_exchange *by, gcoll_status *rows);
/* The second step, when the endpoint is open: gets the records of all ranks. record: this rank's record, or
 * "!" and why there is none. */
gcoll_status gcoll_exchange_records(gcoll_context *context, const gcoll_exchange *by, const char *record);
/* Whether a row has been filled in; in the first round, also whether the job sizes agree. */
bool gcoll_exchange_row_is_there(const uint8_t *row, size_t bytes);
bool gcoll_exchange_hello_fits(const gcoll_context *context, const uint8_t *row, size_t bytes);

/* An allgather by a store that lacks operations (limited.c). The context has a meeting. */
typedef struct gcoll_limited gcoll_limited;
gcoll_status gcoll_limited_create(gcoll_context *context, gcoll_store *store, int64_t deadline_ms,
                                  gcoll_limited **limited);
gcoll_status gcoll_limited_exchange(void *limited, const void *mine, size_t bytes, void *all);
/* Frees the allgather's state. If all ranks are through, removes its keys, if the store can. */
void gcoll_limited_end(gcoll_limited *limited, bool all_are_through);

/* ---- After the meeting (records.c) ----------------------------------------------------------- */

/* Gets a peer's address. Returns GCOLL_ERR_NOT_FOUND if the peer has left. A peer that broke has put the
 * cause in the place of its address: then returns GCOLL_ERR_STATE and sets *cause. */
gcoll_status gcoll_rendezvous_lookup(gcoll_context *context, uint32_t peer, char *address, size_t bytes,
                                     gcoll_note *cause);
/* Says why gcoll_rendezvous_lookup did not find a rank. Returns NOT_FOUND if the rank has left, IO if the
 * store has lost all keys, or the store's error. */
gcoll_status gcoll_rendezvous_has_left(gcoll_context *context);
/* Writes the record that a rank publishes: its address, host and processors, separated by spaces. In a store,
 * the claimant follows. */
void gcoll_rendezvous_record(const char *address, char record[GCOLL_RECORD_MAX]);
/* Gives the number of each rank's host. The first call looks up each rank. On failure *missing is the rank
 * whose record was not found, with *cause as in gcoll_rendezvous_lookup, or GCOLL_NO_RANK. */
gcoll_status gcoll_rendezvous_hosts(gcoll_context *context, const uint32_t **node, uint32_t *missing,
                                    gcoll_note *cause);
/* For rank 0 once all have met, and for contexts that met without a store: *node is the number of each rank's
 * host, and *most the ranks of the largest one. *node is NULL if all ranks share a host, or none do. Asks no
 * store. */
gcoll_status gcoll_rendezvous_levels(gcoll_context *context, const uint32_t **node, uint32_t *most);
/* Likewise: whether the ranks run on several hosts. */
gcoll_status gcoll_rendezvous_spans_hosts(gcoll_context *context, bool *spans);
/* Writes which rank is on which host as a text. False if that needs more than `bytes` bytes, or memory. */
bool gcoll_hosts_write(const uint32_t *node, uint32_t size, char *text, size_t bytes);
/* Keeps the map of such a text, which came from rank 0. */
gcoll_status gcoll_rendezvous_take_map(gcoll_context *context, const char *text, uint32_t *most);
/* Checks and keeps the record of a rank, in a context that meets without a store. */
gcoll_status gcoll_rendezvous_take_record(gcoll_context *context, uint32_t rank, const char *record);
/* Counts, by these records, the ranks that share the processors of this one. All records must be there. */
uint32_t gcoll_rendezvous_sharing(const gcoll_context *context, uint32_t rank);
/* Returns whether the records came without a store. Then the store does not say which ranks have left. */
bool gcoll_rendezvous_has_addresses(const gcoll_context *context);
/* Replaces this rank's address in the store by the cause for which the context broke. */
void gcoll_rendezvous_leave_cause(gcoll_context *context);
/* The same for a broken rank before it closes, unless it has been done; by limit_ms at the latest. A rank
 * that has not met all others leaves altogether, and only then true is returned. */
bool gcoll_rendezvous_part(gcoll_context *context, int64_t limit_ms);
/* Removes this rank's keys by limit_ms, or as long as gcoll_visits_to_leave says. */
void gcoll_rendezvous_leave(gcoll_context *context, int64_t limit_ms);
/* Keeps this rank's address in the store for another day, or writes it again. */
void gcoll_rendezvous_keep(gcoll_context *context);
/* Returns whether gcoll_rendezvous_keep is due: about once an hour. */
static inline bool gcoll_rendezvous_is_due(const gcoll_context *context, int64_t now_ms) {
    return now_ms >= context->rendezvous->keep_ms;
}
/* Calls gcoll_rendezvous_keep if it is due by the coarse clock, and the context is not broken. */
void gcoll_rendezvous_keep_if_due(gcoll_context *context);
/* In a forked child: forgets the keys, which are the parent's. */
void gcoll_rendezvous_abandon(gcoll_context *context);
void gcoll_rendezvous_free(gcoll_context *context);

/* Returns the number of processors that this thread may run on (hosts.c). */
uint32_t gcoll_host_cores(void);

#endif
