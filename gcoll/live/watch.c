/*
 * gcoll/live/watch.c - watches long waits, and decides which rank to blame when a wait takes too long.
 *
 * A rank that waits for long probes the ranks that it waits for. A rank that does not answer is suspected,
 * and every answer names the suspect of its sender. So the name of a stopped rank travels along the chain of
 * waiting ranks, and all of them blame the same rank when the time limit is reached.
 *
 * The limit counts the time in which no data has moved. A peer is alive if anything has arrived from it since
 * the probe, as the answer itself may be queued behind much data. Answers also tell how much data has moved
 * at the sender, and at a rank that it heard of, so a rank notices progress that it is not part of.
 *
 * A dead host is found earlier than a stopped process: the kernel sees that nothing is acknowledged, while
 * the host of a stopped process still acknowledges.
 */
#include "gcoll/live/watch.h"

#include <stdlib.h>
#include <string.h>

#include "gcoll/accelerate/accelerate.h"
#include "gcoll/rendezvous/rendezvous.h"

#define LONGEST_RUMOUR 6    /* hops that a suspect's name travels; the limit keeps it from circling */
#define HEAR_US        1000 /* a poll this long reads everything that has arrived */
/* If all ranks answer, a wait lasts for its limit and so many eighths of it more. */
#define INFORMED_PARTS 2     /* for a rank that has not come */
#define LAST_PARTS     4     /* for a rank that waits itself */
#define KEEP_WITHIN_MS 60000 /* longer waits renew keys in the store; shorter ones leave it for later */

gcoll_status gcoll_watcher_create(gcoll_context *context) {
    gcoll_watcher *watcher = calloc(1, sizeof *watcher);
    if (!watcher)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a context");
    watcher->limit_ms = context->settings.timeout_ms;
    watcher->doubted = GCOLL_NO_RANK;
    context->live->watcher = watcher;
    return GCOLL_OK;
}

void gcoll_watcher_free(gcoll_context *context) {
    gcoll_watcher *watcher = context->live->watcher;
    if (watcher)
        gcoll_release(context, watcher->vitals, context->size * sizeof *watcher->vitals);
    free(watcher);
}

/* ---- Signs of life ------------------------------------------------------------------------ */

/* Reads the transport's counters of a peer. Anything that arrived since the last look is a sign of life. */
static gcoll_sight look_at(gcoll_context *context, uint32_t peer) {
    gcoll_vitals *life = &context->live->watcher->vitals[peer];
    gcoll_sight sight;
    context->transport->look(context->endpoint, peer, &sight);
    if (sight.heard != life->heard || sight.taken != life->taken)
        life->since_ms = context->live->watcher->watched_ms;
    life->heard = sight.heard;
    life->taken = sight.taken;
    return sight;
}

/* Probes a peer once a round. Its silence is counted from now if it was not probed in the round before. */
static bool ask(void *arg, uint32_t peer) {
    gcoll_context *context = arg;
    gcoll_watcher *watcher = context->live->watcher;
    gcoll_vitals *life = &watcher->vitals[peer];
    if (life->asked == watcher->probe_round)
        return true;
    look_at(context, peer);
    if (life->asked + 1 != watcher->probe_round)
        life->since_ms = watcher->watched_ms;
    life->asked = watcher->probe_round;
    life->answered = false;
    context->transport->probe(context->endpoint, peer);
    return true;
}

static void publish_rumour(gcoll_context *context, uint32_t suspect, uint32_t hops) {
    gcoll_live *live = context->live;
    live->suspect = suspect;
    live->rumour =
        (uint64_t)hops << GCOLL_SUSPECT_BITS | (suspect == GCOLL_NO_RANK ? 0 : suspect + UINT64_C(1));
    gcoll_watch_publish(context, live->position);
}

/* The fingerprint and the number of the oldest operation in which this rank waits; NULL and 0: in none. */
static const uint8_t *find_concern(const gcoll_context *context, uint64_t *stream) {
    const uint8_t *fingerprint = NULL;
    *stream = 0;
    for (uint32_t i = 0; i < GCOLL_ACTIVITIES && !fingerprint; i++) {
        const gcoll_activity *activity = context->live->activities[i];
        if (activity && activity->concern)
            fingerprint = activity->concern(context, stream);
    }
    return fingerprint;
}

