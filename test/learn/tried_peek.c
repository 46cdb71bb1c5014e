/* test/learn/tried_peek.c - what auto tries, for learn_test. */
#include <string.h>

#include "gcoll/call/call.h"
#include "gcoll/learn/judge.h"

uint32_t tried_peek(gcoll_context *context, uint64_t count, const char *algorithm);

uint32_t tried_peek(gcoll_context *context, uint64_t count, const char *algorithm) {
    char texts[GCOLL_LEARN_CANDIDATES][GCOLL_ALGORITHM_TEXT_MAX];
    double seconds[GCOLL_LEARN_CANDIDATES], sent[GCOLL_LEARN_CANDIDATES];
    gcoll_call call = {0};
    uint32_t tried = 0, found = 0;
    if (gcoll_arguments_shape(&call, context, GCOLL_ALLREDUCE, count, GCOLL_FLOAT32, GCOLL_SUM, 0, NULL) ==
            GCOLL_OK &&
        gcoll_call_candidates(context, &call, &(gcoll_blocks){0}, texts, seconds, sent,
                              GCOLL_LEARN_CANDIDATES, &tried) != GCOLL_OK)
        return UINT32_MAX;
    for (uint32_t i = 0; i < tried; i++)
        found += strcspn(texts[i], ":") == strlen(algorithm) &&
                 strncmp(texts[i], algorithm, strlen(algorithm)) == 0;
    return found;
}
