/*
 * test/core/counts_turns.c - one thread drives all ranks of a job in turns, so that each run executes the
 * same instructions.
 *
 * Usage: counts_turns SIZE TRANSPORT BYTES RUNS
 *
 * Runs a persistent allreduce of float32 to warm up, then RUNS times in counts_measured(), whose instructions
 * callgrind counts (counts_callgrind.sh).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "gcoll/gcoll.h"

enum { WARM_RUNS = 20, MAX_SIZE = 16 };

typedef struct rank_state {
    gcoll_context_options options;
    gcoll_context *context;
    gcoll_operation *operation;
    float *data;
    int ended;
    pthread_t thread;
} rank_state;

static void check(gcoll_status status) {
    if (status == GCOLL_OK)
        return;
    fprintf(stderr, "%s: %s\n", gcoll_status_text(status), gcoll_last_error());
    exit(1);
}

static void *enter(void *state) {
    rank_state *rank = state;
    check(gcoll_context_create(&rank->options, &rank->context));
    return NULL;
}

static void *leave(void *state) {
    rank_state *rank = state;
    gcoll_context_destroy(rank->context);
    return NULL;
}

static void by_threads(rank_state *ranks, uint32_t size, void *(*body)(void *)) {
    for (uint32_t i = 0; i < size; i++)
        if (pthread_create(&ranks[i].thread, NULL, body, &ranks[i]) != 0)
            exit(1);
    for (uint32_t i = 0; i < size; i++)
        pthread_join(ranks[i].thread, NULL);
}

static void run(rank_state *ranks, uint32_t size, uint64_t runs) {
    for (uint64_t i = 0; i < runs; i++) {
        for (uint32_t r = 0; r < size; r++)
            check(gcoll_operation_start(ranks[r].operation));
        for (uint32_t r = 0; r < size; r++)
            ranks[r].ended = 0;
        for (uint32_t r = 0, left = size; left > 0; r = (r + 1) % size) {
            if (ranks[r].ended)
                continue;
            check(gcoll_operation_test(ranks[r].operation, &ranks[r].ended));
            left -= ranks[r].ended ? 1 : 0;
        }
    }
}

__attribute__((noinline)) void counts_measured(rank_state *ranks, uint32_t size, uint64_t runs);
void counts_measured(rank_state *ranks, uint32_t size, uint64_t runs) {
    run(ranks, size, runs);
}

int main(int argc, char **argv) {
    static rank_state ranks[MAX_SIZE];
    const uint32_t size = argc == 5 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    if (size == 0 || size > MAX_SIZE) {
        fprintf(stderr, "usage: counts_turns SIZE TRANSPORT BYTES RUNS\n");
        return 2;
    }
    const uint64_t count = strtoull(argv[3], NULL, 10) / sizeof(float);
    gcoll_store *store = NULL;
    gcoll_hub *hub = NULL;
    check(gcoll_store_memory_create(&store));
    check(gcoll_hub_create(size, &hub));
    for (uint32_t r = 0; r < size; r++) {
        gcoll_context_options_init(&ranks[r].options);
        ranks[r].options.rank = r;
        ranks[r].options.size = size;
        ranks[r].options.store = store;
        ranks[r].options.hub = hub;
        ranks[r].options.transport = argv[2];
        ranks[r].options.tuning = "default";
        ranks[r].data = calloc(count + 1, sizeof(float));
        if (!ranks[r].data)
            return 1;
    }
    by_threads(ranks, size, enter);
    for (uint32_t r = 0; r < size; r++)
        check(gcoll_allreduce_create(ranks[r].context, NULL, ranks[r].data, count, GCOLL_FLOAT32, GCOLL_SUM,
                                     NULL, &ranks[r].operation));
    run(ranks, size, WARM_RUNS);
    counts_measured(ranks, size, strtoull(argv[4], NULL, 10));
    for (uint32_t r = 0; r < size; r++)
        gcoll_operation_destroy(ranks[r].operation);
    by_threads(ranks, size, leave);
    for (uint32_t r = 0; r < size; r++)
        free(ranks[r].data);
    gcoll_hub_destroy(hub);
    gcoll_store_destroy(store);
    return 0;
}