/* Puts the operation in which this rank waits into its probes. Two ranks that wait in different operations
 * may exchange no other message that shows the mismatch. */
static void publish_concern(gcoll_context *context) {
    uint64_t stream;
    const uint8_t *fingerprint = find_concern(context, &stream);
    context->transport->set_concern(context->endpoint, stream, fingerprint);
}

/* Notes that data has moved at a rank, and puts that into this rank's answers. So the news travels up the
 * chain of waiting ranks. A rank ignores news that it has, so no news circles. */
static void heed_news(gcoll_context *context, uint32_t rank, uint32_t moves) {
    gcoll_vitals *life = &context->live->watcher->vitals[rank];
    if (life->moves_known && (int32_t)(moves - life->moves) <= 0)
        return;
    life->moves_known = true;
    life->moves = moves;
    context->live->watcher->news++;
    context->transport->set_news(context->endpoint, rank, moves);
}

void gcoll_watch_answered(void *arg, uint32_t peer, const gcoll_answer *answer) {
    gcoll_context *context = arg;
    gcoll_watcher *watcher = context->live->watcher;
    uint64_t suspect = answer->position & ((UINT64_C(1) << GCOLL_SUSPECT_BITS) - 1);
    if (!watcher->vitals) /* no probe was sent yet */
        return;
    gcoll_vitals *life = &watcher->vitals[peer];
    if ((int32_t)(life->told - watcher->first_round) <
        0) { /* data that moved before this wait does not count */
        life->moves_known = true;
        life->moves = answer->moves;
    }
    life->told = watcher->probe_round;
    heed_news(context, peer, answer->moves);
    if (answer->news_of < context->size && answer->news_of != context->rank)
        heed_news(context, answer->news_of, answer->news);
    life->answered = true;
    life->position = answer->position >> (GCOLL_SUSPECT_BITS + GCOLL_HOP_BITS);
    life->suspect_hops = (uint32_t)(answer->position >> GCOLL_SUSPECT_BITS) & ((1U << GCOLL_HOP_BITS) - 1);
    life->suspect = suspect == 0 || suspect > context->size ? GCOLL_NO_RANK : (uint32_t)suspect - 1;
    if (life->suspect != GCOLL_NO_RANK && life->suspect != context->rank)
        ask(context, life->suspect); /* it may have recovered, or be reachable from here */
}

void gcoll_watch_witnessed(void *arg, uint32_t by, uint32_t about, int64_t ago_ms) {
    gcoll_context *context = arg;
    const int64_t alive_ms = gcoll_now_ms() - ago_ms;
    if (about != context->live->watcher->doubted || alive_ms <= context->live->watcher->witness_ms)
        return;
    context->live->watcher->witness = by;
    context->live->watcher->witness_ms = alive_ms;
}

struct suspicion {
    gcoll_context *context;
    uint32_t waited;  /* of the peers that are waited for, the one that has begun the fewest operations */
    uint32_t silent;  /* the waited-for rank that has been silent longest */
    uint32_t hearsay; /* a rank that an answering peer suspects */
    uint32_t teller;  /* that peer */
    uint32_t mute;    /* the rank whose host has acknowledged nothing for the longest time */
    int64_t silent_ms, mute_ms;
    uint32_t repeats; /* retransmissions to the mute rank */
};

/* Whether a probed peer has had time to answer, and has sent nothing. */
static bool is_silent(const gcoll_context *context, uint32_t peer) {
    const gcoll_watcher *watcher = context->live->watcher;
    const gcoll_vitals *life = &watcher->vitals[peer];
    return life->asked == watcher->probe_round &&
           watcher->watched_ms - life->since_ms >= gcoll_watch_interval_ms(context) / 2;
}

/* Whether to believe the suspicion of `teller`: not if it names this rank, or a rank that this one hears
 * from. */
static bool is_credible(gcoll_context *context, const gcoll_vitals *teller) {
    if (teller->suspect == GCOLL_NO_RANK || teller->suspect == context->rank ||
        teller->suspect_hops >= LONGEST_RUMOUR)
        return false;
    look_at(context, teller->suspect);
    return !context->live->watcher->vitals[teller->suspect].answered && is_silent(context, teller->suspect);
}

