/* test/learn/tried_peek.c - what auto tries, and which calls ask for it, for learn_test. */
#include <string.h>

#include "gcoll/call/call.h"
#include "gcoll/learn/learn_internal.h"

uint32_t tried_peek(gcoll_context *context, gcoll_collective collective, uint64_t count,
                    const char *algorithm, uint32_t room);
uint32_t unasked_peek(gcoll_context *context);
uint64_t asked_peek(gcoll_context *context);
uint64_t excused_peek(gcoll_context *context, uint64_t count);

uint32_t tried_peek(gcoll_context *context, gcoll_collective collective, uint64_t count,
                    const char *algorithm, uint32_t room) {
    char texts[GCOLL_LEARN_CANDIDATES][GCOLL_ALGORITHM_TEXT_MAX];
    double seconds[GCOLL_LEARN_CANDIDATES], sent[GCOLL_LEARN_CANDIDATES];
    uint32_t variants[GCOLL_LEARN_CANDIDATES];
    const bool is_exact = strchr(algorithm, ':') != NULL;
    gcoll_call call = {0};
    uint32_t tried = 0, found = 0;
    if (gcoll_arguments_shape(&call, context, collective, count, GCOLL_FLOAT32, GCOLL_SUM, 0, NULL) ==
            GCOLL_OK &&
        gcoll_call_candidates(context, &call, &(gcoll_blocks){0}, texts, seconds, sent, variants,
                              room > 0 ? room : GCOLL_LEARN_ALGORITHMS, &tried) != GCOLL_OK)
        return UINT32_MAX;
    for (uint32_t i = 0; i < tried; i++)
        found += is_exact ? strcmp(texts[i], algorithm) == 0
                          : variants[i] == UINT32_MAX && strcspn(texts[i], ":") == strlen(algorithm) &&
                                strncmp(texts[i], algorithm, strlen(algorithm)) == 0;
    return found;
}

uint32_t unasked_peek(gcoll_context *context) {
    const struct gcoll_learn *learn = context->learn;
    uint32_t found = 0;
    for (uint32_t i = 0; i < learn->count && learn->fenced > 0; i++)
        found += learn->sites[i]->pace.until != 0;
    return found;
}

/* The learner of one context, and how often it was asked. */
static const gcoll_learner *asked;
static gcoll_learner counting;
static uint64_t times_asked;

static gcoll_status count_enter(gcoll_context *context, const struct gcoll_call *call,
                                const struct gcoll_blocks *blocks, int64_t timeout_ms, gcoll_form form,
                                gcoll_taught *taught) {
    times_asked++;
    return asked->enter(context, call, blocks, timeout_ms, form, taught);
}

uint64_t asked_peek(gcoll_context *context) {
    if (context->learner != &counting) {
        asked = context->learner;
        counting = *asked;
        counting.enter = count_enter;
        context->learner = &counting;
        times_asked = 0;
    }
    return times_asked;
}

uint64_t excused_peek(gcoll_context *context, uint64_t count) {
    const struct gcoll_learn *learn = context->learn;
    for (uint32_t i = 0; i < learn->count; i++) {
        const gcoll_learn_site *site = learn->sites[i];
        const uint64_t next = site->pace.calls + 1;
        if (site->call.collective == GCOLL_ALLREDUCE && site->call.count == count && next < site->pace.until)
            return site->pace.until - next;
    }
    return 0;
}
