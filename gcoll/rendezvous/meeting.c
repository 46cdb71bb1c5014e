/*
 * gcoll/rendezvous/meeting.c - the ranks of one launch of a job meet in a store: rank 0 waits for the
 * addresses of all ranks, and says go; or a rank writes a verdict, the reason why there will be no go.
 *
 * Keys below "gcoll/<job>/<generation>/" (with the launch in between if it has an identity), beside those of
 * claims.c:
 *
 * "addr.<rank>" is the rank's address, its host's id, its processors' id and its claimant, separated by
 * spaces; or the cause, once the rank broke and left.
 *
 * "alive.<rank>" is the rank's lease (leases.c).
 *
 * "hosts.<n>" holds the numbers of ranks that share processors; rank 0 writes it before it says go (hosts.c).
 *
 * "go" is "go", written by rank 0 when all addresses are there; or a verdict, written by any rank: "!", a
 * status, a space and the reason. The first value stays.
 *
 * "agreed" is the decision of rank 0 after go (tuning.c), or a verdict. Most ranks wait for this key only, so
 * that they wake up only once.
 *
 * "left" counts the ranks that left; the last one removes the common keys.
 *
 * The generation is random, so no key of an earlier run is ever found. Claims decide the generation of a
 * rank. Two simultaneous launches of one name are noticed when both claim the same rank. To give the second
 * launch time for that, rank 0 waits for a moment when all ranks are there (settling), unless the launch has
 * an identity or all ranks are in one process.
 *
 * While they wait, rank 0 watches all others, and they watch rank 0. A rank that dies after its claim is
 * named as dead; only a rank that never claimed "did not join".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/rendezvous/meeting.h"
#include "gcoll/store/signed.h"

#define FIRST_PAUSE_MS    1 /* rank 0 polls for addresses; the interval grows while none arrive */
#define LONGEST_PAUSE_MS  50
#define MISSING_LISTED    8   /* missing ranks named in an error */
#define WATCH_MS          100 /* interval at which rank 0 checks that the other ranks are alive */
#define REFUSE_MS         500 /* for telling the others that this rank could not join */
#define LATE_MS           250 /* ranks that join this late after an error still read it */
#define TWICE_MS          500 /* the same, if a rank was claimed twice */
#define LATE_PAUSE_MS     5
#define RESTART_MS        200  /* grace in which a dead rank may be restarted and succeeded */
#define REPLACED_MS       1000 /* before that, no living rank can have been replaced (leases.c) */
#define SETTLE_LEAST_MS   200
#define SETTLE_LONGEST_MS 1000

void gcoll_rendezvous_create(gcoll_context *context) {
    context->rendezvous->keep_ms = INT64_MAX; /* no keys are in the store */
}

gcoll_status gcoll_generation_make(char generation[GCOLL_GENERATION_TEXT]) {
    uint8_t random[16];
    gcoll_status status = gcoll_random_bytes(random, sizeof random);
    for (size_t i = 0; status == GCOLL_OK && i < sizeof random; i++)
        snprintf(generation + 2 * i, 3, "%02x", random[i]);
    return status;
}

void gcoll_generation_set(gcoll_context *context, const char generation[GCOLL_GENERATION_TEXT]) {
    memcpy(context->rendezvous->generation, generation, GCOLL_GENERATION_TEXT);
    context->rendezvous->generation[GCOLL_GENERATION_TEXT - 1] = '\0';
}

void gcoll_generation_bytes(const gcoll_context *context, uint8_t bytes[16]) {
    const char *generation = context->rendezvous->generation;
    for (size_t i = 0; i < 16; i++) {
        unsigned byte = 0;
        sscanf(generation + 2 * i, "%2x", &byte);
        bytes[i] = (uint8_t)byte;
    }
}

static int64_t remaining(int64_t deadline_ms) {
    int64_t left = deadline_ms - gcoll_now_ms();
    return left > 0 ? left : 0;
}

static gcoll_status nonsense(const char *key) {
    return gcoll_error(GCOLL_ERR_PROTOCOL, "the store's key '%s' makes no sense; another program's?", key);
}

/* ---- Telling all -------------------------------------------------------------------------- */

/* Ends the launch with the last error as its verdict; if it has a verdict already, returns that. *passed:
 * rank 0 has said go, so the launch cannot be ended. */
static gcoll_status end_unless_passed(gcoll_context *context, gcoll_status status, bool *passed) {
    *passed = false;
    if (!context->rendezvous->meeting->told)
        status = gcoll_verdict_tell(context, context->rendezvous->generation, status, passed);
    context->rendezvous->meeting->told = true;
    return status;
}

static gcoll_status end_launch(gcoll_context *context, gcoll_status status) {
    bool passed;
    return end_unless_passed(context, status, &passed);
}

/* The meaning of the text at "go": OK if it is "go", else the error of the verdict. */
static gcoll_status heed(gcoll_context *context, const char *text) {
    if (strcmp(text, "go") == 0)
        return GCOLL_OK;
    context->rendezvous->meeting->told = true;
    return gcoll_rendezvous_verdict(text);
}

/* How far a rank has joined. */
enum progress { ABSENT, CLAIMED, ANNOUNCED };

