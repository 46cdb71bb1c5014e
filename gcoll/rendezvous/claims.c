/*
 * gcoll/rendezvous/claims.c - decides which process is which rank of which launch, by claims in the store.
 *
 * Keys below "gcoll/<job>/", or "gcoll/<job>/l.<hash>/" if the launch has an identity:
 *
 * "launch" is the claim of rank 0: the generation, the size of the job, and the process of rank 0. It exists
 * while ranks may join: until rank 0 says go, or until a verdict says that there will be no go.
 *
 * "<generation>/rank.<r>" is the claim of rank r: its process; with "!" before it once the process has failed
 * to join and left.
 *
 * "<generation>/rank.<r>.<n>" is the claim of the process that took the rank over from the dead claimant with
 * nonce n.
 *
 * "<generation>/heir" is the launch of the process that took over from a dead rank 0.
 *
 * "refused" is the note of a process that was refused its rank, and "twice" the memo that it leaves
 * (refusals.c).
 *
 * A claim is made by set_new, so only one of two processes gets it. A living claimant keeps its rank: a
 * process that finds its rank claimed by a living one ends the launch, with an error that names both. A dead
 * claimant is succeeded by a claim to its succession, which again only one process gets. If rank 0 is dead,
 * the launch is over, and its claims refuse nobody.
 *
 * After its claim a rank checks once more that the launch exists, and only then publishes its address, which
 * rank 0 waits for. Rank 0 removes the launch before it says go. So a rank that was delayed between finding a
 * launch and claiming a rank, for however long, notices that it is too late.
 *
 * A rank never moves from one generation to another. It joins a launch only if its rank 0 is known to be
 * alive: on the same host by its process, on another host by its lease. A launch with an identity needs no
 * lease, as an earlier launch cannot have left keys under its name.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/base/text.h"
#include "gcoll/rendezvous/meeting.h"

#define FIRST_PAUSE_MS   1
#define LONGEST_PAUSE_MS 50
#define HIDDEN_MS        5
#define ENDED_MS         2000 /* a launch with a verdict that is still there will not be removed */
#define ENDING_MS        1000 /* time that a killed process may take to end */
#define LAUNCH_TEXT      (GCOLL_CLAIMANT_TEXT + 48)

#define CLAIM_TEXT (GCOLL_CLAIMANT_TEXT + 1)

/* The value of a key "launch" or "heir". */
typedef struct launch {
    char generation[GCOLL_GENERATION_TEXT];
    uint32_t size;
    gcoll_claimant lead;
} launch;

void gcoll_rendezvous_key(const gcoll_context *context, char key[GCOLL_STORE_KEY_MAX + 1], const char *format,
                          ...) {
    int at = snprintf(key, GCOLL_STORE_KEY_MAX + 1, "gcoll/%s/%s", context->settings.job,
                      context->rendezvous->meeting ? context->rendezvous->meeting->launch : "");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key + at, GCOLL_STORE_KEY_MAX + 1 - (size_t)at, format, arguments);
    va_end(arguments);
}

void gcoll_rendezvous_key_of(const gcoll_context *context, char key[GCOLL_STORE_KEY_MAX + 1],
                             const char *name) {
    gcoll_rendezvous_key(context, key, "%s/%s", context->rendezvous->generation, name);
}

static gcoll_status nonsense(const char *key) {
    return gcoll_error(GCOLL_ERR_PROTOCOL, "the store's key '%s' makes no sense; another program's?", key);
}

static int64_t remaining(int64_t deadline_ms) {
    int64_t left = deadline_ms - gcoll_now_ms();
    return left > 0 ? left : 0;
}

/* Sleeps; each pause is longer than the one before. */
static void rest(int64_t *pause_ms, int64_t deadline_ms) {
    const int64_t left = remaining(deadline_ms);
    usleep((useconds_t)((*pause_ms < left ? *pause_ms : left) * 1000));
    *pause_ms = *pause_ms < LONGEST_PAUSE_MS / 2 ? *pause_ms * 2 : LONGEST_PAUSE_MS;
}

/* ---- Verdicts ----------------------------------------------------------------------------- */

/* Parses a verdict. The text comes from the store, so another program may have written it. */
gcoll_status gcoll_rendezvous_verdict(const char *text) {
    char *end = NULL, said[GCOLL_VERDICT_MAX];
    long status = text[0] == '!' ? strtol(text + 1, &end, 10) : 0;
    if (status <= GCOLL_OK || status > GCOLL_ERR_INTERNAL || *end != ' ')
        end = NULL;
    snprintf(said, sizeof said, "%.*s", (int)sizeof said - 1, end ? end + 1 : text);
    gcoll_text_clean(said);
    if (!end)
        return gcoll_error(GCOLL_ERR_PROTOCOL,
                           "the store's verdict for all ranks is '%.40s'; allowed is '!', a status and a "
                           "text; another program's?",
                           said);
    return gcoll_error((gcoll_status)status, "%s", said);
}