static bool suspect_peer(void *arg, uint32_t peer) {
    struct suspicion *suspicion = arg;
    gcoll_context *context = suspicion->context;
    const gcoll_watcher *watcher = context->live->watcher;
    const gcoll_vitals *life = &watcher->vitals[peer];
    if (suspicion->waited == GCOLL_NO_RANK || life->position < watcher->vitals[suspicion->waited].position)
        suspicion->waited = peer;
    if (life->asked != watcher->probe_round)
        return true;
    const gcoll_sight sight = look_at(context, peer);
    const int64_t silent_ms = watcher->watched_ms - life->since_ms;
    if (is_silent(context, peer) && silent_ms > suspicion->silent_ms) {
        suspicion->silent = peer;
        suspicion->silent_ms = silent_ms;
    }
    /* The kernel counts from the peer's last packet, which may be long before the wait began. */
    const int64_t mute_ms = sight.mute_ms < silent_ms ? sight.mute_ms : silent_ms;
    if (mute_ms > suspicion->mute_ms) {
        suspicion->mute = peer;
        suspicion->mute_ms = mute_ms;
        suspicion->repeats = sight.repeats;
    }
    if (life->answered && suspicion->hearsay == GCOLL_NO_RANK && is_credible(context, life)) {
        suspicion->hearsay = life->suspect;
        suspicion->teller = peer;
    }
    return true;
}

static struct suspicion no_suspects(gcoll_context *context) {
    return (struct suspicion){.context = context,
                              .waited = GCOLL_NO_RANK,
                              .silent = GCOLL_NO_RANK,
                              .hearsay = GCOLL_NO_RANK,
                              .teller = GCOLL_NO_RANK,
                              .mute = GCOLL_NO_RANK};
}

/* Looks for suspects among all ranks that this rank waits for. */
static struct suspicion find_suspects(gcoll_context *context) {
    struct suspicion suspicion = no_suspects(context);
    gcoll_live_each_waited(context, suspect_peer, &suspicion);
    return suspicion;
}

/* Sets the rank that the next probes ask about: whether the probed ranks know it to be alive. */
static void set_doubt(gcoll_context *context, uint32_t rank) {
    gcoll_watcher *watcher = context->live->watcher;
    if (rank == watcher->doubted)
        return;
    watcher->doubted = rank;
    watcher->witness_ms = 0;
    if (context->transport->set_doubt)
        context->transport->set_doubt(context->endpoint, rank);
}

/* Asks every connected rank about the doubted one: a rank that this one does not wait for may have heard it.
 */
static void ask_witnesses(gcoll_context *context) {
    const uint32_t doubted = context->live->watcher->doubted;
    if (doubted == GCOLL_NO_RANK || !context->transport->set_doubt)
        return;
    for (uint32_t peer = 0; peer < context->size; peer++)
        if (peer != context->rank && peer != doubted && !gcoll_peer_has_departed(context, peer))
            context->transport->probe(context->endpoint, peer);
}

/* Publishes the current suspect, then sends the next round of probes. */
static void probe_round(gcoll_context *context, const struct suspicion *suspicion) {
    gcoll_watcher *watcher = context->live->watcher;
    const bool by_hearsay = suspicion->silent == GCOLL_NO_RANK && suspicion->hearsay != GCOLL_NO_RANK;
    set_doubt(context, suspicion->silent);
    if (by_hearsay)
        publish_rumour(context, suspicion->hearsay, watcher->vitals[suspicion->teller].suspect_hops + 1);
    else
        publish_rumour(context, suspicion->silent, 0);
    publish_concern(context);
    watcher->probe_round++;
    gcoll_live_each_waited(context, ask, context);
    ask_witnesses(context);
}

/* Whether another rank has heard from the peer recently, long after this rank did. */
static bool is_alive_elsewhere(const gcoll_context *context, uint32_t peer, int64_t silent_ms) {
    return peer == context->live->watcher->doubted && context->live->watcher->witness_ms != 0 &&
           gcoll_now_ms() - context->live->watcher->witness_ms < silent_ms / 2;
}

/* Blames the network and no rank: both ends may be healthy, and the caller must not drop one of them. */
static void blame_network(gcoll_context *context, gcoll_status status, uint32_t peer, int64_t silent_ms) {
    gcoll_break_operation(context, status, GCOLL_NO_RANK,
                          "nothing has arrived from rank %u for %lld ms, but it has answered rank %u since: "
                          "the network between ranks %u and %u is at fault",
                          peer, (long long)silent_ms, context->live->watcher->witness,
                          context->rank < peer ? context->rank : peer,
                          context->rank < peer ? peer : context->rank);
}