static gcoll_status find_progress(gcoll_context *context, uint32_t rank, enum progress *progress,
                                  gcoll_claimant *who) {
    char key[GCOLL_STORE_KEY_MAX + 1], some[1];
    size_t bytes;
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->rendezvous->generation, rank);
    gcoll_status status = gcoll_visit_get(context, key, some, sizeof some, &bytes);
    *progress = ANNOUNCED;
    if (status == GCOLL_ERR_INVALID) /* it is longer than that: it is there */
        status = GCOLL_OK;
    if (status == GCOLL_ERR_NOT_FOUND) {
        *progress = CLAIMED;
        status = gcoll_rank_holder(context, rank, who);
    }
    if (status == GCOLL_ERR_NOT_FOUND) /* a rank that left has removed its address */
        *progress = who->pid == 0 ? ABSENT : ANNOUNCED;
    return status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
}

/* The store's requests took all the time that there was to look for the missing ranks. No rank is named, as
 * none was seen to be missing. */
static gcoll_status too_slow(const gcoll_context *context) {
    return gcoll_error(GCOLL_ERR_TIMEOUT,
                       "job '%s'%s: the ranks did not meet within %" PRId64
                       " ms, and the store answers too slowly to see whether one is missing",
                       context->settings.job, context->rendezvous->meeting->launch_said,
                       context->settings.timeout_ms);
}

/* A rank that cannot read what the launch has written (it has another secret, or none) leaves a counter,
 * which nobody signs. So it is believed by nobody, and only mentioned when the rank is missed. */
#define UNLIKE "unlike"

static void leave_unlike(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], cause[GCOLL_VERDICT_MAX];
    int64_t count = 0;
    snprintf(cause, sizeof cause, "%s", gcoll_last_error());
    gcoll_rendezvous_key(context, key, UNLIKE);
    gcoll_visits_to_tell(context, gcoll_now_ms() + REFUSE_MS);
    context->rendezvous->meeting->has_failed = true; /* the key lasts no longer than it is of use */
    gcoll_visit_add(context, key, 1, &count);
    gcoll_error(GCOLL_ERR_PROTOCOL, "%s", cause);
}

static const char *find_unlike(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    gcoll_rendezvous_key(context, key, UNLIKE);
    if (gcoll_visit_wait(context, key, 0) != GCOLL_OK)
        return "";
    gcoll_visit_remove(context, key);
    return "; one with another secret than this rank's, or with one where this rank has none "
           "(options.secret), "
           "was here and left";
}

/* Names the missing ranks when time is over, or says why one of them was refused. If the store fails, its
 * error is returned at once: asking on takes long. */
static gcoll_status name_missing(gcoll_context *context) {
    char list[128] = "", said[GCOLL_CLAIMANT_SAID];
    uint32_t missing = 0, slow = 0;
    gcoll_claimant who, slow_one = {0};
    const gcoll_meeting *meeting = context->rendezvous->meeting;
    gcoll_visits_until(context, gcoll_now_ms() + REFUSE_MS);
    gcoll_refusal_look(context, true);
    const uint32_t refused = gcoll_refusal_rank(context, true);
    for (uint32_t rank = 1; rank < context->size; rank++) {
        enum progress progress;
        const size_t used = strlen(list);
        gcoll_status status = find_progress(context, rank, &progress, &who);
        if (status != GCOLL_OK)
            return status == GCOLL_ERR_TIMEOUT ? too_slow(context) : status;
        if (progress == CLAIMED && slow == 0) {
            slow = rank;
            slow_one = who;
        }
        if (progress == ABSENT && rank == refused)
            return gcoll_refusal_error(context);
        if (progress == ABSENT && missing++ < MISSING_LISTED)
            snprintf(list + used, sizeof list - used, "%s%u", used ? ", " : "", rank);
    }
    if (missing > 0)
        return gcoll_error(
            GCOLL_ERR_TIMEOUT, "job '%s'%s: %u of %u ranks did not join within %" PRId64 " ms: %s%s%s%s",
            context->settings.job, meeting->launch_said, missing, context->size, context->settings.timeout_ms,
            list, missing > MISSING_LISTED ? ", ..." : "", meeting->trace.said, find_unlike(context));
    gcoll_claimant_say(slow > 0 ? &slow_one : &meeting->lead, said);
    return gcoll_error(
        GCOLL_ERR_TIMEOUT,
        slow > 0 ? "job '%s'%s: rank %u, %s, joined, but did not tell its address within %" PRId64 " ms"
                 : "job '%s'%s: rank %u, %s, did not go on within %" PRId64 " ms, though all ranks joined",
        context->settings.job, meeting->launch_said, slow, said, context->settings.timeout_ms);
}

/* Returns whether a rank whose process is gone has left in good order: it has marked its claim, or, as rank
 * 0, taken its launch away. */
static bool left_in_order(gcoll_context *context, uint32_t rank) {
    gcoll_claimant holder;
    bool stands = true;
    if (rank == 0)
        return gcoll_launch_stands(context, &stands) == GCOLL_OK && !stands &&
               gcoll_launch_check(context) == GCOLL_OK; /* nobody has taken it over from a dead one */
    return gcoll_rank_holder(context, rank, &holder) == GCOLL_ERR_NOT_FOUND && holder.pid != 0;
}

