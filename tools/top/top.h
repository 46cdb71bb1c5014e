/* tools/top/top.h - what the processes of a host say at their sockets (GCOLL_WATCH), and how fast they are.
 */
#ifndef GCOLL_TOP_H
#define GCOLL_TOP_H

#include "tools/trace/trace.h"

typedef enum top_state {
    TOP_ANSWERS,
    TOP_SILENT, /* does not answer, though it is there */
    TOP_STOPPED /* nor can it, as the kernel says that it is stopped */
} top_state;

/* One context of a process. */
typedef struct top_context {
    trace_rank who;            /* job, group, host, transport, rank, size, and what it waits for */
    trace_operation operation; /* the newest; number 0: none */
    uint64_t socket;           /* of the process: tells it from others, also where two have one number */
    long process;
    top_state state;
    int64_t silent_since; /* of the process, as top_view.at */
    int64_t now;          /* its own clock, as that of its operation */
    bool is_broken;
    uint32_t culprit; /* TRACE_NONE: none, or unknown */
    uint64_t begun, done, failed, busy_ns, sent_bytes, received_bytes, retransmitted, asleep_ns;
    bool has_rates; /* since the view before: */
    double operations_per_s, sent_per_s, received_per_s;
    double busy; /* part of the time in collective operations, 0 to 1 */
} top_context;

/* A process that does not answer, and of which no context is known. */
typedef struct top_stranger {
    uint64_t socket;
    long process;
    bool is_known;       /* the number is the kernel's, and not only its socket's name */
    uint32_t rank, size; /* of its first context, as its socket's name says */
    top_state state;
    int64_t silent_since;
} top_stranger;

typedef struct top_view {
    int64_t at;            /* ns */
    top_context *contexts; /* by job, group and rank */
    size_t count;
    top_stranger *strangers;
    size_t stranger_count;
    bool is_quiet; /* malformed answers cause no message on standard error */
} top_view;

/* gather.c: asks all processes whose sockets lie in the folder. before: the last view, or one of zeros.
 * False: the folder cannot be read (one that is not there holds no socket), or there is no memory. */
bool top_gather(const char *folder, bool is_quiet, const top_view *before, top_view *view);
/* What one process has said, with no NUL behind it. */
typedef struct top_answer {
    uint64_t socket;
    long process;
    const char *path, *text;
    size_t bytes;
} top_answer;
/* Parses an answer, and adds its well-formed contexts to the view. Malformed ones are skipped. Returns false
 * if out of memory. */
bool top_read(const top_answer *answer, top_view *view);
void top_free(top_view *view);

/* table.c: one line after the other, for people; `emphasis` 1: a heading, 2: something is wrong. */
typedef void (*top_line_fn)(void *arg, int emphasis, const char *line);
void top_print(const top_view *view, const char *folder, top_line_fn print, void *arg);
/* For programs. False: out of memory. */
bool top_print_json(const top_view *view, FILE *file);

/* screen.c: shows the table until q is pressed. Returns the exit status. */
int top_show(const char *folder, double interval_s);

#endif
