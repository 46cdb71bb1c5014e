/* gcoll/lifecycle/child.h - a context in the making, of all or some ranks of another context, its parent: for
 * group.c and recovery.c. */
#ifndef GCOLL_LIFECYCLE_CHILD_H
#define GCOLL_LIFECYCLE_CHILD_H

#include "gcoll/lifecycle/lifecycle.h"
#include "gcoll/rendezvous/rendezvous.h"

#define GCOLL_REASON_BYTES 200 /* why an endpoint did not open, as the other members get it */

typedef struct gcoll_child {
    gcoll_context *parent;
    const char *doing; /* for messages: "split the context" */
    uint32_t *ranks;   /* of the parent, by the ranks of the child */
    uint32_t size;     /* 0: this rank gets no context */
    uint32_t rank;
    char generation[GCOLL_GENERATION_TEXT];
    gcoll_context *context;
    gcoll_status opened;             /* the status of opening the endpoint, */
    char reason[GCOLL_REASON_BYTES]; /* and the reason if it failed */
} gcoll_child;

/* Makes the context, without an endpoint. */
gcoll_status gcoll_child_allocate(gcoll_child *c);
/* Opens the endpoint, and gives this rank's record, or in its place "!" and why there is none. */
void gcoll_child_offer(gcoll_child *c, char record[GCOLL_RECORD_MAX]);
/* A record of the context and the address of its council, each with its end. */
#define GCOLL_ENDS_MAX (GCOLL_RECORD_MAX + GCOLL_ADDRESS_MAX)
/* Makes the context and opens its endpoint and its council. row: the record and the council's address; or "!"
 * and why there is none. Returns its bytes (recovery.c). */
size_t gcoll_child_open_ends(gcoll_child *c, char row[GCOLL_ENDS_MAX]);
/* Takes a member's record. text may come from a broken peer. */
gcoll_status gcoll_child_take_record(const gcoll_child *c, uint32_t rank, char *text);
/* Once all records are there. */
gcoll_status gcoll_child_complete(gcoll_child *c);

/* ---- Bytes and texts of all ranks --------------------------------------------------------------------- */

typedef struct gcoll_texts {
    char *table; /* a row for each rank; the caller frees it */
    uint32_t row_bytes;
} gcoll_texts;

/* Gives every rank `bytes` bytes of each, by an allgather on the context. */
gcoll_status gcoll_bytes_share(gcoll_context *context, const void *mine, void *all, uint64_t bytes);
/* Gives every rank the texts of all, by two collectives on the context. most: the most bytes of a text, with
 * its end. A failure breaks the context. */
gcoll_status gcoll_texts_share(gcoll_context *context, const char *mine, uint32_t most, gcoll_texts *texts);
static inline char *gcoll_texts_of(const gcoll_texts *texts, uint32_t rank) {
    return texts->table + (size_t)rank * texts->row_bytes;
}

#endif
