/*
 * gcoll/context/health.c - breaks a context: once, for one cause, and for good.
 *
 * The cause is recorded where it is noticed, often inside an event of the transport. The peers are told once
 * the transport can be called again. They pass it on, so that it reaches ranks without a connection to the
 * rank at fault.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "gcoll/context/context.h"

#define REPORTED_TEXT 220 /* bytes of a cause that leave room for the rank that reported it */
#define TELL_LIMIT_MS 300 /* for telling peers of a failure; they normally read it at once */

/* Adds the culprit's rank of the parent to the text, as programs may know ranks by these numbers. */
static void add_parent_rank(const gcoll_context *context, uint32_t culprit, char *text, size_t bytes) {
    char said[64];
    if (!context->parent_ranks || culprit >= context->size ||
        context->parent_ranks[culprit] == GCOLL_NO_RANK) /* it came later */
        return;
    const int length = snprintf(said, sizeof said, " (rank %u is rank %u of the parent)", culprit,
                                context->parent_ranks[culprit]);
    const size_t most = REPORTED_TEXT - (size_t)length, used = strlen(text);
    snprintf(text + (used < most ? used : most), bytes - (used < most ? used : most), "%s", said);
}

/* Breaks a context whose cause has its text already. */
static void break_for_cause(gcoll_context *context, gcoll_status status, uint32_t culprit) {
    gcoll_health *health = &context->health;
    gcoll_text_make_line(health->cause.text);
    health->broken = true;
    health->cause.status = (int32_t)status;
    health->cause.culprit = culprit;
    gcoll_log(context, GCOLL_LOG_ERROR, "%s", health->cause.text);
}

void gcoll_break(gcoll_context *context, gcoll_status status, uint32_t culprit, const char *format, ...) {
    gcoll_health *health = &context->health;
    if (health->broken)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(health->cause.text, sizeof health->cause.text, format, arguments);
    va_end(arguments);
    add_parent_rank(context, culprit, health->cause.text, sizeof health->cause.text);
    break_for_cause(context, status, culprit);
}

void gcoll_break_reported(gcoll_context *context, const gcoll_note *note, uint32_t from) {
    uint32_t culprit = note->culprit < context->size ? note->culprit : GCOLL_NO_RANK;
    gcoll_health *health = &context->health;
    gcoll_status status = note->status > GCOLL_OK && note->status <= GCOLL_ERR_INTERNAL
                              ? (gcoll_status)note->status
                              : GCOLL_ERR_PEER;
    if (health->broken)
        return;
    if (note->passed_on)
        snprintf(health->cause.text, sizeof health->cause.text, "%s", note->text);
    else
        snprintf(health->cause.text, sizeof health->cause.text, "%.*s (reported by rank %u)", REPORTED_TEXT,
                 note->text, from);
    health->cause.passed_on = true;
    break_for_cause(context, status, culprit);
}

gcoll_status gcoll_run_out(gcoll_context *context, gcoll_status status) {
    if (status == GCOLL_ERR_NO_MEMORY && context->size > 1)
        gcoll_break(context, status, context->rank, "rank %u: %s", context->rank, gcoll_last_error());
    return status;
}

/* ---- Telling ------------------------------------------------------------------------------ */

gcoll_status gcoll_context_tell(gcoll_context *context) {
    gcoll_health *health = &context->health;
    if (!health->told) {
        health->told = true;
        if (context->endpoint)
            context->transport->abort(context->endpoint, &health->cause, TELL_LIMIT_MS);
        /* A rank that is not connected yet finds the cause in the store, where it looks for the address.
         * For most causes it is written when this rank leaves, which is soon. A rank that was aborted or ran
         * out of memory may live on, so write the cause now. */
        const bool ran_out =
            health->cause.status == GCOLL_ERR_NO_MEMORY && health->cause.culprit == context->rank;
        if (health->cause.status == GCOLL_ERR_ABORTED || ran_out)
            health->leave_cause(context);
        health->write_record(context);
        health->end_work(context);
    }
    return gcoll_error((gcoll_status)health->cause.status, "%s", health->cause.text);
}

/* ---- Abort by the caller ------------------------------------------------------------------ */

void gcoll_context_take_abort(gcoll_context *context) {
    gcoll_break(context, GCOLL_ERR_ABORTED, context->rank, "rank %u aborted: %s", context->rank,
                context->health.abort_reason);
}

void gcoll_context_abort(gcoll_context *context, const char *reason) {
    int free_state = 0;
    if (!context || gcoll_is_forked(context) ||
        !atomic_compare_exchange_strong(&context->health.abort_state, &free_state, 1))
        return;
    snprintf(context->health.abort_reason, sizeof context->health.abort_reason, "%.200s",
             reason ? reason : "no reason given");
    atomic_store_explicit(&context->health.abort_state, 2, memory_order_release);
    gcoll_context_rouse(context);
}

/* ---- Queries ------------------------------------------------------------------------------ */

static gcoll_status look(const gcoll_context *context) {
    const gcoll_health *health = &context->health;
    if (health->broken)
        return gcoll_error((gcoll_status)health->cause.status, "%s", health->cause.text);
    if (atomic_load_explicit(&health->abort_state, memory_order_acquire) == 2)
        return gcoll_error(GCOLL_ERR_ABORTED, "rank %u aborted: %s", context->rank, health->abort_reason);
    return GCOLL_OK;
}

/* gcoll_context_health and gcoll_context_culprit only read, so callbacks may call them too. The driver is
 * stopped meanwhile, so that it does not write. A callback has it stopped already. */
static gcoll_driver *driver_to_stop(const gcoll_context *context) {
    return gcoll_calls_itself(context) ? NULL : context->guard.driver;
}

gcoll_status gcoll_context_health(const gcoll_context *context) {
    if (!context)
        return gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
    if (gcoll_is_forked(context))
        return gcoll_refuse_call(context);
    gcoll_driver *driver = driver_to_stop(context);
    gcoll_status status = driver ? driver->enter(driver) : GCOLL_OK;
    if (status != GCOLL_OK)
        return status;
    status = look(context);
    if (driver)
        driver->leave(driver);
    return status;
}

int64_t gcoll_context_culprit(const gcoll_context *context) {
    if (!context) {
        gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
        return -1;
    }
    if (gcoll_is_forked(context))
        return -1;
    gcoll_driver *driver = driver_to_stop(context);
    if (driver && driver->enter(driver) != GCOLL_OK)
        return -1;
    const gcoll_health *health = &context->health;
    const bool known = health->broken && health->cause.culprit != GCOLL_NO_RANK;
    const int64_t culprit = known ? (int64_t)health->cause.culprit : -1;
    if (driver)
        driver->leave(driver);
    return culprit;
}