/* Ends with the error that a rank is gone, as it was seen: its process left in good order, is unknown to the
 * kernel, or is on another host and renews its lease no more. */
static gcoll_status is_gone(gcoll_context *context, uint32_t rank, const gcoll_claimant *who, bool left) {
    char said[GCOLL_CLAIMANT_SAID];
    const gcoll_meeting *meeting = context->rendezvous->meeting;
    const bool is_seen = gcoll_claimant_life(&meeting->self, who) != GCOLL_LIFE_UNKNOWN;
    gcoll_claimant_say(who, said);
    return gcoll_error(GCOLL_ERR_PEER, "job '%s'%s: rank %u, %s, %s", context->settings.job,
                       meeting->launch_said, rank, said,
                       left ? "ended while ranks joined, and left no reason"
                       : is_seen
                           ? "died while it joined"
                           : "showed no life for seconds while ranks joined: it died, was stopped, or does "
                             "not reach the store");
}

/* ---- Rank 0 ------------------------------------------------------------------------------- */

/* The state of another rank, as rank 0 knows it. */
typedef struct seat {
    gcoll_claimant who;
    bool claimed;
    gcoll_pulse pulse;
    int64_t dead_ms; /* when it was first found dead; 0: it lives */
} seat;

/* The state of all ranks while rank 0 gathers them. */
struct gathering {
    seat *seats;
    uint64_t *processors;      /* ids of the ranks below `there` */
    uint64_t *hosts;           /* the same */
    uint32_t there;            /* the first rank whose address is not there yet */
    bool came;                 /* a rank has joined since the last check */
    int64_t first_ms, last_ms; /* times of the first and the last arrival */
    int64_t next_watch_ms;
};

static void gathering_free(struct gathering *g) {
    free(g->seats);
    free(g->processors);
    free(g->hosts);
}

static gcoll_status gathering_create(struct gathering *g, const gcoll_context *context) {
    const int64_t now = gcoll_now_ms();
    *g = (struct gathering){.seats = calloc(context->size, sizeof *g->seats),
                            .processors = calloc(context->size, sizeof *g->processors),
                            .hosts = calloc(context->size, sizeof *g->hosts),
                            .came = true,
                            .first_ms = context->rendezvous->meeting->began_ms,
                            .last_ms = now,
                            .next_watch_ms = now + WATCH_MS};
    if (g->seats && g->processors && g->hosts) {
        g->seats[0].who = context->rendezvous->meeting->self;
        return GCOLL_OK;
    }
    gathering_free(g);
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "size: no memory for %u ranks", context->size);
}

/* The claimant at the end of a record: after the address, the host and the processors. */
static bool read_claimant(const char *record, gcoll_claimant *who) {
    for (int words = 0; record && words < 3; words++) {
        record = strchr(record, ' ');
        record = record ? record + 1 : NULL;
    }
    return record && gcoll_claimant_read(record, who);
}

/* Notes the claimant of a rank, if it is new or another one than before. */
static void seat_claimant(struct gathering *g, uint32_t rank, const gcoll_claimant *who) {
    seat *s = &g->seats[rank];
    if (s->claimed && s->who.nonce == who->nonce)
        return;
    *s = (seat){.who = *who, .claimed = true};
    g->last_ms = gcoll_now_ms();
    const int64_t waited_ms =
        who->waited_ms < SETTLE_LONGEST_MS ? (int64_t)who->waited_ms : SETTLE_LONGEST_MS;
    if (g->last_ms - waited_ms < g->first_ms)
        g->first_ms = g->last_ms - waited_ms;
    g->there = rank < g->there ? rank : g->there; /* the known address was the previous claimant's */
}

/* Checks that an address belongs to the current holder of the rank: a rank that was taken over may still
 * have the old address. */
static gcoll_status check_seat(gcoll_context *context, struct gathering *g, uint32_t rank,
                               const gcoll_claimant *who, bool *is_current) {
    gcoll_claimant holder;
    *is_current = true;
    if (rank == 0 || !g->seats[rank].claimed || g->seats[rank].who.nonce == who->nonce)
        return GCOLL_OK;
    gcoll_status status = gcoll_rank_holder(context, rank, &holder);
    *is_current = status == GCOLL_OK && holder.nonce == who->nonce;
    return status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
}

/* Raises g->there to the first rank whose address is not there yet. */
static gcoll_status count_addresses(gcoll_context *context, struct gathering *g) {
    char key[GCOLL_STORE_KEY_MAX + 1], record[GCOLL_RECORD_MAX];
    gcoll_claimant who;
    bool is_current = true;
    while (g->there < context->size) {
        const uint32_t rank = g->there;
        gcoll_lease_renew(context); /* in large jobs on slow stores this loop takes longer than a lease */
        gcoll_rendezvous_key(context, key, "%s/addr.%u", context->rendezvous->generation, rank);
        gcoll_status status = gcoll_visit_text(context, key, record, sizeof record);
        if (status == GCOLL_ERR_NOT_FOUND || (status == GCOLL_OK && record[0] == '!'))
            return GCOLL_OK; /* a broken rank has written its verdict to "go", too */
        if (status == GCOLL_OK && !read_claimant(record, &who))
            status = nonsense(key);
        if (status == GCOLL_OK)
            status = check_seat(context, g, rank, &who, &is_current);
        if (status != GCOLL_OK || !is_current)
            return status;
        seat_claimant(g, rank, &who);
        g->processors[rank] = gcoll_rendezvous_processors(record);
        g->hosts[rank] = gcoll_rendezvous_host(record);
        g->there = rank + 1;
    }
    return GCOLL_OK;
}

