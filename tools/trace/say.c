/* tools/trace/say.c - calls, times and waits in words. */
#include <inttypes.h>
#include <string.h>

#include "tools/trace/trace.h"

/* "allreduce of 400 float32, sum, by ring" */
void trace_say_call(const trace_operation *o, char *text, size_t bytes) {
    char root[32] = "";
    if (o->root != TRACE_NONE)
        snprintf(root, sizeof root, ", root %" PRIu32, o->root);
    if (strcmp(o->collective, "barrier") == 0)
        snprintf(text, bytes, "barrier by %s", o->algorithm);
    else
        snprintf(text, bytes, "%s of %" PRIu64 " %s%s%s%s by %s", o->collective, o->count, o->type,
                 o->op[0] ? ", " : "", o->op, root, o->algorithm);
}

void trace_say_time(int64_t ns, char text[32]) {
    const double us = (double)ns / 1e3;
    if (ns < 1000000)
        snprintf(text, 32, "%.1f us", us);
    else if (ns < 1000000000)
        snprintf(text, 32, "%.1f ms", us / 1e3);
    else
        snprintf(text, 32, "%.2f s", us / 1e6);
}

void trace_say_wait(const trace_rank *rank, char *text, size_t bytes) {
    char since[32];
    text[0] = '\0';
    if (!rank->waits)
        return;
    trace_say_time(rank->dumped - rank->waits_since, since);
    if (rank->waits_peer[0] == TRACE_NONE) { /* all that it has posted is done */
        snprintf(text, bytes, "in step %" PRIu32 " of %" PRIu32 " for %s", rank->waits_step,
                 rank->waits_steps, since);
        return;
    }
    int used = snprintf(text, bytes, "waits for");
    for (int i = 0; i < TRACE_PEERS && rank->waits_peer[i] != TRACE_NONE; i++)
        used +=
            snprintf(text + used, bytes - (size_t)used, "%s %" PRIu32, i > 0 ? "," : "", rank->waits_peer[i]);
    if (rank->waits_for_more)
        used += snprintf(text + used, bytes - (size_t)used, " and more");
    snprintf(text + used, bytes - (size_t)used, " for %s, step %" PRIu32 " of %" PRIu32, since,
             rank->waits_step, rank->waits_steps);
}
