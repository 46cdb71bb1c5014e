/*
 * gcoll/rendezvous/refusals.c - tells ranks that wait for a process in vain that it was refused its rank.
 *
 * Two processes claim one rank, and the verdict ends the launch in which they met (claims.c). Ranks of that
 * launch read the verdict. Other ranks of the refused process's own launch may not have reached it, or come
 * when it has been taken away. They would wait for the refused process until their timeouts, and then say
 * that it did not join. So the process that ended the launch stays for a moment, and leaves a note at
 * "gcoll/<job>/refused" (with the launch's identity, if it has one). Ranks that wait for long read it.
 *
 * A note is the rank, the time of the refusal by the clock of its host, how long ago that was in ms, the
 * claimant, and in a new line the verdict. Its writer changes it every BEAT_MS and removes it at the end. So
 * a reader that looks twice finds it changed or gone. A note that stays as it is comes from a process that
 * was killed or from another program, and does not count.
 *
 * A note ends a launch only if the refused process cannot belong to an earlier attempt of the same job:
 *
 * - A rank that began to wait before the refusal heeds the note at once.
 *
 * - A rank that began after it may have been refused, too, and try again, as the refused process may. It
 * waits until that has ended, and a little longer for it to come back. A process that was started after the
 *   refusal belongs to a new attempt, and heeds no note.
 *
 * In each case the refused rank must be missing. Several refused processes write one another's notes over,
 * and remove them; the last one leaves nothing.
 *
 * Ranks that come when the note has been removed wait for their timeouts. So that they do not say then that
 * the refused process did not join, it also leaves a memo at "gcoll/<job>/twice": the rank, the time of the
 * refusal, its own timeout, the claimant, and the verdict. A memo stays, and ends no launch early. A rank
 * whose time is over reads it. It heeds the memo if the refused rank is missing, if its own process ran at
 * the time of the refusal, and if it began to wait within that timeout after it. It must see that by the
 * clock of its own host. A launch that was complete removes the memo.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/rendezvous/meeting.h"

#define BEAT_MS    50
#define NOTE_MS    1500 /* longer than the verdict stays in the store (meeting.c), by most of a second */
#define NOTE_LOOKS 3    /* in jobs whose ranks look rarely: the note stays for so many intervals */
#define AGAIN_MS   1000 /* in which a refused process that tries again is there, also on a busy machine */
/* Clocks of hosts are not compared. How long ago the refusal was is written down, and read later: */
#define LATE_READ_MS (2 * BEAT_MS)
#define ROUNDED_MS                                                                                           \
    5 /* on one host times are compared, each rounded to a ms: more than they can be wrong by */
#define OLDEST_MS 86400000 /* older notes have no meaning */
#define NOTE_MAX  (GCOLL_CLAIMANT_TEXT + GCOLL_VERDICT_MAX + 80)

typedef struct note {
    uint32_t rank;
    uint64_t at_ms;   /* of the refusal, by its host's clock */
    uint64_t past_ms; /* between the refusal and the writing of the note */
    gcoll_claimant who;
    const char *verdict;
} note;

static void note_key(const gcoll_context *context, char key[GCOLL_STORE_KEY_MAX + 1]) {
    gcoll_rendezvous_key(context, key, "refused");
}

static void memo_key(const gcoll_context *context, char key[GCOLL_STORE_KEY_MAX + 1]) {
    gcoll_rendezvous_key(context, key, "twice");
}

/* ---- The refused process ------------------------------------------------------------------ */

/* Writes the text of a note, or of a memo, in which number_ms is the timeout. */
static int compose(const gcoll_context *context, char text[NOTE_MAX], int64_t past_ms, int64_t number_ms,
                   const char *cause) {
    char who[GCOLL_CLAIMANT_TEXT];
    gcoll_claimant_write(&context->rendezvous->meeting->self, who);
    return snprintf(text, NOTE_MAX, "%u %" PRId64 " %" PRId64 " %s\n!%d %.500s", context->rank,
                    gcoll_claimant_clock_ms() - past_ms, number_ms, who, (int)GCOLL_ERR_MISMATCH, cause);
}

