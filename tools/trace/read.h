/* tools/trace/read.h - makes sense of a dump, and of parts of one, as they are in what gcoll_top gets, too.
 */
#ifndef GCOLL_TRACE_READ_H
#define GCOLL_TRACE_READ_H

#include "tools/fields.h"
#include "tools/trace/trace.h"

#define TRACE_TIME_MOST INT64_C(100000000000000000) /* three years, in ns */

/* Of all: false says what is wrong, in the reader. */
bool trace_read_dump(field_reader *r, struct json_object *all, trace_rank *to);
/* Whose it is: job, group, host, transport, rank, size. */
bool trace_read_head(field_reader *r, struct json_object *all, trace_rank *to);
/* What is waited for, if anything. */
bool trace_read_wait(field_reader *r, struct json_object *all, trace_rank *to);
/* rank->dumped is set. */
bool trace_read_operation(field_reader *r, struct json_object *from, const trace_rank *rank,
                          trace_operation *to);

#endif