/* Ends the launch because a rank is dead, unless the rank is restarted within the grace. */
static gcoll_status watch_dead(gcoll_context *context, struct gathering *g, uint32_t rank, int64_t now) {
    seat *s = &g->seats[rank];
    gcoll_claimant holder;
    if (s->dead_ms == 0)
        s->dead_ms = now;
    gcoll_status status = gcoll_rank_holder(context, rank, &holder);
    if (status == GCOLL_OK)
        seat_claimant(g, rank, &holder);
    if (status != GCOLL_OK && status != GCOLL_ERR_NOT_FOUND)
        return status;
    return s->dead_ms != 0 && now - s->dead_ms >= RESTART_MS
               ? end_launch(context, is_gone(context, rank, &s->who, left_in_order(context, rank)))
               : GCOLL_OK;
}

/* Checks that all claimants are alive. */
static gcoll_status watch(gcoll_context *context, struct gathering *g) {
    const int64_t now = gcoll_now_ms(), interval = context->size > WATCH_MS ? context->size : WATCH_MS;
    gcoll_status status = GCOLL_OK;
    if (now < g->next_watch_ms)
        return GCOLL_OK;
    g->next_watch_ms = now + interval;
    for (uint32_t rank = 1; rank < context->size && status == GCOLL_OK; rank++) {
        seat *s = &g->seats[rank];
        gcoll_claimant holder;
        gcoll_lease_renew(context);
        if (!s->claimed) {
            status = gcoll_rank_holder(context, rank, &holder);
            if (status == GCOLL_OK)
                seat_claimant(g, rank, &holder);
            status = status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
        }
        if (status != GCOLL_OK || !s->claimed)
            continue;
        if (gcoll_lease_life(context, context->rendezvous->generation, rank, &s->who, &s->pulse) ==
            GCOLL_LIFE_DEAD)
            status = watch_dead(context, g, rank, now);
        else
            s->dead_ms = 0;
    }
    return status;
}

/* Ends the launch if a rank that is missing was refused (refusals.c). */
static gcoll_status heed_refusal(gcoll_context *context) {
    const uint32_t rank = gcoll_refusal_rank(context, false);
    enum progress progress = ANNOUNCED;
    gcoll_claimant who;
    if (rank == GCOLL_NO_RANK)
        return GCOLL_OK;
    gcoll_status status = rank == 0 ? GCOLL_OK : find_progress(context, rank, &progress, &who);
    if (status != GCOLL_OK)
        return status;
    if (progress == ABSENT)
        return end_launch(context, gcoll_refusal_error(context));
    gcoll_refusal_forget(context);
    return GCOLL_OK;
}

/* How long rank 0 waits, when all ranks are there, for a second launch of the same name to appear. */
static int64_t settling_ms(const gcoll_context *context, const struct gathering *g) {
    int64_t spread = g->last_ms - g->first_ms;
    bool one_process = true;
    for (uint32_t rank = 1; rank < context->size && one_process; rank++)
        one_process = gcoll_claimant_is_process(&g->seats[rank].who, &context->rendezvous->meeting->self);
    if (one_process || context->rendezvous->meeting->launch[0])
        return 0;
    spread = spread < SETTLE_LEAST_MS ? SETTLE_LEAST_MS : spread;
    return remaining(g->last_ms + (spread < SETTLE_LONGEST_MS ? spread : SETTLE_LONGEST_MS));
}

/* Before go: the first rank whose process is dead, or 0. Not checked if all ranks joined quickly: a death in
 * so short a time is as good as one after go. */
static uint32_t find_dead(const gcoll_context *context, const struct gathering *g) {
    if (gcoll_now_ms() - g->first_ms < WATCH_MS)
        return 0;
    for (uint32_t rank = 1; rank < context->size; rank++)
        if (gcoll_claimant_life(&context->rendezvous->meeting->self, &g->seats[rank].who) == GCOLL_LIFE_DEAD)
            return rank;
    return 0;
}

static gcoll_status say_go(gcoll_context *context, struct gathering *g) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[GCOLL_VERDICT_MAX + 8];
    gcoll_status status = gcoll_launch_check(context);
    if (status != GCOLL_OK)
        return end_launch(context, status);
    status = gcoll_rendezvous_publish_shared(context, g->processors);
    if (status == GCOLL_OK)
        status = gcoll_rendezvous_note_hosts(context, g->hosts);
    if (status == GCOLL_OK)
        status = gcoll_launch_end(context);
    gcoll_rendezvous_key_of(context, key, "go");
    if (status == GCOLL_OK)
        status = gcoll_visit_set_new(context, key, "go");
    if (status != GCOLL_ERR_STATE)
        return status;
    status = gcoll_visit_text(context, key, text, sizeof text);
    return status == GCOLL_OK ? heed(context, text) : status;
}

