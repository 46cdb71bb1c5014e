/*
 * gcoll/rendezvous/visits.c - requests to the store, with one time limit for all requests of a call.
 *
 * Each request gets the time that is left in place of the store's own timeout, so a store that does not
 * answer cannot delay a call beyond its limit. Each key gets a lifetime: if the job crashes, the store may
 * drop it.
 */
#include <stdio.h>
#include <string.h>

#include "gcoll/rendezvous/meeting.h"
#include "gcoll/store/signed.h"

#define STUCK_WAIT_MS   1000 /* a wait that overruns by this much: the store is stuck */
#define LEAST_ANSWER_MS 100
#define STUCK_MS        200   /* a request that fails after this time is not repeated */
#define STEP_MS         1000  /* for a request while a rank leaves */
#define LEAVE_MS        10000 /* for all of them */
#define UNSIGNED_MAX    1024  /* of a text that is only looked at */

void gcoll_visits_until(gcoll_context *context, int64_t limit_ms) {
    gcoll_meeting *meeting = context->rendezvous->meeting;
    const int64_t last_ms = meeting->deadline_ms + GCOLL_TELL_MS;
    meeting->limit_ms = meeting->creating && limit_ms > last_ms ? last_ms : limit_ms;
    meeting->answered_until_ms = 0;
}

void gcoll_visits_to_tell(gcoll_context *context, int64_t limit_ms) {
    gcoll_meeting *meeting = context->rendezvous->meeting;
    const int64_t least_ms = gcoll_now_ms() + GCOLL_LEAST_MS;
    gcoll_visits_until(context, limit_ms);
    if (meeting->limit_ms < least_ms)
        meeting->limit_ms = least_ms;
}

void gcoll_visits_to_leave(gcoll_context *context, int64_t limit_ms) {
    gcoll_meeting *meeting = context->rendezvous->meeting;
    gcoll_visits_until(context, limit_ms);
    if (!meeting->creating) /* else creation's own deadline counts */
        meeting->answered_until_ms = gcoll_now_ms() + LEAVE_MS;
}

void gcoll_visits_end(gcoll_context *context) {
    gcoll_store_set_timeout(context->settings.store, -1);
}

/* The time left for the next request. */
static int64_t left_at(const gcoll_meeting *meeting, int64_t now) {
    const int64_t step_ms = now + STEP_MS, last_ms = meeting->answered_until_ms;
    const int64_t limit_ms = step_ms < last_ms ? step_ms : last_ms;
    return (limit_ms > meeting->limit_ms ? limit_ms : meeting->limit_ms) - now;
}

static gcoll_status begin(gcoll_context *context) {
    const int64_t now = gcoll_now_ms(), left = left_at(context->rendezvous->meeting, now);
    context->rendezvous->meeting->visit_ms = now;
    if (left <= 0)
        return gcoll_error(context->rendezvous->meeting->store_stuck ? GCOLL_ERR_IO : GCOLL_ERR_TIMEOUT,
                           "job '%s': %s", context->settings.job,
                           context->rendezvous->meeting->store_stuck ? "the store did not answer in time"
                                                                     : "no time is left to ask the store");
    return gcoll_store_set_timeout(context->settings.store, left);
}

static gcoll_status end(gcoll_context *context, gcoll_status status) {
    if ((status == GCOLL_ERR_IO || status == GCOLL_ERR_TIMEOUT) &&
        gcoll_now_ms() - context->rendezvous->meeting->visit_ms >= STUCK_MS)
        context->rendezvous->meeting->store_stuck = true;
    return status;
}

gcoll_status gcoll_visit_get(gcoll_context *context, const char *key, void *value, size_t capacity,
                             size_t *bytes) {
    gcoll_status status = begin(context);
    return status != GCOLL_OK
               ? status
               : end(context, gcoll_store_get(context->settings.store, key, value, capacity, bytes));
}