gcoll_status gcoll_verdict_tell(gcoll_context *context, const char *generation, gcoll_status status,
                                bool *passed) {
    char key[GCOLL_STORE_KEY_MAX + 1], cause[GCOLL_VERDICT_MAX];
    char verdict[GCOLL_VERDICT_MAX + 8], there[GCOLL_VERDICT_MAX + 8];
    snprintf(cause, sizeof cause, "%s", gcoll_last_error());
    snprintf(verdict, sizeof verdict, "!%d %.500s", (int)status, cause);
    gcoll_rendezvous_key(context, key, "%s/go", generation);
    gcoll_meeting *meeting = context->rendezvous->meeting;
    const bool had_failed = meeting->has_failed; /* this rank itself may lead the next launch */
    meeting->has_failed = true;
    gcoll_status found = gcoll_visit_set_new(context, key, verdict);
    meeting->has_failed = had_failed;
    meeting->spoke = found == GCOLL_OK;
    *passed = false;
    if (found == GCOLL_ERR_STATE && gcoll_visit_text(context, key, there, sizeof there) == GCOLL_OK) {
        *passed = strcmp(there, "go") == 0;
        if (!*passed)
            return gcoll_rendezvous_verdict(there);
    }
    gcoll_rendezvous_key(context, key, "%s/agreed", generation); /* most ranks wait for this key */
    meeting->has_failed = true;
    if (found == GCOLL_OK)
        gcoll_visit_set_new(context, key, verdict);
    meeting->has_failed = had_failed;
    return gcoll_error(status, "%s", cause); /* the store may have left a text of its own */
}

/* Ends a launch because two living processes claim this rank. *passed: the launch no longer waits, or ended
 * for another reason. The process that ends it leaves a note for ranks that come later (refusals.c). */
static gcoll_status claimed_twice(gcoll_context *context, const char *generation, const gcoll_claimant *other,
                                  bool *passed) {
    char mine[GCOLL_CLAIMANT_SAID], others[GCOLL_CLAIMANT_SAID];
    gcoll_claimant_say(&context->rendezvous->meeting->self, mine);
    gcoll_claimant_say(other, others);
    gcoll_status status = gcoll_error(
        GCOLL_ERR_MISMATCH,
        "job '%s'%s: rank %u is claimed twice, by %s and by %s; two launches at once need names of "
        "their own (options.launch, options.job)",
        context->settings.job, context->rendezvous->meeting->launch_said, context->rank, others, mine);
    status = gcoll_verdict_tell(context, generation, status, passed);
    *passed = *passed || status != GCOLL_ERR_MISMATCH;
    if (!*passed && context->rendezvous->meeting->spoke)
        context->rendezvous->meeting->refusal.made_ms = gcoll_now_ms();
    return status;
}

/* ---- Launches ----------------------------------------------------------------------------- */

static bool parse_launch(const char *text, launch *found) {
    int at = 0;
    *found = (launch){.size = 0};
    if (strspn(text, "0123456789abcdef") != GCOLL_GENERATION_TEXT - 1 ||
        sscanf(text, "%32s %7" SCNu32 " %n", found->generation, &found->size, &at) != 2 || at == 0)
        return false;
    return found->size >= 1 && found->size <= GCOLL_MAX_RANKS && gcoll_claimant_read(text + at, &found->lead);
}

static gcoll_status get_launch(gcoll_context *context, const char *key, launch *found) {
    char text[LAUNCH_TEXT];
    gcoll_status status = gcoll_visit_text(context, key, text, sizeof text);
    if (status != GCOLL_OK)
        return status;
    return parse_launch(text, found) ? GCOLL_OK : nonsense(key);
}

/* A launch that this rank cannot read, as its secret is another one: PROTOCOL, and what can be done, unless
 * its rank 0 is dead (*dead), or the launch was replaced while it was looked at. Nobody vouches for its text;
 * but whoever can write it can as well remove the key. */