static void blame_host(gcoll_context *context, const struct suspicion *suspicion) {
    if (is_alive_elsewhere(context, suspicion->mute, suspicion->mute_ms))
        blame_network(context, GCOLL_ERR_PEER, suspicion->mute, suspicion->mute_ms);
    else
        gcoll_break_operation(context, GCOLL_ERR_PEER, suspicion->mute,
                              "rank %u cannot be reached any more: its host has acknowledged nothing for "
                              "%lld ms, sent %u times; the host or the network between may be down",
                              suspicion->mute, (long long)suspicion->mute_ms, suspicion->repeats + 1);
}

static void blame_silent(gcoll_context *context, const struct suspicion *suspicion, int64_t quiet_ms) {
    const int64_t ms = quiet_ms > suspicion->silent_ms ? quiet_ms : suspicion->silent_ms;
    if (is_alive_elsewhere(context, suspicion->silent, suspicion->silent_ms))
        blame_network(context, GCOLL_ERR_TIMEOUT, suspicion->silent, suspicion->silent_ms);
    else
        gcoll_break_operation(
            context, GCOLL_ERR_TIMEOUT, suspicion->silent,
            "timed out after %lld ms: rank %u does not answer, nothing arrives from it any more; it may be "
            "stopped, or not in a gcoll call, or the network between may be cut",
            (long long)ms, suspicion->silent);
}

/* Whether a rank has begun the operation in which this rank waits. Then it waits there itself, like this one.
 */
static bool has_begun(const gcoll_context *context, uint32_t rank) {
    uint64_t stream;
    return rank != GCOLL_NO_RANK && find_concern(context, &stream) &&
           context->live->watcher->vitals[rank].position >= stream;
}

/* Ends a wait although all ranks answer. A rank that knows a culprit had time to report it before. */
static void blame_waited(gcoll_context *context, const struct suspicion *suspicion, int64_t quiet_ms) {
    const uint32_t waited = suspicion->waited;
    if (has_begun(context, waited))
        gcoll_break_operation(context, GCOLL_ERR_TIMEOUT, GCOLL_NO_RANK,
                              "timed out after %lld ms waiting for rank %u, which answers, has begun this "
                              "operation, and may wait for another rank",
                              (long long)quiet_ms, waited);
    else
        gcoll_break_operation(
            context, GCOLL_ERR_TIMEOUT, waited,
            "timed out after %lld ms waiting for rank %u, which answers and has begun %llu operations",
            (long long)quiet_ms, waited,
            waited == GCOLL_NO_RANK ? 0ULL
                                    : (unsigned long long)context->live->watcher->vitals[waited].position);
}

/* Whether the call has its own limit, which covers all of its time. The context's limit covers only the time
 * in which no data moves, neither here nor at the ranks that this rank waits for. */
static bool has_own_limit(const gcoll_watch *watch) {
    return watch->timeout_ms > 0;
}

static void count(gcoll_watch *watch, int64_t passed_ms, bool moved) {
    watch->age_ms += passed_ms;
    watch->used_ms = moved && !has_own_limit(watch) ? 0 : watch->used_ms + passed_ms;
}

/* Suspects only ranks that the current wait needs: when its time is over, no other rank is blamed. */
static struct suspicion find_suspects_at_hand(gcoll_context *context, const gcoll_watch *watch) {
    struct suspicion suspicion = no_suspects(context);
    if (!context->endpoint)
        return suspicion;
    if (!watch->wait || !watch->wait->each_waited)
        return find_suspects(context);
    watch->wait->each_waited(watch->wait->arg, suspect_peer, &suspicion);
    return suspicion;
}

/* Whether data has moved since the last check: at this rank, at a device, or at another rank by its answers.
 */
static bool has_moved(gcoll_context *context, gcoll_watch *watch) {
    const uint32_t moves = context->endpoint ? context->transport->moves(context->endpoint) : 0;
    const uint32_t ended = gcoll_memory_ended(context->acceleration);
    const bool moved =
        moves != watch->moves || ended != watch->ended || context->live->watcher->news != watch->news;
    watch->moves = moves;
    watch->ended = ended;
    watch->news = context->live->watcher->news;
    if (moved) {
        watch->movements++;
        watch->moved_ms = context->live->watcher->watched_ms;
    }
    return moved;
}

