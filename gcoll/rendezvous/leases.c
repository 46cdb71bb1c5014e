/*
 * gcoll/rendezvous/leases.c - showing that one lives while one waits, and seeing that another does.
 *
 * A rank that waits for the others changes "gcoll/<job>/<generation>/alive.<rank>" now and then. Others look
 * at it only where they cannot see the rank's process: on a host of its own the process alone counts, so that
 * no rank of a busy machine is taken for dead. Clocks of hosts are not compared: what counts is for how long
 * the observer has seen no change.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gcoll/rendezvous/meeting.h"

#define INTERVAL_MS      250
#define LEAD_INTERVAL_MS 50   /* rank 0's, which others wait to see move before they join it */
#define LOST_MS          3000 /* without a change */
#define LOST_INTERVALS   4

int64_t gcoll_lease_interval_ms(const gcoll_context *context) {
    return context->size > INTERVAL_MS ? context->size : INTERVAL_MS; /* a thousand changes a second in all */
}

void gcoll_lease_renew(gcoll_context *context) {
    gcoll_meeting *meeting = context->rendezvous->meeting;
    const int64_t now = gcoll_now_ms();
    const int64_t interval = context->rank == 0 ? LEAD_INTERVAL_MS : gcoll_lease_interval_ms(context);
    char key[GCOLL_STORE_KEY_MAX + 1], beat[24];
    if (meeting->next_beat_ms == 0) /* most are here before that */
        meeting->next_beat_ms = now + interval;
    if (now < meeting->next_beat_ms)
        return;
    meeting->next_beat_ms = now + interval;
    int bytes = snprintf(beat, sizeof beat, "%" PRIu64, ++meeting->beats);
    gcoll_rendezvous_key(context, key, "%s/alive.%u", context->rendezvous->generation, context->rank);
    gcoll_visit_set(context, key, beat, (size_t)bytes);
}

/* Time in which nobody looked does not count: this rank itself may have been stopped, with the other or
 * alone.
 */
static void look(gcoll_context *context, const char *key, gcoll_pulse *pulse) {
    const int64_t now = gcoll_now_ms(), longest = 2 * gcoll_lease_interval_ms(context);
    char beat[sizeof pulse->beat];
    gcoll_status status = gcoll_visit_text(context, key, beat, sizeof beat);
    if (status != GCOLL_OK && status != GCOLL_ERR_NOT_FOUND)
        return; /* nothing is known; the next visit that matters says why */
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