static gcoll_status look_at_stranger(gcoll_context *context, bool *dead) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[LAUNCH_TEXT], why[GCOLL_VERDICT_MAX];
    launch found;
    snprintf(why, sizeof why, "%s", gcoll_last_error());
    gcoll_rendezvous_key(context, key, "launch");
    gcoll_status status = gcoll_visit_unsigned(context, key, text, sizeof text);
    *dead = status == GCOLL_OK && parse_launch(text, &found) &&
            gcoll_claimant_life(&context->rendezvous->meeting->self, &found.lead) == GCOLL_LIFE_DEAD;
    if (*dead)
        return GCOLL_OK;
    status = get_launch(context, key, &found);
    if (status == GCOLL_OK || status == GCOLL_ERR_NOT_FOUND)
        return GCOLL_OK;
    if (status != GCOLL_ERR_PROTOCOL)
        return status;
    return gcoll_error(
        GCOLL_ERR_PROTOCOL,
        "%s; if it is left from a launch that has died, remove it, or name this one (options.launch)", why);
}

gcoll_status gcoll_launch_stands(gcoll_context *context, bool *stands) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    launch found;
    gcoll_rendezvous_key(context, key, "launch");
    gcoll_status status = get_launch(context, key, &found);
    *stands = status == GCOLL_OK && strcmp(found.generation, context->rendezvous->generation) == 0;
    return status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
}

void gcoll_launch_pass(gcoll_context *context) {
    gcoll_meeting *meeting = context->rendezvous->meeting;
    memcpy(meeting->passed, context->rendezvous->generation, sizeof meeting->passed);
    meeting->passed_lead = meeting->lead;
}

/* Checks the size of a launch that was found. A different size is an error, unless the launch has gone on
 * already: then it is not this rank's launch, and is ignored. */
static gcoll_status join_launch(gcoll_context *context, const launch *found, bool *joined) {
    char key[GCOLL_STORE_KEY_MAX + 1], word[4];
    size_t bytes = 0;
    *joined = true;
    memcpy(context->rendezvous->generation, found->generation, sizeof context->rendezvous->generation);
    context->rendezvous->meeting->lead = found->lead;
    context->rendezvous->meeting->belongs = found->size == context->size;
    if (context->rendezvous->meeting->belongs)
        return GCOLL_OK;
    gcoll_rendezvous_key(context, key, "%s/go", context->rendezvous->generation);
    gcoll_status status = gcoll_visit_get(context, key, word, sizeof word, &bytes);
    if (status == GCOLL_OK) { /* the key exists and is as short as "go" */
        *joined = false;
        gcoll_launch_pass(context);
        context->rendezvous->generation[0] = '\0';
        return GCOLL_OK;
    }
    return gcoll_error(GCOLL_ERR_MISMATCH, "options.size: is %u on rank %u, but %u on rank 0", context->size,
                       context->rank, found->size);
}

/* If this rank's launch has an identity: returns whether the store has a launch of the job without one. */
static bool find_unnamed(gcoll_context *context, launch *found) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    if (!context->rendezvous->meeting->launch[0])
        return false;
    snprintf(key, sizeof key, "gcoll/%s/launch", context->settings.job);
    return get_launch(context, key, found) == GCOLL_OK;
}

/* Rank 0 came for an earlier launch, which this rank has passed by, and not again. */
static gcoll_status no_next_launch(gcoll_context *context) {
    const gcoll_meeting *meeting = context->rendezvous->meeting;
    char key[GCOLL_STORE_KEY_MAX + 1], said[GCOLL_CLAIMANT_SAID], word[GCOLL_VERDICT_MAX + 8];
    gcoll_rendezvous_key(context, key, "%s/go", meeting->passed);
    const bool failed = gcoll_visit_text(context, key, word, sizeof word) == GCOLL_OK && word[0] == '!';
    if (failed)
        gcoll_rendezvous_verdict(word);
    gcoll_claimant_say(&meeting->passed_lead, said);
    return gcoll_error(GCOLL_ERR_TIMEOUT,
                       "job '%s'%s: no launch to join came within %" PRId64
                       " ms; the last one, of rank 0, %s, was over when this rank came%s%.500s",
                       context->settings.job, meeting->launch_said, context->settings.timeout_ms, said,
                       failed ? ": " : "", failed ? gcoll_last_error() : "");
}