/* Ends a call whose own limit is over while data still moves: no rank is at fault. */
static void blame_limit(gcoll_context *context, const struct suspicion *suspicion, int64_t waited_ms) {
    gcoll_break_operation(
        context, GCOLL_ERR_TIMEOUT, GCOLL_NO_RANK,
        "timed out after %lld ms, the limit of this call, while it waited for rank %u and data "
        "still moved",
        (long long)waited_ms, suspicion->waited);
}

/* An eighth of the limit: the shortest silence that may be blamed. */
static int64_t part_of_limit(const gcoll_context *context) {
    return context->live->watcher->limit_ms / GCOLL_PROBES_PER_TIMEOUT + 1;
}

/* The time after which a wait ends although all ranks answer. The ranks that wait for the culprit itself know
 * it, and end first. A rank that has begun the operation waits for others, like this one. */
static int64_t last_limit_ms(const gcoll_context *context, const gcoll_watch *watch, uint32_t waited) {
    const int64_t limit_ms = context->live->watcher->limit_ms;
    const bool is_behind = has_begun(context, waited) || (watch->wait && watch->wait->is_behind);
    return limit_ms + (is_behind ? LAST_PARTS : INFORMED_PARTS) * part_of_limit(context);
}

/* Decides the blame when the current wait is over. A silent peer is blamed before a busy device: the device
 * may be working for other operations. */
static void blame_somebody(gcoll_context *context, const gcoll_watch *watch) {
    const struct suspicion suspicion = find_suspects_at_hand(context, watch);
    const int64_t used_ms = watch->used_ms, part_ms = part_of_limit(context);
    const bool is_over = used_ms >= context->live->watcher->limit_ms;
    if (suspicion.silent != GCOLL_NO_RANK && (suspicion.silent_ms >= context->live->watcher->limit_ms ||
                                              (is_over && suspicion.silent_ms >= part_ms)))
        blame_silent(context, &suspicion, used_ms);
    else if (is_over && gcoll_memory_is_busy(context->acceleration))
        gcoll_break_operation(context, GCOLL_ERR_TIMEOUT, context->rank,
                              "timed out after %lld ms: a device of rank %u has not finished its work",
                              (long long)used_ms, context->rank);
    else if (is_over && suspicion.hearsay != GCOLL_NO_RANK)
        gcoll_break_operation(context, GCOLL_ERR_TIMEOUT, suspicion.hearsay,
                              "timed out after %lld ms: rank %u waits for rank %u, which does not answer",
                              (long long)used_ms, suspicion.teller, suspicion.hearsay);
    else if (is_over && context->endpoint && context->live->watcher->watched_ms - watch->moved_ms < part_ms)
        blame_limit(context, &suspicion, used_ms);
    else if (context->endpoint && used_ms >= last_limit_ms(context, watch, suspicion.waited))
        blame_waited(context, &suspicion, used_ms);
}

/* Breaks the context if a limit is over. `all` are the suspects among all ranks that this rank waits for. */
static void give_up(gcoll_context *context, const gcoll_watch *watch, const struct suspicion *all) {
    const int64_t mute_ms = context->settings.silence_ms - gcoll_watch_interval_ms(context);
    if (context->settings.silence_ms > 0 && all->mute != GCOLL_NO_RANK && all->mute_ms >= mute_ms)
        blame_host(context, all);
    else if (watch->used_ms >= context->live->watcher->limit_ms ||
             (watch->age_ms >= context->live->watcher->limit_ms &&
              all->silent_ms >= context->live->watcher->limit_ms))
        blame_somebody(context, watch);
}

/* The time until the next check: the interval of probes, or less if a deadline comes first. */
static int64_t next_look_ms(const gcoll_context *context, const gcoll_watch *watch,
                            const struct suspicion *suspicion) {
    const int64_t limit_ms = context->live->watcher->limit_ms, part_ms = part_of_limit(context);
    const int64_t left[] = {limit_ms - watch->used_ms, limit_ms + INFORMED_PARTS * part_ms - watch->used_ms,
                            limit_ms + LAST_PARTS * part_ms - watch->used_ms,
                            limit_ms - suspicion->silent_ms};
    int64_t next = gcoll_watch_interval_ms(context);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        if (left[i] > 0 && left[i] < next)
            next = left[i];
    return next;
}

