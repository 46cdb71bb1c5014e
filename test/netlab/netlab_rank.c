/*
 * test/netlab/netlab_rank.c - one rank of a job in a lab of test/netlab/netlab, for netlab_failure_test.
 *
 *   netlab_rank CASE FORM TIMEOUT_MS SILENCE_MS BYTES
 *
 * CASE is one of:
 *
 * - loop: one allreduce by ring after another, until one fails.
 *
 * - once: one allreduce by ring.
 *
 * - chain: rank 0 sends BYTES to rank 1, which then sends a word to rank 2, which passes it on to rank 3, and
 * so on.
 *
 * - late: an allreduce that the last rank enters when there is a file "go" in the lab's folder.
 *
 * - leave: rank 0 broadcasts BYTES and leaves at once.
 *
 * - recover: allreduces until there is a file "stop" in the lab's folder. After each the ranks agree, and
 * after a failure those that are left go on by themselves. Each says "left" and how many they are; in the
 * end, whether all results were right.
 *
 * - learn: allreduces by auto. Rank 0 says "learned" after LEARN_CALLS of them. When there is a file "slow"
 * in the lab's folder, ANSWER_CALLS more follow, and then, by name, the algorithm that auto keeps and some
 * others; rank 0 says of each its name and the median of its times in us.
 *
 * FORM of the allreduces: call, start (and wait) or create (and run). Of recover: any, or majority.
 *
 * Says how messages travel, to stderr, and "ready" when all ranks have met in a barrier and, for "loop", in
 * one allreduce. At the end it says "ok", or "failed", the status, the culprit, and the time of the error in
 * ms as /proc/uptime has it; the text goes to stderr.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gcoll/gcoll.h"

#define RING         "ring"
#define LEARN_CALLS  400
#define ANSWER_CALLS 100
#define TURNS        9
#define WARM         3
#define NAME_BYTES   64

typedef struct job {
    gcoll_context *context;
    uint32_t rank, size;
    const char *form, *folder;
    float *data;
    uint64_t count;
} job;

static long setting(const char *name) {
    const char *text = getenv(name);
    if (!text) {
        fprintf(stderr, "%s is not set\n", name);
        exit(2);
    }
    return strtol(text, NULL, 10);
}

static long long uptime_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static gcoll_status reduce(const job *j) {
    gcoll_allreduce_options options;
    gcoll_status status;
    gcoll_allreduce_options_init(&options);
    options.algorithm = RING;
    if (strcmp(j->form, "start") == 0) {
        gcoll_request *request = NULL;
        status = gcoll_allreduce_start(j->context, NULL, j->data, j->count, GCOLL_FLOAT32, GCOLL_SUM,
                                       &options, &request);
        return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
    }
    if (strcmp(j->form, "create") == 0) {
        gcoll_operation *operation = NULL;
        status = gcoll_allreduce_create(j->context, NULL, j->data, j->count, GCOLL_FLOAT32, GCOLL_SUM,
                                        &options, &operation);
        if (status == GCOLL_OK)
            status = gcoll_operation_run(operation);
        gcoll_operation_destroy(operation);
        return status;
    }
    return gcoll_allreduce(j->context, NULL, j->data, j->count, GCOLL_FLOAT32, GCOLL_SUM, &options);
}

static void say(const char *word) {
    printf("%s\n", word);
    fflush(stdout);
}

static void say_lanes(const job *j) {
    char text[1024];
    if (gcoll_context_lanes(j->context, text, sizeof text) == GCOLL_OK)
        fprintf(stderr, "%s\n", text);
}

/* From rank 0 up; the first message is the large one. */
static gcoll_status pass_on(const job *j) {
    gcoll_status status = GCOLL_OK;
    gcoll_pair *pair = NULL;
    float word = 0;
    if (j->rank > 0) {
        status = gcoll_context_pair(j->context, j->rank - 1, &pair);
        if (status == GCOLL_OK && j->rank == 1)
            status = gcoll_pair_recv(pair, 1, j->data, j->count * sizeof *j->data);
        else if (status == GCOLL_OK)
            status = gcoll_pair_recv(pair, 1, &word, sizeof word);
    }
    if (status != GCOLL_OK || j->rank + 1 == j->size)
        return status;
    status = gcoll_context_pair(j->context, j->rank + 1, &pair);
    if (status == GCOLL_OK && j->rank == 0)
        return gcoll_pair_send(pair, 1, j->data, j->count * sizeof *j->data);
    return status == GCOLL_OK ? gcoll_pair_send(pair, 1, &word, sizeof word) : status;
}