/* `dead`: a launch in the store whose rank 0 has died; size 0: there was none. */
static gcoll_status no_launch(gcoll_context *context, const launch *dead) {
    char key[GCOLL_STORE_KEY_MAX + 1], said[GCOLL_CLAIMANT_SAID], verdict[GCOLL_VERDICT_MAX + 8];
    launch unnamed;
    gcoll_visits_until(context, gcoll_now_ms() + GCOLL_WORD_MS); /* the deadline has passed */
    gcoll_refusal_look(context, true);
    if (gcoll_refusal_rank(context, true) != GCOLL_NO_RANK)
        return gcoll_refusal_error(context);
    if (dead->size == 0 && find_unnamed(context, &unnamed)) {
        gcoll_claimant_say(&unnamed.lead, said);
        return gcoll_error(GCOLL_ERR_TIMEOUT,
                           "job '%s'%s: rank 0 did not join within %" PRId64
                           " ms; rank 0 of a launch without an "
                           "identity, %s, did: options.launch or GCOLL_LAUNCH must be the same on every rank",
                           context->settings.job, context->rendezvous->meeting->launch_said,
                           context->settings.timeout_ms, said);
    }
    if (dead->size == 0 && context->rendezvous->meeting->passed[0])
        return no_next_launch(context);
    if (dead->size == 0)
        return gcoll_error(GCOLL_ERR_TIMEOUT, "job '%s'%s: rank 0 did not join within %" PRId64 " ms%s",
                           context->settings.job, context->rendezvous->meeting->launch_said,
                           context->settings.timeout_ms, context->rendezvous->meeting->trace.said);
    gcoll_rendezvous_key(context, key, "%s/go", dead->generation);
    const bool failed =
        gcoll_visit_text(context, key, verdict, sizeof verdict) == GCOLL_OK && verdict[0] == '!';
    if (failed) /* it ended by this error, and could not take its launch away */
        gcoll_rendezvous_verdict(verdict);
    gcoll_claimant_say(&dead->lead, said);
    return gcoll_error(
        GCOLL_ERR_TIMEOUT,
        "job '%s'%s: rank 0 did not join within %" PRId64 " ms; the one that had begun, %s, %s%.500s",
        context->settings.job, context->rendezvous->meeting->launch_said, context->settings.timeout_ms, said,
        failed ? "ended: " : "died", failed ? gcoll_last_error() : "");
}

/* Waits until a launch is there, for at most one interval of leases. TIMEOUT: left_ms is over. */
static gcoll_status await_launch(gcoll_context *context, const char *key, int64_t left_ms) {
    const int64_t interval = gcoll_lease_interval_ms(context);
    gcoll_status status = gcoll_visit_wait(context, key, left_ms < interval ? left_ms : interval);
    const bool goes_on = left_ms > interval && !context->rendezvous->meeting->store_stuck;
    return status == GCOLL_ERR_TIMEOUT && goes_on ? GCOLL_OK : status;
}

static gcoll_status find_launch(gcoll_context *context, int64_t deadline_ms) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    gcoll_meeting *meeting = context->rendezvous->meeting;
    gcoll_pulse pulse = {0};
    launch found, watched = {.size = 0}, dead = {.size = 0};
    int64_t pause_ms = FIRST_PAUSE_MS;
    gcoll_rendezvous_key(context, key, "launch");
    for (;;) {
        const int64_t left = remaining(deadline_ms);
        if (left > 0) {
            gcoll_trace_renew(context);
            gcoll_refusal_look(context, false);
        }
        gcoll_status status = left > 0 ? get_launch(context, key, &found) : GCOLL_ERR_TIMEOUT;
        bool joined = false, unsure = false, is_dead = false;
        if (status == GCOLL_OK && strcmp(found.generation, meeting->passed) != 0) {
            if (strcmp(found.generation, watched.generation) != 0)
                pulse = (gcoll_pulse){.seen = false};
            watched = found;
            gcoll_life life = meeting->launch[0]
                                  ? gcoll_claimant_life(&meeting->self, &found.lead)
                                  : gcoll_lease_life(context, found.generation, 0, &found.lead, &pulse);
            if (life == GCOLL_LIFE_DEAD)
                dead = found;
            else if (life == GCOLL_LIFE_ALIVE || meeting->launch[0])
                status = join_launch(context, &found, &joined);
            else
                unsure = true; /* the next look may show that its rank 0 lives */
        }
        if (joined)
            return status;
        if (left > 0 && !unsure && gcoll_refusal_rank(context, false) != GCOLL_NO_RANK)
            return gcoll_refusal_error(context);
        if (status == GCOLL_ERR_NOT_FOUND)
            status = await_launch(context, key, left);
        else if (status == GCOLL_ERR_PROTOCOL)
            status = look_at_stranger(context, &is_dead); /* rank 0 takes a dead one away */
        if (status == GCOLL_OK)
            rest(&pause_ms, deadline_ms);
        if (status == GCOLL_ERR_TIMEOUT && !meeting->store_stuck)
            return no_launch(context, &dead);
        if (status != GCOLL_OK)
            return status;
    }
}

gcoll_status gcoll_launch_find(gcoll_context *context, int64_t deadline_ms) {
    gcoll_status status = find_launch(context, deadline_ms);
    gcoll_trace_remove(context);
    return status;
}