static void begin_watch(gcoll_context *context, gcoll_watch *watch) {
    gcoll_watcher *watcher = context->live->watcher;
    if (!watcher->vitals && context->endpoint) {
        watcher->vitals = gcoll_allocate_zeroed(context, context->size * sizeof *watcher->vitals);
        if (!watcher->vitals) {
            gcoll_break(context, GCOLL_ERR_NO_MEMORY, context->rank, "rank %u, to watch over a wait: %s",
                        context->rank, gcoll_last_error());
            return;
        }
    }
    has_moved(context, watch);
    watch->moved_ms = watch->announced_ms = watcher->watched_ms;
    watcher->first_round =
        ++watcher->probe_round + 1; /* skips a round: no peer counts as probed in the round before */
}

/* Whether the announcer will not announce this call. It announces a call before it begins it. So if it has
 * begun more operations than this rank, no announcement is on its way: it did not make this call, or not in
 * this form. */
static bool announces_nothing(const gcoll_context *context, const gcoll_activity *activity) {
    const gcoll_watcher *watcher = context->live->watcher;
    const uint32_t rank = activity->announcer(context);
    if (rank == GCOLL_NO_RANK)
        return false;
    const gcoll_vitals *life = &watcher->vitals[rank];
    return life->asked == watcher->probe_round && life->answered && life->position > context->live->position;
}

static void heed_announcements(gcoll_context *context, gcoll_watch *watch) {
    const gcoll_watcher *watcher = context->live->watcher;
    const gcoll_activity *waits = NULL;
    for (uint32_t i = 0; i < GCOLL_ACTIVITIES && !waits; i++) {
        const gcoll_activity *activity = context->live->activities[i];
        if (activity && activity->announcer && announces_nothing(context, activity))
            waits = activity;
    }
    if (!waits) {
        watch->announced_ms = watcher->watched_ms;
        return;
    }
    const int64_t since_ms = watch->moved_ms > watch->announced_ms ? watch->moved_ms : watch->announced_ms;
    if (watcher->watched_ms - since_ms >= context->settings.timeout_ms / GCOLL_PROBES_PER_TIMEOUT)
        waits->not_announced(context, watcher->vitals[waits->announcer(context)].position);
}

/* The part of the passed time that counts. A long absence of this thread does not count in full: peers must
 * not be blamed for time in which nobody looked. */
static int64_t time_that_counts(const gcoll_context *context, int64_t passed_ms) {
    const int64_t most_ms = 2 * gcoll_watch_interval_ms(context);
    return passed_ms < 0 ? 0 : passed_ms < most_ms ? passed_ms : most_ms;
}

static int64_t pass_time(gcoll_context *context, gcoll_watch *watch, int64_t now) {
    gcoll_watcher *watcher = context->live->watcher;
    const int64_t passed_ms = time_that_counts(context, now - watch->last_ms);
    const int64_t new_ms = now - watcher->passed_ms; /* else another thread's wait has counted it */
    watcher->watched_ms += passed_ms < new_ms ? passed_ms : new_ms < 0 ? 0 : new_ms;
    watcher->passed_ms = now;
    watch->last_ms = now;
    return passed_ms;
}

/* Looks for suspects, gives up if a limit is over, and sends probes. Runs once in an interval of probes, or
 * when the current wait is over. */
static void look_around(gcoll_context *context, gcoll_watch *watch, int64_t now) {
    struct suspicion suspicion = no_suspects(context);
    if (watch->probed && context->endpoint)
        suspicion = find_suspects(context);
    if (watch->probed)
        give_up(context, watch, &suspicion);
    if (!context->health.broken && watch->probed)
        heed_announcements(context, watch);
    if (!context->health.broken && context->endpoint)
        probe_round(context, &suspicion);
    if (!context->health.broken && gcoll_rendezvous_is_due(context, now) &&
        now - watch->started_ms >= KEEP_WITHIN_MS)
        gcoll_rendezvous_keep(context);
    watch->probed = true;
    watch->next_probe_ms = now + next_look_ms(context, watch, &suspicion);
}

