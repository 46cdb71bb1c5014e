/* tools/trace/trace.h - what gcoll_trace has of a job: the dumps of its ranks, on one clock. */
#ifndef GCOLL_TRACE_TOOL_H
#define GCOLL_TRACE_TOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TRACE_NAME  24 /* of a collective, a type, an operation */
#define TRACE_TEXT  512
#define TRACE_PEERS 4
#define TRACE_NEVER INT64_MIN
#define TRACE_NONE  UINT32_MAX

typedef enum trace_state { TRACE_RUNS, TRACE_DONE, TRACE_FAILED } trace_state;

/* One operation of one rank. Times are nanoseconds since the job's first moment, on rank 0's clock. */
typedef struct trace_operation {
    uint64_t number, count, element_bytes, sent_bytes;
    int64_t entered, begun, ended; /* ended: of one that runs, when the dump was written */
    int64_t predicted;             /* ns; -1: unknown */
    trace_state state;
    bool has_own_counts;              /* those of other ranks may differ */
    uint32_t root, step, steps, peer; /* TRACE_NONE: not said */
    char collective[TRACE_NAME], type[TRACE_NAME], op[TRACE_NAME], algorithm[64];
} trace_operation;

typedef enum trace_step_kind { TRACE_SEND, TRACE_RECEIVE, TRACE_LOCAL } trace_step_kind;

/* One step of one operation of one rank. */
typedef struct trace_step {
    uint64_t operation, bytes;
    trace_step_kind kind;
    uint32_t round;         /* from 1 */
    uint32_t peer, message; /* of a message; else TRACE_NONE and 0 */
    int64_t begun, done;    /* done TRACE_NEVER: in flight */
    char name[TRACE_NAME];
} trace_step;

/* A message, as both sides have it. */
typedef struct trace_message {
    uint64_t operation, bytes;
    uint32_t from, to, round;
    int64_t sent, wanted, done; /* when it was posted on both sides, and when it had come */
    int64_t start;              /* when it began to move */
} trace_message;

typedef struct trace_messages {
    trace_message *list;
    size_t count, room;
} trace_messages;

typedef struct trace_rank {
    char *path;
    uint32_t rank, size;
    char job[80], group[40], host[256], transport[32];
    int64_t began_unix, dumped; /* dumped: as times of operations */
    int64_t shift;              /* what was added to its clock to meet rank 0's */
    bool is_broken;
    char cause[TRACE_TEXT];
    uint32_t culprit;
    bool waits;
    uint64_t waits_number;
    uint32_t waits_step, waits_steps, waits_peer[TRACE_PEERS];
    bool waits_for_more; /* ranks than these */
    int64_t waits_since;
    uint64_t begun;              /* operations in all */
    trace_operation *operations; /* by number, increasing */
    size_t count;
    trace_step *steps; /* in the order in which they began */
    size_t step_count;
    uint64_t alpha_ps, beta_fs, host_alpha_ps,
        host_beta_fs; /* the cost model, of a message; alpha 0: unknown */
} trace_rank;

/* A job: its ranks in order. Ranks whose file is missing or cannot be read are not in it. */
typedef struct trace_job {
    trace_rank *ranks;
    uint32_t count, size;
    char job[80], group[40];
} trace_job;

/* Makes room for one more of `count` elements of `each` bytes. Returns the list, which may have moved; NULL:
 * out of memory, and it is as it was. */
static inline void *trace_make_room(void *list, size_t count, size_t *room, size_t each) {
    if (count < *room)
        return list;
    const size_t wanted = *room ? 2 * *room : 64;
    void *more = realloc(list, wanted * each);
    *room = more ? wanted : *room;
    return more;
}

/* How much of a group's name is enough: 8 digits, or all, where it is a process and a number. */
static inline int trace_group_digits(const char *group) {
    return group[0] == 'p' ? 40 : 8;
}

/* files.c: reads the dumps in a folder, or the named files. Says on standard error what it leaves out, and
 * why. group: only dumps of that group, whose name begins so; NULL: there must be one. False: nothing is
 * left. */
bool trace_read(int count, char **paths, const char *group, trace_job *job);
void trace_free(trace_job *job);
/* The operation of that number, or NULL. */
const trace_operation *trace_find(const trace_rank *rank, uint64_t number);
const trace_rank *trace_rank_of(const trace_job *job, uint32_t rank);

/* clock.c: moves all times to one clock. */
void trace_align(trace_job *job);

/* report.c: the tables. */
void trace_report(const trace_job *job, FILE *file);
/* An order of calls: 0 if one is the same as the other, but for the numbers of elements that are each rank's
 * own. */
int trace_compare_calls(const trace_operation *a, const trace_operation *b);

/* links.c: finds the messages that both sides know of. False: out of memory. */
bool trace_match(const trace_job *job, trace_messages *all);
void trace_messages_free(trace_messages *all);
/* Slow links, if there are any. The messages are sorted by link, and those of which it is not known how long
 * they took are left out. */
void trace_report_links(const trace_job *job, trace_messages *all, FILE *file);
/* After that: the messages of each step beside the cost model. */
void trace_report_steps(const trace_job *job, const trace_messages *all, FILE *file);

/* say.c: "allreduce of 400 float32, sum by ring"; "1.2 ms"; "waits for 3 for 1.2 s, step 2 of 6", or nothing
 */
void trace_say_call(const trace_operation *o, char *text, size_t bytes);
void trace_say_time(int64_t ns, char text[32]);
void trace_say_wait(const trace_rank *rank, char *text, size_t bytes);

/* page.c: the last operations as a picture, and a page with it and the tables. False, as all
 * that write: out of memory, and errno. */
bool trace_write_page(const trace_job *job, FILE *file);
bool trace_write_picture(const trace_job *job, FILE *file);
/* perfetto.c: the JSON that Perfetto and Chrome read. */
bool trace_write_perfetto(const trace_job *job, FILE *file);

#endif