/* Finds the valid launch: the last one in the chain of successors. *is_read: the first one could be read. */
static gcoll_status find_heir(gcoll_context *context, launch *latest, bool *is_read) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    launch next;
    gcoll_rendezvous_key(context, key, "launch");
    gcoll_status status = get_launch(context, key, latest);
    *is_read = status == GCOLL_OK;
    while (status == GCOLL_OK) {
        gcoll_rendezvous_key(context, key, "%s/heir", latest->generation);
        status = get_launch(context, key, &next);
        if (status == GCOLL_ERR_NOT_FOUND)
            return GCOLL_OK;
        if (status == GCOLL_OK)
            *latest = next;
    }
    return status;
}

/* Takes over from a dead rank 0. STATE: another process has done so. */
static gcoll_status inherit(gcoll_context *context, const launch *from, const char *record) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    gcoll_rendezvous_key(context, key, "%s/heir", from->generation);
    gcoll_status status = gcoll_visit_set_new(context, key, record);
    gcoll_rendezvous_key(context, key, "launch");
    return status == GCOLL_OK ? gcoll_visit_set(context, key, record, strlen(record)) : status;
}

/* Rank 0 found another launch in the store. Takes over if the other rank 0 is dead, or alive but its launch
 * has ended without being removed. Ends both launches if the other is alive and waits. STATE: check again
 * later. */
static gcoll_status meet_other(gcoll_context *context, const launch *other, const char *record,
                               gcoll_pulse *pulse, int64_t since_ms) {
    char key[GCOLL_STORE_KEY_MAX + 1], word[4];
    size_t bytes = 0;
    bool passed = false;
    gcoll_life life = gcoll_lease_life(context, other->generation, 0, &other->lead, pulse);
    if (life == GCOLL_LIFE_DEAD)
        return inherit(context, other, record);
    if (gcoll_now_ms() - since_ms < ENDING_MS &&
        gcoll_claimant_is_ending(&context->rendezvous->meeting->self, &other->lead))
        return GCOLL_ERR_STATE;
    gcoll_rendezvous_key(context, key, "%s/go", other->generation);
    gcoll_status ends = gcoll_visit_get(context, key, word, sizeof word, &bytes);
    if (ends == GCOLL_ERR_INVALID && gcoll_now_ms() - since_ms >= ENDED_MS) /* longer than "go": a verdict */
        return inherit(context, other, record);
    if (ends == GCOLL_OK || ends == GCOLL_ERR_INVALID ||
        life == GCOLL_LIFE_UNKNOWN) /* it is about to be removed */
        return GCOLL_ERR_STATE;
    if (ends != GCOLL_ERR_NOT_FOUND)
        return ends;
    gcoll_status status = claimed_twice(context, other->generation, &other->lead, &passed);
    return passed ? GCOLL_ERR_STATE : status;
}

static gcoll_status never_ended(gcoll_context *context, const launch *other) {
    char key[GCOLL_STORE_KEY_MAX + 1], said[GCOLL_CLAIMANT_SAID];
    if (other->size == 0) {
        gcoll_rendezvous_key(context, key, "launch");
        return gcoll_error(GCOLL_ERR_TIMEOUT,
                           "job '%s'%s: the store's key '%s' was taken, but had no value, for %" PRId64 " ms",
                           context->settings.job, context->rendezvous->meeting->launch_said, key,
                           context->settings.timeout_ms);
    }
    gcoll_claimant_say(&other->lead, said);
    return gcoll_error(GCOLL_ERR_TIMEOUT,
                       "job '%s'%s: an earlier launch, whose rank 0 is %s, did not end within %" PRId64 " ms",
                       context->settings.job, context->rendezvous->meeting->launch_said, said,
                       context->settings.timeout_ms);
}

/* Returns MISMATCH if the launch `other` ended because this launch claimed it a second time: its rank 0
 * removed it while this process was watching. A verdict that names this process is no reason: it was told,
 * and tries again. `verdict`: the verdict on `other` that was read before, or "". */
static gcoll_status hear_of_two(gcoll_context *context, const launch *other,
                                char verdict[GCOLL_VERDICT_MAX + 8]) {
    char key[GCOLL_STORE_KEY_MAX + 1], said[GCOLL_CLAIMANT_SAID];
    const gcoll_claimant *self = &context->rendezvous->meeting->self;
    launch now;
    if (other->size == 0 || gcoll_claimant_is_process(&other->lead, self))
        return GCOLL_OK;
    gcoll_rendezvous_key(context, key, "launch");
    gcoll_status status = get_launch(context, key, &now);
    if (status == GCOLL_OK && strcmp(now.generation, other->generation) == 0) { /* it still exists */
        gcoll_rendezvous_key(context, key, "%s/go", other->generation);
        gcoll_visit_text(context, key, verdict, GCOLL_VERDICT_MAX + 8);
        return GCOLL_OK;
    }
    gcoll_claimant_say(self, said);
    if (verdict[0] != '!' || strstr(verdict, said))
        return GCOLL_OK;
    return gcoll_rendezvous_verdict(verdict) == GCOLL_ERR_MISMATCH ? GCOLL_ERR_MISMATCH : GCOLL_OK;
}

