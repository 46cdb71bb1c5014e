/* transport/ibverbs/pair.c - the state for one peer: created when its session takes this lane, dropped in
 * steps. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/pair.h"

gcoll_ib_pair *gcoll_ib_pair_new(gcoll_ib *ib, gcoll_session *session) {
    gcoll_ib_pair *pair = calloc(1, sizeof *pair);
    if (!pair) {
        (gcoll_error)(GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", gcoll_session_rank(session));
        return NULL;
    }
    pair->ib = ib;
    pair->session = session;
    pair->flow = (gcoll_flow *)(void *)session;
    pair->rank = gcoll_session_rank(session);
    pair->next_known = ib->known;
    ib->known = pair;
    gcoll_session_set_lane_state(session, pair);
    return pair;
}

void gcoll_ib_broke(gcoll_ib_pair *pair, const char *format, ...) {
    char text[GCOLL_IB_FAULT_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (pair->ended)
        return;
    if (pair->stands)
        gcoll_session_doubt(pair->session, GCOLL_IB_DOUBT_MS, false, "%s", text);
    else
        gcoll_session_refuse(pair->session, GCOLL_ERR_PEER, text);
}

/* ---- Dropping -------------------------------------------------------------------------------------- */

void gcoll_ib_release(gcoll_ib_pair *pair, gcoll_message *message) {
    if (message && message->region) {
        gcoll_ib_unregister(pair->ib, message->region);
        message->region = NULL;
    }
}

/* Whether the device may still access the caller's memory for this pair. */
static bool exposes_memory(const gcoll_ib_pair *pair) {
    for (uint32_t i = 0; i < GCOLL_IB_PIECES; i++)
        if (pair->pieces[i].slot && pair->pieces[i].chunk == GCOLL_IB_CHUNKS)
            return true;
    return pair->ib->exposed_count > 0 || pair->writes_posted != pair->writes_finished;
}

/* Drops what the queue pair has to do with messages. */
static void drop_moving(gcoll_ib_pair *pair) {
    for (uint32_t i = 0; i < GCOLL_IB_PIECES; i++)
        if (pair->targets[i].used)
            gcoll_ib_release(pair, pair->targets[i].message);
    for (uint32_t i = 0; i < GCOLL_IB_DEPTH; i++) {
        gcoll_ib_release(pair, pair->sent[i]);
        pair->sent[i] = NULL;
    }
    memset(pair->targets, 0, sizeof pair->targets);
    pair->write_head = pair->write_count = 0;
    gcoll_message_queue_clear(&pair->messages);
    for (gcoll_message *access = pair->accesses.first; access; access = access->next)
        gcoll_ib_release(pair, access);
    gcoll_message_queue_clear(&pair->accesses);
    free(pair->control.bytes);
    memset(&pair->control, 0, sizeof pair->control);
    memset(pair->pieces, 0, sizeof pair->pieces);
    memset(&pair->ahead, 0, sizeof pair->ahead);
    memset(&pair->wanted, 0, sizeof pair->wanted);
    pair->piece_count = 0;
}

void gcoll_ib_drop(gcoll_session *session) {
    gcoll_ib_pair *pair = gcoll_session_lane_state(session);
    if (!pair)
        return;
    if (exposes_memory(pair))
        gcoll_ib_queue_destroy(pair);
    drop_moving(pair);
}

void gcoll_ib_end(gcoll_session *session) {
    gcoll_ib_pair *pair = gcoll_session_lane_state(session);
    if (!pair)
        return;
    gcoll_ib_queue_destroy(pair);
    gcoll_ib_proof_ended(pair);
    drop_moving(pair);
    pair->stands = pair->says_proof = false;
    pair->ended = true; /* freed with the port, as it may be in a list that is being walked */
}

/* ---- Leaving --------------------------------------------------------------------------------------- */

/* Queues a goodbye, whose acknowledgement covers all earlier data, and drops everything that is not in a send
 * queue yet. */
void gcoll_ib_leave(gcoll_session *session) {
    gcoll_ib_pair *pair = gcoll_session_lane_state(session);
    gcoll_message_queue_clear(&pair->messages);
    gcoll_message_queue_clear(&pair->accesses);
    pair->write_count = 0;
    pair->control.begin = pair->control.end = 0;
    pair->says_goodbye = gcoll_ib_stands(pair) && pair->qp;
    gcoll_ib_want_output(pair);
}

bool gcoll_ib_is_leaving(const gcoll_session *session) {
    const gcoll_ib_pair *pair = gcoll_session_lane_state(session);
    return gcoll_ib_stands(pair) && pair->qp &&
           (pair->says_goodbye || pair->posted_sends != pair->finished_sends);
}
