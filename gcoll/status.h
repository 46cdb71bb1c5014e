/*
 * gcoll/status.h - status codes and error texts.
 *
 * Every function that can fail returns a gcoll_status; 0 is success. Outputs are written on success only.
 * gcoll_last_error() is the text of the latest failure on the calling thread. It names the argument or the
 * rank at fault, the value that was found, and the values that are allowed.
 */
#ifndef GCOLL_STATUS_H
#define GCOLL_STATUS_H

#include "gcoll/export.h"

GCOLL_BEGIN_DECLS

/* How a call has ended. */
typedef enum gcoll_status {
    GCOLL_OK = 0,
    GCOLL_ERR_INVALID = 1,     /* an argument is not allowed; the call did nothing */
    GCOLL_ERR_NO_MEMORY = 2,   /* a rank ran out of memory, file descriptors or locked memory; the text names
                                * the resource and the limit to raise */
    GCOLL_ERR_UNSUPPORTED = 3, /* legal, but not by this algorithm, transport or build */
    GCOLL_ERR_TIMEOUT = 4,     /* a time limit passed */
    GCOLL_ERR_IO = 5,          /* the system, a file or a server failed, or the network changed data */
    GCOLL_ERR_PEER = 6,        /* another rank closed, died, left or could not be reached */
    GCOLL_ERR_PROTOCOL = 7,    /* a peer sent bytes that no gcoll of this version sends */
    GCOLL_ERR_MISMATCH = 8,    /* ranks called with different collectives, counts, types, operations; or a
                                * message is larger than the buffer for it */
    GCOLL_ERR_ABORTED = 9,     /* gcoll_context_abort was called, or a reduction of the caller's own failed,
                                * here or on another rank */
    GCOLL_ERR_NOT_FOUND = 10,  /* there is no such key, algorithm, site or launcher */
    GCOLL_ERR_STATE = 11,      /* the object is not in a state that allows the call */
    GCOLL_ERR_INTERNAL = 12,   /* a bug in gcoll; please report it */
    GCOLL_WOKEN = 13           /* no failure: gcoll_context_wake ended a wait, and nothing else */
} gcoll_status;

/* Returns a constant one-line text for a status, never NULL; "unknown status" for any other number. */
GCOLL_API const char *gcoll_status_text(gcoll_status status);

/* Returns the text of the latest failure on this thread, never NULL; "" if there was none. The text is valid
 * until the next gcoll call that fails on this thread. */
GCOLL_API const char *gcoll_last_error(void);

GCOLL_END_DECLS

#endif