static bool is_there(const job *j, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", j->folder, name);
    return access(path, F_OK) == 0;
}

static void await_go(const job *j) {
    while (!is_there(j, "go"))
        usleep(10000);
}

/* The ranks that are left make a context of their own. */
static gcoll_status go_on(job *j) {
    gcoll_shrink_options options;
    gcoll_context *shrunk = NULL;
    gcoll_shrink_options_init(&options);
    options.majority = strcmp(j->form, "majority") == 0;
    gcoll_status status = gcoll_context_shrink(j->context, &options, &shrunk);
    if (status != GCOLL_OK)
        return status;
    gcoll_context_destroy(j->context);
    j->context = shrunk;
    printf("left %u\n", gcoll_context_size(shrunk));
    fflush(stdout);
    return GCOLL_OK;
}

static gcoll_status recover(job *j) {
    uint64_t bits;
    do {
        for (uint64_t i = 0; i < j->count; i++)
            j->data[i] = 1;
        gcoll_status status =
            gcoll_allreduce(j->context, NULL, j->data, j->count, GCOLL_FLOAT32, GCOLL_SUM, NULL);
        for (uint64_t i = 0; status == GCOLL_OK && i < j->count; i++)
            if (j->data[i] != (float)gcoll_context_size(j->context)) {
                say("wrong");
                return GCOLL_ERR_INTERNAL;
            }
        bits = (status == GCOLL_OK ? 1 : 0) | (is_there(j, "stop") ? 0 : 2);
        status = gcoll_context_agree(j->context, &bits, NULL, 0);
        if (status == GCOLL_OK && !(bits & 1))
            status = go_on(j);
        if (status != GCOLL_OK)
            return status;
    } while (bits != 1);
    return GCOLL_OK;
}

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* *says: in, what this rank says; out, the sum over the ranks. */
static gcoll_status allreduce_by(const job *j, const char *algorithm, float *says) {
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.algorithm = algorithm;
    j->data[0] = *says;
    const gcoll_status status =
        gcoll_allreduce(j->context, NULL, j->data, j->count, GCOLL_FLOAT32, GCOLL_SUM, &options);
    *says = j->data[0];
    return status;
}

