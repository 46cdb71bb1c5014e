/*
 * gcoll/rendezvous/leases.c - leases: a waiting rank shows through the store that it is alive, and others
 * check.
 *
 * A waiting rank changes "gcoll/<job>/<generation>/alive.<rank>" now and then. Other ranks look at the key
 * only if they cannot see the rank's process. On the same host only the process counts, so a rank of a busy
 * machine is not taken for dead. Clocks of hosts are not compared: an observer measures how long it has seen
 * no change.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gcoll/rendezvous/meeting.h"

#define INTERVAL_MS      250
#define LEAD_INTERVAL_MS 50   /* rank 0's: others see its lease change before they join */
#define LOST_MS          3000 /* without a change */
#define LOST_INTERVALS   4

int64_t gcoll_lease_interval_ms(const gcoll_context *context) {
    return context->size > INTERVAL_MS
               ? context->size
               : INTERVAL_MS; /* all ranks together: at most a thousand changes a second */
}

void gcoll_lease_renew(gcoll_context *context) {
    gcoll_meeting *meeting = context->rendezvous->meeting;
    const int64_t now = gcoll_now_ms();
    const int64_t interval = context->rank == 0 ? LEAD_INTERVAL_MS : gcoll_lease_interval_ms(context);
    char key[GCOLL_STORE_KEY_MAX + 1], beat[24];
    if (meeting->next_beat_ms == 0) /* the first renewal is delayed: most meetings end before it */
        meeting->next_beat_ms = now + interval;
    if (now < meeting->next_beat_ms)
        return;
    meeting->next_beat_ms = now + interval;
    int bytes = snprintf(beat, sizeof beat, "%" PRIu64, ++meeting->beats);
    gcoll_rendezvous_key(context, key, "%s/alive.%u", context->rendezvous->generation, context->rank);
    gcoll_visit_set(context, key, beat, (size_t)bytes);
}

/* Reads a lease, and counts how long it has not changed. Time in which this rank did not look does not count:
 * it may itself have been stopped. */
static void look(gcoll_context *context, const char *key, gcoll_pulse *pulse) {
    const int64_t now = gcoll_now_ms(), longest = 2 * gcoll_lease_interval_ms(context);
    char beat[sizeof pulse->beat];
    gcoll_status status = gcoll_visit_text(context, key, beat, sizeof beat);
    if (status != GCOLL_OK && status != GCOLL_ERR_NOT_FOUND)
        return; /* unknown; the next request that matters reports the store's error */
    if (!pulse->seen || strcmp(beat, pulse->beat) != 0) {
        pulse->moved = pulse->seen;
        pulse->seen = true;
        pulse->still_ms = 0;
        memcpy(pulse->beat, beat, sizeof beat);
    } else {
        const int64_t watched = now - pulse->looked_ms;
        pulse->still_ms += watched < longest ? watched : longest;
    }
    pulse->looked_ms = now;
}

gcoll_life gcoll_lease_life(gcoll_context *context, const char *generation, uint32_t rank,
                            const gcoll_claimant *who, gcoll_pulse *pulse) {
    const int64_t interval = gcoll_lease_interval_ms(context);
    const int64_t lost = LOST_INTERVALS * interval > LOST_MS ? LOST_INTERVALS * interval : LOST_MS;
    char key[GCOLL_STORE_KEY_MAX + 1];
    const gcoll_life life = gcoll_claimant_life(&context->rendezvous->meeting->self, who);
    if (life != GCOLL_LIFE_UNKNOWN)
        return life;
    gcoll_rendezvous_key(context, key, "%s/alive.%u", generation, rank);
    look(context, key, pulse);
    if (pulse->still_ms >= lost)
        return GCOLL_LIFE_DEAD;
    return pulse->moved ? GCOLL_LIFE_ALIVE : GCOLL_LIFE_UNKNOWN;
}