void gcoll_watch_over(gcoll_context *context, gcoll_watch *watch, int64_t now) {
    const int64_t passed_ms = pass_time(context, watch, now);
    if (!watch->probed)
        begin_watch(context, watch);
    count(watch, passed_ms, !watch->probed || has_moved(context, watch));
    if (!context->health.broken)
        look_around(context, watch, now);
}

void gcoll_watch_keep(gcoll_context *context, const gcoll_watch *watch) {
    context->live->watcher->tested = *watch;
    context->live->watcher->tested.wait = NULL;
}

/* Ends the watch of one wait. Work in flight may still need the doubted rank, so the doubt stays until none
 * is left. */
void gcoll_watch_forget(gcoll_context *context) {
    publish_rumour(context, GCOLL_NO_RANK, 0);
    if (!gcoll_live_in_flight(context))
        set_doubt(context, GCOLL_NO_RANK);
}

/* ---- Requests that are tested ------------------------------------------------------------- */

/* Counts the waiting time of one request. Each request has its own count, as some are tested more often than
 * others. */
static void count_tested(gcoll_context *context, gcoll_watch *watch, gcoll_tested *tested, int64_t now) {
    const bool is_first = tested->looked_ms == 0;
    const int64_t passed_ms =
        is_first ? -GCOLL_WATCH_CLOCK_MS : time_that_counts(context, now - tested->looked_ms);
    const bool moved = !is_first && tested->movements != watch->movements;
    watch->used_ms = tested->used_ms;
    watch->age_ms = tested->age_ms;
    count(watch, passed_ms, moved);
    tested->used_ms = watch->used_ms;
    tested->age_ms = watch->age_ms;
    tested->movements = watch->movements;
    tested->looked_ms = is_first ? gcoll_now_ms() : now; /* the coarse clock may be behind by any time */
}

/* Whether the request's time has just passed the limit, or one of the later points at which a wait ends. */
static bool is_just_over(const gcoll_context *context, int64_t before_ms, int64_t used_ms) {
    const int64_t limit_ms = context->live->watcher->limit_ms, part_ms = part_of_limit(context);
    const int64_t points[] = {limit_ms, limit_ms + INFORMED_PARTS * part_ms, limit_ms + LAST_PARTS * part_ms};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        if (before_ms < points[i] && used_ms >= points[i])
            return true;
    return false;
}

/* Counts the time of a test, and tells whether it is time to look around. */
static bool is_due(gcoll_context *context, gcoll_watch *watch, gcoll_tested *tested, bool is_new,
                   int64_t now) {
    const int64_t before_ms = tested->used_ms, interval = gcoll_watch_interval_ms(context);
    pass_time(context, watch, now);
    if (watch->probed)
        has_moved(context, watch);
    count_tested(context, watch, tested, now);
    if (is_new && watch->next_probe_ms <= now) /* most requests are done before the first probe */
        watch->next_probe_ms = now + interval / GCOLL_WATCH_FIRST_PART;
    if (watch->next_probe_ms > now + interval) /* left over from a request with a longer limit */
        watch->next_probe_ms = now + interval;
    return now >= watch->next_probe_ms || is_just_over(context, before_ms, tested->used_ms);
}

gcoll_status gcoll_watch_look(gcoll_context *context, gcoll_tested *tested, const gcoll_wait *wait,
                              bool is_alone) {
    const int64_t now = gcoll_now_coarse_ms();
    gcoll_watcher *watcher = context->live->watcher;
    gcoll_watch *watch = &watcher->tested;
    if (now <= tested->looked_ms)
        return GCOLL_OK;
    if (gcoll_rendezvous_is_due(context, now) && !context->health.broken)
        gcoll_rendezvous_keep(context);
    watch->wait = wait;
    watch->timeout_ms = wait->timeout_ms;
    watcher->limit_ms = gcoll_timeout_of(context, wait->timeout_ms);
    if (!is_due(context, watch, tested, tested->looked_ms == 0 && is_alone, now))
        return GCOLL_OK;
    /* A short poll may miss data from peers that no receive waits for. Read everything before blaming a peer
     * for silence. */
    gcoll_status status = gcoll_progress(context, HEAR_US);
    if (status != GCOLL_OK || wait->done(wait->arg))
        return status;
    watch->started_ms = now;
    if (!watch->probed)
        begin_watch(context, watch);
    if (!context->health.broken)
        look_around(context, watch, now);
    return gcoll_progress(context, 0); /* sends the probes */
}
