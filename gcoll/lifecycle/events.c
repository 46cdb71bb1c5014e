/* gcoll/lifecycle/events.c - passes the transport's events to the modules: new operations, and peers that
 * fail, leave or abort. */
#include "gcoll/lifecycle/lifecycle.h"
#include "gcoll/oneside/oneside.h"
#include "gcoll/run/run.h"

static void on_opened(void *arg, uint32_t peer, uint64_t stream,
                      const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    gcoll_peer_met(arg, peer);
    if (stream & GCOLL_STREAM_TAG)
        return;
    if (stream & GCOLL_STREAM_ACCESS)
        gcoll_access_arrived(arg, peer, stream, fingerprint);
    else if (stream > 0 && stream < GCOLL_STREAM_ROLL)
        gcoll_opening_arrived(arg, peer, stream, fingerprint);
}

static void on_failed(void *arg, uint32_t peer, gcoll_status status, const char *text) {
    gcoll_peer_failed(arg, peer, status, text);
}

static void on_departed(void *arg, uint32_t peer) {
    gcoll_peer_departed(arg, peer);
}

static void on_changed(void *arg, uint32_t peer, const char *text) {
    gcoll_peer_changed(arg, peer, text);
}

static void on_aborted(void *arg, uint32_t from, const gcoll_note *note) {
    gcoll_break_reported(arg, note, from);
}

const gcoll_events gcoll_context_events = {
    .opened = on_opened,
    .failed = on_failed,
    .departed = on_departed,
    .aborted = on_aborted,
    .answered = gcoll_watch_answered,
    .witnessed = gcoll_watch_witnessed,
    .changed = on_changed,
};
