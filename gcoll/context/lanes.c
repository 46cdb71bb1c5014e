/* gcoll/context/lanes.c - says by which lane of the transport messages go to each rank. */
#include <stdio.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "gcoll/context/context.h"

#define LANE_TEXT 768

/* Writes a rank's lane, or the transport's name if it has no others. */
static void describe(const gcoll_context *context, uint32_t rank, char text[LANE_TEXT]) {
    if (context->transport->explain && context->endpoint)
        context->transport->explain(context->endpoint, rank, text, LANE_TEXT);
    else
        snprintf(text, LANE_TEXT, "%s", context->transport->name);
}

void gcoll_context_describe_lanes(const gcoll_context *context, gcoll_text *said) {
    char text[LANE_TEXT], next[LANE_TEXT];
    for (uint32_t first = 0, last; first < context->size; first = last + 1) {
        last = first;
        if (first == context->rank)
            continue;
        describe(context, first, text);
        while (last + 1 < context->size && last + 1 != context->rank) {
            describe(context, last + 1, next);
            if (strcmp(text, next) != 0)
                break;
            last++;
        }
        if (first == last)
            gcoll_text_add(said, "to rank %u: %s\n", first, text);
        else
            gcoll_text_add(said, "to ranks %u to %u: %s\n", first, last, text);
    }
}

gcoll_status gcoll_context_lanes(gcoll_context *context, char *text, size_t bytes) {
    if (!context || !text || bytes == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s",
                           context ? "text: is NULL or of 0 bytes" : "context: is NULL");
    gcoll_status status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    gcoll_text said = {text, bytes, 0};
    text[0] = '\0';
    gcoll_context_describe_lanes(context, &said);
    gcoll_leave(context);
    return GCOLL_OK;
}
