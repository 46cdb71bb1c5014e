/* gcoll/trace.h - what happened: each context records its last operations, and writes them to a file.
 *
 * The flight recorder keeps the last 1,024 operations of a context: what was called, by which algorithm, when
 * it was entered, begun and done, how many bytes this rank sent, and how long the cost model says that it
 * takes. It is on unless the environment variable GCOLL_RECORD is "off" (allowed are on, off and steps: also
 * the last 16,384 steps of operations, which costs more; docs/trace.md).
 *
 * A file is written when a context breaks, if GCOLL_DUMP_DIR names a folder; when the signal that
 * GCOLL_DUMP_SIGNAL names comes (USR1, USR2, HUP or the number of a real-time signal), into the same folder;
 * and by gcoll_context_dump. gcoll_trace reads the files of all ranks (docs/trace.md).
 */
#ifndef GCOLL_TRACE_H
#define GCOLL_TRACE_H

#include "gcoll/context.h"

GCOLL_BEGIN_DECLS

/* Writes the recorder's operations as JSON to the file `path`, which is replaced. Callable from any thread
 * while the context exists, also while another thread is inside a call of the context. The file has no cause,
 * and lanes as far as they are known (gcoll/stats.h): the one that a context writes when it breaks has both,
 * and why lanes are no better. Sends nothing, and does not wait for other ranks. GCOLL_ERR_INVALID: an
 * argument is NULL or empty, or `path` is no regular file; GCOLL_ERR_IO: the file cannot be written, and why;
 * GCOLL_ERR_STATE: the recorder is off. */
GCOLL_API gcoll_status gcoll_context_dump(gcoll_context *context, const char *path);

GCOLL_END_DECLS

#endif