/* Takes a launch away that this rank cannot read, if its rank 0 is dead. STATE: the key is worth another try.
 */
static gcoll_status pass_stranger(gcoll_context *context, const char *key) {
    bool is_dead = false;
    gcoll_status status = look_at_stranger(context, &is_dead);
    if (status == GCOLL_OK && is_dead)
        status = gcoll_visit_remove(context, key);
    return status == GCOLL_OK ? GCOLL_ERR_STATE : status;
}

gcoll_status gcoll_launch_claim(gcoll_context *context, int64_t deadline_ms) {
    char key[GCOLL_STORE_KEY_MAX + 1], who[GCOLL_CLAIMANT_TEXT], record[LAUNCH_TEXT];
    gcoll_meeting *meeting = context->rendezvous->meeting;
    char verdict[GCOLL_VERDICT_MAX + 8] = ""; /* on the launch `watched` */
    launch other = {.size = 0}, watched = {.size = 0};
    gcoll_pulse pulse = {0};
    int64_t since_ms = gcoll_now_ms(); /* since when `watched` has been watched */
    int64_t pause_ms = FIRST_PAUSE_MS;
    gcoll_claimant_write(&meeting->self, who);
    snprintf(record, sizeof record, "%s %u %s", context->rendezvous->generation, context->size, who);
    for (;;) {
        bool is_read = false;
        gcoll_refusal_look(context, false); /* tells what to expect of the launch that this rank will lead */
        gcoll_status status = hear_of_two(context, &watched, verdict);
        gcoll_rendezvous_key(context, key, "launch");
        if (status == GCOLL_OK)
            status = gcoll_visit_set_new(context, key, record);
        if (status == GCOLL_ERR_STATE) {
            status = find_heir(context, &other, &is_read);
            if (strcmp(other.generation, watched.generation) != 0) {
                pulse = (gcoll_pulse){.seen = false};
                since_ms = gcoll_now_ms();
                verdict[0] = '\0';
            }
            watched = other;
            if (status == GCOLL_OK && strcmp(other.generation, context->rendezvous->generation) == 0)
                status =
                    gcoll_visit_set(context, key, record,
                                    strlen(record)); /* this rank's own key: the store's answer was lost */
            else if (status == GCOLL_OK)
                status = meet_other(context, &other, record, &pulse, since_ms);
            else if (status == GCOLL_ERR_NOT_FOUND) /* it has ended just now */
                status = GCOLL_ERR_STATE;
            else if (status == GCOLL_ERR_PROTOCOL && !is_read)
                status = pass_stranger(context, key);
        }
        if (status == GCOLL_OK) {
            meeting->leads = meeting->has_led = true;
            meeting->lead = meeting->self;
            return GCOLL_OK;
        }
        if (status != GCOLL_ERR_STATE) {
            meeting->unsure =
                status !=
                GCOLL_ERR_MISMATCH; /* the store may have written the key, and its answer was lost */
            return status;
        }
        rest(&pause_ms, deadline_ms);
        if (remaining(deadline_ms) == 0) /* the time for requests to the store is over */
            return never_ended(context, &other);
    }
}

gcoll_status gcoll_launch_check(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], said[GCOLL_CLAIMANT_SAID];
    launch heir;
    gcoll_rendezvous_key(context, key, "%s/heir", context->rendezvous->generation);
    gcoll_status status = get_launch(context, key, &heir);
    if (status != GCOLL_OK)
        return status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
    context->rendezvous->meeting->leads = false;
    gcoll_claimant_say(&heir.lead, said);
    return gcoll_error(GCOLL_ERR_MISMATCH,
                       "job '%s'%s: rank 0 showed no life for a while, and %s has taken its place",
                       context->settings.job, context->rendezvous->meeting->launch_said, said);
}

gcoll_status gcoll_launch_end(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    if (!context->rendezvous->meeting->leads)
        return GCOLL_OK;
    context->rendezvous->meeting->leads = false;
    gcoll_rendezvous_key(context, key, "launch");
    return gcoll_visit_remove(context, key);
}

/* ---- Ranks -------------------------------------------------------------------------------- */

static void rank_key(const gcoll_context *context, char key[GCOLL_STORE_KEY_MAX + 1], uint32_t rank,
                     const gcoll_claimant *after) {
    if (after)
        gcoll_rendezvous_key(context, key, "%s/rank.%u.%016" PRIx64, context->rendezvous->generation, rank,
                             after->nonce);
    else
        gcoll_rendezvous_key(context, key, "%s/rank.%u", context->rendezvous->generation, rank);
}

