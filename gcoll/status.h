/*
 * gcoll/status.h - what a call may answer.
 *
 * Every function that can fail returns a gcoll_status; 0 is success. Outputs are written on success only. The
 * text of the latest failure on the calling thread is gcoll_last_error(): it names the argument or the rank
 * at fault, what was found and what is allowed.
 */
#ifndef GCOLL_STATUS_H
#define GCOLL_STATUS_H

#include "gcoll/export.h"

GCOLL_BEGIN_DECLS

typedef enum gcoll_status {
    GCOLL_OK = 0,
    GCOLL_ERR_INVALID = 1,     /* an argument is not allowed; nothing was done */
    GCOLL_ERR_NO_MEMORY = 2,   /* an allocation failed */
    GCOLL_ERR_UNSUPPORTED = 3, /* legal, but not by this algorithm, transport or build */
    GCOLL_ERR_TIMEOUT = 4,     /* a deadline passed */
    GCOLL_ERR_IO = 5,          /* the operating system, a file or a server refused */
    GCOLL_ERR_PEER = 6,        /* another rank closed, died, left or could not be reached */
    GCOLL_ERR_PROTOCOL = 7,    /* bytes from the wire that no gcoll of this version sends */
    GCOLL_ERR_MISMATCH = 8,    /* ranks called different collectives, counts, types, operations */
    GCOLL_ERR_ABORTED = 9,     /* gcoll_context_abort was called, here or on another rank */
    GCOLL_ERR_NOT_FOUND = 10,  /* a store has no such key */
    GCOLL_ERR_STATE = 11,      /* the object is not in a state that allows the call */
    GCOLL_ERR_INTERNAL = 12    /* a bug in gcoll; please report it */
} gcoll_status;

/* A constant one-line text for a status, never NULL; "unknown status" for a number that is none. */
GCOLL_API const char *gcoll_status_text(gcoll_status status);

/* The text of the latest failure on this thread, never NULL, "" if there was none. Valid until the
 * next failing gcoll call on this thread. */
GCOLL_API const char *gcoll_last_error(void);

GCOLL_END_DECLS

#endif