static int ascending(const void *a, const void *b) {
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* What auto takes in calls that try nothing, for all ranks: rank 0 reads it from its explanation. */
static gcoll_status kept_by_auto(const job *j, char name[NAME_BYTES]) {
    memset(name, 0, NAME_BYTES);
    if (j->rank == 0) {
        char text[8192];
        const gcoll_status status = gcoll_context_explain(
            j->context, GCOLL_ALLREDUCE, j->count, GCOLL_FLOAT32, GCOLL_SUM, 0, NULL, text, sizeof text);
        const char *learned = status == GCOLL_OK ? strstr(text, "learned from ") : NULL;
        if (learned == NULL || sscanf(learned, "learned from %*u calls: %63s is ", name) != 1)
            return GCOLL_ERR_INTERNAL;
        fprintf(stderr, "%s\n", text);
    }
    return gcoll_broadcast(j->context, name, NAME_BYTES, GCOLL_UINT8, 0, NULL);
}

/* The algorithm that auto keeps and some others, call by call in turn, so that all have the same links. */
static gcoll_status compare_with_kept(const job *j) {
    char kept[NAME_BYTES];
    const char *const names[] = {kept, "recursive_doubling", "halving_doubling", "ring", "linear"};
    enum { COUNT = sizeof names / sizeof names[0] };
    int64_t times[COUNT][TURNS];
    gcoll_status status = kept_by_auto(j, kept);
    for (int turn = -WARM; turn < TURNS; turn++)
        for (int i = 0; i < COUNT && status == GCOLL_OK; i++) {
            float says = 0;
            const int64_t begun = now_us();
            status = allreduce_by(j, names[i], &says);
            if (turn >= 0)
                times[i][turn] = now_us() - begun;
            if (status == GCOLL_OK)
                status = gcoll_barrier(j->context, NULL);
        }
    for (int i = 0; i < COUNT && status == GCOLL_OK && j->rank == 0; i++) {
        qsort(times[i], TURNS, sizeof times[i][0], ascending);
        printf("%s %lld\n", i == 0 ? "kept" : names[i], (long long)times[i][TURNS / 2]);
    }
    return status;
}

static gcoll_status learn(const job *j) {
    gcoll_status status = GCOLL_OK;
    float is_slow = 0;
    for (int call = 1; status == GCOLL_OK && is_slow == 0; call++) {
        is_slow = j->rank == 0 && is_there(j, "slow");
        status = allreduce_by(j, NULL, &is_slow);
        if (call == LEARN_CALLS && j->rank == 0)
            say("learned");
    }
    for (int call = 0; status == GCOLL_OK && call < ANSWER_CALLS; call++)
        status = allreduce_by(j, NULL, &is_slow);
    return status == GCOLL_OK ? compare_with_kept(j) : status;
}

static gcoll_status run(job *j, const char *what) {
    gcoll_status status = gcoll_barrier(j->context, NULL);
    if (status == GCOLL_OK && strcmp(what, "loop") == 0)
        status = reduce(j);
    if (status != GCOLL_OK)
        return status;
    say_lanes(j);
    say("ready");
    if (strcmp(what, "recover") == 0)
        return recover(j);
    if (strcmp(what, "chain") == 0)
        return pass_on(j);
    if (strcmp(what, "learn") == 0)
        return learn(j);
    if (strcmp(what, "leave") == 0)
        return gcoll_broadcast(j->context, j->data, j->count, GCOLL_FLOAT32, 0, NULL);
    if (strcmp(what, "late") == 0 && j->rank + 1 == j->size)
        await_go(j);
    do {
        status = reduce(j);
    } while (status == GCOLL_OK && strcmp(what, "loop") == 0);
    return status;
}

static void log_line(void *arg, gcoll_log_level level, const char *text) {
    (void)arg;
    if (level <= GCOLL_LOG_WARNING)
        fprintf(stderr, "%lld %s\n", uptime_ms(), text);
}

int main(int count, char **words) {
    gcoll_context_options options;
    gcoll_store *store = NULL;
    char url[512];
    job j;
    if (count != 6) {
        fprintf(stderr, "usage: netlab_rank CASE FORM TIMEOUT_MS SILENCE_MS BYTES\n");
        return 2;
    }
    memset(&j, 0, sizeof j);
    j.rank = (uint32_t)setting("NETLAB_RANK");
    j.size = (uint32_t)setting("NETLAB_RANKS");
    j.folder = getenv("NETLAB_FOLDER");
    j.form = words[2];
    j.count = strtoull(words[5], NULL, 10) / sizeof *j.data;
    j.data = calloc(j.count > 0 ? j.count : 1, sizeof *j.data);
    snprintf(url, sizeof url, "file:%s", j.folder);
    gcoll_context_options_init(&options);
    options.rank = j.rank;
    options.size = j.size;
    options.tuning = strcmp(words[1], "learn") == 0 ? NULL : "default";
    options.recovery = strcmp(words[1], "recover") == 0;
    options.log = options.recovery ? log_line : NULL;
    options.timeout_ms = strtoll(words[3], NULL, 10);
    options.silence_ms = strtoll(words[4], NULL, 10);
    gcoll_status status = gcoll_store_open(url, 20000, &store);
    options.store = store;
    if (status == GCOLL_OK)
        status = gcoll_context_create(&options, &j.context);
    if (status != GCOLL_OK) {
        fprintf(stderr, "%s\n", gcoll_last_error());
        return 3;
    }
    status = run(&j, words[1]);
    if (status == GCOLL_OK) {
        say("ok");
    } else {
        printf("failed %d %lld %lld\n", (int)status, (long long)gcoll_context_culprit(j.context),
               uptime_ms());
        fflush(stdout);
        fprintf(stderr, "%s\n", gcoll_last_error());
    }
    gcoll_context_destroy(j.context);
    gcoll_store_destroy(store);
    free(j.data);
    return status == GCOLL_OK ? 0 : 1;
}