/* Reads a claim. NOT_FOUND also if the claimant has left; *found then names it. */
static gcoll_status get_claim(gcoll_context *context, const char *key, gcoll_claimant *found) {
    char text[CLAIM_TEXT];
    *found = (gcoll_claimant){.pid = 0};
    gcoll_status status = gcoll_visit_text(context, key, text, sizeof text);
    if (status != GCOLL_OK)
        return status;
    const bool left = text[0] == GCOLL_LEFT_MARK;
    if (!gcoll_claimant_read(text + left, found))
        return nonsense(key);
    return left ? GCOLL_ERR_NOT_FOUND : GCOLL_OK;
}

gcoll_status gcoll_rank_holder(gcoll_context *context, uint32_t rank, gcoll_claimant *holder) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    gcoll_claimant next;
    rank_key(context, key, rank, NULL);
    gcoll_status status = get_claim(context, key, holder);
    while (status == GCOLL_OK) {
        rank_key(context, key, rank, holder);
        status = get_claim(context, key, &next);
        if (status == GCOLL_ERR_NOT_FOUND)
            return GCOLL_OK;
        if (status == GCOLL_OK)
            *holder = next;
    }
    return status;
}

/* Returns whether rank 0 of the launch that this rank found has died since. Waits for a process that was
 * killed to end. */
static bool lead_is_dead(const gcoll_context *context, int64_t deadline_ms) {
    const gcoll_meeting *meeting = context->rendezvous->meeting;
    const int64_t now = gcoll_now_ms();
    const int64_t patience_ms = now + ENDING_MS < deadline_ms ? now + ENDING_MS : deadline_ms;
    int64_t pause_ms = FIRST_PAUSE_MS;
    for (;;) {
        const gcoll_life life = gcoll_claimant_life(&meeting->self, &meeting->lead);
        if (life != GCOLL_LIFE_ALIVE || remaining(patience_ms) == 0 ||
            !gcoll_claimant_is_ending(&meeting->self, &meeting->lead))
            return life == GCOLL_LIFE_DEAD;
        rest(&pause_ms, patience_ms);
    }
}

/* Another process has claimed this rank. OK if it is dead, so that this process may succeed it. */
static gcoll_status meet_holder(gcoll_context *context, const gcoll_claimant *holder, int64_t deadline_ms,
                                bool *again) {
    gcoll_pulse pulse = {0};
    const int64_t patience_ms = gcoll_now_ms() + ENDING_MS;
    int64_t pause_ms = FIRST_PAUSE_MS;
    for (;;) {
        bool stands = true;
        gcoll_status status = gcoll_launch_stands(context, &stands);
        *again = status == GCOLL_OK && !stands;
        if (status != GCOLL_OK || *again)
            return status;
        gcoll_life life =
            gcoll_lease_life(context, context->rendezvous->generation, context->rank, holder, &pulse);
        if (life == GCOLL_LIFE_DEAD)
            return GCOLL_OK;
        const bool is_ending = gcoll_now_ms() < patience_ms &&
                               gcoll_claimant_is_ending(&context->rendezvous->meeting->self, holder);
        if ((life == GCOLL_LIFE_ALIVE && !is_ending) || remaining(deadline_ms) == 0) {
            *again = lead_is_dead(context, deadline_ms); /* then the claim is void, as the launch is */
            if (*again)
                return GCOLL_OK;
            status = claimed_twice(context, context->rendezvous->generation, holder, again);
            context->rendezvous->meeting->told = !*again; /* the next launch has no verdict yet */
            return *again ? GCOLL_OK : status;
        }
        rest(&pause_ms, deadline_ms);
    }
}

/* The process that had this rank failed to join, and left. This process waits for the next launch, as it may
 * be a new attempt of the same job. But if a rank was claimed twice, it gets that error: the conflict may be
 * its own. */
static gcoll_status meet_leaver(gcoll_context *context, const gcoll_claimant *leaver, bool *again) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[GCOLL_VERDICT_MAX + 8];
    gcoll_status status = GCOLL_OK;
    *again = true;
    if (leaver->pid == 0 || gcoll_claimant_is_process(leaver, &context->rendezvous->meeting->self))
        return GCOLL_OK;
    gcoll_rendezvous_key(context, key, "%s/go", context->rendezvous->generation);
    status = gcoll_visit_text(context, key, text, sizeof text);
    if (status != GCOLL_OK || text[0] != '!')
        return status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
    status = gcoll_rendezvous_verdict(text);
    *again = status != GCOLL_ERR_MISMATCH;
    context->rendezvous->meeting->told = !*again;
    return *again ? GCOLL_OK : status;
}