gcoll_status gcoll_visit_text(gcoll_context *context, const char *key, char *text, size_t size) {
    size_t bytes = 0;
    gcoll_status status = gcoll_visit_get(context, key, text, size - 1, &bytes);
    if (status == GCOLL_ERR_INVALID) /* too long to be a value that gcoll wrote */
        return gcoll_error(GCOLL_ERR_PROTOCOL, "the store's key '%s' makes no sense; another program's?",
                           key);
    text[status == GCOLL_OK ? bytes : 0] = '\0';
    return status;
}

gcoll_status gcoll_visit_unsigned(gcoll_context *context, const char *key, char *text, size_t size) {
    char all[UNSIGNED_MAX + 1];
    size_t bytes = 0;
    gcoll_status status = begin(context);
    if (status == GCOLL_OK)
        status = end(context, gcoll_store_get(context->settings.plain_store, key, all, UNSIGNED_MAX, &bytes));
    all[status == GCOLL_OK ? bytes : 0] = '\0';
    snprintf(text, size, "%s", gcoll_store_signed_text(all));
    return status;
}

/* Keys of a launch that has failed serve ranks that come late. A job that fails again and again must not fill
 * the store. */
static int64_t lifetime_ms(const gcoll_context *context) {
    const int64_t timeout_ms = context->settings.timeout_ms;
    if (!context->rendezvous->meeting->has_failed || timeout_ms > GCOLL_KEEP_MS / 2)
        return GCOLL_KEEP_MS;
    return timeout_ms > GCOLL_KEEP_BRIEF_MS / 2 ? 2 * timeout_ms : GCOLL_KEEP_BRIEF_MS;
}

/* Gives a written key its lifetime. Failures are ignored: a store that fails also fails the next request. */
static gcoll_status keep(gcoll_context *context, const char *key, gcoll_status status) {
    if (status == GCOLL_OK && begin(context) == GCOLL_OK) /* within the time left for the request */
        gcoll_store_keep(context->settings.store, key, lifetime_ms(context));
    return end(context, status);
}

gcoll_status gcoll_visit_set(gcoll_context *context, const char *key, const void *value, size_t bytes) {
    gcoll_status status = begin(context);
    return status != GCOLL_OK
               ? status
               : keep(context, key, gcoll_store_set(context->settings.store, key, value, bytes));
}

gcoll_status gcoll_visit_set_new(gcoll_context *context, const char *key, const char *text) {
    gcoll_status status = begin(context);
    return status != GCOLL_OK
               ? status
               : keep(context, key, gcoll_store_set_new(context->settings.store, key, text, strlen(text)));
}

gcoll_status gcoll_visit_wait(gcoll_context *context, const char *key, int64_t timeout_ms) {
    gcoll_status status = begin(context);
    if (status == GCOLL_OK) { /* the store adds its own timeout to that of the wait */
        const int64_t left =
            context->rendezvous->meeting->limit_ms - context->rendezvous->meeting->visit_ms - timeout_ms;
        status =
            gcoll_store_set_timeout(context->settings.store, left > LEAST_ANSWER_MS ? left : LEAST_ANSWER_MS);
    }
    if (status == GCOLL_OK)
        status = gcoll_store_wait(context->settings.store, key, timeout_ms);
    if (status != GCOLL_ERR_TIMEOUT)
        return end(context, status);
    if (gcoll_now_ms() - context->rendezvous->meeting->visit_ms >= timeout_ms + STUCK_WAIT_MS)
        context->rendezvous->meeting->store_stuck = true;
    return status;
}

gcoll_status gcoll_visit_add(gcoll_context *context, const char *key, int64_t delta, int64_t *value) {
    gcoll_status status = begin(context);
    return status != GCOLL_OK
               ? status
               : keep(context, key, gcoll_store_add(context->settings.store, key, delta, value));
}

gcoll_status gcoll_visit_remove(gcoll_context *context, const char *key) {
    gcoll_status status = begin(context);
    return status != GCOLL_OK ? status : end(context, gcoll_store_remove(context->settings.store, key));
}
