/*
 * benchmark/embed_cost.c - measures an allreduce that a framework hands to gcoll and whose end it polls for.
 *
 * A framework has threads of its own: one of them asks for an operation, and looks again and again whether it
 * has ended. There are several ways to get such an operation to gcoll, and to hear of its end:
 *
 *   call     the framework's thread makes a blocking call; nothing polls. This is the cost of gcoll itself.
 *   poll     a worker thread drives the context. It tests the requests in flight and looks for new work. It
 *            naps in between, because it cannot wait for both.
 *   wake     the worker waits in gcoll_wait_any; gcoll_context_wake tells it of new work.
 *   done     no worker: the framework's thread starts the operation, the context's progress thread drives
 *            it, and options.done tells of its end.
 *
 * The worker always has a receive in flight, for a message that comes at the end. So it must not simply wait
 * for new work.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "benchmark/cost.h"
#include "tools/cli_value.h"

const char cli_program[] = "embed_cost";

enum way { CALL, POLL, WAKE, DONE, WAYS };
static const char *const names[WAYS] = {"call", "poll", "wake", "done"};

#define NAP_US  1000 /* a usual cycle of a worker that polls */
#define END_TAG 1

typedef struct setting {
    uint32_t rank, size, calls;
    uint64_t bytes;
    const char *store;
} setting;

/* What is in flight; NULL: it is not. */
enum { LAST, OPERATION, NEXT, REQUESTS };

typedef struct engine {
    gcoll_context *context;
    enum way way;
    float *data;
    uint64_t count;
    gcoll_pair *next;
    atomic_uint asked, ended; /* operations */
    atomic_bool is_over;
    gcoll_request *requests[REQUESTS]; /* the end's message of the last rank; its own to the next */
} engine;

static const char usage[] =
    "embed_cost RANK SIZE STORE BYTES [CALLS] - an allreduce that a framework's thread asks for and polls "
    "for\n"
    "Rank RANK of SIZE ranks, at least 2, which meet in STORE (file:DIR), makes CALLS allreduces (1000) of "
    "BYTES bytes\n"
    "of float32 in each way. Rank 0 prints the times of an operation, in us.\n";

/* ---- Workers ------------------------------------------------------------------------------ */

/* Starts what the framework has asked for. */
static void take_work(engine *e, unsigned *begun, bool *ends) {
    if (!e->requests[OPERATION] && atomic_load(&e->asked) != *begun) {
        cost_check(gcoll_allreduce_start(e->context, NULL, e->data, e->count, GCOLL_FLOAT32, GCOLL_MAX, NULL,
                                         &e->requests[OPERATION]));
        ++*begun;
    }
    if (!*ends && atomic_load(&e->is_over)) {
        *ends = true;
        cost_check(gcoll_pair_send_start(e->next, END_TAG, NULL, 0, &e->requests[NEXT]));
    }
}

static bool has_work(const engine *e, bool ends) {
    return e->requests[LAST] || e->requests[OPERATION] || e->requests[NEXT] || !ends;
}

static void *poll_for_work(void *arg) {
    engine *e = arg;
    const struct timespec nap = {.tv_nsec = NAP_US * 1000};
    unsigned begun = 0;
    for (bool ends = false; has_work(e, ends);) {
        bool idle = true;
        take_work(e, &begun, &ends);
        for (int i = 0; i < REQUESTS; i++) {
            int done = 0;
            if (e->requests[i])
                cost_check(gcoll_request_test(&e->requests[i], &done));
            if (done && i == OPERATION)
                atomic_store(&e->ended, begun);
            idle = idle && !done;
        }
        if (idle)
            (void)nanosleep(&nap, NULL);
    }
    return NULL;
}

static void *wait_for_work(void *arg) {
    engine *e = arg;
    unsigned begun = 0;
    for (bool ends = false; has_work(e, ends);) {
        uint32_t index = 0;
        gcoll_status status = GCOLL_WOKEN;
        if (e->requests[LAST] || e->requests[OPERATION] || e->requests[NEXT])
            status = gcoll_wait_any(e->requests, REQUESTS, &index);
        else
            (void)sched_yield(); /* the last rank has ended before this one: for once, nothing is in flight */
        if (status == GCOLL_WOKEN) {
            take_work(e, &begun, &ends);
            continue;
        }
        cost_check(status);
        cost_check(gcoll_request_wait(&e->requests[index]));
        if (index == OPERATION)
            atomic_store(&e->ended, begun);
    }
    return NULL;
}

/* ---- The framework ------------------------------------------------------------------------ */

static void note_end(void *arg, gcoll_status status, const char *text) {
    engine *e = arg;
    if (status != GCOLL_OK) {
        cli_complain("%s: %s", gcoll_status_text(status), text);
        exit(1);
    }
    atomic_fetch_add(&e->ended, 1);
}