/* Waits for a verdict. TIMEOUT with `told` unset: there is none. */
static gcoll_status listen(gcoll_context *context, int64_t wait_ms) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[GCOLL_VERDICT_MAX + 8];
    gcoll_rendezvous_key_of(context, key, "go");
    gcoll_status status = gcoll_visit_wait(context, key, wait_ms);
    if (status == GCOLL_OK)
        status = gcoll_visit_text(context, key, text, sizeof text);
    if (status != GCOLL_OK)
        return status;
    status = heed(context, text);
    return status == GCOLL_OK ? nonsense(key) : status; /* only this rank may say go */
}

/* Rank 0's time is over. Takes the launch away before the verdict is there, as before go: a rank that comes
 * now may belong to the next launch, and must not end by the timeout of this one. */
static gcoll_status end_in_vain(gcoll_context *context, gcoll_status status) {
    char cause[GCOLL_VERDICT_MAX];
    snprintf(cause, sizeof cause, "%s", gcoll_last_error());
    gcoll_visits_to_tell(context, gcoll_now_ms() + REFUSE_MS);
    if (status == GCOLL_ERR_TIMEOUT && gcoll_launch_check(context) == GCOLL_OK)
        gcoll_launch_end(context);
    gcoll_visits_to_tell(context, gcoll_now_ms() + REFUSE_MS);
    return end_launch(context, gcoll_error(status, "%s", cause));
}

/* Waits for all addresses and says go; or fails, because of a verdict or for a reason of its own. */
static gcoll_status gather(gcoll_context *context, int64_t deadline_ms, struct gathering *g) {
    int64_t pause_ms = FIRST_PAUSE_MS;
    for (;;) {
        const uint32_t before = g->there;
        const int64_t left = remaining(deadline_ms);
        gcoll_lease_renew(context);
        if (g->there < context->size) {
            gcoll_trace_renew(context);
            gcoll_refusal_look(context, false);
        }
        gcoll_status status = count_addresses(context, g);
        if (status == GCOLL_OK)
            status = watch(context, g);
        if (status == GCOLL_OK && g->there < context->size)
            status = heed_refusal(context);
        if (status == GCOLL_ERR_TIMEOUT && remaining(deadline_ms) == 0 && !context->rendezvous->meeting->told)
            return end_in_vain(context, too_slow(context));
        if (status != GCOLL_OK)
            return status;
        const bool all = g->there == context->size;
        const int64_t settling = all ? settling_ms(context, g) : 0;
        const bool ready = all && (settling == 0 || left == 0);
        const uint32_t dead = ready ? find_dead(context, g) : 0;
        if (ready && dead == 0)
            return say_go(context, g);
        if (left == 0)
            return end_in_vain(
                context, dead > 0 ? is_gone(context, dead, &g->seats[dead].who, left_in_order(context, dead))
                                  : name_missing(context));
        pause_ms = g->there > before                 ? FIRST_PAUSE_MS
                   : pause_ms < LONGEST_PAUSE_MS / 2 ? pause_ms * 2
                                                     : LONGEST_PAUSE_MS;
        pause_ms = settling > 0 && settling < pause_ms ? settling : pause_ms;
        status = listen(context, left < pause_ms ? left : pause_ms);
        if (status != GCOLL_ERR_TIMEOUT || context->rendezvous->meeting->told)
            return status;
    }
}

/* Whether a rank has joined the launch: it has published its address, or has left since. A claim alone is
 * not enough, as the rank then checks once more that the launch exists. */
static gcoll_status has_joined(gcoll_context *context, uint32_t rank, bool *joined) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[GCOLL_CLAIMANT_TEXT + 1];
    size_t bytes;
    *joined = true;
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->rendezvous->generation, rank);
    gcoll_status status = gcoll_visit_get(context, key, text, 1, &bytes);
    if (status == GCOLL_OK ||
        status == GCOLL_ERR_INVALID) /* INVALID: too long for the buffer, so it exists */
        return GCOLL_OK;
    if (status != GCOLL_ERR_NOT_FOUND)
        return status;
    gcoll_rendezvous_key(context, key, "%s/rank.%u", context->rendezvous->generation, rank);
    status = gcoll_visit_text(context, key, text, sizeof text);
    *joined = status == GCOLL_OK && text[0] == GCOLL_LEFT_MARK;
    return status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
}

static gcoll_status find_all_joined(gcoll_context *context, uint32_t *first, bool *all) {
    gcoll_status status = GCOLL_OK;
    bool joined = true;
    while (*first < context->size && status == GCOLL_OK && joined) {
        status = has_joined(context, *first, &joined);
        *first += status == GCOLL_OK && joined;
    }
    *all = *first == context->size;
    return status;
}

/* Keeps the verdict in the store for a moment, so that late ranks read it, too; if a rank was claimed twice,
 * also the ranks of the other launch. */
