/* test/learn/tried_peek.c - what auto tries, and which calls need not ask for it, for learn_test. */
#include <string.h>

#include "gcoll/call/call.h"
#include "gcoll/learn/learn_internal.h"

uint32_t tried_peek(gcoll_context *context, uint64_t count, const char *algorithm, uint32_t room);

uint32_t tried_peek(gcoll_context *context, uint64_t count, const char *algorithm, uint32_t room) {
    char texts[GCOLL_LEARN_ALGORITHMS][GCOLL_ALGORITHM_TEXT_MAX];
    double seconds[GCOLL_LEARN_ALGORITHMS], sent[GCOLL_LEARN_ALGORITHMS];
    gcoll_call call = {0};
    uint32_t tried = 0, found = 0;
    if (gcoll_arguments_shape(&call, context, GCOLL_ALLREDUCE, count, GCOLL_FLOAT32, GCOLL_SUM, 0, NULL) ==
            GCOLL_OK &&
        gcoll_call_candidates(context, &call, &(gcoll_blocks){0}, texts, seconds, sent, room, &tried) !=
            GCOLL_OK)
        return UINT32_MAX;
    for (uint32_t i = 0; i < tried; i++)
        found += strcspn(texts[i], ":") == strlen(algorithm) &&
                 strncmp(texts[i], algorithm, strlen(algorithm)) == 0;
    return found;
}

uint32_t unasked_peek(gcoll_context *context);

uint32_t unasked_peek(gcoll_context *context) {
    const struct gcoll_learn *learn = context->learn;
    uint32_t found = 0;
    for (uint32_t i = 0; i < learn->count && learn->fenced > 0; i++)
        found += learn->sites[i]->pace.until != 0;
    return found;
}

bool segments_peek(uint64_t count, const char *text, double sent, char *segmented);

bool segments_peek(uint64_t count, const char *text, double sent, char *segmented) {
    const gcoll_call call = {.count = count, .element_bytes = 4};
    return gcoll_call_in_segments(&call, text, sent, segmented);
}
