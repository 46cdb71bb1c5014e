/* tools/words.c - things of plans in words. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "tools/words.h"

#define SHOWN_NODES 16u

/* Appends to a text of TOOL_TEXT bytes; what does not fit is dropped. */
GCOLL_PRINTF(2, 3) static void append(char *text, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text + used, TOOL_TEXT - used, format, arguments);
    va_end(arguments);
}

const char *tool_claim_name(uint32_t index, uint32_t *bit) {
    static const struct {
        const char *name;
        uint32_t bit;
    } claims[] = {{"rank-identical", GCOLL_CLAIM_RANK_IDENTICAL},
                  {"ordered", GCOLL_CLAIM_ORDERED},
                  {"run-identical", GCOLL_CLAIM_RUN_IDENTICAL},
                  {"pairs", GCOLL_CLAIM_PAIRS},
                  {"left", GCOLL_CLAIM_LEFT}};
    if (index >= sizeof claims / sizeof claims[0])
        return NULL;
    *bit = claims[index].bit;
    return claims[index].name;
}

void tool_claims_text(uint32_t claims, char text[TOOL_TEXT]) {
    const char *name;
    uint32_t bit;
    text[0] = '\0';
    for (uint32_t i = 0; (name = tool_claim_name(i, &bit)); i++)
        if (claims & bit)
            append(text, "%s%s", text[0] ? ", " : "", name);
    if (text[0] == '\0')
        append(text, "nothing");
}

void tool_allowed_text(const gcoll_option *o, char text[TOOL_TEXT]) {
    text[0] = '\0';
    for (uint32_t i = 0; o->words && o->words[i]; i++)
        append(text, "%s%s", i ? ", " : "", o->words[i]);
    if (!o->words && o->min == GCOLL_BY_COST)
        append(text, "%d to %" PRId64 ", or -1: by cost", o->doubling ? 1 : 0, o->max);
    else if (!o->words)
        append(text, "%" PRId64 " to %" PRId64, o->min, o->max);
}

void tool_fallback_text(const gcoll_option *o, char text[TOOL_TEXT]) {
    text[0] = '\0';
    if (o->words)
        append(text, "%s", o->words[o->fallback]);
    else
        append(text, "%" PRId64, o->fallback);
}

const char *tool_plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

void tool_shape_text(const tool_shape *shape, const char *type, char text[TOOL_TEXT]) {
    static const char *const blocks[TOOL_BLOCKS_COUNT] = {"", ", uneven blocks", ", one block has all"};
    static const char *const locals[GCOLL_LOCAL_COUNT] = {"", "the host", "each device", "one device"};
    const gcoll_problem *p = &shape->problem;
    text[0] = '\0';
    append(text, "%u rank%s", p->size, tool_plural(p->size));
    if (p->collective != GCOLL_BARRIER)
        append(text, ", %" PRIu64 " element%s%s%s", p->count, tool_plural(p->count), type ? " of " : "",
               type ? type : "");
    if (gcoll_collective_has_root(p->collective))
        append(text, ", root %u", p->root);
    if (p->exchanges > 0)
        append(text, ", %u exchange%s", p->exchanges, tool_plural(p->exchanges));
    append(text, "%s%s", p->in_place ? ", in place" : "", blocks[shape->blocks]);
    if (p->buffers > 1)
        append(text, ", %u inputs", p->buffers);
    if (p->in_memory && p->in_memory[p->buffers - 1] > p->in_memory[0])
        append(text, ", on %u devices", p->in_memory[p->buffers - 1] - p->in_memory[0] + 1);
    else if (p->in_memory)
        append(text, ", in device memory");
    if (p->in_memory && shape->choice.algorithm && !shape->choice.algorithm->staging)
        append(text, "%s%s%s", p->staging.local ? ", reduced by " : "", locals[p->staging.local],
               p->staging.whole ? ", staged as a whole" : "");
    append(text, "%s%s%s", p->average ? ", average" : "", shape->lateness[0] ? ", " : "", shape->lateness);
    for (uint32_t r = 0; p->node && r < p->size && r < SHOWN_NODES; r++)
        append(text, "%s%u%s", r ? " " : ", on hosts ", p->node[r],
               r + 1 == SHOWN_NODES && p->size > SHOWN_NODES ? " ..." : "");
}
