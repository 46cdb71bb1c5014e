/* gcoll/live/activity.c - asks all kinds of work that a context has in flight, through their tables. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "gcoll/live/watch.h"

gcoll_status gcoll_live_create(gcoll_context *context, const gcoll_activity *const *activities) {
    gcoll_live *live = context->live;
    for (uint32_t i = 0; i < GCOLL_ACTIVITIES; i++)
        live->activities[i] = activities[i];
    live->suspect = GCOLL_NO_RANK;
    live->peers = gcoll_allocate_zeroed(context, context->size * sizeof *live->peers);
    if (!live->peers)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "options.size: no memory for %u ranks", context->size);
    return gcoll_watcher_create(context);
}

void gcoll_live_free(gcoll_context *context) {
    gcoll_live *live = context->live;
    gcoll_release(context, live->peers, context->size * sizeof *live->peers);
    gcoll_watcher_free(context);
}

bool gcoll_live_in_flight(const gcoll_context *context) {
    for (uint32_t i = 0; i < GCOLL_ACTIVITIES; i++) {
        const gcoll_activity *activity = context->live->activities[i];
        if (activity && activity->in_flight && activity->in_flight(context))
            return true;
    }
    return false;
}

bool gcoll_live_has_work(const gcoll_context *context) {
    for (uint32_t i = 0; i < GCOLL_ACTIVITIES; i++) {
        const gcoll_activity *activity = context->live->activities[i];
        if (activity && activity->has_work && activity->has_work(context))
            return true;
    }
    return false;
}

void gcoll_live_tend(gcoll_context *context) {
    for (uint32_t i = 0; i < GCOLL_ACTIVITIES && !context->health.broken; i++) {
        const gcoll_activity *activity = context->live->activities[i];
        if (activity && activity->tend)
            activity->tend(context);
    }
}

void gcoll_live_note_wait(gcoll_context *context) {
    for (uint32_t i = 0; i < GCOLL_ACTIVITIES && context->record; i++) {
        const gcoll_activity *activity = context->live->activities[i];
        if (activity && activity->note_wait)
            activity->note_wait(context);
    }
}

bool gcoll_live_needs(const gcoll_context *context, uint32_t peer) {
    for (uint32_t i = 0; i < GCOLL_ACTIVITIES; i++) {
        const gcoll_activity *activity = context->live->activities[i];
        if (activity && activity->needs && activity->needs(context, peer))
            return true;
    }
    return false;
}

void gcoll_live_each_waited(gcoll_context *context, gcoll_waited_fn fn, void *arg) {
    for (uint32_t i = 0; i < GCOLL_ACTIVITIES; i++) {
        const gcoll_activity *activity = context->live->activities[i];
        if (activity && activity->each_waited)
            activity->each_waited(context, fn, arg);
    }
}

void gcoll_break_operation(gcoll_context *context, gcoll_status status, uint32_t culprit, const char *format,
                           ...) {
    if (context->health.broken)
        return;
    char what[GCOLL_NOTE_TEXT_MAX], where[GCOLL_NOTE_TEXT_MAX] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    for (uint32_t i = 0; i < GCOLL_ACTIVITIES && !where[0]; i++) {
        const gcoll_activity *activity = context->live->activities[i];
        if (activity && activity->name)
            activity->name(context, culprit, where, sizeof where);
    }
    gcoll_break(context, status, culprit, "%s: %s", where, what);
}