/* Claims the rank, or the succession of the last dead claimant. */
static gcoll_status claim_free(gcoll_context *context, int64_t deadline_ms, char key[GCOLL_STORE_KEY_MAX + 1],
                               bool *again) {
    char who[GCOLL_CLAIMANT_TEXT];
    gcoll_claimant holder;
    gcoll_status status;
    int64_t pause_ms = FIRST_PAUSE_MS;
    context->rendezvous->meeting->self.waited_ms =
        (uint64_t)(gcoll_now_ms() - context->rendezvous->meeting->began_ms);
    gcoll_claimant_write(&context->rendezvous->meeting->self, who);
    rank_key(context, key, context->rank, NULL);
    while ((status = gcoll_visit_set_new(context, key, who)) == GCOLL_ERR_STATE && !*again) {
        status = get_claim(context, key, &holder);
        if (status == GCOLL_ERR_NOT_FOUND) /* the claimant left: this launch is over, or about to be */
            return meet_leaver(context, &holder, again);
        if (status == GCOLL_OK)
            status = meet_holder(context, &holder, deadline_ms, again);
        /* A process that gives up marks its claim before it ends. If this one was seen to be dead, it may
         * have left after its claim was read: then there is nothing to inherit, and it has been counted as
         * left. */
        if (status == GCOLL_OK && !*again)
            status = get_claim(context, key, &holder);
        if (status == GCOLL_ERR_NOT_FOUND)
            return meet_leaver(context, &holder, again);
        if (status != GCOLL_OK)
            return status;
        if (*again)
            return GCOLL_OK;
        context->rendezvous->meeting->inherited = true;
        rank_key(context, key, context->rank, &holder);
        rest(&pause_ms, deadline_ms);
    }
    return status;
}

gcoll_status gcoll_rank_claim(gcoll_context *context, int64_t deadline_ms, bool *again) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    bool stands = true;
    *again = false;
    gcoll_status status = claim_free(context, deadline_ms, key, again);
    if (status == GCOLL_OK && !*again) {
        context->rendezvous->joined = true;
        status = gcoll_launch_stands(context, &stands);
        if (status == GCOLL_OK && !stands) { /* the sweep of a file store hides an old key for a moment */
            usleep(HIDDEN_MS * 1000);
            status = gcoll_launch_stands(context, &stands);
        }
        stands = stands && !lead_is_dead(context, deadline_ms);
    }
    if (status == GCOLL_OK && !stands) {
        *again = true;
        context->rendezvous->joined = false;
        status = gcoll_visit_remove(context, key);
    }
    const gcoll_meeting *meeting = context->rendezvous->meeting;
    if (*again && gcoll_claimant_life(&meeting->self, &meeting->lead) != GCOLL_LIFE_DEAD)
        gcoll_launch_pass(context); /* a dead one is known as such, and named */
    return status;
}

gcoll_status gcoll_rank_check(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], said[GCOLL_CLAIMANT_SAID];
    gcoll_claimant heir;
    rank_key(context, key, context->rank, &context->rendezvous->meeting->self);
    gcoll_status status = get_claim(context, key, &heir);
    if (status != GCOLL_OK)
        return status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
    gcoll_claimant_say(&heir, said);
    return gcoll_error(GCOLL_ERR_MISMATCH,
                       "job '%s'%s: rank %u showed no life for a while, and %s has taken its place",
                       context->settings.job, context->rendezvous->meeting->launch_said, context->rank, said);
}

gcoll_status gcoll_rank_leave(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], mark[CLAIM_TEXT] = {GCOLL_LEFT_MARK};
    gcoll_meeting *meeting = context->rendezvous->meeting;
    gcoll_claimant before;
    gcoll_status status = GCOLL_OK;
    if (context->rank == 0)
        return GCOLL_OK;
    rank_key(context, key, context->rank, NULL);
    gcoll_claimant_write(&meeting->self, mark + 1);
    if (!meeting->complete) /* a restarted process sees that this launch is over for its rank */
        return context->rendezvous->joined ? gcoll_visit_set(context, key, mark, strlen(mark))
                                           : gcoll_visit_set_new(context, key, mark);
    while (status == GCOLL_OK && meeting->inherited) { /* removes the chain of claims from the first on */
        status = get_claim(context, key, &before);
        if (status != GCOLL_OK || before.nonce == meeting->self.nonce)
            break;
        status = gcoll_visit_remove(context, key);
        rank_key(context, key, context->rank, &before);
    }
    return gcoll_visit_remove(context, key);
}
