/*
 * gcoll/rendezvous/traces.c - lets ranks with an identity of their launch and ranks without one notice each
 * other.
 *
 * An identity is part of all keys of its launch. So where some ranks of a job have it and others lack it (a
 * variable that did not reach all hosts), they look for each other at different keys, until their timeouts.
 * Therefore a rank that has waited for a while leaves a trace at a key that does not depend on the identity:
 * "gcoll/<job>/named" if it has one, "gcoll/<job>/unnamed" if it has none. It also looks for a trace of the
 * other kind, and names that rank in the error of its own timeout. Nothing else depends on traces: both kinds
 * may be launches in good order.
 *
 * A trace is the rank, a number that changes, its claimant, and in a new line the launch. Ranks of one kind
 * share the key: a rank that waits writes its trace again and again, and one that has stopped waiting removes
 * it. A dead job may leave a trace, so a trace counts only if its process is seen to live, or if it changes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "gcoll/rendezvous/meeting.h"

static void trace_key(const gcoll_context *context, bool named, char key[GCOLL_STORE_KEY_MAX + 1]) {
    snprintf(key, GCOLL_STORE_KEY_MAX + 1, "gcoll/%s/%s", context->settings.job, named ? "named" : "unnamed");
}

static bool is_named(const gcoll_context *context) {
    return context->rendezvous->meeting->launch[0] != '\0';
}

static void show(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[GCOLL_TRACE_MAX], who[GCOLL_CLAIMANT_TEXT];
    gcoll_meeting *meeting = context->rendezvous->meeting;
    const char *launch = meeting->launch_said + (is_named(context) ? strlen(", ") : 0);
    trace_key(context, is_named(context), key);
    gcoll_claimant_write(&meeting->self, who);
    int bytes = snprintf(text, sizeof text, "%u %" PRIu64 " %s\n%s", context->rank, ++meeting->trace.shown,
                         who, launch);
    gcoll_visit_set(context, key, text, (size_t)bytes);
}

/* Parses a trace, which another program may have written. *launch points into the text. */
static bool read_trace(char *text, uint32_t *rank, gcoll_claimant *who, char **launch) {
    int at = 0;
    char *line = strchr(text, '\n');
    if (!line || sscanf(text, "%7" SCNu32 " %*20[0-9] %n", rank, &at) != 1 || at == 0)
        return false;
    *line = '\0';
    *launch = line + 1;
    gcoll_text_clean(*launch);
    return gcoll_claimant_read(text + at, who);
}

static void look(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[GCOLL_TRACE_MAX], process[GCOLL_CLAIMANT_SAID], *launch;
    gcoll_meeting *meeting = context->rendezvous->meeting;
    gcoll_trace *trace = &meeting->trace;
    gcoll_claimant who;
    uint32_t rank;
    trace_key(context, !is_named(context), key);
    if (gcoll_visit_text(context, key, text, sizeof text) != GCOLL_OK)
        return;
    const bool changed = trace->seen[0] != '\0' && strcmp(text, trace->seen) != 0;
    memcpy(trace->seen, text, sizeof text);
    if (!read_trace(text, &rank, &who, &launch))
        return;
    const gcoll_life life = gcoll_claimant_life(&meeting->self, &who);
    if (life == GCOLL_LIFE_DEAD || (life == GCOLL_LIFE_UNKNOWN && !changed))
        return;
    gcoll_claimant_say(&who, process);
    snprintf(
        trace->said, sizeof trace->said,
        "; rank %u of %.80s, %s, waited too: options.launch or GCOLL_LAUNCH must be the same on every rank",
        rank, is_named(context) ? "a launch without an identity" : launch, process);
}

void gcoll_trace_renew(gcoll_context *context) {
    gcoll_trace *trace = &context->rendezvous->meeting->trace;
    const int64_t now = gcoll_now_ms(), interval = gcoll_lease_interval_ms(context);
    if (trace->next_ms == 0) /* most ranks do not wait so long */
        trace->next_ms = now + interval;
    if (now < trace->next_ms)
        return;
    trace->next_ms = now + interval;
    show(context);
    look(context);
}

void gcoll_trace_remove(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], cause[GCOLL_VERDICT_MAX];
    gcoll_meeting *meeting = context->rendezvous->meeting;
    const int64_t before_ms = meeting->limit_ms;
    if (meeting->trace.shown == 0 || meeting->store_stuck)
        return;
    snprintf(cause, sizeof cause, "%s", gcoll_last_error());
    trace_key(context, is_named(context), key);
    gcoll_visits_until(context, gcoll_now_ms() + GCOLL_WORD_MS); /* the deadline may have passed */
    gcoll_visit_remove(context, key);
    gcoll_visits_until(context, before_ms);
    meeting->store_stuck = false; /* as before: so short a limit says nothing about the store */
    meeting->trace = (gcoll_trace){.next_ms = 0};
    gcoll_error(GCOLL_OK, "%s", cause);
}
