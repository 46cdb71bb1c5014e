/*
 * gcoll/council/council.h - how the ranks of a context agree, also after it broke.
 *
 * With options.recovery a context has a second endpoint, its council, over which nothing goes but agreements
 * (agree.h). So a context that is broken, with all of its messages dropped, can still say who is left. The
 * council connects two ranks when they first have something to say, and is driven within its own calls alone.
 */
#ifndef GCOLL_COUNCIL_COUNCIL_H
#define GCOLL_COUNCIL_COUNCIL_H

#include "gcoll/context/context.h"
#include "gcoll/context/hooks.h"
#include "gcoll/council/agree.h"

/* The most bytes of a row. A rank that admits newcomers brings their records, too. */
#define GCOLL_ROW_MAX 65536

#define GCOLL_DOING_MAX 39

/* What a rank brings to an agreement. */
typedef struct gcoll_motion {
    const char
        *doing; /* the call, for messages: "calls gcoll_context_agree"; at most GCOLL_DOING_MAX bytes */
    uint64_t bits;
    uint64_t number;
    const void *row;      /* what the other ranks get of it */
    size_t row_bytes;     /* at most GCOLL_ROW_MAX */
    int64_t timeout_ms;   /* a rank from which nothing comes for so long counts as gone */
    bool majority;        /* fails unless more than half of the context's ranks are left */
    gcoll_context *child; /* NULL, or the new context that the agreement is for, if its endpoint is open */
} gcoll_motion;

/* Opens the council of a context whose generation is known, and gives its address for the other ranks. */
gcoll_status gcoll_council_open(gcoll_context *context, char address[GCOLL_ADDRESS_MAX]);
/* Keeps the address of another rank's council. Whether it is right shows when it is used. */
gcoll_status gcoll_council_know(gcoll_context *context, uint32_t rank, const char *address);
/* Begins to connect to another rank's council, whose address is known. MISMATCH: the options of the ranks do
 * not fit. */
gcoll_status gcoll_council_reach(gcoll_context *context, uint32_t rank);
/* NULL is fine. By limit_ms; also in a forked child. */
void gcoll_council_close(gcoll_context *context, int64_t limit_ms);

/* Agrees with all ranks that are not gone. All of them call it in the same order, with the same `doing`.
 * Inside a call. Blocks. The caller frees accord->data. Errors, which break nothing:
 *
 *   UNSUPPORTED  the context has no council
 *   PEER         the others have left out this rank; or too few are left
 *   MISMATCH     another rank is in another call: on all ranks, which may try again
 *   NO_MEMORY    this rank cannot take part in any agreement any more */
gcoll_status gcoll_council_agree(gcoll_context *context, const gcoll_motion *motion,
                                 gcoll_agree_bytes *accord);
/* Whether the council knows that a rank is gone. False without a council. */
bool gcoll_council_knows_gone(const gcoll_context *context, uint32_t rank);
/* After an agreement: who is gone is known by it, and not by the cause with which the context broke. */
void gcoll_council_judge(gcoll_context *context);
/* The agreement at the end of a call with options.uniform (verdict.c, gcoll/context/hooks.h). */
extern const gcoll_jury gcoll_council_jury;
/* Breaks the context if ranks are gone by the accord. It works no more: collectives on it fail at once, on
 * all ranks for one cause, instead of waiting. */
void gcoll_council_break_for_gone(gcoll_context *context, const gcoll_agree_bytes *accord);
/* The row of a rank that is in the accord, as it was given. */
const uint8_t *gcoll_council_row(const gcoll_context *context, const gcoll_agree_bytes *accord, uint32_t rank,
                                 size_t *bytes);

#endif
