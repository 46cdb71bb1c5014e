/*
 * transport/tcp/checked.c - receives payloads on connections with checksums.
 *
 * The sender cuts messages into fragments of at most GCOLL_WIRE_CHECKED_MAX bytes, each with its CRC32C. The
 * receiver uses no byte of a fragment before the whole fragment has arrived and matches its checksum. So a
 * slot's `received` counts checked bytes only. An incomplete fragment lies in the session's fragment buffer,
 * or, if a receive without `consume` is posted, in the caller's memory, which is not valid before `done`
 * anyway.
 */
#include <string.h>

#include "transport/session/session.h"

void gcoll_session_changed(gcoll_session *session, const char *what) {
    if (session->state == GCOLL_SESSION_CONNECTED) {
        session->changed = true;
        gcoll_session_fail(session, GCOLL_ERR_IO, "%s", what);
    }
}

void gcoll_tcp_checked_begin(gcoll_session *session) {
    gcoll_session_input *in = &session->input;
    const gcoll_message *message = in->slot ? in->slot->message : NULL;
    in->arrived = 0;
    in->sum = 0;
    in->in_place = message && !message->consume;
}

uint8_t *gcoll_tcp_checked_target(gcoll_session *session, size_t *count) {
    gcoll_session_input *in = &session->input;
    gcoll_slot *slot = in->slot;
    *count = (size_t)in->remaining;
    if (!slot) {
        *count = *count < GCOLL_SESSION_HOT_BYTES ? *count : GCOLL_SESSION_HOT_BYTES;
        return session->net->hot_bytes;
    }
    if (in->in_place) {
        const uint64_t before = slot->received + in->arrived;
        uint8_t *data = slot->message->data; /* may be NULL if the message is empty */
        return before > 0 ? data + before : data;
    }
    return in->fragment + in->arrived;
}

/* Delivers a complete fragment with a correct checksum. It lies at `bytes`, or, if that is NULL, in the
 * caller's memory. */
static void deliver(gcoll_session *session, const uint8_t *bytes, uint64_t count) {
    gcoll_slot *slot = session->input.slot;
    session->input.slot = NULL;
    gcoll_tcp_accept(session, slot, bytes, count);
}

static bool is_intact(gcoll_session *session, uint32_t sum) {
    if (sum != session->input.sums.payload) {
        gcoll_session_changed(session, "a payload with a wrong checksum");
        return false;
    }
    return true;
}

/* Adds a part of a fragment to the parts that have arrived. */
static void gather(gcoll_session *session, const uint8_t *bytes, size_t count) {
    gcoll_session_input *in = &session->input;
    size_t room;
    uint8_t *at = gcoll_tcp_checked_target(session, &room);
    if (bytes)
        memcpy(at, bytes, count);
    if (in->in_place)
        in->sum = session->net->crc(in->sum, at, count); /* while it is in cache */
    in->arrived += count;
    in->remaining -= count;
}

void gcoll_tcp_checked_accept(gcoll_session *session, const uint8_t *bytes, size_t count) {
    gcoll_session_input *in = &session->input;
    const gcoll_crc32c_fn crc = session->net->crc;
    if (!in->slot) {
        in->remaining -= count;
        return;
    }
    if (bytes && in->arrived == 0 && count == in->remaining) {
        in->remaining = 0;
        if (is_intact(session, crc(0, bytes, count)))
            deliver(session, bytes, count);
        return;
    }
    gather(session, bytes, count);
    if (in->remaining > 0)
        return;
    if (is_intact(session, in->in_place ? in->sum : crc(0, in->fragment, in->arrived)))
        deliver(session, in->in_place ? NULL : in->fragment, in->arrived);
}