static void answer_the_late(gcoll_context *context, gcoll_status why) {
    uint32_t first = 1;
    bool all = false;
    gcoll_status status = GCOLL_OK;
    gcoll_visits_until(context, gcoll_now_ms() + (why == GCOLL_ERR_MISMATCH ? TWICE_MS : LATE_MS) + LATE_MS);
    /* The last LATE_MS are left for removing the launch. */
    const int64_t end_ms = context->rendezvous->meeting->limit_ms - LATE_MS;
    while (status == GCOLL_OK && gcoll_now_ms() < end_ms) {
        gcoll_lease_renew(context);
        if (why != GCOLL_ERR_MISMATCH)
            status = find_all_joined(context, &first, &all);
        if (all)
            return;
        usleep(LATE_PAUSE_MS * 1000);
    }
}

/* ---- All ranks ---------------------------------------------------------------------------- */

gcoll_status gcoll_rendezvous_begin(gcoll_context *context, int64_t deadline_ms) {
    context->rendezvous->generation[0] = '\0';
    gcoll_visits_until(context, deadline_ms);
    if (context->rank != 0) {
        gcoll_status status = gcoll_launch_find(context, deadline_ms);
        gcoll_visits_until(context, deadline_ms + GCOLL_TELL_MS); /* rank 0 counts the time from now on */
        return status;
    }
    context->rendezvous->joined = true; /* set now, in case a later step fails half-way */
    return gcoll_generation_make(context->rendezvous->generation);
}

gcoll_status gcoll_rendezvous_claim(gcoll_context *context, int64_t deadline_ms, bool *again) {
    *again = false;
    if (context->rank != 0)
        return gcoll_rank_claim(context, deadline_ms, again);
    gcoll_status status = gcoll_launch_claim(context, deadline_ms);
    context->rendezvous->meeting->told =
        status != GCOLL_OK && !context->rendezvous->meeting->unsure; /* no other rank knows of this launch */
    return status;
}

void gcoll_rendezvous_record(const char *address, char record[GCOLL_RECORD_MAX]) {
    snprintf(record, GCOLL_RECORD_MAX, "%s %016" PRIx64 " %016" PRIx64, address, gcoll_host_identity(),
             gcoll_processors_identity());
}

static gcoll_status announce(gcoll_context *context, const char *address) {
    char key[GCOLL_STORE_KEY_MAX + 1], *record = context->rendezvous->meeting->record,
                                       who[GCOLL_CLAIMANT_TEXT];
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->rendezvous->generation, context->rank);
    gcoll_claimant_write(&context->rendezvous->meeting->self, who);
    int bytes = snprintf(record, GCOLL_RECORD_MAX, "%s %016" PRIx64 " %016" PRIx64 " %s", address,
                         context->rendezvous->meeting->self.host, gcoll_processors_identity(), who);
    return gcoll_visit_set(context, key, record, (size_t)bytes);
}

void gcoll_rendezvous_refuse(gcoll_context *context, gcoll_status status) {
    gcoll_meeting *meeting = context->rendezvous->meeting;
    char cause[GCOLL_VERDICT_MAX];
    if (context->rendezvous->generation[0] == '\0' && status == GCOLL_ERR_PROTOCOL &&
        strstr(gcoll_last_error(), GCOLL_STORE_SIGNED_SAYS))
        leave_unlike(context);
    if (context->rendezvous->generation[0] == '\0' || meeting->complete)
        return;
    snprintf(cause, sizeof cause, "%s", gcoll_last_error());
    gcoll_visits_to_tell(context, gcoll_now_ms() + REFUSE_MS);
    meeting->has_failed = true;
    if (!meeting->told && !meeting->store_stuck) {
        if (context->rank == 0 && !meeting->has_led &&
            gcoll_launch_claim(context, meeting->limit_ms) != GCOLL_OK)
            meeting->told = true;
        gcoll_error(GCOLL_ERR_PEER, "job '%s'%s: rank %u could not join: %.300s", context->settings.job,
                    meeting->launch_said, context->rank, cause);
        end_launch(context, GCOLL_ERR_PEER);
    }
    if (!meeting->store_stuck && !context->rendezvous->joined &&
        meeting->belongs) /* the last to leave tidies up */
        context->rendezvous->joined = gcoll_rank_leave(context) == GCOLL_OK;
    gcoll_error(status, "%s", cause);
    gcoll_refusal_leave_note(context);
    if (meeting->leads && !meeting->store_stuck && status != GCOLL_ERR_TIMEOUT)
        answer_the_late(context, status);
    if (meeting->leads && !meeting->store_stuck && gcoll_launch_check(context) == GCOLL_OK)
        gcoll_launch_end(context);
    gcoll_error(status, "%s", cause);
}

static gcoll_status rank_0_died(gcoll_context *context, bool gone_on) {
    char key[GCOLL_STORE_KEY_MAX + 1], verdict[GCOLL_VERDICT_MAX];
    gcoll_status status = is_gone(context, 0, &context->rendezvous->meeting->lead,
                                  !gone_on && left_in_order(context, 0)); /* go takes the launch away */
    if (!gone_on)
        return end_launch(context, status);
    gcoll_rendezvous_key_of(context, key, "agreed");
    snprintf(verdict, sizeof verdict, "!%d %.480s", (int)status, gcoll_last_error());
    gcoll_visit_set_new(context, key, verdict);
    context->rendezvous->meeting->told = true;
    return gcoll_rendezvous_verdict(verdict);
}

