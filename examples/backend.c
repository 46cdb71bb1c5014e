/*
 * examples/backend.c - skeleton of a framework's backend over gcoll: work from any thread, callbacks, groups,
 * abort.
 *
 * A framework hands an operation to the backend and gets a `work`, which it may wait for from any thread, or
 * never. The context's progress thread moves the data and calls note_end. Ranks that need no other thread
 * than their own may leave the progress thread out and use blocking calls.
 *
 * Usage: mpirun -n 4 backend [abort]     (or any launcher of docs/launchers.md)
 */
#include <gcoll/gcoll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 1000 /* elements of a vector */
#define CALLS 20   /* operations that a thread has in flight at once */

/* ---- Work: an operation that was submitted ------------------------------------------------- */

typedef struct backend_work {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_over;
    gcoll_status status;
    char text[256];
} backend_work;

static void work_init(backend_work *work) {
    memset(work, 0, sizeof *work);
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->ended, NULL);
}

/* Called once for each operation, on the thread that drives the context. It only takes a note: nothing else
 * moves meanwhile. */
static void note_end(void *arg, gcoll_status status, const char *text) {
    backend_work *work = arg;
    pthread_mutex_lock(&work->lock);
    work->status = status;
    snprintf(work->text, sizeof work->text, "%s", text);
    work->is_over = true;
    pthread_cond_signal(&work->ended);
    pthread_mutex_unlock(&work->lock);
}

/* Waits until the work has ended, which its time limit bounds. Frees what work_init made. */
static gcoll_status work_wait(backend_work *work) {
    pthread_mutex_lock(&work->lock);
    while (!work->is_over)
        pthread_cond_wait(&work->ended, &work->lock);
    pthread_mutex_unlock(&work->lock);
    pthread_cond_destroy(&work->ended);
    pthread_mutex_destroy(&work->lock);
    return work->status;
}

/* ---- The backend --------------------------------------------------------------------------- */

/* Submits a sum over all ranks of the context. The data belong to gcoll until the work has ended. Any thread
 * may submit, but every rank must submit the same operations on a context in the same order. So a thread that
 * submits by itself has a context of its own: a group, or a duplicate. */
static void submit_sum(gcoll_context *context, float *data, uint64_t count, backend_work *work) {
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.done = note_end;
    options.done_arg = work;
    options.timeout_ms = 10000;
    work_init(work);
    const gcoll_status status =
        gcoll_allreduce_start(context, NULL, data, count, GCOLL_FLOAT32, GCOLL_SUM, &options, NULL);
    if (status != GCOLL_OK) /* it was refused, so gcoll does not call note_end */
        note_end(work, status, gcoll_last_error());
}

/* ---- A framework that uses it -------------------------------------------------------------- */

/* A thread of the framework: it submits many sums at once, and checks each. */
typedef struct framework_client {
    gcoll_context *context;
    bool failed;
} framework_client;

static void *run_client(void *arg) {
    framework_client *client = arg;
    const uint32_t rank = gcoll_context_rank(client->context), size = gcoll_context_size(client->context);
    static _Thread_local float data[CALLS][COUNT];
    backend_work works[CALLS];
    for (uint32_t i = 0; i < CALLS; i++) {
        for (uint32_t k = 0; k < COUNT; k++)
            data[i][k] = (float)(rank + i);
        submit_sum(client->context, data[i], COUNT, &works[i]);
    }
    for (uint32_t i = 0; i < CALLS; i++) {
        const uint32_t ranks = size * (size - 1) / 2; /* the sum of their numbers */
        const float sum = (float)(ranks + size * i);
        if (work_wait(&works[i]) != GCOLL_OK) {
            fprintf(stderr, "rank %u: %s\n", rank, works[i].text);
            client->failed = true;
        } else if (data[i][0] != sum || data[i][COUNT - 1] != sum) {
            fprintf(stderr, "rank %u: sum %u is %g; right is %g\n", rank, i, data[i][0], sum);
            client->failed = true;
        }
    }
    return NULL;
}

/* Rank 0 gives up. Work of the others ends at once, with the reason.
 * An abort ends whatever another rank still has under way. So rank 0 first waits, by a reduction to it, until
 * each has come this far: a rank's sums may end later than those of rank 0. */
static int try_abort(gcoll_context *context) {
    const uint32_t rank = gcoll_context_rank(context);
    float data[COUNT] = {0}, sum[COUNT];
    backend_work work;
    const gcoll_status met = gcoll_reduce(context, data, sum, COUNT, GCOLL_FLOAT32, GCOLL_SUM, 0, NULL);
    if (rank == 0 && met != GCOLL_OK) {
        fprintf(stderr, "rank 0: %s\n", gcoll_last_error());
        return 1;
    }
    if (rank == 0) {
        gcoll_context_abort(context, "the user interrupted the training");
        printf("rank 0: has aborted\n");
        return 0;
    }
    submit_sum(context, data, COUNT, &work);
    const gcoll_status status = work_wait(&work);
    printf("rank %u: %s\n", rank, work.text);
    return status == GCOLL_ERR_ABORTED ? 0 : 1;
}

static int fail(gcoll_status status) {
    fprintf(stderr, "%s: %s\n", gcoll_status_text(status), gcoll_last_error());
    return 1;
}

int main(int argc, char **argv) {
    gcoll_context *world = NULL, *group = NULL;
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.progress_thread = 1;
    gcoll_status status = gcoll_context_create_from_env(&options, &world);
    if (status != GCOLL_OK)
        return fail(status);

    /* Even and odd ranks are groups; each has a context, which a thread of its own may use. */
    const uint32_t rank = gcoll_context_rank(world);
    status = gcoll_context_split(world, (int32_t)(rank % 2), 0, &group);
    if (status != GCOLL_OK)
        return fail(status);
    framework_client clients[2] = {{.context = world}, {.context = group}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, run_client, &clients[i]) != 0)
            abort();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    int result = clients[0].failed || clients[1].failed;
    if (result == 0)
        printf("rank %u of %u, rank %u of %u in its group: all sums are right\n", rank,
               gcoll_context_size(world), gcoll_context_rank(group), gcoll_context_size(group));
    gcoll_context_destroy(group);
    if (result == 0 && argc > 1 && strcmp(argv[1], "abort") == 0)
        result = try_abort(world);
    gcoll_context_destroy(world);
    return result;
}