static gcoll_status write_note(gcoll_context *context, int64_t past_ms, const char *cause) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[NOTE_MAX];
    note_key(context, key);
    int bytes = compose(context, text, past_ms, past_ms, cause);
    return gcoll_visit_set(context, key, text, (size_t)bytes);
}

static gcoll_status write_memo(gcoll_context *context, int64_t past_ms, const char *cause) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[NOTE_MAX];
    const int64_t timeout_ms = context->settings.timeout_ms;
    memo_key(context, key);
    int bytes = compose(context, text, past_ms, timeout_ms < OLDEST_MS ? timeout_ms : OLDEST_MS, cause);
    return gcoll_visit_set(context, key, text, (size_t)bytes);
}

gcoll_status gcoll_refusal_remove_memo(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    memo_key(context, key);
    return gcoll_visit_remove(context, key);
}

void gcoll_refusal_leave_note(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], cause[GCOLL_VERDICT_MAX];
    gcoll_meeting *meeting = context->rendezvous->meeting;
    const int64_t made_ms = meeting->refusal.made_ms;
    const int64_t looks_ms = NOTE_LOOKS * gcoll_lease_interval_ms(context);
    int64_t end_ms = made_ms + (looks_ms > NOTE_MS ? looks_ms : NOTE_MS);
    end_ms = end_ms < meeting->deadline_ms ? end_ms : meeting->deadline_ms;
    if (made_ms == 0 || meeting->store_stuck)
        return;
    snprintf(cause, sizeof cause, "%s", gcoll_last_error());
    gcoll_visits_until(context, end_ms + GCOLL_WORD_MS);
    gcoll_status status = write_memo(context, gcoll_now_ms() - made_ms, cause);
    for (int64_t now = gcoll_now_ms(); status == GCOLL_OK && now < end_ms; now = gcoll_now_ms()) {
        status = write_note(context, now - made_ms, cause);
        usleep(BEAT_MS * 1000);
    }
    note_key(context, key);
    if (!meeting->store_stuck)
        gcoll_visit_remove(context, key);
    gcoll_error(GCOLL_OK, "%s", cause);
}

/* ---- Ranks that wait ---------------------------------------------------------------------- */

/* Parses a note, which another program may have written. note->verdict points into the text. */
static bool read_note(const gcoll_context *context, char *text, note *found) {
    int at = 0;
    char *line = strchr(text, '\n');
    *found = (note){.rank = 0};
    if (!line || sscanf(text, "%7" SCNu32 " %18" SCNu64 " %9" SCNu64 " %n", &found->rank, &found->at_ms,
                        &found->past_ms, &at) != 3)
        return false;
    *line = '\0';
    found->verdict = line + 1;
    return at > 0 && found->rank < context->size && found->past_ms <= OLDEST_MS &&
           gcoll_claimant_read(text + at, &found->who) && found->who.nonce != 0 &&
           strlen(found->verdict) < sizeof context->rendezvous->meeting->refusal.verdict &&
           gcoll_rendezvous_verdict(found->verdict) == GCOLL_ERR_MISMATCH;
}

/* How long ago the refusal was, at least: exact if this rank can see the process. */
static int64_t past_ms(const gcoll_meeting *meeting, const note *found, bool *exact) {
    const int64_t by_clock = gcoll_claimant_clock_ms() - (int64_t)found->at_ms;
    *exact = gcoll_claimant_life(&meeting->self, &found->who) != GCOLL_LIFE_UNKNOWN && by_clock >= 0;
    return *exact ? by_clock : (int64_t)found->past_ms;
}