/* A waiting rank checks for a verdict, and for the death of rank 0. TIMEOUT with `told` unset: neither.
 * After go rank 0 renews no lease, so only its process is checked. */
static gcoll_status look_around(gcoll_context *context, const char *name, gcoll_pulse *pulse) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[GCOLL_VERDICT_MAX + 8], some[1];
    const gcoll_claimant *lead = &context->rendezvous->meeting->lead;
    size_t bytes;
    gcoll_rendezvous_key_of(context, key, "go");
    gcoll_status status = gcoll_visit_text(context, key, text, sizeof text);
    const bool gone_on = status == GCOLL_OK;
    if (status == GCOLL_OK)
        status = heed(context, text);
    if (status != GCOLL_OK && status != GCOLL_ERR_NOT_FOUND)
        return status;
    gcoll_life life = gone_on ? gcoll_claimant_life(&context->rendezvous->meeting->self, lead)
                              : gcoll_lease_life(context, context->rendezvous->generation, 0, lead, pulse);
    if (life != GCOLL_LIFE_DEAD)
        return GCOLL_ERR_TIMEOUT;
    gcoll_rendezvous_key_of(context, key, name); /* rank 0 may have written the key before it ended */
    status = gcoll_visit_get(context, key, some, sizeof some, &bytes);
    if (status == GCOLL_ERR_INVALID) /* it is longer than that: it is there */
        return GCOLL_OK;
    return status == GCOLL_ERR_NOT_FOUND ? rank_0_died(context, gone_on) : status;
}

/* As gcoll_rendezvous_await. *soon: what was heard came in the first interval of the wait. */
static gcoll_status await_key(gcoll_context *context, const char *name, int64_t limit_ms, char *text,
                              size_t size, bool *soon) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    const int64_t interval = gcoll_lease_interval_ms(context);
    gcoll_pulse pulse = {0};
    gcoll_status status = GCOLL_ERR_TIMEOUT;
    gcoll_rendezvous_key_of(context, key, name);
    for (uint32_t rounds = 0; status == GCOLL_ERR_TIMEOUT; rounds++) {
        const int64_t left = remaining(limit_ms);
        *soon = rounds == 0;
        gcoll_lease_renew(context);
        status = gcoll_visit_wait(context, key, left < interval ? left : interval);
        if (status == GCOLL_ERR_TIMEOUT && left <= interval)
            return status;
        if (status == GCOLL_ERR_TIMEOUT)
            status = look_around(context, name, &pulse);
        if (status == GCOLL_ERR_TIMEOUT && context->rendezvous->meeting->told)
            return status; /* the last error is the verdict */
    }
    return status == GCOLL_OK ? gcoll_visit_text(context, key, text, size) : status;
}

gcoll_status gcoll_rendezvous_await(gcoll_context *context, const char *name, int64_t limit_ms, char *text,
                                    size_t size) {
    bool soon;
    return await_key(context, name, limit_ms, text, size, &soon);
}

/* Waits longer if rank 0 has said go: it measures after the deadline if the last rank joined just before it.
 * TIMEOUT with `told` unset: rank 0 has not said go (*gone_on), or takes even longer. */
static gcoll_status await_late(gcoll_context *context, int64_t deadline_ms, bool *gone_on) {
    const int64_t extended_ms = deadline_ms + context->settings.timeout_ms / GCOLL_FIT_LEAST_PART;
    char key[GCOLL_STORE_KEY_MAX + 1], text[GCOLL_VERDICT_MAX + 8];
    gcoll_visits_until(context, deadline_ms + GCOLL_TELL_MS);
    gcoll_rendezvous_key_of(context, key, "go");
    gcoll_status status = gcoll_visit_text(context, key, text, sizeof text);
    if (status == GCOLL_OK)
        status = heed(context, text);
    *gone_on = status == GCOLL_OK;
    if (status != GCOLL_OK)
        return status == GCOLL_ERR_NOT_FOUND ? GCOLL_ERR_TIMEOUT : status;
    gcoll_meeting_extend(context, extended_ms);
    gcoll_visits_until(context, extended_ms + GCOLL_TELL_MS);
    return gcoll_rendezvous_await(context, "agreed", extended_ms + GCOLL_WORD_MS,
                                  context->rendezvous->meeting->agreed, GCOLL_AGREED_MAX);
}

/* The time to wait for rank 0 is over. OK: its word came at the last moment. */
static gcoll_status give_up(gcoll_context *context, bool asked, int64_t deadline_ms) {
    bool gone_on = false, passed = false;
    gcoll_status status = asked ? GCOLL_ERR_TIMEOUT : await_late(context, deadline_ms, &gone_on);
    if (status != GCOLL_ERR_TIMEOUT || context->rendezvous->meeting->told)
        return status;
    status = name_missing(context);
    gcoll_visits_to_tell(context, gcoll_now_ms() + REFUSE_MS);
    status = end_unless_passed(context, status, &passed);
    if (!passed || gone_on)
        return status;
    context->rendezvous->meeting->told = false;
    status = asked ? GCOLL_OK : await_late(context, deadline_ms, &gone_on);
    return status == GCOLL_ERR_TIMEOUT && !context->rendezvous->meeting->told ? name_missing(context)
                                                                              : status;
}