static void ask(engine *e) {
    gcoll_allreduce_options options;
    const unsigned asked = atomic_load(&e->asked) + 1;
    if (e->way == DONE) {
        gcoll_allreduce_options_init(&options);
        options.done = note_end;
        options.done_arg = e;
        cost_check(gcoll_allreduce_start(e->context, NULL, e->data, e->count, GCOLL_FLOAT32, GCOLL_MAX,
                                         &options, NULL));
    }
    atomic_store(&e->asked, asked);
    if (e->way == WAKE)
        cost_check(gcoll_context_wake(e->context));
}

static double time_one(engine *e) {
    const struct timespec look = {.tv_nsec = 1}; /* some 50 us, as the kernel rounds up */
    const double begin = cost_now_us();
    if (e->way == CALL) {
        cost_check(gcoll_allreduce(e->context, NULL, e->data, e->count, GCOLL_FLOAT32, GCOLL_MAX, NULL));
        return cost_now_us() - begin;
    }
    ask(e);
    while (atomic_load(&e->ended) != atomic_load(&e->asked))
        (void)nanosleep(&look, NULL);
    return cost_now_us() - begin;
}

static void open_engine(engine *e, const setting *s, enum way way, gcoll_store *store) {
    gcoll_pair *last = NULL;
    char job[32];
    gcoll_context_options options;
    memset(e, 0, sizeof *e);
    (void)snprintf(job, sizeof job, "embed-%s", names[way]);
    gcoll_context_options_init(&options);
    options.rank = s->rank;
    options.size = s->size;
    options.store = store;
    options.job = job;
    options.tuning = "default"; /* so that all choose alike */
    options.progress_thread = way == DONE;
    cost_check(gcoll_context_create(&options, &e->context));
    e->way = way;
    e->count = s->bytes / sizeof *e->data;
    e->data = calloc(e->count + 1, sizeof *e->data);
    if (!e->data)
        exit(1);
    cost_check(gcoll_barrier(e->context, NULL)); /* they are connected */
    cost_check(gcoll_context_pair(e->context, (s->rank + s->size - 1) % s->size, &last));
    cost_check(gcoll_context_pair(e->context, (s->rank + 1) % s->size, &e->next));
    cost_check(gcoll_pair_recv_start(last, END_TAG, NULL, 0, &e->requests[LAST]));
}

static void close_engine(engine *e, bool has_worker, pthread_t worker) {
    atomic_store(&e->is_over, true);
    if (has_worker) {
        if (e->way == WAKE)
            cost_check(gcoll_context_wake(e->context));
        (void)pthread_join(worker, NULL);
    } else {
        cost_check(gcoll_pair_send_start(e->next, END_TAG, NULL, 0, &e->requests[NEXT]));
        cost_check(gcoll_request_wait(&e->requests[NEXT]));
        cost_check(gcoll_request_wait(&e->requests[LAST]));
    }
    gcoll_context_destroy(e->context);
    free(e->data);
}

/* Median and quartiles of rank 0. */
static void measure(const setting *s, enum way way, gcoll_store *store) {
    engine e;
    pthread_t worker = 0;
    const bool has_worker = way == POLL || way == WAKE;
    double *times = malloc(s->calls * sizeof *times);
    open_engine(&e, s, way, store);
    if (!times ||
        (has_worker && pthread_create(&worker, NULL, way == POLL ? poll_for_work : wait_for_work, &e) != 0))
        exit(1);
    for (uint32_t i = 0; i < s->calls / 10; i++)
        (void)time_one(&e);
    for (uint32_t i = 0; i < s->calls; i++)
        times[i] = time_one(&e);
    close_engine(&e, has_worker, worker);
    const cost_quartiles us = cost_quartiles_of(times, s->calls);
    if (s->rank == 0)
        printf("%-6s %9" PRIu64 " bytes %10.1f us   (quartiles %.1f, %.1f)\n", names[way], s->bytes,
               us.median, us.lower, us.upper);
    free(times);
}

int main(int argc, char **argv) {
    setting s = {0};
    if (argc < 5 || argc > 6) {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (!cli_whole32("SIZE", argv[2], 2, 1000, &s.size) ||
        !cli_whole32("RANK", argv[1], 0, s.size - 1, &s.rank) ||
        !cli_whole("BYTES", argv[4], 4, 1 << 30, &s.bytes) ||
        !cli_whole32("CALLS", argc > 5 ? argv[5] : "1000", 1, 1000000, &s.calls))
        return 2;
    s.store = argv[3];
    gcoll_store *store;
    cost_check(gcoll_store_open(s.store, 30000, &store));
    for (enum way way = CALL; way < WAYS; way++)
        measure(&s, way, store);
    gcoll_store_destroy(store);
    return 0;
}
