/* transport/ibverbs/side.c - handles the events of the side channel, and drives it. */
#include <stdio.h>
#include <string.h>

#include "transport/ibverbs/pair.h"
#include "transport/session/side.h"

static void on_opened(void *arg, uint32_t peer, uint64_t stream,
                      const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    gcoll_ib *ib = arg;
    if (ib->leaving)
        return;
    if (stream != GCOLL_IB_STREAM) {
        ib->moved = true;
        ib->events.opened(ib->events.arg, peer, stream, fingerprint);
        return;
    }
    gcoll_ib_pair *pair = gcoll_ib_pair_of(ib, peer);
    if (pair)
        gcoll_ib_meet(pair);
}

static void on_failed(void *arg, uint32_t peer, gcoll_status status, const char *text) {
    gcoll_ib *ib = arg;
    gcoll_ib_pair *pair = gcoll_ib_pair_of(ib, peer);
    if (pair) {
        gcoll_ib_poll(ib); /* take the data that arrived before the failure */
        gcoll_ib_fail(pair, status, "%s", text);
    }
}

static void on_departed(void *arg, uint32_t peer) {
    gcoll_ib *ib = arg;
    gcoll_ib_pair *pair = gcoll_ib_pair_of(ib, peer);
    if (!pair)
        return;
    gcoll_ib_poll(ib);
    pair->side_closed = true;
    if (pair->state == GCOLL_IB_CONNECTED && !pair->goodbye)
        gcoll_ib_linger(pair);
    else
        gcoll_ib_depart(pair);
}

static void on_aborted(void *arg, uint32_t from, const gcoll_note *note) {
    gcoll_ib *ib = arg;
    gcoll_ib_pair *pair = gcoll_ib_pair_of(ib, from);
    if (pair)
        pair->told = true;
    if (!ib->leaving) {
        gcoll_ib_poll(ib);
        gcoll_ib_report_completed(ib);
        ib->moved = true;
        ib->events.aborted(ib->events.arg, from, note);
    }
}

static void on_answered(void *arg, uint32_t peer, const gcoll_answer *answer) {
    gcoll_ib *ib = arg;
    if (!ib->leaving) {
        ib->moved = true;
        ib->events.answered(ib->events.arg, peer, answer);
    }
}

static void on_witnessed(void *arg, uint32_t peer, uint32_t about, int64_t ago_ms) {
    gcoll_ib *ib = arg;
    if (!ib->leaving && ib->events.witnessed) {
        ib->moved = true;
        ib->events.witnessed(ib->events.arg, peer, about, ago_ms);
    }
}

const gcoll_events gcoll_ib_side_events = {
    .opened = on_opened,
    .failed = on_failed,
    .departed = on_departed,
    .aborted = on_aborted,
    .answered = on_answered,
    .witnessed = on_witnessed,
};

void gcoll_ib_side_look(gcoll_ib *ib, int64_t wait_us) {
    ib->polls = 0;
    bool moved;
    gcoll_status status = gcoll_transport_tcp.progress(ib->side, wait_us, &moved);
    if (status != GCOLL_OK)
        gcoll_ib_problem(ib, status);
    ib->busy = ib->busy || moved;
    if (ib->doubt_count > 0)
        gcoll_ib_settle_doubts(ib);
}