/* Waits for the word of rank 0. After a verdict, all ranks report its text. *again: the verdict says that the
 * time of the launch is over, and was there when this rank came, or at once after that. So those who wrote it
 * did not know of this rank. It may belong to the next launch, and waits for that. */
static gcoll_status await_go(gcoll_context *context, bool asked, int64_t deadline_ms, bool *again) {
    char word[GCOLL_VERDICT_MAX + 8] = "", *text = asked ? word : context->rendezvous->meeting->agreed;
    bool soon = false;
    gcoll_status status = await_key(context, asked ? "go" : "agreed", deadline_ms + GCOLL_WORD_MS, text,
                                    asked ? sizeof word : GCOLL_AGREED_MAX, &soon);
    if (status == GCOLL_ERR_TIMEOUT && !context->rendezvous->meeting->told) {
        status = give_up(context, asked, deadline_ms);
        soon = false;
    }
    if (status == GCOLL_OK && text[0] == '!')
        status = heed(context, text);
    *again = status == GCOLL_ERR_TIMEOUT && context->rendezvous->meeting->told && soon &&
             remaining(deadline_ms) > 0;
    return status; /* tuning.c parses the agreed text */
}

/* Leaves a launch that was over when this rank came, to join the next one. */
static void leave_for_next(gcoll_context *context) {
    gcoll_meeting *meeting = context->rendezvous->meeting;
    gcoll_launch_pass(context);
    gcoll_rendezvous_leave(context, gcoll_now_ms() + REFUSE_MS);
    context->rendezvous->joined = meeting->belongs = meeting->inherited = false;
    meeting->told = meeting->spoke = meeting->has_failed = false;
    meeting->agreed[0] = '\0';
    meeting->beats = 0;
    meeting->next_beat_ms = 0;
}

static gcoll_status lead(gcoll_context *context, int64_t deadline_ms) {
    struct gathering g;
    gcoll_status status = gathering_create(&g, context);
    if (status != GCOLL_OK)
        return status;
    status = gather(context, deadline_ms, &g);
    gcoll_trace_remove(context);
    gathering_free(&g);
    return status;
}

/* Checks that this process still holds its rank. If another process has taken over, this one touches neither
 * its keys nor its launch. */
static gcoll_status check_place(gcoll_context *context) {
    gcoll_meeting *meeting = context->rendezvous->meeting;
    gcoll_status status = context->rank == 0 ? GCOLL_OK : gcoll_rank_check(context);
    if (status == GCOLL_ERR_MISMATCH) {
        context->rendezvous->joined = meeting->belongs = false;
        meeting->told = true;
    }
    return status;
}

gcoll_status gcoll_rendezvous_finish(gcoll_context *context, const char *address, bool has_part,
                                     int64_t deadline_ms, uint32_t *local_ranks, bool *again) {
    const gcoll_meeting *meeting = context->rendezvous->meeting;
    /* The rank was claimed at this time or later. */
    const int64_t claimed_ms = meeting->began_ms + (int64_t)meeting->self.waited_ms;
    gcoll_status status = GCOLL_OK;
    *again = false;
    gcoll_visits_until(context, deadline_ms + GCOLL_TELL_MS);
    if (gcoll_now_ms() - claimed_ms >= REPLACED_MS) /* must not overwrite a successor's address */
        status = check_place(context);
    if (status == GCOLL_OK)
        status = announce(context, address);
    if (status == GCOLL_OK)
        status =
            context->rank == 0 ? lead(context, deadline_ms) : await_go(context, has_part, deadline_ms, again);
    if (*again) {
        leave_for_next(context);
        return GCOLL_OK;
    }
    if (status == GCOLL_OK)
        status = check_place(context);
    context->rendezvous->meeting->complete = status == GCOLL_OK;
    return status == GCOLL_OK ? gcoll_rendezvous_count_shared(context, local_ranks) : status;
}

void gcoll_meeting_extend(gcoll_context *context, int64_t deadline_ms) {
    gcoll_meeting *meeting = context->rendezvous->meeting;
    if (deadline_ms > meeting->deadline_ms)
        meeting->deadline_ms = deadline_ms;
}

int64_t gcoll_meeting_deadline(const gcoll_context *context) {
    return context->rendezvous->meeting->deadline_ms;
}

bool gcoll_rendezvous_was_told(const gcoll_context *context) {
    return context->rendezvous->meeting->told;
}

const char *gcoll_rendezvous_agreed(const gcoll_context *context) {
    return context->rendezvous->meeting->agreed;
}

void gcoll_rendezvous_end(gcoll_context *context, gcoll_status status) {
    gcoll_rendezvous *rendezvous = context->rendezvous;
    rendezvous->meeting->creating = false;
    gcoll_visits_end(context);
    if (status == GCOLL_OK) /* the lifetime of its keys began with the meeting */
        rendezvous->keep_ms = rendezvous->meeting->began_ms + GCOLL_KEEP_AGAIN_MS;
}

bool gcoll_rendezvous_has_joined(const gcoll_context *context) {
    return context->rendezvous->joined;
}

bool gcoll_rendezvous_is_complete(const gcoll_context *context) {
    return context->rendezvous->joined && context->rendezvous->meeting->complete;
}