/* Keeps a note that this rank has not seen before, and decides whether the refusal concerns this rank. */
static void take_note(gcoll_context *context, const note *found) {
    gcoll_meeting *meeting = context->rendezvous->meeting;
    gcoll_refusal *refusal = &meeting->refusal;
    bool exact;
    const int64_t past = past_ms(meeting, found, &exact), age = gcoll_claimant_age_ms(&meeting->self);
    const int64_t waited = gcoll_now_ms() - meeting->began_ms;
    refusal->nonce = found->who.nonce;
    refusal->past_ms = found->past_ms;
    refusal->waited = waited >= past + (exact ? ROUNDED_MS : LATE_READ_MS);
    refusal->rank =
        found->rank != context->rank && (refusal->waited || age >= past) ? found->rank : GCOLL_NO_RANK;
    refusal->certain = refusal->gone = false;
    refusal->due_ms = INT64_MAX;
    snprintf(refusal->verdict, sizeof refusal->verdict, "%s", found->verdict);
}

/* The time to wait is over: reads the memo of a process that was refused some time ago. */
static void look_for_memo(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[NOTE_MAX];
    gcoll_meeting *meeting = context->rendezvous->meeting;
    note found;
    bool exact;
    memo_key(context, key);
    if (gcoll_visit_text(context, key, text, sizeof text) != GCOLL_OK || !read_note(context, text, &found))
        return;
    const int64_t timeout_ms = (int64_t)found.past_ms, past = past_ms(meeting, &found, &exact);
    const int64_t waited = gcoll_now_ms() - meeting->began_ms;
    if (!exact || past - waited > timeout_ms || past > gcoll_claimant_age_ms(&meeting->self) ||
        found.rank == context->rank)
        return;
    take_note(context, &found);
    meeting->refusal.rank = found.rank;
    meeting->refusal.certain = true;
}

static void look_for_note(gcoll_context *context, bool at_once) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[NOTE_MAX];
    gcoll_refusal *refusal = &context->rendezvous->meeting->refusal;
    const int64_t now = gcoll_now_ms(), interval = gcoll_lease_interval_ms(context);
    note found;
    if (refusal->next_ms == 0) /* most ranks do not wait so long; one that was slow to open may be late */
        refusal->next_ms = context->rendezvous->meeting->began_ms + interval;
    if (now < refusal->next_ms && !at_once)
        return;
    refusal->next_ms = now + interval;
    note_key(context, key);
    gcoll_status status = gcoll_visit_text(context, key, text, sizeof text);
    const bool there = status == GCOLL_OK && read_note(context, text, &found);
    if (!there && status != GCOLL_ERR_NOT_FOUND)
        return; /* nonsense, or the store fails: the next request that matters reports that */
    if (there && found.who.nonce != refusal->nonce) {
        if (!refusal->certain || refusal->rank == GCOLL_NO_RANK)
            take_note(context, &found);
        return;
    }
    if (refusal->nonce == 0 || refusal->gone || (there && found.past_ms == refusal->past_ms))
        return;
    refusal->certain = true;
    refusal->gone = !there;
    if (refusal->waited)
        refusal->due_ms = now;
    else if (refusal->gone)
        refusal->due_ms = now + AGAIN_MS;
}

void gcoll_refusal_look(gcoll_context *context, bool is_over) {
    const gcoll_refusal *refusal = &context->rendezvous->meeting->refusal;
    look_for_note(context, is_over);
    if (is_over && !(refusal->certain && refusal->rank != GCOLL_NO_RANK))
        look_for_memo(context);
}

uint32_t gcoll_refusal_rank(const gcoll_context *context, bool is_over) {
    const gcoll_refusal *refusal = &context->rendezvous->meeting->refusal;
    const bool counts = refusal->certain && (is_over || gcoll_now_ms() >= refusal->due_ms);
    return counts ? refusal->rank : GCOLL_NO_RANK;
}

void gcoll_refusal_forget(gcoll_context *context) {
    context->rendezvous->meeting->refusal.rank = GCOLL_NO_RANK;
    context->rendezvous->meeting->refusal.certain = false;
}

gcoll_status gcoll_refusal_error(const gcoll_context *context) {
    return gcoll_rendezvous_verdict(context->rendezvous->meeting->refusal.verdict);
}
